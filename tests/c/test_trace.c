/* SPDX-License-Identifier: MIT
 *
 * A trace from its first node to the programs of the call and of the way back, with
 * every allocation failing once: building blocks, gradients through a loop, a branch
 * and a function with a gradient of its own, a value lifted out, the cut in two, and
 * the edits that loops go through. After each failure the error is that of memory and
 * nothing is left; without one, verified and unverified compilation give one program.
 */
#include "trace/trace.h"

#include <stdlib.h>
#include <string.h>

#include "autodiff/autodiff.h"
#include "check.h"
#include "passes/passes.h"
#include "program/program.h"

enum { WIDTH = 3, MOST_NODES = 1000000 };

/* An allocator that fails once, at its `fail_at`-th allocation. */
typedef struct counter {
    ipu_allocator heap;
    long count;
    long fail_at;
    long live_bytes;
} counter;

static void *
counted_resize(void *state, void *pointer, size_t old_bytes, size_t new_bytes)
{
    counter *c = state;
    if (new_bytes > old_bytes && ++c->count == c->fail_at) {
        return NULL;
    }
    void *out = c->heap.resize(c->heap.state, pointer, old_bytes, new_bytes);
    if (out != NULL || new_bytes == 0) {
        c->live_bytes += (long)new_bytes - (long)old_bytes;
    }
    return out;
}

static ipu_type
vector_type(void)
{
    int64_t dims[1] = {WIDTH};
    return (ipu_type){IPU_DTYPE_FLOAT32, ipu_shape_make(1, dims)};
}

/* What is traced, and what is made of it. */
typedef struct tracing {
    ipu_ctx *ctx;
    ipu_trace *trace;
    ipu_graph *lifted;
    ipu_graph *back;
    ipu_value trips;
    ipu_value x;
    ipu_value loss;
    ipu_value gradient;
    ipu_value constant; /* of constants alone */
    ipu_node mark;
    const float *held;
    int custom_calls;
} tracing;

static ipu_status
op(tracing *t, ipu_op id, const ipu_value *inputs, uint32_t count,
   const ipu_attr *attrs, uint32_t attr_count, ipu_value *out)
{
    ipu_source source = {"train.py", 7};
    ipu_node node;
    IPU_TRY(ipu_trace_node(t->ctx, t->trace, id, inputs, count, attrs, attr_count,
                           source, "layer", &node));
    const ipu_node_data *data = ipu_node_of(t->trace->graph, node);
    *out = data->output_count == 0 ? IPU_NO_VALUE : ipu_node_output(data, 0);
    return IPU_OK;
}

static ipu_status
unary(tracing *t, ipu_op id, ipu_value x, ipu_value *out)
{
    return op(t, id, &x, 1, NULL, 0, out);
}

static ipu_status
binary(tracing *t, ipu_op id, ipu_value a, ipu_value b, ipu_value *out)
{
    ipu_value inputs[2] = {a, b};
    return op(t, id, inputs, 2, NULL, 0, out);
}

/* A switch of two branches, one of which captures what is around it. */
static ipu_status
trace_switch(tracing *t, ipu_value index, ipu_value x, ipu_value around, ipu_value *out)
{
    ipu_graph *graph = t->trace->graph;
    int64_t branches[2];
    for (int i = 0; i < 2; i++) {
        ipu_block block;
        ipu_value y;
        IPU_TRY(ipu_trace_open_block(t->ctx, t->trace, &block));
        IPU_TRY(i == 0 ? unary(t, IPU_OP_ID_TANH, x, &y)
                       : binary(t, IPU_OP_ID_MUL, x, around, &y));
        IPU_TRY(ipu_trace_close_block(t->ctx, t->trace, block));
        IPU_TRY(ipu_trace_reopen_block(t->ctx, t->trace, block));
        IPU_TRY(binary(t, IPU_OP_ID_MUL, y, y, &y));
        IPU_TRY(ipu_graph_add_result(t->ctx, graph, block, y));
        IPU_TRY(ipu_trace_close_block(t->ctx, t->trace, block));
        branches[i] = block.index;
    }
    ipu_attr attr = {.key = IPU_ATTR_BRANCHES, .count = 2, .as.ints = branches};
    return op(t, IPU_OP_ID_SWITCH, &index, 1, &attr, 1, out);
}

