/* SPDX-License-Identifier: MIT
 *
 * From a graph to a program; nothing past this file reads a graph.
 *
 * Three walks. The first gives every node a time in program order and every value its
 * root: the value whose bytes it has (views are free). The second finds each root's
 * last use; a use inside a loop of a value from outside it counts until the loop's end.
 * The third emits instructions and decides where each root lives:
 *
 *   - constants in one deduplicated blob;
 *   - a variable's read in the variable itself, where nothing writes the variable
 *     before the last use of what was read; else in a copy;
 *   - a dequeued tensor in the ring's slot, where the queue is not dequeued again
 *     before its last use; else in a copy;
 *   - the result of an IN_PLACE op in the buffer of a dying input;
 *   - an input where the caller has it, and an output where the caller wants it;
 *   - carried values and results of branches as lower_control.c says;
 *   - everything else in a slab buffer of its own.
 *
 * Buffers have virtual numbers while instructions are made; their lifetimes are read
 * off the finished instructions, planned, checked, and only then do places get
 * offsets. */
#include "base/event.h"
#include "base/hash.h"
#include "program/lower_impl.h"

#include <inttypes.h>
#include <string.h>

ipu_status
ipu__lower_place(lowering *l, ipu_value value)
{
    value_info *info = &l->values[value.index];
    int32_t buffer = info->wanted;
    if (buffer == IPU__NO_BUFFER) {
        IPU_TRY(ipu__lower_new_buffer(l, bytes_of(l, value), &buffer));
    }
    info->place = slab_place(buffer);
    return IPU_OK;
}

/* The body reads the carried values that the condition has read. Not asked of the main
 * block's parameters, which lie in no slab. */
static bool
is_condition_param(const lowering *l, const value_info *root)
{
    const ipu_value_data *data =
        ipu_value_of(l->graph, (ipu_value){(uint32_t)(root - l->values)});
    if (ipu_is_node(data->producer)) {
        return false;
    }
    const ipu_node_data *node =
        ipu_node_of(l->graph, ipu_block_of(l->graph, data->block)->owner);
    return ipu_block_op_of(node->op)->has_condition &&
           data->block.index == ipu_node_block(node, 0).index;
}

bool
ipu__lower_can_inherit(const lowering *l, const value_info *root, int32_t time,
                       uint32_t heir)
{
    if (root->place.space != IPU_SPACE_SLAB || root->last_use != time ||
        is_condition_param(l, root)) {
        return false;
    }
    uint32_t reserved = l->buffers.items[root->place.index].reserved;
    return reserved == IPU_NO_INDEX || reserved == heir;
}

static ipu_status
copy_text(lowering *l, const char *text, const char **out)
{
    *out = NULL;
    if (text == NULL) {
        return IPU_OK;
    }
    return ipu_arena_text(l->ctx, &l->program->arena, text, strlen(text), out);
}

static ipu_status
set_source(lowering *l, const ipu_node_data *node, ipu_instruction *instruction)
{
    if (node == NULL) {
        return IPU_OK;
    }
    if (node->source.file != l->last_source.file) {
        IPU_TRY(copy_text(l, node->source.file, &l->last_file));
        l->last_source = node->source;
    }
    instruction->source = (ipu_source){l->last_file, node->source.line};
    instruction->placement = node->placement;
    return copy_text(l, node->name, &instruction->name);
}

ipu_status
ipu__lower_new_places(lowering *l, size_t count, ipu_place **out)
{
    return ipu_arena_array(l->ctx, &l->program->arena, count, sizeof(ipu_place), out);
}

ipu_status
ipu__lower_emit(lowering *l, const ipu_node_data *node, ipu_instruction *instruction)
{
    IPU_FAIL_IF(l->ctx, l->stream->instructions.count >= INT32_MAX - 1, OUT_OF_MEMORY,
                "out of memory: more than 2^31 instructions");
    IPU_TRY(set_source(l, node, instruction));
    return IPU_ARRAY_PUSH(l->ctx, &l->stream->instructions, *instruction);
}

