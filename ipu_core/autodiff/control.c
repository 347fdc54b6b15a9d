/* SPDX-License-Identifier: MIT
 *
 * Gradients of nodes that hold blocks. In: a loop or a switch whose outputs have
 * gradients. Out: a node in w->block that computes what comes back to its inputs and to
 * the values that its blocks use from outside.
 *
 * The gradient of a loop is a loop that runs backwards as often as the forward one ran:
 *
 *     t, d..., a... = repeat(turns, turns - 1, d_final..., 0...) { the gradient of body
 * }
 *
 * d comes back to the carried values, a is the sum over the turns for each value from
 * outside. That of a switch is a switch with the same index, each of whose branches
 * goes back through one branch.
 *
 * The gradient's blocks are first built as if the forward block's values could be seen
 * there. What they really use of them decides what is kept: a loop carries for each
 * such value a tensor of most-turns rows, which a turn writes its row of and the
 * gradient reads it from; a switch gets them as outputs. Constants and what is a view
 * of something kept are made anew. So forward nodes gain inputs and outputs and nothing
 * else changes; and loops in loops need nothing more, as what an inner one keeps is a
 * value of the outer one's body.
 *
 * A read of a variable that nothing in the node writes moves in front of it, so that it
 * is a value from outside: a weight is not kept once for each turn. */
#include "autodiff/control.h"

/* --- reads of variables ---------------------------------------------------------- */

static bool
block_writes(const ipu_graph *graph, ipu_block id, int64_t resource)
{
    const ipu_block_data *block = ipu_block_of(graph, id);
    for (size_t i = 0; i < block->nodes.count; i++) {
        const ipu_node_data *node = ipu_node_of(graph, block->nodes.items[i]);
        uint32_t slot_count;
        const int64_t *slots = ipu_attrs_ints(node->attrs, IPU_ATTR_SLOTS, &slot_count);
        bool writes = (ipu_op_info_of(node->op)->flags & IPU_OP_WRITES) != 0;
        if (writes && ipu_attrs_int(node->attrs, IPU_ATTR_RESOURCE, -1) == resource) {
            return true;
        }
        for (uint32_t k = 0; k < slot_count; k++) {
            if (slots[k] == resource) {
                return true;
            }
        }
        for (uint32_t k = 0; k < ipu_node_block_count(node); k++) {
            if (block_writes(graph, ipu_node_block(node, k), resource)) {
                return true;
            }
        }
    }
    return false;
}

static bool
node_writes(const ipu_graph *graph, ipu_node id, int64_t resource)
{
    const ipu_node_data *node = ipu_node_of(graph, id);
    for (uint32_t k = 0; k < ipu_node_block_count(node); k++) {
        if (block_writes(graph, ipu_node_block(node, k), resource)) {
            return true;
        }
    }
    return false;
}

static ipu_status
hoist_reads(ipu__control *c, ipu_block id)
{
    ipu_graph *graph = c->w->graph;
    for (size_t i = 0; i < ipu_block_of(graph, id)->nodes.count; i++) {
        ipu_node node_id = ipu_block_of(graph, id)->nodes.items[i];
        const ipu_node_data *node = ipu_node_of(graph, node_id);
        int64_t resource = ipu_attrs_int(node->attrs, IPU_ATTR_RESOURCE, -1);
        if (node->op == IPU_OP_ID_VARIABLE_READ &&
            !node_writes(graph, c->node, resource)) {
            IPU_TRY(ipu_graph_hoist(c->w->ctx, graph, node_id, c->node));
            i--;
            continue;
        }
        for (uint32_t k = 0; k < ipu_node_block_count(node); k++) {
            IPU_TRY(hoist_reads(c, ipu_node_block(node, k)));
        }
    }
    return IPU_OK;
}

/* --- values from outside --------------------------------------------------------- */

static bool
contains(const ipu__values *list, ipu_value value)
{
    for (size_t i = 0; i < list->count; i++) {
        if (list->items[i].index == value.index) {
            return true;
        }
    }
    return false;
}

static ipu_status
add_target(ipu__control *c, ipu_value value)
{
    if (contains(&c->targets, value)) {
        return IPU_OK;
    }
    IPU_TRY(IPU_ARRAY_PUSH(c->w->ctx, &c->before, c->w->grads[value.index]));
    return IPU_ARRAY_PUSH(c->w->ctx, &c->targets, value);
}

