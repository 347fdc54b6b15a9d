/* SPDX-License-Identifier: MIT
 *
 * Part of the pass `fuse` (fuse.c): products take up what follows them. An addition of
 * a bias or of what a loop carries, an activation, a step of a convolution or an SGD
 * update finds the product that it finishes, and one node takes the place of both. So
 * does the gradient of a relu, of the convolution's gradient in front of it; and where
 * x goes into a maximum pooling whose results are y,
 *
 *   relu_grad(x, max_pool_grad(x, y, dy))  ->  max_pool_grad(x, y, relu_grad(y, dy))
 *
 * which has fewer elements. dy goes to an element that equals y, or is NaN as y is, so
 * both ask of the same number whether it is above 0; all else is 0 either way. */
#include <string.h>

#include "passes/fuse_impl.h"

/* --- matmul, SGD update or accumulator ------------------------------------------- */

/* Whether the bytes of a value lie in a variable, which a write would change. */
static bool
is_variable(const ipu__fuser *f, ipu_value value)
{
    const ipu_node_data *node = ipu_producer_of(f->graph, value);
    while (node != NULL && (ipu_node_flags(node) & IPU_OP_VIEW) != 0) {
        node = ipu_producer_of(f->graph, node->inputs[0]);
    }
    return node != NULL && node->op == IPU_OP_ID_VARIABLE_READ;
}

/* The node of this op, of two inputs, that makes `value` for `user` alone and may be
 * computed where that is: past the writes of other variables, if it reads none and
 * cannot fail. */
static const ipu_node_data *
find_late(const ipu__fuser *f, ipu_value value, ipu_node user, ipu_op op)
{
    const ipu_node_data *node = ipu_producer_of(f->graph, value);
    if (node == NULL || node->op != op || ipu_uses_count(&f->uses, value) != 1) {
        return NULL;
    }
    ipu_node id = ipu_value_of(f->graph, value)->producer;
    if (f->notes.items[id.index].stretch != f->notes.items[user.index].stretch ||
        is_variable(f, node->inputs[0]) || is_variable(f, node->inputs[1]) ||
        !ipu__fuse_keeps_order(f, id, user)) {
        return NULL;
    }
    return node;
}

static const ipu_node_data *
find_late_product(const ipu__fuser *f, ipu_value value, ipu_node user)
{
    const ipu_type *type = &ipu_value_of(f->graph, value)->type;
    return type->shape.rank == 2 && type->dtype == IPU_DTYPE_FLOAT32
               ? find_late(f, value, user, IPU_OP_ID_MATMUL)
               : NULL;
}

/* The gradient of a gather of rows. */
static const ipu_node_data *
find_late_rows(const ipu__fuser *f, ipu_value value, ipu_node user)
{
    ipu_dtype dtype = ipu_value_of(f->graph, value)->type.dtype;
    const ipu_node_data *rows = find_late(f, value, user, IPU_OP_ID_GATHER_GRAD);
    bool first_axis = rows != NULL &&
                      ipu_attrs_int(rows->attrs, IPU_ATTR_AXIS, 0) == 0 &&
                      ipu_attrs_int(rows->attrs, IPU_ATTR_BATCH_DIMS, 0) == 0;
    return first_axis && (dtype == IPU_DTYPE_FLOAT32 || dtype == IPU_DTYPE_FLOAT16)
               ? rows
               : NULL;
}

/* Those of a matmul, also where they are left out. Gives how many there are. */
static uint32_t
transposes_of(const ipu_node_data *product, ipu_attr *out)
{
    static const ipu_attr_key keys[] = {IPU_ATTR_TRANSPOSE_A, IPU_ATTR_TRANSPOSE_B};
    for (uint32_t i = 0; i < 2; i++) {
        out[i] = ipu_attr_int(keys[i], ipu_attrs_int(product->attrs, keys[i], 0));
    }
    return 2;
}

