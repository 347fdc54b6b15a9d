/* SPDX-License-Identifier: MIT
 *
 * Lowering: what is copied and what is not, in the disassembly of small graphs;
 * programs spoilt on purpose, which the verifier must refuse; and random graphs with
 * nested loops, variables and queues, whose runs must agree with a direct interpreter
 * of the graph. */
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "program/program.h"
#include "run/executor.h"

static const ipu_compile_options options = {
    .variant = IPU_KERNEL_REFERENCE, .cpu = IPU_CPU_GENERIC, .verify = true};

static ipu_program *
compile(ipu_ctx *ctx, const char *text)
{
    ipu_graph *graph = NULL;
    ipu_program *program = NULL;
    CHECK_OK(ctx, ipu_graph_parse(ctx, text, &graph));
    if (graph != NULL) {
        CHECK_OK(ctx, ipu_program_create(ctx, graph, &options, &program));
    }
    ipu_graph_free(ctx, graph);
    return program;
}

static int
count_kind(const ipu_program *program, ipu_instruction_kind kind)
{
    int count = 0;
    for (size_t i = 0; i < program->streams.items[0].instructions.count; i++) {
        count += program->streams.items[0].instructions.items[i].kind == kind;
    }
    return count;
}

static const ipu_instruction *
find_kind(const ipu_program *program, ipu_instruction_kind kind, int which)
{
    for (size_t i = 0; i < program->streams.items[0].instructions.count; i++) {
        if (program->streams.items[0].instructions.items[i].kind == kind &&
            which-- == 0) {
            return &program->streams.items[0].instructions.items[i];
        }
    }
    return NULL;
}

/* --- what is copied --------------------------------------------------------------- */

static void
test_in_place(ipu_ctx *ctx)
{
    ipu_program *program = compile(ctx, "block b0(%0: float32[1000]) {\n"
                                        "  %1 = neg(%0) : float32[1000]\n"
                                        "  %2 = reshape(%1) {shape=[10,100]}"
                                        " : float32[10,100]\n"
                                        "  %3 = exp(%2) : float32[10,100]\n"
                                        "} -> (%3)\n");
    /* from the input into the output, and there in place */
    CHECK(program->streams.items[0].memory.slab_bytes == IPU_SLACK_BYTES);
    CHECK(program->streams.items[0].memory.peak_live_bytes == 0);
    CHECK(count_kind(program, IPU_INSTRUCTION_COPY) == 0);
    CHECK(count_kind(program, IPU_INSTRUCTION_KERNEL) == 2);
    ipu_program_free(ctx, program);

    /* x is needed after neg, and add must not write over a broadcast of its own
     * input */
    program = compile(ctx, "block b0(%0: float32[10,1]) {\n"
                           "  %1 = neg(%0) : float32[10,1]\n"
                           "  %2 = add(%0, %1) : float32[10,1]\n"
                           "  %3 = add(%2, %2) : float32[10,1]\n"
                           "  %4 = reshape(%3) {shape=[1,10]} : float32[1,10]\n"
                           "  %5 = add(%3, %4) : float32[10,10]\n"
                           "} -> (%5)\n");
    CHECK(count_kind(program, IPU_INSTRUCTION_KERNEL) == 4);
    const ipu_instruction *sum = find_kind(program, IPU_INSTRUCTION_KERNEL, 1);
    CHECK(sum->inputs[0].space == IPU_SPACE_INPUT);
    CHECK(sum->inputs[1].space == IPU_SPACE_SLAB);
    CHECK(sum->inputs[1].offset == sum->outputs[0].offset);
    sum = find_kind(program, IPU_INSTRUCTION_KERNEL, 2);
    CHECK(sum->inputs[0].offset != sum->outputs[0].offset);
    ipu_program_free(ctx, program);
}

static void
test_variables(ipu_ctx *ctx)
{
    /* read, then written: the first is used before the write alone, the second after */
    ipu_program *program =
        compile(ctx, "resource r0 variable id=0 \"v\" float32[8]\n"
                     "resource r1 variable id=1 \"unused\" float32[8]\n"
                     "resource r2 variable id=2 \"w\" float32[8]\n"
                     "block b0(%0: float32[8]) {\n"
                     "  %1 = variable_read() {resource=0} : float32[8]\n"
                     "  %2 = variable_read() {resource=2} : float32[8]\n"
                     "  %3 = add(%1, %0) : float32[8]\n"
                     "  variable_assign(%3) {resource=0}\n"
                     "  variable_add(%3) {resource=2}\n"
                     "  %4 = add(%2, %0) : float32[8]\n"
                     "} -> (%4)\n");
    CHECK(program->resources.count == 2);
    CHECK(program->resources.items[0].id == 0 && program->resources.items[1].id == 2);
    CHECK(count_kind(program, IPU_INSTRUCTION_COPY) == 1); /* w */
    const ipu_instruction *add = find_kind(program, IPU_INSTRUCTION_KERNEL, 0);
    CHECK(add->inputs[0].space == IPU_SPACE_VARIABLE && add->inputs[0].index == 0);
    const ipu_instruction *assign = find_kind(program, IPU_INSTRUCTION_KERNEL, 1);
    CHECK(assign->outputs[0].space == IPU_SPACE_VARIABLE);
    ipu_program_free(ctx, program);

    /* read before a loop that writes, used behind it; and a write from its own value */
    program = compile(ctx, "resource r0 variable id=0 \"v\" float32[8]\n"
                           "block b0(%0: int32[]) {\n"
                           "  %1 = variable_read() {resource=0} : float32[8]\n"
                           "  block b1(%2: float32[8]) {\n"
                           "    variable_assign(%2) {resource=0}\n"
                           "    %3 = neg(%2) : float32[8]\n"
                           "  } -> (%3)\n"
                           "  %4 = repeat(%0, %1) {body=b1} : float32[8]\n"
                           "  %5 = add(%4, %1) : float32[8]\n"
                           "  variable_add(%5) {resource=0}\n"
                           "  %6 = variable_read() {resource=0} : float32[8]\n"
                           "} -> (%6)\n");
    const ipu_instruction *copy = find_kind(program, IPU_INSTRUCTION_COPY, 0);
    CHECK(copy->inputs[0].space == IPU_SPACE_VARIABLE);
    CHECK(copy->outputs[0].space == IPU_SPACE_SLAB);
    copy = find_kind(program, IPU_INSTRUCTION_COPY, 2);
    CHECK(copy->inputs[0].space == IPU_SPACE_VARIABLE);
    CHECK(copy->outputs[0].space == IPU_SPACE_OUTPUT);
    CHECK(count_kind(program, IPU_INSTRUCTION_COPY) == 3);
    ipu_program_free(ctx, program);
}

