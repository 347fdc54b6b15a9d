/* SPDX-License-Identifier: MIT
 *
 * fused_update: many variables in one pass. The elements of all parts, one part after
 * the other, are cut into tasks of a fixed number, so that small variables share one; a
 * task goes through what it has of a part in blocks that fit the first-level cache, and
 * each block through the instructions' block functions (blocks.c). A result goes
 * straight into its variable where no later instruction needs what was there. Single
 * elements, such as a learning rate, are spread over a block once per task. All of that
 * is worked out when the kernel is prepared; a run allocates nothing.
 *
 * The gradient of a gather is never there as a whole: a block of it is made where it is
 * needed, of zeros and of the rows that indices name.
 *
 * Where a part computes the formula of a known optimizer, a loop of update_rules.c does
 * it, and instructions do what comes before, such as clipping the gradient. */
#include <string.h>

#include "kernels/core/row_groups_impl.h"
#include "kernels/element/update_rules_impl.h"

enum { TASK_ELEMENTS = 8192, BLOCK_ELEMENTS = 512, BLOCK_BYTES = BLOCK_ELEMENTS * 8 };

/* One of a part's inputs or variables. */
typedef struct source {
    uint32_t index; /* of the call's inputs, or of its outputs */
    uint32_t bytes; /* of an element */
    bool is_variable;
    bool is_single;
} source;

typedef struct update_step {
    ipu__block block;
    uint8_t operands[3];
    uint8_t result; /* operand */
    uint8_t target; /* temporary, or where `is_stored` the operand of a variable */
    bool is_stored;
} update_step;

/* Values to copy into a variable at the end of a block. */
typedef struct store {
    uint8_t operand;
    uint8_t variable; /* operand, too */
} store;

/* An input that is the gradient of a gather. */
typedef struct row_source {
    ipu__gather rows;
    uint32_t operand;
    uint32_t index; /* of the call's inputs: the indices; then come the rows */
    size_t room;    /* where in the workspace the groups are, then what they hold */
} row_source;

typedef struct update_part {
    int64_t first; /* of its elements among those of all parts */
    int64_t elements;
    uint32_t sources; /* inputs, then variables; single inputs are not distinct */
    uint32_t steps;
    uint32_t stores;
    const source *source;
    const update_step *step;
    const store *store;
    uint32_t row_sources;
    const row_source *row_source;
    const ipu__update_rule *rule; /* NULL: none */
} update_part;

/* Prepared. */
typedef struct update_plan {
    ipu_cpu_class cpu;
    int64_t elements;
    uint32_t parts;
    update_part part[];
} update_plan;

/* 64-byte aligned, so that vectors never straddle cache lines. */
typedef struct buffer {
    _Alignas(64) unsigned char bytes[BLOCK_BYTES];
} buffer;

typedef struct scratch {
    buffer inputs[IPU_UPDATE_MAX_INPUTS]; /* single elements, spread; or rows */
    buffer temporaries[IPU_UPDATE_MAX_INSTRUCTIONS];
} scratch;

static void
spread(void *to, const void *from, uint32_t bytes, int64_t n)
{
    memcpy(to, from, bytes);
    for (int64_t done = 1; done < n; done *= 2) {
        memcpy(ipu__at_mutable(to, done * bytes), to,
               (size_t)(ipu__min(done, n - done) * bytes));
    }
}

static void
run_rule(const ipu_kernel_call *call, const update_part *part, void *const *values,
         int64_t n)
{
    const ipu__update_rule *rule = part->rule;
    float *variables[IPU_RULE_VARIABLES];
    const float *dense[IPU_RULE_DENSE];
    float singles[IPU_RULE_SINGLES];
    for (uint32_t k = 0; k < rule->variables; k++) {
        variables[k] = values[rule->variable[k]];
    }
    for (uint32_t k = 0; k < rule->dense; k++) {
        dense[k] = values[rule->dense_operand[k]];
    }
    for (uint32_t k = 0; k < rule->singles; k++) {
        const void *from = call->inputs[part->source[rule->single[k]].index];
        memcpy(&singles[k], from, sizeof(float));
    }
    ipu__update_rule_run(rule, variables, dense, singles, n);
}

static ipu__row_groups *
groups_of(const ipu_kernel_call *call, const row_source *from)
{
    return (void *)ipu__at_mutable(call->workspace, (int64_t)from->room);
}

