/* SPDX-License-Identifier: MIT
 *
 * Processes that run a program together; here each is a thread with a device. Whatever
 * part of the replicas each has, all get the bits that one process gives. */
#define _GNU_SOURCE
#include <pthread.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "check.h"
#include "counter.h"
#include "fake_mpi.h"
#include "passes/passes.h"
#include "run/executor.h"

#define LONG_NS (INT64_C(60) * 1000000000)
enum { REPLICAS = MOST_PROCESSES, MOST_ELEMENTS = 13001, STEPS = 3 };

static const ipu_compile_options options = {
    .variant = IPU_KERNEL_FAST, .cpu = IPU_CPU_GENERIC, .verify = true};

/* --- exchanges --------------------------------------------------------------------- */

enum { CIRCLE = 3, TURNS = 200 };

typedef struct speaker {
    ipu_peers *peers;
    uint32_t wrong;
    ipu_status status;
} speaker;

/* Each tells the next one a number, which comes back after a round. */
static void *
go_around(void *argument)
{
    speaker *s = argument;
    ipu_ctx ctx;
    ipu_ctx_init(&ctx, ipu_allocator_default());
    uint32_t own = ipu_peers_process(s->peers);
    for (uint32_t turn = 0; turn < TURNS && s->status == IPU_OK; turn++) {
        uint32_t out[2] = {turn, own};
        uint32_t in[2] = {0, 0};
        uint32_t before = (own + CIRCLE - 1) % CIRCLE;
        ipu_message sends[2] = {{(own + 1) % CIRCLE, &out[0], 4},
                                {(own + 1) % CIRCLE, &out[1], 4}};
        ipu_message receives[2] = {{before, &in[0], 4}, {before, &in[1], 4}};
        ipu_exchange exchange = {.channel = turn % 2,
                                 .sends = sends,
                                 .send_count = 2,
                                 .receives = receives,
                                 .receive_count = 2};
        ipu_peers_post(s->peers, &exchange);
        s->status = ipu_exchange_wait(&ctx, s->peers, &exchange, NULL, 0);
        s->wrong += in[0] != turn || in[1] != before;
    }
    return NULL;
}

static void
test_exchanges(ipu_ctx *ctx, carrier carrier)
{
    circle all;
    pthread_t threads[CIRCLE];
    speaker speakers[CIRCLE];
    make_circle(ctx, CIRCLE, carrier, &all);
    for (int i = 0; i < CIRCLE; i++) {
        speakers[i] = (speaker){.peers = all.peers[i]};
        pthread_create(&threads[i], NULL, go_around, &speakers[i]);
    }
    for (int i = 0; i < CIRCLE; i++) {
        pthread_join(threads[i], NULL);
        CHECK(speakers[i].status == IPU_OK && speakers[i].wrong == 0);
    }
    free_circle(ctx, &all);
}

/* Who waits for one that fails is told, and so is who comes later. */
static void
test_failures(ipu_ctx *ctx)
{
    circle all;
    char reason[900];
    int32_t number = 0;
    const int32_t cancel = 1;
    ipu_message receive = {1, &number, sizeof(number)};
    ipu_exchange exchange = {.receives = &receive, .receive_count = 1};
    make_circle(ctx, 2, HUB, &all);
    ipu_peers **peers = all.peers;
    CHECK(!ipu_peers_has_failed(peers[0], reason, sizeof(reason)));
    ipu_peers_post(peers[0], &exchange);
    CHECK(!ipu_exchange_is_over(&exchange));
    CHECK(ipu_exchange_wait(ctx, peers[0], &exchange, &cancel, 0) ==
          IPU_STATUS_INTERRUPTED);
    ipu_ctx_clear(ctx);
    ipu_peers_fail(peers[1], "out of %s", "cheese");
    ipu_peers_fail(peers[1], "later");
    CHECK(ipu_exchange_wait(ctx, peers[0], &exchange, NULL, 0) == IPU_STATUS_ABORTED);
    CHECK(strcmp(ctx->message, "process 1 failed: out of cheese") == 0);
    ipu_ctx_clear(ctx);
    ipu_peers_post(peers[1], &exchange);
    CHECK(ipu_exchange_result(ctx, peers[1], &exchange) == IPU_STATUS_ABORTED);
    ipu_ctx_clear(ctx);
    free_circle(ctx, &all);
    CHECK(ipu_peers_create(ctx, 2, 2, &peers[0]) == IPU_STATUS_VALUE);
    ipu_ctx_clear(ctx);
}

