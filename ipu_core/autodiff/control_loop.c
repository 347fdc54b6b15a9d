/* SPDX-License-Identifier: MIT
 *
 * The gradient of a loop. In: a repeat or while node whose outputs have gradients. Out:
 * a repeat that goes back over the turns that were taken. Connecting it, the forward
 * node counts them where it has to, and carries a tensor with a row for each turn for
 * every value that is kept. control.c says how the parts fit.
 *
 *     turn, targets..., carried... -> turn - 1, targets..., carried...
 *
 * are the parameters and results of the gradient's body: the sums for the targets, and
 * what came back to each carried value that depends on an x. */
#include "autodiff/control.h"
#include "graph/block_op.h"
#include "graph/trips.h"

/* --- deriving -------------------------------------------------------------------- */

typedef struct loop_gradient {
    ipu__control c;
    ipu_block body;       /* forward */
    ipu_block back;       /* the gradient's body */
    uint32_t count;       /* of carried values */
    ipu_value turn;       /* parameter of `back` */
    ipu__values initials; /* inputs of the gradient's node */
} loop_gradient;

static bool
is_active(const loop_gradient *g, uint32_t i)
{
    const ipu_graph *graph = g->c.w->graph;
    return ipu__walk_depends(g->c.w, ipu_block_of(graph, g->body)->params.items[i]);
}

/* A parameter of the gradient's body with the type of `like`. */
static ipu_status
add_param_like(loop_gradient *g, ipu_value like, ipu_value *out)
{
    ipu__walk *w = g->c.w;
    ipu_type type = ipu_value_of(w->graph, like)->type;
    return ipu_graph_add_param(w->ctx, w->graph, g->back, &type, out);
}

/* The parameters; the walk over the body starts from them. */
static ipu_status
open_gradient(loop_gradient *g)
{
    ipu__walk *w = g->c.w;
    ipu_type turn = {.dtype = IPU_DTYPE_INT32, .shape = ipu_shape_scalar()};
    IPU_TRY(ipu__control_open(&g->c, g->body, &g->back));
    IPU_TRY(ipu_graph_add_param(w->ctx, w->graph, g->back, &turn, &g->turn));
    for (size_t i = 0; i < g->c.targets.count; i++) {
        ipu_value target = g->c.targets.items[i];
        ipu_value param;
        IPU_TRY(add_param_like(g, target, &param));
        *ipu__walk_slot(w, target) = param;
    }
    for (uint32_t i = 0; i < g->count; i++) {
        ipu_value result = ipu_block_of(w->graph, g->body)->results.items[i];
        ipu_value param;
        if (is_active(g, i)) {
            IPU_TRY(add_param_like(g, result, &param));
            if (ipu__walk_depends(w, result)) {
                IPU_TRY(ipu__walk_accumulate(w, g->c.node, result, param));
            }
        }
    }
    return IPU_OK;
}

/* The results that belong to the parameters. */
static ipu_status
close_gradient(loop_gradient *g)
{
    ipu__walk *w = g->c.w;
    ipu_rule build = ipu__control_builder(w, g->back, g->c.node);
    ipu_rule *r = &build;
    ipu_value next = SUB(g->turn, NUMBER_LIKE(g->turn, 1.0));
    IPU_TRY(r->status);
    IPU_TRY(ipu_graph_add_result(w->ctx, w->graph, g->back, next));
    for (size_t i = 0; i < g->c.targets.count; i++) {
        ipu_value sum = ipu__walk_gradient(w, g->c.targets.items[i]);
        IPU_TRY(ipu_graph_add_result(w->ctx, w->graph, g->back, sum));
    }
    for (uint32_t i = 0; i < g->count; i++) {
        ipu_value param = ipu_block_of(w->graph, g->body)->params.items[i];
        if (!is_active(g, i)) {
            continue;
        }
        ipu_value back = ipu__walk_gradient(w, param);
        if (back.index == IPU_NO_INDEX) {
            ipu_type type = ipu_value_of(w->graph, param)->type;
            IPU_TRY(ipu__walk_zeros(w, g->c.node, &type, &back));
        }
        IPU_TRY(ipu_graph_add_result(w->ctx, w->graph, g->back, back));
    }
    return IPU_OK;
}

