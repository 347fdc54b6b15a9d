/* SPDX-License-Identifier: MIT
 *
 * Tiles and dot products of one integer type and class, see gemm_chain_integers.h. */
#define LANES (VECTOR_BYTES / (int)sizeof(lane))
#define ROWS 4
#define NAME "gemm_integers"
#define FORM(name) FORM_OF(name, element, CLASS)
typedef lane FORM(lanes) __attribute__((vector_size(VECTOR_BYTES)));
typedef element FORM(stored)
    __attribute__((vector_size(LANES * sizeof(element)), aligned(sizeof(element))));

TARGET static void
FORM(dot)(const void *x, const void *y, int64_t n, void *out)
{
    lane sum = 0;
    for (int64_t i = 0; i < n; i++) {
        sum += (lane)((uint64_t)((const element *)x)[i] * ((const element *)y)[i]);
    }
    *(element *)out = (element)sum;
}
#define DOT FORM(dot)
#define vector FORM(lanes)
#define load(from) __builtin_convertvector(*(const FORM(stored) *)(from), vector)
#define store(to, x) (*(FORM(stored) *)(to) = __builtin_convertvector(x, FORM(stored)))
#define spread(x) ((vector){0} + (lane)(x))
#define multiply_add(x, y, sum) ((x) * (y) + (sum))
#include "kernels/gemm/gemm_chain_body.h"
#undef lane
