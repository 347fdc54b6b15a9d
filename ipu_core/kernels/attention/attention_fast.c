/* SPDX-License-Identifier: MIT
 *
 * attention and its gradient for float32 and float16. Each part of the work is some rows
 * of queries of one matrix (attention_impl.h), of the gradient all of them. Keys and
 * values are packed into panels once for a part; then a block of rows at a time makes its
 * scores, their softmax and what follows from it by our own tiles (gemm_tiles_body.h),
 * in the second-level cache. Whole rows of scores are there at once, so the softmax is
 * that of the softmax op, and each product is a sum in the order of sum_tree.h: the
 * bits are those of the single ops. Gradients of keys and values go on from block to
 * block of queries, which end where blocks of that tree do. No cut changes a bit. float16
 * is widened matrix by matrix, and each result is rounded once. */
#include <math.h>

#include "kernels/attention/attention_impl.h"
#include "kernels/gemm/gemm_share_impl.h"
#include "kernels/random/random_impl.h"

enum {
    BLOCK_FLOATS = 1 << 15, /* of scores, at a time */
    LEAST_ROWS = 24,
    ENOUGH_PARTS = 16,
    RUN = 512 /* weights whose random words lie on the stack */
};

/* --- loops over a row, by class of CPU -------------------------------------------- */

typedef struct row_form {
    void (*scale)(float *x, float factor, int64_t n);
    void (*divide)(float *x, float divisor, int64_t n);
    /* where the mask is false */
    void (*hide)(float *x, const uint8_t *mask, float hidden, int64_t n);
    void (*replace)(float *x, const uint8_t *mask, float hidden, int64_t n);
    void (*hide_all)(float *x, float hidden, int64_t n);
    void (*multiply)(float *out, const float *a, const float *b, int64_t n);
    /* slope = weight * (slope - total) * factor */
    void (*descend)(float *slope, const float *weight, float total, float factor,
                    int64_t n);
} row_form;

#define ROW_LOOPS(suffix, target) \
    IPU_LOOP(target, scale_##suffix, (float *x, float factor, int64_t n), \
             x[j] *= factor;) \
    IPU_LOOP(target, divide_##suffix, (float *x, float divisor, int64_t n), \
             x[j] /= divisor;) \
    IPU_LOOP(target, hide_##suffix, \
             (float *x, const uint8_t *mask, float hidden, int64_t n), \
             x[j] += mask[j] != 0 ? 0.0f : hidden;) \
    IPU_LOOP(target, replace_##suffix, \
             (float *x, const uint8_t *mask, float hidden, int64_t n), \
             x[j] = mask[j] != 0 ? x[j] : hidden;) \
    IPU_LOOP(target, hide_all_##suffix, (float *x, float hidden, int64_t n), \
             x[j] += hidden;) \
    IPU_LOOP(target, multiply_##suffix, \
             (float *out, const float *a, const float *b, int64_t n), \
             out[j] = a[j] * b[j];) \
    IPU_LOOP( \
        target, descend_##suffix, \
        (float *slope, const float *weight, float total, float factor, int64_t n), \
        slope[j] = weight[j] * (slope[j] - total) * factor;) \
    static const row_form suffix##_rows = { \
        scale_##suffix,    divide_##suffix,   hide_##suffix,   replace_##suffix, \
        hide_all_##suffix, multiply_##suffix, descend_##suffix};

ROW_LOOPS(generic, )
#if defined(__x86_64__)
ROW_LOOPS(avx2, IPU_TARGET_AVX2)
#else
#define avx2_rows generic_rows
#endif

/* --- the plan --------------------------------------------------------------------- */

/* A product and, where its B is the same for all blocks, the place of B's panels. */
typedef struct attention_product {
    ipu__product product;
    int64_t panels; /* in the memory of a part; -1: none */
} attention_product;

/* Of the gradient alone, what follows MIX. */
typedef enum attention_step {
    SCORE, /* q k^T */
    MIX,   /* u v */
    SLOPE, /* dy v^T */
    DQ,    /* ds k */
    DK,    /* ds^T q */
    DV,    /* u^T dy */
    STEPS
} attention_step;

