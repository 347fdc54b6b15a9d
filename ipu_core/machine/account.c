/* SPDX-License-Identifier: MIT
 *
 * The steps, in program order, and when they run. Each IPU has a clock; those that
 * exchange, and all at the beginning and the end of a loop, meet. Of branches the longest
 * counts. */
#include "machine/account_impl.h"

#include <math.h>

#include "graph/block_op.h"
#include "graph/effects.h"
#include "graph/trips.h"
#include "graph/users.h"
#include "machine/links.h"

static double
latest(const ipu__accounting *a)
{
    double found = 0;
    for (uint32_t i = 0; i < a->ipu_count; i++) {
        found = fmax(found, a->clocks[i]);
    }
    return found;
}

/* The clock of a routine; outside of pipelines the latest of all IPUs. */
static double
now(const ipu__accounting *a, int32_t routine)
{
    return routine == IPU_NO_ROUTINE ? latest(a) : a->timed->routines.items[routine];
}

static void
set_clock(ipu__accounting *a, int32_t routine, double at)
{
    if (routine != IPU_NO_ROUTINE) {
        a->timed->routines.items[routine] = at;
        return;
    }
    for (uint32_t i = 0; i < a->ipu_count; i++) {
        a->clocks[i] = at;
    }
}

/* Of all steps from number `first` on: their starts, and what their clock shows then. */
static void
time_steps(ipu__accounting *a, size_t first)
{
    for (size_t i = first; i < a->out->steps.count; i++) {
        ipu_account_step *step = &a->out->steps.items[i];
        double *clock = step->routine == IPU_NO_ROUTINE
                            ? &a->clocks[step->ipu]
                            : &a->timed->routines.items[step->routine];
        step->start = *clock;
        if (a->counted > 0) { /* else in a loop that never turns */
            *clock += step->cycles * step->times / a->counted;
        }
    }
}

/* --- what moves between IPUs and to remote memory --------------------------------- */

static ipu_status
move(ipu__accounting *a, ipu_node id, ipu_step_kind kind, const char *part,
     double seconds, int32_t ipu, int32_t routine, double times)
{
    ipu_account_step step = {.kind = kind,
                             .node = id,
                             .part = part,
                             .cycles = ceil(a->chip->clock * seconds),
                             .times = times,
                             .tiles = a->chip->tiles,
                             .number = a->starts[id.index],
                             .ipu = ipu,
                             .routine = routine};
    return IPU_ARRAY_PUSH(a->ctx, &a->out->steps, step);
}

static ipu_status
move_remote(ipu__accounting *a, ipu_node id, const char *part, double bytes,
            int32_t ipu, int32_t routine)
{
    size_t first = a->out->steps.count;
    IPU_TRY(move(a, id, IPU_STEP_REMOTE, part, bytes / a->chip->remote_bytes, ipu,
                 routine, a->times));
    time_steps(a, first);
    return IPU_OK;
}

static uint64_t
key_of(const ipu__accounting *a, uint32_t value, int32_t routine, int32_t ipu)
{
    uint64_t key = (uint64_t)value * a->routine_room + (uint32_t)(routine + 1);
    return key * a->ipu_count + (uint32_t)ipu;
}

