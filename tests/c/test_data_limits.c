/* SPDX-License-Identifier: MIT
 *
 * Data sets at their limits: chains of thousands of transformations, data sets that
 * share their inputs over and over, and sizes far beyond the data. */
#include <string.h>

#include "check.h"
#include "data/dataset.h"

static ipu_ctx ctx;

static ipu_dataset *
range_of(int64_t stop)
{
    ipu_dataset *dataset = NULL;
    CHECK_OK(&ctx, ipu_dataset_range(&ctx, 0, stop, 1, &dataset));
    return dataset;
}

/* How many elements a fresh iterator gives, up to `most`. */
static int64_t
count_elements(ipu_dataset *dataset, int64_t most)
{
    ipu_iterator *iterator = NULL;
    int64_t count = 0;
    ipu_status status = ipu_iterator_create(&ctx, dataset, &iterator);
    while (status == IPU_OK && count < most) {
        const ipu_type *types;
        const void *const *parts;
        status = ipu_iterator_next(&ctx, iterator, &types, &parts);
        count += status == IPU_OK;
    }
    CHECK(status == IPU_OK || status == IPU_STATUS_OUT_OF_RANGE);
    ipu_ctx_clear(&ctx);
    ipu_iterator_free(iterator);
    return count;
}

/* --- chains ---------------------------------------------------------------------- */

enum { CHAIN = 8000 };

static void
test_chain_of_concatenations(bool to_the_left)
{
    ipu_dataset *dataset = range_of(1);
    for (int i = 1; i < CHAIN; i++) {
        ipu_dataset *more = range_of(1);
        ipu_dataset *whole = NULL;
        CHECK_OK(&ctx, ipu_dataset_concatenate(&ctx, to_the_left ? dataset : more,
                                               to_the_left ? more : dataset, &whole));
        ipu_dataset_unref(more);
        ipu_dataset_unref(dataset);
        dataset = whole;
    }
    CHECK(ipu_dataset_cardinality(dataset) == CHAIN);
    CHECK(count_elements(dataset, CHAIN + 1) == CHAIN);
    ipu_dataset_unref(dataset);
}

/* Shuffles are counted once however often they are reached. */
static void
test_shared_inputs(void)
{
    ipu_dataset *source = range_of(1);
    ipu_dataset *dataset = NULL;
    CHECK_OK(&ctx, ipu_dataset_shuffle(&ctx, source, 1, 0, true, &dataset));
    ipu_dataset_unref(source);
    for (int i = 0; i < 40; i++) {
        ipu_dataset *twice = NULL;
        CHECK_OK(&ctx, ipu_dataset_concatenate(&ctx, dataset, dataset, &twice));
        ipu_dataset_unref(dataset);
        dataset = twice;
    }
    CHECK(ipu_dataset_cardinality(dataset) == INT64_C(1) << 40);
    CHECK(count_elements(dataset, 3) == 3);
    ipu_dataset_unref(dataset);
}

typedef ipu_status wrap_fn(ipu_dataset *input, ipu_dataset **out);

static ipu_status
wrap_take(ipu_dataset *input, ipu_dataset **out)
{
    return ipu_dataset_take(&ctx, input, 1, out);
}

static ipu_status
wrap_skip(ipu_dataset *input, ipu_dataset **out)
{
    return ipu_dataset_skip(&ctx, input, 0, out);
}

static ipu_status
wrap_repeat(ipu_dataset *input, ipu_dataset **out)
{
    return ipu_dataset_repeat(&ctx, input, 1, out);
}

static ipu_status
wrap_shuffle(ipu_dataset *input, ipu_dataset **out)
{
    return ipu_dataset_shuffle(&ctx, input, 2, 0, true, out);
}

static ipu_status
wrap_shard(ipu_dataset *input, ipu_dataset **out)
{
    return ipu_dataset_shard(&ctx, input, 1, 0, 1, out);
}

static ipu_status
wrap_cache(ipu_dataset *input, ipu_dataset **out)
{
    return ipu_dataset_cache(&ctx, input, out);
}

static ipu_status
wrap_zip(ipu_dataset *input, ipu_dataset **out)
{
    return ipu_dataset_zip(&ctx, &input, 1, out);
}

static ipu_status
wrap_count(ipu_dataset *input, ipu_dataset **out)
{
    return ipu_dataset_assert_cardinality(&ctx, input, 1, out);
}

static ipu_status
wrap_rebatch(ipu_dataset *input, ipu_dataset **out)
{
    ipu_dataset *batched = NULL;
    IPU_TRY(ipu_dataset_batch(&ctx, input, 1, true, &batched));
    ipu_status status = ipu_dataset_unbatch(&ctx, batched, out);
    ipu_dataset_unref(batched);
    return status;
}

