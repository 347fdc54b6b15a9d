/* SPDX-License-Identifier: MIT
 *
 * Which collectives go together: sums over the same replicas, up to so many bytes. */
#ifndef IPU_GRAPH_BUCKET_H
#define IPU_GRAPH_BUCKET_H

#include "graph/block_op.h"

enum { IPU_USUAL_BUCKET_BYTES = 4 << 20 };

static inline bool
ipu_bucket_has_room(const ipu_graph *graph, size_t bytes, size_t more)
{
    size_t most =
        graph->bucket_bytes == 0 ? IPU_USUAL_BUCKET_BYTES : graph->bucket_bytes;
    return more <= most && bytes <= most - more;
}

/* Whether what a node makes lies in memory that the program alone gets at. */
static inline bool
ipu_bucket_takes(const ipu_node_data *maker)
{
    return (ipu_node_flags(maker) & IPU_OP_KERNEL) != 0 || ipu_node_holds_blocks(maker);
}

/* Whether one may be in the bucket of another. */
static inline bool
ipu_bucket_joins(const ipu_node_data *one, const ipu_node_data *other)
{
    return one->op == IPU_OP_ID_ALL_REDUCE && other->op == IPU_OP_ID_ALL_REDUCE &&
           ipu_placement_equal(one->placement, other->placement) &&
           ipu_attrs_int(one->attrs, IPU_ATTR_GROUP_SIZE, 0) ==
               ipu_attrs_int(other->attrs, IPU_ATTR_GROUP_SIZE, 0) &&
           ipu_attrs_int(one->attrs, IPU_ATTR_REDUCTION, 0) ==
               ipu_attrs_int(other->attrs, IPU_ATTR_REDUCTION, 0);
}

#endif
