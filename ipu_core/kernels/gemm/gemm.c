/* SPDX-License-Identifier: MIT
 *
 * Matrix products: which kernel serves. Our own tiles (gemm_share.c) do, except where
 * BLIS (gemm_blis.c) was measured to be faster. The choice follows from CPU class and
 * shape alone, never from timing: kernels round differently. It is made once, in
 * prepare, together with the plan of the product and its cut, and lies in the spec.
 * Buffers must have IPU_SLACK_BYTES after them: BLIS 0.9 may read past a matrix, as may
 * our own. */

#include "kernels/gemm/gemm_blis_impl.h"
#include "kernels/gemm/gemm_chain_impl.h"
#include "kernels/gemm/gemm_share_impl.h"

enum {
    /* rows that are worth a part of their own */
    LEAST_ROWS = 8,
    LEAST_LARGE_ROWS = 32,
    LEAST_SHARE_ROWS = 64,
    LEAST_SHARE = 1 << 18,   /* multiply-adds */
    LARGE_WEIGHTS = 1 << 16, /* floats: more do not stay in the second-level cache */
    LARGE_UPDATE = 1 << 24   /* multiply-adds: work for all threads */
};

/* The plan that prepare leaves in the spec. */
typedef struct gemm_plan {
    ipu__matmul product;
    bool wide;    /* float64 */
    bool own;     /* our own tiles, otherwise BLIS */
    bool at_once; /* sums go from the registers into the update or the accumulator */
    int64_t shares; /* of each panel of a result in panels: equal numbers of rows */
    ipu__sgd_rule rule;
    ipu_cpu_class cpu;
    ipu__own_plan own_plan;
    ipu__chain_plan chain; /* of float64 and integers */
    ipu__blis_choice blis;
    /* of float16: floats of the product and, for BLIS, of the widened operands, with
     * slack */
    size_t wide_floats[3];
    /* what finishes rows of types other than float32 */
    ipu__block add;
    ipu__block activation;
} gemm_plan;

typedef struct gemm_buffers {
    const void *a;
    const void *b;
    void *c;
    /* of our own kernel: */
    const float *accumulator; /* or NULL, as in ipu__product */
    const ipu__sgd *update;
    float *workspace;
} gemm_buffers;

static ipu__own_call
own_call(const gemm_plan *plan, const gemm_buffers *buffers, const ipu__finish *finish)
{
    return (ipu__own_call){
        .matmul = &plan->product,
        .plan = &plan->own_plan,
        .a = buffers->a,
        .b = buffers->b,
        .c = buffers->c,
        .accumulator = buffers->accumulator,
        .update = buffers->update,
        .finish = finish,
    };
}

static ipu_status
run_product(const ipu_kernel_call *call, const gemm_buffers *buffers,
            const ipu__finish *finish)
{
    const gemm_plan *plan = call->spec->prepared;
    const ipu__matmul *product = &plan->product;
    if (product->m == 0 || product->n == 0 || product->batches == 0) {
        return IPU_OK;
    }
    if (plan->chain.form != NULL) {
        ipu__chain_call chain = {.matmul = product,
                                 .plan = &plan->chain,
                                 .a = buffers->a,
                                 .b = buffers->b,
                                 .c = buffers->c,
                                 .finish = finish};
        ipu__chain_run(&chain, call->pool, buffers->workspace);
        return IPU_OK;
    }
    if (!plan->own) {
        ipu__blis_call blis = {
            .plan = product,
            .choice = plan->blis,
            .wide = plan->wide,
            .a = buffers->a,
            .b = buffers->b,
            .c = buffers->c,
            .finish = finish,
        };
        return ipu__blis_run(&blis, call->pool, call->ctx);
    }
    ipu__own_call own = own_call(plan, buffers, finish);
    ipu__own_run(&own, call->pool, buffers->workspace);
    return IPU_OK;
}

