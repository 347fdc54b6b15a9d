/* SPDX-License-Identifier: MIT
 *
 * Gradient rules of matrix products, of the softmax family, of convolutions and of
 * pooling. One thread per graph. */
#include "autodiff/rule_terms.h"

/* --- matmul ---------------------------------------------------------------------- */

/* [..., M, K] as [... * M, K] */
static ipu_value
as_matrix(ipu_rule *r, ipu_value x)
{
    ipu_shape shape = ipu__rule_type(r, x).shape;
    int32_t last = shape.rank - 1;
    ipu_shape flat = {.rank = 2,
                      .dims = {ipu_shape_span(&shape, 0, last), shape.dims[last]}};
    return ipu__rule_reshape(r, x, &flat);
}

/* y = A' B' with A' = A or its transpose: dA' = g B'^T and dB' = A'^T g, each with the
 * transposition of the result moved into the operands. Where one matrix B meets a batch
 * of A, the batch is made one tall matrix, whose product sums over it. */
ipu_status
ipu_gradient_matmul(ipu_rule *r)
{
    const ipu_value g = r->grads[0];
    const ipu_value a = r->inputs[0];
    const ipu_value b = r->inputs[1];
    bool ta = ipu_attrs_int(r->attrs, IPU_ATTR_TRANSPOSE_A, 0) != 0;
    bool tb = ipu_attrs_int(r->attrs, IPU_ATTR_TRANSPOSE_B, 0) != 0;
    if (r->wanted[0]) {
        ipu__rule_give(r, 0,
                       ta ? ipu__rule_product(r, b, g, tb, true)
                          : ipu__rule_product(r, g, b, false, !tb));
    }
    if (r->wanted[1]) {
        bool tall = !ta && ipu__rule_type(r, b).shape.rank == 2 &&
                    ipu__rule_type(r, a).shape.rank > 2;
        ipu_value left = tall ? as_matrix(r, a) : a;
        ipu_value right = tall ? as_matrix(r, g) : g;
        ipu__rule_give(r, 1,
                       tb ? ipu__rule_product(r, right, left, true, ta)
                          : ipu__rule_product(r, left, right, !ta, false));
    }
    return r->status;
}

/* --- softmax --------------------------------------------------------------------- */

/* s * (g - sum(g * s)) over the last axis: the gradient of softmax with result s. */
static ipu_value
through_softmax(ipu_rule *r, ipu_value s, ipu_value g)
{
    return MUL(s, SUB(g, ipu__rule_sum_last(r, MUL(g, s))));
}

UNARY_RULE(softmax, through_softmax(r, y, g))

ipu_status
ipu_gradient_log_softmax(ipu_rule *r)
{
    const ipu_value g = r->grads[0];
    ipu_value s = ipu__rule_unary(r, IPU_OP_ID_EXP, r->outputs[0]);
    ipu__rule_give(r, 0, SUB(g, MUL(s, ipu__rule_sum_last(r, g))));
    return r->status;
}

/* The gradient of a loss per row, as a column that meets [..., C]. */
static ipu_value
as_column(ipu_rule *r, ipu_value loss_gradient)
{
    ipu_shape shape = ipu__rule_type(r, loss_gradient).shape;
    shape.dims[shape.rank++] = 1;
    return ipu__rule_reshape(r, loss_gradient, &shape);
}

/* d loss / d logits came with the loss as output 1. That output is s * S - labels, with
 * s = softmax(logits) and S the sum of a row's labels, so its own gradient with respect
 * to the logits is softmax's times S. `weight` is S, or IPU_NO_VALUE where it is 1. */
static ipu_value
logits_gradient(ipu_rule *r, ipu_value weight)
{
    ipu_value out = IPU_NO_VALUE;
    if (r->grads[0].index != IPU_NO_INDEX) {
        out = MUL(r->outputs[1], as_column(r, r->grads[0]));
    }
    if (r->grads[1].index != IPU_NO_INDEX) {
        ipu_value s = ipu__rule_unary(r, IPU_OP_ID_SOFTMAX, r->inputs[0]);
        ipu_value second = through_softmax(r, s, r->grads[1]);
        second = weight.index == IPU_NO_INDEX ? second : MUL(second, weight);
        out = out.index == IPU_NO_INDEX
                  ? second
                  : ipu__rule_binary(r, IPU_OP_ID_ADD, out, second);
    }
    return out;
}