/* Whether the process is told when MPI fails at its n-th call; of those that two need for
 * an exchange each. */
static void
test_faults(ipu_ctx *ctx)
{
    enum { CALLS = 6 };
    for (uint64_t n = 1; n <= CALLS; n++) {
        ipu_peers *peers;
        int32_t number = 0;
        ipu_message message = {0, &number, sizeof(number)}; /* to itself */
        ipu_exchange exchange = {.sends = &message,
                                 .send_count = 1,
                                 .receives = &message,
                                 .receive_count = 1};
        fake_reset();
        fake.fails_at = n;
        fake.only_counts = true;
        CHECK_OK(ctx, ipu_peers_create(ctx, 0, 1, &peers));
        fake_join(peers, n % 2 == 0, true);
        ipu_peers_post(peers, &exchange);
        ipu_status status = ipu_exchange_wait(ctx, peers, &exchange, NULL, 0);
        CHECK((status == IPU_STATUS_ABORTED) == (fake.count >= n));
        if (status != IPU_OK) {
            CHECK(strcmp(ctx->message, "MPI failed: fault 17 of the fake") == 0);
            CHECK(ipu_peers_is_torn(peers)); /* MPI may still be at its memory */
        }
        ipu_ctx_clear(ctx);
        ipu_peers_free(ctx, peers);
    }
}

/* More bytes than an int counts go in pieces, in order; nobody looks at them here. */
static void
test_large_messages(ipu_ctx *ctx)
{
    static const size_t sizes[] = {0, IPU_MPI_MOST_BYTES, IPU_MPI_MOST_BYTES + 1,
                                   5 * IPU_MPI_MOST_BYTES};
    static const uint32_t pieces[] = {1, 1, 2, 5};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        ipu_peers *peers;
        ipu_errand errand;
        int32_t number = 0;
        ipu_message message = {1, &number, sizes[i]};
        ipu_exchange exchange = {.sends = &message, .send_count = 1};
        fake_reset();
        CHECK_OK(ctx, ipu_peers_create(ctx, 0, 2, &peers));
        fake_join(peers, false, true);
        ipu_peers_post(peers, &exchange);
        uint32_t count = 0;
        for (; fake.requests[count].is_used; count++) {
            size_t before = count * IPU_MPI_MOST_BYTES;
            CHECK(fake.requests[count].data == (void *)((char *)&number + before));
            CHECK((size_t)fake.requests[count].bytes ==
                  (count + 1 < pieces[i] ? IPU_MPI_MOST_BYTES : sizes[i] - before));
        }
        CHECK(count == pieces[i]);
        CHECK(!ipu_peers_find(peers, 0, 0, 0, &errand));
        CHECK(!ipu_peers_find(peers, 1, 0, LONG_NS, &errand));
        CHECK(!ipu_peers_find(peers, 1, 1, 0, &errand));
        CHECK(ipu_peers_find(peers, IPU_ANY_PROCESS, 0, 0, &errand));
        CHECK(errand.number == 1 && strcmp(errand.processes, "1") == 0);
        ipu_peers_fail(peers, "the end");
        CHECK(ipu_exchange_state_of(&exchange) == IPU_EXCHANGE_FAILED);
        ipu_peers_free(ctx, peers);
    }
}

static void *
serve_once(void *peers)
{
    ipu_peers_serve(peers, LONG_NS);
    return NULL;
}

/* A run that gives an exchange up may overwrite all but the bytes that are on their way,
 * whatever MPI is at. */
