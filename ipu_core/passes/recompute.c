/* SPDX-License-Identifier: MIT
 *
 * Recomputation in pipelines. In: a pipeline node whose attribute `recompute` says for
 * each stage what its backward pass finds of the forward one. Out: what it would have
 * kept is made a second time, in the backward phase, of what is kept:
 *
 *     AT_ONCE   what entered the stage; all is made in front of the backward pass
 *     IN_TURN   that, and the stage's checkpoints; each value is made where the
 *               backward pass needs it first, so that those between two checkpoints
 *               exist together and no more
 *
 * Nodes with effects are not run twice: their results are kept. Variables that are
 * written in the body are read once; others are read anew, which keeps nothing. Random
 * nodes draw the same numbers again, which depend on their ordinal and the micro-batch.
 * A value that is made a second time carries the number of its recomputation, so that
 * no later pass merges it with the first. One thread per graph. */
#include "graph/block_op.h"
#include "graph/copy.h"
#include "graph/effects.h"
#include "graph/users.h"
#include "passes/passes.h"

enum { KEEP, AT_ONCE, IN_TURN };

typedef struct recomputer {
    ipu_ctx *ctx;
    ipu_graph *graph;
    ipu_effects effects;
    ipu_node pipeline;
    ipu_block body;
    int16_t stage;
    int64_t mode;
    ipu_copy copy;
    IPU_ARRAY(ipu_value) open; /* to be made, each after those that need it */
} recomputer;

/* --- what is made anew ------------------------------------------------------------ */

static bool
has_effects(const recomputer *r, const ipu_node_data *node)
{
    return ipu_node_writes(node) || ipu_effects_node_has(&r->effects, node) ||
           node->op == IPU_OP_ID_CUSTOM_GRADIENT;
}

/* Whether a read would find another value by the time of the backward pass. */
static bool
reads_what_changes(const recomputer *r, const ipu_node_data *node)
{
    uint32_t count;
    const uint32_t *written = ipu_effects_of(&r->effects, r->body, &count);
    for (uint32_t i = 0; i < ipu_node_resource_count(node); i++) {
        for (uint32_t k = 0; k < count; k++) {
            if (written[k] == ipu_node_resource(node, i)) {
                return true;
            }
        }
    }
    for (uint32_t b = 0; b < ipu_node_block_count(node); b++) {
        for (ipu_node n = ipu_block_first(r->graph, ipu_node_block(node, b));
             ipu_is_node(n); n = ipu_node_next(r->graph, n)) {
            if (reads_what_changes(r, ipu_node_of(r->graph, n))) {
                return true;
            }
        }
    }
    return false;
}

static bool
is_made_anew(const recomputer *r, ipu_value value)
{
    const ipu_value_data *data = ipu_value_of(r->graph, value);
    if (data->block.index != r->body.index || !ipu_is_node(data->producer)) {
        return false;
    }
    const ipu_node_data *node = ipu_node_of(r->graph, data->producer);
    bool is_checkpoint = node->op == IPU_OP_ID_CHECKPOINT && r->mode == IN_TURN;
    return node->placement.stage == r->stage &&
           node->placement.phase == IPU_PHASE_FORWARD && !is_checkpoint &&
           node->op != IPU_OP_ID_CONSTANT && node->op != IPU_OP_ID_HELD &&
           !has_effects(r, node) && !reads_what_changes(r, node);
}

static bool
is_missing(const recomputer *r, ipu_value value)
{
    return is_made_anew(r, value) && ipu_copy_of(&r->copy, value).index == value.index;
}

/* Opens what is missing. */
static ipu_status
open_missing(void *state, ipu_value *place, ipu_node user)
{
    recomputer *r = state;
    (void)user;
    return is_missing(r, *place) ? IPU_ARRAY_PUSH(r->ctx, &r->open, *place) : IPU_OK;
}

static ipu_status
make_node(recomputer *r, ipu_node id)
{
    IPU_TRY(ipu_copy_node(&r->copy, id, r->body));
    ipu_value made =
        ipu_copy_of(&r->copy, ipu_node_output(ipu_node_of(r->graph, id), 0));
    ipu_node_data *node = ipu_node_of(r->graph, ipu_value_of(r->graph, made)->producer);
    node->placement.phase = IPU_PHASE_BACKWARD;
    node->recomputation = (uint32_t)r->stage + 1;
    return IPU_OK;
}