static ipu_status
add_if_from_outside(ipu__control *c, ipu_value value)
{
    const ipu_graph *graph = c->w->graph;
    if (!ipu__walk_depends(c->w, value) ||
        ipu_graph_is_inside(graph, ipu_value_of(graph, value)->block, c->node)) {
        return IPU_OK;
    }
    return add_target(c, value);
}

static ipu_status
find_outside_values(ipu__control *c, ipu_block id)
{
    const ipu_graph *graph = c->w->graph;
    const ipu_block_data *block = ipu_block_of(graph, id);
    for (size_t i = 0; i < block->nodes.count; i++) {
        const ipu_node_data *node = ipu_node_of(graph, block->nodes.items[i]);
        for (uint32_t k = 0; k < node->input_count; k++) {
            IPU_TRY(add_if_from_outside(c, node->inputs[k]));
        }
        for (uint32_t k = 0; k < ipu_node_block_count(node); k++) {
            IPU_TRY(find_outside_values(c, ipu_node_block(node, k)));
        }
    }
    for (size_t i = 0; i < block->results.count; i++) {
        IPU_TRY(add_if_from_outside(c, block->results.items[i]));
    }
    return IPU_OK;
}

/* Values that the blocks use, and those that are differentiated by and lie inside. */
static ipu_status
find_targets(ipu__control *c)
{
    const ipu__walk *w = c->w;
    for (uint32_t k = 0; k < ipu_node_block_count(ipu_node_of(w->graph, c->node));
         k++) {
        ipu_block held = ipu_node_block(ipu_node_of(w->graph, c->node), k);
        IPU_TRY(find_outside_values(c, held));
    }
    for (uint32_t i = 0; i < w->x_count; i++) {
        ipu_block home = ipu_value_of(w->graph, w->xs[i])->block;
        if (ipu__walk_depends(w, w->xs[i]) &&
            ipu_graph_is_inside(w->graph, home, c->node)) {
            IPU_TRY(add_target(c, w->xs[i]));
        }
    }
    return IPU_OK;
}

/* --- what the gradient uses of a forward block ----------------------------------- */

static const ipu_node_data *
producer(const ipu_graph *graph, ipu_value value)
{
    ipu_node node = ipu_value_of(graph, value)->producer;
    return node.index == IPU_NO_INDEX ? NULL : ipu_node_of(graph, node);
}

/* For a parameter of a loop's body that counts with a known step, its number; else -1.
 */
static int64_t
counter_of(const ipu__control *c, ipu_block home, ipu_value value)
{
    const ipu_graph *graph = c->w->graph;
    const ipu_value_data *data = ipu_value_of(graph, value);
    bool counts = data->block.index == home.index &&
                  data->producer.index == IPU_NO_INDEX &&
                  data->type.dtype == IPU_DTYPE_INT32 && data->type.shape.rank == 0 &&
                  ipu__step_of(graph, home, data->position) != 0;
    return counts ? (int64_t)data->position : -1;
}

/* Whether making the result again costs no more than keeping it. */
static bool
is_cheap(const ipu_graph *graph, const ipu_node_data *node)
{
    uint32_t flags = ipu_op_info_of(node->op)->flags;
    switch (node->op) {
    case IPU_OP_ID_CONSTANT:
    case IPU_OP_ID_BROADCAST:
    case IPU_OP_ID_SLICE:
    case IPU_OP_ID_DYNAMIC_SLICE:
    case IPU_OP_ID_GATHER:
        return true;
    case IPU_OP_ID_CUSTOM_GRADIENT: /* a second one would be a second call */
        return false;
    default:
        break;
    }
    if ((flags & IPU_OP_ELEMENTWISE) != 0 && node->input_count <= 3) {
        ipu_value out = ipu_node_output(node, 0);
        return ipu_shape_elements(&ipu_value_of(graph, out)->type.shape) == 1;
    }
    return (flags & IPU_OP_VIEW) != 0;
}

/* Whether the gradient can make the value of block `home` of values from outside. */
static bool
can_make_anew(const ipu__control *c, ipu_block home, ipu_value value, int depth)
{
    const ipu_graph *graph = c->w->graph;
    if (ipu_value_of(graph, value)->block.index != home.index ||
        counter_of(c, home, value) >= 0) {
        return true;
    }
    const ipu_node_data *node = producer(graph, value);
    bool can = node != NULL && depth > 0 && is_cheap(graph, node);
    for (uint32_t i = 0; can && i < node->input_count; i++) {
        can = can_make_anew(c, home, node->inputs[i], depth - 1);
    }
    return can;
}

