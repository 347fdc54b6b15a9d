/* SPDX-License-Identifier: MIT
 *
 * Dot products of float64 of one class, as DOT, by what gemm_chain.c defines for
 * gemm_chain_body.h. Term i belongs to chain i % DOT_CHAINS on every class. */

TARGET static void
FORM(dot)(const void *x, const void *y, int64_t n, void *out)
{
    enum { SUMS = DOT_CHAINS / LANES };
    const element *a = x;
    const element *b = y;
    vector sum[SUMS];
    element chains[DOT_CHAINS];
    int64_t i = 0;
    for (int s = 0; s < SUMS; s++) {
        sum[s] = spread(0);
    }
    for (; i + DOT_CHAINS <= n; i += DOT_CHAINS) {
#pragma GCC unroll DOT_CHAINS
        for (int s = 0; s < SUMS; s++) {
            sum[s] =
                multiply_add(load(a + i + s * LANES), load(b + i + s * LANES), sum[s]);
        }
    }
    for (int s = 0; s < SUMS; s++) {
        store(chains + s * LANES, sum[s]);
    }
    for (int64_t k = i; k < n; k++) {
        chains[k - i] = fma(a[k], b[k], chains[k - i]);
    }
    for (int half = DOT_CHAINS / 2; half > 0; half /= 2) {
        for (int j = 0; j < half; j++) {
            chains[j] += chains[j + half];
        }
    }
    *(element *)out = chains[0];
}
#define DOT FORM(dot)
