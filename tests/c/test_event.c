/* SPDX-License-Identifier: MIT
 *
 * base/event: rings that overflow, readers at the same time as writers, threads that
 * come and go and leave nothing, recordings one after the other, fork(). */
#define _GNU_SOURCE
#include "base/event.h"
#include "base/thread.h"
#include "check.h"
#include "shared.h"

#include <malloc.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

static ipu_event_kind
kind_of(const ipu_event *event)
{
    return (ipu_event_kind)(event->length_and_kind & 0xff);
}

static const ipu_track *
track_of(const ipu_recording *recording, ipu_role role, int32_t number)
{
    for (size_t i = 0; i < recording->count; i++) {
        const ipu_track *track = &recording->tracks[i];
        if (track->role == role && track->number == number) {
            return track;
        }
    }
    return NULL;
}

static void
test_off(void)
{
    ipu_ctx ctx = fresh();
    ipu_recording recording;
    CHECK(!ipu_event_is_on(IPU_EVENT_STEP));
    CHECK(ipu_event_begin(IPU_EVENT_STEP) == 0);
    ipu_event_note(IPU_EVENT_STEP, 1, 1, 2, 0, 0);
    CHECK_OK(&ctx, ipu_recording_take(&ctx, &recording));
    CHECK(recording.count == 0);
    ipu_recording_free(&ctx, &recording);
}

static void
test_what_is_written_is_read(void)
{
    ipu_ctx ctx = fresh();
    ipu_recording recording;
    CHECK_OK(&ctx, ipu_recorder_start(&ctx, 8, 3, 5));
    CHECK(!ipu_recorder_has_step(2) && ipu_recorder_has_step(3));
    CHECK(ipu_recorder_has_step(4) && !ipu_recorder_has_step(5));
    CHECK(ipu_recorder_start(&ctx, 8, 0, 1) == IPU_STATUS_FAILED_PRECONDITION);
    ipu_ctx_clear(&ctx);
    CHECK(ipu_event_begin(IPU_EVENT_STEP) != 0);
    ipu_event_note(IPU_EVENT_STEP, 42, 0, 2, 0, 0); /* it began unrecorded */
    ipu_event_note(IPU_EVENT_STEP, 42, 100, 350, 7, 8);
    ipu_recorder_stop();
    ipu_event_note(IPU_EVENT_STEP, 42, 100, 350, 7, 8);
    CHECK_OK(&ctx, ipu_recording_take(&ctx, &recording));
    const ipu_track *track = track_of(&recording, IPU_ROLE_OTHER, 0);
    CHECK(track != NULL && track->count == 1 && track->lost == 0);
    if (track != NULL && track->count == 1) {
        const ipu_event *event = &track->events[0];
        CHECK(event->begin_ns == 100 && event->length_and_kind >> 8 == 250);
        CHECK(kind_of(event) == IPU_EVENT_STEP && event->subject == 42);
        CHECK(event->a == 7 && event->b == 8);
    }
    ipu_recording_free(&ctx, &recording);
    CHECK(ipu_recorder_start(&ctx, 0, 0, 1) == IPU_STATUS_VALUE);
    CHECK(!ipu_event_is_on(IPU_EVENT_STEP));
}

static void
test_the_newest_are_kept(void)
{
    ipu_ctx ctx = fresh();
    ipu_recording recording;
    CHECK_OK(&ctx, ipu_recorder_start(&ctx, 8, 0, 1));
    for (uint64_t i = 1; i <= 20; i++) {
        ipu_event_note(IPU_EVENT_STEP, i, i, i + 1, 0, 0);
    }
    ipu_recorder_stop();
    CHECK_OK(&ctx, ipu_recording_take(&ctx, &recording));
    const ipu_track *track = track_of(&recording, IPU_ROLE_OTHER, 0);
    CHECK(track != NULL && track->count == 8 && track->lost == 12);
    for (size_t i = 0; track != NULL && i < track->count; i++) {
        CHECK(track->events[i].subject == 13 + i);
    }
    ipu_recording_free(&ctx, &recording);
    /* a new recording begins with nothing, with rings of its own size */
    CHECK_OK(&ctx, ipu_recorder_start(&ctx, 3, 0, 1));
    ipu_event_note(IPU_EVENT_STEP, 99, 1, 2, 0, 0);
    ipu_recorder_stop();
    CHECK_OK(&ctx, ipu_recording_take(&ctx, &recording));
    track = track_of(&recording, IPU_ROLE_OTHER, 0);
    CHECK(track != NULL && track->count == 1 && track->events[0].subject == 99);
    ipu_recording_free(&ctx, &recording);
}

