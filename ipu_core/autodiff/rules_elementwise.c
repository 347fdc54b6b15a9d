/* SPDX-License-Identifier: MIT
 *
 * Gradient rules of element-wise ops. A rule gets the gradient g of its result y and
 * gives one for each wanted input; `give` sums it back where the input was broadcast.
 * Rules use y where that spares work, and are made of ops that have rules themselves,
 * so that second derivatives come by applying them twice. No expression makes two nodes
 * in unsequenced arguments: the order of nodes must not depend on the compiler. One
 * thread per graph. */
#include <string.h>

#include "autodiff/rule_terms.h"

static ipu_value
zeros_like(ipu_rule *r, ipu_value like, ipu_value x)
{
    ipu_shape shape = ipu__rule_type(r, x).shape;
    return ipu__rule_broadcast(r, ipu__rule_number(r, like, 0.0), &shape);
}

UNARY_RULE(neg, NEG(g))
UNARY_RULE(abs, MUL(g, ipu__rule_unary(r, IPU_OP_ID_SIGN, x)))
/* 0 everywhere, also at 0, and not absent, as in TensorFlow */
UNARY_RULE(sign, zeros_like(r, g, x))
UNARY_RULE(exp, MUL(g, y))
UNARY_RULE(log, DIV(g, x))
UNARY_RULE(sqrt, ipu__rule_binary(r, IPU_OP_ID_SQRT_GRAD, y, g))
UNARY_RULE(rsqrt, ipu__rule_binary(r, IPU_OP_ID_RSQRT_GRAD, y, g))
UNARY_RULE(reciprocal, ipu__rule_binary(r, IPU_OP_ID_RECIPROCAL_GRAD, y, g))
UNARY_RULE(square, MUL(g, MUL(x, NUMBER(2.0))))
UNARY_RULE(tanh, ipu__rule_binary(r, IPU_OP_ID_TANH_GRAD, y, g))
UNARY_RULE(sigmoid, ipu__rule_binary(r, IPU_OP_ID_SIGMOID_GRAD, y, g))
UNARY_RULE(relu, ipu__rule_binary(r, IPU_OP_ID_RELU_GRAD, y, g))
/* Only casts between floating-point types get here. */
UNARY_RULE(cast, ipu__rule_cast(r, g, ipu__rule_type(r, x).dtype))

BINARY_RULE(add, g, g)
BINARY_RULE(sub, g, NEG(g))
BINARY_RULE(mul, MUL(g, b), MUL(g, a))
BINARY_RULE(div, DIV(g, b), MUL(g, DIV(DIV(NEG(a), b), b)))
/* a - floor(a / b) * b, where floor is constant almost everywhere */
BINARY_RULE(floor_mod, g, MUL(g, NEG(ipu__rule_binary(r, IPU_OP_ID_FLOOR_DIV, a, b))))

/* The gradients in terms of y: (y, dy) -> dx. The derivative with respect to y of
 * relu_grad is zero almost everywhere, and so absent. */
BINARY_RULE(relu_grad, IPU_NO_VALUE, ipu__rule_binary(r, IPU_OP_ID_RELU_GRAD, a, g))
BINARY_RULE(tanh_grad, MUL(MUL(MUL(g, b), NUMBER(-2.0)), a),
            ipu__rule_binary(r, IPU_OP_ID_TANH_GRAD, a, g))
BINARY_RULE(sigmoid_grad, MUL(MUL(MUL(SUB(a, NUMBER(0.5)), NUMBER(-2.0)), g), b),
            ipu__rule_binary(r, IPU_OP_ID_SIGMOID_GRAD, a, g))

/* Of (y, dy) with a factor `both` = g dy that is 0 where either is: what falls away in
 * the first derivative has no share in the second one. */
static ipu_value
unless_zero(ipu_rule *r, ipu_value both, ipu_value value)
{
    ipu_value zero = NUMBER(0.0);
    ipu_value falls_away = ipu__rule_binary(r, IPU_OP_ID_EQUAL, both, zero);
    return ipu__rule_select(r, falls_away, zero, value);
}

/* d/dy of dy / (2 y) is -dy / (2 y^2), in terms of the op itself: twice half over y */
static ipu_value
sqrt_grad_by_y(ipu_rule *r, ipu_value y, ipu_value both)
{
    ipu_value once = ipu__rule_binary(r, IPU_OP_ID_SQRT_GRAD, y, both);
    ipu_value twice = ipu__rule_binary(r, IPU_OP_ID_SQRT_GRAD, y, once);
    return MUL(twice, NUMBER(-2.0));
}

/* -dy y^3 / 2 */
static ipu_value
rsqrt_grad_by_y(ipu_rule *r, ipu_value y, ipu_value both)
{
    ipu_value scaled = MUL(both, NUMBER(-1.5));
    return unless_zero(r, both, MUL(MUL(scaled, y), y));
}

