/* SPDX-License-Identifier: MIT
 *
 * The costs of all ops, by a handful of rules. Constants are counted from the formulas:
 * softmax is a maximum, a subtraction, an exponential, a sum and a division; Philox
 * with ten rounds (Salmon et al. 2011) is 60 integer operations for four numbers, a
 * normal number takes a logarithm, a root, a sine and a product more. Calling thread
 * only. */
#include "graph/cost.h"

#include "base/update_code.h"

#include <math.h>

static double
elements(const ipu_type *type)
{
    return (double)ipu_shape_elements(&type->shape);
}

/* That many operations, on all that comes in and goes out. */
static ipu_cost
arithmetic(const ipu_cost_call *call, double flops)
{
    ipu_cost cost = {.flops = flops};
    for (uint32_t i = 0; i < call->input_count; i++) {
        cost.bytes += (double)ipu_type_bytes(&call->inputs[i]);
    }
    for (uint32_t i = 0; i < call->output_count; i++) {
        cost.bytes += (double)ipu_type_bytes(&call->outputs[i]);
    }
    return cost;
}

ipu_cost
ipu_cost_nothing(const ipu_cost_call *call)
{
    (void)call;
    return (ipu_cost){0};
}

ipu_cost
ipu_cost_movement(const ipu_cost_call *call)
{
    return arithmetic(call, 0.0);
}

/* Of input 0 only what the result shows is read. */
ipu_cost
ipu_cost_pick(const ipu_cost_call *call)
{
    ipu_cost cost = arithmetic(call, 0.0);
    cost.bytes += (double)ipu_type_bytes(&call->outputs[0]) -
                  (double)ipu_type_bytes(&call->inputs[0]);
    return cost;
}

ipu_cost
ipu_cost_per_result(const ipu_cost_call *call)
{
    return arithmetic(call, elements(&call->outputs[0]));
}

ipu_cost
ipu_cost_reduction(const ipu_cost_call *call)
{
    return arithmetic(call, elements(&call->inputs[0]));
}

/* Input 1 is added to what stands somewhere. */
ipu_cost
ipu_cost_sum_up(const ipu_cost_call *call)
{
    return arithmetic(call, elements(&call->inputs[1]));
}

ipu_cost
ipu_cost_scatter(const ipu_cost_call *call)
{
    return arithmetic(call, elements(&call->inputs[2]));
}

ipu_cost
ipu_cost_recurrence(const ipu_cost_call *call)
{
    return arithmetic(call, 2.0 * elements(&call->outputs[0]));
}

ipu_cost
ipu_cost_sorting(const ipu_cost_call *call)
{
    const ipu_shape *shape = &call->inputs[0].shape;
    double row = shape->rank == 0 ? 1.0 : (double)shape->dims[shape->rank - 1];
    return arithmetic(call, elements(&call->inputs[0]) * log2(row + 1.0));
}

ipu_cost
ipu_cost_softmax(const ipu_cost_call *call)
{
    return arithmetic(call, 5.0 * elements(&call->inputs[0]));
}

ipu_cost
ipu_cost_uniform(const ipu_cost_call *call)
{
    return arithmetic(call, 15.0 * elements(&call->outputs[0]));
}

ipu_cost
ipu_cost_normal(const ipu_cost_call *call)
{
    return arithmetic(call, 19.0 * elements(&call->outputs[0]));
}

ipu_cost
ipu_cost_dropout(const ipu_cost_call *call)
{
    return arithmetic(call, 17.0 * elements(&call->outputs[0]));
}

/* An operation for each element of each window. */
ipu_cost
ipu_cost_pooling(const ipu_cost_call *call)
{
    uint32_t axes;
    const int64_t *window = ipu_attrs_ints(call->attrs, IPU_ATTR_WINDOW, &axes);
    double most = elements(&call->outputs[0]);
    double least = elements(&call->inputs[call->input_count - 1]);
    double flops = most < least ? most : least; /* the side of the windows */
    for (uint32_t i = 0; i < axes; i++) {
        flops *= (double)window[i];
    }
    return arithmetic(call, flops);
}