ipu_status
ipu__lower_copy(lowering *l, const ipu_node_data *node, ipu_place from, ipu_place to,
                size_t bytes)
{
    if (bytes == 0) {
        return IPU_OK;
    }
    ipu_place *places;
    IPU_TRY(ipu__lower_new_places(l, 2, &places));
    places[0] = from;
    places[1] = to;
    ipu_instruction copy = {.kind = IPU_INSTRUCTION_COPY,
                            .input_count = 1,
                            .output_count = 1,
                            .inputs = &places[0],
                            .outputs = &places[1],
                            .placement = ipu_graph_placement(l->graph),
                            .bytes = bytes,
                            .cost = {.bytes = 2.0 * (double)bytes}};
    return ipu__lower_emit(l, node, &copy);
}

/* The program's index of a graph's resource; it is added on first use, so that
 * resources which no node names are not bound. */
static ipu_status
use_resource(lowering *l, uint32_t index, uint32_t *out)
{
    if (l->resource_map[index] == IPU_NO_INDEX) {
        ipu_resource resource = l->graph->resources.items[index];
        IPU_TRY(ipu_arena_copy(l->ctx, &l->program->arena, resource.types,
                               resource.type_count * sizeof(ipu_type),
                               &resource.types));
        if (resource.parts > 0) {
            IPU_TRY(ipu_arena_copy(l->ctx, &l->program->arena, resource.whole,
                                   sizeof(ipu_type), &resource.whole));
        }
        resource.panel_columns =
            l->in_panels[l->graph->values.count + index] ? l->panel_columns : 0;
        IPU_TRY(copy_text(l, resource.name, &resource.name));
        IPU_TRY(IPU_ARRAY_PUSH(l->ctx, &l->program->resources, resource));
        l->resource_map[index] = (uint32_t)l->program->resources.count - 1;
    }
    *out = l->resource_map[index];
    return IPU_OK;
}

/* The offset of these bytes among the program's constants, which has them once (twice,
 * where other ones of the same hash come between). */
static ipu_status
place_constant(lowering *l, const void *data, size_t bytes, size_t *out)
{
    uint64_t key = ipu_hash_bytes(IPU_HASH_START, data, bytes) >> 1; /* < UINT64_MAX */
    uint32_t known = ipu_id_map_get(&l->constants_by_hash, key, IPU_NO_INDEX);
    if (known != IPU_NO_INDEX && l->constants.items[known].bytes == bytes &&
        memcmp(l->constants.items[known].data, data, bytes) == 0) {
        *out = l->constants.items[known].offset;
        return IPU_OK;
    }
    *out = l->program->constant_bytes;
    constant added = {data, bytes, *out};
    IPU_TRY(IPU_ARRAY_PUSH(l->ctx, &l->constants, added));
    l->program->constant_bytes += ipu_buffer_round_up(bytes);
    return ipu_id_map_put(l->ctx, &l->constants_by_hash, key,
                          (uint32_t)l->constants.count - 1);
}

static ipu_status
lower_constant(lowering *l, const ipu_node_data *node)
{
    const ipu_attr *value = ipu_attrs_find(node->attrs, IPU_ATTR_VALUE);
    ipu_place place = {.space = IPU_SPACE_CONSTANT};
    if (value != NULL) { /* one without elements may have none */
        IPU_TRY(place_constant(l, value->as.bytes, value->count, &place.offset));
    }
    l->values[ipu_node_output(node, 0).index].place = place;
    return IPU_OK;
}

static ipu_status
lower_held(lowering *l, const ipu_node_data *node)
{
    uint64_t index = (uint64_t)ipu_attrs_int(node->attrs, IPU_ATTR_INDEX, -1);
    IPU_FAIL_IF(l->ctx, index >= l->graph->held.count, INTERNAL,
                "there is no held tensor %" PRId64, (int64_t)index);
    l->values[ipu_node_output(node, 0).index].place =
        (ipu_place){.space = IPU_SPACE_HELD, .index = (uint32_t)index};
    return IPU_OK;
}

static ipu_status
lower_empty(lowering *l, const ipu_node_data *node)
{
    ipu_value output = ipu_node_output(node, 0);
    ipu_instruction reserve = {.kind = IPU_INSTRUCTION_RESERVE,
                               .output_count = 1,
                               .bytes = bytes_of(l, output)};
    IPU_TRY(ipu__lower_place(l, output));
    IPU_TRY(ipu_arena_copy(l->ctx, &l->program->arena, &l->values[output.index].place,
                           sizeof(ipu_place), &reserve.outputs));
    return ipu__lower_emit(l, node, &reserve);
}

