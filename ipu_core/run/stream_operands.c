/* SPDX-License-Identifier: MIT
 *
 * Making a stream, and pointing its operands at memory: into the slab, the program's
 * constants and the device's variables when the stream is bound, at inputs and outputs
 * when a run begins. Those in elements of infeeds and in rings are listed here, for
 * stream.c to point them when an element is dequeued or an action begins. */
#include "run/executor_impl.h"

/* --- life ------------------------------------------------------------------------- */

static void
count_operands(ipu__stream *stream)
{
    const ipu_stream *code = stream->code;
    for (size_t i = 0; i < code->instructions.count; i++) {
        const ipu_instruction *instruction = &code->instructions.items[i];
        stream->operand_count += instruction->input_count + instruction->output_count;
        for (uint32_t k = 0; k < instruction->input_count; k++) {
            stream->patch_count += instruction->inputs[k].space == IPU_SPACE_INFEED;
            stream->buffer_count += instruction->inputs[k].space == IPU_SPACE_INPUT ||
                                    instruction->inputs[k].space == IPU_SPACE_OUTPUT;
            stream->ring_use_count += instruction->inputs[k].space == IPU_SPACE_RING;
        }
        for (uint32_t k = 0; k < instruction->output_count; k++) {
            stream->buffer_count += instruction->outputs[k].space == IPU_SPACE_OUTPUT;
            stream->ring_use_count += instruction->outputs[k].space == IPU_SPACE_RING;
        }
    }
}

static bool
is_product(ipu_op op)
{
    return op == IPU_OP_ID_MATMUL || op == IPU_OP_ID_FUSED_MATMUL ||
           op == IPU_OP_ID_MATMUL_ACCUMULATE;
}

/* Which operands are inputs and outputs of the program. What is only written needs no
 * slack; products are made in registers that may be wider than what is left of a row.
 */
static void
find_buffers(ipu__stream *stream)
{
    size_t found = 0;
    for (size_t i = 0; i < stream->code->instructions.count; i++) {
        const ipu_instruction *instruction = &stream->code->instructions.items[i];
        bool is_kernel = instruction->kind == IPU_INSTRUCTION_KERNEL;
        bool widens = is_kernel && is_product(stream->specs[instruction->spec].op);
        size_t operand = stream->first_operand[i];
        uint32_t inputs = instruction->input_count;
        for (uint32_t k = 0; k < inputs + instruction->output_count; k++) {
            ipu_place place =
                k < inputs ? instruction->inputs[k] : instruction->outputs[k - inputs];
            if (place.space == IPU_SPACE_INPUT || place.space == IPU_SPACE_OUTPUT) {
                stream->buffers[found++] =
                    (ipu__buffer_use){place.index, place.space == IPU_SPACE_OUTPUT,
                                      k < inputs || widens, operand + k};
            }
        }
    }
}

/* Which operands lie in rings. */
static void
find_ring_uses(ipu__stream *stream)
{
    size_t found = 0;
    size_t count = stream->code->instructions.count;
    for (size_t i = 0; i < count; i++) {
        const ipu_instruction *instruction = &stream->code->instructions.items[i];
        size_t operand = stream->first_operand[i];
        uint32_t inputs = instruction->input_count;
        stream->first_ring_use[i] = found;
        for (uint32_t k = 0; k < inputs + instruction->output_count; k++) {
            ipu_place place =
                k < inputs ? instruction->inputs[k] : instruction->outputs[k - inputs];
            if (place.space == IPU_SPACE_RING) {
                stream->ring_uses[found++] = (ipu__ring_use){place.index, operand + k};
            }
        }
    }
    stream->first_ring_use[count] = found;
}

