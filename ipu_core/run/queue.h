/* SPDX-License-Identifier: MIT
 *
 * Infeed and outfeed rings between host threads and a device.
 *
 * Infeed: a bounded ring of slots, each with one aligned buffer (and slack) per
 * component. One producer thread fills, the device consumes; a full ring pushes back:
 * at most `depth` elements are made that the device has not asked for. The device uses
 * a slot in place until its next dequeue.
 *
 * Outfeed: a bounded ring on the device side and growing storage on the host side. A
 * thread of the queue's own drains the ring into the storage whenever it is half full,
 * and a host thread that waits or takes does so at once: a program whose outfeed nobody
 * reads never stalls, and one who waits sees a result as it is made. */
#ifndef IPU_RUN_QUEUE_H
#define IPU_RUN_QUEUE_H

#include "base/array.h"
#include "base/shape.h"

typedef struct ipu_infeed ipu_infeed;
typedef struct ipu_outfeed ipu_outfeed;

/* --- infeed ---------------------------------------------------------------------- */

ipu_status ipu_infeed_create(ipu_ctx *ctx, const ipu_type *types, uint32_t type_count,
                             int32_t depth, ipu_infeed **out);
/* Closes it first. The producer must have returned. */
void ipu_infeed_free(ipu_ctx *ctx, ipu_infeed *queue);
uint32_t ipu_infeed_types(const ipu_infeed *queue, const ipu_type **out);

/* Producer: waits for a free slot; *slot is an array of type_count buffers to fill.
 * CANCELLED once the queue is closed. */
ipu_status ipu_infeed_acquire(ipu_ctx *ctx, ipu_infeed *queue, void *const **slot);
void ipu_infeed_publish(ipu_infeed *queue);
/* Producer: no more elements; `status` IPU_OK is the end of the data set, anything else
 * with `message` is what the run that needs the element fails with. */
void ipu_infeed_end(ipu_infeed *queue, ipu_status status, const char *message);
/* Any thread: wakes and ends everyone who waits. */
void ipu_infeed_close(ipu_infeed *queue);
/* Makes a closed or ended queue as good as new, empty and open, so that the programs
 * bound to it can run on the next pass over the data. Neither a producer nor a run may
 * be at it. */
void ipu_infeed_reopen(ipu_infeed *queue);

/* Whether it was not closed, or has been reopened. A program whose infeed is closed
 * does not start. */
bool ipu_infeed_is_open(const ipu_infeed *queue);

/* Device: gives up the slot in use, waits for the next; the buffers stay valid until
 * the next call. OUT_OF_RANGE at the end of the data. `cancel` is polled while
 * waiting. */
ipu_status ipu_infeed_dequeue(ipu_ctx *ctx, ipu_infeed *queue, const int32_t *cancel,
                              const void *const **slot);
/* --- outfeed --------------------------------------------------------------------- */

typedef enum ipu_outfeed_mode { IPU_OUTFEED_ALL, IPU_OUTFEED_LAST } ipu_outfeed_mode;

ipu_status ipu_outfeed_create(ipu_ctx *ctx, const ipu_type *types, uint32_t type_count,
                              ipu_outfeed_mode mode, int32_t depth, ipu_outfeed **out);
void ipu_outfeed_free(ipu_ctx *ctx, ipu_outfeed *queue);
uint32_t ipu_outfeed_types(const ipu_outfeed *queue, const ipu_type **out);

/* Device: waits for a free slot (never for a reader), copies one tensor per
 * component. */
ipu_status ipu_outfeed_enqueue(ipu_ctx *ctx, ipu_outfeed *queue,
                               const void *const *tensors);
/* Device: end of a run; everything enqueued is in the host storage when it returns.
 * Where the storage cannot grow the rest stays in the ring, and who takes gets the
 * error. */
void ipu_outfeed_flush(ipu_outfeed *queue);
/* How many runs have ended (ipu_outfeed_flush), and how often it was reset. */
uint64_t ipu_outfeed_ends(ipu_outfeed *queue);

/* Host: how many elements there are to take. Negative timeout_ns waits for ever, 0 not
 * at all; waits until at least `at_least` are there, or the queue is closed, or its
 * ends differ from `ends` (UINT64_MAX: do not look at them). */
int64_t ipu_outfeed_wait(ipu_outfeed *queue, int64_t at_least, uint64_t ends,
                         int64_t timeout_ns);
/* Host: takes up to `count` oldest elements; out[i] has room for count tensors of
 * component i, one after the other. *taken says how many. In LAST mode there is at most
 * one, the newest. */
ipu_status ipu_outfeed_take(ipu_ctx *ctx, ipu_outfeed *queue, int64_t count,
                            void *const *out, int64_t *taken);
/* Host: drops what is there, as if the queue were new; wakes those who wait for an end.
 * No run may be at it. */
void ipu_outfeed_reset(ipu_outfeed *queue);
void ipu_outfeed_close(ipu_outfeed *queue);

#endif
