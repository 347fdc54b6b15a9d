/* SPDX-License-Identifier: MIT
 *
 * What loops and branches share on the way back, and how their forward values reach
 * the gradient.
 *
 * The gradient of a loop is a `repeat` that takes the turns backwards; that of a switch
 * a switch with the same index, each of whose branches goes back through one branch.
 * Both sum up the gradients of the values that the node's blocks use from outside: the
 * targets.
 *
 * The blocks of the gradient are derived as if they could see the values of the forward
 * block. The values that they really use of it are the plan: which are kept and which
 * are made anew. A loop keeps a value in a tensor with a row for each turn, which it
 * carries and which the gradient reads back; a switch gives it as an output. Constants,
 * counters and what is a view of something kept are made anew. So forward nodes gain
 * inputs and outputs and nothing else changes; and loops in loops need nothing more, as
 * what an inner one keeps is a value of the outer one's body.
 *
 * A read of a variable that nothing in the node writes moves in front of it, so that it
 * is a value from outside: a weight is not kept once for each turn. */
#include "autodiff/control.h"

#include "graph/block_op.h"
#include "graph/effects.h"
#include "graph/trips.h"
#include "graph/users.h"

/* --- reads of variables ---------------------------------------------------------- */

/* What a node writes, and the nodes of its blocks. */
static ipu_status
collect_writes(ipu__walk *w, ipu_node id, ipu_id_map *written)
{
    const ipu_node_data *node = ipu_node_of(w->graph, id);
    for (uint32_t i = 0; ipu_node_writes(node) && i < ipu_node_resource_count(node);
         i++) {
        IPU_TRY(ipu_id_map_put(w->ctx, written, ipu_node_resource(node, i), 0));
    }
    for (uint32_t k = 0; k < ipu_node_block_count(node); k++) {
        IPU_EACH_NODE(n, w->graph, ipu_node_block(node, k)) {
            IPU_TRY(collect_writes(w, n, written));
        }
    }
    return IPU_OK;
}

/* Moves the reads of a node's blocks in front of it, if nothing in the node writes what
 * they read. */
static ipu_status
hoist_reads(ipu__walk *w, ipu_node owner)
{
    ipu_graph *graph = w->graph;
    ipu_block home = ipu_node_of(graph, owner)->block;
    uint32_t count = ipu_node_block_count(ipu_node_of(graph, owner));
    ipu_id_map written = {0};
    ipu_status status = collect_writes(w, owner, &written);
    for (uint32_t k = 0; status == IPU_OK && k < count; k++) {
        ipu_block held = ipu_node_block(ipu_node_of(graph, owner), k);
        ipu_node next;
        for (ipu_node n = ipu_block_first(graph, held); ipu_is_node(n); n = next) {
            const ipu_node_data *node = ipu_node_of(graph, n);
            next = node->next;
            if (node->op == IPU_OP_ID_VARIABLE_READ &&
                !ipu_id_map_has(&written, ipu_node_resource(node, 0))) {
                ipu_graph_move(graph, n, home, owner);
            }
        }
    }
    ipu_id_map_free(w->ctx, &written);
    return status;
}

/* The walk's nodes are in the order in which they were made: those that another one
 * holds come first, so that their reads move on with its own. */
ipu_status
ipu__control_prepare(ipu__walk *w)
{
    for (size_t i = 0; i < w->nodes.count; i++) {
        const ipu_node_data *node = ipu_node_of(w->graph, w->nodes.items[i]);
        if ((ipu_node_flags(node) & IPU_OP_OPAQUE) == 0) {
            IPU_TRY(hoist_reads(w, w->nodes.items[i]));
        }
    }
    return IPU_OK;
}

/* --- targets --------------------------------------------------------------------- */

typedef struct target_finder {
    ipu__control *c;
    ipu_id_map seen;
} target_finder;

