/* SPDX-License-Identifier: MIT
 *
 * ipu._core.Device: a simulated device with its variables. */
#define NO_IMPORT_ARRAY
#include "bind/bind.h"

#include <string.h>

typedef struct py_device {
    PyObject_HEAD
    ipu_device *device;
    PyObject *peers; /* Peers or NULL */
    bool portable;
    ipu_float_behaviour behaviour;
    size_t bucket_bytes; /* of its programs' graphs */
} py_device;

ipu_device *
ipu_py_device_of(PyObject *device)
{
    return ((py_device *)device)->device;
}

bool
ipu_py_device_is_portable(PyObject *device)
{
    return ((py_device *)device)->portable;
}

const ipu_float_behaviour *
ipu_py_device_behaviour(PyObject *device)
{
    return &((py_device *)device)->behaviour;
}

size_t
ipu_py_device_bucket_bytes(PyObject *device)
{
    return ((py_device *)device)->bucket_bytes;
}

uint32_t
ipu_py_device_all_ipus(PyObject *device)
{
    return ipu_device_all_ipus(((py_device *)device)->device);
}

static PyObject *
device_new(PyTypeObject *cls, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"ipus", "portable", "rounding",     "overflow", "inv",
                            "div0", "oflo",     "bucket_bytes", NULL};
    static const char *const roundings[] = {[IPU_ROUNDING_NEAREST] = "nearest",
                                            [IPU_ROUNDING_STOCHASTIC] = "stochastic",
                                            [IPU_ROUNDING_REPLICA_IDENTICAL] =
                                                "replica_identical"};
    static const char *const overflows[] = {[IPU_OVERFLOW_INFINITY] = "infinity",
                                            [IPU_OVERFLOW_NAN] = "nan",
                                            [IPU_OVERFLOW_CLIP] = "clip"};
    int ipus = 1;
    int portable = 0;
    const char *rounding = "nearest";
    const char *overflow = "infinity";
    int inv = 0;
    int div0 = 0;
    int oflo = 0;
    Py_ssize_t bucket_bytes = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|ipsspppn:Device", names, &ipus,
                                     &portable, &rounding, &overflow, &inv, &div0,
                                     &oflo, &bucket_bytes)) {
        return NULL;
    }
    int rounds = ipu_py_choice("rounding", rounding, roundings, 3);
    int overflows_to = ipu_py_choice("overflow", overflow, overflows, 3);
    if (rounds < 0 || overflows_to < 0) {
        return NULL;
    }
    py_device *self = (py_device *)cls->tp_alloc(cls, 0);
    if (self == NULL) {
        return NULL;
    }
    self->portable = portable != 0;
    self->bucket_bytes = (size_t)bucket_bytes;
    self->behaviour = (ipu_float_behaviour){.rounding = (ipu_rounding)rounds,
                                            .overflow = (ipu_overflow)overflows_to,
                                            .traps_invalid = inv != 0,
                                            .traps_division = div0 != 0,
                                            .traps_overflow = oflo != 0};
    ipu_ctx ctx = ipu_py_ctx();
    if (!ipu_py_is_ok(&ctx, ipu_device_create(&ctx, ipus, &self->device))) {
        Py_CLEAR(self);
    }
    return (PyObject *)self;
}

static void
device_dealloc(PyObject *object)
{
    ipu_ctx ctx = ipu_py_ctx();
    ipu_device_free(&ctx, ipu_py_device_of(object));
    Py_XDECREF(((py_device *)object)->peers);
    ipu_py_free(object);
}

static PyObject *
variable_add(PyObject *self, PyObject *args)
{
    ipu_type type;
    int64_t id;
    ipu_ctx ctx = ipu_py_ctx();
    return PyArg_ParseTuple(args, "O&O&:variable_add", ipu_py_dtype_converter,
                            &type.dtype, ipu_py_shape_converter, &type.shape) &&
                   ipu_py_is_ok(&ctx, ipu_device_variable_add(
                                          &ctx, ipu_py_device_of(self), &type, &id))
               ? PyLong_FromLongLong(id)
               : NULL;
}

