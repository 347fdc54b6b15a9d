/* SPDX-License-Identifier: MIT
 *
 * Linear probing at a load of at most one half. Ids are dense and come in order, so the
 * hash spreads them by a multiplication (Fibonacci hashing: Knuth, volume 3, 6.4). */
#include "base/id_map.h"

#include <string.h>

enum { FIRST_CAPACITY = 16 };

/* Where the key stands, or where it would be put. */
static ipu_id_map_entry *
find(const ipu_id_map *map, uint64_t key)
{
    uint64_t hash = (key + 1) * UINT64_C(0x9e3779b97f4a7c15);
    size_t at = (size_t)(hash >> 32) & (map->capacity - 1);
    while (map->entries[at].key != 0 && map->entries[at].key != key + 1) {
        at = (at + 1) & (map->capacity - 1);
    }
    return &map->entries[at];
}

static ipu_status
grow(ipu_ctx *ctx, ipu_id_map *map)
{
    ipu_id_map larger = {.count = map->count,
                         .capacity =
                             map->capacity == 0 ? FIRST_CAPACITY : map->capacity * 2};
    size_t bytes;
    IPU_TRY(ipu_mul_size(ctx, larger.capacity, sizeof(ipu_id_map_entry), &bytes));
    IPU_TRY(ipu_alloc(ctx, bytes, &larger.entries));
    for (size_t i = 0; i < map->capacity; i++) {
        if (map->entries[i].key != 0) {
            *find(&larger, map->entries[i].key - 1) = map->entries[i];
        }
    }
    ipu_id_map_free(ctx, map);
    *map = larger;
    return IPU_OK;
}

ipu_status
ipu_id_map_put(ipu_ctx *ctx, ipu_id_map *map, uint64_t key, uint32_t value)
{
    if (2 * (map->count + 1) > map->capacity) {
        IPU_TRY(grow(ctx, map));
    }
    ipu_id_map_entry *entry = find(map, key);
    map->count += entry->key == 0;
    *entry = (ipu_id_map_entry){key + 1, value};
    return IPU_OK;
}

uint32_t
ipu_id_map_get(const ipu_id_map *map, uint64_t key, uint32_t missing)
{
    if (map->count == 0) {
        return missing;
    }
    const ipu_id_map_entry *entry = find(map, key);
    return entry->key == 0 ? missing : entry->value;
}

bool
ipu_id_map_has(const ipu_id_map *map, uint64_t key)
{
    return map->count > 0 && find(map, key)->key != 0;
}

void
ipu_id_map_clear(ipu_id_map *map)
{
    if (map->count > 0) {
        memset(map->entries, 0, map->capacity * sizeof(ipu_id_map_entry));
        map->count = 0;
    }
}

void
ipu_id_map_free(ipu_ctx *ctx, ipu_id_map *map)
{
    ipu_free(ctx, map->entries, map->capacity * sizeof(ipu_id_map_entry));
    *map = (ipu_id_map){0};
}
