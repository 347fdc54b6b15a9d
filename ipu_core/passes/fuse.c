/* SPDX-License-Identifier: MIT
 *
 * Fewer, larger nodes. In: a pruned graph. Out: the same bits from
 *
 *   fused_matmul       matmul, + a bias of the last axis, then relu, tanh or sigmoid
 *                      (the last two may each be missing, not both)
 *   fused_conv         conv, then up to four of: + a bias of the last axis, * a factor of
 *                      it, + a tensor of the result's shape; then relu, tanh or sigmoid
 *   matmul_sgd_update  matmul as the gradient of sgd_update
 *   matmul_accumulate  matmul added to what a loop carries
 *   gather_sgd_update  gather_grad as the gradient of sgd_update: no zeros are made,
 *                      and rows that no index names cost nothing
 *   fused_update       updates of variables, with what they alone need
 *                      (fuse_updates.c)
 *   fused_elementwise  a tree of element-wise nodes of one shape as a micro-program
 *                      (base/op.h); a value goes into it if nothing outside the
 *                      tree uses it
 *
 * The fused node stands where the last of its nodes stood. In between there may be no
 * write of a variable and no read of the infeed, since the memory planner lets values
 * alias both until then; so a block is cut into segments by such nodes, and what is
 * fused lies in one segment. Whatever the gradient needs has a use of its own, hence
 * stays. Trees are planned from the last node to the first, and made in program order.
 * One thread per graph. */
#include <string.h>

#include "passes/passes.h"
#include "passes/rewrite.h"

typedef struct node_note {
    uint32_t segment;  /* unique over all blocks */
    uint32_t stretch;  /* the same, cut by loops and reads of the infeed alone */
    uint32_t position; /* in program order, over all blocks */
    ipu_node root;     /* the tree that it is part of */
    ipu_node next;     /* an earlier node of that tree */
} node_note;

typedef struct fuser {
    ipu_ctx *ctx;
    ipu_graph *graph;
    IPU_ARRAY(uint32_t) uses;   /* by value, in living nodes and block results */
    IPU_ARRAY(node_note) notes; /* by node */
    uint32_t segment;
    uint32_t stretch;
    uint32_t position;
    IPU_ARRAY(uint32_t) tree_uses; /* by value, in the tree that is being grown */
} fuser;

/* --- uses and segments ----------------------------------------------------------- */

static bool
cuts_segment(const ipu_node_data *node)
{
    uint32_t flags = ipu_node_flags(node);
    return (flags & IPU_OP_BLOCK) != 0 ||
           ((flags & IPU_OP_WRITES) != 0 && node->op != IPU_OP_ID_OUTFEED_ENQUEUE);
}

static void
note_block(fuser *f, ipu_block id)
{
    const ipu_block_data *block = ipu_block_of(f->graph, id);
    f->segment++;
    f->stretch++;
    for (ipu_node node_id = block->first; ipu_is_node(node_id);
         node_id = ipu_node_next(f->graph, node_id)) {
        const ipu_node_data *node = ipu_node_of(f->graph, node_id);
        for (uint32_t k = 0; k < node->input_count; k++) {
            f->uses.items[node->inputs[k].index]++;
        }
        for (uint32_t k = 0; k < ipu_node_block_count(node); k++) {
            note_block(f, ipu_node_block(node, k));
        }
        f->segment += cuts_segment(node) ? 1 : 0;
        f->stretch += (ipu_node_flags(node) & IPU_OP_BLOCK) != 0 ||
                              node->op == IPU_OP_ID_INFEED_DEQUEUE
                          ? 1
                          : 0;
        f->notes.items[node_id.index] = (node_note){.segment = f->segment,
                                                    .stretch = f->stretch,
                                                    .position = f->position++,
                                                    .root = IPU_NO_NODE,
                                                    .next = IPU_NO_NODE};
    }
    for (size_t i = 0; i < block->results.count; i++) {
        f->uses.items[block->results.items[i].index]++;
    }
    f->segment++;
    f->stretch++;
}

