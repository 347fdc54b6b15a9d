/* SPDX-License-Identifier: MIT
 *
 * Loops over the units of a row of lstm and gru, once for each class of processor: a
 * file defines RECURRENT_FORM (the name of the form that it defines) and
 * RECURRENT_TARGET (the attribute of its functions) and includes this one. The
 * expressions are those of the separate ops (block_loops.h), each rounded as they
 * round, so all classes give the bits of a cell made of single ops. */
#include "kernels/math/element_math.h"
#include "kernels/recurrent/recurrent_impl.h"

#define LOOP(...) IPU_LOOP(RECURRENT_TARGET, __VA_ARGS__)

LOOP(add, (float *out, const float *a, const float *b, int64_t n), out[j] = a[j] + b[j];)
LOOP(multiply, (float *out, const float *a, const float *b, int64_t n),
     out[j] = a[j] * b[j];)
LOOP(sigmoids, (float *out, const float *x, const float *product, int64_t n),
     out[j] = ipu__sigmoid_f32(x[j] + product[j]);)
LOOP(tanhs, (float *out, const float *x, const float *product, int64_t n),
     out[j] = ipu__tanh_f32(x[j] + product[j]);)

RECURRENT_TARGET static void
lstm_gates(float *gates, const float *x, const float *product, int64_t n)
{
    sigmoids(gates, x, product, 2 * n);
    tanhs(gates + 2 * n, x + 2 * n, product + 2 * n, n);
    sigmoids(gates + 3 * n, x + 3 * n, product + 3 * n, n);
}

LOOP(lstm_c, (float *c, const float *gates, int64_t n), {
    float kept = gates[n + j] * c[j];
    float added = gates[j] * gates[2 * n + j];
    c[j] = kept + added;
})
LOOP(lstm_h, (float *h, const float *gates, const float *c, int64_t n),
     h[j] = gates[3 * n + j] * ipu__tanh_f32(c[j]);)

LOOP(lstm_back,
     (float *dx, float *dc, const float *dh, const float *gates, const float *c,
      const float *previous_c, int64_t n),
     {
         float i = gates[j];
         float f = gates[n + j];
         float g = gates[2 * n + j];
         float o = gates[3 * n + j];
         float t = ipu__tanh_f32(c[j]);
         float total = dc[j] + (dh[j] * o) * ((1.0f - t) * (1.0f + t));
         dx[j] = (total * g) * (i * (1.0f - i));
         dx[n + j] = (total * previous_c[j]) * (f * (1.0f - f));
         dx[2 * n + j] = (total * i) * ((1.0f - g) * (1.0f + g));
         dx[3 * n + j] = (dh[j] * t) * (o * (1.0f - o));
         dc[j] = total * f;
     })

RECURRENT_TARGET static void
gru_gates(float *gates, const float *x, float *product, const float *bias, int64_t n)
{
    if (bias != NULL) {
        add(product, product, bias, 3 * n);
    }
    sigmoids(gates, x, product, 2 * n);
}

LOOP(reset_tanhs,
     (float *out, const float *x, const float *r, const float *inner, int64_t n), {
         float part = r[j] * inner[j];
         out[j] = ipu__tanh_f32(x[j] + part);
     })

RECURRENT_TARGET static void
gru_candidate(float *gate, const float *x, const float *r, const float *inner, int64_t n)
{
    if (r != NULL) {
        reset_tanhs(gate, x, r, inner, n);
    } else {
        tanhs(gate, x, inner, n);
    }
}

LOOP(gru_h, (float *h, const float *gates, int64_t n), {
    float kept = gates[j] * h[j];
    float added = (1.0f - gates[j]) * gates[2 * n + j];
    h[j] = kept + added;
})

LOOP(gru_back, (float *dx, float *dh, const float *gates, const float *h, int64_t n), {
    float z = gates[j];
    float candidate = gates[2 * n + j];
    float d = dh[j];
    dx[j] = (d * (h[j] - candidate)) * (z * (1.0f - z));
    dx[2 * n + j] = (d * (1.0f - z)) * ((1.0f - candidate) * (1.0f + candidate));
    dh[j] = d * z;
})

LOOP(gru_back_reset,
     (float *dx, const float *dr, const float *factor, const float *r, int64_t n),
     dx[j] = (dr[j] * factor[j]) * (r[j] * (1.0f - r[j]));)

const ipu__recurrent_form RECURRENT_FORM = {
    .lstm_gates = lstm_gates,
    .lstm_c = lstm_c,
    .lstm_h = lstm_h,
    .lstm_back = lstm_back,
    .gru_gates = gru_gates,
    .gru_candidate = gru_candidate,
    .gru_h = gru_h,
    .gru_back = gru_back,
    .gru_back_reset = gru_back_reset,
    .add = add,
    .multiply = multiply,
};