static void
test_giving_up(ipu_ctx *ctx)
{
    enum { MESSAGES = 64 };
    ipu_peers *peers;
    pthread_t runner;
    int32_t number = 0;
    const int32_t cancel = 1;
    ipu_message messages[MESSAGES];
    for (int i = 0; i < MESSAGES; i++) {
        messages[i] = (ipu_message){1, &number, sizeof(number)};
    }
    ipu_exchange exchange = {.sends = messages,
                             .send_count = MESSAGES,
                             .receives = messages,
                             .receive_count = MESSAGES};
    fake_reset();
    CHECK_OK(ctx, ipu_peers_create(ctx, 0, 2, &peers));
    fake_join(peers, false, false);
    pthread_create(&runner, NULL, serve_once, peers);
    ipu_peers_post(peers, &exchange);
    CHECK(ipu_exchange_wait(ctx, peers, &exchange, &cancel, 0) ==
          IPU_STATUS_INTERRUPTED);
    ipu_ctx_clear(ctx);
    ipu_peers_fail(peers, "given up");
    for (int i = 0; i < MESSAGES; i++) { /* the sanitizer does not see a memset */
        messages[i].process = 7;
    }
    exchange.send_count = 0;
    ipu_peers_wake(peers);
    pthread_join(runner, NULL);
    for (int i = 0; fake.requests[i].is_used; i++) {
        CHECK(fake.requests[i].from + fake.requests[i].to == 1);
    }
    ipu_peers_free(ctx, peers);
}

static void
note_heard(void *state)
{
    ++*(int *)state;
}

/* How long one waits for an exchange that does not end; one without messages has. */
static void
test_waiting(ipu_ctx *ctx)
{
    circle all;
    int32_t number = 0;
    int heard = 0;
    const int32_t cancel = 1;
    ipu_cancel cancelled = {0};
    ipu_message receive = {1, &number, sizeof(number)};
    ipu_exchange nothing = {.hear = note_heard, .hearer = &heard};
    ipu_exchange exchange = {
        .receives = &receive, .receive_count = 1, .hear = note_heard, .hearer = &heard};
    make_circle(ctx, 2, HUB, &all);
    ipu_peers *own = all.peers[0];
    CHECK(ipu_peers_process(own) == 0 && ipu_peers_count(own) == 2);
    ipu_peers_post(own, &nothing);
    CHECK(ipu_exchange_state_of(&nothing) == IPU_EXCHANGE_OVER && heard == 1);
    CHECK(ipu_peers_ended(own) == 1);
    CHECK_OK(ctx, ipu_exchange_wait(ctx, own, &nothing, &cancel, 0));
    ipu_peers_post(own, &exchange);
    uint64_t begin = ipu_now_ns();
    CHECK(ipu_exchange_wait(ctx, own, &exchange, &cancel, 30 * 1000000) ==
          IPU_STATUS_INTERRUPTED);
    CHECK(ipu_now_ns() - begin >= 30 * 1000000);
    ipu_ctx_clear(ctx);
    ctx->cancel = &cancelled;
    CHECK(ipu_exchange_wait(ctx, own, &exchange, &cancel, 0) == IPU_STATUS_INTERRUPTED);
    ipu_ctx_clear(ctx);
    cancelled.flag = 1;
    CHECK(ipu_exchange_wait(ctx, own, &exchange, &cancel, 0) == IPU_STATUS_CANCELLED);
    ctx->cancel = NULL;
    ipu_ctx_clear(ctx);
    CHECK(heard == 1);
    ipu_peers_fail(all.peers[1], "over");
    CHECK(heard == 2 && ipu_peers_ended(own) == 2);
    ipu_peers_post(own, &nothing);
    CHECK(ipu_exchange_state_of(&nothing) == IPU_EXCHANGE_OVER);
    CHECK(!ipu_peers_is_torn(own) && !ipu_peers_is_torn(all.peers[1]));
    free_circle(ctx, &all);
    CHECK(ipu_peers_create(ctx, 0, 0, &own) == IPU_STATUS_VALUE && own == NULL);
    ipu_ctx_clear(ctx);
}

/* Messages between threads wait for who receives them, by channel and process, and are
 * as long as the shorter of what is sent and what is wanted. */
