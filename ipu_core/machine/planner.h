/* SPDX-License-Identifier: MIT
 *
 * How a product is spread over the tiles of a chip, and what it takes: a matmul is a
 * convolution with a 1x1 kernel (rows are the field, k the input channels, n the output
 * channels, a batch of matmuls the groups). After poplin's planner, see
 * docs/machine.md. Pure functions. */
#ifndef IPU_MACHINE_PLANNER_H
#define IPU_MACHINE_PLANNER_H

#include <stdbool.h>

#include "machine/chip.h"

/* The dtypes of the inputs and of the partial sums. */
typedef enum ipu_precision {
    IPU_PRECISION_HALF,  /* half, half */
    IPU_PRECISION_MIXED, /* half, float */
    IPU_PRECISION_FLOAT, /* float, float */
    IPU_PRECISION_COUNT
} ipu_precision;

/* The dimensions that are split over tiles. Splits of KERNEL and IN leave partial sums.
 */
typedef enum ipu_product_dim {
    IPU_PRODUCT_BATCH,
    IPU_PRODUCT_ROWS,
    IPU_PRODUCT_COLUMNS,
    IPU_PRODUCT_GROUPS,
    IPU_PRODUCT_KERNEL, /* its rows */
    IPU_PRODUCT_IN,     /* input channels, in groups of a vertex */
    IPU_PRODUCT_OUT,    /* output channels, in groups of a vertex */
    IPU_PRODUCT_DIMS
} ipu_product_dim;

typedef struct ipu_product {
    int64_t batch;
    int64_t groups;
    int64_t in;  /* channels of a group */
    int64_t out; /* channels of a group */
    /* rows, columns: of the output, the input, the kernel */
    int64_t field[2];
    int64_t input[2];
    int64_t kernel[2];
    int64_t stride[2];
    int64_t precision; /* ipu_precision; no byte of the struct is padding */
} ipu_product;

typedef enum ipu_product_vertex {
    IPU_VERTEX_AMP,   /* the matrix unit */
    IPU_VERTEX_VMAC,  /* a vector of groups of one channel each */
    IPU_VERTEX_HMAC,  /* a dot product for each output */
    IPU_VERTEX_OUTER, /* one input channel and no window: multiplications */
    IPU_VERTEX_SLIC,  /* the matrix unit, on groups of few channels each */
    IPU_VERTEX_COUNT
} ipu_product_vertex;

typedef struct ipu_product_split {
    ipu_product_vertex vertex;
    int64_t parts[IPU_PRODUCT_DIMS]; /* in parallel; their product is the tiles used */
    /* parts of the channels that run after each other */
    int64_t serial_in;
    int64_t serial_out;
    /* bits of the kernel's axes, rows and columns, whose positions are input channels:
     * these fill the groups of a vertex better than few channels do */
    int64_t expanded;
} ipu_product_split;

/* Cycles of all serial parts. */
typedef struct ipu_product_cost {
    double inputs;     /* exchange */
    double weights;    /* exchange */
    double arithmetic; /* the vertices of the longest tile */
    double partials;   /* exchange */
    double reduction;  /* of partial sums, or the cast of one */
    double copies;     /* into another order, of slices; with their starts */
    double overheads;  /* other syncs and launches */
    double cycles;     /* of all, times the chip's slowdown */
    double bytes;      /* of the fullest tile, beside the operands and the result */
} ipu_product_cost;

typedef struct ipu_product_plan {
    ipu_product_split split;
    ipu_product_cost cost;
} ipu_product_plan;

const char *ipu_product_vertex_name(ipu_product_vertex vertex);

/* INVALID_ARGUMENT where a size is less than 1, or there are too many to count. */
ipu_status ipu_product_check(ipu_ctx *ctx, const ipu_product *product);

/* Of a split whose parts are at least 1: of the product as it is planned, with its axes
 * expanded, and without a window its batch and columns as rows. */
ipu_product_cost ipu_product_cost_of(const ipu_chip *chip, const ipu_product *product,
                                     const ipu_product_split *split);

/* The split of fewest cycles, and of those of fewest bytes, among all that take at most
 * `memory_share` of a tile's bytes. Where none does, the share is doubled until one
 * does or it exceeds two tiles, and then dropped. */
ipu_product_plan ipu_product_plan_of(const ipu_chip *chip, const ipu_product *product,
                                     double memory_share);
/* At least what that plan takes, or more than two tiles. Not searched for. */
double ipu_product_most_bytes(const ipu_chip *chip, const ipu_product *product,
                              double memory_share);
double ipu_product_tiles(const ipu_product_split *split);

#endif
