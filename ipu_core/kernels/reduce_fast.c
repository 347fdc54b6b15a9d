/* SPDX-License-Identifier: MIT
 *
 * float32 sum, mean, max, min over any axes, and argmax over the last axis. Axes are
 * joined until kept and reduced ones alternate. Where the innermost axis is reduced,
 * each result adds up rows with a fixed tree (32 lanes, then halves), long rows in
 * chunks; where it is kept, whole rows are added into a strip of results, in row
 * order, chunk by chunk. The tree depends on the shape alone; threads take results,
 * never parts of a sum whose order they could change. Partial sums of one long row go
 * to the call's workspace. Other dtypes are served by the reference kernels. */
#include <math.h>
#include <string.h>

#include "kernels/kernel_impl.h"

enum {
    LANES = 32,
    CHUNK = 8192,      /* elements of a row that one tree adds */
    STRIP = 256,       /* results that are added side by side */
    CHUNK_ROWS = 64,   /* rows per partial strip */
    TASK_ELEMENTS = 16384
};

typedef enum fold_kind {
    FOLD_SUM,
    FOLD_MAX,
    FOLD_MIN
} fold_kind;

IPU_INLINE float
larger(float a, float b)
{
    return a > b ? a : (a == a ? b : a);
}

IPU_INLINE float
smaller(float a, float b)
{
    return a < b ? a : (a == a ? b : a);
}

/* One row and one strip for a fold, in both instruction sets. */
#define FOLD(name, target, start, step) \
    target static float row_##name(const float *x, int64_t n) \
    { \
        float lanes[LANES]; \
        int64_t i = 0; \
        for (int32_t j = 0; j < LANES; j++) { \
            lanes[j] = (start); \
        } \
        for (; i + LANES <= n; i += LANES) { \
            for (int32_t j = 0; j < LANES; j++) { \
                lanes[j] = step(lanes[j], x[i + j]); \
            } \
        } \
        for (int32_t j = 0; i + j < n; j++) { \
            lanes[j] = step(lanes[j], x[i + j]); \
        } \
        for (int32_t width = LANES / 2; width > 0; width /= 2) { \
            for (int32_t j = 0; j < width; j++) { \
                lanes[j] = step(lanes[j], lanes[j + width]); \
            } \
        } \
        return lanes[0]; \
    } \
    target static void strip_##name(float *total, const float *x, int64_t n) \
    { \
        IPU_INDEPENDENT \
        for (int64_t j = 0; j < n; j++) { \
            total[j] = step(total[j], x[j]); \
        } \
    }
#define PLUS(a, b) ((a) + (b))
FOLD(sum_generic, , 0.0f, PLUS)
FOLD(sum_avx2, IPU_TARGET_AVX2, 0.0f, PLUS)
FOLD(max_generic, , -INFINITY, larger)
FOLD(max_avx2, IPU_TARGET_AVX2, -INFINITY, larger)
FOLD(min_generic, , INFINITY, smaller)
FOLD(min_avx2, IPU_TARGET_AVX2, INFINITY, smaller)

typedef struct fold_functions {
    float (*row)(const float *x, int64_t n);
    void (*strip)(float *total, const float *x, int64_t n);
    float start;
} fold_functions;

static fold_functions
functions_of(fold_kind fold, ipu_cpu_class cpu)
{
    static const fold_functions table[3][2] = {
        {{row_sum_generic, strip_sum_generic, 0.0f},
         {row_sum_avx2, strip_sum_avx2, 0.0f}},
        {{row_max_generic, strip_max_generic, -INFINITY},
         {row_max_avx2, strip_max_avx2, -INFINITY}},
        {{row_min_generic, strip_min_generic, INFINITY},
         {row_min_avx2, strip_min_avx2, INFINITY}},
    };
    return table[fold][cpu >= IPU_CPU_AVX2];
}

float
ipu__sum_row(const float *x, int64_t n, ipu_cpu_class cpu)
{
    return cpu >= IPU_CPU_AVX2 ? row_sum_avx2(x, n) : row_sum_generic(x, n);
}

float
ipu__max_row(const float *x, int64_t n, ipu_cpu_class cpu)
{
    return cpu >= IPU_CPU_AVX2 ? row_max_avx2(x, n) : row_max_generic(x, n);
}

/* Prepared. */
typedef struct reduce_plan {
    ipu_op op;
    fold_functions fold;
    ipu__loop kept;       /* without the innermost axis if that is kept */
    ipu__loop reduced;    /* without the innermost axis if that is reduced */
    int64_t inner;        /* elements of the innermost axis */
    bool inner_reduced;
    int64_t results;      /* of `kept` */
    int64_t rounds;       /* of `reduced` */
    int64_t per_task;     /* results (rows) or strips a task makes */
    int64_t strips;       /* per row of results */
    float divisor;        /* mean: the count; otherwise 0 */
    bool in_chunks;       /* one long row, whose chunks are tasks */
} reduce_plan;

typedef struct reduce_job {
    const reduce_plan *plan;
    const float *x;
    float *out;
    float *partials; /* of one long row each */
} reduce_job;

