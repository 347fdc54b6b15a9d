/* SPDX-License-Identifier: MIT
 *
 * The infeed: a ring of slots between one producer thread and a device.
 *
 * `published` counts the elements made, `taken` those the device has asked for. Each
 * replica uses the element that it took last; so there are ahead + replicas slots, and
 * while fewer than `ahead` elements are published and not taken, a slot is free. What
 * is read ahead is `depth` elements, never more but where a round has more.
 *
 * `order` is a ring of slot numbers. Element n lies in slot order[n]; the device
 * appends each slot that it gives back (`freed` counts them, and those that were free
 * at the beginning), so an element's slot is known before the element is made.
 *
 * Replica r takes the elements r, r + R, ..., its `next` says which follows; the
 * replicas need not be as far as each other. A round is the R elements of a turn. A
 * replica takes its element of a round when the whole round is there, so no replica
 * begins a round that the data do not fill. To that end at least R elements are read
 * ahead. Of what is published and not taken there are at most `ahead` elements, for one
 * replica at worst, so that the oldest one is less than R * ahead elements old; the
 * ring is as long as that and the free slots. Several replicas lock the device's side.
 * Where a run ends between two of them, `next` goes to the same turn for all, and the
 * elements in between are dropped.
 *
 * Counters only grow and each is written by one side, so the fast path takes no lock:
 * a side that finds what it needs goes on, else it spins for a moment and then sleeps
 * under the mutex. A sleeper says so in a flag before it looks a last time; the other
 * side looks at the flag after it has moved its counter, so one of them always sees the
 * other. A producer that slept on a full ring is woken when half of it is free: then it
 * fills several slots for one wake-up. A device that has other things to do than to
 * sleep is told by a listener instead.
 *
 * Lending. Who makes an element, the producer or the device, holds `is_taken` from then
 * until it publishes or ends; so they never do at the same time, and each sees what the
 * other has done. While a run is under way the producer of a queue that is lent sleeps.
 * It reads ahead again when the run is over.
 *
 * Memory comes from the allocator of the context that created the queue. */
#define _GNU_SOURCE
#include "run/queue.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <string.h>

#include "run/run_impl.h"

enum { MAX_DEPTH = 1 << 20 };

/* How far a replica is. */
typedef struct taker {
    uint64_t next; /* the number of its next element */
    uint32_t slot; /* of the element that it uses */
    bool has_slot;
} taker;

struct ipu_infeed {
    uint32_t type_count;
    uint32_t depth;
    ipu_arena arena; /* of the tables */
    ipu_type *types;
    size_t slot_bytes;
    uint32_t most_replicas;
    char *memory; /* of the first depth + 1 slots, in one piece */
    size_t memory_bytes;
    char **later; /* of each later slot */
    void **slots; /* [slot][type_count] */
    uint32_t *order;
    uint32_t slot_count; /* those that have memory */
    ipu_allocator allocator;

    /* the device's */
    ipu_lock device_lock; /* protects the following where there are several replicas */
    uint32_t replicas;    /* 0: of no run so far */
    taker *takers;        /* by replica */
    uint64_t freed;
    uint64_t before;        /* taken from queues that this one goes on with */
    _Atomic uint32_t ahead; /* elements that may be read ahead */

    _Alignas(64) _Atomic uint64_t published; /* the producer's */
    _Alignas(64) _Atomic uint64_t taken;     /* the device's */
    _Alignas(64) atomic_bool producer_sleeps;
    atomic_bool device_sleeps;
    atomic_bool is_closed;
    atomic_bool is_ended; /* `end` is set before */
    atomic_bool is_taken; /* the work of making an element */
    atomic_bool is_lent;  /* `maker` is set before */
    atomic_bool is_running;
    atomic_bool is_withdrawing;
    _Atomic uint64_t producer; /* by ipu_service_root */
    ipu_infeed_maker maker;
    ipu_ctx end; /* its error: what runs fail with; none: the end of the data */

    ipu_lock
        lock; /* protects: sleeping, waking, listener, end.cause once it is there */
    pthread_cond_t to_producer;
    pthread_cond_t to_device;
    ipu_listener listener;
};

static void
init_conds(ipu_infeed *queue)
{
    ipu_cond_init(&queue->to_producer);
    ipu_cond_init(&queue->to_device);
}

