/* SPDX-License-Identifier: MIT
 *
 * Cuts a traced function and its gradient, which was traced after it, into two graphs:
 * one for the call, one for the way back, which may run much later. In: the trace, and
 * the node after which the gradient begins. Out: the trace without what follows it,
 * with more results: what the other graph needs of its values. That graph has the
 * trace's parameters, then those values.
 *
 * Constants, held tensors and fills are in both. Names of source files belong to
 * whoever made the trace. One thread per graph. */
#include "graph/copy.h"
#include "graph/users.h"
#include "trace/trace.h"

typedef struct splitting {
    ipu_ctx *ctx;
    ipu_graph *front;
    ipu_copy copy;  /* to the graph of the way back */
    bool *is_early; /* by node: in the main block, in front of the cut */
    bool *is_again; /* by node: early, and in the graph of the way back too */
    bool *is_seen;  /* by value */
    IPU_ARRAY(ipu_value) saved;
} splitting;

/* Whether a value is a constant, or a view or fill of one; such are made again. */
static bool
is_given(const splitting *s, ipu_value value)
{
    const ipu_node_data *node = ipu_producer_of(s->front, value);
    while (node != NULL && node->input_count == 1 &&
           (node->op == IPU_OP_ID_BROADCAST ||
            (ipu_node_flags(node) & IPU_OP_VIEW) != 0)) {
        node = ipu_producer_of(s->front, node->inputs[0]);
    }
    return node != NULL &&
           (node->op == IPU_OP_ID_CONSTANT || node->op == IPU_OP_ID_HELD);
}

/* A value that the way back uses: saved if it is made in front of the cut, or the nodes
 * noted that make it again. */
static ipu_status
need(void *state, ipu_value *place, ipu_node user)
{
    splitting *s = state;
    const ipu_value value = *place;
    (void)user;
    ipu_node id = ipu_value_of(s->front, value)->producer;
    if (!ipu_is_node(id) || !s->is_early[id.index] || s->is_seen[value.index]) {
        return IPU_OK;
    }
    s->is_seen[value.index] = true;
    if (!is_given(s, value)) {
        return IPU_ARRAY_PUSH(s->ctx, &s->saved, value);
    }
    while (!s->is_again[id.index]) {
        const ipu_node_data *node = ipu_node_of(s->front, id);
        s->is_again[id.index] = true;
        if (node->input_count > 0) {
            id = ipu_value_of(s->front, node->inputs[0])->producer;
        }
    }
    return IPU_OK;
}

/* A parameter of the way back that stands for a value of the trace. */
static ipu_status
add_param(splitting *s, ipu_value value)
{
    ipu_type type = ipu_value_of(s->front, value)->type;
    ipu_value param;
    IPU_TRY(ipu_graph_add_param(s->ctx, s->copy.to, (ipu_block){0}, &type, &param));
    return ipu_copy_say(&s->copy, value, param);
}

/* The main block of the way back: parameters, what is made again, what is after the
 * cut. */
static ipu_status
fill_back(splitting *s, ipu_node mark, const ipu_value *gradients, uint32_t count)
{
    const ipu_block_data *main_block = ipu_block_of(s->front, (ipu_block){0});
    const ipu_node main_first = main_block->first;
    for (size_t i = 0; i < main_block->params.count; i++) {
        IPU_TRY(add_param(s, main_block->params.items[i]));
    }
    for (size_t i = 0; i < s->saved.count; i++) {
        IPU_TRY(add_param(s, s->saved.items[i]));
        IPU_TRY(
            ipu_graph_add_result(s->ctx, s->front, (ipu_block){0}, s->saved.items[i]));
    }
    for (ipu_node n = main_first; ipu_is_node(n); n = ipu_node_next(s->front, n)) {
        bool in_front = s->is_early[n.index];
        if (n.index != mark.index && (!in_front || s->is_again[n.index])) {
            IPU_TRY(ipu_copy_node(&s->copy, n, (ipu_block){0}));
        }
    }
    for (uint32_t i = 0; i < count; i++) {
        IPU_TRY(ipu_graph_add_result(s->ctx, s->copy.to, (ipu_block){0},
                                     ipu_copy_of(&s->copy, gradients[i])));
    }
    return IPU_OK;
}

static ipu_status
split(splitting *s, ipu_node mark, uint32_t inputs, const ipu_value *gradients,
      uint32_t count)
{
    ipu_block main_block = {0};
    size_t nodes = s->front->nodes.count * sizeof(bool);
    IPU_TRY(ipu_alloc(s->ctx, nodes, &s->is_early));
    IPU_TRY(ipu_alloc(s->ctx, nodes, &s->is_again));
    IPU_TRY(ipu_alloc(s->ctx, s->front->values.count * sizeof(bool), &s->is_seen));
    IPU_TRY(ipu_graph_create(s->ctx, s->front->host, &s->copy.to));
    for (ipu_node n = ipu_block_first(s->front, main_block); n.index != mark.index;
         n = ipu_node_next(s->front, n)) {
        s->is_early[n.index] = true;
    }
    for (ipu_node n = ipu_node_next(s->front, mark); ipu_is_node(n);
         n = ipu_node_next(s->front, n)) {
        IPU_TRY(ipu_node_each_use(s->front, n, need, s));
    }
    for (uint32_t i = 0; i < count; i++) {
        ipu_value gradient = gradients[i];
        IPU_TRY(need(s, &gradient, IPU_NO_NODE));
    }
    IPU_TRY(fill_back(s, mark, gradients, count));
    ipu_node before;
    for (ipu_node n = ipu_block_of(s->front, main_block)->last;; n = before) {
        before = ipu_node_of(s->front, n)->previous;
        ipu_graph_unlink(s->front, n);
        if (n.index == mark.index) {
            break;
        }
    }
    ipu_block_of(s->front, main_block)->params.count = inputs;
    return IPU_OK;
}

ipu_status
ipu_trace_split(ipu_ctx *ctx, ipu_trace *trace, ipu_node mark, uint32_t inputs,
                const ipu_value *gradients, uint32_t count, ipu_graph **out,
                uint32_t *saved)
{
    splitting s = {
        .ctx = ctx, .front = trace->graph, .copy = {.ctx = ctx, .from = trace->graph}};
    const size_t nodes = s.front->nodes.count * sizeof(bool);
    const size_t values = s.front->values.count * sizeof(bool);
    *out = NULL;
    IPU_FAIL_IF(ctx,
                trace->open.count != 1 || mark.index >= s.front->nodes.count ||
                    ipu_node_of(s.front, mark)->block.index != 0 ||
                    inputs > ipu_block_of(s.front, (ipu_block){0})->params.count,
                INTERNAL, "a trace cannot be cut here");
    ipu_status status = split(&s, mark, inputs, gradients, count);
    if (status == IPU_OK) {
        *out = s.copy.to;
        *saved = (uint32_t)s.saved.count;
    } else {
        ipu_graph_free(ctx, s.copy.to);
    }
    ipu_copy_free(&s.copy);
    ipu_free(ctx, s.is_early, nodes);
    ipu_free(ctx, s.is_again, nodes);
    ipu_free(ctx, s.is_seen, values);
    IPU_ARRAY_FREE(ctx, &s.saved);
    return status;
}
