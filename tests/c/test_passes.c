/* SPDX-License-Identifier: MIT
 *
 * Each pass alone on small graphs, compared as text; all together on larger graphs,
 * where the results before and after must be equal to the bit; loops and writes, which
 * passes must not move reads across; failed allocations. */
#include "passes/passes.h"

#include <stdint.h>

#include "autodiff/autodiff.h"
#include "check.h"
#include "evaluate.h"

#define F "float32"

static ipu_graph *
parse(ipu_ctx *ctx, const char *text)
{
    ipu_graph *graph = NULL;
    CHECK_OK(ctx, ipu_graph_parse(ctx, text, &graph));
    if (graph == NULL) {
        fprintf(stderr, "%s\n", text);
        exit(1);
    }
    return graph;
}

static size_t
count_op(const ipu_graph *graph, ipu_block id, ipu_op op)
{
    size_t count = 0;
    const ipu_block_data *block = ipu_block_of(graph, id);
    for (ipu_node id = block->first; ipu_is_node(id); id = ipu_node_next(graph, id)) {
        const ipu_node_data *node = ipu_node_of(graph, id);
        count += node->op == op;
        if ((ipu_op_info_of(node->op)->flags & IPU_OP_BLOCK) != 0) {
            ipu_block body = ipu_node_block(node, 0);
            count += count_op(graph, body, op);
        }
    }
    return count;
}

/* --- one pass: text to text
 * ----------------------------------------------------------- */

typedef struct text_case {
    const char *passes; /* names, separated by spaces */
    const char *before;
    const char *after;
} text_case;

#define CONST(x) "constant() {dtype=float32, shape=[], value=0x" x "} : float32[]\n"
#define ONE_F CONST("0000803f")
#define HALF_F CONST("0000003f")
#define ZERO_F CONST("00000000")
#define UPDATED \
    "resource r0 variable id=1 \"w\" float32[3,3]\n" \
    "resource r1 variable id=2 \"v\" float32[3,3]\n" \
    "resource r2 variable id=3 \"u\" float32[3,3]\n"
#define BLOCK "block b0"

static const char *const parts_text =
    "resource r0 variable id=1 \"w\" float32[3]\n"
    "resource r1 variable id=2 shared \"m\" float32[3]\n"
    "resource r2 variable id=3 shared \"v\" float32[3]\n"
    "block b0(%0: float32[3], %1: float32[], %2: int32[]) {"
    " %3 = all_reduce(%0) : float32[3] %4 = mul(%3, %1) : float32[3]"
    " adam_update(%4, %1, %2) {resource=0, slots=[1,2]} } -> ()";

