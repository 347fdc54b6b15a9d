/* SPDX-License-Identifier: MIT
 *
 * Transformations that join data sets, cut elements up, or count them: concatenate,
 * unbatch, assert_cardinality. None of them copies. */
#include "data/dataset_impl.h"

#include <inttypes.h>

/* --- concatenate ----------------------------------------------------------------- */

/* One iterator reads a whole tree of concatenations, leaf after leaf: a chain of
 * thousands costs no more for an element than a single one. */
typedef struct concatenate_iterator {
    ipu_iterator base; /* `input`: of the leaf that is read now */
    ipu__pass pass;
    IPU_ARRAY(ipu_dataset *) ahead; /* subtrees still to read, the next one last */
} concatenate_iterator;

static const ipu__kind concatenate_kind;

/* Opens the next leaf; *end where there is none. */
static ipu_status
concatenate_advance(ipu_ctx *ctx, concatenate_iterator *it, bool *end)
{
    *end = it->ahead.count == 0;
    if (*end) {
        return IPU_OK;
    }
    ipu_dataset *next = it->ahead.items[it->ahead.count - 1];
    while (next->kind == &concatenate_kind) {
        IPU_TRY(IPU_ARRAY_RESERVE(ctx, &it->ahead, 1));
        it->ahead.items[it->ahead.count - 1] = next->inputs[1];
        it->ahead.items[it->ahead.count++] = next->inputs[0];
        next = next->inputs[0];
    }
    ipu_iterator_free(it->base.input);
    it->base.input = NULL;
    IPU_TRY(ipu__iterator_open(ctx, next, &it->pass, &it->base.input));
    it->ahead.count--;
    return IPU_OK;
}

static ipu_status
concatenate_next(ipu_ctx *ctx, ipu_iterator *iterator, ipu__element *out)
{
    concatenate_iterator *it = (concatenate_iterator *)iterator;
    for (;;) {
        if (iterator->input != NULL) {
            IPU_TRY(ipu__iterator_next(ctx, iterator->input, out));
            if (!out->end) {
                return IPU_OK;
            }
        }
        IPU_TRY(concatenate_advance(ctx, it, &out->end));
        if (out->end) {
            return IPU_OK;
        }
    }
}

static void
concatenate_close(ipu_ctx *ctx, ipu_iterator *iterator)
{
    IPU_ARRAY_FREE(ctx, &((concatenate_iterator *)iterator)->ahead);
}

static ipu_status
concatenate_open(ipu_ctx *ctx, ipu_iterator *iterator, const ipu__pass *pass)
{
    concatenate_iterator *it = (concatenate_iterator *)iterator;
    it->pass = *pass;
    return IPU_ARRAY_PUSH(ctx, &it->ahead, iterator->dataset);
}

IPU__KIND(concatenate_kind, "concatenate", ipu_dataset, concatenate_iterator,
          .pace = IPU__PACE_INPUTS, .is_flat = true, .open = concatenate_open,
          .next = concatenate_next, .close = concatenate_close);

/* The type that both are of, with what differs unknown. */
static ipu_type
common_type(const ipu_type *a, const ipu_type *b)
{
    ipu_type type = *a;
    if (a->shape.rank != b->shape.rank) {
        type.shape.rank = -1;
    }
    for (int32_t i = 0; i < type.shape.rank; i++) {
        if (a->shape.dims[i] != b->shape.dims[i]) {
            type.shape.dims[i] = -1;
        }
    }
    return type;
}

static ipu_status
check_parts(ipu_ctx *ctx, const ipu_dataset *first, const ipu_dataset *second)
{
    IPU_FAIL_IF(ctx, first->type_count != second->type_count, TYPE,
                "concatenate: elements of %" PRIu32 " components and of %" PRIu32,
                first->type_count, second->type_count);
    for (uint32_t i = 0; i < first->type_count; i++) {
        char a[96];
        char b[96];
        IPU_FAIL_IF(ctx, first->types[i].dtype != second->types[i].dtype, TYPE,
                    "concatenate: component %" PRIu32 " is %s, but %s in the data set "
                    "that is to be concatenated",
                    i, ipu_type_print(&first->types[i], a, sizeof(a)),
                    ipu_type_print(&second->types[i], b, sizeof(b)));
    }
    return IPU_OK;
}

