/* SPDX-License-Identifier: MIT
 *
 * The gradient of a maximum, in tiles of x: each window that meets the tile
 * adds its dy where its maximum is. Windows come in their order, so an element's sum
 * does. Rows are cleared when the first window comes to them. Windows at the border of
 * two tiles are looked through twice.
 *
 * Tiles are planes of an image where windows go over several of them, else rows of a
 * plane; and strips of channels, where a row is long. Bits depend on no cut. No state,
 * any thread. */
#include <string.h>

#include "kernels/pool/pool_fast_impl.h"

enum {
    TILE_ELEMENTS = 32768, /* that stay in the second-level cache */
    TILE_WINDOWS = 8,      /* of a tile, in heights of a window, at least */
    STRIP_CHANNELS = 64    /* that are not cut */
};

/* The windows [first, end) of an axis that [begin, stop) of its elements are in. */
static void
windows_around(const ipu__pool_axis *axis, int64_t begin, int64_t stop, int64_t *first,
               int64_t *end)
{
    int64_t last;
    ipu__pool_windows(axis, begin, first, &last);
    ipu__pool_windows(axis, stop - 1, &last, end);
    *end = ipu__max(*end, *first);
}

static int32_t
cut_axis(const ipu__pool *pool)
{
    return pool->axes[0].window > 1 ? 0 : 1;
}

/* The channels of a tile, in rows [begin, end) of a plane. */
static void
clear_rows(const ipu__pool_job *job, int64_t image, int64_t plane, int64_t begin,
           int64_t end, const ipu__pool_chunk *c)
{
    const ipu__pool *pool = &job->plan->pool;
    const ipu__pool_target dx = ipu__pool_target_of(
        job, ipu__pool_pixel_row(pool, image, plane, begin) + c->channel);
    int64_t pixels = ipu__max(end - begin, 0) * pool->axes[2].size;
    int64_t times = c->n == pool->channels ? 1 : pixels;
    int64_t each = c->n == pool->channels ? pixels * c->n : c->n;
    for (int64_t i = 0; i < times; i++) {
        memset(ipu__pool_column(&dx, i), 0, (size_t)(each * dx.bytes));
    }
}

/* Tile `unit` of an image: strips of channels innermost, then rows, planes. */
void
ipu__pool_scatter_tile(const ipu__pool_job *job, int64_t image, int64_t unit)
{
    const ipu__pool_kernel *plan = job->plan;
    const ipu__pool *pool = &plan->pool;
    const ipu__pool_axis *axes = pool->axes;
    int64_t strips = ipu__ceil_div(pool->channels, plan->strip);
    int64_t channel = unit % strips * plan->strip;
    int64_t tile[2] = {unit / strips / plan->tiles[1], unit / strips % plan->tiles[1]};
    int64_t begin[2];
    int64_t end[2];
    int64_t first[2];
    int64_t last[2];
    for (int32_t a = 0; a < 2; a++) {
        begin[a] = tile[a] * plan->tile[a];
        end[a] = ipu__min(begin[a] + plan->tile[a], axes[a].size);
        windows_around(&axes[a], begin[a], end[a], &first[a], &last[a]);
    }
    int32_t axis = cut_axis(pool);
    ipu__pool_chunk c = {.end = axes[2].windows,
                         .channel = channel,
                         .n = ipu__min(plan->strip, pool->channels - channel),
                         .tile_axis = axis,
                         .tile_begin = begin[axis],
                         .tile_end = end[axis]};
    const bool by_rows = axis == 1;
    int64_t cleared = begin[1];
    for (int64_t d = begin[0]; !by_rows && d < end[0]; d++) {
        clear_rows(job, image, d, begin[1], end[1], &c);
    }
    for (int64_t d = first[0]; d < last[0]; d++) {
        for (int64_t h = first[1]; h < last[1]; h++) {
            int64_t below = h * axes[1].stride - axes[1].low +
                            (axes[1].window - 1) * axes[1].dilation + 1;
            if (by_rows && below > cleared) {
                below = ipu__min(below, end[1]);
                clear_rows(job, image, begin[0], cleared, below, &c);
                cleared = below;
            }
            ipu__pool_walk_boxes(job, IPU_POOL_SCATTER, image, d, h, &c, NULL, NULL);
        }
    }
    if (by_rows) {
        clear_rows(job, image, begin[0], cleared, end[1], &c);
    }
}

void
ipu__pool_plan_scatter(ipu__pool_kernel *plan)
{
    const ipu__pool *pool = &plan->pool;
    const ipu__pool_axis *axes = pool->axes;
    const int32_t cut = cut_axis(pool);
    const ipu__pool_axis *axis = &axes[cut];
    int64_t layer = axes[2].size * (cut == 0 ? axes[1].size : 1);
    int64_t reach = (axis->window - 1) * axis->dilation + 1;
    plan->strip = pool->channels;
    while (plan->strip > STRIP_CHANNELS &&
           layer * plan->strip * TILE_WINDOWS * reach > 4 * TILE_ELEMENTS) {
        plan->strip = ipu__ceil_div(plan->strip, 2);
    }
    int64_t most = ipu__max(TILE_ELEMENTS / ipu__max(layer * plan->strip, 1),
                            TILE_WINDOWS * reach);
    plan->tile[0] = 1;
    plan->tile[1] = axes[1].size;
    plan->tile[cut] = ipu__ceil_div(
        axis->size, ipu__ceil_div(axis->size, ipu__min(most, axis->size)));
    for (int32_t a = 0; a < 2; a++) {
        plan->tiles[a] = ipu__ceil_div(axes[a].size, plan->tile[a]);
    }
    plan->units =
        plan->tiles[0] * plan->tiles[1] * ipu__ceil_div(pool->channels, plan->strip);
}
