/* SPDX-License-Identifier: MIT
 *
 * On which IPU nodes run and values lie. In a pipeline the stage says it; elsewhere the
 * shard; else a node is where its variable is, or its largest operand, or the node that
 * holds it. */
#include "graph/block_op.h"
#include "graph/effects.h"
#include "machine/account_impl.h"

ipu_value
ipu__machine_shown(const ipu_graph *graph, ipu_value value)
{
    const ipu_node_data *node = ipu_producer_of(graph, value);
    while (node != NULL && (ipu_node_flags(node) & IPU_OP_VIEW)) {
        value = node->inputs[0];
        node = ipu_producer_of(graph, value);
    }
    return value;
}

static void
own(ipu__accounting *a, const ipu_node_data *node, int32_t ipu)
{
    for (uint32_t i = 0; i < ipu_node_resource_count(node); i++) {
        int32_t *owner = &a->owner[ipu_node_resource(node, i)];
        *owner = *owner < 0 ? ipu : *owner;
    }
}

/* A node that a routine holds, and all in blocks inside. */
static void
place_inside(ipu__accounting *a, ipu_node id, int32_t routine, int32_t ipu)
{
    const ipu_node_data *node = ipu_node_of(a->graph, id);
    a->ipu_of[id.index] = ipu;
    a->routine_of[id.index] = routine;
    for (uint32_t i = 0; i < node->output_count; i++) {
        a->home[node->outputs[i].index] = ipu;
    }
    own(a, node, ipu);
    for (uint32_t i = 0; i < ipu_node_block_count(node); i++) {
        ipu_block block = ipu_node_block(node, i);
        const ipu_block_data *data = ipu_block_of(a->graph, block);
        for (size_t k = 0; k < data->params.count; k++) {
            a->home[data->params.items[k].index] = ipu;
        }
        IPU_EACH_NODE(n, a->graph, block) {
            place_inside(a, n, routine, ipu);
        }
    }
}

static ipu_status
place_pipeline(ipu__accounting *a, ipu_node id, const ipu_node_data *node)
{
    ipu__staged staged = {.node = id};
    staged.devices = ipu_attrs_ints(node->attrs, IPU_ATTR_DEVICES, &staged.stage_count);
    staged.offload = ipu_attrs_int(node->attrs, IPU_ATTR_OFFLOAD, 0);
    IPU_TRY(ipu_pipeline_schedule(a->ctx, a->graph, id, &staged.schedule));
    ipu_status status = IPU_ARRAY_PUSH(a->ctx, &a->staged, staged);
    if (status != IPU_OK) {
        ipu_schedule_free(a->ctx, staged.schedule);
        return status;
    }
    bool is_split = ipu_schedule_has(staged.schedule, IPU_ACTION_BACKWARD_WEIGHT);
    IPU_TRY(ipu_routines_find(a->ctx, a->graph, id, is_split, a->routine_of));
    IPU_EACH_NODE(n, a->graph, ipu_node_body(node)) {
        int32_t routine = a->routine_of[n.index];
        if (routine != IPU_NO_ROUTINE) {
            uint32_t stage = ipu__stage_of_routine(staged.stage_count, routine);
            place_inside(a, n, routine, (int32_t)staged.devices[stage]);
        }
    }
    return IPU_OK;
}

static bool
is_staged(const ipu_node_data *node)
{
    uint32_t stages = 0;
    return node->op == IPU_OP_ID_PIPELINE &&
           ipu_attrs_ints(node->attrs, IPU_ATTR_DEVICES, &stages) != NULL;
}

/* Variables of stages have owners before the rest is placed. */
static ipu_status
place_pipelines(ipu__accounting *a, ipu_block block)
{
    IPU_EACH_NODE(n, a->graph, block) {
        const ipu_node_data *node = ipu_node_of(a->graph, n);
        if (is_staged(node)) {
            IPU_TRY(place_pipeline(a, n, node));
            continue;
        }
        for (uint32_t i = 0; i < ipu_node_block_count(node); i++) {
            IPU_TRY(place_pipelines(a, ipu_node_block(node, i)));
        }
    }
    return IPU_OK;
}

static int32_t
ipu_of_unplaced(const ipu__accounting *a, const ipu_node_data *node, int32_t around)
{
    for (uint32_t i = 0; i < ipu_node_resource_count(node); i++) {
        int32_t owner = a->owner[ipu_node_resource(node, i)];
        if (owner >= 0) {
            return owner;
        }
    }
    int32_t found = around;
    size_t most = 0;
    for (uint32_t i = 0; i < node->input_count; i++) {
        const ipu_node_data *maker = ipu_producer_of(a->graph, node->inputs[i]);
        size_t bytes = ipu_type_bytes(&ipu_value_of(a->graph, node->inputs[i])->type);
        if (bytes > most && (maker == NULL || maker->op != IPU_OP_ID_CONSTANT)) {
            most = bytes;
            found = a->home[node->inputs[i].index];
        }
    }
    return found;
}

static void
place_block(ipu__accounting *a, ipu_block block, int32_t around)
{
    const ipu_graph *graph = a->graph;
    IPU_EACH_NODE(n, graph, block) {
        const ipu_node_data *node = ipu_node_of(graph, n);
        int32_t ipu = node->placement.shard >= 0 ? node->placement.shard
                                                 : ipu_of_unplaced(a, node, around);
        a->ipu_of[n.index] = ipu;
        own(a, node, ipu);
        for (uint32_t i = 0; i < node->output_count; i++) {
            a->home[node->outputs[i].index] = ipu;
        }
        for (uint32_t i = 0; i < ipu_node_block_count(node); i++) {
            ipu_block inner = ipu_node_block(node, i);
            const ipu_block_data *data = ipu_block_of(graph, inner);
            for (size_t k = 0; k < data->params.count; k++) {
                ipu_value from =
                    is_staged(node)
                        ? data->results.items[k]
                        : node->inputs[ipu_node_entering(node, (uint32_t)k)];
                a->home[data->params.items[k].index] = a->home[from.index];
            }
            if (!is_staged(node)) {
                place_block(a, inner, ipu);
            }
            for (size_t k = 0; ipu_node_block_gives_outputs(node, i) &&
                               k < data->results.count && k < node->output_count;
                 k++) {
                a->home[node->outputs[k].index] = a->home[data->results.items[k].index];
            }
        }
    }
}

ipu_status
ipu__machine_place(ipu__accounting *a)
{
    const ipu_graph *graph = a->graph;
    for (size_t i = 0; i < graph->nodes.count; i++) {
        a->routine_of[i] = IPU_NO_ROUTINE;
    }
    for (size_t i = 0; i < graph->resources.count; i++) {
        a->owner[i] = -1;
    }
    IPU_TRY(place_pipelines(a, (ipu_block){0}));
    place_block(a, (ipu_block){0}, 0);
    int32_t highest = 0;
    for (size_t i = 0; i < graph->nodes.count; i++) {
        highest = a->ipu_of[i] > highest ? a->ipu_of[i] : highest;
    }
    a->ipu_count = (uint32_t)highest + 1;
    a->routine_room = 1;
    for (size_t i = 0; i < a->staged.count; i++) {
        uint32_t room = ipu_routine_count(a->staged.items[i].stage_count) + 1;
        a->routine_room = room > a->routine_room ? room : a->routine_room;
    }
    return IPU_OK;
}
