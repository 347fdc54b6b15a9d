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
 * Jobs lie in slots; a bit of `active` says that a slot is taken. A caller takes the
 * lowest free one, so that a single caller always has the same. Where all are taken the
 * caller runs its tasks alone. Sources lie in slots of their own. Their users are
 * counted (`inside`): a source leaves its slot when the count is zero.
 *
 * Workers wait for `generation` to advance: they spin, give way now and then (the
 * threads that feed a program may need the core), then sleep on a condition variable;
 * the thread that advances it wakes them only when some sleep. */
#define _GNU_SOURCE
#include "base/thread.h"

#include <sched.h>
#include <stdatomic.h>

#include "base/cores.h"
#include "base/event.h"
#include "base/lock.h"
#include "base/slots.h"

enum { SPIN_TURNS = 20000, YIELD_EVERY = 256, MAX_THREADS = 256 };
enum { JOB_SLOTS = 16, SOURCE_SLOTS = 16 };
/* How often a thread that serves a source is called to look around. */
enum { IDLE_NS = 20 * 1000 * 1000 };
/* How often a worker moves to another core at most. */
enum { LEAVE_EVERY_NS = 10 * 1000 * 1000 };

/* Tasks next..end-1 are free: end in the upper half, next in the lower. */
typedef struct run {
    _Alignas(64) _Atomic uint64_t tasks;
} run;

typedef struct job {
    ipu_task_fn *fn;
    void *state;
    uint64_t subject;                /* of its events; 0: they are not recorded */
    run *runs;                       /* one per thread */
    _Alignas(64) atomic_int pending; /* tasks that are not done */
} job;

typedef struct source_slot {
    const ipu_work_source *source;
    atomic_int inside; /* threads that may look at it */
} source_slot;

typedef struct worker {
    ipu_pool *pool;
    pthread_t thread;
    int32_t index;
    int32_t first_core; /* that it follows */
    /* the pool's lock protects: */
    bool is_asleep;
    bool is_moved;    /* off the core of who woke it */
    ipu_cores before; /* then those that it may use */
    /* its own: */
    uint64_t left_ns; /* when it last left the core of who had work for it */
} worker;

struct ipu_pool {
    int32_t threads;
    bool is_rehearsed;
    atomic_int first_core; /* -1: workers are not pinned */
    atomic_int started; /* workers that run, without callers */
    worker *workers;    /* threads - 1 */
    run *runs;          /* threads for each job */
    job jobs[JOB_SLOTS];
    source_slot sources[SOURCE_SLOTS];

    _Alignas(64) atomic_uint generation;
    atomic_int core;              /* where work was announced last; -1: nowhere yet */
    ipu_slots active;             /* of jobs */
    atomic_uint offered;          /* bits of sources */
    _Alignas(64) atomic_int busy; /* threads at work for a source */
    _Alignas(64) atomic_int sleepers;
    atomic_bool stop;
    ipu_lock lock; /* protects: starting, sleeping, taking a source's slot */
    pthread_cond_t wake;
};

/* --- tasks ------------------------------------------------------------------------ */

static bool
take_task(run *r, int32_t *task)
{
    uint64_t free_tasks = atomic_load_explicit(&r->tasks, memory_order_acquire);
    do {
        if ((uint32_t)free_tasks >= (uint32_t)(free_tasks >> 32)) {
            return false;
        }
    } while (!atomic_compare_exchange_weak_explicit(
        &r->tasks, &free_tasks, free_tasks + 1, memory_order_acquire,
        memory_order_acquire));
    *task = (int32_t)(uint32_t)free_tasks;
    return true;
}

/* A thread's part of a job, where that is recorded. */
typedef struct share {
    uint64_t subject; /* 0: not recorded, or none of it yet */
    uint64_t begin_ns;
    uint32_t tasks;
} share;

static void
end_share(const share *own, uint64_t end_ns)
{
    if (own->subject != 0) {
        ipu_event_note(IPU_EVENT_TASKS, own->subject, own->begin_ns, end_ns, own->tasks,
                       0);
    }
}

