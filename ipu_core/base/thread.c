/* SPDX-License-Identifier: MIT
 *
 * The worker pool: fork and join over spinning workers.
 *
 * A job is cut into one run of tasks per thread: worker w first takes the tasks of
 * run w, in order, then those of the others. A run is one atomic word, its next task
 * and its end, and a task is taken by compare-and-swap. Whoever has taken a task
 * holds up the job's end (`pending`), so `fn` and `state` are read after the task is
 * taken and stay valid until it is done. A worker that comes late finds nothing to
 * take and harms nothing: the caller waits for tasks, never for workers, and does
 * all of them itself when the cores are busy with something else.
 *
 * Workers wait for `generation` to advance: they spin, give way now and then (the
 * threads that feed a program may need the core), then sleep on a condition variable;
 * the caller wakes them only when some sleep.
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

enum { SPIN_TURNS = 20000, YIELD_EVERY = 256, MAX_THREADS = 256 };

/* Tasks next..end-1 are free: end in the upper half, next in the lower. */
typedef struct run {
    _Alignas(64) _Atomic uint64_t tasks;
} run;

typedef struct worker {
    ipu_pool *pool;
    pthread_t thread;
    int32_t index;
} worker;

struct ipu_pool {
    int32_t threads;
    int32_t started; /* workers that run, without the caller */
    pid_t pid;       /* whose threads they are: a forked child has none */
    worker *workers; /* threads - 1 */
    run *runs;       /* threads */
    pthread_mutex_t job_lock; /* protects: the job being run */

    ipu_task_fn *fn;
    void *state;
    _Alignas(64) atomic_uint generation;
    _Alignas(64) atomic_int pending; /* tasks that are not done */

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

static bool
take_task(run *r, int32_t *task)
{
    uint64_t free_tasks = atomic_load_explicit(&r->tasks, memory_order_acquire);
    do {
        if ((uint32_t)free_tasks >= (uint32_t)(free_tasks >> 32)) {
            return false;
        }
    } while (!atomic_compare_exchange_weak_explicit(&r->tasks, &free_tasks,
                                                    free_tasks + 1,
                                                    memory_order_acquire,
                                                    memory_order_acquire));
    *task = (int32_t)(uint32_t)free_tasks;
    return true;
}

static void
take_tasks(ipu_pool *pool, int32_t index)
{
    for (int32_t i = 0; i < pool->threads; i++) {
        int32_t owner = index + i;
        owner -= owner < pool->threads ? 0 : pool->threads;
        int32_t task;
        while (take_task(&pool->runs[owner], &task)) {
            pool->fn(pool->state, task, index);
            atomic_fetch_sub_explicit(&pool->pending, 1, memory_order_release);
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
    }
}

static void
init_sync(ipu_pool *pool)
{
    pthread_mutex_init(&pool->job_lock, NULL);
    pthread_mutex_init(&pool->sleep_lock, NULL);
    pthread_cond_init(&pool->wake, NULL);
    atomic_store(&pool->generation, 0);
    atomic_store(&pool->pending, 0);
    atomic_store(&pool->sleepers, 0);
    atomic_store(&pool->stop, false);
    pool->started = 0;
    pool->pid = getpid();
}

/* Workers that cannot be had are done without: the others take their runs. */
static void
start_workers(ipu_pool *pool)
{
    while (pool->started < pool->threads - 1) {
        worker *w = &pool->workers[pool->started];
        w->pool = pool;
        w->index = pool->started + 1;
        if (pthread_create(&w->thread, NULL, work, w) != 0) {
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
    ipu_free(ctx, pool->workers, (size_t)(pool->threads - 1) * sizeof(worker));
    ipu_free(ctx, pool->runs, (size_t)pool->threads * sizeof(run));
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
    pool->fn = fn;
    pool->state = state;
    atomic_store_explicit(&pool->pending, tasks, memory_order_relaxed);
    for (int32_t i = 0; i < threads; i++) {
        uint64_t begin = (uint64_t)tasks * (uint64_t)i / (uint64_t)threads;
        uint64_t end = (uint64_t)tasks * ((uint64_t)i + 1) / (uint64_t)threads;
        atomic_store_explicit(&pool->runs[i].tasks, end << 32 | begin,
                              memory_order_release);
    }
    atomic_fetch_add(&pool->generation, 1);
    if (atomic_load(&pool->sleepers) > 0) {
        pthread_mutex_lock(&pool->sleep_lock);
        pthread_cond_broadcast(&pool->wake);
        pthread_mutex_unlock(&pool->sleep_lock);
    }
    take_tasks(pool, 0);
    for (int turn = 1; atomic_load_explicit(&pool->pending, memory_order_acquire) > 0;
         turn++) {
        relax();
        if (turn % YIELD_EVERY == 0) {
            sched_yield();
        }
    }
    pthread_mutex_unlock(&pool->job_lock);
}
