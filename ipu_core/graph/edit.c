/* SPDX-License-Identifier: MIT
 *
 * Changing nodes that are there already: what differentiation and the passes need for
 * loops and branches, which get more or fewer inputs and outputs. In: a graph, ids.
 * Out: the same graph, its invariants kept; every value that was there keeps its id. A
 * failure may leave new values or nodes that nothing uses. One thread per graph. */
#include <string.h>

#include "graph/graph.h"

static void
reverse(ipu_node *nodes, size_t count)
{
    for (size_t i = 0; i < count / 2; i++) {
        ipu_node swapped = nodes[i];
        nodes[i] = nodes[count - 1 - i];
        nodes[count - 1 - i] = swapped;
    }
}

void
ipu_graph_move_tail(ipu_graph *graph, ipu_block block, size_t tail, size_t to)
{
    ipu_block_data *data = ipu_block_of(graph, block);
    ipu_node *nodes = data->nodes.items;
    size_t moved = data->nodes.count - tail;
    reverse(nodes + to, tail - to);
    reverse(nodes + tail, moved);
    reverse(nodes + to, data->nodes.count - to);
}

size_t
ipu_graph_position(const ipu_graph *graph, ipu_node node)
{
    const ipu_block_data *block = ipu_block_of(graph, ipu_node_of(graph, node)->block);
    size_t position = 0;
    while (block->nodes.items[position].index != node.index) {
        position++;
    }
    return position;
}

ipu_status
ipu_graph_hoist(ipu_ctx *ctx, ipu_graph *graph, ipu_node node, ipu_node before)
{
    ipu_node_data *data = ipu_node_of(graph, node);
    ipu_block_data *from = ipu_block_of(graph, data->block);
    ipu_block home = ipu_node_of(graph, before)->block;
    ipu_block_data *to = ipu_block_of(graph, home);
    IPU_TRY(IPU_ARRAY_RESERVE(ctx, &to->nodes, 1));
    size_t position = ipu_graph_position(graph, node);
    memmove(&from->nodes.items[position], &from->nodes.items[position + 1],
            (from->nodes.count - position - 1) * sizeof(ipu_node));
    from->nodes.count--;
    data->block = home;
    for (uint32_t i = 0; i < data->output_count; i++) {
        ipu_value_of(graph, ipu_node_output(data, i))->block = home;
    }
    to->nodes.items[to->nodes.count++] = node;
    ipu_graph_move_tail(graph, home, to->nodes.count - 1,
                        ipu_graph_position(graph, before));
    return IPU_OK;
}

/* Puts an identity behind `node` that makes the value `old` out of `output`. */
static ipu_status
add_alias(ipu_ctx *ctx, ipu_graph *graph, ipu_node node, ipu_value output,
          ipu_value old, size_t position)
{
    const ipu_node_data *source = ipu_node_of(graph, node);
    ipu_node_data alias = {.op = IPU_OP_ID_IDENTITY,
                           .block = source->block,
                           .input_count = 1,
                           .output_count = 1,
                           .first_output = old.index,
                           .placement = source->placement,
                           .source = source->source,
                           .name = source->name};
    ipu_block_data *block = ipu_block_of(graph, source->block);
    IPU_TRY(ipu_arena_alloc(ctx, &graph->arena, sizeof(ipu_value), &alias.inputs));
    alias.inputs[0] = output;
    IPU_TRY(IPU_ARRAY_RESERVE(ctx, &block->nodes, 1));
    IPU_TRY(IPU_ARRAY_PUSH(ctx, &graph->nodes, alias));
    ipu_node id = {(uint32_t)graph->nodes.count - 1};
    block->nodes.items[block->nodes.count++] = id;
    ipu_graph_move_tail(graph, alias.block, block->nodes.count - 1, position);
    ipu_value_data *value = ipu_value_of(graph, old);
    value->producer = id;
    value->position = 0;
    return IPU_OK;
}

