/* SPDX-License-Identifier: MIT
 *
 * The state of one differentiation, shared by the files that do it: mark.c finds what
 * depends on the xs, autodiff.c walks back over nodes, control*.c over those that hold
 * blocks. Nothing outside autodiff/ includes it. */
#ifndef IPU_AUTODIFF_WALK_H
#define IPU_AUTODIFF_WALK_H

#include "autodiff/autodiff.h"

/* A node that holds blocks, and the node that goes back through them. */
typedef struct ipu__pair {
    ipu_node forward;
    ipu_node back;
} ipu__pair;

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
    IPU_ARRAY(ipu_value) inner_xs;   /* those that lie in blocks which nodes hold */
    IPU_ARRAY(ipu__pair) pairs;      /* inner ones before those around them */
    IPU_ARRAY(ipu_value) in_grads;   /* scratch of one rule: by input */
    IPU_ARRAY(bool) wanted;          /* by input */
    IPU_ARRAY(ipu_value) out_grads;  /* by output */
} ipu__walk;

static inline bool
ipu__walk_depends(const ipu__walk *w, ipu_value value)
{
    return value.index < w->value_count && w->depends[value.index];
}
/* What has come back to a value so far; IPU_NO_VALUE: nothing. */
static inline ipu_value
ipu__walk_gradient(const ipu__walk *w, ipu_value value)
{
    return value.index < w->value_count ? w->grads[value.index] : IPU_NO_VALUE;
}
/* Whether w->block is `block` or lies in it. (mark.c) */
bool ipu__walk_is_around(const ipu__walk *w, ipu_block block);
/* Sets w->depends; out[i] is xs[i], or IPU_NO_VALUE where it has no gradient. (mark.c)
 */
ipu_status ipu__walk_mark(ipu__walk *w, ipu_value *out);
/* Adds `gradient` to what has come back to `value`. */
ipu_status ipu__walk_accumulate(ipu__walk *w, ipu_node like, ipu_value value,
                                ipu_value gradient);
/* Back over the nodes of a block, from `last` on. */
ipu_status ipu__walk_back(ipu__walk *w, ipu_node last);
/* Whether the tape saw the node; what it did not see is a constant. */
bool ipu__walk_saw(const ipu__walk *w, ipu_node node);
/* Whether an output of the node is one of the scope's stops. */
bool ipu__walk_stops(const ipu__walk *w, ipu_node node);
/* A CUSTOM_GRADIENT node. (custom.c) */
ipu_status ipu__walk_custom(ipu__walk *w, ipu_node node);
/* Zeros of this type, in w->block. */
ipu_status ipu__walk_zeros(ipu__walk *w, ipu_node like, const ipu_type *type,
                           ipu_value *out);

#endif
