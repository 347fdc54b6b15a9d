/* SPDX-License-Identifier: MIT
 *
 * Normalisation, of normalize_fast.c and normalize_wide.c, which include it with the
 * numbers that they compute in (normalize_loops.h).
 *
 * Down the rows, where there are several, or groups: rows are cut into chunks that fit
 * the cache. Of each chunk and channel there are a sum and the squares around the
 * chunk's own mean, so x comes from memory once; chunks, then channels of a group, are
 * joined in double, in their order (Chan, Golub and LeVeque 1979). Along the row, where
 * a row is a group: lanes, then halves. Both trees depend on the shape alone.
 *
 * The gradients of factor and shift are sums over the same chunks, or over chunks of
 * ROWS rows. Tasks are outer indices where there are several, else chunks. */
#ifndef IPU_KERNELS_NORMALIZE_BODY_H
#define IPU_KERNELS_NORMALIZE_BODY_H

#include <math.h>
#include <string.h>

#include "kernels/core/sum_tree.h"
#include "kernels/reduce/normalize_impl.h"
#include "kernels/reduce/normalize_loops.h"

enum {
    CHUNK = 4096,     /* elements of a chunk ... */
    FEWEST_ROWS = 16, /* ... and its rows, at least */
    ROWS = 64,
    LONG_ROW = 8192, /* elements that one tree folds */
    WIDE = 4096,     /* of float16, in a row that is widened */
    STRIP = 1024,    /* ... down the rows: three of them stay in the cache */
    MANY = 8,        /* outer indices that are tasks */
    TASK_ELEMENTS = 16384
};

/* Prepared. */
typedef struct normalize_plan {
    ipu__normalize n;
    const normalize_loops *loops;
    ipu_cpu_class cpu;
    bool half;
    bool gradient;
    bool along;       /* a row is a group */
    int64_t chunk;    /* rows */
    int64_t chunks;   /* of an outer index; along rows: of all */
    int64_t per_task; /* chunks, or rows */
    size_t bytes;     /* of workspace, of an outer index */
} normalize_plan;

typedef struct normalize_job {
    const normalize_plan *plan;
    const ipu_kernel_call *call;
    int64_t first; /* the outer index whose workspace comes first */
    /* what tasks do with chunk k */
    void (*do_chunk)(const struct normalize_job *job, int64_t outer, int64_t k);
} normalize_job;

/* Of an outer index: what chunks and channels of it sum up to. */
typedef struct sums {
    double *total; /* of each channel, as are the next five */
    double *more;
    real *mean;
    real *factor;
    real *tilt;
    real *shift;
    real *chunks; /* three rows of channels for each */
} sums;

static sums
sums_of(const normalize_job *job, int64_t outer)
{
    const normalize_plan *plan = job->plan;
    int64_t c = plan->n.channels;
    char *base = ipu__at_mutable(job->call->workspace,
                                 (outer - job->first) * (int64_t)plan->bytes);
    double *total = (double *)(void *)base;
    real *mean = (real *)(void *)(base + 2 * c * (int64_t)sizeof(double));
    return (sums){total,        total + c,    mean,        mean + c,
                  mean + 2 * c, mean + 3 * c, mean + 4 * c};
}

static const void *
input_at(const normalize_job *job, uint32_t input, int64_t i)
{
    return ipu__at(job->call->inputs[input],
                   i * (job->plan->half ? 2 : (int64_t)sizeof(real)));
}

static real
inverse_deviation(const normalize_plan *plan, real variance)
{
    return (real)(1.0 / sqrt((double)variance + plan->n.epsilon));
}

/* --- rows, of float16 through a buffer ----------------------------------------------
 */

/* n elements of an input, from element i on, as reals. */
static const real *
widened(const normalize_job *job, uint32_t input, int64_t i, int64_t n, real *wide)
{
    const void *x = input_at(job, input, i);
    if (!job->plan->half) {
        return x;
    }
    ipu__halves_to_floats((void *)wide, x, n, job->plan->cpu);
    return wide;
}

typedef enum pass { SUM, SQUARES, SLOPES, RESULT, GRADIENT } pass;

