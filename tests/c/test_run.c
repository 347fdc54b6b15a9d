/* SPDX-License-Identifier: MIT
 *
 * Devices, queues and the engine: text graphs are parsed, compiled and run, with other
 * threads at the infeed, the outfeed and the variables meanwhile; runs are cancelled,
 * starved and broken; every allocation fails once; the steady state allocates
 * nothing. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "check.h"
#include "counter.h"
#include "run/executor_impl.h"
#include "shared.h"

static const ipu_compile_options options = {
    .variant = IPU_KERNEL_FAST, .cpu = IPU_CPU_GENERIC, .verify = true};
static const ipu_type scalar_f = {IPU_DTYPE_FLOAT32, {0, {0}}};
static const ipu_type vector_f = {IPU_DTYPE_FLOAT32, {1, {4}}};

static ipu_status
build(ipu_ctx *ctx, const char *text, ipu_device *device, ipu_program **program,
      ipu_executor **executor)
{
    ipu_graph *graph = NULL;
    *program = NULL;
    *executor = NULL;
    ipu_status status = ipu_graph_parse(ctx, text, &graph);
    if (status == IPU_OK) {
        status = ipu_program_create(ctx, graph, &options, program);
    }
    if (status == IPU_OK) {
        status = ipu_executor_create(ctx, *program, device, NULL, executor);
    }
    ipu_graph_free(ctx, graph);
    return status;
}

static void
drop(ipu_ctx *ctx, ipu_program *program, ipu_executor *executor)
{
    ipu_executor_free(ctx, executor);
    ipu_program_free(ctx, program);
}

static void
expect(ipu_ctx *ctx, ipu_status status, ipu_status wanted, const char *part, int line)
{
    bool fits =
        status == wanted && (part == NULL || strstr(ctx->message, part) != NULL);
    CHECK(fits);
    if (!fits) {
        fprintf(stderr, "  line %d: %s: %s\n", line, ipu_status_name(status),
                ctx->message);
    }
    ipu_ctx_clear(ctx);
}

#define EXPECT(ctx, wanted, part, expression) \
    expect((ctx), (expression), IPU_STATUS_##wanted, (part), __LINE__)

static float
read_float(ipu_ctx *ctx, ipu_device *device, int64_t id)
{
    float value = -1;
    CHECK_OK(ctx, ipu_device_variable_read(ctx, device, id, 0, &value, sizeof(value)));
    return value;
}

/* --- device ----------------------------------------------------------------------- */

static void
test_device(ipu_ctx *ctx)
{
    ipu_device *device;
    int64_t a;
    int64_t b;
    float in[4] = {1, 2, 3, 4};
    float out[4] = {9, 9, 9, 9};
    EXPECT(ctx, VALUE, "IPUs", ipu_device_create(ctx, 0, &device));
    CHECK_OK(ctx, ipu_device_create(ctx, 3, &device));
    CHECK(ipu_device_ipus(device) == 3);
    CHECK_OK(ctx, ipu_device_variable_add(ctx, device, &vector_f, &a));
    CHECK_OK(ctx, ipu_device_variable_add(ctx, device, &vector_f, &b));
    CHECK(a != b);
    CHECK_OK(ctx, ipu_device_variable_read(ctx, device, a, 2, out, sizeof(out)));
    CHECK(out[0] == 0 && out[3] == 0);
    CHECK_OK(ctx, ipu_device_variable_write(ctx, device, b, in, sizeof(in)));
    for (int32_t replica = 0; replica < 3; replica++) {
        CHECK_OK(ctx,
                 ipu_device_variable_read(ctx, device, b, replica, out, sizeof(out)));
        CHECK(memcmp(in, out, sizeof(in)) == 0);
    }
    EXPECT(ctx, VALUE, "replica must be from 0 to 2",
           ipu_device_variable_read(ctx, device, b, 3, out, sizeof(out)));
    EXPECT(ctx, INVALID_ARGUMENT, "16 bytes",
           ipu_device_variable_read(ctx, device, b, 0, out, 12));
    size_t bytes = ipu_device_variable_bytes(device);
    ipu_device_variable_remove(device, a);
    CHECK(ipu_device_variable_bytes(device) == bytes / 2);
    EXPECT(ctx, NOT_FOUND, NULL,
           ipu_device_variable_write(ctx, device, a, in, sizeof(in)));
    ipu_device_variable_remove(device, a);
    CHECK_OK(ctx, ipu_device_variable_add(ctx, device, &vector_f, &a));
    CHECK(a > b);
    ipu_type wide = {IPU_DTYPE_FLOAT64, {0, {0}}};
    EXPECT(ctx, TYPE, "float64", ipu_device_variable_add(ctx, device, &wide, &a));
    ipu_device_free(ctx, device);
}

static void
test_binding(ipu_ctx *ctx)
{
    static const char *text = "resource r0 variable id=1 \"w\" float32[4]\n"
                              "block b0() {\n"
                              "  %0 = variable_read() {resource=0} : float32[4]\n"
                              "} -> (%0)\n";
    ipu_device *device;
    ipu_program *program;
    ipu_executor *executor;
    int64_t id;
    float out[4];
    void *outputs[1] = {out};
    EXPECT(ctx, FAILED_PRECONDITION, "needs a device",
           build(ctx, text, NULL, &program, &executor));
    executor = (ipu_executor *)outputs; /* what a failure leaves is nothing */
    EXPECT(ctx, FAILED_PRECONDITION, "needs a device",
           ipu_executor_create(ctx, program, NULL, NULL, &executor));
    CHECK(executor == NULL);
    drop(ctx, program, executor);
    CHECK_OK(ctx, ipu_device_create(ctx, 1, &device));
    CHECK_OK(ctx, ipu_device_variable_add(ctx, device, &scalar_f, &id));
    EXPECT(ctx, NOT_FOUND, NULL, build(ctx, text, device, &program, &executor));
    drop(ctx, program, executor);
    CHECK_OK(ctx, ipu_device_variable_add(ctx, device, &vector_f, &id));
    CHECK_OK(ctx, build(ctx, text, device, &program, &executor));
    CHECK_OK(ctx, ipu_executor_run(ctx, executor, NULL, outputs, NULL, NULL));
    ipu_device_variable_remove(device, 0); /* another one: bound anew, once */
    CHECK(executor->generation != ipu__device_generation(device));
    CHECK_OK(ctx, ipu_executor_run(ctx, executor, NULL, outputs, NULL, NULL));
    CHECK(executor->generation == ipu__device_generation(device));
    ipu_device_variable_remove(device, id);
    EXPECT(ctx, NOT_FOUND, NULL,
           ipu_executor_run(ctx, executor, NULL, outputs, NULL, NULL));
    EXPECT(ctx, NOT_FOUND, NULL,
           ipu_executor_run(ctx, executor, NULL, outputs, NULL, NULL));
    drop(ctx, program, executor);
    ipu_device_free(ctx, device);

    CHECK_OK(ctx, ipu_device_create(ctx, 1, &device));
    CHECK_OK(ctx, ipu_device_variable_add(ctx, device, &scalar_f, &id));
    CHECK_OK(ctx, ipu_device_variable_add(ctx, device, &scalar_f, &id));
    EXPECT(ctx, FAILED_PRECONDITION, "'w' is float32[] on the device",
           build(ctx, text, device, &program, &executor));
    drop(ctx, program, executor);
    ipu_device_free(ctx, device);

    static const char *const parts =
        "resource r0 variable id=0 shared in 2 parts of "
        "float32[3] \"w\" float32[2]\n"
        "block b0() {\n"
        "  %0 = variable_read() {resource=0} : float32[2]\n"
        "} -> (%0)\n";
    const ipu_type types[3] = {{IPU_DTYPE_FLOAT32, {1, {3}}}, vector_f, scalar_f};
    for (int32_t ipus = 1; ipus <= 2; ipus++) {
        CHECK_OK(ctx, ipu_device_create(ctx, ipus, &device));
        CHECK_OK(ctx, ipu_device_variable_add(ctx, device, &types[0], &id));
        ipu_status status = build(ctx, parts, device, &program, &executor);
        expect(ctx, status, ipus == 2 ? IPU_OK : IPU_STATUS_FAILED_PRECONDITION,
               ipus == 2 ? NULL : "shared out over 2 replicas, but 1 run", __LINE__);
        drop(ctx, program, executor);
        ipu_device_free(ctx, device);
    }

    static const char *const queues[2] = {
        "resource r0 infeed id=0 \"q\" float32[4], float32[]\n"
        "block b0() {\n"
        "  %0, %1 = infeed_dequeue() {resource=0} : float32[4], float32[]\n"
        "} -> (%0)\n",
        "resource r0 outfeed id=0 \"q\" float32[4], float32[]\n"
        "block b0(%0: float32[4], %1: float32[]) {\n"
        "  outfeed_enqueue(%0, %1) {resource=0}\n"
        "} -> ()\n"};
    static const struct {
        uint32_t first;
        uint32_t count;
        const char *error;
    } cases[] = {{1, 2, NULL},
                 {0, 2,
                  "'q' is float32[3] on the device, but the program was made for "
                  "float32[4]"},
                 {1, 1, "'q' has 1 components, but the program was made for 2"}};
    for (int i = 0; i < 6; i++) {
        const ipu_type *own = &types[cases[i / 2].first];
        uint32_t count = cases[i / 2].count;
        ipu_infeed *infeed = NULL;
        ipu_outfeed *outfeed = NULL;
        CHECK_OK(ctx, ipu_device_create(ctx, 1, &device));
        if (i % 2 == 0) {
            CHECK_OK(ctx, ipu_infeed_create(ctx, own, count, 2, 1, &infeed));
            CHECK_OK(ctx, ipu_device_infeed_add(ctx, device, infeed, &id));
        } else {
            CHECK_OK(ctx,
                     ipu_outfeed_create(ctx, own, count, IPU_OUTFEED_ALL, 2, &outfeed));
            CHECK_OK(ctx, ipu_device_outfeed_add(ctx, device, outfeed, &id));
        }
        ipu_status status = build(ctx, queues[i % 2], device, &program, &executor);
        expect(ctx, status, i < 2 ? IPU_OK : IPU_STATUS_FAILED_PRECONDITION,
               cases[i / 2].error, __LINE__);
        drop(ctx, program, executor);
        ipu_device_free(ctx, device);
        ipu_infeed_free(ctx, infeed);
        ipu_outfeed_free(ctx, outfeed);
    }
}

