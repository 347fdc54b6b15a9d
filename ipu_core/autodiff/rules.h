/* SPDX-License-Identifier: MIT
 *
 * The gradient column of ops.def: what one rule sees, and the few builders that rules
 * are written with. Builders and rules share the rule's status: after a failure every
 * further builder does nothing and returns IPU_NO_VALUE, so that a rule reads as the
 * formula that it is and hands back `rule->status` at its end. */
#ifndef IPU_AUTODIFF_RULES_H
#define IPU_AUTODIFF_RULES_H

#include "graph/graph.h"

/* One forward node on the way back. Arrays are by input or by output of the node. */
typedef struct ipu_rule {
    ipu_ctx *ctx;
    ipu_graph *graph;
    ipu_block block; /* where gradient nodes go */
    ipu_node node;   /* the forward node */
    ipu_op op;
    ipu_attrs attrs;
    uint32_t input_count;
    uint32_t output_count;
    const ipu_value *inputs;
    const ipu_value *outputs;
    const ipu_value *grads; /* d / d output; IPU_NO_VALUE where nothing came back */
    const bool *wanted;     /* whether d / d input is of use to anybody */
    ipu_value *results;     /* d / d input; the rule sets what it can with `give` */
    ipu_status status;
} ipu_rule;

typedef ipu_status ipu_gradient_fn(ipu_rule *rule);

#define IPU_OP(name, text, min_in, max_in, outputs, dtypes, shape, cost, flags) \
    ipu_gradient_fn ipu_gradient_##text;
#include "ops.def"
#undef IPU_OP

/* The result for input `i`, summed back to its shape where that was broadcast. */
void ipu__rule_give(ipu_rule *rule, uint32_t i, ipu_value gradient);

ipu_value ipu__rule_unary(ipu_rule *rule, ipu_op op, ipu_value x);
ipu_value ipu__rule_binary(ipu_rule *rule, ipu_op op, ipu_value a, ipu_value b);
ipu_value ipu__rule_select(ipu_rule *rule, ipu_value condition, ipu_value a,
                           ipu_value b);
/* One output, any attributes. */
ipu_value ipu__rule_emit(ipu_rule *rule, ipu_op op, const ipu_value *inputs,
                         uint32_t input_count, const ipu_attr *attrs,
                         uint32_t attr_count);
/* One output, with the attributes of the forward node except the shape, which is that
 * of `like` where there is one. */
ipu_value ipu__rule_alike(ipu_rule *rule, ipu_op op, ipu_value like,
                          const ipu_value *inputs, uint32_t input_count);
/* The matrix product of a and b, or of their transposes. */
ipu_value ipu__rule_product(ipu_rule *rule, ipu_value a, ipu_value b, bool transpose_a,
                            bool transpose_b);
/* A scalar of the dtype of `like`. */
ipu_value ipu__rule_number(ipu_rule *rule, ipu_value like, double number);
ipu_value ipu__rule_reshape(ipu_rule *rule, ipu_value x, const ipu_shape *shape);
ipu_value ipu__rule_broadcast(ipu_rule *rule, ipu_value x, const ipu_shape *shape);
/* The elements from `begin` on, on each axis as many as `size` says. */
ipu_value ipu__rule_slice(ipu_rule *rule, ipu_value x, const int64_t *begin,
                          const ipu_shape *size);
ipu_value ipu__rule_concat(ipu_rule *rule, const ipu_value *parts, uint32_t count,
                           int64_t axis);
ipu_value ipu__rule_cast(ipu_rule *rule, ipu_value x, ipu_dtype dtype);
ipu_value ipu__rule_sum(ipu_rule *rule, ipu_value x, const int64_t *axes,
                        uint32_t axis_count, bool keep_dims);
ipu_value ipu__rule_sum_last(ipu_rule *rule, ipu_value x); /* keeps the axis, as 1 */

/* Of lstm, gru or their gradients, by way of single ops, for whatever outputs have a
 * gradient (recurrent_steps.c). */
ipu_status ipu__gradient_by_steps(ipu_rule *rule);

/* The type of a value; of IPU_NO_VALUE, after a failure, a float32 scalar. */
ipu_type ipu__rule_type(const ipu_rule *rule, ipu_value value);

#endif
