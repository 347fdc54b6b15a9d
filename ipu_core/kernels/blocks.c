/* SPDX-License-Identifier: MIT
 *
 * Block functions: one element-wise op over n contiguous elements. Each is a plain
 * loop, compiled once for the base instruction set and once for AVX2 (see
 * kernel_impl.h); the element-wise driver, fused chains and the write-back of matrix
 * products all call these, which is why fused and unfused forms agree to the bit.
 * float16 widens to float32, runs the float32 function and rounds once. What has no
 * loop here goes through the scalar definitions. No state, any thread. */
#include <math.h>

#include "kernels/element_math.h"
#include "kernels/kernel_impl.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

/* Defines <name>_generic and <name>_avx2; `expression` uses x, y, z, one element of
 * each operand. `fetch` declares y and z where the op has them. */
#define LOOP(name, out_type, a_type, fetch, expression) \
    LOOP_FORM(name##_generic, , out_type, a_type, fetch, expression) \
    LOOP_FORM(name##_avx2, IPU_TARGET_AVX2, out_type, a_type, fetch, expression)
#define LOOP_FORM(name, target, out_type, a_type, fetch, expression) \
    target static ipu__fault name(const ipu__block *block, void *out, const void *a, \
                                  const void *b, const void *c, int64_t n) \
    { \
        out_type *result = out; \
        const a_type *xs = a; \
        (void)block; \
        (void)b; \
        (void)c; \
        IPU_INDEPENDENT \
        for (int64_t i = 0; i < n; i++) { \
            a_type x = xs[i]; \
            fetch result[i] = (out_type)(expression); \
        } \
        return IPU_FAULT_NONE; \
    }
#define FETCH_Y(type) type y = ((const type *)b)[i];
#define FETCH_YZ(type) FETCH_Y(type) type z = ((const type *)c)[i];
#define UNARY(name, out_type, in_type, expression) \
    LOOP(name, out_type, in_type, , expression)
#define BINARY(name, out_type, in_type, expression) \
    LOOP(name, out_type, in_type, FETCH_Y(in_type), expression)
#define SELECT(name, type) \
    LOOP(name, type, uint8_t, FETCH_YZ(type), x != 0 ? y : z)

UNARY(neg_f32, float, float, -x)
UNARY(abs_f32, float, float, ipu__bits_float(ipu__float_bits(x) & 0x7fffffffu))
UNARY(sign_f32, float, float, x > 0.0f ? 1.0f : (x < 0.0f ? -1.0f : x))
UNARY(floor_f32, float, float, ipu__floor_f32(x))
UNARY(exp_f32, float, float, ipu__exp_f32(x))
UNARY(log_f32, float, float, ipu__log_f32(x))
UNARY(square_f32, float, float, x * x)
UNARY(tanh_f32, float, float, ipu__tanh_f32(x))
UNARY(sigmoid_f32, float, float, ipu__sigmoid_f32(x))
UNARY(relu_f32, float, float, ipu__relu_f32(x))
UNARY(reciprocal_f32, float, float, 1.0f / x)
UNARY(log1p_f32, float, float, ipu__log1p_f32(x))
UNARY(expm1_f32, float, float, ipu__expm1_f32(x))
UNARY(softplus_f32, float, float, ipu__softplus_f32(x))
UNARY(erf_f32, float, float, ipu__erf_f32(x))
UNARY(ceil_f32, float, float, ipu__ceil_f32(x))
UNARY(round_f32, float, float, ipu__round_f32(x))
UNARY(trunc_f32, float, float, ipu__trunc_f32(x))
UNARY(is_nan_f32, uint8_t, float, x != x)
UNARY(is_inf_f32, uint8_t, float, (ipu__float_bits(x) & 0x7fffffffu) == 0x7f800000u)
UNARY(is_finite_f32, uint8_t, float, (ipu__float_bits(x) & 0x7fffffffu) < 0x7f800000u)
BINARY(add_f32, float, float, x + y)
BINARY(sub_f32, float, float, x - y)
BINARY(mul_f32, float, float, x * y)
BINARY(div_f32, float, float, x / y)
BINARY(maximum_f32, float, float, x > y ? x : (x == x ? y : x))
BINARY(minimum_f32, float, float, x < y ? x : (x == x ? y : x))
BINARY(relu_grad_f32, float, float, x > 0.0f ? y : 0.0f)
/* 1 - x * x would cancel near 1 */
BINARY(tanh_grad_f32, float, float, y * ((1.0f - x) * (1.0f + x)))
BINARY(sigmoid_grad_f32, float, float, y * (x * (1.0f - x)))
BINARY(sqrt_grad_f32, float, float, ipu__unless_zero_f32(y, (y * 0.5f) / x))
BINARY(rsqrt_grad_f32, float, float,
       ipu__unless_zero_f32(y, (((y * -0.5f) * x) * x) * x))
BINARY(reciprocal_grad_f32, float, float, ipu__unless_zero_f32(y, -((y * x) * x)))

/* Integers wrap: unsigned arithmetic of the same width. */
#define INTEGER_LOOPS(suffix, type, wide) \
    UNARY(neg_##suffix, type, type, 0 - (wide)x) \
    UNARY(square_##suffix, type, type, (wide)x * (wide)x) \
    UNARY(bitwise_not_##suffix, type, type, ~(wide)x) \
    BINARY(bitwise_and_##suffix, type, type, (wide)x & (wide)y) \
    BINARY(bitwise_or_##suffix, type, type, (wide)x | (wide)y) \
    BINARY(bitwise_xor_##suffix, type, type, (wide)x ^ (wide)y) \
    BINARY(add_##suffix, type, type, (wide)x + (wide)y) \
    BINARY(sub_##suffix, type, type, (wide)x - (wide)y) \
    BINARY(mul_##suffix, type, type, (wide)x * (wide)y) \
    BINARY(maximum_##suffix, type, type, x > y ? x : y) \
    BINARY(minimum_##suffix, type, type, x < y ? x : y)
INTEGER_LOOPS(i32, int32_t, uint32_t)
INTEGER_LOOPS(i64, int64_t, uint64_t)
INTEGER_LOOPS(u8, uint8_t, uint32_t)

#define COMPARE_LOOPS(suffix, type) \
    BINARY(equal_##suffix, uint8_t, type, x == y) \
    BINARY(not_equal_##suffix, uint8_t, type, x != y) \
    BINARY(less_##suffix, uint8_t, type, x < y) \
    BINARY(less_equal_##suffix, uint8_t, type, x <= y) \
    BINARY(greater_##suffix, uint8_t, type, x > y) \
    BINARY(greater_equal_##suffix, uint8_t, type, x >= y)
COMPARE_LOOPS(f32, float)
COMPARE_LOOPS(i32, int32_t)
COMPARE_LOOPS(i64, int64_t)
COMPARE_LOOPS(u8, uint8_t)

UNARY(logical_not_u8, uint8_t, uint8_t, x == 0)
BINARY(logical_and_u8, uint8_t, uint8_t, (x != 0) & (y != 0))
BINARY(logical_or_u8, uint8_t, uint8_t, (x != 0) | (y != 0))

SELECT(select_1, uint8_t)
SELECT(select_2, uint16_t)
SELECT(select_4, uint32_t)
SELECT(select_8, uint64_t)

UNARY(cast_u8_f32, float, uint8_t, x)
UNARY(cast_i8_f32, float, int8_t, x)
UNARY(cast_i32_f32, float, int32_t, x)
UNARY(cast_i64_f32, float, int64_t, x)
UNARY(cast_f32_bool, uint8_t, float, x != 0.0f)
UNARY(cast_u8_i32, int32_t, uint8_t, x)
UNARY(cast_i32_i64, int64_t, int32_t, x)
UNARY(cast_i64_i32, int32_t, int64_t, (uint32_t)(uint64_t)x)
UNARY(cast_f64_f32, float, double, x)
UNARY(cast_f32_f64, double, float, (double)x)

IPU_INLINE int32_t
truncate_f32(float x)
{
    float inside = x < 2147483520.0f ? x : 2147483520.0f;
    inside = inside > -2147483648.0f ? inside : -2147483648.0f;
    inside = x == x ? inside : 0.0f;
    int32_t result = (int32_t)inside;
    return x >= 2147483648.0f ? INT32_MAX : result;
}
UNARY(cast_f32_i32, int32_t, float, truncate_f32(x))

/* The block is looked through first, so that the loop has no call in it; an element's
 * result does not depend on its neighbours. */
#define TURNED(name, suffix, target, quarter) \
    target static ipu__fault name##_f32_##suffix( \
        const ipu__block *block, void *out, const void *a, const void *b, \
        const void *c, int64_t n) \
    { \
        const float *xs = a; \
        float *result = out; \
        bool near = true; \
        (void)block; \
        (void)b; \
        (void)c; \
        for (int64_t i = 0; i < n; i++) { \
            near &= ipu__magnitude_f32(xs[i]) < IPU_TURN_LIMIT; \
        } \
        if (near) { \
            IPU_INDEPENDENT \
            for (int64_t i = 0; i < n; i++) { \
                result[i] = ipu__turned_f32(xs[i], quarter); \
            } \
            return IPU_FAULT_NONE; \
        } \
        for (int64_t i = 0; i < n; i++) { \
            result[i] = ipu__magnitude_f32(xs[i]) < IPU_TURN_LIMIT \
                            ? ipu__turned_f32(xs[i], quarter) \
                            : (float)name((double)xs[i]); \
        } \
        return IPU_FAULT_NONE; \
    }
TURNED(sin, generic, , 0)
TURNED(sin, avx2, IPU_TARGET_AVX2, 0)
TURNED(cos, generic, , 1)
TURNED(cos, avx2, IPU_TARGET_AVX2, 1)

/* Square roots: correctly rounded in hardware, but the C function may set errno, which
 * keeps compilers from using vectors. */
#if defined(__x86_64__)
static ipu__fault
sqrt_f32_generic(const ipu__block *block, void *out, const void *a, const void *b,
                 const void *c, int64_t n)
{
    const float *xs = a;
    float *result = out;
    (void)block;
    (void)b;
    (void)c;
    for (int64_t i = 0; i < n; i++) {
        result[i] = _mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss(xs[i])));
    }
    return IPU_FAULT_NONE;
}

IPU_TARGET_AVX2 static ipu__fault
sqrt_f32_avx2(const ipu__block *block, void *out, const void *a, const void *b,
              const void *c, int64_t n)
{
    const float *xs = a;
    float *result = out;
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) {
        _mm256_storeu_ps(result + i, _mm256_sqrt_ps(_mm256_loadu_ps(xs + i)));
    }
    return sqrt_f32_generic(block, result + i, xs + i, b, c, n - i);
}
#else
UNARY(sqrt_f32, float, float, sqrtf(x))
#endif

#define RSQRT(suffix, target) \
    target static ipu__fault rsqrt_f32_##suffix( \
        const ipu__block *block, void *out, const void *a, const void *b, \
        const void *c, int64_t n) \
    { \
        float *result = out; \
        (void)sqrt_f32_##suffix(block, out, a, b, c, n); \
        for (int64_t i = 0; i < n; i++) { \
            result[i] = 1.0f / result[i]; \
        } \
        return IPU_FAULT_NONE; \
    }
RSQRT(generic, )
RSQRT(avx2, IPU_TARGET_AVX2)

static void
halves_to_floats_generic(float *out, const uint16_t *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        out[i] = ipu_float16_to_float(x[i]);
    }
}

static void
floats_to_halves_generic(uint16_t *out, const float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        out[i] = ipu_float16_from_float(x[i]);
    }
}

/* The instructions round, and treat NaN, as the functions do. */
#if defined(__x86_64__)
IPU_TARGET_AVX2 static void
halves_to_floats_avx2(float *out, const uint16_t *x, int64_t n)
{
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) {
        __m128i halves = _mm_loadu_si128((const __m128i *)(const void *)(x + i));
        _mm256_storeu_ps(out + i, _mm256_cvtph_ps(halves));
    }
    halves_to_floats_generic(out + i, x + i, n - i);
}

IPU_TARGET_AVX2 static void
floats_to_halves_avx2(uint16_t *out, const float *x, int64_t n)
{
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) {
        __m128i halves =
            _mm256_cvtps_ph(_mm256_loadu_ps(x + i), _MM_FROUND_TO_NEAREST_INT);
        _mm_storeu_si128((__m128i *)(void *)(out + i), halves);
    }
    floats_to_halves_generic(out + i, x + i, n - i);
}
#else
#define halves_to_floats_avx2 halves_to_floats_generic
#define floats_to_halves_avx2 floats_to_halves_generic
#endif

void
ipu__halves_to_floats(float *out, const uint16_t *x, int64_t n, ipu_cpu_class cpu)
{
    (cpu >= IPU_CPU_AVX2 ? halves_to_floats_avx2 : halves_to_floats_generic)(out, x, n);
}

void
ipu__floats_to_halves(uint16_t *out, const float *x, int64_t n, ipu_cpu_class cpu)
{
    (cpu >= IPU_CPU_AVX2 ? floats_to_halves_avx2 : floats_to_halves_generic)(out, x, n);
}

/* Casts, and `through_f32`: any op with a float32 function, in float16. */
#define HALVES(suffix) \
    static ipu__fault cast_f16_f32_##suffix(const ipu__block *block, void *out, \
                                            const void *a, const void *b, \
                                            const void *c, int64_t n) \
    { \
        (void)block; \
        (void)b; \
        (void)c; \
        halves_to_floats_##suffix(out, a, n); \
        return IPU_FAULT_NONE; \
    } \
    static ipu__fault cast_f32_f16_##suffix(const ipu__block *block, void *out, \
                                            const void *a, const void *b, \
                                            const void *c, int64_t n) \
    { \
        (void)block; \
        (void)b; \
        (void)c; \
        floats_to_halves_##suffix(out, a, n); \
        return IPU_FAULT_NONE; \
    } \
    static ipu__fault through_f32_##suffix(const ipu__block *block, void *out, \
                                           const void *a, const void *b, \
                                           const void *c, int64_t n) \
    { \
        enum { MOST = IPU_BLOCK_BYTES / 4 }; \
        float wide[3][MOST]; \
        float result[MOST]; \
        const void *operands[3] = {a, b, c}; \
        for (int32_t k = 0; k < (int32_t)block->operands; k++) { \
            halves_to_floats_##suffix(wide[k], operands[k], n); \
        } \
        if (block->out != IPU_DTYPE_FLOAT16) { \
            return block->inner(block, out, wide[0], wide[1], wide[2], n); \
        } \
        ipu__fault fault = \
            block->inner(block, result, wide[0], wide[1], wide[2], n); \
        floats_to_halves_##suffix(out, result, n); \
        return fault; \
    }
HALVES(generic)
HALVES(avx2)

/* The scalar definition, for what is rare. */
static ipu__fault
by_scalars(const ipu__block *block, void *out, const void *a, const void *b,
           const void *c, int64_t n)
{
    ipu_dtype first = block->op == IPU_OP_ID_SELECT ? IPU_DTYPE_BOOL : block->in;
    for (int64_t i = 0; i < n; i++) {
        ipu__scalar operands[3] = {{.i = 0}};
        ipu__scalar result;
        operands[0] = ipu__scalar_load(first, a, i);
        if (block->operands > 1) {
            operands[1] = ipu__scalar_load(block->in, b, i);
        }
        if (block->operands > 2) {
            operands[2] = ipu__scalar_load(block->in, c, i);
        }
        ipu__fault fault =
            ipu__scalar_apply(block->op, block->in, block->out, operands, &result);
        if (fault != IPU_FAULT_NONE) {
            return fault;
        }
        ipu__scalar_store(block->out, out, i, result);
    }
    return IPU_FAULT_NONE;
}

typedef struct row {
    ipu_op op;
    ipu_dtype in;
    ipu_dtype out;
    ipu__block_fn *generic;
    ipu__block_fn *avx2;
} row;

#define ROW(op, in, out, name) \
    {IPU_OP_ID_##op, IPU_DTYPE_##in, IPU_DTYPE_##out, name##_generic, name##_avx2},
#define SAME(op, type, name) ROW(op, type, type, name)
#define INTEGER_ROWS(type, suffix) \
    SAME(NEG, type, neg_##suffix) \
    SAME(SQUARE, type, square_##suffix) \
    SAME(BITWISE_NOT, type, bitwise_not_##suffix) \
    SAME(BITWISE_AND, type, bitwise_and_##suffix) \
    SAME(BITWISE_OR, type, bitwise_or_##suffix) \
    SAME(BITWISE_XOR, type, bitwise_xor_##suffix) \
    SAME(ADD, type, add_##suffix) \
    SAME(SUB, type, sub_##suffix) \
    SAME(MUL, type, mul_##suffix) \
    SAME(MAXIMUM, type, maximum_##suffix) \
    SAME(MINIMUM, type, minimum_##suffix)
#define COMPARE_ROWS(type, suffix) \
    ROW(EQUAL, type, BOOL, equal_##suffix) \
    ROW(NOT_EQUAL, type, BOOL, not_equal_##suffix) \
    ROW(LESS, type, BOOL, less_##suffix) \
    ROW(LESS_EQUAL, type, BOOL, less_equal_##suffix) \
    ROW(GREATER, type, BOOL, greater_##suffix) \
    ROW(GREATER_EQUAL, type, BOOL, greater_equal_##suffix)

static const row rows[] = {
    SAME(NEG, FLOAT32, neg_f32)
    SAME(ABS, FLOAT32, abs_f32)
    SAME(SIGN, FLOAT32, sign_f32)
    SAME(FLOOR, FLOAT32, floor_f32)
    SAME(EXP, FLOAT32, exp_f32)
    SAME(LOG, FLOAT32, log_f32)
    SAME(SQRT, FLOAT32, sqrt_f32)
    SAME(RSQRT, FLOAT32, rsqrt_f32)
    SAME(SQUARE, FLOAT32, square_f32)
    SAME(TANH, FLOAT32, tanh_f32)
    SAME(SIGMOID, FLOAT32, sigmoid_f32)
    SAME(RELU, FLOAT32, relu_f32)
    SAME(RECIPROCAL, FLOAT32, reciprocal_f32)
    SAME(LOG1P, FLOAT32, log1p_f32)
    SAME(EXPM1, FLOAT32, expm1_f32)
    SAME(SOFTPLUS, FLOAT32, softplus_f32)
    SAME(ERF, FLOAT32, erf_f32)
    SAME(SIN, FLOAT32, sin_f32)
    SAME(COS, FLOAT32, cos_f32)
    SAME(CEIL, FLOAT32, ceil_f32)
    SAME(ROUND, FLOAT32, round_f32)
    SAME(TRUNC, FLOAT32, trunc_f32)
    ROW(IS_NAN, FLOAT32, BOOL, is_nan_f32)
    ROW(IS_INF, FLOAT32, BOOL, is_inf_f32)
    ROW(IS_FINITE, FLOAT32, BOOL, is_finite_f32)
    SAME(ADD, FLOAT32, add_f32)
    SAME(SUB, FLOAT32, sub_f32)
    SAME(MUL, FLOAT32, mul_f32)
    SAME(DIV, FLOAT32, div_f32)
    SAME(MAXIMUM, FLOAT32, maximum_f32)
    SAME(MINIMUM, FLOAT32, minimum_f32)
    SAME(RELU_GRAD, FLOAT32, relu_grad_f32)
    SAME(TANH_GRAD, FLOAT32, tanh_grad_f32)
    SAME(SIGMOID_GRAD, FLOAT32, sigmoid_grad_f32)
    SAME(SQRT_GRAD, FLOAT32, sqrt_grad_f32)
    SAME(RSQRT_GRAD, FLOAT32, rsqrt_grad_f32)
    SAME(RECIPROCAL_GRAD, FLOAT32, reciprocal_grad_f32)
    COMPARE_ROWS(FLOAT32, f32)
    INTEGER_ROWS(INT32, i32)
    COMPARE_ROWS(INT32, i32)
    INTEGER_ROWS(INT64, i64)
    COMPARE_ROWS(INT64, i64)
    INTEGER_ROWS(UINT8, u8)
    COMPARE_ROWS(UINT8, u8)
    COMPARE_ROWS(BOOL, u8)
    SAME(LOGICAL_NOT, BOOL, logical_not_u8)
    SAME(LOGICAL_AND, BOOL, logical_and_u8)
    SAME(LOGICAL_OR, BOOL, logical_or_u8)
    ROW(CAST, UINT8, FLOAT32, cast_u8_f32)
    ROW(CAST, BOOL, FLOAT32, cast_u8_f32)
    ROW(CAST, INT8, FLOAT32, cast_i8_f32)
    ROW(CAST, INT32, FLOAT32, cast_i32_f32)
    ROW(CAST, INT64, FLOAT32, cast_i64_f32)
    ROW(CAST, FLOAT32, INT32, cast_f32_i32)
    ROW(CAST, FLOAT32, BOOL, cast_f32_bool)
    ROW(CAST, UINT8, INT32, cast_u8_i32)
    ROW(CAST, BOOL, INT32, cast_u8_i32)
    ROW(CAST, INT32, INT64, cast_i32_i64)
    ROW(CAST, INT64, INT32, cast_i64_i32)
    ROW(CAST, FLOAT64, FLOAT32, cast_f64_f32)
    ROW(CAST, FLOAT32, FLOAT64, cast_f32_f64)
    ROW(CAST, FLOAT16, FLOAT32, cast_f16_f32)
    ROW(CAST, FLOAT32, FLOAT16, cast_f32_f16)
};

static ipu__block_fn *
find(ipu_op op, ipu_dtype in, ipu_dtype out, bool avx2)
{
    if (op == IPU_OP_ID_SELECT) {
        switch (ipu_dtype_bytes(out)) {
        case 1:
            return avx2 ? select_1_avx2 : select_1_generic;
        case 2:
            return avx2 ? select_2_avx2 : select_2_generic;
        case 4:
            return avx2 ? select_4_avx2 : select_4_generic;
        default:
            return avx2 ? select_8_avx2 : select_8_generic;
        }
    }
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (rows[i].op == op && rows[i].in == in && rows[i].out == out) {
            return avx2 ? rows[i].avx2 : rows[i].generic;
        }
    }
    return NULL;
}

void
ipu__block_prepare(ipu__block *block, ipu_op op, ipu_dtype in, ipu_dtype out,
                   ipu_cpu_class cpu)
{
    bool avx2 = cpu >= IPU_CPU_AVX2;
    block->op = op;
    block->in = in;
    block->out = out;
    block->operands = (uint8_t)ipu_op_info_of(op)->min_inputs;
    block->inner = NULL;
    block->run = find(op, in, out, avx2);
    if (block->run == NULL && in == IPU_DTYPE_FLOAT16) {
        ipu_dtype result = out == IPU_DTYPE_FLOAT16 ? IPU_DTYPE_FLOAT32 : out;
        block->inner = op == IPU_OP_ID_CAST
                           ? NULL
                           : find(op, IPU_DTYPE_FLOAT32, result, avx2);
        block->run = block->inner == NULL ? NULL
                     : avx2               ? through_f32_avx2
                                          : through_f32_generic;
    }
    if (block->run == NULL) {
        block->run = by_scalars;
    }
}

/* The same loops behind plain float pointers. */
#define MAP(name, suffix) \
    static void name##_map_##suffix(float *out, const float *x, int64_t n) \
    { \
        (void)name##_f32_##suffix(NULL, out, x, x, x, n); \
    }
#define VECTOR(suffix) \
    MAP(exp, suffix) \
    MAP(relu, suffix) \
    MAP(tanh, suffix) \
    MAP(sigmoid, suffix) \
    static void add_pair_##suffix(float *out, const float *a, const float *b, \
                                  int64_t n) \
    { \
        (void)add_f32_##suffix(NULL, out, a, b, b, n); \
    } \
    static const ipu__vector_f32 vector_##suffix = { \
        exp_map_##suffix, relu_map_##suffix, tanh_map_##suffix, \
        sigmoid_map_##suffix, add_pair_##suffix};
VECTOR(generic)
VECTOR(avx2)

const ipu__vector_f32 *
ipu__vector_f32_of(ipu_cpu_class cpu)
{
    return cpu >= IPU_CPU_AVX2 ? &vector_avx2 : &vector_generic;
}
