/* SPDX-License-Identifier: MIT
 *
 * Stochastic rounding. A node whose float16 results are to be rounded so is made in
 * float32, out of operands that are widened, and `round_stochastic` gives the float16
 * of each result:
 *
 *     %3 = add(%1, %2) : float16     ->  %4 = cast(%1) : float32
 *                                        %5 = cast(%2) : float32
 *                                        %6 = add(%4, %5) : float32
 *                                        %3 = round_stochastic(%6) : float16
 *
 * What only moves, compares or chooses numbers is left as it is, and so are random
 * numbers. Updates of float16 variables become reads, arithmetic and assignments.
 * Ordinals follow program order; what makes a value a second time has that of the first
 * time, so that what is recomputed has the bits of what is kept; collectives, which are
 * there for several IPUs alone, have their own, so that a model rounds on one IPU as in
 * a pipeline. A value that all replicas have alike is rounded alike on all of them, so
 * that it stays so. Runs before `merge`, which joins equal casts. One thread per
 * graph. */
#include "passes/passes.h"
#include "passes/update_nodes.h"

enum { MOST_OPERANDS = 4 + IPU_MAX_RANK };

/* A rounding by a node of some number. */
typedef struct rounding {
    int64_t ordinal;
    uint32_t next; /* of the same number, plus 1; 0: none */
} rounding;

typedef struct rounder {
    ipu__differences differences;
    int64_t next_ordinal;
    int64_t next_of_collectives;
    IPU_ARRAY(rounding) roundings;
    ipu_id_map first; /* by the number of a node: its first rounding, plus 1 */
    ipu_id_map last;
    ipu_id_map again; /* by number and recomputation: the one it has come to, plus 1 */
} rounder;

static bool
is_float16(const ipu_graph *graph, ipu_value value)
{
    return ipu_value_of(graph, value)->type.dtype == IPU_DTYPE_FLOAT16;
}

static bool
is_float16_update(const ipu_graph *graph, const ipu_node_data *node)
{
    return (ipu_node_flags(node) & IPU_OP_UPDATE) != 0 &&
           node->op != IPU_OP_ID_VARIABLE_ASSIGN &&
           graph->resources.items[ipu_node_resource(node, 0)].types[0].dtype ==
               IPU_DTYPE_FLOAT16;
}

static bool
makes_float16(const ipu_graph *graph, const ipu_node_data *node)
{
    bool found = false;
    for (uint32_t i = 0; i < node->output_count; i++) {
        found |= is_float16(graph, ipu_node_output(node, i));
    }
    return found && (ipu_node_flags(node) & IPU_OP_KERNEL) != 0 &&
           (ipu_node_flags(node) & IPU_OP_EXACT) == 0 &&
           node->op != IPU_OP_ID_ROUND_STOCHASTIC;
}

/* By its scope, or as the device is configured. */
static bool
is_stochastic(const ipu_graph *graph, const ipu__differences *differences,
              const ipu_node_data *node)
{
    switch ((ipu_rounding_scope)node->placement.rounding) {
    case IPU_ROUNDING_SCOPE_NEAREST:
        return false;
    case IPU_ROUNDING_SCOPE_STOCHASTIC:
        return true;
    case IPU_ROUNDING_AS_CONFIGURED:
        break;
    }
    return graph->rounding == IPU_ROUNDING_STOCHASTIC ||
           (graph->rounding == IPU_ROUNDING_REPLICA_IDENTICAL &&
            !ipu__node_differs(differences, node));
}

/* --- parts ------------------------------------------------------------------------ */

static ipu_value
emit_wide(ipu__rewriter *r, ipu_value value)
{
    return ipu__emit_as(r, value, IPU_DTYPE_FLOAT32);
}

static ipu_status
new_ordinal(ipu_ctx *ctx, rounder *state, const ipu_node_data *node, int64_t *out)
{
    bool is_collective = (ipu_node_flags(node) & IPU_OP_COLLECTIVE) != 0;
    *out = is_collective ? state->next_of_collectives++ : state->next_ordinal++;
    IPU_TRY(IPU_ARRAY_PUSH(ctx, &state->roundings, ((rounding){*out, 0})));
    uint32_t place = (uint32_t)state->roundings.count;
    uint32_t before = ipu_id_map_get(&state->last, node->number, 0);
    if (before > 0) {
        state->roundings.items[before - 1].next = place;
    } else {
        IPU_TRY(ipu_id_map_put(ctx, &state->first, node->number, place));
    }
    return ipu_id_map_put(ctx, &state->last, node->number, place);
}

/* Of what is recomputed: the ordinal that this rounding had the first time. Its
 * gradient has the same number, and comes after that. */
static ipu_status
ordinal_of(ipu_ctx *ctx, rounder *state, const ipu_node_data *node, int64_t *out)
{
    if (node->recomputation == 0) {
        return new_ordinal(ctx, state, node, out);
    }
    uint64_t key = (uint64_t)node->recomputation << 32 | node->number;
    uint32_t before = ipu_id_map_get(&state->again, key, 0);
    uint32_t place = before > 0 ? state->roundings.items[before - 1].next
                                : ipu_id_map_get(&state->first, node->number, 0);
    if (place == 0) {
        IPU_TRY(new_ordinal(ctx, state, node, out));
        place = (uint32_t)state->roundings.count;
    }
    *out = state->roundings.items[place - 1].ordinal;
    return ipu_id_map_put(ctx, &state->again, key, place);
}

