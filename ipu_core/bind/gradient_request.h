/* SPDX-License-Identifier: MIT
 *
 * What a call of `gradients` asks for, as arrays of a graph's values. Traces and
 * recorders fill it from Python's objects, each in its own way. */
#ifndef IPU_BIND_GRADIENT_REQUEST_H
#define IPU_BIND_GRADIENT_REQUEST_H

#include "autodiff/autodiff.h"
#include "bind/bind.h"

typedef IPU_ARRAY(ipu_value) ipu_py_values;
typedef IPU_ARRAY(uint32_t) ipu_py_indices;

typedef struct ipu_py_gradient_request {
    ipu_ctx ctx;
    ipu_py_values ys;
    ipu_py_values grads; /* one for each of `ys`, or none at all */
    ipu_py_values xs;
    ipu_py_values watched;
    ipu_py_values stops;
    ipu_py_indices spans;  /* pairs, as in ipu_gradient_scope */
    ipu_py_indices places; /* where the call's x have theirs among `xs` */
    ipu_py_values out;     /* the gradient of each of `xs` */
} ipu_py_gradient_request;

void ipu_py_gradient_request_free(ipu_py_gradient_request *request);
/* Appends pairs (begin, end) of node numbers; -1 with an exception on failure. */
int ipu_py_gradient_request_spans(ipu_py_gradient_request *request, PyObject *pairs);
/* Fills `out`. The scope gets spans, watched values and stops here; NULL is
 * everything. -1 with an exception on failure. */
int ipu_py_gradient_request_run(ipu_py_gradient_request *request, ipu_graph *graph,
                                ipu_block block, ipu_gradient_scope *scope);

#endif
