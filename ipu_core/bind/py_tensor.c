/* SPDX-License-Identifier: MIT
 *
 * ipu._core.Tensor: immutable; eager (it has bytes) or symbolic (a value of a trace).
 * The bytes are aligned and carry slack, so that kernels may use them as they are.
 * NumPy and DLPack get views, since nothing writes to a tensor once it is made. */
#define NO_IMPORT_ARRAY
#include "bind/bind.h"

#include <string.h>


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
ipu_py_tensor_symbolic(ipu_py_state *state, PyObject *trace, ipu_value value)
{
    const ipu_graph *graph = ipu_py_trace_of(trace)->graph;
    ipu_py_tensor *tensor = tensor_alloc(state, &ipu_value_of(graph, value)->type);
    if (tensor != NULL) {
        tensor->trace = Py_NewRef(trace);
        tensor->value = value;
        PyObject_GC_Track(tensor); /* one of bytes refers to no object */
    }
    return tensor;
}

static ipu_py_tensor *
tensor_cast(ipu_py_state *state, ipu_py_tensor *tensor, ipu_dtype dtype)
{
    ipu_attr attr = {.key = IPU_ATTR_DTYPE, .as.i = (int64_t)dtype};
    return (ipu_py_tensor *)ipu_py_apply(state, IPU_OP_ID_CAST, &tensor, 1, &attr, 1);
}

/* --- the Python type ------------------------------------------------------------- */

int
ipu_py_require_eager(ipu_py_tensor *self, const char *what)
{
    if (self->storage != NULL) {
        return 0;
    }
    PyObject *open = ipu_py_open_trace(ipu_py_state_of(self));
    if (open == NULL || open == Py_None) {
        ipu_py_raise_leaked(self);
        return -1;
    }
    PyErr_Format(
        PyExc_TypeError,
        "%s needs the tensor's value, which is not known while a function is traced; "
        "return the tensor from the function, or enqueue it to an outfeed",
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
    ipu_dtype dtype;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|O:Tensor", names, &value,
                                     &dtype_object) ||
        (dtype_object != Py_None && !ipu_py_dtype_converter(dtype_object, &dtype))) {
        return NULL;
    }
    int wanted = dtype_object == Py_None ? -1 : (int)dtype;
    ipu_py_tensor *tensor = ipu_py_as_tensor(state, value, wanted);
    if (tensor != NULL && wanted >= 0 && (int)tensor->type.dtype != wanted) {
        Py_SETREF(tensor, tensor_cast(state, tensor, dtype));
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
    if (dtype !=
        Py_None) { /* order, casting, subok and copy are the defaults, and no */
        Py_SETREF(array, PyObject_CallMethod(array, "astype", "OssOO", dtype, "K",
                                             "unsafe", Py_True, Py_False));
    }
    if (array != NULL && copy == Py_True) {
        Py_SETREF(array, PyObject_CallMethod(array, "copy", NULL));
    }
    return array;
}

/* tf.DType objects live in Python; they are made once and looked up by name. */
static PyObject *
dtype_of(const ipu_py_tensor *self)
{
    PyObject *module = PyImport_ImportModule("ipu.tf.dtypes");
    PyObject *dtype =
        module == NULL
            ? NULL
            : PyObject_GetAttrString(module, ipu_dtype_name(self->type.dtype));
    Py_XDECREF(module);
    return dtype;
}

static PyObject *
shape_of(const ipu_py_tensor *self)
{
    PyObject *sizes = ipu_py_shape_tuple(&self->type.shape);
    return sizes == NULL
               ? NULL
               : ipu_py_call("ipu.tf.tensor_shape", "TensorShape", "(N)", sizes);
}

