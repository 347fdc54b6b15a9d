/* SPDX-License-Identifier: MIT
 *
 * Growable arrays on the context's allocator.
 *
 *     IPU_ARRAY(ipu_value) values = {0};
 *     IPU_TRY(IPU_ARRAY_PUSH(ctx, &values, value));
 *     values.items[i], values.count
 *     IPU_ARRAY_FREE(ctx, &values);
 */
#ifndef IPU_BASE_ARRAY_H
#define IPU_BASE_ARRAY_H

#include "base/ctx.h"

#define IPU_ARRAY(type) \
    struct { \
        type *items; \
        size_t count; \
        size_t capacity; \
    }

/* Grows *items so that at least `count + more` fit. */
ipu_status ipu_array_reserve(ipu_ctx *ctx, void **items, size_t count,
                             size_t *capacity, size_t more, size_t item_bytes);
ipu_status ipu_array_extend(ipu_ctx *ctx, void **items, size_t *count, size_t *capacity,
                            size_t wanted, const void *item, size_t item_bytes);

#define IPU_ARRAY_RESERVE(ctx, array, more) \
    ipu_array_reserve((ctx), (void **)&(array)->items, (array)->count, \
                      &(array)->capacity, (more), sizeof(*(array)->items))

#define IPU_ARRAY_PUSH(ctx, array, item) \
    (IPU_ARRAY_RESERVE((ctx), (array), 1) == IPU_OK \
         ? ((array)->items[(array)->count++] = (item), IPU_OK) \
         : (ctx)->status)

/* Pushes copies of *item, zeros where it is NULL, until there are `wanted`. The choice
 * has the compiler compare types. */
#define IPU_ARRAY_EXTEND(ctx, array, wanted, item) \
    ipu_array_extend((ctx), (void **)&(array)->items, &(array)->count, \
                     &(array)->capacity, (wanted), 1 ? (item) : (array)->items, \
                     sizeof(*(array)->items))

#define IPU_ARRAY_FREE(ctx, array) \
    do { \
        ipu_free((ctx), (array)->items, \
                 (array)->capacity * sizeof(*(array)->items)); \
        (array)->items = NULL; \
        (array)->count = 0; \
        (array)->capacity = 0; \
    } while (0)

/* How qsort wants to hear of two numbers. */
static inline int
ipu_compare(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

#endif
