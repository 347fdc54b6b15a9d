/* SPDX-License-Identifier: MIT
 *
 * Loops of lstm and gru for AVX-512. */
#if defined(__x86_64__)
#define RECURRENT_FORM ipu__recurrent_avx512
#define RECURRENT_TARGET IPU_TARGET_AVX512
#include "kernels/recurrent/recurrent_loops.h"
#else
typedef int ipu__recurrent_avx512_is_empty;
#endif
