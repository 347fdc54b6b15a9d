/* SPDX-License-Identifier: MIT
 *
 * The program's checker. It knows nothing of graphs, lifetimes or plans; it follows the
 * instructions as the engine would and asks of each
 *
 *   - that its operands exist and end inside their space, that indices and jump targets
 *     are in range and loops nest;
 *   - that every byte range it reads from the slab was written by one instruction as a
 *     whole and has not been written over since, not even in part. Loop bodies are
 *     followed twice, so that the second turn finds what the first one spoilt; behind a
 *     switch there is what every branch leaves;
 *   - that a kernel's outputs overlap neither each other nor its inputs, but for one
 *     input of an IN_PLACE op; and that an infeed's element is read while it is held.
 *
 * Each stream is followed alone, since it touches no other one's slab; verify_streams.c
 * checks that. The written ranges are kept sorted by offset and never overlap. */
#include <inttypes.h>
#include <string.h>

#include "program/verify_impl.h"

typedef struct range {
    size_t begin;
    size_t end;
} range;

typedef struct checker {
    ipu_ctx *ctx;
    const ipu_program *program;
    const ipu_stream *stream;
    size_t number; /* of the stream */
    size_t usable_slab;
    uint32_t infeed_components;
    size_t dequeued_bytes;
    size_t *output_offsets; /* behind the largest slab */
    size_t at;              /* instruction, for messages */
    size_t inside;          /* the WHILE of the loop that is followed; SIZE_MAX: none */
    uint32_t depth;         /* of loops */
    IPU_ARRAY(range) written;
    uint8_t *dequeued; /* per hold and infeed component */
} checker;

#define REQUIRE(c, condition, ...) \
    do { \
        if (!(condition)) { \
            return wrong((c), __VA_ARGS__); \
        } \
    } while (0)

static ipu_status
wrong(checker *c, const char *what)
{
    if (c->program->streams.count == 1) {
        IPU_FAIL(c->ctx, INTERNAL, "instruction %zu of the program: %s", c->at, what);
    }
    IPU_FAIL(c->ctx, INTERNAL, "instruction %zu of stream %zu of the program: %s",
             c->at, c->number, what);
}

/* --- the written part of the slab ------------------------------------------------ */

static bool
overlap(range a, range b)
{
    return a.begin < b.end && b.begin < a.end;
}

/* The first range that ends behind `offset`. */
static size_t
find_range(const checker *c, size_t offset)
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
note_written(checker *c, range r)
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
            (c->written.count - end) * sizeof(range));
    c->written.items[first] = r;
    c->written.count = c->written.count - (end - first) + 1;
    return IPU_OK;
}

static bool
is_written(const checker *c, range r)
{
    size_t at = find_range(c, r.begin);
    return r.begin == r.end ||
           (at < c->written.count && c->written.items[at].begin <= r.begin &&
            r.end <= c->written.items[at].end);
}

/* --- operands -------------------------------------------------------------------- */

static const ipu_resource *
resource_at(const checker *c, uint32_t index, ipu_resource_kind kind)
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

/* Whether a component of an infeed was dequeued into a hold; both are in range. */
static uint8_t *
dequeued_at(const checker *c, ipu_place place)
{
    return &c->dequeued[place.offset * c->infeed_components + place.index];
}

