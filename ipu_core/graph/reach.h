/* SPDX-License-Identifier: MIT
 *
 * Which nodes a function of TensorFlow 1 runs: those that its results, and what runs
 * after others, lead to. */
#ifndef IPU_GRAPH_REACH_H
#define IPU_GRAPH_REACH_H

#include "graph/graph.h"

typedef enum ipu_reach_from {
    IPU_REACH_START,  /* from nothing: `target` is reached */
    IPU_REACH_NODES,  /* from any of the nodes from `first` to before `end` */
    IPU_REACH_HOLDER, /* from the node that holds block `first` */
    IPU_REACH_FROM_COUNT
} ipu_reach_from;

/* Where that is reached, the nodes from `target` to before `target_end` are, too. */
typedef struct ipu_reach {
    ipu_reach_from from;
    uint32_t first;
    uint32_t end;
    uint32_t target;
    uint32_t target_end;
} ipu_reach;

/* Takes out the nodes from `first` on, blocks inside of `block` included, that none of
 * the rules reaches. A node leads to those that make its inputs, to the node around it,
 * and to what the blocks that it holds give. */
ipu_status ipu_graph_drop_unreached(ipu_ctx *ctx, ipu_graph *graph, ipu_block block,
                                    uint32_t first, const ipu_reach *rules,
                                    uint32_t rule_count);

#endif
