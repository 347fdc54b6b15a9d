/* SPDX-License-Identifier: MIT
 *
 * conv_grad_filter by 16 products in place of 36, the transpose of conv_winograd.c:
 *
 *   dW = G^T [ sum over patches of (B^T d B) * (A dY A^T) ] G,
 *
 * where the sum is 16 products of matrices, [channel of x][patch] by [patch][channel of
 * y], by the tiles of conv_filter.c.
 *
 * Threads take blocks of channels, and runs of patches. A run goes through the bands of y
 * one by one, adding to its 16 matrices; chains end after IPU_SUM_BLOCK patches. When all
 * are there, the matrices of the runs are added up, one after another, and transformed
 * back. Bands and runs follow from the shape, so bits do not depend on threads. Blocks,
 * of which many threads get smaller ones, change no sum: transforms are made again for
 * each of them. */
#include "kernels/conv/conv_run_impl.h"

enum {
    BAND_PIXELS = 256,
    MOST_CHANNELS = 64, /* of a block, whose matrices stay in a cache */
    LEAST_PATCHES = 32,  /* to pay for what follows the products */
    USUAL_PARTS = 4, /* runs, of each block of channels */
    MOST_PARTS = 16,
    BANDS_OF_RUN = 4, /* at least, where there are more than the usual parts */
    RUNS_FLOATS = 1 << 22, /* of the matrices of all runs */
    MATRICES = IPU_WINOGRAD_MATRICES,
    POSITIONS = 9
};

/* Blocks of channels of x and of y. */
typedef struct channel_cut {
    int64_t in; /* channels of a block */
    int64_t out;
    int64_t in_blocks; /* of a group */
    int64_t out_blocks;
    int64_t blocks; /* of all groups */
    int64_t matrix; /* floats: of a product of a block, and of all of a run */
    int64_t run;
} channel_cut;

typedef struct filter_plan {
    ipu__conv_geometry g;
    int64_t inner; /* channels of a group of x and of y */
    int64_t outer;
    channel_cut usual;
    channel_cut fine; /* for many threads */
    int64_t bands;
    int64_t runs;
    int64_t leaf; /* bands of a chain */
    bool plain;   /* y is read where it lies */
    /* floats in the workspace, ... */
    int64_t wide;   /* the result of float16 */
    int64_t totals; /* of all runs */
    /* ... and in each part's scratch */
    int64_t source;
    int64_t temporary;
    int64_t pixels;
    int64_t patch_step; /* from matrix to matrix */
    int64_t quad_step;
    int64_t places; /* 64-bit, five times */
} filter_plan;

typedef struct filter_call {
    const filter_plan *plan;
    const channel_cut *cut;
    const void *x;
    const void *y;
    float *result;
    float *totals;
} filter_call;

/* Some channels of x and y, which are of one group. */
typedef struct channel_block {
    int64_t group;
    int64_t in; /* in the group */
    int64_t in_count;
    int64_t out;
    int64_t out_count;
} channel_block;

typedef struct part_scratch {
    float *source;
    float *temporary;
    float *pixels;
    float *patches;
    float *quads;
    float *chains;
    int64_t *at;
    int64_t *to;
} part_scratch;

static int64_t
scratch_floats(const filter_plan *plan)
{
    return plan->source + plan->temporary + plan->pixels +
           MATRICES * (plan->patch_step + plan->quad_step + plan->usual.matrix) +
           10 * plan->places;
}

static part_scratch
cut_scratch(const filter_plan *plan, float *scratch)
{
    part_scratch s = {.source = scratch};
    s.temporary = s.source + plan->source;
    s.pixels = s.temporary + plan->temporary;
    s.patches = s.pixels + plan->pixels;
    s.quads = s.patches + MATRICES * plan->patch_step;
    s.chains = s.quads + MATRICES * plan->quad_step;
    s.at = (void *)(s.chains + MATRICES * plan->usual.matrix);
    s.to = s.at + plan->places;
    return s;
}

static channel_block
block_of(const filter_call *call, int64_t i)
{
    const filter_plan *plan = call->plan;
    const channel_cut *cut = call->cut;
    const int64_t in = i / cut->out_blocks % cut->in_blocks * cut->in;
    const int64_t out = i % cut->out_blocks * cut->out;
    return (channel_block){.group = i / cut->out_blocks / cut->in_blocks,
                           .in = in,
                           .in_count = ipu__min(plan->inner - in, cut->in),
                           .out = out,
                           .out_count = ipu__min(plan->outer - out, cut->out)};
}

