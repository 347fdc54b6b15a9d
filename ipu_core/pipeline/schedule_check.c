/* SPDX-License-Identifier: MIT
 *
 * The proof that a schedule is right, from its lists alone. Nothing here asks how a
 * schedule was made.
 *
 * The lists are run: an IPU goes on while what its next action waits for is done, and
 * the IPUs that stand beside it in the pipeline are woken. When nobody can go on and a
 * list is not at its end, that is a deadlock. On the way each action's time step is
 * compared with those of what it waits for. */
#include "pipeline/schedule.h"

#include <stdio.h>

enum { NEVER = -1, ACTION_TEXT = 48 };

typedef struct proof {
    const ipu_schedule *schedule;
    /* per stage and kind: how many micro-batches are through, which are 0, 1, 2, ... */
    uint32_t *done;
    uint32_t *times;  /* per stage: of its forwards, then of what its neighbour waits
                         for: its backwards, or their input parts */
    uint32_t *live;   /* per stage: micro-batches that it keeps */
    bool *is_split;   /* per stage: its backward passes come in parts */
    uint32_t *member; /* per position: its last stage, plus 1, */
    uint32_t *before; /* per stage: the one before it at its position, plus 1 */
    size_t *next;     /* per IPU: position in its list */
    uint32_t *woken;  /* IPUs to look at, */
    bool *is_woken;   /* each once */
    uint32_t woken_count;
} proof;

static const char *
action_text(const ipu_action *action, char *text)
{
    snprintf(text, ACTION_TEXT, "%c%u(%u)", ipu_action_letter(action->kind),
             action->stage, action->micro_batch);
    return text;
}

static uint32_t *
done_of(const proof *proof, uint32_t stage, ipu_action_kind kind)
{
    return &proof->done[(size_t)stage * IPU_ACTION_KIND_COUNT + (size_t)kind];
}

/* Two rows a stage: its forwards, and its backwards or their input parts. */
static uint32_t *
time_of(const proof *proof, uint32_t stage, bool is_forward, uint32_t micro_batch)
{
    size_t row = 2 * (size_t)stage + (is_forward ? 0 : 1);
    return &proof->times[row * proof->schedule->micro_batches + micro_batch];
}

/* The kind of action on which the stage before waits. */
static ipu_action_kind
back_kind(const proof *proof, uint32_t stage)
{
    return proof->is_split[stage] ? IPU_ACTION_BACKWARD_INPUT : IPU_ACTION_BACKWARD;
}

/* The time step in which a stage was through with a micro-batch, or NEVER. */
static int64_t
stage_time(const proof *proof, uint32_t stage, bool is_forward, uint32_t micro_batch)
{
    ipu_action_kind kind = is_forward ? IPU_ACTION_FORWARD : back_kind(proof, stage);
    return *done_of(proof, stage, kind) > micro_batch
               ? (int64_t)*time_of(proof, stage, is_forward, micro_batch)
               : NEVER;
}

static ipu_status
check_shape(ipu_ctx *ctx, const ipu_schedule *schedule)
{
    for (uint32_t s = 0; s < schedule->stage_count; s++) {
        IPU_FAIL_IF(ctx, schedule->ipus[s] >= schedule->ipu_count, INVALID_ARGUMENT,
                    "stage %u is on IPU %u of %u", s, schedule->ipus[s],
                    schedule->ipu_count);
        IPU_FAIL_IF(ctx, schedule->positions[s] >= schedule->position_count,
                    INVALID_ARGUMENT, "stage %u stands at position %u of %u", s,
                    schedule->positions[s], schedule->position_count);
    }
    IPU_FAIL_IF(ctx, schedule->position_count > schedule->stage_count, INVALID_ARGUMENT,
                "%u stages at %u positions", schedule->stage_count,
                schedule->position_count);
    IPU_FAIL_IF(ctx, schedule->micro_batches == 0, INVALID_ARGUMENT,
                "a schedule of no micro-batches");
    return IPU_OK;
}