static ipu_status
visit_update(ipu__rewriter *r, ipu_node id, bool *keep)
{
    const ipu_node_data *update = ipu_node_of(r->graph, id);
    ipu_value gradient = update->inputs[0];
    const ipu_node_data *product = find_late_product(r->state, gradient, id);
    const ipu_node_data *maker =
        product != NULL ? product : find_late_rows(r->state, gradient, id);
    if (maker == NULL) {
        return IPU_OK;
    }
    uint32_t slot_count;
    const int64_t *slots = ipu_attrs_ints(update->attrs, IPU_ATTR_SLOTS, &slot_count);
    const ipu_shape *shape = &ipu_value_of(r->graph, gradient)->type.shape;
    ipu_value inputs[3] = {maker->inputs[0], maker->inputs[1], update->inputs[1]};
    ipu_attr attrs[6];
    uint32_t count = 0;
    if (product != NULL) {
        count = transposes_of(product, attrs);
    } else {
        attrs[count++] = ipu_attr_shape(shape);
    }
    attrs[count++] = ipu_attr_int(IPU_ATTR_RESOURCE,
                                  ipu_attrs_int(update->attrs, IPU_ATTR_RESOURCE, 0));
    attrs[count++] = ipu_attr_float(
        IPU_ATTR_MOMENTUM, ipu_attrs_float(update->attrs, IPU_ATTR_MOMENTUM, 0.0));
    attrs[count++] = ipu_attr_int(IPU_ATTR_NESTEROV,
                                  ipu_attrs_int(update->attrs, IPU_ATTR_NESTEROV, 0));
    if (slot_count > 0) {
        attrs[count++] = ipu_attr_ints(IPU_ATTR_SLOTS, slots, slot_count);
    }
    *keep = false;
    (void)ipu__emit(
        r, product != NULL ? IPU_OP_ID_MATMUL_SGD_UPDATE : IPU_OP_ID_GATHER_SGD_UPDATE,
        inputs, 3, attrs, count);
    return r->status;
}

/* The product that `add` adds to a value which a loop carries and nothing else reads:
 * the sum takes its place. */
static const ipu_node_data *
find_accumulated(const ipu__fuser *f, const ipu_node_data *add, ipu_node id,
                 ipu_value *accumulator)
{
    for (uint32_t side = 0; add->op == IPU_OP_ID_ADD && side < 2; side++) {
        const ipu_node_data *product = find_late_product(f, add->inputs[side], id);
        const ipu_value_data *other = ipu_value_of(f->graph, add->inputs[1 - side]);
        *accumulator = add->inputs[1 - side];
        if (product != NULL && !ipu_is_node(other->producer) &&
            other->block.index == add->block.index &&
            ipu_is_node(ipu_block_of(f->graph, add->block)->owner) &&
            ipu_uses_count(&f->uses, *accumulator) == 1 &&
            ipu_type_equal(&other->type,
                           &ipu_value_of(f->graph, add->inputs[side])->type) &&
            ipu_placement_equal(product->placement, add->placement)) {
            return product;
        }
    }
    return NULL;
}

/* --- product, bias, activation --------------------------------------------------- */

static ipu_activation
activation_of(ipu_op op)
{
    return op == IPU_OP_ID_RELU      ? IPU_ACTIVATION_RELU
           : op == IPU_OP_ID_TANH    ? IPU_ACTIVATION_TANH
           : op == IPU_OP_ID_SIGMOID ? IPU_ACTIVATION_SIGMOID
                                     : IPU_ACTIVATION_NONE;
}

/* The op that finishes what this one makes. */
static ipu_op
finished_form(ipu_op op)
{
    return op == IPU_OP_ID_MATMUL || op == IPU_OP_ID_FUSED_MATMUL
               ? IPU_OP_ID_FUSED_MATMUL
           : op == IPU_OP_ID_CONV || op == IPU_OP_ID_FUSED_CONV ? IPU_OP_ID_FUSED_CONV
                                                                : IPU_OP_ID_COUNT;
}