/* --- a band ------------------------------------------------------------------------- */

/* B^T d B of a band's patches. Places beyond the last window of an odd row or column
 * meet zeros of y, and must be numbers. */
static int64_t
load_patches(const filter_call *call, const channel_block *block, const ipu__band *band,
             const ipu__quad_places *places, const part_scratch *s)
{
    const ipu__conv_geometry *g = &call->plan->g;
    const ipu__source from = {.g = g,
                              .data = call->x,
                              .channel = block->group * call->plan->inner + block->in,
                              .channels = block->in_count,
                              .repeat = 1,
                              .temporary = s->temporary};
    if (band->rows % 2 != 0 || band->columns % 2 != 0) {
        memset(s->source, 0, (size_t)call->plan->source * sizeof(float));
    }
    ipu__source_band(&from, band, s->source);
    const int64_t count = ipu__winograd_places(places, s->at, s->to);
    g->tiles->winograd_patches(&(ipu__patches){
        .source = s->source,
        .at = s->at,
        .count = count,
        .row = places->pitch.line[1],
        .column = places->pitch.line[2],
        .channels = block->in_count,
        .out = s->patches,
        .step = call->plan->patch_step,
    });
    return count;
}

/* A band's pixels of y as float32; row after row where they are not in place. */
static const float *
pixels_of(const filter_call *call, const ipu__band *band, const part_scratch *s)
{
    const filter_plan *plan = call->plan;
    const int64_t floats = band->columns * plan->g.c.filters;
    if (plan->plain) {
        return (const float *)call->y +
               ipu__band_start(&plan->g, band) * plan->g.c.filters;
    }
    for (int64_t i = 0; i < band->planes * band->rows; i++) {
        ipu__band row = *band;
        row.plane += i / band->rows;
        row.row += i % band->rows;
        (void)ipu__pixels_f32(&plan->g, call->y, ipu__band_start(&plan->g, &row),
                              band->columns, s->pixels + i * floats, s->temporary);
    }
    return s->pixels;
}

/* Adds the products of a band to chains, which lie in matrices; the last band of a chain
 * adds it to `totals`, unless it is there. */
static void
make_band(const filter_call *call, const channel_block *block, const ipu__band *band,
          bool more, bool is_last, float *chains, float *totals, const part_scratch *s)
{
    static const int64_t here = 0;
    const filter_plan *plan = call->plan;
    const ipu__conv_geometry *g = &plan->g;
    const int64_t matrix = call->cut->matrix;
    const int64_t tiles = ipu__ceil_div(block->in_count, g->tiles->rows);
    ipu__filter_rows rows[MOST_CHANNELS];
    for (int64_t i = 0; i < tiles; i++) {
        const int64_t row = ipu__share_of(block->in_count, tiles, i);
        const int64_t end = ipu__share_of(block->in_count, tiles, i + 1);
        rows[i] = (ipu__filter_rows){row, end - row, row};
    }
    const ipu__quad_places places = {
        .band = band,
        .pitch = ipu__band_pitch(g, block->in_count),
        .line = plan->plain ? g->lines[2].results : band->columns,
        .channels = g->c.filters,
    };
    const int64_t count = load_patches(call, block, band, &places, s);
    g->tiles->winograd_gradients(&(ipu__quad_gradients){
        .gradients = pixels_of(call, band, s) + block->group * plan->outer + block->out,
        .at = s->to,
        .count = count,
        .channels = block->out_count,
        .panels = s->quads,
        .step = plan->quad_step,
    });
    for (int64_t i = 0; i < MATRICES; i++) {
        ipu__filter_block product = {
            .strips = s->patches + i * plan->patch_step,
            .rows = rows,
            .groups = tiles,
            .offsets = &here,
            .segments = 1,
            .length = count,
            .end = count,
            .step = block->in_count,
            .panels = s->quads + i * plan->quad_step,
            .panel_rows = count,
            .result = chains + i * matrix,
            .result_row = call->cut->out,
            .columns = block->out_count,
            .chains = {.more = more, .totals = totals + i * matrix},
        };
        if (is_last && chains != totals) {
            product.chains.adds = 1;
            product.chains.to = totals + i * matrix;
        }
        g->tiles->filter(&product);
    }
}

