/* SPDX-License-Identifier: MIT
 *
 * Maps from numbers to numbers: what belongs to some ids of many. A table of twice the
 * entries with open addressing; an empty map holds no memory.
 *
 *     ipu_id_map made = {0};
 *     IPU_TRY(ipu_id_map_put(ctx, &made, value.index, copy.index));
 *     uint32_t copy = ipu_id_map_get(&made, value.index, IPU_NO_INDEX);
 *     ipu_id_map_free(ctx, &made);
 */
#ifndef IPU_BASE_ID_MAP_H
#define IPU_BASE_ID_MAP_H

#include <stdbool.h>

#include "base/ctx.h"

typedef struct ipu_id_map_entry {
    uint64_t key; /* plus 1; 0: empty */
    uint32_t value;
} ipu_id_map_entry;

typedef struct ipu_id_map {
    ipu_id_map_entry *entries;
    size_t count;
    size_t capacity; /* a power of two, or 0 */
} ipu_id_map;

/* Adds the key or overwrites its value. Keys are below UINT64_MAX. */
ipu_status ipu_id_map_put(ipu_ctx *ctx, ipu_id_map *map, uint64_t key, uint32_t value);
/* The key's value, or `missing`. */
uint32_t ipu_id_map_get(const ipu_id_map *map, uint64_t key, uint32_t missing);
bool ipu_id_map_has(const ipu_id_map *map, uint64_t key);
/* Forgets all keys and keeps the memory. */
void ipu_id_map_clear(ipu_id_map *map);
void ipu_id_map_free(ipu_ctx *ctx, ipu_id_map *map);

#endif
