/* SPDX-License-Identifier: MIT
 *
 * ipu._core.Infeed and ipu._core.Outfeed: rings between the host and a device. */
#define NO_IMPORT_ARRAY
#include "bind/bind.h"

#include <string.h>

enum { NOT_THERE = -1 };

typedef struct py_queue {
    PyObject_HEAD
    PyObject *device;
    int64_t id; /* on the device, from 0 on; NOT_THERE: removed, or not added yet */
    ipu_infeed *infeed;
    ipu_outfeed *outfeed;
} py_queue;

ipu_infeed *
ipu_py_infeed_of(PyObject *infeed)
{
    return ((py_queue *)infeed)->infeed;
}

/* A new queue on `device` without its ring, and the types in `list`, freed by
 * PyMem_Free; NULL with an exception. */
static py_queue *
queue_alloc(PyTypeObject *cls, PyObject *device, PyObject *list, ipu_type **types,
            uint32_t *count)
{
    if (!PyObject_TypeCheck(device, ipu_py_state_of_type(cls)->device_type)) {
        PyErr_Format(PyExc_TypeError, "expected a Device, but got %R", device);
        return NULL;
    }
    *types = ipu_py_types(list, ipu_py_type_converter, count);
    if (*types != NULL && *count == 0) {
        PyErr_SetString(PyExc_ValueError, "a queue has at least one component");
    }
    py_queue *self =
        *types == NULL || *count == 0 ? NULL : (py_queue *)cls->tp_alloc(cls, 0);
    if (self == NULL) {
        PyMem_Free(*types);
        return NULL;
    }
    self->device = Py_NewRef(device);
    self->id = NOT_THERE;
    return self;
}

static PyObject *
infeed_new(PyTypeObject *cls, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"device", "types", "depth", "after", NULL};
    PyObject *after = NULL;
    PyObject *device;
    PyObject *list;
    int depth = 3;
    ipu_type *types;
    uint32_t count;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO|iO!:Infeed", names, &device,
                                     &list, &depth,
                                     ipu_py_state_of_type(cls)->infeed_type, &after)) {
        return NULL;
    }
    py_queue *self = queue_alloc(cls, device, list, &types, &count);
    if (self == NULL) {
        return NULL;
    }
    ipu_ctx ctx = ipu_py_ctx();
    int32_t replicas = ipu_device_ipus(ipu_py_device_of(device));
    uint32_t ahead = after == NULL ? 0 : ipu_infeed_ahead(ipu_py_infeed_of(after));
    if (ahead > (uint32_t)depth && (int32_t)ahead > replicas) {
        replicas = (int32_t)ahead;
    }
    ipu_status status =
        ipu_infeed_create(&ctx, types, count, depth, replicas, &self->infeed);
    if (status == IPU_OK) {
        status = ipu_device_infeed_add(&ctx, ipu_py_device_of(device), self->infeed,
                                       &self->id);
    }
    PyMem_Free(types);
    if (!ipu_py_is_ok(&ctx, status)) {
        Py_DECREF(self);
        return NULL;
    }
    ipu_infeed_close(self->infeed); /* until a Feeder opens it */
    return (PyObject *)self;
}

static PyObject *
outfeed_new(PyTypeObject *cls, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"device", "types", "last", "depth", NULL};
    PyObject *device;
    PyObject *list;
    int last = 0;
    int depth = 3;
    ipu_type *types;
    uint32_t count;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO|pi:Outfeed", names, &device,
                                     &list, &last, &depth)) {
        return NULL;
    }
    py_queue *self = queue_alloc(cls, device, list, &types, &count);
    if (self == NULL) {
        return NULL;
    }
    ipu_ctx ctx = ipu_py_ctx();
    ipu_status status = ipu_outfeed_create(&ctx, types, count,
                                           last ? IPU_OUTFEED_LAST : IPU_OUTFEED_ALL,
                                           depth, &self->outfeed);
    if (status == IPU_OK) {
        status = ipu_device_outfeed_add(&ctx, ipu_py_device_of(device), self->outfeed,
                                        &self->id);
    }
    PyMem_Free(types);
    if (!ipu_py_is_ok(&ctx, status)) {
        Py_CLEAR(self);
    }
    return (PyObject *)self;
}

/* Off the device's registry. A queue that a running program uses cannot go. */
static ipu_status
unregister(ipu_ctx *ctx, py_queue *self)
{
    if (self->id == NOT_THERE) {
        return IPU_OK;
    }
    IPU_TRY(ipu_device_queue_remove(ctx, ipu_py_device_of(self->device), self->id));
    self->id = NOT_THERE;
    return IPU_OK;
}

