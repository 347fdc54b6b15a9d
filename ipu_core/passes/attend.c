/* SPDX-License-Identifier: MIT
 *
 * Attention that is written in single ops becomes the op, forward and back. In: a graph
 * in canonical form, after autodiff. Out: the same bits from attention and
 * attention_grad, which store no scores. It looks around each softmax for
 *
 *     score = q k^T    x = hide(score scale)    w = softmax(x)    mix = w v
 *
 * and for the gradients of these,
 *
 *     dw = dy v^T    slope = w (dw - sum(dw w))    ds = slope, hidden and scaled as x
 *     dv = w^T dy    dq = ds k                     dk = ds^T q
 *
 * where products may have any of their factors stored transposed, and reshapes in
 * between may split and join the axes of matrices that lie side by side. Steps from the
 * product to the softmax are the rows of `steps`. All that is found goes, so nothing
 * else may use any of it but the results. It fires where the op has the same bits:
 *
 *   - float32; matrices side by side, none of them broadcast
 *   - scores times a constant or divided by one, in front of what hides
 *   - a mask of two numbers, one of them 0, that is added; or a number that is chosen
 * in place of scores, also several times the same one
 *   - no product that is so large in every direction that another library may serve it
 *   - at most LONG_ROW keys, where there are gradients
 *
 * The op stands where the product with the values stood, its gradient where the first
 * of the products of the way back stood that the result's gradient enters. One thread
 * per graph. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "graph/users.h"
#include "kernels/core/kernel.h"
#include "passes/match.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

enum {
    DEEPEST = 8, /* expressions of a mask */
    MOST_MASKS = 4,
    LONG_ROW = 8192 /* that a sum makes in parts, and the op's gradient at once */
};

/* What hides scores: those where `flags` is true, or where it is not 0. */
typedef struct hiding {
    ipu_value flags;  /* bool; or what is added */
    bool is_opposite; /* of bool: those where it is false */
    ipu_shape at;     /* of the scores there */
} hiding;

typedef struct attention {
    ipu__match parts;
    ipu_node softmax;
    ipu_node back; /* the first node of the way back that was met; or none */
    ipu_node score;
    ipu_node mix;
    ipu_node dw; /* none: no gradient is asked for, and the next are missing */
    ipu_node dv; /* each may be missing */
    ipu_node dq;
    ipu_node dk;
    bool is_scaled;
    bool divides;
    double scale;
    bool replaces;
    double hidden;
    uint32_t mask_count;
    hiding masks[MOST_MASKS];
    ipu_shape scores; /* [batch, heads, queries, keys] */
    /* once they are there: */
    ipu_value operands[4]; /* q, k, v, mask or none */
    ipu_value gradients[3];
    bool has_gradients;
} attention;

typedef struct attender {
    ipu_ctx *ctx;
    const ipu_graph *graph;
    ipu_uses uses;
    IPU_ARRAY(attention) found;
    IPU_ARRAY(uint32_t) owner; /* by node: of which of `found` it is a product, plus 1 */
} attender;

/* --- nodes and values ------------------------------------------------------------- */

static const ipu_shape *
shape_of(const ipu_graph *graph, ipu_value value)
{
    return &ipu_value_of(graph, value)->type.shape;
}

static ipu_value
output_of(const ipu_graph *graph, ipu_node node)
{
    return ipu_node_output(ipu_node_of(graph, node), 0);
}

static bool
flag(const ipu_graph *graph, ipu_node product, ipu_attr_key key)
{
    return ipu_attrs_int(ipu_node_of(graph, product)->attrs, key, 0) != 0;
}

/* Whether two shapes have the same matrices in their last two axes. */
static bool
same_matrices(const ipu_shape *a, const ipu_shape *b)
{
    return a->rank >= 2 && b->rank >= 2 &&
           a->dims[a->rank - 1] == b->dims[b->rank - 1] &&
           a->dims[a->rank - 2] == b->dims[b->rank - 2];
}

/* Takes a node as part of the attention, if it runs with the others of its direction;
 * the way back may be of another phase than the way forward. */
static bool
take(attention *a, ipu_node id, bool goes_back)
{
    const ipu_graph *graph = a->parts.graph;
    const ipu_node_data *node = ipu_node_of(graph, id);
    const ipu_node_data *softmax = ipu_node_of(graph, a->softmax);
    a->back = goes_back && !ipu_is_node(a->back) ? id : a->back;
    const ipu_node_data *like = goes_back ? ipu_node_of(graph, a->back) : softmax;
    return node->block.index == softmax->block.index &&
           node->recomputation == like->recomputation &&
           ipu_placement_equal(node->placement, like->placement) &&
           ipu__match_add(&a->parts, id);
}

/* Whether a node is the product of these factors, or of their transposes; a factor that
 * is IPU_NO_VALUE can be any. */
