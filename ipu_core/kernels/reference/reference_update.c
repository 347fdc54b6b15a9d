/* SPDX-License-Identifier: MIT
 *
 * Reference kernels of the ops that write variables: assign, add, SGD with momentum and
 * Adam, in the forms that ops.def states, and what the fuse pass makes of many of them.
 * outputs[0] is the variable's buffer, read and written, then come the slots. Each step
 * is rounded to the variable's dtype, so that the float32 forms are the exact sequence
 * of float32 operations that the fast kernels run, and agree with them to the bit.
 * Calling thread only; allocates nothing. */
#include <math.h>
#include <string.h>

#include "base/update_code.h"
#include "kernels/core/kernel_impl.h"

ipu_status
ipu_reference_variable_assign(const ipu_kernel_call *call)
{
    if (call->outputs[0] != call->inputs[0]) {
        size_t bytes = ipu_type_bytes(&call->spec->outputs[0]);
        if (bytes > 0) {
            memmove(call->outputs[0], call->inputs[0], bytes);
        }
    }
    return IPU_OK;
}

ipu_status
ipu_reference_variable_add(const ipu_kernel_call *call)
{
    const ipu_type *type = &call->spec->outputs[0];
    int64_t elements = ipu_shape_elements(&type->shape);
    for (int64_t i = 0; i < elements; i++) {
        ipu__scalar operands[3] = {{.i = 0}};
        ipu__scalar sum;
        operands[0] = ipu__scalar_load(type->dtype, call->outputs[0], i);
        operands[1] = ipu__scalar_load(type->dtype, call->inputs[0], i);
        (void)ipu__scalar_apply(IPU_OP_ID_ADD, type->dtype, type->dtype, operands,
                                &sum);
        ipu__scalar_store(type->dtype, call->outputs[0], i, sum);
    }
    return IPU_OK;
}

/* a op b, rounded to the dtype. */
static double
step(ipu_dtype dtype, ipu_op op, double a, double b)
{
    ipu__scalar operands[3] = {{.f = a}, {.f = b}, {.i = 0}};
    ipu__scalar result;
    (void)ipu__scalar_apply(op, dtype, dtype, operands, &result);
    return result.f;
}

static double
rounded(ipu_dtype dtype, double value)
{
    return ipu__scalar_round(dtype, (ipu__scalar){.f = value}).f;
}

void
ipu__reference_sgd(const ipu_kernel_call *call, uint32_t rate_input, int64_t at,
                   double gradient)
{
    const ipu_kernel_spec *spec = call->spec;
    ipu_dtype t = spec->outputs[0].dtype;
    double momentum =
        rounded(t, ipu_attrs_float(spec->attrs, IPU_ATTR_MOMENTUM, 0.0));
    bool nesterov = ipu_attrs_int(spec->attrs, IPU_ATTR_NESTEROV, 0) != 0;
    double rate = rounded(t, ipu__double_load(spec->inputs[rate_input].dtype,
                                              call->inputs[rate_input]));
    double w = ipu__scalar_load(t, call->outputs[0], at).f;
    double move = step(t, IPU_OP_ID_MUL, rate, gradient);
    if (spec->output_count > 1) {
        double v = ipu__scalar_load(t, call->outputs[1], at).f;
        v = step(t, IPU_OP_ID_SUB, step(t, IPU_OP_ID_MUL, momentum, v), move);
        ipu__scalar_store(t, call->outputs[1], at, (ipu__scalar){.f = v});
        if (nesterov) {
            v = step(t, IPU_OP_ID_SUB, step(t, IPU_OP_ID_MUL, momentum, v), move);
        }
        w = step(t, IPU_OP_ID_ADD, w, v);
    } else {
        w = step(t, IPU_OP_ID_SUB, w, move);
    }
    ipu__scalar_store(t, call->outputs[0], at, (ipu__scalar){.f = w});
}

ipu_status
ipu_reference_sgd_update(const ipu_kernel_call *call)
{
    const ipu_type *type = &call->spec->outputs[0];
    int64_t elements = ipu_shape_elements(&type->shape);
    for (int64_t i = 0; i < elements; i++) {
        double gradient = ipu__scalar_load(type->dtype, call->inputs[0], i).f;
        ipu__reference_sgd(call, 1, i, gradient);
    }
    return IPU_OK;
}

