/* SPDX-License-Identifier: MIT
 *
 * One element of any dtype: load, store, convert, and every element-wise op in its
 * plain definition. The reference kernels are loops around this file. Floats are
 * computed in double and rounded once to the dtype: for + - * / and sqrt that is the
 * correctly rounded result of the narrower type, for the others nearly so. What is a
 * loop over float64, too, is the same function (wide_math.h). Integers
 * wrap. Values in, values out, no state, any thread. */
#include <math.h>
#include <string.h>

#include "kernels/math/element_math.h"
#include "kernels/math/floor_math.h"
#include "kernels/core/kernel_impl.h"
#include "kernels/math/wide_math.h"

#define LOAD(type, member) \
    do { \
        type element; \
        memcpy(&element, (const char *)base + index * (int64_t)sizeof element, \
               sizeof element); \
        value.member = element; \
    } while (0)

ipu__scalar
ipu__scalar_load(ipu_dtype dtype, const void *base, int64_t index)
{
    ipu__scalar value = {.i = 0};
    uint16_t half;
    float single;
    switch (dtype) {
    case IPU_DTYPE_FLOAT32:
        memcpy(&single, (const char *)base + index * 4, sizeof single);
        value.f = (double)single;
        break;
    case IPU_DTYPE_FLOAT16:
        memcpy(&half, (const char *)base + index * 2, sizeof half);
        value.f = (double)ipu_float16_to_float(half);
        break;
    case IPU_DTYPE_FLOAT64:
        LOAD(double, f);
        break;
    case IPU_DTYPE_INT32:
        LOAD(int32_t, i);
        break;
    case IPU_DTYPE_INT8:
        LOAD(int8_t, i);
        break;
    case IPU_DTYPE_INT16:
        LOAD(int16_t, i);
        break;
    case IPU_DTYPE_INT64:
        LOAD(int64_t, i);
        break;
    case IPU_DTYPE_UINT8:
        LOAD(uint8_t, u);
        break;
    case IPU_DTYPE_UINT16:
        LOAD(uint16_t, u);
        break;
    case IPU_DTYPE_UINT32:
        LOAD(uint32_t, u);
        break;
    case IPU_DTYPE_UINT64:
        LOAD(uint64_t, u);
        break;
    case IPU_DTYPE_BOOL:
        LOAD(uint8_t, u);
        value.u = value.u != 0;
        break;
    case IPU_DTYPE_COUNT:
        break;
    }
    return value;
}
#undef LOAD

#define STORE(type, source) \
    do { \
        type element = (type)(source); \
        memcpy((char *)base + index * (int64_t)sizeof element, &element, \
               sizeof element); \
    } while (0)

void
ipu__scalar_store(ipu_dtype dtype, void *base, int64_t index, ipu__scalar value)
{
    switch (dtype) {
    case IPU_DTYPE_FLOAT32:
        STORE(float, value.f);
        break;
    case IPU_DTYPE_FLOAT16:
        STORE(uint16_t, ipu_float16_from_float(ipu__float_to_odd(value.f)));
        break;
    case IPU_DTYPE_FLOAT64:
        STORE(double, value.f);
        break;
    case IPU_DTYPE_INT32:
    case IPU_DTYPE_UINT32:
        STORE(uint32_t, value.u);
        break;
    case IPU_DTYPE_INT8:
    case IPU_DTYPE_UINT8:
        STORE(uint8_t, value.u);
        break;
    case IPU_DTYPE_INT16:
    case IPU_DTYPE_UINT16:
        STORE(uint16_t, value.u);
        break;
    case IPU_DTYPE_INT64:
    case IPU_DTYPE_UINT64:
        STORE(uint64_t, value.u);
        break;
    case IPU_DTYPE_BOOL:
        STORE(uint8_t, value.u != 0);
        break;
    case IPU_DTYPE_COUNT:
        break;
    }
}
#undef STORE

ipu__scalar
ipu__scalar_round(ipu_dtype dtype, ipu__scalar value)
{
    uint64_t storage = 0;
    ipu__scalar_store(dtype, &storage, 0, value);
    return ipu__scalar_load(dtype, &storage, 0);
}

