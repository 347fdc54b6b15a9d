/* SPDX-License-Identifier: MIT
 *
 * The program's checker. It knows nothing of graphs, lifetimes or plans; it follows the
 * instructions as the engine would and asks of each
 *
 *   - that its operands exist and end inside their space, that indices and jump targets
 *     are in range and loops nest;
 *   - that every byte range it reads from the slab was written by one instruction as a
 *     whole and has not been written over since, not even in part. Loop bodies are
 *     followed twice, so that the second turn finds what the first one spoilt; after a
 *     switch there is what every branch leaves;
 *   - that between a POST and its WAIT nobody writes to its operands, or reads what it
 *     gives, and that it is waited for in the block in which it is posted;
 *   - that a kernel's outputs overlap neither each other nor its inputs, but for one
 *     input of an IN_PLACE op; and that an infeed's element is read while it is held.
 *
 * Each stream is followed alone, since it touches the slab of no other one that runs at
 * the same time. At a pipeline its streams are followed one after the other, action by
 * action, with the slots of the rings that the micro-batch has; what it reads there was
 * written for it. */
#include <inttypes.h>
#include <string.h>

#include "program/verify_impl.h"

/* Whether a place is none of a variable, or of one in panels of so many columns. */
static bool
lies_so(const ipu__checker *c, ipu_place place, int64_t columns)
{
    return place.space != IPU_SPACE_VARIABLE ||
           c->program->resources.items[place.index].panel_columns == columns;
}

/* That who reads or writes a variable in panels knows it, or goes element by
 * element. Of what is no product no factor is in panels, so that 0 may stand for none. */
static ipu_status
check_panels(ipu__checker *c, const ipu_instruction *instruction,
             const ipu_kernel_spec *spec)
{
    const ipu_op op = spec->op;
    const uint32_t flags = ipu_op_info_of(op)->flags;
    bool accumulates = op == IPU_OP_ID_MATMUL_ACCUMULATE;
    uint32_t factor = ipu_product_right(op);
    int64_t right = spec->panels.right ? spec->panels.columns : 0;
    int64_t result = spec->panels.result ? spec->panels.columns : 0;
    if (factor == 0 &&
        ((flags & IPU_OP_ELEMENTWISE) != 0 ||
         ((flags & IPU_OP_WRITES) != 0 && op != IPU_OP_ID_GATHER_SGD_UPDATE))) {
        return IPU_OK;
    }
    for (uint32_t i = 0; i < spec->input_count; i++) {
        int64_t wanted = i == factor ? right : accumulates && i == 0 ? result : 0;
        REQUIRE(c, lies_so(c, instruction->inputs[i], wanted),
                "it reads a variable in a layout that it does not know");
    }
    for (uint32_t i = 0; i < spec->output_count; i++) {
        REQUIRE(c, lies_so(c, instruction->outputs[i], result),
                "it writes a variable in a layout that it does not know");
    }
    return IPU_OK;
}

/* --- instructions ---------------------------------------------------------------- */

/* That what an instruction names exists, so that one can ask for its operands. */
static ipu_status
check_names(ipu__checker *c, const ipu_instruction *instruction)
{
    const ipu_program *program = c->program;
    bool gives = ipu_instruction_rows[instruction->kind].inputs != IPU_OPERANDS_NONE;
    switch (ipu_instruction_rows[instruction->kind].inputs |
            ipu_instruction_rows[instruction->kind].outputs) {
    case IPU_OPERANDS_SPEC:
        REQUIRE(c,
                instruction->spec < program->specs.count &&
                    program->specs.items[instruction->spec].run != NULL,
                "it has no kernel");
        break;
    case IPU_OPERANDS_SPECS:
        REQUIRE(c,
                instruction->spec_count > 0 &&
                    instruction->spec < program->specs.count &&
                    instruction->spec_count <= program->specs.count - instruction->spec,
                "its collectives do not exist");
        break;
    case IPU_OPERANDS_QUEUE:
        REQUIRE(c,
                ipu__verify_resource_at(c, instruction->resource,
                                        gives ? IPU_RESOURCE_OUTFEED
                                              : IPU_RESOURCE_INFEED) != NULL,
                "it uses a queue that does not exist, or is of the other kind");
        break;
    case IPU_OPERANDS_HOST:
        REQUIRE(c,
                ipu__verify_resource_at(c, instruction->resource, IPU_RESOURCE_HOST) !=
                    NULL,
                "it calls a function that does not exist");
        break;
    case IPU_OPERANDS_CHANNEL:
        REQUIRE(c,
                instruction->channel < program->channels.count &&
                    (gives ? program->channels.items[instruction->channel].from
                           : program->channels.items[instruction->channel].to) ==
                        c->number,
                "it sends to, or receives from, a channel of other streams");
        break;
    default:
        break;
    }
    return IPU_OK;
}

