/* SPDX-License-Identifier: MIT
 *
 * Reverse-mode differentiation. In: a block with ys and xs, and ones or grad_ys to
 * start from. Out: gradient nodes at the end of the block; the caller owns nothing but
 * the ids in `out`.
 *
 *   mark      which values the ys may depend on, and which of them depend on an x
 *             (mark.c); nothing else is looked at
 *   walk      back from the ys: a node whose output has a gradient and which depends on
 *             an x hands its rule the gradients of its outputs, and what the rule gives
 *             for each input is added to what is there. So only nodes on a path from xs
 *             to ys get gradient nodes, and partial gradients add in reverse program
 *             order. A node that holds blocks gets one that goes back through them;
 *             its blocks are new, and read forward values as if they could see them
 *   connect   says what of the forward blocks those blocks use, keeps it or makes it
 *             anew, and hands it to them (control.c)
 *
 * The walk adds nodes at the end of the block and in blocks of its own; only `connect`
 * changes what was there before, when no walk is under way. A gradient function of the
 * user's may differentiate by itself in the middle of a walk: that one's `connect` adds
 * nodes in front of others and outputs after others, which a walk over ids does not
 * mind.
 *
 * Values of blocks around this one are visible too. Blocks that a node holds are marked
 * and walked with it.
 *
 * One thread per graph. */
#include "autodiff/autodiff.h"

#include <string.h>

#include "autodiff/control.h"
#include "autodiff/rules.h"
#include "graph/block_op.h"
#include "graph/constant.h"