/* Prepared. */
typedef struct attention_plan {
    ipu__attention a;
    ipu_cpu_class cpu;
    const ipu__tiles *tiles;
    const row_form *row;
    const ipu__random_form *random;
    uint32_t threshold;
    attention_product step[STEPS];
    int64_t block_rows;
    int64_t row_floats;  /* from a row of scores to the next */
    int64_t row_parts;   /* of the queries of a matrix */
    int64_t wide[7];     /* where operands and results of float16 are as floats */
    int64_t weights;     /* places in the memory of a part */
    int64_t slopes;
    int64_t row_room;
    int64_t chains[2]; /* of DK and DV, where queries are several blocks of a sum ... */
    int64_t totals[2]; /* ... and of their levels above the lowest one */
    int64_t scratch;
    int64_t part_floats;
} attention_plan;

static int64_t
take(attention_plan *plan, int64_t floats)
{
    int64_t at = plan->part_floats;
    plan->part_floats += ipu__whole_lines(floats);
    return at;
}

/* Rows of A by [k, n]. */
static void
plan_rows(attention_plan *plan, attention_step which, int64_t a_row, int64_t k,
          int64_t n, bool transposed, int64_t c_row)
{
    attention_product *step = &plan->step[which];
    int64_t panels = ipu__ceil_div(n, plan->tiles->columns);
    step->product = (ipu__product){
        .m = plan->block_rows,
        .n = n,
        .k = k,
        .a_row = a_row,
        .b_row = transposed ? 1 : n,
        .b_col = transposed ? k : 1,
        .c_row = c_row,
    };
    ipu__product_by_rows(&step->product, plan->tiles);
    step->panels = take(plan, panels * plan->tiles->columns * k);
}

/* The transpose of a block of rows by [rows, n], added to what other blocks gave. */
static void
plan_sums(attention_plan *plan, attention_step which, int64_t n)
{
    int64_t keys = plan->a.keys;
    plan->step[which].product = (ipu__product){
        .m = keys,
        .n = n,
        .k = plan->block_rows,
        .a_row = 1,
        .a_col = plan->row_floats,
        .b_row = n,
        .b_col = 1,
        .c_row = n,
        .a_form = IPU_A_COLUMNS,
        .chunk = plan->block_rows,
        .packed_k = plan->block_rows,
        .block = ipu__ceil_div(keys, plan->tiles->rows),
    };
    plan->step[which].panels = -1;
}

static void
plan_memory(attention_plan *plan, const ipu_kernel_spec *spec, bool back)
{
    const ipu__attention *a = &plan->a;
    int64_t scratch = 0;
    for (int32_t i = 0; i < STEPS; i++) {
        const ipu__product *p = &plan->step[i].product;
        if (p->n > 0) {
            scratch = ipu__max(scratch, ipu__tiles_scratch(plan->tiles, p));
        }
    }
    plan->scratch = take(plan, scratch);
    plan->weights = take(plan, plan->block_rows * plan->row_floats);
    plan->slopes = take(plan, plan->block_rows * plan->row_floats);
    plan->row_room = take(plan, a->keys);
    for (int32_t i = 0; back && a->queries > IPU_SUM_BLOCK && i < 2; i++) {
        int64_t floats = a->keys * (i == 0 ? a->size : a->value_size);
        plan->chains[i] = take(plan, floats);
        plan->totals[i] =
            take(plan, floats * (ipu__sum_levels(ipu__sum_blocks(a->queries)) - 1));
    }
    if (a->dtype == IPU_DTYPE_FLOAT16) {
        uint32_t operands = back ? 4 : 3;
        for (uint32_t i = 0; i < operands + spec->output_count; i++) {
            const ipu_type *type =
                i < operands ? &spec->inputs[i] : &spec->outputs[i - operands];
            plan->wide[i] = take(plan, type->shape.dims[2] * type->shape.dims[3]);
        }
    }
}

/* --- a part ----------------------------------------------------------------------- */

