/* SPDX-License-Identifier: MIT
 *
 * How often a loop can run at most. In: a loop node. Out: a bound, or -1.
 *
 * `repeat` runs as often as its count says: the range of that value is followed through
 * integer arithmetic on constants, minimum and the like. `while` is bounded where its
 * condition is, or has as one side of an `and`, a comparison of a carried integer with
 * a value of known range, and the body adds a constant to that integer, which does not
 * take it past the ends of int32. The attribute
 * maximum_iterations bounds both. Nothing is computed, only constants are looked at. */
#include "graph/trips.h"

#include "graph/block_op.h"
#include "graph/constant.h"

/* Both ends included. An unknown range is as wide as int32. */
typedef struct interval {
    int64_t low;
    int64_t high;
} interval;

static const interval anything = {INT32_MIN, INT32_MAX};

static interval
checked(int64_t low, int64_t high)
{
    /* what wraps around can be anything */
    return low < INT32_MIN || high > INT32_MAX ? anything : (interval){low, high};
}

static int64_t
smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t
larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* The range of an int32 scalar. */
static interval
range_of(const ipu_graph *graph, ipu_value value, int depth)
{
    const ipu_node_data *node = ipu_producer_of(graph, value);
    ipu_dtype dtype = ipu_value_of(graph, value)->type.dtype;
    if (node == NULL || depth == 0 || dtype != IPU_DTYPE_INT32) {
        return anything;
    }
    double number;
    if (ipu_constant_number(graph, value, &number)) {
        return (interval){(int64_t)number, (int64_t)number};
    }
    interval in[3] = {anything, anything, anything};
    for (uint32_t i = 0; i < node->input_count && i < 3; i++) {
        in[i] = range_of(graph, node->inputs[i], depth - 1);
    }
    interval a = in[0];
    interval b = in[1];
    switch (node->op) {
    case IPU_OP_ID_IDENTITY:
    case IPU_OP_ID_STOP_GRADIENT:
    case IPU_OP_ID_RESHAPE:
    case IPU_OP_ID_CAST:
        return a;
    case IPU_OP_ID_MINIMUM:
        return (interval){smaller(a.low, b.low), smaller(a.high, b.high)};
    case IPU_OP_ID_MAXIMUM:
        return (interval){larger(a.low, b.low), larger(a.high, b.high)};
    case IPU_OP_ID_ADD:
        return checked(a.low + b.low, a.high + b.high);
    case IPU_OP_ID_SUB:
        return checked(a.low - b.high, a.high - b.low);
    case IPU_OP_ID_NEG:
        return checked(-a.high, -a.low);
    case IPU_OP_ID_MUL:
        if (a.low < 0 || b.low < 0) {
            return anything;
        }
        return checked(a.low * b.low, a.high * b.high);
    case IPU_OP_ID_FLOOR_DIV:
        if (a.low < 0 || b.low < 1) {
            return anything;
        }
        return (interval){a.low / b.high, a.high / b.low};
    case IPU_OP_ID_FLOOR_MOD:
        return b.low < 1 ? anything : (interval){0, b.high - 1};
    case IPU_OP_ID_SELECT:
        return (interval){smaller(in[1].low, in[2].low),
                          larger(in[1].high, in[2].high)};
    default:
        return anything;
    }
}

enum { DEPTH = 8 };

bool
ipu_value_is_known_int(const ipu_graph *graph, ipu_value value, int64_t number)
{
    interval range = range_of(graph, value, DEPTH);
    return range.low == number && range.high == number;
}

static bool
is_known(const ipu_graph *graph, ipu_value value, int64_t *number)
{
    interval range = range_of(graph, value, DEPTH);
    *number = range.low;
    return range.low == range.high;
}

ipu_linear
ipu_value_as_linear(const ipu_graph *graph, ipu_value value)
{
    ipu_linear found = {value, 1, 0};
    for (int32_t step = 0; step < DEPTH; step++) {
        const ipu_node_data *node = ipu_producer_of(graph, found.root);
        if (node == NULL) {
            break;
        }
        if (node->op == IPU_OP_ID_IDENTITY) {
            found.root = node->inputs[0];
            continue;
        }
        bool is_sum = node->op == IPU_OP_ID_ADD || node->op == IPU_OP_ID_SUB;
        if (!is_sum && node->op != IPU_OP_ID_MUL) {
            break;
        }
        int64_t number;
        uint32_t other = 0; /* the operand that is not known */
        if (!is_known(graph, node->inputs[1], &number)) {
            other = 1;
            if (node->op == IPU_OP_ID_SUB ||
                !is_known(graph, node->inputs[0], &number)) {
                break;
            }
        }
        int64_t most = INT32_MAX; /* so that no product wraps around */
        if (number > most || number < -most || found.scale > most ||
            found.scale < -most) {
            break;
        }
        if (is_sum) {
            found.offset +=
                found.scale * (node->op == IPU_OP_ID_ADD ? number : -number);
        } else {
            found.scale *= number;
        }
        found.root = node->inputs[other];
    }
    return found;
}

