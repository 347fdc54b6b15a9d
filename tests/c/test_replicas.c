/* SPDX-License-Identifier: MIT
 *
 * Replicas: how many there are, queues with a consumer or a producer of each, and
 * programs that are run in several of them, on one thread and on many. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#include "check.h"
#include "counter.h"
#include "run/executor.h"

enum { MOST_REPLICAS = 8, STEPS = 40 };

static const ipu_compile_options options = {
    .variant = IPU_KERNEL_FAST, .cpu = IPU_CPU_GENERIC, .verify = true};
static const ipu_type scalar_i = {IPU_DTYPE_INT32, {0, {0}}};
static const ipu_type scalar_f = {IPU_DTYPE_FLOAT32, {0, {0}}};
static const ipu_type vector_f = {IPU_DTYPE_FLOAT32, {1, {3}}};

static void
expect(ipu_ctx *ctx, ipu_status status, ipu_status wanted, const char *part, int line)
{
    bool fits = status == wanted && strstr(ctx->message, part) != NULL;
    CHECK(fits);
    if (!fits) {
        fprintf(stderr, "  line %d: %s: %s\n", line, ipu_status_name(status),
                ctx->message);
    }
    ipu_ctx_clear(ctx);
}

#define EXPECT(ctx, wanted, part, expression) \
    expect((ctx), (expression), IPU_STATUS_##wanted, (part), __LINE__)

/* --- how many --------------------------------------------------------------------- */

static void
test_factor(ipu_ctx *ctx)
{
    static const uint32_t table[][3] = {/* IPUs, shards, replicas */
                                        {1, 1, 1}, {8, 1, 8}, {8, 2, 4}, {8, 3, 2},
                                        {4, 3, 1}, {6, 2, 3}, {16, 5, 2}};
    uint32_t factor;
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        CHECK_OK(ctx, ipu_replication_factor(ctx, (int32_t)table[i][0], table[i][1],
                                             &factor));
        CHECK(factor == table[i][2]);
    }
    EXPECT(ctx, INTERNAL, "number of shards needs to divide the number of IPUs",
           ipu_replication_factor(ctx, 6, 3, &factor));
    EXPECT(ctx, INTERNAL, "auto_select_ipus = 4",
           ipu_replication_factor(ctx, 2, 3, &factor));
}

/* --- infeeds ---------------------------------------------------------------------- */

/* Elements are their numbers. */
typedef struct feeding {
    ipu_infeed *infeed;
    int count;
    bool leaves_open;
} feeding;

static void *
feed(void *argument)
{
    const feeding *f = argument;
    ipu_ctx ctx;
    ipu_ctx_init(&ctx, ipu_allocator_default());
    for (int i = 0; i < f->count; i++) {
        void *const *slot;
        if (ipu_infeed_acquire(&ctx, f->infeed, &slot) != IPU_OK) {
            return NULL;
        }
        memcpy(slot[0], &i, sizeof(i));
        ipu_infeed_publish(f->infeed);
    }
    if (!f->leaves_open) {
        ipu_infeed_end(f->infeed, NULL);
    }
    return NULL;
}

static int32_t
value_of(const void *const *tensors)
{
    int32_t value;
    memcpy(&value, tensors[0], sizeof(value));
    return value;
}

typedef struct taking {
    ipu_infeed *infeed;
    uint32_t replica;
    uint32_t replicas;
    int steps;
    int wrong;
    int taken;
} taking;

/* The next element; waits for it as a blocked stream does, which is asked again. */
static ipu_status
take_next(ipu_ctx *ctx, const taking *t, const void *const **out)
{
    ipu_status status = IPU_OK;
    *out = NULL;
    while (*out == NULL && status == IPU_OK) {
        while (!ipu_infeed_has_element(t->infeed, t->replica)) {
            sched_yield();
        }
        status = ipu_infeed_take(ctx, t->infeed, t->replica, out);
    }
    return status;
}

static void *
take(void *argument)
{
    taking *t = argument;
    ipu_ctx ctx;
    const void *const *element;
    ipu_ctx_init(&ctx, ipu_allocator_default());
    for (int i = 0; i < t->steps; i++) {
        if (take_next(&ctx, t, &element) != IPU_OK) {
            break;
        }
        if (i % 5 == (int)t->replica % 5) {
            sched_yield(); /* the others go on; the element stays */
        }
        t->wrong += value_of(element) != i * (int32_t)t->replicas + (int32_t)t->replica;
        t->taken++;
    }
    return NULL;
}

