/* SPDX-License-Identifier: MIT
 *
 * Gradient rules of pooling. The average is linear; so is what max_pool_grad and
 * max_pool_pick make of their last operand, while the places of the largest elements
 * are constant between ties. So these ops are each other's gradients. One thread per
 * graph. */
#include "autodiff/rules.h"

/* What says where windows are, and in attrs[0] room for a shape. */
static uint32_t
geometry(const ipu_rule *r, const ipu_shape *shape, ipu_attr attrs[5])
{
    static const ipu_attr_key keys[4] = {IPU_ATTR_WINDOW, IPU_ATTR_STRIDES,
                                         IPU_ATTR_DILATIONS, IPU_ATTR_PADDING};
    uint32_t count = 0;
    if (shape != NULL) {
        attrs[count++] = ipu_attr_shape(shape);
    }
    for (uint32_t i = 0; i < 4; i++) {
        const ipu_attr *attr = ipu_attrs_find(r->attrs, keys[i]);
        if (attr != NULL) {
            attrs[count++] = *attr;
        }
    }
    return count;
}

/* With x and its maxima, `third` taken to or from the places of the maxima. */
static ipu_value
at_maxima(ipu_rule *r, ipu_op op, ipu_value x, ipu_value maxima, ipu_value third)
{
    ipu_value inputs[3] = {x, maxima, third};
    ipu_attr attrs[5];
    return ipu__rule_emit(r, op, inputs, 3, attrs, geometry(r, NULL, attrs));
}

ipu_status
ipu_gradient_max_pool(ipu_rule *r)
{
    ipu__rule_give(r, 0,
                   at_maxima(r, IPU_OP_ID_MAX_POOL_GRAD, r->inputs[0], r->outputs[0],
                             r->grads[0]));
    return r->status;
}

ipu_status
ipu_gradient_max_pool_grad(ipu_rule *r)
{
    if (r->wanted[2]) {
        ipu__rule_give(r, 2,
                       at_maxima(r, IPU_OP_ID_MAX_POOL_PICK, r->inputs[0], r->inputs[1],
                                 r->grads[0]));
    }
    return r->status;
}

ipu_status
ipu_gradient_max_pool_pick(ipu_rule *r)
{
    if (r->wanted[2]) {
        ipu__rule_give(r, 2,
                       at_maxima(r, IPU_OP_ID_MAX_POOL_GRAD, r->inputs[0], r->inputs[1],
                                 r->grads[0]));
    }
    return r->status;
}

ipu_status
ipu_gradient_average_pool(ipu_rule *r)
{
    const ipu_shape shape = ipu__rule_type(r, r->inputs[0]).shape;
    ipu_attr attrs[5];
    uint32_t count = geometry(r, &shape, attrs);
    ipu__rule_give(
        r, 0,
        ipu__rule_emit(r, IPU_OP_ID_AVERAGE_POOL_GRAD, &r->grads[0], 1, attrs, count));
    return r->status;
}

ipu_status
ipu_gradient_average_pool_grad(ipu_rule *r)
{
    ipu_attr attrs[5];
    uint32_t count = geometry(r, NULL, attrs);
    ipu__rule_give(
        r, 0, ipu__rule_emit(r, IPU_OP_ID_AVERAGE_POOL, &r->grads[0], 1, attrs, count));
    return r->status;
}
