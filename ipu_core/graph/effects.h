/* SPDX-License-Identifier: MIT
 *
 * Reads and writes of nodes: the variables and queues that a node names by itself, and
 * what the blocks that it holds write together. */
#ifndef IPU_GRAPH_EFFECTS_H
#define IPU_GRAPH_EFFECTS_H

#include "graph/graph.h"

/* The resources that a node names: the one of its attribute RESOURCE, then its SLOTS.
 * It reads all of them if its op is flagged READS, and writes all if WRITES. */
uint32_t ipu_node_resource_count(const ipu_node_data *node);
uint32_t ipu_node_resource(const ipu_node_data *node, uint32_t i);

static inline bool
ipu_node_reads(const ipu_node_data *node)
{
    return (ipu_node_flags(node) & IPU_OP_READS) != 0;
}
static inline bool
ipu_node_writes(const ipu_node_data *node)
{
    return (ipu_node_flags(node) & IPU_OP_WRITES) != 0;
}

/* The resources that are written in each block, blocks inside included. Adding,
 * removing and moving nodes does not update it. */
typedef struct ipu_effects {
    IPU_ARRAY(uint32_t) resources; /* of one block after those of another, ascending */
    IPU_ARRAY(uint32_t) ends; /* two for each block: its first one, past its last */
} ipu_effects;

ipu_status ipu_effects_find(ipu_ctx *ctx, const ipu_graph *graph, ipu_effects *out);
void ipu_effects_free(ipu_ctx *ctx, ipu_effects *effects);

/* The resources that a block writes; *out_count entries. */
const uint32_t *ipu_effects_of(const ipu_effects *effects, ipu_block block,
                               uint32_t *out_count);
/* Whether the node, or a block that it holds, writes any. */
bool ipu_effects_node_has(const ipu_effects *effects, const ipu_node_data *node);

#endif
