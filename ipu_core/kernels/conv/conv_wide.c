/* SPDX-License-Identifier: MIT
 *
 * Convolutions of float64 and their gradients, to the bit those of the reference: tiles
 * of six rows by eight columns, whose sums stay in registers of four lanes. A tile's
 * rows are
 *
 *   conv              pixels of y; the sum goes over taps and, in each, channels of x
 *   conv_grad_input   pixels of x; over taps, the last one first, and channels of y
 *   conv_grad_filter  channels of x under a tap; over the pixels of y, some at a time
 *
 * and its columns the channels of the result; of the last one, filters. What columns
 * multiply is packed into panels [panel][k][columns]; rows are read where they lie, a
 * number every `step`, which is 0 for a zero of the padding. AVX2 and wider; other
 * processors have the reference kernel alone. */
#include <string.h>

#include "kernels/conv/conv_run_impl.h"

#if defined(__x86_64__)
#include <immintrin.h>

enum {
    ROWS = 6,
    LANES = 4,
    VECTORS = 2,
    COLUMNS = LANES * VECTORS,
    SEGMENTS = 64,   /* of a tile at a time */
    PIXELS = 192,    /* of y in panels, of conv_grad_filter */
    MOST_TASKS = 64
};

static const double zero_of_padding = 0.0;

/* What is read of a row: numbers `step` apart. */
typedef struct strided {
    const double *from;
    int64_t step;
} strided;

typedef __m256d sums[ROWS][VECTORS];

/* --- tiles -------------------------------------------------------------------------- */

IPU_INLINE IPU_TARGET_AVX2 void
take_sums(sums sum, double tile[ROWS][COLUMNS])
{
#pragma GCC unroll 6
    for (int i = 0; i < ROWS; i++) {
#pragma GCC unroll 2
        for (int v = 0; v < VECTORS; v++) {
            sum[i][v] = _mm256_loadu_pd(tile[i] + v * LANES);
        }
    }
}

IPU_INLINE IPU_TARGET_AVX2 void
put_sums(sums sum, double tile[ROWS][COLUMNS])
{
#pragma GCC unroll 6
    for (int i = 0; i < ROWS; i++) {
#pragma GCC unroll 2
        for (int v = 0; v < VECTORS; v++) {
            _mm256_storeu_pd(tile[i] + v * LANES, sum[i][v]);
        }
    }
}

/* One number of each row times a row of the panel. */
IPU_INLINE IPU_TARGET_AVX2 void
multiply_add(sums sum, const double *const a[ROWS], const double *b)
{
    __m256d y[VECTORS];
#pragma GCC unroll 2
    for (int v = 0; v < VECTORS; v++) {
        y[v] = _mm256_loadu_pd(b + v * LANES);
    }
#pragma GCC unroll 6
    for (int i = 0; i < ROWS; i++) {
        __m256d x = _mm256_broadcast_sd(a[i]);
#pragma GCC unroll 2
        for (int v = 0; v < VECTORS; v++) {
            sum[i][v] = _mm256_fmadd_pd(x, y[v], sum[i][v]);
        }
    }
}

/* What a tile's rows meet under one position of the window. */
typedef struct segment {
    strided rows[ROWS];
    int64_t position;
} segment;

/* The tile goes on with `length` numbers of each segment, which meet the rows of the
 * panel that belong to its position. */
IPU_TARGET_AVX2 static void
add_segments(double tile[ROWS][COLUMNS], const segment *segments, int64_t count,
             int64_t length, const double *panel)
{
    sums sum;
    take_sums(sum, tile);
    for (int64_t s = 0; s < count; s++) {
        const strided *rows = segments[s].rows;
        const double *b = panel + segments[s].position * length * COLUMNS;
        const double *a[ROWS];
#pragma GCC unroll 6
        for (int i = 0; i < ROWS; i++) {
            a[i] = rows[i].from;
        }
        for (int64_t j = 0; j < length; j++) {
            multiply_add(sum, a, b);
            b += COLUMNS;
#pragma GCC unroll 6
            for (int i = 0; i < ROWS; i++) {
                a[i] += rows[i].step;
            }
        }
    }
    put_sums(sum, tile);
}