/* Both IPUs are busy with it. In a pipeline it belongs to the end of the time step. */
static ipu_status
send(ipu__accounting *a, ipu_node user, const ipu__passage *passage)
{
    ipu_node maker = ipu_value_of(a->graph, passage->value)->producer;
    double bytes =
        (double)ipu_type_bytes(&ipu_value_of(a->graph, passage->value)->type);
    int32_t from = a->home[passage->value.index];
    ipu_link link = ipu_link_between(a->chip, from, passage->ipu);
    double seconds = bytes / link.bytes;
    ipu_node id = ipu_is_node(maker) ? maker : user;
    if (passage->from != IPU_NO_ROUTINE) {
        uint32_t messages = (uint32_t)a->graph->values.count; /* past the values */
        uint64_t key = key_of(a, messages, passage->from, passage->ipu);
        if (!ipu_id_map_has(&a->known, key)) { /* one message of all its values */
            IPU_TRY(ipu_id_map_put(a->ctx, &a->known, key, 0));
            seconds += link.seconds;
        }
        IPU_TRY(move(a, id, IPU_STEP_EXCHANGE, "to another IPU", seconds, from,
                     passage->from, a->times));
        ipu_account_step *step = &a->out->steps.items[a->out->steps.count - 1];
        step->start = a->timed->routines.items[passage->from];
        a->timed->sends.items[passage->from] += step->cycles;
        return IPU_OK;
    }
    IPU_TRY(move(a, id, IPU_STEP_EXCHANGE, "to another IPU",
                 seconds + link.seconds, from, IPU_NO_ROUTINE, a->once));
    ipu_account_step *step = &a->out->steps.items[a->out->steps.count - 1];
    step->start = fmax(a->clocks[from], a->clocks[passage->ipu]);
    a->clocks[from] = a->clocks[passage->ipu] = step->start + step->cycles;
    return IPU_OK;
}

/* Whether a block is one of those that a node holds, or in one of them. */
static bool
is_inside(const ipu_graph *graph, ipu_block block, ipu_node id)
{
    for (;;) {
        ipu_node owner = ipu_block_of(graph, block)->owner;
        if (!ipu_is_node(owner) || owner.index == id.index) {
            return ipu_is_node(owner);
        }
        block = ipu_node_of(graph, owner)->block;
    }
}

typedef struct use_visit {
    ipu__accounting *a;
    ipu_node user; /* or a branch that holds it */
} use_visit;

static ipu_status
visit_use(void *state, ipu_value *place, ipu_node inner)
{
    const use_visit *v = state;
    ipu__accounting *a = v->a;
    ipu_value value = ipu__machine_shown(a->graph, *place);
    if (!ipu_is_node(inner) ||
        is_inside(a->graph, ipu_value_of(a->graph, value)->block, v->user)) {
        return IPU_OK;
    }
    ipu_node maker = ipu_value_of(a->graph, value)->producer;
    const ipu_node_data *made = ipu_producer_of(a->graph, value);
    int32_t ipu = a->ipu_of[inner.index];
    int32_t to = a->routine_of[inner.index];
    int32_t from = made == NULL ? IPU_NO_ROUTINE : a->routine_of[maker.index];
    uint32_t number = a->starts[v->user.index];
    bool is_at_hand =
        from == IPU_NO_ROUTINE || from == to || made->op == IPU_OP_ID_VARIABLE_READ;
    if ((a->home[value.index] == ipu && is_at_hand) ||
        (made != NULL && made->op == IPU_OP_ID_CONSTANT)) {
        return IPU_OK;
    }
    int32_t reader = from == IPU_NO_ROUTINE ? IPU_NO_ROUTINE : to;
    uint64_t key = key_of(a, value.index, reader, ipu);
    uint32_t at = ipu_id_map_get(&a->known, key, IPU_NO_INDEX);
    if (at != IPU_NO_INDEX) {
        a->passages.items[at].last = number;
        return IPU_OK;
    }
    uint64_t sent = key_of(a, value.index, IPU_NO_ROUTINE, ipu);
    bool is_sent = ipu_id_map_has(&a->known, sent);
    ipu__passage found = {.value = value,
                          .from = from,
                          .to = reader,
                          .ipu = ipu,
                          .number = number,
                          .last = number};
    uint32_t index = (uint32_t)a->passages.count;
    IPU_TRY(ipu_id_map_put(a->ctx, &a->known, key, index));
    IPU_TRY(ipu_id_map_put(a->ctx, &a->known, sent, index));
    IPU_TRY(IPU_ARRAY_PUSH(a->ctx, &a->passages, found));
    if (a->home[value.index] != ipu) {
        return is_sent ? IPU_OK : send(a, v->user, &found);
    }
    if (a->inside != NULL && (a->inside->offload & IPU_OFFLOAD_ACTIVATIONS)) {
        double bytes = (double)ipu_type_bytes(&ipu_value_of(a->graph, value)->type);
        IPU_TRY(move_remote(a, maker, "to remote memory", bytes, ipu, from));
        IPU_TRY(move_remote(a, v->user, "from remote memory", bytes, ipu, to));
    }
    return IPU_OK;
}

