/* SPDX-License-Identifier: MIT
 *
 * Fewer, larger nodes. In: a pruned graph. Out: a graph of the same bits. The parts run
 * one after the other: products take up what follows them (fuse_products.c), updates
 * join (fuse_updates.c), element-wise nodes become trees (fuse_trees.c). They make
 *
 *   fused_matmul            matmul, + a bias of the last axis, then relu, tanh or
 *                           sigmoid (the last two may each be missing, not both)
 *   fused_conv              conv, then up to four of: + a bias of the last axis, * a
 *                           factor of it, + a tensor of the result's shape; then relu,
 *                           tanh or sigmoid
 *   fused_conv_grad_input   conv_grad_input, then relu_grad
 *   matmul_sgd_update       matmul as the gradient of sgd_update
 *   matmul_accumulate       matmul added to what a loop carries
 *   gather_sgd_update       gather_grad as the gradient of sgd_update: no zeros are
 *                           made, and rows that no index names cost nothing
 *   fused_update            updates of variables, with what they alone need
 *   fused_elementwise       a tree of element-wise nodes of one shape as a
 *                           micro-program (base/op.h); a value goes into it if nothing
 *                           outside the tree uses it
 *
 * The fused node stands where the last of its nodes stood. In between there may be no
 * write of a variable and no read of the infeed, since the memory planner lets values
 * alias both until then; so a block is cut into segments by such nodes, and what is
 * fused lies in one segment. A node that can fail (graph/failures.h) is not moved past
 * one that can fail or enqueues, either. Values that the gradient needs have a use of
 * their own, hence stay. One thread per graph. */
#include "passes/fuse_impl.h"
#include "passes/passes.h"

static bool
writes(const ipu_node_data *node)
{
    return (ipu_node_flags(node) & IPU_OP_WRITES) != 0;
}

/* Whether a node is in an order with what can fail. */
static bool
is_ordered(const ipu__fuser *f, ipu_node id)
{
    return ipu__fuse_fails(f, id) || writes(ipu_node_of(f->graph, id));
}

/* A block begins a segment and a stretch, in which lies what follows it, too: that uses
 * nothing of the block's. */
static void
note_block(ipu__fuser *f, ipu_block id)
{
    f->segment++;
    f->stretch++;
    IPU_EACH_NODE(node_id, f->graph, id) {
        const ipu_node_data *node = ipu_node_of(f->graph, node_id);
        for (uint32_t k = 0; k < ipu_node_block_count(node); k++) {
            note_block(f, ipu_node_block(node, k));
        }
        f->segment += writes(node) && node->op != IPU_OP_ID_OUTFEED_ENQUEUE;
        f->order += is_ordered(f, node_id);
        f->stretch += node->op == IPU_OP_ID_INFEED_DEQUEUE;
        f->notes.items[node_id.index] = (ipu__node_note){.segment = f->segment,
                                                         .stretch = f->stretch,
                                                         .order = f->order,
                                                         .position = f->position++,
                                                         .root = IPU_NO_NODE,
                                                         .next = IPU_NO_NODE};
    }
}

/* Counts afresh: the graph has changed. */
static ipu_status
take_notes(ipu__fuser *f)
{
    IPU_TRY(IPU_ARRAY_EXTEND(f->ctx, &f->tree_uses, f->graph->values.count, NULL));
    IPU_TRY(IPU_ARRAY_EXTEND(f->ctx, &f->notes, f->graph->nodes.count, NULL));
    IPU_TRY(ipu_uses_find(f->ctx, f->graph, &f->uses));
    IPU_TRY(ipu_failures_find(f->ctx, f->graph, &f->failures));
    note_block(f, (ipu_block){0});
    return IPU_OK;
}

bool
ipu__fuse_keeps_order(const ipu__fuser *f, ipu_node first, ipu_node last)
{
    return !ipu__fuse_fails(f, first) ||
           f->notes.items[first.index].order + is_ordered(f, last) ==
               f->notes.items[last.index].order;
}

bool
ipu__fuse_may_join(const ipu__fuser *f, ipu_node first, ipu_node last)
{
    const ipu_node_data *a = ipu_node_of(f->graph, first);
    const ipu_node_data *b = ipu_node_of(f->graph, last);
    return ipu__fuse_keeps_order(f, first, last) &&
           f->notes.items[first.index].segment == f->notes.items[last.index].segment &&
           ipu_placement_equal(a->placement, b->placement);
}

static ipu_status
fuse(ipu__fuser *f)
{
    ipu__rewriter products = {
        .ctx = f->ctx, .graph = f->graph, .visit = ipu__fuse_visit_product, .state = f};
    ipu__rewriter trees = products;
    trees.visit = ipu__fuse_visit_tree;
    IPU_TRY(take_notes(f));
    IPU_TRY(ipu__rewrite(&products));
    IPU_TRY(ipu_pass_prune(f->ctx, f->graph));
    IPU_TRY(ipu__fuse_updates(f->ctx, f->graph));
    IPU_TRY(
        ipu_pass_prune(f->ctx, f->graph)); /* reads that the updates do themselves */
    IPU_TRY(take_notes(f));
    ipu__fuse_plan_trees(f);
    return ipu__rewrite(&trees);
}

ipu_status
ipu_pass_fuse(ipu_ctx *ctx, ipu_graph *graph)
{
    ipu__fuser f = {.ctx = ctx, .graph = graph};
    ipu_status status = fuse(&f);
    ipu_failures_free(ctx, &f.failures);
    ipu_uses_free(ctx, &f.uses);
    IPU_ARRAY_FREE(ctx, &f.tree_uses);
    IPU_ARRAY_FREE(ctx, &f.notes);
    return status;
}
