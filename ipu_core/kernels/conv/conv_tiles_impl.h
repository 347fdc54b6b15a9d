/* SPDX-License-Identifier: MIT
 *
 * The tiles of convolutions, see conv_tiles_body.h. The lowest of their files:
 *
 *   conv.c          which kernel serves a convolution; its call
 *   conv_windows.c  results by windows over a source: conv and conv_grad_input
 *   conv_winograd.c ... of 3 x 3, with fewer products
 *   conv_filter.c   conv_grad_filter
 *   conv_winograd_filter.c, likewise
 *   conv_wide.c     all of float64
 *   conv_source.c   bands of a tensor, copied with zeros around
 *   conv_plan.c     lines, taps, bands: what follows from the geometry
 *   conv_tiles_body.h, conv_winograd_body.h, included by gemm_avx512.c, ...
 *
 * A file includes what stands below it, never what stands above. */
#ifndef IPU_KERNELS_CONV_TILES_IMPL_H
#define IPU_KERNELS_CONV_TILES_IMPL_H

#include "kernels/core/kernel_impl.h"
#include "kernels/core/sum_tree.h"

enum { IPU_CONV_MOST_STEPS = 4, IPU_CONV_MOST_COLUMNS = 32 /* of a panel */ };

/* The last steps of results, while they are in registers. */
typedef struct ipu__conv_finish {
    struct {
        ipu_conv_step step;
        const float *values; /* of the first column; or of the result's first element */
    } steps[IPU_CONV_MOST_STEPS];
    int32_t count;
    bool relu;               /* after the steps */
    const float *relu_grad;  /* like the result's first element, where a relu was above 0,
                                or NULL; may be the result itself */
} ipu__conv_finish;

/* Results [pixel][column], each a sum over segments of the source (sum_tree.h): of the
 * pixel at at[i] in the source, floats [at[i] + offsets[s], ... + length) for each
 * segment s. They meet the rows of the panels, which stand in that order. The result has
 * the totals of the tree's lowest level; those of levels above lie like the result. */
typedef struct ipu__windows {
    const float *source;
    const int64_t *at;
    float *result;
    const int64_t *to; /* where the pixel's columns start in the result */
    int64_t pixels;
    const int64_t *offsets;
    int64_t segments;
    int64_t length;
    const float *panels; /* [panel][segments * length][columns of a panel] */
    int64_t columns;
    float *upper;         /* the first of these levels ... */
    int64_t level_floats; /* ... and from one to the next */
    const ipu__conv_finish *finish;
} ipu__windows;

/* Some rows of a filter's gradient: neighbours in the result and in the strip. */
typedef struct ipu__filter_rows {
    int64_t at; /* of their first element in the strips */
    int64_t rows;
    int64_t row; /* in the result */
} ipu__filter_rows;

/* What becomes of chains over some pixels, which are part of a sum over all of them. */
typedef struct ipu__filter_chains {
    bool more;     /* they go on from what is in the result */
    uint32_t adds; /* bit i: totals of level i of the sum's tree are added to them */
    float *to;     /* the totals that they become, or NULL: they stay in the result */
    float *totals; /* of the lowest level, which lie like the result */
    int64_t level_floats; /* from there to those of the next level */
} ipu__filter_chains;

/* Results [row][column], each a chain over pixels: element at + offsets[s] + i * step
 * of the strips times the panels' pixel, for i < length of each segment s; but of the
 * first one from `begin` on, and of the last one up to `end`. */
typedef struct ipu__filter_block {
    const float *strips;
    int64_t origin; /* what the rows' places count from */
    const ipu__filter_rows *rows;
    int64_t groups; /* of rows */
    const int64_t *offsets;
    int64_t segments;
    int64_t length;
    int64_t begin;
    int64_t end;
    int64_t step;
    const float *panels; /* [panel][panel_rows][columns of a panel] */
    int64_t panel_rows;
    float *result;
    int64_t result_row; /* floats from row to row */
    int64_t columns;
    ipu__filter_chains chains;
} ipu__filter_block;

/* Each channel by itself: result[to[i] + c] is the sum over the taps t of
 * source[at[i] + offsets[t] + c] * factors[t * channels + c]. */
typedef struct ipu__depthwise {
    const float *source;
    const int64_t *at;
    float *result;
    const int64_t *to;
    int64_t pixels;
    const int64_t *offsets;
    int64_t taps;
    const float *factors;
    int64_t channels;
    const ipu__conv_finish *finish;
} ipu__depthwise;

