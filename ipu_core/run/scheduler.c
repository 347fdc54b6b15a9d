/* SPDX-License-Identifier: MIT
 *
 * Several streams, any number of workers. The streams are a source of work of the pool:
 * a worker takes one that can go on, runs it until it would block, and looks for the
 * next. No worker waits while it has a stream, so two threads run sixteen streams.
 *
 * A stream is READY, RUNNING, BLOCKED, at the END of a step, or OVER (halted, failed,
 * or of a pipeline that is not under way). The lock protects the states. A worker that
 * looks for work asks each blocked stream whether it can go on; a thread that unblocks
 * one (it sent, received, fed or drained) announces that to the pool. When no stream
 * runs and none can go on, the worker that finds this settles it:
 *
 *   - all streams that are not over are at the end of a step: it ends the step;
 *   - a stream has failed: it ends the run. The others have come as far as they can
 *     without the failed one, so what they have done does not depend on time;
 *   - a stream has come to a function of the host's: that is for the thread that runs the
 *     program alone;
 *   - a stream waits for a feeder, a drainer or another process: it leaves the workers
 *     to wait. At a queue, where no stream has written a variable in this step, this
 *     counts as a step's end, and host threads get at the variables: the feeder may be
 *     one of them;
 *   - else nothing will ever change: it reports which stream waits for what. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "run/executor_impl.h"

enum { READY, RUNNING, BLOCKED, END, OVER };

typedef struct schedule {
    ipu_ctx *ctx; /* the run's; an error that is not a stream's */
    ipu_executor *executor;
    uint32_t count;
    ipu_lock *lock; /* protects all below */
    uint8_t *states;
    uint32_t next; /* where to look first */
    uint32_t running;
    bool is_settling; /* a worker ends a step */
    bool has_failed;
    atomic_bool is_over;
} schedule;

static void
finish_locked(schedule *s)
{
    atomic_store(&s->is_over, true);
    ipu_pool_announce(s->executor->pool);
}

/* --- taking and giving back a stream ---------------------------------------------- */

static bool
is_ready(const schedule *s, uint32_t i)
{
    return s->states[i] == READY ||
           (s->states[i] == BLOCKED && ipu__stream_can_go_on(&s->executor->streams[i]));
}

/* The next stream that can go on, in turn; -1: none. */
static int64_t
find_ready_locked(const schedule *s)
{
    for (uint32_t k = 0; k < s->count; k++) {
        uint32_t i = (s->next + k) % s->count;
        if (is_ready(s, i)) {
            return i;
        }
    }
    return -1;
}

static ipu__workspace *
take_workspace_locked(schedule *s)
{
    ipu__workspace *workspace = s->executor->workspaces;
    while (workspace->is_taken) { /* fewer streams run than there are */
        workspace++;
    }
    workspace->is_taken = true;
    return workspace;
}

/* A stream has come to its pipeline: the pipeline's streams can run, and it waits. */
static void
start_children_locked(schedule *s, uint32_t i)
{
    ipu__stream *stream = &s->executor->streams[i];
    const ipu_instruction *pipeline = &stream->code->instructions.items[stream->at];
    uint32_t first = i - stream->number + pipeline->first_stream; /* of its replica */
    for (uint32_t k = 0; k < pipeline->stream_count; k++) {
        s->states[first + k] = READY;
    }
    atomic_store(&stream->children, pipeline->stream_count);
    stream->has_forked = true;
    s->states[i] = BLOCKED;
}