/* --- nodes ------------------------------------------------------------------------ */

static ipu_status
reside(ipu__accounting *a, ipu_account_resident one)
{
    a->out->memories.items[one.ipu].variable_bytes += one.bytes;
    return IPU_ARRAY_PUSH(a->ctx, &a->out->residents, one);
}

static ipu_status
count_variable(ipu__accounting *a, ipu_node id, uint32_t number,
               const ipu_resource *resource)
{
    ipu_account_resident one = {.resource = number,
                                .node = id,
                                .ipu = a->owner[number],
                                .bytes = (double)ipu_type_bytes(resource->types)};
    if (resource->is_remote) {
        a->out->memories.items[one.ipu].remote_bytes += one.bytes;
        return IPU_OK;
    }
    one.mapping = ipu__machine_held(a, number, one.ipu);
    return reside(a, one);
}

static ipu_status
count_variables(ipu__accounting *a, ipu_node id, const ipu_node_data *node)
{
    for (uint32_t i = 0; i < ipu_node_resource_count(node); i++) {
        uint32_t number = ipu_node_resource(node, i);
        const ipu_resource *resource = &a->graph->resources.items[number];
        if (resource->kind != IPU_RESOURCE_VARIABLE) {
            continue;
        }
        double bytes = (double)ipu_type_bytes(resource->types);
        int32_t ipu = a->ipu_of[id.index];
        if (!a->is_counted[number]) {
            a->is_counted[number] = true;
            IPU_TRY(count_variable(a, id, number, resource));
        }
        if (resource->is_remote && ipu_node_reads(node)) {
            IPU_TRY(move_remote(a, id, "from remote memory", bytes, ipu,
                                a->routine_of[id.index]));
        }
        if (resource->is_remote && ipu_node_writes(node)) {
            IPU_TRY(move_remote(a, id, "to remote memory", bytes, ipu,
                                a->routine_of[id.index]));
        }
    }
    return IPU_OK;
}

/* Where a node leaves its result: the variable that it writes, or its first output. */
static ipu_mapping
place_of_result(const ipu__accounting *a, const ipu_node_data *node)
{
    if (node->output_count > 0) {
        return a->mappings[node->outputs[0].index];
    }
    bool is_variable = ipu_node_resource_count(node) > 0 && ipu_node_writes(node);
    return is_variable ? a->held[ipu_node_resource(node, 0)] : (ipu_mapping){0};
}

/* Of no tiles where it is a number that lies with the code. */
static ipu_mapping
mapping_of_input(const ipu__accounting *a, ipu_value value)
{
    value = ipu__machine_shown(a->graph, value);
    const ipu_node_data *maker = ipu_producer_of(a->graph, value);
    bool is_in_code =
        maker != NULL && maker->op == IPU_OP_ID_CONSTANT &&
        ipu_shape_elements(&ipu_value_of(a->graph, value)->type.shape) == 1;
    return is_in_code ? (ipu_mapping){0} : a->mappings[value.index];
}

