/* SPDX-License-Identifier: MIT
 *
 * Takes out of an open graph what one of its values needs, as a graph of its own whose
 * result is that value: so a variable's first value, made of ops in the middle of a
 * trace, is computed at once. It may depend on constants, random numbers, reads of
 * variables, and loops and branches of these; not on a parameter, a queue or anything
 * that writes.
 *
 * A node's operands are copied before the node, down a list of open nodes; so the time
 * is in proportion to what is copied. One thread per graph. */
#include "graph/copy.h"
#include "graph/effects.h"
#include "graph/users.h"
#include "trace/trace.h"

typedef struct lifting {
    ipu_ctx *ctx;
    const ipu_graph *from;
    ipu_copy copy;
    IPU_ARRAY(ipu_node) open; /* to be copied, each after those that need it */
    ipu_node next;            /* the last of these */
} lifting;

/* Opens the node that makes a value, if that has no copy yet and lies outside of the
 * node that is copied next. */
static ipu_status
need(void *state, ipu_value *place, ipu_node user)
{
    lifting *l = state;
    const ipu_value_data *data = ipu_value_of(l->from, *place);
    if (ipu_copy_of(&l->copy, *place).index != IPU_NO_INDEX ||
        ipu_graph_is_inside(l->from, data->block, l->next)) {
        return IPU_OK;
    }
    (void)user;
    IPU_FAIL_IF(
        l->ctx, !ipu_is_node(data->producer), INVALID_ARGUMENT,
        "the value depends on an argument of the function or on a loop, and is not "
        "known while the function is traced");
    return IPU_ARRAY_PUSH(l->ctx, &l->open, data->producer);
}

/* Nothing that is copied, nor what its blocks hold, may write. */
static ipu_status
check_writes(lifting *l, ipu_node id)
{
    const ipu_node_data *node = ipu_node_of(l->from, id);
    if (ipu_node_writes(node)) {
        l->ctx->source = node->source;
        IPU_FAIL(l->ctx, INVALID_ARGUMENT,
                 "the value depends on %s, which runs when the program does",
                 ipu_op_info_of(node->op)->name);
    }
    for (uint32_t k = 0; k < ipu_node_block_count(node); k++) {
        IPU_EACH_NODE(n, l->from, ipu_node_block(node, k)) {
            IPU_TRY(check_writes(l, n));
        }
    }
    return IPU_OK;
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
    IPU_TRY(need(l, &value, IPU_NO_NODE));
    while (l->open.count > 0) {
        ipu_node id = l->open.items[l->open.count - 1];
        l->next = id;
        const ipu_node_data *node = ipu_node_of(l->from, id);
        size_t before = l->open.count;
        if (!is_copied(l, node)) {
            IPU_TRY(check_writes(l, id));
            IPU_TRY(ipu_node_each_use(l->from, id, need, l));
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
        .ctx = ctx, .from = trace->graph, .copy = {.ctx = ctx, .from = trace->graph},
        .next = IPU_NO_NODE};
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
