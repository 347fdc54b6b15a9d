/* SPDX-License-Identifier: MIT
 *
 * ipu._core.HostFunction: a Python function that programs call in their middle, on the
 * thread that runs the program. So signals reach it as they reach any Python code, and
 * its exception becomes the run's, with its traceback. */
#define NO_IMPORT_ARRAY
#include "bind/bind.h"

#include <string.h>

enum { NOT_THERE = -1 };

typedef struct py_host {
    PyObject_HEAD
    PyObject *device;
    PyObject *callable;
    int64_t id; /* on the device; NOT_THERE: it was never added */
    Py_ssize_t operands;
    ipu_type *types;
    ipu_host_function function;
} py_host;

/* A tuple of tensors with copies of the operands; the program's memory moves on. */
static PyObject *
operands_of(py_host *self, const void *const *inputs)
{
    ipu_py_state *state = ipu_py_state_of(self);
    PyObject *tuple = PyTuple_New(self->operands);
    for (Py_ssize_t i = 0; tuple != NULL && i < self->operands; i++) {
        ipu_py_tensor *tensor = ipu_py_tensor_new(state, &self->types[i]);
        size_t bytes = ipu_type_bytes(&self->types[i]);
        if (tensor != NULL && bytes > 0) {
            memcpy(ipu_py_tensor_data(tensor), inputs[i], bytes);
        }
        ipu_py_put(&tuple, i, (PyObject *)tensor);
    }
    return tuple;
}

static int
take_results(const py_host *self, PyObject *results, void *const *outputs)
{
    Py_ssize_t count = (Py_ssize_t)self->function.type_count - self->operands;
    PyObject *items = PySequence_Tuple(results);
    if (items != NULL && PyTuple_GET_SIZE(items) != count) {
        PyErr_Format(PyExc_ValueError,
                     "a function of the host's gave %zd results, not %zd",
                     PyTuple_GET_SIZE(items), count);
        Py_CLEAR(items);
    }
    bool is_ok = items != NULL;
    for (Py_ssize_t i = 0; is_ok && i < count; i++) {
        const ipu_type *type = &self->types[self->operands + i];
        PyObject *array = ipu_py_as_array(PyTuple_GET_ITEM(items, i), type);
        size_t bytes = ipu_type_bytes(type);
        is_ok = array != NULL;
        if (is_ok && bytes > 0) {
            memcpy(outputs[i], ipu_py_array_data(array), bytes);
        }
        Py_XDECREF(array);
    }
    Py_XDECREF(items);
    return is_ok ? 0 : -1;
}

static ipu_status
call_host(ipu_ctx *ctx, void *state, const void *const *inputs, void *const *outputs)
{
    py_host *self = state;
    ipu_py_entry entry = ipu_py_enter();
    PyObject *operands = operands_of(self, inputs);
    PyObject *results =
        operands == NULL ? NULL : PyObject_Call(self->callable, operands, NULL);
    ipu_status status = IPU_OK;
    if (results == NULL || take_results(self, results, outputs) < 0) {
        status = ipu_py_fail(ctx);
    }
    Py_XDECREF(results);
    Py_XDECREF(operands);
    return ipu_py_leave(ctx, entry, status);
}

static PyObject *
host_new(PyTypeObject *cls, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"device", "callable", "operands", "results", NULL};
    PyObject *device;
    PyObject *callable;
    PyObject *operands;
    PyObject *results;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!OOO:HostFunction", names,
                                     ipu_py_state_of_type(cls)->device_type, &device,
                                     &callable, &operands, &results)) {
        return NULL;
    }
    Py_ssize_t operand_count = PySequence_Size(operands);
    PyObject *list = operand_count < 0 ? NULL : PySequence_Concat(operands, results);
    uint32_t count;
    ipu_type *types =
        list == NULL ? NULL : ipu_py_types(list, ipu_py_type_converter, &count);
    Py_XDECREF(list);
    py_host *self = types == NULL ? NULL : (py_host *)cls->tp_alloc(cls, 0);
    if (self == NULL) {
        PyMem_Free(types);
        return NULL;
    }
    self->device = Py_NewRef(device);
    self->callable = Py_NewRef(callable);
    self->id = NOT_THERE;
    self->operands = operand_count;
    self->types = types;
    self->function = (ipu_host_function){call_host, self, types, count};
    ipu_ctx ctx = ipu_py_ctx();
    if (!ipu_py_is_ok(&ctx, ipu_device_host_add(&ctx, ipu_py_device_of(device),
                                                &self->function, &self->id))) {
        Py_CLEAR(self);
    }
    return (PyObject *)self;
}

/* Off the device's registry: programs that call it fail from then on. */
static ipu_status
unregister(ipu_ctx *ctx, py_host *self)
{
    if (self->id != NOT_THERE) {
        IPU_TRY(ipu_device_queue_remove(ctx, ipu_py_device_of(self->device), self->id));
        self->id = NOT_THERE;
    }
    return IPU_OK;
}

static PyObject *
host_remove(PyObject *self, PyObject *Py_UNUSED(ignored))
{
    ipu_ctx ctx = ipu_py_ctx();
    return ipu_py_none(&ctx, unregister(&ctx, (py_host *)self));
}

/* Of an operand or a result, before a program is made. */
static PyObject *
host_set_type(PyObject *object, PyObject *args)
{
    py_host *self = (py_host *)object;
    unsigned int number;
    ipu_type type;
    if (!PyArg_ParseTuple(args, "IO&:set_type", &number, ipu_py_type_converter,
                          &type)) {
        return NULL;
    }
    if (number >= self->function.type_count) {
        PyErr_Format(PyExc_IndexError, "the function has %u types",
                     self->function.type_count);
        return NULL;
    }
    self->types[number] = type;
    Py_RETURN_NONE;
}

/* A run may be in it, so it is never cleared: those around it in a circle are. */
static int
host_traverse(PyObject *object, visitproc visit, void *arg)
{
    py_host *self = (py_host *)object;
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(self->device);
    Py_VISIT(self->callable);
    return 0;
}

static void
host_dealloc(PyObject *object)
{
    py_host *self = (py_host *)object;
    ipu_ctx ctx = ipu_py_ctx();
    PyObject_GC_UnTrack(object);
    if (self->device == NULL || unregister(&ctx, self) == IPU_OK) {
        Py_XDECREF(self->callable);
        PyMem_Free(self->types);
    }
    Py_XDECREF(self->device);
    ipu_py_free(object);
}

#define ATTRIBUTES(X, T) \
    X(T, id, PyLong_FromLongLong(self->id), NULL, "Its id on its device.") \
    X(T, types, ipu_py_type_list(self->types, self->function.type_count), NULL, \
      "(dtype, shape) of each operand, then of each result.")
IPU_PY_ATTRIBUTES(py_host, ATTRIBUTES);

static PyMethodDef host_methods[] = {
    {"set_type", host_set_type, METH_VARARGS,
     "Gives an operand or a result another type, before a program is made."},
    {"remove", host_remove, METH_NOARGS, "Takes it off the device."},
    {NULL, NULL, 0, NULL},
};

IPU_PY_TYPE(host_function, "HostFunction", py_host, Py_TPFLAGS_HAVE_GC,
            {Py_tp_doc, "A Python function that programs of a device call."},
            {Py_tp_new, host_new}, {Py_tp_methods, host_methods},
            {Py_tp_getset, py_host_getset}, {Py_tp_dealloc, host_dealloc},
            {Py_tp_traverse, host_traverse});