static bool
is_product(const ipu_graph *graph, ipu_node id, ipu_value left, bool transpose_a,
           ipu_value right, bool transpose_b)
{
    const ipu_node_data *node = ipu_is_node(id) ? ipu_node_of(graph, id) : NULL;
    return node != NULL && node->op == IPU_OP_ID_MATMUL &&
           flag(graph, id, IPU_ATTR_TRANSPOSE_A) == transpose_a &&
           flag(graph, id, IPU_ATTR_TRANSPOSE_B) == transpose_b &&
           (left.index == IPU_NO_INDEX || node->inputs[0].index == left.index) &&
           (right.index == IPU_NO_INDEX || node->inputs[1].index == right.index);
}

/* Whether a product's operands lie side by side as its results do. */
static bool
is_side_by_side(const ipu_graph *graph, ipu_node product)
{
    const ipu_node_data *node = ipu_node_of(graph, product);
    const ipu_shape *out = shape_of(graph, ipu_node_output(node, 0));
    size_t bytes = (size_t)(out->rank - 2) * sizeof out->dims[0];
    const ipu_shape *a = shape_of(graph, node->inputs[0]);
    const ipu_shape *b = shape_of(graph, node->inputs[1]);
    return a->rank == out->rank && b->rank == out->rank &&
           memcmp(a->dims, out->dims, bytes) == 0 &&
           memcmp(b->dims, out->dims, bytes) == 0;
}

/* --- masks ------------------------------------------------------------------------ */

/* The two numbers that the elements of a mask are: where it is false, where it is true.
 */
typedef struct two {
    double off;
    double on;
} two;

static bool
two_of_constant(const ipu_attr *bytes, ipu_dtype dtype, two *out)
{
    size_t count = bytes->count / ipu_dtype_bytes(dtype);
    bool has_other = false;
    *out = (two){0.0, 1.0};
    for (size_t i = 0; i < count; i++) {
        double x = ipu_constant_at(bytes, dtype, i);
        if (isnan(x) || (x != 0.0 && has_other && x != out->on)) {
            return false;
        }
        has_other |= x != 0.0;
        out->on = x != 0.0 ? x : out->on;
    }
    return true;
}

/* Of arithmetic, which operand is not a number, and the number; 2: neither is one. */
static uint32_t
side_of_mask(const ipu_graph *graph, const ipu_node_data *node, double *number)
{
    return ipu_constant_number(graph, node->inputs[1], number)   ? 0
           : ipu_constant_number(graph, node->inputs[0], number) ? 1
                                                                 : 2;
}

/* In float32, as the op does it. */
static double
apply(ipu_op op, double a, double b)
{
    const float x = (float)a;
    const float y = (float)b;
    return (double)(op == IPU_OP_ID_MUL ? x * y : op == IPU_OP_ID_ADD ? x + y : x - y);
}

static two
apply_to_two(ipu_op op, two in, double number, bool number_is_first)
{
    return number_is_first ? (two){apply(op, number, in.off), apply(op, number, in.on)}
                           : (two){apply(op, in.off, number), apply(op, in.on, number)};
}

/* Whether a value is made of two numbers: constants, what is cast from bool, chosen,
 * and arithmetic with a number; the larger and the product of zeros and ones; these
 * moved about. */
static bool
two_of(const ipu_graph *graph, ipu_value value, int32_t depth, two *out)
{
    const ipu_node_data *node = ipu_producer_of(graph, value);
    double number;
    uint32_t side = 2;
    two other;
    if (node == NULL || depth == DEEPEST ||
        ipu_value_of(graph, value)->type.dtype != IPU_DTYPE_FLOAT32) {
        return false;
    }
    switch (node->op) {
    case IPU_OP_ID_CONSTANT:
        return two_of_constant(ipu_constant_of(graph, value), IPU_DTYPE_FLOAT32, out);
    case IPU_OP_ID_CAST:
        *out = (two){0.0, 1.0};
        return ipu_value_of(graph, node->inputs[0])->type.dtype == IPU_DTYPE_BOOL;
    case IPU_OP_ID_SELECT:
        return ipu_constant_number(graph, node->inputs[1], &out->on) &&
               ipu_constant_number(graph, node->inputs[2], &out->off);
    case IPU_OP_ID_RESHAPE:
    case IPU_OP_ID_TRANSPOSE:
    case IPU_OP_ID_BROADCAST:
        return two_of(graph, node->inputs[0], depth + 1, out);
    case IPU_OP_ID_ADD:
    case IPU_OP_ID_SUB:
    case IPU_OP_ID_MUL:
        side = side_of_mask(graph, node, &number);
        if (side < 2 && two_of(graph, node->inputs[side], depth + 1, out)) {
            *out = apply_to_two(node->op, *out, number, side == 1);
            return true;
        }
        break;
    default:
        break;
    }
    return side == 2 && (node->op == IPU_OP_ID_MUL || node->op == IPU_OP_ID_MAXIMUM) &&
           two_of(graph, node->inputs[0], depth + 1, out) &&
           two_of(graph, node->inputs[1], depth + 1, &other) && out->off == 0.0 &&
           out->on == 1.0 && other.off == 0.0 && other.on == 1.0;
}

