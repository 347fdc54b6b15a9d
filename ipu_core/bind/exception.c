/* SPDX-License-Identifier: MIT
 *
 * The one road from a status to a Python exception: that of the name in the status
 * list, among the built-in ones or in ipu._text.errors. */
#include "bind/bind.h"

static const char *const exceptions[] = {
#define X(name, text, exception) #exception,
    IPU_STATUS_LIST(X)
#undef X
};

/* New reference. */
static PyObject *
exception_class(ipu_status status)
{
    const char *name = exceptions[status];
    PyObject *module = PyImport_AddModule("builtins"); /* borrowed */
    if (module != NULL && PyObject_HasAttrString(module, name)) {
        return PyObject_GetAttrString(module, name);
    }
    module = PyImport_ImportModule("ipu._text.errors");
    PyObject *class = module == NULL ? NULL : PyObject_GetAttrString(module, name);
    Py_XDECREF(module);
    return class;
}

/* An exception on its way. It is raised again and again where an infeed has failed:
 * always with the traceback that it came with, and without the frames of the times
 * before. */
typedef struct exception_cause {
    ipu_cause base;
    PyObject *value;
    PyObject *traceback; /* or NULL */
} exception_cause;

static void
cause_free(ipu_cause *cause)
{
    exception_cause *self = (exception_cause *)cause;
    if (Py_IsInitialized()) {
        ipu_py_entry entry = ipu_py_enter();
        Py_DECREF(self->value);
        Py_XDECREF(self->traceback);
        (void)ipu_py_leave(NULL, entry, IPU_OK);
    }
    PyMem_RawFree(self);
}

int
ipu_py_cause_visit(ipu_cause *cause, visitproc visit, void *arg)
{
    exception_cause *self = (exception_cause *)cause;
    Py_VISIT(self->value);
    Py_VISIT(self->traceback);
    return 0;
}

ipu_status
ipu_py_fail(ipu_ctx *ctx)
{
    PyObject *type;
    exception_cause *cause = PyMem_RawCalloc(1, sizeof(*cause));
    if (cause == NULL) {
        PyErr_Clear();
        IPU_FAIL(ctx, OUT_OF_MEMORY, "out of memory: an exception cannot be kept");
    }
    cause->base = (ipu_cause){.holders = 1, .free = cause_free};
    PyErr_Fetch(&type, &cause->value, &cause->traceback);
    PyErr_NormalizeException(&type, &cause->value, &cause->traceback);
    Py_XDECREF(type); /* the value has it */
    if (ctx->status == IPU_OK) {
        ctx->cause = &cause->base;
    } else {
        cause_free(&cause->base);
    }
    IPU_FAIL(ctx, PYTHON, "an exception of Python's");
}

static void
raise_cause(const ipu_cause *cause)
{
    const exception_cause *self = (const exception_cause *)cause;
    PyErr_Restore(Py_NewRef(Py_TYPE(self->value)), Py_NewRef(self->value),
                  Py_XNewRef(self->traceback));
}

/* An exception is set, and stays so whatever freeing the cause runs. */
static void
drop_quietly(ipu_cause *cause)
{
    PyObject *type;
    PyObject *value;
    PyObject *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    ipu_cause_drop(cause);
    PyErr_Restore(type, value, traceback);
}

PyObject *
ipu_py_raise(ipu_ctx *ctx)
{
    ipu_cause *cause = ctx->cause;
    bool is_set = PyErr_Occurred() != NULL;
    if (!is_set && cause != NULL) {
        raise_cause(cause);
    }
    ctx->cause = NULL;
    if (is_set || cause != NULL) {
        drop_quietly(cause);
        return NULL;
    }
    PyObject *class = exception_class(ctx->status);
    if (class == NULL) {
        return NULL;
    }
    const char *message =
        ctx->message[0] == '\0' ? ipu_status_name(ctx->status) : ctx->message;
    if (ctx->source.file != NULL) {
        PyErr_Format(class, "%s [%s:%d]", message, ctx->source.file,
                     (int)ctx->source.line);
    } else {
        PyErr_Format(class, "%s", message); /* which replaces bytes that are not UTF-8 */
    }
    Py_DECREF(class);
    return NULL;
}

bool
ipu_py_is_ok(ipu_ctx *ctx, ipu_status status)
{
    if (status != IPU_OK) {
        ipu_py_raise(ctx);
    }
    return status == IPU_OK;
}

PyObject *
ipu_py_none(ipu_ctx *ctx, ipu_status status)
{
    return ipu_py_is_ok(ctx, status) ? Py_NewRef(Py_None) : NULL;
}