#define IPU_OP(name, text, min_in, max_in, outputs, dtypes, shape, cost, flags) \
    [IPU_OP_ID_##name] = ((flags)&IPU_OP_GRADIENT) != 0 ? ipu_gradient_##text : NULL,
static ipu_gradient_fn *const gradient_rules[IPU_OP_ID_COUNT] = {
#include "ops.def"
};
#undef IPU_OP

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

bool
ipu__walk_stops(const ipu__walk *w, ipu_node node)
{
    for (uint32_t i = 0; w->scope != NULL && i < w->scope->stop_count; i++) {
        ipu_node producer = ipu_value_of(w->graph, w->scope->stops[i])->producer;
        if (ipu_is_node(producer) && producer.index == node.index) {
            return true;
        }
    }
    return false;
}

/* For a window added to zeros, its node. */
static const ipu_node_data *
window_gradient(const ipu__walk *w, ipu_value gradient)
{
    const ipu_node_data *node = ipu_producer_of(w->graph, gradient);
    bool is_window = node != NULL && node->op == IPU_OP_ID_DYNAMIC_ADD_SLICE &&
                     ipu_constant_is(w->graph, node->inputs[0], 0.0);
    return is_window ? node : NULL;
}

/* The node whose placement the sum of two gradients of `value` gets. Gradients from
 * two stages of a pipeline meet where the value was made, which is after both:
 * concurrent stages have no order, and none can wait for the other. */
static ipu_node
place_of_sum(const ipu__walk *w, ipu_node like, ipu_value value, ipu_value gradient)
{
    const ipu_node_data *a = ipu_producer_of(w->graph, ipu__walk_gradient(w, value));
    const ipu_node_data *b = ipu_producer_of(w->graph, gradient);
    ipu_node producer = ipu_value_of(w->graph, value)->producer;
    bool is_of_two = a != NULL && b != NULL && a->placement.stage != b->placement.stage;
    return is_of_two && ipu_is_node(producer) ? producer : like;
}

ipu_status
ipu__walk_accumulate(ipu__walk *w, ipu_node like, ipu_value value, ipu_value gradient)
{
    ipu_value *slot = ipu__walk_slot(w, value);
    if (slot->index == IPU_NO_INDEX) {
        *slot = gradient;
        return IPU_OK;
    }
    like = place_of_sum(w, like, value, gradient);
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

/* Gives the rule of an op what came back to its outputs, and adds up what it gives. */
static ipu_status
apply_rule(ipu__walk *w, ipu_node id, const ipu_node_data *node)
{
    w->in_grads.count = 0;
    w->wanted.count = 0;
    w->out_grads.count = 0;
    IPU_TRY(IPU_ARRAY_RESERVE(w->ctx, &w->in_grads, node->input_count + 1));
    IPU_TRY(IPU_ARRAY_RESERVE(w->ctx, &w->wanted, node->input_count + 1));
    IPU_TRY(IPU_ARRAY_RESERVE(w->ctx, &w->out_grads, node->output_count + 1));
    for (uint32_t i = 0; i < node->input_count; i++) {
        w->in_grads.items[i] = IPU_NO_VALUE;
        w->wanted.items[i] = ipu__walk_depends(w, node->inputs[i]);
    }
    for (uint32_t k = 0; k < node->output_count; k++) {
        w->out_grads.items[k] = ipu__walk_gradient(w, node->outputs[k]);
    }
    ipu_rule rule = {.ctx = w->ctx,
                     .graph = w->graph,
                     .block = w->block,
                     .node = id,
                     .op = node->op,
                     .attrs = node->attrs,
                     .input_count = node->input_count,
                     .output_count = node->output_count,
                     .inputs = node->inputs,
                     .outputs = node->outputs,
                     .grads = w->out_grads.items,
                     .wanted = w->wanted.items,
                     .results = w->in_grads.items,
                     .status = IPU_OK};
    IPU_TRY(gradient_rules[node->op](&rule));
    for (uint32_t i = 0; i < node->input_count; i++) {
        if (w->wanted.items[i] && rule.results[i].index != IPU_NO_INDEX) {
            IPU_TRY(ipu__walk_accumulate(w, id, node->inputs[i], rule.results[i]));
        }
    }
    return IPU_OK;
}

static bool
is_reached(const ipu__walk *w, const ipu_node_data *node)
{
    for (uint32_t k = 0; k < node->output_count; k++) {
        if (ipu__walk_gradient(w, node->outputs[k]).index != IPU_NO_INDEX &&
            ipu__walk_depends(w, node->outputs[k])) {
            return true;
        }
    }
    return false;
}

static ipu_status
differentiate_node(ipu__walk *w, ipu_node id)
{
    /* A copy: the rule's nodes move the array. */
    const ipu_node_data node = *ipu_node_of(w->graph, id);
    if (ipu__walk_stops(w, id)) {
        return IPU_OK;
    }
    if (node.op == IPU_OP_ID_CUSTOM_GRADIENT && w->scope != NULL &&
        w->scope->custom != NULL) {
        return ipu__walk_custom(w, id);
    }
    if (!is_reached(w, &node)) {
        return IPU_OK;
    }
    if (node.op == IPU_OP_ID_PIPELINE) {
        return fail_opaque(w, &node);
    }
    if (ipu_node_holds_blocks(&node)) {
        return ipu_node_is_loop(&node) ? ipu__control_loop(w, id)
                                       : ipu__control_switch(w, id);
    }
    if (!ipu__walk_saw(w, id) || !node_depends(w, &node)) {
        return IPU_OK;
    }
    if ((ipu_node_flags(&node) & IPU_OP_OPAQUE) != 0) {
        return fail_opaque(w, &node);
    }
    return gradient_rules[node.op] == NULL ? IPU_OK : apply_rule(w, id, &node);
}

static ipu_status
start_from(ipu__walk *w, const ipu_value *grad_ys)
{
    for (uint32_t i = 0; i < w->y_count; i++) {
        const ipu_value_data y = *ipu_value_of(w->graph, w->ys[i]);
        if (!ipu_dtype_is_float(y.type.dtype)) {
            continue;
        }
        ipu_value gradient = grad_ys != NULL ? grad_ys[i] : IPU_NO_VALUE;
        if (gradient.index == IPU_NO_INDEX) {
            IPU_TRY(ipu_graph_emit_fill(w->ctx, w->graph, w->block, y.producer, &y.type,
                                        1.0, &gradient));
        } else {
            const ipu_type *given = &ipu_value_of(w->graph, gradient)->type;
            IPU_FAIL_IF(w->ctx, !ipu_type_equal(given, &y.type), INVALID_ARGUMENT,
                        "grad_ys[%u] must have the type of ys[%u], %s; received %s", i,
                        i, IPU_TYPE_TEXT(&y.type), IPU_TYPE_TEXT(given));
        }
        IPU_TRY(ipu__walk_accumulate(w, y.producer, w->ys[i], gradient));
    }
    return IPU_OK;
}

ipu_status
ipu__walk_back(ipu__walk *w, ipu_node last)
{
    ipu_node before;
    for (ipu_node node = last; ipu_is_node(node); node = before) {
        IPU_TRY(differentiate_node(w, node));
        before = ipu_node_of(w->graph, node)->previous;
    }
    return IPU_OK;
}

/* The blocks that w->block sees, innermost first, each from the node that was its last
 * one, `last` of w->block: gradient nodes come after it. A block is left when all of
 * its nodes that gradients may pass have been met. */
static ipu_status
walk_visible(ipu__walk *w, ipu_node last)
{
    for (size_t i = 0; i < w->stretches.count; i++) {
        ipu__stretch stretch = w->stretches.items[i];
        ipu_node before;
        bool is_own = stretch.block.index == w->block.index;
        ipu_node node = is_own ? last : ipu_block_of(w->graph, stretch.block)->last;
        for (; ipu_is_node(node) && stretch.nodes > 0; node = before) {
            if (ipu_id_map_has(&w->is_passed, node.index)) {
                IPU_TRY(differentiate_node(w, node));
                stretch.nodes--;
            }
            before = ipu_node_of(w->graph, node)->previous;
        }
    }
    return IPU_OK;
}

static ipu_status
walk_and_connect(ipu__walk *w, ipu_node last, const ipu_value *grad_ys)
{
    IPU_TRY(start_from(w, grad_ys));
    IPU_TRY(walk_visible(w, last));
    return ipu__control_connect(w);
}

static ipu_status
differentiate(ipu__walk *w, const ipu_value *grad_ys, ipu_value *out)
{
    IPU_TRY(ipu__walk_mark(w));
    IPU_TRY(ipu__control_prepare(w));
    ipu_node last = ipu_block_of(w->graph, w->block)->last;
    ipu_block block = w->block;
    ipu_status status = walk_and_connect(w, last, grad_ys);
    while (status != IPU_OK &&
           ipu_block_of(w->graph, block)->last.index != last.index) {
        ipu_graph_unlink(w->graph, ipu_block_of(w->graph, block)->last);
    }
    for (uint32_t i = 0; status == IPU_OK && i < w->x_count; i++) {
        out[i] = ipu__walk_depends(w, w->xs[i]) ? ipu__walk_gradient(w, w->xs[i])
                                                : IPU_NO_VALUE;
    }
    return status;
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
                   .xs = xs,
                   .x_count = x_count,
                   .ys = ys,
                   .y_count = y_count,
                   .scope = scope};
    ipu_status status = differentiate(&w, grad_ys, out);
    ipu__walk_free(&w);
    return status;
}