/* A pass over some channels of rows that are reals. */
static void
pass_over(const normalize_plan *plan, pass what, const sums *s, real *part, int64_t c,
          const real *x, const real *dy, real *out, int64_t rows, int64_t n)
{
    const normalize_loops *f = plan->loops;
    int64_t step = plan->n.channels;
    switch (what) {
    case SUM:
        f->sum(part + c, x, rows, step, n);
        break;
    case SQUARES:
        f->squares(part + step + c, part + 2 * step + c, x, rows, step, n);
        break;
    case SLOPES:
        f->slopes(part + c, part + step + c, s->mean + c, x, dy, rows, step, n);
        break;
    case RESULT:
        f->result(out, x, s->mean + c, s->factor + c, s->shift + c, rows, step, n);
        break;
    case GRADIENT:
        f->gradient(out, x, dy, s->mean + c, s->factor + c, s->tilt + c, s->shift + c,
                    rows, step, n);
        break;
    }
}

static void
chunk_pass(const normalize_job *job, pass what, const sums *s, real *part,
           int64_t first, int64_t rows)
{
    const normalize_plan *plan = job->plan;
    int64_t channels = plan->n.channels;
    bool slopes = what == SLOPES || what == GRADIENT;
    bool writes = what == RESULT || what == GRADIENT;
    real x[STRIP];
    real dy[STRIP];
    real out[STRIP];
    if (!plan->half) {
        int64_t at = first * channels;
        pass_over(plan, what, s, part, 0, input_at(job, 0, at),
                  slopes ? input_at(job, 1, at) : NULL,
                  writes ? (real *)job->call->outputs[0] + at : NULL, rows, channels);
        return;
    }
    int64_t some = ipu__max(1, STRIP / channels);
    for (int64_t end, row = first; row < first + rows; row = end) {
        end = ipu__min(row + some, first + rows);
        for (int64_t c = 0; c < channels; c += STRIP) {
            int64_t n = ipu__min(channels - c, STRIP);
            int64_t all = (end - row) * n;
            int64_t at = row * channels + c;
            pass_over(plan, what, s, part, c, widened(job, 0, at, all, x),
                      slopes ? widened(job, 1, at, all, dy) : NULL, out, end - row, n);
            if (writes) {
                ipu__floats_to_halves((uint16_t *)job->call->outputs[0] + at,
                                      (void *)out, all, plan->cpu);
            }
        }
    }
}

/* --- down the rows ------------------------------------------------------------------
 */

/* The rows of chunk k: how many, and of all rows which is the first. */
static int64_t
rows_of(const normalize_plan *plan, int64_t outer, int64_t k, int64_t *first)
{
    *first = outer * plan->n.rows + k * plan->chunk;
    return ipu__min(plan->n.rows - k * plan->chunk, plan->chunk);
}

static void
sum_chunk(const normalize_job *job, int64_t outer, int64_t k)
{
    const normalize_plan *plan = job->plan;
    int64_t channels = plan->n.channels;
    sums s = sums_of(job, outer);
    real *part = s.chunks + k * 3 * channels;
    int64_t first;
    int64_t rows = rows_of(plan, outer, k, &first);
    memset(part, 0, (size_t)(2 * channels) * sizeof *part);
    if (plan->gradient) {
        chunk_pass(job, SLOPES, &s, part, first, rows);
        return;
    }
    chunk_pass(job, SUM, &s, part, first, rows);
    for (int64_t c = 0; c < channels; c++) {
        part[2 * channels + c] = part[c] / (real)rows;
    }
    chunk_pass(job, SQUARES, &s, part, first, rows);
}

static void
finish_chunk(const normalize_job *job, int64_t outer, int64_t k)
{
    sums s = sums_of(job, outer);
    int64_t first;
    int64_t rows = rows_of(job->plan, outer, k, &first);
    chunk_pass(job, job->plan->gradient ? GRADIENT : RESULT, &s, NULL, first, rows);
}

/* total[c] = the sum of row `row` of all chunks. */
static void
add_chunks(const normalize_plan *plan, const sums *s, int64_t row, double *total)
{
    int64_t channels = plan->n.channels;
    memset(total, 0, (size_t)channels * sizeof *total);
    for (int64_t k = 0; k < plan->chunks; k++) {
        const real *part = s->chunks + (3 * k + row) * channels;
        for (int64_t c = 0; c < channels; c++) {
            total[c] += (double)part[c];
        }
    }
}

/* more[c] = the squares around the mean of c's group, which is total[c]. */
static void
add_squares(const normalize_plan *plan, const sums *s)
{
    int64_t channels = plan->n.channels;
    memset(s->more, 0, (size_t)channels * sizeof *s->more);
    for (int64_t k = 0; k < plan->chunks; k++) {
        const real *squares = s->chunks + (3 * k + 1) * channels;
        const real *mean = squares + channels;
        double rows = (double)ipu__min(plan->n.rows - k * plan->chunk, plan->chunk);
        for (int64_t c = 0; c < channels; c++) {
            double off = (double)mean[c] - s->total[c];
            s->more[c] += (double)squares[c] + rows * off * off;
        }
    }
}

