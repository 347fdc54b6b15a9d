/* SPDX-License-Identifier: MIT
 *
 * Pooling, to the bits of the reference; float16 is widened (widened.c). Results are
 * made where they will lie, a chunk of a row at a time: for each element of the windows,
 * one after another, all columns of the chunk (pool_columns.c), or, where there are
 * channels enough, of floats, for each column all elements (pool_boxes.c).
 *
 * The gradient of a maximum is made window by window where windows do not meet, and
 * else in tiles of x (pool_scatter.c). Tasks are rows, or tiles. */
#include <string.h>

#include "kernels/pool/pool_fast_impl.h"

enum { TASK_ELEMENTS = 16384 };

/* --- rows of windows ----------------------------------------------------------------
 */

static void
make_chunk(const ipu__pool_job *job, int64_t image, int64_t d, int64_t h,
           const ipu__pool_chunk *c)
{
    const ipu__pool_kernel *plan = job->plan;
    const ipu__pool *pool = &plan->pool;
    ipu_op op = job->call->spec->op;
    int64_t columns = c->end - c->first;
    int64_t offset = ipu__pool_window_row(pool, image, d, h) +
                     c->first * pool->channels + c->channel;
    if (op == IPU_OP_ID_MAX_POOL_GRAD) {
        ipu__pool_walk_boxes(job, IPU_POOL_PLACE, image, d, h, c, NULL, NULL);
        return;
    }
    ipu__pool_target t = ipu__pool_target_of(job, offset);
    if (op == IPU_OP_ID_MAX_POOL_PICK) {
        int32_t place[IPU_POOL_CHUNK];
        plan->results->fill(t.row, t.step, false, columns, c->n);
        ipu__pool_mark(job, image, d, h, c, place);
        ipu__pool_walk(job, image, d, h, c, &t, place, job->call->inputs[2]);
    } else if (plan->boxes != NULL) {
        ipu__pool_walk_boxes(job, IPU_POOL_FOLD, image, d, h, c, &t, NULL);
    } else {
        plan->columns->fill(t.row, t.step, op == IPU_OP_ID_MAX_POOL, columns, c->n);
        ipu__pool_walk(job, image, d, h, c, &t, NULL, NULL);
    }
    if (op == IPU_OP_ID_AVERAGE_POOL && plan->boxes == NULL) {
        plan->columns->divide(t.row, t.step, plan->counts[0][d] * plan->counts[1][h],
                              plan->counts[2] + c->first, columns, c->n);
    }
}

/* What each window around a row of x has to give: the windows in their order, which is
 * against that of their elements. */
static void
share_chunk(const ipu__pool_job *job, int64_t image, int64_t d, int64_t h,
            const ipu__pool_chunk *c)
{
    const ipu__pool_kernel *plan = job->plan;
    const ipu__pool *pool = &plan->pool;
    const ipu__pool_axis *axes = pool->axes;
    const ipu__pool_axis *axis = &axes[2];
    int64_t offset =
        ipu__pool_pixel_row(pool, image, d, h) + c->first * pool->channels + c->channel;
    int64_t first[2];
    int64_t end[2];
    ipu__pool_target t = ipu__pool_target_of(job, offset);
    plan->columns->fill(t.row, t.step, false, c->end - c->first, c->n);
    ipu__pool_sums sums;
    sums.chains = &t;
    sums.columns = c->end - c->first;
    sums.n = c->n;
    sums.levels = plan->levels;
    sums.leaf = 0;
    ipu__pool_windows(&axes[0], d, &first[0], &end[0]);
    ipu__pool_windows(&axes[1], h, &first[1], &end[1]);
    for (int64_t od = first[0]; od < end[0]; od++) {
        for (int64_t oh = first[1]; oh < end[1]; oh++) {
            int64_t kd = ipu__pool_number(&axes[0], d, od);
            int64_t kh = ipu__pool_number(&axes[1], h, oh);
            if (kd < 0 || kh < 0) {
                continue;
            }
            double rows = plan->counts[0][od] * plan->counts[1][oh];
            int64_t row = ipu__pool_window_row(pool, image, od, oh) + c->channel;
            for (int64_t kw = axis->window - 1; kw >= 0; kw--) {
                int64_t a;
                int64_t b;
                ipu__pool_windows_at(axis, kw, c->first, c->end, 0, axis->windows, &a,
                                     &b);
                int64_t pixel = a * axis->stride + kw * axis->dilation - axis->low;
                if (plan->levels > 0 && a < b) {
                    ipu__pool_sums_reach(
                        &sums, ipu__pool_position(pool, axes[0].window - 1 - kd,
                                                  axes[1].window - 1 - kh,
                                                  axis->window - 1 - kw));
                }
                if (a < b) {
                    plan->columns->share(
                        ipu__pool_column(&t, pixel - c->first), axis->stride * t.step,
                        ipu__pool_input(job, 0, row + a * pool->channels),
                        pool->channels, rows, plan->counts[2] + a, b - a, c->n);
                }
            }
        }
    }
    ipu__pool_sums_end(&sums);
}

