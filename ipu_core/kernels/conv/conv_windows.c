/* SPDX-License-Identifier: MIT
 *
 * conv and conv_grad_input: windows that slide over a source. Both are one product for
 * each phase and group: rows are the pixels of the result, columns its channels, and a
 * sum goes over the taps of the phase and the channels of the source. No
 * matrix of windows is ever written: a pixel's row is where its window lies in the
 * source, tap after tap.
 *
 *   1. The filters are packed into panels, once in a call, by all threads.
 *   2. Threads take bands of the result. The part of the source that a band's windows
 *      are on is copied, with zeros around it; where there is no padding and channels
 *      come last, it is read in place.
 *   3. Tiles make the band's results and finish them in registers: bias, factor and
 *      shift, what is added, relu, a relu's gradient. What cannot be done there is done
 *      while they are in the cache: other activations, rounding to float16 and the steps
 *      after it, the channels' place.
 *
 * Windows of 3 x 3 that slide by one place are made from fewer products
 * (conv_winograd.c), in the same bands, with the same last steps.
 *
 * Where each channel has filters of its own there is nothing to share: vectors go over
 * the channels. Bands follow from the shape, and an element is one sum (sum_tree.h)
 * whatever band it is in, so bits depend on neither threads nor bands. */
#include "kernels/conv/conv_run_impl.h"

enum {
    BAND_PIXELS = 384,
    PACKED_ROWS = 32 /* of a panel, at a time */
};

/* Results of one phase along each line: what their windows have in common. */
typedef struct phase {
    int64_t of[IPU_LINES];
    int64_t taps;
    const int64_t *offsets; /* of segments, from a pixel's place */
    int64_t segments;
    int64_t length;
    int64_t panels; /* where its panels start in those of a group */
} phase;

typedef struct windows_plan {
    ipu__conv_geometry g;
    bool in_place;
    bool depthwise;
    bool is_winograd;
    ipu__winograd winograd;
    int64_t repeat; /* of the source's channels, of depthwise ones */
    int64_t inner;  /* channels that a sum goes over */
    int64_t outer;  /* of the result, in each group */
    ipu__pitch pitch;
    const phase *phases;
    int64_t phase_count;
    int64_t row_chunks; /* of a panel, and panels, that are packed by themselves */
    int64_t panel_count;
    int64_t filter_floats; /* of a group's filters in panels */
    int64_t group_panels;  /* of what is made of them */
    bool direct;          /* results are made where they belong */
    ipu_activation activation;
    ipu_conv_step steps[IPU_CONV_MOST_STEPS];
    int32_t step_count;
    /* floats in the workspace, ... */
    int64_t wide_filters;
    int64_t panels;
    /* ... and in each task's scratch */
    int64_t source;
    int64_t temporary;
    int64_t results;
    int64_t level_floats; /* totals of a sum's levels above the lowest one */
    int64_t upper_levels;
    int64_t places; /* 64-bit, twice */
    int64_t winograd_floats;
    /* of float16 */
    ipu__block add;
    ipu__block scale;
    ipu__block activate;
} windows_plan;

static int64_t
scratch_floats(const windows_plan *plan)
{
    return plan->source + plan->temporary + plan->results +
           plan->upper_levels * plan->level_floats + 4 * plan->places +
           plan->winograd_floats;
}

/* --- filters ------------------------------------------------------------------------ */

/* Position of the window that the taps of three lines are. */
static int64_t
position_of(const windows_plan *plan, const int64_t taps[IPU_LINES])
{
    int64_t position = 0;
    for (int32_t i = 0; i < IPU_LINES; i++) {
        int32_t given = i - (IPU_LINES - plan->g.c.spatial);
        int64_t window = given < 0 ? 1 : plan->g.c.axes[given].window;
        position = position * window + taps[i];
    }
    return position;
}

static int64_t
taps_of(const ipu__line *line, int64_t of)
{
    return line->starts[of + 1] - line->starts[of];
}

/* The position of tap `i` of a phase. */
static int64_t
tap_position(const windows_plan *plan, const phase *ph, int64_t i)
{
    int64_t taps[IPU_LINES];
    for (int32_t l = IPU_LINES - 1; l >= 0; l--) {
        const ipu__line *line = &plan->g.lines[l];
        int64_t count = taps_of(line, ph->of[l]);
        taps[l] = line->taps[line->starts[ph->of[l]] + i % count];
        i /= count;
    }
    return position_of(plan, taps);
}

