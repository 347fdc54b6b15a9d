/* SPDX-License-Identifier: MIT
 *
 * Processes that run a program together; here each is a thread with a device. Whatever
 * part of the replicas each has, all get the bits that one process gives. */
#define _GNU_SOURCE
#include <pthread.h>
#include <string.h>

#include "check.h"
#include "counter.h"
#include "fake_mpi.h"
#include "passes/passes.h"
#include "run/executor.h"

enum { REPLICAS = MOST_PROCESSES, MOST_ELEMENTS = 13001, STEPS = 3 };

static const ipu_compile_options options = {
    .variant = IPU_KERNEL_FAST, .cpu = IPU_CPU_GENERIC, .verify = true};

/* --- programs ---------------------------------------------------------------------- */

/* Sums of what differs in each replica, in three dtypes, of whatever size and group. */
static const char *const text =
    "resource r0 variable id=0 \"a\" float32[%d]\n"
    "resource r1 variable id=1 \"b\" float16[%d]\n"
    "resource r2 variable id=2 \"c\" int32[%d]\n"
    "block b0(%%0: int32[]) {\n"
    "  block b1() {\n"
    "    %%1 = random_normal() {shape=[%d], dtype=float32, ordinal=0} : float32[%d]\n"
    "    %%2 = all_reduce(%%1) {reduction=%d, group_size=%d} : float32[%d]\n"
    "    %%3 = cast(%%1) {dtype=float16} : float16[%d]\n"
    "    %%4 = all_reduce(%%3) {reduction=%d, group_size=%d} : float16[%d]\n"
    "    %%5 = cast(%%1) {dtype=int32} : int32[%d]\n"
    "    %%6 = all_reduce(%%5) {group_size=%d} : int32[%d]\n"
    "    variable_add(%%2) {resource=0}\n"
    "    variable_add(%%4) {resource=1}\n"
    "    variable_add(%%6) {resource=2}\n"
    "  } -> ()\n"
    "  repeat(%%0) {body=b1}\n"
    "  %%7 = replica_index() : int32[]\n"
    "} -> (%%7)\n";

/* What replicas deal out to each other, in groups of %d. */
static const char *const parts_text =
    "resource r0 variable id=0 \"a\" float32[%d,%d]\n"
    "resource r1 variable id=1 \"b\" float16[%d]\n"
    "resource r2 variable id=2 \"c\" int32[%d,%d]\n"
    "block b0(%%0: int32[]) {\n"
    "  block b1() {\n"
    "    %%1 = random_normal() {shape=[%d,%d], dtype=float32, ordinal=0} : "
    "float32[%d,%d]\n"
    "    %%2 = all_to_all(%%1) {group_size=%d} : float32[%d,%d]\n"
    "    variable_add(%%2) {resource=0}\n"
    "    %%3 = cast(%%1) {dtype=float16} : float16[%d,%d]\n"
    "    %%4 = reduce_scatter(%%3) {reduction=%d, group_size=%d} : float16[%d]\n"
    "    variable_add(%%4) {resource=1}\n"
    "    %%5 = mul(%%1, %%1) : float32[%d,%d]\n"
    "    %%6 = cast(%%5) {dtype=int32} : int32[%d,%d]\n"
    "    %%7 = reduce_scatter(%%6) {group_size=%d} : int32[%d]\n"
    "    %%8 = all_gather(%%7) {group_size=%d} : int32[%d,%d]\n"
    "    variable_add(%%8) {resource=2}\n"
    "  } -> ()\n"
    "  repeat(%%0) {body=b1}\n"
    "  %%9 = replica_index() : int32[]\n"
    "} -> (%%9)\n";

enum { VARIABLES = 3 };
static const ipu_dtype dtypes[VARIABLES] = {IPU_DTYPE_FLOAT32, IPU_DTYPE_FLOAT16,
                                            IPU_DTYPE_INT32};

typedef struct values {
    char data[REPLICAS][VARIABLES][MOST_ELEMENTS * 4];
} values;

typedef struct process {
    ipu_peers *peers; /* NULL: it is alone */
    const ipu_program *program;
    uint32_t number;
    uint32_t replicas;
    int32_t threads;
    int32_t index;
    values *results;
    uint64_t steps;
    uint64_t waited_ns;
    uint32_t wrong; /* calls; CHECK is for one thread */
} process;

static void
note(process *p, ipu_ctx *ctx, ipu_status status)
{
    if (status != IPU_OK) {
        fprintf(stderr, "process %u: %s\n", p->number, ctx->message);
        ipu_ctx_clear(ctx);
        p->wrong++;
    }
}

