/* SPDX-License-Identifier: MIT
 *
 * What threads do together, in a few steps each: the pool, services, queues, feeders,
 * devices, the engine, data sets, processes. `interleave NAME FIRST COUNT` runs one with
 * so many seeds, `interleave --all NAME PREEMPTIONS` with every schedule of at most so many
 * preemptions. A failure says the seed and aborts. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/event.h"
#include "base/service.h"
#include "check.h"
#include "data/dataset.h"
#include "fake_mpi.h"
#include "run/executor.h"
#include "interleave.h"
#include "streams.h"

#define LONG_NS (INT64_C(1000) * 1000 * 1000 * 1000)

static const ipu_compile_options options = {
    .variant = IPU_KERNEL_FAST, .cpu = IPU_CPU_GENERIC, .verify = false};
static const ipu_type scalar_f = {IPU_DTYPE_FLOAT32, {0, {0}}};
static const ipu_type vector_f = {IPU_DTYPE_FLOAT32, {1, {4}}};

/* --- memory that is freed is kept and watched till the end ---------------------------- */

typedef struct block {
    struct block *next;
    size_t bytes;
    bool is_freed;
    _Alignas(64) unsigned char data[];
} block;

static block *blocks;

static void *
watched_resize(void *state, void *pointer, size_t old_bytes, size_t new_bytes)
{
    (void)state;
    block *made = NULL;
    if (new_bytes > 0) {
        made = aligned_alloc(64, (sizeof(block) + new_bytes + 63) / 64 * 64);
        memset(made->data, 0, new_bytes);
        *made = (block){blocks, new_bytes, false};
        blocks = made;
    }
    if (pointer != NULL) {
        block *old = (block *)(void *)((char *)pointer - offsetof(block, data));
        CHECK(!old->is_freed && old->bytes == old_bytes);
        if (made != NULL) {
            memcpy(made->data, pointer, old_bytes < new_bytes ? old_bytes : new_bytes);
        }
        memset(old->data, 0xdb, old->bytes);
        old->is_freed = true;
    }
    return made == NULL ? NULL : made->data;
}

static ipu_ctx
fresh(void)
{
    ipu_ctx ctx;
    ipu_ctx_init(&ctx, (ipu_allocator){watched_resize, NULL});
    return ctx;
}

/* Nothing is left, and nothing was written after it was freed. */
static void
check_memory(void)
{
    while (blocks != NULL) {
        block *b = blocks;
        blocks = b->next;
        CHECK(b->is_freed);
        size_t i = 0;
        while (b->is_freed && i < b->bytes && b->data[i] == 0xdb) {
            i++;
        }
        CHECK(!b->is_freed || i == b->bytes);
        free(b);
    }
}

static pthread_t
go(void *(*function)(void *), void *argument)
{
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, function, argument) == 0);
    return thread;
}

static void
join(pthread_t thread)
{
    pthread_join(thread, NULL);
}

static bool
is_one_of(ipu_ctx *ctx, ipu_status status, ipu_status a, ipu_status b)
{
    bool fits = status == a || status == b;
    if (!fits) {
        fprintf(stderr, "%s: %s\n", ipu_status_name(status), ctx->message);
    }
    ipu_ctx_clear(ctx);
    return fits;
}

/* --- the pool --------------------------------------------------------------------- */

enum { TASKS = 5, ROUNDS = 2 };

typedef struct work_of {
    ipu_pool *pool;
    atomic_int done[TASKS];
} work_of;

static void
do_task(void *state, int32_t task, int32_t worker)
{
    (void)worker;
    atomic_fetch_add(&((work_of *)state)->done[task], 1);
}

static void *
call(void *argument)
{
    work_of w = {.pool = argument};
    for (int round = 0; round < ROUNDS; round++) {
        ipu_pool_run(w.pool, TASKS, do_task, &w);
        for (int i = 0; i < TASKS; i++) {
            CHECK(atomic_load(&w.done[i]) == round + 1);
        }
    }
    return NULL;
}

static void
pool_of_callers(int32_t threads, int callers)
{
    ipu_ctx ctx = fresh();
    ipu_pool *pool;
    pthread_t all[20];
    CHECK_OK(&ctx, ipu_pool_create(&ctx, threads, &pool));
    for (int i = 1; i < callers; i++) {
        all[i] = go(call, pool);
    }
    call(pool);
    for (int i = 1; i < callers; i++) {
        join(all[i]);
    }
    ipu_pool_free(&ctx, pool);
}

static void
jobs(void)
{
    pool_of_callers(3, 1);
}

static void
jobs_of_two(void)
{
    pool_of_callers(2, 2);
}

/* More than there are slots. */
static void
jobs_of_many(void)
{
    pool_of_callers(2, 18);
}

/* Pieces of work, of which one follows another; each is a job. */
typedef struct pieces {
    ipu_pool *pool;
    atomic_int ready;
    atomic_int left;
    atomic_int at_work;
    bool has_jobs;
} pieces;

static bool
do_piece(void *state)
{
    pieces *p = state;
    int ready = atomic_load(&p->ready);
    while (ready > 0 && !atomic_compare_exchange_weak(&p->ready, &ready, ready - 1)) {}
    if (ready <= 0) {
        return false;
    }
    if (p->has_jobs) {
        call(p->pool);
    }
    if (atomic_fetch_sub(&p->left, 1) - 1 > 1) {
        atomic_fetch_add(&p->ready, 1);
    }
    ipu_pool_announce(p->pool);
    return true;
}

static bool
are_done(void *state)
{
    return atomic_load(&((pieces *)state)->left) == 0;
}

static void *
serve(void *argument)
{
    pieces *p = argument;
    const ipu_work_source source = {do_piece, are_done, p};
    ipu_pool_serve(p->pool, &source, NULL);
    CHECK(are_done(p));
    memset(p, 0xdb, sizeof(*p)); /* nobody looks at it any more */
    return NULL;
}

static void
sources(int count, bool has_jobs)
{
    ipu_ctx ctx = fresh();
    ipu_pool *pool;
    pieces all[2];
    pthread_t other;
    CHECK_OK(&ctx, ipu_pool_create(&ctx, 3, &pool));
    for (int i = 0; i < count; i++) {
        all[i] = (pieces){.pool = pool, .ready = 2, .left = 4, .has_jobs = has_jobs};
    }
    if (count > 1) {
        other = go(serve, &all[1]);
    }
    serve(&all[0]);
    if (count > 1) {
        join(other);
    }
    ipu_pool_free(&ctx, pool);
}

static void
source(void)
{
    sources(1, false);
}

static void
two_sources(void)
{
    sources(2, false);
}

static void
jobs_in_a_source(void)
{
    sources(1, true);
}

/* Work comes from a thread that is not the pool's. */
static void *
bring(void *argument)
{
    pieces *p = argument;
    for (int i = 0; i < 2; i++) {
        atomic_fetch_add(&p->ready, 1);
        ipu_pool_announce(p->pool);
    }
    return NULL;
}

static void
brought_work(void)
{
    ipu_ctx ctx = fresh();
    ipu_pool *pool;
    CHECK_OK(&ctx, ipu_pool_create(&ctx, 2, &pool));
    pieces p = {.pool = pool, .left = 2};
    pthread_t other = go(bring, &p);
    const ipu_work_source source = {do_piece, are_done, &p};
    ipu_pool_serve(pool, &source, NULL);
    CHECK(are_done(&p));
    join(other);
    ipu_pool_free(&ctx, pool);
}