/* Some filters that are packed by themselves: rows [row, row + rows) of the panel from
 * column `column` of a group on. */
typedef struct filter_chunk {
    int64_t group;
    int64_t column;
    int64_t columns;
    int64_t row;
    int64_t rows;
} filter_chunk;

static filter_chunk
chunk_of(const windows_plan *plan, int64_t i)
{
    const int64_t width = plan->g.tiles->columns;
    const int64_t column = i / plan->row_chunks % plan->panel_count * width;
    const int64_t row = i % plan->row_chunks * PACKED_ROWS;
    return (filter_chunk){.group = i / plan->row_chunks / plan->panel_count,
                          .column = column,
                          .columns = ipu__min(plan->outer - column, width),
                          .row = row,
                          .rows = ipu__min(plan->inner - row, PACKED_ROWS)};
}

/* A phase's taps of a chunk, `step` floats apart. */
static void
pack_taps(const windows_plan *plan, const float *w, const phase *ph,
          const filter_chunk *chunk, float *out, int64_t step)
{
    const ipu_convolution *c = &plan->g.c;
    const bool turned = plan->g.lines[0].turned;
    const int64_t of_row = turned ? 1 : c->filters;
    const int64_t of_column = turned ? c->filters : 1;
    w += chunk->group * (c->filters / c->groups) + chunk->row * of_row +
         chunk->column * of_column;
    for (int64_t i = 0; i < ph->taps; i++) {
        plan->g.tiles->pack(w + tap_position(plan, ph, i) * c->depth * c->filters,
                            of_row, of_column, chunk->columns, chunk->rows,
                            out + i * step);
    }
}

/* The panels of a group and phase: for each panel the taps, and in each the channels
 * that the sum goes over. Transformed ones: 16 times all panels. */
static void
pack_chunk(const windows_plan *plan, const float *w, int64_t i, float *panels)
{
    const ipu__conv_tiles *tiles = plan->g.tiles;
    const filter_chunk chunk = chunk_of(plan, i);
    panels += chunk.group * plan->group_panels;
    if (plan->is_winograd) {
        enum { TAPS = 9 };
        float taps[TAPS * PACKED_ROWS * IPU_CONV_MOST_COLUMNS];
        pack_taps(plan, w, plan->phases, &chunk, taps, chunk.rows * tiles->columns);
        tiles->winograd_filters(
            taps, chunk.rows,
            panels + chunk.column * plan->inner + chunk.row * tiles->columns,
            plan->group_panels / IPU_WINOGRAD_MATRICES);
        return;
    }
    for (int64_t k = 0; k < plan->phase_count; k++) {
        const phase *ph = &plan->phases[k];
        pack_taps(plan, w, ph, &chunk,
                  panels + ph->panels + chunk.column * ph->taps * plan->inner +
                      chunk.row * tiles->columns,
                  plan->inner * tiles->columns);
    }
}

/* Of depthwise ones: the filters of each tap, as they lie. */
static void
pack_factors(const windows_plan *plan, const float *w, const phase *ph, float *factors)
{
    const int64_t filters = plan->g.c.filters;
    for (int64_t i = 0; i < ph->taps; i++) {
        memcpy(factors + i * filters, w + tap_position(plan, ph, i) * filters,
               (size_t)filters * sizeof(float));
    }
}

typedef struct pack_job {
    const windows_plan *plan;
    const float *w;
    float *panels;
} pack_job;

static void
pack_chunks(void *state, int64_t begin, int64_t end)
{
    const pack_job *job = state;
    for (int64_t i = begin; i < end; i++) {
        pack_chunk(job->plan, job->w, i, job->panels);
    }
}

/* All of them, from `filters` of the call into the workspace. */
static float *
pack(const windows_plan *plan, ipu_pool *pool, const void *filters, float *workspace)
{
    enum { TASK_FLOATS = 16 * 1024 };
    const ipu_convolution *c = &plan->g.c;
    pack_job job = {plan, filters, workspace + plan->wide_filters};
    if (plan->wide_filters > 0) {
        ipu__halves_to_floats(workspace, filters,
                              ipu_conv_positions(c) * c->depth * c->filters,
                              plan->g.cpu);
        job.w = workspace;
    }
    for (int64_t i = 0; plan->depthwise && i < plan->phase_count; i++) {
        pack_factors(plan, job.w, &plan->phases[i], job.panels + plan->phases[i].panels);
    }
    if (!plan->depthwise) {
        const int64_t chunks = c->groups * plan->panel_count * plan->row_chunks;
        const int64_t floats = ipu__max(plan->group_panels * c->groups, 1);
        ipu__run_items(pool, chunks, ipu__max(chunks * TASK_FLOATS / floats, 1),
                       pack_chunks, &job);
    }
    return job.panels;
}

