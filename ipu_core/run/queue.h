/* SPDX-License-Identifier: MIT
 *
 * Infeed and outfeed rings between host threads and a device.
 *
 * Infeed: a bounded ring of slots, each with one aligned buffer (and slack) per
 * component. One producer thread fills, the device consumes; a full ring pushes back:
 * at most `depth` elements are made that the device has not asked for (R, where a
 * program of R replicas has more). The device uses
 * a slot in place until it takes the next element. Of a program with R replicas replica
 * r takes the elements r, r + R, r + 2 R, ..., in whatever order the replicas come; it
 * takes none where the data end before all of them have theirs. A producer may lend its
 * work: while a program runs, the device then makes an element itself where it finds
 * none, with the threads that wait for it anyway, and the producer sleeps.
 *
 * Outfeed: a bounded ring on the device side and growing storage on the host side. A
 * thread of the queue's own drains the ring into the storage whenever it is half full,
 * and a host thread that waits or takes does so at once: a program whose outfeed nobody
 * reads never stalls, and one who waits sees a result as it is made. An element is what
 * all replicas enqueue in their turn: it is there when the last of them has.
 *
 * The device's side of a queue belongs to one thread of each replica at a time. One
 * that is alone can sleep until it may go on; others ask, and are told by a listener.
 */
#ifndef IPU_RUN_QUEUE_H
#define IPU_RUN_QUEUE_H

#include "base/array.h"
#include "base/shape.h"
#include "base/thread.h"
#include "program/program.h"

typedef struct ipu_infeed ipu_infeed;
typedef struct ipu_outfeed ipu_outfeed;

/* Is called when a device that had to wait may go on. From any thread, with the queue's
 * lock held: it must not call the queue. */
typedef struct ipu_listener {
    void (*hear)(void *state); /* NULL: nobody listens */
    void *state;
} ipu_listener;

/* --- infeed ---------------------------------------------------------------------- */

/* For programs of up to `replicas` replicas. */
ipu_status ipu_infeed_create(ipu_ctx *ctx, const ipu_type *types, uint32_t type_count,
                             int32_t depth, int32_t replicas, ipu_infeed **out);
/* Closes it first. The producer must have returned. */
void ipu_infeed_free(ipu_ctx *ctx, ipu_infeed *queue);
uint32_t ipu_infeed_types(const ipu_infeed *queue, const ipu_type **out);

/* Producer: who it is, by ipu_service_root. */
void ipu_infeed_set_producer(ipu_infeed *queue, uint64_t root);
/* Any thread: whether a device waits for an element of that producer; how many were
 * made before it. */
bool ipu_infeed_awaits(const ipu_infeed *queue, uint64_t root, uint64_t *made);
/* Producer: waits for a free slot; *slot is an array of type_count buffers to fill,
 * until ipu_infeed_publish or ipu_infeed_end. CANCELLED once the queue is closed, or
 * has ended. */
ipu_status ipu_infeed_acquire(ipu_ctx *ctx, ipu_infeed *queue, void *const **slot);
void ipu_infeed_publish(ipu_infeed *queue);

typedef struct ipu_infeed_maker {
    /* As the producer between acquire and publish: fills the slot, and publishes or
     * ends. Never at the same time as the producer, nor twice. */
    void (*make)(void *state, ipu_pool *pool, void *const *slot);
    void *state;
} ipu_infeed_maker;

/* Producer: from here on the device may make elements, too. Does nothing where there
 * can be several replicas. */
void ipu_infeed_lend(ipu_infeed *queue, const ipu_infeed_maker *maker);
/* Producer: waits until the device is not at it, and will not be again. */
void ipu_infeed_withdraw(ipu_infeed *queue);
/* Producer: no more elements. The error of `ctx`, which the queue takes from it, is
 * what every run that needs the element fails with; without one (or with NULL) it is
 * the end of the data set. */
void ipu_infeed_end(ipu_infeed *queue, ipu_ctx *ctx);
/* The cause of that error, if there is one and nobody else holds it, is handed to
 * `visit`, with the queue's lock held. */
void ipu_infeed_visit_cause(ipu_infeed *queue,
                            void (*visit)(void *state, ipu_cause *cause), void *state);
/* Drops the cause; no run may be at the queue. */
void ipu_infeed_drop_cause(ipu_infeed *queue);
bool ipu_infeed_has_ended(const ipu_infeed *queue);
/* Any thread: wakes and ends everyone who waits. */
void ipu_infeed_close(ipu_infeed *queue);
/* Makes a closed or ended queue as good as new, empty and open, so that the programs
 * bound to it can run on the next pass over the data. Neither a producer nor a run may
 * be at it. */
void ipu_infeed_reopen(ipu_infeed *queue);

/* How many elements are read ahead. */
uint32_t ipu_infeed_ahead(const ipu_infeed *queue);
/* Hands what is there, and how it ended, to a new queue of the same types, for as many
 * replicas as this one reads ahead at least, and closes this one. Waits for an element
 * that is being made; no run may be at it.
 * INTERRUPTED where ctx->cancel is set by then. */
ipu_status ipu_infeed_pass_on(ipu_ctx *ctx, ipu_infeed *queue, ipu_infeed *to);

/* Whether it was not closed, or has been reopened. A program whose infeed is closed
 * does not start. */
