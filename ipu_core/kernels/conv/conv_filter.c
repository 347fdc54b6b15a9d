/* SPDX-License-Identifier: MIT
 *
 * conv_grad_filter: one product for each group. Its rows are the elements of a filter,
 * its columns the filters, and a sum goes over the pixels of y in their order. So each
 * row walks over x, from where its tap lies under the first window: the taps read one
 * copy of x at different places.
 *
 * Threads take parts of the rows, or of the pixels: blocks of their sum, whose chains
 * then lie side by side until all are there, and are added up. A part goes through y band
 * by band, adding to what it has made: x is copied into strips, y into panels,
 *
 *   strips [channels of a tile][place of x][rows of a tile]   of many channels
 *          [place of x][channel]                              of few: a row of a tile may
 *                                                             then be of the next tap
 *   panels [filters of a panel][pixel][columns of a panel]
 *
 * so that both stay in the first-level cache while all taps meet them. A window of one
 * place meets each copy once only, so there x is taken as it lies, a few pixels at a
 * time: copied in the order of memory, which processors read ahead in, since tiles go
 * from pixel to pixel; where there are groups, in place. An element is one sum over the
 * pixels (sum_tree.h) whatever the bands and parts are: chains go on from band to band
 * in the result, and where a block of the tree ends within a band, tiles stop there. The
 * totals of each of the tree's levels lie like the result. */
#include "kernels/conv/conv_run_impl.h"

enum {
    BAND_PIXELS = 256,
    IN_PLACE_PIXELS = 64, /* of a band of x that is not copied */
    FEW_CHANNELS = 16,
    AT_ONCE = 16, /* pixels of y that go into all panels: they are read once */
    FLOPS_PER_PART = 1 << 20,
    BLOCKS_FLOATS = 1 << 20, /* of all blocks of a sum at once */
    PARTS_PER_THREAD = 4,
    COPIED_UNITS = 2,        /* what copying costs a part, in units */
    CHANNELS = 16,           /* of depthwise ones */
    ADDED_FLOATS = 1 << 10   /* of each block, by a task */
};

typedef struct filter_plan {
    ipu__conv_geometry g;
    bool depthwise;
    int64_t repeat; /* of the channels of x, of depthwise ones */
    int64_t strips; /* of a group; 1 where channels are few */
    bool flat;
    bool in_place; /* x is taken as it lies; then it is flat, too */
    int64_t strip_floats;
    ipu__pitch pitch; /* in a strip */
    const ipu__filter_rows *rows;
    int64_t row_count;
    const int64_t *offsets; /* of rows of y's bands; of depthwise ones, of taps */
    int64_t units; /* that parts share: tiles of rows, or CHANNELS of depthwise ones */
    int64_t elements;
    int64_t blocks; /* of a sum, where they have room side by side; else 1 */
    int64_t most_parts;
    /* floats in the workspace, ... */
    int64_t wide;   /* the result of float16 */
    int64_t level;  /* a level of the tree, or a block ... */
    int64_t levels; /* ... of which there are so many */
    /* ... and in each part's scratch */
    int64_t source;
    int64_t row;
    int64_t temporary;
    int64_t pixels;
    int64_t panels;
    int64_t places; /* 64-bit; of depthwise ones */
} filter_plan;

typedef struct filter_call {
    const filter_plan *plan;
    const void *x;
    const void *y;
    float *result;
    float *totals;
    int64_t row_parts;
    int64_t pixel_parts;
} filter_call;

typedef struct part_scratch {
    float *source;
    float *row;
    float *temporary;
    float *pixels;
    float *panels;
    int64_t *places;
} part_scratch;

/* Of y: what a sum goes over. */
static int64_t
pixels_of(const ipu__conv_geometry *g)
{
    return g->result.images * g->result.sizes[0] * g->result.sizes[1] *
           g->result.sizes[2];
}

static int64_t
scratch_floats(const filter_plan *plan)
{
    return plan->source + plan->row + plan->temporary + plan->pixels + plan->panels +
           2 * plan->places;
}