/* --- a band ------------------------------------------------------------------------- */

typedef struct windows_call {
    const windows_plan *plan;
    const void *source;
    void *result;
    const void *const *operands; /* of the steps */
    const float *relu; /* whose gradient follows, or NULL */
    const float *panels;
} windows_call;

typedef struct band_scratch {
    float *source;
    float *temporary;
    float *results;
    float *upper;
    int64_t *at;
    int64_t *to;
    float *winograd;
} band_scratch;

static band_scratch
cut_scratch(const windows_plan *plan, float *scratch)
{
    band_scratch s = {.source = scratch};
    s.temporary = s.source + plan->source;
    s.results = s.temporary + plan->temporary;
    s.upper = s.results + plan->results;
    s.at = (void *)(s.upper + plan->upper_levels * plan->level_floats);
    s.to = s.at + plan->places;
    s.winograd = (void *)(s.to + plan->places);
    return s;
}

/* Where the band's pixels of a phase start in the source and in the result; gives how
 * many they are. */
static int64_t
place_pixels(const windows_plan *plan, const ipu__band *band, const phase *ph,
             const band_scratch *s)
{
    const ipu__line *lines = plan->g.lines;
    const int64_t channels = plan->g.result.channels;
    /* what the first place is that a tap may lie on */
    const int64_t row_base =
        plan->in_place ? -lines[1].least : ipu__line_base(&lines[1], band->row);
    const int64_t column_base =
        plan->in_place ? -lines[2].least : ipu__line_base(&lines[2], band->column);
    int64_t count = 0;
    for (int64_t p = 0; p < band->planes; p++) {
        int64_t image = (band->plane + p) / lines[0].results;
        int64_t depth = (band->plane + p) % lines[0].results;
        int64_t plane = p * plan->pitch.plane;
        if (ipu__line_phase(&lines[0], depth) != ph->of[0]) {
            continue;
        }
        if (plan->in_place) {
            plane = image * plan->pitch.plane +
                    (ipu__line_base(&lines[0], depth) + lines[0].least) *
                        plan->pitch.line[0];
        }
        for (int64_t r = 0; r < band->rows; r++) {
            int64_t at = ipu__line_base(&lines[1], band->row + r) - row_base;
            int64_t line = plane + at * plan->pitch.line[1];
            int64_t pixel = (p * band->rows + r) * band->columns;
            if (ipu__line_phase(&lines[1], band->row + r) != ph->of[1]) {
                continue;
            }
            for (int64_t i = 0; i < band->columns; i++) {
                if (ipu__line_phase(&lines[2], band->column + i) != ph->of[2]) {
                    continue;
                }
                at = ipu__line_base(&lines[2], band->column + i) - column_base;
                s->at[count] = line + at * plan->pitch.line[2];
                s->to[count++] = (pixel + i) * channels;
            }
        }
    }
    return count;
}

/* The last steps of tiles in float32, from column `column` and element `element` of the
 * result. */
static ipu__conv_finish
finish_of(const windows_call *call, int64_t column, int64_t element)
{
    const windows_plan *plan = call->plan;
    ipu__conv_finish finish = {.count = 0};
    if (plan->g.result.dtype == IPU_DTYPE_FLOAT16) {
        return finish;
    }
    for (int32_t k = 0; k < plan->step_count; k++) {
        const bool whole = plan->steps[k] == IPU_CONV_ADD;
        finish.steps[k].step = plan->steps[k];
        finish.steps[k].values =
            (const float *)call->operands[k] + (whole ? element : column);
    }
    finish.relu_grad = call->relu == NULL || !plan->direct ? NULL : call->relu + element;
    finish.count = plan->step_count;
    finish.relu = plan->activation == IPU_ACTIVATION_RELU;
    return finish;
}