/* The tile goes on with one number of each of `count` pixels: row i is offsets[i] steps
 * behind where the pixel begins. */
IPU_TARGET_AVX2 static void
add_pixels(double tile[ROWS][COLUMNS], const strided *pixels, int64_t count,
           const int64_t offsets[ROWS], const double *b)
{
    sums sum;
    take_sums(sum, tile);
    for (int64_t j = 0; j < count; j++) {
        const double *from = pixels[j].from;
        const int64_t step = pixels[j].step;
        const double *a[ROWS];
#pragma GCC unroll 6
        for (int i = 0; i < ROWS; i++) {
            a[i] = from + offsets[i] * step;
        }
        multiply_add(sum, a, b);
        b += COLUMNS;
    }
    put_sums(sum, tile);
}

/* --- plan --------------------------------------------------------------------------- */

enum { AXES = IPU_CONV_MAX_SPATIAL };

/* Where the elements of x or y lie; axes that the tensors lack are of size 1. */
typedef struct side {
    int64_t sizes[AXES];
    int64_t steps[AXES];
    int64_t image;
    int64_t channel;
    int64_t places;
} side;

typedef struct wide_plan {
    ipu_convolution c;
    ipu_conv_axis axes[AXES];
    side x;
    side y;
    bool back; /* conv_grad_input */
    int64_t positions;
    int64_t inner; /* channels of a group that sums go over ... */
    int64_t outer; /* ... and that are made */
    int64_t panels;
    int64_t tasks;
    ipu_activation activation;
} wide_plan;

static side
side_of(const ipu_convolution *c, int64_t channels, bool of_y,
        const ipu_conv_axis axes[AXES])
{
    side s = {.channel = 1, .places = 1};
    for (int32_t i = 0; i < AXES; i++) {
        s.sizes[i] = of_y ? axes[i].out : axes[i].size;
        s.places *= s.sizes[i];
    }
    s.image = s.places * channels;
    s.channel = c->channels_first ? s.places : 1;
    int64_t step = c->channels_first ? 1 : channels;
    for (int32_t i = AXES - 1; i >= 0; i--) {
        s.steps[i] = step;
        step *= s.sizes[i];
    }
    return s;
}

static void
unravel(int64_t flat, const int64_t sizes[AXES], int64_t out[AXES])
{
    for (int32_t i = AXES - 1; i >= 0; i--) {
        out[i] = flat % sizes[i];
        flat /= sizes[i];
    }
}

/* Where coordinate `place` of the result meets the source along an axis, under tap k;
 * false where no stride leads there. It may lie outside. */
static bool
meets(const wide_plan *plan, int32_t a, int64_t place, int64_t k, int64_t *out)
{
    const ipu_conv_axis *axis = &plan->axes[a];
    if (!plan->back) {
        *out = place * axis->stride + k * axis->dilation - axis->low;
        return true;
    }
    const int64_t at = place + axis->low - k * axis->dilation;
    *out = at / axis->stride;
    return at % axis->stride == 0;
}

/* A line of the source along its last axis, or NULL where it lies outside. */
static const double *
line_at(const side *s, const double *data, int64_t image, int64_t plane, int64_t row)
{
    const bool inside =
        plane >= 0 && plane < s->sizes[0] && row >= 0 && row < s->sizes[1];
    return inside ? data + image * s->image + plane * s->steps[0] + row * s->steps[1]
                  : NULL;
}

/* A place of it. */
static inline strided
place_at(const side *s, const double *line, int64_t column)
{
    return line == NULL || column < 0 || column >= s->sizes[2]
               ? (strided){&zero_of_padding, 0}
               : (strided){line + column * s->steps[2], s->channel};
}

static void
window_sizes(const wide_plan *plan, int64_t sizes[AXES])
{
    for (int32_t i = 0; i < AXES; i++) {
        sizes[i] = plan->axes[i].window;
    }
}