/* A loop whose second carried value nobody uses: passes take it away. */
static ipu_status
trace_loop(tracing *t, ipu_value start, ipu_value scale, ipu_value *out)
{
    ipu_graph *graph = t->trace->graph;
    ipu_type type = vector_type();
    ipu_block body;
    ipu_value carried, unused, product, chosen, sum;
    IPU_TRY(ipu_trace_open_block(t->ctx, t->trace, &body));
    IPU_TRY(ipu_graph_add_param(t->ctx, graph, body, &type, &carried));
    IPU_TRY(ipu_graph_add_param(t->ctx, graph, body, &type, &unused));
    IPU_TRY(binary(t, IPU_OP_ID_MUL, carried, scale, &product));
    IPU_TRY(trace_switch(t, t->trips, product, start, &chosen));
    IPU_TRY(binary(t, IPU_OP_ID_ADD, chosen, carried, &sum));
    IPU_TRY(unary(t, IPU_OP_ID_NEG, unused, &unused));
    IPU_TRY(ipu_graph_add_result(t->ctx, graph, body, sum));
    IPU_TRY(ipu_graph_add_result(t->ctx, graph, body, unused));
    IPU_TRY(ipu_trace_close_block(t->ctx, t->trace, body));
    ipu_attr attrs[2] = {{.key = IPU_ATTR_BODY, .as.i = body.index},
                         {.key = IPU_ATTR_MAXIMUM_ITERATIONS, .as.i = 4}};
    ipu_value inputs[3] = {t->trips, start, scale};
    return op(t, IPU_OP_ID_REPEAT, inputs, 3, attrs, 2, out);
}

static ipu_status
trace_in_vain(tracing *t)
{
    ipu_block block;
    ipu_value y;
    IPU_TRY(ipu_trace_open_block(t->ctx, t->trace, &block));
    IPU_TRY(unary(t, IPU_OP_ID_EXP, t->x, &y));
    IPU_TRY(ipu_trace_close_block(t->ctx, t->trace, block));
    return ipu_trace_drop_block(t->ctx, t->trace, block);
}

static ipu_status
trace_forward(tracing *t)
{
    static const float numbers[WIDTH] = {0.5f, -1.0f, 2.0f};
    ipu_block main_block = {0};
    ipu_type vector = vector_type();
    ipu_type scalar = {IPU_DTYPE_INT32, ipu_shape_scalar()};
    ipu_value held, scale, turned, inputs[2];
    IPU_TRY(ipu_trace_create(t->ctx, false, &t->trace));
    ipu_graph *graph = t->trace->graph;
    IPU_TRY(ipu_graph_add_param(t->ctx, graph, main_block, &scalar, &t->trips));
    IPU_TRY(ipu_graph_add_param(t->ctx, graph, main_block, &vector, &t->x));
    IPU_TRY(ipu_trace_constant(t->ctx, t->trace, &vector, numbers, &scale));
    IPU_TRY(ipu_trace_held(t->ctx, t->trace, &vector, t->held, &held));
    IPU_TRY(binary(t, IPU_OP_ID_ADD, scale, held, &t->constant));
    IPU_TRY(unary(t, IPU_OP_ID_COS, t->constant, &t->constant));
    IPU_TRY(trace_in_vain(t));
    IPU_TRY(trace_loop(t, t->x, t->constant, &turned));
    inputs[0] = turned;
    inputs[1] = t->x;
    ipu_attr index = {.key = IPU_ATTR_INDEX, .as.i = 0};
    IPU_TRY(op(t, IPU_OP_ID_CUSTOM_GRADIENT, inputs, 2, &index, 1, &turned));
    IPU_TRY(binary(t, IPU_OP_ID_MUL, turned, t->x, &turned));
    int64_t axes[1] = {0};
    ipu_attr attr = {.key = IPU_ATTR_AXES, .count = 1, .as.ints = axes};
    IPU_TRY(op(t, IPU_OP_ID_SUM, &turned, 1, &attr, 1, &t->loss));
    return ipu_graph_add_result(t->ctx, graph, main_block, t->loss);
}

