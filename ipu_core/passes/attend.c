/* SPDX-License-Identifier: MIT
 *
 * Attention that is written in single ops becomes the op, forward and back. In: a graph
 * in canonical form, after autodiff. Out: the same bits from attention and
 * attention_grad, which store no scores; the single ops, which nothing uses any more,
 * are gone.
 *
 * The op stands where the product with the values stood. Its gradient stands where the
 * first of the products of the way back stood that the result's gradient enters; what
 * the others gave are its results. One thread per graph. */
#include <string.h>

#include "passes/attention_found.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

/* What is found, and its operands once they are there. */
typedef struct attention_made {
    ipu__attention_found found;
    ipu_value operands[4]; /* q, k, v, mask or none */
    ipu_value gradients[3];
    bool is_back;
} attention_made;

typedef struct attender {
    ipu_uses uses;
    IPU_ARRAY(attention_made) made;
    IPU_ARRAY(uint32_t) owner; /* by node: which of `made` it is a product of, plus 1 */
} attender;

/* --- operands --------------------------------------------------------------------- */

static ipu_status
emit(ipu__rewriter *r, ipu_node like, ipu_op op, const ipu_value *inputs,
     uint32_t count, const ipu_attr *attr, ipu_value *out)
{
    return ipu_graph_emit(r->ctx, r->graph, ipu_node_of(r->graph, like)->block, like,
                          op, inputs, count, attr, attr == NULL ? 0 : 1, out);
}

/* A reshape or a broadcast. */
static ipu_status
shaped(ipu__rewriter *r, ipu_node like, ipu_op op, ipu_value x, const ipu_shape *shape,
       ipu_value *out)
{
    ipu_shape copy = *shape; /* the original may be in an array that moves */
    ipu_attr attr = {.key = IPU_ATTR_SHAPE,
                     .count = (uint32_t)copy.rank,
                     .as = {.ints = copy.dims}};
    return emit(r, like, op, &x, 1, &attr, out);
}

static ipu_status
reshape(ipu__rewriter *r, ipu_node like, ipu_value x, const ipu_shape *shape,
        ipu_value *out)
{
    return shaped(r, like, IPU_OP_ID_RESHAPE, x, shape, out);
}

/* The last two axes exchanged. */
static ipu_status
turn(ipu__rewriter *r, ipu_node like, ipu_value x, ipu_value *out)
{
    int64_t perm[IPU_MAX_RANK];
    int32_t rank = ipu_value_of(r->graph, x)->type.shape.rank;
    for (int32_t i = 0; i < rank; i++) {
        perm[i] = i < rank - 2 ? i : 2 * rank - 3 - i;
    }
    ipu_attr attr = {
        .key = IPU_ATTR_PERM, .count = (uint32_t)rank, .as = {.ints = perm}};
    return emit(r, like, IPU_OP_ID_TRANSPOSE, &x, 1, &attr, out);
}

/* Matrices as the op takes them: [batch, heads, rows, columns], or, where `turned`, the
 * transposes of what is there. A transpose in front of a reshape is met where it is, so
 * that canonicalise joins the two. */
static ipu_status
as_operand(ipu__rewriter *r, ipu_node like, const attention_made *made, ipu_value x,
           bool turned, ipu_value *out)
{
    const ipu_node_data *before = ipu_producer_of(r->graph, x);
    const ipu_shape *to = &ipu_value_of(r->graph, x)->type.shape;
    if (turned && before != NULL && before->op == IPU_OP_ID_RESHAPE) {
        const ipu_shape *from = &ipu_value_of(r->graph, before->inputs[0])->type.shape;
        bool keeps = from->rank >= 2 &&
                     from->dims[from->rank - 1] == to->dims[to->rank - 1] &&
                     from->dims[from->rank - 2] == to->dims[to->rank - 2];
        x = keeps ? before->inputs[0] : x;
    }
    if (turned) {
        IPU_TRY(turn(r, like, x, &x));
    }
    const ipu_shape *shape = &ipu_value_of(r->graph, x)->type.shape;
    ipu_shape whole = made->found.scores;
    whole.dims[2] = shape->dims[shape->rank - 2];
    whole.dims[3] = shape->dims[shape->rank - 1];
    return reshape(r, like, x, &whole, out);
}

