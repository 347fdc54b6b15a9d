/* SPDX-License-Identifier: MIT
 *
 * Convolutions: which kernel serves. float32 and float16 have tiles on every class of
 * CPU, which give the same bits; float64 goes to BLIS (conv_wide.c). */
#include "kernels/conv/conv_run_impl.h"

/* Of no pixels, or no channels: sums of nothing. */
static ipu_status
run_zeros(const ipu_kernel_call *call)
{
    size_t bytes = ipu_type_bytes(&call->spec->outputs[0]);
    if (bytes > 0) {
        memset(call->outputs[0], 0, bytes);
    }
    return IPU_OK;
}

ipu_status
ipu_choose_conv(const ipu__preparation *p)
{
    ipu_kernel_spec *spec = p->spec;
    const bool of_filter = spec->op == IPU_OP_ID_CONV_GRAD_FILTER;
    const ipu_shape *y = &spec->inputs[1].shape;
    if (ipu_shape_elements(&spec->outputs[0].shape) == 0 ||
        (of_filter && ipu_shape_elements(y) == 0)) {
        spec->run = run_zeros;
        spec->kernel_name = "zeros";
        return IPU_OK;
    }
    if (spec->op == IPU_OP_ID_FUSED_CONV_GRAD_INPUT &&
        (spec->outputs[0].dtype != IPU_DTYPE_FLOAT32 ||
         ipu_attrs_int(spec->attrs, IPU_ATTR_CHANNELS_FIRST, 0) != 0)) {
        return IPU_OK; /* the fuse pass makes none */
    }
    if (spec->outputs[0].dtype == IPU_DTYPE_FLOAT64) {
        return ipu__conv_wide_prepare(p);
    }
    return of_filter ? ipu__conv_filter_prepare(p) : ipu__conv_windows_prepare(p);
}
