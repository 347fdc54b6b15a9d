/* SPDX-License-Identifier: MIT
 *
 * Accounts, schedules, routines and kept plans: what a table of plans gives is what the
 * planner does, also when it is full, when several threads ask, and without memory; and
 * with each allocation failing once nothing is lost. */
#define _GNU_SOURCE
#include <math.h>
#include <pthread.h>
#include <string.h>

#include "check.h"
#include "counter.h"
#include "machine/account.h"
#include "pipeline/routines.h"
#include "shared.h"

/* Two stages with a loop and a branch, offloaded, trained; then a shard of its own, and
 * a loop outside of the pipeline. `%s`: the schedule. */
static const char *const program =
    "resource r0 variable id=0 \"w0\" float32[4,4]\n"
    "resource r1 variable id=1 remote \"w1\" float32[4,4]\n"
    "resource r2 infeed id=2 \"in\" float32[4,4]\n"
    "resource r3 outfeed id=3 \"out\" float32[4,4]\n"
    "block b0(%%0: float32[4,4], %%1: int32[]) {\n"
    "  %%2 = constant() {dtype=int32, shape=[], value=0x08000000} : int32[]\n"
    "  block b1(%%3: float32[4,4], %%4: float32[4,4]) {\n"
    "    %%5 = infeed_dequeue() {resource=2} @(stage=0, phase=0) : float32[4,4]\n"
    "    %%6 = variable_read() {resource=0} @(stage=0, phase=0) : float32[4,4]\n"
    "    %%7 = matmul(%%5, %%6) @(stage=0, phase=0) : float32[4,4]\n"
    "    block b2(%%8: float32[4,4]) {\n"
    "      %%9 = tanh(%%8) @(stage=0, phase=0) : float32[4,4]\n"
    "    } -> (%%9)\n"
    "    %%10 = repeat(%%2, %%7) {body=b2} @(stage=0, phase=0) : float32[4,4]\n"
    "    %%11 = variable_read() {resource=1} @(stage=1, phase=0) : float32[4,4]\n"
    "    %%12 = matmul(%%10, %%11) @(stage=1, phase=0) : float32[4,4]\n"
    "    block b3() {\n"
    "      %%13 = sin(%%12) @(stage=1, phase=0) : float32[4,4]\n"
    "    } -> (%%13)\n"
    "    block b4() {\n"
    "      %%14 = neg(%%12) @(stage=1, phase=0) : float32[4,4]\n"
    "    } -> (%%14)\n"
    "    %%15 = switch(%%1) {branches=[b3,b4]} @(stage=1, phase=0) : float32[4,4]\n"
    "    outfeed_enqueue(%%15) {resource=3} @(stage=1)\n"
    "    %%16 = matmul(%%12, %%15) @(stage=1, phase=1) : float32[4,4]\n"
    "    %%17 = add(%%4, %%16) @(stage=1, phase=1) : float32[4,4]\n"
    "    %%18 = matmul(%%16, %%7) @(stage=0, phase=1) : float32[4,4]\n"
    "    %%19 = add(%%3, %%18) @(stage=0, phase=1) : float32[4,4]\n"
    "  } -> (%%19, %%17)\n"
    "  %%20, %%21 = pipeline(%%2, %%0, %%0) {body=b1, schedule=\"%s\", devices=[0,1], "
    "training=true, offload=15} : float32[4,4], float32[4,4]\n"
    "  variable_add(%%20) {resource=0}\n"
    "  %%22 = matmul(%%20, %%21) @(shard=2) : float32[4,4]\n"
    "  block b5(%%23: float32[4,4]) {\n"
    "    %%24 = matmul(%%23, %%22) : float32[4,4]\n"
    "  } -> (%%24)\n"
    "  %%25 = repeat(%%1, %%20) {body=b5} : float32[4,4]\n"
    "} -> (%%25)\n";

static const char *const schedules[] = {"Grouped", "Interleaved", "ZeroBubble"};
enum { SCHEDULES = sizeof(schedules) / sizeof(schedules[0]) };

static const ipu_account_options options = {
    .products = {{0.6, IPU_PRECISION_MIXED}, {0.6, IPU_PRECISION_HALF}}, .replicas = 1};

static ipu_graph *
read_program(ipu_ctx *ctx, const char *schedule)
{
    char text[8192];
    ipu_graph *graph = NULL;
    CHECK(snprintf(text, sizeof(text), program, schedule) < (int)sizeof(text));
    CHECK_OK(ctx, ipu_graph_parse(ctx, text, &graph));
    CHECK_OK(ctx, ipu_graph_verify(ctx, graph));
    return graph;
}

