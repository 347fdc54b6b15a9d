/* SPDX-License-Identifier: MIT
 *
 * float32 uniform numbers and dropout, equal to the reference kernels to the bit: the
 * words are the same, conversion is exact, and the comparison with the rate is done on
 * 24-bit integers. Normal numbers use the reference's double arithmetic, which serves
 * initialisers. Tasks are runs of elements that start at a block of four words. */
#include <math.h>

#include "kernels/kernel_impl.h"

enum { TASK_ELEMENTS = 8192 };

typedef struct random_job {
    const ipu_kernel_call *call;
    ipu_random_key key;
    int64_t elements;
    uint32_t threshold; /* 24 bits; elements below are dropped */
    float scale;
} random_job;

static void
uniform_task(void *state, int32_t task, int32_t worker)
{
    const random_job *job = state;
    float *out = job->call->outputs[0];
    int64_t begin = (int64_t)task * TASK_ELEMENTS;
    int64_t end = ipu__min(begin + TASK_ELEMENTS, job->elements);
    uint32_t words[4];
    (void)worker;
    for (int64_t i = begin; i < end; i += 4) {
        ipu_random_block(&job->key, (uint64_t)i / 4, words);
        for (int64_t lane = 0; lane < ipu__min(4, end - i); lane++) {
            out[i + lane] = ipu__uniform_f32(words[lane]);
        }
    }
}

static void
dropout_task(void *state, int32_t task, int32_t worker)
{
    const random_job *job = state;
    const float *x = job->call->inputs[0];
    float *y = job->call->outputs[0];
    uint8_t *mask = job->call->outputs[1];
    int64_t begin = (int64_t)task * TASK_ELEMENTS;
    int64_t end = ipu__min(begin + TASK_ELEMENTS, job->elements);
    uint32_t words[4];
    (void)worker;
    for (int64_t i = begin; i < end; i += 4) {
        ipu_random_block(&job->key, (uint64_t)i / 4, words);
        for (int64_t lane = 0; lane < ipu__min(4, end - i); lane++) {
            bool keep = words[lane] >> 8 >= job->threshold;
            y[i + lane] = keep ? x[i + lane] * job->scale : 0.0f;
            mask[i + lane] = keep;
        }
    }
}

static ipu_status
run_job(const ipu_kernel_call *call, random_job *job, ipu_task_fn *task)
{
    job->call = call;
    job->key = ipu__random_key(call);
    job->elements = ipu_shape_elements(&call->spec->outputs[0].shape);
    ipu_pool_run(call->pool, (int32_t)ipu__ceil_div(job->elements, TASK_ELEMENTS), task,
                 job);
    return IPU_OK;
}

static ipu_status
run_uniform(const ipu_kernel_call *call)
{
    random_job job = {.threshold = 0};
    return run_job(call, &job, uniform_task);
}

static ipu_status
run_dropout(const ipu_kernel_call *call)
{
    double rate = ipu_attrs_float(call->spec->attrs, IPU_ATTR_RATE, 0.0);
    random_job job = {.threshold = 0};
    if (rate > 0.0) {
        job.threshold = rate < 1.0 ? (uint32_t)ceil(rate * 0x1p24) : UINT32_MAX;
    }
    job.scale = rate < 1.0 ? (float)(1.0 / (1.0 - rate)) : 0.0f;
    return run_job(call, &job, dropout_task);
}

ipu_status
ipu_choose_random_uniform(ipu_ctx *ctx, ipu_kernel_spec *spec, ipu_cpu_class cpu)
{
    (void)ctx;
    (void)cpu;
    if (spec->outputs[0].dtype == IPU_DTYPE_FLOAT32) {
        spec->run = run_uniform;
        spec->kernel_name = "uniform_f32";
    }
    return IPU_OK;
}

ipu_status
ipu_choose_dropout(ipu_ctx *ctx, ipu_kernel_spec *spec, ipu_cpu_class cpu)
{
    (void)ctx;
    (void)cpu;
    if (spec->inputs[0].dtype == IPU_DTYPE_FLOAT32) {
        spec->run = run_dropout;
        spec->kernel_name = "dropout_f32";
    }
    return IPU_OK;
}

ipu_status
ipu_choose_random_normal(ipu_ctx *ctx, ipu_kernel_spec *spec, ipu_cpu_class cpu)
{
    (void)ctx;
    (void)spec;
    (void)cpu;
    return IPU_OK;
}

ipu_status
ipu_choose_truncated_normal(ipu_ctx *ctx, ipu_kernel_spec *spec, ipu_cpu_class cpu)
{
    (void)ctx;
    (void)spec;
    (void)cpu;
    return IPU_OK;
}

ipu_status
ipu_choose_random_integer(ipu_ctx *ctx, ipu_kernel_spec *spec, ipu_cpu_class cpu)
{
    (void)ctx;
    (void)spec;
    (void)cpu;
    return IPU_OK;
}
