/* SPDX-License-Identifier: MIT
 *
 * Pipelines from graph text to numbers. A model is written twice: as a pipeline of
 * several stages, and with the same body as a plain loop over the micro-batches. Both
 * run on one, two and four threads, twice in a row, and leave the same bits: outputs,
 * variables, and what they enqueue. Then programs spoilt on purpose, which the verifier
 * must refuse, a deadlock, and allocations that fail. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "counter.h"
#include "passes/passes.h"
#include "pipeline/schedule.h"
#include "program/program.h"
#include "run/executor.h"

enum {
    MOST_STAGES = 8,
    ROOM = 1 << 16,
    WIDTH = 4,
    BYTES = WIDTH * sizeof(float),
    STEPS = 3, /* of the loop around the pipeline */
    MOST_ELEMENTS = 2 * STEPS * 32
};

static const ipu_type vector = {IPU_DTYPE_FLOAT32, {1, {WIDTH}}};
static const int thread_counts[3] = {1, 2, 4};
static ipu_pool *pools[5]; /* by threads */

static const ipu_compile_options options = {
    .variant = IPU_KERNEL_REFERENCE, .cpu = IPU_CPU_GENERIC, .verify = true};

/* --- models as text --------------------------------------------------------------- */

typedef struct model {
    uint32_t stages;
    uint32_t micro_batches;
    const char *schedule; /* NULL: a plain loop */
    const uint32_t *devices;
    bool is_training;
    bool is_random;
    int recompute; /* all stages' mode */
    int offload;
    bool has_remote; /* variables in remote memory */
} model;

typedef struct writer {
    char text[ROOM];
    size_t used;
    uint32_t next; /* value */
} writer;

static void
put_list(writer *w, const char *format, va_list args)
{
    int length = vsnprintf(w->text + w->used, ROOM - w->used, format, args);
    CHECK(length >= 0 && (size_t)length < ROOM - w->used);
    w->used += (size_t)length;
}

static void
put(writer *w, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    put_list(w, format, args);
    va_end(args);
}

/* A node of stage `stage`: `format` is what follows the equals sign. */
static uint32_t
add(writer *w, uint32_t stage, int phase, const char *format, ...)
{
    va_list args;
    put(w, "    %%%u = ", w->next);
    va_start(args, format);
    put_list(w, format, args);
    va_end(args);
    put(w, " @(stage=%u, phase=%d) : float32[4]\n", stage, phase);
    return w->next++;
}

static void
put_attributes(writer *w, const model *m)
{
    put(w, "{body=b2");
    if (m->schedule != NULL) {
        put(w, ", schedule=\"%s\", devices=[", m->schedule);
        for (uint32_t i = 0; i < m->stages; i++) {
            put(w, "%s%u", i == 0 ? "" : ",", m->devices[i]);
        }
        put(w, "], training=%s, offload=%d", m->is_training ? "true" : "false",
            m->offload);
    }
    if (m->recompute != 0) {
        put(w, ", recompute=[");
        for (uint32_t i = 0; i < m->stages; i++) {
            put(w, "%s%d", i == 0 ? "" : ",", m->recompute);
        }
        put(w, "]");
    }
    put(w, "}");
}

/* Stage s: its variable is read, a product, a loop in every second one, what skips from
 * the stage before the last, what is drawn, a variable that stage 1 writes later. */
static uint32_t
put_forward(writer *w, const model *m, uint32_t s, const uint32_t *made, uint32_t *mean)
{
    uint32_t h = s == 0 ? add(w, s, 0, "infeed_dequeue() {resource=%u}", m->stages + 1)
                        : made[s - 1];
    uint32_t weight = add(w, s, 0, "variable_read() {resource=%u}", s);
    h = add(w, s, 0, "mul(%%%u, %%%u)", h, weight);
    if (s % 2 == 1) {
        uint32_t inner = w->next++;
        put(w, "    block b%u(%%%u: float32[4]) {\n", 3 + s / 2, inner);
        uint32_t sine = add(w, s, 0, "sin(%%%u)", inner);
        uint32_t sum = add(w, s, 0, "add(%%%u, %%%u)", sine, weight);
        put(w, "    } -> (%%%u)\n", sum);
        h = add(w, s, 0, "repeat(%%3, %%%u) {body=b%u}", h, 3 + s / 2);
    }
    if (s >= 2) {
        h = add(w, s, 0, "add(%%%u, %%%u)", h, made[s - 2]);
    }
    if (m->is_random) {
        uint32_t drawn = add(w, s, 0,
                             "random_uniform() {dtype=float32, shape=[4], seed=3, "
                             "ordinal=%u}",
                             s);
        h = add(w, s, 0, "mul(%%%u, %%%u)", h, drawn);
    }
    if (s == 1) {
        *mean = add(w, s, 0, "variable_read() {resource=%u}", m->stages);
    }
    if (s >= 1) { /* as it was when stage 1 read it */
        h = add(w, s, 0, "sub(%%%u, %%%u)", h, *mean);
    }
    return add(w, s, 0, "tanh(%%%u)", h);
}