static void *
run_process(void *argument)
{
    process *p = argument;
    ipu_ctx ctx;
    ipu_device *device;
    ipu_pool *pool;
    ipu_executor *executor;
    int64_t ids[VARIABLES];
    int32_t steps = STEPS;
    const void *inputs[1] = {&steps};
    void *outputs[1] = {&p->index};
    ipu_run_stats stats;
    counter c;
    ipu_ctx_init(&ctx, counting(&c));
    note(p, &ctx, ipu_device_create(&ctx, (int32_t)p->replicas, &device));
    ipu_device_set_peers(device, p->peers);
    /* process 0's are those that count */
    ipu_device_set_random(device, (ipu_device_random){.seed = 7 + p->number});
    for (int v = 0; v < VARIABLES; v++) {
        const ipu_type *type = &p->program->resources.items[v].types[0];
        note(p, &ctx, ipu_device_variable_add(&ctx, device, type, &ids[v]));
    }
    note(p, &ctx, ipu_pool_create(&ctx, p->threads, &pool));
    note(p, &ctx, ipu_executor_create(&ctx, p->program, device, pool, &executor));
    for (int run = 0; run < 2; run++) {
        note(p, &ctx, ipu_executor_run(&ctx, executor, inputs, outputs, NULL, &stats));
    }
    p->steps = stats.steps;
    p->waited_ns = stats.peer_wait_ns;
    p->wrong += stats.allocations != 0 || stats.infeed_wait_ns != 0;
    for (uint32_t r = 0; r < p->replicas; r++) {
        for (int v = 0; v < VARIABLES; v++) {
            size_t bytes = ipu_type_bytes(&p->program->resources.items[v].types[0]);
            note(p, &ctx,
                 ipu_device_variable_read(
                     &ctx, device, ids[v], (int32_t)r,
                     p->results->data[p->number * p->replicas + r][v], bytes));
        }
    }
    ipu_executor_free(&ctx, executor);
    ipu_pool_free(&ctx, pool);
    ipu_device_free(&ctx, device);
    p->wrong += atomic_load(&c.live_bytes) != 0;
    return NULL;
}

/* Buckets of so many bytes; negative: sums are posted where they stand. */
static ipu_program *
compile_text(ipu_ctx *ctx, const char *own, int32_t bucket)
{
    ipu_graph *graph = NULL;
    ipu_program *program = NULL;
    CHECK_OK(ctx, ipu_graph_parse(ctx, own, &graph));
    if (bucket >= 0) {
        graph->bucket_bytes = (size_t)bucket;
        CHECK_OK(ctx, ipu_pass_run_named(ctx, graph, "bucket"));
    }
    CHECK_OK(ctx, ipu_program_create(ctx, graph, &options, &program));
    ipu_graph_free(ctx, graph);
    return program;
}

static ipu_program *
compile(ipu_ctx *ctx, int32_t n, int32_t reduction, int32_t group, int32_t bucket)
{
    char own[2048];
    snprintf(own, sizeof(own), text, n, n, n, n, n, reduction, group, n, n, reduction,
             group, n, n, group, n);
    return compile_text(ctx, own, bucket);
}

static ipu_program *
compile_parts(ipu_ctx *ctx, int32_t n, int32_t reduction, int32_t g)
{
    char own[2048];
    snprintf(own, sizeof(own), parts_text, g, n, n, g, n, g, n, g, n, g, g, n, g, n,
             reduction, g, n, g, n, g, n, g, n, g, g, n);
    return compile_text(ctx, own, -1);
}

static uint64_t all_waited_ns;

static void
run_together(ipu_ctx *ctx, const ipu_program *program, uint32_t processes,
             int32_t threads, carrier carrier, values *results)
{
    circle peers = {0};
    process all[REPLICAS];
    pthread_t runners[REPLICAS];
    memset(results, 0, sizeof(*results));
    if (processes > 1) {
        make_circle(ctx, processes, carrier, &peers);
    }
    for (uint32_t i = 0; i < processes; i++) {
        all[i] = (process){.peers = peers.peers[i],
                           .program = program,
                           .number = i,
                           .replicas = REPLICAS / processes,
                           .threads = threads,
                           .results = results};
        pthread_create(&runners[i], NULL, run_process, &all[i]);
    }
    uint64_t waited_ns = 0;
    for (uint32_t i = 0; i < processes; i++) {
        pthread_join(runners[i], NULL);
        waited_ns += all[i].waited_ns;
        CHECK(all[i].index == (int32_t)(i * all[i].replicas));
        CHECK(all[i].steps == STEPS && all[i].wrong == 0);
    }
    CHECK(waited_ns == 0 || processes > 1);
    all_waited_ns += waited_ns;
    if (processes > 1) {
        free_circle(ctx, &peers);
    }
}

