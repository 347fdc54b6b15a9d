/* SPDX-License-Identifier: MIT
 *
 * Graph to graph, in place. Each pass says what it needs and leaves; ipu_passes_run
 * verifies the graph after each when `verify` is set (always in tests). A pass removes
 * a node by taking it out of its block's list; dead nodes and values keep their ids. */
#ifndef IPU_PASSES_PASSES_H
#define IPU_PASSES_PASSES_H

#include "graph/graph.h"

typedef ipu_status ipu_pass_fn(ipu_ctx *ctx, ipu_graph *graph);

/* X(name, what it does), in the order in which they run by default */
#define IPU_PASS_LIST(X) \
    X(canonicalise, "one spelling for each computation; identities removed") \
    X(fold, "nodes of constants alone become constants") \
    X(round, "float16 results that are rounded stochastically: out of float32") \
    X(merge, "equal nodes without effects become one") \
    X(prune, "nodes that no effect or result needs go") \
    X(parts, "what replicas share out is kept and updated in parts") \
    X(attend, "attention in single ops becomes one op each way") \
    X(recompute, "what pipelines do not keep is made a second time") \
    X(fuse, "products with bias and activation; element-wise chains") \
    X(bucket, "sums over replicas begin where their operands are ready")

#define X(name, text) ipu_pass_fn ipu_pass_##name;
IPU_PASS_LIST(X)
#undef X

/* Sees the graph as it stands before it is fused for the CPU. */
typedef ipu_status ipu_reader_fn(void *state, ipu_ctx *ctx, const ipu_graph *graph);

typedef struct ipu_passes_options {
    bool verify;
    bool fuse;           /* false: leave the graph unfused (same bits, for tests) */
    ipu_reader_fn *read; /* NULL: nobody does */
    void *reader;
} ipu_passes_options;

ipu_status ipu_passes_run(ipu_ctx *ctx, ipu_graph *graph,
                          const ipu_passes_options *options);
/* One pass by name, NOT_FOUND where there is none. */
ipu_status ipu_pass_run_named(ipu_ctx *ctx, ipu_graph *graph, const char *name);

#endif