/* --- steps from the product to the softmax ---------------------------------------- */

/* Whether a node is a step that makes x of one of its operands, *next. */
typedef bool step_fn(attention *a, const ipu_node_data *node, ipu_value *next);

static bool
step_reshape(attention *a, const ipu_node_data *node, ipu_value *next)
{
    const ipu_graph *graph = a->parts.graph;
    *next = node->inputs[0];
    return same_matrices(shape_of(graph, *next),
                         shape_of(graph, ipu_node_output(node, 0)));
}

/* Once, and in front of all that hides. A division by a power of two is a product. */
static bool
step_scale(attention *a, const ipu_node_data *node, ipu_value *next)
{
    double number;
    int exponent;
    *next = node->inputs[0];
    if (a->is_scaled ||
        !ipu_constant_number(a->parts.graph, node->inputs[1], &number) ||
        !isfinite(number) || number == 0.0) {
        return false;
    }
    bool is_power = fabs(frexp(number, &exponent)) == 0.5 && abs(exponent) < 100;
    a->divides = node->op == IPU_OP_ID_DIV && !is_power;
    a->scale = node->op == IPU_OP_ID_DIV && is_power ? 1.0 / number : number;
    a->is_scaled = true;
    return true;
}

static bool
add_mask(attention *a, const ipu_node_data *node, ipu_value flags, bool is_opposite,
         double hidden, ipu_value next)
{
    const ipu_graph *graph = a->parts.graph;
    const ipu_shape *at = shape_of(graph, ipu_node_output(node, 0));
    if (a->is_scaled || a->mask_count == MOST_MASKS ||
        !ipu_shape_equal(shape_of(graph, next), at) ||
        (a->mask_count > 0 && hidden != a->hidden)) {
        return false;
    }
    a->hidden = hidden;
    a->masks[a->mask_count++] = (hiding){flags, is_opposite, *at};
    return true;
}

/* A mask is added: a number where it hides, else 0. */
static bool
step_add(attention *a, const ipu_node_data *node, ipu_value *next)
{
    for (uint32_t side = 0; a->mask_count == 0 && side < 2; side++) {
        ipu_value mask = node->inputs[side];
        two numbers;
        *next = node->inputs[1 - side];
        if (two_of(a->parts.graph, mask, 0, &numbers) &&
            (numbers.off == 0.0 || numbers.on == 0.0) &&
            numbers.off + numbers.on != 0.0 && !isnan(numbers.off + numbers.on)) {
            double hidden = numbers.off != 0.0 ? numbers.off : numbers.on;
            return add_mask(a, node, mask, false, hidden, *next);
        }
    }
    return false;
}

/* A number is chosen in place of scores. */
static bool
step_choose(attention *a, const ipu_node_data *node, ipu_value *next)
{
    double number;
    bool is_opposite = ipu_constant_number(a->parts.graph, node->inputs[2], &number);
    if (!is_opposite &&
        !ipu_constant_number(a->parts.graph, node->inputs[1], &number)) {
        return false;
    }
    *next = node->inputs[is_opposite ? 1 : 2];
    if ((a->mask_count > 0 && !a->replaces) || isnan(number)) {
        return false;
    }
    a->replaces = true;
    return add_mask(a, node, node->inputs[0], is_opposite, number, *next);
}

static const struct {
    ipu_op op;
    step_fn *take;
} steps[] = {
    {IPU_OP_ID_RESHAPE, step_reshape}, {IPU_OP_ID_MUL, step_scale},
    {IPU_OP_ID_DIV, step_scale},       {IPU_OP_ID_ADD, step_add},
    {IPU_OP_ID_SELECT, step_choose},
};

/* From the softmax up to the product. */
static bool
find_score(attention *a)
{
    const ipu_graph *graph = a->parts.graph;
    ipu_value x = ipu_node_of(graph, a->softmax)->inputs[0];
    for (;;) {
        ipu_node id = ipu_value_of(graph, x)->producer;
        const ipu_node_data *node = ipu_producer_of(graph, x);
        uint32_t row = 0;
        if (node == NULL || !take(a, id, false)) {
            return false;
        }
        if (node->op == IPU_OP_ID_MATMUL) {
            a->score = id;
            return !flag(graph, id, IPU_ATTR_TRANSPOSE_A);
        }
        while (row < sizeof steps / sizeof steps[0] && steps[row].op != node->op) {
            row++;
        }
        if (row == sizeof steps / sizeof steps[0] || !steps[row].take(a, node, &x)) {
            return false;
        }
    }
}

/* --- from the weights on ---------------------------------------------------------- */

/* Through reshapes of matrices, each of which nothing else uses, to what they begin
 * with or end in. */
