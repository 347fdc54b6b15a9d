/* SPDX-License-Identifier: MIT
 *
 * Cuts a traced function and its gradient, which was traced behind it, into two graphs:
 * one for the call, one for the way back, which may run much later. In: the trace, and
 * the node behind which the gradient begins. Out: the trace without what is behind it,
 * with more results: what the other graph needs of its values. That graph has the
 * trace's parameters, then those values.
 *
 * Constants, held tensors and fills are in both. The graph of the way back shares
 * names, attributes and source lines with the trace, which has to outlive it. */
#include <string.h>

#include "trace/trace.h"

typedef struct splitting {
    ipu_ctx *ctx;
    ipu_graph *front;
    ipu_graph *back;
    size_t cut;  /* position of the mark in the main block */
    bool *early; /* by node: in the main block, in front of the cut */
    bool *again; /* by node: early, and in the graph of the way back too */
    bool *saved; /* by value */
} splitting;

static ipu_status
copy_values(ipu_ctx *ctx, const ipu_value *from, size_t count, ipu_block_data *block,
            bool params)
{
    for (size_t i = 0; i < count; i++) {
        IPU_TRY(params ? IPU_ARRAY_PUSH(ctx, &block->params, from[i])
                       : IPU_ARRAY_PUSH(ctx, &block->results, from[i]));
    }
    return IPU_OK;
}

static ipu_status
copy_block(ipu_ctx *ctx, const ipu_block_data *from, ipu_graph *to)
{
    ipu_block_data made = {.owner = from->owner};
    IPU_TRY(IPU_ARRAY_PUSH(ctx, &to->blocks, made));
    ipu_block_data *block = &to->blocks.items[to->blocks.count - 1];
    IPU_TRY(copy_values(ctx, from->params.items, from->params.count, block, true));
    IPU_TRY(copy_values(ctx, from->results.items, from->results.count, block, false));
    for (size_t i = 0; i < from->nodes.count; i++) {
        IPU_TRY(IPU_ARRAY_PUSH(ctx, &block->nodes, from->nodes.items[i]));
    }
    return IPU_OK;
}

/* Everything as it is, but for the main block, which is empty. Passes overwrite inputs,
 * so these are copied. */
static ipu_status
copy_graph(ipu_ctx *ctx, const ipu_graph *from, ipu_graph *to)
{
    for (size_t i = 0; i < from->values.count; i++) {
        IPU_TRY(IPU_ARRAY_PUSH(ctx, &to->values, from->values.items[i]));
    }
    for (size_t i = 0; i < from->nodes.count; i++) {
        ipu_node_data node = from->nodes.items[i];
        size_t bytes = node.input_count * sizeof(ipu_value);
        const ipu_value *inputs = node.inputs;
        if (bytes > 0) {
            IPU_TRY(ipu_arena_alloc(ctx, &to->arena, bytes, &node.inputs));
            memcpy(node.inputs, inputs, bytes);
        }
        IPU_TRY(IPU_ARRAY_PUSH(ctx, &to->nodes, node));
    }
    for (size_t i = 1; i < from->blocks.count; i++) {
        IPU_TRY(copy_block(ctx, &from->blocks.items[i], to));
    }
    for (size_t i = 0; i < from->resources.count; i++) {
        IPU_TRY(IPU_ARRAY_PUSH(ctx, &to->resources, from->resources.items[i]));
    }
    for (size_t i = 0; i < from->held.count; i++) {
        IPU_TRY(IPU_ARRAY_PUSH(ctx, &to->held, from->held.items[i]));
    }
    return IPU_OK;
}

/* Whether a value is a constant, or a view or fill of one; such are made again. */
static bool
is_given(const splitting *s, ipu_value value)
{
    const ipu_node_data *node;
    uint32_t flags;
    do {
        ipu_node id = ipu_value_of(s->front, value)->producer;
        if (id.index == IPU_NO_INDEX) {
            return false;
        }
        node = ipu_node_of(s->front, id);
        flags = ipu_op_info_of(node->op)->flags;
        if (node->op == IPU_OP_ID_CONSTANT || node->op == IPU_OP_ID_HELD) {
            return true;
        }
        value = node->input_count == 1 ? node->inputs[0] : IPU_NO_VALUE;
    } while (value.index != IPU_NO_INDEX &&
             (node->op == IPU_OP_ID_BROADCAST || (flags & IPU_OP_VIEW) != 0));
    return false;
}

static void
need(splitting *s, ipu_value value)
{
    ipu_node id = ipu_value_of(s->front, value)->producer;
    if (id.index == IPU_NO_INDEX || !s->early[id.index]) {
        return;
    }
    if (!is_given(s, value)) {
        s->saved[value.index] = true;
        return;
    }
    s->again[id.index] = true;
    const ipu_node_data *node = ipu_node_of(s->front, id);
    if (node->input_count > 0) {
        need(s, node->inputs[0]);
    }
}

