/* SPDX-License-Identifier: MIT
 *
 * gru and its gradient for float32 and float16: a block of rows, step by step
 * (recurrent_share.c). With reset_after one product a step serves all gates. Without,
 * that of gate h waits for gate r, so there are two. */
#include "kernels/recurrent/recurrent_impl.h"

/* Buffers of a block; FRESH of the way back alone. */
enum { H, GATES, INNER, FRESH };
enum { ALL, CANDIDATE };

/* inputs: x, kernel, h, bias or none, mask; outputs: gates, h of all steps, h, inner */

/* Input 0 of a cell: x, or on the way back the gates. */
static const float *
read_cell(const ipu__rows_block *b, int64_t cell)
{
    int64_t n = 3 * b->plan->sequence.units;
    return ipu__recurrent_read(b, 0, cell * n, n, b->room);
}

/* Gates z and r of a row, and what of gate h can be had. */
static void
open_gates(const ipu__rows_block *b, int64_t i, int64_t cell)
{
    const ipu__sequence *s = &b->plan->sequence;
    const ipu__recurrent_form *form = b->plan->form;
    int64_t n = s->units;
    float *gates = ipu__buffer_row(b, GATES, i);
    float *inner = ipu__buffer_row(b, INNER, i);
    const float *bias = NULL;
    if (s->bias >= 0) {
        bias = ipu__recurrent_read(b, s->bias, 0, 3 * n, b->room + 3 * n);
    }
    const float *x = read_cell(b, cell);
    form->gru_gates(gates, x, inner, bias, n);
    ipu__recurrent_store(b, 0, cell * 3 * n, 2 * n, gates);
    if (!s->reset_after) {
        form->multiply(inner + 2 * n, gates + n, ipu__buffer_row(b, H, i), n);
    }
    ipu__recurrent_store(b, 3, cell * n, n, inner + 2 * n);
}

static void
close_gates(const ipu__rows_block *b, int64_t i, int64_t cell)
{
    const ipu__sequence *s = &b->plan->sequence;
    int64_t n = s->units;
    float *gates = ipu__buffer_row(b, GATES, i);
    const float *inner = ipu__buffer_row(b, INNER, i) + 2 * n;
    const float *x = read_cell(b, cell) + 2 * n;
    if (s->reset_after) {
        b->plan->form->gru_candidate(gates + 2 * n, x, gates + n, inner, n);
    } else {
        b->plan->form->gru_candidate(gates + 2 * n, x, NULL, gates + 2 * n, n);
    }
    ipu__recurrent_store(b, 0, (cell * 3 + 2) * n, n, gates + 2 * n);
    b->plan->form->gru_h(ipu__buffer_row(b, H, i), gates, n);
}

/* A row whose state stays. */
static void
skip(const ipu__rows_block *b, int64_t i, int64_t cell)
{
    int64_t n = b->plan->sequence.units;
    float *inner = ipu__buffer_row(b, INNER, i);
    memset(inner, 0, (size_t)(3 * n) * sizeof(float));
    ipu__recurrent_store(b, 0, cell * 3 * n, 3 * n, inner);
    ipu__recurrent_store(b, 3, cell * n, n, inner);
}

static void
forward(const ipu__rows_block *b)
{
    const ipu__sequence *s = &b->plan->sequence;
    int64_t n = s->units;
    ipu__load_state(b, 2, H);
    for (int64_t k = 0; k < s->steps; k++) {
        ipu__recurrent_multiply(b, ALL, H, 0, INNER, 0);
        for (int64_t i = 0; i < b->rows; i++) {
            int64_t cell = ipu__cell(s, b->row + i, k);
            if (ipu__is_live(s, b->call, cell)) {
                open_gates(b, i, cell);
            } else {
                skip(b, i, cell);
            }
        }
        if (!s->reset_after) {
            ipu__recurrent_multiply(b, CANDIDATE, INNER, 2 * n, GATES, 2 * n);
        }
        for (int64_t i = 0; i < b->rows; i++) {
            int64_t cell = ipu__cell(s, b->row + i, k);
            if (ipu__is_live(s, b->call, cell)) {
                close_gates(b, i, cell);
            }
            ipu__recurrent_store(b, 1, cell * n, n, ipu__buffer_row(b, H, i));
        }
    }
    ipu__store_state(b, 2, H);
}

/* --- the way back ----------------------------------------------------------------- */

/* inputs: gates, kernel, inner, h of all steps, first h; outputs: gradient of x, that of
 * the product, h before each step, gradient of the first h. H holds the gradient of h,
 * GATES that of x, INNER that of the product. */

static const float *
read_before(const ipu__rows_block *b, int64_t i, int64_t k)
{
    const ipu__sequence *s = &b->plan->sequence;
    int64_t n = s->units;
    int64_t before = k == 0 ? b->row + i : ipu__cell(s, b->row + i, k - 1);
    return ipu__recurrent_read(b, k == 0 ? 4 : 3, before * n, n, b->room + 3 * n);
}

