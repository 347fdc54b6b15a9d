/* SPDX-License-Identifier: MIT
 *
 * Variables that replicas share out: each keeps a part, an equal share of the elements in
 * their order, and computes what becomes of it.
 *
 *     %1 = all_reduce(%g)                  ->  %1 = reduce_scatter(rows of %g)
 *     sgd_update(%1, %rate)                    %2 = variable_read() {v's part}
 *       {resource=w, slots=[v]}                %3 = ... {the steps of the update}
 *                                              variable_assign(%3) {v's part}
 *                                              %4 = all_gather(w's part - ...)
 *                                              variable_assign(%4) {w}
 *
 * Reading such a variable gathers its parts, and assigning to it takes a part. In
 * between, an element-wise op of which an operand is known in parts is computed in parts,
 * too; prune takes out what then nobody needs whole. A result that no rule knows in
 * parts, as the norm of a variable, is computed of whole values, so every program has
 * the bits that it has with whole variables. A last part that would be shorter repeats
 * the last element, so that nothing is computed of numbers which are not there.
 *
 * A variable to which replicas may write different values is refused. Runs after
 * `prune`, so that the shards that are left say how many replicas there will be. One
 * thread per graph. */
#include <inttypes.h>

#include "graph/users.h"
#include "passes/passes.h"
#include "passes/update_nodes.h"

typedef struct sharer {
    uint32_t replicas;
    ipu__differences differences;
    ipu_id_map parts; /* by value: its part, */
    ipu_id_map stems; /* and whether a variable that is shared out is in it */
    ipu_id_map cuts;  /* by the row that a replica takes: of which value, */
    ipu_id_map sums;  /* and that row of the sum, where the value is one */
    ipu_uses uses;
} sharer;

static ipu_type
type_of(const ipu__rewriter *r, ipu_value value)
{
    return ipu_value_of(r->graph, value)->type;
}

static int64_t
elements_of(const ipu__rewriter *r, ipu_value value)
{
    return ipu_shape_elements(&ipu_value_of(r->graph, value)->type.shape);
}

static int64_t
part_of(int64_t elements, uint32_t replicas)
{
    return (elements + replicas - 1) / replicas;
}

/* --- values and their parts ------------------------------------------------------- */

static ipu_value
emit_shaped(ipu__rewriter *r, ipu_op op, ipu_value x, const ipu_shape *shape)
{
    ipu_attr attr = ipu_attr_shape(shape);
    bool is_there = r->status == IPU_OK &&
                    ipu_shape_equal(&ipu_value_of(r->graph, x)->type.shape, shape);
    return is_there ? x : ipu__emit(r, op, &x, 1, &attr, 1);
}

static ipu_value
emit_flat(ipu__rewriter *r, ipu_value x, int64_t elements)
{
    const ipu_shape flat = ipu_shape_make(1, &elements);
    return emit_shaped(r, IPU_OP_ID_RESHAPE, x, &flat);
}

static ipu_value
emit_slice(ipu__rewriter *r, ipu_value x, int64_t begin, int64_t size)
{
    const int64_t stride = 1;
    const ipu_attr attrs[3] = {ipu_attr_ints(IPU_ATTR_BEGIN, &begin, 1),
                               ipu_attr_ints(IPU_ATTR_SIZE, &size, 1),
                               ipu_attr_ints(IPU_ATTR_STRIDES, &stride, 1)};
    return ipu__emit(r, IPU_OP_ID_SLICE, &x, 1, attrs, 3);
}

/* Of all replicas' parts. */
static ipu_value
emit_whole(ipu__rewriter *r, ipu_value part, const ipu_shape *shape)
{
    const sharer *s = r->state;
    int64_t elements = ipu_shape_elements(shape);
    int64_t rows = part_of(elements, s->replicas) * s->replicas;
    const ipu_attr group = ipu_attr_int(IPU_ATTR_GROUP_SIZE, s->replicas);
    ipu_value x = ipu__emit(r, IPU_OP_ID_ALL_GATHER, &part, 1, &group, 1);
    if (rows > elements) {
        x = emit_slice(r, emit_flat(r, x, rows), 0, elements);
    }
    return emit_shaped(r, IPU_OP_ID_RESHAPE, x, shape);
}

