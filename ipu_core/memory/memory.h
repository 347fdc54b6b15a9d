/* SPDX-License-Identifier: MIT
 *
 * Buffers and lifetimes in, offsets out, and nothing but offsets. */
#ifndef IPU_MEMORY_MEMORY_H
#define IPU_MEMORY_MEMORY_H

#include "base/array.h"

/* A buffer is live from instruction `first` to instruction `last`, both included. */
typedef struct ipu_buffer {
    size_t bytes;
    int32_t first;
    int32_t last;
    size_t offset; /* filled by the planner, IPU_BUFFER_ALIGNMENT-aligned */
} ipu_buffer;

typedef struct ipu_memory_report {
    size_t slab_bytes;      /* with the slack at its end */
    size_t peak_live_bytes; /* the lower bound: most bytes live at one instruction */
    int32_t peak_at;        /* that instruction */
} ipu_memory_report;

/* The smaller of two plans, see plan.c. */
ipu_status ipu_memory_plan(ipu_ctx *ctx, ipu_buffer *buffers, size_t count,
                           ipu_memory_report *report);
/* Independent of the planner: fails with INTERNAL where two buffers that are live
 * together overlap, one ends past the slab, or one is not aligned. */
ipu_status ipu_memory_check(ipu_ctx *ctx, const ipu_buffer *buffers, size_t count,
                            size_t slab_bytes);

#endif
