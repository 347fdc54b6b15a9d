/* SPDX-License-Identifier: MIT
 *
 * Gradient rules of products along axes, running totals, sorting, points and linear
 * algebra. Notation of the last: g is the gradient of the result, A^-T the inverse of
 * the transpose; see Giles, "Collected matrix derivative results", 2008. One thread per
 * graph. */
#include <string.h>

#include "autodiff/rule_terms.h"

#define EQUAL(a, b) ipu__rule_binary(r, IPU_OP_ID_EQUAL, (a), (b))

/* --- running totals and products -------------------------------------------------- */

static ipu_value
scan(ipu_rule *r, ipu_op op, ipu_value x, int64_t axis, bool exclusive, bool reverse)
{
    ipu_attr attrs[3] = {ipu_attr_int(IPU_ATTR_AXIS, axis),
                         ipu_attr_int(IPU_ATTR_EXCLUSIVE, exclusive),
                         ipu_attr_int(IPU_ATTR_REVERSE, reverse)};
    return ipu__rule_emit(r, op, &x, 1, attrs, 3);
}

/* The same walk from the other end. */
UNARY_RULE(cumsum,
           scan(r, IPU_OP_ID_CUMSUM, g, ipu_attrs_int(r->attrs, IPU_ATTR_AXIS, 0),
                ipu_attrs_int(r->attrs, IPU_ATTR_EXCLUSIVE, 0) != 0,
                ipu_attrs_int(r->attrs, IPU_ATTR_REVERSE, 0) == 0))

/* y with y[k] = x[k + 1] along the scanned axis, or x[k - 1] where `back`; 0 where
 * there is no such element. */
static ipu_value
shifted(ipu_rule *r, ipu_value x, int64_t axis, bool back)
{
    ipu_type type = ipu__rule_type(r, x);
    int64_t begin[IPU_MAX_RANK] = {0};
    ipu_shape rest = type.shape;
    ipu_shape edge = type.shape;
    if (type.shape.dims[axis] == 0) {
        return x;
    }
    rest.dims[axis]--;
    edge.dims[axis] = 1;
    begin[axis] = back ? 0 : 1;
    if (rest.dims[axis] == 0) {
        begin[axis] = 0; /* of nothing */
    }
    ipu_value kept = ipu__rule_slice(r, x, begin, &rest);
    ipu_value zeros = ipu__rule_broadcast(r, NUMBER(0.0), &edge);
    ipu_value parts[2] = {back ? zeros : kept, back ? kept : zeros};
    return ipu__rule_concat(r, parts, 2, axis);
}

/* The axis of a scan, counted from the front. */
static int64_t
scanned_axis(const ipu_rule *r)
{
    int64_t axis = ipu_attrs_int(r->attrs, IPU_ATTR_AXIS, 0);
    return axis < 0 ? axis + ipu__rule_type(r, r->inputs[0]).shape.rank : axis;
}

static ipu_value
recurrence(ipu_rule *r, ipu_value a, ipu_value b, int64_t axis, bool reverse)
{
    ipu_value inputs[2] = {a, b};
    ipu_attr attrs[2] = {ipu_attr_int(IPU_ATTR_AXIS, axis),
                         ipu_attr_int(IPU_ATTR_REVERSE, reverse)};
    return ipu__rule_emit(r, IPU_OP_ID_RECURRENCE, inputs, 2, attrs, 2);
}

/* With y[j] the product of x[i] for i <= j (exclusive: i < j), in the direction of the
 * scan:
 *     dx[k] = p[k] s[k]    p[k] the product of x[i] for i < k
 *     s[k] = the sum over j >= k (j > k) of g[j] times the x[i] between k and j
 *          = g[k] + x[k + 1] s[k + 1]    (g[k + 1] + x[k + 1] s[k + 1])
 * Nothing is divided by, so it is right also where elements are 0. */
ipu_status
ipu_gradient_cumprod(ipu_rule *r)
{
    const int64_t axis = scanned_axis(r);
    const bool exclusive = ipu_attrs_int(r->attrs, IPU_ATTR_EXCLUSIVE, 0) != 0;
    const bool reverse = ipu_attrs_int(r->attrs, IPU_ATTR_REVERSE, 0) != 0;
    ipu_value before = scan(r, IPU_OP_ID_CUMPROD, r->inputs[0], axis, true, reverse);
    ipu_value factors = shifted(r, r->inputs[0], axis, reverse);
    ipu_value terms = exclusive ? shifted(r, r->grads[0], axis, reverse) : r->grads[0];
    ipu_value behind = recurrence(r, factors, terms, axis, !reverse);
    ipu__rule_give(r, 0, MUL(before, behind));
    return r->status;
}