/* As if nothing had ever been made or taken. */
static void
empty(ipu_infeed *queue)
{
    atomic_store(&queue->published, 0);
    atomic_store(&queue->taken, 0);
    for (uint32_t i = 0; i < queue->slot_count; i++) {
        queue->order[i] = i;
    }
    queue->freed = queue->slot_count;
    queue->replicas = 0;
    queue->before = 0;
    atomic_store(&queue->ahead, queue->depth);
    atomic_store(&queue->is_taken, false);
    atomic_store(&queue->is_lent, false);
    atomic_store(&queue->is_running, false);
    atomic_store(&queue->is_withdrawing, false);
}

/* A forked child has no producer, and what a run of the parent was taking is torn. */
static void
forget_threads(void *owner)
{
    ipu_infeed *queue = owner;
    init_conds(queue);
    atomic_store(&queue->producer_sleeps, false);
    atomic_store(&queue->device_sleeps, false);
    queue->listener = (ipu_listener){0};
    empty(queue);
    ipu_ctx ctx;
    ipu_ctx_init(&ctx, queue->allocator);
    (void)ipu_ctx_fail(
        &ctx, IPU_STATUS_FAILED_PRECONDITION,
        "the thread that feeds this infeed is not in this process: it was forked. "
        "Initialize the infeed_queue again in the child");
    ipu_ctx_init(&queue->end, queue->allocator); /* a cause may need another thread */
    ipu_infeed_end(queue, &ctx);
}

static size_t
most_ahead(const ipu_infeed *queue)
{
    return queue->depth > queue->most_replicas ? queue->depth : queue->most_replicas;
}

static size_t
most_slots(const ipu_infeed *queue)
{
    return most_ahead(queue) + queue->most_replicas;
}

/* Slots that there can be, beside the first depth + 1. */
static size_t
later_slots(const ipu_infeed *queue)
{
    return most_slots(queue) - queue->depth - 1;
}

/* The length of the ring of slot numbers. */
static uint64_t
capacity_of(const ipu_infeed *queue)
{
    return (uint64_t)most_ahead(queue) * queue->most_replicas + most_slots(queue);
}

/* Lays out a slot; its number goes to the end of the ring. */
static void
add_slot(ipu_infeed *queue, char *at)
{
    uint32_t slot = queue->slot_count++;
    for (uint32_t i = 0; i < queue->type_count; i++) {
        queue->slots[(size_t)slot * queue->type_count + i] = at;
        at += ipu_buffer_round_up(ipu_type_bytes(&queue->types[i])) + IPU_SLACK_BYTES;
    }
    queue->order[queue->freed++ % capacity_of(queue)] = slot;
}

static ipu_status
allocate(ipu_ctx *ctx, ipu_infeed *queue, const ipu_type *types)
{
    size_t bytes;
    for (uint32_t i = 0; i < queue->type_count; i++) {
        IPU_TRY(ipu_type_check(ctx, &types[i]));
        bytes = ipu_buffer_round_up(ipu_type_bytes(&types[i])) + IPU_SLACK_BYTES;
        IPU_FAIL_IF(ctx, bytes > SIZE_MAX / 4 - queue->slot_bytes, OUT_OF_MEMORY,
                    "out of memory: an infeed's element");
        queue->slot_bytes += bytes;
    }
    ipu_arena *arena = &queue->arena;
    IPU_TRY(ipu_arena_copy(ctx, arena, types, queue->type_count * sizeof(ipu_type),
                           &queue->types));
    IPU_TRY(ipu_arena_array(ctx, arena, queue->most_replicas, sizeof(taker),
                            &queue->takers));
    IPU_TRY(
        ipu_arena_array(ctx, arena, later_slots(queue), sizeof(char *), &queue->later));
    IPU_TRY(ipu_arena_array(ctx, arena, (size_t)capacity_of(queue),
                            sizeof(*queue->order), &queue->order));
    IPU_TRY(ipu_arena_array(ctx, arena, most_slots(queue),
                            queue->type_count * sizeof(void *), &queue->slots));
    IPU_TRY(ipu_mul_size(ctx, queue->slot_bytes, (size_t)queue->depth + 1, &bytes));
    IPU_TRY(ipu_alloc(ctx, bytes, &queue->memory));
    queue->memory_bytes = bytes;
    ipu_pages_share(queue->memory, bytes);
    for (uint32_t i = 0; i <= queue->depth; i++) {
        add_slot(queue, queue->memory + i * queue->slot_bytes);
    }
    return IPU_OK;
}

