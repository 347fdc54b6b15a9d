/* SPDX-License-Identifier: MIT
 *
 * Loops and branches through the rooms: their gradients with every allocation failing
 * once, and what the two verifiers refuse. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "autodiff/autodiff.h"
#include "check.h"
#include "graph/block_op.h"
#include "passes/passes.h"
#include "run/executor.h"

/* Loops in the branches in a loop, with a captured value and a counter; one of them
 * writes the variable that it reads. */
static const char *const nested =
    "resource r0 variable id=0 \"w\" float32[3]\n"
    "resource r1 variable id=1 \"v\" float32[3]\n"
    "block b0(%0: int32[], %1: float32[3], %2: float32[3]) {\n"
    "  %3 = constant() {dtype=int32, shape=[], value=0x00000000} : int32[]\n"
    "  %4 = constant() {dtype=int32, shape=[], value=0x01000000} : int32[]\n"
    "  block b1(%5: int32[], %6: float32[3]) {\n"
    "    %7 = less(%5, %0) : bool[]\n"
    "  } -> (%7)\n"
    "  block b2(%8: int32[], %9: float32[3]) {\n"
    "    block b3() {\n"
    "      block b4(%10: float32[3]) {\n"
    "        %11 = variable_read() {resource=1} : float32[3]\n"
    "        variable_add(%2) {resource=1}\n"
    "        %12 = mul(%10, %11) : float32[3]\n"
    "      } -> (%12)\n"
    "      %13 = repeat(%0, %9) {body=b4, maximum_iterations=2} : float32[3]\n"
    "    } -> (%13)\n"
    "    block b5() {\n"
    "      block b6(%14: float32[3]) {\n"
    "        %15 = variable_read() {resource=0} : float32[3]\n"
    "        %16 = tanh(%14) : float32[3]\n"
    "        %17 = mul(%16, %15) : float32[3]\n"
    "        %18 = add(%17, %2) : float32[3]\n"
    "      } -> (%18)\n"
    "      %19 = repeat(%4, %9) {body=b6} : float32[3]\n"
    "    } -> (%19)\n"
    "    %20 = switch(%8) {branches=[b3,b5]} : float32[3]\n"
    "    %21 = add(%8, %4) : int32[]\n"
    "  } -> (%21, %20)\n"
    "  %22, %23 = while(%3, %1) {condition=b1, body=b2, maximum_iterations=4} : "
    "int32[], float32[3]\n"
    "} -> (%23)\n";

/* An allocator that fails once, at its `fail_at`-th allocation. */
typedef struct counter {
    ipu_allocator heap;
    long count;
    long fail_at;
    long live;
} counter;

static void *
counted_resize(void *state, void *pointer, size_t old_bytes, size_t new_bytes)
{
    counter *c = state;
    if (new_bytes != 0 && ++c->count == c->fail_at) {
        return NULL;
    }
    c->live += (old_bytes == 0 && new_bytes != 0) - (old_bytes != 0 && new_bytes == 0);
    return c->heap.resize(c->heap.state, pointer, old_bytes, new_bytes);
}

/* What is read in the loop in a branch. */
static ipu_value
inner_read(const ipu_graph *graph, uint32_t branch)
{
    ipu_node at = ipu_block_of(graph, (ipu_block){0})->last;
    const uint32_t held[3] = {1, branch,
                              0}; /* of the last node, its switch, the loop */
    for (int i = 0; i < 3; i++) {
        const ipu_node_data *node = ipu_node_of(graph, at);
        at = ipu_block_of(graph, ipu_node_block(node, held[i]))->first;
    }
    return ipu_node_output(ipu_node_of(graph, at), 0);
}

/* From text to a program with gradients, which are asked for once more where there was
 * no memory for them. */
