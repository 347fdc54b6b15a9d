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
 *   - the result of an IN_PLACE op in the buffer of its dying first input;
 *   - a carried value in one buffer for the whole loop: that of its initial value where
 *     that dies on entry, and written by the node that makes the next value where the
 *     parameter is dead by then. What is left moves at the loop's end, all at once;
 *   - everything else in a slab buffer of its own.
 *
 * Buffers have virtual numbers while instructions are made; their lifetimes are read
 * off the finished instructions, planned, checked, and only then do places get
 * offsets. */
#include "program/lower_impl.h"

#include <string.h>

static ipu_place
slab_place(int32_t buffer)
{
    return (ipu_place){.space = IPU_SPACE_SLAB, .index = (uint32_t)buffer};
}

/* A slab buffer for a root: the wanted one, or a new one. */
static ipu_status
place_in_slab(lowering *l, ipu_value value)
{
    value_info *info = &l->values[value.index];
    int32_t buffer = info->wanted;
    if (buffer == IPU__NO_BUFFER) {
        IPU_TRY(ipu__lower_new_buffer(l, bytes_of(l, value), &buffer));
    }
    info->place = slab_place(buffer);
    return IPU_OK;
}

/* Whether `root`, used for the last time at `time`, leaves its buffer to `heir`. */
static bool
can_inherit(const lowering *l, const value_info *root, int32_t time, uint32_t heir)
{
    if (root->place.space != IPU_SPACE_SLAB || root->last_use != time) {
        return false;
    }
    uint32_t reserved = l->reserved.items[root->place.index];
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
    return copy_text(l, node->name, &instruction->name);
}

static ipu_status
new_places(lowering *l, size_t count, ipu_place **out)
{
    size_t bytes;
    IPU_TRY(ipu_mul_size(l->ctx, count, sizeof(ipu_place), &bytes));
    return ipu_arena_alloc(l->ctx, &l->program->arena, bytes, out);
}

static ipu_status
emit(lowering *l, const ipu_node_data *node, ipu_instruction *instruction)
{
    IPU_FAIL_IF(l->ctx, l->program->instructions.count >= INT32_MAX - 1, OUT_OF_MEMORY,
                "out of memory: more than 2^31 instructions");
    IPU_TRY(set_source(l, node, instruction));
    return IPU_ARRAY_PUSH(l->ctx, &l->program->instructions, *instruction);
}

static ipu_status
emit_copy(lowering *l, const ipu_node_data *node, ipu_place from, ipu_place to,
          size_t bytes)
{
    if (bytes == 0) {
        return IPU_OK;
    }
    ipu_place *places;
    IPU_TRY(new_places(l, 2, &places));
    places[0] = from;
    places[1] = to;
    ipu_instruction copy = {.kind = IPU_INSTRUCTION_COPY,
                            .input_count = 1,
                            .output_count = 1,
                            .inputs = &places[0],
                            .outputs = &places[1],
                            .bytes = bytes};
    return emit(l, node, &copy);
}

/* The program's index of a graph's resource; it is added on first use, so that
 * resources which no node names are not bound. */
static ipu_status
use_resource(lowering *l, uint32_t index, uint32_t *out)
{
    if (l->resource_map[index] == IPU_NO_INDEX) {
        ipu_resource resource = l->graph->resources.items[index];
        ipu_type *types;
        size_t bytes = resource.type_count * sizeof(ipu_type);
        IPU_TRY(ipu_arena_alloc(l->ctx, &l->program->arena, bytes, &types));
        if (bytes > 0) {
            memcpy(types, resource.types, bytes);
        }
        resource.types = types;
        IPU_TRY(copy_text(l, resource.name, &resource.name));
        IPU_TRY(IPU_ARRAY_PUSH(l->ctx, &l->program->resources, resource));
        l->resource_map[index] = (uint32_t)l->program->resources.count - 1;
    }
    *out = l->resource_map[index];
    return IPU_OK;
}

