/* SPDX-License-Identifier: MIT
 *
 * The code of fused_update (base/update_code.h), and the node that has it. A part is
 * made in program order: what its members compute, then what its updates add to that,
 * step by step as the reference kernels do it. Where a variable is read as it was
 * before the update, the code reads the variable. One thread per graph. */
#include <string.h>

#include "passes/update_steps.h"
#include "passes/updates_impl.h"

/* --- code ------------------------------------------------------------------------ */

/* Operands while the number of inputs is not known yet. */
enum { OLD = 1 << 16, RESULT = 1 << 17 };

typedef struct part_code {
    planner *p;
    const group *g;
    bool is_full;
    uint32_t inputs;
    int64_t input[IPU_UPDATE_MAX_INPUTS];  /* sources of the group */
    ipu_value rows[IPU_UPDATE_MAX_INPUTS]; /* what an input below 0 stands for */
    uint32_t variables;
    uint32_t variable[IPU_UPDATE_MAX_VARIABLES]; /* resources */
    uint32_t version[IPU_UPDATE_MAX_VARIABLES];  /* IPU_NO_INDEX: not known */
    int64_t stored[IPU_UPDATE_MAX_VARIABLES];
    uint32_t instructions;
    int64_t code[IPU_UPDATE_MAX_INSTRUCTIONS * IPU_FUSED_WORDS];
} part_code;

static bool
same_source(const source *a, const source *b)
{
    return a->kind == b->kind && a->value.index == b->value.index &&
           a->step.index == b->step.index && a->dtype == b->dtype &&
           memcmp(&a->number, &b->number, sizeof(a->number)) == 0 &&
           memcmp(&a->beta_2, &b->beta_2, sizeof(a->beta_2)) == 0;
}

/* The group's sources have it once. */
static ipu_status
add_input(part_code *c, const source *wanted, int64_t *out)
{
    planner *p = c->p;
    size_t at = c->g->first_source;
    while (at < p->sources.count && !same_source(&p->sources.items[at], wanted)) {
        at++;
    }
    int64_t number = (int64_t)(at - c->g->first_source);
    if (at == p->sources.count) {
        IPU_TRY(IPU_ARRAY_PUSH(p->ctx, &p->sources, *wanted));
    }
    for (uint32_t k = 0; k < c->inputs; k++) {
        if (c->input[k] == number) {
            *out = k;
            return IPU_OK;
        }
    }
    *out = c->inputs;
    c->is_full |= c->inputs == IPU_UPDATE_MAX_INPUTS;
    if (!c->is_full) {
        c->input[c->inputs++] = number;
    }
    return IPU_OK;
}

static ipu_status
add_number(part_code *c, ipu_dtype dtype, double number, int64_t *out)
{
    source wanted = {.kind = SOURCE_NUMBER,
                     .value = IPU_NO_VALUE,
                     .step = IPU_NO_VALUE,
                     .number = number,
                     .dtype = dtype};
    return add_input(c, &wanted, out);
}

/* Indices and rows of a gradient, one after the other among the sources. */
static ipu_status
add_rows(part_code *c, const ipu_node_data *gather, ipu_value value, int64_t *out)
{
    planner *p = c->p;
    for (uint32_t k = 0; k < c->inputs; k++) {
        if (c->input[k] < 0 && c->rows[k].index == value.index) {
            *out = k;
            return IPU_OK;
        }
    }
    *out = c->inputs;
    c->is_full |= c->inputs == IPU_UPDATE_MAX_INPUTS;
    if (c->is_full) {
        return IPU_OK;
    }
    c->rows[c->inputs] = value;
    c->input[c->inputs++] = -1 - (int64_t)(p->sources.count - c->g->first_source);
    for (uint32_t k = 0; k < 2; k++) {
        source operand = {
            .kind = SOURCE_VALUE, .value = gather->inputs[k], .step = IPU_NO_VALUE};
        IPU_TRY(IPU_ARRAY_PUSH(p->ctx, &p->sources, operand));
    }
    return IPU_OK;
}

static ipu_status
add_value(part_code *c, ipu_value value, int64_t *out)
{
    const ipu_node_data *gather = ipu__update_rows(c->p, c->g, value);
    if (gather != NULL) {
        return add_rows(c, gather, value, out);
    }
    source wanted = {.kind = SOURCE_VALUE, .value = value, .step = IPU_NO_VALUE};
    return add_input(c, &wanted, out);
}