/* --- several threads -------------------------------------------------------------- */

enum { WRITERS = 3, EVENTS = 20000, RING = 64 };

static void *
write_events(void *argument)
{
    int32_t number = *(int32_t *)argument;
    ipu_event_name_thread(IPU_ROLE_READER, number);
    for (uint64_t i = 1; i <= EVENTS; i++) {
        /* all words follow from i: a torn event shows */
        ipu_event_note(IPU_EVENT_FILL, i * 3, i, i * 2, (uint32_t)i, (uint32_t)~i);
    }
    return NULL;
}

static void
check_whole(const ipu_track *track)
{
    int wrong = 0;
    for (size_t k = 0; k < track->count; k++) {
        const ipu_event *event = &track->events[k];
        uint64_t i = event->begin_ns;
        wrong += event->subject != i * 3 || event->length_and_kind >> 8 != i ||
                 event->a != (uint32_t)i || event->b != (uint32_t)~i;
        wrong += k > 0 && i != track->events[k - 1].begin_ns + 1;
    }
    CHECK(wrong == 0);
}

static void
test_reading_while_others_write(void)
{
    ipu_ctx ctx = fresh();
    ipu_recording recording;
    pthread_t threads[WRITERS];
    int32_t numbers[WRITERS];
    CHECK_OK(&ctx, ipu_recorder_start(&ctx, RING, 0, 1));
    for (int32_t i = 0; i < WRITERS; i++) {
        numbers[i] = i;
        CHECK(pthread_create(&threads[i], NULL, write_events, &numbers[i]) == 0);
    }
    for (int round = 0; round < 200; round++) {
        CHECK_OK(&ctx, ipu_recording_take(&ctx, &recording));
        for (size_t i = 0; i < recording.count; i++) {
            check_whole(&recording.tracks[i]);
        }
        ipu_recording_free(&ctx, &recording);
    }
    for (int32_t i = 0; i < WRITERS; i++) {
        pthread_join(threads[i], NULL);
    }
    ipu_recorder_stop();
    CHECK_OK(&ctx, ipu_recording_take(&ctx, &recording));
    for (int32_t i = 0; i < WRITERS; i++) { /* they are gone, their events are not */
        const ipu_track *track = track_of(&recording, IPU_ROLE_READER, i);
        CHECK(track != NULL && track->count == RING && track->lost == EVENTS - RING);
    }
    ipu_recording_free(&ctx, &recording);
    CHECK_OK(&ctx, ipu_recorder_start(&ctx, RING, 0, 1));
    ipu_recorder_stop();
    CHECK_OK(&ctx, ipu_recording_take(&ctx, &recording));
    CHECK(recording.count == 0);
    ipu_recording_free(&ctx, &recording);
}

static void
spend_time(void *state, int32_t task, int32_t worker)
{
    (void)state;
    (void)task;
    (void)worker;
    for (uint64_t until = ipu_now_ns() + 200 * 1000; ipu_now_ns() < until;) {}
}

/* Jobs of a subject are noted on the thread that cut them, and on those that helped. */
static void
test_jobs_and_tasks(void)
{
    ipu_ctx ctx = fresh();
    ipu_recording recording;
    ipu_pool *pool;
    uint32_t tasks = 0;
    CHECK_OK(&ctx, ipu_pool_create(&ctx, 3, &pool));
    CHECK_OK(&ctx, ipu_recorder_start(&ctx, 4096, 0, 1));
    ipu_pool_run(pool, 12, spend_time, NULL); /* of nothing that is recorded */
    ipu_event_set_subject(5);
    CHECK(ipu_event_subject() == 5);
    ipu_pool_run(pool, 12, spend_time, NULL);
    ipu_event_set_subject(0);
    ipu_pool_free(&ctx, pool); /* its threads have written what they have */
    ipu_recorder_stop();
    CHECK_OK(&ctx, ipu_recording_take(&ctx, &recording));
    const ipu_track *caller = track_of(&recording, IPU_ROLE_OTHER, 0);
    CHECK(caller != NULL && caller->count == 1);
    if (caller != NULL && caller->count == 1) {
        const ipu_event *job = &caller->events[0];
        uint64_t length = job->length_and_kind >> 8;
        CHECK(kind_of(job) == IPU_EVENT_JOB && job->subject == 5);
        CHECK((uint64_t)job->a + job->b <= length);
        for (size_t t = 0; t < recording.count; t++) {
            const ipu_track *track = &recording.tracks[t];
            for (size_t i = 0; track != caller && i < track->count; i++) {
                const ipu_event *event = &track->events[i];
                CHECK(track->role == IPU_ROLE_WORKER && event->subject == 5);
                CHECK(kind_of(event) == IPU_EVENT_TASKS);
                CHECK(event->begin_ns >= job->begin_ns);
                tasks += event->a;
            }
        }
    }
    CHECK(tasks <= 12); /* on a busy machine the threads take even the last one */
    ipu_recording_free(&ctx, &recording);
}

