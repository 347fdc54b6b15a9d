/* SPDX-License-Identifier: MIT
 *
 * Functions with a gradient of their own. In: CUSTOM_GRADIENT nodes, one for each
 * result of one call. Out: what the gradient function of the scope gives for what the
 * call was given.
 *
 * The nodes of a call follow each other, so that nothing which uses one lies between
 * them: on the way back the first one is met last, when the gradients of all results
 * are complete, and it speaks for all. Nothing goes back to the results themselves: the
 * gradient function stands for whatever the function did to make them. */
#include "autodiff/walk.h"

/* The call that a node is a result of; -1: none. */
static int64_t
call_of(const ipu__walk *w, ipu_node node)
{
    if (!ipu_is_node(node)) {
        return -1;
    }
    const ipu_node_data *data = ipu_node_of(w->graph, node);
    return data->op == IPU_OP_ID_CUSTOM_GRADIENT
               ? ipu_attrs_int(data->attrs, IPU_ATTR_INDEX, -1)
               : -1;
}

/* The gradient of a result, if there is one, as a value of w->block: the function
 * cannot know of the blocks around that one, which are as new. */
static ipu_status
bring(ipu__walk *w, ipu_node id, ipu_value output, ipu_value *gradient)
{
    *gradient = ipu__walk_gradient(w, output);
    if (gradient->index == IPU_NO_INDEX) {
        return IPU_OK;
    }
    return ipu_graph_emit(w->ctx, w->graph, w->block, id, IPU_OP_ID_IDENTITY, gradient,
                          1, NULL, 0, gradient);
}

static ipu_status
give(ipu__walk *w, ipu_node id, uint32_t input, ipu_value gradient)
{
    ipu_value x = ipu_node_of(w->graph, id)->inputs[input];
    if (gradient.index == IPU_NO_INDEX || !ipu__walk_depends(w, x)) {
        return IPU_OK;
    }
    const ipu_type *type = &ipu_value_of(w->graph, x)->type;
    const ipu_type *given = &ipu_value_of(w->graph, gradient)->type;
    if (!ipu_type_equal(type, given)) {
        w->ctx->source = ipu_node_of(w->graph, id)->source;
        IPU_FAIL(w->ctx, INVALID_ARGUMENT,
                 "the gradient of an argument must have its type, %s; the gradient "
                 "function of this call gives %s",
                 IPU_TYPE_TEXT(type), IPU_TYPE_TEXT(given));
    }
    return ipu__walk_accumulate(w, id, x, gradient);
}

static ipu_status
differentiate(ipu__walk *w, ipu_node id, const ipu_node_data *node, uint32_t results,
              ipu_value *values, const bool *is_wanted)
{
    ipu_custom_gradient call = {.index = call_of(w, id),
                                .block = w->block,
                                .home = node->block,
                                .grads = values,
                                .grad_count = results,
                                .results = values + results,
                                .is_wanted = is_wanted,
                                .result_count = node->input_count - 1};
    ipu_node result = id;
    for (uint32_t k = 0; k < results; k++) {
        ipu_value output = ipu_node_output(ipu_node_of(w->graph, result), 0);
        IPU_TRY(bring(w, id, output, &values[k]));
        result = ipu_node_next(w->graph, result);
    }
    for (uint32_t i = 0; i < call.result_count; i++) {
        call.results[i] = IPU_NO_VALUE;
    }
    IPU_TRY(w->scope->custom(w->ctx, w->scope->custom_state, &call));
    for (uint32_t i = 0; i < call.result_count; i++) {
        IPU_TRY(give(w, id, i + 1, call.results[i]));
    }
    return IPU_OK;
}

ipu_status
ipu__walk_custom(ipu__walk *w, ipu_node id)
{
    const ipu_node_data node = *ipu_node_of(w->graph, id);
    int64_t call = call_of(w, id);
    bool is_reached = false;
    uint32_t results = 0;
    if (!ipu__walk_saw(w, id) || call_of(w, node.previous) == call) {
        return IPU_OK;
    }
    for (ipu_node n = id; call_of(w, n) == call; n = ipu_node_next(w->graph, n)) {
        ipu_value output = ipu_node_output(ipu_node_of(w->graph, n), 0);
        is_reached |= ipu__walk_gradient(w, output).index != IPU_NO_INDEX;
        results++;
    }
    bool *is_wanted;
    ipu_value *values;
    size_t bytes;
    if (!is_reached) {
        return IPU_OK;
    }
    IPU_TRY(
        ipu_mul_size(w->ctx, results + node.input_count, sizeof(ipu_value), &bytes));
    IPU_TRY(ipu_alloc(w->ctx, node.input_count, &is_wanted));
    bool is_any_wanted = false;
    for (uint32_t i = 1; i < node.input_count; i++) {
        is_wanted[i - 1] = ipu__walk_depends(w, node.inputs[i]);
        is_any_wanted |= is_wanted[i - 1];
    }
    ipu_status status = IPU_OK;
    if (is_any_wanted) {
        status = ipu_alloc(w->ctx, bytes, &values);
        if (status == IPU_OK) {
            status = differentiate(w, id, &node, results, values, is_wanted);
            ipu_free(w->ctx, values, bytes);
        }
    }
    ipu_free(w->ctx, is_wanted, node.input_count);
    return status;
}
