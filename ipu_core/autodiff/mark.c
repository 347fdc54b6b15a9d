/* SPDX-License-Identifier: MIT
 *
 * Which values the ys may depend on, and which of these depend on the xs. In: the ys and
 * xs of a walk. Out: places for the former, a mark for each of the latter.
 *
 * The first is reachability backwards from the ys: from a value to the inputs of the
 * node that makes it, where gradients may pass that; a node that holds blocks brings all
 * that they hold. The second goes forward over those nodes, in the order in which they
 * were made: from the inputs of a node to its outputs and, as the table of block ops
 * says, into blocks and out of them; once more while a loop's turn brings something new.
 * So the time is in proportion to what the ys depend on. One thread per graph. */
#include <stdlib.h>
#include <string.h>

#include "autodiff/walk.h"
#include "graph/block_op.h"

/* --- what the ys may depend on ---------------------------------------------------- */

static ipu_status
need(ipu__walk *w, ipu_value value)
{
    if (ipu_id_map_has(&w->places, value.index)) {
        return IPU_OK;
    }
    IPU_TRY(
        ipu_id_map_put(w->ctx, &w->places, value.index, (uint32_t)w->values.count));
    return IPU_ARRAY_PUSH(w->ctx, &w->values, value);
}

static ipu_status
need_all(ipu__walk *w, const ipu_value *values, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        IPU_TRY(need(w, values[i]));
    }
    return IPU_OK;
}

/* All that a block holds; nodes in it are passed when their outputs come up. */
static ipu_status
need_block(ipu__walk *w, ipu_block id)
{
    const ipu_block_data *block = ipu_block_of(w->graph, id);
    IPU_TRY(need_all(w, block->params.items, block->params.count));
    IPU_TRY(need_all(w, block->results.items, block->results.count));
    for (ipu_node n = block->first; ipu_is_node(n); n = ipu_node_next(w->graph, n)) {
        const ipu_node_data *node = ipu_node_of(w->graph, n);
        IPU_TRY(need_all(w, node->outputs, node->output_count));
    }
    return IPU_OK;
}

/* The nodes of one call of a function with a gradient of its own belong together. */
static ipu_status
need_call(ipu__walk *w, const ipu_node_data *node)
{
    const ipu_node beside[2] = {node->previous, node->next};
    int64_t call = ipu_attrs_int(node->attrs, IPU_ATTR_INDEX, -1);
    for (uint32_t i = 0; i < 2; i++) {
        const ipu_node_data *other =
            ipu_is_node(beside[i]) ? ipu_node_of(w->graph, beside[i]) : NULL;
        if (other != NULL && other->op == IPU_OP_ID_CUSTOM_GRADIENT &&
            ipu_attrs_int(other->attrs, IPU_ATTR_INDEX, -1) == call) {
            IPU_TRY(need_all(w, other->outputs, other->output_count));
        }
    }
    return IPU_OK;
}

/* Whether gradients may pass the node. A node that a tape did not see is a constant;
 * those in blocks were made before the node that holds them. */
static bool
may_pass(const ipu__walk *w, ipu_node id, const ipu_node_data *node)
{
    if (ipu__walk_stops(w, id)) {
        return false;
    }
    if (!ipu_node_holds_blocks(node)) {
        return (ipu_node_flags(node) & (IPU_OP_GRADIENT | IPU_OP_OPAQUE)) != 0 &&
               ipu__walk_saw(w, id);
    }
    bool is_seen = w->scope == NULL;
    for (uint32_t i = 0; !is_seen && i < w->scope->span_count; i++) {
        is_seen = id.index >= w->scope->spans[2 * i];
    }
    return is_seen;
}

static ipu_status
pass(ipu__walk *w, ipu_node id)
{
    const ipu_node_data *node = ipu_node_of(w->graph, id);
    if (ipu_id_map_has(&w->is_passed, id.index) || !may_pass(w, id, node)) {
        return IPU_OK;
    }
    IPU_TRY(ipu_id_map_put(w->ctx, &w->is_passed, id.index, 0));
    IPU_TRY(IPU_ARRAY_PUSH(w->ctx, &w->nodes, id));
    IPU_TRY(need_all(w, node->inputs, node->input_count));
    if (node->op == IPU_OP_ID_CUSTOM_GRADIENT) {
        return need_call(w, node);
    }
    if (ipu_node_holds_blocks(node)) {
        IPU_TRY(need_all(w, node->outputs, node->output_count));
        for (uint32_t k = 0; k < ipu_node_block_count(node); k++) {
            IPU_TRY(need_block(w, ipu_node_block(node, k)));
        }
    }
    return IPU_OK;
}