enum { DEPTH = 8 };

/* What has to be kept for `value`: itself, or what it is a view of. */
static ipu_value
kept_for(const ipu__control *c, ipu_block home, ipu_value value)
{
    const ipu_graph *graph = c->w->graph;
    const ipu_node_data *node = producer(graph, value);
    while (node != NULL && node->op != IPU_OP_ID_CUSTOM_GRADIENT &&
           (node->op == IPU_OP_ID_BROADCAST ||
            (ipu_op_info_of(node->op)->flags & IPU_OP_VIEW) != 0)) {
        if (ipu_value_of(graph, node->inputs[0])->block.index != home.index) {
            break;
        }
        value = node->inputs[0];
        node = producer(graph, value);
    }
    return value;
}

static ipu_status
note_use(ipu__control *c, ipu_block home, ipu_value value, ipu__values *used,
         ipu__values *kept)
{
    ipu_ctx *ctx = c->w->ctx;
    if (ipu_value_of(c->w->graph, value)->block.index != home.index ||
        contains(used, value)) {
        return IPU_OK;
    }
    IPU_TRY(IPU_ARRAY_PUSH(ctx, used, value));
    if (can_make_anew(c, home, value, DEPTH)) {
        return IPU_OK;
    }
    ipu_value root = kept_for(c, home, value);
    return contains(kept, root) ? IPU_OK : IPU_ARRAY_PUSH(ctx, kept, root);
}

/* The values of block `home` that block `id` uses, and what must be kept for them.
 */
ipu_status
ipu__control_find_uses(ipu__control *c, ipu_block id, ipu_block home, ipu__values *used,
                       ipu__values *kept)
{
    const ipu_graph *graph = c->w->graph;
    const ipu_block_data *block = ipu_block_of(graph, id);
    for (size_t i = 0; i < block->nodes.count; i++) {
        const ipu_node_data *node = ipu_node_of(graph, block->nodes.items[i]);
        for (uint32_t k = 0; k < node->input_count; k++) {
            IPU_TRY(note_use(c, home, node->inputs[k], used, kept));
        }
        for (uint32_t k = 0; k < ipu_node_block_count(node); k++) {
            IPU_TRY(
                ipu__control_find_uses(c, ipu_node_block(node, k), home, used, kept));
        }
    }
    for (size_t i = 0; i < block->results.count; i++) {
        IPU_TRY(note_use(c, home, block->results.items[i], used, kept));
    }
    return IPU_OK;
}

static ipu_value
replaced(ipu_value value, const ipu__values *from, const ipu__values *to)
{
    for (size_t i = 0; i < from->count; i++) {
        if (from->items[i].index == value.index) {
            return to->items[i];
        }
    }
    return value;
}

static void
replace_uses(ipu_graph *graph, ipu_block id, const ipu__values *from,
             const ipu__values *to)
{
    ipu_block_data *block = ipu_block_of(graph, id);
    for (size_t i = 0; i < block->nodes.count; i++) {
        const ipu_node_data *node = ipu_node_of(graph, block->nodes.items[i]);
        for (uint32_t k = 0; k < node->input_count; k++) {
            node->inputs[k] = replaced(node->inputs[k], from, to);
        }
        for (uint32_t k = 0; k < ipu_node_block_count(node); k++) {
            replace_uses(graph, ipu_node_block(node, k), from, to);
        }
    }
    for (size_t i = 0; i < block->results.count; i++) {
        block->results.items[i] = replaced(block->results.items[i], from, to);
    }
}

