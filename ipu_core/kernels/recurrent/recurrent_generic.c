/* SPDX-License-Identifier: MIT
 *
 * Loops of lstm and gru for the base instruction set. */
#if !defined(__FP_FAST_FMAF)
#define IPU_FMA_BY_DOUBLES
#endif
#define RECURRENT_FORM ipu__recurrent_generic
#define RECURRENT_TARGET
#include "kernels/recurrent/recurrent_loops.h"