static void
push(ipu__loop *loop, int64_t size, int64_t stride)
{
    loop->dims[loop->rank] = size;
    loop->strides[0][loop->rank++] = stride;
    loop->elements *= size;
}

static void
plan_reduction(reduce_plan *plan, const ipu_kernel_spec *spec)
{
    const ipu_shape *shape = &spec->inputs[0].shape;
    bool reduces[IPU_MAX_RANK] = {false};
    int64_t strides[IPU_MAX_RANK];
    int64_t count_reduced = 1;
    uint32_t count;
    const int64_t *axes = ipu_attrs_ints(spec->attrs, IPU_ATTR_AXES, &count);
    int32_t last = shape->rank - 1;
    plan->op = spec->op;
    plan->inner = 1;
    plan->kept.elements = 1;
    plan->reduced.elements = 1;
    plan->kept.operands = 1;
    plan->reduced.operands = 1;
    ipu_shape_strides(shape, false, strides);
    for (uint32_t i = 0; i < count; i++) {
        reduces[axes[i]] = true;
        count_reduced *= shape->dims[axes[i]];
    }
    while (last >= 0 && shape->dims[last] == 1) {
        last--;
    }
    plan->inner_reduced = last >= 0 && reduces[last];
    while (last >= 0
           && (reduces[last] == plan->inner_reduced || shape->dims[last] == 1)) {
        plan->inner *= shape->dims[last--];
    }
    for (int32_t axis = 0; axis <= last; axis++) {
        push(reduces[axis] ? &plan->reduced : &plan->kept, shape->dims[axis],
             strides[axis]);
    }
    plan->results = plan->kept.elements;
    plan->rounds = plan->reduced.elements;
    ipu__loop_collapse(&plan->kept);
    ipu__loop_collapse(&plan->reduced);
    if (spec->op == IPU_OP_ID_MEAN) {
        plan->divisor = (float)count_reduced;
    }
}

static fold_kind
fold_of(ipu_op op)
{
    return op == IPU_OP_ID_MAX ? FOLD_MAX : (op == IPU_OP_ID_MIN ? FOLD_MIN : FOLD_SUM);
}

static float
join(const reduce_plan *plan, float a, float b)
{
    plan->fold.strip(&a, &b, 1);
    return a;
}

static float
finished(const reduce_plan *plan, float value)
{
    return plan->op == IPU_OP_ID_MEAN ? value / plan->divisor : value;
}

/* One row of any length: chunks by the tree, their results one after another. */
static float
long_row(const reduce_plan *plan, const float *x, int64_t n)
{
    float total = plan->fold.row(x, ipu__min(n, CHUNK));
    for (int64_t i = CHUNK; i < n; i += CHUNK) {
        total = join(plan, total, plan->fold.row(x + i, ipu__min(n - i, CHUNK)));
    }
    return total;
}

static void
rows_task(void *state, int32_t task, int32_t worker)
{
    const reduce_job *job = state;
    const reduce_plan *plan = job->plan;
    int64_t begin = task * plan->per_task;
    int64_t end = ipu__min(begin + plan->per_task, plan->results);
    (void)worker;
    for (int64_t i = begin; i < end; i++) {
        const float *x = job->x + ipu__loop_offset(&plan->kept, 0, i);
        float total =
            plan->rounds > 0 ? long_row(plan, x, plan->inner) : plan->fold.start;
        for (int64_t r = 1; r < plan->rounds; r++) {
            const float *row = x + ipu__loop_offset(&plan->reduced, 0, r);
            total = join(plan, total, long_row(plan, row, plan->inner));
        }
        job->out[i] = finished(plan, total);
    }
}

static void
partials_task(void *state, int32_t task, int32_t worker)
{
    const reduce_job *job = state;
    const reduce_plan *plan = job->plan;
    int64_t begin = (int64_t)task * CHUNK;
    (void)worker;
    job->partials[task] =
        plan->fold.row(job->x + begin, ipu__min(plan->inner - begin, CHUNK));
}

static void
strips_task(void *state, int32_t task, int32_t worker)
{
    const reduce_job *job = state;
    const reduce_plan *plan = job->plan;
    float total[STRIP];
    float part[STRIP];
    int64_t begin = task * plan->per_task;
    int64_t end = ipu__min(begin + plan->per_task, plan->results * plan->strips);
    (void)worker;
    for (int64_t s = begin; s < end; s++) {
        int64_t result = s / plan->strips;
        int64_t column = s % plan->strips * STRIP;
        int64_t n = ipu__min(plan->inner - column, STRIP);
        const float *x = job->x + ipu__loop_offset(&plan->kept, 0, result) + column;
        for (int64_t j = 0; j < n; j++) {
            total[j] = plan->fold.start;
        }
        for (int64_t r = 0; r < plan->rounds; r += CHUNK_ROWS) {
            int64_t rows = ipu__min(plan->rounds - r, CHUNK_ROWS);
            for (int64_t j = 0; j < n; j++) {
                part[j] = plan->fold.start;
            }
            for (int64_t i = 0; i < rows; i++) {
                plan->fold.strip(part, x + ipu__loop_offset(&plan->reduced, 0, r + i),
                                 n);
            }
            plan->fold.strip(total, part, n);
        }
        float *out = job->out + result * plan->inner + column;
        for (int64_t j = 0; j < n; j++) {
            out[j] = finished(plan, total[j]);
        }
    }
}