/* Whether a value reads a variable of the part at its current version, and which. */
static bool
is_old(const part_code *c, ipu_value value, int64_t *out)
{
    ipu_node id = ipu_value_of(c->p->graph, value)->producer;
    const ipu_node_data *node = ipu_producer_of(c->p->graph, value);
    if (node == NULL || node->op != IPU_OP_ID_VARIABLE_READ) {
        return false;
    }
    for (uint32_t k = 0; k < c->variables; k++) {
        if (c->variable[k] == ipu_node_resource(node, 0) &&
            c->version[k] == c->p->nodes.items[id.index].version) {
            *out = OLD + k;
            return true;
        }
    }
    return false;
}

static ipu_status
operand_of(part_code *c, ipu_value value, int64_t *out)
{
    ipu_node member = ipu__update_member(c->p, value);
    if (ipu_is_node(member)) {
        *out = c->p->nodes.items[member.index].result;
        return IPU_OK;
    }
    return is_old(c, value, out) ? IPU_OK : add_value(c, value, out);
}

static int64_t
add_instruction(part_code *c, ipu_op op, ipu_dtype dtype, int64_t x, int64_t y)
{
    c->is_full |= c->instructions == IPU_UPDATE_MAX_INSTRUCTIONS;
    if (c->is_full) {
        return RESULT;
    }
    int64_t *word = &c->code[c->instructions * IPU_FUSED_WORDS];
    word[0] = (int64_t)op;
    word[1] = (int64_t)dtype;
    word[2] = x;
    word[3] = y;
    word[4] = -1;
    return RESULT + c->instructions++;
}

static ipu_status
add_member(part_code *c, ipu_node id)
{
    const ipu_node_data *node = ipu_node_of(c->p->graph, id);
    ipu_value value = ipu_node_output(node, 0);
    int64_t operands[3] = {-1, -1, -1};
    for (uint32_t k = 0; k < node->input_count; k++) {
        IPU_TRY(operand_of(c, node->inputs[k], &operands[k]));
    }
    int64_t result =
        add_instruction(c, node->op, ipu_value_of(c->p->graph, value)->type.dtype,
                        operands[0], operands[1]);
    if (!c->is_full) {
        c->code[(result - RESULT) * IPU_FUSED_WORDS + 4] = operands[2];
        c->p->nodes.items[id.index].result = result;
    }
    return IPU_OK;
}

/* x + -y is x - y; `is_used`: -y, for something else. */
static int64_t
add_to_variable(part_code *c, ipu_dtype dtype, int64_t old, int64_t x, bool is_used)
{
    int64_t *word = x < RESULT ? NULL : &c->code[(x - RESULT) * IPU_FUSED_WORDS];
    if (word != NULL && word[0] == IPU_OP_ID_NEG && !is_used) {
        word[0] = (int64_t)IPU_OP_ID_SUB;
        word[3] = word[2];
        word[2] = old;
        return x;
    }
    return add_instruction(c, IPU_OP_ID_ADD, dtype, old, x);
}

/* The steps of an update, in the code of its part. */
typedef struct update_code {
    part_code *c;
    ipu_dtype dtype;
    int64_t first; /* of its variables */
    ipu_status status;
} update_code;

static int64_t
write_op(void *state, ipu_op op, int64_t a, int64_t b)
{
    update_code *u = state;
    return add_instruction(u->c, op, u->dtype, a, b);
}

static int64_t
write_number(void *state, double number)
{
    update_code *u = state;
    int64_t out = 0;
    u->status =
        u->status == IPU_OK ? add_number(u->c, u->dtype, number, &out) : u->status;
    return out;
}

static void
write_store(void *state, uint32_t variable, int64_t x)
{
    update_code *u = state;
    u->c->stored[u->first - OLD + variable] = x;
}

static ipu_status
add_steps(part_code *c, const ipu_node_data *node, ipu_dtype t, int64_t w, int64_t g)
{
    update_code u = {c, t, w, IPU_OK};
    const ipu__steps steps = {&u, write_op, write_number, write_store};
    const int64_t old[3] = {w, w + 1, w + 2};
    int64_t rate = 0;
    if (node->op == IPU_OP_ID_ADAM_UPDATE) {
        const source alpha = {
            .kind = SOURCE_RATE,
            .value = node->inputs[1],
            .step = node->inputs[2],
            .number = ipu_attrs_float(node->attrs, IPU_ATTR_BETA_1, 0.9),
            .beta_2 = ipu_attrs_float(node->attrs, IPU_ATTR_BETA_2, 0.999),
            .dtype = t};
        IPU_TRY(add_input(c, &alpha, &rate));
        ipu__adam_steps(&steps, node, old, g, rate);
        return u.status;
    }
    IPU_TRY(add_value(c, node->inputs[1], &rate));
    if (t != IPU_DTYPE_FLOAT32) {
        rate = add_instruction(c, IPU_OP_ID_CAST, t, rate, -1);
    }
    ipu__sgd_steps(&steps, node, old, g, rate);
    return u.status;
}