/* A task of job j was taken. The slot may have been another job's a moment ago. */
static void
count_task(share *own, const job *j)
{
    if (j->subject != own->subject) {
        uint64_t now = ipu_now_ns();
        end_share(own, now);
        *own = (share){.subject = j->subject, .begin_ns = now};
    }
    own->tasks++;
}

/* `own` may be NULL. */
static void
take_tasks(const ipu_pool *pool, job *j, int32_t index, share *own)
{
    for (int32_t i = 0; i < pool->threads; i++) {
        int32_t owner = index + i;
        owner -= owner < pool->threads ? 0 : pool->threads;
        int32_t task;
        while (take_task(&j->runs[owner], &task)) {
            if (own != NULL) {
                count_task(own, j);
            }
            j->fn(j->state, task, index);
            atomic_fetch_sub_explicit(&j->pending, 1, memory_order_release);
        }
    }
}

static void
help_jobs(ipu_pool *pool, int32_t index)
{
    uint64_t active = atomic_load_explicit(&pool->active, memory_order_acquire);
    for (; active != 0; active &= active - 1) {
        job *j = &pool->jobs[__builtin_ctzll(active)];
        if (ipu_event_is_on(IPU_EVENT_TASKS)) {
            share own = {0};
            take_tasks(pool, j, index, &own);
            end_share(&own, ipu_now_ns());
        } else {
            take_tasks(pool, j, index, NULL);
        }
    }
}

/* --- sources ---------------------------------------------------------------------- */

static bool
help_sources(ipu_pool *pool)
{
    bool found = false;
    unsigned offered = atomic_load_explicit(&pool->offered, memory_order_acquire);
    for (; offered != 0; offered &= offered - 1) {
        unsigned index = (unsigned)__builtin_ctz(offered);
        source_slot *slot = &pool->sources[index];
        atomic_fetch_add(&slot->inside, 1);
        if (atomic_load(&pool->offered) >> index & 1) { /* it is still there */
            atomic_fetch_add(&pool->busy, 1);
            while (slot->source->work(slot->source->state)) {
                found = true;
            }
            atomic_fetch_sub(&pool->busy, 1);
        }
        atomic_fetch_sub(&slot->inside, 1);
    }
    return found;
}

/* --- waiting and waking ----------------------------------------------------------- */

static bool
spin_for_work(ipu_pool *pool, unsigned seen)
{
    for (int turn = 0; turn < SPIN_TURNS; turn++) {
        if (atomic_load_explicit(&pool->generation, memory_order_acquire) != seen) {
            return true;
        }
        ipu_relax();
        if (turn % YIELD_EVERY == YIELD_EVERY - 1) {
            sched_yield();
        }
    }
    return false;
}

/* Sleeps until the generation is another one or the pool stops; with a time limit, at
 * most IDLE_NS. `self` is NULL for a thread that serves a source. */
static void
sleep_for_work(ipu_pool *pool, worker *self, unsigned seen, bool has_limit)
{
    bool is_moved = false;
    ipu_lock_take(&pool->lock);
    if (self != NULL) {
        self->is_asleep = true;
    }
    atomic_fetch_add(&pool->sleepers, 1);
    bool is_late = false;
    while (atomic_load(&pool->generation) == seen && !atomic_load(&pool->stop) &&
           !is_late) {
        if (has_limit) {
            is_late = !ipu_lock_wait_for(&pool->lock, &pool->wake, IDLE_NS);
        } else {
            ipu_lock_wait(&pool->lock, &pool->wake);
        }
    }
    atomic_fetch_sub(&pool->sleepers, 1);
    if (self != NULL) {
        self->is_asleep = false;
        is_moved = self->is_moved;
        self->is_moved = false;
    }
    ipu_lock_drop(&pool->lock);
    if (is_moved) {
        ipu_cores_return(&self->before);
    }
}

