/* SPDX-License-Identifier: MIT
 *
 * Attention that is written in single ops, found around its softmax: up to the scores,
 * down to the product with the values, and, where the weights have more uses, through
 * the gradient of the softmax to the three products of the way back. In: a graph in
 * canonical form. Reads only; it fires where the op has the same bits for all inputs:
 *
 *   - float32; matrices side by side, none of them broadcast
 *   - scores times a constant, or divided by a power of two
 *   - one mask, added as -1e9 times something that can only be 0 or 1
 *   - no product that is so large in every direction that another library may serve it
 *   - at most 8,192 keys, where there are gradients
 *
 * Reshapes in between may split and join the axes of matrices that lie side by side. */
#include <math.h>
#include <string.h>

#include "passes/attention_found.h"

enum {
    DEEPEST = 8,     /* expressions of a mask */
    LONG_ROW = 8192, /* that a sum makes in parts, and the op's gradient at once */
    LARGE_SIDE = 512 /* of a product; no other library serves smaller ones (gemm.c) */
};

/* --- the walk --------------------------------------------------------------------- */

typedef struct finder {
    const ipu_graph *graph;
    const ipu_uses *uses;
    const ipu_node_data *softmax;
    const ipu_node_data *back; /* the first node of the way back that is met; or NULL */
    ipu__attention_found *found;
    ipu_value weights;
    ipu_value slope; /* the gradient of the weights, as it meets them */
    ipu_node sloped; /* w (dw - sum(dw w)) */
} finder;

static const ipu_node *
users_of(const finder *f, ipu_value value, uint32_t *count)
{
    *count = ipu_uses_count(f->uses, value);
    return ipu_uses_of(f->uses, value);
}

/* The one use of a value; IPU_NO_NODE where there are more, or a block's. */
static ipu_node
only_user(const finder *f, ipu_value value)
{
    uint32_t count;
    const ipu_node *users = users_of(f, value, &count);
    return count == 1 ? users[0] : IPU_NO_NODE;
}

static const ipu_type *
type_of(const finder *f, ipu_value value)
{
    return &ipu_value_of(f->graph, value)->type;
}

static bool
runs_with(const ipu_node_data *node, const ipu_node_data *other)
{
    return node->block.index == other->block.index &&
           node->recomputation == other->recomputation &&
           ipu_placement_equal(node->placement, other->placement);
}

/* The node, where it is this op and part of the way back, which may be of another phase
 * than the way forward. */
static const ipu_node_data *
back_if(finder *f, ipu_node id, ipu_op op)
{
    const ipu_node_data *node = ipu_is_node(id) ? ipu_node_of(f->graph, id) : NULL;
    if (node == NULL || node->op != op ||
        node->block.index != f->softmax->block.index) {
        return NULL;
    }
    f->back = f->back == NULL ? node : f->back;
    return runs_with(node, f->back) ? node : NULL;
}

bool
ipu__attention_flag(const ipu_graph *graph, ipu_node product, ipu_attr_key key)
{
    return ipu_attrs_int(ipu_node_of(graph, product)->attrs, key, 0) != 0;
}

/* Whether a reshape leaves the matrices of the last two axes as they are. */
static bool
keeps_matrices(const finder *f, const ipu_node_data *reshape)
{
    const ipu_shape *from = &type_of(f, reshape->inputs[0])->shape;
    const ipu_shape *to = &type_of(f, ipu_node_output(reshape, 0))->shape;
    return from->rank >= 2 && to->rank >= 2 &&
           from->dims[from->rank - 1] == to->dims[to->rank - 1] &&
           from->dims[from->rank - 2] == to->dims[to->rank - 2];
}

/* --- numbers and masks ------------------------------------------------------------ */

