/* SPDX-License-Identifier: MIT
 *
 * Programs as data: what can be asked of them, and their end. */
#include "program/program.h"

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

static void
add_cost(ipu_cost *total, double times, ipu_cost cost)
{
    total->flops += times * cost.flops;
    total->bytes += times * cost.bytes;
}

/* Of the instructions from `begin` to before `end`. */
static ipu_cost cost_of_range(const ipu_program *program, const ipu_stream *stream,
                              size_t begin, size_t end);

/* Of one execution; actions of the same routine come close together. */
static ipu_cost
cost_of_actions(const ipu_program *program, const ipu_stream *stream)
{
    ipu_cost total = {0.0, 0.0};
    for (size_t r = 0; r < stream->entry;) {
        double times = 0.0;
        size_t end = stream->entry;
        for (size_t i = stream->entry; i < stream->instructions.count; i++) {
            const ipu_instruction *action = &stream->instructions.items[i];
            bool is_one =
                action->kind == IPU_INSTRUCTION_ACTION && (size_t)action->target == r;
            times += is_one;
            end = is_one ? (size_t)action->end : end;
        }
        add_cost(&total, times, cost_of_range(program, stream, r, end));
        r = end;
    }
    return total;
}

static ipu_cost
cost_of_range(const ipu_program *program, const ipu_stream *stream, size_t begin,
              size_t end)
{
    ipu_cost total = {0.0, 0.0};
    double turns = 1.0; /* of the loops around the instruction, multiplied */
    for (size_t i = begin; i < end; i++) {
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
        add_cost(&total, turns, instruction->cost);
        for (uint32_t k = 0; k < instruction->stream_count; k++) {
            const ipu_stream *child =
                &program->streams.items[instruction->first_stream + k];
            add_cost(&total, turns, cost_of_actions(program, child));
        }
    }
    return total;
}

ipu_cost
ipu_program_cost(const ipu_program *program)
{
    ipu_cost total = {0.0, 0.0};
    for (size_t s = 0; s < program->streams.count; s++) {
        const ipu_stream *stream = &program->streams.items[s];
        if (!stream->is_child) {
            add_cost(&total, 1.0,
                     cost_of_range(program, stream, 0, stream->instructions.count));
        }
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
        size_t message = 0;
        for (uint32_t k = 0; k < channel->type_count; k++) {
            message += ipu_buffer_round_up(ipu_type_bytes(&channel->types[k]));
        }
        out.messages += channel->to == number ? channel->depth * message : 0;
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