/* Shares [begin, end) of the panels of a result, panel after panel. */
static void
run_shares(const ipu__own_call *own, int64_t columns, int64_t shares, int64_t begin,
           int64_t end, float *workspace)
{
    const int64_t rows = own->matmul->m / shares;
    for (int64_t next; begin < end; begin = next) {
        int64_t first = begin % shares;
        bool whole = first == 0 && end - begin >= shares;
        next = whole ? end - end % shares : ipu__min(end, begin - first + shares);
        int64_t last = whole ? shares : first + next - begin;
        ipu__rectangle part = {first * rows, last * rows, begin / shares * columns,
                               ipu__ceil_div(next, shares) * columns};
        ipu__own_rectangle(own, 0, &part, workspace);
    }
}

/* Rows [begin, end) of one matrix by our own tiles. */
static ipu_status
run_part(const ipu_kernel_call *call, const gemm_buffers *buffers,
         const ipu__finish *finish, int64_t begin, int64_t end)
{
    const gemm_plan *plan = call->spec->prepared;
    ipu__own_call own = own_call(plan, buffers, finish);
    ipu__rectangle part = {begin, end, 0, plan->product.n};
    if (plan->shares > 0) {
        run_shares(&own, call->spec->panels.columns, plan->shares, begin, end,
                   buffers->workspace);
    } else {
        ipu__own_rectangle(&own, 0, &part, buffers->workspace);
    }
    return IPU_OK;
}

static gemm_buffers
buffers_f32(const ipu_kernel_call *call)
{
    return (gemm_buffers){
        .a = call->inputs[0],
        .b = call->inputs[1],
        .c = call->outputs[0],
        .workspace = call->workspace,
    };
}

static ipu__finish
finish_f32(const ipu_kernel_call *call)
{
    const gemm_plan *plan = call->spec->prepared;
    return (ipu__finish){
        .vector = ipu__vector_f32_of(plan->cpu),
        .bias = plan->product.bias ? call->inputs[2] : NULL,
        .activation = plan->product.activation,
    };
}

static ipu_status
run_f32(const ipu_kernel_call *call)
{
    gemm_buffers buffers = buffers_f32(call);
    ipu__finish finish = finish_f32(call);
    return run_product(call, &buffers, &finish);
}

static ipu_status
run_f32_rows(const ipu_kernel_call *call, int64_t begin, int64_t end)
{
    gemm_buffers buffers = buffers_f32(call);
    ipu__finish finish = finish_f32(call);
    return run_part(call, &buffers, &finish, begin, end);
}

/* Of a product in the workspace, with the slack that BLIS needs. */
static size_t
product_floats(const ipu__matmul *product)
{
    size_t slack = IPU_SLACK_BYTES / sizeof(float);
    size_t floats = (size_t)(product->batches * product->m * product->n);
    return (floats + 15) / 16 * 16 + slack;
}

static ipu_status
run_update(const ipu_kernel_call *call)
{
    const gemm_plan *plan = call->spec->prepared;
    const ipu__matmul *product = &plan->product;
    ipu__sgd sgd = ipu__sgd_of(call, &plan->rule, 2);
    ipu__finish finish = {.vector = ipu__vector_f32_of(plan->cpu)};
    gemm_buffers buffers = {
        .a = call->inputs[0], .b = call->inputs[1], .workspace = call->workspace};
    if (plan->at_once) {
        buffers.update = &sgd;
        return run_product(call, &buffers, &finish);
    }
    buffers.c = call->workspace;
    buffers.workspace = (float *)buffers.c + product_floats(product);
    IPU_TRY(run_product(call, &buffers, &finish));
    ipu__sgd_run(call->pool, &sgd, buffers.c, product->m * product->n, plan->cpu);
    return IPU_OK;
}

static ipu_status
run_update_rows(const ipu_kernel_call *call, int64_t begin, int64_t end)
{
    const gemm_plan *plan = call->spec->prepared;
    ipu__sgd sgd = ipu__sgd_of(call, &plan->rule, 2);
    gemm_buffers buffers = {.a = call->inputs[0],
                            .b = call->inputs[1],
                            .update = &sgd,
                            .workspace = call->workspace};
    return run_part(call, &buffers, NULL, begin, end);
}

