/* SPDX-License-Identifier: MIT
 *
 * Which values differ between replicas: what comes of an infeed, of random numbers, of
 * the replica's own number, of the parts that replicas deal out, and what is made of
 * these. A sum over all replicas is the same on each. A variable differs where something
 * that differs is written to it, anywhere; so the walk is repeated until it finds nothing
 * new. One thread per graph. */
#include "graph/block_op.h"
#include "graph/effects.h"
#include "passes/rewrite.h"

typedef struct walker {
    const ipu_graph *graph;
    bool *values;
    bool *resources;
    bool has_changed;
} walker;

static void
mark(walker *w, bool *at, bool differs)
{
    w->has_changed |= differs && !*at;
    *at |= differs;
}

static bool
has_key(const ipu_node_data *node)
{
    int32_t key = ipu_op_key_place(node->op);
    return key >= 0 && node->input_count > (uint32_t)key;
}

/* Whether a node's results differ by themselves, or because of an operand. */
static bool
differs(const walker *w, const ipu_node_data *node)
{
    uint32_t flags = ipu_node_flags(node);
    bool found = node->op == IPU_OP_ID_INFEED_DEQUEUE ||
                 node->op == IPU_OP_ID_HOST_CALL ||
                 node->op == IPU_OP_ID_REPLICA_INDEX ||
                 node->op == IPU_OP_ID_ALL_TO_ALL ||
                 node->op == IPU_OP_ID_REDUCE_SCATTER ||
                 ((flags & IPU_OP_RANDOM) != 0 && !has_key(node) &&
                  ipu_attrs_int(node->attrs, IPU_ATTR_SAME_ON_REPLICAS, 0) == 0);
    if (node->op == IPU_OP_ID_ALL_REDUCE &&
        ipu_attrs_int(node->attrs, IPU_ATTR_GROUP_SIZE, 0) == 0) {
        return false;
    }
    for (uint32_t i = 0; i < node->input_count; i++) {
        found |= w->values[node->inputs[i].index];
    }
    for (uint32_t i = 0; ipu_node_reads(node) && i < ipu_node_resource_count(node);
         i++) {
        found |= w->resources[ipu_node_resource(node, i)];
    }
    return found;
}

static void walk_block(walker *w, ipu_block id, bool is_steered);

static void
walk_blocks(walker *w, const ipu_node_data *node, bool is_steered)
{
    const ipu_block_op *row = ipu_block_op_of(node->op);
    for (uint32_t i = 0; i < row->first_entering; i++) {
        is_steered |= w->values[node->inputs[i].index];
    }
    if (row->has_condition) {
        const ipu_block_data *condition =
            ipu_block_of(w->graph, ipu_node_block(node, 0));
        is_steered |= w->values[condition->results.items[0].index];
    }
    for (uint32_t k = 0; k < ipu_node_block_count(node); k++) {
        ipu_block id = ipu_node_block(node, k);
        const ipu_block_data *block = ipu_block_of(w->graph, id);
        for (size_t i = 0; i < block->params.count; i++) {
            uint32_t entering = ipu_node_entering(node, (uint32_t)i);
            bool *param = &w->values[block->params.items[i].index];
            mark(w, param, w->values[node->inputs[entering].index]);
            if (row->runs == IPU_BLOCK_RUNS_MANY) { /* from the turn before */
                mark(w, param, w->values[ipu_node_output(node, (uint32_t)i).index]);
            }
        }
        walk_block(w, id, is_steered);
        for (size_t i = 0;
             ipu_node_block_gives_outputs(node, k) && i < block->results.count; i++) {
            mark(w, &w->values[ipu_node_output(node, (uint32_t)i).index],
                 is_steered || w->values[block->results.items[i].index]);
        }
    }
}

/* is_steered: replicas may go through the block differently often. */
static void
walk_block(walker *w, ipu_block id, bool is_steered)
{
    IPU_EACH_NODE(n, w->graph, id) {
        const ipu_node_data *node = ipu_node_of(w->graph, n);
        if (ipu_node_holds_blocks(node)) {
            walk_blocks(w, node, is_steered);
            continue;
        }
        bool found = is_steered || differs(w, node);
        for (uint32_t i = 0; i < node->output_count; i++) {
            mark(w, &w->values[ipu_node_output(node, i).index], found);
        }
        for (uint32_t i = 0; ipu_node_writes(node) && i < ipu_node_resource_count(node);
             i++) {
            mark(w, &w->resources[ipu_node_resource(node, i)], found);
        }
    }
}

ipu_status
ipu__differences_find(ipu_ctx *ctx, const ipu_graph *graph, ipu__differences *out)
{
    *out = (ipu__differences){.value_count = graph->values.count,
                              .resource_count = graph->resources.count};
    IPU_TRY(ipu_alloc(ctx, out->value_count * sizeof(bool), &out->values));
    ipu_status status =
        ipu_alloc(ctx, out->resource_count * sizeof(bool), &out->resources);
    if (status != IPU_OK) {
        ipu_free(ctx, out->values, out->value_count * sizeof(bool));
        return status;
    }
    walker w = {.graph = graph, .values = out->values, .resources = out->resources};
    do {
        w.has_changed = false;
        walk_block(&w, (ipu_block){0}, false);
    } while (w.has_changed);
    return IPU_OK;
}

void
ipu__differences_free(ipu_ctx *ctx, ipu__differences *differences)
{
    ipu_free(ctx, differences->values, differences->value_count * sizeof(bool));
    ipu_free(ctx, differences->resources, differences->resource_count * sizeof(bool));
}

bool
ipu__node_differs(const ipu__differences *differences, const ipu_node_data *node)
{
    bool found = false;
    for (uint32_t i = 0; i < node->output_count; i++) {
        found |= differences->values[ipu_node_output(node, i).index];
    }
    for (uint32_t i = 0; ipu_node_writes(node) && i < ipu_node_resource_count(node);
         i++) {
        found |= differences->resources[ipu_node_resource(node, i)];
    }
    return found;
}
