/* SPDX-License-Identifier: MIT
 *
 * Takes out the nodes that no effect and no result needs. In: any graph. Out: what is
 * left, in the same order. One walk from the last node to the first: a node stays if it
 * writes a resource, holds a block that does, or makes a value that is needed; then its
 * inputs are needed, and all that its blocks need. One thread per graph. */
#include "passes/passes.h"
#include "passes/rewrite.h"

typedef struct pruner {
    ipu_ctx *ctx;
    ipu_graph *graph;
    bool *needed; /* by value */
} pruner;

static bool
has_effect(const ipu_graph *graph, const ipu_node_data *node)
{
    uint32_t flags = ipu__flags(node);
    if ((flags & IPU_OP_WRITES) != 0) {
        return true;
    }
    for (uint32_t b = 0; b < ipu_node_block_count(node); b++) {
        const ipu_block_data *held = ipu_block_of(graph, ipu_node_block(node, b));
        for (size_t i = 0; i < held->nodes.count; i++) {
            if (has_effect(graph, ipu_node_of(graph, held->nodes.items[i]))) {
                return true;
            }
        }
    }
    return false;
}

static void
prune_block(pruner *p, ipu_block id)
{
    ipu_block_data *block = ipu_block_of(p->graph, id);
    for (size_t i = 0; i < block->results.count; i++) {
        p->needed[block->results.items[i].index] = true;
    }
    size_t kept = block->nodes.count;
    for (size_t i = block->nodes.count; i-- > 0;) {
        ipu_node node_id = block->nodes.items[i];
        const ipu_node_data *node = ipu_node_of(p->graph, node_id);
        bool stays = has_effect(p->graph, node);
        for (uint32_t k = 0; k < node->output_count; k++) {
            stays |= p->needed[node->first_output + k];
        }
        if (!stays) {
            continue;
        }
        for (uint32_t k = 0; k < node->input_count; k++) {
            p->needed[node->inputs[k].index] = true;
        }
        for (uint32_t k = ipu_node_block_count(node); k-- > 0;) {
            prune_block(p, ipu_node_block(node, k));
        }
        block->nodes.items[--kept] = node_id;
    }
    size_t count = block->nodes.count - kept;
    for (size_t i = 0; i < count; i++) {
        block->nodes.items[i] = block->nodes.items[kept + i];
    }
    block->nodes.count = count;
}

ipu_status
ipu_pass_prune(ipu_ctx *ctx, ipu_graph *graph)
{
    pruner p = {.ctx = ctx, .graph = graph};
    size_t bytes = graph->values.count * sizeof(bool);
    IPU_TRY(ipu_alloc(ctx, bytes, &p.needed));
    prune_block(&p, (ipu_block){0});
    ipu_free(ctx, p.needed, bytes);
    return IPU_OK;
}
