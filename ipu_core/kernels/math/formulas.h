/* SPDX-License-Identifier: MIT
 *
 * Each element-wise op as an expression of its operands, x and y, once: the scalar
 * definitions (scalar.c), the loops over blocks and their table (element/blocks_impl.h)
 * are made from these lists. A line is F(op, operands, result, suffix, expression):
 * ONE or TWO operands; a result of the SAME type, or a TEST, which is bool. */
#ifndef IPU_KERNELS_FORMULAS_H
#define IPU_KERNELS_FORMULAS_H

#include <stdint.h>

#include "kernels/math/element_math.h"
#include "kernels/math/narrow_math.h"
#include "kernels/math/rounded_math.h"

#define TYPE_f16 uint16_t
#define TYPE_f32 float
#define TYPE_f64 double
#define TYPE_i8 int8_t
#define TYPE_i16 int16_t
#define TYPE_i32 int32_t
#define TYPE_i64 int64_t
#define TYPE_u8 uint8_t
#define TYPE_u16 uint16_t
#define TYPE_u32 uint32_t
#define TYPE_u64 uint64_t
/* Wide enough that nothing is promoted to int. */
#define WIDE_i8 uint32_t
#define WIDE_i16 uint32_t
#define WIDE_i32 uint32_t
#define WIDE_i64 uint64_t
#define WIDE_u8 uint32_t
#define WIDE_u16 uint32_t
#define WIDE_u32 uint32_t
#define WIDE_u64 uint64_t
#define BITS(suffix) (sizeof(TYPE_##suffix) * 8)

#define COMPARE_FORMULAS(F, suffix) \
    F(EQUAL, TWO, TEST, suffix, x == y) \
    F(NOT_EQUAL, TWO, TEST, suffix, x != y) \
    F(LESS, TWO, TEST, suffix, x < y) \
    F(LESS_EQUAL, TWO, TEST, suffix, x <= y) \
    F(GREATER, TWO, TEST, suffix, x > y) \
    F(GREATER_EQUAL, TWO, TEST, suffix, x >= y)

/* Of one element or of vectors; 1 - x * x would cancel near 1. */
#define TANH_SLOPE y * ((1 - x) * (1 + x))
#define SIGMOID_SLOPE y * (x * (1 - x))
#define SQRT_SLOPE(type) (y * (type)0.5) / x
#define RSQRT_SLOPE(type) (((y * (type)-0.5) * x) * x) * x
#define RECIPROCAL_SLOPE -((y * x) * x)

#define ARITHMETIC_FORMULAS(F, suffix) \
    F(ADD, TWO, SAME, suffix, x + y) \
    F(SUB, TWO, SAME, suffix, x - y) \
    F(MUL, TWO, SAME, suffix, x * y) \
    F(DIV, TWO, SAME, suffix, x / y)