static ipu_status
lower_constant(lowering *l, const ipu_node_data *node)
{
    const ipu_attr *value = ipu_attrs_find(node->attrs, IPU_ATTR_VALUE);
    size_t bytes = value == NULL ? 0 : value->count;
    constant found = {.bytes = bytes};
    bool is_known = false;
    for (size_t i = 0; bytes > 0 && i < l->constants.count && !is_known; i++) {
        const constant *known = &l->constants.items[i];
        is_known = known->bytes == bytes &&
                   memcmp(known->data, value->as.bytes, bytes) == 0;
        found = is_known ? *known : found;
    }
    if (!is_known && bytes > 0) {
        found = (constant){value->as.bytes, bytes, l->program->constant_bytes};
        IPU_TRY(IPU_ARRAY_PUSH(l->ctx, &l->constants, found));
        l->program->constant_bytes += ipu_buffer_round_up(bytes);
    }
    l->values[node->first_output].place =
        (ipu_place){.space = IPU_SPACE_CONSTANT, .offset = found.offset};
    return IPU_OK;
}

static ipu_status
lower_variable_read(lowering *l, ipu_node id, const ipu_node_data *node)
{
    uint32_t index = (uint32_t)ipu_attrs_int(node->attrs, IPU_ATTR_RESOURCE, 0);
    ipu_value output = ipu_node_output(node, 0);
    value_info *info = &l->values[output.index];
    ipu_place variable = {.space = IPU_SPACE_VARIABLE};
    IPU_TRY(use_resource(l, index, &variable.index));
    if (!ipu__lower_written_before_last_use(l, index, info, l->begin[id.index])) {
        info->place = variable;
        return IPU_OK;
    }
    IPU_TRY(place_in_slab(l, output));
    return emit_copy(l, node, variable, info->place, bytes_of(l, output));
}

static ipu_status
lower_dequeue(lowering *l, ipu_node id, const ipu_node_data *node)
{
    uint32_t index = (uint32_t)ipu_attrs_int(node->attrs, IPU_ATTR_RESOURCE, 0);
    ipu_instruction dequeue = {.kind = IPU_INSTRUCTION_DEQUEUE,
                               .output_count = node->output_count};
    IPU_TRY(use_resource(l, index, &dequeue.resource));
    uint32_t first = ipu_program_infeed_base(l->program, dequeue.resource);
    ipu_place *slots;
    IPU_TRY(new_places(l, node->output_count, &slots));
    for (uint32_t i = 0; i < node->output_count; i++) {
        slots[i] = (ipu_place){.space = IPU_SPACE_INFEED, .index = first + i};
    }
    dequeue.outputs = slots;
    IPU_TRY(emit(l, node, &dequeue));
    for (uint32_t i = 0; i < node->output_count; i++) {
        ipu_value output = ipu_node_output(node, i);
        value_info *info = &l->values[output.index];
        if (!ipu__lower_written_before_last_use(l, index, info, l->begin[id.index])) {
            info->place = slots[i];
            continue;
        }
        IPU_TRY(place_in_slab(l, output));
        IPU_TRY(emit_copy(l, node, slots[i], info->place, bytes_of(l, output)));
    }
    return IPU_OK;
}

static ipu_status
input_places(lowering *l, const ipu_node_data *node, ipu_instruction *instruction)
{
    ipu_place *inputs;
    IPU_TRY(new_places(l, node->input_count, &inputs));
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
    uint32_t index = (uint32_t)ipu_attrs_int(node->attrs, IPU_ATTR_RESOURCE, 0);
    ipu_instruction enqueue = {.kind = IPU_INSTRUCTION_ENQUEUE};
    IPU_TRY(use_resource(l, index, &enqueue.resource));
    IPU_TRY(input_places(l, node, &enqueue));
    return emit(l, node, &enqueue);
}

/* Whether the kernel's first output may overwrite the first input's bytes. A second
 * input with the same bytes may be read at other positions than it is written
 * (broadcast). */
static bool
fits_in_place(lowering *l, const ipu_node_data *node)
{
    if ((flags_of(node) & IPU_OP_IN_PLACE) == 0 ||
        !ipu_type_equal(&ipu_value_of(l->graph, node->inputs[0])->type,
                        &ipu_value_of(l->graph, ipu_node_output(node, 0))->type)) {
        return false;
    }
    for (uint32_t i = 1; i < node->input_count; i++) {
        if (root_of(l, node->inputs[i]) == root_of(l, node->inputs[0])) {
            return false;
        }
    }
    return true;
}