static ipu_status
check_place(checker *c, ipu_place place, size_t bytes, bool is_output)
{
    const ipu_program *program = c->program;
    const ipu_resource *variable;
    switch (place.space) {
    case IPU_SPACE_SLAB:
        REQUIRE(c, place.offset % IPU_BUFFER_ALIGNMENT == 0,
                "an operand in the slab is not aligned");
        REQUIRE(
            c, place.offset <= c->usable_slab && bytes <= c->usable_slab - place.offset,
            "an operand ends past the slab");
        break;
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
        variable = resource_at(c, place.index, IPU_RESOURCE_VARIABLE);
        REQUIRE(c, variable != NULL && bytes == ipu_type_bytes(&variable->types[0]),
                "a variable is not as the program says");
        break;
    case IPU_SPACE_INFEED:
        REQUIRE(c,
                !is_output && place.index < c->infeed_components &&
                    place.offset < IPU_MAX_HOLDS,
                "an infeed's tensor does not exist");
        REQUIRE(c, *dequeued_at(c, place), "an infeed is read before its dequeue");
        REQUIRE(c, bytes == infeed_bytes(program, place.index),
                "an infeed's tensor is not as the program says");
        break;
    }
    return IPU_OK;
}

/* Outputs are followed like the slab, as if they lay behind it. */
static range
range_of(const checker *c, ipu_place place, size_t bytes)
{
    size_t begin = place.offset;
    if (place.space == IPU_SPACE_OUTPUT) {
        begin = c->output_offsets[place.index];
    } else if (place.space != IPU_SPACE_SLAB) {
        return (range){0, 0};
    }
    return (range){begin, begin + bytes};
}

static ipu_status
check_read(checker *c, ipu_place place, size_t bytes)
{
    IPU_TRY(check_place(c, place, bytes, false));
    REQUIRE(c, is_written(c, range_of(c, place, bytes)),
            "it reads a part of the slab that was not written or is lost by then");
    return IPU_OK;
}

static bool
same_place(ipu_place a, ipu_place b)
{
    return a.space == b.space && a.index == b.index && a.offset == b.offset;
}

/* Whether two operands share bytes, wherever they are. */
static bool
share(const checker *c, ipu_place a, size_t a_bytes, ipu_place b, size_t b_bytes)
{
    if (a_bytes == 0 || b_bytes == 0 || a.space != b.space) {
        return false;
    }
    if (a.space == IPU_SPACE_SLAB) {
        return overlap(range_of(c, a, a_bytes), range_of(c, b, b_bytes));
    }
    return same_place(a, b);
}

static ipu_status
check_kernel_overlap(checker *c, const ipu_instruction *instruction,
                     const ipu_kernel_spec *spec)
{
    uint32_t flags = ipu_op_info_of(spec->op)->flags;
    bool used = false; /* an input is overwritten */
    for (uint32_t i = 0; i < spec->output_count; i++) {
        ipu_place out = instruction->outputs[i];
        size_t bytes = ipu_type_bytes(&spec->outputs[i]);
        for (uint32_t k = 0; k < i; k++) {
            REQUIRE(c,
                    !share(c, out, bytes, instruction->outputs[k],
                           ipu_type_bytes(&spec->outputs[k])),
                    "two outputs share memory");
        }
        for (uint32_t k = 0; k < spec->input_count; k++) {
            bool allowed = (flags & IPU_OP_IN_PLACE) != 0 && i == 0 && !used &&
                           (k == 0 || (flags & IPU_OP_ELEMENTWISE) != 0) &&
                           same_place(out, instruction->inputs[k]) &&
                           ipu_type_equal(&spec->inputs[k], &spec->outputs[0]);
            used |= allowed;
            REQUIRE(c,
                    allowed || !share(c, out, bytes, instruction->inputs[k],
                                      ipu_type_bytes(&spec->inputs[k])),
                    "an output shares memory with an input");
        }
    }
    return IPU_OK;
}

/* --- instructions ---------------------------------------------------------------- */

