/* SPDX-License-Identifier: MIT
 *
 * Takes out of an open graph what one of its values needs, as a graph of its own whose
 * result is that value: so a variable's first value, made of ops in the middle of a
 * trace, is computed at once. It may depend on constants, random numbers and reads of
 * variables; not on a parameter, a queue or a loop.
 *
 * Inputs are made before their users, so one walk down the node ids marks what is
 * needed and one walk up copies it. One thread per graph. */
#include <string.h>

#include "trace/trace.h"

typedef struct lifting {
    ipu_ctx *ctx;
    const ipu_graph *from;
    ipu_graph *to;
    bool *needed;      /* by node */
    ipu_value *copies; /* by value */
} lifting;

static ipu_status
need(lifting *l, ipu_value value)
{
    const ipu_value_data *data = ipu_value_of(l->from, value);
    IPU_FAIL_IF(l->ctx, data->producer.index == IPU_NO_INDEX, INVALID_ARGUMENT,
                "the value depends on an argument of the function or on a loop, and is "
                "not known while the function is traced");
    l->needed[data->producer.index] = true;
    return IPU_OK;
}

static ipu_status
mark(lifting *l, ipu_value value)
{
    IPU_TRY(need(l, value));
    for (uint32_t i = ipu_value_of(l->from, value)->producer.index + 1; i-- > 0;) {
        const ipu_node_data *node = ipu_node_of(l->from, (ipu_node){i});
        if (!l->needed[i]) {
            continue;
        }
        const ipu_op_info *info = ipu_op_info_of(node->op);
        if ((info->flags & (IPU_OP_WRITES | IPU_OP_BLOCK)) != 0) {
            l->ctx->source = node->source;
            IPU_FAIL(l->ctx, INVALID_ARGUMENT,
                     "the value depends on %s, which runs when the program does",
                     info->name);
        }
        for (uint32_t k = 0; k < node->input_count; k++) {
            IPU_TRY(need(l, node->inputs[k]));
        }
    }
    return IPU_OK;
}

static ipu_status
copy_node(lifting *l, const ipu_node_data *node)
{
    ipu_attr attrs[32];
    ipu_value inputs[256];
    ipu_node made;
    IPU_FAIL_IF(l->ctx, node->attrs.count > 32 || node->input_count > 256, INTERNAL,
                "%s is too large to lift", ipu_op_info_of(node->op)->name);
    for (uint32_t i = 0; i < node->attrs.count; i++) {
        attrs[i] = node->attrs.items[i];
        if (attrs[i].key == IPU_ATTR_RESOURCE) {
            uint32_t index;
            IPU_TRY(ipu_graph_add_resource(
                l->ctx, l->to, &l->from->resources.items[attrs[i].as.i], &index));
            attrs[i].as.i = index;
        }
    }
    for (uint32_t i = 0; i < node->input_count; i++) {
        inputs[i] = l->copies[node->inputs[i].index];
    }
    ipu_node_request request = {.op = node->op,
                                .attrs = attrs,
                                .attr_count = node->attrs.count,
                                .placement = node->placement,
                                .source = node->source};
    IPU_TRY(ipu_graph_add_node(l->ctx, l->to, (ipu_block){0}, &request, inputs,
                               node->input_count, &made));
    for (uint32_t k = 0; k < node->output_count; k++) {
        l->copies[node->first_output + k] =
            ipu_node_output(ipu_node_of(l->to, made), k);
    }
    return IPU_OK;
}

static ipu_status
copy_needed(lifting *l, ipu_value value)
{
    for (size_t i = 0; i < l->from->held.count; i++) {
        IPU_TRY(IPU_ARRAY_PUSH(l->ctx, &l->to->held, l->from->held.items[i]));
    }
    for (uint32_t i = 0; i < l->from->nodes.count; i++) {
        if (l->needed[i]) {
            IPU_TRY(copy_node(l, ipu_node_of(l->from, (ipu_node){i})));
        }
    }
    return ipu_graph_add_result(l->ctx, l->to, (ipu_block){0}, l->copies[value.index]);
}

ipu_status
ipu_trace_lift(ipu_ctx *ctx, const ipu_trace *trace, ipu_value value, ipu_graph **out)
{
    lifting l = {.ctx = ctx, .from = trace->graph};
    size_t needed_bytes = l.from->nodes.count * sizeof(bool);
    size_t copies_bytes = l.from->values.count * sizeof(ipu_value);
    *out = NULL;
    ipu_status status = ipu_alloc(ctx, needed_bytes, &l.needed);
    if (status == IPU_OK) {
        status = ipu_alloc(ctx, copies_bytes, &l.copies);
    }
    if (status == IPU_OK) {
        status = ipu_graph_create(ctx, l.from->host, &l.to);
    }
    if (status == IPU_OK) {
        status = mark(&l, value);
    }
    if (status == IPU_OK) {
        status = copy_needed(&l, value);
    }
    if (status == IPU_OK) {
        *out = l.to;
    } else {
        ipu_graph_free(ctx, l.to);
    }
    ipu_free(ctx, l.copies, l.copies == NULL ? 0 : copies_bytes);
    ipu_free(ctx, l.needed, l.needed == NULL ? 0 : needed_bytes);
    return status;
}
