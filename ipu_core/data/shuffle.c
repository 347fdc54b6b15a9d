/* SPDX-License-Identifier: MIT
 *
 * Shuffle over a window, as tf.data has it: the window is filled with the first
 * buffer_size elements; each step gives a uniformly chosen one of them and puts the
 * input's next element in its place.
 *
 * The place is filled when the next element is asked for: so what the input fails to
 * make is missing alone, and the order of the others does not depend on when they are
 * made.
 *
 * Over a stable input the window holds pointers and no element is copied; otherwise it
 * holds copies in reused storage. It grows as it is filled, so a buffer_size beyond the
 * data costs nothing. Random numbers are Philox words keyed by (seed, pass). */
#include "data/dataset_impl.h"

#include <inttypes.h>

#include "base/random.h"

typedef struct shuffle_dataset {
    ipu_dataset base;
    int64_t buffer_size;
    uint64_t seed;
    bool reshuffle;
} shuffle_dataset;

typedef struct shuffle_iterator {
    ipu_iterator base;
    bool started;
    bool drained;  /* the input has ended */
    bool has_hole; /* the element in place `hole` has been given */
    size_t hole;
    ipu_random_key key;
    uint64_t block;
    uint32_t words[4];
    uint32_t words_left;
    IPU_ARRAY(const void *) views; /* stable input: type_count pointers an element */
    IPU_ARRAY(ipu__store) stores;  /* else */
    size_t fill;                   /* elements in the window */
    ipu__store out_store;          /* the same: the element given last */
} shuffle_iterator;

static uint32_t
next_word(shuffle_iterator *it)
{
    if (it->words_left == 0) {
        ipu_random_block(&it->key, it->block++, it->words);
        it->words_left = 4;
    }
    return it->words[4 - it->words_left--];
}

/* Uniform in [0, bound), without bias (Lemire, "Fast random integer generation in an
 * interval", 2019). */
static uint32_t
next_below(shuffle_iterator *it, uint32_t bound)
{
    uint64_t product = (uint64_t)next_word(it) * bound;
    if ((uint32_t)product < bound) {
        uint32_t threshold = (uint32_t)(-bound) % bound;
        while ((uint32_t)product < threshold) {
            product = (uint64_t)next_word(it) * bound;
        }
    }
    return (uint32_t)(product >> 32);
}

/* Puts the input's next element at window place `at`; false in *took at its end. */
static ipu_status
take_in(ipu_ctx *ctx, shuffle_iterator *it, size_t at, bool *took)
{
    uint32_t count = it->base.dataset->type_count;
    ipu__element element = {0};
    *took = false;
    if (it->drained) {
        return IPU_OK;
    }
    IPU_TRY(ipu__iterator_next(ctx, it->base.input, &element));
    if (element.end) {
        it->drained = true;
        return IPU_OK;
    }
    if (it->base.dataset->stable) {
        if (at * count == it->views.count) {
            IPU_TRY(IPU_ARRAY_RESERVE(ctx, &it->views, count));
            it->views.count += count;
        }
        for (uint32_t i = 0; i < count; i++) {
            it->views.items[at * count + i] = element.parts[i];
        }
    } else {
        if (at == it->stores.count) {
            ipu__store empty = {0};
            IPU_TRY(IPU_ARRAY_PUSH(ctx, &it->stores, empty));
        }
        IPU_TRY(ipu__store_copy(ctx, &it->stores.items[at], &element, count));
    }
    *took = true;
    return IPU_OK;
}

static void
move_view(shuffle_iterator *it, const void **to, size_t from)
{
    uint32_t count = it->base.dataset->type_count;
    for (uint32_t i = 0; i < count; i++) {
        to[i] = it->views.items[from * count + i];
    }
}

static void
swap_stores(ipu__store *a, ipu__store *b)
{
    ipu__store held = *a;
    *a = *b;
    *b = held;
}

/* Puts the input's next element in the place of the one that was given, or the last one
 * of the window where there is none. */
