/* SPDX-License-Identifier: MIT
 *
 * Loops over random words for AVX-512. */
#if defined(__x86_64__)
#define RANDOM_FORM ipu__random_avx512
#define RANDOM_TARGET IPU_TARGET_AVX512
#define RANDOM_BLOCKS 8
#include "kernels/random/random_loops.h"
#else
typedef int ipu__random_avx512_is_empty;
#endif
