/* SPDX-License-Identifier: MIT
 *
 * The loops of normalisation over rows of channels, in two instruction sets with the
 * same bits: down `rows` rows of n channels, `step` elements apart, where each channel is
 * a chain; or along one row of n, where lanes take turns and fold in halves.
 *
 * normalize_fast.c and normalize_wide.c include it, each with its NORMALIZE_REAL and
 * NORMALIZE_HALVES(vector): the sum of a vector's halves, their halves, and so on. */
#ifndef IPU_KERNELS_NORMALIZE_LOOPS_H
#define IPU_KERNELS_NORMALIZE_LOOPS_H

#include "kernels/core/kernel_impl.h"

typedef NORMALIZE_REAL real;
/* As values: in an array compilers would leave them in memory. */
typedef NORMALIZE_REAL reals
    __attribute__((vector_size(32), aligned(sizeof(NORMALIZE_REAL)), may_alias));
enum { WIDTH = sizeof(reals) / sizeof(real), LANES = 4 * WIDTH };

typedef struct normalize_loops {
    /* sum += x; sum += (x - mean)^2; plain += dy, tilted += dy * (x - mean) */
    void (*sum)(real *sum, const real *x, int64_t rows, int64_t step, int64_t n);
    void (*squares)(real *sum, const real *mean, const real *x, int64_t rows,
                    int64_t step, int64_t n);
    void (*slopes)(real *plain, real *tilted, const real *mean, const real *x,
                   const real *dy, int64_t rows, int64_t step, int64_t n);
    /* y = (x - mean) * factor + shift */
    void (*result)(real *y, const real *x, const real *mean, const real *factor,
                   const real *shift, int64_t rows, int64_t step, int64_t n);
    /* dx = dy * factor - ((x - mean) * tilt + shift) */
    void (*gradient)(real *dx, const real *x, const real *dy, const real *mean,
                     const real *factor, const real *tilt, const real *shift,
                     int64_t rows, int64_t step, int64_t n);
    /* of x; of (x - mean)^2; of dy * factor; of dy * factor * (x - mean) */
    real (*row_sum)(const real *x, int64_t n);
    real (*row_squares)(const real *x, real mean, int64_t n);
    real (*row_plain)(const real *dy, const real *factor, int64_t n);
    real (*row_tilted)(const real *dy, const real *factor, const real *x, real mean,
                       int64_t n);
    /* y = (x - mean) * s * factor + shift */
    void (*row_result)(real *y, const real *x, real mean, real s, const real *factor,
                       const real *shift, int64_t n);
    /* with z = (x - mean) * s: factors += dy * z, shifts += dy,
     * dx = dy * factor * s - (z * tilt + shift) */
    void (*row_gradient)(real *dx, real *factors, real *shifts, const real *x,
                         const real *dy, const real *factor, real mean, real s,
                         real tilt, real shift, int64_t n);
} normalize_loops;

#define AT(pointer, v) (((const reals *)(pointer))[v])
#define PUT(pointer, v, value) (((reals *)(pointer))[v] = (value))
#define ROUNDS(vectors, statement) \
    _Pragma("GCC unroll 4") for (int32_t v = 0; v < (vectors); v++) \
    { \
        statement; \
    }

