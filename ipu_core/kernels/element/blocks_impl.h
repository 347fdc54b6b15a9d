/* SPDX-License-Identifier: MIT
 *
 * The block functions of one class of processor, as blocks.c looks them up. */
#ifndef IPU_KERNELS_BLOCKS_IMPL_H
#define IPU_KERNELS_BLOCKS_IMPL_H

#include "kernels/core/kernel_impl.h"

typedef struct ipu__block_row {
    ipu_op op;
    ipu_dtype in;
    ipu_dtype out;
    ipu__block_fn *run;
} ipu__block_row;

/* One instantiation of block_loops.h. */
typedef struct ipu__block_form {
    const ipu__block_row *rows;
    size_t count;
    ipu__block_fn *select[4];   /* of elements of 1, 2, 4 and 8 bytes */
    ipu__block_fn *through_f32; /* float16, by the float32 function block->inner */
    ipu__block_fn *cast_by_f32; /* to float16, by block->inner, a cast to float32 */
    ipu__block_fn *to_odd;      /* float64 to float32 for cast_by_f32 */
    void (*halves_to_floats)(float *out, const uint16_t *x, int64_t n);
    void (*floats_to_halves)(uint16_t *out, const float *x, int64_t n);
    ipu__vector_f32 vector;
} ipu__block_form;

extern const ipu__block_form ipu__blocks_generic;
#if defined(__x86_64__)
extern const ipu__block_form ipu__blocks_avx2;
extern const ipu__block_form ipu__blocks_avx512;
#endif

#endif
