/* SPDX-License-Identifier: MIT
 *
 * Which nodes can fail when they run. A pass that moves nodes asks it: in front of one
 * that fails all is written that comes before it in the program, and nothing after
 * it. */
#ifndef IPU_GRAPH_FAILURES_H
#define IPU_GRAPH_FAILURES_H

#include "graph/graph.h"

typedef enum ipu_failure {
    IPU_FAILS_NEVER,
    /* only where a node in front of it has failed: it takes rows by indices that were
     * looked at before, such as the gradient of a gather */
    IPU_FAILS_AFTER,
    IPU_FAILS_FIRST
} ipu_failure;

/* By node. Adding and moving nodes does not update it. */
typedef struct ipu_failures {
    IPU_ARRAY(unsigned char) items;
} ipu_failures;

/* A node that holds blocks can fail if one of their nodes can. */
ipu_status ipu_failures_find(ipu_ctx *ctx, const ipu_graph *graph, ipu_failures *out);
void ipu_failures_free(ipu_ctx *ctx, ipu_failures *failures);

static inline ipu_failure
ipu_failures_of(const ipu_failures *failures, ipu_node node)
{
    return (ipu_failure)failures->items.items[node.index];
}

#endif