/* Whether an output may lie where this input does: a kernel's first one, or that of the
 * same collective. */
static bool
may_overwrite(const ipu__checker *c, const ipu_instruction *instruction,
              uint32_t output, uint32_t input)
{
    uint32_t number = output - instruction->input_count;
    bool is_post = instruction->kind == IPU_INSTRUCTION_POST;
    if (is_post ? number != input
                : instruction->kind != IPU_INSTRUCTION_KERNEL || number != 0) {
        return false;
    }
    const ipu_kernel_spec *spec =
        &c->program->specs.items[instruction->spec + (is_post ? number : 0)];
    uint32_t flags = ipu_op_info_of(spec->op)->flags;
    return (flags & IPU_OP_IN_PLACE) != 0 &&
           (is_post || input == 0 || (flags & IPU_OP_ELEMENTWISE) != 0) &&
           ipu__verify_same_place(instruction->outputs[number],
                                  instruction->inputs[input]) &&
           ipu_type_equal(&spec->inputs[is_post ? 0 : input], &spec->outputs[0]);
}

/* That an output overlaps no operand before it, but for one input that is overwritten.
 */
static ipu_status
check_overlap(ipu__checker *c, const ipu_instruction *instruction, uint32_t output)
{
    const ipu_program *program = c->program;
    ipu_place place = *ipu_operand_place(instruction, output);
    size_t bytes = ipu_operand_bytes(program, instruction, output);
    bool used = false; /* an input is overwritten */
    for (uint32_t k = 0; k < output; k++) {
        bool allowed = !used && may_overwrite(c, instruction, output, k);
        used |= allowed;
        REQUIRE(c,
                allowed || !ipu__verify_share(
                               c, place, bytes, *ipu_operand_place(instruction, k),
                               ipu_operand_bytes(program, instruction, k)),
                "an output shares memory with another operand");
    }
    return IPU_OK;
}

/* That an operand is not in the way of a collective that is under way. */
static ipu_status
check_posted(ipu__checker *c, const ipu_instruction *instruction, uint32_t operand)
{
    const ipu_program *program = c->program;
    ipu_place place = *ipu_operand_place(instruction, operand);
    size_t bytes = ipu_operand_bytes(program, instruction, operand);
    bool is_output = ipu_operand_is_output(instruction, operand);
    for (size_t i = 0; i < c->posted.count; i++) {
        const ipu_instruction *post = c->posted.items[i];
        for (uint32_t k = is_output ? 0 : post->input_count;
             k < ipu_operand_count(post); k++) {
            REQUIRE(c,
                    !ipu__verify_share(c, place, bytes, *ipu_operand_place(post, k),
                                       ipu_operand_bytes(program, post, k)),
                    "it uses what a collective is at");
        }
    }
    return IPU_OK;
}

/* The end of its POST, whose operands are there from then on. */
static ipu_status
check_wait(ipu__checker *c, const ipu_instruction *wait)
{
    size_t i = 0;
    while (i < c->posted.count && c->posted.items[i]->meeting != wait->meeting) {
        i++;
    }
    REQUIRE(c, i < c->posted.count, "it waits for what is not posted");
    const ipu_instruction *post = c->posted.items[i];
    bool is_same = wait->spec == post->spec && wait->spec_count == post->spec_count &&
                   wait->input_count == post->input_count &&
                   wait->output_count == post->output_count;
    for (uint32_t k = 0; is_same && k < ipu_operand_count(wait); k++) {
        is_same = ipu__verify_same_place(*ipu_operand_place(wait, k),
                                         *ipu_operand_place(post, k));
    }
    REQUIRE(c, is_same, "it has other operands than its post");
    c->posted.items[i] = c->posted.items[--c->posted.count];
    return IPU_OK;
}

