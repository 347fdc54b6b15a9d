/* SPDX-License-Identifier: MIT
 *
 * Products by tiles, see gemm_tiles_body.h. The lowest of the products' files:
 *
 *   gemm.c         which kernel serves a product; its call
 *   gemm_share.c   a product of our own, shared out to threads
 *   gemm_blis.c    a product by BLIS, shared out to threads
 *   gemm_chain.c   a product of float64 or of integers, by tiles of its own
 *   gemm_finish.c  bias and activation of rows that are done
 *   gemm_avx512.c, gemm_avx2.c, gemm_neon.c, gemm_plain.c, gemm_plain_halves.c
 *                  tiles and packing, by vectors of that kind (gemm_tiles_body.h,
 *                  gemm_narrow_body.h, gemm_dots_body.h, gemm_doubles_body.h)
 *
 * A file includes what stands below it, never what stands above. */
#ifndef IPU_KERNELS_GEMM_TILES_IMPL_H
#define IPU_KERNELS_GEMM_TILES_IMPL_H

#include "kernels/core/kernel_impl.h"
#include "kernels/core/sum_tree.h"

typedef struct ipu__tiles ipu__tiles;

/* Where the elements of A are that a tile multiplies. Packed, they lie as
 *
 *   IPU_A_STRIPS  [row tile][k][rows of a tile]
 *   IPU_A_COPIED  [row][k], rows an odd number of cache lines apart */
typedef enum ipu__a_form {
    IPU_A_ROWS,    /* in place: those of a row are neighbours */
    IPU_A_COLUMNS, /* in place: those of a column are */
    IPU_A_STRIPS,
    IPU_A_COPIED,
    IPU_A_LANES, /* as IPU_A_COLUMNS: lanes are rows, for at most IPU_NARROW columns whose
                    sums are stored */
    IPU_A_DOTS   /* as IPU_A_ROWS, for one column whose elements are neighbours */
} ipu__a_form;

enum {
    IPU_NARROW = 4,
    IPU_SMALL_K = 64 /* less of a narrow panel is read where it lies */
};

/* The operations of a file's vectors, a row each, by instructions of its TARGET. */
#define VECTOR_OP(type, name, parameters, value) \
    IPU_INLINE TARGET type name parameters \
    { \
        return value; \
    }
#define VECTOR_STORE(name, parameters, statement) \
    IPU_INLINE TARGET void name parameters \
    { \
        statement; \
    }

/* C[m,n] = A[m,k] B[k,n]. Each element is a tree of chains of fused multiply-adds in the
 * order of k (sum_tree.h), of which short ones are one chain: tiles, chunks and parts of
 * any size give the same bits. */
typedef struct ipu__product {
    int64_t m;
    int64_t n;
    int64_t k;
    bool halves; /* a and b are float16: A is packed, and B, on the way to float32, but
                    for lanes and dots */
    const void *a;
    int64_t a_row;
    int64_t a_col;
    const void *b;
    int64_t b_row;
    int64_t b_col;
    const float *panels; /* all of B as [panel][k][columns of a panel]; or NULL */
    /* Where a weight lies in panels (kernel.h); else 0: */
    int64_t a_segment; /* k that are neighbours in a row of A; more are m rows on */
    int64_t b_segment; /* the same in a column of B; more are n columns on */
    int64_t c_panel;   /* columns that are neighbours in a row of C, as with an update
                          or accumulator */
    float *c;
    int64_t c_row;   /* floats from row to row */
    bool transposed; /* C is stored as [n][m], c_row from column to column */
    /* or the sums are not stored, but at once */
    const float *accumulator; /* added to this matrix, into c */
    const ipu__sgd *update;   /* or gradients; c is NULL; as with an accumulator, k is
                                 one block */
    bool continued; /* sums that are stored start from what C holds, not from 0; k is one
                       block */
    /* The last steps of sums that are stored by rows: */
    const float *bias; /* of columns; or NULL */
    bool relu;
    ipu__a_form a_form;
    int64_t chunk; /* of k, at a time: all of it for sums that are stored transposed;
                      where there are several blocks of the tree, a divisor of one */
    int64_t packed_k; /* of A, at a time: a chunk, or all of it for sums that are not
                         stored */
    int64_t block;    /* row tiles at a time */
} ipu__product;

/* Tiles of one size. `multiply` makes rows [row, row_end) of columns [column,
 * column_end) of C, where the sums begin a panel at `column`; any thread. */
