/* SPDX-License-Identifier: MIT
 *
 * Which product a node is, as the planner sees it, and how its operands and its result
 * are laid out for its plan. */
#ifndef IPU_MACHINE_PRODUCTS_H
#define IPU_MACHINE_PRODUCTS_H

#include "graph/cost.h"
#include "machine/account.h"

/* The request for a plan. */
typedef struct ipu_product_asker {
    ipu_ctx *ctx;
    const ipu_chip *chip;
    const ipu_account_options *options;
    ipu_plans *plans;
} ipu_product_asker;

typedef enum ipu_product_role {
    IPU_PRODUCT_INPUTS,
    IPU_PRODUCT_WEIGHTS,
    IPU_PRODUCT_RESULT
} ipu_product_role;

/* Of [rows, inner] and [inner, columns], so many times. */
ipu_product ipu_product_of_matrices(double batch, double rows, double inner,
                                    double columns);
/* The operand of a product that counts as its inputs, the next one are its weights;
 * -1: the op is not a product. */
int32_t ipu_product_first(ipu_op op);
/* All but its precision. An empty one has sizes that ipu_product_check refuses. */
ipu_product ipu_product_of_node(ipu_op op, const ipu_cost_call *types);
/* Completes it by the type of its operands. Whether it can be planned. */
bool ipu_product_complete(const ipu_product_asker *asker, ipu_op op,
                          const ipu_type *type, ipu_product *product);
ipu_product_plan ipu_product_ask(const ipu_product_asker *asker, ipu_op op,
                                 const ipu_product *product);

/* How a value that is this in the product lies on the tiles: in the order of its plan,
 * from a tile of its own on, over as many as the value needs. A `flipped` value has its
 * last two axes exchanged there. */
ipu_mapping ipu_product_mapping(const ipu_chip *chip, const ipu_product *product,
                                ipu_product_role role, bool flipped,
                                const ipu_type *type);

#endif
