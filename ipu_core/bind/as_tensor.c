/* SPDX-License-Identifier: MIT
 *
 * What a Python object becomes as a tensor: variables through their `__ipu_tensor__`,
 * lists that hold tensors by stacking, arrays of other libraries through DLPack, the
 * rest through NumPy. The memory is always copied: it must be aligned, carry slack, and
 * belong to nobody who may write to it. Arrays keep their dtype; Python's numbers take
 * TensorFlow's: float32, int32, or int64 where a number does not fit. A number that the
 * wanted dtype cannot hold is an error, never cut off. */
#define NO_IMPORT_ARRAY
#include "bind/bind.h"

#include <numpy/arrayobject.h>
#include <string.h>

static ipu_py_tensor *
tensor_from_array(ipu_py_state *state, PyObject *array)
{
    ipu_type type;
    if (ipu_py_dtype_of_array(array, &type.dtype) < 0) {
        return NULL;
    }
    ipu_py_array_type(array, &type);
    if (type.shape.rank > IPU_MAX_RANK) {
        PyErr_Format(PyExc_ValueError,
                     "an array of %d dimensions; at most %d are supported",
                     (int)type.shape.rank, IPU_MAX_RANK);
        return NULL;
    }
    ipu_py_tensor *tensor = ipu_py_tensor_new(state, &type);
    if (tensor != NULL && tensor->storage->bytes > 0) {
        memcpy(tensor->storage->data, ipu_py_array_data(array), tensor->storage->bytes);
    }
    return tensor;
}

/* Of an array of int64, or of uint64, which are read as negative where they are large.
 */
static bool
fits_int32(PyObject *array)
{
    const int64_t *items = ipu_py_array_data(array);
    for (npy_intp i = 0; i < PyArray_SIZE((PyArrayObject *)array); i++) {
        if (items[i] < INT32_MIN || items[i] > INT32_MAX) {
            return false;
        }
    }
    return true;
}

static int
refuse(PyObject *object, int dtype)
{
    PyErr_Format(PyExc_TypeError, "Cannot convert %R to a tensor of dtype %s", object,
                 ipu_dtype_name((ipu_dtype)dtype));
    return -1;
}

static int
refuse_type(PyObject *object)
{
    if (!PyErr_Occurred() || PyErr_ExceptionMatches(PyExc_TypeError)) {
        PyErr_Format(PyExc_ValueError,
                     "Attempt to convert a value (%R) with an unsupported type (%R) to "
                     "a Tensor.",
                     object, (PyObject *)Py_TYPE(object));
    }
    return -1;
}

/* The dtype of Python's numbers, which NumPy took for `*array`, where `wanted` (or
 * nobody: -1) asks for one; -1 with an exception if there is none. */
static int
python_dtype(PyObject *object, PyObject **array, int wanted)
{
    ipu_dtype dtype;
    if (PyArray_TYPE((PyArrayObject *)*array) == NPY_OBJECT) {
        Py_SETREF(*array, ipu_py_array_of_large(*array, wanted));
    }
    if (*array == NULL || ipu_py_dtype_of_array(*array, &dtype) < 0) {
        return refuse_type(object);
    }
    bool is_empty = PyArray_SIZE((PyArrayObject *)*array) == 0;
    char kind = wanted < 0 ? ' ' : ipu_dtype_kind((ipu_dtype)wanted);
    switch (dtype) {
    case IPU_DTYPE_FLOAT64:
        if (kind != 'f' && ipu_py_check_whole(object, *array) < 0) {
            return -1;
        }
        if (wanted >= 0 && kind != 'f' && !is_empty) {
            return refuse(object, wanted);
        }
        return wanted >= 0 ? wanted : (int)IPU_DTYPE_FLOAT32;
    case IPU_DTYPE_INT64:
    case IPU_DTYPE_UINT64: /* of numbers that are too large for int64 */
        if (kind == 'b' && !is_empty) {
            return refuse(object, wanted);
        }
        return wanted >= 0          ? wanted
               : fits_int32(*array) ? (int)IPU_DTYPE_INT32
                                    : (int)IPU_DTYPE_INT64;
    default:
        return wanted >= 0 ? wanted : (int)dtype;
    }
}

