/* SPDX-License-Identifier: MIT
 *
 * Grouped, Interleaved and Sequential. A micro-batch makes one pass in each time step
 * and never waits, so a schedule says only when micro-batches begin: L of them in every
 * round of `passes` time steps, at the same offsets in each.
 *
 *     Grouped      L = passes   offsets 0, 1, 2, ...
 *     Sequential   L = 1        offset 0
 *     Interleaved  as many as fit so that no IPU has two micro-batches in a time step:
 *                  0, 2, 4, ... for the training of N stages on IPUs of their own */
#include "pipeline/schedule_impl.h"

#include <stdlib.h>

/* Marks the distances of passes that one IPU makes: micro-batches so far apart would
 * meet there. */
static ipu_status
mark_conflicts(ipu_ctx *ctx, const ipu_schedule_request *request, uint32_t passes,
               bool *is_conflict)
{
    for (uint32_t a = 0; a < request->stage_count; a++) {
        for (uint32_t b = 0; b < request->stage_count; b++) {
            if (request->ipus[a] != request->ipus[b]) {
                continue;
            }
            IPU_FAIL_IF(
                ctx, request->is_training && a != b, UNIMPLEMENTED,
                "The pipelining schedule 'Interleaved' does not train several "
                "stages on one IPU, but stages %u and %u are both on IPU %u. Map "
                "each stage to an IPU of its own, or use the schedule 'Grouped'.",
                a, b, request->ipus[a]);
            uint32_t from = ipu__schedule_position(request, a);
            uint32_t to = ipu__schedule_position(request, b);
            is_conflict[(to + passes - from) % passes] = true;
            if (request->is_training) {
                uint32_t back = passes - 1 - to;
                is_conflict[(back + passes - from) % passes] = true;
                is_conflict[(from + passes - back) % passes] = true;
            }
        }
    }
    return IPU_OK;
}

/* Takes each offset that meets none of those taken before. */
static uint32_t
choose_offsets(uint32_t passes, const bool *is_conflict, uint32_t *offsets)
{
    uint32_t count = 0;
    for (uint32_t candidate = 0; candidate < passes; candidate++) {
        bool meets = false;
        for (uint32_t i = 0; i < count && !meets; i++) {
            meets = is_conflict[candidate - offsets[i]];
        }
        if (!meets) {
            offsets[count++] = candidate;
        }
    }
    return count;
}

/* offsets has room for `passes`. */
static ipu_status
find_offsets(ipu_ctx *ctx, const ipu__schedule_row *row,
             const ipu_schedule_request *request, uint32_t passes, uint32_t *offsets,
             uint32_t *count)
{
    if (row->departs != IPU__DEPARTS_WHERE_FREE) {
        *count = row->departs == IPU__DEPARTS_ALWAYS ? passes : 1;
        for (uint32_t i = 0; i < *count; i++) {
            offsets[i] = i;
        }
        return IPU_OK;
    }
    bool *is_conflict = NULL;
    IPU_TRY(ipu_alloc(ctx, passes * sizeof(bool), &is_conflict));
    ipu_status status = mark_conflicts(ctx, request, passes, is_conflict);
    if (status == IPU_OK) {
        *count = choose_offsets(passes, is_conflict, offsets);
    }
    ipu_free(ctx, is_conflict, passes * sizeof(bool));
    return status;
}

static ipu_status
find_overlap(ipu_ctx *ctx, const ipu__schedule_row *row,
             const ipu_schedule_request *request, ipu__schedule_size size, uint32_t *out)
{
    uint32_t passes = ipu__schedule_passes(size.positions, request->is_training);
    uint32_t *offsets = NULL;
    IPU_TRY(ipu_alloc(ctx, passes * sizeof(uint32_t), &offsets));
    ipu_status status = find_offsets(ctx, row, request, passes, offsets, out);
    ipu_free(ctx, offsets, passes * sizeof(uint32_t));
    return status;
}

/* The actions of an IPU in each round. */
typedef struct turn {
    uint32_t within; /* time step of the round, */
    uint32_t late;   /* of this round, or the one after that in which it began: 0, 1 */
    uint32_t pass;
    uint32_t stage;
    uint32_t order; /* of the micro-batch among those of its round */
} turn;

