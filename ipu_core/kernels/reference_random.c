/* SPDX-License-Identifier: MIT
 *
 * Random ops out of counter-based words: element e of an op uses word e % 4 of block
 * e / 4, so that a number is a function of (seed, step, replica, op, element) alone.
 *   uniform            the word's highest bits, as many as the dtype holds exactly; of
 *                      float64 words 2e % 4 and 2e % 4 + 1 of block e / 2: 53 bits
 *   normal             Box and Muller: elements 2i and 2i + 1 share their two words
 *   truncated normal   the inverse of the normal distribution (Wichura 1988, AS241,
 *                      PPND16) at a uniform number between its values at -2 and 2: one
 *                      word an element, where rejection would need an unknown count
 *   integer            a word scaled to the span
 *   dropout            keeps where uniform >= rate
 * Calling thread only; allocates nothing. */
#include <math.h>
#include <string.h>

#include "kernels/kernel_impl.h"

/* The finaliser of MurmurHash3: neighbouring ordinals get unrelated streams. */
static uint64_t
mix(uint64_t x)
{
    x ^= x >> 33;
    x *= UINT64_C(0xff51afd7ed558ccd);
    x ^= x >> 33;
    x *= UINT64_C(0xc4ceb9fe1a85ec53);
    x ^= x >> 33;
    return x;
}

ipu__random_source
ipu__random_source_of(const ipu_kernel_spec *spec)
{
    uint64_t op = (uint64_t)ipu_attrs_int(spec->attrs, IPU_ATTR_ORDINAL, 0) + 1;
    const ipu_attr *seed = ipu_attrs_find(spec->attrs, IPU_ATTR_SEED);
    uint32_t before = spec->op == IPU_OP_ID_RANDOM_INTEGER ? 2 : 0;
    bool keyed = spec->op != IPU_OP_ID_DROPOUT && spec->input_count > before;
    op = mix(op * UINT64_C(0x9e3779b97f4a7c15));
    if (seed != NULL) {
        op = mix(op ^ mix((uint64_t)seed->as.i + UINT64_C(0x632be59bd9b4e019)));
    }
    return (ipu__random_source){keyed ? (int32_t)before : -1, (uint32_t)(op >> 32)};
}

ipu_random_key
ipu__random_key(const ipu_kernel_call *call, const ipu__random_source *source)
{
    ipu_random_key key = call->random;
    if (source->key_input >= 0) {
        int32_t given[2];
        memcpy(given, call->inputs[source->key_input], sizeof given);
        return (ipu_random_key){.seed = (uint32_t)given[0], .step = (uint32_t)given[1]};
    }
    key.op ^= source->op;
    return key;
}

/* Of a reference kernel. */
static ipu_random_key
key_of(const ipu_kernel_call *call)
{
    ipu__random_source source = ipu__random_source_of(call->spec);
    return ipu__random_key(call, &source);
}

/* From one word, of float64 from two. */
static double
uniform(ipu_dtype dtype, const uint32_t *words)
{
    switch (dtype) {
    case IPU_DTYPE_FLOAT16:
        return (double)(words[0] >> 21) * 0x1p-11;
    case IPU_DTYPE_FLOAT32:
        return (double)ipu__uniform_f32(words[0]);
    default:
        return (double)(((uint64_t)words[1] << 32 | words[0]) >> 11) * 0x1p-53;
    }
}

static double
normal(const uint32_t words[4], int32_t lane)
{
    const double two_pi = 6.283185307179586476925;
    const uint32_t *pair = words + (lane & 2);
    double radius = sqrt(-2.0 * log(((double)pair[0] + 1.0) * 0x1p-32));
    double angle = two_pi * ((double)pair[1] * 0x1p-32);
    return radius * ((lane & 1) != 0 ? sin(angle) : cos(angle));
}

static double
ratio(const double numerator[8], const double denominator[8], double r)
{
    double p = numerator[7];
    double q = denominator[7];
    for (int32_t i = 6; i >= 0; i--) {
        p = p * r + numerator[i];
        q = q * r + denominator[i];
    }
    return p / q;
}

/* The quantile of the normal distribution; |p - 0.5| <= 0.48, which is all that two
 * standard deviations need: AS241's central and its first outer range. */
static double
quantile(double p)
{
    static const double a[8] = {
        3.3871328727963666080e0, 1.3314166789178437745e+2, 1.9715909503065514427e+3,
        1.3731693765509461125e+4, 4.5921953931549871457e+4, 6.7265770927008700853e+4,
        3.3430575583588128105e+4, 2.5090809287301226727e+3};
    static const double b[8] = {
        1.0, 4.2313330701600911252e+1, 6.8718700749205790830e+2,
        5.3941960214247511077e+3, 2.1213794301586595867e+4, 3.9307895800092710610e+4,
        2.8729085735721942674e+4, 5.2264952788528545610e+3};
    static const double c[8] = {
        1.42343711074968357734e0, 4.63033784615654529590e0, 5.76949722146069140550e0,
        3.64784832476320460504e0, 1.27045825245236838258e0, 2.41780725177450611770e-1,
        2.27238449892691845833e-2, 7.74545014278341407640e-4};
    static const double d[8] = {
        1.0, 2.05319162663775882187e0, 1.67638483018380384940e0,
        6.89767334985100004550e-1, 1.48103976427480074590e-1, 1.51986665636164571966e-2,
        5.47593808499534494600e-4, 1.05075007164441684324e-9};
    double q = p - 0.5;
    if (fabs(q) <= 0.425) {
        return q * ratio(a, b, 0.180625 - q * q);
    }
    double r = sqrt(-log(q < 0.0 ? p : 1.0 - p));
    double value = ratio(c, d, r - 1.6);
    return q < 0.0 ? -value : value;
}

