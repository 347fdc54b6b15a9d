/* SPDX-License-Identifier: MIT
 *
 * Addresses on the fullest tile of each IPU. Code lies from 0 on; data are planned from
 * the end of the memory downwards (memory/memory.h), in units of the 8 bytes that a tile
 * loads at once. */
#include <math.h>

#include "kernels/core/kernel.h"
#include "machine/account_impl.h"
#include "memory/memory.h"

enum {
    UNIT = 8,                           /* bytes of a tile */
    SCALE = IPU_BUFFER_ALIGNMENT / UNIT /* the planner's bytes for each of them */
};

typedef IPU_ARRAY(ipu_buffer) buffers;

static ipu_status
add(ipu__accounting *a, buffers *list, ipu_account_place place)
{
    if (place.bytes <= 0) {
        return IPU_OK;
    }
    ipu_buffer buffer = {.bytes = (size_t)ceil(place.bytes / UNIT) * UNIT * SCALE,
                         .first = (int32_t)place.first,
                         .last = (int32_t)place.last};
    IPU_TRY(IPU_ARRAY_PUSH(a->ctx, &a->out->places, place));
    return IPU_ARRAY_PUSH(a->ctx, list, buffer);
}

static ipu_status
collect(ipu__accounting *a, int32_t ipu, uint32_t tile, buffers *list)
{
    const ipu_account *out = a->out;
    uint32_t tiles = (uint32_t)a->chip->tiles;
    for (uint32_t i = 0; i < out->residents.count; i++) {
        const ipu_account_resident *one = &out->residents.items[i];
        const ipu_type *type = ipu_account_resident_type(a->graph, one);
        ipu_account_place place = {.kind = IPU_PLACE_RESIDENT,
                                   .index = i,
                                   .ipu = ipu,
                                   .bytes = ipu_mapping_bytes(&one->mapping, type, tile,
                                                              tiles),
                                   .last = a->count};
        IPU_TRY(one->ipu == ipu ? add(a, list, place) : IPU_OK);
    }
    for (uint32_t i = 0; i < out->tenants.count; i++) {
        const ipu_account_tenant *one = &out->tenants.items[i];
        const ipu_type *type = &ipu_value_of(a->graph, one->value)->type;
        ipu_account_place place = {.kind = IPU_PLACE_TENANT,
                                   .index = i,
                                   .ipu = ipu,
                                   .bytes = one->copies *
                                            ipu_mapping_bytes(&one->mapping, type,
                                                              tile, tiles),
                                   .first = one->first,
                                   .last = one->last};
        IPU_TRY(one->ipu == ipu ? add(a, list, place) : IPU_OK);
    }
    for (uint32_t number = 1; number <= a->count; number++) {
        ipu_account_place place = {.kind = IPU_PLACE_TEMPORARY,
                                   .index = a->nodes[number].index,
                                   .ipu = ipu,
                                   .bytes = a->temporaries[number],
                                   .first = number,
                                   .last = number};
        IPU_TRY(a->ipu_of[a->nodes[number].index] == ipu ? add(a, list, place)
                                                         : IPU_OK);
    }
    return IPU_OK;
}

static ipu_status
find_places_of(ipu__accounting *a, int32_t ipu, buffers *list)
{
    ipu_account_memory *memory = &a->out->memories.items[ipu];
    size_t begin = a->out->places.count;
    ipu_memory_report report;
    IPU_TRY(collect(a, ipu, memory->fullest_tile, list));
    IPU_TRY(ipu_memory_plan(a->ctx, list->items, list->count, &report));
    memory->end_bytes = memory->code_bytes;
    for (size_t i = 0; i < list->count; i++) {
        const ipu_buffer *buffer = &list->items[i];
        double end = (double)(buffer->offset + buffer->bytes) / SCALE;
        a->out->places.items[begin + i].address = a->chip->tile_bytes - end;
        memory->end_bytes = fmax(memory->end_bytes, memory->code_bytes + end);
    }
    return IPU_OK;
}

ipu_status
ipu__machine_find_places(ipu__accounting *a)
{
    ipu_status status = IPU_OK;
    for (uint32_t ipu = 0; ipu < a->ipu_count && status == IPU_OK; ipu++) {
        buffers list = {0};
        status = find_places_of(a, (int32_t)ipu, &list);
        IPU_ARRAY_FREE(a->ctx, &list);
    }
    return status;
}
