/* SPDX-License-Identifier: MIT
 *
 * ipu._core.Device: a simulated device with its variables. */
#define NO_IMPORT_ARRAY
#include "bind/bind.h"

#include <string.h>

typedef struct py_device {
    PyObject_HEAD
    ipu_device *device;
    bool portable;
    ipu_float_behaviour behaviour;
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

static ipu_py_state *
state_of(PyObject *self)
{
    return ipu_py_state_of_type(Py_TYPE(self));
}

/* Which of the names is `text`; -1 with an exception. */
static int
parse_choice(const char *what, const char *text, const char *const *choices, int count)
{
    for (int i = 0; i < count; i++) {
        if (strcmp(text, choices[i]) == 0) {
            return i;
        }
    }
    PyErr_Format(PyExc_ValueError, "there is no %s \"%s\"", what, text);
    return -1;
}

static PyObject *
device_new(PyTypeObject *cls, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"ipus", "portable", "rounding", "overflow",
                            "inv",  "div0",     "oflo",     NULL};
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
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|ipssppp:Device", names, &ipus,
                                     &portable, &rounding, &overflow, &inv, &div0,
                                     &oflo)) {
        return NULL;
    }
    int rounds = parse_choice("rounding", rounding, roundings, 3);
    int overflows_to = parse_choice("overflow", overflow, overflows, 3);
    if (rounds < 0 || overflows_to < 0) {
        return NULL;
    }
    py_device *self = (py_device *)cls->tp_alloc(cls, 0);
    if (self == NULL) {
        return NULL;
    }
    self->portable = portable != 0;
    self->behaviour = (ipu_float_behaviour){.rounding = (ipu_rounding)rounds,
                                            .overflow = (ipu_overflow)overflows_to,
                                            .traps_invalid = inv != 0,
                                            .traps_division = div0 != 0,
                                            .traps_overflow = oflo != 0};
    ipu_ctx ctx = ipu_py_ctx();
    if (ipu_device_create(&ctx, ipus, &self->device) != IPU_OK) {
        Py_DECREF(self);
        return ipu_py_raise(ipu_py_state_of_type(cls), &ctx);
    }
    return (PyObject *)self;
}

static void
device_dealloc(PyObject *object)
{
    py_device *self = (py_device *)object;
    PyTypeObject *type = Py_TYPE(self);
    ipu_ctx ctx = ipu_py_ctx();
    ipu_device_free(&ctx, self->device);
    type->tp_free(self);
    Py_DECREF(type);
}

/* Raises what ended a wait for a step's end, if something did. */
static bool
gave_up(PyObject *self, ipu_py_patience *patience, ipu_ctx *ctx, ipu_status status)
{
    bool is_interrupted = ipu_py_patience_end(patience) < 0;
    if (!is_interrupted && status != IPU_OK) {
        ipu_py_raise(state_of(self), ctx);
    }
    return is_interrupted || status != IPU_OK;
}

static PyObject *
variable_add(PyObject *self, PyObject *args)
{
    PyObject *dtype;
    PyObject *shape;
    ipu_type type;
    int64_t id;
    if (!PyArg_ParseTuple(args, "OO:variable_add", &dtype, &shape) ||
        ipu_py_parse_dtype(dtype, &type.dtype) < 0 ||
        ipu_py_parse_shape(shape, false, &type.shape) < 0) {
        return NULL;
    }
    ipu_ctx ctx = ipu_py_ctx();
    if (ipu_device_variable_add(&ctx, ipu_py_device_of(self), &type, &id) != IPU_OK) {
        return ipu_py_raise(state_of(self), &ctx);
    }
    return PyLong_FromLongLong(id);
}

/* Into a new tensor: its memory is fresh, so nothing else writes to it. A negative
 * `replica` takes the variable off the device. */
static PyObject *
read_variable(PyObject *self, int64_t id, PyObject *type_object, int replica)
{
    ipu_type type;
    if (ipu_py_parse_type_tuple(type_object, false, &type) < 0) {
        return NULL;
    }
    ipu_py_tensor *tensor = ipu_py_tensor_new(state_of(self), &type);
    if (tensor == NULL) {
        return NULL;
    }
    ipu_ctx ctx = ipu_py_ctx();
    ipu_device *device = ipu_py_device_of(self);
    void *data = ipu_py_tensor_data(tensor);
    size_t bytes = ipu_type_bytes(&type);
    ipu_status status;
    ipu_py_patience patience;
    ipu_py_patience_begin(&patience, &ctx);
    Py_BEGIN_ALLOW_THREADS
    status = replica < 0
                 ? ipu_device_variable_take(&ctx, device, id, data, bytes)
                 : ipu_device_variable_read(&ctx, device, id, replica, data, bytes);
    Py_END_ALLOW_THREADS
    if (gave_up(self, &patience, &ctx, status)) {
        Py_DECREF(tensor);
        return NULL;
    }
    return (PyObject *)tensor;
}

