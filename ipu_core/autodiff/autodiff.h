/* SPDX-License-Identifier: MIT
 *
 * Reverse-mode differentiation of a block, also one that is still being traced. */
#ifndef IPU_AUTODIFF_AUTODIFF_H
#define IPU_AUTODIFF_AUTODIFF_H

#include "graph/graph.h"

/* Appends to `block` the nodes that compute d sum(ys * grad_ys) / d xs. grad_ys may be
 * NULL, and each entry IPU_NO_VALUE: then ones. `xs` are values defined in the block or
 * around it, or in a block that a node there holds: then the sum over all of its turns.
 * Loops on the way get more outputs, which keep what their gradients need of each turn;
 * INVALID_ARGUMENT where nothing says how many turns there are at most. out[i] is
 * IPU_NO_VALUE where ys do not depend on xs[i]. Integer and bool values carry no
 * gradient. Partial gradients add in reverse program order. Gradient nodes inherit the
 * placement and source of their forward node. After a failure the block has the nodes
 * that it had, though loops in it may keep values in vain. */
ipu_status ipu_gradients(ipu_ctx *ctx, ipu_graph *graph, ipu_block block,
                         const ipu_value *ys, const ipu_value *grad_ys,
                         uint32_t y_count, const ipu_value *xs, uint32_t x_count,
                         ipu_value *out);

/* A gradient function of the user's, see CUSTOM_GRADIENT in ops.def. It appends its
 * nodes to `block`, which is not always the caller's, and may use values that block
 * `home` sees, where the function was called. results[i], for each further input of the
 * node, is IPU_NO_VALUE before; what it leaves so has no gradient. Where is_wanted[i] is
 * false nobody uses it. */
typedef struct ipu_custom_gradient {
    int64_t index;
    ipu_block block;
    ipu_block home;
    const ipu_value *grads; /* of the results; IPU_NO_VALUE: nothing uses it */
    uint32_t grad_count;
    ipu_value *results;
    const bool *is_wanted;
    uint32_t result_count;
} ipu_custom_gradient;
typedef ipu_status ipu_custom_gradient_fn(ipu_ctx *ctx, void *state,
                                          const ipu_custom_gradient *call);

/* The part of a graph that a tape has seen. */
typedef struct ipu_gradient_scope {
    const uint32_t *spans; /* pairs: nodes from the first to before the second */
    uint32_t span_count;   /* nodes in no span are constants */
    const ipu_value *watched; /* an x that depends on none of them has no gradient */
    uint32_t watched_count;
    const ipu_value *stops; /* constants, unless they are xs themselves */
    uint32_t stop_count;
    ipu_custom_gradient_fn *custom; /* NULL: CUSTOM_GRADIENT is an error */
    void *custom_state;
} ipu_gradient_scope;

/* The same within a scope; NULL is everything. */
ipu_status ipu_gradients_within(ipu_ctx *ctx, ipu_graph *graph, ipu_block block,
                                const ipu_value *ys, const ipu_value *grad_ys,
                                uint32_t y_count, const ipu_value *xs, uint32_t x_count,
                                const ipu_gradient_scope *scope, ipu_value *out);

#endif
