/* SPDX-License-Identifier: MIT
 *
 * Matrix products: which kernel serves. Our own tiles (gemm_share.c) do wherever they
 * can; what they leave is BLIS's (gemm_blis.c). The choice follows from CPU class and
 * shape alone, never from timing: kernels round differently. It is made once, in
 * prepare, together with the plan of the product and its cut, and lies in the spec.
 * Buffers must have IPU_SLACK_BYTES behind them: BLIS 0.9 may read past a matrix, as may
 * our own. */
#include "kernels/gemm_blis_impl.h"
#include "kernels/gemm_share_impl.h"

/* What prepare works out, in the spec. */
typedef struct gemm_plan {
    ipu__matmul product;
    bool own; /* our own tiles, otherwise BLIS */
    bool updates_at_once;
    ipu__sgd_rule rule;
    ipu_cpu_class cpu;
    ipu__own_cut cut;
    ipu__blis_choice blis;
    /* of float16: floats of the widened operands and the product, with slack; and what
     * finishes its rows */
    size_t wide_floats[3];
    ipu__block add;
    ipu__block activation;
} gemm_plan;

typedef struct gemm_buffers {
    const float *a;
    const float *b;
    const float *bias;
    float *c;
    float *workspace; /* of our own kernel */
} gemm_buffers;

/* `update`: the product is a gradient; only our own kernel takes one. */
static ipu_status
run_product(const ipu_kernel_call *call, const gemm_buffers *buffers,
            ipu_activation activation, const ipu__sgd *update)
{
    const gemm_plan *plan = call->spec->prepared;
    const ipu__matmul *product = &plan->product;
    ipu__finish finish = {ipu__vector_f32_of(plan->cpu), buffers->bias, activation};
    if (product->m == 0 || product->n == 0 || product->batches == 0) {
        return IPU_OK;
    }
    if (!plan->own) {
        ipu__blis_call blis = {
            .plan = product,
            .choice = plan->blis,
            .a = buffers->a,
            .b = buffers->b,
            .c = buffers->c,
            .finish = &finish,
        };
        return ipu__blis_run(&blis, call->pool, call->ctx);
    }
    ipu__own_call own = {
        .plan = product,
        .cut = plan->cut,
        .a = buffers->a,
        .b = buffers->b,
        .c = buffers->c,
        .update = update,
        .finish = &finish,
    };
    ipu__own_run(&own, call->pool, buffers->workspace);
    return IPU_OK;
}

static ipu_status
run_f32(const ipu_kernel_call *call)
{
    const ipu__matmul *product = &((const gemm_plan *)call->spec->prepared)->product;
    gemm_buffers buffers = {
        .a = call->inputs[0],
        .b = call->inputs[1],
        .bias = product->bias ? call->inputs[2] : NULL,
        .c = call->outputs[0],
        .workspace = call->workspace,
    };
    return run_product(call, &buffers, product->activation, NULL);
}

/* Of a gradient in the workspace, with the slack that BLIS needs. */
static size_t
gradient_floats(const ipu__matmul *product)
{
    size_t slack = IPU_SLACK_BYTES / sizeof(float);
    return ((size_t)(product->m * product->n) + 15) / 16 * 16 + slack;
}

static ipu_status
run_update(const ipu_kernel_call *call)
{
    const gemm_plan *plan = call->spec->prepared;
    const ipu__matmul *product = &plan->product;
    ipu__sgd sgd = ipu__sgd_of(call, &plan->rule, 2);
    gemm_buffers buffers = {
        .a = call->inputs[0], .b = call->inputs[1], .workspace = call->workspace};
    if (plan->updates_at_once) {
        return run_product(call, &buffers, IPU_ACTIVATION_NONE, &sgd);
    }
    buffers.c = call->workspace;
    buffers.workspace = buffers.c + gradient_floats(product);
    IPU_TRY(run_product(call, &buffers, IPU_ACTIVATION_NONE, NULL));
    ipu__sgd_run(call->pool, &sgd, buffers.c, product->m * product->n, plan->cpu);
    return IPU_OK;
}

/* --- float16: both operands widened into the workspace, the product accumulated in
 * float32 and rounded once; then bias and activation, which round once each. ---------
 */

static size_t
wide_floats(const ipu_type *type)
{
    size_t slack = IPU_SLACK_BYTES / sizeof(float);
    return ((size_t)ipu_shape_elements(&type->shape) + slack + 15) / 16 * 16;
}

typedef struct half_finish {
    const gemm_plan *plan;
    const float *c;
    const uint16_t *bias;
    uint16_t *out;
} half_finish;

static void
half_row_task(void *state, int32_t task, int32_t worker)
{
    enum { PIECE = IPU_BLOCK_BYTES / 4 };
    const half_finish *finish = state;
    const gemm_plan *plan = finish->plan;
    int64_t n = plan->product.n;
    (void)worker;
    for (int64_t j = 0; j < n; j += PIECE) {
        int64_t count = ipu__min(n - j, PIECE);
        uint16_t *out = finish->out + task * n + j;
        ipu__floats_to_halves(out, finish->c + task * n + j, count, plan->cpu);
        if (finish->bias != NULL) {
            (void)plan->add.run(&plan->add, out, out, finish->bias + j, NULL, count);
        }
        if (plan->product.activation != IPU_ACTIVATION_NONE) {
            (void)plan->activation.run(&plan->activation, out, out, NULL, NULL, count);
        }
    }
}