/* Counts afresh: the graph has changed. */
static ipu_status
take_notes(fuser *f)
{
    f->uses.count = 0;
    f->notes.count = 0;
    f->tree_uses.count = 0;
    size_t values = f->graph->values.count;
    size_t nodes = f->graph->nodes.count;
    IPU_TRY(IPU_ARRAY_RESERVE(f->ctx, &f->uses, values));
    IPU_TRY(IPU_ARRAY_RESERVE(f->ctx, &f->tree_uses, values));
    IPU_TRY(IPU_ARRAY_RESERVE(f->ctx, &f->notes, nodes));
    for (size_t i = 0; i < values; i++) {
        f->uses.items[f->uses.count++] = 0;
        f->tree_uses.items[f->tree_uses.count++] = 0;
    }
    for (size_t i = 0; i < nodes; i++) {
        f->notes.items[f->notes.count++] =
            (node_note){.root = IPU_NO_NODE, .next = IPU_NO_NODE};
    }
    note_block(f, (ipu_block){0});
    return IPU_OK;
}

/* Whether `first` may be computed where `last` is, a later node of the same block. */
static bool
may_join(const fuser *f, ipu_node first, ipu_node last)
{
    const ipu_node_data *a = ipu_node_of(f->graph, first);
    const ipu_node_data *b = ipu_node_of(f->graph, last);
    return a->block.index == b->block.index &&
           f->notes.items[first.index].segment == f->notes.items[last.index].segment &&
           ipu_placement_equal(a->placement, b->placement);
}

/* --- matmul, SGD update or accumulator ------------------------------------------- */

/* Whether the bytes of a value lie in a variable, which a write would change. */
static bool
is_variable(const fuser *f, ipu_value value)
{
    const ipu_node_data *node = ipu_producer_of(f->graph, value);
    while (node != NULL && (ipu_node_flags(node) & IPU_OP_VIEW) != 0) {
        node = ipu_producer_of(f->graph, node->inputs[0]);
    }
    return node != NULL && node->op == IPU_OP_ID_VARIABLE_READ;
}

/* The node of this op, of two inputs, that makes `value` for `user` alone and may be
 * computed where that is: past the writes of other variables, if it reads none. */
static const ipu_node_data *
find_late(const fuser *f, ipu_value value, ipu_node user, ipu_op op)
{
    const ipu_node_data *node = ipu_producer_of(f->graph, value);
    if (node == NULL || node->op != op || value.index >= f->uses.count ||
        f->uses.items[value.index] != 1) {
        return NULL;
    }
    ipu_node id = ipu_value_of(f->graph, value)->producer;
    if (node->block.index != ipu_node_of(f->graph, user)->block.index ||
        f->notes.items[id.index].stretch != f->notes.items[user.index].stretch ||
        is_variable(f, node->inputs[0]) || is_variable(f, node->inputs[1])) {
        return NULL;
    }
    return node;
}

static const ipu_node_data *
find_late_product(const fuser *f, ipu_value value, ipu_node user)
{
    const ipu_type *type = &ipu_value_of(f->graph, value)->type;
    return type->shape.rank == 2 && type->dtype == IPU_DTYPE_FLOAT32
               ? find_late(f, value, user, IPU_OP_ID_MATMUL)
               : NULL;
}

/* The gradient of a gather of rows. */
static const ipu_node_data *
find_late_rows(const fuser *f, ipu_value value, ipu_node user)
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
        attrs[count++] = (ipu_attr){
            .key = IPU_ATTR_TRANSPOSE_A,
            .as = {.i = ipu_attrs_int(product->attrs, IPU_ATTR_TRANSPOSE_A, 0)}};
        attrs[count++] = (ipu_attr){
            .key = IPU_ATTR_TRANSPOSE_B,
            .as = {.i = ipu_attrs_int(product->attrs, IPU_ATTR_TRANSPOSE_B, 0)}};
    } else {
        attrs[count++] = (ipu_attr){.key = IPU_ATTR_SHAPE,
                                    .count = (uint32_t)shape->rank,
                                    .as = {.ints = shape->dims}};
    }
    attrs[count++] =
        (ipu_attr){.key = IPU_ATTR_RESOURCE,
                   .as = {.i = ipu_attrs_int(update->attrs, IPU_ATTR_RESOURCE, 0)}};
    attrs[count++] = (ipu_attr){
        .key = IPU_ATTR_MOMENTUM,
        .as = {.f = ipu_attrs_float(update->attrs, IPU_ATTR_MOMENTUM, 0.0)}};
    attrs[count++] =
        (ipu_attr){.key = IPU_ATTR_NESTEROV,
                   .as = {.i = ipu_attrs_int(update->attrs, IPU_ATTR_NESTEROV, 0)}};
    if (slot_count > 0) {
        attrs[count++] = (ipu_attr){
            .key = IPU_ATTR_SLOTS, .count = slot_count, .as = {.ints = slots}};
    }
    ipu_node_request request = {.op = product != NULL ? IPU_OP_ID_MATMUL_SGD_UPDATE
                                                      : IPU_OP_ID_GATHER_SGD_UPDATE,
                                .attrs = attrs,
                                .attr_count = count,
                                .placement = update->placement,
                                .source = update->source,
                                .name = update->name};
    ipu_node fused;
    *keep = false;
    return ipu_graph_add_node(r->ctx, r->graph, update->block, &request, inputs, 3,
                              &fused);
}

