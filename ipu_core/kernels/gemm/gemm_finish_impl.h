/* SPDX-License-Identifier: MIT
 *
 * The last steps of a product, done to its rows as they are made; see gemm_finish.c. */
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
    /* or: of types other than float32, ops one by one; the product rounded to float16
     * goes to `halves` first */
    uint16_t *halves;
    int64_t bytes;          /* of an element of other types */
    const void *typed_bias; /* of the result's type, or NULL */
    const ipu__block *add;
    const ipu__block *activate; /* or NULL */
    ipu_cpu_class cpu;
} ipu__finish;

/* `rows` rows of `columns` at c, `row` elements apart, which are columns [column, ...) of
 * the product. */
void ipu__finish_rows(const ipu__finish *finish, void *c, int64_t row, int64_t rows,
                      int64_t columns, int64_t column);

#endif
