/* SPDX-License-Identifier: MIT
 *
 * A pipeline while it is lowered: cut.c says what belongs to which routine and what
 * crosses between them, pipe_carried.c places what is carried from micro-batch to
 * micro-batch, lower_pipeline.c makes the streams. */
#ifndef IPU_PROGRAM_PIPE_IMPL_H
#define IPU_PROGRAM_PIPE_IMPL_H

#include "pipeline/routines.h"
#include "program/lower_impl.h"

typedef struct ipu__pipe_routine {
    ipu_routine what;
    uint32_t stream;
    int32_t begin; /* instructions */
    int32_t end;
} ipu__pipe_routine;

/* A value that one routine makes and another one uses. */
typedef struct ipu__crossing {
    uint32_t from; /* routines */
    uint32_t root;
    uint32_t to;
    int32_t buffer;     /* a ring in which `to` finds it, or IPU__NO_BUFFER */
    int64_t message;    /* that `to` receives it in; -1: none */
    bool is_read_again; /* of a variable in remote memory, by each routine itself */
    int32_t last_use;   /* of the value */
} ipu__crossing;

typedef struct ipu__message {
    uint32_t from; /* routines */
    uint32_t to;
    uint32_t channel;
    uint32_t count; /* of values */
} ipu__message;

typedef struct ipu__pipe {
    lowering *l;
    ipu_node id;
    const ipu_node_data *node;
    ipu_block body;
    uint32_t stage_count;
    const int64_t *devices;
    ipu_schedule *schedule;
    bool is_split;   /* backward stages are in two parts */
    int64_t offload; /* bits of ipu_offload */
    ipu__pipe_routine *routines;
    uint32_t routine_count;
    uint32_t around;     /* the stream of the node */
    int32_t *routine_of; /* per node of the graph; IPU_NO_ROUTINE: none */
    IPU_ARRAY(ipu__crossing) crossings;
    ipu_id_map known; /* crossings that are there already */
    bool *which;      /* scratch: of the carried values */
    IPU_ARRAY(ipu__message) messages;
} ipu__pipe;

static inline bool
ipu__pipe_is_remote(const ipu__pipe *p, int32_t buffer)
{
    return buffer != IPU__NO_BUFFER && p->l->buffers.items[buffer].is_remote;
}

/* --- cut.c ------------------------------------------------------------------------ */

typedef ipu_status ipu__use_fn(ipu__pipe *p, ipu_node user, ipu_value value);
/* Calls `visit` for each value of the graph that a node uses, or a node in a block that
 * it holds. */
ipu_status ipu__pipe_for_each_use(ipu__pipe *p, ipu_node user, ipu__use_fn *visit);
/* A variable, or a queue, belongs to one IPU: UNIMPLEMENTED where several use it. */
ipu_status ipu__pipe_check_variables(ipu__pipe *p);
/* Finds what one routine makes and another one uses, sorted by maker and value. */
ipu_status ipu__pipe_find_crossings(ipu__pipe *p);

/* --- pipe_carried.c --------------------------------------------------------------- */

/* UNIMPLEMENTED where a carried value is used by another stage than the one that
 * changes it, or becomes another one. */
ipu_status ipu__pipe_check_carried(ipu__pipe *p);
/* Gives each a place, and copies the first ones there. */
ipu_status ipu__pipe_place_carried(ipu__pipe *p);
/* Brings a carried value that lies in remote memory into a buffer, for its first user.
 */
ipu__use_fn ipu__pipe_bring_carried;
/* Takes the next values that a node has made back to remote memory. */
ipu_status ipu__pipe_store_carried(ipu__pipe *p, ipu_node maker);
/* Moves the next values that routine r makes to their places, where they were not made
 * there; of IPU_NO_ROUTINE, those that none makes. */
ipu_status ipu__pipe_move_carried(ipu__pipe *p, int32_t r);
/* Brings the last values out of remote memory, for what follows. */
ipu_status ipu__pipe_bring_last_values(ipu__pipe *p);

#endif
