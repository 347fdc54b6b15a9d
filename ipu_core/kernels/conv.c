/* SPDX-License-Identifier: MIT
 *
 * Convolutions: which kernel serves. float32 and float16 have tiles on every class of
 * CPU, which give the reference kernel's bits; float64 is the reference kernel's. */
#include "kernels/conv_run_impl.h"

static bool
has_tiles(const ipu_kernel_spec *spec)
{
    return spec->outputs[0].dtype != IPU_DTYPE_FLOAT64;
}

ipu_status
ipu_choose_conv(const ipu__preparation *p)
{
    return has_tiles(p->spec) ? ipu__conv_windows_prepare(p) : IPU_OK;
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
ipu_choose_conv_grad_filter(const ipu__preparation *p)
{
    return has_tiles(p->spec) ? ipu__conv_filter_prepare(p) : IPU_OK;
}
