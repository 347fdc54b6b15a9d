/* SPDX-License-Identifier: MIT
 *
 * A product by BLIS, shared out to threads, see gemm_blis.c. */
#ifndef IPU_KERNELS_GEMM_BLIS_IMPL_H
#define IPU_KERNELS_GEMM_BLIS_IMPL_H

#include "kernels/core/blis_impl.h"
#include "kernels/gemm/gemm_finish_impl.h"

/* A choice as it is stored in a spec: context, and the size of the tiles. */
typedef struct ipu__blis_choice {
    ipu__blis_context context;
    int64_t tile_rows;
    int64_t tile_columns;
} ipu__blis_choice;

typedef struct ipu__blis_call {
    const ipu__matmul *plan;
    ipu__blis_choice choice;
    bool wide; /* float64 */
    const void *a;
    const void *b;
    void *c;
    const ipu__finish *finish;
} ipu__blis_call;

/* Fails where this BLIS cannot be used. */
ipu_status ipu__blis_choose(ipu_ctx *ctx, const ipu__matmul *plan, ipu_cpu_class cpu,
                            ipu__blis_choice *out);
ipu_status ipu__blis_run(const ipu__blis_call *call, ipu_pool *pool, ipu_ctx *ctx);

#endif