static PyObject *
variable_read(PyObject *self, PyObject *args)
{
    long long id;
    int replica = 0;
    PyObject *type;
    if (!PyArg_ParseTuple(args, "LO|i:variable_read", &id, &type, &replica)) {
        return NULL;
    }
    if (replica < 0) {
        PyErr_Format(PyExc_ValueError, "replica must not be negative, but got %d",
                     replica);
        return NULL;
    }
    return read_variable(self, id, type, replica);
}

static PyObject *
variable_take(PyObject *self, PyObject *args)
{
    long long id;
    PyObject *type;
    if (!PyArg_ParseTuple(args, "LO:variable_take", &id, &type)) {
        return NULL;
    }
    return read_variable(self, id, type, -1);
}

static PyObject *
variable_write(PyObject *self, PyObject *args)
{
    long long id;
    PyObject *type_object;
    PyObject *value;
    ipu_type type;
    if (!PyArg_ParseTuple(args, "LOO:variable_write", &id, &type_object, &value) ||
        ipu_py_parse_type_tuple(type_object, false, &type) < 0) {
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
    if (gave_up(self, &patience, &ctx, status)) {
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyObject *
variable_remove(PyObject *self, PyObject *argument)
{
    long long id = PyLong_AsLongLong(argument);
    if (id == -1 && PyErr_Occurred()) {
        return NULL;
    }
    ipu_ctx ctx = ipu_py_ctx();
    Py_BEGIN_ALLOW_THREADS
    ipu_device_variable_remove(&ctx, ipu_py_device_of(self), id);
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

static PyObject *
device_seed(PyObject *self, PyObject *argument)
{
    unsigned long long seed = PyLong_AsUnsignedLongLongMask(argument);
    if (seed == (unsigned long long)-1 && PyErr_Occurred()) {
        return NULL;
    }
    ipu_device_seed(ipu_py_device_of(self), seed);
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
device_get_random(PyObject *self, void *Py_UNUSED(closure))
{
    ipu_device_random state = ipu_device_get_random(ipu_py_device_of(self));
    return Py_BuildValue("KK", state.seed, state.step);
}

static PyObject *
device_get_step(PyObject *self, void *Py_UNUSED(closure))
{
    return PyLong_FromUnsignedLongLong(ipu_device_step(ipu_py_device_of(self)));
}

static PyObject *
device_get_bytes(PyObject *self, void *Py_UNUSED(closure))
{
    return PyLong_FromSize_t(ipu_device_variable_bytes(ipu_py_device_of(self)));
}

static PyMethodDef device_methods[] = {
    {"variable_add", variable_add, METH_VARARGS,
     "variable_add(dtype, shape)\n--\n\nA new zeroed variable; returns its id."},
    {"variable_read", variable_read, METH_VARARGS,
     "variable_read(id, type, replica=0)\n--\n\nThe variable's value as a tensor."},
    {"variable_take", variable_take, METH_VARARGS,
     "variable_take(id, type)\n--\n\nIts value as a tensor; frees the variable."},
    {"variable_write", variable_write, METH_VARARGS,
     "variable_write(id, type, value)\n--\n\nSets the variable in every replica."},
    {"variable_remove", variable_remove, METH_O,
     "variable_remove(id)\n--\n\nFrees the variable."},
    {"seed", device_seed, METH_O, "seed(seed)\n--\n\nSets the device's random seed."},
    {"set_random", device_set_random, METH_VARARGS,
     "set_random(seed, step)\n--\n\nSets seed and step: random numbers go on as they "
     "did where `random` was read."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef device_getset[] = {
    {"random", device_get_random, NULL, "The random state: seed and step.", NULL},
    {"step", device_get_step, NULL, "The global micro-batch counter.", NULL},
    {"variable_bytes", device_get_bytes, NULL, "Bytes held for variables.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

__extension__ static PyType_Slot device_slots[] = {
    {Py_tp_doc,
     "Device(ipus=1, portable=False, rounding='nearest', overflow='infinity', "
     "inv=False, "
     "div0=False, oflo=False)\n--\n\nA simulated device: variables, queues, "
     "seed. Programs for a portable one have the same bits on every class of CPU. "
     "float16 results are rounded to 'nearest', 'stochastic'ally, or so where they are "
     "'replica_identical'; beyond the largest number they give 'infinity', 'nan', or "
     "'clip'. Invalid operations, divisions by zero and overflow end a run where inv, "
     "div0, oflo are set."},
    {Py_tp_new, device_new},
    {Py_tp_dealloc, device_dealloc},
    {Py_tp_methods, device_methods},
    {Py_tp_getset, device_getset},
    {0, NULL},
};

PyType_Spec ipu_py_device_spec = {
    .name = "ipu._core.Device",
    .basicsize = sizeof(py_device),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = device_slots,
};