/* A gradient that may not be there, or zeros of the type of `like`. */
static ipu_status
push_initial(loop_gradient *g, ipu_value gradient, ipu_value like)
{
    ipu__walk *w = g->c.w;
    if (gradient.index == IPU_NO_INDEX) {
        ipu_type type = ipu_value_of(w->graph, like)->type;
        IPU_TRY(ipu__walk_zeros(w, g->c.node, &type, &gradient));
    }
    return IPU_ARRAY_PUSH(w->ctx, &g->initials, gradient);
}

/* The gradient's node. How often it runs and its first turn are filled in when it is
 * connected. */
static ipu_status
emit_gradient(loop_gradient *g, int64_t most_turns, ipu_node *out)
{
    ipu__walk *w = g->c.w;
    ipu_rule build = ipu__control_builder(w, w->block, g->c.node);
    ipu_rule *r = &build;
    ipu_value later = NUMBER_LIKE(g->turn, 0.0);
    IPU_TRY(r->status);
    IPU_TRY(IPU_ARRAY_PUSH(w->ctx, &g->initials, later));
    IPU_TRY(IPU_ARRAY_PUSH(w->ctx, &g->initials, later));
    for (size_t i = 0; i < g->c.targets.count; i++) {
        IPU_TRY(push_initial(g, g->c.before.items[i], g->c.targets.items[i]));
    }
    for (uint32_t i = 0; i < g->count; i++) {
        if (is_active(g, i)) {
            ipu_value final = ipu_node_output(ipu_node_of(w->graph, g->c.node), i);
            IPU_TRY(push_initial(g, ipu__walk_gradient(w, final), final));
        }
    }
    const ipu_node_data *forward = ipu_node_of(w->graph, g->c.node);
    bool is_part = ipu_attrs_int(forward->attrs, IPU_ATTR_IS_PART, 0) != 0;
    ipu_attr attrs[3] = {ipu_attr_int(IPU_ATTR_BODY, g->back.index),
                         ipu_attr_int(IPU_ATTR_MAXIMUM_ITERATIONS, most_turns),
                         ipu_attr_int(IPU_ATTR_IS_PART, is_part)};
    ipu_value first =
        ipu__rule_emit(r, IPU_OP_ID_REPEAT, g->initials.items,
                       (uint32_t)g->initials.count, attrs, is_part ? 3 : 2);
    IPU_TRY(r->status);
    *out = ipu_value_of(w->graph, first)->producer;
    return IPU_OK;
}

/* What the gradient's node gives, to whom it belongs. */
static ipu_status
hand_out(loop_gradient *g, ipu_node back)
{
    ipu__walk *w = g->c.w;
    const ipu_block_data *body = ipu_block_of(w->graph, g->back);
    uint32_t next = 1; /* after the turn */
    for (size_t i = 0; i < g->c.targets.count; i++) {
        bool touched =
            body->results.items[next].index != body->params.items[next].index;
        *ipu__walk_slot(w, g->c.targets.items[i]) =
            touched ? ipu_node_output(ipu_node_of(w->graph, back), next)
                    : g->c.before.items[i];
        next++;
    }
    for (uint32_t i = 0; i < g->count; i++) {
        if (!is_active(g, i)) {
            continue;
        }
        const ipu_node_data *node = ipu_node_of(w->graph, g->c.node);
        ipu_value input = node->inputs[ipu_node_entering(node, i)];
        ipu_value gradient = ipu_node_output(ipu_node_of(w->graph, back), next++);
        if (ipu__walk_depends(w, input)) {
            IPU_TRY(ipu__walk_accumulate(w, g->c.node, input, gradient));
        }
    }
    return IPU_OK;
}

/* A loop without turns gives what it is given. */
static ipu_status
pass_through(ipu__walk *w, ipu_node id)
{
    for (uint32_t i = 0; i < ipu_node_of(w->graph, id)->output_count; i++) {
        const ipu_node_data *node = ipu_node_of(w->graph, id);
        ipu_value input = node->inputs[ipu_node_entering(node, i)];
        ipu_value gradient = ipu__walk_gradient(w, ipu_node_output(node, i));
        if (gradient.index != IPU_NO_INDEX && ipu__walk_depends(w, input)) {
            IPU_TRY(ipu__walk_accumulate(w, id, input, gradient));
        }
    }
    return IPU_OK;
}

