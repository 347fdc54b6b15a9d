/* SPDX-License-Identifier: MIT */
#define NO_IMPORT_ARRAY
#include "bind/gradient_request.h"

void
ipu_py_gradient_request_free(ipu_py_gradient_request *request)
{
    IPU_ARRAY_FREE(&request->ctx, &request->ys);
    IPU_ARRAY_FREE(&request->ctx, &request->grads);
    IPU_ARRAY_FREE(&request->ctx, &request->xs);
    IPU_ARRAY_FREE(&request->ctx, &request->watched);
    IPU_ARRAY_FREE(&request->ctx, &request->stops);
    IPU_ARRAY_FREE(&request->ctx, &request->spans);
    IPU_ARRAY_FREE(&request->ctx, &request->places);
    IPU_ARRAY_FREE(&request->ctx, &request->out);
}

int
ipu_py_gradient_request_spans(ipu_py_gradient_request *request, PyObject *pairs)
{
    ipu_ctx *ctx = &request->ctx;
    PyObject *items = PySequence_Tuple(pairs);
    bool is_ok = items != NULL;
    for (Py_ssize_t i = 0; is_ok && i < PyTuple_GET_SIZE(items); i++) {
        unsigned begin;
        unsigned end;
        is_ok = PyArg_ParseTuple(PyTuple_GET_ITEM(items, i), "II:span", &begin, &end) &&
                ipu_py_is_ok(ctx, IPU_ARRAY_PUSH(ctx, &request->spans, begin)) &&
                ipu_py_is_ok(ctx, IPU_ARRAY_PUSH(ctx, &request->spans, end));
    }
    Py_XDECREF(items);
    return is_ok ? 0 : -1;
}

int
ipu_py_gradient_request_run(ipu_py_gradient_request *request, ipu_graph *graph,
                            ipu_block block, ipu_gradient_scope *scope)
{
    if (request->grads.count != 0 && request->grads.count != request->ys.count) {
        PyErr_Format(PyExc_ValueError, "%zu gradients were given for %zu targets",
                     request->grads.count, request->ys.count);
        return -1;
    }
    if (scope != NULL) {
        scope->spans = request->spans.items;
        scope->span_count = (uint32_t)(request->spans.count / 2);
        scope->watched = request->watched.items;
        scope->watched_count = (uint32_t)request->watched.count;
        scope->stops = request->stops.items;
        scope->stop_count = (uint32_t)request->stops.count;
    }
    uint32_t x_count = (uint32_t)request->xs.count;
    const ipu_value *grads = request->grads.count == 0 ? NULL : request->grads.items;
    ipu_ctx *ctx = &request->ctx;
    return ipu_py_is_ok(ctx, IPU_ARRAY_RESERVE(ctx, &request->out, x_count + 1)) &&
                   ipu_py_is_ok(ctx, ipu_gradients_within(
                                         ctx, graph, block, request->ys.items, grads,
                                         (uint32_t)request->ys.count, request->xs.items,
                                         x_count, scope, request->out.items))
               ? 0
               : -1;
}