static ipu_status
check_kernel(checker *c, const ipu_instruction *instruction)
{
    REQUIRE(c, instruction->spec < c->program->specs.count, "it has no kernel");
    const ipu_kernel_spec *spec = &c->program->specs.items[instruction->spec];
    REQUIRE(c,
            spec->run != NULL && spec->input_count == instruction->input_count &&
                spec->output_count == instruction->output_count,
            "its operands do not fit its kernel");
    REQUIRE(c, spec->workspace_bytes <= c->program->workspace_bytes,
            "its workspace is too small");
    for (uint32_t i = 0; i < spec->input_count; i++) {
        IPU_TRY(
            check_read(c, instruction->inputs[i], ipu_type_bytes(&spec->inputs[i])));
    }
    IPU_TRY(check_kernel_overlap(c, instruction, spec));
    for (uint32_t i = 0; i < spec->output_count; i++) {
        size_t bytes = ipu_type_bytes(&spec->outputs[i]);
        IPU_TRY(check_place(c, instruction->outputs[i], bytes, true));
        IPU_TRY(note_written(c, range_of(c, instruction->outputs[i], bytes)));
    }
    return IPU_OK;
}

static ipu_status
check_reserve(checker *c, const ipu_instruction *instruction)
{
    REQUIRE(c, instruction->input_count == 0 && instruction->output_count == 1,
            "a reservation has one output and no input");
    IPU_TRY(check_place(c, instruction->outputs[0], instruction->bytes, true));
    return note_written(c, range_of(c, instruction->outputs[0], instruction->bytes));
}

static ipu_status
check_copy(checker *c, const ipu_instruction *instruction)
{
    REQUIRE(c, instruction->input_count == 1 && instruction->output_count == 1,
            "a copy has one input and one output");
    ipu_place from = instruction->inputs[0];
    ipu_place to = instruction->outputs[0];
    size_t bytes = instruction->bytes;
    IPU_TRY(check_read(c, from, bytes));
    IPU_TRY(check_place(c, to, bytes, true));
    REQUIRE(c, !share(c, from, bytes, to, bytes), "it copies onto itself");
    return note_written(c, range_of(c, to, bytes));
}

static ipu_status
check_dequeue(checker *c, const ipu_instruction *instruction)
{
    const ipu_resource *queue =
        resource_at(c, instruction->resource, IPU_RESOURCE_INFEED);
    REQUIRE(c, queue != NULL && queue->type_count == instruction->output_count,
            "it dequeues what is no infeed");
    REQUIRE(c, instruction->hold < IPU_MAX_HOLDS, "it holds too many elements");
    uint32_t base = ipu_program_infeed_base(c->program, instruction->resource);
    for (uint32_t i = 0; i < queue->type_count; i++) {
        ipu_place place = instruction->outputs[i];
        REQUIRE(c,
                place.space == IPU_SPACE_INFEED && place.index == base + i &&
                    place.offset == instruction->hold,
                "its tensors are misplaced");
        *dequeued_at(c, place) = 1;
    }
    return IPU_OK;
}

static ipu_status
check_release(checker *c, const ipu_instruction *instruction)
{
    const ipu_resource *queue =
        resource_at(c, instruction->resource, IPU_RESOURCE_INFEED);
    REQUIRE(c, queue != NULL && instruction->hold < IPU_MAX_HOLDS,
            "it releases what is no infeed's element");
    ipu_place place = {.space = IPU_SPACE_INFEED, .offset = instruction->hold};
    uint32_t base = ipu_program_infeed_base(c->program, instruction->resource);
    for (uint32_t i = 0; i < queue->type_count; i++) {
        place.index = base + i;
        REQUIRE(c, *dequeued_at(c, place), "it releases what it does not hold");
        *dequeued_at(c, place) = 0;
    }
    return IPU_OK;
}

static ipu_status
check_send(checker *c, const ipu_instruction *instruction)
{
    REQUIRE(c, instruction->channel < c->program->channels.count,
            "it sends to no channel");
    const ipu_channel *channel = &c->program->channels.items[instruction->channel];
    REQUIRE(c,
            channel->from == c->number &&
                channel->type_count == instruction->input_count,
            "it sends what is not the channel's");
    for (uint32_t i = 0; i < channel->type_count; i++) {
        IPU_TRY(
            check_read(c, instruction->inputs[i], ipu_type_bytes(&channel->types[i])));
    }
    return IPU_OK;
}

