/* SPDX-License-Identifier: MIT
 *
 * The transforms of conv_winograd.c, by the vectors of gemm_tiles_body.h, after
 * conv_tiles_body.h. Each takes 3 x 3 or 4 x 4 numbers of a channel, and a vector has as
 * many channels as lanes. */

enum { WINDOW = 3, PATCH = 4, QUAD = 2 };

_Static_assert((int)PANEL <= (int)IPU_CONV_MOST_COLUMNS,
               "what packs filters has room for a panel");

/* A statement for each vector of channels from c on; `cut`: which the last channels do
 * not fill. */
#define EACH_CHANNELS(channels, ...) \
    for (int64_t c = 0; c < (channels); c += LANES) { \
        if ((channels) - c >= LANES) { \
            const bool cut = false; \
            __VA_ARGS__; \
        } else { \
            const bool cut = true; \
            __VA_ARGS__; \
        } \
    }

/* B^T d of a column d of a patch. */
IPU_INLINE TARGET void
patch_column(const vector d[PATCH], vector out[PATCH])
{
    out[0] = d[0] - d[2];
    out[1] = d[1] + d[2];
    out[2] = d[2] - d[1];
    out[3] = d[1] - d[3];
}

/* G g of a column g of a filter. */
IPU_INLINE TARGET void
filter_column(const vector g[WINDOW], vector half, vector out[PATCH])
{
    vector ends = g[0] + g[2];
    out[0] = g[0];
    out[1] = (ends + g[1]) * half;
    out[2] = (ends - g[1]) * half;
    out[3] = g[2];
}

/* A^T m of a column m of products. */
IPU_INLINE TARGET void
product_column(const vector m[PATCH], vector out[QUAD])
{
    out[0] = m[0] + m[1] + m[2];
    out[1] = m[1] - m[2] - m[3];
}

/* A y of a column y of a quad. */
IPU_INLINE TARGET void
quad_column(const vector y[QUAD], vector out[PATCH])
{
    out[0] = y[0];
    out[1] = y[0] + y[1];
    out[2] = y[0] - y[1];
    out[3] = zero() - y[1];
}

/* G^T m of a column m of sums. */
IPU_INLINE TARGET void
sum_column(const vector m[PATCH], vector half, vector out[WINDOW])
{
    vector middle = (m[1] + m[2]) * half;
    out[0] = m[0] + middle;
    out[1] = (m[1] - m[2]) * half;
    out[2] = middle + m[3];
}

TARGET static void
winograd_filters(const float *filters, int64_t rows, float *out, int64_t step)
{
    const float one_half = 0.5f;
    const vector half = spread(&one_half);
    const int64_t tap = rows * PANEL;
    for (int64_t at = 0; at < tap; at += LANES) {
        vector half_way[PATCH][WINDOW];
        for (int c = 0; c < WINDOW; c++) {
            vector column[WINDOW];
            vector made[PATCH];
            EACH(r, WINDOW, column[r] = load(filters + at + (r * WINDOW + c) * tap))
            filter_column(column, half, made);
            EACH(r, PATCH, half_way[r][c] = made[r])
        }
        for (int r = 0; r < PATCH; r++) {
            vector row[PATCH];
            filter_column(half_way[r], half, row);
            EACH(c, PATCH, store(out + at + (r * PATCH + c) * step, row[c]))
        }
    }
}

OF_EACH_TILE TARGET void
winograd_patch(bool cut, edge last, const float *from, int64_t row, int64_t column,
               float *out, int64_t step)
{
    vector half_way[PATCH][PATCH];
    EACH(c, PATCH, {
        vector d[PATCH];
        vector made[PATCH];
        EACH(r, PATCH, d[r] = take(cut, last, from + r * row + c * column))
        patch_column(d, made);
        EACH(r, PATCH, half_way[r][c] = made[r])
    })
    EACH(r, PATCH, {
        vector made[PATCH];
        patch_column(half_way[r], made);
        EACH(c, PATCH, put(cut, last, out + (r * PATCH + c) * step, made[c]))
    })
}

TARGET static void
winograd_patches(const ipu__patches *p)
{
    const edge last = edge_of((p->channels - 1) % LANES + 1);
    for (int64_t i = 0; i < p->count; i++) {
        const float *from = p->source + p->at[i];
        float *out = p->out + i * p->channels;
        EACH_CHANNELS(p->channels, winograd_patch(cut, last, from + c, p->row,
                                                  p->column, out + c, p->step))
    }
}