static ipu_status
copy_attrs(lowering *l, ipu_attrs attrs, ipu_attrs *out)
{
    ipu_attr *items;
    IPU_TRY(ipu_arena_alloc(l->ctx, &l->program->arena,
                            attrs.count * sizeof(ipu_attr), &items));
    for (uint32_t i = 0; i < attrs.count; i++) {
        ipu_attr_kind kind = ipu_attr_kind_of(attrs.items[i].key);
        items[i] = attrs.items[i];
        size_t item_bytes = kind == IPU_ATTR_KIND_INTS ? sizeof(int64_t)
                            : kind == IPU_ATTR_KIND_BYTES || kind == IPU_ATTR_KIND_TEXT
                                ? 1
                                : 0;
        size_t bytes = items[i].count * item_bytes;
        if (item_bytes != 0) {
            char *copy;
            IPU_TRY(ipu_arena_alloc(l->ctx, &l->program->arena, bytes + 1, &copy));
            if (bytes > 0) {
                memcpy(copy, attrs.items[i].as.bytes, bytes);
            }
            items[i].as.bytes = copy;
        }
    }
    *out = (ipu_attrs){items, attrs.count};
    return IPU_OK;
}

/* The kernel's own outputs come behind the resource's buffers. */
static ipu_status
output_places(lowering *l, ipu_node id, const ipu_node_data *node,
              ipu_instruction *instruction, ipu_type **out_types)
{
    uint32_t slot_count = 0;
    uint32_t resource_count = 0;
    const int64_t *slots = NULL;
    if (flags_of(node) & (IPU_OP_READS | IPU_OP_WRITES)) {
        slots = ipu_attrs_ints(node->attrs, IPU_ATTR_SLOTS, &slot_count);
        resource_count = 1 + slot_count;
    }
    size_t count = (size_t)resource_count + node->output_count;
    ipu_place *places;
    ipu_type *types;
    IPU_TRY(new_places(l, count, &places));
    IPU_TRY(ipu_arena_alloc(l->ctx, &l->program->arena, count * sizeof(ipu_type),
                            &types));
    for (uint32_t i = 0; i < resource_count; i++) {
        int64_t index = i == 0 ? ipu_attrs_int(node->attrs, IPU_ATTR_RESOURCE, 0)
                               : slots[i - 1];
        places[i].space = IPU_SPACE_VARIABLE;
        IPU_TRY(use_resource(l, (uint32_t)index, &places[i].index));
        types[i] = l->program->resources.items[places[i].index].types[0];
    }
    for (uint32_t i = 0; i < node->output_count; i++) {
        ipu_value output = ipu_node_output(node, i);
        value_info *info = &l->values[output.index];
        const value_info *first =
            node->input_count > 0 ? root_of(l, node->inputs[0]) : NULL;
        if (i == 0 && info->wanted == IPU__NO_BUFFER && first != NULL &&
            can_inherit(l, first, l->begin[id.index], output.index) &&
            fits_in_place(l, node)) {
            info->place = first->place;
        } else {
            IPU_TRY(place_in_slab(l, output));
        }
        places[resource_count + i] = info->place;
        types[resource_count + i] = ipu_value_of(l->graph, output)->type;
    }
    instruction->output_count = (uint32_t)count;
    instruction->outputs = places;
    *out_types = types;
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
    ipu_kernel_spec spec = {.op = node->op,
                            .input_count = instruction.input_count,
                            .output_count = instruction.output_count,
                            .inputs = inputs,
                            .outputs = outputs};
    IPU_TRY(copy_attrs(l, node->attrs, &spec.attrs));
    IPU_TRY(ipu_kernel_prepare(l->ctx, &spec, l->options->variant, l->options->cpu));
    IPU_TRY(IPU_ARRAY_PUSH(l->ctx, &l->program->specs, spec));
    if (spec.workspace_bytes > l->program->workspace_bytes) {
        l->program->workspace_bytes = spec.workspace_bytes;
    }
    if (flags_of(node) & IPU_OP_RANDOM) {
        l->program->uses_random = true;
    }
    return emit(l, node, &instruction);
}

/* --- loops ----------------------------------------------------------------------- */

static ipu_status lower_block(lowering *l, ipu_block id);

static bool
is_only_input(lowering *l, const ipu_node_data *node, uint32_t which)
{
    const value_info *root = root_of(l, node->inputs[which]);
    for (uint32_t i = 0; i < node->input_count; i++) {
        if (i != which && root_of(l, node->inputs[i]) == root) {
            return false;
        }
    }
    return true;
}

