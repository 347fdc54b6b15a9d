/* SPDX-License-Identifier: MIT
 *
 * Kernels: convolutions and their gradients on each class of CPU against the generic one,
 * to the bit but for float64, under the sanitizers: tiles, bands, phases and padding at
 * their borders. */
#include "base/convolution.h"
#include "kernel_trials.h"

typedef struct geometry {
    int32_t spatial;
    int64_t batch;
    int64_t depth; /* channels of a group */
    int64_t groups;
    int64_t filters; /* of a group */
    int64_t sizes[3];
    int64_t window[3];
    int64_t strides[3];
    int64_t dilations[3];
    int64_t padding[6];
    bool channels_first;
} geometry;

static ipu_shape
shape_of(const geometry *g, int64_t channels, const int64_t *sizes)
{
    ipu_shape shape = {.rank = g->spatial + 2};
    shape.dims[0] = g->batch;
    shape.dims[g->channels_first ? 1 : g->spatial + 1] = channels;
    for (int32_t i = 0; i < g->spatial; i++) {
        shape.dims[(g->channels_first ? 2 : 1) + i] = sizes[i];
    }
    return shape;
}

/* Steps of a fused convolution: operands that are channels, but for the last one. */
static void
add_steps(kernel_trial *trial, int64_t channels, bool more)
{
    static const int64_t steps[] = {IPU_CONV_BIAS, IPU_CONV_SCALE, IPU_CONV_BIAS,
                                    IPU_CONV_ADD};
    const uint32_t count = more ? 4 : 1;
    for (uint32_t i = 0; i < count; i++) {
        trial->inputs[trial->input_count++] =
            steps[i] == IPU_CONV_ADD
                ? trial->outputs[0]
                : type_of(trial->outputs[0].dtype, DIMS(channels));
    }
    if (more) {
        trial->attrs[trial->attr_count++] = attr_ints(IPU_ATTR_STEPS, count, steps);
    }
}

static void
trial_of(const geometry *g, ipu_dtype dtype, ipu_op op, bool more)
{
    kernel_trial trial = {.op = op,
                          .input_count = 2,
                          .output_count = 1,
                          .low = -1.0,
                          .high = 1.0,
                          .tolerance = dtype == IPU_DTYPE_FLOAT64 ? 1e-12 : 0.0,
                          .attr_count = op == IPU_OP_ID_FUSED_CONV ? 6 : 5};
    ipu_type x = {dtype, shape_of(g, g->depth * g->groups, g->sizes)};
    ipu_type w = {dtype, {.rank = g->spatial + 2}};
    for (int32_t i = 0; i < g->spatial; i++) {
        w.shape.dims[i] = g->window[i];
    }
    w.shape.dims[g->spatial] = g->depth;
    w.shape.dims[g->spatial + 1] = g->filters * g->groups;
    uint32_t spatial = (uint32_t)g->spatial;
    trial.attrs[0] = attr_ints(IPU_ATTR_STRIDES, spatial, g->strides);
    trial.attrs[1] = attr_ints(IPU_ATTR_DILATIONS, spatial, g->dilations);
    trial.attrs[2] = attr_ints(IPU_ATTR_PADDING, 2 * spatial, g->padding);
    trial.attrs[3] = attr_int(IPU_ATTR_GROUPS, g->groups);
    trial.attrs[4] = attr_int(IPU_ATTR_CHANNELS_FIRST, g->channels_first);
    trial.attrs[5] = attr_int(IPU_ATTR_ACTIVATION, IPU_ACTIVATION_RELU);
    ipu_convolution c;
    ipu_convolution_of((ipu_attrs){trial.attrs, trial.attr_count}, &x.shape, &w.shape,
                       &c);
    ipu_type y = {dtype, ipu_conv_result(&c)};
    if (op == IPU_OP_ID_FUSED_CONV_GRAD_INPUT &&
        (dtype != IPU_DTYPE_FLOAT32 || g->channels_first)) {
        return; /* the fuse pass makes none */
    }
    switch (op) {
    case IPU_OP_ID_CONV_GRAD_INPUT:
        trial.inputs[0] = y;
        trial.inputs[1] = w;
        trial.outputs[0] = x;
        break;
    case IPU_OP_ID_FUSED_CONV_GRAD_INPUT:
        trial.inputs[0] = x;
        trial.inputs[1] = y;
        trial.inputs[2] = w;
        trial.input_count = 3;
        trial.outputs[0] = x;
        break;
    case IPU_OP_ID_CONV_GRAD_FILTER:
        trial.inputs[0] = x;
        trial.inputs[1] = y;
        trial.outputs[0] = w;
        break;
    default:
        trial.inputs[0] = x;
        trial.inputs[1] = w;
        trial.outputs[0] = y;
        if (op == IPU_OP_ID_FUSED_CONV && !g->channels_first) {
            add_steps(&trial, g->filters * g->groups, more);
        }
        break;
    }
    check_trial(&trial);
}