static ipu_node
pipeline_of(const ipu_graph *graph)
{
    IPU_EACH_NODE(id, graph, ((ipu_block){0})) {
        if (ipu_node_of(graph, id)->op == IPU_OP_ID_PIPELINE) {
            return id;
        }
    }
    CHECK(false);
    return IPU_NO_NODE;
}

/* --- each allocation fails once --------------------------------------------------- */

/* What can fail: leaves nothing behind. */
typedef ipu_status attempt(ipu_ctx *ctx, const ipu_graph *graph);

static ipu_status
account_once(ipu_ctx *ctx, const ipu_graph *graph)
{
    ipu_plans *plans = NULL;
    ipu_account account = {0};
    IPU_TRY(ipu_plans_create(ctx, &plans));
    ipu_status status =
        ipu_account_of(ctx, graph, ipu_chip_of(0), &options, plans, &account);
    CHECK(status != IPU_OK || (account.memories.count == 3 && account.cycles > 0));
    ipu_account_free(ctx, &account);
    ipu_plans_free(ctx, plans);
    return status;
}

static ipu_status
schedule_once(ipu_ctx *ctx, const ipu_graph *graph)
{
    ipu_schedule *schedule = NULL;
    IPU_TRY(ipu_pipeline_schedule(ctx, graph, pipeline_of(graph), &schedule));
    CHECK(schedule->ipu_count == 2 && schedule->micro_batches == 8);
    ipu_schedule_free(ctx, schedule);
    return IPU_OK;
}

static ipu_status
routines_once(ipu_ctx *ctx, const ipu_graph *graph)
{
    int32_t routine_of[64];
    CHECK(graph->nodes.count <= 64);
    memset(routine_of, 0xff, sizeof(routine_of));
    IPU_TRY(ipu_routines_find(ctx, graph, pipeline_of(graph), true, routine_of));
    int32_t highest = IPU_NO_ROUTINE;
    for (size_t i = 0; i < graph->nodes.count; i++) {
        highest = routine_of[i] > highest ? routine_of[i] : highest;
    }
    CHECK(highest == (int32_t)ipu_backward_routine(2, 0, true));
    return IPU_OK;
}

/* Plans that cannot be kept are no failure: `may_succeed`. */
static void
sweep(const ipu_graph *graph, attempt *what, bool may_succeed)
{
    long allocations = 1;
    for (long fail_at = 0; fail_at <= allocations; fail_at++) {
        counter c;
        ipu_ctx ctx;
        ipu_ctx_init(&ctx, counting(&c));
        c.fail_at = fail_at;
        ipu_status status = what(&ctx, graph);
        allocations = fail_at == 0 ? atomic_load(&c.allocations) : allocations;
        CHECK(fail_at == 0
                  ? status == IPU_OK
                  : status == IPU_STATUS_OUT_OF_MEMORY ||
                        (may_succeed && status == IPU_OK && ctx.status == IPU_OK));
        CHECK(atomic_load(&c.live_blocks) == 0 && atomic_load(&c.live_bytes) == 0);
    }
    CHECK(allocations > 0);
}

static void
test_failing_allocations(ipu_ctx *ctx)
{
    for (int i = 0; i < SCHEDULES; i++) {
        ipu_graph *graph = read_program(ctx, schedules[i]);
        sweep(graph, account_once, true);
        sweep(graph, schedule_once, false);
        sweep(graph, routines_once, false);
        ipu_graph_free(ctx, graph);
    }
}

/* --- what accounts refuse --------------------------------------------------------- */

static void
test_errors(ipu_ctx *ctx)
{
    ipu_graph *graph = read_program(ctx, "Grouped");
    ipu_plans *plans = NULL;
    ipu_account account;
    ipu_chip chip = *ipu_chip_of(0);
    CHECK_OK(ctx, ipu_plans_create(ctx, &plans));
    chip.clock = (double)NAN;
    CHECK(ipu_account_of(ctx, graph, &chip, &options, plans, &account) ==
          IPU_STATUS_INVALID_ARGUMENT);
    CHECK(strstr(ctx->message, "clock") != NULL);
    ipu_account_free(ctx, &account);
    ipu_ctx_clear(ctx);
    ipu_graph_free(ctx, graph);

    graph = read_program(ctx, "Diagonal");
    CHECK(ipu_account_of(ctx, graph, ipu_chip_of(0), &options, plans, &account) ==
          IPU_STATUS_VALUE);
    ipu_account_free(ctx, &account);
    ipu_ctx_clear(ctx);
    ipu_graph_free(ctx, graph);
    ipu_plans_free(ctx, plans);
    ipu_plans_free(ctx, NULL);
}

/* --- kept plans ------------------------------------------------------------------- */

