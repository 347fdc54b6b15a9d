/* SPDX-License-Identifier: MIT
 *
 * The common part of the fast pooling kernels, see pool_fast.c. */
#ifndef IPU_KERNELS_POOL_FAST_IMPL_H
#define IPU_KERNELS_POOL_FAST_IMPL_H

#include <string.h>

#include "kernels/pool/pool_impl.h"

enum { IPU_POOL_CHUNK = 1024 }; /* elements of a row that are made at a time */

/* Prepared. */
typedef struct ipu__pool_kernel {
    ipu__pool pool;
    const ipu__pool_columns *columns;
    const ipu__pool_columns *results; /* of the result's dtype */
    const ipu__pool_boxes *boxes;     /* NULL: too few channels, or integers */
    int64_t bytes;                    /* of an element of all but what is picked, ... */
    int64_t result_bytes;             /* ... which the result is made of, too */
    bool apart;                       /* no two windows meet ... */
    bool tiled;                       /* ... and each element is in one */
    const double *counts[IPU_POOL_AXES]; /* elements of each window, at least 1 */
    int32_t levels;   /* of the tree of a sum (sum_tree.h); 0: sums are one block */
    int64_t strip;    /* channels that are made at a time */
    int64_t tile[2];  /* planes and rows, where windows scatter */
    int64_t tiles[2]; /* of an image */
    int64_t units;    /* rows or tiles of an image, which are made one by one */
    int64_t per_task;
} ipu__pool_kernel;

typedef struct ipu__pool_job {
    const ipu__pool_kernel *plan;
    const ipu_kernel_call *call;
} ipu__pool_job;

/* Columns [first, end) of windows or of x, n channels from `channel` on. */
typedef struct ipu__pool_chunk {
    int64_t first;
    int64_t end;
    int64_t channel;
    int64_t n;
    /* where windows scatter: the elements of an axis that they reach, see
     * pool_scatter.c */
    int32_t tile_axis;
    int64_t tile_begin;
    int64_t tile_end;
} ipu__pool_chunk;

/* Where a row of results is made, and how far apart its columns lie. */
typedef struct ipu__pool_target {
    char *row;
    int64_t step;  /* in elements, */
    int64_t bytes; /* of so many */
} ipu__pool_target;

static inline ipu__pool_target
ipu__pool_target_of(const ipu__pool_job *job, int64_t offset)
{
    const ipu__pool_kernel *plan = job->plan;
    return (ipu__pool_target){
        ipu__at_mutable(job->call->outputs[0], offset * plan->result_bytes),
        plan->pool.channels, plan->result_bytes};
}

/* Column i. */
static inline void *
ipu__pool_column(const ipu__pool_target *t, int64_t i)
{
    return ipu__at_mutable(t->row, i * t->step * t->bytes);
}

/* From element `at` of an operand on that is no less wide or narrow than the first. */
static inline const void *
ipu__pool_input(const ipu__pool_job *job, uint32_t input, int64_t at)
{
    return ipu__at(job->call->inputs[input], at * job->plan->bytes);
}

/* The windows [*a, *b) of [first, end) whose element k lies in [low, high) of the axis.
 */
static inline void
ipu__pool_windows_at(const ipu__pool_axis *axis, int64_t k, int64_t low, int64_t high,
                     int64_t first, int64_t end, int64_t *a, int64_t *b)
{
    int64_t shift = axis->low - k * axis->dilation;
    int64_t begin = low + shift <= 0 ? 0 : ipu__ceil_div(low + shift, axis->stride);
    int64_t stop = high + shift <= 0 ? 0 : ipu__ceil_div(high + shift, axis->stride);
    *a = begin < first ? first : begin;
    *b = ipu__min(stop, end);
}

/* A row of windows, and of pixels. */
static inline int64_t
ipu__pool_window_row(const ipu__pool *pool, int64_t image, int64_t d, int64_t h)
{
    return ((image * pool->axes[0].windows + d) * pool->axes[1].windows + h) *
           pool->axes[2].windows * pool->channels;
}

static inline int64_t
ipu__pool_pixel_row(const ipu__pool *pool, int64_t image, int64_t d, int64_t h)
{
    return ((image * pool->axes[0].size + d) * pool->axes[1].size + h) *
           pool->axes[2].size * pool->channels;
}

/* The sums of a chunk of columns, term by term: their chains are in the target, of
 * float32. */
typedef struct ipu__pool_sums {
    const ipu__pool_target *chains;
    int64_t columns;
    int64_t n;
    int32_t levels;
    int64_t leaf; /* that is being made */
    float totals[IPU_SUM_LEVELS * IPU_POOL_CHUNK];
} ipu__pool_sums;

/* Before the terms at `position` are added, which are not before those that were. */
static inline void
ipu__pool_sums_reach(ipu__pool_sums *sums, int64_t position)
{
    const int64_t next = position / IPU_SUM_BLOCK;
    const int64_t apart = sums->columns * sums->n;
    const ipu__pool_target *t = sums->chains;
    const bool gaps = t->step != sums->n;
    if (next == sums->leaf) {
        return;
    }
    if (sums->leaf == 0) {
        memset(sums->totals, 0, (size_t)(sums->levels * apart) * sizeof(float));
    }
    for (int64_t i = 0; i < (gaps ? sums->columns : 1); i++) {
        ipu__sum_carry(ipu__pool_column(t, i), sums->totals + i * sums->n, apart,
                       ipu__sum_carries(sums->leaf, next), gaps ? sums->n : apart);
    }
    sums->leaf = next;
}

static inline void
ipu__pool_sums_end(ipu__pool_sums *sums)
{
    const ipu__pool_target *t = sums->chains;
    for (int64_t i = 0; sums->leaf > 0 && i < sums->columns; i++) {
        ipu__sum_end(ipu__pool_column(t, i), sums->totals + i * sums->n,
                     sums->columns * sums->n, sums->levels, sums->n);
    }
}

/* The elements of a chunk of windows, row by row of x: folded into `t` where there are
 * no places; else marked, or, with `v`, picked (pool_walk.c). */
void ipu__pool_walk(const ipu__pool_job *job, int64_t image, int64_t d, int64_t h,
                    const ipu__pool_chunk *c, const ipu__pool_target *t, int32_t *place,
                    const void *v);

/* The function that ipu__pool_walk_boxes calls at each window. */
typedef enum ipu__pool_visit {
    IPU_POOL_FOLD,
    IPU_POOL_MARK,
    IPU_POOL_SCATTER,
    IPU_POOL_PLACE
} ipu__pool_visit;

/* The same by boxes: windows whose elements are all inside of the row go together. */
void ipu__pool_walk_boxes(const ipu__pool_job *job, ipu__pool_visit what, int64_t image,
                          int64_t d, int64_t h, const ipu__pool_chunk *c,
                          const ipu__pool_target *t, int32_t *place);
/* The places of the maxima of a chunk of windows. */
void ipu__pool_mark(const ipu__pool_job *job, int64_t image, int64_t d, int64_t h,
                    const ipu__pool_chunk *c, int32_t *place);

/* How the gradient of a maximum is cut into tiles, and one of them (pool_scatter.c). */
void ipu__pool_plan_scatter(ipu__pool_kernel *plan);
void ipu__pool_scatter_tile(const ipu__pool_job *job, int64_t image, int64_t unit);

#endif