static ipu_status
run(const ipu_kernel_call *call)
{
    const reduce_plan *plan = call->spec->prepared;
    reduce_job job = {plan, call->inputs[0], call->outputs[0], call->workspace};
    if (plan->in_chunks) {
        int64_t chunks = ipu__ceil_div(plan->inner, CHUNK);
        ipu_pool_run(call->pool, (int32_t)chunks, partials_task, &job);
        float total = job.partials[0];
        for (int64_t i = 1; i < chunks; i++) {
            total = join(plan, total, job.partials[i]);
        }
        job.out[0] = finished(plan, total);
    } else if (plan->inner_reduced) {
        ipu_pool_run(call->pool, (int32_t)ipu__ceil_div(plan->results, plan->per_task),
                     rows_task, &job);
    } else {
        int64_t strips = plan->results * plan->strips;
        ipu_pool_run(call->pool, (int32_t)ipu__ceil_div(strips, plan->per_task),
                     strips_task, &job);
    }
    return IPU_OK;
}

static ipu_status
choose(const ipu__preparation *p)
{
    ipu_kernel_spec *spec = p->spec;
    bool avx2 = p->cpu >= IPU_CPU_AVX2;
    uint32_t axis_count;
    reduce_plan *plan;
    ipu_attrs_ints(spec->attrs, IPU_ATTR_AXES, &axis_count);
    if (spec->inputs[0].dtype != IPU_DTYPE_FLOAT32 || axis_count == 0) {
        return IPU_OK; /* without axes the reference kernel copies */
    }
    IPU_TRY(ipu__prepared(p, sizeof *plan, &plan));
    plan_reduction(plan, spec);
    plan->fold = functions_of(fold_of(spec->op), p->cpu);
    plan->strips = ipu__ceil_div(plan->inner, STRIP);
    int64_t cost = plan->rounds
                   * (plan->inner_reduced ? plan->inner : ipu__min(plan->inner, STRIP));
    plan->per_task = cost >= TASK_ELEMENTS ? 1 : TASK_ELEMENTS / (cost + 1) + 1;
    plan->in_chunks = plan->inner_reduced && plan->results == 1 && plan->rounds == 1
                      && plan->inner > 2 * CHUNK;
    spec->run = run;
    spec->kernel_name = plan->inner_reduced ? (avx2 ? "rows_avx2" : "rows_generic")
                                            : (avx2 ? "strips_avx2" : "strips_generic");
    if (plan->in_chunks) {
        spec->workspace_bytes =
            (size_t)ipu__ceil_div(plan->inner, CHUNK) * sizeof(float);
    }
    return IPU_OK;
}

#define CHOOSE(text) \
    ipu_status ipu_choose_##text(const ipu__preparation *p) \
    { \
        return choose(p); \
    }
CHOOSE(sum)
CHOOSE(mean)
CHOOSE(max)
CHOOSE(min)
#undef CHOOSE

static ipu_status
run_argmax(const ipu_kernel_call *call)
{
    const ipu_kernel_spec *spec = call->spec;
    const ipu_shape *shape = &spec->inputs[0].shape;
    int64_t n = shape->dims[shape->rank - 1];
    int64_t rows = ipu_shape_elements(&spec->outputs[0].shape);
    IPU_FAIL_IF(call->ctx, n == 0 && rows > 0, INVALID_ARGUMENT,
                "argmax over an axis which has no elements");
    for (int64_t row = 0; row < rows; row++) {
        const float *x = (const float *)call->inputs[0] + row * n;
        int64_t best = 0;
        for (int64_t j = 1; j < n; j++) {
            bool from_nan = x[best] != x[best] && x[j] == x[j];
            best = x[j] > x[best] || from_nan ? j : best;
        }
        if (spec->outputs[0].dtype == IPU_DTYPE_INT32) {
            ((int32_t *)call->outputs[0])[row] = (int32_t)best;
        } else {
            ((int64_t *)call->outputs[0])[row] = best;
        }
    }
    return IPU_OK;
}

ipu_status
ipu_choose_argmax(const ipu__preparation *p)
{
    ipu_kernel_spec *spec = p->spec;
    const ipu_shape *shape = &spec->inputs[0].shape;
    if (spec->inputs[0].dtype == IPU_DTYPE_FLOAT32 && shape->rank > 0
        && ipu__axis(ipu_attrs_int(spec->attrs, IPU_ATTR_AXIS, 0), shape->rank)
               == shape->rank - 1) {
        spec->run = run_argmax;
        spec->kernel_name = "argmax_rows";
    }
    return IPU_OK;
}

#define CHOOSE(text) \
    ipu_status ipu_choose_##text(const ipu__preparation *p) \
    { \
        (void)p; \
        return IPU_OK; /* the reference kernel serves */ \
    }
CHOOSE(prod)
CHOOSE(any)
CHOOSE(all)
CHOOSE(argmin)
#undef CHOOSE