/* The buffer of carried value i: that of its initial value, one that an outer loop
 * wants the final value in, or a new one. */
static ipu_status
place_carried(lowering *l, ipu_node id, const ipu_node_data *node, uint32_t i)
{
    ipu_value output = ipu_node_output(node, i);
    const value_info *initial = root_of(l, node->inputs[i + 1]);
    value_info *final = &l->values[output.index];
    if (final->wanted == IPU__NO_BUFFER &&
        can_inherit(l, initial, l->begin[id.index], output.index) &&
        is_only_input(l, node, i + 1)) {
        final->place = initial->place;
    } else {
        IPU_TRY(place_in_slab(l, output));
        bool is_there = initial->place.space == IPU_SPACE_SLAB &&
                        initial->place.index == final->place.index;
        if (!is_there) {
            IPU_TRY(emit_copy(l, node, initial->place, final->place,
                              bytes_of(l, output)));
        }
    }
    ipu_value param = ipu_block_of(l->graph, body_of(node))->params.items[i];
    l->values[param.index].place = final->place;
    return IPU_OK;
}

/* Whether the producer of `result` may write over parameter i of its block: nothing
 * reads the parameter afterwards, or only the producer itself, which works in place. */
static bool
can_overwrite_param(lowering *l, const value_info *param, ipu_value result,
                    ipu_block body)
{
    const ipu_value_data *data = ipu_value_of(l->graph, result);
    if (data->block.index != body.index || data->producer.index == IPU_NO_INDEX) {
        return false;
    }
    const ipu_node_data *node = ipu_node_of(l->graph, data->producer);
    int32_t made = l->begin[data->producer.index];
    if (flags_of(node) & IPU_OP_BLOCK) {
        uint32_t entry = data->position + 1;
        return param->last_use < made ||
               (param->last_use == made && is_only_input(l, node, entry) &&
                root_of(l, node->inputs[entry]) == param);
    }
    if ((flags_of(node) & IPU_OP_KERNEL) == 0) {
        return false;
    }
    return param->last_use < made ||
           (param->last_use == made && data->position == 0 &&
            root_of(l, node->inputs[0]) == param && fits_in_place(l, node));
}

/* Lets the producers of the next values write straight into the carried buffers. */
static void
want_results(lowering *l, ipu_block body)
{
    const ipu_block_data *block = ipu_block_of(l->graph, body);
    for (size_t i = 0; i < block->params.count; i++) {
        const value_info *param = &l->values[block->params.items[i].index];
        value_info *result = root_of(l, block->results.items[i]);
        ipu_value root = {(uint32_t)(result - l->values)};
        if (result->wanted == IPU__NO_BUFFER &&
            can_overwrite_param(l, param, root, body)) {
            result->wanted = (int32_t)param->place.index;
            l->reserved.items[param->place.index] = root.index;
        }
    }
}

typedef struct move {
    ipu_place from;
    ipu_place to;
    size_t bytes;
} move;

static bool
same_buffer(ipu_place a, ipu_place b)
{
    return a.space == IPU_SPACE_SLAB && b.space == IPU_SPACE_SLAB && a.index == b.index;
}

static bool
is_read_by_other(const move *moves, size_t count, size_t which)
{
    for (size_t i = 0; i < count; i++) {
        if (i != which && same_buffer(moves[i].from, moves[which].to)) {
            return true;
        }
    }
    return false;
}

/* All at once: a move waits for those that read what it overwrites; where all wait,
 * they go in circles, and one value steps aside into a buffer of its own. */
static ipu_status
emit_moves(lowering *l, const ipu_node_data *node, move *moves, size_t count)
{
    while (count > 0) {
        size_t i = 0;
        while (i < count && is_read_by_other(moves, count, i)) {
            i++;
        }
        if (i < count) {
            IPU_TRY(emit_copy(l, node, moves[i].from, moves[i].to, moves[i].bytes));
            moves[i] = moves[--count];
            continue;
        }
        int32_t aside;
        ipu_place victim = moves[0].to;
        IPU_TRY(ipu__lower_new_buffer(l, moves[0].bytes, &aside));
        IPU_TRY(emit_copy(l, node, victim, slab_place(aside), moves[0].bytes));
        for (size_t k = 0; k < count; k++) {
            if (same_buffer(moves[k].from, victim)) {
                moves[k].from = slab_place(aside);
            }
        }
    }
    return IPU_OK;
}

