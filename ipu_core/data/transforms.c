/* SPDX-License-Identifier: MIT
 *
 * The transformations that hand their input's elements on as they are: zip, repeat,
 * take, skip, shard. None of them copies; what asks for an element in buffers goes
 * through to the input.
 *
 * Cardinalities follow tf.data's algebra; they are sizes or the negative constants
 * of dataset.h. */
#include "data/dataset_impl.h"

#include <inttypes.h>

/* --- zip ------------------------------------------------------------------------- */

typedef struct zip_iterator {
    ipu_iterator base;
    ipu_iterator **inputs;
    uint32_t read; /* inputs whose parts are there already: the last call was cancelled
                    * while it waited for the next one */
    ipu__store kept; /* those parts */
    uint32_t behind; /* this input and those after it have an element of which there are
                      * no others' parts; input_count: none has */
} zip_iterator;

/* Leaves out those elements, or all that follows would be put together wrongly; what
 * they fail with is not told. A call that is cancelled here goes on in the next one. */
static ipu_status
skip_partners(ipu_ctx *ctx, zip_iterator *it)
{
    while (it->behind < it->base.dataset->input_count) {
        ipu__element element = {0};
        ipu_ctx own;
        ipu_ctx_init(&own, ctx->allocator);
        own.cancel = ctx->cancel;
        ipu_status status = ipu__iterator_next(&own, it->inputs[it->behind], &element);
        if (status == IPU_STATUS_CANCELLED) {
            return ipu_ctx_forward(ctx, &own);
        }
        it->behind++;
        ipu_ctx_clear(&own);
    }
    return IPU_OK;
}

/* Components of the inputs before one. */
static uint32_t
parts_before(const ipu_dataset *dataset, uint32_t input)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < input; i++) {
        count += dataset->inputs[i]->type_count;
    }
    return count;
}

/* Keeps the first `count` components: buffers may be others in the next call. */
static ipu_status
keep_parts(ipu_ctx *ctx, zip_iterator *it, uint32_t count)
{
    const ipu__element element = {.types = it->base.types, .parts = it->base.parts};
    ipu__store made = {0};
    ipu_status status = ipu__store_copy(ctx, &made, &element, count);
    ipu__store_free(ctx, &it->kept);
    it->kept = made;
    for (uint32_t c = 0; c < count && status == IPU_OK; c++) {
        it->base.parts[c] = made.parts[c];
    }
    return status;
}

/* Input `which` did not give its element. What the inputs after it have in its place
 * goes with it; the first error is the one that is told. */
static ipu_status
give_up(ipu_ctx *ctx, zip_iterator *it, uint32_t which, uint32_t components,
        ipu_status status)
{
    if (status != IPU_STATUS_CANCELLED) {
        it->behind = which + 1;
        (void)skip_partners(ctx, it);
        return status;
    }
    ipu_status kept = keep_parts(ctx, it, components);
    if (kept != IPU_OK) {
        it->behind = which;
        return kept;
    }
    it->read = which;
    return status;
}

static ipu_status
zip_next(ipu_ctx *ctx, ipu_iterator *iterator, ipu__element *out)
{
    zip_iterator *it = (zip_iterator *)iterator;
    const ipu_dataset *dataset = iterator->dataset;
    IPU_TRY(skip_partners(ctx, it));
    uint32_t first = it->read;
    uint32_t at = parts_before(dataset, first);
    it->read = 0;
    for (uint32_t i = first; i < dataset->input_count; i++) {
        ipu__element element = {0};
        if (out->buffers != NULL) {
            element.wanted = out->wanted + at;
            element.buffers = out->buffers + at;
        }
        ipu_status status = ipu__iterator_next(ctx, it->inputs[i], &element);
        if (status != IPU_OK) {
            return give_up(ctx, it, i, at, status);
        }
        if (element.end) {
            out->end = true;
            return IPU_OK;
        }
        for (uint32_t j = 0; j < dataset->inputs[i]->type_count; j++, at++) {
            iterator->parts[at] = element.parts[j];
            iterator->types[at] = element.types[j];
        }
    }
    out->types = dataset->is_static ? dataset->types : iterator->types;
    out->parts = iterator->parts;
    return IPU_OK;
}

