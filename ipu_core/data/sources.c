/* SPDX-License-Identifier: MIT
 *
 * Sources: slices and whole tensors of held memory, integer ranges, generators.
 *
 * Slices and tensors give pointers into the caller's memory: nothing is copied, and
 * `release` runs when the last data set and iterator that can reach it are gone. A
 * generator's elements live in memory of the generator until its next call; its
 * callbacks run on whatever thread reads. */
#include "data/dataset_impl.h"

#include <inttypes.h>

/* --- slices and tensors ---------------------------------------------------------- */

typedef struct memory_dataset {
    ipu_dataset base;
    ipu_foreign_buffer *buffers;
    size_t *row_bytes; /* from one element to the next; 0 for whole tensors */
    int64_t rows;
} memory_dataset;

typedef struct memory_iterator {
    ipu_iterator base;
    int64_t row;
} memory_iterator;

static void
memory_destroy(ipu_ctx *ctx, ipu_dataset *dataset)
{
    memory_dataset *memory = (memory_dataset *)dataset;
    uint32_t count = dataset->type_count;
    for (uint32_t i = 0; memory->buffers != NULL && i < count; i++) {
        if (memory->buffers[i].release != NULL) {
            memory->buffers[i].release(memory->buffers[i].owner);
        }
    }
    ipu_free(ctx, memory->buffers, count * sizeof(ipu_foreign_buffer));
    ipu_free(ctx, memory->row_bytes, count * sizeof(size_t));
}

static ipu_status
memory_next(ipu_ctx *ctx, ipu_iterator *iterator, ipu__element *out)
{
    memory_iterator *it = (memory_iterator *)iterator;
    const memory_dataset *memory = (const memory_dataset *)iterator->dataset;
    (void)ctx;
    if (it->row >= memory->rows) {
        out->end = true;
        return IPU_OK;
    }
    if (it->row > 0) {
        for (uint32_t i = 0; i < memory->base.type_count; i++) {
            iterator->parts[i] =
                (const char *)iterator->parts[i] + memory->row_bytes[i];
        }
    }
    it->row++;
    out->types = memory->base.types;
    out->parts = iterator->parts;
    return IPU_OK;
}

static ipu_status
memory_open(ipu_ctx *ctx, ipu_iterator *iterator, const ipu__pass *pass)
{
    const memory_dataset *memory = (const memory_dataset *)iterator->dataset;
    (void)ctx;
    (void)pass;
    for (uint32_t i = 0; i < memory->base.type_count; i++) {
        iterator->parts[i] = memory->buffers[i].data;
    }
    return IPU_OK;
}

IPU__KIND(slices_kind, "from_tensor_slices", memory_dataset, memory_iterator,
          .pace = IPU__PACE_INPUTS, .open = memory_open, .next = memory_next,
          .destroy = memory_destroy);
IPU__KIND(tensors_kind, "from_tensors", memory_dataset, memory_iterator,
          .pace = IPU__PACE_INPUTS, .open = memory_open, .next = memory_next,
          .destroy = memory_destroy);

static ipu_status
memory_create(ipu_ctx *ctx, const ipu__kind *kind, const ipu_type *types,
              const ipu_foreign_buffer *buffers, uint32_t count, int64_t rows,
              bool is_sliced, ipu_dataset **out)
{
    memory_dataset *memory;
    ipu_foreign_buffer *copies = NULL;
    IPU_TRY(ipu__dataset_new(ctx, kind, NULL, 0, types, count, &memory));
    ipu_status status = ipu_alloc(ctx, count * sizeof(size_t), &memory->row_bytes);
    if (status == IPU_OK) {
        status = ipu_alloc(ctx, count * sizeof(ipu_foreign_buffer), &copies);
    }
    if (status != IPU_OK) {
        /* memory->buffers is still NULL, so nothing of the caller's is released */
        ipu_dataset_unref(&memory->base);
        return status;
    }
    for (uint32_t i = 0; i < count; i++) {
        ipu_type *type = &memory->base.types[i];
        copies[i] = buffers[i];
        if (is_sliced) {
            type->shape = ipu_shape_make(type->shape.rank - 1, types[i].shape.dims + 1);
            memory->row_bytes[i] = ipu_type_bytes(type);
        }
    }
    ipu__dataset_typed(&memory->base);
    memory->buffers = copies;
    memory->rows = rows;
    memory->base.cardinality = rows;
    memory->base.stable = true;
    *out = &memory->base;
    return IPU_OK;
}