/* All parts of a value that is there whole, a row for each replica. */
static ipu_value
emit_rows(ipu__rewriter *r, ipu_value x)
{
    const sharer *s = r->state;
    int64_t elements = elements_of(r, x);
    const int64_t rows[2] = {s->replicas, part_of(elements, s->replicas)};
    const ipu_shape shape = ipu_shape_make(2, rows);
    int64_t rest = rows[0] * rows[1] - elements;
    if (rest > 0) {
        const ipu_shape tail = ipu_shape_make(1, &rest);
        const ipu_attr axis = ipu_attr_int(IPU_ATTR_AXIS, 0);
        ipu_value flat = emit_flat(r, x, elements);
        ipu_value last = emit_slice(r, flat, elements - 1, 1);
        const ipu_value both[2] = {flat,
                                   emit_shaped(r, IPU_OP_ID_BROADCAST, last, &tail)};
        x = ipu__emit(r, IPU_OP_ID_CONCAT, both, 2, &axis, 1);
    }
    return emit_shaped(r, IPU_OP_ID_RESHAPE, x, &shape);
}

/* The part of this replica. */
static ipu_value
emit_cut(ipu__rewriter *r, ipu_value x)
{
    sharer *s = r->state;
    const int64_t row[2] = {1, part_of(elements_of(r, x), s->replicas)};
    const ipu_attr size = ipu_attr_ints(IPU_ATTR_SIZE, row, 2);
    const ipu_value operands[2] = {
        emit_rows(r, x), ipu__emit(r, IPU_OP_ID_REPLICA_INDEX, NULL, 0, NULL, 0)};
    ipu_value cut = ipu__emit(r, IPU_OP_ID_DYNAMIC_SLICE, operands, 2, &size, 1);
    if (r->status == IPU_OK) {
        r->status = ipu_id_map_put(r->ctx, &s->cuts, cut.index, x.index);
    }
    return emit_flat(r, cut, row[1]);
}

/* The part of a value that is known in parts where the walk is; else IPU_NO_VALUE. */
static ipu_value
known_part(const ipu__rewriter *r, ipu_value x)
{
    const sharer *s = r->state;
    ipu_value part = {ipu_id_map_get(&s->parts, x.index, IPU_NO_INDEX)};
    bool is_seen = part.index != IPU_NO_INDEX &&
                   ipu_graph_is_around(r->graph, ipu_value_of(r->graph, part)->block,
                                       ipu_node_of(r->graph, r->at)->block);
    return is_seen ? part : IPU_NO_VALUE;
}

static void
note_part(ipu__rewriter *r, ipu_value x, ipu_value part)
{
    sharer *s = r->state;
    if (r->status == IPU_OK) {
        r->status = ipu_id_map_put(r->ctx, &s->parts, x.index, part.index);
    }
}

static void
note_stem(ipu__rewriter *r, ipu_value x)
{
    sharer *s = r->state;
    if (r->status == IPU_OK) {
        r->status = ipu_id_map_put(r->ctx, &s->stems, x.index, 1);
    }
}

static bool
is_stem(const ipu__rewriter *r, ipu_value x)
{
    const sharer *s = r->state;
    return ipu_id_map_has(&s->stems, x.index);
}

/* Two elements or more. */
static ipu_value
emit_part(ipu__rewriter *r, ipu_value x)
{
    if (r->status != IPU_OK) {
        return IPU_NO_VALUE;
    }
    ipu_value part = known_part(r, x);
    if (part.index == IPU_NO_INDEX) {
        part = emit_cut(r, x);
        note_part(r, x, part);
    }
    return part;
}

/* --- element-wise ops ------------------------------------------------------------- */

