/* SPDX-License-Identifier: MIT
 *
 * Loops of lstm and gru for AVX2. */
#if defined(__x86_64__)
#define RECURRENT_FORM ipu__recurrent_avx2
#define RECURRENT_TARGET IPU_TARGET_AVX2
#include "kernels/recurrent/recurrent_loops.h"
#else
typedef int ipu__recurrent_avx2_is_empty;
#endif