static ipu_status
add_target(target_finder *f, ipu_value value)
{
    ipu__walk *w = f->c->w;
    if (!ipu__walk_depends(w, value) || ipu_id_map_has(&f->seen, value.index)) {
        return IPU_OK;
    }
    IPU_TRY(ipu_id_map_put(w->ctx, &f->seen, value.index, 0));
    IPU_TRY(IPU_ARRAY_PUSH(w->ctx, &f->c->before, ipu__walk_gradient(w, value)));
    return IPU_ARRAY_PUSH(w->ctx, &f->c->targets, value);
}

static ipu_status
add_if_from_outside(void *state, ipu_value *place, ipu_node user)
{
    target_finder *f = state;
    const ipu_graph *graph = f->c->w->graph;
    (void)user;
    return ipu_graph_is_inside(graph, ipu_value_of(graph, *place)->block, f->c->node)
               ? IPU_OK
               : add_target(f, *place);
}

/* Values that the blocks use, and those that are differentiated by and lie inside. */
ipu_status
ipu__control_find_targets(ipu__control *c)
{
    const ipu__walk *w = c->w;
    const ipu_node_data *node = ipu_node_of(w->graph, c->node);
    target_finder f = {.c = c};
    ipu_status status = IPU_OK;
    for (uint32_t k = 0; status == IPU_OK && k < ipu_node_block_count(node); k++) {
        status = ipu_block_each_use(w->graph, ipu_node_block(node, k),
                                    add_if_from_outside, &f);
    }
    for (uint32_t i = 0; status == IPU_OK && i < w->x_count; i++) {
        ipu_block home = ipu_value_of(w->graph, w->xs[i])->block;
        if (ipu_graph_is_inside(w->graph, home, c->node)) {
            status = add_target(&f, w->xs[i]);
        }
    }
    ipu_id_map_free(w->ctx, &f.seen);
    return status;
}

ipu_status
ipu__control_open(ipu__control *c, ipu_block forward, ipu_block *out)
{
    IPU_TRY(ipu_graph_add_block(c->w->ctx, c->w->graph, c->outside, out));
    ipu_block_of(c->w->graph, *out)->sees = forward;
    c->w->block = *out;
    return IPU_OK;
}

ipu_status
ipu__control_pair(ipu__control *c, ipu_node back)
{
    ipu__pair pair = {c->node, back};
    return IPU_ARRAY_PUSH(c->w->ctx, &c->w->pairs, pair);
}

void
ipu__control_free(ipu__control *c)
{
    IPU_ARRAY_FREE(c->w->ctx, &c->targets);
    IPU_ARRAY_FREE(c->w->ctx, &c->before);
}

void
ipu__control_cut(const ipu__walk *w, ipu_block id, ipu_node last, size_t results)
{
    ipu_block_data *block = ipu_block_of(w->graph, id);
    while (block->last.index != last.index) {
        ipu_graph_unlink(w->graph, block->last);
    }
    block->results.count = results;
}

ipu_status
ipu__control_connect(ipu__walk *w)
{
    ipu_status status = IPU_OK;
    for (size_t i = 0; status == IPU_OK && i < w->pairs.count; i++) {
        ipu__pair pair = w->pairs.items[i];
        status = ipu_node_is_loop(ipu_node_of(w->graph, pair.forward))
                     ? ipu__connect_loop(w, pair)
                     : ipu__connect_switch(w, pair);
    }
    for (size_t i = 0; i < w->pairs.count; i++) {
        const ipu_node_data *back = ipu_node_of(w->graph, w->pairs.items[i].back);
        for (uint32_t k = 0; k < ipu_node_block_count(back); k++) {
            ipu_block_of(w->graph, ipu_node_block(back, k))->sees = IPU_NO_BLOCK;
        }
    }
    return status;
}

/* --- the plan: what is used of a forward block ------------------------------------ */

static bool
is_of_forward(const ipu__plan *p, ipu_value value)
{
    return ipu_value_of(p->w->graph, value)->block.index == p->forward.index;
}

/* For a value of the forward block: where that is a parameter which counts with a known
 * step, its number; else -1. */