/* Room for the types of a node's operands, and of its results or variables. */
static ipu_status
steps_of_node(ipu__accounting *a, ipu_node id)
{
    const ipu_graph *graph = a->graph;
    const ipu_node_data *node = ipu_node_of(graph, id);
    uint32_t resources = ipu_node_resource_count(node);
    size_t room = node->input_count + node->output_count + resources + 1;
    ipu__machine_lay_out(a, node);
    IPU_TRY(count_variables(a, id, node));
    a->types.count = a->inputs.count = 0;
    IPU_TRY(IPU_ARRAY_EXTEND(a->ctx, &a->types, room, NULL));
    IPU_TRY(IPU_ARRAY_EXTEND(a->ctx, &a->inputs, room, NULL));
    ipu_type *types = a->types.items;
    ipu_mapping *inputs = a->inputs.items;
    for (uint32_t i = 0; i < node->input_count; i++) {
        types[i] = ipu_value_of(graph, node->inputs[i])->type;
        inputs[i] = mapping_of_input(a, node->inputs[i]);
    }
    ipu_cost_call call = {.attrs = node->attrs,
                          .inputs = types,
                          .input_count = node->input_count,
                          .outputs = types + node->input_count};
    for (uint32_t i = 0; i < node->output_count; i++) {
        inputs[node->input_count + i] = a->mappings[node->outputs[i].index];
        types[node->input_count + call.output_count++] =
            ipu_value_of(graph, node->outputs[i])->type;
    }
    ipu_mapping at = place_of_result(a, node);
    for (uint32_t i = 0; node->output_count == 0 && i < resources; i++) {
        const ipu_resource *resource =
            &graph->resources.items[ipu_node_resource(node, i)];
        if (resource->kind == IPU_RESOURCE_VARIABLE) {
            types[node->input_count + call.output_count++] = resource->types[0];
        }
    }
    size_t first = a->out->steps.count;
    ipu_steps_call steps = {.asker = {a->ctx, a->chip, &a->options, a->plans},
                            .op = node->op,
                            .types = &call,
                            .inputs = inputs,
                            .at = at,
                            .like = {.node = id,
                                     .times = a->times,
                                     .number = a->starts[id.index],
                                     .ipu = a->ipu_of[id.index],
                                     .routine = a->routine_of[id.index]},
                            .account = a->out};
    ipu_status status = ipu_steps_add(&steps);
    if (status == IPU_OK && node->op == IPU_OP_ID_HELD) {
        ipu_account_resident one = {
            .resource = IPU_NO_INDEX,
            .node = id,
            .mapping = at,
            .ipu = a->ipu_of[id.index],
            .bytes = (double)ipu_type_bytes(
                &ipu_value_of(graph, node->outputs[0])->type)};
        status = reside(a, one);
    }
    ipu_account_memory *memory = &a->out->memories.items[a->ipu_of[id.index]];
    a->temporaries[a->starts[id.index]] = steps.temporary_bytes;
    if (steps.temporary_bytes > memory->temporary_bytes) {
        memory->temporary_bytes = steps.temporary_bytes;
        memory->temporary_node = id;
    }
    time_steps(a, first);
    return status;
}

static double
turns_of(ipu__accounting *a, ipu_node id)
{
    int64_t turns = ipu_loop_most_turns(a->graph, id);
    a->out->has_unknown_turns |= turns < 0;
    return turns < 0 ? 1 : (double)turns;
}

static ipu_status steps_of_block(ipu__accounting *a, ipu_block block);

/* Values that a turn leaves for the next one go back to where they were. */
static ipu_status
carry(ipu__accounting *a, ipu_node id, ipu_block body)
{
    const ipu_block_data *data = ipu_block_of(a->graph, body);
    size_t first = a->out->steps.count;
    for (size_t i = 0; i < data->results.count && i < data->params.count; i++) {
        ipu_value next = ipu__machine_shown(a->graph, data->results.items[i]);
        ipu_steps_call steps = {.asker = {a->ctx, a->chip, &a->options, a->plans},
                                .like = {.node = id,
                                         .times = a->times,
                                         .number = a->count,
                                         .ipu = a->home[next.index],
                                         .routine = a->routine_of[id.index]},
                                .account = a->out};
        ipu_steps_lay_out(&steps, "carried", &ipu_value_of(a->graph, next)->type,
                          &a->mappings[next.index],
                          &a->mappings[data->params.items[i].index], false);
        IPU_TRY(steps.status);
    }
    time_steps(a, first);
    return IPU_OK;
}

