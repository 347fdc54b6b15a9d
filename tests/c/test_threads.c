/* SPDX-License-Identifier: MIT
 *
 * base/: the worker pool with jobs of many callers and with sources, locks and fork(),
 * cores and memory nodes. */
#define _GNU_SOURCE
#include "base/clock.h"
#include "base/cores.h"
#include "base/lock.h"
#include "base/pages.h"
#include "base/thread.h"
#include "check.h"
#include "shared.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* --- jobs ------------------------------------------------------------------------- */

typedef struct tally {
    atomic_int *done;
    int32_t tasks;
} tally;

static void
count_task(void *state, int32_t task, int32_t worker)
{
    tally *t = state;
    (void)worker;
    atomic_fetch_add(&t->done[task], 1);
}

/* How many tasks were not run exactly once. */
static int
count_wrong(ipu_pool *pool, int rounds)
{
    atomic_int done[64];
    tally t = {.done = done};
    int wrong = 0;
    for (int round = 0; round < rounds; round++) {
        t.tasks = round % 64;
        for (int i = 0; i < 64; i++) {
            atomic_store(&done[i], 0);
        }
        ipu_pool_run(pool, t.tasks, count_task, &t);
        for (int i = 0; i < 64; i++) {
            wrong += atomic_load(&done[i]) != (i < t.tasks ? 1 : 0);
        }
    }
    return wrong;
}

static void
test_jobs(void)
{
    ipu_ctx ctx = fresh();
    for (int32_t threads = 1; threads <= 4; threads++) {
        ipu_pool *pool;
        CHECK_OK(&ctx, ipu_pool_create(&ctx, threads, &pool));
        CHECK(count_wrong(pool, 300) == 0);
        sleep_ms(20); /* long enough that the workers sleep */
        CHECK(count_wrong(pool, 300) == 0);
#ifndef __SANITIZE_THREAD__
        pid_t child = fork();
        if (child == 0) {
            alarm(20);
            _exit(count_wrong(pool, 300) != 0);
        }
        int status = 1;
        CHECK(waitpid(child, &status, 0) == child && status == 0);
#endif
        ipu_pool_free(&ctx, pool);
    }
    ipu_pool *none;
    CHECK(ipu_pool_create(&ctx, 0, &none) == IPU_STATUS_VALUE && none == NULL);
}

typedef struct caller {
    pthread_t thread;
    ipu_pool *pool;
    int wrong;
} caller;

static void *
call_often(void *argument)
{
    caller *c = argument;
    c->wrong = count_wrong(c->pool, 500);
    return NULL;
}

/* More callers than there are slots for jobs. */
static void
test_many_callers(void)
{
    enum { CALLERS = 20 };
    ipu_ctx ctx = fresh();
    for (int32_t threads = 2; threads <= 4; threads++) {
        caller callers[CALLERS];
        ipu_pool *pool;
        CHECK_OK(&ctx, ipu_pool_create(&ctx, threads, &pool));
        for (int i = 0; i < CALLERS; i++) {
            callers[i] = (caller){.pool = pool};
            pthread_create(&callers[i].thread, NULL, call_often, &callers[i]);
        }
        for (int i = 0; i < CALLERS; i++) {
            pthread_join(callers[i].thread, NULL);
            CHECK(callers[i].wrong == 0);
        }
        ipu_pool_free(&ctx, pool);
    }
}

/* A job does not wait for another one: the first task of each waits until both run. */
/* Waits for as many threads, so that each has a task. */
static void
meet_all(atomic_int *met, int threads)
{
    atomic_fetch_add(met, 1);
    while (atomic_load(met) < threads) {
        sched_yield();
    }
}

typedef struct meeting {
    atomic_int *arrived;
    ipu_pool *pool;
} meeting;

static void
meet_task(void *state, int32_t task, int32_t worker)
{
    meeting *m = state;
    (void)worker;
    if (task == 0) {
        meet_all(m->arrived, 2);
    }
}

static void *
meet(void *argument)
{
    meeting *m = argument;
    ipu_pool_run(m->pool, 2, meet_task, m);
    return NULL;
}

