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
 * since it is made first. Blocks that a node holds are marked and walked with it.
 *
 * One thread per graph. */
#include "autodiff/autodiff.h"

#include <string.h>

#include "autodiff/rules.h"
#include "autodiff/walk.h"

#define IPU_OP(name, text, min_in, max_in, outputs, dtypes, flags) \
    [IPU_OP_ID_##name] = ((flags)&IPU_OP_GRADIENT) != 0 ? ipu_gradient_##text : NULL,
static ipu_gradient_fn *const gradient_rules[IPU_OP_ID_COUNT] = {
#include "ops.def"
};
#undef IPU_OP

static bool
carries_gradient(const ipu__walk *w, ipu_value value)
{
    return ipu_dtype_is_float(ipu_value_of(w->graph, value)->type.dtype);
}

static bool
node_depends(const ipu__walk *w, const ipu_node_data *node)
{
    for (uint32_t i = 0; i < node->input_count; i++) {
        if (ipu__walk_depends(w, node->inputs[i])) {
            return true;
        }
    }
    return false;
}

bool
ipu__walk_saw(const ipu__walk *w, ipu_node node)
{
    if (w->scope == NULL) {
        return true;
    }
    for (uint32_t i = 0; i < w->scope->span_count; i++) {
        if (node.index >= w->scope->spans[2 * i] &&
            node.index < w->scope->spans[2 * i + 1]) {
            return true;
        }
    }
    return false;
}

static bool mark_block(ipu__walk *w, ipu_block id);

/* Marks the value; tells whether it was not marked before. */
static bool
mark(ipu__walk *w, ipu_value value)
{
    if (!carries_gradient(w, value) || w->depends[value.index]) {
        return false;
    }
    w->depends[value.index] = true;
    return true;
}

/* What comes out of the body goes in again, so it is walked until nothing is new. */
static bool
mark_loop(ipu__walk *w, const ipu_node_data *node)
{
    uint32_t first = node->input_count - node->output_count;
    uint32_t last = ipu_node_block_count(node) - 1; /* the body */
    ipu_block body = ipu_node_block(node, last);
    const ipu_block_data *block = ipu_block_of(w->graph, body);
    bool any = false;
    bool again = true;
    for (uint32_t i = 0; i < node->output_count; i++) {
        if (ipu__walk_depends(w, node->inputs[first + i])) {
            any |= mark(w, block->params.items[i]);
        }
    }
    while (again) {
        again = mark_block(w, body);
        for (uint32_t i = 0; i < node->output_count; i++) {
            if (ipu__walk_depends(w, block->results.items[i])) {
                again |= mark(w, block->params.items[i]);
            }
        }
        any |= again;
    }
    for (uint32_t i = 0; i < node->output_count; i++) {
        if (ipu__walk_depends(w, block->params.items[i])) {
            any |= mark(w, ipu_node_output(node, i));
        }
    }
    return any;
}

static bool
mark_switch(ipu__walk *w, const ipu_node_data *node)
{
    bool any = false;
    for (uint32_t b = 0; b < ipu_node_block_count(node); b++) {
        ipu_block branch = ipu_node_block(node, b);
        any |= mark_block(w, branch);
        for (uint32_t i = 0; i < node->output_count; i++) {
            if (ipu__walk_depends(w,
                                  ipu_block_of(w->graph, branch)->results.items[i])) {
                any |= mark(w, ipu_node_output(node, i));
            }
        }
    }
    return any;
}

/* Marks what depends on marked values; tells whether anything is new. */
static bool
mark_block(ipu__walk *w, ipu_block id)
{
    const ipu_block_data *block = ipu_block_of(w->graph, id);
    bool any = false;
    for (size_t i = 0; i < block->nodes.count; i++) {
        const ipu_node_data *node = ipu_node_of(w->graph, block->nodes.items[i]);
        uint32_t flags = ipu_op_info_of(node->op)->flags;
        if (node->op == IPU_OP_ID_SWITCH) {
            any |= mark_switch(w, node);
        } else if ((flags & IPU_OP_BLOCK) != 0) {
            any |= mark_loop(w, node);
        } else if ((flags & (IPU_OP_GRADIENT | IPU_OP_OPAQUE)) != 0 &&
                   ipu__walk_saw(w, block->nodes.items[i]) && node_depends(w, node)) {
            for (uint32_t k = 0; k < node->output_count; k++) {
                any |= mark(w, ipu_node_output(node, k));
            }
        }
    }
    return any;
}

/* Whether w->block is `block` or lies in it, as far as that is known: a block without
 * an owner is still open, and those that were opened later lie in it. */
static bool
is_around(const ipu__walk *w, ipu_block block)
{
    ipu_node owner = ipu_block_of(w->graph, block)->owner;
    ipu_block at = w->block;
    if (owner.index == IPU_NO_INDEX) {
        return true;
    }
    while (at.index != block.index) {
        owner = ipu_block_of(w->graph, at)->owner;
        if (owner.index == IPU_NO_INDEX) {
            return false;
        }
        at = ipu_node_of(w->graph, owner)->block;
    }
    return true;
}

static void
mark_dependent(ipu__walk *w)
{
    for (uint32_t b = 0; b <= w->block.index; b++) {
        if (is_around(w, (ipu_block){b})) {
            mark_block(w, (ipu_block){b});
        }
    }
}

/* For a window added to zeros, its node. */
static const ipu_node_data *
window_gradient(const ipu__walk *w, ipu_value gradient)
{
    ipu_node id = ipu_value_of(w->graph, gradient)->producer;
    const ipu_node_data *node =
        id.index == IPU_NO_INDEX ? NULL : ipu_node_of(w->graph, id);
    if (node == NULL || node->op != IPU_OP_ID_DYNAMIC_ADD_SLICE) {
        return NULL;
    }
    id = ipu_value_of(w->graph, node->inputs[0])->producer;
    bool fill = id.index != IPU_NO_INDEX &&
                ipu_node_of(w->graph, id)->op == IPU_OP_ID_BROADCAST;
    return fill ? node : NULL;
}

ipu_status
ipu__walk_accumulate(ipu__walk *w, ipu_node like, ipu_value value, ipu_value gradient)
{
    ipu_value *slot = &w->grads[value.index];
    if (slot->index == IPU_NO_INDEX) {
        *slot = gradient;
        return IPU_OK;
    }
    const ipu_node_data *window = window_gradient(w, gradient);
    if (window != NULL) { /* it is added in place; its zeros are for prune */
        ipu_value inputs[2 + IPU_MAX_RANK];
        uint32_t count = window->input_count;
        for (uint32_t i = 1; i < count; i++) {
            inputs[i] = window->inputs[i];
        }
        inputs[0] = *slot;
        return ipu_graph_emit(w->ctx, w->graph, w->block, like,
                              IPU_OP_ID_DYNAMIC_ADD_SLICE, inputs, count, NULL, 0,
                              slot);
    }
    ipu_value terms[2] = {*slot, gradient};
    return ipu_graph_emit(w->ctx, w->graph, w->block, like, IPU_OP_ID_ADD, terms, 2,
                          NULL, 0, slot);
}

ipu_status
ipu__walk_zeros(ipu__walk *w, ipu_node like, const ipu_type *type, ipu_value *out)
{
    return ipu_graph_emit_fill(w->ctx, w->graph, w->block, like, type, 0.0, out);
}

static ipu_status
fail_opaque(ipu__walk *w, const ipu_node_data *node)
{
    w->ctx->source = node->source;
    IPU_FAIL(w->ctx, UNIMPLEMENTED, "%s has no gradient (%s:%d)",
             ipu_op_info_of(node->op)->name,
             node->source.file != NULL ? node->source.file : "unknown line",
             (int)node->source.line);
}

static ipu_status
differentiate_node(ipu__walk *w, ipu_node id)
{
    /* A copy: the rule's nodes move the array. */
    const ipu_node_data node = *ipu_node_of(w->graph, id);
    if (node.op == IPU_OP_ID_CUSTOM_GRADIENT && w->scope != NULL &&
        w->scope->custom != NULL) {
        return ipu__walk_custom(w, id);
    }
    bool reached = false;
    bool holds_blocks = (ipu_op_info_of(node.op)->flags & IPU_OP_BLOCK) != 0;
    for (uint32_t k = 0; k < node.output_count; k++) {
        reached |= w->grads[node.first_output + k].index != IPU_NO_INDEX &&
                   (!holds_blocks || w->depends[node.first_output + k]);
    }
    if (reached && holds_blocks) {
        return ipu__walk_control(w, id);
    }
    if (!reached || !ipu__walk_saw(w, id) || !node_depends(w, &node)) {
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
            IPU_TRY(ipu__walk_accumulate(w, id, node.inputs[i], rule.results[i]));
        }
    }
    return IPU_OK;
}