/* The product that `add` adds to a value which a loop carries and nothing else reads:
 * the sum takes its place. */
static const ipu_node_data *
find_accumulated(const fuser *f, const ipu_node_data *add, ipu_node id,
                 ipu_value *accumulator)
{
    for (uint32_t side = 0; add->op == IPU_OP_ID_ADD && side < 2; side++) {
        const ipu_node_data *product = find_late_product(f, add->inputs[side], id);
        const ipu_value_data *other = ipu_value_of(f->graph, add->inputs[1 - side]);
        *accumulator = add->inputs[1 - side];
        if (product != NULL && !ipu_is_node(other->producer) &&
            other->block.index == add->block.index &&
            ipu_is_node(ipu_block_of(f->graph, add->block)->owner) &&
            f->uses.items[accumulator->index] == 1 &&
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
    switch (op) {
    case IPU_OP_ID_RELU:
        return IPU_ACTIVATION_RELU;
    case IPU_OP_ID_TANH:
        return IPU_ACTIVATION_TANH;
    case IPU_OP_ID_SIGMOID:
        return IPU_ACTIVATION_SIGMOID;
    default:
        return IPU_ACTIVATION_NONE;
    }
}

/* The op that finishes what this one makes. */
static ipu_op
finished_form(ipu_op op)
{
    switch (op) {
    case IPU_OP_ID_MATMUL:
    case IPU_OP_ID_FUSED_MATMUL:
        return IPU_OP_ID_FUSED_MATMUL;
    case IPU_OP_ID_CONV:
    case IPU_OP_ID_FUSED_CONV:
        return IPU_OP_ID_FUSED_CONV;
    default:
        return IPU_OP_ID_COUNT;
    }
}

/* The product, finished in part or not at all, that makes `value` for `user` alone, or
 * NULL. */
static const ipu_node_data *
own_product(const fuser *f, ipu_value value, ipu_node user)
{
    const ipu_node_data *node = ipu_producer_of(f->graph, value);
    if (node == NULL || finished_form(node->op) == IPU_OP_ID_COUNT ||
        value.index >= f->uses.count || f->uses.items[value.index] != 1) {
        return NULL;
    }
    return may_join(f, ipu_value_of(f->graph, value)->producer, user) ? node : NULL;
}

static bool
is_bias(const fuser *f, ipu_value bias, const ipu_node_data *node)
{
    const ipu_type *type = &ipu_value_of(f->graph, bias)->type;
    const ipu_type *product =
        &ipu_value_of(f->graph, ipu_node_output(node, 0))->type;
    return type->shape.rank == 1 && type->dtype == product->dtype &&
           type->shape.dims[0] == product->shape.dims[product->shape.rank - 1];
}

/* A fused node takes the place of `old`: same users, same segment. */
static ipu_status
take_place(ipu__rewriter *r, ipu_value old, ipu_value fused)
{
    fuser *f = r->state;
    ipu_node old_node = ipu_value_of(r->graph, old)->producer;
    ipu_node fused_node = ipu_value_of(r->graph, fused)->producer;
    while (f->uses.count <= fused.index) {
        IPU_TRY(IPU_ARRAY_PUSH(f->ctx, &f->uses, 0));
    }
    while (f->notes.count <= fused_node.index) {
        node_note none = {.root = IPU_NO_NODE, .next = IPU_NO_NODE};
        IPU_TRY(IPU_ARRAY_PUSH(f->ctx, &f->notes, none));
    }
    f->uses.items[fused.index] = f->uses.items[old.index];
    f->notes.items[fused_node.index] = f->notes.items[old_node.index];
    return ipu__replace(r, old, fused);
}

/* Finds what `node` finishes: the product, and a bias that it adds. An activation may
 * find a product with its bias already fused by an earlier visit. */
static const ipu_node_data *
find_product(const fuser *f, const ipu_node_data *node, ipu_node id, ipu_value *bias)
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
    static const ipu_attr_key flags[] = {IPU_ATTR_TRANSPOSE_A, IPU_ATTR_TRANSPOSE_B};
    const bool is_conv = finished_form(product->op) == IPU_OP_ID_FUSED_CONV;
    uint32_t count = 0;
    for (uint32_t i = 0; !is_conv && i < 2; i++) {
        attrs[count++] = (ipu_attr){
            .key = flags[i], .as = {.i = ipu_attrs_int(product->attrs, flags[i], 0)}};
    }
    for (uint32_t i = 0; is_conv && i < product->attrs.count; i++) {
        if (product->attrs.items[i].key != IPU_ATTR_ACTIVATION) {
            attrs[count++] = product->attrs.items[i];
        }
    }
    attrs[count] =
        (ipu_attr){.key = IPU_ATTR_ACTIVATION, .as = {.i = (int64_t)activation}};
    return count + 1;
}

enum { FUSED_CONV_INPUTS = 6, CONV_STEPS = FUSED_CONV_INPUTS - 2 };

/* What `node`, an addition or a multiplication, does to a convolution by this operand;
 * IPU_CONV_STEP_COUNT: nothing that goes into it. */
static ipu_conv_step
step_of(const fuser *f, const ipu_node_data *node, ipu_value operand,
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
find_conv(const fuser *f, const ipu_node_data *node, ipu_node id, ipu_value *operand,
          ipu_conv_step *step)
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
        attrs[at] = (ipu_attr){
            .key = IPU_ATTR_STEPS, .count = before - 1, .as = {.ints = steps}};
        count = at == count ? count + 1 : count;
    }
    ipu_value replaced = ipu_node_output(node, 0);
    ipu_value fused;
    IPU_TRY(ipu_graph_emit(r->ctx, r->graph, node->block, id, IPU_OP_ID_FUSED_CONV,
                           inputs, before + 1, attrs, count, &fused));
    *keep = false;
    return take_place(r, replaced, fused);
}

