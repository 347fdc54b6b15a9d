/* SPDX-License-Identifier: MIT
 *
 * The walk of fast pooling kernels over the elements of windows: how they lie in the
 * rows of x, and where they are cut off at its borders. No state, any thread. */
#include <string.h>

#include "kernels/pool/pool_fast_impl.h"

/* The elements of a ipu__pool_chunk of windows, row by row of x: folded into `t` where
 * there are no places; else marked, or, with `v`, picked. */
void
ipu__pool_walk(const ipu__pool_job *job, int64_t image, int64_t d, int64_t h,
               const ipu__pool_chunk *c, const ipu__pool_target *t, int32_t *place,
               const void *v)
{
    const ipu__pool_kernel *plan = job->plan;
    const ipu__pool *pool = &plan->pool;
    const ipu__pool_axis *axes = pool->axes;
    const ipu__pool_axis *axis = &axes[2];
    const ipu__pool_columns *f = plan->columns;
    bool max = job->call->spec->op == IPU_OP_ID_MAX_POOL;
    int64_t begin[2];
    int64_t end[2];
    int64_t x_step = axis->stride * pool->channels;
    bool is_long = plan->levels > 0 && place == NULL;
    ipu__pool_sums sums;
    sums.chains = t;
    sums.columns = c->end - c->first;
    sums.n = c->n;
    sums.levels = plan->levels;
    sums.leaf = 0;
    int64_t windows = ipu__pool_window_row(pool, image, d, h) + c->channel;
    ipu__pool_inside(&axes[0], d, &begin[0], &end[0]);
    ipu__pool_inside(&axes[1], h, &begin[1], &end[1]);
    for (int64_t kd = begin[0]; kd < end[0]; kd++) {
        for (int64_t kh = begin[1]; kh < end[1]; kh++) {
            int64_t row = ipu__pool_pixel_row(
                pool, image, d * axes[0].stride + kd * axes[0].dilation - axes[0].low,
                h * axes[1].stride + kh * axes[1].dilation - axes[1].low);
            for (int64_t kw = 0; kw < axis->window; kw++) {
                int64_t a;
                int64_t b;
                ipu__pool_windows_at(axis, kw, 0, axis->size, c->first, c->end, &a, &b);
                int64_t pixel = a * axis->stride + kw * axis->dilation - axis->low;
                int64_t from = row + pixel * pool->channels + c->channel;
                int64_t at = a - c->first;
                int64_t position = ipu__pool_position(pool, kd, kh, kw);
                int32_t k = (int32_t)position;
                if (a >= b) {
                    continue;
                }
                if (is_long) {
                    ipu__pool_sums_reach(&sums, position);
                }
                if (place == NULL) {
                    (max ? f->max : f->sum)(ipu__pool_column(t, at), t->step,
                                            ipu__pool_input(job, 0, from), x_step,
                                            b - a, c->n);
                } else if (v == NULL) {
                    f->mark(place + at * c->n, k, ipu__pool_input(job, 0, from), x_step,
                            ipu__pool_input(job, 1, windows + a * pool->channels),
                            pool->channels, b - a, c->n);
                } else {
                    plan->results->pick(
                        ipu__pool_column(t, at), t->step, place + at * c->n, k,
                        ipu__at(v, from * t->bytes), x_step, b - a, c->n);
                }
            }
        }
    }
    ipu__pool_sums_end(&sums);
}

/* The positions of a box whose elements are in the tile; the first one of the axis that
 * is cut is at `first`. */
static void
cut_box(ipu__pool_box *box, const ipu__pool_axis *axes, int64_t first,
        const ipu__pool_chunk *c)
{
    const int32_t cut = c->tile_axis;
    const int64_t step = axes[cut].dilation;
    for (int32_t a = 0; a < 2; a++) {
        box->begin[a] = 0;
        box->end[a] = box->counts[a];
    }
    box->begin[cut] = ipu__ceil_div(ipu__max(c->tile_begin - first, 0), step);
    box->end[cut] = ipu__ceil_div(ipu__max(c->tile_end - first, 0), step);
}