/* Into a new tensor: its memory is fresh, so nothing else writes to it. A negative
 * `replica` takes the variable off the device. */
static PyObject *
read_variable(PyObject *self, int64_t id, const ipu_type *type, int replica)
{
    ipu_py_tensor *tensor = ipu_py_tensor_new(ipu_py_state_of(self), type);
    if (tensor == NULL) {
        return NULL;
    }
    ipu_ctx ctx = ipu_py_ctx();
    ipu_device *device = ipu_py_device_of(self);
    void *data = ipu_py_tensor_data(tensor);
    size_t bytes = ipu_type_bytes(type);
    ipu_status status;
    ipu_py_patience patience;
    ipu_py_patience_begin(&patience, &ctx);
    Py_BEGIN_ALLOW_THREADS
    status = replica < 0
                 ? ipu_device_variable_take(&ctx, device, id, data, bytes)
                 : ipu_device_variable_read(&ctx, device, id, replica, data, bytes);
    Py_END_ALLOW_THREADS
    if (!ipu_py_patience_is_ok(&patience, &ctx, status)) {
        Py_CLEAR(tensor);
    }
    return (PyObject *)tensor;
}

static PyObject *
variable_read(PyObject *self, PyObject *args)
{
    long long id;
    int replica = 0;
    ipu_type type;
    if (!PyArg_ParseTuple(args, "LO&|i:variable_read", &id, ipu_py_type_converter,
                          &type, &replica)) {
        return NULL;
    }
    if (replica < 0) {
        return PyErr_Format(PyExc_ValueError,
                            "replica must not be negative, but got %d", replica);
    }
    return read_variable(self, id, &type, replica);
}

static PyObject *
variable_take(PyObject *self, PyObject *args)
{
    long long id;
    ipu_type type;
    return PyArg_ParseTuple(args, "LO&:variable_take", &id, ipu_py_type_converter,
                            &type)
               ? read_variable(self, id, &type, -1)
               : NULL;
}

static PyObject *
variable_write(PyObject *self, PyObject *args)
{
    long long id;
    PyObject *value;
    ipu_type type;
    if (!PyArg_ParseTuple(args, "LO&O:variable_write", &id, ipu_py_type_converter,
                          &type, &value)) {
        return NULL;
    }
    PyObject *array = ipu_py_as_array(value, &type);
    if (array == NULL) {
        return NULL;
    }
    const void *data = ipu_py_array_data(array);
    ipu_ctx ctx = ipu_py_ctx();
    ipu_status status;
    ipu_py_patience patience;
    ipu_py_patience_begin(&patience, &ctx);
    Py_BEGIN_ALLOW_THREADS
    status = ipu_device_variable_write(&ctx, ipu_py_device_of(self), id, data,
                                       ipu_type_bytes(&type));
    Py_END_ALLOW_THREADS
    Py_DECREF(array);
    return ipu_py_patience_is_ok(&patience, &ctx, status) ? Py_NewRef(Py_None) : NULL;
}

