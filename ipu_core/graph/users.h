/* SPDX-License-Identifier: MIT
 *
 * Who uses what: one walk over all places that name a value, and the lists of users
 * that passes ask. */
#ifndef IPU_GRAPH_USERS_H
#define IPU_GRAPH_USERS_H

#include "graph/graph.h"

/* Sees a place that names a value: an operand of `user`, or a result of a block, where
 * `user` is IPU_NO_NODE. It may put another value there. */
typedef ipu_status ipu_use_fn(void *state, ipu_value *place, ipu_node user);

/* Every value that a node uses, or the nodes and the results of a block, in program
 * order; those of blocks inside included. */
ipu_status ipu_node_each_use(const ipu_graph *graph, ipu_node node, ipu_use_fn *fn,
                             void *state);
ipu_status ipu_block_each_use(const ipu_graph *graph, ipu_block block, ipu_use_fn *fn,
                              void *state);

/* The users of each value of a graph as it was when they were found. */
typedef struct ipu_uses {
    IPU_ARRAY(uint32_t) firsts; /* by value: its first user */
    IPU_ARRAY(uint32_t) counts; /* by value */
    IPU_ARRAY(ipu_node) users;  /* IPU_NO_NODE: a block, as its result */
} ipu_uses;

ipu_status ipu_uses_find(ipu_ctx *ctx, const ipu_graph *graph, ipu_uses *out);
void ipu_uses_free(ipu_ctx *ctx, ipu_uses *uses);
/* Values that are newer than the uses have no users. */
static inline uint32_t
ipu_uses_count(const ipu_uses *uses, ipu_value value)
{
    return value.index < uses->counts.count ? uses->counts.items[value.index] : 0;
}
/* As many users. A node is there once for each operand. */
static inline const ipu_node *
ipu_uses_of(const ipu_uses *uses, ipu_value value)
{
    return uses->users.items + uses->firsts.items[value.index];
}
/* From here on a new value has the users of an old one. */
ipu_status ipu_uses_hand_on(ipu_ctx *ctx, ipu_uses *uses, ipu_value from, ipu_value to);

#endif
