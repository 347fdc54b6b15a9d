/* SPDX-License-Identifier: MIT
 *
 * Runs a program on a device, in as many replicas as fill it. An executor holds the
 * slabs and the resolved pointers, so that a run allocates nothing. The streams of all
 * replicas share the threads of the pool; one stream runs in the caller's thread, and
 * the pool helps in its kernels.
 *
 * A device may belong to one of several processes (ipu_device_set_peers). Then programs
 * with collectives or infeeds run in all of them together: each has a part of the
 * replicas.
 *
 * Streams that wait for each other for ever are an INTERNAL error that says which waits
 * for what. */
#ifndef IPU_RUN_EXECUTOR_H
#define IPU_RUN_EXECUTOR_H

#include "base/thread.h"
#include "program/program.h"
#include "run/device.h"

typedef struct ipu_executor ipu_executor;

/* How many replicas of a program for `shards` IPUs fill a device of `ipus`: shards are
 * rounded up to a power of two. INTERNAL where that does not divide them. */
ipu_status ipu_replication_factor(ipu_ctx *ctx, int32_t ipus, uint32_t shards,
                                  uint32_t *out);
/* The same for a program, which is 1 on the host. */
ipu_status ipu_program_replicas(ipu_ctx *ctx, const ipu_program *program,
                                const ipu_device *device, uint32_t *out);

/* Binds the program's resources by id (NOT_FOUND, FAILED_PRECONDITION where types
 * differ). `device` may be NULL for a program without resources (host graphs). `pool`
 * may be NULL. None of them is owned. */
ipu_status ipu_executor_create(ipu_ctx *ctx, const ipu_program *program,
                               ipu_device *device, ipu_pool *pool, ipu_executor **out);
void ipu_executor_free(ipu_ctx *ctx, ipu_executor *executor);
/* Of this process; 1 also where replicas could not differ in anything. */
uint32_t ipu_executor_replicas(const ipu_executor *executor);
ipu_status ipu_executor_set_pool(ipu_ctx *ctx, ipu_executor *executor, ipu_pool *pool);

/* The random state of the next run, for an executor without a device. */
void ipu_executor_set_random(ipu_executor *executor, uint64_t seed, uint64_t step);

typedef struct ipu_run_stats {
    uint64_t steps;       /* NEXT instructions of outermost loops */
    uint64_t allocations; /* through the context's allocator; 0 in the steady state */
    uint64_t run_ns;
    uint64_t infeed_wait_ns;
    uint64_t outfeed_wait_ns;
    uint64_t peer_wait_ns; /* for other processes */
} ipu_run_stats;

/* Which inputs, and whether the outputs, of the next runs have IPU_SLACK_BYTES of
 * readable memory after them, are written by nobody else during a run, and overlap no
 * other buffer but that an input may be given twice. Where such a buffer is aligned,
 * too, the program reads or writes it where it is; all others are copied. */
void ipu_executor_set_slack(ipu_executor *executor, const bool *inputs, bool outputs);

/* When an action ran, from when it had what it waited for; all 0: it did not. */
typedef struct ipu_action_span {
    uint64_t begin_ns;
    uint64_t end_ns;
} ipu_action_span;

/* Where the next runs note when each action ran last, in the first replica: one for
 * each instruction from the entry of a pipeline's stream on, one such stream after the
 * other. NULL: nowhere. */
void ipu_executor_set_spans(ipu_executor *executor, ipu_action_span *spans);

/* Runs to the end. inputs[i] and outputs[i] are buffers of the program's input and
 * output types; foreign memory is fine (kernels see copies). All replicas have the same
 * inputs, and outputs are those of replica 0. *cancel (may be NULL) is
 * polled at step boundaries: not 0 ends the run with INTERRUPTED and variables as they
 * were at that boundary. On an error completed steps keep their effect. */
ipu_status ipu_executor_run(ipu_ctx *ctx, ipu_executor *executor,
                            const void *const *inputs, void *const *outputs,
                            const int32_t *cancel, ipu_run_stats *stats);

#endif
