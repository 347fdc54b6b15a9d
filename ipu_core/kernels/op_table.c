/* SPDX-License-Identifier: MIT
 *
 * The op table as data: name, arity and flags of each row of ops.def, by id and by
 * text. Nothing here is computed; the preprocessor makes the rows, so that the table
 * cannot drift from the enum. Parsing is a linear search: it serves the text form and
 * the door of Python's `apply`, which caches what it found. Constant data, any
 * thread. */
#include <string.h>

#include "kernels/kernel.h"

static const ipu_op_info infos[IPU_OP_ID_COUNT] = {
#define IPU_OP(id, text, fewest, most, outs, bits) \
    [IPU_OP_ID_##id] = {.name = #text, \
                        .min_inputs = (fewest), \
                        .max_inputs = (most), \
                        .outputs = (outs), \
                        .flags = (uint32_t)(bits)},
#include "ops.def"
#undef IPU_OP
};

const ipu_op_info *
ipu_op_info_of(ipu_op op)
{
    return &infos[op];
}

bool
ipu_op_parse(const char *text, size_t length, ipu_op *out)
{
    for (int32_t i = 0; i < IPU_OP_ID_COUNT; i++) {
        if (strlen(infos[i].name) == length
            && memcmp(infos[i].name, text, length) == 0) {
            *out = (ipu_op)i;
            return true;
        }
    }
    return false;
}
