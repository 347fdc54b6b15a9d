/* SPDX-License-Identifier: MIT
 *
 * Programs of several streams, made by hand: all numbers are int32 scalars in cells of
 * the streams' slabs. */
#ifndef IPU_TESTS_STREAMS_H
#define IPU_TESTS_STREAMS_H

#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "run/executor.h"

enum { CELLS = 16, CONSTANTS = 512 };

static const ipu_type scalar_i = {IPU_DTYPE_INT32, {0, {0}}};

typedef struct maker {
    ipu_ctx *ctx;
    ipu_program *program;
    int32_t *constants; /* one in each 64 bytes */
    uint32_t constant_count;
} maker;

static inline maker
begin_program(ipu_ctx *ctx, uint32_t streams)
{
    maker m = {.ctx = ctx};
    char *memory;
    CHECK_OK(ctx, ipu_alloc(ctx, sizeof(*m.program), &m.program));
    size_t bytes = CONSTANTS * IPU_BUFFER_ALIGNMENT;
    CHECK_OK(ctx,
             ipu_arena_alloc(ctx, &m.program->arena,
                             bytes + IPU_BUFFER_ALIGNMENT + IPU_SLACK_BYTES, &memory));
    m.constants = (int32_t *)(void *)ipu_buffer_round_up((uintptr_t)memory);
    m.program->constants = m.constants;
    m.program->constant_bytes = bytes;
    m.program->micro_batches = 1;
    for (uint32_t i = 0; i < streams; i++) {
        ipu_stream stream = {.memory.slab_bytes =
                                 CELLS * IPU_BUFFER_ALIGNMENT + IPU_SLACK_BYTES};
        CHECK_OK(ctx, IPU_ARRAY_PUSH(ctx, &m.program->streams, stream));
    }
    return m;
}

static inline ipu_place
cell(uint32_t number)
{
    return (ipu_place){.space = IPU_SPACE_SLAB,
                       .offset = (size_t)number * IPU_BUFFER_ALIGNMENT};
}

static inline ipu_place
number(maker *m, int32_t value)
{
    uint32_t i = 0;
    while (i < m->constant_count && m->constants[16 * i] != value) {
        i++;
    }
    CHECK(i < CONSTANTS);
    m->constants[16 * i] = value;
    m->constant_count += i == m->constant_count;
    return (ipu_place){.space = IPU_SPACE_CONSTANT,
                       .offset = (size_t)i * IPU_BUFFER_ALIGNMENT};
}

static inline ipu_place
at_index(ipu_space space, uint32_t index)
{
    return (ipu_place){.space = space, .index = index};
}

static inline const ipu_place *
keep_places(maker *m, const ipu_place *places, uint32_t count)
{
    ipu_place *kept;
    CHECK_OK(m->ctx, ipu_arena_alloc(m->ctx, &m->program->arena,
                                     (count + 1) * sizeof(ipu_place), &kept));
    if (count > 0) {
        memcpy(kept, places, count * sizeof(ipu_place));
    }
    return kept;
}

/* Appends an instruction; returns its number. */
static inline int32_t
emit(maker *m, uint32_t stream, ipu_instruction instruction, const ipu_place *inputs,
     uint32_t input_count, const ipu_place *outputs, uint32_t output_count)
{
    ipu_stream *s = &m->program->streams.items[stream];
    instruction.inputs = keep_places(m, inputs, input_count);
    instruction.input_count = input_count;
    instruction.outputs = keep_places(m, outputs, output_count);
    instruction.output_count = output_count;
    CHECK_OK(m->ctx, IPU_ARRAY_PUSH(m->ctx, &s->instructions, instruction));
    return (int32_t)s->instructions.count - 1;
}

static inline int32_t
add_copy(maker *m, uint32_t stream, ipu_place from, ipu_place to)
{
    ipu_instruction copy = {.kind = IPU_INSTRUCTION_COPY, .bytes = 4};
    return emit(m, stream, copy, &from, 1, &to, 1);
}

/* The spec of a kernel over scalars. */
static inline uint32_t
spec_of(maker *m, ipu_op op, uint32_t inputs, const ipu_type *input,
        const ipu_type *output)
{
    ipu_type *types;
    CHECK_OK(m->ctx,
             ipu_arena_alloc(m->ctx, &m->program->arena, 4 * sizeof(ipu_type), &types));
    for (uint32_t i = 0; i < inputs; i++) {
        types[i] = *input;
    }
    types[3] = *output;
    ipu_kernel_spec spec = {.op = op,
                            .input_count = inputs,
                            .output_count = 1,
                            .inputs = types,
                            .outputs = &types[3]};
    CHECK_OK(m->ctx, ipu_kernel_prepare(m->ctx, &m->program->arena, &spec,
                                        IPU_KERNEL_REFERENCE, IPU_CPU_GENERIC));
    CHECK_OK(m->ctx, IPU_ARRAY_PUSH(m->ctx, &m->program->specs, spec));
    return (uint32_t)m->program->specs.count - 1;
}