static ipu_py_tensor *
checked_tensor(ipu_py_state *state, PyObject *result, const char *what)
{
    if (result != NULL && !ipu_py_is_tensor(state, result)) {
        PyErr_Format(PyExc_TypeError, "%s must return a tensor", what);
        Py_CLEAR(result);
    }
    return (ipu_py_tensor *)result;
}

bool
ipu_py_is_foreign(PyObject *object)
{
    return !PyLong_Check(object) && !PyFloat_Check(object) &&
           !ipu_py_is_array(object) && PyObject_HasAttrString(object, "__dlpack__");
}

/* 1 for a list with tensors in it, 0 for others, -1 with an exception for one that no
 * tensor can have the axes of, among them one that holds itself. */
static int
holds_tensor(ipu_py_state *state, PyObject *object, int depth)
{
    if (PyLong_Check(object) || PyFloat_Check(object)) {
        return 0;
    }
    if (PyList_Check(object) || PyTuple_Check(object)) {
        if (depth > IPU_MAX_RANK) {
            PyErr_Format(PyExc_ValueError,
                         "lists are nested more than %d deep: a tensor has at most %d "
                         "dimensions",
                         IPU_MAX_RANK, IPU_MAX_RANK);
            return -1;
        }
        /* attributes are looked up, so the list may change meanwhile */
        for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(object); i++) {
            PyObject *item = Py_NewRef(PySequence_Fast_GET_ITEM(object, i));
            int found = holds_tensor(state, item, depth + 1);
            Py_DECREF(item);
            if (found != 0) {
                return found;
            }
        }
        return 0;
    }
    return ipu_py_is_tensor(state, object) ||
           PyObject_HasAttrString(object, "__ipu_tensor__") ||
           ipu_py_is_foreign(object);
}

/* The object as an array, of `dtype` where that is not negative. */
static PyObject *
array_of(PyObject *object, int dtype)
{
    bool plain = ipu_py_is_array(object);
    bool items = PyList_CheckExact(object) || PyTuple_CheckExact(object);
    bool foreign = !plain && !items && ipu_py_is_foreign(object);
    PyObject *array =
        foreign ? ipu_py_call("ipu.tf._tensor.foreign", "array_of", "(O)", object)
                : ipu_py_any_array(object, -1);
    if (array == NULL && (PyList_Check(object) || PyTuple_Check(object)) &&
        PyErr_ExceptionMatches(PyExc_ValueError)) {
        PyErr_Format(PyExc_ValueError,
                     "Can't convert non-rectangular Python sequence to Tensor. "
                     "Received: %R",
                     object);
    }
    if (array != NULL && !plain && !foreign &&
        (items || !PyObject_HasAttrString(object, "__array__"))) {
        dtype = python_dtype(object, &array, dtype);
        if (dtype < 0) {
            Py_CLEAR(array);
        }
    }
    if (array != NULL && dtype >= 0 && ipu_py_check_fits(array, (ipu_dtype)dtype) < 0) {
        Py_CLEAR(array);
    }
    if (array != NULL && (foreign || dtype >= 0)) {
        Py_SETREF(array, ipu_py_any_array(array, dtype));
    }
    return array;
}

ipu_py_tensor *
ipu_py_as_tensor(ipu_py_state *state, PyObject *object, int dtype)
{
    if (ipu_py_is_tensor(state, object)) {
        return (ipu_py_tensor *)Py_NewRef(object);
    }
    ipu_py_tensor *number;
    if (ipu_py_tensor_of_number(state, object, dtype, &number)) {
        return number;
    }
    bool items = PyList_Check(object) || PyTuple_Check(object);
    if (!items && !PyLong_Check(object) && !PyFloat_Check(object) &&
        !ipu_py_is_array(object) && PyObject_HasAttrString(object, "__ipu_tensor__")) {
        PyObject *result = PyObject_CallMethod(object, "__ipu_tensor__", NULL);
        return checked_tensor(state, result, "__ipu_tensor__");
    }
    int stacked = items ? holds_tensor(state, object, 1) : 0;
    if (stacked < 0) {
        return NULL;
    }
    if (stacked > 0) {
        PyObject *result =
            ipu_py_call("ipu.tf._tensor.stack", "stack_nested", "(Oi)", object, dtype);
        return checked_tensor(state, result, "stack_nested");
    }
    PyObject *array = array_of(object, dtype);
    if (array == NULL) {
        return NULL;
    }
    ipu_py_tensor *tensor = tensor_from_array(state, array);
    Py_DECREF(array);
    return tensor;
}
