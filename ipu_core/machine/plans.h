/* SPDX-License-Identifier: MIT
 *
 * Plans that were made, so that equal products are planned once. Any number of threads
 * may ask at the same time. */
#ifndef IPU_MACHINE_PLANS_H
#define IPU_MACHINE_PLANS_H

#include "machine/planner.h"

typedef struct ipu_plans ipu_plans;

/* Free with ipu_plans_free. */
ipu_status ipu_plans_create(ipu_ctx *ctx, ipu_plans **out);
void ipu_plans_free(ipu_ctx *ctx, ipu_plans *plans);
/* ipu_product_plan_of, or what it gave before. */
ipu_product_plan ipu_plans_ask(ipu_plans *plans, const ipu_chip *chip,
                               const ipu_product *product, double memory_share);

#endif
