/* SPDX-License-Identifier: MIT
 *
 * The outfeed: a ring that the device fills, and growing storage on the host's side.
 *
 * An element is one packed block for each replica: its components one after the other,
 * each 64-byte aligned. The device copies it into the ring and goes on; it takes no
 * lock unless another thread sleeps. `counts` says how much each replica has enqueued,
 * and `arrived` how many have their part in a slot; the last of them publishes it.
 * Three threads may move elements from the ring to the storage, under the lock: a host
 * thread that waits or takes, the drainer, which wakes when the ring is half full, and
 * the device at the end of a run. So a waiting host thread sees a result as soon as it
 * is made, and the drainer does not take a core's time for each scalar.
 *
 * The storage is a list of chunks; the last one emptied is kept, so that a host which
 * keeps up allocates nothing. In LAST mode the storage is one element.
 *
 * Where the storage cannot grow, the elements stay in the ring: the device fails when
 * the ring is full, a host when it takes. Memory comes from the allocator of the
 * context that created the queue. A forked child starts a drainer of its own when it
 * needs one. */
#define _GNU_SOURCE
#include "run/queue.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <string.h>

#include "base/event.h"
#include "base/service.h"
#include "run/run_impl.h"

enum { MAX_DEPTH = 1 << 20, CHUNK_TARGET_BYTES = 64 * 1024 };

typedef struct chunk {
    struct chunk *next;
    uint32_t begin; /* first element not taken */
    uint32_t end;   /* after the last one stored */
    _Alignas(64) char data[];
} chunk;

struct ipu_outfeed {
    uint32_t type_count;
    uint32_t depth;
    ipu_outfeed_mode mode;
    ipu_arena arena; /* of the tables */
    ipu_type *types;
    size_t *offsets; /* of the components in a block */
    size_t block_bytes;
    uint32_t replicas;
    size_t element_bytes; /* the blocks of all replicas */
    char *ring;
    size_t ring_bytes;
    uint32_t chunk_elements;
    size_t chunk_bytes;
    _Atomic uint64_t *counts;  /* per replica; with one it is `enqueued` */
    _Atomic uint32_t *arrived; /* per slot */
    ipu_ctx own;               /* the storage's allocator and error; under the lock */

    _Alignas(64) _Atomic uint64_t enqueued; /* the device's */
    _Alignas(64) _Atomic uint64_t drained;  /* changes under the lock */
    _Alignas(64) atomic_bool device_sleeps;
    atomic_bool has_drainer;
    atomic_bool drainer_sleeps;
    atomic_int readers; /* hosts that wait */
    atomic_bool is_closed;
    atomic_bool has_failed; /* the storage could not grow */

    ipu_lock lock; /* protects: storage, drained, ends, sleeping, drainer */
    pthread_cond_t to_device;
    pthread_cond_t to_drainer;
    pthread_cond_t to_readers;
    chunk *first; /* oldest */
    chunk *last;
    chunk *spare;
    ipu_listener listener;
    int64_t stored;
    uint64_t ends;        /* of runs, and resets */
    ipu_service *drainer; /* NULL: not started */
};

static void
init_conds(ipu_outfeed *queue)
{
    ipu_cond_init(&queue->to_device);
    ipu_cond_init(&queue->to_drainer);
    ipu_cond_init(&queue->to_readers);
}

/* In a forked child there is no drainer, and no thread waits. */
static void
forget_threads(void *owner)
{
    ipu_outfeed *queue = owner;
    init_conds(queue);
    atomic_store(&queue->device_sleeps, false);
    atomic_store(&queue->drainer_sleeps, false);
    atomic_store(&queue->readers, 0);
    queue->listener = (ipu_listener){0};
    queue->drainer = NULL; /* not to be had any more */
    atomic_store(&queue->has_drainer, false);
}

static void
free_ring(ipu_ctx *ctx, ipu_outfeed *queue)
{
    ipu_free(ctx, queue->ring, queue->ring_bytes);
    ipu_free(ctx, queue->counts, queue->replicas * sizeof(*queue->counts));
    queue->ring = NULL;
    queue->ring_bytes = 0;
    queue->counts = NULL;
    queue->replicas = 0;
}

