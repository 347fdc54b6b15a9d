/* SPDX-License-Identifier: MIT
 *
 * Tiles of convolutions, by the vectors of gemm_tiles_body.h, after which a file includes
 * this one. The rows of a tile are pixels of the result: each has a pointer of
 * its own into the source, so that a tile goes over the ends of lines and images. Of a
 * filter's gradient they are neighbouring elements of a filter. Each element is a sum in
 * the order of the segments, by the tree of sum_tree.h. */
#include "kernels/conv/conv_tiles_impl.h"

/* Rows of results, in registers: the vectors of row i belong to columns [column, ...) of
 * the pixel at to[i]. */
OF_EACH_TILE TARGET void
finish_tile(int rows, int vectors, bool cut, edge last, const ipu__conv_finish *f,
            const int64_t *to, int64_t column, vector sum[ROWS][VECTORS])
{
    for (int32_t k = 0; k < f->count; k++) {
        const float *values = f->steps[k].values + column;
        const bool whole = f->steps[k].step == IPU_CONV_ADD;
        vector y[VECTORS];
        if (whole) {
            EACH_VECTOR({
                const float *more = values + to[i] + part * LANES;
                sum[i][part] =
                    sum[i][part] + take(cut && part == vectors - 1, last, more);
            })
            continue;
        }
        EACH(part, vectors,
             y[part] = take(cut && part == vectors - 1, last, values + part * LANES))
        if (f->steps[k].step == IPU_CONV_SCALE) {
            EACH_VECTOR(sum[i][part] = sum[i][part] * y[part])
        } else {
            EACH_VECTOR(sum[i][part] = sum[i][part] + y[part])
        }
    }
    if (f->relu_grad != NULL) {
        const float *y = f->relu_grad + column;
        EACH_VECTOR({
            const float *from = y + to[i] + part * LANES;
            vector of_relu = take(cut && part == vectors - 1, last, from);
            sum[i][part] = where_positive(of_relu, sum[i][part]);
        })
    }
    if (f->relu) {
        EACH_VECTOR(sum[i][part] = relu(sum[i][part]))
    }
}

typedef struct window_tile {
    const float *const *a; /* of each row */
    float *const *c;
    const int64_t *offsets;
    int64_t segments; /* of a block of the sum, ... */
    int64_t length;
    int64_t begin;    /* ... of which the first one begins here ... */
    int64_t end;      /* ... and the last one ends here */
    const float *b;
    ipu__sum_step step;
    float *upper; /* the total of level 1 of the tile's first column, by `to` */
    int64_t level_floats;
    bool whole;
    edge last; /* of the last vector, unless it is whole */
    const ipu__conv_finish *finish; /* or NULL, while sums go on */
    const int64_t *to;
    int64_t column;
} window_tile;

#ifdef BY_DOUBLES
static bool
window_by_doubles(int rows, int vectors, const window_tile *t,
                  vector sum[ROWS][VECTORS])
{
    wide_tile w;
    const float *a[ROWS];
    const float *b = t->b;
    wide_begin(&w, rows, vectors, sum);
    for (int64_t s = 0; s < t->segments; s++) {
        const int64_t begin = s == 0 ? t->begin : 0;
        const int64_t end = s == t->segments - 1 ? t->end : t->length;
        for (int i = 0; i < rows; i++) {
            a[i] = t->a[i] + t->offsets[s] + begin;
        }
        wide_run(&w, rows, vectors, end - begin, a, 0, b, PANEL);
        b += (end - begin) * PANEL;
    }
    return wide_end(&w, rows, vectors, sum);
}
#else
#define window_by_doubles(...) false
#endif