/* db[k] = g[k] + a[k + 1] db[k + 1] and da[k] = db[k] y[k - 1], in its direction. */
ipu_status
ipu_gradient_recurrence(ipu_rule *r)
{
    const int64_t axis = scanned_axis(r);
    const bool reverse = ipu_attrs_int(r->attrs, IPU_ATTR_REVERSE, 0) != 0;
    ipu_value factors = shifted(r, r->inputs[0], axis, reverse);
    ipu_value terms = recurrence(r, factors, r->grads[0], axis, !reverse);
    if (r->wanted[0]) {
        ipu_value last = shifted(r, r->outputs[0], axis, !reverse);
        ipu__rule_give(r, 0, MUL(terms, last));
    }
    ipu__rule_give(r, 1, terms);
    return r->status;
}

/* g times the product of all others, which is that of those before times that of those
 * after: right also where elements are 0. The reduced axes are brought to the end. */
ipu_status
ipu_gradient_prod(ipu_rule *r)
{
    ipu_shape shape = ipu__rule_type(r, r->inputs[0]).shape;
    uint32_t count;
    const int64_t *axes = ipu_attrs_ints(r->attrs, IPU_ATTR_AXES, &count);
    bool reduced[IPU_MAX_RANK] = {false};
    int64_t perm[IPU_MAX_RANK];
    int64_t back[IPU_MAX_RANK];
    ipu_shape turned = {.rank = shape.rank};
    ipu_shape rows = {.rank = 2, .dims = {1, 1}};
    ipu_shape column = {.rank = 2, .dims = {1, 1}};
    uint32_t rank = 0;
    for (uint32_t i = 0; i < count; i++) {
        reduced[axes[i]] = true;
    }
    for (int32_t last = 0; last < 2; last++) {
        for (int32_t i = 0; i < shape.rank; i++) {
            if (reduced[i] == (last == 1)) {
                turned.dims[rank] = shape.dims[i];
                back[i] = rank;
                perm[rank++] = i;
                rows.dims[last] *= shape.dims[i];
            }
        }
    }
    column.dims[0] = rows.dims[0];
    ipu_attr there = ipu_attr_ints(IPU_ATTR_PERM, perm, rank);
    ipu_attr home = ipu_attr_ints(IPU_ATTR_PERM, back, rank);
    ipu_value x = ipu__rule_emit(r, IPU_OP_ID_TRANSPOSE, &r->inputs[0], 1, &there, 1);
    x = ipu__rule_reshape(r, x, &rows);
    ipu_value before = scan(r, IPU_OP_ID_CUMPROD, x, 1, true, false);
    ipu_value behind = scan(r, IPU_OP_ID_CUMPROD, x, 1, true, true);
    ipu_value others = MUL(before, behind);
    ipu_value dx = MUL(others, ipu__rule_reshape(r, r->grads[0], &column));
    dx = ipu__rule_reshape(r, dx, &turned);
    ipu__rule_give(r, 0, ipu__rule_emit(r, IPU_OP_ID_TRANSPOSE, &dx, 1, &home, 1));
    return r->status;
}

/* --- order and points ------------------------------------------------------------- */

ipu_status
ipu_gradient_top_k(ipu_rule *r)
{
    if (r->grads[0].index == IPU_NO_INDEX) {
        return r->status;
    }
    ipu_shape whole = ipu__rule_type(r, r->inputs[0]).shape;
    ipu_value inputs[2] = {r->outputs[1], r->grads[0]};
    ipu_attr attrs[3] = {ipu_attr_shape(&whole),
                         ipu_attr_int(IPU_ATTR_AXIS, whole.rank - 1),
                         ipu_attr_int(IPU_ATTR_BATCH_DIMS, whole.rank - 1)};
    ipu__rule_give(r, 0, ipu__rule_emit(r, IPU_OP_ID_GATHER_GRAD, inputs, 2, attrs, 3));
    return r->status;
}

static ipu_value
gather_nd(ipu_rule *r, ipu_value params, ipu_value indices)
{
    return ipu__rule_binary(r, IPU_OP_ID_GATHER_ND, params, indices);
}

static ipu_value
scatter_nd(ipu_rule *r, ipu_value indices, ipu_value updates, ipu_value like)
{
    const ipu_shape shape = ipu__rule_type(r, like).shape;
    ipu_value inputs[2] = {indices, updates};
    ipu_attr attr = ipu_attr_shape(&shape);
    return ipu__rule_emit(r, IPU_OP_ID_SCATTER_ND, inputs, 2, &attr, 1);
}