static part_scratch
cut_scratch(const filter_plan *plan, float *scratch)
{
    part_scratch s = {.source = scratch};
    s.row = s.source + plan->source;
    s.temporary = s.row + plan->row;
    s.pixels = s.temporary + plan->temporary;
    s.panels = s.pixels + plan->pixels;
    s.places = (void *)(s.panels + plan->panels);
    return s;
}

/* --- a band ------------------------------------------------------------------------- */

/* Strips [first, last] of the group that `from` names. */
static void
load_strips(const filter_plan *plan, const ipu__source *from, const ipu__band *band,
            int64_t first, int64_t last, const part_scratch *s)
{
    const ipu__conv_geometry *g = &plan->g;
    const ipu__line *lines = g->lines;
    const int64_t depths = ipu__line_extent(&lines[0], 1);
    const int64_t rows = ipu__line_extent(&lines[1], band->rows);
    const int64_t columns = ipu__line_extent(&lines[2], band->columns);
    if (plan->flat) {
        ipu__source_band(from, band, s->source);
        return;
    }
    for (int64_t i = 0; i < band->planes * depths * rows; i++) {
        int64_t plane = i / (depths * rows);
        int64_t d = i / rows % depths;
        int64_t r = i % rows;
        int64_t image = (band->plane + plane) / lines[0].results;
        int64_t depth = (band->plane + plane) % lines[0].results;
        int64_t at = plane * plan->pitch.plane + d * plan->pitch.line[0] +
                     r * plan->pitch.line[1];
        int64_t place[IPU_LINES] = {ipu__line_base(&lines[0], depth) + d,
                                    ipu__line_base(&lines[1], band->row) + r,
                                    ipu__line_base(&lines[2], band->column)};
        int64_t step = g->source.channels;
        const float *x =
            ipu__source_row_at(from, image, place[0], place[1], place[2], columns);
        if (x == NULL) {
            ipu__source_row(from, image, place[0], place[1], place[2], columns, s->row);
            x = s->row;
            step = from->channels;
        }
        for (int64_t t = first; t <= last; t++) {
            int64_t channel = ipu__share_of(from->channels, plan->strips, t);
            int64_t end = ipu__share_of(from->channels, plan->strips, t + 1);
            g->tiles->strip(x + channel, step, end - channel, columns,
                            s->source + (t - first) * plan->strip_floats + at);
        }
    }
}

/* Where the chains over a pixel's block are made. */
static float *
chains_at(const filter_call *call, int64_t pixel)
{
    return call->pixel_parts > 1
               ? call->totals + pixel / IPU_SUM_BLOCK * call->plan->level
               : call->result;
}

/* What becomes of chains over pixels [pixel, pixel + count), for results from element
 * `at` on. */
static ipu__filter_chains
chains_of(const filter_call *call, int64_t pixel, int64_t count, int64_t at)
{
    const int64_t next = pixel + count;
    const bool is_last = next == pixels_of(&call->plan->g);
    ipu__filter_chains chains = {.more = pixel % IPU_SUM_BLOCK > 0,
                                 .totals = call->totals + at,
                                 .level_floats = call->plan->level};
    if (call->pixel_parts == 1 && (is_last || next % IPU_SUM_BLOCK == 0)) {
        ipu__sum_step step = ipu__sum_step_of(pixel / IPU_SUM_BLOCK, is_last);
        chains.adds = step.adds;
        chains.to = is_last ? NULL : chains.totals + step.level * chains.level_floats;
    }
    return chains;
}

/* Pixels of y. */
typedef struct pixel_range {
    int64_t begin;
    int64_t end;
} pixel_range;

/* Of `pixels` pixels from `pixel` on, how many are in its block. */
static int64_t
in_block(int64_t pixel, int64_t pixels)
{
    return ipu__min(pixels, IPU_SUM_BLOCK - pixel % IPU_SUM_BLOCK);
}

