/* SPDX-License-Identifier: MIT
 *
 * Loops of normalisation (normalize_loops.c): down `rows` rows of n channels, `step`
 * elements apart; or along one row of n. */
#ifndef IPU_KERNELS_NORMALIZE_LOOPS_H
#define IPU_KERNELS_NORMALIZE_LOOPS_H

#include "kernels/core/kernel_impl.h"

typedef struct ipu__normalize_loops {
    /* sum += x; sum += (x - mean)^2; plain += dy, tilted += dy * (x - mean) */
    void (*sum)(float *sum, const float *x, int64_t rows, int64_t step, int64_t n);
    void (*squares)(float *sum, const float *mean, const float *x, int64_t rows,
                    int64_t step, int64_t n);
    void (*slopes)(float *plain, float *tilted, const float *mean, const float *x,
                   const float *dy, int64_t rows, int64_t step, int64_t n);
    /* y = (x - mean) * factor + shift */
    void (*result)(float *y, const float *x, const float *mean, const float *factor,
                   const float *shift, int64_t rows, int64_t step, int64_t n);
    /* dx = dy * factor - ((x - mean) * tilt + shift) */
    void (*gradient)(float *dx, const float *x, const float *dy, const float *mean,
                     const float *factor, const float *tilt, const float *shift,
                     int64_t rows, int64_t step, int64_t n);
    /* of x; of (x - mean)^2; of dy * factor; of dy * factor * (x - mean) */
    float (*row_sum)(const float *x, int64_t n);
    float (*row_squares)(const float *x, float mean, int64_t n);
    float (*row_plain)(const float *dy, const float *factor, int64_t n);
    float (*row_tilted)(const float *dy, const float *factor, const float *x,
                        float mean, int64_t n);
    /* y = (x - mean) * s * factor + shift */
    void (*row_result)(float *y, const float *x, float mean, float s,
                       const float *factor, const float *shift, int64_t n);
    /* with z = (x - mean) * s: factors += dy * z, shifts += dy,
     * dx = dy * factor * s - (z * tilt + shift) */
    void (*row_gradient)(float *dx, float *factors, float *shifts, const float *x,
                         const float *dy, const float *factor, float mean, float s,
                         float tilt, float shift, int64_t n);
} ipu__normalize_loops;

const ipu__normalize_loops *ipu__normalize_loops_of(ipu_cpu_class cpu);

#endif
