/* SPDX-License-Identifier: MIT
 *
 * Nodes whose inputs are all constants become constants, and of a switch with a
 * constant index the branch remains. In: any graph. Out: the same graph with literals;
 * the constants that they came from stay for the prune pass.
 *
 * The kernel that would have run is the one that folds, so that folding changes no bit.
 * Nodes with effects, random numbers or blocks and collectives are left, results above
 * MOST_BYTES too (they would only move work from the program into its size), and
 * broadcasts, which element-wise kernels take as they are. Where the kernel fails, for
 * instance in a division by zero, or would where floating-point results are looked at,
 * the node stays, and what is to happen does when the program runs. One thread per
 * graph. */
#include <string.h>

#include "graph/constant.h"
#include "kernels/core/kernel.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

enum { MOST_BYTES = 4096, MOST_BUFFERS = 64 };

typedef struct buffers {
    ipu_ctx *ctx;
    void *items[MOST_BUFFERS];
    size_t bytes[MOST_BUFFERS];
    uint32_t count;
    ipu_arena prepared; /* of the kernel */
} buffers;

static ipu_status
buffers_add(buffers *b, size_t bytes, void **out)
{
    bytes += IPU_SLACK_BYTES;
    IPU_TRY(ipu_alloc(b->ctx, bytes, out));
    b->items[b->count] = *out;
    b->bytes[b->count++] = bytes;
    return IPU_OK;
}

static void
buffers_free(buffers *b)
{
    for (uint32_t i = 0; i < b->count; i++) {
        ipu_free(b->ctx, b->items[i], b->bytes[i]);
    }
    b->count = 0;
    ipu_arena_free(b->ctx, &b->prepared);
}

static bool
can_fold(const ipu_graph *graph, const ipu_node_data *node)
{
    const uint32_t never =
        IPU_OP_RANDOM | IPU_OP_READS | IPU_OP_WRITES | IPU_OP_BLOCK | IPU_OP_COLLECTIVE;
    uint32_t flags = ipu_node_flags(node);
    if ((flags & never) != 0 || (flags & (IPU_OP_KERNEL | IPU_OP_VIEW)) == 0 ||
        node->op == IPU_OP_ID_BROADCAST || node->input_count == 0 ||
        node->input_count + node->output_count >= MOST_BUFFERS) {
        return false;
    }
    size_t bytes = 0;
    for (uint32_t i = 0; i < node->output_count; i++) {
        size_t more =
            ipu_type_bytes(&ipu_value_of(graph, ipu_node_output(node, i))->type);
        bytes = more > MOST_BYTES ? MOST_BYTES + 1 : bytes + more;
        if (bytes > MOST_BYTES) {
            return false;
        }
    }
    for (uint32_t i = 0; i < node->input_count; i++) {
        if (ipu_constant_of(graph, node->inputs[i]) == NULL) {
            return false;
        }
    }
    return true;
}

/* Runs the node on its literals. The results lie in b's last buffers but the
 * workspace's. */