/* Kernels work on copies of variables in remote memory, and take back what they wrote. */
static void
test_remote_variables(ipu_ctx *ctx)
{
    static const char *const words[] = {"", "remote "};
    ipu_program *program =
        compile(ctx, "resource r0 variable id=0 remote \"w\" float32[8]\n"
                     "block b0(%0: float32[8]) {\n"
                     "  %1 = variable_read() {resource=0} : float32[8]\n"
                     "  %2 = add(%0, %1) : float32[8]\n"
                     "} -> (%2)\n");
    const ipu_instruction *add = find_kind(program, IPU_INSTRUCTION_KERNEL, 0);
    CHECK(count_kind(program, IPU_INSTRUCTION_COPY) == 1);
    CHECK(add->inputs[1].space != IPU_SPACE_VARIABLE);
    ipu_program_free(ctx, program);
    for (int which = 0; which < 4; which++) { /* the variable, its slot, or both */
        char text[512];
        int count = which % 2 + which / 2;
        snprintf(text, sizeof(text),
                 "resource r0 variable id=0 %s\"w\" float32[8]\n"
                 "resource r1 variable id=1 %s\"slot\" float32[8]\n"
                 "block b0(%%0: float32[8], %%1: float32[]) {\n"
                 "  sgd_update(%%0, %%1) {resource=0, momentum=0.5, slots=[1]}\n"
                 "} -> ()\n",
                 words[which % 2], words[which / 2]);
        program = compile(ctx, text);
        CHECK(count_kind(program, IPU_INSTRUCTION_COPY) == 2 * count);
        const ipu_instruction *update = find_kind(program, IPU_INSTRUCTION_KERNEL, 0);
        for (int i = 0; i < count; i++) {
            const ipu_instruction *in = find_kind(program, IPU_INSTRUCTION_COPY, i);
            const ipu_instruction *back =
                find_kind(program, IPU_INSTRUCTION_COPY, count + i);
            uint32_t variable = which == 2 ? 1 : (uint32_t)i;
            CHECK(in < update && update < back);
            CHECK(in->inputs[0].space == IPU_SPACE_VARIABLE &&
                  in->inputs[0].index == variable);
            CHECK(memcmp(&in->outputs[0], &update->outputs[variable],
                         sizeof(ipu_place)) == 0);
            CHECK(memcmp(&back->inputs[0], &in->outputs[0], sizeof(ipu_place)) == 0);
            CHECK(memcmp(&back->outputs[0], &in->inputs[0], sizeof(ipu_place)) == 0);
        }
        ipu_program_free(ctx, program);
    }
}

/* One value twice, an input that is an output, an output that is used once more. */
static void
test_outputs(ipu_ctx *ctx)
{
    ipu_program *program = compile(ctx, "block b0(%0: float32[8]) {\n"
                                        "  %1 = neg(%0) : float32[8]\n"
                                        "  %2 = exp(%1) : float32[8]\n"
                                        "  %3 = sum(%2) {axes=[0], keep_dims=false}"
                                        " : float32[]\n"
                                        "} -> (%2, %0, %2, %3)\n");
    CHECK(count_kind(program, IPU_INSTRUCTION_COPY) == 2);
    const ipu_instruction *sum = find_kind(program, IPU_INSTRUCTION_KERNEL, 2);
    CHECK(sum->inputs[0].space == IPU_SPACE_OUTPUT && sum->inputs[0].index == 0);
    CHECK(sum->outputs[0].space == IPU_SPACE_OUTPUT && sum->outputs[0].index == 3);
    ipu_program_free(ctx, program);

    /* a byte is copied, nothing is not */
    program = compile(ctx, "block b0(%0: bool[], %1: float32[0]) {\n"
                           "} -> (%0, %1)\n");
    CHECK(count_kind(program, IPU_INSTRUCTION_COPY) == 1);
    CHECK(find_kind(program, IPU_INSTRUCTION_COPY, 0)->bytes == 1);
    ipu_program_free(ctx, program);
}

static void
test_constants(ipu_ctx *ctx)
{
    ipu_program *program =
        compile(ctx, "block b0() {\n"
                     "  %0 = constant() {dtype=int32, shape=[], value=0x05000000}"
                     " : int32[]\n"
                     "  %2 = constant() {dtype=int32, shape=[1], value=0x06000000}"
                     " : int32[1]\n"
                     "  %1 = constant() {dtype=int32, shape=[], value=0x05000000}"
                     " : int32[]\n"
                     "  %3 = add(%0, %1) : int32[]\n"
                     "  %4 = add(%3, %2) : int32[1]\n"
                     "  %5 = constant() {dtype=int32, shape=[0]} : int32[0]\n"
                     "  %6 = neg(%5) : int32[0]\n"
                     "} -> (%4, %1, %6)\n");
    CHECK(program->constant_bytes == 128);
    CHECK((uintptr_t)program->constants % 64 == 0);
    int32_t value;
    memcpy(&value, (const char *)program->constants + 64, sizeof(value));
    CHECK(value == 6);
    ipu_program_free(ctx, program);

    /* two of one hash; of hash 0, one that is the beginning of another one; one of hash
     * UINT64_MAX, twice */
    program = compile(ctx, "block b0() {\n"
                           "  %0 = constant() {dtype=int32, shape=[4], value=0x"
                           "4c428173642465db7a47ebc8642a274e} : int32[4]\n"
                           "  %1 = constant() {dtype=int32, shape=[4], value=0x"
                           "435c8243611f6934564897b524195d4c} : int32[4]\n"
                           "  %2 = constant() {dtype=int32, shape=[4], value=0x"
                           "d56bb953428708360000000000000000} : int32[4]\n"
                           "  %3 = constant() {dtype=int32, shape=[2], value=0x"
                           "d56bb95342870836} : int32[2]\n"
                           "  %4 = constant() {dtype=int32, shape=[4], value=0x"
                           "3e285522165c55018ce03757a99e0bd3} : int32[4]\n"
                           "  %5 = constant() {dtype=int32, shape=[2,2], value=0x"
                           "3e285522165c55018ce03757a99e0bd3} : int32[2,2]\n"
                           "} -> (%0, %1, %2, %3, %4, %5)\n");
    CHECK(program->constant_bytes == 5 * 64);
    const char *bytes = program->constants;
    CHECK(bytes[0] == 0x4c && bytes[64] == 0x43 && bytes[192] == bytes[128]);
    ipu_program_free(ctx, program);
}

/* Texts and types are the program's own, and what is on a line of the user's says so. */
static void
test_nothing_is_the_graph_s(ipu_ctx *ctx)
{
    static const char text[] = "resource r0 variable id=1 shared in 2 parts of"
                               " float32[8] \"w\" float32[4]\n"
                               "block b0(%0: float32[4]) {\n"
                               "  %1 = variable_read() {resource=0} : float32[4]\n"
                               "  %2 = exp(%1) : float32[4]\n"
                               "  %3 = neg(%2) : float32[4]\n"
                               "  %4 = add(%3, %0) : float32[4]\n"
                               "} -> (%4)\n";
    char file[] = "a.py", name[] = "sum", other[] = "b.py";
    ipu_source lines[3] = {{file, 7}, {NULL, 0}, {other, 9}};
    ipu_graph *graph;
    ipu_program *program;
    CHECK_OK(ctx, ipu_graph_parse(ctx, text, &graph));
    for (uint32_t i = 0; i < 3; i++) {
        graph->nodes.items[1 + i].placement.device = (int16_t)i;
        graph->nodes.items[1 + i].source = lines[i];
        graph->nodes.items[1 + i].name = i == 2 ? name : NULL;
    }
    CHECK_OK(ctx, ipu_program_create(ctx, graph, &options, &program));
    for (int i = 0; i < 3; i++) {
        const ipu_instruction *kernel = find_kind(program, IPU_INSTRUCTION_KERNEL, i);
        const char *kept = kernel->source.file;
        CHECK(kernel->placement.device == i);
        CHECK(kernel->source.line == lines[i].line);
        CHECK(kept == NULL ? lines[i].file == NULL
                           : kept != lines[i].file && strcmp(kept, lines[i].file) == 0);
        CHECK(i == 2 ? strcmp(kernel->name, name) == 0 : kernel->name == NULL);
    }
    CHECK(find_kind(program, IPU_INSTRUCTION_KERNEL, 2)->name != name);
    const ipu_resource *resource = &program->resources.items[0];
    CHECK(resource->name != graph->resources.items[0].name);
    CHECK(resource->types != graph->resources.items[0].types);
    CHECK(resource->whole != graph->resources.items[0].whole);
    CHECK(resource->whole->shape.dims[0] == 8);
    CHECK(strcmp(resource->name, "w") == 0);
    ipu_graph_free(ctx, graph);
    ipu_program_free(ctx, program);
}