ipu_status
ipu_infeed_create(ipu_ctx *ctx, const ipu_type *types, uint32_t type_count,
                  int32_t depth, int32_t replicas, ipu_infeed **out)
{
    *out = NULL;
    IPU_FAIL_IF(ctx, depth < 1 || depth > MAX_DEPTH, VALUE,
                "the depth of an infeed must be from 1 to %d, but got %" PRId32,
                (int)MAX_DEPTH, depth);
    IPU_FAIL_IF(ctx, type_count == 0, VALUE, "an infeed has at least one component");
    ipu_infeed *queue;
    IPU_TRY(ipu_alloc(ctx, sizeof(*queue), &queue));
    queue->type_count = type_count;
    queue->depth = (uint32_t)depth;
    atomic_store(&queue->ahead, queue->depth);
    queue->most_replicas = (uint32_t)replicas;
    queue->allocator = ctx->allocator;
    ipu_lock_init(&queue->lock, forget_threads, queue);
    ipu_lock_init(&queue->device_lock, NULL, NULL);
    init_conds(queue);
    ipu_status status = allocate(ctx, queue, types);
    if (status != IPU_OK) {
        ipu_infeed_free(ctx, queue);
        return status;
    }
    *out = queue;
    return IPU_OK;
}

void
ipu_infeed_free(ipu_ctx *ctx, ipu_infeed *queue)
{
    if (queue == NULL) {
        return;
    }
    (void)ctx;
    ipu_infeed_close(queue);
    ipu_lock_destroy(&queue->lock);
    ipu_lock_destroy(&queue->device_lock);
    pthread_cond_destroy(&queue->to_producer);
    pthread_cond_destroy(&queue->to_device);
    ipu_ctx_clear(&queue->end);
    ipu_ctx own;
    ipu_ctx_init(&own, queue->allocator);
    ipu_free(&own, queue->memory, queue->memory_bytes);
    for (size_t i = 0; queue->later != NULL && i < later_slots(queue); i++) {
        ipu_free(&own, queue->later[i], queue->slot_bytes);
    }
    ipu_arena_free(&own, &queue->arena);
    ipu_free(&own, queue, sizeof(*queue));
}

uint32_t
ipu_infeed_types(const ipu_infeed *queue, const ipu_type **out)
{
    *out = queue->types;
    return queue->type_count;
}

static void *const *
buffers_of(const ipu_infeed *queue, uint32_t slot)
{
    return &queue->slots[(size_t)slot * queue->type_count];
}

uint32_t
ipu_infeed_ahead(const ipu_infeed *queue)
{
    return atomic_load(&queue->ahead);
}

uint32_t
ipu_infeed_ready(const ipu_infeed *queue)
{
    uint64_t taken = atomic_load(&queue->taken); /* first: it never overtakes */
    return (uint32_t)(atomic_load(&queue->published) - taken);
}

bool
ipu_infeed_is_full(const ipu_infeed *queue)
{
    return ipu_infeed_ready(queue) >= atomic_load(&queue->ahead);
}

void
ipu_infeed_set_producer(ipu_infeed *queue, uint64_t root)
{
    atomic_store(&queue->producer, root);
}

bool
ipu_infeed_awaits(const ipu_infeed *queue, uint64_t root, uint64_t *made)
{
    *made = atomic_load(&queue->published);
    return atomic_load(&queue->producer) == root && atomic_load(&queue->device_sleeps);
}

/* --- producer -------------------------------------------------------------------- */

static bool
is_over(const ipu_infeed *queue)
{
    return atomic_load(&queue->is_closed) || atomic_load(&queue->is_ended);
}

/* The producer may go on: a slot is free and is its to fill, or there is no more use in
 * that. */
static bool
may_produce(const ipu_infeed *queue)
{
    bool has_room = !ipu_infeed_is_full(queue);
    bool is_others = atomic_load(&queue->is_taken) ||
                     (atomic_load(&queue->is_lent) && atomic_load(&queue->is_running));
    return (has_room && !is_others) || is_over(queue);
}