OF_EACH_CHAIN_TILE TARGET void
window_tile_of(int rows, int vectors, const window_tile *w)
{
    LOOPS
    const edge last = w->last;
    const float *b = w->b;
    vector sum[ROWS][VECTORS];
    EACH_VECTOR(sum[i][part] = zero())
    const bool is_done = window_by_doubles(rows, vectors, w, sum);
    for (int64_t s = 0; !is_done && s < w->segments; s++) {
        const int64_t offset = w->offsets[s];
        const int64_t begin = s == 0 ? w->begin : 0;
        const int64_t end = s == w->segments - 1 ? w->end : w->length;
        const float *a[ROWS];
        EACH(i, rows, a[i] = w->a[i] + offset)
#pragma GCC unroll SOME
        for (int64_t j = begin; j < end; j++) {
            vector y[VECTORS];
            EACH(part, vectors, y[part] = load(b + part * LANES))
            b += PANEL;
#pragma GCC unroll ALL
            for (int i = 0; i < rows; i++) {
                vector x = spread(a[i] + j);
                EACH(part, vectors,
                     sum[i][part] = multiply_add(x, y[part], sum[i][part]))
            }
            __asm__("" : "+r"(b));
        }
    }
    for (int32_t level = 0; w->step.adds >> level != 0; level++) {
        const float *upper = w->upper + (level - 1) * w->level_floats;
        if ((w->step.adds >> level & 1) == 0) {
            continue;
        }
#pragma GCC unroll ALL
        for (int i = 0; i < rows; i++) {
            const float *total = level == 0 ? w->c[i] : upper + w->to[i];
            EACH(part, vectors, {
                bool cut = !w->whole && part == vectors - 1;
                sum[i][part] = take(cut, last, total + part * LANES) + sum[i][part];
            })
        }
    }
    if (w->finish != NULL) {
        finish_tile(rows, vectors, !w->whole, last, w->finish, w->to, w->column, sum);
    }
    float *upper = w->upper + (w->step.level - 1) * w->level_floats;
#pragma GCC unroll ALL
    for (int i = 0; i < rows; i++) {
        float *c = w->step.level == 0 ? w->c[i] : upper + w->to[i];
        EACH(part, vectors, {
            bool cut = !w->whole && part == vectors - 1;
            put(cut, last, c + part * LANES, sum[i][part]);
        })
    }
}

typedef struct filter_tile {
    const float *a;
    const int64_t *offsets;
    int64_t segments;
    int64_t length;
    int64_t begin;
    int64_t end;
    int64_t step;
    const float *b;
    const float *c; /* what chains go on from, ... */
    float *to;      /* ... and where they are stored */
    const float *totals; /* of the lowest level */
    int64_t row;   /* floats from row to row of c */
    const ipu__filter_chains *chains;
    bool whole;
    edge last;
} filter_tile;

#ifdef BY_DOUBLES
static bool
filter_by_doubles(int rows, int vectors, const filter_tile *t,
                  vector sum[ROWS][VECTORS])
{
    wide_tile w;
    const float *b = t->b;
    wide_begin(&w, rows, vectors, sum);
    for (int64_t s = 0; s < t->segments; s++) {
        const int64_t begin = s == 0 ? t->begin : 0;
        const int64_t end = s == t->segments - 1 ? t->end : t->length;
        const float *a = t->a + t->offsets[s] + begin * t->step;
        wide_run(&w, rows, vectors, end - begin, &a, t->step, b, PANEL);
        b += (end - begin) * PANEL;
    }
    return wide_end(&w, rows, vectors, sum);
}
#else
#define filter_by_doubles(...) false
#endif