static ipu_status
move_results(lowering *l, const ipu_node_data *node, ipu_block body)
{
    const ipu_block_data *block = ipu_block_of(l->graph, body);
    size_t count = 0;
    size_t bytes;
    move *moves;
    IPU_TRY(ipu_mul_size(l->ctx, block->params.count, sizeof(move), &bytes));
    IPU_TRY(ipu_alloc(l->ctx, bytes, &moves));
    for (size_t i = 0; i < block->params.count; i++) {
        move m = {.from = root_of(l, block->results.items[i])->place,
                  .to = l->values[block->params.items[i].index].place,
                  .bytes = bytes_of(l, block->params.items[i])};
        if (!same_buffer(m.from, m.to) && m.bytes > 0) {
            moves[count++] = m;
        }
    }
    ipu_status status = emit_moves(l, node, moves, count);
    ipu_free(l->ctx, moves, bytes);
    return status;
}

/* Behind the loop a carried buffer is free for any heir of the final value, unless an
 * outer loop wants the final value to stay in it. */
static void
release_carried(lowering *l, const ipu_node_data *node)
{
    for (uint32_t i = 0; i < node->output_count; i++) {
        const value_info *final = &l->values[node->first_output + i];
        l->reserved.items[final->place.index] =
            final->wanted == IPU__NO_BUFFER ? IPU_NO_INDEX : node->first_output + i;
    }
}

static ipu_status
lower_repeat(lowering *l, ipu_node id, const ipu_node_data *node)
{
    ipu_block body = body_of(node);
    uint32_t counter = l->program->loop_count++;
    for (uint32_t i = 0; i < node->output_count; i++) {
        IPU_TRY(place_carried(l, id, node, i));
    }
    want_results(l, body);
    ipu_place *trips;
    IPU_TRY(new_places(l, 1, &trips));
    trips[0] = root_of(l, node->inputs[0])->place;
    ipu_instruction loop = {.kind = IPU_INSTRUCTION_LOOP,
                            .input_count = 1,
                            .inputs = trips,
                            .loop = counter};
    int32_t first = (int32_t)l->program->instructions.count;
    IPU_TRY(emit(l, node, &loop));
    IPU_TRY(lower_block(l, body));
    IPU_TRY(move_results(l, node, body));
    ipu_instruction next = {.kind = IPU_INSTRUCTION_NEXT,
                            .loop = counter,
                            .target = first + 1};
    int32_t last = (int32_t)l->program->instructions.count;
    IPU_TRY(emit(l, node, &next));
    l->program->instructions.items[first].target = last + 1;
    release_carried(l, node);
    loop_span span = {first, last};
    return IPU_ARRAY_PUSH(l->ctx, &l->loops, span);
}

static ipu_status
lower_node(lowering *l, ipu_node id, const ipu_node_data *node)
{
    if (flags_of(node) & IPU_OP_VIEW) {
        return IPU_OK;
    }
    if (flags_of(node) & IPU_OP_KERNEL) {
        return lower_kernel(l, id, node);
    }
    switch (node->op) {
    case IPU_OP_ID_CONSTANT:
        return lower_constant(l, node);
    case IPU_OP_ID_VARIABLE_READ:
        return lower_variable_read(l, id, node);
    case IPU_OP_ID_INFEED_DEQUEUE:
        return lower_dequeue(l, id, node);
    case IPU_OP_ID_OUTFEED_ENQUEUE:
        return lower_enqueue(l, node);
    case IPU_OP_ID_REPEAT:
        return lower_repeat(l, id, node);
    default:
        break;
    }
    IPU_FAIL(l->ctx, UNIMPLEMENTED, "%s cannot be lowered",
             ipu_op_info_of(node->op)->name);
}

static ipu_status
lower_block(lowering *l, ipu_block id)
{
    const ipu_block_data *block = ipu_block_of(l->graph, id);
    for (size_t i = 0; i < block->nodes.count; i++) {
        ipu_node node_id = block->nodes.items[i];
        const ipu_node_data *node = ipu_node_of(l->graph, node_id);
        ipu_status status = lower_node(l, node_id, node);
        if (status != IPU_OK) {
            if (l->ctx->source.file == NULL) {
                l->ctx->source = node->source;
            }
            return status;
        }
        if ((flags_of(node) & IPU_OP_BLOCK) == 0) {
            l->program->flops_per_run += ipu_node_cost(l->graph, node_id).flops;
        }
    }
    return IPU_OK;
}