static double
add_group(const ipu__normalize *n, int64_t group, const double *of)
{
    double sum = 0.0;
    for (int64_t i = 0; i < n->each; i++) {
        sum += of[ipu__normalize_channel(n, group, i)];
    }
    return sum;
}

/* From the chunks to mean, variance, and what makes the result of x. */
static void
join_statistics(const normalize_job *job, int64_t outer)
{
    const normalize_plan *plan = job->plan;
    const ipu__normalize *n = &plan->n;
    const real *factor = job->call->inputs[1];
    const real *shift = job->call->inputs[2];
    real *mean = (real *)job->call->outputs[1] + outer * n->groups;
    real *variance = (real *)job->call->outputs[2] + outer * n->groups;
    double count = (double)(n->rows * n->each);
    sums s = sums_of(job, outer);
    add_chunks(plan, &s, 0, s.total);
    for (int64_t group = 0; group < n->groups; group++) {
        double middle = add_group(n, group, s.total) / count;
        mean[group] = (real)middle;
        for (int64_t i = 0; i < n->each; i++) {
            s.total[ipu__normalize_channel(n, group, i)] = middle;
        }
    }
    add_squares(plan, &s);
    for (int64_t group = 0; group < n->groups; group++) {
        variance[group] = (real)(add_group(n, group, s.more) / count);
        real inverse = inverse_deviation(plan, variance[group]);
        for (int64_t i = 0; i < n->each; i++) {
            int64_t c = ipu__normalize_channel(n, group, i);
            s.mean[c] = mean[group];
            s.factor[c] = inverse * factor[c];
            s.shift[c] = shift[c];
        }
    }
}

/* The mean of each channel's group. */
static void
spread_means(const normalize_job *job, int64_t outer)
{
    const ipu__normalize *n = &job->plan->n;
    const real *mean = (const real *)job->call->inputs[3] + outer * n->groups;
    sums s = sums_of(job, outer);
    for (int64_t c = 0; c < n->channels; c++) {
        s.mean[c] = mean[ipu__normalize_group(n, c)];
    }
}

/* From the chunks to what makes dx; total and more become the sums of dy and of dy
 * times the normalised x. */
static void
join_slopes(const normalize_job *job, int64_t outer)
{
    const normalize_plan *plan = job->plan;
    const ipu__normalize *n = &plan->n;
    const real *factor = job->call->inputs[2];
    const real *variance = (const real *)job->call->inputs[4] + outer * n->groups;
    double count = (double)(n->rows * n->each);
    sums s = sums_of(job, outer);
    add_chunks(plan, &s, 0, s.total);
    add_chunks(plan, &s, 1, s.more);
    for (int64_t group = 0; group < n->groups; group++) {
        real inverse = inverse_deviation(plan, variance[group]);
        double plain = 0.0;
        double tilted = 0.0;
        for (int64_t i = 0; i < n->each; i++) {
            int64_t c = ipu__normalize_channel(n, group, i);
            s.more[c] *= (double)inverse;
            plain += (double)factor[c] * s.total[c];
            tilted += (double)factor[c] * s.more[c];
        }
        for (int64_t i = 0; i < n->each; i++) {
            int64_t c = ipu__normalize_channel(n, group, i);
            s.factor[c] = inverse * factor[c];
            s.tilt[c] = (real)((double)inverse * (double)inverse * (tilted / count));
            s.shift[c] = (real)((double)inverse * (plain / count));
        }
    }
}

static void
join(const normalize_job *job, int64_t outer)
{
    (job->plan->gradient ? join_slopes : join_statistics)(job, outer);
}

/* Sums of all outer indices: the gradients of factor and shift. */
static void
join_outer(const normalize_job *job)
{
    const ipu__normalize *n = &job->plan->n;
    real *factor = job->call->outputs[1];
    real *shift = job->call->outputs[2];
    for (int64_t c = 0; c < n->channels; c++) {
        double plain = 0.0;
        double tilted = 0.0;
        for (int64_t outer = 0; outer < n->outer; outer++) {
            sums s = sums_of(job, outer);
            plain += s.total[c];
            tilted += s.more[c];
        }
        factor[c] = (real)tilted;
        shift[c] = (real)plain;
    }
}

