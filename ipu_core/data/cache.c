/* SPDX-License-Identifier: MIT
 *
 * Cache: the input is read once, and its elements are kept in memory as long as the
 * data set lives.
 *
 * All iterators share the elements and one iterator of the input: who comes to the end
 * of what is there makes the next element for everybody, under the lock. So a pass that
 * stops early loses nothing, two passes at a time read nothing twice, and elements stay
 * where they are: over them shuffle and batch work with pointers.
 *
 * The shared iterator may call Python with the lock held. That cannot lock up: whoever
 * waits for the lock has released Python's before. */
#include "data/dataset_impl.h"

#include <pthread.h>

typedef struct cache_dataset {
    ipu_dataset base;
    bool has_lock;
    pthread_mutex_t lock;  /* protects all below */
    ipu_ctx ctx;           /* of the shared iterator */
    ipu__pass_base *bases; /* its passes, of our own: it outlives root iterators */
    uint32_t base_count;
    ipu_iterator *input;
    bool ended;
    IPU_ARRAY(ipu__store) elements;
} cache_dataset;

typedef struct cache_iterator {
    ipu_iterator base;
    size_t next;
} cache_iterator;

static ipu_status
open_input_locked(cache_dataset *cache, const ipu__pass *pass)
{
    size_t bytes = pass->base_count * sizeof(ipu__pass_base);
    if (cache->input != NULL) {
        return IPU_OK;
    }
    IPU_TRY(ipu_alloc(&cache->ctx, bytes, &cache->bases));
    cache->base_count = pass->base_count;
    if (bytes > 0) {
        memcpy(cache->bases, pass->bases, bytes);
    }
    const ipu__pass own = {cache->bases, pass->base_count, pass->index};
    ipu_status status =
        ipu__iterator_open(&cache->ctx, cache->base.inputs[0], &own, &cache->input);
    if (status != IPU_OK) {
        ipu_free(&cache->ctx, cache->bases, bytes);
        cache->bases = NULL;
    }
    return status;
}

static void
close_input_locked(cache_dataset *cache)
{
    ipu_iterator_free(cache->input);
    cache->input = NULL;
    ipu_free(&cache->ctx, cache->bases, cache->base_count * sizeof(ipu__pass_base));
    cache->bases = NULL;
}

/* Adds the input's next element, or ends. */
static ipu_status
read_on_locked(cache_dataset *cache)
{
    ipu__element element;
    ipu__store store = {0};
    ipu_ctx *ctx = &cache->ctx;
    IPU_TRY(ipu__iterator_next(ctx, cache->input, &element));
    if (element.end) {
        cache->ended = true;
        close_input_locked(cache);
        return IPU_OK;
    }
    ipu_status status = IPU_ARRAY_RESERVE(ctx, &cache->elements, 1);
    if (status == IPU_OK) {
        status = ipu__store_copy(ctx, &store, &element, cache->base.type_count);
    }
    if (status != IPU_OK) {
        ipu__store_free(ctx, &store);
        return status;
    }
    cache->elements.items[cache->elements.count++] = store;
    return IPU_OK;
}

static ipu_status
cache_next(ipu_ctx *ctx, ipu_iterator *iterator, ipu__element *out)
{
    cache_iterator *it = (cache_iterator *)iterator;
    cache_dataset *cache = (cache_dataset *)iterator->dataset;
    ipu_status status = IPU_OK;
    pthread_mutex_lock(&cache->lock);
    if (it->next == cache->elements.count && !cache->ended) {
        status = read_on_locked(cache);
    }
    if (status != IPU_OK) {
        (void)ipu__error_forward(ctx, &cache->ctx);
        ipu_ctx_clear(&cache->ctx);
    }
    out->end = it->next == cache->elements.count;
    if (!out->end) {
        const ipu__store *store = &cache->elements.items[it->next++];
        out->types = store->types;
        out->parts = (const void *const *)store->parts;
    }
    pthread_mutex_unlock(&cache->lock);
    return status;
}

static const ipu__iterator_ops cache_iterator_ops = {.bytes = sizeof(cache_iterator),
                                                     .next = cache_next};

static ipu_status
cache_open(ipu_ctx *ctx, ipu_dataset *dataset, const ipu__pass *pass,
           ipu_iterator **out)
{
    cache_dataset *cache = (cache_dataset *)dataset;
    pthread_mutex_lock(&cache->lock);
    ipu_status status = cache->ended ? IPU_OK : open_input_locked(cache, pass);
    if (status != IPU_OK) {
        (void)ipu__error_forward(ctx, &cache->ctx);
        ipu_ctx_clear(&cache->ctx);
    }
    pthread_mutex_unlock(&cache->lock);
    IPU_TRY(status);
    return ipu__iterator_new(ctx, &cache_iterator_ops, dataset, out);
}

static void
cache_destroy(ipu_ctx *ctx, ipu_dataset *dataset)
{
    cache_dataset *cache = (cache_dataset *)dataset;
    close_input_locked(cache); /* nobody else is left */
    for (size_t i = 0; i < cache->elements.count; i++) {
        ipu__store_free(ctx, &cache->elements.items[i]);
    }
    IPU_ARRAY_FREE(ctx, &cache->elements);
    if (cache->has_lock) {
        pthread_mutex_destroy(&cache->lock);
    }
}

static const ipu__dataset_ops cache_ops = {.name = "cache",
                                           .bytes = sizeof(cache_dataset),
                                           .open = cache_open,
                                           .destroy = cache_destroy};

ipu_status
ipu_dataset_cache(ipu_ctx *ctx, ipu_dataset *input, ipu_dataset **out)
{
    cache_dataset *cache;
    IPU_TRY(ipu__dataset_new(ctx, &cache_ops, &input, 1, input->types,
                             input->type_count, &cache));
    ipu_ctx_init(&cache->ctx, ctx->allocator);
    cache->has_lock = pthread_mutex_init(&cache->lock, NULL) == 0;
    if (!cache->has_lock) {
        ipu_dataset_unref(&cache->base);
        IPU_FAIL(ctx, RESOURCE_EXHAUSTED, "cache: no lock could be made");
    }
    cache->base.stable = cache->base.is_static;
    cache->base.cardinality = input->cardinality;
    *out = &cache->base;
    return IPU_OK;
}