static void
put_model(writer *w, const model *m)
{
    uint32_t made[MOST_STAGES];
    uint32_t sums[MOST_STAGES];
    w->used = 0;
    for (uint32_t i = 0; i <= m->stages; i++) {
        put(w, "resource r%u variable id=%u %s\"w%u\" float32[4]\n", i, i,
            m->has_remote ? "remote " : "", i);
    }
    put(w, "resource r%u infeed id=%u \"in\" float32[4]\n", m->stages + 1,
        m->stages + 1);
    put(w, "resource r%u outfeed id=%u \"out\" float32[4]\n", m->stages + 2,
        m->stages + 2);
    put(w, "block b0(%%0: float32[4], %%1: int32[]) {\n");
    put(w, "  %%2 = constant() {dtype=int32, shape=[], value=0x%02x000000} : int32[]\n",
        m->micro_batches);
    put(w, "  %%3 = constant() {dtype=int32, shape=[], value=0x02000000} : int32[]\n");
    put(w, "  block b1(%%4: float32[4]) {\n");
    w->next = 5;
    /* carried: a sum of each stage, one that stage 0 changes on the way forward, and
     * one that nobody does */
    uint32_t first = w->next;
    put(w, "  block b2(");
    for (uint32_t i = 0; i < m->stages + 2; i++) {
        put(w, "%s%%%u: float32[4]", i == 0 ? "" : ", ", w->next++);
    }
    put(w, ") {\n");
    uint32_t mean = 0;
    for (uint32_t s = 0; s < m->stages; s++) {
        made[s] = put_forward(w, m, s, made, &mean);
    }
    uint32_t last = m->stages - 1;
    /* stages 0 and 1 again, after all others have used what they make */
    uint32_t new_mean = add(w, 1, 0, "add(%%%u, %%%u)", mean, made[1]);
    new_mean = add(w, 1, 0, "tanh(%%%u)", new_mean);
    put(w, "    variable_assign(%%%u) {resource=%u} @(stage=1)\n", new_mean, m->stages);
    uint32_t again = add(w, 0, 0, "neg(%%%u)", made[0]);
    put(w, "    outfeed_enqueue(%%%u) {resource=%u} @(stage=%u)\n", made[last],
        m->stages + 2, last);
    uint32_t count = add(w, 0, 0, "add(%%%u, %%%u)", first + m->stages, again);
    uint32_t g = made[last];
    for (uint32_t s = last; m->is_training && s < m->stages; s--) {
        uint32_t product = add(w, s, 1, "mul(%%%u, %%%u)", g, made[s]);
        sums[s] = add(w, s, 1, "add(%%%u, %%%u)", first + s, product);
        g = add(w, s, 1, "cos(%%%u)", product);
    }
    put(w, "  } -> (");
    for (uint32_t s = 0; s < m->stages; s++) {
        put(w, "%%%u, ", m->is_training ? sums[s] : first + s);
    }
    put(w, "%%%u, %%%u)\n  ", count, first + m->stages + 1);
    uint32_t out = w->next;
    w->next += m->stages + 2;
    for (uint32_t i = 0; i < m->stages + 2; i++) {
        put(w, "%s%%%u", i == 0 ? "" : ", ", out + i);
    }
    put(w, " = pipeline(%%2");
    for (uint32_t i = 0; i < m->stages + 2; i++) {
        put(w, ", %%4");
    }
    put(w, ") ");
    put_attributes(w, m);
    for (uint32_t i = 0; i < m->stages + 2; i++) {
        put(w, "%s float32[4]", i == 0 ? " :" : ",");
    }
    put(w, "\n");
    for (uint32_t s = 0; s < m->stages; s++) {
        put(w, "    variable_add(%%%u) {resource=%u}\n", out + s, s);
    }
    uint32_t sum = w->next++;
    put(w, "    %%%u = add(%%%u, %%%u) : float32[4]\n", sum, out + m->stages,
        out + m->stages + 1);
    put(w, "    %%%u = tanh(%%%u) : float32[4]\n", w->next, sum);
    put(w, "  } -> (%%%u)\n", w->next++);
    put(w, "  %%%u = repeat(%%1, %%0) {body=b1} : float32[4]\n} -> (%%%u)\n", w->next,
        w->next);
}

static ipu_status
compile(ipu_ctx *ctx, const char *text, bool runs_passes, ipu_program **out)
{
    ipu_graph *graph = NULL;
    *out = NULL;
    ipu_status status = ipu_graph_parse(ctx, text, &graph);
    if (status == IPU_OK && runs_passes) {
        ipu_passes_options passes = {.verify = true, .fuse = true};
        status = ipu_passes_run(ctx, graph, &passes);
    }
    if (status == IPU_OK) {
        status = ipu_program_create(ctx, graph, &options, out);
    }
    ipu_graph_free(ctx, graph);
    return status;
}