/* An operand of an op that gives so many elements, as the op in parts needs it. */
static ipu_value
emit_operand(ipu__rewriter *r, ipu_value x, const ipu_shape *shape)
{
    static const ipu_shape scalar = {0};
    if (r->status != IPU_OK) {
        return IPU_NO_VALUE;
    }
    const ipu_type type = type_of(r, x);
    if (ipu_shape_elements(&type.shape) == 1) {
        return type.shape.rank == 0 ? x : emit_shaped(r, IPU_OP_ID_RESHAPE, x, &scalar);
    }
    if (!ipu_shape_equal(&type.shape, shape)) {
        x = emit_shaped(r, IPU_OP_ID_BROADCAST, x, shape);
    }
    return emit_part(r, x);
}

/* Whether an operand is summed over the replicas, or known in parts. */
static bool
is_worth(const ipu__rewriter *r, ipu_value x, const ipu_shape *shape)
{
    const ipu_node_data *made = ipu_producer_of(r->graph, x);
    const ipu_shape *own = &ipu_value_of(r->graph, x)->type.shape;
    return ipu_shape_equal(own, shape) &&
           (known_part(r, x).index != IPU_NO_INDEX ||
            (made != NULL && made->op == IPU_OP_ID_ALL_REDUCE));
}

/* Has the part of an op's result at hand, where that is worth while. */
static ipu_status
share_result(ipu__rewriter *r, const ipu_node_data *node)
{
    ipu_value operands[3];
    ipu_value result = ipu_node_output(node, 0);
    const ipu_shape shape = type_of(r, result).shape;
    bool is_wanted = false;
    for (uint32_t i = 0; i < node->input_count; i++) {
        is_wanted |= is_worth(r, node->inputs[i], &shape);
    }
    if (!is_wanted || ipu_shape_elements(&shape) < 2) {
        return IPU_OK;
    }
    for (uint32_t i = 0; i < node->input_count; i++) {
        operands[i] = emit_operand(r, node->inputs[i], &shape);
        if (is_stem(r, node->inputs[i])) {
            note_stem(r, result);
        }
    }
    note_part(r, result,
              ipu__emit(r, node->op, operands, node->input_count, node->attrs.items,
                        node->attrs.count));
    return r->status;
}

/* The elements of a view are those of its operand, in their order. */
static ipu_status
share_view(ipu__rewriter *r, const ipu_node_data *node)
{
    ipu_value x = node->inputs[0];
    const ipu_shape shape = type_of(r, x).shape;
    if (ipu_shape_elements(&shape) > 1 && is_worth(r, x, &shape)) {
        note_part(r, ipu_node_output(node, 0), emit_part(r, x));
        if (is_stem(r, x)) {
            note_stem(r, ipu_node_output(node, 0));
        }
    }
    return r->status;
}

/* --- variables -------------------------------------------------------------------- */

static const ipu_resource *
variable_of(const ipu__rewriter *r, const ipu_node_data *node, uint32_t i)
{
    return &r->graph->resources.items[ipu_node_resource(node, i)];
}

static bool
is_shared(const ipu__rewriter *r, const ipu_node_data *node)
{
    bool found = false;
    for (uint32_t i = 0; i < ipu_node_resource_count(node); i++) {
        found |= variable_of(r, node, i)->parts > 0;
    }
    return found;
}

static ipu_status
refuse(ipu__rewriter *r, const ipu_node_data *node, uint32_t i)
{
    const sharer *s = r->state;
    const char *name = variable_of(r, node, i)->name;
    r->ctx->source = node->source;
    IPU_FAIL(
        r->ctx, FAILED_PRECONDITION,
        "%" PRIu32 " replicas are to share out the state of an optimizer "
        "(replicated_optimizer_state_sharding), but may give '%s' different "
        "values, or go different ways where it is used. Sum or average gradients "
        "over the replicas: by a CrossReplicaOptimizer, or an optimizer of Keras's "
        "under the strategy; or leave the option out",
        s->replicas, name == NULL ? "" : name);
}

