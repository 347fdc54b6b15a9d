/* SPDX-License-Identifier: MIT
 *
 * Reverse-mode differentiation. In: a block with ys and xs, and ones or grad_ys to
 * start from. Out: gradient nodes at the end of the block; the caller owns nothing but
 * the ids in `out`.
 *
 * Two walks over the nodes that are visible from the block. The first, in program
 * order, marks every value that depends on an x. The second goes back from the ys: a
 * node whose output has a gradient and which depends on an x hands its rule the
 * gradients of its outputs, and what the rule gives for each input is added to what is
 * there. So only nodes on a path from xs to ys get gradient nodes, and partial
 * gradients add in reverse program order.
 *
 * Values of blocks around this one are visible too. Such a block has a smaller index,
 * since it is made first; blocks of equal depth that are closed are walked in vain but
 * harmlessly, as none of their values can be used here.
 *
 * One thread per graph. */
#include "autodiff/autodiff.h"

#include <string.h>

#include "autodiff/rules.h"

#define IPU_OP(name, text, min_in, max_in, outputs, flags) \
    [IPU_OP_ID_##name] = ((flags)&IPU_OP_GRADIENT) != 0 ? ipu_gradient_##text : NULL,
static ipu_gradient_fn *const gradient_rules[IPU_OP_ID_COUNT] = {
#include "ops.def"
};
#undef IPU_OP

typedef struct walk {
    ipu_ctx *ctx;
    ipu_graph *graph;
    ipu_block block;
    size_t value_count; /* of the forward graph; later values are gradients */
    bool *depends;      /* by value: on an x, through ops that let gradients pass */
    ipu_value *grads;   /* by value */
    IPU_ARRAY(ipu_value) in_grads; /* scratch of one rule */
    IPU_ARRAY(bool) wanted;
} walk;

static bool
carries_gradient(const walk *w, ipu_value value)
{
    return ipu_dtype_is_float(ipu_value_of(w->graph, value)->type.dtype);
}

/* Whether a node, or any node in the blocks it holds, uses a value that depends. */
static bool
node_depends(const walk *w, const ipu_node_data *node)
{
    for (uint32_t i = 0; i < node->input_count; i++) {
        uint32_t index = node->inputs[i].index;
        if (index < w->value_count && w->depends[index]) {
            return true;
        }
    }
    for (uint32_t b = 0; b < ipu_node_block_count(node); b++) {
        const ipu_block_data *body = ipu_block_of(w->graph, ipu_node_block(node, b));
        for (size_t i = 0; i < body->nodes.count; i++) {
            if (node_depends(w, ipu_node_of(w->graph, body->nodes.items[i]))) {
                return true;
            }
        }
        for (size_t i = 0; i < body->results.count; i++) {
            uint32_t index = body->results.items[i].index;
            if (index < w->value_count && w->depends[index]) {
                return true;
            }
        }
    }
    return false;
}

static void
mark_dependent(walk *w)
{
    for (uint32_t b = 0; b <= w->block.index; b++) {
        const ipu_block_data *block = ipu_block_of(w->graph, (ipu_block){b});
        for (size_t i = 0; i < block->nodes.count; i++) {
            const ipu_node_data *node = ipu_node_of(w->graph, block->nodes.items[i]);
            uint32_t flags = ipu_op_info_of(node->op)->flags;
            bool passes = (flags & (IPU_OP_GRADIENT | IPU_OP_OPAQUE)) != 0;
            if (!passes || !node_depends(w, node)) {
                continue;
            }
            for (uint32_t k = 0; k < node->output_count; k++) {
                ipu_value out = ipu_node_output(node, k);
                if (carries_gradient(w, out)) {
                    w->depends[out.index] = true;
                }
            }
        }
    }
}

static ipu_status
accumulate(walk *w, ipu_node like, ipu_value value, ipu_value gradient)
{
    ipu_value *slot = &w->grads[value.index];
    if (slot->index == IPU_NO_INDEX) {
        *slot = gradient;
        return IPU_OK;
    }
    ipu_value terms[2] = {*slot, gradient};
    return ipu_graph_emit(w->ctx, w->graph, w->block, like, IPU_OP_ID_ADD, terms, 2,
                          NULL, 0, slot);
}

static ipu_status
fail_opaque(walk *w, const ipu_node_data *node)
{
    const char *name = ipu_op_info_of(node->op)->name;
    w->ctx->source = node->source;
    if (node->op == IPU_OP_ID_REPEAT) {
        IPU_FAIL(w->ctx, UNIMPLEMENTED,
                 "cannot differentiate through %s (%s:%d); compute the gradients in "
                 "the loop's body",
                 name, node->source.file != NULL ? node->source.file : "unknown line",
                 (int)node->source.line);
    }
    IPU_FAIL(w->ctx, UNIMPLEMENTED, "%s has no gradient (%s:%d)", name,
             node->source.file != NULL ? node->source.file : "unknown line",
             (int)node->source.line);
}

static ipu_status
differentiate_node(walk *w, ipu_node id)
{
    /* A copy: the rule's nodes move the array. */
    const ipu_node_data node = *ipu_node_of(w->graph, id);
    bool reached = false;
    for (uint32_t k = 0; k < node.output_count; k++) {
        reached |= w->grads[node.first_output + k].index != IPU_NO_INDEX;
    }
    if (!reached || !node_depends(w, &node)) {
        return IPU_OK;
    }
    if ((ipu_op_info_of(node.op)->flags & IPU_OP_OPAQUE) != 0) {
        return fail_opaque(w, &node);
    }
    ipu_gradient_fn *gradient = gradient_rules[node.op];
    if (gradient == NULL) {
        return IPU_OK;
    }
    w->in_grads.count = 0;
    w->wanted.count = 0;
    IPU_TRY(IPU_ARRAY_RESERVE(w->ctx, &w->in_grads, node.input_count + 1));
    IPU_TRY(IPU_ARRAY_RESERVE(w->ctx, &w->wanted, node.input_count + 1));
    for (uint32_t i = 0; i < node.input_count; i++) {
        w->in_grads.items[i] = IPU_NO_VALUE;
        w->wanted.items[i] =
            w->depends[node.inputs[i].index] && carries_gradient(w, node.inputs[i]);
    }
    ipu_value outputs[2];
    ipu_value grads[2];
    IPU_FAIL_IF(w->ctx, node.output_count > 2, INTERNAL,
                "%s has more outputs than a gradient rule can see",
                ipu_op_info_of(node.op)->name);
    for (uint32_t k = 0; k < node.output_count; k++) {
        outputs[k] = ipu_node_output(&node, k);
        grads[k] = w->grads[outputs[k].index];
    }
    ipu_rule rule = {.ctx = w->ctx,
                     .graph = w->graph,
                     .block = w->block,
                     .node = id,
                     .op = node.op,
                     .attrs = node.attrs,
                     .input_count = node.input_count,
                     .output_count = node.output_count,
                     .inputs = node.inputs,
                     .outputs = outputs,
                     .grads = grads,
                     .wanted = w->wanted.items,
                     .results = w->in_grads.items,
                     .status = IPU_OK};
    IPU_TRY(gradient(&rule));
    for (uint32_t i = 0; i < node.input_count; i++) {
        if (w->wanted.items[i] && rule.results[i].index != IPU_NO_INDEX) {
            IPU_TRY(accumulate(w, id, node.inputs[i], rule.results[i]));
        }
    }
    return IPU_OK;
}

static ipu_status
start_from(walk *w, const ipu_value *ys, const ipu_value *grad_ys, uint32_t y_count)
{
    for (uint32_t i = 0; i < y_count; i++) {
        const ipu_value_data y = *ipu_value_of(w->graph, ys[i]);
        if (!ipu_dtype_is_float(y.type.dtype)) {
            continue;
        }
        ipu_value gradient = grad_ys != NULL ? grad_ys[i] : IPU_NO_VALUE;
        if (gradient.index == IPU_NO_INDEX) {
            IPU_TRY(ipu_graph_emit_fill(w->ctx, w->graph, w->block, y.producer, &y.type,
                                        1.0, &gradient));
        } else {
            const ipu_type *given = &ipu_value_of(w->graph, gradient)->type;
            char want[96];
            char have[96];
            IPU_FAIL_IF(w->ctx, !ipu_type_equal(given, &y.type), INVALID_ARGUMENT,
                        "grad_ys[%u] must have the type of ys[%u], %s; received %s", i,
                        i, ipu_type_print(&y.type, want, sizeof(want)),
                        ipu_type_print(given, have, sizeof(have)));
        }
        IPU_TRY(accumulate(w, y.producer, ys[i], gradient));
    }
    return IPU_OK;
}

static ipu_status
walk_back(walk *w)
{
    size_t own_count = ipu_block_of(w->graph, w->block)->nodes.count;
    for (uint32_t b = w->block.index + 1; b-- > 0;) {
        ipu_block block = {b};
        size_t count = b == w->block.index ? own_count
                                           : ipu_block_of(w->graph, block)->nodes.count;
        for (size_t i = count; i-- > 0;) {
            ipu_node node = ipu_block_of(w->graph, block)->nodes.items[i];
            if (ipu_node_of(w->graph, node)->first_output < w->value_count) {
                IPU_TRY(differentiate_node(w, node));
            }
        }
    }
    return IPU_OK;
}

ipu_status
ipu_gradients(ipu_ctx *ctx, ipu_graph *graph, ipu_block block, const ipu_value *ys,
              const ipu_value *grad_ys, uint32_t y_count, const ipu_value *xs,
              uint32_t x_count, ipu_value *out)
{
    walk w = {
        .ctx = ctx, .graph = graph, .block = block, .value_count = graph->values.count};
    size_t grads_bytes = 0;
    size_t depends_bytes = w.value_count * sizeof(bool);
    ipu_status status =
        ipu_mul_size(ctx, w.value_count, sizeof(ipu_value), &grads_bytes);
    if (status == IPU_OK) {
        status = ipu_alloc(ctx, depends_bytes, &w.depends);
    }
    if (status == IPU_OK) {
        status = ipu_alloc(ctx, grads_bytes, &w.grads);
    }
    if (status != IPU_OK) {
        goto done;
    }
    if (grads_bytes > 0) {
        memset(w.grads, 0xff, grads_bytes); /* IPU_NO_VALUE */
    }
    for (uint32_t i = 0; i < x_count; i++) {
        out[i] = IPU_NO_VALUE;
        w.depends[xs[i].index] |= carries_gradient(&w, xs[i]);
    }
    mark_dependent(&w);
    status = start_from(&w, ys, grad_ys, y_count);
    if (status == IPU_OK) {
        status = walk_back(&w);
    }
    for (uint32_t i = 0; i < x_count && status == IPU_OK; i++) {
        out[i] = w.grads[xs[i].index];
    }
done:
    IPU_ARRAY_FREE(ctx, &w.in_grads);
    IPU_ARRAY_FREE(ctx, &w.wanted);
    ipu_free(ctx, w.grads, w.grads != NULL ? grads_bytes : 0);
    ipu_free(ctx, w.depends, w.depends != NULL ? depends_bytes : 0);
    return status;
}