/* --- runs ------------------------------------------------------------------------- */

typedef struct rig {
    ipu_device *device;
    ipu_infeed *infeed;
    ipu_outfeed *outfeed;
    int64_t ids[MOST_STAGES + 3]; /* the model's resources */
    uint32_t variables;
} rig;

static float
start_value(uint32_t which, uint32_t i)
{
    return 0.25F + 0.1F * (float)(which % 7) - 0.05F * (float)i;
}

static rig
make_rig(ipu_ctx *ctx, const model *m, const ipu_program *program)
{
    rig r = {.variables = m->stages + 1};
    int32_t ipus = 1;
    while (ipus < (int32_t)ipu_program_shards(program)) {
        ipus *= 2;
    }
    CHECK_OK(ctx, ipu_device_create(ctx, ipus, &r.device));
    ipu_device_set_random(r.device, (ipu_device_random){.seed = 7});
    for (uint32_t v = 0; v < r.variables; v++) {
        float start[WIDTH];
        for (uint32_t i = 0; i < WIDTH; i++) {
            start[i] = start_value(v, i);
        }
        CHECK_OK(ctx, ipu_device_variable_add(ctx, r.device, &vector, &r.ids[v]));
        CHECK_OK(ctx, ipu_device_variable_write(ctx, r.device, r.ids[v], start, BYTES));
    }
    uint32_t elements = 2 * STEPS * m->micro_batches;
    CHECK(elements <= MOST_ELEMENTS);
    CHECK_OK(ctx,
             ipu_infeed_create(ctx, &vector, 1, (int32_t)elements + 1, 1, &r.infeed));
    for (uint32_t n = 0; n < elements; n++) {
        void *const *slot;
        CHECK_OK(ctx, ipu_infeed_acquire(ctx, r.infeed, &slot));
        for (uint32_t i = 0; i < WIDTH; i++) {
            ((float *)slot[0])[i] = start_value(3 * n + 1, i);
        }
        ipu_infeed_publish(r.infeed);
    }
    CHECK_OK(ctx, ipu_outfeed_create(ctx, &vector, 1, IPU_OUTFEED_ALL, 2, &r.outfeed));
    CHECK_OK(ctx,
             ipu_device_infeed_add(ctx, r.device, r.infeed, &r.ids[m->stages + 1]));
    CHECK_OK(ctx,
             ipu_device_outfeed_add(ctx, r.device, r.outfeed, &r.ids[m->stages + 2]));
    for (uint32_t i = 0; i < m->stages + 3; i++) {
        CHECK(r.ids[i] == i);
    }
    return r;
}

static void
free_rig(ipu_ctx *ctx, rig *r)
{
    ipu_device_free(ctx, r->device);
    ipu_infeed_free(ctx, r->infeed);
    ipu_outfeed_free(ctx, r->outfeed);
}

/* All that two runs leave behind. */
typedef struct trail {
    float outputs[2][WIDTH];
    float variables[MOST_STAGES + 1][WIDTH];
    float enqueued[MOST_ELEMENTS][WIDTH];
    int64_t count; /* of what was enqueued */
    uint64_t step;
} trail;

/* What was tried lacked memory once: it is tried again. */
static bool
lacked_memory(ipu_ctx *ctx, ipu_status status)
{
    if (status == IPU_STATUS_OUT_OF_MEMORY) {
        CHECK(ctx->status == status);
        ipu_ctx_clear(ctx);
    }
    return status == IPU_STATUS_OUT_OF_MEMORY;
}

static ipu_status
run_twice(ipu_ctx *ctx, rig *r, const ipu_program *program, int threads, trail *t)
{
    ipu_executor *executor;
    float start[WIDTH] = {0.1F, -0.2F, 0.3F, 0.4F};
    int32_t steps = STEPS;
    const void *inputs[2] = {start, &steps};
    ipu_run_stats stats = {0};
    ipu_status status;
    do {
        status =
            ipu_executor_create(ctx, program, r->device, pools[threads], &executor);
    } while (lacked_memory(ctx, status));
    for (int i = 0; status == IPU_OK && i < 2; i++) {
        void *outputs[1] = {t->outputs[i]};
        do {
            status = ipu_executor_run(ctx, executor, inputs, outputs, NULL, &stats);
        } while (lacked_memory(ctx, status));
        CHECK(status != IPU_OK || (stats.steps == STEPS && stats.allocations == 0) ||
              i == 0);
    }
    ipu_executor_free(ctx, executor);
    return status;
}