/* Which operands lie in which infeed's elements. */
static void
find_patches(ipu__stream *stream)
{
    const ipu_program *program = stream->executor->program;
    size_t found = 0;
    uint32_t end = 0; /* of the components of the infeeds so far */
    for (uint32_t r = 0; r < program->resources.count; r++) {
        const ipu_resource *resource = &program->resources.items[r];
        uint32_t base = end;
        end += resource->kind == IPU_RESOURCE_INFEED ? resource->type_count : 0;
        stream->first_patch[r] = found;
        for (size_t i = 0; base < end && i < stream->code->instructions.count; i++) {
            const ipu_instruction *instruction = &stream->code->instructions.items[i];
            for (uint32_t k = 0; k < instruction->input_count; k++) {
                ipu_place place = instruction->inputs[k];
                if (place.space == IPU_SPACE_INFEED && place.index >= base &&
                    place.index < end) {
                    stream->patches[found++] =
                        (ipu__patch){place.index - base, stream->first_operand[i] + k};
                }
            }
        }
    }
    stream->first_patch[program->resources.count] = found;
}

static bool
writes_variable(const ipu_program *program, const ipu_instruction *instruction)
{
    if (instruction->kind == IPU_INSTRUCTION_KERNEL) {
        const ipu_kernel_spec *spec = &program->specs.items[instruction->spec];
        return (ipu_op_info_of(spec->op)->flags & IPU_OP_WRITES) != 0;
    }
    bool found = false;
    for (uint32_t i = 0; i < instruction->output_count; i++) {
        found |= instruction->outputs[i].space == IPU_SPACE_VARIABLE;
    }
    return found;
}

ipu_status
ipu__stream_create(ipu_ctx *ctx, ipu_executor *executor, const ipu__replica *replica,
                   uint32_t number)
{
    ipu__stream *stream = &replica->streams[number];
    const ipu_program *program = executor->program;
    const ipu_stream *code = &program->streams.items[number];
    size_t count = code->instructions.count;
    size_t resources = program->resources.count;
    stream->code = code;
    stream->specs = program->specs.items;
    stream->executor = executor;
    stream->replica = replica;
    stream->number = number;
    count_operands(stream);
    if (ipu_pages_are_for(code->memory.slab_bytes)) {
        ipu_pages_trim(); /* models and compiling leave holes in the heap */
    }
    IPU_TRY(ipu_alloc(ctx, code->memory.slab_bytes, &stream->slab));
    ipu_pages_advise_huge(stream->slab, code->memory.slab_bytes);
    IPU_TRY(ipu_alloc(ctx, code->remote_bytes, &stream->remote));
    IPU_TRY(ipu_alloc(ctx, count * sizeof(size_t), &stream->first_operand));
    IPU_TRY(ipu_alloc(ctx, stream->operand_count * sizeof(void *), &stream->operands));
    IPU_TRY(ipu_alloc(ctx, stream->patch_count * sizeof(ipu__patch), &stream->patches));
    IPU_TRY(ipu_alloc(ctx, (resources + 1) * sizeof(size_t), &stream->first_patch));
    IPU_TRY(ipu_alloc(ctx, stream->buffer_count * sizeof(ipu__buffer_use),
                      &stream->buffers));
    IPU_TRY(ipu_alloc(ctx, stream->ring_use_count * sizeof(ipu__ring_use),
                      &stream->ring_uses));
    IPU_TRY(ipu_alloc(ctx, (count + 1) * sizeof(size_t), &stream->first_ring_use));
    IPU_TRY(ipu_alloc(ctx, count, &stream->writes_variable));
    IPU_TRY(ipu_alloc(ctx, code->loop_count * sizeof(int64_t), &stream->counters));
    size_t next = 0;
    for (size_t i = 0; i < count; i++) {
        const ipu_instruction *instruction = &code->instructions.items[i];
        stream->first_operand[i] = next;
        next += instruction->input_count + instruction->output_count;
        stream->writes_variable[i] = writes_variable(program, instruction);
        if (instruction->region > 0 && stream->writes_variable[i]) {
            uint32_t first = code->regions.items[instruction->region - 1].first;
            stream->writes_variable[first] = 1; /* a region begins there */
        }
    }
    find_patches(stream);
    find_ring_uses(stream);
    find_buffers(stream);
    for (size_t i = 0; i < stream->buffer_count; i++) {
        const ipu__buffer_use *use = &stream->buffers[i];
        ipu__buffer *buffer =
            &(use->is_output ? replica->outputs : executor->inputs)[use->index];
        buffer->is_used = true;
        buffer->needs_slack |= use->needs_slack;
    }
    return IPU_OK;
}