/* The bytes of a constant of float32, and how many numbers they are. */
static const void *
literal_f32(const ipu_graph *graph, ipu_value value, uint32_t *count)
{
    const ipu_node_data *node = ipu_producer_of(graph, value);
    if (node != NULL && node->op == IPU_OP_ID_BROADCAST) {
        node = ipu_producer_of(graph, node->inputs[0]);
    }
    if (node == NULL || node->op != IPU_OP_ID_CONSTANT ||
        ipu_value_of(graph, value)->type.dtype != IPU_DTYPE_FLOAT32) {
        return NULL;
    }
    const ipu_attr *bytes = ipu_attrs_find(node->attrs, IPU_ATTR_VALUE);
    *count = bytes == NULL ? 0 : bytes->count / (uint32_t)sizeof(float);
    return *count == 0 ? NULL : bytes->as.bytes;
}

static float
number_at(const void *bytes, uint32_t i)
{
    float x;
    memcpy(&x, (const unsigned char *)bytes + i * sizeof x, sizeof x);
    return x;
}

/* Whether it is a constant whose elements are 0 or this number. */
static bool
is_zero_or(const ipu_graph *graph, ipu_value value, double number)
{
    uint32_t count;
    const void *bytes = literal_f32(graph, value, &count);
    for (uint32_t i = 0; bytes != NULL && i < count; i++) {
        double x = (double)number_at(bytes, i);
        if (x != 0.0 && x != number) {
            return false;
        }
    }
    return bytes != NULL;
}

/* The number that all elements of a constant are. */
static bool
read_number(const ipu_graph *graph, ipu_value value, double *out)
{
    uint32_t count;
    const void *bytes = literal_f32(graph, value, &count);
    if (bytes == NULL || count != 1) {
        return false;
    }
    *out = (double)number_at(bytes, 0);
    return true;
}

static bool
is_number(const ipu_graph *graph, ipu_value value, double number)
{
    double found;
    return read_number(graph, value, &found) && found == number;
}

/* Whether every element is 0 or 1: constants, what is cast from bool, 1 less that, the
 * larger or the product of two, and these moved about. */
static bool
is_zero_or_one(const ipu_graph *graph, ipu_value value, int32_t depth)
{
    const ipu_node_data *node = ipu_producer_of(graph, value);
    if (node == NULL || depth == DEEPEST) {
        return false;
    }
    switch (node->op) {
    case IPU_OP_ID_CONSTANT:
        return is_zero_or(graph, value, 1.0);
    case IPU_OP_ID_CAST:
        return ipu_value_of(graph, node->inputs[0])->type.dtype == IPU_DTYPE_BOOL;
    case IPU_OP_ID_SUB:
        return is_number(graph, node->inputs[0], 1.0) &&
               is_zero_or_one(graph, node->inputs[1], depth + 1);
    case IPU_OP_ID_MAXIMUM:
    case IPU_OP_ID_MUL:
        return is_zero_or_one(graph, node->inputs[0], depth + 1) &&
               is_zero_or_one(graph, node->inputs[1], depth + 1);
    case IPU_OP_ID_RESHAPE:
    case IPU_OP_ID_TRANSPOSE:
    case IPU_OP_ID_BROADCAST:
        return is_zero_or_one(graph, node->inputs[0], depth + 1);
    default:
        return false;
    }
}

/* Whether a term of the scores hides some of them, and what is not 0 where it does. */
static bool
is_hiding(const finder *f, ipu_value term, ipu_value *hidden)
{
    const ipu_node_data *node = ipu_producer_of(f->graph, term);
    const ipu_shape *shape = &type_of(f, term)->shape;
    if (node == NULL || shape->rank < 1) {
        return false;
    }
    if (node->op == IPU_OP_ID_CONSTANT && is_zero_or(f->graph, term, -1e9)) {
        *hidden = term;
        return true;
    }
    if (node->op != IPU_OP_ID_MUL || !is_number(f->graph, node->inputs[1], -1e9) ||
        !is_zero_or_one(f->graph, node->inputs[0], 0) ||
        type_of(f, node->inputs[0])->shape.rank != shape->rank) {
        return false;
    }
    *hidden = node->inputs[0];
    return true;
}

