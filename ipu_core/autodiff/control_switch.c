/* SPDX-License-Identifier: MIT
 *
 * The gradient of a switch. In: a switch node whose outputs have gradients. Out: a
 * switch with the same index, each of whose branches goes back through one branch, and
 * gives what has come back to the targets. Connecting it, what the branches keep
 * becomes outputs of the forward node; values of one type in different branches share
 * one. control.c says how the parts fit. */
#include "autodiff/control.h"
#include "autodiff/rules.h"
#include "graph/block_op.h"

/* --- deriving -------------------------------------------------------------------- */

typedef struct switch_gradient {
    ipu__control c;
    uint32_t count;          /* of branches */
    int64_t *backs;          /* the gradient's blocks */
    ipu__values sums;        /* what came back to each target, branch by branch */
    IPU_ARRAY(bool) touched; /* by target: some branch adds to it */
} switch_gradient;

/* Back through one branch, into a block of its own. */
static ipu_status
walk_branch(switch_gradient *g, uint32_t b)
{
    ipu__walk *w = g->c.w;
    ipu_block forward = ipu_node_block(ipu_node_of(w->graph, g->c.node), b);
    ipu_block back;
    IPU_TRY(ipu__control_open(&g->c, forward, &back));
    g->backs[b] = back.index;
    for (size_t i = 0; i < g->c.targets.count; i++) {
        *ipu__walk_slot(w, g->c.targets.items[i]) = g->c.before.items[i];
    }
    for (uint32_t i = 0; i < ipu_node_of(w->graph, g->c.node)->output_count; i++) {
        ipu_value output = ipu_node_output(ipu_node_of(w->graph, g->c.node), i);
        ipu_value gradient = ipu__walk_gradient(w, output);
        ipu_value result = ipu_block_of(w->graph, forward)->results.items[i];
        if (gradient.index != IPU_NO_INDEX && ipu__walk_depends(w, result)) {
            IPU_TRY(ipu__walk_accumulate(w, g->c.node, result, gradient));
        }
    }
    IPU_TRY(ipu__walk_back(w, ipu_block_of(w->graph, forward)->last));
    for (size_t i = 0; i < g->c.targets.count; i++) {
        ipu_value sum = ipu__walk_gradient(w, g->c.targets.items[i]);
        IPU_TRY(IPU_ARRAY_PUSH(w->ctx, &g->sums, sum));
        g->touched.items[i] |= sum.index != g->c.before.items[i].index;
    }
    return IPU_OK;
}

/* The results of a branch's block: what came back to each target that some branch adds
 * to. */
static ipu_status
close_branch(switch_gradient *g, uint32_t b)
{
    ipu__walk *w = g->c.w;
    w->block = (ipu_block){(uint32_t)g->backs[b]};
    for (size_t i = 0; i < g->c.targets.count; i++) {
        ipu_value sum = g->sums.items[b * g->c.targets.count + i];
        if (!g->touched.items[i]) {
            continue;
        }
        if (sum.index == IPU_NO_INDEX) {
            ipu_type type = ipu_value_of(w->graph, g->c.targets.items[i])->type;
            IPU_TRY(ipu__walk_zeros(w, g->c.node, &type, &sum));
        }
        IPU_TRY(ipu_graph_add_result(w->ctx, w->graph, w->block, sum));
    }
    return IPU_OK;
}

static ipu_status
emit_switch(switch_gradient *g)
{
    ipu__walk *w = g->c.w;
    const ipu_node_data like = *ipu_node_of(w->graph, g->c.node);
    ipu_attr attr = ipu_attr_ints(IPU_ATTR_BRANCHES, g->backs, g->count);
    ipu_node_request request = {.op = IPU_OP_ID_SWITCH,
                                .attrs = &attr,
                                .attr_count = 1,
                                .placement = like.placement,
                                .recomputation = like.recomputation,
                                .number = like.number,
                                .source = like.source,
                                .name = like.name};
    ipu_node back;
    uint32_t next = 0;
    IPU_TRY(ipu_graph_add_node(w->ctx, w->graph, w->block, &request, like.inputs, 1,
                               &back));
    for (size_t i = 0; i < g->c.targets.count; i++) {
        *ipu__walk_slot(w, g->c.targets.items[i]) =
            g->touched.items[i] ? ipu_node_output(ipu_node_of(w->graph, back), next++)
                                : g->c.before.items[i];
    }
    return ipu__control_pair(&g->c, back);
}

static ipu_status
derive_switch(switch_gradient *g)
{
    ipu__walk *w = g->c.w;
    IPU_TRY(ipu__control_find_targets(&g->c));
    IPU_TRY(IPU_ARRAY_EXTEND(w->ctx, &g->touched, g->c.targets.count, NULL));
    for (uint32_t b = 0; b < g->count; b++) {
        IPU_TRY(walk_branch(g, b));
    }
    for (uint32_t b = 0; b < g->count; b++) {
        IPU_TRY(close_branch(g, b));
    }
    w->block = g->c.outside;
    return emit_switch(g);
}

ipu_status
ipu__control_switch(ipu__walk *w, ipu_node node)
{
    switch_gradient g = {.c = {.w = w, .node = node, .outside = w->block},
                         .count = ipu_node_block_count(ipu_node_of(w->graph, node))};
    size_t bytes = g.count * sizeof(*g.backs);
    IPU_TRY(ipu_alloc(w->ctx, bytes, &g.backs));
    ipu_status status = derive_switch(&g);
    w->block = g.c.outside;
    ipu_free(w->ctx, g.backs, bytes);
    IPU_ARRAY_FREE(w->ctx, &g.sums);
    IPU_ARRAY_FREE(w->ctx, &g.touched);
    ipu__control_free(&g.c);
    return status;
}

