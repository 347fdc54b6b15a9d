/* SPDX-License-Identifier: MIT
 *
 * Kernels: pooling and its gradients against the reference kernels, to the bit, and
 * normalisation, which sums in another order, closely: borders of tiles, chunks and
 * strips, windows that meet and that do not, under the sanitizers. */
#include "kernel_trials.h"

/* --- pooling ------------------------------------------------------------------------ */

typedef struct pooling {
    int32_t spatial;
    int64_t images;
    int64_t channels;
    int64_t sizes[3];
    int64_t window[3];
    int64_t strides[3];
    int64_t dilations[3];
    int64_t padding[6];
} pooling;

static ipu_type
type_of_images(const pooling *p, ipu_dtype dtype, const int64_t *sizes)
{
    ipu_type type = {dtype, {.rank = p->spatial + 2}};
    type.shape.dims[0] = p->images;
    memcpy(&type.shape.dims[1], sizes, (size_t)p->spatial * sizeof(sizes[0]));
    type.shape.dims[p->spatial + 1] = p->channels;
    return type;
}

/* `picked`: the dtype of what max_pool_pick picks. */
static void
pool_trial(const pooling *p, ipu_dtype dtype, ipu_dtype picked, ipu_op op)
{
    uint32_t spatial = (uint32_t)p->spatial;
    int64_t windows[3];
    for (uint32_t i = 0; i < spatial; i++) {
        int64_t reach = (p->window[i] - 1) * p->dilations[i] + 1;
        int64_t size = p->sizes[i] + p->padding[2 * i] + p->padding[2 * i + 1];
        windows[i] = (size - reach) / p->strides[i] + 1;
    }
    ipu_type x = type_of_images(p, dtype, p->sizes);
    ipu_type y = type_of_images(p, dtype, windows);
    /* what is given as the maxima is none of x: some windows have all below it */
    kernel_trial trial = {.op = op, .output_count = 1, .low = -1.0, .high = 1.0};
    trial.attrs[0] = attr_ints(IPU_ATTR_STRIDES, spatial, p->strides);
    trial.attrs[1] = attr_ints(IPU_ATTR_WINDOW, spatial, p->window);
    trial.attrs[2] = attr_ints(IPU_ATTR_DILATIONS, spatial, p->dilations);
    trial.attrs[3] = attr_ints(IPU_ATTR_PADDING, 2 * spatial, p->padding);
    trial.attr_count = 4;
    trial.outputs[0] = y;
    trial.inputs[0] = x;
    trial.input_count = 1;
    switch (op) {
    case IPU_OP_ID_AVERAGE_POOL_GRAD:
        trial.inputs[0] = y;
        trial.outputs[0] = x;
        break;
    case IPU_OP_ID_MAX_POOL_GRAD:
        trial.inputs[1] = y;
        trial.inputs[2] = y;
        trial.input_count = 3;
        trial.outputs[0] = x;
        break;
    case IPU_OP_ID_MAX_POOL_PICK:
        trial.inputs[1] = y;
        trial.inputs[2] = type_of_images(p, picked, p->sizes);
        trial.input_count = 3;
        trial.outputs[0].dtype = picked;
        break;
    default:
        break;
    }
    check_trial(&trial);
}

static const pooling poolings[] = {
    {1, 3, 5, {23}, {4}, {3}, {1}, {1, 2}},
    {1, 1, 9, {40}, {3}, {1}, {4}, {0, 5}},
    {2, 2, 32, {9, 11}, {3, 3}, {2, 2}, {1, 1}, {0, 1, 1, 0}},
    {2, 1, 45, {60, 17}, {3, 2}, {2, 1}, {1, 1}, {1, 1, 0, 0}},
    {2, 2, 41, {8, 6}, {2, 2}, {2, 2}, {1, 1}, {0, 0, 0, 0}},
    {2, 2, 8, {10, 7}, {2, 3}, {3, 4}, {1, 1}, {1, 0, 0, 2}},
    {2, 1, 10, {12, 13}, {3, 3}, {1, 2}, {2, 3}, {2, 2, 3, 3}},
    {2, 1, 3, {90, 5}, {5, 5}, {1, 1}, {1, 1}, {2, 2, 2, 2}},
    {3, 2, 11, {5, 4, 6}, {2, 3, 2}, {1, 2, 1}, {1, 1, 2}, {0, 1, 1, 1, 0, 0}},
    {3, 1, 33, {4, 5, 3}, {1, 2, 2}, {2, 1, 2}, {1, 1, 1}, {0, 0, 0, 0, 1, 0}},
    {3, 1, 64, {33, 2, 16}, {2, 1, 1}, {1, 1, 2}, {1, 1, 1}, {0, 1, 0, 0, 0, 0}},
};