/* --- a training-like loop with threads all around --------------------------------- */

/* v counts steps; each step takes (x, n) and gives x * n + v. */
static const char *const loop_text =
    "resource r0 variable id=0 \"v\" float32[]\n"
    "resource r1 infeed id=1 \"in\" float32[4], float32[]\n"
    "resource r2 outfeed id=2 \"out\" float32[4], float32[]\n"
    "block b0(%0: int32[]) {\n"
    "  %1 = constant() {dtype=float32, shape=[], value=0x0000803f} : float32[]\n"
    "  block b1(%2: float32[4]) {\n"
    "    %3, %4 = infeed_dequeue() {resource=1} : float32[4], float32[]\n"
    "    variable_add(%1) {resource=0}\n"
    "    %5 = variable_read() {resource=0} : float32[]\n"
    "    %6 = mul(%3, %4) : float32[4]\n"
    "    %7 = add(%6, %5) : float32[4]\n"
    "    outfeed_enqueue(%7, %5) {resource=2}\n"
    "    %8 = add(%2, %6) : float32[4]\n"
    "  } -> (%8)\n"
    "  %9 = broadcast(%1) {shape=[4]} : float32[4]\n"
    "  %10 = repeat(%0, %9) {body=b1} : float32[4]\n"
    "} -> (%10)\n";

typedef struct rig {
    ipu_ctx *ctx;
    ipu_device *device;
    int64_t variable;
    int64_t infeed_id;
    int64_t outfeed_id;
    ipu_infeed *infeed;
    ipu_outfeed *outfeed;
    ipu_program *program;
    ipu_executor *executor;
} rig;

static ipu_status
make_rig_with(ipu_ctx *ctx, rig *r, int32_t in_depth, int32_t out_depth,
              ipu_outfeed_mode mode)
{
    ipu_type types[2] = {vector_f, scalar_f};
    *r = (rig){.ctx = ctx};
    IPU_TRY(ipu_device_create(ctx, 1, &r->device));
    IPU_TRY(ipu_device_variable_add(ctx, r->device, &scalar_f, &r->variable));
    IPU_TRY(ipu_infeed_create(ctx, types, 2, in_depth, 1, &r->infeed));
    IPU_TRY(ipu_outfeed_create(ctx, types, 2, mode, out_depth, &r->outfeed));
    IPU_TRY(ipu_device_infeed_add(ctx, r->device, r->infeed, &r->infeed_id));
    IPU_TRY(ipu_device_outfeed_add(ctx, r->device, r->outfeed, &r->outfeed_id));
    return build(ctx, loop_text, r->device, &r->program, &r->executor);
}

static void
free_rig(rig *r)
{
    drop(r->ctx, r->program, r->executor);
    ipu_device_free(r->ctx, r->device);
    ipu_infeed_free(r->ctx, r->infeed);
    ipu_outfeed_free(r->ctx, r->outfeed);
}

static void
make_rig(ipu_ctx *ctx, rig *r, int32_t in_depth, int32_t out_depth)
{
    CHECK_OK(ctx, make_rig_with(ctx, r, in_depth, out_depth, IPU_OUTFEED_ALL));
}

static ipu_status
run_steps(rig *r, int32_t steps, const int32_t *cancel, float *out,
          ipu_run_stats *stats)
{
    float own[4];
    const void *inputs[1] = {&steps};
    void *outputs[1] = {out == NULL ? own : out};
    return ipu_executor_run(r->ctx, r->executor, inputs, outputs, cancel, stats);
}

typedef struct freed_cause {
    ipu_cause base;
    bool is_freed;
} freed_cause;

static void
note_freed(ipu_cause *cause)
{
    ((freed_cause *)cause)->is_freed = true;
}

/* Elements 0, 1, 2, ...: x = n, n = 2. */
typedef struct feeding {
    ipu_infeed *infeed;
    int count;         /* -1: until the queue is closed */
    const char *error; /* VALUE at the end; NULL: the end of the data */
    ipu_cause *cause;  /* of that error */
    bool is_taken;     /* the error by the queue */
    bool leaves_open;
    int fed;
} feeding;

static void *
feed(void *argument)
{
    feeding *f = argument;
    ipu_ctx ctx;
    ipu_ctx_init(&ctx, ipu_allocator_default());
    for (f->fed = 0; f->fed != f->count; f->fed++) {
        void *const *slot;
        if (ipu_infeed_acquire(&ctx, f->infeed, &slot) != IPU_OK) {
            return NULL;
        }
        for (int i = 0; i < 4; i++) {
            ((float *)slot[0])[i] = (float)f->fed + (float)i;
        }
        *(float *)slot[1] = 2;
        ipu_infeed_publish(f->infeed);
    }
    if (!f->leaves_open) {
        if (f->error != NULL) {
            (void)ipu_ctx_fail(&ctx, IPU_STATUS_VALUE, "%s", f->error);
            ctx.cause = f->cause;
        }
        ipu_infeed_end(f->infeed, &ctx);
        f->is_taken = ctx.status == IPU_OK && ctx.cause == NULL;
    }
    return NULL;
}

typedef struct reading {
    rig *r;
    int wanted;
    int got;
    int wrong;
} reading;

/* Takes results as they come and checks each. */
static void *
read_out(void *argument)
{
    reading *rd = argument;
    ipu_ctx ctx;
    ipu_ctx_init(&ctx, ipu_allocator_default());
    while (rd->got < rd->wanted) {
        float values[16][4];
        float counts[16];
        void *out[2] = {values, counts};
        int64_t taken;
        ipu_outfeed_wait(rd->r->outfeed, 1, UINT64_MAX, -1);
        ipu_outfeed_take(&ctx, rd->r->outfeed, 16, 1, out, &taken);
        for (int64_t i = 0; i < taken; i++, rd->got++) {
            float n = (float)rd->got;
            bool fits = counts[i] == n + 1 && values[i][0] == n * 2 + n + 1 &&
                        values[i][3] == (n + 3) * 2 + n + 1;
            rd->wrong += !fits;
        }
    }
    return NULL;
}

typedef struct watching {
    rig *r;
    float by; /* what a step adds */
    atomic_bool stop;
    atomic_bool is_over;
    int reads;
    int wrong;
} watching;

/* The variable only grows, and is a whole number at every boundary. */
static void *
watch(void *argument)
{
    watching *w = argument;
    ipu_ctx ctx;
    float before = 0;
    ipu_ctx_init(&ctx, ipu_allocator_default());
    do { /* once at least, however late it is */
        float now = -1;
        ipu_device_variable_read(&ctx, w->r->device, w->r->variable, 0, &now, 4);
        w->wrong += now < before || now / w->by != (float)(int)(now / w->by);
        before = now;
        w->reads++;
        sleep_ms(1);
    } while (!atomic_load(&w->stop));
    atomic_store(&w->is_over, true);
    return NULL;
}