ipu_status
ipu_dataset_tensors(ipu_ctx *ctx, const ipu_type *types,
                    const ipu_foreign_buffer *buffers, uint32_t count,
                    ipu_dataset **out)
{
    for (uint32_t i = 0; i < count; i++) {
        IPU_TRY(ipu_type_check(ctx, &types[i]));
    }
    return memory_create(ctx, &tensors_kind, types, buffers, count, 1, false, out);
}

ipu_status
ipu_dataset_slices(ipu_ctx *ctx, const ipu_type *types,
                   const ipu_foreign_buffer *buffers, uint32_t count, ipu_dataset **out)
{
    IPU_FAIL_IF(ctx, count == 0, VALUE, "from_tensor_slices needs at least one tensor");
    for (uint32_t i = 0; i < count; i++) {
        IPU_TRY(ipu_type_check(ctx, &types[i]));
        IPU_FAIL_IF(ctx, types[i].shape.rank == 0, VALUE,
                    "from_tensor_slices: component %" PRIu32 " is a scalar, which has "
                    "no first axis to slice; use from_tensors",
                    i);
        IPU_FAIL_IF(ctx, types[i].shape.dims[0] != types[0].shape.dims[0], VALUE,
                    "from_tensor_slices: component %" PRIu32 " has %" PRId64
                    " rows, component 0 has %" PRId64 "; all must have the same",
                    i, types[i].shape.dims[0], types[0].shape.dims[0]);
    }
    return memory_create(ctx, &slices_kind, types, buffers, count,
                         types[0].shape.dims[0], true, out);
}

/* --- range ----------------------------------------------------------------------- */

typedef struct range_dataset {
    ipu_dataset base;
    int64_t start;
    int64_t step;
} range_dataset;

typedef struct range_iterator {
    ipu_iterator base;
    int64_t made;
    int64_t value;
} range_iterator;

static ipu_status
range_next(ipu_ctx *ctx, ipu_iterator *iterator, ipu__element *out)
{
    range_iterator *it = (range_iterator *)iterator;
    const range_dataset *range = (const range_dataset *)iterator->dataset;
    (void)ctx;
    if (it->made >= range->base.cardinality) {
        out->end = true;
        return IPU_OK;
    }
    /* every value lies between start and stop, so only the sum must fit */
    it->value =
        (int64_t)((uint64_t)range->start + (uint64_t)it->made * (uint64_t)range->step);
    it->made++;
    iterator->parts[0] = &it->value;
    out->types = range->base.types;
    out->parts = iterator->parts;
    return IPU_OK;
}

IPU__KIND(range_kind, "range", range_dataset, range_iterator, .pace = IPU__PACE_INPUTS,
          .next = range_next);