static const text_case text_cases[] = {
    /* identities and stop_gradient go */
    {"canonicalise prune",
     BLOCK
     "(%0: float32[3]) { %1 = identity(%0) : float32[3]"
     " %2 = stop_gradient(%1) : float32[3] %3 = exp(%2) : float32[3] } -> (%3, %2)",
     BLOCK "(%0: float32[3]) {\n  %1 = exp(%0) : float32[3]\n} -> (%1, %0)\n"},
    /* reshape of reshape; back to where it was */
    {"canonicalise prune",
     BLOCK "(%0: float32[6]) { %1 = reshape(%0) {shape=[2,3]} : float32[2,3]"
           " %2 = reshape(%1) {shape=[3,2]} : float32[3,2]"
           " %3 = reshape(%2) {shape=[6]} : float32[6] } -> (%2, %3)",
     BLOCK "(%0: float32[6]) {\n  %1 = reshape(%0) {shape=[3,2]} : float32[3,2]\n"
           "} -> (%1, %0)\n"},
    /* transposes compose; moving ones is a reshape */
    {"canonicalise prune",
     BLOCK "(%0: float32[2,3,4]) { %1 = transpose(%0) {perm=[2,0,1]} : float32[4,2,3]"
           " %2 = transpose(%1) {perm=[1,0,2]} : float32[2,4,3]"
           " %3 = transpose(%2) {perm=[0,2,1]} : float32[2,3,4] } -> (%2, %3)",
     BLOCK "(%0: float32[2,3,4]) {\n"
           "  %1 = transpose(%0) {perm=[0,2,1]} : float32[2,4,3]\n} -> (%1, %0)\n"},
    {"canonicalise prune",
     BLOCK "(%0: float32[2,1,4]) { %1 = transpose(%0) {perm=[1,0,2]} : float32[1,2,4]"
           " } -> (%1)",
     BLOCK "(%0: float32[2,1,4]) {\n"
           "  %1 = reshape(%0) {shape=[1,2,4]} : float32[1,2,4]\n} -> (%1)\n"},
    /* x * 1, x / 1, x - 0 go; x + 0 does not (it changes -0); 1 of another shape stays
     */
    {"canonicalise prune",
     BLOCK "(%0: float32[3]) { %1 = " ONE_F "%2 = " ZERO_F
           "%3 = mul(%1, %0) : float32[3]"
           " %4 = div(%3, %1) : float32[3] %5 = sub(%4, %2) : float32[3]"
           " %6 = add(%5, %2) : float32[3] } -> (%6)",
     BLOCK "(%0: float32[3]) {\n  %1 = " ZERO_F "  %2 = add(%0, %1) : float32[3]\n"
           "} -> (%2)\n"},
    {"canonicalise prune",
     BLOCK "(%0: float32[]) { %1 = " ONE_F "%2 = broadcast(%1) {shape=[2]} : float32[2]"
           " %3 = mul(%0, %2) : float32[2] } -> (%3)",
     BLOCK "(%0: float32[]) {\n  %1 = broadcast(%0) {shape=[2]} : float32[2]\n"
           "} -> (%1)\n"},
    /* a sign that is lost, and what is done twice */
    {"canonicalise prune",
     BLOCK "(%0: float32[2]) { %1 = neg(%0) : float32[2] %2 = abs(%1) : float32[2]"
           " %3 = abs(%2) : float32[2] %4 = relu(%0) : float32[2]"
           " %5 = relu(%4) : float32[2] } -> (%3, %5)",
     BLOCK "(%0: float32[2]) {\n  %1 = abs(%0) : float32[2]\n"
           "  %2 = relu(%0) : float32[2]\n} -> (%1, %2)\n"},
    /* broadcasts go into element-wise ops, or behind them */
    {"canonicalise prune",
     BLOCK "(%0: float32[2,3], %1: float32[3]) {"
           " %2 = broadcast(%1) {shape=[2,3]} : float32[2,3]"
           " %3 = mul(%0, %2) : float32[2,3] %4 = exp(%2) : float32[2,3] } -> (%3, %4)",
     BLOCK "(%0: float32[2,3], %1: float32[3]) {\n"
           "  %2 = mul(%0, %1) : float32[2,3]\n  %3 = exp(%1) : float32[3]\n"
           "  %4 = broadcast(%3) {shape=[2,3]} : float32[2,3]\n} -> (%2, %4)\n"},
    {"canonicalise prune",
     BLOCK "(%0: float32[]) { %1 = broadcast(%0) {shape=[4]} : float32[4]"
           " %2 = reshape(%1) {shape=[2,2]} : float32[2,2] } -> (%2)",
     BLOCK "(%0: float32[]) {\n  %1 = broadcast(%0) {shape=[2,2]} : float32[2,2]\n"
           "} -> (%1)\n"},
    /* of a choice by the opposite, the other choice */
    {"canonicalise prune",
     BLOCK "(%0: bool[2], %1: float32[2], %2: float32[]) {"
           " %3 = logical_not(%0) : bool[2] %4 = select(%3, %1, %2) : float32[2]"
           " } -> (%4)",
     BLOCK "(%0: bool[2], %1: float32[2], %2: float32[]) {\n"
           "  %3 = select(%0, %2, %1) : float32[2]\n} -> (%3)\n"},
    /* one spelling of comparisons and of commuting operands */
    {"canonicalise merge prune",
     BLOCK "(%0: float32[2], %1: float32[2]) { %2 = greater(%0, %1) : bool[2]"
           " %3 = less(%1, %0) : bool[2] %4 = add(%0, %1) : float32[2]"
           " %5 = add(%1, %0) : float32[2] %6 = maximum(%0, %1) : float32[2]"
           " %7 = maximum(%1, %0) : float32[2] } -> (%2, %3, %4, %5, %6, %7)",
     BLOCK "(%0: float32[2], %1: float32[2]) {\n  %2 = less(%1, %0) : bool[2]\n"
           "  %3 = add(%0, %1) : float32[2]\n  %4 = maximum(%0, %1) : float32[2]\n"
           "  %5 = maximum(%1, %0) : float32[2]\n} -> (%2, %2, %3, %3, %4, %5)\n"},
    {"canonicalise prune",
     BLOCK "(%0: float32[2], %1: bool[2]) { %2 = neg(%0) : float32[2]"
           " %3 = neg(%2) : float32[2] %4 = logical_not(%1) : bool[2]"
           " %5 = logical_not(%4) : bool[2] %6 = cast(%3) {dtype=float32} : float32[2]"
           " %7 = max(%6) {axes=[]} : float32[2] %8 = concat(%7) {axis=0} : float32[2]"
           " %9 = slice(%8) {begin=[0], size=[2], strides=[1]} : float32[2]"
           " %10 = slice(%9) {begin=[1], size=[2], strides=[-1]} : float32[2]"
           " } -> (%9, %5, %10)",
     BLOCK "(%0: float32[2], %1: bool[2]) {\n"
           "  %2 = slice(%0) {begin=[1], size=[2], strides=[-1]} : float32[2]\n"
           "} -> (%0, %1, %2)\n"},
    /* folding, through views, to the literal */
    {"fold prune",
     BLOCK "() { %0 = " HALF_F "%1 = add(%0, %0) : float32[]"
           " %2 = reshape(%1) {shape=[1]} : float32[1] } -> (%2)",
     BLOCK "() {\n  %0 = constant() {dtype=float32, shape=[1], value=0x0000803f} : "
           "float32[1]\n} -> (%0)\n"},
    /* not what is random, nor what fails, nor broadcasts */
    {"fold prune",
     BLOCK "() { %0 = constant() {dtype=int32, shape=[], value=0x00000000} : int32[]"
           " %1 = floor_div(%0, %0) : int32[]"
           " %2 = broadcast(%0) {shape=[2]} : int32[2]"
           " %3 = random_uniform() {dtype=float32, shape=[], seed=0, ordinal=0} : "
           "float32[] } -> (%1, %2, %3)",
     BLOCK
     "() {\n  %0 = constant() {dtype=int32, shape=[], value=0x00000000} : int32[]\n"
     "  %1 = floor_div(%0, %0) : int32[]\n"
     "  %2 = broadcast(%0) {shape=[2]} : int32[2]\n"
     "  %3 = random_uniform() {dtype=float32, shape=[], seed=0, ordinal=0} : "
     "float32[]\n"
     "} -> (%1, %2, %3)\n"},
    /* chains merge; different attributes and random nodes do not */
    {"merge prune",
     BLOCK "(%0: float32[2,2]) { %1 = exp(%0) : float32[2,2]"
           " %2 = exp(%0) : float32[2,2] %3 = sum(%1) {axes=[0]} : float32[2]"
           " %4 = sum(%2) {axes=[0]} : float32[2] %5 = sum(%2) {axes=[1]} : float32[2]"
           " } -> (%3, %4, %5)",
     BLOCK "(%0: float32[2,2]) {\n  %1 = exp(%0) : float32[2,2]\n"
           "  %2 = sum(%1) {axes=[0]} : float32[2]\n"
           "  %3 = sum(%1) {axes=[1]} : float32[2]\n} -> (%2, %2, %3)\n"},
    /* reads merge until a write */
    {"merge prune",
     "resource r0 variable id=7 \"w\" float32[2]\n" BLOCK
     "(%0: float32[2]) { %1 = variable_read() {resource=0} : float32[2]"
     " %2 = variable_read() {resource=0} : float32[2] variable_assign(%0) {resource=0}"
     " %3 = variable_read() {resource=0} : float32[2] } -> (%1, %2, %3)",
     "resource r0 variable id=7 \"w\" float32[2]\n" BLOCK
     "(%0: float32[2]) {\n  %1 = variable_read() {resource=0} : float32[2]\n"
     "  variable_assign(%0) {resource=0}\n"
     "  %2 = variable_read() {resource=0} : float32[2]\n} -> (%1, %1, %2)\n"},
    /* a body that writes starts and ends a version; one that does not may use the outer
     * read */
    {"merge prune",
     "resource r0 variable id=7 \"w\" float32[]\n"
     "resource r1 variable id=8 \"u\" float32[]\n" BLOCK
     "(%0: int32[], %1: float32[]) { %2 = variable_read() {resource=0} : float32[]"
     " %3 = variable_read() {resource=1} : float32[]"
     " block b1(%4: float32[]) { %5 = variable_read() {resource=0} : float32[]"
     " %6 = variable_read() {resource=1} : float32[] %7 = add(%5, %6) : float32[]"
     " variable_assign(%7) {resource=0} } -> (%7)"
     " %8 = repeat(%0, %1) {body=b1} : float32[]"
     " %9 = variable_read() {resource=0} : float32[]"
     " %10 = variable_read() {resource=1} : float32[] } -> (%2, %3, %8, %9, %10)",
     "resource r0 variable id=7 \"w\" float32[]\n"
     "resource r1 variable id=8 \"u\" float32[]\n" BLOCK
     "(%0: int32[], %1: float32[]) {\n"
     "  %2 = variable_read() {resource=0} : float32[]\n"
     "  %3 = variable_read() {resource=1} : float32[]\n"
     "  block b1(%4: float32[]) {\n"
     "    %5 = variable_read() {resource=0} : float32[]\n"
     "    %6 = add(%5, %3) : float32[]\n"
     "    variable_assign(%6) {resource=0}\n  } -> (%6)\n"
     "  %7 = repeat(%0, %1) {body=b1} : float32[]\n"
     "  %8 = variable_read() {resource=0} : float32[]\n"
     "} -> (%2, %3, %7, %8, %3)\n"},
    /* what a block computes is not there outside of it */
    {"merge prune",
     BLOCK "(%0: int32[], %1: float32[]) {"
           " block b1(%2: float32[]) { %3 = exp(%1) : float32[] } -> (%3)"
           " %4 = repeat(%0, %1) {body=b1} : float32[] %5 = exp(%1) : float32[]"
           " } -> (%4, %5)",
     BLOCK "(%0: int32[], %1: float32[]) {\n"
           "  block b1(%2: float32[]) {\n    %3 = exp(%1) : float32[]\n  } -> (%3)\n"
           "  %4 = repeat(%0, %1) {body=b1} : float32[]\n"
           "  %5 = exp(%1) : float32[]\n} -> (%4, %5)\n"},
    /* pruning keeps effects and what they need, and loops with effects */
    {"prune",
     "resource r0 variable id=7 \"w\" float32[]\n" BLOCK
     "(%0: int32[], %1: float32[]) { %2 = exp(%1) : float32[] %3 = log(%1) : float32[]"
     " block b1(%4: float32[]) { variable_add(%2) {resource=0}"
     " %5 = tanh(%4) : float32[] } -> (%4)"
     " %6 = repeat(%0, %1) {body=b1} : float32[]"
     " block b2(%7: float32[]) { %8 = neg(%7) : float32[] } -> (%8)"
     " %9 = repeat(%0, %1) {body=b2} : float32[] } -> (%1)",
     "resource r0 variable id=7 \"w\" float32[]\n" BLOCK
     "(%0: int32[], %1: float32[]) {\n  %2 = exp(%1) : float32[]\n"
     "  block b1() {\n    variable_add(%2) {resource=0}\n  } -> ()\n"
     "  repeat(%0) {body=b1}\n} -> (%1)\n"},
    /* a layer */
    {"fuse prune",
     BLOCK "(%0: float32[4,3], %1: float32[3,5], %2: float32[5]) {"
           " %3 = matmul(%0, %1) {transpose_a=false, transpose_b=false} : float32[4,5]"
           " %4 = add(%3, %2) : float32[4,5] %5 = relu(%4) : float32[4,5] } -> (%5)",
     BLOCK "(%0: float32[4,3], %1: float32[3,5], %2: float32[5]) {\n"
           "  %3 = fused_matmul(%0, %1, %2) {transpose_a=false, transpose_b=false, "
           "activation=1} : float32[4,5]\n} -> (%3)\n"},
    /* the sum is used twice: the activation stays outside; bias on the left */
    {"fuse prune",
     BLOCK "(%0: float32[4,3], %1: float32[5,3], %2: float32[5]) {"
           " %3 = matmul(%0, %1) {transpose_b=true} : float32[4,5]"
           " %4 = add(%2, %3) : float32[4,5] %5 = tanh(%4) : float32[4,5]"
           " } -> (%5, %4)",
     BLOCK "(%0: float32[4,3], %1: float32[5,3], %2: float32[5]) {\n"
           "  %3 = fused_matmul(%0, %1, %2) {transpose_a=false, transpose_b=true, "
           "activation=0} : float32[4,5]\n  %4 = tanh(%3) : float32[4,5]\n"
           "} -> (%4, %3)\n"},
    /* no bias; and something that is none */
    {"fuse prune",
     BLOCK "(%0: float32[4,3], %1: float32[3,5], %2: float32[4,1]) {"
           " %3 = matmul(%0, %1) : float32[4,5] %4 = sigmoid(%3) : float32[4,5]"
           " %5 = matmul(%0, %1) : float32[4,5] %6 = add(%5, %2) : float32[4,5]"
           " } -> (%4, %6)",
     BLOCK "(%0: float32[4,3], %1: float32[3,5], %2: float32[4,1]) {\n"
           "  %3 = fused_matmul(%0, %1) {transpose_a=false, transpose_b=false, "
           "activation=3} : float32[4,5]\n"
           "  %4 = matmul(%0, %1) : float32[4,5]\n  %5 = add(%4, %2) : float32[4,5]\n"
           "} -> (%3, %5)\n"},
    /* two gradients and their updates: past the write of another variable */
    {"fuse prune",
     UPDATED BLOCK "(%0: float32[4,3], %1: float32[4,3], %2: float32[]) {"
                   " %3 = matmul(%0, %1) {transpose_a=true} : float32[3,3]"
                   " %4 = matmul(%1, %0) {transpose_a=true} : float32[3,3]"
                   " sgd_update(%3, %2) {resource=0, momentum=0.5, slots=[1]}"
                   " sgd_update(%4, %2) {resource=2} } -> ()",
     UPDATED BLOCK
     "(%0: float32[4,3], %1: float32[4,3], %2: float32[]) {\n"
     "  matmul_sgd_update(%0, %1, %2) {transpose_a=true, transpose_b=false, resource=0,"
     " momentum=0.5, nesterov=false, slots=[1]}\n"
     "  matmul_sgd_update(%1, %0, %2) {transpose_a=true, transpose_b=false, resource=2,"
     " momentum=0, nesterov=false}\n} -> ()\n"},
    /* rows of a variable, along its first axis alone */
    {"fuse prune",
     UPDATED BLOCK "(%0: int32[5], %1: float32[5,3], %2: float32[], %3: float32[3,5]) {"
                   " %4 = gather_grad(%0, %1) {shape=[3,3]} : float32[3,3]"
                   " %5 = gather_grad(%0, %3) {axis=1, shape=[3,3]} : float32[3,3]"
                   " sgd_update(%4, %2) {resource=0, momentum=0.5, slots=[1]}"
                   " sgd_update(%5, %2) {resource=2} } -> ()",
     UPDATED BLOCK
     "(%0: int32[5], %1: float32[5,3], %2: float32[], %3: float32[3,5]) {\n"
     "  %4 = gather_grad(%0, %3) {axis=1, shape=[3,3]} : float32[3,3]\n"
     "  gather_sgd_update(%0, %1, %2) {shape=[3,3], resource=0, momentum=0.5,"
     " nesterov=false, slots=[1]}\n"
     "  sgd_update(%4, %2) {resource=2}\n} -> ()\n"},
    /* not of what a write in between would change, nor where it is used again */
    {"fuse prune",
     UPDATED BLOCK "(%0: float32[4,3], %1: float32[3,3], %2: float32[]) {"
                   " %3 = variable_read() {resource=2} : float32[3,3]"
                   " %4 = matmul(%3, %1) : float32[3,3]"
                   " matmul_sgd_update(%1, %1, %2) {resource=2}"
                   " sgd_update(%4, %2) {resource=0, momentum=0.5, slots=[1]} } -> ()",
     UPDATED BLOCK "(%0: float32[4,3], %1: float32[3,3], %2: float32[]) {\n"
                   "  %3 = variable_read() {resource=2} : float32[3,3]\n"
                   "  %4 = matmul(%3, %1) : float32[3,3]\n"
                   "  matmul_sgd_update(%1, %1, %2) {resource=2}\n"
                   "  sgd_update(%4, %2) {resource=0, momentum=0.5, slots=[1]}\n"
                   "} -> ()\n"},
    {"fuse prune",
     UPDATED BLOCK "(%0: float32[3,3], %1: float32[]) {"
                   " %2 = matmul(%0, %0) : float32[3,3]"
                   " sgd_update(%2, %1) {resource=2} } -> (%2)",
     UPDATED BLOCK "(%0: float32[3,3], %1: float32[]) {\n"
                   "  %2 = matmul(%0, %0) : float32[3,3]\n"
                   "  sgd_update(%2, %1) {resource=2}\n} -> (%2)\n"},
    /* a product goes into what the loop carries, from either side, past a write */
    {"fuse prune",
     UPDATED BLOCK "(%0: int32[], %1: float32[4,3], %2: float32[3,3]) {"
                   " block b1(%3: float32[3,3], %4: float32[3,3]) {"
                   " %5 = matmul(%1, %1) {transpose_a=true} : float32[3,3]"
                   " %6 = matmul(%2, %2) {transpose_b=true} : float32[3,3]"
                   " variable_assign(%2) {resource=2}"
                   " %7 = add(%3, %5) : float32[3,3]"
                   " %8 = add(%6, %4) : float32[3,3] } -> (%7, %8)"
                   " %9, %10 = repeat(%0, %2, %2) {body=b1}"
                   " : float32[3,3], float32[3,3] } -> (%9, %10)",
     UPDATED BLOCK "(%0: int32[], %1: float32[4,3], %2: float32[3,3]) {\n"
                   "  block b1(%3: float32[3,3], %4: float32[3,3]) {\n"
                   "    variable_assign(%2) {resource=2}\n"
                   "    %5 = matmul_accumulate(%3, %1, %1) {transpose_a=true, "
                   "transpose_b=false} : float32[3,3]\n"
                   "    %6 = matmul_accumulate(%4, %2, %2) {transpose_a=false, "
                   "transpose_b=true} : float32[3,3]\n"
                   "  } -> (%5, %6)\n"
                   "  %7, %8 = repeat(%0, %2, %2) {body=b1}"
                   " : float32[3,3], float32[3,3]\n} -> (%7, %8)\n"},
    /* not where the sum of before is still needed, where it is broadcast, or where the
     * product is needed too */
    {"fuse prune",
     BLOCK "(%0: int32[], %1: float32[3,3], %2: float32[3]) {"
           " block b1(%3: float32[3,3], %4: float32[3,3], %5: float32[3],"
           " %6: float32[3,3]) {"
           " %7 = matmul(%1, %1) : float32[3,3]"
           " %8 = matmul(%1, %3) : float32[3,3]"
           " %9 = matmul(%6, %1) : float32[3,3]"
           " %10 = add(%3, %7) : float32[3,3]"
           " %11 = add(%4, %8) : float32[3,3]"
           " %12 = add(%9, %5) : float32[3,3]"
           " %13 = sum(%12) {axes=[0]} : float32[3] } -> (%10, %11, %13, %8)"
           " %14, %15, %16, %17 = repeat(%0, %1, %1, %2, %1) {body=b1} : float32[3,3],"
           " float32[3,3], float32[3], float32[3,3] } -> (%14, %15, %16, %17)",
     BLOCK "(%0: int32[], %1: float32[3,3], %2: float32[3]) {\n"
           "  block b1(%3: float32[3,3], %4: float32[3,3], %5: float32[3],"
           " %6: float32[3,3]) {\n"
           "    %7 = matmul(%1, %1) : float32[3,3]\n"
           "    %8 = matmul(%1, %3) : float32[3,3]\n"
           "    %9 = add(%3, %7) : float32[3,3]\n"
           "    %10 = add(%4, %8) : float32[3,3]\n"
           "    %11 = fused_matmul(%6, %1, %5) {transpose_a=false, transpose_b=false, "
           "activation=0} : float32[3,3]\n"
           "    %12 = sum(%11) {axes=[0]} : float32[3]\n"
           "  } -> (%9, %10, %12, %8)\n"
           "  %13, %14, %15, %16 = repeat(%0, %1, %1, %2, %1) {body=b1}"
           " : float32[3,3], float32[3,3], float32[3], float32[3,3]\n"
           "} -> (%13, %14, %15, %16)\n"},
    /* nor across a loop */
    {"fuse prune",
     UPDATED BLOCK "(%0: int32[], %1: float32[3,3], %2: float32[]) {"
                   " %3 = matmul(%1, %1) : float32[3,3]"
                   " block b1() { variable_add(%1) {resource=2} } -> ()"
                   " repeat(%0) {body=b1}"
                   " sgd_update(%3, %2) {resource=0} } -> ()",
     UPDATED BLOCK "(%0: int32[], %1: float32[3,3], %2: float32[]) {\n"
                   "  %3 = matmul(%1, %1) : float32[3,3]\n"
                   "  block b1() {\n    variable_add(%1) {resource=2}\n  } -> ()\n"
                   "  repeat(%0) {body=b1}\n"
                   "  sgd_update(%3, %2) {resource=0}\n} -> ()\n"},
    /* what stands before a loop goes neither into it nor behind it */
    {"fuse prune",
     BLOCK "(%0: int32[], %1: float32[3,3]) {"
           " %2 = matmul(%1, %1) : float32[3,3] %3 = neg(%1) : float32[3,3]"
           " block b1(%4: float32[3,3]) { %5 = exp(%3) : float32[3,3] } -> (%5)"
           " %6 = repeat(%0, %1) {body=b1} : float32[3,3]"
           " %7 = relu(%2) : float32[3,3] } -> (%6, %7)",
     BLOCK "(%0: int32[], %1: float32[3,3]) {\n"
           "  %2 = matmul(%1, %1) : float32[3,3]\n  %3 = neg(%1) : float32[3,3]\n"
           "  block b1(%4: float32[3,3]) {\n    %5 = exp(%3) : float32[3,3]\n"
           "  } -> (%5)\n  %6 = repeat(%0, %1) {body=b1} : float32[3,3]\n"
           "  %7 = relu(%2) : float32[3,3]\n} -> (%6, %7)\n"},
    /* nor into an update there, or behind the next element */
    {"fuse prune",
     UPDATED "resource r3 infeed id=4 \"in\" float32[3,3]\n" BLOCK
             "(%0: int32[], %1: float32[3,3], %2: float32[]) {"
             " %3 = infeed_dequeue() {resource=3} : float32[3,3]"
             " %4 = matmul(%3, %1) : float32[3,3]"
             " %5 = infeed_dequeue() {resource=3} : float32[3,3]"
             " sgd_update(%4, %2) {resource=0} %6 = matmul(%5, %1) : float32[3,3]"
             " block b1() { sgd_update(%6, %2) {resource=2} } -> ()"
             " repeat(%0) {body=b1} } -> ()",
     UPDATED "resource r3 infeed id=4 \"in\" float32[3,3]\n" BLOCK
             "(%0: int32[], %1: float32[3,3], %2: float32[]) {\n"
             "  %3 = infeed_dequeue() {resource=3} : float32[3,3]\n"
             "  %4 = matmul(%3, %1) : float32[3,3]\n"
             "  %5 = infeed_dequeue() {resource=3} : float32[3,3]\n"
             "  sgd_update(%4, %2) {resource=0}\n  %6 = matmul(%5, %1) : float32[3,3]\n"
             "  block b1() {\n    sgd_update(%6, %2) {resource=2}\n  } -> ()\n"
             "  repeat(%0) {body=b1}\n} -> ()\n"},
    /* past what goes to the host, but not past a write */
    {"fuse prune",
     "resource r0 variable id=1 \"w\" float32[3,3]\n"
     "resource r1 outfeed id=2 \"out\" float32[3,3]\n" BLOCK
     "(%0: float32[3,3]) { %1 = matmul(%0, %0) : float32[3,3]"
     " outfeed_enqueue(%0) {resource=1} %2 = relu(%1) : float32[3,3]"
     " %3 = matmul(%0, %2) : float32[3,3] variable_assign(%0) {resource=0}"
     " %4 = relu(%3) : float32[3,3] } -> (%2, %4)",
     "resource r0 variable id=1 \"w\" float32[3,3]\n"
     "resource r1 outfeed id=2 \"out\" float32[3,3]\n" BLOCK
     "(%0: float32[3,3]) {\n  outfeed_enqueue(%0) {resource=1}\n"
     "  %1 = fused_matmul(%0, %0) {transpose_a=false, transpose_b=false, "
     "activation=1} : float32[3,3]\n"
     "  %2 = matmul(%0, %1) : float32[3,3]\n  variable_assign(%0) {resource=0}\n"
     "  %3 = relu(%2) : float32[3,3]\n} -> (%1, %3)\n"},
    /* what can fail goes past neither what the host sees nor what can fail, too */
    {"fuse prune",
     "resource r0 outfeed id=2 \"out\" int32[3]\n" BLOCK
     "(%0: int32[3], %1: int32[3]) { %2 = floor_div(%0, %1) : int32[3]"
     " outfeed_enqueue(%0) {resource=0} %3 = neg(%2) : int32[3]"
     " %4 = floor_div(%3, %1) : int32[3] %5 = floor_mod(%4, %0) : int32[3]"
     " %6 = floor_div(%1, %5) : int32[3] %7 = floor_mod(%0, %5) : int32[3]"
     " %8 = neg(%6) : int32[3] } -> (%5, %7, %8)",
     "resource r0 outfeed id=2 \"out\" int32[3]\n" BLOCK
     "(%0: int32[3], %1: int32[3]) {\n  %2 = floor_div(%0, %1) : int32[3]\n"
     "  outfeed_enqueue(%0) {resource=0}\n"
     "  %3 = fused_elementwise(%2, %1, %0) {code=[0,2,0,-1,-1,50,2,3,1,-1,51,2,4,2,-1]}"
     " : int32[3]\n"
     "  %4 = floor_div(%1, %3) : int32[3]\n  %5 = floor_mod(%0, %3) : int32[3]\n"
     "  %6 = neg(%4) : int32[3]\n} -> (%3, %5, %6)\n"},
    /* updates of sums that are no bucket: those that are ready first, then the others;
     * what waits for none is among the first */
    {"fuse",
     "resource r0 variable id=0 \"a\" float32[4]\n"
     "resource r1 variable id=1 \"b\" float32[1048576]\n"
     "resource r2 variable id=2 \"c\" float32[4]\n"
     "resource r3 variable id=3 \"d\" float32[4]\n" BLOCK
     "(%0: float32[4], %1: float32[1048576], %2: float32[]) {"
     " %3 = exp(%1) : float32[1048576] %4 = exp(%0) : float32[4]"
     " %5 = tanh(%4) : float32[4] %6 = all_reduce(%5) : float32[4]"
     " %7 = all_reduce(%3) : float32[1048576] %8 = all_reduce(%4) : float32[4]"
     " %9 = neg(%6) : float32[4] variable_add(%9) {resource=0}"
     " sgd_update(%7, %2) {resource=1} sgd_update(%8, %2) {resource=2}"
     " variable_add(%0) {resource=3} } -> ()",
     "resource r0 variable id=0 \"a\" float32[4]\n"
     "resource r1 variable id=1 \"b\" float32[1048576]\n"
     "resource r2 variable id=2 \"c\" float32[4]\n"
     "resource r3 variable id=3 \"d\" float32[4]\n" BLOCK
     "(%0: float32[4], %1: float32[1048576], %2: float32[]) {\n"
     "  %3 = exp(%1) : float32[1048576]\n  %4 = exp(%0) : float32[4]\n"
     "  %5 = tanh(%4) : float32[4]\n  %6 = all_reduce(%5) : float32[4]\n"
     "  %7 = all_reduce(%3) : float32[1048576]\n  %8 = all_reduce(%4) : float32[4]\n"
     "  fused_update(%0, %7, %2) {resource=3, slots=[1],"
     " code=[1,1,1,0,2,46,0,1,0,-1,2,1,2,1,2,4,48,0,1,0,-1,47,0,2,3,-1]}\n"
     "  fused_update(%8, %2, %6) {resource=2, slots=[0],"
     " code=[2,1,2,0,1,4,48,0,1,0,-1,47,0,2,3,-1,1,1,1,2,2,47,0,1,0,-1]}\n"
     "} -> ()\n"},
    /* sums go to where their operands are ready: small ones of one group together, in
     * front of whoever needs the first; a large one alone */
    {"bucket",
     BLOCK "(%0: float32[4], %1: float32[1048576]) {"
           " %2 = exp(%0) : float32[4] %3 = exp(%1) : float32[1048576]"
           " %4 = tanh(%0) : float32[4] %5 = neg(%0) : float32[4]"
           " %6 = sin(%0) : float32[4]"
           " %7 = all_reduce(%2) : float32[4] %8 = all_reduce(%5) : float32[4]"
           " %9 = all_reduce(%3) : float32[1048576] %10 = all_reduce(%4) : float32[4]"
           " %11 = all_reduce(%6) {group_size=2} : float32[4]"
           " } -> (%7, %8, %9, %10, %11)",
     BLOCK "(%0: float32[4], %1: float32[1048576]) {\n"
           "  %2 = exp(%0) : float32[4]\n  %3 = all_reduce(%2) : float32[4]\n"
           "  %4 = exp(%1) : float32[1048576]\n"
           "  %5 = all_reduce(%4) : float32[1048576]\n"
           "  %6 = tanh(%0) : float32[4]\n  %7 = neg(%0) : float32[4]\n"
           "  %8 = all_reduce(%6) : float32[4]\n  %9 = all_reduce(%7) : float32[4]\n"
           "  %10 = sin(%0) : float32[4]\n"
           "  %11 = all_reduce(%10) {group_size=2} : float32[4]\n"
           "} -> (%3, %9, %5, %8, %11)\n"},
    /* no further than their operands and users; sums of sums and of parameters stay */
    {"bucket",
     BLOCK
     "(%0: float32[4]) { %1 = all_reduce(%0) : float32[4] %2 = exp(%0) : float32[4]"
     " %3 = all_reduce(%2) : float32[4] %4 = all_reduce(%3) : float32[4]"
     " %5 = exp(%3) : float32[4] %6 = all_reduce(%5) : float32[4]"
     " } -> (%1, %4, %6)",
     BLOCK "(%0: float32[4]) {\n  %1 = all_reduce(%0) : float32[4]\n"
           "  %2 = exp(%0) : float32[4]\n  %3 = all_reduce(%2) : float32[4]\n"
           "  %4 = all_reduce(%3) : float32[4]\n  %5 = exp(%3) : float32[4]\n"
           "  %6 = all_reduce(%5) : float32[4]\n} -> (%1, %4, %6)\n"},
    /* replicas that share a slot out update the part that they have of it */
    {"parts",
     "resource r0 variable id=1 \"w\" float32[2,2]\n"
     "resource r1 variable id=2 shared \"v\" float32[2,2]\n" BLOCK
     "(%0: float32[2,2], %1: float32[]) { %2 = all_reduce(%0) : float32[2,2]"
     " sgd_update(%2, %1) {resource=0, slots=[1], momentum=0.5} } -> ()",
     "resource r0 variable id=1 \"w\" float32[2,2]\n"
     "resource r1 variable id=2 shared in 2 parts of float32[2,2] \"v\" float32[2]\n"
     "block b0(%0: float32[2,2], %1: float32[]) {\n"
     "  %2 = reduce_scatter(%0) {reduction=0, group_size=2} : float32[2]\n"
     "  %3 = reshape(%2) {shape=[1,2]} : float32[1,2]\n"
     "  %4 = reshape(%3) {shape=[2]} : float32[2]\n"
     "  %5 = variable_read() {resource=0} : float32[2,2]\n"
     "  %6 = replica_index() : int32[]\n"
     "  %7 = dynamic_slice(%5, %6) {size=[1,2]} : float32[1,2]\n"
     "  %8 = reshape(%7) {shape=[2]} : float32[2]\n"
     "  %9 = variable_read() {resource=1} : float32[2]\n"
     "  %10 = mul(%1, %4) : float32[2]\n"
     "  %11 = constant() {dtype=float32, shape=[], value=0x0000003f} : float32[]\n"
     "  %12 = mul(%11, %9) : float32[2]\n"
     "  %13 = sub(%12, %10) : float32[2]\n"
     "  variable_assign(%13) {resource=1}\n"
     "  %14 = add(%8, %13) : float32[2]\n"
     "  %15 = all_gather(%14) {group_size=2} : float32[2,2]\n"
     "  variable_assign(%15) {resource=0}\n"
     "} -> ()\n"},
    /* the last part repeats the last element; a sum that is needed whole stays */
    {"parts",
     "resource r0 variable id=2 shared \"v\" float32[3]\n" BLOCK
     "(%0: float32[3]) { %1 = all_reduce(%0) : float32[3]"
     " %2 = variable_read() {resource=0} : float32[3]"
     " %3 = add(%1, %2) : float32[3]"
     " variable_assign(%3) {resource=0} } -> (%1)",
     "resource r0 variable id=2 shared in 2 parts of float32[3] \"v\" float32[2]\n"
     "block b0(%0: float32[3]) {\n"
     "  %1 = all_reduce(%0) : float32[3]\n"
     "  %2 = variable_read() {resource=0} : float32[2]\n"
     "  %3 = slice(%1) {begin=[2], size=[1], strides=[1]} : float32[1]\n"
     "  %4 = concat(%1, %3) {axis=0} : float32[4]\n"
     "  %5 = reshape(%4) {shape=[2,2]} : float32[2,2]\n"
     "  %6 = replica_index() : int32[]\n"
     "  %7 = dynamic_slice(%5, %6) {size=[1,2]} : float32[1,2]\n"
     "  %8 = reshape(%7) {shape=[2]} : float32[2]\n"
     "  %9 = add(%8, %2) : float32[2]\n"
     "  variable_assign(%9) {resource=0}\n"
     "} -> (%1)\n"},
    /* what reads a whole variable is as it was */
    {"parts",
     "resource r0 variable id=2 shared \"v\" float32[3]\n" BLOCK
     "() { %0 = variable_read() {resource=0} : float32[3]"
     " %1 = sum(%0) {axes=[0], keep_dims=false} : float32[] } -> (%1)",
     "resource r0 variable id=2 shared in 2 parts of float32[3] \"v\" float32[2]\n"
     "block b0() {\n"
     "  %0 = variable_read() {resource=0} : float32[2]\n"
     "  %1 = all_gather(%0) {group_size=2} : float32[2,2]\n"
     "  %2 = reshape(%1) {shape=[4]} : float32[4]\n"
     "  %3 = slice(%2) {begin=[0], size=[3], strides=[1]} : float32[3]\n"
     "  %4 = sum(%3) {axes=[0], keep_dims=false} : float32[]\n"
     "} -> (%4)\n"},
};