static int64_t
counter_of(const ipu__plan *p, ipu_value value)
{
    const ipu_graph *graph = p->w->graph;
    const ipu_value_data *data = ipu_value_of(graph, value);
    bool counts = !ipu_is_node(data->producer) &&
                  ipu_loop_step(graph, p->forward, data->position) != 0;
    return counts ? (int64_t)data->position : -1;
}

/* Whether making the result again costs no more than keeping it. */
static bool
is_cheap(const ipu_graph *graph, const ipu_node_data *node)
{
    uint32_t flags = ipu_node_flags(node);
    if (node->op == IPU_OP_ID_CUSTOM_GRADIENT) { /* a second call */
        return false;
    }
    if ((flags & IPU_OP_ELEMENTWISE) != 0) {
        const ipu_type *type = &ipu_value_of(graph, ipu_node_output(node, 0))->type;
        /* a float16 may be rounded stochastically: to other bits in another turn */
        bool rounds = type->dtype == IPU_DTYPE_FLOAT16 && (flags & IPU_OP_EXACT) == 0;
        return ipu_shape_elements(&type->shape) == 1 && !rounds;
    }
    return (flags & (IPU_OP_VIEW | IPU_OP_CHEAP)) != 0;
}

/* Whether the gradient can make a value of the forward block of values from outside. */
static bool
can_make_anew(const ipu__plan *p, ipu_value value, int depth)
{
    const ipu_graph *graph = p->w->graph;
    if (!is_of_forward(p, value) || counter_of(p, value) >= 0) {
        return true;
    }
    const ipu_node_data *node = ipu_producer_of(graph, value);
    bool can = node != NULL && depth > 0 && is_cheap(graph, node);
    for (uint32_t i = 0; can && i < node->input_count; i++) {
        can = can_make_anew(p, node->inputs[i], depth - 1);
    }
    return can;
}

enum { DEPTH = 8 };

/* What has to be kept for `value`: itself, or what it is a view of. */
static ipu_value
kept_for(const ipu__plan *p, ipu_value value)
{
    const ipu_graph *graph = p->w->graph;
    const ipu_node_data *node = ipu_producer_of(graph, value);
    while (node != NULL && node->op != IPU_OP_ID_CUSTOM_GRADIENT &&
           (node->op == IPU_OP_ID_BROADCAST ||
            (ipu_node_flags(node) & IPU_OP_VIEW) != 0)) {
        value = node->inputs[0];
        node = ipu_producer_of(graph, value);
    }
    return value;
}

static ipu_status
note_use(void *state, ipu_value *place, ipu_node user)
{
    ipu__plan *p = state;
    ipu_ctx *ctx = p->w->ctx;
    ipu_value root = kept_for(p, *place);
    (void)user;
    if (can_make_anew(p, *place, DEPTH) || ipu_id_map_has(&p->is_kept, root.index)) {
        return IPU_OK;
    }
    IPU_TRY(ipu_id_map_put(ctx, &p->is_kept, root.index, 0));
    return IPU_ARRAY_PUSH(ctx, &p->kept, root);
}

ipu_status
ipu__plan_uses(ipu__plan *plan)
{
    return ipu_block_each_use(plan->w->graph, plan->back, note_use, plan);
}

void
ipu__plan_free(ipu__plan *p)
{
    IPU_ARRAY_FREE(p->w->ctx, &p->kept);
    ipu_id_map_free(p->w->ctx, &p->is_kept);
}

/* --- supplying what was planned --------------------------------------------------- */

typedef struct supply {
    ipu__plan *p;
    ipu_id_map made;     /* by forward value: the value of `back` that stands for it */
    ipu__values open;    /* values to be made, each after those that need it */
    ipu__values scratch; /* inputs of one node */
} supply;

/* What stands for a value in `back` so far; IPU_NO_VALUE: nothing. */
static ipu_value
stand_in(const supply *s, ipu_value value)
{
    uint32_t missing = is_of_forward(s->p, value) ? IPU_NO_INDEX : value.index;
    return (ipu_value){ipu_id_map_get(&s->made, value.index, missing)};
}

