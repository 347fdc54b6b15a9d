/* SPDX-License-Identifier: MIT
 *
 * One spelling for each computation, so that the later passes need to know one only.
 * In: any graph. Out: the same bits from fewer or cheaper nodes; what became unused
 * stays for the prune pass. Every rule is exact for every input, signed zeros included
 * (x + 0 is therefore left alone: it turns -0 into +0).
 *
 *   identity, stop_gradient, custom_gradient  -> the input
 *   reshape, broadcast, cast, transpose, slice, concat, reductions that do nothing
 *                                     -> the input
 *   reshape of reshape, broadcast of broadcast, transpose of transpose -> one
 *   transpose that moves axes of size 1 alone -> reshape
 *   reshape, transpose, slice of a broadcast single element -> broadcast
 *   element-wise op on broadcast inputs -> on the inputs themselves
 *   what the rows of `rules` say, as x * 1 -> x
 *   a value that a loop carries unchanged -> its initial value
 *   a > b -> b < a; commuting operands in the order of their ids, constants last
 *
 * A replacement is looked at again, until no rule fits; each rule makes the graph
 * smaller, or moves a broadcast towards the results. One thread per graph. */
#include <string.h>

#include "graph/block_op.h"
#include "graph/constant.h"
#include "passes/match.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

static const ipu_type *
type_of(const ipu_graph *graph, ipu_value value)
{
    return &ipu_value_of(graph, value)->type;
}

static const ipu_node_data *
producer_if(const ipu_graph *graph, ipu_value value, ipu_op op)
{
    const ipu_node_data *node = ipu_producer_of(graph, value);
    return node != NULL && node->op == op ? node : NULL;
}

static ipu_status
emit_shaped(ipu__rewriter *r, ipu_node like, ipu_op op, ipu_value x,
            const ipu_shape *shape, ipu_value *out)
{
    ipu_shape copy = *shape; /* the original may be in an array that moves */
    ipu_attr attr = ipu_attr_shape(&copy);
    return ipu_graph_emit(r->ctx, r->graph, ipu_node_of(r->graph, like)->block, like,
                          op, &x, 1, &attr, 1, out);
}

/* --- one spelling ---------------------------------------------------------------- */

static void
order_operands(const ipu_graph *graph, ipu_node_data *node)
{
    ipu_value a = node->input_count == 2 ? node->inputs[0] : IPU_NO_VALUE;
    ipu_value b = node->input_count == 2 ? node->inputs[1] : IPU_NO_VALUE;
    if (node->op == IPU_OP_ID_GREATER || node->op == IPU_OP_ID_GREATER_EQUAL) {
        node->op =
            node->op == IPU_OP_ID_GREATER ? IPU_OP_ID_LESS : IPU_OP_ID_LESS_EQUAL;
        node->inputs[0] = b;
        node->inputs[1] = a;
        return;
    }
    if ((ipu_node_flags(node) & IPU_OP_COMMUTES) == 0) {
        return;
    }
    bool a_last = ipu_constant_of(graph, a) != NULL;
    bool b_last = ipu_constant_of(graph, b) != NULL;
    if (a_last != b_last ? a_last : a.index > b.index) {
        node->inputs[0] = b;
        node->inputs[1] = a;
    }
}

/* --- element-wise ---------------------------------------------------------------- */

static ipu_status settle(ipu__rewriter *r, ipu_node id, ipu_value *out);

/* Takes broadcasts off the inputs. Where the result's shape needs them, the op works on
 * the small shape and its result is broadcast: not to no elements, where it would work
 * on one that nobody asked for, and might fail. */
static ipu_status
strip_broadcasts(ipu__rewriter *r, ipu_node id, ipu_value *out)
{
    const ipu_node_data *node = ipu_node_of(r->graph, id);
    ipu_value inputs[3];
    if (node->input_count == 0 || node->input_count > 3) {
        return IPU_OK;
    }
    ipu_shape shape = ipu_shape_scalar();
    bool stripped = false;
    for (uint32_t i = 0; i < node->input_count; i++) {
        const ipu_node_data *wide =
            producer_if(r->graph, node->inputs[i], IPU_OP_ID_BROADCAST);
        inputs[i] = wide != NULL ? wide->inputs[0] : node->inputs[i];
        stripped |= wide != NULL;
        ipu_shape before = shape;
        ipu_shape_broadcast(&before, &type_of(r->graph, inputs[i])->shape, &shape);
    }
    if (!stripped) {
        return IPU_OK;
    }
    ipu_shape result = type_of(r->graph, ipu_node_output(node, 0))->shape;
    if (ipu_shape_equal(&shape, &result)) {
        memcpy(node->inputs, inputs, node->input_count * sizeof(ipu_value));
        return IPU_OK;
    }
    if (ipu_shape_elements(&result) == 0) {
        return IPU_OK;
    }
    ipu_value small;
    IPU_TRY(ipu_graph_emit(r->ctx, r->graph, node->block, id, node->op, inputs,
                           node->input_count, node->attrs.items, node->attrs.count,
                           &small));
    IPU_TRY(settle(r, ipu_value_of(r->graph, small)->producer, &small));
    return emit_shaped(r, id, IPU_OP_ID_BROADCAST, small, &result, out);
}