/* float16: rounded, then the steps and the activation, which round once each. */
static void
finish_halves(const windows_call *call, const float *results, int64_t start,
              int64_t pixels)
{
    enum { PIECE = IPU_BLOCK_BYTES / 4 };
    const windows_plan *plan = call->plan;
    const int64_t channels = plan->g.result.channels;
    for (int64_t i = 0; i < pixels; i++) {
        for (int64_t j = 0; j < channels; j += PIECE) {
            int64_t count = ipu__min(channels - j, PIECE);
            int64_t at = (start + i) * channels + j;
            uint16_t *to = (uint16_t *)call->result + at;
            ipu__floats_to_halves(to, results + i * channels + j, count, plan->g.cpu);
            for (int32_t k = 0; k < plan->step_count; k++) {
                const bool whole = plan->steps[k] == IPU_CONV_ADD;
                const bool scales = plan->steps[k] == IPU_CONV_SCALE;
                const ipu__block *step = scales ? &plan->scale : &plan->add;
                const uint16_t *operand = call->operands[k];
                (void)step->run(step, to, to, operand + (whole ? at : j), NULL, count);
            }
            if (plan->activation != IPU_ACTIVATION_NONE) {
                (void)plan->activate.run(&plan->activate, to, to, NULL, NULL, count);
            }
        }
    }
}

/* Where a relu was above 0 the results, else 0; it may lie where they go. */
static void
finish_relu_grad(const windows_call *call, const float *results, int64_t first,
                 int64_t count)
{
    float *to = (float *)call->result + first;
    const float *y = call->relu + first;
    for (int64_t i = 0; i < count; i++) {
        to[i] = y[i] > 0.0f ? results[i] : 0.0f;
    }
}

/* A band's results [pixel][channel] to where they belong. */
static void
deliver(const windows_call *call, const ipu__band *band, float *results,
        float *temporary)
{
    const windows_plan *plan = call->plan;
    const ipu__images *y = &plan->g.result;
    const bool halves = y->dtype == IPU_DTYPE_FLOAT16;
    const int64_t start = ipu__band_start(&plan->g, band);
    const int64_t pixels = ipu__band_pixels(band);
    const int64_t channels = y->channels;
    const int64_t places = y->sizes[0] * y->sizes[1] * y->sizes[2];
    const ipu__vector_f32 *vector = ipu__vector_f32_of(plan->g.cpu);
    if (call->relu != NULL && !plan->direct) {
        finish_relu_grad(call, results, start * channels, pixels * channels);
        return;
    }
    if (halves && !y->channels_first) {
        finish_halves(call, results, start, pixels);
        return;
    }
    if (!halves && plan->activation == IPU_ACTIVATION_TANH) {
        vector->tanh(results, results, pixels * channels);
    } else if (!halves && plan->activation == IPU_ACTIVATION_SIGMOID) {
        vector->sigmoid(results, results, pixels * channels);
    }
    for (int64_t i = 0; y->channels_first && i < pixels;) {
        int64_t image = (start + i) / places;
        int64_t place = (start + i) % places;
        int64_t count = ipu__min(pixels - i, places - place);
        int64_t at = image * channels * places + place;
        float *out = halves ? temporary : (float *)call->result + at;
        int64_t row = halves ? count : places;
        plan->g.tiles->turn(count, channels, results + i * channels, channels, out,
                            row);
        for (int64_t c = 0; halves && c < channels; c++) {
            uint16_t *to = (uint16_t *)call->result + at + c * places;
            ipu__floats_to_halves(to, out + c * count, count, plan->g.cpu);
            if (plan->activation != IPU_ACTIVATION_NONE) {
                ipu__block whole = plan->activate;
                enum { PIECE = IPU_BLOCK_BYTES / 4 };
                for (int64_t j = 0; j < count; j += PIECE) {
                    (void)whole.run(&whole, to + j, to + j, NULL, NULL,
                                    ipu__min(count - j, PIECE));
                }
            }
        }
        i += count;
    }
}

/* Pixels from row to row of a band's results where they are made. */
static int64_t
result_line(const windows_plan *plan, const ipu__band *band)
{
    return plan->direct ? plan->g.lines[2].results : band->columns;
}

