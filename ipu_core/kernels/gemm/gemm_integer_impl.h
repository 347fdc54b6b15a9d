/* SPDX-License-Identifier: MIT
 *
 * Products of integers, see gemm_integer.c. */
#ifndef IPU_KERNELS_GEMM_INTEGER_IMPL_H
#define IPU_KERNELS_GEMM_INTEGER_IMPL_H

#include "kernels/core/kernel_impl.h"

/* Of matmul alone. */
ipu_choose_fn ipu__choose_integers;

#endif