static void
test_texts(void)
{
    for (size_t i = 0; i < sizeof(text_cases) / sizeof(text_cases[0]); i++) {
        const text_case *t = &text_cases[i];
        ipu_ctx ctx;
        ipu_ctx_init(&ctx, ipu_allocator_default());
        ipu_graph *graph = parse(&ctx, t->before);
        graph->ipus = 2;
        char names[128];
        snprintf(names, sizeof(names), "%s", t->passes);
        for (char *name = strtok(names, " "); name != NULL; name = strtok(NULL, " ")) {
            CHECK_OK(&ctx, ipu_pass_run_named(&ctx, graph, name));
            CHECK_OK(&ctx, ipu_graph_verify(&ctx, graph));
        }
        size_t bytes = 0;
        char *text = NULL;
        CHECK_OK(&ctx, ipu_graph_print(&ctx, graph, &text, &bytes));
        const char *body = text;
        body = body == NULL ? "" : strchr(body, '\n') + 1; /* without the header */
        if (strcmp(body, t->after) != 0) {
            CHECK(!"the text after the passes");
            fprintf(stderr, "%s gave\n%sexpected\n%s", t->passes, body, t->after);
        }
        ipu_free(&ctx, text, bytes);
        ipu_graph_free(&ctx, graph);
    }
}

