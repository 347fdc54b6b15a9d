/* SPDX-License-Identifier: MIT
 *
 * ipu._core.Tensor: immutable; eager (it has bytes) or symbolic (a value of a trace).
 * The bytes are aligned and carry slack, so that kernels may use them as they are.
 * NumPy and DLPack get views, since nothing writes to a tensor once it is made. */
#define NO_IMPORT_ARRAY
#include "bind/bind.h"

#include <string.h>

#include "bind/dlpack.h"
#include "bind/operators.h"

/* --- creation ------------------------------------------------------------------- */

bool
ipu_py_is_tensor(ipu_py_state *state, PyObject *object)
{
    return PyObject_TypeCheck(object, state->tensor_type);
}

/* Of the scope that this thread is in, + 1. */
static int32_t
device_here(ipu_py_state *state)
{
    ipu_py_thread *thread = ipu_py_thread_here(state);
    if (thread == NULL) {
        PyErr_Clear(); /* it is in none */
        return 0;
    }
    return thread->device;
}

static ipu_py_tensor *
tensor_alloc(ipu_py_state *state, const ipu_type *type)
{
    ipu_py_tensor *tensor = PyObject_GC_New(ipu_py_tensor, state->tensor_type);
    if (tensor != NULL) {
        tensor->type = *type;
        tensor->storage = NULL;
        tensor->trace = NULL;
        tensor->value = IPU_NO_VALUE;
        tensor->device = state->placed == 0 ? 0 : device_here(state);
        tensor->notes = NULL;
    }
    return tensor;
}

ipu_py_tensor *
ipu_py_tensor_new(ipu_py_state *state, const ipu_type *type)
{
    ipu_py_tensor *tensor = tensor_alloc(state, type);
    if (tensor != NULL) {
        tensor->storage = ipu_py_storage_new(state, ipu_type_bytes(type));
        if (tensor->storage == NULL) {
            Py_DECREF(tensor);
            PyErr_Format(PyExc_MemoryError, "out of memory: a tensor of %zu bytes",
                         ipu_type_bytes(type));
            return NULL;
        }
    }
    return tensor;
}

ipu_py_tensor *
ipu_py_tensor_view(ipu_py_state *state, ipu_py_tensor *base, const ipu_type *type)
{
    ipu_py_tensor *tensor = tensor_alloc(state, type);
    if (tensor != NULL) {
        tensor->storage = base->storage;
        tensor->storage->references++;
    }
    return tensor;
}

ipu_py_tensor *
ipu_py_tensor_symbolic(ipu_py_state *state, PyObject *trace, const ipu_type *type,
                       ipu_value value)
{
    ipu_py_tensor *tensor = tensor_alloc(state, type);
    if (tensor != NULL) {
        tensor->trace = Py_NewRef(trace);
        tensor->value = value;
        PyObject_GC_Track(tensor); /* one of bytes refers to no object */
    }
    return tensor;
}

ipu_py_tensor *
ipu_py_tensor_cast(ipu_py_state *state, ipu_py_tensor *tensor, ipu_dtype dtype)
{
    ipu_attr attr = {.key = IPU_ATTR_DTYPE, .as.i = (int64_t)dtype};
    return (ipu_py_tensor *)ipu_py_apply(state, IPU_OP_ID_CAST, &tensor, 1, &attr, 1);
}

/* --- the Python type ------------------------------------------------------------- */

static ipu_py_state *
state_of(PyObject *self)
{
    return ipu_py_state_of_type(Py_TYPE(self));
}

int
ipu_py_require_eager(ipu_py_tensor *self, const char *what)
{
    if (self->storage != NULL) {
        return 0;
    }
    PyObject *open = ipu_py_open_trace(state_of((PyObject *)self));
    if (open == NULL || open == Py_None) {
        ipu_py_raise_leaked(self);
        return -1;
    }
    PyErr_Format(
        PyExc_TypeError,
        "%s needs the tensor's value, which is not known while a function is "
        "traced; return the tensor from the function, or enqueue it to an outfeed",
        what);
    return -1;
}