enum { X = 1, Y, Z };

/* Expressions and what they are: an operand, or an op of operands. In float32 the
 * square of a number is exact in the float64 in which powers are computed, so that both
 * round to the same bits. */
static const struct rule {
    ipu__pattern from;
    ipu_op to; /* IPU_OP_ID_COUNT: the first operand */
    uint32_t operands[3];
    bool float32_only;
} rules[] = {
    {IPU__OP(MUL, 0, IPU__ANY(X), IPU__NUMBER(1.0)), IPU_OP_ID_COUNT, {X}, false},
    {IPU__OP(DIV, 0, IPU__ANY(X), IPU__NUMBER(1.0)), IPU_OP_ID_COUNT, {X}, false},
    {IPU__OP(SUB, 0, IPU__ANY(X), IPU__NUMBER(0.0)), IPU_OP_ID_COUNT, {X}, false},
    {IPU__OP(NEG, 0, IPU__OF(NEG, 0, IPU__ANY(X))), IPU_OP_ID_COUNT, {X}, false},
    {IPU__OP(ABS, 0, IPU__OF(NEG, 0, IPU__ANY(X))), IPU_OP_ID_ABS, {X}, false},
    {IPU__OP(ABS, 0, IPU__OF(ABS, X, IPU__ANY(Y))), IPU_OP_ID_COUNT, {X}, false},
    {IPU__OP(RELU, 0, IPU__OF(RELU, X, IPU__ANY(Y))), IPU_OP_ID_COUNT, {X}, false},
    {IPU__OP(LOGICAL_NOT, 0, IPU__OF(LOGICAL_NOT, 0, IPU__ANY(X))),
     IPU_OP_ID_COUNT,
     {X},
     false},
    {IPU__OP(POW, 0, IPU__ANY(X), IPU__NUMBER(1.0)), IPU_OP_ID_COUNT, {X}, true},
    {IPU__OP(POW, 0, IPU__ANY(X), IPU__NUMBER(2.0)), IPU_OP_ID_SQUARE, {X}, true},
    {IPU__OP(SELECT, 0, IPU__OF(LOGICAL_NOT, 0, IPU__ANY(X)), IPU__ANY(Y), IPU__ANY(Z)),
     IPU_OP_ID_SELECT,
     {X, Z, Y},
     false},
};

/* By the first rule that fits. */
static ipu_status
apply_rules(ipu__rewriter *r, ipu_node id, ipu_value *out)
{
    const ipu_node_data *node = ipu_node_of(r->graph, id);
    const ipu_value old = ipu_node_output(node, 0);
    const ipu_type *type = type_of(r->graph, old);
    for (uint32_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        const struct rule *rule = &rules[i];
        ipu__match match = ipu__match_in(r->graph);
        if (rule->from.op != node->op ||
            (rule->float32_only && type->dtype != IPU_DTYPE_FLOAT32) ||
            !ipu__matches(&match, &rule->from, old)) {
            continue;
        }
        ipu_value operands[3];
        uint32_t count = 0;
        while (count < 3 && rule->operands[count] != 0) {
            operands[count] = match.values[rule->operands[count]];
            count++;
        }
        if (count == 1 && !ipu_type_equal(type_of(r->graph, operands[0]), type)) {
            continue; /* it was broadcast */
        }
        *out = operands[0];
        return rule->to == IPU_OP_ID_COUNT
                   ? IPU_OK
                   : ipu_graph_emit(r->ctx, r->graph, node->block, id, rule->to,
                                    operands, count, NULL, 0, out);
    }
    return IPU_OK;
}

/* --- movement -------------------------------------------------------------------- */

