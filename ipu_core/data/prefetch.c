/* SPDX-License-Identifier: MIT
 *
 * Prefetch: a thread per iterator reads the input ahead into a ring.
 *
 * The ring has room for one element more than the depth: the consumer reads the oldest
 * in place until its next call. Slots hold copies, or pointers alone where the input is
 * stable; there are as many as there were elements at a time. The thread starts with
 * the first element asked for, and its errors arrive after the elements made before
 * them.
 *
 * The iterator owns the thread (base/service.h). Both work on a read_ahead, which holds
 * all that the thread needs: so the iterator can be freed anywhere, and the thread ends
 * when the element that it is making is done. */
#include "data/dataset_impl.h"

#include "base/event.h"
#include "base/service.h"

enum { CHOSEN_DEPTH = 4, FIRST_SLOTS = 8 };

typedef struct prefetch_dataset {
    ipu_dataset base;
    int64_t depth;
} prefetch_dataset;

typedef struct prefetch_slot {
    ipu__store store;
    const void **views;
} prefetch_slot;

typedef struct read_ahead {
    ipu_ctx ctx; /* the consumer's while `failed` or `ended`, else the thread's */
    ipu_dataset *dataset;
    ipu__passes *passes; /* that the input's iterators take their numbers from */
    ipu_iterator *input; /* the thread's, once it runs */
    size_t most_slots;

    ipu_lock lock; /* protects all below; a slot that is not in use is the thread's */
    pthread_cond_t changed;
    prefetch_slot *slots;
    size_t slot_count;
    size_t head;
    size_t count; /* slots in use, from head on */
    bool failed;  /* ctx holds the error of the element after these */
    bool ended;
} read_ahead;

typedef struct prefetch_iterator {
    ipu_iterator base;
    read_ahead *ahead;
    ipu_service *service; /* NULL: not started */
    bool holds_slot;      /* the consumer reads the slot at head */
} prefetch_iterator;

/* --- the thread ------------------------------------------------------------------ */

static ipu_status
read_into(read_ahead *ahead, prefetch_slot *slot, bool *end)
{
    uint32_t count = ahead->dataset->type_count;
    ipu__element element = {0};
    IPU_TRY(ipu__iterator_next(&ahead->ctx, ahead->input, &element));
    *end = element.end;
    if (element.end) {
        return IPU_OK;
    }
    if (!ahead->dataset->stable) {
        return ipu__store_copy(&ahead->ctx, &slot->store, &element, count);
    }
    if (slot->views == NULL) {
        IPU_TRY(ipu_alloc(&ahead->ctx, count * sizeof(void *), &slot->views));
    }
    for (uint32_t i = 0; i < count; i++) {
        slot->views[i] = element.parts[i];
    }
    return IPU_OK;
}

/* Twice as many slots, those in use first. */
static ipu_status
add_slots_locked(read_ahead *ahead)
{
    size_t grown = ahead->slot_count == 0 ? FIRST_SLOTS : 2 * ahead->slot_count;
    grown = grown < ahead->most_slots ? grown : ahead->most_slots;
    prefetch_slot *slots;
    IPU_TRY(ipu_alloc(&ahead->ctx, grown * sizeof(prefetch_slot), &slots));
    for (size_t i = 0; i < ahead->slot_count; i++) {
        slots[i] = ahead->slots[(ahead->head + i) % ahead->slot_count];
    }
    ipu_free(&ahead->ctx, ahead->slots, ahead->slot_count * sizeof(prefetch_slot));
    ahead->slots = slots;
    ahead->slot_count = grown;
    ahead->head = 0;
    return IPU_OK;
}