static ipu_status
start_from(ipu__walk *w, const ipu_value *ys, const ipu_value *grad_ys,
           uint32_t y_count)
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
        IPU_TRY(ipu__walk_accumulate(w, y.producer, ys[i], gradient));
    }
    return IPU_OK;
}

ipu_status
ipu__walk_block(ipu__walk *w, ipu_block block, size_t count)
{
    for (size_t i = count; i-- > 0;) {
        /* Nodes that a step puts in front of its own are not met. */
        ipu_node node = ipu_block_of(w->graph, block)->nodes.items[i];
        if (ipu_node_of(w->graph, node)->first_output < w->value_count) {
            IPU_TRY(differentiate_node(w, node));
        }
    }
    return IPU_OK;
}

static ipu_status
walk_back(ipu__walk *w)
{
    for (uint32_t b = w->block.index + 1; b-- > 0;) {
        ipu_block block = {b};
        if (is_around(w, block)) {
            IPU_TRY(
                ipu__walk_block(w, block, ipu_block_of(w->graph, block)->nodes.count));
        }
    }
    return IPU_OK;
}

/* Marks what depends on the xs; with a scope, on those that its watched values lead
 * to. `out` is room for the xs. */
static void
mark_from(ipu__walk *w, const ipu_value *xs, uint32_t x_count, ipu_value *out)
{
    for (uint32_t i = 0; w->scope != NULL && i < w->scope->watched_count; i++) {
        uint32_t index = w->scope->watched[i].index;
        w->depends[index] |= carries_gradient(w, w->scope->watched[i]);
    }
    if (w->scope != NULL) {
        mark_dependent(w);
    }
    for (uint32_t i = 0; i < x_count; i++) {
        bool reached = w->scope == NULL || w->depends[xs[i].index];
        out[i] = reached && carries_gradient(w, xs[i]) ? xs[i] : IPU_NO_VALUE;
    }
    if (w->value_count > 0) {
        memset(w->depends, 0, w->value_count * sizeof(bool));
    }
    for (uint32_t i = 0; i < x_count; i++) {
        if (out[i].index != IPU_NO_INDEX) {
            w->depends[out[i].index] = true;
        }
    }
    mark_dependent(w);
}