/* The rig has the allocator of `outer`, the executor that of `ctx`. */
static void
run_model_within(ipu_ctx *outer, ipu_ctx *ctx, const model *m,
                 const ipu_program *program, int threads, trail *t)
{
    rig r = make_rig(outer, m, program);
    memset(t, 0, sizeof(*t));
    CHECK_OK(ctx, run_twice(ctx, &r, program, threads, t));
    for (uint32_t v = 0; v < r.variables; v++) {
        CHECK_OK(ctx, ipu_device_variable_read(ctx, r.device, r.ids[v], 0,
                                               t->variables[v], BYTES));
    }
    void *out[1] = {t->enqueued};
    CHECK_OK(ctx, ipu_outfeed_take(ctx, r.outfeed, MOST_ELEMENTS, 1, out, &t->count));
    t->step = ipu_device_get_random(r.device).step;
    free_rig(outer, &r);
}

static void
run_model(ipu_ctx *ctx, const model *m, const ipu_program *program, int threads,
          trail *t)
{
    run_model_within(ctx, ctx, m, program, threads, t);
}

static void
compare(ipu_ctx *ctx, const model *m)
{
    static writer w;
    static trail plain;
    static trail found;
    model loop = *m;
    ipu_program *program;
    loop.schedule = NULL;
    put_model(&w, &loop);
    CHECK_OK(ctx, compile(ctx, w.text, false, &program));
    CHECK(program->streams.count == 1);
    run_model(ctx, &loop, program, 1, &plain);
    ipu_program_free(ctx, program);
    CHECK(plain.count == 2 * STEPS * m->micro_batches);
    CHECK(plain.step == 2ULL * STEPS * m->micro_batches);
    put_model(&w, m);
    for (int passes = m->recompute != 0; passes < 2; passes++) {
        CHECK_OK(ctx, compile(ctx, w.text, passes == 1, &program));
        if (program == NULL) {
            fputs(w.text, stderr);
            return;
        }
        CHECK(program->streams.count > 1);
        for (int i = 0; i < 3; i++) {
            run_model(ctx, m, program, thread_counts[i], &found);
            bool same = memcmp(&plain, &found, sizeof(plain)) == 0;
            CHECK(same);
            if (!same) {
                fprintf(stderr,
                        "  %s, %u stages, %d threads, passes %d, training %d, random "
                        "%d, recompute %d, offload %d\n",
                        m->schedule, m->stages, thread_counts[i], passes,
                        m->is_training, m->is_random, m->recompute, m->offload);
            }
        }
        ipu_program_free(ctx, program);
    }
}

/* --- every schedule ----------------------------------------------------------------
 */

static const uint32_t in_order[MOST_STAGES] = {0, 1, 2, 3, 4, 5, 6, 7};
static const uint32_t reversed[4] = {3, 2, 1, 0};
static const uint32_t on_two[4] = {0, 1, 1, 0};
static const uint32_t round_two[4] = {0, 1, 0, 1};
static const uint32_t on_one[4] = {0, 0, 0, 0};

typedef struct choice {
    const char *schedule;
    uint32_t stages;
    const uint32_t *devices;
} choice;

static const choice choices[] = {
    {"Grouped", 2, in_order},     {"Grouped", 4, reversed},
    {"Grouped", 4, on_two},       {"Grouped", 4, on_one},
    {"Interleaved", 2, in_order}, {"Interleaved", 4, reversed},
    {"Sequential", 2, in_order},  {"Sequential", 4, on_two},
    {"Sequential", 3, on_one},    {"GPipe", 3, in_order},
    {"GPipe", 4, on_two},         {"1F1B", 4, in_order},
    {"1F1B", 4, round_two},       {"Interleaved1F1B", 4, round_two},
    {"ZeroBubble", 2, in_order},  {"ZeroBubble", 4, reversed},
};

static void
test_schedules(ipu_ctx *ctx)
{
    for (size_t i = 0; i < sizeof(choices) / sizeof(*choices); i++) {
        model m = {.stages = choices[i].stages,
                   .micro_batches = 2 * choices[i].stages,
                   .schedule = choices[i].schedule,
                   .devices = choices[i].devices,
                   .is_training = true};
        compare(ctx, &m);
        m.is_random = true;
        m.offload = 1 + (int)(i % 3);
        m.has_remote = i % 2 == 0;
        m.recompute = (int)(i % 3);
        compare(ctx, &m);
        m.is_training = false;
        m.recompute = 0;
        m.offload = 0;
        compare(ctx, &m);
    }
    /* more IPUs than threads, and than micro-batches need */
    model wide = {.stages = 8,
                  .micro_batches = 32,
                  .schedule = "1F1B",
                  .devices = in_order,
                  .is_training = true};
    compare(ctx, &wide);
}

/* --- the verifier's teeth ----------------------------------------------------------
 */

static ipu_program *
compile_model(ipu_ctx *ctx, const model *m)
{
    static writer w;
    ipu_program *program;
    put_model(&w, m);
    CHECK_OK(ctx, compile(ctx, w.text, false, &program));
    return program;
}

