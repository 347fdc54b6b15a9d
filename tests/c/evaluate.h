/* SPDX-License-Identifier: MIT
 *
 * A slow evaluator of graphs without effects, for tests of the rooms before program/.
 * One buffer per value, reference or fast kernels, nodes in program order; `repeat`
 * runs its body in place. Variables are floats in `variables`, by resource. */
#ifndef IPU_TESTS_EVALUATE_H
#define IPU_TESTS_EVALUATE_H

#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "graph/effects.h"
#include "graph/graph.h"
#include "kernels/core/kernel.h"

enum { EVALUATE_MOST = 64 };

typedef struct evaluation {
    ipu_ctx *ctx;
    const ipu_graph *graph;
    ipu_kernel_variant variant;
    void **buffers;     /* by value */
    size_t count;       /* of them */
    void *variables[8]; /* by resource, set by the caller */
} evaluation;

static inline ipu_status evaluate_block(evaluation *e, ipu_block id);

static inline void *
evaluate_buffer(evaluation *e, ipu_value value)
{
    const ipu_type *type = &ipu_value_of(e->graph, value)->type;
    void **slot = &e->buffers[value.index];
    if (*slot == NULL) {
        size_t bytes = (ipu_type_bytes(type) + IPU_SLACK_BYTES + 63) / 64 * 64;
        *slot = aligned_alloc(64, bytes);
        memset(*slot, 0, bytes);
    }
    return *slot;
}

static inline ipu_status
evaluate_repeat(evaluation *e, const ipu_node_data *node)
{
    ipu_block body = {(uint32_t)ipu_attrs_int(node->attrs, IPU_ATTR_BODY, 0)};
    const ipu_block_data *block = ipu_block_of(e->graph, body);
    int32_t trips = *(int32_t *)evaluate_buffer(e, node->inputs[0]);
    void *carried[EVALUATE_MOST];
    for (uint32_t i = 0; i < node->output_count; i++) {
        ipu_value out = ipu_node_output(node, i);
        size_t bytes = ipu_type_bytes(&ipu_value_of(e->graph, out)->type);
        carried[i] = malloc(bytes + 1);
        memcpy(carried[i], evaluate_buffer(e, node->inputs[i + 1]), bytes);
    }
    ipu_status status = IPU_OK;
    for (int32_t trip = 0; trip <= trips && status == IPU_OK; trip++) {
        for (uint32_t i = 0; i < node->output_count; i++) {
            ipu_value out = ipu_node_output(node, i);
            size_t bytes = ipu_type_bytes(&ipu_value_of(e->graph, out)->type);
            memcpy(evaluate_buffer(e, trip == trips ? out : block->params.items[i]),
                   carried[i], bytes);
        }
        if (trip < trips) {
            status = evaluate_block(e, body);
        }
        for (uint32_t i = 0; i < node->output_count && trip < trips; i++) {
            ipu_value out = ipu_node_output(node, i);
            size_t bytes = ipu_type_bytes(&ipu_value_of(e->graph, out)->type);
            memcpy(carried[i], evaluate_buffer(e, block->results.items[i]), bytes);
        }
    }
    for (uint32_t i = 0; i < node->output_count; i++) {
        free(carried[i]);
    }
    return status;
}

static inline ipu_status
evaluate_kernel(evaluation *e, const ipu_node_data *node)
{
    ipu_type types[2 * EVALUATE_MOST];
    ipu_type *outputs = types + EVALUATE_MOST;
    const void *in[EVALUATE_MOST];
    void *out[EVALUATE_MOST];
    for (uint32_t i = 0; i < node->input_count; i++) {
        types[i] = ipu_value_of(e->graph, node->inputs[i])->type;
        in[i] = evaluate_buffer(e, node->inputs[i]);
    }
    uint32_t count = 0;
    for (uint32_t i = 0; i < ipu_node_resource_count(node); i++) {
        uint32_t resource = ipu_node_resource(node, i);
        outputs[count] = e->graph->resources.items[resource].types[0];
        out[count++] = e->variables[resource];
    }
    for (uint32_t i = 0; i < node->output_count; i++) {
        outputs[count] = ipu_value_of(e->graph, ipu_node_output(node, i))->type;
        out[count++] = evaluate_buffer(e, ipu_node_output(node, i));
    }
    ipu_kernel_spec spec = {.op = node->op,
                            .attrs = node->attrs,
                            .input_count = node->input_count,
                            .output_count = count,
                            .inputs = types,
                            .outputs = outputs};
    ipu_arena prepared = {0};
    ipu_status status = ipu_kernel_prepare(e->ctx, &prepared, &spec, e->variant,
                                           ipu_cpu_class_detect());
    if (status != IPU_OK) {
        ipu_arena_free(e->ctx, &prepared);
        return status;
    }
    void *workspace = aligned_alloc(64, (spec.workspace_bytes + 64) / 64 * 64);
    ipu_kernel_call call = {.spec = &spec,
                            .inputs = in,
                            .outputs = out,
                            .workspace = workspace,
                            .ctx = e->ctx};
    status = spec.run(&call);
    free(workspace);
    ipu_arena_free(e->ctx, &prepared);
    return status;
}

static inline ipu_status
evaluate_node(evaluation *e, const ipu_node_data *node)
{
    ipu_value first = node->output_count > 0 ? ipu_node_output(node, 0) : IPU_NO_VALUE;
    if (node->op == IPU_OP_ID_REPEAT) {
        return evaluate_repeat(e, node);
    }
    if (node->op == IPU_OP_ID_CONSTANT) {
        const ipu_attr *value = ipu_attrs_find(node->attrs, IPU_ATTR_VALUE);
        memcpy(evaluate_buffer(e, first), value->as.bytes, value->count);
        return IPU_OK;
    }
    if (node->op == IPU_OP_ID_VARIABLE_READ) {
        int64_t resource = ipu_attrs_int(node->attrs, IPU_ATTR_RESOURCE, 0);
        memcpy(evaluate_buffer(e, first), e->variables[resource],
               ipu_type_bytes(&e->graph->resources.items[resource].types[0]));
        return IPU_OK;
    }
    if ((ipu_op_info_of(node->op)->flags & IPU_OP_VIEW) != 0) {
        memcpy(evaluate_buffer(e, first), evaluate_buffer(e, node->inputs[0]),
               ipu_type_bytes(&ipu_value_of(e->graph, first)->type));
        return IPU_OK;
    }
    return evaluate_kernel(e, node);
}

static inline ipu_status
evaluate_block(evaluation *e, ipu_block id)
{
    const ipu_block_data *block = ipu_block_of(e->graph, id);
    for (ipu_node n = block->first; ipu_is_node(n); n = ipu_node_next(e->graph, n)) {
        IPU_TRY(evaluate_node(e, ipu_node_of(e->graph, n)));
    }
    return IPU_OK;
}

/* Ready for parameters: write them to evaluate_buffer(e, param), then
 * evaluate_block(e, main block). End with evaluate_end. */
static inline evaluation
evaluate_begin(ipu_ctx *ctx, const ipu_graph *graph, ipu_kernel_variant variant)
{
    evaluation e = {.ctx = ctx, .graph = graph, .variant = variant};
    e.count = graph->values.count;
    e.buffers = calloc(e.count + 1, sizeof(void *));
    return e;
}

static inline void
evaluate_end(evaluation *e)
{
    for (size_t i = 0; i < e->count; i++) {
        free(e->buffers[i]);
    }
    free(e->buffers);
}

#endif
