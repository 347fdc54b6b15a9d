/* SPDX-License-Identifier: MIT
 *
 * The loops of normalisation over rows of channels, in two instruction sets with the
 * same bits. Down the rows each channel is a chain; along a row 32 lanes take turns and
 * fold in halves. No state, any thread. */
#include "kernels/reduce/normalize_loops.h"

enum { LANES = 32 };

/* Four times eight lanes as values: in an array compilers would leave them in memory.
 */
typedef float floats __attribute__((vector_size(32), aligned(4), may_alias));
enum { WIDTH = 8 };

#define AT(pointer, v) (((const floats *)(pointer))[v])
#define PUT(pointer, v, value) (((floats *)(pointer))[v] = (value))
#define ROUNDS(vectors, statement) \
    _Pragma("GCC unroll 4") for (int32_t v = 0; v < (vectors); v++) \
    { \
        statement; \
    }

/* The lanes of `vectors` channels blocks at j, down the rows. */
#define DOWN(name, target, vectors) \
    target IPU_INLINE void sum_##name##_##vectors(float *sum, const float *x, \
                                                  int64_t rows, int64_t step) \
    { \
        floats s[vectors]; \
        ROUNDS(vectors, s[v] = AT(sum, v)) \
        for (int64_t i = 0; i < rows; i++, x += step) { \
            ROUNDS(vectors, s[v] += AT(x, v)) \
        } \
        ROUNDS(vectors, PUT(sum, v, s[v])) \
    } \
    target IPU_INLINE void squares_##name##_##vectors( \
        float *sum, const float *mean, const float *x, int64_t rows, int64_t step) \
    { \
        floats s[vectors]; \
        floats m[vectors]; \
        ROUNDS(vectors, s[v] = AT(sum, v); m[v] = AT(mean, v)) \
        for (int64_t i = 0; i < rows; i++, x += step) { \
            ROUNDS(vectors, floats d = AT(x, v) - m[v]; s[v] += d * d) \
        } \
        ROUNDS(vectors, PUT(sum, v, s[v])) \
    } \
    target IPU_INLINE void slopes_##name##_##vectors( \
        float *plain, float *tilted, const float *mean, const float *x, \
        const float *dy, int64_t rows, int64_t step) \
    { \
        floats a[vectors]; \
        floats b[vectors]; \
        floats m[vectors]; \
        ROUNDS(vectors, a[v] = AT(plain, v); b[v] = AT(tilted, v); m[v] = AT(mean, v)) \
        for (int64_t i = 0; i < rows; i++, x += step, dy += step) { \
            ROUNDS(vectors, floats g = AT(dy, v); a[v] += g; \
                   b[v] += g * (AT(x, v) - m[v])) \
        } \
        ROUNDS(vectors, PUT(plain, v, a[v]); PUT(tilted, v, b[v])) \
    }

/* j: the first channel that is left. */
#define BLOCKS(call4, call1, single) \
    int64_t j = 0; \
    for (; j + 4 * WIDTH <= n; j += 4 * WIDTH) { \
        call4; \
    } \
    for (; j + WIDTH <= n; j += WIDTH) { \
        call1; \
    } \
    for (; j < n; j++) { \
        for (int64_t i = 0; i < rows; i++) { \
            single; \
        } \
    }

/* The lanes along n elements: `term`, of vector v of a block that starts at `at`, and
 * `single`, of element i; what is left goes to the first lanes. They fold by halves: 16
 * and 16, 8 and 8, and so on. */
#define ALONG(term, single) \
    floats lanes[LANES / WIDTH]; \
    int64_t at = 0; \
    ROUNDS(LANES / WIDTH, lanes[v] = (floats){0}) \
    for (; at + LANES <= n; at += LANES) { \
        ROUNDS(LANES / WIDTH, lanes[v] += (term)) \
    } \
    if (at < n) { \
        float lane[LANES]; \
        ROUNDS(LANES / WIDTH, PUT(lane, v, lanes[v])) \
        for (int32_t l = 0; at + l < n; l++) { \
            int64_t i = at + l; \
            lane[l] += (single); \
        } \
        ROUNDS(LANES / WIDTH, lanes[v] = AT(lane, v)) \
    } \
    const floats eight = (lanes[0] + lanes[2]) + (lanes[1] + lanes[3]); \
    const float total = ((eight[0] + eight[4]) + (eight[2] + eight[6])) + \
                        ((eight[1] + eight[5]) + (eight[3] + eight[7]));

