/* SPDX-License-Identifier: MIT
 *
 * The state of one differentiation, shared by the files that do it: autodiff.c walks
 * over nodes, control.c over those that hold blocks. Nothing outside autodiff/ includes
 * it. */
#ifndef IPU_AUTODIFF_WALK_H
#define IPU_AUTODIFF_WALK_H

#include "autodiff/autodiff.h"

typedef struct ipu__walk {
    ipu_ctx *ctx;
    ipu_graph *graph;
    ipu_block block;    /* where gradient nodes go at the moment */
    size_t value_count; /* of the forward graph; later values are gradients */
    const ipu_value *xs;
    uint32_t x_count;
    bool *depends;    /* by value: on an x, through ops that let gradients pass */
    ipu_value *grads; /* by value */
    const ipu_gradient_scope *scope; /* NULL: everything */
    IPU_ARRAY(ipu_value) in_grads;   /* scratch of one rule */
    IPU_ARRAY(bool) wanted;
} ipu__walk;

static inline bool
ipu__walk_depends(const ipu__walk *w, ipu_value value)
{
    return value.index < w->value_count && w->depends[value.index];
}
/* Adds `gradient` to what has come back to `value`. */
ipu_status ipu__walk_accumulate(ipu__walk *w, ipu_node like, ipu_value value,
                                ipu_value gradient);
/* Back over the forward nodes among the first `count` of a block. */
ipu_status ipu__walk_block(ipu__walk *w, ipu_block block, size_t count);
/* A node that holds blocks, some output of which has a gradient. */
ipu_status ipu__walk_control(ipu__walk *w, ipu_node node);
/* Whether the tape saw the node; what it did not see is a constant. */
bool ipu__walk_saw(const ipu__walk *w, ipu_node node);
/* A CUSTOM_GRADIENT node. (custom.c) */
ipu_status ipu__walk_custom(ipu__walk *w, ipu_node node);
/* Zeros of this type, in w->block. */
ipu_status ipu__walk_zeros(ipu__walk *w, ipu_node like, const ipu_type *type,
                           ipu_value *out);

/* The most turns that a loop can take, as far as it can be seen from constants and
 * attributes; -1: it cannot. (trip_bounds.c) */
int64_t ipu__most_turns(const ipu_graph *graph, ipu_node loop);
/* What the body of a loop adds to carried value i, an int32 scalar, in each turn; 0:
 * nothing that is known. */
int64_t ipu__step_of(const ipu_graph *graph, ipu_block body, uint32_t i);
/* Whether a value is known to be `number`. */
bool ipu__is_known_int(const ipu_graph *graph, ipu_value value, int64_t number);

#endif
