/* SPDX-License-Identifier: MIT
 *
 * cumsum and cumprod of float32: rows of the axes behind the scanned one are joined side
 * by side; along the last axis a line is walked in order. Both accumulate in double and
 * round each result once, as the reference does. Threads take lines. */
#include "kernels/kernel_impl.h"

enum { TASK_ELEMENTS = 16384, LANES = 64 };

/* Prepared. */
typedef struct scan_plan {
    int64_t size;   /* of the axis */
    int64_t inner;  /* elements behind it */
    int64_t strips; /* LANES of those */
    int64_t count;  /* strips of all lines */
    int64_t per_task;
    bool product;
    bool exclusive;
    bool reverse;
} scan_plan;

typedef struct scan_job {
    const scan_plan *plan;
    const float *x;
    float *out;
} scan_job;

/* Up to LANES neighbouring lines at once. */
static void
scan_strip(const scan_job *job, int64_t base, int64_t n)
{
    const scan_plan *plan = job->plan;
    double totals[LANES];
    for (int64_t j = 0; j < n; j++) {
        totals[j] = plan->product ? 1.0 : 0.0;
    }
    for (int64_t i = 0; i < plan->size; i++) {
        int64_t row = plan->reverse ? plan->size - 1 - i : i;
        const float *x = job->x + base + row * plan->inner;
        float *out = job->out + base + row * plan->inner;
        for (int64_t j = 0; j < n; j++) {
            double before = totals[j];
            double element = (double)x[j];
            totals[j] = i == 0         ? element
                        : plan->product ? before * element
                                       : before + element;
            out[j] = (float)(plan->exclusive ? before : totals[j]);
        }
    }
}

static void
scan_task(void *state, int32_t task, int32_t worker)
{
    const scan_job *job = state;
    const scan_plan *plan = job->plan;
    int64_t begin = task * plan->per_task;
    int64_t end = ipu__min(begin + plan->per_task, plan->count);
    (void)worker;
    for (int64_t i = begin; i < end; i++) {
        int64_t column = i % plan->strips * LANES;
        int64_t base = i / plan->strips * plan->size * plan->inner + column;
        scan_strip(job, base, ipu__min(LANES, plan->inner - column));
    }
}

static ipu_status
run_scan(const ipu_kernel_call *call)
{
    const scan_plan *plan = call->spec->prepared;
    scan_job job = {plan, call->inputs[0], call->outputs[0]};
    if (plan->count > 0) {
        ipu_pool_run(call->pool, (int32_t)ipu__ceil_div(plan->count, plan->per_task),
                     scan_task, &job);
    }
    return IPU_OK;
}

static ipu_status
choose_scan(const ipu__preparation *p)
{
    ipu_kernel_spec *spec = p->spec;
    const ipu_shape *shape = &spec->inputs[0].shape;
    int32_t axis = ipu__axis(ipu_attrs_int(spec->attrs, IPU_ATTR_AXIS, 0), shape->rank);
    int64_t elements = ipu_shape_elements(shape);
    scan_plan *plan;
    if (spec->inputs[0].dtype != IPU_DTYPE_FLOAT32) {
        return IPU_OK;
    }
    IPU_TRY(ipu__prepared(p, sizeof *plan, &plan));
    plan->size = shape->dims[axis];
    plan->inner = 1;
    plan->product = spec->op == IPU_OP_ID_CUMPROD;
    plan->exclusive = ipu_attrs_int(spec->attrs, IPU_ATTR_EXCLUSIVE, 0) != 0;
    plan->reverse = ipu_attrs_int(spec->attrs, IPU_ATTR_REVERSE, 0) != 0;
    if (elements > 0) {
        for (int32_t d = axis + 1; d < shape->rank; d++) {
            plan->inner *= shape->dims[d];
        }
        plan->strips = ipu__ceil_div(plan->inner, LANES);
        plan->count = elements / plan->size / plan->inner * plan->strips;
        plan->per_task =
            1 + TASK_ELEMENTS / (plan->size * ipu__min(plan->inner, LANES));
    }
    spec->run = run_scan;
    spec->kernel_name = "scan";
    return IPU_OK;
}

ipu_status
ipu_choose_cumsum(const ipu__preparation *p)
{
    return choose_scan(p);
}

ipu_status
ipu_choose_cumprod(const ipu__preparation *p)
{
    return choose_scan(p);
}
