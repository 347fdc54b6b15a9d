/* SPDX-License-Identifier: MIT
 *
 * GPipe, 1F1B, Interleaved1F1B and ZeroBubble. A line is a sequence of actions whose
 * next one follows from how many forwards, backwards and weight parts it has done. Each
 * stage has a line; where the schedule says how an IPU's stages take turns, each IPU.
 * Time steps come from running the lines: in each, an IPU runs one of its stages' next
 * actions, if the data of one is there.
 *
 * Sources: Huang et al., "GPipe" (2019); Narayanan et al., "PipeDream" (2019), without
 * its stale weights, and "Efficient Large-Scale Language Model Training on GPU
 * Clusters" (2021) for 1F1B over several stages of an IPU; Qi et al., "Zero Bubble
 * Pipeline Parallelism" (2024) for the one they call ZB-H1. */
#include "pipeline/schedule_impl.h"

typedef struct line {
    uint32_t ipu;
    uint32_t first_stage; /* the others, if any, are each `ipus` further on */
    uint32_t stages;
    uint32_t group; /* so many micro-batches go through a stage before the next one's */
    uint32_t total; /* forwards: micro-batches x stages */
    uint32_t warm;  /* how many forwards may be ahead of the backwards */
    uint32_t lag;   /* how many weight parts are left behind the backwards */
    uint32_t held;  /* how many forwards may be ahead of the weight parts */
    uint32_t forwards;
    uint32_t backwards;
    uint32_t weights;
} line;

typedef struct work {
    ipu_schedule *schedule;
    bool is_split;
    line *lines; /* by IPU */
    uint32_t line_count;
    uint32_t *line_of_ipu; /* per IPU its first line; one more at the end */
    uint32_t *members;     /* stages by position */
    uint32_t *member_of;   /* per position its first member; one more at the end */
    /* per stage, how many micro-batches are through, before this time step */
    uint32_t *forwards;
    uint32_t *backwards;
    uint32_t *weights;
    uint32_t *chosen; /* lines that do something in this time step: `count` of them */
    uint32_t count;
} work;

static bool
is_alone_in_turn(const ipu_schedule_request *request, uint32_t ipus, uint32_t *stage)
{
    for (uint32_t s = 0; s < request->stage_count; s++) {
        *stage = s;
        if (request->ipus[s] != s % ipus || ipu__schedule_position(request, s) != s) {
            return false;
        }
    }
    return true;
}

static ipu_status
find_overlap(ipu_ctx *ctx, const ipu__schedule_row *row,
             const ipu_schedule_request *request, ipu__schedule_size size, uint32_t *out)
{
    *out = 1;
    if (!row->is_round_robin) {
        return IPU_OK;
    }
    uint32_t ipus = size.ipus;
    uint32_t stage;
    IPU_FAIL_IF(
        ctx, !is_alone_in_turn(request, ipus, &stage), FAILED_PRECONDITION,
        "The pipelining schedule 'Interleaved1F1B' deals stages out to IPUs in "
        "turn, one stage at each position: with %u IPUs stage %u belongs on IPU "
        "%u, but it is on IPU %u%s. Change the device mapping, or use the "
        "schedule '1F1B'.",
        ipus, stage, stage % ipus, request->ipus[stage],
        ipu__schedule_position(request, stage) == stage ? "" : ", beside another one");
    IPU_FAIL_IF(
        ctx, size.positions % ipus != 0, FAILED_PRECONDITION,
        "The pipelining schedule 'Interleaved1F1B' needs the same number of stages on "
        "each IPU, but got %u stages for %u IPUs. Change the number of stages, or use "
        "the schedule '1F1B'.",
        size.positions, ipus);
    *out = size.positions > ipus ? ipus : 1;
    return IPU_OK;
}

/* 1F1B over several stages of an IPU: forwards go through groups of as many
 * micro-batches as there are IPUs, stage by stage; backwards likewise, from the last
 * stage on. */
static line
line_of_ipu(const ipu_schedule *schedule, uint32_t ipu)
{
    uint32_t ipus = schedule->ipu_count;
    uint32_t stages = schedule->stage_count / ipus;
    uint32_t behind = ipus - 1 - ipu;
    return (line){.ipu = ipu,
                  .first_stage = ipu,
                  .stages = stages,
                  .group = ipus,
                  .total = stages * schedule->micro_batches,
                  .warm = 2 * behind + (stages - 1) * ipus + 1,
                  .held = UINT32_MAX};
}

static line
line_of_stage(const ipu__schedule_row *row, const ipu_schedule *schedule,
              uint32_t stage)
{
    uint32_t positions = schedule->position_count;
    uint32_t position = schedule->positions[stage];
    bool is_split = row->splits_backward;
    return (line){.ipu = schedule->ipus[stage],
                  .first_stage = stage,
                  .stages = 1,
                  .group = 1,
                  .total = schedule->micro_batches,
                  .warm = row->warms_up_whole ? UINT32_MAX : positions - position,
                  .lag = is_split ? position : 0,
                  .held = is_split ? positions : UINT32_MAX};
}

