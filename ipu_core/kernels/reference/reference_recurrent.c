/* SPDX-License-Identifier: MIT
 *
 * lstm, gru and their gradients, unit by unit, as ops.def says them; and the sizes of a
 * sequence, which all kernels share. Sums of products are those of sum_tree.h. float32
 * and float16 compute in float32, by the functions of the fast kernels, so those agree to
 * the bit; float64 in double. Calling thread only. */
#include <math.h>

#include "kernels/math/element_math.h"
#include "kernels/recurrent/recurrent_impl.h"
#include "kernels/core/sum_tree.h"

ipu__sequence
ipu__sequence_of(const ipu_kernel_spec *spec)
{
    bool is_lstm = spec->op == IPU_OP_ID_LSTM || spec->op == IPU_OP_ID_LSTM_GRAD;
    bool is_grad = spec->op == IPU_OP_ID_LSTM_GRAD || spec->op == IPU_OP_ID_GRU_GRAD;
    bool by_batch = ipu_attrs_int(spec->attrs, IPU_ATTR_AXIS, 0) == 1;
    const ipu_shape *gates = &spec->inputs[0].shape;
    ipu__sequence s = {
        .dtype = spec->outputs[0].dtype,
        .steps = gates->dims[by_batch ? 1 : 0],
        .rows = gates->dims[by_batch ? 0 : 1],
        .gates = gates->dims[2],
        .units = gates->dims[2] / (is_lstm ? 4 : 3),
        .reverse = ipu_attrs_int(spec->attrs, IPU_ATTR_REVERSE, 0) != 0,
        .reset_after = ipu_attrs_int(spec->attrs, IPU_ATTR_RESET_AFTER, 0) != 0,
        .bias = -1,
        .mask = -1,
        .steps_gradient = -1,
        .h_gradient = -1,
        .c_gradient = -1,
    };
    s.step_cells = by_batch ? 1 : s.rows;
    s.row_cells = by_batch ? s.steps : 1;
    int32_t next = is_lstm ? 4 : 3;
    if (!is_grad) {
        if (s.reset_after) {
            s.bias = next++;
        }
        s.mask = next < (int32_t)spec->input_count ? next : -1;
        return s;
    }
    int64_t given = ipu_attrs_int(spec->attrs, IPU_ATTR_GIVEN, 0);
    next = is_lstm ? 6 : 5;
    s.mask = (given & IPU_GIVEN_MASK) != 0 ? next++ : -1;
    s.steps_gradient = (given & IPU_GIVEN_STEPS) != 0 ? next++ : -1;
    s.h_gradient = (given & IPU_GIVEN_LAST_H) != 0 ? next++ : -1;
    s.c_gradient = (given & IPU_GIVEN_LAST_C) != 0 ? next++ : -1;
    return s;
}

/* The gradients of a row's h and c. */
size_t
ipu__sequence_reference_bytes(const ipu_kernel_spec *spec)
{
    return (size_t)(2 * ipu__sequence_of(spec).units) * sizeof(double);
}

/* --- numbers ---------------------------------------------------------------------- */

typedef struct sequence_call {
    const ipu_kernel_call *call;
    ipu__sequence s;
} sequence_call;

static sequence_call
begin(const ipu_kernel_call *call)
{
    return (sequence_call){call, ipu__sequence_of(call->spec)};
}

static double
input(const sequence_call *c, int32_t i, int64_t at)
{
    return ipu__scalar_load(c->s.dtype, c->call->inputs[i], at).f;
}

static double
output(const sequence_call *c, int32_t i, int64_t at)
{
    return ipu__scalar_load(c->s.dtype, c->call->outputs[i], at).f;
}

/* Gives what was stored. */
static double
store(const sequence_call *c, int32_t i, int64_t at, double x)
{
    ipu__scalar_store(c->s.dtype, c->call->outputs[i], at, (ipu__scalar){.f = x});
    return output(c, i, at);
}

/* To what is computed in. */
static double
rounded(const sequence_call *c, double x)
{
    return c->s.dtype == IPU_DTYPE_FLOAT64 ? x : (double)(float)x;
}

static double
plus(const sequence_call *c, double a, double b)
{
    return rounded(c, a + b);
}

static double
times(const sequence_call *c, double a, double b)
{
    return rounded(c, a * b);
}

static ipu__sum
new_sum(const sequence_call *c)
{
    return (ipu__sum){.is_double = c->s.dtype == IPU_DTYPE_FLOAT64};
}

static double
tanh_of(const sequence_call *c, double x)
{
    return c->s.dtype == IPU_DTYPE_FLOAT64 ? tanh(x) : (double)ipu__tanh_f32((float)x);
}

