/* SPDX-License-Identifier: MIT
 *
 * Tiles of 6 x 16 in twelve of AVX2's sixteen registers. */
#include "kernels/gemm/gemm_tiles_impl.h"

#if defined(__x86_64__)
#include "kernels/core/turn.h"

#define TARGET IPU_TARGET_AVX2
#define LANES 8
#define TURNED 4
#define VECTORS 2
#define ROWS 6
#define TILES ipu__tiles_avx2
#define NAME "gemm_6x16"
enum { BLOCK = 8, UNROLL = 4, FIRST_LEVEL_K = 256 };

typedef __m256 vector;
typedef __m256i edge;

VECTOR_OP(vector, zero, (void), _mm256_setzero_ps())
VECTOR_OP(vector, load, (const float *from), _mm256_loadu_ps(from))
VECTOR_OP(vector, load_halves, (const uint16_t *from),
          _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)from)))
VECTOR_STORE(store, (float *to, vector x), _mm256_storeu_ps(to, x))
VECTOR_OP(edge, edge_of, (int64_t lanes),
          _mm256_cmpgt_epi32(_mm256_set1_epi32((int)lanes),
                             _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7)))
VECTOR_OP(vector, load_edge, (const float *from, edge last),
          _mm256_maskload_ps(from, last))

/* In pieces: processors of AMD take a masked store apart into dozens of steps. */
IPU_INLINE TARGET void
store_edge(float *to, edge last, vector x)
{
    const int lanes = __builtin_popcount(
        (unsigned)_mm256_movemask_ps(_mm256_castsi256_ps(last)));
    if (lanes == LANES) {
        store(to, x);
        return;
    }
    __m128 rest = _mm256_castps256_ps128(x);
    if ((lanes & 4) != 0) {
        _mm_storeu_ps(to, rest);
        to += 4;
        rest = _mm256_extractf128_ps(x, 1);
    }
    if ((lanes & 2) != 0) {
        _mm_storel_pi((__m64 *)(void *)to, rest);
        to += 2;
        rest = _mm_movehl_ps(rest, rest);
    }
    if ((lanes & 1) != 0) {
        _mm_store_ss(to, rest);
    }
}

VECTOR_OP(vector, spread, (const float *from), _mm256_broadcast_ss(from))
VECTOR_OP(vector, spread_half, (const uint16_t *from),
          _mm256_cvtph_ps(_mm_set1_epi16((short)*from)))
VECTOR_OP(vector, multiply_add, (vector x, vector y, vector sum),
          _mm256_fmadd_ps(x, y, sum))
VECTOR_OP(vector, where_positive, (vector y, vector x),
          _mm256_and_ps(_mm256_cmp_ps(y, _mm256_setzero_ps(), _CMP_GT_OQ), x))
VECTOR_OP(vector, relu, (vector x), _mm256_max_ps(_mm256_setzero_ps(), x))

IPU_INLINE TARGET void
transpose(const float *in, int64_t in_row, float *out, int64_t out_row)
{
    ipu__turn_8x8(in, in_row, out, out_row);
}

VECTOR_OP(__m128, load_4, (bool halves, const void *matrix, int64_t at),
          halves ? _mm_cvtph_ps(_mm_loadl_epi64(
                       (const __m128i *)ipu__at(matrix, at * 2)))
                 : _mm_loadu_ps((const float *)matrix + at))

/* Lanes of 128 bits hold four rows each, and are turned by themselves. */
IPU_INLINE TARGET void
load_turned(bool halves, const void *matrix, int64_t at, int64_t step,
            vector out[TURNED])
{
    __m256 r[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        r[i] = _mm256_castps128_ps256(load_4(halves, matrix, at + i * step));
        r[i] = _mm256_insertf128_ps(r[i], load_4(halves, matrix, at + (i + 4) * step), 1);
    }
    __m256 low_01 = _mm256_unpacklo_ps(r[0], r[1]);
    __m256 high_01 = _mm256_unpackhi_ps(r[0], r[1]);
    __m256 low_23 = _mm256_unpacklo_ps(r[2], r[3]);
    __m256 high_23 = _mm256_unpackhi_ps(r[2], r[3]);
    out[0] = _mm256_shuffle_ps(low_01, low_23, 0x44);
    out[1] = _mm256_shuffle_ps(low_01, low_23, 0xee);
    out[2] = _mm256_shuffle_ps(high_01, high_23, 0x44);
    out[3] = _mm256_shuffle_ps(high_01, high_23, 0xee);
}

#include "kernels/gemm/gemm_tiles_body.h"

#define CONV_TABLE ipu__conv_avx2
#define SIZE "6x16"
#include "kernels/conv/conv_tiles_body.h"
#else
typedef int ipu__no_avx2; /* ISO C forbids an empty file */
#endif