/* Of the line's next action: false at its end. */
static bool
next_kind(const work *work, const line *line, ipu_action_kind *out)
{
    bool is_training = work->schedule->is_training;
    bool is_forward_left = line->forwards < line->total;
    if (!is_training) {
        *out = IPU_ACTION_FORWARD;
        return is_forward_left;
    }
    if (work->is_split && line->weights < line->backwards &&
        (line->backwards - line->weights > line->lag ||
         line->backwards == line->total)) {
        *out = IPU_ACTION_BACKWARD_WEIGHT;
    } else if (is_forward_left && line->forwards - line->backwards < line->warm &&
               line->forwards - line->weights < line->held) {
        *out = IPU_ACTION_FORWARD;
    } else {
        *out = work->is_split ? IPU_ACTION_BACKWARD_INPUT : IPU_ACTION_BACKWARD;
        return line->backwards < line->total;
    }
    return true;
}

/* Stage and micro-batch of the line's n-th forward or backward. */
static void
locate(const work *work, const line *line, uint32_t n, bool is_forward,
       ipu_action *action)
{
    uint32_t step = n / line->group % line->stages;
    uint32_t chunk = is_forward ? step : line->stages - 1 - step;
    action->stage = line->first_stage + chunk * work->schedule->ipu_count;
    action->micro_batch =
        n / (line->group * line->stages) * line->group + n % line->group;
}

static bool
next_action(const work *work, const line *line, ipu_action *out)
{
    if (!next_kind(work, line, &out->kind)) {
        return false;
    }
    uint32_t done = out->kind == IPU_ACTION_FORWARD           ? line->forwards
                    : out->kind == IPU_ACTION_BACKWARD_WEIGHT ? line->weights
                                                              : line->backwards;
    locate(work, line, done, out->kind == IPU_ACTION_FORWARD, out);
    return true;
}

/* Whether all stages at a position are through with a micro-batch. */
static bool
are_through(const work *work, uint32_t position, const uint32_t *done,
            uint32_t micro_batch)
{
    for (uint32_t i = work->member_of[position]; i < work->member_of[position + 1];
         i++) {
        if (done[work->members[i]] <= micro_batch) {
            return false;
        }
    }
    return true;
}

static bool
is_ready(const work *work, const ipu_action *action)
{
    const ipu_schedule *schedule = work->schedule;
    uint32_t position = schedule->positions[action->stage];
    uint32_t micro_batch = action->micro_batch;
    switch (action->kind) {
    case IPU_ACTION_FORWARD:
        return position == 0 ||
               are_through(work, position - 1, work->forwards, micro_batch);
    case IPU_ACTION_BACKWARD_WEIGHT:
        return work->backwards[action->stage] > micro_batch;
    default:
        return work->forwards[action->stage] > micro_batch &&
               (position + 1 == schedule->position_count ||
                are_through(work, position + 1, work->backwards, micro_batch));
    }
}

/* Which of two ready actions an IPU runs: what others wait for and what frees most
 * first, so the way back, of the oldest micro-batch. */
static bool
is_before(const ipu_action *a, const ipu_action *b)
{
    static const int rank[] = {[IPU_ACTION_BACKWARD] = 0,
                               [IPU_ACTION_BACKWARD_INPUT] = 0,
                               [IPU_ACTION_FORWARD] = 1,
                               [IPU_ACTION_BACKWARD_WEIGHT] = 2};
    if (rank[a->kind] != rank[b->kind]) {
        return rank[a->kind] < rank[b->kind];
    }
    return a->micro_batch < b->micro_batch;
}

/* Adds to the IPU's list what it does in this time step, if anything. */
static void
choose(work *work, uint32_t ipu, uint32_t time)
{
    ipu_action best = {0};
    uint32_t chosen = IPU_SCHEDULE_MAX_STAGES;
    for (uint32_t i = work->line_of_ipu[ipu]; i < work->line_of_ipu[ipu + 1]; i++) {
        ipu_action action = {.time = time};
        if (next_action(work, &work->lines[i], &action) && is_ready(work, &action) &&
            (chosen == IPU_SCHEDULE_MAX_STAGES || is_before(&action, &best))) {
            best = action;
            chosen = i;
        }
    }
    if (chosen != IPU_SCHEDULE_MAX_STAGES) {
        ipu_action_list *list = &work->schedule->lists[ipu];
        list->items[list->count++] = best;
        work->chosen[work->count++] = chosen;
    }
}

