/* SPDX-License-Identifier: MIT
 *
 * Requests: what is legal, and who builds it. */
#include "pipeline/schedule_impl.h"

#include <stdio.h>
#include <string.h>

/* Adding a schedule is adding a row, and a builder where neither of the two serves.
 * Grouped: a forward and a backward share a time step, and both hold a micro-batch. */
static const ipu__schedule_row rows[] = {
    {"Grouped", &ipu__lockstep, .departs = IPU__DEPARTS_ALWAYS, .stash_slope = 2,
     .stash_base = 2, .takes_any_count = true},
    {"Interleaved", &ipu__lockstep, .departs = IPU__DEPARTS_WHERE_FREE,
     .stash_slope = 1, .stash_base = 1},
    {"Sequential", &ipu__lockstep, .departs = IPU__DEPARTS_ALONE, .stash_base = 1},
    {"GPipe", &ipu__data_driven, .warms_up_whole = true},
    {"1F1B", &ipu__data_driven, .is_round_robin = false},
    {"Interleaved1F1B", &ipu__data_driven, .is_round_robin = true},
    {"ZeroBubble", &ipu__data_driven, .splits_backward = true},
};

static ipu_status
find_row(ipu_ctx *ctx, const char *name, const ipu__schedule_row **out)
{
    char known[160] = "";
    size_t used = 0;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (strcmp(rows[i].name, name) == 0) {
            *out = &rows[i];
            return IPU_OK;
        }
        used +=
            (size_t)snprintf(known + used, sizeof(known) - used, " '%s'", rows[i].name);
    }
    IPU_FAIL(ctx, VALUE, "there is no pipelining schedule '%s'; there are%s", name,
             known);
}

/* Checks what does not depend on the schedule. */
static ipu_status
measure_request(ipu_ctx *ctx, const ipu_schedule_request *request,
                ipu__schedule_size *out)
{
    uint32_t count = request->stage_count;
    IPU_FAIL_IF(ctx, count == 0, VALUE, "a pipeline needs at least one stage");
    IPU_FAIL_IF(ctx, count > IPU_SCHEDULE_MAX_STAGES, VALUE,
                "a pipeline has at most %d stages, but got %u", IPU_SCHEDULE_MAX_STAGES,
                count);
    *out = (ipu__schedule_size){0, 0};
    for (uint32_t s = 0; s < count; s++) {
        uint32_t ipu = request->ipus[s];
        uint32_t position = ipu__schedule_position(request, s);
        IPU_FAIL_IF(ctx, ipu >= IPU_SCHEDULE_MAX_IPUS, VALUE,
                    "stage %u is mapped to IPU %u, but there are at most %d", s, ipu,
                    IPU_SCHEDULE_MAX_IPUS);
        IPU_FAIL_IF(ctx, position >= count, VALUE,
                    "stage %u stands at position %u of %u stages", s, position, count);
        out->ipus = ipu + 1 > out->ipus ? ipu + 1 : out->ipus;
        out->positions = position + 1 > out->positions ? position + 1 : out->positions;
    }
    bool *is_taken = NULL;
    IPU_TRY(ipu_alloc(ctx, count * sizeof(bool), &is_taken));
    for (uint32_t s = 0; s < count; s++) {
        is_taken[ipu__schedule_position(request, s)] = true;
    }
    uint32_t missing = 0;
    while (missing < out->positions && is_taken[missing]) {
        missing++;
    }
    ipu_free(ctx, is_taken, count * sizeof(bool));
    IPU_FAIL_IF(ctx, missing < out->positions, VALUE,
                "no stage stands at position %u of %u", missing, out->positions);
    return IPU_OK;
}

/* A name of more than one line is the schedule itself, in the text form. */
static bool
is_timetable(const ipu_schedule_request *request)
{
    return strchr(request->name, '\n') != NULL;
}

