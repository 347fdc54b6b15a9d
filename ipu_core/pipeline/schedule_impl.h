/* SPDX-License-Identifier: MIT
 *
 * What the builders of schedules share. */
#ifndef IPU_PIPELINE_SCHEDULE_IMPL_H
#define IPU_PIPELINE_SCHEDULE_IMPL_H

#include "pipeline/schedule.h"

typedef enum ipu_schedule_id {
#define X(id, name) IPU_SCHEDULE_##id,
    IPU_SCHEDULE_LIST(X)
#undef X
        IPU_SCHEDULE_ID_COUNT
} ipu_schedule_id;

/* A schedule without actions: copies, counts, room for lists. */
ipu_status ipu__schedule_new(ipu_ctx *ctx, const ipu_schedule_request *request,
                             ipu_schedule **out);

/* How many passes a micro-batch makes through the pipeline's positions: there, and in
 * training back. Pass f is the forward at position f, or the backward at 2N-1-f. */
static inline uint32_t
ipu__schedule_passes(uint32_t position_count, bool is_training)
{
    return is_training ? 2 * position_count : position_count;
}

static inline uint32_t
ipu__schedule_position(const ipu_schedule_request *request, uint32_t stage)
{
    return request->positions == NULL ? stage : request->positions[stage];
}

/* How many positions stages stand at, and the highest IPU, plus 1. */
typedef struct ipu__schedule_size {
    uint32_t positions;
    uint32_t ipus;
} ipu__schedule_size;

/* Grouped, Interleaved and Sequential (rotation.c): a micro-batch makes one pass in
 * each time step and never waits. */
ipu_status ipu__rotation_overlap(ipu_ctx *ctx, ipu_schedule_id id,
                                 const ipu_schedule_request *request,
                                 ipu__schedule_size size, uint32_t *out);
ipu_status ipu__rotation_build(ipu_ctx *ctx, ipu_schedule_id id,
                               const ipu_schedule_request *request,
                               ipu_schedule *schedule);

/* The others (lines.c): stages work through sequences of their own as data comes. */
ipu_status ipu__lines_overlap(ipu_ctx *ctx, ipu_schedule_id id,
                              const ipu_schedule_request *request,
                              ipu__schedule_size size, uint32_t *out);
ipu_status ipu__lines_build(ipu_ctx *ctx, ipu_schedule_id id, ipu_schedule *schedule);

#endif
