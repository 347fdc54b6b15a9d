/* SPDX-License-Identifier: MIT
 *
 * The part of block_loops.h that divides and rounds down. Blocks are looked through
 * first, so that loops have no branch in them. */

/* `exact` is the rest of x / y where all quotients of a block are near, by y and their
 * whole part; `near` uses x, y and rest, `any` x and y. */
#define FLOOR_FLOAT(name, suffix, type, mask, exact, near, any) \
    SIGNATURE(name##_##suffix) \
    { \
        const type *xs = a; \
        const type *ys = b; \
        type *result = out; \
        mask far = 0; /* as wide as what is compared: for vectors */ \
        UNUSED(); \
        for (int64_t i = 0; i < n; i++) { \
            far |= ipu__is_near_quotient_##suffix(xs[i], ys[i]) ? 0 : 1; \
        } \
        if (far != 0) { \
            for (int64_t i = 0; i < n; i++) { \
                double x = (double)xs[i]; \
                double y = (double)ys[i]; \
                result[i] = (type)(any); \
            } \
            return IPU_FAULT_NONE; \
        } \
        IPU_INDEPENDENT \
        for (int64_t i = 0; i < n; i++) { \
            double x = (double)xs[i]; \
            double y = (double)ys[i]; \
            double whole = WHOLE(trunc, f64, __builtin_trunc)(x / y); \
            double rest = exact; \
            result[i] = (type)(near); \
        } \
        return IPU_FAULT_NONE; \
    }
#ifdef IPU_FMA_BY_DOUBLES
#define FLOOR_WIDE(name, near, any) BINARY(name##_f64, double, double, any)
#else
#define FLOOR_WIDE(name, near, any) \
    FLOOR_FLOAT(name, f64, double, uint64_t, ipu__rest_f64(x, y, whole), near, any)
#endif
#define FLOOR_FLOATS(name, near, any) \
    FLOOR_WIDE(name, near, any) \
    FLOOR_FLOAT(name, f32, float, uint32_t, x - y * whole, near, any)
FLOOR_FLOATS(floor_mod, ipu__floor_mod_of(rest, y), ipu__floor_mod_f64(x, y))
FLOOR_FLOATS(floor_div, ipu__floor_div_of(x, y, rest), ipu__floor_div_f64(x, y))

/* `quotient` and `rest` use x and y. */
#define FLOOR_INTEGERS(suffix, type, expression_div, expression_mod) \
    FLOOR_INTEGER(floor_div_##suffix, type, expression_div) \
    FLOOR_INTEGER(floor_mod_##suffix, type, expression_mod)
#define FLOOR_INTEGER(name, type, expression) \
    SIGNATURE(name) \
    { \
        const type *xs = a; \
        const type *ys = b; \
        type *result = out; \
        type zeros = 0; /* as wide as what is compared: for vectors */ \
        UNUSED(); \
        for (int64_t i = 0; i < n; i++) { \
            zeros |= (type)(ys[i] == 0); \
        } \
        if (zeros != 0) { \
            return IPU_FAULT_DIVISION_BY_ZERO; \
        } \
        IPU_INDEPENDENT \
        for (int64_t i = 0; i < n; i++) { \
            type x = xs[i]; \
            type y = ys[i]; \
            result[i] = (type)(expression); \
        } \
        return IPU_FAULT_NONE; \
    }

/* By way of double, which is exact. INT32_MIN / -1 wraps. */
BLOCK_TARGET IPU_INLINE int32_t
floored_quotient(int32_t x, int32_t y)
{
    double quotient = WHOLE(floor, f64, __builtin_floor)((double)x / (double)y);
    return (int32_t)(quotient > 0x1.fffffffcp30 ? -0x1p31 : quotient);
}
#define NARROW_FLOOR(suffix, type) \
    FLOOR_INTEGERS(suffix, type, floored_quotient(x, y), \
                   (uint32_t)x - (uint32_t)y * (uint32_t)floored_quotient(x, y))
NARROW_FLOOR(i8, int8_t)
NARROW_FLOOR(i16, int16_t)
NARROW_FLOOR(i32, int32_t)
NARROW_FLOOR(u8, uint8_t)
NARROW_FLOOR(u16, uint16_t)

FLOOR_INTEGERS(u32, uint32_t, x / y, x % y)

/* By way of double where all x of a block are below 2^52 in size: what lies below a
 * whole number then does so by more than the division rounds. `far` uses x and y. */
#define WIDE_FLOOR(name, suffix, type, far, near) \
    FLOOR_INTEGER(any_##name##_##suffix, type, ipu__##name##_##suffix(x, y)) \
    SIGNATURE(name##_##suffix) \
    { \
        const type *xs = a; \
        const type *ys = b; \
        type *result = out; \
        uint64_t apart = 0; \
        for (int64_t i = 0; i < n; i++) { \
            const type x = xs[i]; \
            const type y = ys[i]; \
            apart |= (far) | (y == 0); \
        } \
        if (apart != 0) { \
            return any_##name##_##suffix(block, out, a, b, c, n); \
        } \
        IPU_INDEPENDENT \
        for (int64_t i = 0; i < n; i++) { \
            const int64_t x = (int64_t)xs[i]; \
            const int64_t y = (int64_t)ys[i]; \
            const double quotient = (double)x / (double)y; \
            const int64_t cut = (int64_t)quotient; \
            const int64_t whole = cut - ((double)cut > quotient ? 1 : 0); \
            result[i] = (type)(near); \
        } \
        return IPU_FAULT_NONE; \
    }
#define WIDE_FLOORS(suffix, type, far) \
    WIDE_FLOOR(floor_div, suffix, type, far, whole) \
    WIDE_FLOOR(floor_mod, suffix, type, far, \
               (uint64_t)x - (uint64_t)y * (uint64_t)whole)
#define ipu__floor_div_u64(x, y) ((x) / (y))
#define ipu__floor_mod_u64(x, y) ((x) % (y))
WIDE_FLOORS(i64, int64_t, ((uint64_t)x + (UINT64_C(1) << 52)) >> 53)
WIDE_FLOORS(u64, uint64_t, x >> 52 | y >> 63)
