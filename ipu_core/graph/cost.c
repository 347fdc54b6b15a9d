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

static ipu_cost
nothing(const ipu_cost_call *call)
{
    (void)call;
    return (ipu_cost){0};
}

static ipu_cost
movement(const ipu_cost_call *call)
{
    return arithmetic(call, 0.0);
}

/* Of input 0 only what the result shows is read. */
static ipu_cost
pick(const ipu_cost_call *call)
{
    ipu_cost cost = arithmetic(call, 0.0);
    cost.bytes += (double)ipu_type_bytes(&call->outputs[0]) -
                  (double)ipu_type_bytes(&call->inputs[0]);
    return cost;
}

static ipu_cost
per_result(const ipu_cost_call *call)
{
    return arithmetic(call, elements(&call->outputs[0]));
}

static ipu_cost
reduction(const ipu_cost_call *call)
{
    return arithmetic(call, elements(&call->inputs[0]));
}

/* Input 1 is added to what stands somewhere. */
static ipu_cost
sum_up(const ipu_cost_call *call)
{
    return arithmetic(call, elements(&call->inputs[1]));
}

static ipu_cost
scatter(const ipu_cost_call *call)
{
    return arithmetic(call, elements(&call->inputs[2]));
}

static ipu_cost
recurrence(const ipu_cost_call *call)
{
    return arithmetic(call, 2.0 * elements(&call->outputs[0]));
}

static ipu_cost
sorting(const ipu_cost_call *call)
{
    const ipu_shape *shape = &call->inputs[0].shape;
    double row = shape->rank == 0 ? 1.0 : (double)shape->dims[shape->rank - 1];
    return arithmetic(call, elements(&call->inputs[0]) * log2(row + 1.0));
}

static ipu_cost
softmax(const ipu_cost_call *call)
{
    return arithmetic(call, 5.0 * elements(&call->inputs[0]));
}

static ipu_cost
uniform(const ipu_cost_call *call)
{
    return arithmetic(call, 15.0 * elements(&call->outputs[0]));
}

static ipu_cost
normal(const ipu_cost_call *call)
{
    return arithmetic(call, 19.0 * elements(&call->outputs[0]));
}

static ipu_cost
dropout(const ipu_cost_call *call)
{
    return arithmetic(call, 17.0 * elements(&call->outputs[0]));
}

/* An operation for each element of each window. */
static ipu_cost
pooling(const ipu_cost_call *call)
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
static ipu_cost
normalize(const ipu_cost_call *call)
{
    return arithmetic(call, 7.0 * elements(&call->inputs[0]));
}

/* Two sums of products with the difference, and the result. */
static ipu_cost
normalize_grad(const ipu_cost_call *call)
{
    return arithmetic(call, 9.0 * elements(&call->inputs[0]));
}

static ipu_cost
fused_elementwise(const ipu_cost_call *call)
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

static ipu_cost
product(const ipu_cost_call *call)
{
    return arithmetic(call, 2.0 * inner_of(call, 0) * elements(&call->outputs[0]));
}

static ipu_cost
product_and_sum(const ipu_cost_call *call)
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

static ipu_cost
conv(const ipu_cost_call *call)
{
    return convolution(call, &call->outputs[0], &call->inputs[1]);
}

static ipu_cost
conv_grad_input(const ipu_cost_call *call)
{
    return convolution(call, &call->inputs[0], &call->inputs[1]);
}

static ipu_cost
fused_conv_grad_input(const ipu_cost_call *call)
{
    return convolution(call, &call->inputs[1], &call->inputs[2]);
}

static ipu_cost
conv_grad_filter(const ipu_cost_call *call)
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

static ipu_cost
cholesky(const ipu_cost_call *call)
{
    return arithmetic(call, elements(&call->inputs[0]) * side_of(call) / 3.0);
}

static ipu_cost
triangular_solve(const ipu_cost_call *call)
{
    return arithmetic(call, elements(&call->outputs[0]) * side_of(call));
}

/* Gaussian elimination: 2/3 n^3 for each matrix. */
static ipu_cost
elimination(const ipu_cost_call *call)
{
    return arithmetic(call, elements(&call->inputs[0]) * side_of(call) * 2.0 / 3.0);
}

/* Orthogonal factors: several passes of 4 m n min(m, n) each; as if one did. */
static ipu_cost
rotations(const ipu_cost_call *call)
{
    const ipu_shape *shape = &call->inputs[0].shape;
    int64_t rows = shape->dims[shape->rank - 2];
    int64_t columns = shape->dims[shape->rank - 1];
    double shorter = (double)(rows < columns ? rows : columns);
    return arithmetic(call, 4.0 * elements(&call->inputs[0]) * shorter);
}

static ipu_cost
solve(const ipu_cost_call *call)
{
    ipu_cost cost = elimination(call);
    cost.flops += 2.0 * elements(&call->outputs[0]) * side_of(call);
    return cost;
}

/* A product with the kernel for each step, and ten operations for each gate. */
static ipu_cost
recurrent(const ipu_cost_call *call)
{
    double units = (double)call->inputs[1].shape.dims[0];
    return arithmetic(call, (2.0 * units + 10.0) * elements(&call->inputs[0]));
}