static void
test_threads(ipu_ctx *ctx, int32_t in_depth, int32_t out_depth)
{
    enum { STEPS = 3000 };
    rig r;
    pthread_t threads[3];
    float out[4];
    make_rig(ctx, &r, in_depth, out_depth);
    feeding f = {.infeed = r.infeed, .count = STEPS};
    reading rd = {.r = &r, .wanted = STEPS};
    watching w = {.r = &r, .by = 1};
    pthread_create(&threads[0], NULL, feed, &f);
    pthread_create(&threads[1], NULL, read_out, &rd);
    pthread_create(&threads[2], NULL, watch, &w);
    ipu_run_stats stats;
    CHECK_OK(ctx, run_steps(&r, STEPS / 2, NULL, out, &stats));
    CHECK(stats.steps == STEPS / 2);
    CHECK(stats.allocations == 0);
    CHECK_OK(ctx, run_steps(&r, STEPS / 2, NULL, out, &stats));
    CHECK(ipu_device_get_random(r.device).step == STEPS);
    double sum = 1;
    for (int n = STEPS / 2; n < STEPS; n++) {
        sum += 2.0 * n;
    }
    CHECK(out[0] == (float)sum);
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
    atomic_store(&w.stop, true);
    pthread_join(threads[2], NULL);
    CHECK(rd.got == STEPS && rd.wrong == 0);
    CHECK(w.reads > 0 && w.wrong == 0);
    CHECK(read_float(ctx, r.device, r.variable) == STEPS);
    EXPECT(ctx, OUT_OF_RANGE, "out of range", run_steps(&r, 1, NULL, out, NULL));
    free_rig(&r);
}

/* Nobody reads: the program never stalls, and everything is there afterwards. */
static void
test_unread(ipu_ctx *ctx)
{
    enum { STEPS = 1000 };
    rig r;
    static float values[STEPS][4];
    static float counts[STEPS];
    void *out[2] = {values, counts};
    int64_t taken;
    pthread_t thread;
    make_rig(ctx, &r, 2, 4);
    feeding f = {.infeed = r.infeed, .count = STEPS};
    pthread_create(&thread, NULL, feed, &f);
    CHECK_OK(ctx, run_steps(&r, STEPS, NULL, NULL, NULL));
    pthread_join(thread, NULL);
    CHECK(ipu_outfeed_wait(r.outfeed, 0, UINT64_MAX, 0) == STEPS);
    CHECK(ipu_outfeed_wait(r.outfeed, STEPS + 1, UINT64_MAX, 1000000) == STEPS);
    CHECK_OK(ctx, ipu_outfeed_take(ctx, r.outfeed, 10, 1, out, &taken));
    CHECK(taken == 10 && counts[0] == 1 && counts[9] == 10);
    CHECK_OK(ctx, ipu_outfeed_take(ctx, r.outfeed, STEPS, 1, out, &taken));
    CHECK(taken == STEPS - 10 && counts[0] == 11 && counts[STEPS - 11] == STEPS);
    CHECK_OK(ctx, ipu_outfeed_take(ctx, r.outfeed, STEPS, 1, out, &taken));
    CHECK(taken == 0);
    free_rig(&r);

    CHECK_OK(ctx, make_rig_with(ctx, &r, 2, 4, IPU_OUTFEED_LAST));
    f = (feeding){.infeed = r.infeed, .count = 100};
    pthread_create(&thread, NULL, feed, &f);
    CHECK_OK(ctx, run_steps(&r, 100, NULL, NULL, NULL));
    pthread_join(thread, NULL);
    CHECK(ipu_outfeed_wait(r.outfeed, 1, UINT64_MAX, 0) == 1);
    CHECK_OK(ctx, ipu_outfeed_take(ctx, r.outfeed, 5, 1, out, &taken));
    CHECK(taken == 1 && counts[0] == 100 && values[0][0] == 298);
    CHECK(ipu_outfeed_wait(r.outfeed, 1, UINT64_MAX, 0) == 0);
    free_rig(&r);
}

static void
test_infeed_ends(ipu_ctx *ctx)
{
    rig r;
    pthread_t thread;
    make_rig(ctx, &r, 3, 4);
    feeding f = {.infeed = r.infeed, .count = 5};
    pthread_create(&thread, NULL, feed, &f);
    EXPECT(ctx, OUT_OF_RANGE, "5 elements", run_steps(&r, 10, NULL, NULL, NULL));
    pthread_join(thread, NULL);
    CHECK(read_float(ctx, r.device, r.variable) == 5); /* completed steps count */
    CHECK(ipu_outfeed_wait(r.outfeed, 5, UINT64_MAX, 0) == 5);

    ipu_infeed_reopen(r.infeed);
    freed_cause cause = {.base = {1, note_freed}};
    f = (feeding){
        .infeed = r.infeed, .count = 2, .error = "bad row", .cause = &cause.base};
    pthread_create(&thread, NULL, feed, &f);
    for (int run = 0; run < 3; run++) { /* the error is still there for the next one */
        CHECK(run_steps(&r, 3, NULL, NULL, NULL) == IPU_STATUS_VALUE);
        CHECK(ctx->cause == &cause.base && cause.base.holders == 2);
        EXPECT(ctx, VALUE, "bad row", ctx->status);
        CHECK(cause.base.holders == 1 && !cause.is_freed);
    }
    pthread_join(thread, NULL);
    CHECK(f.is_taken);
    CHECK(read_float(ctx, r.device, r.variable) == 7);

    ipu_infeed_reopen(r.infeed);
    CHECK(cause.is_freed);
    f = (feeding){.infeed = r.infeed, .count = -1};
    pthread_create(&thread, NULL, feed, &f);
    CHECK_OK(ctx, run_steps(&r, 50, NULL, NULL, NULL));
    ipu_infeed_close(r.infeed); /* ends the producer, which waits on a full ring */
    pthread_join(thread, NULL);
    CHECK(f.fed >= 50);
    EXPECT(ctx, FAILED_PRECONDITION, "initialize", run_steps(&r, 1, NULL, NULL, NULL));
    free_rig(&r);
}

/* --- deleting, and what is read ahead ----------------------------------------------
 */

static void *
close_later(void *argument)
{
    nanosleep(&(struct timespec){.tv_nsec = 20 * 1000 * 1000}, NULL);
    ipu_infeed_close(argument);
    return NULL;
}

static void
test_read_ahead(ipu_ctx *ctx)
{
    enum { DEPTH = 3, COUNT = 20 };
    rig r;
    make_rig(ctx, &r, DEPTH, 4);
    void *const *slot;
    const void *const *used = NULL;
    int made = 0;
    float kept = -1;
    CHECK_OK(ctx, ipu_infeed_begin(ctx, r.infeed, 1));
    for (int taken = 0; taken < COUNT; taken++) {
        while (made < taken + DEPTH) { /* never waits: as much as may be made */
            CHECK_OK(ctx, ipu_infeed_acquire(ctx, r.infeed, &slot));
            ((float *)slot[1])[0] = (float)made++;
            ipu_infeed_publish(r.infeed);
        }
        /* the slot in use is not among those that were filled meanwhile */
        CHECK(taken == 0 || ((const float *)used[1])[0] == kept);
        CHECK_OK(ctx, ipu_infeed_take(ctx, r.infeed, 0, &used));
        kept = ((const float *)used[1])[0];
        CHECK(kept == (float)taken);
    }
    free_rig(&r);
}

static void
test_delete(ipu_ctx *ctx)
{
    rig r;
    pthread_t thread;
    make_rig(ctx, &r, 2, 8);
    pthread_create(&thread, NULL, close_later, r.infeed);
    EXPECT(ctx, CANCELLED, "closed", run_steps(&r, 1, NULL, NULL, NULL));
    pthread_join(thread, NULL);
    for (int pass = 0; pass < 2; pass++) {
        ipu_infeed_reopen(r.infeed);
        feeding f = {.infeed = r.infeed, .count = 5};
        pthread_create(&thread, NULL, feed, &f);
        CHECK_OK(ctx, run_steps(&r, 5, NULL, NULL, NULL));
        pthread_join(thread, NULL);
        uint64_t ends = ipu_outfeed_ends(r.outfeed);
        CHECK(ipu_outfeed_wait(r.outfeed, 6, ends + 1, -1) == 5); /* ends differ */
        CHECK_OK(ctx, ipu_device_queue_delete(ctx, r.device, r.infeed_id));
        CHECK_OK(ctx, ipu_device_queue_delete(ctx, r.device, r.outfeed_id));
        CHECK(ipu_outfeed_ends(r.outfeed) == ends + 1);
        CHECK(ipu_outfeed_wait(r.outfeed, 1, UINT64_MAX, 0) == 0);
        EXPECT(ctx, FAILED_PRECONDITION, "initialize",
               run_steps(&r, 1, NULL, NULL, NULL));
    }
    EXPECT(ctx, NOT_FOUND, NULL, ipu_device_queue_delete(ctx, r.device, 99));
    free_rig(&r);
}

/* --- cancelling ------------------------------------------------------------------- */

typedef struct cancelling {
    int32_t flag;
    long after_ms;
} cancelling;

static void *
cancel_later(void *argument)
{
    cancelling *c = argument;
    sleep_ms(c->after_ms);
    __atomic_store_n(&c->flag, 1, __ATOMIC_RELAXED);
    return NULL;
}