/* The gradient function of the user's: the incoming gradient, twice. */
static ipu_status
custom_gradient(ipu_ctx *ctx, void *state, const ipu_custom_gradient *call)
{
    tracing *t = state;
    t->custom_calls++;
    IPU_TRY(ipu_trace_enter(ctx, t->trace, call->block, call->home));
    ipu_status status =
        binary(t, IPU_OP_ID_ADD, call->grads[0], call->grads[0], &call->results[0]);
    ipu_trace_leave(t->trace);
    return status;
}

static ipu_status
trace_backward(tracing *t)
{
    ipu_graph *graph = t->trace->graph;
    ipu_type scalar = {IPU_DTYPE_INT32, ipu_shape_scalar()};
    uint32_t span[2] = {0, MOST_NODES};
    ipu_gradient_scope scope = {.spans = span,
                                .span_count = 1,
                                .watched = &t->x,
                                .watched_count = 1,
                                .custom = custom_gradient,
                                .custom_state = t};
    int32_t zero = 0;
    ipu_value marked;
    IPU_TRY(ipu_trace_constant(t->ctx, t->trace, &scalar, &zero, &marked));
    IPU_TRY(unary(t, IPU_OP_ID_IDENTITY, marked, &marked));
    t->mark = ipu_value_of(graph, marked)->producer;
    return ipu_gradients_within(t->ctx, graph, (ipu_block){0}, &t->loss, NULL, 1, &t->x,
                                1, &scope, &t->gradient);
}

/* Passes, then a program; its text where `text` is given. */
static ipu_status
compile(ipu_ctx *ctx, ipu_graph *graph, bool verify, char **text, size_t *bytes)
{
    ipu_passes_options passes = {.verify = verify, .fuse = true};
    ipu_compile_options options = {.cpu = ipu_cpu_class_detect(), .verify = verify};
    ipu_program *program = NULL;
    IPU_TRY(ipu_passes_run(ctx, graph, &passes));
    IPU_TRY(ipu_program_create(ctx, graph, &options, &program));
    ipu_status status = IPU_OK;
    if (text != NULL) {
        status = ipu_program_print(ctx, program, text, bytes);
    }
    ipu_program_free(ctx, program);
    return status;
}

/* The texts of three programs: of the lifted value, the call, and the way back. */
typedef struct texts {
    char *text[3];
    size_t bytes[3];
} texts;

static ipu_status
build(tracing *t, bool verify, texts *out)
{
    uint32_t saved;
    IPU_TRY(trace_forward(t));
    IPU_TRY(trace_backward(t));
    IPU_TRY(ipu_graph_verify(t->ctx, t->trace->graph));
    IPU_TRY(ipu_trace_lift(t->ctx, t->trace, t->constant, &t->lifted));
    IPU_TRY(ipu_trace_split(t->ctx, t->trace, t->mark, 2, &t->gradient, 1, &t->back,
                            &saved));
    IPU_TRY(ipu_graph_verify(t->ctx, t->trace->graph));
    IPU_TRY(ipu_graph_verify(t->ctx, t->back));
    ipu_graph *graphs[3] = {t->lifted, t->trace->graph, t->back};
    for (int i = 0; i < 3; i++) {
        IPU_TRY(compile(t->ctx, graphs[i], verify, out == NULL ? NULL : &out->text[i],
                        out == NULL ? NULL : &out->bytes[i]));
    }
    return IPU_OK;
}

static void
end(tracing *t)
{
    ipu_graph_free(t->ctx, t->lifted);
    ipu_graph_free(t->ctx, t->back);
    ipu_trace_free(t->ctx, t->trace);
}

static float *
held_numbers(void)
{
    float *held = aligned_alloc(64, 64 + IPU_SLACK_BYTES);
    memset(held, 0, 64 + IPU_SLACK_BYTES);
    held[0] = 1.0f;
    return held;
}

