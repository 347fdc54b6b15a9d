/* SPDX-License-Identifier: MIT
 *
 * The cost of a schedule, counted from its lists. */
#include "pipeline/schedule.h"

#include <string.h>

bool
ipu_schedule_has(const ipu_schedule *schedule, ipu_action_kind kind)
{
    for (uint32_t i = 0; i < schedule->ipu_count; i++) {
        for (size_t k = 0; k < schedule->lists[i].count; k++) {
            if (schedule->lists[i].items[k].kind == kind) {
                return true;
            }
        }
    }
    return false;
}

uint32_t
ipu_schedule_fifo_depth(const ipu_schedule *schedule, uint32_t stage)
{
    uint32_t processed = schedule->is_one_at_a_time ? 1 : 2;
    uint32_t depth = schedule->stash_depths[stage];
    return depth > processed ? depth - processed : 0;
}

/* When a routine runs its micro-batches: positions in its IPU's list, or time steps. */
static void
find_times(const ipu_schedule *schedule, ipu_routine routine, bool is_by_order,
           uint32_t *times)
{
    const ipu_action_list *list = &schedule->lists[schedule->ipus[routine.stage]];
    for (size_t i = 0; i < list->count; i++) {
        const ipu_action *action = &list->items[i];
        if (action->kind == routine.kind && action->stage == routine.stage) {
            times[action->micro_batch] = is_by_order ? (uint32_t)i : action->time;
        }
    }
}

/* Whether the reader may wait for the writer in one time step: stages side by side,
 * forwards the later one for the earlier, backwards the other way round. No waiting in
 * a circle comes from it, as every list has the passes of a step in the same order. */
static bool
is_beside(const ipu_schedule *schedule, ipu_routine writer, ipu_routine reader)
{
    bool is_forward = writer.kind == IPU_ACTION_FORWARD;
    bool is_in_order =
        is_forward ? writer.stage < reader.stage : writer.stage > reader.stage;
    return writer.kind == reader.kind && is_in_order &&
           schedule->positions[writer.stage] == schedule->positions[reader.stage];
}

ipu_status
ipu_schedule_slots(ipu_ctx *ctx, const ipu_schedule *schedule, ipu_routine writer,
                   ipu_routine reader, uint32_t *out)
{
    uint32_t count = schedule->micro_batches;
    uint32_t *written = NULL;
    *out = 0;
    IPU_FAIL_IF(ctx,
                writer.stage >= schedule->stage_count ||
                    reader.stage >= schedule->stage_count,
                INVALID_ARGUMENT, "a ring between stages %u and %u of %u", writer.stage,
                reader.stage, schedule->stage_count);
    IPU_TRY(ipu_alloc(ctx, 2 * sizeof(uint32_t) * count, &written));
    uint32_t *read = written + count;
    /* on one IPU the order of the list is what happens */
    bool is_by_order = schedule->ipus[writer.stage] == schedule->ipus[reader.stage];
    memset(read, 0xff, count * sizeof(uint32_t)); /* never */
    find_times(schedule, writer, is_by_order, written);
    find_times(schedule, reader, is_by_order, read);
    uint32_t least = is_beside(schedule, writer, reader) ? 0 : 1; /* steps between */
    uint32_t gone = 0;
    for (uint32_t m = 0; m < count; m++) {
        if (read[m] < written[m] + least || read[m] == UINT32_MAX) {
            ipu_free(ctx, written, 2 * sizeof(uint32_t) * count);
            IPU_FAIL(ctx, INVALID_ARGUMENT,
                     "stage %u uses a tensor of stage %u, which does not run before "
                     "it. A stage may use what the stages before it make, not what "
                     "later ones and those beside it do",
                     reader.stage, writer.stage);
        }
        while (read[gone] < written[m]) {
            gone++;
        }
        *out = m - gone + 1 > *out ? m - gone + 1 : *out;
    }
    ipu_free(ctx, written, 2 * sizeof(uint32_t) * count);
    return IPU_OK;
}

/* Per micro-batch the first and last time step in which something runs it. */
static ipu_status
count_in_flight(ipu_ctx *ctx, const ipu_schedule *schedule, uint32_t *out)
{
    uint32_t count = schedule->micro_batches;
    /* per time step: how many begin there, less how many ended before it */
    int32_t *change = NULL;
    uint32_t *first = NULL;
    size_t span_bytes = 2 * sizeof(uint32_t) * (size_t)count;
    size_t change_bytes = ((size_t)schedule->time_steps + 1) * sizeof(int32_t);
    if (ipu_alloc(ctx, span_bytes, &first) != IPU_OK ||
        ipu_alloc(ctx, change_bytes, &change) != IPU_OK) {
        goto done;
    }
    uint32_t *last = first + count;
    memset(first, 0xff, count * sizeof(uint32_t));
    for (uint32_t ipu = 0; ipu < schedule->ipu_count; ipu++) {
        for (size_t i = 0; i < schedule->lists[ipu].count; i++) {
            const ipu_action *action = &schedule->lists[ipu].items[i];
            uint32_t m = action->micro_batch;
            first[m] = action->time < first[m] ? action->time : first[m];
            last[m] = action->time > last[m] ? action->time : last[m];
        }
    }
    for (uint32_t m = 0; m < count; m++) {
        change[first[m]]++;
        change[last[m] + 1]--;
    }
    int32_t live = 0;
    for (uint32_t t = 0; t < schedule->time_steps; t++) {
        live += change[t];
        *out = (uint32_t)live > *out ? (uint32_t)live : *out;
    }
done:
    ipu_free(ctx, change, change_bytes);
    ipu_free(ctx, first, span_bytes);
    return ctx->status;
}

ipu_status
ipu_schedule_measure(ipu_ctx *ctx, const ipu_schedule *schedule,
                     ipu_schedule_measures *out)
{
    *out = (ipu_schedule_measures){0};
    IPU_TRY(count_in_flight(ctx, schedule, &out->in_flight));
    for (uint32_t ipu = 0; ipu < schedule->ipu_count; ipu++) {
        const ipu_action_list *list = &schedule->lists[ipu];
        for (size_t i = 0; i < list->count && schedule->is_one_at_a_time; i++) {
            out->busy += i == 0 || list->items[i].time != list->items[i - 1].time;
        }
        out->slots += list->count == 0 ? 0 : schedule->time_steps;
    }
    if (!schedule->is_one_at_a_time) { /* each routine runs each micro-batch once */
        uint64_t routines =
            (uint64_t)schedule->stage_count * (schedule->is_training ? 2 : 1);
        out->busy = routines * schedule->micro_batches;
        out->slots = routines * schedule->time_steps;
    }
    return IPU_OK;
}