static void
test_loops(ipu_ctx *ctx)
{
    /* in place around the loop: no copy but in */
    ipu_program *program = compile(ctx, "block b0(%0: int32[], %1: float32[8]) {\n"
                                        "  block b1(%2: float32[8]) {\n"
                                        "    %3 = neg(%2) : float32[8]\n"
                                        "    %4 = exp(%3) : float32[8]\n"
                                        "  } -> (%4)\n"
                                        "  %5 = repeat(%0, %1) {body=b1} : float32[8]\n"
                                        "} -> (%5)\n");
    CHECK(count_kind(program, IPU_INSTRUCTION_COPY) == 1);
    /* as many bytes are read as are written */
    CHECK(find_kind(program, IPU_INSTRUCTION_COPY, 0)->cost.bytes == 64.0);
    CHECK(program->streams.items[0].loop_count == 1);
    ipu_program_free(ctx, program);

    /* two values change places: three copies in the body; %1 enters twice: one copy */
    program = compile(ctx, "block b0(%0: int32[], %1: float32[8]) {\n"
                           "  block b1(%2: float32[8], %3: float32[8]) {\n"
                           "  } -> (%3, %2)\n"
                           "  %4, %5 = repeat(%0, %1, %1) {body=b1}"
                           " : float32[8], float32[8]\n"
                           "} -> (%4, %5)\n");
    const ipu_instruction *loop = find_kind(program, IPU_INSTRUCTION_LOOP, 0);
    CHECK(loop->target - (loop - program->streams.items[0].instructions.items) == 5);
    ipu_program_free(ctx, program);

    /* what does not change is not moved; nested loops share one buffer */
    program = compile(ctx, "block b0(%0: int32[], %1: float32[8], %2: float32[8]) {\n"
                           "  block b1(%3: float32[8], %4: float32[8]) {\n"
                           "    block b2(%5: float32[8]) {\n"
                           "      %6 = add(%5, %4) : float32[8]\n"
                           "    } -> (%6)\n"
                           "    %7 = repeat(%0, %3) {body=b2} : float32[8]\n"
                           "  } -> (%7, %4)\n"
                           "  %8, %9 = repeat(%0, %1, %2) {body=b1}"
                           " : float32[8], float32[8]\n"
                           "} -> (%8, %9)\n");
    CHECK(count_kind(program, IPU_INSTRUCTION_COPY) == 2);
    ipu_program_free(ctx, program);

    /* a body may write over what it reads for the last time, whatever comes next */
    static const char *const loops[] = {"repeat(%0, %2) {",
                                        "while(%2) {condition=b2, "};
    for (int i = 0; i < 2; i++) {
        char text[1024];
        snprintf(text, sizeof(text),
                 "block b0(%%0: int32[], %%1: float32[8], %%2: float32[8],"
                 " %%3: bool[]) {\n"
                 "  block b1(%%4: float32[8]) {\n"
                 "    %%5 = exp(%%4) : float32[8]\n"
                 "    %%6 = softmax(%%5) : float32[8]\n"
                 "  } -> (%%1)\n"
                 "  block b2(%%7: float32[8]) {\n"
                 "  } -> (%%3)\n"
                 "  %%8 = %sbody=b1} : float32[8]\n"
                 "} -> (%%8)\n",
                 loops[i]);
        program = compile(ctx, text);
        const ipu_instruction *exp = find_kind(program, IPU_INSTRUCTION_KERNEL, 0);
        CHECK(memcmp(exp->inputs, exp->outputs, sizeof(ipu_place)) == 0);
        ipu_program_free(ctx, program);
    }
}

/* What the condition reads, the body reads after it; what the condition makes is its
 * own. */
static void
test_condition(ipu_ctx *ctx)
{
    ipu_program *program =
        compile(ctx, "block b0(%0: float32[8], %1: float32[]) {\n"
                     "  block b1(%2: float32[8]) {\n"
                     "    %3 = exp(%2) : float32[8]\n"
                     "    %4 = neg(%3) : float32[8]\n"
                     "    %5 = max(%4) {axes=[0], keep_dims=false} : float32[]\n"
                     "    %6 = less(%5, %1) : bool[]\n"
                     "  } -> (%6)\n"
                     "  block b2(%7: float32[8]) {\n"
                     "    %8 = neg(%7) : float32[8]\n"
                     "  } -> (%8)\n"
                     "  %9 = while(%0) {condition=b1, body=b2} : float32[8]\n"
                     "} -> (%9)\n");
    char *text;
    size_t bytes;
    CHECK_OK(ctx, ipu_program_print(ctx, program, &text, &bytes));
    bool fits =
        strstr(text, "    0  copy    input[0] -> output[0], 32 bytes\n"
                     "    1  while   #0 -> 9\n"
                     "    2    kernel  exp.reference(output[0]) -> slab+0\n"
                     "    3    kernel  neg.reference(slab+0) -> slab+0\n"
                     "    4    kernel  max.rows_generic(slab+0) -> slab+64\n"
                     "    5    kernel  less.reference(slab+64, input[1]) -> slab+0\n"
                     "    6    test    #0 slab+0 -> 9\n"
                     "    7    kernel  neg.reference(output[0]) -> output[0]\n"
                     "    8  next    #0 -> 2\n") != NULL;
    CHECK(fits);
    if (!fits) {
        fputs(text, stderr);
    }
    ipu_free(ctx, text, bytes);
    ipu_program_free(ctx, program);
}

/* Only graphs that are made by hand name what nobody holds. The error is of the line
 * of the inner node. */
static void
test_held_by_nobody(ipu_ctx *ctx)
{
    static const struct {
        const char *attr;
        const char *said;
    } cases[] = {{", index=1", "no held tensor 1"},
                 {", index=-1", "no held tensor -1"},
                 {"", "no held tensor -1"}};
    static const ipu_held held = {"0123456789abcdef", 16};
    for (size_t i = 0; i < 3; i++) {
        char text[256];
        char file[] = "a.py";
        ipu_graph *graph;
        ipu_program *program = (ipu_program *)(void *)text;
        snprintf(text, sizeof(text),
                 "block b0(%%0: int32[]) {\n"
                 "  block b1() {\n"
                 "    %%1 = held() {dtype=int32, shape=[4]%s} : int32[4]\n"
                 "  } -> ()\n"
                 "  repeat(%%0) {body=b1}\n"
                 "} -> ()\n",
                 cases[i].attr);
        CHECK_OK(ctx, ipu_graph_parse(ctx, text, &graph));
        CHECK_OK(ctx, IPU_ARRAY_PUSH(ctx, &graph->held, held));
        for (uint32_t n = 0; n < 2; n++) {
            ipu_node_data *node = &graph->nodes.items[n];
            node->source = (ipu_source){file, node->op == IPU_OP_ID_HELD ? 7 : 9};
        }
        CHECK(ipu_program_create(ctx, graph, &options, &program) ==
              IPU_STATUS_INTERNAL);
        CHECK(program == NULL && strstr(ctx->message, cases[i].said) != NULL);
        CHECK(ctx->source.file == file && ctx->source.line == 7);
        ipu_ctx_clear(ctx);
        ipu_graph_free(ctx, graph);
    }
}

