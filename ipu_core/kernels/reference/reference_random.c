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
 *   rounding           away from 0 where the rest and a uniform number make 1
 * Calling thread only; allocates nothing. */
#include <math.h>
#include <string.h>

#include "kernels/core/kernel_impl.h"
#include "kernels/math/wide_math.h"

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
    int32_t key = ipu_op_key_place(spec->op);
    bool keyed = key >= 0 && spec->input_count > (uint32_t)key;
    if (spec->op == IPU_OP_ID_ROUND_STOCHASTIC) {
        op |= UINT64_C(1) << 32; /* ordinals are counted apart from the program's */
    }
    op = mix(op * UINT64_C(0x9e3779b97f4a7c15));
    if (seed != NULL) {
        op = mix(op ^ mix((uint64_t)seed->as.i + UINT64_C(0x632be59bd9b4e019)));
    }
    return (ipu__random_source){
        .key_input = keyed ? key : -1,
        .op = (uint32_t)(op >> 32),
        .same_on_replicas =
            ipu_attrs_int(spec->attrs, IPU_ATTR_SAME_ON_REPLICAS, 0) != 0};
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
    key.replica = source->same_on_replicas ? 0 : key.replica;
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
    double u = ((double)pair[0] + 1.0) * 0x1p-32;
    double radius = sqrt(-2.0 * ipu__near_log_f64(u));
    ipu__point point = ipu__circle_f64(two_pi * ((double)pair[1] * 0x1p-32));
    return radius * ((lane & 1) != 0 ? point.sin : point.cos);
}

ipu_status
ipu_reference_random_uniform(const ipu_kernel_call *call)
{
    const ipu_type *type = &call->spec->outputs[0];
    ipu_random_key key = key_of(call);
    int64_t elements = ipu_shape_elements(&type->shape);
    bool wide =
        call->spec->op == IPU_OP_ID_RANDOM_UNIFORM && type->dtype == IPU_DTYPE_FLOAT64;
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
            value.f = ipu__truncated_normal_f64(words[lane]);
            break;
        }
        ipu__scalar_store(type->dtype, call->outputs[0], i, value);
    }
    return IPU_OK;
}

/* floor(word * span / 2^32), or with two words / 2^64: evenly spread for spans far
 * below that, by one multiplication. */
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

ipu_status
ipu__random_range(const ipu_kernel_call *call, uint64_t *least, uint64_t *span)
{
    ipu_dtype dtype = call->spec->outputs[0].dtype;
    ipu__scalar first = ipu__scalar_load(dtype, call->inputs[0], 0);
    ipu__scalar end = ipu__scalar_load(dtype, call->inputs[1], 0);
    bool is_signed = ipu_dtype_kind(dtype) == 'i';
    bool is_empty = is_signed ? end.i <= first.i : end.u <= first.u;
    IPU_FAIL_IF(call->ctx,
                is_empty && ipu_shape_elements(&call->spec->outputs[0].shape) > 0,
                INVALID_ARGUMENT, "Need minval < maxval, got %lld >= %lld",
                (long long)first.i, (long long)end.i);
    *least = first.u;
    *span = end.u - first.u;
    return IPU_OK;
}

/* 32-bit types and narrower ones take a word an element, 64-bit types two. */
ipu_status
ipu_reference_random_integer(const ipu_kernel_call *call)
{
    const ipu_type *type = &call->spec->outputs[0];
    ipu_random_key key = key_of(call);
    bool wide = ipu_dtype_bytes(type->dtype) == 8;
    uint64_t least;
    uint64_t span;
    IPU_TRY(ipu__random_range(call, &least, &span));
    int64_t elements = ipu_shape_elements(&type->shape);
    int64_t per_block = wide ? 2 : 4;
    uint32_t words[4] = {0};
    for (int64_t i = 0; i < elements; i++) {
        int64_t lane = i % per_block;
        if (lane == 0) {
            ipu_random_block(&key, (uint64_t)(i / per_block), words);
        }
        const uint32_t *own = words + (wide ? 2 * lane : lane);
        ipu__scalar value = {.u = least + scaled(own, wide, span)};
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

/* Towards 0 or away from it by the distance to the neighbours. With `spacing` the
 * distance of float16's numbers around x, |x| = (below + rest) * spacing. */
static double
round_stochastically(double x, double uniform)
{
    int32_t exponent;
    double size = fabs(x);
    if (!(size < 65536.0)) {
        return isnan(x) ? x : copysign(INFINITY, x);
    }
    (void)frexp(size, &exponent);
    double spacing = ldexp(1.0, exponent < -13 ? -24 : exponent - 11);
    double below = floor(size / spacing);
    double rest = size / spacing - below;
    return copysign((below + (rest >= 1.0 - uniform ? 1.0 : 0.0)) * spacing, x);
}

ipu_status
ipu_reference_round_stochastic(const ipu_kernel_call *call)
{
    const ipu_type *type = &call->spec->inputs[0];
    ipu_random_key key = key_of(call);
    int64_t elements = ipu_shape_elements(&type->shape);
    uint32_t words[4] = {0};
    for (int64_t i = 0; i < elements; i++) {
        if ((i & 3) == 0) {
            ipu_random_block(&key, (uint64_t)i / 4, words);
        }
        ipu__scalar value = ipu__scalar_load(type->dtype, call->inputs[0], i);
        value.f = round_stochastically(value.f, (double)ipu__uniform_f32(words[i & 3]));
        ipu__scalar_store(IPU_DTYPE_FLOAT16, call->outputs[0], i, value);
    }
    return IPU_OK;
}