static ipu_status
steps_of_loop(ipu__accounting *a, ipu_node id, const ipu_node_data *node)
{
    int32_t routine = a->routine_of[id.index];
    double begin = now(a, routine);
    double times = a->times;
    double turns = turns_of(a, id);
    a->times = times * turns;
    if (a->inside == NULL) {
        set_clock(a, IPU_NO_ROUTINE, begin);
        a->counted = a->once = a->times;
    }
    for (uint32_t i = 0; i < ipu_node_block_count(node); i++) {
        IPU_TRY(steps_of_block(a, ipu_node_block(node, i)));
    }
    IPU_TRY(carry(a, id, ipu_node_body(node)));
    a->times = times;
    if (a->inside == NULL) {
        set_clock(a, IPU_NO_ROUTINE, begin + turns * (latest(a) - begin));
        a->counted = a->once = times;
    }
    return IPU_OK;
}

/* Steps of branches that are not the longest are never executed. */
static ipu_status
steps_of_branches(ipu__accounting *a, ipu_node id, const ipu_node_data *node)
{
    int32_t routine = a->routine_of[id.index];
    double begin = now(a, routine);
    double longest = -1;
    size_t best[2] = {0, 0};
    for (uint32_t i = 0; i < ipu_node_block_count(node); i++) {
        size_t first = a->out->steps.count;
        set_clock(a, routine, begin);
        IPU_TRY(steps_of_block(a, ipu_node_block(node, i)));
        double cycles = now(a, routine) - begin;
        bool is_longest = cycles > longest;
        size_t from = is_longest ? best[0] : first;
        size_t to = is_longest ? best[1] : a->out->steps.count;
        for (size_t k = from; k < to; k++) {
            a->out->steps.items[k].times = 0;
        }
        if (is_longest) {
            longest = cycles;
            best[0] = first;
            best[1] = a->out->steps.count;
        }
    }
    set_clock(a, routine, begin + fmax(longest, 0));
    return IPU_OK;
}

/* --- pipelines -------------------------------------------------------------------- */

/* Steps start where their routine's first micro-batch does. */
static ipu_status
shift_steps(ipu__accounting *a, const ipu_account_pipeline *pipeline, size_t first)
{
    const ipu__staged *staged = a->inside;
    uint32_t *earliest;
    IPU_TRY(ipu_arena_array(a->ctx, &a->arena, ipu_routine_count(staged->stage_count),
                            sizeof(*earliest), &earliest));
    for (uint32_t ipu = 0; ipu < staged->schedule->ipu_count; ipu++) {
        const ipu_action_list *list = &staged->schedule->lists[ipu];
        for (size_t i = 0; i < list->count; i++) {
            const ipu_action *action = &list->items[i];
            if (action->micro_batch == 0) {
                earliest[ipu_routine_number(
                    staged->stage_count, (ipu_routine){action->kind, action->stage})] =
                    action->time;
            }
        }
    }
    for (size_t i = first; i < a->out->steps.count; i++) {
        ipu_account_step *step = &a->out->steps.items[i];
        if (step->routine != IPU_NO_ROUTINE) {
            step->start +=
                pipeline->start + pipeline->steps.items[earliest[step->routine]];
        }
    }
    return IPU_OK;
}

static ipu_status
steps_of_pipeline(ipu__accounting *a, ipu_node id, const ipu_node_data *node)
{
    ipu_account_pipeline pipeline = {.node = id};
    for (size_t i = 0; i < a->staged.count; i++) {
        a->inside =
            a->staged.items[i].node.index == id.index ? &a->staged.items[i] : a->inside;
    }
    size_t routines = ipu_routine_count(a->inside->stage_count);
    size_t first = a->out->steps.count;
    pipeline.is_split =
        ipu_schedule_has(a->inside->schedule, IPU_ACTION_BACKWARD_WEIGHT);
    IPU_TRY(IPU_ARRAY_EXTEND(a->ctx, &pipeline.routines, routines, NULL));
    ipu_status status = IPU_ARRAY_EXTEND(a->ctx, &pipeline.sends, routines, NULL);
    if (status == IPU_OK) {
        a->timed = &pipeline;
        a->counted = a->times = a->once * turns_of(a, id);
        status = steps_of_block(a, ipu_node_body(node));
        a->counted = a->times = a->once;
        a->timed = NULL;
    }
    double begin = latest(a);
    pipeline.start = begin;
    if (status == IPU_OK) {
        status = ipu__machine_time_pipeline(a, a->inside, &pipeline);
    }
    if (status == IPU_OK) {
        status = shift_steps(a, &pipeline, first);
    }
    if (status == IPU_OK) {
        status = IPU_ARRAY_PUSH(a->ctx, &a->out->pipelines, pipeline);
    }
    if (status != IPU_OK) {
        IPU_ARRAY_FREE(a->ctx, &pipeline.routines);
        IPU_ARRAY_FREE(a->ctx, &pipeline.sends);
        IPU_ARRAY_FREE(a->ctx, &pipeline.steps);
        return status;
    }
    a->inside = NULL;
    set_clock(a, IPU_NO_ROUTINE, begin + pipeline.cycles);
    return IPU_OK;
}