/* --- services --------------------------------------------------------------------- */

typedef struct job {
    ipu_lock lock;
    pthread_cond_t changed;
    bool is_told; /* protected by the lock */
    bool goes_away;
    bool stops_itself;
    ipu_service *below;
    _Atomic(ipu_service *) self;
    atomic_bool is_away;
    atomic_bool may_return;
    atomic_bool is_freed;
} job;

static void
await(const atomic_bool *flag)
{
    while (!atomic_load(flag)) {
        interleave_give_way();
    }
}

static void
run_job(void *state)
{
    job *j = state;
    if (j->stops_itself) {
        while (atomic_load(&j->self) == NULL) {
            interleave_give_way();
        }
        ipu_service_stop(atomic_load(&j->self), NULL);
        CHECK(ipu_service_is_left_behind());
    } else if (j->goes_away) {
        ipu_service_go_away();
        atomic_store(&j->is_away, true);
        await(&j->may_return);
        ipu_service_come_back();
    } else {
        ipu_lock_take(&j->lock);
        while (!j->is_told) {
            ipu_lock_wait(&j->lock, &j->changed);
        }
        ipu_lock_drop(&j->lock);
    }
    ipu_service_stop(j->below, NULL);
}

static void
wake_job(void *state)
{
    job *j = state;
    ipu_lock_take(&j->lock);
    j->is_told = true;
    pthread_cond_broadcast(&j->changed);
    ipu_lock_drop(&j->lock);
}

static void
free_job(void *state)
{
    atomic_store(&((job *)state)->is_freed, true);
}

static const ipu_service_work job_work = {run_job, wake_job, free_job};

static ipu_service *
start(job *j)
{
    ipu_ctx ctx = fresh();
    ipu_service *service = NULL;
    ipu_lock_init(&j->lock, NULL, NULL);
    ipu_cond_init(&j->changed);
    CHECK_OK(&ctx, ipu_service_start(&ctx, &job_work, j, &service));
    return service;
}

static void
end(job *j)
{
    await(&j->is_freed);
    ipu_lock_destroy(&j->lock);
    pthread_cond_destroy(&j->changed);
}

static void
service_stops(void)
{
    job j = {0};
    ipu_service_stop(start(&j), NULL);
    CHECK(atomic_load(&j.is_freed));
    end(&j);
}

static void
service_stops_itself(void)
{
    job j = {.stops_itself = true};
    atomic_store(&j.self, start(&j));
    end(&j);
}

static void
service_left_behind(void)
{
    job j = {.goes_away = true};
    ipu_service *service = start(&j);
    await(&j.is_away);
    ipu_service_stop(service, NULL);
    CHECK(!atomic_load(&j.is_freed));
    atomic_store(&j.may_return, true);
    end(&j);
}

static void
service_comes_back(void)
{
    job j = {.goes_away = true, .may_return = true};
    ipu_service_stop(start(&j), NULL);
    end(&j);
}

static void
services_in_a_chain(void)
{
    job lower = {.goes_away = true};
    job upper = {.below = start(&lower)};
    await(&lower.is_away);
    ipu_service_stop(start(&upper), NULL);
    CHECK(!atomic_load(&lower.is_freed));
    end(&upper);
    atomic_store(&lower.may_return, true);
    end(&lower);
}

/* --- infeeds ---------------------------------------------------------------------- */

enum { ELEMENTS = 6 };

typedef struct feeding {
    ipu_infeed *infeed;
    int count; /* -1: till it is closed */
    bool fails;
} feeding;

static void *
feed(void *argument)
{
    const feeding *f = argument;
    ipu_ctx ctx = fresh();
    for (int32_t i = 0; i != f->count; i++) {
        void *const *slot;
        if (ipu_infeed_acquire(&ctx, f->infeed, &slot) != IPU_OK) {
            return NULL;
        }
        memcpy(slot[0], &i, sizeof(i));
        ipu_infeed_publish(f->infeed);
    }
    if (f->fails) {
        (void)ipu_ctx_fail(&ctx, IPU_STATUS_VALUE, "bad row");
    }
    ipu_infeed_end(f->infeed, &ctx);
    return NULL;
}

static int32_t
number_of(const void *const *element)
{
    int32_t value;
    memcpy(&value, element[0], sizeof(value));
    return value;
}

/* As a stream dequeues that is alone. */
static ipu_status
take(ipu_ctx *ctx, ipu_infeed *infeed, ipu_pool *pool, const void *const **element)
{
    for (;;) {
        IPU_TRY(ipu_infeed_take(ctx, infeed, 0, element));
        if (*element != NULL) {
            return IPU_OK;
        }
        if (!ipu_infeed_make(infeed, pool)) {
            (void)ipu_infeed_wait(infeed, LONG_NS);
        }
    }
}

static void
infeed_to_the_end(int32_t depth, bool fails)
{
    ipu_ctx ctx = fresh();
    ipu_infeed *infeed;
    const void *const *element;
    CHECK_OK(&ctx, ipu_infeed_create(&ctx, &scalar_i, 1, depth, 1, &infeed));
    for (int pass = 0; pass < 2; pass++) {
        feeding f = {infeed, ELEMENTS, fails};
        pthread_t other = go(feed, &f);
        CHECK_OK(&ctx, ipu_infeed_begin(&ctx, infeed, 1));
        for (int32_t i = 0; i < ELEMENTS; i++) {
            CHECK_OK(&ctx, take(&ctx, infeed, NULL, &element));
            CHECK(number_of(element) == i);
        }
        ipu_status status = take(&ctx, infeed, NULL, &element);
        CHECK(status == (fails ? IPU_STATUS_VALUE : IPU_STATUS_OUT_OF_RANGE));
        ipu_ctx_clear(&ctx);
        ipu_infeed_finish(infeed);
        join(other);
        ipu_infeed_reopen(infeed);
    }
    ipu_infeed_free(&ctx, infeed);
}

static void
infeed(void)
{
    infeed_to_the_end(2, false);
}

static void
infeed_of_one(void)
{
    infeed_to_the_end(1, false);
}

static void
infeed_fails(void)
{
    infeed_to_the_end(2, true);
}

static void *
close_infeed(void *argument)
{
    ipu_infeed_close(argument);
    return NULL;
}

static void
infeed_closes(void)
{
    ipu_ctx ctx = fresh();
    ipu_infeed *infeed;
    const void *const *element;
    CHECK_OK(&ctx, ipu_infeed_create(&ctx, &scalar_i, 1, 2, 1, &infeed));
    feeding f = {infeed, -1, false};
    pthread_t feeder = go(feed, &f);
    pthread_t closer = go(close_infeed, infeed);
    ipu_status status = ipu_infeed_begin(&ctx, infeed, 1);
    for (int32_t i = 0; status == IPU_OK; i++) {
        status = take(&ctx, infeed, NULL, &element);
        CHECK(status != IPU_OK || number_of(element) == i);
    }
    CHECK(is_one_of(&ctx, status, IPU_STATUS_CANCELLED, IPU_STATUS_CANCELLED));
    ipu_infeed_finish(infeed);
    join(feeder);
    join(closer);
    ipu_infeed_free(&ctx, infeed);
}

typedef struct taking {
    ipu_infeed *infeed;
    int32_t replica;
} taking;

