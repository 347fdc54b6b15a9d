/* SPDX-License-Identifier: MIT
 *
 * The planner on random sets of intervals, and the overlap checker's own teeth: every
 * way to spoil a plan must be found. */
#include <stdlib.h>

#include "check.h"
#include "kernels/core/kernel.h"
#include "memory/heap.h"
#include "memory/memory.h"

enum { MOST = 200 };

static uint64_t
next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static size_t
make_buffers(ipu_buffer *buffers, uint64_t *state)
{
    size_t count = 1 + next_random(state) % MOST;
    int32_t length = 1 + (int32_t)(next_random(state) % 100);
    for (size_t i = 0; i < count; i++) {
        int32_t first = (int32_t)(next_random(state) % (uint64_t)length);
        int32_t more = (int32_t)(next_random(state) % 12);
        if (next_random(state) % 10 == 0) {
            more = length;
        }
        size_t bytes = next_random(state) % 5000;
        if (next_random(state) % 8 == 0) {
            bytes = next_random(state) % 3; /* 0, 1, 2 */
        }
        buffers[i] = (ipu_buffer){.bytes = bytes, .first = first, .last = first + more};
    }
    return count;
}

static size_t
brute_peak(const ipu_buffer *buffers, size_t count)
{
    size_t peak = 0;
    for (int32_t at = 0; at < 300; at++) {
        size_t live = 0;
        for (size_t i = 0; i < count; i++) {
            if (buffers[i].first <= at && at <= buffers[i].last) {
                live += (buffers[i].bytes + 63) / 64 * 64;
            }
        }
        peak = live > peak ? live : peak;
    }
    return peak;
}

static bool
meet(const ipu_buffer *a, const ipu_buffer *b)
{
    return a->first <= b->last && b->first <= a->last;
}

/* Moves one buffer onto another that is live with it. */
static void
spoil(ipu_ctx *ctx, ipu_buffer *buffers, size_t count, size_t slab, uint64_t *state)
{
    for (int tries = 0; tries < 20; tries++) {
        size_t i = next_random(state) % count;
        size_t j = next_random(state) % count;
        ipu_buffer *a = &buffers[i];
        if (i == j || a->bytes == 0 || buffers[j].bytes == 0 || !meet(a, &buffers[j])) {
            continue;
        }
        size_t kept = a->offset;
        a->offset = buffers[j].offset;
        CHECK(ipu_memory_check(ctx, buffers, count, slab) == IPU_STATUS_INTERNAL);
        ipu_ctx_clear(ctx);
        a->offset = kept + 4;
        CHECK(ipu_memory_check(ctx, buffers, count, slab) == IPU_STATUS_INTERNAL);
        ipu_ctx_clear(ctx);
        a->offset = (slab + 63) / 64 * 64;
        CHECK(ipu_memory_check(ctx, buffers, count, slab) == IPU_STATUS_INTERNAL);
        ipu_ctx_clear(ctx);
        a->offset = kept;
    }
    CHECK_OK(ctx, ipu_memory_check(ctx, buffers, count, slab));
}

static void
test_random(ipu_ctx *ctx)
{
    static ipu_buffer buffers[MOST];
    uint64_t state = 88172645463325252U;
    double worst = 1;
    for (int round = 0; round < 400; round++) {
        size_t count = make_buffers(buffers, &state);
        ipu_memory_report report;
        CHECK_OK(ctx, ipu_memory_plan(ctx, buffers, count, &report));
        CHECK_OK(ctx, ipu_memory_check(ctx, buffers, count, report.slab_bytes));
        CHECK(report.peak_live_bytes == brute_peak(buffers, count));
        size_t used = report.slab_bytes - IPU_SLACK_BYTES;
        CHECK(used >= report.peak_live_bytes);
        if (report.peak_live_bytes > 0) {
            double ratio = (double)used / (double)report.peak_live_bytes;
            worst = ratio > worst ? ratio : worst;
        }
        spoil(ctx, buffers, count, report.slab_bytes, &state);
    }
    CHECK(worst < 1.5); /* far from the bound, a plan would be useless */
}

/* More buffers than are planned in quadratic time: as a training step has them, which
 * keeps a value of each layer from the way there to the way back. */
static void
test_many(ipu_ctx *ctx)
{
    enum { LAYERS = 6000 };
    static ipu_buffer buffers[3 * LAYERS];
    uint64_t state = 99;
    for (int32_t i = 0; i < LAYERS; i++) {
        int32_t back = 4 * LAYERS - 2 * i;
        size_t bytes = 64 + next_random(&state) % 4096;
        buffers[3 * i] = (ipu_buffer){.bytes = bytes, .first = 2 * i, .last = back};
        buffers[3 * i + 1] =
            (ipu_buffer){.bytes = bytes / 2, .first = 2 * i, .last = 2 * i + 1};
        buffers[3 * i + 2] =
            (ipu_buffer){.bytes = bytes, .first = back - 1, .last = back + 1};
    }
    ipu_memory_report report;
    CHECK_OK(ctx, ipu_memory_plan(ctx, buffers, 3 * LAYERS, &report));
    CHECK_OK(ctx, ipu_memory_check(ctx, buffers, 3 * LAYERS, report.slab_bytes));
    CHECK(report.slab_bytes - IPU_SLACK_BYTES < report.peak_live_bytes / 4 * 5);
    spoil(ctx, buffers, 3 * LAYERS, report.slab_bytes, &state);
}

