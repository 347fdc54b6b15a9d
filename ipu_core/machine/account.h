/* SPDX-License-Identifier: MIT
 *
 * What a graph would cost on IPUs: its steps in program order, the time of its
 * pipelines, and the memory of each IPU. The graph is read as it stands before anything
 * is fused for the CPU. */
#ifndef IPU_MACHINE_ACCOUNT_H
#define IPU_MACHINE_ACCOUNT_H

#include "base/array.h"
#include "graph/graph.h"
#include "machine/mapping.h"
#include "machine/plans.h"

/* X(NAME, text) */
#define IPU_STEP_KINDS(X) \
    X(COMPUTE, compute) \
    X(EXCHANGE, exchange) /* between tiles, or between IPUs */ \
    X(SYNC, sync)         /* of all tiles, before an exchange between them */ \
    X(COPY, copy) \
    X(STREAM, stream) /* between host and IPU */ \
    X(REMOTE, remote) /* between remote memory and IPU */ \
    X(COLLECTIVE, collective)

typedef enum ipu_step_kind {
#define X(NAME, text) IPU_STEP_##NAME,
    IPU_STEP_KINDS(X)
#undef X
        IPU_STEP_KIND_COUNT
} ipu_step_kind;

typedef struct ipu_account_step {
    ipu_step_kind kind;
    ipu_node node;    /* whose it is */
    const char *part; /* of the node, for example "reduction" */
    double start;     /* cycles from the beginning to its first execution */
    double cycles;    /* of one execution, on the busiest tile */
    double times;     /* executions */
    double tiles;     /* that take part */
    uint32_t number;  /* of the node, from 1 on, in program order */
    int32_t ipu;
    int32_t routine;   /* of the pipeline that it is in; IPU_NO_ROUTINE: of none */
    bool is_estimated; /* by arithmetic and bytes alone */
} ipu_account_step;

/* A value while it is live, on one IPU. */
typedef struct ipu_account_tenant {
    ipu_value value;
    ipu_mapping mapping;
    int32_t ipu;
    uint32_t copies; /* micro-batches that are kept, in a pipeline; else 1 */
    uint32_t first;  /* numbers of nodes */
    uint32_t last;
    double bytes; /* of all copies, over all tiles */
} ipu_account_tenant;

/* A variable, or a constant that the graph holds: there all the time. */
typedef struct ipu_account_resident {
    uint32_t resource; /* IPU_NO_INDEX: a constant */
    ipu_node node;     /* that is the first to use it */
    ipu_mapping mapping;
    int32_t ipu;
    double bytes;
} ipu_account_resident;

typedef IPU_ARRAY(double) ipu_bytes_list;

/* X(NAME, text): what a program itself takes on each tile. */
#define IPU_CODE_KINDS(X) \
    X(STACKS, stacks) \
    X(CONTROL, control) \
    X(VERTICES, vertices) /* their code and state */ \
    X(EXCHANGE, exchange) \
    X(HOST, host_buffers) /* for what comes from the host, or goes there */

typedef enum ipu_code_kind {
#define X(NAME, text) IPU_CODE_##NAME,
    IPU_CODE_KINDS(X)
#undef X
        IPU_CODE_KIND_COUNT
} ipu_code_kind;

/* Where something lies on the fullest tile of an IPU. Code lies from address 0 on, all
 * else from the end of the memory downwards, so that data take the interleaved region
 * first, which code cannot run from. */
typedef struct ipu_account_place {
    enum {
        IPU_PLACE_RESIDENT,
        IPU_PLACE_TENANT,
        IPU_PLACE_TEMPORARY
    } kind;
    uint32_t index; /* of the resident or tenant; the node of a temporary one */
    int32_t ipu;
    double address; /* below 0: there is no room for it */
    double bytes;
    uint32_t first; /* numbers of nodes */
    uint32_t last;
} ipu_account_place;