static ipu_status
visit_product(ipu__rewriter *r, ipu_node id, bool *keep)
{
    const ipu_node_data *node = ipu_node_of(r->graph, id);
    if (node->op == IPU_OP_ID_SGD_UPDATE) {
        return visit_update(r, id, keep);
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
        IPU_TRY(ipu_graph_emit(r->ctx, r->graph, node->block, id,
                               IPU_OP_ID_MATMUL_ACCUMULATE, inputs, 3, attrs,
                               count - 1, &fused));
    } else {
        ipu_value inputs[FUSED_CONV_INPUTS];
        uint32_t given = product->input_count;
        memcpy(inputs, product->inputs, given * sizeof(inputs[0]));
        if (third.index != IPU_NO_INDEX) {
            inputs[given++] = third;
        }
        IPU_TRY(ipu_graph_emit(r->ctx, r->graph, node->block, id,
                               finished_form(product->op), inputs, given, attrs, count,
                               &fused));
    }
    *keep = false;
    return take_place(r, old, fused);
}

/* --- element-wise trees ---------------------------------------------------------- */

static bool
is_elementwise(const ipu_node_data *node)
{
    return node != NULL && (ipu_node_flags(node) & IPU_OP_ELEMENTWISE) != 0 &&
           node->op != IPU_OP_ID_FUSED_ELEMENTWISE;
}

/* A tree while it grows: `members` in the order of joining, `open` the operands of
 * members that have not been looked at; the others are inputs. */
typedef struct tree {
    ipu_node members[IPU_FUSED_MAX_INSTRUCTIONS];
    uint32_t member_count;
    ipu_value open[3 * IPU_FUSED_MAX_INSTRUCTIONS];
    uint32_t open_count;
    ipu_value inputs[IPU_FUSED_MAX_INPUTS];
    uint32_t input_count;
} tree;

static void
add_open(tree *t, ipu_value value)
{
    for (uint32_t i = 0; i < t->open_count; i++) {
        if (t->open[i].index == value.index) {
            return;
        }
    }
    t->open[t->open_count++] = value;
}

static void
add_member(fuser *f, tree *t, ipu_node id)
{
    const ipu_node_data *node = ipu_node_of(f->graph, id);
    t->members[t->member_count++] = id;
    for (uint32_t i = 0; i < node->input_count; i++) {
        f->tree_uses.items[node->inputs[i].index]++;
        add_open(t, node->inputs[i]);
    }
}

