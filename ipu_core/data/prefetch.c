/* SPDX-License-Identifier: MIT
 *
 * Prefetch: a thread per iterator reads the input ahead into a bounded ring.
 *
 * The ring has one slot more than the depth: the consumer reads the oldest in place
 * until its next call. Slots hold copies, or pointers alone where the input is
 * stable. The thread starts with the first element asked for and is joined when the
 * iterator is freed; it then ends as soon as the element being made is done. Its
 * errors arrive after the elements made before them.
 *
 * `lock` protects head, count, closed and ended. A slot between head and head +
 * count belongs to the consumer, the others to the thread. */
#include "data/dataset_impl.h"

#include <pthread.h>
#include <unistd.h>

enum { CHOSEN_DEPTH = 4 };

typedef struct prefetch_dataset {
    ipu_dataset base;
    int64_t depth;
} prefetch_dataset;

typedef struct prefetch_slot {
    ipu__store store;
    const void **views;
} prefetch_slot;

typedef struct prefetch_iterator {
    ipu_iterator base;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool lock_made;
    bool started;
    pid_t pid; /* a thread does not survive fork() */
    pthread_t thread;
    ipu_ctx ctx; /* the thread's */
    prefetch_slot *slots;
    size_t slot_count;
    size_t head;
    size_t count;
    bool held; /* the slot at head is the one the consumer reads */
    bool closed;
    bool ended;
} prefetch_iterator;

static ipu_status
read_ahead(ipu_ctx *ctx, prefetch_iterator *it, prefetch_slot *slot, bool *end)
{
    uint32_t count = it->base.dataset->type_count;
    ipu__element element;
    IPU_TRY(ipu__iterator_next(ctx, it->base.input, &element));
    *end = element.end;
    if (element.end) {
        return IPU_OK;
    }
    if (!it->base.dataset->stable) {
        return ipu__store_copy(ctx, &slot->store, &element, count);
    }
    for (uint32_t i = 0; i < count; i++) {
        slot->views[i] = element.parts[i];
    }
    return IPU_OK;
}

static void *
prefetch_thread(void *argument)
{
    prefetch_iterator *it = argument;
    bool end = false;
    pthread_mutex_lock(&it->lock);
    while (!it->closed && !end) {
        if (it->count == it->slot_count) {
            pthread_cond_wait(&it->changed, &it->lock);
            continue;
        }
        prefetch_slot *slot = &it->slots[(it->head + it->count) % it->slot_count];
        pthread_mutex_unlock(&it->lock);
        end = read_ahead(&it->ctx, it, slot, &end) != IPU_OK || end;
        pthread_mutex_lock(&it->lock);
        it->count += !end;
        it->ended = end;
        pthread_cond_broadcast(&it->changed);
    }
    pthread_mutex_unlock(&it->lock);
    return NULL;
}

static ipu_status
prefetch_start(ipu_ctx *ctx, prefetch_iterator *it)
{
    uint32_t count = it->base.dataset->type_count;
    for (size_t i = 0; it->base.dataset->stable && i < it->slot_count; i++) {
        if (it->slots[i].views == NULL) {
            IPU_TRY(ipu_alloc(ctx, count * sizeof(void *), &it->slots[i].views));
        }
    }
    IPU_FAIL_IF(ctx, pthread_create(&it->thread, NULL, prefetch_thread, it) != 0,
                RESOURCE_EXHAUSTED, "prefetch: no thread could be started");
    it->pid = getpid();
    it->started = true;
    return IPU_OK;
}

static ipu_status
prefetch_next(ipu_ctx *ctx, ipu_iterator *iterator, ipu__element *out)
{
    prefetch_iterator *it = (prefetch_iterator *)iterator;
    if (!it->started) {
        IPU_TRY(prefetch_start(ctx, it));
    }
    IPU_FAIL_IF(ctx, it->pid != getpid(), FAILED_PRECONDITION,
                "prefetch: this iterator was started before fork(); make a new one");
    pthread_mutex_lock(&it->lock);
    if (it->held) {
        it->held = false;
        it->head = (it->head + 1) % it->slot_count;
        it->count--;
        pthread_cond_broadcast(&it->changed);
    }
    while (it->count == 0 && !it->ended) {
        pthread_cond_wait(&it->changed, &it->lock);
    }
    it->held = it->count > 0;
    const prefetch_slot *slot = &it->slots[it->head];
    pthread_mutex_unlock(&it->lock);
    if (!it->held) {
        /* the thread has ended and left its context alone */
        if (it->ctx.status != IPU_OK) {
            ipu_status status = ipu__error_forward(ctx, &it->ctx);
            ipu_ctx_clear(&it->ctx);
            return status;
        }
        out->end = true;
        return IPU_OK;
    }
    bool stable = iterator->dataset->stable;
    out->types = stable ? iterator->dataset->types : slot->store.types;
    out->parts = stable ? slot->views : (const void *const *)slot->store.parts;
    return IPU_OK;
}