ipu_status
ipu_dataset_range(ipu_ctx *ctx, int64_t start, int64_t stop, int64_t step,
                  ipu_dataset **out)
{
    const ipu_type type = {IPU_DTYPE_INT64, ipu_shape_scalar()};
    range_dataset *range;
    uint64_t count = 0;
    IPU_FAIL_IF(ctx, step == 0, INVALID_ARGUMENT, "range: the step must not be zero");
    if (step > 0 && stop > start) {
        count = ((uint64_t)stop - (uint64_t)start - 1) / (uint64_t)step + 1;
    } else if (step < 0 && stop < start) {
        count =
            ((uint64_t)start - (uint64_t)stop - 1) / (UINT64_C(0) - (uint64_t)step) + 1;
    }
    IPU_FAIL_IF(ctx, count > INT64_MAX, INVALID_ARGUMENT,
                "range: more elements than an int64 can count");
    IPU_TRY(ipu__dataset_new(ctx, &range_kind, NULL, 0, &type, 1, &range));
    range->start = start;
    range->step = step;
    range->base.cardinality = (int64_t)count;
    *out = &range->base;
    return IPU_OK;
}

/* --- generator ------------------------------------------------------------------- */

typedef struct generator_dataset {
    ipu_dataset base;
    ipu_generator generator;
} generator_dataset;

typedef struct generator_iterator {
    ipu_iterator base;
    void *pass;
    bool open;
    bool failed_to_open;
    uint64_t made;
} generator_iterator;

/* The pass starts with the first element, on the thread that reads it. */
static ipu_status
generator_next(ipu_ctx *ctx, ipu_iterator *iterator, ipu__element *out)
{
    generator_iterator *it = (generator_iterator *)iterator;
    const generator_dataset *dataset = (const generator_dataset *)iterator->dataset;
    const ipu_generator *generator = &dataset->generator;
    if (it->failed_to_open) {
        out->end = true;
        return IPU_OK;
    }
    if (!it->open) {
        ipu_status status = generator->open(ctx, generator->state, &it->pass);
        it->open = status == IPU_OK;
        it->failed_to_open = !it->open && status != IPU_STATUS_CANCELLED;
        IPU_TRY(status);
    }
    uint64_t number = it->made++;
    IPU_TRY(generator->next(ctx, it->pass, &out->types, &out->parts, &out->end));
    for (uint32_t i = 0; !out->end && i < dataset->base.type_count; i++) {
        char made[96];
        char declared[96];
        IPU_FAIL_IF(
            ctx, !ipu__type_accepts(&dataset->base.types[i], &out->types[i]),
            INVALID_ARGUMENT,
            "element %" PRIu64 " of the generator: component %" PRIu32
            " is %s, but %s was declared",
            number, i, ipu_type_print(&out->types[i], made, sizeof(made)),
            ipu_type_print(&dataset->base.types[i], declared, sizeof(declared)));
    }
    return IPU_OK;
}

static void
generator_close(ipu_ctx *ctx, ipu_iterator *iterator)
{
    generator_iterator *it = (generator_iterator *)iterator;
    (void)ctx;
    if (it->open) {
        ((const generator_dataset *)iterator->dataset)->generator.close(it->pass);
    }
}

static void
generator_visit(const ipu_iterator *iterator, ipu_visit_fn *visit, void *argument)
{
    const generator_iterator *it = (const generator_iterator *)iterator;
    if (it->open) {
        visit(it->pass, argument);
    }
}

static void
generator_destroy(ipu_ctx *ctx, ipu_dataset *dataset)
{
    const ipu_generator *generator = &((generator_dataset *)dataset)->generator;
    (void)ctx;
    if (generator->release != NULL) {
        generator->release(generator->state);
    }
}

IPU__KIND(generator_kind, "from_generator", generator_dataset, generator_iterator,
          .next = generator_next, .close = generator_close, .visit = generator_visit,
          .destroy = generator_destroy);

ipu_status
ipu_dataset_generator(ipu_ctx *ctx, const ipu_type *types, uint32_t count,
                      const ipu_generator *generator, int64_t cardinality,
                      ipu_dataset **out)
{
    generator_dataset *dataset;
    IPU_TRY(ipu__dataset_new(ctx, &generator_kind, NULL, 0, types, count, &dataset));
    dataset->generator = *generator;
    dataset->base.cardinality = cardinality;
    *out = &dataset->base;
    return IPU_OK;
}
