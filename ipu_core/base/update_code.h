/* SPDX-License-Identifier: MIT
 *
 * Attribute `code` of fused_update: what is written into many variables in one pass.
 * The code is a list of parts, each over the elements of one shape:
 *
 *     inputs, variables, instructions   how many of each
 *     inputs x index                    inputs of the node; of the part's shape, or of
 *                                       one element. -1 - i: what gather_grad makes of
 *                                       inputs i, indices, and i + 1, along the first
 *                                       axis of the part's shape
 *     variables x operand               what each of them is given
 *     instructions x IPU_FUSED_WORDS    as in fused_elementwise
 *
 * An operand below `inputs` is that input of the part; then come the values that its
 * variables have before the update, then the results of its instructions. The variables
 * of all parts follow each other as the node's resources do. The new value of a
 * variable is an input or a result. No instruction may fail, since variables would be
 * left half written. */
#ifndef IPU_BASE_UPDATE_CODE_H
#define IPU_BASE_UPDATE_CODE_H

#include "base/ctx.h"
#include "base/op.h"

enum {
    IPU_UPDATE_MAX_INPUTS = 16,
    IPU_UPDATE_MAX_VARIABLES = 8,
    IPU_UPDATE_MAX_INSTRUCTIONS = 48,
    IPU_UPDATE_MAX_OPERANDS =
        IPU_UPDATE_MAX_INPUTS + IPU_UPDATE_MAX_VARIABLES + IPU_UPDATE_MAX_INSTRUCTIONS
};

typedef struct ipu_update_part {
    uint32_t first_variable; /* among the resources of the node */
    uint32_t inputs;
    uint32_t variables;
    uint32_t instructions;
    const int64_t *input;  /* which of the node's */
    const int64_t *stored; /* operands */
    const int64_t *code;
} ipu_update_part;

/* Whether input k of a part is the gradient of a gather. */
static inline bool
ipu_update_is_rows(const ipu_update_part *part, uint32_t k)
{
    return part->input[k] < 0;
}

/* Which of the node's inputs holds the elements of input k. The indices of a gather
 * stand in front of it. */
static inline uint32_t
ipu_update_elements(const ipu_update_part *part, uint32_t k)
{
    return (uint32_t)(part->input[k] < 0 ? -part->input[k] : part->input[k]);
}

/* The part after `part`, which starts as {0}; false after the last one. Only of code
 * that was checked. */
bool ipu_update_next(const int64_t *words, uint32_t count, ipu_update_part *part);
/* Whether the code fits inputs and variables of these types. */
ipu_status ipu_update_check(ipu_ctx *ctx, const int64_t *words, uint32_t count,
                            const ipu_type *inputs, uint32_t input_count,
                            const ipu_type *variables, uint32_t variable_count);

#endif