static ipu_instruction *
find_kind(ipu_program *program, uint32_t stream, ipu_instruction_kind kind,
          uint32_t which)
{
    ipu_stream *s = &program->streams.items[stream];
    for (size_t i = 0; i < s->instructions.count; i++) {
        if (s->instructions.items[i].kind == kind && which-- == 0) {
            return &s->instructions.items[i];
        }
    }
    CHECK(false);
    exit(1);
}

/* The first operand of the stream that lies in a space. */
static ipu_place *
find_place(ipu_program *program, uint32_t stream, ipu_space space)
{
    ipu_stream *s = &program->streams.items[stream];
    for (size_t i = 0; i < s->instructions.count; i++) {
        const ipu_instruction *instruction = &s->instructions.items[i];
        for (uint32_t k = 0; k < instruction->input_count; k++) {
            if (instruction->inputs[k].space == space) {
                return (ipu_place *)&instruction->inputs[k];
            }
        }
    }
    CHECK(false);
    exit(1);
}

static void
refuse_at(ipu_ctx *ctx, const ipu_program *program, const char *part, int line)
{
    ipu_status status = ipu_program_verify(ctx, program);
    bool fits = status == IPU_STATUS_INTERNAL && strstr(ctx->message, part) != NULL;
    CHECK(fits);
    if (!fits) {
        fprintf(stderr, "  line %d: %s: %s\n", line, ipu_status_name(status),
                ctx->message);
    }
    ipu_ctx_clear(ctx);
}

#define REFUSE(ctx, program, part) refuse_at((ctx), (program), (part), __LINE__)

/* Streams 1 and 2 are the pipeline's. */
static void
test_teeth(ipu_ctx *ctx)
{
    model m = {.stages = 4,
               .micro_batches = 8,
               .schedule = "Grouped",
               .devices = on_two,
               .is_training = true};
    ipu_program *program = compile_model(ctx, &m);
    CHECK(program->streams.count == 3);

    ipu_place *place = find_place(program, 1, IPU_SPACE_RING);
    ipu_place kept = *place;
    *place = *find_place(program, 2, IPU_SPACE_RING);
    REFUSE(ctx, program, "a ring of another stream");
    place->index = (uint32_t)program->rings.count;
    REFUSE(ctx, program, "no such ring");
    *place = (ipu_place){.space = IPU_SPACE_FOREIGN, .index = 2};
    REFUSE(ctx, program, "runs at the same time");
    place->index = 3;
    REFUSE(ctx, program, "no such slab");
    *place = (ipu_place){.space = IPU_SPACE_REMOTE, .index = 3};
    REFUSE(ctx, program, "no such remote memory");
    *place = kept;

    ipu_ring *ring = &program->rings.items[kept.index];
    uint32_t depth = ring->depth;
    CHECK(depth > 1);
    ring->depth = 1;
    REFUSE(ctx, program, "not any more");
    ring->depth = 0;
    REFUSE(ctx, program, "a ring of another stream");
    ring->depth = 1U << 20;
    REFUSE(ctx, program, "past the slab");
    ring->depth = depth;
    ring->bytes++;
    REFUSE(ctx, program, "not as its ring says");
    ring->bytes--;

    ipu_instruction *action = find_kind(program, 1, IPU_INSTRUCTION_ACTION, 0);
    ipu_instruction good = *action;
    action->target = -1;
    REFUSE(ctx, program, "an action without a routine");
    action->target = good.end;
    REFUSE(ctx, program, "an action without a routine");
    *action = good;
    action->end = (int32_t)program->streams.items[1].instructions.count;
    REFUSE(ctx, program, "an action without a routine");
    action->end = good.end - 1; /* no return there */
    REFUSE(ctx, program, "an action without a routine");
    *action = good;
    ipu_instruction *end = find_kind(program, 1, IPU_INSTRUCTION_RETURN, 0);
    end->kind = IPU_INSTRUCTION_JUMP;
    REFUSE(ctx, program, "an action without a routine");
    end->kind = IPU_INSTRUCTION_RETURN;
    ipu_instruction *second = find_kind(program, 1, IPU_INSTRUCTION_RETURN, 1);
    action->end = (int32_t)(second - program->streams.items[1].instructions.items) + 1;
    REFUSE(ctx, program, "does not belong here"); /* a return on the way */
    *action = good;
    ipu_instruction *halt = find_kind(program, 1, IPU_INSTRUCTION_HALT, 0);
    halt->kind = IPU_INSTRUCTION_RETURN; /* this is no routine */
    action->end = (int32_t)program->streams.items[1].instructions.count;
    REFUSE(ctx, program, "an action without a routine");
    halt->kind = IPU_INSTRUCTION_HALT;
    *action = good;
    char where[60];
    snprintf(where, sizeof(where), "instruction %zu of stream 1",
             (size_t)(halt - 1 - program->streams.items[1].instructions.items));
    halt[-1].kind = IPU_INSTRUCTION_RESERVE;
    REFUSE(ctx, program, where);
    halt[-1].kind = IPU_INSTRUCTION_ACTION;
    /* the way back before the way there: its ring was not written */
    uint32_t which = 0;
    ipu_instruction *back = action;
    while (back->action != IPU_ACTION_BACKWARD || back->micro_batch != 0) {
        back = find_kind(program, 1, IPU_INSTRUCTION_ACTION, ++which);
    }
    *action = *back;
    REFUSE(ctx, program, "that its micro-batch has not");
    *action = good;
    action->kind = IPU_INSTRUCTION_RESERVE;
    REFUSE(ctx, program, "more than a list of actions");
    *action = good;

    ipu_instruction *pipeline = find_kind(program, 0, IPU_INSTRUCTION_PIPELINE, 0);
    pipeline->stream_count = 9;
    REFUSE(ctx, program, "or without streams");
    pipeline->stream_count = 2;
    pipeline->first_stream = 0;
    REFUSE(ctx, program, "none of its own");
    pipeline->first_stream = 1;
    CHECK_OK(ctx, ipu_program_verify(ctx, program));
    ipu_program_free(ctx, program);

    m.offload = IPU_OFFLOAD_ACTIVATIONS;
    program = compile_model(ctx, &m);
    CHECK(program->streams.items[1].remote_bytes > 0);
    kept = *find_place(program, 1, IPU_SPACE_RING);
    ring = &program->rings.items[kept.index];
    CHECK(ring->is_remote);
    size_t *remote = &program->streams.items[1].remote_bytes;
    size_t whole = *remote;
    *remote = ring->offset + (ring->depth - 1) * ring->stride + ring->bytes - 1;
    REFUSE(ctx, program, "past the remote memory");
    *remote = 0;
    REFUSE(ctx, program, "past the remote memory");
    *remote = whole;
    CHECK_OK(ctx, ipu_program_verify(ctx, program));
    ipu_instruction *kernel = find_kind(program, 1, IPU_INSTRUCTION_KERNEL, 0);
    *(ipu_place *)&kernel->inputs[0] = kept;
    REFUSE(ctx, program, "it is not a copy, and uses remote memory");
    ipu_program_free(ctx, program);
}

