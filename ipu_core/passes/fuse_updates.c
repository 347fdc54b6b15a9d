/* SPDX-License-Identifier: MIT
 *
 * Updates of variables in one pass. In: a graph whose products are fused, its
 * element-wise nodes not yet. Out: the same bits from `fused_update` nodes, each of
 * which computes and writes many variables.
 *
 * An update is an assignment, an addition, or a step of SGD or Adam. Updates of a block
 * that follow each other are a group, and become one node where the last of them stood.
 * So those before move past what stands in between. A group ends in front of a node
 * that can fail, that uses a variable which the group has written, that holds blocks, or
 * that does so much that it would keep the gradient of a large variable waiting.
 *
 * An element-wise node of a variable's shape becomes part of the update where nothing
 * but updates uses its result; updates that share such a node are one part of the
 * code, in which each value is computed once. A variable's value before the update is
 * read from it directly. Nodes join from the last to the first; code is made in program
 * order. Of the gradient of a gather the update reads indices and rows: the zeros between
 * them are made nowhere. One thread per graph. */
#include "graph/block_op.h"
#include "passes/fuse_impl.h"
#include "passes/updates_impl.h"

/* Variables of up to SMALL elements wait for others of their group wherever those are;
 * MOST of them at most. */
enum { SMALL = 4096, MOST = 256 };

/* --- groups ---------------------------------------------------------------------- */

static bool
is_update(const ipu_node_data *node)
{
    return (ipu_node_flags(node) & IPU_OP_UPDATE) != 0;
}

const ipu_type *
ipu__update_type(const planner *p, const ipu_node_data *node, uint32_t i)
{
    return &p->graph->resources.items[ipu_node_resource(node, i)].types[0];
}

static bool
is_remote(const planner *p, const ipu_node_data *node)
{
    bool remote = false;
    for (uint32_t i = 0; i < ipu_node_resource_count(node); i++) {
        remote |= p->graph->resources.items[ipu_node_resource(node, i)].is_remote;
    }
    return remote;
}

static bool
is_large(const planner *p, const ipu_node_data *node)
{
    return ipu_shape_elements(&ipu__update_type(p, node, 0)->shape) > SMALL;
}

/* Whether a node is cheap, or becomes part of the update itself. */
static bool
is_light(const ipu_node_data *node)
{
    uint32_t flags = ipu_node_flags(node);
    return (flags & IPU_OP_KERNEL) == 0 || (flags & IPU_OP_ELEMENTWISE) != 0 ||
           is_update(node);
}

static group *
open_group(planner *p)
{
    group *last = p->groups.count > 0 ? &p->groups.items[p->groups.count - 1] : NULL;
    return last != NULL && !last->is_closed ? last : NULL;
}

/* Whether the node uses a variable that the open group writes. */
static bool
meets_group(const planner *p, const ipu_node_data *node)
{
    for (uint32_t i = 0; i < ipu_node_resource_count(node); i++) {
        uint32_t resource = ipu_node_resource(node, i);
        if (p->variables.items[resource].group == p->groups.count) {
            return true;
        }
    }
    return false;
}

static bool
ends_group(const planner *p, const group *g, ipu_node id, const ipu_node_data *node)
{
    if (ipu_failures_of(&p->failures, id) == IPU_FAILS_FIRST ||
        ipu_node_holds_blocks(node) || meets_group(p, node)) {
        return true;
    }
    if (is_update(node)) {
        return g->count >= MOST || is_remote(p, node) ||
               !ipu_placement_equal(g->placement, node->placement);
    }
    return g->has_large && !is_light(node);
}

static void
close_group(planner *p)
{
    group *g = open_group(p);
    if (g != NULL) {
        g->is_closed = true;
        p->before = g->last;
    }
}

