/* SPDX-License-Identifier: MIT
 *
 * The reference kernels of convolutions: each element of the result is a sum of products
 * in float32, by the tree of sum_tree.h, that is rounded once at its end; of float64 one
 * chain of fused multiply-adds. The order of the products is the op's rule:
 *
 *   conv              window positions, row-major; in each the channels of x
 *   conv_grad_input   positions of y, row-major, that a window on this element has; in
 *                     each the channels of y. Of those that no stride leads to there are
 *                     none
 *   conv_grad_filter  images; in each the positions of y, row-major
 *
 * Padding, and positions of y outside of it, are zeros that are multiplied. fused_conv
 * rounds the sum, then what each step makes of it, then the activation, as the ops one
 * by one would. Calling thread only; allocates nothing. */
#include "kernels/conv/conv_impl.h"
#include "kernels/core/sum_tree.h"

/* Offset -1: a zero. */
static double
element(ipu_dtype dtype, const void *base, int64_t offset)
{
    return offset < 0 ? 0.0 : ipu__scalar_load(dtype, base, offset).f;
}

static ipu__scalar
rounded(ipu_dtype dtype, const ipu__sum *sum)
{
    return ipu__scalar_round(dtype, (ipu__scalar){.f = ipu__sum_of(sum)});
}

/* Strides of x or y, whose spatial sizes are those of `axes`. */
typedef struct layout {
    int64_t batch;
    int64_t channel;
    int64_t spatial[IPU_CONV_MAX_SPATIAL];
    int64_t sizes[IPU_CONV_MAX_SPATIAL];
} layout;

static layout
layout_of(const ipu_convolution *c, const ipu_shape *shape)
{
    layout out;
    int64_t strides[IPU_MAX_RANK];
    ipu_shape_strides(shape, false, strides);
    out.batch = strides[0];
    out.channel = strides[ipu_conv_channels_axis(c)];
    for (int32_t i = 0; i < c->spatial; i++) {
        out.spatial[i] = strides[ipu_conv_first_axis(c) + i];
        out.sizes[i] = shape->dims[ipu_conv_first_axis(c) + i];
    }
    return out;
}

/* Row-major index `flat` in `sizes`. */
static void
unravel(int64_t flat, int32_t rank, const int64_t *sizes, int64_t *out)
{
    for (int32_t i = rank - 1; i >= 0; i--) {
        out[i] = flat % sizes[i];
        flat /= sizes[i];
    }
}

/* Where channel 0 of an image is at a place, or -1 outside of it. */
static int64_t
offset_at(const layout *l, int32_t rank, int64_t image, const int64_t *place)
{
    int64_t offset = image * l->batch;
    for (int32_t i = 0; i < rank; i++) {
        if (place[i] < 0 || place[i] >= l->sizes[i]) {
            return -1;
        }
        offset += place[i] * l->spatial[i];
    }
    return offset;
}

static int64_t
channel_at(int64_t place, const layout *l, int64_t channel)
{
    return place < 0 ? -1 : place + channel * l->channel;
}

typedef struct operands {
    ipu_convolution c;
    ipu_dtype dtype;
    layout x;
    layout y;
    int64_t window[IPU_CONV_MAX_SPATIAL];
    int64_t positions;
    const void *first;
    const void *second;
    const void *relu; /* whose gradient follows, or NULL */
} operands;

static operands
operands_of(const ipu_kernel_call *call)
{
    const uint32_t first = ipu__conv_source_operand(call->spec);
    operands o = {.dtype = call->spec->outputs[0].dtype,
                  .first = call->inputs[first],
                  .second = call->inputs[first + 1],
                  .relu = first > 0 ? call->inputs[0] : NULL};
    ipu__conv_shapes shapes = ipu__conv_shapes_of(call->spec);
    ipu_convolution_of(call->spec->attrs, shapes.x, shapes.w, &o.c);
    o.x = layout_of(&o.c, shapes.x);
    o.y = layout_of(&o.c, shapes.y);
    o.positions = ipu_conv_positions(&o.c);
    for (int32_t i = 0; i < o.c.spatial; i++) {
        o.window[i] = o.c.axes[i].window;
    }
    return o;
}

