/* SPDX-License-Identifier: MIT
 *
 * `ipu._core.DatasetIterator`: one pass over a data set, flat tuples of eager
 * tensors.
 *
 * An iterator serves one thread at a time: the GIL is released while an element is
 * made, so a second caller would find it busy and gets an error, as with a Python
 * generator.
 *
 * An element of known size is written straight into its tensors. A large one is made
 * first: a batch larger than the data never comes, and should not take memory. */
#include "bind/bind.h"

#include <string.h>

#include "base/clock.h"

enum { LARGE_ELEMENT_BYTES = 64 << 20 };

typedef struct py_iterator {
    ipu_py_weak base;
    ipu_iterator *iterator; /* NULL: closed */
    PyObject *source;       /* the Dataset, or NULL */
    ipu_dataset *dataset;   /* its own */
    bool writes_tensors;    /* the size of elements is known, and not large */
    bool busy;
} py_iterator;

static bool
is_known(const ipu_type *type)
{
    for (int32_t axis = 0; axis < type->shape.rank; axis++) {
        if (type->shape.dims[axis] < 0) {
            return false;
        }
    }
    return type->shape.rank >= 0;
}

static bool
is_small(const ipu_type *types, uint32_t count)
{
    double bytes = 0; /* cannot overflow */
    for (uint32_t i = 0; i < count; i++) {
        double more = (double)ipu_dtype_bytes(types[i].dtype);
        if (!is_known(&types[i])) {
            return false;
        }
        for (int32_t axis = 0; axis < types[i].shape.rank; axis++) {
            more *= (double)types[i].shape.dims[axis];
        }
        bytes += more;
    }
    return bytes < LARGE_ELEMENT_BYTES;
}

static PyObject *
iterator_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords)
{
    static char *names[] = {"dataset", NULL};
    ipu_py_state *state = ipu_py_state_of_type(type);
    PyObject *dataset;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "O!:DatasetIterator", names,
                                     state->dataset_type, &dataset)) {
        return NULL;
    }
    py_iterator *self = (py_iterator *)type->tp_alloc(type, 0);
    if (self == NULL) {
        return NULL;
    }
    ipu_ctx ctx = ipu_py_ctx();
    ipu_status status;
    self->source = Py_NewRef(dataset);
    self->dataset = ipu_dataset_ref(ipu_py_dataset_of(dataset));
    const ipu_type *types;
    uint32_t count = ipu_dataset_types(self->dataset, &types);
    self->writes_tensors = is_small(types, count);
    Py_BEGIN_ALLOW_THREADS
    status = ipu_iterator_create(&ctx, self->dataset, &self->iterator);
    Py_END_ALLOW_THREADS
    if (!ipu_py_is_ok(&ctx, status)) {
        Py_CLEAR(self);
    }
    return (PyObject *)self;
}

/* A tuple of new tensors of these types; their memory in `buffers`. */
static PyObject *
new_tensors(ipu_py_state *state, const ipu_type *types, uint32_t count, void **buffers)
{
    PyObject *tuple = PyTuple_New((Py_ssize_t)count);
    for (uint32_t i = 0; tuple != NULL && i < count; i++) {
        ipu_py_tensor *tensor = ipu_py_tensor_new(state, &types[i]);
        buffers[i] = tensor == NULL ? NULL : ipu_py_tensor_data(tensor);
        ipu_py_put(&tuple, (Py_ssize_t)i, (PyObject *)tensor);
    }
    return tuple;
}

static PyObject *
make_element(py_iterator *self, ipu_py_state *state, ipu_ctx *ctx, void **buffers)
{
    const ipu_type *types;
    const void *const *parts = NULL;
    uint32_t count = ipu_dataset_types(self->dataset, &types);
    PyObject *tuple = NULL;
    ipu_status status;
    if (self->writes_tensors) {
        tuple = new_tensors(state, types, count, buffers);
        if (tuple == NULL) {
            return NULL;
        }
        Py_BEGIN_ALLOW_THREADS
        status = ipu_iterator_next_into(ctx, self->iterator, types, buffers);
        Py_END_ALLOW_THREADS
    } else {
        Py_BEGIN_ALLOW_THREADS
        status = ipu_iterator_next(ctx, self->iterator, &types, &parts);
        Py_END_ALLOW_THREADS
        if (status == IPU_OK) {
            tuple = new_tensors(state, types, count, buffers);
        }
        for (uint32_t i = 0; tuple != NULL && i < count; i++) {
            ipu_copy_bytes(buffers[i], parts[i], ipu_type_bytes(&types[i]));
        }
    }
    if (status != IPU_OK) {
        Py_CLEAR(tuple);
        if (status != IPU_STATUS_OUT_OF_RANGE) {
            return ipu_py_raise(ctx);
        }
    }
    return tuple;
}

