/* SPDX-License-Identifier: MIT
 *
 * Floating-point operations and bytes of nodes: what the arithmetic asks for, not what
 * a kernel happens to do. A multiply-add counts as two. */
#include "graph/graph.h"

static double
elements(const ipu_graph *graph, ipu_value value)
{
    return (double)ipu_shape_elements(&ipu_value_of(graph, value)->type.shape);
}

/* Of the variable that the node updates. */
static double
variable_elements(const ipu_graph *graph, const ipu_node_data *node)
{
    int64_t index = ipu_attrs_int(node->attrs, IPU_ATTR_RESOURCE, 0);
    return (double)ipu_shape_elements(&graph->resources.items[index].types[0].shape);
}

static double
matmul_flops(const ipu_graph *graph, const ipu_node_data *node, double results)
{
    const ipu_shape *a = &ipu_value_of(graph, node->inputs[0])->type.shape;
    bool transposed = ipu_attrs_int(node->attrs, IPU_ATTR_TRANSPOSE_A, 0) != 0;
    int64_t inner = a->dims[a->rank - (transposed ? 2 : 1)];
    return 2.0 * (double)inner * results;
}

ipu_cost
ipu_node_cost(const ipu_graph *graph, ipu_node id)
{
    const ipu_node_data *node = ipu_node_of(graph, id);
    uint32_t flags = ipu_op_info_of(node->op)->flags;
    ipu_cost cost = {0};
    if (flags & IPU_OP_VIEW) {
        return cost;
    }
    for (uint32_t i = 0; i < node->input_count; i++) {
        cost.bytes +=
            (double)ipu_type_bytes(&ipu_value_of(graph, node->inputs[i])->type);
    }
    for (uint32_t i = 0; i < node->output_count; i++) {
        ipu_value output = ipu_node_output(node, i);
        cost.bytes += (double)ipu_type_bytes(&ipu_value_of(graph, output)->type);
    }
    uint32_t code_words;
    switch (node->op) {
    case IPU_OP_ID_MATMUL:
    case IPU_OP_ID_FUSED_MATMUL:
        cost.flops =
            matmul_flops(graph, node, elements(graph, ipu_node_output(node, 0)));
        break;
    case IPU_OP_ID_SUM:
    case IPU_OP_ID_MEAN:
    case IPU_OP_ID_MAX:
    case IPU_OP_ID_MIN:
    case IPU_OP_ID_ARGMAX:
        cost.flops = elements(graph, node->inputs[0]);
        break;
    case IPU_OP_ID_SOFTMAX:
    case IPU_OP_ID_LOG_SOFTMAX:
    case IPU_OP_ID_SPARSE_CROSS_ENTROPY:
    case IPU_OP_ID_CROSS_ENTROPY:
        /* maximum, subtract, exponential, sum, divide */
        cost.flops = 5.0 * elements(graph, node->inputs[0]);
        break;
    case IPU_OP_ID_SGD_UPDATE:
        cost.flops = 4.0 * elements(graph, node->inputs[0]);
        break;
    case IPU_OP_ID_MATMUL_SGD_UPDATE:
        cost.flops = matmul_flops(graph, node, variable_elements(graph, node)) +
                     4.0 * variable_elements(graph, node);
        break;
    case IPU_OP_ID_ADAM_UPDATE:
        cost.flops = 12.0 * elements(graph, node->inputs[0]);
        break;
    case IPU_OP_ID_FUSED_ELEMENTWISE:
        ipu_attrs_ints(node->attrs, IPU_ATTR_CODE, &code_words);
        cost.flops = (double)(code_words / IPU_FUSED_WORDS) *
                     elements(graph, ipu_node_output(node, 0));
        break;
    default:
        if (flags & IPU_OP_ELEMENTWISE) {
            cost.flops = elements(graph, ipu_node_output(node, 0));
        }
        break;
    }
    return cost;
}