/* Everything whose size depends on the number of replicas; where that fails, the queue
 * keeps what it has. */
static ipu_status
make_ring(ipu_ctx *ctx, ipu_outfeed *queue, uint32_t replicas)
{
    size_t element_bytes;
    size_t bytes;
    _Atomic uint64_t *counts;
    char *ring;
    IPU_TRY(ipu_mul_size(ctx, queue->block_bytes, replicas, &element_bytes));
    IPU_TRY(ipu_mul_size(ctx, element_bytes, queue->depth, &bytes));
    IPU_TRY(ipu_alloc(ctx, replicas * sizeof(*counts), &counts));
    ipu_status status = ipu_alloc(ctx, bytes, &ring);
    if (status != IPU_OK) {
        ipu_free(ctx, counts, replicas * sizeof(*counts));
        return status;
    }
    free_ring(ctx, queue);
    queue->replicas = replicas;
    queue->counts = counts;
    queue->element_bytes = element_bytes;
    queue->ring = ring;
    queue->ring_bytes = bytes;
    size_t per_chunk =
        queue->element_bytes == 0 ? 1024 : CHUNK_TARGET_BYTES / queue->element_bytes;
    per_chunk = per_chunk == 0 || queue->mode == IPU_OUTFEED_LAST ? 1 : per_chunk;
    queue->chunk_elements = (uint32_t)per_chunk;
    queue->chunk_bytes = sizeof(chunk) + per_chunk * queue->element_bytes;
    return IPU_OK;
}

static ipu_status
allocate(ipu_ctx *ctx, ipu_outfeed *queue, const ipu_type *types)
{
    ipu_arena *arena = &queue->arena;
    uint32_t count = queue->type_count;
    IPU_TRY(ipu_arena_copy(ctx, arena, types, count * sizeof(ipu_type), &queue->types));
    IPU_TRY(ipu_arena_array(ctx, arena, count, sizeof(size_t), &queue->offsets));
    IPU_TRY(ipu_arena_array(ctx, arena, queue->depth, sizeof(*queue->arrived),
                            &queue->arrived));
    for (uint32_t i = 0; i < queue->type_count; i++) {
        IPU_TRY(ipu_type_check(ctx, &types[i]));
        size_t component = ipu_buffer_round_up(ipu_type_bytes(&types[i]));
        IPU_FAIL_IF(ctx, component > SIZE_MAX / 4 - queue->block_bytes, OUT_OF_MEMORY,
                    "out of memory: an outfeed's element");
        queue->offsets[i] = queue->block_bytes;
        queue->block_bytes += component;
    }
    return make_ring(ctx, queue, 1);
}

ipu_status
ipu_outfeed_create(ipu_ctx *ctx, const ipu_type *types, uint32_t type_count,
                   ipu_outfeed_mode mode, int32_t depth, ipu_outfeed **out)
{
    *out = NULL;
    IPU_FAIL_IF(ctx, depth < 1 || depth > MAX_DEPTH, VALUE,
                "the depth of an outfeed must be from 1 to %d, but got %" PRId32,
                (int)MAX_DEPTH, depth);
    IPU_FAIL_IF(ctx, type_count == 0, VALUE, "an outfeed has at least one component");
    ipu_outfeed *queue;
    IPU_TRY(ipu_alloc(ctx, sizeof(*queue), &queue));
    queue->type_count = type_count;
    queue->depth = (uint32_t)depth;
    queue->mode = mode;
    ipu_ctx_init(&queue->own, ctx->allocator);
    ipu_lock_init(&queue->lock, forget_threads, queue);
    init_conds(queue);
    ipu_status status = allocate(ctx, queue, types);
    if (status != IPU_OK) {
        ipu_outfeed_free(ctx, queue);
        return status;
    }
    *out = queue;
    return IPU_OK;
}

void
ipu_outfeed_free(ipu_ctx *ctx, ipu_outfeed *queue)
{
    if (queue == NULL) {
        return;
    }
    (void)ctx;
    ipu_service_stop(queue->drainer, NULL);
    ipu_lock_destroy(&queue->lock);
    pthread_cond_destroy(&queue->to_device);
    pthread_cond_destroy(&queue->to_drainer);
    pthread_cond_destroy(&queue->to_readers);
    ipu_ctx own;
    ipu_ctx_init(&own, queue->own.allocator);
    while (queue->first != NULL) {
        chunk *next = queue->first->next;
        ipu_free(&own, queue->first, queue->chunk_bytes);
        queue->first = next;
    }
    ipu_free(&own, queue->spare, queue->chunk_bytes);
    ipu_arena_free(&own, &queue->arena);
    free_ring(&own, queue);
    ipu_free(&own, queue, sizeof(*queue));
}

