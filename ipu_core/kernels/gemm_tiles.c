/* SPDX-License-Identifier: MIT
 *
 * Tiles of 6 rows by 16 columns in twelve AVX2 registers. B is read from panels of 16
 * columns, [k][16]; A element by element, from its own rows or, where its columns are
 * what lies contiguous, from strips of six rows, [k][6], packed before. Long sums are cut
 * into chunks whose panels stay in the first-level cache, and go on from what is in C:
 * a float32 that is stored and loaded is the same number. A tile that hangs over the
 * right edge goes through a scratch tile. Any thread; the caller gives the scratch. */
#include "kernels/gemm_tiles_impl.h"

#if defined(__x86_64__)
#include <immintrin.h>

/* TILE_PACKS reads B from its own rows and leaves the panel behind. */
enum tile_form { TILE_ROWS, TILE_STRIPS, TILE_PACKS };

/* Where a tile's sums start and end. */
typedef struct tile_place {
    float *panel; /* of TILE_PACKS */
    float *c;
    int64_t row; /* floats from row to row */
    bool more;   /* go on from what c holds */
    const float *accumulator; /* or NULL: where c holds this and the sums */
    const ipu__sgd *update;   /* or: these are gradients of the elements at `offset` */
    int64_t offset;
} tile_place;

/* One step of SGD on a tile of gradients, rounded as update_fast.c rounds. `momentum` and
 * `nesterov` are constants where this is inlined. */
IPU_INLINE IPU_TARGET_AVX2 void
update_tile(int rows, bool momentum, bool nesterov, const ipu__sgd *update, int64_t at,
            int64_t row, __m256 sum[IPU_TILE_ROWS][2])
{
    float *w = update->variable + at;
    float *v = momentum ? update->velocity + at : NULL;
    const __m256 rate = _mm256_set1_ps(update->rate);
    const __m256 keep = _mm256_set1_ps(update->momentum);
#pragma GCC unroll 6
    for (int i = 0; i < rows; i++) {
#pragma GCC unroll 2
        for (int half = 0; half < 2; half++) {
            int64_t j = i * row + 8 * half;
            __m256 move = _mm256_mul_ps(rate, sum[i][half]);
            __m256 old = _mm256_loadu_ps(w + j);
            if (!momentum) {
                _mm256_storeu_ps(w + j, _mm256_sub_ps(old, move));
                continue;
            }
            __m256 velocity =
                _mm256_sub_ps(_mm256_mul_ps(keep, _mm256_loadu_ps(v + j)), move);
            _mm256_storeu_ps(v + j, velocity);
            if (nesterov) {
                velocity = _mm256_sub_ps(_mm256_mul_ps(keep, velocity), move);
            }
            _mm256_storeu_ps(w + j, _mm256_add_ps(old, velocity));
        }
    }
}

/* `rows` and `form` are constants where this is inlined. The empty asm keeps gcc from
 * making a pointer of its own for each row, which would not fit the registers. */
