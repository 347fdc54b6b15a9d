/* SPDX-License-Identifier: MIT
 *
 * Collectives: the results of replicas where they meet.
 *
 * A sum over a group of replicas is a tree that the group's size alone decides: of n
 * replicas the first 2^k, 2^k < n <= 2^(k+1), are one branch and the rest is the other.
 * Whoever adds, whatever part of the tree: the bits are the same. float16 is added in
 * float32 and rounded once, at the root. */
#ifndef IPU_KERNELS_COLLECTIVE_H
#define IPU_KERNELS_COLLECTIVE_H

#include "kernels/core/kernel.h"

/* How many replicas that follow each other meet at this op, of so many. */
uint32_t ipu_collective_group(const ipu_kernel_spec *spec, uint32_t replicas);
/* Whether so many replicas can meet at this op. */
ipu_status ipu_collective_check(ipu_ctx *ctx, const ipu_kernel_spec *spec,
                                uint32_t replicas);
/* --- parts of a sum --------------------------------------------------------------- */

/* The sum of the replicas from `first` to before `last` of a group, a node of its tree:
 * of the op's dtype where that is one replica, else of ipu_sum_dtype. */
typedef struct ipu_sum_term {
    uint32_t first;
    uint32_t last;
    bool is_wide;  /* of ipu_sum_dtype */
    int64_t begin; /* the element that `data` begins with */
    const void *data;
} ipu_sum_term;

typedef struct ipu_sum {
    const ipu_kernel_spec *spec;
    uint32_t group;            /* replicas */
    uint32_t first;            /* the node */
    uint32_t last;
    const ipu_sum_term *terms; /* by number, which cover it */
    int64_t begin;             /* elements */
    int64_t end;
    void *const *outputs;      /* an output may be a term's data */
    int64_t output_begin;      /* the element that the outputs begin with */
    uint32_t output_count;
    bool is_partial;           /* the outputs are a term, wide; else the result */
} ipu_sum;

/* The dtype of unfinished sums. */
ipu_dtype ipu_sum_dtype(const ipu_kernel_spec *spec);
/* Where the tree is cut that sums from `first` to before `last`, two or more. */
uint32_t ipu_sum_cut(uint32_t first, uint32_t last);
/* Allocates nothing. */
void ipu_sum_run(const ipu_sum *sum, ipu_pool *pool);

#endif
