/* SPDX-License-Identifier: MIT
 *
 * Growth of arrays: by half, from eight items. IPU_HOSTILE builds grow by one, so that
 * a pointer kept across a push is found at once. */
#include "base/array.h"

#include <string.h>

ipu_status
ipu_array_reserve(ipu_ctx *ctx, void **items, size_t count, size_t *capacity,
                  size_t more, size_t item_bytes)
{
    IPU_FAIL_IF(ctx, more > SIZE_MAX - count, OUT_OF_MEMORY,
                "out of memory: an array of %zu and %zu more items", count, more);
    size_t needed = count + more;
    if (needed <= *capacity) {
        return IPU_OK;
    }
#ifdef IPU_HOSTILE
    size_t grown = needed;
#else
    size_t grown = *capacity + *capacity / 2 + 8;
    if (grown < needed) {
        grown = needed;
    }
#endif
    size_t bytes;
    IPU_TRY(ipu_mul_size(ctx, grown, item_bytes, &bytes));
    IPU_TRY(ipu_resize(ctx, items, *capacity * item_bytes, bytes));
    *capacity = grown;
    return IPU_OK;
}

ipu_status
ipu_array_extend(ipu_ctx *ctx, void **items, size_t *count, size_t *capacity,
                 size_t wanted, const void *item, size_t item_bytes)
{
    if (wanted > *count) {
        IPU_TRY(ipu_array_reserve(ctx, items, *count, capacity, wanted - *count,
                                  item_bytes));
    }
    for (; *count < wanted; (*count)++) {
        char *to = (char *)*items + *count * item_bytes;
        if (item == NULL) {
            memset(to, 0, item_bytes);
        } else {
            memcpy(to, item, item_bytes);
        }
    }
    return IPU_OK;
}
