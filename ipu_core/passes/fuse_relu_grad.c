/* SPDX-License-Identifier: MIT
 *
 * Part of the pass `fuse` (fuse.c): the gradient of a relu joins the gradient in front
 * of it. It becomes part of a convolution's; and where x goes into a maximum pooling
 * whose results are y,
 *
 *   relu_grad(x, max_pool_grad(x, y, dy))  ->  max_pool_grad(x, y, relu_grad(y, dy))
 *
 * which has fewer elements. dy goes to an element that equals y, or is NaN as y is, so
 * both ask of the same number whether it is above 0; all else is 0 either way. */
#include "passes/fuse_impl.h"

/* The node of this op that makes `value` for `user` alone, or NULL. */
static const ipu_node_data *
own_gradient(const ipu__fuser *f, ipu_value value, ipu_node user, ipu_op op)
{
    const ipu_node_data *node = ipu_producer_of(f->graph, value);
    if (node == NULL || node->op != op || ipu_uses_count(&f->uses, value) != 1) {
        return NULL;
    }
    return ipu__fuse_may_join(f, ipu_value_of(f->graph, value)->producer, user) ? node
                                                                                : NULL;
}

ipu_status
ipu__fuse_visit_relu_grad(ipu__rewriter *r, ipu_node id, bool *keep)
{
    const ipu_node_data *node = ipu_node_of(r->graph, id);
    const ipu_value relu = node->inputs[0];
    const ipu_value old = ipu_node_output(node, 0);
    const ipu_block block = node->block;
    ipu_value fused;
    if (ipu_value_of(r->graph, old)->type.dtype != IPU_DTYPE_FLOAT32) {
        return IPU_OK;
    }
    const ipu_node_data *from =
        own_gradient(r->state, node->inputs[1], id, IPU_OP_ID_CONV_GRAD_INPUT);
    if (from != NULL && ipu_attrs_int(from->attrs, IPU_ATTR_CHANNELS_FIRST, 0) == 0) {
        ipu_value inputs[3] = {relu, from->inputs[0], from->inputs[1]};
        IPU_TRY(ipu_graph_emit(r->ctx, r->graph, block, id,
                               IPU_OP_ID_FUSED_CONV_GRAD_INPUT, inputs, 3,
                               from->attrs.items, from->attrs.count, &fused));
        *keep = false;
        return ipu__fuse_take_place(r, old, fused);
    }
    from = own_gradient(r->state, node->inputs[1], id, IPU_OP_ID_MAX_POOL_GRAD);
    if (from == NULL || from->inputs[0].index != relu.index) {
        return IPU_OK;
    }
    const ipu_attrs attrs = from->attrs;
    ipu_value inputs[3] = {relu, from->inputs[1], from->inputs[2]};
    IPU_TRY(ipu_graph_emit(r->ctx, r->graph, block, id, IPU_OP_ID_RELU_GRAD, &inputs[1],
                           2, NULL, 0, &inputs[2]));
    IPU_TRY(ipu_graph_emit(r->ctx, r->graph, block, id, IPU_OP_ID_MAX_POOL_GRAD, inputs,
                           3, attrs.items, attrs.count, &fused));
    *keep = false;
    return ipu__fuse_take_place(r, old, fused);
}
