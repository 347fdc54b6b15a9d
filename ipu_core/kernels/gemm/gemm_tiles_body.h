/* SPDX-License-Identifier: MIT
 *
 * Tiles of ROWS rows by VECTORS vectors of LANES columns, whose sums stay in registers.
 * One source for all instruction sets: the file that includes it says what a vector is,
 *
 *   TARGET                       the attribute of functions that use it
 *   vector, edge                 a vector; which of its first lanes count
 *   edge_of(lanes)               1 to LANES of them
 *   load, store, spread          of LANES floats; one float in all lanes
 *   load_edge, store_edge        touch no float past the edge; the rest is 0
 *   load_halves, spread_half     the same of float16, widened
 *   zero, multiply_add(x, y, s)  x * y + s, rounded once
 *   relu(x)                      0 where x is less, else x; so NaN and -0 stay
 *   where_positive(y, x)         x where y is above 0, else 0
 *   transpose(in, in_row, out, out_row)
 *                                BLOCK x BLOCK floats
 *   load_turned(halves, matrix, at, step, out)
 *                                TURNED elements of a matrix of float32 or float16 for
 *                                each lane, from `at` on, `step` from lane to lane, as so
 *                                many vectors; or TURNED_LANE_BY_LANE
 *   UNROLL                       how many k are multiplied in a turn of the loop
 *   FIRST_LEVEL_K                how many k of a panel and a strip the first-level
 *                                cache is to hold, where A is packed; 0: not measured
 *   TILES, NAME                  the table that is defined, what kernels are called
 *
 * and then its form cannot be told from the bits: each element of C is a tree of chains
 * of multiply-adds in the order of k (sum_tree.h).
 *
 * B is read from panels of VECTORS * LANES columns, [k][columns]. The first row tile of
 * a block reads B from its own rows and leaves the panel behind for the others. Long
 * sums are cut into chunks whose panels stay in the cache. A chain goes on from what is
 * in C, or from a scratch tile where C gets no sums: a float32 that is stored and
 * loaded is the same number. Where a chain ends, the totals of the tree's levels are
 * added to it. Any thread; the caller gives the scratch. */
#include "kernels/gemm/gemm_tiles_impl.h"

/* One function for each form of a tile, unrolled, so that its sums are registers; but
 * for sanitizers, whose checks would be minutes of compilation in each of them, one for
 * all. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define OF_EACH_TILE static __attribute__((noinline))
enum { ALL = 1, SOME = 1 };
#else
#define OF_EACH_TILE IPU_INLINE
enum { ALL = 16, SOME = UNROLL };
#endif

/* Where doubles make the chains, what else tiles do need not be in registers: one
 * function for all, in which loops stay loops. */
#ifdef BY_DOUBLES
#ifdef __clang__ /* makes no clones, and does not know the word */
#define OF_EACH_CHAIN_TILE static __attribute__((noinline))
#else
#define OF_EACH_CHAIN_TILE static __attribute__((noinline, noclone))
#endif
#define LOOPS enum { ALL = 1, SOME = 1 };
#else
#define OF_EACH_CHAIN_TILE OF_EACH_TILE
#define LOOPS
#endif

_Static_assert(FIRST_LEVEL_K == 0 || IPU_SUM_BLOCK % FIRST_LEVEL_K == 0,
               "chunks end where blocks do");

enum {
    PANEL = VECTORS * LANES,
    POINTERS = (ROWS + 2) / 3,
    ROWS_AHEAD = 8,     /* of what is packed */
    FETCHED_K = 256,    /* of a tile's rows of A: more would wait for each other */
    LEAST_FETCHED = 16, /* floats from row to row: less are read like a stream */
    WIDENED = 64        /* k of float16 at a time, on the way to a transposition */
};

/* A statement for each i < count, or for each vector sum[i][part] of a tile, unrolled. */
#define EACH(i, count, ...) \
    _Pragma("GCC unroll ALL") for (int i = 0; i < (count); i++) \
    { \
        __VA_ARGS__; \
    }
#define EACH_VECTOR(...) \
    _Pragma("GCC unroll ALL") for (int i = 0; i < rows; i++) \
    { \
        EACH(part, vectors, __VA_ARGS__) \
    }

/* How a tile reads A. */
enum {
    ROWS_OF_A,
    COLUMNS,
    SEGMENTS, /* of rows: a weight in panels, from panel to panel */
    READINGS
};