/* A pool that is rehearsed has no workers: each task is there, on the caller's thread. */
static void
test_a_rehearsal(void)
{
    ipu_ctx ctx = fresh();
    ipu_recording recording;
    ipu_pool *pool;
    CHECK_OK(&ctx, ipu_pool_create(&ctx, 64, &pool));
    ipu_pool_rehearse(pool);
    CHECK(ipu_pool_hands(pool) == 64);
    CHECK_OK(&ctx, ipu_recorder_start(&ctx, 1000, 0, UINT64_MAX));
    ipu_event_set_subject(5);
    ipu_pool_run(pool, 12, spend_time, NULL);
    ipu_event_set_subject(0);
    ipu_pool_run(pool, 12, spend_time, NULL); /* nobody's */
    ipu_recorder_stop();
    ipu_pool_free(&ctx, pool);
    CHECK_OK(&ctx, ipu_recording_take(&ctx, &recording));
    const ipu_track *caller = track_of(&recording, IPU_ROLE_OTHER, 0);
    CHECK(caller != NULL && caller->count == 12);
    for (size_t i = 0; caller != NULL && i < caller->count; i++) {
        const ipu_event *event = &caller->events[i];
        CHECK(kind_of(event) == IPU_EVENT_TASK && event->subject == 5);
        CHECK(event->a == i && event->b == 12);
    }
    ipu_recording_free(&ctx, &recording);
}

static void
test_a_fork_records_nothing(void)
{
#ifndef __SANITIZE_THREAD__
    ipu_ctx ctx = fresh();
    CHECK_OK(&ctx, ipu_recorder_start(&ctx, 64, 0, 1));
    ipu_event_note(IPU_EVENT_STEP, 1, 1, 2, 0, 0);
    pid_t child = fork();
    if (child == 0) {
        bool is_off = !ipu_event_is_on(IPU_EVENT_STEP);
        bool starts = ipu_recorder_start(&ctx, 64, 0, 1) == IPU_OK;
        ipu_event_note(IPU_EVENT_STEP, 2, 1, 2, 0, 0);
        ipu_recorder_stop();
        ipu_recording recording;
        bool is_own = ipu_recording_take(&ctx, &recording) == IPU_OK &&
                      recording.count == 1 && recording.tracks[0].count == 1 &&
                      recording.tracks[0].events[0].subject == 2;
        _exit(is_off && starts && is_own ? 0 : 1);
    }
    int status = 1;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    CHECK(ipu_event_is_on(IPU_EVENT_STEP));
    ipu_recorder_stop();
#endif
}

static void *
name_itself(void *argument)
{
    (void)argument;
    ipu_event_name_thread(IPU_ROLE_READER, 0);
    return NULL;
}

static void
start_and_join(int threads)
{
    for (int i = 0; i < threads; i++) {
        pthread_t thread;
        pthread_create(&thread, NULL, name_itself, NULL);
        pthread_join(thread, NULL);
    }
}

/* The heap does not grow by threads that have gone and have recorded nothing. */
static void
test_threads_leave_nothing(void)
{
    enum { THREADS = 200, BYTES_EACH = 16 };
    start_and_join(1);
    size_t before = mallinfo2().uordblks; /* 0 under sanitizers */
    start_and_join(THREADS);
    CHECK(mallinfo2().uordblks <= before + (size_t)(THREADS * BYTES_EACH));
}

int
main(void)
{
    test_off();
    test_what_is_written_is_read();
    test_the_newest_are_kept();
    test_reading_while_others_write();
    test_jobs_and_tasks();
    test_a_rehearsal();
    test_a_fork_records_nothing();
    test_threads_leave_nothing();
    return CHECK_DONE();
}