static void
test_jobs_run_together(void)
{
    ipu_ctx ctx = fresh();
    ipu_pool *pool;
    CHECK_OK(&ctx, ipu_pool_create(&ctx, 2, &pool));
    for (int round = 0; round < 50; round++) {
        pthread_t thread;
        atomic_int arrived = 0;
        meeting m = {&arrived, pool};
        pthread_create(&thread, NULL, meet, &m);
        meet(&m);
        pthread_join(thread, NULL);
    }
    CHECK(true); /* no caller waited for the other's job: they would still wait */
    ipu_pool_free(&ctx, pool);
}

/* --- sources ---------------------------------------------------------------------- */

/* Pieces of work, each a job of the same pool; some are there at once, the others come
 * when the first ones are done. */
typedef struct pieces {
    ipu_pool *pool;
    atomic_int ready;
    atomic_int todo;
    atomic_int wrong;
    atomic_int idle_calls;
} pieces;

static bool
work_piece(void *state)
{
    pieces *p = state;
    int ready = atomic_load(&p->ready);
    while (ready > 0 && !atomic_compare_exchange_weak(&p->ready, &ready, ready - 1)) {}
    if (ready <= 0) {
        return false;
    }
    atomic_fetch_add(&p->wrong, count_wrong(p->pool, 20));
    int left = atomic_fetch_sub(&p->todo, 1) - 1;
    if (left > 4) {
        atomic_fetch_add(&p->ready, 1); /* a new piece for each one that is done */
    }
    ipu_pool_announce(p->pool);
    return true;
}

static bool
pieces_done(void *state)
{
    pieces *p = state;
    return atomic_load(&p->todo) == 0;
}

static void
count_idle(void *state)
{
    pieces *p = state;
    atomic_fetch_add(&p->idle_calls, 1);
}

static void *
serve_pieces(void *argument)
{
    pieces *p = argument;
    ipu_work_source source = {work_piece, pieces_done, p};
    ipu_pool_serve(p->pool, &source, count_idle);
    return NULL;
}

static void
test_sources(void)
{
    enum { SERVED = 3 };
    ipu_ctx ctx = fresh();
    for (int32_t threads = 1; threads <= 4; threads++) {
        ipu_pool *pool;
        CHECK_OK(&ctx, ipu_pool_create(&ctx, threads, &pool));
        for (int round = 0; round < 20; round++) {
            pieces p[SERVED];
            pthread_t callers[SERVED];
            for (int i = 0; i < SERVED; i++) {
                p[i] = (pieces){.pool = pool, .ready = 5, .todo = 50};
                pthread_create(&callers[i], NULL, serve_pieces, &p[i]);
            }
            for (int i = 0; i < SERVED; i++) {
                pthread_join(callers[i], NULL);
                CHECK(atomic_load(&p[i].todo) == 0 && atomic_load(&p[i].wrong) == 0);
            }
        }
        ipu_pool_free(&ctx, pool);
    }
}

static void *
make_ready(void *argument)
{
    pieces *p = argument;
    sleep_ms(60);
    atomic_store(&p->ready, 1);
    ipu_pool_announce(p->pool);
    return NULL;
}

/* Who serves a source that has nothing to do sleeps, looks around, and is woken. */
static void
test_idle_source(void)
{
    ipu_ctx ctx = fresh();
    for (int32_t threads = 1; threads <= 2; threads++) {
        pthread_t thread;
        pieces p = {.todo = 1};
        CHECK_OK(&ctx, ipu_pool_create(&ctx, threads, &p.pool));
        pthread_create(&thread, NULL, make_ready, &p);
        serve_pieces(&p);
        pthread_join(thread, NULL);
        CHECK(atomic_load(&p.idle_calls) > 0 && atomic_load(&p.wrong) == 0);
        ipu_pool_free(&ctx, p.pool);
    }
}

/* --- locks and fork --------------------------------------------------------------- */