/* Row by row where they do not follow each other. */
static void
deliver_band(const windows_call *call, const ipu__band *band, float *results,
             float *temporary)
{
    const ipu__conv_geometry *g = &call->plan->g;
    if (band->columns == g->lines[2].results) {
        deliver(call, band, results, temporary);
        return;
    }
    for (int64_t i = 0; i < band->rows; i++) {
        const ipu__band row = {.plane = band->plane,
                               .planes = 1,
                               .row = band->row + i,
                               .rows = 1,
                               .column = band->column,
                               .columns = band->columns};
        deliver(call, &row,
                results + i * result_line(call->plan, band) * g->result.channels,
                temporary);
    }
}

/* A group's results of a band, from `source`, by 16 products. */
static void
make_quads(const windows_call *call, const ipu__band *band, int64_t group,
           const float *source, float *results, float *scratch)
{
    const windows_plan *plan = call->plan;
    const ipu__conv_geometry *g = &plan->g;
    const int64_t column = group * plan->outer;
    const ipu__conv_finish finish = finish_of(
        call, column, ipu__band_start(g, band) * g->result.channels + column);
    ipu__winograd_band(&plan->winograd,
                       &(ipu__winograd_call){
                           .tiles = g->tiles,
                           .places = {.band = band,
                                      .pitch = plan->pitch,
                                      .line = result_line(plan, band),
                                      .channels = g->result.channels},
                           .source = source,
                           .panels = call->panels + group * plan->group_panels,
                           .panel_step = plan->group_panels / IPU_WINOGRAD_MATRICES,
                           .results = results + column,
                           .finish = &finish,
                       },
                       scratch);
}

static void
make_band(const windows_call *call, const ipu__band *band, float *scratch)
{
    const windows_plan *plan = call->plan;
    const ipu__conv_geometry *g = &plan->g;
    const int64_t groups = plan->depthwise ? 1 : g->c.groups;
    band_scratch s = cut_scratch(plan, scratch);
    float *results = s.results;
    if (plan->direct) {
        results = (float *)call->result +
                  ipu__band_start(g, band) * g->result.channels;
    }
    for (int64_t group = 0; group < groups; group++) {
        const float *source = s.source;
        if (plan->in_place) {
            source = (const float *)call->source + group * plan->inner;
        } else {
            ipu__source from = {.g = g,
                                .data = call->source,
                                .channel = group * plan->inner,
                                .channels = plan->inner,
                                .repeat = plan->repeat,
                                .temporary = s.temporary};
            if (plan->depthwise) {
                from.channels = g->source.channels;
            }
            ipu__source_band(&from, band, s.source);
        }
        if (plan->is_winograd) {
            make_quads(call, band, group, source, results, s.winograd);
            continue;
        }
        for (int64_t i = 0; i < plan->phase_count; i++) {
            const phase *ph = &plan->phases[i];
            int64_t pixels = place_pixels(plan, band, ph, &s);
            int64_t column = group * plan->outer;
            ipu__conv_finish finish = finish_of(
                call, column, ipu__band_start(g, band) * g->result.channels + column);
            const float *panels =
                call->panels + group * plan->group_panels + ph->panels;
            if (plan->depthwise) {
                ipu__depthwise d = {source,      s.at,     results, s.to,
                                    pixels,      ph->offsets, ph->taps, panels,
                                    plan->outer, &finish};
                g->tiles->depthwise(&d);
                continue;
            }
            ipu__windows w = {source,
                              s.at,
                              results + column,
                              s.to,
                              pixels,
                              ph->offsets,
                              ph->segments,
                              ph->length,
                              panels,
                              plan->outer,
                              s.upper + column,
                              plan->level_floats,
                              &finish};
            g->tiles->windows(&w);
        }
    }
    deliver_band(call, band, results, s.temporary);
}

/* --- a call ------------------------------------------------------------------------- */

static windows_call
call_of(const ipu_kernel_call *call, const float *panels)
{
    const windows_plan *plan = call->spec->prepared;
    const uint32_t first = ipu__conv_source_operand(call->spec);
    return (windows_call){.plan = plan,
                          .source = call->inputs[first],
                          .result = call->outputs[0],
                          .operands = call->inputs + 2,
                          .relu = first > 0 ? call->inputs[0] : NULL,
                          .panels = panels};
}

static float *
pack_operand(const ipu_kernel_call *call, ipu_pool *pool)
{
    const uint32_t filters = ipu__conv_source_operand(call->spec) + 1;
    return pack(call->spec->prepared, pool, call->inputs[filters], call->workspace);
}