static ipu_status
add_update(planner *p, ipu_node id, const ipu_node_data *node)
{
    group *g = open_group(p);
    if (g == NULL) {
        group opened = {.first = (uint32_t)p->updates.count,
                        .before = p->before,
                        .placement = node->placement,
                        .first_piece = (uint32_t)p->groups.count,
                        .next_piece = IPU_NO_INDEX};
        IPU_TRY(IPU_ARRAY_PUSH(p->ctx, &p->groups, opened));
        g = open_group(p);
    }
    update added = {.node = id,
                    .group = (uint32_t)p->groups.count - 1,
                    .part = (uint32_t)p->updates.count,
                    .first_member = IPU_NO_NODE};
    g->count++;
    g->last = id;
    g->has_large |= is_large(p, node);
    p->nodes.items[id.index].update = added.part;
    for (uint32_t i = 0; i < ipu_node_resource_count(node); i++) {
        p->variables.items[ipu_node_resource(node, i)].group =
            (uint32_t)p->groups.count;
    }
    IPU_TRY(IPU_ARRAY_PUSH(p->ctx, &p->updates, added));
    if (is_remote(p, node)) {
        close_group(p);
    }
    return IPU_OK;
}

/* When a variable last changed, as far as is known. */
static uint32_t
version_of(const planner *p, uint32_t resource)
{
    uint32_t own = p->variables.items[resource].version;
    return own > p->blocks_version ? own : p->blocks_version;
}

static void
note_versions(planner *p, ipu_node id, const ipu_node_data *node)
{
    if (ipu_node_resource_count(node) > 0) {
        p->nodes.items[id.index].version = version_of(p, ipu_node_resource(node, 0));
    }
    for (uint32_t i = 0; ipu_node_writes(node) && i < ipu_node_resource_count(node);
         i++) {
        p->variables.items[ipu_node_resource(node, i)].version = ++p->version;
    }
}

/* Nodes of pipelines stay where their stages are cut. */
static bool
is_pipeline(const planner *p, ipu_block id)
{
    ipu_node owner = ipu_block_of(p->graph, id)->owner;
    return ipu_is_node(owner) && ipu_node_of(p->graph, owner)->op == IPU_OP_ID_PIPELINE;
}

static ipu_status
find_groups(planner *p, ipu_block id)
{
    bool is_cut = is_pipeline(p, id);
    ipu_node before = p->before; /* of the block around */
    p->before = IPU_NO_NODE;
    p->blocks_version = ++p->version;
    IPU_EACH_NODE(n, p->graph, id) {
        const ipu_node_data *node = ipu_node_of(p->graph, n);
        const group *g = open_group(p);
        p->nodes.items[n.index].position = p->position++;
        if (g != NULL && ends_group(p, g, n, node)) {
            close_group(p);
        }
        for (uint32_t k = 0; k < ipu_node_block_count(node); k++) {
            IPU_TRY(find_groups(p, ipu_node_block(node, k)));
        }
        note_versions(p, n, node);
        if (is_update(node) && !is_cut) {
            IPU_TRY(add_update(p, n, node));
        }
    }
    p->blocks_version = ++p->version;
    close_group(p);
    p->before = before;
    return IPU_OK;
}

/* --- members --------------------------------------------------------------------- */

uint32_t
ipu__update_part_of(planner *p, uint32_t number)
{
    while (p->updates.items[number].part != number) {
        uint32_t *part = &p->updates.items[number].part;
        *part = p->updates.items[*part].part; /* shorter for the next one */
        number = *part;
    }
    return number;
}

static void
join_parts(planner *p, uint32_t a, uint32_t b)
{
    uint32_t first = ipu__update_part_of(p, a);
    uint32_t other = ipu__update_part_of(p, b);
    if (first > other) {
        uint32_t swapped = first;
        first = other;
        other = swapped;
    }
    p->updates.items[other].part = first;
}

/* Update `number`, or a member of it, uses the value element by element. */
static void
note_use(planner *p, ipu_value value, uint32_t number)
{
    value_note *note = &p->values.items[value.index];
    const ipu_node_data *node = ipu_node_of(p->graph, p->updates.items[number].node);
    note->is_shared |= note->update_uses > 0 && p->updates.items[note->update].group !=
                                                    p->updates.items[number].group;
    note->update = number;
    note->update_uses++;
    note->is_broadcast |= !ipu_shape_equal(&ipu_value_of(p->graph, value)->type.shape,
                                           &ipu__update_type(p, node, 0)->shape);
}