static ipu_status
fill_hole(ipu_ctx *ctx, shuffle_iterator *it)
{
    bool took;
    IPU_TRY(take_in(ctx, it, it->hole, &took));
    it->has_hole = false;
    if (took) {
        return IPU_OK;
    }
    it->fill--;
    if (it->base.dataset->stable) {
        move_view(it, it->views.items + it->hole * it->base.dataset->type_count,
                  it->fill);
    } else {
        swap_stores(&it->stores.items[it->hole], &it->stores.items[it->fill]);
    }
    return IPU_OK;
}

/* Until the window has buffer_size elements, or the input ends. */
static ipu_status
fill_window(ipu_ctx *ctx, shuffle_iterator *it)
{
    const shuffle_dataset *shuffle = (const shuffle_dataset *)it->base.dataset;
    while (!it->started) {
        bool took;
        IPU_FAIL_IF(ctx, it->fill == UINT32_MAX, RESOURCE_EXHAUSTED,
                    "shuffle: the buffer holds at most %" PRIu32 " elements",
                    UINT32_MAX);
        IPU_TRY(take_in(ctx, it, it->fill, &took));
        it->fill += took;
        it->started = !took || it->fill >= (uint64_t)shuffle->buffer_size;
    }
    return IPU_OK;
}

static ipu_status
shuffle_next(ipu_ctx *ctx, ipu_iterator *iterator, ipu__element *out)
{
    shuffle_iterator *it = (shuffle_iterator *)iterator;
    IPU_TRY(fill_window(ctx, it));
    if (it->has_hole) {
        IPU_TRY(fill_hole(ctx, it));
    }
    if (it->fill == 0) {
        out->end = true;
        return IPU_OK;
    }
    size_t chosen = next_below(it, (uint32_t)it->fill);
    it->has_hole = true;
    it->hole = chosen;
    if (iterator->dataset->stable) {
        move_view(it, iterator->parts, chosen);
        out->types = iterator->dataset->types;
        out->parts = iterator->parts;
    } else {
        swap_stores(&it->stores.items[chosen], &it->out_store);
        out->types = it->out_store.types;
        out->parts = (const void *const *)it->out_store.parts;
    }
    return IPU_OK;
}

static void
shuffle_close(ipu_ctx *ctx, ipu_iterator *iterator)
{
    shuffle_iterator *it = (shuffle_iterator *)iterator;
    for (size_t i = 0; i < it->stores.count; i++) {
        ipu__store_free(ctx, &it->stores.items[i]);
    }
    ipu__store_free(ctx, &it->out_store);
    IPU_ARRAY_FREE(ctx, &it->stores);
    IPU_ARRAY_FREE(ctx, &it->views);
}

static ipu_status
shuffle_open(ipu_ctx *ctx, ipu_iterator *iterator, const ipu__pass *pass)
{
    shuffle_iterator *it = (shuffle_iterator *)iterator;
    (void)ctx;
    it->key.seed = ((const shuffle_dataset *)iterator->dataset)->seed;
    it->key.step = ipu__pass_number(iterator->dataset, pass);
    return IPU_OK;
}

IPU__KIND(shuffle_kind, "shuffle", shuffle_dataset, shuffle_iterator,
          .pace = IPU__PACE_STABLE, .opens_input = true, .open = shuffle_open,
          .next = shuffle_next, .close = shuffle_close);

ipu_status
ipu_dataset_shuffle(ipu_ctx *ctx, ipu_dataset *input, int64_t buffer_size,
                    uint64_t seed, bool reshuffle, ipu_dataset **out)
{
    shuffle_dataset *shuffle;
    IPU_FAIL_IF(ctx, buffer_size <= 0, INVALID_ARGUMENT,
                "shuffle: buffer_size must be greater than zero, not %" PRId64,
                buffer_size);
    IPU_TRY(ipu__dataset_over(ctx, &shuffle_kind, input, &shuffle));
    shuffle->buffer_size = buffer_size;
    shuffle->seed = seed;
    shuffle->reshuffle = reshuffle;
    shuffle->base.counts_passes = reshuffle;
    *out = &shuffle->base;
    return IPU_OK;
}