BINARY_RULE(sparse_cross_entropy, logits_gradient(r, IPU_NO_VALUE), IPU_NO_VALUE)

/* With respect to the labels: -log s of the loss, and sum(g * s) - g of output 1. */
ipu_status
ipu_gradient_cross_entropy(ipu_rule *r)
{
    bool backprop = r->grads[1].index != IPU_NO_INDEX;
    if (r->wanted[0]) {
        ipu_value weight = IPU_NO_VALUE;
        if (backprop) {
            weight = ipu__rule_sum_last(r, r->inputs[1]);
        }
        ipu__rule_give(r, 0, logits_gradient(r, weight));
    }
    if (r->wanted[1]) {
        ipu_value out = IPU_NO_VALUE;
        if (r->grads[0].index != IPU_NO_INDEX) {
            ipu_value log = ipu__rule_unary(r, IPU_OP_ID_LOG_SOFTMAX, r->inputs[0]);
            ipu_value nats = ipu__rule_unary(r, IPU_OP_ID_NEG, log);
            out = MUL(nats, as_column(r, r->grads[0]));
        }
        if (backprop) {
            ipu_value s = ipu__rule_unary(r, IPU_OP_ID_SOFTMAX, r->inputs[0]);
            ipu_value sum = ipu__rule_sum_last(r, MUL(r->grads[1], s));
            ipu_value second = SUB(sum, r->grads[1]);
            out = out.index == IPU_NO_INDEX
                      ? second
                      : ipu__rule_binary(r, IPU_OP_ID_ADD, out, second);
        }
        ipu__rule_give(r, 1, out);
    }
    return r->status;
}

/* --- convolutions ----------------------------------------------------------------- */

/* With y = x * w, the three ops are closed under their gradients:
 *
 *   conv (x, w) -> y                dx = grad_input(g, w)     dw = grad_filter(x, g)
 *   conv_grad_input (y, w) -> x     dy = conv(g, w)           dw = grad_filter(g, y)
 *   conv_grad_filter (x, y) -> w    dx = grad_input(y, g)     dy = conv(x, g)
 *
 * since each is linear in both operands. */
BINARY_RULE(conv, ALIKE(CONV_GRAD_INPUT, a, g, b), ALIKE(CONV_GRAD_FILTER, b, a, g))
BINARY_RULE(conv_grad_input, ALIKE(CONV, IPU_NO_VALUE, g, b),
            ALIKE(CONV_GRAD_FILTER, b, g, a))
BINARY_RULE(conv_grad_filter, ALIKE(CONV_GRAD_INPUT, a, b, g),
            ALIKE(CONV, IPU_NO_VALUE, a, g))

/* --- pooling ---------------------------------------------------------------------- */

/* The average is linear; so is what max_pool_grad and max_pool_pick make of their last
 * operand, while the places of the largest elements are constant between ties. So these
 * ops are each other's gradients. */
UNARY_RULE(max_pool, ALIKE(MAX_POOL_GRAD, IPU_NO_VALUE, x, y, g))
UNARY_RULE(average_pool, ALIKE(AVERAGE_POOL_GRAD, x, g))
UNARY_RULE(average_pool_grad, ALIKE(AVERAGE_POOL, IPU_NO_VALUE, g))

/* With x and its maxima, what comes back is taken to or from their places. */
static ipu_status
at_maxima(ipu_rule *r, ipu_op op)
{
    const ipu_value inputs[3] = {r->inputs[0], r->inputs[1], r->grads[0]};
    if (r->wanted[2]) {
        ipu__rule_give(r, 2, ipu__rule_alike(r, op, IPU_NO_VALUE, inputs, 3));
    }
    return r->status;
}

SAME_RULE(max_pool_grad, at_maxima(r, IPU_OP_ID_MAX_POOL_PICK))
SAME_RULE(max_pool_pick, at_maxima(r, IPU_OP_ID_MAX_POOL_GRAD))
