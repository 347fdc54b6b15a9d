/* SPDX-License-Identifier: MIT
 *
 * Gradient rules of convolutions. With y = x * w, the three ops are closed under them:
 *
 *   conv (x, w) -> y                dx = grad_input(g, w)     dw = grad_filter(x, g)
 *   conv_grad_input (y, w) -> x     dy = conv(g, w)           dw = grad_filter(g, y)
 *   conv_grad_filter (x, y) -> w    dx = grad_input(y, g)     dy = conv(x, g)
 *
 * since each is linear in both operands. One thread per graph. */
#include "autodiff/rules.h"

/* An op of the same geometry. `like`: the value that the result is the gradient of. */
static ipu_value
same_geometry(ipu_rule *r, ipu_op op, ipu_value a, ipu_value b, ipu_value like)
{
    static const ipu_attr_key keys[] = {IPU_ATTR_STRIDES, IPU_ATTR_DILATIONS,
                                        IPU_ATTR_PADDING, IPU_ATTR_GROUPS,
                                        IPU_ATTR_CHANNELS_FIRST};
    enum { KEYS = sizeof(keys) / sizeof(keys[0]) };
    ipu_value inputs[2] = {a, b};
    ipu_attr attrs[KEYS + 1];
    uint32_t count = 0;
    for (uint32_t i = 0; i < KEYS; i++) {
        const ipu_attr *attr = ipu_attrs_find(r->attrs, keys[i]);
        if (attr != NULL) {
            attrs[count++] = *attr;
        }
    }
    ipu_shape shape = ipu__rule_type(r, like).shape;
    if (op != IPU_OP_ID_CONV) {
        attrs[count++] = ipu_attr_shape(&shape);
    }
    return ipu__rule_emit(r, op, inputs, 2, attrs, count);
}

/* What an operand's gradient is: the op of these two, in the same geometry. */
typedef struct partner {
    ipu_op op;
    ipu_value a;
    ipu_value b;
} partner;

static ipu_status
give(ipu_rule *r, partner first, partner second)
{
    const partner both[2] = {first, second};
    for (uint32_t i = 0; i < 2; i++) {
        if (r->wanted[i]) {
            ipu__rule_give(
                r, i, same_geometry(r, both[i].op, both[i].a, both[i].b, r->inputs[i]));
        }
    }
    return r->status;
}

ipu_status
ipu_gradient_conv(ipu_rule *r)
{
    const ipu_value x = r->inputs[0];
    const ipu_value w = r->inputs[1];
    const ipu_value g = r->grads[0];
    return give(r, (partner){IPU_OP_ID_CONV_GRAD_INPUT, g, w},
                (partner){IPU_OP_ID_CONV_GRAD_FILTER, x, g});
}

ipu_status
ipu_gradient_conv_grad_input(ipu_rule *r)
{
    const ipu_value y = r->inputs[0];
    const ipu_value w = r->inputs[1];
    const ipu_value g = r->grads[0];
    return give(r, (partner){IPU_OP_ID_CONV, g, w},
                (partner){IPU_OP_ID_CONV_GRAD_FILTER, g, y});
}

ipu_status
ipu_gradient_conv_grad_filter(ipu_rule *r)
{
    const ipu_value x = r->inputs[0];
    const ipu_value y = r->inputs[1];
    const ipu_value g = r->grads[0];
    return give(r, (partner){IPU_OP_ID_CONV_GRAD_INPUT, y, g},
                (partner){IPU_OP_ID_CONV, x, g});
}
