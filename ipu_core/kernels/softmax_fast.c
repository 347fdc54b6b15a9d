/* SPDX-License-Identifier: MIT
 *
 * float32 softmax, log_softmax and the two cross entropies with their gradients. Rows
 * are taken in batches of about a thousand elements: shift each row by its maximum, one
 * exp over the whole batch, one sum per row (the fixed tree of reduce_fast.c), then the
 * results. exp is the polynomial of all other kernels. The batches depend on the shape
 * alone; threads take groups of them. The result may overwrite the logits. */
#include <math.h>
#include <string.h>

#include "kernels/element_math.h"
#include "kernels/kernel_impl.h"

enum { BATCH_ELEMENTS = 1024, BATCH_ROWS = 128, TASK_ELEMENTS = 4096 };

/* Prepared. */
typedef struct softmax_plan {
    const ipu__vector_f32 *vector;
    ipu_cpu_class cpu;
    int64_t rows;
    int64_t classes;
    int64_t batch;    /* rows */
    int64_t per_task; /* rows, a multiple of batch */
} softmax_plan;

typedef struct softmax_job {
    const ipu_kernel_call *call;
    const softmax_plan *plan;
} softmax_job;

/* probabilities = exp(x - max) for `rows` rows, their sums, and the maxima. */
static void
exponentials(const softmax_job *job, const float *x, float *exponential, float *max,
             float *sum, int64_t rows)
{
    int64_t n = job->plan->classes;
    for (int64_t r = 0; r < rows; r++) {
        max[r] = ipu__max_row(x + r * n, n, job->plan->cpu);
        for (int64_t j = 0; j < n; j++) {
            exponential[r * n + j] = x[r * n + j] - max[r];
        }
    }
    job->plan->vector->exp(exponential, exponential, rows * n);
    for (int64_t r = 0; r < rows; r++) {
        sum[r] = ipu__sum_row(exponential + r * n, n, job->plan->cpu);
    }
}

static void
softmax_rows(const softmax_job *job, int64_t first, int64_t rows)
{
    float max[BATCH_ROWS];
    float sum[BATCH_ROWS];
    int64_t n = job->plan->classes;
    const float *x = (const float *)job->call->inputs[0] + first * n;
    float *y = (float *)job->call->outputs[0] + first * n;
    exponentials(job, x, y, max, sum, rows);
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t j = 0; j < n; j++) {
            y[r * n + j] /= sum[r];
        }
    }
}

/* Needs the shifted logits after the sum: without a buffer they are computed again. */
static void
log_softmax_rows(const softmax_job *job, int64_t first, int64_t rows)
{
    int64_t n = job->plan->classes;
    const float *x = (const float *)job->call->inputs[0] + first * n;
    float *y = (float *)job->call->outputs[0] + first * n;
    float part[BATCH_ELEMENTS];
    for (int64_t r = 0; r < rows; r++, x += n, y += n) {
        float max = ipu__max_row(x, n, job->plan->cpu);
        float sum = 0.0f;
        for (int64_t begin = 0; begin < n; begin += BATCH_ELEMENTS) {
            int64_t count = ipu__min(n - begin, BATCH_ELEMENTS);
            for (int64_t j = 0; j < count; j++) {
                part[j] = x[begin + j] - max;
            }
            job->plan->vector->exp(part, part, count);
            sum += ipu__sum_row(part, count, job->plan->cpu);
        }
        float log_sum = ipu__log_f32(sum);
        for (int64_t j = 0; j < n; j++) {
            y[j] = x[j] - max - log_sum;
        }
    }
}

static void
sparse_rows(const softmax_job *job, int64_t first, int64_t rows)
{
    float max[BATCH_ROWS];
    float sum[BATCH_ROWS];
    const ipu_kernel_call *call = job->call;
    int64_t n = job->plan->classes;
    const float *x = (const float *)call->inputs[0] + first * n;
    float *loss = (float *)call->outputs[0] + first;
    float *gradient = (float *)call->outputs[1] + first * n;
    exponentials(job, x, gradient, max, sum, rows);
    for (int64_t r = 0; r < rows; r++) {
        int64_t label =
            ipu__integer_load(call->spec->inputs[1].dtype, call->inputs[1], first + r);
        loss[r] = ipu__log_f32(sum[r]) - (x[r * n + label] - max[r]);
        for (int64_t j = 0; j < n; j++) {
            gradient[r * n + j] /= sum[r];
        }
        gradient[r * n + label] -= 1.0f;
    }
}