/* A counter of the forward loop at the turn that the gradient is at. */
static ipu_status
make_counter(supply *s, uint32_t i, ipu_value *out)
{
    const ipu__plan *p = s->p;
    ipu__walk *w = p->w;
    const ipu_node_data *loop = ipu_node_of(w->graph, p->node);
    int64_t step = ipu_loop_step(w->graph, p->forward, i);
    ipu_value first = loop->inputs[ipu_node_entering(loop, i)];
    ipu_rule build = ipu__control_builder(w, p->back, p->node);
    ipu_rule *r = &build;
    *out = MUL(p->turn, NUMBER_LIKE(p->turn, (double)step));
    if (!ipu_value_is_known_int(w->graph, first, 0)) {
        *out = ADD(first, *out);
    }
    return r->status;
}

/* The node that makes `value` once more, if all of its inputs are there. Otherwise
 * opens those that are missing. */
static ipu_status
make_node_anew(supply *s, ipu_value value)
{
    ipu__walk *w = s->p->w;
    const ipu_value_data data = *ipu_value_of(w->graph, value);
    const ipu_node_data node = *ipu_node_of(w->graph, data.producer);
    bool complete = true;
    s->scratch.count = 0;
    for (uint32_t i = 0; i < node.input_count; i++) {
        ipu_value input = stand_in(s, node.inputs[i]);
        IPU_TRY(IPU_ARRAY_PUSH(w->ctx, &s->scratch, input));
        if (input.index == IPU_NO_INDEX) {
            IPU_TRY(IPU_ARRAY_PUSH(w->ctx, &s->open, node.inputs[i]));
            complete = false;
        }
    }
    if (!complete) {
        return IPU_OK;
    }
    ipu_value made;
    IPU_TRY(ipu_graph_emit(w->ctx, w->graph, s->p->back, data.producer, node.op,
                           s->scratch.items, node.input_count, node.attrs.items,
                           node.attrs.count, &made));
    return ipu_id_map_put(w->ctx, &s->made, value.index, made.index);
}

/* In front of the nodes of `back`: something that stands for `value`. */
static ipu_status
make_anew(supply *s, ipu_value value)
{
    ipu__walk *w = s->p->w;
    IPU_TRY(IPU_ARRAY_PUSH(w->ctx, &s->open, value));
    while (s->open.count > 0) {
        ipu_value next = s->open.items[s->open.count - 1];
        if (stand_in(s, next).index != IPU_NO_INDEX) {
            s->open.count--;
            continue;
        }
        int64_t counter = counter_of(s->p, next);
        if (counter >= 0) {
            ipu_value made;
            IPU_TRY(make_counter(s, (uint32_t)counter, &made));
            IPU_TRY(ipu_id_map_put(w->ctx, &s->made, next.index, made.index));
        } else {
            IPU_TRY(make_node_anew(s, next));
        }
    }
    return IPU_OK;
}

static ipu_status
replace_use(void *state, ipu_value *place, ipu_node user)
{
    (void)user;
    IPU_TRY(make_anew(state, *place));
    *place = stand_in(state, *place);
    return IPU_OK;
}

static ipu_status
supply_all(supply *s, const ipu__values *at_hand)
{
    ipu__plan *p = s->p;
    for (size_t i = 0; i < p->kept.count; i++) {
        IPU_TRY(ipu_id_map_put(p->w->ctx, &s->made, p->kept.items[i].index,
                               at_hand->items[i].index));
    }
    return ipu_block_each_use(p->w->graph, p->back, replace_use, s);
}

ipu_status
ipu__plan_supply(ipu__plan *plan, const ipu__values *at_hand)
{
    supply s = {.p = plan};
    ipu_status status = supply_all(&s, at_hand);
    ipu_id_map_free(plan->w->ctx, &s.made);
    IPU_ARRAY_FREE(plan->w->ctx, &s.open);
    IPU_ARRAY_FREE(plan->w->ctx, &s.scratch);
    return status;
}