static ipu_value
through_reshapes(const attender *t, attention *a, ipu_value x, bool up, bool goes_back)
{
    const ipu_graph *graph = a->parts.graph;
    for (;;) {
        ipu_node id = up ? ipu_value_of(graph, x)->producer
                      : ipu_uses_count(&t->uses, x) == 1 ? ipu_uses_of(&t->uses, x)[0]
                                                         : IPU_NO_NODE;
        const ipu_node_data *node = ipu_is_node(id) ? ipu_node_of(graph, id) : NULL;
        ipu_value next;
        if (node == NULL || node->op != IPU_OP_ID_RESHAPE ||
            !step_reshape(a, node, &next) || !take(a, id, goes_back)) {
            return x;
        }
        x = up ? next : ipu_node_output(node, 0);
    }
}

/* Whether both factors are one value. */
static bool
is_square(const ipu_graph *graph, ipu_node product)
{
    const ipu_node_data *node = ipu_node_of(graph, product);
    return node->inputs[0].index == node->inputs[1].index;
}

/* Finds one product of `x` with these other operands, or where `x` is the right one. */
static bool
find_product(const attender *t, attention *a, ipu_value x, ipu_value left, bool ta,
             ipu_value right, bool tb, bool goes_back, ipu_node *out)
{
    const ipu_node *users = ipu_uses_of(&t->uses, x);
    for (uint32_t i = 0; !ipu_is_node(*out) && i < ipu_uses_count(&t->uses, x); i++) {
        if (is_product(a->parts.graph, users[i], left, ta, right, tb) &&
            !is_square(a->parts.graph, users[i]) &&
            !ipu__match_has(&a->parts, users[i]) && take(a, users[i], goes_back)) {
            *out = users[i];
        }
    }
    return ipu_is_node(*out);
}

/* The weights as the products take them: themselves or a reshape, which may be there
 * twice, in the phase of each direction. */
static uint32_t
weights_of(const attender *t, attention *a, ipu_value weights, ipu_value out[3])
{
    const ipu_node *users = ipu_uses_of(&t->uses, weights);
    uint32_t count = 1;
    out[0] = weights;
    for (uint32_t i = 0; count < 3 && i < ipu_uses_count(&t->uses, weights); i++) {
        const ipu_node_data *node =
            ipu_is_node(users[i]) ? ipu_node_of(a->parts.graph, users[i]) : NULL;
        ipu_value next;
        if (node != NULL && node->op == IPU_OP_ID_RESHAPE &&
            node->block.index == ipu_node_of(a->parts.graph, a->softmax)->block.index &&
            step_reshape(a, node, &next) && ipu__match_add(&a->parts, users[i])) {
            out[count++] = ipu_node_output(node, 0);
        }
    }
    return count;
}

enum { WEIGHTS = 1, SLOPE, TOTAL };

/* w (slope - sum(slope w)) */
static const ipu__pattern softmax_gradient = IPU__OP(
    MUL, 0, IPU__ANY(WEIGHTS),
    IPU__OF(SUB, 0, IPU__ANY(SLOPE),
            IPU__OF(SUM, TOTAL, IPU__OF(MUL, 0, IPU__ANY(SLOPE), IPU__ANY(WEIGHTS)))));

/* The gradient of what entered the softmax, if there is one. */
static ipu_value
find_sloped(const attender *t, attention *a, ipu_value weights)
{
    const ipu_graph *graph = a->parts.graph;
    const ipu_node *users = ipu_uses_of(&t->uses, weights);
    for (uint32_t i = 0; i < ipu_uses_count(&t->uses, weights); i++) {
        ipu__match trial = a->parts;
        uint32_t before = trial.node_count;
        trial.values[WEIGHTS] = weights;
        trial.values[SLOPE] = IPU_NO_VALUE;
        if (!ipu_is_node(users[i]) ||
            ipu_node_of(graph, users[i])->op != IPU_OP_ID_MUL ||
            !ipu__matches(&trial, &softmax_gradient, output_of(graph, users[i]))) {
            continue;
        }
        const ipu_node_data *sum = ipu_producer_of(graph, trial.values[TOTAL]);
        uint32_t axes;
        const int64_t *axis = ipu_attrs_ints(sum->attrs, IPU_ATTR_AXES, &axes);
        bool fits = axes == 1 && axis[0] == shape_of(graph, weights)->rank - 1 &&
                    ipu_attrs_int(sum->attrs, IPU_ATTR_KEEP_DIMS, 0) != 0;
        for (uint32_t k = before; fits && k < trial.node_count; k++) {
            fits = take(a, trial.nodes[k], true);
        }
        if (fits) {
            a->parts.values[SLOPE] = trial.values[SLOPE];
            return output_of(graph, users[i]);
        }
    }
    return IPU_NO_VALUE;
}

/* Whether a node of the way back does to the gradient x what the way forward did:
 * hides, or scales. */
