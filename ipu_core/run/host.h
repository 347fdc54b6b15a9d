/* SPDX-License-Identifier: MIT
 *
 * A function of the host's that programs call in their middle, on the thread that runs
 * the program. Whoever adds it to a device keeps it until it is removed there. */
#ifndef IPU_RUN_HOST_H
#define IPU_RUN_HOST_H

#include "base/ctx.h"
#include "base/shape.h"

typedef struct ipu_host_function {
    /* Reads the operands and writes every result whole. */
    ipu_status (*call)(ipu_ctx *ctx, void *state, const void *const *inputs,
                       void *const *outputs);
    void *state;
    const ipu_type *types; /* of the operands, then of the results */
    uint32_t type_count;
} ipu_host_function;

#endif
