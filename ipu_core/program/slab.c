/* SPDX-License-Identifier: MIT
 *
 * The slabs of the streams. Buffers have virtual numbers while instructions are made.
 * Here their lifetimes are read off the finished instructions, planned and checked, and
 * only then do places get offsets.
 *
 * A buffer lies in the slab of its home. A pipeline's streams use buffers of the stream
 * around while that one is at its pipeline instruction; the buffers of theirs that it
 * uses stay there from their beginning to their end. */
#include "program/lower_impl.h"

static ipu_status
add_buffer(lowering *l, size_t bytes, slab_buffer buffer, int32_t *out)
{
    buffer.life = (ipu_buffer){.bytes = bytes, .first = INT32_MAX, .last = -1};
    buffer.stream = l->number;
    buffer.reserved = IPU_NO_INDEX;
    buffer.output = IPU_NO_INDEX;
    IPU_FAIL_IF(l->ctx, l->buffers.count >= INT32_MAX, OUT_OF_MEMORY,
                "out of memory: more than 2^31 buffers");
    IPU_TRY(IPU_ARRAY_PUSH(l->ctx, &l->buffers, buffer));
    *out = (int32_t)l->buffers.count - 1;
    return IPU_OK;
}

ipu_status
ipu__lower_new_buffer(lowering *l, size_t bytes, int32_t *out)
{
    return add_buffer(l, bytes, (slab_buffer){0}, out);
}

ipu_status
ipu__lower_new_ring(lowering *l, size_t bytes, uint32_t depth, int32_t *out)
{
    return add_buffer(l, bytes, (slab_buffer){.depth = depth, .stays = true}, out);
}

/* --- lifetimes -------------------------------------------------------------------- */

/* A span of instructions at which places are used. */
typedef struct span {
    int32_t first;
    int32_t last;
} span;

static void
note_live(lowering *l, uint32_t stream, const ipu_instruction *instruction, span at)
{
    for (uint32_t k = 0; k < ipu_operand_count(instruction); k++) {
        ipu_place place = *ipu_operand_place(instruction, k);
        if (place.space == IPU_SPACE_SLAB &&
            l->buffers.items[place.index].stream == stream) {
            ipu_buffer *buffer = &l->buffers.items[place.index].life;
            buffer->first = at.first < buffer->first ? at.first : buffer->first;
            buffer->last = at.last > buffer->last ? at.last : buffer->last;
        }
    }
}

/* The kernels of a region run in no order. */
static span
span_of(const ipu_stream *code, size_t instruction)
{
    uint32_t number = code->instructions.items[instruction].region;
    if (number == 0) {
        return (span){(int32_t)instruction, (int32_t)instruction};
    }
    const ipu_region *region = &code->regions.items[number - 1];
    return (span){(int32_t)region->first, (int32_t)(region->first + region->count) - 1};
}

/* What the instructions of stream `user` use of `stream`'s slab; at >= 0: there. */
static void
note_uses(lowering *l, uint32_t stream, uint32_t user, int32_t at)
{
    const ipu_stream *code = &l->program->streams.items[user];
    for (size_t i = 0; i < code->instructions.count; i++) {
        const ipu_instruction *instruction = &code->instructions.items[i];
        span time = at >= 0 ? (span){at, at} : span_of(code, i);
        note_live(l, stream, instruction, time);
        if (at < 0 && instruction->kind == IPU_INSTRUCTION_PIPELINE) {
            for (uint32_t k = 0; k < instruction->stream_count; k++) {
                note_uses(l, stream, instruction->first_stream + k, (int32_t)i);
            }
        }
    }
}

/* The innermost loop that each instruction lies in, and the loop around each loop, by
 * number plus 1; 0: none. An instruction lies in a loop after its first instruction
 * and in front of its last. */
typedef struct nesting {
    uint32_t *innermost; /* by instruction */
    uint32_t *around;    /* by loop */
} nesting;

