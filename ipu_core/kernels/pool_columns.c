/* SPDX-License-Identifier: MIT
 *
 * What pooling does to one row of windows at one of their elements: loops over columns,
 * and over the channels of each, which lie side by side. One source in two instruction
 * sets with the same bits. No state, any thread. */
#include "kernels/pool_impl.h"

#define LARGER(a, b) ((a) > (b) ? (a) : ((a) == (a) ? (b) : (a))) /* NaN if one is */

/* `statement` for each column and channel j < n. A single channel gets a loop of its
 * own over the columns. */
#define COLUMNS(advance, statement) \
    if (n == 1) { \
        const int64_t j = 0; \
        IPU_INDEPENDENT \
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

#define FORM(suffix, target) \
    target static void max_##suffix(float *y, int64_t y_step, const float *x, \
                                    int64_t x_step, int64_t columns, int64_t n){ \
        COLUMNS((y += y_step, x += x_step), \
                y[j] = LARGER( \
                    y[j], x[j]))} target static void sum_##suffix(float *y, \
                                                                  int64_t y_step, \
                                                                  const float *x, \
                                                                  int64_t x_step, \
                                                                  int64_t columns, \
                                                                  int64_t n){COLUMNS( \
        (y += y_step, x += x_step), \
        y[j] += x[j])} target static void divide_##suffix(float *y, int64_t y_step, \
                                                          float rows, \
                                                          const float *counts, \
                                                          int64_t columns, int64_t n){ \
        COLUMNS((y += y_step), y[j] /= rows * counts[i])} target static void \
        share_##suffix(float *dx, int64_t dx_step, const float *dy, int64_t dy_step, \
                       float rows, const float *counts, int64_t columns, int64_t n){ \
            COLUMNS((dx += dx_step, dy += dy_step), \
                    dx[j] += dy[j] / (rows * counts[i]))} target static void \
            mark_##suffix(int32_t *place, int32_t k, const float *x, int64_t x_step, \
                          const float *y, int64_t y_step, int64_t columns, int64_t n){ \
                COLUMNS((place += n, x += x_step, y += y_step), \
                        place[j] = (place[j] < 0) & !(x[j] < y[j]) \
                                       ? k \
                                       : place[j])} target static void \
                pick_##suffix(float *y, int64_t y_step, const int32_t *place, \
                              int32_t k, const float *v, int64_t v_step, \
                              int64_t columns, int64_t n){ \
                    COLUMNS((place += n, y += y_step, v += v_step), \
                            y[j] = place[j] == k ? v[j] : y[j])} target static void \
                    spread_##suffix(float *dx, int64_t dx_step, const int32_t *place, \
                                    int32_t k, const float *dy, int64_t dy_step, \
                                    int64_t columns, int64_t n) \
    { \
        COLUMNS((place += n, dx += dx_step, dy += dy_step), \
                dx[j] += place[j] == k ? dy[j] : 0.0f) \
    } \
    static const ipu__pool_columns columns_##suffix = { \
        max_##suffix,  sum_##suffix,  divide_##suffix, share_##suffix, \
        mark_##suffix, pick_##suffix, spread_##suffix};

FORM(generic, )
FORM(avx2, IPU_TARGET_AVX2)

const ipu__pool_columns *
ipu__pool_columns_of(ipu_cpu_class cpu)
{
    return cpu >= IPU_CPU_AVX2 ? &columns_avx2 : &columns_generic;
}