static bool
undoes(attention *a, const ipu_node_data *node, ipu_value x, uint32_t *hidden,
       bool *is_scaled)
{
    const ipu_graph *graph = a->parts.graph;
    attention other = {.parts = {.graph = graph}};
    ipu_value next;
    if (node->op == IPU_OP_ID_SELECT && *hidden < a->mask_count) {
        const hiding *mask = &a->masks[(*hidden)++];
        return node->inputs[0].index == mask->flags.index &&
               node->inputs[mask->is_opposite ? 1 : 2].index == x.index &&
               ipu_constant_is(graph, node->inputs[mask->is_opposite ? 2 : 1], 0.0);
    }
    if (*is_scaled || (node->op != IPU_OP_ID_MUL && node->op != IPU_OP_ID_DIV) ||
        !step_scale(&other, node, &next) || next.index != x.index) {
        return false;
    }
    *is_scaled = true;
    return other.scale == a->scale && other.divides == a->divides;
}

/* From the gradient of what entered the softmax down to that of the scores. */
static bool
find_slope_of_scores(const attender *t, attention *a, ipu_value *x)
{
    const ipu_graph *graph = a->parts.graph;
    uint32_t hidden = a->replaces ? 0 : a->mask_count;
    bool is_scaled = !a->is_scaled;
    for (;;) {
        *x = through_reshapes(t, a, *x, false, true);
        if (hidden == a->mask_count && is_scaled) {
            return true;
        }
        ipu_node id = ipu_uses_count(&t->uses, *x) == 1 ? ipu_uses_of(&t->uses, *x)[0]
                                                        : IPU_NO_NODE;
        if (!ipu_is_node(id) ||
            !undoes(a, ipu_node_of(graph, id), *x, &hidden, &is_scaled) ||
            !take(a, id, true)) {
            return false;
        }
        *x = output_of(graph, id);
    }
}

/* All that comes of the weights, where they have gradients; or nothing. */
static bool
find_back(const attender *t, attention *a, const ipu_value *weights, uint32_t count)
{
    const ipu_graph *graph = a->parts.graph;
    const ipu_node_data *score = ipu_node_of(graph, a->score);
    const ipu_node_data *mix = ipu_node_of(graph, a->mix);
    const ipu_value q = score->inputs[0];
    const ipu_value k = score->inputs[1];
    bool k_turned = flag(graph, a->score, IPU_ATTR_TRANSPOSE_B);
    bool v_turned = flag(graph, a->mix, IPU_ATTR_TRANSPOSE_B);
    ipu_value x = find_sloped(t, a, weights[0]);
    if (x.index == IPU_NO_INDEX) {
        return true;
    }
    ipu_value slope = through_reshapes(t, a, a->parts.values[SLOPE], true, true);
    a->dw = ipu_value_of(graph, slope)->producer;
    if (!is_product(graph, a->dw, IPU_NO_VALUE, false, mix->inputs[1], !v_turned) ||
        !take(a, a->dw, true)) {
        return false;
    }
    ipu_value dy = ipu_node_of(graph, a->dw)->inputs[0];
    for (uint32_t i = 0; i < count; i++) {
        ipu_value w = weights[i];
        find_product(t, a, w, v_turned ? dy : w, true, v_turned ? w : dy, false, true,
                     &a->dv);
    }
    if (!ipu_type_equal(&ipu_value_of(graph, dy)->type,
                        &ipu_value_of(graph, ipu_node_output(mix, 0))->type) ||
        shape_of(graph, weights[0])->dims[shape_of(graph, weights[0])->rank - 1] >
            LONG_ROW ||
        !find_slope_of_scores(t, a, &x)) {
        return false;
    }
    bool has_q = find_product(t, a, x, x, false, k, !k_turned, true, &a->dq);
    bool has_k = find_product(t, a, x, k_turned ? x : q, true, k_turned ? q : x, false,
                              true, &a->dk);
    return has_q || has_k;
}

/* Whether nothing else uses a part, except what the op gives. */
static bool
is_closed(const attender *t, const attention *a)
{
    for (uint32_t i = 0; i < a->parts.node_count; i++) {
        ipu_node id = a->parts.nodes[i];
        ipu_value value = output_of(t->graph, id);
        const ipu_node *users = ipu_uses_of(&t->uses, value);
        bool is_result = id.index == a->mix.index || id.index == a->dv.index ||
                         id.index == a->dq.index || id.index == a->dk.index;
        for (uint32_t k = 0; !is_result && k < ipu_uses_count(&t->uses, value); k++) {
            if (!ipu_is_node(users[k]) || !ipu__match_has(&a->parts, users[k])) {
                return false;
            }
        }
    }
    return true;
}

/* --- sizes ------------------------------------------------------------------------ */

/* Of what the op calls scores; false where they do not fit, are none, or so many that
 * another library may serve them. */
