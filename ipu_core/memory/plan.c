/* SPDX-License-Identifier: MIT
 *
 * The memory planner: buffers with lifetimes in, offsets out.
 *
 * Two plans, of which the smaller slab is taken:
 *
 *   best fit   by decreasing size: the largest buffer is placed first, each into the
 *              smallest gap between the buffers that are live with it and already
 *              placed, or after all of them. Large buffers dominate the slab, and they
 *              are placed while nothing is in their way. Its time is quadratic, so it
 *              is made for up to MOST_BEST_FIT buffers
 *
 *   in order   of time, as an allocator would (heap.c), in proportion to the buffers
 *
 * Ties are broken by lifetime and then by number, so that a plan is a function of its
 * input alone. The caller owns the buffers; nothing is kept. */
#include <stdlib.h>

#include "kernels/core/kernel.h"
#include "memory/heap.h"
#include "memory/memory.h"

enum { MOST_BEST_FIT = 4096 };

/* --- best fit -------------------------------------------------------------------- */

static int
by_decreasing_size(const void *a, const void *b)
{
    const ipu_buffer *x = *(ipu_buffer *const *)a;
    const ipu_buffer *y = *(ipu_buffer *const *)b;
    return x->bytes != y->bytes   ? ipu_compare((int64_t)y->bytes, (int64_t)x->bytes)
           : x->first != y->first ? ipu_compare(x->first, y->first)
                                  : ipu_compare(x - y, 0);
}

/* Puts `buffer` among the `count` placed ones, which are sorted by offset. */
static void
place(ipu_buffer **placed, size_t count, ipu_buffer *buffer)
{
    size_t best_offset = 0;
    size_t best_gap = SIZE_MAX;
    size_t end = 0; /* of the live buffers seen so far */
    size_t needed = ipu_buffer_round_up(buffer->bytes);
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
        size_t other_end = other->offset + ipu_buffer_round_up(other->bytes);
        if (other_end > end) {
            end = other_end;
        }
    }
    if (needed == 0) { /* nowhere, rather than after everything */
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

static ipu_status
plan_best_fit(ipu_ctx *ctx, ipu_arena *arena, ipu_buffer *buffers, size_t count,
              size_t *out_end)
{
    ipu_buffer **order;
    IPU_TRY(ipu_arena_array(ctx, arena, count, 2 * sizeof(*order), &order));
    ipu_buffer **placed = order + count;
    for (size_t i = 0; i < count; i++) {
        order[i] = &buffers[i];
    }
    if (count > 0) {
        qsort(order, count, sizeof(order[0]), by_decreasing_size);
    }
    *out_end = 0;
    for (size_t i = 0; i < count; i++) {
        place(placed, i, order[i]);
        size_t end = order[i]->offset + ipu_buffer_round_up(order[i]->bytes);
        *out_end = end > *out_end ? end : *out_end;
    }
    return IPU_OK;
}

/* --- in order of time ------------------------------------------------------------ */

typedef struct event {
    int32_t at; /* the first instruction for which it counts */
    bool begins;
    uint32_t buffer;
    size_t bytes;
} event;

/* Ends sort before beginnings of the same instruction, larger ones before smaller. */
static int
by_time(const void *a, const void *b)
{
    const event *x = a;
    const event *y = b;
    return x->at != y->at           ? ipu_compare(x->at, y->at)
           : x->begins != y->begins ? ipu_compare(x->begins, y->begins)
           : x->bytes != y->bytes   ? ipu_compare((int64_t)y->bytes, (int64_t)x->bytes)
                                    : ipu_compare(x->buffer, y->buffer);
}

static void
find_peak(const event *events, size_t count, ipu_memory_report *report)
{
    size_t live = 0;
    for (size_t i = 0; i < count; i++) {
        live = events[i].begins ? live + events[i].bytes : live - events[i].bytes;
        if (live > report->peak_live_bytes) {
            report->peak_live_bytes = live;
            report->peak_at = events[i].at;
        }
    }
}

/* pieces[i] is the piece of the heap that buffer i has, and later its offset. */
static ipu_status
plan_in_order(ipu_ctx *ctx, ipu_arena *arena, const event *events, size_t count,
              size_t *offsets, size_t *out_end)
{
    ipu_heap heap = {0};
    uint32_t *pieces;
    IPU_TRY(ipu_arena_array(ctx, arena, count / 2, sizeof(*pieces), &pieces));
    ipu_status status = IPU_OK;
    for (size_t i = 0; status == IPU_OK && i < count; i++) {
        const event *e = &events[i];
        if (e->bytes == 0) {
            continue;
        }
        if (e->begins) {
            status = ipu_heap_take(ctx, &heap, e->bytes, &pieces[e->buffer]);
            offsets[e->buffer] =
                status == IPU_OK ? ipu_heap_offset(&heap, pieces[e->buffer]) : 0;
        } else {
            ipu_heap_give_back(&heap, pieces[e->buffer]);
        }
    }
    *out_end = heap.end;
    ipu_heap_free(ctx, &heap);
    return status;
}

/* --- both ------------------------------------------------------------------------ */

static ipu_status
plan(ipu_ctx *ctx, ipu_arena *arena, ipu_buffer *buffers, size_t count,
     ipu_memory_report *report)
{
    size_t end;
    size_t best = SIZE_MAX;
    event *events;
    size_t *offsets;
    IPU_TRY(ipu_arena_array(ctx, arena, count, 2 * sizeof(*events), &events));
    IPU_TRY(ipu_arena_array(ctx, arena, count, sizeof(*offsets), &offsets));
    for (size_t i = 0; i < count; i++) {
        size_t bytes = ipu_buffer_round_up(buffers[i].bytes);
        events[2 * i] = (event){buffers[i].first, true, (uint32_t)i, bytes};
        events[2 * i + 1] = (event){buffers[i].last + 1, false, (uint32_t)i, bytes};
    }
    if (count > 0) {
        qsort(events, 2 * count, sizeof(event), by_time);
    }
    find_peak(events, 2 * count, report);
    if (count <= MOST_BEST_FIT) {
        IPU_TRY(plan_best_fit(ctx, arena, buffers, count, &best));
    }
    if (best > report->peak_live_bytes) {
        IPU_TRY(plan_in_order(ctx, arena, events, 2 * count, offsets, &end));
        for (size_t i = 0; end < best && i < count; i++) {
            buffers[i].offset = offsets[i];
        }
        best = end < best ? end : best;
    }
    report->slab_bytes = best + IPU_SLACK_BYTES;
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
        total += ipu_buffer_round_up(buffer->bytes);
    }
    ipu_arena arena = {0};
    ipu_status status = plan(ctx, &arena, buffers, count, report);
    ipu_arena_free(ctx, &arena);
    return status;
}