static ipu__scalar
saturate(ipu_dtype to, double value)
{
    ipu__scalar result = {.i = 0};
    int bits = (int)ipu_dtype_bytes(to) * 8;
    if (isnan(value)) {
        return result;
    }
    if (ipu_dtype_kind(to) == 'u') {
        double limit = ldexp(1.0, bits);
        if (value >= limit) {
            result.u = bits == 64 ? UINT64_MAX : ((uint64_t)1 << bits) - 1;
        } else if (value > 0) {
            result.u = (uint64_t)value;
        }
        return result;
    }
    double limit = ldexp(1.0, bits - 1);
    if (value >= limit) {
        result.i = bits == 64 ? INT64_MAX : ((int64_t)1 << (bits - 1)) - 1;
    } else if (value <= -limit) {
        result.i = bits == 64 ? INT64_MIN : -((int64_t)1 << (bits - 1));
    } else {
        result.i = (int64_t)value;
    }
    return result;
}

ipu__scalar
ipu__scalar_cast(ipu_dtype from, ipu_dtype to, ipu__scalar value)
{
    ipu__scalar result = value;
    char source = ipu_dtype_kind(from);
    char target = ipu_dtype_kind(to);
    if (target == 'b') {
        result.u = source == 'f' ? value.f != 0.0 : value.u != 0;
        return result;
    }
    if (source == 'f' && target != 'f') {
        return saturate(to, value.f);
    }
    if (source != 'f' && target == 'f') {
        if (to == IPU_DTYPE_FLOAT32) { /* through double would round twice */
            result.f = source == 'i' ? (double)(float)value.i : (double)(float)value.u;
        } else {
            result.f = source == 'i' ? (double)value.i : (double)value.u;
        }
    }
    return ipu__scalar_round(to, result);
}

ipu__scalar
ipu__scalar_from_double(ipu_dtype dtype, double value)
{
    return ipu__scalar_cast(IPU_DTYPE_FLOAT64, dtype, (ipu__scalar){.f = value});
}

ipu__scalar
ipu__scalar_end(ipu_dtype dtype, bool highest)
{
    ipu__scalar value = {.i = 0};
    int bits = (int)ipu_dtype_bytes(dtype) * 8;
    switch (ipu_dtype_kind(dtype)) {
    case 'f':
        value.f = highest ? (double)INFINITY : -(double)INFINITY;
        break;
    case 'i':
        value.i = INT64_MIN >> (64 - bits);
        value.i = highest ? ~value.i : value.i;
        break;
    case 'u':
        value.u = highest ? UINT64_MAX >> (64 - bits) : 0;
        break;
    default:
        value.u = highest;
        break;
    }
    return value;
}

double
ipu__scalar_to_double(ipu_dtype dtype, ipu__scalar value)
{
    return ipu__scalar_cast(dtype, IPU_DTYPE_FLOAT64, value).f;
}