static void *
take_some(void *argument)
{
    const taking *t = argument;
    ipu_ctx ctx = fresh();
    for (int32_t i = t->replica; i < ELEMENTS; i += 2) {
        const void *const *element = NULL;
        while (element == NULL) {
            while (!ipu_infeed_has_element(t->infeed, (uint32_t)t->replica)) {
                interleave_give_way();
            }
            CHECK_OK(&ctx,
                     ipu_infeed_take(&ctx, t->infeed, (uint32_t)t->replica, &element));
        }
        CHECK(number_of(element) == i);
        interleave_give_way();
        CHECK(number_of(element) == i);
    }
    return NULL;
}

static void
infeed_of_replicas(void)
{
    ipu_ctx ctx = fresh();
    ipu_infeed *infeed;
    CHECK_OK(&ctx, ipu_infeed_create(&ctx, &scalar_i, 1, 1, 2, &infeed));
    feeding f = {infeed, ELEMENTS, false};
    taking t[2] = {{infeed, 0}, {infeed, 1}};
    CHECK_OK(&ctx, ipu_infeed_begin(&ctx, infeed, 2));
    pthread_t feeder = go(feed, &f);
    pthread_t other = go(take_some, &t[1]);
    take_some(&t[0]);
    join(other);
    join(feeder);
    ipu_infeed_finish(infeed);
    ipu_infeed_free(&ctx, infeed);
}

/* --- feeders ---------------------------------------------------------------------- */

static ipu_dataset *
numbers(ipu_ctx *ctx, int64_t count)
{
    ipu_dataset *dataset;
    CHECK_OK(ctx, ipu_dataset_range(ctx, 0, count, 1, &dataset));
    return dataset;
}

static const ipu_type scalar_l = {IPU_DTYPE_INT64, {0, {0}}};

static int64_t
long_of(const void *const *element)
{
    int64_t value;
    memcpy(&value, element[0], sizeof(value));
    return value;
}

/* The device or the feeder makes the elements; two runs, with a pause. */
static void
feeder_runs(bool shares_cores)
{
    ipu_ctx ctx = fresh();
    ipu_dataset *dataset = numbers(&ctx, ELEMENTS);
    ipu_infeed *infeed;
    ipu_feeder *feeder;
    ipu_pool *pool;
    const void *const *element;
    int64_t taken = 0;
    ipu_status status = IPU_OK;
    CHECK_OK(&ctx, ipu_pool_create(&ctx, 2, &pool));
    CHECK_OK(&ctx, ipu_infeed_create(&ctx, &scalar_l, 1, 2, 1, &infeed));
    CHECK_OK(&ctx, ipu_feeder_start(&ctx, dataset, infeed, shares_cores, &feeder));
    while (status == IPU_OK) {
        CHECK_OK(&ctx, ipu_infeed_begin(&ctx, infeed, 1));
        for (int i = 0; i < 4 && status == IPU_OK; i++) {
            status = take(&ctx, infeed, pool, &element);
            CHECK(status != IPU_OK || long_of(element) == taken);
            taken += status == IPU_OK;
        }
        ipu_infeed_finish(infeed);
    }
    CHECK(status == IPU_STATUS_OUT_OF_RANGE && taken == ELEMENTS);
    ipu_ctx_clear(&ctx);
    ipu_feeder_stop(feeder, NULL);
    ipu_infeed_free(&ctx, infeed);
    ipu_pool_free(&ctx, pool);
    ipu_dataset_unref(dataset);
}

static void
feeder(void)
{
    feeder_runs(false);
}

static void
feeder_lends(void)
{
    feeder_runs(true);
}

static void *
take_all(void *argument)
{
    ipu_ctx ctx = fresh();
    ipu_infeed *infeed = argument;
    const void *const *element;
    ipu_status status = ipu_infeed_begin(&ctx, infeed, 1);
    while (status == IPU_OK) {
        status = take(&ctx, infeed, NULL, &element);
    }
    CHECK(is_one_of(&ctx, status, IPU_STATUS_CANCELLED, IPU_STATUS_CANCELLED));
    ipu_infeed_finish(infeed);
    return NULL;
}

static void
feeder_stops(void)
{
    ipu_ctx ctx = fresh();
    ipu_dataset *few = numbers(&ctx, 2);
    ipu_dataset *dataset;
    ipu_infeed *infeed;
    ipu_feeder *feeder;
    CHECK_OK(&ctx, ipu_dataset_repeat(&ctx, few, -1, &dataset));
    CHECK_OK(&ctx, ipu_infeed_create(&ctx, &scalar_l, 1, 2, 1, &infeed));
    CHECK_OK(&ctx, ipu_feeder_start(&ctx, dataset, infeed, true, &feeder));
    pthread_t device = go(take_all, infeed);
    for (int i = 0; i < 8; i++) {
        interleave_give_way();
    }
    ipu_feeder_stop(feeder, NULL);
    join(device);
    ipu_infeed_free(&ctx, infeed);
    ipu_dataset_unref(dataset);
    ipu_dataset_unref(few);
}

/* What was read ahead goes on in another queue. */
static void
feeder_moves(void)
{
    ipu_ctx ctx = fresh();
    ipu_dataset *dataset = numbers(&ctx, ELEMENTS);
    ipu_infeed *from;
    ipu_infeed *to;
    ipu_feeder *feeder;
    const void *const *element;
    CHECK_OK(&ctx, ipu_infeed_create(&ctx, &scalar_l, 1, 2, 1, &from));
    CHECK_OK(&ctx, ipu_infeed_create(&ctx, &scalar_l, 1, 2, 1, &to));
    CHECK_OK(&ctx, ipu_feeder_start(&ctx, dataset, from, false, &feeder));
    CHECK_OK(&ctx, ipu_infeed_begin(&ctx, from, 1));
    CHECK_OK(&ctx, take(&ctx, from, NULL, &element));
    CHECK(long_of(element) == 0);
    ipu_infeed_finish(from);
    CHECK_OK(&ctx, ipu_feeder_move(&ctx, feeder, to));
    CHECK_OK(&ctx, ipu_infeed_begin(&ctx, to, 1));
    for (int64_t i = 1; i < ELEMENTS; i++) {
        CHECK_OK(&ctx, take(&ctx, to, NULL, &element));
        CHECK(long_of(element) == i);
    }
    ipu_infeed_finish(to);
    ipu_feeder_stop(feeder, NULL);
    ipu_infeed_free(&ctx, from);
    ipu_infeed_free(&ctx, to);
    ipu_dataset_unref(dataset);
}

/* --- outfeeds --------------------------------------------------------------------- */

typedef struct putting {
    ipu_outfeed *outfeed;
    uint32_t replica;
    uint32_t replicas;
} putting;

static void *
put(void *argument)
{
    const putting *p = argument;
    ipu_ctx ctx = fresh();
    for (int32_t i = 0; i < ELEMENTS; i++) {
        const void *tensors[1] = {&i};
        bool done = false;
        for (;;) {
            CHECK_OK(&ctx,
                     ipu_outfeed_enqueue(&ctx, p->outfeed, p->replica, tensors, &done));
            if (done) {
                break;
            }
            if (p->replicas == 1) {
                CHECK_OK(&ctx, ipu_outfeed_wait_for_room(&ctx, p->outfeed));
            } else {
                interleave_give_way();
            }
        }
    }
    return NULL;
}