/* From its device to another one, with all that is there. */
static PyObject *
outfeed_move(PyObject *object, PyObject *device)
{
    py_queue *self = (py_queue *)object;
    ipu_ctx ctx = ipu_py_ctx();
    int64_t id;
    if (!PyObject_TypeCheck(device, ipu_py_state_of(self)->device_type)) {
        return PyErr_Format(PyExc_TypeError, "expected a Device, but got %R", device);
    }
    if (!ipu_py_is_ok(&ctx, unregister(&ctx, self)) ||
        !ipu_py_is_ok(&ctx, ipu_device_outfeed_add(&ctx, ipu_py_device_of(device),
                                                   self->outfeed, &id))) {
        return NULL;
    }
    Py_SETREF(self->device, Py_NewRef(device));
    self->id = id;
    Py_RETURN_NONE;
}

static PyObject *
queue_remove(PyObject *self, PyObject *Py_UNUSED(ignored))
{
    ipu_ctx ctx = ipu_py_ctx();
    return ipu_py_none(&ctx, unregister(&ctx, (py_queue *)self));
}

static PyObject *
queue_delete(PyObject *object, PyObject *Py_UNUSED(ignored))
{
    py_queue *self = (py_queue *)object;
    ipu_ctx ctx = ipu_py_ctx();
    ipu_device *device = ipu_py_device_of(self->device);
    return ipu_py_none(&ctx, self->id == NOT_THERE
                                 ? IPU_OK
                                 : ipu_device_queue_delete(&ctx, device, self->id));
}

typedef struct visited_cause {
    visitproc visit;
    void *arg;
    int result;
} visited_cause;

static void
visit_cause(void *state, ipu_cause *cause)
{
    visited_cause *visited = state;
    visited->result = ipu_py_cause_visit(cause, visited->visit, visited->arg);
}

static int
queue_traverse(PyObject *object, visitproc visit, void *arg)
{
    py_queue *self = (py_queue *)object;
    visited_cause visited = {visit, arg, 0};
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(self->device);
    if (self->infeed != NULL) {
        ipu_infeed_visit_cause(self->infeed, visit_cause, &visited);
    }
    return visited.result;
}

/* The device holds no objects. The exception that an infeed failed with does: the
 * frames that it went through. */
static int
queue_clear(PyObject *object)
{
    py_queue *self = (py_queue *)object;
    if (self->infeed != NULL) {
        ipu_infeed_drop_cause(self->infeed);
    }
    return 0;
}

static void
close_ring(py_queue *self)
{
    if (self->infeed != NULL) {
        ipu_infeed_close(self->infeed);
    }
    if (self->outfeed != NULL) {
        ipu_outfeed_close(self->outfeed);
    }
}

static void
queue_dealloc(PyObject *object)
{
    py_queue *self = (py_queue *)object;
    ipu_ctx ctx = ipu_py_ctx();
    PyObject_GC_UnTrack(object);
    close_ring(self);
    if (self->device == NULL || unregister(&ctx, self) == IPU_OK) {
        Py_BEGIN_ALLOW_THREADS
        ipu_infeed_free(&ctx, self->infeed);
        ipu_outfeed_free(&ctx, self->outfeed);
        Py_END_ALLOW_THREADS
    }
    Py_XDECREF(self->device);
    ipu_py_free(object);
}

static PyObject *
queue_close(PyObject *self, PyObject *Py_UNUSED(ignored))
{
    close_ring((py_queue *)self);
    Py_RETURN_NONE;
}

static PyObject *
outfeed_wait(PyObject *object, PyObject *args)
{
    py_queue *self = (py_queue *)object;
    long long at_least = 1;
    double timeout_s = -1.0;
    unsigned long long ends = UINT64_MAX;
    int64_t available;
    if (!PyArg_ParseTuple(args, "|LdK:wait", &at_least, &timeout_s, &ends)) {
        return NULL;
    }
    int64_t timeout_ns = timeout_s < 0 ? -1 : (int64_t)(timeout_s * 1e9);
    Py_BEGIN_ALLOW_THREADS
    available = ipu_outfeed_wait(self->outfeed, at_least, ends, timeout_ns);
    Py_END_ALLOW_THREADS
    return PyLong_FromLongLong(available);
}