/* The node that makes `value` for `user` alone and may be part of it, or NULL. */
static const ipu_node_data *
own_node(const ipu__fuser *f, ipu_value value, ipu_node user)
{
    const ipu_node_data *node = ipu_producer_of(f->graph, value);
    bool joins = node != NULL && ipu_uses_count(&f->uses, value) == 1 &&
                 ipu__fuse_may_join(f, ipu_value_of(f->graph, value)->producer, user);
    return joins ? node : NULL;
}

/* The same of a product, finished in part or not at all. */
static const ipu_node_data *
own_product(const ipu__fuser *f, ipu_value value, ipu_node user)
{
    const ipu_node_data *node = own_node(f, value, user);
    return node == NULL || finished_form(node->op) == IPU_OP_ID_COUNT ? NULL : node;
}

static bool
is_bias(const ipu__fuser *f, ipu_value bias, const ipu_node_data *node)
{
    const ipu_type *type = &ipu_value_of(f->graph, bias)->type;
    const ipu_type *product = &ipu_value_of(f->graph, ipu_node_output(node, 0))->type;
    return type->shape.rank == 1 && type->dtype == product->dtype &&
           type->shape.dims[0] == product->shape.dims[product->shape.rank - 1];
}

/* A fused node takes the place of `old`: same users, same segment. */
static ipu_status
take_place(ipu__rewriter *r, ipu_value old, ipu_value fused)
{
    ipu__fuser *f = r->state;
    IPU_TRY(r->status);
    ipu_node old_node = ipu_value_of(r->graph, old)->producer;
    ipu_node fused_node = ipu_value_of(r->graph, fused)->producer;
    IPU_TRY(IPU_ARRAY_EXTEND(f->ctx, &f->notes, (size_t)fused_node.index + 1, NULL));
    IPU_TRY(ipu_uses_hand_on(f->ctx, &f->uses, old, fused));
    f->notes.items[fused_node.index] = f->notes.items[old_node.index];
    return ipu__replace(r, old, fused);
}

/* Finds what `node` finishes: the product, and a bias that it adds. An activation may
 * find a product with its bias already fused by an earlier visit. */
static const ipu_node_data *
find_product(const ipu__fuser *f, const ipu_node_data *node, ipu_node id,
             ipu_value *bias)
{
    const ipu_node_data *product = NULL;
    *bias = IPU_NO_VALUE;
    if (node->op == IPU_OP_ID_ADD) {
        for (uint32_t side = 0; side < 2; side++) {
            product = own_product(f, node->inputs[side], id);
            *bias = node->inputs[1 - side];
            if (product != NULL && product->op == IPU_OP_ID_MATMUL &&
                is_bias(f, *bias, product)) {
                return product;
            }
        }
        return NULL;
    }
    if (activation_of(node->op) == IPU_ACTIVATION_NONE) {
        return NULL;
    }
    product = own_product(f, node->inputs[0], id);
    if (product != NULL && ipu_attrs_int(product->attrs, IPU_ATTR_ACTIVATION, 0) ==
                               (int64_t)IPU_ACTIVATION_NONE) {
        return product;
    }
    return NULL;
}

/* The attributes of `product`, of matmul also those left out, with an activation. Gives
 * how many there are. */
static uint32_t
finished_attrs(const ipu_node_data *product, ipu_activation activation,
               ipu_attr attrs[IPU_ATTR_COUNT])
{
    const bool is_conv = finished_form(product->op) == IPU_OP_ID_FUSED_CONV;
    uint32_t count = is_conv ? 0 : transposes_of(product, attrs);
    for (uint32_t i = 0; is_conv && i < product->attrs.count; i++) {
        if (product->attrs.items[i].key != IPU_ATTR_ACTIVATION) {
            attrs[count++] = product->attrs.items[i];
        }
    }
    attrs[count] = ipu_attr_int(IPU_ATTR_ACTIVATION, (int64_t)activation);
    return count + 1;
}