/* --- a call ------------------------------------------------------------------------- */

static void
make_parts(void *state, int64_t first, int64_t end, void *scratch)
{
    const filter_call *call = state;
    const filter_plan *plan = call->plan;
    const ipu__conv_geometry *g = &plan->g;
    const part_scratch s = cut_scratch(plan, scratch);
    const int64_t planes = g->source.images * g->lines[0].results;
    for (int64_t part = first; part < end; part++) {
        const int64_t run = part % plan->runs;
        const int64_t own = part / plan->runs;
        const channel_block block = block_of(call, own);
        const int64_t begin = ipu__share_of(plan->bands, plan->runs, run);
        const int64_t bands = ipu__share_of(plan->bands, plan->runs, run + 1) - begin;
        float *totals = call->totals + run * call->cut->run +
                        own * MATRICES * call->cut->matrix;
        for (int64_t i = 0; i < bands; i++) {
            const ipu__band band = ipu__band_of(g, 0, planes, begin + i);
            make_band(call, &block, &band, i % plan->leaf > 0,
                      (i + 1) % plan->leaf == 0 || i + 1 == bands,
                      i < plan->leaf ? totals : s.chains, totals, &s);
        }
    }
}

/* Rows of filters, of a channel of x in a block of y's each. */
static void
make_rows(void *state, int64_t begin, int64_t end)
{
    const filter_call *call = state;
    const filter_plan *plan = call->plan;
    const channel_cut *cut = call->cut;
    const ipu_convolution *c = &plan->g.c;
    for (int64_t i = begin; i < end; i++) {
        const channel_block block = block_of(call, i / cut->in);
        const int64_t row = i % cut->in;
        if (row >= block.in_count) {
            continue;
        }
        plan->g.tiles->winograd_sums(&(ipu__filter_sums){
            .totals = call->totals + i / cut->in * MATRICES * cut->matrix +
                      row * cut->out,
            .runs = plan->runs,
            .run_step = cut->run,
            .step = cut->matrix,
            .columns = block.out_count,
            .result = call->result + (block.in + row) * c->filters +
                      block.group * plan->outer + block.out,
            .tap_step = c->depth * c->filters,
        });
    }
}

static ipu_status
run_filter(const ipu_kernel_call *call)
{
    enum { ROWS_OF_TASK = 2, PARTS_PER_THREAD = 2 };
    const filter_plan *plan = call->spec->prepared;
    const int64_t hands = ipu_pool_hands(call->pool);
    const bool is_fine =
        hands > 1 && plan->usual.blocks * plan->runs < PARTS_PER_THREAD * hands;
    const channel_cut *cut = is_fine ? &plan->fine : &plan->usual;
    float *wide = call->workspace;
    filter_call job = {.plan = plan,
                       .cut = cut,
                       .x = call->inputs[0],
                       .y = call->inputs[1],
                       .result = plan->wide > 0 ? wide : call->outputs[0],
                       .totals = wide + plan->wide};
    ipu__share_out(call->pool, cut->blocks * plan->runs, make_parts, &job,
                   job.totals + plan->totals,
                   (size_t)scratch_floats(plan) * sizeof(float));
    ipu__run_items(call->pool, cut->blocks * cut->in, ROWS_OF_TASK, make_rows, &job);
    if (plan->wide > 0) {
        ipu__floats_to_halves(call->outputs[0], wide,
                              POSITIONS * plan->g.c.depth * plan->g.c.filters,
                              plan->g.cpu);
    }
    return IPU_OK;
}

/* --- prepare ------------------------------------------------------------------------ */

static int64_t
patches_of(const ipu__conv_geometry *g)
{
    return g->source.images * ipu__ceil_div(g->lines[1].results, 2) *
           ipu__ceil_div(g->lines[2].results, 2);
}

bool
ipu__winograd_serves_filter(const ipu__conv_geometry *g)
{
    return !ipu__conv_is_depthwise(&g->c) &&
           ipu__winograd_serves(g, g->c.depth, g->c.filters / g->c.groups) &&
           patches_of(g) >= LEAST_PATCHES;
}

/* Equal blocks of at most `most` channels, whole lines but the last one. */
static int64_t
block_channels(int64_t channels, int64_t most)
{
    enum { LINE = 16 };
    const int64_t blocks = ipu__ceil_div(channels, most);
    return ipu__ceil_div(ipu__ceil_div(channels, blocks), LINE) * LINE;
}