/* `ending` is that of the C library's functions. */
#define FLOAT_FORMULAS(F, suffix, ending) \
    COMPARE_FORMULAS(F, suffix) \
    F(NEG, ONE, SAME, suffix, -x) \
    F(ABS, ONE, SAME, suffix, ipu__magnitude_##suffix(x)) \
    F(SIGN, ONE, SAME, suffix, x > 0 ? 1 : (x < 0 ? -1 : x)) \
    F(SQRT, ONE, SAME, suffix, __builtin_sqrt##ending(x)) \
    F(RSQRT, ONE, SAME, suffix, 1 / __builtin_sqrt##ending(x)) \
    F(SQUARE, ONE, SAME, suffix, x * x) \
    F(RELU, ONE, SAME, suffix, 0 > x ? 0 : x) /* NaN and -0 pass */ \
    F(RECIPROCAL, ONE, SAME, suffix, 1 / x) \
    F(IS_NAN, ONE, TEST, suffix, x != x) \
    F(IS_INF, ONE, TEST, suffix, \
      ipu__magnitude_##suffix(x) == __builtin_inf##ending()) \
    F(IS_FINITE, ONE, TEST, suffix, \
      ipu__magnitude_##suffix(x) < __builtin_inf##ending()) \
    ARITHMETIC_FORMULAS(F, suffix) \
    F(MAXIMUM, TWO, SAME, suffix, x > y ? x : (x == x ? y : x)) \
    F(MINIMUM, TWO, SAME, suffix, x < y ? x : (x == x ? y : x)) \
    F(RELU_GRAD, TWO, SAME, suffix, x > 0 ? y : 0) \
    F(TANH_GRAD, TWO, SAME, suffix, TANH_SLOPE) \
    F(SIGMOID_GRAD, TWO, SAME, suffix, SIGMOID_SLOPE) \
    /* 0 where y is, whatever the value is there */ \
    F(SQRT_GRAD, TWO, SAME, suffix, y == 0 ? 0 : SQRT_SLOPE(TYPE_##suffix)) \
    F(RSQRT_GRAD, TWO, SAME, suffix, y == 0 ? 0 : RSQRT_SLOPE(TYPE_##suffix)) \
    F(RECIPROCAL_GRAD, TWO, SAME, suffix, y == 0 ? 0 : RECIPROCAL_SLOPE)

/* An instruction, or the same by additions. */
#if defined(BLOCK_F16C)
#define WHOLE(name, suffix, builtin) builtin
#else
#define WHOLE(name, suffix, builtin) ipu__##name##_##suffix
#endif

#define FUNCTION_FORMULAS(F, suffix, ending) \
    F(FLOOR, ONE, SAME, suffix, WHOLE(floor, suffix, __builtin_floor##ending)(x)) \
    F(CEIL, ONE, SAME, suffix, WHOLE(ceil, suffix, __builtin_ceil##ending)(x)) \
    F(ROUND, ONE, SAME, suffix, WHOLE(round, suffix, __builtin_rint##ending)(x)) \
    F(TRUNC, ONE, SAME, suffix, WHOLE(trunc, suffix, __builtin_trunc##ending)(x)) \
    F(COSH, ONE, SAME, suffix, ipu__cosh_##suffix(x)) \
    F(ASIN, ONE, SAME, suffix, ipu__asin_##suffix(x)) \
    F(ACOS, ONE, SAME, suffix, ipu__acos_##suffix(x))

/* Whose float64 has loops of its own. */
#define LONG_FORMULAS(F, suffix) \
    F(TANH, ONE, SAME, suffix, ipu__tanh_##suffix(x)) \
    F(SIGMOID, ONE, SAME, suffix, ipu__sigmoid_##suffix(x)) \
    F(SINH, ONE, SAME, suffix, ipu__sinh_##suffix(x)) \
    F(ACOSH, ONE, SAME, suffix, ipu__acosh_##suffix(x)) \
    F(SOFTPLUS, ONE, SAME, suffix, ipu__softplus_##suffix(x)) \
    F(ATAN2, TWO, SAME, suffix, ipu__atan2_##suffix(x, y)) \
    F(ERF, ONE, SAME, suffix, ipu__erf_##suffix(x)) \
    F(ERFC, ONE, SAME, suffix, ipu__erfc_##suffix(x)) \
    F(GELU, ONE, SAME, suffix, ipu__gelu_##suffix(x)) \
    F(GELU_GRAD, TWO, SAME, suffix, ipu__gelu_grad_##suffix(x, y))

/* Of float32, whose float64 is scalar (scalar.c). */
#define NARROW_FORMULAS(F, suffix) \
    F(BESSEL_I0E, ONE, SAME, suffix, ipu__bessel_i0e_##suffix(x)) \
    F(BESSEL_I1E, ONE, SAME, suffix, ipu__bessel_i1e_##suffix(x))

#define WRAPPING_FORMULAS(F, suffix) \
    F(ADD, TWO, SAME, suffix, (WIDE_##suffix)x + (WIDE_##suffix)y) \
    F(SUB, TWO, SAME, suffix, (WIDE_##suffix)x - (WIDE_##suffix)y) \
    F(MUL, TWO, SAME, suffix, (WIDE_##suffix)x * (WIDE_##suffix)y)

/* What does not ask for the sign: integers wrap, by unsigned arithmetic. Shifts by the
 * width or more, or by less than 0, which is more still, leave 0. */
#define WIDTH_FORMULAS(F, suffix) \
    F(NEG, ONE, SAME, suffix, 0 - (WIDE_##suffix)x) \
    F(SQUARE, ONE, SAME, suffix, (WIDE_##suffix)x * (WIDE_##suffix)x) \
    F(ROUND, ONE, SAME, suffix, x) \
    F(BITWISE_NOT, ONE, SAME, suffix, ~(WIDE_##suffix)x) \
    F(BITWISE_AND, TWO, SAME, suffix, x & y) \
    F(BITWISE_OR, TWO, SAME, suffix, x | y) \
    F(BITWISE_XOR, TWO, SAME, suffix, x ^ y) \
    F(LEFT_SHIFT, TWO, SAME, suffix, \
      y < BITS(suffix) ? (WIDE_##suffix)x << (y & (BITS(suffix) - 1)) : 0) \
    WRAPPING_FORMULAS(F, suffix)

#define INTEGER_FORMULAS(F, suffix) \
    COMPARE_FORMULAS(F, suffix) \
    F(MAXIMUM, TWO, SAME, suffix, x > y ? x : y) \
    F(MINIMUM, TWO, SAME, suffix, x < y ? x : y) \
    F(RELU_GRAD, TWO, SAME, suffix, x > 0 ? y : 0)
#define SIGNED_FORMULAS(F, suffix) \
    INTEGER_FORMULAS(F, suffix) \
    F(ABS, ONE, SAME, suffix, x < 0 ? 0 - (WIDE_##suffix)x : (WIDE_##suffix)x) \
    F(SIGN, ONE, SAME, suffix, (TYPE_##suffix)(x > 0) - (TYPE_##suffix)(x < 0)) \
    F(RELU, ONE, SAME, suffix, x > 0 ? x : 0) \
    F(RIGHT_SHIFT, TWO, SAME, suffix, \
      x >> ((WIDE_##suffix)y < BITS(suffix) ? y : (TYPE_##suffix)(BITS(suffix) - 1)))
#define UNSIGNED_FORMULAS(F, suffix) \
    INTEGER_FORMULAS(F, suffix) \
    F(ABS, ONE, SAME, suffix, x) \
    F(SIGN, ONE, SAME, suffix, x != 0) \
    F(RELU, ONE, SAME, suffix, x) \
    F(RIGHT_SHIFT, TWO, SAME, suffix, \
      y < BITS(suffix) ? x >> (y & (BITS(suffix) - 1)) : 0)

#define LOGICAL_FORMULAS(F, suffix) \
    F(LOGICAL_NOT, ONE, SAME, suffix, x == 0) \
    F(LOGICAL_AND, TWO, SAME, suffix, (x != 0) & (y != 0)) \
    F(LOGICAL_OR, TWO, SAME, suffix, (x != 0) | (y != 0))

#endif
