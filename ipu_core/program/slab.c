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
    IPU_TRY(IPU_ARRAY_PUSH(l->ctx, &l->outputs, IPU_NO_INDEX));
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

/* The innermost loop that each instruction lies in, and the loop around each loop, by
 * number plus 1; 0: none. An instruction lies in a loop behind its first instruction
 * and in front of its last. */
typedef struct nesting {
    uint32_t *innermost; /* by instruction */
    uint32_t *around;    /* by loop */
} nesting;

static void
find_nesting(const lowering *l, nesting *n)
{
    size_t count = l->stream->instructions.count;
    uint32_t open = 0;
    for (uint32_t i = 0; i < l->loops.count; i++) { /* noted at its first instruction */
        n->innermost[l->loops.items[i].first] = i + 1;
    }
    for (size_t i = 0; i < count; i++) {
        uint32_t begins = n->innermost[i];
        if (open != 0 && l->loops.items[open - 1].last == (int32_t)i) {
            open = n->around[open - 1];
        }
        n->innermost[i] = open;
        if (begins != 0) {
            n->around[begins - 1] = open;
            open = begins;
        }
    }
}

/* A buffer that is filled before a loop and used inside is needed until the loop
 * ends. */
static void
extend_over_loops(lowering *l, const nesting *n)
{
    for (size_t k = 0; k < l->buffers.count; k++) {
        ipu_buffer *buffer = &l->buffers.items[k];
        uint32_t loop = buffer->last < 0 ? 0 : n->innermost[buffer->last];
        while (loop != 0 && l->loops.items[loop - 1].first > buffer->first) {
            buffer->last = l->loops.items[loop - 1].last;
            loop = n->around[loop - 1];
        }
    }
}

static ipu_status
find_lifetimes(lowering *l)
{
    size_t count = l->stream->instructions.count;
    for (size_t i = 0; i < count; i++) {
        const ipu_instruction *instruction = &l->stream->instructions.items[i];
        note_live(l, instruction->inputs, instruction->input_count, (int32_t)i);
        note_live(l, instruction->outputs, instruction->output_count, (int32_t)i);
    }
    nesting n = {0};
    size_t around_bytes = l->loops.count * sizeof(uint32_t);
    IPU_TRY(ipu_alloc(l->ctx, count * sizeof(uint32_t), &n.innermost));
    ipu_status status = ipu_alloc(l->ctx, around_bytes, &n.around);
    if (status == IPU_OK) {
        find_nesting(l, &n);
        extend_over_loops(l, &n);
    }
    ipu_free(l->ctx, n.around, n.around == NULL ? 0 : around_bytes);
    ipu_free(l->ctx, n.innermost, count * sizeof(uint32_t));
    for (size_t k = 0; k < l->buffers.count; k++) {
        bool is_output = l->outputs.items[k] != IPU_NO_INDEX;
        bool is_untouched = l->buffers.items[k].last < 0; /* or without bytes */
        if (is_output || is_untouched) {
            l->buffers.items[k] = (ipu_buffer){0};
        }
    }
    return status;
}

static void
resolve(lowering *l, const ipu_place *places, uint32_t count)
{
    ipu_place *own = (ipu_place *)places; /* ours: made by new_places */
    for (uint32_t i = 0; i < count; i++) {
        if (own[i].space != IPU_SPACE_SLAB) {
            continue;
        }
        uint32_t output = l->outputs.items[own[i].index];
        size_t offset = l->buffers.items[own[i].index].offset;
        own[i] = output != IPU_NO_INDEX
                     ? (ipu_place){.space = IPU_SPACE_OUTPUT, .index = output}
                     : (ipu_place){.space = IPU_SPACE_SLAB, .offset = offset};
    }
}

ipu_status
ipu__lower_plan_slab(lowering *l)
{
    ipu_stream *stream = l->stream;
    IPU_TRY(find_lifetimes(l));
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
