/* SPDX-License-Identifier: MIT
 *
 * The worker pool: fork and join over spinning workers.
 *
 * A job is a counter of tasks per worker ("run"): worker w owns tasks
 * [w*n/threads, (w+1)*n/threads) and takes them from the front; one that is done takes
 * from the runs of the others. Taking is an atomic add, so a task runs once. The caller
 * publishes a job by advancing `generation`, takes part as worker 0, and waits until
 * all workers have left the job. Workers spin on `generation` for SPIN_TURNS, then
 * sleep on a condition variable; the caller wakes them only when some sleep.
 *
 * One job at a time: callers of one pool are serialised by `job_lock` (a program and an
 * eager op may come from different threads). */
#define _GNU_SOURCE
#include "base/thread.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <unistd.h>

enum { SPIN_TURNS = 20000, YIELD_EVERY = 4096, MAX_THREADS = 256 };

typedef struct run {
    _Alignas(64) atomic_int next;
    int32_t end;
} run;

typedef struct worker {
    ipu_pool *pool;
    pthread_t thread;
    int32_t index;
} worker;

struct ipu_pool {
    int32_t threads;
    int32_t asked;   /* threads as created; `threads` is less where none could be had */
    int32_t started; /* workers that run, without the caller */
    pid_t pid;       /* whose threads they are: a forked child has none */
    worker *workers; /* threads - 1 */
    run *runs;       /* threads */
    pthread_mutex_t job_lock; /* protects: the job being run */

    ipu_task_fn *fn;
    void *state;
    _Alignas(64) atomic_uint generation;
    _Alignas(64) atomic_int active; /* workers still in the job */

    pthread_mutex_t sleep_lock; /* protects: sleepers, stop */
    pthread_cond_t wake;
    atomic_int sleepers;
    atomic_bool stop;
};

static inline void
relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static void
take_tasks(ipu_pool *pool, int32_t index)
{
    for (int32_t i = 0; i < pool->threads; i++) {
        int32_t owner =
            index + i < pool->threads ? index + i : index + i - pool->threads;
        run *r = &pool->runs[owner];
        for (;;) {
            if (atomic_load_explicit(&r->next, memory_order_relaxed) >= r->end) {
                break;
            }
            int32_t task = atomic_fetch_add_explicit(&r->next, 1, memory_order_relaxed);
            if (task >= r->end) {
                break;
            }
            pool->fn(pool->state, task, index);
        }
    }
}

/* Returns the new generation, or the old one when the pool stops. */
static unsigned
wait_for_job(ipu_pool *pool, unsigned seen)
{
    for (int turn = 0; turn < SPIN_TURNS; turn++) {
        unsigned now = atomic_load_explicit(&pool->generation, memory_order_acquire);
        if (now != seen) {
            return now;
        }
        relax();
        if (turn % YIELD_EVERY == YIELD_EVERY - 1) {
            sched_yield();
        }
    }
    pthread_mutex_lock(&pool->sleep_lock);
    atomic_fetch_add(&pool->sleepers, 1);
    unsigned now;
    while ((now = atomic_load(&pool->generation)) == seen &&
           !atomic_load(&pool->stop)) {
        pthread_cond_wait(&pool->wake, &pool->sleep_lock);
    }
    atomic_fetch_sub(&pool->sleepers, 1);
    pthread_mutex_unlock(&pool->sleep_lock);
    return now;
}

static void *
work(void *argument)
{
    worker *self = argument;
    ipu_pool *pool = self->pool;
    unsigned seen = 0;
    for (;;) {
        unsigned now = wait_for_job(pool, seen);
        if (now == seen) {
            return NULL;
        }
        seen = now;
        take_tasks(pool, self->index);
        atomic_fetch_sub_explicit(&pool->active, 1, memory_order_release);
    }
}

static void
init_sync(ipu_pool *pool)
{
    pthread_mutex_init(&pool->job_lock, NULL);
    pthread_mutex_init(&pool->sleep_lock, NULL);
    pthread_cond_init(&pool->wake, NULL);
    atomic_store(&pool->generation, 0);
    atomic_store(&pool->active, 0);
    atomic_store(&pool->sleepers, 0);
    atomic_store(&pool->stop, false);
    pool->started = 0;
    pool->pid = getpid();
}

