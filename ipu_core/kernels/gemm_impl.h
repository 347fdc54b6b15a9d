/* SPDX-License-Identifier: MIT
 *
 * Between gemm.c, which chooses and shares out the work, and gemm_avx2.c, which
 * multiplies tiles of 6 x 16. */
#ifndef IPU_KERNELS_GEMM_IMPL_H
#define IPU_KERNELS_GEMM_IMPL_H

#include "kernels/kernel_impl.h"

enum {
    IPU_TILE_ROWS = 6,
    IPU_PANEL = 16,
    IPU_CHUNK = 512,        /* of k: a panel of it fills the first-level cache */
    IPU_UPDATE_CHUNK = 1024 /* gradients that are not stored are not cut below that */
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
    const ipu__sgd *update; /* or NULL: the product is a gradient, not stored in c */
} ipu__product;

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
ipu__chunk_of(int64_t k, bool update)
{
    return update ? k : ipu__min(k, IPU_CHUNK);
}

/* What is done to the rows of a product when they are made. */
typedef struct ipu__finish {
    const ipu__vector_f32 *vector;
    const float *bias; /* or NULL */
    ipu_activation activation;
} ipu__finish;
/* `rows` rows of `columns` at c, which are columns [column, ...) of the product. */
void ipu__finish_rows(const ipu__finish *finish, const ipu__matmul *plan, float *c,
                      int64_t rows, int64_t columns, int64_t column);

/* --- sharing out (gemm_own.c) ---------------------------------------------------- */

typedef struct ipu__own_cut {
    int32_t rows;    /* tasks */
    int32_t columns; /* tasks for each of those */
    bool shared;     /* B is packed once, before */
} ipu__own_cut;

typedef struct ipu__own_call {
    const ipu__matmul *plan;
    ipu__own_cut cut;
    const float *a;
    const float *b;
    float *c;
    const ipu__sgd *update;
    const ipu__finish *finish;
} ipu__own_call;

bool ipu__own_serves(const ipu__matmul *plan, ipu_cpu_class cpu);
ipu__own_cut ipu__own_cut_of(const ipu__matmul *plan, bool update);
size_t ipu__own_workspace(const ipu__matmul *plan, const ipu__own_cut *cut,
                          bool update);
void ipu__own_run(const ipu__own_call *call, ipu_pool *pool, float *workspace);

/* --- tiles (gemm_avx2.c) --------------------------------------------------------- */

#if defined(__x86_64__)
/* Panels [first, last) of B into `panels`, at their places. */
void ipu__pack_panels(const ipu__product *p, float *panels, int64_t first,
                      int64_t last);
/* Row tiles [tile, tile_end) by panels [panel, panel_end). */
void ipu__multiply_tiles(const ipu__product *p, int64_t tile, int64_t tile_end,
                         int64_t panel, int64_t panel_end, float *scratch);
#endif

#endif