/* In w->block: a counter of the forward loop at the turn that the gradient is at. */
static ipu_status
make_counter(ipu__control *c, ipu_block home, uint32_t i, ipu_value *out)
{
    ipu__walk *w = c->w;
    const ipu_node_data *loop = ipu_node_of(w->graph, c->node);
    uint32_t first =
        loop->input_count - (uint32_t)ipu_block_of(w->graph, home)->params.count;
    int64_t step = ipu__step_of(w->graph, home, i);
    ipu_value terms[2] = {loop->inputs[first + i], c->turn};
    if (step != 1) {
        ipu_type type = ipu_value_of(w->graph, c->turn)->type;
        ipu_value factors[2] = {c->turn, IPU_NO_VALUE};
        IPU_TRY(ipu_graph_emit_fill(w->ctx, w->graph, w->block, c->node, &type,
                                    (double)step, &factors[1]));
        IPU_TRY(ipu_graph_emit(w->ctx, w->graph, w->block, c->node, IPU_OP_ID_MUL,
                               factors, 2, NULL, 0, &terms[1]));
    }
    if (ipu__is_known_int(w->graph, terms[0], 0)) {
        *out = terms[1];
        return IPU_OK;
    }
    return ipu_graph_emit(w->ctx, w->graph, w->block, c->node, IPU_OP_ID_ADD, terms, 2,
                          NULL, 0, out);
}

/* In w->block: `value` of block `home`, made of the kept ones, which are at hand there
 * as `at_hand`. */
static ipu_status
make_anew(ipu__control *c, ipu_block home, ipu_value value, const ipu__values *kept,
          const ipu__values *at_hand, ipu_value *out)
{
    ipu__walk *w = c->w;
    int64_t counter = counter_of(c, home, value);
    *out = replaced(replaced(value, kept, at_hand), &c->sources, &c->anew);
    if (out->index != value.index ||
        ipu_value_of(w->graph, value)->block.index != home.index) {
        return IPU_OK;
    }
    if (counter >= 0) {
        IPU_TRY(make_counter(c, home, (uint32_t)counter, out));
    } else {
        ipu_node id = ipu_value_of(w->graph, value)->producer;
        const ipu_node_data node = *ipu_node_of(w->graph, id);
        ipu_value inputs[2 + IPU_MAX_RANK];
        for (uint32_t i = 0; i < node.input_count; i++) {
            IPU_TRY(make_anew(c, home, node.inputs[i], kept, at_hand, &inputs[i]));
        }
        IPU_TRY(ipu_graph_emit(w->ctx, w->graph, w->block, id, node.op, inputs,
                               node.input_count, node.attrs.items, node.attrs.count,
                               out));
    }
    IPU_TRY(IPU_ARRAY_PUSH(w->ctx, &c->sources, value));
    return IPU_ARRAY_PUSH(w->ctx, &c->anew, *out);
}

/* Gives w->block all that it uses of `home`, in front of its nodes. */
ipu_status
ipu__control_supply(ipu__control *c, ipu_block home, size_t first_new,
                    const ipu__values *used, const ipu__values *kept,
                    const ipu__values *at_hand)
{
    ipu__walk *w = c->w;
    ipu__values made = {0};
    ipu_status status = IPU_OK;
    c->sources.count = 0; /* of another branch */
    c->anew.count = 0;
    for (size_t i = 0; status == IPU_OK && i < used->count; i++) {
        ipu_value value = IPU_NO_VALUE;
        status = make_anew(c, home, used->items[i], kept, at_hand, &value);
        if (status == IPU_OK) {
            status = IPU_ARRAY_PUSH(w->ctx, &made, value);
        }
    }
    if (status == IPU_OK) {
        replace_uses(w->graph, w->block, used, &made);
        ipu_graph_move_tail(w->graph, w->block, first_new, 0);
    }
    IPU_ARRAY_FREE(w->ctx, &made);
    return status;
}

/* --- both ------------------------------------------------------------------------ */

void
ipu__control_free(ipu__control *c)
{
    IPU_ARRAY_FREE(c->w->ctx, &c->targets);
    IPU_ARRAY_FREE(c->w->ctx, &c->before);
    IPU_ARRAY_FREE(c->w->ctx, &c->anew);
    IPU_ARRAY_FREE(c->w->ctx, &c->sources);
}

ipu_status
ipu__control_prepare(ipu__control *c)
{
    for (uint32_t k = 0; k < ipu_node_block_count(ipu_node_of(c->w->graph, c->node));
         k++) {
        IPU_TRY(hoist_reads(c, ipu_node_block(ipu_node_of(c->w->graph, c->node), k)));
    }
    return find_targets(c);
}

ipu_status
ipu__walk_control(ipu__walk *w, ipu_node node)
{
    return ipu_node_of(w->graph, node)->op == IPU_OP_ID_SWITCH
               ? ipu__control_switch(w, node)
               : ipu__control_loop(w, node);
}