static PyObject *
tensor_new(PyTypeObject *cls, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"value", "dtype", NULL};
    ipu_py_state *state = ipu_py_state_of_type(cls);
    PyObject *value;
    PyObject *dtype_object = Py_None;
    ipu_dtype dtype = IPU_DTYPE_COUNT;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|O:Tensor", names, &value,
                                     &dtype_object) ||
        (dtype_object != Py_None && ipu_py_parse_dtype(dtype_object, &dtype) < 0)) {
        return NULL;
    }
    int wanted = dtype == IPU_DTYPE_COUNT ? -1 : (int)dtype;
    ipu_py_tensor *tensor = ipu_py_as_tensor(state, value, wanted);
    if (tensor != NULL && wanted >= 0 && (int)tensor->type.dtype != wanted) {
        Py_SETREF(tensor, ipu_py_tensor_cast(state, tensor, dtype));
    }
    return (PyObject *)tensor;
}

static int
tensor_traverse(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(((ipu_py_tensor *)self)->trace);
    Py_VISIT(((ipu_py_tensor *)self)->notes);
    return 0;
}

static int
tensor_clear(PyObject *self)
{
    Py_CLEAR(((ipu_py_tensor *)self)->trace);
    Py_CLEAR(((ipu_py_tensor *)self)->notes);
    return 0;
}

static void
tensor_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    tensor_clear(self);
    ipu_py_storage_release(ipu_py_state_of_type(type),
                           ((ipu_py_tensor *)self)->storage);
    PyObject_GC_Del(self);
    Py_DECREF(type);
}

static PyObject *
tensor_view_array(PyObject *self, const char *what)
{
    if (ipu_py_require_eager((ipu_py_tensor *)self, what) < 0) {
        return NULL;
    }
    PyObject *view = PyMemoryView_FromObject(self);
    if (view == NULL) {
        return NULL;
    }
    PyObject *array = ipu_py_any_array(view, -1);
    Py_DECREF(view);
    return array;
}

static PyObject *
tensor_numpy(PyObject *self, PyObject *Py_UNUSED(ignored))
{
    PyObject *array = tensor_view_array(self, "numpy()");
    if (array != NULL && ((ipu_py_tensor *)self)->type.shape.rank == 0) {
        /* a scalar tensor gives a NumPy scalar, as TensorFlow's does */
        PyObject *empty = PyTuple_New(0);
        PyObject *scalar = empty == NULL ? NULL : PyObject_GetItem(array, empty);
        Py_XDECREF(empty);
        Py_SETREF(array, scalar);
    }
    return array;
}

static PyObject *
tensor_array(PyObject *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"dtype", "copy", NULL};
    PyObject *dtype = Py_None;
    PyObject *copy = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|OO:__array__", names, &dtype,
                                     &copy)) {
        return NULL;
    }
    PyObject *array = tensor_view_array(
        self, "NumPy (use the op of tf, such as tf.reduce_sum for np.sum)");
    if (array == NULL) {
        return NULL;
    }
    if (dtype != Py_None) {
        PyObject *method = PyObject_GetAttrString(array, "astype");
        PyObject *call_args = method == NULL ? NULL : PyTuple_Pack(1, dtype);
        PyObject *call_kwargs =
            method == NULL ? NULL : Py_BuildValue("{s:O}", "copy", Py_False);
        Py_SETREF(array, call_args == NULL || call_kwargs == NULL
                             ? NULL
                             : PyObject_Call(method, call_args, call_kwargs));
        Py_XDECREF(method);
        Py_XDECREF(call_args);
        Py_XDECREF(call_kwargs);
    }
    if (array != NULL && copy == Py_True) {
        Py_SETREF(array, PyObject_CallMethod(array, "copy", NULL));
    }
    return array;
}