typedef struct ipu_account_memory {
    double variable_bytes;  /* and of constants, over all tiles */
    double code_bytes;      /* of code, its state and stacks, on each tile: of all ... */
    double code[IPU_CODE_KIND_COUNT]; /* ... kinds */
    double peak_bytes;      /* of values that are live together, over all tiles */
    ipu_node peak_node;     /* where; IPU_NO_NODE: nowhere */
    uint32_t peak;          /* its number */
    double temporary_bytes; /* of a step on its fullest tile, at the most */
    ipu_node temporary_node;
    double remote_bytes; /* that lie outside of the IPU */
    ipu_bytes_list tiles; /* on each at the peak, without temporary ones */
    uint32_t fullest_tile;
    double end_bytes; /* of it, with temporary ones and gaps */
} ipu_account_memory;

typedef IPU_ARRAY(double) ipu_cycles_list;

/* All IPUs exchange at the end of a time step, which is as long as the longest takes.
 */
typedef struct ipu_account_pipeline {
    ipu_node node;
    double start;  /* of its first execution */
    double cycles; /* of one execution */
    double busy;   /* of them, summed over IPUs */
    uint32_t ipus;
    uint32_t micro_batches;
    bool is_split;
    ipu_cycles_list routines; /* of one micro-batch, by number (pipeline/routines.h) */
    ipu_cycles_list sends;    /* likewise, to other IPUs */
    ipu_cycles_list steps;    /* when each time step starts, and the end of the last */
} ipu_account_pipeline;

typedef struct ipu_account {
    double cycles; /* of all */
    IPU_ARRAY(ipu_account_step) steps;
    IPU_ARRAY(ipu_account_tenant) tenants;
    IPU_ARRAY(ipu_account_resident) residents;
    IPU_ARRAY(ipu_account_memory) memories; /* by IPU */
    IPU_ARRAY(ipu_account_place) places;
    IPU_ARRAY(ipu_account_pipeline) pipelines;
    bool has_unknown_turns; /* a loop whose turns are not known counts once */
} ipu_account;

typedef enum ipu_product_class {
    IPU_MATMULS,
    IPU_CONVOLUTIONS,
    IPU_PRODUCT_CLASS_COUNT
} ipu_product_class;

typedef struct ipu_account_options {
    struct {
        double memory_share; /* of a tile, for a plan */
        ipu_precision half;  /* of float16: HALF or MIXED */
    } products[IPU_PRODUCT_CLASS_COUNT];
    bool has_places;       /* the account says what lies where on the fullest tiles */
    bool is_memory_alone;  /* no steps are kept, and no times */
    bool is_bound;         /* and no product is planned: each takes what a plan may */
    double slice_share;    /* of a tile, for what a lookup of rows brings */
    bool has_stable_norms; /* the mean is subtracted before squares are summed */
    bool has_joint_plans;  /* the three products of a fully connected layer share one */
    double replicas;       /* 0: as many as `ipus` IPUs are enough for */
    double ipus;
    double replica_ipus; /* of each; found with the account */
} ipu_account_options;

/* Finds whether each IPU has room for what lies on it, by as little as tells: the sizes
 * of all values, an account of bounds, one of the memory. Fails as ipu_account_of does.
 */
ipu_status ipu_account_fits(ipu_ctx *ctx, const ipu_graph *graph, const ipu_chip *chip,
                            const ipu_account_options *options, ipu_plans *plans,
                            bool *out);

/* Fails as ipu_pipeline_schedule does. Free with ipu_account_free, also after a
 * failure. */
ipu_status ipu_account_of(ipu_ctx *ctx, const ipu_graph *graph, const ipu_chip *chip,
                          const ipu_account_options *options, ipu_plans *plans,
                          ipu_account *out);
void ipu_account_free(ipu_ctx *ctx, ipu_account *account);
const ipu_type *ipu_account_resident_type(const ipu_graph *graph,
                                          const ipu_account_resident *resident);

#endif