/* `old`: the first of its variables. */
static ipu_status
add_root(part_code *c, const ipu_node_data *node, int64_t old)
{
    ipu_dtype t = ipu__update_type(c->p, node, 0)->dtype;
    int64_t given = 0;
    if (node->op == IPU_OP_ID_VARIABLE_ASSIGN) {
        /* the value that the variable has is an operand, not a step of the code */
        ipu_node member = ipu__update_member(c->p, node->inputs[0]);
        IPU_TRY(ipu_is_node(member) ? operand_of(c, node->inputs[0], &given)
                                    : add_value(c, node->inputs[0], &given));
        c->stored[old - OLD] = given;
        return IPU_OK;
    }
    IPU_TRY(operand_of(c, node->inputs[0], &given));
    if (node->op != IPU_OP_ID_VARIABLE_ADD) {
        return add_steps(c, node, t, old, given);
    }
    c->stored[old - OLD] = add_to_variable(
        c, t, old, given, ipu_uses_count(&c->p->uses, node->inputs[0]) > 1);
    return IPU_OK;
}

/* The variables of an update, which are not written before it in the group. */
static void
add_variables(part_code *c, const update *u)
{
    const ipu_node_data *node = ipu_node_of(c->p->graph, u->node);
    for (uint32_t i = 0; i < ipu_node_resource_count(node); i++) {
        c->is_full |= c->variables == IPU_UPDATE_MAX_VARIABLES;
        if (!c->is_full) {
            c->variable[c->variables] = ipu_node_resource(node, i);
            c->version[c->variables++] =
                i == 0 ? c->p->nodes.items[u->node.index].version : IPU_NO_INDEX;
        }
    }
}

/* All updates of the part that `number` stands for. */
static ipu_status
make_part(part_code *c, uint32_t number)
{
    planner *p = c->p;
    uint32_t end = c->g->first + c->g->count;
    for (uint32_t u = number; u < end; u++) {
        if (ipu__update_part_of(p, u) == number) {
            add_variables(c, &p->updates.items[u]);
        }
    }
    ipu_node member = p->updates.items[number].first_member;
    for (; ipu_is_node(member) && !c->is_full;
         member = p->nodes.items[member.index].next_member) {
        IPU_TRY(add_member(c, member));
    }
    int64_t old = OLD;
    for (uint32_t u = number; u < end && !c->is_full; u++) {
        if (ipu__update_part_of(p, u) == number) {
            const ipu_node_data *node = ipu_node_of(p->graph, p->updates.items[u].node);
            IPU_TRY(add_root(c, node, old));
            old += ipu_node_resource_count(node);
        }
    }
    return IPU_OK;
}

static int64_t
numbered(const part_code *c, int64_t operand)
{
    return operand >= RESULT ? operand - RESULT + c->inputs + c->variables
           : operand >= OLD  ? operand - OLD + c->inputs
                             : operand;
}

static ipu_status
write_part(const part_code *c)
{
    planner *p = c->p;
    size_t count =
        3 + c->inputs + c->variables + (size_t)c->instructions * IPU_FUSED_WORDS;
    IPU_TRY(IPU_ARRAY_RESERVE(p->ctx, &p->words, count));
    int64_t *at = p->words.items + p->words.count;
    *at++ = c->inputs;
    *at++ = c->variables;
    *at++ = c->instructions;
    for (uint32_t k = 0; k < c->inputs; k++) {
        *at++ = c->input[k];
    }
    for (uint32_t k = 0; k < c->variables; k++) {
        *at++ = numbered(c, c->stored[k]);
    }
    for (uint32_t i = 0; i < c->instructions * IPU_FUSED_WORDS; i++) {
        bool is_operand = i % IPU_FUSED_WORDS >= 2;
        *at++ = is_operand ? numbered(c, c->code[i]) : c->code[i];
    }
    p->words.count += count;
    return IPU_OK;
}

/* A part that is too long falls apart: what its updates are given is made before. */
static void
take_apart(planner *p, const group *g, uint32_t number)
{
    for (ipu_node n = p->updates.items[number].first_member; ipu_is_node(n);
         n = p->nodes.items[n.index].next_member) {
        p->nodes.items[n.index].is_member = false;
        p->nodes.items[n.index].update = IPU_NO_INDEX;
    }
    p->updates.items[number].first_member = IPU_NO_NODE;
    for (uint32_t u = g->first + g->count; u-- > number;) {
        if (ipu__update_part_of(p, u) == number) {
            p->updates.items[u].part = u;
        }
    }
}