/* Each action by itself. */
static ipu_status
check_action(ipu_ctx *ctx, const ipu_schedule *schedule, uint32_t ipu,
             const ipu_action *action)
{
    char text[ACTION_TEXT];
    IPU_FAIL_IF(ctx, action->kind >= IPU_ACTION_KIND_COUNT, INVALID_ARGUMENT,
                "an action of unknown kind %d on IPU %u", (int)action->kind, ipu);
    IPU_FAIL_IF(ctx, action->stage >= schedule->stage_count, INVALID_ARGUMENT,
                "%s is of no stage: there are %u", action_text(action, text),
                schedule->stage_count);
    IPU_FAIL_IF(ctx, action->micro_batch >= schedule->micro_batches, INVALID_ARGUMENT,
                "%s is of no micro-batch: there are %u", action_text(action, text),
                schedule->micro_batches);
    IPU_FAIL_IF(ctx, schedule->ipus[action->stage] != ipu, INVALID_ARGUMENT,
                "%s is on IPU %u, but its stage is on IPU %u",
                action_text(action, text), ipu, schedule->ipus[action->stage]);
    IPU_FAIL_IF(ctx, !schedule->is_training && action->kind != IPU_ACTION_FORWARD,
                INVALID_ARGUMENT, "%s goes back, but nothing is trained",
                action_text(action, text));
    IPU_FAIL_IF(ctx, action->time >= schedule->time_steps, INVALID_ARGUMENT,
                "%s is in time step %u of %u", action_text(action, text), action->time,
                schedule->time_steps);
    return IPU_OK;
}

/* Two actions that follow each other on an IPU. */
static ipu_status
check_pair(ipu_ctx *ctx, const ipu_schedule *schedule, const ipu_action *before,
           const ipu_action *after)
{
    char first[ACTION_TEXT];
    char second[ACTION_TEXT];
    if (after->time > before->time) {
        return IPU_OK;
    }
    IPU_FAIL_IF(ctx, after->time < before->time, INVALID_ARGUMENT,
                "%s follows %s, but its time step %u lies before %u",
                action_text(after, second), action_text(before, first), after->time,
                before->time);
    bool is_same =
        before->kind == after->kind && before->micro_batch == after->micro_batch &&
        schedule->positions[before->stage] == schedule->positions[after->stage];
    IPU_FAIL_IF(
        ctx, schedule->is_one_at_a_time && !is_same, INVALID_ARGUMENT,
        "%s and %s share time step %u, but an IPU runs one micro-batch at a time",
        action_text(before, first), action_text(after, second), after->time);
    IPU_FAIL_IF(ctx,
                before->kind != IPU_ACTION_FORWARD && after->kind == IPU_ACTION_FORWARD,
                INVALID_ARGUMENT,
                "%s follows %s in time step %u, but forwards come before backwards",
                action_text(after, second), action_text(before, first), after->time);
    return IPU_OK;
}

/* The action is the next one of its routine. */
static ipu_status
check_order(ipu_ctx *ctx, proof *proof, const ipu_action *action)
{
    char text[ACTION_TEXT];
    uint32_t stage = action->stage;
    uint32_t *done = done_of(proof, stage, action->kind);
    IPU_FAIL_IF(ctx, action->micro_batch < *done, INVALID_ARGUMENT, "%s is there twice",
                action_text(action, text));
    IPU_FAIL_IF(ctx, action->micro_batch > *done, INVALID_ARGUMENT,
                "%s comes where micro-batch %u of stage %u is the next one",
                action_text(action, text), *done, stage);
    (*done)++;
    bool is_part = action->kind == IPU_ACTION_BACKWARD_INPUT ||
                   action->kind == IPU_ACTION_BACKWARD_WEIGHT;
    proof->is_split[stage] |= is_part;
    IPU_FAIL_IF(ctx, proof->is_split[stage] && action->kind == IPU_ACTION_BACKWARD,
                INVALID_ARGUMENT, "%s is whole, but others of stage %u come in parts",
                action_text(action, text), stage);
    return IPU_OK;
}

