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

/* The types in a list, which the caller frees by PyMem_Free; NULL on an error. */
static ipu_type *
parse_types(PyObject *list, uint32_t *count)
{
    PyObject *items = PySequence_Tuple(list);
    if (items == NULL) {
        return NULL;
    }
    Py_ssize_t size = PyTuple_GET_SIZE(items);
    ipu_type *types = NULL;
    if (size < 1) {
        PyErr_SetString(PyExc_ValueError, "a queue has at least one component");
    } else if ((types = PyMem_New(ipu_type, (size_t)size)) == NULL) {
        PyErr_NoMemory();
    }
    for (Py_ssize_t i = 0; types != NULL && i < size; i++) {
        if (ipu_py_parse_type_tuple(PyTuple_GET_ITEM(items, i), false, &types[i]) < 0) {
            PyMem_Free(types);
            types = NULL;
        }
    }
    *count = (uint32_t)size;
    Py_DECREF(items);
    return types;
}

static py_queue *
queue_alloc(PyTypeObject *cls, PyObject *device)
{
    ipu_py_state *state = ipu_py_state_of_type(cls);
    if (!PyObject_TypeCheck(device, state->device_type)) {
        PyErr_Format(PyExc_TypeError, "expected a Device, but got %R", device);
        return NULL;
    }
    py_queue *self = (py_queue *)cls->tp_alloc(cls, 0);
    if (self != NULL) {
        self->device = Py_NewRef(device);
        self->id = NOT_THERE;
    }
    return self;
}

static PyObject *
infeed_new(PyTypeObject *cls, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"device", "types", "depth", "after", NULL};
    ipu_py_state *state = ipu_py_state_of_type(cls);
    PyObject *after = NULL;
    PyObject *device;
    PyObject *list;
    int depth = 3;
    ipu_type *types;
    uint32_t count;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO|iO!:Infeed", names, &device, &list,
                                     &depth, state->infeed_type, &after) ||
        (types = parse_types(list, &count)) == NULL) {
        return NULL;
    }
    py_queue *self = queue_alloc(cls, device);
    if (self == NULL) {
        PyMem_Free(types);
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
    PyMem_Free(types);
    if (status != IPU_OK ||
        ipu_device_infeed_add(&ctx, ipu_py_device_of(device), self->infeed,
                              &self->id) != IPU_OK) {
        Py_DECREF(self);
        return ipu_py_raise(ipu_py_state_of_type(cls), &ctx);
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
                                     &list, &last, &depth) ||
        (types = parse_types(list, &count)) == NULL) {
        return NULL;
    }
    py_queue *self = queue_alloc(cls, device);
    if (self == NULL) {
        PyMem_Free(types);
        return NULL;
    }
    ipu_ctx ctx = ipu_py_ctx();
    ipu_status status = ipu_outfeed_create(&ctx, types, count,
                                           last ? IPU_OUTFEED_LAST : IPU_OUTFEED_ALL,
                                           depth, &self->outfeed);
    PyMem_Free(types);
    if (status != IPU_OK ||
        ipu_device_outfeed_add(&ctx, ipu_py_device_of(device), self->outfeed,
                               &self->id) != IPU_OK) {
        Py_DECREF(self);
        return ipu_py_raise(ipu_py_state_of_type(cls), &ctx);
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
    ipu_py_state *state = ipu_py_state_of_type(Py_TYPE(object));
    ipu_ctx ctx = ipu_py_ctx();
    int64_t id;
    if (!PyObject_TypeCheck(device, state->device_type)) {
        return PyErr_Format(PyExc_TypeError, "expected a Device, but got %R", device);
    }
    if (unregister(&ctx, self) != IPU_OK ||
        ipu_device_outfeed_add(&ctx, ipu_py_device_of(device), self->outfeed, &id) !=
            IPU_OK) {
        return ipu_py_raise(state, &ctx);
    }
    Py_SETREF(self->device, Py_NewRef(device));
    self->id = id;
    Py_RETURN_NONE;
}

static PyObject *
queue_remove(PyObject *object, PyObject *Py_UNUSED(ignored))
{
    py_queue *self = (py_queue *)object;
    ipu_ctx ctx = ipu_py_ctx();
    if (unregister(&ctx, self) != IPU_OK) {
        return ipu_py_raise(ipu_py_state_of_type(Py_TYPE(self)), &ctx);
    }
    Py_RETURN_NONE;
}