static PyObject *
tensor_get_dtype(PyObject *self, void *Py_UNUSED(closure))
{
    /* tf.DType objects live in Python; they are made once and looked up by name */
    const char *name = ipu_dtype_name(((ipu_py_tensor *)self)->type.dtype);
    PyObject *module = PyImport_ImportModule("ipu.tf.dtypes");
    PyObject *dtype = module == NULL ? NULL : PyObject_GetAttrString(module, name);
    Py_XDECREF(module);
    return dtype;
}

static PyObject *
tensor_get_dtype_name(PyObject *self, void *Py_UNUSED(closure))
{
    return PyUnicode_FromString(ipu_dtype_name(((ipu_py_tensor *)self)->type.dtype));
}

static PyObject *
tensor_get_shape(PyObject *self, void *Py_UNUSED(closure))
{
    PyObject *module = PyImport_ImportModule("ipu.tf.tensor_shape");
    PyObject *sizes = module == NULL
                          ? NULL
                          : ipu_py_shape_tuple(&((ipu_py_tensor *)self)->type.shape);
    PyObject *shape =
        sizes == NULL ? NULL : PyObject_CallMethod(module, "TensorShape", "(O)", sizes);
    Py_XDECREF(module);
    Py_XDECREF(sizes);
    return shape;
}

static PyObject *
tensor_call_shape(PyObject *self, PyObject *Py_UNUSED(ignored))
{
    return tensor_get_shape(self, NULL);
}

static PyObject *
tensor_get_ndim(PyObject *self, void *Py_UNUSED(closure))
{
    return PyLong_FromLong(((ipu_py_tensor *)self)->type.shape.rank);
}

static PyObject *
tensor_get_symbolic(PyObject *self, void *Py_UNUSED(closure))
{
    return PyBool_FromLong(((ipu_py_tensor *)self)->storage == NULL);
}

static Py_ssize_t
tensor_length(PyObject *self)
{
    ipu_py_tensor *tensor = (ipu_py_tensor *)self;
    if (tensor->type.shape.rank == 0) {
        PyErr_SetString(PyExc_TypeError, "a scalar tensor has no length");
        return -1;
    }
    return (Py_ssize_t)tensor->type.shape.dims[0];
}

static PyObject *
tensor_index(PyObject *self, PyObject *key)
{
    PyObject *module = PyImport_ImportModule("ipu.tf._tensor.indexing");
    PyObject *result =
        module == NULL ? NULL : PyObject_CallMethod(module, "getitem", "OO", self, key);
    Py_XDECREF(module);
    return result;
}

static int
tensor_assign_item(PyObject *Py_UNUSED(self), PyObject *Py_UNUSED(key),
                   PyObject *Py_UNUSED(value))
{
    PyErr_SetString(PyExc_TypeError,
                    "a Tensor does not support item assignment: its values never "
                    "change. Make a new one with tf.where or tf.concat, or keep the "
                    "values in a tf.Variable and use its assign()");
    return -1;
}

static PyObject *
tensor_item(PyObject *self, Py_ssize_t i)
{
    if (i < 0 || i >= tensor_length(self)) {
        if (!PyErr_Occurred()) {
            PyErr_SetString(PyExc_IndexError, "tensor index out of range");
        }
        return NULL;
    }
    PyObject *key = PyLong_FromSsize_t(i);
    PyObject *item = key == NULL ? NULL : tensor_index(self, key);
    Py_XDECREF(key);
    return item;
}

static PyObject *
tensor_iter(PyObject *self)
{
    if (tensor_length(self) < 0) {
        return NULL;
    }
    return PySeqIter_New(self);
}

/* The tensor's single element as a NumPy scalar, for int(), float(), bool(); the
 * exception is for several. */
static PyObject *
tensor_single(PyObject *self, const char *what, PyObject *exception)
{
    ipu_py_tensor *tensor = (ipu_py_tensor *)self;
    if (ipu_py_require_eager(tensor, what) < 0) {
        return NULL;
    }
    if (ipu_shape_elements(&tensor->type.shape) != 1) {
        PyErr_Format(exception, "%s needs a tensor of one element", what);
        return NULL;
    }
    PyObject *array = tensor_view_array(self, what);
    PyObject *item = array == NULL ? NULL : PyObject_CallMethod(array, "item", NULL);
    Py_XDECREF(array);
    return item;
}

