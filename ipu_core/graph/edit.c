/* SPDX-License-Identifier: MIT
 *
 * Changing nodes that are there already: what differentiation and the passes need for
 * loops and branches, which get more or fewer inputs and outputs. In: a graph, ids.
 * Out: the same graph; every node and value that was there keeps its id, so that a walk
 * over ids may go on. One thread per graph. */
#include <string.h>

#include "graph/block_op.h"

void
ipu_graph_unlink(ipu_graph *graph, ipu_node id)
{
    ipu_node_data *node = ipu_node_of(graph, id);
    ipu_block_data *block = ipu_block_of(graph, node->block);
    *(ipu_is_node(node->previous) ? &ipu_node_of(graph, node->previous)->next
                                  : &block->first) = node->next;
    *(ipu_is_node(node->next) ? &ipu_node_of(graph, node->next)->previous
                              : &block->last) = node->previous;
    node->previous = IPU_NO_NODE;
    node->next = IPU_NO_NODE;
    block->node_count--;
}

void
ipu__graph_link(ipu_graph *graph, ipu_node id, ipu_node before)
{
    ipu_node_data *node = ipu_node_of(graph, id);
    ipu_block_data *block = ipu_block_of(graph, node->block);
    node->next = before;
    node->previous =
        ipu_is_node(before) ? ipu_node_of(graph, before)->previous : block->last;
    *(ipu_is_node(node->previous) ? &ipu_node_of(graph, node->previous)->next
                                  : &block->first) = id;
    *(ipu_is_node(before) ? &ipu_node_of(graph, before)->previous : &block->last) = id;
    block->node_count++;
}

void
ipu_graph_move(ipu_graph *graph, ipu_node id, ipu_block block, ipu_node before)
{
    ipu_node_data *node = ipu_node_of(graph, id);
    ipu_block_data *home = ipu_block_of(graph, block);
    ipu_graph_unlink(graph, id);
    node->block = block;
    for (uint32_t i = 0; i < node->output_count; i++) {
        ipu_value_of(graph, ipu_node_output(node, i))->block = block;
    }
    for (uint32_t i = 0; i < ipu_node_block_count(node); i++) {
        ipu_block_data *held = ipu_block_of(graph, ipu_node_block(node, i));
        held->parent = block;
        home->height =
            held->height + 1 > home->height ? held->height + 1 : home->height;
    }
    ipu__graph_link(graph, id, before);
}

ipu_status
ipu_graph_extend_node(ipu_ctx *ctx, ipu_graph *graph, ipu_node node,
                      const ipu_value *inputs, uint32_t input_count,
                      const ipu_type *outputs, uint32_t output_count)
{
    const ipu_node_data before = *ipu_node_of(graph, node);
    uint32_t all_inputs = before.input_count + input_count;
    uint32_t all_outputs = before.output_count + output_count;
    ipu_value *all;
    IPU_TRY(ipu_arena_alloc(ctx, &graph->arena,
                            ((size_t)all_inputs + all_outputs) * sizeof(ipu_value),
                            &all));
    IPU_TRY(IPU_ARRAY_RESERVE(ctx, &graph->values, output_count));
    for (uint32_t i = 0; i < all_inputs; i++) {
        all[i] =
            i < before.input_count ? before.inputs[i] : inputs[i - before.input_count];
    }
    for (uint32_t i = 0; i < before.output_count; i++) {
        all[all_inputs + i] = before.outputs[i];
    }
    for (uint32_t i = 0; i < output_count; i++) {
        uint32_t position = before.output_count + i;
        all[all_inputs + position] = (ipu_value){(uint32_t)graph->values.count};
        graph->values.items[graph->values.count++] =
            (ipu_value_data){.type = outputs[i],
                             .producer = node,
                             .block = before.block,
                             .position = position};
    }
    ipu_node_data *data = ipu_node_of(graph, node);
    data->inputs = all;
    data->input_count = all_inputs;
    data->outputs = all + all_inputs;
    data->output_count = all_outputs;
    return IPU_OK;
}

/* Keeps the entries for which keep[i] is true; each is told its new position, if
 * `graph` is given. */
static uint32_t
shrink_values(const ipu_graph *graph, ipu_value *values, uint32_t count,
              const bool *keep)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (keep[i]) {
            if (graph != NULL) {
                ipu_value_of(graph, values[i])->position = kept;
            }
            values[kept++] = values[i];
        }
    }
    return kept;
}

void
ipu_graph_shrink_node(ipu_graph *graph, ipu_node node, const bool *keep)
{
    ipu_node_data *data = ipu_node_of(graph, node);
    uint32_t entering = ipu_node_entering_count(data);
    for (uint32_t k = 0; k < ipu_node_block_count(data); k++) {
        ipu_block_data *block = ipu_block_of(graph, ipu_node_block(data, k));
        block->params.count = shrink_values(graph, block->params.items,
                                            (uint32_t)block->params.count, keep);
        if (ipu_node_block_gives_outputs(data, k)) {
            block->results.count =
                shrink_values(NULL, block->results.items, data->output_count, keep);
        }
    }
    if (entering > 0) {
        uint32_t first = ipu_node_entering(data, 0);
        data->input_count =
            first + shrink_values(NULL, data->inputs + first, entering, keep);
    }
    data->output_count = shrink_values(graph, data->outputs, data->output_count, keep);
}

bool
ipu_graph_is_inside(const ipu_graph *graph, ipu_block block, ipu_node node)
{
    while (ipu_is_node(node) && block.index != 0 &&
           ipu_block_of(graph, block)->owner.index != node.index) {
        block = ipu_block_of(graph, block)->parent;
    }
    return ipu_is_node(node) && block.index != 0;
}