bool ipu_infeed_is_open(const ipu_infeed *queue);

/* Device: a run of so many replicas begins. FAILED_PRECONDITION where an earlier one
 * had another number of them. */
ipu_status ipu_infeed_begin(ipu_ctx *ctx, ipu_infeed *queue, uint32_t replicas);
/* Device: it has ended, if it had begun, and uses no element any more. Elements are
 * gone that some replicas have taken the like of and others have not. */
void ipu_infeed_finish(ipu_infeed *queue);
/* Device: the tensors of the replica's next element, which are its own until it asks
 * for another one; NULL (and IPU_OK) where that element, or another replica's of the
 * same turn, is not there yet. OUT_OF_RANGE at the end of the data. */
ipu_status ipu_infeed_take(ipu_ctx *ctx, ipu_infeed *queue, uint32_t replica,
                           const void *const **out);
/* Device: makes an element where that is lent and nobody is at it; whether it is worth
 * the while to try to take again. */
bool ipu_infeed_make(ipu_infeed *queue, ipu_pool *pool);
/* Device: whether ipu_infeed_take will not ask it to wait. If not, the listener hears
 * of it when that changes. */
bool ipu_infeed_has_element(ipu_infeed *queue, uint32_t replica);
/* Device: how many elements are published and not taken. */
uint32_t ipu_infeed_ready(const ipu_infeed *queue);
/* Device: whether nothing more comes before some replica takes what is there. */
bool ipu_infeed_is_full(const ipu_infeed *queue);
/* The only replica: sleeps until there is an element, at most timeout_ns; 0 spins for a
 * moment. */
bool ipu_infeed_wait(ipu_infeed *queue, int64_t timeout_ns);
void ipu_infeed_listen(ipu_infeed *queue, ipu_listener listener);

/* --- outfeed --------------------------------------------------------------------- */

typedef enum ipu_outfeed_mode { IPU_OUTFEED_ALL, IPU_OUTFEED_LAST } ipu_outfeed_mode;

ipu_status ipu_outfeed_create(ipu_ctx *ctx, const ipu_type *types, uint32_t type_count,
                              ipu_outfeed_mode mode, int32_t depth, ipu_outfeed **out);
void ipu_outfeed_free(ipu_ctx *ctx, ipu_outfeed *queue);
uint32_t ipu_outfeed_types(const ipu_outfeed *queue, const ipu_type **out);

/* How many replicas enqueue; 1 before a program of several has begun. */
uint32_t ipu_outfeed_replicas(ipu_outfeed *queue);

/* Device: a run of a program of so many replicas begins. FAILED_PRECONDITION where
 * elements of a program of another number are there. */
ipu_status ipu_outfeed_begin(ipu_ctx *ctx, ipu_outfeed *queue, uint32_t replicas);
/* Device: copies one tensor per component into the replica's next slot; *done is false,
 * and nothing is done, where none is free. Never waits for a reader. */
ipu_status ipu_outfeed_enqueue(ipu_ctx *ctx, ipu_outfeed *queue, uint32_t replica,
                               const void *const *tensors, bool *done);
/* Device: whether a slot is free. If not, the drainer makes room, and the listener
 * hears of it. OUT_OF_MEMORY where no room can be had. */
ipu_status ipu_outfeed_has_room(ipu_ctx *ctx, ipu_outfeed *queue, uint32_t replica,
                                bool *has_room);
/* Device: whether there is nothing to drain: a replica that finds no room waits for the
 * others to enqueue. */
bool ipu_outfeed_is_drained(const ipu_outfeed *queue);
/* The only replica: sleeps until a slot is free. */
ipu_status ipu_outfeed_wait_for_room(ipu_ctx *ctx, ipu_outfeed *queue);
void ipu_outfeed_listen(ipu_outfeed *queue, ipu_listener listener);
/* Device: end of a run; everything enqueued is in the host storage when it returns, but
 * for elements that some replicas have not enqueued. Where the storage cannot grow the
 * rest stays in the ring, and ipu_outfeed_take reports the error. */
void ipu_outfeed_flush(ipu_outfeed *queue);
/* How many runs have ended (ipu_outfeed_flush), and how often it was reset. */
uint64_t ipu_outfeed_ends(ipu_outfeed *queue);

/* Host: how many elements there are to take. Negative timeout_ns waits for ever, 0 not
 * at all; waits until at least `at_least` are there, or the queue is closed, or its
 * ends differ from `ends` (UINT64_MAX: do not look at them). */
int64_t ipu_outfeed_wait(ipu_outfeed *queue, int64_t at_least, uint64_t ends,
                         int64_t timeout_ns);
/* Host: takes up to `count` oldest elements; out[i] has room for count * replicas
 * tensors of component i, one after the other, those of an element's replicas together.
 * *taken says how many: none if the queue has elements of another number of replicas.
 * In LAST mode there is at most one, the newest. */
ipu_status ipu_outfeed_take(ipu_ctx *ctx, ipu_outfeed *queue, int64_t count,
                            uint32_t replicas, void *const *out, int64_t *taken);
/* Host: drops what is there, as if the queue were new; wakes those who wait for an end.
 * No run may be at it. */
void ipu_outfeed_reset(ipu_outfeed *queue);
void ipu_outfeed_close(ipu_outfeed *queue);

#endif