static ipu_status
check_stash(ipu_ctx *ctx, proof *proof, const ipu_action *action)
{
    char text[ACTION_TEXT];
    uint32_t *live = &proof->live[action->stage];
    uint32_t depth = proof->schedule->stash_depths[action->stage];
    if (action->kind == IPU_ACTION_FORWARD) {
        (*live)++;
        IPU_FAIL_IF(ctx, *live > depth, INVALID_ARGUMENT,
                    "at %s stage %u keeps %u micro-batches, but its stash holds %u",
                    action_text(action, text), action->stage, *live, depth);
    } else if (action->kind != IPU_ACTION_BACKWARD_INPUT) {
        IPU_FAIL_IF(ctx, *live == 0, INVALID_ARGUMENT, "%s comes before its forward",
                    action_text(action, text));
        (*live)--;
    }
    return IPU_OK;
}

/* Every routine has every micro-batch. */
static ipu_status
check_counts(ipu_ctx *ctx, const proof *proof)
{
    const ipu_schedule *schedule = proof->schedule;
    for (uint32_t s = 0; s < schedule->stage_count; s++) {
        for (int kind = 0; kind < IPU_ACTION_KIND_COUNT; kind++) {
            bool is_back = kind != IPU_ACTION_FORWARD;
            if (is_back && (!schedule->is_training ||
                            (kind == IPU_ACTION_BACKWARD) == proof->is_split[s])) {
                continue;
            }
            uint32_t done = *done_of(proof, s, (ipu_action_kind)kind);
            IPU_FAIL_IF(ctx, done < schedule->micro_batches, INVALID_ARGUMENT,
                        "%c%u(%u) is missing", ipu_action_letter((ipu_action_kind)kind),
                        s, done);
        }
    }
    return IPU_OK;
}

/* Lists by themselves: what is there, and next to what. */
static ipu_status
check_lists(ipu_ctx *ctx, proof *proof)
{
    const ipu_schedule *schedule = proof->schedule;
    uint32_t last = 0;
    for (uint32_t ipu = 0; ipu < schedule->ipu_count; ipu++) {
        const ipu_action_list *list = &schedule->lists[ipu];
        for (size_t i = 0; i < list->count; i++) {
            const ipu_action *action = &list->items[i];
            IPU_TRY(check_action(ctx, schedule, ipu, action));
            if (i > 0) {
                IPU_TRY(check_pair(ctx, schedule, action - 1, action));
            }
            IPU_TRY(check_order(ctx, proof, action));
            last = action->time > last ? action->time : last;
        }
    }
    IPU_FAIL_IF(ctx, last + 1 < schedule->time_steps, INVALID_ARGUMENT,
                "nothing runs after time step %u, but there are %u", last,
                schedule->time_steps);
    return check_counts(ctx, proof);
}

static ipu_status
check_stashes(ipu_ctx *ctx, proof *proof)
{
    const ipu_schedule *schedule = proof->schedule;
    for (uint32_t ipu = 0; schedule->is_training && ipu < schedule->ipu_count; ipu++) {
        const ipu_action_list *list = &schedule->lists[ipu];
        for (size_t i = 0; i < list->count; i++) {
            IPU_TRY(check_stash(ctx, proof, &list->items[i]));
        }
    }
    return IPU_OK;
}

static void
wake(proof *proof, uint32_t ipu)
{
    if (!proof->is_woken[ipu]) {
        proof->is_woken[ipu] = true;
        proof->woken[proof->woken_count++] = ipu;
    }
}

static void
wake_position(proof *proof, uint32_t position)
{
    for (uint32_t i = proof->member[position]; i != 0; i = proof->before[i - 1]) {
        wake(proof, proof->schedule->ipus[i - 1]);
    }
}

/* The time step in which the last stage at a position was through with a micro-batch,
 * or NEVER. *blocker becomes the stage that was last, or is not through. */
static int64_t
position_time(const proof *proof, uint32_t position, bool is_forward,
              uint32_t micro_batch, uint32_t *blocker)
{
    int64_t latest = NEVER;
    for (uint32_t i = proof->member[position]; i != 0; i = proof->before[i - 1]) {
        uint32_t stage = i - 1;
        int64_t time = stage_time(proof, stage, is_forward, micro_batch);
        if (time == NEVER || time > latest) {
            latest = time;
            *blocker = stage;
        }
        if (time == NEVER) {
            break;
        }
    }
    return latest;
}

