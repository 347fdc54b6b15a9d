/* SPDX-License-Identifier: MIT
 *
 * The feeder: a thread that reads a data set and fills an infeed's slots in place.
 *
 * Where it would take a core from the program's threads, it makes elements between runs
 * only, and the first one, which may have to compile functions and to fill a window. It
 * lends the work to the device meanwhile: then the threads of the step gather a batch
 * together. That is for data sets that are quick: their elements are made of memory at
 * hand, without foreign code and without waiting. The order of elements is the data
 * set's, whoever makes them.
 *
 * It ends with the data set (a run that asks for more fails with OUT_OF_RANGE), with
 * an error (the run that needs the element fails with its text), or when the queue
 * is closed. Nothing is shared with the thread but the queue, which does its own
 * locking. A thread that was left behind in a generator (base/service.h) uses the queue
 * no more, which may be fed by another one or gone: every iterator fails with CANCELLED
 * before it would write. */
#include "data/dataset_impl.h"

#include <inttypes.h>
#include <sched.h>
#include <stdatomic.h>

#include "base/event.h"
#include "base/service.h"
#include "run/queue.h"

struct ipu_feeder {
    ipu_ctx ctx; /* the thread's */
    ipu_iterator *iterator;
    ipu_infeed *_Atomic queue;
    ipu_infeed *_Atomic used; /* the thread's; NULL: it uses none any more */
    ipu_service *service; /* the owner's */
    bool lends;
};

/* Fills the slot, and publishes or ends. */
static void
make(void *state, ipu_pool *pool, void *const *slot)
{
    ipu_feeder *feeder = state;
    ipu_infeed *queue = atomic_load(&feeder->used);
    const ipu_type *types;
    bool end = false;
    ipu_infeed_types(queue, &types);
    uint64_t begin_ns = ipu_event_begin(IPU_EVENT_FILL);
    feeder->ctx.pool = pool;
    ipu_status status =
        ipu__iterator_fill(&feeder->ctx, feeder->iterator, types, slot, &end);
    feeder->ctx.pool = NULL;
    ipu_event_end(IPU_EVENT_FILL, 0, begin_ns, 0, 0);
    if (ipu_service_is_left_behind()) {
        return;
    }
    if (status == IPU_OK && !end) {
        ipu_infeed_publish(queue);
    } else {
        ipu_infeed_end(queue, &feeder->ctx);
    }
}

/* Until the queue has ended or is closed. */
static void
feed(ipu_feeder *feeder, ipu_infeed *queue)
{
    const ipu_infeed_maker maker = {make, feeder};
    void *const *slot;
    ipu_ctx own; /* the feeder's is in use while the device makes an element */
    ipu_ctx_init(&own, feeder->ctx.allocator);
    for (uint64_t made = 0; !ipu_service_is_left_behind(); made++) {
        uint64_t begin_ns = ipu_event_begin(IPU_EVENT_ROOM);
        if (ipu_infeed_acquire(&own, queue, &slot) != IPU_OK) {
            return;
        }
        ipu_event_end(IPU_EVENT_ROOM, 0, begin_ns, 0, 0);
        make(feeder, NULL, slot);
        if (made == 0 && feeder->lends) {
            ipu_infeed_lend(queue, &maker);
        }
    }
}

static void
run_feeder(void *state)
{
    ipu_feeder *feeder = state;
    ipu_event_name_thread(IPU_ROLE_FEEDER, 0);
    feeder->ctx.cancel = ipu_service_cancel();
    ipu_infeed *queue;
    do {
        queue = atomic_load(&feeder->queue);
        atomic_store(&feeder->used, queue);
        ipu_infeed_set_producer(queue, ipu_service_root());
        feed(feeder, queue);
    } while (!ipu_service_is_left_behind() && !ipu_infeed_has_ended(queue) &&
             queue != atomic_load(&feeder->queue));
    if (!ipu_service_is_left_behind()) {
        ipu_infeed_withdraw(queue);
        if (!ipu_infeed_has_ended(queue)) {
            (void)ipu_ctx_fail(&feeder->ctx, IPU_STATUS_CANCELLED,
                               "the infeed is closed");
            ipu_infeed_end(queue, &feeder->ctx);
        }
    }
    atomic_store(&feeder->used, NULL);
    ipu_iterator_free(
        feeder->iterator); /* here, where waiting for its threads is right */
    feeder->iterator = NULL;
}

