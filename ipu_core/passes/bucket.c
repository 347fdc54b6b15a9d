/* SPDX-License-Identifier: MIT
 *
 * Moves the sums over replicas of a block, such as those of gradients, to where their
 * operands are ready, so that they are under way while the rest of the backward pass
 * runs. In: any graph. Out: the same one, in which sums that are ready one after the
 * other stand together, in buckets of at most so many bytes: lowering posts a bucket at
 * once and waits where a sum of it is used first.
 *
 * A bucket stands after the last of its operands and in front of the first user of any
 * of its sums; so no value moves past one that it needs. Replicas add
 * up the same numbers in the same order: no bucket changes a bit. One thread per
 * graph. */
#include <stdlib.h>

#include "graph/bucket.h"
#include "graph/users.h"
#include "passes/passes.h"

typedef struct sum {
    ipu_node node;
    int64_t ready; /* the position of the node that makes its operand */
    int64_t used;  /* that of the first user */
    size_t bytes;
} sum;

typedef struct gatherer {
    ipu_ctx *ctx;
    ipu_graph *graph;
    ipu_uses uses;
    int64_t *positions;  /* by node, in its block */
    IPU_ARRAY(sum) sums; /* of a block */
} gatherer;

/* The position of the node of `block` that a user is, or that holds it. */
static int64_t
position_in(const gatherer *g, ipu_node user, ipu_block block)
{
    if (!ipu_is_node(user)) {
        return INT64_MAX; /* a result of a block */
    }
    const ipu_node_data *node = ipu_node_of(g->graph, user);
    while (node->block.index != block.index) {
        user = ipu_block_of(g->graph, node->block)->owner;
        node = ipu_node_of(g->graph, user);
    }
    return g->positions[user.index];
}

static ipu_status
add_sum(gatherer *g, ipu_node id, ipu_block block)
{
    const ipu_node_data *node = ipu_node_of(g->graph, id);
    const ipu_value_data *operand = ipu_value_of(g->graph, node->inputs[0]);
    ipu_value result = ipu_node_output(node, 0);
    const ipu_node_data *maker = ipu_producer_of(g->graph, node->inputs[0]);
    if (maker == NULL || operand->block.index != block.index ||
        !ipu_bucket_takes(maker) || maker->op == IPU_OP_ID_ALL_REDUCE) {
        return IPU_OK;
    }
    sum added = {.node = id,
                 .ready = g->positions[operand->producer.index],
                 .used = INT64_MAX,
                 .bytes = ipu_type_bytes(&operand->type)};
    const ipu_node *users = ipu_uses_of(&g->uses, result);
    for (uint32_t i = 0; i < ipu_uses_count(&g->uses, result); i++) {
        int64_t used = position_in(g, users[i], block);
        added.used = used < added.used ? used : added.used;
    }
    return IPU_ARRAY_PUSH(g->ctx, &g->sums, added);
}

/* By when they are ready, then in the order that they had. */
static int
compare(const void *a, const void *b)
{
    const sum *one = a;
    const sum *other = b;
    if (one->ready != other->ready) {
        return one->ready < other->ready ? -1 : 1;
    }
    return (one->node.index > other->node.index) -
           (one->node.index < other->node.index);
}

/* How many sums from `first` on are one bucket. */
static size_t
bucket_from(const gatherer *g, size_t first)
{
    const sum *sums = g->sums.items;
    size_t bytes = sums[first].bytes;
    int64_t used = sums[first].used;
    size_t end = first + 1;
    while (end < g->sums.count && sums[end].ready < used &&
           ipu_bucket_joins(ipu_node_of(g->graph, sums[first].node),
                            ipu_node_of(g->graph, sums[end].node)) &&
           ipu_bucket_has_room(g->graph, bytes, sums[end].bytes)) {
        bytes += sums[end].bytes;
        used = sums[end].used < used ? sums[end].used : used;
        end++;
    }
    return end - first;
}

/* Puts the sums of a bucket after `after`, in their order; returns the last one. */
static ipu_node
place_bucket(const gatherer *g, size_t first, size_t count, ipu_node after)
{
    for (size_t i = first; i < first + count; i++) {
        ipu_node own = g->sums.items[i].node;
        ipu_node before = ipu_node_next(g->graph, after);
        if (before.index != own.index) {
            ipu_graph_move(g->graph, own, ipu_node_of(g->graph, own)->block, before);
        }
        after = own;
    }
    return after;
}

static ipu_status
gather_block(gatherer *g, ipu_block block)
{
    int64_t position = 0;
    IPU_EACH_NODE(id, g->graph, block) {
        const ipu_node_data *node = ipu_node_of(g->graph, id);
        g->positions[id.index] = position++;
        for (uint32_t k = 0; k < ipu_node_block_count(node); k++) {
            IPU_TRY(gather_block(g, ipu_node_block(node, k)));
        }
    }
    g->sums.count = 0;
    IPU_EACH_NODE(id, g->graph, block) {
        if (ipu_node_of(g->graph, id)->op == IPU_OP_ID_ALL_REDUCE) {
            IPU_TRY(add_sum(g, id, block));
        }
    }
    if (g->sums.count > 0) {
        qsort(g->sums.items, g->sums.count, sizeof(sum), compare);
    }
    ipu_node placed = IPU_NO_NODE;
    int64_t ready = -1; /* of the sum that was placed last */
    for (size_t first = 0, count; first < g->sums.count; first += count) {
        count = bucket_from(g, first);
        const sum *last = &g->sums.items[first + count - 1];
        ipu_value operand = ipu_node_of(g->graph, last->node)->inputs[0];
        ipu_node after =
            last->ready == ready ? placed : ipu_value_of(g->graph, operand)->producer;
        placed = place_bucket(g, first, count, after);
        ready = last->ready;
    }
    return IPU_OK;
}

ipu_status
ipu_pass_bucket(ipu_ctx *ctx, ipu_graph *graph)
{
    size_t nodes = graph->nodes.count;
    gatherer g = {.ctx = ctx, .graph = graph};
    bool has_sums = false;
    for (size_t i = 0; i < nodes && !has_sums; i++) {
        has_sums = graph->nodes.items[i].op == IPU_OP_ID_ALL_REDUCE;
    }
    if (!has_sums) {
        return IPU_OK;
    }
    IPU_TRY(ipu_alloc(ctx, nodes * sizeof(int64_t), &g.positions));
    ipu_status status = ipu_uses_find(ctx, graph, &g.uses);
    if (status == IPU_OK) {
        status = gather_block(&g, (ipu_block){0});
    }
    ipu_uses_free(ctx, &g.uses);
    IPU_ARRAY_FREE(ctx, &g.sums);
    ipu_free(ctx, g.positions, nodes * sizeof(int64_t));
    return status;
}