static ipu_status
derive_loop(loop_gradient *g, int64_t most_turns)
{
    ipu__walk *w = g->c.w;
    ipu_node back;
    IPU_TRY(ipu__control_find_targets(&g->c));
    IPU_TRY(open_gradient(g));
    IPU_TRY(ipu__walk_back(w, ipu_block_of(w->graph, g->body)->last));
    IPU_TRY(close_gradient(g));
    w->block = g->c.outside;
    IPU_TRY(emit_gradient(g, most_turns, &back));
    IPU_TRY(hand_out(g, back));
    return ipu__control_pair(&g->c, back);
}

ipu_status
ipu__control_loop(ipu__walk *w, ipu_node node)
{
    const ipu_node_data *data = ipu_node_of(w->graph, node);
    int64_t most_turns = ipu_loop_most_turns(w->graph, node);
    loop_gradient g = {.c = {.w = w, .node = node, .outside = w->block},
                       .body = ipu_node_body(data),
                       .count = data->output_count};
    if (most_turns == 0) {
        return pass_through(w, node);
    }
    ipu_status status = derive_loop(&g, most_turns);
    w->block = g.c.outside;
    IPU_ARRAY_FREE(w->ctx, &g.initials);
    ipu__control_free(&g.c);
    return status;
}

/* --- connecting ------------------------------------------------------------------ */

typedef struct connection {
    ipu__walk *w;
    ipu__plan plan;
    ipu_node node; /* forward */
    ipu_node back_node;
    int64_t most_turns;   /* -1: not known */
    int64_t counter;      /* carried value that counts the turns; -1: there is none */
    ipu_value turns;      /* how often it ran */
    ipu__values initials; /* of what the forward node carries in addition */
    IPU_ARRAY(ipu_type) types;
    ipu__values rows; /* in the gradient's body: what was kept of the turn */
} connection;

/* From here on what is added to the node's block goes in front of it. */
static void
add_before(const connection *c, ipu_node node)
{
    ipu_block_of(c->w->graph, ipu_node_of(c->w->graph, node)->block)->cursor = node;
}

static ipu_status
fail_unbounded(const connection *c)
{
    ipu_ctx *ctx = c->w->ctx;
    ctx->source = ipu_node_of(c->w->graph, c->node)->source;
    IPU_FAIL(ctx, INVALID_ARGUMENT,
             "the gradient of this loop needs values of each of its turns, and nothing "
             "says how many turns there are at most. Give the loop maximum_iterations, "
             "or a number of turns that is known when the function is compiled");
}

/* The carried value that counts the turns from 0, or -1. */
static int64_t
find_counter(const connection *c)
{
    const ipu_graph *graph = c->w->graph;
    const ipu_node_data *node = ipu_node_of(graph, c->node);
    for (uint32_t i = 0; i < node->output_count; i++) {
        ipu_value initial = node->inputs[ipu_node_entering(node, i)];
        if (ipu_loop_step(graph, c->plan.forward, i) == 1 &&
            ipu_value_is_known_int(graph, initial, 0)) {
            return i;
        }
    }
    return -1;
}

/* How often the loop ran, where that needs no counter of its own. */
static ipu_status
find_turns(connection *c)
{
    ipu__walk *w = c->w;
    const ipu_node_data *node = ipu_node_of(w->graph, c->node);
    int64_t given = ipu_attrs_int(node->attrs, IPU_ATTR_MAXIMUM_ITERATIONS, -1);
    c->counter = find_counter(c);
    if (node->op != IPU_OP_ID_REPEAT) {
        c->turns =
            c->counter < 0 ? IPU_NO_VALUE : ipu_node_output(node, (uint32_t)c->counter);
        return IPU_OK;
    }
    c->turns = node->inputs[0];
    if (given >= 0) {
        ipu_rule r = ipu__control_builder(w, ipu_node_of(w->graph, c->back_node)->block,
                                          c->node);
        add_before(c, c->back_node);
        ipu_value most = ipu__rule_number(&r, c->turns, (double)given);
        c->turns = ipu__rule_binary(&r, IPU_OP_ID_MINIMUM, c->turns, most);
        return r.status;
    }
    return IPU_OK;
}

/* One row for each turn. */
static ipu_type
stash_type(const connection *c, ipu_value value, int64_t rows)
{
    const ipu_type *type = &ipu_value_of(c->w->graph, value)->type;
    ipu_type stash = {.dtype = type->dtype, .shape = {.rank = 2}};
    stash.shape.dims[0] = rows;
    stash.shape.dims[1] = ipu_shape_elements(&type->shape);
    return stash;
}