typedef struct attention_part {
    const ipu_kernel_call *call;
    const attention_plan *plan;
    float *memory;
    int64_t matrix;
    const float *q;
    const float *k;
    const float *v;
    const float *dy;
} attention_part;

/* Operand i of the part's matrix as floats. */
static const float *
operand(const attention_part *part, uint32_t i)
{
    const attention_plan *plan = part->plan;
    const ipu_type *type = &part->call->spec->inputs[i];
    int64_t floats = type->shape.dims[2] * type->shape.dims[3];
    if (type->dtype == IPU_DTYPE_FLOAT32) {
        return (const float *)part->call->inputs[i] + part->matrix * floats;
    }
    float *wide = part->memory + plan->wide[i];
    ipu__halves_to_floats(wide,
                          (const uint16_t *)part->call->inputs[i] +
                              part->matrix * floats,
                          floats, plan->cpu);
    return wide;
}

/* Where result i of the part's matrix is made. */
static float *
result(const attention_part *part, uint32_t i)
{
    const ipu_type *type = &part->call->spec->outputs[i];
    int64_t floats = type->shape.dims[2] * type->shape.dims[3];
    uint32_t operands = part->call->spec->op == IPU_OP_ID_ATTENTION ? 3 : 4;
    return type->dtype == IPU_DTYPE_FLOAT32
               ? (float *)part->call->outputs[i] + part->matrix * floats
               : part->memory + part->plan->wide[operands + i];
}

/* Rounds rows [begin, end) of result i to where they belong. */
static void
round_rows(const attention_part *part, uint32_t i, int64_t begin, int64_t end)
{
    const ipu_type *type = &part->call->spec->outputs[i];
    int64_t columns = type->shape.dims[3];
    int64_t first = part->matrix * type->shape.dims[2] + begin;
    if (type->dtype == IPU_DTYPE_FLOAT16) {
        ipu__floats_to_halves((uint16_t *)part->call->outputs[i] + first * columns,
                              result(part, i) + begin * columns,
                              (end - begin) * columns, part->plan->cpu);
    }
}

static void
pack(const attention_part *part, attention_step which, const float *b)
{
    const attention_plan *plan = part->plan;
    ipu__product p = plan->step[which].product;
    p.b = b;
    plan->tiles->pack(&p, part->memory + plan->step[which].panels, 0,
                      ipu__ceil_div(p.n, plan->tiles->columns));
}

static void
multiply_rows(const attention_part *part, attention_step which, const float *a,
              int64_t rows, float *c)
{
    const attention_plan *plan = part->plan;
    ipu__product p = plan->step[which].product;
    p.m = rows;
    p.a = a;
    p.b = part->memory; /* not read, but counted from */
    p.panels = part->memory + plan->step[which].panels;
    p.c = c;
    plan->tiles->multiply(&p, 0, rows, 0, p.n, part->memory + plan->scratch);
}

/* Adds the share of queries [row, row + rows) to the sum over all of them, c, whose
 * totals of the lowest level lie in c, too. */
static void
add_rows(const attention_part *part, attention_step which, const float *a,
         const float *b, int64_t row, int64_t rows, float *c)
{
    const attention_plan *plan = part->plan;
    const int64_t queries = plan->a.queries;
    const bool is_tree = queries > IPU_SUM_BLOCK;
    ipu__product p = plan->step[which].product;
    p.k = rows;
    p.chunk = rows;
    p.packed_k = rows;
    p.a = a;
    p.b = b;
    p.c = is_tree ? part->memory + plan->chains[which == DV] : c;
    p.continued = row % IPU_SUM_BLOCK > 0;
    plan->tiles->multiply(&p, 0, p.m, 0, p.n, part->memory + plan->scratch);
    if (!is_tree || (row + rows < queries && (row + rows) % IPU_SUM_BLOCK > 0)) {
        return;
    }
    const int64_t floats = p.m * p.n;
    float *upper = part->memory + plan->totals[which == DV] - floats;
    ipu__sum_step step =
        ipu__sum_step_of(row / IPU_SUM_BLOCK, row + rows == queries);
    for (int32_t i = 0; step.adds >> i != 0; i++) {
        if ((step.adds >> i & 1) != 0) {
            const float *total = i == 0 ? c : upper + i * floats;
            ipu__vector_f32_of(plan->cpu)->add(p.c, total, p.c, floats);
        }
    }
    memcpy(step.level == 0 ? c : upper + step.level * floats, p.c,
           (size_t)floats * sizeof *c);
}