static ipu_status
check_post(ipu__checker *c, const ipu_instruction *post)
{
    REQUIRE(c, post->meeting < c->program->meeting_count,
            "a collective that is not among the program's");
    for (size_t i = 0; i < c->posted.count; i++) {
        REQUIRE(c, c->posted.items[i]->meeting != post->meeting,
                "a collective is posted a second time before it is over");
    }
    return IPU_ARRAY_PUSH(c->ctx, &c->posted, post);
}

static ipu_status
check_operands(ipu__checker *c, const ipu_instruction *instruction)
{
    const ipu_program *program = c->program;
    if (instruction->kind == IPU_INSTRUCTION_WAIT) {
        return check_wait(c, instruction);
    }
    IPU_TRY(check_names(c, instruction));
    REQUIRE(
        c,
        instruction->input_count == ipu_operand_wanted(program, instruction, false) &&
            instruction->output_count == ipu_operand_wanted(program, instruction, true),
        "it has other operands than instructions of its kind");
    for (uint32_t k = 0; k < ipu_operand_count(instruction); k++) {
        ipu_place place = *ipu_operand_place(instruction, k);
        size_t bytes = ipu_operand_bytes(program, instruction, k);
        IPU_TRY(check_posted(c, instruction, k));
        if (!ipu_operand_is_output(instruction, k)) {
            IPU_TRY(ipu__verify_check_read(c, place, bytes));
        } else {
            bool is_infeed = instruction->kind == IPU_INSTRUCTION_DEQUEUE;
            IPU_TRY(ipu__verify_check_place(c, place, bytes, !is_infeed));
            IPU_TRY(check_overlap(c, instruction, k));
        }
    }
    for (uint32_t k = 0; k < instruction->output_count; k++) {
        size_t bytes =
            ipu_operand_bytes(program, instruction, instruction->input_count + k);
        IPU_TRY(ipu__verify_note_written(c, instruction->outputs[k], bytes));
    }
    return IPU_OK;
}

static ipu_status
check_kernel(ipu__checker *c, const ipu_instruction *instruction)
{
    const ipu_kernel_spec *spec = &c->program->specs.items[instruction->spec];
    REQUIRE(c, spec->workspace_bytes <= c->program->workspace_bytes,
            "its workspace is too small");
    return check_panels(c, instruction, spec);
}

static ipu_status
check_dequeue(ipu__checker *c, const ipu_instruction *instruction)
{
    uint32_t base = ipu_program_infeed_base(c->program, instruction->resource);
    for (uint32_t i = 0; i < instruction->output_count; i++) {
        ipu_place place = instruction->outputs[i];
        REQUIRE(c, place.space == IPU_SPACE_INFEED && place.index == base + i,
                "its tensors are misplaced");
    }
    return IPU_OK;
}

static ipu_status check_range(ipu__checker *c, size_t begin, size_t end);
static ipu_status check_pipeline(ipu__checker *c, const ipu_instruction *pipeline);

/* Puts a copy of what is written on top of `saved`. */
static ipu_status
save(ipu__checker *c)
{
    IPU_TRY(IPU_ARRAY_RESERVE(c->ctx, &c->saved, c->written.count));
    for (size_t i = 0; i < c->written.count; i++) {
        c->saved.items[c->saved.count++] = c->written.items[i];
    }
    return IPU_OK;
}

/* Sets what is written to what `saved` has from `begin` to `end`. */
static ipu_status
restore(ipu__checker *c, size_t begin, size_t end)
{
    c->written.count = 0;
    IPU_TRY(IPU_ARRAY_RESERVE(c->ctx, &c->written, end - begin));
    for (size_t i = begin; i < end; i++) {
        c->written.items[c->written.count++] = c->saved.items[i];
    }
    return IPU_OK;
}

/* What the body leaves is not there where the loop does not run at all: what the code
 * after may read is what was there before, less what the body spoils. The body's own
 * writes to ranges that were there before count (carried values). */
