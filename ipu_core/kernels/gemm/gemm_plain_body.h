/* SPDX-License-Identifier: MIT
 *
 * Tiles of 8 x 8 in plain C, by vectors of the compiler. A file defines TILES and
 * CONV_TABLE, the names of its tables, and EXACT_PRODUCTS where a product rounds nothing,
 * before it includes this one. */
#include <math.h>

#include "kernels/gemm/gemm_tiles_impl.h"

#define TARGET
#define LANES 4
#define TURNED 4
#define VECTORS 2
#define ROWS 8
#define NAME "gemm_8x8"
enum { BLOCK = 4, UNROLL = 1, FIRST_LEVEL_K = 0 };

typedef float vector __attribute__((vector_size(16)));
typedef int64_t edge;

VECTOR_OP(vector, zero, (void), ((vector){0.0f, 0.0f, 0.0f, 0.0f}))

IPU_INLINE vector
load(const float *from)
{
    vector x;
    memcpy(&x, from, sizeof x);
    return x;
}

VECTOR_OP(vector, load_halves, (const uint16_t *from),
          ((vector){ipu_float16_to_float(from[0]), ipu_float16_to_float(from[1]),
                    ipu_float16_to_float(from[2]), ipu_float16_to_float(from[3])}))

IPU_INLINE void
store(float *to, vector x)
{
    memcpy(to, &x, sizeof x);
}

VECTOR_OP(edge, edge_of, (int64_t lanes), lanes)

IPU_INLINE vector
load_edge(const float *from, edge last)
{
    vector x = zero();
    memcpy(&x, from, (size_t)last * sizeof(float));
    return x;
}

IPU_INLINE void
store_edge(float *to, edge last, vector x)
{
    memcpy(to, &x, (size_t)last * sizeof(float));
}

VECTOR_OP(vector, spread, (const float *from), ((vector){*from, *from, *from, *from}))
VECTOR_OP(vector, spread_half, (const uint16_t *from),
          spread(&(float){ipu_float16_to_float(*from)}))

#if defined(EXACT_PRODUCTS)
VECTOR_OP(vector, multiply_add, (vector x, vector y, vector sum), x * y + sum)
#elif defined(FP_FAST_FMAF)
IPU_INLINE vector
multiply_add(vector x, vector y, vector sum)
{
    vector out;
    for (int i = 0; i < LANES; i++) {
        out[i] = fmaf(x[i], y[i], sum[i]);
    }
    return out;
}
#else
typedef float half_vector __attribute__((vector_size(8)));
typedef double wide __attribute__((vector_size(16)));
typedef int64_t wide_bits __attribute__((vector_size(16)));

typedef int32_t words __attribute__((vector_size(16))); /* low, high, low, high */

/* The product is exact in double, the sum is rounded to odd, and so much wider than a
 * float that rounding it again is rounding the exact one (Boldo and Melquiond,
 * "Emulation of FMA and correctly rounded sums: proved algorithms using rounding to odd",
 * 2008). The rounding error is Knuth's two-sum; it is NaN for infinities, which have
 * nothing to correct. */
IPU_INLINE half_vector
rounded_once(half_vector x, half_vector y, half_vector z)
{
    wide product = __builtin_convertvector(x, wide) * __builtin_convertvector(y, wide);
    wide addend = __builtin_convertvector(z, wide);
    wide sum = product + addend;
    wide part = sum - product;
    wide error = (product - (sum - part)) + (addend - part);
    wide_bits bits = (wide_bits)sum;
    wide_bits inexact = (error < 0.0) | (error > 0.0);
    if ((inexact[0] | inexact[1]) == 0) {
        return __builtin_convertvector(sum, half_vector);
    }
    wide_bits even = (bits & 1) == 0;
    wide_bits inward = ((wide_bits)error ^ bits) < 0;
    bits += inexact & even & (inward | 1);
    return __builtin_convertvector((wide)bits, half_vector);
}

static __attribute__((noinline)) half_vector
multiply_add_odd(half_vector x, half_vector y, half_vector z)
{
    return rounded_once(x, y, z);
}

#if defined(__SSE2__)
#define BY_DOUBLES
#endif

/* x * y + z, rounded to double. `doubtful` becomes more than 0 where rounding that to
 * float may differ from rounding the exact sum: halfway between two floats, and where
 * floats are subnormal. */
IPU_INLINE wide
sum_of(half_vector x, half_vector y, half_vector z, words *doubtful)
{
    const words low = {0x1fffffff, 0, 0x1fffffff, 0}; /* more than a float has */
    const words half = {0x10000000, 1, 0x10000000, 1};
    const words high = {0, 0x7fffffff, 0, 0x7fffffff};  /* no sign */
    const words least = {0, 0x38100000, 0, 0x38100000}; /* of 2^-126 */
    wide product = __builtin_convertvector(x, wide) * __builtin_convertvector(y, wide);
    wide sum = product + __builtin_convertvector(z, wide);
    words size = (words)sum & high;
    *doubtful |= (((words)sum & low) == half) | ((size < least) & (size > 0));
    return sum;
}

/* x * y + sum, rounded to float once. */
IPU_INLINE vector
multiply_add(vector x, vector y, vector sum)
{
    half_vector x_low = {x[0], x[1]};
    half_vector x_high = {x[2], x[3]};
    half_vector y_low = {y[0], y[1]};
    half_vector y_high = {y[2], y[3]};
    half_vector z_low = {sum[0], sum[1]};
    half_vector z_high = {sum[2], sum[3]};
    words doubtful = {0, 0, 0, 0};
    half_vector low =
        __builtin_convertvector(sum_of(x_low, y_low, z_low, &doubtful), half_vector);
    half_vector high =
        __builtin_convertvector(sum_of(x_high, y_high, z_high, &doubtful), half_vector);
    wide_bits any = (wide_bits)doubtful;
    if (__builtin_expect((any[0] | any[1]) != 0, 0)) {
        low = multiply_add_odd(x_low, y_low, z_low);
        high = multiply_add_odd(x_high, y_high, z_high);
    }
    return (vector){low[0], low[1], high[0], high[1]};
}
#endif

IPU_INLINE vector
where_positive(vector y, vector x)
{
    for (int i = 0; i < LANES; i++) {
        x[i] = y[i] > 0.0f ? x[i] : 0.0f;
    }
    return x;
}

IPU_INLINE vector
relu(vector x)
{
    for (int i = 0; i < LANES; i++) {
        x[i] = 0.0f > x[i] ? 0.0f : x[i];
    }
    return x;
}

IPU_INLINE void
transpose(const float *in, int64_t in_row, float *out, int64_t out_row)
{
    for (int64_t i = 0; i < BLOCK; i++) {
        for (int64_t j = 0; j < BLOCK; j++) {
            out[j * out_row + i] = in[i * in_row + j];
        }
    }
}

#define TURNED_LANE_BY_LANE
#include "kernels/gemm/gemm_tiles_body.h"

#define SIZE "8x8"
#include "kernels/conv/conv_tiles_body.h"
