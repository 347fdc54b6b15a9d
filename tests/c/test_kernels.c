/* SPDX-License-Identifier: MIT
 *
 * Kernels: element-wise ops, casts, special values, reductions, movement and indices in
 * every dtype they take, over odd, empty, large and broadcast shapes. */
#include "kernel_trials.h"

/* --- element-wise ---------------------------------------------------------------- */

/* Those that the fast kernels have loops of their own for. tests/op_cases has every op. */
static const ipu_op elementwise[] = {
    IPU_OP_ID_NEG,         IPU_OP_ID_ABS,        IPU_OP_ID_SIGN,
    IPU_OP_ID_FLOOR,       IPU_OP_ID_EXP,        IPU_OP_ID_LOG,
    IPU_OP_ID_SQRT,        IPU_OP_ID_RSQRT,      IPU_OP_ID_SQUARE,
    IPU_OP_ID_TANH,        IPU_OP_ID_SIGMOID,    IPU_OP_ID_RELU,
    IPU_OP_ID_LOGICAL_NOT, IPU_OP_ID_ADD,        IPU_OP_ID_SUB,
    IPU_OP_ID_MUL,         IPU_OP_ID_DIV,        IPU_OP_ID_FLOOR_DIV,
    IPU_OP_ID_FLOOR_MOD,   IPU_OP_ID_POW,        IPU_OP_ID_MAXIMUM,
    IPU_OP_ID_MINIMUM,     IPU_OP_ID_EQUAL,      IPU_OP_ID_NOT_EQUAL,
    IPU_OP_ID_LESS,        IPU_OP_ID_LESS_EQUAL, IPU_OP_ID_GREATER,
    IPU_OP_ID_GREATER_EQUAL, IPU_OP_ID_LOGICAL_AND, IPU_OP_ID_LOGICAL_OR,
    IPU_OP_ID_SELECT,      IPU_OP_ID_RELU_GRAD,  IPU_OP_ID_TANH_GRAD,
    IPU_OP_ID_SIGMOID_GRAD,
};
enum { ELEMENTWISE_COUNT = sizeof elementwise / sizeof elementwise[0] };

static double
tolerance_of(ipu_op op, ipu_dtype dtype)
{
    bool exact = false;
    switch (op) {
    case IPU_OP_ID_EXP:
    case IPU_OP_ID_POW:
    case IPU_OP_ID_LOG:
    case IPU_OP_ID_TANH:
    case IPU_OP_ID_SIGMOID:
    case IPU_OP_ID_RSQRT:
    case IPU_OP_ID_TANH_GRAD:
    case IPU_OP_ID_SIGMOID_GRAD:
        break;
    default:
        exact = true;
    }
    return exact || dtype == IPU_DTYPE_FLOAT64 ? 0.0
           : dtype == IPU_DTYPE_FLOAT16        ? 2e-3
                                               : 1e-6;
}

/* The last input has the op's own dtype, also select's. */
static bool
takes(ipu_op op, ipu_dtype dtype)
{
    uint32_t last = (uint32_t)ipu_op_info_of(op)->min_inputs - 1;
    return ipu_dtype_letter_allows(ipu_op_dtype_letter(op, last), dtype);
}

static bool
compares(ipu_op op)
{
    return op >= IPU_OP_ID_EQUAL && op <= IPU_OP_ID_GREATER_EQUAL;
}

static const struct {
    int32_t rank[3];
    int64_t dims[3][4];
} shapes[] = {
    {{0, 0, 0}, {{0}, {0}, {0}}},
    {{1, 1, 1}, {{1}, {1}, {1}}},
    {{1, 1, 1}, {{0}, {0}, {0}}},
    {{1, 1, 1}, {{37}, {37}, {37}}},
    {{1, 0, 1}, {{1031}, {0}, {1031}}},
    {{2, 1, 2}, {{5, 7}, {7}, {5, 7}}},
    {{2, 2, 0}, {{5, 7}, {5, 1}, {0}}},
    {{1, 2, 2}, {{300}, {9, 300}, {9, 1}}},
    {{3, 3, 1}, {{4, 1, 6}, {1, 5, 6}, {6}}},
    {{4, 2, 4}, {{2, 3, 1, 5}, {4, 1}, {2, 1, 4, 5}}},
    {{2, 2, 2}, {{150, 257}, {1, 257}, {150, 1}}},
    {{3, 3, 1}, {{60, 1, 41}, {60, 9, 1}, {41}}},
    {{2, 2, 1}, {{4, 4999}, {4, 1}, {4999}}},
    {{3, 2, 2}, {{7000, 1, 3}, {2, 1}, {2, 3}}},
    {{2, 2, 2}, {{0, 3}, {1, 3}, {0, 1}}},
};

