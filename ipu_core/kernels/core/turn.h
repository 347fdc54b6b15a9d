/* SPDX-License-Identifier: MIT
 *
 * out[i][j] = in[j][i] for i, j < 8, or 4, in registers. Rows in elements. */
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

IPU_TARGET_AVX2 IPU_INLINE void
ipu__turn_4x4_wide(const double *in, int64_t in_row, double *out, int64_t out_row)
{
    __m256d r[4];
    for (int i = 0; i < 2; i++) { /* halves of rows j and j + 2 side by side */
        const double *below = in + (i + 2) * in_row;
        __m256d low = _mm256_castpd128_pd256(_mm_loadu_pd(in + i * in_row));
        __m256d high = _mm256_castpd128_pd256(_mm_loadu_pd(in + i * in_row + 2));
        r[i] = _mm256_insertf128_pd(low, _mm_loadu_pd(below), 1);
        r[i + 2] = _mm256_insertf128_pd(high, _mm_loadu_pd(below + 2), 1);
    }
    for (int i = 0; i < 4; i += 2) {
        _mm256_storeu_pd(out + i * out_row, _mm256_unpacklo_pd(r[i], r[i + 1]));
        _mm256_storeu_pd(out + (i + 1) * out_row, _mm256_unpackhi_pd(r[i], r[i + 1]));
    }
}

/* The same of halves and of bytes, by the base instruction set. */
IPU_INLINE void
ipu__turn_8x8_halves(const uint16_t *in, int64_t in_row, uint16_t *out, int64_t out_row)
{
    __m128i r[8];
    __m128i t[8];
    for (int i = 0; i < 8; i++) {
        r[i] = _mm_loadu_si128((const __m128i *)(const void *)(in + i * in_row));
    }
    for (int i = 0; i < 8; i += 2) { /* columns of two rows, then of four */
        t[i] = _mm_unpacklo_epi16(r[i], r[i + 1]);
        t[i + 1] = _mm_unpackhi_epi16(r[i], r[i + 1]);
    }
    for (int i = 0; i < 8; i += 4) {
        r[i] = _mm_unpacklo_epi32(t[i], t[i + 2]);
        r[i + 1] = _mm_unpackhi_epi32(t[i], t[i + 2]);
        r[i + 2] = _mm_unpacklo_epi32(t[i + 1], t[i + 3]);
        r[i + 3] = _mm_unpackhi_epi32(t[i + 1], t[i + 3]);
    }
    for (int i = 0; i < 4; i++) {
        __m128i both[2] = {_mm_unpacklo_epi64(r[i], r[i + 4]),
                           _mm_unpackhi_epi64(r[i], r[i + 4])};
        for (int k = 0; k < 2; k++) {
            _mm_storeu_si128((__m128i *)(void *)out, both[k]);
            out += out_row;
        }
    }
}

IPU_INLINE void
ipu__turn_8x8_bytes(const char *in, int64_t in_row, char *out, int64_t out_row)
{
    __m128i pairs[4];
    __m128i fours[4];
    for (int i = 0; i < 4; i++) { /* columns of two rows, then of four */
        __m128i row = _mm_loadl_epi64((const __m128i *)(const void *)in);
        __m128i next = _mm_loadl_epi64((const __m128i *)(const void *)(in + in_row));
        pairs[i] = _mm_unpacklo_epi8(row, next);
        in += 2 * in_row;
    }
    for (int i = 0; i < 2; i++) {
        fours[i] = _mm_unpacklo_epi16(pairs[2 * i], pairs[2 * i + 1]);
        fours[i + 2] = _mm_unpackhi_epi16(pairs[2 * i], pairs[2 * i + 1]);
    }
    for (int i = 0; i < 4; i += 2) {
        __m128i both[2] = {_mm_unpacklo_epi32(fours[i], fours[i + 1]),
                           _mm_unpackhi_epi32(fours[i], fours[i + 1])};
        for (int k = 0; k < 2; k++) {
            __m128i other = _mm_unpackhi_epi64(both[k], both[k]);
            _mm_storel_epi64((__m128i *)(void *)out, both[k]);
            _mm_storel_epi64((__m128i *)(void *)(out + out_row), other);
            out += 2 * out_row;
        }
    }
}

#endif