static ipu_status
run_accumulate_rows(const ipu_kernel_call *call, int64_t begin, int64_t end)
{
    gemm_buffers buffers = {.a = call->inputs[1],
                            .b = call->inputs[2],
                            .c = call->outputs[0],
                            .accumulator = call->inputs[0],
                            .workspace = call->workspace};
    return run_part(call, &buffers, NULL, begin, end);
}

static ipu_status
run_accumulate(const ipu_kernel_call *call)
{
    const gemm_plan *plan = call->spec->prepared;
    ipu__finish finish = {.vector = ipu__vector_f32_of(plan->cpu)};
    gemm_buffers buffers = {
        .a = call->inputs[1], .b = call->inputs[2], .workspace = call->workspace};
    if (plan->at_once) {
        buffers.c = call->outputs[0];
        buffers.accumulator = call->inputs[0];
        return run_product(call, &buffers, &finish);
    }
    buffers.c = call->workspace;
    buffers.workspace = (float *)buffers.c + product_floats(&plan->product);
    finish.product = buffers.c;
    finish.accumulator = call->inputs[0];
    finish.total = call->outputs[0];
    return run_product(call, &buffers, &finish);
}

/* --- float16: widened where operands are packed, for BLIS as whole matrices. The
 * product is accumulated in float32 and rounded once; then bias and activation, which
 * round once each. ---------------------------------------------------------------- */

static size_t
wide_floats(const ipu_type *type)
{
    size_t slack = IPU_SLACK_BYTES / sizeof(float);
    return ((size_t)ipu_shape_elements(&type->shape) + slack + 15) / 16 * 16;
}

static ipu__finish
finish_by_blocks(const ipu_kernel_call *call)
{
    const gemm_plan *plan = call->spec->prepared;
    bool activates = plan->product.activation != IPU_ACTIVATION_NONE;
    return (ipu__finish){
        .vector = ipu__vector_f32_of(plan->cpu),
        .typed_bias = plan->product.bias ? call->inputs[2] : NULL,
        .add = &plan->add,
        .activate = activates ? &plan->activation : NULL,
        .cpu = plan->cpu,
    };
}

static ipu_status
run_f16(const ipu_kernel_call *call)
{
    const ipu_kernel_spec *spec = call->spec;
    const gemm_plan *plan = spec->prepared;
    float *c = call->workspace;
    float *a = c + plan->wide_floats[2];
    float *b = a + plan->wide_floats[0];
    gemm_buffers buffers = {.a = call->inputs[0],
                            .b = call->inputs[1],
                            .c = c,
                            .workspace = b + plan->wide_floats[1]};
    ipu__finish finish = finish_by_blocks(call);
    finish.product = c;
    finish.halves = call->outputs[0];
    if (!plan->own) {
        ipu__halves_to_floats(a, call->inputs[0],
                              ipu_shape_elements(&spec->inputs[0].shape), plan->cpu);
        ipu__halves_to_floats(b, call->inputs[1],
                              ipu_shape_elements(&spec->inputs[1].shape), plan->cpu);
        buffers.a = a;
        buffers.b = b;
    }
    return run_product(call, &buffers, &finish);
}

static size_t
prepare_f16(gemm_plan *plan, const ipu_kernel_spec *spec)
{
    if (!plan->own) {
        plan->wide_floats[0] = wide_floats(&spec->inputs[0]);
        plan->wide_floats[1] = wide_floats(&spec->inputs[1]);
    }
    plan->wide_floats[2] = wide_floats(&spec->outputs[0]);
    return plan->wide_floats[0] + plan->wide_floats[1] + plan->wide_floats[2];
}

/* --- float64 and integers ---------------------------------------------------------- */

static ipu_status
run_typed(const ipu_kernel_call *call)
{
    gemm_buffers buffers = {.a = call->inputs[0],
                            .b = call->inputs[1],
                            .c = call->outputs[0],
                            .workspace = call->workspace};
    ipu__finish finish = finish_by_blocks(call);
    finish.bytes = (int64_t)ipu_dtype_bytes(call->spec->outputs[0].dtype);
    return run_product(call, &buffers, &finish);
}

