/* SPDX-License-Identifier: MIT
 *
 * Tiles of 12 x 32 in 24 of AVX-512's 32 registers. */
#include "kernels/gemm/gemm_tiles_impl.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define TARGET \
    __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")))
#define LANES 16
#define TURNED 16
#define VECTORS 2
#define ROWS 12
#define NAME "gemm_12x32"
#define TILES ipu__tiles_avx512
enum { BLOCK = 16, UNROLL = 4, FIRST_LEVEL_K = 0 };

typedef __m512 vector;
typedef __mmask16 edge;

VECTOR_OP(vector, zero, (void), _mm512_setzero_ps())
VECTOR_OP(vector, load, (const float *from), _mm512_loadu_ps(from))
VECTOR_OP(vector, load_halves, (const uint16_t *from),
          _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)from)))
VECTOR_STORE(store, (float *to, vector x), _mm512_storeu_ps(to, x))
VECTOR_OP(edge, edge_of, (int64_t lanes), (edge)((1u << lanes) - 1))
VECTOR_OP(vector, load_edge, (const float *from, edge last),
          _mm512_maskz_loadu_ps(last, from))
VECTOR_STORE(store_edge, (float *to, edge last, vector x),
             _mm512_mask_storeu_ps(to, last, x))
VECTOR_OP(vector, spread, (const float *from), _mm512_set1_ps(*from))
VECTOR_OP(vector, spread_half, (const uint16_t *from),
          _mm512_cvtph_ps(_mm256_set1_epi16((short)*from)))
VECTOR_OP(vector, multiply_add, (vector x, vector y, vector sum),
          _mm512_fmadd_ps(x, y, sum))
VECTOR_OP(vector, where_positive, (vector y, vector x),
          _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(y, _mm512_setzero_ps(), _CMP_GT_OQ),
                              x))
VECTOR_OP(vector, relu, (vector x), _mm512_max_ps(_mm512_setzero_ps(), x))

/* Pairs, quads, then lanes of 128 bits, twice. */
IPU_INLINE TARGET void
load_turned(bool halves, const void *matrix, int64_t at, int64_t step,
            vector out[TURNED])
{
    __m512 r[16];
    __m512 t[16];
#pragma GCC unroll 16
    for (int i = 0; i < 16; i++) {
        r[i] = halves ? load_halves((const uint16_t *)matrix + at + i * step)
                      : load((const float *)matrix + at + i * step);
    }
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++) {
        t[2 * i] = _mm512_unpacklo_ps(r[2 * i], r[2 * i + 1]);
        t[2 * i + 1] = _mm512_unpackhi_ps(r[2 * i], r[2 * i + 1]);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        r[4 * i] = _mm512_shuffle_ps(t[4 * i], t[4 * i + 2], 0x44);
        r[4 * i + 1] = _mm512_shuffle_ps(t[4 * i], t[4 * i + 2], 0xee);
        r[4 * i + 2] = _mm512_shuffle_ps(t[4 * i + 1], t[4 * i + 3], 0x44);
        r[4 * i + 3] = _mm512_shuffle_ps(t[4 * i + 1], t[4 * i + 3], 0xee);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        t[i] = _mm512_shuffle_f32x4(r[i], r[4 + i], 0x88);
        t[4 + i] = _mm512_shuffle_f32x4(r[i], r[4 + i], 0xdd);
        t[8 + i] = _mm512_shuffle_f32x4(r[8 + i], r[12 + i], 0x88);
        t[12 + i] = _mm512_shuffle_f32x4(r[8 + i], r[12 + i], 0xdd);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        out[i] = _mm512_shuffle_f32x4(t[i], t[8 + i], 0x88);
        out[4 + i] = _mm512_shuffle_f32x4(t[4 + i], t[12 + i], 0x88);
        out[8 + i] = _mm512_shuffle_f32x4(t[i], t[8 + i], 0xdd);
        out[12 + i] = _mm512_shuffle_f32x4(t[4 + i], t[12 + i], 0xdd);
    }
}

IPU_INLINE TARGET void
transpose(const float *in, int64_t in_row, float *out, int64_t out_row)
{
    vector turned[TURNED];
    load_turned(false, in, 0, in_row, turned);
#pragma GCC unroll 16
    for (int i = 0; i < TURNED; i++) {
        store(out + i * out_row, turned[i]);
    }
}

#include "kernels/gemm/gemm_tiles_body.h"

#define CONV_TABLE ipu__conv_avx512
#define SIZE "12x32"
#include "kernels/conv/conv_tiles_body.h"
#else
typedef int ipu__no_avx512; /* ISO C forbids an empty file */
#endif
