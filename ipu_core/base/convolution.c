/* SPDX-License-Identifier: MIT
 *
 * The geometry of convolutions from attributes and shapes. No state. */
#include "base/convolution.h"

static int64_t
entry_of(ipu_attrs attrs, ipu_attr_key key, int32_t i, int64_t otherwise)
{
    uint32_t count;
    const int64_t *ints = ipu_attrs_ints(attrs, key, &count);
    return i < (int32_t)count ? ints[i] : otherwise;
}

int64_t
ipu_conv_reach(const ipu_conv_axis *axis)
{
    return (axis->window - 1) * axis->dilation + 1;
}

void
ipu_convolution_of(ipu_attrs attrs, const ipu_shape *x, const ipu_shape *w,
                   ipu_convolution *out)
{
    *out = (ipu_convolution){
        .spatial = w->rank - 2,
        .batch = x->dims[0],
        .groups = ipu_attrs_int(attrs, IPU_ATTR_GROUPS, 1),
        .depth = w->dims[w->rank - 2],
        .filters = w->dims[w->rank - 1],
        .channels_first = ipu_attrs_int(attrs, IPU_ATTR_CHANNELS_FIRST, 0) != 0,
    };
    for (int32_t i = 0; i < out->spatial; i++) {
        ipu_conv_axis *axis = &out->axes[i];
        axis->size = x->dims[ipu_conv_first_axis(out) + i];
        axis->window = w->dims[i];
        axis->stride = entry_of(attrs, IPU_ATTR_STRIDES, i, 1);
        axis->dilation = entry_of(attrs, IPU_ATTR_DILATIONS, i, 1);
        axis->low = entry_of(attrs, IPU_ATTR_PADDING, 2 * i, 0);
        axis->high = entry_of(attrs, IPU_ATTR_PADDING, 2 * i + 1, 0);
        int64_t room = axis->size + axis->low + axis->high - ipu_conv_reach(axis);
        axis->out = room < 0 ? 0 : room / axis->stride + 1;
    }
}

ipu_shape
ipu_conv_result(const ipu_convolution *c)
{
    ipu_shape shape = {.rank = c->spatial + 2};
    shape.dims[0] = c->batch;
    shape.dims[ipu_conv_channels_axis(c)] = c->filters;
    for (int32_t i = 0; i < c->spatial; i++) {
        shape.dims[ipu_conv_first_axis(c) + i] = c->axes[i].out;
    }
    return shape;
}

int64_t
ipu_conv_positions(const ipu_convolution *c)
{
    int64_t positions = 1;
    for (int32_t i = 0; i < c->spatial; i++) {
        positions *= c->axes[i].window;
    }
    return positions;
}