static bool
take_work(ipu_infeed *queue)
{
    bool is_taken = false;
    return atomic_compare_exchange_strong(&queue->is_taken, &is_taken, true);
}

static void
wake_all_producers(ipu_infeed *queue)
{
    ipu_lock_take(&queue->lock);
    pthread_cond_broadcast(&queue->to_producer);
    ipu_lock_drop(&queue->lock);
}

static void
wake_producer(ipu_infeed *queue)
{
    if (atomic_load(&queue->producer_sleeps)) {
        wake_all_producers(queue);
    }
}

static void
leave_work(ipu_infeed *queue)
{
    atomic_store(&queue->is_taken, false);
    if (atomic_load(&queue->is_withdrawing)) {
        wake_all_producers(queue); /* and who takes the queue's work away */
    }
}

static void *const *
next_slot(const ipu_infeed *queue)
{
    uint64_t published = atomic_load(&queue->published);
    return buffers_of(queue, queue->order[published % capacity_of(queue)]);
}

static void
sleep_until(ipu_infeed *queue, bool (*may_go_on)(const ipu_infeed *queue))
{
    ipu_lock_take(&queue->lock);
    atomic_store(&queue->producer_sleeps, true);
    while (!may_go_on(queue)) {
        ipu_lock_wait(&queue->lock, &queue->to_producer);
    }
    atomic_store(&queue->producer_sleeps, false);
    ipu_lock_drop(&queue->lock);
}

ipu_status
ipu_infeed_acquire(ipu_ctx *ctx, ipu_infeed *queue, void *const **slot)
{
    for (;;) {
        for (int turn = 0; turn < IPU__SPIN_TURNS && !may_produce(queue); turn++) {
            ipu_relax();
        }
        if (!may_produce(queue)) {
            sleep_until(queue, may_produce);
        }
        IPU_FAIL_IF(ctx, is_over(queue), CANCELLED, "the infeed is closed");
        if (take_work(queue)) {
            /* the device may have filled the last slot in between, or another queue have
             * taken over */
            if (!ipu_infeed_is_full(queue) && !is_over(queue)) {
                *slot = next_slot(queue);
                return IPU_OK;
            }
            leave_work(queue);
        }
    }
}

static void
wake_device_locked(ipu_infeed *queue)
{
    pthread_cond_broadcast(&queue->to_device);
    if (queue->listener.hear != NULL) {
        queue->listener.hear(queue->listener.state);
    }
}

static void
wake_device(ipu_infeed *queue)
{
    if (atomic_load(&queue->device_sleeps)) {
        ipu_lock_take(&queue->lock);
        atomic_store(&queue->device_sleeps, false); /* who still waits asks again */
        wake_device_locked(queue);
        ipu_lock_drop(&queue->lock);
    }
}

void
ipu_infeed_publish(ipu_infeed *queue)
{
    atomic_fetch_add(&queue->published, 1);
    leave_work(queue);
    wake_device(queue);
}

void
ipu_infeed_lend(ipu_infeed *queue, const ipu_infeed_maker *maker)
{
    if (queue->most_replicas == 1) {
        queue->maker = *maker;
        atomic_store(&queue->is_lent, true);
    }
}

static bool
is_free(const ipu_infeed *queue)
{
    return !atomic_load(&queue->is_taken);
}

void
ipu_infeed_withdraw(ipu_infeed *queue)
{
    atomic_store(&queue->is_withdrawing, true);
    while (!take_work(queue)) {
        sleep_until(queue, is_free);
    }
    atomic_store(&queue->is_lent, false);
    atomic_store(&queue->is_withdrawing, false);
    leave_work(queue);
}

void
ipu_infeed_end(ipu_infeed *queue, ipu_ctx *ctx)
{
    if (ctx != NULL && ctx->status != IPU_OK) {
        (void)ipu_ctx_forward(&queue->end, ctx);
        ipu_ctx_clear(ctx);
    }
    atomic_store(&queue->is_ended, true);
    leave_work(queue);
    wake_producer(queue);
    wake_device(queue);
}