static void
test_verified_and_not(void)
{
    float *held = held_numbers();
    texts found[2] = {{{NULL}, {0}}, {{NULL}, {0}}};
    ipu_ctx ctx;
    ipu_ctx_init(&ctx, ipu_allocator_default());
    for (int verify = 0; verify < 2; verify++) {
        tracing t = {.ctx = &ctx, .held = held};
        CHECK_OK(&ctx, build(&t, verify != 0, &found[verify]));
        CHECK(t.custom_calls == 1);
        CHECK(t.gradient.index != IPU_NO_INDEX);
        end(&t);
    }
    for (int i = 0; i < 3; i++) {
        CHECK(found[0].text[i] != NULL && found[1].text[i] != NULL);
        if (found[0].text[i] != NULL && found[1].text[i] != NULL) {
            CHECK(strcmp(found[0].text[i], found[1].text[i]) == 0);
        }
        ipu_free(&ctx, found[0].text[i], found[0].bytes[i]);
        ipu_free(&ctx, found[1].text[i], found[1].bytes[i]);
    }
    free(held);
}

static void
test_failing_allocations(bool verify)
{
    float *held = held_numbers();
    bool done = false;
    for (long fail_at = 1; !done && fail_at < 100000; fail_at++) {
        counter c = {.heap = ipu_allocator_default(), .fail_at = fail_at};
        ipu_ctx ctx;
        ipu_ctx_init(&ctx, (ipu_allocator){counted_resize, &c});
        tracing t = {.ctx = &ctx, .held = held};
        ipu_status status = build(&t, verify, NULL);
        done = c.count < fail_at;
        CHECK(done ? status == IPU_OK : status == IPU_STATUS_OUT_OF_MEMORY);
        CHECK(done || ctx.message[0] != '\0');
        end(&t);
        CHECK(c.live_bytes == 0);
    }
    CHECK(done);
    free(held);
}

/* A trace that lacked memory once can be ended, and asked what it holds. */
static void
test_a_failed_node_leaves_the_trace(void)
{
    float *held = held_numbers();
    bool done = false;
    for (long fail_at = 1; !done; fail_at++) {
        counter c = {.heap = ipu_allocator_default()};
        ipu_ctx ctx;
        ipu_ctx_init(&ctx, (ipu_allocator){counted_resize, &c});
        tracing t = {.ctx = &ctx, .held = held};
        CHECK_OK(&ctx, trace_forward(&t));
        c.count = 0;
        c.fail_at = fail_at;
        ipu_value y;
        ipu_status status = unary(&t, IPU_OP_ID_TANH, t.x, &y);
        done = status == IPU_OK && c.count < fail_at;
        c.fail_at = 0;
        ipu_ctx_clear(&ctx);
        CHECK_OK(&ctx, ipu_graph_verify(&ctx, t.trace->graph));
        CHECK_OK(&ctx, unary(&t, IPU_OP_ID_TANH, t.x, &y));
        CHECK_OK(&ctx, trace_backward(&t));
        CHECK_OK(&ctx, ipu_graph_verify(&ctx, t.trace->graph));
        end(&t);
        CHECK(c.live_bytes == 0);
    }
    free(held);
}

static void
test_what_cannot_be_lifted(void)
{
    float *held = held_numbers();
    ipu_ctx ctx;
    ipu_ctx_init(&ctx, ipu_allocator_default());
    tracing t = {.ctx = &ctx, .held = held};
    CHECK_OK(&ctx, trace_forward(&t));
    CHECK(ipu_trace_lift(&ctx, t.trace, t.loss, &t.lifted) ==
          IPU_STATUS_INVALID_ARGUMENT);
    CHECK(t.lifted == NULL);
    end(&t);
    free(held);
}

int
main(void)
{
    test_verified_and_not();
    test_failing_allocations(false);
    test_failing_allocations(true);
    test_a_failed_node_leaves_the_trace();
    test_what_cannot_be_lifted();
    return CHECK_DONE();
}