static void
test_cancel(ipu_ctx *ctx)
{
    rig r;
    pthread_t threads[2];
    ipu_run_stats stats;
    make_rig(ctx, &r, 2, 8);
    feeding f = {.infeed = r.infeed, .count = -1};
    cancelling c = {.after_ms = 20};
    pthread_create(&threads[0], NULL, feed, &f);
    pthread_create(&threads[1], NULL, cancel_later, &c);
    EXPECT(ctx, INTERRUPTED, NULL, run_steps(&r, 1 << 30, &c.flag, NULL, &stats));
    pthread_join(threads[1], NULL);
    CHECK(stats.steps > 0);
    CHECK(read_float(ctx, r.device, r.variable) == (float)stats.steps);
    CHECK(ipu_outfeed_wait(r.outfeed, 0, UINT64_MAX, 0) == (int64_t)stats.steps);
    EXPECT(ctx, INTERRUPTED, "before the first step",
           run_steps(&r, 10, &c.flag, NULL, &stats));
    CHECK(stats.steps == 0);
    c.flag = 0;
    CHECK_OK(ctx, run_steps(&r, 10, &c.flag, NULL, &stats)); /* usable again */
    ipu_infeed_close(r.infeed);
    pthread_join(threads[0], NULL);

    ipu_infeed_reopen(r.infeed); /* an infeed that nobody feeds */
    float before = read_float(ctx, r.device, r.variable);
    pthread_create(&threads[1], NULL, cancel_later, &c);
    EXPECT(ctx, INTERRUPTED, "infeed", run_steps(&r, 10, &c.flag, NULL, &stats));
    pthread_join(threads[1], NULL);
    CHECK(stats.infeed_wait_ns > 1000000);
    CHECK(read_float(ctx, r.device, r.variable) == before);
    free_rig(&r);
}

/* --- a feeder that looks at variables --------------------------------------------- */

/* Reads, and now and then writes, the variable before each element. A run that waits
 * for the element has not written anything in its step: it lets the feeder pass. */
static void *
feed_by_variable(void *argument)
{
    rig *r = argument;
    ipu_ctx ctx;
    ipu_ctx_init(&ctx, ipu_allocator_default());
    for (int i = 0; i < 60; i++) {
        float value = -1;
        void *const *slot;
        sleep_ms(i % 3); /* so that the run waits for it */
        ipu_device_variable_read(&ctx, r->device, r->variable, 0, &value,
                                 sizeof(value));
        if (i == 30) {
            value += 1000;
            ipu_device_variable_write(&ctx, r->device, r->variable, &value,
                                      sizeof(value));
        }
        if (ipu_infeed_acquire(&ctx, r->infeed, &slot) != IPU_OK) {
            break;
        }
        memset(slot[0], 0, 16);
        *(float *)slot[1] = value;
        ipu_infeed_publish(r->infeed);
    }
    return NULL;
}

static void
test_feeder_reads_variables(ipu_ctx *ctx)
{
    rig r;
    pthread_t thread;
    make_rig(ctx, &r, 1, 64);
    pthread_create(&thread, NULL, feed_by_variable, &r);
    CHECK_OK(ctx, run_steps(&r, 60, NULL, NULL, NULL));
    pthread_join(thread, NULL);
    CHECK(read_float(ctx, r.device, r.variable) == 1060);
    free_rig(&r);
}

/* --- taking things away from a running program ------------------------------------ */

typedef struct running {
    rig *r;
    int32_t cancel;
    ipu_status status;
    ipu_ctx ctx;
} running;

static void *
run_long(void *argument)
{
    running *run = argument;
    int32_t steps = 1 << 30;
    float out[4];
    const void *inputs[1] = {&steps};
    void *outputs[1] = {out};
    ipu_ctx_init(&run->ctx, ipu_allocator_default());
    run->status = ipu_executor_run(&run->ctx, run->r->executor, inputs, outputs,
                                   &run->cancel, NULL);
    return NULL;
}

static void
wait_for_steps(const rig *r, uint64_t steps)
{
    while (ipu_device_get_random(r->device).step < steps) {
        sleep_ms(1);
    }
}

static void
test_removal(ipu_ctx *ctx)
{
    rig r;
    pthread_t threads[2];
    make_rig(ctx, &r, 2, 8);
    feeding f = {.infeed = r.infeed, .count = -1};
    running run = {.r = &r};
    pthread_create(&threads[0], NULL, feed, &f);
    pthread_create(&threads[1], NULL, run_long, &run);
    wait_for_steps(&r, 3);
    EXPECT(ctx, FAILED_PRECONDITION, "in use",
           ipu_device_queue_remove(ctx, r.device, r.infeed_id));
    int64_t other;
    CHECK_OK(ctx, ipu_device_variable_add(ctx, r.device, &scalar_f, &other));
    ipu_device_variable_remove(r.device, other);
    (void)read_float(ctx, r.device, r.variable); /* passes a boundary: bound anew */
    CHECK(ipu_device_get_random(r.device).step > 0);
    ipu_device_set_random(r.device, (ipu_device_random){.seed = 5});
    wait_for_steps(&r, 3);
    ipu_device_variable_remove(r.device, r.variable);
    pthread_join(threads[1], NULL);
    CHECK(run.status == IPU_STATUS_NOT_FOUND);
    ipu_infeed_close(r.infeed);
    pthread_join(threads[0], NULL);
    CHECK_OK(ctx, ipu_device_queue_remove(ctx, r.device, r.infeed_id));
    EXPECT(ctx, NOT_FOUND, NULL, ipu_device_queue_remove(ctx, r.device, r.infeed_id));
    EXPECT(ctx, FAILED_PRECONDITION, NULL, run_steps(&r, 1, NULL, NULL, NULL));
    free_rig(&r);
}

/* Two programs of one device take turns, run by run. */
static const char *const count_text =
    "resource r0 variable id=0 \"v\" float32[]\n"
    "block b0(%0: int32[]) {\n"
    "  %1 = constant() {dtype=float32, shape=[], value=0x0000803f} : float32[]\n"
    "  block b1() {\n"
    "    %2 = variable_read() {resource=0} : float32[]\n"
    "    %3 = add(%2, %1) : float32[]\n"
    "    variable_assign(%3) {resource=0}\n"
    "  } -> ()\n"
    "  repeat(%0) {body=b1}\n"
    "} -> ()\n";

static void *
count_up(void *argument)
{
    ipu_device *device = argument;
    ipu_ctx ctx;
    ipu_program *program;
    ipu_executor *executor;
    int32_t steps = 50;
    const void *inputs[1] = {&steps};
    ipu_ctx_init(&ctx, ipu_allocator_default());
    ipu_status status = build(&ctx, count_text, device, &program, &executor);
    for (int i = 0; status == IPU_OK && i < 20; i++) {
        status = ipu_executor_run(&ctx, executor, inputs, NULL, NULL, NULL);
    }
    drop(&ctx, program, executor);
    return status == IPU_OK ? NULL : argument;
}

static void
test_two_programs(ipu_ctx *ctx)
{
    ipu_device *device;
    int64_t id;
    pthread_t threads[2];
    CHECK_OK(ctx, ipu_device_create(ctx, 1, &device));
    CHECK_OK(ctx, ipu_device_variable_add(ctx, device, &scalar_f, &id));
    for (int i = 0; i < 2; i++) {
        pthread_create(&threads[i], NULL, count_up, device);
    }
    for (int i = 0; i < 2; i++) {
        void *failed;
        pthread_join(threads[i], &failed);
        CHECK(failed == NULL);
    }
    CHECK(read_float(ctx, device, id) == 2000);
    CHECK(ipu_device_get_random(device).step == 2000);
    ipu_device_free(ctx, device);
}

/* A program that waits for nothing lets hosts at its variables, too, step by step. */
static void
test_hosts_in_between(ipu_ctx *ctx)
{
    rig r = {.ctx = ctx};
    running run = {.r = &r};
    pthread_t thread;
    float last = 0;
    CHECK_OK(ctx, ipu_device_create(ctx, 1, &r.device));
    CHECK_OK(ctx, ipu_device_variable_add(ctx, r.device, &scalar_f, &r.variable));
    CHECK_OK(ctx, build(ctx, count_text, r.device, &r.program, &r.executor));
    pthread_create(&thread, NULL, run_long, &run);
    wait_for_steps(&r, 1);
    for (int i = 0; i < 10; i++) {
        float now = read_float(ctx, r.device, r.variable);
        CHECK(now >= last && now > 0);
        last = now;
    }
    ipu_device_variable_remove(r.device, r.variable);
    pthread_join(thread, NULL);
    CHECK(run.status == IPU_STATUS_NOT_FOUND);
    drop(ctx, r.program, r.executor);
    ipu_device_free(ctx, r.device);
}

/* Adds 1 to v before it waits, and 1 after. */
static const char *const halves_text =
    "resource r0 variable id=0 \"v\" float32[]\n"
    "resource r1 infeed id=1 \"in\" float32[4], float32[]\n"
    "block b0(%0: int32[]) {\n"
    "  %1 = constant() {dtype=float32, shape=[], value=0x0000803f} : float32[]\n"
    "  block b1() {\n"
    "    variable_add(%1) {resource=0}\n"
    "    %3, %4 = infeed_dequeue() {resource=1} : float32[4], float32[]\n"
    "    variable_add(%1) {resource=0}\n"
    "  } -> ()\n"
    "  repeat(%0) {body=b1}\n"
    "} -> ()\n";

