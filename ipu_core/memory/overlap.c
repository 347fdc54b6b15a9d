/* SPDX-License-Identifier: MIT
 *
 * The plan's checker. It shares nothing with the planner, not even the rounding: it
 * asks of the offsets only what a program needs. Buffers are looked at in the order of
 * their offsets; each is compared with those that start before it ends. A buffer
 * without bytes is nowhere and meets nobody. */
#include <stdlib.h>

#include "kernels/kernel.h"
#include "memory/memory.h"

static int
by_offset(const void *a, const void *b)
{
    const ipu_buffer *x = *(const ipu_buffer *const *)a;
    const ipu_buffer *y = *(const ipu_buffer *const *)b;
    if (x->offset != y->offset) {
        return x->offset < y->offset ? -1 : 1;
    }
    return x < y ? -1 : x > y;
}

static ipu_status
check_sorted(ipu_ctx *ctx, const ipu_buffer *buffers, const ipu_buffer *const *sorted,
             size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const ipu_buffer *a = sorted[i];
        for (size_t j = i + 1; j < count && sorted[j]->offset < a->offset + a->bytes;
             j++) {
            const ipu_buffer *b = sorted[j];
            bool live_together = a->first <= b->last && b->first <= a->last;
            IPU_FAIL_IF(ctx, b->bytes > 0 && live_together, INTERNAL,
                        "buffers %td and %td overlap at offset %zu: live from %d to %d "
                        "and from %d to %d",
                        a - buffers, b - buffers, b->offset, (int)a->first,
                        (int)a->last, (int)b->first, (int)b->last);
        }
    }
    return IPU_OK;
}

ipu_status
ipu_memory_check(ipu_ctx *ctx, const ipu_buffer *buffers, size_t count,
                 size_t slab_bytes)
{
    IPU_FAIL_IF(ctx, slab_bytes < IPU_SLACK_BYTES, INTERNAL,
                "a slab of %zu bytes has no room for its slack", slab_bytes);
    size_t usable = slab_bytes - IPU_SLACK_BYTES;
    for (size_t i = 0; i < count; i++) {
        const ipu_buffer *buffer = &buffers[i];
        IPU_FAIL_IF(ctx, buffer->offset % IPU_BUFFER_ALIGNMENT != 0, INTERNAL,
                    "buffer %zu at offset %zu is not aligned to %d", i, buffer->offset,
                    (int)IPU_BUFFER_ALIGNMENT);
        IPU_FAIL_IF(ctx,
                    buffer->offset > usable || buffer->bytes > usable - buffer->offset,
                    INTERNAL,
                    "buffer %zu of %zu bytes at offset %zu ends past the slab's %zu", i,
                    buffer->bytes, buffer->offset, usable);
    }
    size_t sorted_bytes;
    IPU_TRY(ipu_mul_size(ctx, count, sizeof(ipu_buffer *), &sorted_bytes));
    const ipu_buffer **sorted;
    IPU_TRY(ipu_alloc(ctx, sorted_bytes, &sorted));
    for (size_t i = 0; i < count; i++) {
        sorted[i] = &buffers[i];
    }
    if (count > 0) {
        qsort(sorted, count, sizeof(sorted[0]), by_offset);
    }
    ipu_status status = check_sorted(ctx, buffers, sorted, count);
    ipu_free(ctx, sorted, sorted_bytes);
    return status;
}