static void
outfeed_of(uint32_t replicas, int32_t depth, bool reads)
{
    ipu_ctx ctx = fresh();
    ipu_outfeed *outfeed;
    pthread_t all[2];
    putting puttings[2];
    int32_t numbers[2 * ELEMENTS];
    void *out[1] = {numbers};
    int64_t taken;
    CHECK_OK(&ctx,
             ipu_outfeed_create(&ctx, &scalar_i, 1, IPU_OUTFEED_ALL, depth, &outfeed));
    CHECK_OK(&ctx, ipu_outfeed_begin(&ctx, outfeed, replicas));
    for (uint32_t r = 0; r < replicas; r++) {
        puttings[r] = (putting){outfeed, r, replicas};
        all[r] = go(put, &puttings[r]);
    }
    int64_t got = 0;
    while (reads && got < ELEMENTS) {
        CHECK(ipu_outfeed_wait(outfeed, 1, UINT64_MAX, -1) > 0);
        CHECK_OK(&ctx, ipu_outfeed_take(&ctx, outfeed, 2, replicas, out, &taken));
        for (int64_t i = 0; i < taken * replicas; i++) {
            CHECK(numbers[i] == got + i / replicas);
        }
        got += taken;
    }
    for (uint32_t r = 0; r < replicas; r++) {
        join(all[r]);
    }
    ipu_outfeed_flush(outfeed);
    CHECK(ipu_outfeed_wait(outfeed, 0, UINT64_MAX, 0) == ELEMENTS - got);
    ipu_outfeed_free(&ctx, outfeed);
}

static void
outfeed(void)
{
    outfeed_of(1, 2, true);
}

static void
outfeed_unread(void)
{
    outfeed_of(1, 1, false);
}

static void
outfeed_of_replicas(void)
{
    outfeed_of(2, 2, true);
}

static void *
read_till_closed(void *argument)
{
    (void)ipu_outfeed_wait(argument, ELEMENTS + 1, UINT64_MAX, -1);
    return NULL;
}

static void
outfeed_closes(void)
{
    ipu_ctx ctx = fresh();
    ipu_outfeed *outfeed;
    CHECK_OK(&ctx,
             ipu_outfeed_create(&ctx, &scalar_i, 1, IPU_OUTFEED_ALL, 2, &outfeed));
    CHECK_OK(&ctx, ipu_outfeed_begin(&ctx, outfeed, 1));
    putting p = {outfeed, 0, 1};
    pthread_t reader = go(read_till_closed, outfeed);
    pthread_t device = go(put, &p);
    join(device);
    ipu_outfeed_flush(outfeed);
    ipu_outfeed_close(outfeed);
    join(reader);
    ipu_outfeed_free(&ctx, outfeed);
}

/* Who waits for the end of a run sees that all is there. */
static void *
await_end(void *argument)
{
    CHECK(ipu_outfeed_wait(argument, ELEMENTS + 1, 0, -1) == ELEMENTS);
    return NULL;
}

static void
outfeed_ends(void)
{
    ipu_ctx ctx = fresh();
    ipu_outfeed *outfeed;
    CHECK_OK(&ctx,
             ipu_outfeed_create(&ctx, &scalar_i, 1, IPU_OUTFEED_ALL, 2, &outfeed));
    CHECK_OK(&ctx, ipu_outfeed_begin(&ctx, outfeed, 1));
    putting p = {outfeed, 0, 1};
    pthread_t reader = go(await_end, outfeed);
    put(&p);
    ipu_outfeed_flush(outfeed);
    join(reader);
    ipu_outfeed_free(&ctx, outfeed);
}

/* --- programs --------------------------------------------------------------------- */

/* v counts steps; each step takes n and gives n + v. */
static const char *const loop_text =
    "resource r0 variable id=0 \"v\" float32[4]\n"
    "resource r1 infeed id=1 \"in\" int32[]\n"
    "resource r2 outfeed id=2 \"out\" float32[4]\n"
    "block b0(%0: int32[]) {\n"
    "  %1 = constant() {dtype=float32, shape=[], value=0x0000803f} : float32[]\n"
    "  %2 = broadcast(%1) {shape=[4]} : float32[4]\n"
    "  block b1() {\n"
    "    %3 = infeed_dequeue() {resource=1} : int32[]\n"
    "    %4 = cast(%3) {dtype=float32} : float32[]\n"
    "    variable_add(%2) {resource=0}\n"
    "    %5 = variable_read() {resource=0} : float32[4]\n"
    "    %6 = add(%5, %4) : float32[4]\n"
    "    outfeed_enqueue(%6) {resource=2}\n"
    "  } -> ()\n"
    "  repeat(%0) {body=b1}\n"
    "} -> ()\n";

/* The same, of what all replicas have. */
static const char *const replicas_text =
    "resource r0 variable id=0 \"v\" float32[4]\n"
    "resource r1 infeed id=1 \"in\" int32[]\n"
    "resource r2 outfeed id=2 \"out\" float32[4]\n"
    "block b0(%0: int32[]) {\n"
    "  block b1() {\n"
    "    %1 = infeed_dequeue() {resource=1} : int32[]\n"
    "    %2 = cast(%1) {dtype=float32} : float32[]\n"
    "    %3 = broadcast(%2) {shape=[4]} : float32[4]\n"
    "    %4 = all_reduce(%3) {reduction=0} : float32[4]\n"
    "    variable_add(%4) {resource=0}\n"
    "    outfeed_enqueue(%3) {resource=2}\n"
    "  } -> ()\n"
    "  repeat(%0) {body=b1}\n"
    "} -> ()\n";

enum { STEPS = 3 };

typedef struct rig {
    ipu_ctx ctx;
    ipu_device *device;
    ipu_infeed *infeed;
    ipu_outfeed *outfeed;
    ipu_program *program;
    ipu_executor *executor;
    ipu_pool *pool;
    int64_t variable;
    int32_t cancel;
} rig;

static void
make_rig_on(rig *r, const char *text, int32_t ipus, int32_t replicas, int32_t threads)
{
    *r = (rig){.ctx = fresh()};
    ipu_ctx *ctx = &r->ctx;
    ipu_graph *graph;
    int64_t id;
    CHECK_OK(ctx, ipu_device_create(ctx, ipus, &r->device));
    CHECK_OK(ctx, ipu_device_variable_add(ctx, r->device, &vector_f, &r->variable));
    CHECK_OK(ctx, ipu_infeed_create(ctx, &scalar_i, 1, 2, replicas, &r->infeed));
    CHECK_OK(ctx,
             ipu_outfeed_create(ctx, &vector_f, 1, IPU_OUTFEED_ALL, 2, &r->outfeed));
    CHECK_OK(ctx, ipu_device_infeed_add(ctx, r->device, r->infeed, &id));
    CHECK_OK(ctx, ipu_device_outfeed_add(ctx, r->device, r->outfeed, &id));
    CHECK_OK(ctx, ipu_graph_parse(ctx, text, &graph));
    CHECK_OK(ctx, ipu_program_create(ctx, graph, &options, &r->program));
    ipu_graph_free(ctx, graph);
    CHECK_OK(ctx, ipu_pool_create(ctx, threads, &r->pool));
    CHECK_OK(ctx,
             ipu_executor_create(ctx, r->program, r->device, r->pool, &r->executor));
}

static void
make_rig(rig *r, const char *text, int32_t replicas, int32_t threads)
{
    make_rig_on(r, text, replicas, replicas, threads);
}