static void
test_elementwise(void)
{
    for (size_t i = 0; i < ELEMENTWISE_COUNT; i++) {
        ipu_op op = elementwise[i];
        for (int32_t d = 0; d < IPU_DTYPE_COUNT; d++) {
            ipu_dtype dtype = (ipu_dtype)d;
            if (!takes(op, dtype)) {
                continue;
            }
            for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++) {
                kernel_trial trial = {.op = op, .low = -3.0, .high = 3.0};
                ipu_shape shape;
                trial.input_count = (uint32_t)ipu_op_info_of(op)->min_inputs;
                trial.output_count = 1;
                if (op == IPU_OP_ID_LOG || op == IPU_OP_ID_SQRT || op == IPU_OP_ID_RSQRT
                    || op == IPU_OP_ID_POW) {
                    trial.low = 0.01;
                    trial.below = 5;
                }
                for (uint32_t k = 0; k < trial.input_count; k++) {
                    bool condition = op == IPU_OP_ID_SELECT && k == 0;
                    trial.inputs[k] =
                        type_of(condition ? IPU_DTYPE_BOOL : dtype, shapes[s].rank[k],
                                shapes[s].dims[k]);
                    if (k == 0) {
                        shape = trial.inputs[0].shape;
                    } else {
                        CHECK(ipu_shape_broadcast(&shape, &trial.inputs[k].shape,
                                                  &shape));
                    }
                }
                trial.outputs[0] =
                    (ipu_type){compares(op) ? IPU_DTYPE_BOOL : dtype, shape};
                trial.tolerance = tolerance_of(op, dtype);
                check_trial(&trial);
            }
        }
    }
}

static void
test_cast(void)
{
    for (int32_t from = 0; from < IPU_DTYPE_COUNT; from++) {
        for (int32_t to = 0; to < IPU_DTYPE_COUNT; to++) {
            kernel_trial trial = {.op = IPU_OP_ID_CAST, .low = -90.0, .high = 90.0};
            trial.input_count = 1;
            trial.output_count = 1;
            trial.inputs[0] = type_of((ipu_dtype)from, DIMS(3, 701));
            trial.outputs[0] = type_of((ipu_dtype)to, DIMS(3, 701));
            check_trial(&trial);
            trial.low = -1e12;
            trial.high = 1e12;
            check_trial(&trial);
        }
    }
}

static float
apply_f32(ipu_op op, ipu_kernel_variant variant, float x)
{
    kernel_trial trial = {.op = op, .input_count = 1, .output_count = 1};
    _Alignas(64) float in[1] = {x};
    _Alignas(64) float out[1] = {0.0f};
    void *inputs[1] = {in};
    void *outputs[1] = {out};
    const char *name;
    trial.inputs[0] = type_of(IPU_DTYPE_FLOAT32, SCALAR);
    trial.outputs[0] = trial.inputs[0];
    CHECK_OK(&ctx, run(&trial, inputs, outputs, variant, ipu_cpu_class_detect(), NULL,
                       &name));
    return out[0];
}