/* --- blocks ----------------------------------------------------------------------- */

/* Carried values that are offloaded come and go in each micro-batch. */
static ipu_status
move_accumulators(ipu__accounting *a, ipu_block block)
{
    const ipu_block_data *data = ipu_block_of(a->graph, block);
    for (size_t i = 0; i < data->results.count; i++) {
        ipu_node maker = ipu_value_of(a->graph, data->results.items[i])->producer;
        if (!ipu_is_node(maker) || a->routine_of[maker.index] == IPU_NO_ROUTINE) {
            continue;
        }
        double bytes = (double)ipu_type_bytes(
            &ipu_value_of(a->graph, data->results.items[i])->type);
        int32_t ipu = a->ipu_of[maker.index];
        int32_t routine = a->routine_of[maker.index];
        IPU_TRY(move_remote(a, maker, "from remote memory", bytes, ipu, routine));
        IPU_TRY(move_remote(a, maker, "to remote memory", bytes, ipu, routine));
    }
    return IPU_OK;
}

static ipu_status
steps_of_block(ipu__accounting *a, ipu_block block)
{
    const ipu_graph *graph = a->graph;
    const ipu_block_data *data = ipu_block_of(graph, block);
    ipu__machine_lay_out_params(a, block);
    for (size_t i = 0; i < data->params.count; i++) {
        a->lives[data->params.items[i].index].first = a->count + (block.index != 0);
    }
    IPU_EACH_NODE(id, graph, block) {
        const ipu_node_data *node = ipu_node_of(graph, id);
        uint32_t number = ++a->count;
        a->nodes[number] = id;
        a->starts[id.index] = number;
        use_visit visit = {a, id};
        bool is_branch = ipu_node_holds_blocks(node) && !ipu_node_is_loop(node) &&
                         node->op != IPU_OP_ID_PIPELINE;
        /* what branches need is there before one of them is taken */
        if (!ipu_node_holds_blocks(node) || is_branch) {
            IPU_TRY(ipu_node_each_use(graph, id, visit_use, &visit));
        }
        uint32_t stages = 0;
        bool is_staged = node->op == IPU_OP_ID_PIPELINE &&
                         ipu_attrs_ints(node->attrs, IPU_ATTR_DEVICES, &stages) != NULL;
        IPU_TRY(is_staged                     ? steps_of_pipeline(a, id, node)
                : ipu_node_is_loop(node)      ? steps_of_loop(a, id, node)
                : ipu_node_holds_blocks(node) ? steps_of_branches(a, id, node)
                                              : steps_of_node(a, id));
        IPU_TRY(ipu__machine_size_code(a));
        a->ends[id.index] = a->count;
        if (ipu_node_holds_blocks(node)) {
            ipu__machine_lay_out(a, node);
        }
        for (uint32_t i = 0; i < node->output_count; i++) {
            a->lives[node->outputs[i].index].first =
                ipu_node_is_loop(node) ? a->count + 1 : number;
        }
    }
    bool is_body =
        a->inside != NULL &&
        ipu_node_body(ipu_node_of(graph, a->inside->node)).index == block.index;
    if (is_body && (a->inside->offload & IPU_OFFLOAD_ACCUMULATORS)) {
        return move_accumulators(a, block);
    }
    return IPU_OK;
}