/* A parameter of each block of the forward node; *out is the body's. */
static ipu_status
add_carried_param(connection *c, const ipu_type *type, ipu_value *out)
{
    ipu_graph *graph = c->w->graph;
    for (uint32_t k = 0; k < ipu_node_block_count(ipu_node_of(graph, c->node)); k++) {
        ipu_block held = ipu_node_block(ipu_node_of(graph, c->node), k);
        IPU_TRY(ipu_graph_add_param(c->w->ctx, graph, held, type, out));
    }
    return IPU_OK;
}

/* Makes the forward loop count its turns; *turn is the number of the turn, in its body.
 */
static ipu_status
add_counter(connection *c, ipu_value *turn)
{
    ipu__walk *w = c->w;
    ipu_block home = ipu_node_of(w->graph, c->node)->block;
    ipu_type type = {.dtype = IPU_DTYPE_INT32, .shape = ipu_shape_scalar()};
    ipu_rule build = ipu__control_builder(w, c->plan.forward, c->node);
    ipu_rule *r = &build;
    ipu_value zero;
    IPU_TRY(ipu_graph_emit_fill(w->ctx, w->graph, home, c->node, &type, 0.0, &zero));
    IPU_TRY(IPU_ARRAY_PUSH(w->ctx, &c->types, type));
    IPU_TRY(IPU_ARRAY_PUSH(w->ctx, &c->initials, zero));
    IPU_TRY(add_carried_param(c, &type, turn));
    ipu_value next = ADD(*turn, NUMBER_LIKE(*turn, 1.0));
    IPU_TRY(r->status);
    return ipu_graph_add_result(w->ctx, w->graph, c->plan.forward, next);
}

/* Makes each turn of the forward loop write its row of what is kept of `value`. */
static ipu_status
add_stash(connection *c, ipu_value value, ipu_value turn)
{
    ipu__walk *w = c->w;
    ipu_block home = ipu_node_of(w->graph, c->node)->block;
    ipu_rule r = ipu__control_builder(w, c->plan.forward, c->node);
    ipu_value inputs[3] = {IPU_NO_VALUE, IPU_NO_VALUE, turn};
    ipu_type type = stash_type(c, value, c->most_turns);
    ipu_type row = stash_type(c, value, 1);
    ipu_value initial;
    IPU_TRY(ipu_graph_emit_empty(w->ctx, w->graph, home, c->node, &type, &initial));
    IPU_TRY(IPU_ARRAY_PUSH(w->ctx, &c->types, type));
    IPU_TRY(IPU_ARRAY_PUSH(w->ctx, &c->initials, initial));
    IPU_TRY(add_carried_param(c, &type, &inputs[0]));
    inputs[1] = ipu__rule_reshape(&r, value, &row.shape);
    ipu_value rows =
        ipu__rule_emit(&r, IPU_OP_ID_DYNAMIC_UPDATE_SLICE, inputs, 3, NULL, 0);
    IPU_TRY(r.status);
    return ipu_graph_add_result(w->ctx, w->graph, r.block, rows);
}

static ipu_status
add_carried(connection *c)
{
    ipu__walk *w = c->w;
    ipu_value turn;
    add_before(c, c->node);
    if (c->counter < 0) {
        IPU_TRY(add_counter(c, &turn));
    } else {
        turn = ipu_block_of(w->graph, c->plan.forward)->params.items[c->counter];
    }
    for (size_t i = 0; i < c->plan.kept.count; i++) {
        IPU_TRY(add_stash(c, c->plan.kept.items[i], turn));
    }
    return ipu_graph_extend_node(w->ctx, w->graph, c->node, c->initials.items,
                                 (uint32_t)c->initials.count, c->types.items,
                                 (uint32_t)c->types.count);
}

/* Makes the forward loop keep what was planned, and count its turns if nothing else
 * does. On failure it is as it was. */
static ipu_status
extend_loop(connection *c)
{
    ipu__walk *w = c->w;
    const ipu_graph *graph = w->graph;
    uint32_t before = ipu_node_of(graph, c->node)->output_count;
    for (size_t i = 0; i < c->plan.kept.count; i++) {
        ipu_type type = stash_type(c, c->plan.kept.items[i], c->most_turns);
        w->ctx->source = ipu_node_of(graph, c->node)->source;
        IPU_TRY(ipu_type_check(w->ctx, &type));
    }
    ipu_node last = ipu_block_of(graph, c->plan.forward)->last;
    ipu_status status = add_carried(c);
    if (status != IPU_OK) {
        for (uint32_t k = 0; k < ipu_node_block_count(ipu_node_of(graph, c->node));
             k++) {
            ipu_block held = ipu_node_block(ipu_node_of(graph, c->node), k);
            ipu_block_of(graph, held)->params.count = before;
        }
        ipu__control_cut(w, c->plan.forward, last, before);
        return status;
    }
    if (c->turns.index == IPU_NO_INDEX) {
        c->turns = ipu_node_output(ipu_node_of(w->graph, c->node), before);
    }
    return IPU_OK;
}

