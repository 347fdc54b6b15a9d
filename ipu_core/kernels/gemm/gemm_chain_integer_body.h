/* SPDX-License-Identifier: MIT
 *
 * Tiles and dot products of one integer type and class, see gemm_chain_integers.h. */
#define LANES (VECTOR_BYTES / (int)sizeof(element))
#define ROWS 4
#define NAME "gemm_integers"
#define FORM(name) FORM_OF(name, element, CLASS)
typedef element FORM(lanes) __attribute__((vector_size(VECTOR_BYTES)));
typedef element FORM(stored)
    __attribute__((vector_size(VECTOR_BYTES), aligned(sizeof(element))));

TARGET static void
FORM(dot)(const void *x, const void *y, int64_t n, void *out)
{
    element sum = 0;
    for (int64_t i = 0; i < n; i++) {
        sum += (element)((uint64_t)((const element *)x)[i] * ((const element *)y)[i]);
    }
    *(element *)out = sum;
}
#define DOT FORM(dot)
#define vector FORM(lanes)
#define load(from) (*(const FORM(stored) *)(from))
#define store(to, x) (*(FORM(stored) *)(to) = (x))
#define spread(x) ((vector){0} + (x))
#define multiply_add(x, y, sum) ((x) * (y) + (sum))
#include "kernels/gemm/gemm_chain_body.h"