static void
need_all(splitting *s, ipu_block id, size_t first)
{
    const ipu_block_data *block = ipu_block_of(s->front, id);
    for (size_t i = first; i < block->nodes.count; i++) {
        const ipu_node_data *node = ipu_node_of(s->front, block->nodes.items[i]);
        for (uint32_t k = 0; k < node->input_count; k++) {
            need(s, node->inputs[k]);
        }
        for (uint32_t k = 0; k < ipu_node_block_count(node); k++) {
            need_all(s, ipu_node_block(node, k), 0);
        }
    }
    for (size_t i = 0; id.index != 0 && i < block->results.count; i++) {
        need(s, block->results.items[i]);
    }
}

/* The main block of the way back. */
static ipu_status
fill_back(splitting *s, const ipu_value *gradients, uint32_t count)
{
    const ipu_block_data *from = ipu_block_of(s->front, (ipu_block){0});
    ipu_block_data *to = ipu_block_of(s->back, (ipu_block){0});
    IPU_TRY(copy_values(s->ctx, from->params.items, from->params.count, to, true));
    for (size_t i = 0; i < from->nodes.count; i++) {
        ipu_node node = from->nodes.items[i];
        if (i > s->cut || s->again[node.index]) {
            IPU_TRY(IPU_ARRAY_PUSH(s->ctx, &to->nodes, node));
        }
    }
    return copy_values(s->ctx, gradients, count, to, false);
}

static ipu_status
move_saved(splitting *s, uint32_t *count)
{
    ipu_block_data *front = ipu_block_of(s->front, (ipu_block){0});
    ipu_block_data *back = ipu_block_of(s->back, (ipu_block){0});
    *count = 0;
    for (uint32_t i = 0; i < s->front->values.count; i++) {
        if (s->saved[i]) {
            ipu_value value = {i};
            ipu_value_data *data = ipu_value_of(s->back, value);
            data->producer = IPU_NO_NODE;
            data->position = (uint32_t)back->params.count;
            IPU_TRY(IPU_ARRAY_PUSH(s->ctx, &back->params, value));
            IPU_TRY(IPU_ARRAY_PUSH(s->ctx, &front->results, value));
            (*count)++;
        }
    }
    return IPU_OK;
}

static ipu_status
split(splitting *s, uint32_t inputs, const ipu_value *gradients, uint32_t count,
      uint32_t *saved)
{
    ipu_block_data *main = ipu_block_of(s->front, (ipu_block){0});
    IPU_TRY(copy_graph(s->ctx, s->front, s->back));
    for (size_t i = 0; i < s->cut; i++) {
        s->early[main->nodes.items[i].index] = true;
    }
    need_all(s, (ipu_block){0}, s->cut + 1);
    for (uint32_t i = 0; i < count; i++) {
        need(s, gradients[i]);
    }
    IPU_TRY(fill_back(s, gradients, count));
    IPU_TRY(move_saved(s, saved));
    main->nodes.count = s->cut;
    main->params.count = inputs;
    return IPU_OK;
}

ipu_status
ipu_trace_split(ipu_ctx *ctx, ipu_trace *trace, ipu_node mark, uint32_t inputs,
                const ipu_value *gradients, uint32_t count, ipu_graph **out,
                uint32_t *saved)
{
    splitting s = {.ctx = ctx, .front = trace->graph};
    size_t nodes = s.front->nodes.count * sizeof(bool);
    size_t values = s.front->values.count * sizeof(bool);
    *out = NULL;
    IPU_FAIL_IF(ctx,
                trace->open.count != 1 || mark.index >= s.front->nodes.count ||
                    ipu_node_of(s.front, mark)->block.index != 0 ||
                    inputs > ipu_block_of(s.front, (ipu_block){0})->params.count,
                INTERNAL, "a trace cannot be cut here");
    s.cut = ipu_graph_position(s.front, mark);
    ipu_status status = ipu_alloc(ctx, nodes, &s.early);
    if (status == IPU_OK) {
        status = ipu_alloc(ctx, nodes, &s.again);
    }
    if (status == IPU_OK) {
        status = ipu_alloc(ctx, values, &s.saved);
    }
    if (status == IPU_OK) {
        status = ipu_graph_create(ctx, s.front->host, &s.back);
    }
    if (status == IPU_OK) {
        status = split(&s, inputs, gradients, count, saved);
    }
    if (status == IPU_OK) {
        *out = s.back;
    } else {
        ipu_graph_free(ctx, s.back);
    }
    ipu_free(ctx, s.early, s.early == NULL ? 0 : nodes);
    ipu_free(ctx, s.again, s.again == NULL ? 0 : nodes);
    ipu_free(ctx, s.saved, s.saved == NULL ? 0 : values);
    return status;
}