/* Where a constant is not 0; or where it is. */
static ipu_status
constant_as_bool(ipu__rewriter *r, ipu_node like, ipu_value value, bool opposite,
                 ipu_value *out)
{
    ipu_shape shape = ipu_value_of(r->graph, value)->type.shape;
    const ipu_attr *bytes =
        ipu_attrs_find(ipu_producer_of(r->graph, value)->attrs, IPU_ATTR_VALUE);
    size_t count = (size_t)ipu_shape_elements(&shape);
    unsigned char *flags;
    IPU_TRY(ipu_alloc(r->ctx, count, &flags));
    for (size_t i = 0; i < count; i++) {
        float x;
        memcpy(&x, (const unsigned char *)bytes->as.bytes + i * sizeof x, sizeof x);
        flags[i] = (x != 0.0f) != opposite;
    }
    const ipu_attr attrs[3] = {
        {.key = IPU_ATTR_DTYPE, .as = {.i = IPU_DTYPE_BOOL}},
        {.key = IPU_ATTR_SHAPE,
         .count = (uint32_t)shape.rank,
         .as = {.ints = shape.dims}},
        {.key = IPU_ATTR_VALUE, .count = (uint32_t)count, .as = {.bytes = flags}}};
    ipu_status status =
        ipu_graph_emit(r->ctx, r->graph, ipu_node_of(r->graph, like)->block, like,
                       IPU_OP_ID_CONSTANT, NULL, 0, attrs, 3, out);
    ipu_free(r->ctx, flags, count);
    return status;
}

/* Where `value` is not 0, as bool, or where it is; of all that masks are made of. */
static ipu_status
as_bool(ipu__rewriter *r, ipu_node like, ipu_value value, bool opposite, ipu_value *out)
{
    const ipu_node_data *node = ipu_producer_of(r->graph, value);
    ipu_value parts[2];
    bool joins_any;
    switch (node->op) {
    case IPU_OP_ID_CONSTANT:
        return constant_as_bool(r, like, value, opposite, out);
    case IPU_OP_ID_CAST:
        parts[0] = node->inputs[0];
        if (!opposite) {
            *out = parts[0];
            return IPU_OK;
        }
        return emit(r, like, IPU_OP_ID_LOGICAL_NOT, parts, 1, NULL, out);
    case IPU_OP_ID_SUB:
        return as_bool(r, like, node->inputs[1], !opposite, out);
    case IPU_OP_ID_MAXIMUM:
    case IPU_OP_ID_MUL:
        joins_any = (node->op == IPU_OP_ID_MAXIMUM) != opposite;
        parts[0] = node->inputs[0];
        parts[1] = node->inputs[1];
        for (uint32_t i = 0; i < 2; i++) {
            IPU_TRY(as_bool(r, like, parts[i], opposite, &parts[i]));
        }
        return emit(r, like, joins_any ? IPU_OP_ID_LOGICAL_OR : IPU_OP_ID_LOGICAL_AND,
                    parts, 2, NULL, out);
    default: { /* what moves it about has one attribute */
        const ipu_attr attr = node->attrs.items[0];
        ipu_op op = node->op;
        IPU_TRY(as_bool(r, like, node->inputs[0], opposite, &parts[0]));
        return emit(r, like, op, parts, 1, &attr, out);
    }
    }
}

/* True where nothing is added to the scores: [1 or batch, 1 or heads, 1 or queries,
 * keys]. */
static ipu_status
as_mask(ipu__rewriter *r, ipu_node like, const attention_made *made, ipu_value *out)
{
    const ipu__attention_found *found = &made->found;
    ipu_value mask;
    IPU_TRY(as_bool(r, like, found->hidden, true, &mask));
    const ipu_shape *shape = &ipu_value_of(r->graph, mask)->type.shape;
    ipu_shape whole = {.rank = 4, .dims = {1, 1, 1, 1}};
    int32_t lead = found->hidden_at.rank - shape->rank; /* axes that it does not have */
    for (int32_t i = 0; i < shape->rank; i++) {
        int32_t axis = i + lead;
        bool is_matrix = axis >= found->hidden_at.rank - 2;
        int32_t to = is_matrix ? axis + 4 - found->hidden_at.rank : axis;
        whole.dims[to] = shape->dims[i];
    }
    IPU_TRY(reshape(r, like, mask, &whole, out));
    if (whole.dims[3] == found->scores.dims[3]) {
        return IPU_OK;
    }
    whole.dims[3] = found->scores.dims[3]; /* one for all keys */
    return shaped(r, like, IPU_OP_ID_BROADCAST, *out, &whole, out);
}

