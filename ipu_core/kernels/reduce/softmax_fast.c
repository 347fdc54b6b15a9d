/* SPDX-License-Identifier: MIT
 *
 * softmax, log_softmax and the two cross entropies with their gradients, of float32; rows
 * of float64 are those of softmax_wide.c. Rows are taken in batches of about a thousand
 * elements: shift each row by its maximum, one exp over the whole batch, one sum per row
 * (the fixed tree of reduce_fold.c), then the results. exp and log are the polynomials of
 * all other kernels. The batches depend on the shape alone; threads take groups of them.
 * The result may overwrite the logits. */
#include <math.h>
#include <string.h>

#include "kernels/math/element_math.h"
#include "kernels/core/sum_tree.h"
#include "kernels/reduce/softmax_impl.h"

enum {
    BATCH_ELEMENTS = IPU_BATCH_ELEMENTS,
    BATCH_ROWS = IPU_BATCH_ROWS,
    TASK_ELEMENTS = 4096,
    LONG_ROW = 512 /* elements from which on a row is worth a loop of its own */
};

/* Functions over whole batches of rows, by instruction set. */
typedef struct row_functions {
    void (*shift)(float *out, const float *x, const float *max, int64_t rows,
                  int64_t n);
    void (*exp_negative)(float *out, const float *x, int64_t n); /* no x is above 0 */
    /* exp(x - max) */
    void (*exp_below)(float *out, const float *x, float max, int64_t n);
    void (*divide)(float *x, const float *sum, int64_t rows, int64_t n);
    void (*log)(float *out, const float *x, int64_t n);
    /* labels * (log_sum - (x - max)) */
    void (*terms)(float *out, const float *labels, const float *x, const float *max,
                  const float *log_sum, int64_t rows, int64_t n);
    /* x / sum * weight - labels */
    void (*weigh)(float *x, const float *labels, const float *sum, const float *weight,
                  int64_t rows, int64_t n);
    /* x - max - log_sum */
    void (*log_shift)(float *out, const float *x, float max, float log_sum, int64_t n);
} row_functions;

#define ROW_LOOPS(suffix, target) \
    target static void shift_##suffix(float *out, const float *x, const float *max, \
                                      int64_t rows, int64_t n) \
    { \
        for (int64_t r = 0; r < rows; r++, x += n, out += n) { \
            float most = max[r]; \
            IPU_INDEPENDENT \
            for (int64_t j = 0; j < n; j++) { \
                out[j] = x[j] - most; \
            } \
        } \
    } \
    target static void divide_##suffix(float *x, const float *sum, int64_t rows, \
                                       int64_t n) \
    { \
        for (int64_t r = 0; r < rows; r++, x += n) { \
            float total = sum[r]; \
            IPU_INDEPENDENT \
            for (int64_t j = 0; j < n; j++) { \
                x[j] /= total; \
            } \
        } \
    } \
    IPU_LOOP(target, log_##suffix, (float *out, const float *x, int64_t n), \
             out[j] = ipu__log_f32(x[j]);) \
    /* 0 * infinity has to be 0 */ \
    target static void terms_##suffix(float *out, const float *labels, const float *x, \
                                      const float *max, const float *log_sum, \
                                      int64_t rows, int64_t n) \
    { \
        for (int64_t r = 0; r < rows; r++, out += n, labels += n, x += n) { \
            float most = max[r]; \
            float shift = log_sum[r]; \
            IPU_INDEPENDENT \
            for (int64_t j = 0; j < n; j++) { \
                float term = labels[j] * (shift - (x[j] - most)); \
                out[j] = ipu__pick(labels[j] != 0.0f, term, 0.0f); \
            } \
        } \
    } \
    target static void weigh_##suffix(float *x, const float *labels, const float *sum, \
                                      const float *weight, int64_t rows, int64_t n) \
    { \
        for (int64_t r = 0; r < rows; r++, x += n, labels += n) { \
            float total = sum[r]; \
            float factor = weight[r]; \
            IPU_INDEPENDENT \
            for (int64_t j = 0; j < n; j++) { \
                x[j] = x[j] / total * factor - labels[j]; \
            } \
        } \
    } \
    IPU_LOOP(target, log_shift_##suffix, \
             (float *out, const float *x, float max, float log_sum, int64_t n), \
             out[j] = x[j] - max - log_sum;)

ROW_LOOPS(generic, )

/* By the vectors of all other kernels, which have the same bits; x may be `out`. */
static void
exp_negative_generic(float *out, const float *x, int64_t n)
{
    ipu__vector_f32_of(IPU_CPU_GENERIC)->exp(out, x, n);
}

