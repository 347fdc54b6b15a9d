/* SPDX-License-Identifier: MIT
 *
 * Where the windows of a pooling lie: three axes, outermost first; of those that a
 * pooling does not have, size and window are 1. */
#ifndef IPU_KERNELS_POOL_IMPL_H
#define IPU_KERNELS_POOL_IMPL_H

#include "kernels/core/kernel_impl.h"
#include "kernels/core/sum_tree.h"

enum { IPU_POOL_AXES = 3 };

/* Element k of window o is element o * stride + k * dilation - low of the axis. */
typedef struct ipu__pool_axis {
    int64_t size;
    int64_t windows;
    int64_t window;
    int64_t stride;
    int64_t dilation;
    int64_t low;
} ipu__pool_axis;

typedef struct ipu__pool {
    int64_t images;
    int64_t channels;
    ipu__pool_axis axes[IPU_POOL_AXES];
} ipu__pool;

void ipu__pool_plan(const ipu_kernel_spec *spec, ipu__pool *pool);

/* The levels of totals of the longest sum of an average or of its gradient; 0 where all
 * are at most one block, for float64, whose sums are chains, and for other ops. */
int32_t ipu__pool_levels(const ipu__pool *pool, ipu_op op, ipu_dtype dtype);

/* The number of a position in a window. The sum of a window is cut into blocks by it, so
 * blocks are alike for all windows, and padding adds nothing to them. An element's
 * sum over windows is cut by its positions in them, counted from the last one. */
static inline int64_t
ipu__pool_position(const ipu__pool *pool, int64_t d, int64_t h, int64_t w)
{
    return (d * pool->axes[1].window + h) * pool->axes[2].window + w;
}

/* The elements [*begin, *end) of window o that are not padding; may be none. */
void ipu__pool_inside(const ipu__pool_axis *axis, int64_t o, int64_t *begin,
                      int64_t *end);
/* The windows [*first, *end) that element i may be in, and its number in one of them:
 * negative where it is not. */
void ipu__pool_windows(const ipu__pool_axis *axis, int64_t i, int64_t *first,
                       int64_t *end);
int64_t ipu__pool_number(const ipu__pool_axis *axis, int64_t i, int64_t o);

/* Loops over `columns` windows of a row, `step` elements from one to the next, and n
 * channels of each (pool_columns.c). `place` holds n numbers for each column, without
 * gaps; a window has `rows * counts[column]` elements. */
typedef struct ipu__pool_columns {
    /* y = the least number, or 0; the larger one of y and x */
    void (*fill)(void *y, int64_t y_step, bool is_max, int64_t columns, int64_t n);
    void (*max)(void *y, int64_t y_step, const void *x, int64_t x_step, int64_t columns,
                int64_t n);
    /* place = k where it is negative and x is y, or NaN */
    void (*mark)(int32_t *place, int32_t k, const void *x, int64_t x_step,
                 const void *y, int64_t y_step, int64_t columns, int64_t n);
    /* where place is k: y = v */
    void (*pick)(void *y, int64_t y_step, const int32_t *place, int32_t k,
                 const void *v, int64_t v_step, int64_t columns, int64_t n);
    /* of floats: y += x; y /= elements; dx += dy / elements */
    void (*sum)(void *y, int64_t y_step, const void *x, int64_t x_step, int64_t columns,
                int64_t n);
    void (*divide)(void *y, int64_t y_step, double rows, const double *counts,
                   int64_t columns, int64_t n);
    void (*share)(void *dx, int64_t dx_step, const void *dy, int64_t dy_step,
                  double rows, const double *counts, int64_t columns, int64_t n);
} ipu__pool_columns;

/* NULL: none of this dtype. */
const ipu__pool_columns *ipu__pool_columns_of(ipu_cpu_class cpu, ipu_dtype dtype);

/* A box of elements, outermost axis first: `counts` of them, `steps` apart, with numbers
 * from `number` on that change by `turns`. */
typedef struct ipu__pool_box {
    int64_t counts[IPU_POOL_AXES];
    int64_t steps[IPU_POOL_AXES];
    int64_t turns[IPU_POOL_AXES];
    int64_t number;
    double elements; /* of a window, at least 1 */
    int32_t levels;  /* of the tree of its sum */
    /* where windows scatter, the positions [begin, end) of the first two axes that get
     * something; at others they only look */
    int64_t begin[2];
    int64_t end[2];
} ipu__pool_box;

/* Where there are channels enough to fill registers: all elements of a column at once
 * (pool_boxes.c), of floats. Same results as by columns. */
typedef struct ipu__pool_boxes {
    /* y = the largest element, or the mean of all, of windows `step` elements apart;
     * long_mean: of more than one block (sum_tree.h), of float32 */
    void (*max)(void *y, int64_t y_step, const void *x, int64_t x_step,
                const ipu__pool_box *box, int64_t columns, int64_t n);
    void (*mean)(void *y, int64_t y_step, const void *x, int64_t x_step,
                 const ipu__pool_box *box, int64_t columns, int64_t n);
    void (*long_mean)(void *y, int64_t y_step, const void *x, int64_t x_step,
                      const ipu__pool_box *box, int64_t columns, int64_t n);
    /* place = the number of the first element that is y, or NaN */
    void (*mark)(int32_t *place, const void *x, int64_t x_step, const void *y,
                 int64_t y_step, const ipu__pool_box *box, int64_t columns, int64_t n);
    /* dx += dy at the first element that is y, or NaN, if that gets something */
    void (*scatter)(void *dx, const void *x, int64_t x_step, const void *y,
                    const void *dy, int64_t y_step, const ipu__pool_box *box,
                    int64_t columns, int64_t n);
    /* to the elements of windows that do not meet: dy at the first that is y, or NaN,
     * else 0 */
    void (*place)(void *dx, const void *x, int64_t x_step, const void *y,
                  const void *dy, int64_t y_step, const ipu__pool_box *box,
                  int64_t columns, int64_t n);
} ipu__pool_boxes;

enum { IPU_POOL_FEWEST_LANES = 8 };

/* NULL: none of this dtype. */
const ipu__pool_boxes *ipu__pool_boxes_of(ipu_cpu_class cpu, ipu_dtype dtype);

#endif