int64_t
ipu_loop_step(const ipu_graph *graph, ipu_block id, uint32_t i)
{
    const ipu_block_data *body = ipu_block_of(graph, id);
    ipu_value param = body->params.items[i];
    const ipu_node_data *node = ipu_producer_of(graph, body->results.items[i]);
    while (node != NULL && node->op == IPU_OP_ID_IDENTITY) {
        node = ipu_producer_of(graph, node->inputs[0]);
    }
    if (node == NULL || (node->op != IPU_OP_ID_ADD && node->op != IPU_OP_ID_SUB) ||
        ipu_value_of(graph, param)->type.shape.rank > 0) {
        return 0;
    }
    uint32_t other = node->inputs[0].index == param.index ? 1 : 0;
    if (node->inputs[1 - other].index != param.index ||
        (node->op == IPU_OP_ID_SUB && other == 0)) {
        return 0;
    }
    interval step = range_of(graph, node->inputs[other], DEPTH);
    if (step.low != step.high) {
        return 0;
    }
    return node->op == IPU_OP_ID_ADD ? step.low : -step.low;
}

typedef struct counted {
    const ipu_graph *graph;
    const ipu_node_data *loop;
    const ipu_block_data *condition;
    const ipu_block_data *body;
    ipu_block body_block;
} counted;

/* The carried value whose parameter in the condition this is; -1: none. */
static int64_t
carried_by(const counted *c, ipu_value value)
{
    for (size_t i = 0; i < c->condition->params.count; i++) {
        if (c->condition->params.items[i].index == value.index) {
            return (int64_t)i;
        }
    }
    return -1;
}

/* The range of what a carried value is compared with: a value from outside, or one that
 * the loop carries as it is. */
static interval
limit_range(const counted *c, ipu_value value)
{
    int64_t carried = carried_by(c, value);
    if (carried < 0) {
        return range_of(c->graph, value, DEPTH);
    }
    bool stays =
        c->body->results.items[carried].index == c->body->params.items[carried].index;
    return stays ? range_of(c->graph, c->loop->inputs[carried], DEPTH) : anything;
}

/* Turns while `left < right` (or <=), where one side is carried and moves towards the
 * other. */
static int64_t
turns_while_less(const counted *c, ipu_value left, ipu_value right, bool or_equal)
{
    int64_t up = carried_by(c, left);
    int64_t step = up < 0 ? 0 : ipu_loop_step(c->graph, c->body_block, (uint32_t)up);
    interval from;
    interval to;
    bool rises = step > 0;
    int64_t distance;
    int64_t past; /* the last value that the counter can take */
    if (rises) {
        from = range_of(c->graph, c->loop->inputs[up], DEPTH);
        to = limit_range(c, right);
        distance = to.high - from.low;
        past = to.high - !or_equal + step;
    } else {
        int64_t down = carried_by(c, right);
        step = down < 0 ? 0 : -ipu_loop_step(c->graph, c->body_block, (uint32_t)down);
        if (step <= 0) {
            return -1;
        }
        from = range_of(c->graph, c->loop->inputs[down], DEPTH);
        to = limit_range(c, left);
        distance = from.high - to.low;
        past = to.low + !or_equal - step;
    }
    bool is_open = rises ? from.low == INT32_MIN || to.high == INT32_MAX
                         : from.high == INT32_MAX || to.low == INT32_MIN;
    bool may_wrap = past < INT32_MIN || past > INT32_MAX;
    if (is_open || may_wrap) {
        return -1;
    }
    distance += or_equal;
    return distance <= 0 ? 0 : (distance + step - 1) / step;
}

static int64_t
fewer(int64_t a, int64_t b)
{
    return a < 0 ? b : b < 0 ? a : smaller(a, b);
}

static int64_t
turns_while(const counted *c, ipu_value condition, int depth)
{
    const ipu_node_data *node = ipu_producer_of(c->graph, condition);
    if (node == NULL || depth == 0) {
        return -1;
    }
    switch (node->op) {
    case IPU_OP_ID_IDENTITY:
        return turns_while(c, node->inputs[0], depth - 1);
    case IPU_OP_ID_LOGICAL_AND:
        return fewer(turns_while(c, node->inputs[0], depth - 1),
                     turns_while(c, node->inputs[1], depth - 1));
    case IPU_OP_ID_LESS:
    case IPU_OP_ID_LESS_EQUAL:
        return turns_while_less(c, node->inputs[0], node->inputs[1],
                                node->op == IPU_OP_ID_LESS_EQUAL);
    case IPU_OP_ID_GREATER:
    case IPU_OP_ID_GREATER_EQUAL:
        return turns_while_less(c, node->inputs[1], node->inputs[0],
                                node->op == IPU_OP_ID_GREATER_EQUAL);
    default:
        return -1;
    }
}

int64_t
ipu_loop_most_turns(const ipu_graph *graph, ipu_node loop)
{
    const ipu_node_data *node = ipu_node_of(graph, loop);
    int64_t given = ipu_attrs_int(node->attrs, IPU_ATTR_MAXIMUM_ITERATIONS, -1);
    if (node->op == IPU_OP_ID_REPEAT || node->op == IPU_OP_ID_PIPELINE) {
        interval count = range_of(graph, node->inputs[0], DEPTH);
        return fewer(given, count.high == INT32_MAX ? -1 : larger(count.high, 0));
    }
    counted c = {.graph = graph,
                 .loop = node,
                 .condition = ipu_block_of(graph, ipu_node_block(node, 0)),
                 .body = ipu_block_of(graph, ipu_node_block(node, 1)),
                 .body_block = ipu_node_block(node, 1)};
    return fewer(given, turns_while(&c, c.condition->results.items[0], DEPTH));
}