/* --- all passes: same bits
 * ---------------------------------------------------------------- */

/* Runs the graph; results and variables go to `out`, which the caller frees. */
static size_t
run(ipu_ctx *ctx, const ipu_graph *graph, ipu_kernel_variant variant, char **out)
{
    evaluation e = evaluate_begin(ctx, graph, variant);
    const ipu_block_data *block = ipu_block_of(graph, (ipu_block){0});
    uint32_t state = 99;
    for (size_t i = 0; i < block->params.count; i++) {
        const ipu_type *type = &ipu_value_of(graph, block->params.items[i])->type;
        void *buffer = evaluate_buffer(&e, block->params.items[i]);
        for (int64_t k = 0; k < ipu_shape_elements(&type->shape); k++) {
            state = state * 1664525u + 1013904223u;
            float x = (float)(int32_t)state / 2147483648.0f;
            if (type->dtype == IPU_DTYPE_FLOAT32) {
                ((float *)buffer)[k] = k % 7 == 3 ? -0.0f : x;
            } else if (type->dtype == IPU_DTYPE_FLOAT16) {
                ((uint16_t *)buffer)[k] = ipu_float16_from_float(x);
            } else if (type->dtype == IPU_DTYPE_INT32) {
                ((int32_t *)buffer)[k] = 3;
            } else {
                ((uint8_t *)buffer)[k] = x > 0.0f;
            }
        }
    }
    size_t bytes = 0;
    for (size_t i = 0; i < graph->resources.count; i++) {
        size_t more = ipu_type_bytes(&graph->resources.items[i].types[0]);
        e.variables[i] = aligned_alloc(64, (more + IPU_SLACK_BYTES + 63) / 64 * 64);
        memset(e.variables[i], 0, more);
        bytes += more;
    }
    CHECK_OK(ctx, evaluate_block(&e, (ipu_block){0}));
    for (size_t i = 0; i < block->results.count; i++) {
        bytes += ipu_type_bytes(&ipu_value_of(graph, block->results.items[i])->type);
    }
    char *at = *out = malloc(bytes + 1);
    for (size_t i = 0; i < block->results.count; i++) {
        ipu_value value = block->results.items[i];
        size_t more = ipu_type_bytes(&ipu_value_of(graph, value)->type);
        memcpy(at, evaluate_buffer(&e, value), more);
        at += more;
    }
    for (size_t i = 0; i < graph->resources.count; i++) {
        size_t more = ipu_type_bytes(&graph->resources.items[i].types[0]);
        memcpy(at, e.variables[i], more);
        at += more;
        free(e.variables[i]);
    }
    evaluate_end(&e);
    return bytes;
}

