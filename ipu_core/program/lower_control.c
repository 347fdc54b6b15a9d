/* SPDX-License-Identifier: MIT
 *
 * Loops and branches as instructions:
 *
 *     loop  trips -> end       while -> end            switch index -> a, b
 *       body                     condition             a: ...
 *     next                       test -> end              jump -> end
 *     end:                       body                  b: ...
 *                              next                    end:
 *                              end:
 *
 * A carried value has one buffer for the whole loop: that of its initial value where
 * that dies on entry. It is written by the node that makes the next value where the
 * parameter is dead by then; what is left moves at the body's end, all at once.
 *
 * A result of a switch has one buffer for all branches: the one that a loop around it
 * wants it in, that of a value which dies in the switch and which a branch hands on as
 * it is, or a new one. Each branch writes it directly where nothing that the branch
 * still reads lies there, and moves the rest at its end.
 *
 * So a row that is written into a carried tensor, in a branch or not, is written in
 * place, and the rest of the tensor stays where it is. */
#include "graph/trips.h"
#include "program/lower_impl.h"

/* --- moves ----------------------------------------------------------------------- */

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
            IPU_TRY(
                ipu__lower_copy(l, node, moves[i].from, moves[i].to, moves[i].bytes));
            moves[i] = moves[--count];
            continue;
        }
        int32_t aside;
        ipu_place victim = moves[0].to;
        IPU_TRY(ipu__lower_new_buffer(l, moves[0].bytes, &aside));
        IPU_TRY(ipu__lower_copy(l, node, victim, slab_place(aside), moves[0].bytes));
        for (size_t k = 0; k < count; k++) {
            if (same_buffer(moves[k].from, victim)) {
                moves[k].from = slab_place(aside);
            }
        }
    }
    return IPU_OK;
}

ipu_status
ipu__lower_move_results(lowering *l, const ipu_node_data *node, ipu_block id,
                        const bool *which)
{
    const ipu_block_data *block = ipu_block_of(l->graph, id);
    size_t count = 0;
    move *moves;
    IPU_TRY(ipu__lower_array(l, node->output_count, sizeof(move), &moves));
    for (uint32_t i = 0; i < node->output_count; i++) {
        ipu_value output = ipu_node_output(node, i);
        move m = {.from = root_of(l, block->results.items[i])->place,
                  .to = l->values[output.index].place,
                  .bytes = bytes_of(l, output)};
        bool is_asked = which == NULL || which[i];
        if (is_asked && !same_buffer(m.from, m.to) && m.bytes > 0) {
            moves[count++] = m;
        }
    }
    return emit_moves(l, node, moves, count);
}

void
ipu__lower_release_outputs(lowering *l, const ipu_node_data *node)
{
    for (uint32_t i = 0; i < node->output_count; i++) {
        uint32_t output = ipu_node_output(node, i).index;
        const value_info *final = &l->values[output];
        l->buffers.items[final->place.index].reserved =
            final->wanted == IPU__NO_BUFFER ? IPU_NO_INDEX : output;
    }
}

/* --- which node may write into which buffer --------------------------------------- */

/* Whether no other input of the node has the bytes of input `which`. */
static ipu_status
is_only_input(lowering *l, ipu_node id, uint32_t which, bool *out)
{
    const ipu_node_data *node = ipu_node_of(l->graph, id);
    if (l->counted.index != id.index) {
        ipu_id_map_clear(&l->input_counts);
        l->counted = id;
        for (uint32_t i = 0; i < node->input_count; i++) {
            uint32_t root = l->values[node->inputs[i].index].root;
            uint32_t count = ipu_id_map_get(&l->input_counts, root, 0);
            IPU_TRY(ipu_id_map_put(l->ctx, &l->input_counts, root, count + 1));
        }
    }
    uint32_t root = l->values[node->inputs[which].index].root;
    *out = ipu_id_map_get(&l->input_counts, root, 0) == 1;
    return IPU_OK;
}

/* Whether the producer of `result`, a node of `block`, may write into `buffer`, whose
 * bytes are read for the last time at `last_read`: nothing reads them afterwards, or
 * the producer itself does, which works in place. */