static void
dense_rows(const softmax_job *job, int64_t first, int64_t rows)
{
    float max[BATCH_ROWS];
    float sum[BATCH_ROWS];
    const ipu_kernel_call *call = job->call;
    int64_t n = job->plan->classes;
    const float *x = (const float *)call->inputs[0] + first * n;
    const float *labels = (const float *)call->inputs[1] + first * n;
    float *loss = (float *)call->outputs[0] + first;
    float *gradient = (float *)call->outputs[1] + first * n;
    exponentials(job, x, gradient, max, sum, rows);
    for (int64_t r = 0; r < rows; r++, x += n, labels += n, gradient += n) {
        float log_sum = ipu__log_f32(sum[r]);
        float weight = ipu__sum_row(labels, n, job->plan->cpu);
        float total = 0.0f;
        for (int64_t j = 0; j < n; j++) {
            float term = labels[j] * (log_sum - (x[j] - max[r]));
            total += labels[j] != 0.0f ? term : 0.0f; /* 0 * infinity has to be 0 */
            gradient[j] = gradient[j] / sum[r] * weight - labels[j];
        }
        loss[r] = total;
    }
}

static void
softmax_task(void *state, int32_t task, int32_t worker)
{
    const softmax_job *job = state;
    int64_t begin = task * job->plan->per_task;
    int64_t end = ipu__min(begin + job->plan->per_task, job->plan->rows);
    (void)worker;
    for (int64_t row = begin; row < end; row += job->plan->batch) {
        int64_t rows = ipu__min(job->plan->batch, end - row);
        switch (job->call->spec->op) {
        case IPU_OP_ID_SOFTMAX:
            softmax_rows(job, row, rows);
            break;
        case IPU_OP_ID_LOG_SOFTMAX:
            log_softmax_rows(job, row, rows);
            break;
        case IPU_OP_ID_SPARSE_CROSS_ENTROPY:
            sparse_rows(job, row, rows);
            break;
        default:
            dense_rows(job, row, rows);
            break;
        }
    }
}

static int64_t
at_most(int64_t value, int64_t limit)
{
    int64_t least = value < 1 ? 1 : value;
    return least < limit ? least : limit;
}

static ipu_status
run(const ipu_kernel_call *call)
{
    const ipu_kernel_spec *spec = call->spec;
    const softmax_plan *plan = spec->prepared;
    softmax_job job = {call, plan};
    if (spec->op == IPU_OP_ID_SPARSE_CROSS_ENTROPY) {
        IPU_TRY(ipu__check_labels(call, spec->inputs[1].dtype, call->inputs[1],
                                  plan->rows, plan->classes));
    }
    if (plan->classes == 0) { /* nothing but the loss of empty rows */
        if (spec->op == IPU_OP_ID_CROSS_ENTROPY && plan->rows > 0) {
            memset(call->outputs[0], 0, (size_t)plan->rows * sizeof(float));
        }
        return IPU_OK;
    }
    ipu_pool_run(call->pool, (int32_t)ipu__ceil_div(plan->rows, plan->per_task),
                 softmax_task, &job);
    return IPU_OK;
}

static ipu_status
choose(const ipu__preparation *p, const char *name_avx2, const char *name_generic)
{
    ipu_kernel_spec *spec = p->spec;
    const ipu_shape *shape = &spec->inputs[0].shape;
    softmax_plan *plan;
    if (spec->inputs[0].dtype != IPU_DTYPE_FLOAT32) {
        return IPU_OK;
    }
    IPU_TRY(ipu__prepared(p, sizeof *plan, &plan));
    plan->cpu = p->cpu;
    plan->vector = ipu__vector_f32_of(p->cpu);
    plan->classes = shape->rank > 0 ? shape->dims[shape->rank - 1] : 1;
    plan->rows = 1;
    for (int32_t d = 0; d + 1 < shape->rank; d++) {
        plan->rows *= shape->dims[d];
    }
    if (plan->classes > 0) {
        plan->batch = at_most(BATCH_ELEMENTS / plan->classes, BATCH_ROWS);
        plan->per_task = ipu__ceil_div(TASK_ELEMENTS, plan->batch * plan->classes)
                         * plan->batch;
    }
    spec->run = run;
    spec->kernel_name = p->cpu >= IPU_CPU_AVX2 ? name_avx2 : name_generic;
    return IPU_OK;
}

#define CHOOSE(text) \
    ipu_status ipu_choose_##text(const ipu__preparation *p) \
    { \
        return choose(p, #text "_avx2", #text "_generic"); \
    }
CHOOSE(softmax)
CHOOSE(log_softmax)
CHOOSE(sparse_cross_entropy)
CHOOSE(cross_entropy)
#undef CHOOSE
