/* SPDX-License-Identifier: MIT
 *
 * A pipeline's schedule as data: for each IPU the list of what it runs, in order.
 *
 *     request (name, stages, micro-batches) -> create -> lists -> print, measure, lower
 *                                text form  -> parse  -> check
 *
 * Stages stand at positions; concurrent stages share one. A time step of the timetable
 * is one forward or one backward of a stage, however long it takes. The lists alone
 * say what runs: engines wait for data, not for time steps. The timetable is a proof
 * that they end, and says how many slots a ring between two stages needs. */
#ifndef IPU_PIPELINE_SCHEDULE_H
#define IPU_PIPELINE_SCHEDULE_H

#include "base/arena.h"
#include "base/array.h"

/* X(NAME, letter in text). A backward pass is BACKWARD, or in two parts: the gradients
 * of the stage's inputs, on which the stage before waits, and those of its weights. */
#define IPU_ACTION_LIST(X) \
    X(FORWARD, 'F') \
    X(BACKWARD, 'B') \
    X(BACKWARD_INPUT, 'I') \
    X(BACKWARD_WEIGHT, 'W')

typedef enum ipu_action_kind {
#define X(name, letter) IPU_ACTION_##name,
    IPU_ACTION_LIST(X)
#undef X
        IPU_ACTION_KIND_COUNT
} ipu_action_kind;

/* The letter of a kind, and the kind of a letter: false where there is none. */
char ipu_action_letter(ipu_action_kind kind);
bool ipu_action_of_letter(char letter, ipu_action_kind *out);

typedef struct ipu_action {
    ipu_action_kind kind;
    uint32_t stage;
    uint32_t micro_batch;
    uint32_t time; /* time step of the timetable */
} ipu_action;

typedef IPU_ARRAY(ipu_action) ipu_action_list;

typedef struct ipu_schedule_request {
    const char *name; /* one of the rows of schedules.c; or a whole schedule, which
                         is then parsed, checked and compared with the request */
    uint32_t stage_count;
    const uint32_t *ipus;      /* per stage: its IPU, 0, 1, ... */
    const uint32_t *positions; /* per stage: its place in the pipeline; concurrent
                                  stages share one; NULL: 0, 1, 2, ... */
    uint32_t micro_batches;
    bool is_training;
    /* Data go in and out while tiles compute. Under Grouped two more micro-batches are
     * on their way then, and any number from the overlap length + 2 on is legal. */
    bool overlaps_io;
} ipu_schedule_request;

/* Owns copies of everything. */
typedef struct ipu_schedule {
    ipu_arena arena; /* it lies there itself; its lists do not */
    const char *name;
    uint32_t stage_count;
    uint32_t position_count;
    uint32_t ipu_count; /* the highest one that is used, plus 1 */
    uint32_t micro_batches;
    uint32_t *ipus;      /* per stage */
    uint32_t *positions; /* per stage */
    bool is_training;
    bool is_one_at_a_time; /* an IPU runs at most one micro-batch in a time step */
    uint32_t time_steps;
    /* per stage: how many micro-batches at most are between the beginning of their
     * forward and the end of their (last) backward; 0 in inference */
    uint32_t *stash_depths;
    ipu_action_list *lists; /* per IPU, in the order in which it runs them */
} ipu_schedule;

enum {
    IPU_SCHEDULE_MAX_STAGES = 4096,
    IPU_SCHEDULE_MAX_IPUS = 4096,
    IPU_SCHEDULE_MAX_ACTIONS = 1 << 26, /* 1 GiB of them */
};

/* Builds, and checks with ipu_schedule_check. Fails with
 * - VALUE for a name that is unknown or positions that leave one out;
 * - FAILED_PRECONDITION for an illegal number of micro-batches, or IPUs that the
 *   schedule cannot use;
 * - INVALID_ARGUMENT for a text that is not a schedule, FAILED_PRECONDITION for one of
 *   another pipeline;
 * - UNIMPLEMENTED where Interleaved would train several stages on an IPU, or a text
 *   splits some of its backward passes alone;
 * - RESOURCE_EXHAUSTED for more than IPU_SCHEDULE_MAX_ACTIONS.
 * Free with ipu_schedule_free. */
ipu_status ipu_schedule_create(ipu_ctx *ctx, const ipu_schedule_request *request,
                               ipu_schedule **out);
void ipu_schedule_free(ipu_ctx *ctx, ipu_schedule *schedule);

/* The schedule's overlap length. Legal numbers of micro-batches are its multiples, but
 * see overlaps_io. The request's own number is not looked at. */
ipu_status ipu_schedule_overlap(ipu_ctx *ctx, const ipu_schedule_request *request,
                                uint32_t *out);

/* Whether a list has an action of the kind. */
bool ipu_schedule_has(const ipu_schedule *schedule, ipu_action_kind kind);

/* Of how many micro-batches activations of the stage are kept, beside those that are
 * being processed. */
uint32_t ipu_schedule_fifo_depth(const ipu_schedule *schedule, uint32_t stage);

typedef struct ipu_routine {
    ipu_action_kind kind;
    uint32_t stage;
} ipu_routine;

/* This and what follows wants schedules that were checked.
 *
 * How many slots a ring needs which `writer` fills and `reader` empties, a slot for
 * each micro-batch, when the slot of micro-batch m is m mod *out. No deadlock comes
 * from rings of this size: every step of the timetable finds room in them, so the IPUs'
 * lists get through in whatever order IPUs go on. */
ipu_status ipu_schedule_slots(ipu_ctx *ctx, const ipu_schedule *schedule,
                              ipu_routine writer, ipu_routine reader, uint32_t *out);

typedef struct ipu_schedule_measures {
    uint32_t in_flight; /* micro-batches that are begun and not ended, at most */
    /* The idle share is 1 - busy / slots. Slots are the time steps of each IPU; where
     * forward and backward passes share a time step, those of each routine. */
    uint64_t busy;
    uint64_t slots;
} ipu_schedule_measures;

ipu_status ipu_schedule_measure(ipu_ctx *ctx, const ipu_schedule *schedule,
                                ipu_schedule_measures *out);

/* Proves, and shares no code with what builds schedules: each action is there once, on
 * the IPU of its stage; a forward comes after those of the position before, a backward
 * after its own forward and the backward of the position after, a weight part after
 * its input part; the micro-batches of each routine come in order; an IPU runs one
 * micro-batch at a time where that is claimed, else forwards before backwards; the
 * lists get through without a deadlock; no stage keeps more than stash_depths says.
 * Fails with INVALID_ARGUMENT. */
ipu_status ipu_schedule_check(ipu_ctx *ctx, const ipu_schedule *schedule);

/* The text form, free with ipu_free(ctx, *out, *out_bytes). */
ipu_status ipu_schedule_print(ipu_ctx *ctx, const ipu_schedule *schedule, char **out,
                              size_t *out_bytes);
/* What ipu_schedule_print wrote, or a person. Not checked. INVALID_ARGUMENT with the
 * line where it cannot be read. */
ipu_status ipu_schedule_parse(ipu_ctx *ctx, const char *text, ipu_schedule **out);

#endif