static ipu_status
compute(buffers *b, const ipu_graph *graph, const ipu_node_data *node,
        void *results[MOST_BUFFERS])
{
    ipu_type types[MOST_BUFFERS];
    const void *inputs[MOST_BUFFERS];
    for (uint32_t i = 0; i < node->input_count; i++) {
        const ipu_attr *value = ipu_constant_of(graph, node->inputs[i]);
        void *copy;
        types[i] = ipu_value_of(graph, node->inputs[i])->type;
        IPU_TRY(buffers_add(b, value->count, &copy));
        ipu_copy_bytes(copy, value->as.bytes, value->count);
        inputs[i] = copy;
    }
    ipu_type *outputs = &types[node->input_count];
    for (uint32_t i = 0; i < node->output_count; i++) {
        outputs[i] = ipu_value_of(graph, ipu_node_output(node, i))->type;
        IPU_TRY(buffers_add(b, ipu_type_bytes(&outputs[i]), &results[i]));
    }
    if ((ipu_node_flags(node) & IPU_OP_VIEW) != 0) {
        memcpy(results[0], inputs[0], ipu_type_bytes(&outputs[0]));
        return IPU_OK;
    }
    ipu_kernel_spec spec = {.op = node->op,
                            .attrs = node->attrs,
                            .input_count = node->input_count,
                            .output_count = node->output_count,
                            .inputs = types,
                            .outputs = outputs};
    IPU_TRY(ipu_kernel_prepare(b->ctx, &b->prepared, &spec, IPU_KERNEL_FAST,
                               ipu_cpu_class_detect()));
    const ipu_float_behaviour strict = {
        .traps_invalid = true, .traps_division = true, .traps_overflow = true};
    IPU_TRY(ipu_kernel_guard(b->ctx, &b->prepared, &spec, &strict));
    void *workspace;
    IPU_TRY(buffers_add(b, spec.workspace_bytes, &workspace));
    ipu_kernel_call call = {.spec = &spec,
                            .inputs = inputs,
                            .outputs = results,
                            .workspace = workspace,
                            .ctx = b->ctx};
    return spec.run(&call);
}

static ipu_status
emit_literal(ipu__rewriter *r, ipu_node like, ipu_value value, const void *bytes)
{
    ipu_type type = ipu_value_of(r->graph, value)->type;
    ipu_value constant;
    ipu_block block = ipu_node_of(r->graph, like)->block;
    IPU_TRY(ipu_constant_emit(r->ctx, r->graph, block, like, &type, bytes, &constant));
    return ipu__replace(r, value, constant);
}

/* A switch whose index is known: the nodes of that branch take its place. */
static ipu_status
take_branch(ipu__rewriter *r, ipu_node id, const ipu_attr *index, bool *keep)
{
    const ipu_node_data copy = *ipu_node_of(r->graph, id);
    const ipu_node_data *node = &copy;
    int32_t which;
    uint32_t last = ipu_node_block_count(node) - 1;
    memcpy(&which, index->as.bytes, sizeof(which));
    bool in_range = which >= 0 && (uint32_t)which <= last;
    ipu_block branch = ipu_node_block(node, in_range ? (uint32_t)which : last);
    IPU_TRY(ipu__inline(r, branch, id));
    for (uint32_t i = 0; i < node->output_count; i++) {
        ipu_value result = ipu_block_of(r->graph, branch)->results.items[i];
        IPU_TRY(ipu__replace(r, ipu_node_output(node, i), ipu__resolve(r, result)));
    }
    *keep = false;
    return IPU_OK;
}

static ipu_status
visit(ipu__rewriter *r, ipu_node id, bool *keep)
{
    const ipu_node_data node = *ipu_node_of(r->graph, id);
    const ipu_attr *index =
        node.op == IPU_OP_ID_SWITCH ? ipu_constant_of(r->graph, node.inputs[0]) : NULL;
    if (index != NULL) {
        return take_branch(r, id, index, keep);
    }
    if (!can_fold(r->graph, &node)) {
        return IPU_OK;
    }
    ipu_ctx trial; /* where failing is not an error */
    ipu_ctx_init(&trial, r->ctx->allocator);
    buffers b = {.ctx = &trial};
    void *results[MOST_BUFFERS];
    ipu_status status = compute(&b, r->graph, &node, results);
    bool folded = status == IPU_OK;
    if (status == IPU_STATUS_OUT_OF_MEMORY) {
        status = ipu_ctx_fail(r->ctx, status, "%s", trial.message);
    } else {
        status = IPU_OK;
    }
    for (uint32_t i = 0; i < node.output_count && folded && status == IPU_OK; i++) {
        status = emit_literal(r, id, ipu_node_output(&node, i), results[i]);
    }
    buffers_free(&b);
    *keep = !folded;
    return status;
}

ipu_status
ipu_pass_fold(ipu_ctx *ctx, ipu_graph *graph)
{
    ipu__rewriter rewriter = {.ctx = ctx, .graph = graph, .visit = visit};
    return ipu__rewrite(&rewriter);
}