uint32_t
ipu_outfeed_types(const ipu_outfeed *queue, const ipu_type **out)
{
    *out = queue->types;
    return queue->type_count;
}

/* --- from the ring to the storage ------------------------------------------------ */

/* Makes sure that the last chunk has room for one element. */
static ipu_status
make_room_locked(ipu_outfeed *queue)
{
    chunk *last = queue->last;
    if (last != NULL && queue->mode == IPU_OUTFEED_LAST) {
        last->begin = 0;
        last->end = 0;
        queue->stored = 0;
        return IPU_OK;
    }
    if (last != NULL && last->end < queue->chunk_elements) {
        return IPU_OK;
    }
    chunk *fresh = queue->spare;
    queue->spare = NULL;
    if (fresh == NULL) {
        ipu_ctx_clear(&queue->own);
        IPU_TRY(ipu_alloc(&queue->own, queue->chunk_bytes, &fresh));
    }
    fresh->next = NULL;
    fresh->begin = 0;
    fresh->end = 0;
    if (last == NULL) {
        queue->first = fresh;
    } else {
        last->next = fresh;
    }
    queue->last = fresh;
    return IPU_OK;
}

static ipu_status
drain_locked(ipu_outfeed *queue)
{
    uint64_t enqueued = atomic_load(&queue->enqueued);
    uint64_t drained = atomic_load_explicit(&queue->drained, memory_order_relaxed);
    if (queue->mode == IPU_OUTFEED_LAST && enqueued - drained > 1) {
        drained = enqueued - 1;
        atomic_store(&queue->drained, drained);
    }
    ipu_status status = IPU_OK;
    while (drained != enqueued && (status = make_room_locked(queue)) == IPU_OK) {
        chunk *last = queue->last;
        ipu_copy_bytes(last->data + (size_t)last->end * queue->element_bytes,
                       queue->ring +
                           (size_t)(drained % queue->depth) * queue->element_bytes,
                       queue->element_bytes);
        last->end++;
        queue->stored++;
        atomic_store(&queue->drained, ++drained);
    }
    atomic_store(&queue->has_failed, status != IPU_OK);
    if (atomic_load(&queue->device_sleeps)) {
        pthread_cond_broadcast(&queue->to_device);
        if (queue->listener.hear != NULL) {
            queue->listener.hear(queue->listener.state);
        }
    }
    return status;
}

/* After drain_locked has failed. */
static ipu_status
no_room_locked(ipu_ctx *ctx, const ipu_outfeed *queue)
{
    IPU_FAIL(ctx, OUT_OF_MEMORY,
             "%s: the host's side of an outfeed could not grow; dequeue more often",
             queue->own.message);
}

static bool
is_half_full(const ipu_outfeed *queue)
{
    uint64_t waiting = atomic_load(&queue->enqueued) - atomic_load(&queue->drained);
    return 2 * waiting >= queue->depth;
}

bool
ipu_outfeed_is_drained(const ipu_outfeed *queue)
{
    return atomic_load(&queue->enqueued) == atomic_load(&queue->drained);
}

/* A replica that is far ahead of the others can have filled a ring in which little is
 * complete. */
static bool
is_due(const ipu_outfeed *queue)
{
    return is_half_full(queue) ||
           (atomic_load(&queue->device_sleeps) && !ipu_outfeed_is_drained(queue));
}

