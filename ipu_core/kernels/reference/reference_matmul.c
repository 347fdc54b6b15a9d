/* SPDX-License-Identifier: MIT
 *
 * Matrix products: the plan that all kernels share (sizes, strides, broadcast batch
 * axes) and the reference kernel, three plain loops. float16 accumulates in float32, by
 * the tree of sum_tree.h, float32 and float64 in double, integers wrap. fused_matmul
 * rounds the product, then the sum with the bias, then the activation, as the three ops
 * one by one would. Transposes are strides. Calling thread only; allocates nothing. */
#include <math.h>

#include "kernels/core/kernel_impl.h"
#include "kernels/core/sum_tree.h"

void
ipu__matmul_plan(const ipu_kernel_spec *spec, ipu__matmul *plan)
{
    uint32_t left = ipu__matmul_left(spec);
    const ipu_shape *a = &spec->inputs[left].shape;
    const ipu_shape *b = &spec->inputs[left + 1].shape;
    const ipu_shape *c = &spec->outputs[0].shape;
    bool transpose_a = ipu_attrs_int(spec->attrs, IPU_ATTR_TRANSPOSE_A, 0) != 0;
    bool transpose_b = ipu_attrs_int(spec->attrs, IPU_ATTR_TRANSPOSE_B, 0) != 0;
    int64_t a_cols = a->dims[a->rank - 1];
    int64_t b_cols = b->dims[b->rank - 1];
    plan->m = c->dims[c->rank - 2];
    plan->n = c->dims[c->rank - 1];
    plan->k = transpose_a ? a->dims[a->rank - 2] : a_cols;
    plan->a_row = transpose_a ? 1 : a_cols;
    plan->a_col = transpose_a ? a_cols : 1;
    plan->b_row = transpose_b ? 1 : b_cols;
    plan->b_col = transpose_b ? b_cols : 1;
    plan->activation =
        (ipu_activation)ipu_attrs_int(spec->attrs, IPU_ATTR_ACTIVATION, 0);
    plan->bias = spec->op == IPU_OP_ID_FUSED_MATMUL && spec->input_count > 2;
    /* the leading axes, as if each matrix were one element */
    ipu_type inputs[2] = {spec->inputs[left], spec->inputs[left + 1]};
    ipu_shape batch = *c;
    batch.rank -= 2;
    inputs[0].shape.rank -= 2;
    inputs[1].shape.rank -= 2;
    ipu__loop_broadcast(&plan->batch, &batch, inputs, 2);
    for (int32_t d = 0; d < plan->batch.rank; d++) {
        plan->batch.strides[0][d] *= plan->m * plan->k;
        plan->batch.strides[1][d] *= plan->k * plan->n;
    }
    plan->batches = plan->batch.elements;
}

static ipu__scalar
dot(ipu_dtype dtype, const void *a, int64_t a_at, int64_t a_step, const void *b,
    int64_t b_at, int64_t b_step, int64_t k)
{
    ipu__scalar sum = {.i = 0};
    ipu__sum narrow = {0};
    for (int64_t i = 0; i < k; i++) {
        ipu__scalar x = ipu__scalar_load(dtype, a, a_at + i * a_step);
        ipu__scalar y = ipu__scalar_load(dtype, b, b_at + i * b_step);
        if (dtype == IPU_DTYPE_FLOAT16) {
            ipu__sum_add(&narrow, x.f, y.f);
        } else if (ipu_dtype_is_float(dtype)) {
            sum.f = fma(x.f, y.f, sum.f);
        } else {
            sum.u += x.u * y.u;
        }
    }
    if (dtype == IPU_DTYPE_FLOAT16) {
        sum.f = ipu__sum_of(&narrow);
    }
    return ipu__scalar_round(dtype, sum);
}

void
ipu__reference_activate(ipu_activation activation, ipu_dtype dtype, ipu__scalar *value)
{
    if (activation != IPU_ACTIVATION_NONE) {
        ipu__scalar operands[3] = {*value, {.i = 0}, {.i = 0}};
        (void)ipu__scalar_apply(ipu__activation_op(activation), dtype, dtype, operands,
                                value);
    }
}

ipu_status
ipu_reference_matmul(const ipu_kernel_call *call)
{
    const ipu_kernel_spec *spec = call->spec;
    ipu_dtype dtype = spec->outputs[0].dtype;
    ipu__matmul plan;
    ipu__matmul_plan(spec, &plan);
    for (int64_t batch = 0; batch < plan.batches; batch++) {
        int64_t a = ipu__loop_offset(&plan.batch, 0, batch);
        int64_t b = ipu__loop_offset(&plan.batch, 1, batch);
        for (int64_t i = 0; i < plan.m * plan.n; i++) {
            int64_t row = i / plan.n;
            int64_t col = i % plan.n;
            ipu__scalar value =
                dot(dtype, call->inputs[0], a + row * plan.a_row, plan.a_col,
                    call->inputs[1], b + col * plan.b_col, plan.b_row, plan.k);
            if (plan.bias) {
                ipu__scalar operands[3] = {value, {.i = 0}, {.i = 0}};
                operands[1] = ipu__scalar_load(dtype, call->inputs[2], col);
                (void)ipu__scalar_apply(IPU_OP_ID_ADD, dtype, dtype, operands, &value);
            }
            ipu__reference_activate(plan.activation, dtype, &value);
            ipu__scalar_store(dtype, call->outputs[0], batch * plan.m * plan.n + i,
                              value);
        }
    }
    return IPU_OK;
}