/* The gradient of its factors: result[t * channels + c] is a chain of source[at[i] +
 * offsets[t] + c] * other[i * channels + c], pixel after pixel. */
typedef struct ipu__depthwise_filter {
    const float *source;
    const int64_t *at;
    const float *other;
    int64_t pixels;
    const int64_t *offsets;
    int64_t taps;
    float *result;
    int64_t channels;
    int64_t first_channel; /* of those that are made */
    int64_t last_channel;
    ipu__filter_chains chains;
} ipu__depthwise_filter;

/* The 4 x 4 places from at[i] of a source on, [place][channel], as B^T d B: element
 * (r, c) of each patch and channel goes to out[(4 r + c) * step], which is
 * [patch][channel]. */
typedef struct ipu__patches {
    const float *source;
    const int64_t *at;
    int64_t count;
    int64_t row;    /* floats from row to row of the source */
    int64_t column; /* ... and from place to place */
    int64_t channels;
    float *out;
    int64_t step;
} ipu__patches;

/* A^T m A of products that lie as patches do, and the last steps. to[4 i ...] is where
 * the channels of the four results of patch i start, the first row's two before the
 * second's; -1: nowhere. The first one is somewhere. */
typedef struct ipu__quads {
    const float *products;
    int64_t step;
    int64_t count;
    int64_t channels;
    float *result;
    const int64_t *to;
    const ipu__conv_finish *finish;
} ipu__quads;

/* A dY A^T of the gradients of quads, whose places are as those of ipu__quads; -1: 0.
 * Element (r, c) of each goes to panels + (4 r + c) * step, [panel][patch][columns of a
 * panel]. */
typedef struct ipu__quad_gradients {
    const float *gradients;
    const int64_t *at;
    int64_t count;
    int64_t channels;
    float *panels;
    int64_t step;
} ipu__quad_gradients;

/* G^T m G of the sums of some runs, of one row of each of 16 matrices, which are `step`
 * apart; result[tap * tap_step + column]. */
typedef struct ipu__filter_sums {
    const float *totals;
    int64_t runs;
    int64_t run_step;
    int64_t step;
    int64_t columns;
    float *result;
    int64_t tap_step;
} ipu__filter_sums;

/* Tiles of one size. Any thread. */
typedef struct ipu__conv_tiles {
    const char *windows_name;  /* of kernels that copy bands of the source */
    const char *in_place_name; /* ... that read it in place */
    const char *winograd_name;
    const char *filter_name;
    const char *depthwise_name;
    const char *depthwise_filter_name;
    int64_t rows;
    int64_t columns; /* of a panel */
    void (*windows)(const ipu__windows *w);
    void (*filter)(const ipu__filter_block *f);
    void (*depthwise)(const ipu__depthwise *d);
    void (*depthwise_filter)(const ipu__depthwise_filter *d);
    /* G g G^T of filters [tap][rows][columns of a panel], 3 x 3 taps: 16 panels `step`
     * floats apart. */
    void (*winograd_filters)(const float *filters, int64_t rows, float *out,
                             int64_t step);
    void (*winograd_patches)(const ipu__patches *p);
    void (*winograd_quads)(const ipu__quads *q);
    void (*winograd_gradients)(const ipu__quad_gradients *q);
    void (*winograd_sums)(const ipu__filter_sums *s);
    /* `columns` columns, at most those of a panel, and k rows of the matrix at b as
     * [k][columns of a panel]; what is after the columns is 0. One of the strides is
     * 1. */
    void (*pack)(const float *b, int64_t b_row, int64_t b_col, int64_t columns,
                 int64_t k, float *out);
    /* `rows` floats of each of k pixels, which lie `step` apart, as [k][rows of a tile].
     * Writes up to 16 floats after the last pixel. */
    void (*strip)(const float *pixels, int64_t step, int64_t rows, int64_t k,
                  float *out);
    /* out[j][i] = in[i][j] for i < rows, j < columns */
    void (*turn)(int64_t rows, int64_t columns, const float *in, int64_t in_row,
                 float *out, int64_t out_row);
} ipu__conv_tiles;

#if defined(__x86_64__)
extern const ipu__conv_tiles ipu__conv_avx512;
extern const ipu__conv_tiles ipu__conv_avx2;
#endif
#if defined(__aarch64__)
extern const ipu__conv_tiles ipu__conv_neon;
#define ipu__conv_base ipu__conv_neon
#else
#define ipu__conv_base ipu__conv_plain
#endif
extern const ipu__conv_tiles ipu__conv_plain;
extern const ipu__conv_tiles ipu__conv_plain_halves;

#endif
