/* SPDX-License-Identifier: MIT
 *
 * The rules of the program's checker, one by one: a field of a right program is spoilt,
 * and the error says what. What is just right on the other side of a limit is let by. */
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "program/program.h"

static ipu_ctx ctx;
static ipu_program *program; /* that is spoilt */
static ipu_region_choice regions = IPU_REGIONS_WHERE_FASTER;

static void
compile(const char *text, ipu_kernel_variant variant)
{
    const ipu_compile_options options = {
        .variant = variant, .cpu = IPU_CPU_GENERIC, .regions = regions, .verify = true};
    ipu_graph *graph;
    CHECK_OK(&ctx, ipu_graph_parse(&ctx, text, &graph));
    CHECK_OK(&ctx, ipu_program_create(&ctx, graph, &options, &program));
    ipu_graph_free(&ctx, graph);
}

static ipu_instruction *
code(size_t at)
{
    return &program->streams.items[0].instructions.items[at];
}

/* The number of the instruction of this kind, or of the kernel of this op. */
static size_t
find(ipu_instruction_kind kind, ipu_op op, int which)
{
    for (size_t i = 0; i < program->streams.items[0].instructions.count; i++) {
        bool fits =
            code(i)->kind == kind && (kind != IPU_INSTRUCTION_KERNEL ||
                                      program->specs.items[code(i)->spec].op == op);
        if (fits && which-- == 0) {
            return i;
        }
    }
    CHECK(false);
    exit(1);
}

#define KIND(kind, which) find(IPU_INSTRUCTION_##kind, 0, (which))
#define KERNEL(op) find(IPU_INSTRUCTION_KERNEL, IPU_OP_ID_##op, 0)

/* At which instruction it is refused, and why; NULL: it is not. */
static void
expect(const char *part, size_t at, int line)
{
    char place[40];
    ipu_status status = ipu_program_verify(&ctx, program);
    snprintf(place, sizeof(place), "instruction %zu of the program", at);
    bool fits = part == NULL
                    ? status == IPU_OK
                    : status == IPU_STATUS_INTERNAL &&
                          strstr(ctx.message, part) != NULL &&
                          (at == SIZE_MAX || strstr(ctx.message, place) != NULL);
    CHECK(fits);
    if (!fits) {
        fprintf(stderr, "  line %d: %s: %s\n", line, ipu_status_name(status),
                ctx.message);
    }
    ipu_ctx_clear(&ctx);
}

#define REFUSE(at, part) expect((part), (at), __LINE__)
#define ALLOW() expect(NULL, 0, __LINE__)

/* With another value of a field the program is refused, or not where `part` is NULL. */
#define SPOIL(type, field, value, at, part) \
    do { \
        type kept_ = (field); \
        (field) = (value); \
        expect((part), (at), __LINE__); \
        (field) = kept_; \
    } while (0)

#define OTHER_OPERANDS "other operands than instructions of its kind"

static ipu_place *
input(size_t at, uint32_t i)
{
    return (ipu_place *)&code(at)->inputs[i];
}

static ipu_place *
output(size_t at, uint32_t i)
{
    return (ipu_place *)&code(at)->outputs[i];
}

/* --- what an instruction names ---------------------------------------------------- */