static inline int32_t
add_kernel(maker *m, uint32_t stream, ipu_op op, ipu_place a, ipu_place b, ipu_place to)
{
    ipu_place inputs[2] = {a, b};
    ipu_instruction kernel = {.kind = IPU_INSTRUCTION_KERNEL,
                              .spec = spec_of(m, op, 2, &scalar_i, &scalar_i)};
    return emit(m, stream, kernel, inputs, 2, &to, 1);
}

/* A channel of scalars (`count` in a message). */
static inline uint32_t
add_channel(maker *m, uint32_t from, uint32_t to, uint32_t depth, uint32_t count)
{
    ipu_type *types;
    CHECK_OK(m->ctx, ipu_arena_alloc(m->ctx, &m->program->arena,
                                     (count + 1) * sizeof(ipu_type), &types));
    for (uint32_t i = 0; i < count; i++) {
        types[i] = scalar_i;
    }
    ipu_channel channel = {from, to, depth, count, types};
    CHECK_OK(m->ctx, IPU_ARRAY_PUSH(m->ctx, &m->program->channels, channel));
    return (uint32_t)m->program->channels.count - 1;
}

static inline int32_t
add_send(maker *m, uint32_t stream, uint32_t channel, const ipu_place *from)
{
    ipu_instruction send = {.kind = IPU_INSTRUCTION_SEND, .channel = channel};
    return emit(m, stream, send, from, m->program->channels.items[channel].type_count,
                NULL, 0);
}

static inline int32_t
add_receive(maker *m, uint32_t stream, uint32_t channel, const ipu_place *to)
{
    ipu_instruction receive = {.kind = IPU_INSTRUCTION_RECEIVE, .channel = channel};
    return emit(m, stream, receive, NULL, 0, to,
                m->program->channels.items[channel].type_count);
}

static inline int32_t
open_loop(maker *m, uint32_t stream, ipu_place turns, bool is_step)
{
    ipu_stream *s = &m->program->streams.items[stream];
    ipu_instruction loop = {.kind = IPU_INSTRUCTION_LOOP,
                            .loop = s->loop_count++,
                            .turns = -1,
                            .is_step = is_step};
    return emit(m, stream, loop, &turns, 1, NULL, 0);
}

static inline void
close_loop(maker *m, uint32_t stream, int32_t first)
{
    ipu_stream *s = &m->program->streams.items[stream];
    ipu_instruction next = {.kind = IPU_INSTRUCTION_NEXT,
                            .loop = s->instructions.items[first].loop,
                            .target = first + 1,
                            .is_step = s->instructions.items[first].is_step};
    int32_t last = emit(m, stream, next, NULL, 0, NULL, 0);
    s->instructions.items[first].target = last + 1;
}

static inline uint32_t
add_resource(maker *m, ipu_resource_kind kind, int64_t id, const ipu_type *type)
{
    ipu_type *kept;
    CHECK_OK(m->ctx,
             ipu_arena_alloc(m->ctx, &m->program->arena, sizeof(ipu_type), &kept));
    *kept = *type;
    ipu_resource resource = {.kind = kind, .id = id, .type_count = 1, .types = kept};
    CHECK_OK(m->ctx, IPU_ARRAY_PUSH(m->ctx, &m->program->resources, resource));
    return (uint32_t)m->program->resources.count - 1;
}

static inline int32_t
add_dequeue(maker *m, uint32_t stream, uint32_t resource)
{
    ipu_instruction dequeue = {.kind = IPU_INSTRUCTION_DEQUEUE, .resource = resource};
    ipu_place place =
        at_index(IPU_SPACE_INFEED, ipu_program_infeed_base(m->program, resource));
    return emit(m, stream, dequeue, NULL, 0, &place, 1);
}

static inline int32_t
add_enqueue(maker *m, uint32_t stream, uint32_t resource, ipu_place from)
{
    ipu_instruction enqueue = {.kind = IPU_INSTRUCTION_ENQUEUE, .resource = resource};
    return emit(m, stream, enqueue, &from, 1, NULL, 0);
}

/* The program's inputs or outputs: so many scalars. */
static inline const ipu_type *
scalars(maker *m, uint32_t count)
{
    ipu_type *types;
    CHECK_OK(m->ctx, ipu_arena_alloc(m->ctx, &m->program->arena,
                                     (count + 1) * sizeof(ipu_type), &types));
    for (uint32_t i = 0; i < count; i++) {
        types[i] = scalar_i;
    }
    return types;
}

/* Halts all streams and checks the program. */
static inline ipu_program *
end_program(maker *m)
{
    ipu_instruction halt = {.kind = IPU_INSTRUCTION_HALT};
    for (uint32_t i = 0; i < m->program->streams.count; i++) {
        emit(m, i, halt, NULL, 0, NULL, 0);
    }
    CHECK_OK(m->ctx, ipu_program_verify(m->ctx, m->program));
    return m->program;
}

#endif
