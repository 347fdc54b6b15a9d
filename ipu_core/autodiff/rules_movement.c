/* SPDX-License-Identifier: MIT
 *
 * Gradient rules of reductions and of ops that move elements. Moved elements are moved
 * back, repeated ones are summed, and sums are repeated. One thread per graph. */
#include "autodiff/rule_terms.h"

/* --- reductions ------------------------------------------------------------------ */

/* The shape of the input with the reduced axes as 1, and how many elements each result
 * was made of. */
static ipu_shape
kept_shape(const ipu_rule *r, int64_t *each)
{
    ipu_shape shape = ipu__rule_type(r, r->inputs[0]).shape;
    uint32_t count;
    const int64_t *axes = ipu_attrs_ints(r->attrs, IPU_ATTR_AXES, &count);
    *each = 1;
    for (uint32_t i = 0; i < count; i++) {
        *each *= shape.dims[axes[i]];
        shape.dims[axes[i]] = 1;
    }
    return shape;
}

ipu_status
ipu_gradient_sum(ipu_rule *r)
{
    int64_t each;
    ipu_shape kept = kept_shape(r, &each);
    ipu_shape whole = ipu__rule_type(r, r->inputs[0]).shape;
    ipu_value g = ipu__rule_reshape(r, r->grads[0], &kept);
    ipu__rule_give(r, 0, ipu__rule_broadcast(r, g, &whole));
    return r->status;
}

ipu_status
ipu_gradient_mean(ipu_rule *r)
{
    int64_t each;
    ipu_shape kept = kept_shape(r, &each);
    ipu_shape whole = ipu__rule_type(r, r->inputs[0]).shape;
    ipu_value g = ipu__rule_reshape(r, r->grads[0], &kept);
    /* A count that float16 cannot hold would make the gradient 0: divide in float32. */
    ipu_dtype dtype = ipu__rule_type(r, g).dtype;
    bool narrow = dtype == IPU_DTYPE_FLOAT16 && each > 2048;
    g = narrow ? ipu__rule_cast(r, g, IPU_DTYPE_FLOAT32) : g;
    g = ipu__rule_binary(r, IPU_OP_ID_DIV, g, ipu__rule_number(r, g, (double)each));
    g = ipu__rule_cast(r, g, dtype);
    ipu__rule_give(r, 0, ipu__rule_broadcast(r, g, &whole));
    return r->status;
}

/* Elements that tie for the extreme share its gradient equally. */
static ipu_status
extreme(ipu_rule *r)
{
    int64_t each;
    ipu_shape kept = kept_shape(r, &each);
    ipu_type type = ipu__rule_type(r, r->inputs[0]);
    uint32_t count;
    const int64_t *axes = ipu_attrs_ints(r->attrs, IPU_ATTR_AXES, &count);
    ipu_value y = ipu__rule_reshape(r, r->outputs[0], &kept);
    ipu_value g = ipu__rule_reshape(r, r->grads[0], &kept);
    ipu_value hit = ipu__rule_binary(r, IPU_OP_ID_EQUAL, r->inputs[0], y);
    ipu_value weight = ipu__rule_cast(r, hit, type.dtype);
    ipu_value ties = ipu__rule_sum(r, weight, axes, count, true);
    ipu_value share = ipu__rule_binary(r, IPU_OP_ID_DIV, weight, ties);
    ipu__rule_give(r, 0, ipu__rule_binary(r, IPU_OP_ID_MUL, share, g));
    return r->status;
}

SAME_RULE(max, extreme(r))
SAME_RULE(min, extreme(r))

/* --- movement -------------------------------------------------------------------- */

UNARY_RULE(identity, g)
UNARY_RULE(checkpoint, g)
UNARY_RULE(broadcast, g) /* which sums it back */
UNARY_RULE(slice, ALIKE(SLICE_GRAD, x, g))
UNARY_RULE(slice_grad, ALIKE(SLICE, IPU_NO_VALUE, g))
BINARY_RULE(gather, ALIKE(GATHER_GRAD, a, b, g), IPU_NO_VALUE)
BINARY_RULE(gather_grad, IPU_NO_VALUE, ALIKE(GATHER, IPU_NO_VALUE, g, a))

/* Each replica's result depends on the inputs of all of its group, so each input's
 * gradient is the sum, or mean, of the gradients of all of their results. */
UNARY_RULE(all_reduce, ALIKE(ALL_REDUCE, IPU_NO_VALUE, g))
UNARY_RULE(all_gather, ALIKE(REDUCE_SCATTER, IPU_NO_VALUE, g))
UNARY_RULE(all_to_all, ALIKE(ALL_TO_ALL, IPU_NO_VALUE, g))