/* --- the ops ---------------------------------------------------------------------- */

static uint32_t
op_attrs(const attention_made *made, ipu_attr attrs[2])
{
    bool is_masked = made->found.hidden.index != IPU_NO_INDEX;
    attrs[0] = (ipu_attr){.key = IPU_ATTR_SCALE, .as = {.f = made->found.scale}};
    attrs[1] = (ipu_attr){.key = IPU_ATTR_GIVEN,
                          .as = {.i = is_masked ? IPU_ATTENTION_MASK : 0}};
    return 2;
}

/* In place of the product with the values. */
static ipu_status
make_forward(ipu__rewriter *r, ipu_node mix, attention_made *made, ipu_value *out)
{
    const ipu__attention_found *found = &made->found;
    const ipu_node_data *score = ipu_node_of(r->graph, found->score);
    ipu_value factors[3] = {score->inputs[0], score->inputs[1],
                            ipu_node_of(r->graph, mix)->inputs[1]};
    bool turned[3] = {
        false, !ipu__attention_flag(r->graph, found->score, IPU_ATTR_TRANSPOSE_B),
        ipu__attention_flag(r->graph, mix, IPU_ATTR_TRANSPOSE_B)};
    ipu_shape shape =
        ipu_value_of(r->graph, ipu_node_output(ipu_node_of(r->graph, mix), 0))
            ->type.shape;
    uint32_t count = 3;
    ipu_attr attrs[2];
    for (uint32_t i = 0; i < 3; i++) {
        IPU_TRY(
            as_operand(r, mix, made, factors[i], turned[i], &made->operands[i]));
    }
    if (found->hidden.index != IPU_NO_INDEX) {
        IPU_TRY(as_mask(r, mix, made, &made->operands[count++]));
    }
    uint32_t attr_count = op_attrs(made, attrs);
    ipu_value y;
    IPU_TRY(ipu_graph_emit(r->ctx, r->graph, ipu_node_of(r->graph, mix)->block, mix,
                           IPU_OP_ID_ATTENTION, made->operands, count, attrs,
                           attr_count, &y));
    return reshape(r, mix, y, &shape, out);
}

/* In front of `like`, the first product that the result's gradient enters. */
static ipu_status
make_back(ipu__rewriter *r, ipu_node like, attention_made *made)
{
    const ipu_node_data *dw = ipu_node_of(r->graph, made->found.dw);
    ipu_value inputs[5] = {made->operands[0], made->operands[1], made->operands[2]};
    ipu_attr attrs[2];
    uint32_t attr_count = op_attrs(made, attrs);
    uint32_t count = 4;
    ipu_value dy = ipu__resolve(r, dw->inputs[0]);
    IPU_TRY(as_operand(r, like, made, dy, false, &inputs[3]));
    if (made->found.hidden.index != IPU_NO_INDEX) {
        inputs[count++] = made->operands[3];
    }
    ipu_value dq;
    IPU_TRY(ipu_graph_emit(r->ctx, r->graph, ipu_node_of(r->graph, like)->block, like,
                           IPU_OP_ID_ATTENTION_GRAD, inputs, count, attrs, attr_count,
                           &dq));
    ipu_node node = ipu_value_of(r->graph, dq)->producer;
    for (uint32_t i = 0; i < 3; i++) {
        made->gradients[i] = ipu_node_output(ipu_node_of(r->graph, node), i);
    }
    made->is_back = true;
    return IPU_OK;
}

/* What a product of the way back gave, of the gradient that the op gives; or no value
 * for the one that only leads there. */
static ipu_status
take_gradient(ipu__rewriter *r, ipu_node id, const attention_made *made, ipu_value *out)
{
    const ipu__attention_found *found = &made->found;
    const ipu_node products[3] = {found->dq, found->dk, found->dv};
    bool k_turned = !ipu__attention_flag(r->graph, found->score, IPU_ATTR_TRANSPOSE_B);
    bool v_turned = ipu__attention_flag(r->graph, found->mix, IPU_ATTR_TRANSPOSE_B);
    const bool turned[3] = {false, k_turned, v_turned};
    *out = IPU_NO_VALUE;
    for (uint32_t i = 0; i < 3; i++) {
        if (products[i].index != id.index) {
            continue;
        }
        ipu_value old = ipu_node_output(ipu_node_of(r->graph, id), 0);
        ipu_shape shape = ipu_value_of(r->graph, old)->type.shape;
        ipu_value gradient = made->gradients[i];
        if (turned[i]) {
            IPU_TRY(turn(r, id, gradient, &gradient));
        }
        IPU_TRY(reshape(r, id, gradient, &shape, out));
    }
    return IPU_OK;
}