static ipu_status
build(ipu_ctx *ctx, ipu_program **out)
{
    ipu_graph *graph;
    IPU_TRY(ipu_graph_parse(ctx, nested, &graph));
    const ipu_block_data *block = ipu_block_of(graph, (ipu_block){0});
    ipu_value y = block->results.items[0];
    ipu_value xs[3] = {inner_read(graph, 0), block->params.items[1],
                       block->params.items[2]};
    ipu_value grads[3];
    ipu_passes_options passes = {.verify = true, .fuse = true};
    ipu_compile_options options = {.cpu = ipu_cpu_class_detect(), .verify = true};
    ipu_status status =
        ipu_gradients(ctx, graph, (ipu_block){0}, &y, NULL, 1, xs, 3, grads);
    if (status == IPU_STATUS_OUT_OF_MEMORY) {
        ipu_ctx_clear(ctx);
        status = ipu_gradients(ctx, graph, (ipu_block){0}, &y, NULL, 1, xs, 3, grads);
    }
    for (int i = 0; i < 3 && status == IPU_OK; i++) {
        status = ipu_graph_add_result(ctx, graph, (ipu_block){0}, grads[i]);
    }
    if (status == IPU_OK) {
        status = ipu_graph_verify(ctx, graph);
    }
    if (status == IPU_OK) {
        status = ipu_passes_run(ctx, graph, &passes);
    }
    if (status == IPU_OK) {
        status = ipu_program_create(ctx, graph, &options, out);
    }
    ipu_graph_free(ctx, graph);
    return status;
}

/* What the program gives and leaves in its variables; frees it. */
static void
run(ipu_ctx *ctx, ipu_program *program, float out[6][3])
{
    static const float start[2][3] = {{0.5f, -1.5f, 2}, {0.25f, 3, -0.75f}};
    static const float given[2][3] = {{1, -2, 0.5f}, {0.125f, 0.75f, -3}};
    const ipu_type type = {IPU_DTYPE_FLOAT32, {1, {3}}};
    int32_t turns = 3;
    const void *inputs[3] = {&turns, given[0], given[1]};
    void *outputs[4] = {out[0], out[1], out[2], out[3]};
    int64_t ids[2];
    ipu_device *device;
    ipu_executor *executor;
    CHECK_OK(ctx, ipu_device_create(ctx, 1, &device));
    for (int v = 0; v < 2; v++) {
        CHECK_OK(ctx, ipu_device_variable_add(ctx, device, &type, &ids[v]));
        CHECK_OK(ctx, ipu_device_variable_write(ctx, device, ids[v], start[v],
                                                sizeof(start[v])));
    }
    CHECK_OK(ctx, ipu_executor_create(ctx, program, device, NULL, &executor));
    CHECK_OK(ctx, ipu_executor_run(ctx, executor, inputs, outputs, NULL, NULL));
    for (int v = 0; v < 2; v++) {
        CHECK_OK(ctx, ipu_device_variable_read(ctx, device, ids[v], 0, out[4 + v],
                                               sizeof(out[4 + v])));
    }
    ipu_executor_free(ctx, executor);
    ipu_device_free(ctx, device);
    ipu_program_free(ctx, program);
}

/* A failure is told, or leaves a graph that still gives the same. */
static void
test_failing_allocations(void)
{
    static const float right[6][3] = {{0.2100347f, -0.7170391f, -4.6831862f},
                                      {0.1504049f, 0, -0.5612553f},
                                      {0.0225607f, 0, 0.7015691f},
                                      {1.4855382f, 0.9348025f, 1.583442f},
                                      {0.5f, -1.5f, 2},
                                      {0.5f, 4.5f, -6.75f}};
    float expected[6][3];
    long retried = 0;
    bool done = false;
    for (long fail_at = 0; !done; fail_at++) {
        counter c = {.heap = ipu_allocator_default(), .fail_at = fail_at};
        float found[6][3];
        ipu_ctx ctx;
        ipu_ctx_init(&ctx, (ipu_allocator){counted_resize, &c});
        ipu_program *program = NULL;
        ipu_status status = build(&ctx, &program);
        done = fail_at > 0 && c.count < fail_at;
        CHECK(status == IPU_OK || (!done && status == IPU_STATUS_OUT_OF_MEMORY));
        CHECK((status == IPU_OK) == (program != NULL) && ctx.status == status);
        if (program != NULL) {
            c.fail_at = 0;
            run(&ctx, program, fail_at == 0 ? expected : found);
            CHECK(fail_at == 0 || memcmp(found, expected, sizeof(found)) == 0);
            retried += !done;
        }
        CHECK(c.live == 0);
        CHECK(fail_at < 100000);
    }
    CHECK(retried > 50);
    for (int i = 0; i < 18; i++) {
        CHECK(fabsf(expected[i / 3][i % 3] - right[i / 3][i % 3]) < 1e-6f);
    }
}