void
ipu__stream_free(ipu_ctx *ctx, ipu__stream *stream)
{
    const ipu_stream *code = stream->code;
    if (code == NULL) {
        return;
    }
    size_t count = code->instructions.count;
    size_t resources = stream->executor->program->resources.count;
    ipu_free(ctx, stream->slab, code->memory.slab_bytes);
    ipu_free(ctx, stream->remote, code->remote_bytes);
    ipu_free(ctx, stream->first_operand, count * sizeof(size_t));
    ipu_free(ctx, stream->operands, stream->operand_count * sizeof(void *));
    ipu_free(ctx, stream->patches, stream->patch_count * sizeof(ipu__patch));
    ipu_free(ctx, stream->first_patch, (resources + 1) * sizeof(size_t));
    ipu_free(ctx, stream->buffers, stream->buffer_count * sizeof(ipu__buffer_use));
    ipu_free(ctx, stream->ring_uses, stream->ring_use_count * sizeof(ipu__ring_use));
    ipu_free(ctx, stream->first_ring_use, (count + 1) * sizeof(size_t));
    ipu_free(ctx, stream->writes_variable, count);
    ipu_free(ctx, stream->counters, code->loop_count * sizeof(int64_t));
}

/* --- operands --------------------------------------------------------------------- */

static void *
resolve(const ipu__stream *stream, ipu_place place)
{
    const ipu_executor *executor = stream->executor;
    switch (place.space) {
    case IPU_SPACE_SLAB:
        return stream->slab + place.offset;
    case IPU_SPACE_FOREIGN:
        return stream->replica->streams[place.index].slab + place.offset;
    case IPU_SPACE_REMOTE:
        return stream->replica->streams[place.index].remote + place.offset;
    case IPU_SPACE_CONSTANT: /* read only: the verifier lets nothing write here */
        return (char *)executor->program->constants + place.offset;
    case IPU_SPACE_HELD: /* read only, too */
        return (void *)(uintptr_t)executor->program->held[place.index].data;
    case IPU_SPACE_VARIABLE:
        return stream->replica->resources[place.index];
    case IPU_SPACE_INPUT:
    case IPU_SPACE_OUTPUT:
    case IPU_SPACE_INFEED:
    case IPU_SPACE_RING:
        break;
    }
    return NULL; /* known later */
}

static bool
is_known_later(ipu_place place)
{
    return place.space == IPU_SPACE_INPUT || place.space == IPU_SPACE_OUTPUT ||
           place.space == IPU_SPACE_INFEED || place.space == IPU_SPACE_RING;
}

void
ipu__stream_bind(ipu__stream *stream)
{
    for (size_t i = 0; i < stream->code->instructions.count; i++) {
        const ipu_instruction *instruction = &stream->code->instructions.items[i];
        void **operands = &stream->operands[stream->first_operand[i]];
        for (uint32_t k = 0; k < instruction->input_count; k++) {
            if (!is_known_later(instruction->inputs[k])) {
                operands[k] = resolve(stream, instruction->inputs[k]);
            }
        }
        operands += instruction->input_count;
        for (uint32_t k = 0; k < instruction->output_count; k++) {
            if (!is_known_later(instruction->outputs[k])) {
                operands[k] = resolve(stream, instruction->outputs[k]);
            }
        }
    }
}

void
ipu__stream_reset(ipu__stream *stream)
{
    const ipu_executor *executor = stream->executor;
    for (size_t i = 0; i < stream->buffer_count; i++) {
        const ipu__buffer_use *use = &stream->buffers[i];
        stream->operands[use->operand] = use->is_output
                                             ? stream->replica->outputs[use->index].data
                                             : executor->inputs[use->index].data;
    }
    stream->at = stream->code->entry;
    stream->depth = 0;
    stream->has_forked = false;
    stream->has_ended_step = false;
    stream->is_meeting = false;
    stream->has_written = false;
    stream->began_ns = 0;
    stream->cancelled_ns = 0;
    atomic_store(&stream->is_blocked, false);
}