/* The wait of an action. */
typedef struct waiting {
    bool is_over;
    ipu_action last; /* what it waits for, or has waited for longest */
    int64_t ready;   /* the first time step in which it may run */
} waiting;

static void
wait_for(waiting *waiting, int64_t time, ipu_action other)
{
    if (waiting->is_over && (time == NEVER || time >= waiting->ready)) {
        *waiting = (struct waiting){time != NEVER, other, time + 1};
    }
}

static waiting
find_waiting(const proof *proof, const ipu_action *action)
{
    const ipu_schedule *schedule = proof->schedule;
    uint32_t stage = action->stage;
    uint32_t position = schedule->positions[stage];
    uint32_t micro_batch = action->micro_batch;
    bool is_forward = action->kind == IPU_ACTION_FORWARD;
    ipu_action other = {.stage = stage, .micro_batch = micro_batch};
    waiting waiting = {.is_over = true};
    if (!is_forward) { /* its own pass before */
        bool is_weight = action->kind == IPU_ACTION_BACKWARD_WEIGHT;
        other.kind = is_weight ? IPU_ACTION_BACKWARD_INPUT : IPU_ACTION_FORWARD;
        wait_for(&waiting, stage_time(proof, stage, !is_weight, micro_batch), other);
    }
    bool is_first =
        is_forward ? position == 0 : position + 1 == schedule->position_count;
    if (!is_first && action->kind != IPU_ACTION_BACKWARD_WEIGHT) {
        position = is_forward ? position - 1 : position + 1;
        int64_t time =
            position_time(proof, position, is_forward, micro_batch, &other.stage);
        other.kind = is_forward ? IPU_ACTION_FORWARD : back_kind(proof, other.stage);
        wait_for(&waiting, time, other);
    }
    return waiting;
}

static void
finish(proof *proof, const ipu_action *action)
{
    const ipu_schedule *schedule = proof->schedule;
    bool is_forward = action->kind == IPU_ACTION_FORWARD;
    uint32_t position = schedule->positions[action->stage];
    (*done_of(proof, action->stage, action->kind))++;
    if (action->kind == IPU_ACTION_BACKWARD_WEIGHT) {
        return; /* nobody else waits for it */
    }
    *time_of(proof, action->stage, is_forward, action->micro_batch) = action->time;
    if (is_forward && position + 1 < schedule->position_count) {
        wake_position(proof, position + 1);
    } else if (!is_forward && position > 0) {
        wake_position(proof, position - 1);
    }
}

static ipu_status
run_ipu(ipu_ctx *ctx, proof *proof, uint32_t ipu)
{
    const ipu_action_list *list = &proof->schedule->lists[ipu];
    while (proof->next[ipu] < list->count) {
        const ipu_action *action = &list->items[proof->next[ipu]];
        waiting waiting = find_waiting(proof, action);
        if (!waiting.is_over) {
            return IPU_OK;
        }
        char first[ACTION_TEXT];
        char second[ACTION_TEXT];
        IPU_FAIL_IF(
            ctx, action->time < waiting.ready, INVALID_ARGUMENT,
            "%s is in time step %u, but %s, which it waits for, in time step %u",
            action_text(action, first), action->time,
            action_text(&waiting.last, second), (uint32_t)(waiting.ready - 1));
        finish(proof, action);
        proof->next[ipu]++;
    }
    return IPU_OK;
}

