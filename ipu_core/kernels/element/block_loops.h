/* SPDX-License-Identifier: MIT
 *
 * The loops of the block functions, once for each class of processor: a file defines
 * BLOCK_FORM (the name of the form that it defines), BLOCK_TARGET (the attribute of its
 * functions), BLOCK_F16C where the class converts float16 in hardware, and includes
 * this one. Each function is a plain loop over a C expression, most of them those of
 * formulas.h, so all classes, the body and the tail of a loop, fused and unfused ops
 * give the same bits; only the width of the registers differs. */
#include <math.h>

#include "kernels/element/blocks_impl.h"
#include "kernels/math/floor_math.h"
#include "kernels/math/incomplete_gamma.h"

#if defined(BLOCK_F16C)
#include <immintrin.h>
#endif

/* --- floats --------------------------------------------------------------------------
 */

FLOAT_FORMULAS(LOOP_OF, f32, f)
FLOAT_FORMULAS(LOOP_OF, f64, )
FUNCTION_FORMULAS(LOOP_OF, f32, f)
FUNCTION_FORMULAS(LOOP_OF, f64, )
LONG_FORMULAS(LOOP_OF, f32)
NARROW_FORMULAS(LOOP_OF, f32)

ARITHMETIC_FORMULAS(COLUMN_LOOP_OF, f32)
ARITHMETIC_FORMULAS(COLUMN_LOOP_OF, f64)

UNARY(exp_f32, float, float, ipu__exp_f32(x))
UNARY(expm1_f32, float, float, ipu__expm1_f32(x))
UNARY(log1p_f32, float, float, ipu__log1p_f32(x))
UNARY(atan_f32, float, float, ipu__atan_f32(x))
UNARY(erfinv_f32, float, float, ipu__erfinv_f32(x))

/* The block is looked through first, so that the loop has no call in it; an element's
 * result does not depend on its neighbours. */
#define TURNED(name, quarter) \
    IPU_INLINE float name##_anywhere(float x) \
    { \
        float size = ipu__magnitude_f32(x); \
        return size < IPU_NEAR_LIMIT   ? ipu__near_turned_f32(x, quarter) \
               : size < IPU_TURN_LIMIT ? ipu__turned_f32(x, quarter) \
                                       : (float)name((double)x); \
    } \
    SIGNATURE(name##_f32) \
    { \
        const float *xs = a; \
        float *result = out; \
        uint32_t most = 0; \
        UNUSED(); \
        for (int64_t i = 0; i < n; i++) { \
            uint32_t size = ipu__float_bits(xs[i]) & 0x7fffffffu; \
            most = size > most ? size : most; \
        } \
        if (ipu__bits_float(most) < IPU_NEAR_LIMIT) { \
            IPU_INDEPENDENT \
            for (int64_t i = 0; i < n; i++) { \
                result[i] = ipu__near_turned_f32(xs[i], quarter); \
            } \
            return IPU_FAULT_NONE; \
        } \
        for (int64_t i = 0; i < n; i++) { \
            result[i] = name##_anywhere(xs[i]); \
        } \
        return IPU_FAULT_NONE; \
    }
TURNED(sin, 0)
TURNED(cos, 1)

/* Whether `bits` of all elements, less those of `least`, are below those of `limit`. By
 * the sign of a word, since without AVX2 no vectors of 64 bits are compared. */
#define ALL_WITHIN(suffix, type, bits_type, to_bits) \
    BLOCK_TARGET static bool all_within_##suffix(const type *x, int64_t n, \
                                                 bits_type bits, type least, \
                                                 type limit) \
    { \
        const bits_type start = to_bits(least); \
        const bits_type last = to_bits(limit) - start - 1; \
        bits_type outside = 0; \
        for (int64_t i = 0; i < n; i++) { \
            bits_type size = (to_bits(x[i]) & bits) - start; \
            outside |= size | (last - size); \
        } \
        return outside >> (sizeof outside * 8 - 1) == 0; \
    }
ALL_WITHIN(f32, float, uint32_t, ipu__float_bits)
ALL_WITHIN(f64, double, uint64_t, ipu__double_bits)

/* A long formula in two loops, of some elements at a time: in one, the chains of an
 * element's instructions would be too long for others to be computed beside them.
 * `before` uses x, `expression` what that has made, too. */
#define STAGES(name, type, pair, fetch, before, expression) \
    SIGNATURE(name) \
    { \
        enum { SOME = IPU_BLOCK_BYTES / sizeof(type) }; \
        const type *xs = a; \
        type *result = out; \
        UNUSED(); \
        for (int64_t first = 0; first < n; first += SOME) { \
            const int64_t last = ipu__min(n, first + SOME); \
            type high[SOME]; \
            type low[SOME]; \
            for (int64_t i = first; i < last; i++) { \
                type x = xs[i]; \
                pair made = before; \
                high[i - first] = made.high; \
                low[i - first] = made.low; \
            } \
            IPU_INDEPENDENT \
            for (int64_t i = first; i < last; i++) { \
                type x = xs[i]; \
                pair made = {high[i - first], low[i - first]}; \
                (void)x; \
                fetch result[i] = expression; \
            } \
        } \
        return IPU_FAULT_NONE; \
    }
#define NARROW_STAGES(name, before, expression) \
    STAGES(name, float, ipu__narrow_pair, , before, expression)
#define WIDE_STAGES(name, fetch, before, expression) \
    STAGES(name, double, ipu__pair, fetch, before, expression)

/* There is a quicker form near 0, or with all bits, of what is not negative, or of
 * normal numbers above 0, or of what is far from 0 and 1. */
