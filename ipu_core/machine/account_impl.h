/* SPDX-License-Identifier: MIT
 *
 * An account while it is made: placing.c says on which IPU nodes and values are,
 * layouts.c on which tiles of it values lie,
 * account.c lists the steps and their times, pipeline_time.c those of pipelines,
 * code_size.c what the program itself takes, occupancy.c what is live, places.c where
 * that lies on a tile. */
#ifndef IPU_MACHINE_ACCOUNT_IMPL_H
#define IPU_MACHINE_ACCOUNT_IMPL_H

#include "base/arena.h"
#include "base/id_map.h"
#include "graph/users.h"
#include "machine/account.h"
#include "machine/node_steps.h"
#include "pipeline/routines.h"

/* A value that a routine makes and another one, or another IPU, uses. Outside of
 * pipelines both routines are IPU_NO_ROUTINE. */
typedef struct ipu__passage {
    ipu_value value;
    int32_t from; /* routines */
    int32_t to;
    int32_t ipu;     /* that uses it */
    uint32_t number; /* of its first user */
    uint32_t last;   /* of its last one there */
} ipu__passage;

/* Numbers of nodes; `last` is 0 where nobody uses it. */
typedef struct ipu__lifetime {
    uint32_t first;
    uint32_t last;
} ipu__lifetime;

typedef struct ipu__staged {
    ipu_node node;
    uint32_t stage_count;
    const int64_t *devices;
    ipu_schedule *schedule;
    int64_t offload; /* bits of ipu_offload */
} ipu__staged;

typedef struct ipu__accounting {
    ipu_ctx *ctx;
    const ipu_graph *graph;
    const ipu_chip *chip;
    ipu_account_options options;
    ipu_account *out;
    ipu_arena arena;
    ipu_plans *plans;
    IPU_ARRAY(ipu__staged) staged;
    int32_t *ipu_of;     /* by node */
    int32_t *routine_of; /* by node; those in blocks inside included */
    int32_t *home;       /* by value: its IPU */
    int32_t *owner;      /* by resource: its IPU; -1: not known */
    uint32_t ipu_count;
    uint32_t count;   /* numbers given */
    ipu_node *nodes;  /* by number */
    double *temporaries; /* by number: bytes of a tile while it runs */
    uint32_t *ends;   /* by node: the last number inside of it */
    uint32_t *starts; /* by node: its number */
    ipu__lifetime *lives;
    bool *is_counted; /* by resource */
    ipu_uses uses;
    ipu_mapping *mappings; /* by value */
    ipu_mapping *held;     /* by resource: of a variable */
    uint32_t *next_tiles;  /* by IPU: after the last value that lies in order */
    double *clocks;   /* by IPU */
    IPU_ARRAY(ipu_type) types;     /* of the node that is walked: of all operands, then
                                      of its results or variables */
    IPU_ARRAY(ipu_mapping) inputs; /* likewise: of the operands */
    IPU_ARRAY(ipu__passage) passages;
    ipu_id_map known;      /* passages that are there */
    ipu_id_map coded;      /* steps whose code is there */
    size_t sized;          /* steps that are counted there */
    uint32_t routine_room; /* numbers of routines, and one for none */
    double times;          /* executions of the block that is walked */
    double counted;        /* of what the clocks count: a turn, or a micro-batch */
    double once;           /* of the pipeline around it, or of the block */
    ipu__staged *inside;   /* the pipeline that is walked; NULL: none */
    ipu_account_pipeline *timed; /* likewise */
} ipu__accounting;

static inline uint32_t
ipu__stage_of_routine(uint32_t stage_count, int32_t routine)
{
    uint32_t r = (uint32_t)routine;
    return r < stage_count ? r : stage_count - 1 - (r - stage_count) / 2;
}

/* What a view shows. */
ipu_value ipu__machine_shown(const ipu_graph *graph, ipu_value value);
/* Fills ipu_of, routine_of, home, owner, ipu_count and staged. */
ipu_status ipu__machine_place(ipu__accounting *a);
/* Of a node's results, whose operands have theirs; of the parameters of a block. */
void ipu__machine_lay_out(ipu__accounting *a, const ipu_node_data *node);
void ipu__machine_lay_out_params(ipu__accounting *a, ipu_block block);
/* Of a variable. */
ipu_mapping ipu__machine_held(ipu__accounting *a, uint32_t resource, int32_t ipu);
/* Of a pipeline whose routines have their cycles: its time steps. */
ipu_status ipu__machine_time_pipeline(ipu__accounting *a, const ipu__staged *staged,
                                      ipu_account_pipeline *pipeline);
/* Of the steps since the last call: what their code takes. */
ipu_status ipu__machine_size_code(ipu__accounting *a);
void ipu__machine_sum_code(ipu__accounting *a);
/* Fills tenants and memories. */
ipu_status ipu__machine_occupy(ipu__accounting *a);
/* Of these: what lies where on the fullest tile of each IPU. */
ipu_status ipu__machine_find_places(ipu__accounting *a);

#endif