static void
take_all(ipu_ctx *ctx, ipu_infeed *infeed, uint32_t replicas, int steps)
{
    pthread_t threads[MOST_REPLICAS];
    taking takings[MOST_REPLICAS];
    CHECK_OK(ctx, ipu_infeed_begin(ctx, infeed, replicas));
    for (uint32_t r = 0; r < replicas; r++) {
        takings[r] = (taking){infeed, r, replicas, steps, 0, 0};
        pthread_create(&threads[r], NULL, take, &takings[r]);
    }
    for (uint32_t r = 0; r < replicas; r++) {
        pthread_join(threads[r], NULL);
        CHECK(takings[r].wrong == 0 && takings[r].taken == steps);
    }
    ipu_infeed_finish(infeed);
}

static void
test_infeed_round_robin(ipu_ctx *ctx)
{
    for (uint32_t replicas = 1; replicas <= MOST_REPLICAS; replicas += 1 + replicas) {
        for (int32_t depth = 1; depth <= 6; depth += 5) {
            ipu_infeed *infeed;
            pthread_t feeder;
            CHECK_OK(ctx, ipu_infeed_create(ctx, &scalar_i, 1, depth, (int32_t)replicas,
                                            &infeed));
            feeding f = {infeed, STEPS * (int)replicas, false};
            pthread_create(&feeder, NULL, feed, &f);
            take_all(ctx, infeed, replicas, STEPS);
            pthread_join(feeder, NULL);
            const void *const *none;
            EXPECT(ctx, OUT_OF_RANGE, "all have been taken",
                   ipu_infeed_take(ctx, infeed, replicas - 1, &none));
            ipu_infeed_free(ctx, infeed);
        }
    }
}

/* A run that ends when replica 0 has begun three turns and replica 1 one: the next run
 * begins a turn. */
static void
test_infeed_uneven_end(ipu_ctx *ctx)
{
    for (int32_t depth = 1; depth <= 9; depth += 4) {
        ipu_infeed *infeed;
        pthread_t feeder;
        const void *const *element;
        CHECK_OK(ctx, ipu_infeed_create(ctx, &scalar_i, 1, depth, 2, &infeed));
        feeding f = {infeed, 100, false};
        pthread_create(&feeder, NULL, feed, &f);
        CHECK_OK(ctx, ipu_infeed_begin(ctx, infeed, 2));
        /* with depth 1 the feeder waits for replica 1 after element 1 */
        static const uint32_t order[] = {0, 1, 0, 0};
        for (size_t i = 0; i < (depth == 1 ? 3 : 4); i++) {
            taking t = {infeed, order[i], 2, 1, 0, 0};
            CHECK_OK(ctx, take_next(ctx, &t, &element));
        }
        ipu_infeed_finish(infeed);
        ipu_infeed_finish(infeed); /* changes nothing */
        CHECK_OK(ctx, ipu_infeed_begin(ctx, infeed, 2));
        for (int32_t n = depth == 1 ? 4 : 6; n < 100; n++) {
            taking t = {infeed, (uint32_t)(n % 2), 2, 1, 0, 0};
            CHECK_OK(ctx, take_next(ctx, &t, &element));
            CHECK(value_of(element) == n);
        }
        ipu_infeed_finish(infeed);
        pthread_join(feeder, NULL);
        ipu_infeed_free(ctx, infeed);
    }
}

static void
test_infeed_of_another_factor(ipu_ctx *ctx)
{
    ipu_infeed *infeed;
    CHECK_OK(ctx, ipu_infeed_create(ctx, &scalar_i, 1, 2, 4, &infeed));
    CHECK_OK(ctx, ipu_infeed_begin(ctx, infeed, 2));
    EXPECT(ctx, FAILED_PRECONDITION, "different replication factors",
           ipu_infeed_begin(ctx, infeed, 4));
    ipu_infeed_reopen(infeed);
    CHECK_OK(ctx, ipu_infeed_begin(ctx, infeed, 4));
    CHECK(!ipu_infeed_is_full(infeed));
    feeding f = {infeed, 2, true};
    feed(&f);
    /* half a round, which fills the depth: no replica begins it */
    CHECK(!ipu_infeed_is_full(infeed) && !ipu_infeed_has_element(infeed, 0));
    feed(&f);
    CHECK(ipu_infeed_is_full(infeed));
    CHECK(ipu_infeed_has_element(infeed, 0) && ipu_infeed_has_element(infeed, 3));
    ipu_infeed_free(ctx, infeed);
}