static bool
set_sizes(attention *a)
{
    const ipu_graph *graph = a->parts.graph;
    const ipu_shape *shape = a->mask_count > 0
                                 ? &a->masks[0].at
                                 : shape_of(graph, output_of(graph, a->softmax));
    const ipu_shape *q = shape_of(graph, ipu_node_of(graph, a->score)->inputs[0]);
    const ipu_shape *y = shape_of(graph, output_of(graph, a->mix));
    int32_t lead = shape->rank - 2;
    int64_t *dims = a->scores.dims;
    a->scores = (ipu_shape){.rank = 4,
                            .dims = {1, lead == 2 ? shape->dims[1] : 1,
                                     shape->dims[lead], shape->dims[lead + 1]}};
    for (int32_t i = 0; i < lead; i++) {
        dims[0] *= lead == 2 && i == 1 ? 1 : shape->dims[i];
    }
    for (uint32_t i = 1; i < a->mask_count; i++) {
        if (!ipu_shape_equal(&a->masks[i].at, shape)) {
            return false;
        }
    }
    int64_t size = q->dims[q->rank - 1];
    int64_t value_size = y->dims[y->rank - 1];
    bool is_large = dims[2] >= IPU_LARGE_PRODUCT && dims[3] >= IPU_LARGE_PRODUCT &&
                    (size >= IPU_LARGE_PRODUCT || value_size >= IPU_LARGE_PRODUCT);
    return (a->mask_count == 0 || lead <= 2) && !is_large && size > 0 &&
           value_size > 0 && dims[0] * dims[1] * dims[2] * dims[3] > 0;
}

/* Whether the softmax is that of an attention. */
static bool
find(const attender *t, ipu_node softmax, attention *a)
{
    const ipu_graph *graph = t->graph;
    ipu_value weights = output_of(graph, softmax);
    const ipu_type *type = &ipu_value_of(graph, weights)->type;
    ipu_value forms[3];
    *a = (attention){.parts = ipu__match_in(graph),
                     .softmax = softmax,
                     .back = IPU_NO_NODE,
                     .score = IPU_NO_NODE,
                     .mix = IPU_NO_NODE,
                     .dw = IPU_NO_NODE,
                     .dv = IPU_NO_NODE,
                     .dq = IPU_NO_NODE,
                     .dk = IPU_NO_NODE,
                     .scale = 1.0};
    if (type->dtype != IPU_DTYPE_FLOAT32 || type->shape.rank < 2 ||
        !take(a, softmax, false) || !find_score(a)) {
        return false;
    }
    uint32_t count = weights_of(t, a, weights, forms);
    for (uint32_t i = 0; i < 2 * count; i++) {
        find_product(t, a, forms[i / 2], forms[i / 2], false, IPU_NO_VALUE, i % 2 == 1,
                     false, &a->mix);
    }
    return ipu_is_node(a->mix) && is_side_by_side(graph, a->score) &&
           is_side_by_side(graph, a->mix) && set_sizes(a) &&
           find_back(t, a, forms, count) && is_closed(t, a);
}

/* --- operands --------------------------------------------------------------------- */

/* The shape of a value; of none, after a failure, that of a number. */
static ipu_shape
made_shape(const ipu__rewriter *r, ipu_value x)
{
    return x.index == IPU_NO_INDEX ? ipu_shape_scalar() : *shape_of(r->graph, x);
}

/* A reshape or a broadcast. */
static ipu_value
shaped(ipu__rewriter *r, ipu_op op, ipu_value x, ipu_shape shape)
{
    ipu_attr attr = ipu_attr_shape(&shape);
    return ipu__emit(r, op, &x, 1, &attr, 1);
}

/* The last two axes exchanged. */
static ipu_value
turn(ipu__rewriter *r, ipu_value x)
{
    int64_t perm[IPU_MAX_RANK];
    int32_t rank = made_shape(r, x).rank;
    for (int32_t i = 0; i < rank; i++) {
        perm[i] = i < rank - 2 ? i : 2 * rank - 3 - i;
    }
    ipu_attr attr = ipu_attr_ints(IPU_ATTR_PERM, perm, (uint32_t)rank);
    return ipu__emit(r, IPU_OP_ID_TRANSPOSE, &x, 1, &attr, 1);
}

/* Matrices as the op takes them: [batch, heads, rows, columns], or, where `turned`, the
 * transposes of what is there. A transpose in front of a reshape is met where it is, so
 * that canonicalise joins the two. */
static ipu_value
as_operand(ipu__rewriter *r, const attention *a, ipu_value x, bool turned)
{
    const ipu_graph *graph = r->graph;
    const ipu_node_data *before =
        turned && r->status == IPU_OK ? ipu_producer_of(graph, x) : NULL;
    if (before != NULL && before->op == IPU_OP_ID_RESHAPE &&
        same_matrices(shape_of(graph, before->inputs[0]), shape_of(graph, x))) {
        x = before->inputs[0];
    }
    x = turned ? turn(r, x) : x;
    ipu_shape shape = made_shape(r, x);
    ipu_shape whole = a->scores;
    if (shape.rank >= 2) {
        whole.dims[2] = shape.dims[shape.rank - 2];
        whole.dims[3] = shape.dims[shape.rank - 1];
    }
    return shaped(r, IPU_OP_ID_RESHAPE, x, whole);
}

