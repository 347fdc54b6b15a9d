/* SPDX-License-Identifier: MIT
 *
 * Reading and checking the code of fused_update. Pure functions, any thread. */
#include "base/update_code.h"

enum { HEAD_WORDS = 3 };

static const int64_t *
end_of(const ipu_update_part *part)
{
    return part->code + (size_t)part->instructions * IPU_FUSED_WORDS;
}

bool
ipu_update_next(const int64_t *words, uint32_t count, ipu_update_part *part)
{
    const int64_t *at = part->code == NULL ? words : end_of(part);
    if (at >= words + count) {
        return false;
    }
    part->first_variable += part->variables;
    part->inputs = (uint32_t)at[0];
    part->variables = (uint32_t)at[1];
    part->instructions = (uint32_t)at[2];
    part->input = at + HEAD_WORDS;
    part->stored = part->input + part->inputs;
    part->code = part->stored + part->variables;
    return true;
}

typedef struct checker {
    const ipu_type *inputs;
    const ipu_type *variables;
    uint32_t input_count;
    uint32_t variable_count;
} checker;

/* Whether the numbers in front of a part are in range and it ends where the code does
 * or before. */
static bool
has_room(const int64_t *words, uint32_t left)
{
    return left >= HEAD_WORDS && words[0] >= 0 && words[0] <= IPU_UPDATE_MAX_INPUTS &&
           words[1] > 0 && words[1] <= IPU_UPDATE_MAX_VARIABLES && words[2] >= 0 &&
           words[2] <= IPU_UPDATE_MAX_INSTRUCTIONS &&
           HEAD_WORDS + words[0] + words[1] + words[2] * IPU_FUSED_WORDS <=
               (int64_t)left;
}

/* Whether `rows` are what indices take out of `shape` along its first axis. */
static bool
are_rows(const ipu_type *indices, const ipu_type *rows, const ipu_shape *shape)
{
    ipu_shape wanted = indices->shape;
    bool good = shape->rank > 0 && wanted.rank + shape->rank - 1 <= IPU_MAX_RANK &&
                !ipu_dtype_is_float(indices->dtype) &&
                indices->dtype != IPU_DTYPE_BOOL;
    for (int32_t i = 1; good && i < shape->rank; i++) {
        wanted.dims[wanted.rank++] = shape->dims[i];
    }
    return good && ipu_shape_equal(&wanted, &rows->shape);
}

/* The operands' types, those of inputs and variables first. */
static bool
check_operands(const checker *c, const ipu_update_part *part, ipu_type *types)
{
    if (part->first_variable + part->variables > c->variable_count) {
        return false;
    }
    const ipu_shape *shape = &c->variables[part->first_variable].shape;
    for (uint32_t k = 0; k < part->inputs; k++) {
        if (part->input[k] <= -(int64_t)c->input_count ||
            part->input[k] >= (int64_t)c->input_count) {
            return false;
        }
        const ipu_type *elements = &c->inputs[ipu_update_elements(part, k)];
        types[k] = *elements;
        if (ipu_update_is_rows(part, k)) {
            types[k].shape = *shape;
            if (!are_rows(elements - 1, elements, shape)) {
                return false;
            }
        }
        if (!ipu_shape_equal(&types[k].shape, shape) &&
            ipu_shape_elements(&types[k].shape) != 1) {
            return false;
        }
    }
    for (uint32_t k = 0; k < part->variables; k++) {
        types[part->inputs + k] = c->variables[part->first_variable + k];
        if (!ipu_shape_equal(&types[part->inputs + k].shape, shape)) {
            return false;
        }
    }
    return true;
}

static bool
check_instruction(const ipu_update_part *part, uint32_t s, ipu_type *types)
{
    const int64_t *word = part->code + (size_t)s * IPU_FUSED_WORDS;
    uint32_t before = part->inputs + part->variables + s;
    ipu_type inputs[3];
    if (word[0] < 0 || word[0] >= IPU_OP_ID_COUNT || word[1] < 0 ||
        word[1] >= IPU_DTYPE_COUNT) {
        return false;
    }
    const ipu_op_info *info = ipu_op_info_of((ipu_op)word[0]);
    if ((info->flags & IPU_OP_ELEMENTWISE) == 0 ||
        word[0] == IPU_OP_ID_FUSED_ELEMENTWISE ||
        ipu_op_divides_integers((ipu_op)word[0], (ipu_dtype)word[1])) {
        return false;
    }
    for (int32_t k = 0; k < 3; k++) {
        bool is_used = k < info->min_inputs;
        if (is_used != (word[2 + k] >= 0) || word[2 + k] >= (int64_t)before) {
            return false;
        }
        if (is_used) {
            inputs[k] = types[word[2 + k]];
        }
    }
    types[before] = (ipu_type){(ipu_dtype)word[1], types[part->inputs].shape};
    return ipu_op_allows((ipu_op)word[0], inputs, (uint32_t)info->min_inputs,
                         &types[before], 1);
}

static bool
check_part(const checker *c, const ipu_update_part *part)
{
    ipu_type types[IPU_UPDATE_MAX_OPERANDS];
    uint32_t olds = part->inputs;
    uint32_t results = part->inputs + part->variables;
    bool good = check_operands(c, part, types);
    for (uint32_t s = 0; good && s < part->instructions; s++) {
        good = check_instruction(part, s, types);
    }
    for (uint32_t k = 0; good && k < part->variables; k++) {
        int64_t stored = part->stored[k];
        good = stored >= 0 && stored < (int64_t)(results + part->instructions) &&
               (stored < (int64_t)olds || stored >= (int64_t)results) &&
               types[stored].dtype == types[olds + k].dtype;
    }
    return good;
}

ipu_status
ipu_update_check(ipu_ctx *ctx, const int64_t *words, uint32_t count,
                 const ipu_type *inputs, uint32_t input_count,
                 const ipu_type *variables, uint32_t variable_count)
{
    checker c = {inputs, variables, input_count, variable_count};
    ipu_update_part part = {0};
    uint32_t number = 0;
    uint32_t written = 0;
    for (const int64_t *at = words; at < words + count; at = end_of(&part)) {
        IPU_FAIL_IF(ctx,
                    !has_room(at, (uint32_t)(words + count - at)) ||
                        !ipu_update_next(words, count, &part) || !check_part(&c, &part),
                    INVALID_ARGUMENT, "fused_update: part %u of the code is not valid",
                    number);
        number++;
        written += part.variables;
    }
    IPU_FAIL_IF(ctx, written != variable_count, INVALID_ARGUMENT,
                "fused_update: the code writes %u of %u variables", written,
                variable_count);
    return IPU_OK;
}
