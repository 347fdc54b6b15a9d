/* SPDX-License-Identifier: MIT
 *
 * The fast kernels of convolutions, which conv.c chooses. */
#ifndef IPU_KERNELS_CONV_RUN_IMPL_H
#define IPU_KERNELS_CONV_RUN_IMPL_H

#include "kernels/conv/conv_plan_impl.h"

/* conv and conv_grad_input (conv_windows.c), conv_grad_filter (conv_filter.c): fill the
 * spec. */
ipu_status ipu__conv_windows_prepare(const ipu__preparation *p);
ipu_status ipu__conv_filter_prepare(const ipu__preparation *p);
/* All three of float64 (conv_wide.c). */
ipu_status ipu__conv_wide_prepare(const ipu__preparation *p);

/* Whether each channel has filters of its own. */
static inline bool
ipu__conv_is_depthwise(const ipu_convolution *c)
{
    return c->depth == 1 && c->groups > 1;
}

#endif