/* What loops and branches give, those of the gradient included: each target has one sum,
 * and what is used twice is kept once. */
static void
test_counts(void)
{
    ipu_ctx ctx;
    ipu_graph *graph = NULL;
    ipu_value grads[2];
    uint32_t outputs = 0;
    ipu_ctx_init(&ctx, ipu_allocator_default());
    CHECK_OK(&ctx, ipu_graph_parse(&ctx, nested, &graph));
    const ipu_block_data *block = ipu_block_of(graph, (ipu_block){0});
    ipu_value xs[2] = {inner_read(graph, 1), block->params.items[2]};
    CHECK_OK(&ctx, ipu_gradients(&ctx, graph, (ipu_block){0}, block->results.items,
                                 NULL, 1, xs, 2, grads));
    for (uint32_t n = 0; n < graph->nodes.count; n++) {
        const ipu_node_data *node = ipu_node_of(graph, (ipu_node){n});
        outputs += ipu_node_holds_blocks(node) ? node->output_count : 0;
    }
    CHECK(outputs == 27);
    ipu_graph_free(&ctx, graph);
}

static ipu_instruction *
find(ipu_program *program, ipu_instruction_kind kind)
{
    for (size_t i = 0; i < program->streams.items[0].instructions.count; i++) {
        if (program->streams.items[0].instructions.items[i].kind == kind) {
            return &program->streams.items[0].instructions.items[i];
        }
    }
    CHECK(false);
    return NULL;
}

static void
refuse(ipu_program *program, const char *fragment)
{
    ipu_ctx ctx;
    ipu_ctx_init(&ctx, ipu_allocator_default());
    CHECK(ipu_program_verify(&ctx, program) == IPU_STATUS_INTERNAL);
    CHECK(strstr(ctx.message, fragment) != NULL);
    if (strstr(ctx.message, fragment) == NULL) {
        fprintf(stderr, "  %s\n", ctx.message);
    }
}

/* What a broken lowering could give is found. */
static void
test_program_verifier(void)
{
    ipu_ctx ctx;
    ipu_program *program = NULL;
    ipu_ctx_init(&ctx, ipu_allocator_default());
    CHECK_OK(&ctx, build(&ctx, &program));
    if (program == NULL) {
        return;
    }
    ipu_instruction *choose = find(program, IPU_INSTRUCTION_SWITCH);
    ipu_instruction *jump = find(program, IPU_INSTRUCTION_JUMP);
    ipu_instruction *test = find(program, IPU_INSTRUCTION_TEST);
    ipu_instruction *begin = find(program, IPU_INSTRUCTION_WHILE);
    CHECK_OK(&ctx, ipu_program_verify(&ctx, program));
    /* nothing is kept twice, or summed up twice, or moved to no end */
    CHECK(program->streams.items[0].instructions.count == 74);
    jump->target++;
    refuse(program, "does not end after its switch");
    jump->target--;
    choose->target = (int32_t)program->streams.items[0].instructions.count;
    refuse(program, "ends outside");
    choose->target = jump->target;
    choose->branch_count = 0;
    refuse(program, "without branches");
    choose->branch_count = 2;
    test->target--;
    refuse(program, "another loop");
    test->target++;
    begin->target--;
    refuse(program, "does not lead back");
    begin->target++;
    ipu_place place = test->inputs[0];
    ((ipu_place *)test->inputs)->offset += 1 << 20;
    refuse(program, "ends past the slab");
    *(ipu_place *)test->inputs = place;
    CHECK_OK(&ctx, ipu_program_verify(&ctx, program));
    /* what one branch alone writes cannot be read after the switch */
    ipu_instruction *last = jump - 1;
    ipu_instruction saved = *last;
    last->kind = IPU_INSTRUCTION_JUMP;
    last->target = jump->target;
    refuse(program, "");
    *last = saved;
    CHECK_OK(&ctx, ipu_program_verify(&ctx, program));
    ipu_program_free(&ctx, program);
}

