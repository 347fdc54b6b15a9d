/* SPDX-License-Identifier: MIT
 *
 * The common part of the builders of schedules. */
#ifndef IPU_PIPELINE_SCHEDULE_IMPL_H
#define IPU_PIPELINE_SCHEDULE_IMPL_H

#include "pipeline/schedule.h"

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

typedef struct ipu__schedule_row ipu__schedule_row;

/* The two ways to fill lists. `overlap` says how many micro-batches go through the
 * pipeline together: the number of a step's is a multiple of that. */
typedef struct ipu__schedule_builder {
    ipu_status (*overlap)(ipu_ctx *ctx, const ipu__schedule_row *row,
                          const ipu_schedule_request *request, ipu__schedule_size size,
                          uint32_t *out);
    ipu_status (*build)(ipu_ctx *ctx, const ipu__schedule_row *row,
                        const ipu_schedule_request *request, ipu_schedule *schedule);
} ipu__schedule_builder;

/* lockstep.c: a micro-batch makes one pass in each time step and never waits. */
extern const ipu__schedule_builder ipu__lockstep;
/* data_driven.c: stages work through sequences of their own as data comes. */
extern const ipu__schedule_builder ipu__data_driven;

/* The time steps of a round, one for each pass, in which micro-batches set out. */
typedef enum ipu__departures {
    IPU__DEPARTS_ALONE,
    IPU__DEPARTS_WHERE_FREE, /* where an IPU does one thing in a time step */
    IPU__DEPARTS_ALWAYS
} ipu__departures;

/* All that is particular to a schedule (the table is in schedules.c). */
struct ipu__schedule_row {
    const char *name;
    const ipu__schedule_builder *builder;
    /* of rotations; a stage keeps base + slope * (positions after it) micro-batches */
    ipu__departures departs;
    uint32_t stash_base;
    uint32_t stash_slope;
    bool takes_any_count; /* where input and output overlap with it */
    /* of lines */
    bool warms_up_whole;  /* all forwards come before the first backward */
    bool splits_backward; /* into that of inputs and that of weights */
    bool is_round_robin;    /* several stages of an IPU take turns */
};

#endif