/* --- conv and conv_grad_input ------------------------------------------------------- */

typedef struct wide_job {
    const wide_plan *plan;
    const ipu_kernel_call *call;
    const double *source;
    double *panels;  /* of windows; of the gradient of filters, a piece for each task */
    int64_t parts;
} wide_job;

/* [group][panel][position][inner][columns] */
static void
pack_filters(const wide_plan *plan, const double *w, double *out)
{
    const ipu_convolution *c = &plan->c;
    const int64_t filters = c->filters / c->groups;
    const int64_t depth = plan->positions * plan->inner;
    for (int64_t i = 0; i < c->groups * plan->panels * depth; i++) {
        const int64_t inner = i % plan->inner;
        const int64_t position = i / plan->inner % plan->positions;
        const int64_t first = i / depth % plan->panels * COLUMNS;
        const int64_t group = i / depth / plan->panels;
        for (int64_t j = 0; j < COLUMNS; j++) {
            const int64_t outer = first + j;
            const int64_t channel = plan->back ? outer : inner;
            const int64_t filter = group * filters + (plan->back ? inner : outer);
            const int64_t at = (position * c->depth + channel) * c->filters + filter;
            out[i * COLUMNS + j] = outer < plan->outer ? w[at] : 0.0;
        }
    }
}

/* What fused_conv does to a pixel's results from channel `channel` on, and where they are
 * stored: `at` is the pixel's first channel. */
static void
finish(const wide_job *job, int64_t at, int64_t channel, double *values, int64_t count)
{
    const wide_plan *plan = job->plan;
    const ipu_kernel_call *call = job->call;
    const ipu_kernel_spec *spec = call->spec;
    const uint32_t steps = spec->op == IPU_OP_ID_FUSED_CONV ? spec->input_count : 0;
    const int64_t step = plan->back ? plan->x.channel : plan->y.channel;
    double *result = (double *)call->outputs[0] + at + channel * step;
    for (uint32_t k = 2; k < steps; k++) {
        const ipu_conv_step kind = ipu__conv_step_of(spec, k);
        const double *operand = call->inputs[k];
        operand += channel + (kind == IPU_CONV_ADD ? at : 0);
        for (int64_t j = 0; j < count; j++) {
            values[j] = kind == IPU_CONV_SCALE ? values[j] * operand[j]
                                               : values[j] + operand[j];
        }
    }
    for (int64_t j = 0; plan->activation != IPU_ACTIVATION_NONE && j < count; j++) {
        ipu__scalar value = {.f = values[j]};
        ipu__reference_activate(plan->activation, IPU_DTYPE_FLOAT64, &value);
        values[j] = value.f;
    }
    for (int64_t j = 0; j < count; j++) {
        result[j * step] = values[j];
    }
}

/* Some pixels of one row of the result, for which the same taps are. */
typedef struct stretch {
    int64_t image;
    int64_t group;
    int64_t place[AXES]; /* of the first one */
    int64_t stride;      /* from one to the next */
    int64_t pixels;      /* at most ROWS */
} stretch;

/* Positions [*next, ...) in the order of the sum, as many as there is room for: those
 * that are met. Gives how many they are. */
static int64_t
find_segments(const wide_job *job, const stretch *t, int64_t *next,
              segment segments[SEGMENTS])
{
    const wide_plan *plan = job->plan;
    const side *source = plan->back ? &plan->y : &plan->x;
    const double *data =
        job->source + t->group * plan->inner * source->channel;
    int64_t count = 0;
    int64_t window[AXES];
    window_sizes(plan, window);
    for (; *next < plan->positions && count < SEGMENTS; ++*next) {
        segment *s = &segments[count];
        int64_t k[AXES];
        int64_t from[AXES];
        s->position = plan->back ? plan->positions - 1 - *next : *next;
        unravel(s->position, window, k);
        bool is_met = meets(plan, 0, t->place[0], k[0], &from[0]) &&
                      meets(plan, 1, t->place[1], k[1], &from[1]);
        const double *line =
            is_met ? line_at(source, data, t->image, from[0], from[1]) : NULL;
        for (int64_t i = 0; is_met && i < ROWS; i++) {
            int64_t column = t->place[2] + ipu__min(i, t->pixels - 1) * t->stride;
            is_met = meets(plan, 2, column, k[2], &from[2]);
            s->rows[i] = place_at(source, line, from[2]);
        }
        count += is_met;
    }
    return count;
}

