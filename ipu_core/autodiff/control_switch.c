/* SPDX-License-Identifier: MIT
 *
 * The gradient of a switch. In: a switch node whose outputs have gradients. Out: a
 * switch in w->block with the same index, each of whose branches goes back through one
 * branch. What these use of the forward branches becomes outputs of the forward node;
 * values of one type in different branches share one. control.c says how the parts fit.
 */
#include "autodiff/control.h"
#include "autodiff/rules.h"

typedef struct branch_gradient {
    ipu_block forward;
    ipu_block back;
    ipu__values used;
    ipu__values kept;
    ipu__values at_hand; /* outputs of the forward node that hold them */
    ipu__values sums;    /* what came back to each target, here */
} branch_gradient;

typedef struct switch_gradient {
    ipu__control c;
    uint32_t count; /* of branches */
    branch_gradient *branches;
    uint32_t outputs; /* before anything is added */
    uint32_t first_output;
    IPU_ARRAY(ipu_type) slots; /* types of the outputs that are added */
    IPU_ARRAY(bool) touched;   /* per target */
} switch_gradient;

/* Back through one branch, into a block of its own. */
static ipu_status
walk_branch(switch_gradient *g, branch_gradient *b)
{
    ipu__walk *w = g->c.w;
    IPU_TRY(ipu_graph_add_block(w->ctx, w->graph, &b->back));
    w->block = b->back;
    for (size_t i = 0; i < g->c.targets.count; i++) {
        w->grads[g->c.targets.items[i].index] = g->c.before.items[i];
    }
    for (uint32_t i = 0; i < g->outputs; i++) {
        ipu_value gradient = w->grads[g->first_output + i];
        ipu_value result = ipu_block_of(w->graph, b->forward)->results.items[i];
        if (gradient.index != IPU_NO_INDEX && ipu__walk_depends(w, result)) {
            IPU_TRY(ipu__walk_accumulate(w, g->c.node, result, gradient));
        }
    }
    IPU_TRY(ipu__walk_block(w, b->forward,
                            ipu_block_of(w->graph, b->forward)->nodes.count));
    for (size_t i = 0; i < g->c.targets.count; i++) {
        ipu_value sum = w->grads[g->c.targets.items[i].index];
        IPU_TRY(IPU_ARRAY_PUSH(w->ctx, &b->sums, sum));
        g->touched.items[i] |= sum.index != g->c.before.items[i].index;
    }
    return IPU_OK;
}

/* The results of the branch's block: what came back to each target that some branch
 * touches. */
static ipu_status
close_branch(switch_gradient *g, branch_gradient *b)
{
    ipu__walk *w = g->c.w;
    w->block = b->back;
    for (size_t i = 0; i < g->c.targets.count; i++) {
        ipu_value sum = b->sums.items[i];
        if (!g->touched.items[i]) {
            continue;
        }
        if (sum.index == IPU_NO_INDEX) {
            ipu_type type = ipu_value_of(w->graph, g->c.targets.items[i])->type;
            IPU_TRY(ipu__walk_zeros(w, g->c.node, &type, &sum));
        }
        IPU_TRY(ipu_graph_add_result(w->ctx, w->graph, b->back, sum));
    }
    return ipu__control_find_uses(&g->c, b->back, b->forward, &b->used, &b->kept);
}

/* Gives each kept value of the branch an added output of its type: one that the branch
 * has not used yet, or a new one. *taken has one entry for each slot. */
static ipu_status
take_slots(switch_gradient *g, branch_gradient *b, ipu__values *taken)
{
    ipu__walk *w = g->c.w;
    for (size_t i = 0; i < b->kept.count; i++) {
        ipu_type type = ipu_value_of(w->graph, b->kept.items[i])->type;
        size_t slot = 0;
        while (slot < g->slots.count &&
               (!ipu_type_equal(&g->slots.items[slot], &type) ||
                (slot < taken->count && taken->items[slot].index != IPU_NO_INDEX))) {
            slot++;
        }
        if (slot == g->slots.count) {
            IPU_TRY(IPU_ARRAY_PUSH(w->ctx, &g->slots, type));
        }
        while (taken->count <= slot) {
            IPU_TRY(IPU_ARRAY_PUSH(w->ctx, taken, IPU_NO_VALUE));
        }
        taken->items[slot] = b->kept.items[i];
    }
    return IPU_OK;
}

/* The added results of one forward branch; what it has not is zeros. */
static ipu_status
add_slot_results(switch_gradient *g, branch_gradient *b, const ipu__values *taken)
{
    ipu__walk *w = g->c.w;
    for (size_t slot = 0; slot < g->slots.count; slot++) {
        ipu_value value = slot < taken->count ? taken->items[slot] : IPU_NO_VALUE;
        if (value.index == IPU_NO_INDEX) {
            IPU_TRY(ipu_graph_emit_fill(w->ctx, w->graph, b->forward, g->c.node,
                                        &g->slots.items[slot], 0.0, &value));
        }
        IPU_TRY(ipu_graph_add_result(w->ctx, w->graph, b->forward, value));
    }
    return IPU_OK;
}