static ipu_status
copy_held(lowering *l)
{
    size_t count = l->graph->held.count;
    l->program->held_count = (uint32_t)count;
    return ipu_arena_copy(l->ctx, &l->program->arena, l->graph->held.items,
                          count * sizeof(ipu_held), &l->program->held);
}

static ipu_status
lower_variable_read(lowering *l, ipu_node id, const ipu_node_data *node)
{
    uint32_t index = ipu_node_resource(node, 0);
    ipu_value output = ipu_node_output(node, 0);
    value_info *info = &l->values[output.index];
    ipu_place variable = {.space = IPU_SPACE_VARIABLE};
    IPU_TRY(use_resource(l, index, &variable.index));
    if (!l->graph->resources.items[index].is_remote &&
        !ipu__lower_written_before_last_use(l, index, info, l->begin[id.index])) {
        info->place = variable;
        return IPU_OK;
    }
    IPU_TRY(ipu__lower_place(l, output));
    return ipu__lower_copy(l, node, variable, info->place, bytes_of(l, output));
}

/* One element of a queue. */
static ipu_cost
queue_cost(const lowering *l, uint32_t index)
{
    const ipu_resource *queue = &l->program->resources.items[index];
    return ipu_cost_of(
        IPU_OP_ID_OUTFEED_ENQUEUE,
        &(ipu_cost_call){.inputs = queue->types, .input_count = queue->type_count});
}

static ipu_status
lower_dequeue(lowering *l, ipu_node id, const ipu_node_data *node)
{
    uint32_t index = ipu_node_resource(node, 0);
    ipu_instruction dequeue = {.kind = IPU_INSTRUCTION_DEQUEUE,
                               .output_count = node->output_count};
    IPU_TRY(use_resource(l, index, &dequeue.resource));
    uint32_t first = ipu_program_infeed_base(l->program, dequeue.resource);
    ipu_place *slots;
    IPU_TRY(ipu__lower_new_places(l, node->output_count, &slots));
    for (uint32_t i = 0; i < node->output_count; i++) {
        slots[i] = (ipu_place){.space = IPU_SPACE_INFEED, .index = first + i};
    }
    dequeue.outputs = slots;
    dequeue.cost = queue_cost(l, dequeue.resource);
    IPU_TRY(ipu__lower_emit(l, node, &dequeue));
    for (uint32_t i = 0; i < node->output_count; i++) {
        ipu_value output = ipu_node_output(node, i);
        value_info *info = &l->values[output.index];
        if (!ipu__lower_written_before_last_use(l, index, info, l->begin[id.index])) {
            info->place = slots[i];
            continue;
        }
        IPU_TRY(ipu__lower_place(l, output));
        IPU_TRY(ipu__lower_copy(l, node, slots[i], info->place, bytes_of(l, output)));
    }
    return IPU_OK;
}

static ipu_status
input_places(lowering *l, const ipu_node_data *node, ipu_instruction *instruction)
{
    ipu_place *inputs;
    IPU_TRY(ipu__lower_new_places(l, node->input_count, &inputs));
    for (uint32_t i = 0; i < node->input_count; i++) {
        inputs[i] = root_of(l, node->inputs[i])->place;
    }
    instruction->input_count = node->input_count;
    instruction->inputs = inputs;
    return IPU_OK;
}

static ipu_status
lower_enqueue(lowering *l, const ipu_node_data *node)
{
    uint32_t index = ipu_node_resource(node, 0);
    ipu_instruction enqueue = {.kind = IPU_INSTRUCTION_ENQUEUE};
    IPU_TRY(use_resource(l, index, &enqueue.resource));
    IPU_TRY(input_places(l, node, &enqueue));
    enqueue.cost = queue_cost(l, enqueue.resource);
    return ipu__lower_emit(l, node, &enqueue);
}