static PyObject *
iterator_next(PyObject *object)
{
    py_iterator *self = (py_iterator *)object;
    const ipu_type *types;
    if (self->iterator == NULL) {
        return NULL;
    }
    if (self->busy) {
        return PyErr_Format(PyExc_RuntimeError,
                            "this data set iterator is already at work in another "
                            "thread; make one iterator for each thread");
    }
    uint32_t count = ipu_dataset_types(self->dataset, &types);
    void **buffers = PyMem_Calloc((size_t)count + 1, sizeof(*buffers));
    if (buffers == NULL) {
        return PyErr_NoMemory();
    }
    ipu_ctx ctx = ipu_py_ctx();
    ipu_py_patience patience;
    self->busy = true;
    ipu_py_patience_begin(&patience, &ctx);
    PyObject *result = make_element(self, ipu_py_state_of(object), &ctx, buffers);
    if (ipu_py_patience_end(&patience) < 0) {
        Py_CLEAR(result);
    }
    self->busy = false;
    PyMem_Free(buffers);
    return result;
}

static PyObject *
iterator_read(PyObject *object, PyObject *args)
{
    py_iterator *self = (py_iterator *)object;
    long long count;
    int copy;
    if (!PyArg_ParseTuple(args, "Lp:read", &count, &copy)) {
        return NULL;
    }
    if (self->iterator == NULL || self->busy) {
        PyErr_SetString(PyExc_RuntimeError, "the iterator is closed, or at work");
        return NULL;
    }
    ipu_ctx ctx = ipu_py_ctx();
    ipu_status status;
    uint64_t bytes = 0;
    uint64_t ns;
    ipu_py_patience patience;
    self->busy = true;
    ipu_py_patience_begin(&patience, &ctx);
    Py_BEGIN_ALLOW_THREADS
    ns = ipu_now_ns();
    status = ipu_iterator_read(&ctx, self->iterator, count, copy != 0, &bytes);
    ns = ipu_now_ns() - ns;
    Py_END_ALLOW_THREADS
    self->busy = false;
    return ipu_py_patience_is_ok(&patience, &ctx, status)
               ? Py_BuildValue("(Kd)", (unsigned long long)bytes, 1e-9 * (double)ns)
               : NULL;
}

static void
end_pass(py_iterator *self)
{
    ipu_iterator *iterator = self->iterator;
    self->iterator = NULL;
    Py_BEGIN_ALLOW_THREADS
    ipu_iterator_free(iterator);
    Py_END_ALLOW_THREADS
}

static PyObject *
iterator_close(PyObject *object, PyObject *Py_UNUSED(ignored))
{
    py_iterator *self = (py_iterator *)object;
    if (self->busy) {
        return PyErr_Format(PyExc_RuntimeError,
                            "a data set iterator cannot be closed while it is at work "
                            "in another thread");
    }
    end_pass(self);
    Py_RETURN_NONE;
}

static int
iterator_traverse(PyObject *object, visitproc visit, void *arg)
{
    py_iterator *self = (py_iterator *)object;
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(self->source);
    return self->busy ? 0 : ipu_py_dataset_visit(self->iterator, visit, arg);
}

static int
iterator_clear(PyObject *object)
{
    py_iterator *self = (py_iterator *)object;
    end_pass(self);
    Py_CLEAR(self->source);
    return 0;
}

static void
iterator_dealloc(PyObject *object)
{
    ipu_dataset *dataset = ((py_iterator *)object)->dataset;
    PyObject_GC_UnTrack(object);
    PyObject_ClearWeakRefs(object);
    iterator_clear(object);
    Py_BEGIN_ALLOW_THREADS
    ipu_dataset_unref(dataset);
    Py_END_ALLOW_THREADS
    ipu_py_free(object);
}

static PyMethodDef methods[] = {
    {"read", iterator_read, METH_VARARGS,
     "Makes elements, and with `copy` writes them into memory as an infeed would; "
     "returns (bytes, seconds)."},
    {"close", iterator_close, METH_NOARGS,
     "Ends the pass and its threads; nothing where that has happened."},
    {NULL, NULL, 0, NULL},
};

IPU_PY_TYPE(dataset_iterator, "DatasetIterator", py_iterator, Py_TPFLAGS_HAVE_GC,
            {Py_tp_doc, "One pass over a data set: tuples of tensors."},
            {Py_tp_new, iterator_new}, {Py_tp_dealloc, iterator_dealloc},
            {Py_tp_traverse, iterator_traverse}, {Py_tp_clear, iterator_clear},
            {Py_tp_iter, PyObject_SelfIter}, {Py_tp_iternext, iterator_next},
            {Py_tp_methods, methods}, {Py_tp_members, ipu_py_weak_members});
