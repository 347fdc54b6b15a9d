/* SPDX-License-Identifier: MIT
 *
 * From a spec to the function that runs it. The two columns of this room are expanded
 * here from ops.def: `ipu_reference_<text>` and `ipu_choose_<text>` of every row
 * flagged KERNEL, or what entries.h has in their place; one that is missing is an
 * undefined symbol with the op's name in it.
 * The dtypes are checked here once, so that kernels need not. Constant tables, any
 * thread. */
#include "base/update_code.h"
#include "kernels/core/kernel_impl.h"

#include "kernels/core/entries.h"

typedef struct kernel_row {
    ipu_kernel_fn *reference; /* NULL: `choose` serves all that the op takes */
    ipu_choose_fn *choose;    /* NULL: there is nothing but the reference kernel */
} kernel_row;

/* A row without KERNEL folds to NULL and leaves no reference to its names. */
static const kernel_row rows[IPU_OP_ID_COUNT] = {
#define IPU_OP(id, text, fewest, most, outs, dtypes, shape, cost, bits) \
    [IPU_OP_ID_##id] = { \
        ((bits) & IPU_OP_KERNEL) == 0 ? NULL \
        : IPU_OP_ENTRY(most, bits, ipu__reference_elementwise, ipu_reference_##text), \
        ((bits) & IPU_OP_KERNEL) == 0 ? NULL \
        : IPU_OP_ENTRY(most, bits, ipu__choose_elementwise, ipu_choose_##text)},
#include "ops.def"
#undef IPU_OP
};

static size_t
reference_workspace(const ipu_kernel_spec *spec)
{
    switch (spec->op) {
    case IPU_OP_ID_CHOLESKY:
    case IPU_OP_ID_TRIANGULAR_SOLVE:
    case IPU_OP_ID_SOLVE:
    case IPU_OP_ID_DET:
    case IPU_OP_ID_SLOGDET:
    case IPU_OP_ID_QR:
    case IPU_OP_ID_EIGH:
    case IPU_OP_ID_SVD:
    case IPU_OP_ID_LU:
        return ipu__linear_workspace(spec);
    case IPU_OP_ID_LSTM_GRAD:
    case IPU_OP_ID_GRU_GRAD:
        return ipu__sequence_reference_bytes(spec);
    case IPU_OP_ID_ATTENTION:
    case IPU_OP_ID_ATTENTION_GRAD:
        return ipu__attention_reference_bytes(spec);
    default:
        return 0;
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
        known = known && ipu_op_allows(step.op, inputs, step.input_count, result, 1);
        IPU_FAIL_IF(ctx, !known, INTERNAL,
                    "fused_elementwise: instruction %u is not valid", (unsigned)s);
    }
    ipu_dtype last = types[spec->input_count + steps - 1].dtype;
    IPU_FAIL_IF(ctx, last != spec->outputs[0].dtype, INTERNAL,
                "fused_elementwise: the last instruction gives %s, not %s",
                ipu_dtype_name(last), ipu_dtype_name(spec->outputs[0].dtype));
    return IPU_OK;
}

/* Whether the results of float32 are those of float16 but for their rounding. */
static bool
can_be_widened(const ipu_kernel_spec *spec)
{
    const uint32_t others =
        IPU_OP_ELEMENTWISE | IPU_OP_WRITES | IPU_OP_RANDOM | IPU_OP_COLLECTIVE;
    bool has_halves = spec->input_count > 0 &&
                      spec->inputs[0].dtype == IPU_DTYPE_FLOAT16;
    return has_halves && (ipu_op_info_of(spec->op)->flags & others) == 0;
}

ipu_status
ipu_kernel_prepare(ipu_ctx *ctx, ipu_arena *arena, ipu_kernel_spec *spec,
                   ipu_kernel_variant variant, ipu_cpu_class cpu)
{
    IPU_FAIL_IF(ctx, (uint32_t)spec->op >= IPU_OP_ID_COUNT, INTERNAL,
                "kernel spec with op number %d", (int)spec->op);
    const ipu_op_info *info = ipu_op_info_of(spec->op);
    const kernel_row *row = &rows[spec->op];
    IPU_FAIL_IF(ctx, row->reference == NULL && row->choose == NULL, UNIMPLEMENTED,
                "%s has no kernel", info->name);
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
    if (!ipu_op_allows(spec->op, spec->inputs, spec->input_count, spec->outputs,
                       spec->output_count)) {
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
    if (spec->op == IPU_OP_ID_FUSED_UPDATE) {
        uint32_t words;
        const int64_t *code = ipu_attrs_ints(spec->attrs, IPU_ATTR_CODE, &words);
        IPU_TRY(ipu_update_check(ctx, code, words, spec->inputs, spec->input_count,
                                 spec->outputs, spec->output_count));
    }
    spec->run = NULL;
    spec->kernel_name = "reference";
    spec->workspace_bytes = reference_workspace(spec);
    spec->rows = (ipu_kernel_rows){0};
    spec->prepared = NULL;
    spec->can_fail = ipu_op_can_fail(
        spec->op, spec->attrs, spec->input_count > 0 ? &spec->inputs[0] : NULL,
        spec->output_count > 0 ? &spec->outputs[0] : NULL);
    if (row->reference == NULL ||
        (variant != IPU_KERNEL_REFERENCE && row->choose != NULL)) {
        ipu__preparation preparation = {
            ctx, arena, spec, cpu,
            variant == IPU_KERNEL_REFERENCE ? IPU_KERNEL_FAST : variant};
        IPU_TRY(row->choose(&preparation));
    }
    bool is_wanted = variant != IPU_KERNEL_REFERENCE && row->reference != NULL;
    if (spec->run == NULL && is_wanted && can_be_widened(spec)) {
        ipu__preparation preparation = {ctx, arena, spec, cpu, variant};
        IPU_TRY(ipu__choose_widened(&preparation));
    }
    if (spec->run == NULL) {
        spec->run = row->reference;
    }
    IPU_FAIL_IF(ctx, spec->run == NULL, UNIMPLEMENTED,
                "%s has no kernel for these operands", info->name);
    return IPU_OK;
}