OF_EACH_TILE TARGET void
winograd_quad(bool cut, edge last, const ipu__quads *q, int64_t i, int64_t channel)
{
    const float *in = q->products + i * q->channels + channel;
    const int64_t *to = q->to + i * QUAD * QUAD;
    vector half_way[QUAD][PATCH];
    vector sum[ROWS][VECTORS]; /* of which there is one in a row */
    int64_t places[QUAD * QUAD];
    EACH(c, PATCH, {
        vector m[PATCH];
        vector made[QUAD];
        EACH(r, PATCH, m[r] = take(cut, last, in + (r * PATCH + c) * q->step))
        product_column(m, made);
        EACH(r, QUAD, half_way[r][c] = made[r])
    })
    EACH(r, QUAD, {
        vector made[QUAD];
        product_column(half_way[r], made);
        EACH(c, QUAD, sum[r * QUAD + c][0] = made[c])
    })
    EACH(k, QUAD * QUAD, places[k] = to[k] < 0 ? to[0] : to[k])
    finish_tile(QUAD * QUAD, 1, cut, last, q->finish, places, channel, sum);
    for (int k = 0; k < QUAD * QUAD; k++) {
        if (to[k] >= 0) {
            put(cut, last, q->result + to[k] + channel, sum[k][0]);
        }
    }
}

TARGET static void
winograd_quads(const ipu__quads *q)
{
    const edge last = edge_of((q->channels - 1) % LANES + 1);
    for (int64_t i = 0; i < q->count; i++) {
        EACH_CHANNELS(q->channels, winograd_quad(cut, last, q, i, c))
    }
}

OF_EACH_TILE TARGET void
winograd_gradient(bool cut, edge last, const ipu__quad_gradients *q, int64_t i,
                  int64_t channel)
{
    const int64_t *at = q->at + i * QUAD * QUAD;
    float *out = q->panels + channel / PANEL * q->count * PANEL + i * PANEL +
                 channel % PANEL;
    vector half_way[PATCH][QUAD];
    EACH(c, QUAD, {
        vector y[QUAD];
        vector made[PATCH];
        EACH(r, QUAD, {
            const int64_t place = at[r * QUAD + c];
            y[r] = place < 0 ? zero() : take(cut, last, q->gradients + place + channel);
        })
        quad_column(y, made);
        EACH(r, PATCH, half_way[r][c] = made[r])
    })
    EACH(r, PATCH, {
        vector made[PATCH];
        quad_column(half_way[r], made);
        EACH(c, PATCH, store(out + (r * PATCH + c) * q->step, made[c]))
    })
}

TARGET static void
winograd_gradients(const ipu__quad_gradients *q)
{
    const edge last = edge_of((q->channels - 1) % LANES + 1);
    for (int64_t i = 0; i < q->count; i++) {
        EACH_CHANNELS(q->channels, winograd_gradient(cut, last, q, i, c))
    }
}

OF_EACH_TILE TARGET void
winograd_sum(bool cut, edge last, const ipu__filter_sums *s, int64_t column)
{
    const float one_half = 0.5f;
    const vector half = spread(&one_half);
    vector half_way[WINDOW][PATCH];
    for (int c = 0; c < PATCH; c++) {
        vector m[PATCH];
        vector made[WINDOW];
        for (int r = 0; r < PATCH; r++) {
            const float *at = s->totals + (r * PATCH + c) * s->step + column;
            m[r] = take(cut, last, at);
            for (int64_t run = 1; run < s->runs; run++) {
                m[r] = m[r] + take(cut, last, at + run * s->run_step);
            }
        }
        sum_column(m, half, made);
        EACH(r, WINDOW, half_way[r][c] = made[r])
    }
    for (int r = 0; r < WINDOW; r++) {
        vector made[WINDOW];
        sum_column(half_way[r], half, made);
        EACH(c, WINDOW,
             put(cut, last, s->result + (r * WINDOW + c) * s->tap_step + column,
                 made[c]))
    }
}

TARGET static void
winograd_sums(const ipu__filter_sums *s)
{
    const edge last = edge_of((s->columns - 1) % LANES + 1);
    EACH_CHANNELS(s->columns, winograd_sum(cut, last, s, c))
}