/* --- all ---------------------------------------------------------------------------- */

static ipu_status
reserve(ipu__accounting *a)
{
    size_t nodes = a->graph->nodes.count + 2;
    size_t values = a->graph->values.count + 1;
    size_t resources = a->graph->resources.count + 1;
    const struct {
        size_t count;
        size_t bytes;
        void *out;
    } rows[] = {{nodes, sizeof(*a->ipu_of), &a->ipu_of},
                {nodes, sizeof(*a->routine_of), &a->routine_of},
                {nodes, sizeof(*a->nodes), &a->nodes},
                {nodes, sizeof(*a->temporaries), &a->temporaries},
                {nodes, sizeof(*a->ends), &a->ends},
                {nodes, sizeof(*a->starts), &a->starts},
                {values, sizeof(*a->home), &a->home},
                {values, sizeof(*a->lives), &a->lives},
                {values, sizeof(*a->mappings), &a->mappings},
                {resources, sizeof(*a->held), &a->held},
                {resources, sizeof(*a->owner), &a->owner},
                {resources, sizeof(*a->is_counted), &a->is_counted}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        IPU_TRY(ipu_arena_array(a->ctx, &a->arena, rows[i].count, rows[i].bytes,
                                rows[i].out));
    }
    return IPU_OK;
}

static ipu_status
account(ipu__accounting *a)
{
    ipu_account_memory nothing = {.peak_node = IPU_NO_NODE,
                                  .temporary_node = IPU_NO_NODE};
    IPU_TRY(reserve(a));
    IPU_TRY(ipu__machine_place(a));
    /* replicas have powers of two of IPUs */
    a->options.replica_ipus = exp2(ceil(log2(a->ipu_count)));
    if (a->options.replicas == 0) {
        a->options.replicas =
            fmax(1, floor(a->options.ipus / a->options.replica_ipus));
    }
    IPU_TRY(ipu_arena_array(a->ctx, &a->arena, a->ipu_count, sizeof(*a->clocks),
                            &a->clocks));
    IPU_TRY(ipu_arena_array(a->ctx, &a->arena, a->ipu_count, sizeof(*a->next_tiles),
                            &a->next_tiles));
    IPU_TRY(ipu_uses_find(a->ctx, a->graph, &a->uses));
    IPU_TRY(IPU_ARRAY_EXTEND(a->ctx, &a->out->memories, a->ipu_count, &nothing));
    IPU_TRY(steps_of_block(a, (ipu_block){0}));
    a->out->cycles = latest(a);
    ipu__machine_sum_code(a);
    IPU_TRY(ipu__machine_occupy(a));
    return a->options.has_places ? ipu__machine_find_places(a) : IPU_OK;
}

ipu_status
ipu_account_of(ipu_ctx *ctx, const ipu_graph *graph, const ipu_chip *chip,
               const ipu_account_options *options, ipu_plans *plans, ipu_account *out)
{
    *out = (ipu_account){0};
    IPU_TRY(ipu_chip_check(ctx, chip));
    ipu__accounting a = {.ctx = ctx,
                         .graph = graph,
                         .chip = chip,
                         .options = *options,
                         .plans = plans,
                         .out = out,
                         .times = 1,
                         .counted = 1,
                         .once = 1};
    ipu_status status = account(&a);
    for (size_t i = 0; i < a.staged.count; i++) {
        ipu_schedule_free(ctx, a.staged.items[i].schedule);
    }
    IPU_ARRAY_FREE(ctx, &a.staged);
    IPU_ARRAY_FREE(ctx, &a.passages);
    IPU_ARRAY_FREE(ctx, &a.types);
    IPU_ARRAY_FREE(ctx, &a.inputs);
    ipu_uses_free(ctx, &a.uses);
    ipu_id_map_free(ctx, &a.known);
    ipu_id_map_free(ctx, &a.coded);
    ipu_arena_free(ctx, &a.arena);
    return status;
}