static void
test_special_values(void)
{
    static const float values[] = {0.0f,    -0.0f,   1.0f,     -1.0f,     1e-40f,
                                   -1e-40f, 1e-38f,  88.7f,    88.8f,     -87.4f,
                                   -100.0f, -103.9f, -104.5f,  1e30f,     -1e30f,
                                   3e38f,   8388609.5f, -0.5f, -2.5f,     0.624f,
                                   0.626f,  -0.626f, INFINITY, -INFINITY, NAN};
    for (size_t k = 0; k < ELEMENTWISE_COUNT; k++) {
        ipu_op op = elementwise[k];
        if (ipu_op_info_of(op)->max_inputs != 1 || op == IPU_OP_ID_LOGICAL_NOT) {
            continue;
        }
        for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
            float expected = apply_f32(op, IPU_KERNEL_REFERENCE, values[i]);
            float got = apply_f32(op, IPU_KERNEL_FAST, values[i]);
            /* sigmoid gives 0 where exp(-x) overflows */
            float least = op == IPU_OP_ID_SIGMOID ? 1e-38f : 3e-45f;
            bool same = (isnan(expected) && isnan(got)) || expected == got
                        || fabsf(expected - got) <= 2e-7f * fabsf(expected) + least;
            CHECK(same);
            if (!same) {
                fprintf(stderr, "%s(%g): %.9g against %.9g\n",
                        ipu_op_info_of(op)->name, (double)values[i],
                        (double)expected, (double)got);
            }
        }
    }
}

/* --- the others ------------------------------------------------------------------- */

static bool
reduces_one(const int64_t *dims, uint32_t mask)
{
    for (int32_t d = 0; d < 4; d++) {
        if (dims[d] == 1 && (mask >> d & 1) != 0) {
            return true;
        }
    }
    return false;
}

static void
test_reductions(void)
{
    static const int64_t dims[][4] = {{3, 5, 7, 4},   {1, 1, 1, 1}, {32, 256, 1, 1},
                                      {2, 300, 2, 3}, {0, 4, 1, 2}, {40, 1, 31, 33},
                                      {3, 2, 0, 2},   {1, 1, 1, 70001}};
    static const ipu_op ops[] = {IPU_OP_ID_SUM, IPU_OP_ID_MEAN, IPU_OP_ID_MAX,
                                 IPU_OP_ID_MIN, IPU_OP_ID_PROD, IPU_OP_ID_ANY,
                                 IPU_OP_ID_ALL};
    for (size_t s = 0; s < sizeof dims / sizeof dims[0]; s++) {
        bool large = dims[s][0] * dims[s][1] * dims[s][2] * dims[s][3] > 10000;
        for (uint32_t mask = 0; mask < 16; mask++) {
            if (large && reduces_one(dims[s], mask)) {
                continue; /* as much work as without that axis, and the same sums */
            }
            int64_t axes[4];
            int64_t kept[4];
            uint32_t axis_count = 0;
            int32_t kept_count = 0;
            for (int32_t d = 0; d < 4; d++) {
                if ((mask >> d & 1) != 0) {
                    axes[axis_count++] = d;
                } else {
                    kept[kept_count++] = dims[s][d];
                }
            }
            for (size_t o = 0; o < sizeof ops / sizeof ops[0]; o++) {
                for (int32_t t = 0; t < IPU_DTYPE_COUNT; t++) {
                    kernel_trial trial = {.op = ops[o], .low = -1.0, .high = 3.0};
                    bool logical =
                        ops[o] == IPU_OP_ID_ANY || ops[o] == IPU_OP_ID_ALL;
                    bool product = ops[o] == IPU_OP_ID_PROD;
                    if (logical != (t == IPU_DTYPE_BOOL)
                        || (product && ipu_dtype_is_float((ipu_dtype)t))) {
                        continue; /* long products of floats overflow on their way */
                    }
                    trial.input_count = 1;
                    trial.output_count = 1;
                    trial.inputs[0] = type_of((ipu_dtype)t, 4, dims[s]);
                    trial.outputs[0] = type_of((ipu_dtype)t, kept_count, kept);
                    trial.attrs[0] = attr_ints(IPU_ATTR_AXES, axis_count, axes);
                    trial.attr_count = 1;
                    trial.tolerance = o > 1                      ? 0.0
                                      : t == IPU_DTYPE_FLOAT16 ? 2e-3
                                                               : 1e-5;
                    check_trial(&trial);
                }
            }
        }
    }
    for (int32_t t = 0; t < IPU_DTYPE_COUNT; t++) {
        for (int64_t axis = 0; axis < 3 && t != IPU_DTYPE_BOOL; axis++) {
            int64_t sizes[3] = {4, 33, 310};
            int64_t left[2] = {sizes[axis == 0], sizes[axis == 2 ? 1 : 2]};
            kernel_trial trial = {.op = IPU_OP_ID_ARGMAX, .low = -1.0, .high = 1.0};
            trial.input_count = 1;
            trial.output_count = 1;
            trial.inputs[0] = type_of((ipu_dtype)t, 3, sizes);
            trial.outputs[0] = type_of(IPU_DTYPE_INT32, 2, left);
            trial.attrs[0] = attr_int(IPU_ATTR_AXIS, axis);
            trial.attr_count = 1;
            check_trial(&trial);
            trial.op = IPU_OP_ID_ARGMIN;
            check_trial(&trial);
        }
    }
}

