/* SPDX-License-Identifier: MIT
 *
 * The shape and dtype rule of each op: the `ipu_infer_<text>` column of ops.def. A rule
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

#define IPU_OP(NAME, text, min_in, max_in, outputs, dtypes, flags) \
    ipu_infer_fn ipu_infer_##text;
#include "ops.def"
#undef IPU_OP

/* Checks the dtype of input `index` against the op's row. */
ipu_status ipu__infer_dtype(ipu_infer_call *call, uint32_t index);
/* Reads attribute AXIS of a value of `rank` dimensions; negative counts from the end.
 */
ipu_status ipu__infer_axis(ipu_infer_call *call, int32_t rank, int32_t *out);

#endif
