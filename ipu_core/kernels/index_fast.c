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

typedef struct point_job {
    const ipu_kernel_call *call;
    ipu__points points;
    const char *slices; /* params, or updates */
    bool gather;
    bool copy; /* otherwise `join` */
    ipu__block join;
    int64_t bytes; /* of an element */
} point_job;

static void
point_task(void *state, int32_t task, int32_t worker)
{
    const point_job *job = state;
    const ipu__points *p = &job->points;
    int64_t begin = (int64_t)task * STRIP;
    int64_t n = ipu__min(STRIP, p->inner - begin);
    (void)worker;
    for (int64_t i = 0; i < p->count; i++) {
        int64_t whole = (ipu__point_offset(p, i) + begin) * job->bytes;
        int64_t slice = (i * p->inner + begin) * job->bytes;
        char *out = ipu__at_mutable(job->call->outputs[0], job->gather ? slice : whole);
        const char *in = job->slices + (job->gather ? whole : slice);
        if (job->copy) {
            memcpy(out, in, (size_t)(n * job->bytes));
        } else {
            (void)job->join.run(&job->join, out, out, in, in, n);
        }
    }
}

static ipu_status
run_points(const ipu_kernel_call *call)
{
    const ipu_kernel_spec *spec = call->spec;
    const ipu_type *type = &spec->outputs[0];
    bool gather = spec->op == IPU_OP_ID_GATHER_ND;
    uint32_t indices = spec->op == IPU_OP_ID_SCATTER_ND ? 0 : 1;
    point_job job = {.call = call, .gather = gather, .copy = spec->choice[1] == 0};
    const ipu_shape *whole = gather ? &spec->inputs[0].shape : &type->shape;
    size_t all = ipu_type_bytes(type);
    job.slices = call->inputs[gather ? 0 : indices + 1];
    job.bytes = (int64_t)ipu_dtype_bytes(type->dtype);
    ipu__points_plan(&job.points, whole, &spec->inputs[indices], call->inputs[indices]);
    IPU_TRY(ipu__points_check(call, &job.points));
    if (!job.copy) {
        ipu__block_prepare(&job.join, (ipu_op)spec->choice[1], type->dtype, type->dtype,
                           (ipu_cpu_class)spec->choice[0]);
    }
    if (spec->op == IPU_OP_ID_SCATTER_ND && all > 0) {
        memset(call->outputs[0], 0, all);
    } else if (spec->op == IPU_OP_ID_TENSOR_SCATTER && all > 0) {
        memmove(call->outputs[0], call->inputs[0], all);
    }
    ipu_pool_run(call->pool, (int32_t)ipu__ceil_div(job.points.inner, STRIP),
                 point_task, &job);
    return IPU_OK;
}

static ipu_status
choose(ipu_kernel_spec *spec, ipu_op join, ipu_cpu_class cpu)
{
    if (join != IPU_OP_ID_IDENTITY && spec->outputs[0].dtype == IPU_DTYPE_FLOAT16) {
        return IPU_OK;
    }
    spec->run = run_points;
    spec->kernel_name = join == IPU_OP_ID_IDENTITY ? "copy_points" : "join_points";
    spec->choice[0] = (int64_t)cpu;
    spec->choice[1] = join == IPU_OP_ID_IDENTITY ? 0 : (int64_t)join;
    return IPU_OK;
}

ipu_status
ipu_choose_gather_nd(ipu_ctx *ctx, ipu_kernel_spec *spec, ipu_cpu_class cpu)
{
    (void)ctx;
    return choose(spec, IPU_OP_ID_IDENTITY, cpu);
}

ipu_status
ipu_choose_scatter_nd(ipu_ctx *ctx, ipu_kernel_spec *spec, ipu_cpu_class cpu)
{
    (void)ctx;
    return choose(spec, IPU_OP_ID_ADD, cpu);
}

ipu_status
ipu_choose_tensor_scatter(ipu_ctx *ctx, ipu_kernel_spec *spec, ipu_cpu_class cpu)
{
    (void)ctx;
    return choose(spec, ipu__scatter_step(spec), cpu);
}