static void
test_pooling(void)
{
    static const ipu_op ops[] = {IPU_OP_ID_MAX_POOL, IPU_OP_ID_MAX_POOL_GRAD,
                                 IPU_OP_ID_MAX_POOL_PICK, IPU_OP_ID_AVERAGE_POOL,
                                 IPU_OP_ID_AVERAGE_POOL_GRAD};
    static const ipu_dtype floats[] = {IPU_DTYPE_FLOAT32, IPU_DTYPE_FLOAT16,
                                       IPU_DTYPE_FLOAT64};
    static const ipu_dtype integers[] = {IPU_DTYPE_INT32,  IPU_DTYPE_INT8,
                                         IPU_DTYPE_UINT8,  IPU_DTYPE_INT64,
                                         IPU_DTYPE_UINT16, IPU_DTYPE_UINT64};
    for (size_t i = 0; i < sizeof poolings / sizeof poolings[0]; i++) {
        for (size_t op = 0; op < sizeof ops / sizeof ops[0]; op++) {
            for (size_t k = 0; k < sizeof floats / sizeof floats[0]; k++) {
                pool_trial(&poolings[i], floats[k], floats[k], ops[op]);
            }
        }
        for (size_t k = 0; k < sizeof integers / sizeof integers[0]; k++) {
            pool_trial(&poolings[i], integers[k], integers[k], IPU_OP_ID_MAX_POOL);
            pool_trial(&poolings[i], floats[k % 3], integers[k],
                       IPU_OP_ID_MAX_POOL_PICK);
        }
    }
}

/* --- normalisation ------------------------------------------------------------------ */

typedef struct normalisation {
    int64_t outer;
    int64_t rows;
    int64_t channels;
    int64_t groups;
    bool strided;
} normalisation;

static const normalisation normalisations[] = {
    {1, 300, 33, 33, false}, {1, 7, 5, 5, false},   {3, 50, 12, 4, false},
    {9, 20, 12, 3, true},    {130, 1, 47, 1, false}, {2, 1, 9000, 1, false},
    {1, 1, 1, 1, false},
};

static void
norm_trial(const normalisation *n, ipu_dtype dtype, bool gradient)
{
    ipu_type x = type_of(dtype, DIMS(n->outer, n->rows, n->channels));
    const bool is_wide = dtype == IPU_DTYPE_FLOAT64;
    const ipu_dtype other = is_wide ? dtype : IPU_DTYPE_FLOAT32;
    ipu_type factor = type_of(other, DIMS(n->channels));
    ipu_type group = type_of(other, DIMS(n->outer, n->groups));
    /* of positive numbers: one of the inputs is a variance */
    kernel_trial trial = {.op = IPU_OP_ID_NORMALIZE,
                          .input_count = 3,
                          .output_count = 3,
                          .inputs = {x, factor, factor},
                          .outputs = {x, group, group},
                          .low = 0.5,
                          .high = 1.5,
                          .tolerance = is_wide                      ? 1e-12
                                       : dtype == IPU_DTYPE_FLOAT16 ? 1e-2
                                                                    : 1e-4};
    if (gradient) {
        trial.op = IPU_OP_ID_NORMALIZE_GRAD;
        trial.input_count = 5;
        trial.inputs[1] = x;
        trial.inputs[2] = factor;
        trial.inputs[3] = group;
        trial.inputs[4] = group;
        trial.outputs[1] = factor;
        trial.outputs[2] = factor;
    }
    trial.attrs[0] = attr_int(IPU_ATTR_GROUPS, n->groups);
    trial.attrs[1] = attr_int(IPU_ATTR_STRIDED, n->strided);
    trial.attrs[2] = attr_float(IPU_ATTR_EPSILON, 1e-3);
    trial.attr_count = 3;
    check_trial(&trial);
}

static void
test_normalisation(void)
{
    for (size_t i = 0; i < sizeof normalisations / sizeof normalisations[0]; i++) {
        for (int gradient = 0; gradient < 2; gradient++) {
            norm_trial(&normalisations[i], IPU_DTYPE_FLOAT32, gradient != 0);
            norm_trial(&normalisations[i], IPU_DTYPE_FLOAT16, gradient != 0);
            norm_trial(&normalisations[i], IPU_DTYPE_FLOAT64, gradient != 0);
        }
    }
}

int
main(void)
{
    trials_begin();
    test_pooling();
    test_normalisation();
    trials_end();
    return CHECK_DONE();
}
