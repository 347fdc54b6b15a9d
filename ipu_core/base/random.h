/* SPDX-License-Identifier: MIT
 *
 * Counter-based random numbers: Philox4x32-10 (Salmon, Moraes, Dror, Shaw, "Parallel
 * random numbers: as easy as 1, 2, 3", SC 2011). A number is a function of (seed, step,
 * turn, replica, op, element): it never depends on order or threads. */
#ifndef IPU_BASE_RANDOM_H
#define IPU_BASE_RANDOM_H

#include <stdint.h>

typedef struct ipu_random_key {
    uint64_t seed; /* the device's seed */
    uint64_t step; /* global micro-batch counter */
    uint32_t turn; /* of the loops inside of a step; 0 outside of them */
    uint32_t replica;
    uint32_t op; /* the op's ordinal in the user's program, mixed with its seed */
} ipu_random_key;

/* The four words of block `block`; element e of an op uses word e % 4 of block e / 4.
 */
void ipu_random_block(const ipu_random_key *key, uint64_t block, uint32_t out[4]);

#endif