static void
make_stretch(const wide_job *job, const stretch *t)
{
    const wide_plan *plan = job->plan;
    const side *result = plan->back ? &plan->x : &plan->y;
    const int64_t panel_size = plan->positions * plan->inner * COLUMNS;
    const int64_t at = t->image * result->image + t->place[0] * result->steps[0] +
                       t->place[1] * result->steps[1] +
                       t->place[2] * result->steps[2];
    segment segments[SEGMENTS];
    int64_t next = 0;
    int64_t count = find_segments(job, t, &next, segments);
    const bool are_all = next == plan->positions;
    for (int64_t p = 0; p < plan->panels; p++) {
        const double *panel = job->panels + (t->group * plan->panels + p) * panel_size;
        double tile[ROWS][COLUMNS] = {{0.0}};
        if (are_all) {
            add_segments(tile, segments, count, plan->inner, panel);
        }
        for (next = 0; !are_all && next < plan->positions;) {
            count = find_segments(job, t, &next, segments);
            add_segments(tile, segments, count, plan->inner, panel);
        }
        const int64_t first = p * COLUMNS;
        const int64_t columns = ipu__min(plan->outer - first, COLUMNS);
        for (int64_t i = 0; i < t->pixels; i++) {
            finish(job, at + i * t->stride * result->steps[2],
                   t->group * plan->outer + first, tile[i], columns);
        }
    }
}

/* Row `row` of those of all images. */
static void
make_row(const wide_job *job, int64_t row)
{
    const wide_plan *plan = job->plan;
    const side *result = plan->back ? &plan->x : &plan->y;
    const int64_t rows = result->sizes[0] * result->sizes[1];
    stretch t = {.image = row / rows,
                 .place = {row % rows / result->sizes[1], row % result->sizes[1], 0},
                 .stride = plan->back ? plan->axes[2].stride : 1};
    for (t.group = 0; t.group < plan->c.groups; t.group++) {
        for (int64_t first = 0; first < ipu__min(t.stride, result->sizes[2]); first++) {
            int64_t left = ipu__ceil_div(result->sizes[2] - first, t.stride);
            for (t.place[2] = first; left > 0; left -= ROWS) {
                t.pixels = ipu__min(left, ROWS);
                make_stretch(job, &t);
                t.place[2] += ROWS * t.stride;
            }
        }
    }
}

static void
rows_task(void *state, int32_t task, int32_t worker)
{
    const wide_job *job = state;
    const side *result = job->plan->back ? &job->plan->x : &job->plan->y;
    const int64_t rows = job->plan->c.batch * result->sizes[0] * result->sizes[1];
    const int64_t end = ipu__share_of(rows, job->parts, task + 1);
    (void)worker;
    for (int64_t i = ipu__share_of(rows, job->parts, task); i < end; i++) {
        make_row(job, i);
    }
}

static ipu_status
run_windows(const ipu_kernel_call *call)
{
    const wide_plan *plan = call->spec->prepared;
    const side *result = plan->back ? &plan->x : &plan->y;
    const int64_t rows = plan->c.batch * result->sizes[0] * result->sizes[1];
    wide_job job = {.plan = plan,
                    .call = call,
                    .source = call->inputs[0],
                    .panels = call->workspace,
                    .parts = ipu__min(rows, MOST_TASKS)};
    pack_filters(plan, call->inputs[1], call->workspace);
    ipu_pool_run(call->pool, (int32_t)job.parts, rows_task, &job);
    return IPU_OK;
}

/* --- conv_grad_filter --------------------------------------------------------------- */

