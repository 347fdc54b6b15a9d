/* SPDX-License-Identifier: MIT
 *
 * Patterns: an expression of ops as data, and what it met in a graph. Nothing outside
 * passes/ includes it.
 *
 *     static const ipu__pattern square = IPU__OP(MUL, 0, IPU__ANY(X), IPU__ANY(X));
 */
#ifndef IPU_PASSES_MATCH_H
#define IPU_PASSES_MATCH_H

#include "graph/constant.h"

enum { IPU__MOST_SLOTS = 8, IPU__MOST_MATCHED = 48 };

typedef struct ipu__pattern {
    ipu_op op;      /* IPU_OP_ID_COUNT: whatever makes the value */
    uint32_t slot;  /* where the value is noted, so that it is one value; 0: nowhere */
    bool is_number; /* a constant whose elements are all this number: */
    double number;
    const struct ipu__pattern *operands[3];
} ipu__pattern;

#define IPU__OP(NAME, slot, ...) \
    { \
        IPU_OP_ID_##NAME, (slot), false, 0.0, \
        { \
            __VA_ARGS__ \
        } \
    }
#define IPU__ANY(slot) \
    &(const ipu__pattern) \
    { \
        IPU_OP_ID_COUNT, (slot), false, 0.0, \
        { \
            NULL \
        } \
    }
#define IPU__NUMBER(number) \
    &(const ipu__pattern) \
    { \
        IPU_OP_ID_COUNT, 0, true, (number), \
        { \
            NULL \
        } \
    }
/* An expression as an operand. */
#define IPU__OF(NAME, slot, ...) &(const ipu__pattern)IPU__OP(NAME, slot, __VA_ARGS__)

/* What was met: values by slot, slot 0 unused, and the nodes that the pattern names. */
typedef struct ipu__match {
    const ipu_graph *graph;
    ipu_value values[IPU__MOST_SLOTS];
    ipu_node nodes[IPU__MOST_MATCHED];
    uint32_t node_count;
} ipu__match;

ipu__match ipu__match_in(const ipu_graph *graph);
/* Whether `value` is what the pattern says, with operands of ops that commute in either
 * order. Slots that have a value keep it. After a failure the match is as it was. */
bool ipu__matches(ipu__match *match, const ipu__pattern *pattern, ipu_value value);
/* Adds a node to those that were met; false where there are too many. */
bool ipu__match_add(ipu__match *match, ipu_node node);
bool ipu__match_has(const ipu__match *match, ipu_node node);

#endif
