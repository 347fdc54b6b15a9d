/* SPDX-License-Identifier: MIT
 *
 * Kernels of sequences: lstm, gru and their gradients, whose bits are those of the
 * reference; attention and its gradient, close to the reference, which is in double.
 * Sizes are odd, so that tiles and vectors have edges. */
#include "kernel_trials.h"

typedef struct sequence_size {
    int64_t steps;
    int64_t batch;
    int64_t units;
} sequence_size;

static const sequence_size sequence_sizes[] = {
    {1, 1, 1}, {2, 7, 3}, {3, 17, 16}, {2, 31, 33}, {2, 97, 5}, {0, 2, 3}, {2, 0, 3}};

/* What a trial of recurrence is made of. */
typedef struct sequence_form {
    ipu_dtype dtype;
    bool by_batch;
    bool masked; /* and in reverse; of gru, with reset_after */
} sequence_form;

static ipu_type
of_steps(const sequence_form *form, const sequence_size *size, int64_t columns)
{
    return form->by_batch
               ? type_of(form->dtype, DIMS(size->batch, size->steps, columns))
               : type_of(form->dtype, DIMS(size->steps, size->batch, columns));
}

static void
add_input(kernel_trial *trial, ipu_type type)
{
    trial->inputs[trial->input_count++] = type;
}

static void
add_output(kernel_trial *trial, ipu_type type)
{
    trial->outputs[trial->output_count++] = type;
}

static void
add_attr(kernel_trial *trial, ipu_attr_key key, int64_t value)
{
    trial->attrs[trial->attr_count++] = attr_int(key, value);
}

static void
recurrent_trial(const sequence_form *form, const sequence_size *size, bool is_lstm,
                bool back)
{
    int64_t n = size->units;
    int64_t gates = is_lstm ? 4 : 3;
    ipu_type wide = of_steps(form, size, gates * n);
    ipu_type whole = of_steps(form, size, n);
    ipu_type state = type_of(form->dtype, DIMS(size->batch, n));
    ipu_type mask = of_steps(form, size, 1);
    mask.dtype = IPU_DTYPE_BOOL;
    mask.shape.rank = 2;
    kernel_trial trial = {.op = is_lstm ? (back ? IPU_OP_ID_LSTM_GRAD : IPU_OP_ID_LSTM)
                                        : (back ? IPU_OP_ID_GRU_GRAD : IPU_OP_ID_GRU),
                          .low = -1.0,
                          .high = 1.0};
    add_attr(&trial, IPU_ATTR_AXIS, form->by_batch);
    add_attr(&trial, IPU_ATTR_REVERSE, form->masked);
    if (!is_lstm) {
        add_attr(&trial, IPU_ATTR_RESET_AFTER, form->masked);
    }
    add_input(&trial, wide);
    add_input(&trial, type_of(form->dtype, DIMS(n, gates * n)));
    if (back) {
        add_input(&trial, whole);
        add_input(&trial, whole);
    }
    add_input(&trial, state);
    if (is_lstm) {
        add_input(&trial, state);
    }
    if (!is_lstm && !back && form->masked) {
        add_input(&trial, type_of(form->dtype, DIMS(3 * n)));
    }
    if (form->masked) {
        add_input(&trial, mask);
    }
    if (back) { /* one form has all gradients, the other that of the last h alone */
        int64_t most = is_lstm ? IPU_GIVEN_ALL : IPU_GIVEN_ALL & ~IPU_GIVEN_LAST_C;
        add_attr(&trial, IPU_ATTR_GIVEN, form->masked ? most : IPU_GIVEN_LAST_H);
        if (form->masked) {
            add_input(&trial, whole);
        }
        for (int32_t i = 0; i < (form->masked && is_lstm ? 2 : 1); i++) {
            add_input(&trial, state);
        }
    }
    add_output(&trial, wide);
    add_output(&trial, back && !is_lstm ? wide : whole);
    add_output(&trial, back && !is_lstm ? whole : state);
    if (is_lstm || back) {
        add_output(&trial, state);
    }
    if (!back) {
        add_output(&trial, whole);
    }
    check_trial(&trial);
}