/* --- connecting ------------------------------------------------------------------ */

typedef struct branch {
    ipu__plan plan;
    ipu__values taken;   /* by slot: the value that the branch gives there */
    ipu__values at_hand; /* by kept value: the output that holds it */
    ipu_node last;       /* of the forward block, before it is extended */
} branch;

typedef struct connection {
    ipu__walk *w;
    ipu_node node; /* forward */
    uint32_t count;
    uint32_t extended; /* of the branches */
    branch *branches;
    IPU_ARRAY(ipu_type) slots; /* types of the outputs that are added */
} connection;

/* Gives each kept value of the branch an added output of its type: one that the branch
 * has not used yet, or a new one. */
static ipu_status
take_slots(connection *c, branch *b)
{
    ipu__walk *w = c->w;
    for (size_t i = 0; i < b->plan.kept.count; i++) {
        ipu_type type = ipu_value_of(w->graph, b->plan.kept.items[i])->type;
        size_t slot = 0;
        while (
            slot < c->slots.count &&
            (!ipu_type_equal(&c->slots.items[slot], &type) ||
             (slot < b->taken.count && b->taken.items[slot].index != IPU_NO_INDEX))) {
            slot++;
        }
        if (slot == c->slots.count) {
            IPU_TRY(IPU_ARRAY_PUSH(w->ctx, &c->slots, type));
        }
        IPU_TRY(IPU_ARRAY_EXTEND(w->ctx, &b->taken, slot + 1, &IPU_NO_VALUE));
        b->taken.items[slot] = b->plan.kept.items[i];
        IPU_TRY(IPU_ARRAY_PUSH(w->ctx, &b->at_hand, (ipu_value){(uint32_t)slot}));
    }
    return IPU_OK;
}

/* The added results of one forward branch; nobody reads those that it does not take. */
static ipu_status
add_slot_results(connection *c, branch *b)
{
    ipu__walk *w = c->w;
    for (size_t slot = 0; slot < c->slots.count; slot++) {
        ipu_value value = slot < b->taken.count ? b->taken.items[slot] : IPU_NO_VALUE;
        if (value.index == IPU_NO_INDEX) {
            IPU_TRY(ipu_graph_emit_empty(w->ctx, w->graph, b->plan.forward, c->node,
                                         &c->slots.items[slot], &value));
        }
        IPU_TRY(ipu_graph_add_result(w->ctx, w->graph, b->plan.forward, value));
    }
    return IPU_OK;
}

/* On failure the node is as it was. */
static ipu_status
extend_switch(connection *c)
{
    ipu__walk *w = c->w;
    size_t before = ipu_node_of(w->graph, c->node)->output_count;
    ipu_status status = IPU_OK;
    for (uint32_t b = 0; status == IPU_OK && b < c->count; b++) {
        c->branches[b].last = ipu_block_of(w->graph, c->branches[b].plan.forward)->last;
        status = add_slot_results(c, &c->branches[b]);
        c->extended++;
    }
    if (status == IPU_OK) {
        status = ipu_graph_extend_node(w->ctx, w->graph, c->node, NULL, 0,
                                       c->slots.items, (uint32_t)c->slots.count);
    }
    for (uint32_t b = 0; status != IPU_OK && b < c->extended; b++) {
        const branch *extended = &c->branches[b];
        ipu__control_cut(w, extended->plan.forward, extended->last, before);
    }
    return status;
}

static ipu_status
connect(connection *c)
{
    ipu__walk *w = c->w;
    uint32_t before = ipu_node_of(w->graph, c->node)->output_count;
    for (uint32_t b = 0; b < c->count; b++) {
        IPU_TRY(ipu__plan_uses(&c->branches[b].plan));
        IPU_TRY(take_slots(c, &c->branches[b]));
    }
    IPU_TRY(extend_switch(c));
    for (uint32_t b = 0; b < c->count; b++) {
        branch *branch = &c->branches[b];
        for (size_t i = 0; i < branch->at_hand.count; i++) {
            uint32_t slot = branch->at_hand.items[i].index;
            branch->at_hand.items[i] =
                ipu_node_output(ipu_node_of(w->graph, c->node), before + slot);
        }
        ipu_block_data *back = ipu_block_of(w->graph, branch->plan.back);
        back->cursor = back->first;
        ipu_status status = ipu__plan_supply(&branch->plan, &branch->at_hand);
        ipu_block_of(w->graph, branch->plan.back)->cursor = IPU_NO_NODE;
        IPU_TRY(status);
    }
    return IPU_OK;
}

ipu_status
ipu__connect_switch(ipu__walk *w, ipu__pair pair)
{
    const ipu_node_data *node = ipu_node_of(w->graph, pair.forward);
    const ipu_node_data *back = ipu_node_of(w->graph, pair.back);
    connection c = {.w = w, .node = pair.forward, .count = ipu_node_block_count(node)};
    size_t bytes = c.count * sizeof(*c.branches);
    IPU_TRY(ipu_alloc(w->ctx, bytes, &c.branches));
    for (uint32_t b = 0; b < c.count; b++) {
        c.branches[b].plan = (ipu__plan){.w = w,
                                         .node = pair.forward,
                                         .forward = ipu_node_block(node, b),
                                         .back = ipu_node_block(back, b),
                                         .turn = IPU_NO_VALUE};
    }
    ipu_status status = connect(&c);
    for (uint32_t b = 0; b < c.count; b++) {
        ipu__plan_free(&c.branches[b].plan);
        IPU_ARRAY_FREE(w->ctx, &c.branches[b].taken);
        IPU_ARRAY_FREE(w->ctx, &c.branches[b].at_hand);
    }
    ipu_free(w->ctx, c.branches, bytes);
    IPU_ARRAY_FREE(w->ctx, &c.slots);
    return status;
}
