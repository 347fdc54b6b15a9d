/* SPDX-License-Identifier: MIT
 *
 * The ops: their ids, and what ops.def says of each as data. Rooms that only name ops,
 * graph/ and passes/ among them, need nothing else of kernels/. */
#ifndef IPU_BASE_OP_H
#define IPU_BASE_OP_H

#include "base/attrs.h"

typedef enum ipu_op {
#define IPU_OP(name, text, min_in, max_in, outputs, dtypes, shape, cost, flags) \
    IPU_OP_ID_##name,
#include "ops.def"
#undef IPU_OP
    IPU_OP_ID_COUNT
} ipu_op;

enum ipu_op_flag {
    IPU_OP_KERNEL = 1 << 0,
    IPU_OP_GRADIENT = 1 << 1,
    IPU_OP_ELEMENTWISE = 1 << 2,
    IPU_OP_COMMUTES = 1 << 3,
    IPU_OP_RANDOM = 1 << 4,
    IPU_OP_READS = 1 << 5,
    IPU_OP_WRITES = 1 << 6,
    IPU_OP_BLOCK = 1 << 7,
    IPU_OP_VIEW = 1 << 8,
    IPU_OP_IN_PLACE = 1 << 9,
    IPU_OP_OPAQUE = 1 << 10,
    IPU_OP_COLLECTIVE = 1 << 11,
    IPU_OP_FAILS = 1 << 12,
    IPU_OP_EXACT = 1 << 13,
    IPU_OP_CHEAP = 1 << 14,
    IPU_OP_HEAVY = 1 << 15,
    IPU_OP_UPDATE = 1 << 16
};

/* A row's entry in a column: element-wise ops of one to three inputs are a class and
 * share one. A row has no reference to the name of an entry that is not its own. */
#define IPU_OP_ENTRY(most, flags, shared, own) \
    (((flags)&IPU_OP_ELEMENTWISE) != 0 && (most) > 0 ? (shared) : (own))

typedef struct ipu_op_info {
    const char *name;
    int32_t min_inputs;
    int32_t max_inputs; /* -1: any number */
    int32_t outputs;    /* -1: given by the resource or the block */
    const char *dtypes; /* the dtype rule, see ops.def */
    uint32_t flags;
} ipu_op_info;

const ipu_op_info *ipu_op_info_of(ipu_op op);
/* Whether an op can fail by what its operands hold: an index that is out of range, a
 * division of integers by zero. The types are those of its first operand and its first
 * result, NULL where it has none. Failures for every operand, or for want of memory, do
 * not count. */
bool ipu_op_can_fail(ipu_op op, ipu_attrs attrs, const ipu_type *operand,
                     const ipu_type *result);
/* The same of an element-wise op that gives this dtype. */
bool ipu_op_divides_integers(ipu_op op, ipu_dtype dtype);
/* Of a random op the place of its last input, the key, which may be left out; -1: it
 * takes none. */
int32_t ipu_op_key_place(ipu_op op);
bool ipu_op_parse(const char *text, size_t length, ipu_op *out);

/* Whether the row's dtype rule allows these operands and results. Variables and slots
 * that a kernel writes are results. */
bool ipu_op_allows(ipu_op op, const ipu_type *inputs, uint32_t input_count,
                   const ipu_type *outputs, uint32_t output_count);
/* The letter of input `index` in the rule, see ops.def; there has to be such an input.
 */
char ipu_op_dtype_letter(ipu_op op, uint32_t index);
/* Whether a letter allows a dtype, and its name in messages: "a numeric dtype". */
bool ipu_dtype_letter_allows(char letter, ipu_dtype dtype);
const char *ipu_dtype_letter_name(char letter);

/* Attribute `activation` of fused products. Values are part of the text form. */
typedef enum ipu_activation {
    IPU_ACTIVATION_NONE = 0,
    IPU_ACTIVATION_RELU = 1,
    IPU_ACTIVATION_TANH = 2,
    IPU_ACTIVATION_SIGMOID = 3
} ipu_activation;

/* Attribute `steps` of fused_conv: what is done with each input after the second one, in
 * their order; left out, all are biases. Values are part of the text form. */
typedef enum ipu_conv_step {
    IPU_CONV_BIAS = 0,  /* a number for each channel is added */
    IPU_CONV_SCALE = 1, /* ... or multiplied with */
    IPU_CONV_ADD = 2,   /* a tensor of the result's shape is added */
    IPU_CONV_STEP_COUNT
} ipu_conv_step;

/* Attribute `given` of lstm_grad and gru_grad: which of these operands follow, in this
 * order. Values are part of the text form. */
typedef enum ipu_given {
    IPU_GIVEN_MASK = 1,
    IPU_GIVEN_STEPS = 2,  /* the gradient of h of all steps */
    IPU_GIVEN_LAST_H = 4, /* of the last h */
    IPU_GIVEN_LAST_C = 8, /* of the last c; lstm_grad alone */
    IPU_GIVEN_ALL = 15
} ipu_given;

/* The same of attention and its gradient. */
typedef enum ipu_attention_given {
    IPU_ATTENTION_MASK = 1,
    IPU_ATTENTION_KEY = 2, /* of what is dropped */
    IPU_ATTENTION_ALL = 3
} ipu_attention_given;

/* Attribute `reduction` of tensor_scatter: how it joins. Values are part of the text
 * form. */
typedef enum ipu_scatter {
    IPU_SCATTER_UPDATE = 0,
    IPU_SCATTER_ADD = 1,
    IPU_SCATTER_MUL = 2,
    IPU_SCATTER_MIN = 3,
    IPU_SCATTER_MAX = 4,
    IPU_SCATTER_COUNT
} ipu_scatter;

/* Attribute `reduction` of all_reduce. Values are part of the text form. */
typedef enum ipu_all_reduce {
    IPU_ALL_REDUCE_SUM = 0,
    IPU_ALL_REDUCE_MEAN = 1,
    IPU_ALL_REDUCE_COUNT
} ipu_all_reduce;

/* Attribute `code` of fused_elementwise, a micro-program: instructions of
 * IPU_FUSED_WORDS integers each, { op, dtype, a, b, c }. `op` is an ELEMENTWISE ipu_op,
 * dtype that of its result, a/b/c operands or -1. An operand below input_count is that
 * input, broadcast to the result's shape; operand input_count + i is the result of
 * instruction i. The last instruction's result is the output. */
enum {
    IPU_FUSED_WORDS = 5,
    IPU_FUSED_MAX_INSTRUCTIONS = 32,
    IPU_FUSED_MAX_INPUTS = 16
};

#endif