static const geometry geometries[] = {
    {1, 2, 3, 1, 5, {9}, {3}, {2}, {1}, {1, 0}, false},
    {1, 1, 20, 1, 17, {700}, {5}, {1}, {1}, {4, 0}, false},
    {2, 2, 7, 1, 9, {6, 7}, {3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}, false},
    {2, 2, 18, 1, 33, {7, 8}, {3, 2}, {2, 3}, {1, 1}, {1, 0, 1, 2}, false},
    {2, 2, 18, 1, 16, {7, 8}, {2, 3}, {1, 1}, {2, 2}, {0, 0, 0, 0}, false},
    {2, 5, 20, 1, 20, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {0, 0, 0, 0}, false},
    {2, 1, 1200, 1, 20, {8, 9}, {1, 1}, {1, 1}, {1, 1}, {0, 0, 0, 0}, false},
    {2, 2, 9, 2, 20, {7, 6}, {1, 1}, {1, 1}, {1, 1}, {0, 0, 0, 0}, false},
    {2, 2, 5, 3, 4, {6, 7}, {3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}, true},
    {2, 2, 1, 19, 1, {6, 7}, {3, 3}, {2, 1}, {1, 1}, {1, 1, 1, 1}, false},
    {2, 2, 1, 5, 3, {6, 7}, {3, 3}, {1, 1}, {1, 1}, {0, 1, 1, 0}, true},
    {2, 1, 3, 1, 3, {8, 8}, {2, 2}, {3, 3}, {1, 1}, {0, 0, 0, 0}, false},
    {3, 2, 17, 1, 5, {3, 4, 3}, {2, 2, 3}, {2, 1, 1}, {1, 2, 1}, {1, 0, 0, 1, 1, 1},
     false},
    /* sums of several blocks: over windows, over pixels, of their nodes (sum_tree.h) */
    {2, 3, 130, 1, 9, {6, 5}, {3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}, false},
    {2, 2, 5, 1, 241, {5, 6}, {3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}, false},
    {2, 2, 4, 1, 600, {6, 7}, {3, 3}, {2, 1}, {1, 1}, {1, 1, 1, 1}, true},
    {1, 1, 3, 1, 4, {2300}, {3}, {1}, {1}, {1, 1}, false},
    {2, 3, 2, 1, 3, {40, 31}, {3, 2}, {1, 1}, {1, 1}, {1, 0, 1, 1}, false},
    {2, 1, 20, 1, 18, {40, 61}, {3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}, false},
    {2, 3, 5, 1, 7, {29, 31}, {1, 1}, {1, 1}, {1, 1}, {0, 0, 0, 0}, false},
    {2, 3, 5, 2, 7, {29, 31}, {1, 1}, {1, 1}, {1, 1}, {0, 0, 0, 0}, true},
    {2, 3, 1, 6, 1, {29, 31}, {3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}, false},
    {1, 1, 1, 2, 1, {2400}, {1100}, {1}, {1}, {0, 0}, false},
    {1, 1, 1, 1, 2, {34000}, {2}, {1}, {1}, {0, 0}, false},
    {1, 1, 1, 2, 1, {34000}, {2}, {1}, {1}, {0, 0}, false},
    {1, 1, 11000, 1, 2, {4}, {3}, {1}, {1}, {1, 1}, false},
    {1, 1, 2, 1, 11000, {4}, {3}, {1}, {1}, {1, 1}, false},
};

static void
test_convolutions(void)
{
    static const ipu_op ops[] = {IPU_OP_ID_CONV, IPU_OP_ID_FUSED_CONV,
                                 IPU_OP_ID_CONV_GRAD_INPUT, IPU_OP_ID_CONV_GRAD_FILTER,
                                 IPU_OP_ID_FUSED_CONV_GRAD_INPUT};
    static const ipu_dtype dtypes[] = {IPU_DTYPE_FLOAT32, IPU_DTYPE_FLOAT16,
                                       IPU_DTYPE_FLOAT64};
    for (size_t g = 0; g < sizeof geometries / sizeof geometries[0]; g++) {
        for (size_t op = 0; op < sizeof ops / sizeof ops[0]; op++) {
            for (size_t dtype = 0; dtype < 3; dtype++) {
                trial_of(&geometries[g], dtypes[dtype], ops[op], g % 2 == 0);
            }
        }
    }
}

int
main(void)
{
    trials_begin();
    test_convolutions();
    trials_end();
    return CHECK_DONE();
}