void
ipu_infeed_visit_cause(ipu_infeed *queue, void (*visit)(void *state, ipu_cause *cause),
                       void *state)
{
    ipu_lock_take(&queue->lock);
    ipu_cause *cause = atomic_load(&queue->is_ended) ? queue->end.cause : NULL;
    if (cause != NULL && __atomic_load_n(&cause->holders, __ATOMIC_ACQUIRE) == 1) {
        visit(state, cause);
    }
    ipu_lock_drop(&queue->lock);
}

void
ipu_infeed_drop_cause(ipu_infeed *queue)
{
    ipu_cause *cause = NULL;
    ipu_lock_take(&queue->lock);
    if (atomic_load(&queue->is_ended)) {
        cause = queue->end.cause;
        queue->end.cause = NULL;
    }
    ipu_lock_drop(&queue->lock);
    ipu_cause_drop(cause); /* which may wait for Python's lock */
}

bool
ipu_infeed_has_ended(const ipu_infeed *queue)
{
    return atomic_load(&queue->is_ended);
}

void
ipu_infeed_close(ipu_infeed *queue)
{
    ipu_lock_take(&queue->lock);
    atomic_store(&queue->is_closed, true);
    pthread_cond_broadcast(&queue->to_producer);
    wake_device_locked(queue);
    ipu_lock_drop(&queue->lock);
}

void
ipu_infeed_reopen(ipu_infeed *queue)
{
    ipu_infeed_drop_cause(queue);
    ipu_ctx_clear(&queue->end);
    ipu_lock_take(&queue->lock);
    empty(queue);
    atomic_store(&queue->is_ended, false);
    atomic_store(&queue->is_closed, false);
    ipu_lock_drop(&queue->lock);
}

bool
ipu_infeed_is_open(const ipu_infeed *queue)
{
    return !atomic_load(&queue->is_closed);
}

/* --- device ---------------------------------------------------------------------- */

static void
lock_device(ipu_infeed *queue)
{
    if (queue->replicas > 1) {
        ipu_lock_take(&queue->device_lock);
    }
}

static void
unlock_device(ipu_infeed *queue)
{
    if (queue->replicas > 1) {
        ipu_lock_drop(&queue->device_lock);
    }
}

static uint32_t
slot_of(const ipu_infeed *queue, uint64_t number)
{
    return queue->order[number % capacity_of(queue)];
}

static void
give_back(ipu_infeed *queue, uint32_t slot)
{
    queue->order[queue->freed++ % capacity_of(queue)] = slot;
}

static void
give_back_last(ipu_infeed *queue, taker *replica)
{
    if (replica->has_slot) {
        give_back(queue, replica->slot);
        replica->has_slot = false;
    }
}

/* An element is the device's: how many are published and not taken changes. Of several
 * replicas all may wait for the rest of a round while much of the ring is full. */
static void
note_taken(ipu_infeed *queue, uint64_t published)
{
    uint64_t taken = atomic_fetch_add(&queue->taken, 1) + 1;
    bool is_time =
        queue->replicas > 1 || published - taken <= atomic_load(&queue->ahead) / 2;
    if (is_time && !atomic_load(&queue->is_lent)) {
        wake_producer(queue);
    }
}

/* The end of the round of the replica's next element. */
static uint64_t
round_end(const ipu_infeed *queue, uint32_t replica)
{
    return queue->takers[replica].next - replica + queue->replicas;
}

/* Whether the device may make an element. */
static bool
can_make(const ipu_infeed *queue)
{
    return atomic_load(&queue->is_lent) && !atomic_load(&queue->is_taken);
}

/* The replica may go on: its round is there, or will not come, or it can make it. */
static bool
has_element(ipu_infeed *queue, uint32_t replica)
{
    lock_device(queue);
    uint64_t end = round_end(queue, replica);
    unlock_device(queue);
    return is_over(queue) || atomic_load(&queue->published) >= end || can_make(queue);
}

bool
ipu_infeed_has_element(ipu_infeed *queue, uint32_t replica)
{
    if (has_element(queue, replica)) {
        return true;
    }
    atomic_store(&queue->device_sleeps, true); /* whoever publishes now will tell */
    return has_element(queue, replica);
}