static void
refuse_text(const char *text, const char *fragment)
{
    ipu_ctx ctx;
    ipu_graph *graph = NULL;
    ipu_ctx_init(&ctx, ipu_allocator_default());
    CHECK(ipu_graph_parse(&ctx, text, &graph) != IPU_OK);
    CHECK(strstr(ctx.message, fragment) != NULL);
    if (strstr(ctx.message, fragment) == NULL) {
        fprintf(stderr, "  %s\n", ctx.message);
    }
    ipu_graph_free(&ctx, graph);
}

static void
test_rules(void)
{
    refuse_text("block b0(%0: float32[]) { block b1() { } -> (%0)\n"
                "%1 = switch(%0) {branches=[b1]} : float32[] } -> (%1)",
                "branch index must be an int32 scalar");
    refuse_text("block b0(%0: int32[]) { %1 = switch(%0) : int32[] } -> (%1)",
                "there is no branch");
    refuse_text("block b0(%0: int32[], %1: float32[]) { block b1() { } -> (%0)\n"
                "block b2() { } -> (%1)\n"
                "%2 = switch(%0) {branches=[b1,b2]} : int32[] } -> (%2)",
                "result 0 is float32[] in branch 1, but int32[] in branch 0");
    refuse_text("block b0(%0: int32[]) { block b1(%1: int32[]) { } -> (%1)\n"
                "block b2(%2: int32[]) { } -> (%2)\n"
                "%3 = while(%0) {condition=b1, body=b2} : int32[] } -> (%3)",
                "must give a bool scalar, but gives int32[]");
    refuse_text("block b0(%0: int32[], %4: bool[]) { block b1() { } -> (%4)\n"
                "block b2(%2: int32[]) { } -> (%2)\n"
                "%3 = while(%0) {condition=b1, body=b2} : int32[] } -> (%3)",
                "whose condition takes 0");
    refuse_text(
        "block b0(%0: int32[], %4: bool[]) { block b1(%1: int32[]) { } -> (%4)\n"
        "block b2(%2: int32[]) { } -> (%4)\n"
        "%3 = while(%0) {condition=b1, body=b2} : int32[] } -> (%3)",
        "must keep its type: it enters as int32[] and leaves as bool[]");
    refuse_text("block b0(%0: int32[]) { block b1(%1: int32[]) { } -> (%1)\n"
                "%2 = repeat(%0, %0) {body=b1, maximum_iterations=-2} : int32[] } -> "
                "(%2)",
                "maximum_iterations is -2");
}

/* The values of one branch are not there in another one. */
static void
test_graph_verifier(void)
{
    ipu_ctx ctx;
    ipu_graph *graph = NULL;
    ipu_ctx_init(&ctx, ipu_allocator_default());
    CHECK_OK(&ctx, ipu_graph_parse(&ctx, nested, &graph));
    const ipu_block_data *main_block = ipu_block_of(graph, (ipu_block){0});
    const ipu_node_data *loop =
        ipu_node_of(graph, ipu_value_of(graph, main_block->results.items[0])->producer);
    CHECK(ipu_node_block_count(loop) == 2);
    const ipu_block_data *body = ipu_block_of(graph, ipu_node_block(loop, 1));
    const ipu_node_data *choose = ipu_node_of(graph, body->first);
    CHECK(choose->op == IPU_OP_ID_SWITCH);
    const ipu_block_data *first = ipu_block_of(graph, ipu_node_block(choose, 0));
    ipu_block_data *second = ipu_block_of(graph, ipu_node_block(choose, 1));
    CHECK(ipu_graph_is_inside(graph, ipu_node_block(choose, 1), body->first));
    ipu_value own = second->results.items[0];
    second->results.items[0] = first->results.items[0];
    CHECK(ipu_graph_verify(&ctx, graph) == IPU_STATUS_INTERNAL);
    CHECK(strstr(ctx.message, "not defined there") != NULL);
    ipu_ctx_clear(&ctx);
    second->results.items[0] = own;
    CHECK_OK(&ctx, ipu_graph_verify(&ctx, graph));
    ipu_graph_free(&ctx, graph);
}

int
main(void)
{
    test_failing_allocations();
    test_counts();
    test_program_verifier();
    test_rules();
    test_graph_verifier();
    return CHECK_DONE();
}