OF_EACH_CHAIN_TILE TARGET void
filter_tile_of(int rows, int vectors, const filter_tile *f)
{
    LOOPS
    const ipu__filter_chains *chains = f->chains;
    const edge last = f->last;
    const float *b = f->b;
    const int64_t step = f->step;
    vector sum[ROWS][VECTORS];
    EACH_VECTOR({
        const float *c = f->c + i * f->row + part * LANES;
        bool cut = !f->whole && part == vectors - 1;
        sum[i][part] = !chains->more ? zero() : take(cut, last, c);
    })
    const bool is_done = filter_by_doubles(rows, vectors, f, sum);
    for (int64_t s = 0; !is_done && s < f->segments; s++) {
        const int64_t begin = s == 0 ? f->begin : 0;
        const int64_t end = s == f->segments - 1 ? f->end : f->length;
        const float *a = f->a + f->offsets[s] + begin * step;
#pragma GCC unroll SOME
        for (int64_t j = begin; j < end; j++) {
            vector y[VECTORS];
            EACH(part, vectors, y[part] = load(b + part * LANES))
            b += PANEL;
#pragma GCC unroll ALL
            for (int i = 0; i < rows; i++) {
                vector x = spread(a + i);
                EACH(part, vectors,
                     sum[i][part] = multiply_add(x, y[part], sum[i][part]))
            }
            a += step;
            __asm__("" : "+r"(a), "+r"(b));
        }
    }
    const float *total = f->totals;
    for (uint32_t adds = chains->adds; adds != 0;
         adds >>= 1, total += chains->level_floats) {
        if ((adds & 1) == 0) {
            continue;
        }
        EACH_VECTOR({
            bool cut = !f->whole && part == vectors - 1;
            vector x = take(cut, last, total + i * f->row + part * LANES);
            sum[i][part] = x + sum[i][part];
        })
    }
    EACH_VECTOR({
        bool cut = !f->whole && part == vectors - 1;
        put(cut, last, f->to + i * f->row + part * LANES, sum[i][part]);
    })
}

typedef void window_fn(const window_tile *w);
typedef void filter_fn(const filter_tile *f);

#define CONV_TILE(rows, vectors) \
    TARGET static void window_##rows##_##vectors(const window_tile *w) \
    { \
        window_tile_of(rows, vectors, w); \
    } \
    TARGET static void filter_##rows##_##vectors(const filter_tile *f) \
    { \
        filter_tile_of(rows, vectors, f); \
    }
#if VECTORS > 2
#define CONV_TILE_3(rows) CONV_TILE(rows, 3)
#define CONV_ENTRY_3(kind, rows) , kind##_##rows##_3
#else
#define CONV_TILE_3(rows)
#define CONV_ENTRY_3(kind, rows)
#endif
#define CONV_TILES_OF(rows, name, unused) \
    CONV_TILE(rows, 1) CONV_TILE(rows, 2) CONV_TILE_3(rows)