static void
test_names(void)
{
    compile("resource r0 infeed id=0 \"in\" float32[8], int32[3]\n"
            "resource r1 outfeed id=1 \"out\" int32[3]\n"
            "resource r2 host id=2 \"f\" float32[8], float32[4]\n"
            "resource r3 infeed id=3 \"other\" float32[8], int32[3]\n"
            "block b0() {\n"
            "  %0, %1 = infeed_dequeue() {resource=0} : float32[8], int32[3]\n"
            "  outfeed_enqueue(%1) {resource=1}\n"
            "  %2 = host_call(%0) {resource=2} : float32[4]\n"
            "  %3, %4 = infeed_dequeue() {resource=3} : float32[8], int32[3]\n"
            "  %5 = exp(%3) : float32[8]\n"
            "} -> (%5, %2)\n",
            IPU_KERNEL_REFERENCE);
    size_t dequeue = KIND(DEQUEUE, 0);
    size_t enqueue = KIND(ENQUEUE, 0);
    size_t host = KIND(HOST, 0);
    size_t kernel = KERNEL(EXP);
    const char *queue = "a queue that does not exist";
    SPOIL(uint32_t, code(dequeue)->resource, 1, dequeue, queue);
    SPOIL(uint32_t, code(dequeue)->resource, 4, dequeue, queue);
    SPOIL(uint32_t, code(dequeue)->resource, 3, dequeue, "its tensors are misplaced");
    SPOIL(uint32_t, output(KIND(DEQUEUE, 1), 0)->index, 0, KIND(DEQUEUE, 1),
          "its tensors are misplaced");
    SPOIL(ipu_space, output(dequeue, 0)->space, IPU_SPACE_OUTPUT, dequeue,
          "its tensors are misplaced");
    SPOIL(uint32_t, code(enqueue)->resource, 0, enqueue, queue);
    SPOIL(uint32_t, code(enqueue)->resource, 4, enqueue, queue);
    SPOIL(uint32_t, code(host)->resource, 1, host, "a function that does not exist");
    SPOIL(uint32_t, code(host)->resource, 4, host, "a function that does not exist");
    SPOIL(uint32_t, code(kernel)->spec, 1, kernel, "it has no kernel");
    SPOIL(ipu_kernel_fn *, program->specs.items[0].run, NULL, kernel,
          "it has no kernel");
    SPOIL(size_t, program->specs.count, program->specs.count - 1, kernel,
          "it has no kernel");
    for (size_t at = 0; at <= kernel; at++) {
        if (code(at)->input_count > 0) {
            SPOIL(uint32_t, code(at)->input_count, code(at)->input_count - 1, at,
                  OTHER_OPERANDS);
        }
        if (code(at)->output_count > 0) {
            SPOIL(uint32_t, code(at)->output_count, code(at)->output_count - 1, at,
                  OTHER_OPERANDS);
        }
    }
    size_t bytes = program->workspace_bytes;
    SPOIL(size_t, program->specs.items[0].workspace_bytes, bytes, 0, NULL);
    SPOIL(size_t, program->specs.items[0].workspace_bytes, bytes + 1, kernel,
          "its workspace is too small");
    SPOIL(ipu_instruction_kind, code(kernel)->kind, IPU_INSTRUCTION_COUNT, kernel,
          "it is of no kind");
    SPOIL(ipu_instruction_kind, code(kernel)->kind, IPU_INSTRUCTION_HALT, kernel,
          OTHER_OPERANDS);
    SPOIL(uint32_t, input(kernel, 0)->index, 4, kernel,
          "an infeed's tensor does not exist");
    SPOIL(uint32_t, input(kernel, 0)->index, 3, kernel,
          "an infeed's tensor is not as the program says");
    SPOIL(ipu_space, output(kernel, 0)->space, IPU_SPACE_INFEED, kernel,
          "an infeed's tensor does not exist");
    ALLOW();
    ipu_program_free(&ctx, program);
}

/* --- where operands lie ----------------------------------------------------------- */