static bool
only_ones_move(const ipu_shape *shape, const int64_t *perm)
{
    int64_t last = -1;
    for (int32_t i = 0; i < shape->rank; i++) {
        if (shape->dims[perm[i]] != 1) {
            if (perm[i] < last) {
                return false;
            }
            last = perm[i];
        }
    }
    return true;
}

static ipu_status
simplify_transpose(ipu__rewriter *r, ipu_node id, ipu_value *out)
{
    const ipu_node_data *node = ipu_node_of(r->graph, id);
    ipu_value x = node->inputs[0];
    ipu_shape result = type_of(r->graph, ipu_node_output(node, 0))->shape;
    uint32_t count;
    const int64_t *perm = ipu_attrs_ints(node->attrs, IPU_ATTR_PERM, &count);
    const ipu_node_data *before = producer_if(r->graph, x, IPU_OP_ID_TRANSPOSE);
    if (only_ones_move(&type_of(r->graph, x)->shape, perm)) {
        return emit_shaped(r, id, IPU_OP_ID_RESHAPE, x, &result, out);
    }
    if (before != NULL) {
        const int64_t *first = ipu_attrs_ints(before->attrs, IPU_ATTR_PERM, &count);
        int64_t both[IPU_MAX_RANK];
        for (uint32_t i = 0; i < count; i++) {
            both[i] = first[perm[i]];
        }
        ipu_attr attr = ipu_attr_ints(IPU_ATTR_PERM, both, count);
        ipu_value source = before->inputs[0];
        return ipu_graph_emit(r->ctx, r->graph, node->block, id, IPU_OP_ID_TRANSPOSE,
                              &source, 1, &attr, 1, out);
    }
    return IPU_OK;
}

static bool
slices_nothing(const ipu_graph *graph, const ipu_node_data *node)
{
    uint32_t count;
    const int64_t *strides = ipu_attrs_ints(node->attrs, IPU_ATTR_STRIDES, &count);
    const ipu_shape *shape = &type_of(graph, node->inputs[0])->shape;
    for (uint32_t i = 0; i < count; i++) {
        if (strides[i] != 1 && shape->dims[i] > 1) {
            return false;
        }
    }
    return ipu_shape_equal(shape, &type_of(graph, ipu_node_output(node, 0))->shape);
}

/* reshape, transpose or slice of a broadcast single element */
static ipu_status
move_broadcast(ipu__rewriter *r, ipu_node id, ipu_value *out)
{
    const ipu_node_data *node = ipu_node_of(r->graph, id);
    const ipu_node_data *wide =
        producer_if(r->graph, node->inputs[0], IPU_OP_ID_BROADCAST);
    if (wide == NULL) {
        return IPU_OK;
    }
    ipu_value x = wide->inputs[0];
    ipu_shape result = type_of(r->graph, ipu_node_output(node, 0))->shape;
    ipu_shape scalar = ipu_shape_scalar();
    if (ipu_shape_elements(&type_of(r->graph, x)->shape) != 1) {
        return IPU_OK;
    }
    if (type_of(r->graph, x)->shape.rank > 0) {
        IPU_TRY(emit_shaped(r, id, IPU_OP_ID_RESHAPE, x, &scalar, &x));
    }
    return emit_shaped(r, id, IPU_OP_ID_BROADCAST, x, &result, out);
}

static ipu_status
simplify_movement(ipu__rewriter *r, ipu_node id, ipu_value *out)
{
    const ipu_node_data *node = ipu_node_of(r->graph, id);
    ipu_value x = node->inputs[0];
    ipu_type result = *type_of(r->graph, ipu_node_output(node, 0));
    bool same = ipu_type_equal(type_of(r->graph, x), &result);
    const ipu_node_data *before;
    uint32_t count;
    switch (node->op) {
    case IPU_OP_ID_IDENTITY:
    case IPU_OP_ID_STOP_GRADIENT:
    case IPU_OP_ID_CUSTOM_GRADIENT:
        *out = x;
        return IPU_OK;
    case IPU_OP_ID_CAST:
        *out = same ? x : *out;
        return IPU_OK;
    case IPU_OP_ID_CONCAT:
        *out = node->input_count == 1 ? x : *out;
        return IPU_OK;
    case IPU_OP_ID_SUM:
    case IPU_OP_ID_MEAN:
    case IPU_OP_ID_MAX:
    case IPU_OP_ID_MIN:
        ipu_attrs_ints(node->attrs, IPU_ATTR_AXES, &count);
        *out = count == 0 ? x : *out;
        return IPU_OK;
    case IPU_OP_ID_RESHAPE:
    case IPU_OP_ID_BROADCAST:
        before = producer_if(r->graph, x, node->op);
        if (same) {
            *out = x;
        } else if (before != NULL) {
            return emit_shaped(r, id, node->op, before->inputs[0], &result.shape, out);
        } else if (node->op == IPU_OP_ID_RESHAPE) {
            return move_broadcast(r, id, out);
        }
        return IPU_OK;
    case IPU_OP_ID_TRANSPOSE:
        IPU_TRY(simplify_transpose(r, id, out));
        return out->index == IPU_NO_INDEX ? move_broadcast(r, id, out) : IPU_OK;
    case IPU_OP_ID_SLICE:
        if (slices_nothing(r->graph, node)) {
            *out = x;
            return IPU_OK;
        }
        return move_broadcast(r, id, out);
    default:
        return IPU_OK;
    }
}

