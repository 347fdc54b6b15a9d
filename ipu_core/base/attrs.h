/* SPDX-License-Identifier: MIT
 *
 * Attributes of an op: compile-time constants by key. They live here, below graph/ and
 * kernels/, since both read them. */
#ifndef IPU_BASE_ATTRS_H
#define IPU_BASE_ATTRS_H

#include "base/arena.h"
#include "base/shape.h"

/* How an attribute is stored and printed. */
typedef enum ipu_attr_kind {
    IPU_ATTR_KIND_INT,    /* i */
    IPU_ATTR_KIND_BOOL,   /* i, printed true or false */
    IPU_ATTR_KIND_FLOAT,  /* f */
    IPU_ATTR_KIND_DTYPE,  /* i holds an ipu_dtype */
    IPU_ATTR_KIND_INTS,   /* ints, count */
    IPU_ATTR_KIND_BYTES,  /* bytes, count: literal data of a constant */
    IPU_ATTR_KIND_BLOCK,  /* i holds a block's index */
    IPU_ATTR_KIND_BLOCKS, /* ints, count: blocks' indices */
    IPU_ATTR_KIND_TEXT    /* text, count */
} ipu_attr_kind;

/* X(NAME, text, kind). One list for all ops: a key means the same wherever it is used.
 */
#define IPU_ATTR_LIST(X) \
    X(AXIS, axis, INT) \
    X(AXES, axes, INTS) /* sorted, non-negative, unique */ \
    X(KEEP_DIMS, keep_dims, BOOL) \
    X(TRANSPOSE_A, transpose_a, BOOL) \
    X(TRANSPOSE_B, transpose_b, BOOL) \
    X(DTYPE, dtype, DTYPE) /* of the result */ \
    X(SHAPE, shape, INTS)  /* of the result */ \
    X(PERM, perm, INTS) \
    X(BATCH_DIMS, batch_dims, INT) \
    X(EXCLUSIVE, exclusive, BOOL) \
    X(REVERSE, reverse, BOOL) \
    X(ASCENDING, ascending, BOOL) \
    X(LOWER, lower, BOOL) \
    X(REDUCTION, reduction, INT) /* ipu_scatter or ipu_all_reduce, by op */ \
    X(GROUP_SIZE, group_size, INT) /* replicas of a collective; 0: all */ \
    X(BEGIN, begin, INTS)        /* slice: first element of each axis */ \
    X(SIZE, size, INTS)          /* slice: elements of each axis */ \
    X(STRIDES, strides, INTS)    /* slice: step of each axis, never 0, may be < 0 */ \
    X(WINDOW, window, INTS)       /* of a pooling, for each of its axes */ \
    X(DILATIONS, dilations, INTS) /* conv, pooling: of each spatial axis */ \
    X(PADDING, padding, INTS)     /* conv, pooling: before and after each */ \
    X(GROUPS, groups, INT)        /* of channels: of conv each with its filters */ \
    X(STRIDED, strided, BOOL)     /* normalize: channel c is of group c mod groups */ \
    X(CHANNELS_FIRST, channels_first, BOOL) /* conv: axis 1, else the last one */ \
    X(DEPTH, depth, INT) \
    X(OUTSIDE_IS_NAN, outside_is_nan, BOOL) /* of labels without a class; no error */ \
    X(ON_VALUE, on_value, FLOAT) \
    X(OFF_VALUE, off_value, FLOAT) \
    X(SCALE, scale, FLOAT)        /* attention: scores are multiplied with it, */ \
    X(DIVIDES, divides, BOOL)     /* or divided by it */ \
    X(HIDDEN, hidden, FLOAT)      /* attention: of scores that do not count; -1e9 */ \
    X(REPLACES, replaces, BOOL)   /* it takes their place, and is not added */ \
    X(CAUSAL, causal, BOOL)       /* attention: no step sees a later one */ \
    X(RATE, rate, FLOAT) \
    X(SEED, seed, INT) \
    X(ORDINAL, ordinal, INT) /* of a random op in the user's program */ \
    X(SAME_ON_REPLICAS, same_on_replicas, BOOL) /* all draw the same numbers */ \
    X(VALUE, value, BYTES) \
    X(RESOURCE, resource, INT) /* id of a variable or a queue of the device */ \
    X(MOMENTUM, momentum, FLOAT) \
    X(NESTEROV, nesterov, BOOL) \
    X(BETA_1, beta_1, FLOAT) \
    X(BETA_2, beta_2, FLOAT) \
    X(EPSILON, epsilon, FLOAT) \
    X(SLOTS, slots, INTS)          /* resource ids of optimizer state */ \
    X(CONDITION, condition, BLOCK) /* of a while loop */ \
    X(BODY, body, BLOCK)           /* of a loop */ \
    X(BRANCHES, branches, BLOCKS)  /* of a switch */ \
    X(MAXIMUM_ITERATIONS, maximum_iterations, INT) /* of a loop; -1: no bound */ \
    X(IS_PART, is_part, BOOL) /* a loop whose turns are parts of a step */ \
    X(SCHEDULE, schedule, TEXT)                    /* of a pipeline: its name */ \
    X(DEVICES, devices, INTS)      /* of a pipeline: the IPU of each stage */ \
    X(POSITIONS, positions, INTS)  /* of its stages, where some run side by side */ \
    X(RECOMPUTE, recompute, INTS)  /* of its stages: 0 keeps, 1 at once, 2 in turn */ \
    X(OVERLAPS_IO, overlaps_io, BOOL) /* a pipeline whose feeds have tiles of theirs */ \
    X(OFFLOAD, offload, INT)       /* of a pipeline: bits of ipu_offload */ \
    X(TRAINING, training, BOOL)    /* a pipeline that has backward stages */ \
    X(ACTIVATION, activation, INT) /* ipu_activation of a fused product */ \
    X(STEPS, steps, INTS) /* ipu_conv_step, by which a convolution is finished */ \
    X(RESET_AFTER, reset_after, BOOL) /* a GRU whose reset gate follows the product */ \
    X(GIVEN, given, INT)           /* which optional operands follow, as bits */ \
    X(CODE, code, INTS)            /* micro-program of a fused element-wise chain */ \
    X(INDEX, index, INT)           /* of a held tensor, or of a gradient function */ \
    X(NAME, name, TEXT)

