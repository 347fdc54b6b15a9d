/* SPDX-License-Identifier: MIT
 *
 * Fast kernels of gather_nd, scatter_nd and tensor_scatter: points are taken in order,
 * and each copies its slice or joins it element by element into the result. Where the
 * slices are long, tasks own columns of all slices, so that no two threads meet and the
 * order of the points holds at every element. Block functions (blocks.c) do the
 * joining, as element-wise ops do; float16 sums, which are held in float32, are the
 * reference kernel's. */
#include <string.h>

#include "kernels/kernel_impl.h"

enum { STRIP = 512 };

/* Prepared. */
typedef struct point_plan {
    ipu__points points;
    uint32_t indices; /* inputs */
    uint32_t slices;  /* params, or updates */
    bool gather;
    bool copy; /* otherwise `join` */
    ipu__block join;
    int64_t bytes; /* of an element */
} point_plan;

typedef struct point_job {
    const ipu_kernel_call *call;
    const point_plan *plan;
    const char *slices;
    const void *indices;
} point_job;

static void
point_task(void *state, int32_t task, int32_t worker)
{
    const point_job *job = state;
    const point_plan *plan = job->plan;
    const ipu__points *p = &plan->points;
    int64_t begin = (int64_t)task * STRIP;
    int64_t n = ipu__min(STRIP, p->inner - begin);
    (void)worker;
    for (int64_t i = 0; i < p->count; i++) {
        int64_t whole = (ipu__point_offset(p, job->indices, i) + begin) * plan->bytes;
        int64_t slice = (i * p->inner + begin) * plan->bytes;
        char *out = ipu__at_mutable(job->call->outputs[0], plan->gather ? slice : whole);
        const char *in = job->slices + (plan->gather ? whole : slice);
        if (plan->copy) {
            memcpy(out, in, (size_t)(n * plan->bytes));
        } else {
            (void)plan->join.run(&plan->join, out, out, in, in, n);
        }
    }
}

static ipu_status
run_points(const ipu_kernel_call *call)
{
    const point_plan *plan = call->spec->prepared;
    const ipu_kernel_spec *spec = call->spec;
    size_t all = ipu_type_bytes(&spec->outputs[0]);
    point_job job = {call, plan, call->inputs[plan->slices],
                     call->inputs[plan->indices]};
    IPU_TRY(ipu__points_check(call, &plan->points, job.indices));
    if (spec->op == IPU_OP_ID_SCATTER_ND && all > 0) {
        memset(call->outputs[0], 0, all);
    } else if (spec->op == IPU_OP_ID_TENSOR_SCATTER && all > 0) {
        memmove(call->outputs[0], call->inputs[0], all);
    }
    ipu_pool_run(call->pool, (int32_t)ipu__ceil_div(plan->points.inner, STRIP),
                 point_task, &job);
    return IPU_OK;
}

/* `join`: the op that joins what stands there with an update; IDENTITY: a copy. */
static ipu_status
choose(const ipu__preparation *p, ipu_op join)
{
    ipu_kernel_spec *spec = p->spec;
    ipu_dtype dtype = spec->outputs[0].dtype;
    point_plan *plan;
    if (join != IPU_OP_ID_IDENTITY && dtype == IPU_DTYPE_FLOAT16) {
        return IPU_OK;
    }
    IPU_TRY(ipu__prepared(p, sizeof *plan, &plan));
    plan->gather = spec->op == IPU_OP_ID_GATHER_ND;
    plan->copy = join == IPU_OP_ID_IDENTITY;
    plan->indices = spec->op == IPU_OP_ID_SCATTER_ND ? 0 : 1;
    plan->slices = plan->gather ? 0 : plan->indices + 1;
    plan->bytes = (int64_t)ipu_dtype_bytes(dtype);
    ipu__points_plan(&plan->points,
                     &(plan->gather ? spec->inputs : spec->outputs)[0].shape,
                     &spec->inputs[plan->indices]);
    if (!plan->copy) {
        ipu__block_prepare(&plan->join, join, dtype, dtype, p->cpu);
    }
    spec->run = run_points;
    spec->kernel_name = plan->copy ? "copy_points" : "join_points";
    return IPU_OK;
}

ipu_status
ipu_choose_gather_nd(const ipu__preparation *p)
{
    return choose(p, IPU_OP_ID_IDENTITY);
}

ipu_status
ipu_choose_scatter_nd(const ipu__preparation *p)
{
    return choose(p, IPU_OP_ID_ADD);
}

ipu_status
ipu_choose_tensor_scatter(const ipu__preparation *p)
{
    return choose(p, ipu__scatter_step(p->spec));
}