static void
run_drainer(void *state)
{
    ipu_outfeed *queue = state;
    ipu_event_name_thread(IPU_ROLE_DRAINER, 0);
    ipu_lock_take(&queue->lock);
    while (!ipu_cancel_is_set(ipu_service_cancel())) {
        atomic_store(&queue->drainer_sleeps, true);
        if (!is_due(queue) || atomic_load(&queue->has_failed)) {
            ipu_lock_wait(&queue->lock, &queue->to_drainer);
        }
        atomic_store(&queue->drainer_sleeps, false);
        if (is_due(queue)) {
            uint64_t begin_ns = ipu_event_begin(IPU_EVENT_DRAIN);
            uint64_t drained = atomic_load(&queue->drained);
            (void)drain_locked(queue); /* a failure stays in has_failed */
            drained = atomic_load(&queue->drained) - drained;
            if (begin_ns != 0) { /* the recorder has a lock of its own */
                ipu_lock_drop(&queue->lock);
                ipu_event_note(IPU_EVENT_DRAIN, 0, begin_ns, ipu_now_ns(),
                               (uint32_t)drained, 0);
                ipu_lock_take(&queue->lock);
            }
        }
    }
    ipu_lock_drop(&queue->lock);
}

static void
wake_drainer(void *state)
{
    ipu_outfeed *queue = state;
    ipu_lock_take(&queue->lock);
    pthread_cond_broadcast(&queue->to_drainer);
    ipu_lock_drop(&queue->lock);
}

/* The queue waits for the thread before it goes, so there is nothing to free. */
static const ipu_service_work drainer_work = {run_drainer, wake_drainer, NULL};

/* --- device ---------------------------------------------------------------------- */

/* How many elements the replica has enqueued. */
static uint64_t
count_of(const ipu_outfeed *queue, uint32_t replica)
{
    return queue->replicas == 1 ? atomic_load(&queue->enqueued)
                                : atomic_load(&queue->counts[replica]);
}

static bool
has_room(const ipu_outfeed *queue, uint32_t replica)
{
    return count_of(queue, replica) - atomic_load(&queue->drained) < queue->depth;
}

/* Has the drainer make room. Where there is no such thread, or its storage could not
 * grow, the caller tries itself. */
static ipu_status
ask_for_room_locked(ipu_outfeed *queue)
{
    atomic_store(&queue->device_sleeps, true);
    if (queue->drainer == NULL || atomic_load(&queue->has_failed)) {
        return drain_locked(queue);
    }
    pthread_cond_signal(&queue->to_drainer);
    return IPU_OK;
}

ipu_status
ipu_outfeed_wait_for_room(ipu_ctx *ctx, ipu_outfeed *queue)
{
    for (int turn = 0; turn < IPU__SPIN_TURNS && !has_room(queue, 0); turn++) {
        ipu_relax();
    }
    if (has_room(queue, 0)) {
        return IPU_OK;
    }
    ipu_status status = IPU_OK;
    ipu_lock_take(&queue->lock);
    while (!has_room(queue, 0) && status == IPU_OK) {
        status = ask_for_room_locked(queue);
        if (status == IPU_OK && !has_room(queue, 0)) {
            ipu_lock_wait(&queue->lock, &queue->to_device);
        }
    }
    atomic_store(&queue->device_sleeps, false);
    status = has_room(queue, 0) ? IPU_OK : no_room_locked(ctx, queue);
    ipu_lock_drop(&queue->lock);
    return status;
}

ipu_status
ipu_outfeed_has_room(ipu_ctx *ctx, ipu_outfeed *queue, uint32_t replica, bool *out)
{
    *out = has_room(queue, replica);
    if (*out) {
        return IPU_OK;
    }
    ipu_lock_take(&queue->lock);
    ipu_status status = ask_for_room_locked(queue);
    *out = has_room(queue, replica);
    if (*out) {
        status = IPU_OK;
    } else if (status != IPU_OK) {
        (void)no_room_locked(ctx, queue);
    }
    ipu_lock_drop(&queue->lock);
    return status;
}

void
ipu_outfeed_listen(ipu_outfeed *queue, ipu_listener listener)
{
    ipu_lock_take(&queue->lock);
    queue->listener = listener;
    atomic_store(&queue->device_sleeps, false);
    ipu_lock_drop(&queue->lock);
}

/* Where there is none, a thread that asks for room drains. */
static void
start_drainer(ipu_outfeed *queue)
{
    ipu_ctx own;
    ipu_ctx_init(&own, queue->own.allocator);
    ipu_lock_take(&queue->lock);
    if (queue->drainer == NULL) {
        (void)ipu_service_start(&own, &drainer_work, queue, &queue->drainer);
    }
    atomic_store(&queue->has_drainer, queue->drainer != NULL);
    ipu_lock_drop(&queue->lock);
}