/* Scans along each axis, and the first of each row. */
static void
test_lines(void)
{
    static const ipu_op ops[] = {IPU_OP_ID_CUMSUM, IPU_OP_ID_CUMPROD,
                                 IPU_OP_ID_RECURRENCE};
    static const int64_t dims[] = {5, 47, 3};
    for (int32_t t = 0; t < IPU_DTYPE_COUNT; t++) {
        ipu_dtype dtype = (ipu_dtype)t;
        for (uint32_t o = 0; o < 3 && dtype != IPU_DTYPE_BOOL; o++) {
            bool recurs = ops[o] == IPU_OP_ID_RECURRENCE;
            for (int64_t axis = 0; axis < 3; axis++) {
                kernel_trial trial = {.op = ops[o], .low = -0.5, .high = 1.0};
                if (recurs && !ipu_dtype_is_float(dtype)) {
                    continue;
                }
                trial.input_count = recurs ? 2 : 1;
                trial.output_count = 1;
                trial.inputs[0] = type_of(dtype, 3, dims);
                trial.inputs[1] = trial.inputs[0];
                trial.outputs[0] = trial.inputs[0];
                trial.attrs[0] = attr_int(IPU_ATTR_AXIS, axis);
                trial.attrs[1] = attr_int(IPU_ATTR_REVERSE, axis == 1);
                trial.attrs[2] = attr_int(IPU_ATTR_EXCLUSIVE, axis > 0);
                trial.attr_count = recurs ? 2 : 3;
                check_trial(&trial);
            }
        }
        for (int64_t depth = 1; depth <= 700 && dtype != IPU_DTYPE_BOOL; depth *= 9) {
            kernel_trial trial = {.op = IPU_OP_ID_TOP_K, .low = -1.0, .high = 1.0};
            trial.input_count = 1;
            trial.output_count = 2;
            trial.inputs[0] = type_of(dtype, DIMS(9, 729));
            trial.outputs[0] = type_of(dtype, DIMS(9, depth));
            trial.outputs[1] = type_of(IPU_DTYPE_INT32, DIMS(9, depth));
            trial.attrs[0] = attr_int(IPU_ATTR_DEPTH, depth);
            trial.attrs[1] = attr_int(IPU_ATTR_ASCENDING, depth == 9);
            trial.attr_count = 2;
            check_trial(&trial);
        }
    }
}

static void
movement_trial(ipu_op op, ipu_dtype dtype, ipu_type in, ipu_type out, ipu_attr *attrs,
               uint32_t attr_count)
{
    kernel_trial trial = {.op = op, .low = -1.0, .high = 1.0};
    trial.input_count = 1;
    trial.output_count = 1;
    trial.inputs[0] = in;
    trial.outputs[0] = out;
    trial.inputs[0].dtype = dtype;
    trial.outputs[0].dtype = dtype;
    memcpy(trial.attrs, attrs, attr_count * sizeof attrs[0]);
    trial.attr_count = attr_count;
    check_trial(&trial);
}

