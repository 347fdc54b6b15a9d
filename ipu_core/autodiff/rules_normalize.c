/* SPDX-License-Identifier: MIT
 *
 * Gradient rules of normalisation. With z = (x - mean) * s, s = 1 / sqrt(variance +
 * epsilon), <v> the mean of v over a group, and
 *
 *     P(v) = v - <v> - z * <v z>
 *
 * the gradient is dx = s * P(dy * factor), and P is its own transpose. By way of s
 * and z x changes: ds / dx_i = -s^2 z_i / count, and sum_j v_j dz_j / dx_i = s *
 * P(v)_i. Nodes are made one by one, so that their order does not depend on the
 * compiler. One thread per graph. */
#include "autodiff/rule_terms.h"

/* x as [outer, rows, groups and their channels, in the order in which they lie], in the
 * dtype of the statistics. */
typedef struct view {
    ipu_shape shape;
    int32_t within; /* the axis of a group's channels */
    ipu_dtype wide;
    double count; /* elements of a group */
    ipu_value mean;
    ipu_value s;
    ipu_value z;
} view;

static ipu_value
widened(ipu_rule *r, const view *v, ipu_value x)
{
    return ipu__rule_reshape(r, ipu__rule_cast(r, x, v->wide), &v->shape);
}

/* What is per channel, to be met by what is per element. */
static ipu_value
per_channel(ipu_rule *r, const view *v, ipu_value x)
{
    ipu_shape shape = v->shape;
    shape.dims[0] = 1;
    shape.dims[1] = 1;
    return ipu__rule_reshape(r, x, &shape);
}

static ipu_value
per_group(ipu_rule *r, const view *v, ipu_value x)
{
    ipu_shape shape = v->shape;
    shape.dims[1] = 1;
    shape.dims[v->within] = 1;
    return ipu__rule_reshape(r, x, &shape);
}

static ipu_value
mean_of(ipu_rule *r, const view *v, ipu_value x)
{
    const int64_t axes[2] = {1, v->within};
    ipu_value sum = ipu__rule_sum(r, x, axes, 2, true);
    return MUL(sum, NUMBER_LIKE(x, 1.0 / v->count));
}

/* P of the comment above. */
static ipu_value
projected(ipu_rule *r, const view *v, ipu_value x)
{
    ipu_value centred = SUB(x, mean_of(r, v, x));
    ipu_value tilt = mean_of(r, v, MUL(x, v->z));
    return SUB(centred, MUL(v->z, tilt));
}

static ipu_value
narrowed(ipu_rule *r, ipu_value x, ipu_value like)
{
    const ipu_type type = ipu__rule_type(r, like);
    return ipu__rule_cast(r, ipu__rule_reshape(r, x, &type.shape), type.dtype);
}

static view
view_of(ipu_rule *r, ipu_value mean, ipu_value variance)
{
    const ipu_type x = ipu__rule_type(r, r->inputs[0]);
    int64_t groups = ipu_attrs_int(r->attrs, IPU_ATTR_GROUPS, 1);
    bool strided = ipu_attrs_int(r->attrs, IPU_ATTR_STRIDED, 0) != 0;
    int64_t each = x.shape.dims[2] / groups;
    view v = {.within = strided ? 2 : 3, .wide = ipu__rule_type(r, mean).dtype};
    v.shape = (ipu_shape){.rank = 4,
                          .dims = {x.shape.dims[0], x.shape.dims[1],
                                   strided ? each : groups, strided ? groups : each}};
    v.count = (double)(x.shape.dims[1] * each);
    double epsilon = ipu_attrs_float(r->attrs, IPU_ATTR_EPSILON, 1e-3);
    ipu_value shifted = ADD(variance, NUMBER_LIKE(variance, epsilon));
    v.s = per_group(r, &v, ipu__rule_unary(r, IPU_OP_ID_RSQRT, shifted));
    v.mean = per_group(r, &v, mean);
    v.z = widened(r, &v, r->inputs[0]);
    v.z = MUL(SUB(v.z, v.mean), v.s);
    return v;
}

/* Through mean and variance as results: dmean / count + dvariance * 2 (x - mean) /
 * count.
 */
static ipu_value
through_statistics(ipu_rule *r, ipu_value dx)
{
    view v = view_of(r, r->outputs[1], r->outputs[2]);
    ipu_value sum = widened(r, &v, dx);
    if (r->grads[1].index != IPU_NO_INDEX) {
        ipu_value share = per_group(r, &v, r->grads[1]);
        share = MUL(share, NUMBER_LIKE(sum, 1.0 / v.count));
        sum = ADD(sum, share);
    }
    if (r->grads[2].index != IPU_NO_INDEX) {
        ipu_value x = SUB(widened(r, &v, r->inputs[0]), v.mean);
        ipu_value slope = per_group(r, &v, r->grads[2]);
        slope = MUL(slope, NUMBER_LIKE(sum, 2.0 / v.count));
        sum = ADD(sum, MUL(x, slope));
    }
    return narrowed(r, sum, r->inputs[0]);
}