/* Gives the values of all layouts, which are the same. */
static const values *
run_layouts(ipu_ctx *ctx, ipu_program *program)
{
    static values alone;
    static values shared;
    static uint32_t turn;
    run_together(ctx, program, 1, 1, HUB, &alone);
    for (uint32_t processes = 1; processes <= REPLICAS; processes++) {
        if (REPLICAS % processes == 0) {
            run_together(ctx, program, processes, processes == 2 ? 2 : 1,
                         (carrier)(turn++ % CARRIERS), &shared);
            CHECK(memcmp(&alone, &shared, sizeof(alone)) == 0);
        }
    }
    ipu_program_free(ctx, program);
    return &alone;
}

static void
test_layouts(ipu_ctx *ctx)
{
    static const int32_t sizes[] = {1, 1000,
                                    MOST_ELEMENTS}; /* two exchanges of three */
    static const int32_t groups[] = {0, 1, 2, 3};
    static const int32_t buckets[] = {-1, 0, 1}; /* none, one for all, one for each */
    for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
        for (size_t g = 0; g < sizeof(groups) / sizeof(groups[0]); g++) {
            static values first;
            for (size_t b = 0; b < sizeof(buckets) / sizeof(buckets[0]); b++) {
                if (s == 2 && (g % 2 == 1 || b == 1)) {
                    continue; /* the largest take long */
                }
                const values *all = run_layouts(
                    ctx, compile(ctx, sizes[s], (int32_t)g % 2, groups[g], buckets[b]));
                if (b == 0) {
                    first = *all;
                }
                CHECK(memcmp(all, &first, sizeof(first)) == 0);
            }
        }
    }
}

static void
test_parts(ipu_ctx *ctx)
{
    static const int32_t sizes[] = {0, 1, 7, 5003 / REPLICAS};
    static const int32_t groups[] = {1, 2, 3, 6};
    for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
        for (size_t g = 0; g < sizeof(groups) / sizeof(groups[0]); g++) {
            int32_t mean = (int32_t)g % 2;
            const values *found =
                run_layouts(ctx, compile_parts(ctx, sizes[s], mean, groups[g]));
            for (int r = 0; r < REPLICAS; r++) { /* a group gathers the same */
                int first = r / groups[g] * groups[g];
                CHECK(memcmp(found->data[r][2], found->data[first][2],
                             sizeof(found->data[r][2])) == 0);
            }
        }
    }
}

/* --- what differs ------------------------------------------------------------------ */

typedef struct stranger {
    ipu_peers *peers;
    const ipu_program *program;
    int32_t steps;
    uint32_t replicas;
    ipu_status status;
    char message[1024];
} stranger;

static void *
run_stranger(void *argument)
{
    stranger *s = argument;
    process nobody = {0};
    ipu_ctx ctx;
    ipu_device *device;
    ipu_executor *executor;
    int32_t index;
    int64_t id;
    const void *inputs[1] = {&s->steps};
    void *outputs[1] = {&index};
    ipu_ctx_init(&ctx, ipu_allocator_default());
    note(&nobody, &ctx, ipu_device_create(&ctx, (int32_t)s->replicas, &device));
    ipu_device_set_peers(device, s->peers);
    for (int v = 0; v < VARIABLES; v++) {
        ipu_type type = {dtypes[v], {1, {3}}};
        note(&nobody, &ctx, ipu_device_variable_add(&ctx, device, &type, &id));
    }
    note(&nobody, &ctx, ipu_executor_create(&ctx, s->program, device, NULL, &executor));
    s->status = ipu_executor_run(&ctx, executor, inputs, outputs, NULL, NULL);
    snprintf(s->message, sizeof(s->message), "%s", ctx.message);
    ipu_ctx_clear(&ctx);
    ipu_executor_free(&ctx, executor);
    ipu_device_free(&ctx, device);
    return NULL;
}

/* Both fail, with `part` in what they say; NULL: none does. */
static void
expect_both(ipu_ctx *ctx, stranger a, stranger b, const char *part)
{
    circle peers;
    stranger both[2] = {a, b};
    pthread_t runners[2];
    make_circle(ctx, 2, HUB, &peers);
    for (int i = 0; i < 2; i++) {
        both[i].peers = peers.peers[i];
        pthread_create(&runners[i], NULL, run_stranger, &both[i]);
    }
    for (int i = 0; i < 2; i++) {
        pthread_join(runners[i], NULL);
        CHECK(both[i].status ==
              (part == NULL ? IPU_OK : IPU_STATUS_FAILED_PRECONDITION));
        CHECK(part == NULL || strstr(both[i].message, part) != NULL);
    }
    free_circle(ctx, &peers);
}