/* --- outfeeds --------------------------------------------------------------------- */

typedef struct putting {
    ipu_outfeed *outfeed;
    uint32_t replica;
    int steps;
} putting;

static void *
put(void *argument)
{
    const putting *p = argument;
    ipu_ctx ctx;
    ipu_ctx_init(&ctx, ipu_allocator_default());
    for (int32_t i = 0; i < p->steps; i++) {
        float vector[3] = {(float)p->replica, (float)i, 7.0f};
        const void *tensors[2] = {&i, vector};
        bool done = false;
        while (ipu_outfeed_enqueue(&ctx, p->outfeed, p->replica, tensors, &done) ==
                   IPU_OK &&
               !done) {
            sched_yield();
        }
    }
    return NULL;
}

static void
test_outfeed_of_replicas(ipu_ctx *ctx)
{
    const ipu_type types[2] = {scalar_i, vector_f};
    for (uint32_t replicas = 1; replicas <= MOST_REPLICAS; replicas += 1 + replicas) {
        for (int32_t depth = 1; depth <= 8; depth += 7) {
            ipu_outfeed *outfeed;
            pthread_t threads[MOST_REPLICAS];
            putting puttings[MOST_REPLICAS];
            CHECK_OK(ctx, ipu_outfeed_create(ctx, types, 2, IPU_OUTFEED_ALL, depth,
                                             &outfeed));
            CHECK_OK(ctx, ipu_outfeed_begin(ctx, outfeed, replicas));
            CHECK(ipu_outfeed_replicas(outfeed) == replicas);
            for (uint32_t r = 0; r < replicas; r++) {
                /* the last one enqueues more than the others, which is dropped */
                puttings[r] =
                    (putting){outfeed, r, STEPS + (r > 0 && r + 1 == replicas)};
                pthread_create(&threads[r], NULL, put, &puttings[r]);
            }
            int64_t got = 0;
            while (got < STEPS) {
                int32_t counts[3 * MOST_REPLICAS];
                float vectors[3 * MOST_REPLICAS][3];
                void *out[2] = {counts, vectors};
                int64_t taken;
                ipu_outfeed_wait(outfeed, 1, UINT64_MAX, -1);
                CHECK_OK(ctx, ipu_outfeed_take(ctx, outfeed, 3, replicas, out, &taken));
                for (int64_t i = 0; i < taken * replicas; i++) {
                    int64_t turn = got + i / replicas;
                    CHECK(counts[i] == turn && vectors[i][1] == (float)turn &&
                          vectors[i][0] == (float)(i % replicas) &&
                          vectors[i][2] == 7.0f);
                }
                got += taken;
            }
            for (uint32_t r = 0; r < replicas; r++) {
                pthread_join(threads[r], NULL);
            }
            ipu_outfeed_flush(outfeed);
            CHECK(ipu_outfeed_wait(outfeed, 0, UINT64_MAX, 0) == 0);
            ipu_outfeed_free(ctx, outfeed);
        }
    }
}

/* Of a run that nobody ended, as in a forked child, nothing is left. */
static void
test_outfeed_begins_anew(ipu_ctx *ctx)
{
    ipu_outfeed *outfeed;
    CHECK_OK(ctx, ipu_outfeed_create(ctx, &scalar_i, 1, IPU_OUTFEED_ALL, 2, &outfeed));
    for (int32_t run = 0; run < 3; run++) {
        CHECK_OK(ctx, ipu_outfeed_begin(ctx, outfeed, 2));
        for (uint32_t r = 0; r < 2; r++) {
            int32_t value = 10 * run + (int32_t)r;
            const void *tensors[1] = {&value};
            bool done;
            if (run != 1 || r == 0) { /* the second run stops in a round */
                CHECK_OK(ctx, ipu_outfeed_enqueue(ctx, outfeed, r, tensors, &done));
                CHECK(done);
            }
        }
    }
    int32_t out[4];
    void *all[1] = {out};
    int64_t taken;
    CHECK_OK(ctx, ipu_outfeed_take(ctx, outfeed, 2, 2, all, &taken));
    CHECK(taken == 2 && out[0] == 0 && out[1] == 1 && out[2] == 20 && out[3] == 21);
    ipu_outfeed_free(ctx, outfeed);
}

