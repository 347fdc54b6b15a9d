/* SPDX-License-Identifier: MIT
 *
 * Loops over random words for the base instruction set. */
#define RANDOM_FORM ipu__random_generic
#define RANDOM_TARGET
#define RANDOM_BLOCKS 2
#include "kernels/random/random_loops.h"
