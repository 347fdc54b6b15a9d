/* SPDX-License-Identifier: MIT
 *
 * One element of any dtype: load, store, convert, and every element-wise op in its
 * plain definition. The reference kernels are loops around this file. Floats are
 * computed in double and rounded once to the dtype: for + - * / and sqrt that is the
 * correctly rounded result of the narrower type, for the others nearly so. Integers
 * wrap. The expressions are those of the loops (formulas.h). Values in, values out, no
 * state, any thread. */
#include <math.h>
#include <string.h>

#include "kernels/math/floor_math.h"
#include "kernels/math/formulas.h"
#include "kernels/core/kernel_impl.h"

/* The dtypes that hold what C does: type, and member of ipu__scalar. */
#define PLAIN_DTYPES(F) \
    F(FLOAT32, float, f) \
    F(FLOAT64, double, f) \
    F(INT8, int8_t, i) \
    F(INT16, int16_t, i) \
    F(INT32, int32_t, i) \
    F(INT64, int64_t, i) \
    F(UINT8, uint8_t, u) \
    F(UINT16, uint16_t, u) \
    F(UINT32, uint32_t, u) \
    F(UINT64, uint64_t, u)

ipu__scalar
ipu__scalar_load(ipu_dtype dtype, const void *base, int64_t index)
{
    ipu__scalar value = {.i = 0};
    uint16_t half;
    switch (dtype) {
#define LOAD(dtype, type, member) \
    case IPU_DTYPE_##dtype: { \
        type element; \
        memcpy(&element, (const char *)base + index * (int64_t)sizeof element, \
               sizeof element); \
        value.member = element; \
        break; \
    }
        PLAIN_DTYPES(LOAD)
#undef LOAD
    case IPU_DTYPE_FLOAT16:
        memcpy(&half, (const char *)base + index * 2, sizeof half);
        value.f = (double)ipu_float16_to_float(half);
        break;
    case IPU_DTYPE_BOOL:
        value.u = ((const uint8_t *)base)[index] != 0;
        break;
    case IPU_DTYPE_COUNT:
        break;
    }
    return value;
}

void
ipu__scalar_store(ipu_dtype dtype, void *base, int64_t index, ipu__scalar value)
{
    uint16_t half;
    switch (dtype) {
#define STORE(dtype, type, member) \
    case IPU_DTYPE_##dtype: { \
        type element = (type)value.member; \
        memcpy((char *)base + index * (int64_t)sizeof element, &element, \
               sizeof element); \
        break; \
    }
        PLAIN_DTYPES(STORE)
        STORE(BOOL, uint8_t, u != 0)
#undef STORE
    case IPU_DTYPE_FLOAT16:
        half = ipu_float16_from_float(ipu__float_to_odd(value.f));
        memcpy((char *)base + index * 2, &half, sizeof half);
        break;
    case IPU_DTYPE_COUNT:
        break;
    }
}