static PyObject *
tensor_int(PyObject *self)
{
    PyObject *item = tensor_single(self, "int()", PyExc_TypeError);
    PyObject *result = item == NULL ? NULL : PyNumber_Long(item);
    Py_XDECREF(item);
    return result;
}

static PyObject *
tensor_as_index(PyObject *self)
{
    if (ipu_dtype_is_float(((ipu_py_tensor *)self)->type.dtype)) {
        PyErr_SetString(PyExc_TypeError, "a floating-point tensor cannot be an index");
        return NULL;
    }
    PyObject *item =
        tensor_single(self, "an index of a Python sequence", PyExc_TypeError);
    PyObject *result = item == NULL ? NULL : PyNumber_Long(item);
    Py_XDECREF(item);
    return result;
}

static PyObject *
tensor_float(PyObject *self)
{
    PyObject *item = tensor_single(self, "float()", PyExc_TypeError);
    PyObject *result = item == NULL ? NULL : PyNumber_Float(item);
    Py_XDECREF(item);
    return result;
}

static int
tensor_bool(PyObject *self)
{
    PyObject *item = tensor_single(self, "bool()", PyExc_ValueError);
    int result = item == NULL ? -1 : PyObject_IsTrue(item);
    Py_XDECREF(item);
    return result;
}

/* --- what Python does (ipu.tf._tensor.face) ------------------------------------- */

/* The function `name` of that module, with the tensor and, if given, one argument. */
static PyObject *
in_python(const char *name, PyObject *self, PyObject *argument)
{
    PyObject *module = PyImport_ImportModule("ipu.tf._tensor.face");
    PyObject *result =
        module == NULL
            ? NULL
            : PyObject_CallMethod(module, name, argument == NULL ? "O" : "OO", self,
                                  argument);
    Py_XDECREF(module);
    return result;
}

static PyObject *
tensor_repr(PyObject *self)
{
    return in_python("tensor_repr", self, NULL);
}

static PyObject *
tensor_str(PyObject *self)
{
    return in_python("tensor_str", self, NULL);
}

static PyObject *
tensor_format(PyObject *self, PyObject *format)
{
    return in_python("tensor_format", self, format);
}

static PyObject *
tensor_html(PyObject *self, PyObject *Py_UNUSED(ignored))
{
    return in_python("tensor_html", self, NULL);
}

static PyObject *
tensor_ref(PyObject *self, PyObject *Py_UNUSED(ignored))
{
    return in_python("tensor_ref", self, NULL);
}

static PyObject *
tensor_set_shape(PyObject *self, PyObject *shape)
{
    return in_python("tensor_set_shape", self, shape);
}

static PyObject *
tensor_get_device(PyObject *self, void *Py_UNUSED(closure))
{
    return in_python("tensor_device", self, NULL);
}

static PyObject *
tensor_get_op(PyObject *self, void *Py_UNUSED(closure))
{
    return in_python("tensor_op", self, NULL);
}

static PyObject *
tensor_get_device_ordinal(PyObject *self, void *Py_UNUSED(closure))
{
    return PyLong_FromLong(((ipu_py_tensor *)self)->device - 1);
}

/* A part of a variable can be assigned to: `assign` and its like, by their name. */
static PyObject *
tensor_get_assign(PyObject *self, void *name)
{
    PyObject *notes = ((ipu_py_tensor *)self)->notes;
    /* borrowed, and alone asked whether it is there */
    if (notes == NULL || PyDict_GetItemString(notes, "part_of") == NULL) {
        PyErr_Format(PyExc_AttributeError,
                     "a tensor has no '%s': it cannot change. Use tf.Variable, or "
                     "tf.tensor_scatter_nd_update",
                     (const char *)name);
        return NULL;
    }
    PyObject *text = PyUnicode_FromString(name);
    PyObject *method =
        text == NULL ? NULL : in_python("tensor_assign_method", self, text);
    Py_XDECREF(text);
    return method;
}