static ipu_status
lower_host_call(lowering *l, const ipu_node_data *node)
{
    uint32_t index = ipu_node_resource(node, 0);
    ipu_instruction host = {.kind = IPU_INSTRUCTION_HOST,
                            .output_count = node->output_count};
    ipu_place *outputs;
    IPU_TRY(use_resource(l, index, &host.resource));
    IPU_TRY(input_places(l, node, &host));
    IPU_TRY(ipu__lower_new_places(l, node->output_count, &outputs));
    for (uint32_t i = 0; i < node->output_count; i++) {
        IPU_TRY(ipu__lower_place(l, ipu_node_output(node, i)));
        outputs[i] = root_of(l, ipu_node_output(node, i))->place;
    }
    host.outputs = outputs;
    host.cost = queue_cost(l, host.resource);
    return ipu__lower_emit(l, node, &host);
}

/* A second input with the same bytes may be read at other positions than it is written
 * (broadcast). */
bool
ipu__lower_fits_in_place(lowering *l, const ipu_node_data *node, uint32_t input)
{
    uint32_t flags = ipu_node_flags(node);
    if ((flags & IPU_OP_IN_PLACE) == 0 || input >= node->input_count ||
        (input > 0 && (flags & IPU_OP_ELEMENTWISE) == 0) ||
        !ipu_type_equal(&ipu_value_of(l->graph, node->inputs[input])->type,
                        &ipu_value_of(l->graph, ipu_node_output(node, 0))->type)) {
        return false;
    }
    for (uint32_t i = 0; i < node->input_count; i++) {
        if (i != input &&
            root_of(l, node->inputs[i]) == root_of(l, node->inputs[input])) {
            return false;
        }
    }
    return true;
}

/* The first input whose buffer the node's first output may have; NULL: none. */
static const value_info *
heritage_of(lowering *l, ipu_node id, const ipu_node_data *node, ipu_value output)
{
    for (uint32_t i = 0; i < node->input_count; i++) {
        const value_info *root = root_of(l, node->inputs[i]);
        if (ipu__lower_can_inherit(l, root, l->begin[id.index], output.index) &&
            ipu__lower_fits_in_place(l, node, i)) {
            return root;
        }
    }
    return NULL;
}

ipu_status
ipu__lower_place_first(lowering *l, ipu_node id, const ipu_node_data *node)
{
    ipu_value output = ipu_node_output(node, 0);
    value_info *info = &l->values[output.index];
    const value_info *left =
        info->wanted == IPU__NO_BUFFER ? heritage_of(l, id, node, output) : NULL;
    if (left == NULL) {
        return ipu__lower_place(l, output);
    }
    info->place = left->place;
    return IPU_OK;
}

/* The kernel's own outputs come after the resource's buffers. */
static ipu_status
output_places(lowering *l, ipu_node id, const ipu_node_data *node,
              ipu_instruction *instruction, ipu_type **out_types)
{
    uint32_t resource_count = ipu_node_resource_count(node);
    size_t count = (size_t)resource_count + node->output_count;
    ipu_place *places;
    ipu_type *types;
    IPU_TRY(ipu__lower_new_places(l, count, &places));
    IPU_TRY(
        ipu_arena_alloc(l->ctx, &l->program->arena, count * sizeof(ipu_type), &types));
    for (uint32_t i = 0; i < resource_count; i++) {
        places[i].space = IPU_SPACE_VARIABLE;
        IPU_TRY(use_resource(l, ipu_node_resource(node, i), &places[i].index));
        types[i] = l->program->resources.items[places[i].index].types[0];
    }
    for (uint32_t i = 0; i < node->output_count; i++) {
        ipu_value output = ipu_node_output(node, i);
        IPU_TRY(i == 0 ? ipu__lower_place_first(l, id, node)
                       : ipu__lower_place(l, output));
        places[resource_count + i] = l->values[output.index].place;
        types[resource_count + i] = ipu_value_of(l->graph, output)->type;
    }
    instruction->output_count = (uint32_t)count;
    instruction->outputs = places;
    *out_types = types;
    return IPU_OK;
}

/* The buffers of a kernel that writes variables in remote memory: copies that the
 * kernel works on; or, with `back`, what it has made of them. */