/* Whether all users of `value` are in the tree, and its node may be computed there. */
static bool
can_join(const fuser *f, ipu_node root, ipu_value value)
{
    const ipu_node_data *node = ipu_producer_of(f->graph, value);
    ipu_node id = ipu_value_of(f->graph, value)->producer;
    if (!is_elementwise(node) || f->notes.items[id.index].root.index != IPU_NO_INDEX ||
        !may_join(f, id, root) ||
        f->tree_uses.items[value.index] != f->uses.items[value.index]) {
        return false;
    }
    ipu_value out = ipu_node_output(ipu_node_of(f->graph, root), 0);
    return ipu_shape_equal(&ipu_value_of(f->graph, out)->type.shape,
                           &ipu_value_of(f->graph, value)->type.shape);
}

/* How many inputs the tree would have if `node` joined in place of its result: what is
 * open or an input already, and the operands of the node that are new. */
static bool
inputs_fit(const tree *t, const ipu_node_data *node)
{
    uint32_t count = t->open_count + t->input_count - 1;
    for (uint32_t i = 0; i < node->input_count; i++) {
        bool known = false;
        for (uint32_t k = 0; k < t->open_count; k++) {
            known |= t->open[k].index == node->inputs[i].index;
        }
        for (uint32_t k = 0; k < t->input_count; k++) {
            known |= t->inputs[k].index == node->inputs[i].index;
        }
        count += known ? 0 : 1;
    }
    return count <= IPU_FUSED_MAX_INPUTS;
}

/* The open value that is made last: all of its users in the block have been seen. */
static uint32_t
latest_open(const fuser *f, const tree *t)
{
    uint32_t best = 0;
    int64_t best_position = -1;
    for (uint32_t i = 0; i < t->open_count; i++) {
        ipu_node node = ipu_value_of(f->graph, t->open[i])->producer;
        int64_t position = node.index == IPU_NO_INDEX
                               ? -1
                               : (int64_t)f->notes.items[node.index].position;
        if (position > best_position) {
            best = i;
            best_position = position;
        }
    }
    return best;
}

static void
plan_tree(fuser *f, ipu_node root)
{
    tree t = {.member_count = 0};
    add_member(f, &t, root);
    /* A value can only have been made before its users, so taking the latest first
     * means that a value's users are all decided when its turn comes. */
    while (t.open_count > 0) {
        uint32_t at = latest_open(f, &t);
        ipu_value value = t.open[at];
        ipu_node id = ipu_value_of(f->graph, value)->producer;
        bool joins = t.member_count < IPU_FUSED_MAX_INSTRUCTIONS &&
                     can_join(f, root, value) &&
                     inputs_fit(&t, ipu_node_of(f->graph, id));
        t.open[at] = t.open[--t.open_count];
        if (joins) {
            add_member(f, &t, id);
        } else {
            t.inputs[t.input_count++] = value;
        }
    }
    for (uint32_t i = 0; i < t.member_count; i++) {
        const ipu_node_data *node = ipu_node_of(f->graph, t.members[i]);
        for (uint32_t k = 0; k < node->input_count; k++) {
            f->tree_uses.items[node->inputs[k].index] = 0;
        }
        if (t.member_count > 1) {
            node_note *note = &f->notes.items[t.members[i].index];
            note->root = root;
            note->next = i + 1 < t.member_count ? t.members[i + 1] : IPU_NO_NODE;
        }
    }
}

static void
plan_block(fuser *f, ipu_block id)
{
    for (ipu_node node_id = ipu_block_of(f->graph, id)->last; ipu_is_node(node_id);
         node_id = ipu_node_of(f->graph, node_id)->previous) {
        const ipu_node_data *node = ipu_node_of(f->graph, node_id);
        for (uint32_t k = 0; k < ipu_node_block_count(node); k++) {
            plan_block(f, ipu_node_block(node, k));
        }
        if (is_elementwise(node) &&
            f->notes.items[node_id.index].root.index == IPU_NO_INDEX) {
            plan_tree(f, node_id);
        }
    }
}

/* The input's place in `inputs`, which grows. */
static int64_t
operand_of(ipu_value value, ipu_value *inputs, uint32_t *count)
{
    for (uint32_t i = 0; i < *count; i++) {
        if (inputs[i].index == value.index) {
            return i;
        }
    }
    inputs[*count] = value;
    return (*count)++;
}