static ipu_status
check_receive(checker *c, const ipu_instruction *instruction)
{
    REQUIRE(c, instruction->channel < c->program->channels.count,
            "it receives from no channel");
    const ipu_channel *channel = &c->program->channels.items[instruction->channel];
    REQUIRE(
        c, channel->to == c->number && channel->type_count == instruction->output_count,
        "it receives what is not the channel's");
    for (uint32_t i = 0; i < channel->type_count; i++) {
        ipu_place place = instruction->outputs[i];
        size_t bytes = ipu_type_bytes(&channel->types[i]);
        IPU_TRY(check_place(c, place, bytes, true));
        for (uint32_t k = 0; k < i; k++) {
            REQUIRE(c,
                    !share(c, place, bytes, instruction->outputs[k],
                           ipu_type_bytes(&channel->types[k])),
                    "two outputs share memory");
        }
        IPU_TRY(note_written(c, range_of(c, place, bytes)));
    }
    return IPU_OK;
}

static ipu_status
check_enqueue(checker *c, const ipu_instruction *instruction)
{
    const ipu_resource *queue =
        resource_at(c, instruction->resource, IPU_RESOURCE_OUTFEED);
    REQUIRE(c, queue != NULL && queue->type_count == instruction->input_count,
            "it enqueues to what is no outfeed");
    for (uint32_t i = 0; i < queue->type_count; i++) {
        IPU_TRY(
            check_read(c, instruction->inputs[i], ipu_type_bytes(&queue->types[i])));
    }
    return IPU_OK;
}

static ipu_status check_range(checker *c, size_t begin, size_t end);

static void
copy_held(const checker *c, uint8_t *to, const uint8_t *from)
{
    if (c->dequeued_bytes > 0) {
        memcpy(to, from, c->dequeued_bytes);
    }
}

/* Keeps in `kept` what is held now, too. */
static void
keep_held(const checker *c, uint8_t *kept)
{
    for (size_t i = 0; i < c->dequeued_bytes; i++) {
        kept[i] &= c->dequeued[i];
    }
}

/* A copy of what is written; the caller frees its `count` ranges. */
static ipu_status
copy_written(checker *c, range **out, size_t *count)
{
    size_t bytes;
    *count = 0;
    *out = NULL;
    IPU_TRY(ipu_mul_size(c->ctx, c->written.count, sizeof(range), &bytes));
    IPU_TRY(ipu_alloc(c->ctx, bytes, out));
    if (bytes > 0) {
        memcpy(*out, c->written.items, bytes);
    }
    *count = c->written.count;
    return IPU_OK;
}

/* What the body leaves is not there where the loop does not run at all: what the code
 * behind may read is what was there before, less what the body spoils. The body's own
 * writes to ranges that were there before count (carried values). */