static PyObject *
queue_delete(PyObject *object, PyObject *Py_UNUSED(ignored))
{
    py_queue *self = (py_queue *)object;
    ipu_ctx ctx = ipu_py_ctx();
    if (self->id != NOT_THERE &&
        ipu_device_queue_delete(&ctx, ipu_py_device_of(self->device), self->id) !=
            IPU_OK) {
        return ipu_py_raise(ipu_py_state_of_type(Py_TYPE(self)), &ctx);
    }
    Py_RETURN_NONE;
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
queue_dealloc(PyObject *object)
{
    py_queue *self = (py_queue *)object;
    PyTypeObject *type = Py_TYPE(self);
    ipu_ctx ctx = ipu_py_ctx();
    PyObject_GC_UnTrack(object);
    if (self->infeed != NULL) {
        ipu_infeed_close(self->infeed);
    }
    if (self->outfeed != NULL) {
        ipu_outfeed_close(self->outfeed);
    }
    if (self->device == NULL || unregister(&ctx, self) == IPU_OK) {
        Py_BEGIN_ALLOW_THREADS
        ipu_infeed_free(&ctx, self->infeed);
        ipu_outfeed_free(&ctx, self->outfeed);
        Py_END_ALLOW_THREADS
    }
    Py_XDECREF(self->device);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyObject *
queue_close(PyObject *object, PyObject *Py_UNUSED(ignored))
{
    py_queue *self = (py_queue *)object;
    if (self->infeed != NULL) {
        ipu_infeed_close(self->infeed);
    } else {
        ipu_outfeed_close(self->outfeed);
    }
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

/* What an element has of a component: of several replicas, all of theirs. */
static bool
element_type(const ipu_type *component, uint32_t replicas, ipu_type *out)
{
    *out = *component;
    return replicas == 1 || add_first_axis(out, replicas);
}

/* Tensors for `count` elements ([count, ...] each), or for one without the first axis. */
static PyObject *
new_tensors(py_queue *self, uint32_t replicas, int64_t count, bool last)
{
    const ipu_type *types;
    uint32_t type_count = ipu_outfeed_types(self->outfeed, &types);
    PyObject *list = PyList_New(type_count);
    for (uint32_t i = 0; list != NULL && i < type_count; i++) {
        ipu_type type;
        if (!element_type(&types[i], replicas, &type) ||
            (!last && !add_first_axis(&type, count))) {
            Py_CLEAR(list);
            break;
        }
        ipu_py_tensor *tensor =
            ipu_py_tensor_new(ipu_py_state_of_type(Py_TYPE(self)), &type);
        if (tensor == NULL) {
            Py_CLEAR(list);
            break;
        }
        PyList_SET_ITEM(list, i, (PyObject *)tensor);
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
        size_t bytes = (size_t)taken * replicas * ipu_type_bytes(&types[i]);
        if (bytes > 0) {
            memcpy(data_of(list, i), data_of(full, i), bytes);
        }
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
        ipu_py_raise(ipu_py_state_of_type(Py_TYPE(self)), &ctx);
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
    ipu_py_state *state = ipu_py_state_of_type(Py_TYPE(self));
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
        if (tensor == NULL) {
            Py_CLEAR(tuple);
            break;
        }
        if (bytes > 0) {
            memcpy(ipu_py_tensor_data(tensor),
                   (const char *)ipu_py_tensor_data(from) + (size_t)row * bytes, bytes);
        }
        PyTuple_SET_ITEM(tuple, i, (PyObject *)tensor);
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
        PyObject *tuple = row_of(self, whole, row);
        if (tuple == NULL) {
            Py_CLEAR(list);
            break;
        }
        PyList_SET_ITEM(list, (Py_ssize_t)row, tuple);
    }
    Py_DECREF(whole);
    return list;
}

static PyObject *
queue_get_id(PyObject *object, void *Py_UNUSED(closure))
{
    return PyLong_FromLongLong(((py_queue *)object)->id);
}

static PyObject *
outfeed_get_ends(PyObject *object, void *Py_UNUSED(closure))
{
    return PyLong_FromUnsignedLongLong(ipu_outfeed_ends(((py_queue *)object)->outfeed));
}

static PyObject *
queue_get_types(PyObject *object, void *Py_UNUSED(closure))
{
    py_queue *self = (py_queue *)object;
    const ipu_type *types;
    uint32_t count = self->infeed != NULL ? ipu_infeed_types(self->infeed, &types)
                                          : ipu_outfeed_types(self->outfeed, &types);
    PyObject *list = PyList_New(count);
    for (uint32_t i = 0; list != NULL && i < count; i++) {
        PyObject *item = ipu_py_type_tuple(&types[i]);
        if (item == NULL) {
            Py_CLEAR(list);
            break;
        }
        PyList_SET_ITEM(list, i, item);
    }
    return list;
}

static PyGetSetDef queue_getset[] = {
    {"id", queue_get_id, NULL, "The queue's id on its device.", NULL},
    {"types", queue_get_types, NULL, "(dtype, shape) of each component.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyGetSetDef outfeed_getset[] = {
    {"id", queue_get_id, NULL, "The queue's id on its device.", NULL},
    {"types", queue_get_types, NULL, "(dtype, shape) of each component.", NULL},
    {"ends", outfeed_get_ends, NULL, "How many runs and deletions there were.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMethodDef infeed_methods[] = {
    {"remove", queue_remove, METH_NOARGS, "remove()\n--\n\nTakes it off the device."},
    {"delete", queue_delete, METH_NOARGS,
     "delete()\n--\n\nCloses it until a Feeder opens it again."},
    {"close", queue_close, METH_NOARGS,
     "close()\n--\n\nEnds everyone who waits on it."},
    {NULL, NULL, 0, NULL},
};

static PyMethodDef outfeed_methods[] = {
    {"remove", queue_remove, METH_NOARGS, "remove()\n--\n\nTakes it off the device."},
    {"delete", queue_delete, METH_NOARGS, "delete()\n--\n\nDrops what is there."},
    {"close", queue_close, METH_NOARGS,
     "close()\n--\n\nEnds everyone who waits on it."},
    {"move", outfeed_move, METH_O, "move(device)\n--\n\nTakes it to another device."},
    {"wait", outfeed_wait, METH_VARARGS,
     "wait(at_least=1, timeout=-1.0, ends=2**64 - 1)\n--\n\nWaits (seconds; negative: "
     "for ever) until so many elements are there, or until its `ends` differ; returns "
     "how many are."},
    {"take", outfeed_take, METH_VARARGS,
     "take(limit=-1, last=False)\n--\n\nTakes the oldest elements: a tensor [n, ...] "
     "for each component. With `last` the newest one, or None."},
    {"take_each", outfeed_take_each, METH_NOARGS,
     "take_each()\n--\n\nTakes all elements: a tuple of tensors for each."},
    {NULL, NULL, 0, NULL},
};

__extension__ static PyType_Slot infeed_slots[] = {
    {Py_tp_doc,
     "Infeed(device, types, depth=3, after=None)\n--\n\nA ring from the host to a "
     "device. It has room for what `after` holds."},
    {Py_tp_new, infeed_new},
    {Py_tp_dealloc, queue_dealloc},
    {Py_tp_traverse, queue_traverse},
    {Py_tp_clear, queue_clear},
    {Py_tp_methods, infeed_methods},
    {Py_tp_getset, queue_getset},
    {0, NULL},
};

__extension__ static PyType_Slot outfeed_slots[] = {
    {Py_tp_doc, "Outfeed(device, types, last=False, depth=3)\n--\n\nA ring from a "
                "device to the host."},
    {Py_tp_new, outfeed_new},
    {Py_tp_dealloc, queue_dealloc},
    {Py_tp_traverse, queue_traverse},
    {Py_tp_clear, queue_clear},
    {Py_tp_methods, outfeed_methods},
    {Py_tp_getset, outfeed_getset},
    {0, NULL},
};

PyType_Spec ipu_py_infeed_spec = {
    .name = "ipu._core.Infeed",
    .basicsize = sizeof(py_queue),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE | Py_TPFLAGS_HAVE_GC,
    .slots = infeed_slots,
};

PyType_Spec ipu_py_outfeed_spec = {
    .name = "ipu._core.Outfeed",
    .basicsize = sizeof(py_queue),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE | Py_TPFLAGS_HAVE_GC,
    .slots = outfeed_slots,
};