/* Whether an operand is read element by element, or has one element alone. */
static bool
are_operands_plain(const planner *p, const ipu_node_data *node)
{
    const ipu_type *result = &ipu_value_of(p->graph, ipu_node_output(node, 0))->type;
    for (uint32_t k = 0; k < node->input_count; k++) {
        const ipu_type *type = &ipu_value_of(p->graph, node->inputs[k])->type;
        if (!ipu_shape_equal(&type->shape, &result->shape) &&
            ipu_shape_elements(&type->shape) != 1) {
            return false;
        }
    }
    return true;
}

static bool
can_join(const planner *p, const group *g, const ipu_node_data *node)
{
    if ((ipu_node_flags(node) & IPU_OP_ELEMENTWISE) == 0 ||
        node->op == IPU_OP_ID_FUSED_ELEMENTWISE) {
        return false;
    }
    ipu_value value = ipu_node_output(node, 0);
    const value_note *note = &p->values.items[value.index];
    return note->update_uses > 0 &&
           note->update_uses == ipu_uses_count(&p->uses, value) &&
           !note->is_broadcast && !note->is_shared &&
           &p->groups.items[p->updates.items[note->update].group] == g &&
           are_operands_plain(p, node) &&
           ipu_placement_equal(node->placement, g->placement) &&
           !ipu_op_divides_integers(node->op,
                                    ipu_value_of(p->graph, value)->type.dtype);
}

ipu_node
ipu__update_member(const planner *p, ipu_value value)
{
    ipu_node node = ipu_value_of(p->graph, value)->producer;
    return ipu_is_node(node) && p->nodes.items[node.index].is_member ? node
                                                                     : IPU_NO_NODE;
}

const ipu_node_data *
ipu__update_rows(const planner *p, const group *g, ipu_value value)
{
    const ipu_node_data *node = ipu_producer_of(p->graph, value);
    const value_note *note = &p->values.items[value.index];
    const ipu_node_data *last = ipu_node_of(p->graph, g->last);
    bool is_rows = node != NULL && node->op == IPU_OP_ID_GATHER_GRAD &&
                   ipu_value_of(p->graph, value)->type.dtype == IPU_DTYPE_FLOAT32 &&
                   ipu_attrs_int(node->attrs, IPU_ATTR_AXIS, 0) == 0 &&
                   ipu_attrs_int(node->attrs, IPU_ATTR_BATCH_DIMS, 0) == 0;
    return is_rows && note->update_uses == ipu_uses_count(&p->uses, value) &&
                   !note->is_shared && !note->is_broadcast &&
                   node->block.index == last->block.index &&
                   ipu_placement_equal(node->placement, g->placement)
               ? node
               : NULL;
}

static ipu_node
previous(const planner *p, ipu_node id)
{
    return ipu_node_of(p->graph, id)->previous;
}

/* From the last node to the first: all users of a value come before it. */
static void
find_members(planner *p, const group *g)
{
    for (ipu_node n = g->last; n.index != g->before.index;
         n = previous(p, n)) {
        const ipu_node_data *node = ipu_node_of(p->graph, n);
        node_note *note = &p->nodes.items[n.index];
        if (note->update != IPU_NO_INDEX) {
            note_use(p, node->inputs[0], note->update);
        } else if (can_join(p, g, node)) {
            note->update = p->values.items[ipu_node_output(node, 0).index].update;
            note->is_member = true;
            for (uint32_t k = 0; k < node->input_count; k++) {
                note_use(p, node->inputs[k], note->update);
            }
        }
    }
}

/* Now that all members are known: who uses one is of its part. */
static void
find_parts(planner *p, const group *g)
{
    for (ipu_node n = g->last; n.index != g->before.index;
         n = previous(p, n)) {
        const ipu_node_data *node = ipu_node_of(p->graph, n);
        uint32_t number = p->nodes.items[n.index].update;
        uint32_t count = number == IPU_NO_INDEX              ? 0
                         : p->nodes.items[n.index].is_member ? node->input_count
                                                             : 1;
        for (uint32_t k = 0; k < count; k++) {
            ipu_node member = ipu__update_member(p, node->inputs[k]);
            if (ipu_is_node(member)) {
                join_parts(p, number, p->nodes.items[member.index].update);
            }
        }
    }
    for (ipu_node n = g->last; n.index != g->before.index;
         n = previous(p, n)) {
        node_note *note = &p->nodes.items[n.index];
        if (note->is_member) {
            update *part = &p->updates.items[ipu__update_part_of(p, note->update)];
            note->next_member = part->first_member;
            part->first_member = n;
        }
    }
}