/* What a replica computes for all has to be what they all would compute. */
static ipu_status
check_alike(ipu__rewriter *r, const ipu_node_data *node)
{
    const sharer *s = r->state;
    for (uint32_t i = 0; i < ipu_node_resource_count(node); i++) {
        if (s->differences.resources[ipu_node_resource(node, i)]) {
            return refuse(r, node, i);
        }
    }
    return ipu__node_differs(&s->differences, node) ? refuse(r, node, 0) : IPU_OK;
}

static ipu_value
emit_read(ipu__rewriter *r, const ipu_node_data *node, uint32_t i)
{
    ipu_attr which = ipu__variable_attr(node, i);
    return ipu__emit(r, IPU_OP_ID_VARIABLE_READ, NULL, 0, &which, 1);
}

static ipu_value
read_part(const ipu__update_nodes *u, uint32_t i)
{
    ipu__rewriter *r = u->rewriter;
    ipu_value x = emit_read(r, u->node, i);
    return variable_of(r, u->node, i)->parts > 0 ? x : emit_part(r, x);
}

static void
assign_part(const ipu__update_nodes *u, uint32_t i, ipu_value x)
{
    ipu__rewriter *r = u->rewriter;
    const ipu_resource *variable = variable_of(r, u->node, i);
    ipu_attr which = ipu__variable_attr(u->node, i);
    if (variable->parts == 0) {
        const ipu_shape shape = variable->types[0].shape;
        x = emit_whole(r, x, &shape);
    }
    (void)ipu__emit(r, IPU_OP_ID_VARIABLE_ASSIGN, &x, 1, &which, 1);
}

static ipu_status
share_update(ipu__rewriter *r, const ipu_node_data *node, bool *keep)
{
    ipu_dtype dtype = variable_of(r, node, 0)->types[0].dtype;
    ipu__update_nodes u = {r, node, dtype, read_part, assign_part, NULL};
    *keep = false;
    IPU_TRY(check_alike(r, node));
    return ipu__update_emit(&u, emit_part(r, node->inputs[0]));
}

/* A whole variable's new value, or what is added to it. */
static ipu_status
share_value(ipu__rewriter *r, const ipu_node_data *node)
{
    ipu_value x = node->inputs[0];
    ipu_value part = known_part(r, x);
    if (part.index == IPU_NO_INDEX || !is_stem(r, x)) {
        return IPU_OK;
    }
    const ipu_shape shape = type_of(r, x).shape;
    IPU_TRY(check_alike(r, node));
    node->inputs[0] = emit_whole(r, part, &shape);
    return r->status;
}

static ipu_status
share_read(ipu__rewriter *r, const ipu_node_data *node, bool *keep)
{
    const ipu_shape shape = variable_of(r, node, 0)->whole->shape;
    *keep = false;
    IPU_TRY(check_alike(r, node));
    ipu_value part = emit_read(r, node, 0);
    ipu_value whole = emit_whole(r, part, &shape);
    note_part(r, whole, part);
    note_stem(r, whole);
    return ipu__replace(r, ipu_node_output(node, 0), whole);
}

static ipu_status
visit(ipu__rewriter *r, ipu_node id, bool *keep)
{
    ipu_node_data node = *ipu_node_of(r->graph, id); /* what is emitted moves it */
    uint32_t flags = ipu_node_flags(&node);
    if ((flags & IPU_OP_UPDATE) != 0) {
        bool is_value = node.op == IPU_OP_ID_VARIABLE_ASSIGN;
        if (!is_shared(r, &node)) {
            return is_value || node.op == IPU_OP_ID_VARIABLE_ADD ? share_value(r, &node)
                                                                 : IPU_OK;
        }
        if (!is_value) {
            return share_update(r, &node, keep);
        }
        IPU_TRY(check_alike(r, &node));
        node.inputs[0] = emit_part(r, node.inputs[0]);
        return r->status;
    }
    if (node.op == IPU_OP_ID_VARIABLE_READ && is_shared(r, &node)) {
        return share_read(r, &node, keep);
    }
    if ((flags & IPU_OP_ELEMENTWISE) != 0 && node.input_count <= 3) {
        return share_result(r, &node);
    }
    return node.op == IPU_OP_ID_RESHAPE ? share_view(r, &node) : IPU_OK;
}