ipu_status
ipu_gradient_reduce_scatter(ipu_rule *r)
{
    ipu_attr group = ipu_attr_int(IPU_ATTR_GROUP_SIZE,
                                  ipu_attrs_int(r->attrs, IPU_ATTR_GROUP_SIZE, 1));
    ipu_value g = r->grads[0];
    if (ipu_attrs_int(r->attrs, IPU_ATTR_REDUCTION, 0) == IPU_ALL_REDUCE_MEAN) {
        g = ipu__rule_binary(r, IPU_OP_ID_DIV, g,
                             ipu__rule_number(r, g, (double)group.as.i));
    }
    ipu__rule_give(r, 0, ipu__rule_emit(r, IPU_OP_ID_ALL_GATHER, &g, 1, &group, 1));
    return r->status;
}

ipu_status
ipu_gradient_reshape(ipu_rule *r)
{
    ipu_shape shape = ipu__rule_type(r, r->inputs[0]).shape;
    ipu__rule_give(r, 0, ipu__rule_reshape(r, r->grads[0], &shape));
    return r->status;
}

ipu_status
ipu_gradient_transpose(ipu_rule *r)
{
    uint32_t count;
    const int64_t *perm = ipu_attrs_ints(r->attrs, IPU_ATTR_PERM, &count);
    int64_t inverse[IPU_MAX_RANK];
    for (uint32_t i = 0; i < count; i++) {
        inverse[perm[i]] = i;
    }
    ipu_attr attr = ipu_attr_ints(IPU_ATTR_PERM, inverse, count);
    ipu__rule_give(r, 0,
                   ipu__rule_emit(r, IPU_OP_ID_TRANSPOSE, &r->grads[0], 1, &attr, 1));
    return r->status;
}

ipu_status
ipu_gradient_concat(ipu_rule *r)
{
    ipu_shape whole = ipu__rule_type(r, r->outputs[0]).shape;
    int64_t axis = ipu_attrs_int(r->attrs, IPU_ATTR_AXIS, 0);
    axis = axis < 0 ? axis + whole.rank : axis;
    int64_t begin[IPU_MAX_RANK] = {0};
    for (uint32_t i = 0; i < r->input_count; i++) {
        ipu_shape part = ipu__rule_type(r, r->inputs[i]).shape;
        if (r->wanted[i]) {
            ipu__rule_give(r, i, ipu__rule_slice(r, r->grads[0], begin, &part));
        }
        begin[axis] += part.dims[axis];
    }
    return r->status;
}

/* One of the three ops on windows, at the starts of the forward node, which begin at
 * its input `first`. `window` may be IPU_NO_VALUE. */
static ipu_value
at_starts(ipu_rule *r, ipu_op op, ipu_value whole, ipu_value window, uint32_t first)
{
    ipu_value inputs[2 + IPU_MAX_RANK] = {whole, window};
    uint32_t count = window.index == IPU_NO_INDEX ? 1 : 2;
    ipu_attr attr = {0};
    for (uint32_t i = first; i < r->input_count; i++) {
        inputs[count++] = r->inputs[i];
    }
    if (op != IPU_OP_ID_DYNAMIC_SLICE) {
        return ipu__rule_emit(r, op, inputs, count, NULL, 0);
    }
    ipu_shape size = ipu__rule_type(r, r->inputs[1]).shape;
    attr = ipu_attr_ints(IPU_ATTR_SIZE, size.dims, (uint32_t)size.rank);
    return ipu__rule_emit(r, op, inputs, count, &attr, 1);
}

static ipu_value
zeros_like(ipu_rule *r, ipu_value like)
{
    ipu_shape shape = ipu__rule_type(r, like).shape;
    return ipu__rule_broadcast(r, ipu__rule_number(r, like, 0.0), &shape);
}

UNARY_RULE(dynamic_slice,
           at_starts(r, IPU_OP_ID_DYNAMIC_ADD_SLICE, zeros_like(r, x), g, 1))
BINARY_RULE(dynamic_add_slice, g,
            at_starts(r, IPU_OP_ID_DYNAMIC_SLICE, g, IPU_NO_VALUE, 2))

/* The window is read first, so that it can be overwritten in place. */
ipu_status
ipu_gradient_dynamic_update_slice(ipu_rule *r)
{
    if (r->wanted[1]) {
        ipu__rule_give(
            r, 1, at_starts(r, IPU_OP_ID_DYNAMIC_SLICE, r->grads[0], IPU_NO_VALUE, 2));
    }
    if (r->wanted[0]) {
        ipu__rule_give(r, 0,
                       at_starts(r, IPU_OP_ID_DYNAMIC_UPDATE_SLICE, r->grads[0],
                                 zeros_like(r, r->inputs[1]), 2));
    }
    return r->status;
}
