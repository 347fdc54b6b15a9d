/* SPDX-License-Identifier: MIT
 *
 * float32 SGD, assign and add, each by itself; what is more, the fuse pass has made a
 * fused_update. One pass over variable, velocity and gradient; each element runs the
 * reference's sequence of float32 operations, so the results agree with it to the bit.
 * Tasks are runs of elements. */
#include "kernels/core/kernel_impl.h"

enum { TASK_ELEMENTS = 8192 };

/* SGD and addition, prepared. */
typedef struct update_plan {
    int64_t elements;
    ipu__sgd_rule rule;
    ipu_cpu_class cpu;
} update_plan;

#define SGD_LOOPS(suffix, target) \
    IPU_LOOP(target, plain_##suffix, \
             (float *w, const float *g, float rate, int64_t n), \
             w[j] = w[j] - rate * g[j];) \
    IPU_LOOP( \
        target, momentum_##suffix, \
        (float *w, float *v, const float *g, float rate, float momentum, int64_t n), { \
            float velocity = momentum * v[j] - rate * g[j]; \
            v[j] = velocity; \
            w[j] = w[j] + velocity; \
        }) \
    IPU_LOOP( \
        target, nesterov_##suffix, \
        (float *w, float *v, const float *g, float rate, float momentum, int64_t n), { \
            float move = rate * g[j]; \
            float velocity = momentum * v[j] - move; \
            v[j] = velocity; \
            w[j] = w[j] + (momentum * velocity - move); \
        }) \
    IPU_LOOP(target, add_##suffix, (float *w, const float *g, int64_t n), \
             w[j] = w[j] + g[j];)
SGD_LOOPS(generic, )
SGD_LOOPS(avx2, IPU_TARGET_AVX2)

ipu__sgd_rule
ipu__sgd_rule_of(const ipu_kernel_spec *spec)
{
    return (ipu__sgd_rule){
        .momentum = (float)ipu_attrs_float(spec->attrs, IPU_ATTR_MOMENTUM, 0.0),
        .nesterov = ipu_attrs_int(spec->attrs, IPU_ATTR_NESTEROV, 0) != 0,
    };
}

ipu__sgd
ipu__sgd_of(const ipu_kernel_call *call, const ipu__sgd_rule *rule, uint32_t rate_input)
{
    const ipu_kernel_spec *spec = call->spec;
    return (ipu__sgd){
        .variable = call->outputs[0],
        .velocity = spec->output_count > 1 ? call->outputs[1] : NULL,
        .rate = (float)ipu__double_load(spec->inputs[rate_input].dtype,
                                        call->inputs[rate_input]),
        .momentum = rule->momentum,
        .nesterov = rule->nesterov,
    };
}

void
ipu__sgd_apply(const ipu__sgd *sgd, int64_t at, const float *g, int64_t n,
               ipu_cpu_class cpu)
{
    bool avx2 = cpu >= IPU_CPU_AVX2;
    float *w = sgd->variable + at;
    if (sgd->velocity == NULL) {
        (avx2 ? plain_avx2 : plain_generic)(w, g, sgd->rate, n);
    } else if (sgd->nesterov) {
        (avx2 ? nesterov_avx2 : nesterov_generic)(w, sgd->velocity + at, g, sgd->rate,
                                                  sgd->momentum, n);
    } else {
        (avx2 ? momentum_avx2 : momentum_generic)(w, sgd->velocity + at, g, sgd->rate,
                                                  sgd->momentum, n);
    }
}

typedef struct sgd_job {
    const ipu__sgd *sgd;
    const float *gradient;
    int64_t elements;
    ipu_cpu_class cpu;
} sgd_job;

static void
apply_some(void *state, int64_t begin, int64_t end)
{
    const sgd_job *job = state;
    int64_t n = end - begin;
    ipu__sgd_apply(job->sgd, begin, job->gradient + begin, n, job->cpu);
}

void
ipu__sgd_run(ipu_pool *pool, const ipu__sgd *sgd, const float *gradient,
             int64_t elements, ipu_cpu_class cpu)
{
    sgd_job job = {sgd, gradient, elements, cpu};
    ipu__run_items(pool, elements, TASK_ELEMENTS, apply_some, &job);
}

static void
add_some(void *state, int64_t begin, int64_t end)
{
    const ipu_kernel_call *call = state;
    const update_plan *plan = call->spec->prepared;
    int64_t n = end - begin;
    float *to = (float *)call->outputs[0] + begin;
    const float *more = (const float *)call->inputs[0] + begin;
    (plan->cpu >= IPU_CPU_AVX2 ? add_avx2 : add_generic)(to, more, n);
}

static ipu_status
run_sgd(const ipu_kernel_call *call)
{
    const update_plan *plan = call->spec->prepared;
    ipu__sgd sgd = ipu__sgd_of(call, &plan->rule, 1);
    ipu__sgd_run(call->pool, &sgd, call->inputs[0], plan->elements, plan->cpu);
    return IPU_OK;
}

static ipu_status
run_add(const ipu_kernel_call *call)
{
    const update_plan *plan = call->spec->prepared;
    ipu_kernel_call copy = *call;
    ipu__run_items(call->pool, plan->elements, TASK_ELEMENTS, add_some, &copy);
    return IPU_OK;
}

/* --- prepare ---------------------------------------------------------------------- */

static ipu_status
choose(const ipu__preparation *p, ipu_kernel_fn *run, const char *name)
{
    ipu_kernel_spec *spec = p->spec;
    update_plan *plan;
    if (spec->outputs[0].dtype == IPU_DTYPE_FLOAT32) {
        IPU_TRY(ipu__prepared(p, sizeof *plan, &plan));
        plan->elements = ipu_shape_elements(&spec->outputs[0].shape);
        plan->rule = ipu__sgd_rule_of(spec);
        plan->cpu = p->cpu;
        spec->run = run;
        spec->kernel_name = name;
    }
    return IPU_OK;
}

ipu_status
ipu_choose_variable_assign(const ipu__preparation *p)
{
    p->spec->run = ipu_reference_variable_assign;
    p->spec->kernel_name = "copy";
    return IPU_OK;
}

ipu_status
ipu_choose_variable_add(const ipu__preparation *p)
{
    return choose(p, run_add, "variable_add_f32");
}

ipu_status
ipu_choose_sgd_update(const ipu__preparation *p)
{
    return choose(p, run_sgd, "sgd_f32");
}