static void
exp_below_generic(float *out, const float *x, float max, int64_t n)
{
    shift_generic(out, x, &max, 1, n);
    exp_negative_generic(out, out, n);
}

#define EXP_LOOPS(suffix, target) \
    IPU_LOOP(target, exp_negative_##suffix, (float *out, const float *x, int64_t n), \
             out[j] = ipu__exp_negative_f32(x[j]);) \
    IPU_LOOP(target, exp_below_##suffix, \
             (float *out, const float *x, float max, int64_t n), \
             out[j] = ipu__exp_negative_f32(x[j] - max);)

#define ROWS(suffix, loops) \
    static const row_functions rows_##suffix = { \
        shift_##loops, exp_negative_##suffix, exp_below_##suffix, divide_##loops, \
        log_##loops,   terms_##loops,         weigh_##loops,      log_shift_##loops};

ROWS(generic, generic)
#if defined(__x86_64__)
ROW_LOOPS(avx2, IPU_TARGET_AVX2)
EXP_LOOPS(avx2, IPU_TARGET_AVX2)
EXP_LOOPS(avx512, IPU_TARGET_AVX512) /* the others are no quicker */
ROWS(avx2, avx2)
ROWS(avx512, avx2)
#endif

/* Prepared. */
typedef struct softmax_plan {
    const row_functions *row; /* of float32 */
    const ipu__fold *max;
    const ipu__fold *sum;
    ipu_cpu_class cpu;
    ipu__wide_softmax wide; /* of float64 */
    /* what the op makes of a batch of rows */
    void (*make)(const ipu_kernel_call *call, int64_t first, int64_t rows);
    int64_t rows;
    int64_t classes;
    int64_t batch;    /* rows */
    int64_t per_task; /* rows, a multiple of batch */
} softmax_plan;

/* exp(x - max): of short rows in two walks, of which one goes over all of them. */
static void
exponentials_below(const row_functions *row, float *out, const float *x,
                   const float *max, int64_t rows, int64_t n)
{
    if (n < LONG_ROW) {
        row->shift(out, x, max, rows, n);
        row->exp_negative(out, out, rows * n);
        return;
    }
    for (int64_t r = 0; r < rows; r++) {
        row->exp_below(out + r * n, x + r * n, max[r], n);
    }
}

static void
max_rows(const softmax_plan *plan, float *max, const float *x, int64_t rows, int64_t n)
{
    ipu__fold_rows(plan->max, max, x, rows, n, rows * n, sizeof *x);
}

static void
sum_rows(const softmax_plan *plan, float *sum, const float *x, int64_t rows, int64_t n)
{
    if (n > IPU_FOLD_CHUNK) { /* one row */
        *sum = ipu__sum_row(x, n, n, plan->cpu);
    } else {
        ipu__fold_rows(plan->sum, sum, x, rows, n, rows * n, sizeof *x);
    }
}

/* probabilities = exp(x - max) for `rows` rows, their sums, and the maxima. */
static void
exponentials(const softmax_plan *plan, const float *x, float *exponential, float *max,
             float *sum, int64_t rows)
{
    int64_t n = plan->classes;
    max_rows(plan, max, x, rows, n);
    exponentials_below(plan->row, exponential, x, max, rows, n);
    sum_rows(plan, sum, exponential, rows, n);
}

void
ipu__softmax_rows(float *x, int64_t step, int64_t rows, int64_t n, ipu_cpu_class cpu)
{
    const row_functions *row = IPU_FOR_CLASS(cpu, rows, rows_generic);
    for (int64_t i = 0; i < rows; i++, x += step) {
        float sum;
        row->exp_below(x, x, ipu__max_row(x, n, n, cpu), n);
        sum = ipu__sum_row(x, n, n, cpu);
        row->divide(x, &sum, 1, n);
    }
}

static void
softmax_rows(const ipu_kernel_call *call, int64_t first, int64_t rows)
{
    float max[BATCH_ROWS];
    float sum[BATCH_ROWS];
    const softmax_plan *plan = call->spec->prepared;
    int64_t n = plan->classes;
    const float *x = (const float *)call->inputs[0] + first * n;
    float *y = (float *)call->outputs[0] + first * n;
    exponentials(plan, x, y, max, sum, rows);
    plan->row->divide(y, sum, rows, n);
}

/* Sums of the parts of rows: of one, or of the parts of one row, which are the leaves of
 * a tree (sum_tree.h). */