/* Adds the gradients of the sum of result 0 by every float parameter to the results. */
static void
add_gradients(ipu_ctx *ctx, ipu_graph *graph)
{
    ipu_block_data *block = ipu_block_of(graph, (ipu_block){0});
    ipu_value y = block->results.items[0];
    ipu_value xs[8] = {{0}};
    ipu_value grads[8];
    uint32_t count = 0;
    for (size_t i = 0; i < block->params.count; i++) {
        ipu_value param = block->params.items[i];
        if (ipu_dtype_is_float(ipu_value_of(graph, param)->type.dtype)) {
            xs[count++] = param;
        }
    }
    CHECK_OK(ctx,
             ipu_gradients(ctx, graph, (ipu_block){0}, &y, NULL, 1, xs, count, grads));
    for (uint32_t i = 0; i < count; i++) {
        if (grads[i].index != IPU_NO_INDEX) {
            CHECK_OK(ctx, ipu_graph_add_result(ctx, graph, (ipu_block){0}, grads[i]));
        }
    }
}

static const char *const layer_text =
    "block b0(%0: float32[6,5], %1: float32[5,7], %2: float32[7], %3: float32[7,4],"
    " %4: float32[4], %5: int32[6]) {"
    " %6 = matmul(%0, %1) : float32[6,7] %7 = add(%6, %2) : float32[6,7]"
    " %8 = relu(%7) : float32[6,7] %9 = matmul(%8, %3) : float32[6,4]"
    " %10 = add(%9, %4) : float32[6,4] %11 = tanh(%10) : float32[6,4]"
    " %12, %13 = sparse_cross_entropy(%11, %5) : float32[6], float32[6,4]"
    " %14 = mean(%12) {axes=[0]} : float32[] } -> (%14)";