/* While a run that has written a variable waits, nobody sees it; and where it is
 * cancelled, it has a moment to end the step. */
static void
test_half_a_step(ipu_ctx *ctx)
{
    rig r;
    running run = {.r = &r};
    pthread_t threads[2];
    void *const *slot;
    make_rig(ctx, &r, 1, 4);
    drop(ctx, r.program, r.executor);
    CHECK_OK(ctx, build(ctx, halves_text, r.device, &r.program, &r.executor));
    watching w = {.r = &r, .by = 2};
    pthread_create(&threads[0], NULL, run_long, &run);
    pthread_create(&threads[1], NULL, watch, &w);
    uint64_t fed = 0;
    while (!atomic_load(&w.is_over)) { /* it may wait for the end of a step */
        sleep_ms(3);
        CHECK_OK(ctx, ipu_infeed_acquire(ctx, r.infeed, &slot));
        ipu_infeed_publish(r.infeed);
        atomic_store(&w.stop, ++fed >= 5);
    }
    pthread_join(threads[1], NULL);
    CHECK(w.reads > 0 && w.wrong == 0);
    wait_for_steps(&r, fed);
    sleep_ms(10);
    uint64_t begin = ipu_now_ns();
    __atomic_store_n(&run.cancel, 1, __ATOMIC_RELAXED);
    pthread_join(threads[0], NULL);
    bool is_half = (int)read_float(ctx, r.device, r.variable) % 2 != 0;
    CHECK(!is_half || ipu_now_ns() - begin > IPU__CANCEL_GRACE_NS / 2);
    CHECK(run.status == IPU_STATUS_INTERRUPTED);
    free_rig(&r);
}

/* --- random numbers and errors of kernels ----------------------------------------- */

static void
test_random(ipu_ctx *ctx)
{
    static const char *text =
        "resource r0 variable id=0 \"v\" float32[]\n"
        "block b0() {\n"
        "  %0 = random_uniform() {dtype=float32, shape=[4], seed=3, ordinal=1}"
        " : float32[4]\n"
        "} -> (%0)\n";
    ipu_device *device;
    ipu_program *program;
    ipu_executor *executor;
    float first[4];
    float second[4];
    float again[4];
    void *outputs[1] = {first};
    CHECK_OK(ctx, ipu_device_create(ctx, 1, &device));
    CHECK_OK(ctx, build(ctx, text, device, &program, &executor));
    CHECK(program->uses_random && program->resources.count == 0);
    CHECK_OK(ctx, ipu_executor_run(ctx, executor, NULL, outputs, NULL, NULL));
    CHECK(ipu_device_get_random(device).step == 1);
    outputs[0] = second;
    CHECK_OK(ctx, ipu_executor_run(ctx, executor, NULL, outputs, NULL, NULL));
    CHECK(memcmp(first, second, sizeof(first)) != 0);
    ipu_device_set_random(device, (ipu_device_random){.seed = 0});
    CHECK(ipu_device_get_random(device).step == 0);
    outputs[0] = again;
    CHECK_OK(ctx, ipu_executor_run(ctx, executor, NULL, outputs, NULL, NULL));
    CHECK(memcmp(first, again, sizeof(first)) == 0);
    ipu_device_set_random(device, (ipu_device_random){.seed = 0, .step = 1});
    CHECK(ipu_device_get_random(device).step == 1);
    CHECK_OK(ctx, ipu_executor_run(ctx, executor, NULL, outputs, NULL, NULL));
    CHECK(memcmp(second, again, sizeof(first)) == 0);
    CHECK(ipu_device_get_random(device).step == 2);
    ipu_device_set_random(device, (ipu_device_random){.seed = 1});
    CHECK_OK(ctx, ipu_executor_run(ctx, executor, NULL, outputs, NULL, NULL));
    CHECK(memcmp(first, again, sizeof(first)) != 0);
    drop(ctx, program, executor);

    /* no device: the executor's own steps */
    CHECK_OK(ctx, build(ctx, text, NULL, &program, &executor));
    CHECK_OK(ctx, ipu_executor_run(ctx, executor, NULL, outputs, NULL, NULL));
    CHECK(memcmp(first, again, sizeof(first)) == 0);
    CHECK_OK(ctx, ipu_executor_run(ctx, executor, NULL, outputs, NULL, NULL));
    CHECK(memcmp(second, again, sizeof(first)) == 0);
    ipu_executor_set_random(executor, 0, 1);
    CHECK_OK(ctx, ipu_executor_run(ctx, executor, NULL, outputs, NULL, NULL));
    CHECK(memcmp(second, again, sizeof(first)) == 0);
    ipu_executor_set_random(executor, 1, 1);
    CHECK_OK(ctx, ipu_executor_run(ctx, executor, NULL, outputs, NULL, NULL));
    CHECK(memcmp(second, again, sizeof(first)) != 0);
    drop(ctx, program, executor);
    ipu_device_free(ctx, device);
}

/* A seed that comes while a program runs begins with step 0: no step sees the one
 * without the other. */
static const char *const draw_text =
    "resource r0 outfeed id=0 \"out\" float32[4]\n"
    "block b0(%0: int32[]) {\n"
    "  block b1() {\n"
    "    %1 = random_uniform() {dtype=float32, shape=[4], seed=3, ordinal=1}"
    " : float32[4]\n"
    "    outfeed_enqueue(%1) {resource=0}\n"
    "  } -> ()\n"
    "  repeat(%0) {body=b1}\n"
    "} -> ()\n";

typedef struct reseeding {
    ipu_device *device;
    atomic_bool stop;
} reseeding;

static void *
reseed_often(void *argument)
{
    reseeding *r = argument;
    for (uint64_t n = 0; !atomic_load(&r->stop); n++) {
        ipu_device_set_random(r->device, (ipu_device_random){.seed = n % 2});
    }
    return NULL;
}

static void
test_reseeding(ipu_ctx *ctx)
{
    enum { STEPS = 4000 };
    static float drawn[3][STEPS][4]; /* with seed 0, with seed 1, with changing ones */
    ipu_device *device;
    ipu_program *program;
    ipu_executor *executor;
    ipu_outfeed *outfeed;
    int64_t id;
    int32_t steps = STEPS;
    const void *inputs[1] = {&steps};
    CHECK_OK(ctx, ipu_device_create(ctx, 1, &device));
    CHECK_OK(ctx, ipu_outfeed_create(ctx, &vector_f, 1, IPU_OUTFEED_ALL, 8, &outfeed));
    CHECK_OK(ctx, ipu_device_outfeed_add(ctx, device, outfeed, &id));
    CHECK_OK(ctx, build(ctx, draw_text, device, &program, &executor));
    for (uint64_t pass = 0; pass < 3; pass++) {
        pthread_t thread;
        reseeding r = {.device = device};
        void *out[1] = {drawn[pass]};
        int64_t taken;
        ipu_device_set_random(device, (ipu_device_random){.seed = pass % 2});
        if (pass == 2) {
            pthread_create(&thread, NULL, reseed_often, &r);
        }
        ipu_run_stats stats;
        CHECK_OK(ctx, ipu_executor_run(ctx, executor, inputs, NULL, NULL, &stats));
        CHECK(stats.outfeed_wait_ns > 0 && stats.infeed_wait_ns == 0);
        if (pass == 2) {
            atomic_store(&r.stop, true);
            pthread_join(thread, NULL);
        }
        CHECK_OK(ctx, ipu_outfeed_take(ctx, outfeed, STEPS, 1, out, &taken));
        CHECK(taken == STEPS);
    }
    int seed = 0;
    int step = -1;
    int wrong = 0;
    for (int i = 0; i < STEPS; i++) {
        size_t bytes = sizeof(drawn[2][i]);
        if (step + 1 < STEPS &&
            memcmp(drawn[2][i], drawn[seed][step + 1], bytes) == 0) {
            step++;
            continue;
        }
        step = 0;
        seed = memcmp(drawn[2][i], drawn[0][0], bytes) == 0 ? 0 : 1;
        wrong += memcmp(drawn[2][i], drawn[seed][0], bytes) != 0;
    }
    CHECK(wrong == 0);
    drop(ctx, program, executor);
    ipu_device_free(ctx, device);
    ipu_outfeed_free(ctx, outfeed);
}