/* Where a tile's operands are. */
typedef struct tile_source {
    const float *a;
    int64_t a_step;  /* floats from row to row, or from k to k where columns are read */
    int64_t segment; /* k that are neighbours in a row */
    int64_t a_jump;  /* from there to the same row of the next ones */
    const float *b;
    int64_t b_row;
    float *panel; /* where B is packed on the way */
} tile_source;

/* Where a tile's sums start and end. */
typedef struct tile_place {
    const float *start; /* go on from these; or NULL */
    int64_t start_row;
    struct {
        const float *at;
        int64_t row;
    } totals[IPU_SUM_LEVELS]; /* are added to the chains, one after another */
    int32_t total_count;
    float *c;
    int64_t row;              /* floats from row to row */
    edge last;                /* of the last vector */
    const float *accumulator; /* or NULL: where c holds this and the sums */
    const ipu__sgd *update;   /* or: these are gradients of the elements at `offset` */
    int64_t offset;
    const float *bias; /* of the columns; or NULL */
    bool relu;
} tile_place;

#ifdef BY_DOUBLES
#include "kernels/gemm/gemm_doubles_body.h"
#else
#define tile_by_doubles(...) false
#endif

IPU_INLINE TARGET vector
take(bool cut, edge last, const float *from)
{
    return cut ? load_edge(from, last) : load(from);
}

IPU_INLINE TARGET void
put(bool cut, edge last, float *to, vector x)
{
    if (cut) {
        store_edge(to, last, x);
    } else {
        store(to, x);
    }
}

/* One step of SGD on a tile of gradients, rounded as update_fast.c rounds. */
OF_EACH_TILE TARGET void
update_tile(int rows, int vectors, bool whole, bool momentum, bool nesterov,
            const tile_place *place, vector sum[ROWS][VECTORS])
{
    const ipu__sgd *update = place->update;
    const edge last = place->last;
    float *w = update->variable + place->offset;
    float *v = momentum ? update->velocity + place->offset : NULL;
    const vector rate = spread(&update->rate);
    const vector keep = spread(&update->momentum);
#pragma GCC unroll ALL
    for (int i = 0; i < rows; i++) {
#pragma GCC unroll ALL
        for (int part = 0; part < vectors; part++) {
            bool cut = !whole && part == vectors - 1;
            int64_t j = i * place->row + part * LANES;
            vector move = rate * sum[i][part];
            vector old = take(cut, last, w + j);
            if (!momentum) {
                put(cut, last, w + j, old - move);
                continue;
            }
            vector velocity = keep * take(cut, last, v + j) - move;
            put(cut, last, v + j, velocity);
            if (nesterov) {
                velocity = keep * velocity - move;
            }
            put(cut, last, w + j, old + velocity);
        }
    }
}

/* Rows a multiple of a page apart are what the processor does not fetch ahead: asks for
 * what an update will read while the sums are made. */
IPU_INLINE void
fetch_ahead(int rows, const tile_place *place)
{
    const ipu__sgd *update = place->update;
    if (update == NULL || place->row * (int64_t)sizeof(float) % IPU_PAGE_BYTES != 0) {
        return;
    }
    for (int i = 0; i < rows; i++) {
        for (int j = 0; j < PANEL; j += 16) {
            int64_t at = place->offset + i * place->row + j;
            __builtin_prefetch(update->variable + at, 1, 2);
            if (update->velocity != NULL) {
                __builtin_prefetch(update->velocity + at, 1, 2);
            }
        }
    }
}

/* Adds the totals of the tree to chains that have ended. */
OF_EACH_TILE TARGET void
add_totals(int rows, int vectors, bool whole, const tile_place *place,
           vector sum[ROWS][VECTORS])
{
    for (int32_t level = 0; level < place->total_count; level++) {
        const float *total = place->totals[level].at;
        const int64_t row = place->totals[level].row;
        EACH_VECTOR({
            bool cut = !whole && part == vectors - 1;
            vector x = take(cut, place->last, total + i * row + part * LANES);
            sum[i][part] = x + sum[i][part];
        })
    }
}