static ipu_status
plan_part(planner *p, group *g, uint32_t number)
{
    part_code c = {.p = p, .g = g};
    size_t source_count = p->sources.count;
    IPU_TRY(make_part(&c, number));
    if (c.is_full) {
        p->sources.count = source_count;
        take_apart(p, g, number);
        c = (part_code){.p = p, .g = g};
        IPU_TRY(make_part(&c, number));
    }
    g->is_fused |= ipu_is_node(p->updates.items[number].first_member);
    return write_part(&c);
}

ipu_status
ipu__update_write_code(planner *p, group *g)
{
    g->first_source = p->sources.count;
    g->first_word = p->words.count;
    for (uint32_t u = g->first; u < g->first + g->count; u++) {
        if (ipu__update_part_of(p, u) == u) {
            IPU_TRY(plan_part(p, g, u));
        }
    }
    g->source_count = p->sources.count - g->first_source;
    g->word_count = p->words.count - g->first_word;
    return IPU_OK;
}

/* --- nodes ----------------------------------------------------------------------- */

static ipu_status
emit_rate(planner *p, ipu_node like, const source *s, ipu_value *out)
{
    ipu_value inputs[2] = {s->value, s->step};
    ipu_attr attrs[3] = {ipu_attr_int(IPU_ATTR_DTYPE, (int64_t)s->dtype),
                         ipu_attr_float(IPU_ATTR_BETA_1, s->number),
                         ipu_attr_float(IPU_ATTR_BETA_2, s->beta_2)};
    return ipu_graph_emit(p->ctx, p->graph, ipu_node_of(p->graph, like)->block, like,
                          IPU_OP_ID_ADAM_RATE, inputs, 2, attrs, 3, out);
}

static ipu_status
emit_source(planner *p, ipu_node like, const source *s, ipu_value *out)
{
    ipu_type type = {.dtype = s->dtype, .shape = ipu_shape_scalar()};
    switch (s->kind) {
    case SOURCE_NUMBER:
        return ipu_graph_emit_fill(p->ctx, p->graph, ipu_node_of(p->graph, like)->block,
                                   like, &type, s->number, out);
    case SOURCE_RATE:
        return emit_rate(p, like, s, out);
    case SOURCE_VALUE:
        break;
    }
    *out = s->value;
    return IPU_OK;
}

/* The variables of all parts, in the order in which the parts name them. */
static void
collect_variables(planner *p, const group *g, int64_t *out)
{
    uint32_t end = g->first + g->count;
    for (uint32_t part = g->first; part < end; part++) {
        for (uint32_t u = part; ipu__update_part_of(p, part) == part && u < end; u++) {
            const ipu_node_data *node = ipu_node_of(p->graph, p->updates.items[u].node);
            uint32_t count =
                ipu__update_part_of(p, u) == part ? ipu_node_resource_count(node) : 0;
            for (uint32_t i = 0; i < count; i++) {
                *out++ = ipu_node_resource(node, i);
            }
        }
    }
}

static ipu_status
emit_fused(planner *p, const group *g, ipu_value *inputs, int64_t *variables,
           uint32_t variable_count)
{
    ipu_node like = g->last;
    for (size_t i = 0; i < g->source_count; i++) {
        IPU_TRY(
            emit_source(p, like, &p->sources.items[g->first_source + i], &inputs[i]));
    }
    collect_variables(p, g, variables);
    ipu_attr attrs[3] = {
        ipu_attr_int(IPU_ATTR_RESOURCE, variables[0]),
        ipu_attr_ints(IPU_ATTR_SLOTS, variables + 1, variable_count - 1),
        ipu_attr_ints(IPU_ATTR_CODE, p->words.items + g->first_word,
                      (uint32_t)g->word_count)};
    ipu_value none;
    return ipu_graph_emit(p->ctx, p->graph, ipu_node_of(p->graph, like)->block, like,
                          IPU_OP_ID_FUSED_UPDATE, inputs, (uint32_t)g->source_count,
                          attrs, 3, &none);
}

ipu_status
ipu__update_make_node(planner *p, const group *g)
{
    uint32_t variable_count = 0;
    for (uint32_t u = g->first; u < g->first + g->count; u++) {
        variable_count +=
            ipu_node_resource_count(ipu_node_of(p->graph, p->updates.items[u].node));
    }
    size_t input_bytes = g->source_count * sizeof(ipu_value);
    size_t variable_bytes = variable_count * sizeof(int64_t);
    ipu_value *inputs;
    int64_t *variables;
    IPU_TRY(ipu_alloc(p->ctx, input_bytes, &inputs));
    ipu_status status = ipu_alloc(p->ctx, variable_bytes, &variables);
    if (status == IPU_OK) {
        status = emit_fused(p, g, inputs, variables, variable_count);
    }
    ipu_free(p->ctx, variables, variable_bytes);
    ipu_free(p->ctx, inputs, input_bytes);
    return status;
}