/* True where one mask hides nothing: [1 or batch, 1 or heads, 1 or queries, 1 or keys].
 */
static ipu_value
seen_by(ipu__rewriter *r, const hiding *mask)
{
    ipu_value operands[2] = {mask->flags, IPU_NO_VALUE};
    ipu_value seen = mask->flags;
    ipu_dtype dtype = ipu_value_of(r->graph, seen)->type.dtype;
    if (dtype != IPU_DTYPE_BOOL) {
        operands[1] = ipu__emit_number(r, dtype, 0.0);
        seen = ipu__emit(r, IPU_OP_ID_EQUAL, operands, 2, NULL, 0);
    } else if (!mask->is_opposite) {
        seen = ipu__emit(r, IPU_OP_ID_LOGICAL_NOT, operands, 1, NULL, 0);
    }
    ipu_shape shape = made_shape(r, seen);
    ipu_shape whole = {.rank = 4, .dims = {1, 1, 1, 1}};
    int32_t lead = mask->at.rank - shape.rank; /* axes that it does not have */
    for (int32_t i = 0; i < shape.rank; i++) {
        int32_t axis = i + lead;
        bool is_matrix = axis >= mask->at.rank - 2;
        whole.dims[is_matrix ? axis + 4 - mask->at.rank : axis] = shape.dims[i];
    }
    return shaped(r, IPU_OP_ID_RESHAPE, seen, whole);
}

static ipu_value
as_mask(ipu__rewriter *r, const attention *a)
{
    ipu_value seen = seen_by(r, &a->masks[0]);
    for (uint32_t i = 1; i < a->mask_count; i++) {
        ipu_value both[2] = {seen, seen_by(r, &a->masks[i])};
        seen = ipu__emit(r, IPU_OP_ID_LOGICAL_AND, both, 2, NULL, 0);
    }
    ipu_shape whole = made_shape(r, seen);
    if (r->status != IPU_OK || whole.dims[3] == a->scores.dims[3]) {
        return seen;
    }
    whole.dims[3] = a->scores.dims[3]; /* one for all keys */
    return shaped(r, IPU_OP_ID_BROADCAST, seen, whole);
}

/* --- the ops ---------------------------------------------------------------------- */

/* The op, or its gradient, with the mask after its other operands; attributes that are
 * left out have their defaults. */
static ipu_value
make_op(ipu__rewriter *r, ipu_op op, const attention *a, ipu_value inputs[5],
        uint32_t count)
{
    ipu_attr attrs[5] = {ipu_attr_float(IPU_ATTR_SCALE, a->scale)};
    uint32_t attr_count = 1;
    if (a->divides) {
        attrs[attr_count++] = ipu_attr_int(IPU_ATTR_DIVIDES, 1);
    }
    if (a->mask_count > 0 && a->hidden != -1e9) {
        attrs[attr_count++] = ipu_attr_float(IPU_ATTR_HIDDEN, a->hidden);
    }
    if (a->replaces) {
        attrs[attr_count++] = ipu_attr_int(IPU_ATTR_REPLACES, 1);
    }
    attrs[attr_count++] =
        ipu_attr_int(IPU_ATTR_GIVEN, a->mask_count > 0 ? IPU_ATTENTION_MASK : 0);
    if (a->mask_count > 0) {
        inputs[count++] = a->operands[3];
    }
    return ipu__emit(r, op, inputs, count, attrs, attr_count);
}

/* In place of the product with the values. */
static ipu_value
make_forward(ipu__rewriter *r, attention *a)
{
    const ipu_graph *graph = r->graph;
    const ipu_node_data *score = ipu_node_of(graph, a->score);
    const ipu_value factors[3] = {score->inputs[0], score->inputs[1],
                                  ipu_node_of(graph, a->mix)->inputs[1]};
    const bool turned[3] = {false, !flag(graph, a->score, IPU_ATTR_TRANSPOSE_B),
                            flag(graph, a->mix, IPU_ATTR_TRANSPOSE_B)};
    const ipu_shape shape = *shape_of(graph, output_of(graph, a->mix));
    ipu_value inputs[5];
    for (uint32_t i = 0; i < 3; i++) {
        a->operands[i] = as_operand(r, a, factors[i], turned[i]);
        inputs[i] = a->operands[i];
    }
    a->operands[3] = a->mask_count > 0 ? as_mask(r, a) : IPU_NO_VALUE;
    return shaped(r, IPU_OP_ID_RESHAPE, make_op(r, IPU_OP_ID_ATTENTION, a, inputs, 3),
                  shape);
}