static void
test_error_source(ipu_ctx *ctx)
{
    ipu_graph *graph;
    ipu_program *program = NULL;
    ipu_executor *executor = NULL;
    ipu_value inputs[2];
    ipu_node node = IPU_NO_NODE;
    ipu_block main_block = {0};
    ipu_type indices = {IPU_DTYPE_INT32, {1, {2}}};
    ipu_attr axis = {.key = IPU_ATTR_AXIS, .as.i = 0};
    char file[] = "train.py";
    ipu_node_request request = {.op = IPU_OP_ID_GATHER,
                                .attrs = &axis,
                                .attr_count = 1,
                                .source = {file, 12},
                                .name = "rows/Gather"};
    CHECK_OK(ctx, ipu_graph_create(ctx, false, &graph));
    CHECK_OK(ctx, ipu_graph_add_param(ctx, graph, main_block, &vector_f, &inputs[0]));
    CHECK_OK(ctx, ipu_graph_add_param(ctx, graph, main_block, &indices, &inputs[1]));
    CHECK_OK(ctx,
             ipu_graph_add_node(ctx, graph, main_block, &request, inputs, 2, &node));
    CHECK_OK(ctx, ipu_graph_add_result(ctx, graph, main_block,
                                       ipu_node_output(ipu_node_of(graph, node), 0)));
    CHECK_OK(ctx, ipu_program_create(ctx, graph, &options, &program));
    ipu_graph_free(ctx, graph);
    memset(file, 'x', sizeof(file) - 1); /* the program has its own copy */
    CHECK_OK(ctx, ipu_executor_create(ctx, program, NULL, NULL, &executor));
    float params[4] = {1, 2, 3, 4};
    int32_t bad[2] = {3, 4};
    float out[2];
    const void *in[2] = {params, bad};
    void *outputs[1] = {out};
    CHECK(ipu_executor_run(ctx, executor, in, outputs, NULL, NULL) != IPU_OK);
    CHECK(ctx->source.line == 12 && strcmp(ctx->source.file, "train.py") == 0);
    ipu_ctx_clear(ctx);
    bad[1] = 0;
    CHECK_OK(ctx, ipu_executor_run(ctx, executor, in, outputs, NULL, NULL));
    CHECK(out[0] == 4 && out[1] == 1 && ctx->source.file == NULL);
    drop(ctx, program, executor);
}

/* --- functions of the host -------------------------------------------------------- */

typedef struct doubling {
    int calls;
    int most;
    pthread_t thread;
} doubling;

/* Allocates twice and frees once: the context is the run's. */
static ipu_status
call_doubling(ipu_ctx *ctx, void *state, const void *const *inputs,
              void *const *outputs)
{
    doubling *d = state;
    char *memory;
    if (d->calls == d->most) {
        ctx->source = (ipu_source){"user.py", 3}; /* which nobody knows better */
        IPU_FAIL(ctx, PYTHON, "ValueError: enough");
    }
    d->calls++;
    d->thread = pthread_self();
    IPU_TRY(ipu_alloc(ctx, 8, &memory));
    IPU_TRY(ipu_resize(ctx, &memory, 8, 100));
    ipu_free(ctx, memory, 100);
    *(float *)outputs[0] = 2 * *(const float *)inputs[0];
    return IPU_OK;
}

static void
test_host_function(ipu_ctx *ctx)
{
    static const char *const text = "resource r0 host id=0 \"f\" float32[], float32[]\n"
                                    "block b0(%0: int32[], %1: float32[]) {\n"
                                    "  block b1(%2: float32[]) {\n"
                                    "    %3 = host_call(%2) {resource=0} : float32[]\n"
                                    "  } -> (%3)\n"
                                    "  %4 = repeat(%0, %1) {body=b1} : float32[]\n"
                                    "} -> (%4)\n";
    const ipu_type types[3] = {scalar_f, scalar_f, scalar_f};
    doubling d = {.most = 5};
    for (uint32_t count = 1; count <= 3; count++) {
        const ipu_host_function function = {call_doubling, &d, types, count};
        ipu_device *device;
        ipu_program *program;
        ipu_executor *executor;
        ipu_run_stats stats;
        int64_t id;
        int32_t steps = 3;
        float number = 1;
        float found = 0;
        const void *inputs[2] = {&steps, &number};
        void *outputs[1] = {&found};
        CHECK_OK(ctx, ipu_device_create(ctx, 1, &device));
        CHECK_OK(ctx, ipu_device_host_add(ctx, device, &function, &id));
        ipu_status status = build(ctx, text, device, &program, &executor);
        if (count == 2) {
            CHECK_OK(ctx, status);
            CHECK_OK(ctx,
                     ipu_executor_run(ctx, executor, inputs, outputs, NULL, &stats));
            CHECK(found == 8 && d.calls == 3 && stats.steps == 3);
            CHECK(stats.allocations == 2 * 3);
            CHECK(pthread_equal(d.thread, pthread_self()));
            status = ipu_executor_run(ctx, executor, inputs, outputs, NULL, &stats);
            CHECK(ctx->source.line == 3);
            EXPECT(ctx, PYTHON, "enough", status);
            CHECK(found == 8 && stats.steps == 2 && stats.allocations == 2 * 2);
            EXPECT(ctx, PYTHON, "enough",
                   ipu_executor_run(ctx, executor, inputs, outputs, NULL, &stats));
            CHECK(stats.steps == 0 && ipu_device_get_random(device).step == 3 + 2);
        } else {
            EXPECT(ctx, FAILED_PRECONDITION, "the program was made for 2", status);
        }
        drop(ctx, program, executor);
        ipu_device_free(ctx, device);
    }
}

/* --- the caller's memory ---------------------------------------------------------- */

/* Inputs and outputs are copied only where kernels cannot use them: each once for all
 * runs. */
static void
test_buffers(void)
{
    enum { COUNT = 64 };
    static const char *const texts[] = {
        "block b0(%0: float32[4,16], %1: float32[3], %2: float32[0]) {\n"
        "  %3 = tanh(%0) : float32[4,16]\n"
        "  %4 = neg(%2) : float32[0]\n"
        "} -> (%3, %4)\n",
        "block b0(%0: float32[4,16], %1: float32[3], %2: float32[0]) {\n"
        "  %3 = matmul(%0, %0) {transpose_b=true} : float32[4,4]\n"
        "  %4 = neg(%2) : float32[0]\n"
        "} -> (%3, %4)\n"};
    static const struct {
        int text;
        bool in_slack;
        bool out_slack;
        int in_shift;
        int out_shift;
        long copies;
    } cases[] = {{0, true, true, 0, 0, 0},  {0, false, true, 0, 0, 1},
                 {0, true, false, 0, 0, 0}, {0, true, true, 1, 0, 1},
                 {0, true, true, 0, 1, 1},  {0, false, true, 1, 1, 2},
                 {1, true, true, 0, 0, 0},  {1, true, false, 0, 0, 1},
                 {1, false, true, 0, 0, 1}, {1, true, true, 16, 16, 0}};
    static _Alignas(64) float in[COUNT + 16 + 1024];
    static _Alignas(64) float out[COUNT + 16 + 1024];
    float expected[2][COUNT];
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const bool slack[3] = {cases[i].in_slack, false, false};
        float *given = in + cases[i].in_shift;
        float *wanted = out + cases[i].out_shift;
        const void *inputs[3] = {given, in + 1, in + 1};
        void *outputs[2] = {wanted, out + 1};
        size_t bytes = cases[i].text == 0 ? COUNT * sizeof(float) : 16 * sizeof(float);
        counter c;
        ipu_ctx ctx;
        ipu_program *program;
        ipu_executor *executor;
        ipu_ctx_init(&ctx, counting(&c));
        CHECK_OK(&ctx, build(&ctx, texts[cases[i].text], NULL, &program, &executor));
        ipu_executor_set_slack(executor, slack, cases[i].out_slack);
        long before = atomic_load(&c.allocations);
        for (int run = 1; run >= 0; run--) {
            for (int k = 0; k < COUNT; k++) {
                given[k] = (float)(k + run) / COUNT;
            }
            CHECK_OK(&ctx,
                     ipu_executor_run(&ctx, executor, inputs, outputs, NULL, NULL));
            CHECK(atomic_load(&c.allocations) - before == cases[i].copies);
        }
        if (i == 0 || cases[i].text != cases[i - 1].text) {
            memcpy(expected[cases[i].text], wanted, bytes);
        }
        CHECK(memcmp(expected[cases[i].text], wanted, bytes) == 0);
        drop(&ctx, program, executor);
        CHECK(atomic_load(&c.live_bytes) == 0);
    }
    CHECK(expected[0][0] == 0 && expected[0][32] > 0.46f && expected[0][32] < 0.47f);

    /* a copy of more than the slack */
    enum { LARGE = 4096 };
    static _Alignas(64) float large[2][LARGE + 1];
    const void *inputs[1] = {&large[0][1]};
    void *outputs[1] = {&large[1][1]};
    ipu_ctx ctx;
    ipu_program *program;
    ipu_executor *executor;
    ipu_ctx_init(&ctx, ipu_allocator_default());
    CHECK_OK(&ctx, build(&ctx,
                         "block b0(%0: float32[4096]) {\n"
                         "  %1 = neg(%0) : float32[4096]\n"
                         "} -> (%1)\n",
                         NULL, &program, &executor));
    for (int i = 0; i < LARGE; i++) {
        large[0][1 + i] = (float)i;
    }
    CHECK_OK(&ctx, ipu_executor_run(&ctx, executor, inputs, outputs, NULL, NULL));
    int wrong = 0;
    for (int i = 0; i < LARGE; i++) {
        wrong += large[1][1 + i] != -(float)i;
    }
    CHECK(wrong == 0);
    drop(&ctx, program, executor);
}