static void
free_rig(rig *r)
{
    ipu_executor_free(&r->ctx, r->executor);
    ipu_program_free(&r->ctx, r->program);
    ipu_device_free(&r->ctx, r->device);
    ipu_infeed_free(&r->ctx, r->infeed);
    ipu_outfeed_free(&r->ctx, r->outfeed);
    ipu_pool_free(&r->ctx, r->pool);
}

static ipu_status
run_rig(rig *r, int32_t steps)
{
    const void *inputs[1] = {&steps};
    return ipu_executor_run(&r->ctx, r->executor, inputs, NULL, &r->cancel, NULL);
}

static float
variable_of(const rig *r)
{
    ipu_ctx ctx = fresh();
    float values[4] = {-1, -1, -1, -1};
    CHECK_OK(&ctx, ipu_device_variable_read(&ctx, r->device, r->variable, 0, values,
                                            sizeof(values)));
    CHECK(values[0] == values[1] && values[0] == values[3]);
    return values[0];
}

static void *
watch(void *argument)
{
    const rig *r = argument;
    float before = 0;
    for (int i = 0; i < 2; i++) {
        float now = variable_of(r);
        CHECK(now >= before);
        before = now;
    }
    return NULL;
}

static void *
read_results(void *argument)
{
    rig *r = argument;
    ipu_ctx ctx = fresh();
    for (int got = 0; got < 2 * STEPS;) {
        float values[2 * STEPS][4];
        void *out[1] = {values};
        int64_t taken;
        CHECK(ipu_outfeed_wait(r->outfeed, 1, UINT64_MAX, -1) > 0);
        CHECK_OK(&ctx, ipu_outfeed_take(&ctx, r->outfeed, 2 * STEPS, 1, out, &taken));
        for (int64_t i = 0; i < taken; i++, got++) {
            CHECK(values[i][3] == (float)(2 * got + 1));
        }
    }
    return NULL;
}

static void
program_in_a_loop(void)
{
    rig r;
    make_rig(&r, loop_text, 1, 2);
    feeding f = {r.infeed, 2 * STEPS, false};
    pthread_t others[3] = {go(feed, &f), go(read_results, &r), go(watch, &r)};
    CHECK_OK(&r.ctx, run_rig(&r, STEPS));
    CHECK_OK(&r.ctx, run_rig(&r, STEPS));
    for (int i = 0; i < 3; i++) {
        join(others[i]);
    }
    CHECK(variable_of(&r) == 2 * STEPS);
    CHECK(run_rig(&r, 1) == IPU_STATUS_OUT_OF_RANGE);
    ipu_ctx_clear(&r.ctx);
    free_rig(&r);
}

static void *
cancel_run(void *argument)
{
    rig *r = argument;
    (void)variable_of(r);
    __atomic_store_n(&r->cancel, 1, __ATOMIC_RELAXED);
    return NULL;
}

/* Whole steps are done or nothing; the next run is as any other. */
static void
program_is_cancelled(void)
{
    rig r;
    make_rig(&r, loop_text, 1, 2);
    feeding f = {r.infeed, -1, false};
    pthread_t feeder = go(feed, &f);
    pthread_t other = go(cancel_run, &r);
    ipu_status status = run_rig(&r, 8);
    CHECK(is_one_of(&r.ctx, status, IPU_OK, IPU_STATUS_INTERRUPTED));
    join(other);
    float steps = variable_of(&r);
    CHECK(steps <= 8 &&
          ipu_outfeed_wait(r.outfeed, 0, UINT64_MAX, 0) == (int64_t)steps);
    r.cancel = 0;
    CHECK_OK(&r.ctx, run_rig(&r, 1));
    CHECK(variable_of(&r) == steps + 1);
    ipu_infeed_close(r.infeed);
    join(feeder);
    free_rig(&r);
}

/* The data end while replicas wait for each other. */
static void
replicas_meet(void)
{
    rig r;
    make_rig(&r, replicas_text, 2, 2);
    feeding f = {r.infeed, 2 * STEPS + 1, false};
    pthread_t feeder = go(feed, &f);
    pthread_t watcher = go(watch, &r);
    CHECK_OK(&r.ctx, run_rig(&r, STEPS));
    float sum = (2 * STEPS - 1) * (2 * STEPS) / 2.0F;
    CHECK(variable_of(&r) == sum);
    CHECK(run_rig(&r, 2) == IPU_STATUS_OUT_OF_RANGE);
    ipu_ctx_clear(&r.ctx);
    CHECK(variable_of(&r) == sum);
    join(feeder);
    join(watcher);
    free_rig(&r);
}

static void *
close_rig(void *argument)
{
    ipu_infeed_close(((rig *)argument)->infeed);
    return NULL;
}

static void
replicas_are_closed(void)
{
    rig r;
    make_rig(&r, replicas_text, 2, 3);
    feeding f = {r.infeed, 2 * STEPS, false};
    pthread_t feeder = go(feed, &f);
    pthread_t closer = go(close_rig, &r);
    ipu_status status = run_rig(&r, STEPS);
    CHECK(status == IPU_OK || status == IPU_STATUS_CANCELLED ||
          status == IPU_STATUS_FAILED_PRECONDITION);
    ipu_ctx_clear(&r.ctx);
    join(feeder);
    join(closer);
    free_rig(&r);
}

/* Two threads run programs of one device. */
static void *
run_own(void *argument)
{
    rig *r = argument;
    ipu_ctx ctx = fresh();
    ipu_executor *executor;
    int32_t steps = 1;
    const void *inputs[1] = {&steps};
    CHECK_OK(&ctx, ipu_executor_create(&ctx, r->program, r->device, NULL, &executor));
    for (int i = 0; i < STEPS; i++) {
        CHECK_OK(&ctx, ipu_executor_run(&ctx, executor, inputs, NULL, NULL, NULL));
    }
    ipu_executor_free(&ctx, executor);
    return NULL;
}

static void
programs_of_one_device(void)
{
    rig r;
    make_rig(&r, loop_text, 1, 1);
    feeding f = {r.infeed, 2 * STEPS, false};
    pthread_t others[2] = {go(feed, &f), go(run_own, &r)};
    for (int i = 0; i < STEPS; i++) {
        CHECK_OK(&r.ctx, run_rig(&r, 1));
    }
    join(others[0]);
    join(others[1]);
    CHECK(variable_of(&r) == 2 * STEPS);
    free_rig(&r);
}

static void *
write_variable(void *argument)
{
    const rig *r = argument;
    ipu_ctx ctx = fresh();
    const float values[4] = {100, 100, 100, 100};
    CHECK_OK(&ctx, ipu_device_variable_write(&ctx, r->device, r->variable, values,
                                             sizeof(values)));
    return NULL;
}

/* A host writes between two steps. */
static void
variable_is_written(void)
{
    rig r;
    make_rig(&r, loop_text, 1, 2);
    feeding f = {r.infeed, STEPS, false};
    pthread_t others[2] = {go(feed, &f), go(write_variable, &r)};
    CHECK_OK(&r.ctx, run_rig(&r, STEPS));
    join(others[0]);
    join(others[1]);
    float value = variable_of(&r);
    CHECK(value >= 100 && value <= 100 + STEPS);
    free_rig(&r);
}

static void *
remove_variable(void *argument)
{
    const rig *r = argument;
    ipu_device_variable_remove(r->device, r->variable);
    return NULL;
}

