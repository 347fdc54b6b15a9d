/* SPDX-License-Identifier: MIT
 *
 * Which values the ys may depend on, and which of these depend on the xs. In: the ys and
 * xs of a walk. Out: places for the former, a mark for each of the latter.
 *
 * The first is reachability backwards from the ys: from a value to the inputs of the
 * node that makes it, where gradients may pass that; a node that holds blocks brings all
 * that they hold. The second is reachability over the uses among those: from a marked
 * value to the outputs of the nodes that use it, and, as the table of block ops says,
 * into blocks and out of them. Each use is followed once, so that the time is in
 * proportion to what the ys depend on. One thread per graph. */
#include <string.h>

#include "autodiff/walk.h"
#include "graph/block_op.h"

/* By an input of `node`, or by a result of a block that it holds. */
typedef struct use {
    ipu_node node;
    uint32_t position;
    bool by_result;
} use;

typedef struct marker {
    ipu__walk *w;
    use *uses;                   /* of one value behind those of another */
    uint32_t *ends;              /* by place: past its last use */
    size_t use_count;            /* as collected so far */
    bool counting;               /* the first of two passes */
    IPU_ARRAY(ipu_value) marked; /* whose uses have not been followed */
} marker;

/* Whether `at` is `block`, lies in it, or goes back through one that does. */
static bool
lies_in(const ipu_graph *graph, ipu_block at, ipu_block block)
{
    while (at.index != block.index) {
        const ipu_block_data *data = ipu_block_of(graph, at);
        if (ipu_is_node(data->owner)) {
            at = ipu_node_of(graph, data->owner)->block;
        } else if (data->goes_through.index != IPU_NO_INDEX) {
            at = data->goes_through;
        } else {
            return false;
        }
    }
    return true;
}

bool
ipu__walk_is_around(const ipu__walk *w, ipu_block block)
{
    /* still open: blocks that were opened later lie in it */
    return !ipu_is_node(ipu_block_of(w->graph, block)->owner) ||
           lies_in(w->graph, w->block, block);
}

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