static ipu_status
can_write_over(lowering *l, int32_t buffer, int32_t last_read, ipu_value result,
               ipu_block block, bool *out)
{
    const ipu_value_data *data = ipu_value_of(l->graph, result);
    const ipu_node id = data->producer;
    *out = false;
    if (data->block.index != block.index || !ipu_is_node(id)) {
        return IPU_OK;
    }
    const ipu_node_data *node = ipu_node_of(l->graph, id);
    int32_t made = l->begin[id.index];
    uint32_t same = 0; /* the input that may have the bytes */
    bool in_place = false;
    if (ipu_node_is_loop(node)) {
        same = ipu_node_entering(node, data->position);
        IPU_TRY(is_only_input(l, id, same, &in_place));
    } else if (ipu_node_holds_blocks(node)) {
        *out = last_read <= l->end[id.index]; /* its branches see to it */
        return IPU_OK;
    } else if (ipu_node_flags(node) & IPU_OP_KERNEL) {
        while (
            same < node->input_count &&
            !same_buffer(root_of(l, node->inputs[same])->place, slab_place(buffer))) {
            same++;
        }
        in_place = data->position == 0 && ipu__lower_fits_in_place(l, node, same);
    } else if (node->op != IPU_OP_ID_EMPTY) {
        return IPU_OK;
    }
    *out = last_read < made ||
           (last_read == made && in_place &&
            same_buffer(root_of(l, node->inputs[same])->place, slab_place(buffer)));
    return IPU_OK;
}

void
ipu__lower_want(lowering *l, value_info *result, int32_t buffer)
{
    result->wanted = buffer;
    l->buffers.items[buffer].reserved = (uint32_t)(result - l->values);
}

/* --- loops ----------------------------------------------------------------------- */

ipu_status
ipu__lower_initial(lowering *l, const ipu_node_data *loop, ipu_value initial,
                   int32_t buffer)
{
    value_info *root = root_of(l, initial);
    ipu_value value = {(uint32_t)(root - l->values)};
    size_t bytes = bytes_of(l, initial);
    if (!root->is_filled_late) {
        return ipu__lower_copy(l, loop, root->place, slab_place(buffer), bytes);
    }
    root->wanted = buffer;
    if (l->buffers.items[buffer].is_remote) { /* no kernel writes there */
        IPU_TRY(ipu__lower_new_buffer(l, bytes, &root->wanted));
    }
    IPU_TRY(ipu__lower_fill(l, ipu_value_of(l->graph, value)->producer));
    int32_t filled = root->wanted;
    root->wanted = IPU__NO_BUFFER;
    return filled == buffer ? IPU_OK
                            : ipu__lower_copy(l, loop, slab_place(filled),
                                              slab_place(buffer), bytes);
}

void
ipu__lower_place_params(lowering *l, const ipu_node_data *node, uint32_t i)
{
    for (uint32_t b = 0; b < ipu_node_block_count(node); b++) {
        ipu_value param =
            ipu_block_of(l->graph, ipu_node_block(node, b))->params.items[i];
        l->values[param.index].place = l->values[ipu_node_output(node, i).index].place;
    }
}

/* The buffer of carried value i: that of its initial value, one that an outer loop
 * wants the final value in, or a new one. */
static ipu_status
place_carried(lowering *l, ipu_node id, const ipu_node_data *node, uint32_t i)
{
    uint32_t input = ipu_node_entering(node, i);
    ipu_value output = ipu_node_output(node, i);
    const value_info *initial = root_of(l, node->inputs[input]);
    value_info *final = &l->values[output.index];
    bool is_only;
    IPU_TRY(is_only_input(l, id, input, &is_only));
    if (is_only && final->wanted == IPU__NO_BUFFER && !initial->is_filled_late &&
        ipu__lower_can_inherit(l, initial, l->begin[id.index], output.index)) {
        final->place = initial->place;
    } else {
        IPU_TRY(ipu__lower_place(l, output));
        if (!same_buffer(initial->place, final->place)) {
            IPU_TRY(ipu__lower_initial(l, node, node->inputs[input],
                                       (int32_t) final->place.index));
        }
    }
    ipu__lower_place_params(l, node, i);
    return IPU_OK;
}

ipu_status
ipu__lower_want_next_values(lowering *l, ipu_block body, const bool *which)
{
    const ipu_block_data *block = ipu_block_of(l->graph, body);
    for (size_t i = 0; i < block->params.count; i++) {
        const value_info *param = &l->values[block->params.items[i].index];
        value_info *result = root_of(l, block->results.items[i]);
        ipu_value root = {(uint32_t)(result - l->values)};
        int32_t buffer = (int32_t)param->place.index;
        bool can = false;
        if (which == NULL || which[i]) {
            IPU_TRY(can_write_over(l, buffer, param->last_use, root, body, &can));
        }
        if (can && result->wanted == IPU__NO_BUFFER) {
            ipu__lower_want(l, result, buffer);
        }
    }
    return IPU_OK;
}

/* One input place with the value's bytes. */
static ipu_status
set_input(lowering *l, ipu_instruction *instruction, ipu_value value)
{
    instruction->input_count = 1;
    return ipu_arena_copy(l->ctx, &l->program->arena, &root_of(l, value)->place,
                          sizeof(ipu_place), &instruction->inputs);
}

