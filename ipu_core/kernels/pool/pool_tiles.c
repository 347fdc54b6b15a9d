/* SPDX-License-Identifier: MIT
 *
 * The gradient of a maximum of float16, in tiles of x:
 *
 *     1. the place of the maximum of each window that meets a row of the tile, a number
 *     2. that row: what those windows give whose place leads there
 *
 * so a result is written once, and windows that overlap add up in their order. Places
 * are kept while rows need them. Windows at the border of two tiles are looked through
 * twice. No state, any thread. */
#include <string.h>

#include "kernels/pool/pool_fast_impl.h"

enum {
    PLACES = 16384,     /* of windows that are kept */
    TILE_CHANNELS = 64, /* that are not cut */
    TILE_WINDOWS = 8,   /* rows of a tile, in heights of a window, at least */
    TILE_ROW = 4096,    /* elements of a tile's row, at most */
    TILE_ELEMENTS = 16384
};

/* The windows whose places are known: planes and columns of those that meet a tile,
 * rows from first[1] to end[1], for which there is room in `kept` rows. */
typedef struct tile {
    int64_t first[IPU_POOL_AXES];
    int64_t end[IPU_POOL_AXES];
    int64_t kept;
    int32_t place[PLACES];
} tile;

static int64_t
row_places(const tile *t, int64_t n)
{
    return (t->end[2] - t->first[2]) * n;
}

static int32_t *
places_of(tile *t, int64_t d, int64_t h, int64_t n)
{
    int64_t row = (d - t->first[0]) * t->kept + h - t->first[1];
    return t->place + row * row_places(t, n);
}

/* Finds the maxima of rows of windows up to `end`; those before `first` are not needed
 * any more. */
static void
keep_rows(const ipu__pool_job *job, tile *t, int64_t image, int64_t first, int64_t end,
          const ipu__pool_chunk *windows)
{
    int64_t n = windows->n;
    int64_t drop = first - t->first[1];
    int64_t stay = t->end[1] - first;
    if (stay <= 0) {
        t->first[1] = first;
        t->end[1] = first;
    } else if (end - t->first[1] > t->kept) {
        for (int64_t d = t->first[0]; d < t->end[0]; d++) {
            int32_t *rows = places_of(t, d, t->first[1], n);
            memmove(rows, rows + drop * row_places(t, n),
                    (size_t)(stay * row_places(t, n)) * sizeof *rows);
        }
        t->first[1] = first;
    }
    for (int64_t h = t->end[1]; h < end; h++) {
        for (int64_t d = t->first[0]; d < t->end[0]; d++) {
            ipu__pool_mark(job, image, d, h, windows, places_of(t, d, h, n));
        }
        t->end[1] = h + 1;
    }
}

static void
spread_row(const ipu__pool_job *job, tile *meets, int64_t image, int64_t d, int64_t h,
           const ipu__pool_chunk *c)
{
    const ipu__pool_kernel *plan = job->plan;
    const ipu__pool *pool = &plan->pool;
    const ipu__pool_axis *axes = pool->axes;
    const ipu__pool_axis *axis = &axes[2];
    int64_t offset =
        ipu__pool_pixel_row(pool, image, d, h) + c->first * pool->channels + c->channel;
    float beside[TILE_ROW];
    float wide[TILE_CHANNELS];
    void *result = job->call->outputs[0];
    ipu__pool_target t = ipu__pool_open(plan, result, offset, beside, c->n);
    ipu__pool_fill(&t, 0.0f, c->end - c->first, c->n);
    for (int64_t od = meets->first[0]; od < meets->end[0]; od++) {
        for (int64_t oh = meets->first[1]; oh < meets->end[1]; oh++) {
            int64_t kd = ipu__pool_number(&axes[0], d, od);
            int64_t kh = ipu__pool_number(&axes[1], h, oh);
            if (kd < 0 || kd >= axes[0].window || kh < 0 || kh >= axes[1].window) {
                continue;
            }
            int64_t row = ipu__pool_window_row(pool, image, od, oh) + c->channel;
            const int32_t *places = places_of(meets, od, oh, c->n);
            for (int64_t kw = axis->window - 1; kw >= 0; kw--) {
                int64_t a;
                int64_t b;
                ipu__pool_windows_at(axis, kw, c->first, c->end, meets->first[2],
                                     meets->end[2], &a, &b);
                int64_t pixel = a * axis->stride + kw * axis->dilation - axis->low;
                float *dx = t.row + (pixel - c->first) * t.step;
                const int32_t *place = places + (a - meets->first[2]) * c->n;
                int32_t k = (int32_t)((kd * axes[1].window + kh) * axis->window + kw);
                const uint16_t *dy = (const uint16_t *)job->call->inputs[2] + row +
                                     a * pool->channels;
                for (int64_t i = 0; i < b - a; i++) {
                    ipu__halves_to_floats(wide, dy + i * pool->channels, c->n,
                                          plan->cpu);
                    plan->columns->spread(dx + i * axis->stride * t.step, 0,
                                          place + i * c->n, k, wide, 0, 1, c->n);
                }
            }
        }
    }
    ipu__pool_close(plan, &t, result, offset, c->end - c->first, c->n);
}

