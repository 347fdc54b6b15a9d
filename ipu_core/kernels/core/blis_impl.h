/* SPDX-License-Identifier: MIT
 *
 * Products by BLIS, see blis.c. */
#ifndef IPU_KERNELS_BLIS_IMPL_H
#define IPU_KERNELS_BLIS_IMPL_H

#include "kernels/core/kernel.h"

/* BLIS's name for the instructions and the machine that a context is made for. */
typedef enum ipu__blis_context {
    IPU_BLIS_OWN_CHOICE, /* architectures other than x86-64 */
    IPU_BLIS_GENERIC,
    IPU_BLIS_HASWELL,
    IPU_BLIS_ZEN3,
    IPU_BLIS_SKX,
    IPU_BLIS_CONTEXT_COUNT
} ipu__blis_context;

/* C[m,n] = beta C + alpha A[m,k] B[k,n]. Strides in elements. */
typedef struct ipu__blis_product {
    int64_t m;
    int64_t n;
    int64_t k; /* at least 1 */
    const void *a;
    int64_t a_row;
    int64_t a_col;
    const void *b;
    int64_t b_row;
    int64_t b_col;
    void *c;
    int64_t c_row;
    int64_t c_col;
    bool wide; /* float64 */
    double alpha;
    double beta; /* 0: C is not read */
} ipu__blis_product;

const char *ipu__blis_name(ipu__blis_context context);
/* Before any other call: fails where this BLIS lacks a context of the class. */
ipu_status ipu__blis_check(ipu_ctx *ctx, ipu_cpu_class cpu);
/* For a product of m by k by n. */
ipu__blis_context ipu__blis_context_for(int64_t m, int64_t n, int64_t k,
                                        ipu_cpu_class cpu);
/* By the calling thread. The bits depend on all sizes: who cuts a product cuts it by its
 * shape alone. */
void ipu__blis_multiply(ipu__blis_context context, const ipu__blis_product *product);

#endif
