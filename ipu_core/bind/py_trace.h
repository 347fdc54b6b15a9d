/* SPDX-License-Identifier: MIT
 *
 * ipu._core.Trace. py_trace.c opens and closes blocks, py_trace_node.c adds nodes that
 * name resources, py_trace_marks.c says more of nodes (stages, recomputation),
 * py_trace_programs.c makes programs. */
#ifndef IPU_BIND_PY_TRACE_H
#define IPU_BIND_PY_TRACE_H

#include "bind/bind.h"

typedef struct ipu_py_trace {
    PyObject_HEAD
    PyObject *weak_references;
    ipu_trace *trace;    /* NULL once it is compiled */
    PyObject *last_file; /* the file name that was interned last, and its copy */
    const char *last_file_text;
    PyObject *name;     /* str: the function, for errors */
    PyObject *captured; /* dict: address of an eager tensor to (tensor, value) */
} ipu_py_trace;

/* Raises what `ctx` says; returns NULL. */
PyObject *ipu_py_trace_fail(ipu_py_trace *self, ipu_ctx *ctx);

/* --- py_trace_node.c ---------------------------------------------------------------
 */

PyObject *ipu_py_trace_node(PyObject *object, PyObject *args);

/* --- py_trace_programs.c -----------------------------------------------------------
 */

PyObject *ipu_py_trace_compile(PyObject *object, PyObject *args, PyObject *kwargs);
PyObject *ipu_py_trace_evaluate(PyObject *object, PyObject *args);
PyObject *ipu_py_trace_split(PyObject *object, PyObject *args);

/* --- py_trace_marks.c --------------------------------------------------------------
 */

PyObject *ipu_py_trace_recompute(PyObject *object, PyObject *ordinal);
PyObject *ipu_py_trace_resume(PyObject *object, PyObject *args);
PyObject *ipu_py_trace_get_ordinal(PyObject *object, void *closure);
PyObject *ipu_py_trace_last_node(PyObject *object, PyObject *ignored);
PyObject *ipu_py_trace_mark_backward(PyObject *object, PyObject *after);
PyObject *ipu_py_trace_stage_of(PyObject *object, PyObject *tensor);
PyObject *ipu_py_trace_node_of(PyObject *object, PyObject *tensor);
PyObject *ipu_py_trace_drop_unreached(PyObject *object, PyObject *args);
PyObject *ipu_py_trace_linear(PyObject *object, PyObject *tensor);
PyObject *ipu_py_trace_get_stage(PyObject *object, void *closure);
int ipu_py_trace_set_stage(PyObject *object, PyObject *value, void *closure);
PyObject *ipu_py_trace_get_shard(PyObject *object, void *closure);
int ipu_py_trace_set_shard(PyObject *object, PyObject *value, void *closure);
PyObject *ipu_py_trace_get_rounding(PyObject *object, void *closure);
int ipu_py_trace_set_rounding(PyObject *object, PyObject *value, void *closure);
PyObject *ipu_py_trace_move_to_remote(PyObject *object, PyObject *id);
PyObject *ipu_py_trace_captured(PyObject *object, PyObject *args);

#endif
