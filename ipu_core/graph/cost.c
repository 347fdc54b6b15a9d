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

/* The cost of that name by a rule that says more of it. */
#define COST(name, rule, ...) \
    ipu_cost ipu_cost_##name(const ipu_cost_call *call) \
    { \
        return rule(call, __VA_ARGS__); \
    }
/* Elements of an operand, and of a result. */
#define IN(i) elements(&call->inputs[i])
#define OUT(i) elements(&call->outputs[i])

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

/* Of input 0 only what the result shows is read. */
ipu_cost
ipu_cost_pick(const ipu_cost_call *call)
{
    ipu_cost cost = arithmetic(call, 0.0);
    cost.bytes += (double)ipu_type_bytes(&call->outputs[0]) -
                  (double)ipu_type_bytes(&call->inputs[0]);
    return cost;
}

COST(movement, arithmetic, 0.0)
COST(per_result, arithmetic, OUT(0))
COST(reduction, arithmetic, IN(0))
/* Input 1 is added to what stands somewhere. */
COST(sum_up, arithmetic, IN(1))
COST(scatter, arithmetic, IN(2))
COST(recurrence, arithmetic, 2.0 * OUT(0))

ipu_cost
ipu_cost_sorting(const ipu_cost_call *call)
{
    const ipu_shape *shape = &call->inputs[0].shape;
    double row = shape->rank == 0 ? 1.0 : (double)shape->dims[shape->rank - 1];
    return arithmetic(call, IN(0) * log2(row + 1.0));
}

COST(softmax, arithmetic, 5.0 * IN(0))
COST(uniform, arithmetic, 15.0 * OUT(0))
COST(normal, arithmetic, 19.0 * OUT(0))
COST(dropout, arithmetic, 17.0 * OUT(0))

/* An operation for each element of each window. */
ipu_cost
ipu_cost_pooling(const ipu_cost_call *call)
{
    uint32_t axes;
    const int64_t *window = ipu_attrs_ints(call->attrs, IPU_ATTR_WINDOW, &axes);
    double most = OUT(0);
    double least = elements(&call->inputs[call->input_count - 1]);
    double flops = most < least ? most : least; /* the side of the windows */
    for (uint32_t i = 0; i < axes; i++) {
        flops *= (double)window[i];
    }
    return arithmetic(call, flops);
}

/* Two sums and the result, of which each takes a difference and a product. */
COST(normalize, arithmetic, 7.0 * IN(0))
/* Two sums of products with the difference, and the result. */
COST(normalize_grad, arithmetic, 9.0 * IN(0))

ipu_cost
ipu_cost_fused_elementwise(const ipu_cost_call *call)
{
    uint32_t words;
    ipu_attrs_ints(call->attrs, IPU_ATTR_CODE, &words);
    return arithmetic(call, (double)(words / IPU_FUSED_WORDS) * OUT(0));
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

COST(product, arithmetic, 2.0 * inner_of(call, 0) * OUT(0))
COST(product_and_sum, arithmetic, (2.0 * inner_of(call, 1) + 1.0) * OUT(0))

/* Each element of y is a sum over a window and the channels of a group. */
static ipu_cost
convolution(const ipu_cost_call *call, const ipu_type *y, const ipu_type *w)
{
    const ipu_shape *shape = &w->shape;
    double filters = (double)shape->dims[shape->rank - 1];
    double chain = filters == 0.0 ? 0.0 : elements(w) / filters;
    return arithmetic(call, 2.0 * chain * elements(y));
}

COST(conv, convolution, &call->outputs[0], &call->inputs[1])
COST(conv_grad_input, convolution, &call->inputs[0], &call->inputs[1])
COST(fused_conv_grad_input, convolution, &call->inputs[1], &call->inputs[2])
COST(conv_grad_filter, convolution, &call->inputs[1], &call->outputs[0])

/* The side of the square matrices of input 0. */
static double
side_of(const ipu_cost_call *call)
{
    const ipu_shape *shape = &call->inputs[0].shape;
    return (double)shape->dims[shape->rank - 1];
}

COST(cholesky, arithmetic, IN(0) * side_of(call) / 3.0)
COST(triangular_solve, arithmetic, OUT(0) * side_of(call))
/* Gaussian elimination: 2/3 n^3 for each matrix. */
COST(elimination, arithmetic, IN(0) * side_of(call) * 2.0 / 3.0)

/* Orthogonal factors: several passes of 4 m n min(m, n) each; as if one did. */
ipu_cost
ipu_cost_rotations(const ipu_cost_call *call)
{
    const ipu_shape *shape = &call->inputs[0].shape;
    int64_t rows = shape->dims[shape->rank - 2];
    int64_t columns = shape->dims[shape->rank - 1];
    double shorter = (double)(rows < columns ? rows : columns);
    return arithmetic(call, 4.0 * IN(0) * shorter);
}

ipu_cost
ipu_cost_solve(const ipu_cost_call *call)
{
    ipu_cost cost = ipu_cost_elimination(call);
    cost.flops += 2.0 * OUT(0) * side_of(call);
    return cost;
}

/* A product with the kernel for each step, and ten operations for each gate. */
COST(recurrent, arithmetic,
     (2.0 * (double)call->inputs[1].shape.dims[0] + 10.0) * IN(0))

/* For each score so many operations by features of q and of v, and others. */
static ipu_cost
attention(const ipu_cost_call *call, int64_t by_q, int64_t by_v, double others)
{
    const int64_t *q = call->inputs[0].shape.dims;
    const int64_t *v = call->inputs[2].shape.dims;
    double scores = (double)(q[0] * q[1] * q[2]) * (double)v[2];
    return arithmetic(call, scores * ((double)(by_q * q[3] + by_v * v[3]) + others));
}

/* Scores and their weighted sum, and the softmax between them. */
COST(attention, attention, 2, 2, 5.0)
/* Scores once more, and two products for each of the two. */
COST(attention_grad, attention, 6, 4, 9.0)

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

COST(sgd_update, update, 4.0 * OUT(0))
COST(matmul_sgd_update, update, (2.0 * inner_of(call, 0) + 4.0) * OUT(0))

/* Without momentum the rows alone are read and written. */
ipu_cost
ipu_cost_gather_sgd_update(const ipu_cost_call *call)
{
    ipu_cost cost = arithmetic(call, 5.0 * IN(1));
    for (uint32_t i = 0; i < call->output_count; i++) {
        cost.bytes += (double)ipu_type_bytes(
            call->output_count == 1 ? &call->inputs[1] : &call->outputs[i]);
    }
    return cost;
}

COST(adam_update, update, 12.0 * OUT(0))

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