/* Whether the timetable is that of the request's pipeline. */
static ipu_status
compare_request(ipu_ctx *ctx, const ipu_schedule_request *request,
                const ipu_schedule *schedule)
{
    const char *own = schedule->name;
    IPU_FAIL_IF(ctx, schedule->is_training != request->is_training, FAILED_PRECONDITION,
                "the timetable '%s' is one of %s, but this is %s", own,
                schedule->is_training ? "training" : "inference",
                request->is_training ? "training" : "inference");
    IPU_FAIL_IF(ctx, schedule->stage_count != request->stage_count, FAILED_PRECONDITION,
                "the timetable '%s' is of %u stages, but the pipeline has %u", own,
                schedule->stage_count, request->stage_count);
    IPU_FAIL_IF(ctx, schedule->micro_batches != request->micro_batches,
                FAILED_PRECONDITION,
                "the timetable '%s' is of %u micro-batches, but the pipeline runs %u: "
                "set gradient_accumulation_count=%u",
                own, schedule->micro_batches, request->micro_batches,
                schedule->micro_batches);
    bool is_of_kind[IPU_ACTION_KIND_COUNT] = {false};
    for (uint32_t s = 0; s < request->stage_count; s++) {
        uint32_t position = ipu__schedule_position(request, s);
        IPU_FAIL_IF(ctx, schedule->ipus[s] != request->ipus[s], FAILED_PRECONDITION,
                    "the timetable '%s' has stage %u on IPU %u, but device_mapping has "
                    "it on IPU %u",
                    own, s, schedule->ipus[s], request->ipus[s]);
        IPU_FAIL_IF(ctx, schedule->positions[s] != position, FAILED_PRECONDITION,
                    "the timetable '%s' has stage %u at position %u, but the pipeline "
                    "has it at position %u",
                    own, s, schedule->positions[s], position);
    }
    for (uint32_t ipu = 0; ipu < schedule->ipu_count; ipu++) {
        const ipu_action_list *list = &schedule->lists[ipu];
        for (size_t i = 0; i < list->count; i++) {
            is_of_kind[list->items[i].kind] = true;
        }
    }
    IPU_FAIL_IF(ctx,
                is_of_kind[IPU_ACTION_BACKWARD] && is_of_kind[IPU_ACTION_BACKWARD_WEIGHT],
                UNIMPLEMENTED,
                "the timetable '%s' has whole backward passes (B) and ones in two parts "
                "(I, W): write all of them one way",
                own);
    return IPU_OK;
}

static ipu_status
parse_timetable(ipu_ctx *ctx, const ipu_schedule_request *request, ipu_schedule **out)
{
    ipu_schedule *schedule;
    IPU_TRY(ipu_schedule_parse(ctx, request->name, &schedule));
    if (ipu_schedule_check(ctx, schedule) != IPU_OK ||
        compare_request(ctx, request, schedule) != IPU_OK) {
        ipu_schedule_free(ctx, schedule);
        return ctx->status;
    }
    *out = schedule;
    return IPU_OK;
}

static ipu_status
find_overlap(ipu_ctx *ctx, const ipu_schedule_request *request,
             const ipu__schedule_row **row, uint32_t *out)
{
    ipu__schedule_size size = {0, 0};
    IPU_TRY(find_row(ctx, request->name, row));
    IPU_TRY(measure_request(ctx, request, &size));
    return (*row)->builder->overlap(ctx, *row, request, size, out);
}

ipu_status
ipu_schedule_overlap(ipu_ctx *ctx, const ipu_schedule_request *request, uint32_t *out)
{
    const ipu__schedule_row *row;
    return find_overlap(ctx, request, &row, out);
}

static ipu_status
check_count(ipu_ctx *ctx, const ipu_schedule_request *request,
            const ipu__schedule_row *row, uint32_t overlap)
{
    uint32_t count = request->micro_batches;
    bool is_any = request->overlaps_io && row->takes_any_count;
    uint32_t least = is_any ? overlap + 2 : overlap;
    if (count >= least && (is_any || count % overlap == 0)) {
        return IPU_OK;
    }
    uint32_t below = is_any ? 0 : count - count % overlap;
    uint64_t above = is_any ? least : (uint64_t)below + overlap;
    char nearest[64];
    if (below == 0) {
        snprintf(nearest, sizeof(nearest), "number is %llu", (unsigned long long)above);
    } else {
        snprintf(nearest, sizeof(nearest), "numbers are %u and %llu", below,
                 (unsigned long long)above);
    }
    IPU_FAIL(
        ctx, FAILED_PRECONDITION,
        "The number of iterations of the pipeline must be %s %u, but it is %u. This "
        "number might be called `gradient_accumulation_count`, "
        "`gradient_accumulation_steps_per_replica` or `steps_per_execution`. With "
        "the schedule '%s' and %u stages in %s, the nearest legal %s.",
        is_any || count == 0 ? "at least" : "a multiple of", least, count,
        request->name, request->stage_count,
        request->is_training ? "training" : "inference", nearest);
}

