/* SPDX-License-Identifier: MIT
 *
 * What replicas get where they meet: one call for all of them. */
#ifndef IPU_KERNELS_COLLECTIVE_H
#define IPU_KERNELS_COLLECTIVE_H

#include "kernels/core/kernel.h"

typedef struct ipu_collective_call {
    const ipu_kernel_spec *spec; /* of an op flagged COLLECTIVE */
    uint32_t replicas;
    const void *const *inputs; /* input 0 of each replica */
    void *const *outputs;      /* output 0 of each; may be its input */
    ipu_pool *pool;
} ipu_collective_call;

/* Whether so many replicas can meet at this op. */
ipu_status ipu_collective_check(ipu_ctx *ctx, const ipu_kernel_spec *spec,
                                uint32_t replicas);
/* Allocates nothing. Terms are added in the order of the replicas' numbers, float16 in
 * float32, and rounded once, so the result is the same for all and on any number of
 * threads. */
void ipu_collective_run(const ipu_collective_call *call);

#endif