/* Makes what is open, at the body's cursor. */
static ipu_status
make_open(recomputer *r)
{
    while (r->open.count > 0) {
        size_t before = r->open.count;
        ipu_value next = r->open.items[before - 1];
        ipu_node id = ipu_value_of(r->graph, next)->producer;
        if (is_missing(r, next)) {
            IPU_TRY(ipu_node_each_use(r->graph, id, open_missing, r));
        }
        if (r->open.count > before) {
            continue;
        }
        if (is_missing(r, next)) {
            IPU_TRY(make_node(r, id));
        }
        r->open.count--;
    }
    return IPU_OK;
}

/* --- who uses it ------------------------------------------------------------------ */

static ipu_status
replace_use(void *state, ipu_value *place, ipu_node user)
{
    const recomputer *r = state;
    (void)user;
    *place = ipu_copy_of(&r->copy, *place);
    return IPU_OK;
}

static bool
goes_back(const recomputer *r, const ipu_node_data *node)
{
    return node->placement.stage == r->stage &&
           node->placement.phase == IPU_PHASE_BACKWARD && node->recomputation == 0;
}

static ipu_status
recompute_stage(recomputer *r)
{
    ipu_node first = IPU_NO_NODE;
    ipu_node next;
    ipu_status status = IPU_OK;
    r->copy = (ipu_copy){.ctx = r->ctx, .from = r->graph, .to = r->graph};
    for (ipu_node n = ipu_block_first(r->graph, r->body);
         status == IPU_OK && ipu_is_node(n); n = next) {
        next = ipu_node_next(r->graph, n);
        if (!goes_back(r, ipu_node_of(r->graph, n))) {
            continue;
        }
        first = ipu_is_node(first) ? first : n;
        ipu_block_of(r->graph, r->body)->cursor = r->mode == AT_ONCE ? first : n;
        status = ipu_node_each_use(r->graph, n, open_missing, r);
        if (status == IPU_OK) {
            status = make_open(r);
        }
        if (status == IPU_OK) {
            status = ipu_node_each_use(r->graph, n, replace_use, r);
        }
    }
    ipu_block_of(r->graph, r->body)->cursor = IPU_NO_NODE;
    ipu_copy_free(&r->copy);
    return status;
}

static ipu_status
recompute_pipeline(recomputer *r)
{
    uint32_t count;
    const int64_t *modes = ipu_attrs_ints(ipu_node_of(r->graph, r->pipeline)->attrs,
                                          IPU_ATTR_RECOMPUTE, &count);
    for (uint32_t i = 0; i < count; i++) {
        r->body = ipu_node_body(ipu_node_of(r->graph, r->pipeline));
        r->stage = (int16_t)i;
        r->mode = modes[i];
        if (r->mode != KEEP) {
            IPU_TRY(recompute_stage(r));
        }
    }
    return IPU_OK;
}

ipu_status
ipu_pass_recompute(ipu_ctx *ctx, ipu_graph *graph)
{
    recomputer r = {.ctx = ctx, .graph = graph};
    size_t nodes = graph->nodes.count; /* what is made holds no pipelines */
    ipu_status status = IPU_OK;
    for (uint32_t i = 0; status == IPU_OK && i < nodes; i++) {
        const ipu_node_data *node = ipu_node_of(graph, (ipu_node){i});
        uint32_t count = 0;
        if (node->op == IPU_OP_ID_PIPELINE) {
            (void)ipu_attrs_ints(node->attrs, IPU_ATTR_RECOMPUTE, &count);
        }
        if (count == 0) {
            continue;
        }
        status = ipu_effects_find(ctx, graph, &r.effects);
        r.pipeline = (ipu_node){i};
        if (status == IPU_OK) {
            status = recompute_pipeline(&r);
        }
        ipu_effects_free(ctx, &r.effects);
    }
    IPU_ARRAY_FREE(ctx, &r.open);
    return status;
}
