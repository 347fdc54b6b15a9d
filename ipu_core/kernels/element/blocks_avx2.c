/* SPDX-License-Identifier: MIT
 *
 * Block functions for AVX2, FMA and F16C. */
#if defined(__x86_64__)
#define BLOCK_FORM ipu__blocks_avx2
#define BLOCK_TARGET IPU_TARGET_AVX2
#define BLOCK_F16C 8
#include "kernels/element/block_loops.h"
#else
typedef int ipu__blocks_avx2_is_empty;
#endif