IPU_INLINE IPU_TARGET_AVX2 void
tile(int rows, enum tile_form form, int64_t k, const float *a, int64_t a_row,
     const float *b, int64_t b_row, const tile_place *place)
{
    const bool packed = form == TILE_STRIPS;
    float *panel = place->panel;
    __m256 sum[IPU_TILE_ROWS][2];
    const float *a3 = a + 3 * a_row;
#pragma GCC unroll 6
    for (int i = 0; i < rows; i++) {
        const float *c = place->c + i * place->row;
        sum[i][0] = place->more ? _mm256_loadu_ps(c) : _mm256_setzero_ps();
        sum[i][1] = place->more ? _mm256_loadu_ps(c + 8) : _mm256_setzero_ps();
    }
#pragma GCC unroll 4
    for (int64_t j = 0; j < k; j++) {
        __m256 b0 = _mm256_loadu_ps(b);
        __m256 b1 = _mm256_loadu_ps(b + 8);
        if (form == TILE_PACKS) {
            _mm256_storeu_ps(panel, b0);
            _mm256_storeu_ps(panel + 8, b1);
            panel += IPU_PANEL;
        }
        b += form == TILE_PACKS ? b_row : IPU_PANEL;
#pragma GCC unroll 6
        for (int i = 0; i < rows; i++) {
            const float *at = packed ? a + i
                              : i < 3 ? a + i * a_row
                                      : a3 + (i - 3) * a_row;
            __m256 x = _mm256_broadcast_ss(at);
            sum[i][0] = _mm256_fmadd_ps(x, b0, sum[i][0]);
            sum[i][1] = _mm256_fmadd_ps(x, b1, sum[i][1]);
        }
        a += packed ? IPU_TILE_ROWS : 1;
        a3 += packed ? IPU_TILE_ROWS : 1;
        __asm__("" : "+r"(a), "+r"(a3), "+r"(b));
    }
    const ipu__sgd *update = place->update;
    if (place->accumulator != NULL) {
#pragma GCC unroll 6
        for (int i = 0; i < rows; i++) {
            const float *old = place->accumulator + i * place->row;
            float *c = place->c + i * place->row;
            _mm256_storeu_ps(c, _mm256_add_ps(_mm256_loadu_ps(old), sum[i][0]));
            _mm256_storeu_ps(c + 8, _mm256_add_ps(_mm256_loadu_ps(old + 8), sum[i][1]));
        }
    } else if (update == NULL) {
#pragma GCC unroll 6
        for (int i = 0; i < rows; i++) {
            _mm256_storeu_ps(place->c + i * place->row, sum[i][0]);
            _mm256_storeu_ps(place->c + i * place->row + 8, sum[i][1]);
        }
    } else if (update->velocity == NULL) {
        update_tile(rows, false, false, update, place->offset, place->row, sum);
    } else if (update->nesterov) {
        update_tile(rows, true, true, update, place->offset, place->row, sum);
    } else {
        update_tile(rows, true, false, update, place->offset, place->row, sum);
    }
}

typedef void tile_fn(int64_t k, const float *a, int64_t a_row, const float *b,
                     int64_t b_row, const tile_place *place);

#define TILE(form, rows) \
    IPU_TARGET_AVX2 static void form##_##rows(int64_t k, const float *a, \
                                              int64_t a_row, const float *b, \
                                              int64_t b_row, const tile_place *place) \
    { \
        tile(rows, form, k, a, a_row, b, b_row, place); \
    }
#define TILES(form) \
    TILE(form, 1) TILE(form, 2) TILE(form, 3) TILE(form, 4) TILE(form, 5) TILE(form, 6)
TILES(TILE_ROWS)
TILES(TILE_STRIPS)
TILES(TILE_PACKS)

#define COLUMN(form) {NULL, form##_1, form##_2, form##_3, form##_4, form##_5, form##_6}
static tile_fn *const tiles_of[3][IPU_TILE_ROWS + 1] = {
    [TILE_ROWS] = COLUMN(TILE_ROWS),
    [TILE_STRIPS] = COLUMN(TILE_STRIPS),
    [TILE_PACKS] = COLUMN(TILE_PACKS),
};

/* --- packing --------------------------------------------------------------------- */

/* out[j][i] = in[i][j], eight by eight. */
IPU_INLINE IPU_TARGET_AVX2 void
transpose_8x8(const float *in, int64_t in_row, float *out, int64_t out_row)
{
    __m256 r[8];
    __m256 t[8];
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++) {
        r[i] = _mm256_loadu_ps(in + i * in_row);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        t[2 * i] = _mm256_unpacklo_ps(r[2 * i], r[2 * i + 1]);
        t[2 * i + 1] = _mm256_unpackhi_ps(r[2 * i], r[2 * i + 1]);
    }