/* The block `condition` and the instruction that leaves the loop. */
static ipu_status
lower_condition(lowering *l, const ipu_node_data *node, const ipu_instruction *loop,
                int32_t *test)
{
    ipu_block condition = ipu_node_block(node, 0);
    ipu_instruction instruction = {
        .kind = IPU_INSTRUCTION_TEST, .loop = loop->loop, .is_step = loop->is_step};
    IPU_TRY(ipu__lower_block(l, condition));
    IPU_TRY(set_input(l, &instruction,
                      ipu_block_of(l->graph, condition)->results.items[0]));
    *test = (int32_t)l->stream->instructions.count;
    return ipu__lower_emit(l, node, &instruction);
}

ipu_status
ipu__lower_loop(lowering *l, ipu_node id, const ipu_node_data *node)
{
    ipu_block body = ipu_node_body(node);
    bool has_condition = ipu_block_op_of(node->op)->has_condition;
    if (node->op == IPU_OP_ID_PIPELINE) {
        int64_t count = ipu_loop_most_turns(l->graph, id);
        IPU_FAIL_IF(l->ctx, count < 0, FAILED_PRECONDITION,
                    "the number of micro-batches must be known when the program is "
                    "compiled: pass a Python int");
        if (count > l->program->micro_batches) {
            l->program->micro_batches = (uint32_t)count;
        }
    }
    uint32_t counter = l->stream->loop_count++;
    for (uint32_t i = 0; i < node->output_count; i++) {
        IPU_TRY(place_carried(l, id, node, i));
    }
    ipu_instruction loop = {
        .kind = IPU_INSTRUCTION_WHILE,
        .loop = counter,
        .bound = ipu_loop_most_turns(l->graph, id),
        .turns = ipu_attrs_int(node->attrs, IPU_ATTR_MAXIMUM_ITERATIONS, -1),
        .is_step = l->loop_depth == 0 && node->op != IPU_OP_ID_PIPELINE &&
                   ipu_attrs_int(node->attrs, IPU_ATTR_IS_PART, 0) == 0,
        .is_micro_batches = node->op == IPU_OP_ID_PIPELINE};
    if (!has_condition) {
        loop.kind = IPU_INSTRUCTION_LOOP;
        IPU_TRY(set_input(l, &loop, node->inputs[0]));
    }
    int32_t first = (int32_t)l->stream->instructions.count;
    int32_t test = -1;
    IPU_TRY(ipu__lower_emit(l, node, &loop));
    l->loop_depth++;
    if (has_condition) {
        IPU_TRY(lower_condition(l, node, &loop, &test));
    }
    IPU_TRY(ipu__lower_want_next_values(l, body, NULL));
    IPU_TRY(ipu__lower_block(l, body));
    IPU_TRY(ipu__lower_move_results(l, node, body, NULL));
    l->loop_depth--;
    ipu_instruction next = {.kind = IPU_INSTRUCTION_NEXT,
                            .loop = counter,
                            .target = first + 1,
                            .is_step = loop.is_step,
                            .is_micro_batches = loop.is_micro_batches};
    int32_t last = (int32_t)l->stream->instructions.count;
    IPU_TRY(ipu__lower_emit(l, node, &next));
    l->stream->instructions.items[first].target = last + 1;
    if (test >= 0) {
        l->stream->instructions.items[test].target = last + 1;
    }
    ipu__lower_release_outputs(l, node);
    loop_span span = {l->number, first, last};
    return IPU_ARRAY_PUSH(l->ctx, &l->loops, span);
}

/* --- switch ---------------------------------------------------------------------- */

/* Whether output i may live in the buffer of the value that branch `b` hands on. */
static bool
can_take_over(lowering *l, ipu_node id, const ipu_node_data *node, uint32_t b,
              uint32_t i)
{
    const ipu_block_data *branch = ipu_block_of(l->graph, ipu_node_block(node, b));
    const value_info *value = root_of(l, branch->results.items[i]);
    ipu_value root = {(uint32_t)(value - l->values)};
    bool from_outside = value->defined < l->begin[id.index];
    if (!from_outside || value->last_use > l->end[id.index] ||
        value->last_use <= l->begin[id.index] ||
        bytes_of(l, root) != bytes_of(l, ipu_node_output(node, i)) ||
        !ipu__lower_can_inherit(l, value, value->last_use,
                                ipu_node_output(node, i).index)) {
        return false;
    }
    for (uint32_t k = 0; k < i; k++) {
        if (same_buffer(l->values[ipu_node_output(node, k).index].place,
                        value->place)) {
            return false;
        }
    }
    return true;
}