/* --- the walk -------------------------------------------------------------------- */

/* *out is what can stand for output 0 of the node, or IPU_NO_VALUE. */
static ipu_status
simplify(ipu__rewriter *r, ipu_node id, ipu_value *out)
{
    *out = IPU_NO_VALUE;
    ipu_node_data *node = ipu_node_of(r->graph, id);
    if (node->output_count != 1 || node->input_count == 0) {
        return IPU_OK;
    }
    if ((ipu_node_flags(node) & IPU_OP_ELEMENTWISE) != 0 &&
        node->op != IPU_OP_ID_FUSED_ELEMENTWISE) {
        IPU_TRY(strip_broadcasts(r, id, out));
        if (out->index != IPU_NO_INDEX) {
            return IPU_OK;
        }
        node = ipu_node_of(r->graph, id);
        order_operands(r->graph, node);
        IPU_TRY(apply_rules(r, id, out));
        if (out->index != IPU_NO_INDEX) {
            return IPU_OK;
        }
    }
    return simplify_movement(r, id, out);
}

/* What stands for output 0 of a node once no rule fits: that output, or another value.
 */
static ipu_status
settle(ipu__rewriter *r, ipu_node id, ipu_value *out)
{
    ipu_value first = ipu_node_output(ipu_node_of(r->graph, id), 0);
    *out = first;
    while (id.index != IPU_NO_INDEX) {
        ipu_value next;
        IPU_TRY(simplify(r, id, &next));
        if (next.index == IPU_NO_INDEX) {
            break;
        }
        *out = next;
        /* What stood there before this node is settled already. */
        bool emitted = next.index > first.index;
        id = emitted ? ipu_value_of(r->graph, next)->producer : IPU_NO_NODE;
    }
    return IPU_OK;
}

/* A value that a loop carries unchanged is the initial value, inside the loop and after
 * it. */
static ipu_status
take_out_invariants(ipu__rewriter *r, ipu_node id)
{
    const ipu_node_data *node = ipu_node_of(r->graph, id);
    const ipu_block_data *body = ipu_block_of(r->graph, ipu_node_body(node));
    for (uint32_t i = 0; i < node->output_count; i++) {
        ipu_value initial = node->inputs[ipu_node_entering(node, i)];
        if (body->results.items[i].index != body->params.items[i].index) {
            continue;
        }
        for (uint32_t k = 0; k < ipu_node_block_count(node); k++) {
            ipu_block held = ipu_node_block(node, k);
            IPU_TRY(ipu__replace(r, ipu_block_of(r->graph, held)->params.items[i],
                                 initial));
        }
        IPU_TRY(ipu__replace(r, ipu_node_output(node, i), initial));
    }
    return IPU_OK;
}

static ipu_status
visit(ipu__rewriter *r, ipu_node id, bool *keep)
{
    const ipu_node_data *node = ipu_node_of(r->graph, id);
    if (ipu_node_is_loop(node)) {
        return take_out_invariants(r, id);
    }
    if (node->output_count != 1) {
        return IPU_OK;
    }
    ipu_value first = ipu_node_output(node, 0);
    ipu_value value;
    IPU_TRY(settle(r, id, &value));
    if (value.index == first.index) {
        return IPU_OK;
    }
    *keep = false;
    return ipu__replace(r, first, value);
}

ipu_status
ipu_pass_canonicalise(ipu_ctx *ctx, ipu_graph *graph)
{
    ipu__rewriter rewriter = {.ctx = ctx, .graph = graph, .visit = visit};
    return ipu__rewrite(&rewriter);
}