/* Two numbers that are equal whenever the lock is free, and a nested lock. */
typedef struct pair {
    ipu_lock lock;
    ipu_lock inner;
    long a;
    long b;
    int forks;
    atomic_bool stop;
} pair;

static void
note_fork(void *owner)
{
    pair *p = owner;
    p->forks++;
}

#ifndef __SANITIZE_THREAD__
static void *
keep_changing(void *argument)
{
    pair *p = argument;
    while (!atomic_load(&p->stop)) {
        ipu_lock_take(&p->lock);
        p->a++;
        ipu_lock_take(&p->inner);
        ipu_lock passing; /* the list of locks changes meanwhile */
        ipu_lock_init(&passing, NULL, NULL);
        ipu_lock_destroy(&passing);
        ipu_lock_drop(&p->inner);
        p->b++;
        ipu_lock_drop(&p->lock);
    }
    return NULL;
}

/* The child can take every lock, and finds what they protect whole. */
static void
test_fork(void)
{
    pair p = {0};
    pthread_t threads[2];
    ipu_lock_init(&p.inner, NULL, NULL);
    ipu_lock_init(&p.lock, note_fork, &p);
    for (int i = 0; i < 2; i++) {
        pthread_create(&threads[i], NULL, keep_changing, &p);
    }
    uint32_t count = ipu_fork_count();
    for (int round = 0; round < 50; round++) {
        pid_t child = fork();
        if (child == 0) {
            alarm(20);
            ipu_lock_take(&p.lock);
            ipu_lock_take(&p.inner);
            bool fits = p.a == p.b && p.forks == 1 && ipu_fork_count() == count + 1;
            ipu_lock_drop(&p.inner);
            ipu_lock_drop(&p.lock);
            _exit(!fits);
        }
        int status = 1;
        CHECK(waitpid(child, &status, 0) == child && status == 0);
    }
    CHECK(p.forks == 0 && ipu_fork_count() == count);
    atomic_store(&p.stop, true);
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
    }
    ipu_lock_destroy(&p.inner);
    ipu_lock_destroy(&p.lock);
}
#endif

/* --- cores ------------------------------------------------------------------------ */

static char folder[] = "/tmp/ipu-cores-XXXXXX";

static void
make_folders(const char *path)
{
    char part[512];
    snprintf(part, sizeof(part), "%s%s", folder, path);
    for (char *at = part + strlen(folder) + 1; *at != '\0'; at++) {
        if (*at == '/') {
            *at = '\0';
            mkdir(part, 0700);
            *at = '/';
        }
    }
}

static void
put(const char *path, const char *text)
{
    char whole[512];
    make_folders(path);
    snprintf(whole, sizeof(whole), "%s%s", folder, path);
    FILE *file = fopen(whole, "w");
    CHECK(file != NULL);
    if (file != NULL) {
        fputs(text, file);
        fclose(file);
    }
}

