/* SPDX-License-Identifier: MIT
 *
 * The harness of the kernel tests: a trial is one op with types and attributes; it runs
 * the reference kernel, then the fast kernels of each instruction set with one, two and
 * three threads, and compares. Included by one test program each. */
#ifndef IPU_TESTS_KERNEL_TRIALS_H
#define IPU_TESTS_KERNEL_TRIALS_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "kernels/core/kernel.h"

enum { MOST = 10, ATTRS = 8 };

typedef struct kernel_trial {
    ipu_op op;
    uint32_t input_count;
    uint32_t output_count;
    ipu_type inputs[MOST];
    ipu_type outputs[MOST];
    ipu_attr attrs[ATTRS];
    uint32_t attr_count;
    double low; /* of random floats */
    double high;
    double tolerance; /* relative to the largest value; 0: exact */
    int64_t below;    /* of random integers; 0: the dtype's small numbers */
} kernel_trial;

static ipu_ctx ctx;
static ipu_pool *pools[4]; /* by thread count; [1] stays NULL */
static uint64_t random_state = 88172645463325252u;

static uint32_t
next_random(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (uint32_t)(random_state >> 32);
}

static void *
buffer_new(const ipu_type *type)
{
    size_t bytes = (ipu_type_bytes(type) + IPU_SLACK_BYTES + 63) / 64 * 64;
    void *buffer = aligned_alloc(IPU_BUFFER_ALIGNMENT, bytes);
    memset(buffer, 0x5a, bytes);
    return buffer;
}

static ipu_type
type_of(ipu_dtype dtype, int32_t rank, const int64_t *dims)
{
    ipu_type type = {dtype, ipu_shape_make(rank, dims)};
    return type;
}

#define DIMS(...) \
    (int32_t)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), \
        (int64_t[]){__VA_ARGS__}
#define SCALAR 0, NULL

static void
store(ipu_dtype dtype, void *base, int64_t i, double value)
{
    switch (dtype) {
    case IPU_DTYPE_FLOAT32:
        ((float *)base)[i] = (float)value;
        break;
    case IPU_DTYPE_FLOAT16:
        ((uint16_t *)base)[i] = ipu_float16_from_float((float)value);
        break;
    case IPU_DTYPE_FLOAT64:
        ((double *)base)[i] = value;
        break;
    case IPU_DTYPE_INT32:
    case IPU_DTYPE_UINT32:
        ((int32_t *)base)[i] = (int32_t)value;
        break;
    case IPU_DTYPE_INT16:
    case IPU_DTYPE_UINT16:
        ((int16_t *)base)[i] = (int16_t)value;
        break;
    case IPU_DTYPE_INT64:
    case IPU_DTYPE_UINT64:
        ((int64_t *)base)[i] = (int64_t)value;
        break;
    default:
        ((int8_t *)base)[i] = (int8_t)value;
        break;
    }
}

static double
load(ipu_dtype dtype, const void *base, int64_t i)
{
    switch (dtype) {
    case IPU_DTYPE_FLOAT32:
        return (double)((const float *)base)[i];
    case IPU_DTYPE_FLOAT16:
        return (double)ipu_float16_to_float(((const uint16_t *)base)[i]);
    case IPU_DTYPE_FLOAT64:
        return ((const double *)base)[i];
    default:
        return 0.0;
    }
}

static void
fill(const kernel_trial *trial, const ipu_type *type, void *base)
{
    int64_t elements = ipu_shape_elements(&type->shape);
    for (int64_t i = 0; i < elements; i++) {
        double value;
        if (ipu_dtype_is_float(type->dtype)) {
            value = trial->low
                    + (trial->high - trial->low) * (double)next_random() * 0x1p-32;
        } else if (type->dtype == IPU_DTYPE_BOOL) {
            value = next_random() & 1;
        } else if (trial->below > 0) {
            value = (double)((int64_t)next_random() % trial->below);
        } else {
            value = (double)(next_random() % 41);
            value -= ipu_dtype_kind(type->dtype) == 'i' ? 20 : 0;
            value = value == 0.0 ? 3.0 : value;
        }
        store(type->dtype, base, i, value);
    }
}

static ipu_status
run(const kernel_trial *trial, void *const *inputs, void *const *outputs,
    ipu_kernel_variant variant, ipu_cpu_class cpu, ipu_pool *pool, const char **name)
{
    ipu_kernel_spec spec = {.op = trial->op,
                            .attrs = {trial->attrs, trial->attr_count},
                            .input_count = trial->input_count,
                            .output_count = trial->output_count,
                            .inputs = trial->inputs,
                            .outputs = trial->outputs};
    ipu_ctx_clear(&ctx);
    ipu_arena prepared = {0};
    ipu_status status = ipu_kernel_prepare(&ctx, &prepared, &spec, variant, cpu);
    if (status != IPU_OK) {
        ipu_arena_free(&ctx, &prepared);
        return status;
    }
    ipu_type bytes = {IPU_DTYPE_UINT8, {1, {(int64_t)spec.workspace_bytes}}};
    ipu_kernel_call call = {.spec = &spec,
                            .inputs = (const void *const *)inputs,
                            .outputs = outputs,
                            .workspace = buffer_new(&bytes),
                            .pool = pool,
                            .random = {7, 3, 0, 0},
                            .ctx = &ctx};
    status = spec.run(&call);
    free(call.workspace);
    ipu_arena_free(&ctx, &prepared);
    *name = spec.kernel_name;
    return status;
}

