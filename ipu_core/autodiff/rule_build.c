/* SPDX-License-Identifier: MIT
 *
 * The builders that gradient rules are written with (rules.h). Each appends one node to
 * the block that is being differentiated, with the source and placement of the forward
 * node; the graph owns what they make. After the first failure they do nothing, and the
 * rule's status says why. One thread per graph. */
#include "autodiff/rules.h"

ipu_type
ipu__rule_type(const ipu_rule *rule, ipu_value value)
{
    if (value.index == IPU_NO_INDEX) {
        return (ipu_type){.dtype = IPU_DTYPE_FLOAT32, .shape = ipu_shape_scalar()};
    }
    return ipu_value_of(rule->graph, value)->type;
}

ipu_value
ipu__rule_emit(ipu_rule *rule, ipu_op op, const ipu_value *inputs, uint32_t input_count,
               const ipu_attr *attrs, uint32_t attr_count)
{
    ipu_value out = IPU_NO_VALUE;
    if (rule->status == IPU_OK) {
        rule->status = ipu_graph_emit(rule->ctx, rule->graph, rule->block, rule->node,
                                      op, inputs, input_count, attrs, attr_count, &out);
    }
    return out;
}

ipu_value
ipu__rule_alike(ipu_rule *rule, ipu_op op, ipu_value like, const ipu_value *inputs,
                uint32_t input_count)
{
    const ipu_shape shape = ipu__rule_type(rule, like).shape;
    ipu_attr attrs[IPU_ATTR_COUNT];
    uint32_t count = 0;
    for (uint32_t i = 0; i < rule->attrs.count; i++) {
        if (rule->attrs.items[i].key != IPU_ATTR_SHAPE) {
            attrs[count++] = rule->attrs.items[i];
        }
    }
    if (like.index != IPU_NO_INDEX) {
        attrs[count++] = ipu_attr_shape(&shape);
    }
    return ipu__rule_emit(rule, op, inputs, input_count, attrs, count);
}

ipu_value
ipu__rule_unary(ipu_rule *rule, ipu_op op, ipu_value x)
{
    return ipu__rule_emit(rule, op, &x, 1, NULL, 0);
}

ipu_value
ipu__rule_binary(ipu_rule *rule, ipu_op op, ipu_value a, ipu_value b)
{
    ipu_value inputs[2] = {a, b};
    return ipu__rule_emit(rule, op, inputs, 2, NULL, 0);
}

ipu_value
ipu__rule_select(ipu_rule *rule, ipu_value condition, ipu_value a, ipu_value b)
{
    ipu_value inputs[3] = {condition, a, b};
    return ipu__rule_emit(rule, IPU_OP_ID_SELECT, inputs, 3, NULL, 0);
}

ipu_value
ipu__rule_product(ipu_rule *rule, ipu_value a, ipu_value b, bool transpose_a,
                  bool transpose_b)
{
    ipu_value inputs[2] = {a, b};
    ipu_attr attrs[2] = {ipu_attr_int(IPU_ATTR_TRANSPOSE_A, transpose_a),
                         ipu_attr_int(IPU_ATTR_TRANSPOSE_B, transpose_b)};
    return ipu__rule_emit(rule, IPU_OP_ID_MATMUL, inputs, 2, attrs, 2);
}

ipu_value
ipu__rule_number(ipu_rule *rule, ipu_value like, double number)
{
    ipu_value out = IPU_NO_VALUE;
    if (rule->status == IPU_OK) {
        ipu_type type = {.dtype = ipu__rule_type(rule, like).dtype,
                         .shape = ipu_shape_scalar()};
        rule->status = ipu_graph_emit_fill(rule->ctx, rule->graph, rule->block,
                                           rule->node, &type, number, &out);
    }
    return out;
}

static ipu_value
reshaped_as(ipu_rule *rule, ipu_op op, ipu_value x, const ipu_shape *shape)
{
    ipu_type type = ipu__rule_type(rule, x);
    if (ipu_shape_equal(&type.shape, shape)) {
        return x;
    }
    ipu_attr attr = ipu_attr_shape(shape);
    return ipu__rule_emit(rule, op, &x, 1, &attr, 1);
}