/* Waits for a free slot and takes the input's next element into it. False: the end. */
static bool
read_on_locked(read_ahead *ahead)
{
    while (ahead->count == ahead->most_slots && !ipu_ctx_is_cancelled(&ahead->ctx)) {
        ipu_lock_wait(&ahead->lock, &ahead->changed);
    }
    if (ipu_ctx_is_cancelled(&ahead->ctx) ||
        (ahead->count == ahead->slot_count && add_slots_locked(ahead) != IPU_OK)) {
        return false;
    }
    size_t free_slot = (ahead->head + ahead->count) % ahead->slot_count;
    prefetch_slot slot = ahead->slots[free_slot];
    bool end = false;
    ipu_lock_drop(&ahead->lock);
    uint64_t begin_ns = ipu_event_begin(IPU_EVENT_FILL);
    ipu_status status = read_into(ahead, &slot, &end);
    ipu_event_end(IPU_EVENT_FILL, 0, begin_ns, 0, 0);
    ipu_lock_take(&ahead->lock);
    ahead->slots[free_slot] = slot;
    ahead->count += status == IPU_OK && !end;
    return status == IPU_OK && !end;
}

/* Leaves an error to the consumer, and waits for it to go on after it. False: there is
 * none, or it never will. */
static bool
hand_over_error_locked(read_ahead *ahead)
{
    ahead->failed = ahead->ctx.status != IPU_OK && !ipu_ctx_is_cancelled(&ahead->ctx);
    bool is_error = ahead->failed;
    pthread_cond_broadcast(&ahead->changed);
    while (ahead->failed && !ipu_ctx_is_cancelled(&ahead->ctx)) {
        ipu_lock_wait(&ahead->lock, &ahead->changed);
    }
    return is_error && !ahead->failed;
}

static void
run_read_ahead(void *state)
{
    read_ahead *ahead = state;
    ipu_event_name_thread(IPU_ROLE_READER, 0);
    ahead->ctx.cancel = ipu_service_cancel();
    ipu_lock_take(&ahead->lock);
    while (read_on_locked(ahead) || hand_over_error_locked(ahead)) {
        pthread_cond_broadcast(&ahead->changed);
    }
    ahead->ended = true;
    pthread_cond_broadcast(&ahead->changed);
    ipu_lock_drop(&ahead->lock);
    ipu_iterator_free(ahead->input); /* here, where waiting for its threads is right */
    ahead->input = NULL;
}

static void
wake_read_ahead(void *state)
{
    read_ahead *ahead = state;
    ipu_lock_take(&ahead->lock);
    pthread_cond_broadcast(&ahead->changed);
    ipu_lock_drop(&ahead->lock);
}

static void
free_read_ahead(void *state)
{
    read_ahead *ahead = state;
    ipu_ctx ctx;
    ipu_ctx_init(&ctx, ahead->ctx.allocator);
    ipu_ctx_clear(&ahead->ctx);
    ipu_iterator_free(ahead->input);
    for (size_t i = 0; i < ahead->slot_count; i++) {
        ipu__store_free(&ctx, &ahead->slots[i].store);
        ipu_free(&ctx, ahead->slots[i].views,
                 ahead->dataset->type_count * sizeof(void *));
    }
    ipu_free(&ctx, ahead->slots, ahead->slot_count * sizeof(prefetch_slot));
    ipu_lock_destroy(&ahead->lock);
    pthread_cond_destroy(&ahead->changed);
    ipu__passes_unref(ahead->passes);
    ipu_dataset_unref(ahead->dataset);
    ipu_free(&ctx, ahead, sizeof(*ahead));
}

static const ipu_service_work read_ahead_work = {run_read_ahead, wake_read_ahead,
                                                 free_read_ahead};

/* In a forked child no thread waits for the ring. */
static void
forget_waiters(void *owner)
{
    ipu_cond_init(&((read_ahead *)owner)->changed);
}

/* --- the consumer ---------------------------------------------------------------- */

