/* SPDX-License-Identifier: MIT
 *
 * Gradient rules of lstm and gru. One op goes back through all steps and gives, for all
 * of them, the gradient of what the kernel's product was added to; the kernel's own is
 * then one product over steps and batch. One thread per graph. */
#include "autodiff/rule_terms.h"

enum { MOST_INPUTS = 10, MOST_OUTPUTS = 5 };

static bool
is_given(const ipu_rule *r, uint32_t output)
{
    return output < r->output_count && r->grads[output].index != IPU_NO_INDEX;
}

/* The op that goes back: `inputs`, then the mask and the gradients that are there. Its
 * outputs. */
static void
emit_back(ipu_rule *r, ipu_op op, ipu_value *inputs, uint32_t count, ipu_value mask,
          uint32_t states, ipu_value *outputs)
{
    int64_t given = 0;
    if (mask.index != IPU_NO_INDEX) {
        given |= IPU_GIVEN_MASK;
        inputs[count++] = mask;
    }
    for (uint32_t i = 0; i < 1 + states; i++) {
        if (is_given(r, 1 + i)) {
            given |= IPU_GIVEN_STEPS << i;
            inputs[count++] = r->grads[1 + i];
        }
    }
    ipu_attr attrs[3] = {
        ipu_attr_int(IPU_ATTR_AXIS, ipu_attrs_int(r->attrs, IPU_ATTR_AXIS, 0)),
        ipu_attr_int(IPU_ATTR_REVERSE, ipu_attrs_int(r->attrs, IPU_ATTR_REVERSE, 0)),
        ipu_attr_int(IPU_ATTR_GIVEN, given)};
    ipu_attr with_reset[4] = {
        attrs[0], attrs[1],
        ipu_attr_int(IPU_ATTR_RESET_AFTER,
                     ipu_attrs_int(r->attrs, IPU_ATTR_RESET_AFTER, 0)),
        attrs[2]};
    bool is_gru = op == IPU_OP_ID_GRU_GRAD;
    outputs[0] = ipu__rule_emit(r, op, inputs, count, is_gru ? with_reset : attrs,
                                is_gru ? 4 : 3);
    for (uint32_t i = 1; r->status == IPU_OK && i < 4; i++) {
        ipu_node made = ipu_value_of(r->graph, outputs[0])->producer;
        outputs[i] = ipu_node_output(ipu_node_of(r->graph, made), i);
    }
}

/* [.., .., columns] as a matrix. */
static ipu_value
as_matrix(ipu_rule *r, ipu_value x)
{
    ipu_shape shape = ipu__rule_type(r, x).shape;
    ipu_shape flat = {.rank = 2,
                      .dims = {shape.dims[0] * shape.dims[1], shape.dims[2]}};
    return ipu__rule_reshape(r, x, &flat);
}

/* a^T b over all steps and rows. */
static ipu_value
product_over_steps(ipu_rule *r, ipu_value a, ipu_value b)
{
    ipu_value left = as_matrix(r, a);
    return ipu__rule_product(r, left, as_matrix(r, b), true, false);
}

/* The first result and the last one are kept for the gradient alone: they have one
 * where that is differentiated again. */
static bool
is_again(const ipu_rule *r)
{
    return is_given(r, 0) || is_given(r, r->output_count - 1);
}

ipu_status
ipu_gradient_lstm(ipu_rule *r)
{
    const ipu_value *in = r->inputs;
    ipu_value inputs[MOST_INPUTS] = {r->outputs[0], in[1], r->outputs[4],
                                     r->outputs[1], in[2], in[3]};
    ipu_value back[MOST_OUTPUTS] = {IPU_NO_VALUE};
    if (is_again(r)) {
        return ipu__gradient_by_steps(r);
    }
    emit_back(r, IPU_OP_ID_LSTM_GRAD, inputs, 6,
              r->input_count > 4 ? in[4] : IPU_NO_VALUE, 2, back);
    IPU_TRY(r->status);
    ipu__rule_give(r, 0, back[0]);
    if (r->wanted[1]) {
        ipu__rule_give(r, 1, product_over_steps(r, back[1], back[0]));
    }
    ipu__rule_give(r, 2, back[2]);
    ipu__rule_give(r, 3, back[3]);
    return r->status;
}

/* Columns [begin, begin + size) of the last axis. */
static ipu_value
columns(ipu_rule *r, ipu_value x, int64_t begin, int64_t size)
{
    ipu_shape shape = ipu__rule_type(r, x).shape;
    shape.dims[2] = size;
    return ipu__rule_slice(r, x, (int64_t[]){0, 0, begin}, &shape);
}

/* Without reset_after the candidate's part of the kernel met r h, which is `inner`. */
static ipu_value
gru_kernel_gradient(ipu_rule *r, const ipu_value *back)
{
    int64_t n = ipu__rule_type(r, r->inputs[2]).shape.dims[1];
    if (ipu_attrs_int(r->attrs, IPU_ATTR_RESET_AFTER, 0) != 0) {
        return product_over_steps(r, back[2], back[1]);
    }
    ipu_value parts[2] = {
        product_over_steps(r, back[2], columns(r, back[0], 0, 2 * n)),
        product_over_steps(r, r->outputs[3], columns(r, back[0], 2 * n, n))};
    return ipu__rule_concat(r, parts, 2, 1);
}

ipu_status
ipu_gradient_gru(ipu_rule *r)
{
    const ipu_value *in = r->inputs;
    bool after = ipu_attrs_int(r->attrs, IPU_ATTR_RESET_AFTER, 0) != 0;
    uint32_t mask = after ? 4 : 3;
    ipu_value inputs[MOST_INPUTS] = {r->outputs[0], in[1], r->outputs[3], r->outputs[1],
                                     in[2]};
    ipu_value back[MOST_OUTPUTS] = {IPU_NO_VALUE};
    if (is_again(r)) {
        return ipu__gradient_by_steps(r);
    }
    emit_back(r, IPU_OP_ID_GRU_GRAD, inputs, 5,
              r->input_count > mask ? in[mask] : IPU_NO_VALUE, 1, back);
    IPU_TRY(r->status);
    ipu__rule_give(r, 0, back[0]);
    if (r->wanted[1]) {
        ipu__rule_give(r, 1, gru_kernel_gradient(r, back));
    }
    ipu__rule_give(r, 2, back[3]);
    if (after && r->wanted[3]) {
        const int64_t axes[2] = {0, 1};
        ipu__rule_give(r, 3, ipu__rule_sum(r, back[1], axes, 2, false));
    }
    return r->status;
}

SAME_RULE(lstm_grad, ipu__gradient_by_steps(r))
SAME_RULE(gru_grad, ipu__gradient_by_steps(r))
