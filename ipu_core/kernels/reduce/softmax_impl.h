/* SPDX-License-Identifier: MIT
 *
 * The softmax family of float64 (softmax_wide.c). */
#ifndef IPU_KERNELS_SOFTMAX_IMPL_H
#define IPU_KERNELS_SOFTMAX_IMPL_H

#include "kernels/core/kernel_impl.h"
#include "kernels/reduce/reduce_fold_impl.h"

/* Several rows that are taken together have these at most. */
enum { IPU_BATCH_ELEMENTS = 1024, IPU_BATCH_ROWS = 128 };

typedef struct ipu__wide_rows ipu__wide_rows;

typedef struct ipu__wide_softmax {
    const ipu__wide_rows *loops;
    const ipu__fold *max;
    const ipu__fold *sum;
    ipu__block exp;
    ipu__block log;
} ipu__wide_softmax;

void ipu__wide_softmax_prepare(ipu__wide_softmax *plan, ipu_cpu_class cpu);
/* Rows of the call's op, of n > 0 elements: one, or some of the sizes above at most. */
void ipu__wide_softmax_rows(const ipu__wide_softmax *plan, const ipu_kernel_call *call,
                            int64_t first, int64_t rows, int64_t n);

#endif