/* The bytes of the largest free piece. From the top down pieces follow each other, no
 * two of them free; so many are taken. */
static size_t
most_free(const ipu_heap *heap, int taken)
{
    size_t most = 0;
    size_t end = heap->end;
    bool was_free = false;
    for (uint32_t number = heap->top; number != 0;) {
        const ipu_heap_piece *piece = &heap->pieces.items[number - 1];
        CHECK(piece->offset + piece->bytes == end && piece->bytes > 0);
        CHECK(!(piece->is_free && was_free));
        most = piece->is_free && piece->bytes > most ? piece->bytes : most;
        taken -= !piece->is_free;
        end = piece->offset;
        was_free = piece->is_free;
        number = piece->below;
    }
    CHECK(end == 0 && taken == 0);
    return most;
}

/* Pieces that are taken and given back at random lie apart, in the range, which grows
 * only where no free piece is larger by a sixteenth. */
static void
test_heap(ipu_ctx *ctx)
{
    enum { PIECES = 12, UNIT = IPU_BUFFER_ALIGNMENT };
    uint64_t state = 7;
    for (int round = 0; round < 200; round++) {
        ipu_heap heap = {0};
        uint32_t pieces[PIECES] = {0};
        size_t most = 0; /* that any piece has reached */
        int taken = 0;
        for (int turn = 0; turn < 100; turn++) {
            uint32_t *piece = &pieces[next_random(&state) % PIECES];
            size_t free = most_free(&heap, taken);
            size_t end = heap.end;
            if (*piece != 0) {
                ipu_heap_give_back(&heap, *piece);
                *piece = 0;
                taken--;
                continue;
            }
            taken++;
            size_t bytes = (1 + next_random(&state) % 300) * UNIT;
            CHECK_OK(ctx, ipu_heap_take(ctx, &heap, bytes, piece));
            size_t offset = ipu_heap_offset(&heap, *piece);
            CHECK(heap.pieces.items[*piece - 1].bytes == bytes);
            for (int i = 0; i < PIECES; i++) {
                if (pieces[i] != 0 && &pieces[i] != piece) {
                    const ipu_heap_piece *other = &heap.pieces.items[pieces[i] - 1];
                    CHECK(offset >= other->offset + other->bytes ||
                          other->offset >= offset + bytes);
                }
            }
            most = offset + bytes > most ? offset + bytes : most;
            CHECK(heap.end == most);
            CHECK(heap.end == end || free < bytes + bytes / 16);
        }
        ipu_heap_free(ctx, &heap);
    }
}

static void
test_edges(ipu_ctx *ctx)
{
    ipu_memory_report report;
    CHECK_OK(ctx, ipu_memory_plan(ctx, NULL, 0, &report));
    CHECK(report.slab_bytes == IPU_SLACK_BYTES && report.peak_live_bytes == 0);
    CHECK_OK(ctx, ipu_memory_check(ctx, NULL, 0, report.slab_bytes));
    CHECK(ipu_memory_check(ctx, NULL, 0, 1) == IPU_STATUS_INTERNAL);
    ipu_ctx_clear(ctx);

    /* not live together: one place for both; live in one instruction: two places */
    ipu_buffer two[2] = {{100, 0, 1, 0}, {100, 2, 3, 0}};
    CHECK_OK(ctx, ipu_memory_plan(ctx, two, 2, &report));
    CHECK(two[0].offset == two[1].offset);
    CHECK(report.peak_live_bytes == 128);
    two[1].first = 1;
    CHECK_OK(ctx, ipu_memory_plan(ctx, two, 2, &report));
    CHECK(two[0].offset != two[1].offset);
    CHECK(report.peak_live_bytes == 256 && report.peak_at == 1);

    ipu_buffer backwards = {64, 3, 2, 0};
    CHECK(ipu_memory_plan(ctx, &backwards, 1, &report) == IPU_STATUS_INTERNAL);
    ipu_ctx_clear(ctx);
    ipu_buffer huge[2] = {{SIZE_MAX / 5, 0, 1, 0}, {SIZE_MAX / 5, 0, 1, 0}};
    CHECK(ipu_memory_plan(ctx, huge, 2, &report) == IPU_STATUS_OUT_OF_MEMORY);
    ipu_ctx_clear(ctx);
}

int
main(void)
{
    ipu_ctx ctx;
    ipu_ctx_init(&ctx, ipu_allocator_default());
    test_random(&ctx);
    test_many(&ctx);
    test_heap(&ctx);
    test_edges(&ctx);
    return CHECK_DONE();
}