static void
zip_close(ipu_ctx *ctx, ipu_iterator *iterator)
{
    zip_iterator *it = (zip_iterator *)iterator;
    const ipu_dataset *dataset = iterator->dataset;
    for (uint32_t i = 0; it->inputs != NULL && i < dataset->input_count; i++) {
        ipu_iterator_free(it->inputs[i]);
    }
    ipu__store_free(ctx, &it->kept);
    ipu_free(ctx, it->inputs, dataset->input_count * sizeof(ipu_iterator *));
}

static void
zip_visit(const ipu_iterator *iterator, ipu_visit_fn *visit, void *argument)
{
    const zip_iterator *it = (const zip_iterator *)iterator;
    for (uint32_t i = 0; i < iterator->dataset->input_count; i++) {
        ipu_iterator_visit(it->inputs[i], visit, argument);
    }
}

static ipu_status
zip_open(ipu_ctx *ctx, ipu_iterator *iterator, const ipu__pass *pass)
{
    zip_iterator *it = (zip_iterator *)iterator;
    const ipu_dataset *dataset = iterator->dataset;
    it->behind = dataset->input_count;
    IPU_TRY(ipu_alloc(ctx, dataset->input_count * sizeof(ipu_iterator *), &it->inputs));
    for (uint32_t i = 0; i < dataset->input_count; i++) {
        IPU_TRY(ipu__iterator_open(ctx, dataset->inputs[i], pass, &it->inputs[i]));
    }
    return IPU_OK;
}

IPU__KIND(zip_kind, "zip", ipu_dataset, zip_iterator, .pace = IPU__PACE_INPUTS,
          .open = zip_open, .next = zip_next, .close = zip_close, .visit = zip_visit);

static int64_t
zip_cardinality(ipu_dataset *const *inputs, uint32_t count)
{
    int64_t result = IPU_CARDINALITY_INFINITE;
    for (uint32_t i = 0; i < count; i++) {
        int64_t n = inputs[i]->cardinality;
        if (n == IPU_CARDINALITY_UNKNOWN) {
            return n;
        }
        if (n != IPU_CARDINALITY_INFINITE &&
            (result == IPU_CARDINALITY_INFINITE || n < result)) {
            result = n;
        }
    }
    return result;
}

ipu_status
ipu_dataset_zip(ipu_ctx *ctx, ipu_dataset *const *inputs, uint32_t count,
                ipu_dataset **out)
{
    IPU_FAIL_IF(ctx, count == 0, VALUE, "zip needs at least one data set");
    uint32_t type_count = 0;
    bool stable = true;
    for (uint32_t i = 0; i < count; i++) {
        type_count += inputs[i]->type_count;
        stable = stable && inputs[i]->stable;
    }
    ipu_dataset *dataset = NULL;
    IPU_TRY(
        ipu__dataset_new(ctx, &zip_kind, inputs, count, NULL, type_count, &dataset));
    uint32_t at = 0;
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t j = 0; j < inputs[i]->type_count; j++) {
            dataset->types[at++] = inputs[i]->types[j];
        }
    }
    ipu__dataset_typed(dataset);
    dataset->stable = stable;
    dataset->cardinality = zip_cardinality(inputs, count);
    *out = dataset;
    return IPU_OK;
}

/* --- repeat ---------------------------------------------------------------------- */

typedef struct repeat_dataset {
    ipu_dataset base;
    int64_t count;
    uint64_t first; /* the number of the first pass, where it numbers passes; else 0 */
} repeat_dataset;

typedef struct repeat_iterator {
    ipu_iterator base;
    ipu__pass pass; /* of this iterator; the input's is counted on from it */
    int64_t passes; /* begun */
    bool fresh;     /* the input has given nothing yet */
} repeat_iterator;

