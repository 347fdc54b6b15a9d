/* SPDX-License-Identifier: MIT
 *
 * Traces: scopes over the graph builder. */
#include "trace/trace.h"

#include "graph/constant.h"

enum { MAX_NODE_ATTRS = 32 };

ipu_status
ipu_trace_create(ipu_ctx *ctx, bool host, ipu_trace **out)
{
    ipu_trace *trace;
    *out = NULL;
    IPU_TRY(ipu_alloc(ctx, sizeof(*trace), &trace));
    ipu_status status = ipu_graph_create(ctx, host, &trace->graph);
    if (status == IPU_OK) {
        trace->placement = ipu_graph_placement(trace->graph);
        status = IPU_ARRAY_PUSH(ctx, &trace->open, ((ipu_block){0}));
    }
    if (status != IPU_OK) {
        ipu_trace_free(ctx, trace);
        return status;
    }
    *out = trace;
    return IPU_OK;
}

void
ipu_trace_free(ipu_ctx *ctx, ipu_trace *trace)
{
    if (trace == NULL) {
        return;
    }
    ipu_graph_free(ctx, trace->graph);
    IPU_ARRAY_FREE(ctx, &trace->open);
    IPU_ARRAY_FREE(ctx, &trace->lent);
    IPU_ARRAY_FREE(ctx, &trace->dropped);
    ipu_free(ctx, trace, sizeof(*trace));
}

ipu_status
ipu_trace_open_block(ipu_ctx *ctx, ipu_trace *trace, ipu_block *out)
{
    IPU_TRY(IPU_ARRAY_RESERVE(ctx, &trace->open, 1));
    IPU_TRY(ipu_graph_add_block(ctx, trace->graph, ipu_trace_block(trace), out));
    trace->open.items[trace->open.count++] = *out;
    return IPU_OK;
}

ipu_status
ipu_trace_reopen_block(ipu_ctx *ctx, ipu_trace *trace, ipu_block block)
{
    IPU_FAIL_IF(ctx,
                block.index == 0 || block.index >= trace->graph->blocks.count ||
                    ipu_block_of(trace->graph, block)->owner.index != IPU_NO_INDEX,
                INTERNAL, "block %u cannot be opened again", block.index);
    return IPU_ARRAY_PUSH(ctx, &trace->open, block);
}

ipu_status
ipu_trace_close_block(ipu_ctx *ctx, ipu_trace *trace, ipu_block block)
{
    IPU_FAIL_IF(ctx,
                trace->open.count < 2 || ipu_trace_block(trace).index != block.index,
                INTERNAL, "block %u is not the innermost open one", block.index);
    trace->open.count--;
    return IPU_OK;
}

ipu_status
ipu_trace_enter(ipu_ctx *ctx, ipu_trace *trace, ipu_block block, ipu_block home)
{
    IPU_TRY(IPU_ARRAY_RESERVE(ctx, &trace->lent, 1));
    IPU_TRY(IPU_ARRAY_PUSH(ctx, &trace->open, block));
    trace->lent.items[trace->lent.count++] = home;
    return IPU_OK;
}

void
ipu_trace_leave(ipu_trace *trace)
{
    trace->open.count--;
    trace->lent.count--;
}

/* Whether the block is one that was lent, or around it. */
static bool
is_lent(const ipu_trace *trace, ipu_block block)
{
    for (size_t i = 0; i < trace->lent.count; i++) {
        if (ipu_graph_is_around(trace->graph, block, trace->lent.items[i])) {
            return true;
        }
    }
    return false;
}

static bool
is_open(const ipu_trace *trace, ipu_block block)
{
    for (size_t i = 0; i < trace->open.count; i++) {
        if (trace->open.items[i].index == block.index) {
            return true;
        }
    }
    return false;
}

/* Whether a block will be part of the program: it is open, or held by one that is. */
static bool
is_kept(const ipu_trace *trace, ipu_block block)
{
    while (!is_open(trace, block)) {
        if (!ipu_is_node(ipu_block_of(trace->graph, block)->owner)) {
            return false;
        }
        block = ipu_block_of(trace->graph, block)->parent;
    }
    return true;
}

ipu_status
ipu_trace_drop_block(ipu_ctx *ctx, ipu_trace *trace, ipu_block block)
{
    return IPU_ARRAY_PUSH(ctx, &trace->dropped, block);
}

/* Whether a block, or one around it, was dropped. */
static bool
is_dropped(const ipu_trace *trace, ipu_block block)
{
    for (size_t i = 0; i < trace->dropped.count; i++) {
        if (ipu_graph_is_around(trace->graph, trace->dropped.items[i], block)) {
            return true;
        }
    }
    return false;
}

bool
ipu_trace_uses(const ipu_trace *trace, ipu_op op, ipu_resource_kind kind, int64_t id)
{
    const ipu_graph *graph = trace->graph;
    for (size_t i = 0; i < graph->nodes.count; i++) {
        const ipu_node_data *node = &graph->nodes.items[i];
        if (node->op != op) {
            continue;
        }
        int64_t index = ipu_attrs_int(node->attrs, IPU_ATTR_RESOURCE, -1);
        const ipu_resource *resource = &graph->resources.items[index];
        if (resource->kind == kind && resource->id == id &&
            !is_dropped(trace, node->block)) {
            return true;
        }
    }
    return false;
}

bool
ipu_trace_visible(const ipu_trace *trace, ipu_value value)
{
    if (value.index >= trace->graph->values.count) {
        return false;
    }
    ipu_block block = ipu_value_of(trace->graph, value)->block;
    return is_open(trace, block) || is_lent(trace, block);
}

