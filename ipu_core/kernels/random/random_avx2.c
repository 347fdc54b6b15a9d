/* SPDX-License-Identifier: MIT
 *
 * Loops over random words for AVX2. */
#if defined(__x86_64__)
#define RANDOM_FORM ipu__random_avx2
#define RANDOM_TARGET IPU_TARGET_AVX2
#define RANDOM_BLOCKS 4
#include "kernels/random/random_loops.h"
#else
typedef int ipu__random_avx2_is_empty;
#endif
