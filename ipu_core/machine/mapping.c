/* SPDX-License-Identifier: MIT */
#include "machine/mapping.h"

#include <math.h>

double
ipu_mapping_tiles(const ipu_type *type, double tiles)
{
    double grains = ceil((double)ipu_type_bytes(type) / IPU_LEAST_TILE_BYTES);
    return fmax(1, fmin(grains, tiles));
}

/* `changes` of a sum that runs over the tiles. */
static void
add_to(double *changes, uint32_t tiles, uint32_t first, uint32_t count, double bytes)
{
    uint32_t end = first + count;
    changes[first] += bytes;
    if (end < tiles) {
        changes[end] -= bytes;
    } else if (end > tiles) { /* around the end */
        changes[0] += bytes;
        changes[end - tiles] -= bytes;
    }
}

void
ipu_mapping_add(const ipu_mapping *mapping, const ipu_type *type, double copies,
                double *changes, uint32_t tiles)
{
    uint64_t count = (uint64_t)ipu_shape_elements(&type->shape);
    double size = copies * (double)ipu_dtype_bytes(type->dtype);
    uint32_t rest = (uint32_t)(count % mapping->tiles);
    add_to(changes, tiles, mapping->start, mapping->tiles,
           (double)(count / mapping->tiles) * size);
    if (rest > 0) {
        add_to(changes, tiles, mapping->start, rest, size);
    }
}

double
ipu_mapping_bytes(const ipu_mapping *mapping, const ipu_type *type, uint32_t tile,
                  uint32_t tiles)
{
    uint32_t part = (tile + tiles - mapping->start) % tiles;
    uint64_t count = (uint64_t)ipu_shape_elements(&type->shape);
    uint64_t each = count / mapping->tiles + (part < count % mapping->tiles);
    return part < mapping->tiles ? (double)(each * ipu_dtype_bytes(type->dtype)) : 0;
}
