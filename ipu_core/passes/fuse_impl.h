/* SPDX-License-Identifier: MIT
 *
 * What the files of the pass `fuse` share: fuse.c counts uses and runs the parts,
 * fuse_products.c finishes products and gradients, fuse_updates.c joins updates of
 * variables, fuse_trees.c makes one node of a tree of element-wise ones. Nothing else
 * includes it. */
#ifndef IPU_PASSES_FUSE_IMPL_H
#define IPU_PASSES_FUSE_IMPL_H

#include "graph/failures.h"
#include "graph/users.h"
#include "passes/rewrite.h"

typedef struct ipu__node_note {
    uint32_t segment; /* between writes, reads of the infeed and beginnings of blocks */
    uint32_t stretch; /* the same, but for writes */
    uint32_t order;   /* the same, cut by what can fail, or is seen outside, as well */
    uint32_t position; /* in program order, over all blocks */
    ipu_node root;     /* the tree that it is part of */
    ipu_node next;     /* an earlier node of that tree */
} ipu__node_note;

typedef struct ipu__fuser {
    ipu_ctx *ctx;
    ipu_graph *graph;
    ipu_uses uses;
    IPU_ARRAY(ipu__node_note) notes; /* by node */
    uint32_t segment;
    uint32_t stretch;
    uint32_t order;
    uint32_t position;
    ipu_failures failures;
    IPU_ARRAY(uint32_t) tree_uses; /* by value, in the tree that is being grown */
} ipu__fuser;

/* Whether `first` would still fail in front of, and after, what it does now if it were
 * computed where `last` is. */
bool ipu__fuse_keeps_order(const ipu__fuser *f, ipu_node first, ipu_node last);
/* Whether `first` may be computed where `last` is, a later node of the same block. */
bool ipu__fuse_may_join(const ipu__fuser *f, ipu_node first, ipu_node last);
/* Visits a node that may finish a product: the state of the rewriter is the fuser. */
ipu__visit_fn ipu__fuse_visit_product;
/* Joins updates of variables; takes no notes. */
ipu_status ipu__fuse_updates(ipu_ctx *ctx, ipu_graph *graph);
/* Whether a node can fail by itself, and so must not be moved past a write. None that
 * this pass has made so far can. */
static inline bool
ipu__fuse_fails(const ipu__fuser *f, ipu_node node)
{
    return node.index < f->failures.items.count &&
           ipu_failures_of(&f->failures, node) == IPU_FAILS_FIRST;
}
/* Says in the notes which tree each element-wise node is part of. */
void ipu__fuse_plan_trees(ipu__fuser *f);
/* Makes the trees that were planned: the state of the rewriter is the fuser. */
ipu__visit_fn ipu__fuse_visit_tree;

#endif