/* --- prepare ---------------------------------------------------------------------- */

/* Measured: what is large in every direction is BLIS's where it has kernels for units
 * of 512 bits, and where we have none of our own. */
static bool
own_serves(const ipu__matmul *plan, ipu_cpu_class cpu)
{
    bool is_large = plan->m >= IPU_LARGE_PRODUCT && plan->n >= IPU_LARGE_PRODUCT &&
                    plan->k >= IPU_LARGE_PRODUCT;
    bool blis_leads =
        cpu == IPU_CPU_AVX512 ? ipu__has_wide_avx512() : cpu == IPU_CPU_GENERIC;
    return !(is_large && blis_leads);
}

static bool
is_own(const ipu__matmul *plan, ipu_kernel_variant variant, ipu_cpu_class cpu)
{
    return variant == IPU_KERNEL_PORTABLE ||
           (variant == IPU_KERNEL_FAST && own_serves(plan, cpu));
}

/* Sums that are stored before they are added are added by rows. */
int64_t
ipu_kernel_panel_columns(const ipu_kernel_spec *spec, ipu_kernel_variant variant,
                         ipu_cpu_class cpu)
{
    ipu__matmul product;
    ipu__matmul_plan(spec, &product);
    bool is_stored =
        spec->op == IPU_OP_ID_MATMUL_ACCUMULATE && product.k > IPU_SUM_BLOCK;
    bool can = spec->outputs[0].dtype == IPU_DTYPE_FLOAT32 && !is_stored &&
               is_own(&product, variant, cpu);
    return can ? ipu__tiles_of(cpu)->columns : 0;
}

/* Where `consumed` says that an update or an accumulator takes the sums, they go there
 * from the registers if the sum over k is short; otherwise they are stored in the
 * workspace. They have the same bits either way: the kernel is that of the product. */
static ipu_status
prepare(const ipu__preparation *p, bool consumed, gemm_plan **out)
{
    ipu_kernel_spec *spec = p->spec;
    gemm_plan *plan;
    IPU_TRY(ipu__prepared(p, sizeof *plan, &plan));
    *out = plan;
    ipu__matmul_plan(spec, &plan->product);
    plan->cpu = p->cpu;
    plan->wide = spec->outputs[0].dtype == IPU_DTYPE_FLOAT64;
    const bool is_integer = !ipu_dtype_is_float(spec->outputs[0].dtype);
    plan->own = !plan->wide && !is_integer && is_own(&plan->product, p->variant, p->cpu);
    if (is_integer || (plan->wide && p->variant == IPU_KERNEL_FAST)) {
        ipu__chain_plan_of(&plan->product, spec->outputs[0].dtype, p->cpu, &plan->chain);
    }
    IPU_FAIL_IF(p->ctx, spec->panels.columns != 0 && !plan->own, INTERNAL,
                "a product in panels that is not ours");
    if (plan->own) {
        plan->at_once = consumed && plan->product.k <= IPU_SUM_BLOCK;
        bool halves = spec->inputs[ipu__matmul_left(spec)].dtype == IPU_DTYPE_FLOAT16;
        ipu__own_plan_of(&plan->product, &spec->panels, p->cpu, halves, plan->at_once,
                         &plan->own_plan);
        spec->kernel_name = plan->own_plan.tiles->name;
        spec->workspace_bytes = ipu__own_workspace(&plan->product, &plan->own_plan);
    } else if (plan->chain.form != NULL) {
        spec->kernel_name = ipu__chain_name(&plan->chain);
        spec->workspace_bytes = ipu__chain_workspace(&plan->product, &plan->chain);
    } else {
        ipu_cpu_class cpu =
            p->variant == IPU_KERNEL_PORTABLE ? IPU_CPU_GENERIC : p->cpu;
        IPU_TRY(ipu__blis_choose(p->ctx, &plan->product, cpu, &plan->blis));
        spec->kernel_name = ipu__blis_name(plan->blis.context);
    }
    if (consumed && !plan->at_once) {
        spec->workspace_bytes += product_floats(&plan->product) * sizeof(float);
    }
    return IPU_OK;
}