/* Of waits for jobs nothing is noted: they are what lies between a thread's tasks. */
static void
wait_for_work(ipu_pool *pool, worker *self, unsigned seen, bool has_limit)
{
    uint64_t begin_ns = atomic_load_explicit(&pool->offered, memory_order_relaxed) == 0
                            ? 0
                            : ipu_event_begin(IPU_EVENT_WAIT);
    if (!spin_for_work(pool, seen)) {
        sleep_for_work(pool, self, seen, has_limit);
    }
    ipu_event_end(IPU_EVENT_WAIT, 0, begin_ns, 0, 0);
}

/* In a guest Linux takes an idle processor that the host has put to sleep for a busy one
 * (`vcpu_is_preempted`), and wakes a thread where the one runs that wakes it. For some
 * ten milliseconds the two then take turns. */
static void
move_sleepers_locked(ipu_pool *pool, int32_t here)
{
    int32_t started = atomic_load(&pool->started);
    bool can_move = here >= 0 && atomic_load(&pool->first_core) < 0;
    for (int32_t i = 0; i < started && can_move; i++) {
        worker *w = &pool->workers[i];
        if (w->is_asleep && !w->is_moved) {
            can_move = ipu_cores_leave(w->thread, here, pool->threads, &w->before);
            w->is_moved = can_move;
        }
    }
}

/* A worker that runs on the core where work was announced keeps the caller from running.
 * Left alone, the two gave way to each other for seconds while another core was idle. */
static void
leave_shared_core(worker *self)
{
    const ipu_pool *pool = self->pool;
    int32_t here = atomic_load_explicit(&pool->core, memory_order_relaxed);
    if (here < 0 || here != ipu_cores_current() || self->first_core >= 0) {
        return;
    }
    uint64_t now = ipu_now_ns();
    if (now - self->left_ns >= LEAVE_EVERY_NS) {
        ipu_cores before;
        self->left_ns = now;
        if (ipu_cores_leave(pthread_self(), here, pool->threads, &before)) {
            ipu_cores_return(&before);
        }
    }
}

void
ipu_pool_announce(ipu_pool *pool)
{
    int32_t here = ipu_cores_current();
    atomic_store_explicit(&pool->core, here, memory_order_relaxed);
    atomic_fetch_add(&pool->generation, 1);
    if (atomic_load(&pool->sleepers) > 0) {
        ipu_lock_take(&pool->lock);
        move_sleepers_locked(pool, here);
        pthread_cond_broadcast(&pool->wake);
        ipu_lock_drop(&pool->lock);
    }
}

static void
follow_pins(worker *self)
{
    int32_t first = atomic_load_explicit(&self->pool->first_core, memory_order_relaxed);
    if (first != self->first_core) {
        self->first_core = first;
        ipu_cores_bind(first < 0 ? -1 : first + self->index);
    }
}

static void *
work(void *argument)
{
    worker *self = argument;
    ipu_pool *pool = self->pool;
    unsigned seen = 0;
    ipu_event_name_thread(IPU_ROLE_WORKER, self->index);
    while (!atomic_load_explicit(&pool->stop, memory_order_relaxed)) {
        wait_for_work(pool, self, seen, false);
        seen = atomic_load_explicit(&pool->generation, memory_order_acquire);
        follow_pins(self);
        leave_shared_core(self);
        (void)help_sources(pool);
        help_jobs(pool, self->index);
    }
    return NULL;
}

/* --- life ------------------------------------------------------------------------- */

/* A forked child has no workers, and no caller is in the middle of a job. */
static void
forget_threads(void *owner)
{
    ipu_pool *pool = owner;
    ipu_cond_init(&pool->wake);
    atomic_store(&pool->started, 0);
    atomic_store(&pool->active, 0);
    atomic_store(&pool->offered, 0);
    atomic_store(&pool->busy, 0);
    atomic_store(&pool->sleepers, 0);
    for (int i = 0; i < SOURCE_SLOTS; i++) {
        atomic_store(&pool->sources[i].inside, 0);
    }
    for (int32_t i = 0; i < JOB_SLOTS * pool->threads; i++) {
        atomic_store(&pool->runs[i].tasks, 0);
    }
}