static channel_cut
cut_of(const filter_plan *plan, int64_t most_in, int64_t most_out)
{
    channel_cut cut = {.in = block_channels(plan->inner, most_in),
                       .out = block_channels(plan->outer, most_out)};
    cut.in_blocks = ipu__ceil_div(plan->inner, cut.in);
    cut.out_blocks = ipu__ceil_div(plan->outer, cut.out);
    cut.blocks = plan->g.c.groups * cut.in_blocks * cut.out_blocks;
    cut.matrix = cut.in * cut.out;
    cut.run = cut.blocks * MATRICES * cut.matrix;
    return cut;
}

static void
prepare_runs(filter_plan *plan)
{
    const ipu__bands *b = &plan->g.bands;
    const int64_t patches = b->planes * (b->rows / 2) * (b->columns / 2);
    const int64_t blocks = plan->usual.blocks;
    const int64_t usual = ipu__min(plan->bands, ipu__ceil_div(USUAL_PARTS, blocks));
    const int64_t most = ipu__min(ipu__ceil_div(MOST_PARTS, blocks),
                                  ipu__max(RUNS_FLOATS / plan->usual.run, 1));
    plan->leaf = ipu__max(IPU_SUM_BLOCK / patches, 1);
    plan->runs = ipu__min(ipu__max(plan->bands / BANDS_OF_RUN, usual), most);
    plan->totals = plan->runs * ipu__max(plan->usual.run, plan->fine.run);
}

static void
prepare_scratch(filter_plan *plan)
{
    const ipu__conv_geometry *g = &plan->g;
    const ipu__bands *b = &g->bands;
    const int64_t pixels = b->planes * b->rows * b->columns;
    const int64_t width = g->tiles->columns;
    const channel_cut *cut = &plan->usual;
    int64_t temporary = ipu__source_temporary(g, cut->in);
    plan->source = ipu__whole_lines(b->planes * ipu__band_pitch(g, cut->in).plane);
    if (!plan->plain) {
        plan->pixels = ipu__whole_lines(pixels * g->c.filters);
        temporary = ipu__max(temporary, pixels * g->c.filters);
    }
    plan->temporary = ipu__whole_lines(temporary);
    plan->patch_step = ipu__whole_lines(pixels / 4 * cut->in) + IPU_WINOGRAD_APART;
    plan->quad_step = ipu__ceil_div(cut->out, width) * width * (pixels / 4);
    plan->quad_step = ipu__whole_lines(plan->quad_step) + IPU_WINOGRAD_APART;
    plan->places = ipu__whole_lines(pixels / 4);
}

ipu_status
ipu__winograd_filter_prepare(const ipu__preparation *p, const ipu__conv_geometry *g)
{
    ipu_kernel_spec *spec = p->spec;
    const ipu_convolution *c = &g->c;
    filter_plan *plan;
    IPU_TRY(ipu__prepared(p, sizeof *plan, &plan));
    plan->g = *g;
    plan->g.tiles = ipu__conv_tiles_of(p->cpu, IPU_DTYPE_FLOAT32); /* of sums */
    plan->inner = c->depth;
    plan->outer = c->filters / c->groups;
    plan->usual = cut_of(plan, MOST_CHANNELS, MOST_CHANNELS);
    plan->fine = cut_of(plan, MOST_CHANNELS / 4, MOST_CHANNELS / 2);
    ipu__conv_cut(&plan->g, plan->usual.in, BAND_PIXELS, 2);
    plan->bands = ipu__band_count(&plan->g, g->source.images * g->lines[0].results);
    plan->plain = g->result.dtype == IPU_DTYPE_FLOAT32 && !g->result.channels_first;
    if (g->result.dtype == IPU_DTYPE_FLOAT16) {
        plan->wide = ipu__whole_lines(POSITIONS * c->depth * c->filters);
    }
    prepare_runs(plan);
    prepare_scratch(plan);
    spec->run = run_filter;
    spec->kernel_name = g->tiles->winograd_name;
    spec->workspace_bytes =
        (size_t)(plan->wide + plan->totals) * sizeof(float) +
        ipu__share_bytes(plan->fine.blocks * plan->runs,
                         (size_t)scratch_floats(plan) * sizeof(float));
    return IPU_OK;
}