static void
test_outfeed_of_another_factor(ipu_ctx *ctx)
{
    ipu_outfeed *outfeed;
    int32_t out[4];
    void *all[1] = {out};
    int64_t taken;
    int32_t one = 1;
    const void *tensors[1] = {&one};
    bool done;
    CHECK_OK(ctx, ipu_outfeed_create(ctx, &scalar_i, 1, IPU_OUTFEED_LAST, 1, &outfeed));
    CHECK_OK(ctx, ipu_outfeed_enqueue(ctx, outfeed, 0, tensors, &done));
    EXPECT(ctx, FAILED_PRECONDITION, "Dequeue them",
           ipu_outfeed_begin(ctx, outfeed, 2));
    CHECK_OK(ctx, ipu_outfeed_take(ctx, outfeed, 1, 2, all, &taken));
    CHECK(taken == 0); /* no room for two replicas' was asked for */
    CHECK_OK(ctx, ipu_outfeed_take(ctx, outfeed, 1, 1, all, &taken));
    CHECK(taken == 1 && out[0] == 1);
    CHECK_OK(ctx, ipu_outfeed_begin(ctx, outfeed, 2));
    for (int32_t turn = 0; turn < 2; turn++) {
        for (uint32_t r = 0; r < 2; r++) {
            int32_t value = 10 * turn + (int32_t)r;
            const void *given[1] = {&value};
            CHECK_OK(ctx, ipu_outfeed_enqueue(ctx, outfeed, r, given, &done));
            CHECK(done);
        }
        bool has_room;
        CHECK_OK(ctx, ipu_outfeed_has_room(ctx, outfeed, 0, &has_room));
        CHECK(ipu_outfeed_wait(outfeed, 1, UINT64_MAX, -1) == 1);
    }
    CHECK_OK(ctx, ipu_outfeed_enqueue(ctx, outfeed, 0, tensors, &done));
    CHECK(done && ipu_outfeed_is_drained(outfeed)); /* replica 1 has to come */
    CHECK_OK(ctx, ipu_outfeed_enqueue(ctx, outfeed, 0, tensors, &done));
    CHECK(!done);
    CHECK_OK(ctx, ipu_outfeed_take(ctx, outfeed, 1, 2, all, &taken));
    CHECK(taken == 1 && out[0] == 10 && out[1] == 11);
    ipu_outfeed_free(ctx, outfeed);
}

/* --- programs --------------------------------------------------------------------- */

/* Sums and means over replicas in a loop, and random numbers. */
static const char *const program_text =
    "resource r0 variable id=0 \"w\" float32[3]\n"
    "resource r1 infeed id=1 \"in\" int32[]\n"
    "resource r2 outfeed id=2 \"out\" float32[3], int32[], float32[3]\n"
    "block b0(%0: int32[]) {\n"
    "  block b1() {\n"
    "    %1 = infeed_dequeue() {resource=1} : int32[]\n"
    "    %2 = cast(%1) {dtype=float32} : float32[]\n"
    "    %3 = random_uniform() {shape=[3], dtype=float32, ordinal=0} : float32[3]\n"
    "    %4 = add(%3, %2) : float32[3]\n"
    "    %5 = all_reduce(%4) {reduction=1} : float32[3]\n"
    "    %6 = all_reduce(%1) {reduction=0} : int32[]\n"
    "    variable_add(%4) {resource=0}\n"
    "    outfeed_enqueue(%5, %6, %3) {resource=2}\n"
    "  } -> ()\n"
    "  repeat(%0) {body=b1}\n"
    "  %7 = variable_read() {resource=0} : float32[3]\n"
    "  %8 = replica_index() : int32[]\n"
    "} -> (%7, %8)\n";

typedef struct rig {
    ipu_device *device;
    ipu_infeed *infeed;
    ipu_outfeed *outfeed;
    int64_t variable;
} rig;

