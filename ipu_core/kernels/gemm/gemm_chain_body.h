/* SPDX-License-Identifier: MIT
 *
 * Tiles of one type, of ROWS rows by VECTORS vectors of LANES columns, for gemm_chain.c,
 * which defines TARGET (of functions), LANES, ROWS, NAME (of the kernel), DOT (a function
 * or NULL), FORM(name) (a name of this form's own), `element` and `vector`, load, store,
 * spread and multiply_add. */

/* Sums over k, from 0 or from what C holds. All but k and the places are constants where
 * this is inlined. */
IPU_INLINE TARGET void
FORM(tile)(int rows, int vectors, const tile_operands *t)
{
    vector sum[ROWS][VECTORS];
    const element *a = t->a;
    const element *b = t->b;
    element *c = t->c;
    const int64_t a_row = t->a_row;
    const int64_t a_col = t->a_col;
    const int64_t b_row = t->b_row;
#pragma GCC unroll MOST_ROWS
    for (int i = 0; i < rows; i++) {
#pragma GCC unroll VECTORS
        for (int part = 0; part < vectors; part++) {
            sum[i][part] =
                t->continued ? load(c + i * t->c_row + part * LANES) : spread(0);
        }
    }
    for (int i = 0; i < rows; i++) { /* the next tile, below this one */
        for (int part = 0; part < vectors; part++) {
            __builtin_prefetch(c + (rows + i) * t->c_row + part * LANES, 1);
        }
    }
    for (int64_t k = 0; k < t->k; k++, a += a_col, b += b_row) {
        vector y[VECTORS];
#pragma GCC unroll VECTORS
        for (int part = 0; part < vectors; part++) {
            y[part] = load(b + part * LANES);
        }
#pragma GCC unroll MOST_ROWS
        for (int i = 0; i < rows; i++) {
            vector x = spread(a[i * a_row]);
#pragma GCC unroll VECTORS
            for (int part = 0; part < vectors; part++) {
                sum[i][part] = multiply_add(x, y[part], sum[i][part]);
            }
        }
    }
#pragma GCC unroll MOST_ROWS
    for (int i = 0; i < rows; i++) {
#pragma GCC unroll VECTORS
        for (int part = 0; part < vectors; part++) {
            store(c + i * t->c_row + part * LANES, sum[i][part]);
        }
    }
}

#define TILE(rows, vectors) \
    TARGET static void FORM(tile_##rows##_##vectors)(const tile_operands *t) \
    { \
        FORM(tile)(rows, vectors, t); \
    }
#define WALK(rows) \
    TARGET static void FORM(walk_##rows)(const tile_operands *t, int64_t panels) \
    { \
        tile_operands at = *t; \
        for (int64_t i = 0; i < panels; i++) { \
            FORM(tile)(rows, VECTORS, &at); \
            at.b = (const element *)at.b + VECTORS * LANES; \
            at.c = (element *)at.c + VECTORS * LANES; \
        } \
    }
#define ROW_OF_TILES(rows) TILE(rows, 1) TILE(rows, 2) TILE(rows, 3) WALK(rows)
ROW_OF_TILES(1)
ROW_OF_TILES(2)
ROW_OF_TILES(3)
ROW_OF_TILES(4)
#if ROWS == 8
ROW_OF_TILES(5)
ROW_OF_TILES(6)
ROW_OF_TILES(7)
ROW_OF_TILES(8)
#endif
#define NAMES(rows) \
    { \
        FORM(tile_##rows##_1), FORM(tile_##rows##_2), FORM(tile_##rows##_3) \
    }

static const chain_form FORM(form) = {
    .name = NAME,
    .rows = ROWS,
    .lanes = LANES,
    .dot = DOT,
    .walks = {FORM(walk_1), FORM(walk_2), FORM(walk_3), FORM(walk_4),
#if ROWS == 8
              FORM(walk_5), FORM(walk_6), FORM(walk_7), FORM(walk_8)
#endif
    },
    .tiles = {NAMES(1), NAMES(2), NAMES(3), NAMES(4),
#if ROWS == 8
              NAMES(5), NAMES(6), NAMES(7), NAMES(8)
#endif
    },
};

#undef LANES
#undef ROWS
#undef NAME
#undef DOT
#undef FORM
#undef TILE
#undef ROW_OF_TILES
#undef WALK
#undef NAMES
#undef element
#undef vector
#undef load
#undef store
#undef spread
#undef multiply_add
