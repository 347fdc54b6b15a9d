/* SPDX-License-Identifier: MIT
 *
 * The methods of ipu._core.Trace that py_trace_marks.c defines. */
#ifndef IPU_BIND_PY_TRACE_H
#define IPU_BIND_PY_TRACE_H

#include "bind/bind.h"

PyObject *ipu_py_trace_recompute(PyObject *object, PyObject *ordinal);
PyObject *ipu_py_trace_resume(PyObject *object, PyObject *args);
PyObject *ipu_py_trace_get_ordinal(PyObject *object, void *closure);
PyObject *ipu_py_trace_last_node(PyObject *object, PyObject *ignored);
PyObject *ipu_py_trace_mark_backward(PyObject *object, PyObject *after);
PyObject *ipu_py_trace_stage_of(PyObject *object, PyObject *tensor);
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