static void
make_outer(const normalize_job *job, int64_t outer)
{
    const normalize_plan *plan = job->plan;
    if (plan->gradient) {
        spread_means(job, outer);
    }
    for (int64_t k = 0; k < plan->chunks; k++) {
        sum_chunk(job, outer, k);
    }
    join(job, outer);
    for (int64_t k = 0; k < plan->chunks; k++) {
        finish_chunk(job, outer, k);
    }
}

static void
make_outers(void *job, int64_t begin, int64_t end)
{
    for (int64_t outer = begin; outer < end; outer++) {
        make_outer(job, outer);
    }
}

static void
do_chunks(void *state, int64_t begin, int64_t end)
{
    const normalize_job *job = state;
    int64_t chunks = job->plan->chunks;
    for (int64_t i = begin; i < end; i++) {
        job->do_chunk(job, i / chunks, i % chunks);
    }
}

static ipu_status
run_down(const ipu_kernel_call *call)
{
    const normalize_plan *plan = call->spec->prepared;
    normalize_job job = {plan, call, 0, sum_chunk};
    if (plan->n.outer >= MANY) {
        ipu__run_items(call->pool, plan->n.outer, 1, make_outers, &job);
    } else {
        int64_t chunks = plan->n.outer * plan->chunks;
        for (int64_t outer = 0; plan->gradient && outer < plan->n.outer; outer++) {
            spread_means(&job, outer);
        }
        ipu__run_items(call->pool, chunks, plan->per_task, do_chunks, &job);
        for (int64_t outer = 0; outer < plan->n.outer; outer++) {
            join(&job, outer);
        }
        job.do_chunk = finish_chunk;
        ipu__run_items(call->pool, chunks, plan->per_task, do_chunks, &job);
    }
    if (plan->gradient) {
        join_outer(&job);
    }
    return IPU_OK;
}

/* --- along the row ------------------------------------------------------------------
 */

static void
normalize_row(const normalize_job *job, int64_t row)
{
    const normalize_plan *plan = job->plan;
    const normalize_loops *f = plan->loops;
    int64_t n = plan->n.channels;
    real wide[WIDE];
    real out[WIDE];
    const real *x = widened(job, 0, row * n, n, wide);
    real *y = plan->half ? out : (real *)job->call->outputs[0] + row * n;
    double sum = 0.0;
    double squares = 0.0;
    for (int64_t i = 0; i < n; i += LONG_ROW) {
        sum += (double)f->row_sum(x + i, ipu__min(n - i, LONG_ROW));
    }
    real mean = (real)(sum / (double)n);
    for (int64_t i = 0; i < n; i += LONG_ROW) {
        squares += (double)f->row_squares(x + i, mean, ipu__min(n - i, LONG_ROW));
    }
    real variance = (real)(squares / (double)n);
    ((real *)job->call->outputs[1])[row] = mean;
    ((real *)job->call->outputs[2])[row] = variance;
    f->row_result(y, x, mean, inverse_deviation(plan, variance), job->call->inputs[1],
                  job->call->inputs[2], n);
    if (plan->half) {
        ipu__floats_to_halves((uint16_t *)job->call->outputs[0] + row * n, (void *)out,
                              n, plan->cpu);
    }
}

/* Adds what a row gives to the gradients of factor and shift. */
static void
slope_row(const normalize_job *job, int64_t row, real *factors, real *shifts)
{
    const normalize_plan *plan = job->plan;
    const normalize_loops *f = plan->loops;
    int64_t n = plan->n.channels;
    const real *factor = job->call->inputs[2];
    real mean = ((const real *)job->call->inputs[3])[row];
    real inverse = inverse_deviation(plan, ((const real *)job->call->inputs[4])[row]);
    real wide_x[WIDE];
    real wide_dy[WIDE];
    real out[WIDE];
    const real *x = widened(job, 0, row * n, n, wide_x);
    const real *dy = widened(job, 1, row * n, n, wide_dy);
    real *dx = plan->half ? out : (real *)job->call->outputs[0] + row * n;
    double plain = 0.0;
    double tilted = 0.0;
    for (int64_t i = 0; i < n; i += LONG_ROW) {
        int64_t some = ipu__min(n - i, LONG_ROW);
        plain += (double)f->row_plain(dy + i, factor + i, some);
        tilted += (double)f->row_tilted(dy + i, factor + i, x + i, mean, some);
    }
    double scale = (double)inverse / (double)n;
    f->row_gradient(dx, factors, shifts, x, dy, factor, mean, inverse,
                    (real)(tilted * (double)inverse * scale), (real)(plain * scale), n);
    if (plan->half) {
        ipu__floats_to_halves((uint16_t *)job->call->outputs[0] + row * n, (void *)out,
                              n, plan->cpu);
    }
}

