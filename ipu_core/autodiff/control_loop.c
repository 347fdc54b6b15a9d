/* SPDX-License-Identifier: MIT
 *
 * The gradient of a loop. In: a repeat or while node whose outputs have gradients. Out:
 * a repeat in w->block that goes back over the turns that were taken; the forward node
 * counts them where it has to, and carries a tensor with a row for each turn for every
 * value that the gradient uses. control.c says how the parts fit. */
#include "autodiff/control.h"
#include "autodiff/rules.h"

typedef struct loop_gradient {
    ipu__control c;
    ipu_block body;     /* forward */
    ipu_block back;     /* the gradient's body */
    uint32_t first;     /* input that holds the first carried value */
    uint32_t count;     /* of carried values, before anything is added */
    int64_t most_turns; /* -1: not known */
    ipu_value turns;    /* how often it ran */
    int64_t counter;    /* carried value that counts them; -1: one has to be added */
    ipu__values used;
    ipu__values kept;
    ipu__values stashes;  /* the forward node's outputs that hold them */
    ipu__values initials; /* inputs of the gradient's node, behind the count */
} loop_gradient;

static ipu_status
emit_int(ipu__walk *w, ipu_block block, ipu_node like, double number, ipu_value *out)
{
    ipu_type type = {.dtype = IPU_DTYPE_INT32, .shape = ipu_shape_scalar()};
    return ipu_graph_emit_fill(w->ctx, w->graph, block, like, &type, number, out);
}

static ipu_status
emit_two(ipu__walk *w, ipu_block block, ipu_node like, ipu_op op, ipu_value a,
         ipu_value b, ipu_value *out)
{
    ipu_value inputs[2] = {a, b};
    return ipu_graph_emit(w->ctx, w->graph, block, like, op, inputs, 2, NULL, 0, out);
}

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

/* The parameters: the turn, what came back from the turn behind for each active value,
 * the sums so far. The walk over the body starts from them. */