/* Elements [at, at + n) of the gradient of a gather. */
static void
fill_rows(const ipu_kernel_call *call, const row_source *from, int64_t at, int64_t n,
          float *out)
{
    const update_plan *plan = call->spec->prepared;
    const ipu__row_groups *groups = groups_of(call, from);
    int64_t inner = from->rows.inner;
    memset(out, 0, (size_t)n * sizeof *out);
    for (int64_t g = ipu__row_group_from(groups, at / inner); g < groups->count; g++) {
        int64_t row = ipu__row_of_group(groups, g) * inner;
        int64_t begin = ipu__max(at, row);
        int64_t end = ipu__min(at + n, row + inner);
        if (row >= at + n) {
            break;
        }
        ipu__row_group_add(groups, g, call->inputs[from->index + 1], false, inner,
                           begin - row, end - begin, plan->cpu, out + (begin - at));
    }
}

/* Elements [at, at + n) of a part. */
static void
run_block(const ipu_kernel_call *call, const update_part *part, int64_t at, int64_t n,
          scratch *room)
{
    void *values[IPU_UPDATE_MAX_OPERANDS];
    for (uint32_t k = 0; k < part->sources; k++) {
        const source *from = &part->source[k];
        if (from->is_single) {
            values[k] = room->inputs[k].bytes;
            continue;
        }
        void *base = from->is_variable ? call->outputs[from->index]
                                       : (void *)call->inputs[from->index];
        values[k] = ipu__at_mutable(base, at * from->bytes);
    }
    for (uint32_t k = 0; k < part->row_sources; k++) {
        const row_source *from = &part->row_source[k];
        values[from->operand] = room->inputs[from->operand].bytes;
        fill_rows(call, from, at, n, values[from->operand]);
    }
    for (uint32_t s = 0; s < part->steps; s++) {
        const update_step *step = &part->step[s];
        void *result = step->is_stored ? values[step->target]
                                       : room->temporaries[step->target].bytes;
        (void)step->block.run(&step->block, result, values[step->operands[0]],
                              values[step->operands[1]], values[step->operands[2]], n);
        values[step->result] = result;
    }
    if (part->rule != NULL) {
        run_rule(call, part, values, n);
    }
    for (uint32_t k = 0; k < part->stores; k++) {
        const store *late = &part->store[k];
        memcpy(values[late->variable], values[late->operand],
               (size_t)n * part->source[late->variable].bytes);
    }
}

static void
run_part(const ipu_kernel_call *call, const update_part *part, int64_t begin,
         int64_t end, scratch *room)
{
    if (part->rule != NULL && part->steps == 0 && part->row_sources == 0) {
        /* which takes any number */
        run_block(call, part, begin, end - begin, room);
        return;
    }
    for (uint32_t k = 0; k < part->sources; k++) {
        const source *from = &part->source[k];
        if (from->is_single) {
            spread(room->inputs[k].bytes, call->inputs[from->index], from->bytes,
                   ipu__min(end - begin, BLOCK_ELEMENTS));
        }
    }
    for (int64_t at = begin; at < end; at += BLOCK_ELEMENTS) {
        run_block(call, part, at, ipu__min(end - at, BLOCK_ELEMENTS), room);
    }
}

/* The part that element `element` of all lies in. */
static uint32_t
part_at(const update_plan *plan, int64_t element)
{
    uint32_t first = 0;
    uint32_t end = plan->parts;
    while (end - first > 1) {
        uint32_t middle = first + (end - first) / 2;
        if (plan->part[middle].first <= element) {
            first = middle;
        } else {
            end = middle;
        }
    }
    return first;
}

static void
update_elements(void *state, int64_t begin, int64_t end)
{
    const ipu_kernel_call *call = state;
    const update_plan *plan = call->spec->prepared;
    scratch room;
    for (uint32_t p = part_at(plan, begin); p < plan->parts; p++) {
        const update_part *part = &plan->part[p];
        if (part->first >= end) {
            break;
        }
        int64_t from = begin > part->first ? begin - part->first : 0;
        run_part(call, part, from, ipu__min(end - part->first, part->elements), &room);
    }
}

static ipu_status
run(const ipu_kernel_call *call)
{
    const update_plan *plan = call->spec->prepared;
    ipu_kernel_call copy = *call;
    IPU_TRY(ipu__update_check_rows(call));
    for (uint32_t p = 0; p < plan->parts; p++) {
        const update_part *part = &plan->part[p];
        for (uint32_t k = 0; k < part->row_sources; k++) {
            const row_source *from = &part->row_source[k];
            ipu__row_groups *groups = groups_of(call, from);
            *groups = ipu__row_groups_make(&from->rows, call->inputs[from->index],
                                           groups + 1);
        }
    }
    ipu__run_items(call->pool, plan->elements, TASK_ELEMENTS, update_elements, &copy);
    return IPU_OK;
}

/* --- prepare ---------------------------------------------------------------------- */

