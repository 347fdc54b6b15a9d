/* SPDX-License-Identifier: MIT
 *
 * Reference kernels of the softmax family, over the last axis, in double: softmax,
 * log_softmax, and the two cross entropies, which give the loss of each row and its
 * derivative by the logits. Rows are shifted by their maximum first. The result may
 * overwrite the input: a row is read whole before it is written. Labels outside the
 * classes are an error that names the label and its row. Calling thread only. */
#include <math.h>

#include "kernels/core/kernel_impl.h"

typedef struct row_sums {
    double max;
    double log_sum; /* log of the sum of exp(x - max) */
} row_sums;

static row_sums
sums_of(ipu_dtype dtype, const void *x, int64_t base, int64_t n)
{
    row_sums sums = {-(double)INFINITY, 0.0};
    double sum = 0.0;
    for (int64_t j = 0; j < n; j++) {
        double value = ipu__scalar_load(dtype, x, base + j).f;
        sums.max = value > sums.max || isnan(value) ? value : sums.max;
    }
    for (int64_t j = 0; j < n; j++) {
        sum += exp(ipu__scalar_load(dtype, x, base + j).f - sums.max);
    }
    sums.log_sum = log(sum);
    return sums;
}

ipu_status
ipu_reference_softmax(const ipu_kernel_call *call)
{
    const bool logarithm = call->spec->op == IPU_OP_ID_LOG_SOFTMAX;
    const ipu_type *type = &call->spec->inputs[0];
    int64_t n = type->shape.rank == 0 ? 1 : type->shape.dims[type->shape.rank - 1];
    int64_t elements = ipu_shape_elements(&type->shape);
    for (int64_t base = 0; base < elements; base += n) {
        row_sums sums = sums_of(type->dtype, call->inputs[0], base, n);
        for (int64_t j = 0; j < n; j++) {
            ipu__scalar value =
                ipu__scalar_load(type->dtype, call->inputs[0], base + j);
            value.f = value.f - sums.max - sums.log_sum;
            value.f = logarithm ? value.f : exp(value.f);
            ipu__scalar_store(type->dtype, call->outputs[0], base + j, value);
        }
    }
    return IPU_OK;
}

ipu_status
ipu__check_labels(const ipu_kernel_call *call, ipu_dtype dtype, const void *labels,
                  int64_t begin, int64_t end, int64_t classes)
{
    if (ipu_attrs_int(call->spec->attrs, IPU_ATTR_OUTSIDE_IS_NAN, 0) != 0) {
        return IPU_OK;
    }
    for (int64_t row = begin; row < end; row++) {
        int64_t label = ipu__integer_load(dtype, labels, row);
        IPU_FAIL_IF(call->ctx, label < 0 || label >= classes, INVALID_ARGUMENT,
                    "%s: label %lld of row %lld is outside the %lld classes [0, %lld)",
                    ipu_op_info_of(call->spec->op)->name, (long long)label,
                    (long long)row, (long long)classes, (long long)classes);
    }
    return IPU_OK;
}

ipu_status
ipu_reference_sparse_cross_entropy(const ipu_kernel_call *call)
{
    const ipu_type *logits = &call->spec->inputs[0];
    ipu_dtype dtype = logits->dtype;
    ipu_dtype label_dtype = call->spec->inputs[1].dtype;
    int64_t n = logits->shape.dims[logits->shape.rank - 1];
    int64_t rows = ipu_shape_elements(&call->spec->outputs[0].shape);
    IPU_TRY(ipu__check_labels(call, label_dtype, call->inputs[1], 0, rows, n));
    for (int64_t row = 0; row < rows; row++) {
        int64_t label = ipu__integer_load(label_dtype, call->inputs[1], row);
        bool is_class = label >= 0 && label < n;
        row_sums sums = sums_of(dtype, call->inputs[0], row * n, n);
        ipu__scalar value = {.f = NAN};
        if (is_class) {
            value = ipu__scalar_load(dtype, call->inputs[0], row * n + label);
            value.f = sums.log_sum - (value.f - sums.max);
        }
        ipu__scalar_store(dtype, call->outputs[0], row, value);
        for (int64_t j = 0; j < n; j++) {
            value = ipu__scalar_load(dtype, call->inputs[0], row * n + j);
            value.f = is_class
                          ? exp(value.f - sums.max - sums.log_sum) - (j == label)
                          : NAN;
            ipu__scalar_store(dtype, call->outputs[1], row * n + j, value);
        }
    }
    return IPU_OK;
}

/* The labels of a row need not add up to 1: with their sum S the derivative is
 * softmax * S - labels. */
ipu_status
ipu_reference_cross_entropy(const ipu_kernel_call *call)
{
    const ipu_type *logits = &call->spec->inputs[0];
    ipu_dtype dtype = logits->dtype;
    int64_t n = logits->shape.dims[logits->shape.rank - 1];
    int64_t rows = ipu_shape_elements(&call->spec->outputs[0].shape);
    for (int64_t row = 0; row < rows; row++) {
        row_sums sums = sums_of(dtype, call->inputs[0], row * n, n);
        double loss = 0.0;
        double weight = 0.0;
        for (int64_t j = 0; j < n; j++) {
            double label = ipu__scalar_load(dtype, call->inputs[1], row * n + j).f;
            double x = ipu__scalar_load(dtype, call->inputs[0], row * n + j).f;
            weight += label;
            if (label != 0.0) { /* 0 * infinity has to be 0 */
                loss += label * (sums.log_sum - (x - sums.max));
            }
        }
        ipu__scalar_store(dtype, call->outputs[0], row, (ipu__scalar){.f = loss});
        for (int64_t j = 0; j < n; j++) {
            double label = ipu__scalar_load(dtype, call->inputs[1], row * n + j).f;
            ipu__scalar value = ipu__scalar_load(dtype, call->inputs[0], row * n + j);
            value.f = exp(value.f - sums.max - sums.log_sum) * weight - label;
            ipu__scalar_store(dtype, call->outputs[1], row * n + j, value);
        }
    }
    return IPU_OK;
}