/* Threads that cannot be had are done without: the caller takes all tasks. */
static void
start_workers(ipu_pool *pool)
{
    while (pool->started < pool->threads - 1) {
        worker *w = &pool->workers[pool->started];
        w->pool = pool;
        w->index = pool->started + 1;
        if (pthread_create(&w->thread, NULL, work, w) != 0) {
            pool->threads = pool->started + 1;
            break;
        }
        pool->started++;
    }
}

ipu_status
ipu_pool_create(ipu_ctx *ctx, int32_t threads, ipu_pool **out)
{
    *out = NULL;
    IPU_FAIL_IF(ctx, threads < 1 || threads > MAX_THREADS, VALUE,
                "the number of threads must be from 1 to %d, but got %d", MAX_THREADS,
                (int)threads);
    ipu_pool *pool;
    IPU_TRY(ipu_alloc(ctx, sizeof(*pool), &pool));
    size_t workers_bytes = (size_t)(threads - 1) * sizeof(worker);
    size_t runs_bytes = (size_t)threads * sizeof(run);
    if (ipu_alloc(ctx, workers_bytes, &pool->workers) != IPU_OK ||
        ipu_alloc(ctx, runs_bytes, &pool->runs) != IPU_OK) {
        ipu_free(ctx, pool->workers, workers_bytes);
        ipu_free(ctx, pool, sizeof(*pool));
        return ctx->status;
    }
    pool->threads = threads;
    pool->asked = threads;
    init_sync(pool);
    *out = pool;
    return IPU_OK;
}

void
ipu_pool_free(ipu_ctx *ctx, ipu_pool *pool)
{
    if (pool == NULL) {
        return;
    }
    if (pool->pid == getpid()) {
        pthread_mutex_lock(&pool->sleep_lock);
        atomic_store(&pool->stop, true);
        pthread_cond_broadcast(&pool->wake);
        pthread_mutex_unlock(&pool->sleep_lock);
        for (int32_t i = 0; i < pool->started; i++) {
            pthread_join(pool->workers[i].thread, NULL);
        }
        pthread_mutex_destroy(&pool->job_lock);
        pthread_mutex_destroy(&pool->sleep_lock);
        pthread_cond_destroy(&pool->wake);
    }
    ipu_free(ctx, pool->workers, (size_t)(pool->asked - 1) * sizeof(worker));
    ipu_free(ctx, pool->runs, (size_t)pool->asked * sizeof(run));
    ipu_free(ctx, pool, sizeof(*pool));
}

int32_t
ipu_pool_threads(const ipu_pool *pool)
{
    return pool == NULL ? 1 : pool->threads;
}

void
ipu_pool_run(ipu_pool *pool, int32_t tasks, ipu_task_fn *fn, void *state)
{
    if (pool == NULL || pool->threads == 1 || tasks <= 1) {
        for (int32_t task = 0; task < tasks; task++) {
            fn(state, task, 0);
        }
        return;
    }
    if (pool->pid != getpid()) {
        init_sync(pool);
    }
    pthread_mutex_lock(&pool->job_lock);
    if (pool->started < pool->threads - 1) {
        start_workers(pool);
    }
    int32_t threads = pool->threads;
    for (int32_t i = 0; i < threads; i++) {
        int64_t begin = (int64_t)tasks * i / threads;
        int64_t end = (int64_t)tasks * (i + 1) / threads;
        atomic_store_explicit(&pool->runs[i].next, (int)begin, memory_order_relaxed);
        pool->runs[i].end = (int32_t)end;
    }
    pool->fn = fn;
    pool->state = state;
    atomic_store_explicit(&pool->active, threads - 1, memory_order_relaxed);
    atomic_fetch_add(&pool->generation, 1);
    if (atomic_load(&pool->sleepers) > 0) {
        pthread_mutex_lock(&pool->sleep_lock);
        pthread_cond_broadcast(&pool->wake);
        pthread_mutex_unlock(&pool->sleep_lock);
    }
    take_tasks(pool, 0);
    for (int turn = 1; atomic_load_explicit(&pool->active, memory_order_acquire) > 0;
         turn++) {
        relax();
        if (turn % YIELD_EVERY == 0) {
            sched_yield();
        }
    }
    pthread_mutex_unlock(&pool->job_lock);
}
