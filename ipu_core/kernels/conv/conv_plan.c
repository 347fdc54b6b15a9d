/* SPDX-License-Identifier: MIT
 *
 * Lines, taps and bands of a convolution: what follows from its geometry alone, worked
 * out when it is prepared. No state. */
#include "kernels/conv/conv_plan_impl.h"

enum { BAND_FLOATS = 40 * 1024 };

const ipu__conv_tiles *
ipu__conv_tiles_of(ipu_cpu_class cpu, ipu_dtype dtype)
{
    const ipu__conv_tiles *tiles = IPU_FOR_CLASS(cpu, ipu__conv, ipu__conv_base);
    const bool is_exact = dtype == IPU_DTYPE_FLOAT16 && tiles == &ipu__conv_plain;
    return is_exact ? &ipu__conv_plain_halves : tiles;
}

/* Taps by ascending place in the source: their own order, reversed for the transpose. */
static ipu_status
line_of(const ipu__preparation *p, const ipu_conv_axis *axis, bool turned,
        ipu__line *line)
{
    const int64_t window = axis->window;
    int64_t *ints;
    *line = (ipu__line){
        .results = turned ? axis->size : axis->out,
        .source = turned ? axis->out : axis->size,
        .step = axis->stride,
        .low = axis->low,
        .turned = turned,
        .phases = turned ? axis->stride : 1,
        .least = turned ? -((window - 1) * axis->dilation / axis->stride) : 0,
        .most = turned ? 0 : (window - 1) * axis->dilation,
    };
    size_t count = (size_t)(line->phases + 1 + 2 * window);
    IPU_TRY(ipu_arena_alloc(p->ctx, p->arena, count * sizeof(*ints), &ints));
    int64_t *taps = ints + line->phases + 1;
    int64_t *deltas = taps + window;
    int64_t found = 0;
    for (int64_t phase = 0; phase < line->phases; phase++) {
        ints[phase] = found;
        for (int64_t i = 0; i < window; i++) {
            int64_t tap = turned ? window - 1 - i : i;
            int64_t delta = tap * axis->dilation;
            if (turned) {
                if ((phase - delta) % axis->stride != 0) {
                    continue;
                }
                delta = (phase - delta) / axis->stride;
            }
            taps[found] = tap;
            deltas[found++] = delta;
        }
    }
    ints[line->phases] = found;
    line->starts = ints;
    line->taps = taps;
    line->deltas = deltas;
    return IPU_OK;
}

ipu_status
ipu__conv_geometry_of(const ipu__preparation *p, ipu__conv_geometry *out)
{
    const ipu_kernel_spec *spec = p->spec;
    ipu__conv_shapes shapes = ipu__conv_shapes_of(spec);
    const bool turned = spec->op == IPU_OP_ID_CONV_GRAD_INPUT ||
                        spec->op == IPU_OP_ID_FUSED_CONV_GRAD_INPUT;
    *out = (ipu__conv_geometry){
        .cpu = p->cpu,
        .tiles = ipu__conv_tiles_of(p->cpu, spec->inputs[0].dtype)};
    ipu_convolution *c = &out->c;
    ipu_convolution_of(spec->attrs, shapes.x, shapes.w, c);
    for (int32_t i = 0; i < IPU_LINES; i++) {
        int32_t given = i - (IPU_LINES - c->spatial);
        ipu_conv_axis one = {
            .size = 1, .out = 1, .window = 1, .stride = 1, .dilation = 1};
        IPU_TRY(
            line_of(p, given < 0 ? &one : &c->axes[given], turned, &out->lines[i]));
    }
    ipu__images x = {.dtype = spec->inputs[0].dtype,
                     .channels_first = c->channels_first,
                     .images = c->batch,
                     .channels = c->depth * c->groups};
    ipu__images y = x;
    y.channels = c->filters;
    out->source = turned ? y : x;
    out->result = turned ? x : y;
    for (int32_t i = 0; i < IPU_LINES; i++) {
        out->source.sizes[i] = out->lines[i].source;
        out->result.sizes[i] = out->lines[i].results;
    }
    return IPU_OK;
}

/* --- bands ------------------------------------------------------------------------ */