static void
wake_feeder(void *state)
{
    ipu_infeed_close(((ipu_feeder *)state)->queue);
}

static void
free_feeder(void *state)
{
    ipu_feeder *feeder = state;
    ipu_ctx ctx;
    ipu_ctx_init(&ctx, feeder->ctx.allocator);
    ipu_iterator_free(feeder->iterator);
    ipu_ctx_clear(&feeder->ctx);
    ipu_free(&ctx, feeder, sizeof(*feeder));
}

static const ipu_service_work feeder_work = {run_feeder, wake_feeder, free_feeder};

static ipu_status
check_types(ipu_ctx *ctx, const ipu_dataset *dataset, const ipu_type *types,
            uint32_t count)
{
    IPU_FAIL_IF(ctx, count != dataset->type_count, INVALID_ARGUMENT,
                "the data set's elements have %" PRIu32 " components, the infeed has "
                "%" PRIu32,
                dataset->type_count, count);
    for (uint32_t i = 0; i < count; i++) {
        char made[96];
        char wanted[96];
        IPU_FAIL_IF(ctx, !ipu__type_accepts(&dataset->types[i], &types[i]),
                    INVALID_ARGUMENT,
                    "component %" PRIu32 " of the data set is %s, but the infeed's is "
                    "%s",
                    i, ipu_type_print(&dataset->types[i], made, sizeof(made)),
                    ipu_type_print(&types[i], wanted, sizeof(wanted)));
    }
    return IPU_OK;
}

ipu_status
ipu_feeder_start(ipu_ctx *ctx, ipu_dataset *dataset, ipu_infeed *queue,
                 bool shares_cores, ipu_feeder **out)
{
    const ipu_type *types;
    uint32_t count = ipu_infeed_types(queue, &types);
    ipu_feeder *feeder;
    *out = NULL;
    IPU_TRY(check_types(ctx, dataset, types, count));
    dataset = ipu__dataset_before_prefetch(dataset);
    IPU_TRY(ipu_alloc(ctx, sizeof(*feeder), &feeder));
    ipu_ctx_init(&feeder->ctx, ctx->allocator);
    feeder->queue = queue;
    feeder->lends = shares_cores && dataset->is_quick;
    ipu_status status = ipu_iterator_create(ctx, dataset, &feeder->iterator);
    if (status == IPU_OK) {
        ipu_infeed_reopen(queue);
        status = ipu_service_start(ctx, &feeder_work, feeder, &feeder->service);
        if (status != IPU_OK) {
            ipu_infeed_close(queue);
        }
    }
    if (status != IPU_OK) {
        free_feeder(feeder);
        return status;
    }
    *out = feeder;
    return IPU_OK;
}

void
ipu_feeder_stop(ipu_feeder *feeder, ipu_cancel *cancel)
{
    if (feeder != NULL) {
        ipu_service_stop(feeder->service, cancel);
    }
}

ipu_status
ipu_feeder_move(ipu_ctx *ctx, ipu_feeder *feeder, ipu_infeed *to)
{
    ipu_infeed *from = atomic_load(&feeder->queue);
    atomic_store(&feeder->queue, to);
    ipu_status status = ipu_infeed_pass_on(ctx, from, to);
    if (status != IPU_OK) {
        atomic_store(&feeder->queue, from);
        return status;
    }
    while (atomic_load(&feeder->used) == from) { /* it has been woken */
        sched_yield();
    }
    return IPU_OK;
}