#define NEAR(name, suffix, type, bits, least, limit) \
    UNARY(near_##name##_##suffix, type, type, ipu__near_##name##_##suffix(x)) \
    IF_NEAR(name, suffix, type, bits, least, limit)
#define IF_NEAR(name, suffix, type, bits, least, limit) \
    SIGNATURE(name##_##suffix) \
    { \
        const type *xs = a; \
        type *result = out; \
        if (all_within_##suffix(xs, n, bits, least, limit)) { \
            return near_##name##_##suffix(block, out, a, b, c, n); \
        } \
        for (int64_t i = 0; i < n; i++) { \
            result[i] = ipu__##name##_##suffix(xs[i]); \
        } \
        return IPU_FAULT_NONE; \
    }
#define NARROW_NEAR(name, bits, limit) NEAR(name, f32, float, bits, 0.0f, limit)
#define WIDE_NEAR(name, limit) NEAR(name, f64, double, UINT64_MAX >> 1, 0.0, limit)
#define WIDE_IF_NEAR(name, limit) \
    IF_NEAR(name, f64, double, UINT64_MAX >> 1, 0.0, limit)
#define WIDE_ABOVE(name, least) \
    NEAR(name, f64, double, UINT64_MAX, least, (double)INFINITY)
WIDE_NEAR(exp, IPU_WIDE_EXP_LIMIT)
WIDE_NEAR(expm1, IPU_WIDE_EXPM1_LIMIT)
WIDE_NEAR(log1p, 1.0)
WIDE_NEAR(sin, IPU_WIDE_TURN_LIMIT)
WIDE_NEAR(cos, IPU_WIDE_TURN_LIMIT)
WIDE_STAGES(near_tan_f64, , ipu__turn_rest_f64(x), ipu__tan_by_rest(x, made))
WIDE_STAGES(near_lgamma_f64, , ipu__lgamma_logarithm(x),
            ipu__lgamma_by_logarithm(x, made))
IF_NEAR(lgamma, f64, double, UINT64_MAX, 0x1p-1022, (double)INFINITY)
WIDE_IF_NEAR(tan, IPU_WIDE_TURN_LIMIT)
WIDE_STAGES(near_atan_f64, , ipu__atan_quotient(x), ipu__atan_by_quotient(x, made))
WIDE_IF_NEAR(atan, IPU_WIDE_ATAN_LIMIT)
WIDE_NEAR(erfinv, 1.0 - 2.0 * IPU_QUANTILE_REST)
WIDE_ABOVE(log, 0x1p-1022)
WIDE_ABOVE(log2, 0x1p-1022)
WIDE_ABOVE(digamma, 0.0)
NEAR(ndtri, f64, double, UINT64_MAX, IPU_QUANTILE_REST, 1.0 - IPU_QUANTILE_REST)
NEAR(ndtri, f32, float, UINT32_MAX, (float)IPU_QUANTILE_REST, 1.0f)
NEAR(log, f32, float, UINT32_MAX, 0x1p-126f, INFINITY)
NEAR(log2, f32, float, UINT32_MAX, 0x1p-126f, INFINITY)
NARROW_NEAR(tan, UINT32_MAX >> 1, IPU_NEAR_LIMIT)
NARROW_NEAR(lgamma, UINT32_MAX, INFINITY)
NARROW_NEAR(digamma, UINT32_MAX, INFINITY)

NARROW_STAGES(ASINH_f32, ipu__parts_of_asinh_f32(x), ipu__join_asinh_f32(x, made))
NARROW_STAGES(ATANH_f32, ipu__parts_of_atanh_f32(x), ipu__join_atanh_f32(x, made))
WIDE_STAGES(TANH_f64, , ipu__tanh_expm1_f64(x), ipu__tanh_by_expm1(x, made))
WIDE_STAGES(SINH_f64, , ipu__quarter_expm1_f64(x), ipu__sinh_by_expm1(x, made))
WIDE_STAGES(SIGMOID_f64, , ipu__falling_exp_f64(x), ipu__sigmoid_by_exp(x, made))
WIDE_STAGES(SOFTPLUS_f64, , ipu__falling_exp_f64(x), ipu__softplus_by_exp(x, made))
WIDE_STAGES(ASINH_f64, , ipu__asinh_argument(x), ipu__asinh_by_argument(x, made))
WIDE_STAGES(ACOSH_f64, , ipu__acosh_argument(x), ipu__acosh_by_argument(x, made))
WIDE_STAGES(ATANH_f64, , ipu__atanh_argument(x), ipu__atanh_by_argument(x, made))
WIDE_STAGES(ERF_f64, , ipu__erf_power(x), ipu__erf_by_power(x, made))
WIDE_STAGES(ERFC_f64, , ipu__erf_power(x), ipu__erfc_by_power(x, made))
WIDE_STAGES(GELU_f64, , ipu__gelu_power(x), ipu__gelu_by_power(x, made))
WIDE_STAGES(GELU_GRAD_f64, FETCH_Y(double), ipu__gelu_power(x),
            ipu__gelu_grad_by_power(x, y, made))

/* Powers of normal numbers above 0; float32's others are those of float64. */
IPU_INLINE float
pow_anywhere(float x, float y)
{
    bool ordinary = x >= 0x1p-126f && x < INFINITY;
    return ordinary ? ipu__pow_normal_f32(x, y)
                    : (float)ipu__pow_f64((double)x, (double)y);
}
STAGES(near_pow_f32, float, ipu__narrow_pair, FETCH_Y(float), ipu__log2_pair_f32(x),
       ipu__exp2_product_f32(made, y))
BINARY(any_pow_f32, float, float, pow_anywhere(x, y))
WIDE_STAGES(near_pow_f64, FETCH_Y(double), ipu__log_pair(ipu__split_logarithm_f64(x)),
            ipu__exp_product_f64(made, y))
BINARY(any_pow_f64, double, double, ipu__pow_f64(x, y))
BINARY(near_atan2_f64, double, double, ipu__near_atan2_f64(x, y))
BINARY(any_atan2_f64, double, double, ipu__atan2_f64(x, y))

SIGNATURE(pow_f32)
{
    bool near = all_within_f32(a, n, UINT32_MAX, 0x1p-126f, INFINITY);
    return (near ? near_pow_f32 : any_pow_f32)(block, out, a, b, c, n);
}

SIGNATURE(pow_f64)
{
    bool near = all_within_f64(a, n, UINT64_MAX, 0x1p-1022, (double)INFINITY);
    return (near ? near_pow_f64 : any_pow_f64)(block, out, a, b, c, n);
}

SIGNATURE(ATAN2_f64)
{
    bool near = all_within_f64(a, n, UINT64_MAX >> 1, 0x1p-200, 0x1p200) &&
                all_within_f64(b, n, UINT64_MAX >> 1, 0x1p-200, 0x1p200);
    return (near ? near_atan2_f64 : any_atan2_f64)(block, out, a, b, c, n);
}

/* Some at a time, as doubles. */
BLOCK_TARGET static void
incomplete_gamma(double *out, const double *a, const double *x, int64_t n,
                 ipu__gamma_function function)
{
    ipu__incomplete_gamma(out, a, x, n, function);
}

#define INCOMPLETE(name, suffix, type, function) \
    SIGNATURE(name##_##suffix) \
    { \
        enum { SOME = IPU_GAMMA_ELEMENTS }; \
        const type *as = a; \
        const type *xs = b; \
        type *result = out; \
        UNUSED(); \
        for (int64_t first = 0; first < n; first += SOME) { \
            const int64_t count = ipu__min(n - first, SOME); \
            double wide_a[SOME]; \
            double wide_x[SOME]; \
            double value[SOME]; \
            for (int64_t j = 0; j < count; j++) { \
                wide_a[j] = (double)as[first + j]; \
                wide_x[j] = (double)xs[first + j]; \
            } \
            incomplete_gamma(value, wide_a, wide_x, count, function); \
            for (int64_t j = 0; j < count; j++) { \
                result[first + j] = (type)value[j]; \
            } \
        } \
        return IPU_FAULT_NONE; \
    }
#define INCOMPLETES(name, function) \
    INCOMPLETE(name, f32, float, function) \
    INCOMPLETE(name, f64, double, function)
INCOMPLETES(igamma, IPU_GAMMA_LOWER)
INCOMPLETES(igammac, IPU_GAMMA_UPPER)
INCOMPLETES(igamma_slope, IPU_GAMMA_SLOPE)

/* --- integers ------------------------------------------------------------------------
 */

#define SIGNED_LOOPS(NAME, suffix, ...) SIGNED_FORMULAS(LOOP_OF, suffix)
#define UNSIGNED_LOOPS(NAME, suffix, type, ...) \
    WIDTH_FORMULAS(LOOP_OF, suffix) \
    WRAPPING_FORMULAS(COLUMN_LOOP_OF, suffix) \
    UNSIGNED_FORMULAS(LOOP_OF, suffix) \
    LOOP(select_##suffix, type, uint8_t, FETCH_YZ(type), x != 0 ? y : z)
IPU_SIGNED_LIST(SIGNED_LOOPS)
IPU_UNSIGNED_LIST(UNSIGNED_LOOPS)
LOGICAL_FORMULAS(LOOP_OF, u8)

/* Shifts of bytes: no vector shifts each of its bytes by its own number, so they go
 * by the number's bits. A byte below 0 is shifted as its complement. */
#define SHIFTED(x, y, by) \
    uint8_t shifted = (uint8_t)((y & 1) != 0 ? x by 1 : x); \
    shifted = (uint8_t)((y & 2) != 0 ? shifted by 2 : shifted); \
    shifted = (uint8_t)((y & 4) != 0 ? shifted by 4 : shifted); \
    return (uint8_t)(y < 8 ? shifted : 0);
IPU_INLINE uint8_t
shifted_left(uint8_t x, uint8_t y)
{
    SHIFTED(x, y, <<)
}
IPU_INLINE uint8_t
shifted_right(uint8_t x, uint8_t y)
{
    SHIFTED(x, y, >>)
}
BINARY(quick_left_u8, uint8_t, uint8_t, shifted_left(x, y))
BINARY(quick_right_u8, uint8_t, uint8_t, shifted_right(x, y))
BINARY(quick_right_i8, int8_t, int8_t,
       shifted_right((uint8_t)(x < 0 ? ~x : x), (uint8_t)y) ^ (x < 0 ? 0xff : 0))

#include "kernels/element/block_floor_loops.h"

/* Powers that wrap, by squares: of some elements at a time, bit by bit of what all
 * exponents have together. */
#define INTEGER_POWERS(NAME, suffix, type, bits, least, ...) \
    SIGNATURE(pow_##suffix) \
    { \
        enum { SOME = 64 }; \
        const type *xs = a; \
        const type *ys = b; \
        type *result = out; \
        type all = 0; \
        UNUSED(); \
        for (int64_t i = 0; i < n; i++) { \
            all = (type)(all | ys[i]); \
        } \
        if ((all & (least)) != 0) { \
            return IPU_FAULT_NEGATIVE_EXPONENT; \
        } \
        for (int64_t first = 0; first < n; first += SOME) { \
            const int64_t count = ipu__min(n - first, SOME); \
            WIDE_##suffix base[SOME]; \
            WIDE_##suffix power[SOME]; \
            WIDE_##suffix rest[SOME]; \
            for (int64_t j = 0; j < count; j++) { \
                base[j] = (WIDE_##suffix)xs[first + j]; \
                power[j] = 1; \
                rest[j] = (WIDE_##suffix)ys[first + j]; \
            } \
            for (uint64_t left = (uint64_t)all; left != 0; left >>= 1) { \
                for (int64_t j = 0; j < count; j++) { \
                    power[j] *= (rest[j] & 1) != 0 ? base[j] : 1; \
                    base[j] *= base[j]; \
                    rest[j] >>= 1; \
                } \
            } \
            for (int64_t j = 0; j < count; j++) { \
                result[first + j] = (type)power[j]; \
            } \
        } \
        return IPU_FAULT_NONE; \
    }
IPU_INTEGER_LIST(INTEGER_POWERS)

/* --- casts ---------------------------------------------------------------------------
 */

/* Integers wrap: to both signs of a width it is the same loop. */
#define CASTS_FROM_INTEGER(NAME, suffix, type, ...) \
    UNARY(cast_##suffix##_bool, uint8_t, type, x != 0) \
    UNARY(cast_##suffix##_u8, uint8_t, type, x) \
    UNARY(cast_##suffix##_u16, uint16_t, type, x) \
    UNARY(cast_##suffix##_u32, uint32_t, type, x) \
    UNARY(cast_##suffix##_u64, uint64_t, type, x) \
    UNARY(cast_##suffix##_f32, float, type, x) \
    UNARY(cast_##suffix##_f64, double, type, x)
IPU_INTEGER_LIST(CASTS_FROM_INTEGER)

/* Floats truncate and saturate, NaN gives 0. `low` and `high` are the least and the
 * largest value of `type` whose whole part the integer `middle` holds; from `end` on
 * `most` is the result. */
#define SATURATE(name, type, low, high, middle, end, most) \
    IPU_INLINE middle name(type x) \
    { \
        type inside = x > (low) ? x : (low); \
        inside = inside < (high) ? inside : (high); \
        middle whole = (middle)inside; \
        whole = (end) > (high) && x >= (end) ? (most) : whole; \
        return x == x ? whole : 0; \
    }
#define CAST_TO_INTEGER(suffix, type, to, to_type, low, high, middle, end, most) \
    SATURATE(saturate_##suffix##_##to, type, low, high, middle, end, most) \
    UNARY(cast_##suffix##_##to, to_type, type, saturate_##suffix##_##to(x))
#define CAST_TO_NARROW(suffix, type, to, to_type, low, high) \
    CAST_TO_INTEGER(suffix, type, to, to_type, (type)(low), (type)(high), int32_t, \
                    (type)(high), 0)
#define CASTS_TO_NARROW(suffix, type) \
    CAST_TO_NARROW(suffix, type, i8, int8_t, INT8_MIN, INT8_MAX) \
    CAST_TO_NARROW(suffix, type, i16, int16_t, INT16_MIN, INT16_MAX) \
    CAST_TO_NARROW(suffix, type, u8, uint8_t, 0, UINT8_MAX) \
    CAST_TO_NARROW(suffix, type, u16, uint16_t, 0, UINT16_MAX) \
    UNARY(cast_##suffix##_bool, uint8_t, type, x != 0)
CASTS_TO_NARROW(f32, float)
CASTS_TO_NARROW(f64, double)
CAST_TO_INTEGER(f32, float, i32, int32_t, -0x1p31f, 0x1.fffffep30f, int32_t, 0x1p31f,
                INT32_MAX)
CAST_TO_INTEGER(f32, float, u32, uint32_t, 0.0f, 0x1.fffffep31f, int64_t, 0x1p32f,
                UINT32_MAX)
CAST_TO_INTEGER(f32, float, i64, int64_t, -0x1p63f, 0x1.fffffep62f, int64_t, 0x1p63f,
                INT64_MAX)
CAST_TO_INTEGER(f32, float, u64, uint64_t, 0.0f, 0x1.fffffep63f, uint64_t, 0x1p64f,
                UINT64_MAX)
CAST_TO_NARROW(f64, double, i32, int32_t, INT32_MIN, INT32_MAX)
CAST_TO_INTEGER(f64, double, u32, uint32_t, 0.0, (double)UINT32_MAX, int64_t,
                (double)UINT32_MAX, 0)
CAST_TO_INTEGER(f64, double, i64, int64_t, -0x1p63, 0x1.fffffffffffffp62, int64_t,
                0x1p63, INT64_MAX)
CAST_TO_INTEGER(f64, double, u64, uint64_t, 0.0, 0x1.fffffffffffffp63, uint64_t, 0x1p64,
                UINT64_MAX)

/* To int8 and int32 from float32 with fewer instructions: what does not fit becomes
 * INT32_MIN by itself, and the narrowing saturates. */
#if BLOCK_F16C == 16
SIGNATURE(quick_f32_i32)
{
    const __m512 end = _mm512_set1_ps(0x1p31f);
    const __m512i most = _mm512_set1_epi32(INT32_MAX);
    const float *xs = a;
    int32_t *result = out;
    int64_t i = 0;
    for (; i + 16 <= n; i += 16) {
        __m512 x = _mm512_loadu_ps(xs + i);
        __mmask16 numbers = _mm512_cmp_ps_mask(x, x, _CMP_ORD_Q);
        __mmask16 above = _mm512_cmp_ps_mask(x, end, _CMP_GE_OQ);
        __m512i whole = _mm512_maskz_cvttps_epi32(numbers, x);
        whole = _mm512_mask_mov_epi32(whole, above, most);
        _mm512_storeu_si512(result + i, whole);
    }
    return cast_f32_i32(block, result + i, xs + i, b, c, n - i);
}

SIGNATURE(quick_f32_i8)
{
    const __m512 high = _mm512_set1_ps((float)INT8_MAX);
    const float *xs = a;
    int8_t *result = out;
    int64_t i = 0;
    for (; i + 16 <= n; i += 16) {
        __m512 x = _mm512_loadu_ps(xs + i);
        __mmask16 numbers = _mm512_cmp_ps_mask(x, x, _CMP_ORD_Q);
        __m512i whole = _mm512_maskz_cvttps_epi32(numbers, _mm512_min_ps(x, high));
        _mm_storeu_si128((__m128i *)(void *)(result + i), _mm512_cvtsepi32_epi8(whole));
    }
    return cast_f32_i8(block, result + i, xs + i, b, c, n - i);
}
#elif BLOCK_F16C == 8
IPU_INLINE __attribute__((target("avx2"))) __m256i
whole_avx2(__m256 x)
{
    __m256 numbers = _mm256_cmp_ps(x, x, _CMP_ORD_Q);
    return _mm256_cvttps_epi32(_mm256_and_ps(x, numbers));
}

SIGNATURE(quick_f32_i32)
{
    const __m256 end = _mm256_set1_ps(0x1p31f);
    const float *xs = a;
    int32_t *result = out;
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) {
        __m256 x = _mm256_loadu_ps(xs + i);
        __m256i above = _mm256_castps_si256(_mm256_cmp_ps(x, end, _CMP_GE_OQ));
        /* the one that INT32_MIN has, turned: INT32_MAX */
        __m256i whole = _mm256_xor_si256(whole_avx2(x), above);
        _mm256_storeu_si256((__m256i *)(void *)(result + i), whole);
    }
    return cast_f32_i32(block, result + i, xs + i, b, c, n - i);
}

SIGNATURE(quick_f32_i8)
{
    const __m256 high = _mm256_set1_ps((float)INT8_MAX);
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    const float *xs = a;
    int8_t *result = out;
    int64_t i = 0;
    for (; i + 32 <= n; i += 32) {
        __m256i part[4];
        for (int32_t k = 0; k < 4; k++) {
            __m256 x = _mm256_loadu_ps(xs + i + 8 * k);
            /* the second where one is NaN */
            part[k] = whole_avx2(_mm256_min_ps(high, x));
        }
        __m256i low = _mm256_packs_epi32(part[0], part[1]);
        __m256i all = _mm256_packs_epi16(low, _mm256_packs_epi32(part[2], part[3]));
        all = _mm256_permutevar8x32_epi32(all, order);
        _mm256_storeu_si256((__m256i *)(void *)(result + i), all);
    }
    return cast_f32_i8(block, result + i, xs + i, b, c, n - i);
}
#else
#define quick_f32_i32 cast_f32_i32
#define quick_f32_i8 cast_f32_i8
#endif

UNARY(cast_f64_f32, float, double, x)
UNARY(cast_f32_f64, double, float, (double)x)
/* On the way to float16. */
UNARY(to_odd_f64_f32, float, double, ipu__float_to_odd(x))

/* --- float16 -------------------------------------------------------------------------
 */

/* A number among the others, of which 0 and -0 are the same. All of its steps fit 16
 * bits, for twice as many lanes. */
BLOCK_TARGET static inline int16_t
half_order(uint16_t x)
{
    const int16_t negative = (int16_t)(uint16_t)(0x8000u - x);
    return (int16_t)x < 0 ? negative : (int16_t)x;
}

BLOCK_TARGET static inline bool
half_is_nan(uint16_t x)
{
    return (int16_t)(x & 0x7fff) > 0x7c00;
}

/* The first or the second, without a branch, which nothing would foresee. */
BLOCK_TARGET static inline uint16_t
half_of(bool first, uint16_t x, uint16_t y)
{
    const uint16_t mask = (uint16_t)-(int16_t)first;
    return (uint16_t)(y ^ ((x ^ y) & mask));
}

/* `number`, or the first of x and y that is NaN, quiet as after float32. */
BLOCK_TARGET static inline uint16_t
half_or_nan(uint16_t x, uint16_t y, uint16_t number)
{
    const uint16_t quiet_x = x | 0x200;
    const uint16_t quiet_y = y | 0x200;
    const uint16_t result = half_is_nan(y) ? quiet_y : number;
    return half_is_nan(x) ? quiet_x : result;
}

/* 1 or -1, or the 0 that x is. */
BLOCK_TARGET static inline uint16_t
half_sign(uint16_t x)
{
    return half_of((uint16_t)(x << 1) == 0, x, (x & 0x8000u) | 0x3c00u);
}

/* Ops on the bits alone. */
#define HALF_COMPARE(operator) \
    !half_is_nan(x) && !half_is_nan(y) && half_order(x) operator half_order(y)
#define HALF_FORMULAS(F) \
    F(EQUAL, TWO, TEST, f16, HALF_COMPARE(==)) \
    F(NOT_EQUAL, TWO, TEST, f16, !(HALF_COMPARE(==))) \
    F(LESS, TWO, TEST, f16, HALF_COMPARE(<)) \
    F(LESS_EQUAL, TWO, TEST, f16, HALF_COMPARE(<=)) \
    F(GREATER, TWO, TEST, f16, HALF_COMPARE(>)) \
    F(GREATER_EQUAL, TWO, TEST, f16, HALF_COMPARE(>=)) \
    F(NEG, ONE, SAME, f16, x ^ 0x8000u) \
    F(ABS, ONE, SAME, f16, x & 0x7fffu) \
    F(SIGN, ONE, SAME, f16, half_or_nan(x, x, half_sign(x))) \
    F(RELU, ONE, SAME, f16, x - 0x8001u < 0x7c00u ? 0 : x) /* NaN, -0 pass */ \
    F(RELU_GRAD, TWO, SAME, f16, (uint16_t)(x - 1u) < 0x7c00u ? y : 0) \
    F(MAXIMUM, TWO, SAME, f16, \
      half_or_nan(x, y, half_of(half_order(x) > half_order(y), x, y))) \
    F(MINIMUM, TWO, SAME, f16, \
      half_or_nan(x, y, half_of(half_order(x) < half_order(y), x, y))) \
    F(IS_NAN, ONE, TEST, f16, half_is_nan(x)) \
    F(IS_INF, ONE, TEST, f16, (x & 0x7fffu) == 0x7c00u) \
    F(IS_FINITE, ONE, TEST, f16, (x & 0x7fffu) < 0x7c00u)
HALF_FORMULAS(LOOP_OF)
UNARY(cast_f16_bool, uint8_t, uint16_t, (x & 0x7fffu) != 0)

/* The instructions round, and treat NaN, as the functions of base/dtype.h do. */
#if BLOCK_F16C == 16
#define FLOATS __m512
#define LOAD_HALVES(from) \
    _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)(from)))
#define STORE_HALVES(to, value) \
    _mm256_storeu_si256((__m256i *)(void *)(to), \
                        _mm512_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT))
#define LOAD_FLOATS _mm512_loadu_ps
#define SAME_FLOATS _mm512_set1_ps
#define STORE_FLOATS _mm512_storeu_ps
#define WHOLE_FLOATS _mm512_roundscale_ps
#define WHERE_NOT_0(y, value) \
    _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(y, _mm512_setzero_ps(), _CMP_NEQ_UQ), value)
#elif BLOCK_F16C == 8
#define FLOATS __m256
#define LOAD_HALVES(from) \
    _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(from)))
#define STORE_HALVES(to, value) \
    _mm_storeu_si128((__m128i *)(void *)(to), \
                     _mm256_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT))
#define LOAD_FLOATS _mm256_loadu_ps
#define SAME_FLOATS _mm256_set1_ps
#define STORE_FLOATS _mm256_storeu_ps
#define WHOLE_FLOATS _mm256_round_ps
#define WHERE_NOT_0(y, value) \
    _mm256_and_ps(_mm256_cmp_ps(y, _mm256_setzero_ps(), _CMP_NEQ_UQ), value)
#endif
#if defined(BLOCK_F16C)
#define FLOAT_OF(half) _cvtsh_ss(half)
#define HALF_OF(value) _cvtss_sh(value, _MM_FROUND_TO_NEAREST_INT)
#define LOAD_4_HALVES(from) \
    _mm_cvtph_ps(_mm_loadl_epi64((const __m128i *)(const void *)(from)))
#define STORE_4_HALVES(to, value) \
    _mm_storel_epi64((__m128i *)(void *)(to), \
                     _mm_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT))
#else
#define FLOAT_OF(half) ipu_float16_to_float(half)
#define HALF_OF(value) ipu_float16_from_float(value)
#endif

BLOCK_TARGET static void
halves_to_floats(float *out, const uint16_t *x, int64_t n)
{
    int64_t i = 0;
#if defined(BLOCK_F16C)
    for (; i + BLOCK_F16C <= n; i += BLOCK_F16C) {
        STORE_FLOATS(out + i, LOAD_HALVES(x + i));
    }
    for (; i + 4 <= n; i += 4) {
        _mm_storeu_ps(out + i, LOAD_4_HALVES(x + i));
    }
#endif
    for (; i < n; i++) {
        out[i] = FLOAT_OF(x[i]);
    }
}

BLOCK_TARGET static void
floats_to_halves(uint16_t *out, const float *x, int64_t n)
{
    int64_t i = 0;
#if defined(BLOCK_F16C)
    for (; i + BLOCK_F16C <= n; i += BLOCK_F16C) {
        STORE_HALVES(out + i, LOAD_FLOATS(x + i));
    }
    for (; i + 4 <= n; i += 4) {
        STORE_4_HALVES(out + i, _mm_loadu_ps(x + i));
    }
#endif
    for (; i < n; i++) {
        out[i] = HALF_OF(x[i]);
    }
}

SIGNATURE(cast_f16_f32)
{
    UNUSED();
    halves_to_floats(out, a, n);
    return IPU_FAULT_NONE;
}

SIGNATURE(cast_f32_f16)
{
    UNUSED();
    floats_to_halves(out, a, n);
    return IPU_FAULT_NONE;
}

enum { MOST_HALVES = IPU_BLOCK_BYTES / 4 };

/* Any op with a float32 function: widened, computed, rounded once. */
SIGNATURE(through_f32)
{
    float wide[3][MOST_HALVES];
    float result[MOST_HALVES];
    const void *operands[3] = {a, b, c};
    for (int32_t k = 0; k < (int32_t)block->operands; k++) {
        halves_to_floats(wide[k], operands[k], n);
    }
    if (block->out != IPU_DTYPE_FLOAT16) {
        return block->inner(block, out, wide[0], wide[1], wide[2], n);
    }
    ipu__fault fault = block->inner(block, result, wide[0], wide[1], wide[2], n);
    floats_to_halves(out, result, n);
    return fault;
}

/* Casts to float16 by a float32 that is exact, odd or too large for either. */
SIGNATURE(cast_by_f32)
{
    float wide[MOST_HALVES];
    (void)block->inner(block, wide, a, b, c, n);
    floats_to_halves(out, wide, n);
    return IPU_FAULT_NONE;
}

/* The same as through_f32 without a store in between: `vector` of x and y, vectors, and
 * `one` of the rest, one by one. */
#if defined(BLOCK_F16C)
#define HALF_VECTORS(y_floats, vector) \
    for (; i + BLOCK_F16C <= n; i += BLOCK_F16C) { \
        const FLOATS x = LOAD_HALVES(xs + i); \
        y_floats STORE_HALVES(result + i, vector); \
    }
#else
#define HALF_VECTORS(y_floats, vector)
#endif
#define HALF_LOOP(name, operands, vector, one) \
    SIGNATURE(name##_f16) \
    { \
        const uint16_t *xs = a; \
        uint16_t *result = out; \
        int64_t i = 0; \
        UNUSED(); \
        HALF_VECTORS(VECTOR_##operands, vector) \
        IPU_INDEPENDENT \
        for (; i < n; i++) { \
            const float x = FLOAT_OF(xs[i]); \
            NUMBER_##operands result[i] = HALF_OF(one); \
        } \
        return IPU_FAULT_NONE; \
    }
#define VECTOR_ONE
#define NUMBER_ONE
#define VECTOR_TWO const FLOATS y = LOAD_HALVES((const uint16_t *)b + i);
#define NUMBER_TWO const float y = FLOAT_OF(((const uint16_t *)b)[i]);
#define HALF_BINARY(name, operator) \
    HALF_LOOP(name, TWO, x operator y, x operator y) \
    BLOCK_TARGET static void column_##name##_f16( \
        void *out, const void *a, const void *column, int64_t rows, int64_t n) \
    { \
        const uint16_t *xs = a; \
        uint16_t *result = out; \
        for (int64_t r = 0; r < rows; r++, xs += n, result += n) { \
            const float same = FLOAT_OF(((const uint16_t *)column)[r]); \
            int64_t i = 0; \
            HALF_VECTORS(const FLOATS y = SAME_FLOATS(same);, x operator y) \
            IPU_INDEPENDENT \
            for (; i < n; i++) { \
                result[i] = HALF_OF(FLOAT_OF(xs[i]) operator same); \
            } \
        } \
    }
HALF_BINARY(add, +)
HALF_BINARY(sub, -)
HALF_BINARY(mul, *)
HALF_BINARY(div, /)
#define HALF_SAME(name, operands, expression) \
    HALF_LOOP(name, operands, expression, expression)
HALF_SAME(square, ONE, x * x)
HALF_SAME(reciprocal, ONE, 1.0f / x)
HALF_SAME(tanh_grad, TWO, TANH_SLOPE)
HALF_SAME(sigmoid_grad, TWO, SIGMOID_SLOPE)
#define HALF_WHERE(name, expression) \
    HALF_LOOP(name, TWO, WHERE_NOT_0(y, expression), y == 0 ? 0 : expression)
HALF_WHERE(sqrt_grad, SQRT_SLOPE(float))
HALF_WHERE(rsqrt_grad, RSQRT_SLOPE(float))
HALF_WHERE(reciprocal_grad, RECIPROCAL_SLOPE)
#define HALF_WHOLE(name, mode, function) \
    HALF_LOOP(name, ONE, WHOLE_FLOATS(x, (mode) | _MM_FROUND_NO_EXC), \
              WHOLE(name, f32, function)(x))
HALF_WHOLE(floor, _MM_FROUND_TO_NEG_INF, __builtin_floorf)
HALF_WHOLE(ceil, _MM_FROUND_TO_POS_INF, __builtin_ceilf)
HALF_WHOLE(round, _MM_FROUND_TO_NEAREST_INT, __builtin_rintf)
HALF_WHOLE(trunc, _MM_FROUND_TO_ZERO, __builtin_truncf)

/* --- tests of elements of 8 bytes, by AVX2 -------------------------------------------
 */

#if BLOCK_F16C == 8
/* 32 masks as bytes. Compilers take three times the shuffles, as they narrow by half a
 * step and keep the order in each. */
IPU_INLINE __attribute__((target("avx2"))) void
store_tests(uint8_t *out, const __m256i mask[8])
{
    const __m128i one = _mm_set1_epi8(1);
    __m256i pairs[4];
    for (int k = 0; k < 4; k++) { /* in lanes of 128 bits two of one, two of the next */
        __m256 first = _mm256_castsi256_ps(mask[2 * k]);
        __m256 second = _mm256_castsi256_ps(mask[2 * k + 1]);
        pairs[k] = _mm256_castps_si256(_mm256_shuffle_ps(first, second, 0x88));
    }
    __m256i low = _mm256_packs_epi32(pairs[0], pairs[1]);
    __m256i all = _mm256_packs_epi16(low, _mm256_packs_epi32(pairs[2], pairs[3]));
    __m128i begins = _mm_and_si128(_mm256_castsi256_si128(all), one);
    __m128i ends = _mm_and_si128(_mm256_extracti128_si256(all, 1), one);
    __m128i *to = (__m128i *)(void *)out;
    _mm_storeu_si128(to, _mm_unpacklo_epi16(begins, ends));
    _mm_storeu_si128(to + 1, _mm_unpackhi_epi16(begins, ends));
}

#define VECTOR_Y_ONE
#define VECTOR_Y_TWO const vector y = *(const vector *)(ys + at);
#define WIDE_TEST(op, operands, result_kind, suffix, expression) \
    SIGNATURE(wide_##op##_##suffix) \
    { \
        typedef TYPE_##suffix vector \
            __attribute__((vector_size(32), aligned(8), may_alias)); \
        const TYPE_##suffix *xs = a; \
        const TYPE_##suffix *ys = b == NULL ? a : b; \
        uint8_t *result = out; \
        int64_t i = 0; \
        for (; i + 32 <= n; i += 32) { \
            __m256i mask[8]; \
            _Pragma("GCC unroll 8") for (int k = 0; k < 8; k++) \
            { \
                const int64_t at = i + 4 * k; \
                const vector x = *(const vector *)(xs + at); \
                VECTOR_Y_##operands mask[k] = (__m256i)(expression); \
            } \
            store_tests(result + i, mask); \
        } \
        return op##_##suffix(block, result + i, xs + i, ys + i, c, n - i); \
    }
#define WIDE_TESTS(F) \
    COMPARE_FORMULAS(F, f64) \
    F(IS_NAN, ONE, TEST, f64, x != x) \
    F(IS_INF, ONE, TEST, f64, (x == x) & (x - x != 0.0)) \
    F(IS_FINITE, ONE, TEST, f64, x - x == 0.0) \
    COMPARE_FORMULAS(F, i64)
WIDE_TESTS(WIDE_TEST)
#define WIDE_TEST_ROW(op, operands, result, suffix, expression) \
    ROW_AS(op, result, DTYPE_##suffix, wide_##op##_##suffix)
#else
#define WIDE_TESTS(F)
#endif

/* --- the table -----------------------------------------------------------------------
 */

#define CAST_ROW(in, out, name) \
    {IPU_OP_ID_CAST, IPU_DTYPE_##in, IPU_DTYPE_##out, name},
#define SAME_ROW(op, type, name) ROW_AS(op, SAME, IPU_DTYPE_##type, name)
/* Of the loops over unsigned elements of the same width. */
#define SIGNED_ROW_OF(op, operands, result, suffix, expression) \
    ROW_AS(op, result, SIGNED_DTYPE_##suffix, op##_##suffix)
#define BOOL_ROW_OF(op, operands, result, suffix, expression) \
    ROW_AS(op, result, IPU_DTYPE_BOOL, op##_##suffix)
/* Integers go to both signs of a width alike, floats do not. */
#define CAST_ROWS(type, suffix, i8, i16, i32, i64) \
    CAST_ROW(type, BOOL, cast_##suffix##_bool) \
    CAST_ROW(type, INT8, cast_##suffix##_##i8) \
    CAST_ROW(type, INT16, cast_##suffix##_##i16) \
    CAST_ROW(type, INT32, cast_##suffix##_##i32) \
    CAST_ROW(type, INT64, cast_##suffix##_##i64) \
    CAST_ROW(type, UINT8, cast_##suffix##_u8) \
    CAST_ROW(type, UINT16, cast_##suffix##_u16) \
    CAST_ROW(type, UINT32, cast_##suffix##_u32) \
    CAST_ROW(type, UINT64, cast_##suffix##_u64)
#define FLOAT_ROWS(type, suffix, ending) \
    FLOAT_FORMULAS(ROW_OF, suffix, ending) \
    FUNCTION_FORMULAS(ROW_OF, suffix, ending) \
    LONG_FORMULAS(ROW_OF, suffix) \
    SAME_ROW(ASINH, type, ASINH_##suffix) \
    SAME_ROW(ATANH, type, ATANH_##suffix) \
    SAME_ROW(EXP, type, exp_##suffix) \
    SAME_ROW(EXPM1, type, expm1_##suffix) \
    SAME_ROW(LOG, type, log_##suffix) \
    SAME_ROW(LOG1P, type, log1p_##suffix) \
    SAME_ROW(LOG2, type, log2_##suffix) \
    SAME_ROW(SIN, type, sin_##suffix) \
    SAME_ROW(COS, type, cos_##suffix) \
    SAME_ROW(TAN, type, tan_##suffix) \
    SAME_ROW(ATAN, type, atan_##suffix) \
    SAME_ROW(ERFINV, type, erfinv_##suffix) \
    SAME_ROW(NDTRI, type, ndtri_##suffix) \
    SAME_ROW(POW, type, pow_##suffix) \
    SAME_ROW(LGAMMA, type, lgamma_##suffix) \
    SAME_ROW(DIGAMMA, type, digamma_##suffix) \
    SAME_ROW(IGAMMA, type, igamma_##suffix) \
    SAME_ROW(IGAMMAC, type, igammac_##suffix) \
    SAME_ROW(IGAMMA_SLOPE, type, igamma_slope_##suffix) \
    SAME_ROW(FLOOR_DIV, type, floor_div_##suffix) \
    SAME_ROW(FLOOR_MOD, type, floor_mod_##suffix) \
    CAST_ROWS(type, suffix, i8, i16, i32, i64)
#define INTEGER_CAST_ROWS(type, suffix) \
    CAST_ROWS(type, suffix, u8, u16, u32, u64) \
    CAST_ROW(type, FLOAT32, cast_##suffix##_f32) \
    CAST_ROW(type, FLOAT64, cast_##suffix##_f64)
#define INTEGER_ROWS(type, suffix) \
    SAME_ROW(POW, type, pow_##suffix) \
    SAME_ROW(FLOOR_DIV, type, floor_div_##suffix) \
    SAME_ROW(FLOOR_MOD, type, floor_mod_##suffix) \
    INTEGER_CAST_ROWS(type, suffix)
#define SIGNED_ROWS(NAME, suffix, type, bits, ...) \
    WIDTH_FORMULAS(SIGNED_ROW_OF, u##bits) \
    SIGNED_FORMULAS(ROW_OF, suffix) \
    INTEGER_ROWS(NAME, suffix)
#define UNSIGNED_ROWS(NAME, suffix, ...) \
    WIDTH_FORMULAS(ROW_OF, suffix) \
    UNSIGNED_FORMULAS(ROW_OF, suffix) \
    INTEGER_ROWS(NAME, suffix)

/* The first row that fits is taken. */
static const ipu__block_row rows[] = {
    WIDE_TESTS(WIDE_TEST_ROW)
    CAST_ROW(FLOAT32, INT32, quick_f32_i32)
    CAST_ROW(FLOAT32, INT8, quick_f32_i8)
    SAME_ROW(LEFT_SHIFT, INT8, quick_left_u8)
    SAME_ROW(LEFT_SHIFT, UINT8, quick_left_u8)
    SAME_ROW(RIGHT_SHIFT, INT8, quick_right_i8)
    SAME_ROW(RIGHT_SHIFT, UINT8, quick_right_u8)
    FLOAT_ROWS(FLOAT32, f32, f)
    NARROW_FORMULAS(ROW_OF, f32)
    CAST_ROW(FLOAT32, FLOAT64, cast_f32_f64)
    CAST_ROW(FLOAT32, FLOAT16, cast_f32_f16)
    FLOAT_ROWS(FLOAT64, f64, )
    CAST_ROW(FLOAT64, FLOAT32, cast_f64_f32)
    HALF_FORMULAS(ROW_OF)
    CAST_ROW(FLOAT16, BOOL, cast_f16_bool)
    CAST_ROW(FLOAT16, FLOAT32, cast_f16_f32)
    SAME_ROW(ADD, FLOAT16, add_f16)
    SAME_ROW(SUB, FLOAT16, sub_f16)
    SAME_ROW(MUL, FLOAT16, mul_f16)
    SAME_ROW(DIV, FLOAT16, div_f16)
    SAME_ROW(SQUARE, FLOAT16, square_f16)
    SAME_ROW(RECIPROCAL, FLOAT16, reciprocal_f16)
    SAME_ROW(TANH_GRAD, FLOAT16, tanh_grad_f16)
    SAME_ROW(SIGMOID_GRAD, FLOAT16, sigmoid_grad_f16)
    SAME_ROW(SQRT_GRAD, FLOAT16, sqrt_grad_f16)
    SAME_ROW(RSQRT_GRAD, FLOAT16, rsqrt_grad_f16)
    SAME_ROW(RECIPROCAL_GRAD, FLOAT16, reciprocal_grad_f16)
    SAME_ROW(FLOOR, FLOAT16, floor_f16)
    SAME_ROW(CEIL, FLOAT16, ceil_f16)
    SAME_ROW(ROUND, FLOAT16, round_f16)
    SAME_ROW(TRUNC, FLOAT16, trunc_f16)
    IPU_SIGNED_LIST(SIGNED_ROWS)
    IPU_UNSIGNED_LIST(UNSIGNED_ROWS)
    COMPARE_FORMULAS(BOOL_ROW_OF, u8)
    INTEGER_CAST_ROWS(BOOL, u8)
    LOGICAL_FORMULAS(BOOL_ROW_OF, u8)
};

#define SIGNED_COLUMNS(NAME, suffix, type, bits, ...) \
    WRAPPING_FORMULAS(SIGNED_COLUMN_ROW_OF, u##bits)
#define UNSIGNED_COLUMNS(NAME, suffix, ...) WRAPPING_FORMULAS(COLUMN_ROW_OF, suffix)
static const ipu__column_row column_rows[] = {
    ARITHMETIC_FORMULAS(COLUMN_ROW_OF, f32)
    ARITHMETIC_FORMULAS(COLUMN_ROW_OF, f64)
    {IPU_OP_ID_ADD, IPU_DTYPE_FLOAT16, column_add_f16},
    {IPU_OP_ID_SUB, IPU_DTYPE_FLOAT16, column_sub_f16},
    {IPU_OP_ID_MUL, IPU_DTYPE_FLOAT16, column_mul_f16},
    {IPU_OP_ID_DIV, IPU_DTYPE_FLOAT16, column_div_f16},
    IPU_SIGNED_LIST(SIGNED_COLUMNS)
    IPU_UNSIGNED_LIST(UNSIGNED_COLUMNS)
};

/* The same loops, called with plain float pointers. */
#define MAP(name, loop) \
    static void name##_map(float *out, const float *x, int64_t n) \
    { \
        (void)loop(NULL, out, x, x, x, n); \
    }
MAP(exp, exp_f32)
MAP(relu, RELU_f32)
MAP(tanh, TANH_f32)
MAP(sigmoid, SIGMOID_f32)

static void
add_pair(float *out, const float *a, const float *b, int64_t n)
{
    (void)ADD_f32(NULL, out, a, b, b, n);
}

const ipu__block_form BLOCK_FORM = {
    .rows = rows,
    .count = sizeof rows / sizeof rows[0],
    .column_rows = column_rows,
    .column_count = sizeof column_rows / sizeof column_rows[0],
    .select = {select_u8, select_u16, select_u32, select_u64},
    .through_f32 = through_f32,
    .cast_by_f32 = cast_by_f32,
    .to_odd = to_odd_f64_f32,
    .halves_to_floats = halves_to_floats,
    .floats_to_halves = floats_to_halves,
    .vector = {exp_map, relu_map, tanh_map, sigmoid_map, add_pair},
};