ipu_status
ipu_graph_extend_node(ipu_ctx *ctx, ipu_graph *graph, ipu_node node,
                      const ipu_value *inputs, uint32_t input_count,
                      const ipu_type *outputs, uint32_t output_count)
{
    const ipu_node_data before = *ipu_node_of(graph, node);
    ipu_value *all;
    uint32_t count = before.output_count + output_count;
    size_t position = ipu_graph_position(graph, node) + 1;
    uint32_t first = (uint32_t)graph->values.count;
    IPU_TRY(ipu_arena_alloc(ctx, &graph->arena,
                            (before.input_count + input_count) * sizeof(ipu_value),
                            &all));
    for (uint32_t i = 0; i < before.input_count + input_count; i++) {
        all[i] =
            i < before.input_count ? before.inputs[i] : inputs[i - before.input_count];
    }
    IPU_TRY(IPU_ARRAY_RESERVE(ctx, &graph->values, count));
    for (uint32_t i = 0; i < count; i++) {
        ipu_type type = i < before.output_count
                            ? graph->values.items[before.first_output + i].type
                            : outputs[i - before.output_count];
        graph->values.items[graph->values.count++] = (ipu_value_data){
            .type = type, .producer = node, .block = before.block, .position = i};
    }
    ipu_node_data *data = ipu_node_of(graph, node);
    data->inputs = all;
    data->input_count = before.input_count + input_count;
    data->first_output = first;
    data->output_count = count;
    for (uint32_t i = 0; i < before.output_count; i++) {
        IPU_TRY(add_alias(ctx, graph, node, (ipu_value){first + i},
                          ipu_node_output(&before, i), position + i));
    }
    return IPU_OK;
}

static void
shrink_block(ipu_graph *graph, ipu_block id, const bool *keep, uint32_t outputs)
{
    ipu_block_data *block = ipu_block_of(graph, id);
    size_t params = 0;
    size_t results = 0;
    for (size_t i = 0; i < block->params.count; i++) {
        if (keep[i]) {
            ipu_value_of(graph, block->params.items[i])->position = (uint32_t)params;
            block->params.items[params++] = block->params.items[i];
        }
    }
    block->params.count = params;
    if (block->results.count != outputs) { /* a condition */
        return;
    }
    for (size_t i = 0; i < outputs; i++) {
        if (keep[i]) {
            block->results.items[results++] = block->results.items[i];
        }
    }
    block->results.count = results;
}

ipu_status
ipu_graph_shrink_node(ipu_ctx *ctx, ipu_graph *graph, ipu_node node, const bool *keep)
{
    ipu_node_data *data = ipu_node_of(graph, node);
    uint32_t first = (uint32_t)graph->values.count;
    uint32_t outputs = data->output_count;
    uint32_t kept = 0;
    IPU_TRY(IPU_ARRAY_RESERVE(ctx, &graph->values, outputs));
    for (uint32_t i = 0; i < outputs; i++) {
        if (keep[i]) {
            ipu_value_data value = graph->values.items[data->first_output + i];
            value.position = kept++;
            graph->values.items[graph->values.count++] = value;
        }
    }
    for (uint32_t k = 0; k < ipu_node_block_count(data); k++) {
        bool condition = data->op == IPU_OP_ID_WHILE && k == 0;
        shrink_block(graph, ipu_node_block(data, k), keep,
                     condition ? IPU_NO_INDEX : outputs);
    }
    if (data->op != IPU_OP_ID_SWITCH) {
        uint32_t before = data->input_count - outputs;
        uint32_t inputs = before;
        for (uint32_t i = 0; i < outputs; i++) {
            if (keep[i]) {
                data->inputs[inputs++] = data->inputs[before + i];
            }
        }
        data->input_count = inputs;
    }
    data->first_output = first;
    data->output_count = kept;
    return IPU_OK;
}

bool
ipu_graph_is_inside(const ipu_graph *graph, ipu_block block, ipu_node node)
{
    ipu_node owner = ipu_block_of(graph, block)->owner;
    while (owner.index != IPU_NO_INDEX && owner.index != node.index) {
        block = ipu_node_of(graph, owner)->block;
        owner = ipu_block_of(graph, block)->owner;
    }
    return owner.index == node.index;
}