/* Tile `unit` of an image: strips of channels innermost, then columns, rows, planes. */
void
ipu__pool_make_tile(const ipu__pool_job *job, int64_t image, int64_t unit)
{
    const ipu__pool_kernel *plan = job->plan;
    const ipu__pool *pool = &plan->pool;
    const ipu__pool_axis *axes = pool->axes;
    int64_t strips = ipu__ceil_div(pool->channels, plan->strip);
    tile meets;
    ipu__pool_chunk c = {0};
    ipu__pool_chunk windows;
    c.channel = unit % strips * plan->strip;
    c.n = ipu__min(plan->strip, pool->channels - c.channel);
    unit /= strips;
    c.first = unit % plan->tiles[1] * plan->tile[1];
    c.end = ipu__min(c.first + plan->tile[1], axes[2].size);
    unit /= plan->tiles[1];
    int64_t begin = unit % plan->tiles[0] * plan->tile[0];
    int64_t end = ipu__min(begin + plan->tile[0], axes[1].size);
    int64_t d = unit / plan->tiles[0];
    ipu__pool_windows_around(&axes[0], d, d + 1, &meets.first[0], &meets.end[0]);
    ipu__pool_windows_around(&axes[2], c.first, c.end, &meets.first[2], &meets.end[2]);
    windows = c;
    windows.first = meets.first[2];
    windows.end = meets.end[2];
    meets.first[1] = 0;
    meets.end[1] = 0;
    meets.kept = plan->kept;
    for (int64_t h = begin; h < end; h++) {
        int64_t first;
        int64_t last;
        ipu__pool_windows(&axes[1], h, &first, &last);
        if (first < last) {
            keep_rows(job, &meets, image, first, last, &windows);
        }
        spread_row(job, &meets, image, d, h, &c);
    }
}

/* --- the cut -------------------------------------------------------------------------
 */

/* At most so many windows of an axis meet `n` elements that follow each other. */
static int64_t
most_windows(const ipu__pool_axis *axis, int64_t n)
{
    int64_t reach = (axis->window - 1) * axis->dilation;
    return ipu__min(axis->windows, (n - 1 + reach) / axis->stride + 1);
}

/* As many channels as there are, and columns, as far as their windows' places fit, with
 * room for twice the rows that are needed at once. */
bool
ipu__pool_plan_tiles(ipu__pool_kernel *plan)
{
    const ipu__pool_axis *axes = plan->pool.axes;
    int64_t planes = most_windows(&axes[0], 1);
    int64_t rows = most_windows(&axes[1], 1);
    int64_t fewest = most_windows(&axes[2], 1);
    if (planes > PLACES || rows > PLACES || planes * rows > PLACES) {
        return false;
    }
    int64_t room = PLACES / (planes * rows);
    if (2 * planes * rows * fewest <= PLACES) {
        room /= 2;
    }
    int64_t columns = axes[2].size;
    plan->strip = plan->pool.channels;
    while (plan->strip > TILE_CHANNELS &&
           most_windows(&axes[2], columns) * plan->strip > room) {
        plan->strip = ipu__ceil_div(plan->strip, 2);
    }
    plan->strip = ipu__min(plan->strip, TILE_CHANNELS);
    plan->strip = ipu__min(plan->strip, room / fewest);
    if (plan->strip < 1) {
        return false;
    }
    while (columns > 1 && (most_windows(&axes[2], columns) * plan->strip > room ||
                           columns * plan->strip > TILE_ROW)) {
        columns = ipu__ceil_div(columns, 2);
    }
    plan->tile[1] = columns;
    plan->kept = PLACES / (planes * most_windows(&axes[2], columns) * plan->strip);
    int64_t reach = (axes[1].window - 1) * axes[1].dilation + 1;
    int64_t some = ipu__ceil_div(TILE_ELEMENTS, columns * plan->strip);
    some = some < TILE_WINDOWS * reach ? TILE_WINDOWS * reach : some;
    plan->tile[0] = ipu__min(some, axes[1].size);
    plan->tiles[0] = ipu__ceil_div(axes[1].size, plan->tile[0]);
    plan->tiles[1] = ipu__ceil_div(axes[2].size, plan->tile[1]);
    plan->units = axes[0].size * plan->tiles[0] * plan->tiles[1] *
                  ipu__ceil_div(plan->pool.channels, plan->strip);
    return true;
}