/* Bias and activation, while the sums are in registers. */
OF_EACH_TILE TARGET void
finish_sums(int rows, int vectors, bool whole, const tile_place *place,
            vector sum[ROWS][VECTORS])
{
    if (place->bias != NULL) {
#pragma GCC unroll ALL
        for (int part = 0; part < vectors; part++) {
            bool cut = !whole && part == vectors - 1;
            vector bias = take(cut, place->last, place->bias + part * LANES);
            EACH(i, rows, sum[i][part] = sum[i][part] + bias)
        }
    }
    if (place->relu) {
        EACH_VECTOR(sum[i][part] = relu(sum[i][part]))
    }
}

/* All but k, `from` and `place` are constants where this is inlined. The empty asm
 * keeps gcc from making a pointer of its own for each row, which would not fit the
 * registers: three rows share one. */
OF_EACH_CHAIN_TILE TARGET void
tile(int rows, int vectors, bool whole, int reads, bool packs, int64_t k,
     const tile_source *from, const tile_place *place)
{
    LOOPS
    const bool columns = reads == COLUMNS;
    const edge last = place->last;
    const float *b = from->b;
    const int64_t a_step = from->a_step;
    const int64_t b_row = from->b_row;
    float *panel = from->panel;
    vector sum[ROWS][VECTORS];
    const int pointers = columns ? 1 : (rows + 2) / 3;
    const float *a[POINTERS];
    EACH(i, pointers, a[i] = from->a + 3 * i * a_step)
    EACH_VECTOR({
        bool cut = !whole && part == vectors - 1;
        const float *start = place->start + i * place->start_row + part * LANES;
        sum[i][part] = place->start != NULL ? take(cut, last, start) : zero();
    })
    fetch_ahead(rows, place);
    int64_t done = 0;
    if (tile_by_doubles(rows, vectors, reads, packs, k, from, sum)) {
        done = k;
    }
    do {
        const bool rest = reads != SEGMENTS || k - done < from->segment;
        const int64_t end = rest ? k : done + from->segment;
#pragma GCC unroll SOME
        for (; done < end; done++) {
            vector y[VECTORS];
            EACH(part, vectors, {
                y[part] = load(b + part * LANES);
                if (packs) {
                    store(panel + part * LANES, y[part]);
                }
            })
            if (packs) { /* rows far apart are not fetched ahead by themselves */
                __builtin_prefetch(b + ROWS_AHEAD * b_row);
            }
            b += b_row;
            panel += packs ? PANEL : 0;
#pragma GCC unroll ALL
            for (int i = 0; i < rows; i++) {
                vector x = spread(columns ? a[0] + i : a[i / 3] + i % 3 * a_step);
                EACH(part, vectors,
                     sum[i][part] = multiply_add(x, y[part], sum[i][part]))
            }
            EACH(i, pointers, {
                a[i] += columns ? a_step : 1;
                __asm__("" : "+r"(a[i]));
            })
            __asm__("" : "+r"(b));
        }
        EACH(i, pointers, a[i] += reads == SEGMENTS ? from->a_jump : 0)
    } while (reads == SEGMENTS && done < k);
    add_totals(rows, vectors, whole, place, sum);
    const ipu__sgd *update = place->update;
    if (update == NULL) {
        const float *old = place->accumulator;
        finish_sums(rows, vectors, whole, place, sum);
        EACH_VECTOR({
            bool cut = !whole && part == vectors - 1;
            int64_t at = i * place->row + part * LANES;
            vector x = sum[i][part];
            if (old != NULL) {
                x = take(cut, last, old + at) + x;
            }
            put(cut, last, place->c + at, x);
        })
    } else if (update->velocity == NULL) {
        update_tile(rows, vectors, whole, false, false, place, sum);
    } else if (update->nesterov) {
        update_tile(rows, vectors, whole, true, true, place, sum);
    } else {
        update_tile(rows, vectors, whole, true, false, place, sum);
    }
}

typedef void tile_fn(int64_t k, const tile_source *from, const tile_place *place);

/* A tile's form: how A is read, whether B is packed on the way, and how many vectors
 * there are, the last of them cut by the edge of C. */
enum { WHOLE, PACKS, EDGE, FORMS = EDGE + VECTORS };

#define TILE(rows, name, vectors, whole, columns, packs) \
    TARGET static void name##_##rows(int64_t k, const tile_source *from, \
                                     const tile_place *place) \
    { \
        tile(rows, vectors, whole, columns, packs, k, from, place); \
    }