static ipu_value
emit_rounded(ipu__rewriter *r, ipu_value value, bool same_on_replicas)
{
    int64_t ordinal = 0;
    if (r->status == IPU_OK) {
        r->status =
            ordinal_of(r->ctx, r->state, ipu_node_of(r->graph, r->at), &ordinal);
    }
    ipu_attr attrs[2] = {ipu_attr_int(IPU_ATTR_ORDINAL, ordinal),
                         ipu_attr_int(IPU_ATTR_SAME_ON_REPLICAS, same_on_replicas)};
    return ipu__emit(r, IPU_OP_ID_ROUND_STOCHASTIC, &value, 1, attrs, 2);
}

/* --- nodes with results ----------------------------------------------------------- */

static ipu_status
round_cast(ipu__rewriter *r, const ipu_node_data *node, bool same)
{
    ipu_value wide = emit_wide(r, node->inputs[0]);
    return ipu__replace(r, ipu_node_output(node, 0), emit_rounded(r, wide, same));
}

static ipu_status
round_results(ipu__rewriter *r, const ipu_node_data *node, bool same)
{
    ipu_value operands[MOST_OPERANDS];
    IPU_FAIL_IF(r->ctx, node->input_count > MOST_OPERANDS, INTERNAL,
                "%s has %u operands", ipu_op_info_of(node->op)->name,
                (unsigned)node->input_count);
    for (uint32_t i = 0; i < node->input_count; i++) {
        operands[i] = node->inputs[i];
        if (is_float16(r->graph, operands[i])) {
            operands[i] = emit_wide(r, operands[i]);
        }
    }
    IPU_TRY(r->status);
    ipu_node_request request = {.op = node->op,
                                .attrs = node->attrs.items,
                                .attr_count = node->attrs.count,
                                .placement = node->placement,
                                .recomputation = node->recomputation,
                                .source = node->source,
                                .name = node->name};
    ipu_node wide;
    IPU_TRY(ipu_graph_add_node(r->ctx, r->graph, node->block, &request, operands,
                               node->input_count, &wide));
    for (uint32_t i = 0; i < node->output_count; i++) {
        ipu_value result = ipu_node_output(ipu_node_of(r->graph, wide), i);
        if (is_float16(r->graph, ipu_node_output(node, i))) {
            result = emit_rounded(r, result, same);
        }
        IPU_TRY(ipu__replace(r, ipu_node_output(node, i), result));
    }
    return IPU_OK;
}

/* --- updates ---------------------------------------------------------------------- */

static ipu_value
read_wide(const ipu__update_nodes *u, uint32_t i)
{
    ipu_attr which = ipu__variable_attr(u->node, i);
    return emit_wide(u->rewriter, ipu__emit(u->rewriter, IPU_OP_ID_VARIABLE_READ, NULL,
                                            0, &which, 1));
}

static void
assign_rounded(const ipu__update_nodes *u, uint32_t i, ipu_value x)
{
    const bool *same = u->state;
    ipu_attr which = ipu__variable_attr(u->node, i);
    x = emit_rounded(u->rewriter, x, *same);
    (void)ipu__emit(u->rewriter, IPU_OP_ID_VARIABLE_ASSIGN, &x, 1, &which, 1);
}

static ipu_status
round_update(ipu__rewriter *r, const ipu_node_data *node, bool same)
{
    ipu__update_nodes u = {r,         node,           IPU_DTYPE_FLOAT32,
                           read_wide, assign_rounded, &same};
    return ipu__update_emit(&u, emit_wide(r, node->inputs[0]));
}

/* --- the pass --------------------------------------------------------------------- */

static ipu_status
visit(ipu__rewriter *r, ipu_node id, bool *keep)
{
    rounder *state = r->state;
    ipu_node_data node = *ipu_node_of(r->graph, id); /* what is emitted moves it */
    bool is_update = is_float16_update(r->graph, &node);
    if ((!is_update && !makes_float16(r->graph, &node)) ||
        !is_stochastic(r->graph, &state->differences, &node)) {
        return IPU_OK;
    }
    bool same = !ipu__node_differs(&state->differences, &node);
    *keep = false;
    return is_update                   ? round_update(r, &node, same)
           : node.op == IPU_OP_ID_CAST ? round_cast(r, &node, same)
                                       : round_results(r, &node, same);
}

ipu_status
ipu_pass_round(ipu_ctx *ctx, ipu_graph *graph)
{
    bool is_wanted = graph->rounding != IPU_ROUNDING_NEAREST;
    for (size_t i = 0; i < graph->nodes.count && !is_wanted; i++) {
        is_wanted =
            graph->nodes.items[i].placement.rounding == IPU_ROUNDING_SCOPE_STOCHASTIC;
    }
    if (!is_wanted || graph->host) {
        return IPU_OK;
    }
    rounder state = {.next_of_collectives = INT32_MAX};
    IPU_TRY(ipu__differences_find(ctx, graph, &state.differences));
    ipu__rewriter rewriter = {
        .ctx = ctx, .graph = graph, .visit = visit, .state = &state};
    ipu_status status = ipu__rewrite(&rewriter);
    ipu__differences_free(ctx, &state.differences);
    IPU_ARRAY_FREE(ctx, &state.roundings);
    ipu_id_map_free(ctx, &state.first);
    ipu_id_map_free(ctx, &state.last);
    ipu_id_map_free(ctx, &state.again);
    return status;
}
