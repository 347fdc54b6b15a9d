/* SPDX-License-Identifier: MIT
 *
 * lstm and its gradient for float32 and float16: a block of rows, step by step
 * (recurrent_share.c). */
#include "kernels/recurrent/recurrent_impl.h"

/* Buffers of a block; FRESH of the way back alone. */
enum { H, C, GATES, FRESH };

/* inputs: x, kernel, h, c, mask; outputs: gates, h of all steps, h, c, c of all steps */
static void
forward(const ipu__rows_block *b)
{
    const ipu__sequence *s = &b->plan->sequence;
    const ipu__recurrent_form *form = b->plan->form;
    int64_t n = s->units;
    ipu__load_state(b, 2, H);
    ipu__load_state(b, 3, C);
    for (int64_t k = 0; k < s->steps; k++) {
        ipu__recurrent_multiply(b, 0, H, 0, GATES, 0);
        for (int64_t i = 0; i < b->rows; i++) {
            int64_t cell = ipu__cell(s, b->row + i, k);
            float *h = ipu__buffer_row(b, H, i);
            float *c = ipu__buffer_row(b, C, i);
            float *gates = ipu__buffer_row(b, GATES, i);
            if (ipu__is_live(s, b->call, cell)) {
                const float *x =
                    ipu__recurrent_read(b, 0, cell * 4 * n, 4 * n, b->room);
                form->lstm_gates(gates, x, gates, n);
                ipu__recurrent_store(b, 0, cell * 4 * n, 4 * n, gates);
                form->lstm_c(c, gates, n);
                ipu__recurrent_store(b, 4, cell * n, n, c);
                form->lstm_h(h, gates, c, n);
            } else {
                memset(gates, 0, (size_t)(4 * n) * sizeof(float));
                ipu__recurrent_store(b, 0, cell * 4 * n, 4 * n, gates);
                ipu__recurrent_store(b, 4, cell * n, n, c);
            }
            ipu__recurrent_store(b, 1, cell * n, n, h);
        }
    }
    ipu__store_state(b, 2, H);
    ipu__store_state(b, 3, C);
}

/* inputs: gates, kernel, c and h of all steps, first h and c; outputs: gradient of x,
 * h before each step, gradients of the first h and c. H and C hold gradients here. */
static void
backward(const ipu__rows_block *b)
{
    const ipu__sequence *s = &b->plan->sequence;
    const ipu__recurrent_form *form = b->plan->form;
    int64_t n = s->units;
    ipu__load_gradient(b, s->h_gradient, H);
    ipu__load_gradient(b, s->c_gradient, C);
    for (int64_t k = s->steps - 1; k >= 0; k--) {
        for (int64_t i = 0; i < b->rows; i++) {
            int64_t cell = ipu__cell(s, b->row + i, k);
            int64_t before = k == 0 ? b->row + i : ipu__cell(s, b->row + i, k - 1);
            float *dh = ipu__buffer_row(b, H, i);
            float *dx = ipu__buffer_row(b, GATES, i);
            if (s->steps_gradient >= 0) {
                form->add(
                    dh, dh,
                    ipu__recurrent_read(b, s->steps_gradient, cell * n, n, b->room), n);
            }
            if (ipu__is_live(s, b->call, cell)) {
                form->lstm_back(dx, ipu__buffer_row(b, C, i), dh,
                                ipu__recurrent_read(b, 0, cell * 4 * n, 4 * n, b->room),
                                ipu__recurrent_read(b, 2, cell * n, n, b->room + 4 * n),
                                ipu__recurrent_read(b, k == 0 ? 5 : 2, before * n, n,
                                                    b->room + 5 * n),
                                n);
            } else {
                memset(dx, 0, (size_t)(4 * n) * sizeof(float));
            }
            ipu__recurrent_store(b, 0, cell * 4 * n, 4 * n, dx);
            ipu__recurrent_copy(b, k == 0 ? 4 : 3, before * n, n, b->room);
            ipu__recurrent_store(b, 1, cell * n, n, b->room);
        }
        ipu__recurrent_multiply(b, 0, GATES, 0, FRESH, 0);
        for (int64_t i = 0; i < b->rows; i++) {
            if (ipu__is_live(s, b->call, ipu__cell(s, b->row + i, k))) {
                memcpy(ipu__buffer_row(b, H, i), ipu__buffer_row(b, FRESH, i),
                       (size_t)n * sizeof(float));
            }
        }
    }
    ipu__store_state(b, 2, H);
    ipu__store_state(b, 3, C);
}

ipu_status
ipu_choose_lstm(const ipu__preparation *p)
{
    const bool back = p->spec->op == IPU_OP_ID_LSTM_GRAD;
    ipu__recurrent_plan *plan;
    IPU_TRY(ipu__recurrent_begin(p, &plan));
    if (plan != NULL) {
        int64_t n = plan->sequence.units;
        ipu__recurrent_multiplies(plan, back, 0, 4 * n);
        ipu__recurrent_buffer(plan, n);     /* H */
        ipu__recurrent_buffer(plan, n);     /* C */
        ipu__recurrent_buffer(plan, 4 * n); /* GATES */
        if (back) {
            ipu__recurrent_buffer(plan, n); /* FRESH */
        }
        ipu__recurrent_finish(p, plan, back ? 6 * n : 4 * n, back ? backward : forward);
    }
    return IPU_OK;
}