static void
make_rig(ipu_ctx *ctx, rig *r, uint32_t replicas)
{
    const ipu_type out[3] = {vector_f, scalar_i, vector_f};
    int64_t id;
    CHECK_OK(ctx, ipu_device_create(ctx, (int32_t)replicas, &r->device));
    CHECK_OK(ctx, ipu_device_variable_add(ctx, r->device, &vector_f, &r->variable));
    CHECK_OK(ctx,
             ipu_infeed_create(ctx, &scalar_i, 1, 2, (int32_t)replicas, &r->infeed));
    CHECK_OK(ctx, ipu_outfeed_create(ctx, out, 3, IPU_OUTFEED_ALL, 2, &r->outfeed));
    CHECK_OK(ctx, ipu_device_infeed_add(ctx, r->device, r->infeed, &id));
    CHECK_OK(ctx, ipu_device_outfeed_add(ctx, r->device, r->outfeed, &id));
}

static void
free_rig(ipu_ctx *ctx, rig *r)
{
    ipu_device_free(ctx, r->device);
    ipu_infeed_free(ctx, r->infeed);
    ipu_outfeed_free(ctx, r->outfeed);
}

static ipu_program *
compile(ipu_ctx *ctx, const char *text)
{
    ipu_graph *graph = NULL;
    ipu_program *program = NULL;
    CHECK_OK(ctx, ipu_graph_parse(ctx, text, &graph));
    CHECK_OK(ctx, ipu_program_create(ctx, graph, &options, &program));
    ipu_graph_free(ctx, graph);
    return program;
}

/* What a run of STEPS steps gives. */
typedef struct results {
    float variables[MOST_REPLICAS][3];
    float means[STEPS][MOST_REPLICAS][3];
    int32_t sums[STEPS][MOST_REPLICAS];
    float draws[STEPS][MOST_REPLICAS][3];
    float output[3];
    int32_t index;
} results;

static void
run_program(ipu_ctx *ctx, uint32_t replicas, int32_t threads, results *out)
{
    rig r;
    ipu_pool *pool;
    ipu_executor *executor;
    pthread_t feeder;
    int32_t steps = STEPS;
    const void *inputs[1] = {&steps};
    void *outputs[2] = {out->output, &out->index};
    void *fed[3] = {out->means, out->sums, out->draws};
    int64_t taken;
    memset(out, 0, sizeof(*out));
    make_rig(ctx, &r, replicas);
    ipu_device_set_random(r.device, (ipu_device_random){.seed = 5});
    ipu_program *program = compile(ctx, program_text);
    CHECK_OK(ctx, ipu_pool_create(ctx, threads, &pool));
    CHECK_OK(ctx, ipu_executor_create(ctx, program, r.device, pool, &executor));
    CHECK(ipu_executor_replicas(executor) == replicas);
    feeding f = {r.infeed, STEPS * (int)replicas, true};
    pthread_create(&feeder, NULL, feed, &f);
    ipu_run_stats stats;
    CHECK_OK(ctx, ipu_executor_run(ctx, executor, inputs, outputs, NULL, &stats));
    CHECK(stats.steps == STEPS && stats.allocations == 0);
    pthread_join(feeder, NULL);
    CHECK_OK(ctx, ipu_outfeed_take(ctx, r.outfeed, STEPS, replicas, fed, &taken));
    CHECK(taken == STEPS && ipu_device_get_random(r.device).step == STEPS);
    for (uint32_t i = 0; i < replicas; i++) {
        CHECK_OK(ctx, ipu_device_variable_read(ctx, r.device, r.variable, (int32_t)i,
                                               out->variables[i], 3 * sizeof(float)));
    }
    ipu_executor_free(ctx, executor);
    ipu_pool_free(ctx, pool);
    ipu_program_free(ctx, program);
    free_rig(ctx, &r);
}

/* The largest power of two of them, then the rest. */
static float
tree_sum(const float *terms, uint32_t count)
{
    uint32_t cut = 1;
    while (2 * cut < count) {
        cut *= 2;
    }
    return count == 1 ? terms[0]
                      : tree_sum(terms, cut) + tree_sum(terms + cut, count - cut);
}