/* --- events ----------------------------------------------------------------------- */

/* The events of a kind of the program, up to four of them, in the order of their ends. */
static size_t
events_of(const ipu_recording *recording, const ipu_program *program,
          ipu_event_kind kind, ipu_event *out)
{
    size_t found = 0;
    for (size_t i = 0; i < recording->count; i++) {
        for (size_t k = 0; k < recording->tracks[i].count; k++) {
            const ipu_event *event = &recording->tracks[i].events[k];
            if ((event->length_and_kind & 0xff) == kind && found < 4 &&
                event->subject == ipu_program_subject(program, 0, 0)) {
                out[found++] = *event;
            }
        }
    }
    return found;
}

static uint64_t
end_of(const ipu_event *event)
{
    return event->begin_ns + (event->length_and_kind >> 8);
}

static void *
feed_slowly(void *argument)
{
    feeding *f = argument;
    ipu_ctx ctx;
    void *const *slot;
    ipu_ctx_init(&ctx, ipu_allocator_default());
    for (int i = 0;
         i < f->count && ipu_infeed_acquire(&ctx, f->infeed, &slot) == IPU_OK; i++) {
        sleep_ms(5);
        memset(slot[0], 0, 16);
        memset(slot[1], 0, 4);
        ipu_infeed_publish(f->infeed);
    }
    return NULL;
}

/* A recording has the steps that were asked for, counted from its start, and what they
 * waited for; and each run. */
static void
test_events(ipu_ctx *ctx)
{
    rig r;
    ipu_recording recording;
    ipu_event steps[4], waits[4], runs[4];
    pthread_t thread;
    ipu_run_stats stats;
    make_rig(ctx, &r, 1, 64);
    feeding f = {.infeed = r.infeed, .count = 7};
    pthread_create(&thread, NULL, feed_slowly, &f);
    CHECK_OK(ctx, run_steps(&r, 1, NULL, NULL, NULL)); /* nobody records */
    CHECK_OK(ctx, ipu_recorder_start(ctx, 1000, 1, 3));
    CHECK_OK(ctx, run_steps(&r, 4, NULL, NULL, &stats));
    CHECK_OK(ctx, ipu_recording_take(ctx, &recording));
    ipu_recorder_stop();
    CHECK(events_of(&recording, r.program, IPU_EVENT_STEP, steps) == 2);
    CHECK(events_of(&recording, r.program, IPU_EVENT_RUN, runs) == 1);
    CHECK(events_of(&recording, r.program, IPU_EVENT_OUTFEED_WAIT, waits) == 0);
    /* one that was late itself finds its element there */
    size_t waited = events_of(&recording, r.program, IPU_EVENT_INFEED_WAIT, waits);
    CHECK(waited > 0 && waited <= 2);
    uint64_t before = runs[0].begin_ns;
    for (int i = 0; i < 2; i++) {
        CHECK(steps[i].a == 1 + (uint32_t)i && steps[i].b == 0);
        CHECK(steps[i].begin_ns > before);
        before = end_of(&steps[i]);
    }
    for (size_t i = 0; i < waited; i++) {
        const ipu_event *step = &steps[waits[i].begin_ns >= steps[1].begin_ns];
        CHECK(waits[i].begin_ns >= step->begin_ns);
        CHECK(end_of(&waits[i]) > waits[i].begin_ns);
        CHECK(waits[i].a == 0 && waits[i].b == 0);
        CHECK(end_of(&waits[i]) <= end_of(step));
    }
    CHECK(before < end_of(&runs[0]) && runs[0].a == 0 && runs[0].b == 0);
    CHECK(stats.run_ns >= end_of(&runs[0]) - runs[0].begin_ns);
    CHECK(stats.infeed_wait_ns > 1000000 && stats.infeed_wait_ns < stats.run_ns);
    CHECK(stats.outfeed_wait_ns == 0 && stats.peer_wait_ns == 0);
    ipu_recording_free(ctx, &recording);

    CHECK_OK(ctx, ipu_recorder_start(ctx, 1000, 1, 2));
    CHECK_OK(ctx, run_steps(&r, 1, NULL, NULL, NULL));
    CHECK_OK(ctx, run_steps(&r, 1, NULL, NULL, NULL)); /* its second step */
    CHECK_OK(ctx, ipu_recording_take(ctx, &recording));
    ipu_recorder_stop();
    pthread_join(thread, NULL);
    CHECK(events_of(&recording, r.program, IPU_EVENT_STEP, steps) == 1);
    CHECK(events_of(&recording, r.program, IPU_EVENT_RUN, runs) == 2);
    CHECK(steps[0].a == 0 && steps[0].begin_ns > end_of(&runs[0]));
    ipu_recording_free(ctx, &recording);
    free_rig(&r);

    /* a run without steps is one */
    ipu_program *program;
    ipu_executor *executor;
    float number = 1;
    const void *inputs[1] = {&number};
    void *outputs[1] = {&number};
    CHECK_OK(ctx, build(ctx,
                        "block b0(%0: float32[]) {\n"
                        "  %1 = exp(%0) : float32[]\n"
                        "} -> (%1)\n",
                        NULL, &program, &executor));
    CHECK(executor->workspaces[0].memory == NULL); /* it needs none */
    CHECK_OK(ctx, ipu_recorder_start(ctx, 1000, 1, 3));
    for (int run = 0; run < 4; run++) {
        CHECK_OK(ctx, ipu_executor_run(ctx, executor, inputs, outputs, NULL, NULL));
    }
    CHECK_OK(ctx, ipu_recording_take(ctx, &recording));
    ipu_recorder_stop();
    CHECK(events_of(&recording, program, IPU_EVENT_STEP, steps) == 2);
    CHECK(events_of(&recording, program, IPU_EVENT_RUN, runs) == 4);
    ipu_recording_free(ctx, &recording);
    drop(ctx, program, executor);
}

/* --- allocation ------------------------------------------------------------------- */

typedef struct results {
    float values[8][4];
    float counts[8];
    float variable;
} results;

/* Five steps, with whatever an earlier call that failed has left. */
static ipu_status
live(ipu_ctx *ctx, rig *r, results *out)
{
    pthread_t thread;
    void *fed[2] = {out->values, out->counts};
    float zero = 0;
    int64_t taken;
    char *text;
    size_t bytes;
    if (r->executor == NULL) {
        free_rig(r);
        IPU_TRY(make_rig_with(ctx, r, 2, 4, IPU_OUTFEED_ALL));
    }
    IPU_TRY(ipu_outfeed_take(ctx, r->outfeed, 8, 1, fed, &taken));
    IPU_TRY(ipu_device_variable_write(ctx, r->device, r->variable, &zero, 4));
    ipu_infeed_reopen(r->infeed);
    memset(out, 0, sizeof(*out));
    feeding f = {.infeed = r->infeed, .count = 5};
    bool has_feeder = pthread_create(&thread, NULL, feed, &f) == 0;
    ipu_status status = run_steps(r, 5, NULL, NULL, NULL);
    ipu_infeed_close(r->infeed);
    if (has_feeder) {
        pthread_join(thread, NULL);
    }
    IPU_TRY(status);
    IPU_TRY(ipu_program_print(ctx, r->program, &text, &bytes));
    ipu_free(ctx, text, bytes);
    IPU_TRY(ipu_outfeed_take(ctx, r->outfeed, 8, 1, fed, &taken));
    CHECK(taken == 5);
    return ipu_device_variable_read(ctx, r->device, r->variable, 0, &out->variable, 4);
}

/* An outfeed that cannot grow says how much there was no room for, and loses nothing.
 */
static void
test_an_outfeed_without_memory(void)
{
    static float out[1024];
    static const float given[1024] = {1, 2, 3};
    const ipu_type type = {.dtype = IPU_DTYPE_FLOAT32,
                           .shape = {.rank = 1, .dims = {1024}}};
    const void *tensors[1] = {given};
    void *taken_to[1] = {out};
    counter c;
    ipu_ctx ctx;
    ipu_outfeed *queue = NULL;
    int64_t taken = 1;
    bool done = false;
    ipu_ctx_init(&ctx, counting(&c));
    CHECK_OK(&ctx, ipu_outfeed_create(&ctx, &type, 1, IPU_OUTFEED_ALL, 8, &queue));
    CHECK_OK(&ctx, ipu_outfeed_enqueue(&ctx, queue, 0, tensors, &done));
    c.fail_at = atomic_load(&c.allocations) + 1;
    ipu_status status = ipu_outfeed_take(&ctx, queue, 1, 1, taken_to, &taken);
    CHECK(done && taken == 0);
    EXPECT(&ctx, OUT_OF_MEMORY, "bytes could not be allocated", status);
    CHECK_OK(&ctx, ipu_outfeed_take(&ctx, queue, 1, 1, taken_to, &taken));
    CHECK(taken == 1 && memcmp(out, given, sizeof(out)) == 0);
    ipu_outfeed_free(&ctx, queue);
    CHECK(atomic_load(&c.live_bytes) == 0);
}

