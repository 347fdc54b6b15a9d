/* SPDX-License-Identifier: MIT
 *
 * Loops and branches through the rooms: their gradients with every allocation failing
 * once, and what the two verifiers refuse. */
#include <stdlib.h>
#include <string.h>

#include "autodiff/autodiff.h"
#include "check.h"
#include "passes/passes.h"
#include "program/program.h"

/* A branch in a loop in a loop, with a captured value and a counter. */
static const char *const nested =
    "block b0(%0: int32[], %1: float32[3], %2: float32[3]) {\n"
    "  %3 = constant() {dtype=int32, shape=[], value=0x00000000} : int32[]\n"
    "  %4 = constant() {dtype=int32, shape=[], value=0x01000000} : int32[]\n"
    "  block b1(%5: int32[], %6: float32[3]) {\n"
    "    %7 = less(%5, %0) : bool[]\n"
    "  } -> (%7)\n"
    "  block b2(%8: int32[], %9: float32[3]) {\n"
    "    block b3() {\n"
    "      %10 = mul(%9, %2) : float32[3]\n"
    "    } -> (%10)\n"
    "    block b4() {\n"
    "      block b5(%11: float32[3]) {\n"
    "        %12 = tanh(%11) : float32[3]\n"
    "        %13 = add(%12, %2) : float32[3]\n"
    "      } -> (%13)\n"
    "      %14 = repeat(%4, %9) {body=b5} : float32[3]\n"
    "    } -> (%14)\n"
    "    %15 = switch(%8) {branches=[b3,b4]} : float32[3]\n"
    "    %16 = add(%8, %4) : int32[]\n"
    "  } -> (%16, %15)\n"
    "  %17, %18 = while(%3, %1) {condition=b1, body=b2, maximum_iterations=4} : "
    "int32[], float32[3]\n"
    "} -> (%18)\n";

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

/* From text to a program with gradients. */
static ipu_status
build(ipu_ctx *ctx, ipu_program **out)
{
    ipu_graph *graph;
    IPU_TRY(ipu_graph_parse(ctx, nested, &graph));
    const ipu_block_data *block = ipu_block_of(graph, (ipu_block){0});
    ipu_value y = block->results.items[0];
    ipu_value xs[2] = {block->params.items[1], block->params.items[2]};
    ipu_value grads[2];
    ipu_passes_options passes = {.verify = true, .fuse = true};
    ipu_compile_options options = {.cpu = ipu_cpu_class_detect(), .verify = true};
    ipu_status status =
        ipu_gradients(ctx, graph, (ipu_block){0}, &y, NULL, 1, xs, 2, grads);
    for (int i = 0; i < 2 && status == IPU_OK; i++) {
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

static void
test_failing_allocations(void)
{
    bool done = false;
    for (long fail_at = 1; !done; fail_at++) {
        counter c = {.heap = ipu_allocator_default(), .fail_at = fail_at};
        ipu_ctx ctx;
        ipu_ctx_init(&ctx, (ipu_allocator){counted_resize, &c});
        ipu_program *program = NULL;
        ipu_status status = build(&ctx, &program);
        done = c.count < fail_at;
        CHECK(done ? status == IPU_OK : status == IPU_STATUS_OUT_OF_MEMORY);
        CHECK((status == IPU_OK) == (program != NULL));
        ipu_program_free(&ctx, program);
        CHECK(c.live == 0);
        CHECK(fail_at < 100000);
    }
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
    test_program_verifier();
    test_rules();
    test_graph_verifier();
    return CHECK_DONE();
}
