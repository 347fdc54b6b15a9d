/* SPDX-License-Identifier: MIT
 *
 * SGD of a variable whose gradient is the gradient of a gather of rows: zeros but for
 * the rows that indices name. The zeros are never made. Indices are sorted, so that those
 * of one row stand together, in the order in which they came; a row's gradient is their
 * sum, as gather_grad would have added it, and the row is updated once. Equal to the bit
 * to the two ops.
 *
 * Without momentum the other rows stay as they are, since w - rate * 0 is w. With
 * momentum their velocity decays: then all rows are walked over, and so they are for
 * rates at which that does not hold (negative ones make 0 of -0, and infinity or NaN
 * times 0 is NaN). Tasks are rows of the variable, or groups of indices. */
#include <math.h>
#include <string.h>

#include "kernels/kernel_impl.h"

enum { STRIP = 256, TASK_ELEMENTS = 16384 };

/* Prepared. */
typedef struct rows_plan {
    ipu__gather rows;
    ipu__sgd_rule rule;
    ipu_cpu_class cpu;
    bool half;
    int32_t key_bits;
    int64_t per_task; /* rows */
} rows_plan;

typedef struct rows_job {
    const rows_plan *plan;
    const ipu_kernel_call *call;
    ipu__sgd sgd;
    const ipu__numbered *sorted; /* rows, and the places of their indices */
    const uint32_t *groups;      /* where in `sorted` each begins, and the last ends */
    int64_t group_count;
} rows_job;

/* Elements [column, column + n) of a row, whose gradients are these. */
static void
apply(const rows_job *job, int64_t row, int64_t column, const float *gradient,
      int64_t n)
{
    const rows_plan *plan = job->plan;
    int64_t at = row * plan->rows.inner + column;
    if (!plan->half) {
        ipu__sgd_apply(&job->sgd, at, gradient, n, plan->cpu);
        return;
    }
    uint16_t narrow[STRIP];
    ipu__floats_to_halves(narrow, gradient, n, plan->cpu);
    for (int64_t i = 0; i < n; i++) {
        ipu__reference_sgd(job->call, 2, at + i,
                           (double)ipu_float16_to_float(narrow[i]));
    }
}

/* One row, by the indices [begin, end) of `sorted`. */
static void
update_row(const rows_job *job, int64_t row, int64_t begin, int64_t end)
{
    const rows_plan *plan = job->plan;
    int64_t bytes = plan->half ? 2 : 4;
    float sum[STRIP];
    float wide[STRIP];
    for (int64_t column = 0; column < plan->rows.inner; column += STRIP) {
        int64_t n = ipu__min(plan->rows.inner - column, STRIP);
        memset(sum, 0, (size_t)n * sizeof *sum);
        for (int64_t i = begin; i < end; i++) {
            int64_t at = job->sorted[i].place * plan->rows.inner + column;
            const void *more = ipu__at(job->call->inputs[1], at * bytes);
            if (plan->half) {
                ipu__halves_to_floats(wide, more, n, plan->cpu);
                more = wide;
            }
            ipu__vector_f32_of(plan->cpu)->add(sum, sum, more, n);
        }
        apply(job, row, column, sum, n);
    }
}

static void
groups_task(void *state, int32_t task, int32_t worker)
{
    const rows_job *job = state;
    int64_t begin = task * job->plan->per_task;
    int64_t end = ipu__min(begin + job->plan->per_task, job->group_count);
    (void)worker;
    for (int64_t g = begin; g < end; g++) {
        update_row(job, job->sorted[job->groups[g]].key, job->groups[g],
                   job->groups[g + 1]);
    }
}

/* The first group whose row is not below `row`. */
static int64_t
group_from(const rows_job *job, int64_t row)
{
    int64_t low = 0;
    int64_t high = job->group_count;
    while (low < high) {
        int64_t middle = (low + high) / 2;
        if (job->sorted[job->groups[middle]].key < row) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static void
all_rows_task(void *state, int32_t task, int32_t worker)
{
    const rows_job *job = state;
    const rows_plan *plan = job->plan;
    int64_t begin = task * plan->per_task;
    int64_t end = ipu__min(begin + plan->per_task, plan->rows.size);
    int64_t group = group_from(job, begin);
    (void)worker;
    for (int64_t row = begin; row < end; row++) {
        bool is_named = group < job->group_count
                        && job->sorted[job->groups[group]].key == row;
        if (is_named) {
            update_row(job, row, job->groups[group], job->groups[group + 1]);
            group++;
        } else {
            update_row(job, row, 0, 0);
        }
    }
}

/* The indices in `sorted` and `groups`, which lie in the workspace. */
static void
group_rows(rows_job *job)
{
    const rows_plan *plan = job->plan;
    int64_t count = plan->rows.count;
    ipu__numbered *numbered = job->call->workspace;
    uint32_t *groups = (uint32_t *)(void *)(numbered + 2 * count);
    for (int64_t i = 0; i < count; i++) {
        int64_t row = ipu__integer_load(plan->rows.dtype, job->call->inputs[0], i);
        numbered[i] = (ipu__numbered){(uint32_t)row, (uint32_t)i};
    }
    job->sorted =
        ipu__sort_numbered(numbered, numbered + count, count, plan->key_bits);
    job->groups = groups;
    for (int64_t i = 0; i < count; i++) {
        if (i == 0 || job->sorted[i].key != job->sorted[i - 1].key) {
            groups[job->group_count++] = (uint32_t)i;
        }
    }
    groups[job->group_count] = (uint32_t)count;
}

static ipu_status
run(const ipu_kernel_call *call)
{
    const rows_plan *plan = call->spec->prepared;
    rows_job job = {.plan = plan, .call = call};
    IPU_TRY(ipu__check_indices(call, plan->rows.dtype, call->inputs[0],
                               plan->rows.count, plan->rows.size));
    job.sgd = ipu__sgd_of(call, &plan->rule, 2);
    group_rows(&job);
    bool zeros_count = call->spec->output_count > 1 || !isfinite(job.sgd.rate)
                       || signbit(job.sgd.rate);
    int64_t rows = zeros_count ? plan->rows.size : job.group_count;
    ipu_pool_run(call->pool, (int32_t)ipu__ceil_div(rows, plan->per_task),
                 zeros_count ? all_rows_task : groups_task, &job);
    return IPU_OK;
}

ipu_status
ipu_choose_gather_sgd_update(const ipu__preparation *p)
{
    ipu_kernel_spec *spec = p->spec;
    const ipu_type *type = &spec->outputs[0];
    ipu__gather rows;
    rows_plan *plan;
    ipu__gather_plan(&rows, spec->attrs, &type->shape, &spec->inputs[0]);
    if (type->dtype == IPU_DTYPE_FLOAT64 || rows.size > UINT32_MAX
        || rows.count >= UINT32_MAX) {
        return IPU_OK;
    }
    IPU_TRY(ipu__prepared(p, sizeof *plan, &plan));
    plan->rows = rows;
    plan->rule = ipu__sgd_rule_of(spec);
    plan->cpu = p->cpu;
    plan->half = type->dtype == IPU_DTYPE_FLOAT16;
    while ((rows.size - 1) >> plan->key_bits > 0) {
        plan->key_bits++;
    }
    plan->per_task = 1 + TASK_ELEMENTS / (rows.inner + 1);
    spec->workspace_bytes =
        (size_t)rows.count * 2 * sizeof(ipu__numbered)
        + ((size_t)rows.count + 1) * sizeof(uint32_t);
    spec->run = run;
    spec->kernel_name = "sgd_rows";
    return IPU_OK;
}