static int64_t
source_floats(const ipu__conv_geometry *g, int64_t rows, int64_t columns,
              int64_t channels)
{
    return ipu__line_extent(&g->lines[0], 1) * ipu__line_extent(&g->lines[1], rows) *
           ipu__line_extent(&g->lines[2], columns) * channels;
}

/* Whether a band may have so many units of rows and columns. */
static bool
fits(const ipu__conv_geometry *g, int64_t rows, int64_t columns, int64_t channels,
     int64_t pixels, int64_t unit)
{
    return rows * columns * unit * unit <= pixels &&
           source_floats(g, rows * unit, columns * unit, channels) <= BAND_FLOATS;
}

void
ipu__conv_cut(ipu__conv_geometry *g, int64_t channels, int64_t pixels, int64_t unit)
{
    const int64_t rows = ipu__max(ipu__ceil_div(g->lines[1].results, unit), 1);
    const int64_t columns = ipu__max(ipu__ceil_div(g->lines[2].results, unit), 1);
    const int64_t planes = ipu__max(g->source.images * g->lines[0].results, 1);
    ipu__bands *b = &g->bands;
    int64_t row_units = 1;
    int64_t column_units;
    *b = (ipu__bands){.planes = 1, .row_parts = 1, .column_parts = 1};
    while (b->column_parts < columns &&
           !fits(g, 1, ipu__ceil_div(columns, b->column_parts), channels, pixels,
                 unit)) {
        b->column_parts++;
    }
    column_units = ipu__ceil_div(columns, b->column_parts);
    b->column_parts = ipu__ceil_div(columns, column_units);
    b->row_parts = rows;
    if (b->column_parts == 1) {
        while (row_units < rows &&
               fits(g, row_units + 1, columns, channels, pixels, unit)) {
            row_units++;
        }
        row_units = ipu__ceil_div(rows, ipu__ceil_div(rows, row_units));
        b->row_parts = ipu__ceil_div(rows, row_units);
    }
    b->rows = row_units * unit;
    b->columns = column_units * unit;
    if (b->row_parts == 1 && b->column_parts == 1) {
        int64_t floats = source_floats(g, b->rows, b->columns, channels);
        int64_t most = ipu__min(pixels / (b->rows * b->columns),
                                BAND_FLOATS / ipu__max(floats, 1));
        b->planes = ipu__max(ipu__min(most, planes), 1);
    }
}

int64_t
ipu__band_count(const ipu__conv_geometry *g, int64_t planes)
{
    return ipu__ceil_div(planes, g->bands.planes) * g->bands.row_parts *
           g->bands.column_parts;
}

ipu__band
ipu__band_of(const ipu__conv_geometry *g, int64_t plane, int64_t plane_end, int64_t i)
{
    const ipu__bands *b = &g->bands;
    int64_t parts = b->row_parts * b->column_parts;
    ipu__band band = {.plane = plane + i / parts * b->planes,
                      .row = i % parts / b->column_parts * b->rows,
                      .column = i % b->column_parts * b->columns};
    band.planes = ipu__min(b->planes, plane_end - band.plane);
    band.rows = ipu__min(b->rows, g->lines[1].results - band.row);
    band.columns = ipu__min(b->columns, g->lines[2].results - band.column);
    return band;
}

ipu__pitch
ipu__band_pitch(const ipu__conv_geometry *g, int64_t channels)
{
    ipu__pitch pitch;
    pitch.line[2] = channels;
    pitch.line[1] = channels * ipu__line_extent(&g->lines[2], g->bands.columns);
    pitch.line[0] = pitch.line[1] * ipu__line_extent(&g->lines[1], g->bands.rows);
    pitch.plane = pitch.line[0] * ipu__line_extent(&g->lines[0], 1);
    return pitch;
}

ipu__pitch
ipu__images_pitch(const ipu__conv_geometry *g)
{
    ipu__pitch pitch;
    pitch.line[2] = g->source.channels;
    pitch.line[1] = pitch.line[2] * g->source.sizes[2];
    pitch.line[0] = pitch.line[1] * g->source.sizes[1];
    pitch.plane = pitch.line[0] * g->source.sizes[0];
    return pitch;
}