/* A group's filters of some pixels of y, into panels. */
static void
pack_pixels(const ipu__conv_geometry *g, const float *y, int64_t pixels, float *panels)
{
    const int64_t filters = g->c.filters / g->c.groups;
    const int64_t width = g->tiles->columns;
    for (int64_t i = 0; i < pixels; i += AT_ONCE) {
        for (int64_t j = 0; j < filters; j += width) {
            g->tiles->pack(y + i * g->c.filters + j, g->c.filters, 1,
                           ipu__min(filters - j, width), ipu__min(pixels - i, AT_ONCE),
                           panels + j * pixels + i * width);
        }
    }
}

/* Row groups [begin, end) of one group over the pixels of a band. */
static void
make_rows(const filter_call *call, const part_scratch *s, const ipu__band *band,
          pixel_range all, int64_t group, int64_t begin, int64_t end)
{
    const filter_plan *plan = call->plan;
    const ipu__conv_geometry *g = &plan->g;
    const ipu_convolution *c = &g->c;
    const int64_t filters = c->filters / c->groups;
    const int64_t pixels = ipu__band_pixels(band);
    ipu__source from = {.g = g,
                        .data = call->x,
                        .channel = group * c->depth,
                        .channels = c->depth,
                        .repeat = 1,
                        .temporary = s->temporary};
    int64_t first = plan->flat ? 0 : plan->rows[begin].at / plan->strip_floats;
    int64_t last = plan->flat ? 0 : plan->rows[end - 1].at / plan->strip_floats;
    load_strips(plan, &from, band, first, last, s);
    const int64_t start = ipu__band_start(g, band);
    const float *y =
        ipu__pixels_f32(g, call->y, start, pixels, s->pixels, s->temporary);
    pack_pixels(g, y + group * filters, pixels, s->panels);
    ipu__filter_block block = {.strips = s->source,
                               .origin = first * plan->strip_floats,
                               .rows = plan->rows + begin,
                               .groups = end - begin,
                               .length = band->columns,
                               .step = g->lines[2].step * plan->pitch.line[2],
                               .panel_rows = pixels,
                               .result_row = c->filters,
                               .columns = filters};
    for (int64_t i = all.begin - start, count; i < all.end - start; i += count) {
        count = in_block(start + i, all.end - start - i);
        const int64_t line = i / band->columns;
        block.offsets = plan->offsets + line;
        block.segments = (i + count - 1) / band->columns - line + 1;
        block.begin = i % band->columns;
        block.end = (i + count - 1) % band->columns + 1;
        block.panels = s->panels + i * g->tiles->columns;
        block.result = chains_at(call, start + i) + group * filters;
        block.chains = chains_of(call, start + i, count, group * filters);
        g->tiles->filter(&block);
    }
}

/* Asks for what follows in the order of memory: processors do not see by themselves that
 * packing will come to all of it. */
static void
fetch(const float *from, int64_t floats)
{
    enum { LINE = 16 };
    for (int64_t i = 0; i < floats; i += LINE) {
        __builtin_prefetch(from + i);
    }
}

/* Row groups [begin, end) of one group, where a window is one place and each place of x
 * has its pixel of y. */
static void
make_in_place(const filter_call *call, const part_scratch *s, pixel_range all,
              int64_t group, int64_t begin, int64_t end)
{
    static const int64_t whole[1] = {0};
    const filter_plan *plan = call->plan;
    const ipu__conv_geometry *g = &plan->g;
    const int64_t channels = g->source.channels;
    const int64_t filters = g->c.filters / g->c.groups;
    for (int64_t i = all.begin, count; i < all.end; i += count) {
        count = in_block(i, ipu__min(all.end - i, IN_PLACE_PIXELS));
        const float *x = (const float *)call->x + i * channels;
        const float *y = (const float *)call->y + i * g->c.filters;
        if (g->c.groups == 1) {
            fetch(y, count * filters);
        }
        pack_pixels(g, y + group * filters, count, s->panels);
        if (g->c.groups == 1) {
            memcpy(s->source, x, (size_t)(count * channels) * sizeof *x);
            x = s->source;
        }
        ipu__filter_block block = {.strips = x + group * g->c.depth,
                                   .rows = plan->rows + begin,
                                   .groups = end - begin,
                                   .offsets = whole,
                                   .segments = 1,
                                   .length = count,
                                   .end = count,
                                   .step = channels,
                                   .panels = s->panels,
                                   .panel_rows = count,
                                   .result = chains_at(call, i) + group * filters,
                                   .result_row = g->c.filters,
                                   .columns = filters,
                                   .chains =
                                       chains_of(call, i, count, group * filters)};
        g->tiles->filter(&block);
    }
}

