/* SPDX-License-Identifier: MIT
 *
 * The same for numbers that come from float16: a float32 has the 22 bits of their
 * product, so that a product and a sum round as one multiply-add. */
#define EXACT_PRODUCTS
#define TILES ipu__tiles_plain_halves
#define CONV_TABLE ipu__conv_plain_halves
#include "kernels/gemm/gemm_plain_body.h"
