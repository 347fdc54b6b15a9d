/* SPDX-License-Identifier: MIT
 *
 * The forward walk of the passes. Each block's cursor is at the node that the walk is
 * at, so that an emitted node lands in front of it. One thread per graph. */
#include "passes/rewrite.h"

ipu_status
ipu__replace(ipu__rewriter *rewriter, ipu_value value, ipu_value by)
{
    IPU_TRY(IPU_ARRAY_EXTEND(rewriter->ctx, &rewriter->replaced,
                             (size_t)value.index + 1, &IPU_NO_VALUE));
    rewriter->replaced.items[value.index] = by;
    return IPU_OK;
}

ipu_value
ipu__resolve(const ipu__rewriter *rewriter, ipu_value value)
{
    while (value.index < rewriter->replaced.count &&
           rewriter->replaced.items[value.index].index != IPU_NO_INDEX) {
        value = rewriter->replaced.items[value.index];
    }
    return value;
}

ipu_value
ipu__emit(ipu__rewriter *rewriter, ipu_op op, const ipu_value *inputs,
          uint32_t input_count, const ipu_attr *attrs, uint32_t attr_count)
{
    ipu_value out = IPU_NO_VALUE;
    ipu_block block = ipu_node_of(rewriter->graph, rewriter->at)->block;
    if (rewriter->status == IPU_OK) {
        rewriter->status =
            ipu_graph_emit(rewriter->ctx, rewriter->graph, block, rewriter->at, op,
                           inputs, input_count, attrs, attr_count, &out);
    }
    return out;
}

ipu_value
ipu__emit_number(ipu__rewriter *rewriter, ipu_dtype dtype, double number)
{
    const ipu_type type = {.dtype = dtype, .shape = ipu_shape_scalar()};
    ipu_value out = IPU_NO_VALUE;
    ipu_block block = ipu_node_of(rewriter->graph, rewriter->at)->block;
    if (rewriter->status == IPU_OK) {
        rewriter->status = ipu_graph_emit_fill(rewriter->ctx, rewriter->graph, block,
                                               rewriter->at, &type, number, &out);
    }
    return out;
}

static ipu_status rewrite_block(ipu__rewriter *rewriter, ipu_block id);

static ipu_status
rewrite_node(ipu__rewriter *rewriter, ipu_block block, ipu_node id)
{
    bool keep = true;
    const ipu_node_data *node = ipu_node_of(rewriter->graph, id);
    for (uint32_t i = 0; i < node->input_count; i++) {
        node->inputs[i] = ipu__resolve(rewriter, node->inputs[i]);
    }
    ipu_block_of(rewriter->graph, block)->cursor = id;
    rewriter->at = id;
    IPU_TRY(rewriter->visit(rewriter, id, &keep));
    IPU_TRY(rewriter->status);
    node = ipu_node_of(rewriter->graph, id);
    for (uint32_t i = 0; keep && i < ipu_node_block_count(node); i++) {
        ipu_block held = ipu_node_block(node, i);
        if (rewriter->enter != NULL) {
            IPU_TRY(rewriter->enter(rewriter, held));
        }
        IPU_TRY(rewrite_block(rewriter, held));
        if (rewriter->leave != NULL) {
            IPU_TRY(rewriter->leave(rewriter, held));
        }
        node = ipu_node_of(rewriter->graph, id); /* the walk may have moved it */
    }
    if (!keep) {
        ipu_graph_unlink(rewriter->graph, id);
    }
    return IPU_OK;
}

ipu_status
ipu__inline(ipu__rewriter *rewriter, ipu_block from, ipu_node before)
{
    ipu_graph *graph = rewriter->graph;
    ipu_block into = ipu_node_of(graph, before)->block;
    ipu_node next;
    for (ipu_node n = ipu_block_first(graph, from); ipu_is_node(n); n = next) {
        next = ipu_node_next(graph, n);
        ipu_graph_move(graph, n, into, before);
        IPU_TRY(rewrite_node(rewriter, into, n));
    }
    ipu_block_of(graph, into)->cursor = before;
    rewriter->at = before;
    return IPU_OK;
}

static ipu_status
rewrite_block(ipu__rewriter *rewriter, ipu_block id)
{
    ipu_graph *graph = rewriter->graph;
    ipu_status status = IPU_OK;
    ipu_node next;
    for (ipu_node n = ipu_block_first(graph, id); ipu_is_node(n) && status == IPU_OK;
         n = next) {
        next = ipu_node_next(graph, n);
        status = rewrite_node(rewriter, id, n);
    }
    ipu_block_data *block = ipu_block_of(graph, id);
    block->cursor = IPU_NO_NODE;
    for (size_t i = 0; i < block->results.count; i++) {
        block->results.items[i] = ipu__resolve(rewriter, block->results.items[i]);
    }
    return status;
}

ipu_status
ipu__rewrite(ipu__rewriter *rewriter)
{
    ipu_status status = rewrite_block(rewriter, (ipu_block){0});
    IPU_ARRAY_FREE(rewriter->ctx, &rewriter->replaced);
    return status;
}
