/* SPDX-License-Identifier: MIT
 *
 * The ops that hold blocks, and how operands, block parameters and results correspond:
 * the `ipu_block_op_<text>` column of ops.def. Code that walks over nodes asks here,
 * not which op it is.
 *
 *     operands   those before `first_entering` steer the node (a trip count, the number
 *                of a branch); of the others number i enters each block as parameter i
 *     results    result i of a block is output i of the node; where blocks run many
 *                times also parameter i of the next turn. The result of a condition is
 *                neither: it says whether there is a next turn */
#ifndef IPU_GRAPH_BLOCK_OP_H
#define IPU_GRAPH_BLOCK_OP_H

#include "graph/graph.h"

typedef enum ipu_block_runs {
    IPU_BLOCK_RUNS_MANY,  /* from 0 times on: a loop */
    IPU_BLOCK_RUNS_ONE_OF /* one of the blocks, once */
} ipu_block_runs;

typedef struct ipu_block_op {
    ipu_block_runs runs;
    uint32_t first_entering;
    bool has_condition; /* block 0 is one */
} ipu_block_op;

#define IPU_OP(NAME, text, min_in, max_in, outputs, dtypes, shape, cost, flags) \
    extern const ipu_block_op ipu_block_op_##text;
#include "ops.def"
#undef IPU_OP

/* NULL: the op holds no blocks. */
const ipu_block_op *ipu_block_op_of(ipu_op op);

static inline bool
ipu_node_holds_blocks(const ipu_node_data *node)
{
    return (ipu_node_flags(node) & IPU_OP_BLOCK) != 0;
}
static inline bool
ipu_node_is_loop(const ipu_node_data *node)
{
    const ipu_block_op *row = ipu_block_op_of(node->op);
    return row != NULL && row->runs == IPU_BLOCK_RUNS_MANY;
}
/* Of a node that holds blocks: the operand that enters them as parameter i. */
static inline uint32_t
ipu_node_entering(const ipu_node_data *node, uint32_t i)
{
    return ipu_block_op_of(node->op)->first_entering + i;
}
/* How many operands enter its blocks. */
static inline uint32_t
ipu_node_entering_count(const ipu_node_data *node)
{
    return node->input_count - ipu_block_op_of(node->op)->first_entering;
}
/* Whether the results of block number k are outputs of the node. */
static inline bool
ipu_node_block_gives_outputs(const ipu_node_data *node, uint32_t k)
{
    return k > 0 || !ipu_block_op_of(node->op)->has_condition;
}
/* The body of a loop. */
static inline ipu_block
ipu_node_body(const ipu_node_data *node)
{
    return ipu_node_block(node, ipu_node_block_count(node) - 1);
}

#endif
