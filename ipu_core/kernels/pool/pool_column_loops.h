/* SPDX-License-Identifier: MIT
 *
 * Loops over the columns of pooling, once for each instruction set: a file defines
 * COLUMNS_NAME(loop) (the name of a loop there) and COLUMNS_TARGET (the attribute of its
 * functions) and includes this one. All sets give the same bits. */

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


COLUMNS_TARGET static void
COLUMNS_NAME(max)(float *y, int64_t y_step, const float *x, int64_t x_step,
                  int64_t columns, int64_t n)
{
    COLUMNS((y += y_step, x += x_step), y[j] = IPU_LARGER(y[j], x[j]))
}

COLUMNS_TARGET static void
COLUMNS_NAME(sum)(float *y, int64_t y_step, const float *x, int64_t x_step,
                  int64_t columns, int64_t n)
{
    COLUMNS((y += y_step, x += x_step), y[j] += x[j])
}

COLUMNS_TARGET static void
COLUMNS_NAME(divide)(float *y, int64_t y_step, float rows, const float *counts,
                     int64_t columns, int64_t n)
{
    COLUMNS((y += y_step), y[j] /= rows * counts[i])
}

COLUMNS_TARGET static void
COLUMNS_NAME(share)(float *dx, int64_t dx_step, const float *dy, int64_t dy_step,
                    float rows, const float *counts, int64_t columns, int64_t n)
{
    COLUMNS((dx += dx_step, dy += dy_step), dx[j] += dy[j] / (rows * counts[i]))
}

COLUMNS_TARGET static void
COLUMNS_NAME(mark)(int32_t *place, int32_t k, const float *x, int64_t x_step,
                   const float *y, int64_t y_step, int64_t columns, int64_t n)
{
    COLUMNS((place += n, x += x_step, y += y_step),
            place[j] = (place[j] < 0) & ((x[j] == y[j]) | (x[j] != x[j])) ? k : place[j])
}

COLUMNS_TARGET static void
COLUMNS_NAME(pick)(float *y, int64_t y_step, const int32_t *place, int32_t k,
                   const float *v, int64_t v_step, int64_t columns, int64_t n)
{
    COLUMNS((place += n, y += y_step, v += v_step), y[j] = place[j] == k ? v[j] : y[j])
}

static const ipu__pool_columns COLUMNS_NAME(columns) = {
    COLUMNS_NAME(max),  COLUMNS_NAME(sum),  COLUMNS_NAME(divide), COLUMNS_NAME(share),
    COLUMNS_NAME(mark), COLUMNS_NAME(pick)};

#undef COLUMNS
#undef COLUMNS_NAME
#undef COLUMNS_TARGET
