/* SPDX-License-Identifier: MIT
 *
 * The worker pool. Work is cut into tasks by shape alone and threads take tasks, so the
 * result never depends on how many threads there are. Several jobs may run at a time,
 * of callers that know nothing of each other; each caller takes part in its own.
 * Workers spin for a while before they sleep, since a step's jobs are microseconds
 * apart. After fork() a child starts with no workers and makes its own on the next use.
 *
 * Beside jobs a pool has sources: work of which there is now more, now less, such as
 * the streams of a program that are ready to go on. The thread that brings a source
 * serves it together with the workers. A thread that is at work for a source needs no
 * help in its jobs while all other threads are at such work too: then its tasks run
 * where they are, without a fork and a join. */
#ifndef IPU_BASE_THREAD_H
#define IPU_BASE_THREAD_H

#include <stdbool.h>

#include "base/ctx.h"

typedef struct ipu_pool ipu_pool;

/* A turn of a loop that waits for another thread. */
static inline void
ipu_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Runs task number `task` of a job. `worker` says whose run of tasks the thread takes
 * first: 0 for the caller of ipu_pool_run. */
typedef void ipu_task_fn(void *state, int32_t task, int32_t worker);

/* threads >= 1 counts the caller. Free with ipu_pool_free. */
ipu_status ipu_pool_create(ipu_ctx *ctx, int32_t threads, ipu_pool **out);
void ipu_pool_free(ipu_ctx *ctx, ipu_pool *pool);
int32_t ipu_pool_threads(const ipu_pool *pool);
/* From here on, before its first job: it has no workers and says that it has. Callers do
 * all tasks, which are cut as for so many threads, and each is an event. */
void ipu_pool_rehearse(ipu_pool *pool);
/* From its next job on worker i stays on core `first` + i of those that the process may
 * use, as the thread of the process's start has them; -1: workers run where the system
 * puts them. The caller, which is on core `first` if all others are taken, is left
 * alone. Any thread. */
void ipu_pool_pin(ipu_pool *pool, int32_t first);
/* How many threads would be at a job that began now: 1 where all others have work. */
int32_t ipu_pool_hands(const ipu_pool *pool);
/* Runs tasks 0..tasks-1, returns when all are done. pool may be NULL: then the caller
 * runs them in order. Tasks are dealt in contiguous runs, worker w first gets the
 * w-th run (so the same rows stay in the same cache), then helps the others. Any number
 * of threads may call it at a time, also from the work of a source; not from a task. */
void ipu_pool_run(ipu_pool *pool, int32_t tasks, ipu_task_fn *fn, void *state);

typedef struct ipu_work_source {
    /* Does a piece of work, if there is one to do: whether it did. Called by several
     * threads at once. */
    bool (*work)(void *state);
    /* Whether the source has nothing more to do, ever. */
    bool (*is_done)(void *state);
    void *state;
} ipu_work_source;

/* Lets the workers at the source and does its work too, until it is done and no thread
 * is at it any more. Where there is nothing to do the caller sleeps until
 * ipu_pool_announce, and calls `idle` (may be NULL) every few milliseconds. */
void ipu_pool_serve(ipu_pool *pool, const ipu_work_source *source,
                    void (*idle)(void *state));
/* A source has work that it had not, or is done: wakes the threads that sleep. Any
 * thread. */
void ipu_pool_announce(ipu_pool *pool);

#endif