/* Two sums and the result, of which each takes a difference and a product. */
ipu_cost
ipu_cost_normalize(const ipu_cost_call *call)
{
    return arithmetic(call, 7.0 * elements(&call->inputs[0]));
}

/* Two sums of products with the difference, and the result. */
ipu_cost
ipu_cost_normalize_grad(const ipu_cost_call *call)
{
    return arithmetic(call, 9.0 * elements(&call->inputs[0]));
}

ipu_cost
ipu_cost_fused_elementwise(const ipu_cost_call *call)
{
    uint32_t words;
    ipu_attrs_ints(call->attrs, IPU_ATTR_CODE, &words);
    return arithmetic(call,
                      (double)(words / IPU_FUSED_WORDS) * elements(&call->outputs[0]));
}

/* --- products and equations ------------------------------------------------------ */

/* The axis that a product sums over; its left operand is input `left`. */
static double
inner_of(const ipu_cost_call *call, uint32_t left)
{
    const ipu_shape *a = &call->inputs[left].shape;
    bool transposed = ipu_attrs_int(call->attrs, IPU_ATTR_TRANSPOSE_A, 0) != 0;
    return (double)a->dims[a->rank - (transposed ? 2 : 1)];
}

ipu_cost
ipu_cost_product(const ipu_cost_call *call)
{
    return arithmetic(call, 2.0 * inner_of(call, 0) * elements(&call->outputs[0]));
}

ipu_cost
ipu_cost_product_and_sum(const ipu_cost_call *call)
{
    return arithmetic(call,
                      (2.0 * inner_of(call, 1) + 1.0) * elements(&call->outputs[0]));
}

/* Each element of y is a sum over a window and the channels of a group. */
static ipu_cost
convolution(const ipu_cost_call *call, const ipu_type *y, const ipu_type *w)
{
    const ipu_shape *shape = &w->shape;
    double filters = (double)shape->dims[shape->rank - 1];
    double chain = filters == 0.0 ? 0.0 : elements(w) / filters;
    return arithmetic(call, 2.0 * chain * elements(y));
}

ipu_cost
ipu_cost_conv(const ipu_cost_call *call)
{
    return convolution(call, &call->outputs[0], &call->inputs[1]);
}

ipu_cost
ipu_cost_conv_grad_input(const ipu_cost_call *call)
{
    return convolution(call, &call->inputs[0], &call->inputs[1]);
}

ipu_cost
ipu_cost_fused_conv_grad_input(const ipu_cost_call *call)
{
    return convolution(call, &call->inputs[1], &call->inputs[2]);
}

ipu_cost
ipu_cost_conv_grad_filter(const ipu_cost_call *call)
{
    return convolution(call, &call->inputs[1], &call->outputs[0]);
}

/* The side of the square matrices of input 0. */
static double
side_of(const ipu_cost_call *call)
{
    const ipu_shape *shape = &call->inputs[0].shape;
    return (double)shape->dims[shape->rank - 1];
}

ipu_cost
ipu_cost_cholesky(const ipu_cost_call *call)
{
    return arithmetic(call, elements(&call->inputs[0]) * side_of(call) / 3.0);
}

ipu_cost
ipu_cost_triangular_solve(const ipu_cost_call *call)
{
    return arithmetic(call, elements(&call->outputs[0]) * side_of(call));
}

/* Gaussian elimination: 2/3 n^3 for each matrix. */
ipu_cost
ipu_cost_elimination(const ipu_cost_call *call)
{
    return arithmetic(call, elements(&call->inputs[0]) * side_of(call) * 2.0 / 3.0);
}

/* Orthogonal factors: several passes of 4 m n min(m, n) each; as if one did. */
ipu_cost
ipu_cost_rotations(const ipu_cost_call *call)
{
    const ipu_shape *shape = &call->inputs[0].shape;
    int64_t rows = shape->dims[shape->rank - 2];
    int64_t columns = shape->dims[shape->rank - 1];
    double shorter = (double)(rows < columns ? rows : columns);
    return arithmetic(call, 4.0 * elements(&call->inputs[0]) * shorter);
}

