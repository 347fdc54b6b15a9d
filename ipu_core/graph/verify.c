/* SPDX-License-Identifier: MIT
 *
 * The graph's invariants, checked one by one and independently of the builder: ids in
 * range, values defined before use and in scope, types as the rules say, blocks owned
 * once. */
#include "graph/graph.h"

#include <stdio.h>

typedef struct verifier {
    ipu_ctx *ctx;
    const ipu_graph *graph;
    uint8_t *defined;          /* per value: in scope where the walk is */
    uint8_t *seen;             /* per block */
    IPU_ARRAY(ipu_type) types; /* of one node: inputs, then outputs as its rule says */
} verifier;

static ipu_status verify_block(verifier *v, ipu_block block, ipu_node owner);

static ipu_status
verify_types(verifier *v, ipu_node id, const ipu_node_data *node)
{
    uint32_t count;
    uint32_t most =
        ipu_infer_most_outputs(v->graph, node->op, node->attrs, node->input_count);
    v->types.count = 0;
    IPU_TRY(IPU_ARRAY_RESERVE(v->ctx, &v->types, (size_t)node->input_count + most));
    ipu_type *inputs = v->types.items;
    ipu_type *outputs = inputs + node->input_count;
    for (uint32_t i = 0; i < node->input_count; i++) {
        inputs[i] = ipu_value_of(v->graph, node->inputs[i])->type;
    }
    IPU_TRY(ipu_infer(v->ctx, v->graph, node->op, node->attrs, inputs,
                      node->input_count, outputs, most, &count));
    IPU_FAIL_IF(v->ctx, count != node->output_count, INTERNAL,
                "node %u (%s) has %u outputs, not %u", id.index,
                ipu_op_info_of(node->op)->name, node->output_count, count);
    for (uint32_t i = 0; i < count; i++) {
        const ipu_value_data *value = ipu_value_of(v->graph, ipu_node_output(node, i));
        IPU_FAIL_IF(v->ctx,
                    value->producer.index != id.index || value->position != i ||
                        value->block.index != node->block.index,
                    INTERNAL, "output %u of node %u is recorded wrongly", i, id.index);
        IPU_FAIL_IF(v->ctx, !ipu_type_equal(&value->type, &outputs[i]), INTERNAL,
                    "output %u of node %u (%s) is %s, not %s", i, id.index,
                    ipu_op_info_of(node->op)->name, IPU_TYPE_TEXT(&value->type),
                    IPU_TYPE_TEXT(&outputs[i]));
    }
    return IPU_OK;
}

static ipu_status
verify_node(verifier *v, ipu_block block, ipu_node id)
{
    IPU_FAIL_IF(v->ctx, id.index >= v->graph->nodes.count, INTERNAL,
                "block %u holds node %u of %zu", block.index, id.index,
                v->graph->nodes.count);
    const ipu_node_data *node = ipu_node_of(v->graph, id);
    IPU_FAIL_IF(v->ctx, node->block.index != block.index, INTERNAL,
                "node %u is in block %u, but says block %u", id.index, block.index,
                node->block.index);
    for (uint32_t i = 0; i < node->output_count; i++) {
        IPU_FAIL_IF(v->ctx, node->outputs[i].index >= v->graph->values.count, INTERNAL,
                    "output %u of node %u does not exist", i, id.index);
    }
    for (uint32_t i = 0; i < node->input_count; i++) {
        IPU_FAIL_IF(v->ctx,
                    node->inputs[i].index >= v->graph->values.count ||
                        !v->defined[node->inputs[i].index],
                    INTERNAL, "input %u of node %u (%s) is not defined there", i,
                    id.index, ipu_op_info_of(node->op)->name);
    }
    for (uint32_t i = 0; i < ipu_node_block_count(node); i++) {
        ipu_block held = ipu_node_block(node, i);
        IPU_FAIL_IF(v->ctx, held.index >= v->graph->blocks.count, INTERNAL,
                    "node %u holds a block that does not exist", id.index);
        IPU_TRY(verify_block(v, held, id));
    }
    IPU_TRY(verify_types(v, id, node));
    for (uint32_t i = 0; i < node->output_count; i++) {
        v->defined[node->outputs[i].index] = 1;
    }
    return IPU_OK;
}

static ipu_status
verify_block(verifier *v, ipu_block id, ipu_node owner)
{
    const ipu_block_data *block = ipu_block_of(v->graph, id);
    IPU_FAIL_IF(v->ctx, v->seen[id.index], INTERNAL, "block %u is held twice",
                id.index);
    ipu_block parent =
        ipu_is_node(owner) ? ipu_node_of(v->graph, owner)->block : IPU_NO_BLOCK;
    IPU_FAIL_IF(v->ctx,
                block->owner.index != owner.index ||
                    block->parent.index != parent.index ||
                    block->sees.index != IPU_NO_INDEX,
                INTERNAL, "block %u says that another node holds it", id.index);
    v->seen[id.index] = 1;
    for (size_t i = 0; i < block->params.count; i++) {
        const ipu_value_data *value = ipu_value_of(v->graph, block->params.items[i]);
        IPU_FAIL_IF(v->ctx,
                    value->producer.index != IPU_NO_INDEX || value->position != i ||
                        value->block.index != id.index,
                    INTERNAL, "parameter %zu of block %u is recorded wrongly", i,
                    id.index);
        v->defined[block->params.items[i].index] = 1;
    }
    uint32_t count = 0;
    ipu_node previous = IPU_NO_NODE;
    for (ipu_node n = block->first; ipu_is_node(n); n = ipu_node_next(v->graph, n)) {
        IPU_TRY(verify_node(v, id, n));
        IPU_FAIL_IF(v->ctx, ipu_node_of(v->graph, n)->previous.index != previous.index,
                    INTERNAL, "node %u does not follow node %u both ways", n.index,
                    previous.index);
        previous = n;
        count++;
    }
    IPU_FAIL_IF(
        v->ctx, block->last.index != previous.index || block->node_count != count,
        INTERNAL, "block %u has %u nodes, not %u", id.index, count, block->node_count);
    for (size_t i = 0; i < block->results.count; i++) {
        IPU_FAIL_IF(v->ctx, !v->defined[block->results.items[i].index], INTERNAL,
                    "result %zu of block %u is not defined there", i, id.index);
    }
    /* what an inner block defines is not visible outside */
    for (size_t i = 0; id.index != 0 && i < block->params.count; i++) {
        v->defined[block->params.items[i].index] = 0;
    }
    for (ipu_node n = block->first; id.index != 0 && ipu_is_node(n);
         n = ipu_node_next(v->graph, n)) {
        const ipu_node_data *node = ipu_node_of(v->graph, n);
        for (uint32_t k = 0; k < node->output_count; k++) {
            v->defined[ipu_node_output(node, k).index] = 0;
        }
    }
    return IPU_OK;
}

ipu_status
ipu_graph_verify(ipu_ctx *ctx, const ipu_graph *graph)
{
    verifier v = {.ctx = ctx, .graph = graph};
    IPU_TRY(ipu_alloc(ctx, graph->values.count, &v.defined));
    ipu_status status = ipu_alloc(ctx, graph->blocks.count, &v.seen);
    if (status == IPU_OK) {
        status = verify_block(&v, (ipu_block){0}, IPU_NO_NODE);
    }
    IPU_ARRAY_FREE(ctx, &v.types);
    ipu_free(ctx, v.defined, graph->values.count);
    ipu_free(ctx, v.seen, graph->blocks.count);
    return status;
}