static double
sigmoid_of(const sequence_call *c, double x)
{
    if (c->s.dtype != IPU_DTYPE_FLOAT64) {
        return (double)ipu__sigmoid_f32((float)x);
    }
    double e = exp(-fabs(x));
    return (x < 0.0 ? e : 1.0) / (1.0 + e);
}

/* d x = (a b) y (1 - y) of y = sigmoid(x) */
static double
through_sigmoid(const sequence_call *c, double a, double b, double y)
{
    return times(c, times(c, a, b), times(c, y, rounded(c, 1.0 - y)));
}

/* d x = (a b) (1 - y) (1 + y) of y = tanh(x) */
static double
through_tanh(const sequence_call *c, double a, double b, double y)
{
    double slope = times(c, rounded(c, 1.0 - y), rounded(c, 1.0 + y));
    return times(c, times(c, a, b), slope);
}

/* --- states ----------------------------------------------------------------------- */

static bool
is_live(const sequence_call *c, int64_t cell)
{
    return ipu__is_live(&c->s, c->call, cell);
}

/* A state before step k: in the sequence of states, or the first one; both are outputs
 * or inputs of the call. */
static double
before(const sequence_call *c, bool made, int32_t states, int32_t first, int64_t row,
       int64_t k, int64_t unit)
{
    int64_t n = c->s.units;
    if (k == 0) {
        return input(c, first, row * n + unit);
    }
    int64_t at = ipu__cell(&c->s, row, k - 1) * n + unit;
    return made ? output(c, states, at) : input(c, states, at);
}

/* Column `column` of h times the kernel, for h before step k. */
static double
product_of_h(const sequence_call *c, int64_t row, int64_t k, int64_t column)
{
    ipu__sum sum = new_sum(c);
    for (int64_t i = 0; i < c->s.units; i++) {
        double h = before(c, true, 1, 2, row, k, i);
        ipu__sum_add(&sum, h, input(c, 1, i * c->s.gates + column));
    }
    return ipu__sum_of(&sum);
}

/* The last state, of the states of all steps in output `states`. */
static void
store_last(const sequence_call *c, int32_t out, int32_t states, int32_t first)
{
    for (int64_t row = 0; row < c->s.rows; row++) {
        for (int64_t j = 0; j < c->s.units; j++) {
            (void)store(c, out, row * c->s.units + j,
                        before(c, true, states, first, row, c->s.steps, j));
        }
    }
}

/* --- lstm ------------------------------------------------------------------------- */

static void
lstm_step(const sequence_call *c, int64_t row, int64_t k)
{
    int64_t n = c->s.units;
    int64_t cell = ipu__cell(&c->s, row, k);
    for (int64_t j = 0; j < n; j++) {
        double gates[4] = {0.0};
        double h = before(c, true, 1, 2, row, k, j);
        double state = before(c, true, 4, 3, row, k, j);
        bool live = is_live(c, cell);
        for (int64_t g = 0; g < 4; g++) {
            int64_t at = cell * 4 * n + g * n + j;
            if (live) {
                double x = plus(c, input(c, 0, at), product_of_h(c, row, k, g * n + j));
                gates[g] = g == 2 ? tanh_of(c, x) : sigmoid_of(c, x);
            }
            gates[g] = store(c, 0, at, gates[g]);
        }
        if (live) {
            state = plus(c, times(c, gates[1], state), times(c, gates[0], gates[2]));
        }
        state = store(c, 4, cell * n + j, state);
        if (live) {
            h = times(c, gates[3], tanh_of(c, state));
        }
        (void)store(c, 1, cell * n + j, h);
    }
}

ipu_status
ipu_reference_lstm(const ipu_kernel_call *call)
{
    sequence_call c = begin(call);
    for (int64_t row = 0; row < c.s.rows; row++) {
        for (int64_t k = 0; k < c.s.steps; k++) {
            lstm_step(&c, row, k);
        }
    }
    store_last(&c, 2, 1, 2);
    store_last(&c, 3, 4, 3);
    return IPU_OK;
}

/* The gradients of the last states. */
static void
load_gradient(const sequence_call *c, int32_t from, int64_t row, double *out)
{
    for (int64_t j = 0; j < c->s.units; j++) {
        out[j] = from < 0 ? 0.0 : input(c, from, row * c->s.units + j);
    }
}

/* dh += that of the step's own result; keeps h before the step in `out`. */
static void
open_step(const sequence_call *c, int64_t row, int64_t k, double *dh, int32_t states,
          int32_t first, int32_t out)
{
    int64_t n = c->s.units;
    int64_t cell = ipu__cell(&c->s, row, k);
    for (int64_t j = 0; j < n; j++) {
        if (c->s.steps_gradient >= 0) {
            dh[j] = plus(c, dh[j], input(c, c->s.steps_gradient, cell * n + j));
        }
        (void)store(c, out, cell * n + j, before(c, false, states, first, row, k, j));
    }
}

