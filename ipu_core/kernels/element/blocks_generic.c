/* SPDX-License-Identifier: MIT
 *
 * Block functions for the base instruction set. */
#if !defined(__FP_FAST_FMAF)
#define IPU_FMA_BY_DOUBLES
#endif
#define BLOCK_FORM ipu__blocks_generic
#define BLOCK_TARGET
#include "kernels/element/block_loops.h"
