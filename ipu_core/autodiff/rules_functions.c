/* SPDX-License-Identifier: MIT
 *
 * Gradient rules of trigonometric, hyperbolic and special functions. Where a function's
 * derivative is known in terms of its result y, that is used. Statements of their own
 * keep nodes in one order under every compiler. One thread per graph. */
#include "autodiff/rule_terms.h"

#define UNARY(op, x) ipu__rule_unary(r, IPU_OP_ID_##op, (x))

/* 1 + x, and 1 + x^2 or 1 - x^2 */
static ipu_value
one_and(ipu_rule *r, ipu_op op, ipu_value x)
{
    ipu_value one = NUMBER(1.0);
    return ipu__rule_binary(r, op, one, x);
}

static ipu_value
one_and_square(ipu_rule *r, ipu_op op, ipu_value x)
{
    ipu_value square = UNARY(SQUARE, x);
    return one_and(r, op, square);
}

/* factor * exp(sign * x^2) */
static ipu_value
bell(ipu_rule *r, double factor, bool falls, ipu_value x)
{
    ipu_value square = UNARY(SQUARE, x);
    ipu_value height = UNARY(EXP, falls ? NEG(square) : square);
    ipu_value scale = NUMBER(factor);
    return MUL(height, scale);
}

/* sqrt(2 pi) exp(x^2 / 2) */
static ipu_value
bell_of_half(ipu_rule *r, ipu_value x)
{
    ipu_value half = NUMBER(0.5);
    ipu_value height = UNARY(EXP, MUL(UNARY(SQUARE, x), half));
    ipu_value scale = NUMBER(2.50662827463100050242);
    return MUL(height, scale);
}

static ipu_value
polygamma(ipu_rule *r, double order, ipu_value x)
{
    ipu_value n = NUMBER(order);
    return ipu__rule_binary(r, IPU_OP_ID_POLYGAMMA, n, x);
}

static const double two_by_root_pi = 1.12837916709551257390;
static const double half_root_pi = 0.88622692545275801365;
static const double log2_of_e = 1.44269504088896340736;

UNARY_RULE(log1p, DIV(g, one_and(r, IPU_OP_ID_ADD, x)))
UNARY_RULE(log2, DIV(MUL(g, NUMBER(log2_of_e)), x))
UNARY_RULE(expm1, MUL(g, UNARY(EXP, x)))
UNARY_RULE(sin, MUL(g, UNARY(COS, x)))
UNARY_RULE(cos, MUL(g, NEG(UNARY(SIN, x))))
UNARY_RULE(tan, MUL(g, one_and_square(r, IPU_OP_ID_ADD, y)))
UNARY_RULE(asin, DIV(g, UNARY(SQRT, one_and_square(r, IPU_OP_ID_SUB, x))))
UNARY_RULE(acos, NEG(DIV(g, UNARY(SQRT, one_and_square(r, IPU_OP_ID_SUB, x)))))
UNARY_RULE(atan, DIV(g, one_and_square(r, IPU_OP_ID_ADD, x)))
UNARY_RULE(sinh, MUL(g, UNARY(COSH, x)))
UNARY_RULE(cosh, MUL(g, UNARY(SINH, x)))
UNARY_RULE(asinh, DIV(g, UNARY(COSH, y)))
UNARY_RULE(acosh, DIV(g, UNARY(SINH, y)))
UNARY_RULE(atanh, DIV(g, one_and_square(r, IPU_OP_ID_SUB, x)))
UNARY_RULE(erf, MUL(g, bell(r, two_by_root_pi, true, x)))
UNARY_RULE(erfc, MUL(g, bell(r, -two_by_root_pi, true, x)))
UNARY_RULE(erfinv, MUL(g, bell(r, half_root_pi, false, y)))
UNARY_RULE(softplus, MUL(g, UNARY(SIGMOID, x)))
UNARY_RULE(gelu, ipu__rule_binary(r, IPU_OP_ID_GELU_GRAD, x, g))
UNARY_RULE(ndtri, MUL(g, bell_of_half(r, y)))
UNARY_RULE(digamma, MUL(g, polygamma(r, 1.0, x)))
UNARY_RULE(lgamma, MUL(g, UNARY(DIGAMMA, x)))

ipu_status
ipu_gradient_atan2(ipu_rule *r)
{
    const ipu_value g = r->grads[0];
    const ipu_value a = r->inputs[0];
    const ipu_value b = r->inputs[1];
    ipu_value a_square = UNARY(SQUARE, a);
    ipu_value b_square = UNARY(SQUARE, b);
    ipu_value share = DIV(g, ADD(a_square, b_square));
    if (r->wanted[0]) {
        ipu__rule_give(r, 0, MUL(share, b));
    }
    if (r->wanted[1]) {
        ipu__rule_give(r, 1, MUL(share, NEG(a)));
    }
    return r->status;
}