/* The functions that programs call less often. */
static double
float_function(ipu_op op, double a, double b)
{
    switch (op) {
    case IPU_OP_ID_RECIPROCAL:
        return 1.0 / a;
    case IPU_OP_ID_LOG1P:
        return ipu__log1p_f64(a);
    case IPU_OP_ID_EXPM1:
        return ipu__expm1_f64(a);
    case IPU_OP_ID_SIN:
        return ipu__sin_f64(a);
    case IPU_OP_ID_COS:
        return ipu__cos_f64(a);
    case IPU_OP_ID_TAN:
        return tan(a);
    case IPU_OP_ID_ASIN:
        return asin(a);
    case IPU_OP_ID_ACOS:
        return acos(a);
    case IPU_OP_ID_ATAN:
        return atan(a);
    case IPU_OP_ID_SINH:
        return sinh(a);
    case IPU_OP_ID_COSH:
        return cosh(a);
    case IPU_OP_ID_ASINH:
        return asinh(a);
    case IPU_OP_ID_ACOSH:
        return acosh(a);
    case IPU_OP_ID_ATANH:
        return atanh(a);
    case IPU_OP_ID_ERF:
        return erf(a);
    case IPU_OP_ID_ERFC:
        return erfc(a);
    case IPU_OP_ID_SOFTPLUS:
        return ipu__softplus_f64(a);
    case IPU_OP_ID_GELU:
        return ipu__gelu(a);
    case IPU_OP_ID_GELU_GRAD:
        return ipu__gelu_grad(a, b);
    case IPU_OP_ID_LGAMMA:
        return ipu__lgamma(a);
    case IPU_OP_ID_DIGAMMA:
        return ipu__digamma(a);
    case IPU_OP_ID_ERFINV:
        return ipu__erfinv(a);
    case IPU_OP_ID_NDTRI:
        return ipu__normal_quantile(a);
    case IPU_OP_ID_BESSEL_I0E:
        return ipu__bessel_i0e(a);
    case IPU_OP_ID_BESSEL_I1E:
        return ipu__bessel_i1e(a);
    case IPU_OP_ID_IGAMMA:
        return ipu__igamma(a, b);
    case IPU_OP_ID_IGAMMAC:
        return ipu__igammac(a, b);
    case IPU_OP_ID_IGAMMA_SLOPE:
        return ipu__igamma_slope(a, b);
    case IPU_OP_ID_ZETA:
        return ipu__zeta(a, b);
    case IPU_OP_ID_POLYGAMMA:
        return ipu__polygamma(a, b);
    case IPU_OP_ID_CEIL:
        return ceil(a);
    case IPU_OP_ID_ROUND:
        return rint(a);
    case IPU_OP_ID_TRUNC:
        return trunc(a);
    case IPU_OP_ID_ATAN2:
        return atan2(a, b);
    default:
        return (double)NAN;
    }
}

static double
float_apply(ipu_op op, double a, double b)
{
    switch (op) {
    case IPU_OP_ID_NEG:
        return -a;
    case IPU_OP_ID_ABS:
        return fabs(a);
    case IPU_OP_ID_SIGN:
        return a > 0.0 ? 1.0 : (a < 0.0 ? -1.0 : a);
    case IPU_OP_ID_FLOOR:
        return floor(a);
    case IPU_OP_ID_EXP:
        return ipu__exp_f64(a);
    case IPU_OP_ID_LOG:
        return ipu__log_f64(a);
    case IPU_OP_ID_SQRT:
        return sqrt(a);
    case IPU_OP_ID_RSQRT:
        return 1.0 / sqrt(a);
    case IPU_OP_ID_SQUARE:
        return a * a;
    case IPU_OP_ID_TANH:
        return ipu__tanh_f64(a);
    case IPU_OP_ID_SIGMOID:
        return ipu__sigmoid_f64(a);
    case IPU_OP_ID_RELU:
        return a < 0.0 ? 0.0 : a;
    case IPU_OP_ID_ADD:
        return a + b;
    case IPU_OP_ID_SUB:
        return a - b;
    case IPU_OP_ID_MUL:
        return a * b;
    case IPU_OP_ID_DIV:
        return a / b;
    case IPU_OP_ID_FLOOR_DIV:
        return ipu__floor_div_f64(a, b);
    case IPU_OP_ID_FLOOR_MOD:
        return ipu__floor_mod_f64(a, b);
    case IPU_OP_ID_POW:
        return pow(a, b);
    case IPU_OP_ID_MAXIMUM:
        return a > b || isnan(a) ? a : b;
    case IPU_OP_ID_MINIMUM:
        return a < b || isnan(a) ? a : b;
    case IPU_OP_ID_RELU_GRAD:
        return a > 0.0 ? b : 0.0;
    case IPU_OP_ID_TANH_GRAD:
        return b * ((1.0 - a) * (1.0 + a)); /* 1 - a * a would cancel near 1 */
    case IPU_OP_ID_SIGMOID_GRAD:
        return b * (a * (1.0 - a));
    case IPU_OP_ID_SQRT_GRAD:
        return b == 0.0 ? 0.0 : (b * 0.5) / a;
    case IPU_OP_ID_RSQRT_GRAD:
        return b == 0.0 ? 0.0 : (((b * -0.5) * a) * a) * a;
    case IPU_OP_ID_RECIPROCAL_GRAD:
        return b == 0.0 ? 0.0 : -((b * a) * a);
    default:
        return float_function(op, a, b);
    }
}