static ipu_status
copy_remote_variables(lowering *l, const ipu_node_data *node,
                      const ipu_instruction *instruction, bool back)
{
    ipu_place *places = (ipu_place *)instruction->outputs; /* ours */
    for (uint32_t i = 0; i < ipu_node_resource_count(node); i++) {
        uint32_t index = ipu_node_resource(node, i);
        const ipu_resource *resource = &l->graph->resources.items[index];
        ipu_place variable = {.space = IPU_SPACE_VARIABLE,
                              .index = l->resource_map[index]};
        size_t bytes = ipu_type_bytes(&resource->types[0]);
        int32_t buffer;
        if (!resource->is_remote) {
            continue;
        }
        if (back) {
            IPU_TRY(ipu__lower_copy(l, node, places[i], variable, bytes));
            continue;
        }
        IPU_TRY(ipu__lower_new_buffer(l, bytes, &buffer));
        places[i] = slab_place(buffer);
        IPU_TRY(ipu__lower_copy(l, node, variable, places[i], bytes));
    }
    return IPU_OK;
}

ipu_status
ipu__lower_add_spec(lowering *l, ipu_node id, ipu_kernel_spec spec, ipu_cost *cost)
{
    const ipu_node_data *node = ipu_node_of(l->graph, id);
    spec.op = node->op;
    spec.panels = ipu__lower_panels_of(l, node);
    IPU_TRY(ipu_attrs_copy(l->ctx, &l->program->arena, node->attrs, &spec.attrs));
    IPU_TRY(ipu_kernel_prepare(l->ctx, &l->program->arena, &spec, l->options->variant,
                               l->options->cpu));
    IPU_TRY(
        ipu_kernel_guard(l->ctx, &l->program->arena, &spec, &l->options->behaviour));
    spec.fails_later = ipu_failures_of(&l->failures, id) == IPU_FAILS_AFTER;
    IPU_TRY(IPU_ARRAY_PUSH(l->ctx, &l->program->specs, spec));
    ipu_cost own = ipu_cost_of(
        node->op, &(ipu_cost_call){spec.attrs, spec.inputs, spec.input_count,
                                   spec.outputs, spec.output_count});
    cost->flops += own.flops;
    cost->bytes += own.bytes;
    if (spec.workspace_bytes > l->program->workspace_bytes) {
        l->program->workspace_bytes = spec.workspace_bytes;
    }
    return IPU_OK;
}

static ipu_status
lower_kernel(lowering *l, ipu_node id, const ipu_node_data *node)
{
    ipu_instruction instruction = {.kind = IPU_INSTRUCTION_KERNEL,
                                   .spec = (uint32_t)l->program->specs.count};
    ipu_type *inputs;
    ipu_type *outputs;
    IPU_TRY(ipu_arena_alloc(l->ctx, &l->program->arena,
                            node->input_count * sizeof(ipu_type), &inputs));
    for (uint32_t i = 0; i < node->input_count; i++) {
        inputs[i] = ipu_value_of(l->graph, node->inputs[i])->type;
    }
    IPU_TRY(input_places(l, node, &instruction));
    IPU_TRY(output_places(l, id, node, &instruction, &outputs));
    IPU_TRY(
        ipu__lower_add_spec(l, id,
                            (ipu_kernel_spec){.input_count = instruction.input_count,
                                              .output_count = instruction.output_count,
                                              .inputs = inputs,
                                              .outputs = outputs},
                            &instruction.cost));
    if (ipu_node_flags(node) & IPU_OP_RANDOM) {
        l->program->uses_random = true;
    }
    IPU_TRY(copy_remote_variables(l, node, &instruction, false));
    IPU_TRY(ipu__lower_emit(l, node, &instruction));
    return copy_remote_variables(l, node, &instruction, true);
}

/* --- nodes ------------------------------------------------------------------------ */

