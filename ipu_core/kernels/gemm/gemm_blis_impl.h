/* SPDX-License-Identifier: MIT
 *
 * A product by BLIS, shared out to threads, see gemm_blis.c. */
#ifndef IPU_KERNELS_GEMM_BLIS_IMPL_H
#define IPU_KERNELS_GEMM_BLIS_IMPL_H

#include "kernels/gemm/gemm_finish_impl.h"

/* BLIS's name for the instructions and the machine that a context is made for. */
typedef enum ipu__blis_context {
    IPU_BLIS_OWN_CHOICE, /* architectures other than x86-64 */
    IPU_BLIS_GENERIC,
    IPU_BLIS_HASWELL,
    IPU_BLIS_ZEN3,
    IPU_BLIS_SKX,
    IPU_BLIS_CONTEXT_COUNT
} ipu__blis_context;

/* A choice as it is stored in a spec: context, and the size of the tiles. */
typedef struct ipu__blis_choice {
    ipu__blis_context context;
    int64_t tile_rows;
    int64_t tile_columns;
} ipu__blis_choice;

typedef struct ipu__blis_call {
    const ipu__matmul *plan;
    ipu__blis_choice choice;
    const float *a;
    const float *b;
    float *c;
    const ipu__finish *finish;
} ipu__blis_call;

const char *ipu__blis_name(ipu__blis_context context);
/* Fails where this BLIS cannot be used. */
ipu_status ipu__blis_choose(ipu_ctx *ctx, const ipu__matmul *plan, ipu_cpu_class cpu,
                            ipu__blis_choice *out);
ipu_status ipu__blis_run(const ipu__blis_call *call, ipu_pool *pool, ipu_ctx *ctx);

/* Before any call of BLIS, of its BLAS too: FAILED_PRECONDITION where the environment
 * would have it end the process. */
ipu_status ipu__blis_initialise(ipu_ctx *ctx);

#endif