static void
test_cores(void)
{
    CHECK(mkdtemp(folder) != NULL);
    CHECK(ipu_cores_quota(folder) == INT32_MAX); /* nothing there */
    put("/proc/self/cgroup", "0::/a/b\n");
    CHECK(ipu_cores_quota(folder) == INT32_MAX);
    put("/sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
    CHECK(ipu_cores_quota(folder) == INT32_MAX);
    put("/sys/fs/cgroup/a/cpu.max", "350000 100000\n"); /* of a group around it */
    CHECK(ipu_cores_quota(folder) == 3);
    put("/sys/fs/cgroup/a/b/cpu.max", "50000 100000\n");
    CHECK(ipu_cores_quota(folder) == 1 && ipu_cores_available(folder) == 1);
    /* version 1: the group's path is the host's, the mount shows its inside */
    put("/proc/self/cgroup", "5:memory:/x\n4:cpu,cpuacct:/docker/x\n3:cpuset:/\n");
    CHECK(ipu_cores_quota(folder) == INT32_MAX);
    put("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
    put("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
    CHECK(ipu_cores_quota(folder) == INT32_MAX);
    put("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "200000\n");
    CHECK(ipu_cores_quota(folder) == 2);
    put("/sys/fs/cgroup/cpu,cpuacct/docker/x/cpu.cfs_quota_us", "100000\n");
    put("/sys/fs/cgroup/cpu,cpuacct/docker/x/cpu.cfs_period_us", "100000\n");
    CHECK(ipu_cores_quota(folder) == 1);
    char command[600];
    snprintf(command, sizeof(command), "rm -r %s", folder);
    CHECK(system(command) == 0);
}

static void
test_affinity(void)
{
    cpu_set_t all;
    cpu_set_t one;
    CHECK(sched_getaffinity(0, sizeof(all), &all) == 0);
    CPU_ZERO(&one);
    for (int cpu = 0; CPU_COUNT(&one) == 0 && cpu < CPU_SETSIZE; cpu++) {
        if (CPU_ISSET(cpu, &all)) {
            CPU_SET(cpu, &one);
        }
    }
    CHECK(ipu_cores_available("") <= CPU_COUNT(&all));
    CHECK(sched_setaffinity(0, sizeof(one), &one) == 0);
    CHECK(ipu_cores_available("") == 1);
    CHECK(sched_setaffinity(0, sizeof(all), &all) == 0);
}

/* --- cores of their own ----------------------------------------------------------- */

enum { PINNED = 3 };

typedef struct masks {
    cpu_set_t of[PINNED];
    atomic_int met;
} masks;

static void
note_mask(void *state, int32_t task, int32_t worker)
{
    masks *m = state;
    (void)worker;
    if (sched_getaffinity(0, sizeof(m->of[task]), &m->of[task]) != 0) {
        CPU_ZERO(&m->of[task]);
    }
    meet_all(&m->met, PINNED);
}

static bool
is_pinned(const cpu_set_t *all, const cpu_set_t *mask, int core)
{
    int number = -1;
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        number += CPU_ISSET(cpu, all) != 0;
        if (CPU_ISSET(cpu, mask)) {
            return CPU_COUNT(mask) == 1 && number == core % CPU_COUNT(all);
        }
    }
    return false;
}

static void
test_pins(void)
{
    ipu_ctx ctx;
    ipu_pool *pool;
    cpu_set_t all;
    CHECK(sched_getaffinity(0, sizeof(all), &all) == 0);
    ipu_ctx_init(&ctx, ipu_allocator_default());
    CHECK_OK(&ctx, ipu_pool_create(&ctx, PINNED, &pool));
    const int firsts[] = {-1, 0, 1, 1000, -1};
    for (size_t i = 0; i < sizeof(firsts) / sizeof(firsts[0]); i++) {
        masks m = {.met = 0};
        ipu_pool_pin(pool, firsts[i]);
        ipu_pool_run(pool, PINNED, note_mask, &m);
        int free = 0; /* the caller, or all */
        int found[PINNED] = {0};
        for (int task = 0; task < PINNED; task++) {
            if (CPU_EQUAL(&m.of[task], &all) && (firsts[i] < 0 || free == 0)) {
                free++;
                continue;
            }
            for (int worker = 1; worker < PINNED; worker++) {
                if (is_pinned(&all, &m.of[task], firsts[i] + worker)) {
                    found[worker]++;
                    break;
                }
            }
        }
        CHECK(free == (firsts[i] < 0 ? PINNED : 1));
        CHECK(firsts[i] < 0 || found[1] + found[2] == 2);
        CHECK(firsts[i] < 0 || CPU_COUNT(&all) == 1 || found[1] == 1);
    }
    ipu_pool_free(&ctx, pool);
    /* who wakes a worker may move it, for that moment alone */
    CHECK_OK(&ctx, ipu_pool_create(&ctx, 2, &pool));
    for (int turn = 0; turn < 10; turn++) {
        masks m = {.met = PINNED - 2};
        usleep(20000);
        ipu_pool_run(pool, 2, note_mask, &m);
        CHECK(CPU_EQUAL(&m.of[0], &all) && CPU_EQUAL(&m.of[1], &all));
    }
    ipu_pool_free(&ctx, pool);
}

/* --- a core that is shared -------------------------------------------------------- */

typedef struct seat {
    cpu_set_t all;
    cpu_set_t one;
    atomic_bool sits; /* the worker was put on the one */
    atomic_bool left;
    atomic_int met;
} seat;

static void
sit_down(void *state, int32_t task, int32_t worker)
{
    seat *s = state;
    (void)task;
    meet_all(&s->met, 2);
    if (worker == 1) {
        bool moves = sched_setaffinity(0, sizeof(s->one), &s->one) == 0;
        atomic_store(&s->sits, moves);
        (void)sched_setaffinity(0, sizeof(s->all), &s->all);
    }
}

static void
work_there(void *state, int32_t task, int32_t worker)
{
    seat *s = state;
    (void)task;
    if (worker == 1 && !CPU_ISSET((size_t)sched_getcpu(), &s->one)) {
        atomic_store(&s->left, true);
    }
    for (uint64_t end = ipu_now_ns() + 20000; ipu_now_ns() < end;) {}
}

/* A worker that is where the caller runs goes to another core, by itself if the system
 * does not move it. */
static void
test_shared_core(void)
{
    const uint64_t limit_ns = 10000000000U;
    ipu_ctx ctx;
    ipu_pool *pool;
    seat s = {.met = 0};
    ipu_ctx_init(&ctx, ipu_allocator_default());
    CHECK(sched_getaffinity(0, sizeof(s.all), &s.all) == 0);
    if (CPU_COUNT(&s.all) < 2) {
        return;
    }
    CHECK_OK(&ctx, ipu_pool_create(&ctx, 2, &pool));
    CPU_ZERO(&s.one);
    CPU_SET((size_t)sched_getcpu(), &s.one);
    ipu_pool_run(pool, 2, sit_down, &s);
    CHECK(sched_setaffinity(0, sizeof(s.one), &s.one) == 0);
    uint64_t end = ipu_now_ns() + limit_ns;
    while (atomic_load(&s.sits) && !atomic_load(&s.left) && ipu_now_ns() < end) {
        ipu_pool_run(pool, 2, work_there, &s);
    }
    CHECK(atomic_load(&s.sits) && atomic_load(&s.left));
    CHECK(sched_setaffinity(0, sizeof(s.all), &s.all) == 0);
    ipu_pool_free(&ctx, pool);
}

/* --- memory nodes ----------------------------------------------------------------- */

static void
test_nodes(void)
{
    enum { BYTES = 8 << 20 };
    ipu_nodes nodes;
    int32_t count = ipu_pages_nodes(&nodes);
    CHECK(count >= 1);
    char *block = ipu_pages_resize(NULL, 0, BYTES);
    CHECK(block != NULL);
    CHECK(!ipu_pages_interleave(block, 100, &nodes)); /* no whole page */
    bool is_known = nodes.words[0] != 0;
    CHECK(ipu_pages_interleave(block, BYTES, &nodes) == is_known);
#ifdef SYS_get_mempolicy
    const unsigned long by_address = 2;
    int policy = -1;
    char *middle = block + BYTES / 2;
    if (is_known) {
        CHECK(syscall(SYS_get_mempolicy, &policy, nodes.words,
                      (unsigned long)IPU_MOST_NODES, middle, by_address) == 0);
        CHECK(policy == 3); /* MPOL_INTERLEAVE */
    }
#endif
    ipu_pages_share(block, BYTES);
    for (int i = 0; i < BYTES; i += 4096) {
        CHECK(block[i] == 0);
        block[i] = 1;
    }
    CHECK(ipu_pages_resize(block, BYTES, 0) == NULL);
}

int
main(void)
{
    test_jobs();
    test_many_callers();
    test_jobs_run_together();
    test_sources();
    test_idle_source();
#ifndef __SANITIZE_THREAD__
    test_fork();
#else
    (void)note_fork;
#endif
    test_cores();
    test_affinity();
    test_pins();
    test_shared_core();
    test_nodes();
    return CHECK_DONE();
}
