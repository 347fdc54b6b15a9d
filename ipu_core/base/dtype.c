/* SPDX-License-Identifier: MIT
 *
 * Element types and the exact float16 conversions. */
#include "base/dtype.h"

#include <string.h>

static const struct {
    const char *name;
    size_t bytes;
    char kind;
    bool on_device;
} dtypes[] = {
#define X(name, text, storage, bytes, kind, device) {#text, bytes, kind, device},
    IPU_DTYPE_LIST(X)
#undef X
};

const char *
ipu_dtype_name(ipu_dtype dtype)
{
    return dtypes[dtype].name;
}

size_t
ipu_dtype_bytes(ipu_dtype dtype)
{
    return dtypes[dtype].bytes;
}

char
ipu_dtype_kind(ipu_dtype dtype)
{
    return dtypes[dtype].kind;
}

bool
ipu_dtype_on_device(ipu_dtype dtype)
{
    return dtypes[dtype].on_device;
}

bool
ipu_dtype_parse(const char *text, size_t length, ipu_dtype *out)
{
    for (int i = 0; i < IPU_DTYPE_COUNT; i++) {
        if (strlen(dtypes[i].name) == length &&
            memcmp(dtypes[i].name, text, length) == 0) {
            *out = (ipu_dtype)i;
            return true;
        }
    }
    return false;
}

static uint32_t
bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

uint16_t
ipu_float16_from_float(float value)
{
    uint32_t bits = bits_of(value);
    uint32_t sign = (bits >> 16) & 0x8000U;
    uint32_t magnitude = bits & 0x7FFFFFFFU;
    if (magnitude > 0x7F800000U) { /* NaN: keep the upper payload bits, quiet */
        return (uint16_t)(sign | 0x7E00U | ((magnitude >> 13) & 0x3FFU));
    }
    if (magnitude >= 0x47800000U) { /* 2^16 and more, infinity */
        return (uint16_t)(sign | 0x7C00U);
    }
    if (magnitude < 0x33000000U) { /* below half of the least subnormal */
        return (uint16_t)sign;
    }
    uint32_t exponent = magnitude >> 23;
    uint32_t mantissa = (magnitude & 0x7FFFFFU) | 0x800000U;
    uint32_t shift = exponent < 113 ? 126 - exponent : 13;
    uint32_t kept = mantissa >> shift;
    uint32_t rest = mantissa & ((1U << shift) - 1);
    uint32_t half = 1U << (shift - 1);
    if (rest > half || (rest == half && (kept & 1U))) {
        kept++;
    }
    /* `kept` holds the implicit bit of a normal number; a carry moves into the exponent
     */
    uint32_t base = exponent < 113 ? 0 : ((exponent - 112) << 10) - 0x400U;
    return (uint16_t)(sign | (base + kept));
}

float
ipu_float16_to_float(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000U) << 16;
    uint32_t exponent = (half >> 10) & 0x1FU;
    uint32_t mantissa = half & 0x3FFU;
    uint32_t bits;
    if (exponent == 0x1FU) {
        bits = sign | 0x7F800000U | (mantissa << 13);
        if (mantissa != 0) {
            bits |= 0x400000U;
        }
    } else if (exponent != 0) {
        bits = sign | ((exponent + 112) << 23) | (mantissa << 13);
    } else if (mantissa == 0) {
        bits = sign;
    } else {
        exponent = 113;
        while ((mantissa & 0x400U) == 0) {
            mantissa <<= 1;
            exponent--;
        }
        bits = sign | (exponent << 23) | ((mantissa & 0x3FFU) << 13);
    }
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}