static ipu_status
keep_in_switch(switch_gradient *g, ipu__values *taken)
{
    ipu__walk *w = g->c.w;
    for (uint32_t b = 0; b < g->count; b++) {
        IPU_TRY(take_slots(g, &g->branches[b], &taken[b]));
    }
    if (g->slots.count == 0) {
        return IPU_OK;
    }
    for (uint32_t b = 0; b < g->count; b++) {
        IPU_TRY(add_slot_results(g, &g->branches[b], &taken[b]));
    }
    IPU_TRY(ipu_graph_extend_node(w->ctx, w->graph, g->c.node, NULL, 0, g->slots.items,
                                  (uint32_t)g->slots.count));
    uint32_t first = ipu_node_of(w->graph, g->c.node)->first_output + g->outputs;
    for (uint32_t b = 0; b < g->count; b++) {
        branch_gradient *branch = &g->branches[b];
        for (size_t i = 0; i < branch->kept.count; i++) {
            uint32_t slot = 0;
            while (taken[b].items[slot].index != branch->kept.items[i].index) {
                slot++;
            }
            ipu_value output = {first + slot};
            IPU_TRY(IPU_ARRAY_PUSH(w->ctx, &branch->at_hand, output));
        }
    }
    return IPU_OK;
}

static ipu_status
keep_values(switch_gradient *g)
{
    ipu_ctx *ctx = g->c.w->ctx;
    ipu__values *taken;
    IPU_TRY(ipu_alloc(ctx, g->count * sizeof(ipu__values), &taken));
    ipu_status status = keep_in_switch(g, taken);
    for (uint32_t b = 0; b < g->count; b++) {
        IPU_ARRAY_FREE(ctx, &taken[b]);
    }
    ipu_free(ctx, taken, g->count * sizeof(ipu__values));
    return status;
}

static ipu_status
emit_switch(switch_gradient *g, const int64_t *blocks)
{
    ipu__walk *w = g->c.w;
    ipu_value index = ipu_node_of(w->graph, g->c.node)->inputs[0];
    ipu_attr attr = ipu__attr_ints(IPU_ATTR_BRANCHES, blocks, g->count);
    ipu_value out;
    IPU_TRY(ipu_graph_emit(w->ctx, w->graph, w->block, g->c.node, IPU_OP_ID_SWITCH,
                           &index, 1, &attr, 1, &out));
    for (size_t i = 0; i < g->c.targets.count; i++) {
        ipu_value *gradient = &w->grads[g->c.targets.items[i].index];
        *gradient = g->touched.items[i] ? out : g->c.before.items[i];
        out.index += g->touched.items[i];
    }
    return IPU_OK;
}

static ipu_status
differentiate_switch(switch_gradient *g, int64_t *blocks)
{
    ipu__walk *w = g->c.w;
    const ipu_node_data *node = ipu_node_of(w->graph, g->c.node);
    g->outputs = node->output_count;
    g->first_output = node->first_output;
    for (uint32_t b = 0; b < g->count; b++) {
        g->branches[b].forward = ipu_node_block(node, b);
    }
    for (size_t i = 0; i < g->c.targets.count; i++) {
        IPU_TRY(IPU_ARRAY_PUSH(w->ctx, &g->touched, false));
    }
    for (uint32_t b = 0; b < g->count; b++) {
        IPU_TRY(walk_branch(g, &g->branches[b]));
    }
    for (uint32_t b = 0; b < g->count; b++) {
        IPU_TRY(close_branch(g, &g->branches[b]));
        blocks[b] = g->branches[b].back.index;
    }
    w->block = g->c.outside;
    IPU_TRY(keep_values(g));
    for (uint32_t b = 0; b < g->count; b++) {
        branch_gradient *branch = &g->branches[b];
        w->block = branch->back;
        size_t first_new = ipu_block_of(w->graph, branch->back)->nodes.count;
        IPU_TRY(ipu__control_supply(&g->c, branch->forward, first_new, &branch->used,
                                    &branch->kept, &branch->at_hand));
    }
    w->block = g->c.outside;
    return emit_switch(g, blocks);
}

ipu_status
ipu__control_switch(ipu__walk *w, ipu_node node)
{
    switch_gradient g = {.c = {.w = w, .node = node, .outside = w->block},
                         .count = ipu_node_block_count(ipu_node_of(w->graph, node))};
    int64_t *blocks = NULL;
    ipu_status status = ipu_alloc(w->ctx, g.count * sizeof(*g.branches), &g.branches);
    if (status == IPU_OK) {
        status = ipu_alloc(w->ctx, g.count * sizeof(*blocks), &blocks);
    }
    if (status == IPU_OK) {
        status = ipu__control_prepare(&g.c);
    }
    if (status == IPU_OK) {
        status = differentiate_switch(&g, blocks);
    }
    w->block = g.c.outside;
    for (uint32_t b = 0; g.branches != NULL && b < g.count; b++) {
        IPU_ARRAY_FREE(w->ctx, &g.branches[b].used);
        IPU_ARRAY_FREE(w->ctx, &g.branches[b].kept);
        IPU_ARRAY_FREE(w->ctx, &g.branches[b].at_hand);
        IPU_ARRAY_FREE(w->ctx, &g.branches[b].sums);
    }
    ipu_free(w->ctx, g.branches,
             g.branches != NULL ? g.count * sizeof(*g.branches) : 0);
    ipu_free(w->ctx, blocks, blocks != NULL ? g.count * sizeof(*blocks) : 0);
    IPU_ARRAY_FREE(w->ctx, &g.slots);
    IPU_ARRAY_FREE(w->ctx, &g.touched);
    ipu__control_free(&g.c);
    return status;
}