/* Workers that cannot be had are done without: the others take their runs. */
static void
start_workers(ipu_pool *pool)
{
    ipu_lock_take(&pool->lock);
    int32_t started = atomic_load(&pool->started);
    while (started < pool->threads - 1 && !pool->is_rehearsed) {
        worker *w = &pool->workers[started];
        w->pool = pool;
        w->index = started + 1;
        w->first_core = -1;
        w->is_asleep = false;
        w->left_ns = 0;
        w->is_moved = false;
        if (pthread_create(&w->thread, NULL, work, w) != 0) {
            break;
        }
        started++;
    }
    atomic_store(&pool->started, started);
    ipu_lock_drop(&pool->lock);
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
    size_t runs_bytes = (size_t)threads * JOB_SLOTS * sizeof(run);
    if (ipu_alloc(ctx, workers_bytes, &pool->workers) != IPU_OK ||
        ipu_alloc(ctx, runs_bytes, &pool->runs) != IPU_OK) {
        ipu_free(ctx, pool->workers, workers_bytes);
        ipu_free(ctx, pool, sizeof(*pool));
        return ctx->status;
    }
    pool->threads = threads;
    atomic_init(&pool->first_core, -1);
    atomic_init(&pool->core, -1);
    for (int i = 0; i < JOB_SLOTS; i++) {
        pool->jobs[i].runs = &pool->runs[i * threads];
    }
    ipu_cond_init(&pool->wake);
    ipu_lock_init(&pool->lock, forget_threads, pool);
    *out = pool;
    return IPU_OK;
}

void
ipu_pool_free(ipu_ctx *ctx, ipu_pool *pool)
{
    if (pool == NULL) {
        return;
    }
    ipu_lock_take(&pool->lock);
    atomic_store(&pool->stop, true);
    pthread_cond_broadcast(&pool->wake);
    ipu_lock_drop(&pool->lock);
    atomic_fetch_add(&pool->generation, 1); /* for workers that spin */
    int32_t started = atomic_load(&pool->started);
    for (int32_t i = 0; i < started; i++) {
        pthread_join(pool->workers[i].thread, NULL);
    }
    ipu_lock_destroy(&pool->lock);
    pthread_cond_destroy(&pool->wake);
    ipu_free(ctx, pool->workers, (size_t)(pool->threads - 1) * sizeof(worker));
    ipu_free(ctx, pool->runs, (size_t)pool->threads * JOB_SLOTS * sizeof(run));
    ipu_free(ctx, pool, sizeof(*pool));
}

int32_t
ipu_pool_threads(const ipu_pool *pool)
{
    return pool == NULL ? 1 : pool->threads;
}

/* --- jobs ------------------------------------------------------------------------- */

static void
run_alone(int32_t tasks, ipu_task_fn *fn, void *state)
{
    for (int32_t task = 0; task < tasks; task++) {
        fn(state, task, 0);
    }
}

void
ipu_pool_rehearse(ipu_pool *pool)
{
    pool->is_rehearsed = true;
}

void
ipu_pool_pin(ipu_pool *pool, int32_t first)
{
    atomic_store_explicit(&pool->first_core, first, memory_order_relaxed);
}

static void
rehearse(int32_t tasks, ipu_task_fn *fn, void *state)
{
    uint64_t subject = ipu_event_is_on(IPU_EVENT_TASK) ? ipu_event_subject() : 0;
    for (int32_t task = 0; task < tasks; task++) {
        uint64_t begin_ns = subject == 0 ? 0 : ipu_now_ns();
        fn(state, task, 0);
        ipu_event_end(IPU_EVENT_TASK, subject, begin_ns, (uint32_t)task,
                      (uint32_t)tasks);
    }
}

int32_t
ipu_pool_hands(const ipu_pool *pool)
{
    bool is_alone =
        pool == NULL ||
        atomic_load_explicit(&pool->busy, memory_order_relaxed) >= pool->threads;
    return is_alone ? 1 : pool->threads;
}