/* In front of the first product that the result's gradient enters. */
static void
make_back(ipu__rewriter *r, attention *a)
{
    const ipu_graph *graph = r->graph;
    ipu_value dy = ipu__resolve(r, ipu_node_of(graph, a->dw)->inputs[0]);
    ipu_value inputs[5] = {a->operands[0], a->operands[1], a->operands[2],
                           as_operand(r, a, dy, false)};
    ipu_value dq = make_op(r, IPU_OP_ID_ATTENTION_GRAD, a, inputs, 4);
    for (uint32_t i = 0; r->status == IPU_OK && i < 3; i++) {
        a->gradients[i] =
            ipu_node_output(ipu_node_of(graph, ipu_value_of(graph, dq)->producer), i);
    }
    a->has_gradients = true;
}

/* What a product of the way back gave, of the gradient that the op gives; or no value
 * for the one that only leads there. */
static ipu_value
take_gradient(ipu__rewriter *r, const attention *a)
{
    const ipu_graph *graph = r->graph;
    const ipu_node products[3] = {a->dq, a->dk, a->dv};
    const bool turned[3] = {false, !flag(graph, a->score, IPU_ATTR_TRANSPOSE_B),
                            flag(graph, a->mix, IPU_ATTR_TRANSPOSE_B)};
    for (uint32_t i = 0; i < 3; i++) {
        if (products[i].index == r->at.index) {
            ipu_shape shape = *shape_of(graph, output_of(graph, r->at));
            ipu_value gradient = turned[i] ? turn(r, a->gradients[i]) : a->gradients[i];
            return shaped(r, IPU_OP_ID_RESHAPE, gradient, shape);
        }
    }
    return IPU_NO_VALUE;
}

static ipu_status
visit(ipu__rewriter *r, ipu_node id, bool *keep)
{
    attender *t = r->state;
    uint32_t owner = id.index < t->owner.count ? t->owner.items[id.index] : 0;
    if (owner == 0) {
        return IPU_OK;
    }
    attention *a = &t->found.items[owner - 1];
    if (a->mix.index != id.index && !a->has_gradients) {
        make_back(r, a);
    }
    ipu_value value =
        a->mix.index == id.index ? make_forward(r, a) : take_gradient(r, a);
    *keep = value.index == IPU_NO_INDEX;
    IPU_TRY(r->status);
    return *keep ? IPU_OK : ipu__replace(r, output_of(r->graph, id), value);
}

/* --- the pass --------------------------------------------------------------------- */

static ipu_status
find_all(attender *t, ipu_block id)
{
    IPU_EACH_NODE(n, t->graph, id) {
        const ipu_node_data *node = ipu_node_of(t->graph, n);
        attention a;
        for (uint32_t i = 0; i < ipu_node_block_count(node); i++) {
            IPU_TRY(find_all(t, ipu_node_block(node, i)));
        }
        if (node->op != IPU_OP_ID_SOFTMAX || !find(t, n, &a)) {
            continue;
        }
        IPU_TRY(IPU_ARRAY_PUSH(t->ctx, &t->found, a));
        const ipu_node products[] = {a.mix, a.dw, a.dv, a.dq, a.dk};
        for (uint32_t i = 0; i < sizeof products / sizeof products[0]; i++) {
            if (ipu_is_node(products[i])) {
                t->owner.items[products[i].index] = (uint32_t)t->found.count;
            }
        }
    }
    return IPU_OK;
}

static ipu_status
attend(ipu_ctx *ctx, ipu_graph *graph, attender *t)
{
    ipu__rewriter rewriter = {.ctx = ctx, .graph = graph, .visit = visit, .state = t};
    IPU_TRY(ipu_uses_find(ctx, graph, &t->uses));
    IPU_TRY(IPU_ARRAY_EXTEND(ctx, &t->owner, graph->nodes.count, NULL));
    IPU_TRY(find_all(t, (ipu_block){0}));
    if (t->found.count == 0) {
        return IPU_OK;
    }
    IPU_TRY(ipu__rewrite(&rewriter));
    IPU_TRY(ipu_pass_prune(ctx, graph));
    IPU_TRY(ipu_pass_canonicalise(ctx, graph)); /* transposes meet */
    return ipu_pass_prune(ctx, graph);
}

ipu_status
ipu_pass_attend(ipu_ctx *ctx, ipu_graph *graph)
{
    attender t = {.ctx = ctx, .graph = graph};
    ipu_status status = IPU_OK;
    bool has_softmax = false;
    for (size_t i = 0; !has_softmax && i < graph->nodes.count; i++) {
        has_softmax = graph->nodes.items[i].op == IPU_OP_ID_SOFTMAX;
    }
    if (has_softmax) {
        status = attend(ctx, graph, &t);
    }
    ipu_uses_free(ctx, &t.uses);
    IPU_ARRAY_FREE(ctx, &t.found);
    IPU_ARRAY_FREE(ctx, &t.owner);
    return status;
}
