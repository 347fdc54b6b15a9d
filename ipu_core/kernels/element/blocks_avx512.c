/* SPDX-License-Identifier: MIT
 *
 * Block functions for AVX-512. */
#if defined(__x86_64__)
#define BLOCK_FORM ipu__blocks_avx512
#define BLOCK_TARGET IPU_TARGET_AVX512
#define BLOCK_F16C 16
#define IPU_WIDE_CONVERSIONS /* vectors of int64 become float64 */
#include "kernels/element/block_loops.h"
#else
typedef int ipu__blocks_avx512_is_empty;
#endif
