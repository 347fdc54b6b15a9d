/* SPDX-License-Identifier: MIT
 *
 * Reference kernel of top_k: the j-th of a row is the best of those that come after the
 * (j-1)-th in the order (value, place). Quadratic; needs no memory but its outputs.
 * NaN counts as the largest. Calling thread only. */
#include <math.h>

#include "kernels/core/kernel_impl.h"

/* -1, 0, 1 as a comes before b, is equal, or comes behind, in ascending order. */
static int
compare(char kind, ipu__scalar a, ipu__scalar b)
{
    if (kind == 'f') {
        if (isnan(a.f) || isnan(b.f)) {
            return (isnan(a.f) != 0) - (isnan(b.f) != 0);
        }
        return (a.f > b.f) - (a.f < b.f);
    }
    return kind == 'i' ? (a.i > b.i) - (a.i < b.i) : (a.u > b.u) - (a.u < b.u);
}

ipu_status
ipu_reference_top_k(const ipu_kernel_call *call)
{
    const ipu_kernel_spec *spec = call->spec;
    const ipu_shape *shape = &spec->inputs[0].shape;
    ipu_dtype dtype = spec->inputs[0].dtype;
    char kind = ipu_dtype_kind(dtype);
    int sign = ipu_attrs_int(spec->attrs, IPU_ATTR_ASCENDING, 0) != 0 ? 1 : -1;
    int64_t n = shape->dims[shape->rank - 1];
    int64_t k = spec->outputs[0].shape.dims[shape->rank - 1];
    int64_t rows = k == 0 ? 0 : ipu_shape_elements(&spec->outputs[0].shape) / k;
    for (int64_t row = 0; row < rows; row++) {
        int64_t last = -1;
        ipu__scalar last_value = {.i = 0};
        for (int64_t j = 0; j < k; j++) {
            int64_t best = -1;
            ipu__scalar best_value = {.i = 0};
            for (int64_t i = 0; i < n; i++) {
                ipu__scalar value =
                    ipu__scalar_load(dtype, call->inputs[0], row * n + i);
                int after = last < 0 ? 1 : sign * compare(kind, value, last_value);
                bool open = after > 0 || (after == 0 && i > last);
                if (open && (best < 0 || sign * compare(kind, value, best_value) < 0)) {
                    best = i;
                    best_value = value;
                }
            }
            ipu__scalar place = {.i = best};
            ipu__scalar_store(dtype, call->outputs[0], row * k + j, best_value);
            ipu__scalar_store(IPU_DTYPE_INT32, call->outputs[1], row * k + j, place);
            last = best;
            last_value = best_value;
        }
    }
    return IPU_OK;
}