static PyObject *
variable_remove(PyObject *self, PyObject *argument)
{
    long long id;
    if (!PyArg_Parse(argument, "L:variable_remove", &id)) {
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS
    ipu_device_variable_remove(ipu_py_device_of(self), id);
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

static PyObject *
variable_is_apart(PyObject *self, PyObject *argument)
{
    long long id;
    if (!PyArg_Parse(argument, "L:variable_is_apart", &id)) {
        return NULL;
    }
    return PyBool_FromLong(ipu_device_variable_is_apart(ipu_py_device_of(self), id));
}

static PyObject *
device_join(PyObject *object, PyObject *peers)
{
    py_device *self = (py_device *)object;
    if (!PyObject_TypeCheck(peers, ipu_py_state_of(self)->peers_type)) {
        return PyErr_Format(PyExc_TypeError, "expected Peers, but got %R", peers);
    }
    if (self->peers != NULL) { /* programs may be bound to them */
        PyErr_SetString(PyExc_RuntimeError, "the device has joined others already");
        return NULL;
    }
    self->peers = Py_NewRef(peers);
    ipu_device_set_peers(self->device, ipu_py_peers_of(peers));
    Py_RETURN_NONE;
}

static PyObject *
device_seed(PyObject *self, PyObject *argument)
{
    unsigned long long seed;
    if (!PyArg_Parse(argument, "K:seed", &seed)) {
        return NULL;
    }
    ipu_device_set_random(ipu_py_device_of(self), (ipu_device_random){.seed = seed});
    Py_RETURN_NONE;
}

/* A number of the random state, from 0 to 2^64 - 1; -1 with an exception. */
static int
parse_counter(PyObject *number, const char *name, uint64_t *out)
{
    PyObject *index = PyNumber_Index(number);
    if (index == NULL) {
        return -1;
    }
    *out = PyLong_AsUnsignedLongLong(index);
    Py_DECREF(index);
    if (PyErr_Occurred() == NULL) {
        return 0;
    }
    PyErr_Clear();
    PyErr_Format(PyExc_ValueError, "%s must be from 0 to 2**64 - 1, not %R", name,
                 number);
    return -1;
}

static PyObject *
device_set_random(PyObject *self, PyObject *args)
{
    PyObject *seed;
    PyObject *step;
    ipu_device_random state;
    if (!PyArg_ParseTuple(args, "OO:set_random", &seed, &step) ||
        parse_counter(seed, "seed", &state.seed) < 0 ||
        parse_counter(step, "step", &state.step) < 0) {
        return NULL;
    }
    ipu_device_set_random(ipu_py_device_of(self), state);
    Py_RETURN_NONE;
}

static PyObject *
random_of(ipu_device *device)
{
    ipu_device_random state = ipu_device_get_random(device);
    return Py_BuildValue("KK", state.seed, state.step);
}

#define ATTRIBUTES(X, T) \
    X(T, random, random_of(self->device), NULL, "The random state: seed and step.") \
    X(T, step, PyLong_FromUnsignedLongLong(ipu_device_get_random(self->device).step), \
      NULL, "The global micro-batch counter.") \
    X(T, variable_bytes, PyLong_FromSize_t(ipu_device_variable_bytes(self->device)), \
      NULL, "Bytes held for variables.")
IPU_PY_ATTRIBUTES(py_device, ATTRIBUTES);

static PyMethodDef device_methods[] = {
    {"variable_add", variable_add, METH_VARARGS,
     "A new zeroed variable; returns its id."},
    {"variable_read", variable_read, METH_VARARGS,
     "The variable's value in a replica, as a tensor."},
    {"variable_take", variable_take, METH_VARARGS,
     "Its value as a tensor; frees the variable."},
    {"variable_write", variable_write, METH_VARARGS,
     "Sets the variable in every replica."},
    {"variable_remove", variable_remove, METH_O, "Frees the variable."},
    {"variable_is_apart", variable_is_apart, METH_O,
     "Whether other processes have parts of it, so that none can read it alone."},
    {"join", device_join, METH_O,
     "Programs with collectives or infeeds that are bound to it from now on run in all "
     "processes of the peers."},
    {"seed", device_seed, METH_O, "Sets the device's random seed."},
    {"set_random", device_set_random, METH_VARARGS,
     "Sets seed and step: random numbers go on as they did where `random` was read."},
    {NULL, NULL, 0, NULL},
};

IPU_PY_TYPE(
    device, "Device", py_device, 0,
    {Py_tp_doc,
     "A simulated device: variables, queues, seed. Programs for a portable one have "
     "the same bits on every class of CPU. float16 results are rounded to 'nearest', "
     "'stochastic'ally, or so where they are 'replica_identical'; beyond the largest "
     "number they give 'infinity', 'nan', or 'clip'. Invalid operations, divisions by "
     "zero and overflow end a run where inv, div0, oflo are set."},
    {Py_tp_new, device_new}, {Py_tp_dealloc, device_dealloc},
    {Py_tp_methods, device_methods}, {Py_tp_getset, py_device_getset});