static void
variable_is_removed(void)
{
    rig r;
    make_rig(&r, loop_text, 1, 2);
    feeding f = {r.infeed, STEPS, false};
    pthread_t others[2] = {go(feed, &f), go(remove_variable, &r)};
    ipu_status status = run_rig(&r, STEPS);
    CHECK(is_one_of(&r.ctx, status, IPU_OK, IPU_STATUS_NOT_FOUND));
    ipu_infeed_close(r.infeed);
    join(others[0]);
    join(others[1]);
    free_rig(&r);
}

/* A pipeline of three stages, which counts its micro-batches in each. */
static const char *const pipeline_text =
    "resource r0 variable id=0 \"v\" float32[4]\n"
    "resource r1 infeed id=1 \"in\" int32[]\n"
    "resource r2 outfeed id=2 \"out\" float32[4]\n"
    "block b0(%%0: int32[]) {\n"
    "  %%1 = constant() {dtype=int32, shape=[], value=0x06000000} : int32[]\n"
    "  %%2 = constant() {dtype=float32, shape=[], value=0x00000000} : float32[]\n"
    "  %%3 = broadcast(%%2) {shape=[4]} : float32[4]\n"
    "  block b1() {\n"
    "    block b2(%%4: float32[4]) {\n"
    "      %%5 = infeed_dequeue() {resource=1} @(stage=0, phase=0) : int32[]\n"
    "      %%6 = cast(%%5) {dtype=float32} @(stage=0, phase=0) : float32[]\n"
    "      %%7 = broadcast(%%6) {shape=[4]} @(stage=0, phase=0) : float32[4]\n"
    "      %%8 = neg(%%7) @(stage=1, phase=0) : float32[4]\n"
    "      %%9 = abs(%%8) @(stage=2, phase=0) : float32[4]\n"
    "      outfeed_enqueue(%%9) {resource=2} @(stage=2)\n"
    "      %%10 = abs(%%9) @(stage=2, phase=1) : float32[4]\n"
    "      %%11 = abs(%%10) @(stage=1, phase=1) : float32[4]\n"
    "      %%12 = add(%%4, %%11) @(stage=0, phase=1) : float32[4]\n"
    "    } -> (%%12)\n"
    "    %%13 = pipeline(%%1, %%3) {body=b2, schedule=\"%s\", devices=[0,1,2], "
    "training=true} : float32[4]\n"
    "    variable_add(%%13) {resource=0}\n"
    "  } -> ()\n"
    "  repeat(%%0) {body=b1}\n"
    "} -> ()\n";

static void
pipeline_of(const char *schedule)
{
    enum { MICRO_BATCHES = 6 };
    char text[2048];
    rig r;
    snprintf(text, sizeof(text), pipeline_text, schedule);
    make_rig_on(&r, text, 4, 1, 3);
    feeding f = {r.infeed, 2 * MICRO_BATCHES, false};
    pthread_t feeder = go(feed, &f);
    pthread_t watcher = go(watch, &r);
    CHECK_OK(&r.ctx, run_rig(&r, 2));
    CHECK(variable_of(&r) == 66);
    join(feeder);
    join(watcher);
    CHECK(ipu_outfeed_wait(r.outfeed, 0, UINT64_MAX, 0) == 2 * MICRO_BATCHES);
    free_rig(&r);
}

static void
pipeline_grouped(void)
{
    pipeline_of("Grouped");
}

static void
pipeline_interleaved(void)
{
    pipeline_of("Interleaved");
}

/* The recorder starts, is read and stops while all that it records is under way. */
static void *
record(void *argument)
{
    ipu_ctx ctx = fresh();
    ipu_recording recording;
    (void)argument;
    CHECK_OK(&ctx, ipu_recorder_start(&ctx, 64, 0, UINT64_MAX));
    CHECK_OK(&ctx, ipu_recording_take(&ctx, &recording));
    ipu_recording_free(&ctx, &recording);
    ipu_recorder_stop();
    return NULL;
}

static void
program_is_recorded(void)
{
    rig r;
    make_rig(&r, loop_text, 1, 2);
    feeding f = {r.infeed, STEPS, false};
    pthread_t others[2] = {go(feed, &f), go(record, NULL)};
    CHECK_OK(&r.ctx, run_rig(&r, STEPS));
    join(others[0]);
    join(others[1]);
    free_rig(&r);
}

/* --- streams ---------------------------------------------------------------------- */

/* A number goes round three streams. */
static void
ring_of_streams(void)
{
    enum { STREAMS = 3, TURNS = 3 };
    ipu_ctx ctx = fresh();
    maker m = begin_program(&ctx, STREAMS);
    ipu_place value = cell(0);
    int32_t out = -1;
    void *outputs[1] = {&out};
    m.program->output_count = 1;
    m.program->outputs = scalars(&m, 1);
    for (uint32_t i = 0; i < STREAMS; i++) {
        add_channel(&m, i, (i + 1) % STREAMS, 1, 1);
    }
    for (uint32_t i = 0; i < STREAMS; i++) {
        add_copy(&m, i, number(&m, 0), value);
        int32_t loop = open_loop(&m, i, number(&m, TURNS), true);
        if (i > 0) {
            add_receive(&m, i, i - 1, &value);
        }
        add_kernel(&m, i, IPU_OP_ID_ADD, value, number(&m, 1), value);
        add_send(&m, i, i, &value);
        if (i == 0) {
            add_receive(&m, 0, STREAMS - 1, &value);
        }
        close_loop(&m, i, loop);
    }
    add_copy(&m, 0, value, at_index(IPU_SPACE_OUTPUT, 0));
    ipu_program *program = end_program(&m);
    ipu_pool *pool;
    ipu_executor *executor;
    CHECK_OK(&ctx, ipu_pool_create(&ctx, 3, &pool));
    CHECK_OK(&ctx, ipu_executor_create(&ctx, program, NULL, pool, &executor));
    for (int run = 0; run < 2; run++) {
        CHECK_OK(&ctx, ipu_executor_run(&ctx, executor, NULL, outputs, NULL, NULL));
        CHECK(out == STREAMS * TURNS);
    }
    ipu_executor_free(&ctx, executor);
    ipu_program_free(&ctx, program);
    ipu_pool_free(&ctx, pool);
}

/* Streams that wait for each other for ever are always found out. */
static void
streams_wait_for_ever(void)
{
    ipu_ctx ctx = fresh();
    maker m = begin_program(&ctx, 2);
    ipu_place value = cell(0);
    uint32_t there = add_channel(&m, 0, 1, 1, 1);
    uint32_t back = add_channel(&m, 1, 0, 1, 1);
    add_receive(&m, 0, back, &value);
    add_send(&m, 0, there, &value);
    add_receive(&m, 1, there, &value);
    add_send(&m, 1, back, &value);
    ipu_program *program = end_program(&m);
    ipu_pool *pool;
    ipu_executor *executor;
    CHECK_OK(&ctx, ipu_pool_create(&ctx, 2, &pool));
    CHECK_OK(&ctx, ipu_executor_create(&ctx, program, NULL, pool, &executor));
    for (int run = 0; run < 2; run++) {
        CHECK(ipu_executor_run(&ctx, executor, NULL, NULL, NULL, NULL) ==
              IPU_STATUS_INTERNAL);
        ipu_ctx_clear(&ctx);
    }
    ipu_executor_free(&ctx, executor);
    ipu_program_free(&ctx, program);
    ipu_pool_free(&ctx, pool);
}