/* Values come to the end of w->values while it is walked. */
static ipu_status
reach(ipu__walk *w)
{
    IPU_TRY(need_all(w, w->ys, w->y_count));
    for (size_t i = 0; i < w->values.count; i++) {
        const ipu_value_data *data = ipu_value_of(w->graph, w->values.items[i]);
        ipu_node maker = ipu_is_node(data->producer)
                             ? data->producer
                             : ipu_block_of(w->graph, data->block)->owner;
        if (ipu_is_node(maker)) {
            IPU_TRY(pass(w, maker));
        }
    }
    return IPU_OK;
}

/* Where the walk goes: block by block, the inner ones first. */
static ipu_status
find_stretches(ipu__walk *w)
{
    ipu_id_map numbers = {0};
    ipu_status status = IPU_OK;
    for (size_t i = 0; status == IPU_OK && i < w->nodes.count; i++) {
        ipu_block block = ipu_node_of(w->graph, w->nodes.items[i])->block;
        uint32_t number = ipu_id_map_get(&numbers, block.index, IPU_NO_INDEX);
        if (number == IPU_NO_INDEX) {
            number = (uint32_t)w->stretches.count;
            status = ipu_id_map_put(w->ctx, &numbers, block.index, number);
            if (status == IPU_OK) {
                status =
                    IPU_ARRAY_PUSH(w->ctx, &w->stretches, ((ipu__stretch){block, 0}));
            }
        }
        if (status == IPU_OK) {
            w->stretches.items[number].nodes++;
        }
    }
    ipu_id_map_free(w->ctx, &numbers);
    size_t count = 0;
    for (size_t i = 0; status == IPU_OK && i < w->stretches.count; i++) {
        ipu__stretch found = w->stretches.items[i];
        if (!ipu_graph_is_around(w->graph, found.block, w->block)) {
            continue;
        }
        size_t at = count++;
        for (; at > 0 && w->stretches.items[at - 1].block.index < found.block.index;
             at--) {
            w->stretches.items[at] = w->stretches.items[at - 1];
        }
        w->stretches.items[at] = found;
    }
    w->stretches.count = count;
    return status;
}

/* --- which of them depend on the xs ----------------------------------------------- */

/* Marks a value, if it carries gradients. */
static bool
mark(ipu__walk *w, ipu_value value)
{
    uint32_t place = ipu_id_map_get(&w->places, value.index, IPU_NO_INDEX);
    if (place == IPU_NO_INDEX || w->depends[place] ||
        !ipu_dtype_is_float(ipu_value_of(w->graph, value)->type.dtype)) {
        return false;
    }
    w->depends[place] = true;
    return true;
}

/* From what enters blocks to their parameters, and from their results to the outputs; of
 * a loop also from one turn to the next, and past it, as it may end before the first. */
static bool
mark_through_blocks(ipu__walk *w, const ipu_node_data *node)
{
    const ipu_block_data *body = ipu_block_of(w->graph, ipu_node_body(node));
    bool found = false;
    for (uint32_t k = 0; k < ipu_node_block_count(node); k++) {
        const ipu_block_data *held = ipu_block_of(w->graph, ipu_node_block(node, k));
        for (uint32_t i = 0;
             ipu_node_block_gives_outputs(node, k) && i < node->output_count; i++) {
            if (ipu__walk_depends(w, held->results.items[i])) {
                found |= mark(w, ipu_node_output(node, i));
            }
        }
        for (uint32_t i = 0; i < held->params.count; i++) {
            ipu_value before = node->inputs[ipu_node_entering(node, i)];
            if (ipu__walk_depends(w, held->params.items[i])) {
                found |= mark(w, ipu_node_output(node, i));
            } else if (ipu__walk_depends(w, before) ||
                       ipu__walk_depends(w, body->results.items[i])) {
                found |= mark(w, held->params.items[i]);
            }
        }
    }
    return found;
}

static bool
mark_outputs(ipu__walk *w, const ipu_node_data *node)
{
    bool found = false;
    bool depends = false;
    for (uint32_t i = 0; !depends && i < node->input_count; i++) {
        depends = ipu__walk_depends(w, node->inputs[i]);
    }
    for (uint32_t i = 0; depends && i < node->output_count; i++) {
        found |= mark(w, ipu_node_output(node, i));
    }
    return found;
}

