/* SPDX-License-Identifier: MIT
 *
 * Products by tiles of 6 x 16, see gemm_tiles.c. The lowest of the products' files:
 *
 *   gemm.c         which kernel serves a product; its call
 *   gemm_share.c   a product of our own, shared out to threads
 *   gemm_blis.c    a product by BLIS, shared out to threads
 *   gemm_finish.c  bias and activation of rows that are done
 *   gemm_tiles.c   tiles, packing
 *
 * A file includes what stands below it, never what stands above. */
#ifndef IPU_KERNELS_GEMM_TILES_IMPL_H
#define IPU_KERNELS_GEMM_TILES_IMPL_H

#include "kernels/kernel_impl.h"

enum {
    IPU_TILE_ROWS = 6,
    IPU_PANEL = 16,
    IPU_CHUNK = 512,         /* of k: a panel of it fills the first-level cache */
    IPU_AT_ONCE_CHUNK = 1024 /* sums that are not stored are not cut below that */
};

/* C[m,n] = A[m,k] B[k,n], C with rows of n. Each element is one chain of fused
 * multiply-adds from 0 in the order of k, however the product is cut. */
typedef struct ipu__product {
    int64_t m;
    int64_t n;
    int64_t k;
    const float *a;
    int64_t a_row;
    int64_t a_col;
    const float *b;
    int64_t b_row;
    int64_t b_col;
    const float *panels; /* all of B as [n / 16][k][16], or NULL: packed when used */
    float *c;
    /* or the sums are not stored, but at once */
    const float *accumulator; /* added to this matrix, into c */
    const ipu__sgd *update;   /* or gradients; c is NULL */
} ipu__product;

static inline bool
ipu__is_at_once(const ipu__product *p)
{
    return p->accumulator != NULL || p->update != NULL;
}

/* Where part `part` of `parts` even ones begins. A product has m / 6 row tiles, rounded
 * up, so that none has more than 6 rows. */
static inline int64_t
ipu__share_of(int64_t size, int64_t parts, int64_t part)
{
    return size * part / parts;
}

/* Whether tiles of A are packed: its columns lie contiguous (a_row is 1), its rows do
 * not. */
static inline bool
ipu__packs_a(int64_t k, int64_t a_col)
{
    return k > 1 && a_col != 1;
}

/* How much of k a task takes at a time. */
static inline int64_t
ipu__chunk_of(int64_t k, bool at_once)
{
    return at_once ? k : ipu__min(k, IPU_CHUNK);
}

/* For x86-64 with AVX2 alone. Panels [first, last) of B into `panels`, at their places.
 */
void ipu__pack_panels(const ipu__product *p, float *panels, int64_t first,
                      int64_t last);
/* Row tiles [tile, tile_end) by panels [panel, panel_end). */
void ipu__multiply_tiles(const ipu__product *p, int64_t tile, int64_t tile_end,
                         int64_t panel, int64_t panel_end, float *scratch);

#endif