/* A graph is checked where that is asked for; a program has a number of its own. */
static void
test_verify(ipu_ctx *ctx)
{
    ipu_graph *graph;
    ipu_program *programs[2];
    ipu_compile_options blind = options;
    blind.verify = false;
    CHECK_OK(ctx, ipu_graph_parse(ctx,
                                  "host graph\n"
                                  "block b0(%0: float32[8]) {\n"
                                  "  %1 = neg(%0) : float32[8]\n"
                                  "} -> (%1)\n",
                                  &graph));
    CHECK_OK(ctx, ipu_program_create(ctx, graph, &options, &programs[0]));
    graph->nodes.items[0].op = IPU_OP_ID_LOGICAL_NOT;
    CHECK(ipu_program_create(ctx, graph, &options, &programs[1]) == IPU_STATUS_TYPE);
    ipu_ctx_clear(ctx);
    graph->nodes.items[0].op = IPU_OP_ID_NEG;
    graph->host = false;
    graph->values.items[1].type.shape.dims[0] = 9;
    CHECK(ipu_program_create(ctx, graph, &options, &programs[1]) ==
          IPU_STATUS_INTERNAL);
    ipu_ctx_clear(ctx);
    CHECK_OK(ctx, ipu_program_create(ctx, graph, &blind, &programs[1]));
    CHECK(programs[0]->is_host && !programs[1]->is_host);
    CHECK(programs[0]->id != programs[1]->id);
    ipu_program_free(ctx, programs[0]);
    ipu_program_free(ctx, programs[1]);
    ipu_graph_free(ctx, graph);
}

/* Kernels are guarded as the options say; one that looks up rows which another one has
 * looked at cannot fail before it; and who draws numbers says so. */
static void
test_kernels_know(ipu_ctx *ctx)
{
    static const char text[] = "block b0(%0: float32[4,3], %1: int32[5]) {\n"
                               "  %2 = gather(%0, %1) : float32[5,3]\n"
                               "  %3 = exp(%0) : float32[4,3]\n"
                               "  %4 = gather(%3, %1) : float32[5,3]\n"
                               "} -> (%2, %4)\n";
    ipu_program *program = compile(ctx, text);
    const ipu_kernel_spec *specs = program->specs.items;
    CHECK(specs[0].can_fail && !specs[0].fails_later && !specs[1].can_fail);
    CHECK(!specs[1].fails_later && specs[2].can_fail && specs[2].fails_later);
    CHECK(!program->uses_random);
    ipu_program_free(ctx, program);
    ipu_compile_options trapping = options;
    trapping.behaviour.traps_overflow = true;
    ipu_graph *graph;
    CHECK_OK(ctx, ipu_graph_parse(ctx, text, &graph));
    CHECK_OK(ctx, ipu_program_create(ctx, graph, &trapping, &program));
    CHECK(program->specs.items[1].can_fail);
    ipu_graph_free(ctx, graph);
    ipu_program_free(ctx, program);
    program =
        compile(ctx, "block b0() {\n"
                     "  %0 = random_normal() {shape=[3], dtype=float32, ordinal=0}"
                     " : float32[3]\n"
                     "} -> (%0)\n");
    CHECK(program->uses_random);
    ipu_program_free(ctx, program);
}

/* A body counts as often as its loop turns at most, or once where nobody knows. */
static void
test_cost(ipu_ctx *ctx)
{
    static const struct {
        const char *loops; /* that %20 comes from */
        double turns;
    } cases[] = {
        {"%20 = exp(%0) : float32[8]\n", 1.0},
        {"block b1(%4: float32[8]) {\n"
         "  block b2(%5: float32[8]) {\n"
         "    %6 = exp(%5) : float32[8]\n"
         "  } -> (%6)\n"
         "  %7 = repeat(%3, %4) {body=b2} : float32[8]\n"
         "  %8 = exp(%7) : float32[8]\n"
         "} -> (%8)\n"
         "%9 = repeat(%2, %0) {body=b1} : float32[8]\n"
         "%20 = exp(%9) : float32[8]\n",
         3.0 * (5.0 + 1.0) + 1.0},
        {"block b1(%4: float32[8]) {\n"
         "  %5 = exp(%4) : float32[8]\n"
         "} -> (%5)\n"
         "%20 = repeat(%1, %0) {body=b1} : float32[8]\n",
         1.0},
    };
    double flops[3];
    for (size_t i = 0; i < 3; i++) {
        char text[1024];
        snprintf(text, sizeof(text),
                 "block b0(%%0: float32[8], %%1: int32[]) {\n"
                 "%%2 = constant() {dtype=int32, shape=[], value=0x03000000}: int32[]\n"
                 "%%3 = constant() {dtype=int32, shape=[], value=0x05000000}: int32[]\n"
                 "%s} -> (%%20)\n",
                 cases[i].loops);
        ipu_program *program = compile(ctx, text);
        flops[i] = ipu_program_cost(program).flops;
        CHECK(flops[0] > 0.0 && flops[i] == cases[i].turns * flops[0]);
        CHECK(i > 0 || ipu_program_cost(program).bytes == 64.0);
        ipu_program_free(ctx, program);
    }
}

static void
test_infeed(ipu_ctx *ctx)
{
    /* %3 is used after the next dequeue, %4 is not */
    ipu_program *program = compile(ctx, "resource r0 infeed id=0 \"q\" float32[8]\n"
                                        "block b0(%0: int32[]) {\n"
                                        "  %3 = infeed_dequeue() {resource=0}"
                                        " : float32[8]\n"
                                        "  %4 = infeed_dequeue() {resource=0}"
                                        " : float32[8]\n"
                                        "  %5 = sub(%4, %3) : float32[8]\n"
                                        "} -> (%5)\n");
    const ipu_instruction *sub = find_kind(program, IPU_INSTRUCTION_KERNEL, 0);
    CHECK(sub->inputs[0].space == IPU_SPACE_INFEED);
    CHECK(sub->inputs[1].space ==
          IPU_SPACE_OUTPUT); /* a copy, where the result comes */
    CHECK(count_kind(program, IPU_INSTRUCTION_COPY) == 1);
    ipu_program_free(ctx, program);
}

/* An element counts as its bytes. */
static void
test_queue_costs(ipu_ctx *ctx)
{
    ipu_program *program =
        compile(ctx, "resource r0 infeed id=0 \"in\" float32[8], int32[3]\n"
                     "resource r1 outfeed id=1 \"out\" int32[3]\n"
                     "resource r2 host id=2 \"f\" float32[8], float32[4]\n"
                     "block b0() {\n"
                     "  %0, %1 = infeed_dequeue() {resource=0} : float32[8], int32[3]\n"
                     "  outfeed_enqueue(%1) {resource=1}\n"
                     "  %3 = exp(%0) : float32[8]\n"
                     "  %2 = host_call(%0) {resource=2} : float32[4]\n"
                     "} -> (%3, %2)\n");
    CHECK(find_kind(program, IPU_INSTRUCTION_HOST, 0)->outputs[0].index == 1);
    CHECK(find_kind(program, IPU_INSTRUCTION_DEQUEUE, 0)->cost.bytes == 44.0);
    CHECK(find_kind(program, IPU_INSTRUCTION_ENQUEUE, 0)->cost.bytes == 12.0);
    CHECK(find_kind(program, IPU_INSTRUCTION_HOST, 0)->cost.bytes == 48.0);
    ipu_program_free(ctx, program);
}

static void
test_print(ipu_ctx *ctx)
{
    ipu_program *program = compile(ctx, "block b0(%0: int32[]) {\n"
                                        "  block b1(%1: int32[]) {\n"
                                        "    %2 = add(%1, %0) : int32[]\n"
                                        "  } -> (%2)\n"
                                        "  %3 = repeat(%0, %0) {body=b1} : int32[]\n"
                                        "} -> (%3)\n");
    char *text;
    size_t bytes;
    CHECK_OK(ctx, ipu_program_print(ctx, program, &text, &bytes));
    const char *wanted =
        "program of 5 instructions\n"
        "constants 0 bytes, workspace 0 bytes\n"
        "input 0 int32[]\n"
        "output 0 int32[]\n"
        "slab 4096 bytes, peak live 0 bytes at 0\n"
        "    0  copy    input[0] -> output[0], 4 bytes\n"
        "    1  loop    #0 input[0] -> 4\n"
        "    2    kernel  add.reference(output[0], input[0]) -> output[0]\n"
        "    3  next    #0 -> 2\n"
        "    4  halt    \n";
    CHECK(strcmp(text, wanted) == 0);
    if (strcmp(text, wanted) != 0) {
        fputs(text, stderr);
    }
    ipu_free(ctx, text, bytes);
    ipu_program_free(ctx, program);
}

