/* SPDX-License-Identifier: MIT
 *
 * A product of our own, shared out to threads, see gemm_share.c. */
#ifndef IPU_KERNELS_GEMM_SHARE_IMPL_H
#define IPU_KERNELS_GEMM_SHARE_IMPL_H

#include "kernels/gemm_finish_impl.h"
#include "kernels/gemm_tiles_impl.h"

typedef struct ipu__own_cut {
    int32_t rows;    /* tasks */
    int32_t columns; /* tasks for each of those */
    bool shared;     /* B is packed once, before */
} ipu__own_cut;

typedef struct ipu__own_call {
    const ipu__matmul *plan;
    ipu__own_cut cut;
    const float *a;
    const float *b;
    float *c;
    const float *accumulator; /* as in ipu__product */
    const ipu__sgd *update;
    const ipu__finish *finish;
} ipu__own_call;

bool ipu__own_serves(const ipu__matmul *plan, ipu_cpu_class cpu);
/* `at_once`: there is an accumulator or an update. */
ipu__own_cut ipu__own_cut_of(const ipu__matmul *plan, bool at_once);
size_t ipu__own_workspace(const ipu__matmul *plan, const ipu__own_cut *cut,
                          bool at_once);
void ipu__own_run(const ipu__own_call *call, ipu_pool *pool, float *workspace);

#endif