static bool
add_first_axis(ipu_type *type, int64_t size)
{
    if (type->shape.rank == IPU_MAX_RANK) {
        PyErr_SetString(PyExc_ValueError, "no room for the first axis");
        return false;
    }
    type->shape.rank++;
    memmove(&type->shape.dims[1], &type->shape.dims[0],
            (size_t)(type->shape.rank - 1) * sizeof(type->shape.dims[0]));
    type->shape.dims[0] = size;
    return true;
}

/* Tensors for `count` elements ([count, ...] each), or for one without the first axis.
 * An element has of a component what all replicas have of it, if there are several. */
static PyObject *
new_tensors(py_queue *self, uint32_t replicas, int64_t count, bool last)
{
    const ipu_type *types;
    uint32_t type_count = ipu_outfeed_types(self->outfeed, &types);
    PyObject *list = PyList_New(type_count);
    for (uint32_t i = 0; list != NULL && i < type_count; i++) {
        ipu_type type = types[i];
        bool fits = (replicas == 1 || add_first_axis(&type, replicas)) &&
                    (last || add_first_axis(&type, count));
        ipu_py_put(&list, i,
                   fits ? (PyObject *)ipu_py_tensor_new(ipu_py_state_of(self), &type)
                        : NULL);
    }
    return list;
}

static void *
data_of(PyObject *list, uint32_t i)
{
    return ipu_py_tensor_data((ipu_py_tensor *)PyList_GET_ITEM(list, i));
}

/* The first `taken` elements of tensors that had room for more. */
static PyObject *
shortened(py_queue *self, uint32_t replicas, int64_t taken, PyObject *full)
{
    const ipu_type *types;
    uint32_t type_count = ipu_outfeed_types(self->outfeed, &types);
    PyObject *list = new_tensors(self, replicas, taken, false);
    for (uint32_t i = 0; list != NULL && i < type_count; i++) {
        ipu_copy_bytes(data_of(list, i), data_of(full, i),
                       (size_t)taken * replicas * ipu_type_bytes(&types[i]));
    }
    return list;
}

/* The oldest `limit` elements, all there are if it is negative; with `last` the newest
 * one, or None. */
static PyObject *
take(py_queue *self, int64_t limit, bool last)
{
    uint32_t replicas = ipu_outfeed_replicas(self->outfeed);
    int64_t available = ipu_outfeed_wait(self->outfeed, 0, UINT64_MAX, 0);
    int64_t count = limit < 0 || limit > available ? available : limit;
    if (last && count == 0) {
        Py_RETURN_NONE;
    }
    PyObject *list = new_tensors(self, replicas, count, last);
    if (list == NULL) {
        return NULL;
    }
    void **data = PyMem_New(void *, (size_t)PyList_GET_SIZE(list));
    if (data == NULL) {
        Py_DECREF(list);
        return PyErr_NoMemory();
    }
    for (uint32_t i = 0; i < (uint32_t)PyList_GET_SIZE(list); i++) {
        data[i] = data_of(list, i);
    }
    ipu_ctx ctx = ipu_py_ctx();
    int64_t taken = 0;
    ipu_status status;
    Py_BEGIN_ALLOW_THREADS
    status = ipu_outfeed_take(&ctx, self->outfeed, count, replicas, data, &taken);
    Py_END_ALLOW_THREADS
    PyMem_Free(data);
    if (status == IPU_OK && taken == count) {
        return list;
    }
    /* another thread took some in between, or the storage could not grow */
    PyObject *result = NULL;
    if (status != IPU_OK) {
        ipu_py_raise(&ctx);
    } else {
        result = last ? Py_NewRef(Py_None) : shortened(self, replicas, taken, list);
    }
    Py_DECREF(list);
    return result;
}

static PyObject *
outfeed_take(PyObject *object, PyObject *args)
{
    long long limit = -1;
    int last = 0;
    if (!PyArg_ParseTuple(args, "|Lp:take", &limit, &last)) {
        return NULL;
    }
    return take((py_queue *)object, limit, last != 0);
}

/* Row number `row` of tensors [n, ...], as a tuple. */
static PyObject *
row_of(py_queue *self, PyObject *whole, int64_t row)
{
    ipu_py_state *state = ipu_py_state_of(self);
    Py_ssize_t count = PyList_GET_SIZE(whole);
    PyObject *tuple = PyTuple_New(count);
    for (Py_ssize_t i = 0; tuple != NULL && i < count; i++) {
        ipu_py_tensor *from = (ipu_py_tensor *)PyList_GET_ITEM(whole, i);
        ipu_type type = from->type; /* [n, ...] */
        type.shape.rank--;
        memmove(&type.shape.dims[0], &type.shape.dims[1],
                (size_t)type.shape.rank * sizeof(type.shape.dims[0]));
        ipu_py_tensor *tensor = ipu_py_tensor_new(state, &type);
        size_t bytes = ipu_type_bytes(&type);
        if (tensor != NULL && bytes > 0) {
            memcpy(ipu_py_tensor_data(tensor),
                   (const char *)ipu_py_tensor_data(from) + (size_t)row * bytes, bytes);
        }
        ipu_py_put(&tuple, i, (PyObject *)tensor);
    }
    return tuple;
}