/* --- scores ----------------------------------------------------------------------- */

/* What a node makes of its first operand: times this; 0 where it is no such node. */
static double
factor_of(const ipu_graph *graph, const ipu_node_data *node)
{
    double number = 0.0;
    int exponent;
    if ((node->op != IPU_OP_ID_MUL && node->op != IPU_OP_ID_DIV) ||
        !read_number(graph, node->inputs[1], &number)) {
        return 0.0;
    }
    if (node->op == IPU_OP_ID_MUL) {
        return isfinite(number) ? number : 0.0;
    }
    bool is_power = isfinite(number) && fabs(frexp(number, &exponent)) == 0.5;
    return is_power && exponent > -100 && exponent < 100 ? 1.0 / number : 0.0;
}

/* From the softmax up to the product: a mask is added behind the factor. */
static bool
find_score(finder *f)
{
    ipu__attention_found *found = f->found;
    ipu_value x = f->softmax->inputs[0];
    found->scale = 1.0;
    found->hidden = IPU_NO_VALUE;
    for (bool is_scaled = false;;) {
        const ipu_node_data *node = ipu_producer_of(f->graph, x);
        if (node == NULL || !runs_with(node, f->softmax) ||
            !ipu_is_node(only_user(f, x))) {
            return false;
        }
        double factor = factor_of(f->graph, node);
        if (node->op == IPU_OP_ID_MATMUL) {
            found->score = ipu_value_of(f->graph, x)->producer;
            return true;
        }
        if (node->op == IPU_OP_ID_RESHAPE && keeps_matrices(f, node)) {
            x = node->inputs[0];
        } else if (factor != 0.0 && !is_scaled) {
            found->scale = factor;
            is_scaled = true;
            x = node->inputs[0];
        } else if (node->op == IPU_OP_ID_ADD && !is_scaled &&
                   found->hidden.index == IPU_NO_INDEX) {
            uint32_t side = is_hiding(f, node->inputs[0], &found->hidden) ? 1 : 0;
            if (side == 0 && !is_hiding(f, node->inputs[1], &found->hidden)) {
                return false;
            }
            found->hidden_at = type_of(f, x)->shape;
            x = node->inputs[side];
            if (!ipu_shape_equal(&type_of(f, x)->shape, &found->hidden_at)) {
                return false;
            }
        } else {
            return false;
        }
    }
}

/* Whether a product's operands lie side by side as its results do. */
static bool
is_side_by_side(const finder *f, ipu_node product)
{
    const ipu_node_data *node = ipu_node_of(f->graph, product);
    const ipu_shape *out = &type_of(f, ipu_node_output(node, 0))->shape;
    for (uint32_t i = 0; i < 2; i++) {
        const ipu_shape *in = &type_of(f, node->inputs[i])->shape;
        if (in->rank != out->rank ||
            memcmp(in->dims, out->dims,
                   (size_t)(out->rank - 2) * sizeof out->dims[0]) != 0) {
            return false;
        }
    }
    return true;
}

/* --- the weights' uses ------------------------------------------------------------ */

/* A product of the weights or of their transpose. */
static bool
take_product(finder *f, ipu_node id, ipu_value weights)
{
    ipu__attention_found *found = f->found;
    const ipu_node_data *node = ipu_node_of(f->graph, id);
    bool ta = ipu__attention_flag(f->graph, id, IPU_ATTR_TRANSPOSE_A);
    bool is_left = node->inputs[0].index == weights.index;
    if (!ta && is_left && !ipu_is_node(found->mix)) {
        found->mix = id;
        return node->inputs[1].index != weights.index && runs_with(node, f->softmax);
    }
    if (!ta || ipu_is_node(found->dv) ||
        ipu__attention_flag(f->graph, id, IPU_ATTR_TRANSPOSE_B)) {
        return false;
    }
    found->dv = id;
    return node->inputs[is_left ? 1 : 0].index != weights.index &&
           back_if(f, id, IPU_OP_ID_MATMUL) != NULL;
}