ipu_value
ipu__rule_reshape(ipu_rule *rule, ipu_value x, const ipu_shape *shape)
{
    return reshaped_as(rule, IPU_OP_ID_RESHAPE, x, shape);
}

ipu_value
ipu__rule_broadcast(ipu_rule *rule, ipu_value x, const ipu_shape *shape)
{
    return reshaped_as(rule, IPU_OP_ID_BROADCAST, x, shape);
}

ipu_value
ipu__rule_slice(ipu_rule *rule, ipu_value x, const int64_t *begin,
                const ipu_shape *size)
{
    int64_t ones[IPU_MAX_RANK];
    uint32_t rank = (uint32_t)size->rank;
    for (uint32_t i = 0; i < rank; i++) {
        ones[i] = 1;
    }
    ipu_attr attrs[3] = {ipu_attr_ints(IPU_ATTR_BEGIN, begin, rank),
                         ipu_attr_ints(IPU_ATTR_SIZE, size->dims, rank),
                         ipu_attr_ints(IPU_ATTR_STRIDES, ones, rank)};
    return ipu__rule_emit(rule, IPU_OP_ID_SLICE, &x, 1, attrs, 3);
}

ipu_value
ipu__rule_concat(ipu_rule *rule, const ipu_value *parts, uint32_t count, int64_t axis)
{
    ipu_attr attr = ipu_attr_int(IPU_ATTR_AXIS, axis);
    return ipu__rule_emit(rule, IPU_OP_ID_CONCAT, parts, count, &attr, 1);
}

ipu_value
ipu__rule_cast(ipu_rule *rule, ipu_value x, ipu_dtype dtype)
{
    if (ipu__rule_type(rule, x).dtype == dtype) {
        return x;
    }
    ipu_attr attr = ipu_attr_int(IPU_ATTR_DTYPE, (int64_t)dtype);
    return ipu__rule_emit(rule, IPU_OP_ID_CAST, &x, 1, &attr, 1);
}

ipu_value
ipu__rule_sum(ipu_rule *rule, ipu_value x, const int64_t *axes, uint32_t axis_count,
              bool keep_dims)
{
    ipu_attr attrs[2] = {ipu_attr_ints(IPU_ATTR_AXES, axes, axis_count),
                         ipu_attr_int(IPU_ATTR_KEEP_DIMS, keep_dims)};
    return ipu__rule_emit(rule, IPU_OP_ID_SUM, &x, 1, attrs, 2);
}

ipu_value
ipu__rule_sum_last(ipu_rule *rule, ipu_value x)
{
    int64_t axis = ipu__rule_type(rule, x).shape.rank - 1;
    return ipu__rule_sum(rule, x, &axis, 1, true);
}

/* What a broadcast to the shape of x repeated, added up. */
static ipu_value
sum_to_shape(ipu_rule *rule, ipu_value x, const ipu_shape *shape)
{
    const ipu_shape from = ipu__rule_type(rule, x).shape;
    if (rule->status != IPU_OK || ipu_shape_equal(&from, shape)) {
        return x;
    }
    int32_t extra = from.rank - shape->rank;
    int64_t axes[IPU_MAX_RANK];
    uint32_t count = 0;
    bool inner = false;
    for (int32_t i = 0; i < from.rank; i++) {
        bool stretched = i >= extra && shape->dims[i - extra] == 1 && from.dims[i] != 1;
        inner |= stretched;
        if (i < extra || stretched) {
            axes[count++] = i;
        }
    }
    x = ipu__rule_sum(rule, x, axes, count, inner);
    return ipu__rule_reshape(rule, x, shape);
}

void
ipu__rule_give(ipu_rule *rule, uint32_t i, ipu_value gradient)
{
    if (rule->status == IPU_OK && gradient.index != IPU_NO_INDEX) {
        ipu_shape shape = ipu__rule_type(rule, rule->inputs[i]).shape;
        rule->results[i] = sum_to_shape(rule, gradient, &shape);
    }
}