ipu__scalar
ipu__scalar_round(ipu_dtype dtype, ipu__scalar value)
{
    uint64_t storage = 0;
    ipu__scalar_store(dtype, &storage, 0, value);
    return ipu__scalar_load(dtype, &storage, 0);
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

static ipu__scalar
saturate(ipu_dtype to, double value)
{
    bool is_unsigned = ipu_dtype_kind(to) == 'u';
    double limit = ldexp(1.0, (int)ipu_dtype_bytes(to) * 8 - !is_unsigned);
    if (isnan(value)) {
        return (ipu__scalar){.i = 0};
    }
    if (value >= limit || value <= (is_unsigned ? 0.0 : -limit)) {
        return ipu__scalar_end(to, value > 0.0);
    }
    return is_unsigned ? (ipu__scalar){.u = (uint64_t)value}
                       : (ipu__scalar){.i = (int64_t)value};
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

double
ipu__scalar_to_double(ipu_dtype dtype, ipu__scalar value)
{
    return ipu__scalar_cast(dtype, IPU_DTYPE_FLOAT64, value).f;
}

/* The formulas of 64 bits, by op. */
#define MEMBER_f64 f
#define MEMBER_i64 i
#define MEMBER_u64 u
#define MEMBER_SAME(suffix) MEMBER_##suffix
#define MEMBER_TEST(suffix) u
#define CASE(op, operands, kind, suffix, expression) \
    case IPU_OP_ID_##op: \
        result->MEMBER_##kind(suffix) = (expression); \
        break;

static void
apply_float(ipu_op op, double x, double y, ipu__scalar *result)
{
    switch (op) {
        FLOAT_FORMULAS(CASE, f64, )
        FUNCTION_FORMULAS(CASE, f64, )
        LONG_FORMULAS(CASE, f64)
        CASE(ASINH, ONE, SAME, f64, ipu__asinh_f64(x))
        CASE(ATANH, ONE, SAME, f64, ipu__atanh_f64(x))
        CASE(EXP, ONE, SAME, f64, ipu__exp_f64(x))
        CASE(EXPM1, ONE, SAME, f64, ipu__expm1_f64(x))
        CASE(LOG, ONE, SAME, f64, ipu__log_f64(x))
        CASE(LOG1P, ONE, SAME, f64, ipu__log1p_f64(x))
        CASE(LOG2, ONE, SAME, f64, ipu__log2_f64(x))
        CASE(SIN, ONE, SAME, f64, ipu__sin_f64(x))
        CASE(COS, ONE, SAME, f64, ipu__cos_f64(x))
        CASE(TAN, ONE, SAME, f64, ipu__tan_f64(x))
        CASE(ATAN, ONE, SAME, f64, ipu__atan_f64(x))
        CASE(ERFINV, ONE, SAME, f64, ipu__erfinv_f64(x))
        CASE(NDTRI, ONE, SAME, f64, ipu__ndtri_f64(x))
        CASE(POW, TWO, SAME, f64, ipu__pow_f64(x, y))
        CASE(FLOOR_DIV, TWO, SAME, f64, ipu__floor_div_f64(x, y))
        CASE(FLOOR_MOD, TWO, SAME, f64, ipu__floor_mod_f64(x, y))
        CASE(LGAMMA, ONE, SAME, f64, ipu__lgamma_f64(x))
        CASE(DIGAMMA, ONE, SAME, f64, ipu__digamma_f64(x))
        CASE(BESSEL_I0E, ONE, SAME, f64, ipu__bessel_i0e(x))
        CASE(BESSEL_I1E, ONE, SAME, f64, ipu__bessel_i1e(x))
        CASE(IGAMMA, TWO, SAME, f64, ipu__incomplete(x, y, IPU_GAMMA_LOWER))
        CASE(IGAMMAC, TWO, SAME, f64, ipu__incomplete(x, y, IPU_GAMMA_UPPER))
        CASE(IGAMMA_SLOPE, TWO, SAME, f64, ipu__incomplete(x, y, IPU_GAMMA_SLOPE))
        CASE(ZETA, TWO, SAME, f64, ipu__zeta(x, y))
        CASE(POLYGAMMA, TWO, SAME, f64, ipu__polygamma(x, y))
    default:
        result->f = (double)NAN;
        break;
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

static void
apply_signed(ipu_op op, int64_t x, int64_t y, ipu__scalar *result)
{
    switch (op) {
        SIGNED_FORMULAS(CASE, i64)
        CASE(FLOOR_DIV, TWO, SAME, i64, (int64_t)ipu__floor_div_i64(x, y))
        CASE(FLOOR_MOD, TWO, SAME, i64, ipu__floor_mod_i64(x, y))
    default:
        result->i = 0;
        break;
    }
}

static void
apply_unsigned(ipu_op op, uint64_t x, uint64_t y, ipu__scalar *result)
{
    switch (op) {
        UNSIGNED_FORMULAS(CASE, u64)
        LOGICAL_FORMULAS(CASE, u64)
        CASE(FLOOR_DIV, TWO, SAME, u64, x / y)
        CASE(FLOOR_MOD, TWO, SAME, u64, x % y)
    default:
        result->u = 0;
        break;
    }
}

static ipu__fault
apply_integer(ipu_op op, bool is_signed, ipu__scalar a, ipu__scalar b,
              ipu__scalar *result)
{
    uint64_t x = a.u;
    uint64_t y = b.u;
    if ((op == IPU_OP_ID_FLOOR_DIV || op == IPU_OP_ID_FLOOR_MOD) && y == 0) {
        return IPU_FAULT_DIVISION_BY_ZERO;
    }
    if (op == IPU_OP_ID_POW && is_signed && b.i < 0) {
        return IPU_FAULT_NEGATIVE_EXPONENT;
    }
    switch (op) {
        WIDTH_FORMULAS(CASE, u64)
        CASE(POW, TWO, SAME, u64, integer_power(x, y))
    default:
        if (is_signed) {
            apply_signed(op, a.i, b.i, result);
        } else {
            apply_unsigned(op, x, y, result);
        }
        break;
    }
    return IPU_FAULT_NONE;
}

ipu__fault
ipu__scalar_apply(ipu_op op, ipu_dtype in, ipu_dtype out, const ipu__scalar operands[3],
                  ipu__scalar *result)
{
    char kind = ipu_dtype_kind(in);
    ipu__fault fault = IPU_FAULT_NONE;
    if (op == IPU_OP_ID_SELECT) {
        *result = operands[0].u != 0 ? operands[1] : operands[2];
        return IPU_FAULT_NONE;
    }
    if (op == IPU_OP_ID_CAST) {
        *result = ipu__scalar_cast(in, out, operands[0]);
        return IPU_FAULT_NONE;
    }
    if (kind == 'f') {
        apply_float(op, operands[0].f, operands[1].f, result);
    } else {
        fault = apply_integer(op, kind == 'i', operands[0], operands[1], result);
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
