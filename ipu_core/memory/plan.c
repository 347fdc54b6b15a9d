/* SPDX-License-Identifier: MIT
 *
 * The memory planner: buffers with lifetimes in, offsets out.
 *
 * Best fit by decreasing size: the largest buffer is placed first, each into the
 * smallest gap between the buffers that are live with it and already placed, or behind
 * all of them. Large buffers dominate the slab, and they are placed while nothing is in
 * their way; small ones fill what is left. Ties are broken by lifetime and then by
 * number, so that a plan is a function of its input alone. Placed buffers are kept in
 * the order of their offsets; one walk over them finds all gaps. Quadratic, which for
 * the hundreds of buffers of a training step is microseconds.
 *
 * The caller owns the buffers; nothing is kept. */
#include "memory/memory.h"

#include <stdlib.h>

#include "kernels/kernel.h"

static size_t
round_up(size_t bytes)
{
    size_t mask = IPU_BUFFER_ALIGNMENT - 1;
    return (bytes + mask) & ~mask;
}

static int
by_decreasing_size(const void *a, const void *b)
{
    const ipu_buffer *x = *(ipu_buffer *const *)a;
    const ipu_buffer *y = *(ipu_buffer *const *)b;
    if (x->bytes != y->bytes) {
        return x->bytes > y->bytes ? -1 : 1;
    }
    if (x->first != y->first) {
        return x->first < y->first ? -1 : 1;
    }
    return x < y ? -1 : x > y;
}

/* Puts `buffer` among the `count` placed ones, which are sorted by offset. */
static void
place(ipu_buffer **placed, size_t count, ipu_buffer *buffer)
{
    size_t best_offset = 0;
    size_t best_gap = SIZE_MAX;
    size_t end = 0; /* of the live buffers seen so far */
    size_t needed = round_up(buffer->bytes);
    for (size_t i = 0; i < count; i++) {
        const ipu_buffer *other = placed[i];
        if (other->last < buffer->first || buffer->last < other->first) {
            continue;
        }
        if (other->offset > end) {
            size_t gap = other->offset - end;
            if (gap >= needed && gap < best_gap) {
                best_gap = gap;
                best_offset = end;
            }
        }
        size_t other_end = other->offset + round_up(other->bytes);
        if (other_end > end) {
            end = other_end;
        }
    }
    if (needed == 0) { /* nowhere, rather than behind everything */
        best_gap = 0;
    }
    buffer->offset = best_gap == SIZE_MAX ? end : best_offset;
    size_t at = count;
    while (at > 0 && placed[at - 1]->offset > buffer->offset) {
        placed[at] = placed[at - 1];
        at--;
    }
    placed[at] = buffer;
}

typedef struct event {
    int32_t at; /* the first instruction for which it counts */
    bool begins;
    size_t bytes;
} event;

/* Ends sort before beginnings of the same instruction. */
static int
by_time(const void *a, const void *b)
{
    const event *x = a;
    const event *y = b;
    if (x->at != y->at) {
        return x->at < y->at ? -1 : 1;
    }
    return (int)x->begins - (int)y->begins;
}

static ipu_status
find_peak(ipu_ctx *ctx, const ipu_buffer *buffers, size_t count,
          ipu_memory_report *report)
{
    size_t event_bytes;
    IPU_TRY(ipu_mul_size(ctx, 2 * count, sizeof(event), &event_bytes));
    event *events;
    IPU_TRY(ipu_alloc(ctx, event_bytes, &events));
    for (size_t i = 0; i < count; i++) {
        size_t bytes = round_up(buffers[i].bytes);
        events[2 * i] = (event){buffers[i].first, true, bytes};
        events[2 * i + 1] = (event){buffers[i].last + 1, false, bytes};
    }
    if (count > 0) {
        qsort(events, 2 * count, sizeof(event), by_time);
    }
    size_t live = 0;
    for (size_t i = 0; i < 2 * count; i++) {
        live = events[i].begins ? live + events[i].bytes : live - events[i].bytes;
        if (live > report->peak_live_bytes) {
            report->peak_live_bytes = live;
            report->peak_at = events[i].at;
        }
    }
    ipu_free(ctx, events, event_bytes);
    return IPU_OK;
}

ipu_status
ipu_memory_plan(ipu_ctx *ctx, ipu_buffer *buffers, size_t count,
                ipu_memory_report *report)
{
    *report = (ipu_memory_report){0};
    size_t total = 0;
    for (size_t i = 0; i < count; i++) {
        const ipu_buffer *buffer = &buffers[i];
        IPU_FAIL_IF(ctx, buffer->first > buffer->last, INTERNAL,
                    "buffer %zu is live from %d to %d", i, (int)buffer->first,
                    (int)buffer->last);
        IPU_FAIL_IF(ctx, buffer->bytes > SIZE_MAX / 4 - total, OUT_OF_MEMORY,
                    "out of memory: the temporaries of the program do not fit in the "
                    "address space");
        total += round_up(buffer->bytes);
    }
    size_t placed_bytes;
    IPU_TRY(ipu_mul_size(ctx, 2 * count, sizeof(ipu_buffer *), &placed_bytes));
    ipu_buffer **order;
    IPU_TRY(ipu_alloc(ctx, placed_bytes, &order));
    ipu_buffer **placed = order + count;
    for (size_t i = 0; i < count; i++) {
        order[i] = &buffers[i];
    }
    if (count > 0) {
        qsort(order, count, sizeof(order[0]), by_decreasing_size);
    }
    size_t end = 0;
    for (size_t i = 0; i < count; i++) {
        ipu_buffer *buffer = order[i];
        place(placed, i, buffer);
        size_t buffer_end = buffer->offset + round_up(buffer->bytes);
        end = buffer_end > end ? buffer_end : end;
    }
    ipu_free(ctx, order, placed_bytes);
    report->slab_bytes = end + IPU_SLACK_BYTES;
    return find_peak(ctx, buffers, count, report);
}
