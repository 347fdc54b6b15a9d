/* SPDX-License-Identifier: MIT
 *
 * Products of a few columns where the rows of A are neighbours in memory, by the vectors
 * that gemm_tiles_body.h is made of and in the middle of it. Lanes are rows, since
 * columns would fill no vector: at each k a vector of rows meets one element of B for
 * each column. Vectors may reach past the last row: operands have slack there. */

enum {
    MOST_VECTORS = 16,
    MOST_OF_HALVES = LANES < 16 ? 8 : 16, /* those are widened in registers */
    SIZES = 3
};

/* Rows [row, row + count) of C. */
typedef struct narrow_block {
    const ipu__product *p;
    int64_t row;
    int64_t count;
    int64_t column;
} narrow_block;

static void
store_narrow(const narrow_block *n, int64_t lanes, int columns, const float *sums)
{
    const ipu__product *p = n->p;
    float *c = p->c;
    for (int j = 0; j < columns; j++, sums += lanes) {
        int64_t column = n->column + j;
        if (p->transposed) {
            memcpy(c + column * p->c_row + n->row, sums,
                   (size_t)n->count * sizeof *sums);
            continue;
        }
        for (int64_t i = 0; i < n->count; i++) {
            c[(n->row + i) * p->c_row + column] = sums[i];
        }
    }
}

OF_EACH_TILE TARGET void
narrow_tile(int vectors, int columns, bool halves, const narrow_block *n)
{
    const ipu__product *p = n->p;
    vector sum[IPU_NARROW][MOST_VECTORS];
    float totals[IPU_SUM_LEVELS][MOST_VECTORS * LANES]; /* of all columns */
    const int64_t blocks = ipu__sum_blocks(p->k);
    int64_t a = n->row;
    int64_t b = n->column * p->b_col;
    for (int64_t block = 0; block < blocks; block++) {
        const ipu__sum_step step = ipu__sum_step_of(block, block == blocks - 1);
        const int64_t end = ipu__min(p->k, (block + 1) * IPU_SUM_BLOCK);
#pragma GCC unroll ALL
        for (int j = 0; j < columns; j++) {
            EACH(i, vectors, sum[j][i] = zero())
        }
        for (int64_t k = block * IPU_SUM_BLOCK; k < end;
             k++, a += p->a_col, b += p->b_row) {
            vector x[MOST_VECTORS];
            EACH(i, vectors, x[i] = load_at(p->a, a + i * LANES, halves))
#pragma GCC unroll ALL
            for (int j = 0; j < columns; j++) {
                vector y = spread_at(p->b, b + j * p->b_col, halves);
                EACH(i, vectors, sum[j][i] = multiply_add(x[i], y, sum[j][i]))
            }
        }
#pragma GCC unroll ALL
        for (int j = 0; j < columns; j++) {
            EACH(i, vectors, {
                const int at = (j * vectors + i) * LANES;
                for (int level = 0; step.adds >> level != 0; level++) {
                    if ((step.adds >> level & 1) != 0) {
                        sum[j][i] = load(totals[level] + at) + sum[j][i];
                    }
                }
                store(totals[step.level] + at, sum[j][i]);
            })
        }
    }
    store_narrow(n, vectors * LANES, columns, totals[0]);
}

typedef void narrow_fn(const narrow_block *n);

/* As many vectors as give eight chains, of one column as bring 1 KiB of a row; and less
 * for the rows that are left. */
#define NARROW_FORM(form, vectors, columns, halves) \
    TARGET static void narrow_##form##_##columns(const narrow_block *n) \
    { \
        narrow_tile(vectors, columns, halves, n); \
    }
#define NARROW(columns, less, most, most_of_halves) \
    NARROW_FORM(one, 1, columns, false) \
    NARROW_FORM(some, less, columns, false) \
    NARROW_FORM(many, most, columns, false) \
    NARROW_FORM(one_half, 1, columns, true) \
    NARROW_FORM(some_halves, less, columns, true) \
    NARROW_FORM(many_halves, most_of_halves, columns, true)
#define NARROW_FORMS(columns) \
    {{narrow_one_##columns, narrow_some_##columns, narrow_many_##columns}, \
     {narrow_one_half_##columns, narrow_some_halves_##columns, \
      narrow_many_halves_##columns}}
NARROW(1, 4, MOST_VECTORS, MOST_OF_HALVES)
NARROW(2, 2, 4, 4)
NARROW(3, 2, 4, 4)
NARROW(4, 1, 2, 2)

static void
multiply_narrow(const ipu__product *p, int64_t row, int64_t row_end, int64_t column,
                int64_t column_end)
{
    /* by columns, float16, number of vectors */
    static narrow_fn *const forms[][2][SIZES] = {NARROW_FORMS(1), NARROW_FORMS(2),
                                                 NARROW_FORMS(3), NARROW_FORMS(4)};
    static const int8_t vectors[][2][SIZES] = {
        {{1, 4, MOST_VECTORS}, {1, 4, MOST_OF_HALVES}},
        {{1, 2, 4}, {1, 2, 4}},
        {{1, 2, 4}, {1, 2, 4}},
        {{1, 1, 2}, {1, 1, 2}},
    };
    int64_t last = column_end - column - 1;
    narrow_block n = {.p = p, .row = row, .column = column};
    for (; n.row < row_end; n.row += n.count) {
        const int8_t *sizes = vectors[last][p->halves];
        int size = SIZES - 1;
        while (size > 0 && row_end - n.row < sizes[size] * LANES) {
            size--;
        }
        n.count = ipu__min(row_end - n.row, sizes[size] * LANES);
        forms[last][p->halves][size](&n);
    }
}