/* --- sums ------------------------------------------------------------------------- */

enum { MOST_MOVES = 16 };

/* Where the elements of a sum go: through nodes that only move them. */
typedef struct path {
    const ipu_graph *graph;
    const sharer *s;
    ipu_value sum;
    uint32_t count;
    ipu_node moves[MOST_MOVES];
    ipu_value cut; /* where a replica takes its part */
} path;

static bool
is_on(const path *p, ipu_node node)
{
    uint32_t i = 0;
    while (i < p->count && p->moves[i].index != node.index) {
        i++;
    }
    return i < p->count;
}

/* Whether all users of the value are on the path, come onto it, or are its one end. */
static bool
follow_users(path *p, ipu_value value)
{
    for (uint32_t i = 0; i < ipu_uses_count(&p->s->uses, value); i++) {
        ipu_node id = ipu_uses_of(&p->s->uses, value)[i];
        const ipu_node_data *node = ipu_is_node(id) ? ipu_node_of(p->graph, id) : NULL;
        if (node == NULL || node->output_count != 1) {
            return false;
        }
        ipu_value result = ipu_node_output(node, 0);
        bool is_new = p->cut.index == IPU_NO_INDEX || p->cut.index == result.index;
        if (is_new &&
            ipu_id_map_get(&p->s->cuts, result.index, IPU_NO_INDEX) == p->sum.index) {
            p->cut = result;
        } else if (node->op != IPU_OP_ID_RESHAPE && node->op != IPU_OP_ID_SLICE &&
                   node->op != IPU_OP_ID_BROADCAST && node->op != IPU_OP_ID_CONCAT) {
            return false;
        } else if (!is_on(p, id)) {
            if (p->count == MOST_MOVES) {
                return false;
            }
            p->moves[p->count++] = id;
        }
    }
    return true;
}

/* The row that a replica takes of a sum, if nobody needs anything else of it. */
static ipu_value
only_cut(const ipu__rewriter *r, ipu_value sum)
{
    path p = {.graph = r->graph, .s = r->state, .sum = sum, .cut = IPU_NO_VALUE};
    bool is_only = follow_users(&p, sum);
    for (uint32_t i = 0; i < p.count && is_only; i++) {
        is_only =
            follow_users(&p, ipu_node_output(ipu_node_of(p.graph, p.moves[i]), 0));
    }
    return is_only ? p.cut : IPU_NO_VALUE;
}

/* Sums of which each replica uses its part alone are made in parts, where they stand: so
 * they are under way together. */
static ipu_status
scatter_sum(ipu__rewriter *r, ipu_node id, bool *keep)
{
    sharer *s = r->state;
    ipu_node_data node = *ipu_node_of(r->graph, id); /* what is emitted moves it */
    ipu_value made = node.output_count == 1 ? ipu_node_output(&node, 0) : IPU_NO_VALUE;
    ipu_value row = {ipu_id_map_get(&s->sums, made.index, IPU_NO_INDEX)};
    if (row.index != IPU_NO_INDEX) {
        *keep = false;
        return ipu__replace(r, made, row);
    }
    if (node.op != IPU_OP_ID_ALL_REDUCE ||
        ipu_attrs_int(node.attrs, IPU_ATTR_GROUP_SIZE, 0) != 0) {
        return IPU_OK;
    }
    ipu_value cut = only_cut(r, made);
    if (cut.index == IPU_NO_INDEX ||
        ipu_value_of(r->graph, cut)->block.index != node.block.index) {
        return IPU_OK;
    }
    const ipu_shape shape = type_of(r, cut).shape;
    const ipu_attr attrs[2] = {
        ipu_attr_int(IPU_ATTR_GROUP_SIZE, s->replicas),
        ipu_attr_int(IPU_ATTR_REDUCTION, ipu_attrs_int(node.attrs, IPU_ATTR_REDUCTION,
                                                       IPU_ALL_REDUCE_SUM))};
    row = emit_rows(r, node.inputs[0]);
    row = ipu__emit(r, IPU_OP_ID_REDUCE_SCATTER, &row, 1, attrs, 2);
    row = emit_shaped(r, IPU_OP_ID_RESHAPE, row, &shape);
    IPU_TRY(r->status);
    return ipu_id_map_put(r->ctx, &s->sums, cut.index, row.index);
}

