/* SPDX-License-Identifier: MIT
 *
 * The state of one differentiation, shared by the files that do it: mark.c finds what
 * the ys may depend on, and what of it depends on the xs, autodiff.c walks back over
 * nodes, control*.c over those that hold blocks. Nothing outside autodiff/ includes it.
 */
#ifndef IPU_AUTODIFF_WALK_H
#define IPU_AUTODIFF_WALK_H

#include "autodiff/autodiff.h"

/* A node that holds blocks, and the node that goes back through them. */
typedef struct ipu__pair {
    ipu_node forward;
    ipu_node back;
} ipu__pair;

/* A block that w->block sees, and how many of its nodes are passed on the way back. */
typedef struct ipu__stretch {
    ipu_block block;
    uint32_t nodes;
} ipu__stretch;

typedef struct ipu__walk {
    ipu_ctx *ctx;
    ipu_graph *graph;
    ipu_block block; /* where gradient nodes go at the moment */
    const ipu_value *xs;
    uint32_t x_count;
    const ipu_value *ys;
    uint32_t y_count;
    /* What the ys may depend on. No more is looked at, so that the time is in
     * proportion to it, and not to the graph. */
    ipu_id_map places; /* by value: its place among them */
    IPU_ARRAY(ipu_value) values;
    ipu_id_map is_passed; /* by node: gradients may pass it */
    IPU_ARRAY(ipu_node) nodes;
    IPU_ARRAY(ipu__stretch) stretches; /* inner ones first */
    bool *depends;    /* by place: on an x, through ops that let gradients pass */
    ipu_value *grads; /* by place */
    const ipu_gradient_scope *scope; /* NULL: everything */
    IPU_ARRAY(ipu__pair) pairs;      /* inner ones before those around them */
    IPU_ARRAY(ipu_value) in_grads;   /* scratch of one rule: by input */
    IPU_ARRAY(bool) wanted;          /* by input */
    IPU_ARRAY(ipu_value) out_grads;  /* by output */
} ipu__walk;

static inline bool
ipu__walk_depends(const ipu__walk *w, ipu_value value)
{
    uint32_t place = ipu_id_map_get(&w->places, value.index, IPU_NO_INDEX);
    return place != IPU_NO_INDEX && w->depends[place];
}
/* What has come back to a value so far; IPU_NO_VALUE: nothing. */
static inline ipu_value
ipu__walk_gradient(const ipu__walk *w, ipu_value value)
{
    uint32_t place = ipu_id_map_get(&w->places, value.index, IPU_NO_INDEX);
    return place != IPU_NO_INDEX ? w->grads[place] : IPU_NO_VALUE;
}
/* The same to be changed, of a y or of what depends on an x. */
static inline ipu_value *
ipu__walk_slot(const ipu__walk *w, ipu_value value)
{
    return &w->grads[ipu_id_map_get(&w->places, value.index, 0)];
}
/* Sets all of w that belongs to what the ys may depend on. (mark.c) */
ipu_status ipu__walk_mark(ipu__walk *w);
void ipu__walk_free(ipu__walk *w);
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
