/* SPDX-License-Identifier: MIT
 *
 * The rows of the block ops. An op flagged BLOCK without a row is an undefined symbol. */
#include "graph/block_op.h"

const ipu_block_op ipu_block_op_repeat = {IPU_BLOCK_RUNS_MANY, 1, false};
const ipu_block_op ipu_block_op_pipeline = {IPU_BLOCK_RUNS_MANY, 1, false};
const ipu_block_op ipu_block_op_while = {IPU_BLOCK_RUNS_MANY, 0, true};
const ipu_block_op ipu_block_op_switch = {IPU_BLOCK_RUNS_ONE_OF, 1, false};

#define IPU_OP(NAME, text, min_in, max_in, outputs, dtypes, shape, cost, flags) \
    [IPU_OP_ID_##NAME] = ((flags)&IPU_OP_BLOCK) != 0 ? &ipu_block_op_##text : NULL,
static const ipu_block_op *const rows[IPU_OP_ID_COUNT] = {
#include "ops.def"
};
#undef IPU_OP

const ipu_block_op *
ipu_block_op_of(ipu_op op)
{
    return rows[op];
}