/* The lanes of `vectors` channels blocks at j, down the rows. */
#define DOWN(name, target, vectors) \
    target IPU_INLINE void sum_##name##_##vectors(real *sum, const real *x, \
                                                  int64_t rows, int64_t step) \
    { \
        reals s[vectors]; \
        ROUNDS(vectors, s[v] = AT(sum, v)) \
        for (int64_t i = 0; i < rows; i++, x += step) { \
            ROUNDS(vectors, s[v] += AT(x, v)) \
        } \
        ROUNDS(vectors, PUT(sum, v, s[v])) \
    } \
    target IPU_INLINE void squares_##name##_##vectors( \
        real *sum, const real *mean, const real *x, int64_t rows, int64_t step) \
    { \
        reals s[vectors]; \
        reals m[vectors]; \
        ROUNDS(vectors, s[v] = AT(sum, v); m[v] = AT(mean, v)) \
        for (int64_t i = 0; i < rows; i++, x += step) { \
            ROUNDS(vectors, reals d = AT(x, v) - m[v]; s[v] += d * d) \
        } \
        ROUNDS(vectors, PUT(sum, v, s[v])) \
    } \
    target IPU_INLINE void slopes_##name##_##vectors( \
        real *plain, real *tilted, const real *mean, const real *x, const real *dy, \
        int64_t rows, int64_t step) \
    { \
        reals a[vectors]; \
        reals b[vectors]; \
        reals m[vectors]; \
        ROUNDS(vectors, a[v] = AT(plain, v); b[v] = AT(tilted, v); m[v] = AT(mean, v)) \
        for (int64_t i = 0; i < rows; i++, x += step, dy += step) { \
            ROUNDS(vectors, reals g = AT(dy, v); a[v] += g; \
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
    reals lanes[LANES / WIDTH]; \
    int64_t at = 0; \
    ROUNDS(LANES / WIDTH, lanes[v] = (reals){0}) \
    for (; at + LANES <= n; at += LANES) { \
        ROUNDS(LANES / WIDTH, lanes[v] += (term)) \
    } \
    if (at < n) { \
        real lane[LANES]; \
        ROUNDS(LANES / WIDTH, PUT(lane, v, lanes[v])) \
        for (int32_t l = 0; at + l < n; l++) { \
            int64_t i = at + l; \
            lane[l] += (single); \
        } \
        ROUNDS(LANES / WIDTH, lanes[v] = AT(lane, v)) \
    } \
    const reals folded = (lanes[0] + lanes[2]) + (lanes[1] + lanes[3]); \
    const real total = NORMALIZE_HALVES(folded);

#define FORM(name, target) \
    DOWN(name, target, 4) \
    DOWN(name, target, 1) \
    target static void sum_##name(real *sum, const real *x, int64_t rows, \
                                  int64_t step, int64_t n){BLOCKS( \
        sum_##name##_4(sum + j, x + j, rows, step), \
        sum_##name##_1(sum + j, x + j, rows, step), \
        sum[j] += \
        x[i * step + j])} target static void squares_##name(real *sum, \
                                                            const real *mean, \
                                                            const real *x, \
                                                            int64_t rows, \
                                                            int64_t step, int64_t n) \
    { \
        BLOCKS(squares_##name##_4(sum + j, mean + j, x + j, rows, step), \
               squares_##name##_1(sum + j, mean + j, x + j, rows, step), \
               real d = x[i * step + j] - mean[j]; \
               sum[j] += d * d) \
    } \
    target static void slopes_##name(real *plain, real *tilted, const real *mean, \
                                     const real *x, const real *dy, int64_t rows, \
                                     int64_t step, int64_t n) \
    { \
        BLOCKS(slopes_##name##_4(plain + j, tilted + j, mean + j, x + j, dy + j, rows, \
                                 step), \
               slopes_##name##_1(plain + j, tilted + j, mean + j, x + j, dy + j, rows, \
                                 step), \
               real g = dy[i * step + j]; \
               plain[j] += g; tilted[j] += g * (x[i * step + j] - mean[j])) \
    } \
    target static void result_##name(real *y, const real *x, const real *mean, \
                                     const real *factor, const real *shift, \
                                     int64_t rows, int64_t step, int64_t n) \
    { \
        for (int64_t i = 0; i < rows; i++, x += step, y += step) { \
            IPU_INDEPENDENT \
            for (int64_t j = 0; j < n; j++) { \
                y[j] = (x[j] - mean[j]) * factor[j] + shift[j]; \
            } \
        } \
    } \
    target static void gradient_##name( \
        real *dx, const real *x, const real *dy, const real *mean, const real *factor, \
        const real *tilt, const real *shift, int64_t rows, int64_t step, int64_t n) \
    { \
        for (int64_t i = 0; i < rows; i++, x += step, dy += step, dx += step) { \
            IPU_INDEPENDENT \
            for (int64_t j = 0; j < n; j++) { \
                dx[j] = dy[j] * factor[j] - ((x[j] - mean[j]) * tilt[j] + shift[j]); \
            } \
        } \
    } \
    target static real row_sum_##name(const real *x, int64_t n) \
    { \
        ALONG(AT(x + at, v), x[i]) \
        return total; \
    } \
    target static real row_squares_##name(const real *x, real mean, int64_t n) \
    { \
        ALONG((AT(x + at, v) - mean) * (AT(x + at, v) - mean), \
              (x[i] - mean) * (x[i] - mean)) \
        return total; \
    } \
    target static real row_plain_##name(const real *dy, const real *factor, int64_t n) \
    { \
        ALONG(AT(dy + at, v) * AT(factor + at, v), dy[i] * factor[i]) \
        return total; \
    } \
    target static real row_tilted_##name(const real *dy, const real *factor, \
                                         const real *x, real mean, int64_t n) \
    { \
        ALONG(AT(dy + at, v) * AT(factor + at, v) * (AT(x + at, v) - mean), \
              dy[i] * factor[i] * (x[i] - mean)) \
        return total; \
    } \
    IPU_LOOP(target, row_result_##name, \
             (real * y, const real *x, real mean, real s, const real *factor, \
              const real *shift, int64_t n), \
             y[j] = (x[j] - mean) * s * factor[j] + shift[j];) \
    IPU_LOOP(target, row_gradient_##name, \
             (real * dx, real * factors, real * shifts, const real *x, const real *dy, \
              const real *factor, real mean, real s, real tilt, real shift, \
              int64_t n), \
             { \
                 real g = dy[j]; \
                 real z = (x[j] - mean) * s; \
                 factors[j] += g * z; \
                 shifts[j] += g; \
                 dx[j] = g * factor[j] * s - (z * tilt + shift); \
             }) \
    static const normalize_loops loops_##name = { \
        sum_##name,        squares_##name,    slopes_##name,      result_##name, \
        gradient_##name,   row_sum_##name,    row_squares_##name, row_plain_##name, \
        row_tilted_##name, row_result_##name, row_gradient_##name};

FORM(generic, )
FORM(avx2, IPU_TARGET_AVX2)

#undef AT
#undef PUT
#undef ROUNDS
#undef DOWN
#undef BLOCKS
#undef ALONG
#undef FORM

#endif