static void
check_results(const results *got, uint32_t replicas)
{
    const float *means = &got->means[0][0][0];
    const int32_t *sums = &got->sums[0][0];
    const float *draws = &got->draws[0][0][0];
    float variables[MOST_REPLICAS][3] = {{0}};
    for (uint32_t step = 0; step < STEPS; step++) {
        int32_t sum = 0;
        float values[3][MOST_REPLICAS];
        for (uint32_t r = 0; r < replicas; r++) {
            int32_t element = (int32_t)(step * replicas + r);
            const float *drawn = &draws[(step * replicas + r) * 3];
            sum += element;
            for (int i = 0; i < 3; i++) {
                float value = drawn[i] + (float)element;
                values[i][r] = value;
                variables[r][i] = variables[r][i] + value;
            }
            CHECK(r == 0 || drawn[0] != drawn[-3]); /* a random stream of its own */
        }
        for (uint32_t r = 0; r < replicas; r++) {
            CHECK(sums[step * replicas + r] == sum);
            for (int i = 0; i < 3; i++) {
                CHECK(means[(step * replicas + r) * 3 + i] ==
                      tree_sum(values[i], replicas) / (float)replicas);
            }
        }
    }
    CHECK(memcmp(variables, got->variables, sizeof(variables)) == 0);
    CHECK(memcmp(variables[0], got->output, sizeof(got->output)) == 0);
    CHECK(got->index == 0);
}

static void
test_programs(ipu_ctx *ctx)
{
    static results first;
    static results again;
    for (uint32_t replicas = 1; replicas <= MOST_REPLICAS; replicas *= 2) {
        run_program(ctx, replicas, 1, &first);
        check_results(&first, replicas);
        for (int32_t threads = 2; threads <= 8; threads += 3) {
            run_program(ctx, replicas, threads, &again);
            CHECK(memcmp(&first, &again, sizeof(first)) == 0);
        }
    }
}

/* A program whose replicas cannot differ runs once. */
static void
test_nothing_to_replicate(ipu_ctx *ctx)
{
    ipu_device *device;
    ipu_executor *executor;
    ipu_program *program =
        compile(ctx, "block b0(%0: float32[3]) {\n  %1 = exp(%0) : float32[3]\n"
                     "} -> (%1)\n");
    CHECK_OK(ctx, ipu_device_create(ctx, 4, &device));
    CHECK_OK(ctx, ipu_executor_create(ctx, program, device, NULL, &executor));
    CHECK(ipu_executor_replicas(executor) == 1);
    ipu_executor_free(ctx, executor);
    ipu_program_free(ctx, program);
    ipu_device_free(ctx, device);
}

/* Replicas write their own copies. They stay as they are while the same program runs,
 * and are those of replica 0 when another one begins. */
static void
test_copies(ipu_ctx *ctx)
{
    ipu_device *device;
    ipu_executor *counting;
    ipu_executor *reading;
    int64_t id;
    float value = 100.0f;
    ipu_program *count =
        compile(ctx, "resource r0 variable id=0 \"w\" float32[]\nblock b0() {\n"
                     "  %0 = replica_index() : int32[]\n"
                     "  %1 = cast(%0) {dtype=float32} : float32[]\n"
                     "  variable_add(%1) {resource=0}\n} -> ()\n");
    ipu_program *sum =
        compile(ctx, "resource r0 variable id=0 \"w\" float32[]\nblock b0() {\n"
                     "  %0 = variable_read() {resource=0} : float32[]\n"
                     "  %1 = all_reduce(%0) : float32[]\n} -> (%1)\n");
    CHECK_OK(ctx, ipu_device_create(ctx, 4, &device));
    CHECK_OK(ctx, ipu_device_variable_add(ctx, device, &scalar_f, &id));
    size_t bytes = ipu_device_variable_bytes(device);
    CHECK_OK(ctx, ipu_device_variable_write(ctx, device, id, &value, sizeof(value)));
    CHECK_OK(ctx, ipu_executor_create(ctx, count, device, NULL, &counting));
    CHECK_OK(ctx, ipu_executor_create(ctx, sum, device, NULL, &reading));
    CHECK(ipu_device_variable_bytes(device) == 4 * bytes);
    for (int run = 1; run <= 2; run++) {
        CHECK_OK(ctx, ipu_executor_run(ctx, counting, NULL, NULL, NULL, NULL));
        for (int32_t r = 0; r < 4; r++) {
            CHECK_OK(ctx, ipu_device_variable_read(ctx, device, id, r, &value,
                                                   sizeof(value)));
            CHECK(value == 100.0f + (float)(run * r));
        }
    }
    void *outputs[1] = {&value};
    CHECK_OK(ctx, ipu_executor_run(ctx, reading, NULL, outputs, NULL, NULL));
    CHECK(value == 400.0f);
    value = 3.0f;
    CHECK_OK(ctx, ipu_device_variable_write(ctx, device, id, &value, sizeof(value)));
    CHECK_OK(ctx, ipu_executor_run(ctx, reading, NULL, outputs, NULL, NULL));
    CHECK(value == 12.0f);
    ipu_executor_free(ctx, counting);
    ipu_executor_free(ctx, reading);
    ipu_program_free(ctx, count);
    ipu_program_free(ctx, sum);
    ipu_device_free(ctx, device);
}