static ipu_status
place_output(lowering *l, ipu_node id, const ipu_node_data *node, uint32_t i)
{
    ipu_value output = ipu_node_output(node, i);
    value_info *info = &l->values[output.index];
    for (uint32_t b = 0; b < ipu_node_block_count(node); b++) {
        if (info->wanted == IPU__NO_BUFFER && can_take_over(l, id, node, b, i)) {
            const ipu_block_data *branch =
                ipu_block_of(l->graph, ipu_node_block(node, b));
            info->place = root_of(l, branch->results.items[i])->place;
            return IPU_OK;
        }
    }
    return ipu__lower_place(l, output);
}

/* When the block reads `buffer` for the last time, in values from outside it; -1:
 * never. `at`: the time of all that it reads, -1: each node's own. */
static int32_t
last_read_in(lowering *l, ipu_block id, int32_t buffer, int32_t at)
{
    const ipu_block_data *block = ipu_block_of(l->graph, id);
    int32_t last = -1;
    IPU_EACH_NODE(node_id, l->graph, id) {
        const ipu_node_data *node = ipu_node_of(l->graph, node_id);
        int32_t time = at >= 0 ? at : l->begin[node_id.index];
        bool loops = ipu_node_is_loop(node);
        if (ipu_node_flags(node) & IPU_OP_VIEW) {
            continue;
        }
        for (uint32_t k = 0; k < node->input_count; k++) {
            if (same_buffer(root_of(l, node->inputs[k])->place, slab_place(buffer))) {
                last = time;
            }
        }
        for (uint32_t k = 0; k < ipu_node_block_count(node); k++) {
            int32_t inside = last_read_in(l, ipu_node_block(node, k), buffer,
                                          loops && at < 0 ? l->end[node_id.index] : at);
            last = inside > last ? inside : last;
        }
    }
    for (size_t i = 0; i < block->results.count; i++) {
        if (same_buffer(root_of(l, block->results.items[i])->place,
                        slab_place(buffer))) {
            int32_t time = at >= 0 ? at : l->block_end[id.index];
            last = time > last ? time : last;
        }
    }
    return last;
}

static ipu_status
lower_branch(lowering *l, const ipu_node_data *node, ipu_block id)
{
    ipu__lower_release_outputs(l, node);
    for (uint32_t i = 0; i < node->output_count; i++) {
        value_info *result = root_of(l, ipu_block_of(l->graph, id)->results.items[i]);
        ipu_value root = {(uint32_t)(result - l->values)};
        int32_t buffer = (int32_t)l->values[ipu_node_output(node, i).index].place.index;
        bool can = false;
        if (ipu_value_of(l->graph, root)->block.index == id.index) {
            IPU_TRY(can_write_over(l, buffer, last_read_in(l, id, buffer, -1), root, id,
                                   &can));
        }
        if (can && result->wanted == IPU__NO_BUFFER) {
            ipu__lower_want(l, result, buffer);
        }
    }
    IPU_TRY(ipu__lower_block(l, id));
    return ipu__lower_move_results(l, node, id, NULL);
}

ipu_status
ipu__lower_switch(lowering *l, ipu_node id, const ipu_node_data *node)
{
    uint32_t count = ipu_node_block_count(node);
    int32_t *branches;
    for (uint32_t i = 0; i < node->output_count; i++) {
        IPU_TRY(place_output(l, id, node, i));
    }
    IPU_TRY(ipu_arena_alloc(l->ctx, &l->program->arena, count * sizeof(int32_t),
                            &branches));
    ipu_instruction choose = {
        .kind = IPU_INSTRUCTION_SWITCH, .branch_count = count, .branches = branches};
    IPU_TRY(set_input(l, &choose, node->inputs[0]));
    int32_t first = (int32_t)l->stream->instructions.count;
    IPU_TRY(ipu__lower_emit(l, node, &choose));
    for (uint32_t b = 0; b < count; b++) {
        branches[b] = (int32_t)l->stream->instructions.count;
        IPU_TRY(lower_branch(l, node, ipu_node_block(node, b)));
        ipu_instruction jump = {.kind = IPU_INSTRUCTION_JUMP};
        if (b + 1 < count) {
            IPU_TRY(ipu__lower_emit(l, node, &jump));
        }
    }
    int32_t end = (int32_t)l->stream->instructions.count;
    l->stream->instructions.items[first].target = end;
    for (uint32_t b = 1; b < count; b++) {
        l->stream->instructions.items[branches[b] - 1].target = end;
    }
    ipu__lower_release_outputs(l, node);
    return IPU_OK;
}
