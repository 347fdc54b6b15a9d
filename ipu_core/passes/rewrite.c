/* SPDX-License-Identifier: MIT
 *
 * The forward walk of the passes. A block's node list is set aside and built anew: a
 * kept node is pushed back, an emitted one lands where the walk is, since the graph
 * appends. So program order stays legal without insertions. One thread per graph. */
#include "passes/rewrite.h"

ipu_status
ipu__replace(ipu__rewriter *rewriter, ipu_value value, ipu_value by)
{
    while (rewriter->replaced.count <= value.index) {
        IPU_TRY(IPU_ARRAY_PUSH(rewriter->ctx, &rewriter->replaced, IPU_NO_VALUE));
    }
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

static ipu_status rewrite_block(ipu__rewriter *rewriter, ipu_block id);

static ipu_status
rewrite_node(ipu__rewriter *rewriter, ipu_block block, ipu_node id)
{
    bool keep = true;
    const ipu_node_data *node = ipu_node_of(rewriter->graph, id);
    for (uint32_t i = 0; i < node->input_count; i++) {
        node->inputs[i] = ipu__resolve(rewriter, node->inputs[i]);
    }
    IPU_TRY(rewriter->visit(rewriter, id, &keep));
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
    if (keep) {
        IPU_TRY(IPU_ARRAY_PUSH(rewriter->ctx,
                               &ipu_block_of(rewriter->graph, block)->nodes, id));
    }
    return IPU_OK;
}

ipu_status
ipu__inline(ipu__rewriter *rewriter, ipu_block from, ipu_block into)
{
    for (size_t i = 0; i < ipu_block_of(rewriter->graph, from)->nodes.count; i++) {
        ipu_node id = ipu_block_of(rewriter->graph, from)->nodes.items[i];
        ipu_node_data *node = ipu_node_of(rewriter->graph, id);
        node->block = into;
        for (uint32_t k = 0; k < node->output_count; k++) {
            ipu_value_of(rewriter->graph, ipu_node_output(node, k))->block = into;
        }
        IPU_TRY(rewrite_node(rewriter, into, id));
    }
    return IPU_OK;
}

static ipu_status
rewrite_block(ipu__rewriter *rewriter, ipu_block id)
{
    ipu_block_data *block = ipu_block_of(rewriter->graph, id);
    IPU_ARRAY(ipu_node)
    old = {block->nodes.items, block->nodes.count, block->nodes.capacity};
    block->nodes.items = NULL;
    block->nodes.count = 0;
    block->nodes.capacity = 0;
    ipu_status status = IPU_OK;
    for (size_t i = 0; i < old.count && status == IPU_OK; i++) {
        status = rewrite_node(rewriter, id, old.items[i]);
    }
    IPU_ARRAY_FREE(rewriter->ctx, &old);
    block = ipu_block_of(rewriter->graph, id);
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
