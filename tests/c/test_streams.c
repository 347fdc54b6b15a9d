/* SPDX-License-Identifier: MIT
 *
 * Programs of several streams on one to four threads: messages, steps, queues, errors,
 * random numbers, streams that wait for each other for ever, and random programs
 * against a sequential interpretation. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>

#include "counter.h"
#include "run/executor_impl.h"
#include "shared.h"
#include "streams.h"

enum { MOST_THREADS = 4, MOST_STREAMS = 16 };

static ipu_pool *pools[MOST_THREADS + 1]; /* by threads; 0 and 1: none */

static ipu_pool *
pool_of(int threads)
{
    return pools[threads];
}

static ipu_status
run_program(ipu_ctx *ctx, const ipu_program *program, ipu_device *device, int threads,
            const void *const *inputs, void *const *outputs, const int32_t *cancel)
{
    ipu_executor *executor;
    IPU_TRY(ipu_executor_create(ctx, program, device, pool_of(threads), &executor));
    CHECK(ipu_pool_threads(executor->pool) == threads);
    CHECK((executor->own_pool == NULL) == (pool_of(threads) != NULL));
    ipu_run_stats stats;
    ipu_status status =
        ipu_executor_run(ctx, executor, inputs, outputs, cancel, &stats);
    CHECK(stats.infeed_wait_ns <= stats.run_ns && stats.peer_wait_ns == 0);
    CHECK(stats.outfeed_wait_ns <= stats.run_ns);
    ipu_executor_free(ctx, executor);
    return status;
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

/* --- messages --------------------------------------------------------------------- */

/* A number goes round the streams `turns` times; each adds its own. */
static ipu_program *
make_ring(ipu_ctx *ctx, uint32_t streams, int32_t turns, bool is_step)
{
    maker m = begin_program(ctx, streams);
    m.program->output_count = 1;
    m.program->outputs = scalars(&m, 1);
    for (uint32_t s = 0; s < streams; s++) {
        add_channel(&m, s, (s + 1) % streams, 1, 1);
    }
    ipu_place value = cell(0);
    for (uint32_t s = 0; s < streams; s++) {
        uint32_t back = (s + streams - 1) % streams;
        add_copy(&m, s, number(&m, 0), value);
        int32_t loop = open_loop(&m, s, number(&m, turns), is_step);
        if (s == 0) {
            add_kernel(&m, s, IPU_OP_ID_ADD, value, number(&m, 1), value);
            add_send(&m, s, 0, &value);
            add_receive(&m, s, back, &value);
        } else {
            add_receive(&m, s, back, &value);
            add_kernel(&m, s, IPU_OP_ID_ADD, value, number(&m, (int32_t)s), value);
            add_send(&m, s, s, &value);
        }
        close_loop(&m, s, loop);
    }
    add_copy(&m, 0, value, at_index(IPU_SPACE_OUTPUT, 0));
    return end_program(&m);
}

static void
test_ring(ipu_ctx *ctx)
{
    for (uint32_t streams = 2; streams <= MOST_STREAMS; streams += 1 + streams / 3) {
        for (int threads = 1; threads <= MOST_THREADS; threads++) {
            for (int is_step = 0; is_step < 2; is_step++) {
                int32_t out = -1;
                void *outputs[1] = {&out};
                int32_t n = (int32_t)streams;
                ipu_program *program = make_ring(ctx, streams, 50, is_step != 0);
                CHECK_OK(ctx,
                         run_program(ctx, program, NULL, threads, NULL, outputs, NULL));
                CHECK(out == 50 * (1 + n * (n - 1) / 2));
                ipu_program_free(ctx, program);
            }
        }
    }
}

static void
test_print(ipu_ctx *ctx)
{
    maker m = begin_program(ctx, 2);
    m.program->constant_bytes = 64;
    m.program->micro_batches = 2;
    uint32_t queue = add_resource(&m, IPU_RESOURCE_INFEED, 3, &scalar_i);
    uint32_t data = add_channel(&m, 0, 1, 4, 1);
    uint32_t token = add_channel(&m, 1, 0, 2, 0);
    ipu_place value = cell(1);
    ipu_place element = at_index(IPU_SPACE_INFEED, 0);
    add_dequeue(&m, 0, queue);
    add_send(&m, 0, data, &element);
    add_receive(&m, 0, token, NULL);
    add_receive(&m, 1, data, &value);
    add_send(&m, 1, token, NULL);
    ipu_program *program = end_program(&m);
    char *text;
    size_t bytes;
    CHECK_OK(ctx, ipu_program_print(ctx, program, &text, &bytes));
    const char *wanted =
        "program of 7 instructions in 2 streams, 2 micro-batches a step\n"
        "constants 64 bytes, workspace 0 bytes\n"
        "resource 0 infeed id=3 int32[]\n"
        "channel 0 stream 0 -> stream 1, depth 4 int32[]\n"
        "channel 1 stream 1 -> stream 0, depth 2\n"
        "stream 0: slab 5120 bytes, peak live 0 bytes at 0\n"
        "    0  dequeue resource 0 -> infeed[0]\n"
        "    1  send    infeed[0] -> channel 0\n"
        "    2  receive channel 1 -> \n"
        "    3  halt    \n"
        "stream 1: slab 5120 bytes, peak live 0 bytes at 0\n"
        "    0  receive channel 0 -> slab+64\n"
        "    1  send     -> channel 1\n"
        "    2  halt    \n";
    CHECK(strcmp(text, wanted) == 0);
    if (strcmp(text, wanted) != 0) {
        fputs(text, stderr);
    }
    ipu_free(ctx, text, bytes);
    ipu_program_free(ctx, program);
}

/* --- random programs -------------------------------------------------------------- */

/* A program is made event by event, and each event is carried out at once on the cells
 * of its streams: in one order that is possible. Whatever order the engine chooses, the
 * numbers must be these. */
typedef struct model {
    maker m;
    uint32_t streams;
    int32_t cells[MOST_STREAMS][CELLS];
    uint32_t seed;
} model;

static uint32_t
draw(model *w, uint32_t below)
{
    w->seed = w->seed * 1664525U + 1013904223U;
    return (w->seed >> 8) % below;
}

static int32_t
compute(ipu_op op, int32_t a, int32_t b)
{
    return op == IPU_OP_ID_ADD ? (int32_t)((uint32_t)a + (uint32_t)b)
                               : (int32_t)((uint32_t)a * (uint32_t)b);
}

typedef struct step {
    ipu_op op;
    uint32_t a;
    uint32_t b;
    uint32_t to;
} step;

static step
random_step(model *w)
{
    return (step){draw(w, 2) == 0 ? IPU_OP_ID_ADD : IPU_OP_ID_MUL, draw(w, CELLS),
                  draw(w, CELLS), draw(w, CELLS)};
}

static void
emit_step(model *w, uint32_t s, step t)
{
    /* a kernel does not write over an input here: through the last cell */
    add_kernel(&w->m, s, t.op, cell(t.a), cell(t.b), cell(CELLS));
    add_copy(&w->m, s, cell(CELLS), cell(t.to));
}

static void
carry_out(model *w, uint32_t s, step t)
{
    w->cells[s][t.to] = compute(t.op, w->cells[s][t.a], w->cells[s][t.b]);
}

/* `turns` messages from one stream to another, computed in a loop in both. */
static void
emit_transfer(model *w, uint32_t turns)
{
    uint32_t from = draw(w, w->streams);
    uint32_t to = (from + 1 + draw(w, w->streams - 1)) % w->streams;
    uint32_t count = draw(w, 3);
    uint32_t channel = add_channel(&w->m, from, to, 1 + draw(w, 3), count);
    step before = random_step(w);
    step after = random_step(w);
    uint32_t sent[2] = {draw(w, CELLS), draw(w, CELLS)};
    uint32_t first = draw(w, CELLS);
    uint32_t received[2] = {first, (first + 1) % CELLS};
    ipu_place out[2] = {cell(sent[0]), cell(sent[1])};
    ipu_place in[2] = {cell(received[0]), cell(received[1])};
    int32_t loops[2];
    loops[0] = open_loop(&w->m, from, number(&w->m, (int32_t)turns), false);
    emit_step(w, from, before);
    add_send(&w->m, from, channel, out);
    close_loop(&w->m, from, loops[0]);
    loops[1] = open_loop(&w->m, to, number(&w->m, (int32_t)turns), false);
    add_receive(&w->m, to, channel, in);
    emit_step(w, to, after);
    close_loop(&w->m, to, loops[1]);
}

/* The same decisions again, carried out: `seed` as it was when they were made. */
static void
carry_transfer(model *w, uint32_t turns)
{
    uint32_t from = draw(w, w->streams);
    uint32_t to = (from + 1 + draw(w, w->streams - 1)) % w->streams;
    uint32_t count = draw(w, 3);
    (void)draw(w, 3);
    step before = random_step(w);
    step after = random_step(w);
    uint32_t sent[2] = {draw(w, CELLS), draw(w, CELLS)};
    uint32_t first = draw(w, CELLS);
    for (uint32_t t = 0; t < turns; t++) {
        carry_out(w, from, before);
        for (uint32_t i = 0; i < count; i++) {
            w->cells[to][(first + i) % CELLS] = w->cells[from][sent[i]];
        }
        carry_out(w, to, after);
    }
}

static void
test_random_program(ipu_ctx *ctx, uint32_t seed)
{
    model w = {.seed = seed};
    w.streams = 2 + draw(&w, MOST_STREAMS - 1);
    w.m = begin_program(ctx, w.streams);
    uint32_t steps = draw(&w, 4);
    uint32_t events = 5 + draw(&w, 40);
    bool has_steps = steps > 0;
    int32_t loops[MOST_STREAMS];
    w.m.program->output_count = w.streams * CELLS;
    w.m.program->outputs = scalars(&w.m, w.streams * CELLS);
    for (uint32_t s = 0; s < w.streams; s++) {
        w.m.program->streams.items[s].memory.slab_bytes += IPU_BUFFER_ALIGNMENT;
        for (uint32_t c = 0; c < CELLS; c++) {
            w.cells[s][c] = (int32_t)draw(&w, 50);
            add_copy(&w.m, s, number(&w.m, w.cells[s][c]), cell(c));
        }
        if (has_steps) {
            loops[s] = open_loop(&w.m, s, number(&w.m, (int32_t)steps), true);
        }
    }
    uint32_t events_seed = w.seed;
    for (uint32_t i = 0; i < events; i++) {
        emit_transfer(&w, draw(&w, 4));
    }
    for (uint32_t t = 0; t < (has_steps ? steps : 1); t++) {
        w.seed = events_seed;
        for (uint32_t i = 0; i < events; i++) {
            carry_transfer(&w, draw(&w, 4));
        }
    }
    static int32_t out[MOST_STREAMS * CELLS];
    void *outputs[MOST_STREAMS * CELLS];
    for (uint32_t s = 0; s < w.streams; s++) {
        if (has_steps) {
            close_loop(&w.m, s, loops[s]);
        }
        for (uint32_t c = 0; c < CELLS; c++) {
            add_copy(&w.m, s, cell(c), at_index(IPU_SPACE_OUTPUT, s * CELLS + c));
            outputs[s * CELLS + c] = &out[s * CELLS + c];
        }
    }
    ipu_program *program = end_program(&w.m);
    for (int threads = 1; threads <= MOST_THREADS; threads++) {
        memset(out, 0, sizeof(out));
        CHECK_OK(ctx, run_program(ctx, program, NULL, threads, NULL, outputs, NULL));
        int wrong = 0;
        for (uint32_t i = 0; i < w.streams * CELLS; i++) {
            wrong += out[i] != w.cells[i / CELLS][i % CELLS];
        }
        CHECK(wrong == 0);
        if (wrong > 0 || ctx->status != IPU_OK) {
            fprintf(stderr, "  seed %u, %d threads, %d wrong\n", seed, threads, wrong);
            ipu_ctx_clear(ctx);
        }
    }
    ipu_program_free(ctx, program);
}

/* --- waits that never end --------------------------------------------------------- */

static void
test_deadlocks(ipu_ctx *ctx)
{
    for (int threads = 1; threads <= MOST_THREADS; threads++) {
        /* each waits for the other's message first */
        maker m = begin_program(ctx, 2);
        ipu_place value = cell(0);
        uint32_t there = add_channel(&m, 0, 1, 1, 1);
        uint32_t back = add_channel(&m, 1, 0, 1, 1);
        add_receive(&m, 0, back, &value);
        add_send(&m, 0, there, &value);
        add_receive(&m, 1, there, &value);
        add_send(&m, 1, back, &value);
        ipu_program *program = end_program(&m);
        EXPECT(ctx, INTERNAL,
               "stream 0 at instruction 0, for a message of channel 1 from stream 1; "
               "stream 1 at instruction 0, for a message of channel 0 from stream 0",
               run_program(ctx, program, NULL, threads, NULL, NULL, NULL));
        ipu_program_free(ctx, program);

        /* two messages into a channel of one, of which nobody takes any */
        m = begin_program(ctx, 3);
        there = add_channel(&m, 0, 1, 1, 0);
        int32_t loop = open_loop(&m, 0, number(&m, 2), true);
        add_send(&m, 0, there, NULL);
        close_loop(&m, 0, loop);
        loop = open_loop(&m, 2, number(&m, 3), true);
        close_loop(&m, 2, loop);
        program = end_program(&m);
        EXPECT(ctx, INTERNAL,
               "stream 0 at instruction 1, for room in channel 0 to stream 1; stream 2 "
               "at instruction 1, for the others to end the step",
               run_program(ctx, program, NULL, threads, NULL, NULL, NULL));
        ipu_program_free(ctx, program);
    }
}

/* --- errors ----------------------------------------------------------------------- */

/* Streams of three steps, each with a variable that counts them; stream 1 looks up row
 * (input 0) of a table of three in the second step. */
typedef struct counters {
    ipu_device *device;
    int64_t ids[3];
    ipu_program *program;
} counters;

static counters
make_counters(ipu_ctx *ctx, int32_t steps)
{
    counters c;
    maker m = begin_program(ctx, 3);
    m.program->input_count = 1;
    m.program->inputs = scalars(&m, 1);
    ipu_place value = cell(0);
    CHECK_OK(ctx, ipu_device_create(ctx, 1, &c.device));
    for (uint32_t s = 0; s < 3; s++) {
        CHECK_OK(ctx, ipu_device_variable_add(ctx, c.device, &scalar_i, &c.ids[s]));
        uint32_t v = add_resource(&m, IPU_RESOURCE_VARIABLE, c.ids[s], &scalar_i);
        CHECK(add_channel(&m, s, (s + 1) % 3, 1, 0) == s);
        int32_t loop = open_loop(&m, s, number(&m, steps), true);
        add_send(&m, s, s, NULL);
        if (s == 1) {
            ipu_type table = {IPU_DTYPE_INT32, {1, {3}}};
            ipu_type *types;
            CHECK_OK(ctx, ipu_arena_alloc(ctx, &m.program->arena, 3 * sizeof(ipu_type),
                                          &types));
            types[0] = table;
            types[1] = scalar_i;
            types[2] = scalar_i;
            ipu_attr *axis;
            CHECK_OK(ctx,
                     ipu_arena_alloc(ctx, &m.program->arena, sizeof(*axis), &axis));
            *axis = (ipu_attr){.key = IPU_ATTR_AXIS, .as.i = 0};
            ipu_kernel_spec spec = {.op = IPU_OP_ID_GATHER,
                                    .attrs = {axis, 1},
                                    .input_count = 2,
                                    .output_count = 1,
                                    .inputs = types,
                                    .outputs = &types[2]};
            CHECK_OK(ctx, ipu_kernel_prepare(ctx, &m.program->arena, &spec,
                                             IPU_KERNEL_REFERENCE, IPU_CPU_GENERIC));
            CHECK_OK(ctx, IPU_ARRAY_PUSH(ctx, &m.program->specs, spec));
            ipu_place in[2] = {number(&m, 7), cell(1)};
            add_copy(&m, s, at_index(IPU_SPACE_INPUT, 0), cell(1));
            emit(&m, s,
                 (ipu_instruction){.kind = IPU_INSTRUCTION_KERNEL,
                                   .spec = (uint32_t)m.program->specs.count - 1,
                                   .source = {"stage.py", 3}},
                 in, 2, &value, 1);
        }
        add_kernel(&m, s, IPU_OP_ID_ADD, at_index(IPU_SPACE_VARIABLE, v), number(&m, 1),
                   value);
        add_copy(&m, s, value, at_index(IPU_SPACE_VARIABLE, v));
        add_receive(&m, s, (s + 2) % 3, NULL);
        close_loop(&m, s, loop);
    }
    c.program = end_program(&m);
    return c;
}

static int32_t
count_of(ipu_ctx *ctx, const counters *c, int i)
{
    int32_t value = -1;
    CHECK_OK(ctx, ipu_device_variable_read(ctx, c->device, c->ids[i], 0, &value, 4));
    return value;
}

static void
free_counters(ipu_ctx *ctx, counters *c)
{
    ipu_program_free(ctx, c->program);
    ipu_device_free(ctx, c->device);
}

static void
test_error(ipu_ctx *ctx)
{
    for (int threads = 1; threads <= MOST_THREADS; threads++) {
        counters c = make_counters(ctx, 3);
        int32_t row = 0;
        const void *inputs[1] = {&row};
        CHECK_OK(ctx,
                 run_program(ctx, c.program, c.device, threads, inputs, NULL, NULL));
        row = 5;
        ipu_status status =
            run_program(ctx, c.program, c.device, threads, inputs, NULL, NULL);
        CHECK(status != IPU_OK && ctx->source.line == 3);
        ipu_ctx_clear(ctx);
        /* the others went on to where they need stream 1: always the same place */
        CHECK(count_of(ctx, &c, 0) == 4 && count_of(ctx, &c, 1) == 3 &&
              count_of(ctx, &c, 2) == 4);
        CHECK(ipu_device_get_random(c.device).step == 3);
        row = 1;
        CHECK_OK(ctx,
                 run_program(ctx, c.program, c.device, threads, inputs, NULL, NULL));
        CHECK(count_of(ctx, &c, 1) == 6 && ipu_device_get_random(c.device).step == 6);
        free_counters(ctx, &c);
    }
}

typedef struct cancelling {
    ipu_device *device;
    uint64_t after; /* steps */
    int32_t flag;
} cancelling;

static void *
cancel_soon(void *argument)
{
    cancelling *c = argument;
    while (ipu_device_get_random(c->device).step < c->after) {
        sleep_ms(1);
    }
    sleep_ms(5);
    __atomic_store_n(&c->flag, 1, __ATOMIC_RELAXED);
    return NULL;
}

/* All streams stop at the same step. */
static void
test_cancel(ipu_ctx *ctx)
{
    for (int threads = 1; threads <= MOST_THREADS; threads++) {
        counters c = make_counters(ctx, 1 << 30);
        int32_t row = 0;
        const void *inputs[1] = {&row};
        cancelling stop = {.device = c.device, .after = 1};
        pthread_t thread;
        pthread_create(&thread, NULL, cancel_soon, &stop);
        EXPECT(
            ctx, INTERRUPTED, "interrupted after",
            run_program(ctx, c.program, c.device, threads, inputs, NULL, &stop.flag));
        pthread_join(thread, NULL);
        uint64_t step = ipu_device_get_random(c.device).step;
        for (int i = 0; i < 3; i++) {
            CHECK(count_of(ctx, &c, i) == (int32_t)step && step > 0);
        }
        free_counters(ctx, &c);
    }
}

typedef struct watching {
    counters *c;
    atomic_bool stop;
    int wrong;
    atomic_int reads;
} watching;

static void *
watch(void *argument)
{
    watching *w = argument;
    ipu_ctx ctx;
    ipu_ctx_init(&ctx, ipu_allocator_default());
    int32_t before = 0;
    while (!atomic_load(&w->stop)) {
        int32_t now = -1;
        ipu_device_variable_read(&ctx, w->c->device,
                                 w->c->ids[atomic_load(&w->reads) % 3], 0, &now, 4);
        w->wrong += now < before;
        before = now;
        atomic_fetch_add(&w->reads, 1);
    }
    return NULL;
}

/* Hosts read at step boundaries: one stream's counter is never behind another's. */
static void
test_hosts(ipu_ctx *ctx)
{
    counters c = make_counters(ctx, 2000);
    int32_t row = 0;
    const void *inputs[1] = {&row};
    watching w = {.c = &c};
    pthread_t thread;
    pthread_create(&thread, NULL, watch, &w);
    for (int run = 0; run < 3 || atomic_load(&w.reads) < 20; run++) {
        CHECK_OK(ctx, run_program(ctx, c.program, c.device, 2, inputs, NULL, NULL));
    }
    atomic_store(&w.stop, true);
    pthread_join(thread, NULL);
    CHECK(w.wrong == 0);
    free_counters(ctx, &c);
}

/* --- queues ----------------------------------------------------------------------- */

typedef struct feeding {
    ipu_infeed *queue;
    ipu_device *device; /* a variable is read before each element; NULL: none */
    int64_t variable;
    int count;
    bool leaves_open;
    int32_t seen; /* the variable's last value */
} feeding;

static void *
feed(void *argument)
{
    feeding *f = argument;
    ipu_ctx ctx;
    ipu_ctx_init(&ctx, ipu_allocator_default());
    for (int i = 0; i < f->count; i++) {
        void *const *slot;
        if (f->device != NULL) {
            ipu_device_variable_read(&ctx, f->device, f->variable, 0, &f->seen, 4);
        }
        if (ipu_infeed_acquire(&ctx, f->queue, &slot) != IPU_OK) {
            return NULL;
        }
        *(int32_t *)slot[0] = i + 1;
        if (i % 50 == 49) {
            sleep_ms(1);
        }
        ipu_infeed_publish(f->queue);
    }
    if (!f->leaves_open) {
        ipu_infeed_end(f->queue, NULL);
    }
    return NULL;
}

/* Stream 0 holds two elements at a time, gives them back in the other order, and sends
 * 10 * the older one + the newer one through all streams; the last one enqueues it and
 * adds it to a variable. */
typedef struct pipe {
    ipu_device *device;
    ipu_infeed *infeed;
    ipu_outfeed *outfeed;
    int64_t variable;
    ipu_program *program;
} pipe_rig;

static pipe_rig
make_pipe(ipu_ctx *ctx, uint32_t streams, int32_t steps, int32_t depth)
{
    pipe_rig p;
    int64_t in_id;
    int64_t out_id;
    maker m = begin_program(ctx, streams);
    uint32_t last = streams - 1;
    CHECK_OK(ctx, ipu_device_create(ctx, 1, &p.device));
    CHECK_OK(ctx, ipu_infeed_create(ctx, &scalar_i, 1, depth, 1, &p.infeed));
    CHECK_OK(ctx,
             ipu_outfeed_create(ctx, &scalar_i, 1, IPU_OUTFEED_ALL, depth, &p.outfeed));
    CHECK_OK(ctx, ipu_device_infeed_add(ctx, p.device, p.infeed, &in_id));
    CHECK_OK(ctx, ipu_device_outfeed_add(ctx, p.device, p.outfeed, &out_id));
    CHECK_OK(ctx, ipu_device_variable_add(ctx, p.device, &scalar_i, &p.variable));
    uint32_t in = add_resource(&m, IPU_RESOURCE_INFEED, in_id, &scalar_i);
    uint32_t out = add_resource(&m, IPU_RESOURCE_OUTFEED, out_id, &scalar_i);
    uint32_t v = add_resource(&m, IPU_RESOURCE_VARIABLE, p.variable, &scalar_i);
    ipu_place element = at_index(IPU_SPACE_INFEED, 0);
    ipu_place value = cell(0);
    for (uint32_t s = 0; s < streams; s++) {
        int32_t loop = open_loop(&m, s, number(&m, steps), true);
        if (s < last) {
            CHECK(add_channel(&m, s, s + 1, 1 + s % 2, 1) == s);
        }
        if (s == 0) {
            add_dequeue(&m, s, in);
            add_kernel(&m, s, IPU_OP_ID_MUL, element, number(&m, 10), value);
            add_dequeue(&m, s, in);
            add_kernel(&m, s, IPU_OP_ID_ADD, value, element, cell(1));
            add_copy(&m, s, cell(1), value);
        } else {
            add_receive(&m, s, s - 1, &value);
        }
        if (s < last) {
            add_send(&m, s, s, &value);
        } else {
            add_enqueue(&m, s, out, value);
            add_kernel(&m, s, IPU_OP_ID_ADD, at_index(IPU_SPACE_VARIABLE, v), value,
                       cell(2));
            add_copy(&m, s, cell(2), at_index(IPU_SPACE_VARIABLE, v));
        }
        close_loop(&m, s, loop);
    }
    p.program = end_program(&m);
    return p;
}

static void
free_pipe(ipu_ctx *ctx, pipe_rig *p)
{
    ipu_program_free(ctx, p->program);
    ipu_device_free(ctx, p->device);
    ipu_infeed_free(ctx, p->infeed);
    ipu_outfeed_free(ctx, p->outfeed);
}

static void
test_queues(ipu_ctx *ctx)
{
    enum { STEPS = 200 };
    for (uint32_t streams = 2; streams <= MOST_STREAMS; streams += 7) {
        for (int threads = 1; threads <= MOST_THREADS; threads++) {
            pipe_rig p = make_pipe(ctx, streams, STEPS, 1 + threads % 3);
            static int32_t values[STEPS];
            void *out[1] = {values};
            int64_t taken;
            pthread_t thread;
            /* the feeder looks at a variable, which only a step boundary allows */
            feeding f = {.queue = p.infeed,
                         .count = 2 * STEPS,
                         .device = p.device,
                         .variable = p.variable};
            pthread_create(&thread, NULL, feed, &f);
            CHECK_OK(ctx,
                     run_program(ctx, p.program, p.device, threads, NULL, NULL, NULL));
            pthread_join(thread, NULL);
            CHECK_OK(ctx, ipu_outfeed_take(ctx, p.outfeed, STEPS, 1, out, &taken));
            CHECK(taken == STEPS);
            int wrong = 0;
            for (int i = 0; i < STEPS; i++) {
                wrong += values[i] != 10 * (2 * i + 1) + 2 * i + 2;
            }
            CHECK(wrong == 0);
            /* the data end in the middle of a step */
            ipu_infeed_reopen(p.infeed);
            f = (feeding){.queue = p.infeed, .count = 5};
            pthread_create(&thread, NULL, feed, &f);
            EXPECT(ctx, OUT_OF_RANGE, "5 elements",
                   run_program(ctx, p.program, p.device, threads, NULL, NULL, NULL));
            pthread_join(thread, NULL);
            CHECK_OK(ctx, ipu_outfeed_take(ctx, p.outfeed, STEPS, 1, out, &taken));
            CHECK(taken == 2);
            free_pipe(ctx, &p);
        }
    }
}

/* Nobody feeds: hosts get at the variables meanwhile, and the run can be cancelled. */
static void
test_starving(ipu_ctx *ctx)
{
    for (int threads = 1; threads <= 2; threads++) {
        pipe_rig p = make_pipe(ctx, 3, 10, 2);
        pthread_t threads_made[2];
        feeding f = {.queue = p.infeed,
                     .count = 4,
                     .leaves_open = true,
                     .device = p.device,
                     .variable = p.variable};
        cancelling stop = {.device = p.device, .after = 2};
        pthread_create(&threads_made[0], NULL, feed, &f);
        pthread_create(&threads_made[1], NULL, cancel_soon, &stop);
        EXPECT(ctx, INTERRUPTED, "interrupted",
               run_program(ctx, p.program, p.device, threads, NULL, NULL, &stop.flag));
        ipu_infeed_close(p.infeed);
        pthread_join(threads_made[0], NULL);
        pthread_join(threads_made[1], NULL);
        free_pipe(ctx, &p);
    }
}

/* --- the verifier's teeth --------------------------------------------------------- */

static void
refuse_at(ipu_ctx *ctx, const ipu_program *program, const char *part, int line)
{
    expect(ctx, ipu_program_verify(ctx, program), IPU_STATUS_INTERNAL, part, line);
}

#define refuse(ctx, program, part) refuse_at((ctx), (program), (part), __LINE__)

static void
test_teeth(ipu_ctx *ctx)
{
    pipe_rig p = make_pipe(ctx, 3, 5, 2);
    ipu_program *program = p.program;
    ipu_channel *channel = &program->channels.items[0];
    channel->to = 0;
    refuse(ctx, program, "a channel of other streams");
    channel->to = 1;
    channel->from = 1;
    refuse(ctx, program, "a channel of other streams");
    channel->from = 0;
    channel->depth = 0;
    refuse(ctx, program, "leads nowhere");
    channel->depth = 1;
    channel->type_count = 0;
    refuse(ctx, program, "other operands than");
    channel->type_count = 1;
    program->micro_batches = 0;
    refuse(ctx, program, "no micro-batch");
    program->micro_batches = 1;

    ipu_stream *first = &program->streams.items[0];
    ipu_instruction *loop = &first->instructions.items[0];
    loop->is_step = false;
    refuse(ctx, program, "ends where it does not begin");
    loop->is_step = true;
    ipu_instruction *dequeue = &first->instructions.items[1];
    CHECK(dequeue->kind == IPU_INSTRUCTION_DEQUEUE);
    ipu_place place = dequeue->outputs[0];
    ipu_place other = at_index(IPU_SPACE_INFEED, 1);
    dequeue->outputs = &other;
    refuse(ctx, program, "does not exist");
    ipu_instruction use = first->instructions.items[2]; /* of an element */
    dequeue->outputs = &place;
    first->instructions.items[2] = *dequeue;
    *dequeue = use;
    refuse(ctx, program, "read before its dequeue");
    *dequeue = first->instructions.items[2];
    first->instructions.items[2] = use;
    CHECK_OK(ctx, ipu_program_verify(ctx, program));

    size_t *channels = &program->channels.count;
    for (*channels = 0; *channels < 2; ++*channels) {
        refuse(ctx, program, "a channel of other streams");
    }
    CHECK_OK(ctx, ipu_program_verify(ctx, program));

    /* what belongs to one stream is used by another one */
    ipu_instruction *enqueue = &program->streams.items[2].instructions.items[2];
    CHECK(enqueue->kind == IPU_INSTRUCTION_ENQUEUE);
    ipu_stream *second = &program->streams.items[1];
    ipu_instruction kept = second->instructions.items[2];
    second->instructions.items[2] = *enqueue;
    refuse(ctx, program, "several streams use queue 1");
    second->instructions.items[2] = program->streams.items[2].instructions.items[4];
    second->instructions.items[2].inputs = kept.inputs;
    refuse(ctx, program, "which another one uses");
    second->instructions.items[2] = kept;
    CHECK_OK(ctx, ipu_program_verify(ctx, program));
    free_pipe(ctx, &p);
}

static void
add_pipeline(maker *m, uint32_t stream, uint32_t child)
{
    ipu_instruction pipeline = {
        .kind = IPU_INSTRUCTION_PIPELINE, .first_stream = child, .stream_count = 1};
    emit(m, stream, pipeline, NULL, 0, NULL, 0);
}

/* The routine of a pipeline's stream: a loop that copies, and a copy. */
static void
add_routine(maker *m, uint32_t stream, ipu_place from)
{
    int32_t loop = open_loop(m, stream, number(m, 2), false);
    add_copy(m, stream, from, cell(0));
    close_loop(m, stream, loop);
    add_copy(m, stream, from, cell(0));
    ipu_instruction end = {.kind = IPU_INSTRUCTION_RETURN};
    ipu_instruction action = {.kind = IPU_INSTRUCTION_ACTION, .end = loop + 5};
    emit(m, stream, end, NULL, 0, NULL, 0);
    m->program->streams.items[stream].entry = 5;
    m->program->streams.items[stream].is_child = true;
    emit(m, stream, action, NULL, 0, NULL, 0);
}

/* Stream 0 has a pipeline, stream 2, in a loop's condition; stream 1 one, stream 3, in
 * front of a loop of steps. */
static void
test_pipelines_teeth(ipu_ctx *ctx)
{
    maker m = begin_program(ctx, 4);
    ipu_program *program = m.program;
    ipu_instruction loop = {.kind = IPU_INSTRUCTION_WHILE, .target = 4};
    ipu_instruction test = {.kind = IPU_INSTRUCTION_TEST, .target = 4};
    ipu_instruction next = {.kind = IPU_INSTRUCTION_NEXT, .target = 1};
    ipu_place one = number(&m, 1);
    program->output_count = 1;
    program->outputs = scalars(&m, 1);
    program->streams.items[0].loop_count = 1;
    emit(&m, 0, loop, NULL, 0, NULL, 0);
    add_pipeline(&m, 0, 2);
    emit(&m, 0, test, &one, 1, NULL, 0);
    emit(&m, 0, next, NULL, 0, NULL, 0);
    add_copy(&m, 0, one, at_index(IPU_SPACE_OUTPUT, 0));
    add_routine(&m, 2, one);
    ipu_place around = {IPU_SPACE_FOREIGN, 1, cell(3).offset};
    add_copy(&m, 1, one, cell(3));
    add_pipeline(&m, 1, 3);
    int32_t steps = open_loop(&m, 1, one, true);
    close_loop(&m, 1, steps);
    add_routine(&m, 3, around);
    (void)end_program(&m);
    ipu_instruction *routine = program->streams.items[2].instructions.items;
    ipu_instruction kept = routine[3];
    routine[3] = program->streams.items[0].instructions.items[2];
    refuse(ctx, program, "it leaves no loop");
    routine[3] = program->streams.items[0].instructions.items[1];
    refuse(ctx, program, "a pipeline in a pipeline");
    routine[3] = kept;
    routine = program->streams.items[3].instructions.items;
    routine[0].is_step = routine[2].is_step = true;
    refuse(ctx, program, "a part of another one");
    routine[0].is_step = routine[2].is_step = false;
    ipu_place *foreign = (ipu_place *)routine[1].inputs;
    foreign->offset += 4;
    refuse(ctx, program, "is not aligned");
    foreign->offset -= 4;
    /* what one stream writes no other one reads */
    ipu_instruction *copy = &program->streams.items[1].instructions.items[0];
    copy->inputs = program->streams.items[0].instructions.items[4].outputs;
    refuse(ctx, program, "is lost by then");
    ipu_program_free(ctx, program);
}

/* Slots of a ring are bytes of a slab; and what ends where remote memory does. */
static void
test_memory_teeth(ipu_ctx *ctx)
{
    maker m = begin_program(ctx, 2);
    ipu_program *program = m.program;
    const ipu_ring made = {
        .stream = 1, .depth = 2, .offset = 64, .stride = 64, .bytes = 4};
    ipu_instruction end = {.kind = IPU_INSTRUCTION_RETURN};
    ipu_instruction action = {
        .kind = IPU_INSTRUCTION_ACTION, .end = 4, .micro_batch = 1};
    ipu_place one = number(&m, 1);
    CHECK_OK(ctx, IPU_ARRAY_PUSH(ctx, &program->rings, made));
    add_copy(&m, 1, one, at_index(IPU_SPACE_RING, 0));
    add_copy(&m, 1, one, cell(4));
    add_copy(&m, 1, at_index(IPU_SPACE_RING, 0), cell(0));
    emit(&m, 1, end, NULL, 0, NULL, 0);
    emit(&m, 1, action, NULL, 0, NULL, 0);
    program->streams.items[1].entry = 4;
    program->streams.items[1].is_child = true;
    add_pipeline(&m, 0, 1);
    add_copy(&m, 0, one, at_index(IPU_SPACE_REMOTE, 0));
    add_copy(&m, 0, (ipu_place){IPU_SPACE_REMOTE, 0, 4}, cell(1));
    add_copy(&m, 0, one, (ipu_place){IPU_SPACE_REMOTE, 0, 8});
    program->streams.items[0].remote_bytes = 8;
    program->streams.items[0].instructions.items[1].bytes = 8;
    program->streams.items[0].instructions.items[3].bytes = 0;
    (void)end_program(&m);

    ipu_ring *ring = &program->rings.items[0];
    ring->stride = 3;
    refuse(ctx, program, "not as its ring says");
    ring->stride = 4;
    refuse(ctx, program, "is not aligned");
    ring->depth = 1;
    CHECK_OK(ctx, ipu_program_verify(ctx, program));
    *ring = made;
    ipu_instruction *other = &program->streams.items[1].instructions.items[1];
    *(ipu_place *)other->outputs = cell(2); /* where micro-batch 1 has its slot */
    other->bytes = 2;
    refuse(ctx, program, "is lost by then");
    ipu_instruction *code = program->streams.items[1].instructions.items;
    code[4].micro_batch = 0; /* whose slot nobody writes */
    code[0] = *other;
    refuse(ctx, program, "its micro-batch has not");
    ring->stream = 0;
    ((ipu_place *)program->streams.items[0].instructions.items[2].inputs)->space =
        IPU_SPACE_RING;
    program->streams.items[0].instructions.items[0] =
        program->streams.items[0].instructions.items[1];
    refuse(ctx, program, "a ring of another stream");
    ipu_program_free(ctx, program);
}

/* --- allocation ------------------------------------------------------------------- */

static ipu_status
run_on_pools(ipu_ctx *ctx, const ipu_program *program, ipu_executor **executor,
             int32_t *out)
{
    void *outputs[1] = {out};
    if (*executor == NULL) {
        IPU_TRY(ipu_executor_create(ctx, program, NULL, NULL, executor));
    }
    for (int threads = 1; threads <= MOST_THREADS; threads++) {
        IPU_TRY(ipu_executor_set_pool(ctx, *executor, pool_of(threads)));
        IPU_TRY(ipu_executor_run(ctx, *executor, NULL, outputs, NULL, NULL));
    }
    return IPU_OK;
}

/* Creating and running an executor of several streams where the n-th allocation fails,
 * and again with what that has left. */
static void
test_failing_allocations(ipu_ctx *outer)
{
    ipu_program *program = make_ring(outer, 4, 3, true);
    for (long n = 1;; n++) {
        counter c;
        ipu_ctx ctx;
        ipu_executor *executor = NULL;
        int32_t out = 0;
        ipu_ctx_init(&ctx, counting(&c));
        c.fail_at = n;
        ipu_status status = run_on_pools(&ctx, program, &executor, &out);
        if (status != IPU_OK) {
            EXPECT(&ctx, OUT_OF_MEMORY, "out of memory", status);
            CHECK_OK(&ctx, run_on_pools(&ctx, program, &executor, &out));
            CHECK(out == 21);
        }
        ipu_executor_free(&ctx, executor);
        CHECK(atomic_load(&c.live_bytes) == 0);
        if (atomic_load(&c.allocations) < n) {
            CHECK(status == IPU_OK && out == 21);
            break;
        }
    }
    ipu_program_free(outer, program);
}

int
main(void)
{
    ipu_ctx ctx;
    ipu_ctx_init(&ctx, ipu_allocator_default());
    for (int threads = 2; threads <= MOST_THREADS; threads++) {
        CHECK_OK(&ctx, ipu_pool_create(&ctx, threads, &pools[threads]));
    }
    test_ring(&ctx);
    test_print(&ctx);
    for (uint32_t seed = 1; seed <= 150; seed++) {
        test_random_program(&ctx, seed);
    }
    test_deadlocks(&ctx);
    test_error(&ctx);
    test_cancel(&ctx);
    test_hosts(&ctx);
    test_queues(&ctx);
    test_starving(&ctx);
    test_teeth(&ctx);
    test_pipelines_teeth(&ctx);
    test_memory_teeth(&ctx);
    test_failing_allocations(&ctx);
    for (int threads = 2; threads <= MOST_THREADS; threads++) {
        ipu_pool_free(&ctx, pools[threads]);
    }
    return CHECK_DONE();
}
