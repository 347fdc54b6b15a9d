/* SPDX-License-Identifier: MIT
 *
 * The plan that follows from the geometry of a convolution, whichever side is its
 * result: see conv_plan.c. */
#ifndef IPU_KERNELS_CONV_PLAN_IMPL_H
#define IPU_KERNELS_CONV_PLAN_IMPL_H

#include "kernels/conv/conv_impl.h"
#include "kernels/conv/conv_tiles_impl.h"

enum { IPU_LINES = IPU_CONV_MAX_SPATIAL };

/* One spatial axis, from results to what they are made of. Result i starts from place
 * base(i) of the source and takes those at base(i) + delta, for the taps of its phase.
 * A convolution has one phase; its transpose has one for each step of the stride, since
 * a tap leads only every stride-th element to a whole place. */
typedef struct ipu__line {
    int64_t results;
    int64_t source;
    int64_t step;
    int64_t low;
    bool turned; /* the transpose */
    int64_t phases;
    int64_t least; /* of the deltas */
    int64_t most;
    const int64_t *starts; /* [phases + 1]: where the taps of each phase start in ... */
    const int64_t *taps;   /* ... positions of the window, in the order of the chain, */
    const int64_t *deltas; /* ... which all ascend */
} ipu__line;

static inline int64_t
ipu__line_base(const ipu__line *line, int64_t i)
{
    return line->turned ? (i + line->low) / line->step : i * line->step - line->low;
}

static inline int64_t
ipu__line_phase(const ipu__line *line, int64_t i)
{
    return line->turned ? (i + line->low) % line->step : 0;
}

/* Places of the source that `results` neighbours meet, at most. */
static inline int64_t
ipu__line_extent(const ipu__line *line, int64_t results)
{
    int64_t steps = line->turned ? ipu__ceil_div(results - 1, line->step)
                                 : (results - 1) * line->step;
    return steps + line->most - line->least + 1;
}

/* A tensor of images as float32 or float16, [image][depth][height][width][channel], or
 * the channel after the image. */
typedef struct ipu__images {
    ipu_dtype dtype;
    bool channels_first;
    int64_t images;
    int64_t channels;
    int64_t sizes[IPU_LINES];
} ipu__images;

/* Some planes (an image at one depth), or rows of one plane, or columns of one row: so
 * a band's pixels follow each other in the order of the result. Columns of several rows
 * where rows come in units. */
typedef struct ipu__band {
    int64_t plane;
    int64_t planes;
    int64_t row;
    int64_t rows;
    int64_t column;
    int64_t columns;
} ipu__band;

/* How results are cut into bands, of at most so many planes, rows and columns. */
typedef struct ipu__bands {
    int64_t planes;
    int64_t rows;
    int64_t columns;
    int64_t row_parts;
    int64_t column_parts;
} ipu__bands;

/* Floats from one place of a band of the source to the next, along each axis. */
typedef struct ipu__pitch {
    int64_t plane; /* of the band; in place: image */
    int64_t line[IPU_LINES];
} ipu__pitch;

typedef struct ipu__conv_geometry {
    ipu_convolution c;
    ipu__line lines[IPU_LINES]; /* axes that the tensors lack are of size 1 */
    ipu__images source;
    ipu__images result; /* of conv_grad_filter: y, by whose pixels it goes */
    ipu__bands bands;
    ipu_cpu_class cpu;
    const ipu__conv_tiles *tiles;
} ipu__conv_geometry;

/* Tiles for elements of a dtype. */
const ipu__conv_tiles *ipu__conv_tiles_of(ipu_cpu_class cpu, ipu_dtype dtype);
ipu_status ipu__conv_geometry_of(const ipu__preparation *p, ipu__conv_geometry *out);
/* Cuts results such that a band has at most `pixels`, and its source, of which a place
 * has `channels` floats, stays in the second-level cache. Rows and columns of a band are
 * multiples of `unit`, beyond the last one, too. */
void ipu__conv_cut(ipu__conv_geometry *g, int64_t channels, int64_t pixels,
                   int64_t unit);
int64_t ipu__band_count(const ipu__conv_geometry *g, int64_t planes);
/* Band `i` of those from `plane` to `plane_end`. */
ipu__band ipu__band_of(const ipu__conv_geometry *g, int64_t plane, int64_t plane_end,
                       int64_t i);
static inline int64_t
ipu__band_pixels(const ipu__band *b)
{
    return b->planes * b->rows * b->columns;
}
/* The first pixel of a band, in the order of the result. */
static inline int64_t
ipu__band_start(const ipu__conv_geometry *g, const ipu__band *b)
{
    return (b->plane * g->lines[1].results + b->row) * g->lines[2].results + b->column;
}
/* Of the source of a band that is copied, `channels` floats a place. */
ipu__pitch ipu__band_pitch(const ipu__conv_geometry *g, int64_t channels);
/* Of the source where it lies. */
ipu__pitch ipu__images_pitch(const ipu__conv_geometry *g);

/* --- conv_source.c ------------------------------------------------------------------ */

/* The source of a band, and how it is copied. */
typedef struct ipu__source {
    const ipu__conv_geometry *g;
    const void *data;
    int64_t channel; /* the first one */
    int64_t channels;
    int64_t repeat; /* each so often; 1 */
    float *temporary; /* ipu__source_temporary floats */
} ipu__source;

int64_t ipu__source_temporary(const ipu__conv_geometry *g, int64_t channels);
/* Places [column, ...) of a row of the source, with zeros outside of it. */
void ipu__source_row(const ipu__source *s, int64_t image, int64_t depth, int64_t row,
                     int64_t column, int64_t columns, float *out);
/* The same where it lies, channels as far apart as the source's, or NULL: it has to be
 * float32, channels last, and inside of the source. */
const float *ipu__source_row_at(const ipu__source *s, int64_t image, int64_t depth,
                                int64_t row, int64_t column, int64_t columns);
/* The whole band. */
void ipu__source_band(const ipu__source *s, const ipu__band *band, float *out);
/* `pixels` of y from pixel `start`, all channels, as float32 [pixel][channel]; `y` is
 * given back where it is that already. */
const float *ipu__pixels_f32(const ipu__conv_geometry *g, const void *y, int64_t start,
                             int64_t pixels, float *out, float *temporary);

#endif