static void
test_groups(ipu_ctx *ctx)
{
    rig r;
    ipu_executor *executor;
    ipu_program *program = compile(
        ctx, "resource r0 outfeed id=2 \"out\" float32[3], int32[], float32[3]\n"
             "block b0(%0: float32[3]) {\n  %1 = replica_index() : int32[]\n"
             "  %2 = all_reduce(%1) {group_size=2} : int32[]\n"
             "  outfeed_enqueue(%0, %2, %0) {resource=0}\n} -> ()\n");
    float zeros[3] = {0};
    const void *inputs[1] = {zeros};
    static results got;
    void *fed[3] = {got.means, got.sums, got.draws};
    int64_t taken;
    make_rig(ctx, &r, 4);
    CHECK_OK(ctx, ipu_executor_create(ctx, program, r.device, NULL, &executor));
    CHECK_OK(ctx, ipu_executor_run(ctx, executor, inputs, NULL, NULL, NULL));
    CHECK_OK(ctx, ipu_outfeed_take(ctx, r.outfeed, 1, 4, fed, &taken));
    const int32_t *sums = &got.sums[0][0];
    CHECK(taken == 1 && sums[0] == 1 && sums[1] == 1 && sums[2] == 5 && sums[3] == 5);
    ipu_executor_free(ctx, executor);
    free_rig(ctx, &r);
    make_rig(ctx, &r, 3);
    EXPECT(ctx, INVALID_ARGUMENT, "replica_group_size 2 does not divide the 3 replicas",
           ipu_executor_create(ctx, program, r.device, NULL, &executor));
    ipu_program_free(ctx, program);
    free_rig(ctx, &r);
}

/* Replica 0 alone goes to where all would have to meet: an error, for ever waits none.
 */
static void
test_replicas_that_part(ipu_ctx *ctx)
{
    static const char *const bodies[] = {
        "    %3 = all_reduce(%0) : int32[]\n",
        "    %3 = infeed_dequeue() {resource=0} : int32[]\n"
        "    %4 = infeed_dequeue() {resource=0} : int32[]\n"
        "    %5 = infeed_dequeue() {resource=0} : int32[]\n"
        "    %6 = infeed_dequeue() {resource=0} : int32[]\n",
        "    outfeed_enqueue(%2, %0, %2) {resource=1}\n"
        "    outfeed_enqueue(%2, %0, %2) {resource=1}\n"
        "    outfeed_enqueue(%2, %0, %2) {resource=1}\n",
    };
    for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++) {
        rig r;
        ipu_executor *executor;
        char text[1024];
        float zeros[3] = {0};
        const void *inputs[1] = {zeros};
        snprintf(text, sizeof(text),
                 "resource r0 infeed id=1 \"in\" int32[]\n"
                 "resource r1 outfeed id=2 \"out\" float32[3], int32[], float32[3]\n"
                 "block b0(%%2: float32[3]) {\n  %%0 = replica_index() : int32[]\n"
                 "  block b1() {\n%s  } -> ()\n  block b2() {\n  } -> ()\n"
                 "  switch(%%0) {branches=[b1,b2]}\n} -> ()\n",
                 bodies[i]);
        make_rig(ctx, &r, 2);
        ipu_program *program = compile(ctx, text);
        CHECK_OK(ctx, ipu_executor_create(ctx, program, r.device, NULL, &executor));
        feeding f = {r.infeed, 100, true};
        pthread_t feeder;
        pthread_create(&feeder, NULL, feed, &f);
        EXPECT(ctx, INTERNAL, "replica 0, stream 0",
               ipu_executor_run(ctx, executor, inputs, NULL, NULL, NULL));
        ipu_infeed_close(r.infeed);
        pthread_join(feeder, NULL);
        ipu_executor_free(ctx, executor);
        ipu_program_free(ctx, program);
        free_rig(ctx, &r);
    }
}

/* --- without memory --------------------------------------------------------------- */

typedef struct life {
    rig rig;
    ipu_graph *graph;
    ipu_program *program;
    ipu_executor *executor;
} life;