static ipu_status
run_f16(const ipu_kernel_call *call)
{
    const ipu_kernel_spec *spec = call->spec;
    const gemm_plan *plan = spec->prepared;
    float *a = call->workspace;
    float *b = a + plan->wide_floats[0];
    float *c = b + plan->wide_floats[1];
    gemm_buffers buffers = {
        .a = a, .b = b, .c = c, .workspace = c + plan->wide_floats[2]};
    half_finish finish = {
        .plan = plan,
        .c = c,
        .bias = plan->product.bias ? call->inputs[2] : NULL,
        .out = call->outputs[0],
    };
    ipu__halves_to_floats(a, call->inputs[0],
                          ipu_shape_elements(&spec->inputs[0].shape), plan->cpu);
    ipu__halves_to_floats(b, call->inputs[1],
                          ipu_shape_elements(&spec->inputs[1].shape), plan->cpu);
    IPU_TRY(run_product(call, &buffers, IPU_ACTIVATION_NONE, NULL));
    ipu_pool_run(call->pool, (int32_t)(plan->product.batches * plan->product.m),
                 half_row_task, &finish);
    return IPU_OK;
}

static size_t
prepare_f16(gemm_plan *plan, const ipu_kernel_spec *spec)
{
    static const ipu_op ops[] = {
        [IPU_ACTIVATION_NONE] = IPU_OP_ID_RELU,
        [IPU_ACTIVATION_RELU] = IPU_OP_ID_RELU,
        [IPU_ACTIVATION_TANH] = IPU_OP_ID_TANH,
        [IPU_ACTIVATION_SIGMOID] = IPU_OP_ID_SIGMOID,
    };
    plan->wide_floats[0] = wide_floats(&spec->inputs[0]);
    plan->wide_floats[1] = wide_floats(&spec->inputs[1]);
    plan->wide_floats[2] = wide_floats(&spec->outputs[0]);
    ipu__block_prepare(&plan->add, IPU_OP_ID_ADD, IPU_DTYPE_FLOAT16, IPU_DTYPE_FLOAT16,
                       plan->cpu);
    ipu__block_prepare(&plan->activation, ops[plan->product.activation],
                       IPU_DTYPE_FLOAT16, IPU_DTYPE_FLOAT16, plan->cpu);
    return plan->wide_floats[0] + plan->wide_floats[1] + plan->wide_floats[2];
}

/* --- prepare ---------------------------------------------------------------------- */

/* Gradients go from the registers into the update where `updates` says that this is one
 * and the sum over k is short; otherwise they are stored in the workspace. They have the
 * same bits either way: the kernel that serves an update is that of the product. */
static ipu_status
prepare(const ipu__preparation *p, bool updates, gemm_plan **out)
{
    ipu_kernel_spec *spec = p->spec;
    gemm_plan *plan;
    IPU_TRY(ipu__prepared(p, sizeof *plan, &plan));
    ipu__matmul_plan(spec, &plan->product);
    plan->cpu = p->cpu;
    plan->own = ipu__own_serves(&plan->product, p->cpu);
    if (plan->own) {
        spec->kernel_name = "gemm_6x16";
        plan->updates_at_once = updates && plan->product.k <= IPU_UPDATE_CHUNK;
        plan->cut = ipu__own_cut_of(&plan->product, plan->updates_at_once);
        spec->workspace_bytes =
            ipu__own_workspace(&plan->product, &plan->cut, plan->updates_at_once);
    } else {
        IPU_TRY(ipu__blis_choose(p->ctx, &plan->product, p->cpu, &plan->blis));
        spec->kernel_name = ipu__blis_name(plan->blis.context);
    }
    *out = plan;
    return IPU_OK;
}

ipu_status
ipu_choose_fused_matmul(const ipu__preparation *p)
{
    ipu_dtype dtype = p->spec->inputs[0].dtype;
    gemm_plan *plan;
    if (dtype != IPU_DTYPE_FLOAT32 && dtype != IPU_DTYPE_FLOAT16) {
        return IPU_OK;
    }
    IPU_TRY(prepare(p, false, &plan));
    p->spec->run = run_f32;
    if (dtype == IPU_DTYPE_FLOAT16) {
        p->spec->run = run_f16;
        p->spec->workspace_bytes += prepare_f16(plan, p->spec) * sizeof(float);
    }
    return IPU_OK;
}

ipu_status
ipu_choose_matmul(const ipu__preparation *p)
{
    return ipu_choose_fused_matmul(p);
}

ipu_status
ipu_choose_matmul_sgd_update(const ipu__preparation *p)
{
    gemm_plan *plan;
    if (p->spec->outputs[0].dtype != IPU_DTYPE_FLOAT32) {
        return IPU_OK;
    }
    IPU_TRY(prepare(p, true, &plan));
    plan->rule = ipu__sgd_rule_of(p->spec);
    p->spec->run = run_update;
    if (!plan->updates_at_once) {
        p->spec->workspace_bytes += gradient_floats(&plan->product) * sizeof(float);
    }
    return IPU_OK;
}
