/* SPDX-License-Identifier: MIT
 *
 * SGD of a variable whose gradient is the gradient of a gather of rows: zeros but for
 * the rows that indices name. The zeros are never made: a row is updated once, by the sum
 * of what its indices lead to. Equal to the bit to the two ops.
 *
 * Without momentum the other rows stay as they are, since w - rate * 0 is w. With
 * momentum their velocity decays: then all rows are walked over, and so they are for
 * rates at which that does not hold (negative ones make 0 of -0, and infinity or NaN
 * times 0 is NaN). Tasks are rows of the variable, or groups of indices. */
#include <math.h>
#include <string.h>

#include "kernels/core/row_groups_impl.h"

enum { STRIP = 256, TASK_ELEMENTS = 16384, NONE = -1 };

/* Prepared. */
typedef struct rows_plan {
    ipu__gather rows;
    ipu__sgd_rule rule;
    ipu_cpu_class cpu;
    bool half;
    int64_t per_task; /* rows */
} rows_plan;

typedef struct rows_job {
    const rows_plan *plan;
    const ipu_kernel_call *call;
    ipu__sgd sgd;
    ipu__row_groups groups;
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

/* One row, by the indices of a group; NONE: zeros. */
static void
update_row(const rows_job *job, int64_t row, int64_t group)
{
    const rows_plan *plan = job->plan;
    int64_t inner = plan->rows.inner;
    float sum[STRIP];
    for (int64_t column = 0; column < inner; column += STRIP) {
        int64_t n = ipu__min(inner - column, STRIP);
        memset(sum, 0, (size_t)n * sizeof *sum);
        if (group != NONE) {
            ipu__row_group_add(&job->groups, group, job->call->inputs[1], plan->half,
                               inner, column, n, plan->cpu, sum);
        }
        apply(job, row, column, sum, n);
    }
}

static void
update_groups(void *state, int64_t begin, int64_t end)
{
    const rows_job *job = state;
    for (int64_t g = begin; g < end; g++) {
        update_row(job, ipu__row_of_group(&job->groups, g), g);
    }
}

static void
update_all_rows(void *state, int64_t begin, int64_t end)
{
    const rows_job *job = state;
    int64_t group = ipu__row_group_from(&job->groups, begin);
    for (int64_t row = begin; row < end; row++) {
        bool is_named = group < job->groups.count &&
                        ipu__row_of_group(&job->groups, group) == row;
        update_row(job, row, is_named ? group : NONE);
        group += is_named ? 1 : 0;
    }
}

static ipu_status
run(const ipu_kernel_call *call)
{
    const rows_plan *plan = call->spec->prepared;
    rows_job job = {.plan = plan, .call = call};
    IPU_TRY(ipu__check_indices(call, plan->rows.dtype, call->inputs[0],
                               plan->rows.count, plan->rows.size));
    job.sgd = ipu__sgd_of(call, &plan->rule, 2);
    job.groups = ipu__row_groups_make(&plan->rows, call->inputs[0], call->workspace);
    bool zeros_count = call->spec->output_count > 1 || !isfinite(job.sgd.rate)
                       || signbit(job.sgd.rate);
    ipu__run_items(call->pool, zeros_count ? plan->rows.size : job.groups.count,
                   plan->per_task, zeros_count ? update_all_rows : update_groups, &job);
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
    if (type->dtype == IPU_DTYPE_FLOAT64 || !ipu__row_groups_fit(&rows)) {
        return IPU_OK;
    }
    IPU_TRY(ipu__prepared(p, sizeof *plan, &plan));
    plan->rows = rows;
    plan->rule = ipu__sgd_rule_of(spec);
    plan->cpu = p->cpu;
    plan->half = type->dtype == IPU_DTYPE_FLOAT16;
    plan->per_task = 1 + TASK_ELEMENTS / (rows.inner + 1);
    spec->workspace_bytes = ipu__row_groups_bytes(&rows);
    spec->run = run;
    spec->kernel_name = "sgd_rows";
    return IPU_OK;
}