/* --- pipelines that are none --------------------------------------------------------
 */

typedef struct bad {
    const char *count; /* bytes of the number of micro-batches */
    const char *body;  /* of three floats %2, %3, %4, with the results */
    const char *attributes;
    ipu_status status;
    const char *part; /* of the message */
} bad;

#define KEPT "} -> (%2, %3, %4)\n"
#define GPIPE "schedule=\"GPipe\", "
#define INVALID IPU_STATUS_INVALID_ARGUMENT

static const bad bads[] = {
    {"02000000", KEPT, GPIPE "devices=[0,-1]", INVALID, "mapped to IPU -1"},
    {"02000000", KEPT, GPIPE "devices=[0,65536]", INVALID, "mapped to IPU 65536"},
    {"02000000", KEPT, GPIPE "devices=[0,32767]", IPU_STATUS_VALUE, "at most 4096"},
    {"02000000", KEPT, GPIPE "devices=[0,1], positions=[0,4294967296]", INVALID,
     "position 4294967296"},
    {"02000000", KEPT, GPIPE "devices=[0,1], positions=[0,-1]", INVALID, "position -1"},
    {"02000000", KEPT, GPIPE "devices=[0,1], positions=[1,1]", IPU_STATUS_VALUE, ""},
    {"02000000", KEPT, GPIPE "devices=[0,1], positions=[0]", IPU_STATUS_INTERNAL,
     "1 positions"},
    {"02000000", KEPT, GPIPE "devices=[0,1], recompute=[1]", IPU_STATUS_INTERNAL,
     "what they recompute"},
    {"02000000", KEPT, GPIPE "devices=[0,1], recompute=[1,3]", INVALID, "mode 3"},
    {"02000000", KEPT, "devices=[0,1]", IPU_STATUS_INTERNAL, "no schedule"},
    {"02000000", KEPT, "schedule=\"Gpipe\", devices=[0,1]", IPU_STATUS_VALUE, "Gpipe"},
    {"00000000", KEPT, GPIPE "devices=[0,1]", IPU_STATUS_FAILED_PRECONDITION, "1 or"},
    {"ffffffff", KEPT, GPIPE "devices=[0,1]", IPU_STATUS_FAILED_PRECONDITION, "1 or"},
    {"00000008", KEPT, GPIPE "devices=[0,1]", IPU_STATUS_RESOURCE_EXHAUSTED, ""},
    {"02000000", "} -> (%3, %2, %4)\n", GPIPE "devices=[0,1]", IPU_STATUS_UNIMPLEMENTED,
     "value 1 becomes value 0"},
    {"02000000",
     "%5 = neg(%0) @(stage=1) : float32[4]\n"
     "%6 = add(%2, %5) @(stage=0) : float32[4]\n"
     "} -> (%6, %3, %4)\n",
     GPIPE "devices=[0,1]", INVALID, "of stage 1, which runs later"},
    {"02000000",
     "%5 = neg(%3) @(stage=1) : float32[4]\n"
     "%6 = add(%2, %5) @(stage=0) : float32[4]\n"
     "} -> (%2, %6, %4)\n",
     GPIPE "devices=[0,1]", IPU_STATUS_UNIMPLEMENTED, "a stage other than"},
    {"02000000",
     "%5 = add(%2, %0) @(stage=1, phase=1) : float32[4]\n"
     "} -> (%5, %3, %4)\n",
     GPIPE "devices=[0,1]", INVALID, "pipeline that has none"},
    {"02000000",
     "%5 = variable_read() {resource=0} @(stage=0) : float32[4]\n"
     "%6 = variable_read() {resource=0} @(stage=1) : float32[4]\n"
     "%7 = add(%2, %5) @(stage=0) : float32[4]\n"
     "%8 = add(%3, %6) @(stage=1) : float32[4]\n"
     "} -> (%7, %8, %4)\n",
     GPIPE "devices=[0,1]", IPU_STATUS_UNIMPLEMENTED, "stages on the same IPU"},
    {"02000000",
     "block b2(%5: float32[4]) {\n"
     "} -> (%5)\n"
     "%6 = pipeline(%1, %2) {body=b2, " GPIPE "devices=[0,1]} @(stage=0) : float32[4]\n"
     "} -> (%6, %3, %4)\n",
     GPIPE "devices=[0,1]", IPU_STATUS_UNIMPLEMENTED, "a pipeline in a stage"},
    {"02000000", "%5 = neg(%2) @(stage=0, phase=2) : float32[4]\n} -> (%5, %3, %4)\n",
     GPIPE "devices=[0,1]", INVALID, "the phase"},
    {"02000000", "%5 = neg(%2) @(stage=32768) : float32[4]\n} -> (%5, %3, %4)\n",
     GPIPE "devices=[0,1]", INVALID, "32767"},
};