/* Keys stored as columns, heads joined to the batch, one mask. */
static const char *const attention_text =
    "block b0(%0: float32[2,3,7,4], %1: float32[6,4,9], %2: float32[2,3,9,5],"
    " %3: bool[2,1,1,9]) { %4 = reshape(%0) {shape=[6,7,4]} : float32[6,7,4]"
    " %5 = matmul(%4, %1) : float32[6,7,9] %6 = " HALF_F
    " %7 = mul(%5, %6) : float32[6,7,9]"
    " %8 = reshape(%7) {shape=[2,3,7,9]} : float32[2,3,7,9]"
    " %9 = cast(%3) {dtype=float32} : float32[2,1,1,9] %10 = " CONST(
        "286b6ece") " %11 = mul(%9, %10) : float32[2,1,1,9] %12 = add(%8, %11) : "
                    "float32[2,3,7,9]"
                    " %13 = softmax(%12) : float32[2,3,7,9] %14 = matmul(%13, %2) : "
                    "float32[2,3,7,5]"
                    " %15 = mean(%14) {axes=[0,1,2,3]} : float32[] } -> (%15)";

static const char *const elementwise_text =
    "block b0(%0: float32[9,130], %1: float32[130], %2: float32[9,1], %3: bool[9,130]) "
    "{"
    " %4 = mul(%0, %1) : float32[9,130] %5 = sigmoid(%4) : float32[9,130]"
    " %6 = sub(%5, %2) : float32[9,130] %7 = select(%3, %6, %0) : float32[9,130]"
    " %8 = cast(%7) {dtype=float16} : float16[9,130] %9 = exp(%8) : float16[9,130]"
    " %10 = cast(%9) {dtype=float32} : float32[9,130]"
    " %11 = greater(%10, %0) : bool[9,130] %12 = logical_and(%11, %3) : bool[9,130]"
    " %13 = select(%12, %10, %2) : float32[9,130] %14 = div(%13, %5) : float32[9,130]"
    " %15 = identity(%14) : float32[9,130] %16 = maximum(%15, %1) : float32[9,130]"
    " %17 = abs(%16) : float32[9,130] %18 = sqrt(%17) : float32[9,130]"
    " %19 = sum(%18) {axes=[1]} : float32[9] %20 = square(%19) : float32[9] } -> (%20)";

static const char *const long_chain_head = "block b0(%0: float32[3,5]) {";

static const char *const loop_text =
    "resource r0 variable id=1 \"w\" float32[3,2]\n"
    "block b0(%0: int32[], %1: float32[4,3], %2: float32[2]) {"
    " %3 = reshape(%2) {shape=[2]} : float32[2]"
    " block b1(%4: float32[4,2]) { %5 = variable_read() {resource=0} : float32[3,2]"
    " %6 = matmul(%1, %5) : float32[4,2]"
    " %7 = constant() {dtype=float32, shape=[], value=0x0000003f} : float32[]"
    " %8 = broadcast(%7) {shape=[3,2]} : float32[3,2]"
    " %9 = variable_read() {resource=0} : float32[3,2]"
    " %10 = add(%9, %8) : float32[3,2] variable_assign(%10) {resource=0}"
    " %11 = add(%6, %3) : float32[4,2] %12 = variable_read() {resource=0} : "
    "float32[3,2]"
    " %13 = matmul(%1, %12) : float32[4,2] %14 = add(%13, %2) : float32[4,2]"
    " %15 = tanh(%14) : float32[4,2] %16 = add(%11, %15) : float32[4,2]"
    " %17 = mul(%16, %4) : float32[4,2] %18 = add(%17, %15) : float32[4,2] } -> (%18)"
    " %19 = constant() {dtype=float32, shape=[], value=0x0000803f} : float32[]"
    " %20 = broadcast(%19) {shape=[4,2]} : float32[4,2]"
    " %21 = repeat(%0, %20) {body=b1} : float32[4,2] } -> (%21)";

/* Folding uses the fast kernels, so only those give the same bits where constants fold.
 */
