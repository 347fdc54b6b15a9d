/* SPDX-License-Identifier: MIT
 *
 * The steps of one node. The rules are the `ipu_steps_<cost>` of the column of ops.def
 * that also names the rule for arithmetic and bytes (graph/cost.h): a rule that is
 * missing is an undefined symbol. */
#ifndef IPU_MACHINE_NODE_STEPS_H
#define IPU_MACHINE_NODE_STEPS_H

#include "machine/products.h"

typedef struct ipu_steps_call {
    ipu_product_asker asker;
    ipu_op op;
    const ipu_cost_call *types; /* and attributes */
    const ipu_mapping *inputs;  /* of the operands, then of the outputs */
    ipu_mapping at; /* of the result, or of the variable that is written */
    ipu_account_step like;      /* whose node, executions and place all steps have */
    ipu_account *account;
    double temporary_bytes; /* of a tile; filled by the rule */
    ipu_status status;      /* of the first step that could not be added */
} ipu_steps_call;

typedef void ipu_steps_fn(ipu_steps_call *call);

#define IPU_OP(NAME, text, min_in, max_in, outputs, dtypes, shape, cost, flags) \
    ipu_steps_fn ipu_steps_##cost;
#include "ops.def"
#undef IPU_OP

ipu_status ipu_steps_add(ipu_steps_call *call);
/* Of a value that lies elsewhere than it is wanted: it is sent, unless it `is_there` in
 * another order, and copied into its order. */
void ipu_steps_lay_out(ipu_steps_call *call, const char *part, const ipu_type *type,
                       const ipu_mapping *from, const ipu_mapping *to, bool is_there);

#endif