static uint64_t
integer_power(uint64_t base, uint64_t exponent)
{
    uint64_t result = 1;
    while (exponent != 0) {
        if ((exponent & 1) != 0) {
            result *= base;
        }
        base *= base;
        exponent >>= 1;
    }
    return result;
}

/* floor_div or floor_mod of signed values. INT_MIN / -1 wraps. */
static ipu__fault
signed_divide(ipu_op op, int64_t a, int64_t b, ipu__scalar *result)
{
    if (b == 0) {
        return IPU_FAULT_DIVISION_BY_ZERO;
    }
    if (b == -1) {
        result->u = op == IPU_OP_ID_FLOOR_MOD ? 0 : 0 - (uint64_t)a;
        return IPU_FAULT_NONE;
    }
    int64_t quotient = a / b;
    int64_t rest = a % b;
    bool down = rest != 0 && (rest < 0) != (b < 0);
    if (op == IPU_OP_ID_FLOOR_MOD) {
        result->i = down ? rest + b : rest;
    } else {
        result->i = quotient - down;
    }
    return IPU_FAULT_NONE;
}

static ipu__fault
integer_apply(ipu_op op, bool is_signed, ipu__scalar a, ipu__scalar b,
              ipu__scalar *result)
{
    bool a_negative = is_signed && a.i < 0;
    bool less = is_signed ? a.i < b.i : a.u < b.u;
    switch (op) {
    case IPU_OP_ID_NEG:
        result->u = 0 - a.u;
        break;
    case IPU_OP_ID_ABS:
        result->u = a_negative ? 0 - a.u : a.u;
        break;
    case IPU_OP_ID_SIGN:
        result->i = a_negative ? -1 : a.u != 0;
        break;
    case IPU_OP_ID_ROUND:
        result->u = a.u;
        break;
    case IPU_OP_ID_BITWISE_NOT:
        result->u = ~a.u;
        break;
    case IPU_OP_ID_BITWISE_AND:
        result->u = a.u & b.u;
        break;
    case IPU_OP_ID_BITWISE_OR:
        result->u = a.u | b.u;
        break;
    case IPU_OP_ID_BITWISE_XOR:
        result->u = a.u ^ b.u;
        break;
    case IPU_OP_ID_LEFT_SHIFT: /* b.u is huge where b.i is negative */
        result->u = b.u < 64 ? a.u << b.u : 0;
        break;
    case IPU_OP_ID_RIGHT_SHIFT:
        if (is_signed) {
            result->i = b.u < 64 ? a.i >> b.u : -(int64_t)a_negative;
        } else {
            result->u = b.u < 64 ? a.u >> b.u : 0;
        }
        break;
    case IPU_OP_ID_SQUARE:
        result->u = a.u * a.u;
        break;
    case IPU_OP_ID_RELU:
        result->u = a_negative ? 0 : a.u;
        break;
    case IPU_OP_ID_ADD:
        result->u = a.u + b.u;
        break;
    case IPU_OP_ID_SUB:
        result->u = a.u - b.u;
        break;
    case IPU_OP_ID_MUL:
        result->u = a.u * b.u;
        break;
    case IPU_OP_ID_FLOOR_DIV:
    case IPU_OP_ID_FLOOR_MOD:
        if (is_signed) {
            return signed_divide(op, a.i, b.i, result);
        }
        if (b.u == 0) {
            return IPU_FAULT_DIVISION_BY_ZERO;
        }
        result->u = op == IPU_OP_ID_FLOOR_MOD ? a.u % b.u : a.u / b.u;
        break;
    case IPU_OP_ID_POW:
        if (is_signed && b.i < 0) {
            return IPU_FAULT_NEGATIVE_EXPONENT;
        }
        result->u = integer_power(a.u, b.u);
        break;
    case IPU_OP_ID_MAXIMUM:
        result->u = less ? b.u : a.u;
        break;
    case IPU_OP_ID_MINIMUM:
        result->u = less ? a.u : b.u;
        break;
    case IPU_OP_ID_RELU_GRAD:
        result->u = !a_negative && a.u != 0 ? b.u : 0;
        break;
    case IPU_OP_ID_LOGICAL_NOT:
        result->u = a.u == 0;
        break;
    case IPU_OP_ID_LOGICAL_AND:
        result->u = a.u != 0 && b.u != 0;
        break;
    case IPU_OP_ID_LOGICAL_OR:
        result->u = a.u != 0 || b.u != 0;
        break;
    default:
        result->u = 0;
        break;
    }
    return IPU_FAULT_NONE;
}

