/* SPDX-License-Identifier: MIT
 *
 * Hashes of bytes, for tables that live as long as a compilation: FNV-1a (Fowler, Noll
 * and Vo). */
#ifndef IPU_BASE_HASH_H
#define IPU_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

#define IPU_HASH_START UINT64_C(0xcbf29ce484222325)

/* `hash`, or IPU_HASH_START, with more bytes. */
static inline uint64_t
ipu_hash_bytes(uint64_t hash, const void *data, size_t count)
{
    const unsigned char *bytes = data;
    for (size_t i = 0; i < count; i++) {
        hash = (hash ^ bytes[i]) * UINT64_C(0x100000001b3);
    }
    return hash;
}

#endif