ipu_status
ipu_gradient_normalize(ipu_rule *r)
{
    ipu_value dx = IPU_NO_VALUE;
    if (r->grads[0].index != IPU_NO_INDEX) {
        const ipu_value inputs[5] = {r->inputs[0], r->grads[0], r->inputs[1],
                                     r->outputs[1], r->outputs[2]};
        dx = ipu__rule_emit(r, IPU_OP_ID_NORMALIZE_GRAD, inputs, 5, r->attrs.items,
                            r->attrs.count);
        if (r->status != IPU_OK) {
            return r->status;
        }
        const ipu_node_data *node =
            ipu_node_of(r->graph, ipu_value_of(r->graph, dx)->producer);
        ipu__rule_give(r, 1, ipu_node_output(node, 1));
        ipu__rule_give(r, 2, ipu_node_output(node, 2));
    }
    bool statistics =
        r->grads[1].index != IPU_NO_INDEX || r->grads[2].index != IPU_NO_INDEX;
    if (r->wanted[0] && statistics) {
        const ipu_shape shape = ipu__rule_type(r, r->inputs[0]).shape;
        if (dx.index == IPU_NO_INDEX) {
            dx = ipu__rule_broadcast(r, NUMBER_LIKE(r->inputs[0], 0.0), &shape);
        }
        dx = through_statistics(r, dx);
    }
    ipu__rule_give(r, 0, dx);
    return r->status;
}

/* Of dx, dfactor = sum dy * z and dshift = sum dy, with u, a and b what comes back to
 * them, and g = dy * factor. Mean and variance are those of x, so what they change is
 * part of what x does. */
ipu_status
ipu_gradient_normalize_grad(ipu_rule *r)
{
    const ipu_value u = r->grads[0];
    const ipu_value a = r->grads[1];
    const ipu_value b = r->grads[2];
    view v = view_of(r, r->inputs[3], r->inputs[4]);
    ipu_value dy = widened(r, &v, r->inputs[1]);
    ipu_value factor = per_channel(r, &v, r->inputs[2]);
    ipu_value to_x = IPU_NO_VALUE;
    ipu_value to_dy = IPU_NO_VALUE;
    if (u.index != IPU_NO_INDEX) {
        ipu_value wide = widened(r, &v, u);
        ipu_value g = MUL(dy, factor);
        ipu_value pu = projected(r, &v, wide);
        ipu_value q = mean_of(r, &v, MUL(g, v.z));
        ipu_value w = mean_of(r, &v, MUL(wide, v.z));
        to_dy = MUL(MUL(pu, v.s), factor);
        /* <u g> - <u><g> - w q is the mean of P(u) g */
        ipu_value both = mean_of(r, &v, MUL(pu, g));
        ipu_value sum = MUL(v.z, both);
        sum = ADD(sum, MUL(pu, q));
        ipu_value pg = projected(r, &v, g);
        sum = ADD(sum, MUL(pg, w));
        sum = MUL(sum, MUL(v.s, v.s));
        to_x = ipu__rule_unary(r, IPU_OP_ID_NEG, sum);
        ipu_value each = MUL(MUL(pu, v.s), dy);
        const int64_t rows[2] = {0, 1};
        ipu_value total = ipu__rule_sum(r, each, rows, 2, false);
        ipu__rule_give(r, 2, narrowed(r, total, r->inputs[2]));
    }
    if (a.index != IPU_NO_INDEX) {
        ipu_value wide = per_channel(r, &v, a);
        ipu_value more = MUL(projected(r, &v, MUL(dy, wide)), v.s);
        to_x = to_x.index == IPU_NO_INDEX ? more : ADD(to_x, more);
        more = MUL(v.z, wide);
        to_dy = to_dy.index == IPU_NO_INDEX ? more : ADD(to_dy, more);
    }
    if (b.index != IPU_NO_INDEX) {
        ipu_value more = per_channel(r, &v, b);
        to_dy = to_dy.index == IPU_NO_INDEX ? ipu__rule_broadcast(r, more, &v.shape)
                                            : ADD(to_dy, more);
    }
    if (to_x.index != IPU_NO_INDEX) {
        ipu__rule_give(r, 0, narrowed(r, to_x, r->inputs[0]));
    }
    if (to_dy.index != IPU_NO_INDEX) {
        ipu__rule_give(r, 1, narrowed(r, to_dy, r->inputs[1]));
    }
    return r->status;
}