static PyObject *
tensor_get_shape(PyObject *self, PyObject *Py_UNUSED(ignored))
{
    return shape_of((ipu_py_tensor *)self);
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
    return ipu_py_call("ipu.tf._tensor.indexing", "getitem", "(OO)", self, key);
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
    return ipu_py_call("ipu.tf._tensor.indexing", "getitem", "(On)", self, i);
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

/* That element as `convert` makes it of a NumPy scalar. */
static PyObject *
tensor_number(PyObject *self, const char *what, PyObject *(*convert)(PyObject *))
{
    PyObject *item = tensor_single(self, what, PyExc_TypeError);
    PyObject *result = item == NULL ? NULL : convert(item);
    Py_XDECREF(item);
    return result;
}

static PyObject *
tensor_int(PyObject *self)
{
    return tensor_number(self, "int()", PyNumber_Long);
}

static PyObject *
tensor_float(PyObject *self)
{
    return tensor_number(self, "float()", PyNumber_Float);
}

static PyObject *
tensor_as_index(PyObject *self)
{
    if (ipu_dtype_is_float(((ipu_py_tensor *)self)->type.dtype)) {
        PyErr_SetString(PyExc_TypeError, "a floating-point tensor cannot be an index");
        return NULL;
    }
    return tensor_number(self, "an index of a Python sequence", PyNumber_Long);
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
    return ipu_py_call("ipu.tf._tensor.face", name, argument == NULL ? "(O)" : "(OO)",
                       self, argument);
}

#define SLOT(name) \
    static PyObject *name(PyObject *self) \
    { \
        return in_python(#name, self, NULL); \
    }
#define METHOD(name) \
    static PyObject *name(PyObject *self, PyObject *argument) \
    { \
        return in_python(#name, self, argument); \
    }
SLOT(tensor_repr)
SLOT(tensor_str)
METHOD(tensor_format)
METHOD(tensor_html)
METHOD(tensor_ref)
METHOD(tensor_set_shape)
#undef SLOT
#undef METHOD

/* A part of a variable can be assigned to: `assign` and its like, by their name. */
static PyObject *
assign_method(const ipu_py_tensor *self, const char *name)
{
    /* borrowed, and alone asked whether it is there */
    if (self->notes == NULL || PyDict_GetItemString(self->notes, "part_of") == NULL) {
        return PyErr_Format(PyExc_AttributeError,
                            "a tensor has no '%s': it cannot change. Use tf.Variable, "
                            "or tf.tensor_scatter_nd_update",
                            name);
    }
    return ipu_py_call("ipu.tf._tensor.face", "tensor_assign_method", "(Os)", self,
                       name);
}

static int
set_notes(PyObject *self, PyObject *notes, void *Py_UNUSED(closure))
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

/* --- operators ------------------------------------------------------------------- */

/* The other operand takes the tensor's dtype; each is one op, eager or traced. */

/* Whether `object` can stand beside a tensor in an expression. */
static bool
is_operand(ipu_py_state *state, PyObject *object)
{
    return ipu_py_is_tensor(state, object) || PyLong_Check(object) ||
           PyFloat_Check(object) || ipu_py_is_array(object) || PyList_Check(object) ||
           PyObject_HasAttrString(object, "__ipu_tensor__") ||
           ipu_py_is_foreign(object);
}

/* One of them is a tensor. */
static ipu_py_state *
state_of_operands(PyObject *left, PyObject *right)
{
    ipu_py_state *state = ipu_py_state_of(left);
    if (state == NULL) {
        PyErr_Clear();
        state = ipu_py_state_of(right);
    }
    return state;
}

/* Python's true division: integers divide in floating point, wide ones in float64
 * where that exists. */
static ipu_dtype
quotient_dtype(ipu_py_state *state, ipu_dtype dtype)
{
    PyObject *open = ipu_py_open_trace(state);
    bool on_device = open != NULL && !ipu_py_trace_of(open)->graph->host;
    return ipu_dtype_bytes(dtype) >= 4 && !on_device ? IPU_DTYPE_FLOAT64
                                                     : IPU_DTYPE_FLOAT32;
}

static PyObject *
divide_integers(ipu_py_state *state, ipu_py_tensor *const inputs[2])
{
    ipu_dtype dtype = quotient_dtype(state, inputs[0]->type.dtype);
    ipu_py_tensor *casts[2] = {
        tensor_cast(state, inputs[0], dtype),
        tensor_cast(state, inputs[1], dtype),
    };
    PyObject *result = casts[0] == NULL || casts[1] == NULL
                           ? NULL
                           : ipu_py_apply(state, IPU_OP_ID_DIV, casts, 2, NULL, 0);
    Py_XDECREF(casts[0]);
    Py_XDECREF(casts[1]);
    return result;
}

static PyObject *
binary_op(PyObject *left, PyObject *right, ipu_op op)
{
    ipu_py_state *state = state_of_operands(left, right);
    if (state == NULL) {
        return NULL;
    }
    if (!is_operand(state, left) || !is_operand(state, right)) {
        Py_RETURN_NOTIMPLEMENTED;
    }
    bool left_is_tensor = ipu_py_is_tensor(state, left);
    ipu_py_tensor *a = (ipu_py_tensor *)(left_is_tensor ? left : right);
    PyObject *other = left_is_tensor ? right : left;
    if (PyFloat_Check(other) && !ipu_dtype_is_float(a->type.dtype)) {
        PyErr_Format(
            PyExc_TypeError,
            "a float beside a tensor of dtype %s; convert the tensor with tf.cast",
            ipu_dtype_name(a->type.dtype));
        return NULL;
    }
    int dtype = (int)a->type.dtype; /* which a number takes */
    if (ipu_py_is_array(other)) {
        dtype = ipu_py_dtype_beside(other, a->type.dtype);
    } else if (ipu_py_is_foreign(other)) {
        dtype = -1;
    }
    ipu_py_tensor *b = ipu_py_as_tensor(state, other, dtype);
    if (b == NULL) {
        return NULL;
    }
    ipu_py_tensor *inputs[2] = {left_is_tensor ? a : b, left_is_tensor ? b : a};
    PyObject *result = op == IPU_OP_ID_DIV && !ipu_dtype_is_float(inputs[0]->type.dtype)
                           ? divide_integers(state, inputs)
                           : ipu_py_apply(state, op, inputs, 2, NULL, 0);
    Py_DECREF(b);
    return result;
}

static PyObject *
unary_op(PyObject *self, ipu_op op)
{
    ipu_py_tensor *input = (ipu_py_tensor *)self;
    return ipu_py_apply(ipu_py_state_of(self), op, &input, 1, NULL, 0);
}

static bool
is_of_bools(ipu_py_state *state, PyObject *object)
{
    return ipu_py_is_tensor(state, object) &&
           ((ipu_py_tensor *)object)->type.dtype == IPU_DTYPE_BOOL;
}

/* `a & b` and its like: `logical` for bools, `bitwise` for integers. */
static PyObject *
bits_op(PyObject *left, PyObject *right, ipu_op logical, ipu_op bitwise)
{
    ipu_py_state *state = state_of_operands(left, right);
    if (state == NULL) {
        return NULL;
    }
    bool of_bools = is_of_bools(state, left) || is_of_bools(state, right);
    return binary_op(left, right, of_bools ? logical : bitwise);
}

/* X(slot of Python, op) */
#define BINARY_LIST(X) \
    X(add, ADD) \
    X(subtract, SUB) \
    X(multiply, MUL) \
    X(true_divide, DIV) \
    X(floor_divide, FLOOR_DIV) \
    X(remainder, FLOOR_MOD) \
    X(matrix_multiply, MATMUL)
#define X(name, OP) \
    static PyObject *operator_##name(PyObject *left, PyObject *right) \
    { \
        return binary_op(left, right, IPU_OP_ID_##OP); \
    }
BINARY_LIST(X)
#undef X

/* X(slot of Python, op for bools, op for integers) */
#define BITS_LIST(X) \
    X(and, LOGICAL_AND, BITWISE_AND) \
    X(or, LOGICAL_OR, BITWISE_OR) \
    X(xor, NOT_EQUAL, BITWISE_XOR)
#define X(name, LOGICAL, BITWISE) \
    static PyObject *operator_##name(PyObject *left, PyObject *right) \
    { \
        return bits_op(left, right, IPU_OP_ID_##LOGICAL, IPU_OP_ID_##BITWISE); \
    }
BITS_LIST(X)
#undef X

static PyObject *
operator_power(PyObject *left, PyObject *right, PyObject *modulus)
{
    if (modulus != Py_None) {
        Py_RETURN_NOTIMPLEMENTED;
    }
    return binary_op(left, right, IPU_OP_ID_POW);
}

static PyObject *
operator_negative(PyObject *self)
{
    return unary_op(self, IPU_OP_ID_NEG);
}

static PyObject *
operator_absolute(PyObject *self)
{
    return unary_op(self, IPU_OP_ID_ABS);
}

static PyObject *
operator_invert(PyObject *self)
{
    return unary_op(self, is_of_bools(ipu_py_state_of(self), self)
                              ? IPU_OP_ID_LOGICAL_NOT
                              : IPU_OP_ID_BITWISE_NOT);
}

static PyObject *
operator_compare(PyObject *left, PyObject *right, int relation)
{
    static const ipu_op ops[] = {
        [Py_LT] = IPU_OP_ID_LESS,    [Py_LE] = IPU_OP_ID_LESS_EQUAL,
        [Py_EQ] = IPU_OP_ID_EQUAL,   [Py_NE] = IPU_OP_ID_NOT_EQUAL,
        [Py_GT] = IPU_OP_ID_GREATER, [Py_GE] = IPU_OP_ID_GREATER_EQUAL,
    };
    if (right == Py_None) {
        if (relation == Py_EQ) {
            Py_RETURN_FALSE;
        }
        if (relation == Py_NE) {
            Py_RETURN_TRUE;
        }
    }
    return binary_op(left, right, ops[relation]);
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
    return array == NULL ? NULL : Py_BuildValue("O(N)", Py_TYPE(self), array);
}

static PyMethodDef tensor_methods[] = {
    {"numpy", tensor_numpy, METH_NOARGS,
     "numpy()\n--\n\nA read-only view as an ndarray; a NumPy scalar for a scalar "
     "tensor."},
    {"__array__", IPU_PY_FUNCTION(tensor_array), METH_VARARGS | METH_KEYWORDS,
     "__array__(dtype=None, copy=None)\n--\n\nNumPy's conversion protocol."},
    {"get_shape", tensor_get_shape, METH_NOARGS,
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
    {"__dlpack__", IPU_PY_FUNCTION(ipu_py_tensor_dlpack), METH_VARARGS | METH_KEYWORDS,
     "__dlpack__(*, stream=None, max_version=None, dl_device=None, copy=None)\n--\n\n"
     "A DLPack capsule of the tensor's memory."},
    {"__dlpack_device__", ipu_py_tensor_dlpack_device, METH_NOARGS,
     "__dlpack_device__()\n--\n\nThe CPU: (1, 0)."},
    {NULL, NULL, 0, NULL},
};

#define ATTRIBUTES(X, T) \
    /* above that of NumPy's arrays, which then leave `array + tensor` to us */ \
    X(T, __array_priority__, PyFloat_FromDouble(100.0), NULL, \
      "Tells NumPy that operators beside arrays are the tensor's.") \
    X(T, dtype, dtype_of(self), NULL, "The element type, a tf.DType.") \
    X(T, dtype_name, PyUnicode_FromString(ipu_dtype_name(self->type.dtype)), NULL, \
      "The element type's name.") \
    X(T, shape, shape_of(self), NULL, "The shape, a tf.TensorShape.") \
    X(T, device, in_python("tensor_device", self_object, NULL), NULL, \
      "The name of the device that holds it.") \
    X(T, op, in_python("tensor_op", self_object, NULL), NULL, \
      "What makes it, of a value of a function that is being traced.") \
    X(T, _device_ordinal, PyLong_FromLong(self->device - 1), NULL, \
      "The IPU device that it was made in the scope of; -1: none.") \
    X(T, assign, assign_method(self, "assign"), NULL, \
      "Of a part of a variable: writes it.") \
    X(T, assign_add, assign_method(self, "assign_add"), NULL, \
      "Of a part of a variable: adds to it.") \
    X(T, assign_sub, assign_method(self, "assign_sub"), NULL, \
      "Of a part of a variable: subtracts from it.") \
    X(T, _notes, Py_NewRef(self->notes == NULL ? Py_None : self->notes), set_notes, \
      "What is noted of it, by name (ipu.tf._tensor.notes); None: nothing.") \
    X(T, ndim, PyLong_FromLong(self->type.shape.rank), NULL, \
      "The number of dimensions.") \
    X(T, is_symbolic, PyBool_FromLong(self->storage == NULL), NULL, \
      "True for a value of a function that is being traced.")
IPU_PY_ATTRIBUTES(ipu_py_tensor, ATTRIBUTES);

#define BINARY_SLOT(name, ...) {Py_nb_##name, operator_##name},
IPU_PY_TYPE(
    tensor, "Tensor", ipu_py_tensor, Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_BASETYPE,
    {Py_tp_doc,
     "Tensor(value, dtype=None)\n--\n\nAn immutable array: of known value, or a "
     "value of the function that is being traced.\n\nExample:\n"
     "    >>> 2 * tf.constant([1, 2])\n"
     "    <tf.Tensor: shape=(2,), dtype=int32, numpy=array([2, 4], dtype=int32)>\n"},
    {Py_tp_new, tensor_new}, {Py_tp_traverse, tensor_traverse},
    {Py_tp_clear, tensor_clear}, {Py_tp_dealloc, tensor_dealloc},
    {Py_tp_repr, tensor_repr}, {Py_tp_str, tensor_str}, {Py_tp_iter, tensor_iter},
    {Py_tp_richcompare, operator_compare}, {Py_tp_hash, PyObject_HashNotImplemented},
    {Py_tp_methods, tensor_methods}, {Py_tp_getset, ipu_py_tensor_getset},
    {Py_bf_getbuffer, ipu_py_tensor_getbuffer},
    {Py_bf_releasebuffer, ipu_py_tensor_releasebuffer}, {Py_mp_length, tensor_length},
    {Py_mp_subscript, tensor_index}, {Py_mp_ass_subscript, tensor_assign_item},
    {Py_sq_item, tensor_item}, {Py_sq_length, tensor_length},
    BINARY_LIST(BINARY_SLOT) BITS_LIST(BINARY_SLOT)
    {Py_nb_power, operator_power},
    {Py_nb_negative, operator_negative}, {Py_nb_absolute, operator_absolute},
    {Py_nb_invert, operator_invert}, {Py_nb_bool, tensor_bool}, {Py_nb_int, tensor_int},
    {Py_nb_float, tensor_float}, {Py_nb_index, tensor_as_index});