/* The tree as code. Members joined from the last to the first. */
static ipu_status
emit_tree(ipu__rewriter *r, ipu_node root, ipu_value *out)
{
    const fuser *f = r->state;
    ipu_node members[IPU_FUSED_MAX_INSTRUCTIONS];
    ipu_value results[IPU_FUSED_MAX_INSTRUCTIONS];
    ipu_value inputs[3 * IPU_FUSED_MAX_INSTRUCTIONS];
    int64_t code[IPU_FUSED_MAX_INSTRUCTIONS * IPU_FUSED_WORDS];
    uint32_t count = 0;
    uint32_t input_count = 0;
    for (ipu_node at = root; at.index != IPU_NO_INDEX;
         at = f->notes.items[at.index].next) {
        members[count++] = at;
    }
    for (uint32_t i = 0; i < count / 2; i++) {
        ipu_node swapped = members[i];
        members[i] = members[count - 1 - i];
        members[count - 1 - i] = swapped;
    }
    for (uint32_t pass = 0; pass < 2; pass++) { /* first the inputs, then the code */
        for (uint32_t i = 0; i < count; i++) {
            const ipu_node_data *node = ipu_node_of(r->graph, members[i]);
            int64_t *words = &code[i * IPU_FUSED_WORDS];
            results[i] = ipu_node_output(node, 0);
            words[0] = (int64_t)node->op;
            words[1] = (int64_t)ipu_value_of(r->graph, results[i])->type.dtype;
            for (uint32_t k = 0; k < 3; k++) {
                words[2 + k] = -1;
                for (uint32_t m = 0; m < i && k < node->input_count; m++) {
                    if (results[m].index == node->inputs[k].index) {
                        words[2 + k] = (int64_t)(input_count + m);
                    }
                }
                if (k < node->input_count && words[2 + k] < 0) {
                    words[2 + k] = operand_of(node->inputs[k], inputs, &input_count);
                }
            }
        }
    }
    ipu_attr attr = {
        .key = IPU_ATTR_CODE, .count = count * IPU_FUSED_WORDS, .as = {.ints = code}};
    return ipu_graph_emit(r->ctx, r->graph, ipu_node_of(r->graph, root)->block, root,
                          IPU_OP_ID_FUSED_ELEMENTWISE, inputs, input_count, &attr, 1,
                          out);
}

static ipu_status
visit_tree(ipu__rewriter *r, ipu_node id, bool *keep)
{
    const fuser *f = r->state;
    ipu_node root =
        id.index < f->notes.count ? f->notes.items[id.index].root : IPU_NO_NODE;
    if (root.index == IPU_NO_INDEX) {
        return IPU_OK;
    }
    *keep = false;
    if (root.index != id.index) {
        return IPU_OK;
    }
    ipu_value fused;
    IPU_TRY(emit_tree(r, root, &fused));
    return ipu__replace(r, ipu_node_output(ipu_node_of(r->graph, root), 0), fused);
}

ipu_status
ipu_pass_fuse(ipu_ctx *ctx, ipu_graph *graph)
{
    fuser f = {.ctx = ctx, .graph = graph};
    ipu__rewriter matmuls = {
        .ctx = ctx, .graph = graph, .visit = visit_product, .state = &f};
    ipu__rewriter trees = {
        .ctx = ctx, .graph = graph, .visit = visit_tree, .state = &f};
    ipu_status status = take_notes(&f);
    if (status == IPU_OK) {
        status = ipu__rewrite(&matmuls);
    }
    if (status == IPU_OK) {
        status = ipu_pass_prune(ctx, graph);
    }
    if (status == IPU_OK) {
        status = ipu__fuse_updates(ctx, graph);
    }
    if (status == IPU_OK) {
        status = ipu_pass_prune(ctx, graph); /* reads that the updates do themselves */
    }
    if (status == IPU_OK) {
        status = take_notes(&f);
    }
    if (status == IPU_OK) {
        plan_block(&f, (ipu_block){0});
        status = ipu__rewrite(&trees);
    }
    IPU_ARRAY_FREE(ctx, &f.uses);
    IPU_ARRAY_FREE(ctx, &f.tree_uses);
    IPU_ARRAY_FREE(ctx, &f.notes);
    return status;
}