/* x exp(-|x|) I0 has the derivative I1 - sign(x) I0 with the factor, I1 that of I0 less
 * I1 / x less sign(x) I1, where I1 / x is 1/2 at 0. */
UNARY_RULE(bessel_i0e, MUL(g, ADD(UNARY(BESSEL_I1E, x), NEG(MUL(UNARY(SIGN, x), y)))))

ipu_status
ipu_gradient_bessel_i1e(ipu_rule *r)
{
    const ipu_value g = r->grads[0];
    const ipu_value x = r->inputs[0];
    const ipu_value y = r->outputs[0];
    ipu_value zero = NUMBER(0.0);
    ipu_value unit = NUMBER(1.0);
    ipu_value half = NUMBER(0.5);
    ipu_value at_zero = ipu__rule_binary(r, IPU_OP_ID_EQUAL, x, zero);
    ipu_value share = DIV(y, ipu__rule_select(r, at_zero, unit, x));
    share = ipu__rule_select(r, at_zero, half, share);
    ipu_value fall = ADD(share, MUL(UNARY(SIGN, x), y));
    ipu_value rise = UNARY(BESSEL_I0E, x);
    ipu__rule_give(r, 0, MUL(g, ADD(rise, NEG(fall))));
    return r->status;
}

/* x^(a - 1) exp(-x) / gamma(a) */
static ipu_value
gamma_density(ipu_rule *r, ipu_value a, ipu_value x)
{
    ipu_value one = NUMBER(1.0);
    ipu_value power = MUL(ADD(a, NEG(one)), UNARY(LOG, x));
    ipu_value rest = ADD(x, UNARY(LGAMMA, a));
    return UNARY(EXP, ADD(power, NEG(rest)));
}

BINARY_RULE(igamma, MUL(g, ipu__rule_binary(r, IPU_OP_ID_IGAMMA_SLOPE, a, b)),
            MUL(g, gamma_density(r, a, b)))
BINARY_RULE(igammac, NEG(MUL(g, ipu__rule_binary(r, IPU_OP_ID_IGAMMA_SLOPE, a, b))),
            NEG(MUL(g, gamma_density(r, a, b))))

/* Of (a, x), the op with a + 1 in place of a. */
static ipu_value
next_order(ipu_rule *r)
{
    ipu_value one = NUMBER(1.0);
    return ipu__rule_binary(r, r->op, ADD(r->inputs[0], one), r->inputs[1]);
}

/* By the second operand alone: of zeta, s zeta(s + 1, q) less than it was. */
BINARY_RULE(zeta, IPU_NO_VALUE, MUL(g, NEG(MUL(a, next_order(r)))))
BINARY_RULE(polygamma, IPU_NO_VALUE, MUL(g, next_order(r)))

/* A number keeps its place in the distribution F while alpha moves: dx = -F_alpha / f
 * (Figurnov, Mohamed and Mnih 2018). A number that has become 0 stays there. */
ipu_status
ipu_gradient_random_gamma(ipu_rule *r)
{
    const ipu_value g = r->grads[0];
    const ipu_value alpha = r->inputs[0];
    const ipu_value x = r->outputs[0];
    ipu_value zero = NUMBER(0.0);
    ipu_value one = NUMBER(1.0);
    ipu_value is_zero = ipu__rule_binary(r, IPU_OP_ID_EQUAL, x, zero);
    ipu_value safe = ipu__rule_select(r, is_zero, one, x);
    ipu_value moved = ipu__rule_binary(r, IPU_OP_ID_IGAMMA_SLOPE, alpha, safe);
    ipu_value slope = NEG(DIV(moved, gamma_density(r, alpha, safe)));
    ipu__rule_give(r, 0, MUL(g, ipu__rule_select(r, is_zero, zero, slope)));
    return r->status;
}

/* With the density f of the normal distribution: the derivative of its integral + x f
 * is f (2 - x^2). */
ipu_status
ipu_gradient_gelu_grad(ipu_rule *r)
{
    static const double root_two_pi = 2.50662827463100050242;
    const ipu_value g = r->grads[0];
    const ipu_value x = r->inputs[0];
    if (r->wanted[0]) {
        ipu_value half = NUMBER(-0.5);
        ipu_value fall = MUL(UNARY(SQUARE, x), half);
        ipu_value scale = NUMBER(1.0 / root_two_pi);
        ipu_value density = MUL(UNARY(EXP, fall), scale);
        ipu_value two = NUMBER(2.0);
        ipu_value bend = ADD(two, NEG(UNARY(SQUARE, x)));
        ipu_value both = MUL(g, r->inputs[1]);
        ipu__rule_give(r, 0, MUL(both, MUL(density, bend)));
    }
    if (r->wanted[1]) {
        ipu__rule_give(r, 1, ipu__rule_binary(r, IPU_OP_ID_GELU_GRAD, x, g));
    }
    return r->status;
}