typedef struct windows_job {
    windows_call call;
    int64_t planes;
} windows_job;

static void
make_bands(void *state, int64_t begin, int64_t end, void *scratch)
{
    const windows_job *job = state;
    for (int64_t i = begin; i < end; i++) {
        ipu__band band = ipu__band_of(&job->call.plan->g, 0, job->planes, i);
        make_band(&job->call, &band, scratch);
    }
}

static ipu_status
run_windows(const ipu_kernel_call *call)
{
    const windows_plan *plan = call->spec->prepared;
    float *panels = pack_operand(call, call->pool);
    windows_job job = {.call = call_of(call, panels),
                       .planes = plan->g.source.images * plan->g.lines[0].results};
    ipu__share_out(call->pool, ipu__band_count(&plan->g, job.planes), make_bands, &job,
                   panels + plan->panels, (size_t)scratch_floats(plan) * sizeof(float));
    return IPU_OK;
}

static ipu_status
run_images(const ipu_kernel_call *call, int64_t begin, int64_t end)
{
    const windows_plan *plan = call->spec->prepared;
    const int64_t depth = plan->g.lines[0].results;
    float *panels = pack_operand(call, NULL);
    windows_call whole = call_of(call, panels);
    int64_t bands = ipu__band_count(&plan->g, (end - begin) * depth);
    for (int64_t i = 0; i < bands; i++) {
        ipu__band band = ipu__band_of(&plan->g, begin * depth, end * depth, i);
        make_band(&whole, &band, panels + plan->panels);
    }
    return IPU_OK;
}

/* --- prepare ------------------------------------------------------------------------ */

/* Taps of the last line that follow each other in the source are one segment, where a
 * place holds nothing but the channels that the sum goes over. */
static ipu_status
prepare_phase(const ipu__preparation *p, const windows_plan *plan, phase *ph)
{
    const ipu__line *lines = plan->g.lines;
    int64_t counts[IPU_LINES];
    const int64_t *deltas[IPU_LINES];
    for (int32_t i = 0; i < IPU_LINES; i++) {
        counts[i] = taps_of(&lines[i], ph->of[i]);
        deltas[i] = lines[i].deltas + lines[i].starts[ph->of[i]];
    }
    ph->taps = counts[0] * counts[1] * counts[2];
    bool joined = !plan->depthwise && plan->pitch.line[2] == plan->inner;
    for (int64_t i = 1; i < counts[2]; i++) {
        joined = joined && deltas[2][i] == deltas[2][i - 1] + 1;
    }
    int64_t last = joined ? ipu__min(counts[2], 1) : counts[2];
    ph->length = joined ? counts[2] * plan->inner : plan->inner;
    ph->segments = counts[0] * counts[1] * last;
    int64_t *offsets;
    IPU_TRY(ipu_arena_alloc(p->ctx, p->arena, (size_t)ph->segments * sizeof(int64_t),
                            &offsets));
    int64_t *at = offsets;
    for (int64_t d = 0; d < counts[0]; d++) {
        for (int64_t r = 0; r < counts[1]; r++) {
            for (int64_t i = 0; i < last; i++) {
                *at++ = (deltas[0][d] - lines[0].least) * plan->pitch.line[0] +
                        (deltas[1][r] - lines[1].least) * plan->pitch.line[1] +
                        (deltas[2][i] - lines[2].least) * plan->pitch.line[2];
            }
        }
    }
    ph->offsets = offsets;
    return IPU_OK;
}

static ipu_status
prepare_phases(const ipu__preparation *p, windows_plan *plan)
{
    const ipu__line *lines = plan->g.lines;
    const int64_t width = plan->g.tiles->columns;
    const int64_t columns = plan->depthwise
                                ? plan->outer
                                : ipu__ceil_div(plan->outer, width) * width;
    phase *phases;
    plan->phase_count = lines[0].phases * lines[1].phases * lines[2].phases;
    IPU_TRY(ipu_arena_alloc(p->ctx, p->arena,
                            (size_t)plan->phase_count * sizeof(*phases), &phases));
    for (int64_t i = 0; i < plan->phase_count; i++) {
        phase *ph = &phases[i];
        *ph = (phase){.panels = plan->group_panels};
        ph->of[2] = i % lines[2].phases;
        ph->of[1] = i / lines[2].phases % lines[1].phases;
        ph->of[0] = i / lines[2].phases / lines[1].phases;
        IPU_TRY(prepare_phase(p, plan, ph));
        plan->group_panels += ph->taps * (plan->depthwise ? 1 : plan->inner) * columns;
    }
    plan->phases = phases;
    plan->filter_floats = plan->group_panels;
    plan->panel_count = ipu__ceil_div(plan->outer, width);
    plan->row_chunks = ipu__ceil_div(plan->inner, PACKED_ROWS);
    if (plan->is_winograd) {
        plan->group_panels =
            IPU_WINOGRAD_MATRICES * (plan->inner * columns + IPU_WINOGRAD_APART);
    }
    return IPU_OK;
}

