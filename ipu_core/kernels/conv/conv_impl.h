/* SPDX-License-Identifier: MIT
 *
 * The common part of the kernels of convolutions. */
#ifndef IPU_KERNELS_CONV_IMPL_H
#define IPU_KERNELS_CONV_IMPL_H

#include "base/convolution.h"
#include "kernels/core/kernel_impl.h"

/* The three sides of a convolution, whichever of them are operands. */
typedef struct ipu__conv_shapes {
    const ipu_shape *x;
    const ipu_shape *w;
    const ipu_shape *y;
} ipu__conv_shapes;

static inline ipu__conv_shapes
ipu__conv_shapes_of(const ipu_kernel_spec *spec)
{
    const ipu_shape *a = &spec->inputs[0].shape;
    const ipu_shape *b = &spec->inputs[1].shape;
    const ipu_shape *c = &spec->outputs[0].shape;
    switch (spec->op) {
    case IPU_OP_ID_CONV_GRAD_INPUT:
        return (ipu__conv_shapes){.x = c, .w = b, .y = a};
    case IPU_OP_ID_FUSED_CONV_GRAD_INPUT:
        return (ipu__conv_shapes){.x = c, .w = &spec->inputs[2].shape, .y = b};
    case IPU_OP_ID_CONV_GRAD_FILTER:
        return (ipu__conv_shapes){.x = a, .w = c, .y = b};
    default:
        return (ipu__conv_shapes){.x = a, .w = b, .y = c};
    }
}

/* The operand of conv and conv_grad_input that windows slide over; filters follow it. */
static inline uint32_t
ipu__conv_source_operand(const ipu_kernel_spec *spec)
{
    return spec->op == IPU_OP_ID_FUSED_CONV_GRAD_INPUT ? 1 : 0;
}

/* The step of fused_conv for input `input`, 2 or more. */
static inline ipu_conv_step
ipu__conv_step_of(const ipu_kernel_spec *spec, uint32_t input)
{
    uint32_t count;
    const int64_t *steps = ipu_attrs_ints(spec->attrs, IPU_ATTR_STEPS, &count);
    return steps == NULL ? IPU_CONV_BIAS : (ipu_conv_step)steps[input - 2];
}

#endif