/* --- the verifier's teeth --------------------------------------------------------- */

static void
expect_wrong_at(ipu_ctx *ctx, const ipu_program *program, int line)
{
    ipu_status status = ipu_program_verify(ctx, program);
    CHECK(status == IPU_STATUS_INTERNAL);
    if (status != IPU_STATUS_INTERNAL) {
        fprintf(stderr, "  called from line %d\n", line);
    }
    ipu_ctx_clear(ctx);
}

#define expect_wrong(ctx, program) expect_wrong_at((ctx), (program), __LINE__)

static void
test_teeth(ipu_ctx *ctx)
{
    ipu_program *program = compile(ctx, "block b0(%0: int32[], %1: float32[8]) {\n"
                                        "  block b1(%2: float32[8]) {\n"
                                        "    %3 = exp(%2) : float32[8]\n"
                                        "    %4 = sum(%3) {axes=[0], keep_dims=true}"
                                        " : float32[1]\n"
                                        "    %5 = mul(%3, %4) : float32[8]\n"
                                        "    %6 = add(%5, %1) : float32[8]\n"
                                        "  } -> (%6)\n"
                                        "  %7 = repeat(%0, %1) {body=b1} : float32[8]\n"
                                        "} -> (%7)\n");
    CHECK_OK(ctx, ipu_program_verify(ctx, program));
    for (size_t i = 0; i < program->streams.items[0].instructions.count; i++) {
        ipu_instruction *instruction = &program->streams.items[0].instructions.items[i];
        ipu_instruction kept = *instruction;
        ipu_place place = {.space = IPU_SPACE_SLAB, .offset = 1 << 20};
        if (kept.input_count == 1) {
            instruction->inputs = &place;
            expect_wrong(ctx, program);
            place.offset = 4;
            expect_wrong(ctx, program);
            *instruction = kept;
        }
        if (kept.output_count == 1) {
            place = (ipu_place){.space = IPU_SPACE_CONSTANT};
            instruction->outputs = &place;
            expect_wrong(ctx, program);
            *instruction = kept;
        }
        if (kept.target != 0) {
            instruction->target += 1;
            expect_wrong(ctx, program);
            instruction->target = -5;
            expect_wrong(ctx, program);
            *instruction = kept;
        }
        instruction->kind = IPU_INSTRUCTION_COUNT;
        expect_wrong(ctx, program);
        *instruction = kept;
    }
    /* the body writes over %1, which it reads again in its next turn */
    ipu_instruction *sum =
        (ipu_instruction *)find_kind(program, IPU_INSTRUCTION_KERNEL, 1);
    const ipu_instruction *add = find_kind(program, IPU_INSTRUCTION_KERNEL, 3);
    const ipu_place *outputs = sum->outputs;
    ipu_place spoilt = add->inputs[1];
    sum->outputs = &spoilt;
    expect_wrong(ctx, program);
    sum->outputs = outputs;
    CHECK_OK(ctx, ipu_program_verify(ctx, program));
    ipu_program_free(ctx, program);
}

/* Who reads or writes a variable in panels has to know it. */
static void
test_layout_teeth(ipu_ctx *ctx)
{
    static const char text[] =
        "resource r0 variable id=1 \"unused\" float32[]\n"
        "resource r1 variable id=0 \"w\" float32[4,64]\n"
        "block b0(%0: float32[2,4], %1: float32[2,64], %2: float32[]) {\n"
        "  %3 = variable_read() {resource=1} : float32[4,64]\n"
        "  %4 = matmul(%0, %3) : float32[2,64]\n"
        "  matmul_sgd_update(%0, %1, %2) {transpose_a=true, resource=1}\n"
        "} -> (%4)\n";
    const ipu_compile_options portable = {.variant = IPU_KERNEL_PORTABLE,
                                          .cpu = IPU_CPU_GENERIC,
                                          .panels = IPU_PANELS_EVERYWHERE,
                                          .verify = true};
    ipu_graph *graph;
    ipu_program *program = NULL;
    CHECK_OK(ctx, ipu_graph_parse(ctx, text, &graph));
    CHECK_OK(ctx, ipu_program_create(ctx, graph, &portable, &program));
    ipu_graph_free(ctx, graph);
    CHECK(program != NULL && program->resources.items[0].panel_columns > 0);
    for (size_t i = 0; program != NULL && i < program->specs.count; i++) {
        ipu_kernel_panels kept = program->specs.items[i].panels;
        program->specs.items[i].panels = (ipu_kernel_panels){0};
        expect_wrong(ctx, program);
        program->specs.items[i].panels = kept;
    }
    CHECK_OK(ctx, ipu_program_verify(ctx, program));
    program->resources.items[0].panel_columns = 0;
    expect_wrong(ctx, program);
    ipu_program_free(ctx, program);
}

/* A variable in panels in place of one by rows: only who goes element by element may
 * use it so. */
