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

/* --- for loops over blocks, which a compiler turns into vectors ------------------- */

/* The common part of the blocks of a key. The seed is Philox's key; what must differ
 * is mixed into the counter: the block, the turn where blocks past 2^32 would be, op
 * and step. Replicas, and steps past 2^32, change the key. */
typedef struct ipu_random_start {
    uint32_t key[2];
    uint32_t counter[3]; /* the words after the first, which is the block */
} ipu_random_start;

static inline ipu_random_start
ipu_random_start_of(const ipu_random_key *key)
{
    uint32_t high = (uint32_t)(key->seed >> 32) ^ (uint32_t)(key->step >> 32);
    return (ipu_random_start){
        {(uint32_t)key->seed, high ^ (key->replica * 0x85EBCA6BU)},
        {key->turn, key->op, (uint32_t)key->step}};
}

typedef struct ipu_random_words {
    uint32_t at[4];
} ipu_random_words;

/* Constants of the paper. */
#define IPU_RANDOM_FACTOR_0 0xD2511F53U
#define IPU_RANDOM_FACTOR_1 0xCD9E8D57U
#define IPU_RANDOM_STEP_0 0x9E3779B9U /* of the key, from round to round */
#define IPU_RANDOM_STEP_1 0xBB67AE85U
enum { IPU_RANDOM_ROUNDS = 10 };

/* Two 32x32 -> 64 multiplications. */
static inline __attribute__((always_inline)) ipu_random_words
ipu_random_round(ipu_random_words c, uint32_t k0, uint32_t k1)
{
    uint64_t p0 = (uint64_t)IPU_RANDOM_FACTOR_0 * c.at[0];
    uint64_t p1 = (uint64_t)IPU_RANDOM_FACTOR_1 * c.at[2];
    return (ipu_random_words){{(uint32_t)(p1 >> 32) ^ c.at[1] ^ k0, (uint32_t)p1,
                               (uint32_t)(p0 >> 32) ^ c.at[3] ^ k1, (uint32_t)p0}};
}

/* Two rounds, of which `n` went before. */
static inline __attribute__((always_inline)) ipu_random_words
ipu_random_two_rounds(ipu_random_words c, const ipu_random_start *start, uint32_t n)
{
    uint32_t k0 = start->key[0] + n * IPU_RANDOM_STEP_0;
    uint32_t k1 = start->key[1] + n * IPU_RANDOM_STEP_1;
    c = ipu_random_round(c, k0, k1);
    return ipu_random_round(c, k0 + IPU_RANDOM_STEP_0, k1 + IPU_RANDOM_STEP_1);
}

static inline __attribute__((always_inline)) ipu_random_words
ipu_random_block_of(const ipu_random_start *start, uint64_t block)
{
    ipu_random_words c = {{(uint32_t)block, (uint32_t)(block >> 32) ^ start->counter[0],
                           start->counter[1], start->counter[2]}};
    c = ipu_random_two_rounds(c, start, 0);
    c = ipu_random_two_rounds(c, start, 2);
    c = ipu_random_two_rounds(c, start, 4);
    c = ipu_random_two_rounds(c, start, 6);
    return ipu_random_two_rounds(c, start, 8);
}

#endif