static ipu_status
copy_request(ipu_ctx *ctx, ipu_arena *arena, const ipu_schedule_request *request,
             ipu__schedule_size size, ipu_schedule **out)
{
    uint32_t count = request->stage_count;
    size_t per_stage = count * sizeof(uint32_t);
    ipu_schedule *schedule;
    IPU_TRY(ipu_arena_alloc(ctx, arena, sizeof(*schedule), &schedule));
    IPU_TRY(ipu_arena_text(ctx, arena, request->name, strlen(request->name),
                           &schedule->name));
    IPU_TRY(ipu_arena_alloc(ctx, arena, per_stage, &schedule->ipus));
    IPU_TRY(ipu_arena_alloc(ctx, arena, per_stage, &schedule->positions));
    IPU_TRY(ipu_arena_alloc(ctx, arena, per_stage, &schedule->stash_depths));
    IPU_TRY(ipu_arena_alloc(ctx, arena, size.ipus * sizeof(ipu_action_list),
                            &schedule->lists));
    schedule->stage_count = count;
    schedule->position_count = size.positions;
    schedule->ipu_count = size.ipus;
    schedule->micro_batches = request->micro_batches;
    schedule->is_training = request->is_training;
    for (uint32_t s = 0; s < count; s++) {
        schedule->ipus[s] = request->ipus[s];
        schedule->positions[s] = ipu__schedule_position(request, s);
    }
    *out = schedule;
    return IPU_OK;
}

ipu_status
ipu__schedule_new(ipu_ctx *ctx, const ipu_schedule_request *request, ipu_schedule **out)
{
    ipu__schedule_size size = {0, 0};
    *out = NULL;
    IPU_TRY(measure_request(ctx, request, &size));
    ipu_arena arena = {0};
    ipu_status status = copy_request(ctx, &arena, request, size, out);
    if (status != IPU_OK) {
        ipu_arena_free(ctx, &arena);
        return status;
    }
    (*out)->arena = arena;
    return IPU_OK;
}

void
ipu_schedule_free(ipu_ctx *ctx, ipu_schedule *schedule)
{
    if (schedule != NULL) {
        for (uint32_t i = 0; i < schedule->ipu_count; i++) {
            IPU_ARRAY_FREE(ctx, &schedule->lists[i]);
        }
        ipu_arena arena = schedule->arena; /* the schedule lies in it */
        ipu_arena_free(ctx, &arena);
    }
}

/* Makes room in each IPU's list for all that its stages do. */
static ipu_status
reserve_lists(ipu_ctx *ctx, ipu_schedule *schedule, uint32_t per_micro_batch)
{
    uint64_t each = (uint64_t)per_micro_batch * schedule->micro_batches;
    IPU_FAIL_IF(ctx, each * schedule->stage_count > IPU_SCHEDULE_MAX_ACTIONS,
                RESOURCE_EXHAUSTED,
                "a pipeline's schedule has at most %d actions, but %u stages and %u "
                "micro-batches make %llu",
                IPU_SCHEDULE_MAX_ACTIONS, schedule->stage_count,
                schedule->micro_batches,
                (unsigned long long)(each * schedule->stage_count));
    for (uint32_t i = 0; i < schedule->ipu_count; i++) {
        size_t needed = 0;
        for (uint32_t s = 0; s < schedule->stage_count; s++) {
            needed += schedule->ipus[s] == i ? each : 0;
        }
        IPU_TRY(IPU_ARRAY_RESERVE(ctx, &schedule->lists[i], needed));
    }
    return IPU_OK;
}

static ipu_status
build(ipu_ctx *ctx, const ipu__schedule_row *row, const ipu_schedule_request *request,
      ipu_schedule *schedule)
{
    uint32_t backwards = row->splits_backward ? 2 : 1;
    IPU_TRY(reserve_lists(ctx, schedule, request->is_training ? 1 + backwards : 1));
    IPU_TRY(row->builder->build(ctx, row, request, schedule));
    return ipu_schedule_check(ctx, schedule);
}

ipu_status
ipu_schedule_create(ipu_ctx *ctx, const ipu_schedule_request *request,
                    ipu_schedule **out)
{
    const ipu__schedule_row *row;
    uint32_t overlap;
    *out = NULL;
    if (is_timetable(request)) {
        return parse_timetable(ctx, request, out);
    }
    IPU_TRY(find_overlap(ctx, request, &row, &overlap));
    IPU_TRY(check_count(ctx, request, row, overlap));
    ipu_schedule *schedule;
    IPU_TRY(ipu__schedule_new(ctx, request, &schedule));
    if (build(ctx, row, request, schedule) != IPU_OK) {
        ipu_schedule_free(ctx, schedule);
        return ctx->status;
    }
    *out = schedule;
    return IPU_OK;
}