/* A group's filters of `count` pixels of y from `first` on: [panel][pixel][columns]. */
static void
pack_pixels(const wide_job *job, int64_t group, int64_t first, int64_t count,
            double *out)
{
    const wide_plan *plan = job->plan;
    const side *y = &plan->y;
    const int64_t step = y->steps[2];
    for (int64_t i = 0; i < count; i++) {
        const int64_t pixel = first + i;
        const double *from = (const double *)job->call->inputs[1] +
                             pixel / y->places * y->image + pixel % y->places * step +
                             group * plan->outer * y->channel;
        for (int64_t column = 0; column < plan->outer; column += COLUMNS) {
            double *to = out + column * count + i * COLUMNS;
            const int64_t columns = ipu__min(plan->outer - column, COLUMNS);
            for (int64_t j = 0; j < columns; j++) {
                to[j] = from[(column + j) * y->channel];
            }
            memset(to + columns, 0, (size_t)(COLUMNS - columns) * sizeof(double));
        }
    }
}

/* Where position `position` of the windows at these pixels lies in x. */
static void
find_pixels(const wide_job *job, int64_t group, int64_t position, int64_t first,
            int64_t count, strided *out)
{
    const wide_plan *plan = job->plan;
    const side *y = &plan->y;
    const double *data = job->source + group * plan->c.depth * plan->x.channel;
    int64_t window[AXES];
    int64_t k[AXES];
    window_sizes(plan, window);
    unravel(position, window, k);
    for (int64_t i = 0; i < count;) { /* a line of y at a time */
        int64_t place[AXES];
        int64_t from[AXES];
        unravel((first + i) % y->places, y->sizes, place);
        (void)meets(plan, 0, place[0], k[0], &from[0]);
        (void)meets(plan, 1, place[1], k[1], &from[1]);
        (void)meets(plan, 2, place[2], k[2], &from[2]);
        const double *line =
            line_at(&plan->x, data, (first + i) / y->places, from[0], from[1]);
        const int64_t end = ipu__min(count, i + y->sizes[2] - place[2]);
        for (; i < end; i++, from[2] += plan->axes[2].stride) {
            out[i] = place_at(&plan->x, line, from[2]);
        }
    }
}

/* Some channels under a position go on with the pixels of a block. */
static void
make_channels(const wide_job *job, const strided *pixels, int64_t count, int64_t group,
              int64_t position, int64_t channel, const double *panels)
{
    const wide_plan *plan = job->plan;
    const ipu_convolution *c = &plan->c;
    const int64_t rows = ipu__min(c->depth - channel, ROWS);
    int64_t offsets[ROWS];
    for (int64_t i = 0; i < ROWS; i++) {
        offsets[i] = channel + ipu__min(i, rows - 1);
    }
    for (int64_t p = 0; p < plan->panels; p++) {
        const size_t bytes =
            (size_t)ipu__min(plan->outer - p * COLUMNS, COLUMNS) * sizeof(double);
        double *result = (double *)job->call->outputs[0] +
                         (position * c->depth + channel) * c->filters +
                         group * plan->outer + p * COLUMNS;
        double tile[ROWS][COLUMNS] = {{0.0}};
        for (int64_t i = 0; i < rows; i++) {
            memcpy(tile[i], result + i * c->filters, bytes);
        }
        add_pixels(tile, pixels, count, offsets, panels + p * count * COLUMNS);
        for (int64_t i = 0; i < rows; i++) {
            memcpy(result + i * c->filters, tile[i], bytes);
        }
    }
}

