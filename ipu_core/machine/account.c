/* SPDX-License-Identifier: MIT
 *
 * Nodes are numbered in program order; what a node holds comes after it. A value is
 * live from the number of its maker to that of its last user; where that lies in a
 * loop or a branch which the value comes from outside of, to the last number inside.
 * Views live in what they show. */
#include "machine/account.h"

#include <stdlib.h>

#include "graph/block_op.h"
#include "graph/effects.h"
#include "graph/trips.h"
#include "machine/node_steps.h"

enum { MOST_TENANTS = 10 };

/* `last` is 0 where nobody uses it. */
typedef struct lifetime {
    uint32_t first;
    uint32_t last;
} lifetime;

typedef struct accounting {
    ipu_ctx *ctx;
    const ipu_graph *graph;
    const ipu_chip *chip;
    const ipu_account_options *options;
    ipu_account *out;
    ipu_plans plans;
    uint32_t count;   /* numbers given */
    ipu_node *nodes;  /* by number */
    uint32_t *ends;   /* by node: the last number inside of it */
    lifetime *lives;  /* by value */
    bool *is_counted; /* by resource */
} accounting;

/* --- steps -------------------------------------------------------------------------- */

/* Room for the types of a node's operands, and of its results or variables. */
static ipu_status
steps_of_node(accounting *a, ipu_node id, double times)
{
    const ipu_graph *graph = a->graph;
    const ipu_node_data *node = ipu_node_of(graph, id);
    uint32_t resources = ipu_node_resource_count(node);
    size_t room = node->input_count + node->output_count + resources + 1;
    ipu_type *types;
    IPU_TRY(ipu_alloc(a->ctx, room * sizeof(*types), &types));
    for (uint32_t i = 0; i < node->input_count; i++) {
        types[i] = ipu_value_of(graph, node->inputs[i])->type;
    }
    ipu_cost_call call = {.attrs = node->attrs,
                          .inputs = types,
                          .input_count = node->input_count,
                          .outputs = types + node->input_count};
    for (uint32_t i = 0; i < node->output_count; i++) {
        types[node->input_count + call.output_count++] =
            ipu_value_of(graph, node->outputs[i])->type;
    }
    for (uint32_t i = 0; i < resources; i++) {
        uint32_t number = ipu_node_resource(node, i);
        const ipu_resource *resource = &graph->resources.items[number];
        if (resource->kind == IPU_RESOURCE_VARIABLE) {
            if (!a->is_counted[number]) {
                a->is_counted[number] = true;
                a->out->variable_bytes += (double)ipu_type_bytes(resource->types);
            }
            if (node->output_count == 0) {
                types[node->input_count + call.output_count++] = resource->types[0];
            }
        }
    }
    ipu_steps_call steps = {.ctx = a->ctx,
                            .chip = a->chip,
                            .options = a->options,
                            .plans = &a->plans,
                            .op = node->op,
                            .types = &call,
                            .node = id,
                            .times = times,
                            .account = a->out};
    ipu_status status = ipu_steps_add(&steps);
    ipu_free(a->ctx, types, room * sizeof(*types));
    if (steps.temporary_bytes > a->out->temporary_bytes) {
        a->out->temporary_bytes = steps.temporary_bytes;
        a->out->temporary_node = id;
    }
    return status;
}

static double
turns_of(accounting *a, ipu_node id)
{
    if (!ipu_node_is_loop(ipu_node_of(a->graph, id))) {
        return 1;
    }
    int64_t turns = ipu_loop_most_turns(a->graph, id);
    a->out->has_unknown_turns |= turns < 0;
    return turns < 0 ? 1 : (double)turns;
}

/* Nesting is as deep as the verifier of graphs allows. */
static ipu_status
steps_of_block(accounting *a, ipu_block block, double times)
{
    const ipu_graph *graph = a->graph;
    const ipu_block_data *data = ipu_block_of(graph, block);
    for (size_t i = 0; i < data->params.count; i++) {
        a->lives[data->params.items[i].index].first = a->count;
    }
    IPU_EACH_NODE(id, graph, block) {
        const ipu_node_data *node = ipu_node_of(graph, id);
        uint32_t number = ++a->count;
        a->nodes[number] = id;
        for (uint32_t i = 0; i < node->output_count; i++) {
            a->lives[node->outputs[i].index].first = number;
        }
        a->out->pipelines += node->op == IPU_OP_ID_PIPELINE;
        IPU_TRY(steps_of_node(a, id, times));
        double turns = turns_of(a, id);
        for (uint32_t i = 0; i < ipu_node_block_count(node); i++) {
            IPU_TRY(steps_of_block(a, ipu_node_block(node, i), times * turns));
        }
        a->ends[id.index] = a->count;
    }
    return IPU_OK;
}

/* --- memory ------------------------------------------------------------------------- */

/* What a view shows. */
static ipu_value
shown_by(const ipu_graph *graph, ipu_value value)
{
    const ipu_node_data *node = ipu_producer_of(graph, value);
    while (node != NULL && (ipu_node_flags(node) & IPU_OP_VIEW)) {
        value = node->inputs[0];
        node = ipu_producer_of(graph, value);
    }
    return value;
}

/* A use at `number`, in `block`. */
static void
use(accounting *a, ipu_value value, ipu_block block, uint32_t number)
{
    const ipu_graph *graph = a->graph;
    value = shown_by(graph, value);
    ipu_block home = ipu_value_of(graph, value)->block;
    while (block.index != home.index && block.index != IPU_NO_INDEX) {
        ipu_node owner = ipu_block_of(graph, block)->owner;
        if (!ipu_is_node(owner)) {
            break;
        }
        number = a->ends[owner.index];
        block = ipu_node_of(graph, owner)->block;
    }
    lifetime *life = &a->lives[value.index];
    life->last = number > life->last ? number : life->last;
}

