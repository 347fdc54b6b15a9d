/* SPDX-License-Identifier: MIT
 *
 * What a graph would cost on an IPU: its steps in program order, and its memory. The
 * graph is read as it stands before anything is fused for the CPU. Values lie on the
 * tiles in equal parts; a product's tiles are the planner's. */
#ifndef IPU_MACHINE_ACCOUNT_H
#define IPU_MACHINE_ACCOUNT_H

#include "base/array.h"
#include "graph/graph.h"
#include "machine/planner.h"

/* X(NAME, text) */
#define IPU_STEP_KINDS(X) \
    X(COMPUTE, compute) \
    X(EXCHANGE, exchange) \
    X(COPY, copy) \
    X(STREAM, stream) \
    X(COLLECTIVE, collective)

typedef enum ipu_step_kind {
#define X(NAME, text) IPU_STEP_##NAME,
    IPU_STEP_KINDS(X)
#undef X
        IPU_STEP_KIND_COUNT
} ipu_step_kind;

typedef struct ipu_account_step {
    ipu_step_kind kind;
    ipu_node node;     /* whose it is */
    const char *part;  /* of the node, for example "reduction" */
    double cycles;     /* of one execution, on the busiest tile */
    double times;      /* executions */
    double tiles;      /* that take part */
    bool is_estimated; /* by arithmetic and bytes alone */
} ipu_account_step;

/* A value that is there when most bytes are live. */
typedef struct ipu_account_tenant {
    ipu_value value;
    double bytes;
} ipu_account_tenant;

typedef struct ipu_account {
    IPU_ARRAY(ipu_account_step) steps;
    double variable_bytes;  /* of all that the graph uses, over all tiles */
    double peak_bytes;      /* of values that are live together, over all tiles */
    ipu_node peak_node;     /* where; IPU_NO_NODE: nowhere */
    double temporary_bytes; /* of a step on its fullest tile, at the most */
    ipu_node temporary_node;
    IPU_ARRAY(ipu_account_tenant) tenants; /* at the peak, the largest first */
    uint32_t pipelines;                    /* that it holds: their IPUs count as one */
    bool has_unknown_turns; /* a loop whose turns are not known counts once */
} ipu_account;

typedef struct ipu_account_options {
    double memory_share; /* of a tile, for the plan of a product */
    ipu_precision half;  /* of products of float16: HALF or MIXED */
} ipu_account_options;

/* Free with ipu_account_free, also after a failure. */
ipu_status ipu_account_of(ipu_ctx *ctx, const ipu_graph *graph, const ipu_chip *chip,
                          const ipu_account_options *options, ipu_account *out);
void ipu_account_free(ipu_ctx *ctx, ipu_account *account);

#endif