/* Element `unit` of the row of output `out` at a cell, columns [first, first + count),
 * times the kernel's transpose. */
static double
product_of_gradients(const sequence_call *c, int32_t out, int64_t cell, int64_t first,
                     int64_t count, int64_t unit)
{
    ipu__sum sum = new_sum(c);
    for (int64_t i = first; i < first + count; i++) {
        double d = output(c, out, cell * c->s.gates + i);
        ipu__sum_add(&sum, d, input(c, 1, unit * c->s.gates + i));
    }
    return ipu__sum_of(&sum);
}

static void
lstm_step_back(const sequence_call *c, int64_t row, int64_t k, double *dh, double *dc)
{
    int64_t n = c->s.units;
    int64_t cell = ipu__cell(&c->s, row, k);
    open_step(c, row, k, dh, 3, 4, 1);
    for (int64_t j = 0; j < n; j++) {
        int64_t at = cell * 4 * n + j;
        double i = input(c, 0, at);
        double f = input(c, 0, at + n);
        double g = input(c, 0, at + 2 * n);
        double o = input(c, 0, at + 3 * n);
        double t = tanh_of(c, input(c, 2, cell * n + j));
        double total = plus(c, dc[j], through_tanh(c, dh[j], o, t));
        double old = before(c, false, 2, 5, row, k, j);
        bool live = is_live(c, cell);
        (void)store(c, 0, at, live ? through_sigmoid(c, total, g, i) : 0.0);
        (void)store(c, 0, at + n, live ? through_sigmoid(c, total, old, f) : 0.0);
        (void)store(c, 0, at + 2 * n, live ? through_tanh(c, total, i, g) : 0.0);
        (void)store(c, 0, at + 3 * n, live ? through_sigmoid(c, dh[j], t, o) : 0.0);
        dc[j] = live ? times(c, total, f) : dc[j];
    }
    for (int64_t j = 0; j < n && is_live(c, cell); j++) {
        dh[j] = product_of_gradients(c, 0, cell, 0, 4 * n, j);
    }
}

static void
store_gradient(const sequence_call *c, int32_t out, int64_t row, const double *gradient)
{
    for (int64_t j = 0; j < c->s.units; j++) {
        (void)store(c, out, row * c->s.units + j, gradient[j]);
    }
}

ipu_status
ipu_reference_lstm_grad(const ipu_kernel_call *call)
{
    sequence_call c = begin(call);
    double *dh = call->workspace;
    double *dc = dh + c.s.units;
    for (int64_t row = 0; row < c.s.rows; row++) {
        load_gradient(&c, c.s.h_gradient, row, dh);
        load_gradient(&c, c.s.c_gradient, row, dc);
        for (int64_t k = c.s.steps - 1; k >= 0; k--) {
            lstm_step_back(&c, row, k, dh, dc);
        }
        store_gradient(&c, 2, row, dh);
        store_gradient(&c, 3, row, dc);
    }
    return IPU_OK;
}

/* --- gru -------------------------------------------------------------------------- */

/* Column `column` of the product, with its bias. */
static double
gru_product(const sequence_call *c, int64_t row, int64_t k, int64_t column)
{
    double product = product_of_h(c, row, k, column);
    return c->s.bias < 0 ? product : plus(c, product, input(c, c->s.bias, column));
}

/* The part of gate h beside x: of r and inner, or of the product of all inner. */
static double
candidate_part(const sequence_call *c, int64_t cell, int64_t j)
{
    int64_t n = c->s.units;
    ipu__sum sum = new_sum(c);
    if (c->s.reset_after) {
        return times(c, output(c, 0, (cell * 3 + 1) * n + j),
                     output(c, 3, cell * n + j));
    }
    for (int64_t i = 0; i < n; i++) {
        ipu__sum_add(&sum, output(c, 3, cell * n + i), input(c, 1, (i * 3 + 2) * n + j));
    }
    return ipu__sum_of(&sum);
}

