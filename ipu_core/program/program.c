/* SPDX-License-Identifier: MIT
 *
 * Programs as data: what can be asked of them, and their end. */
#include "program/program.h"

uint32_t
ipu_program_holds(const ipu_program *program, uint32_t resource)
{
    uint32_t holds = 0;
    for (size_t s = 0; s < program->streams.count; s++) {
        const ipu_stream *stream = &program->streams.items[s];
        for (size_t i = 0; i < stream->instructions.count; i++) {
            const ipu_instruction *instruction = &stream->instructions.items[i];
            if (instruction->kind == IPU_INSTRUCTION_DEQUEUE &&
                instruction->resource == resource && instruction->hold >= holds) {
                holds = instruction->hold + 1;
            }
        }
    }
    return holds;
}

static ipu_cost
cost_of_stream(const ipu_stream *stream)
{
    ipu_cost total = {0.0, 0.0};
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

ipu_cost
ipu_program_cost(const ipu_program *program)
{
    ipu_cost total = {0.0, 0.0};
    for (size_t s = 0; s < program->streams.count; s++) {
        ipu_cost cost = cost_of_stream(&program->streams.items[s]);
        total.flops += cost.flops;
        total.bytes += cost.bytes;
    }
    return total;
}

void
ipu_program_free(ipu_ctx *ctx, ipu_program *program)
{
    if (program == NULL) {
        return;
    }
    for (size_t i = 0; i < program->streams.count; i++) {
        IPU_ARRAY_FREE(ctx, &program->streams.items[i].instructions);
    }
    IPU_ARRAY_FREE(ctx, &program->streams);
    IPU_ARRAY_FREE(ctx, &program->channels);
    IPU_ARRAY_FREE(ctx, &program->rings);
    IPU_ARRAY_FREE(ctx, &program->specs);
    IPU_ARRAY_FREE(ctx, &program->resources);
    ipu_arena_free(ctx, &program->arena);
    ipu_free(ctx, program, sizeof(*program));
}