/* Whether gradients may pass the node. What a tape did not see is a constant; what is
 * in blocks was made before the node that holds them. */
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
        if (found.block.index > w->block.index ||
            !ipu__walk_is_around(w, found.block)) {
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

/* --- uses ------------------------------------------------------------------------ */

static uint32_t
place_of(const marker *m, ipu_value value)
{
    return ipu_id_map_get(&m->w->places, value.index, IPU_NO_INDEX);
}

static void
note(marker *m, ipu_value value, use use)
{
    uint32_t place = place_of(m, value);
    m->use_count++;
    if (m->counting) {
        m->ends[place]++;
    } else { /* ends is where the next use goes */
        m->uses[m->ends[place]++] = use;
    }
}

static void
note_uses(marker *m, bool counting)
{
    const ipu_graph *graph = m->w->graph;
    m->counting = counting;
    m->use_count = 0;
    for (size_t n = 0; n < m->w->nodes.count; n++) {
        ipu_node id = m->w->nodes.items[n];
        const ipu_node_data *node = ipu_node_of(graph, id);
        for (uint32_t i = 0; i < node->input_count; i++) {
            note(m, node->inputs[i], (use){id, i, false});
        }
        for (uint32_t k = 0; k < ipu_node_block_count(node); k++) {
            const ipu_block_data *held = ipu_block_of(graph, ipu_node_block(node, k));
            for (uint32_t i = 0;
                 ipu_node_block_gives_outputs(node, k) && i < held->results.count;
                 i++) {
                note(m, held->results.items[i], (use){id, i, true});
            }
        }
    }
}

static ipu_status
collect_uses(marker *m)
{
    size_t bytes;
    note_uses(m, true);
    IPU_FAIL_IF(m->w->ctx, m->use_count >= UINT32_MAX, OUT_OF_MEMORY,
                "out of memory: a graph of more than 2^32 uses");
    IPU_TRY(ipu_mul_size(m->w->ctx, m->use_count, sizeof(use), &bytes));
    IPU_TRY(ipu_alloc(m->w->ctx, bytes, &m->uses));
    uint32_t first = 0;
    for (size_t i = 0; i < m->w->values.count; i++) {
        uint32_t count = m->ends[i];
        m->ends[i] = first;
        first += count;
    }
    note_uses(m, false);
    return IPU_OK;
}

/* --- marks ----------------------------------------------------------------------- */

static ipu_status
mark(marker *m, ipu_value value)
{
    uint32_t place = place_of(m, value);
    if (place == IPU_NO_INDEX) { /* no y depends on it */
        return IPU_OK;
    }
    bool *depends = &m->w->depends[place];
    if (*depends || !ipu_dtype_is_float(ipu_value_of(m->w->graph, value)->type.dtype)) {
        return IPU_OK;
    }
    *depends = true;
    return IPU_ARRAY_PUSH(m->w->ctx, &m->marked, value);
}

static ipu_status
mark_params(marker *m, const ipu_node_data *node, uint32_t i)
{
    for (uint32_t k = 0; k < ipu_node_block_count(node); k++) {
        ipu_block held = ipu_node_block(node, k);
        IPU_TRY(mark(m, ipu_block_of(m->w->graph, held)->params.items[i]));
    }
    return IPU_OK;
}

static ipu_status
follow_into_blocks(marker *m, const ipu_node_data *node, const use *use)
{
    uint32_t first = ipu_node_entering(node, 0);
    if (!use->by_result) {
        return use->position < first ? IPU_OK
                                     : mark_params(m, node, use->position - first);
    }
    IPU_TRY(mark(m, ipu_node_output(node, use->position)));
    return ipu_node_is_loop(node) ? mark_params(m, node, use->position) : IPU_OK;
}

static ipu_status
follow(marker *m, const use *use)
{
    const ipu_node_data *node = ipu_node_of(m->w->graph, use->node);
    if (ipu_node_holds_blocks(node)) {
        return follow_into_blocks(m, node, use);
    }
    for (uint32_t i = 0; i < node->output_count; i++) {
        IPU_TRY(mark(m, ipu_node_output(node, i)));
    }
    return IPU_OK;
}

/* A loop may end before its first turn: what it carries comes out as it went in. */
static ipu_status
follow_around(marker *m, ipu_value value)
{
    const ipu_value_data *data = ipu_value_of(m->w->graph, value);
    ipu_node owner = ipu_block_of(m->w->graph, data->block)->owner;
    if (ipu_is_node(data->producer) || !ipu_is_node(owner) ||
        !ipu_node_is_loop(ipu_node_of(m->w->graph, owner)) ||
        !ipu_id_map_has(&m->w->is_passed, owner.index)) {
        return IPU_OK;
    }
    return mark(m, ipu_node_output(ipu_node_of(m->w->graph, owner), data->position));
}

static ipu_status
follow_all(marker *m)
{
    while (m->marked.count > 0) {
        ipu_value value = m->marked.items[--m->marked.count];
        uint32_t place = place_of(m, value);
        uint32_t first = place == 0 ? 0 : m->ends[place - 1];
        IPU_TRY(follow_around(m, value));
        for (uint32_t i = first; i < m->ends[place]; i++) {
            IPU_TRY(follow(m, &m->uses[i]));
        }
    }
    return IPU_OK;
}

/* With a scope, an x counts that its watched values lead to. */
static ipu_status
mark_from_xs(marker *m)
{
    ipu__walk *w = m->w;
    bool *counts = NULL;
    size_t bytes = w->x_count * sizeof(bool);
    for (uint32_t i = 0; w->scope != NULL && i < w->scope->watched_count; i++) {
        IPU_TRY(mark(m, w->scope->watched[i]));
    }
    IPU_TRY(follow_all(m));
    IPU_TRY(ipu_alloc(w->ctx, bytes, &counts));
    for (uint32_t i = 0; i < w->x_count; i++) {
        counts[i] = w->scope == NULL || ipu__walk_depends(w, w->xs[i]);
    }
    memset(w->depends, 0, w->values.count * sizeof(bool));
    ipu_status status = IPU_OK;
    for (uint32_t i = 0; status == IPU_OK && i < w->x_count; i++) {
        status = counts[i] ? mark(m, w->xs[i]) : IPU_OK;
    }
    ipu_free(w->ctx, counts, bytes);
    IPU_TRY(status);
    return follow_all(m);
}

ipu_status
ipu__walk_mark(ipu__walk *w)
{
    marker m = {.w = w};
    IPU_TRY(reach(w));
    IPU_TRY(find_stretches(w));
    size_t count = w->values.count + 1; /* of memory there is some, then */
    size_t bytes = count * sizeof(uint32_t);
    IPU_TRY(ipu_alloc(w->ctx, count * sizeof(bool), &w->depends));
    IPU_TRY(ipu_alloc(w->ctx, count * sizeof(ipu_value), &w->grads));
    memset(w->grads, 0xff, count * sizeof(ipu_value)); /* IPU_NO_VALUE */
    IPU_TRY(ipu_alloc(w->ctx, bytes, &m.ends));
    ipu_status status = collect_uses(&m);
    if (status == IPU_OK) {
        status = mark_from_xs(&m);
    }
    ipu_free(w->ctx, m.uses, m.uses == NULL ? 0 : m.use_count * sizeof(use));
    ipu_free(w->ctx, m.ends, bytes);
    IPU_ARRAY_FREE(w->ctx, &m.marked);
    return status;
}

void
ipu__walk_free(ipu__walk *w)
{
    size_t count = w->values.count + 1;
    ipu_free(w->ctx, w->grads, w->grads == NULL ? 0 : count * sizeof(ipu_value));
    ipu_free(w->ctx, w->depends, w->depends == NULL ? 0 : count * sizeof(bool));
    ipu_id_map_free(w->ctx, &w->places);
    ipu_id_map_free(w->ctx, &w->is_passed);
    IPU_ARRAY_FREE(w->ctx, &w->values);
    IPU_ARRAY_FREE(w->ctx, &w->nodes);
    IPU_ARRAY_FREE(w->ctx, &w->stretches);
    IPU_ARRAY_FREE(w->ctx, &w->inner_xs);
    IPU_ARRAY_FREE(w->ctx, &w->pairs);
    IPU_ARRAY_FREE(w->ctx, &w->in_grads);
    IPU_ARRAY_FREE(w->ctx, &w->wanted);
    IPU_ARRAY_FREE(w->ctx, &w->out_grads);
}
