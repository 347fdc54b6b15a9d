/* SPDX-License-Identifier: MIT
 *
 * Cache: the input is read once, and its elements are kept in memory as long as the
 * data set lives.
 *
 * All iterators share the elements and one iterator of the input. An iterator that has
 * given all elements that are kept reads the next one from the input and adds it;
 * others that need it wait meanwhile. So a pass that stops early loses nothing, two
 * passes at a time read nothing twice, and elements stay where they are: over them
 * shuffle and batch work with pointers.
 *
 * An element that fails is not kept: the pass that reads it gets the error and goes on
 * after it, later passes do without. The cache closes the input's iterator when its
 * reader is cancelled or has no memory for an element, and forgets it in a forked child
 * whose parent was reading. The next reader opens the input again for the same pass and
 * skips what has been read. */
#include "data/dataset_impl.h"

#include "base/service.h"

typedef struct cache_dataset {
    ipu_dataset base;
    ipu_lock lock; /* protects all below */
    pthread_cond_t changed;
    ipu__pass pass;  /* of the first iterator; `taken` is NULL before it is made */
    bool has_reader; /* ctx and input are the reader's meanwhile */
    pthread_t reader;
    ipu_ctx ctx;
    ipu_iterator *input;
    uint64_t read; /* elements of the input, with those that failed */
    bool ended;
    IPU_ARRAY(ipu__store) elements;
} cache_dataset;

typedef struct cache_iterator {
    ipu_iterator base;
    size_t next;
} cache_iterator;

/* In a forked child. */
static void
forget_reader(void *owner)
{
    cache_dataset *cache = owner;
    ipu_cond_init(&cache->changed);
    if (cache->has_reader && !pthread_equal(cache->reader, pthread_self())) {
        cache->has_reader = false;
        cache->input = NULL; /* half changed, and its memory with it */
        ipu_ctx_init(&cache->ctx, cache->ctx.allocator);
    }
}

/* --- the reader ------------------------------------------------------------------ */

/* Opens the input where that has not happened, after the elements that were read. */
static ipu_status
open_input(cache_dataset *cache)
{
    ipu__element element = {0};
    if (cache->input != NULL) {
        return IPU_OK;
    }
    IPU_TRY(ipu__iterator_open(&cache->ctx, cache->base.inputs[0], &cache->pass,
                               &cache->input));
    for (uint64_t i = 0; i < cache->read && !element.end; i++) {
        ipu_status status = ipu__iterator_next(&cache->ctx, cache->input, &element);
        if (status == IPU_STATUS_CANCELLED) {
            return status;
        }
        ipu_ctx_clear(&cache->ctx); /* its error was told when it was read first */
    }
    return IPU_OK;
}

/* Copies the input's next element, or finds its end. */
static ipu_status
read_input(cache_dataset *cache, ipu__store *store, bool *end)
{
    ipu__element element = {0};
    IPU_TRY(open_input(cache));
    ipu_status status = ipu__iterator_next(&cache->ctx, cache->input, &element);
    cache->read += status != IPU_OK && status != IPU_STATUS_CANCELLED;
    IPU_TRY(status);
    *end = element.end;
    return element.end
               ? IPU_OK
               : ipu__store_copy(&cache->ctx, store, &element, cache->base.type_count);
}

/* Adds the input's next element, or ends; the lock is not held meanwhile. */
static ipu_status
read_on_locked(ipu_ctx *ctx, cache_dataset *cache)
{
    ipu__store store = {0};
    bool end = false;
    uint64_t before = cache->read;
    cache->has_reader = true;
    cache->reader = pthread_self();
    cache->ctx.cancel = ctx->cancel;
    ipu_lock_drop(&cache->lock);
    ipu_status status = read_input(cache, &store, &end);
    if (status == IPU_OK && !end) {
        ipu_lock_take(&cache->lock);
        status = IPU_ARRAY_PUSH(&cache->ctx, &cache->elements, store);
        ipu_lock_drop(&cache->lock);
    }
    cache->read += status == IPU_OK;
    if (status != IPU_OK) {
        ipu__store_free(&cache->ctx, &store);
        (void)ipu_ctx_forward(ctx, &cache->ctx);
        ipu_ctx_clear(&cache->ctx);
    }
    if (end || cache->read == before) {
        ipu_iterator_free(cache->input);
        cache->input = NULL;
    }
    ipu_lock_take(&cache->lock);
    cache->ctx.cancel = NULL;
    cache->ended = end;
    cache->has_reader = false;
    pthread_cond_broadcast(&cache->changed);
    return status;
}

/* --- iterators ------------------------------------------------------------------- */

static ipu_status
cache_next(ipu_ctx *ctx, ipu_iterator *iterator, ipu__element *out)
{
    cache_iterator *it = (cache_iterator *)iterator;
    cache_dataset *cache = (cache_dataset *)iterator->dataset;
    ipu_status status = IPU_OK;
    ipu_lock_take(&cache->lock);
    while (it->next == cache->elements.count && !cache->ended && status == IPU_OK) {
        if (!cache->has_reader) {
            status = read_on_locked(ctx, cache);
        } else if (!ipu_ctx_wait(ctx, &cache->lock, &cache->changed)) {
            status = ipu_ctx_fail(ctx, IPU_STATUS_CANCELLED,
                                  "interrupted while waiting for the next element");
        }
    }
    out->end = it->next == cache->elements.count;
    if (!out->end) {
        const ipu__store *store = &cache->elements.items[it->next++];
        out->types = store->types;
        out->parts = (const void *const *)store->parts;
    }
    ipu_lock_drop(&cache->lock);
    return status;
}

static ipu_status
cache_open(ipu_ctx *ctx, ipu_iterator *iterator, const ipu__pass *pass)
{
    cache_dataset *cache = (cache_dataset *)iterator->dataset;
    (void)ctx;
    ipu_lock_take(&cache->lock);
    if (cache->pass.taken == NULL) {
        cache->pass = *pass;
        ipu__passes_ref(pass->taken);
    }
    ipu_lock_drop(&cache->lock);
    return IPU_OK;
}

static void
cache_destroy(ipu_ctx *ctx, ipu_dataset *dataset)
{
    cache_dataset *cache = (cache_dataset *)dataset;
    ipu_iterator_free(cache->input);
    ipu__passes_unref(cache->pass.taken);
    for (size_t i = 0; i < cache->elements.count; i++) {
        ipu__store_free(ctx, &cache->elements.items[i]);
    }
    IPU_ARRAY_FREE(ctx, &cache->elements);
    ipu_lock_destroy(&cache->lock);
    pthread_cond_destroy(&cache->changed);
}

IPU__KIND(cache_kind, "cache", cache_dataset, cache_iterator, .pace = IPU__PACE_STABLE,
          .open = cache_open, .next = cache_next, .destroy = cache_destroy);

ipu_status
ipu_dataset_cache(ipu_ctx *ctx, ipu_dataset *input, ipu_dataset **out)
{
    cache_dataset *cache;
    IPU_TRY(ipu__dataset_over(ctx, &cache_kind, input, &cache));
    ipu_ctx_init(&cache->ctx, ctx->allocator);
    ipu_lock_init(&cache->lock, forget_reader, cache);
    ipu_cond_init(&cache->changed);
    cache->base.stable = cache->base.is_static;
    *out = &cache->base;
    return IPU_OK;
}