/* Fails if a list is not at its end, with who waits for what. */
static ipu_status
check_ends(ipu_ctx *ctx, const proof *proof)
{
    const ipu_schedule *schedule = proof->schedule;
    char waits[600];
    size_t length = 0;
    for (uint32_t ipu = 0; ipu < schedule->ipu_count; ipu++) {
        if (proof->next[ipu] == schedule->lists[ipu].count) {
            continue;
        }
        char first[ACTION_TEXT];
        char second[ACTION_TEXT];
        const ipu_action *action = &schedule->lists[ipu].items[proof->next[ipu]];
        waiting waiting = find_waiting(proof, action);
        int more =
            snprintf(waits + length, sizeof(waits) - length,
                     "%s IPU %u is at %s and waits for %s", length == 0 ? "" : ";", ipu,
                     action_text(action, first), action_text(&waiting.last, second));
        if ((size_t)more >= sizeof(waits) - length) {
            waits[length] = '\0';
            break;
        }
        length += (size_t)more;
    }
    IPU_FAIL_IF(ctx, length > 0, INVALID_ARGUMENT, "the schedule never ends:%s", waits);
    return IPU_OK;
}

/* Runs the lists, after check_lists. */
static ipu_status
run_lists(ipu_ctx *ctx, proof *proof)
{
    const ipu_schedule *schedule = proof->schedule;
    for (size_t i = 0; i < (size_t)schedule->stage_count * IPU_ACTION_KIND_COUNT; i++) {
        proof->done[i] = 0;
    }
    for (uint32_t ipu = 0; ipu < schedule->ipu_count; ipu++) {
        wake(proof, ipu);
    }
    while (proof->woken_count > 0) {
        uint32_t ipu = proof->woken[--proof->woken_count];
        proof->is_woken[ipu] = false;
        IPU_TRY(run_ipu(ctx, proof, ipu));
    }
    return check_ends(ctx, proof);
}

static void
find_members(proof *proof)
{
    const ipu_schedule *schedule = proof->schedule;
    for (uint32_t s = 0; s < schedule->stage_count; s++) {
        uint32_t *member = &proof->member[schedule->positions[s]];
        proof->before[s] = *member;
        *member = s + 1;
    }
}

static ipu_status
make_room(ipu_ctx *ctx, ipu_arena *arena, proof *proof)
{
    size_t stages = proof->schedule->stage_count;
    size_t ipus = proof->schedule->ipu_count;
    size_t per_stage = stages * sizeof(uint32_t);
    IPU_TRY(
        ipu_arena_alloc(ctx, arena, IPU_ACTION_KIND_COUNT * per_stage, &proof->done));
    IPU_TRY(ipu_arena_alloc(ctx, arena, per_stage, &proof->live));
    IPU_TRY(ipu_arena_alloc(ctx, arena, per_stage, &proof->member));
    IPU_TRY(ipu_arena_alloc(ctx, arena, per_stage, &proof->before));
    IPU_TRY(ipu_arena_alloc(ctx, arena, stages * sizeof(bool), &proof->is_split));
    IPU_TRY(ipu_arena_alloc(ctx, arena, ipus * sizeof(size_t), &proof->next));
    IPU_TRY(ipu_arena_alloc(ctx, arena, ipus * sizeof(uint32_t), &proof->woken));
    return ipu_arena_alloc(ctx, arena, ipus * sizeof(bool), &proof->is_woken);
}

/* Only once all actions are known to be there: their number is not taken on trust. */
static ipu_status
make_room_for_times(ipu_ctx *ctx, ipu_arena *arena, proof *proof)
{
    size_t bytes;
    IPU_TRY(ipu_mul_size(ctx, 2 * (size_t)proof->schedule->stage_count,
                         proof->schedule->micro_batches * sizeof(uint32_t), &bytes));
    return ipu_arena_alloc(ctx, arena, bytes, &proof->times);
}

ipu_status
ipu_schedule_check(ipu_ctx *ctx, const ipu_schedule *schedule)
{
    IPU_TRY(check_shape(ctx, schedule));
    proof proof = {.schedule = schedule};
    ipu_arena arena = {0};
    if (make_room(ctx, &arena, &proof) == IPU_OK) {
        find_members(&proof);
        if (check_lists(ctx, &proof) == IPU_OK &&
            check_stashes(ctx, &proof) == IPU_OK &&
            make_room_for_times(ctx, &arena, &proof) == IPU_OK) {
            run_lists(ctx, &proof);
        }
    }
    ipu_arena_free(ctx, &arena);
    return ctx->status;
}