static ipu_status
scatter_sums(ipu_ctx *ctx, ipu_graph *graph, sharer *state)
{
    IPU_TRY(ipu_pass_prune(ctx, graph)); /* who is left that needs whole sums? */
    IPU_TRY(ipu_uses_find(ctx, graph, &state->uses));
    ipu__rewriter rewriter = {
        .ctx = ctx, .graph = graph, .visit = scatter_sum, .state = state};
    IPU_TRY(ipu__rewrite(&rewriter));
    return ipu_pass_prune(ctx, graph);
}

/* --- the pass --------------------------------------------------------------------- */

static uint32_t
shards_of_block(const ipu_graph *graph, ipu_block block)
{
    int64_t shards = 1;
    IPU_EACH_NODE(n, graph, block) {
        const ipu_node_data *node = ipu_node_of(graph, n);
        uint32_t count;
        const int64_t *ipus = ipu_attrs_ints(node->attrs, IPU_ATTR_DEVICES, &count);
        shards = node->placement.shard >= shards ? node->placement.shard + 1 : shards;
        for (uint32_t i = 0; i < count; i++) {
            shards = ipus[i] >= shards ? ipus[i] + 1 : shards;
        }
        for (uint32_t k = 0; k < ipu_node_block_count(node); k++) {
            uint32_t inside = shards_of_block(graph, ipu_node_block(node, k));
            shards = inside > shards ? inside : shards;
        }
    }
    return (uint32_t)shards;
}

/* Variables of one element are as small as their parts. */
static ipu_status
cut_variables(ipu_ctx *ctx, ipu_graph *graph, uint32_t replicas, bool *found)
{
    for (size_t i = 0; i < graph->resources.count; i++) {
        ipu_resource *one = &graph->resources.items[i];
        int64_t elements =
            one->is_shared ? ipu_shape_elements(&one->types[0].shape) : 0;
        int64_t part = part_of(elements, replicas);
        if (elements > 1) {
            const ipu_type type = {.dtype = one->types[0].dtype,
                                   .shape = ipu_shape_make(1, &part)};
            one->whole = one->types;
            one->parts = replicas;
            *found = true;
            IPU_TRY(
                ipu_arena_copy(ctx, &graph->arena, &type, sizeof(type), &one->types));
        }
    }
    return IPU_OK;
}

ipu_status
ipu_pass_parts(ipu_ctx *ctx, ipu_graph *graph)
{
    sharer state = {.replicas = graph->replicas};
    bool is_wanted = false;
    if (graph->replicas == 0 && graph->ipus > 1) {
        uint32_t shards = shards_of_block(graph, (ipu_block){0});
        state.replicas = graph->ipus / ipu_whole_ipus(shards);
    }
    if (state.replicas < 2) {
        return IPU_OK;
    }
    IPU_TRY(cut_variables(ctx, graph, state.replicas, &is_wanted));
    if (!is_wanted) {
        return IPU_OK;
    }
    IPU_TRY(ipu__differences_find(ctx, graph, &state.differences));
    ipu__rewriter rewriter = {
        .ctx = ctx, .graph = graph, .visit = visit, .state = &state};
    ipu_status status = ipu__rewrite(&rewriter);
    if (status == IPU_OK) {
        status = scatter_sums(ctx, graph, &state);
    }
    ipu__differences_free(ctx, &state.differences);
    ipu_id_map_free(ctx, &state.parts);
    ipu_id_map_free(ctx, &state.stems);
    ipu_id_map_free(ctx, &state.cuts);
    ipu_id_map_free(ctx, &state.sums);
    ipu_uses_free(ctx, &state.uses);
    return status;
}
