/* SPDX-License-Identifier: MIT
 *
 * Copying parts of a graph, into another one or into the same: a set of nodes, each
 * with the blocks that it holds, and a map from the values that were there to their
 * copies.
 *
 *     ipu_copy copy = {.ctx = ctx, .from = from, .to = to};
 *     IPU_TRY(ipu_copy_say(&copy, parameter, value));
 *     for each node, in program order: IPU_TRY(ipu_copy_node(&copy, node, block));
 *     ipu_value result = ipu_copy_of(&copy, value);
 *     ipu_copy_free(&copy);
 */
#ifndef IPU_GRAPH_COPY_H
#define IPU_GRAPH_COPY_H

#include "graph/graph.h"

typedef struct ipu_copy {
    ipu_ctx *ctx;
    const ipu_graph *from;
    ipu_graph *to;
    ipu_id_map values;
    ipu_id_map held;
} ipu_copy;

/* From here on `copy` stands for `value`. */
ipu_status ipu_copy_say(ipu_copy *copy, ipu_value value, ipu_value stands);
/* The value's copy; IPU_NO_VALUE: there is none. */
ipu_value ipu_copy_of(const ipu_copy *copy, ipu_value value);
/* Copies a node into block `into`, at its cursor. Something has to stand for all that
 * the node and its blocks use from outside; within one graph, values stand for
 * themselves. Names, attributes and resources are copied too, source files are not. */
ipu_status ipu_copy_node(ipu_copy *copy, ipu_node node, ipu_block into);
void ipu_copy_free(ipu_copy *copy);

#endif