/* --- data sets -------------------------------------------------------------------- */

static void
read_numbers(ipu_dataset *dataset, int64_t count)
{
    ipu_ctx ctx = fresh();
    ipu_iterator *iterator;
    const ipu_type *types;
    const void *const *parts;
    CHECK_OK(&ctx, ipu_iterator_create(&ctx, dataset, &iterator));
    for (int64_t i = 0; i < count; i++) {
        CHECK_OK(&ctx, ipu_iterator_next(&ctx, iterator, &types, &parts));
        CHECK(long_of(parts) == i);
    }
    ipu_iterator_free(iterator);
}

static void
prefetch_of(int64_t count)
{
    ipu_ctx ctx = fresh();
    ipu_dataset *range = numbers(&ctx, ELEMENTS);
    ipu_dataset *dataset;
    CHECK_OK(&ctx, ipu_dataset_prefetch(&ctx, range, 2, &dataset));
    read_numbers(dataset, count);
    ipu_dataset_unref(dataset);
    ipu_dataset_unref(range);
}

static void
prefetch(void)
{
    prefetch_of(ELEMENTS);
}

static void
prefetch_is_left(void)
{
    prefetch_of(1);
}

static void *
read_cached(void *argument)
{
    read_numbers(argument, ELEMENTS);
    return NULL;
}

static void
cache_of_two(void)
{
    ipu_ctx ctx = fresh();
    ipu_dataset *range = numbers(&ctx, ELEMENTS);
    ipu_dataset *dataset;
    CHECK_OK(&ctx, ipu_dataset_cache(&ctx, range, &dataset));
    pthread_t other = go(read_cached, dataset);
    read_numbers(dataset, ELEMENTS);
    join(other);
    ipu_dataset_unref(dataset);
    ipu_dataset_unref(range);
}

/* --- processes -------------------------------------------------------------------- */

typedef struct speaker {
    ipu_peers *peers;
    bool fails;
} speaker;

static void *
speak(void *argument)
{
    const speaker *s = argument;
    ipu_ctx ctx = fresh();
    uint32_t own = ipu_peers_process(s->peers);
    for (int32_t turn = 0; turn < 2; turn++) {
        int32_t out = turn;
        int32_t in = -1;
        ipu_message send = {1 - own, &out, sizeof(out)};
        ipu_message receive = {1 - own, &in, sizeof(in)};
        ipu_exchange exchange = {
            .sends = &send, .send_count = 1, .receives = &receive, .receive_count = 1};
        if (s->fails && own == 1 && turn == 1) {
            ipu_peers_fail(s->peers, "out of cheese");
        }
        ipu_peers_post(s->peers, &exchange);
        ipu_status status = ipu_exchange_wait(&ctx, s->peers, &exchange, NULL, 0);
        CHECK(status == IPU_OK ? in == turn : s->fails);
        ipu_ctx_clear(&ctx);
    }
    return NULL;
}

static void
processes(carrier carrier, bool fails)
{
    ipu_ctx ctx = fresh();
    circle both;
    make_circle(&ctx, 2, carrier, &both);
    speaker speakers[2] = {{both.peers[0], fails}, {both.peers[1], fails}};
    pthread_t other = go(speak, &speakers[1]);
    speak(&speakers[0]);
    join(other);
    free_circle(&ctx, &both);
}

static void
exchanges(void)
{
    processes(HUB, false);
}

static void
exchanges_of_mpi(void)
{
    processes(MPI, false);
}

static void
exchanges_of_one_thread(void)
{
    processes(MPI_OF_ONE_THREAD, false);
}

static void
exchanges_fail(void)
{
    processes(HUB, true);
}

/* Two processes, of which each has one of two replicas, or two of four. */
static const char *const sums_text =
    "resource r0 variable id=0 \"v\" float32[]\n"
    "block b0(%0: int32[]) {\n"
    "  block b1() {\n"
    "    %1 = replica_index() : int32[]\n"
    "    %2 = cast(%1) {dtype=float32} : float32[]\n"
    "    %3 = all_reduce(%2) {reduction=0} : float32[]\n"
    "    variable_add(%3) {resource=0}\n"
    "  } -> ()\n"
    "  repeat(%0) {body=b1}\n"
    "} -> ()\n";

typedef struct process {
    ipu_peers *peers;
    const ipu_program *program;
    int32_t replicas;
} process;

static void *
run_process(void *argument)
{
    const process *p = argument;
    ipu_ctx ctx = fresh();
    ipu_device *device;
    ipu_executor *executor;
    ipu_pool *pool;
    int64_t id;
    int32_t steps = 2;
    const void *inputs[1] = {&steps};
    float value = -1;
    CHECK_OK(&ctx, ipu_device_create(&ctx, p->replicas, &device));
    ipu_device_set_peers(device, p->peers);
    CHECK_OK(&ctx, ipu_device_variable_add(&ctx, device, &scalar_f, &id));
    CHECK_OK(&ctx, ipu_pool_create(&ctx, p->replicas, &pool));
    CHECK_OK(&ctx, ipu_executor_create(&ctx, p->program, device, pool, &executor));
    CHECK_OK(&ctx, ipu_executor_run(&ctx, executor, inputs, NULL, NULL, NULL));
    CHECK_OK(&ctx,
             ipu_device_variable_read(&ctx, device, id, 0, &value, sizeof(value)));
    CHECK(value == (p->replicas == 1 ? 2.0F : 12.0F));
    ipu_executor_free(&ctx, executor);
    ipu_pool_free(&ctx, pool);
    ipu_device_free(&ctx, device);
    return NULL;
}

static void
programs_of_processes(carrier carrier, int32_t replicas)
{
    ipu_ctx ctx = fresh();
    circle both;
    ipu_graph *graph;
    ipu_program *program;
    CHECK_OK(&ctx, ipu_graph_parse(&ctx, sums_text, &graph));
    CHECK_OK(&ctx, ipu_program_create(&ctx, graph, &options, &program));
    ipu_graph_free(&ctx, graph);
    make_circle(&ctx, 2, carrier, &both);
    process all[2] = {{both.peers[0], program, replicas},
                      {both.peers[1], program, replicas}};
    pthread_t other = go(run_process, &all[1]);
    run_process(&all[0]);
    join(other);
    free_circle(&ctx, &both);
    ipu_program_free(&ctx, program);
}

static void
collective_of_two(void)
{
    programs_of_processes(HUB, 1);
}

static void
collective_of_mpi(void)
{
    programs_of_processes(MPI, 1);
}

static void
collective_of_four(void)
{
    programs_of_processes(HUB, 2);
}

/* --- what is wrong on purpose ------------------------------------------------------ */

typedef struct mistake {
    ipu_lock lock;
    ipu_lock other;
    pthread_cond_t changed;
    atomic_bool is_ready;
    char *memory;
} mistake;

static atomic_int count;

static void
make_mistake(mistake *m)
{
    *m = (mistake){0};
    ipu_lock_init(&m->lock, NULL, NULL);
    ipu_lock_init(&m->other, NULL, NULL);
    ipu_cond_init(&m->changed);
    atomic_store(&count, 0);
}

static void
end_mistake(mistake *m)
{
    ipu_lock_destroy(&m->lock);
    ipu_lock_destroy(&m->other);
    pthread_cond_destroy(&m->changed);
}