/* The place in x that position `k` of the window at `out` is on. */
static void
covered(const operands *o, const int64_t *out, const int64_t *k, int64_t *place)
{
    for (int32_t i = 0; i < o->c.spatial; i++) {
        const ipu_conv_axis *axis = &o->c.axes[i];
        place[i] = out[i] * axis->stride + k[i] * axis->dilation - axis->low;
    }
}

/* The place in y whose window is on `place` with its position `k`; false where no stride
 * leads there. */
static bool
covering(const operands *o, const int64_t *place, const int64_t *k, int64_t *out)
{
    for (int32_t i = 0; i < o->c.spatial; i++) {
        const ipu_conv_axis *axis = &o->c.axes[i];
        int64_t at = place[i] + axis->low - k[i] * axis->dilation;
        if (at % axis->stride != 0) {
            return false;
        }
        out[i] = at / axis->stride;
    }
    return true;
}

static ipu__scalar
forward(const operands *o, int64_t image, const int64_t *out, int64_t filter)
{
    const ipu_convolution *c = &o->c;
    ipu__sum sum = {.is_double = o->dtype == IPU_DTYPE_FLOAT64};
    int64_t group = filter / (c->filters / c->groups);
    for (int64_t p = 0; p < o->positions; p++) {
        int64_t k[IPU_CONV_MAX_SPATIAL];
        int64_t place[IPU_CONV_MAX_SPATIAL];
        unravel(p, c->spatial, o->window, k);
        covered(o, out, k, place);
        int64_t x = offset_at(&o->x, c->spatial, image, place);
        for (int64_t i = 0; i < c->depth; i++) {
            int64_t at = channel_at(x, &o->x, group * c->depth + i);
            int64_t w = (p * c->depth + i) * c->filters + filter;
            ipu__sum_add(&sum, element(o->dtype, o->first, at),
                         element(o->dtype, o->second, w));
        }
    }
    return rounded(o->dtype, &sum);
}

static ipu__scalar
backward(const operands *o, int64_t image, const int64_t *place, int64_t channel)
{
    const ipu_convolution *c = &o->c;
    ipu__sum sum = {.is_double = o->dtype == IPU_DTYPE_FLOAT64};
    int64_t group = channel / c->depth;
    int64_t filters = c->filters / c->groups;
    for (int64_t p = o->positions - 1; p >= 0; p--) {
        int64_t k[IPU_CONV_MAX_SPATIAL];
        int64_t out[IPU_CONV_MAX_SPATIAL];
        unravel(p, c->spatial, o->window, k);
        if (!covering(o, place, k, out)) {
            continue;
        }
        int64_t y = offset_at(&o->y, c->spatial, image, out);
        for (int64_t i = 0; i < filters; i++) {
            int64_t filter = group * filters + i;
            int64_t w = (p * c->depth + channel % c->depth) * c->filters + filter;
            ipu__sum_add(&sum,
                         element(o->dtype, o->first, channel_at(y, &o->y, filter)),
                         element(o->dtype, o->second, w));
        }
    }
    return rounded(o->dtype, &sum);
}

/* Runs `make` for each element of x or y. */
static void
each_element(const ipu_kernel_call *call, const operands *o, const layout *l,
             int64_t channels,
             ipu__scalar (*make)(const operands *o, int64_t image,
                                 const int64_t *place, int64_t channel))
{
    int64_t places = 1;
    for (int32_t i = 0; i < o->c.spatial; i++) {
        places *= l->sizes[i];
    }
    for (int64_t i = 0; i < o->c.batch * places; i++) {
        int64_t place[IPU_CONV_MAX_SPATIAL];
        unravel(i % places, o->c.spatial, l->sizes, place);
        int64_t at = offset_at(l, o->c.spatial, i / places, place);
        for (int64_t channel = 0; channel < channels; channel++) {
            ipu__scalar value = make(o, i / places, place, channel);
            const int64_t to = channel_at(at, l, channel);
            if (o->relu != NULL && !(ipu__scalar_load(o->dtype, o->relu, to).f > 0.0)) {
                value.f = 0.0;
            }
            ipu__scalar_store(o->dtype, call->outputs[0], to, value);
        }
    }
}