/* Wakes the drainer where the ring is half full, and readers. */
static void
tell(ipu_outfeed *queue)
{
    bool is_full_enough = is_half_full(queue);
    if (is_full_enough && !atomic_load(&queue->has_drainer)) {
        start_drainer(queue);
    }
    is_full_enough = is_full_enough && atomic_load(&queue->drainer_sleeps);
    if (is_full_enough || atomic_load(&queue->readers) > 0) {
        ipu_lock_take(&queue->lock);
        if (is_full_enough) {
            pthread_cond_signal(&queue->to_drainer);
        }
        pthread_cond_broadcast(&queue->to_readers);
        ipu_lock_drop(&queue->lock);
    }
}

ipu_status
ipu_outfeed_enqueue(ipu_ctx *ctx, ipu_outfeed *queue, uint32_t replica,
                    const void *const *tensors, bool *done)
{
    IPU_TRY(ipu_outfeed_has_room(ctx, queue, replica, done));
    if (!*done) {
        return IPU_OK;
    }
    uint64_t count = count_of(queue, replica);
    size_t at = (size_t)(count % queue->depth);
    char *slot = queue->ring + at * queue->element_bytes + replica * queue->block_bytes;
    for (uint32_t i = 0; i < queue->type_count; i++) {
        ipu_copy_bytes(slot + queue->offsets[i], tensors[i],
                       ipu_type_bytes(&queue->types[i]));
    }
    atomic_store(&queue->counts[replica], count + 1);
    if (queue->replicas > 1) {
        if (atomic_fetch_add(&queue->arrived[at], 1) + 1 < queue->replicas) {
            return IPU_OK;
        }
        atomic_store(&queue->arrived[at], 0);
    }
    atomic_store(&queue->enqueued, count + 1); /* earlier ones are complete, too */
    tell(queue);
    return IPU_OK;
}

static void
drop_first_locked(ipu_outfeed *queue)
{
    chunk *empty = queue->first;
    queue->first = empty->next;
    if (queue->first == NULL) {
        queue->last = NULL;
    }
    if (queue->spare == NULL) {
        queue->spare = empty;
    } else {
        ipu_free(&queue->own, empty, queue->chunk_bytes);
    }
}

/* Elements of an earlier run that not all replicas have enqueued are not elements. */
static void
drop_incomplete_locked(ipu_outfeed *queue)
{
    for (uint32_t r = 0; r < queue->replicas; r++) {
        atomic_store(&queue->counts[r], atomic_load(&queue->enqueued));
    }
    for (uint32_t i = 0; i < queue->depth; i++) {
        atomic_store(&queue->arrived[i], 0);
    }
}

static ipu_status
change_replicas_locked(ipu_ctx *ctx, ipu_outfeed *queue, uint32_t replicas)
{
    if (drain_locked(queue) != IPU_OK) {
        return ipu_ctx_forward(ctx, &queue->own);
    }
    IPU_FAIL_IF(ctx, queue->stored > 0, FAILED_PRECONDITION,
                "The outfeed holds results of a program of %" PRIu32
                " replicas, and now there are %" PRIu32
                ". Dequeue them before this run, or use an outfeed for each program",
                queue->replicas, replicas);
    while (queue->first != NULL) {
        drop_first_locked(queue);
    }
    ipu_free(&queue->own, queue->spare, queue->chunk_bytes);
    queue->spare = NULL;
    ipu_ctx_clear(&queue->own);
    return make_ring(&queue->own, queue, replicas) == IPU_OK
               ? IPU_OK
               : ipu_ctx_forward(ctx, &queue->own);
}

ipu_status
ipu_outfeed_begin(ipu_ctx *ctx, ipu_outfeed *queue, uint32_t replicas)
{
    ipu_status status = IPU_OK;
    ipu_lock_take(&queue->lock);
    if (replicas != queue->replicas) {
        status = change_replicas_locked(ctx, queue, replicas);
    }
    drop_incomplete_locked(queue);
    ipu_lock_drop(&queue->lock);
    return status;
}