static ipu_status
check_loop(checker *c, size_t begin)
{
    const ipu_instruction *loop = &c->stream->instructions.items[begin];
    bool counted = loop->kind == IPU_INSTRUCTION_LOOP;
    REQUIRE(c, loop->input_count == counted && loop->loop < c->stream->loop_count,
            "a loop without a trip count or a counter");
    if (counted) {
        IPU_TRY(check_read(c, loop->inputs[0], sizeof(int32_t)));
    }
    REQUIRE(c,
            loop->target > (int32_t)begin + 1 &&
                (size_t)loop->target < c->stream->instructions.count,
            "a loop that ends out of range");
    size_t end = (size_t)loop->target - 1;
    const ipu_instruction *next = &c->stream->instructions.items[end];
    REQUIRE(c,
            next->kind == IPU_INSTRUCTION_NEXT && next->loop == loop->loop &&
                next->target == (int32_t)begin + 1,
            "a loop whose end does not lead back to it");
    REQUIRE(c, next->is_step == loop->is_step && (c->depth == 0 || !loop->is_step),
            "a step that is a part of another one, or ends where it does not begin");
    size_t count;
    range *before;
    uint8_t *held;
    size_t around = c->inside;
    IPU_TRY(ipu_alloc(c->ctx, c->dequeued_bytes, &held));
    copy_held(c, held, c->dequeued);
    ipu_status status = copy_written(c, &before, &count);
    c->inside = counted ? SIZE_MAX : begin;
    c->depth++;
    if (status == IPU_OK) {
        status = check_range(c, begin + 1, end);
    }
    if (status == IPU_OK) {
        status = check_range(c, begin + 1, end);
    }
    size_t kept = 0;
    for (size_t i = 0; status == IPU_OK && i < count; i++) {
        if (is_written(c, before[i])) {
            before[kept++] = before[i];
        }
    }
    if (status == IPU_OK && count > 0) {
        memcpy(c->written.items, before, kept * sizeof(range));
        c->written.count = kept;
    }
    c->written.count = status == IPU_OK ? kept : c->written.count;
    keep_held(c, held);
    copy_held(c, c->dequeued, held);
    c->inside = around;
    c->depth--;
    ipu_free(c->ctx, held, c->dequeued_bytes);
    ipu_free(c->ctx, before, count * sizeof(range));
    return status;
}

static ipu_status
check_test(checker *c, const ipu_instruction *test)
{
    REQUIRE(c, c->inside != SIZE_MAX, "it leaves no loop");
    const ipu_instruction *loop = &c->stream->instructions.items[c->inside];
    REQUIRE(c,
            test->loop == loop->loop && test->target == loop->target &&
                test->is_step == loop->is_step,
            "it leaves another loop than the one around it");
    REQUIRE(c, test->input_count == 1, "it tests nothing");
    return check_read(c, test->inputs[0], sizeof(uint8_t));
}

/* Keeps what is written after one branch (`other`) and after another one (c->written):
 * of two ranges that contain each other the smaller one. */
static ipu_status
keep_common(checker *c, const range *other, size_t other_count)
{
    IPU_ARRAY(range) common = {0};
    const range *own = c->written.items;
    size_t i = 0;
    size_t k = 0;
    ipu_status status = IPU_OK;
    while (status == IPU_OK && i < c->written.count && k < other_count) {
        range a = own[i];
        range b = other[k];
        if (b.begin <= a.begin && a.end <= b.end) {
            status = IPU_ARRAY_PUSH(c->ctx, &common, a);
        } else if (a.begin <= b.begin && b.end <= a.end) {
            status = IPU_ARRAY_PUSH(c->ctx, &common, b);
        }
        i += a.end <= b.end;
        k += b.end <= a.end;
    }
    IPU_ARRAY_FREE(c->ctx, &c->written);
    c->written.items = common.items;
    c->written.count = common.count;
    c->written.capacity = common.capacity;
    return status;
}

/* Sets what is written and dequeued back to what it was before the branches. */
static ipu_status
restore(checker *c, const range *written, size_t count, const uint8_t *dequeued)
{
    c->written.count = 0;
    IPU_TRY(IPU_ARRAY_RESERVE(c->ctx, &c->written, count));
    if (count > 0) {
        memcpy(c->written.items, written, count * sizeof(range));
    }
    c->written.count = count;
    copy_held(c, c->dequeued, dequeued);
    return IPU_OK;
}

/* The instructions of branch b: up to its jump, or up to the end of the switch. */
static ipu_status
branch_end(checker *c, const ipu_instruction *choose, uint32_t b, size_t *end)
{
    *end = (size_t)choose->target;
    if (b + 1 == choose->branch_count) {
        return IPU_OK;
    }
    REQUIRE(c,
            choose->branches[b] < choose->branches[b + 1] &&
                choose->branches[b + 1] <= choose->target,
            "branches out of order");
    *end = (size_t)choose->branches[b + 1] - 1;
    const ipu_instruction *jump = &c->stream->instructions.items[*end];
    REQUIRE(c, jump->kind == IPU_INSTRUCTION_JUMP && jump->target == choose->target,
            "a branch that does not end behind its switch");
    return IPU_OK;
}