static void
test_recurrence(void)
{
    static const ipu_dtype dtypes[] = {IPU_DTYPE_FLOAT32, IPU_DTYPE_FLOAT16,
                                       IPU_DTYPE_FLOAT64};
    for (size_t s = 0; s < sizeof sequence_sizes / sizeof sequence_sizes[0]; s++) {
        for (uint32_t flags = 0; flags < 12; flags++) {
            sequence_form form = {.dtype = dtypes[flags / 4],
                                  .by_batch = (flags & 1) != 0,
                                  .masked = (flags & 2) != 0};
            for (uint32_t which = 0; which < 4; which++) {
                recurrent_trial(&form, &sequence_sizes[s], (which & 1) != 0,
                                (which & 2) != 0);
            }
        }
    }
    /* sums over units, or over gates, of two blocks (sum_tree.h) */
    static const sequence_size wide = {1, 5, 1029};
    static const sequence_size gates = {2, 3, 345};
    for (uint32_t flags = 0; flags < 8; flags++) {
        sequence_form form = {.dtype = dtypes[flags / 4], .masked = (flags & 1) != 0};
        recurrent_trial(&form, &wide, (flags & 2) != 0, false);
        recurrent_trial(&form, &gates, (flags & 2) != 0, true);
    }
}

typedef struct attention_size {
    int64_t batch;
    int64_t heads;
    int64_t queries;
    int64_t keys;
    int64_t size;
    int64_t value_size;
} attention_size;

typedef struct attention_form {
    ipu_dtype dtype;
    int64_t given;
    bool causal;
    bool wide_mask; /* of its own for each batch, head and query */
} attention_form;

static void
attention_trial(const attention_form *form, const attention_size *s, bool back)
{
    ipu_dtype dtype = form->dtype;
    ipu_type q = type_of(dtype, DIMS(s->batch, s->heads, s->queries, s->size));
    ipu_type k = type_of(dtype, DIMS(s->batch, s->heads, s->keys, s->size));
    ipu_type v = type_of(dtype, DIMS(s->batch, s->heads, s->keys, s->value_size));
    ipu_type y = type_of(dtype, DIMS(s->batch, s->heads, s->queries, s->value_size));
    kernel_trial trial = {
        .op = back ? IPU_OP_ID_ATTENTION_GRAD : IPU_OP_ID_ATTENTION,
        .low = -2.0,
        .high = 2.0,
        .tolerance = dtype == IPU_DTYPE_FLOAT16   ? 4e-3
                     : dtype == IPU_DTYPE_FLOAT32 ? 2e-5
                                                  : 0.0};
    add_attr(&trial, IPU_ATTR_GIVEN, form->given);
    add_attr(&trial, IPU_ATTR_CAUSAL, form->causal);
    trial.attrs[trial.attr_count++] = attr_float(IPU_ATTR_SCALE, 0.25);
    trial.attrs[trial.attr_count++] =
        attr_float(IPU_ATTR_RATE, (form->given & IPU_ATTENTION_KEY) != 0 ? 0.3 : 0.0);
    add_input(&trial, q);
    add_input(&trial, k);
    add_input(&trial, v);
    if (back) {
        add_input(&trial, y);
    }
    if ((form->given & IPU_ATTENTION_MASK) != 0) {
        bool own = form->wide_mask;
        add_input(&trial, type_of(IPU_DTYPE_BOOL,
                                  DIMS(own ? s->batch : 1, own ? s->heads : 1,
                                       own ? s->queries : 1, s->keys)));
    }
    if ((form->given & IPU_ATTENTION_KEY) != 0) {
        add_input(&trial, type_of(IPU_DTYPE_INT32, DIMS(2)));
    }
    add_output(&trial, back ? q : y);
    if (back) {
        add_output(&trial, k);
        add_output(&trial, v);
    }
    check_trial(&trial);
}

/* Not with a mask and causal at once: where all keys are hidden, float32 loses what
 * scores were, and the reference does not. */
static void
test_attention(void)
{
    static const attention_size sizes[] = {
        {1, 1, 1, 1, 1, 1},    {2, 3, 7, 21, 4, 5},    {1, 1, 50, 33, 17, 24},
        {1, 2, 61, 270, 8, 3}, {3, 1, 5, 130, 33, 16}, {1, 1, 70, 1100, 3, 2},
        {0, 2, 3, 4, 5, 6},    {2, 1, 0, 4, 5, 6},     {2, 1, 3, 0, 5, 6},
        {1, 2, 2100, 9, 3, 2}, {1, 1, 1025, 40, 2, 3}};
    static const ipu_dtype dtypes[] = {IPU_DTYPE_FLOAT32, IPU_DTYPE_FLOAT16,
                                       IPU_DTYPE_FLOAT64};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        for (uint32_t flags = 0; flags < 12; flags++) {
            attention_form form = {.dtype = dtypes[flags / 4],
                                   .given = flags % 4,
                                   .causal = (flags & IPU_ATTENTION_MASK) == 0,
                                   .wide_mask = (flags + i) % 2 == 1};
            attention_trial(&form, &sizes[i], false);
            attention_trial(&form, &sizes[i], true);
        }
    }
}

int
main(void)
{
    trials_begin();
    test_recurrence();
    test_attention();
    trials_end();
    return CHECK_DONE();
}