uint32_t
ipu_outfeed_replicas(ipu_outfeed *queue)
{
    ipu_lock_take(&queue->lock);
    uint32_t replicas = queue->replicas;
    ipu_lock_drop(&queue->lock);
    return replicas;
}

void
ipu_outfeed_flush(ipu_outfeed *queue)
{
    ipu_lock_take(&queue->lock);
    (void)drain_locked(queue); /* ipu_outfeed_take reports a failure */
    queue->ends++;
    pthread_cond_broadcast(&queue->to_readers);
    ipu_lock_drop(&queue->lock);
}

/* --- host ------------------------------------------------------------------------ */

uint64_t
ipu_outfeed_ends(ipu_outfeed *queue)
{
    ipu_lock_take(&queue->lock);
    uint64_t ends = queue->ends;
    ipu_lock_drop(&queue->lock);
    return ends;
}

int64_t
ipu_outfeed_wait(ipu_outfeed *queue, int64_t at_least, uint64_t ends,
                 int64_t timeout_ns)
{
    uint64_t deadline = ipu_now_ns() + (timeout_ns > 0 ? (uint64_t)timeout_ns : 0);
    ipu_lock_take(&queue->lock);
    atomic_fetch_add(&queue->readers, 1);
    (void)drain_locked(queue);
    while (queue->stored < at_least && !atomic_load(&queue->is_closed) &&
           (ends == UINT64_MAX || queue->ends == ends) && timeout_ns != 0) {
        if (timeout_ns < 0) {
            ipu_lock_wait(&queue->lock, &queue->to_readers);
        } else {
            uint64_t now = ipu_now_ns();
            if (now >= deadline) {
                break;
            }
            ipu_lock_wait_for(&queue->lock, &queue->to_readers,
                              (int64_t)(deadline - now));
        }
        (void)drain_locked(queue);
    }
    atomic_fetch_sub(&queue->readers, 1);
    int64_t stored = queue->stored;
    ipu_lock_drop(&queue->lock);
    return stored;
}

static void
copy_out(const ipu_outfeed *queue, const chunk *from, int64_t position,
         void *const *out)
{
    const char *element = from->data + (size_t)from->begin * queue->element_bytes;
    for (uint32_t i = 0; i < queue->type_count; i++) {
        size_t bytes = ipu_type_bytes(&queue->types[i]);
        char *to = (char *)out[i] + (size_t)position * queue->replicas * bytes;
        for (uint32_t r = 0; r < queue->replicas; r++) {
            ipu_copy_bytes(to + r * bytes,
                           element + r * queue->block_bytes + queue->offsets[i], bytes);
        }
    }
}

ipu_status
ipu_outfeed_take(ipu_ctx *ctx, ipu_outfeed *queue, int64_t count, uint32_t replicas,
                 void *const *out, int64_t *taken)
{
    *taken = 0;
    ipu_lock_take(&queue->lock);
    ipu_status status = drain_locked(queue);
    while (*taken < count && queue->stored > 0 && queue->replicas == replicas) {
        chunk *first = queue->first;
        copy_out(queue, first, *taken, out);
        first->begin++;
        queue->stored--;
        (*taken)++;
        if (first->begin == first->end) {
            drop_first_locked(queue);
        }
    }
    /* A host gets the stored elements first, and the error when it asks again. */
    status = status != IPU_OK && *taken == 0 && count > 0 ? no_room_locked(ctx, queue)
                                                          : IPU_OK;
    ipu_lock_drop(&queue->lock);
    return status;
}

void
ipu_outfeed_reset(ipu_outfeed *queue)
{
    ipu_lock_take(&queue->lock);
    atomic_store(&queue->drained, atomic_load(&queue->enqueued));
    atomic_store(&queue->has_failed, false);
    while (queue->first != NULL) {
        drop_first_locked(queue);
    }
    queue->stored = 0;
    queue->ends++;
    pthread_cond_broadcast(&queue->to_readers);
    ipu_lock_drop(&queue->lock);
}

void
ipu_outfeed_close(ipu_outfeed *queue)
{
    ipu_lock_take(&queue->lock);
    atomic_store(&queue->is_closed, true);
    pthread_cond_broadcast(&queue->to_readers);
    ipu_lock_drop(&queue->lock);
}
