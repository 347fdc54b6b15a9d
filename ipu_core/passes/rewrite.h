/* SPDX-License-Identifier: MIT
 *
 * What the passes share: one forward walk over the nodes of every block, which replaces
 * values on the way. Nothing outside passes/ includes it. */
#ifndef IPU_PASSES_REWRITE_H
#define IPU_PASSES_REWRITE_H

#include "graph/graph.h"

typedef struct ipu__rewriter ipu__rewriter;

/* Sees one node, in program order, with its inputs already replaced. Nodes that it
 * emits go before this one. Sets *keep to false to take the node out. */
typedef ipu_status ipu__visit_fn(ipu__rewriter *rewriter, ipu_node node, bool *keep);
/* Before and after the nodes of a block that `owner` holds. */
typedef ipu_status ipu__border_fn(ipu__rewriter *rewriter, ipu_block block);

struct ipu__rewriter {
    ipu_ctx *ctx;
    ipu_graph *graph;
    ipu__visit_fn *visit;
    ipu__border_fn *enter;         /* may be NULL */
    ipu__border_fn *leave;         /* may be NULL */
    void *state;                   /* of the pass */
    ipu_node at;                   /* that is visited */
    ipu_status status;             /* of what was emitted */
    IPU_ARRAY(ipu_value) replaced; /* by value; past its end: not replaced */
};

/* Walks the whole graph. Releases what the rewriter holds, also after a failure, which
 * leaves a graph that can be freed and no more. */
ipu_status ipu__rewrite(ipu__rewriter *rewriter);
/* Moves the nodes of a block that has no parameters in front of `before`, the node that
 * the walk is at, visiting each. */
ipu_status ipu__inline(ipu__rewriter *rewriter, ipu_block from, ipu_node before);
/* An op of at most one output, or a scalar, in front of the node that is visited, and
 * like it. After the first failure they give IPU_NO_VALUE; the walk ends after the
 * visit. */
ipu_value ipu__emit(ipu__rewriter *rewriter, ipu_op op, const ipu_value *inputs,
                    uint32_t input_count, const ipu_attr *attrs, uint32_t attr_count);
ipu_value ipu__emit_number(ipu__rewriter *rewriter, ipu_dtype dtype, double number);
/* What stands for a value by now. */
ipu_value ipu__resolve(const ipu__rewriter *rewriter, ipu_value value);
/* From here on `by` stands wherever `value` is used. */
ipu_status ipu__replace(ipu__rewriter *rewriter, ipu_value value, ipu_value by);

/* Values that may differ between replicas (replica_variance.c). */
typedef struct ipu__differences {
    bool *values; /* by the indices that there were */
    bool *resources;
    size_t value_count;
    size_t resource_count;
} ipu__differences;

ipu_status ipu__differences_find(ipu_ctx *ctx, const ipu_graph *graph,
                                 ipu__differences *out);
void ipu__differences_free(ipu_ctx *ctx, ipu__differences *differences);
/* Whether what the node gives or writes is among it. */
bool ipu__node_differs(const ipu__differences *differences, const ipu_node_data *node);

#endif
