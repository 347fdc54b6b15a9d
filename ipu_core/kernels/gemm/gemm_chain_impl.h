/* SPDX-License-Identifier: MIT
 *
 * Products of float64 and of integers by our own kernels, see gemm_chain.c. */
#ifndef IPU_KERNELS_GEMM_CHAIN_IMPL_H
#define IPU_KERNELS_GEMM_CHAIN_IMPL_H

#include "kernels/gemm/gemm_finish_impl.h"

typedef struct ipu__chain_plan {
    const struct chain_form *form; /* NULL: the product is not ours */
    int64_t bytes;                 /* of an element */
    bool is_float; /* float64 */
    bool by_dots;
    bool exchanged; /* C^T = B^T A^T is made, a row */
    bool is_walk;   /* some rows of B at a time, all along */
    bool packs_a;
    bool packs_b; /* all panels, not only the last one */
    int64_t m;    /* of what is made */
    int64_t n;
    int64_t a_row;
    int64_t a_col;
    int64_t b_row;
    int64_t b_col;
    int64_t chunk; /* of k */
    int64_t block; /* rows of A that are packed at a time */
} ipu__chain_plan;

typedef struct ipu__chain_call {
    const ipu__matmul *matmul;
    const ipu__chain_plan *plan;
    const void *a;
    const void *b;
    void *c;
    const ipu__finish *finish;
} ipu__chain_call;

void ipu__chain_plan_of(const ipu__matmul *matmul, ipu_dtype dtype, ipu_cpu_class cpu,
                        ipu__chain_plan *out);
const char *ipu__chain_name(const ipu__chain_plan *plan);
size_t ipu__chain_workspace(const ipu__matmul *matmul, const ipu__chain_plan *plan);
void ipu__chain_run(const ipu__chain_call *call, ipu_pool *pool, void *workspace);

#endif
