/* SPDX-License-Identifier: MIT
 *
 * The plan's checker. It shares nothing with the planner, not even the rounding: it
 * asks of the offsets only what a program needs. Buffers come and go in the order of
 * their lifetimes; those that are live, ordered by offset, must not overlap. Where they
 * did not before, it is enough to compare one that comes with its two neighbours. A
 * buffer without bytes is nowhere and meets nobody. */
#include <stdlib.h>

#include "base/arena.h"
#include "kernels/core/kernel.h"
#include "memory/memory.h"

/* --- a set of small numbers with neighbours ----------------------------------------
 */

enum { LEVELS = 6, WORD_BITS = 64 }; /* 64^6 numbers and more */

/* Level 0 has a bit for each number, each level above one for each word below. */
typedef struct number_set {
    uint64_t *words[LEVELS];
    int levels;
} number_set;

static ipu_status
set_create(ipu_ctx *ctx, ipu_arena *arena, size_t numbers, number_set *out)
{
    *out = (number_set){.levels = 0};
    size_t count = numbers;
    do {
        count = count / WORD_BITS + 1;
        IPU_TRY(ipu_arena_array(ctx, arena, count, sizeof(uint64_t),
                                &out->words[out->levels++]));
    } while (count > 1);
    return IPU_OK;
}

static void
set_change(number_set *set, size_t number, bool add)
{
    for (int i = 0; i < set->levels; i++) {
        uint64_t *word = &set->words[i][number / WORD_BITS];
        uint64_t bit = UINT64_C(1) << number % WORD_BITS;
        *word = add ? *word | bit : *word & ~bit;
        if (!add && *word != 0) {
            return; /* the word above keeps its bit */
        }
        number /= WORD_BITS;
    }
}

/* The least number above, or the greatest below; SIZE_MAX: there is none. */
static size_t
set_neighbour(const number_set *set, size_t number, bool above)
{
    for (int i = 0; i < set->levels; i++) {
        size_t at = number / WORD_BITS;
        unsigned bit = (unsigned)(number % WORD_BITS);
        uint64_t mask = above ? (bit == WORD_BITS - 1 ? 0 : ~UINT64_C(0) << (bit + 1))
                              : (UINT64_C(1) << bit) - 1;
        uint64_t word = set->words[i][at] & mask;
        if (word == 0) {
            number = at;
            continue;
        }
        for (; i >= 0; i--) {
            unsigned found = above ? (unsigned)__builtin_ctzll(word)
                                   : (unsigned)(WORD_BITS - 1 - __builtin_clzll(word));
            at = at * WORD_BITS + found;
            word = i > 0 ? set->words[i - 1][at] : 0;
        }
        return at;
    }
    return SIZE_MAX;
}

/* --- the check ------------------------------------------------------------------- */

/* A buffer comes, or has gone. */
typedef struct event {
    int64_t at;
    bool comes;
    size_t rank; /* of its offset */
} event;

static int
by_offset(const void *a, const void *b)
{
    const ipu_buffer *x = *(const ipu_buffer *const *)a;
    const ipu_buffer *y = *(const ipu_buffer *const *)b;
    return x->offset != y->offset ? ipu_compare((int64_t)x->offset, (int64_t)y->offset)
                                  : ipu_compare(x - y, 0);
}

static int
by_time(const void *a, const void *b)
{
    const event *x = a;
    const event *y = b;
    return x->at != y->at         ? ipu_compare(x->at, y->at)
           : x->comes != y->comes ? ipu_compare(x->comes, y->comes)
                                  : ipu_compare(x->rank, y->rank);
}

/* `a` lies below `b`. */
static ipu_status
check_pair(ipu_ctx *ctx, const ipu_buffer *buffers, const ipu_buffer *a,
           const ipu_buffer *b)
{
    IPU_FAIL_IF(
        ctx, b->offset < a->offset + a->bytes, INTERNAL,
        "buffers %td and %td overlap at offset %zu: live from %d to %d and from "
        "%d to %d",
        a - buffers, b - buffers, b->offset, (int)a->first, (int)a->last, (int)b->first,
        (int)b->last);
    return IPU_OK;
}

static ipu_status
check_events(ipu_ctx *ctx, const ipu_buffer *buffers, const ipu_buffer *const *sorted,
             const event *events, size_t count, number_set *live)
{
    for (size_t i = 0; i < count; i++) {
        size_t rank = events[i].rank;
        if (events[i].comes) {
            size_t below = set_neighbour(live, rank, false);
            size_t above = set_neighbour(live, rank, true);
            if (below != SIZE_MAX) {
                IPU_TRY(check_pair(ctx, buffers, sorted[below], sorted[rank]));
            }
            if (above != SIZE_MAX) {
                IPU_TRY(check_pair(ctx, buffers, sorted[rank], sorted[above]));
            }
        }
        set_change(live, rank, events[i].comes);
    }
    return IPU_OK;
}

static ipu_status
check_lifetimes(ipu_ctx *ctx, ipu_arena *arena, const ipu_buffer *buffers, size_t count)
{
    number_set live;
    size_t used = 0;
    const ipu_buffer **sorted;
    event *events;
    IPU_TRY(ipu_arena_array(ctx, arena, count, sizeof(*sorted), &sorted));
    IPU_TRY(ipu_arena_array(ctx, arena, count, 2 * sizeof(*events), &events));
    for (size_t i = 0; i < count; i++) {
        if (buffers[i].bytes > 0) {
            sorted[used++] = &buffers[i];
        }
    }
    if (used == 0) {
        return IPU_OK;
    }
    qsort(sorted, used, sizeof(sorted[0]), by_offset);
    for (size_t i = 0; i < used; i++) {
        events[2 * i] = (event){sorted[i]->first, true, i};
        events[2 * i + 1] = (event){(int64_t)sorted[i]->last + 1, false, i};
    }
    qsort(events, 2 * used, sizeof(event), by_time);
    IPU_TRY(set_create(ctx, arena, used, &live));
    return check_events(ctx, buffers, sorted, events, 2 * used, &live);
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
        IPU_FAIL_IF(
            ctx, buffer->offset > usable || buffer->bytes > usable - buffer->offset,
            INTERNAL, "buffer %zu of %zu bytes at offset %zu ends past the slab's %zu",
            i, buffer->bytes, buffer->offset, usable);
    }
    ipu_arena arena = {0};
    ipu_status status = check_lifetimes(ctx, &arena, buffers, count);
    ipu_arena_free(ctx, &arena);
    return status;
}
