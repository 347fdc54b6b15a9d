/* SPDX-License-Identifier: MIT
 *
 * The softmax family of float64, row by row (softmax_wide.c). */
#ifndef IPU_KERNELS_SOFTMAX_IMPL_H
#define IPU_KERNELS_SOFTMAX_IMPL_H

#include "kernels/core/kernel_impl.h"
#include "kernels/reduce/reduce_fold_impl.h"

typedef struct ipu__wide_rows ipu__wide_rows;

typedef struct ipu__wide_softmax {
    const ipu__wide_rows *loops;
    const ipu__fold *max;
    const ipu__fold *sum;
    ipu__block exp;
} ipu__wide_softmax;

void ipu__wide_softmax_prepare(ipu__wide_softmax *plan, ipu_cpu_class cpu);
/* Row `row` of the call's op, of n > 0 elements. */
void ipu__wide_softmax_row(const ipu__wide_softmax *plan, const ipu_kernel_call *call,
                           int64_t row, int64_t n);

#endif