static void
use_all(accounting *a, ipu_block block)
{
    const ipu_graph *graph = a->graph;
    uint32_t end = ipu_is_node(ipu_block_of(graph, block)->owner)
                       ? a->ends[ipu_block_of(graph, block)->owner.index]
                       : a->count;
    const ipu_block_data *data = ipu_block_of(graph, block);
    for (size_t i = 0; i < data->results.count; i++) {
        use(a, data->results.items[i], block, end);
    }
}

/* Variables, and constants that lie with the code, are there always. */
static double
bytes_of(const accounting *a, ipu_value value)
{
    const ipu_node_data *node = ipu_producer_of(a->graph, value);
    bool is_free = node != NULL && ((ipu_node_flags(node) & IPU_OP_VIEW) ||
                                    node->op == IPU_OP_ID_VARIABLE_READ ||
                                    node->op == IPU_OP_ID_CONSTANT);
    return is_free ? 0 : (double)ipu_type_bytes(&ipu_value_of(a->graph, value)->type);
}

static int
larger_first(const void *a, const void *b)
{
    const ipu_account_tenant *x = a;
    const ipu_account_tenant *y = b;
    if (x->bytes != y->bytes) {
        return x->bytes < y->bytes ? 1 : -1;
    }
    return x->value.index < y->value.index ? -1 : x->value.index > y->value.index;
}

static ipu_status
tenants_at(accounting *a, uint32_t peak)
{
    ipu_account *out = a->out;
    for (uint32_t i = 0; i < a->graph->values.count; i++) {
        ipu_account_tenant one = {.value = {i}, .bytes = bytes_of(a, (ipu_value){i})};
        const lifetime *life = &a->lives[i];
        if (one.bytes > 0 && life->last > 0 && life->first <= peak &&
            peak <= life->last) {
            IPU_TRY(IPU_ARRAY_PUSH(a->ctx, &out->tenants, one));
        }
    }
    if (out->tenants.count > 0) {
        qsort(out->tenants.items, out->tenants.count, sizeof(*out->tenants.items),
              larger_first);
    }
    if (out->tenants.count > MOST_TENANTS) {
        out->tenants.count = MOST_TENANTS;
    }
    return IPU_OK;
}

static ipu_status
peak_of(accounting *a, double *changes)
{
    for (uint32_t number = 1; number <= a->count; number++) {
        const ipu_node_data *node = ipu_node_of(a->graph, a->nodes[number]);
        for (uint32_t i = 0; i < node->input_count; i++) {
            use(a, node->inputs[i], node->block, number);
        }
        for (uint32_t i = 0; i < ipu_node_block_count(node); i++) {
            use_all(a, ipu_node_block(node, i));
        }
    }
    use_all(a, (ipu_block){0});
    for (uint32_t i = 0; i < a->graph->values.count; i++) {
        const lifetime *life = &a->lives[i];
        if (life->last > 0) {
            changes[life->first] += bytes_of(a, (ipu_value){i});
            changes[life->last + 1] -= bytes_of(a, (ipu_value){i});
        }
    }
    uint32_t peak = 0;
    double live = 0;
    for (uint32_t number = 0; number <= a->count; number++) {
        live += changes[number];
        if (live > a->out->peak_bytes) {
            a->out->peak_bytes = live;
            peak = number;
        }
    }
    a->out->peak_node = peak == 0 ? IPU_NO_NODE : a->nodes[peak];
    return tenants_at(a, peak);
}

/* --- all ---------------------------------------------------------------------------- */

static ipu_status
account(accounting *a)
{
    size_t numbers = a->graph->nodes.count + 2;
    double *changes;
    IPU_TRY(steps_of_block(a, (ipu_block){0}, 1));
    IPU_TRY(ipu_alloc(a->ctx, numbers * sizeof(*changes), &changes));
    ipu_status status = peak_of(a, changes);
    ipu_free(a->ctx, changes, numbers * sizeof(*changes));
    return status;
}

ipu_status
ipu_account_of(ipu_ctx *ctx, const ipu_graph *graph, const ipu_chip *chip,
               const ipu_account_options *options, ipu_account *out)
{
    *out = (ipu_account){.peak_node = IPU_NO_NODE, .temporary_node = IPU_NO_NODE};
    IPU_TRY(ipu_chip_check(ctx, chip));
    accounting a = {
        .ctx = ctx, .graph = graph, .chip = chip, .options = options, .out = out};
    ipu_arena arena = {0};
    ipu_status status = ipu_arena_array(ctx, &arena, graph->nodes.count + 1,
                                        sizeof(*a.nodes), &a.nodes);
    if (status == IPU_OK) {
        status = ipu_arena_array(ctx, &arena, graph->nodes.count + 1, sizeof(*a.ends),
                                 &a.ends);
    }
    if (status == IPU_OK) {
        status = ipu_arena_array(ctx, &arena, graph->values.count + 1, sizeof(*a.lives),
                                 &a.lives);
    }
    if (status == IPU_OK) {
        status = ipu_arena_array(ctx, &arena, graph->resources.count + 1,
                                 sizeof(*a.is_counted), &a.is_counted);
    }
    if (status == IPU_OK) {
        status = account(&a);
    }
    IPU_ARRAY_FREE(ctx, &a.plans);
    ipu_arena_free(ctx, &arena);
    return status;
}

void
ipu_account_free(ipu_ctx *ctx, ipu_account *account)
{
    IPU_ARRAY_FREE(ctx, &account->steps);
    IPU_ARRAY_FREE(ctx, &account->tenants);
}