struct ipu__tiles {
    const char *name;
    int64_t rows;
    int64_t columns;       /* of a panel */
    int64_t first_level_k; /* 0: A is packed only where its place in memory asks for it */
    void (*multiply)(const ipu__product *p, int64_t row, int64_t row_end,
                     int64_t column, int64_t column_end, float *scratch);
    /* Small products one after another, of one panel that is read where it lies; the
     * matrices A, B and C are `apart` floats apart. */
    void (*multiply_each)(const ipu__product *p, int64_t count, const int64_t apart[3]);
    /* Panels [first, last) of B into `panels`, at their places. */
    void (*pack)(const ipu__product *p, float *panels, int64_t first, int64_t last);
};

#if defined(__x86_64__)
extern const ipu__tiles ipu__tiles_avx512;
extern const ipu__tiles ipu__tiles_avx2;
#endif
#if defined(__aarch64__)
extern const ipu__tiles ipu__tiles_neon;
#define ipu__tiles_base ipu__tiles_neon
#else
#define ipu__tiles_base ipu__tiles_plain
#endif
extern const ipu__tiles ipu__tiles_plain;
extern const ipu__tiles ipu__tiles_plain_halves;

/* How a product of rows by panels is made that are packed before: its m and k are set. */
static inline void
ipu__product_by_rows(ipu__product *p, const ipu__tiles *tiles)
{
    p->a_col = 1;
    p->a_form = IPU_A_ROWS;
    p->chunk = ipu__min(p->k, IPU_SUM_BLOCK);
    p->packed_k = p->chunk;
    p->block = ipu__ceil_div(p->m, tiles->rows);
}

static inline bool
ipu__is_at_once(const ipu__product *p)
{
    return p->accumulator != NULL || p->update != NULL;
}

/* Floats from row to row of IPU_A_COPIED. */
static inline int64_t
ipu__copied_row(int64_t k)
{
    return ((k + 15) / 16 | 1) * 16;
}

/* Floats from tile to tile of IPU_A_STRIPS: an odd number of cache lines, with room for
 * a vector after the last row. */
static inline int64_t
ipu__strip_floats(int64_t rows, int64_t k)
{
    return ((rows * k + 31) / 16 | 1) * 16;
}

/* Floats of the tiles of a block that are stored transposed, or go on from chunk to
 * chunk. */
static inline int64_t
ipu__stored_floats(const ipu__product *p, int64_t rows, int64_t columns)
{
    return (p->transposed || p->chunk < p->packed_k ? p->block : 1) * rows * columns;
}

/* Levels of the sums' tree whose totals lie in C: the lowest one, where that is not for
 * chains that go on from chunk to chunk. */
static inline int32_t
ipu__levels_in_c(const ipu__product *p)
{
    return p->chunk < IPU_SUM_BLOCK ? 0 : 1;
}

/* How many others there are: in scratch, for a block of row tiles and so many columns at
 * a time. */
static inline int64_t
ipu__totals_levels(const ipu__product *p)
{
    return ipu__max(ipu__sum_levels(ipu__sum_blocks(p->k)) - ipu__levels_in_c(p), 0);
}

static inline int64_t
ipu__totals_columns(const ipu__product *p, int64_t columns)
{
    enum { MOST_COLUMNS = 512 };
    return ipu__min(ipu__ceil_div(p->n, columns), MOST_COLUMNS / columns) * columns;
}

static inline int64_t
ipu__totals_floats(const ipu__product *p, int64_t rows, int64_t columns)
{
    return ipu__totals_levels(p) * p->block * rows * ipu__totals_columns(p, columns);
}

/* Floats of scratch that `multiply` needs: a panel, tiles, totals, a block of packed
 * A. */
static inline int64_t
ipu__tiles_scratch(const ipu__tiles *tiles, const ipu__product *p)
{
    int64_t packed = 0;
    if (p->a_form == IPU_A_STRIPS) {
        packed = p->block * ipu__strip_floats(tiles->rows, p->packed_k);
    } else if (p->a_form == IPU_A_COPIED) {
        packed = p->block * tiles->rows * ipu__copied_row(p->packed_k);
    }
    int64_t stored = ipu__stored_floats(p, tiles->rows, tiles->columns) +
                     ipu__totals_floats(p, tiles->rows, tiles->columns);
    return ipu__ceil_div(packed + tiles->columns * p->chunk + stored, 16) * 16;
}

#endif