static void
test_nesting(wrap_fn *wrap)
{
    ipu_dataset *dataset = range_of(1);
    ipu_dataset *more = NULL;
    ipu_status status = IPU_OK;
    int made = 0;
    for (; made < CHAIN; made++) {
        more = NULL;
        status = wrap(dataset, &more);
        if (status != IPU_OK) {
            break;
        }
        ipu_dataset_unref(dataset);
        dataset = more;
    }
    CHECK(made >= 499 && made < CHAIN);
    CHECK(status == IPU_STATUS_INVALID_ARGUMENT);
    CHECK(strstr(ctx.message, "on top of one another, and 1000 is the limit") != NULL);
    ipu_ctx_clear(&ctx);
    CHECK(count_elements(dataset, 2) == 1);
    ipu_dataset_unref(dataset);
}

/* --- sizes beyond the data ------------------------------------------------------- */

typedef struct measured_heap {
    ipu_allocator heap;
    int64_t bytes;
    int64_t peak;
} measured_heap;

static void *
measured_resize(void *state, void *pointer, size_t old_bytes, size_t new_bytes)
{
    measured_heap *self = state;
    void *made = self->heap.resize(self->heap.state, pointer, old_bytes, new_bytes);
    if (made != NULL || new_bytes == 0) {
        self->bytes += (int64_t)new_bytes - (int64_t)(pointer != NULL ? old_bytes : 0);
    }
    self->peak = self->bytes > self->peak ? self->bytes : self->peak;
    return made;
}

typedef ipu_status huge_fn(ipu_dataset *input, int64_t size, ipu_dataset **out);

static ipu_status
huge_batch(ipu_dataset *input, int64_t size, ipu_dataset **out)
{
    return ipu_dataset_batch(&ctx, input, size, false, out);
}

static ipu_status
huge_batch_or_none(ipu_dataset *input, int64_t size, ipu_dataset **out)
{
    return ipu_dataset_batch(&ctx, input, size, true, out);
}

static ipu_status
huge_shuffle(ipu_dataset *input, int64_t size, ipu_dataset **out)
{
    return ipu_dataset_shuffle(&ctx, input, size, 0, true, out);
}

static void
test_huge(huge_fn *wrap, int64_t expected)
{
    measured_heap heap = {ipu_allocator_default(), 0, 0};
    ipu_ctx before = ctx;
    ipu_ctx_init(&ctx, (ipu_allocator){measured_resize, &heap});
    ipu_dataset *source = range_of(10);
    ipu_dataset *dataset = NULL;
    CHECK_OK(&ctx, wrap(source, INT64_C(1) << 40, &dataset));
    CHECK(count_elements(dataset, 100) == expected);
    ipu_dataset_unref(source);
    ipu_dataset_unref(dataset);
    CHECK(heap.bytes == 0);
    CHECK(heap.peak < 1 << 20);
    ctx = before;
}

/* A batch that grows gives what one that does not grow gives. */
static void
test_growing_batch(void)
{
    enum { COUNT = 100000 };
    ipu_dataset *source = range_of(COUNT);
    ipu_dataset *dataset = NULL;
    ipu_iterator *iterator = NULL;
    const ipu_type *types;
    const void *const *parts;
    CHECK_OK(&ctx, ipu_dataset_batch(&ctx, source, 70000, false, &dataset));
    CHECK_OK(&ctx, ipu_iterator_create(&ctx, dataset, &iterator));
    for (int64_t first = 0; first < COUNT; first += 70000) {
        CHECK_OK(&ctx, ipu_iterator_next(&ctx, iterator, &types, &parts));
        CHECK(types[0].shape.dims[0] == (first == 0 ? 70000 : 30000));
        const int64_t *rows = parts[0];
        bool same = true;
        for (int64_t i = 0; i < types[0].shape.dims[0]; i++) {
            same = same && rows[i] == first + i;
        }
        CHECK(same);
    }
    ipu_iterator_free(iterator);
    ipu_dataset_unref(dataset);
    ipu_dataset_unref(source);
}

int
main(void)
{
    static wrap_fn *const wraps[] = {wrap_take,    wrap_skip,  wrap_repeat,
                                     wrap_shuffle, wrap_shard, wrap_cache,
                                     wrap_zip,     wrap_count, wrap_rebatch};
    ipu_ctx_init(&ctx, ipu_allocator_default());
    test_chain_of_concatenations(true);
    test_chain_of_concatenations(false);
    test_shared_inputs();
    for (size_t i = 0; i < sizeof(wraps) / sizeof(*wraps); i++) {
        test_nesting(wraps[i]);
    }
    test_huge(huge_batch, 1);
    test_huge(huge_batch_or_none, 0);
    test_huge(huge_shuffle, 10);
    test_growing_batch();
    CHECK(ctx.status == IPU_OK);
    return CHECK_DONE();
}