#define FORM(name, target) \
    DOWN(name, target, 4) \
    DOWN(name, target, 1) \
    target static void sum_##name(float *sum, const float *x, int64_t rows, \
                                  int64_t step, int64_t n){BLOCKS( \
        sum_##name##_4(sum + j, x + j, rows, step), \
        sum_##name##_1(sum + j, x + j, rows, step), \
        sum[j] += \
        x[i * step + j])} target static void squares_##name(float *sum, \
                                                            const float *mean, \
                                                            const float *x, \
                                                            int64_t rows, \
                                                            int64_t step, int64_t n) \
    { \
        BLOCKS(squares_##name##_4(sum + j, mean + j, x + j, rows, step), \
               squares_##name##_1(sum + j, mean + j, x + j, rows, step), \
               float d = x[i * step + j] - mean[j]; \
               sum[j] += d * d) \
    } \
    target static void slopes_##name(float *plain, float *tilted, const float *mean, \
                                     const float *x, const float *dy, int64_t rows, \
                                     int64_t step, int64_t n) \
    { \
        BLOCKS(slopes_##name##_4(plain + j, tilted + j, mean + j, x + j, dy + j, rows, \
                                 step), \
               slopes_##name##_1(plain + j, tilted + j, mean + j, x + j, dy + j, rows, \
                                 step), \
               float g = dy[i * step + j]; \
               plain[j] += g; tilted[j] += g * (x[i * step + j] - mean[j])) \
    } \
    target static void result_##name(float *y, const float *x, const float *mean, \
                                     const float *factor, const float *shift, \
                                     int64_t rows, int64_t step, int64_t n) \
    { \
        for (int64_t i = 0; i < rows; i++, x += step, y += step) { \
            IPU_INDEPENDENT \
            for (int64_t j = 0; j < n; j++) { \
                y[j] = (x[j] - mean[j]) * factor[j] + shift[j]; \
            } \
        } \
    } \
    target static void gradient_##name(float *dx, const float *x, const float *dy, \
                                       const float *mean, const float *factor, \
                                       const float *tilt, const float *shift, \
                                       int64_t rows, int64_t step, int64_t n) \
    { \
        for (int64_t i = 0; i < rows; i++, x += step, dy += step, dx += step) { \
            IPU_INDEPENDENT \
            for (int64_t j = 0; j < n; j++) { \
                dx[j] = dy[j] * factor[j] - ((x[j] - mean[j]) * tilt[j] + shift[j]); \
            } \
        } \
    } \
    target static float row_sum_##name(const float *x, int64_t n) \
    { \
        ALONG(AT(x + at, v), x[i]) \
        return total; \
    } \
    target static float row_squares_##name(const float *x, float mean, int64_t n) \
    { \
        ALONG((AT(x + at, v) - mean) * (AT(x + at, v) - mean), \
              (x[i] - mean) * (x[i] - mean)) \
        return total; \
    } \
    target static float row_plain_##name(const float *dy, const float *factor, \
                                         int64_t n) \
    { \
        ALONG(AT(dy + at, v) * AT(factor + at, v), dy[i] * factor[i]) \
        return total; \
    } \
    target static float row_tilted_##name(const float *dy, const float *factor, \
                                          const float *x, float mean, int64_t n) \
    { \
        ALONG(AT(dy + at, v) * AT(factor + at, v) * (AT(x + at, v) - mean), \
              dy[i] * factor[i] * (x[i] - mean)) \
        return total; \
    } \
    IPU_LOOP(target, row_result_##name, \
             (float *y, const float *x, float mean, float s, const float *factor, \
              const float *shift, int64_t n), \
             y[j] = (x[j] - mean) * s * factor[j] + shift[j];) \
    IPU_LOOP(target, row_gradient_##name, \
             (float *dx, float *factors, float *shifts, const float *x, \
              const float *dy, const float *factor, float mean, float s, float tilt, \
              float shift, int64_t n), \
             { \
                 float g = dy[j]; \
                 float z = (x[j] - mean) * s; \
                 factors[j] += g * z; \
                 shifts[j] += g; \
                 dx[j] = g * factor[j] * s - (z * tilt + shift); \
             }) \
    static const ipu__normalize_loops loops_##name = { \
        sum_##name,        squares_##name,    slopes_##name,      result_##name, \
        gradient_##name,   row_sum_##name,    row_squares_##name, row_plain_##name, \
        row_tilted_##name, row_result_##name, row_gradient_##name};

FORM(generic, )
FORM(avx2, IPU_TARGET_AVX2)

const ipu__normalize_loops *
ipu__normalize_loops_of(ipu_cpu_class cpu)
{
    return cpu >= IPU_CPU_AVX2 ? &loops_avx2 : &loops_generic;
}