static ipu_status
check_branches(checker *c, const ipu_instruction *choose, const range *before,
               size_t count, const uint8_t *dequeued, uint8_t *kept)
{
    range *merged = NULL; /* what all branches so far leave */
    size_t merged_count = 0;
    ipu_status status = IPU_OK;
    for (uint32_t b = 0; status == IPU_OK && b < choose->branch_count; b++) {
        size_t end = 0;
        status = restore(c, before, count, dequeued);
        if (status == IPU_OK) {
            status = branch_end(c, choose, b, &end);
        }
        if (status == IPU_OK) {
            status = check_range(c, (size_t)choose->branches[b], end);
        }
        keep_held(c, kept);
        if (status == IPU_OK && b > 0) {
            status = keep_common(c, merged, merged_count);
        }
        ipu_free(c->ctx, merged, merged_count * sizeof(range));
        merged = NULL;
        merged_count = 0;
        if (status == IPU_OK) {
            status = copy_written(c, &merged, &merged_count);
        }
    }
    ipu_free(c->ctx, merged, merged_count * sizeof(range));
    return status;
}

/* Behind the switch there is what every branch leaves, and is held what was held before
 * and in no branch given back. */
static ipu_status
check_switch(checker *c, size_t begin)
{
    const ipu_instruction *choose = &c->stream->instructions.items[begin];
    size_t count;
    range *before;
    uint8_t *dequeued;
    REQUIRE(c, choose->input_count == 1 && choose->branch_count > 0,
            "a switch without an index or branches");
    IPU_TRY(check_read(c, choose->inputs[0], sizeof(int32_t)));
    REQUIRE(c,
            choose->branches[0] == (int32_t)begin + 1 &&
                (size_t)choose->target < c->stream->instructions.count &&
                choose->target > (int32_t)begin,
            "a switch that ends out of range");
    IPU_TRY(copy_written(c, &before, &count));
    ipu_status status = ipu_alloc(c->ctx, 2 * c->dequeued_bytes, &dequeued);
    if (status == IPU_OK) {
        uint8_t *kept = dequeued == NULL ? NULL : dequeued + c->dequeued_bytes;
        copy_held(c, dequeued, c->dequeued);
        copy_held(c, kept, c->dequeued);
        status = check_branches(c, choose, before, count, dequeued, kept);
        copy_held(c, c->dequeued, kept);
        ipu_free(c->ctx, dequeued, 2 * c->dequeued_bytes);
    }
    ipu_free(c->ctx, before, count * sizeof(range));
    return status;
}