static void
run_stream_locked(schedule *s, uint32_t i)
{
    ipu__stream *stream = &s->executor->streams[i];
    ipu__workspace *workspace = take_workspace_locked(s);
    s->states[i] = RUNNING;
    s->running++;
    s->next = (i + 1) % s->count;
    atomic_store(&stream->is_blocked, false);
    bool is_more =
        s->running < s->executor->workspace_count && find_ready_locked(s) >= 0;
    ipu__wait wait = s->executor->wait;
    s->executor->wait.over_since_ns = 0;
    ipu_lock_drop(s->lock);
    ipu__wait_note(s->executor, wait);
    if (is_more) {
        ipu_pool_announce(s->executor->pool);
    }
    stream->call.workspace = workspace->memory;
    ipu__progress progress = ipu__stream_run(stream);
    ipu_lock_take(s->lock);
    workspace->is_taken = false;
    s->running--;
    switch (progress) {
    case IPU__GOES_ON:
    case IPU__WOULD_BLOCK:
        s->states[i] = BLOCKED;
        atomic_store(&stream->is_blocked, true);
        if (ipu__stream_waits_for_thread(stream)) { /* which may sleep */
            ipu_pool_announce(s->executor->pool);
        }
        break;
    case IPU__STEP_END:
        s->states[i] = END;
        break;
    case IPU__FORKED:
        start_children_locked(s, i);
        break;
    case IPU__FAILED:
        s->has_failed = true;
        s->states[i] = OVER;
        break;
    case IPU__HALTED:
        s->states[i] = OVER;
        if (stream->parent != NULL) {
            atomic_fetch_sub(&stream->parent->children, 1);
        }
        break;
    }
}

/* --- when no stream can go on ----------------------------------------------------- */

static void
report_deadlock(schedule *s)
{
    char list[800] = "";
    char one[160];
    size_t used = 0;
    for (uint32_t i = 0; i < s->count && used + sizeof(one) + 2 < sizeof(list); i++) {
        if (s->states[i] != OVER) {
            ipu__stream_describe(&s->executor->streams[i], one, sizeof(one));
            used += (size_t)snprintf(list + used, sizeof(list) - used, "%s%s",
                                     used == 0 ? "" : "; ", one);
        }
    }
    (void)ipu_ctx_fail(s->ctx, IPU_STATUS_INTERNAL,
                       "the streams of the program wait for each other for ever: %s",
                       list);
}

static void
end_step_locked(schedule *s)
{
    s->is_settling = true;
    ipu_lock_drop(s->lock);
    ipu_status status = ipu__executor_end_step(s->ctx, s->executor);
    ipu_lock_take(s->lock);
    s->is_settling = false;
    for (uint32_t i = 0; i < s->count; i++) {
        if (s->states[i] == END) {
            s->executor->streams[i].has_ended_step = true;
            s->states[i] = READY;
        }
    }
    if (status != IPU_OK) {
        finish_locked(s);
    }
}

/* Whether a host has to do something before the stream can go on, or has just done it:
 * then it announces that. */
static bool
is_for_host(ipu__stream *stream)
{
    return ipu__stream_waits_for_host(stream) || ipu__stream_can_go_on(stream);
}

/* No stream runs and none can: whether there is something to do now. */
static bool
settle_locked(schedule *s)
{
    uint32_t over = 0;
    uint32_t at_end = 0;
    const ipu__stream *for_host = NULL;
    bool is_for_thread = false;
    for (uint32_t i = 0; i < s->count; i++) {
        ipu__stream *stream = &s->executor->streams[i];
        over += s->states[i] == OVER;
        at_end += s->states[i] == END;
        if (s->states[i] == BLOCKED && is_for_host(stream)) {
            for_host = stream;
        }
        is_for_thread |=
            s->states[i] == BLOCKED && ipu__stream_waits_for_thread(stream);
    }
    if (s->has_failed || over == s->count) {
        finish_locked(s);
        return false;
    }
    if (over + at_end == s->count) {
        end_step_locked(s);
        return true;
    }
    if (is_for_thread) { /* it was told when the stream came there */
        return false;
    }
    if (for_host != NULL) {
        ipu__wait_begin(s->executor, for_host);
        ipu__wait_pause(s->executor);
        return false;
    }
    report_deadlock(s);
    finish_locked(s);
    return false;
}

/* --- the source of work ----------------------------------------------------------- */