/* A product with the weights: with their gradient, or with that less its mean. */
static bool
take_factor(finder *f, ipu_node id, ipu_value weights)
{
    const ipu_node_data *node = back_if(f, id, IPU_OP_ID_MUL);
    if (node == NULL || weights.index != f->weights.index) {
        return false;
    }
    bool is_first = node->inputs[0].index == weights.index;
    ipu_value other = node->inputs[is_first ? 1 : 0];
    const ipu_node_data *maker = ipu_producer_of(f->graph, other);
    if (maker != NULL && maker->op == IPU_OP_ID_SUB && !ipu_is_node(f->sloped)) {
        f->sloped = id;
        return true;
    }
    bool is_new = f->slope.index == IPU_NO_INDEX;
    f->slope = other;
    return is_new && other.index != weights.index;
}

static bool
take_uses(finder *f, ipu_value weights)
{
    uint32_t count;
    const ipu_node *users = users_of(f, weights, &count);
    for (uint32_t i = 0; i < count; i++) {
        if (!ipu_is_node(users[i])) {
            return false;
        }
        const ipu_node_data *node = ipu_node_of(f->graph, users[i]);
        bool fits = node->op == IPU_OP_ID_MATMUL ? take_product(f, users[i], weights)
                                                 : take_factor(f, users[i], weights);
        if (node->op == IPU_OP_ID_RESHAPE) {
            fits = weights.index == f->weights.index && keeps_matrices(f, node) &&
                   node->block.index == f->softmax->block.index &&
                   take_uses(f, ipu_node_output(node, 0));
        }
        if (!fits) {
            return false;
        }
    }
    return true;
}

/* --- the way back ----------------------------------------------------------------- */

/* w (slope - sum(slope w)): the sum of the last axis, and nothing else in between. */
static bool
is_softmax_gradient(finder *f)
{
    uint32_t count;
    const ipu_node_data *sloped = ipu_node_of(f->graph, f->sloped);
    bool is_first = sloped->inputs[0].index == f->weights.index;
    ipu_value centred = sloped->inputs[is_first ? 1 : 0];
    (void)users_of(f, f->slope, &count);
    const ipu_node_data *less = ipu_producer_of(f->graph, centred);
    if (count != 2 || !ipu_is_node(only_user(f, centred)) ||
        less->inputs[0].index != f->slope.index ||
        back_if(f, ipu_value_of(f->graph, centred)->producer, IPU_OP_ID_SUB) == NULL) {
        return false;
    }
    const ipu_value_data *total = ipu_value_of(f->graph, less->inputs[1]);
    const ipu_node_data *sum = back_if(f, total->producer, IPU_OP_ID_SUM);
    if (sum == NULL || !ipu_is_node(only_user(f, less->inputs[1])) ||
        ipu_attrs_int(sum->attrs, IPU_ATTR_KEEP_DIMS, 0) == 0) {
        return false;
    }
    uint32_t axes;
    const int64_t *axis = ipu_attrs_ints(sum->attrs, IPU_ATTR_AXES, &axes);
    const ipu_node_data *met = ipu_producer_of(f->graph, sum->inputs[0]);
    bool is_own = met != NULL && met->op == IPU_OP_ID_MUL && met != sloped &&
                  (met->inputs[0].index == f->weights.index ||
                   met->inputs[1].index == f->weights.index) &&
                  (met->inputs[0].index == f->slope.index ||
                   met->inputs[1].index == f->slope.index);
    return is_own && ipu_is_node(only_user(f, sum->inputs[0])) && axes == 1 &&
           axis[0] == type_of(f, f->weights)->shape.rank - 1;
}