enum { FUSED_CONV_INPUTS = 6, CONV_STEPS = FUSED_CONV_INPUTS - 2 };

/* What `node`, an addition or a multiplication, does to a convolution by this operand;
 * IPU_CONV_STEP_COUNT: nothing that goes into it. */
static ipu_conv_step
step_of(const ipu__fuser *f, const ipu_node_data *node, ipu_value operand,
        const ipu_node_data *conv)
{
    const ipu_type *type = &ipu_value_of(f->graph, operand)->type;
    const ipu_type *result = &ipu_value_of(f->graph, ipu_node_output(conv, 0))->type;
    const bool adds = node->op == IPU_OP_ID_ADD;
    if (ipu_attrs_int(conv->attrs, IPU_ATTR_CHANNELS_FIRST, 0) != 0 ||
        type->dtype != result->dtype) {
        return IPU_CONV_STEP_COUNT;
    }
    if (ipu_shape_is_last_axis(&type->shape, &result->shape)) {
        return adds ? IPU_CONV_BIAS : IPU_CONV_SCALE;
    }
    return adds && ipu_shape_equal(&type->shape, &result->shape) ? IPU_CONV_ADD
                                                                 : IPU_CONV_STEP_COUNT;
}

/* The convolution that `node` is a step of, with its other operand; or NULL. */
static const ipu_node_data *
find_conv(const ipu__fuser *f, const ipu_node_data *node, ipu_node id,
          ipu_value *operand, ipu_conv_step *step)
{
    const bool joins = node->op == IPU_OP_ID_ADD || node->op == IPU_OP_ID_MUL;
    for (uint32_t side = 0; joins && side < 2; side++) {
        const ipu_node_data *conv = own_product(f, node->inputs[side], id);
        if (conv == NULL || finished_form(conv->op) != IPU_OP_ID_FUSED_CONV ||
            conv->input_count == FUSED_CONV_INPUTS ||
            ipu_attrs_int(conv->attrs, IPU_ATTR_ACTIVATION, 0) !=
                (int64_t)IPU_ACTIVATION_NONE) {
            continue;
        }
        *operand = node->inputs[1 - side];
        *step = step_of(f, node, *operand, conv);
        if (*step != IPU_CONV_STEP_COUNT) {
            return conv;
        }
    }
    return NULL;
}

/* Makes `node` the last step of a convolution. */
static ipu_status
visit_step(ipu__rewriter *r, ipu_node id, bool *keep)
{
    const ipu_node_data *node = ipu_node_of(r->graph, id);
    ipu_value inputs[FUSED_CONV_INPUTS];
    ipu_conv_step step;
    ipu_value operand;
    const ipu_node_data *conv = find_conv(r->state, node, id, &operand, &step);
    if (conv == NULL) {
        return IPU_OK;
    }
    uint32_t before = conv->input_count;
    memcpy(inputs, conv->inputs, before * sizeof(inputs[0]));
    inputs[before] = operand;
    uint32_t given;
    const int64_t *old = ipu_attrs_ints(conv->attrs, IPU_ATTR_STEPS, &given);
    int64_t steps[CONV_STEPS];
    bool biases = step == IPU_CONV_BIAS;
    for (uint32_t i = 0; i < before - 2; i++) {
        steps[i] = old == NULL ? (int64_t)IPU_CONV_BIAS : old[i];
        biases = biases && steps[i] == (int64_t)IPU_CONV_BIAS;
    }
    steps[before - 2] = (int64_t)step;
    ipu_attr attrs[IPU_ATTR_COUNT];
    uint32_t count = finished_attrs(conv, IPU_ACTIVATION_NONE, attrs);
    uint32_t at = 0;
    while (at < count && attrs[at].key != IPU_ATTR_STEPS) {
        at++;
    }
    if (!biases) {
        attrs[at] = ipu_attr_ints(IPU_ATTR_STEPS, steps, before - 1);
        count = at == count ? count + 1 : count;
    }
    ipu_value replaced = ipu_node_output(node, 0);
    ipu_value fused =
        ipu__emit(r, IPU_OP_ID_FUSED_CONV, inputs, before + 1, attrs, count);
    *keep = false;
    return take_place(r, replaced, fused);
}

