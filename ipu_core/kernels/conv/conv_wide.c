/* SPDX-License-Identifier: MIT
 *
 * Convolutions of float64 and their gradients, as products by BLIS. A row of a matrix is
 * what the window of a pixel of y covers in x, all taps and in each the channels of a
 * group; w has as many rows, y has the pixels.
 *
 *   conv               y = rows w
 *   conv_grad_filter   w = rows^T y
 *   conv_grad_input    rows = y w^T, each added up in x where its window lies
 *
 * The matrix is made for some pixels at a time, and not at all where it is x itself; w
 * and y are read and written where they lie. Parts and pixels follow from the shape
 * alone, since BLIS rounds as a product is cut. */
#include "kernels/conv/conv_run_impl.h"
#include "kernels/core/blis_impl.h"

enum {
    AXES = IPU_CONV_MAX_SPATIAL,
    ROWS_NUMBERS = 1 << 15, /* of the matrix, which then stays in the cache */
    LEAST_PIXELS = 32,
    MOST_PIXELS = 1024,
    PARTS = 8,       /* at least, where they are not small */
    TILE_ROWS = 6,    /* of BLIS's kernels for AVX2 */
    LEAST_WIDTH = 72, /* of a part of w */
    LEAST_FILTERS = 32
};

/* How far from an element to the next one of x or y; axes that the tensors lack have one
 * place. */
typedef struct side {
    int64_t sizes[AXES];
    int64_t steps[AXES];
    int64_t places; /* of an image */
    int64_t image;
    int64_t channel;
} side;

/* A tap of the window. */
typedef struct tap {
    int64_t delta[AXES]; /* places from where the window begins */
    int64_t at;          /* elements */
} tap;

typedef struct wide_plan {
    ipu_convolution c;
    ipu_conv_axis axes[AXES];
    side x;
    side y;
    const tap *taps;
    int64_t joined;      /* taps that follow each other in x */
    int64_t reach[AXES]; /* from the first tap to the last */
    int64_t filters; /* of a group */
    int64_t width;   /* of the matrix: all taps and channels of a group */
    bool is_x;       /* it is x */
    int64_t parts;   /* of each group: of conv pixels, of the gradients channels, or
                        rows of w ... */
    bool by_filters; /* ... or columns, where there are few rows */
    int64_t units;   /* parts of all groups and, of the input's gradient, images */
    int64_t pixels;  /* at a time */
    ipu__blis_context context;
    int64_t scratch; /* numbers */
    ipu_activation activation;
    ipu__block scale;
    ipu__block add;
    ipu__block activate;
} wide_plan;

/* Columns of the matrix for some pixels and filters of y. */
typedef struct window_rows {
    int64_t group;
    int64_t filter; /* of the group's */
    int64_t filters;
    int64_t pixel;
    int64_t pixels;
    int64_t begin;
    int64_t end;
} window_rows;

