/* SPDX-License-Identifier: MIT
 *
 * What is done to the rows of a product when they are made, see gemm_finish.c. */
#ifndef IPU_KERNELS_GEMM_FINISH_IMPL_H
#define IPU_KERNELS_GEMM_FINISH_IMPL_H

#include "kernels/core/kernel_impl.h"

typedef struct ipu__finish {
    const ipu__vector_f32 *vector;
    const float *bias; /* or NULL */
    ipu_activation activation;
    /* or: accumulator + product goes to `total`, which may be the accumulator */
    const float *product;
    const float *accumulator;
    float *total;
    /* or: the product, rounded to float16, goes here, where `add` and `activate` round
     * again */
    uint16_t *halves;
    const uint16_t *half_bias; /* or NULL */
    const ipu__block *add;
    const ipu__block *activate; /* or NULL */
    ipu_cpu_class cpu;
} ipu__finish;

/* `rows` rows of `columns` at c, `row` floats apart, which are columns [column, ...) of
 * the product. */
void ipu__finish_rows(const ipu__finish *finish, float *c, int64_t row, int64_t rows,
                      int64_t columns, int64_t column);

#endif