static ipu_graph *
check_same_bits(ipu_ctx *ctx, const char *text, bool gradients, int32_t variants)
{
    ipu_graph *graph = parse(ctx, text);
    ipu_graph *plain = parse(ctx, text);
    if (gradients) {
        add_gradients(ctx, graph);
        add_gradients(ctx, plain);
    }
    ipu_passes_options options = {.verify = true, .fuse = true};
    CHECK_OK(ctx, ipu_passes_run(ctx, graph, &options));
    for (int32_t variant = 0; variant < variants; variant++) {
        char *before;
        char *after;
        size_t bytes = run(ctx, plain, (ipu_kernel_variant)variant, &before);
        CHECK(run(ctx, graph, (ipu_kernel_variant)variant, &after) == bytes);
        if (memcmp(before, after, bytes) != 0) {
            size_t size = 0;
            char *shown = NULL;
            CHECK_OK(ctx, ipu_graph_print(ctx, graph, &shown, &size));
            CHECK(!"passes changed the bits");
            fprintf(stderr, "variant %d\n%s\n%s\n", (int)variant, text, shown);
            ipu_free(ctx, shown, size);
        }
        free(before);
        free(after);
    }
    ipu_graph_free(ctx, plain);
    return graph;
}

static void
test_same_bits(void)
{
    ipu_ctx ctx;
    ipu_ctx_init(&ctx, ipu_allocator_default());
    ipu_graph *graph = check_same_bits(&ctx, layer_text, true, 2);
    CHECK(count_op(graph, (ipu_block){0}, IPU_OP_ID_FUSED_MATMUL) == 2);
    CHECK(count_op(graph, (ipu_block){0}, IPU_OP_ID_BROADCAST) == 0);
    ipu_graph_free(&ctx, graph);
    graph = check_same_bits(&ctx, attention_text, true, 1); /* BLIS has other bits */
    CHECK(count_op(graph, (ipu_block){0}, IPU_OP_ID_ATTENTION) == 1);
    CHECK(count_op(graph, (ipu_block){0}, IPU_OP_ID_ATTENTION_GRAD) == 1);
    CHECK(count_op(graph, (ipu_block){0}, IPU_OP_ID_SOFTMAX) == 0);
    ipu_graph_free(&ctx, graph);
    graph = check_same_bits(&ctx, elementwise_text, false, 2);
    CHECK(count_op(graph, (ipu_block){0}, IPU_OP_ID_FUSED_ELEMENTWISE) == 1);
    CHECK(ipu_block_of(graph, (ipu_block){0})->node_count == 3);
    ipu_graph_free(&ctx, graph);
    graph = check_same_bits(&ctx, elementwise_text, true, 2);
    ipu_graph_free(&ctx, graph);
    graph = check_same_bits(&ctx, loop_text, false, 2);
    CHECK(count_op(graph, (ipu_block){0}, IPU_OP_ID_FUSED_MATMUL) == 1);
    CHECK(count_op(graph, (ipu_block){0}, IPU_OP_ID_VARIABLE_READ) == 2);
    ipu_graph_free(&ctx, graph);
}

/* The first sum spans a write of what it reads through: it must not move. */
static void
test_fuse_keeps_segments(void)
{
    ipu_ctx ctx;
    ipu_ctx_init(&ctx, ipu_allocator_default());
    ipu_graph *graph = check_same_bits(
        &ctx,
        "resource r0 variable id=1 \"w\" float32[3]\n"
        "block b0(%0: float32[3]) { %1 = variable_read() {resource=0} : float32[3]"
        " %2 = sub(%1, %0) : float32[3] variable_assign(%0) {resource=0}"
        " %3 = exp(%2) : float32[3] %4 = neg(%3) : float32[3] } -> (%4)",
        false, 2);
    const ipu_block_data *block = ipu_block_of(graph, (ipu_block){0});
    CHECK(block->node_count == 4);
    CHECK(ipu_node_of(graph, ipu_node_next(graph, block->first))->op == IPU_OP_ID_SUB);
    CHECK(ipu_node_of(graph, block->last)->op == IPU_OP_ID_FUSED_ELEMENTWISE);
    ipu_graph_free(&ctx, graph);
}

/* A chain of 80 nodes, and one with 40 inputs: cut at the limits, not beyond. */
static void
test_fuse_limits(void)
{
    ipu_ctx ctx;
    ipu_ctx_init(&ctx, ipu_allocator_default());
    static char text[32768];
    size_t at = (size_t)snprintf(text, sizeof(text), "%s", long_chain_head);
    for (int i = 0; i < 80; i++) {
        at += (size_t)snprintf(text + at, sizeof(text) - at,
                               " %%%d = tanh(%%%d) : float32[3,5]", i + 1, i);
    }
    snprintf(text + at, sizeof(text) - at, " } -> (%%80)");
    ipu_graph *graph = check_same_bits(&ctx, text, false, 2);
    CHECK(count_op(graph, (ipu_block){0}, IPU_OP_ID_FUSED_ELEMENTWISE) == 3);
    ipu_graph_free(&ctx, graph);

    at = (size_t)snprintf(text, sizeof(text), "block b0(%%0: float32[7]");
    for (int i = 1; i < 40; i++) {
        at += (size_t)snprintf(text + at, sizeof(text) - at, ", %%%d: float32[7]", i);
    }
    at += (size_t)snprintf(text + at, sizeof(text) - at, ") {");
    for (int i = 0; i < 39; i++) {
        at += (size_t)snprintf(text + at, sizeof(text) - at,
                               " %%%d = add(%%%d, %%%d) : float32[7]", 40 + i,
                               i == 0 ? 0 : 39 + i, i + 1);
    }
    snprintf(text + at, sizeof(text) - at, " } -> (%%78)");
    graph = check_same_bits(&ctx, text, false, 2);
    const ipu_block_data *block = ipu_block_of(graph, (ipu_block){0});
    CHECK(block->node_count == 3);
    for (ipu_node n = block->first; ipu_is_node(n); n = ipu_node_next(graph, n)) {
        CHECK(ipu_node_of(graph, n)->input_count <= IPU_FUSED_MAX_INPUTS);
    }
    ipu_graph_free(&ctx, graph);
}

/* --- random graphs
 * ---------------------------------------------------------------------- */

static uint32_t
draw(uint32_t *state, uint32_t below)
{
    *state = *state * 1664525u + 1013904223u;
    return (uint32_t)(((uint64_t)(*state >> 4) * below) >> 28);
}

/* Random element-wise and movement nodes over values of a few shapes: whatever the
 * passes do, the bits stay. */
static void
test_random_graphs(void)
{
    static const char *const unary[] = {"neg",    "abs",  "tanh",     "sigmoid",
                                        "relu",   "sign", "identity", "stop_gradient",
                                        "square", "floor"};
    static const char *const binary[] = {"add", "sub",     "mul",     "div",
                                         "mul", "maximum", "minimum", "relu_grad"};
    static const char *const shapes[] = {"4,3", "3", "4,1", ""};
    for (uint32_t seed = 1; seed <= 150; seed++) {
        uint32_t state = seed;
        static char text[32768];
        int shape_of[80] = {0, 1, 2, 3, 3, 3};
        size_t at = (size_t)snprintf(
            text, sizeof(text),
            "block b0(%%0: float32[4,3], %%1: float32[3], %%2: float32[4,1],"
            " %%3: float32[]) { %%4 = " ONE_F " %%5 = " ZERO_F);
        for (int i = 6; i < 60; i++) {
            uint32_t what = draw(&state, 10);
            int a = (int)draw(&state, (uint32_t)i);
            int b = (int)draw(&state, (uint32_t)i);
            int shape = shape_of[a];
            at += (size_t)snprintf(text + at, sizeof(text) - at, " %%%d = ", i);
            if (what < 3) {
                at += (size_t)snprintf(text + at, sizeof(text) - at, "%s(%%%d)",
                                       unary[draw(&state, 10)], a);
            } else if (what < 7) {
                /* shapes as numbers: 0 = both axes, 1 = columns, 2 = rows, 3 = neither
                 */
                int other = shape_of[b];
                shape = shape == other ? shape
                        : shape == 3   ? other
                        : other == 3   ? shape
                                       : 0;
                at += (size_t)snprintf(text + at, sizeof(text) - at, "%s(%%%d, %%%d)",
                                       binary[draw(&state, 8)], a, b);
            } else if (what < 8) {
                shape = 0;
                at += (size_t)snprintf(text + at, sizeof(text) - at,
                                       "broadcast(%%%d) {shape=[4,3]}", a);
            } else if (what < 9) {
                at += (size_t)snprintf(text + at, sizeof(text) - at,
                                       "reshape(%%%d) {shape=[%s]}", a, shapes[shape]);
            } else {
                at += (size_t)snprintf(text + at, sizeof(text) - at,
                                       "sum(%%%d) {axes=[%s]}", a,
                                       shape == 3   ? ""
                                       : shape == 1 ? "0"
                                                    : "0,1");
                shape = 3;
            }
            shape_of[i] = shape;
            at += (size_t)snprintf(text + at, sizeof(text) - at, " : float32[%s]",
                                   shapes[shape]);
        }
        snprintf(text + at, sizeof(text) - at, " } -> (%%59, %%58, %%41, %%20)");
        ipu_ctx ctx;
        ipu_ctx_init(&ctx, ipu_allocator_default());
        ipu_graph *graph = check_same_bits(&ctx, text, false, 1);
        ipu_graph_free(&ctx, graph);
    }
}

