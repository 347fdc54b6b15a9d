/* SPDX-License-Identifier: MIT
 *
 * The feeder: a thread that reads a data set and fills an infeed's slots in place.
 *
 * It ends with the data set (a run that asks for more fails with OUT_OF_RANGE), with
 * an error (the run that needs the element fails with its text), or when the queue
 * is closed. Nothing is shared with the thread but the queue, which does its own
 * locking. A thread that was left behind in a generator (base/service.h) uses the queue
 * no more, which may be fed by another one or gone: every iterator fails with CANCELLED
 * before it would write. */
#include "data/dataset_impl.h"

#include <inttypes.h>

#include "base/event.h"
#include "base/service.h"
#include "run/queue.h"

struct ipu_feeder {
    ipu_ctx ctx; /* the thread's */
    ipu_iterator *iterator;
    ipu_infeed *queue;
    const ipu_type *types;
    ipu_service *service; /* the owner's */
};

static ipu_status
feed(ipu_feeder *feeder)
{
    for (;;) {
        void *const *slot;
        bool end;
        uint64_t begin_ns = ipu_event_begin(IPU_EVENT_ROOM);
        IPU_TRY(ipu_infeed_acquire(&feeder->ctx, feeder->queue, &slot));
        uint64_t room_ns = ipu_event_begin(IPU_EVENT_FILL);
        IPU_TRY(ipu__iterator_fill(&feeder->ctx, feeder->iterator, feeder->types, slot,
                                   &end));
        ipu_event_note(IPU_EVENT_ROOM, 0, begin_ns, room_ns, 0, 0);
        if (room_ns != 0) {
            ipu_event_note(IPU_EVENT_FILL, 0, room_ns, ipu_now_ns(), 0, 0);
        }
        if (end) {
            return IPU_OK;
        }
        ipu_infeed_publish(feeder->queue);
    }
}

static void
run_feeder(void *state)
{
    ipu_feeder *feeder = state;
    ipu_event_name_thread(IPU_ROLE_FEEDER, 0);
    feeder->ctx.cancel = ipu_service_cancel();
    ipu_status status = feed(feeder);
    if (!ipu_service_is_left_behind()) {
        ipu_infeed_end(feeder->queue, status, feeder->ctx.message);
    }
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
                    i, ipu__type_text(&dataset->types[i], made, sizeof(made)),
                    ipu__type_text(&types[i], wanted, sizeof(wanted)));
    }
    return IPU_OK;
}

ipu_status
ipu_feeder_start(ipu_ctx *ctx, ipu_dataset *dataset, ipu_infeed *queue,
                 ipu_feeder **out)
{
    const ipu_type *types;
    uint32_t count = ipu_infeed_types(queue, &types);
    ipu_feeder *feeder;
    *out = NULL;
    IPU_TRY(check_types(ctx, dataset, types, count));
    while (dataset->ops == ipu__prefetch_ops()) {
        dataset = dataset->inputs[0];
    }
    IPU_TRY(ipu_alloc(ctx, sizeof(*feeder), &feeder));
    ipu_ctx_init(&feeder->ctx, ctx->allocator);
    feeder->queue = queue;
    feeder->types = types;
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
