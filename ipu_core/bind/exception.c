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

/* Parked exceptions that nobody has asked for are forgotten, oldest first. */
enum { MAX_PARKED = 32 };

static void
forget_oldest(PyObject *parked)
{
    PyObject *key;
    PyObject *value;
    Py_ssize_t at = 0;
    if (PyDict_GET_SIZE(parked) > MAX_PARKED &&
        PyDict_Next(parked, &at, &key, &value)) {
        Py_INCREF(key);
        if (PyDict_DelItem(parked, key) < 0) {
            PyErr_Clear();
        }
        Py_DECREF(key);
    }
}

void
ipu_py_park(ipu_py_state *state, const ipu_ctx *ctx)
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
    PyObject *key = PyBytes_FromString(ctx->message);
    if (state->parked == NULL) {
        state->parked = PyDict_New();
    }
    if (state->parked == NULL || key == NULL ||
        PyDict_SetItem(state->parked, key, value) < 0) {
        PyErr_Clear(); /* the consumer gets the text alone */
    } else {
        forget_oldest(state->parked);
    }
    Py_XDECREF(key);
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(traceback);
}

/* Takes the exception that was parked with this context's text, or gives NULL. */
static PyObject *
take_parked(ipu_py_state *state, const ipu_ctx *ctx)
{
    if (state->parked == NULL) {
        return NULL;
    }
    PyObject *key = PyBytes_FromString(ctx->message);
    PyObject *value = key == NULL ? NULL : PyDict_GetItemWithError(state->parked, key);
    if (value != NULL) {
        Py_INCREF(value); /* the table's own goes */
        (void)PyDict_DelItem(state->parked, key);
    }
    PyErr_Clear();
    Py_XDECREF(key);
    return value;
}

PyObject *
ipu_py_raise(ipu_py_state *state, const ipu_ctx *ctx)
{
    if (PyErr_Occurred()) {
        return NULL;
    }
    if (ctx->status == IPU_STATUS_PYTHON) {
        PyObject *value = take_parked(state, ctx);
        if (value != NULL) {
            PyErr_SetObject((PyObject *)Py_TYPE(value), value);
            Py_DECREF(value);
            return NULL;
        }
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
        PyErr_Format(class, "%s", message); /* which replaces what is no UTF-8 */
    }
    Py_DECREF(class);
    return NULL;
}