#define CONV_ENTRY(rows, kind, unused) \
    [rows] = {kind##_##rows##_1, kind##_##rows##_2 CONV_ENTRY_3(kind, rows)},
ALL_ROWS(CONV_TILES_OF, unused, 0)
static window_fn *const window_tiles[ROWS + 1][VECTORS] = {
    ALL_ROWS(CONV_ENTRY, window, 0)};
static filter_fn *const filter_tiles[ROWS + 1][VECTORS] = {
    ALL_ROWS(CONV_ENTRY, filter, 0)};

/* --- results by windows ----------------------------------------------------------- */

/* Pixels [begin, end). */
TARGET static void
conv_pixels(const ipu__windows *w, int64_t begin, int64_t end)
{
    const int64_t tiles = ipu__ceil_div(end - begin, ROWS);
    const int64_t depth = w->segments * w->length;
    const int64_t blocks = ipu__sum_blocks(depth);
    window_tile t = {.length = w->length, .level_floats = w->level_floats};
    for (int64_t block = 0; block < blocks; block++) {
        const int64_t k = block * IPU_SUM_BLOCK;
        const int64_t last = ipu__min(k + IPU_SUM_BLOCK, depth) - 1;
        const bool is_last = block == blocks - 1;
        if (depth > 0) {
            t.offsets = w->offsets + k / w->length;
            t.segments = last / w->length - k / w->length + 1;
            t.begin = k % w->length;
            t.end = last % w->length + 1;
        }
        t.step = ipu__sum_step_of(block, is_last);
        t.finish = is_last ? w->finish : NULL;
        for (int64_t j = 0; j < w->columns; j += PANEL) {
            int64_t columns = ipu__min(w->columns - j, PANEL);
            int64_t vectors = (columns + LANES - 1) / LANES;
            t.whole = columns % LANES == 0;
            t.last = edge_of((columns - 1) % LANES + 1);
            t.b = w->panels + j * depth + k * PANEL;
            t.column = j;
            t.upper = w->upper + j;
            for (int64_t tile = 0; tile < tiles; tile++) {
                const float *a[ROWS];
                float *c[ROWS];
                int64_t first = begin + ipu__share_of(end - begin, tiles, tile);
                int64_t next = begin + ipu__share_of(end - begin, tiles, tile + 1);
                int64_t rows = next - first;
                for (int64_t i = 0; i < rows; i++) {
                    a[i] = w->source + w->at[first + i];
                    c[i] = w->result + w->to[first + i] + j;
                }
                t.a = a;
                t.c = c;
                t.to = w->to + first;
                window_tiles[rows][vectors - 1](&t);
            }
        }
    }
}

#ifndef BY_DOUBLES
/* Of a few columns, which would fill no vector, lanes are pixels: neighbours that lie
 * `apart` floats after each other in the source, which is turned BLOCK channels at a
 * time. */
enum {
    GROUPS = 2, /* vectors of pixels: each column has so many chains */
    NEIGHBOURS = GROUPS * LANES,
    FINISHED = 4 /* pixels at a time */
};
_Static_assert(LANES == BLOCK, "what is turned fills vectors");

OF_EACH_TILE TARGET void
few_columns(int columns, const ipu__windows *w, int64_t first, int64_t apart)
{
    _Alignas(64) float turned[GROUPS][BLOCK * LANES];
    float made[IPU_NARROW][NEIGHBOURS];
    float pixels[FINISHED][LANES] = {{0.0f}};
    vector sum[IPU_NARROW][GROUPS];
    const edge last = edge_of(columns);
    const float *b = w->panels;
    EACH(j, columns, EACH(g, GROUPS, sum[j][g] = zero()))
    for (int64_t s = 0; s < w->segments; s++) {
        const float *a = w->source + w->at[first] + w->offsets[s];
        for (int64_t k = 0; k < w->length; k += BLOCK, a += BLOCK) {
            EACH(g, GROUPS, transpose(a + g * LANES * apart, apart, turned[g], LANES))
            for (int64_t l = 0; l < BLOCK; l++, b += PANEL) {
                vector x[GROUPS];
                EACH(g, GROUPS, x[g] = load(turned[g] + l * LANES))
                EACH(j, columns, {
                    const vector y = spread(b + j);
                    EACH(g, GROUPS, sum[j][g] = multiply_add(x[g], y, sum[j][g]))
                })
            }
        }
    }
    EACH(j, columns, EACH(g, GROUPS, store(made[j] + g * LANES, sum[j][g])))
    for (int64_t i = 0; i < NEIGHBOURS; i += FINISHED) {
        const int64_t *to = w->to + first + i;
        vector row[ROWS][VECTORS];
        for (int p = 0; p < FINISHED; p++) {
            for (int j = 0; j < columns; j++) {
                pixels[p][j] = made[j][i + p];
            }
        }
        EACH(p, FINISHED, row[p][0] = load(pixels[p]))
        finish_tile(FINISHED, 1, true, last, w->finish, to, 0, row);
        EACH(p, FINISHED, put(true, last, w->result + to[p], row[p][0]))
    }
}

typedef void few_fn(const ipu__windows *w, int64_t first, int64_t apart);
#define FEW_COLUMNS(columns) \
    TARGET static void few_columns_##columns(const ipu__windows *w, int64_t first, \
                                             int64_t apart) \
    { \
        few_columns(columns, w, first, apart); \
    }
FEW_COLUMNS(1)
FEW_COLUMNS(2)
FEW_COLUMNS(3)
FEW_COLUMNS(4)

static bool
are_neighbours(const int64_t *at, int64_t apart)
{
    bool are = true;
    for (int64_t i = 1; i < NEIGHBOURS; i++) {
        are &= at[i] == at[0] + i * apart;
    }
    return are;
}