static PyObject *
outfeed_take_each(PyObject *object, PyObject *Py_UNUSED(ignored))
{
    py_queue *self = (py_queue *)object;
    PyObject *whole = take(self, -1, false);
    if (whole == NULL) {
        return NULL;
    }
    int64_t count = ((ipu_py_tensor *)PyList_GET_ITEM(whole, 0))->type.shape.dims[0];
    PyObject *list = PyList_New((Py_ssize_t)count);
    for (int64_t row = 0; list != NULL && row < count; row++) {
        ipu_py_put(&list, (Py_ssize_t)row, row_of(self, whole, row));
    }
    Py_DECREF(whole);
    return list;
}

static PyObject *
types_of(py_queue *self)
{
    const ipu_type *types;
    uint32_t count = self->infeed != NULL ? ipu_infeed_types(self->infeed, &types)
                                          : ipu_outfeed_types(self->outfeed, &types);
    return ipu_py_type_list(types, count);
}

#define ATTRIBUTES(X, T) \
    X(T, id, PyLong_FromLongLong(self->id), NULL, "The queue's id on its device.") \
    X(T, types, types_of(self), NULL, "(dtype, shape) of each component.")
#define OUTFEED_ATTRIBUTES(X, T) \
    X(T, ends, PyLong_FromUnsignedLongLong(ipu_outfeed_ends(self->outfeed)), NULL, \
      "How many runs and deletions there were.")
IPU_PY_ATTRIBUTES(py_queue, ATTRIBUTES);
OUTFEED_ATTRIBUTES(IPU_PY_GETTER, py_queue)
static PyGetSetDef outfeed_getset[] = {
    ATTRIBUTES(IPU_PY_GETSET, py_queue) OUTFEED_ATTRIBUTES(IPU_PY_GETSET, py_queue){0}};

static PyMethodDef infeed_methods[] = {
    {"remove", queue_remove, METH_NOARGS, "Takes it off the device."},
    {"close", queue_close, METH_NOARGS, "Ends everyone who waits on it."},
    {"delete", queue_delete, METH_NOARGS, "Closes it until a Feeder opens it again."},
    {NULL, NULL, 0, NULL},
};

static PyMethodDef outfeed_methods[] = {
    {"remove", queue_remove, METH_NOARGS, "Takes it off the device."},
    {"close", queue_close, METH_NOARGS, "Ends everyone who waits on it."},
    {"delete", queue_delete, METH_NOARGS, "Drops what is there."},
    {"move", outfeed_move, METH_O, "Takes it to another device."},
    {"wait", outfeed_wait, METH_VARARGS,
     "Waits (seconds; negative: for ever) until so many elements are there, or until "
     "its `ends` differ; returns how many are."},
    {"take", outfeed_take, METH_VARARGS,
     "Takes the oldest elements: a tensor [n, ...] for each component. With `last` the "
     "newest one, or None."},
    {"take_each", outfeed_take_each, METH_NOARGS,
     "Takes all elements: a tuple of tensors for each."},
    {NULL, NULL, 0, NULL},
};

IPU_PY_TYPE(infeed, "Infeed", py_queue, Py_TPFLAGS_HAVE_GC,
            {Py_tp_doc,
             "A ring from the host to a device. It has room for what `after` holds."},
            {Py_tp_new, infeed_new}, {Py_tp_methods, infeed_methods},
            {Py_tp_getset, py_queue_getset}, {Py_tp_dealloc, queue_dealloc},
            {Py_tp_traverse, queue_traverse}, {Py_tp_clear, queue_clear});
IPU_PY_TYPE(outfeed, "Outfeed", py_queue, Py_TPFLAGS_HAVE_GC,
            {Py_tp_doc, "A ring from a device to the host."}, {Py_tp_new, outfeed_new},
            {Py_tp_methods, outfeed_methods}, {Py_tp_getset, outfeed_getset},
            {Py_tp_dealloc, queue_dealloc}, {Py_tp_traverse, queue_traverse},
            {Py_tp_clear, queue_clear});