static void
test_bad_pipelines(ipu_ctx *ctx)
{
    static char text[2048];
    for (size_t i = 0; i < sizeof(bads) / sizeof(*bads); i++) {
        const bad *b = &bads[i];
        ipu_program *program;
        snprintf(text, sizeof(text),
                 "resource r0 variable id=0 \"w\" float32[4]\n"
                 "block b0(%%0: float32[4]) {\n"
                 "%%1 = constant() {dtype=int32, shape=[], value=0x%s} : int32[]\n"
                 "block b1(%%2: float32[4], %%3: float32[4], %%4: float32[4]) {\n"
                 "%s%%20, %%21, %%22 = pipeline(%%1, %%0, %%0, %%0) {body=b1, %s}"
                 " : float32[4], float32[4], float32[4]\n} -> (%%20, %%21, %%22)\n",
                 b->count, b->body, b->attributes);
        ipu_status status = compile(ctx, text, false, &program);
        bool fits = status == b->status && program == NULL &&
                    strstr(ctx->message, b->part) != NULL;
        CHECK(fits);
        if (!fits) {
            fprintf(stderr, "  case %zu: %s: %s\n%s", i, ipu_status_name(status),
                    ctx->message, text);
        }
        ipu_ctx_clear(ctx);
        ipu_program_free(ctx, program);
    }
}

/* A pipeline of one stage is one. */
static void
test_one_stage(ipu_ctx *ctx)
{
    ipu_program *program;
    CHECK_OK(ctx, compile(ctx,
                          "block b0(%0: float32[4]) {\n"
                          "  %1 = constant() {dtype=int32, shape=[], value=0x06000000}"
                          " : int32[]\n"
                          "  block b1(%2: float32[4]) {\n"
                          "    %3 = exp(%2) @(stage=0) : float32[4]\n"
                          "  } -> (%3)\n"
                          "  %4 = pipeline(%1, %0) {body=b1, schedule=\"GPipe\", "
                          "devices=[0]} : float32[4]\n"
                          "} -> (%4)\n",
                          false, &program));
    CHECK(program != NULL && program->streams.count == 2);
    ipu_program_free(ctx, program);
}

/* --- deadlocks ---------------------------------------------------------------------
 */

/* The way back of stage 1 alone uses what stage 0 makes: all its messages wait until
 * the last micro-batch has gone forward. With less room the IPUs wait for each other,
 * which is said and does not hang. */