static bool mark_node(ipu__walk *w, ipu_node id);

static bool
mark_inside(ipu__walk *w, const ipu_node_data *node)
{
    bool found = false;
    for (uint32_t k = 0; k < ipu_node_block_count(node); k++) {
        ipu_node n = ipu_block_of(w->graph, ipu_node_block(node, k))->first;
        for (; ipu_is_node(n); n = ipu_node_next(w->graph, n)) {
            found |= ipu_id_map_has(&w->is_passed, n.index) && mark_node(w, n);
        }
    }
    return found;
}

/* What a node holds is marked with it: a walk over all nodes once more for each loop
 * would take a time that is the square of their number. */
static bool
mark_node(ipu__walk *w, ipu_node id)
{
    const ipu_node_data *node = ipu_node_of(w->graph, id);
    if (!ipu_node_holds_blocks(node)) {
        return mark_outputs(w, node);
    }
    bool found = false;
    bool more = true;
    while (more) {
        more = mark_through_blocks(w, node);
        more |= mark_inside(w, node);
        found |= more;
    }
    return found;
}

/* From what is marked on, forward; the nodes that others hold are marked with these. */
static void
mark_forward(ipu__walk *w)
{
    bool found = true;
    while (found) {
        found = false;
        for (size_t i = 0; i < w->nodes.count; i++) {
            ipu_block block = ipu_node_of(w->graph, w->nodes.items[i])->block;
            ipu_node owner = ipu_block_of(w->graph, block)->owner;
            bool is_held =
                ipu_is_node(owner) && ipu_id_map_has(&w->is_passed, owner.index);
            found |= !is_held && mark_node(w, w->nodes.items[i]);
        }
    }
}

/* With a scope, an x counts that its watched values lead to. */
static ipu_status
mark_from_xs(ipu__walk *w)
{
    bool *counts;
    IPU_TRY(ipu_alloc(w->ctx, w->x_count * sizeof(bool), &counts));
    for (uint32_t i = 0; w->scope != NULL && i < w->scope->watched_count; i++) {
        mark(w, w->scope->watched[i]);
    }
    if (w->scope != NULL) {
        mark_forward(w);
    }
    for (uint32_t i = 0; i < w->x_count; i++) {
        counts[i] = w->scope == NULL || ipu__walk_depends(w, w->xs[i]);
    }
    memset(w->depends, 0, w->values.count * sizeof(bool));
    for (uint32_t i = 0; i < w->x_count; i++) {
        if (counts[i]) {
            mark(w, w->xs[i]);
        }
    }
    ipu_free(w->ctx, counts, w->x_count * sizeof(bool));
    mark_forward(w);
    return IPU_OK;
}

static int
by_index(const void *a, const void *b)
{
    return ipu_compare(((const ipu_node *)a)->index, ((const ipu_node *)b)->index);
}

ipu_status
ipu__walk_mark(ipu__walk *w)
{
    IPU_TRY(reach(w));
    if (w->nodes.count > 0) {
        qsort(w->nodes.items, w->nodes.count, sizeof *w->nodes.items, by_index);
    }
    IPU_TRY(find_stretches(w));
    size_t count = w->values.count + 1; /* of memory there is some, then */
    IPU_TRY(ipu_alloc(w->ctx, count * sizeof(bool), &w->depends));
    IPU_TRY(ipu_alloc(w->ctx, count * sizeof(ipu_value), &w->grads));
    memset(w->grads, 0xff, count * sizeof(ipu_value)); /* IPU_NO_VALUE */
    return mark_from_xs(w);
}

void
ipu__walk_free(ipu__walk *w)
{
    size_t count = w->values.count + 1;
    ipu_free(w->ctx, w->grads, count * sizeof(ipu_value));
    ipu_free(w->ctx, w->depends, count * sizeof(bool));
    ipu_id_map_free(w->ctx, &w->places);
    ipu_id_map_free(w->ctx, &w->is_passed);
    IPU_ARRAY_FREE(w->ctx, &w->values);
    IPU_ARRAY_FREE(w->ctx, &w->nodes);
    IPU_ARRAY_FREE(w->ctx, &w->stretches);
    IPU_ARRAY_FREE(w->ctx, &w->pairs);
    IPU_ARRAY_FREE(w->ctx, &w->in_grads);
    IPU_ARRAY_FREE(w->ctx, &w->wanted);
    IPU_ARRAY_FREE(w->ctx, &w->out_grads);
}