/* From the gradient of the weights up to the product that makes it. */
static bool
find_slope(finder *f)
{
    const ipu_node_data *mix = ipu_node_of(f->graph, f->found->mix);
    ipu_value x = f->slope;
    for (;;) {
        ipu_node id = ipu_value_of(f->graph, x)->producer;
        const ipu_node_data *reshape = back_if(f, id, IPU_OP_ID_RESHAPE);
        if (reshape == NULL || !keeps_matrices(f, reshape)) {
            break;
        }
        x = reshape->inputs[0];
        if (!ipu_is_node(only_user(f, x))) {
            return false;
        }
    }
    ipu_node id = ipu_value_of(f->graph, x)->producer;
    const ipu_node_data *dw = back_if(f, id, IPU_OP_ID_MATMUL);
    f->found->dw = id;
    return dw != NULL && !ipu__attention_flag(f->graph, id, IPU_ATTR_TRANSPOSE_A) &&
           ipu__attention_flag(f->graph, id, IPU_ATTR_TRANSPOSE_B) !=
               ipu__attention_flag(f->graph, f->found->mix, IPU_ATTR_TRANSPOSE_B) &&
           dw->inputs[1].index == mix->inputs[1].index &&
           ipu_type_equal(type_of(f, dw->inputs[0]),
                          type_of(f, ipu_node_output(mix, 0)));
}

/* One of the products of the scores' gradient. */
static bool
take_gradient(finder *f, ipu_node id, ipu_value gradient)
{
    ipu__attention_found *found = f->found;
    const ipu_node_data *node = back_if(f, id, IPU_OP_ID_MATMUL);
    const ipu_node_data *score = ipu_node_of(f->graph, found->score);
    bool is_turned = ipu__attention_flag(f->graph, found->score, IPU_ATTR_TRANSPOSE_B);
    if (node == NULL) {
        return false;
    }
    bool ta = ipu__attention_flag(f->graph, id, IPU_ATTR_TRANSPOSE_A);
    bool tb = ipu__attention_flag(f->graph, id, IPU_ATTR_TRANSPOSE_B);
    ipu_value q = score->inputs[0];
    if (!ta && tb != is_turned && node->inputs[0].index == gradient.index &&
        node->inputs[1].index == score->inputs[1].index && !ipu_is_node(found->dq)) {
        found->dq = id;
        return true;
    }
    uint32_t left = is_turned ? 0 : 1; /* where the gradient is for k, or k^T */
    if (ta && !tb && node->inputs[left].index == gradient.index &&
        node->inputs[1 - left].index == q.index && !ipu_is_node(found->dk)) {
        found->dk = id;
        return true;
    }
    return false;
}

/* From the gradient of what entered the softmax down to the products. */
static bool
find_gradients(finder *f)
{
    ipu_value x = ipu_node_output(ipu_node_of(f->graph, f->sloped), 0);
    bool is_scaled = f->found->scale == 1.0;
    uint32_t count;
    for (;;) {
        ipu_node id = only_user(f, x);
        const ipu_node_data *node =
            ipu_is_node(id) ? ipu_node_of(f->graph, id) : NULL;
        bool moves = node != NULL && node->op == IPU_OP_ID_RESHAPE &&
                     keeps_matrices(f, node);
        bool scales = node != NULL && !is_scaled && node->inputs[0].index == x.index &&
                      factor_of(f->graph, node) == f->found->scale;
        if ((!moves && !scales) || back_if(f, id, node->op) == NULL) {
            break;
        }
        is_scaled |= scales;
        x = ipu_node_output(node, 0);
    }
    const ipu_node *users = users_of(f, x, &count);
    for (uint32_t i = 0; i < count; i++) {
        if (!take_gradient(f, users[i], x)) {
            return false;
        }
    }
    return is_scaled && count > 0;
}