/* A weight in panels is updated by shares of them: the thread that updates a panel then
 * has it in its cache when it multiplies by it in the next step. */
static int64_t
shares_of(const gemm_plan *plan, const ipu_kernel_panels *panels)
{
    const int64_t work = plan->product.m * plan->product.k * panels->columns;
    int64_t shares = 1;
    for (int64_t more = 2; plan->product.m % more == 0 &&
                           plan->product.m / more >= LEAST_SHARE_ROWS &&
                           work / more >= LEAST_SHARE;
         more *= 2) {
        shares = more;
    }
    return shares;
}

/* One matrix by our own tiles can be made row by row. Each part packs all of B, so a
 * large update, and a large product whose A is read by columns, as a weight's gradient,
 * is shared out by its own cut, which makes fewer parts. */
static void
offer_rows(ipu_kernel_spec *spec, gemm_plan *plan, ipu_kernel_rows_fn *run)
{
    const ipu__matmul *product = &plan->product;
    const ipu__own_plan *own = &plan->own_plan;
    bool is_whole = plan->at_once || run == run_f32_rows;
    bool packs_much = (plan->at_once || product->a_col != 1) &&
                      product->m * product->n * product->k >= LARGE_UPDATE;
    if (!plan->own || !is_whole || packs_much || spec->outputs[0].shape.rank != 2 ||
        product->m == 0 || product->n == 0) {
        return;
    }
    bool is_large = product->k * product->n > LARGE_WEIGHTS;
    int64_t tile = own->exchanged ? own->tiles->columns : own->tiles->rows;
    spec->rows = (ipu_kernel_rows){.run = run,
                                   .count = product->m,
                                   .grain = plan->at_once ? tile : 1,
                                   .least = plan->at_once ? 2 * tile
                                            : is_large    ? LEAST_LARGE_ROWS
                                                          : LEAST_ROWS,
                                   .workspace_bytes =
                                       (size_t)ipu__own_scratch(own) * sizeof(float)};
    if (spec->panels.result) {
        plan->shares = shares_of(plan, &spec->panels);
        spec->rows.count = product->n / spec->panels.columns * plan->shares;
        spec->rows.grain = spec->rows.least = 1;
    } else if (product->a_col == 1) {
        spec->rows.inputs |= 1ULL << ipu__matmul_left(spec);
    }
    if (spec->op == IPU_OP_ID_MATMUL_ACCUMULATE) {
        spec->rows.inputs |= 1;
    }
}

ipu_status
ipu_choose_matmul(const ipu__preparation *p)
{
    ipu_dtype dtype = p->spec->inputs[0].dtype;
    gemm_plan *plan;
    IPU_TRY(prepare(p, false, &plan));
    ipu__block_prepare(&plan->add, IPU_OP_ID_ADD, dtype, dtype, p->cpu);
    ipu__block_prepare(&plan->activation, ipu__activation_op(plan->product.activation),
                       dtype, dtype, p->cpu);
    if (dtype == IPU_DTYPE_FLOAT32) {
        p->spec->run = run_f32;
        offer_rows(p->spec, plan, run_f32_rows);
    } else if (dtype == IPU_DTYPE_FLOAT16) {
        p->spec->run = run_f16;
        p->spec->workspace_bytes += prepare_f16(plan, p->spec) * sizeof(float);
    } else {
        p->spec->run = run_typed;
    }
    return IPU_OK;
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
    offer_rows(p->spec, plan, run_update_rows);
    return IPU_OK;
}

ipu_status
ipu_choose_matmul_accumulate(const ipu__preparation *p)
{
    gemm_plan *plan;
    if (p->spec->outputs[0].dtype != IPU_DTYPE_FLOAT32) {
        return IPU_OK;
    }
    IPU_TRY(prepare(p, true, &plan));
    p->spec->run = run_accumulate;
    offer_rows(p->spec, plan, run_accumulate_rows);
    return IPU_OK;
}