static ipu_product
product_of(int64_t rows)
{
    return (ipu_product){.batch = 1,
                         .groups = 1,
                         .in = 16,
                         .out = 8,
                         .field = {rows, 1},
                         .input = {rows, 1},
                         .kernel = {1, 1},
                         .stride = {1, 1},
                         .precision = IPU_PRECISION_MIXED};
}

static bool
is_same(const ipu_product_plan *a, const ipu_product_plan *b)
{
    return a->split.vertex == b->split.vertex &&
           memcmp(a->split.parts, b->split.parts, sizeof(a->split.parts)) == 0 &&
           memcmp(&a->cost, &b->cost, sizeof(a->cost)) == 0;
}

/* On few tiles, where a search is short. */
static ipu_chip
small_chip(void)
{
    ipu_chip chip = *ipu_chip_of(0);
    chip.tiles = 3;
    return chip;
}

static void
check_rows(ipu_plans *plans, int64_t rows, double share)
{
    const ipu_chip chip = small_chip();
    const ipu_product product = product_of(rows);
    ipu_product_plan found = ipu_plans_ask(plans, &chip, &product, share);
    ipu_product_plan expected = ipu_product_plan_of(&chip, &product, share);
    CHECK(is_same(&found, &expected));
}

/* More questions than are kept, twice: from before the table was emptied, and after. */
static void
test_full_table(ipu_ctx *ctx)
{
    ipu_plans *plans = NULL;
    CHECK_OK(ctx, ipu_plans_create(ctx, &plans));
    for (int64_t rows = 1; rows <= 9000; rows++) {
        check_rows(plans, rows, 0.6);
    }
    for (int64_t rows = 1; rows <= 9000; rows += 100) {
        check_rows(plans, rows, 0.6);
        check_rows(plans, rows, 0.001); /* another question */
    }
    ipu_plans_free(ctx, plans);
}

/* An answer that is known takes no memory, and a plan that there is no memory for is
 * given all the same. */
static void
test_plans_without_memory(void)
{
    for (long fail_at = 1; fail_at < 16; fail_at++) {
        counter c;
        ipu_ctx ctx;
        ipu_ctx_init(&ctx, counting(&c));
        c.fail_at = fail_at;
        ipu_plans *plans = NULL;
        ipu_status status = ipu_plans_create(&ctx, &plans);
        CHECK(fail_at == 1 ? status == IPU_STATUS_OUT_OF_MEMORY : status == IPU_OK);
        for (int64_t rows = 1; status == IPU_OK && rows < 40; rows++) {
            check_rows(plans, rows, 0.6);
            check_rows(plans, rows, 0.6);
        }
        long before = atomic_load(&c.allocations);
        for (int64_t rows = 30; status == IPU_OK && rows < 40; rows++) {
            check_rows(plans, rows, 0.6);
        }
        CHECK(atomic_load(&c.allocations) == before);
        ipu_plans_free(&ctx, plans);
        CHECK(atomic_load(&c.live_blocks) == 0 && atomic_load(&c.live_bytes) == 0);
    }
}

typedef struct asking {
    ipu_plans *plans;
    int64_t first;
    bool is_right;
} asking;

static void *
ask_many(void *state)
{
    asking *one = state;
    const ipu_chip chip = small_chip();
    one->is_right = true;
    for (int64_t i = 0; i < 400; i++) {
        const ipu_product product = product_of(one->first + i % 200);
        ipu_product_plan found = ipu_plans_ask(one->plans, &chip, &product, 0.6);
        ipu_product_plan expected = ipu_product_plan_of(&chip, &product, 0.6);
        one->is_right = one->is_right && is_same(&found, &expected);
    }
    return NULL;
}

static void
test_threads_ask(ipu_ctx *ctx)
{
    enum { THREADS = 4 };
    ipu_plans *plans = NULL;
    pthread_t threads[THREADS];
    asking each[THREADS];
    CHECK_OK(ctx, ipu_plans_create(ctx, &plans));
    for (int i = 0; i < THREADS; i++) {
        each[i] = (asking){.plans = plans, .first = 1 + 50 * i};
        CHECK(pthread_create(&threads[i], NULL, ask_many, &each[i]) == 0);
    }
    for (int i = 0; i < THREADS; i++) {
        CHECK(pthread_join(threads[i], NULL) == 0);
        CHECK(each[i].is_right);
    }
    ipu_plans_free(ctx, plans);
}

int
main(void)
{
    ipu_ctx ctx = fresh();
    test_failing_allocations(&ctx);
    test_errors(&ctx);
    test_full_table(&ctx);
    test_plans_without_memory();
    test_threads_ask(&ctx);
    return CHECK_DONE();
}
