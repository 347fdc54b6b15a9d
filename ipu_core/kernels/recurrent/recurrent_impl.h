/* SPDX-License-Identifier: MIT
 *
 * The common part of lstm, gru and their gradients: how the tensors of a sequence
 * lie, the loops over the units of a row (recurrent_loops.h), and for the fast ones their
 * products and how batch rows are shared out (recurrent_share.c). */
#ifndef IPU_KERNELS_RECURRENT_IMPL_H
#define IPU_KERNELS_RECURRENT_IMPL_H

#include "kernels/gemm/gemm_share_impl.h"

/* The sizes of a sequence and its operands. A cell is one row of one step. */
typedef struct ipu__sequence {
    ipu_dtype dtype;
    int64_t steps;
    int64_t rows; /* of the batch */
    int64_t units;
    int64_t gates;      /* columns of the kernel: those of all gates */
    int64_t step_cells; /* from a step to the next */
    int64_t row_cells;
    bool reverse;
    bool reset_after;
    int32_t bias; /* which input it is; -1 where there is none */
    int32_t mask;
    int32_t steps_gradient;
    int32_t h_gradient;
    int32_t c_gradient;
} ipu__sequence;

/* Of any of the four ops. */
ipu__sequence ipu__sequence_of(const ipu_kernel_spec *spec);

/* The cell of the k-th step that is made. */
static inline int64_t
ipu__cell(const ipu__sequence *s, int64_t row, int64_t k)
{
    int64_t step = s->reverse ? s->steps - 1 - k : k;
    return row * s->row_cells + step * s->step_cells;
}

/* Whether the state changes there. */
static inline bool
ipu__is_live(const ipu__sequence *s, const ipu_kernel_call *call, int64_t cell)
{
    return s->mask < 0 || ((const uint8_t *)call->inputs[s->mask])[cell] != 0;
}

/* --- loops over the units of a row, by class of CPU ------------------------------ */

/* n units; gates are [gate][n]. */
typedef struct ipu__recurrent_form {
    /* gates = activated x + product */
    void (*lstm_gates)(float *gates, const float *x, const float *product, int64_t n);
    void (*lstm_c)(float *c, const float *gates, int64_t n); /* in place */
    void (*lstm_h)(float *h, const float *gates, const float *c, int64_t n);
    /* dx, and dc of the step before in place of dc */
    void (*lstm_back)(float *dx, float *dc, const float *dh, const float *gates,
                      const float *c, const float *previous_c, int64_t n);
    /* gates z and r of x and product; product += bias where there is one */
    void (*gru_gates)(float *gates, const float *x, float *product, const float *bias,
                      int64_t n);
    /* gate h: tanh(x + r * inner), or without r tanh(x + inner) */
    void (*gru_candidate)(float *gate, const float *x, const float *r,
                          const float *inner, int64_t n);
    void (*gru_h)(float *h, const float *gates, int64_t n); /* in place */
    /* dx of z and h; dh * z in place of dh */
    void (*gru_back)(float *dx, float *dh, const float *gates, const float *h,
                     int64_t n);
    /* dx of r = dr * factor, through the sigmoid */
    void (*gru_back_reset)(float *dx, const float *dr, const float *factor,
                           const float *r, int64_t n);
    void (*add)(float *out, const float *a, const float *b, int64_t n);
    void (*multiply)(float *out, const float *a, const float *b, int64_t n);
} ipu__recurrent_form;

extern const ipu__recurrent_form ipu__recurrent_generic;
#if defined(__x86_64__)
extern const ipu__recurrent_form ipu__recurrent_avx2;
extern const ipu__recurrent_form ipu__recurrent_avx512;
#endif

/* --- products, once for each step (recurrent_share.c) ---------------------------- */

/* [rows, k] by [k, n], a part of the kernel or of its transpose, which is packed once. */
typedef struct ipu__step_product {
    const ipu__tiles *tiles;
    ipu__product product; /* but its pointers and rows */
    int64_t offset;       /* of the part in the kernel, in elements */
    int64_t panels;       /* where they are among all panels, in floats */
} ipu__step_product;

enum { IPU_STEP_PRODUCTS = 2, IPU_STEP_BUFFERS = 8 };

typedef struct ipu__recurrent_plan ipu__recurrent_plan;

/* The work of a thread: a block of rows from the first step to the last. */
typedef struct ipu__rows_block {
    const ipu_kernel_call *call;
    const ipu__recurrent_plan *plan;
    const float *panels;
    float *scratch; /* of a product */
    float *room;    /* for what one row reads */
    int64_t row;
    int64_t rows;
    float *buffers[IPU_STEP_BUFFERS]; /* [rows][a stride of the plan's] */
} ipu__rows_block;

/* Prepared. */
struct ipu__recurrent_plan {
    ipu__sequence sequence;
    const ipu__recurrent_form *form;
    ipu_cpu_class cpu;
    void (*run_block)(const ipu__rows_block *block);
    int32_t products;
    ipu__step_product product[IPU_STEP_PRODUCTS];
    int64_t panel_floats;
    int64_t wide_floats; /* of a kernel of float16, widened */
    int32_t buffers;
    int64_t stride[IPU_STEP_BUFFERS]; /* floats from row to row */
    int64_t block_rows;
    int64_t scratch_floats; /* of products, for a block */
    int64_t room_floats;
    int64_t block_floats;   /* of all that a block needs */
};

/* The plan of a fast kernel, to which the caller adds products and buffers. */
ipu_status ipu__recurrent_begin(const ipu__preparation *p, ipu__recurrent_plan **out);
/* Columns [column, column + n) of the kernel; or (transposed) the product with the
 * transpose of these columns. */
void ipu__recurrent_multiplies(ipu__recurrent_plan *plan, bool transposed,
                               int64_t column, int64_t n);
/* The next buffer has `floats` for each row. */
void ipu__recurrent_buffer(ipu__recurrent_plan *plan, int64_t floats);
void ipu__recurrent_finish(const ipu__preparation *p, ipu__recurrent_plan *plan,
                           int64_t room_floats,
                           void (*run_block)(const ipu__rows_block *block));

/* Buffer `to`, from float `column` of each row on = buffer `from`, too, by product. */
void ipu__recurrent_multiply(const ipu__rows_block *block, int32_t product,
                             int32_t from, int64_t from_column, int32_t to,
                             int64_t to_column);

static inline float *
ipu__buffer_row(const ipu__rows_block *block, int32_t buffer, int64_t row)
{
    return block->buffers[buffer] + row * block->plan->stride[buffer];
}

/* n elements of an input from element `at` on, as floats: where they lie, or in `room`.
 */
const float *ipu__recurrent_read(const ipu__rows_block *block, int32_t input,
                                 int64_t at, int64_t n, float *room);
void ipu__recurrent_copy(const ipu__rows_block *block, int32_t input, int64_t at,
                         int64_t n, float *to);
/* Stores x in an output, and rounds it to what was stored. */
void ipu__recurrent_store(const ipu__rows_block *block, int32_t output, int64_t at,
                          int64_t n, float *x);

/* The rows of a [rows, units] tensor of the call, into a buffer and out of it. */
void ipu__load_state(const ipu__rows_block *block, int32_t input, int32_t buffer);
void ipu__store_state(const ipu__rows_block *block, int32_t output, int32_t buffer);
/* The same of one that may be missing (-1): 0. */
void ipu__load_gradient(const ipu__rows_block *block, int32_t input, int32_t buffer);

#endif