/* Channels [first, last) of a depthwise one over the pixels of a band. */
static void
make_channels(const filter_call *call, const part_scratch *s, const ipu__band *band,
              pixel_range all, int64_t first, int64_t last)
{
    const filter_plan *plan = call->plan;
    const ipu__conv_geometry *g = &plan->g;
    const ipu__line *lines = g->lines;
    const int64_t pixels = ipu__band_pixels(band);
    ipu__source from = {.g = g,
                        .data = call->x,
                        .channels = g->source.channels,
                        .repeat = plan->repeat,
                        .temporary = s->temporary};
    ipu__source_band(&from, band, s->source);
    for (int64_t i = 0; i < pixels; i++) {
        int64_t line = i / band->columns;
        s->places[i] = line / band->rows * plan->pitch.plane +
                       line % band->rows * lines[1].step * plan->pitch.line[1] +
                       i % band->columns * lines[2].step * plan->pitch.line[2];
    }
    const int64_t start = ipu__band_start(g, band);
    const float *y =
        ipu__pixels_f32(g, call->y, start, pixels, s->pixels, s->temporary);
    ipu__depthwise_filter d = {.source = s->source,
                               .offsets = plan->offsets,
                               .taps = ipu_conv_positions(&g->c),
                               .channels = g->c.filters,
                               .first_channel = first,
                               .last_channel = last};
    for (int64_t i = all.begin - start; i < all.end - start; i += d.pixels) {
        d.pixels = in_block(start + i, all.end - start - i);
        d.at = s->places + i;
        d.result = chains_at(call, start + i);
        d.other = y + i * g->c.filters;
        d.chains = chains_of(call, start + i, d.pixels, 0);
        g->tiles->depthwise_filter(&d);
    }
}

/* --- a call ------------------------------------------------------------------------- */

/* Units [begin, end), all of one group, over some pixels. */
static void
make_part(const filter_call *call, const part_scratch *s, pixel_range all,
          int64_t group, int64_t begin, int64_t end)
{
    const filter_plan *plan = call->plan;
    const ipu__conv_geometry *g = &plan->g;
    const int64_t planes = g->source.images * g->lines[0].results;
    const int64_t bands = ipu__band_count(g, planes);
    if (plan->in_place) {
        make_in_place(call, s, all, group, begin, end);
        return;
    }
    for (int64_t i = 0; i < bands; i++) {
        ipu__band band = ipu__band_of(g, 0, planes, i);
        int64_t start = ipu__band_start(g, &band);
        pixel_range own = {ipu__max(all.begin, start),
                           ipu__min(all.end, start + ipu__band_pixels(&band))};
        if (own.begin >= own.end) {
            continue;
        }
        if (plan->depthwise) {
            make_channels(call, s, &band, own, begin * CHANNELS,
                          ipu__min(end * CHANNELS, g->c.filters));
        } else {
            make_rows(call, s, &band, own, group, begin, end);
        }
    }
}