typedef struct maker {
    const ipu__preparation *p;
    const ipu_update_part *code;
    update_part *part;
    ipu__update_rule *rule; /* NULL: none */
    source *source;
    row_source *row_source;
    update_step *step;
    store *store;
    uint32_t last_use[IPU_UPDATE_MAX_OPERANDS]; /* the step after which it is free */
} maker;

static ipu_status
make_room(const maker *m, size_t count, size_t bytes, void *out_pointer)
{
    return ipu_arena_alloc(m->p->ctx, m->p->arena, count * bytes, out_pointer);
}

static void
make_sources(maker *m)
{
    const ipu_kernel_spec *spec = m->p->spec;
    const ipu_update_part *code = m->code;
    for (uint32_t k = 0; k < m->part->sources; k++) {
        bool is_variable = k >= code->inputs;
        uint32_t index = is_variable ? code->first_variable + k - code->inputs
                                     : ipu_update_elements(code, k);
        const ipu_type *type =
            is_variable ? &spec->outputs[index] : &spec->inputs[index];
        m->source[k] = (source){
            .index = index,
            .bytes = (uint32_t)ipu_dtype_bytes(type->dtype),
            .is_variable = is_variable,
            .is_single = !is_variable && !ipu_update_is_rows(code, k) &&
                         ipu_shape_elements(&type->shape) == 1 &&
                         m->part->elements != 1,
        };
    }
}

static void
make_row_sources(maker *m)
{
    ipu_kernel_spec *spec = m->p->spec;
    const ipu_shape *shape = &spec->outputs[m->code->first_variable].shape;
    for (uint32_t k = 0; k < m->code->inputs; k++) {
        if (!ipu_update_is_rows(m->code, k)) {
            continue;
        }
        row_source *from = &m->row_source[m->part->row_sources++];
        *from = (row_source){.operand = k,
                             .index = ipu_update_elements(m->code, k) - 1,
                             .room = spec->workspace_bytes};
        ipu__gather_plan(&from->rows, spec->attrs, shape, &spec->inputs[from->index]);
        size_t bytes = sizeof(ipu__row_groups) + ipu__row_groups_bytes(&from->rows);
        spec->workspace_bytes += (bytes + 63) / 64 * 64;
    }
}

/* Whether all gradients of gathers are such that blocks of them can be made. */
static bool
serves_rows(const ipu_kernel_spec *spec, const ipu_update_part *part)
{
    const ipu_shape *shape = &spec->outputs[part->first_variable].shape;
    bool serves = true;
    for (uint32_t k = 0; k < part->inputs; k++) {
        if (ipu_update_is_rows(part, k)) {
            const ipu_type *type = &spec->inputs[ipu_update_elements(part, k)];
            ipu__gather rows;
            ipu__gather_plan(&rows, spec->attrs, shape, type - 1);
            serves &= type->dtype == IPU_DTYPE_FLOAT32 && ipu__row_groups_fit(&rows);
        }
    }
    return serves;
}

static const int64_t *
word_of(const maker *m, uint32_t step)
{
    return m->code->code + (size_t)step * IPU_FUSED_WORDS;
}

static bool
is_covered(const maker *m, uint32_t step)
{
    return m->rule != NULL && m->rule->covers[step];
}

static void
find_last_uses(maker *m)
{
    for (uint32_t s = 0; s < m->code->instructions; s++) {
        uint32_t when = is_covered(m, s) ? m->code->instructions : s;
        m->last_use[m->part->sources + s] = s;
        for (uint32_t k = 0; k < 3 && word_of(m, s)[2 + k] >= 0; k++) {
            uint32_t *last = &m->last_use[word_of(m, s)[2 + k]];
            *last = when > *last ? when : *last;
        }
    }
}

/* The variable that is given the result of step `s`, where it can be written at once.
 */
static bool
writes_at_once(const maker *m, uint32_t s, uint32_t *variable)
{
    for (uint32_t k = 0; k < m->code->variables; k++) {
        bool is_given = m->code->stored[k] == (int64_t)(m->part->sources + s);
        if (is_given && m->last_use[m->code->inputs + k] <= s) {
            *variable = m->code->inputs + k;
            return true;
        }
    }
    return false;
}

static ipu_dtype
dtype_of(const maker *m, int64_t operand)
{
    const ipu_kernel_spec *spec = m->p->spec;
    if (operand >= (int64_t)m->part->sources) {
        return (ipu_dtype)word_of(m, (uint32_t)operand - m->part->sources)[1];
    }
    const source *from = &m->source[operand];
    return (from->is_variable ? spec->outputs : spec->inputs)[from->index].dtype;
}