static void
scale_row(const attention_plan *plan, float *x)
{
    const ipu__attention *a = &plan->a;
    if (a->scale != 1.0) {
        (a->divides ? plan->row->divide : plan->row->scale)(x, (float)a->scale,
                                                            a->keys);
    }
}

/* Hides the keys that do not count for a query: `with` stands in the place of their
 * scores, or is added to them. */
static void
hide_row(const attention_part *part, float *x, int64_t query, float with, bool replaces)
{
    const attention_plan *plan = part->plan;
    const ipu__attention *a = &plan->a;
    const uint8_t *mask = ipu__attention_mask(a, part->call, part->matrix, query);
    int64_t later = a->causal ? ipu__max(a->keys - query - 1, 0) : 0;
    if (mask != NULL) {
        (replaces ? plan->row->replace : plan->row->hide)(x, mask, with, a->keys);
    }
    if (later > 0 && !replaces) {
        plan->row->hide_all(x + query + 1, with, later);
    }
    for (int64_t j = a->keys - later; replaces && j < a->keys; j++) {
        x[j] = with;
    }
}

/* Weights of queries [row, row + rows), before any is dropped. */
static float *
make_weights(const attention_part *part, int64_t row, int64_t rows)
{
    const attention_plan *plan = part->plan;
    const ipu__attention *a = &plan->a;
    float *weights = part->memory + plan->weights;
    multiply_rows(part, SCORE, part->q + row * a->size, rows, weights);
    for (int64_t i = 0; i < rows; i++) {
        float *x = weights + i * plan->row_floats;
        scale_row(plan, x);
        hide_row(part, x, row + i, (float)a->hidden, a->replaces);
    }
    ipu__softmax_rows(weights, plan->row_floats, rows, a->keys, plan->cpu);
    return weights;
}

/* Of rows of queries [row, row + rows), as the weights lie. */
static void
drop(const attention_part *part, int64_t row, int64_t rows, float *to,
     const float *from)
{
    const attention_plan *plan = part->plan;
    const ipu__attention *a = &plan->a;
    ipu_random_key key = ipu__attention_key(a, part->call);
    _Alignas(64) uint32_t words[RUN + 4];
    uint8_t kept[RUN];
    for (int64_t i = 0; i < rows; i++) {
        int64_t first = (part->matrix * a->queries + row + i) * a->keys;
        for (int64_t j = 0; j < a->keys; j += RUN) {
            int64_t n = ipu__min(a->keys - j, RUN);
            int64_t skip = (first + j) % 4;
            int64_t at = i * plan->row_floats + j;
            plan->random->words(words, &key, (uint64_t)((first + j) / 4),
                                ipu__ceil_div(skip + n, 4));
            plan->random->dropout(to + at, kept, from + at, words + skip,
                                  plan->threshold, (float)a->kept, n);
        }
    }
}

static void
forward(attention_part *part, int64_t begin, int64_t end)
{
    const attention_plan *plan = part->plan;
    const ipu__attention *a = &plan->a;
    float *y = result(part, 0);
    pack(part, SCORE, part->k);
    pack(part, MIX, part->v);
    for (int64_t row = begin; row < end; row += plan->block_rows) {
        int64_t rows = ipu__min(end - row, plan->block_rows);
        float *weights = make_weights(part, row, rows);
        if (a->key >= 0) {
            drop(part, row, rows, weights, weights);
        }
        multiply_rows(part, MIX, weights, rows, y + row * a->value_size);
    }
    round_rows(part, 0, begin, end);
}