/* --- gradients of relu ------------------------------------------------------------ */

static ipu_status
visit_relu_grad(ipu__rewriter *r, ipu_node id, bool *keep)
{
    const ipu_node_data *node = ipu_node_of(r->graph, id);
    const ipu_node_data *from = own_node(r->state, node->inputs[1], id);
    const ipu_value old = ipu_node_output(node, 0);
    if (from == NULL || ipu_value_of(r->graph, old)->type.dtype != IPU_DTYPE_FLOAT32) {
        return IPU_OK;
    }
    const ipu_attrs attrs = from->attrs;
    const bool is_conv = from->op == IPU_OP_ID_CONV_GRAD_INPUT &&
                         ipu_attrs_int(attrs, IPU_ATTR_CHANNELS_FIRST, 0) == 0;
    const bool is_pool = from->op == IPU_OP_ID_MAX_POOL_GRAD &&
                         from->inputs[0].index == node->inputs[0].index;
    if (!is_conv && !is_pool) {
        return IPU_OK;
    }
    const ipu_value *others = &from->inputs[is_pool ? 1 : 0];
    ipu_value inputs[3] = {node->inputs[0], others[0], others[1]};
    if (is_pool) {
        inputs[2] = ipu__emit(r, IPU_OP_ID_RELU_GRAD, &inputs[1], 2, NULL, 0);
    }
    ipu_value fused = ipu__emit(
        r, is_pool ? IPU_OP_ID_MAX_POOL_GRAD : IPU_OP_ID_FUSED_CONV_GRAD_INPUT, inputs,
        3, attrs.items, attrs.count);
    *keep = false;
    return take_place(r, old, fused);
}

ipu_status
ipu__fuse_visit_product(ipu__rewriter *r, ipu_node id, bool *keep)
{
    const ipu_node_data *node = ipu_node_of(r->graph, id);
    if (node->op == IPU_OP_ID_SGD_UPDATE) {
        return visit_update(r, id, keep);
    }
    if (node->op == IPU_OP_ID_RELU_GRAD) {
        return visit_relu_grad(r, id, keep);
    }
    IPU_TRY(visit_step(r, id, keep));
    if (!*keep) {
        return IPU_OK;
    }
    ipu_value third; /* the accumulator or the bias */
    const ipu_node_data *product = find_accumulated(r->state, node, id, &third);
    bool accumulates = product != NULL;
    if (!accumulates) {
        product = find_product(r->state, node, id, &third);
    }
    if (product == NULL) {
        return IPU_OK;
    }
    ipu_value old = ipu_node_output(node, 0);
    if (!ipu_dtype_is_float(ipu_value_of(r->graph, old)->type.dtype)) {
        return IPU_OK;
    }
    ipu_attr attrs[IPU_ATTR_COUNT];
    uint32_t count = finished_attrs(product, activation_of(node->op), attrs);
    ipu_value fused;
    if (accumulates) {
        ipu_value inputs[3] = {third, product->inputs[0], product->inputs[1]};
        fused = ipu__emit(r, IPU_OP_ID_MATMUL_ACCUMULATE, inputs, 3, attrs, count - 1);
    } else {
        ipu_value inputs[FUSED_CONV_INPUTS];
        uint32_t given = product->input_count;
        memcpy(inputs, product->inputs, given * sizeof(inputs[0]));
        if (third.index != IPU_NO_INDEX) {
            inputs[given++] = third;
        }
        fused = ipu__emit(r, finished_form(product->op), inputs, given, attrs, count);
    }
    *keep = false;
    return take_place(r, old, fused);
}