/* Gradients at z and the candidate, of what came back for the step. */
static void
back_candidate(const ipu__rows_block *b, int64_t i, int64_t k)
{
    const ipu__sequence *s = &b->plan->sequence;
    const ipu__recurrent_form *form = b->plan->form;
    int64_t n = s->units;
    int64_t cell = ipu__cell(s, b->row + i, k);
    float *dh = ipu__buffer_row(b, H, i);
    float *dx = ipu__buffer_row(b, GATES, i);
    if (s->steps_gradient >= 0) {
        form->add(dh, dh,
                  ipu__recurrent_read(b, s->steps_gradient, cell * n, n, b->room), n);
    }
    ipu__recurrent_copy(b, k == 0 ? 4 : 3,
                        (k == 0 ? b->row + i : ipu__cell(s, b->row + i, k - 1)) * n, n,
                        b->room);
    ipu__recurrent_store(b, 2, cell * n, n, b->room);
    if (ipu__is_live(s, b->call, cell)) {
        const float *gates = read_cell(b, cell);
        form->gru_back(dx, dh, gates, read_before(b, i, k), n);
        ipu__recurrent_store(b, 0, (cell * 3 + 2) * n, n, dx + 2 * n);
    } else {
        memset(dx, 0, (size_t)(3 * n) * sizeof(float));
        ipu__recurrent_store(b, 0, cell * 3 * n, 3 * n, dx);
    }
}

/* Gradient at r, and of the product. */
static void
back_reset(const ipu__rows_block *b, int64_t i, int64_t k)
{
    const ipu__sequence *s = &b->plan->sequence;
    const ipu__recurrent_form *form = b->plan->form;
    int64_t n = s->units;
    int64_t cell = ipu__cell(s, b->row + i, k);
    float *dx = ipu__buffer_row(b, GATES, i);
    float *dp = ipu__buffer_row(b, INNER, i);
    if (ipu__is_live(s, b->call, cell)) {
        const float *r = read_cell(b, cell) + n;
        if (s->reset_after) {
            const float *inner =
                ipu__recurrent_read(b, 2, cell * n, n, b->room + 3 * n);
            form->gru_back_reset(dx + n, dx + 2 * n, inner, r, n);
            form->multiply(dp + 2 * n, dx + 2 * n, r, n);
        } else {
            float *dh = ipu__buffer_row(b, H, i);
            float *fresh = ipu__buffer_row(b, FRESH, i);
            form->gru_back_reset(dx + n, fresh, read_before(b, i, k), r, n);
            form->multiply(fresh, fresh, r, n);
            form->add(dh, dh, fresh, n);
            memcpy(dp + 2 * n, dx + 2 * n, (size_t)n * sizeof(float));
        }
        /* last: it may lie where the gates do */
        ipu__recurrent_store(b, 0, cell * 3 * n, 2 * n, dx);
        memcpy(dp, dx, (size_t)(2 * n) * sizeof(float));
    } else {
        memset(dp, 0, (size_t)(3 * n) * sizeof(float));
    }
    ipu__recurrent_store(b, 1, cell * 3 * n, 3 * n, dp);
}

static void
backward(const ipu__rows_block *b)
{
    const ipu__sequence *s = &b->plan->sequence;
    int64_t n = s->units;
    ipu__load_gradient(b, s->h_gradient, H);
    for (int64_t k = s->steps - 1; k >= 0; k--) {
        for (int64_t i = 0; i < b->rows; i++) {
            back_candidate(b, i, k);
        }
        if (!s->reset_after) {
            ipu__recurrent_multiply(b, CANDIDATE, GATES, 2 * n, FRESH, 0);
        }
        for (int64_t i = 0; i < b->rows; i++) {
            back_reset(b, i, k);
        }
        ipu__recurrent_multiply(b, ALL, INNER, 0, FRESH, 0);
        for (int64_t i = 0; i < b->rows; i++) {
            float *dh = ipu__buffer_row(b, H, i);
            if (ipu__is_live(s, b->call, ipu__cell(s, b->row + i, k))) {
                b->plan->form->add(dh, dh, ipu__buffer_row(b, FRESH, i), n);
            }
        }
    }
    ipu__store_state(b, 3, H);
}

/* --- the choice ------------------------------------------------------------------- */

ipu_status
ipu_choose_gru(const ipu__preparation *p)
{
    const bool back = p->spec->op == IPU_OP_ID_GRU_GRAD;
    ipu__recurrent_plan *plan;
    IPU_TRY(ipu__recurrent_begin(p, &plan));
    if (plan != NULL) {
        int64_t n = plan->sequence.units;
        bool after = plan->sequence.reset_after;
        ipu__recurrent_multiplies(plan, back, 0, after ? 3 * n : 2 * n);
        if (!after) {
            ipu__recurrent_multiplies(plan, back, 2 * n, n);
        }
        ipu__recurrent_buffer(plan, n);     /* H */
        ipu__recurrent_buffer(plan, 3 * n); /* GATES */
        ipu__recurrent_buffer(plan, 3 * n); /* INNER */
        ipu__recurrent_buffer(plan, n);     /* FRESH */
        ipu__recurrent_finish(p, plan, 6 * n, back ? backward : forward);
    }
    return IPU_OK;
}