static void
end_life(ipu_ctx *ctx, life *l)
{
    ipu_executor_free(ctx, l->executor);
    ipu_program_free(ctx, l->program);
    ipu_graph_free(ctx, l->graph);
    free_rig(ctx, &l->rig);
    *l = (life){.graph = NULL};
}

static ipu_status
begin_life(ipu_ctx *ctx, life *l)
{
    const ipu_type out[3] = {vector_f, scalar_i, vector_f};
    rig *r = &l->rig;
    int64_t id;
    IPU_TRY(ipu_device_create(ctx, 2, &r->device));
    IPU_TRY(ipu_device_variable_add(ctx, r->device, &vector_f, &r->variable));
    IPU_TRY(ipu_infeed_create(ctx, &scalar_i, 1, 4, 2, &r->infeed));
    IPU_TRY(ipu_outfeed_create(ctx, out, 3, IPU_OUTFEED_ALL, 8, &r->outfeed));
    IPU_TRY(ipu_device_infeed_add(ctx, r->device, r->infeed, &id));
    IPU_TRY(ipu_device_outfeed_add(ctx, r->device, r->outfeed, &id));
    IPU_TRY(ipu_graph_parse(ctx, program_text, &l->graph));
    IPU_TRY(ipu_program_create(ctx, l->graph, &options, &l->program));
    return ipu_executor_create(ctx, l->program, r->device, NULL, &l->executor);
}

/* Two replicas: everything from the device to the results of two steps, with whatever
 * an earlier call that failed has left. */
static ipu_status
live(ipu_ctx *ctx, life *l, results *out)
{
    void *fed[3] = {out->means, out->sums, out->draws};
    void *outputs[2] = {out->output, &out->index};
    const float zeros[3] = {0, 0, 0};
    int32_t steps = 2;
    const void *inputs[1] = {&steps};
    rig *r = &l->rig;
    int64_t taken;
    memset(out, 0, sizeof(*out));
    if (l->executor == NULL) {
        end_life(ctx, l);
        IPU_TRY(begin_life(ctx, l));
    }
    IPU_TRY(
        ipu_device_variable_write(ctx, r->device, r->variable, zeros, sizeof(zeros)));
    ipu_device_set_random(r->device, (ipu_device_random){.seed = 5});
    ipu_infeed_reopen(r->infeed);
    feeding f = {r->infeed, 4, true};
    feed(&f);
    IPU_TRY(ipu_executor_run(ctx, l->executor, inputs, outputs, NULL, NULL));
    IPU_TRY(ipu_outfeed_take(ctx, r->outfeed, STEPS, 2, fed, &taken));
    CHECK(taken == 2 && (&out->sums[0][0])[2] == 5);
    return IPU_OK;
}

static void
test_every_allocation_fails_once(void)
{
    ipu_status status = IPU_STATUS_OUT_OF_MEMORY;
    static results expected;
    int failures = 0;
    for (long n = 0; n < 2 || (status != IPU_OK && check_failures == 0); n++) {
        ipu_ctx ctx;
        counter c;
        life l = {.graph = NULL};
        static results found;
        ipu_ctx_init(&ctx, counting(&c));
        c.fail_at = n;
        status = live(&ctx, &l, &found);
        failures += status != IPU_OK;
        if (status != IPU_OK) {
            EXPECT(&ctx, OUT_OF_MEMORY, "out of memory", status);
            CHECK_OK(&ctx, live(&ctx, &l, &found));
        } else if (n == 0) {
            expected = found;
        }
        CHECK(memcmp(&found, &expected, sizeof(found)) == 0);
        end_life(&ctx, &l);
        CHECK(atomic_load(&c.live_blocks) == 0);
    }
    CHECK(failures > 40);
}

int
main(void)
{
    ipu_ctx ctx;
    ipu_ctx_init(&ctx, ipu_allocator_default());
    test_factor(&ctx);
    test_infeed_round_robin(&ctx);
    test_infeed_uneven_end(&ctx);
    test_infeed_of_another_factor(&ctx);
    test_outfeed_of_replicas(&ctx);
    test_outfeed_begins_anew(&ctx);
    test_outfeed_of_another_factor(&ctx);
    test_programs(&ctx);
    test_nothing_to_replicate(&ctx);
    test_copies(&ctx);
    test_groups(&ctx);
    test_replicas_that_part(&ctx);
    test_every_allocation_fails_once();
    return CHECK_DONE();
}
