/* SPDX-License-Identifier: MIT
 *
 * Takes out the nodes that no effect and no result needs, and what loops carry and
 * branches give in vain. In: any graph. Out: what is left, in the same order.
 *
 * A node is needed if it writes a resource, holds a block that does, or makes a value
 * that is needed. With a node its inputs are needed; of one that holds blocks only the
 * operands that steer it, a condition's result, and for each output that is needed the
 * results of that number. A carried value is needed where the loop's output is, or
 * where the body or the condition needs the parameter for something else than its own
 * next value. Needs are followed from a list of values, each once, so that the time is
 * in proportion to the graph. One thread per graph. */
#include "graph/block_op.h"
#include "graph/effects.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

typedef struct pruner {
    ipu_ctx *ctx;
    ipu_graph *graph;
    ipu_effects effects;
    bool *is_value_needed;       /* by value */
    bool *is_node_needed;        /* by node */
    IPU_ARRAY(ipu_value) needed; /* values whose makers have not been looked at */
} pruner;

/* --- finding --------------------------------------------------------------------- */

static ipu_status
need(pruner *p, ipu_value value)
{
    if (p->is_value_needed[value.index]) {
        return IPU_OK;
    }
    p->is_value_needed[value.index] = true;
    return IPU_ARRAY_PUSH(p->ctx, &p->needed, value);
}

static ipu_status
need_node(pruner *p, ipu_node id)
{
    const ipu_node_data *node = ipu_node_of(p->graph, id);
    uint32_t count = node->input_count;
    if (p->is_node_needed[id.index]) {
        return IPU_OK;
    }
    p->is_node_needed[id.index] = true;
    if (ipu_node_holds_blocks(node)) {
        count = ipu_node_entering(node, 0);
    }
    for (uint32_t i = 0; i < count; i++) {
        IPU_TRY(need(p, node->inputs[i]));
    }
    for (uint32_t k = 0; k < ipu_node_block_count(node); k++) {
        if (!ipu_node_block_gives_outputs(node, k)) {
            ipu_block condition = ipu_node_block(node, k);
            IPU_TRY(need(p, ipu_block_of(p->graph, condition)->results.items[0]));
        }
    }
    return IPU_OK;
}

/* What output i of a node that holds blocks comes from; of a loop also what enters as
 * parameter i. */
static ipu_status
need_results(pruner *p, const ipu_node_data *node, uint32_t i)
{
    for (uint32_t k = 0; k < ipu_node_block_count(node); k++) {
        const ipu_block_data *held = ipu_block_of(p->graph, ipu_node_block(node, k));
        if (ipu_node_block_gives_outputs(node, k)) {
            IPU_TRY(need(p, held->results.items[i]));
        }
    }
    return ipu_node_is_loop(node) ? need(p, node->inputs[ipu_node_entering(node, i)])
                                  : IPU_OK;
}

static ipu_status
follow(pruner *p, ipu_value value)
{
    const ipu_value_data *data = ipu_value_of(p->graph, value);
    ipu_node id = data->producer;
    if (!ipu_is_node(id)) {
        id = ipu_block_of(p->graph, data->block)->owner;
        if (!ipu_is_node(id)) {
            return IPU_OK; /* a parameter of the main block */
        }
    }
    IPU_TRY(need_node(p, id));
    const ipu_node_data *node = ipu_node_of(p->graph, id);
    return ipu_node_holds_blocks(node) ? need_results(p, node, data->position) : IPU_OK;
}

/* Nodes with effects, and with each the nodes around it. */
static ipu_status
need_effects(pruner *p, ipu_block id)
{
    IPU_EACH_NODE(n, p->graph, id) {
        const ipu_node_data *node = ipu_node_of(p->graph, n);
        if (!ipu_effects_node_has(&p->effects, node)) {
            continue;
        }
        IPU_TRY(need_node(p, n));
        for (uint32_t k = 0; k < ipu_node_block_count(node); k++) {
            IPU_TRY(need_effects(p, ipu_node_block(node, k)));
        }
    }
    return IPU_OK;
}

static ipu_status
find_needed(pruner *p)
{
    const ipu_block_data *main_block = ipu_block_of(p->graph, (ipu_block){0});
    IPU_TRY(ipu_effects_find(p->ctx, p->graph, &p->effects));
    IPU_TRY(need_effects(p, (ipu_block){0}));
    for (size_t i = 0; i < main_block->results.count; i++) {
        IPU_TRY(need(p, main_block->results.items[i]));
    }
    while (p->needed.count > 0) {
        IPU_TRY(follow(p, p->needed.items[--p->needed.count]));
    }
    return IPU_OK;
}

/* --- taking out ------------------------------------------------------------------ */

/* Whether output i of a node that holds blocks has to stay. */
static bool
stays(const pruner *p, const ipu_node_data *node, uint32_t i)
{
    bool needed = p->is_value_needed[ipu_node_output(node, i).index];
    for (uint32_t k = 0; ipu_node_is_loop(node) && k < ipu_node_block_count(node);
         k++) {
        const ipu_block_data *held = ipu_block_of(p->graph, ipu_node_block(node, k));
        needed |= p->is_value_needed[held->params.items[i].index];
    }
    return needed;
}

static ipu_status
shrink(pruner *p, ipu_node id)
{
    const ipu_node_data *node = ipu_node_of(p->graph, id);
    uint32_t count = node->output_count;
    uint32_t kept = 0;
    bool *keep;
    IPU_TRY(ipu_alloc(p->ctx, count * sizeof(bool), &keep));
    for (uint32_t i = 0; i < count; i++) {
        keep[i] = stays(p, node, i);
        kept += keep[i];
    }
    if (kept < count) {
        ipu_graph_shrink_node(p->graph, id, keep);
    }
    ipu_free(p->ctx, keep, count * sizeof(bool));
    return IPU_OK;
}

static ipu_status
sweep_block(pruner *p, ipu_block id)
{
    ipu_node next;
    for (ipu_node n = ipu_block_first(p->graph, id); ipu_is_node(n); n = next) {
        const ipu_node_data *node = ipu_node_of(p->graph, n);
        next = node->next;
        if (!p->is_node_needed[n.index]) {
            ipu_graph_unlink(p->graph, n);
            continue;
        }
        for (uint32_t k = 0; k < ipu_node_block_count(node); k++) {
            IPU_TRY(sweep_block(p, ipu_node_block(node, k)));
        }
        if (ipu_node_holds_blocks(node)) {
            IPU_TRY(shrink(p, n));
        }
    }
    return IPU_OK;
}

static ipu_status
prune(pruner *p, size_t value_bytes, size_t node_bytes)
{
    IPU_TRY(ipu_alloc(p->ctx, value_bytes, &p->is_value_needed));
    IPU_TRY(ipu_alloc(p->ctx, node_bytes, &p->is_node_needed));
    IPU_TRY(find_needed(p));
    return sweep_block(p, (ipu_block){0});
}

ipu_status
ipu_pass_prune(ipu_ctx *ctx, ipu_graph *graph)
{
    pruner p = {.ctx = ctx, .graph = graph};
    size_t value_bytes = graph->values.count * sizeof(bool);
    size_t node_bytes = graph->nodes.count * sizeof(bool);
    ipu_status status = prune(&p, value_bytes, node_bytes);
    ipu_free(ctx, p.is_node_needed, node_bytes);
    ipu_free(ctx, p.is_value_needed, value_bytes);
    IPU_ARRAY_FREE(ctx, &p.needed);
    ipu_effects_free(ctx, &p.effects);
    return status;
}