static PyObject *
tensor_get_notes(PyObject *self, void *Py_UNUSED(closure))
{
    PyObject *notes = ((ipu_py_tensor *)self)->notes;
    return Py_NewRef(notes == NULL ? Py_None : notes);
}

static int
tensor_set_notes(PyObject *self, PyObject *notes, void *Py_UNUSED(closure))
{
    if (notes == NULL || !PyDict_Check(notes)) {
        PyErr_SetString(PyExc_TypeError, "the notes of a tensor are a dict");
        return -1;
    }
    Py_XSETREF(((ipu_py_tensor *)self)->notes, Py_NewRef(notes));
    if (!PyObject_GC_IsTracked(self)) {
        PyObject_GC_Track(self);
    }
    return 0;
}

/* --- copies and pickles -------------------------------------------------------- */

/* A tensor never changes: it is its own copy. */
static PyObject *
tensor_copy(PyObject *self, PyObject *Py_UNUSED(memo))
{
    return Py_NewRef(self);
}

static PyObject *
tensor_reduce(PyObject *self, PyObject *Py_UNUSED(unused))
{
    PyObject *array = tensor_numpy(self, NULL);
    if (array == NULL) {
        return NULL;
    }
    return Py_BuildValue("O(N)", (PyObject *)Py_TYPE(self), array);
}

static PyMethodDef tensor_methods[] = {
    {"numpy", tensor_numpy, METH_NOARGS,
     "numpy()\n--\n\nA read-only view as an ndarray; a NumPy scalar for a scalar "
     "tensor."},
    {"__array__", (PyCFunction)(void (*)(void))tensor_array,
     METH_VARARGS | METH_KEYWORDS,
     "__array__(dtype=None, copy=None)\n--\n\nNumPy's conversion protocol."},
    {"get_shape", tensor_call_shape, METH_NOARGS,
     "get_shape()\n--\n\nThe shape, a tf.TensorShape."},
    {"ref", tensor_ref, METH_NOARGS,
     "ref()\n--\n\nWhat stands for the tensor in sets and dicts."},
    {"set_shape", tensor_set_shape, METH_O,
     "set_shape(shape)\n--\n\nChecks the shape, which is always known."},
    {"__format__", tensor_format, METH_O,
     "__format__(format_spec)\n--\n\nThe values, as NumPy formats them."},
    {"_repr_html_", tensor_html, METH_NOARGS,
     "_repr_html_()\n--\n\nThe type and the values, for a notebook."},
    {"__copy__", tensor_copy, METH_NOARGS,
     "__copy__()\n--\n\nThe tensor itself: it never changes."},
    {"__deepcopy__", tensor_copy, METH_O,
     "__deepcopy__(memo)\n--\n\nThe tensor itself: it never changes."},
    {"__reduce__", tensor_reduce, METH_NOARGS,
     "__reduce__()\n--\n\nFor pickle: the tensor of the values."},
    {"__dlpack__", (PyCFunction)(void (*)(void))ipu_py_tensor_dlpack,
     METH_VARARGS | METH_KEYWORDS,
     "__dlpack__(*, stream=None, max_version=None, dl_device=None, copy=None)\n--\n\n"
     "A DLPack capsule of the tensor's memory."},
    {"__dlpack_device__", ipu_py_tensor_dlpack_device, METH_NOARGS,
     "__dlpack_device__()\n--\n\nThe CPU: (1, 0)."},
    {NULL, NULL, 0, NULL},
};

/* Above that of NumPy's arrays, whose operators then leave `array + tensor` to us. */
static PyObject *
tensor_get_array_priority(PyObject *Py_UNUSED(self), void *Py_UNUSED(closure))
{
    return PyFloat_FromDouble(100.0);
}