static void
test_movement(void)
{
    static const int64_t perms[][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                       {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    static const ipu_dtype dtypes[] = {IPU_DTYPE_FLOAT32, IPU_DTYPE_FLOAT16,
                                       IPU_DTYPE_UINT8, IPU_DTYPE_INT64};
    static const int64_t sizes[][3] = {{3, 17, 70}, {1, 200, 90}, {0, 2, 3}, {5, 1, 1}};
    for (size_t t = 0; t < sizeof dtypes / sizeof dtypes[0]; t++) {
        ipu_dtype dtype = dtypes[t];
        ipu_attr attrs[3];
        for (size_t s = 0; s < 4; s++) {
            ipu_type in = type_of(dtype, 3, sizes[s]);
            for (size_t p = 0; p < 6; p++) {
                int64_t out[3];
                for (int32_t d = 0; d < 3; d++) {
                    out[d] = sizes[s][perms[p][d]];
                }
                attrs[0] = attr_ints(IPU_ATTR_PERM, 3, perms[p]);
                movement_trial(IPU_OP_ID_TRANSPOSE, dtype, in, type_of(dtype, 3, out),
                               attrs, 1);
            }
        }
        attrs[0] = attr_int(IPU_ATTR_AXIS, 0);
        movement_trial(IPU_OP_ID_BROADCAST, dtype, type_of(dtype, SCALAR),
                       type_of(dtype, DIMS(3, 50000)), attrs, 0);
        movement_trial(IPU_OP_ID_BROADCAST, dtype, type_of(dtype, DIMS(7)),
                       type_of(dtype, DIMS(3, 7)), attrs, 0);
        movement_trial(IPU_OP_ID_BROADCAST, dtype, type_of(dtype, DIMS(3, 1, 5)),
                       type_of(dtype, DIMS(2, 3, 4, 5)), attrs, 0);
        movement_trial(IPU_OP_ID_BROADCAST, dtype, type_of(dtype, DIMS(1)),
                       type_of(dtype, DIMS(0)), attrs, 0);
        int64_t begin[3] = {1, 9, 4};
        int64_t strides[3] = {1, -2, 3};
        attrs[0] = attr_ints(IPU_ATTR_BEGIN, 3, begin);
        attrs[1] = attr_ints(IPU_ATTR_STRIDES, 3, strides);
        movement_trial(IPU_OP_ID_SLICE, dtype, type_of(dtype, DIMS(3, 11, 20)),
                       type_of(dtype, DIMS(2, 5, 5)), attrs, 2);
        movement_trial(IPU_OP_ID_SLICE_GRAD, dtype, type_of(dtype, DIMS(2, 5, 5)),
                       type_of(dtype, DIMS(3, 11, 20)), attrs, 2);
        int64_t rows[2] = {100, 0};
        int64_t ones[2] = {1, 1};
        attrs[0] = attr_ints(IPU_ATTR_BEGIN, 2, rows);
        attrs[1] = attr_ints(IPU_ATTR_STRIDES, 2, ones);
        movement_trial(IPU_OP_ID_SLICE, dtype, type_of(dtype, DIMS(400, 300)),
                       type_of(dtype, DIMS(250, 300)), attrs, 2);
        for (int64_t axis = 0; axis < 3; axis++) {
            kernel_trial trial = {.op = IPU_OP_ID_CONCAT, .low = -1.0, .high = 1.0};
            int64_t total[3] = {4, 5, 6};
            trial.input_count = 3;
            trial.output_count = 1;
            for (uint32_t k = 0; k < 3; k++) {
                int64_t part[3] = {4, 5, 6};
                part[axis] = k == 1 ? 0 : (int64_t)k + 2;
                trial.inputs[k] = type_of(dtype, 3, part);
            }
            total[axis] = 6;
            trial.outputs[0] = type_of(dtype, 3, total);
            trial.attrs[0] = attr_int(IPU_ATTR_AXIS, axis);
            trial.attr_count = 1;
            check_trial(&trial);
        }
    }
}

static void
test_indices(void)
{
    static const ipu_dtype integers[] = {IPU_DTYPE_INT32, IPU_DTYPE_INT64,
                                         IPU_DTYPE_UINT8};
    for (size_t t = 0; t < 3; t++) {
        for (int64_t axis = 0; axis < 3; axis++) {
            int64_t whole[3] = {6, 7, 9};
            int64_t part[4] = {6, 7, 9, 0};
            kernel_trial trial = {.op = IPU_OP_ID_GATHER, .low = -1.0, .high = 1.0};
            int32_t at = 0;
            for (int64_t d = 0; d < 3; d++) {
                if (d == axis) {
                    part[at++] = 4;
                    part[at++] = 5;
                } else {
                    part[at++] = whole[d];
                }
            }
            trial.input_count = 2;
            trial.output_count = 1;
            trial.below = 6;
            trial.inputs[0] = type_of(IPU_DTYPE_FLOAT32, 3, whole);
            trial.inputs[1] = type_of(integers[t], DIMS(4, 5));
            trial.outputs[0] = type_of(IPU_DTYPE_FLOAT32, 4, part);
            trial.attrs[0] = attr_int(IPU_ATTR_AXIS, axis);
            trial.attr_count = 1;
            check_trial(&trial);
            trial.inputs[0].dtype = IPU_DTYPE_UINT8;
            trial.outputs[0].dtype = IPU_DTYPE_UINT8;
            check_trial(&trial);
            trial.op = IPU_OP_ID_GATHER_GRAD;
            trial.inputs[0] = trial.inputs[1];
            trial.inputs[1] = type_of(IPU_DTYPE_FLOAT32, 4, part);
            trial.outputs[0] = type_of(IPU_DTYPE_FLOAT32, 3, whole);
            check_trial(&trial);
            trial.inputs[1].dtype = IPU_DTYPE_FLOAT16;
            trial.outputs[0].dtype = IPU_DTYPE_FLOAT16;
            check_trial(&trial);
        }
        for (int32_t d = 0; d < IPU_DTYPE_COUNT; d++) {
            kernel_trial trial = {.op = IPU_OP_ID_ONE_HOT, .below = 12};
            trial.input_count = 1;
            trial.output_count = 1;
            trial.inputs[0] = type_of(integers[t], DIMS(3, 7));
            trial.outputs[0] = type_of((ipu_dtype)d, DIMS(3, 7, 10));
            trial.attrs[0] = attr_int(IPU_ATTR_AXIS, -1);
            trial.attrs[1] = attr_float(IPU_ATTR_ON_VALUE, 2.0);
            trial.attr_count = 2;
            check_trial(&trial);
            trial.outputs[0] = type_of((ipu_dtype)d, DIMS(3, 10, 7));
            trial.attrs[0] = attr_int(IPU_ATTR_AXIS, 1);
            check_trial(&trial);
        }
    }
}

/* A gradient of rows, added to a variable in an update of two parts. */
static void
test_update_of_rows(void)
{
    static const int64_t widths[] = {0, 1, 7, 100, 1030};
    static const int64_t code[] = {
        1, 1, 1, -1, 2, IPU_OP_ID_ADD, IPU_DTYPE_FLOAT32, 1, 0, -1, /* rows, added */
        1, 1, 1, -3, 2, IPU_OP_ID_MUL, IPU_DTYPE_FLOAT32, 0, 0, -1}; /* squares */
    for (size_t w = 0; w < sizeof widths / sizeof widths[0]; w++) {
        ipu_type table = type_of(IPU_DTYPE_FLOAT32, DIMS(9, widths[w]));
        ipu_type other = type_of(IPU_DTYPE_FLOAT32, DIMS(9, 3));
        kernel_trial trial = {
            .op = IPU_OP_ID_FUSED_UPDATE,
            .input_count = 4,
            .output_count = 2,
            .inputs = {type_of(IPU_DTYPE_INT32, DIMS(20)),
                       type_of(IPU_DTYPE_FLOAT32, DIMS(20, widths[w])),
                       type_of(IPU_DTYPE_INT32, DIMS(2, 2)),
                       type_of(IPU_DTYPE_FLOAT32, DIMS(2, 2, 3))},
            .outputs = {table, other},
            .attrs = {attr_ints(IPU_ATTR_CODE, sizeof code / sizeof code[0], code)},
            .attr_count = 1,
            .low = -1.0,
            .high = 1.0,
            .below = 9,
        };
        check_trial(&trial);
    }
}

/* Points of two axes, all reductions, and rows that update a variable. */
static void
test_slices(void)
{
    /* the long slices are cut into strips; few of them, for they cost the most */
    static const struct {
        int64_t width, slices, points;
    } sizes[] = {{1, 8, 300}, {5, 8, 300}, {2300, 2, 12}};
    for (int32_t t = 0; t < IPU_DTYPE_COUNT; t++) {
        for (size_t s = 0; s < 3 && t != IPU_DTYPE_BOOL; s++) {
            int64_t width = sizes[s].width, slices = sizes[s].slices;
            int64_t count = sizes[s].points;
            ipu_type whole = type_of((ipu_dtype)t, DIMS(slices + 1, slices, width));
            ipu_type part = type_of((ipu_dtype)t, DIMS(count, width));
            ipu_type points = type_of(IPU_DTYPE_INT32, DIMS(count, 2));
            kernel_trial trial = {.op = IPU_OP_ID_TENSOR_SCATTER,
                                  .input_count = 3,
                                  .output_count = 1,
                                  .inputs = {whole, points, part},
                                  .outputs = {whole},
                                  .attr_count = 1,
                                  .low = -1.0,
                                  .high = 1.0,
                                  .below = slices};
            for (int64_t reduction = 0; reduction < IPU_SCATTER_COUNT; reduction++) {
                trial.attrs[0] = attr_int(IPU_ATTR_REDUCTION, reduction);
                check_trial(&trial);
            }
            kernel_trial other = trial;
            other.op = IPU_OP_ID_SCATTER_ND;
            other.input_count = 2;
            other.inputs[0] = points;
            other.inputs[1] = part;
            other.attr_count = 0;
            check_trial(&other);
            other.op = IPU_OP_ID_GATHER_ND;
            other.inputs[0] = whole;
            other.inputs[1] = points;
            other.outputs[0] = part;
            check_trial(&other);
        }
    }
    for (int32_t half = 0; half < 2; half++) {
        ipu_dtype dtype = half ? IPU_DTYPE_FLOAT16 : IPU_DTYPE_FLOAT32;
        ipu_type table = type_of(dtype, DIMS(70, 300));
        for (uint32_t slots = 0; slots < 2; slots++) {
            kernel_trial trial = {.op = IPU_OP_ID_GATHER_SGD_UPDATE,
                                  .input_count = 3,
                                  .output_count = 1 + slots,
                                  .inputs = {type_of(IPU_DTYPE_INT32, DIMS(90)),
                                             type_of(dtype, DIMS(90, 300)),
                                             type_of(IPU_DTYPE_FLOAT32, SCALAR)},
                                  .outputs = {table, table},
                                  .attr_count = 2,
                                  .low = -1.0,
                                  .high = 1.0,
                                  .below = 70};
            trial.attrs[0] = attr_float(IPU_ATTR_MOMENTUM, slots ? 0.5 : 0.0);
            trial.attrs[1] = attr_int(IPU_ATTR_NESTEROV, half);
            check_trial(&trial);
            check_trial(&trial); /* with rates of either sign, as they come */
        }
    }
}

static void
test_table(void)
{
    for (int32_t i = 0; i < IPU_OP_ID_COUNT; i++) {
        const char *name = ipu_op_info_of((ipu_op)i)->name;
        ipu_op op;
        CHECK(ipu_op_parse(name, strlen(name), &op) && (int32_t)op == i);
    }
    ipu_op none;
    CHECK(!ipu_op_parse("ad", 2, &none) && !ipu_op_parse("addd", 4, &none));
}

int
main(void)
{
    trials_begin();
    test_table();
    test_elementwise();
    test_cast();
    test_special_values();
    test_reductions();
    test_lines();
    test_movement();
    test_indices();
    test_update_of_rows();
    test_slices();
    trials_end();
    return CHECK_DONE();
}
