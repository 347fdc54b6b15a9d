/* SPDX-License-Identifier: MIT
 *
 * Convolutions: which kernel serves. */
#include "kernels/conv_impl.h"

ipu_status
ipu_choose_conv(const ipu__preparation *p)
{
    (void)p;
    return IPU_OK;
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
    return ipu_choose_conv(p);
}