ipu_cost
ipu_cost_solve(const ipu_cost_call *call)
{
    ipu_cost cost = ipu_cost_elimination(call);
    cost.flops += 2.0 * elements(&call->outputs[0]) * side_of(call);
    return cost;
}

/* A product with the kernel for each step, and ten operations for each gate. */
ipu_cost
ipu_cost_recurrent(const ipu_cost_call *call)
{
    double units = (double)call->inputs[1].shape.dims[0];
    return arithmetic(call, (2.0 * units + 10.0) * elements(&call->inputs[0]));
}

/* Scores and their weighted sum, and the softmax between them. */
ipu_cost
ipu_cost_attention(const ipu_cost_call *call)
{
    const int64_t *q = call->inputs[0].shape.dims;
    const int64_t *v = call->inputs[2].shape.dims;
    double scores = (double)(q[0] * q[1] * q[2]) * (double)v[2];
    return arithmetic(call, scores * (2.0 * (double)(q[3] + v[3]) + 5.0));
}

/* Scores once more, and two products for each of the two. */
ipu_cost
ipu_cost_attention_grad(const ipu_cost_call *call)
{
    const int64_t *q = call->inputs[0].shape.dims;
    const int64_t *v = call->inputs[2].shape.dims;
    double scores = (double)(q[0] * q[1] * q[2]) * (double)v[2];
    return arithmetic(call, scores * ((double)(6 * q[3] + 4 * v[3]) + 9.0));
}

/* --- updates: a variable is read and written ------------------------------------- */

static ipu_cost
update(const ipu_cost_call *call, double flops)
{
    ipu_cost cost = arithmetic(call, flops);
    for (uint32_t i = 0; i < call->output_count; i++) {
        cost.bytes += (double)ipu_type_bytes(&call->outputs[i]);
    }
    return cost;
}

ipu_cost
ipu_cost_sgd_update(const ipu_cost_call *call)
{
    return update(call, 4.0 * elements(&call->outputs[0]));
}

ipu_cost
ipu_cost_matmul_sgd_update(const ipu_cost_call *call)
{
    return update(call, (2.0 * inner_of(call, 0) + 4.0) * elements(&call->outputs[0]));
}

/* Without momentum the rows alone are read and written. */
ipu_cost
ipu_cost_gather_sgd_update(const ipu_cost_call *call)
{
    ipu_cost cost = arithmetic(call, 5.0 * elements(&call->inputs[1]));
    for (uint32_t i = 0; i < call->output_count; i++) {
        cost.bytes += (double)ipu_type_bytes(call->output_count == 1 ? &call->inputs[1]
                                                                     : &call->outputs[i]);
    }
    return cost;
}

ipu_cost
ipu_cost_adam_update(const ipu_cost_call *call)
{
    return update(call, 12.0 * elements(&call->outputs[0]));
}

ipu_cost
ipu_cost_fused_update(const ipu_cost_call *call)
{
    uint32_t words;
    const int64_t *code = ipu_attrs_ints(call->attrs, IPU_ATTR_CODE, &words);
    ipu_update_part part = {0};
    double flops = 0.0;
    while (ipu_update_next(code, words, &part)) {
        flops += part.instructions * elements(&call->outputs[part.first_variable]);
    }
    return update(call, flops);
}

/* --- the column ------------------------------------------------------------------ */

#define IPU_OP(NAME, text, min_in, max_in, outputs, dtypes, shape, cost, flags) \
    ipu_cost_##cost,
static ipu_cost_fn *const costs[IPU_OP_ID_COUNT] = {
#include "ops.def"
};
#undef IPU_OP

ipu_cost
ipu_cost_of(ipu_op op, const ipu_cost_call *call)
{
    return costs[op](call);
}
