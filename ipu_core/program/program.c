/* SPDX-License-Identifier: MIT
 *
 * Programs as data: what can be asked of them, and their end. */
#include "program/program.h"

const ipu_instruction_row ipu_instruction_rows[IPU_INSTRUCTION_COUNT] = {
#define X(name, text, inputs, outputs, is_noted, form, what) \
    {#text, IPU_OPERANDS_##inputs, IPU_OPERANDS_##outputs, is_noted, form},
    IPU_INSTRUCTION_LIST(X)
#undef X
};

typedef struct operand_types {
    const ipu_type *types;
    uint32_t count;
} operand_types;

/* Of the inputs or the outputs; IPU_OPERANDS_BYTES have none. */
static operand_types
types_of(const ipu_program *program, const ipu_instruction *instruction, bool is_output)
{
    static const ipu_type index = {.dtype = IPU_DTYPE_INT32};
    static const ipu_type flag = {.dtype = IPU_DTYPE_BOOL};
    const ipu_instruction_row *row = &ipu_instruction_rows[instruction->kind];
    switch (is_output ? row->outputs : row->inputs) {
    case IPU_OPERANDS_SPEC: {
        const ipu_kernel_spec *spec = &program->specs.items[instruction->spec];
        return is_output ? (operand_types){spec->outputs, spec->output_count}
                         : (operand_types){spec->inputs, spec->input_count};
    }
    case IPU_OPERANDS_SPECS: /* not side by side: ipu_operand_bytes */
        return (operand_types){NULL, instruction->spec_count};
    case IPU_OPERANDS_QUEUE: {
        const ipu_resource *queue = &program->resources.items[instruction->resource];
        return (operand_types){queue->types, queue->type_count};
    }
    case IPU_OPERANDS_HOST: {
        const ipu_resource *host = &program->resources.items[instruction->resource];
        uint32_t inputs = instruction->input_count < host->type_count
                              ? instruction->input_count
                              : host->type_count;
        return is_output
                   ? (operand_types){host->types + inputs, host->type_count - inputs}
                   : (operand_types){host->types, inputs};
    }
    case IPU_OPERANDS_CHANNEL: {
        const ipu_channel *channel = &program->channels.items[instruction->channel];
        return (operand_types){channel->types, channel->type_count};
    }
    case IPU_OPERANDS_INT32:
        return (operand_types){&index, 1};
    case IPU_OPERANDS_BOOL:
        return (operand_types){&flag, 1};
    case IPU_OPERANDS_BYTES:
        return (operand_types){NULL, 1};
    case IPU_OPERANDS_NONE:
        break;
    }
    return (operand_types){NULL, 0};
}

uint32_t
ipu_operand_wanted(const ipu_program *program, const ipu_instruction *instruction,
                   bool is_output)
{
    return types_of(program, instruction, is_output).count;
}

size_t
ipu_operand_bytes(const ipu_program *program, const ipu_instruction *instruction,
                  uint32_t operand)
{
    bool is_output = ipu_operand_is_output(instruction, operand);
    uint32_t number = operand - (is_output ? instruction->input_count : 0);
    if (ipu_instruction_rows[instruction->kind].inputs == IPU_OPERANDS_SPECS) {
        const ipu_kernel_spec *spec = &program->specs.items[instruction->spec + number];
        return ipu_type_bytes(is_output ? spec->outputs : spec->inputs);
    }
    const ipu_type *types = types_of(program, instruction, is_output).types;
    return types == NULL ? instruction->bytes : ipu_type_bytes(&types[number]);
}

bool
ipu_instruction_writes_variable(const ipu_program *program,
                                const ipu_instruction *instruction)
{
    if (instruction->kind == IPU_INSTRUCTION_KERNEL) {
        ipu_op op = program->specs.items[instruction->spec].op;
        return (ipu_op_info_of(op)->flags & IPU_OP_WRITES) != 0;
    }
    bool found = false;
    for (uint32_t i = 0; i < instruction->output_count; i++) {
        found |= instruction->outputs[i].space == IPU_SPACE_VARIABLE;
    }
    return found;
}

uint32_t
ipu_product_right(ipu_op op)
{
    bool is_product = op == IPU_OP_ID_MATMUL || op == IPU_OP_ID_FUSED_MATMUL ||
                      op == IPU_OP_ID_MATMUL_SGD_UPDATE;
    return op == IPU_OP_ID_MATMUL_ACCUMULATE ? 2 : is_product;
}

size_t
ipu_channel_message_bytes(const ipu_channel *channel)
{
    size_t bytes = 0;
    for (uint32_t i = 0; i < channel->type_count; i++) {
        bytes += ipu_buffer_round_up(ipu_type_bytes(&channel->types[i]));
    }
    return bytes;
}

uint32_t
ipu_program_shards(const ipu_program *program)
{
    uint32_t shards = 1;
    for (size_t s = 0; s < program->streams.count; s++) {
        const ipu_stream *stream = &program->streams.items[s];
        shards = stream->is_child && stream->ipu >= shards ? stream->ipu + 1 : shards;
        for (size_t i = 0; i < stream->instructions.count; i++) {
            int32_t shard = stream->instructions.items[i].placement.shard;
            shards = shard >= (int32_t)shards ? (uint32_t)shard + 1 : shards;
        }
    }
    return shards;
}

ipu_cost
ipu_program_cost(const ipu_program *program)
{
    ipu_cost total = {0.0, 0.0};
    const ipu_stream *stream = &program->streams.items[0];
    double turns = 1.0; /* of the loops around the instruction, multiplied */
    for (size_t i = 0; i < stream->instructions.count; i++) {
        const ipu_instruction *instruction = &stream->instructions.items[i];
        const ipu_instruction *loop = instruction;
        bool ends = instruction->kind == IPU_INSTRUCTION_NEXT;
        bool begins = instruction->kind == IPU_INSTRUCTION_LOOP ||
                      instruction->kind == IPU_INSTRUCTION_WHILE;
        if (ends) {
            loop = &stream->instructions.items[instruction->target - 1];
        }
        double bound = loop->bound > 0 ? (double)loop->bound : 1.0;
        turns = begins ? turns * bound : ends ? turns / bound : turns;
        total.flops += turns * instruction->cost.flops;
        total.bytes += turns * instruction->cost.bytes;
    }
    return total;
}

ipu_stream_bytes
ipu_program_stream_bytes(const ipu_program *program, uint32_t number)
{
    const ipu_stream *stream = &program->streams.items[number];
    ipu_stream_bytes out = {.slab = stream->memory.slab_bytes,
                            .peak = stream->memory.peak_live_bytes,
                            .remote = stream->remote_bytes};
    for (size_t i = 0; i < program->rings.count; i++) {
        const ipu_ring *ring = &program->rings.items[i];
        bool is_here = ring->stream == number && !ring->is_remote;
        out.rings += is_here ? ring->depth * ring->stride : 0;
    }
    for (size_t i = 0; i < program->channels.count; i++) {
        const ipu_channel *channel = &program->channels.items[i];
        out.messages += channel->to == number
                            ? channel->depth * ipu_channel_message_bytes(channel)
                            : 0;
    }
    return out;
}

void
ipu_program_free(ipu_ctx *ctx, ipu_program *program)
{
    if (program == NULL) {
        return;
    }
    for (size_t i = 0; i < program->streams.count; i++) {
        IPU_ARRAY_FREE(ctx, &program->streams.items[i].instructions);
        IPU_ARRAY_FREE(ctx, &program->streams.items[i].regions);
    }
    IPU_ARRAY_FREE(ctx, &program->streams);
    IPU_ARRAY_FREE(ctx, &program->channels);
    IPU_ARRAY_FREE(ctx, &program->rings);
    IPU_ARRAY_FREE(ctx, &program->specs);
    IPU_ARRAY_FREE(ctx, &program->resources);
    ipu_arena_free(ctx, &program->arena);
    ipu_free(ctx, program, sizeof(*program));
}