static ipu_status
plan_group(planner *p, uint32_t number)
{
    find_members(p, &p->groups.items[number]);
    find_parts(p, &p->groups.items[number]);
    IPU_TRY(ipu__update_cut(p, number));
    bool is_cut = p->groups.items[number].next_piece != IPU_NO_INDEX;
    for (uint32_t i = number; i != IPU_NO_INDEX; i = p->groups.items[i].next_piece) {
        group *g = &p->groups.items[i];
        ipu_node first = p->updates.items[g->first].node;
        g->is_fused = g->count > 1 || is_cut ||
                      ipu_node_of(p->graph, first)->op == IPU_OP_ID_ADAM_UPDATE;
        IPU_TRY(ipu__update_write_code(p, g));
    }
    return IPU_OK;
}

static ipu_status
visit(ipu__rewriter *r, ipu_node id, bool *keep)
{
    planner *p = r->state;
    uint32_t number =
        id.index < p->nodes.count ? p->nodes.items[id.index].update : IPU_NO_INDEX;
    if (number == IPU_NO_INDEX) {
        return IPU_OK;
    }
    const group *g = &p->groups.items[p->updates.items[number].group];
    *keep = !g->is_fused;
    uint32_t piece =
        g->is_fused && g->last.index == id.index ? g->first_piece : IPU_NO_INDEX;
    for (; piece != IPU_NO_INDEX; piece = p->groups.items[piece].next_piece) {
        IPU_TRY(ipu__update_make_node(p, &p->groups.items[piece]));
    }
    return IPU_OK;
}

/* --- the whole ------------------------------------------------------------------- */

static ipu_status
start(planner *p)
{
    const node_note nothing = {.update = IPU_NO_INDEX, .next_member = IPU_NO_NODE};
    const ipu_graph *graph = p->graph;
    IPU_TRY(IPU_ARRAY_EXTEND(p->ctx, &p->nodes, graph->nodes.count, &nothing));
    IPU_TRY(IPU_ARRAY_EXTEND(p->ctx, &p->values, graph->values.count, NULL));
    return IPU_ARRAY_EXTEND(p->ctx, &p->variables, graph->resources.count, NULL);
}

static ipu_status
fuse(planner *p)
{
    ipu__rewriter rewriter = {
        .ctx = p->ctx, .graph = p->graph, .visit = visit, .state = p};
    IPU_TRY(start(p));
    IPU_TRY(ipu_uses_find(p->ctx, p->graph, &p->uses));
    IPU_TRY(ipu_failures_find(p->ctx, p->graph, &p->failures));
    IPU_TRY(find_groups(p, (ipu_block){0}));
    uint32_t count = (uint32_t)p->groups.count; /* without their pieces */
    for (uint32_t i = 0; i < count; i++) {
        IPU_TRY(plan_group(p, i));
    }
    return ipu__rewrite(&rewriter);
}

ipu_status
ipu__fuse_updates(ipu_ctx *ctx, ipu_graph *graph)
{
    planner p = {.ctx = ctx, .graph = graph};
    ipu_status status = fuse(&p);
    ipu_uses_free(ctx, &p.uses);
    ipu_failures_free(ctx, &p.failures);
    IPU_ARRAY_FREE(ctx, &p.updates);
    IPU_ARRAY_FREE(ctx, &p.groups);
    IPU_ARRAY_FREE(ctx, &p.nodes);
    IPU_ARRAY_FREE(ctx, &p.values);
    IPU_ARRAY_FREE(ctx, &p.variables);
    IPU_ARRAY_FREE(ctx, &p.sources);
    IPU_ARRAY_FREE(ctx, &p.words);
    return status;
}