/* -dy y^2 */
static ipu_value
reciprocal_grad_by_y(ipu_rule *r, ipu_value y, ipu_value both)
{
    ipu_value scaled = MUL(both, NUMBER(-2.0));
    return unless_zero(r, both, MUL(scaled, y));
}

BINARY_RULE(sqrt_grad, sqrt_grad_by_y(r, a, MUL(g, b)),
            ipu__rule_binary(r, IPU_OP_ID_SQRT_GRAD, a, g))
BINARY_RULE(rsqrt_grad, rsqrt_grad_by_y(r, a, MUL(g, b)),
            ipu__rule_binary(r, IPU_OP_ID_RSQRT_GRAD, a, g))
BINARY_RULE(reciprocal_grad, reciprocal_grad_by_y(r, a, MUL(g, b)),
            ipu__rule_binary(r, IPU_OP_ID_RECIPROCAL_GRAD, a, g))

/* The base's gradient is b a^(b - 1). At a = b = 0 that is 0 * infinity; the power a^1
 * in its place makes it 0, as it is beside that point, and keeps further derivatives
 * finite. The exponent's is 0 where the base is not positive, as TensorFlow has
 * it; the inner select keeps log's own gradient finite there. */
ipu_status
ipu_gradient_pow(ipu_rule *r)
{
    const ipu_value g = r->grads[0];
    const ipu_value a = r->inputs[0];
    const ipu_value b = r->inputs[1];
    const ipu_value zero = NUMBER(0.0);
    const ipu_value one = NUMBER(1.0);
    if (r->wanted[0] && ipu__rule_type(r, b).dtype == IPU_DTYPE_FLOAT32 &&
        ipu_constant_is(r->graph, b, 2.0)) { /* what follows, without a power */
        ipu__rule_give(r, 0, MUL(g, MUL(b, a)));
    } else if (r->wanted[0]) {
        ipu_value flat = ipu__rule_binary(
            r, IPU_OP_ID_LOGICAL_AND, ipu__rule_binary(r, IPU_OP_ID_EQUAL, a, zero),
            ipu__rule_binary(r, IPU_OP_ID_EQUAL, b, zero));
        ipu_value exponent = ipu__rule_select(r, flat, one, SUB(b, one));
        ipu_value lower = ipu__rule_binary(r, IPU_OP_ID_POW, a, exponent);
        ipu__rule_give(r, 0, MUL(g, MUL(b, lower)));
    }
    if (r->wanted[1]) {
        ipu_value positive = ipu__rule_binary(r, IPU_OP_ID_GREATER, a, zero);
        ipu_value safe = ipu__rule_select(r, positive, a, one);
        ipu_value log = ipu__rule_unary(r, IPU_OP_ID_LOG, safe);
        ipu__rule_give(r, 1, MUL(g, MUL(r->outputs[0], log)));
    }
    return r->status;
}

/* Where the inputs are equal the first one takes it all, as in TensorFlow. */
static ipu_status
larger_or_smaller(ipu_rule *r, ipu_op first_taken)
{
    const ipu_value g = r->grads[0];
    const ipu_value zero = NUMBER(0.0);
    ipu_value first = ipu__rule_binary(r, first_taken, r->inputs[0], r->inputs[1]);
    if (r->wanted[0]) {
        ipu__rule_give(r, 0, ipu__rule_select(r, first, g, zero));
    }
    if (r->wanted[1]) {
        ipu__rule_give(r, 1, ipu__rule_select(r, first, zero, g));
    }
    return r->status;
}

SAME_RULE(maximum, larger_or_smaller(r, IPU_OP_ID_GREATER_EQUAL))
SAME_RULE(minimum, larger_or_smaller(r, IPU_OP_ID_LESS_EQUAL))

ipu_status
ipu_gradient_select(ipu_rule *r)
{
    const ipu_value g = r->grads[0];
    const ipu_value zero = NUMBER(0.0);
    if (r->wanted[1]) {
        ipu__rule_give(r, 1, ipu__rule_select(r, r->inputs[0], g, zero));
    }
    if (r->wanted[2]) {
        ipu__rule_give(r, 2, ipu__rule_select(r, r->inputs[0], zero, g));
    }
    return r->status;
}

/* The kept elements were scaled by 1 / (1 - rate), with that number rounded once. */
ipu_status
ipu_gradient_dropout(ipu_rule *r)
{
    const ipu_value g = r->grads[0];
    if (g.index == IPU_NO_INDEX) {
        return r->status;
    }
    double rate = ipu_attrs_float(r->attrs, IPU_ATTR_RATE, 0.0);
    ipu_value scaled = MUL(g, NUMBER(1.0 / (1.0 - rate)));
    ipu__rule_give(r, 0, ipu__rule_select(r, r->outputs[1], scaled, NUMBER(0.0)));
    return r->status;
}