/* Opens the next pass over the input; *end where there is none. */
static ipu_status
repeat_advance(ipu_ctx *ctx, repeat_iterator *it, bool *end)
{
    const repeat_dataset *dataset = (const repeat_dataset *)it->base.dataset;
    /* an endless repeat of nothing would never return */
    *end = (it->fresh && dataset->count < 0) ||
           (dataset->count >= 0 && it->passes >= dataset->count);
    if (*end) {
        return IPU_OK;
    }
    ipu__pass pass = it->pass;
    uint64_t per_pass =
        dataset->count < 0 ? IPU__ENDLESS_PASSES : (uint64_t)dataset->count;
    pass.index = dataset->first + pass.index * per_pass + (uint64_t)it->passes;
    ipu_iterator_free(it->base.input);
    it->base.input = NULL;
    IPU_TRY(ipu__iterator_open(ctx, dataset->base.inputs[0], &pass, &it->base.input));
    it->passes++;
    it->fresh = true;
    return IPU_OK;
}

static ipu_status
repeat_next(ipu_ctx *ctx, ipu_iterator *iterator, ipu__element *out)
{
    repeat_iterator *it = (repeat_iterator *)iterator;
    for (;;) {
        if (iterator->input != NULL) {
            IPU_TRY(ipu__iterator_next(ctx, iterator->input, out));
            if (!out->end) {
                it->fresh = false;
                return IPU_OK;
            }
        }
        IPU_TRY(repeat_advance(ctx, it, &out->end));
        if (out->end) {
            return IPU_OK;
        }
    }
}

static ipu_status
repeat_open(ipu_ctx *ctx, ipu_iterator *iterator, const ipu__pass *pass)
{
    (void)ctx;
    ((repeat_iterator *)iterator)->pass = *pass;
    return IPU_OK;
}

IPU__KIND(repeat_kind, "repeat", repeat_dataset, repeat_iterator,
          .pace = IPU__PACE_INPUTS, .open = repeat_open, .next = repeat_next);

ipu_status
ipu_dataset_repeat(ipu_ctx *ctx, ipu_dataset *input, int64_t count, ipu_dataset **out)
{
    repeat_dataset *dataset;
    int64_t n = input->cardinality;
    if (count < 0) {
        n = n == 0 ? 0 : IPU_CARDINALITY_INFINITE;
    } else if (count == 0) {
        n = 0;
    } else if (n > INT64_MAX / count) {
        n = IPU_CARDINALITY_INFINITE;
    } else if (n > 0) {
        n *= count;
    }
    IPU_TRY(ipu__dataset_over(ctx, &repeat_kind, input, &dataset));
    dataset->count = count;
    dataset->base.cardinality = n;
    dataset->base.repeats = count < 0 ? -1 : count;
    *out = &dataset->base;
    return IPU_OK;
}

ipu_status
ipu_dataset_repeat_from(ipu_ctx *ctx, ipu_dataset *input, int64_t count, uint64_t first,
                        ipu_dataset **out)
{
    input = ipu__dataset_before_prefetch(input);
    IPU_TRY(ipu_dataset_repeat(ctx, input, count, out));
    (*out)->numbers_passes = true;
    ((repeat_dataset *)*out)->first = first;
    return IPU_OK;
}

/* --- take, skip, shard ------------------------------------------------------------ */

/* `block` elements from each of first, first + step, ... of the input on, at most `count`
 * of them; -1: all. */
typedef struct slice_dataset {
    ipu_dataset base;
    int64_t first;
    int64_t step;
    int64_t block;
    int64_t count;
} slice_dataset;

typedef struct slice_iterator {
    ipu_iterator base;
    int64_t skip;  /* elements before the next one that is given */
    int64_t left;  /* to give; -1: all */
    int64_t given; /* of the block */
} slice_iterator;

static ipu_status
slice_open(ipu_ctx *ctx, ipu_iterator *iterator, const ipu__pass *pass)
{
    const slice_dataset *slice = (const slice_dataset *)iterator->dataset;
    slice_iterator *it = (slice_iterator *)iterator;
    (void)ctx;
    (void)pass;
    it->skip = slice->first;
    it->left = slice->count;
    return IPU_OK;
}