static double
truncated(uint32_t word)
{
    const double below = 0.022750131948179207200; /* of the distribution at -2 */
    double u = ((double)word + 0.5) * 0x1p-32;
    return quantile(below + u * (1.0 - 2.0 * below));
}

static ipu_status
fill(const ipu_kernel_call *call)
{
    const ipu_type *type = &call->spec->outputs[0];
    ipu_random_key key = key_of(call);
    int64_t elements = ipu_shape_elements(&type->shape);
    bool wide = call->spec->op == IPU_OP_ID_RANDOM_UNIFORM
                && type->dtype == IPU_DTYPE_FLOAT64;
    int64_t per_block = wide ? 2 : 4;
    uint32_t words[4] = {0};
    for (int64_t i = 0; i < elements; i++) {
        int32_t lane = (int32_t)(i % per_block);
        ipu__scalar value;
        if (lane == 0) {
            ipu_random_block(&key, (uint64_t)(i / per_block), words);
        }
        switch (call->spec->op) {
        case IPU_OP_ID_RANDOM_UNIFORM:
            value.f = uniform(type->dtype, words + (wide ? 2 * lane : lane));
            break;
        case IPU_OP_ID_RANDOM_NORMAL:
            value.f = normal(words, lane);
            break;
        default:
            value.f = truncated(words[lane]);
            break;
        }
        ipu__scalar_store(type->dtype, call->outputs[0], i, value);
    }
    return IPU_OK;
}

ipu_status
ipu_reference_random_uniform(const ipu_kernel_call *call)
{
    return fill(call);
}

ipu_status
ipu_reference_random_normal(const ipu_kernel_call *call)
{
    return fill(call);
}

ipu_status
ipu_reference_truncated_normal(const ipu_kernel_call *call)
{
    return fill(call);
}

/* floor(word * span / 2^32), or with two words / 2^64: evenly spread for spans far below
 * that, by one multiplication. */
static uint64_t
scaled(const uint32_t *words, bool wide, uint64_t span)
{
    if (!wide) {
        return (words[0] * span) >> 32;
    }
    uint64_t low = (span & UINT32_MAX) * words[0];
    uint64_t mid = (span >> 32) * words[0] + (low >> 32);
    uint64_t cross = (span & UINT32_MAX) * words[1] + (mid & UINT32_MAX);
    return (span >> 32) * words[1] + (mid >> 32) + (cross >> 32);
}

/* 32-bit types and narrower ones take a word an element, 64-bit types two. */
ipu_status
ipu_reference_random_integer(const ipu_kernel_call *call)
{
    const ipu_type *type = &call->spec->outputs[0];
    ipu_random_key key = key_of(call);
    ipu__scalar least = ipu__scalar_load(type->dtype, call->inputs[0], 0);
    ipu__scalar end = ipu__scalar_load(type->dtype, call->inputs[1], 0);
    bool is_signed = ipu_dtype_kind(type->dtype) == 'i';
    bool wide = ipu_dtype_bytes(type->dtype) == 8;
    IPU_FAIL_IF(call->ctx, is_signed ? end.i <= least.i : end.u <= least.u,
                INVALID_ARGUMENT, "Need minval < maxval, got %lld >= %lld",
                (long long)least.i, (long long)end.i);
    int64_t elements = ipu_shape_elements(&type->shape);
    int64_t per_block = wide ? 2 : 4;
    uint32_t words[4] = {0};
    for (int64_t i = 0; i < elements; i++) {
        int64_t lane = i % per_block;
        if (lane == 0) {
            ipu_random_block(&key, (uint64_t)(i / per_block), words);
        }
        const uint32_t *own = words + (wide ? 2 * lane : lane);
        ipu__scalar value = {.u = least.u + scaled(own, wide, end.u - least.u)};
        ipu__scalar_store(type->dtype, call->outputs[0], i, value);
    }
    return IPU_OK;
}

ipu_status
ipu_reference_dropout(const ipu_kernel_call *call)
{
    const ipu_type *type = &call->spec->inputs[0];
    ipu_random_key key = key_of(call);
    double rate = ipu_attrs_float(call->spec->attrs, IPU_ATTR_RATE, 0.0);
    ipu__scalar scale = {.f = rate < 1.0 ? 1.0 / (1.0 - rate) : 0.0};
    uint8_t *mask = call->outputs[1];
    int64_t elements = ipu_shape_elements(&type->shape);
    uint32_t words[4] = {0};
    scale = ipu__scalar_round(type->dtype, scale);
    for (int64_t i = 0; i < elements; i++) {
        if ((i & 3) == 0) {
            ipu_random_block(&key, (uint64_t)i / 4, words);
        }
        bool keep = (double)ipu__uniform_f32(words[i & 3]) >= rate;
        ipu__scalar value = ipu__scalar_load(type->dtype, call->inputs[0], i);
        value.f = keep ? value.f * scale.f : 0.0;
        ipu__scalar_store(type->dtype, call->outputs[0], i, value);
        mask[i] = keep;
    }
    return IPU_OK;
}