static ipu_status
prefetch_next(ipu_ctx *ctx, ipu_iterator *iterator, ipu__element *out)
{
    prefetch_iterator *it = (prefetch_iterator *)iterator;
    read_ahead *ahead = it->ahead;
    if (it->service == NULL) {
        IPU_TRY(ipu_service_start(ctx, &read_ahead_work, ahead, &it->service));
    }
    IPU_FAIL_IF(ctx, !ipu_service_is_here(it->service), FAILED_PRECONDITION,
                "prefetch: this iterator was started before fork(); make a new one");
    ipu_lock_take(&ahead->lock);
    if (it->holds_slot) {
        it->holds_slot = false;
        ahead->head = (ahead->head + 1) % ahead->slot_count;
        ahead->count--;
        pthread_cond_broadcast(&ahead->changed);
    }
    bool goes_on = true;
    while (ahead->count == 0 && !ahead->failed && !ahead->ended && goes_on) {
        goes_on = ipu_ctx_wait(ctx, &ahead->lock, &ahead->changed);
    }
    it->holds_slot = ahead->count > 0;
    out->end = !it->holds_slot && ahead->ended;
    if (it->holds_slot) {
        const prefetch_slot *slot = &ahead->slots[ahead->head];
        bool stable = iterator->dataset->stable;
        out->types = stable ? iterator->dataset->types : slot->store.types;
        out->parts = stable ? slot->views : (const void *const *)slot->store.parts;
    }
    ipu_status status = IPU_OK;
    bool is_consumers = ahead->failed || ahead->ended;
    if (!it->holds_slot && is_consumers && ahead->ctx.status != IPU_OK) {
        status = ipu_ctx_forward(ctx, &ahead->ctx);
        ipu_ctx_clear(&ahead->ctx);
        ahead->failed = false;
        pthread_cond_broadcast(&ahead->changed);
    }
    ipu_lock_drop(&ahead->lock);
    IPU_TRY(status);
    IPU_FAIL_IF(ctx, !it->holds_slot && !out->end, CANCELLED,
                "interrupted while waiting for the next element");
    return IPU_OK;
}

static void
prefetch_close(ipu_ctx *ctx, ipu_iterator *iterator)
{
    prefetch_iterator *it = (prefetch_iterator *)iterator;
    (void)ctx;
    if (it->service != NULL) {
        ipu_service_stop(it->service, NULL);
    } else if (it->ahead != NULL) {
        free_read_ahead(it->ahead);
    }
}

static ipu_status
prefetch_open(ipu_ctx *ctx, ipu_iterator *iterator, const ipu__pass *pass)
{
    ipu_dataset *dataset = iterator->dataset;
    read_ahead *ahead;
    IPU_TRY(ipu_alloc(ctx, sizeof(*ahead), &ahead));
    ((prefetch_iterator *)iterator)->ahead = ahead;
    ipu_ctx_init(&ahead->ctx, ctx->allocator);
    ahead->dataset = ipu_dataset_ref(dataset);
    ahead->passes = ipu__passes_ref(pass->taken);
    ahead->most_slots = (size_t)((const prefetch_dataset *)dataset)->depth + 1;
    ipu_lock_init(&ahead->lock, forget_waiters, ahead);
    ipu_cond_init(&ahead->changed);
    return ipu__iterator_open(ctx, dataset->inputs[0], pass, &ahead->input);
}

IPU__KIND(prefetch_kind, "prefetch", prefetch_dataset, prefetch_iterator,
          .open = prefetch_open, .next = prefetch_next, .close = prefetch_close);

ipu_dataset *
ipu__dataset_before_prefetch(ipu_dataset *dataset)
{
    while (dataset->kind == &prefetch_kind) {
        dataset = dataset->inputs[0];
    }
    return dataset;
}

ipu_status
ipu_dataset_prefetch(ipu_ctx *ctx, ipu_dataset *input, int64_t depth, ipu_dataset **out)
{
    prefetch_dataset *prefetch;
    if (depth == 0) {
        *out = ipu_dataset_ref(input);
        return IPU_OK;
    }
    IPU_TRY(ipu__dataset_over(ctx, &prefetch_kind, input, &prefetch));
    prefetch->depth = depth < 0 ? CHOSEN_DEPTH : depth;
    *out = &prefetch->base;
    return IPU_OK;
}