static ipu_status
check_range(checker *c, size_t begin, size_t end)
{
    for (size_t i = begin; i < end; i++) {
        const ipu_instruction *instruction = &c->stream->instructions.items[i];
        c->at = i;
        switch (instruction->kind) {
        case IPU_INSTRUCTION_KERNEL:
            IPU_TRY(check_kernel(c, instruction));
            break;
        case IPU_INSTRUCTION_COPY:
            IPU_TRY(check_copy(c, instruction));
            break;
        case IPU_INSTRUCTION_RESERVE:
            IPU_TRY(check_reserve(c, instruction));
            break;
        case IPU_INSTRUCTION_DEQUEUE:
            IPU_TRY(check_dequeue(c, instruction));
            break;
        case IPU_INSTRUCTION_RELEASE:
            IPU_TRY(check_release(c, instruction));
            break;
        case IPU_INSTRUCTION_ENQUEUE:
            IPU_TRY(check_enqueue(c, instruction));
            break;
        case IPU_INSTRUCTION_SEND:
            IPU_TRY(check_send(c, instruction));
            break;
        case IPU_INSTRUCTION_RECEIVE:
            IPU_TRY(check_receive(c, instruction));
            break;
        case IPU_INSTRUCTION_MICRO_BATCH:
            REQUIRE(c, instruction->input_count == 1, "it names no micro-batch");
            IPU_TRY(check_read(c, instruction->inputs[0], sizeof(int32_t)));
            break;
        case IPU_INSTRUCTION_TEST:
            IPU_TRY(check_test(c, instruction));
            break;
        case IPU_INSTRUCTION_SWITCH:
            REQUIRE(c, (size_t)instruction->target <= end,
                    "a switch that ends outside the block around it");
            IPU_TRY(check_switch(c, i));
            i = (size_t)instruction->target - 1;
            break;
        case IPU_INSTRUCTION_LOOP:
        case IPU_INSTRUCTION_WHILE:
            REQUIRE(c, (size_t)instruction->target <= end,
                    "a loop that ends outside the one around it");
            IPU_TRY(check_loop(c, i));
            i = (size_t)instruction->target - 1;
            break;
        case IPU_INSTRUCTION_NEXT:
        case IPU_INSTRUCTION_JUMP:
        case IPU_INSTRUCTION_HALT:
        case IPU_INSTRUCTION_COUNT:
            return wrong(c, "it does not belong here");
        }
    }
    return IPU_OK;
}

static ipu_status
check_stream(checker *c, size_t number)
{
    c->number = number;
    c->stream = &c->program->streams.items[number];
    c->written.count = 0;
    c->inside = SIZE_MAX;
    size_t count = c->stream->instructions.count;
    IPU_FAIL_IF(c->ctx,
                count == 0 || c->stream->instructions.items[count - 1].kind !=
                                  IPU_INSTRUCTION_HALT,
                INTERNAL, "the program does not end with halt");
    IPU_FAIL_IF(c->ctx, c->stream->memory.slab_bytes < IPU_SLACK_BYTES, INTERNAL,
                "the slab has no slack");
    c->usable_slab = c->stream->memory.slab_bytes - IPU_SLACK_BYTES;
    if (c->dequeued_bytes > 0) {
        memset(c->dequeued, 0, c->dequeued_bytes);
    }
    return check_range(c, 0, count - 1);
}

static ipu_status
place_outputs(checker *c)
{
    const ipu_program *program = c->program;
    size_t next = 0;
    IPU_TRY(
        ipu_alloc(c->ctx, program->output_count * sizeof(size_t), &c->output_offsets));
    for (size_t i = 0; i < program->streams.count; i++) {
        size_t bytes = program->streams.items[i].memory.slab_bytes;
        next = bytes > next ? bytes : next;
    }
    for (uint32_t i = 0; i < program->output_count; i++) {
        c->output_offsets[i] = next;
        next += ipu_type_bytes(&program->outputs[i]);
    }
    return IPU_OK;
}

ipu_status
ipu_program_verify(ipu_ctx *ctx, const ipu_program *program)
{
    checker c = {.ctx = ctx, .program = program};
    IPU_FAIL_IF(ctx, program->micro_batches == 0, INTERNAL,
                "the program's steps have no micro-batch");
    c.infeed_components =
        ipu_program_infeed_base(program, (uint32_t)program->resources.count);
    c.dequeued_bytes = (size_t)c.infeed_components * IPU_MAX_HOLDS;
    IPU_TRY(ipu_alloc(ctx, c.dequeued_bytes, &c.dequeued));
    ipu_status status = place_outputs(&c);
    for (size_t i = 0; status == IPU_OK && i < program->streams.count; i++) {
        status = check_stream(&c, i);
    }
    IPU_ARRAY_FREE(ctx, &c.written);
    ipu_free(ctx, c.dequeued, c.dequeued_bytes);
    ipu_free(ctx, c.output_offsets, program->output_count * sizeof(size_t));
    return status == IPU_OK ? ipu__verify_streams(ctx, program) : status;
}