bool
ipu_infeed_wait(ipu_infeed *queue, int64_t timeout_ns)
{
    for (int turn = 0; turn < IPU__SPIN_TURNS && !has_element(queue, 0); turn++) {
        ipu_relax();
    }
    if (has_element(queue, 0) || timeout_ns == 0) {
        return has_element(queue, 0);
    }
    ipu_lock_take(&queue->lock);
    bool in_time = true;
    atomic_store(&queue->device_sleeps, true);
    while (!has_element(queue, 0) && in_time) {
        in_time = ipu_lock_wait_for(&queue->lock, &queue->to_device, timeout_ns);
        atomic_store(&queue->device_sleeps, true);
    }
    atomic_store(&queue->device_sleeps, false);
    ipu_lock_drop(&queue->lock);
    return has_element(queue, 0);
}

void
ipu_infeed_listen(ipu_infeed *queue, ipu_listener listener)
{
    ipu_lock_take(&queue->lock);
    queue->listener = listener;
    ipu_lock_drop(&queue->lock);
}

/* No element was there, nor will be. */
static ipu_status
end_of_data(ipu_ctx *ctx, const ipu_infeed *queue, uint64_t published)
{
    if (queue->end.status != IPU_OK) {
        return ipu_ctx_forward(ctx, &queue->end);
    }
    uint64_t left = published % queue->replicas;
    IPU_FAIL_IF(ctx, left > 0, OUT_OF_RANGE,
                "Infeed dataset iterator out of range. Are you trying to dequeue more "
                "elements than are in the dataset? %" PRIu32
                " replicas take one each in a turn, so the last %" PRIu64
                " of its %" PRIu64
                " elements make no turn. Let their number be a multiple, or repeat() "
                "the data set",
                queue->replicas, left, published);
    IPU_FAIL(ctx, OUT_OF_RANGE,
             "Infeed dataset iterator out of range. Are you trying to dequeue more "
             "elements than are in the dataset? It had %" PRIu64
             " elements, and all have been taken; repeat() the data set, or delete the "
             "infeed and initialize it again for another pass",
             queue->before + published);
}

/* Memory for `ahead` elements that are read ahead and `used` others. */
static ipu_status
allow_slots(ipu_ctx *ctx, ipu_infeed *queue, uint32_t ahead, uint32_t used)
{
    ipu_ctx own;
    ipu_ctx_init(&own, queue->allocator);
    while (queue->slot_count < ahead + used) {
        char **memory = &queue->later[queue->slot_count - queue->depth - 1];
        IPU_FAIL_IF(ctx, ipu_alloc(&own, queue->slot_bytes, memory) != IPU_OK,
                    OUT_OF_MEMORY, "%s", own.message);
        ipu_pages_share(*memory, queue->slot_bytes);
        ipu_lock_take(&queue->lock); /* a fork() sees it whole */
        add_slot(queue, *memory);
        ipu_lock_drop(&queue->lock);
    }
    if (ahead > atomic_load(&queue->ahead)) {
        atomic_store(&queue->ahead, ahead);
        wake_producer(queue);
    }
    return IPU_OK;
}

ipu_status
ipu_infeed_begin(ipu_ctx *ctx, ipu_infeed *queue, uint32_t replicas)
{
    IPU_FAIL_IF(ctx, replicas > queue->most_replicas, INTERNAL,
                "a program of %" PRIu32 " replicas uses an infeed for %" PRIu32,
                replicas, queue->most_replicas);
    IPU_FAIL_IF(ctx, queue->replicas != 0 && queue->replicas != replicas,
                FAILED_PRECONDITION,
                "Infeeds can not be shared across graphs with different replication "
                "factors. Please create a new InfeedQueue. This one fed a program of "
                "%" PRIu32 " replicas, and now there are %" PRIu32,
                queue->replicas, replicas);
    if (queue->replicas == 0) {
        queue->replicas = replicas;
        for (uint32_t r = 0; r < replicas; r++) {
            queue->takers[r] = (taker){.next = r};
        }
    }
    uint32_t ahead = atomic_load(&queue->ahead);
    ahead = replicas > ahead ? replicas : ahead;
    IPU_TRY(allow_slots(ctx, queue, ahead, replicas));
    atomic_store(&queue->is_running, true);
    return IPU_OK;
}

