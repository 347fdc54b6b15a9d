/* SPDX-License-Identifier: MIT
 *
 * out[i][j] = in[j][i] for i, j < 8, in the registers of AVX2. Rows in elements. */
#ifndef IPU_KERNELS_TURN_H
#define IPU_KERNELS_TURN_H

#include <immintrin.h>

#include "kernels/core/kernel_impl.h"

IPU_TARGET_AVX2 IPU_INLINE void
ipu__turn_8x8(const float *in, int64_t in_row, float *out, int64_t out_row)
{
    __m256 r[8];
    __m256 t[8];
    for (int i = 0; i < 4; i++) { /* halves of rows j and j + 4 side by side */
        __m256 low = _mm256_castps128_ps256(_mm_loadu_ps(in + i * in_row));
        __m256 high = _mm256_castps128_ps256(_mm_loadu_ps(in + i * in_row + 4));
        const float *below = in + (i + 4) * in_row;
        r[i] = _mm256_insertf128_ps(low, _mm_loadu_ps(below), 1);
        r[i + 4] = _mm256_insertf128_ps(high, _mm_loadu_ps(below + 4), 1);
    }
    for (int i = 0; i < 8; i += 2) {
        t[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
        t[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
    }
    for (int i = 0; i < 8; i += 4) {
        _mm256_storeu_ps(out + i * out_row, _mm256_shuffle_ps(t[i], t[i + 2], 0x44));
        _mm256_storeu_ps(out + (i + 1) * out_row,
                         _mm256_shuffle_ps(t[i], t[i + 2], 0xee));
        _mm256_storeu_ps(out + (i + 2) * out_row,
                         _mm256_shuffle_ps(t[i + 1], t[i + 3], 0x44));
        _mm256_storeu_ps(out + (i + 3) * out_row,
                         _mm256_shuffle_ps(t[i + 1], t[i + 3], 0xee));
    }
}

#endif