ipu_status
ipu_gradients(ipu_ctx *ctx, ipu_graph *graph, ipu_block block, const ipu_value *ys,
              const ipu_value *grad_ys, uint32_t y_count, const ipu_value *xs,
              uint32_t x_count, ipu_value *out)
{
    return ipu_gradients_within(ctx, graph, block, ys, grad_ys, y_count, xs, x_count,
                                NULL, out);
}

ipu_status
ipu_gradients_within(ipu_ctx *ctx, ipu_graph *graph, ipu_block block,
                     const ipu_value *ys, const ipu_value *grad_ys, uint32_t y_count,
                     const ipu_value *xs, uint32_t x_count,
                     const ipu_gradient_scope *scope, ipu_value *out)
{
    ipu__walk w = {.ctx = ctx,
                   .graph = graph,
                   .block = block,
                   .value_count = graph->values.count,
                   .xs = xs,
                   .x_count = x_count,
                   .scope = scope};
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
    mark_from(&w, xs, x_count, out);
    status = start_from(&w, ys, grad_ys, y_count);
    if (status == IPU_OK) {
        status = walk_back(&w);
    }
    for (uint32_t i = 0; i < x_count && status == IPU_OK; i++) {
        out[i] = w.depends[xs[i].index] ? w.grads[xs[i].index] : IPU_NO_VALUE;
    }
done:
    IPU_ARRAY_FREE(ctx, &w.in_grads);
    IPU_ARRAY_FREE(ctx, &w.wanted);
    ipu_free(ctx, w.grads, w.grads != NULL ? grads_bytes : 0);
    ipu_free(ctx, w.depends, w.depends != NULL ? depends_bytes : 0);
    return status;
}