void
ipu_infeed_finish(ipu_infeed *queue)
{
    uint64_t begin = 0; /* of the first round that no replica has begun */
    if (!atomic_load(&queue->is_running)) {
        return; /* another thread may reopen it */
    }
    for (uint32_t r = 0; r < queue->replicas; r++) {
        uint64_t own = queue->takers[r].next - r;
        begin = own > begin ? own : begin;
        give_back_last(queue, &queue->takers[r]);
    }
    uint64_t published = atomic_load(&queue->published);
    for (uint32_t r = 0; r < queue->replicas; r++) {
        for (uint64_t *next = &queue->takers[r].next; *next < begin;
             *next += queue->replicas) {
            give_back(queue, slot_of(queue, *next));
            note_taken(queue, published);
        }
    }
    atomic_store(&queue->is_running, false);
    if (atomic_load(&queue->is_lent)) {
        wake_producer(queue);
    }
}

ipu_status
ipu_infeed_take(ipu_ctx *ctx, ipu_infeed *queue, uint32_t replica,
                const void *const **out)
{
    taker *self = &queue->takers[replica];
    *out = NULL;
    IPU_FAIL_IF(ctx, atomic_load(&queue->is_closed), CANCELLED,
                "the infeed was closed while a program was reading it");
    lock_device(queue);
    /* The end is set after the last element is published: look at it first. */
    bool is_ended = atomic_load(&queue->is_ended);
    uint64_t published = atomic_load(&queue->published);
    give_back_last(queue, self);
    if (published >= round_end(queue, replica)) {
        *self = (taker){self->next + queue->replicas, slot_of(queue, self->next), true};
        *out = (const void *const *)buffers_of(queue, self->slot);
        note_taken(queue, published);
    }
    unlock_device(queue);
    return *out == NULL && is_ended ? end_of_data(ctx, queue, published) : IPU_OK;
}

bool
ipu_infeed_make(ipu_infeed *queue, ipu_pool *pool)
{
    if (!can_make(queue) || !take_work(queue)) {
        return false;
    }
    if (is_over(queue) || !atomic_load(&queue->is_lent) || ipu_infeed_is_full(queue)) {
        leave_work(queue);
    } else {
        queue->maker.make(queue->maker.state, pool, next_slot(queue));
    }
    return true;
}

/* --- a move to another device ---------------------------------------------------- */

/* Nobody makes elements from here on. */
static ipu_status
stop_making(ipu_ctx *ctx, ipu_infeed *queue)
{
    bool is_cancelled = false;
    atomic_store(&queue->is_withdrawing, true);
    while (!take_work(queue) && !is_cancelled) {
        ipu_lock_take(&queue->lock);
        if (!is_free(queue)) {
            ipu_lock_wait_for(&queue->lock, &queue->to_producer, IPU__CANCEL_POLL_NS);
        }
        ipu_lock_drop(&queue->lock);
        is_cancelled = ipu_ctx_is_cancelled(ctx);
    }
    atomic_store(&queue->is_withdrawing, false);
    IPU_FAIL_IF(ctx, is_cancelled, INTERRUPTED,
                "interrupted while an infeed moved to another device");
    return IPU_OK;
}

ipu_status
ipu_infeed_pass_on(ipu_ctx *ctx, ipu_infeed *queue, ipu_infeed *to)
{
    void *const *slot;
    IPU_TRY(stop_making(ctx, queue));
    uint64_t end = atomic_load(&queue->published);
    uint64_t begin = end - ipu_infeed_ready(queue);
    ipu_infeed_reopen(to);
    to->before = queue->before + begin;
    ipu_status status = allow_slots(ctx, to, (uint32_t)(end - begin), 0);
    for (uint64_t n = begin; status == IPU_OK && n < end; n++) {
        status = ipu_infeed_acquire(ctx, to, &slot); /* at once: there is room */
        if (status != IPU_OK) {
            break;
        }
        for (uint32_t i = 0; i < queue->type_count; i++) {
            memcpy(slot[i], buffers_of(queue, slot_of(queue, n))[i],
                   ipu_type_bytes(&queue->types[i]));
        }
        ipu_infeed_publish(to);
    }
    if (status == IPU_OK && atomic_load(&queue->is_ended)) {
        ipu_infeed_end(to, &queue->end);
    }
    ipu_infeed_close(status == IPU_OK ? queue : to);
    leave_work(queue);
    wake_producer(queue);
    return status;
}