static void
find_nesting(const lowering *l, uint32_t stream, nesting *n)
{
    size_t count = l->program->streams.items[stream].instructions.count;
    uint32_t open = 0;
    for (uint32_t i = 0; i < l->loops.count; i++) { /* noted at its first instruction */
        if (l->loops.items[i].stream == stream) {
            n->innermost[l->loops.items[i].first] = i + 1;
        }
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
extend_over_loops(lowering *l, uint32_t stream, const nesting *n)
{
    for (size_t k = 0; k < l->buffers.count; k++) {
        ipu_buffer *buffer = &l->buffers.items[k].life;
        bool is_ours = l->buffers.items[k].stream == stream;
        uint32_t loop = !is_ours || buffer->last < 0 ? 0 : n->innermost[buffer->last];
        while (loop != 0 && l->loops.items[loop - 1].first > buffer->first) {
            buffer->last = l->loops.items[loop - 1].last;
            loop = n->around[loop - 1];
        }
    }
}

static ipu_status
find_lifetimes(lowering *l, uint32_t stream)
{
    size_t count = l->program->streams.items[stream].instructions.count;
    note_uses(l, stream, stream, -1);
    nesting n = {0};
    IPU_TRY(ipu__lower_array(l, count, sizeof(uint32_t), &n.innermost));
    IPU_TRY(ipu__lower_array(l, l->loops.count, sizeof(uint32_t), &n.around));
    find_nesting(l, stream, &n);
    extend_over_loops(l, stream, &n);
    return IPU_OK;
}

/* --- planning --------------------------------------------------------------------- */

static size_t
stride_of(const slab_buffer *buffer)
{
    return ipu_buffer_round_up(buffer->life.bytes);
}

/* The buffers that lie in the slab of one stream, as the planner sees them. */
typedef struct plan {
    ipu_buffer *buffers;
    slab_buffer **of; /* the lowering's */
    size_t count;
} plan;

static bool
lies_in_slab(uint32_t stream, const slab_buffer *buffer)
{
    bool is_output = buffer->output != IPU_NO_INDEX;
    return buffer->stream == stream && !buffer->is_remote &&
           (buffer->stays || (!is_output && buffer->life.last >= 0));
}

static ipu_status
add_to_plan(const lowering *l, slab_buffer *buffer, plan *to)
{
    ipu_buffer *life = &to->buffers[to->count];
    *life = buffer->life;
    to->of[to->count++] = buffer;
    if (buffer->stays) {
        const ipu_stream *code = &l->program->streams.items[buffer->stream];
        life->first = 0;
        life->last = (int32_t)code->instructions.count - 1;
    }
    return buffer->depth > 1
               ? ipu_mul_size(l->ctx, stride_of(buffer), buffer->depth, &life->bytes)
               : IPU_OK;
}

static ipu_status
plan_stream(lowering *l, uint32_t stream, plan *made)
{
    ipu_stream *code = &l->program->streams.items[stream];
    IPU_TRY(find_lifetimes(l, stream));
    made->count = 0;
    for (size_t k = 0; k < l->buffers.count; k++) {
        if (lies_in_slab(stream, &l->buffers.items[k])) {
            IPU_TRY(add_to_plan(l, &l->buffers.items[k], made));
        }
    }
    IPU_TRY(ipu_memory_plan(l->ctx, made->buffers, made->count, &code->memory));
    IPU_TRY(
        ipu_memory_check(l->ctx, made->buffers, made->count, code->memory.slab_bytes));
    for (size_t i = 0; i < made->count; i++) {
        made->of[i]->life.offset = made->buffers[i].offset;
    }
    return IPU_OK;
}

static ipu_status
plan_streams(lowering *l)
{
    plan made = {0};
    size_t count = l->buffers.count;
    IPU_TRY(ipu__lower_array(l, count, sizeof(*made.buffers), &made.buffers));
    IPU_TRY(ipu__lower_array(l, count, sizeof(*made.of), &made.of));
    for (uint32_t s = 0; s < l->program->streams.count; s++) {
        IPU_TRY(plan_stream(l, s, &made));
    }
    return IPU_OK;
}

/* Buffers that stay in remote memory lie there side by side. */
static ipu_status
plan_remote(lowering *l)
{
    for (size_t k = 0; k < l->buffers.count; k++) {
        slab_buffer *buffer = &l->buffers.items[k];
        if (buffer->is_remote) {
            ipu_stream *code = &l->program->streams.items[buffer->stream];
            size_t slots = buffer->depth > 1 ? buffer->depth : 1;
            size_t bytes;
            IPU_TRY(ipu_mul_size(l->ctx, slots, stride_of(buffer), &bytes));
            buffer->life.offset = code->remote_bytes;
            IPU_FAIL_IF(l->ctx, bytes > SIZE_MAX / 4 - code->remote_bytes,
                        OUT_OF_MEMORY,
                        "out of memory: what the program offloads does not fit in the "
                        "address space");
            code->remote_bytes += bytes;
        }
    }
    return IPU_OK;
}

/* --- places ----------------------------------------------------------------------- */

static ipu_status
make_rings(lowering *l)
{
    for (size_t k = 0; k < l->buffers.count; k++) {
        slab_buffer *buffer = &l->buffers.items[k];
        if (buffer->depth > 1) {
            ipu_ring ring = {.stream = buffer->stream,
                             .depth = buffer->depth,
                             .is_remote = buffer->is_remote,
                             .offset = buffer->life.offset,
                             .stride = stride_of(buffer),
                             .bytes = buffer->life.bytes};
            /* the buffer leads to the ring from here on */
            buffer->life.offset = l->program->rings.count;
            IPU_TRY(IPU_ARRAY_PUSH(l->ctx, &l->program->rings, ring));
        }
    }
    return IPU_OK;
}

static void
resolve(const lowering *l, uint32_t stream, ipu_place *place)
{
    const slab_buffer *buffer = &l->buffers.items[place->index];
    size_t offset = buffer->life.offset;
    if (buffer->output != IPU_NO_INDEX) {
        *place = (ipu_place){.space = IPU_SPACE_OUTPUT, .index = buffer->output};
    } else if (buffer->depth > 1) {
        *place = (ipu_place){.space = IPU_SPACE_RING, .index = (uint32_t)offset};
    } else if (buffer->is_remote) {
        *place = (ipu_place){IPU_SPACE_REMOTE, buffer->stream, offset};
    } else if (buffer->stream != stream) {
        *place = (ipu_place){IPU_SPACE_FOREIGN, buffer->stream, offset};
    } else {
        *place = (ipu_place){IPU_SPACE_SLAB, 0, offset};
    }
}

ipu_status
ipu__lower_plan_slabs(lowering *l)
{
    IPU_TRY(plan_streams(l));
    IPU_TRY(plan_remote(l));
    IPU_TRY(make_rings(l));
    for (uint32_t s = 0; s < l->program->streams.count; s++) {
        const ipu_stream *code = &l->program->streams.items[s];
        for (size_t i = 0; i < code->instructions.count; i++) {
            const ipu_instruction *instruction = &code->instructions.items[i];
            for (uint32_t k = 0; k < ipu_operand_count(instruction); k++) {
                /* ours: made by new_places */
                ipu_place *place = (ipu_place *)ipu_operand_place(instruction, k);
                if (place->space == IPU_SPACE_SLAB) {
                    resolve(l, s, place);
                }
            }
        }
    }
    return IPU_OK;
}
