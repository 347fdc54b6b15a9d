/* SPDX-License-Identifier: MIT
 *
 * Constants: which values are, and their numbers. */
#ifndef IPU_GRAPH_CONSTANT_H
#define IPU_GRAPH_CONSTANT_H

#include "graph/graph.h"

/* The bytes of a constant; NULL: the value is not one. */
const ipu_attr *ipu_constant_of(const ipu_graph *graph, ipu_value value);
/* One element as a number. */
double ipu_constant_at(const ipu_attr *bytes, ipu_dtype dtype, size_t i);
/* Whether all elements are one number: of a constant of one element, or of what it is
 * broadcast to. */
bool ipu_constant_number(const ipu_graph *graph, ipu_value value, double *out);
/* Whether all are this number. -0 is not 0. */
bool ipu_constant_is(const ipu_graph *graph, ipu_value value, double number);
/* A constant. Its bytes are copied. */
ipu_status ipu_constant_emit(ipu_ctx *ctx, ipu_graph *graph, ipu_block block,
                             ipu_node like, const ipu_type *type, const void *bytes,
                             ipu_value *out);

#endif