/* The gradient of scores in place of that of weights, of queries [row, row + rows). */
static void
descend(const attention_part *part, int64_t row, int64_t rows, float *slopes,
        const float *weights)
{
    const attention_plan *plan = part->plan;
    float factor = plan->a.divides ? 1.0f : (float)plan->a.scale;
    float *room = part->memory + plan->row_room;
    int64_t n = plan->a.keys;
    for (int64_t i = 0; i < rows; i++) {
        float *slope = slopes + i * plan->row_floats;
        const float *weight = weights + i * plan->row_floats;
        plan->row->multiply(room, slope, weight, n);
        plan->row->descend(slope, weight, ipu__sum_row(room, n, n, plan->cpu), factor, n);
        if (plan->a.divides) {
            scale_row(plan, slope);
        }
        if (plan->a.replaces) {
            hide_row(part, slope, row + i, plan->a.scale < 0.0 ? -0.0f : 0.0f, true);
        }
    }
}

static void
backward(attention_part *part)
{
    const attention_plan *plan = part->plan;
    const ipu__attention *a = &plan->a;
    float *slopes = part->memory + plan->slopes;
    float *dq = result(part, 0);
    float *dk = result(part, 1);
    float *dv = result(part, 2);
    pack(part, SCORE, part->k);
    pack(part, SLOPE, part->v);
    pack(part, DQ, part->k);
    for (int64_t row = 0, rows; row < a->queries; row += rows) {
        rows = ipu__min(a->queries - row, plan->block_rows);
        rows = ipu__min(rows, IPU_SUM_BLOCK - row % IPU_SUM_BLOCK);
        const float *q = part->q + row * a->size;
        const float *dy = part->dy + row * a->value_size;
        const float *weights = make_weights(part, row, rows);
        if (a->key >= 0) {
            drop(part, row, rows, slopes, weights);
        }
        add_rows(part, DV, a->key >= 0 ? slopes : weights, dy, row, rows, dv);
        multiply_rows(part, SLOPE, dy, rows, slopes);
        if (a->key >= 0) {
            drop(part, row, rows, slopes, slopes);
        }
        descend(part, row, rows, slopes, weights);
        multiply_rows(part, DQ, slopes, rows, dq + row * a->size);
        add_rows(part, DK, slopes, q, row, rows, dk);
    }
    round_rows(part, 0, 0, a->queries);
    round_rows(part, 1, 0, a->keys);
    round_rows(part, 2, 0, a->keys);
}

/* Part `number` of the matrix. */
static void
run_part(const ipu_kernel_call *call, float *memory, int64_t matrix, int64_t number)
{
    const attention_plan *plan = call->spec->prepared;
    attention_part part = {
        .call = call, .plan = plan, .memory = memory, .matrix = matrix};
    part.q = operand(&part, 0);
    part.k = operand(&part, 1);
    part.v = operand(&part, 2);
    if (call->spec->op == IPU_OP_ID_ATTENTION_GRAD) {
        part.dy = operand(&part, 3);
        backward(&part);
    } else {
        int64_t queries = plan->a.queries;
        forward(&part, ipu__share_of(queries, plan->row_parts, number),
                ipu__share_of(queries, plan->row_parts, number + 1));
    }
}

/* --- a call ----------------------------------------------------------------------- */

static void
run_parts(void *state, int64_t begin, int64_t end, void *memory)
{
    const ipu_kernel_call *call = state;
    const attention_plan *plan = call->spec->prepared;
    for (int64_t i = begin; i < end; i++) {
        run_part(call, memory, i / plan->row_parts, i % plan->row_parts);
    }
}

/* Where there are no keys, or nothing is asked. */
static bool
is_empty(const ipu_kernel_call *call)
{
    const attention_plan *plan = call->spec->prepared;
    const ipu__attention *a = &plan->a;
    if (a->keys > 0 && a->queries > 0) {
        return a->batch * a->heads == 0;
    }
    for (uint32_t i = 0; i < call->spec->output_count; i++) {
        memset(call->outputs[i], 0, ipu_type_bytes(&call->spec->outputs[i]));
    }
    return true;
}

static int64_t
parts_of(const attention_plan *plan)
{
    return plan->a.batch * plan->a.heads * plan->row_parts;
}