/* Where the n-th allocation fails, for every n, the next try has the same bits. */
static void
test_failing_allocations(void)
{
    long failures = 0;
    static results expected;
    for (long n = 0;; n++) {
        counter c;
        ipu_ctx ctx;
        rig r = {.ctx = &ctx};
        static results found;
        ipu_ctx_init(&ctx, counting(&c));
        c.fail_at = n;
        ipu_status status = live(&ctx, &r, &found);
        CHECK(status == ctx.status);
        bool has_failed = status != IPU_OK;
        if (has_failed) {
            EXPECT(&ctx, OUT_OF_MEMORY, "out of memory", status);
            CHECK_OK(&ctx, live(&ctx, &r, &found));
        }
        if (n == 0) {
            expected = found;
        }
        CHECK(memcmp(&found, &expected, sizeof(found)) == 0);
        free_rig(&r);
        CHECK(atomic_load(&c.live_bytes) == 0 && atomic_load(&c.live_blocks) == 0);
        failures += has_failed;
        if (check_failures > 0) {
            fprintf(stderr, "allocation %ld: %s\n", n, ipu_status_name(status));
        }
        if (check_failures > 0 || (n > 0 && atomic_load(&c.allocations) < n)) {
            CHECK(!has_failed);
            break;
        }
    }
    CHECK(failures > 50);
}

/* The same for a change of pools: the workspace of a region grows with the threads. */
static void
test_failing_pools(void)
{
    static const char *const text =
        "block b0(%0: float32[8,64], %1: float32[8,64]) {\n"
        "  %2, %3 = top_k(%0) {depth=50} : float32[8,50], int32[8,50]\n"
        "  %4, %5 = top_k(%1) {depth=50} : float32[8,50], int32[8,50]\n"
        "  %6 = add(%2, %4) : float32[8,50]\n"
        "} -> (%6)\n";
    static _Alignas(64) float input[2][8][64 + 16];
    static _Alignas(64) float found[2][8][50 + 16];
    const void *inputs[2] = {input[0], input[1]};
    const bool slack[2] = {true, true};
    const int32_t threads[3] = {1, 3, 7};
    ipu_pool *pools[3] = {NULL};
    ipu_graph *graph = NULL;
    ipu_program *program = NULL;
    ipu_compile_options in_regions = options;
    ipu_ctx outer;
    ipu_ctx_init(&outer, ipu_allocator_default());
    in_regions.regions = IPU_REGIONS_EVERYWHERE;
    CHECK_OK(&outer, ipu_graph_parse(&outer, text, &graph));
    CHECK_OK(&outer, ipu_program_create(&outer, graph, &in_regions, &program));
    for (int i = 0; i < 2 * 8 * (64 + 16); i++) {
        ((float *)input)[i] = (float)((i * 7919) % 1009);
    }
    for (int i = 0; i < 3; i++) {
        CHECK_OK(&outer, ipu_pool_create(&outer, threads[i], &pools[i]));
    }
    long failures = 0;
    for (long n = 0;; n++) {
        counter c;
        ipu_ctx ctx;
        ipu_executor *executor = NULL;
        void *outputs[1] = {found[n > 0]};
        ipu_ctx_init(&ctx, counting(&c));
        CHECK_OK(&ctx, ipu_executor_create(&ctx, program, NULL, NULL, &executor));
        ipu_executor_set_slack(executor, slack, true);
        /* one stream needs neither a pool nor contexts, and one workspace */
        CHECK(executor->own_pool == NULL && executor->contexts == NULL);
        CHECK(executor->workspace_count == 1);
        long built = atomic_load(&c.allocations);
        c.fail_at = n == 0 ? 0 : built + n;
        for (int i = 0; i < 3; i++) {
            ipu_status status = ipu_executor_set_pool(&ctx, executor, pools[i]);
            if (status != IPU_OK) {
                failures++;
                EXPECT(&ctx, OUT_OF_MEMORY, "out of memory", status);
                CHECK_OK(&ctx, ipu_executor_set_pool(&ctx, executor, pools[i]));
            }
            CHECK(executor->workspace_bytes ==
                  (size_t)threads[i] * ipu_buffer_round_up(program->part_bytes) +
                      IPU_SLACK_BYTES);
            CHECK_OK(&ctx,
                     ipu_executor_run(&ctx, executor, inputs, outputs, NULL, NULL));
            CHECK(n == 0 || memcmp(found[0], found[1], sizeof(found[0])) == 0);
        }
        ipu_executor_free(&ctx, executor);
        CHECK(atomic_load(&c.live_bytes) == 0);
        if (check_failures > 0 || (n > 0 && atomic_load(&c.allocations) < built + n)) {
            break;
        }
    }
    CHECK(failures == 4); /* two kinds, for two larger pools */
    for (int i = 0; i < 3; i++) {
        ipu_pool_free(&outer, pools[i]);
    }
    ipu_program_free(&outer, program);
    ipu_graph_free(&outer, graph);
}

/* The second run and all later ones allocate nothing at all, in no thread. */
static void
test_steady_state(void)
{
    counter c;
    ipu_ctx ctx;
    rig r;
    pthread_t thread;
    float values[64][4];
    float counts[64];
    void *out[2] = {values, counts};
    int64_t taken;
    ipu_ctx_init(&ctx, counting(&c));
    make_rig(&ctx, &r, 4, 8);
    feeding f = {.infeed = r.infeed, .count = -1};
    pthread_create(&thread, NULL, feed, &f);
    long before = 0;
    for (int run = 0; run < 50; run++) {
        ipu_run_stats stats;
        CHECK_OK(&ctx, run_steps(&r, 20, NULL, NULL, &stats));
        CHECK(stats.allocations == 0 && stats.steps == 20);
        CHECK_OK(&ctx, ipu_outfeed_take(&ctx, r.outfeed, 64, 1, out, &taken));
        CHECK(taken == 20);
        if (run == 0) {
            before = atomic_load(&c.allocations);
        }
    }
    CHECK(atomic_load(&c.allocations) == before);
    ipu_infeed_close(r.infeed);
    pthread_join(thread, NULL);
    free_rig(&r);
    CHECK(atomic_load(&c.live_bytes) == 0 && atomic_load(&c.live_blocks) == 0);
}

/* --- fork ------------------------------------------------------------------------- */

#ifndef __SANITIZE_THREAD__
static int
run_in_child(rig *r)
{
    ipu_ctx ctx;
    pthread_t thread;
    ipu_ctx_init(&ctx, ipu_allocator_default());
    r->ctx = &ctx;
    ipu_infeed_reopen(r->infeed);
    feeding f = {.infeed = r->infeed, .count = 100};
    if (pthread_create(&thread, NULL, feed, &f) != 0) {
        return 1;
    }
    ipu_status status = run_steps(r, 100, NULL, NULL, NULL);
    pthread_join(thread, NULL);
    return status == IPU_OK && ipu_outfeed_wait(r->outfeed, 100, UINT64_MAX, 0) >= 100
               ? 0
               : 2;
}

/* The child finds the device idle and the queues usable, without the parent's
 * threads. */
static void
test_fork(ipu_ctx *ctx)
{
    rig r;
    pthread_t thread;
    make_rig(ctx, &r, 2, 4);
    feeding f = {.infeed = r.infeed, .count = 100};
    pthread_create(&thread, NULL, feed, &f);
    CHECK_OK(ctx, run_steps(&r, 100, NULL, NULL, NULL)); /* starts a drainer */
    pthread_join(thread, NULL);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        alarm(20);
        _exit(run_in_child(&r));
    }
    int status = -1;
    waitpid(child, &status, 0);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    CHECK(read_float(ctx, r.device, r.variable) == 100);
    free_rig(&r);
}
#endif

int
main(void)
{
    ipu_ctx ctx;
    ipu_ctx_init(&ctx, ipu_allocator_default());
    test_device(&ctx);
    test_binding(&ctx);
    test_threads(&ctx, 1, 1);
    test_threads(&ctx, 2, 3);
    test_threads(&ctx, 8, 64);
    test_unread(&ctx);
    test_infeed_ends(&ctx);
    test_read_ahead(&ctx);
    test_delete(&ctx);
    test_cancel(&ctx);
    test_feeder_reads_variables(&ctx);
    test_removal(&ctx);
    test_two_programs(&ctx);
    test_hosts_in_between(&ctx);
    test_half_a_step(&ctx);
    test_random(&ctx);
    test_reseeding(&ctx);
    test_error_source(&ctx);
    test_host_function(&ctx);
    test_events(&ctx);
    test_buffers();
    test_an_outfeed_without_memory();
    test_failing_allocations();
    test_failing_pools();
    test_steady_state();
#ifndef __SANITIZE_THREAD__
    test_fork(&ctx);
#endif
    return CHECK_DONE();
}
