/* SPDX-License-Identifier: MIT
 *
 * Methods of ipu._core.Trace that say of nodes where they belong: to a recomputation,
 * to a stage of a pipeline, to the way back. */
#define NO_IMPORT_ARRAY
#include "bind/py_trace.h"

PyObject *
ipu_py_trace_recompute(PyObject *object, PyObject *ordinal)
{
    long long first = PyLong_AsLongLong(ordinal);
    if (first == -1 && PyErr_Occurred()) {
        return NULL;
    }
    ipu_trace_mark mark = ipu_trace_recompute(ipu_py_trace_of(object), first);
    return Py_BuildValue("(LI)", (long long)mark.next_ordinal, mark.recomputation);
}

PyObject *
ipu_py_trace_resume(PyObject *object, PyObject *args)
{
    long long ordinal;
    unsigned recomputation;
    if (!PyArg_ParseTuple(args, "LI:resume", &ordinal, &recomputation)) {
        return NULL;
    }
    ipu_trace_resume(ipu_py_trace_of(object), (ipu_trace_mark){ordinal, recomputation});
    Py_RETURN_NONE;
}

PyObject *
ipu_py_trace_last_node(PyObject *object, PyObject *Py_UNUSED(ignored))
{
    const ipu_trace *trace = ipu_py_trace_of(object);
    return PyLong_FromUnsignedLong(
        ipu_block_of(trace->graph, ipu_trace_block(trace))->last.index);
}

PyObject *
ipu_py_trace_mark_backward(PyObject *object, PyObject *after)
{
    ipu_trace *trace = ipu_py_trace_of(object);
    unsigned long node = PyLong_AsUnsignedLong(after);
    if (node == (unsigned long)-1 && PyErr_Occurred()) {
        return NULL;
    }
    if (node != IPU_NO_INDEX && node >= trace->graph->nodes.count) {
        PyErr_SetString(PyExc_ValueError, "there is no such node");
        return NULL;
    }
    ipu_trace_mark_backward(trace, (ipu_node){(uint32_t)node});
    Py_RETURN_NONE;
}

PyObject *
ipu_py_trace_stage_of(PyObject *object, PyObject *argument)
{
    ipu_py_state *state = ipu_py_state_of_type(Py_TYPE(object));
    const ipu_py_tensor *tensor = (const ipu_py_tensor *)argument;
    if (!ipu_py_is_tensor(state, argument)) {
        PyErr_SetString(PyExc_TypeError, "expected a tensor");
        return NULL;
    }
    const ipu_node_data *node =
        tensor->trace == object
            ? ipu_producer_of(ipu_py_trace_of(object)->graph, tensor->value)
            : NULL;
    return PyLong_FromLong(node == NULL ? -1 : node->placement.stage);
}

PyObject *
ipu_py_trace_get_stage(PyObject *object, void *Py_UNUSED(closure))
{
    return PyLong_FromLong(ipu_py_trace_of(object)->placement.stage);
}

int
ipu_py_trace_set_stage(PyObject *object, PyObject *value, void *Py_UNUSED(closure))
{
    long stage = value == NULL ? -2 : PyLong_AsLong(value);
    if (stage < -1 || stage > INT16_MAX) {
        if (!PyErr_Occurred()) {
            PyErr_SetString(PyExc_ValueError, "a stage is a number from -1 to 32767");
        }
        return -1;
    }
    ipu_py_trace_of(object)->placement.stage = (int16_t)stage;
    return 0;
}

PyObject *
ipu_py_trace_get_ordinal(PyObject *object, void *Py_UNUSED(closure))
{
    return PyLong_FromLongLong(ipu_py_trace_of(object)->next_ordinal);
}