/* The parts of a pipeline that lie in remote memory while no routine uses them. */
typedef enum ipu_offload {
    IPU_OFFLOAD_ACTIVATIONS = 1, /* what is kept from one routine to another */
    IPU_OFFLOAD_ACCUMULATORS = 2 /* what is carried from micro-batch to micro-batch */
} ipu_offload;

typedef enum ipu_attr_key {
#define X(name, text, kind) IPU_ATTR_##name,
    IPU_ATTR_LIST(X)
#undef X
        IPU_ATTR_COUNT
} ipu_attr_key;

typedef struct ipu_attr {
    ipu_attr_key key;
    uint32_t count; /* of ints, bytes or text */
    union {
        int64_t i;
        double f;
        const int64_t *ints;
        const void *bytes;
        const char *text;
    } as;
} ipu_attr;

/* Sorted by key. The memory belongs to whoever made it (graph arena, program arena). */
typedef struct ipu_attrs {
    const ipu_attr *items;
    uint32_t count;
} ipu_attrs;

static inline ipu_attr
ipu_attr_int(ipu_attr_key key, int64_t value)
{
    return (ipu_attr){.key = key, .as = {.i = value}};
}
static inline ipu_attr
ipu_attr_float(ipu_attr_key key, double value)
{
    return (ipu_attr){.key = key, .as = {.f = value}};
}
/* The caller owns the memory that these point to. */
static inline ipu_attr
ipu_attr_ints(ipu_attr_key key, const int64_t *ints, uint32_t count)
{
    return (ipu_attr){.key = key, .count = count, .as = {.ints = ints}};
}
static inline ipu_attr
ipu_attr_shape(const ipu_shape *shape)
{
    return ipu_attr_ints(IPU_ATTR_SHAPE, shape->dims, (uint32_t)shape->rank);
}

const char *ipu_attr_name(ipu_attr_key key);
ipu_attr_kind ipu_attr_kind_of(ipu_attr_key key);
bool ipu_attr_parse_key(const char *text, size_t length, ipu_attr_key *out);
/* NULL where the key is not present. */
const ipu_attr *ipu_attrs_find(ipu_attrs attrs, ipu_attr_key key);
int64_t ipu_attrs_int(ipu_attrs attrs, ipu_attr_key key, int64_t otherwise);
double ipu_attrs_float(ipu_attrs attrs, ipu_attr_key key, double otherwise);
/* *count is 0 and the result NULL where the key is not present. */
const int64_t *ipu_attrs_ints(ipu_attrs attrs, ipu_attr_key key, uint32_t *count);
bool ipu_attrs_equal(ipu_attrs a, ipu_attrs b);
/* Puts `item` among `count` that are sorted; there is room for it. */
static inline void
ipu_attrs_insert(ipu_attr *items, uint32_t count, ipu_attr item)
{
    for (; count > 0 && items[count - 1].key > item.key; count--) {
        items[count] = items[count - 1];
    }
    items[count] = item;
}
/* Bytes that the attribute points to: ints, literal data, text. */
size_t ipu_attr_bytes(const ipu_attr *attr);
/* A copy in the arena of attributes in any order, and of all that they point to. */
ipu_status ipu_attrs_copy(ipu_ctx *ctx, ipu_arena *arena, ipu_attrs attrs,
                          ipu_attrs *out);

#endif
