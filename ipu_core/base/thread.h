/* SPDX-License-Identifier: MIT
 *
 * The worker pool. Work is cut into tasks by shape alone and threads take tasks, so the
 * result never depends on how many threads there are. One job runs at a time; the
 * caller takes part. Workers spin for a while before they sleep, since a step's jobs
 * are microseconds apart. After fork() a child starts with no workers and makes its
 * own on the next use. */
#ifndef IPU_BASE_THREAD_H
#define IPU_BASE_THREAD_H

#include "base/ctx.h"

typedef struct ipu_pool ipu_pool;

/* Runs task number `task` of a job; worker is 0..threads-1 (for scratch space). */
typedef void ipu_task_fn(void *state, int32_t task, int32_t worker);

/* threads >= 1 counts the caller. Free with ipu_pool_free. */
ipu_status ipu_pool_create(ipu_ctx *ctx, int32_t threads, ipu_pool **out);
void ipu_pool_free(ipu_ctx *ctx, ipu_pool *pool);
int32_t ipu_pool_threads(const ipu_pool *pool);
/* Runs tasks 0..tasks-1, returns when all are done. pool may be NULL: then the caller
 * runs them in order. Tasks are dealt in contiguous runs, worker w first gets the
 * w-th run (so the same rows stay in the same cache), then helps the others. */
void ipu_pool_run(ipu_pool *pool, int32_t tasks, ipu_task_fn *fn, void *state);

#endif
