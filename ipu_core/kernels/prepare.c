/* SPDX-License-Identifier: MIT
 *
 * From a spec to the function that runs it. The two columns of this room are expanded
 * here from ops.def: `ipu_reference_<text>` and `ipu_choose_<text>` of every row
 * flagged KERNEL; one that is missing is a link error with the op's name in it. The
 * dtypes are checked here once, so that kernels need not. Constant tables, any
 * thread. */
#include "kernels/kernel_impl.h"

typedef struct kernel_row {
    ipu_kernel_fn *reference;
    ipu_choose_fn *choose;
} kernel_row;

/* A row without KERNEL folds to NULL and leaves no reference to its names. */
static const kernel_row rows[IPU_OP_ID_COUNT] = {
#define IPU_OP(id, text, fewest, most, outs, bits) \
    [IPU_OP_ID_##id] = {((bits) & IPU_OP_KERNEL) != 0 ? ipu_reference_##text : NULL, \
                        ((bits) & IPU_OP_KERNEL) != 0 ? ipu_choose_##text : NULL},
#include "ops.def"
#undef IPU_OP
};

static bool
is_integer(ipu_dtype dtype)
{
    return ipu_dtype_kind(dtype) == 'i' || ipu_dtype_kind(dtype) == 'u';
}

static bool
is_numeric(ipu_dtype dtype)
{
    return ipu_dtype_kind(dtype) != 'b';
}

static bool
same_types(const ipu_kernel_spec *spec, ipu_dtype dtype)
{
    for (uint32_t i = 0; i < spec->input_count; i++) {
        if (spec->inputs[i].dtype != dtype) {
            return false;
        }
    }
    for (uint32_t i = 0; i < spec->output_count; i++) {
        if (spec->outputs[i].dtype != dtype) {
            return false;
        }
    }
    return true;
}

/* A float variable and its slots, a gradient of that dtype, a float learning rate. */
static bool
optimizer_types(const ipu_kernel_spec *spec, uint32_t most_outputs, uint32_t rate)
{
    ipu_dtype dtype = spec->outputs[0].dtype;
    for (uint32_t i = 1; i < spec->output_count; i++) {
        if (spec->outputs[i].dtype != dtype) {
            return false;
        }
    }
    return ipu_dtype_is_float(dtype) && spec->output_count <= most_outputs
           && spec->inputs[0].dtype == dtype
           && ipu_dtype_is_float(spec->inputs[rate].dtype);
}

static bool
types_served(const ipu_kernel_spec *spec)
{
    ipu_dtype in = spec->input_count > 0 ? spec->inputs[0].dtype : IPU_DTYPE_FLOAT32;
    ipu_dtype in1 = spec->input_count > 1 ? spec->inputs[1].dtype : in;
    ipu_dtype out = spec->output_count > 0 ? spec->outputs[0].dtype : in;
    switch (spec->op) {
    case IPU_OP_ID_RECIPROCAL:
    case IPU_OP_ID_LOG1P:
    case IPU_OP_ID_EXPM1:
    case IPU_OP_ID_SIN:
    case IPU_OP_ID_COS:
    case IPU_OP_ID_TAN:
    case IPU_OP_ID_ASIN:
    case IPU_OP_ID_ACOS:
    case IPU_OP_ID_ATAN:
    case IPU_OP_ID_SINH:
    case IPU_OP_ID_COSH:
    case IPU_OP_ID_ASINH:
    case IPU_OP_ID_ACOSH:
    case IPU_OP_ID_ATANH:
    case IPU_OP_ID_ERF:
    case IPU_OP_ID_ERFC:
    case IPU_OP_ID_SOFTPLUS:
    case IPU_OP_ID_LGAMMA:
    case IPU_OP_ID_DIGAMMA:
    case IPU_OP_ID_ERFINV:
    case IPU_OP_ID_CEIL:
    case IPU_OP_ID_TRUNC:
    case IPU_OP_ID_ATAN2:
    case IPU_OP_ID_EXP:
    case IPU_OP_ID_LOG:
    case IPU_OP_ID_SQRT:
    case IPU_OP_ID_RSQRT:
    case IPU_OP_ID_TANH:
    case IPU_OP_ID_SIGMOID:
    case IPU_OP_ID_TANH_GRAD:
    case IPU_OP_ID_SIGMOID_GRAD:
    case IPU_OP_ID_SOFTMAX:
    case IPU_OP_ID_LOG_SOFTMAX:
    case IPU_OP_ID_CROSS_ENTROPY:
        return ipu_dtype_is_float(in) && same_types(spec, in);
    case IPU_OP_ID_ROUND:
    case IPU_OP_ID_PROD:
    case IPU_OP_ID_CUMSUM:
    case IPU_OP_ID_CUMPROD:
    case IPU_OP_ID_NEG:
    case IPU_OP_ID_ABS:
    case IPU_OP_ID_SIGN:
    case IPU_OP_ID_FLOOR:
    case IPU_OP_ID_SQUARE:
    case IPU_OP_ID_RELU:
    case IPU_OP_ID_RELU_GRAD:
    case IPU_OP_ID_ADD:
    case IPU_OP_ID_SUB:
    case IPU_OP_ID_MUL:
    case IPU_OP_ID_DIV:
    case IPU_OP_ID_FLOOR_DIV:
    case IPU_OP_ID_FLOOR_MOD:
    case IPU_OP_ID_POW:
    case IPU_OP_ID_MATMUL:
    case IPU_OP_ID_FUSED_MATMUL:
    case IPU_OP_ID_SUM:
    case IPU_OP_ID_MEAN:
    case IPU_OP_ID_VARIABLE_ADD:
        return is_numeric(in) && same_types(spec, in);
    case IPU_OP_ID_MAXIMUM:
    case IPU_OP_ID_MINIMUM:
    case IPU_OP_ID_MAX:
    case IPU_OP_ID_MIN:
    case IPU_OP_ID_TRANSPOSE:
    case IPU_OP_ID_BROADCAST:
    case IPU_OP_ID_CONCAT:
    case IPU_OP_ID_SLICE:
    case IPU_OP_ID_SLICE_GRAD:
    case IPU_OP_ID_VARIABLE_ASSIGN:
        return same_types(spec, in);
    case IPU_OP_ID_BITWISE_NOT:
    case IPU_OP_ID_BITWISE_AND:
    case IPU_OP_ID_BITWISE_OR:
    case IPU_OP_ID_BITWISE_XOR:
    case IPU_OP_ID_LEFT_SHIFT:
    case IPU_OP_ID_RIGHT_SHIFT:
        return is_integer(in) && same_types(spec, in);
    case IPU_OP_ID_IS_NAN:
    case IPU_OP_ID_IS_INF:
    case IPU_OP_ID_IS_FINITE:
        return ipu_dtype_is_float(in) && out == IPU_DTYPE_BOOL;
    case IPU_OP_ID_EQUAL:
    case IPU_OP_ID_NOT_EQUAL:
    case IPU_OP_ID_LESS:
    case IPU_OP_ID_LESS_EQUAL:
    case IPU_OP_ID_GREATER:
    case IPU_OP_ID_GREATER_EQUAL:
        return in == in1 && out == IPU_DTYPE_BOOL;
    case IPU_OP_ID_ANY:
    case IPU_OP_ID_ALL:
    case IPU_OP_ID_LOGICAL_NOT:
    case IPU_OP_ID_LOGICAL_AND:
    case IPU_OP_ID_LOGICAL_OR:
        return in == IPU_DTYPE_BOOL && same_types(spec, in);
    case IPU_OP_ID_SELECT:
        return in == IPU_DTYPE_BOOL && in1 == out && spec->inputs[2].dtype == out;
    case IPU_OP_ID_ARGMIN:
    case IPU_OP_ID_ARGMAX:
        return out == IPU_DTYPE_INT32 || out == IPU_DTYPE_INT64;
    case IPU_OP_ID_DYNAMIC_SLICE:
        return in == out && is_integer(in1);
    case IPU_OP_ID_DYNAMIC_UPDATE_SLICE:
        return in == out && in1 == out && is_integer(spec->inputs[2].dtype);
    case IPU_OP_ID_DYNAMIC_ADD_SLICE:
        return in == out && in1 == out && is_integer(spec->inputs[2].dtype) &&
               is_numeric(out);
    case IPU_OP_ID_TOP_K:
        return is_numeric(in) && out == in
               && spec->outputs[1].dtype == IPU_DTYPE_INT32;
    case IPU_OP_ID_CHOLESKY:
    case IPU_OP_ID_TRIANGULAR_SOLVE:
    case IPU_OP_ID_SOLVE:
    case IPU_OP_ID_DET:
    case IPU_OP_ID_SLOGDET:
        return ipu_dtype_is_float(in) && in != IPU_DTYPE_FLOAT16
               && same_types(spec, in);
    case IPU_OP_ID_GATHER_ND:
    case IPU_OP_ID_GATHER:
        return in == out && is_integer(in1);
    case IPU_OP_ID_SCATTER_ND:
    case IPU_OP_ID_GATHER_GRAD:
        return is_integer(in) && in1 == out && is_numeric(out);
    case IPU_OP_ID_TENSOR_SCATTER:
        return in == out && is_integer(in1) && spec->inputs[2].dtype == in;
    case IPU_OP_ID_ONE_HOT:
        return is_integer(in);
    case IPU_OP_ID_SPARSE_CROSS_ENTROPY:
        return ipu_dtype_is_float(in) && is_integer(in1) && out == in
               && spec->outputs[1].dtype == in;
    case IPU_OP_ID_RANDOM_UNIFORM:
    case IPU_OP_ID_RANDOM_NORMAL:
    case IPU_OP_ID_TRUNCATED_NORMAL:
        return ipu_dtype_is_float(out);
    case IPU_OP_ID_RANDOM_INTEGER:
        return is_integer(out) && in == out && in1 == out;
    case IPU_OP_ID_DROPOUT:
        return ipu_dtype_is_float(in) && out == in
               && spec->outputs[1].dtype == IPU_DTYPE_BOOL;
    case IPU_OP_ID_SGD_UPDATE:
        return optimizer_types(spec, 2, 1);
    case IPU_OP_ID_MATMUL_SGD_UPDATE:
        return in == in1 && in == out && optimizer_types(spec, 2, 2);
    case IPU_OP_ID_ADAM_UPDATE:
        return optimizer_types(spec, 3, 1) && spec->output_count == 3
               && is_integer(spec->inputs[2].dtype);
    default:
        return true; /* CAST and FUSED_ELEMENTWISE take any type */
    }
}

/* Every instruction of a micro-program must be an element-wise op that takes the dtypes
 * of its operands, all of which come before it. */
static ipu_status
check_fused(ipu_ctx *ctx, const ipu_kernel_spec *spec)
{
    ipu_type types[IPU_FUSED_MAX_INPUTS + IPU_FUSED_MAX_INSTRUCTIONS];
    uint32_t words;
    const int64_t *code = ipu_attrs_ints(spec->attrs, IPU_ATTR_CODE, &words);
    uint32_t steps = words / IPU_FUSED_WORDS;
    IPU_FAIL_IF(ctx,
                words % IPU_FUSED_WORDS != 0 || steps < 1
                    || steps > IPU_FUSED_MAX_INSTRUCTIONS
                    || spec->input_count > IPU_FUSED_MAX_INPUTS,
                INTERNAL, "fused_elementwise: %u words of code and %u inputs",
                (unsigned)words, (unsigned)spec->input_count);
    for (uint32_t k = 0; k < spec->input_count; k++) {
        types[k] = spec->inputs[k];
    }
    for (uint32_t s = 0; s < steps; s++) {
        const int64_t *word = code + s * IPU_FUSED_WORDS;
        bool known = word[0] >= 0 && word[0] < IPU_OP_ID_FUSED_ELEMENTWISE
                     && word[1] >= 0 && word[1] < IPU_DTYPE_COUNT;
        ipu_type inputs[3];
        ipu_type *result = &types[spec->input_count + s];
        ipu_kernel_spec step = {.outputs = result, .inputs = inputs, .output_count = 1};
        if (known) {
            step.op = (ipu_op)word[0];
            step.input_count = (uint32_t)ipu_op_info_of(step.op)->min_inputs;
            *result = (ipu_type){(ipu_dtype)word[1], spec->outputs[0].shape};
        }
        for (uint32_t k = 0; known && k < 3; k++) {
            known = word[2 + k] < (int64_t)spec->input_count + s
                    && (k < step.input_count) == (word[2 + k] >= 0);
            if (known && k < step.input_count) {
                inputs[k] = types[word[2 + k]];
            }
        }
        IPU_FAIL_IF(ctx, !known || !types_served(&step), INTERNAL,
                    "fused_elementwise: instruction %u is not valid", (unsigned)s);
    }
    ipu_dtype last = types[spec->input_count + steps - 1].dtype;
    IPU_FAIL_IF(ctx, last != spec->outputs[0].dtype, INTERNAL,
                "fused_elementwise: the last instruction gives %s, not %s",
                ipu_dtype_name(last), ipu_dtype_name(spec->outputs[0].dtype));
    return IPU_OK;
}

ipu_status
ipu_kernel_prepare(ipu_ctx *ctx, ipu_kernel_spec *spec, ipu_kernel_variant variant,
                   ipu_cpu_class cpu)
{
    IPU_FAIL_IF(ctx, (uint32_t)spec->op >= IPU_OP_ID_COUNT, INTERNAL,
                "kernel spec with op number %d", (int)spec->op);
    const ipu_op_info *info = ipu_op_info_of(spec->op);
    const kernel_row *row = &rows[spec->op];
    IPU_FAIL_IF(ctx, row->reference == NULL, UNIMPLEMENTED, "%s has no kernel",
                info->name);
    IPU_FAIL_IF(ctx, spec->input_count < (uint32_t)info->min_inputs
                    || (info->max_inputs >= 0
                        && spec->input_count > (uint32_t)info->max_inputs)
                    || spec->input_count > INT32_MAX
                    || (info->outputs > 0 && spec->output_count < 1)
                    || ((info->flags & IPU_OP_WRITES) != 0 && spec->output_count < 1),
                INTERNAL, "%s: a kernel spec with %u inputs and %u outputs", info->name,
                (unsigned)spec->input_count, (unsigned)spec->output_count);
    IPU_FAIL_IF(ctx, info->outputs > 0 && spec->output_count != (uint32_t)info->outputs,
                INTERNAL, "%s: %u outputs instead of %d", info->name,
                (unsigned)spec->output_count, (int)info->outputs);
    if (!types_served(spec)) {
        char first[96];
        char result[96];
        IPU_FAIL(ctx, UNIMPLEMENTED, "%s has no kernel for %s -> %s", info->name,
                 spec->input_count > 0
                     ? ipu_type_print(&spec->inputs[0], first, sizeof first)
                     : "()",
                 spec->output_count > 0
                     ? ipu_type_print(&spec->outputs[0], result, sizeof result)
                     : "()");
    }
    if (spec->op == IPU_OP_ID_FUSED_ELEMENTWISE) {
        IPU_TRY(check_fused(ctx, spec));
    }
    spec->run = NULL;
    spec->kernel_name = "reference";
    spec->workspace_bytes = ipu__reference_workspace(spec);
    for (size_t i = 0; i < sizeof spec->choice / sizeof spec->choice[0]; i++) {
        spec->choice[i] = 0;
    }
    if (variant == IPU_KERNEL_FAST) {
        IPU_TRY(row->choose(ctx, spec, cpu));
    }
    if (spec->run == NULL) {
        spec->run = row->reference;
    }
    return IPU_OK;
}