/* Whether windows lie in the source everywhere, as tiles read it. */
static bool
reads_in_place(const windows_plan *plan)
{
    const ipu__conv_geometry *g = &plan->g;
    bool inside = g->source.dtype == IPU_DTYPE_FLOAT32 && !g->source.channels_first &&
                  plan->repeat == 1;
    for (int32_t i = 0; i < IPU_LINES; i++) {
        const ipu__line *line = &g->lines[i];
        int64_t first = ipu__line_base(line, 0) + line->least;
        int64_t last = ipu__line_base(line, line->results - 1) + line->most;
        inside = inside && first >= 0 && last < line->source;
    }
    return inside;
}

/* Levels of the sums' tree. Where there are any, tiles leave totals of the lowest one in
 * the result: what finishes sums must lie elsewhere then. */
static int32_t
levels_of(const windows_plan *plan)
{
    int64_t most = 0;
    for (int64_t i = 0; !plan->depthwise && i < plan->phase_count; i++) {
        most = ipu__max(most, plan->phases[i].taps * plan->inner);
    }
    return ipu__sum_levels(ipu__sum_blocks(most));
}

static void
prepare_finish(const ipu__preparation *p, windows_plan *plan)
{
    if (p->spec->op == IPU_OP_ID_FUSED_CONV) {
        plan->activation =
            (ipu_activation)ipu_attrs_int(p->spec->attrs, IPU_ATTR_ACTIVATION, 0);
        plan->step_count = (int32_t)p->spec->input_count - 2;
        for (int32_t k = 0; k < plan->step_count; k++) {
            plan->steps[k] = ipu__conv_step_of(p->spec, (uint32_t)k + 2);
        }
    }
    if (plan->g.result.dtype == IPU_DTYPE_FLOAT16) {
        ipu__block_prepare(&plan->add, IPU_OP_ID_ADD, IPU_DTYPE_FLOAT16,
                           IPU_DTYPE_FLOAT16, plan->g.cpu);
        ipu__block_prepare(&plan->scale, IPU_OP_ID_MUL, IPU_DTYPE_FLOAT16,
                           IPU_DTYPE_FLOAT16, plan->g.cpu);
        ipu__block_prepare(&plan->activate, ipu__activation_op(plan->activation),
                           IPU_DTYPE_FLOAT16, IPU_DTYPE_FLOAT16, plan->g.cpu);
    }
}

static void
prepare_scratch(windows_plan *plan)
{
    const ipu__conv_geometry *g = &plan->g;
    const ipu_convolution *c = &g->c;
    const int64_t pixels = g->bands.planes * g->bands.rows * g->bands.columns;
    const int64_t channels = plan->depthwise ? g->source.channels : plan->inner;
    const int64_t groups = plan->depthwise ? 1 : c->groups;
    int64_t temporary = 0;
    if (g->source.dtype == IPU_DTYPE_FLOAT16) {
        plan->wide_filters = ipu__whole_lines(ipu_conv_positions(c) * c->depth *
                                              c->filters);
    }
    plan->panels = ipu__whole_lines(groups * plan->group_panels);
    if (!plan->in_place) {
        plan->source = ipu__whole_lines(g->bands.planes * plan->pitch.plane);
        temporary = ipu__source_temporary(g, channels);
    }
    if (!plan->direct) {
        plan->results = ipu__whole_lines(pixels * g->result.channels);
        temporary = ipu__max(temporary, pixels * g->result.channels);
    }
    plan->temporary = ipu__whole_lines(temporary);
    if (plan->is_winograd) {
        plan->winograd_floats = ipu__winograd_floats(&plan->winograd);
        return;
    }
    plan->upper_levels = ipu__max(levels_of(plan) - 1, 0);
    plan->level_floats = ipu__whole_lines(pixels * g->result.channels);
    plan->places = ipu__whole_lines(pixels);
}

