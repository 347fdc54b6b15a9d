/* SPDX-License-Identifier: MIT
 *
 * The slab of a stream. Buffers have virtual numbers while instructions are made. Here
 * their lifetimes are read off the finished instructions, planned and checked, and only
 * then do places get offsets. */
#include "program/lower_impl.h"

ipu_status
ipu__lower_new_buffer(lowering *l, size_t bytes, int32_t *out)
{
    ipu_buffer buffer = {.bytes = bytes, .first = INT32_MAX, .last = -1};
    IPU_FAIL_IF(l->ctx, l->buffers.count >= INT32_MAX, OUT_OF_MEMORY,
                "out of memory: more than 2^31 buffers");
    IPU_TRY(IPU_ARRAY_PUSH(l->ctx, &l->buffers, buffer));
    IPU_TRY(IPU_ARRAY_PUSH(l->ctx, &l->reserved, IPU_NO_INDEX));
    *out = (int32_t)l->buffers.count - 1;
    return IPU_OK;
}

static void
note_live(lowering *l, const ipu_place *places, uint32_t count, int32_t at)
{
    for (uint32_t i = 0; i < count; i++) {
        if (places[i].space == IPU_SPACE_SLAB) {
            ipu_buffer *buffer = &l->buffers.items[places[i].index];
            buffer->first = at < buffer->first ? at : buffer->first;
            buffer->last = at > buffer->last ? at : buffer->last;
        }
    }
}

/* A buffer that is filled before a loop and used inside is needed until the loop
 * ends. */
static void
find_lifetimes(lowering *l)
{
    for (size_t i = 0; i < l->stream->instructions.count; i++) {
        const ipu_instruction *instruction = &l->stream->instructions.items[i];
        note_live(l, instruction->inputs, instruction->input_count, (int32_t)i);
        note_live(l, instruction->outputs, instruction->output_count, (int32_t)i);
    }
    for (size_t i = 0; i < l->loops.count; i++) {
        loop_span loop = l->loops.items[i];
        for (size_t k = 0; k < l->buffers.count; k++) {
            ipu_buffer *buffer = &l->buffers.items[k];
            if (buffer->first < loop.first && buffer->last > loop.first &&
                buffer->last < loop.last) {
                buffer->last = loop.last;
            }
        }
    }
    for (size_t k = 0; k < l->buffers.count; k++) {
        if (l->buffers.items[k].last < 0) { /* never touched, or without bytes */
            l->buffers.items[k] = (ipu_buffer){0};
        }
    }
}

static void
resolve(lowering *l, const ipu_place *places, uint32_t count)
{
    ipu_place *own = (ipu_place *)places; /* ours: made by new_places */
    for (uint32_t i = 0; i < count; i++) {
        if (own[i].space == IPU_SPACE_SLAB) {
            own[i].offset = l->buffers.items[own[i].index].offset;
            own[i].index = 0;
        }
    }
}

ipu_status
ipu__lower_plan_slab(lowering *l)
{
    ipu_stream *stream = l->stream;
    find_lifetimes(l);
    IPU_TRY(
        ipu_memory_plan(l->ctx, l->buffers.items, l->buffers.count, &stream->memory));
    IPU_TRY(ipu_memory_check(l->ctx, l->buffers.items, l->buffers.count,
                             stream->memory.slab_bytes));
    for (size_t i = 0; i < stream->instructions.count; i++) {
        const ipu_instruction *instruction = &stream->instructions.items[i];
        resolve(l, instruction->inputs, instruction->input_count);
        resolve(l, instruction->outputs, instruction->output_count);
    }
    return IPU_OK;
}
