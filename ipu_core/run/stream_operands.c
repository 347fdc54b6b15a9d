/* SPDX-License-Identifier: MIT
 *
 * Making a stream, and pointing its operands at memory: into the slab, the program's
 * constants and the device's variables when the stream is bound, at inputs and outputs
 * when a run begins. Those in elements of infeeds and in rings are listed here, for
 * stream.c to point them when an element is dequeued or an action begins. */
#include "run/executor_impl.h"

/* Lists an operand that is pointed at memory when that is known. A result
 * needs no slack; products are made in registers that may be wider than what is left of
 * a row. */
static ipu_status
list_operand(ipu_ctx *ctx, ipu__stream *stream, const ipu_instruction *instruction,
             uint32_t number)
{
    const ipu_program *program = stream->executor->program;
    ipu_place place = *ipu_operand_place(instruction, number);
    size_t operand = stream->operand_count + number;
    if (place.space == IPU_SPACE_RING) {
        ipu__ring_use use = {place.index, operand};
        return IPU_ARRAY_PUSH(ctx, &stream->ring_uses, use);
    }
    if (place.space == IPU_SPACE_INFEED) {
        ipu__patch patch = {place.index, operand};
        return IPU_ARRAY_PUSH(ctx, &stream->patches, patch);
    }
    if (place.space != IPU_SPACE_INPUT && place.space != IPU_SPACE_OUTPUT) {
        return IPU_OK;
    }
    bool widens = instruction->kind == IPU_INSTRUCTION_KERNEL &&
                  ipu_product_right(program->specs.items[instruction->spec].op) != 0;
    ipu__buffer *buffer =
        &(place.space == IPU_SPACE_OUTPUT ? stream->replica->outputs
                                          : stream->executor->inputs)[place.index];
    ipu__buffer_use use = {buffer, operand};
    buffer->is_used = true;
    buffer->needs_slack |= widens || !ipu_operand_is_output(instruction, number);
    return IPU_ARRAY_PUSH(ctx, &stream->buffers, use);
}

static ipu_status
list_operands(ipu_ctx *ctx, ipu__stream *stream)
{
    const ipu_program *program = stream->executor->program;
    const ipu_stream *code = stream->code;
    for (size_t i = 0; i < code->instructions.count; i++) {
        const ipu_instruction *instruction = &code->instructions.items[i];
        stream->first_operand[i] = stream->operand_count;
        stream->first_ring_use[i] = stream->ring_uses.count;
        for (uint32_t k = 0; k < ipu_operand_count(instruction); k++) {
            IPU_TRY(list_operand(ctx, stream, instruction, k));
        }
        stream->operand_count += ipu_operand_count(instruction);
        if (ipu_instruction_writes_variable(program, instruction)) {
            bool is_alone = instruction->region == 0; /* else its region begins there */
            size_t first =
                is_alone ? i : code->regions.items[instruction->region - 1].first;
            stream->writes_variable[first] = 1;
        }
    }
    stream->first_ring_use[code->instructions.count] = stream->ring_uses.count;
    return IPU_OK;
}

ipu_status
ipu__stream_create(ipu_ctx *ctx, ipu_executor *executor, const ipu__replica *replica,
                   uint32_t number)
{
    ipu__stream *stream = &replica->streams[number];
    const ipu_stream *code = &executor->program->streams.items[number];
    ipu_arena *arena = &executor->arena;
    size_t count = code->instructions.count;
    stream->code = code;
    stream->specs = executor->program->specs.items;
    stream->executor = executor;
    stream->replica = replica;
    stream->number = number;
    if (ipu_pages_are_for(code->memory.slab_bytes)) {
        ipu_pages_trim(); /* models and compiling leave holes in the heap */
    }
    IPU_TRY(ipu_alloc(ctx, code->memory.slab_bytes, &stream->slab));
    ipu_pages_advise_huge(stream->slab, code->memory.slab_bytes);
    IPU_TRY(ipu_alloc(ctx, code->remote_bytes, &stream->remote));
    size_t bytes = (count + 1) * sizeof(size_t);
    IPU_TRY(ipu_arena_alloc(ctx, arena, bytes, &stream->first_operand));
    IPU_TRY(ipu_arena_alloc(ctx, arena, bytes, &stream->first_ring_use));
    IPU_TRY(ipu_arena_alloc(ctx, arena, count, &stream->writes_variable));
    IPU_TRY(ipu_arena_alloc(ctx, arena, code->loop_count * sizeof(int64_t),
                            &stream->counters));
    IPU_TRY(list_operands(ctx, stream));
    return ipu_arena_alloc(ctx, arena, stream->operand_count * sizeof(void *),
                           &stream->operands);
}

void
ipu__stream_free(ipu_ctx *ctx, ipu__stream *stream)
{
    if (stream->code != NULL) {
        ipu_free(ctx, stream->slab, stream->code->memory.slab_bytes);
        ipu_free(ctx, stream->remote, stream->code->remote_bytes);
        IPU_ARRAY_FREE(ctx, &stream->patches);
        IPU_ARRAY_FREE(ctx, &stream->ring_uses);
        IPU_ARRAY_FREE(ctx, &stream->buffers);
    }
}

/* --- operands --------------------------------------------------------------------- */

/* Those that are known later stay as they are. */
static void
resolve(const ipu__stream *stream, ipu_place place, void **operand)
{
    const ipu_program *program = stream->executor->program;
    const ipu__stream *other = stream;
    switch (place.space) {
    case IPU_SPACE_SLAB:
        *operand = stream->slab + place.offset;
        break;
    case IPU_SPACE_FOREIGN:
        other = &stream->replica->streams[place.index];
        *operand = other->slab + place.offset;
        break;
    case IPU_SPACE_REMOTE:
        other = &stream->replica->streams[place.index];
        *operand = other->remote + place.offset;
        break;
    case IPU_SPACE_CONSTANT: /* read only: the verifier lets nothing write here */
        *operand = (char *)program->constants + place.offset;
        break;
    case IPU_SPACE_HELD: /* read only, too */
        *operand = (void *)(uintptr_t)program->held[place.index].data;
        break;
    case IPU_SPACE_VARIABLE:
        *operand = stream->replica->resources[place.index];
        break;
    case IPU_SPACE_INPUT:
    case IPU_SPACE_OUTPUT:
    case IPU_SPACE_INFEED:
    case IPU_SPACE_RING:
        break;
    }
}

void
ipu__stream_bind(ipu__stream *stream)
{
    for (size_t i = 0; i < stream->code->instructions.count; i++) {
        const ipu_instruction *instruction = &stream->code->instructions.items[i];
        void **operands = &stream->operands[stream->first_operand[i]];
        for (uint32_t k = 0; k < ipu_operand_count(instruction); k++) {
            resolve(stream, *ipu_operand_place(instruction, k), &operands[k]);
        }
    }
}

void
ipu__stream_reset(ipu__stream *stream)
{
    for (size_t i = 0; i < stream->buffers.count; i++) {
        const ipu__buffer_use *use = &stream->buffers.items[i];
        stream->operands[use->operand] = use->buffer->data;
    }
    stream->at = stream->code->entry;
    stream->depth = 0;
    stream->has_forked = false;
    stream->has_ended_step = false;
    stream->led = NULL;
    stream->has_written = false;
    stream->began_ns = 0;
    stream->cancelled_ns = 0;
    atomic_store(&stream->is_blocked, false);
}