static void
test_deadlock(ipu_ctx *ctx)
{
    static const char *const text =
        "block b0(%0: float32[4]) {\n"
        "  %1 = constant() {dtype=int32, shape=[], value=0x06000000} : int32[]\n"
        "  block b1(%2: float32[4], %3: float32[4]) {\n"
        "    %4 = neg(%0) @(stage=0) : float32[4]\n"
        "    %5 = exp(%0) @(stage=0) : float32[4]\n"
        "    %6 = exp(%5) @(stage=1) : float32[4]\n"
        "    %7 = mul(%4, %6) @(stage=1, phase=1) : float32[4]\n"
        "    %8 = add(%2, %7) @(stage=1, phase=1) : float32[4]\n"
        "    %9 = add(%3, %7) @(stage=0, phase=1) : float32[4]\n"
        "  } -> (%8, %9)\n"
        "  %10, %11 = pipeline(%1, %0, %0) {body=b1, schedule=\"GPipe\", "
        "devices=[0,1], training=true} : float32[4], float32[4]\n"
        "} -> (%10, %11)\n";
    ipu_program *program;
    CHECK_OK(ctx, compile(ctx, text, false, &program));
    /* the stream around fills outputs, from what lies in the slabs of the others */
    CHECK(find_kind(program, 0, IPU_INSTRUCTION_COPY, 2)->inputs[0].space ==
          IPU_SPACE_FOREIGN);
    CHECK(find_kind(program, 0, IPU_INSTRUCTION_COPY, 3)->outputs[0].space ==
          IPU_SPACE_OUTPUT);
    const float start[WIDTH] = {0.5F, -1.0F, 2.0F, 0.25F};
    float out[2][WIDTH];
    const void *inputs[1] = {start};
    void *outputs[2] = {out[0], out[1]};
    uint32_t deepest = 0;
    for (uint32_t i = 0; i < program->channels.count; i++) {
        bool is_deeper =
            program->channels.items[i].depth > program->channels.items[deepest].depth;
        deepest = is_deeper ? i : deepest;
    }
    ipu_channel *channel = &program->channels.items[deepest];
    CHECK(channel->depth == 6);
    for (int i = 0; i < 3; i++) {
        for (uint32_t depth = 1; depth <= 6; depth++) {
            ipu_executor *executor;
            channel->depth = depth;
            CHECK_OK(ctx, ipu_executor_create(ctx, program, NULL,
                                              pools[thread_counts[i]], &executor));
            for (int run = 0; run < 2; run++) {
                ipu_status status =
                    ipu_executor_run(ctx, executor, inputs, outputs, NULL, NULL);
                bool is_stuck = status == IPU_STATUS_INTERNAL &&
                                strstr(ctx->message, "wait for each other for ever");
                CHECK(depth < 6 ? is_stuck : status == IPU_OK);
                ipu_ctx_clear(ctx);
            }
            ipu_executor_free(ctx, executor);
        }
    }
    ipu_program_free(ctx, program);
}

/* --- allocation --------------------------------------------------------------------
 */

/* From the text to the numbers, where the n-th allocation fails, for every n: the next
 * try has the same bits. */
static void
test_failing_allocations(ipu_ctx *outer)
{
    static writer w;
    static trail expected;
    static trail found;
    model m = {.stages = 2,
               .micro_batches = 4,
               .schedule = "ZeroBubble",
               .devices = in_order,
               .is_training = true,
               .recompute = 1,
               .offload = 3,
               .has_remote = true};
    put_model(&w, &m);
    for (long n = 0;; n++) {
        counter f;
        ipu_ctx ctx;
        ipu_program *program;
        ipu_status status;
        ipu_ctx_init(&ctx, counting(&f));
        f.fail_at = n;
        do {
            status = compile(&ctx, w.text, true, &program);
            CHECK((status == IPU_OK) == (program != NULL));
        } while (lacked_memory(&ctx, status));
        CHECK_OK(&ctx, status);
        run_model_within(outer, &ctx, &m, program, n % 2 == 0 ? 1 : 2,
                         n == 0 ? &expected : &found);
        CHECK(n == 0 || memcmp(&found, &expected, sizeof(found)) == 0);
        ipu_program_free(&ctx, program);
        bool is_over = n > 0 && atomic_load(&f.allocations) < n;
        CHECK(atomic_load(&f.live_bytes) == 0);
        if (is_over || check_failures > 0) {
            CHECK(n > 200);
            break;
        }
    }
}

int
main(void)
{
    ipu_ctx ctx;
    ipu_ctx_init(&ctx, ipu_allocator_default());
    for (int i = 0; i < 3; i++) {
        if (thread_counts[i] > 1) {
            CHECK_OK(&ctx,
                     ipu_pool_create(&ctx, thread_counts[i], &pools[thread_counts[i]]));
        }
    }
    test_schedules(&ctx);
    test_teeth(&ctx);
    test_bad_pipelines(&ctx);
    test_one_stage(&ctx);
    test_deadlock(&ctx);
    test_failing_allocations(&ctx);
    for (int i = 0; i < 3; i++) {
        ipu_pool_free(&ctx, pools[thread_counts[i]]);
    }
    return CHECK_DONE();
}