/* --- the whole ------------------------------------------------------------------- */

static ipu_status
copy_types(lowering *l, const ipu_value *values, size_t count, const ipu_type **out)
{
    ipu_type *types;
    size_t bytes;
    IPU_TRY(ipu_mul_size(l->ctx, count, sizeof(ipu_type), &bytes));
    IPU_TRY(ipu_arena_alloc(l->ctx, &l->program->arena, bytes, &types));
    for (size_t i = 0; i < count; i++) {
        types[i] = ipu_value_of(l->graph, values[i])->type;
    }
    *out = types;
    return IPU_OK;
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
        const value_info *info = &l->values[param.index];
        IPU_TRY(place_in_slab(l, param));
        if (info->last_use > info->defined) { /* what nobody reads is not taken in */
            ipu_place input = {.space = IPU_SPACE_INPUT, .index = i};
            IPU_TRY(emit_copy(l, NULL, input, info->place, bytes_of(l, param)));
        }
    }
    IPU_TRY(lower_block(l, (ipu_block){0}));
    for (uint32_t i = 0; i < program->output_count; i++) {
        ipu_value result = main_block->results.items[i];
        ipu_place output = {.space = IPU_SPACE_OUTPUT, .index = i};
        IPU_TRY(emit_copy(l, NULL, root_of(l, result)->place, output,
                          bytes_of(l, result)));
    }
    ipu_instruction halt = {.kind = IPU_INSTRUCTION_HALT};
    return emit(l, NULL, &halt);
}

static ipu_status
store_constants(lowering *l)
{
    ipu_program *program = l->program;
    char *memory;
    if (program->constant_bytes == 0) {
        return IPU_OK;
    }
    IPU_TRY(ipu_arena_alloc(l->ctx, &program->arena,
                            program->constant_bytes + IPU_SLACK_BYTES +
                                IPU_BUFFER_ALIGNMENT,
                            &memory));
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
    IPU_TRY(ipu_alloc(l->ctx, graph->values.count * sizeof(*l->values), &l->values));
    IPU_TRY(ipu_alloc(l->ctx, graph->nodes.count * sizeof(*l->begin), &l->begin));
    IPU_TRY(ipu_alloc(l->ctx, graph->nodes.count * sizeof(*l->end), &l->end));
    IPU_TRY(ipu_alloc(l->ctx, graph->resources.count * sizeof(*l->resource_map),
                      &l->resource_map));
    for (size_t i = 0; i < graph->resources.count; i++) {
        l->resource_map[i] = IPU_NO_INDEX;
    }
    IPU_TRY(ipu__lower_find_uses(l));
    IPU_TRY(lower_main(l));
    IPU_TRY(store_constants(l));
    return ipu__lower_plan_slab(l);
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
    lowering l = {.ctx = ctx, .graph = graph, .options = options, .program = program};
    ipu_status status = lower(&l);
    if (status == IPU_OK && options->verify) {
        status = ipu_program_verify(ctx, program);
    }
    ipu_free(ctx, l.values, graph->values.count * sizeof(*l.values));
    ipu_free(ctx, l.begin, graph->nodes.count * sizeof(*l.begin));
    ipu_free(ctx, l.end, graph->nodes.count * sizeof(*l.end));
    ipu_free(ctx, l.resource_map, graph->resources.count * sizeof(*l.resource_map));
    IPU_ARRAY_FREE(ctx, &l.writes);
    IPU_ARRAY_FREE(ctx, &l.constants);
    IPU_ARRAY_FREE(ctx, &l.buffers);
    IPU_ARRAY_FREE(ctx, &l.reserved);
    IPU_ARRAY_FREE(ctx, &l.loops);
    if (status != IPU_OK) {
        ipu_program_free(ctx, program);
        return status;
    }
    *out = program;
    return IPU_OK;
}

void
ipu_program_free(ipu_ctx *ctx, ipu_program *program)
{
    if (program == NULL) {
        return;
    }
    IPU_ARRAY_FREE(ctx, &program->instructions);
    IPU_ARRAY_FREE(ctx, &program->specs);
    IPU_ARRAY_FREE(ctx, &program->resources);
    ipu_arena_free(ctx, &program->arena);
    ipu_free(ctx, program, sizeof(*program));
}
