/* SPDX-License-Identifier: MIT
 *
 * A service: a thread that works for an owner. It feeds an infeed, reads a data set
 * ahead, or drains an outfeed.
 *
 * References. The thread and the owner each hold one to the service and to the state
 * that the thread works on; dropping the last one frees both. So the owner may stop a
 * service anywhere, even on the service's own thread (a garbage collection inside of a
 * Python generator).
 *
 * Stopping sets the service's cancel flag, wakes the thread, and waits until the thread
 * has left. It does not wait on the thread itself, nor in a forked child, where the
 * thread does not exist.
 *
 * Left behind. A thread that runs foreign code (Python) may stay there for ever. It
 * says so before: it goes away, and comes back. The owner may leave a thread behind
 * that is away: the owner goes on, and the thread finds out when it comes back. From
 * then on it may use its own state and nothing of its owner's, and leaves. The owner
 * always waits for a thread that is not away. A thread that stops another one is away
 * meanwhile, so owners can leave a chain of threads behind that wait for each other. */
#ifndef IPU_BASE_SERVICE_H
#define IPU_BASE_SERVICE_H

#include "base/ctx.h"
#include "base/lock.h"

typedef struct ipu_service ipu_service;

typedef struct ipu_service_work {
    void (*run)(
        void *state); /* the thread's work; returns soon after the flag is set */
    void (*wake)(void *state); /* the flag has just been set; called by the owner */
    void (*free)(void *state); /* the last reference is gone; may be NULL */
} ipu_service_work;

/* Starts the thread. On failure the state stays the caller's. */
ipu_status ipu_service_start(ipu_ctx *ctx, const ipu_service_work *work, void *state,
                             ipu_service **out);

/* Stops it and drops the owner's reference. A thread that is away is left behind after
 * a moment; with `cancel`, only once it is set. A service's own thread that is at
 * home waits until it is itself left behind. NULL is fine. */
void ipu_service_stop(ipu_service *service, ipu_cancel *cancel);

/* Whether its thread is one of this process. */
bool ipu_service_is_here(const ipu_service *service);

/* The calling thread goes away and comes back; calls nest. Other threads than those of
 * services may call these three as well: nothing happens. */
void ipu_service_go_away(void);
void ipu_service_come_back(void);
bool ipu_service_is_left_behind(void);
/* The number of the service for which the calling thread works: of its own, or of that
 * on whose thread this one was started, and so on; 0 where it is not a service's. */
uint64_t ipu_service_root(void);
/* The flag that stops the calling thread; NULL where that is not a service's. */
ipu_cancel *ipu_service_cancel(void);

/* Waits for a signal, or for a moment where ctx->cancel may be set; false when it is.
 * The lock is held before and after, and not while ctx->cancel is asked. */
bool ipu_ctx_wait(ipu_ctx *ctx, ipu_lock *lock, pthread_cond_t *cond);

#endif