/* The flag changes without the lock: who has just looked at it misses the signal. */
static void *
signal_without_lock(void *argument)
{
    mistake *m = argument;
    atomic_store(&m->is_ready, true);
    pthread_cond_signal(&m->changed);
    return NULL;
}

static void
wait_for_signal(bool has_limit)
{
    mistake m;
    make_mistake(&m);
    pthread_t other = go(signal_without_lock, &m);
    ipu_lock_take(&m.lock);
    while (!atomic_load(&m.is_ready)) {
        if (has_limit) {
            ipu_lock_wait_for(&m.lock, &m.changed, 50 * 1000 * 1000);
        } else {
            ipu_lock_wait(&m.lock, &m.changed);
        }
    }
    ipu_lock_drop(&m.lock);
    join(other);
    end_mistake(&m);
}

static void
wrong_wake(void)
{
    wait_for_signal(true);
}

static void
wrong_signal(void)
{
    wait_for_signal(false);
}

static void *
take_in_order(void *argument)
{
    mistake *m = argument;
    ipu_lock_take(&m->lock);
    ipu_lock_take(&m->other);
    ipu_lock_drop(&m->other);
    ipu_lock_drop(&m->lock);
    return NULL;
}

static void
wrong_order(void)
{
    mistake m;
    make_mistake(&m);
    pthread_t thread = go(take_in_order, &m);
    ipu_lock_take(&m.other);
    ipu_lock_take(&m.lock);
    ipu_lock_drop(&m.lock);
    ipu_lock_drop(&m.other);
    join(thread);
    end_mistake(&m);
}

static void *
count_one(void *argument)
{
    atomic_store(&count, atomic_load(&count) + 1);
    return argument;
}

static void
wrong_count(void)
{
    mistake m;
    make_mistake(&m);
    pthread_t other = go(count_one, NULL);
    count_one(NULL);
    join(other);
    CHECK(atomic_load(&count) == 2);
    end_mistake(&m);
}

static void *
write_later(void *argument)
{
    mistake *m = argument;
    atomic_store(&m->is_ready, true);
    m->memory[3] = 1;
    return NULL;
}

static void
wrong_free(void)
{
    ipu_ctx ctx = fresh();
    mistake m;
    make_mistake(&m);
    CHECK_OK(&ctx, ipu_alloc(&ctx, 8, &m.memory));
    pthread_t other = go(write_later, &m);
    while (!atomic_load(&m.is_ready)) {
        interleave_give_way();
    }
    ipu_free(&ctx, m.memory, 8);
    join(other);
    end_mistake(&m);
}

/* --- all -------------------------------------------------------------------------- */

typedef struct scenario {
    const char *name;
    void (*run)(void);
    int64_t patience_ms; /* for which it may wait where nobody can run */
} scenario;

#define ROW(name, patience_ms) {#name, name, patience_ms}

static const scenario scenarios[] = {
    ROW(jobs, 0),
    ROW(jobs_of_two, 0),
    ROW(jobs_of_many, 0),
    ROW(source, 0),
    ROW(two_sources, 0),
    ROW(jobs_in_a_source, 0),
    ROW(brought_work, 0),
    ROW(service_stops, 0),
    ROW(service_stops_itself, 0),
    ROW(service_left_behind, 1000), /* an owner waits for a moment */
    ROW(service_comes_back, 1000),
    ROW(services_in_a_chain, 1000),
    ROW(infeed, 0),
    ROW(infeed_of_one, 0),
    ROW(infeed_fails, 0),
    ROW(infeed_closes, 0),
    ROW(infeed_of_replicas, 0),
    ROW(feeder, 0),
    ROW(feeder_lends, 0),
    ROW(feeder_stops, 0),
    ROW(feeder_moves, 0),
    ROW(outfeed, 0),
    ROW(outfeed_unread, 0),
    ROW(outfeed_of_replicas, 0),
    ROW(outfeed_closes, 0),
    ROW(outfeed_ends, 0),
    ROW(program_in_a_loop, 0),
    ROW(program_is_cancelled, 0),
    ROW(replicas_meet, 0),
    ROW(replicas_are_closed, 0),
    ROW(programs_of_one_device, 0),
    ROW(variable_is_written, 0),
    ROW(variable_is_removed, 0),
    ROW(pipeline_grouped, 0),
    ROW(pipeline_interleaved, 0),
    ROW(program_is_recorded, 0),
    ROW(ring_of_streams, 0),
    ROW(streams_wait_for_ever, 0),
    ROW(prefetch, 0),
    ROW(prefetch_is_left, 0),
    ROW(cache_of_two, 0),
    ROW(exchanges, 0),
    ROW(exchanges_of_mpi, 0),
    ROW(exchanges_of_one_thread, 0),
    ROW(exchanges_fail, 0),
    ROW(collective_of_two, 0),
    ROW(collective_of_mpi, 0),
    ROW(collective_of_four, 0),
    /* not listed */
    ROW(wrong_wake, 0),
    ROW(wrong_signal, 0),
    ROW(wrong_order, 0),
    ROW(wrong_count, 0),
    ROW(wrong_free, 0),
};

/* No wait of the core has a shorter limit, but those for which a scenario has patience:
 * who needs more time was not woken. */
enum { SHORTEST_LIMIT_MS = 20 };
enum { SCENARIOS = sizeof(scenarios) / sizeof(scenarios[0]) };

static uint64_t
end_schedule(const scenario *one, const char *seed)
{
    interleave_report report = interleave_end();
    check_memory();
    CHECK(report.threads == 0);
    CHECK(report.is_rough ||
          report.elapsed_ns < (one->patience_ms + SHORTEST_LIMIT_MS) * 1000000);
    if (check_failures > 0) {
        fprintf(stderr, "%s: %s: %d threads left, %lld ns lost\n", one->name, seed,
                report.threads, (long long)report.elapsed_ns);
        abort();
    }
    return report.places;
}

static uint64_t
run_seed(const scenario *one, uint64_t seed, uint64_t length)
{
    char text[64];
    snprintf(text, sizeof(text), "seed %llu", (unsigned long long)seed);
    interleave_begin(seed, length);
    one->run();
    return end_schedule(one, text);
}

static uint64_t
run_all(const scenario *one, int preemptions)
{
    uint64_t count = 0;
    run_seed(one, 0, 0); /* what is done once in a process */
    interleave_enumerate_anew();
    while (interleave_enumerate(preemptions)) {
        one->run();
        end_schedule(one, "enumeration");
        count++;
    }
    return count;
}

int
main(int argument_count, char **arguments)
{
    bool is_all = argument_count > 1 && strcmp(arguments[1], "--all") == 0;
    for (int i = 0; i < SCENARIOS; i++) {
        const scenario *one = &scenarios[i];
        if (argument_count < 4) {
            if (strncmp(one->name, "wrong", 5) != 0) {
                puts(one->name);
            }
        } else if (strcmp(arguments[is_all ? 2 : 1], one->name) == 0) {
            if (is_all) {
                printf("%llu\n", (unsigned long long)run_all(one, atoi(arguments[3])));
                return 0;
            }
            uint64_t length = run_seed(one, 0, 0);
            uint64_t first = strtoull(arguments[2], NULL, 10);
            uint64_t places = 0;
            for (uint64_t n = 0; n < strtoull(arguments[3], NULL, 10); n++) {
                places += run_seed(one, first + n, length);
            }
            printf("%llu\n", (unsigned long long)places);
            return 0;
        }
    }
    return argument_count < 4 ? 0 : 2;
}