ipu_status
ipu_reference_conv(const ipu_kernel_call *call)
{
    operands o = operands_of(call);
    each_element(call, &o, &o.y, o.c.filters, forward);
    return IPU_OK;
}

ipu_status
ipu_reference_conv_grad_input(const ipu_kernel_call *call)
{
    operands o = operands_of(call);
    each_element(call, &o, &o.x, o.c.depth * o.c.groups, backward);
    return IPU_OK;
}

ipu_status
ipu_reference_fused_conv_grad_input(const ipu_kernel_call *call)
{
    return ipu_reference_conv_grad_input(call);
}

ipu_status
ipu_reference_conv_grad_filter(const ipu_kernel_call *call)
{
    operands o = operands_of(call);
    const ipu_convolution *c = &o.c;
    int64_t places = 1;
    for (int32_t i = 0; i < c->spatial; i++) {
        places *= o.y.sizes[i];
    }
    for (int64_t i = 0; i < o.positions * c->depth * c->filters; i++) {
        ipu__sum sum = {.is_double = o.dtype == IPU_DTYPE_FLOAT64};
        int64_t filter = i % c->filters;
        int64_t channel = i / c->filters % c->depth;
        int64_t group = filter / (c->filters / c->groups);
        int64_t k[IPU_CONV_MAX_SPATIAL];
        unravel(i / (c->filters * c->depth), c->spatial, o.window, k);
        for (int64_t j = 0; j < c->batch * places; j++) {
            int64_t out[IPU_CONV_MAX_SPATIAL];
            int64_t place[IPU_CONV_MAX_SPATIAL];
            unravel(j % places, c->spatial, o.y.sizes, out);
            covered(&o, out, k, place);
            int64_t x = offset_at(&o.x, c->spatial, j / places, place);
            int64_t y = offset_at(&o.y, c->spatial, j / places, out);
            x = channel_at(x, &o.x, group * c->depth + channel);
            y = channel_at(y, &o.y, filter);
            ipu__sum_add(&sum, element(o.dtype, o.first, x),
                         element(o.dtype, o.second, y));
        }
        ipu__scalar_store(o.dtype, call->outputs[0], i, rounded(o.dtype, &sum));
    }
    return IPU_OK;
}

ipu_status
ipu_reference_fused_conv(const ipu_kernel_call *call)
{
    const ipu_kernel_spec *spec = call->spec;
    ipu_dtype dtype = spec->outputs[0].dtype;
    const ipu_shape *shape = &spec->outputs[0].shape;
    int64_t channels = shape->dims[shape->rank - 1];
    IPU_TRY(ipu_reference_conv(call));
    for (int64_t i = 0; i < ipu_shape_elements(shape); i++) {
        ipu__scalar value = ipu__scalar_load(dtype, call->outputs[0], i);
        for (uint32_t k = 2; k < spec->input_count; k++) {
            ipu_conv_step step = ipu__conv_step_of(spec, k);
            int64_t at = step == IPU_CONV_ADD ? i : i % channels;
            ipu__scalar operands[3] = {
                value, ipu__scalar_load(dtype, call->inputs[k], at), {.i = 0}};
            (void)ipu__scalar_apply(step == IPU_CONV_SCALE ? IPU_OP_ID_MUL
                                                           : IPU_OP_ID_ADD,
                                    dtype, dtype, operands, &value);
        }
        ipu__reference_activate(
            (ipu_activation)ipu_attrs_int(spec->attrs, IPU_ATTR_ACTIVATION, 0), dtype,
            &value);
        ipu__scalar_store(dtype, call->outputs[0], i, value);
    }
    return IPU_OK;
}