ipu_status
ipu_dataset_concatenate(ipu_ctx *ctx, ipu_dataset *first, ipu_dataset *second,
                        ipu_dataset **out)
{
    ipu_dataset *const inputs[2] = {first, second};
    ipu_dataset *dataset = NULL;
    IPU_TRY(check_parts(ctx, first, second));
    IPU_TRY(ipu__dataset_new(ctx, &concatenate_kind, inputs, 2, NULL, first->type_count,
                             &dataset));
    for (uint32_t i = 0; i < first->type_count; i++) {
        dataset->types[i] = common_type(&first->types[i], &second->types[i]);
    }
    ipu__dataset_typed(dataset);
    dataset->stable = first->stable && second->stable && dataset->is_static;
    int64_t a = first->cardinality;
    int64_t b = second->cardinality;
    if (a == IPU_CARDINALITY_INFINITE || b == IPU_CARDINALITY_INFINITE) {
        dataset->cardinality = IPU_CARDINALITY_INFINITE;
    } else if (a >= 0 && b >= 0) {
        dataset->cardinality = a > INT64_MAX - b ? IPU_CARDINALITY_INFINITE : a + b;
    }
    *out = dataset;
    return IPU_OK;
}

/* --- unbatch --------------------------------------------------------------------- */

typedef struct unbatch_iterator {
    ipu_iterator base;
    ipu__element whole;
    int64_t row;
    int64_t rows;
} unbatch_iterator;

/* Takes the next element of the input that has rows. */
static ipu_status
take_whole(ipu_ctx *ctx, unbatch_iterator *it, bool *end)
{
    uint32_t count = it->base.dataset->type_count;
    while (it->row == it->rows && !*end) {
        int64_t rows = 0;
        IPU_TRY(ipu__iterator_next(ctx, it->base.input, &it->whole));
        *end = it->whole.end;
        for (uint32_t i = 0; !*end && i < count; i++) {
            const ipu_shape *shape = &it->whole.types[i].shape;
            IPU_FAIL_IF(ctx, shape->rank == 0, INVALID_ARGUMENT,
                        "unbatch: component %" PRIu32 " is a scalar", i);
            rows = i == 0 ? shape->dims[0] : rows;
            IPU_FAIL_IF(ctx, shape->dims[0] != rows, INVALID_ARGUMENT,
                        "unbatch: component %" PRIu32 " has %" PRId64
                        " rows, component 0 has %" PRId64,
                        i, shape->dims[0], rows);
            it->base.types[i].dtype = it->whole.types[i].dtype;
            it->base.types[i].shape = ipu_shape_make(shape->rank - 1, shape->dims + 1);
        }
        it->row = 0;
        it->rows = rows;
    }
    return IPU_OK;
}

static ipu_status
unbatch_next(ipu_ctx *ctx, ipu_iterator *iterator, ipu__element *out)
{
    unbatch_iterator *it = (unbatch_iterator *)iterator;
    IPU_TRY(take_whole(ctx, it, &out->end));
    if (out->end) {
        return IPU_OK;
    }
    for (uint32_t i = 0; i < iterator->dataset->type_count; i++) {
        iterator->parts[i] = (const char *)it->whole.parts[i] +
                             (size_t)it->row * ipu_type_bytes(&iterator->types[i]);
    }
    it->row++;
    out->types = iterator->types;
    out->parts = iterator->parts;
    return IPU_OK;
}

IPU__KIND(unbatch_kind, "unbatch", ipu_dataset, unbatch_iterator, .opens_input = true,
          .next = unbatch_next);