static void
test_operands_in_panels(ipu_ctx *ctx)
{
    static const char text[] =
        "resource r0 variable id=0 \"w\" float32[4,64]\n"
        "resource r1 variable id=1 \"rows\" float32[4,64]\n"
        "resource r2 variable id=2 \"product\" float32[64,16]\n"
        "resource r3 variable id=3 \"factor\" float32[2,4]\n"
        "block b0(%0: float32[2,4], %1: float32[64,2], %2: float32[], %3: int32[1],\n"
        "         %4: float32[1,64], %5: float32[4,64], %12: float32[4,16],\n"
        "         %13: float32[2,64]) {\n"
        "  %6 = variable_read() {resource=0} : float32[4,64]\n"
        "  %8 = variable_read() {resource=1} : float32[4,64]\n"
        "  %14 = variable_read() {resource=3} : float32[2,4]\n"
        "  matmul_sgd_update(%14, %13, %2) {transpose_a=true, resource=0}\n"
        "  %7 = matmul(%0, %6) : float32[2,64]\n"
        "  %9 = matmul(%8, %1) : float32[4,2]\n"
        "  %10 = exp(%8) : float32[4,64]\n"
        "  %11 = softmax(%8) : float32[4,64]\n"
        "  matmul_sgd_update(%8, %12, %2) {transpose_a=true, resource=2}\n"
        "  gather_sgd_update(%3, %4, %2) {shape=[4,64], resource=1}\n"
        "  sgd_update(%5, %2) {resource=1}\n"
        "  %15 = matmul_accumulate(%5, %14, %13) {transpose_a=true} : float32[4,64]\n"
        "} -> (%7, %9, %10, %11, %15)\n";
    const ipu_compile_options portable = {.variant = IPU_KERNEL_PORTABLE,
                                          .cpu = IPU_CPU_GENERIC,
                                          .panels = IPU_PANELS_EVERYWHERE,
                                          .verify = true};
    ipu_graph *graph;
    ipu_program *program;
    int met = 0;
    bool is_copied = false;
    CHECK_OK(ctx, ipu_graph_parse(ctx, text, &graph));
    CHECK_OK(ctx, ipu_program_create(ctx, graph, &portable, &program));
    ipu_graph_free(ctx, graph);
    CHECK(program->resources.items[0].panel_columns > 0);
    CHECK(program->resources.items[1].panel_columns == 0);
    /* a copy of it, since it is written before the product, lies as it does */
    for (size_t i = 0; i < program->streams.items[0].instructions.count; i++) {
        const ipu_instruction *product =
            &program->streams.items[0].instructions.items[i];
        is_copied |= product->kind == IPU_INSTRUCTION_KERNEL &&
                     program->specs.items[product->spec].panels.right &&
                     product->inputs[1].space == IPU_SPACE_SLAB;
    }
    CHECK(is_copied);
    for (size_t i = 0; i + 1 < program->streams.items[0].instructions.count; i++) {
        const ipu_instruction *kernel =
            &program->streams.items[0].instructions.items[i];
        for (uint32_t k = 0; k < ipu_operand_count(kernel); k++) {
            ipu_place *place = (ipu_place *)ipu_operand_place(kernel, k);
            if (place->space != IPU_SPACE_VARIABLE || place->index != 1) {
                continue;
            }
            ipu_op op = program->specs.items[kernel->spec].op;
            place->index = 0;
            if (op == IPU_OP_ID_EXP || op == IPU_OP_ID_SGD_UPDATE) {
                CHECK_OK(ctx, ipu_program_verify(ctx, program));
            } else {
                expect_wrong(ctx, program);
            }
            place->index = 1;
            met++;
        }
    }
    CHECK(met == 6);
    /* what a product is added to is in panels where its result is; its factors are not */
    for (size_t i = 0; i + 1 < program->streams.items[0].instructions.count; i++) {
        const ipu_instruction *kernel =
            &program->streams.items[0].instructions.items[i];
        ipu_kernel_spec *spec = &program->specs.items[kernel->spec];
        if (kernel->kind != IPU_INSTRUCTION_KERNEL ||
            spec->op != IPU_OP_ID_MATMUL_ACCUMULATE) {
            continue;
        }
        *(ipu_place *)&kernel->inputs[0] = (ipu_place){.space = IPU_SPACE_VARIABLE};
        CHECK(kernel->inputs[1].space == IPU_SPACE_VARIABLE);
        expect_wrong(ctx, program);
        spec->panels.result = true;
        spec->panels.columns = program->resources.items[0].panel_columns;
        CHECK_OK(ctx, ipu_program_verify(ctx, program));
        met++;
    }
    CHECK(met == 7);
    program->resources.items[0].panel_columns++;
    expect_wrong(ctx, program);
    ipu_program_free(ctx, program);
}

/* --- random graphs against a direct interpreter ----------------------------------- */

/* All tensors are int32[4], or the same bytes as int32[2,2]. */
enum {
    ELEMENTS = 4,
    VARIABLES = 3,
    MOST_VALUES = 400,
    MOST_FED = 4000,
    MOST_OUT = 4000
};

typedef struct numbers {
    uint32_t at[ELEMENTS];
} numbers;

typedef struct world {
    numbers variables[VARIABLES];
    numbers fed[2][2]; /* components of the element that dequeue `n` gives: see feed */
    uint32_t dequeued;
    numbers *out;
    uint32_t out_count;
} world;

static const ipu_type vector = {IPU_DTYPE_INT32, {1, {ELEMENTS}}};
static const ipu_type scalar = {IPU_DTYPE_INT32, {0, {0}}};

typedef struct fuzz {
    ipu_ctx *ctx;
    ipu_graph *graph;
    uint64_t state;
    ipu_value scope[MOST_VALUES]; /* int32[4] in scope */
    size_t scope_count;
    ipu_value trips[4]; /* scalars of the main block */
    int32_t depth;
    int32_t budget;
} fuzz;

static uint32_t
pick(fuzz *f, uint32_t below)
{
    f->state = f->state * 6364136223846793005U + 1442695040888963407U;
    return (uint32_t)(f->state >> 33) % below;
}

static numbers
feed(uint32_t n, uint32_t component)
{
    numbers result;
    for (uint32_t i = 0; i < ELEMENTS; i++) {
        result.at[i] = n * 100 + component * 10 + i;
    }
    return result;
}

static ipu_value
some_value(fuzz *f)
{
    /* recent ones more often, so that values also die */
    uint32_t back =
        pick(f, 3) != 0 && f->scope_count > 4 ? 4 : (uint32_t)f->scope_count;
    return f->scope[f->scope_count - 1 - pick(f, back)];
}

static ipu_node
add_node(fuzz *f, ipu_block block, ipu_op op, const ipu_value *inputs, uint32_t count,
         const ipu_attr *attrs, uint32_t attr_count)
{
    ipu_node node = IPU_NO_NODE;
    ipu_node_request request = {.op = op, .attrs = attrs, .attr_count = attr_count};
    CHECK_OK(f->ctx, ipu_graph_add_node(f->ctx, f->graph, block, &request, inputs,
                                        count, &node));
    return node;
}

static void
keep(fuzz *f, ipu_value value)
{
    if (f->scope_count < MOST_VALUES) {
        f->scope[f->scope_count++] = value;
    }
}

static void
keep_outputs(fuzz *f, ipu_node node)
{
    const ipu_node_data *data = ipu_node_of(f->graph, node);
    for (uint32_t i = 0; i < data->output_count; i++) {
        keep(f, ipu_node_output(data, i));
    }
}

static void fill_block(fuzz *f, ipu_block block);

static void
add_loop(fuzz *f, ipu_block block)
{
    ipu_block body;
    ipu_value inputs[6];
    uint32_t carried = pick(f, 5);
    size_t scope_count = f->scope_count;
    CHECK_OK(f->ctx, ipu_graph_add_block(f->ctx, f->graph, block, &body));
    inputs[0] = f->trips[pick(f, 4)];
    for (uint32_t i = 0; i < carried; i++) {
        inputs[i + 1] = some_value(f);
    }
    for (uint32_t i = 0; i < carried; i++) {
        ipu_value param;
        CHECK_OK(f->ctx, ipu_graph_add_param(f->ctx, f->graph, body, &vector, &param));
        keep(f, param);
    }
    f->depth++;
    fill_block(f, body);
    f->depth--;
    for (uint32_t i = 0; i < carried; i++) {
        CHECK_OK(f->ctx, ipu_graph_add_result(f->ctx, f->graph, body, some_value(f)));
    }
    f->scope_count = scope_count;
    ipu_attr attr = {.key = IPU_ATTR_BODY, .as.i = body.index};
    keep_outputs(f,
                 add_node(f, block, IPU_OP_ID_REPEAT, inputs, carried + 1, &attr, 1));
}

static void
add_view(fuzz *f, ipu_block block)
{
    static const int64_t square[] = {2, 2};
    static const int64_t flat[] = {ELEMENTS};
    ipu_value value = some_value(f);
    if (pick(f, 2)) {
        keep_outputs(f, add_node(f, block, IPU_OP_ID_IDENTITY, &value, 1, NULL, 0));
        return;
    }
    ipu_attr to_square = {.key = IPU_ATTR_SHAPE, .count = 2, .as.ints = square};
    ipu_attr to_flat = {.key = IPU_ATTR_SHAPE, .count = 1, .as.ints = flat};
    ipu_node node = add_node(f, block, IPU_OP_ID_RESHAPE, &value, 1, &to_square, 1);
    value = ipu_node_output(ipu_node_of(f->graph, node), 0);
    keep_outputs(f, add_node(f, block, IPU_OP_ID_RESHAPE, &value, 1, &to_flat, 1));
}

