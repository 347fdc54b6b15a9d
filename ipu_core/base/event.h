/* SPDX-License-Identifier: MIT
 *
 * The event recorder: what threads do when, for profiles and timetables.
 *
 * An event is a span of time on a thread. It is written once, when the span ends, into
 * the thread's own ring: no thread waits for another one, and nothing is lost but the
 * oldest events of a ring that is full. A reader of the events copies the rings, at
 * best when nothing runs any more.
 *
 * There is one recorder for the process: events come from threads that know nothing of
 * each other, and are compared on one clock. While nobody records, the price of a hook
 * is the test of ipu_event_is_on. An event's subject is a number that the recorder does
 * not look into. Any thread that holds no ipu_lock. */
#ifndef IPU_BASE_EVENT_H
#define IPU_BASE_EVENT_H

#include <stdatomic.h>

#include "base/clock.h"
#include "base/ctx.h"

/* X(NAME, text, what the span is, `a`, `b`) */
#define IPU_EVENT_LIST(X) \
    X(RUN, run, "a run of a program", "", "") \
    X(STEP, step, "a step of a run", "which of the run", "") \
    X(INSTRUCTION, instruction, "an instruction", "dequeue: elements ready", "") \
    X(JOB, job, "a job of the pool, on the thread that cut it into tasks", \
      "ns before its own first task", "ns it waited for the others") \
    X(PART, part, "a thread's part of a kernel, in a region", \
      "1: the kernel's first, except the region's first kernel", \
      "the region's first instruction") \
    X(TASKS, tasks, "tasks of another thread's job", "how many", "") \
    X(TASK, task, "a task of a job, where jobs are rehearsed", "which", "of how many") \
    X(WAIT, wait, "the wait for a stream that can go on", "", "") \
    X(INFEED_WAIT, infeed_wait, "the wait for an element", "", "") \
    X(OUTFEED_WAIT, outfeed_wait, "the wait for room in an outfeed", "", "") \
    X(PEER_WAIT, peer_wait, "the wait for other processes", "", "") \
    X(ACTION, action, "an action of a pipeline", "replica", "") \
    X(FILL, fill, "the making of a data set's element", "", "") \
    X(ROOM, room, "the wait for room in an infeed, or to be read ahead", "", "") \
    X(DRAIN, drain, "results taken out of an outfeed", "how many", "")

typedef enum ipu_event_kind {
#define X(name, text, what, a, b) IPU_EVENT_##name,
    IPU_EVENT_LIST(X)
#undef X
        IPU_EVENT_KIND_COUNT
} ipu_event_kind;

typedef struct ipu_event {
    uint64_t begin_ns;
    uint64_t length_and_kind; /* ns in the upper 56 bits */
    uint64_t subject;
    uint32_t a;
    uint32_t b;
} ipu_event;

/* The purpose of a thread. */
#define IPU_ROLE_LIST(X) \
    X(OTHER, thread) \
    X(WORKER, worker) X(FEEDER, feeder) X(READER, reader) X(DRAINER, drainer)

typedef enum ipu_role {
#define X(name, text) IPU_ROLE_##name,
    IPU_ROLE_LIST(X)
#undef X
} ipu_role;

/* --- writing ---------------------------------------------------------------------- */

/* A bit for each kind that is recorded now. The recorder's own. */
extern atomic_uint ipu__event_mask;

static inline bool
ipu_event_is_on(ipu_event_kind kind)
{
    return atomic_load_explicit(&ipu__event_mask, memory_order_relaxed) >> kind & 1;
}

/* The time, or 0 where the kind is not recorded now. */
static inline uint64_t
ipu_event_begin(ipu_event_kind kind)
{
    return ipu_event_is_on(kind) ? ipu_now_ns() : 0;
}

/* A span from begin_ns to end_ns on the calling thread; nothing where begin_ns is 0. */
void ipu_event_note(ipu_event_kind kind, uint64_t subject, uint64_t begin_ns,
                    uint64_t end_ns, uint32_t a, uint32_t b);

/* The same to now. */
static inline void
ipu_event_end(ipu_event_kind kind, uint64_t subject, uint64_t begin_ns, uint32_t a,
              uint32_t b)
{
    if (begin_ns != 0) {
        ipu_event_note(kind, subject, begin_ns, ipu_now_ns(), a, b);
    }
}

/* What the calling thread is at, so that jobs and other spans inside of it know; 0:
 * nothing that is recorded. Costs more than a test: ask first whether recording is on.
 */
void ipu_event_set_subject(uint64_t subject);
uint64_t ipu_event_subject(void);

/* The calling thread's role, and its number among those; once, when it starts. */
void ipu_event_name_thread(ipu_role role, int32_t number);

/* A number for what has events: never 0. */
uint32_t ipu_event_new_id(void);

/* --- recording -------------------------------------------------------------------- */

/* All kinds. Forgets what was recorded before. Each thread keeps the newest `events`
 * spans, and for each program the steps from first_step on, before end_step.
 * FAILED_PRECONDITION where recording is on. */
ipu_status ipu_recorder_start(ipu_ctx *ctx, size_t events, uint64_t first_step,
                              uint64_t end_step);
void ipu_recorder_stop(void);

/* Tells recordings of all kinds apart; 0 before the first one. */
uint32_t ipu_recorder_generation(void);
/* Whether a program's step of this number, counted since the start, is recorded. */
bool ipu_recorder_has_step(uint64_t step);

/* One thread's. */
typedef struct ipu_track {
    ipu_role role;
    int32_t number;
    uint64_t thread; /* the system's id of it */
    uint64_t lost;   /* events that were overwritten */
    size_t count;
    size_t room;
    ipu_event *events; /* in the order of their ends */
} ipu_track;

typedef struct ipu_recording {
    size_t count;
    size_t room;
    ipu_track *tracks;
    uint64_t clock_ns; /* what reading the clock takes */
} ipu_recording;

/* Copies what there is since the last start, also while recording is on. Free with
 * ipu_recording_free. */
ipu_status ipu_recording_take(ipu_ctx *ctx, ipu_recording *out);
void ipu_recording_free(ipu_ctx *ctx, ipu_recording *recording);

#endif
