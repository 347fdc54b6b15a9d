/* SPDX-License-Identifier: MIT
 *
 * Which values depend on the xs. In: the blocks that w->block sees, and those that
 * nodes in them hold. Out: a mark for each such value.
 *
 * Reachability over the uses of values, which are collected first: from a marked value
 * to the outputs of the nodes that use it, and, as the table of block ops says, into
 * blocks and out of them. Each use is followed once, so that the time is in proportion
 * to the graph. One thread per graph. */
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
    uint32_t *ends;              /* by value: past its last use */
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

/* --- uses ------------------------------------------------------------------------ */

static void
note(marker *m, ipu_value value, use use)
{
    m->use_count++;
    if (m->counting) {
        m->ends[value.index]++;
    } else { /* ends is where the next use goes */
        m->uses[m->ends[value.index]++] = use;
    }
}

static void
note_block(marker *m, ipu_block id)
{
    const ipu_graph *graph = m->w->graph;
    for (ipu_node n = ipu_block_first(graph, id); ipu_is_node(n);
         n = ipu_node_next(graph, n)) {
        const ipu_node_data *node = ipu_node_of(graph, n);
        for (uint32_t i = 0; i < node->input_count; i++) {
            note(m, node->inputs[i], (use){n, i, false});
        }
        for (uint32_t k = 0; k < ipu_node_block_count(node); k++) {
            const ipu_block_data *held = ipu_block_of(graph, ipu_node_block(node, k));
            note_block(m, ipu_node_block(node, k));
            for (uint32_t i = 0;
                 ipu_node_block_gives_outputs(node, k) && i < held->results.count;
                 i++) {
                note(m, held->results.items[i], (use){n, i, true});
            }
        }
    }
}

static void
note_visible(marker *m, bool counting)
{
    m->counting = counting;
    m->use_count = 0;
    for (uint32_t b = 0; b <= m->w->block.index; b++) {
        if (ipu__walk_is_around(m->w, (ipu_block){b})) {
            note_block(m, (ipu_block){b});
        }
    }
}

static ipu_status
collect_uses(marker *m)
{
    size_t bytes;
    note_visible(m, true);
    IPU_FAIL_IF(m->w->ctx, m->use_count >= UINT32_MAX, OUT_OF_MEMORY,
                "out of memory: a graph of more than 2^32 uses");
    IPU_TRY(ipu_mul_size(m->w->ctx, m->use_count, sizeof(use), &bytes));
    IPU_TRY(ipu_alloc(m->w->ctx, bytes, &m->uses));
    uint32_t first = 0;
    for (size_t i = 0; i < m->w->value_count; i++) {
        uint32_t count = m->ends[i];
        m->ends[i] = first;
        first += count;
    }
    note_visible(m, false);
    return IPU_OK;
}

/* --- marks ----------------------------------------------------------------------- */

static ipu_status
mark(marker *m, ipu_value value)
{
    bool *depends = &m->w->depends[value.index];
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
    if (ipu__walk_stops(m->w, use->node)) {
        return IPU_OK;
    }
    if (ipu_node_holds_blocks(node)) {
        return follow_into_blocks(m, node, use);
    }
    uint32_t flags = ipu_node_flags(node);
    if ((flags & (IPU_OP_GRADIENT | IPU_OP_OPAQUE)) == 0 ||
        !ipu__walk_saw(m->w, use->node)) {
        return IPU_OK;
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
        ipu__walk_stops(m->w, owner)) {
        return IPU_OK;
    }
    return mark(m, ipu_node_output(ipu_node_of(m->w->graph, owner), data->position));
}

static ipu_status
follow_all(marker *m)
{
    while (m->marked.count > 0) {
        ipu_value value = m->marked.items[--m->marked.count];
        uint32_t first = value.index == 0 ? 0 : m->ends[value.index - 1];
        IPU_TRY(follow_around(m, value));
        for (uint32_t i = first; i < m->ends[value.index]; i++) {
            IPU_TRY(follow(m, &m->uses[i]));
        }
    }
    return IPU_OK;
}

/* With a scope, from its watched values first: an x that these do not lead to has no
 * gradient. */
static ipu_status
mark_from_xs(marker *m, ipu_value *out)
{
    ipu__walk *w = m->w;
    for (uint32_t i = 0; w->scope != NULL && i < w->scope->watched_count; i++) {
        IPU_TRY(mark(m, w->scope->watched[i]));
    }
    IPU_TRY(follow_all(m));
    for (uint32_t i = 0; i < w->x_count; i++) {
        ipu_value x = w->xs[i];
        bool reached = w->scope == NULL || w->depends[x.index];
        bool is_float = ipu_dtype_is_float(ipu_value_of(w->graph, x)->type.dtype);
        out[i] = reached && is_float ? x : IPU_NO_VALUE;
    }
    if (w->value_count > 0) {
        memset(w->depends, 0, w->value_count * sizeof(bool));
    }
    for (uint32_t i = 0; i < w->x_count; i++) {
        if (out[i].index != IPU_NO_INDEX) {
            IPU_TRY(mark(m, out[i]));
        }
    }
    return follow_all(m);
}

ipu_status
ipu__walk_mark(ipu__walk *w, ipu_value *out)
{
    marker m = {.w = w};
    size_t bytes = w->value_count * sizeof(uint32_t);
    IPU_TRY(ipu_alloc(w->ctx, bytes, &m.ends));
    ipu_status status = collect_uses(&m);
    if (status == IPU_OK) {
        status = mark_from_xs(&m, out);
    }
    ipu_free(w->ctx, m.uses, m.uses == NULL ? 0 : m.use_count * sizeof(use));
    ipu_free(w->ctx, m.ends, bytes);
    IPU_ARRAY_FREE(w->ctx, &m.marked);
    return status;
}