static void
test_places(void)
{
    compile("resource r0 variable id=0 \"v\" float32[8]\n"
            "resource r1 outfeed id=1 \"out\" float32[8]\n"
            "block b0(%0: float32[8], %1: float32[16]) {\n"
            "  %2 = constant() {dtype=float32, shape=[8], value=0x"
            "0000000000000000000000000000000000000000000000000000000000000000}"
            " : float32[8]\n"
            "  %3 = variable_read() {resource=0} : float32[8]\n"
            "  %4 = add(%0, %2) : float32[8]\n"
            "  %5 = mul(%4, %3) : float32[8]\n"
            "  %6 = softmax(%5) : float32[8]\n"
            "  %7 = sub(%6, %5) : float32[8]\n"
            "  %8 = exp(%1) : float32[16]\n"
            "} -> (%7, %8)\n",
            IPU_KERNEL_REFERENCE);
    size_t add = KERNEL(ADD);
    size_t softmax = KERNEL(SOFTMAX);
    size_t sub = KERNEL(SUB);
    ipu_place slab = *input(softmax, 0);
    ipu_place wide = *output(KERNEL(EXP), 0);
    size_t room = program->streams.items[0].memory.slab_bytes - IPU_SLACK_BYTES;
    CHECK(slab.space == IPU_SPACE_SLAB && wide.space == IPU_SPACE_OUTPUT);
#define PLACE(at_space, at_index, at_offset) \
    ((ipu_place){ \
        .space = IPU_SPACE_##at_space, .index = (at_index), .offset = (at_offset)})
#define IN(place, at, part) SPOIL(ipu_place, *input((at), 0), place, (at), part)
#define OUT(place, at, part) SPOIL(ipu_place, *output((at), 0), place, (at), part)
    OUT(PLACE(SLAB, 0, slab.offset + 4), sub, "in the slab is not aligned");
    OUT(PLACE(SLAB, 0, room), sub, "ends past the slab");
    OUT(PLACE(SLAB, 0, room + 64), sub, "ends past the slab");
    IN(PLACE(FOREIGN, 1, 0), add, "there is no such slab");
    IN(PLACE(FOREIGN, 0, 0), add, "runs at the same time");
    IN(PLACE(REMOTE, 1, 0), add, "no such remote memory");
    IN(PLACE(REMOTE, 0, 0), add, "it is not a copy, and uses remote memory");
    IN(PLACE(RING, 0, 0), add, "there is no such ring");
    IN(PLACE(CONSTANT, 0, 4), add, "a constant is not aligned");
    IN(PLACE(CONSTANT, 0, 64), add, "ends past the constants");
    IN(PLACE(CONSTANT, 0, 128), add, "ends past the constants");
    IN(PLACE(CONSTANT, 0, 0), add, NULL);
    OUT(PLACE(CONSTANT, 0, 0), add, "it writes a constant");
    IN(PLACE(HELD, 0, 0), add, "a held tensor is not as the program says");
    ipu_held held[3] = {{.bytes = 32}, {.bytes = 64}, {.bytes = 32}};
    program->held = held;
    program->held_count = 2;
    IN(PLACE(HELD, 0, 0), add, NULL);
    IN(PLACE(HELD, 1, 0), add, "a held tensor is not as the program says");
    IN(PLACE(HELD, 2, 0), add, "a held tensor is not as the program says");
    OUT(PLACE(HELD, 0, 0), add, "a held tensor is not as the program says");
    program->held_count = 0;
    IN(PLACE(INPUT, 1, 0), add, "an input is not as the program says");
    IN(PLACE(INPUT, 2, 0), add, "an input is not as the program says");
    OUT(PLACE(INPUT, 0, 0), add, "an input is not as the program says");
    OUT(PLACE(OUTPUT, 1, 0), sub, "an output is not as the program says");
    OUT(PLACE(OUTPUT, 2, 0), sub, "an output is not as the program says");
    IN(PLACE(VARIABLE, 0, 0), add, NULL);
    IN(PLACE(VARIABLE, 1, 0), add, "a variable is not as the program says");
    IN(PLACE(VARIABLE, 2, 0), add, "a variable is not as the program says");
    ipu_program_free(&ctx, program);
}

/* What ends where its space does, and what has no bytes. */
static void
test_the_last_byte(void)
{
    compile("block b0(%0: float32[16], %1: float32[0]) {\n"
            "  %2 = constant() {dtype=float32, shape=[16], value=0x"
            "00000000000000000000000000000000000000000000000000000000000000000000"
            "000000000000000000000000000000000000000000000000000000000000}"
            " : float32[16]\n"
            "  %3 = constant() {dtype=float32, shape=[0], value=0x} : float32[0]\n"
            "  %4 = add(%0, %2) : float32[16]\n"
            "  %5 = mul(%1, %3) : float32[0]\n"
            "} -> (%4, %5)\n",
            IPU_KERNEL_REFERENCE);
    size_t add = KERNEL(ADD);
    size_t mul = KERNEL(MUL);
    size_t room = program->streams.items[0].memory.slab_bytes - IPU_SLACK_BYTES;
    CHECK(input(mul, 1)->offset == 64 && program->constant_bytes == 64);
    ALLOW();
    OUT(PLACE(SLAB, 0, room), mul, NULL);
    OUT(PLACE(SLAB, 0, room + 64), mul, "ends past the slab");
    OUT(PLACE(SLAB, 0, room), add, "ends past the slab");
    program->streams.items[0].memory.slab_bytes += 64;
    OUT(PLACE(SLAB, 0, room), add, NULL);
    ipu_program_free(&ctx, program);
}

/* The last kernel writes where its input `over` lies, and reads its input 1 there, too,
 * if it is read twice. */
static void
test_overwriting(void)
{
    static const struct {
        const char *kernel; /* of %3, %4: float32[8,8], %5: int32[], %6: float32[1,8] */
        uint32_t over;
        bool is_read_twice;
        size_t moved; /* bytes after the input's */
        bool is_allowed;
    } cases[] = {
        {"sub(%3, %4)", 0, false, 0, true},
        {"sub(%3, %4)", 1, false, 0, true},
        {"sub(%3, %4)", 0, true, 0, false},
        {"sub(%3, %4)", 0, false, 64, false},
        {"sub(%3, %6)", 1, false, 0, false},
        {"matmul(%3, %4)", 0, false, 0, false},
        {"matmul(%3, %4)", 1, false, 0, false},
        {"dynamic_update_slice(%3, %4, %5, %5)", 0, false, 0, true},
        {"dynamic_update_slice(%3, %4, %5, %5)", 1, false, 0, false},
        {"select(%7, %3, %4)", 1, false, 0, true},
        {"select(%7, %3, %4)", 2, false, 0, true},
        {"select(%7, %3, %4)", 0, false, 0, false},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        char text[1024];
        snprintf(text, sizeof(text),
                 "block b0(%%0: float32[8,8], %%1: float32[8,8], %%2: float32[1,8],\n"
                 "         %%5: int32[]) {\n"
                 "  %%3 = exp(%%0) : float32[8,8]\n"
                 "  %%4 = exp(%%1) : float32[8,8]\n"
                 "  %%6 = exp(%%2) : float32[1,8]\n"
                 "  %%7 = less(%%0, %%1) : bool[8,8]\n"
                 "  %%8 = %s : float32[8,8]\n"
                 "  %%9 = log(%%8) : float32[8,8]\n"
                 "} -> (%%9)\n",
                 cases[i].kernel);
        compile(text, IPU_KERNEL_REFERENCE);
        program->streams.items[0].memory.slab_bytes += 256;
        size_t at = KERNEL(LOG) - 1;
        ipu_place place = *input(at, cases[i].over);
        place.offset += cases[i].moved;
        *output(at, 0) = place;
        *input(at + 1, 0) = place;
        if (cases[i].is_read_twice) {
            *input(at, 1) = place;
        }
        REFUSE(at, cases[i].is_allowed ? NULL : "shares memory with another operand");
        ipu_program_free(&ctx, program);
    }
}

/* It is the first output alone that may overwrite an input. */
static void
test_overwriting_by_another(void)
{
    compile("block b0(%0: float32[1,1,8], %1: float32[2,8], %2: float32[1,2]) {\n"
            "  %3 = exp(%0) : float32[1,1,8]\n"
            "  %4, %5, %6, %7, %8 = lstm(%3, %1, %2, %2) : float32[1,1,8], "
            "float32[1,1,2], float32[1,2], float32[1,2], float32[1,1,2]\n"
            "} -> (%6, %7)\n",
            IPU_KERNEL_REFERENCE);
    size_t lstm = KERNEL(LSTM);
    ipu_place x = *input(lstm, 0);
    ipu_place spare = x;
    spare.offset = program->streams.items[0].memory.slab_bytes - IPU_SLACK_BYTES;
    program->streams.items[0].memory.slab_bytes += 64;
    SPOIL(ipu_place, *output(lstm, 0), x, lstm, NULL);
    *output(lstm, 0) = spare;
    SPOIL(ipu_place, *output(lstm, 1), x, lstm, "shares memory with another operand");
    ALLOW();
    ipu_program_free(&ctx, program);
}

/* --- loops and branches ----------------------------------------------------------- */

static void
test_loops(void)
{
    compile("block b0(%0: int32[], %1: float32[8], %2: float32[]) {\n"
            "  block b1(%3: float32[8]) {\n"
            "    %4 = exp(%3) : float32[8]\n"
            "    block b2(%5: float32[8]) {\n"
            "      %6 = softmax(%5) : float32[8]\n"
            "    } -> (%6)\n"
            "    %7 = repeat(%0, %4) {body=b2} : float32[8]\n"
            "    %8 = mul(%4, %7) : float32[8]\n"
            "  } -> (%8)\n"
            "  %9 = repeat(%0, %1) {body=b1} : float32[8]\n"
            "  block b3(%10: float32[8]) {\n"
            "    %11 = max(%10) {axes=[0], keep_dims=false} : float32[]\n"
            "    %12 = less(%11, %2) : bool[]\n"
            "  } -> (%12)\n"
            "  block b4(%13: float32[8]) {\n"
            "    %14 = neg(%13) : float32[8]\n"
            "    %16 = min(%14) {axes=[0], keep_dims=false} : float32[]\n"
            "  } -> (%14)\n"
            "  %15 = while(%9) {condition=b3, body=b4} : float32[8]\n"
            "  %17 = sum(%15) {axes=[0], keep_dims=false} : float32[]\n"
            "} -> (%17)\n",
            IPU_KERNEL_REFERENCE);
    size_t loop = KIND(LOOP, 0);
    size_t inner = KIND(LOOP, 1);
    size_t inner_next = KIND(NEXT, 0);
    size_t next = KIND(NEXT, 1);
    size_t begin = KIND(WHILE, 0);
    size_t test = KIND(TEST, 0);
    size_t kernel = KERNEL(MUL);
    size_t sum = KERNEL(SUM);
    int32_t end = code(loop)->target;
    CHECK(code(next)->target == (int32_t)loop + 1 && end == (int32_t)next + 1);
    SPOIL(uint32_t, code(loop)->loop, program->streams.items[0].loop_count, loop,
          "a loop without a counter");
    SPOIL(int32_t, code(loop)->target, (int32_t)loop + 1, loop, "ends out of range");
    SPOIL(int32_t, code(loop)->target, (int32_t)loop, loop, "ends out of range");
    SPOIL(int32_t, code(loop)->target, (int32_t)loop + 2, loop, "does not lead back");
    SPOIL(int32_t, code(loop)->target, -1, loop, "ends outside the one around it");
    SPOIL(int32_t, code(inner)->target, end, inner, "ends outside the one around it");
    SPOIL(ipu_instruction_kind, code(next)->kind, IPU_INSTRUCTION_JUMP, loop,
          "does not lead back");
    SPOIL(uint32_t, code(next)->loop, code(inner)->loop, loop, "does not lead back");
    SPOIL(int32_t, code(next)->target, (int32_t)loop + 2, loop, "does not lead back");
    CHECK(code(loop)->is_step && code(begin)->is_step && !code(inner)->is_step);
    SPOIL(bool, code(next)->is_step, false, loop, "ends where it does not begin");
    SPOIL(bool, code(loop)->is_step, false, loop, "ends where it does not begin");
    code(inner)->is_step = code(inner_next)->is_step = true;
    REFUSE(inner, "a part of another one");
    code(loop)->is_step = code(next)->is_step = false;
    REFUSE(inner, "a part of another one");
    code(inner)->is_step = code(inner_next)->is_step = false;
    ALLOW();
    code(loop)->is_step = code(next)->is_step = true;
    SPOIL(uint32_t, code(test)->loop, code(loop)->loop, test, "leaves another loop");
    SPOIL(int32_t, code(test)->target, code(test)->target - 1, test,
          "leaves another loop");
    SPOIL(bool, code(test)->is_step, false, test, "leaves another loop");
    SPOIL(ipu_instruction, *code(kernel), *code(test), kernel, "it leaves no loop");
    ipu_instruction leaving = *code(test);
    leaving.inputs = code(sum)->inputs;
    SPOIL(ipu_instruction, *code(sum), leaving, sum, "it leaves no loop");
    SPOIL(ipu_instruction, *code(kernel), *code(next), kernel, "does not belong here");
    /* the body's own are not there after a loop that may not turn at all */
    ipu_place own = *output(KERNEL(EXP), 0);
    SPOIL(ipu_place, *input(KERNEL(MAX), 0), own, KERNEL(MAX), "is lost by then");
    /* what the body spoils, its next turn does not find */
    ipu_place carried = *output(KERNEL(NEG), 0);
    CHECK(carried.space == IPU_SPACE_SLAB);
    *input(KERNEL(MIN), 0) = (ipu_place){.space = IPU_SPACE_INPUT, .index = 1};
    SPOIL(ipu_place, *output(KERNEL(MIN), 0), carried, KERNEL(MAX), "is lost by then");
    ALLOW();
    ipu_program_free(&ctx, program);
}

static void
test_branches(void)
{
    compile("block b0(%0: int32[], %1: float32[8], %10: float32[]) {\n"
            "  block b1() {\n"
            "    %2 = exp(%1) : float32[8]\n"
            "    %11 = min(%2) {axes=[0], keep_dims=false} : float32[]\n"
            "  } -> (%2)\n"
            "  block b2() {\n"
            "    %3 = neg(%1) : float32[8]\n"
            "    %4 = softmax(%3) : float32[8]\n"
            "  } -> (%4)\n"
            "  block b3() {\n"
            "    %5 = abs(%1) : float32[8]\n"
            "    %8 = max(%5) {axes=[0], keep_dims=false} : float32[]\n"
            "  } -> (%5)\n"
            "  %6 = switch(%0) {branches=[b1,b2,b3]} : float32[8]\n"
            "  %7 = sum(%6) {axes=[0], keep_dims=false} : float32[]\n"
            "  %9 = rsqrt(%10) : float32[]\n"
            "} -> (%7, %9)\n",
            IPU_KERNEL_REFERENCE);
    size_t choose = KIND(SWITCH, 0);
    size_t jump = KIND(JUMP, 0);
    size_t exp = KERNEL(EXP);
    size_t sum = KERNEL(SUM);
    int32_t *branches = (int32_t *)code(choose)->branches;
    int32_t end = code(choose)->target;
    CHECK(code(jump)->target == end);
    SPOIL(uint32_t, code(choose)->branch_count, 0, choose, "without branches");
    SPOIL(int32_t, branches[0], branches[0] + 1, choose, "ends out of range");
    SPOIL(int32_t, code(choose)->target, (int32_t)choose, choose, "ends out of range");
    SPOIL(int32_t, code(choose)->target, -1, choose, "ends outside the block");
    SPOIL(int32_t, code(choose)->target, (int32_t)sum + 3, choose,
          "ends outside the block");
    SPOIL(int32_t, branches[1], branches[0], SIZE_MAX, "branches out of order");
    SPOIL(int32_t, branches[1], end + 1, SIZE_MAX, "branches out of order");
    SPOIL(int32_t, branches[2], end + 1, SIZE_MAX, "branches out of order");
    SPOIL(ipu_instruction_kind, code(jump)->kind, IPU_INSTRUCTION_TEST, SIZE_MAX,
          "does not end after its switch");
    SPOIL(int32_t, code(jump)->target, end - 1, SIZE_MAX,
          "does not end after its switch");
    SPOIL(ipu_instruction, *code(exp), *code(jump), exp, "does not belong here");
    /* what one branch alone has written is not there afterwards, nor in another one */
    ipu_place own = *output(KERNEL(NEG), 0);
    SPOIL(ipu_place, *input(sum, 0), own, sum, "is lost by then");
    SPOIL(ipu_place, *input(KERNEL(ABS), 0), own, KERNEL(ABS), "is lost by then");
    SPOIL(ipu_place, *input(KERNEL(NEG), 0), *output(exp, 0), KERNEL(NEG),
          "is lost by then");
    /* of what one branch writes as a whole and another one in part, there is the part */
    static const ipu_op parts[2][2] = {{IPU_OP_ID_EXP, IPU_OP_ID_MIN},
                                       {IPU_OP_ID_ABS, IPU_OP_ID_MAX}};
    ipu_place whole = *output(exp, 0);
    ipu_place spare = {.space = IPU_SPACE_SLAB,
                       .offset = program->streams.items[0].memory.slab_bytes -
                                 IPU_SLACK_BYTES};
    program->streams.items[0].memory.slab_bytes += 64;
    CHECK(whole.space == IPU_SPACE_SLAB);
    SPOIL(ipu_place, *output(KERNEL(SOFTMAX), 0), spare, sum, "is lost by then");
    for (int i = 0; i < 2; i++) {
        size_t maker = find(IPU_INSTRUCTION_KERNEL, parts[i][0], 0);
        size_t scalar = find(IPU_INSTRUCTION_KERNEL, parts[i][1], 0);
        ipu_place kept = *output(scalar, 0);
        *output(maker, 0) = *input(scalar, 0) = spare;
        *output(scalar, 0) = whole;
        REFUSE(sum, "is lost by then");
        *output(scalar, 0) = (ipu_place){.space = IPU_SPACE_OUTPUT, .index = 1};
        REFUSE(sum, "is lost by then");
        ipu_place read = *input(sum, 0);
        ipu_place other = *input(KERNEL(RSQRT), 0);
        *output(scalar, 0) = whole;
        *input(sum, 0) = *input(KERNEL(NEG), 0);
        *input(KERNEL(RSQRT), 0) = whole;
        ALLOW();
        *output(scalar, 0) = kept;
        REFUSE(KERNEL(RSQRT), "is lost by then");
        *output(maker, 0) = *input(scalar, 0) = whole;
        ALLOW();
        *input(sum, 0) = read;
        *input(KERNEL(RSQRT), 0) = other;
    }
    ALLOW();
    /* nor what the second of three branches does not write */
    ipu_place read = *input(KERNEL(RSQRT), 0);
    *output(KERNEL(MIN), 0) = spare;
    SPOIL(ipu_place, *input(KERNEL(NEG), 0), whole, KERNEL(NEG), "is lost by then");
    *output(KERNEL(NEG), 0) = whole;
    *input(KERNEL(SOFTMAX), 0) = (ipu_place){.space = IPU_SPACE_INPUT, .index = 1};
    *output(KERNEL(MAX), 0) = *input(KERNEL(RSQRT), 0) = spare;
    REFUSE(KERNEL(RSQRT), "is lost by then");
    /* one writes here alone, another one there */
    *input(KERNEL(RSQRT), 0) = read;
    *output(exp, 0) = *input(KERNEL(MIN), 0) = spare;
    *output(KERNEL(MIN), 0) = (ipu_place){.space = IPU_SPACE_OUTPUT, .index = 1};
    *output(KERNEL(ABS), 0) = *input(KERNEL(MAX), 0) = *input(sum, 0) = spare;
    *output(KERNEL(MAX), 0) = whole;
    REFUSE(sum, "is lost by then");
    ipu_program_free(&ctx, program);
}

/* Of two ranges with one end the smaller one is there after both branches. */
static void
test_ranges_of_one_end(void)
{
    static const int orders[2][2] = {{1, 2}, {2, 1}};
    for (int i = 0; i < 2; i++) {
        char text[1024];
        snprintf(text, sizeof(text),
                 "block b0(%%0: int32[], %%1: float32[32], %%2: float32[16]) {\n"
                 "  %%9 = tanh(%%2) : float32[16]\n"
                 "  block b1() {\n"
                 "    %%3 = exp(%%1) : float32[32]\n"
                 "    %%4 = max(%%3) {axes=[0], keep_dims=false} : float32[]\n"
                 "  } -> (%%4)\n"
                 "  block b2() {\n"
                 "    %%5 = neg(%%2) : float32[16]\n"
                 "    %%6 = min(%%5) {axes=[0], keep_dims=false} : float32[]\n"
                 "  } -> (%%6)\n"
                 "  %%7 = switch(%%0) {branches=[b%d,b%d]} : float32[]\n"
                 "  %%8 = abs(%%2) : float32[16]\n"
                 "} -> (%%7, %%8, %%9)\n",
                 orders[i][0], orders[i][1]);
        compile(text, IPU_KERNEL_REFERENCE);
        ipu_memory_report *memory = &program->streams.items[0].memory;
        ipu_place large = {.space = IPU_SPACE_SLAB,
                           .offset = memory->slab_bytes - IPU_SLACK_BYTES};
        ipu_place small = large;
        small.offset += 64;
        memory->slab_bytes += 128;
        *output(KERNEL(EXP), 0) = *input(KERNEL(MAX), 0) = large;
        *output(KERNEL(NEG), 0) = *input(KERNEL(MIN), 0) = small;
        *input(KERNEL(ABS), 0) = small;
        ALLOW();
        SPOIL(ipu_place, *input(KERNEL(NEG), 0), small, KERNEL(NEG), "is lost by then");
        small.offset = large.offset;
        SPOIL(ipu_place, *input(KERNEL(ABS), 0), small, KERNEL(ABS), "is lost by then");
        ipu_program_free(&ctx, program);
    }
}

static void
test_ends(void)
{
    compile("block b0() {\n"
            "} -> ()\n",
            IPU_KERNEL_REFERENCE);
    ALLOW();
    ipu_program_free(&ctx, program);
    compile("block b0(%0: int32[], %1: float32[8]) {\n"
            "  block b1() {\n"
            "    %2 = exp(%1) : float32[8]\n"
            "  } -> (%2)\n"
            "  %3 = switch(%0) {branches=[b1]} : float32[8]\n"
            "} -> (%3)\n",
            IPU_KERNEL_REFERENCE);
    ipu_stream *stream = &program->streams.items[0];
    size_t count = stream->instructions.count;
    ALLOW();
    SPOIL(size_t, stream->instructions.count, 0, SIZE_MAX, "does not end with halt");
    SPOIL(size_t, stream->instructions.count, count - 1, SIZE_MAX,
          "does not end with halt");
    SPOIL(uint32_t, stream->entry, (uint32_t)count, SIZE_MAX, "has no beginning");
    SPOIL(uint32_t, stream->entry, (uint32_t)count - 1, SIZE_MAX, NULL);
    SPOIL(size_t, stream->memory.slab_bytes, IPU_SLACK_BYTES, SIZE_MAX, NULL);
    SPOIL(size_t, stream->memory.slab_bytes, IPU_SLACK_BYTES - 1, SIZE_MAX,
          "has no slack");
    SPOIL(uint32_t, program->micro_batches, 0, SIZE_MAX, "have no micro-batch");
    ipu_program_free(&ctx, program);
}

/* --- collectives ------------------------------------------------------------------ */

static void
test_collectives(void)
{
    compile("block b0(%0: float32[8]) {\n"
            "  %1 = exp(%0) : float32[8]\n"
            "  %2 = all_reduce(%1) : float32[8]\n"
            "  %3 = tanh(%0) : float32[8]\n"
            "  %4 = tanh(%3) : float32[8]\n"
            "  %5 = add(%2, %4) : float32[8]\n"
            "  %6 = mul(%5, %1) : float32[8]\n"
            "} -> (%6)\n",
            IPU_KERNEL_REFERENCE);
    size_t post = KIND(POST, 0);
    size_t wait = KIND(WAIT, 0);
    size_t between = KERNEL(TANH);
    CHECK(post < between && between < wait);
    SPOIL(uint32_t, code(post)->spec_count, 0, post, "its collectives do not exist");
    SPOIL(uint32_t, code(post)->spec, (uint32_t)program->specs.count, post,
          "its collectives do not exist");
    SPOIL(uint32_t, code(post)->spec_count, (uint32_t)program->specs.count, post,
          "its collectives do not exist");
    SPOIL(uint32_t, code(post)->spec, (uint32_t)program->specs.count + 1, post,
          "its collectives do not exist");
    SPOIL(uint32_t, code(post)->spec_count, 2, post, OTHER_OPERANDS);
    SPOIL(uint32_t, code(post)->meeting, 1, post, "not among the program's");
    SPOIL(uint32_t, code(wait)->meeting, 1, wait, "what is not posted");
    SPOIL(uint32_t, code(wait)->spec, code(wait)->spec + 1, wait,
          "other operands than its post");
    SPOIL(uint32_t, code(wait)->spec_count, 2, wait, "other operands than its post");
    SPOIL(uint32_t, code(wait)->input_count, 0, wait, "other operands than its post");
    SPOIL(uint32_t, code(wait)->output_count, 0, wait, "other operands than its post");
    ipu_place given = *input(post, 0);
    ipu_place made = *output(post, 0);
    ipu_place other = {.space = IPU_SPACE_SLAB, .offset = given.offset + 64};
    code(wait)->inputs = &other;
    REFUSE(wait, "other operands than its post");
    code(wait)->inputs = &given;
    code(wait)->outputs = &other;
    REFUSE(wait, "other operands than its post");
    code(wait)->outputs = &made;
    ALLOW();
    const char *busy = "it uses what a collective is at";
    SPOIL(ipu_place, *output(between, 0), given, between, busy);
    SPOIL(ipu_place, *output(between, 0), made, between, busy);
    SPOIL(ipu_place, *input(between, 0), made, between, busy);
    SPOIL(ipu_place, *input(between, 0), given, between, NULL); /* it only reads it */
    SPOIL(ipu_instruction, *code(between), *code(post), between, busy);
    ipu_instruction again = *code(post);
    ipu_place spare = {.space = IPU_SPACE_SLAB,
                       .offset = program->streams.items[0].memory.slab_bytes -
                                 IPU_SLACK_BYTES};
    program->streams.items[0].memory.slab_bytes += 64;
    again.inputs = code(between)->inputs;
    again.outputs = &spare;
    SPOIL(ipu_instruction, *code(between), again, between,
          "a second time before it is over");
    SPOIL(ipu_instruction, *code(wait + 1), *code(wait), wait + 1,
          "what is not posted");
    ipu_instruction nothing = {.kind = IPU_INSTRUCTION_RESERVE,
                               .bytes = 32,
                               .outputs = &made,
                               .output_count = 1};
    SPOIL(ipu_instruction, *code(wait), nothing, wait, busy);
    *code(wait) = *code(wait + 1) = *code(wait + 2) = *code(wait - 1); /* no wait */
    REFUSE(program->streams.items[0].instructions.count - 1,
           "a block ends before a collective of it");
    ipu_program_free(&ctx, program);
}

/* Each collective of a POST may be made where its own operand lies. */
static void
test_collectives_in_place(void)
{
    compile("block b0(%0: float32[8], %1: float32[8]) {\n"
            "  %2 = exp(%0) : float32[8]\n"
            "  %3 = exp(%1) : float32[8]\n"
            "  %4 = all_reduce(%2) : float32[8]\n"
            "  %5 = all_reduce(%3) : float32[8]\n"
            "  %6 = add(%4, %5) : float32[8]\n"
            "} -> (%6)\n",
            IPU_KERNEL_REFERENCE);
    size_t post = KIND(POST, 0);
    const char *shared = "shares memory with another operand";
    CHECK(code(post)->spec_count == 2);
    for (uint32_t i = 0; i < 2; i++) {
        ipu_place own = *input(post, i);
        ipu_place other = *input(post, 1 - i);
        CHECK(memcmp(output(post, i), &own, sizeof(own)) == 0);
        SPOIL(ipu_place, *output(post, i), other, post, shared);
        SPOIL(ipu_place, *input(post, 1 - i), own, post, shared);
    }
    uint32_t last = code(post)->spec + 1;
    SPOIL(ipu_op, program->specs.items[last].op, IPU_OP_ID_MATMUL, post, shared);
    ipu_type *operand = (ipu_type *)program->specs.items[last].inputs;
    SPOIL(ipu_dtype, operand->dtype, IPU_DTYPE_INT32, post, shared);
    SPOIL(uint32_t, code(KIND(WAIT, 0))->input_count, 0, KIND(WAIT, 0),
          "other operands than its post");
    ALLOW();
    ipu_program_free(&ctx, program);
}

/* --- regions ---------------------------------------------------------------------- */

static void
test_regions(void)
{
    regions = IPU_REGIONS_EVERYWHERE;
    compile("block b0(%0: float32[8,64], %1: float32[8,64]) {\n"
            "  %2 = softmax(%0) : float32[8,64]\n"
            "  %3 = softmax(%2) : float32[8,64]\n"
            "} -> (%3)\n",
            IPU_KERNEL_FAST);
    regions = IPU_REGIONS_WHERE_FASTER;
    CHECK(program->streams.items[0].regions.count == 1);
    ipu_region *region = &program->streams.items[0].regions.items[0];
    ALLOW();
    SPOIL(int64_t, region->rows, region->rows + 1, region->first,
          "it has not the rows of its region");
    SPOIL(uint32_t, region->count, 100, region->first, "outside of the stream");
    ipu_program_free(&ctx, program);
}

int
main(void)
{
    ipu_ctx_init(&ctx, ipu_allocator_default());
    test_names();
    test_places();
    test_the_last_byte();
    test_overwriting();
    test_overwriting_by_another();
    test_loops();
    test_branches();
    test_ranges_of_one_end();
    test_ends();
    test_collectives();
    test_collectives_in_place();
    test_regions();
    return CHECK_DONE();
}
