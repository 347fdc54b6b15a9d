/* SPDX-License-Identifier: MIT
 *
 * What the executor asks of a device.
 *
 * A run owns the device from begin to end. Between the two it owns the variables but
 * for the moments in which ipu__device_boundary gives way. */
#ifndef IPU_RUN_DEVICE_IMPL_H
#define IPU_RUN_DEVICE_IMPL_H

#include <inttypes.h>
#include <stdatomic.h>

#include "base/random.h"
#include "graph/graph.h"
#include "run/device.h"

/* Waits until no other program runs; *cancel (may be NULL) is polled meanwhile. */
ipu_status ipu__device_begin(ipu_ctx *ctx, ipu_device *device, const int32_t *cancel);
void ipu__device_end(ipu_device *device);
/* A step boundary: lets waiting host threads at the variables. */
void ipu__device_boundary(ipu_device *device);
/* Between the two the run is as at a step boundary that lasts: hosts come and go, and
 * something may be removed. */
void ipu__device_pause(ipu_device *device);
void ipu__device_resume(ipu_device *device);

enum { IPU__NO_RUNNER = 0 };
/* A number for a program that is bound to the device. */
uint64_t ipu__device_new_runner(ipu_device *device);
/* The run is that program's. Whether the last one was another's: then only the variables
 * of replica 0 count. */
bool ipu__device_is_changed(ipu_device *device, uint64_t runner);

/* Changes whenever a variable or a queue is removed. Read it while owning the
 * device. */
uint64_t ipu__device_generation(const ipu_device *device);
/* How replicas have a variable: all of it each, or, of so many parts, one each. */
typedef struct ipu__parts {
    uint32_t count; /* 0: each has all */
    uint32_t first; /* that of this process's first replica */
    uint32_t here;  /* as many as this process has replicas */
} ipu__parts;

/* The run's resources, while it owns the device. NOT_FOUND where the id is gone. A copy
 * for the replica is made where there is none, with no value of its own. NULL: the
 * variable is not in so many parts. */
ipu_status ipu__device_variable(ipu_ctx *ctx, ipu_device *device, int64_t id,
                                int32_t replica, uint32_t parts, ipu_type *type,
                                void **data);
/* By the program that has the device: how the variable lies; and from here on otherwise,
 * which moves it. A variable in parts of several processes needs `whole`, its value;
 * else that may be NULL. */
ipu__parts ipu__device_parts(ipu_device *device, int64_t id);
ipu_status ipu__device_set_parts(ipu_ctx *ctx, ipu_device *device, int64_t id,
                                 ipu__parts parts, const void *whole);
/* The error of a run that needs an infeed which is closed or gone; takes the id. */
#define IPU__NO_INFEED \
    "The program uses the infeed with id='%" PRId64 \
    "' which has not been created. Did " \
    "you initialize the infeed_queue? Read its `initializer` before the run"
/* From here on all copies of a variable lie in panels, or by rows (0); blocks stay where
 * they are. By the program that has the device; it fails for want of memory, with all
 * elements in place. */
ipu_status ipu__device_set_layout(ipu_ctx *ctx, ipu_device *device, int64_t id,
                                  int64_t panel_columns);
/* kind says infeed or outfeed; *out is the queue. An infeed that is gone is
 * FAILED_PRECONDITION. */
ipu_status ipu__device_queue(ipu_ctx *ctx, ipu_device *device, ipu_resource_kind kind,
                             int64_t id, void **out);
/* Whether the run uses a queue, which cannot be removed meanwhile. */
void ipu__device_queue_use(ipu_device *device, int64_t id, bool is_used);

ipu_peers *ipu__device_peers(const ipu_device *device);

/* Seed and step, for the run that owns the device. */
void ipu__device_adopt_random(ipu_device *device, ipu_device_random state);
ipu_random_key ipu__device_random(const ipu_device *device);
/* The end of a step of so many micro-batches: the step moves on, or a new seed begins.
 */
void ipu__device_advance(ipu_device *device, uint64_t micro_batches);

#endif