static void
join_part(float *sum, float *totals, const float *part, int64_t leaf, int64_t rows)
{
    if (leaf > 0) {
        ipu__sum_carry(sum, totals, 1, ipu__sum_carries(leaf - 1, leaf), 1);
    }
    for (int64_t r = 0; r < rows; r++) {
        sum[r] += part[r];
    }
}

/* The logits are needed after the sum, and the result may lie where they are. */
static void
log_softmax_rows(const ipu_kernel_call *call, int64_t first, int64_t rows)
{
    const softmax_plan *plan = call->spec->prepared;
    const row_functions *row = plan->row;
    int64_t n = plan->classes;
    const float *x = (const float *)call->inputs[0] + first * n;
    float *y = (float *)call->outputs[0] + first * n;
    float part[BATCH_ELEMENTS];
    float max[BATCH_ROWS];
    float sum[BATCH_ROWS] = {0.0f};
    float totals[IPU_SUM_LEVELS] = {0.0f};
    max_rows(plan, max, x, rows, n);
    /* a batch of several rows is one part */
    for (int64_t begin = 0; begin < n; begin += BATCH_ELEMENTS) {
        int64_t count = ipu__min(n - begin, BATCH_ELEMENTS);
        float more[BATCH_ROWS];
        exponentials_below(row, part, x + begin, max, rows, count);
        sum_rows(plan, more, part, rows, count);
        join_part(sum, totals, more, begin / BATCH_ELEMENTS, rows);
    }
    ipu__sum_end(sum, totals, 1, n > BATCH_ELEMENTS ? IPU_SUM_LEVELS : 0, 1);
    row->log(sum, sum, rows);
    for (int64_t r = 0; r < rows; r++) {
        row->log_shift(y + r * n, x + r * n, max[r], sum[r], n);
    }
}

static void
sparse_rows(const ipu_kernel_call *call, int64_t first, int64_t rows)
{
    float max[BATCH_ROWS];
    float sum[BATCH_ROWS];
    float log_sum[BATCH_ROWS];
    const softmax_plan *plan = call->spec->prepared;
    int64_t n = plan->classes;
    const float *x = (const float *)call->inputs[0] + first * n;
    float *loss = (float *)call->outputs[0] + first;
    float *gradient = (float *)call->outputs[1] + first * n;
    exponentials(plan, x, gradient, max, sum, rows);
    plan->row->log(log_sum, sum, rows);
    plan->row->divide(gradient, sum, rows, n);
    for (int64_t r = 0; r < rows; r++) {
        int64_t label =
            ipu__integer_load(call->spec->inputs[1].dtype, call->inputs[1], first + r);
        if (label < 0 || label >= n) { /* an error, unless OUTSIDE_IS_NAN */
            loss[r] = NAN;
            for (int64_t j = 0; j < n; j++) {
                gradient[r * n + j] = NAN;
            }
            continue;
        }
        loss[r] = log_sum[r] - (x[r * n + label] - max[r]);
        gradient[r * n + label] -= 1.0f;
    }
}

static void
dense_rows(const ipu_kernel_call *call, int64_t first, int64_t rows)
{
    float max[BATCH_ROWS];
    float sum[BATCH_ROWS];
    float log_sum[BATCH_ROWS];
    float weight[BATCH_ROWS];
    float totals[IPU_SUM_LEVELS] = {0.0f};
    const softmax_plan *plan = call->spec->prepared;
    int64_t n = plan->classes;
    const float *x = (const float *)call->inputs[0] + first * n;
    const float *labels = (const float *)call->inputs[1] + first * n;
    float *loss = (float *)call->outputs[0] + first;
    float *gradient = (float *)call->outputs[1] + first * n;
    exponentials(plan, x, gradient, max, sum, rows);
    plan->row->log(log_sum, sum, rows);
    sum_rows(plan, weight, labels, rows, n);
    memset(loss, 0, (size_t)rows * sizeof(float));
    for (int64_t begin = 0; begin < n; begin += BATCH_ELEMENTS) {
        int64_t count = ipu__min(n - begin, BATCH_ELEMENTS);
        float part[BATCH_ELEMENTS]; /* a batch of several rows is one part */
        float more[BATCH_ROWS];
        plan->row->terms(part, labels + begin, x + begin, max, log_sum, rows, count);
        sum_rows(plan, more, part, rows, count);
        join_part(loss, totals, more, begin / BATCH_ELEMENTS, rows);
    }
    ipu__sum_end(loss, totals, 1, n > BATCH_ELEMENTS ? IPU_SUM_LEVELS : 0, 1);
    plan->row->weigh(gradient, labels, sum, weight, rows, n);
}

