/* SPDX-License-Identifier: MIT
 *
 * Tiles for processors that have no kernel of their own, with a multiply-add that rounds
 * once, by the processor where it can. Where that is x86-64's that cannot, tiles are made
 * by gemm_doubles_body.h, and what is here is for other forms, and for sums that are out
 * of its range. */
#define TILES ipu__tiles_plain
#define CONV_TABLE ipu__conv_plain
#include "kernels/gemm/gemm_plain_body.h"