BINARY_RULE(gather_nd, scatter_nd(r, b, g, a), IPU_NO_VALUE)
BINARY_RULE(scatter_nd, IPU_NO_VALUE, gather_nd(r, g, a))

/* The extreme of a place is shared equally by all that reach it. */
static ipu_status
scattered_extreme(ipu_rule *r)
{
    const ipu_value y = r->outputs[0];
    const ipu_value indices = r->inputs[1];
    const ipu_value zero = NUMBER(0.0);
    ipu_type type = ipu__rule_type(r, y);
    ipu_value own = EQUAL(r->inputs[0], y);
    ipu_value hit = EQUAL(r->inputs[2], gather_nd(r, y, indices));
    ipu_value owns = ipu__rule_cast(r, own, type.dtype);
    ipu_value hits = ipu__rule_cast(r, hit, type.dtype);
    ipu_value ties = ADD(scatter_nd(r, indices, hits, y), owns);
    ipu_value share = DIV(r->grads[0], ties);
    if (r->wanted[0]) {
        ipu__rule_give(r, 0, ipu__rule_select(r, own, share, zero));
    }
    if (r->wanted[2]) {
        ipu_value given = gather_nd(r, share, indices);
        ipu__rule_give(r, 2, ipu__rule_select(r, hit, given, zero));
    }
    return r->status;
}

ipu_status
ipu_gradient_tensor_scatter(ipu_rule *r)
{
    const ipu_value g = r->grads[0];
    const ipu_value indices = r->inputs[1];
    int64_t reduction = ipu_attrs_int(r->attrs, IPU_ATTR_REDUCTION, 0);
    switch (reduction) {
    case IPU_SCATTER_UPDATE:
    case IPU_SCATTER_ADD:
        break;
    case IPU_SCATTER_MIN:
    case IPU_SCATTER_MAX:
        return scattered_extreme(r);
    default:
        IPU_FAIL(r->ctx, UNIMPLEMENTED,
                 "a product of scattered updates has no gradient");
    }
    if (r->wanted[0] && reduction == IPU_SCATTER_UPDATE) {
        ipu_shape shape = ipu__rule_type(r, r->inputs[2]).shape;
        ipu_value zeros = ipu__rule_broadcast(r, NUMBER(0.0), &shape);
        ipu_value inputs[3] = {g, indices, zeros};
        ipu_attr attr = ipu_attr_int(IPU_ATTR_REDUCTION, reduction);
        ipu__rule_give(
            r, 0, ipu__rule_emit(r, IPU_OP_ID_TENSOR_SCATTER, inputs, 3, &attr, 1));
    } else if (r->wanted[0]) {
        ipu__rule_give(r, 0, g);
    }
    if (r->wanted[2]) {
        ipu__rule_give(r, 2, gather_nd(r, g, indices));
    }
    return r->status;
}

/* --- linear algebra -------------------------------------------------------------- */

static ipu_value
turned(ipu_rule *r, ipu_value x)
{
    int32_t rank = ipu__rule_type(r, x).shape.rank;
    int64_t perm[IPU_MAX_RANK];
    for (int32_t i = 0; i < rank; i++) {
        perm[i] = i;
    }
    perm[rank - 2] = rank - 1;
    perm[rank - 1] = rank - 2;
    ipu_attr attr = ipu_attr_ints(IPU_ATTR_PERM, perm, (uint32_t)rank);
    return ipu__rule_emit(r, IPU_OP_ID_TRANSPOSE, &x, 1, &attr, 1);
}

/* a b^T */
static ipu_value
outer(ipu_rule *r, ipu_value a, ipu_value b)
{
    ipu_value inputs[2] = {a, b};
    ipu_attr attr = ipu_attr_int(IPU_ATTR_TRANSPOSE_B, 1);
    return ipu__rule_emit(r, IPU_OP_ID_MATMUL, inputs, 2, &attr, 1);
}

/* A constant matrix of the size and dtype of `like`, by what stands below, on and above
 * its diagonal. */
static ipu_value
pattern(ipu_rule *r, ipu_value like, double below, double on, double above)
{
    ipu_type type = ipu__rule_type(r, like);
    ipu_value out = IPU_NO_VALUE;
    int64_t n = type.shape.dims[type.shape.rank - 1];
    size_t element = ipu_dtype_bytes(type.dtype);
    size_t bytes = (size_t)(n * n) * element;
    char *data = NULL;
    if (r->status != IPU_OK) {
        return out;
    }
    r->status = ipu_alloc(r->ctx, bytes, &data);
    for (int64_t i = 0; r->status == IPU_OK && i < n * n; i++) {
        int64_t side = i % n - i / n;
        double value = side < 0 ? below : (side > 0 ? above : on);
        float narrow = (float)value;
        memcpy(data + (size_t)i * element,
               type.dtype == IPU_DTYPE_FLOAT64 ? (void *)&value : (void *)&narrow,
               element);
    }
    if (r->status == IPU_OK) {
        type.shape = ipu_shape_make(2, (int64_t[]){n, n});
        r->status =
            ipu_constant_emit(r->ctx, r->graph, r->block, r->node, &type, data, &out);
    }
    ipu_free(r->ctx, data, bytes);
    return out;
}

