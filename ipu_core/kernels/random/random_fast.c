/* SPDX-License-Identifier: MIT
 *
 * Random numbers, dropout, stochastic rounding: words for a run of elements, then what
 * they mean, in loops for each class of processor (random_loops.h). Words, uniform
 * numbers, integers, dropout and rounding are equal to the reference kernels to the bit.
 * Normal numbers are computed in double as there, by functions of our own that are the
 * same everywhere; rounded to float32 or float16 they are the reference's but for one in
 * many millions. Tasks are runs of elements that start at a block of four words; they
 * depend on the shape alone. */
#include <math.h>
#include <string.h>

#include "kernels/random/random_impl.h"

enum {
    TASK_ELEMENTS = 8192, /* of light work; heavier tasks are smaller */
    HEAVY_TASK_ELEMENTS = 2048,
    RUN = 512 /* elements whose words lie on the stack */
};

struct random_plan;
typedef struct random_job {
    const ipu_kernel_call *call;
    const struct random_plan *plan;
    ipu_random_key key;
    uint64_t least; /* of integers */
    uint64_t span;
} random_job;

/* Elements [at, at + n), n <= RUN; `words` are theirs. */
typedef void run_fn(const random_job *job, const uint32_t *words, int64_t at,
                    int64_t n);

/* Prepared. */
typedef struct random_plan {
    ipu__random_source source;
    const ipu__random_form *form;
    run_fn *run;
    ipu_cpu_class cpu;
    ipu_dtype dtype;
    int64_t elements;
    int64_t task_elements;
    int64_t words_each;
    int64_t bytes; /* of an element */
    uint32_t threshold; /* 24 bits; elements below are dropped */
    double scale;
} random_plan;

const ipu__random_form *
ipu__random_form_of(ipu_cpu_class cpu)
{
    return IPU_FOR_CLASS(cpu, ipu__random, ipu__random_generic);
}

uint32_t
ipu__dropout_threshold(double rate)
{
    return rate < 1.0 ? (uint32_t)ceil(rate * 0x1p24) : UINT32_MAX;
}

static char *
output_at(const random_job *job, int64_t at)
{
    return ipu__at_mutable(job->call->outputs[0],
                           at * job->plan->bytes);
}

static void
run_uniform(const random_job *job, const uint32_t *words, int64_t at, int64_t n)
{
    const random_plan *plan = job->plan;
    void *out = output_at(job, at);
    float narrow[RUN];
    if (plan->dtype == IPU_DTYPE_FLOAT32) {
        plan->form->uniform(out, words, n);
    } else if (plan->dtype == IPU_DTYPE_FLOAT64) {
        plan->form->uniform_wide(out, words, n);
    } else {
        plan->form->uniform_narrow(narrow, words, n);
        ipu__floats_to_halves(out, narrow, n, plan->cpu);
    }
}

/* Doubles to where they go. */
static void
store(const random_job *job, const double *values, int64_t at, int64_t n)
{
    const random_plan *plan = job->plan;
    float odd[RUN];
    if (plan->dtype == IPU_DTYPE_FLOAT64) {
        memcpy(output_at(job, at), values, (size_t)n * sizeof *values);
    } else if (plan->dtype == IPU_DTYPE_FLOAT32) {
        plan->form->to_floats((float *)(void *)output_at(job, at), values, n);
    } else {
        plan->form->to_odd_floats(odd, values, n);
        ipu__floats_to_halves((uint16_t *)(void *)output_at(job, at), odd, n,
                              plan->cpu);
    }
}

static void
run_normal(const random_job *job, const uint32_t *words, int64_t at, int64_t n)
{
    double values[RUN];
    job->plan->form->normal(values, words, n + (n & 1));
    store(job, values, at, n);
}

static void
run_truncated(const random_job *job, const uint32_t *words, int64_t at, int64_t n)
{
    double values[RUN];
    job->plan->form->truncated(values, words, n);
    store(job, values, at, n);
}

static void
run_integers(const random_job *job, const uint32_t *words, int64_t at, int64_t n)
{
    const random_plan *plan = job->plan;
    void *out = output_at(job, at);
    uint32_t drawn[RUN];
    switch (plan->bytes) {
    case 8:
        plan->form->integers_wide(out, words, job->least, job->span, n);
        break;
    case 4:
        plan->form->integers(out, words, (uint32_t)job->least, job->span, n);
        break;
    default:
        plan->form->integers(drawn, words, (uint32_t)job->least, job->span, n);
        for (int64_t i = 0; i < n && plan->bytes == 2; i++) {
            ((uint16_t *)out)[i] = (uint16_t)drawn[i];
        }
        for (int64_t i = 0; i < n && plan->bytes == 1; i++) {
            ((uint8_t *)out)[i] = (uint8_t)drawn[i];
        }
    }
}