/* Temporaries are used again once nothing needs what they hold. */
static void
make_steps(maker *m)
{
    uint32_t free_behind[IPU_UPDATE_MAX_INSTRUCTIONS] = {0}; /* the step, plus 1 */
    for (uint32_t k = 0; k < m->code->variables; k++) { /* kept until they are copied */
        m->last_use[m->code->stored[k]] = m->code->instructions;
    }
    for (uint32_t s = 0; s < m->code->instructions; s++) {
        const int64_t *word = word_of(m, s);
        update_step *step = &m->step[m->part->steps];
        uint32_t variable = 0;
        if (is_covered(m, s)) {
            continue;
        }
        m->part->steps++;
        step->result = (uint8_t)(m->part->sources + s);
        for (uint32_t k = 0; k < 3; k++) {
            step->operands[k] = (uint8_t)(word[2 + k] >= 0 ? word[2 + k] : word[2]);
        }
        step->is_stored = m->rule == NULL && writes_at_once(m, s, &variable);
        step->target = (uint8_t)variable;
        for (uint8_t slot = 0; !step->is_stored && slot < IPU_UPDATE_MAX_INSTRUCTIONS;
             slot++) {
            if (free_behind[slot] <= s) {
                free_behind[slot] = m->last_use[m->part->sources + s] + 1;
                step->target = slot;
                break;
            }
        }
        ipu_dtype in = dtype_of(m, word[word[0] == IPU_OP_ID_SELECT ? 3 : 2]);
        ipu__block_prepare(&step->block, (ipu_op)word[0], in, (ipu_dtype)word[1],
                           m->p->cpu);
    }
}

static void
make_stores(maker *m)
{
    for (uint32_t k = 0; m->rule == NULL && k < m->code->variables; k++) {
        uint32_t variable = m->code->inputs + k;
        int64_t step = m->code->stored[k] - (int64_t)m->part->sources;
        if (step >= 0 && m->step[step].is_stored && m->step[step].target == variable) {
            continue;
        }
        m->store[m->part->stores++] = (store){.operand = (uint8_t)m->code->stored[k],
                                              .variable = (uint8_t)variable};
    }
}

static ipu_status
make_part(const ipu__preparation *p, const ipu_update_part *code, int64_t first,
          update_part *out)
{
    maker m = {.p = p, .code = code, .part = out};
    out->first = first;
    out->elements = ipu_shape_elements(&p->spec->outputs[code->first_variable].shape);
    out->sources = code->inputs + code->variables;
    ipu__update_rule rule;
    if (ipu__update_rule_find(p->spec, code, p->cpu, &rule)) {
        IPU_TRY(make_room(&m, 1, sizeof rule, &m.rule));
        *m.rule = rule;
        out->rule = m.rule;
    }
    IPU_TRY(make_room(&m, out->sources, sizeof(source), &m.source));
    IPU_TRY(make_room(&m, code->inputs, sizeof(row_source), &m.row_source));
    IPU_TRY(make_room(&m, code->instructions, sizeof(update_step), &m.step));
    IPU_TRY(make_room(&m, code->variables, sizeof(store), &m.store));
    out->source = m.source;
    out->row_source = m.row_source;
    out->step = m.step;
    out->store = m.store;
    make_sources(&m);
    make_row_sources(&m);
    find_last_uses(&m);
    make_steps(&m);
    make_stores(&m);
    return IPU_OK;
}

ipu_status
ipu_choose_fused_update(const ipu__preparation *p)
{
    ipu_kernel_spec *spec = p->spec;
    uint32_t words;
    const int64_t *code = ipu_attrs_ints(spec->attrs, IPU_ATTR_CODE, &words);
    ipu_update_part part = {0};
    update_plan *plan;
    size_t count = 0;
    bool has_rules = false;
    while (ipu_update_next(code, words, &part)) {
        if (!serves_rows(spec, &part)) {
            return IPU_OK;
        }
        count++;
    }
    IPU_TRY(ipu__prepared(p, sizeof(*plan) + count * sizeof(plan->part[0]), &plan));
    plan->cpu = p->cpu;
    spec->workspace_bytes = 0;
    part = (ipu_update_part){0};
    while (ipu_update_next(code, words, &part)) {
        IPU_TRY(make_part(p, &part, plan->elements, &plan->part[plan->parts]));
        has_rules |= plan->part[plan->parts].rule != NULL;
        plan->elements += plan->part[plan->parts++].elements;
    }
    spec->run = run;
    if (p->cpu >= IPU_CPU_AVX2) {
        spec->kernel_name = has_rules ? "formulas_avx2" : "one_pass_avx2";
    } else {
        spec->kernel_name = has_rules ? "formulas_generic" : "one_pass_generic";
    }
    return IPU_OK;
}