static void
make_parts(void *state, int64_t first_part, int64_t end_part, void *scratch)
{
    const filter_call *call = state;
    const filter_plan *plan = call->plan;
    const int64_t pixels = pixels_of(&plan->g);
    const int64_t blocks = ipu__sum_blocks(pixels);
    const int64_t parts = call->pixel_parts;
    const int64_t of_group = plan->depthwise ? plan->units : plan->row_count;
    part_scratch s = cut_scratch(plan, scratch);
    for (int64_t part = first_part; part < end_part; part++) {
        int64_t i = part % parts;
        pixel_range all = {ipu__share_of(blocks, parts, i) * IPU_SUM_BLOCK,
                           ipu__share_of(blocks, parts, i + 1) * IPU_SUM_BLOCK};
        all.end = ipu__min(all.end, pixels);
        int64_t begin = ipu__share_of(plan->units, call->row_parts, part / parts);
        int64_t end = ipu__share_of(plan->units, call->row_parts, part / parts + 1);
        for (int64_t last; begin < end; begin = last) {
            int64_t group = begin / of_group;
            int64_t first = group * of_group;
            last = ipu__min(end, first + of_group);
            make_part(call, &s, all, group, begin - first, last - first);
        }
    }
}

/* Adds up the blocks of a sum that lie side by side, ADDED_FLOATS of each at a time. */
static void
add_blocks(void *state, int64_t begin, int64_t end)
{
    const filter_call *call = state;
    const filter_plan *plan = call->plan;
    const ipu__vector_f32 *vector = ipu__vector_f32_of(plan->g.cpu);
    for (int64_t task = begin; task < end; task++) {
        const int64_t at = task * ADDED_FLOATS;
        const int64_t n = ipu__min(plan->elements - at, ADDED_FLOATS);
        float *totals[IPU_SUM_LEVELS];
        float *block = call->totals + at;
        for (int64_t i = 0; i < plan->blocks; i++, block += plan->level) {
            ipu__sum_step step = ipu__sum_step_of(i, i == plan->blocks - 1);
            for (int32_t level = 0; step.adds >> level != 0; level++) {
                if ((step.adds >> level & 1) != 0) {
                    vector->add(block, totals[level], block, n);
                }
            }
            totals[step.level] = block;
        }
        memcpy(call->result + at, totals[0], (size_t)n * sizeof(float));
    }
}

/* A part of the rows copies all of y, one of the pixels makes all rows. Bits do not
 * depend on it. The last thread takes at most an equal share of the work and of the
 * largest part all but such a share (Graham, "Bounds on multiprocessing timing
 * anomalies", 1969). */
static void
cut(filter_call *call, const ipu_pool *pool)
{
    const filter_plan *plan = call->plan;
    const int64_t hands = ipu_pool_hands(pool);
    const int64_t most = ipu__min(PARTS_PER_THREAD * hands, plan->most_parts);
    int64_t least = INT64_MAX;
    for (int64_t parts = 1; parts <= ipu__min(most, plan->blocks); parts++) {
        int64_t rows = hands == 1 ? 1 : ipu__min(most / parts, plan->units);
        int64_t largest = ipu__ceil_div(plan->blocks, parts) *
                          (ipu__ceil_div(plan->units, rows) + COPIED_UNITS);
        int64_t cost = plan->blocks * (plan->units + rows * COPIED_UNITS) +
                       (hands - 1) * largest;
        if (cost < least) {
            least = cost;
            call->row_parts = rows;
            call->pixel_parts = parts;
        }
    }
}

static ipu_status
run_filter(const ipu_kernel_call *call)
{
    const filter_plan *plan = call->spec->prepared;
    float *wide = call->workspace;
    filter_call job = {.plan = plan,
                       .x = call->inputs[0],
                       .y = call->inputs[1],
                       .result = plan->wide > 0 ? wide : call->outputs[0],
                       .totals = wide + plan->wide};
    cut(&job, call->pool);
    ipu__share_out(call->pool, job.row_parts * job.pixel_parts, make_parts, &job,
                   job.totals + plan->levels * plan->level,
                   (size_t)scratch_floats(plan) * sizeof(float));
    if (job.pixel_parts > 1) {
        ipu__run_items(call->pool, ipu__ceil_div(plan->elements, ADDED_FLOATS), 1,
                       add_blocks, &job);
    }
    if (plan->wide > 0) {
        ipu__floats_to_halves(call->outputs[0], wide, plan->elements, plan->g.cpu);
    }
    return IPU_OK;
}

/* --- prepare ------------------------------------------------------------------------ */

