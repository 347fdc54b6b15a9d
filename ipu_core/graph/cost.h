/* SPDX-License-Identifier: MIT
 *
 * The cost of nodes: the arithmetic that is asked for and the bytes that it reads and
 * writes, not what a kernel happens to do. The `ipu_cost_<cost>` column of ops.def: a
 * rule that is missing is an undefined symbol. */
#ifndef IPU_GRAPH_COST_H
#define IPU_GRAPH_COST_H

#include "graph/graph.h"

/* Of one execution. */
typedef struct ipu_cost {
    double flops; /* floating-point or integer operations; a multiply-add counts as 2 */
    double bytes; /* read and written, variables included */
} ipu_cost;

typedef struct ipu_cost_call {
    ipu_attrs attrs;
    const ipu_type *inputs;
    uint32_t input_count;
    const ipu_type *outputs; /* of ops that write variables: these and their slots */
    uint32_t output_count;
} ipu_cost_call;

typedef ipu_cost ipu_cost_fn(const ipu_cost_call *call);

#define IPU_OP(NAME, text, min_in, max_in, outputs, dtypes, shape, cost, flags) \
    ipu_cost_fn ipu_cost_##cost;
#include "ops.def"
#undef IPU_OP

/* Views, and nodes that hold blocks, cost nothing by themselves. */
ipu_cost ipu_cost_of(ipu_op op, const ipu_cost_call *call);

#endif