static side
side_of(const ipu_convolution *c, int64_t channels, bool of_y,
        const ipu_conv_axis axes[AXES])
{
    side s = {.places = 1};
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

/* Channel `channel` of a pixel, counted through all images. */
static int64_t
pixel_at(const side *s, int64_t pixel, int64_t channel)
{
    return pixel / s->places * s->image + pixel % s->places * s->steps[AXES - 1] +
           channel * s->channel;
}

/* Up to where pixels are equally far apart. */
static int64_t
run_of(const wide_plan *plan, int64_t pixel, int64_t end)
{
    int64_t places = plan->y.places;
    int64_t most = plan->c.channels_first ? (pixel / places + 1) * places : end;
    return ipu__min(ipu__min(pixel + plan->pixels, most), end) - pixel;
}

/* Numbers of x, `step` apart, to the matrix, or (`back`) from it, to be added. */
IPU_INLINE void
move(double *x, int64_t step, double *row, int64_t n, bool back)
{
    for (int64_t j = 0; j < n && back; j++) {
        x[j * step] += row[j];
    }
    for (int64_t j = 0; j < n && !back; j++) {
        row[j] = x[j * step];
    }
}

/* One row of the matrix: of a window that begins at place `at`, which is `x`. Taps
 * that follow each other in x are taken together, where no border is near. */
IPU_INLINE void
walk_window(const wide_plan *plan, const window_rows *w, const int64_t at[AXES],
            double *x, double *row, bool back)
{
    const side *s = &plan->x;
    bool inner = true;
    for (int32_t a = 0; a < AXES; a++) {
        inner = inner && at[a] >= 0 && at[a] + plan->reach[a] < s->sizes[a];
    }
    const int64_t taps = inner ? plan->joined : 1;
    const int64_t run = taps * plan->c.depth;
    for (int64_t j = w->begin, n; j < w->end; j += n, row += n) {
        const tap *t = &plan->taps[j / run * taps];
        double *from = x + t->at + j % run;
        bool inside = inner;
        n = ipu__min(run - j % run, w->end - j);
        if (!inner) {
            inside = true;
            for (int32_t a = 0; a < AXES; a++) {
                int64_t place = at[a] + t->delta[a];
                inside = inside && place >= 0 && place < s->sizes[a];
            }
        }
        if (!inside) {
            memset(row, 0, back ? 0 : (size_t)n * sizeof *row);
        } else {
            move(from, 1, row, n, back);
        }
    }
}

/* Makes rows of the matrix from x, or (`back`) adds them up there, where the channels
 * come last. */
static void
walk(const wide_plan *plan, const window_rows *w, double *x, double *rows, bool back)
{
    for (int64_t i = 0; i < w->pixels; i++, rows += w->end - w->begin) {
        int64_t place = (w->pixel + i) % plan->y.places;
        int64_t base = (w->pixel + i) / plan->y.places * plan->x.image +
                       w->group * plan->c.depth;
        int64_t at[AXES];
        for (int32_t a = AXES - 1; a >= 0; a--) {
            at[a] = place % plan->y.sizes[a] * plan->axes[a].stride - plan->axes[a].low;
            place /= plan->y.sizes[a];
            base += at[a] * plan->x.steps[a];
        }
        if (back) {
            walk_window(plan, w, at, x + base, rows, true);
        } else {
            walk_window(plan, w, at, x + base, rows, false);
        }
    }
}

/* The same where the channels are planes: the pixels of a row of y lie apart by the
 * stride in x, and the matrix has a row for each of its columns. */
static void
walk_planes(const wide_plan *plan, const window_rows *w, double *x, double *columns,
            bool back)
{
    const side *s = &plan->x;
    const ipu_conv_axis *last = &plan->axes[AXES - 1];
    for (int64_t i = 0, n; i < w->pixels; i += n) {
        const int64_t pixel = w->pixel + i;
        int64_t place = pixel % plan->y.places;
        n = ipu__min(last->out - place % last->out, w->pixels - i);
        double *image = x + pixel / plan->y.places * s->image;
        int64_t at[AXES];
        for (int32_t a = AXES - 1; a >= 0; a--) {
            at[a] = place % plan->y.sizes[a] * plan->axes[a].stride - plan->axes[a].low;
            place /= plan->y.sizes[a];
        }
        for (int64_t j = w->begin; j < w->end; j++) {
            const tap *t = &plan->taps[j / plan->c.depth];
            double *plane =
                image + (w->group * plan->c.depth + j % plan->c.depth) * s->channel;
            double *column = columns + (j - w->begin) * w->pixels + i;
            bool inside = true;
            for (int32_t a = 0; a < AXES - 1; a++) {
                const int64_t there = at[a] + t->delta[a];
                inside = inside && there >= 0 && there < s->sizes[a];
                plane += there * s->steps[a];
            }
            const int64_t first = at[AXES - 1] + t->delta[AXES - 1];
            const int64_t end = ipu__ceil_div(s->sizes[AXES - 1] - first, last->stride);
            const int64_t before = ipu__ceil_div(ipu__max(-first, 0), last->stride);
            const int64_t stop = inside ? ipu__max(ipu__min(end, n), 0) : 0;
            const int64_t start = ipu__min(before, stop);
            memset(column, 0, back ? 0 : (size_t)start * sizeof *column);
            memset(column + stop, 0, back ? 0 : (size_t)(n - stop) * sizeof *column);
            if (start < stop && last->stride == 1) {
                move(plane + first + start, 1, column + start, stop - start, back);
            } else if (start < stop) {
                move(plane + first + start * last->stride, last->stride, column + start,
                     stop - start, back);
            }
        }
    }
}

typedef struct wide_job {
    const ipu_kernel_call *call;
    const wide_plan *plan;
    double *x;
    double *w;
    double *y;
} wide_job;

typedef struct matrix {
    double *at;
    int64_t row;
    int64_t col;
} matrix;

static void
multiply(const wide_plan *plan, matrix a, matrix b, matrix c, int64_t m, int64_t k,
         int64_t n, bool adds)
{
    for (int64_t i = 0; k == 0 && i < m * n; i++) {
        c.at[i / n * c.row + i % n * c.col] = 0.0;
    }
    ipu__blis_product product = {
        m,     n,     k,    a.at,  a.row, a.col, b.at,
        b.row, b.col, c.at, c.row, c.col, true,  1.0,   adds ? 1.0 : 0.0};
    if (k > 0) {
        ipu__blis_multiply(plan->context, &product);
    }
}

/* The steps of fused_conv on results, by the functions of single ops. */
static void
finish(const wide_job *job, const window_rows *w, matrix y)
{
    const wide_plan *plan = job->plan;
    const ipu_kernel_call *call = job->call;
    const bool first = plan->c.channels_first;
    const ipu_kernel_spec *spec = call->spec;
    const uint32_t inputs = spec->op == IPU_OP_ID_FUSED_CONV ? spec->input_count : 0;
    for (int64_t i = 0; i < (first ? plan->filters : w->pixels); i++) {
        double *line = y.at + i * (first ? y.col : y.row);
        const int64_t n = first ? w->pixels : plan->filters;
        for (uint32_t k = 2; k < inputs; k++) {
            const ipu_conv_step step = ipu__conv_step_of(spec, k);
            const ipu__block *block = step == IPU_CONV_SCALE ? &plan->scale : &plan->add;
            const double *operand = call->inputs[k];
            operand += step == IPU_CONV_ADD ? line - job->y : w->group * plan->filters;
            (void)block->run(block, line, line, operand, NULL, n);
        }
        if (plan->activation != IPU_ACTIVATION_NONE) {
            (void)plan->activate.run(&plan->activate, line, line, NULL, NULL, n);
        }
    }
}

/* One step: some pixels, some columns of the matrix. */
static void
make(const wide_job *job, const window_rows *w, double *scratch)
{
    const wide_plan *plan = job->plan;
    const ipu_convolution *c = &plan->c;
    const int64_t width = w->end - w->begin;
    const int64_t channel = w->group * c->depth + w->begin;
    const int64_t filter = w->group * plan->filters + w->filter;
    const matrix x = {job->x + pixel_at(&plan->x, w->pixel, channel),
                      plan->x.steps[AXES - 1], plan->x.channel};
    const matrix made = c->channels_first ? (matrix){scratch, 1, w->pixels}
                                          : (matrix){scratch, width, 1};
    const matrix rows = plan->is_x ? x : made;
    const matrix filters = {job->w + w->begin * c->filters + filter, c->filters, 1};
    const matrix y = {job->y + pixel_at(&plan->y, w->pixel, filter),
                      plan->y.steps[AXES - 1], plan->y.channel};
    const matrix rows_turned = {rows.at, rows.col, rows.row};
    const matrix filters_turned = {filters.at, filters.col, filters.row};
    if (job->call->spec->op == IPU_OP_ID_CONV_GRAD_INPUT) {
        multiply(plan, y, filters_turned, rows, w->pixels, plan->filters, width, false);
        if (!plan->is_x) {
            (c->channels_first ? walk_planes : walk)(plan, w, job->x, scratch, true);
        }
        return;
    }
    if (!plan->is_x) {
        (c->channels_first ? walk_planes : walk)(plan, w, job->x, scratch, false);
    }
    if (job->call->spec->op == IPU_OP_ID_CONV_GRAD_FILTER) {
        multiply(plan, rows_turned, y, filters, width, w->pixels, w->filters,
                 w->pixel > 0);
    } else {
        multiply(plan, rows, filters, y, w->pixels, width, plan->filters, false);
        finish(job, w, y);
    }
}

/* Pixels [pixel, end) in turn. */
static void
make_pixels(const wide_job *job, window_rows w, int64_t end, double *scratch)
{
    for (; w.pixel < end; w.pixel += w.pixels) {
        w.pixels = run_of(job->plan, w.pixel, end);
        make(job, &w, scratch);
    }
}

/* Channels [first, last) of a group of an image of x. Taps meet there, so one follows the
 * other. */
static void
make_input(const wide_job *job, int64_t image, window_rows w, int64_t first, int64_t last,
           double *scratch)
{
    const wide_plan *plan = job->plan;
    const int64_t depth = plan->c.depth;
    const int64_t places = plan->y.places;
    const int64_t ranges = last - first == depth ? 1 : plan->width / depth;
    for (int64_t i = 0; !plan->is_x && i < plan->x.places; i++) {
        double *x = job->x + pixel_at(&plan->x, image * plan->x.places + i,
                                      w.group * depth + first);
        for (int64_t j = 0; j < last - first; j++) {
            x[j * plan->x.channel] = 0.0;
        }
    }
    for (int64_t i = 0; i < ranges; i++) {
        w.begin = i * depth + first;
        w.end = ranges == 1 ? plan->width : i * depth + last;
        w.pixel = image * places;
        make_pixels(job, w, (image + 1) * places, scratch);
    }
}

static void
make_units(void *state, int64_t begin, int64_t end, void *scratch)
{
    const wide_job *job = state;
    const wide_plan *plan = job->plan;
    const int64_t pixels = plan->c.batch * plan->y.places;
    for (int64_t i = begin; i < end; i++) {
        const int64_t part = i % plan->parts;
        window_rows w = {.group = i / plan->parts % plan->c.groups,
                         .filters = plan->filters,
                         .end = plan->width};
        switch (job->call->spec->op) {
        case IPU_OP_ID_CONV_GRAD_INPUT:
            make_input(job, i / plan->parts / plan->c.groups, w,
                       ipu__share_of(plan->c.depth, plan->parts, part),
                       ipu__share_of(plan->c.depth, plan->parts, part + 1), scratch);
            break;
        case IPU_OP_ID_CONV_GRAD_FILTER:
            if (plan->by_filters) {
                w.filter = ipu__share_of(plan->filters, plan->parts, part);
                w.filters =
                    ipu__share_of(plan->filters, plan->parts, part + 1) - w.filter;
            } else {
                w.begin = ipu__share_of(plan->width, plan->parts, part);
                w.end = ipu__share_of(plan->width, plan->parts, part + 1);
            }
            make_pixels(job, w, pixels, scratch);
            break;
        default:
            w.pixel = ipu__share_of(pixels, plan->parts, part);
            make_pixels(job, w, ipu__share_of(pixels, plan->parts, part + 1), scratch);
            break;
        }
    }
}

static ipu_status
run(const ipu_kernel_call *call)
{
    const wide_plan *plan = call->spec->prepared;
    const bool of_input = call->spec->op == IPU_OP_ID_CONV_GRAD_INPUT;
    const bool of_filter = call->spec->op == IPU_OP_ID_CONV_GRAD_FILTER;
    double *first = (double *)(uintptr_t)call->inputs[0];
    double *second = (double *)(uintptr_t)call->inputs[1];
    double *result = call->outputs[0];
    wide_job job = {
        .call = call,
        .plan = plan,
        .x = of_input ? result : first,
        .w = of_filter ? result : second,
        .y = of_input ? first : of_filter ? second : result,
    };
    ipu__share_out(call->pool, plan->units, make_units, &job, call->workspace,
                   (size_t)plan->scratch * sizeof(double));
    return IPU_OK;
}

/* --- prepare ------------------------------------------------------------------------ */

static ipu_status
prepare_taps(const ipu__preparation *p, wide_plan *plan)
{
    const int64_t positions = ipu_conv_positions(&plan->c);
    tap *taps;
    IPU_TRY(ipu_arena_alloc(p->ctx, p->arena, (size_t)positions * sizeof *taps, &taps));
    for (int64_t i = 0; i < positions; i++) {
        int64_t rest = i;
        taps[i].at = 0;
        for (int32_t a = AXES - 1; a >= 0; a--) {
            const ipu_conv_axis *axis = &plan->axes[a];
            taps[i].delta[a] = rest % axis->window * axis->dilation;
            taps[i].at += taps[i].delta[a] * plan->x.steps[a];
            rest /= axis->window;
        }
    }
    plan->taps = taps;
    const ipu_conv_axis *last = &plan->axes[AXES - 1];
    const bool follow =
        last->dilation == 1 && plan->x.steps[AXES - 1] == plan->c.depth;
    plan->joined = follow ? last->window : 1;
    memcpy(plan->reach, taps[positions - 1].delta, sizeof plan->reach);
    return IPU_OK;
}

/* Whether x has a place for each pixel of y, in the same order. */
static bool
is_x(const wide_plan *plan)
{
    bool same = plan->width == plan->c.depth;
    for (int32_t i = 0; i < AXES; i++) {
        const ipu_conv_axis *axis = &plan->axes[i];
        same = same && axis->stride == 1 && axis->low == 0 && axis->size == axis->out;
    }
    return same;
}

/* Pixels at a time, of a matrix of so many columns. */
static int64_t
pixels_of(int64_t width)
{
    const int64_t fit = ROWS_NUMBERS / ipu__max(width, 1);
    return ipu__max(ipu__min(fit, MOST_PIXELS), LEAST_PIXELS);
}

static void
cut(wide_plan *plan, ipu_op op)
{
    const ipu_convolution *c = &plan->c;
    const int64_t pixels = c->batch * plan->y.places;
    int64_t width = plan->width;
    int64_t units = c->groups;
    int64_t most = ipu__ceil_div(pixels, pixels_of(width));
    if (op == IPU_OP_ID_CONV_GRAD_INPUT) {
        units *= c->batch;
        most = c->depth / LEAST_WIDTH;
    } else if (op == IPU_OP_ID_CONV_GRAD_FILTER) {
        most = width / LEAST_WIDTH;
        plan->by_filters = most <= 1;
        most = plan->by_filters ? plan->filters / LEAST_FILTERS : most;
    }
    plan->parts = ipu__max(ipu__min(most, ipu__ceil_div(PARTS, units)), 1);
    plan->units = units * plan->parts;
    if (op == IPU_OP_ID_CONV_GRAD_FILTER && !plan->by_filters) {
        width = ipu__ceil_div(width, plan->parts);
    }
    plan->pixels = ipu__min(pixels_of(width), pixels);
    if (op == IPU_OP_ID_CONV || op == IPU_OP_ID_FUSED_CONV) { /* none are few */
        const int64_t share = ipu__ceil_div(pixels, plan->parts);
        const int64_t turns = ipu__ceil_div(share, plan->pixels);
        const int64_t even = ipu__ceil_div(share, ipu__max(turns, 1));
        plan->pixels = ipu__ceil_div(even, TILE_ROWS) * TILE_ROWS;
    }
    plan->scratch = plan->is_x ? 0 : plan->pixels * width;
}

ipu_status
ipu__conv_wide_prepare(const ipu__preparation *p)
{
    ipu_kernel_spec *spec = p->spec;
    const ipu__conv_shapes shapes = ipu__conv_shapes_of(spec);
    const ipu_conv_axis one = {
        .size = 1, .out = 1, .window = 1, .stride = 1, .dilation = 1};
    const ipu_dtype dtype = IPU_DTYPE_FLOAT64;
    wide_plan *plan;
    IPU_TRY(ipu__prepared(p, sizeof *plan, &plan));
    ipu_convolution_of(spec->attrs, shapes.x, shapes.w, &plan->c);
    const ipu_convolution *c = &plan->c;
    for (int32_t i = 0; i < AXES; i++) {
        const int32_t given = i - (AXES - c->spatial);
        plan->axes[i] = given >= 0 ? c->axes[given] : one;
    }
    plan->x = side_of(c, c->depth * c->groups, false, plan->axes);
    plan->y = side_of(c, c->filters, true, plan->axes);
    plan->filters = c->filters / c->groups;
    plan->width = ipu_conv_positions(c) * c->depth;
    plan->is_x = is_x(plan);
    cut(plan, spec->op);
    IPU_TRY(prepare_taps(p, plan));
    ipu_cpu_class cpu = p->variant == IPU_KERNEL_PORTABLE ? IPU_CPU_GENERIC : p->cpu;
    IPU_TRY(ipu__blis_check(p->ctx, cpu));
    plan->context =
        ipu__blis_context_for(plan->pixels, plan->filters, plan->width, cpu);
    if (spec->op == IPU_OP_ID_FUSED_CONV) {
        plan->activation =
            (ipu_activation)ipu_attrs_int(spec->attrs, IPU_ATTR_ACTIVATION, 0);
        ipu__block_prepare(&plan->scale, IPU_OP_ID_MUL, dtype, dtype, p->cpu);
        ipu__block_prepare(&plan->add, IPU_OP_ID_ADD, dtype, dtype, p->cpu);
        ipu__block_prepare(&plan->activate, ipu__activation_op(plan->activation), dtype,
                           dtype, p->cpu);
    }
    spec->run = run;
    spec->kernel_name = ipu__blis_name(plan->context);
    spec->workspace_bytes =
        ipu__share_bytes(plan->units, (size_t)plan->scratch * sizeof(double));
    return IPU_OK;
}