static void
normalize_rows(void *job, int64_t begin, int64_t end)
{
    for (int64_t row = begin; row < end; row++) {
        normalize_row(job, row);
    }
}

static void
slope_rows(void *state, int64_t begin, int64_t end)
{
    const normalize_job *job = state;
    int64_t n = job->plan->n.channels;
    real *part = (real *)job->call->workspace + begin / ROWS * 2 * n;
    memset(part, 0, (size_t)(2 * n) * sizeof *part);
    for (int64_t row = begin; row < end; row++) {
        slope_row(job, row, part, part + n);
    }
}

static ipu_status
run_along(const ipu_kernel_call *call)
{
    const normalize_plan *plan = call->spec->prepared;
    normalize_job job = {plan, call, 0, NULL};
    int64_t n = plan->n.channels;
    if (!plan->gradient) {
        ipu__run_items(call->pool, plan->n.outer, plan->per_task, normalize_rows, &job);
        return IPU_OK;
    }
    ipu__run_items(call->pool, plan->n.outer, ROWS, slope_rows, &job);
    for (int64_t i = 0; i < 2 * n; i++) {
        double sum = 0.0;
        for (int64_t k = 0; k < plan->chunks; k++) {
            sum += (double)((const real *)call->workspace)[k * 2 * n + i];
        }
        ((real *)call->outputs[i < n ? 1 : 2])[i % n] = (real)sum;
    }
    return IPU_OK;
}

/* --- choose -------------------------------------------------------------------------
 */

static ipu_status
run_rows(const ipu_kernel_call *call, int64_t begin, int64_t end)
{
    const normalize_plan *plan = call->spec->prepared;
    for (int64_t outer = begin; outer < end; outer++) {
        normalize_job job = {plan, call, outer, NULL};
        (plan->along ? normalize_row : make_outer)(&job, outer);
    }
    return IPU_OK;
}

static void
plan_cut(normalize_plan *plan, ipu_kernel_spec *spec)
{
    const ipu__normalize *n = &plan->n;
    int64_t channels = n->channels;
    if (plan->along) {
        plan->chunks = ipu__ceil_div(n->outer, ROWS);
        plan->per_task = ipu__ceil_div(TASK_ELEMENTS, channels);
        spec->workspace_bytes =
            plan->gradient ? (size_t)(plan->chunks * 2 * channels) * sizeof(real) : 0;
        return;
    }
    plan->chunk = CHUNK / channels < FEWEST_ROWS ? FEWEST_ROWS : CHUNK / channels;
    plan->chunk = ipu__min(plan->chunk, IPU_SUM_BLOCK); /* it is one chain */
    plan->chunks = ipu__ceil_div(n->rows, plan->chunk);
    plan->per_task = ipu__ceil_div(TASK_ELEMENTS, plan->chunk * channels);
    plan->bytes = ipu_buffer_round_up(
        (size_t)channels *
        (2 * sizeof(double) + (size_t)(4 + 3 * plan->chunks) * sizeof(real)));
    spec->workspace_bytes = (size_t)n->outer * plan->bytes;
}

static ipu_status
choose(const ipu__preparation *p)
{
    ipu_kernel_spec *spec = p->spec;
    const bool gradient = spec->op == IPU_OP_ID_NORMALIZE_GRAD;
    bool avx2 = p->cpu >= IPU_CPU_AVX2;
    bool half = spec->inputs[0].dtype == IPU_DTYPE_FLOAT16;
    normalize_plan *plan;
    ipu__normalize n;
    ipu__normalize_plan(spec, &n);
    bool along = n.rows == 1 && n.groups == 1;
    if (n.outer * n.rows * n.channels == 0 || (along && half && n.channels > WIDE)) {
        return IPU_OK;
    }
    IPU_TRY(ipu__prepared(p, sizeof *plan, &plan));
    plan->n = n;
    plan->loops = avx2 ? &loops_avx2 : &loops_generic;
    plan->cpu = p->cpu;
    plan->half = half;
    plan->gradient = gradient;
    plan->along = along;
    plan_cut(plan, spec);
    if (!gradient && n.outer > 1) {
        spec->rows = (ipu_kernel_rows){.run = run_rows,
                                       .count = n.outer,
                                       .inputs = 1,
                                       .workspace_bytes = plan->bytes};
    }
    spec->run = along ? run_along : run_down;
    spec->kernel_name = along ? (avx2 ? "along_avx2" : "along_generic")
                              : (avx2 ? "down_avx2" : "down_generic");
    return IPU_OK;
}

#endif