static bool
work(void *state)
{
    schedule *s = state;
    bool found = false;
    bool is_for_peers = false;
    ipu_peers *peers = s->executor->peers;
    uint64_t ended = peers == NULL ? 0 : ipu_peers_ended(peers);
    ipu_lock_take(s->lock);
    if (!atomic_load(&s->is_over) && !s->is_settling) {
        int64_t ready =
            s->running < s->executor->workspace_count ? find_ready_locked(s) : -1;
        if (ready >= 0 && ipu__wait_end(s->ctx, s->executor) != IPU_OK) {
            finish_locked(s);
        } else if (ready >= 0) {
            run_stream_locked(s, (uint32_t)ready);
            found = true;
        } else if (s->running == 0) {
            found = settle_locked(s);
            is_for_peers = !found && s->executor->wait.since_ns != 0 &&
                           s->executor->wait.kind == IPU_EVENT_PEER_WAIT;
        }
    }
    ipu_lock_drop(s->lock);
    return found || (is_for_peers && ipu_peers_watch(peers, ended));
}

static bool
is_over(void *state)
{
    schedule *s = state;
    return atomic_load(&s->is_over);
}

/* Every few milliseconds, while there is nothing to do. Where streams can go on, or
 * wait for nothing but each other, the end of the step looks at the flag. */
static void
look_for_cancel(void *state)
{
    schedule *s = state;
    ipu_lock_take(s->lock);
    const ipu__wait *wait = &s->executor->wait;
    if (wait->since_ns != 0 && !atomic_load(&s->is_over) && find_ready_locked(s) < 0 &&
        ipu__wait_is_cancelled(s->executor)) {
        (void)ipu_ctx_fail(
            s->ctx, IPU_STATUS_INTERRUPTED, "interrupted while waiting for %s",
            wait->kind == IPU_EVENT_INFEED_WAIT    ? "the infeed's next element"
            : wait->kind == IPU_EVENT_OUTFEED_WAIT ? "room in an outfeed"
                                                   : "other processes");
        finish_locked(s);
    }
    ipu_lock_drop(s->lock);
}

void
ipu__executor_hear(void *state)
{
    const ipu_executor *executor = state;
    ipu_pool_announce(executor->pool);
}

static void
listen_to_queues(ipu_executor *executor, ipu_listener listener)
{
    const ipu_program *program = executor->program;
    for (uint32_t i = 0; i < program->resources.count; i++) {
        ipu_resource_kind kind = program->resources.items[i].kind;
        if (kind == IPU_RESOURCE_INFEED) {
            ipu_infeed_listen(executor->replicas[0].resources[i], listener);
        } else if (kind == IPU_RESOURCE_OUTFEED) {
            ipu_outfeed_listen(executor->replicas[0].resources[i], listener);
        }
    }
}

/* The error of the first stream that has one: the same on every run. */
static ipu_status
first_error(const schedule *s)
{
    for (uint32_t i = 0; i < s->count; i++) {
        const ipu__stream *stream = &s->executor->streams[i];
        if (stream->ctx->status != IPU_OK && s->ctx->status == IPU_OK) {
            (void)ipu_ctx_forward(s->ctx, stream->ctx);
            if (s->ctx->source.file == NULL) {
                s->ctx->source = stream->code->instructions.items[stream->at].source;
            }
        }
        ipu_ctx_clear(stream->ctx);
    }
    return s->ctx->status;
}

ipu_status
ipu__schedule_run(ipu_ctx *ctx, ipu_executor *executor)
{
    schedule s = {.ctx = ctx,
                  .executor = executor,
                  .count = (uint32_t)executor->stream_count,
                  .lock = &executor->lock,
                  .states = executor->states};
    for (uint32_t i = 0; i < s.count; i++) {
        s.states[i] = executor->streams[i].code->is_child ? OVER : READY;
        executor->streams[i].ctx = &executor->contexts[i];
        executor->streams[i].call.ctx = &executor->contexts[i];
        ipu_ctx_init(&executor->contexts[i], ctx->allocator);
    }
    listen_to_queues(executor, (ipu_listener){ipu__executor_hear, executor});
    for (size_t i = 0; i < executor->workspace_count; i++) {
        executor->workspaces[i].is_taken = false;
    }
    ipu_work_source source = {work, is_over, &s};
    ipu_pool_serve(executor->pool, &source, look_for_cancel);
    listen_to_queues(executor, (ipu_listener){0});
    if (executor->wait.is_paused) {
        ipu__device_resume(executor->device);
    }
    return first_error(&s);
}
