/* SPDX-License-Identifier: MIT
 *
 * Which kernels of a run of instructions wait for which: a reader for the last writer
 * of the place, a writer for the last one and for those that have read it since.
 * Buffers, rings and variables count as a whole.
 *
 * Where a kernel makes rows apart and another one reads, or overwrites, the same rows
 * alone, a row waits for that row. The rows of a buffer are the same for all that have
 * equally many of it. */
#include "program/regions_impl.h"

enum { NONE = 0 };

/* A place that is written: numbers of instructions plus 1. */
typedef struct place_state {
    uint32_t writer;
    uint32_t readers; /* since then: the first one in `reads`, plus 1 */
} place_state;

typedef struct place_read {
    uint32_t reader;
    uint32_t next; /* plus 1 */
    bool by_rows;
} place_read;

typedef struct finder {
    ipu_ctx *ctx;
    ipu__dependence *d;
    ipu_id_map numbers; /* of places, plus 1 */
    IPU_ARRAY(place_state) places;
    IPU_ARRAY(place_read) reads;
    uint32_t last_failing;      /* plus 1 */
    IPU_ARRAY(uint32_t) writes; /* of variables, since then */
} finder;

static ipu_status
add_link(finder *f, uint32_t from, uint32_t to, bool by_rows)
{
    ipu__dependence *d = f->d;
    const ipu_kernel_rows *a = &ipu__spec_of(d, from)->rows;
    const ipu_kernel_rows *b = &ipu__spec_of(d, to)->rows;
    ipu__link added = {to, d->waiters[from].links, by_rows && a->count == b->count};
    IPU_TRY(IPU_ARRAY_PUSH(f->ctx, &d->links, added));
    d->waiters[from].links = (uint32_t)d->links.count;
    d->waiters[to].waits_for++;
    return IPU_OK;
}

/* Whether something else may write what lies there, while the run is under way. */
static bool
is_tracked(ipu_place place)
{
    return place.space != IPU_SPACE_CONSTANT && place.space != IPU_SPACE_HELD &&
           place.space != IPU_SPACE_INPUT && place.space != IPU_SPACE_INFEED;
}

/* Valid until the next call. */
static ipu_status
state_of(finder *f, ipu_place place, place_state **out)
{
    uint64_t key = (uint64_t)place.space << 32 | place.index;
    uint32_t number = ipu_id_map_get(&f->numbers, key, NONE);
    if (number == NONE) {
        IPU_TRY(IPU_ARRAY_PUSH(f->ctx, &f->places, (place_state){0}));
        number = (uint32_t)f->places.count;
        IPU_TRY(ipu_id_map_put(f->ctx, &f->numbers, key, number));
    }
    *out = &f->places.items[number - 1];
    return IPU_OK;
}

static bool
reads_rows(const ipu_kernel_spec *spec, uint32_t input)
{
    return spec->rows.run != NULL && ipu_kernel_reads_rows(&spec->rows, input);
}

static bool
writes_rows(const ipu_kernel_spec *spec)
{
    return spec->rows.run != NULL;
}

static ipu_status
note_input(finder *f, uint32_t item, uint32_t input)
{
    ipu_place place = f->d->instructions[item].inputs[input];
    bool by_rows = reads_rows(ipu__spec_of(f->d, item), input);
    place_state *state;
    if (!is_tracked(place)) {
        return IPU_OK;
    }
    IPU_TRY(state_of(f, place, &state));
    if (state->writer != NONE) {
        uint32_t writer = state->writer - 1;
        IPU_TRY(add_link(f, writer, item,
                         by_rows && writes_rows(ipu__spec_of(f->d, writer))));
    }
    place_read read = {item, state->readers, by_rows};
    IPU_TRY(IPU_ARRAY_PUSH(f->ctx, &f->reads, read));
    state->readers = (uint32_t)f->reads.count;
    return IPU_OK;
}

static ipu_status
note_output(finder *f, uint32_t item, uint32_t output)
{
    ipu_place place = f->d->instructions[item].outputs[output];
    bool by_rows = writes_rows(ipu__spec_of(f->d, item));
    place_state *state;
    IPU_TRY(state_of(f, place, &state));
    for (uint32_t at = state->readers; at != NONE; at = f->reads.items[at - 1].next) {
        place_read read = f->reads.items[at - 1];
        if (read.reader != item) {
            IPU_TRY(add_link(f, read.reader, item, read.by_rows && by_rows));
        }
    }
    if (state->writer != NONE && state->writer - 1 != item) {
        uint32_t writer = state->writer - 1;
        by_rows = by_rows && writes_rows(ipu__spec_of(f->d, writer));
        IPU_TRY(add_link(f, writer, item, by_rows));
    }
    *state = (place_state){.writer = item + 1};
    return IPU_OK;
}

/* A kernel that fails comes before all that is written after it, so that no variable is
 * changed by a step which a run without regions would not have come to; and after all
 * that is written in front of it, unless another one has failed by then. */
static ipu_status
note_failure(finder *f, uint32_t item)
{
    const ipu_kernel_spec *spec = ipu__spec_of(f->d, item);
    bool writes = (ipu_op_info_of(spec->op)->flags & IPU_OP_WRITES) != 0;
    if (f->last_failing != NONE && (writes || spec->can_fail)) {
        IPU_TRY(add_link(f, f->last_failing - 1, item, !writes));
    }
    if (spec->can_fail && !spec->fails_later) {
        for (size_t i = 0; i < f->writes.count; i++) {
            IPU_TRY(add_link(f, f->writes.items[i], item, false));
        }
        f->writes.count = 0;
    }
    f->last_failing = spec->can_fail ? item + 1 : f->last_failing;
    return writes ? IPU_ARRAY_PUSH(f->ctx, &f->writes, item) : IPU_OK;
}

static ipu_status
note_item(finder *f, uint32_t item)
{
    const ipu_instruction *instruction = &f->d->instructions[item];
    IPU_TRY(note_failure(f, item));
    for (uint32_t i = 0; i < instruction->input_count; i++) {
        IPU_TRY(note_input(f, item, i));
    }
    for (uint32_t i = 0; i < instruction->output_count; i++) {
        IPU_TRY(note_output(f, item, i));
    }
    return IPU_OK;
}

ipu_status
ipu__find_dependence(ipu_ctx *ctx, ipu__dependence *d)
{
    finder f = {.ctx = ctx, .d = d};
    ipu_status status = IPU_OK;
    for (uint32_t i = 0; status == IPU_OK && i < d->count; i++) {
        status = note_item(&f, i);
    }
    ipu_id_map_free(ctx, &f.numbers);
    IPU_ARRAY_FREE(ctx, &f.places);
    IPU_ARRAY_FREE(ctx, &f.reads);
    IPU_ARRAY_FREE(ctx, &f.writes);
    return status;
}