static ipu_status
run(const ipu_kernel_call *call)
{
    const attention_plan *plan = call->spec->prepared;
    if (is_empty(call)) {
        return IPU_OK;
    }
    ipu_kernel_call copy = *call;
    ipu__share_out(call->pool, parts_of(plan), run_parts, &copy, call->workspace,
                   (size_t)plan->part_floats * sizeof(float));
    return IPU_OK;
}

/* Members [begin, end) of the batch. */
static ipu_status
run_rows(const ipu_kernel_call *call, int64_t begin, int64_t end)
{
    const attention_plan *plan = call->spec->prepared;
    ipu_kernel_call copy = *call;
    int64_t parts = plan->a.heads * plan->row_parts;
    run_parts(&copy, begin * parts, end * parts, call->workspace);
    return IPU_OK;
}

/* --- the choice ------------------------------------------------------------------- */

static void
plan_products(attention_plan *plan, bool back)
{
    const ipu__attention *a = &plan->a;
    int64_t c_row = plan->row_floats;
    plan_rows(plan, SCORE, a->size, a->size, a->keys, true, c_row);
    if (!back) {
        plan_rows(plan, MIX, c_row, a->keys, a->value_size, false, a->value_size);
        return;
    }
    plan_rows(plan, SLOPE, a->value_size, a->value_size, a->keys, true, c_row);
    plan_rows(plan, DQ, c_row, a->keys, a->size, false, a->size);
    plan_sums(plan, DK, a->size);
    plan_sums(plan, DV, a->value_size);
}

ipu_status
ipu_choose_attention(const ipu__preparation *p)
{
    ipu_kernel_spec *spec = p->spec;
    const bool back = spec->op == IPU_OP_ID_ATTENTION_GRAD;
    attention_plan *plan;
    if (spec->inputs[0].dtype == IPU_DTYPE_FLOAT64) {
        return IPU_OK;
    }
    IPU_TRY(ipu__prepared(p, sizeof *plan, &plan));
    plan->a = ipu__attention_of(spec);
    const ipu__attention *a = &plan->a;
    int64_t matrices = a->batch * a->heads;
    plan->cpu = p->cpu;
    plan->tiles = ipu__tiles_of(p->cpu);
    plan->row = p->cpu >= IPU_CPU_AVX2 ? &avx2_rows : &generic_rows;
    plan->random = ipu__random_form_of(p->cpu);
    plan->threshold = ipu__dropout_threshold(a->rate);
    /* a multiple of a page from row to row would share a place in the cache */
    plan->row_floats = ipu__copied_row(a->keys);
    plan->block_rows = ipu__max(BLOCK_FLOATS / plan->row_floats, LEAST_ROWS);
    plan->block_rows = ipu__max(ipu__min(plan->block_rows, a->queries), 1);
    if (back) {
        plan->block_rows = ipu__min(plan->block_rows, IPU_SUM_BLOCK);
    }
    plan->row_parts = 1;
    if (!back && matrices > 0 && matrices < ENOUGH_PARTS) {
        int64_t most = ipu__max(1, a->queries / (2 * LEAST_ROWS));
        plan->row_parts = ipu__min(most, ipu__ceil_div(ENOUGH_PARTS, matrices));
    }
    plan_products(plan, back);
    plan_memory(plan, spec, back);
    spec->run = run;
    spec->kernel_name = plan->tiles->name;
    spec->workspace_bytes =
        ipu__share_bytes(parts_of(plan), (size_t)plan->part_floats * sizeof(float));
    if (matrices > 0 && a->keys > 0 && a->queries > 0) {
        bool own_mask = a->mask >= 0 && spec->inputs[a->mask].shape.dims[0] == a->batch;
        spec->rows = (ipu_kernel_rows){
            .run = run_rows,
            .count = a->batch,
            .inputs = (back ? 15U : 7U) | (own_mask ? 1U << a->mask : 0U),
            .grain = 1,
            .least = 1,
            .workspace_bytes = (size_t)plan->part_floats * sizeof(float)};
    }
    return IPU_OK;
}