/* Some of the tiles of channels, position by position, group by group. */
static void
tiles_task(void *state, int32_t task, int32_t worker)
{
    const wide_job *job = state;
    const wide_plan *plan = job->plan;
    const ipu_convolution *c = &plan->c;
    const int64_t tiles = ipu__ceil_div(c->depth, ROWS);
    const int64_t each = plan->positions * tiles;
    const int64_t begin = ipu__share_of(c->groups * each, job->parts, task);
    const int64_t end = ipu__share_of(c->groups * each, job->parts, task + 1);
    const int64_t pixels = c->batch * plan->y.places;
    double *panels = job->panels + task * plan->panels * PIXELS * COLUMNS;
    strided places[PIXELS];
    (void)worker;
    for (int64_t first = 0; first < pixels; first += PIXELS) {
        const int64_t count = ipu__min(pixels - first, PIXELS);
        for (int64_t i = begin; i < end; i++) {
            const int64_t group = i / each;
            const int64_t position = i % each / tiles;
            if (i == begin || i % each == 0) {
                pack_pixels(job, group, first, count, panels);
            }
            if (i == begin || i % tiles == 0) {
                find_pixels(job, group, position, first, count, places);
            }
            make_channels(job, places, count, group, position, i % tiles * ROWS, panels);
        }
    }
}

static ipu_status
run_filter(const ipu_kernel_call *call)
{
    const wide_plan *plan = call->spec->prepared;
    const int64_t threads = call->pool == NULL ? 1 : ipu_pool_threads(call->pool);
    wide_job job = {.plan = plan,
                    .call = call,
                    .source = call->inputs[0],
                    .panels = call->workspace,
                    .parts = ipu__min(plan->tasks, threads)};
    memset(call->outputs[0], 0, ipu_type_bytes(&call->spec->outputs[0]));
    ipu_pool_run(call->pool, (int32_t)job.parts, tiles_task, &job);
    return IPU_OK;
}

/* --- prepare ------------------------------------------------------------------------ */

enum { FILTER_TASKS = 16 }; /* at most: each packs all of y */

static ipu_status
prepare(const ipu__preparation *p)
{
    ipu_kernel_spec *spec = p->spec;
    const bool is_filter = spec->op == IPU_OP_ID_CONV_GRAD_FILTER;
    const ipu__conv_shapes shapes = ipu__conv_shapes_of(spec);
    const ipu_conv_axis one = {
        .size = 1, .out = 1, .window = 1, .stride = 1, .dilation = 1};
    wide_plan *plan;
    IPU_TRY(ipu__prepared(p, sizeof *plan, &plan));
    ipu_convolution_of(spec->attrs, shapes.x, shapes.w, &plan->c);
    const ipu_convolution *c = &plan->c;
    const int64_t filters = c->filters / c->groups;
    for (int32_t i = 0; i < AXES; i++) {
        const int32_t given = i - (AXES - c->spatial);
        plan->axes[i] = given >= 0 ? c->axes[given] : one;
    }
    plan->x = side_of(c, c->depth * c->groups, false, plan->axes);
    plan->y = side_of(c, c->filters, true, plan->axes);
    plan->back = spec->op == IPU_OP_ID_CONV_GRAD_INPUT;
    plan->positions = ipu_conv_positions(c);
    plan->inner = plan->back ? filters : c->depth;
    plan->outer = plan->back ? c->depth : filters;
    plan->panels = ipu__ceil_div(plan->outer, COLUMNS);
    int64_t packed = c->groups * plan->positions * plan->inner;
    if (is_filter) {
        const int64_t tiles = plan->positions * ipu__ceil_div(c->depth, ROWS);
        plan->tasks = ipu__min(c->groups * tiles, FILTER_TASKS);
        packed = plan->tasks * PIXELS;
    } else if (spec->op == IPU_OP_ID_FUSED_CONV) {
        plan->activation =
            (ipu_activation)ipu_attrs_int(spec->attrs, IPU_ATTR_ACTIVATION, 0);
    }
    spec->run = is_filter ? run_filter : run_windows;
    spec->kernel_name = is_filter ? "tiles_6x8" : "rows_6x8";
    spec->workspace_bytes = (size_t)(packed * plan->panels * COLUMNS) * sizeof(double);
    return IPU_OK;
}

#endif

ipu_status
ipu__conv_wide_prepare(const ipu__preparation *p)
{
#if defined(__x86_64__)
    const int64_t elements = ipu_shape_elements(&p->spec->outputs[0].shape);
    if (p->cpu >= IPU_CPU_AVX2 && elements > 0) {
        return prepare(p);
    }
#else
    (void)p;
#endif
    return IPU_OK;
}