static void
add_constant(fuzz *f, ipu_block block)
{
    static const int64_t flat[] = {ELEMENTS};
    numbers value = feed(pick(f, 5), 7);
    ipu_attr attrs[] = {{.key = IPU_ATTR_DTYPE, .as.i = IPU_DTYPE_INT32},
                        {.key = IPU_ATTR_SHAPE, .count = 1, .as.ints = flat},
                        {.key = IPU_ATTR_VALUE, .count = 16, .as.bytes = value.at}};
    keep_outputs(f, add_node(f, block, IPU_OP_ID_CONSTANT, NULL, 0, attrs, 3));
}

static void
add_something(fuzz *f, ipu_block block)
{
    static const ipu_op unary[] = {IPU_OP_ID_NEG, IPU_OP_ID_RELU, IPU_OP_ID_ABS};
    static const ipu_op binary[] = {IPU_OP_ID_ADD, IPU_OP_ID_SUB, IPU_OP_ID_MAXIMUM};
    ipu_value inputs[2] = {some_value(f), some_value(f)};
    ipu_attr resource = {.key = IPU_ATTR_RESOURCE, .as.i = pick(f, VARIABLES)};
    switch (pick(f, 12)) {
    case 0:
    case 1:
        keep_outputs(f, add_node(f, block, unary[pick(f, 3)], inputs, 1, NULL, 0));
        break;
    case 2:
    case 3:
    case 4:
        keep_outputs(f, add_node(f, block, binary[pick(f, 3)], inputs, 2, NULL, 0));
        break;
    case 5:
        add_view(f, block);
        break;
    case 6:
        add_constant(f, block);
        break;
    case 7:
        keep_outputs(
            f, add_node(f, block, IPU_OP_ID_VARIABLE_READ, NULL, 0, &resource, 1));
        break;
    case 8:
        add_node(f, block,
                 pick(f, 2) ? IPU_OP_ID_VARIABLE_ADD : IPU_OP_ID_VARIABLE_ASSIGN,
                 inputs, 1, &resource, 1);
        break;
    case 9:
        resource.as.i = VARIABLES;
        keep_outputs(
            f, add_node(f, block, IPU_OP_ID_INFEED_DEQUEUE, NULL, 0, &resource, 1));
        break;
    case 10:
        resource.as.i = VARIABLES + 1;
        add_node(f, block, IPU_OP_ID_OUTFEED_ENQUEUE, inputs, 1, &resource, 1);
        break;
    default:
        if (f->depth < 3) {
            add_loop(f, block);
        }
        break;
    }
}

static void
fill_block(fuzz *f, ipu_block block)
{
    uint32_t count = pick(f, f->depth == 0 ? 40 : 10);
    while (count-- > 0 && f->budget-- > 0) {
        add_something(f, block);
    }
}

static void
make_graph(fuzz *f, const int64_t *ids)
{
    ipu_type fed[2] = {vector, vector};
    uint32_t index;
    CHECK_OK(f->ctx, ipu_graph_create(f->ctx, false, &f->graph));
    for (uint32_t i = 0; i < VARIABLES + 2; i++) {
        ipu_resource resource = {
            .kind = i < VARIABLES    ? IPU_RESOURCE_VARIABLE
                    : i == VARIABLES ? IPU_RESOURCE_INFEED
                                     : IPU_RESOURCE_OUTFEED,
            .id = ids[i],
            .type_count = i == VARIABLES ? 2 : 1,
            .types = fed,
        };
        CHECK_OK(f->ctx, ipu_graph_add_resource(f->ctx, f->graph, &resource, &index));
    }
    ipu_block main_block = {0};
    for (uint32_t i = 0; i < 4; i++) {
        CHECK_OK(f->ctx, ipu_graph_add_param(f->ctx, f->graph, main_block, &scalar,
                                             &f->trips[i]));
    }
    for (uint32_t i = 0; i < 2; i++) {
        ipu_value param;
        CHECK_OK(f->ctx,
                 ipu_graph_add_param(f->ctx, f->graph, main_block, &vector, &param));
        keep(f, param);
    }
    fill_block(f, main_block);
    for (uint32_t i = 0; i < 4; i++) {
        CHECK_OK(f->ctx,
                 ipu_graph_add_result(f->ctx, f->graph, main_block, some_value(f)));
    }
}

static numbers
arithmetic(ipu_op op, numbers a, numbers b)
{
    numbers result;
    for (int i = 0; i < ELEMENTS; i++) {
        int32_t x = (int32_t)a.at[i];
        int32_t y = (int32_t)b.at[i];
        result.at[i] = op == IPU_OP_ID_NEG    ? 0U - a.at[i]
                       : op == IPU_OP_ID_RELU ? (x > 0 ? a.at[i] : 0)
                       : op == IPU_OP_ID_ABS  ? (x > 0 ? a.at[i] : 0U - a.at[i])
                       : op == IPU_OP_ID_ADD  ? a.at[i] + b.at[i]
                       : op == IPU_OP_ID_SUB  ? a.at[i] - b.at[i]
                                              : (x > y ? a.at[i] : b.at[i]);
    }
    return result;
}

static void interpret_block(const ipu_graph *graph, ipu_block id, numbers *values,
                            world *w);

static void
interpret_loop(const ipu_graph *graph, const ipu_node_data *node, numbers *values,
               world *w)
{
    numbers carried[6];
    ipu_block body = {(uint32_t)ipu_attrs_int(node->attrs, IPU_ATTR_BODY, 0)};
    const ipu_block_data *block = ipu_block_of(graph, body);
    for (uint32_t i = 0; i < node->output_count; i++) {
        carried[i] = values[node->inputs[i + 1].index];
    }
    int32_t trips = (int32_t)values[node->inputs[0].index].at[0];
    for (int32_t trip = 0; trip < trips; trip++) {
        for (uint32_t i = 0; i < node->output_count; i++) {
            values[block->params.items[i].index] = carried[i];
        }
        interpret_block(graph, body, values, w);
        for (uint32_t i = 0; i < node->output_count; i++) {
            carried[i] = values[block->results.items[i].index];
        }
    }
    for (uint32_t i = 0; i < node->output_count; i++) {
        values[ipu_node_output(node, i).index] = carried[i];
    }
}

static void
interpret_block(const ipu_graph *graph, ipu_block id, numbers *values, world *w)
{
    const ipu_block_data *block = ipu_block_of(graph, id);
    for (ipu_node n = block->first; ipu_is_node(n); n = ipu_node_next(graph, n)) {
        const ipu_node_data *node = ipu_node_of(graph, n);
        numbers *out =
            node->output_count > 0 ? &values[ipu_node_output(node, 0).index] : NULL;
        const numbers *in =
            node->input_count > 0 ? &values[node->inputs[0].index] : NULL;
        int64_t resource = ipu_attrs_int(node->attrs, IPU_ATTR_RESOURCE, 0);
        switch (node->op) {
        case IPU_OP_ID_REPEAT:
            interpret_loop(graph, node, values, w);
            break;
        case IPU_OP_ID_CONSTANT:
            memcpy(out, ipu_attrs_find(node->attrs, IPU_ATTR_VALUE)->as.bytes, 16);
            break;
        case IPU_OP_ID_IDENTITY:
        case IPU_OP_ID_RESHAPE:
            *out = *in;
            break;
        case IPU_OP_ID_VARIABLE_READ:
            *out = w->variables[resource];
            break;
        case IPU_OP_ID_VARIABLE_ASSIGN:
            w->variables[resource] = *in;
            break;
        case IPU_OP_ID_VARIABLE_ADD:
            w->variables[resource] =
                arithmetic(IPU_OP_ID_ADD, w->variables[resource], *in);
            break;
        case IPU_OP_ID_INFEED_DEQUEUE:
            out[0] = feed(w->dequeued, 0);
            out[1] = feed(w->dequeued, 1);
            w->dequeued++;
            break;
        case IPU_OP_ID_OUTFEED_ENQUEUE:
            if (w->out_count < MOST_OUT) {
                w->out[w->out_count] = *in;
            }
            w->out_count++;
            break;
        default:
            *out = arithmetic(node->op, *in,
                              values[node->inputs[node->input_count - 1].index]);
            break;
        }
    }
}

