/* SPDX-License-Identifier: MIT
 *
 * The one road from a status to a Python exception. Built-in exceptions are raised as
 * they are, the others come from ipu._errors by the name in the status list. */
#include "bind/bind.h"

static const char *const exceptions[] = {
#define X(name, text, exception) #exception,
    IPU_STATUS_LIST(X)
#undef X
};

static PyObject *
exception_class(ipu_py_state *state, ipu_status status)
{
    switch (status) {
    case IPU_STATUS_OUT_OF_MEMORY:
        return Py_NewRef(PyExc_MemoryError);
    case IPU_STATUS_VALUE:
        return Py_NewRef(PyExc_ValueError);
    case IPU_STATUS_TYPE:
        return Py_NewRef(PyExc_TypeError);
    case IPU_STATUS_INTERRUPTED:
        return Py_NewRef(PyExc_KeyboardInterrupt);
    case IPU_STATUS_PYTHON: /* its exception went to another consumer of the same source
                             */
        return Py_NewRef(PyExc_RuntimeError);
    case IPU_STATUS_OK:
    case IPU_STATUS_COUNT:
        return Py_NewRef(PyExc_SystemError);
    default:
        break;
    }
    if (state->errors == NULL) {
        state->errors = PyImport_ImportModule("ipu._errors");
        if (state->errors == NULL) {
            return NULL;
        }
    }
    return PyObject_GetAttrString(state->errors, exceptions[status]);
}

void
ipu_py_park(ipu_py_state *state)
{
    PyObject *type;
    PyObject *value;
    PyObject *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    if (type == NULL) {
        return;
    }
    PyErr_NormalizeException(&type, &value, &traceback);
    if (traceback != NULL) {
        PyException_SetTraceback(value, traceback);
    }
    Py_XSETREF(state->parked, value);
    Py_XDECREF(type);
    Py_XDECREF(traceback);
}

PyObject *
ipu_py_raise(ipu_py_state *state, const ipu_ctx *ctx)
{
    if (PyErr_Occurred()) {
        return NULL;
    }
    if (ctx->status == IPU_STATUS_PYTHON && state->parked != NULL) {
        PyObject *value = state->parked;
        state->parked = NULL;
        PyErr_SetObject((PyObject *)Py_TYPE(value), value);
        Py_DECREF(value);
        return NULL;
    }
    PyObject *class = exception_class(state, ctx->status);
    if (class == NULL) {
        return NULL;
    }
    const char *message =
        ctx->message[0] == '\0' ? ipu_status_name(ctx->status) : ctx->message;
    if (ctx->source.file != NULL) {
        PyErr_Format(class, "%s [%s:%d]", message, ctx->source.file,
                     (int)ctx->source.line);
    } else {
        PyErr_SetString(class, message);
    }
    Py_DECREF(class);
    return NULL;
}
