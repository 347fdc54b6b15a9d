/* SPDX-License-Identifier: MIT
 *
 * Bias and activation of a product's rows, or their way into an accumulator, while they
 * are in the cache, by the functions that the separate ops use: fused and unfused forms
 * have the same bits. Any thread. */
#include "kernels/gemm/gemm_finish_impl.h"

/* A row of sums, which are columns [column, ...) of the product, by the functions of
 * single ops. */
static void
finish_by_blocks(const ipu__finish *finish, void *sums, int64_t columns, int64_t column)
{
    enum { PIECE = IPU_BLOCK_BYTES / 4 };
    const int64_t bytes = finish->halves != NULL ? 2 : finish->bytes;
    char *out = sums;
    if (finish->halves != NULL) {
        out = (char *)(finish->halves + ((const float *)sums - finish->product));
    }
    for (int64_t j = 0; j < columns; j += PIECE, out += PIECE * bytes) {
        int64_t count = ipu__min(columns - j, PIECE);
        if (finish->halves != NULL) {
            ipu__floats_to_halves((void *)out, (const float *)sums + j, count,
                                  finish->cpu);
        }
        if (finish->typed_bias != NULL) {
            (void)finish->add->run(finish->add, out, out,
                                   ipu__at(finish->typed_bias, (column + j) * bytes),
                                   NULL, count);
        }
        if (finish->activate != NULL) {
            (void)finish->activate->run(finish->activate, out, out, NULL, NULL, count);
        }
    }
}

void
ipu__finish_rows(const ipu__finish *finish, void *sums, int64_t row, int64_t rows,
                 int64_t columns, int64_t column)
{
    const bool by_blocks = finish->halves != NULL || finish->bytes != 0;
    const int64_t bytes = finish->bytes != 0 ? finish->bytes : 4;
    float *c = sums;
    const ipu__vector_f32 *vector = finish->vector;
    if (row == columns && finish->bias == NULL && finish->typed_bias == NULL) {
        columns *= rows; /* all as one row */
        rows = 1;
    }
    for (int64_t i = 0; finish->total != NULL && i < rows; i++) {
        int64_t at = c + i * row - finish->product;
        vector->add(finish->total + at, finish->accumulator + at, c + i * row, columns);
    }
    for (int64_t i = 0; by_blocks && i < rows; i++) {
        finish_by_blocks(finish, ipu__at_mutable(sums, i * row * bytes), columns, column);
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