static ipu_status
check_loop(ipu__checker *c, size_t begin)
{
    const ipu_instruction *loop = &c->stream->instructions.items[begin];
    bool counted = loop->kind == IPU_INSTRUCTION_LOOP;
    REQUIRE(c, loop->loop < c->stream->loop_count, "a loop without a counter");
    REQUIRE(c, loop->target > (int32_t)begin + 1, "a loop that ends out of range");
    size_t end = (size_t)loop->target - 1;
    const ipu_instruction *next = &c->stream->instructions.items[end];
    REQUIRE(c,
            next->kind == IPU_INSTRUCTION_NEXT && next->loop == loop->loop &&
                next->target == (int32_t)begin + 1,
            "a loop whose end does not lead back to it");
    REQUIRE(c, next->is_step == loop->is_step && (c->depth == 0 || !loop->is_step),
            "a step that is a part of another one, or ends where it does not begin");
    size_t before = c->saved.count;
    size_t kept = before;
    size_t around = c->inside;
    IPU_TRY(save(c));
    c->inside = counted ? SIZE_MAX : begin;
    c->depth++;
    IPU_TRY(check_range(c, begin + 1, end));
    IPU_TRY(check_range(c, begin + 1, end));
    c->inside = around;
    c->depth--;
    for (size_t i = before; i < c->saved.count; i++) {
        if (ipu__verify_is_written(c, c->saved.items[i])) {
            c->saved.items[kept++] = c->saved.items[i];
        }
    }
    IPU_TRY(restore(c, before, kept));
    c->saved.count = before;
    return IPU_OK;
}

static ipu_status
check_test(ipu__checker *c, const ipu_instruction *test)
{
    REQUIRE(c, c->inside != SIZE_MAX, "it leaves no loop");
    const ipu_instruction *loop = &c->stream->instructions.items[c->inside];
    REQUIRE(c,
            test->loop == loop->loop && test->target == loop->target &&
                test->is_step == loop->is_step,
            "it leaves another loop than the one around it");
    return IPU_OK;
}

/* Keeps what is written after one branch (`saved` from `begin` on) and after another
 * one (c->written): of two ranges that contain each other the smaller one. */
static ipu_status
keep_common(ipu__checker *c, size_t begin)
{
    IPU_ARRAY(ipu__range) common = {0};
    const ipu__range *own = c->written.items;
    size_t i = 0;
    size_t k = begin;
    ipu_status status = IPU_OK;
    while (status == IPU_OK && i < c->written.count && k < c->saved.count) {
        ipu__range a = own[i];
        ipu__range b = c->saved.items[k];
        if (b.begin <= a.begin && a.end <= b.end) {
            status = IPU_ARRAY_PUSH(c->ctx, &common, a);
        } else if (a.begin <= b.begin && b.end <= a.end) {
            status = IPU_ARRAY_PUSH(c->ctx, &common, b);
        }
        i += a.end <= b.end;
        k += b.end <= a.end;
    }
    IPU_ARRAY_FREE(c->ctx, &c->written);
    c->written.items = common.items;
    c->written.count = common.count;
    c->written.capacity = common.capacity;
    return status;
}

/* The instructions of branch b: up to its jump, or up to the end of the switch. */
static ipu_status
branch_end(ipu__checker *c, const ipu_instruction *choose, uint32_t b, size_t *end)
{
    *end = (size_t)choose->target;
    if (b + 1 == choose->branch_count) {
        return IPU_OK;
    }
    REQUIRE(c,
            choose->branches[b] < choose->branches[b + 1] &&
                choose->branches[b + 1] <= choose->target,
            "branches out of order");
    *end = (size_t)choose->branches[b + 1] - 1;
    const ipu_instruction *jump = &c->stream->instructions.items[*end];
    REQUIRE(c, jump->kind == IPU_INSTRUCTION_JUMP && jump->target == choose->target,
            "a branch that does not end after its switch");
    return IPU_OK;
}

/* Behind the switch there is what every branch leaves. */
static ipu_status
check_switch(ipu__checker *c, size_t begin)
{
    const ipu_instruction *choose = &c->stream->instructions.items[begin];
    REQUIRE(c, choose->branch_count > 0, "a switch without branches");
    REQUIRE(
        c, choose->branches[0] == (int32_t)begin + 1 && choose->target > (int32_t)begin,
        "a switch that ends out of range");
    size_t before = c->saved.count;
    IPU_TRY(save(c));
    size_t merged = c->saved.count; /* what all branches so far leave lies there */
    for (uint32_t b = 0; b < choose->branch_count; b++) {
        size_t end = 0;
        IPU_TRY(restore(c, before, merged));
        IPU_TRY(branch_end(c, choose, b, &end));
        IPU_TRY(check_range(c, (size_t)choose->branches[b], end));
        if (b > 0) {
            IPU_TRY(keep_common(c, merged));
        }
        c->saved.count = merged;
        IPU_TRY(save(c));
    }
    c->saved.count = before;
    return IPU_OK;
}