static int
compare_turns(const void *left, const void *right)
{
    const turn *a = left;
    const turn *b = right;
    return a->within != b->within ? ipu_compare(a->within, b->within)
           : a->pass != b->pass   ? ipu_compare(a->pass, b->pass)
                                  : ipu_compare(a->stage, b->stage);
}

typedef IPU_ARRAY(turn) turn_list;

static ipu_status
add_turns(ipu_ctx *ctx, turn_list *turns, uint32_t passes, uint32_t pass,
          uint32_t stage, const uint32_t *offsets, uint32_t overlap)
{
    IPU_TRY(IPU_ARRAY_RESERVE(ctx, turns, overlap));
    for (uint32_t i = 0; i < overlap; i++) {
        uint32_t time = offsets[i] + pass;
        turns->items[turns->count++] = (turn){.within = time % passes,
                                              .late = time / passes,
                                              .pass = pass,
                                              .stage = stage,
                                              .order = i};
    }
    return IPU_OK;
}

/* In a time step forwards come before backwards, and those in the order of passes. */
static ipu_status
fill_list(ipu_ctx *ctx, ipu_schedule *schedule, uint32_t ipu, const uint32_t *offsets,
          uint32_t overlap, turn_list *turns)
{
    uint32_t passes =
        ipu__schedule_passes(schedule->position_count, schedule->is_training);
    turns->count = 0;
    for (uint32_t s = 0; s < schedule->stage_count; s++) {
        if (schedule->ipus[s] != ipu) {
            continue;
        }
        uint32_t pass = schedule->positions[s];
        IPU_TRY(add_turns(ctx, turns, passes, pass, s, offsets, overlap));
        if (schedule->is_training) {
            pass = passes - 1 - pass;
            IPU_TRY(add_turns(ctx, turns, passes, pass, s, offsets, overlap));
        }
    }
    if (turns->count == 0) {
        return IPU_OK;
    }
    qsort(turns->items, turns->count, sizeof(turn), compare_turns);
    ipu_action_list *list = &schedule->lists[ipu];
    uint32_t rounds = (schedule->micro_batches + overlap - 1) / overlap;
    for (uint32_t round = 0; round <= rounds; round++) {
        for (size_t i = 0; i < turns->count; i++) {
            const turn *t = &turns->items[i];
            uint32_t micro_batch = (round - t->late) * overlap + t->order;
            if (round < t->late || micro_batch >= schedule->micro_batches) {
                continue;
            }
            list->items[list->count++] = (ipu_action){
                .kind = t->pass < schedule->position_count ? IPU_ACTION_FORWARD
                                                           : IPU_ACTION_BACKWARD,
                .stage = t->stage,
                .micro_batch = micro_batch,
                .time = round * passes + t->within};
        }
    }
    return IPU_OK;
}

static ipu_status
build(ipu_ctx *ctx, const ipu__schedule_row *row, const ipu_schedule_request *request,
      ipu_schedule *schedule)
{
    uint32_t passes =
        ipu__schedule_passes(schedule->position_count, schedule->is_training);
    uint32_t overlap;
    uint32_t *offsets = NULL;
    turn_list turns = {0};
    IPU_TRY(ipu_alloc(ctx, passes * sizeof(uint32_t), &offsets));
    if (find_offsets(ctx, row, request, passes, offsets, &overlap) != IPU_OK) {
        goto done;
    }
    uint32_t last = schedule->micro_batches - 1;
    schedule->is_one_at_a_time = row->departs != IPU__DEPARTS_ALWAYS;
    schedule->time_steps = last / overlap * passes + offsets[last % overlap] + passes;
    for (uint32_t s = 0; schedule->is_training && s < schedule->stage_count; s++) {
        uint32_t after = schedule->position_count - 1 - schedule->positions[s];
        schedule->stash_depths[s] = row->stash_base + row->stash_slope * after;
    }
    for (uint32_t ipu = 0; ipu < schedule->ipu_count; ipu++) {
        if (fill_list(ctx, schedule, ipu, offsets, overlap, &turns) != IPU_OK) {
            goto done;
        }
    }
done:
    IPU_ARRAY_FREE(ctx, &turns);
    ipu_free(ctx, offsets, passes * sizeof(uint32_t));
    return ctx->status;
}

const ipu__schedule_builder ipu__lockstep = {find_overlap, build};