typedef struct rig {
    ipu_ctx *ctx;
    ipu_device *device;
    ipu_infeed *infeed;
    ipu_outfeed *outfeed;
    int64_t ids[VARIABLES + 2];
} rig;

static rig
make_rig(ipu_ctx *ctx, uint32_t elements)
{
    rig r = {.ctx = ctx};
    ipu_type fed[2] = {vector, vector};
    CHECK_OK(ctx, ipu_device_create(ctx, 1, &r.device));
    for (int i = 0; i < VARIABLES; i++) {
        numbers start = feed(1000, (uint32_t)i);
        CHECK_OK(ctx, ipu_device_variable_add(ctx, r.device, &vector, &r.ids[i]));
        CHECK_OK(ctx, ipu_device_variable_write(ctx, r.device, r.ids[i], start.at, 16));
    }
    CHECK_OK(ctx, ipu_infeed_create(ctx, fed, 2, (int32_t)elements + 1, 1, &r.infeed));
    for (uint32_t n = 0; n < elements; n++) {
        void *const *slot;
        CHECK_OK(ctx, ipu_infeed_acquire(ctx, r.infeed, &slot));
        for (uint32_t c = 0; c < 2; c++) {
            numbers value = feed(n, c);
            memcpy(slot[c], value.at, 16);
        }
        ipu_infeed_publish(r.infeed);
    }
    ipu_infeed_end(r.infeed, NULL);
    CHECK_OK(ctx, ipu_outfeed_create(ctx, fed, 1, IPU_OUTFEED_ALL, 4, &r.outfeed));
    CHECK_OK(ctx, ipu_device_infeed_add(ctx, r.device, r.infeed, &r.ids[VARIABLES]));
    CHECK_OK(ctx,
             ipu_device_outfeed_add(ctx, r.device, r.outfeed, &r.ids[VARIABLES + 1]));
    return r;
}

static void
free_rig(rig *r)
{
    ipu_device_free(r->ctx, r->device);
    ipu_infeed_free(r->ctx, r->infeed);
    ipu_outfeed_free(r->ctx, r->outfeed);
}

/* Runs the graph both ways; true where everything agrees. */
static bool
agree(fuzz *f, rig *r, world *w, numbers *values)
{
    ipu_program *program;
    ipu_executor *executor = NULL;
    numbers results[4];
    void *outputs[4] = {&results[0], &results[1], &results[2], &results[3]};
    const void *inputs[6];
    bool same = true;
    for (uint32_t i = 0; i < 6; i++) {
        inputs[i] =
            &values[ipu_block_of(f->graph, (ipu_block){0})->params.items[i].index];
    }
    CHECK_OK(f->ctx, ipu_program_create(f->ctx, f->graph, &options, &program));
    if (program == NULL) {
        return false;
    }
    CHECK_OK(f->ctx, ipu_executor_create(f->ctx, program, r->device, NULL, &executor));
    ipu_run_stats stats;
    CHECK_OK(f->ctx, ipu_executor_run(f->ctx, executor, inputs, outputs, NULL, &stats));
    CHECK(stats.allocations == 0);
    for (uint32_t i = 0; i < 4; i++) {
        ipu_value result = ipu_block_of(f->graph, (ipu_block){0})->results.items[i];
        same = same && memcmp(&results[i], &values[result.index], 16) == 0;
    }
    for (int i = 0; i < VARIABLES; i++) {
        numbers now;
        CHECK_OK(f->ctx,
                 ipu_device_variable_read(f->ctx, r->device, r->ids[i], 0, now.at, 16));
        same = same && memcmp(&now, &w->variables[i], 16) == 0;
    }
    static numbers taken[MOST_OUT];
    void *out[1] = {taken};
    int64_t count;
    CHECK_OK(f->ctx, ipu_outfeed_take(f->ctx, r->outfeed, MOST_OUT, 1, out, &count));
    same = same && count == w->out_count &&
           memcmp(taken, w->out, (size_t)count * sizeof(numbers)) == 0;
    if (!same) {
        char *text;
        size_t bytes;
        CHECK_OK(f->ctx, ipu_graph_print(f->ctx, f->graph, &text, &bytes));
        fputs(text, stderr);
        ipu_free(f->ctx, text, bytes);
        CHECK_OK(f->ctx, ipu_program_print(f->ctx, program, &text, &bytes));
        fputs(text, stderr);
        ipu_free(f->ctx, text, bytes);
    }
    ipu_executor_free(f->ctx, executor);
    ipu_program_free(f->ctx, program);
    return same;
}

static bool
try_random(ipu_ctx *ctx, uint64_t seed)
{
    static numbers out[MOST_OUT];
    fuzz f = {.ctx = ctx, .state = seed * 7919 + 1, .budget = 60};
    int64_t ids[VARIABLES + 2] = {0, 1, 2, 3, 4};
    make_graph(&f, ids);
    CHECK_OK(ctx, ipu_graph_verify(ctx, f.graph));
    numbers *values = calloc(f.graph->values.count, sizeof(numbers));
    const ipu_block_data *main_block = ipu_block_of(f.graph, (ipu_block){0});
    for (uint32_t i = 0; i < 4; i++) {
        values[main_block->params.items[i].index].at[0] = i; /* trips: 0, 1, 2, 3 */
    }
    values[main_block->params.items[4].index] = feed(77, 1);
    values[main_block->params.items[5].index] =
        arithmetic(IPU_OP_ID_NEG, feed(33, 5), feed(0, 0));
    world w = {.out = out};
    for (int i = 0; i < VARIABLES; i++) {
        w.variables[i] = feed(1000, (uint32_t)i);
    }
    interpret_block(f.graph, (ipu_block){0}, values, &w);
    bool same = true;
    if (w.dequeued <= MOST_FED && w.out_count <= MOST_OUT) {
        rig r = make_rig(ctx, w.dequeued);
        CHECK(memcmp(r.ids, ids, sizeof(ids)) == 0);
        same = agree(&f, &r, &w, values);
        free_rig(&r);
    }
    free(values);
    ipu_graph_free(ctx, f.graph);
    return same;
}

static void
test_random(ipu_ctx *ctx, uint64_t first, uint64_t count)
{
    for (uint64_t seed = first; seed < first + count; seed++) {
        bool same = try_random(ctx, seed);
        CHECK(same);
        if (!same || check_failures > 0) {
            fprintf(stderr, "seed %llu\n", (unsigned long long)seed);
            break;
        }
    }
}

int
main(int argc, char **argv)
{
    ipu_ctx ctx;
    ipu_ctx_init(&ctx, ipu_allocator_default());
    test_in_place(&ctx);
    test_variables(&ctx);
    test_remote_variables(&ctx);
    test_outputs(&ctx);
    test_constants(&ctx);
    test_nothing_is_the_graph_s(&ctx);
    test_loops(&ctx);
    test_condition(&ctx);
    test_held_by_nobody(&ctx);
    test_verify(&ctx);
    test_kernels_know(&ctx);
    test_cost(&ctx);
    test_infeed(&ctx);
    test_queue_costs(&ctx);
    test_print(&ctx);
    test_teeth(&ctx);
    test_layout_teeth(&ctx);
    test_operands_in_panels(&ctx);
    uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 0;
    test_random(&ctx, first, argc > 2 ? strtoull(argv[2], NULL, 10) : 400);
    return CHECK_DONE();
}