/* Scores and their weighted sum, and the softmax between them. */
static ipu_cost
attention(const ipu_cost_call *call)
{
    const int64_t *q = call->inputs[0].shape.dims;
    const int64_t *v = call->inputs[2].shape.dims;
    double scores = (double)(q[0] * q[1] * q[2]) * (double)v[2];
    return arithmetic(call, scores * (2.0 * (double)(q[3] + v[3]) + 5.0));
}

/* Scores once more, and two products for each of the two. */
static ipu_cost
attention_grad(const ipu_cost_call *call)
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

static ipu_cost
sgd_update(const ipu_cost_call *call)
{
    return update(call, 4.0 * elements(&call->outputs[0]));
}

static ipu_cost
matmul_sgd_update(const ipu_cost_call *call)
{
    return update(call, (2.0 * inner_of(call, 0) + 4.0) * elements(&call->outputs[0]));
}

/* Without momentum the rows alone are read and written. */
static ipu_cost
gather_sgd_update(const ipu_cost_call *call)
{
    ipu_cost cost = arithmetic(call, 5.0 * elements(&call->inputs[1]));
    for (uint32_t i = 0; i < call->output_count; i++) {
        cost.bytes += (double)ipu_type_bytes(call->output_count == 1 ? &call->inputs[1]
                                                                     : &call->outputs[i]);
    }
    return cost;
}

static ipu_cost
adam_update(const ipu_cost_call *call)
{
    return update(call, 12.0 * elements(&call->outputs[0]));
}

static ipu_cost
fused_update(const ipu_cost_call *call)
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

#define COST(text, rule) \
    ipu_cost ipu_cost_##text(const ipu_cost_call *call) \
    { \
        return rule(call); \
    }
COST(fused_elementwise, fused_elementwise)
COST(matmul, product)
COST(fused_matmul, product)
COST(matmul_accumulate, product_and_sum)
COST(conv, conv)
COST(conv_grad_input, conv_grad_input)
COST(fused_conv_grad_input, fused_conv_grad_input)
COST(conv_grad_filter, conv_grad_filter)
COST(fused_conv, conv)
COST(sum, reduction)
COST(mean, reduction)
COST(max, reduction)
COST(min, reduction)
COST(prod, reduction)
COST(any, reduction)
COST(all, reduction)
COST(argmin, reduction)
COST(argmax, reduction)
COST(max_pool, pooling)
COST(max_pool_grad, pooling)
COST(max_pool_pick, pooling)
COST(average_pool, pooling)
COST(average_pool_grad, pooling)
COST(normalize, normalize)
COST(normalize_grad, normalize_grad)
COST(cumsum, reduction)
COST(cumprod, reduction)
COST(recurrence, recurrence)
COST(top_k, sorting)
COST(cholesky, cholesky)
COST(triangular_solve, triangular_solve)
COST(solve, solve)
COST(det, elimination)
COST(slogdet, elimination)
COST(qr, rotations)
COST(eigh, rotations)
COST(svd, rotations)
COST(lu, elimination)
COST(constant, nothing)
COST(held, nothing)
COST(empty, nothing)
COST(identity, nothing)
COST(checkpoint, nothing)
COST(stop_gradient, nothing)
COST(custom_gradient, nothing)
COST(reshape, nothing)
COST(bitcast, nothing)
COST(transpose, movement)
COST(broadcast, movement)
COST(concat, movement)
COST(slice, pick)
COST(slice_grad, movement)
COST(gather, pick)
COST(gather_grad, sum_up)
COST(dynamic_slice, pick)
COST(dynamic_update_slice, movement)
COST(dynamic_add_slice, sum_up)
COST(gather_nd, pick)
COST(scatter_nd, sum_up)
COST(tensor_scatter, scatter)
COST(one_hot, per_result)
COST(softmax, softmax)
COST(log_softmax, softmax)
COST(sparse_cross_entropy, softmax)
COST(cross_entropy, softmax)
COST(lstm, recurrent)
COST(lstm_grad, recurrent)
COST(gru, recurrent)
COST(gru_grad, recurrent)
COST(attention, attention)
COST(attention_grad, attention_grad)
COST(random_uniform, uniform)
COST(random_normal, normal)
COST(truncated_normal, normal)
COST(random_integer, uniform)
COST(random_gamma, uniform)
COST(random_poisson, uniform)
COST(random_binomial, uniform)
COST(dropout, dropout)
COST(round_stochastic, dropout)
COST(replica_index, nothing)
COST(all_reduce, per_result)
COST(variable_read, nothing)
COST(variable_assign, movement)
COST(variable_add, reduction)
COST(sgd_update, sgd_update)
COST(matmul_sgd_update, matmul_sgd_update)
COST(gather_sgd_update, gather_sgd_update)
COST(adam_update, adam_update)
COST(adam_rate, per_result)
COST(fused_update, fused_update)
COST(infeed_dequeue, movement)
COST(outfeed_enqueue, movement)
COST(repeat, nothing)
COST(pipeline, nothing)
COST(while, nothing)
COST(switch, nothing)
#undef COST

#define IPU_OP(NAME, text, min_in, max_in, outputs, dtypes, flags) \
    IPU_OP_ENTRY(max_in, flags, per_result, ipu_cost_##text),
static ipu_cost_fn *const costs[IPU_OP_ID_COUNT] = {
#include "ops.def"
};
#undef IPU_OP

ipu_cost
ipu_cost_of(ipu_op op, const ipu_cost_call *call)
{
    return costs[op](call);
}