/* The chosen actions are done at the end of the time step. */
static void
finish_chosen(work *work)
{
    ipu_schedule *schedule = work->schedule;
    for (size_t i = 0; i < work->count; i++) {
        line *line = &work->lines[work->chosen[i]];
        const ipu_action_list *list = &schedule->lists[line->ipu];
        const ipu_action *action = &list->items[list->count - 1];
        uint32_t stage = action->stage;
        switch (action->kind) {
        case IPU_ACTION_FORWARD:
            line->forwards++;
            work->forwards[stage]++;
            break;
        case IPU_ACTION_BACKWARD_WEIGHT:
            line->weights++;
            work->weights[stage]++;
            break;
        case IPU_ACTION_BACKWARD:
            line->weights++;
            work->weights[stage]++;
            /* fall through */
        default:
            line->backwards++;
            work->backwards[stage]++;
            break;
        }
        if (schedule->is_training && action->kind == IPU_ACTION_FORWARD) {
            uint32_t live = work->forwards[stage] - work->weights[stage];
            uint32_t *depth = &schedule->stash_depths[stage];
            *depth = live > *depth ? live : *depth;
        }
    }
}

static void
run_lines(work *work)
{
    for (uint32_t time = 0;; time++) {
        work->count = 0;
        for (uint32_t ipu = 0; ipu < work->schedule->ipu_count; ipu++) {
            choose(work, ipu, time);
        }
        if (work->count == 0) {
            work->schedule->time_steps = time;
            return;
        }
        finish_chosen(work);
    }
}

/* Stages in the order of their keys, and where those of each key begin. */
static void
sort_stages(const uint32_t *keys, uint32_t count, uint32_t key_count, uint32_t *sorted,
            uint32_t *first)
{
    uint32_t filled = 0;
    for (uint32_t key = 0; key < key_count; key++) {
        first[key] = filled;
        for (uint32_t s = 0; s < count; s++) {
            if (keys[s] == key) {
                sorted[filled++] = s;
            }
        }
    }
    first[key_count] = filled;
}

static void
make_lines(const ipu__schedule_row *row, work *work, const uint32_t *by_ipu)
{
    ipu_schedule *schedule = work->schedule;
    bool takes_turns =
        row->is_round_robin && schedule->stage_count > schedule->ipu_count;
    work->line_count = takes_turns ? schedule->ipu_count : schedule->stage_count;
    for (uint32_t i = 0; i < work->line_count; i++) {
        work->lines[i] = takes_turns ? line_of_ipu(schedule, i)
                                     : line_of_stage(row, schedule, by_ipu[i]);
    }
    for (uint32_t i = 0; takes_turns && i <= schedule->ipu_count; i++) {
        work->line_of_ipu[i] = i;
    }
}

static ipu_status
new_numbers(ipu_ctx *ctx, ipu_arena *arena, uint32_t count, uint32_t **out)
{
    return ipu_arena_array(ctx, arena, count, sizeof(uint32_t), out);
}

static ipu_status
build_lines(ipu_ctx *ctx, ipu_arena *arena, const ipu__schedule_row *row,
            ipu_schedule *schedule)
{
    uint32_t stages = schedule->stage_count;
    uint32_t ipus = schedule->ipu_count;
    work work = {.schedule = schedule, .is_split = row->splits_backward};
    uint32_t *by_ipu;
    IPU_TRY(new_numbers(ctx, arena, stages, &by_ipu));
    IPU_TRY(new_numbers(ctx, arena, stages, &work.members));
    IPU_TRY(new_numbers(ctx, arena, stages + 1, &work.member_of));
    IPU_TRY(new_numbers(ctx, arena, stages, &work.forwards));
    IPU_TRY(new_numbers(ctx, arena, stages, &work.backwards));
    IPU_TRY(new_numbers(ctx, arena, stages, &work.weights));
    IPU_TRY(new_numbers(ctx, arena, ipus, &work.chosen));
    IPU_TRY(new_numbers(ctx, arena, ipus + 1, &work.line_of_ipu));
    IPU_TRY(ipu_arena_array(ctx, arena, stages, sizeof(line), &work.lines));
    sort_stages(schedule->ipus, stages, ipus, by_ipu, work.line_of_ipu);
    sort_stages(schedule->positions, stages, schedule->position_count, work.members,
                work.member_of);
    make_lines(row, &work, by_ipu);
    schedule->is_one_at_a_time = true;
    run_lines(&work);
    return IPU_OK;
}

static ipu_status
build(ipu_ctx *ctx, const ipu__schedule_row *row, const ipu_schedule_request *request,
      ipu_schedule *schedule)
{
    ipu_arena arena = {0};
    (void)request;
    ipu_status status = build_lines(ctx, &arena, row, schedule);
    ipu_arena_free(ctx, &arena);
    return status;
}

const ipu__schedule_builder ipu__data_driven = {find_overlap, build};
