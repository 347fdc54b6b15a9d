/* SPDX-License-Identifier: MIT
 *
 * One block of random words. */
#include "base/random.h"

#include <string.h>

void
ipu_random_block(const ipu_random_key *key, uint64_t block, uint32_t out[4])
{
    ipu_random_start start = ipu_random_start_of(key);
    ipu_random_words words = ipu_random_block_of(&start, block);
    memcpy(out, words.at, sizeof words.at);
}
