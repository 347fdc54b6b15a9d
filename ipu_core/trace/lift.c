/* SPDX-License-Identifier: MIT
 *
 * Takes out of an open graph what one of its values needs, as a graph of its own whose
 * result is that value: so a variable's first value, made of ops in the middle of a
 * trace, is computed at once. It may depend on constants, random numbers, reads of
 * variables, and loops and branches of these; not on a parameter, a queue or anything
 * that writes.
 *
 * What a node needs is copied before the node, down a list of open nodes; so the time
 * is in proportion to what is copied. One thread per graph. */
#include "graph/block_op.h"
#include "graph/copy.h"
#include "graph/effects.h"
#include "trace/trace.h"

typedef struct lifting {
    ipu_ctx *ctx;
    const ipu_graph *from;
    ipu_copy copy;
    IPU_ARRAY(ipu_node) open; /* to be copied, each behind those that need it */
} lifting;

static ipu_status
fail_unknown(lifting *l)
{
    IPU_FAIL(
        l->ctx, INVALID_ARGUMENT,
        "the value depends on an argument of the function or on a loop, and is not "
        "known while the function is traced");
}

/* Opens the node that makes `value`, if that has no copy yet and lies outside of the
 * block `inside` and those in it. */
static ipu_status
need(lifting *l, ipu_value value, ipu_node inside)
{
    const ipu_value_data *data = ipu_value_of(l->from, value);
    if (ipu_copy_of(&l->copy, value).index != IPU_NO_INDEX ||
        (ipu_is_node(inside) && ipu_graph_is_inside(l->from, data->block, inside))) {
        return IPU_OK;
    }
    if (!ipu_is_node(data->producer)) {
        return fail_unknown(l);
    }
    return IPU_ARRAY_PUSH(l->ctx, &l->open, data->producer);
}

static ipu_status need_inputs(lifting *l, ipu_node id, ipu_node inside);

static ipu_status
need_of_blocks(lifting *l, const ipu_node_data *node, ipu_node inside)
{
    for (uint32_t k = 0; k < ipu_node_block_count(node); k++) {
        const ipu_block_data *held = ipu_block_of(l->from, ipu_node_block(node, k));
        for (ipu_node n = held->first; ipu_is_node(n); n = ipu_node_next(l->from, n)) {
            IPU_TRY(need_inputs(l, n, inside));
        }
        for (size_t i = 0; i < held->results.count; i++) {
            IPU_TRY(need(l, held->results.items[i], inside));
        }
    }
    return IPU_OK;
}

/* What a node uses, and what its blocks use from outside of `inside`. */
static ipu_status
need_inputs(lifting *l, ipu_node id, ipu_node inside)
{
    const ipu_node_data *node = ipu_node_of(l->from, id);
    if (ipu_node_writes(node)) {
        l->ctx->source = node->source;
        IPU_FAIL(l->ctx, INVALID_ARGUMENT,
                 "the value depends on %s, which runs when the program does",
                 ipu_op_info_of(node->op)->name);
    }
    for (uint32_t i = 0; i < node->input_count; i++) {
        IPU_TRY(need(l, node->inputs[i], inside));
    }
    return need_of_blocks(l, node, inside);
}

static bool
is_copied(const lifting *l, const ipu_node_data *node)
{
    return node->output_count > 0 &&
           ipu_copy_of(&l->copy, ipu_node_output(node, 0)).index != IPU_NO_INDEX;
}

static ipu_status
lift(lifting *l, ipu_value value)
{
    IPU_TRY(need(l, value, IPU_NO_NODE));
    while (l->open.count > 0) {
        ipu_node id = l->open.items[l->open.count - 1];
        const ipu_node_data *node = ipu_node_of(l->from, id);
        size_t before = l->open.count;
        if (!is_copied(l, node)) {
            IPU_TRY(need_inputs(l, id, ipu_node_holds_blocks(node) ? id : IPU_NO_NODE));
        }
        if (l->open.count == before) {
            l->open.count--;
            if (!is_copied(l, node)) {
                IPU_TRY(ipu_copy_node(&l->copy, id, (ipu_block){0}));
            }
        }
    }
    return ipu_graph_add_result(l->ctx, l->copy.to, (ipu_block){0},
                                ipu_copy_of(&l->copy, value));
}

ipu_status
ipu_trace_lift(ipu_ctx *ctx, const ipu_trace *trace, ipu_value value, ipu_graph **out)
{
    lifting l = {
        .ctx = ctx, .from = trace->graph, .copy = {.ctx = ctx, .from = trace->graph}};
    *out = NULL;
    IPU_TRY(ipu_graph_create(ctx, l.from->host, &l.copy.to));
    ipu_status status = lift(&l, value);
    if (status == IPU_OK) {
        *out = l.copy.to;
    } else {
        ipu_graph_free(ctx, l.copy.to);
    }
    ipu_copy_free(&l.copy);
    IPU_ARRAY_FREE(ctx, &l.open);
    return status;
}