ipu_status
ipu_dataset_unbatch(ipu_ctx *ctx, ipu_dataset *input, ipu_dataset **out)
{
    ipu_dataset *dataset = NULL;
    int64_t rows = -1; /* of every element, where that is known */
    IPU_FAIL_IF(ctx, input->type_count == 0, VALUE, "unbatch: elements without parts");
    for (uint32_t i = 0; i < input->type_count; i++) {
        IPU_FAIL_IF(
            ctx, input->types[i].shape.rank == 0, VALUE,
            "unbatch: component %" PRIu32 " is a scalar, which has no first axis", i);
    }
    IPU_TRY(ipu__dataset_over(ctx, &unbatch_kind, input, &dataset));
    for (uint32_t i = 0; i < input->type_count; i++) {
        const ipu_shape *shape = &input->types[i].shape;
        if (shape->rank > 0) {
            dataset->types[i].shape = ipu_shape_make(shape->rank - 1, shape->dims + 1);
            rows = shape->dims[0] >= 0 ? shape->dims[0] : rows;
        }
    }
    ipu__dataset_typed(dataset);
    dataset->cardinality = IPU_CARDINALITY_UNKNOWN;
    int64_t n = input->cardinality;
    if (n == IPU_CARDINALITY_INFINITE || n == 0 ||
        (n > 0 && rows >= 0 && (rows == 0 || n <= INT64_MAX / rows))) {
        dataset->cardinality = n <= 0 ? n : n * rows;
    }
    *out = dataset;
    return IPU_OK;
}

/* --- assert_cardinality ---------------------------------------------------------- */

typedef struct counting_iterator {
    ipu_iterator base;
    int64_t given;
    int64_t failed;
} counting_iterator;

/* After an element was asked for. One that failed may be one of those that there are,
 * or several of them (a batch begins anew after an error). */
static ipu_status
check_count(ipu_ctx *ctx, counting_iterator *it, ipu_status status, bool end)
{
    if (status != IPU_OK) {
        it->failed += status != IPU_STATUS_CANCELLED;
        return status;
    }
    int64_t expected = it->base.dataset->cardinality;
    it->base.done = end; /* what is wrong is told once */
    IPU_FAIL_IF(ctx, end && expected == IPU_CARDINALITY_INFINITE, FAILED_PRECONDITION,
                "Input dataset was expected to contain an infinite number of elements "
                "but contained only %" PRId64 " elements.",
                it->given);
    IPU_FAIL_IF(ctx, end && it->given + it->failed < expected, FAILED_PRECONDITION,
                "Input dataset was expected to contain %" PRId64
                " elements but contained only %" PRId64 " elements.",
                expected, it->given);
    it->given += !end;
    IPU_FAIL_IF(ctx, expected >= 0 && it->given > expected, FAILED_PRECONDITION,
                "Input dataset was expected to contain %" PRId64
                " elements but contained at least %" PRId64 " elements.",
                expected, it->given);
    return IPU_OK;
}

static ipu_status
counting_next(ipu_ctx *ctx, ipu_iterator *iterator, ipu__element *out)
{
    ipu_status status = ipu__iterator_next(ctx, iterator->input, out);
    return check_count(ctx, (counting_iterator *)iterator, status, out->end);
}

IPU__KIND(counting_kind, "assert_cardinality", ipu_dataset, counting_iterator,
          .pace = IPU__PACE_INPUTS, .opens_input = true, .next = counting_next);

ipu_status
ipu_dataset_assert_cardinality(ipu_ctx *ctx, ipu_dataset *input, int64_t cardinality,
                               ipu_dataset **out)
{
    ipu_dataset *dataset;
    IPU_FAIL_IF(ctx, cardinality < IPU_CARDINALITY_UNKNOWN, INVALID_ARGUMENT,
                "assert_cardinality: not a number of elements: %" PRId64, cardinality);
    IPU_TRY(ipu__dataset_over(ctx, &counting_kind, input, &dataset));
    dataset->cardinality = cardinality;
    *out = dataset;
    return IPU_OK;
}