void
ipu_pool_run(ipu_pool *pool, int32_t tasks, ipu_task_fn *fn, void *state)
{
    if (tasks <= 1 || ipu_pool_hands(pool) == 1) {
        run_alone(tasks, fn, state);
        return;
    }
    if (pool->is_rehearsed) {
        rehearse(tasks, fn, state);
        return;
    }
    int slot = ipu_slots_take(&pool->active, JOB_SLOTS);
    if (slot < 0) {
        run_alone(tasks, fn, state);
        return;
    }
    if (atomic_load_explicit(&pool->started, memory_order_relaxed) <
        pool->threads - 1) {
        start_workers(pool);
    }
    job *j = &pool->jobs[slot];
    int32_t threads = pool->threads;
    j->fn = fn;
    j->state = state;
    j->subject = ipu_event_is_on(IPU_EVENT_JOB) ? ipu_event_subject() : 0;
    uint64_t begin_ns = j->subject == 0 ? 0 : ipu_now_ns();
    atomic_store_explicit(&j->pending, tasks, memory_order_relaxed);
    for (int32_t i = 0; i < threads; i++) {
        uint64_t begin = (uint64_t)tasks * (uint64_t)i / (uint64_t)threads;
        uint64_t end = (uint64_t)tasks * ((uint64_t)i + 1) / (uint64_t)threads;
        atomic_store_explicit(&j->runs[i].tasks, end << 32 | begin,
                              memory_order_release);
    }
    ipu_pool_announce(pool);
    uint64_t forked_ns = begin_ns == 0 ? 0 : ipu_now_ns();
    take_tasks(pool, j, 0, NULL);
    uint64_t done_ns = begin_ns == 0 ? 0 : ipu_now_ns();
    for (int turn = 1; atomic_load_explicit(&j->pending, memory_order_acquire) > 0;
         turn++) {
        ipu_relax();
        if (turn % YIELD_EVERY == 0) {
            sched_yield();
        }
    }
    if (begin_ns != 0) {
        uint64_t end_ns = ipu_now_ns();
        ipu_event_note(IPU_EVENT_JOB, j->subject, begin_ns, end_ns,
                       (uint32_t)(forked_ns - begin_ns), (uint32_t)(end_ns - done_ns));
    }
    ipu_slots_give_back(&pool->active, slot);
}

/* --- serving a source ------------------------------------------------------------- */

static int
offer(ipu_pool *pool, const ipu_work_source *source)
{
    int slot = -1;
    ipu_lock_take(&pool->lock);
    unsigned offered = atomic_load(&pool->offered);
    for (int i = 0; i < SOURCE_SLOTS && slot < 0; i++) {
        /* a worker may still be looking at what lay here before */
        if ((offered >> i & 1) == 0 && atomic_load(&pool->sources[i].inside) == 0) {
            slot = i;
        }
    }
    if (slot >= 0) {
        pool->sources[slot].source = source;
        atomic_fetch_or(&pool->offered, 1U << slot);
    }
    ipu_lock_drop(&pool->lock);
    return slot;
}

void
ipu_pool_serve(ipu_pool *pool, const ipu_work_source *source, void (*idle)(void *state))
{
    int slot = offer(pool, source); /* where there is none the caller is alone */
    if (slot >= 0 && atomic_load(&pool->started) < pool->threads - 1) {
        start_workers(pool);
    }
    ipu_pool_announce(pool);
    while (!source->is_done(source->state)) {
        unsigned seen = atomic_load(&pool->generation);
        atomic_fetch_add(&pool->busy, 1);
        bool found = false;
        while (source->work(source->state)) {
            found = true;
        }
        atomic_fetch_sub(&pool->busy, 1);
        if (!found && !source->is_done(source->state)) {
            help_jobs(pool, 0);
            wait_for_work(pool, NULL, seen, true);
            if (idle != NULL) {
                idle(source->state);
            }
        }
    }
    if (slot >= 0) {
        atomic_fetch_and(&pool->offered, ~(1U << slot));
        while (atomic_load(&pool->sources[slot].inside) > 0) {
            sched_yield();
        }
    }
}
