/* SPDX-License-Identifier: MIT
 *
 * A product of our own, shared out to threads, see gemm_share.c. */
#ifndef IPU_KERNELS_GEMM_SHARE_IMPL_H
#define IPU_KERNELS_GEMM_SHARE_IMPL_H

#include "kernels/gemm/gemm_finish_impl.h"
#include "kernels/gemm/gemm_tiles_impl.h"

/* The largest tiles of a class. */
const ipu__tiles *ipu__tiles_of(ipu_cpu_class cpu);

/* How a product is made: what follows from its shape and the class of CPU. */
typedef struct ipu__own_plan {
    ipu_cpu_class cpu;
    const ipu__tiles *tiles;
    ipu__product product; /* sizes, strides, forms; the pointers come with a call */
    bool has_panels;      /* B's */
    bool exchanged;       /* it is C^T = B^T A^T: rows are C's columns */
    int64_t nodes;        /* of the sum over k, which may be made one by one */
    bool is_small;        /* products are made one after another, */
    int64_t apart[3];     /* so many elements apart in A, B and C; */
    int64_t widened;      /* of float16: so many at a time, widened together */
} ipu__own_plan;

/* How many parts there are of the product's rows, in whole row tiles, and of its
 * columns, in whole panels. */
typedef struct ipu__own_cut {
    int64_t rows;
    int64_t columns;
} ipu__own_cut;

typedef struct ipu__own_call {
    const ipu__matmul *matmul;
    const ipu__own_plan *plan;
    const void *a; /* of the plan's type */
    const void *b;
    float *c;
    const float *accumulator; /* as in ipu__product */
    const ipu__sgd *update;
    const ipu__finish *finish;
} ipu__own_call;

/* `halves`: of float16. `at_once`: there will be an accumulator or an update. */
void ipu__own_plan_of(const ipu__matmul *matmul, const ipu_kernel_panels *panels,
                      ipu_cpu_class cpu, bool halves, bool at_once,
                      ipu__own_plan *out);
/* For the threads that there are. It changes no bit. */
ipu__own_cut ipu__own_cut_for(const ipu__own_plan *plan, int64_t threads);
/* Floats that one ipu__own_rectangle needs. */
int64_t ipu__own_scratch(const ipu__own_plan *plan);
/* Bytes that ipu__own_run needs, for any number of threads. */
size_t ipu__own_workspace(const ipu__matmul *matmul, const ipu__own_plan *plan);

/* Rows and columns of C. */
typedef struct ipu__rectangle {
    int64_t row;
    int64_t row_end;
    int64_t column;
    int64_t column_end;
} ipu__rectangle;

/* All of a rectangle of the C of matrix `batch`, with bias and activation: the calling
 * thread alone, with nothing prepared. A cut anywhere gives the same bits; one at
 * multiples of the tiles' size is fastest. */
void ipu__own_rectangle(const ipu__own_call *call, int64_t batch,
                        const ipu__rectangle *part, float *scratch);
/* All matrices, by the threads of the pool. */
void ipu__own_run(const ipu__own_call *call, ipu_pool *pool, float *workspace);

#endif