/* In the gradient's body: the row of this turn, as what was kept. */
static ipu_status
read_row(connection *c, size_t i)
{
    ipu__walk *w = c->w;
    ipu_rule r = ipu__control_builder(w, c->plan.back, c->node);
    const ipu_node_data *node = ipu_node_of(w->graph, c->node);
    uint32_t stash = node->output_count - (uint32_t)c->plan.kept.count + (uint32_t)i;
    ipu_type row = stash_type(c, c->plan.kept.items[i], 1);
    ipu_shape shape = ipu_value_of(w->graph, c->plan.kept.items[i])->type.shape;
    ipu_value inputs[2] = {ipu_node_output(node, stash), c->plan.turn};
    ipu_attr size = ipu_attr_ints(IPU_ATTR_SIZE, row.shape.dims, 2);
    ipu_value out = ipu__rule_emit(&r, IPU_OP_ID_DYNAMIC_SLICE, inputs, 2, &size, 1);
    out = ipu__rule_reshape(&r, out, &shape);
    IPU_TRY(r.status);
    return IPU_ARRAY_PUSH(w->ctx, &c->rows, out);
}

/* Tells the gradient's node how often to run, and from which turn on. */
static ipu_status
set_turns(connection *c)
{
    ipu__walk *w = c->w;
    ipu_rule build =
        ipu__control_builder(w, ipu_node_of(w->graph, c->back_node)->block, c->node);
    ipu_rule *r = &build;
    add_before(c, c->back_node);
    ipu_value last = SUB(c->turns, NUMBER_LIKE(c->turns, 1.0));
    IPU_TRY(r->status);
    const ipu_node_data *back = ipu_node_of(w->graph, c->back_node);
    back->inputs[0] = c->turns;
    back->inputs[ipu_node_entering(back, 0)] = last;
    return IPU_OK;
}

static ipu_status
connect(connection *c)
{
    IPU_TRY(ipu__plan_uses(&c->plan));
    if (c->plan.kept.count > 0 && c->most_turns < 0) {
        return fail_unbounded(c);
    }
    IPU_TRY(find_turns(c));
    if (c->plan.kept.count > 0 || c->turns.index == IPU_NO_INDEX) {
        IPU_TRY(extend_loop(c));
    }
    IPU_TRY(set_turns(c));
    for (size_t i = 0; i < c->plan.kept.count; i++) {
        IPU_TRY(read_row(c, i));
    }
    return ipu__plan_supply(&c->plan, &c->rows);
}

ipu_status
ipu__connect_loop(ipu__walk *w, ipu__pair pair)
{
    ipu_graph *graph = w->graph;
    const ipu_node_data *node = ipu_node_of(graph, pair.forward);
    const ipu_node_data *back = ipu_node_of(graph, pair.back);
    const ipu_block home = node->block;
    const ipu_block outside = back->block;
    const ipu_block inside = ipu_node_body(back);
    connection c = {.w = w,
                    .plan = {.w = w,
                             .node = pair.forward,
                             .forward = ipu_node_body(node),
                             .back = inside,
                             .turn = ipu_block_of(graph, inside)->params.items[0]},
                    .node = pair.forward,
                    .back_node = pair.back,
                    .most_turns = ipu_loop_most_turns(graph, pair.forward)};
    ipu_block_of(graph, inside)->cursor = ipu_block_first(graph, inside);
    ipu_status status = connect(&c);
    ipu_block_of(graph, home)->cursor = IPU_NO_NODE;
    ipu_block_of(graph, outside)->cursor = IPU_NO_NODE;
    ipu_block_of(graph, inside)->cursor = IPU_NO_NODE;
    ipu__plan_free(&c.plan);
    IPU_ARRAY_FREE(w->ctx, &c.initials);
    IPU_ARRAY_FREE(w->ctx, &c.types);
    IPU_ARRAY_FREE(w->ctx, &c.rows);
    return status;
}