#pragma GCC unroll 2
    for (int i = 0; i < 2; i++) {
        r[4 * i] = _mm256_shuffle_ps(t[4 * i], t[4 * i + 2], 0x44);
        r[4 * i + 1] = _mm256_shuffle_ps(t[4 * i], t[4 * i + 2], 0xee);
        r[4 * i + 2] = _mm256_shuffle_ps(t[4 * i + 1], t[4 * i + 3], 0x44);
        r[4 * i + 3] = _mm256_shuffle_ps(t[4 * i + 1], t[4 * i + 3], 0xee);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        _mm256_storeu_ps(out + i * out_row,
                         _mm256_permute2f128_ps(r[i], r[i + 4], 0x20));
        _mm256_storeu_ps(out + (i + 4) * out_row,
                         _mm256_permute2f128_ps(r[i], r[i + 4], 0x31));
    }
}

/* Rows [k0, k0 + k) of one panel; columns past the edge are 0. */
IPU_TARGET_AVX2 static void
pack_panel(const ipu__product *p, int64_t panel, int64_t k0, int64_t k, float *out)
{
    int64_t columns = ipu__min(p->n - panel * IPU_PANEL, IPU_PANEL);
    const float *b = p->b + panel * IPU_PANEL * p->b_col + k0 * p->b_row;
    int64_t j = 0;
    if (columns == IPU_PANEL && p->b_col == 1) {
        for (; j < k; j++) {
            __m256 low = _mm256_loadu_ps(b + j * p->b_row);
            __m256 high = _mm256_loadu_ps(b + j * p->b_row + 8);
            _mm256_storeu_ps(out + j * IPU_PANEL, low);
            _mm256_storeu_ps(out + j * IPU_PANEL + 8, high);
        }
    } else if (columns == IPU_PANEL && p->b_row == 1) {
        for (; j + 8 <= k; j += 8) {
            transpose_8x8(b + j, p->b_col, out + j * IPU_PANEL, IPU_PANEL);
            transpose_8x8(b + j + 8 * p->b_col, p->b_col, out + j * IPU_PANEL + 8,
                          IPU_PANEL);
        }
    }
    for (; j < k; j++) {
        for (int64_t i = 0; i < IPU_PANEL; i++) {
            out[j * IPU_PANEL + i] =
                i < columns ? b[j * p->b_row + i * p->b_col] : 0.0f;
        }
    }
}

void
ipu__pack_panels(const ipu__product *p, float *panels, int64_t first, int64_t last)
{
    for (int64_t i = first; i < last; i++) {
        pack_panel(p, i, 0, p->k, panels + i * p->k * IPU_PANEL);
    }
}

/* The rows of A from `row`, k of its columns from k0, as [k][6]. Eight floats are
 * moved for each column: what is too much is overwritten by the next one, and behind
 * the last one there is room. */
IPU_TARGET_AVX2 static void
pack_strip(const ipu__product *p, int64_t row, int64_t k0, int64_t k, float *out)
{
    const float *a = p->a + row * p->a_row + k0 * p->a_col;
    for (int64_t j = 0; j < k; j++) {
        _mm256_storeu_ps(out + j * IPU_TILE_ROWS, _mm256_loadu_ps(a + j * p->a_col));
    }
}

/* --- a task ---------------------------------------------------------------------- */

typedef struct task {
    const ipu__product *p;
    int64_t tiles; /* of the whole product */
    bool packs_a;
    float *strips;
    float *panel;
    float *corner;
} task;

static void
finish_corner(const ipu__product *p, const float *corner, int64_t row, int64_t rows,
              int64_t column, int64_t columns)
{
    for (int64_t i = 0; i < rows; i++) {
        int64_t at = (row + i) * p->n + column;
        if (p->update != NULL) {
            ipu__sgd_apply(p->update, at, corner + i * IPU_PANEL, columns,
                           IPU_CPU_AVX2);
        } else if (p->accumulator != NULL) {
            ipu__vector_f32_of(IPU_CPU_AVX2)
                ->add(p->c + at, p->accumulator + at, corner + i * IPU_PANEL, columns);
        } else {
            for (int64_t j = 0; j < columns; j++) {
                p->c[at + j] = corner[i * IPU_PANEL + j];
            }
        }
    }
}

