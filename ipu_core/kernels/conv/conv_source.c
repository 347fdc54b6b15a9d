/* SPDX-License-Identifier: MIT
 *
 * Bands of a tensor of images, copied to where tiles read them: as float32, the
 * channels last, with zeros where there is padding. A copy is small beside the
 * arithmetic on it: each float of it meets a window's positions and all results. */
#include "kernels/conv/conv_plan_impl.h"

static void
zero(float *out, int64_t count)
{
    memset(out, 0, (size_t)count * sizeof(*out));
}

/* `count` neighbours from element `at`. */
static void
copy(const ipu__conv_geometry *g, const void *data, int64_t at, int64_t count,
     float *out)
{
    if (g->source.dtype == IPU_DTYPE_FLOAT16) {
        ipu__halves_to_floats(out, (const uint16_t *)data + at, count, g->cpu);
    } else {
        memcpy(out, (const float *)data + at, (size_t)count * sizeof(*out));
    }
}

/* [channel][columns], `step` from channel to channel, as [column][channel] */
static void
turn(const ipu__conv_geometry *g, const void *data, int64_t at, int64_t step,
     int64_t channels, int64_t columns, float *out, float *temporary)
{
    const float *from = (const float *)data + at;
    if (g->source.dtype == IPU_DTYPE_FLOAT16) {
        for (int64_t c = 0; c < channels; c++) {
            copy(g, data, at + c * step, columns, temporary + c * columns);
        }
        from = temporary;
        step = columns;
    }
    g->tiles->turn(channels, columns, from, step, out, channels);
}

/* Columns [column, ...) of a row that is there. */
static void
inner_row(const ipu__source *s, int64_t image, int64_t depth, int64_t row,
          int64_t column, int64_t columns, float *out)
{
    const ipu__images *x = &s->g->source;
    int64_t line = (depth * x->sizes[1] + row) * x->sizes[2] + column;
    int64_t places = x->sizes[0] * x->sizes[1] * x->sizes[2];
    if (x->channels_first) {
        int64_t at = (image * x->channels + s->channel) * places + line;
        turn(s->g, s->data, at, places, s->channels, columns, out, s->temporary);
    } else if (s->channels == x->channels) {
        int64_t at = (image * places + line) * x->channels;
        copy(s->g, s->data, at, columns * x->channels, out);
    } else {
        for (int64_t i = 0; i < columns; i++) {
            int64_t at = (image * places + line + i) * x->channels + s->channel;
            copy(s->g, s->data, at, s->channels, out + i * s->channels);
        }
    }
}

int64_t
ipu__source_temporary(const ipu__conv_geometry *g, int64_t channels)
{
    return 2 * channels * ipu__line_extent(&g->lines[2], g->bands.columns);
}

void
ipu__source_row(const ipu__source *s, int64_t image, int64_t depth, int64_t row,
                int64_t column, int64_t columns, float *out)
{
    const ipu__images *x = &s->g->source;
    const int64_t channels = s->channels * s->repeat;
    int64_t first = ipu__max(column, 0);
    int64_t end = ipu__min(column + columns, x->sizes[2]);
    if (depth < 0 || depth >= x->sizes[0] || row < 0 || row >= x->sizes[1] ||
        first >= end) {
        zero(out, columns * channels);
        return;
    }
    zero(out, (first - column) * channels);
    zero(out + (end - column) * channels, (column + columns - end) * channels);
    out += (first - column) * channels;
    if (s->repeat == 1) {
        inner_row(s, image, depth, row, first, end - first, out);
        return;
    }
    float *once = s->temporary + s->channels * columns;
    inner_row(s, image, depth, row, first, end - first, once);
    for (int64_t i = 0; i < (end - first) * s->channels; i++) {
        for (int64_t k = 0; k < s->repeat; k++) {
            out[i * s->repeat + k] = once[i];
        }
    }
}

const float *
ipu__source_row_at(const ipu__source *s, int64_t image, int64_t depth, int64_t row,
                   int64_t column, int64_t columns)
{
    const ipu__images *x = &s->g->source;
    if (x->dtype != IPU_DTYPE_FLOAT32 || x->channels_first || depth < 0 ||
        depth >= x->sizes[0] || row < 0 || row >= x->sizes[1] || column < 0 ||
        column + columns > x->sizes[2]) {
        return NULL;
    }
    int64_t line = (image * x->sizes[0] + depth) * x->sizes[1] + row;
    return (const float *)s->data + (line * x->sizes[2] + column) * x->channels +
           s->channel;
}

void
ipu__source_band(const ipu__source *s, const ipu__band *band, float *out)
{
    const ipu__line *lines = s->g->lines;
    ipu__pitch pitch = ipu__band_pitch(s->g, s->channels * s->repeat);
    int64_t depths = ipu__line_extent(&lines[0], 1);
    int64_t rows = ipu__line_extent(&lines[1], band->rows);
    int64_t columns = ipu__line_extent(&lines[2], band->columns);
    int64_t row = ipu__line_base(&lines[1], band->row) + lines[1].least;
    int64_t column = ipu__line_base(&lines[2], band->column) + lines[2].least;
    for (int64_t p = 0; p < band->planes; p++) {
        int64_t image = (band->plane + p) / lines[0].results;
        int64_t at = (band->plane + p) % lines[0].results;
        int64_t depth = ipu__line_base(&lines[0], at) + lines[0].least;
        for (int64_t d = 0; d < depths; d++) {
            for (int64_t r = 0; r < rows; r++) {
                ipu__source_row(s, image, depth + d, row + r, column, columns,
                                out + p * pitch.plane + d * pitch.line[0] +
                                    r * pitch.line[1]);
            }
        }
    }
}

const float *
ipu__pixels_f32(const ipu__conv_geometry *g, const void *y, int64_t start,
                int64_t pixels, float *out, float *temporary)
{
    const int64_t channels = g->result.channels;
    const int64_t places =
        g->result.sizes[0] * g->result.sizes[1] * g->result.sizes[2];
    if (!g->result.channels_first) {
        if (g->result.dtype == IPU_DTYPE_FLOAT32) {
            return (const float *)y + start * channels;
        }
        copy(g, y, start * channels, pixels * channels, out);
        return out;
    }
    for (int64_t i = 0; i < pixels;) {
        int64_t image = (start + i) / places;
        int64_t place = (start + i) % places;
        int64_t count = ipu__min(pixels - i, places - place);
        turn(g, y, image * channels * places + place, places, channels, count,
             out + i * channels, temporary);
        i += count;
    }
    return out;
}