static void
test_differences(ipu_ctx *ctx)
{
    ipu_program *sum = compile(ctx, 3, 0, 0, -1);
    ipu_program *mean = compile(ctx, 3, 1, 0, -1);
    stranger usual = {.program = sum, .steps = 2, .replicas = 1};
    stranger other = usual;
    expect_both(ctx, usual, usual, NULL); /* of one replica each */
    other.program = mean;
    expect_both(ctx, usual, other, "different numbers");
    other = usual;
    other.steps = 3;
    expect_both(ctx, usual, other, "different numbers");
    other = usual;
    other.replicas = 2;
    expect_both(ctx, usual, other, "auto_select_ipus");
    ipu_program_free(ctx, sum);
    ipu_program_free(ctx, mean);
}

/* --- an end in the middle of a step ------------------------------------------------ */

typedef struct counting_process {
    ipu_peers *peers;
    const ipu_program *program;
    int elements; /* of the first run, whose data ends */
    float sum;    /* after the second run */
    uint32_t wrong;
} counting_process;

static void
feed_ones(ipu_ctx *ctx, ipu_infeed *infeed, int count)
{
    void *const *slot;
    ipu_infeed_reopen(infeed);
    for (int i = 0; i < count && ipu_infeed_acquire(ctx, infeed, &slot) == IPU_OK;
         i++) {
        *(float *)slot[0] = 1;
        ipu_infeed_publish(infeed);
    }
    ipu_infeed_end(infeed, ctx);
}

static void *
run_counting(void *argument)
{
    counting_process *p = argument;
    const ipu_type type = {IPU_DTYPE_FLOAT32, {0, {0}}};
    process noted = {0};
    ipu_ctx ctx;
    ipu_device *device;
    ipu_infeed *infeed;
    ipu_executor *executor;
    int64_t variable;
    int64_t queue;
    ipu_ctx_init(&ctx, ipu_allocator_default());
    note(&noted, &ctx, ipu_device_create(&ctx, 1, &device));
    ipu_device_set_peers(device, p->peers);
    note(&noted, &ctx, ipu_device_variable_add(&ctx, device, &type, &variable));
    note(&noted, &ctx, ipu_infeed_create(&ctx, &type, 1, 8, 1, &infeed));
    note(&noted, &ctx, ipu_device_infeed_add(&ctx, device, infeed, &queue));
    note(&noted, &ctx, ipu_executor_create(&ctx, p->program, device, NULL, &executor));
    for (int32_t steps = 2; steps > 0; steps--) {
        const void *inputs[1] = {&steps};
        feed_ones(&ctx, infeed, steps == 2 ? p->elements : 2);
        ipu_status status = ipu_executor_run(&ctx, executor, inputs, NULL, NULL, NULL);
        p->wrong += status != (steps == 2 ? IPU_STATUS_OUT_OF_RANGE : IPU_OK);
        ipu_ctx_clear(&ctx);
    }
    note(&noted, &ctx,
         ipu_device_variable_read(&ctx, device, variable, 0, &p->sum, sizeof(p->sum)));
    p->wrong += noted.wrong;
    ipu_executor_free(&ctx, executor);
    ipu_device_free(&ctx, device);
    ipu_infeed_free(&ctx, infeed);
    return NULL;
}

/* Where one process has written a variable in the step in which its data ends, and
 * another one has not, all go on with what process 0 has. */
static void
test_uneven_end(ipu_ctx *ctx)
{
    ipu_program *program =
        compile_text(ctx,
                     "resource r0 variable id=0 \"v\" float32[]\n"
                     "resource r1 infeed id=1 \"in\" float32[]\n"
                     "block b0(%0: int32[]) {\n"
                     "  block b1() {\n"
                     "    %1 = infeed_dequeue() {resource=1} : float32[]\n"
                     "    variable_add(%1) {resource=0}\n"
                     "    %2 = infeed_dequeue() {resource=1} : float32[]\n"
                     "    variable_add(%2) {resource=0}\n"
                     "  } -> ()\n"
                     "  repeat(%0) {body=b1}\n"
                     "} -> ()\n",
                     -1);
    circle peers;
    counting_process both[2];
    pthread_t runners[2];
    make_circle(ctx, 2, HUB, &peers);
    for (int i = 0; i < 2; i++) {
        both[i] = (counting_process){peers.peers[i], program, 2 + i, 0, 0};
        pthread_create(&runners[i], NULL, run_counting, &both[i]);
    }
    for (int i = 0; i < 2; i++) {
        pthread_join(runners[i], NULL);
        CHECK(both[i].wrong == 0 && both[i].sum == 4);
    }
    free_circle(ctx, &peers);
    ipu_program_free(ctx, program);
}

int
main(void)
{
    ipu_ctx ctx;
    ipu_ctx_init(&ctx, ipu_allocator_default());
    test_layouts(&ctx);
    test_parts(&ctx);
    test_differences(&ctx);
    test_uneven_end(&ctx);
    CHECK(all_waited_ns > 0);
    return CHECK_DONE();
}