static ipu_value
solved(ipu_rule *r, ipu_op op, ipu_value a, ipu_value b, bool lower, bool transpose)
{
    ipu_value inputs[2] = {a, b};
    ipu_attr attrs[2] = {ipu_attr_int(IPU_ATTR_TRANSPOSE_A, transpose),
                         ipu_attr_int(IPU_ATTR_LOWER, lower)};
    return ipu__rule_emit(r, op, inputs, 2, attrs,
                          op == IPU_OP_ID_TRIANGULAR_SOLVE ? 2 : 1);
}

/* A = L L^T: the symmetric part of L^-T P L^-1, where P is the lower triangle of L^T g
 * with half its diagonal. */
ipu_status
ipu_gradient_cholesky(ipu_rule *r)
{
    const ipu_op op = IPU_OP_ID_TRIANGULAR_SOLVE;
    const ipu_value l = r->outputs[0];
    ipu_value inputs[2] = {l, r->grads[0]};
    ipu_attr attr = ipu_attr_int(IPU_ATTR_TRANSPOSE_A, 1);
    ipu_value p = ipu__rule_emit(r, IPU_OP_ID_MATMUL, inputs, 2, &attr, 1);
    p = MUL(p, pattern(r, l, 1.0, 0.5, 0.0));
    ipu_value half = solved(r, op, l, p, true, true);
    half = solved(r, op, l, turned(r, half), true, true);
    ipu_value both = ADD(half, turned(r, half));
    ipu_value scale = NUMBER(0.5);
    ipu__rule_give(r, 0, MUL(both, scale));
    return r->status;
}

/* X = A^-1 B: dB = A^-T g and dA = -dB X^T; with a transposed A, dA = -X dB^T. */
static ipu_status
through_solve(ipu_rule *r, bool triangular)
{
    const ipu_value a = r->inputs[0];
    bool lower = ipu_attrs_int(r->attrs, IPU_ATTR_LOWER, 0) != 0;
    bool transpose = ipu_attrs_int(r->attrs, IPU_ATTR_TRANSPOSE_A, 0) != 0;
    ipu_value db = solved(r, r->op, a, r->grads[0], lower, !transpose);
    if (r->wanted[0]) {
        ipu_value x = r->outputs[0];
        ipu_value da = NEG(transpose ? outer(r, x, db) : outer(r, db, x));
        if (triangular) {
            da = MUL(da, pattern(r, a, lower, 1.0, !lower));
        }
        ipu__rule_give(r, 0, da);
    }
    if (r->wanted[1]) {
        ipu__rule_give(r, 1, db);
    }
    return r->status;
}

SAME_RULE(triangular_solve, through_solve(r, true))
SAME_RULE(solve, through_solve(r, false))

/* scale [...] times A^-T */
static ipu_value
scaled_inverse(ipu_rule *r, ipu_value scale)
{
    ipu_type type = ipu__rule_type(r, scale);
    type.shape.dims[type.shape.rank] = 1;
    type.shape.dims[type.shape.rank + 1] = 1;
    type.shape.rank += 2;
    ipu_value eye = pattern(r, r->inputs[0], 0.0, 1.0, 0.0);
    ipu_value right = MUL(eye, ipu__rule_reshape(r, scale, &type.shape));
    ipu_shape whole = ipu__rule_type(r, r->inputs[0]).shape;
    right = ipu__rule_broadcast(r, right, &whole);
    return solved(r, IPU_OP_ID_SOLVE, r->inputs[0], right, false, true);
}

ipu_status
ipu_gradient_det(ipu_rule *r)
{
    ipu__rule_give(r, 0, scaled_inverse(r, MUL(r->grads[0], r->outputs[0])));
    return r->status;
}

ipu_status
ipu_gradient_slogdet(ipu_rule *r)
{
    if (r->grads[1].index !=
        IPU_NO_INDEX) { /* the sign is constant nearly everywhere */
        ipu__rule_give(r, 0, scaled_inverse(r, r->grads[1]));
    }
    return r->status;
}