TARGET static void
conv_windows(const ipu__windows *w)
{
    static few_fn *const few[] = {few_columns_1, few_columns_2, few_columns_3,
                                  few_columns_4};
    const bool is_few = w->columns <= IPU_NARROW && w->length % BLOCK == 0 &&
                        w->segments * w->length <= IPU_SUM_BLOCK;
    int64_t done = 0;
    for (int64_t i = 0; is_few && i + NEIGHBOURS <= w->pixels;) {
        const int64_t apart = w->at[i + 1] - w->at[i];
        if (!are_neighbours(w->at + i, apart)) {
            i++;
            continue;
        }
        conv_pixels(w, done, i);
        few[w->columns - 1](w, i, apart);
        i += NEIGHBOURS;
        done = i;
    }
    conv_pixels(w, done, w->pixels);
}
#else
TARGET static void
conv_windows(const ipu__windows *w)
{
    conv_pixels(w, 0, w->pixels);
}
#endif

/* --- the gradient of filters ------------------------------------------------------- */

TARGET static void
conv_filter(const ipu__filter_block *f)
{
    const ipu__filter_chains *chains = &f->chains;
    filter_tile t = {.offsets = f->offsets,
                     .segments = f->segments,
                     .length = f->length,
                     .begin = f->begin,
                     .end = f->end,
                     .step = f->step,
                     .row = f->result_row,
                     .chains = chains};
    for (int64_t j = 0; j < f->columns; j += PANEL) {
        int64_t columns = ipu__min(f->columns - j, PANEL);
        int64_t vectors = (columns + LANES - 1) / LANES;
        t.whole = columns % LANES == 0;
        t.last = edge_of((columns - 1) % LANES + 1);
        t.b = f->panels + j * f->panel_rows;
        for (int64_t i = 0; i < f->groups; i++) {
            int64_t at = f->rows[i].row * f->result_row + j;
            t.a = f->strips + (f->rows[i].at - f->origin);
            t.c = f->result + at;
            t.to = (chains->to != NULL ? chains->to : f->result) + at;
            t.totals = chains->totals + at;
            filter_tiles[f->rows[i].rows][vectors - 1](&t);
        }
    }
}

/* --- depthwise ---------------------------------------------------------------------- */

/* Pixels, or taps: chains that do not wait for each other; at most ROWS. */
enum { AT_ONCE = 4 };

OF_EACH_TILE TARGET void
depthwise_tile(int pixels, bool cut, edge last, const ipu__depthwise *d, int64_t first,
               int64_t channel)
{
    vector sum[ROWS][VECTORS]; /* of which there is one in a row */
    float totals[IPU_SUM_LEVELS][AT_ONCE * LANES];
    const float *a[AT_ONCE];
    const int64_t blocks = ipu__sum_blocks(d->taps);
    EACH(i, pixels, a[i] = d->source + d->at[first + i] + channel)
    const float *factor = d->factors + channel;
    for (int64_t block = 0; block < blocks; block++) {
        const ipu__sum_step step = ipu__sum_step_of(block, block == blocks - 1);
        const int64_t end = ipu__min(d->taps, (block + 1) * IPU_SUM_BLOCK);
        EACH(i, pixels, sum[i][0] = zero())
        for (int64_t t = block * IPU_SUM_BLOCK; t < end; t++) {
            vector y = take(cut, last, factor);
            factor += d->channels;
            EACH(i, pixels, {
                vector x = take(cut, last, a[i] + d->offsets[t]);
                sum[i][0] = multiply_add(x, y, sum[i][0]);
            })
        }
        for (int32_t level = 0; step.adds >> level != 0; level++) {
            if ((step.adds >> level & 1) == 0) {
                continue;
            }
            EACH(i, pixels, sum[i][0] = load(totals[level] + i * LANES) + sum[i][0])
        }
        EACH(i, pixels, store(totals[step.level] + i * LANES, sum[i][0]))
    }
    finish_tile(pixels, 1, cut, last, d->finish, d->to + first, channel, sum);
    EACH(i, pixels, put(cut, last, d->result + d->to[first + i] + channel, sum[i][0]))
}

TARGET static void
conv_depthwise(const ipu__depthwise *d)
{
    for (int64_t c = 0; c < d->channels; c += LANES) {
        bool cut = d->channels - c < LANES;
        const edge last = edge_of(cut ? d->channels - c : LANES);
        int64_t i = 0;
        for (; i + AT_ONCE <= d->pixels; i += AT_ONCE) {
            if (cut) {
                depthwise_tile(AT_ONCE, true, last, d, i, c);
            } else {
                depthwise_tile(AT_ONCE, false, last, d, i, c);
            }
        }
        for (; i < d->pixels; i++) {
            depthwise_tile(1, cut, last, d, i, c);
        }
    }
}