static void
test_letters(ipu_ctx *ctx)
{
    static const char sent[4][5] = {"abcd", "efgh", "ijkl", "mnop"};
    char found[3][8];
    counter c;
    circle all;
    ipu_ctx own;
    ipu_ctx_init(&own, counting(&c));
    make_circle(&own, 3, HUB, &all);
    for (uint32_t i = 0; i < 4; i++) { /* 0 to 2, on two channels; 1 to 2 */
        ipu_message message = {2, (void *)sent[i], 4};
        ipu_exchange send = {.channel = i % 2, .sends = &message, .send_count = 1};
        ipu_peers_post(all.peers[i == 3 ? 1 : 0], &send);
        CHECK(ipu_exchange_state_of(&send) == IPU_EXCHANGE_OVER);
    }
    memset(found, '-', sizeof(found));
    ipu_message receives[3] = {{0, found[0], 2}, {1, found[1], 8}, {0, found[2], 4}};
    ipu_exchange last = {.channel = 1, .receives = &receives[1], .receive_count = 2};
    ipu_exchange first = {.channel = 0, .receives = receives, .receive_count = 1};
    ipu_peers_post(all.peers[2], &last);
    ipu_peers_post(all.peers[2], &first);
    CHECK(ipu_exchange_state_of(&last) == IPU_EXCHANGE_OVER);
    CHECK(ipu_exchange_state_of(&first) == IPU_EXCHANGE_OVER);
    CHECK(memcmp(found, "ab------mnop----efgh----", sizeof(found)) == 0);
    /* one letter is left; there is no memory for another one */
    char reason[900];
    ipu_message message = {2, (void *)sent[0], 4};
    ipu_exchange send = {.sends = &message, .send_count = 1};
    c.fail_at = atomic_load(&c.allocations) + 1;
    ipu_peers_post(all.peers[0], &send);
    CHECK(ipu_exchange_state_of(&send) == IPU_EXCHANGE_FAILED);
    for (int i = 0; i < 3; i++) {
        CHECK(ipu_peers_has_failed(all.peers[i], reason, sizeof(reason)));
        CHECK(strstr(reason, "out of memory") != NULL);
        CHECK((strstr(reason, "process 0 failed") != NULL) == (i > 0));
    }
    free_circle(&own, &all);
    CHECK(atomic_load(&c.live_bytes) == 0);
    ipu_ctx_clear(&own);
    ipu_peers_free(ctx, NULL);
    ipu_hub_free(ctx, NULL);
}

#ifndef __SANITIZE_THREAD__
/* A child cannot meet the others, and says so at once. */
static void
test_fork(ipu_ctx *ctx)
{
    ipu_peers *peers;
    int32_t number = 0;
    ipu_message message = {1, &number, sizeof(number)};
    ipu_exchange exchange = {.receives = &message, .receive_count = 1};
    ipu_exchange later = exchange;
    fake_reset();
    CHECK_OK(ctx, ipu_peers_create(ctx, 0, 3, &peers));
    fake_join(peers, false, true);
    ipu_peers_post(peers, &exchange);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        alarm(20);
        ipu_peers_post(peers, &later);
        bool fits =
            ipu_exchange_wait(ctx, peers, &later, NULL, 0) == IPU_STATUS_ABORTED &&
            strstr(ctx->message, "was forked from one that runs together with 2") !=
                NULL;
        _exit(fits && fake.count < 3 ? 0 : 1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    CHECK(ipu_exchange_state_of(&exchange) == IPU_EXCHANGE_POSTED);
    ipu_peers_fail(peers, "the end");
    CHECK(ipu_peers_is_torn(peers));
    ipu_peers_free(ctx, peers);
}
#endif

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
    for (int i = 0; i < CARRIERS; i++) {
        test_exchanges(&ctx, (carrier)i);
    }
    test_failures(&ctx);
    test_faults(&ctx);
    test_large_messages(&ctx);
    test_giving_up(&ctx);
    test_waiting(&ctx);
    test_letters(&ctx);
#ifndef __SANITIZE_THREAD__
    test_fork(&ctx);
#endif
    test_layouts(&ctx);
    test_parts(&ctx);
    test_differences(&ctx);
    test_uneven_end(&ctx);
    CHECK(all_waited_ns > 0);
    return CHECK_DONE();
}