static void
offer_images(ipu_kernel_spec *spec, const windows_plan *plan)
{
    const uint32_t source = ipu__conv_source_operand(spec);
    enum { LEAST_FLOPS = 1 << 22 };
    const ipu__conv_geometry *g = &plan->g;
    int64_t images = g->source.images;
    int64_t pixels = g->result.sizes[0] * g->result.sizes[1] * g->result.sizes[2];
    int64_t flops = 2 * plan->filter_floats * g->c.groups *
                    ipu__max(pixels / plan->phase_count, 1);
    uint64_t inputs = source > 0 ? 3 : 1; /* a relu's result is cut alike */
    for (int32_t k = 0; k < plan->step_count; k++) {
        inputs |= plan->steps[k] == IPU_CONV_ADD ? UINT64_C(4) << k : 0;
    }
    spec->rows = (ipu_kernel_rows){
        .run = run_images,
        .count = images,
        .inputs = inputs,
        .grain = 1,
        .least = ipu__max(ipu__min(LEAST_FLOPS / ipu__max(flops, 1), images), 1),
        .workspace_bytes = (size_t)(plan->wide_filters + plan->panels +
                                    scratch_floats(plan)) *
                           sizeof(float)};
}

ipu_status
ipu__conv_windows_prepare(const ipu__preparation *p)
{
    ipu_kernel_spec *spec = p->spec;
    windows_plan *plan;
    IPU_TRY(ipu__prepared(p, sizeof *plan, &plan));
    IPU_TRY(ipu__conv_geometry_of(p, &plan->g));
    ipu__conv_geometry *g = &plan->g;
    const ipu_convolution *c = &g->c;
    const bool turned = g->lines[0].turned;
    const int64_t filters = c->filters / c->groups;
    plan->depthwise = ipu__conv_is_depthwise(c) && (!turned || filters == 1);
    plan->repeat = plan->depthwise && !turned ? filters : 1;
    plan->inner = turned ? filters : c->depth;
    plan->outer = plan->depthwise ? c->filters : turned ? c->depth : filters;
    plan->is_winograd =
        !plan->depthwise && ipu__winograd_serves(g, plan->inner, plan->outer);
    plan->in_place = !plan->is_winograd && reads_in_place(plan);
    ipu__conv_cut(g, plan->depthwise ? c->filters : plan->inner,
                  plan->is_winograd ? ipu__winograd_pixels(plan->inner, plan->outer)
                                    : BAND_PIXELS,
                  plan->is_winograd ? 2 : 1);
    if (plan->is_winograd) {
        /* sums of halves have more bits than halves */
        g->tiles = ipu__conv_tiles_of(p->cpu, IPU_DTYPE_FLOAT32);
        IPU_TRY(ipu__winograd_prepare(p, g, plan->inner, plan->outer,
                                      &plan->winograd));
    }
    plan->pitch = plan->in_place ? ipu__images_pitch(g)
                                 : ipu__band_pitch(g, plan->depthwise ? c->filters
                                                                      : plan->inner);
    IPU_TRY(prepare_phases(p, plan));
    plan->direct = g->result.dtype == IPU_DTYPE_FLOAT32 && !g->result.channels_first &&
                   (spec->op != IPU_OP_ID_FUSED_CONV_GRAD_INPUT || plan->is_winograd ||
                    levels_of(plan) == 0);
    prepare_finish(p, plan);
    prepare_scratch(plan);
    int64_t planes = g->source.images * g->lines[0].results;
    spec->run = run_windows;
    spec->kernel_name = plan->is_winograd ? g->tiles->winograd_name
                        : plan->depthwise ? g->tiles->depthwise_name
                        : plan->in_place  ? g->tiles->in_place_name
                                         : g->tiles->windows_name;
    spec->workspace_bytes =
        (size_t)(plan->wide_filters + plan->panels) * sizeof(float) +
        ipu__share_bytes(ipu__band_count(g, planes),
                         (size_t)scratch_floats(plan) * sizeof(float));
    offer_images(spec, plan);
    return IPU_OK;
}