OF_EACH_TILE TARGET void
depthwise_filter_tile(int taps, bool cut, edge last, const ipu__depthwise_filter *d,
                      int64_t tap, int64_t channel)
{
    const ipu__filter_chains *chains = &d->chains;
    vector sum[2 * AT_ONCE];
    const float *source[2 * AT_ONCE];
    const int64_t at_first = tap * d->channels + channel;
    float *result = d->result + at_first;
    float *to = chains->to != NULL ? chains->to + at_first : result;
    const float *total = chains->totals + at_first;
    EACH(t, taps, {
        source[t] = d->source + d->offsets[tap + t] + channel;
        sum[t] = chains->more ? take(cut, last, result + t * d->channels) : zero();
    })
    const float *other = d->other + channel;
    for (int64_t i = 0; i < d->pixels; i++) {
        const int64_t at = d->at[i];
        vector y = take(cut, last, other);
        other += d->channels;
        EACH(t, taps, sum[t] = multiply_add(take(cut, last, source[t] + at), y, sum[t]))
    }
    for (uint32_t adds = chains->adds; adds != 0;
         adds >>= 1, total += chains->level_floats) {
        if ((adds & 1) == 0) {
            continue;
        }
        EACH(t, taps, sum[t] = take(cut, last, total + t * d->channels) + sum[t])
    }
    EACH(t, taps, put(cut, last, to + t * d->channels, sum[t]))
}

TARGET static void
conv_depthwise_filter(const ipu__depthwise_filter *d)
{
    enum { MANY = 2 * AT_ONCE };
    for (int64_t c = d->first_channel; c < d->last_channel; c += LANES) {
        bool cut = d->last_channel - c < LANES;
        const edge last = edge_of(cut ? d->last_channel - c : LANES);
        int64_t t = 0;
        for (; t + MANY <= d->taps; t += MANY) {
            if (cut) {
                depthwise_filter_tile(MANY, true, last, d, t, c);
            } else {
                depthwise_filter_tile(MANY, false, last, d, t, c);
            }
        }
        for (; t + 3 <= d->taps; t += 3) {
            depthwise_filter_tile(3, cut, last, d, t, c);
        }
        for (; t < d->taps; t++) {
            depthwise_filter_tile(1, cut, last, d, t, c);
        }
    }
}

/* --- packing ------------------------------------------------------------------------ */

static void
conv_pack(const float *b, int64_t b_row, int64_t b_col, int64_t columns, int64_t k,
          float *out)
{
    const ipu__product p = {.b_row = b_row, .b_col = b_col};
    pack_panel(&p, columns, b, 0, k, out);
}

static void
conv_strip(const float *pixels, int64_t step, int64_t rows, int64_t k, float *out)
{
    const ipu__product p = {.a_col = step};
    pack_strip(&p, rows, pixels, k, out);
}

#include "kernels/conv/conv_winograd_body.h"

const ipu__conv_tiles CONV_TABLE = {
    .windows_name = "windows_" SIZE,
    .in_place_name = "in_place_" SIZE,
    .winograd_name = "winograd_" SIZE,
    .filter_name = "strips_" SIZE,
    .depthwise_name = "depthwise_" SIZE,
    .depthwise_filter_name = "depthwise_strips_" SIZE,
    .rows = ROWS,
    .columns = PANEL,
    .windows = conv_windows,
    .filter = conv_filter,
    .depthwise = conv_depthwise,
    .depthwise_filter = conv_depthwise_filter,
    .winograd_filters = winograd_filters,
    .winograd_patches = winograd_patches,
    .winograd_quads = winograd_quads,
    .winograd_gradients = winograd_gradients,
    .winograd_sums = winograd_sums,
    .pack = conv_pack,
    .strip = conv_strip,
    .turn = turn,
};