static ipu_status
open_gradient(loop_gradient *g)
{
    ipu__walk *w = g->c.w;
    ipu_type turn = {.dtype = IPU_DTYPE_INT32, .shape = ipu_shape_scalar()};
    IPU_TRY(ipu_graph_add_block(w->ctx, w->graph, &g->back));
    w->block = g->back;
    IPU_TRY(ipu_graph_add_param(w->ctx, w->graph, g->back, &turn, &g->c.turn));
    for (size_t i = 0; i < g->c.targets.count; i++) {
        ipu_value target = g->c.targets.items[i];
        IPU_TRY(add_param_like(g, target, &w->grads[target.index]));
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
    ipu_value one;
    ipu_value next;
    IPU_TRY(emit_int(w, g->back, g->c.node, 1.0, &one));
    IPU_TRY(emit_two(w, g->back, g->c.node, IPU_OP_ID_SUB, g->c.turn, one, &next));
    IPU_TRY(ipu_graph_add_result(w->ctx, w->graph, g->back, next));
    for (size_t i = 0; i < g->c.targets.count; i++) {
        ipu_value sum = w->grads[g->c.targets.items[i].index];
        IPU_TRY(ipu_graph_add_result(w->ctx, w->graph, g->back, sum));
    }
    for (uint32_t i = 0; i < g->count; i++) {
        ipu_value param = ipu_block_of(w->graph, g->body)->params.items[i];
        if (!is_active(g, i)) {
            continue;
        }
        ipu_value back = w->grads[param.index];
        if (back.index == IPU_NO_INDEX) {
            ipu_type type = ipu_value_of(w->graph, param)->type;
            IPU_TRY(ipu__walk_zeros(w, g->c.node, &type, &back));
        }
        IPU_TRY(ipu_graph_add_result(w->ctx, w->graph, g->back, back));
    }
    return IPU_OK;
}

static ipu_status
fail_unbounded(const loop_gradient *g)
{
    ipu_ctx *ctx = g->c.w->ctx;
    const ipu_node_data *node = ipu_node_of(g->c.w->graph, g->c.node);
    ctx->source = node->source;
    IPU_FAIL(ctx, INVALID_ARGUMENT,
             "the gradient of this loop needs values of each of its turns, and nothing "
             "says how many turns there are at most. Give the loop maximum_iterations, "
             "or a number of turns that is known when the function is compiled");
}

/* One row for each turn. */
static ipu_type
stash_type(const loop_gradient *g, ipu_value value, int64_t rows)
{
    const ipu_type *type = &ipu_value_of(g->c.w->graph, value)->type;
    ipu_type stash = {.dtype = type->dtype, .shape = {.rank = 2}};
    stash.shape.dims[0] = rows;
    stash.shape.dims[1] = ipu_shape_elements(&type->shape);
    return stash;
}

static ipu_status
emit_reshape(ipu__walk *w, ipu_block block, ipu_node like, ipu_value x,
             const ipu_shape *shape, ipu_value *out)
{
    ipu_shape copy = *shape; /* the original may be in an array that moves */
    ipu_attr attr = ipu__attr_ints(IPU_ATTR_SHAPE, copy.dims, (uint32_t)copy.rank);
    return ipu_graph_emit(w->ctx, w->graph, block, like, IPU_OP_ID_RESHAPE, &x, 1,
                          &attr, 1, out);
}

/* A parameter of each block of the forward node; *out is the body's. */
static ipu_status
add_carried_param(loop_gradient *g, const ipu_type *type, ipu_value *out)
{
    ipu__walk *w = g->c.w;
    for (uint32_t k = 0; k < ipu_node_block_count(ipu_node_of(w->graph, g->c.node));
         k++) {
        ipu_block held = ipu_node_block(ipu_node_of(w->graph, g->c.node), k);
        IPU_TRY(ipu_graph_add_param(w->ctx, w->graph, held, type, out));
    }
    return IPU_OK;
}

/* The carried value that counts the turns from 0, or -1. */
static int64_t
find_counter(const loop_gradient *g)
{
    const ipu_graph *graph = g->c.w->graph;
    const ipu_node_data *node = ipu_node_of(graph, g->c.node);
    for (uint32_t i = 0; i < g->count; i++) {
        const ipu_type *type =
            &ipu_value_of(graph, ipu_block_of(graph, g->body)->params.items[i])->type;
        if (type->dtype == IPU_DTYPE_INT32 && type->shape.rank == 0 &&
            ipu__step_of(graph, g->body, i) == 1 &&
            ipu__is_known_int(graph, node->inputs[g->first + i], 0)) {
            return i;
        }
    }
    return -1;
}

/* A counter of the turns, for the forward loop. */
static ipu_status
add_counter(loop_gradient *g, ipu_value *turn)
{
    ipu__walk *w = g->c.w;
    ipu_type type = {.dtype = IPU_DTYPE_INT32, .shape = ipu_shape_scalar()};
    ipu_value one;
    ipu_value next;
    IPU_TRY(add_carried_param(g, &type, turn));
    IPU_TRY(emit_int(w, g->body, g->c.node, 1.0, &one));
    IPU_TRY(emit_two(w, g->body, g->c.node, IPU_OP_ID_ADD, *turn, one, &next));
    return ipu_graph_add_result(w->ctx, w->graph, g->body, next);
}

/* In the forward body: each turn writes its row of what is kept of `value`. */
static ipu_status
add_stash(loop_gradient *g, const ipu_type *type, ipu_value value, ipu_value turn)
{
    ipu__walk *w = g->c.w;
    ipu_value inputs[3] = {IPU_NO_VALUE, IPU_NO_VALUE, turn};
    ipu_type row = stash_type(g, value, 1);
    ipu_value rows;
    IPU_TRY(add_carried_param(g, type, &inputs[0]));
    IPU_TRY(emit_reshape(w, g->body, g->c.node, value, &row.shape, &inputs[1]));
    IPU_TRY(ipu_graph_emit(w->ctx, w->graph, g->body, g->c.node,
                           IPU_OP_ID_DYNAMIC_UPDATE_SLICE, inputs, 3, NULL, 0, &rows));
    return ipu_graph_add_result(w->ctx, w->graph, g->body, rows);
}

/* Makes the forward loop count its turns, where it does not, and keep what the gradient
 * uses. The arrays have room for the counter and all that is kept. */
static ipu_status
extend_loop(loop_gradient *g, ipu_type *types, ipu_value *initials)
{
    ipu__walk *w = g->c.w;
    const ipu_block home = ipu_node_of(w->graph, g->c.node)->block;
    size_t tail = ipu_block_of(w->graph, home)->nodes.count;
    uint32_t counters = g->counter < 0;
    uint32_t extra = counters + (uint32_t)g->kept.count;
    ipu_value turn;
    if (counters > 0) {
        types[0] = (ipu_type){.dtype = IPU_DTYPE_INT32, .shape = ipu_shape_scalar()};
        IPU_TRY(emit_int(w, home, g->c.node, 0.0, &initials[0]));
    }
    for (uint32_t i = counters; i < extra; i++) {
        types[i] = stash_type(g, g->kept.items[i - counters], g->most_turns);
        IPU_TRY(ipu_type_check(w->ctx, &types[i]));
        IPU_TRY(ipu_graph_emit_fill(w->ctx, w->graph, home, g->c.node, &types[i], 0.0,
                                    &initials[i]));
    }
    ipu_graph_move_tail(w->graph, home, tail, ipu_graph_position(w->graph, g->c.node));
    if (counters > 0) {
        IPU_TRY(add_counter(g, &turn));
    } else {
        turn = ipu_block_of(w->graph, g->body)->params.items[g->counter];
    }
    for (uint32_t i = counters; i < extra; i++) {
        IPU_TRY(add_stash(g, &types[i], g->kept.items[i - counters], turn));
    }
    IPU_TRY(ipu_graph_extend_node(w->ctx, w->graph, g->c.node, initials, extra, types,
                                  extra));
    const ipu_node_data *node = ipu_node_of(w->graph, g->c.node);
    if (counters > 0 && node->op == IPU_OP_ID_WHILE) {
        g->turns = ipu_node_output(node, g->count);
    }
    for (uint32_t i = counters; i < extra; i++) {
        ipu_value stash = ipu_node_output(node, g->count + i);
        IPU_TRY(IPU_ARRAY_PUSH(w->ctx, &g->stashes, stash));
    }
    return IPU_OK;
}

/* How often the loop ran, where that needs no counter of its own. */
static ipu_status
find_turns(loop_gradient *g)
{
    ipu__walk *w = g->c.w;
    const ipu_node_data *node = ipu_node_of(w->graph, g->c.node);
    int64_t given = ipu_attrs_int(node->attrs, IPU_ATTR_MAXIMUM_ITERATIONS, -1);
    g->counter = find_counter(g);
    if (node->op == IPU_OP_ID_WHILE) {
        g->turns =
            g->counter < 0 ? IPU_NO_VALUE : ipu_node_output(node, (uint32_t)g->counter);
        return IPU_OK;
    }
    g->turns = node->inputs[0];
    if (given >= 0) {
        ipu_value most;
        IPU_TRY(emit_int(w, g->c.outside, g->c.node, (double)given, &most));
        IPU_TRY(emit_two(w, g->c.outside, g->c.node, IPU_OP_ID_MINIMUM, g->turns, most,
                         &g->turns));
    }
    return IPU_OK;
}

static ipu_status
keep_in_loop(loop_gradient *g)
{
    ipu_ctx *ctx = g->c.w->ctx;
    IPU_TRY(find_turns(g));
    if (g->kept.count > 0 && g->most_turns < 0) {
        return fail_unbounded(g);
    }
    if (g->kept.count == 0 && g->turns.index != IPU_NO_INDEX) {
        return IPU_OK;
    }
    size_t type_bytes = (1 + g->kept.count) * sizeof(ipu_type);
    size_t value_bytes = (1 + g->kept.count) * sizeof(ipu_value);
    ipu_type *types = NULL;
    ipu_value *initials = NULL;
    ipu_status status = ipu_alloc(ctx, type_bytes, &types);
    if (status == IPU_OK) {
        status = ipu_alloc(ctx, value_bytes, &initials);
    }
    if (status == IPU_OK) {
        status = extend_loop(g, types, initials);
    }
    ipu_free(ctx, initials, initials != NULL ? value_bytes : 0);
    ipu_free(ctx, types, types != NULL ? type_bytes : 0);
    return status;
}

/* In the gradient's body: the row of this turn, as what was kept. */
static ipu_status
read_row(loop_gradient *g, size_t i, ipu_value *out)
{
    ipu__walk *w = g->c.w;
    ipu_type row = stash_type(g, g->kept.items[i], 1);
    ipu_shape shape = ipu_value_of(w->graph, g->kept.items[i])->type.shape;
    ipu_value inputs[2] = {g->stashes.items[i], g->c.turn};
    ipu_attr size = ipu__attr_ints(IPU_ATTR_SIZE, row.shape.dims, 2);
    IPU_TRY(ipu_graph_emit(w->ctx, w->graph, g->back, g->c.node,
                           IPU_OP_ID_DYNAMIC_SLICE, inputs, 2, &size, 1, out));
    return emit_reshape(w, g->back, g->c.node, *out, &shape, out);
}

static ipu_status
read_rows(loop_gradient *g)
{
    ipu__values rows = {0};
    size_t first_new = ipu_block_of(g->c.w->graph, g->back)->nodes.count;
    ipu_status status = IPU_OK;
    for (size_t i = 0; status == IPU_OK && i < g->kept.count; i++) {
        ipu_value row = IPU_NO_VALUE;
        status = read_row(g, i, &row);
        if (status == IPU_OK) {
            status = IPU_ARRAY_PUSH(g->c.w->ctx, &rows, row);
        }
    }
    if (status == IPU_OK) {
        status =
            ipu__control_supply(&g->c, g->body, first_new, &g->used, &g->kept, &rows);
    }
    IPU_ARRAY_FREE(g->c.w->ctx, &rows);
    return status;
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

/* The gradient's node, and what it gives to whom. `finals`: the forward node's outputs
 * before anything was added. */
static ipu_status
emit_gradient(loop_gradient *g, uint32_t first_final)
{
    ipu__walk *w = g->c.w;
    ipu_value one;
    ipu_value last;
    IPU_TRY(emit_int(w, w->block, g->c.node, 1.0, &one));
    IPU_TRY(emit_two(w, w->block, g->c.node, IPU_OP_ID_SUB, g->turns, one, &last));
    IPU_TRY(IPU_ARRAY_PUSH(w->ctx, &g->initials, g->turns));
    IPU_TRY(IPU_ARRAY_PUSH(w->ctx, &g->initials, last));
    for (size_t i = 0; i < g->c.targets.count; i++) {
        IPU_TRY(push_initial(g, g->c.before.items[i], g->c.targets.items[i]));
    }
    for (uint32_t i = 0; i < g->count; i++) {
        if (is_active(g, i)) {
            ipu_value final = {first_final + i};
            IPU_TRY(push_initial(g, w->grads[final.index], final));
        }
    }
    ipu_attr attrs[2] = {ipu__attr_int(IPU_ATTR_BODY, g->back.index),
                         ipu__attr_int(IPU_ATTR_MAXIMUM_ITERATIONS, g->most_turns)};
    ipu_value out;
    IPU_TRY(ipu_graph_emit(w->ctx, w->graph, w->block, g->c.node, IPU_OP_ID_REPEAT,
                           g->initials.items, (uint32_t)g->initials.count, attrs, 2,
                           &out));
    for (size_t i = 0; i < g->c.targets.count; i++) {
        out.index++;
        /* what nothing came back to stays as it was */
        const ipu_block_data *back = ipu_block_of(w->graph, g->back);
        bool touched =
            back->results.items[1 + i].index != back->params.items[1 + i].index;
        w->grads[g->c.targets.items[i].index] = touched ? out : g->c.before.items[i];
    }
    for (uint32_t i = 0; i < g->count; i++) {
        if (is_active(g, i)) {
            ipu_value input = ipu_node_of(w->graph, g->c.node)->inputs[g->first + i];
            out.index++;
            if (ipu__walk_depends(w, input)) {
                IPU_TRY(ipu__walk_accumulate(w, g->c.node, input, out));
            }
        }
    }
    return IPU_OK;
}

static ipu_status
differentiate_loop(loop_gradient *g)
{
    ipu__walk *w = g->c.w;
    const ipu_node_data *node = ipu_node_of(w->graph, g->c.node);
    uint32_t first_final = node->first_output;
    g->count = node->output_count;
    g->first = node->input_count - node->output_count;
    g->body = ipu_node_block(node, ipu_node_block_count(node) - 1);
    g->most_turns = ipu__most_turns(w->graph, g->c.node);
    IPU_TRY(open_gradient(g));
    IPU_TRY(ipu__walk_block(w, g->body, ipu_block_of(w->graph, g->body)->nodes.count));
    IPU_TRY(close_gradient(g));
    IPU_TRY(ipu__control_find_uses(&g->c, g->back, g->body, &g->used, &g->kept));
    w->block = g->c.outside;
    IPU_TRY(keep_in_loop(g));
    w->block = g->back;
    IPU_TRY(read_rows(g));
    w->block = g->c.outside;
    return emit_gradient(g, first_final);
}

ipu_status
ipu__control_loop(ipu__walk *w, ipu_node node)
{
    loop_gradient g = {.c = {.w = w, .node = node, .outside = w->block}};
    ipu_status status = ipu__control_prepare(&g.c);
    if (status == IPU_OK) {
        status = differentiate_loop(&g);
    }
    w->block = g.c.outside;
    IPU_ARRAY_FREE(w->ctx, &g.used);
    IPU_ARRAY_FREE(w->ctx, &g.kept);
    IPU_ARRAY_FREE(w->ctx, &g.stashes);
    IPU_ARRAY_FREE(w->ctx, &g.initials);
    ipu__control_free(&g.c);
    return status;
}