static void
load_corner(const ipu__product *p, float *corner, int64_t row, int64_t rows,
            int64_t column, int64_t columns)
{
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t j = 0; j < columns; j++) {
            corner[i * IPU_PANEL + j] = p->c[(row + i) * p->n + column + j];
        }
    }
}

/* All row tiles of the task by one panel, over k of the sum from k0. With `packs` the
 * first tile reads B from its own rows and packs the panel for the others. */
static void
multiply_panel(const task *t, int64_t tile_begin, int64_t tile_end, int64_t panel,
               const float *b, bool packs, int64_t k0, int64_t k)
{
    const ipu__product *p = t->p;
    int64_t column = panel * IPU_PANEL;
    int64_t columns = ipu__min(p->n - column, IPU_PANEL);
    for (int64_t i = tile_begin; i < tile_end; i++) {
        int64_t row = ipu__share_of(p->m, t->tiles, i);
        int64_t rows = ipu__share_of(p->m, t->tiles, i + 1) - row;
        bool more = k0 > 0;
        tile_place place = {.more = more, .row = p->n};
        if (columns < IPU_PANEL) {
            place.c = t->corner;
            place.row = IPU_PANEL;
            if (more) {
                load_corner(p, t->corner, row, rows, column, columns);
            }
        } else if (p->update != NULL) {
            place.update = p->update;
            place.offset = row * p->n + column;
        } else {
            place.c = p->c + row * p->n + column;
            if (p->accumulator != NULL) {
                place.accumulator = p->accumulator + row * p->n + column;
            }
        }
        const float *a = t->packs_a
                             ? t->strips + (i - tile_begin) * IPU_TILE_ROWS * k
                             : p->a + row * p->a_row + k0;
        if (packs && i == tile_begin) {
            place.panel = t->panel;
            tiles_of[TILE_PACKS][rows](k, a, p->a_row,
                                       p->b + k0 * p->b_row + column, p->b_row, &place);
        } else {
            enum tile_form form = t->packs_a ? TILE_STRIPS : TILE_ROWS;
            tiles_of[form][rows](k, a, p->a_row, b, IPU_PANEL, &place);
        }
        if (columns < IPU_PANEL) {
            finish_corner(p, t->corner, row, rows, column, columns);
        }
    }
}

void
ipu__multiply_tiles(const ipu__product *p, int64_t tile_begin, int64_t tile_end,
                    int64_t panel, int64_t panel_end, float *scratch)
{
    int64_t chunk = ipu__chunk_of(p->k, ipu__is_at_once(p));
    task t = {.p = p,
              .tiles = ipu__ceil_div(p->m, IPU_TILE_ROWS),
              .packs_a = ipu__packs_a(p->k, p->a_col)};
    t.corner = scratch;
    t.panel = t.corner + IPU_TILE_ROWS * IPU_PANEL;
    t.strips = t.panel + IPU_PANEL * chunk;
    for (int64_t k0 = 0; k0 < p->k; k0 += chunk) {
        int64_t k = ipu__min(p->k - k0, chunk);
        for (int64_t i = tile_begin; t.packs_a && i < tile_end; i++) {
            int64_t row = ipu__share_of(p->m, t.tiles, i);
            pack_strip(p, row, k0, k, t.strips + (i - tile_begin) * IPU_TILE_ROWS * k);
        }
        for (int64_t j = panel; j < panel_end; j++) {
            const float *b = t.panel;
            bool packs = p->panels == NULL && !t.packs_a && p->b_col == 1
                         && (j + 1) * IPU_PANEL <= p->n;
            if (p->panels != NULL) {
                b = p->panels + (j * p->k + k0) * IPU_PANEL;
            } else if (!packs) {
                pack_panel(p, j, k0, k, t.panel);
            }
            multiply_panel(&t, tile_begin, tile_end, j, b, packs, k0, k);
        }
    }
}
#else
typedef int ipu__no_avx2; /* ISO C forbids an empty file */
#endif