static int64_t
tap_offset(const filter_plan *plan, int64_t position)
{
    const ipu__line *lines = plan->g.lines;
    int64_t offset = 0;
    for (int32_t i = IPU_LINES - 1; i >= 0; i--) {
        int64_t window = lines[i].starts[1];
        offset += lines[i].deltas[position % window] * plan->pitch.line[i];
        position /= window;
    }
    return offset;
}

/* `width` elements of filters from `row`, at neighbouring places from `at`. */
static void
add_rows(ipu__filter_rows *rows, int64_t *count, int64_t tile, int64_t at, int64_t row,
         int64_t width)
{
    int64_t tiles = ipu__ceil_div(width, tile);
    for (int64_t i = 0; i < tiles; i++) {
        int64_t first = ipu__share_of(width, tiles, i);
        rows[(*count)++] = (ipu__filter_rows){
            at + first, ipu__share_of(width, tiles, i + 1) - first, row + first};
    }
}

static ipu_status
prepare_rows(const ipu__preparation *p, filter_plan *plan)
{
    const ipu_convolution *c = &plan->g.c;
    const int64_t positions = ipu_conv_positions(c);
    const int64_t tile = plan->g.tiles->rows;
    const ipu__line *last = &plan->g.lines[2];
    const bool neighbours = last->starts[1] == 1 || last->deltas[1] == 1;
    const int64_t together = plan->flat && neighbours ? last->starts[1] : 1;
    ipu__filter_rows *rows;
    int64_t count =
        plan->flat ? positions / together * ipu__ceil_div(together * c->depth, tile)
                   : positions * plan->strips;
    IPU_TRY(ipu_arena_alloc(p->ctx, p->arena, (size_t)count * sizeof(*rows), &rows));
    for (int64_t t = 0; t < plan->strips; t++) {
        int64_t channel = ipu__share_of(c->depth, plan->strips, t);
        int64_t width = ipu__share_of(c->depth, plan->strips, t + 1) - channel;
        for (int64_t k = 0; k < positions; k += together) {
            add_rows(rows, &plan->row_count, tile,
                     t * plan->strip_floats + tap_offset(plan, k),
                     k * c->depth + channel, width * together);
        }
    }
    plan->rows = rows;
    return IPU_OK;
}

static ipu_status
prepare_offsets(const ipu__preparation *p, filter_plan *plan)
{
    const ipu__conv_geometry *g = &plan->g;
    const int64_t positions = ipu_conv_positions(&g->c);
    int64_t count = plan->depthwise ? positions : g->bands.planes * g->bands.rows;
    int64_t *offsets;
    IPU_TRY(
        ipu_arena_alloc(p->ctx, p->arena, (size_t)count * sizeof(*offsets), &offsets));
    for (int64_t i = 0; i < count; i++) {
        offsets[i] = plan->depthwise ? tap_offset(plan, i)
                                     : i / g->bands.rows * plan->pitch.plane +
                                           i % g->bands.rows * g->lines[1].step *
                                               plan->pitch.line[1];
    }
    plan->offsets = offsets;
    return IPU_OK;
}

/* Whether x has a place for each pixel of y, in the same order, as tiles read it. */
static bool
reads_in_place(const ipu__conv_geometry *g)
{
    bool same = ipu_conv_positions(&g->c) == 1 && !g->source.channels_first &&
                g->source.dtype == IPU_DTYPE_FLOAT32;
    for (int32_t i = 0; i < IPU_LINES; i++) {
        const ipu__line *line = &g->lines[i];
        same =
            same && line->step == 1 && line->low == 0 && line->source == line->results;
    }
    return same;
}

