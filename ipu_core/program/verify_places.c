/* SPDX-License-Identifier: MIT
 *
 * Operands, as the program's checker sees them: whether they exist, and whether what is
 * read was written. The slabs of all streams, and the outputs after them, lie on one
 * line of bytes; the written ranges on it are kept sorted and never overlap. */
#include <inttypes.h>
#include <string.h>

#include "program/verify_impl.h"

ipu_status
ipu__verify_wrong(ipu__checker *c, const char *what)
{
    if (c->program->streams.count == 1) {
        IPU_FAIL(c->ctx, INTERNAL, "instruction %zu of the program: %s", c->at, what);
    }
    IPU_FAIL(c->ctx, INTERNAL, "instruction %zu of stream %zu of the program: %s",
             c->at, c->number, what);
}

/* --- the written part of the slab ------------------------------------------------ */

static bool
overlap(ipu__range a, ipu__range b)
{
    return a.begin < b.end && b.begin < a.end;
}

/* The first ipu__range that ends after `offset`. */
static size_t
find_range(const ipu__checker *c, size_t offset)
{
    size_t low = 0;
    size_t high = c->written.count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (c->written.items[middle].end <= offset) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static ipu_status
note_range(ipu__checker *c, ipu__range r)
{
    if (r.begin == r.end) {
        return IPU_OK;
    }
    IPU_TRY(IPU_ARRAY_RESERVE(c->ctx, &c->written, 1));
    size_t first = find_range(c, r.begin);
    size_t end = first;
    while (end < c->written.count && overlap(c->written.items[end], r)) {
        end++;
    }
    memmove(&c->written.items[first + 1], &c->written.items[end],
            (c->written.count - end) * sizeof(ipu__range));
    c->written.items[first] = r;
    c->written.count = c->written.count - (end - first) + 1;
    return IPU_OK;
}

bool
ipu__verify_is_written(const ipu__checker *c, ipu__range r)
{
    size_t at = find_range(c, r.begin);
    return r.begin == r.end ||
           (at < c->written.count && c->written.items[at].begin <= r.begin &&
            r.end <= c->written.items[at].end);
}

/* --- operands -------------------------------------------------------------------- */

const ipu_resource *
ipu__verify_resource_at(const ipu__checker *c, uint32_t index, ipu_resource_kind kind)
{
    if (index >= c->program->resources.count ||
        c->program->resources.items[index].kind != kind) {
        return NULL;
    }
    return &c->program->resources.items[index];
}

/* The bytes of one component of the infeeds; the index is in range. */
static size_t
infeed_bytes(const ipu_program *program, uint32_t index)
{
    for (uint32_t i = 0; i < program->resources.count; i++) {
        uint32_t base = ipu_program_infeed_base(program, i);
        if (index < ipu_program_infeed_base(program, i + 1)) {
            return ipu_type_bytes(&program->resources.items[i].types[index - base]);
        }
    }
    return 0;
}

static ipu_status
check_in_slab(ipu__checker *c, uint32_t stream, size_t offset, size_t bytes)
{
    size_t usable =
        c->program->streams.items[stream].memory.slab_bytes - IPU_SLACK_BYTES;
    REQUIRE(c, offset % IPU_BUFFER_ALIGNMENT == 0,
            "an operand in the slab is not aligned");
    REQUIRE(c, offset <= usable && bytes <= usable - offset,
            "an operand ends past the slab");
    return IPU_OK;
}

static ipu_status
check_in_remote(ipu__checker *c, uint32_t stream, size_t offset, size_t bytes)
{
    size_t room = c->program->streams.items[stream].remote_bytes;
    const ipu_instruction *instruction = &c->stream->instructions.items[c->at];
    REQUIRE(c, instruction->kind == IPU_INSTRUCTION_COPY,
            "it is not a copy, and uses remote memory");
    REQUIRE(c, offset <= room && bytes <= room - offset,
            "an operand ends past the remote memory");
    return IPU_OK;
}

static ipu_status
check_in_ring(ipu__checker *c, uint32_t index, size_t bytes)
{
    REQUIRE(c, index < c->program->rings.count, "there is no such ring");
    const ipu_ring *ring = &c->program->rings.items[index];
    REQUIRE(c, ring->stream == c->number && c->stream->is_child && ring->depth > 0,
            "a ring of another stream");
    REQUIRE(c, bytes == ring->bytes && bytes <= ring->stride,
            "an operand is not as its ring says");
    size_t last = ring->offset + (ring->depth - 1) * ring->stride;
    return ring->is_remote ? check_in_remote(c, c->number, last, bytes)
                           : check_in_slab(c, c->number, last, bytes);
}

ipu_status
ipu__verify_check_place(ipu__checker *c, ipu_place place, size_t bytes, bool is_output)
{
    const ipu_program *program = c->program;
    const ipu_resource *variable;
    switch (place.space) {
    case IPU_SPACE_SLAB:
        return check_in_slab(c, c->number, place.offset, bytes);
    case IPU_SPACE_FOREIGN:
        REQUIRE(c, place.index < program->streams.count, "there is no such slab");
        REQUIRE(c,
                c->stream->is_child ? place.index == c->around
                                    : program->streams.items[place.index].is_child,
                "it uses the slab of a stream that runs at the same time");
        return check_in_slab(c, place.index, place.offset, bytes);
    case IPU_SPACE_REMOTE:
        REQUIRE(c, place.index < program->streams.count,
                "there is no such remote memory");
        return check_in_remote(c, place.index, place.offset, bytes);
    case IPU_SPACE_RING:
        return check_in_ring(c, place.index, bytes);
    case IPU_SPACE_CONSTANT:
        REQUIRE(c, !is_output, "it writes a constant");
        REQUIRE(c, place.offset % IPU_BUFFER_ALIGNMENT == 0,
                "a constant is not aligned");
        REQUIRE(c,
                place.offset <= program->constant_bytes &&
                    bytes <= program->constant_bytes - place.offset,
                "an operand ends past the constants");
        break;
    case IPU_SPACE_HELD:
        REQUIRE(c,
                !is_output && place.index < program->held_count &&
                    bytes == program->held[place.index].bytes,
                "a held tensor is not as the program says");
        break;
    case IPU_SPACE_INPUT:
        REQUIRE(c,
                !is_output && place.index < program->input_count &&
                    bytes == ipu_type_bytes(&program->inputs[place.index]),
                "an input is not as the program says");
        break;
    case IPU_SPACE_OUTPUT:
        REQUIRE(c,
                place.index < program->output_count &&
                    bytes == ipu_type_bytes(&program->outputs[place.index]),
                "an output is not as the program says");
        break;
    case IPU_SPACE_VARIABLE:
        variable = ipu__verify_resource_at(c, place.index, IPU_RESOURCE_VARIABLE);
        REQUIRE(c, variable != NULL && bytes == ipu_type_bytes(&variable->types[0]),
                "a variable is not as the program says");
        break;
    case IPU_SPACE_INFEED:
        REQUIRE(c, !is_output && place.index < c->infeed_components,
                "an infeed's tensor does not exist");
        REQUIRE(c, bytes == infeed_bytes(program, place.index),
                "an infeed's tensor is not as the program says");
        break;
    }
    return IPU_OK;
}

/* Where a checked place lies on the line; what is not there is read only. */
static ipu__range
range_of(const ipu__checker *c, ipu_place place, size_t bytes)
{
    size_t begin;
    const ipu_ring *ring;
    switch (place.space) {
    case IPU_SPACE_SLAB:
        begin = c->slabs[c->number] + place.offset;
        break;
    case IPU_SPACE_FOREIGN:
        begin = c->slabs[place.index] + place.offset;
        break;
    case IPU_SPACE_REMOTE:
        begin = c->remotes[place.index] + place.offset;
        break;
    case IPU_SPACE_RING:
        ring = &c->program->rings.items[place.index];
        begin = (ring->is_remote ? c->remotes : c->slabs)[c->number] + ring->offset +
                (size_t)(c->micro_batch % ring->depth) * ring->stride;
        break;
    case IPU_SPACE_OUTPUT:
        begin = c->outputs[place.index];
        break;
    case IPU_SPACE_INFEED:
        return (ipu__range){c->infeeds + place.index, c->infeeds + place.index + 1};
    default:
        return (ipu__range){0, 0};
    }
    return (ipu__range){begin, begin + bytes};
}

/* The slot of a ring that the micro-batch has, among those of all rings. */
static uint32_t *
slot_of(const ipu__checker *c, uint32_t ring)
{
    size_t slot = c->micro_batch % c->program->rings.items[ring].depth;
    return &c->slots[c->first_slot[ring] + slot];
}

ipu_status
ipu__verify_note_written(ipu__checker *c, ipu_place place, size_t bytes)
{
    if (place.space == IPU_SPACE_RING) {
        *slot_of(c, place.index) = c->micro_batch;
    }
    return note_range(c, range_of(c, place, bytes));
}

ipu_status
ipu__verify_check_read(ipu__checker *c, ipu_place place, size_t bytes)
{
    IPU_TRY(ipu__verify_check_place(c, place, bytes, false));
    REQUIRE(c,
            place.space != IPU_SPACE_RING || *slot_of(c, place.index) == c->micro_batch,
            "it reads a slot of a ring that its micro-batch has not, or not any more");
    bool is_written = ipu__verify_is_written(c, range_of(c, place, bytes));
    REQUIRE(c, is_written || place.space != IPU_SPACE_INFEED,
            "an infeed is read before its dequeue");
    REQUIRE(c, is_written,
            "it reads a part of the slab that was not written or is lost by then");
    return IPU_OK;
}

bool
ipu__verify_same_place(ipu_place a, ipu_place b)
{
    return a.space == b.space && a.index == b.index && a.offset == b.offset;
}

/* Whether two operands share bytes, wherever they are. */
bool
ipu__verify_share(const ipu__checker *c, ipu_place a, size_t a_bytes, ipu_place b,
                  size_t b_bytes)
{
    if (a_bytes == 0 || b_bytes == 0) {
        return false;
    }
    return overlap(range_of(c, a, a_bytes), range_of(c, b, b_bytes)) ||
           ipu__verify_same_place(a, b);
}