static void
prefetch_close(ipu_ctx *ctx, ipu_iterator *iterator)
{
    prefetch_iterator *it = (prefetch_iterator *)iterator;
    size_t count = iterator->dataset->type_count;
    if (it->started && it->pid == getpid()) {
        pthread_mutex_lock(&it->lock);
        it->closed = true;
        pthread_cond_broadcast(&it->changed);
        pthread_mutex_unlock(&it->lock);
        pthread_join(it->thread, NULL);
    }
    if (it->lock_made && (!it->started || it->pid == getpid())) {
        pthread_mutex_destroy(&it->lock);
        pthread_cond_destroy(&it->changed);
    }
    for (size_t i = 0; it->slots != NULL && i < it->slot_count; i++) {
        ipu__store_free(ctx, &it->slots[i].store);
        ipu_free(ctx, it->slots[i].views, count * sizeof(void *));
    }
    ipu_free(ctx, it->slots, it->slot_count * sizeof(prefetch_slot));
}

static const ipu__iterator_ops prefetch_iterator_ops = {
    .bytes = sizeof(prefetch_iterator), .next = prefetch_next, .close = prefetch_close};

static ipu_status
prefetch_open(ipu_ctx *ctx, ipu_dataset *dataset, const ipu__pass *pass,
              ipu_iterator **out)
{
    prefetch_iterator *it;
    IPU_TRY(ipu__iterator_over(ctx, &prefetch_iterator_ops, dataset, pass, &it));
    ipu_ctx_init(&it->ctx, ctx->allocator);
    it->slot_count = (size_t)((const prefetch_dataset *)dataset)->depth + 1;
    ipu_status status =
        ipu_alloc(ctx, it->slot_count * sizeof(prefetch_slot), &it->slots);
    if (status == IPU_OK && pthread_mutex_init(&it->lock, NULL) == 0) {
        it->lock_made = pthread_cond_init(&it->changed, NULL) == 0;
        if (!it->lock_made) {
            pthread_mutex_destroy(&it->lock);
        }
    }
    if (status == IPU_OK && !it->lock_made) {
        status = ipu_ctx_fail(ctx, IPU_STATUS_RESOURCE_EXHAUSTED,
                              "prefetch: no lock could be made");
    }
    if (status != IPU_OK) {
        ipu_iterator_free(&it->base);
        return status;
    }
    *out = &it->base;
    return IPU_OK;
}

static const ipu__dataset_ops prefetch_ops = {
    .name = "prefetch", .bytes = sizeof(prefetch_dataset), .open = prefetch_open};

const ipu__dataset_ops *
ipu__prefetch_ops(void)
{
    return &prefetch_ops;
}

ipu_status
ipu_dataset_prefetch(ipu_ctx *ctx, ipu_dataset *input, int64_t depth, ipu_dataset **out)
{
    prefetch_dataset *prefetch;
    IPU_FAIL_IF(ctx, depth > 1 << 20, INVALID_ARGUMENT,
                "prefetch: buffer_size is %lld, more than the largest, %d",
                (long long)depth, 1 << 20);
    if (depth == 0) {
        *out = ipu_dataset_ref(input);
        return IPU_OK;
    }
    IPU_TRY(ipu__dataset_new(ctx, &prefetch_ops, &input, 1, input->types,
                             input->type_count, &prefetch));
    prefetch->depth = depth < 0 ? CHOSEN_DEPTH : depth;
    prefetch->base.stable = input->stable;
    prefetch->base.cardinality = input->cardinality;
    *out = &prefetch->base;
    return IPU_OK;
}
