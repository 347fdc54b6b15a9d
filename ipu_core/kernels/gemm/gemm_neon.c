/* SPDX-License-Identifier: MIT
 *
 * Tiles of 8 x 12 in 24 of the 32 registers of aarch64. */
#include "kernels/gemm/gemm_tiles_impl.h"

#if defined(__aarch64__)
#include <arm_neon.h>

#define TARGET
#define LANES 4
#define TURNED 4
#define VECTORS 3
#define ROWS 8
#define TILES ipu__tiles_neon
#define NAME "gemm_8x12"
enum { BLOCK = 4, UNROLL = 4, FIRST_LEVEL_K = 0 };

typedef float32x4_t vector;
typedef int64_t edge;

VECTOR_OP(vector, zero, (void), vdupq_n_f32(0.0f))
VECTOR_OP(vector, load, (const float *from), vld1q_f32(from))
VECTOR_OP(vector, load_halves, (const uint16_t *from),
          vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(from))))
VECTOR_STORE(store, (float *to, vector x), vst1q_f32(to, x))
VECTOR_OP(edge, edge_of, (int64_t lanes), lanes)

IPU_INLINE vector
load_edge(const float *from, edge last)
{
    float lanes[LANES] = {0.0f};
    for (int64_t i = 0; i < last; i++) {
        lanes[i] = from[i];
    }
    return vld1q_f32(lanes);
}

IPU_INLINE void
store_edge(float *to, edge last, vector x)
{
    float lanes[LANES];
    vst1q_f32(lanes, x);
    for (int64_t i = 0; i < last; i++) {
        to[i] = lanes[i];
    }
}

VECTOR_OP(vector, spread, (const float *from), vld1q_dup_f32(from))
VECTOR_OP(vector, spread_half, (const uint16_t *from),
          vcvt_f32_f16(vreinterpret_f16_u16(vld1_dup_u16(from))))
VECTOR_OP(vector, multiply_add, (vector x, vector y, vector sum), vfmaq_f32(sum, x, y))
VECTOR_OP(vector, where_positive, (vector y, vector x),
          vbslq_f32(vcgtq_f32(y, zero()), x, zero()))
VECTOR_OP(vector, relu, (vector x), vbslq_f32(vcltq_f32(x, zero()), zero(), x))

IPU_INLINE void
transpose(const float *in, int64_t in_row, float *out, int64_t out_row)
{
    float32x4x2_t low = vtrnq_f32(vld1q_f32(in), vld1q_f32(in + in_row));
    float32x4x2_t high =
        vtrnq_f32(vld1q_f32(in + 2 * in_row), vld1q_f32(in + 3 * in_row));
    for (int i = 0; i < 2; i++) {
        vst1q_f32(out + i * out_row,
                  vcombine_f32(vget_low_f32(low.val[i]), vget_low_f32(high.val[i])));
        vst1q_f32(out + (i + 2) * out_row,
                  vcombine_f32(vget_high_f32(low.val[i]), vget_high_f32(high.val[i])));
    }
}

#define TURNED_LANE_BY_LANE
#include "kernels/gemm/gemm_tiles_body.h"

#define CONV_TABLE ipu__conv_neon
#define SIZE "8x12"
#include "kernels/conv/conv_tiles_body.h"
#else
typedef int ipu__no_neon; /* ISO C forbids an empty file */
#endif
