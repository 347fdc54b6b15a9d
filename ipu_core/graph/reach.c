/* SPDX-License-Identifier: MIT
 *
 * Reachability over the nodes of a graph that is still being traced. In: the graph, and
 * rules of what leads to what beside the inputs of nodes. Out: the graph without the
 * nodes that nothing led to. Each node is followed once, and compared with each rule.
 * One thread per graph. */
#include "graph/reach.h"

#include "graph/block_op.h"

typedef struct reacher {
    ipu_ctx *ctx;
    ipu_graph *graph;
    uint32_t first;
    const ipu_reach *rules;
    uint32_t rule_count;
    bool *is_reached;            /* by node */
    IPU_ARRAY(uint32_t) waiting; /* reached, but not followed */
} reacher;

static ipu_status
reach(reacher *r, ipu_node node)
{
    if (!ipu_is_node(node) || node.index < r->first || r->is_reached[node.index]) {
        return IPU_OK;
    }
    r->is_reached[node.index] = true;
    return IPU_ARRAY_PUSH(r->ctx, &r->waiting, node.index);
}

static ipu_status
reach_all(reacher *r, const ipu_reach *rule)
{
    for (uint32_t n = rule->target; n < rule->target_end && n < r->graph->nodes.count;
         n++) {
        IPU_TRY(reach(r, (ipu_node){n}));
    }
    return IPU_OK;
}

static ipu_status
reach_value(reacher *r, ipu_value value)
{
    const ipu_value_data *data = ipu_value_of(r->graph, value);
    return reach(r, ipu_is_node(data->producer)
                        ? data->producer
                        : ipu_block_of(r->graph, data->block)->owner);
}

static bool
holds(const ipu_node_data *node, uint32_t block)
{
    for (uint32_t k = 0; k < ipu_node_block_count(node); k++) {
        if (ipu_node_block(node, k).index == block) {
            return true;
        }
    }
    return false;
}

static ipu_status
follow(reacher *r, uint32_t index)
{
    const ipu_node_data *node = ipu_node_of(r->graph, (ipu_node){index});
    IPU_TRY(reach(r, ipu_block_of(r->graph, node->block)->owner));
    for (uint32_t i = 0; i < node->input_count; i++) {
        IPU_TRY(reach_value(r, node->inputs[i]));
    }
    for (uint32_t k = 0; k < ipu_node_block_count(node); k++) {
        const ipu_block_data *held = ipu_block_of(r->graph, ipu_node_block(node, k));
        for (size_t i = 0; i < held->results.count; i++) {
            IPU_TRY(reach_value(r, held->results.items[i]));
        }
    }
    for (uint32_t i = 0; i < r->rule_count; i++) {
        const ipu_reach *rule = &r->rules[i];
        bool leads = (rule->from == IPU_REACH_NODES && index >= rule->first &&
                      index < rule->end) ||
                     (rule->from == IPU_REACH_HOLDER && holds(node, rule->first));
        IPU_TRY(leads ? reach_all(r, rule) : IPU_OK);
    }
    return IPU_OK;
}

static void
drop(const reacher *r, ipu_block block)
{
    ipu_node before;
    for (ipu_node n = ipu_block_of(r->graph, block)->last; ipu_is_node(n); n = before) {
        const ipu_node_data *node = ipu_node_of(r->graph, n);
        before = node->previous;
        if (n.index >= r->first && !r->is_reached[n.index]) {
            ipu_graph_unlink(r->graph, n);
            continue;
        }
        for (uint32_t k = 0; k < ipu_node_block_count(node); k++) {
            drop(r, ipu_node_block(node, k));
        }
    }
}

ipu_status
ipu_graph_drop_unreached(ipu_ctx *ctx, ipu_graph *graph, ipu_block block,
                         uint32_t first, const ipu_reach *rules, uint32_t rule_count)
{
    reacher r = {.ctx = ctx,
                 .graph = graph,
                 .first = first,
                 .rules = rules,
                 .rule_count = rule_count};
    size_t bytes = graph->nodes.count * sizeof(bool);
    ipu_status status = ipu_alloc(ctx, bytes, &r.is_reached);
    for (uint32_t i = 0; i < rule_count && status == IPU_OK; i++) {
        status = rules[i].from == IPU_REACH_START ? reach_all(&r, &rules[i]) : IPU_OK;
    }
    while (status == IPU_OK && r.waiting.count > 0) {
        status = follow(&r, r.waiting.items[--r.waiting.count]);
    }
    if (status == IPU_OK) {
        drop(&r, block);
    }
    IPU_ARRAY_FREE(ctx, &r.waiting);
    ipu_free(ctx, r.is_reached, bytes);
    return status;
}
