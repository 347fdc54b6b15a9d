/* SPDX-License-Identifier: MIT
 *
 * Products of float64 of our own, see gemm_wide.c. */
#ifndef IPU_KERNELS_GEMM_WIDE_IMPL_H
#define IPU_KERNELS_GEMM_WIDE_IMPL_H

#include "kernels/gemm/gemm_finish_impl.h"

typedef struct ipu__wide_plan {
    const struct wide_form *form; /* NULL: the product is not ours */
    bool exchanged;               /* C^T = B^T A^T is made, a row */
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
} ipu__wide_plan;

typedef struct ipu__wide_call {
    const ipu__matmul *matmul;
    const ipu__wide_plan *plan;
    const double *a;
    const double *b;
    double *c;
    const ipu__finish *finish;
} ipu__wide_call;

void ipu__wide_plan_of(const ipu__matmul *matmul, ipu_cpu_class cpu,
                       ipu__wide_plan *out);
const char *ipu__wide_name(const ipu__wide_plan *plan);
size_t ipu__wide_workspace(const ipu__matmul *matmul, const ipu__wide_plan *plan);
void ipu__wide_run(const ipu__wide_call *call, ipu_pool *pool, void *workspace);

#endif
