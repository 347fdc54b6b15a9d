/* SPDX-License-Identifier: MIT
 *
 * Bias and activation of a product's rows, or their way into an accumulator, while they
 * are in the cache, by the functions that the separate ops use: fused and unfused forms
 * have the same bits. Any thread. */
#include "kernels/gemm/gemm_finish_impl.h"

/* A row of sums, which are columns [column, ...) of the product. */
static void
finish_halves(const ipu__finish *finish, const float *sums, int64_t columns,
              int64_t column)
{
    enum { PIECE = IPU_BLOCK_BYTES / 4 };
    for (int64_t j = 0; j < columns; j += PIECE) {
        int64_t count = ipu__min(columns - j, PIECE);
        uint16_t *out = finish->halves + (sums + j - finish->product);
        ipu__floats_to_halves(out, sums + j, count, finish->cpu);
        if (finish->half_bias != NULL) {
            (void)finish->add->run(finish->add, out, out,
                                   finish->half_bias + column + j, NULL, count);
        }
        if (finish->activate != NULL) {
            (void)finish->activate->run(finish->activate, out, out, NULL, NULL, count);
        }
    }
}

void
ipu__finish_rows(const ipu__finish *finish, float *c, int64_t row, int64_t rows,
                 int64_t columns, int64_t column)
{
    const ipu__vector_f32 *vector = finish->vector;
    for (int64_t i = 0; finish->total != NULL && i < rows; i++) {
        const float *sums = c + i * row;
        int64_t at = sums - finish->product;
        vector->add(finish->total + at, finish->accumulator + at, sums, columns);
    }
    for (int64_t i = 0; finish->halves != NULL && i < rows; i++) {
        finish_halves(finish, c + i * row, columns, column);
    }
    if (finish->bias == NULL && finish->activation == IPU_ACTIVATION_NONE) {
        return;
    }
    for (int64_t i = 0; i < rows; i++, c += row) {
        if (finish->bias != NULL) {
            vector->add(c, c, finish->bias + column, columns);
        }
        switch (finish->activation) {
        case IPU_ACTIVATION_NONE:
            break;
        case IPU_ACTIVATION_RELU:
            vector->relu(c, c, columns);
            break;
        case IPU_ACTIVATION_TANH:
            vector->tanh(c, c, columns);
            break;
        case IPU_ACTIVATION_SIGMOID:
            vector->sigmoid(c, c, columns);
            break;
        }
    }
}
