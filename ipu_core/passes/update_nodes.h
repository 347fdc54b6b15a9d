/* SPDX-License-Identifier: MIT
 *
 * Taking an update apart, in front of the node that is visited. Nothing outside passes/
 * includes it. */
#ifndef IPU_PASSES_UPDATE_NODES_H
#define IPU_PASSES_UPDATE_NODES_H

#include "graph/effects.h"
#include "passes/rewrite.h"

typedef struct ipu__update_nodes ipu__update_nodes;
struct ipu__update_nodes {
    ipu__rewriter *rewriter;
    const ipu_node_data *node; /* a copy: what is emitted moves the graph's */
    ipu_dtype dtype;           /* of the arithmetic */
    /* What the node's variable i holds, of that dtype, and what it is to hold. */
    ipu_value (*read)(const ipu__update_nodes *nodes, uint32_t i);
    void (*assign)(const ipu__update_nodes *nodes, uint32_t i, ipu_value x);
    void *state;
};

/* `gradient`: input 0 of the update, of that dtype; of variable_add what is added. */
ipu_status ipu__update_emit(ipu__update_nodes *nodes, ipu_value gradient);
/* The value, cast where it is of another dtype. */
ipu_value ipu__emit_as(ipu__rewriter *rewriter, ipu_value value, ipu_dtype dtype);
static inline ipu_attr
ipu__variable_attr(const ipu_node_data *node, uint32_t i)
{
    return ipu_attr_int(IPU_ATTR_RESOURCE, ipu_node_resource(node, i));
}

#endif