static PyGetSetDef tensor_getset[] = {
    {"__array_priority__", tensor_get_array_priority, NULL,
     "Tells NumPy that operators beside arrays are the tensor's.", NULL},
    {"dtype", tensor_get_dtype, NULL, "The element type, a tf.DType.", NULL},
    {"dtype_name", tensor_get_dtype_name, NULL, "The element type's name.", NULL},
    {"shape", tensor_get_shape, NULL, "The shape, a tf.TensorShape.", NULL},
    {"device", tensor_get_device, NULL, "The name of the device that holds it.", NULL},
    {"op", tensor_get_op, NULL,
     "What makes it, of a value of a function that is being traced.", NULL},
    {"_device_ordinal", tensor_get_device_ordinal, NULL,
     "The IPU device that it was made in the scope of; -1: none.", NULL},
    {"assign", tensor_get_assign, NULL, "Of a part of a variable: writes it.",
     "assign"},
    {"assign_add", tensor_get_assign, NULL, "Of a part of a variable: adds to it.",
     "assign_add"},
    {"assign_sub", tensor_get_assign, NULL,
     "Of a part of a variable: subtracts from it.", "assign_sub"},
    {"_notes", tensor_get_notes, tensor_set_notes,
     "What is noted of it, by name (ipu.tf._tensor.notes); None: nothing.", NULL},
    {"ndim", tensor_get_ndim, NULL, "The number of dimensions.", NULL},
    {"is_symbolic", tensor_get_symbolic, NULL,
     "True for a value of a function that is being traced.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

__extension__ static PyType_Slot tensor_slots[] = {
    {Py_tp_doc,
     "Tensor(value, dtype=None)\n--\n\nAn immutable array: of known value, or a "
     "value of the function that is being traced."},
    {Py_tp_new, tensor_new},
    {Py_tp_traverse, tensor_traverse},
    {Py_tp_clear, tensor_clear},
    {Py_tp_dealloc, tensor_dealloc},
    {Py_tp_repr, tensor_repr},
    {Py_tp_str, tensor_str},
    {Py_tp_iter, tensor_iter},
    {Py_tp_richcompare, ipu_py_operator_compare},
    {Py_tp_hash, PyObject_HashNotImplemented},
    {Py_tp_methods, tensor_methods},
    {Py_tp_getset, tensor_getset},
    {Py_bf_getbuffer, ipu_py_tensor_getbuffer},
    {Py_bf_releasebuffer, ipu_py_tensor_releasebuffer},
    {Py_mp_length, tensor_length},
    {Py_mp_subscript, tensor_index},
    {Py_mp_ass_subscript, tensor_assign_item},
    {Py_sq_item, tensor_item},
    {Py_sq_length, tensor_length},
    {Py_nb_add, ipu_py_operator_add},
    {Py_nb_subtract, ipu_py_operator_sub},
    {Py_nb_multiply, ipu_py_operator_mul},
    {Py_nb_true_divide, ipu_py_operator_div},
    {Py_nb_floor_divide, ipu_py_operator_floor_div},
    {Py_nb_remainder, ipu_py_operator_mod},
    {Py_nb_matrix_multiply, ipu_py_operator_matmul},
    {Py_nb_and, ipu_py_operator_and},
    {Py_nb_or, ipu_py_operator_or},
    {Py_nb_xor, ipu_py_operator_xor},
    {Py_nb_power, ipu_py_operator_pow},
    {Py_nb_negative, ipu_py_operator_neg},
    {Py_nb_absolute, ipu_py_operator_abs},
    {Py_nb_invert, ipu_py_operator_invert},
    {Py_nb_bool, tensor_bool},
    {Py_nb_int, tensor_int},
    {Py_nb_float, tensor_float},
    {Py_nb_index, tensor_as_index},
    {0, NULL},
};

PyType_Spec ipu_py_tensor_spec = {
    .name = "ipu._core.Tensor",
    .basicsize = sizeof(ipu_py_tensor),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE |
             Py_TPFLAGS_BASETYPE,
    .slots = tensor_slots,
};
