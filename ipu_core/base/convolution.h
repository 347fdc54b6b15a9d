/* SPDX-License-Identifier: MIT
 *
 * The geometry of a convolution, as the attributes of conv, conv_grad_input and
 * conv_grad_filter say it. Rooms from graph/ to kernels/ read it from here.
 *
 *   x [batch, size..., groups * depth]    or, channels first, [batch, channels, size...]
 *   w [window..., depth, filters]         group g has filters [g * filters / groups, ...)
 *   y [batch, out..., filters]
 *
 *   y[b, o, f] = sum over window position k, channel c of
 *                x[b, o * stride + k * dilation - low, c of f's group] w[k, c, f]
 *
 * where x is 0 outside of its sizes. Spatial dimensions count from the first one that
 * the tensors have; there are one to three. */
#ifndef IPU_BASE_CONVOLUTION_H
#define IPU_BASE_CONVOLUTION_H

#include "base/attrs.h"

enum { IPU_CONV_MAX_SPATIAL = 3 };

typedef struct ipu_conv_axis {
    int64_t size;   /* of x */
    int64_t out;    /* of y */
    int64_t window; /* of w */
    int64_t stride;
    int64_t dilation;
    int64_t low;  /* zeros in front of x, ... */
    int64_t high; /* ... and after it */
} ipu_conv_axis;

typedef struct ipu_convolution {
    int32_t spatial;
    int64_t batch;
    int64_t groups;
    int64_t depth;   /* channels of a group of x */
    int64_t filters; /* channels of y */
    bool channels_first;
    ipu_conv_axis axes[IPU_CONV_MAX_SPATIAL];
} ipu_convolution;

/* Which axis of x or y the channels are, and which the first spatial one. */
static inline int32_t
ipu_conv_channels_axis(const ipu_convolution *c)
{
    return c->channels_first ? 1 : c->spatial + 1;
}
static inline int32_t
ipu_conv_first_axis(const ipu_convolution *c)
{
    return c->channels_first ? 2 : 1;
}

/* Of operands whose shapes fit. Attributes that are left out are strides and dilations
 * of 1, no padding, one group, channels last. `out` follows from the rest. */
void ipu_convolution_of(ipu_attrs attrs, const ipu_shape *x, const ipu_shape *w,
                        ipu_convolution *out);
/* From one end of a window to the other. */
int64_t ipu_conv_reach(const ipu_conv_axis *axis);
/* The shape of y. */
ipu_shape ipu_conv_result(const ipu_convolution *c);
/* Window positions. */
int64_t ipu_conv_positions(const ipu_convolution *c);

#endif
