/* SPDX-License-Identifier: MIT
 *
 * Tiles and dot products of bytes of one class, see gemm_chain_integers.h. No processor
 * multiplies bytes, but the low byte of a product of 16 bits is that of the low bytes'
 * product, whatever is above them. A vector of bytes is read as one of 16 bits, whose
 * low bytes are every other element; shifted, it has those between them. */
#define LANES VECTOR_BYTES
#define ROWS 4
#define NAME "gemm_integers"
#define FORM(name) FORM_OF(name, uint8_t, CLASS)
typedef uint16_t FORM(words) __attribute__((vector_size(VECTOR_BYTES)));
typedef uint16_t FORM(stored)
    __attribute__((vector_size(VECTOR_BYTES), aligned(1), may_alias));
typedef struct {
    FORM(words) even;
    FORM(words) odd;
} FORM(vector);

IPU_INLINE TARGET FORM(vector)
FORM(load)(const void *from)
{
    const FORM(words) both = *(const FORM(stored) *)from;
    return (FORM(vector)){both, both >> 8};
}

IPU_INLINE TARGET void
FORM(store)(void *to, FORM(vector) x)
{
    *(FORM(stored) *)to = (x.even & 0xff) | x.odd << 8;
}

IPU_INLINE TARGET FORM(vector)
FORM(spread)(uint8_t x)
{
    const FORM(words) all = (FORM(words)){0} + x;
    return (FORM(vector)){all, all};
}

IPU_INLINE TARGET FORM(vector)
FORM(multiply_add)(FORM(vector) x, FORM(vector) y, FORM(vector) sum)
{
    return (FORM(vector)){x.even * y.even + sum.even, x.odd * y.odd + sum.odd};
}

TARGET static void
FORM(dot)(const void *x, const void *y, int64_t n, void *out)
{
    enum { SUMS = 2 };
    const uint8_t *a = x;
    const uint8_t *b = y;
    FORM(vector) sum[SUMS] = {FORM(spread)(0), FORM(spread)(0)};
    int64_t i = 0;
    for (; i + SUMS * LANES <= n; i += SUMS * LANES) {
#pragma GCC unroll SUMS
        for (int s = 0; s < SUMS; s++) {
            sum[s] = FORM(multiply_add)(FORM(load)(a + i + s * LANES),
                                        FORM(load)(b + i + s * LANES), sum[s]);
        }
    }
    const FORM(words) all = sum[0].even + sum[0].odd + sum[1].even + sum[1].odd;
    uint16_t total = 0;
    for (int j = 0; j < VECTOR_BYTES / 2; j++) {
        total = (uint16_t)(total + all[j]);
    }
    for (; i < n; i++) {
        total = (uint16_t)(total + a[i] * b[i]);
    }
    *(uint8_t *)out = (uint8_t)total;
}
#define element uint8_t
#define DOT FORM(dot)
#define vector FORM(vector)
#define load FORM(load)
#define store FORM(store)
#define spread FORM(spread)
#define multiply_add FORM(multiply_add)
#include "kernels/gemm/gemm_chain_body.h"