static bool
close_enough(const ipu_type *type, const void *a, const void *b, double tolerance)
{
    int64_t elements = ipu_shape_elements(&type->shape);
    double largest = 0.0;
    if (tolerance <= 0.0 || !ipu_dtype_is_float(type->dtype)) {
        return memcmp(a, b, ipu_type_bytes(type)) == 0;
    }
    for (int64_t i = 0; i < elements; i++) {
        double value = load(type->dtype, a, i);
        largest = isfinite(value) ? fmax(largest, fabs(value)) : largest;
    }
    for (int64_t i = 0; i < elements; i++) {
        double x = load(type->dtype, a, i);
        double y = load(type->dtype, b, i);
        if (!(isnan(x) && isnan(y)) && x != y
            && !(fabs(x - y) <= tolerance * fmin(largest, fabs(x) + 0.1 * largest))) {
            fprintf(stderr, "element %lld: %.9g against %.9g\n", (long long)i, x, y);
            return false;
        }
    }
    return true;
}

/* The reference kernel, or that of the generic class where there is none; then fast ones of
 * all classes with 1, 2 and 3 threads. */
static inline void
check_trial(const kernel_trial *trial)
{
    void *inputs[MOST];
    void *start[MOST]; /* variables keep what they had */
    void *expected[MOST];
    void *first[MOST];
    void *got[MOST];
    const char *name = "";
    const char *op = ipu_op_info_of(trial->op)->name;
    int failures = check_failures;
    for (uint32_t k = 0; k < trial->input_count; k++) {
        inputs[k] = buffer_new(&trial->inputs[k]);
        fill(trial, &trial->inputs[k], inputs[k]);
    }
    for (uint32_t k = 0; k < trial->output_count; k++) {
        start[k] = buffer_new(&trial->outputs[k]);
        expected[k] = buffer_new(&trial->outputs[k]);
        first[k] = buffer_new(&trial->outputs[k]);
        got[k] = buffer_new(&trial->outputs[k]);
        fill(trial, &trial->outputs[k], start[k]);
        memcpy(expected[k], start[k], ipu_type_bytes(&trial->outputs[k]));
    }
    CHECK_OK(&ctx, run(trial, inputs, expected, IPU_KERNEL_REFERENCE, IPU_CPU_GENERIC,
                       NULL, &name));
    ipu_cpu_class best = ipu_cpu_class_detect();
    for (int32_t cpu = IPU_CPU_GENERIC; cpu <= (int32_t)best; cpu++) {
        for (int32_t threads = 1; threads <= 3; threads++) {
            for (uint32_t k = 0; k < trial->output_count; k++) {
                memcpy(got[k], start[k], ipu_type_bytes(&trial->outputs[k]));
            }
            CHECK_OK(&ctx, run(trial, inputs, got, IPU_KERNEL_FAST, (ipu_cpu_class)cpu,
                               pools[threads], &name));
            for (uint32_t k = 0; k < trial->output_count; k++) {
                size_t bytes = ipu_type_bytes(&trial->outputs[k]);
                if (threads == 1) {
                    memcpy(first[k], got[k], bytes);
                    CHECK(close_enough(&trial->outputs[k], expected[k], got[k],
                                       trial->tolerance));
                } else {
                    CHECK(memcmp(first[k], got[k], bytes) == 0);
                }
                for (size_t i = bytes; i < bytes + 64; i++) {
                    CHECK(((const uint8_t *)got[k])[i] == 0x5a);
                }
            }
        }
    }
    if (check_failures != failures) {
        char text[128];
        fprintf(stderr, "in %s, kernel %s:", op, name);
        for (uint32_t k = 0; k < trial->input_count; k++) {
            fprintf(stderr, " %s",
                    ipu_type_print(&trial->inputs[k], text, sizeof text));
        }
        if (trial->output_count > 0) {
            fprintf(stderr, " -> %s",
                    ipu_type_print(&trial->outputs[0], text, sizeof text));
        }
        fprintf(stderr, "\n");
    }
    for (uint32_t k = 0; k < trial->input_count; k++) {
        free(inputs[k]);
    }
    for (uint32_t k = 0; k < trial->output_count; k++) {
        free(start[k]);
        free(expected[k]);
        free(first[k]);
        free(got[k]);
    }
}

static ipu_attr
attr_int(ipu_attr_key key, int64_t value)
{
    return (ipu_attr){.key = key, .as.i = value};
}

static inline ipu_attr
attr_float(ipu_attr_key key, double value)
{
    return (ipu_attr){.key = key, .as.f = value};
}

static inline ipu_attr
attr_ints(ipu_attr_key key, uint32_t count, const int64_t *values)
{
    return (ipu_attr){.key = key, .count = count, .as.ints = values};
}

static void
trials_begin(void)
{
    ipu_ctx_init(&ctx, ipu_allocator_default());
    CHECK_OK(&ctx, ipu_pool_create(&ctx, 2, &pools[2]));
    CHECK_OK(&ctx, ipu_pool_create(&ctx, 3, &pools[3]));
}

static void
trials_end(void)
{
    ipu_pool_free(&ctx, pools[2]);
    ipu_pool_free(&ctx, pools[3]);
}

#endif
