/* SPDX-License-Identifier: MIT
 *
 * A simulated device: variables with stable ids, and the registry of its queues.
 * Programs bind to it; it outlives them.
 *
 * Of a program that uses fewer of the device's IPUs than there are several replicas run
 * (run/executor.h), each with its own copy of the variables. The copies are equal until
 * replicas write them. A host reads that of replica 0 and writes all; and when another
 * program begins, all are made equal to that of replica 0. Replicas of a program that
 * shares a variable out have a part each, in place of a copy, until a program wants it
 * otherwise; a host reads and writes the whole.
 *
 * Thread rule: one program runs on a device at a time; others wait for its end. A host
 * thread that reads or writes a variable waits for a step boundary (every NEXT of an
 * outermost loop): there a running program gives way to those who wait. */
#ifndef IPU_RUN_DEVICE_H
#define IPU_RUN_DEVICE_H

#include "peers/peers.h"
#include "run/host.h"
#include "run/queue.h"

typedef struct ipu_device ipu_device;

ipu_status ipu_device_create(ipu_ctx *ctx, int32_t ipus, ipu_device **out);
void ipu_device_free(ipu_ctx *ctx, ipu_device *device);
int32_t ipu_device_ipus(const ipu_device *device);

/* The device is one of several processes', in programs that are bound to it from now
 * on. Not owned; NULL: it is this process's alone. */
void ipu_device_set_peers(ipu_device *device, ipu_peers *peers);

/* The state of a device that a waiting thread has seen; all 0 at first. */
typedef struct ipu_device_wait {
    uint64_t made;
    int looks;
} ipu_device_wait;
/* Called again and again by a thread that waits for the end of a run: fails with
 * FAILED_PRECONDITION where that run waits for an element that the caller makes. */
ipu_status ipu_device_check_wait(ipu_ctx *ctx, ipu_device *device,
                                 ipu_device_wait *wait);

/* IPUs of all processes. */
uint32_t ipu_device_all_ipus(const ipu_device *device);

/* A new variable, zeroed; *out_id is never used again. */
ipu_status ipu_device_variable_add(ipu_ctx *ctx, ipu_device *device,
                                   const ipu_type *type, int64_t *out_id);
/* Never waits. A program that binds it fails with NOT_FOUND, a running one at its next
 * step boundary; the memory is freed when no step can use it any more. */
void ipu_device_variable_remove(ipu_device *device, int64_t id);
/* Copies out (of one replica) or in (to every replica), at a step boundary. `bytes`
 * must be the variable's size. CANCELLED where ctx->cancel is set meanwhile;
 * FAILED_PRECONDITION where the step waits for an element that the caller makes. */
ipu_status ipu_device_variable_read(ipu_ctx *ctx, ipu_device *device, int64_t id,
                                    int32_t replica, void *out, size_t bytes);
ipu_status ipu_device_variable_write(ipu_ctx *ctx, ipu_device *device, int64_t id,
                                     const void *data, size_t bytes);
/* Whether other processes have parts of it: reading it fails with FAILED_PRECONDITION. */
bool ipu_device_variable_is_apart(ipu_device *device, int64_t id);
/* Copies it out and removes it, at one step boundary: no write is lost in between. */
ipu_status ipu_device_variable_take(ipu_ctx *ctx, ipu_device *device, int64_t id,
                                    void *out, size_t bytes);

/* Queues. The device does not own them: a queue is removed before it is freed. Ids are
 * given by the device and never used again. */
ipu_status ipu_device_infeed_add(ipu_ctx *ctx, ipu_device *device, ipu_infeed *queue,
                                 int64_t *out_id);
ipu_status ipu_device_outfeed_add(ipu_ctx *ctx, ipu_device *device, ipu_outfeed *queue,
                                  int64_t *out_id);
ipu_status ipu_device_host_add(ipu_ctx *ctx, ipu_device *device,
                               const ipu_host_function *function, int64_t *out_id);
/* FAILED_PRECONDITION where a running program uses it. */
ipu_status ipu_device_queue_remove(ipu_ctx *ctx, ipu_device *device, int64_t id);
/* Closes an infeed, empties an outfeed; it stays known, and programs bound to it can
 * run when it is used again. FAILED_PRECONDITION as above. */
ipu_status ipu_device_queue_delete(ipu_ctx *ctx, ipu_device *device, int64_t id);

/* Random state: `seed` and `step`, the global micro-batch counter. Never waits; a
 * running program takes a new state at a step boundary. */
typedef struct ipu_device_random {
    uint64_t seed;
    uint64_t step;
} ipu_device_random;
void ipu_device_set_random(ipu_device *device, ipu_device_random state);
ipu_device_random ipu_device_get_random(ipu_device *device);

/* Bytes that the device holds for variables, all copies. */
size_t ipu_device_variable_bytes(const ipu_device *device);

#endif