/* All that comes of the weights, where they have gradients; or nothing. */
static bool
find_back(finder *f)
{
    ipu__attention_found *found = f->found;
    if (f->back == NULL) {
        return true;
    }
    if (f->slope.index == IPU_NO_INDEX || !ipu_is_node(f->sloped) ||
        found->scores.dims[3] > LONG_ROW || !is_softmax_gradient(f) ||
        !find_slope(f) || !find_gradients(f)) {
        return false;
    }
    if (!ipu_is_node(found->dv)) {
        return true;
    }
    const ipu_node_data *dv = ipu_node_of(f->graph, found->dv);
    bool is_turned = ipu__attention_flag(f->graph, found->mix, IPU_ATTR_TRANSPOSE_B);
    ipu_value dy = ipu_node_of(f->graph, found->dw)->inputs[0];
    return dv->inputs[is_turned ? 0 : 1].index == dy.index;
}

/* --- sizes ------------------------------------------------------------------------ */

/* Of what the op calls scores; false where a mask does not fit them. */
static bool
set_sizes(finder *f)
{
    ipu__attention_found *found = f->found;
    bool is_masked = found->hidden.index != IPU_NO_INDEX;
    const ipu_shape *shape =
        is_masked ? &found->hidden_at : &type_of(f, f->weights)->shape;
    int32_t lead = shape->rank - 2;
    found->scores.dims[0] = 1;
    found->scores.dims[1] = lead == 2 ? shape->dims[1] : 1;
    for (int32_t i = 0; i < lead; i++) {
        found->scores.dims[0] *= lead == 2 && i == 1 ? 1 : shape->dims[i];
    }
    return !is_masked || lead <= 2;
}

/* Another library may serve what is large in every direction. */
static bool
is_own(const finder *f)
{
    const ipu__attention_found *found = f->found;
    const ipu_node_data *score = ipu_node_of(f->graph, found->score);
    const ipu_shape *q = &type_of(f, score->inputs[0])->shape;
    const ipu_node_data *mix = ipu_node_of(f->graph, found->mix);
    const ipu_shape *y = &type_of(f, ipu_node_output(mix, 0))->shape;
    int64_t size = q->dims[q->rank - 1];
    int64_t value_size = y->dims[y->rank - 1];
    int64_t queries = found->scores.dims[2];
    int64_t keys = found->scores.dims[3];
    int64_t matrices = found->scores.dims[0] * found->scores.dims[1];
    bool is_empty =
        matrices * queries * keys == 0 || size == 0 || value_size == 0;
    bool is_large = queries >= LARGE_SIDE && keys >= LARGE_SIDE &&
                    (size >= LARGE_SIDE || value_size >= LARGE_SIDE);
    return !is_empty && !is_large;
}

bool
ipu__attention_find(const ipu_graph *graph, const ipu_uses *uses, ipu_node softmax,
                    ipu__attention_found *out)
{
    const ipu_node_data *node = ipu_node_of(graph, softmax);
    finder f = {.graph = graph,
                .uses = uses,
                .softmax = node,
                .found = out,
                .weights = ipu_node_output(node, 0),
                .slope = IPU_NO_VALUE,
                .sloped = IPU_NO_NODE};
    const ipu_type *type = type_of(&f, f.weights);
    *out = (ipu__attention_found){.score = IPU_NO_NODE,
                                  .mix = IPU_NO_NODE,
                                  .dw = IPU_NO_NODE,
                                  .dv = IPU_NO_NODE,
                                  .dq = IPU_NO_NODE,
                                  .dk = IPU_NO_NODE,
                                  .hidden = IPU_NO_VALUE,
                                  .scores = {.rank = 4}};
    if (type->dtype != IPU_DTYPE_FLOAT32 || type->shape.rank < 2) {
        return false;
    }
    out->scores.dims[2] = type->shape.dims[type->shape.rank - 2];
    out->scores.dims[3] = type->shape.dims[type->shape.rank - 1];
    return find_score(&f) && take_uses(&f, f.weights) && ipu_is_node(out->mix) &&
           !ipu__attention_flag(graph, out->score, IPU_ATTR_TRANSPOSE_A) &&
           is_side_by_side(&f, out->score) && is_side_by_side(&f, out->mix) &&
           find_back(&f) && set_sizes(&f) && is_own(&f);
}
