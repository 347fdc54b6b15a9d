/* SPDX-License-Identifier: MIT
 *
 * float32 uniform numbers and dropout, equal to the reference kernels to the bit: the
 * words are the same, conversion is exact, and the comparison with the rate is done on
 * 24-bit integers. Normal numbers use the reference's double arithmetic, which serves
 * initialisers. Tasks are runs of elements that start at a block of four words. */
#include <math.h>

#include "kernels/kernel_impl.h"

enum { TASK_ELEMENTS = 8192 };

/* Prepared. */
typedef struct random_plan {
    ipu__random_source source;
    int64_t elements;
    uint32_t threshold; /* 24 bits; elements below are dropped */
    float scale;
} random_plan;

typedef struct random_job {
    const ipu_kernel_call *call;
    const random_plan *plan;
    ipu_random_key key;
} random_job;

static void
uniform_task(void *state, int32_t task, int32_t worker)
{
    const random_job *job = state;
    float *out = job->call->outputs[0];
    int64_t begin = (int64_t)task * TASK_ELEMENTS;
    int64_t end = ipu__min(begin + TASK_ELEMENTS, job->plan->elements);
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
    int64_t end = ipu__min(begin + TASK_ELEMENTS, job->plan->elements);
    uint32_t words[4];
    (void)worker;
    for (int64_t i = begin; i < end; i += 4) {
        ipu_random_block(&job->key, (uint64_t)i / 4, words);
        for (int64_t lane = 0; lane < ipu__min(4, end - i); lane++) {
            bool keep = words[lane] >> 8 >= job->plan->threshold;
            y[i + lane] = keep ? x[i + lane] * job->plan->scale : 0.0f;
            mask[i + lane] = keep;
        }
    }
}

static ipu_status
run_tasks(const ipu_kernel_call *call, ipu_task_fn *task)
{
    const random_plan *plan = call->spec->prepared;
    random_job job = {call, plan, ipu__random_key(call, &plan->source)};
    ipu_pool_run(call->pool, (int32_t)ipu__ceil_div(plan->elements, TASK_ELEMENTS),
                 task, &job);
    return IPU_OK;
}

static ipu_status
run_uniform(const ipu_kernel_call *call)
{
    return run_tasks(call, uniform_task);
}

static ipu_status
run_dropout(const ipu_kernel_call *call)
{
    return run_tasks(call, dropout_task);
}

static ipu_status
prepare(const ipu__preparation *p, random_plan **out)
{
    IPU_TRY(ipu__prepared(p, sizeof **out, out));
    (*out)->source = ipu__random_source_of(p->spec);
    (*out)->elements = ipu_shape_elements(&p->spec->outputs[0].shape);
    return IPU_OK;
}

ipu_status
ipu_choose_random_uniform(const ipu__preparation *p)
{
    random_plan *plan;
    if (p->spec->outputs[0].dtype == IPU_DTYPE_FLOAT32) {
        IPU_TRY(prepare(p, &plan));
        p->spec->run = run_uniform;
        p->spec->kernel_name = "uniform_f32";
    }
    return IPU_OK;
}

ipu_status
ipu_choose_dropout(const ipu__preparation *p)
{
    double rate = ipu_attrs_float(p->spec->attrs, IPU_ATTR_RATE, 0.0);
    random_plan *plan;
    if (p->spec->inputs[0].dtype != IPU_DTYPE_FLOAT32) {
        return IPU_OK;
    }
    IPU_TRY(prepare(p, &plan));
    if (rate > 0.0) {
        plan->threshold = rate < 1.0 ? (uint32_t)ceil(rate * 0x1p24) : UINT32_MAX;
    }
    plan->scale = rate < 1.0 ? (float)(1.0 / (1.0 - rate)) : 0.0f;
    p->spec->run = run_dropout;
    p->spec->kernel_name = "dropout_f32";
    return IPU_OK;
}

/* The reference kernels serve. */
#define CHOOSE(text) \
    ipu_status ipu_choose_##text(const ipu__preparation *p) \
    { \
        (void)p; \
        return IPU_OK; \
    }
CHOOSE(random_normal)
CHOOSE(truncated_normal)
CHOOSE(random_integer)
#undef CHOOSE
