/* SPDX-License-Identifier: MIT
 *
 * Convolutions: which kernel serves. float32 and float16 have tiles on every class of
 * CPU, which give the reference kernel's bits; float64 goes to BLIS (conv_wide.c). */
#include "kernels/conv/conv_run_impl.h"

static bool
has_tiles(const ipu_kernel_spec *spec)
{
    return spec->outputs[0].dtype != IPU_DTYPE_FLOAT64;
}

ipu_status
ipu_choose_conv(const ipu__preparation *p)
{
    return has_tiles(p->spec) ? ipu__conv_windows_prepare(p)
                              : ipu__conv_wide_prepare(p);
}

ipu_status
ipu_choose_fused_conv(const ipu__preparation *p)
{
    return ipu_choose_conv(p);
}

ipu_status
ipu_choose_conv_grad_input(const ipu__preparation *p)
{
    return ipu_choose_conv(p);
}

ipu_status
ipu_choose_fused_conv_grad_input(const ipu__preparation *p)
{
    const bool fits =
        p->spec->outputs[0].dtype == IPU_DTYPE_FLOAT32 &&
        ipu_attrs_int(p->spec->attrs, IPU_ATTR_CHANNELS_FIRST, 0) == 0;
    return fits ? ipu__conv_windows_prepare(p) : IPU_OK;
}

ipu_status
ipu_choose_conv_grad_filter(const ipu__preparation *p)
{
    return has_tiles(p->spec) ? ipu__conv_filter_prepare(p)
                              : ipu__conv_wide_prepare(p);
}
