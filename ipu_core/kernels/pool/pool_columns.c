/* SPDX-License-Identifier: MIT
 *
 * Pooling of one row of windows, at one of their elements: loops over columns, and over
 * the channels of each, which lie side by side. One source for each number in two
 * instruction sets with the same bits. No state, any thread. */
#include "kernels/pool/pool_impl.h"

#include <math.h>

/* `statement` for each column and channel j < n. A single channel gets a loop of its
 * own over the columns. */
#define COLUMNS(advance, statement) \
    if (n == 1) { \
        const int64_t j = 0; \
        for (int64_t i = 0; i < columns; i++) { \
            statement; \
            advance; \
        } \
        return; \
    } \
    for (int64_t i = 0; i < columns; i++) { \
        IPU_INDEPENDENT \
        for (int64_t j = 0; j < n; j++) { \
            statement; \
        } \
        advance; \
    }

/* `type y`: the pointer that `given` is. */
#define AS(type, name, given) type *name = (given)

/* Of all numbers. */
#define NUMBERS(name, target, number, least, LARGER) \
    target static void fill_##name(void *out, int64_t y_step, bool is_max, \
                                   int64_t columns, int64_t n) \
    { \
        AS(number, y, out); \
        const number value = is_max ? (least) : 0; \
        COLUMNS(y += y_step, y[j] = value) \
    } \
    target static void max_##name(void *out, int64_t y_step, const void *in, \
                                  int64_t x_step, int64_t columns, int64_t n) \
    { \
        AS(number, y, out); \
        AS(const number, x, in); \
        COLUMNS((y += y_step, x += x_step), y[j] = LARGER(y[j], x[j])) \
    } \
    target static void mark_##name(int32_t *place, int32_t k, const void *in, \
                                   int64_t x_step, const void *most, int64_t y_step, \
                                   int64_t columns, int64_t n) \
    { \
        AS(const number, x, in); \
        AS(const number, y, most); \
        COLUMNS((place += n, x += x_step, y += y_step), \
                place[j] = \
                    (place[j] < 0) & ((x[j] == y[j]) | (x[j] != x[j])) ? k : place[j]) \
    } \
    target static void pick_##name(void *out, int64_t y_step, const int32_t *place, \
                                   int32_t k, const void *in, int64_t v_step, \
                                   int64_t columns, int64_t n) \
    { \
        AS(number, y, out); \
        AS(const number, v, in); \
        COLUMNS((place += n, y += y_step, v += v_step), \
                y[j] = place[j] == k ? v[j] : y[j]) \
    }

/* Of floats alone. */
#define FLOATS(name, target, real) \
    target static void sum_##name(void *out, int64_t y_step, const void *in, \
                                  int64_t x_step, int64_t columns, int64_t n) \
    { \
        AS(real, y, out); \
        AS(const real, x, in); \
        COLUMNS((y += y_step, x += x_step), y[j] += x[j]) \
    } \
    target static void divide_##name(void *out, int64_t y_step, double rows, \
                                     const double *counts, int64_t columns, int64_t n) \
    { \
        AS(real, y, out); \
        COLUMNS((y += y_step), y[j] /= (real)(rows * counts[i])) \
    } \
    target static void share_##name(void *out, int64_t dx_step, const void *in, \
                                    int64_t dy_step, double rows, \
                                    const double *counts, int64_t columns, int64_t n) \
    { \
        AS(real, dx, out); \
        AS(const real, dy, in); \
        COLUMNS((dx += dx_step, dy += dy_step), \
                dx[j] += dy[j] / (real)(rows * counts[i])) \
    }

#define OF_NUMBERS(name) \
    .fill = fill_##name, .max = max_##name, .mark = mark_##name, .pick = pick_##name
#define OF_FLOATS(name) \
    .sum = sum_##name, .divide = divide_##name, .share = share_##name

#define FLOAT_SETS(name, real, least) \
    NUMBERS(name##_generic, , real, least, IPU_LARGER) \
    NUMBERS(name##_avx2, IPU_TARGET_AVX2, real, least, IPU_LARGER) \
    FLOATS(name##_generic, , real) \
    FLOATS(name##_avx2, IPU_TARGET_AVX2, real) \
    static const ipu__pool_columns name[2] = { \
        {OF_NUMBERS(name##_generic), OF_FLOATS(name##_generic)}, \
        {OF_NUMBERS(name##_avx2), OF_FLOATS(name##_avx2)}};
FLOAT_SETS(f32, float, -INFINITY)
FLOAT_SETS(f64, double, -(double)INFINITY)

#define LARGER(a, b) ((a) > (b) ? (a) : (b))
#define INTEGER_SETS(NAME, name, integer, bits, least, greatest) \
    NUMBERS(name##_generic, , integer, least, LARGER) \
    NUMBERS(name##_avx2, IPU_TARGET_AVX2, integer, least, LARGER) \
    static const ipu__pool_columns name[2] = {{OF_NUMBERS(name##_generic)}, \
                                              {OF_NUMBERS(name##_avx2)}};
IPU_INTEGER_LIST(INTEGER_SETS)

#define OF_INTEGER(NAME, name, integer, bits, least, greatest) \
    [IPU_DTYPE_##NAME] = name,
static const ipu__pool_columns *const table[IPU_DTYPE_COUNT] = {
    [IPU_DTYPE_FLOAT32] = f32, [IPU_DTYPE_FLOAT64] = f64, IPU_INTEGER_LIST(OF_INTEGER)};

const ipu__pool_columns *
ipu__pool_columns_of(ipu_cpu_class cpu, ipu_dtype dtype)
{
    return table[dtype] == NULL ? NULL : &table[dtype][cpu >= IPU_CPU_AVX2];
}