static void
prepare_scratch(filter_plan *plan)
{
    const ipu__conv_geometry *g = &plan->g;
    const ipu_convolution *c = &g->c;
    const int64_t pixels = g->bands.planes * g->bands.rows * g->bands.columns;
    const int64_t channels = plan->depthwise ? g->source.channels : c->depth;
    const int64_t width = g->tiles->columns;
    const bool plain =
        g->result.dtype == IPU_DTYPE_FLOAT32 && !g->result.channels_first;
    int64_t temporary = ipu__source_temporary(g, channels);
    plan->elements = ipu_conv_positions(c) * c->depth * c->filters;
    plan->level = ipu__whole_lines(plan->elements);
    plan->blocks = ipu__sum_blocks(pixels_of(g));
    plan->levels = ipu__sum_levels(plan->blocks);
    if (plan->level <= BLOCKS_FLOATS / plan->blocks) {
        plan->levels = ipu__max(plan->levels, plan->blocks);
    } else {
        plan->blocks = 1;
    }
    plan->wide = g->result.dtype == IPU_DTYPE_FLOAT16 ? plan->level : 0;
    if (!plain) {
        plan->pixels = ipu__whole_lines(pixels * c->filters);
        temporary = ipu__max(temporary, pixels * c->filters);
    }
    plan->temporary = ipu__whole_lines(temporary);
    plan->source = plan->in_place
                       ? ipu__whole_lines(IN_PLACE_PIXELS * g->source.channels)
                       : ipu__whole_lines(plan->strips * plan->strip_floats);
    if (plan->depthwise) {
        plan->places = ipu__whole_lines(pixels);
        return;
    }
    plan->row =
        ipu__whole_lines(channels * ipu__line_extent(&g->lines[2], g->bands.columns));
    plan->panels = ipu__ceil_div(c->filters / c->groups, width) * width *
                   (plan->in_place ? IN_PLACE_PIXELS : pixels);
}

ipu_status
ipu__conv_filter_prepare(const ipu__preparation *p)
{
    enum { OVERRUN = 16 };
    ipu_kernel_spec *spec = p->spec;
    ipu__conv_geometry whole;
    filter_plan *plan;
    IPU_TRY(ipu__conv_geometry_of(p, &whole));
    if (ipu__winograd_serves_filter(&whole)) {
        return ipu__winograd_filter_prepare(p, &whole);
    }
    IPU_TRY(ipu__prepared(p, sizeof *plan, &plan));
    plan->g = whole;
    ipu__conv_geometry *g = &plan->g;
    const ipu_convolution *c = &g->c;
    plan->depthwise = ipu__conv_is_depthwise(c);
    plan->repeat = plan->depthwise ? c->filters / c->groups : 1;
    plan->in_place = !plan->depthwise && reads_in_place(g);
    plan->flat = plan->depthwise || plan->in_place || c->depth <= FEW_CHANNELS;
    plan->strips = plan->flat ? 1 : ipu__ceil_div(c->depth, g->tiles->rows);
    ipu__conv_cut(g, plan->depthwise ? c->filters : c->depth, BAND_PIXELS, 1);
    plan->pitch = ipu__band_pitch(g, plan->depthwise ? c->filters
                                     : plan->flat    ? c->depth
                                                     : g->tiles->rows);
    plan->strip_floats =
        ipu__whole_lines(g->bands.planes * plan->pitch.plane + OVERRUN);
    IPU_TRY(prepare_offsets(p, plan));
    if (!plan->depthwise) {
        IPU_TRY(prepare_rows(p, plan));
    }
    prepare_scratch(plan);
    plan->units = plan->depthwise ? ipu__ceil_div(c->filters, CHANNELS)
                                  : c->groups * plan->row_count;
    const size_t part_bytes = (size_t)scratch_floats(plan) * sizeof(float);
    const int64_t most = ipu__share_most(part_bytes);
    const double parts =
        2.0 * (double)plan->elements * (double)pixels_of(g) / FLOPS_PER_PART;
    plan->most_parts = parts < (double)most ? ipu__max((int64_t)parts, 1) : most;
    spec->run = run_filter;
    spec->kernel_name = plan->depthwise  ? g->tiles->depthwise_filter_name
                        : plan->in_place ? g->tiles->in_place_name
                                         : g->tiles->filter_name;
    spec->workspace_bytes =
        (size_t)(plan->wide + plan->levels * plan->level) * sizeof(float) +
        ipu__share_bytes(plan->most_parts, part_bytes);
    return IPU_OK;
}