static ipu_status
check_range(ipu__checker *c, size_t begin, size_t end)
{
    size_t posted = c->posted.count;
    for (size_t i = begin; i < end; i++) {
        const ipu_instruction *instruction = &c->stream->instructions.items[i];
        c->at = i;
        REQUIRE(c, instruction->kind < IPU_INSTRUCTION_COUNT, "it is of no kind");
        IPU_TRY(check_operands(c, instruction));
        switch (instruction->kind) {
        case IPU_INSTRUCTION_POST:
            IPU_TRY(check_post(c, instruction));
            break;
        case IPU_INSTRUCTION_KERNEL:
            IPU_TRY(check_kernel(c, instruction));
            break;
        case IPU_INSTRUCTION_WAIT:
        case IPU_INSTRUCTION_COPY:
        case IPU_INSTRUCTION_RESERVE:
        case IPU_INSTRUCTION_ENQUEUE:
        case IPU_INSTRUCTION_HOST:
        case IPU_INSTRUCTION_SEND:
        case IPU_INSTRUCTION_RECEIVE:
            break;
        case IPU_INSTRUCTION_DEQUEUE:
            IPU_TRY(check_dequeue(c, instruction));
            break;
        case IPU_INSTRUCTION_PIPELINE:
            IPU_TRY(check_pipeline(c, instruction));
            break;
        case IPU_INSTRUCTION_TEST:
            IPU_TRY(check_test(c, instruction));
            break;
        case IPU_INSTRUCTION_SWITCH:
            REQUIRE(c, (size_t)instruction->target <= end,
                    "a switch that ends outside the block around it");
            IPU_TRY(check_switch(c, i));
            i = (size_t)instruction->target - 1;
            break;
        case IPU_INSTRUCTION_LOOP:
        case IPU_INSTRUCTION_WHILE:
            REQUIRE(c, (size_t)instruction->target <= end,
                    "a loop that ends outside the one around it");
            IPU_TRY(check_loop(c, i));
            i = (size_t)instruction->target - 1;
            break;
        case IPU_INSTRUCTION_NEXT:
        case IPU_INSTRUCTION_JUMP:
        case IPU_INSTRUCTION_HALT:
        case IPU_INSTRUCTION_ACTION:
        case IPU_INSTRUCTION_RETURN:
        case IPU_INSTRUCTION_COUNT:
            return ipu__verify_wrong(c, "it does not belong here");
        }
    }
    c->at = end;
    REQUIRE(c, c->posted.count == posted, "a block ends before a collective of it");
    return IPU_OK;
}

/* The actions of a pipeline's stream, in their order. */
static ipu_status
check_actions(ipu__checker *c)
{
    const ipu_instruction *instructions = c->stream->instructions.items;
    size_t count = c->stream->instructions.count;
    for (size_t i = c->stream->entry; i + 1 < count; i++) {
        const ipu_instruction *action = &instructions[i];
        c->at = i;
        REQUIRE(c, action->kind == IPU_INSTRUCTION_ACTION,
                "a pipeline's stream is more than a list of actions");
        REQUIRE(c,
                action->target >= 0 && action->target < action->end &&
                    (size_t)action->end <= c->stream->entry &&
                    instructions[action->end - 1].kind == IPU_INSTRUCTION_RETURN,
                "an action without a routine");
        c->micro_batch = action->micro_batch;
        IPU_TRY(check_range(c, (size_t)action->target, (size_t)action->end - 1));
    }
    return IPU_OK;
}

/* Its streams begin with what the stream around has written, and leave what they
 * have. */
