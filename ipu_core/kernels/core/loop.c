/* SPDX-License-Identifier: MIT
 *
 * Nested loops over several operands. Shapes come in, loops with as few levels as the
 * operands allow go out: (32, 256) + (256,) is two loops, (32, 256) + (32, 256) is one
 * of 8192. Plain values on the caller's stack, any thread. */
#include "kernels/core/kernel_impl.h"

void
ipu__loop_collapse(ipu__loop *loop)
{
    int32_t kept = 0;
    for (int32_t axis = 0; axis < loop->rank; axis++) {
        int64_t size = loop->dims[axis];
        if (size == 1) {
            continue;
        }
        bool joins = kept > 0;
        for (int32_t k = 0; k < loop->operands && joins; k++) {
            joins = loop->strides[k][kept - 1] == loop->strides[k][axis] * size;
        }
        int32_t target = joins ? kept - 1 : kept++;
        loop->dims[target] = joins ? loop->dims[target] * size : size;
        for (int32_t k = 0; k < loop->operands; k++) {
            loop->strides[k][target] = loop->strides[k][axis];
        }
    }
    if (kept == 0) {
        loop->dims[0] = 1;
        for (int32_t k = 0; k < loop->operands; k++) {
            loop->strides[k][0] = 0;
        }
        kept = 1;
    }
    loop->rank = kept;
}

void
ipu__loop_broadcast(ipu__loop *loop, const ipu_shape *result, const ipu_type *inputs,
                    int32_t operands)
{
    loop->rank = result->rank;
    loop->operands = operands;
    loop->elements = ipu_shape_elements(result);
    for (int32_t axis = 0; axis < result->rank; axis++) {
        loop->dims[axis] = result->dims[axis];
    }
    for (int32_t k = 0; k < operands; k++) {
        const ipu_shape *shape = &inputs[k].shape;
        int32_t missing = result->rank - shape->rank;
        int64_t stride = 1;
        for (int32_t axis = result->rank - 1; axis >= 0; axis--) {
            int64_t size = axis < missing ? 1 : shape->dims[axis - missing];
            loop->strides[k][axis] = size == 1 ? 0 : stride;
            stride *= size;
        }
    }
    ipu__loop_collapse(loop);
}

int64_t
ipu__loop_offset(const ipu__loop *loop, int32_t operand, int64_t position)
{
    int64_t offset = 0;
    for (int32_t axis = loop->rank - 1; axis > 0; axis--) {
        offset += position % loop->dims[axis] * loop->strides[operand][axis];
        position /= loop->dims[axis];
    }
    return offset + position * loop->strides[operand][0];
}