static void
run_dropout(const random_job *job, const uint32_t *words, int64_t at, int64_t n)
{
    const random_plan *plan = job->plan;
    bool half = plan->dtype == IPU_DTYPE_FLOAT16;
    const void *x = ipu__at(job->call->inputs[0], at * plan->bytes);
    void *out = output_at(job, at);
    uint8_t *mask = (uint8_t *)job->call->outputs[1] + at;
    float wide[RUN];
    if (plan->dtype == IPU_DTYPE_FLOAT64) {
        plan->form->dropout_wide(out, mask, x, words, plan->threshold, plan->scale, n);
        return;
    }
    if (half) {
        ipu__halves_to_floats(wide, x, n, plan->cpu);
    }
    plan->form->dropout(half ? wide : out, mask, half ? wide : x, words, plan->threshold,
                        (float)plan->scale, n);
    if (half) {
        ipu__floats_to_halves(out, wide, n, plan->cpu);
    }
}

static void
run_round(const random_job *job, const uint32_t *words, int64_t at, int64_t n)
{
    const float *x = job->call->inputs[0];
    job->plan->form->round((uint16_t *)(void *)output_at(job, at), x + at, words, n);
}

static void
draw(void *state, int64_t begin, int64_t end)
{
    const random_job *job = state;
    const random_plan *plan = job->plan;
    int64_t step = RUN / plan->words_each;
    _Alignas(64) uint32_t words[RUN];
    for (int64_t at = begin; at < end; at += step) {
        int64_t n = ipu__min(step, end - at);
        plan->form->words(words, &job->key, (uint64_t)(at * plan->words_each / 4),
                          ipu__ceil_div(n * plan->words_each, 4));
        plan->run(job, words, at, n);
    }
}

static ipu_status
run(const ipu_kernel_call *call)
{
    const random_plan *plan = call->spec->prepared;
    random_job job = {call, plan, ipu__random_key(call, &plan->source), 0, 0};
    if (plan->run == run_integers) {
        IPU_TRY(ipu__random_range(call, &job.least, &job.span));
    }
    ipu__run_items(call->pool, plan->elements, plan->task_elements, draw, &job);
    return IPU_OK;
}

static ipu_status
choose(const ipu__preparation *p, run_fn *make, const char *name, random_plan **out)
{
    random_plan *plan;
    IPU_TRY(ipu__prepared(p, sizeof *plan, &plan));
    plan->source = ipu__random_source_of(p->spec);
    plan->form = ipu__random_form_of(p->cpu);
    plan->run = make;
    plan->cpu = p->cpu;
    plan->dtype = p->spec->outputs[0].dtype;
    plan->bytes = (int64_t)ipu_dtype_bytes(plan->dtype);
    plan->elements = ipu_shape_elements(&p->spec->outputs[0].shape);
    plan->task_elements = TASK_ELEMENTS;
    plan->words_each = 1;
    p->spec->run = run;
    p->spec->kernel_name = name;
    *out = plan;
    return IPU_OK;
}

ipu_status
ipu_choose_random_uniform(const ipu__preparation *p)
{
    random_plan *plan;
    IPU_TRY(choose(p, run_uniform, "uniform", &plan));
    plan->words_each = plan->dtype == IPU_DTYPE_FLOAT64 ? 2 : 1;
    return IPU_OK;
}

static ipu_status
choose_normal(const ipu__preparation *p, run_fn *make, const char *name)
{
    random_plan *plan;
    IPU_TRY(choose(p, make, name, &plan));
    plan->task_elements = HEAVY_TASK_ELEMENTS;
    return IPU_OK;
}

ipu_status
ipu_choose_random_normal(const ipu__preparation *p)
{
    return choose_normal(p, run_normal, "normal");
}

ipu_status
ipu_choose_truncated_normal(const ipu__preparation *p)
{
    return choose_normal(p, run_truncated, "truncated_normal");
}

ipu_status
ipu_choose_random_integer(const ipu__preparation *p)
{
    random_plan *plan;
    IPU_TRY(choose(p, run_integers, "integers", &plan));
    plan->words_each = plan->bytes == 8 ? 2 : 1;
    return IPU_OK;
}

ipu_status
ipu_choose_dropout(const ipu__preparation *p)
{
    double rate = ipu_attrs_float(p->spec->attrs, IPU_ATTR_RATE, 0.0);
    ipu__scalar scale = {.f = rate < 1.0 ? 1.0 / (1.0 - rate) : 0.0};
    random_plan *plan;
    IPU_TRY(choose(p, run_dropout, "dropout", &plan));
    if (rate > 0.0) {
        plan->threshold = ipu__dropout_threshold(rate);
    }
    plan->scale = ipu__scalar_round(plan->dtype, scale).f;
    return IPU_OK;
}

ipu_status
ipu_choose_round_stochastic(const ipu__preparation *p)
{
    random_plan *plan;
    return choose(p, run_round, "round_stochastic", &plan);
}