bool
ipu_trace_reaches(const ipu_trace *trace, ipu_value value)
{
    return is_kept(trace, ipu_value_of(trace->graph, value)->block);
}

ipu_trace_mark
ipu_trace_recompute(ipu_trace *trace, int64_t ordinal)
{
    ipu_trace_mark before = {trace->next_ordinal, trace->recomputation,
                             (uint32_t)trace->graph->nodes.count};
    trace->next_ordinal = ordinal;
    trace->recomputation = ++trace->recomputations;
    return before;
}

static bool
make_alike(const ipu_graph *graph, const ipu_node_data *a, const ipu_node_data *b)
{
    bool alike = a->op == b->op && a->output_count == b->output_count;
    for (uint32_t i = 0; alike && i < a->output_count; i++) {
        alike = ipu_type_equal(&ipu_value_of(graph, ipu_node_output(a, i))->type,
                               &ipu_value_of(graph, ipu_node_output(b, i))->type);
    }
    return alike;
}

/* Says of the nodes from `again` on which of [begin, end) they make a second time: the
 * same ones, in the same order, except a few that are needed once alone. */
static void
number_again(ipu_graph *graph, uint32_t begin, uint32_t end, uint32_t again)
{
    enum { MOST_SKIPPED = 64 };
    for (uint32_t i = again; i < graph->nodes.count; i++) {
        ipu_node_data *node = &graph->nodes.items[i];
        for (uint32_t k = begin; k < end && k - begin < MOST_SKIPPED; k++) {
            if (make_alike(graph, &graph->nodes.items[k], node)) {
                node->number = graph->nodes.items[k].number;
                begin = k + 1;
                break;
            }
        }
    }
}

void
ipu_trace_resume(ipu_trace *trace, ipu_trace_mark mark, uint32_t begin, uint32_t end)
{
    number_again(trace->graph, begin, end, mark.node_count);
    trace->next_ordinal = mark.next_ordinal;
    trace->recomputation = mark.recomputation;
}

static void
mark_backward(ipu_graph *graph, ipu_node first)
{
    for (ipu_node n = first; ipu_is_node(n); n = ipu_node_next(graph, n)) {
        ipu_node_data *node = ipu_node_of(graph, n);
        node->placement.phase = IPU_PHASE_BACKWARD;
        for (uint32_t k = 0; k < ipu_node_block_count(node); k++) {
            mark_backward(graph, ipu_block_first(graph, ipu_node_block(node, k)));
        }
    }
}

void
ipu_trace_mark_backward(ipu_trace *trace, ipu_node after)
{
    mark_backward(trace->graph,
                  ipu_is_node(after)
                      ? ipu_node_next(trace->graph, after)
                      : ipu_block_first(trace->graph, ipu_trace_block(trace)));
}

ipu_status
ipu_trace_node(ipu_ctx *ctx, ipu_trace *trace, ipu_op op, const ipu_value *inputs,
               uint32_t input_count, const ipu_attr *attrs, uint32_t attr_count,
               ipu_source source, const char *name, ipu_node *out)
{
    ipu_attr with_ordinal[MAX_NODE_ATTRS];
    ipu_node_request request = {.op = op,
                                .attrs = attrs,
                                .attr_count = attr_count,
                                .placement = trace->placement,
                                .recomputation = trace->recomputation,
                                .source = source,
                                .name = name != NULL ? name : trace->scope};
    if (ipu_op_info_of(op)->flags & IPU_OP_RANDOM) {
        IPU_FAIL_IF(ctx, attr_count >= MAX_NODE_ATTRS, INTERNAL, "%u attributes",
                    attr_count);
        ipu_copy_bytes(with_ordinal, attrs, attr_count * sizeof(*attrs));
        with_ordinal[attr_count] =
            ipu_attr_int(IPU_ATTR_ORDINAL, trace->next_ordinal++);
        request.attrs = with_ordinal;
        request.attr_count++;
    }
    return ipu_graph_add_node(ctx, trace->graph, ipu_trace_block(trace), &request,
                              inputs, input_count, out);
}

ipu_status
ipu_trace_constant(ipu_ctx *ctx, ipu_trace *trace, const ipu_type *type,
                   const void *data, ipu_value *out)
{
    IPU_FAIL_IF(ctx, ipu_type_bytes(type) > UINT32_MAX, RESOURCE_EXHAUSTED,
                "a constant of %zu bytes; pass it as an argument instead",
                ipu_type_bytes(type));
    return ipu_constant_emit(ctx, trace->graph, (ipu_block){0}, IPU_NO_NODE, type, data,
                             out);
}

ipu_status
ipu_trace_held(ipu_ctx *ctx, ipu_trace *trace, const ipu_type *type, const void *data,
               ipu_value *out)
{
    ipu_held held = {data, ipu_type_bytes(type)};
    ipu_attr attrs[] = {
        ipu_attr_int(IPU_ATTR_DTYPE, (int64_t)type->dtype),
        ipu_attr_shape(&type->shape),
        ipu_attr_int(IPU_ATTR_INDEX, (int64_t)trace->graph->held.count),
    };
    IPU_TRY(IPU_ARRAY_PUSH(ctx, &trace->graph->held, held));
    return ipu_graph_emit(ctx, trace->graph, (ipu_block){0}, IPU_NO_NODE,
                          IPU_OP_ID_HELD, NULL, 0, attrs, 3, out);
}
