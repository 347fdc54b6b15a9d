/* SPDX-License-Identifier: MIT
 *
 * Element types. Device types are what a simulated IPU holds; the wider ones exist in
 * host graphs only (Dataset.map, host counters). */
#ifndef IPU_BASE_DTYPE_H
#define IPU_BASE_DTYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* X(NAME, text, C storage, bytes, kind, on device)
 * kind: 'f' floating, 'i' signed, 'u' unsigned, 'b' bool. `text` is NumPy's name. */
#define IPU_DTYPE_LIST(X) \
    X(FLOAT32, float32, float, 4, 'f', true) \
    X(FLOAT16, float16, uint16_t, 2, 'f', true) \
    X(INT32, int32, int32_t, 4, 'i', true) \
    X(INT8, int8, int8_t, 1, 'i', true) \
    X(UINT8, uint8, uint8_t, 1, 'u', true) \
    X(BOOL, bool, uint8_t, 1, 'b', true) \
    X(FLOAT64, float64, double, 8, 'f', false) \
    X(INT64, int64, int64_t, 8, 'i', false) \
    X(INT16, int16, int16_t, 2, 'i', false) \
    X(UINT16, uint16, uint16_t, 2, 'u', false) \
    X(UINT32, uint32, uint32_t, 4, 'u', false) \
    X(UINT64, uint64, uint64_t, 8, 'u', false)

/* The integers, X(NAME, suffix, C type, bits, least value, greatest) each. */
#define IPU_SIGNED_LIST(X) \
    X(INT8, i8, int8_t, 8, INT8_MIN, INT8_MAX) \
    X(INT16, i16, int16_t, 16, INT16_MIN, INT16_MAX) \
    X(INT32, i32, int32_t, 32, INT32_MIN, INT32_MAX) \
    X(INT64, i64, int64_t, 64, INT64_MIN, INT64_MAX)
#define IPU_UNSIGNED_LIST(X) \
    X(UINT8, u8, uint8_t, 8, 0, UINT8_MAX) \
    X(UINT16, u16, uint16_t, 16, 0, UINT16_MAX) \
    X(UINT32, u32, uint32_t, 32, 0, UINT32_MAX) \
    X(UINT64, u64, uint64_t, 64, 0, UINT64_MAX)
#define IPU_INTEGER_LIST(X) IPU_SIGNED_LIST(X) IPU_UNSIGNED_LIST(X)

typedef enum ipu_dtype {
#define X(name, text, storage, bytes, kind, device) IPU_DTYPE_##name,
    IPU_DTYPE_LIST(X)
#undef X
    IPU_DTYPE_COUNT
} ipu_dtype;

const char *ipu_dtype_name(ipu_dtype dtype);
size_t ipu_dtype_bytes(ipu_dtype dtype);
char ipu_dtype_kind(ipu_dtype dtype);
bool ipu_dtype_on_device(ipu_dtype dtype);
static inline bool ipu_dtype_is_float(ipu_dtype dtype)
{
    return ipu_dtype_kind(dtype) == 'f';
}
/* Parses NumPy's name; false where there is none such. */
bool ipu_dtype_parse(const char *text, size_t length, ipu_dtype *out);

/* float16 <-> float32, round to nearest even; bit exact (IEEE 754 binary16). NaN are
 * quiet. Without a branch, so that compilers make vectors of their loops. */
static inline float
ipu_float16_to_float(uint16_t half)
{
    const uint32_t sign = (uint32_t)(half & 0x8000u) << 16;
    const int32_t magnitude = half & 0x7fff;
    const float subnormal = (float)magnitude * 0x1p-24f;
    int32_t bits = (magnitude << 13) + (112 << 23);
    int32_t small;
    uint32_t signed_bits;
    float value;
    memcpy(&small, &subnormal, sizeof small);
    bits += magnitude >= 0x7c00 ? 112 << 23 : 0;
    bits |= magnitude > 0x7c00 ? 0x400000 : 0;
    signed_bits = sign | (uint32_t)(magnitude < 0x400 ? small : bits);
    memcpy(&value, &signed_bits, sizeof value);
    return value;
}

static inline uint16_t
ipu_float16_from_float(float value)
{
    uint32_t signed_bits;
    int32_t small;
    memcpy(&signed_bits, &value, sizeof value);
    const int32_t magnitude = (int32_t)(signed_bits & 0x7fffffffu);
    const int32_t nan = 0x7e00 | (magnitude >> 13 & 0x3ff); /* upper bits are kept */
    /* a carry moves into the exponent, from the greatest number to infinity */
    const int32_t normal =
        (magnitude - (112 << 23) + 0xfff + (magnitude >> 13 & 1)) >> 13;
    memcpy(&value, &magnitude, sizeof value);
    value += 0.5f; /* whose last place is that of subnormal halves */
    memcpy(&small, &value, sizeof small);
    int32_t half = magnitude < 0x38800000 ? small - 0x3f000000 : normal;
    half = magnitude >= 0x47800000 ? 0x7c00 : half;
    half = magnitude > 0x7f800000 ? nan : half;
    return (uint16_t)(signed_bits >> 16 & 0x8000u) | (uint16_t)half;
}

#endif
