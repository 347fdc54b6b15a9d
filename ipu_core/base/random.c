/* SPDX-License-Identifier: MIT
 *
 * Philox4x32-10: ten rounds of two 32x32 -> 64 multiplications (constants of the
 * paper). */
#include "base/random.h"

void
ipu_random_block(const ipu_random_key *key, uint64_t block, uint32_t out[4])
{
    /* The seed is the key; what must differ is mixed into the counter: the block, the
     * turn where blocks past 2^32 would be, op and step. Replicas, and steps past
     * 2^32, change the key. */
    uint32_t k0 = (uint32_t)key->seed;
    uint32_t k1 = (uint32_t)(key->seed >> 32) ^ (uint32_t)(key->step >> 32) ^
                  (key->replica * 0x85EBCA6BU);
    uint32_t c0 = (uint32_t)block;
    uint32_t c1 = (uint32_t)(block >> 32) ^ key->turn;
    uint32_t c2 = key->op;
    uint32_t c3 = (uint32_t)key->step;
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53U * c0;
        uint64_t p1 = (uint64_t)0xCD9E8D57U * c2;
        uint32_t n0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        uint32_t n2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)p1;
        c3 = (uint32_t)p0;
        c0 = n0;
        c2 = n2;
        k0 += 0x9E3779B9U;
        k1 += 0xBB67AE85U;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}