/* Where windows do not meet: the elements of an axis that window o clears, its own and
 * those up to the next one's. */
static void
cleared(const ipu__pool_axis *axis, int64_t o, int64_t *begin, int64_t *end)
{
    int64_t start = o * axis->stride - axis->low;
    *begin = o == 0 || start < 0 ? 0 : start;
    *end = o + 1 == axis->windows ? axis->size
                                  : ipu__min(start + axis->stride, axis->size);
}

static void
clear_rows(const ipu__pool_job *job, int64_t image, int64_t d, int64_t h)
{
    const ipu__pool *pool = &job->plan->pool;
    int64_t planes[2];
    int64_t rows[2];
    cleared(&pool->axes[0], d, &planes[0], &planes[1]);
    cleared(&pool->axes[1], h, &rows[0], &rows[1]);
    int64_t row = pool->axes[2].size * pool->channels;
    for (int64_t i = planes[0]; rows[0] < rows[1] && i < planes[1]; i++) {
        const ipu__pool_target t =
            ipu__pool_target_of(job, ipu__pool_pixel_row(pool, image, i, rows[0]));
        memset(t.row, 0, (size_t)((rows[1] - rows[0]) * row * t.bytes));
    }
}

/* Row `unit` of windows, or of x, of an image. */
static void
make_row(const ipu__pool_job *job, int64_t image, int64_t unit)
{
    const ipu__pool_kernel *plan = job->plan;
    const ipu__pool_axis *axes = plan->pool.axes;
    bool shares = job->call->spec->op == IPU_OP_ID_AVERAGE_POOL_GRAD;
    int64_t rows = shares ? axes[1].size : axes[1].windows;
    int64_t columns = shares ? axes[2].size : axes[2].windows;
    int64_t some = IPU_POOL_CHUNK / plan->strip;
    ipu__pool_chunk c;
    if (plan->apart && !plan->tiled) {
        clear_rows(job, image, unit / rows, unit % rows);
    }
    for (c.first = 0; c.first < columns; c.first = c.end) {
        c.end = ipu__min(c.first + some, columns);
        for (c.channel = 0; c.channel < plan->pool.channels; c.channel += c.n) {
            c.n = ipu__min(plan->strip, plan->pool.channels - c.channel);
            (shares ? share_chunk : make_chunk)(job, image, unit / rows, unit % rows,
                                                &c);
        }
    }
}

/* --- run and choose -----------------------------------------------------------------
 */

static void
make_units(void *state, int64_t begin, int64_t end)
{
    const ipu__pool_job *job = state;
    int64_t units = job->plan->units;
    bool scatters = job->call->spec->op == IPU_OP_ID_MAX_POOL_GRAD && !job->plan->apart;
    for (int64_t i = begin; i < end; i++) {
        (scatters ? ipu__pool_scatter_tile : make_row)(job, i / units, i % units);
    }
}

static ipu_status
run(const ipu_kernel_call *call)
{
    const ipu__pool_kernel *plan = call->spec->prepared;
    ipu__pool_job job = {plan, call};
    ipu__run_items(call->pool, plan->pool.images * plan->units, plan->per_task,
                   make_units, &job);
    return IPU_OK;
}