#if VECTORS > 2
#define TILE_3(rows, name, columns) TILE(rows, name##_edge_3, 3, false, columns, false)
#define EDGE_3(rows, name) , name##_edge_3_##rows
#else
#define TILE_3(rows, name, columns)
#define EDGE_3(rows, name)
#endif
#define TILES_OF(rows, name, columns) \
    TILE(rows, name##_whole, VECTORS, true, columns, false) \
    TILE(rows, name##_packs, VECTORS, true, columns, true) \
    TILE(rows, name##_edge_1, 1, false, columns, false) \
    TILE(rows, name##_edge_2, 2, false, columns, false) \
    TILE_3(rows, name, columns)
#define ROW(rows, name, columns) \
    [rows] = {name##_whole_##rows, name##_packs_##rows, name##_edge_1_##rows, \
              name##_edge_2_##rows EDGE_3(rows, name)},

#define UP_TO_6(X, name, columns) \
    X(1, name, columns) \
    X(2, name, columns) \
    X(3, name, columns) X(4, name, columns) X(5, name, columns) X(6, name, columns)
#if ROWS == 4
#define ALL_ROWS(X, name, columns) \
    X(1, name, columns) X(2, name, columns) X(3, name, columns) X(4, name, columns)
#elif ROWS == 6
#define ALL_ROWS UP_TO_6
#elif ROWS == 8
#define ALL_ROWS(X, name, columns) \
    UP_TO_6(X, name, columns) X(7, name, columns) X(8, name, columns)
#elif ROWS == 12
#define ALL_ROWS(X, name, columns) \
    UP_TO_6(X, name, columns) \
    X(7, name, columns) \
    X(8, name, columns) \
    X(9, name, columns) X(10, name, columns) X(11, name, columns) X(12, name, columns)
#endif
ALL_ROWS(TILES_OF, rows, ROWS_OF_A)
ALL_ROWS(TILES_OF, columns, COLUMNS)
ALL_ROWS(TILES_OF, segments, SEGMENTS)

static tile_fn *const tiles_of[READINGS][ROWS + 1][FORMS] = {
    {ALL_ROWS(ROW, rows, 0)},
    {ALL_ROWS(ROW, columns, 0)},
    {ALL_ROWS(ROW, segments, 0)},
};

/* --- packing --------------------------------------------------------------------- */

/* out[j][i] = in[i][j] for i < rows, j < columns. */
TARGET static void
turn(int64_t rows, int64_t columns, const float *in, int64_t in_row, float *out,
     int64_t out_row)
{
    int64_t i = 0;
    for (; i + BLOCK <= rows; i += BLOCK) {
        int64_t j = 0;
        for (; j + BLOCK <= columns; j += BLOCK) {
            transpose(in + i * in_row + j, in_row, out + j * out_row + i, out_row);
        }
        for (; j < columns; j++) {
            for (int64_t l = i; l < i + BLOCK; l++) {
                out[j * out_row + l] = in[l * in_row + j];
            }
        }
    }
    for (; i < rows; i++) {
        for (int64_t j = 0; j < columns; j++) {
            out[j * out_row + i] = in[i * in_row + j];
        }
    }
}

/* n floats of halves. Reads and writes whole vectors: operands have slack after them,
 * and what is packed has room. */
IPU_INLINE TARGET void
widen(int64_t n, const uint16_t *halves, float *out)
{
    for (int64_t i = 0; i < n; i += LANES) {
        store(out + i, load_halves(halves + i));
    }
}

/* k rows of a panel from float16. Elements past the columns are not used. */
TARGET static void
pack_half_panel(const ipu__product *p, int64_t columns, const uint16_t *b, int64_t k,
                float *out)
{
    if (p->b_col == 1) {
        for (int64_t j = 0; j < k; j++) {
            if (columns == PANEL) {
                widen(PANEL, b + j * p->b_row, out + j * PANEL);
            } else {
                widen(columns, b + j * p->b_row, out + j * PANEL);
            }
        }
        return;
    }
    float wide[PANEL * WIDENED];
    for (int64_t j = 0; j < k; j += WIDENED) {
        int64_t n = ipu__min(k - j, WIDENED);
        for (int64_t i = 0; i < columns; i++) {
            widen(n, b + i * p->b_col + j, wide + i * WIDENED);
        }
        turn(columns, n, wide, WIDENED, out + j * PANEL, PANEL);
    }
}

/* Where row k of B starts. */
static int64_t
row_of_b(const ipu__product *p, int64_t k)
{
    const int64_t segment = p->b_segment;
    return segment > 0 ? k / segment * segment * p->n + k % segment : k * p->b_row;
}

/* Rows [k0, k0 + k) of the panel of `columns` columns from b; columns past the edge are
 * 0. */
TARGET static void
pack_panel(const ipu__product *p, int64_t columns, const float *b, int64_t k0,
           int64_t k, float *out)
{
    if (p->b_col == 1) {
        const edge last = edge_of((columns - 1) % LANES + 1);
        int64_t vectors = (columns + LANES - 1) / LANES;
        b += k0 * p->b_row;
        for (int64_t j = 0; j < k; j++) {
            for (int64_t part = 0; part < VECTORS; part++) {
                const float *at = b + j * p->b_row + part * LANES;
                vector x = part + 1 < vectors    ? load(at)
                           : part + 1 == vectors ? load_edge(at, last)
                                                 : zero();
                store(out + j * PANEL + part * LANES, x);
            }
        }
        return;
    }
    const int64_t segment = p->b_segment > 0 ? p->b_segment : k0 + k;
    for (int64_t j = 0, count; j < k; j += count) {
        count = ipu__min(k - j, segment - (k0 + j) % segment);
        turn(columns, count, b + row_of_b(p, k0 + j), p->b_col, out + j * PANEL, PANEL);
    }
    for (int64_t j = 0; columns < PANEL && j < k; j++) {
        for (int64_t i = columns; i < PANEL; i++) {
            out[j * PANEL + i] = 0.0f;
        }
    }
}

static void
pack_panels(const ipu__product *p, float *panels, int64_t first, int64_t last)
{
    for (int64_t i = first; i < last; i++) {
        int64_t column = i * PANEL;
        const float *b = p->b;
        pack_panel(p, ipu__min(p->n - column, PANEL), b + column * p->b_col, 0, p->k,
                   panels + column * p->k);
    }
}

/* `rows` rows of A, k of its columns, from a, as [k][ROWS]. Whole vectors are moved for
 * each k: what is too much is overwritten by the next one, and after the last one
 * there is room. */
TARGET static void
pack_strip(const ipu__product *p, int64_t rows, const float *a, int64_t k, float *out)
{
    const edge last = edge_of((rows - 1) % LANES + 1);
    for (int64_t j = 0; j < k; j++) {
        const float *at = a + j * p->a_col;
        int64_t i = 0;
        for (; i + LANES < rows; i += LANES) {
            store(out + j * ROWS + i, load(at + i));
        }
        store(out + j * ROWS + i, load_edge(at + i, last));
    }
}

/* Of element `at` on of a matrix of float32 or float16. */
IPU_INLINE TARGET vector
load_at(const void *matrix, int64_t at, bool halves)
{
    return halves ? load_halves((const uint16_t *)matrix + at)
                  : load((const float *)matrix + at);
}

IPU_INLINE TARGET vector
spread_at(const void *matrix, int64_t at, bool halves)
{
    return halves ? spread_half((const uint16_t *)matrix + at)
                  : spread((const float *)matrix + at);
}

#ifdef TURNED_LANE_BY_LANE
IPU_INLINE void
load_turned(bool halves, const void *matrix, int64_t at, int64_t step,
            vector out[TURNED])
{
    for (int64_t j = 0; j < TURNED; j++) {
        vector x = zero();
        for (int64_t i = 0; i < LANES; i++) {
            int64_t from = at + i * step + j;
            x[i] = halves ? ipu_float16_to_float(((const uint16_t *)matrix)[from])
                          : ((const float *)matrix)[from];
        }
        out[j] = x;
    }
}
#endif

#include "kernels/gemm/gemm_dots_body.h"
#include "kernels/gemm/gemm_narrow_body.h"

/* --- a range of C ---------------------------------------------------------------- */

/* A block of row tiles, over k of the sum from k0. */
typedef struct tile_block {
    const ipu__product *p;
    int64_t row;
    int64_t rows;
    int64_t tiles;
    int64_t least; /* rows of a tile; so many of the tiles have one more: */
    int64_t more;
    int64_t first_column; /* of all */
    int64_t k0;
    int64_t k;
    int64_t packed_k0; /* what of A is packed */
    int64_t packed_k;
    float *packed;
    float *panel;
    float *stored; /* tiles before they are transposed, or whose chains go on */
    float *totals; /* of levels that do not lie in C */
} tile_block;

/* Rows of the next tile of a block; `rest` starts at 0. The tiles' shares are as equal
 * as they can be, without a division for each. */
IPU_INLINE int64_t
next_rows(const tile_block *t, int64_t *rest)
{
    *rest += t->more;
    bool has_more = *rest >= t->tiles;
    *rest -= has_more ? t->tiles : 0;
    return t->least + has_more;
}

/* Row by row of A^T, in the order of memory, and asks for rows further on. Whole
 * vectors are moved: what is too much is overwritten by the next row, and after the
 * last one there is room. Operands have slack. */
IPU_INLINE TARGET void
pack_strips(const tile_block *t, int64_t at, bool halves)
{
    const ipu__product *p = t->p;
    const int64_t strip = ipu__strip_floats(ROWS, p->packed_k);
    const int64_t ahead = ROWS_AHEAD * p->a_col;
    for (int64_t j = 0; j < t->packed_k; j++, at += p->a_col) {
        float *out = t->packed + j * ROWS;
        int64_t from = at;
        int64_t rest = 0;
        for (int64_t i = 0; i < t->tiles; i++, out += strip) {
            for (int64_t l = 0; l < ROWS; l += LANES) {
                store(out + l, load_at(p->a, from + l, halves));
            }
            __builtin_prefetch(ipu__at(p->a, (from + ahead) * (halves ? 2 : 4)));
            from += next_rows(t, &rest);
        }
    }
}

TARGET static void
pack_a(const tile_block *t)
{
    const ipu__product *p = t->p;
    int64_t at = t->row * p->a_row + t->packed_k0 * p->a_col;
    int64_t step = ipu__copied_row(p->packed_k);
    if (p->a_form == IPU_A_STRIPS) {
        if (p->halves) {
            pack_strips(t, at, true);
        } else {
            pack_strips(t, at, false);
        }
    } else if (p->a_form == IPU_A_COPIED) {
        for (int64_t i = 0; i < t->rows; i++, at += p->a_row) {
            float *out = t->packed + i * step;
            if (p->halves) {
                widen(t->packed_k, (const uint16_t *)p->a + at, out);
            } else {
                memcpy(out, (const float *)p->a + at,
                       (size_t)t->packed_k * sizeof(float));
            }
        }
    }
}

/* Where row tile `tile`, from the block's row `row` on, finds its rows of A. */
static void
set_source(const tile_block *t, int64_t tile, int64_t row, tile_source *from)
{
    const ipu__product *p = t->p;
    const float *a = p->a;
    int64_t at = (t->row + row) * p->a_row + t->k0 * p->a_col;
    from->segment = p->a_segment > 0 ? p->a_segment : t->k;
    from->a_jump = (p->m - 1) * p->a_segment;
    switch (p->a_form) {
    case IPU_A_ROWS:
        from->a = a + at;
        from->a_step = p->a_row;
        break;
    case IPU_A_COLUMNS:
        from->a = a + at;
        from->a_step = p->a_col;
        break;
    case IPU_A_STRIPS:
        from->a = t->packed + tile * ipu__strip_floats(ROWS, p->packed_k) +
                  (t->k0 - t->packed_k0) * ROWS;
        from->a_step = ROWS;
        break;
    case IPU_A_COPIED:
        from->a_step = ipu__copied_row(p->packed_k);
        from->a = t->packed + row * from->a_step + t->k0 - t->packed_k0;
        break;
    case IPU_A_LANES:
    case IPU_A_DOTS:
        break;
    }
}

/* The totals that chains which end here meet, and the level whose total they become
 * unless they are the last ones. */
static void
set_totals(const tile_block *t, int64_t row, int64_t column, bool is_last,
           tile_place *place)
{
    const ipu__product *p = t->p;
    const int32_t in_c = ipu__levels_in_c(p);
    const int64_t total_row = ipu__totals_columns(p, PANEL);
    const int64_t level_floats = p->block * ROWS * total_row;
    float *totals = t->totals + row * total_row + (column - t->first_column);
    ipu__sum_step step = ipu__sum_step_of(t->k0 / IPU_SUM_BLOCK, is_last);
    for (int32_t i = 0; step.adds >> i != 0; i++) {
        if ((step.adds >> i & 1) != 0) {
            int32_t next = place->total_count++;
            place->totals[next].at =
                i < in_c ? place->c : totals + (i - in_c) * level_floats;
            place->totals[next].row = i < in_c ? place->row : total_row;
        }
    }
    if (!is_last && step.level >= in_c) {
        place->c = totals + (step.level - in_c) * level_floats;
        place->row = total_row;
    }
}

/* Where the sums over the block's k from its row `row` on start and go to. */
static void
set_place(const tile_block *t, int64_t row, int64_t column, tile_place *place)
{
    const ipu__product *p = t->p;
    float *stored = t->stored + row * PANEL;
    int64_t at = p->c_panel > 0 ? (t->row + row) * p->c_panel + column * p->m
                                : (t->row + row) * p->c_row + column;
    bool is_last = t->k0 + t->k == p->k;
    place->offset = at;
    if (p->transposed || (ipu__is_at_once(p) && !is_last)) {
        place->c = stored;
        place->row = PANEL;
    } else {
        place->c = p->update == NULL ? p->c + at : NULL;
        place->row = p->c_panel > 0 ? p->c_panel : p->c_row;
        place->accumulator = p->accumulator != NULL ? p->accumulator + at : NULL;
        place->update = p->update;
        place->bias = is_last && p->bias != NULL ? p->bias + column : NULL;
        place->relu = is_last && p->relu;
    }
    place->start = NULL;
    if (t->k0 % IPU_SUM_BLOCK > 0 || p->continued) {
        place->start = ipu__is_at_once(p) ? stored : place->c;
        place->start_row = ipu__is_at_once(p) ? PANEL : place->row;
    }
    place->total_count = 0;
    if (p->k > IPU_SUM_BLOCK && (is_last || (t->k0 + t->k) % IPU_SUM_BLOCK == 0)) {
        set_totals(t, row, column, is_last, place);
    }
}

/* Asks for the rows of A after those of a tile of `rows` rows. */
IPU_INLINE void
fetch_next_rows(const tile_source *from, int64_t rows, int64_t k)
{
    for (int64_t i = rows; i < 2 * rows; i++) {
        for (int64_t j = 0; j < k; j += 16) {
            __builtin_prefetch(from->a + i * from->a_step + j);
        }
    }
}

/* The block by the panel of `columns` columns at `column`. */
TARGET static void
multiply_panel(const tile_block *t, int64_t column, int64_t columns)
{
    const ipu__product *p = t->p;
    const bool by_columns = p->a_form == IPU_A_COLUMNS || p->a_form == IPU_A_STRIPS;
    const int reads = by_columns ? COLUMNS : p->a_segment > 0 ? SEGMENTS : ROWS_OF_A;
    const float *b = p->b;
    int64_t b_at = row_of_b(p, t->k0) + column * p->b_col;
    int64_t vectors = (columns + LANES - 1) / LANES;
    tile_source from = {.b = t->panel, .b_row = PANEL, .panel = t->panel};
    tile_place place = {.last = edge_of((columns - 1) % LANES + 1)};
    int form = columns == PANEL ? WHOLE : EDGE + (int)vectors - 1;
    bool has_rows = p->panels == NULL && !p->halves && p->b_col == 1;
    bool in_place = has_rows && columns == PANEL;
    if (p->panels != NULL) {
        from.b = p->panels + column * p->k + t->k0 * PANEL;
    } else if (has_rows && !in_place && columns % LANES == 0 && t->k <= IPU_SMALL_K) {
        from.b = b + b_at;
        from.b_row = p->b_row;
    } else if (p->halves) {
        pack_half_panel(p, columns, (const uint16_t *)p->b + b_at, t->k, t->panel);
    } else if (!in_place) {
        pack_panel(p, columns, b + column * p->b_col, t->k0, t->k, t->panel);
    }
    /* the first panel's tiles are the first ones to read the rows of A */
    bool reads_first = column == t->first_column && p->a_form == IPU_A_ROWS &&
                       reads == ROWS_OF_A && t->k <= FETCHED_K &&
                       p->a_row >= LEAST_FETCHED;
    int64_t rest = 0;
    for (int64_t i = 0, row = 0, rows; i < t->tiles; i++, row += rows) {
        rows = next_rows(t, &rest);
        set_place(t, row, column, &place);
        set_source(t, i, row, &from);
        if (reads_first && i + 1 < t->tiles) {
            fetch_next_rows(&from, rows, t->k);
        }
        if (in_place && i == 0) {
            from.b = b + b_at;
            from.b_row = p->b_row;
            tiles_of[reads][rows][t->tiles > 1 ? PACKS : WHOLE](t->k, &from, &place);
            from.b = t->panel;
            from.b_row = PANEL;
        } else {
            tiles_of[reads][rows][form](t->k, &from, &place);
        }
    }
    if (p->transposed) {
        turn(t->rows, columns, t->stored, PANEL, p->c + column * p->c_row + t->row,
             p->c_row);
    }
}

/* The block by columns [column, column_end), over the k that are packed. */
static void
multiply_block(tile_block *t, int64_t column, int64_t column_end)
{
    int64_t end = t->packed_k0 + t->packed_k;
    for (int64_t j = column; j < column_end; j += PANEL) {
        t->k0 = t->packed_k0;
        do {
            t->k = ipu__min(end - t->k0, t->p->chunk);
            multiply_panel(t, j, ipu__min(column_end - j, PANEL));
            t->k0 += t->k;
        } while (t->k0 < end);
    }
}

static void
multiply(const ipu__product *p, int64_t row, int64_t row_end, int64_t column,
         int64_t column_end, float *scratch)
{
    tile_block t = {.p = p};
    if (p->a_form == IPU_A_LANES) {
        multiply_narrow(p, row, row_end, column, column_end);
        return;
    }
    if (p->a_form == IPU_A_DOTS) {
        multiply_dots(p, row, row_end);
        return;
    }
    t.panel = scratch;
    t.stored = t.panel + PANEL * p->chunk;
    t.totals = t.stored + ipu__stored_floats(p, ROWS, PANEL);
    t.packed = t.totals + ipu__totals_floats(p, ROWS, PANEL);
    const int64_t step =
        ipu__totals_levels(p) > 0 ? ipu__totals_columns(p, PANEL) : column_end - column;
    for (; row < row_end; row += t.rows) {
        t.row = row;
        t.rows = ipu__min(row_end - row, p->block * ROWS);
        t.tiles = ipu__ceil_div(t.rows, ROWS);
        t.least = t.rows / t.tiles;
        t.more = t.rows % t.tiles;
        for (int64_t first = column; first < column_end; first += step) {
            t.first_column = first;
            t.packed_k0 = 0;
            do {
                t.packed_k = ipu__min(p->k - t.packed_k0, p->packed_k);
                pack_a(&t);
                multiply_block(&t, first, ipu__min(first + step, column_end));
                t.packed_k0 += t.packed_k;
            } while (t.packed_k0 < p->k);
        }
    }
}

TARGET static void
multiply_each(const ipu__product *p, int64_t count, const int64_t apart[3])
{
    const bool by_columns = p->a_form == IPU_A_COLUMNS;
    const int64_t vectors = (p->n + LANES - 1) / LANES;
    const int64_t tiles = (p->m + ROWS - 1) / ROWS;
    const int form = p->n == PANEL ? WHOLE : EDGE + (int)vectors - 1;
    const tile_block block = {
        .tiles = tiles, .least = p->m / tiles, .more = p->m % tiles};
    tile_source from = {.a_step = by_columns ? p->a_col : p->a_row, .b_row = p->b_row};
    tile_place place = {.row = p->c_row,
                        .last = edge_of((p->n - 1) % LANES + 1),
                        .bias = p->bias,
                        .relu = p->relu};
    for (int64_t i = 0; i < count; i++) {
        const float *a = (const float *)p->a + i * apart[0];
        float *c = p->c + i * apart[2];
        int64_t rest = 0;
        from.b = (const float *)p->b + i * apart[1];
        for (int64_t row = 0, rows; row < p->m; row += rows) {
            rows = next_rows(&block, &rest);
            from.a = a + row * p->a_row;
            place.c = c + row * p->c_row;
            tiles_of[by_columns ? COLUMNS : ROWS_OF_A][rows][form](p->k, &from, &place);
        }
    }
}

const ipu__tiles TILES = {NAME,     ROWS,          PANEL,      FIRST_LEVEL_K,
                          multiply, multiply_each, pack_panels};