static ipu_status
lower_node(lowering *l, ipu_node id, const ipu_node_data *node)
{
    if (ipu_node_flags(node) & IPU_OP_VIEW) {
        return IPU_OK;
    }
    bool is_collective;
    IPU_TRY(ipu__lower_collective(l, id, node, &is_collective));
    if (is_collective) {
        return IPU_OK;
    }
    if (ipu_node_flags(node) & IPU_OP_KERNEL) {
        bool is_late = node->output_count == 1 &&
                       l->values[ipu_node_output(node, 0).index].is_filled_late;
        return is_late ? IPU_OK : lower_kernel(l, id, node);
    }
    if (ipu_node_holds_blocks(node)) {
        uint32_t stages;
        (void)ipu_attrs_ints(node->attrs, IPU_ATTR_DEVICES, &stages);
        return stages > 0               ? ipu__lower_pipeline(l, id, node)
               : ipu_node_is_loop(node) ? ipu__lower_loop(l, id, node)
                                        : ipu__lower_switch(l, id, node);
    }
    switch (node->op) {
    case IPU_OP_ID_CONSTANT:
        return lower_constant(l, node);
    case IPU_OP_ID_HELD:
        return lower_held(l, node);
    case IPU_OP_ID_EMPTY:
        return lower_empty(l, node);
    case IPU_OP_ID_VARIABLE_READ:
        return lower_variable_read(l, id, node);
    case IPU_OP_ID_INFEED_DEQUEUE:
        return lower_dequeue(l, id, node);
    case IPU_OP_ID_OUTFEED_ENQUEUE:
        return lower_enqueue(l, node);
    case IPU_OP_ID_HOST_CALL:
        return lower_host_call(l, node);
    default:
        break;
    }
    IPU_FAIL(l->ctx, UNIMPLEMENTED, "%s cannot be lowered",
             ipu_op_info_of(node->op)->name);
}

ipu_status
ipu__lower_fill(lowering *l, ipu_node id)
{
    return lower_kernel(l, id, ipu_node_of(l->graph, id));
}

ipu_status
ipu__lower_node(lowering *l, ipu_node id)
{
    const ipu_node_data *node = ipu_node_of(l->graph, id);
    ipu_status status = lower_node(l, id, node);
    if (status != IPU_OK && l->ctx->source.file == NULL) {
        l->ctx->source = node->source;
    }
    return status;
}

ipu_status
ipu__lower_block(lowering *l, ipu_block id)
{
    size_t around = l->posted.count;
    IPU_EACH_NODE(node, l->graph, id) {
        IPU_TRY(ipu__lower_node(l, node));
    }
    return ipu__lower_wait(l, around);
}

/* --- the whole ------------------------------------------------------------------- */

static ipu_status
copy_types(lowering *l, const ipu_value *values, size_t count, const ipu_type **out)
{
    ipu_type *types;
    IPU_TRY(ipu_arena_array(l->ctx, &l->program->arena, count, sizeof(*types), &types));
    for (size_t i = 0; i < count; i++) {
        types[i] = ipu_value_of(l->graph, values[i])->type;
    }
    *out = types;
    return IPU_OK;
}

/* Whether a value's bytes may be those of an output from the beginning on: they lie in
 * a buffer of the slab that is not another output's. */
static bool
can_be_output(const lowering *l, ipu_place place)
{
    if (place.space != IPU_SPACE_SLAB) {
        return false;
    }
    const slab_buffer *buffer = &l->buffers.items[place.index];
    return buffer->stream == 0 && buffer->output == IPU_NO_INDEX;
}

static ipu_status
lower_main(lowering *l)
{
    ipu_program *program = l->program;
    const ipu_block_data *main_block = ipu_block_of(l->graph, (ipu_block){0});
    program->input_count = (uint32_t)main_block->params.count;
    program->output_count = (uint32_t)main_block->results.count;
    IPU_TRY(copy_types(l, main_block->params.items, main_block->params.count,
                       &program->inputs));
    IPU_TRY(copy_types(l, main_block->results.items, main_block->results.count,
                       &program->outputs));
    for (uint32_t i = 0; i < program->input_count; i++) {
        ipu_value param = main_block->params.items[i];
        l->values[param.index].place =
            (ipu_place){.space = IPU_SPACE_INPUT, .index = i};
    }
    IPU_TRY(ipu__lower_block(l, (ipu_block){0}));
    for (uint32_t i = 0; i < program->output_count; i++) {
        ipu_value result = main_block->results.items[i];
        ipu_place place = root_of(l, result)->place;
        if (can_be_output(l, place)) {
            l->buffers.items[place.index].output = i;
            continue;
        }
        ipu_place output = {.space = IPU_SPACE_OUTPUT, .index = i};
        IPU_TRY(ipu__lower_copy(l, NULL, place, output, bytes_of(l, result)));
    }
    ipu_instruction halt = {.kind = IPU_INSTRUCTION_HALT};
    return ipu__lower_emit(l, NULL, &halt);
}