static void
wide_rows(const ipu_kernel_call *call, int64_t first, int64_t rows)
{
    const softmax_plan *plan = call->spec->prepared;
    ipu__wide_softmax_rows(&plan->wide, call, first, rows, plan->classes);
}

static void
run_some(void *state, int64_t begin, int64_t end)
{
    const ipu_kernel_call *call = state;
    const softmax_plan *plan = call->spec->prepared;
    for (int64_t row = begin; row < end; row += plan->batch) {
        plan->make(call, row, ipu__min(plan->batch, end - row));
    }
}

static ipu_status
run(const ipu_kernel_call *call)
{
    const ipu_kernel_spec *spec = call->spec;
    const softmax_plan *plan = spec->prepared;
    ipu_kernel_call copy = *call;
    if (spec->op == IPU_OP_ID_SPARSE_CROSS_ENTROPY) {
        IPU_TRY(ipu__check_labels(call, spec->inputs[1].dtype, call->inputs[1], 0,
                                  plan->rows, plan->classes));
    }
    if (plan->classes == 0) { /* nothing but the loss of empty rows */
        if (spec->op == IPU_OP_ID_CROSS_ENTROPY && plan->rows > 0) {
            memset(call->outputs[0], 0, ipu_type_bytes(&spec->outputs[0]));
        }
        for (int64_t r = 0;
             spec->op == IPU_OP_ID_SPARSE_CROSS_ENTROPY && r < plan->rows;
             r++) { /* OUTSIDE_IS_NAN */
            ipu__scalar_store(spec->outputs[0].dtype, call->outputs[0], r,
                              (ipu__scalar){.f = NAN});
        }
        return IPU_OK;
    }
    ipu__run_items(call->pool, plan->rows, plan->per_task, run_some, &copy);
    return IPU_OK;
}

static ipu_status
run_rows(const ipu_kernel_call *call, int64_t begin, int64_t end)
{
    const ipu_kernel_spec *spec = call->spec;
    const softmax_plan *plan = spec->prepared;
    ipu_kernel_call copy = *call;
    if (spec->op == IPU_OP_ID_SPARSE_CROSS_ENTROPY) {
        IPU_TRY(ipu__check_labels(call, spec->inputs[1].dtype, call->inputs[1], begin,
                                  end, plan->classes));
    }
    run_some(&copy, begin, end);
    return IPU_OK;
}

ipu_status
ipu_choose_softmax(const ipu__preparation *p)
{
    ipu_kernel_spec *spec = p->spec;
    const ipu_shape *shape = &spec->inputs[0].shape;
    softmax_plan *plan;
    bool is_wide = spec->inputs[0].dtype == IPU_DTYPE_FLOAT64;
    if (!is_wide && spec->inputs[0].dtype != IPU_DTYPE_FLOAT32) {
        return IPU_OK;
    }
    IPU_TRY(ipu__prepared(p, sizeof *plan, &plan));
    plan->row = IPU_FOR_CLASS(p->cpu, rows, rows_generic);
    plan->max = ipu__fold_of(IPU_OP_ID_MAX, IPU_DTYPE_FLOAT32, p->cpu);
    plan->sum = ipu__fold_of(IPU_OP_ID_SUM, IPU_DTYPE_FLOAT32, p->cpu);
    plan->cpu = p->cpu;
    ipu__wide_softmax_prepare(&plan->wide, p->cpu);
    plan->make = is_wide                                      ? wide_rows
                 : spec->op == IPU_OP_ID_SOFTMAX              ? softmax_rows
                 : spec->op == IPU_OP_ID_LOG_SOFTMAX          ? log_softmax_rows
                 : spec->op == IPU_OP_ID_SPARSE_CROSS_ENTROPY ? sparse_rows
                                                              : dense_rows;
    plan->classes = shape->rank > 0 ? shape->dims[shape->rank - 1] : 1;
    plan->rows = ipu_shape_span(shape, 0, shape->rank - 1);
    if (plan->classes > 0) {
        plan->batch = ipu__max(BATCH_ELEMENTS / plan->classes, 1);
        plan->batch = ipu__min(plan->batch, BATCH_ROWS);
        plan->per_task =
            ipu__ceil_div(TASK_ELEMENTS, plan->batch * plan->classes) * plan->batch;
    }
    if (plan->classes > 0 && shape->rank == 2) {
        spec->rows =
            (ipu_kernel_rows){.run = run_rows, .count = plan->rows, .inputs = 3};
    }
    spec->run = run;
    spec->kernel_name = p->cpu >= IPU_CPU_AVX2 ? "rows_avx2" : "rows_generic";
    return IPU_OK;
}
