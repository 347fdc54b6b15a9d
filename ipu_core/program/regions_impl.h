/* SPDX-License-Identifier: MIT
 *
 * Regions, see program.h. dependence.c finds which kernels of a run of instructions
 * wait for which, regions.c groups them. */
#ifndef IPU_PROGRAM_REGIONS_IMPL_H
#define IPU_PROGRAM_REGIONS_IMPL_H

#include "program/lower_impl.h"

/* One instruction waits for another. */
typedef struct ipu__link {
    uint32_t to;   /* who waits */
    uint32_t next; /* of the same instruction, plus 1; 0: none */
    bool by_rows;  /* each row of it for the same row of the other alone */
} ipu__link;

/* A kernel of the run. */
typedef struct ipu__waiter {
    uint32_t links;     /* to those that wait for it: the first one, plus 1 */
    uint32_t waits_for; /* links to it, from instructions that are not yet placed */
} ipu__waiter;

/* The instructions [first, first + count) of a stream, all kernels: reading and writing
 * of places orders them, and nothing is written before what may fail in front of it. */
typedef struct ipu__dependence {
    const lowering *lowering;
    const ipu_instruction *instructions; /* the run's first one */
    uint32_t count;
    ipu__waiter *waiters;
    IPU_ARRAY(ipu__link) links;
} ipu__dependence;

static inline const ipu_kernel_spec *
ipu__spec_of(const ipu__dependence *d, uint32_t item)
{
    return &d->lowering->program->specs.items[d->instructions[item].spec];
}

/* `d` has lowering, instructions, count and zeroed waiters. Free its links. */
ipu_status ipu__find_dependence(ipu_ctx *ctx, ipu__dependence *d);

#endif