/* From the learning rate, which is input `first`, and the step after it. */
static double
adam_rate(const ipu_kernel_call *call, uint32_t first)
{
    const ipu_kernel_spec *spec = call->spec;
    double beta_1 = ipu_attrs_float(spec->attrs, IPU_ATTR_BETA_1, 0.9);
    double beta_2 = ipu_attrs_float(spec->attrs, IPU_ATTR_BETA_2, 0.999);
    double rate = ipu__double_load(spec->inputs[first].dtype, call->inputs[first]);
    double count =
        ipu__double_load(spec->inputs[first + 1].dtype, call->inputs[first + 1]);
    return rate * sqrt(1.0 - pow(beta_2, count)) / (1.0 - pow(beta_1, count));
}

ipu_status
ipu_reference_adam_rate(const ipu_kernel_call *call)
{
    ipu__scalar_store(call->spec->outputs[0].dtype, call->outputs[0], 0,
                      (ipu__scalar){.f = adam_rate(call, 0)});
    return IPU_OK;
}

ipu_status
ipu_reference_adam_update(const ipu_kernel_call *call)
{
    const ipu_kernel_spec *spec = call->spec;
    ipu_dtype t = spec->outputs[0].dtype;
    double beta_1 = ipu_attrs_float(spec->attrs, IPU_ATTR_BETA_1, 0.9);
    double beta_2 = ipu_attrs_float(spec->attrs, IPU_ATTR_BETA_2, 0.999);
    double epsilon =
        rounded(t, ipu_attrs_float(spec->attrs, IPU_ATTR_EPSILON, 1e-7));
    double alpha = rounded(t, adam_rate(call, 1));
    double rest_1 = rounded(t, 1.0 - beta_1);
    double rest_2 = rounded(t, 1.0 - beta_2);
    int64_t elements = ipu_shape_elements(&spec->outputs[0].shape);
    for (int64_t i = 0; i < elements; i++) {
        double w = ipu__scalar_load(t, call->outputs[0], i).f;
        double m = ipu__scalar_load(t, call->outputs[1], i).f;
        double v = ipu__scalar_load(t, call->outputs[2], i).f;
        double g = ipu__scalar_load(t, call->inputs[0], i).f;
        double gap = step(t, IPU_OP_ID_SUB, g, m);
        m = step(t, IPU_OP_ID_ADD, m, step(t, IPU_OP_ID_MUL, gap, rest_1));
        gap = step(t, IPU_OP_ID_SUB, step(t, IPU_OP_ID_MUL, g, g), v);
        v = step(t, IPU_OP_ID_ADD, v, step(t, IPU_OP_ID_MUL, gap, rest_2));
        double root = step(t, IPU_OP_ID_ADD, step(t, IPU_OP_ID_SQRT, v, 0.0), epsilon);
        double move = step(t, IPU_OP_ID_DIV, step(t, IPU_OP_ID_MUL, alpha, m), root);
        w = step(t, IPU_OP_ID_SUB, w, move);
        ipu__scalar_store(t, call->outputs[1], i, (ipu__scalar){.f = m});
        ipu__scalar_store(t, call->outputs[2], i, (ipu__scalar){.f = v});
        ipu__scalar_store(t, call->outputs[0], i, (ipu__scalar){.f = w});
    }
    return IPU_OK;
}

ipu_status
ipu__update_check_rows(const ipu_kernel_call *call)
{
    const ipu_kernel_spec *spec = call->spec;
    uint32_t words;
    const int64_t *code = ipu_attrs_ints(spec->attrs, IPU_ATTR_CODE, &words);
    ipu_update_part part = {0};
    while (ipu_update_next(code, words, &part)) {
        for (uint32_t k = 0; k < part.inputs; k++) {
            if (ipu_update_is_rows(&part, k)) {
                uint32_t at = ipu_update_elements(&part, k) - 1;
                const ipu_type *type = &spec->inputs[at];
                IPU_TRY(ipu__check_indices(
                    call, type->dtype, call->inputs[at],
                    ipu_shape_elements(&type->shape),
                    spec->outputs[part.first_variable].shape.dims[0]));
            }
        }
    }
    return IPU_OK;
}