static ipu_status
run_rows(const ipu_kernel_call *call, int64_t begin, int64_t end)
{
    const ipu__pool_kernel *plan = call->spec->prepared;
    ipu__pool_job job = {plan, call};
    make_units(&job, begin * plan->units, end * plan->units);
    return IPU_OK;
}

static void
plan_meetings(ipu__pool_kernel *plan, ipu_op op)
{
    plan->apart = op == IPU_OP_ID_MAX_POOL_GRAD && plan->boxes != NULL;
    plan->tiled = true;
    bool dilated = false;
    for (int32_t a = 0; a < IPU_POOL_AXES; a++) {
        const ipu__pool_axis *axis = &plan->pool.axes[a];
        int64_t end = axis->windows * axis->stride - axis->low;
        dilated = dilated || axis->dilation > 1;
        plan->apart = plan->apart && axis->stride >= axis->window;
        plan->tiled = plan->tiled && axis->stride == axis->window && end >= axis->size;
    }
    plan->apart = plan->apart && !dilated;
}

/* How many elements each window has. */
static ipu_status
plan_counts(const ipu__preparation *p, ipu__pool_kernel *plan)
{
    for (int32_t a = 0; a < IPU_POOL_AXES; a++) {
        const ipu__pool_axis *axis = &plan->pool.axes[a];
        double *counts;
        IPU_TRY(ipu_arena_alloc(p->ctx, p->arena,
                                (size_t)axis->windows * sizeof *counts, &counts));
        for (int64_t o = 0; o < axis->windows; o++) {
            int64_t begin;
            int64_t end;
            ipu__pool_inside(axis, o, &begin, &end);
            counts[o] = end > begin ? (double)(end - begin) : 1.0;
        }
        plan->counts[a] = counts;
    }
    return IPU_OK;
}

ipu_status
ipu_choose_max_pool(const ipu__preparation *p)
{
    ipu_kernel_spec *spec = p->spec;
    int64_t elements = ipu_shape_elements(&spec->outputs[0].shape);
    ipu__pool_kernel *plan;
    const ipu_dtype dtype = spec->inputs[0].dtype;
    const ipu_dtype result = spec->outputs[0].dtype;
    const ipu__pool_columns *columns = ipu__pool_columns_of(p->cpu, dtype);
    const ipu__pool_columns *results = ipu__pool_columns_of(p->cpu, result);
    if (columns == NULL || results == NULL || elements == 0) {
        return IPU_OK;
    }
    IPU_TRY(ipu__prepared(p, sizeof *plan, &plan));
    ipu__pool_plan(spec, &plan->pool);
    plan->columns = columns;
    plan->results = results;
    plan->bytes = (int64_t)ipu_dtype_bytes(dtype);
    plan->result_bytes = (int64_t)ipu_dtype_bytes(result);
    plan->levels = ipu__pool_levels(&plan->pool, spec->op, dtype);
    IPU_TRY(plan_counts(p, plan));
    if (plan->pool.channels >= IPU_POOL_FEWEST_LANES ||
        spec->op == IPU_OP_ID_MAX_POOL_GRAD) {
        plan->boxes = ipu__pool_boxes_of(p->cpu, dtype);
    }
    plan_meetings(plan, spec->op);
    if (spec->op == IPU_OP_ID_MAX_POOL_GRAD && !plan->apart) {
        ipu__pool_plan_scatter(plan);
    } else {
        bool shares = spec->op == IPU_OP_ID_AVERAGE_POOL_GRAD;
        const ipu__pool_axis *axes = plan->pool.axes;
        plan->strip = ipu__min(plan->pool.channels, IPU_POOL_CHUNK);
        plan->units =
            shares ? axes[0].size * axes[1].size : axes[0].windows * axes[1].windows;
    }
    int64_t each = elements / plan->pool.images / plan->units;
    plan->per_task = each >= TASK_ELEMENTS ? 1 : TASK_ELEMENTS / (each + 1) + 1;
    spec->run = run;
    spec->rows = (ipu_kernel_rows){.run = run_rows,
                                   .count = plan->pool.images,
                                   .inputs = (1U << spec->input_count) - 1};
    spec->kernel_name = p->cpu >= IPU_CPU_AVX2 ? "columns_avx2" : "columns_generic";
    return IPU_OK;
}
