/* SPDX-License-Identifier: MIT
 *
 * Reference kernels of the element-wise ops: for each element of the result, find the
 * operands by broadcasting, apply the op to scalars, store. fused_elementwise runs its
 * micro-program for each element, rounding every step to its dtype, and is therefore
 * equal to the ops one by one. Runs on the calling thread; allocates nothing. */
#include "kernels/core/kernel_impl.h"

ipu_status
ipu__reference_elementwise(const ipu_kernel_call *call)
{
    const ipu_kernel_spec *spec = call->spec;
    const ipu_type *inputs = spec->inputs;
    ipu_dtype out = spec->outputs[0].dtype;
    ipu_dtype in = inputs[spec->op == IPU_OP_ID_SELECT ? 1 : 0].dtype;
    ipu__loop loop;
    ipu__loop_broadcast(&loop, &spec->outputs[0].shape, inputs,
                        (int32_t)spec->input_count);
    for (int64_t i = 0; i < loop.elements; i++) {
        ipu__scalar operands[3] = {{.i = 0}};
        ipu__scalar result = {.i = 0};
        for (int32_t k = 0; k < (int32_t)spec->input_count; k++) {
            operands[k] = ipu__scalar_load(inputs[k].dtype, call->inputs[k],
                                           ipu__loop_offset(&loop, k, i));
        }
        ipu__fault fault = ipu__scalar_apply(spec->op, in, out, operands, &result);
        if (fault != IPU_FAULT_NONE) {
            return ipu__fault_report(call, fault);
        }
        ipu__scalar_store(out, call->outputs[0], i, result);
    }
    return IPU_OK;
}

ipu_status
ipu_reference_fused_elementwise(const ipu_kernel_call *call)
{
    const ipu_kernel_spec *spec = call->spec;
    int32_t inputs = (int32_t)spec->input_count;
    uint32_t words;
    const int64_t *code = ipu_attrs_ints(spec->attrs, IPU_ATTR_CODE, &words);
    int32_t count = (int32_t)(words / IPU_FUSED_WORDS);
    ipu__scalar values[IPU_FUSED_MAX_INPUTS + IPU_FUSED_MAX_INSTRUCTIONS];
    ipu_dtype dtypes[IPU_FUSED_MAX_INPUTS + IPU_FUSED_MAX_INSTRUCTIONS];
    ipu__loop loop;
    IPU_FAIL_IF(call->ctx,
                count < 1 || count > IPU_FUSED_MAX_INSTRUCTIONS
                    || inputs > IPU_FUSED_MAX_INPUTS,
                INTERNAL, "fused_elementwise with %d instructions and %d inputs",
                (int)count, (int)inputs);
    ipu__loop_broadcast(&loop, &spec->outputs[0].shape, spec->inputs, inputs);
    for (int64_t i = 0; i < loop.elements; i++) {
        for (int32_t k = 0; k < inputs; k++) {
            dtypes[k] = spec->inputs[k].dtype;
            values[k] = ipu__scalar_load(dtypes[k], call->inputs[k],
                                         ipu__loop_offset(&loop, k, i));
        }
        for (int32_t j = 0; j < count; j++) {
            const int64_t *word = code + j * IPU_FUSED_WORDS;
            ipu_op op = (ipu_op)word[0];
            ipu_dtype out = (ipu_dtype)word[1];
            ipu_dtype in = dtypes[word[op == IPU_OP_ID_SELECT ? 3 : 2]];
            ipu__scalar operands[3] = {{.i = 0}};
            for (int32_t k = 0; k < 3; k++) {
                if (word[2 + k] >= 0) {
                    operands[k] = values[word[2 + k]];
                }
            }
            ipu__fault fault =
                ipu__scalar_apply(op, in, out, operands, &values[inputs + j]);
            if (fault != IPU_FAULT_NONE) {
                return ipu__fault_report(call, fault);
            }
            dtypes[inputs + j] = out;
        }
        ipu__scalar_store(spec->outputs[0].dtype, call->outputs[0], i,
                          values[inputs + count - 1]);
    }
    return IPU_OK;
}
