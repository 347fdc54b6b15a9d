/* SPDX-License-Identifier: MIT
 *
 * Gradient rules of attention. The first one is an op that makes the weights again. The
 * second is written out in single ops, which store the scores. With weights w, dropout
 * factors r, u = w r, and, of the first gradient,
 *
 *     dw = (dy v^T) r    ds = J(w, dw)    J(w, x) = w (x - sum(x w))
 *
 * and a, b, c what comes back for dq, dk, dv:
 *
 *     g = (a k^T + q b^T) scale    h = J(w, g)      what came back for ds, and for dw
 *     e = g (dw - sum(dw w)) - dw sum(g w) + dy c^T r      for w by all other ways
 *     t = J(w, e) scale                                    for q k^T
 *
 *     q: t k + scale ds b      v: (h r)^T dy
 *     k: t^T q + scale ds^T a  dy: (h r) v + u c
 *
 * All of it is float32 where the operands are float16, as in the kernels: -1e9, which
 * hides scores, is not a number of float16. One thread per graph. */
#include "autodiff/rule_terms.h"

#include <math.h>

static bool
is_given(const ipu_rule *r, int64_t what)
{
    return (ipu_attrs_int(r->attrs, IPU_ATTR_GIVEN, 0) & what) != 0;
}

ipu_status
ipu_gradient_attention(ipu_rule *r)
{
    ipu_value inputs[6] = {r->inputs[0], r->inputs[1], r->inputs[2], r->grads[0]};
    for (uint32_t i = 3; i < r->input_count; i++) {
        inputs[i + 1] = r->inputs[i];
    }
    ipu_value dq = ipu__rule_emit(r, IPU_OP_ID_ATTENTION_GRAD, inputs,
                                  r->input_count + 1, r->attrs.items, r->attrs.count);
    IPU_TRY(r->status);
    ipu_node made = ipu_value_of(r->graph, dq)->producer;
    for (uint32_t i = 0; i < 3; i++) {
        ipu__rule_give(r, i, ipu_node_output(ipu_node_of(r->graph, made), i));
    }
    return r->status;
}

/* --- the second one --------------------------------------------------------------- */

/* By the scale, as the op's attributes say. */
static ipu_value
scaled(ipu_rule *r, ipu_value x)
{
    double number = ipu_attrs_float(r->attrs, IPU_ATTR_SCALE, 1.0);
    ipu_value scale = NUMBER_LIKE(x, number);
    return ipu_attrs_int(r->attrs, IPU_ATTR_DIVIDES, 0) != 0 ? DIV(x, scale)
                                                             : MUL(x, scale);
}

static bool
replaces(const ipu_rule *r)
{
    return ipu_attrs_int(r->attrs, IPU_ATTR_REPLACES, 0) != 0;
}

/* Scores hidden where `seen`, bool, is false; by 0 what came back for scores that were
 * replaced. */
static ipu_value
hidden(ipu_rule *r, ipu_value scores, ipu_value seen, bool is_gradient)
{
    double number = ipu_attrs_float(r->attrs, IPU_ATTR_HIDDEN, -1e9);
    ipu_value other = NUMBER_LIKE(scores, is_gradient ? 0.0 : number);
    ipu_type type = ipu__rule_type(r, scores);
    seen = ipu__rule_broadcast(r, seen, &type.shape);
    return ipu__rule_select(r, seen, scores, replaces(r) ? other : ADD(scores, other));
}

/* Whether a query comes at a key or after it: [1, 1, queries, keys]. */
static ipu_value
earlier(ipu_rule *r, ipu_value scores)
{
    ipu_shape shape = ipu__rule_type(r, scores).shape;
    shape.dims[0] = 1;
    shape.dims[1] = 1;
    ipu_value one = ipu__rule_cast(r, NUMBER_LIKE(scores, 1.0), IPU_DTYPE_INT32);
    ipu_value ones = ipu__rule_broadcast(r, one, &shape);
    ipu_attr rows = ipu_attr_int(IPU_ATTR_AXIS, 2);
    ipu_attr columns = ipu_attr_int(IPU_ATTR_AXIS, 3);
    ipu_value query = ipu__rule_emit(r, IPU_OP_ID_CUMSUM, &ones, 1, &rows, 1);
    ipu_value key = ipu__rule_emit(r, IPU_OP_ID_CUMSUM, &ones, 1, &columns, 1);
    return ipu__rule_binary(r, IPU_OP_ID_GREATER_EQUAL, query, key);
}

static ipu_value
hide(ipu_rule *r, ipu_value scores, bool is_gradient)
{
    if (is_given(r, IPU_ATTENTION_MASK)) {
        scores = hidden(r, scores, r->inputs[4], is_gradient);
    }
    if (ipu_attrs_int(r->attrs, IPU_ATTR_CAUSAL, 0) != 0) {
        scores = hidden(r, scores, earlier(r, scores), is_gradient);
    }
    return scores;
}

/* From the gradient of what entered the softmax to that of scores, or back. */
static ipu_value
unscaled(ipu_rule *r, ipu_value x)
{
    return scaled(r, replaces(r) ? hide(r, x, true) : x);
}

static ipu_value
make_weights(ipu_rule *r, ipu_value q, ipu_value k)
{
    ipu_value scores = scaled(r, ipu__rule_product(r, q, k, false, true));
    return ipu__rule_unary(r, IPU_OP_ID_SOFTMAX, hide(r, scores, false));
}