static ipu_status
store_constants(lowering *l)
{
    ipu_program *program = l->program;
    char *memory;
    if (program->constant_bytes == 0) {
        return IPU_OK;
    }
    IPU_TRY(ipu_arena_alloc(
        l->ctx, &program->arena,
        program->constant_bytes + IPU_SLACK_BYTES + IPU_BUFFER_ALIGNMENT, &memory));
    memory = (char *)ipu_buffer_round_up((uintptr_t)memory);
    for (size_t i = 0; i < l->constants.count; i++) {
        const constant *c = &l->constants.items[i];
        memcpy(memory + c->offset, c->data, c->bytes);
    }
    program->constants = memory;
    return IPU_OK;
}

static ipu_status
lower(lowering *l)
{
    const ipu_graph *graph = l->graph;
    size_t resources = graph->resources.count;
    IPU_TRY(ipu__lower_array(l, graph->values.count, sizeof(*l->values), &l->values));
    IPU_TRY(ipu__lower_array(l, graph->nodes.count, sizeof(*l->begin), &l->begin));
    IPU_TRY(ipu__lower_array(l, graph->nodes.count, sizeof(*l->end), &l->end));
    IPU_TRY(
        ipu__lower_array(l, graph->blocks.count, sizeof(*l->block_end), &l->block_end));
    IPU_TRY(ipu__lower_array(l, resources, sizeof(*l->resource_map), &l->resource_map));
    IPU_TRY(ipu__lower_array(l, resources, sizeof(*l->last_write), &l->last_write));
    IPU_TRY(ipu__lower_array(l, graph->values.count + resources, sizeof(*l->in_panels),
                             &l->in_panels));
    for (size_t i = 0; i < resources; i++) {
        l->resource_map[i] = IPU_NO_INDEX;
    }
    IPU_TRY(IPU_ARRAY_PUSH(l->ctx, &l->program->streams, (ipu_stream){0}));
    ipu__lower_enter_stream(l, 0);
    l->program->micro_batches = 1;
    l->program->is_host = graph->host;
    IPU_TRY(ipu_failures_find(l->ctx, graph, &l->failures));
    IPU_TRY(ipu__lower_find_uses(l));
    IPU_TRY(ipu__lower_find_panels(l));
    IPU_TRY(lower_main(l));
    IPU_TRY(store_constants(l));
    IPU_TRY(copy_held(l));
    IPU_TRY(ipu__lower_find_regions(l));
    return ipu__lower_plan_slabs(l);
}

ipu_status
ipu_program_create(ipu_ctx *ctx, const ipu_graph *graph,
                   const ipu_compile_options *options, ipu_program **out)
{
    *out = NULL;
    if (options->verify) {
        IPU_TRY(ipu_graph_verify(ctx, graph));
    }
    ipu_program *program;
    IPU_TRY(ipu_alloc(ctx, sizeof(*program), &program));
    program->id = ipu_event_new_id();
    lowering l = {.ctx = ctx,
                  .graph = graph,
                  .options = options,
                  .program = program,
                  .counted = IPU_NO_NODE};
    ipu_status status = lower(&l);
    if (status == IPU_OK && options->verify) {
        status = ipu_program_verify(ctx, program);
    }
    ipu_arena_free(ctx, &l.arena);
    ipu_failures_free(ctx, &l.failures);
    IPU_ARRAY_FREE(ctx, &l.writes);
    ipu_id_map_free(ctx, &l.constants_by_hash);
    ipu_id_map_free(ctx, &l.input_counts);
    IPU_ARRAY_FREE(ctx, &l.bucket);
    IPU_ARRAY_FREE(ctx, &l.posted);
    IPU_ARRAY_FREE(ctx, &l.constants);
    IPU_ARRAY_FREE(ctx, &l.buffers);
    IPU_ARRAY_FREE(ctx, &l.loops);
    if (status != IPU_OK) {
        ipu_program_free(ctx, program);
        return status;
    }
    *out = program;
    return IPU_OK;
}