void
ipu__pool_walk_boxes(const ipu__pool_job *job, ipu__pool_visit what, int64_t image,
                     int64_t d, int64_t h, const ipu__pool_chunk *c,
                     const ipu__pool_target *t, int32_t *place)
{
    const ipu__pool_kernel *plan = job->plan;
    const ipu_kernel_call *call = job->call;
    const ipu__pool *pool = &plan->pool;
    const ipu__pool_axis *axes = pool->axes;
    const ipu__pool_axis *axis = &axes[2];
    const ipu__pool_boxes *f = plan->boxes;
    int64_t channels = pool->channels;
    int64_t begin[IPU_POOL_AXES];
    int64_t end[IPU_POOL_AXES];
    int64_t whole[2];
    int64_t other[2];
    int64_t windows = ipu__pool_window_row(pool, image, d, h) + c->channel;
    ipu__pool_box box = {.levels = plan->levels,
                         .turns = {axes[1].window * axis->window, axis->window, 1}};
    ipu__pool_inside(&axes[0], d, &begin[0], &end[0]);
    ipu__pool_inside(&axes[1], h, &begin[1], &end[1]);
    ipu__pool_windows_at(axis, 0, 0, axis->size, c->first, c->end, &whole[0],
                         &whole[1]);
    ipu__pool_windows_at(axis, axis->window - 1, 0, axis->size, c->first, c->end,
                         &other[0], &other[1]);
    whole[0] = whole[0] < other[0] ? other[0] : whole[0];
    whole[1] = ipu__min(whole[1], other[1]);
    int64_t pixel = channels;
    for (int32_t a = IPU_POOL_AXES - 1; a >= 0; a--) {
        box.steps[a] = axes[a].dilation * pixel;
        pixel *= axes[a].size;
    }
    for (int64_t next, o = c->first; o < c->end; o = next) {
        next = o >= whole[0] && o < whole[1] ? whole[1] : o + 1;
        ipu__pool_inside(axis, o, &begin[2], &end[2]);
        int64_t from = image;
        int64_t at[IPU_POOL_AXES] = {d, h, o};
        for (int32_t a = 0; a < IPU_POOL_AXES; a++) {
            box.counts[a] = end[a] - begin[a];
            at[a] = at[a] * axes[a].stride + begin[a] * axes[a].dilation - axes[a].low;
            from = from * axes[a].size + at[a];
        }
        from = from * channels + c->channel;
        box.number = ipu__pool_position(pool, begin[0], begin[1], begin[2]);
        box.elements = plan->counts[0][d] * plan->counts[1][h] * plan->counts[2][o];
        int64_t window = windows + o * channels;
        int64_t step = axis->stride * channels;
        int64_t i = o - c->first;
        const void *x = ipu__pool_input(job, 0, from);
        if (what == IPU_POOL_FOLD) {
            (call->spec->op == IPU_OP_ID_MAX_POOL ? f->max
             : plan->levels > 0                   ? f->long_mean
                                : f->mean)(ipu__pool_column(t, i), t->step, x, step,
                                           &box, next - o, c->n);
        } else if (what == IPU_POOL_MARK) {
            f->mark(place + i * c->n, x, step, ipu__pool_input(job, 1, window),
                    channels, &box, next - o, c->n);
        } else {
            if (what == IPU_POOL_SCATTER) {
                cut_box(&box, axes, at[c->tile_axis], c);
            }
            (what == IPU_POOL_SCATTER ? f->scatter : f->place)(
                ipu__pool_target_of(job, from).row, x, step,
                ipu__pool_input(job, 1, window), ipu__pool_input(job, 2, window),
                channels, &box, next - o, c->n);
        }
    }
}

void
ipu__pool_mark(const ipu__pool_job *job, int64_t image, int64_t d, int64_t h,
               const ipu__pool_chunk *c, int32_t *place)
{
    if (job->plan->boxes != NULL) {
        ipu__pool_walk_boxes(job, IPU_POOL_MARK, image, d, h, c, NULL, place);
        return;
    }
    memset(place, -1, (size_t)((c->end - c->first) * c->n) * sizeof *place);
    ipu__pool_walk(job, image, d, h, c, NULL, place, NULL);
}