static ipu_status
check_pipeline(ipu__checker *c, const ipu_instruction *pipeline)
{
    size_t number = c->number;
    size_t inside = c->inside;
    size_t end = (size_t)pipeline->first_stream + pipeline->stream_count;
    REQUIRE(c, !c->stream->is_child && end <= c->program->streams.count,
            "a pipeline in a pipeline, or without streams");
    for (size_t i = pipeline->first_stream; i < end; i++) {
        REQUIRE(c, c->program->streams.items[i].is_child,
                "a pipeline starts a stream that is none of its own");
        c->around = (uint32_t)number;
        c->number = i;
        c->stream = &c->program->streams.items[i];
        c->inside = SIZE_MAX;
        c->depth++;
        for (size_t k = 0; k < c->slot_count; k++) {
            c->slots[k] = UINT32_MAX; /* nothing */
        }
        IPU_TRY(check_actions(c));
        c->depth--;
        c->number = number;
        c->stream = &c->program->streams.items[number];
    }
    c->inside = inside;
    return IPU_OK;
}

static ipu_status
check_stream(ipu__checker *c, size_t number)
{
    c->number = number;
    c->stream = &c->program->streams.items[number];
    c->written.count = 0;
    c->inside = SIZE_MAX;
    size_t count = c->stream->instructions.count;
    IPU_FAIL_IF(c->ctx,
                count == 0 || c->stream->instructions.items[count - 1].kind !=
                                  IPU_INSTRUCTION_HALT,
                INTERNAL, "the program does not end with halt");
    IPU_FAIL_IF(c->ctx, c->stream->entry >= count, INTERNAL,
                "the program has no beginning");
    return c->stream->is_child ? IPU_OK : check_range(c, c->stream->entry, count - 1);
}

/* The slabs and outputs, one after the other, a byte for each component of the infeeds,
 * and the slots of the rings. */
static ipu_status
lay_out(ipu__checker *c)
{
    const ipu_program *program = c->program;
    size_t next = 0;
    IPU_TRY(ipu_arena_array(c->ctx, &c->arena, program->streams.count, sizeof(size_t),
                            &c->slabs));
    IPU_TRY(ipu_arena_array(c->ctx, &c->arena, program->streams.count, sizeof(size_t),
                            &c->remotes));
    IPU_TRY(ipu_arena_array(c->ctx, &c->arena, program->output_count, sizeof(size_t),
                            &c->outputs));
    IPU_TRY(ipu_arena_array(c->ctx, &c->arena, program->rings.count, sizeof(size_t),
                            &c->first_slot));
    for (size_t i = 0; i < program->streams.count; i++) {
        size_t bytes = program->streams.items[i].memory.slab_bytes;
        IPU_FAIL_IF(c->ctx, bytes < IPU_SLACK_BYTES, INTERNAL, "the slab has no slack");
        c->slabs[i] = next;
        next += bytes;
        c->remotes[i] = next;
        next += program->streams.items[i].remote_bytes;
    }
    for (uint32_t i = 0; i < program->output_count; i++) {
        c->outputs[i] = next;
        next += ipu_type_bytes(&program->outputs[i]);
    }
    c->infeeds = next;
    for (size_t i = 0; i < program->rings.count; i++) {
        c->first_slot[i] = c->slot_count;
        c->slot_count += program->rings.items[i].depth;
    }
    IPU_TRY(
        ipu_arena_array(c->ctx, &c->arena, c->slot_count, sizeof(uint32_t), &c->slots));
    return IPU_OK;
}

ipu_status
ipu_program_verify(ipu_ctx *ctx, const ipu_program *program)
{
    ipu__checker c = {.ctx = ctx, .program = program};
    IPU_FAIL_IF(ctx, program->micro_batches == 0, INTERNAL,
                "the program's steps have no micro-batch");
    c.infeed_components =
        ipu_program_infeed_base(program, (uint32_t)program->resources.count);
    ipu_status status = lay_out(&c);
    for (size_t i = 0; status == IPU_OK && i < program->streams.count; i++) {
        status = check_stream(&c, i);
        if (status == IPU_OK) {
            status = ipu__verify_regions(&c, i);
        }
    }
    IPU_ARRAY_FREE(ctx, &c.posted);
    IPU_ARRAY_FREE(ctx, &c.written);
    IPU_ARRAY_FREE(ctx, &c.saved);
    ipu_arena_free(ctx, &c.arena);
    return status == IPU_OK ? ipu__verify_streams(ctx, program) : status;
}