static void
gru_step(const sequence_call *c, int64_t row, int64_t k)
{
    int64_t n = c->s.units;
    int64_t cell = ipu__cell(&c->s, row, k);
    bool live = is_live(c, cell);
    for (int64_t j = 0; j < 2 * n; j++) {
        double x = plus(c, input(c, 0, cell * 3 * n + j), gru_product(c, row, k, j));
        (void)store(c, 0, cell * 3 * n + j, live ? sigmoid_of(c, x) : 0.0);
    }
    for (int64_t j = 0; j < n; j++) {
        double r = output(c, 0, (cell * 3 + 1) * n + j);
        double inner = c->s.reset_after
                           ? gru_product(c, row, k, 2 * n + j)
                           : times(c, r, before(c, true, 1, 2, row, k, j));
        (void)store(c, 3, cell * n + j, live ? inner : 0.0);
    }
    for (int64_t j = 0; j < n; j++) {
        int64_t at = (cell * 3 + 2) * n + j;
        double h = before(c, true, 1, 2, row, k, j);
        double z = output(c, 0, cell * 3 * n + j);
        double x = plus(c, input(c, 0, at), candidate_part(c, cell, j));
        double candidate = store(c, 0, at, live ? tanh_of(c, x) : 0.0);
        double added = times(c, rounded(c, 1.0 - z), candidate);
        (void)store(c, 1, cell * n + j, live ? plus(c, times(c, z, h), added) : h);
    }
}

ipu_status
ipu_reference_gru(const ipu_kernel_call *call)
{
    sequence_call c = begin(call);
    for (int64_t row = 0; row < c.s.rows; row++) {
        for (int64_t k = 0; k < c.s.steps; k++) {
            gru_step(&c, row, k);
        }
    }
    store_last(&c, 2, 1, 2);
    return IPU_OK;
}

/* Gradients at z and the candidate of unit j; dh becomes dh z. */
static void
back_candidate(const sequence_call *c, int64_t row, int64_t k, int64_t j, double *dh)
{
    int64_t n = c->s.units;
    int64_t at = ipu__cell(&c->s, row, k) * 3 * n + j;
    double z = input(c, 0, at);
    double candidate = input(c, 0, at + 2 * n);
    double h = before(c, false, 3, 4, row, k, j);
    (void)store(c, 0, at, through_sigmoid(c, *dh, rounded(c, h - candidate), z));
    (void)store(c, 0, at + 2 * n,
                through_tanh(c, *dh, rounded(c, 1.0 - z), candidate));
    *dh = times(c, *dh, z);
}

/* Gradient at r of unit j, and what of dh comes by it; without reset_after. */
static void
back_reset_before(const sequence_call *c, int64_t row, int64_t k, int64_t j, double *dh)
{
    int64_t n = c->s.units;
    int64_t cell = ipu__cell(&c->s, row, k);
    int64_t at = (cell * 3 + 1) * n + j;
    double r = input(c, 0, at);
    double h = before(c, false, 3, 4, row, k, j);
    double d = product_of_gradients(c, 0, cell, 2 * n, n, j);
    (void)store(c, 0, at, through_sigmoid(c, d, h, r));
    *dh = plus(c, *dh, times(c, d, r));
}

static void
gru_step_back(const sequence_call *c, int64_t row, int64_t k, double *dh)
{
    int64_t n = c->s.units;
    int64_t cell = ipu__cell(&c->s, row, k);
    int64_t at = cell * 3 * n;
    open_step(c, row, k, dh, 3, 4, 2);
    if (!is_live(c, cell)) {
        for (int64_t j = 0; j < 3 * n; j++) {
            (void)store(c, 0, at + j, 0.0);
            (void)store(c, 1, at + j, 0.0);
        }
        return;
    }
    for (int64_t j = 0; j < n; j++) {
        back_candidate(c, row, k, j, &dh[j]);
    }
    for (int64_t j = 0; j < n; j++) {
        double r = input(c, 0, at + n + j);
        double d = output(c, 0, at + 2 * n + j);
        if (c->s.reset_after) {
            double inner = input(c, 2, cell * n + j);
            (void)store(c, 0, at + n + j, through_sigmoid(c, d, inner, r));
            d = times(c, d, r);
        } else {
            back_reset_before(c, row, k, j, &dh[j]);
        }
        (void)store(c, 1, at + j, output(c, 0, at + j));
        (void)store(c, 1, at + n + j, output(c, 0, at + n + j));
        (void)store(c, 1, at + 2 * n + j, d);
    }
    for (int64_t j = 0; j < n; j++) {
        int64_t columns = c->s.reset_after ? 3 * n : 2 * n;
        double d = product_of_gradients(c, 1, cell, 0, columns, j);
        dh[j] = plus(c, dh[j], d);
    }
}

ipu_status
ipu_reference_gru_grad(const ipu_kernel_call *call)
{
    sequence_call c = begin(call);
    double *dh = call->workspace;
    for (int64_t row = 0; row < c.s.rows; row++) {
        load_gradient(&c, c.s.h_gradient, row, dh);
        for (int64_t k = c.s.steps - 1; k >= 0; k--) {
            gru_step_back(&c, row, k, dh);
        }
        store_gradient(&c, 3, row, dh);
    }
    return IPU_OK;
}