/* The factors of weights, 0 for those that are dropped; or no value. */
static ipu_value
make_factors(ipu_rule *r, ipu_value weights)
{
    double rate = ipu_attrs_float(r->attrs, IPU_ATTR_RATE, 0.0);
    ipu_type type = ipu__rule_type(r, weights);
    if (!is_given(r, IPU_ATTENTION_KEY)) {
        return IPU_NO_VALUE;
    }
    ipu_attr attrs[2] = {ipu_attr_int(IPU_ATTR_DTYPE, IPU_DTYPE_FLOAT32),
                         ipu_attr_shape(&type.shape)};
    ipu_value uniform = ipu__rule_emit(r, IPU_OP_ID_RANDOM_UNIFORM,
                                       &r->inputs[r->input_count - 1], 1, attrs, 2);
    /* uniform numbers are multiples of 2^-24 */
    ipu_value least = NUMBER_LIKE(uniform, ceil(rate * 0x1p24) * 0x1p-24);
    ipu_value kept = ipu__rule_binary(r, IPU_OP_ID_GREATER_EQUAL, uniform, least);
    return MUL(ipu__rule_cast(r, kept, type.dtype),
               NUMBER_LIKE(weights, (double)(float)(1.0 / (1.0 - rate))));
}

static ipu_value
dropped(ipu_rule *r, ipu_value x, ipu_value factors)
{
    return factors.index == IPU_NO_INDEX ? x : MUL(x, factors);
}

/* J of the comment above. */
static ipu_value
through(ipu_rule *r, ipu_value w, ipu_value x)
{
    return MUL(w, SUB(x, ipu__rule_sum_last(r, MUL(x, w))));
}

static ipu_value
plus(ipu_rule *r, ipu_value a, ipu_value b)
{
    return a.index == IPU_NO_INDEX ? b : b.index == IPU_NO_INDEX ? a : ADD(a, b);
}

/* A float16 value as float32; no value stays none. */
static ipu_value
wide(ipu_rule *r, ipu_value x)
{
    bool is_half =
        x.index != IPU_NO_INDEX && ipu__rule_type(r, x).dtype == IPU_DTYPE_FLOAT16;
    return is_half ? ipu__rule_cast(r, x, IPU_DTYPE_FLOAT32) : x;
}

ipu_status
ipu_gradient_attention_grad(ipu_rule *r)
{
    const ipu_dtype dtype = ipu__rule_type(r, r->inputs[0]).dtype;
    const ipu_value q = wide(r, r->inputs[0]);
    const ipu_value k = wide(r, r->inputs[1]);
    const ipu_value v = wide(r, r->inputs[2]);
    const ipu_value dy = wide(r, r->inputs[3]);
    ipu_value w = make_weights(r, q, k);
    ipu_value factors = make_factors(r, w);
    ipu_value dw = dropped(r, ipu__rule_product(r, dy, v, false, true), factors);
    ipu_value ds = unscaled(r, through(r, w, dw));
    ipu_value g = IPU_NO_VALUE;
    ipu_value dq = IPU_NO_VALUE;
    ipu_value dk = IPU_NO_VALUE;
    ipu_value dv = IPU_NO_VALUE;
    ipu_value ddy = IPU_NO_VALUE;
    ipu_value e = IPU_NO_VALUE;
    const ipu_value a = wide(r, r->grads[0]);
    const ipu_value b = wide(r, r->grads[1]);
    const ipu_value c = wide(r, r->grads[2]);
    if (a.index != IPU_NO_INDEX) {
        g = ipu__rule_product(r, a, k, false, true);
        dk = ipu__rule_product(r, ds, a, true, false);
    }
    if (b.index != IPU_NO_INDEX) {
        g = plus(r, g, ipu__rule_product(r, q, b, false, true));
        dq = ipu__rule_product(r, ds, b, false, false);
    }
    if (c.index != IPU_NO_INDEX) {
        e = dropped(r, ipu__rule_product(r, dy, c, false, true), factors);
        ddy = ipu__rule_product(r, dropped(r, w, factors), c, false, false);
    }
    if (g.index != IPU_NO_INDEX) {
        g = unscaled(r, g);
        ipu_value h = dropped(r, through(r, w, g), factors);
        dv = ipu__rule_product(r, h, dy, true, false);
        ddy = plus(r, ddy, ipu__rule_product(r, h, v, false, false));
        ipu_value slope = SUB(dw, ipu__rule_sum_last(r, MUL(dw, w)));
        ipu_value tilt = MUL(dw, ipu__rule_sum_last(r, MUL(g, w)));
        e = plus(r, e, SUB(MUL(g, slope), tilt));
    }
    if (e.index != IPU_NO_INDEX) {
        ipu_value t = unscaled(r, through(r, w, e));
        dq = plus(r, dq, ipu__rule_product(r, t, k, false, false));
        dk = plus(r, dk, ipu__rule_product(r, t, q, true, false));
    }
    const ipu_value given[4] = {dq, dk, dv, ddy};
    for (uint32_t i = 0; i < 4; i++) {
        if (given[i].index != IPU_NO_INDEX) {
            ipu__rule_give(r, i, ipu__rule_cast(r, given[i], dtype));
        }
    }
    return r->status;
}
