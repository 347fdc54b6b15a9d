/* SPDX-License-Identifier: MIT
 *
 * The shape rule of each op: the `ipu_infer_<shape>` column of ops.def. A rule
 * reads the call's inputs and attributes, fills `outputs`, and fails in the user's
 * terms; the caller adds the op's name and the source line. */
#ifndef IPU_GRAPH_INFER_H
#define IPU_GRAPH_INFER_H

#include "graph/graph.h"

typedef struct ipu_infer_call {
    ipu_ctx *ctx;
    const ipu_graph *graph; /* NULL in eager execution */
    ipu_op op;
    ipu_attrs attrs;
    const ipu_type *inputs;
    uint32_t input_count;
    ipu_type *outputs;
    uint32_t capacity;
    uint32_t output_count; /* set by rules of ops whose table row says -1 */
} ipu_infer_call;

typedef ipu_status ipu_infer_fn(ipu_infer_call *call);

#define IPU_OP(NAME, text, min_in, max_in, outputs, dtypes, shape, cost, flags) \
    ipu_infer_fn ipu_infer_##shape;
#include "ops.def"
#undef IPU_OP

/* Reads attribute AXIS of a value of `rank` dimensions; negative counts from the end.
 */
ipu_status ipu__infer_axis(ipu_infer_call *call, int32_t rank, int32_t *out);
/* Reads attribute SHAPE. */
ipu_status ipu__infer_shape(ipu_infer_call *call, ipu_shape *out);
/* Checks that input `i` is of this type; `what` is its name in the message. */
ipu_status ipu__infer_like(ipu_infer_call *call, const char *what, uint32_t i,
                           ipu_dtype dtype, const ipu_shape *shape);

/* In a rule of `call`: it is an invalid argument, and this is why. */
#define REFUSE_IF(condition, ...) \
    IPU_FAIL_IF(call->ctx, condition, INVALID_ARGUMENT, __VA_ARGS__)

#endif