static bool
compare(ipu_op op, char kind, ipu__scalar a, ipu__scalar b)
{
    bool less = kind == 'f' ? a.f < b.f : (kind == 'i' ? a.i < b.i : a.u < b.u);
    bool equal = kind == 'f' ? a.f == b.f : a.u == b.u;
    bool greater = kind == 'f' ? a.f > b.f : !less && !equal;
    switch (op) {
    case IPU_OP_ID_EQUAL:
        return equal;
    case IPU_OP_ID_NOT_EQUAL:
        return !equal;
    case IPU_OP_ID_LESS:
        return less;
    case IPU_OP_ID_LESS_EQUAL:
        return less || equal;
    case IPU_OP_ID_GREATER:
        return greater;
    default:
        return greater || equal;
    }
}

ipu__fault
ipu__scalar_apply(ipu_op op, ipu_dtype in, ipu_dtype out, const ipu__scalar operands[3],
                  ipu__scalar *result)
{
    char kind = ipu_dtype_kind(in);
    ipu__fault fault = IPU_FAULT_NONE;
    switch (op) {
    case IPU_OP_ID_EQUAL:
    case IPU_OP_ID_NOT_EQUAL:
    case IPU_OP_ID_LESS:
    case IPU_OP_ID_LESS_EQUAL:
    case IPU_OP_ID_GREATER:
    case IPU_OP_ID_GREATER_EQUAL:
        result->u = compare(op, kind, operands[0], operands[1]);
        return IPU_FAULT_NONE;
    case IPU_OP_ID_SELECT:
        *result = operands[0].u != 0 ? operands[1] : operands[2];
        return IPU_FAULT_NONE;
    case IPU_OP_ID_CAST:
        *result = ipu__scalar_cast(in, out, operands[0]);
        return IPU_FAULT_NONE;
    case IPU_OP_ID_IS_NAN:
        result->u = isnan(operands[0].f) != 0;
        return IPU_FAULT_NONE;
    case IPU_OP_ID_IS_INF:
        result->u = isinf(operands[0].f) != 0;
        return IPU_FAULT_NONE;
    case IPU_OP_ID_IS_FINITE:
        result->u = isfinite(operands[0].f) != 0;
        return IPU_FAULT_NONE;
    default:
        break;
    }
    if (kind == 'f') {
        result->f = float_apply(op, operands[0].f, operands[1].f);
    } else {
        fault = integer_apply(op, kind == 'i', operands[0], operands[1], result);
    }
    *result = ipu__scalar_round(out, *result);
    return fault;
}

ipu_status
ipu__fault_report(const ipu_kernel_call *call, ipu__fault fault)
{
    const char *name = ipu_op_info_of(call->spec->op)->name;
    switch (fault) {
    case IPU_FAULT_NONE:
        break;
    case IPU_FAULT_DIVISION_BY_ZERO:
        IPU_FAIL(call->ctx, INVALID_ARGUMENT, "%s: integer division by zero", name);
    case IPU_FAULT_NEGATIVE_EXPONENT:
        IPU_FAIL(call->ctx, INVALID_ARGUMENT,
                 "%s: an integer to a negative integer power", name);
    }
    return IPU_OK;
}

int64_t
ipu__integer_load(ipu_dtype dtype, const void *base, int64_t index)
{
    ipu__scalar value = ipu__scalar_load(dtype, base, index);
    if (dtype == IPU_DTYPE_UINT64 && value.i < 0) {
        return INT64_MAX;
    }
    return value.i;
}

double
ipu__double_load(ipu_dtype dtype, const void *base)
{
    return ipu__scalar_to_double(dtype, ipu__scalar_load(dtype, base, 0));
}