static ipu_status
slice_next(ipu_ctx *ctx, ipu_iterator *iterator, ipu__element *out)
{
    const slice_dataset *slice = (const slice_dataset *)iterator->dataset;
    slice_iterator *it = (slice_iterator *)iterator;
    ipu_status status = IPU_OK;
    out->end = it->left == 0;
    while (it->skip > 0 && !out->end) {
        ipu__element element = {0};
        status = ipu__iterator_next(ctx, iterator->input, &element);
        /* one of a shard's that failed has its place */
        it->skip -= slice->step > 1 ? status != IPU_STATUS_CANCELLED : status == IPU_OK;
        IPU_TRY(status);
        out->end = element.end;
    }
    if (!out->end) {
        status = ipu__iterator_next(ctx, iterator->input, out);
        it->left -= status == IPU_OK && it->left > 0;
    }
    if (status != IPU_STATUS_CANCELLED) { /* then it is still to come */
        it->given = (it->given + 1) % slice->block;
        it->skip = it->given == 0 ? slice->step - slice->block : 0;
    }
    return status;
}

#define SLICE_KIND(kind, text, how_long) \
    IPU__KIND(kind, text, slice_dataset, slice_iterator, .pace = (how_long), \
              .opens_input = true, .open = slice_open, .next = slice_next)
SLICE_KIND(take_kind, "take", IPU__PACE_INPUTS);
SLICE_KIND(skip_kind, "skip", IPU__PACE_ANY);
SLICE_KIND(shard_kind, "shard", IPU__PACE_INPUTS);

static ipu_status
slice_create(ipu_ctx *ctx, const ipu__kind *kind, ipu_dataset *input, int64_t first,
             int64_t step, int64_t block, int64_t count, int64_t cardinality,
             ipu_dataset **out)
{
    slice_dataset *slice;
    IPU_TRY(ipu__dataset_over(ctx, kind, input, &slice));
    slice->first = first;
    slice->step = step;
    slice->block = block;
    slice->count = count;
    slice->base.cardinality = cardinality;
    *out = &slice->base;
    return IPU_OK;
}

ipu_status
ipu_dataset_take(ipu_ctx *ctx, ipu_dataset *input, int64_t count, ipu_dataset **out)
{
    int64_t n = input->cardinality;
    if (n == IPU_CARDINALITY_INFINITE && count >= 0) {
        n = count;
    } else if (count >= 0 && count < n) {
        n = count;
    }
    return slice_create(ctx, &take_kind, input, 0, 1, 1, count < 0 ? -1 : count, n,
                        out);
}

ipu_status
ipu_dataset_skip(ipu_ctx *ctx, ipu_dataset *input, int64_t count, ipu_dataset **out)
{
    int64_t n = input->cardinality;
    if (n >= 0) {
        n = count < 0 || count > n ? 0 : n - count;
    }
    return slice_create(ctx, &skip_kind, input, count, 1, 1, count < 0 ? 0 : -1, n,
                        out);
}

ipu_status
ipu_dataset_shard(ipu_ctx *ctx, ipu_dataset *input, int64_t count, int64_t index,
                  int64_t block, ipu_dataset **out)
{
    int64_t n = input->cardinality;
    IPU_FAIL_IF(ctx, count < 1, INVALID_ARGUMENT,
                "shard: num_shards must be at least 1, not %" PRId64, count);
    IPU_FAIL_IF(ctx, index < 0 || index >= count, INVALID_ARGUMENT,
                "shard: index must be from 0 to %" PRId64 ", not %" PRId64, count - 1,
                index);
    IPU_FAIL_IF(ctx, block < 1 || block > INT64_MAX / count, INVALID_ARGUMENT,
                "shard: a block must have from 1 to %" PRId64 " elements, not %" PRId64,
                INT64_MAX / count, block);
    int64_t first = index * block;
    int64_t step = count * block;
    if (n >= 0) {
        int64_t rest = n % step - first;
        n = n / step * block + (rest < 0 ? 0 : rest < block ? rest : block);
    }
    IPU_TRY(slice_create(ctx, &shard_kind, input, first, step, block, -1, n, out));
    (*out)->shards = count;
    return IPU_OK;
}