static ipu_status
visit(ipu__rewriter *r, ipu_node id, bool *keep)
{
    attender *a = r->state;
    uint32_t owner = id.index < a->owner.count ? a->owner.items[id.index] : 0;
    ipu_value value;
    if (owner == 0) {
        return IPU_OK;
    }
    attention_made *made = &a->made.items[owner - 1];
    if (made->found.mix.index == id.index) {
        IPU_TRY(make_forward(r, id, made, &value));
    } else {
        if (!made->is_back) {
            IPU_TRY(make_back(r, id, made));
        }
        IPU_TRY(take_gradient(r, id, made, &value));
    }
    if (value.index == IPU_NO_INDEX) {
        return IPU_OK;
    }
    *keep = false;
    return ipu__replace(r, ipu_node_output(ipu_node_of(r->graph, id), 0), value);
}

/* --- the pass --------------------------------------------------------------------- */

static ipu_status
note_found(ipu_ctx *ctx, attender *a, const ipu__attention_found *found)
{
    const ipu_node nodes[] = {found->mix, found->dw, found->dv, found->dq, found->dk};
    attention_made made = {.found = *found};
    IPU_TRY(IPU_ARRAY_PUSH(ctx, &a->made, made));
    for (uint32_t i = 0; i < sizeof nodes / sizeof nodes[0]; i++) {
        if (ipu_is_node(nodes[i])) {
            a->owner.items[nodes[i].index] = (uint32_t)a->made.count;
        }
    }
    return IPU_OK;
}

static ipu_status
find_all(ipu_ctx *ctx, const ipu_graph *graph, attender *a, ipu_block id)
{
    const ipu_uses *uses = &a->uses;
    for (ipu_node n = ipu_block_first(graph, id); ipu_is_node(n);
         n = ipu_node_next(graph, n)) {
        const ipu_node_data *node = ipu_node_of(graph, n);
        ipu__attention_found found;
        for (uint32_t i = 0; i < ipu_node_block_count(node); i++) {
            IPU_TRY(find_all(ctx, graph, a, ipu_node_block(node, i)));
        }
        if (node->op == IPU_OP_ID_SOFTMAX &&
            ipu__attention_find(graph, uses, n, &found)) {
            IPU_TRY(note_found(ctx, a, &found));
        }
    }
    return IPU_OK;
}

static ipu_status
replace_all(ipu_ctx *ctx, ipu_graph *graph, attender *a)
{
    ipu__rewriter rewriter = {.ctx = ctx, .graph = graph, .visit = visit, .state = a};
    if (a->made.count == 0) {
        return IPU_OK;
    }
    IPU_TRY(ipu__rewrite(&rewriter));
    IPU_TRY(ipu_pass_prune(ctx, graph));
    IPU_TRY(ipu_pass_canonicalise(ctx, graph)); /* transposes meet */
    return ipu_pass_prune(ctx, graph);
}

static bool
has_softmax(const ipu_graph *graph)
{
    for (size_t i = 0; i < graph->nodes.count; i++) {
        if (graph->nodes.items[i].op == IPU_OP_ID_SOFTMAX) {
            return true;
        }
    }
    return false;
}

ipu_status
ipu_pass_attend(ipu_ctx *ctx, ipu_graph *graph)
{
    attender a = {0};
    ipu_status status = IPU_OK;
    if (!has_softmax(graph)) {
        return IPU_OK;
    }
    status = ipu_uses_find(ctx, graph, &a.uses);
    for (size_t i = 0; status == IPU_OK && i < graph->nodes.count; i++) {
        status = IPU_ARRAY_PUSH(ctx, &a.owner, 0);
    }
    if (status == IPU_OK) {
        status = find_all(ctx, graph, &a, (ipu_block){0});
    }
    if (status == IPU_OK) {
        status = replace_all(ctx, graph, &a);
    }
    ipu_uses_free(ctx, &a.uses);
    IPU_ARRAY_FREE(ctx, &a.made);
    IPU_ARRAY_FREE(ctx, &a.owner);
    return status;
}