/* --- updates --------------------------------------------------------------------- */

static const char *const update_text =
    "resource r0 variable id=1 \"w\" float32[3,2]\n"
    "resource r1 variable id=2 \"m\" float32[3,2]\n"
    "resource r2 variable id=3 \"v\" float32[3,2]\n"
    "resource r3 variable id=4 \"b\" float32[5]\n"
    "resource r4 variable id=5 \"n\" int32[]\n"
    "block b0(%0: float32[3,2], %1: float32[5], %2: float32[], %3: int32[]) {"
    " adam_update(%0, %2, %3) {resource=0, slots=[1,2], beta_1=0.9, beta_2=0.99,"
    " epsilon=0.001}"
    " %4 = variable_read() {resource=3} : float32[5]"
    " %5 = mul(%4, %2) : float32[5] %6 = add(%5, %1) : float32[5]"
    " variable_assign(%6) {resource=3} variable_add(%3) {resource=4}"
    " %7 = variable_read() {resource=3} : float32[5]"
    " %8 = exp(%7) : float32[5] variable_add(%8) {resource=3} } -> (%6)";

/* All of the first update, but what is a result, too; then a second one, which reads
 * what the first one wrote. */
static void
test_updates(void)
{
    ipu_ctx ctx;
    ipu_ctx_init(&ctx, ipu_allocator_default());
    ipu_graph *graph = check_same_bits(&ctx, update_text, false, 2);
    CHECK(count_op(graph, (ipu_block){0}, IPU_OP_ID_FUSED_UPDATE) == 2);
    CHECK(count_op(graph, (ipu_block){0}, IPU_OP_ID_ADAM_RATE) == 1);
    CHECK(count_op(graph, (ipu_block){0}, IPU_OP_ID_FUSED_ELEMENTWISE) == 1);
    CHECK(count_op(graph, (ipu_block){0}, IPU_OP_ID_VARIABLE_READ) == 1);
    CHECK(ipu_block_of(graph, (ipu_block){0})->node_count <= 9); /* with constants */
    ipu_graph_free(&ctx, graph);
}

/* Reads, writes and element-wise nodes in any order, also in the body of a loop. */
static void
test_random_updates(void)
{
    static const char *const unary[] = {"neg", "abs", "tanh", "square"};
    static const char *const binary[] = {"add", "sub", "mul", "maximum"};
    static const char *const shapes[] = {"4,3", "3", ""};
    static const int shape_of_variable[] = {0, 0, 1, 1, 2, 2, 0, 0};
    for (uint32_t seed = 1; seed <= 300; seed++) {
        uint32_t state = seed;
        static char text[32768];
        int shape_of[80] = {0, 1, 2, 0, 1, 2};
        size_t at = 0;
        for (int i = 0; i < 8; i++) {
            at += (size_t)snprintf(text + at, sizeof(text) - at,
                                   "resource r%d variable id=%d \"v%d\" float32[%s]\n",
                                   i, i, i, shapes[shape_of_variable[i]]);
        }
        at += (size_t)snprintf(text + at, sizeof(text) - at,
                               "block b0(%%0: float32[4,3], %%1: float32[3],"
                               " %%2: float32[], %%3: float32[4,3], %%4: float32[3],"
                               " %%5: float32[], %%60: int32[]) { block b1() {");
        for (int i = 6; i < 60;) {
            uint32_t what = draw(&state, 10);
            int a = (int)draw(&state, (uint32_t)i);
            int b = (int)draw(&state, (uint32_t)i);
            int r = (int)draw(&state, 8);
            while (what >= 7 && shape_of[a] != shape_of_variable[r]) {
                r = (r + 1) % 8;
            }
            char *to = text + at;
            size_t room = sizeof(text) - at;
            if (what >= 9) {
                at +=
                    (size_t)snprintf(to, room, " sgd_update(%%%d, %%%d) {resource=%d}",
                                     a, draw(&state, 2) == 0 ? 2 : 5, r);
            } else if (what >= 7) {
                at += (size_t)snprintf(to, room, " variable_%s(%%%d) {resource=%d}",
                                       what == 7 ? "add" : "assign", a, r);
            } else if (what >= 5) {
                shape_of[i] = shape_of_variable[r];
                at += (size_t)snprintf(
                    to, room, " %%%d = variable_read() {resource=%d} : float32[%s]", i,
                    r, shapes[shape_of[i]]);
                i++;
            } else if (what >= 3) {
                shape_of[i] = shape_of[a];
                at += (size_t)snprintf(to, room, " %%%d = %s(%%%d) : float32[%s]", i,
                                       unary[draw(&state, 4)], a, shapes[shape_of[i]]);
                i++;
            } else {
                shape_of[i] = shape_of[a] < shape_of[b] ? shape_of[a] : shape_of[b];
                at += (size_t)snprintf(to, room, " %%%d = %s(%%%d, %%%d) : float32[%s]",
                                       i, binary[draw(&state, 4)], a, b,
                                       shapes[shape_of[i]]);
                i++;
            }
        }
        snprintf(text + at, sizeof(text) - at,
                 " } -> () repeat(%%60) {body=b1} } -> ()");
        ipu_ctx ctx;
        ipu_ctx_init(&ctx, ipu_allocator_default());
        ipu_graph *graph = check_same_bits(&ctx, text, false, 1);
        ipu_graph_free(&ctx, graph);
    }
}

/* --- errors
 * --------------------------------------------------------------------------------- */

typedef struct failing {
    ipu_allocator real;
    long left;
    long count;
} failing;

static void *
failing_resize(void *state, void *pointer, size_t old_bytes, size_t new_bytes)
{
    failing *f = state;
    if (new_bytes > old_bytes && f->left >= 0 && f->left-- == 0) {
        return NULL;
    }
    void *out = f->real.resize(f->real.state, pointer, old_bytes, new_bytes);
    if (out != NULL || new_bytes == 0) {
        f->count += (long)new_bytes - (long)old_bytes;
    }
    return out;
}

static void
test_failed_allocations(const char *text)
{
    bool done = false;
    ipu_passes_options options = {.verify = true, .fuse = true};
    for (long n = 0; !done && n < 10000; n++) {
        failing f = {.real = ipu_allocator_default(), .left = -1};
        ipu_ctx ctx;
        ipu_ctx_init(&ctx, (ipu_allocator){failing_resize, &f});
        ipu_graph *graph = parse(&ctx, text);
        graph->ipus = 2;
        f.left = n;
        ipu_status status = ipu_passes_run(&ctx, graph, &options);
        done = status == IPU_OK && f.left >= 0;
        CHECK(status == IPU_OK || status == IPU_STATUS_OUT_OF_MEMORY);
        f.left = -1;
        ipu_graph_free(&ctx, graph);
        CHECK(f.count == 0);
    }
    CHECK(done);
}

static void
test_names(void)
{
    ipu_ctx ctx;
    ipu_ctx_init(&ctx, ipu_allocator_default());
    ipu_graph *graph = parse(&ctx, "block b0() { } -> ()");
    CHECK(ipu_pass_run_named(&ctx, graph, "optimise") == IPU_STATUS_NOT_FOUND);
    CHECK(strstr(ctx.message, "optimise") != NULL);
    ipu_ctx_clear(&ctx);
    ipu_passes_options options = {.verify = true, .fuse = true};
    CHECK_OK(&ctx, ipu_passes_run(&ctx, graph, &options));
    ipu_graph_free(&ctx, graph);
}

int
main(void)
{
    test_texts();
    test_same_bits();
    test_fuse_keeps_segments();
    test_fuse_limits();
    test_random_graphs();
    test_updates();
    test_random_updates();
    test_failed_allocations(layer_text);
    test_failed_allocations(attention_text);
    test_failed_allocations(loop_text);
    test_failed_allocations(update_text);
    test_failed_allocations(parts_text);
    test_names();
    return CHECK_DONE();
}