/* Whether the values and variables are so few that any order of the nodes fits into one
 * IPU, with what products take. */
static bool
is_small(const ipu_graph *graph, const ipu_chip *chip,
         const ipu_account_options *options)
{
    /* of a tile, for a plan: 0.6, or what is asked for, unless operands are huge: then
     * they alone are more than the rest */
    double planned = fmax(0.6, options->slice_share);
    for (int i = 0; i < IPU_PRODUCT_CLASS_COUNT; i++) {
        planned = fmax(planned, options->products[i].memory_share);
    }
    /* of code, on a tile: equal steps share theirs, and of well-known networks none takes
     * as much */
    const double first_bytes = 65536;
    const double node_bytes = 160;
    double bytes = 0;
    for (size_t i = 0; i < graph->values.count; i++) {
        bytes += (double)ipu_type_bytes(&graph->values.items[i].type);
    }
    for (size_t i = 0; i < graph->resources.count; i++) {
        if (graph->resources.items[i].kind == IPU_RESOURCE_VARIABLE) {
            bytes += (double)ipu_type_bytes(graph->resources.items[i].types);
        }
    }
    double code = first_bytes + (double)graph->nodes.count * node_bytes;
    return bytes / chip->tiles + code <= (1 - planned) * chip->tile_bytes;
}

/* By addresses, where these are known. */
static bool
has_room(const ipu_account *account, const ipu_account_options *options,
         const ipu_chip *chip)
{
    bool fits = true;
    for (size_t i = 0; i < account->memories.count; i++) {
        const ipu_account_memory *one = &account->memories.items[i];
        double bytes = options->has_places
                           ? one->end_bytes
                           : one->tiles.items[one->fullest_tile] + one->temporary_bytes;
        fits = fits && bytes <= chip->tile_bytes;
    }
    return fits;
}

ipu_status
ipu_account_fits(ipu_ctx *ctx, const ipu_graph *graph, const ipu_chip *chip,
                 const ipu_account_options *options, ipu_plans *plans, bool *out)
{
    *out = is_small(graph, chip, options);
    for (int stage = 0; stage < 2 && !*out; stage++) {
        ipu_account_options asked = *options;
        asked.is_memory_alone = true;
        asked.is_bound = stage == 0;
        asked.has_places = !asked.is_bound;
        ipu_account account;
        ipu_status status = ipu_account_of(ctx, graph, chip, &asked, plans, &account);
        *out = status == IPU_OK && has_room(&account, &asked, chip);
        ipu_account_free(ctx, &account);
        IPU_TRY(status);
    }
    return IPU_OK;
}

const ipu_type *
ipu_account_resident_type(const ipu_graph *graph, const ipu_account_resident *resident)
{
    return resident->resource != IPU_NO_INDEX
               ? graph->resources.items[resident->resource].types
               : &ipu_value_of(graph, ipu_node_of(graph, resident->node)->outputs[0])
                      ->type;
}

void
ipu_account_free(ipu_ctx *ctx, ipu_account *account)
{
    for (size_t i = 0; i < account->pipelines.count; i++) {
        ipu_account_pipeline *pipeline = &account->pipelines.items[i];
        IPU_ARRAY_FREE(ctx, &pipeline->routines);
        IPU_ARRAY_FREE(ctx, &pipeline->sends);
        IPU_ARRAY_FREE(ctx, &pipeline->steps);
    }
    for (size_t i = 0; i < account->memories.count; i++) {
        IPU_ARRAY_FREE(ctx, &account->memories.items[i].tiles);
    }
    IPU_ARRAY_FREE(ctx, &account->pipelines);
    IPU_ARRAY_FREE(ctx, &account->residents);
    IPU_ARRAY_FREE(ctx, &account->places);
    IPU_ARRAY_FREE(ctx, &account->memories);
    IPU_ARRAY_FREE(ctx, &account->tenants);
    IPU_ARRAY_FREE(ctx, &account->steps);
}
