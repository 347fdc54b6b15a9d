/* SPDX-License-Identifier: MIT
 *
 * Conversions between Python objects and the core's types: dtypes, shapes, arrays. */
#define NO_IMPORT_ARRAY
#include "bind/bind.h"

#include <numpy/arrayobject.h>
#include <string.h>

static const int numpy_types[] = {
    [IPU_DTYPE_FLOAT32] = NPY_FLOAT32, [IPU_DTYPE_FLOAT16] = NPY_FLOAT16,
    [IPU_DTYPE_INT32] = NPY_INT32,     [IPU_DTYPE_INT8] = NPY_INT8,
    [IPU_DTYPE_UINT8] = NPY_UINT8,     [IPU_DTYPE_BOOL] = NPY_BOOL,
    [IPU_DTYPE_FLOAT64] = NPY_FLOAT64, [IPU_DTYPE_INT64] = NPY_INT64,
    [IPU_DTYPE_INT16] = NPY_INT16,     [IPU_DTYPE_UINT16] = NPY_UINT16,
    [IPU_DTYPE_UINT32] = NPY_UINT32,   [IPU_DTYPE_UINT64] = NPY_UINT64,
};

int
ipu_py_dtype_of_array(PyObject *array, ipu_dtype *out)
{
    PyArray_Descr *descr = PyArray_DESCR((PyArrayObject *)array);
    for (int i = 0; i < IPU_DTYPE_COUNT; i++) {
        /* C long and long long are one type to us */
        if (PyArray_EquivTypenums(descr->type_num, numpy_types[i])) {
            *out = (ipu_dtype)i;
            return 0;
        }
    }
    PyErr_Format(PyExc_TypeError, "arrays of dtype %R are not supported", descr);
    return -1;
}

int
ipu_py_parse_dtype(PyObject *object, ipu_dtype *out)
{
    PyObject *name = NULL;
    if (PyUnicode_Check(object)) {
        name = Py_NewRef(object);
    } else {
        name = PyObject_GetAttrString(object, "name");
        if (name == NULL) { /* np.float32 and its like */
            PyErr_Clear();
            PyArray_Descr *descr = NULL;
            if (PyArray_DescrConverter(object, &descr) == NPY_FAIL) {
                return -1;
            }
            name = PyObject_GetAttrString((PyObject *)descr, "name");
            Py_DECREF(descr);
        }
    }
    Py_ssize_t length;
    const char *text = name == NULL ? NULL : PyUnicode_AsUTF8AndSize(name, &length);
    bool found = text != NULL && ipu_dtype_parse(text, (size_t)length, out);
    if (!found && !PyErr_Occurred()) {
        PyErr_Format(PyExc_TypeError, "unknown dtype %R", object);
    }
    Py_XDECREF(name);
    return found ? 0 : -1;
}

int
ipu_py_parse_shape(PyObject *object, bool allow_unknown, ipu_shape *out)
{
    *out = (ipu_shape){0};
    PyObject *items = PySequence_Tuple(object);
    if (items == NULL) {
        return -1;
    }
    Py_ssize_t rank = PyTuple_GET_SIZE(items);
    int result = 0;
    if (rank > IPU_MAX_RANK) {
        PyErr_Format(PyExc_ValueError,
                     "a shape of %zd dimensions; at most %d are supported", rank,
                     IPU_MAX_RANK);
        result = -1;
    }
    for (Py_ssize_t i = 0; result == 0 && i < rank; i++) {
        PyObject *item = PyTuple_GET_ITEM(items, i);
        if (item == Py_None && allow_unknown) {
            out->dims[out->rank++] = -1;
            continue;
        }
        long long dim = PyLong_AsLongLong(item);
        if (dim == -1 && PyErr_Occurred()) {
            result = -1;
        } else if (dim < 0) {
            PyErr_Format(PyExc_ValueError, "dimension %lld of a shape is negative",
                         dim);
            result = -1;
        }
        out->dims[out->rank++] = dim;
    }
    Py_DECREF(items);
    return result;
}

PyObject *
ipu_py_shape_tuple(const ipu_shape *shape)
{
    PyObject *tuple = PyTuple_New(shape->rank);
    for (int32_t i = 0; tuple != NULL && i < shape->rank; i++) {
        PyObject *item = shape->dims[i] < 0 ? Py_NewRef(Py_None)
                                            : PyLong_FromLongLong(shape->dims[i]);
        if (item == NULL) {
            Py_CLEAR(tuple);
            break;
        }
        PyTuple_SET_ITEM(tuple, i, item);
    }
    return tuple;
}

PyObject *
ipu_py_type_tuple(const ipu_type *type)
{
    PyObject *shape = ipu_py_shape_tuple(&type->shape);
    return shape == NULL ? NULL
                         : Py_BuildValue("(sN)", ipu_dtype_name(type->dtype), shape);
}

int
ipu_py_parse_type_tuple(PyObject *object, bool allow_unknown, ipu_type *out)
{
    PyObject *dtype;
    PyObject *shape;
    if (!PyTuple_Check(object) || !PyArg_ParseTuple(object, "OO", &dtype, &shape)) {
        if (!PyErr_Occurred()) {
            PyErr_SetString(PyExc_TypeError, "expected (dtype, shape)");
        }
        return -1;
    }
    if (ipu_py_parse_dtype(dtype, &out->dtype) < 0) {
        return -1;
    }
    return ipu_py_parse_shape(shape, allow_unknown, &out->shape);
}

PyObject *
ipu_py_any_array(PyObject *object, int dtype)
{
    PyArray_Descr *descr = dtype < 0 ? NULL : PyArray_DescrFromType(numpy_types[dtype]);
    /* not PyArray_FromAny, which leaves the bytes of the other order as they are */
    return PyArray_CheckFromAny(object, descr, 0, 0,
                                NPY_ARRAY_C_CONTIGUOUS | NPY_ARRAY_ALIGNED |
                                    NPY_ARRAY_NOTSWAPPED | NPY_ARRAY_FORCECAST,
                                NULL);
}

void
ipu_py_array_type(PyObject *array, ipu_type *type)
{
    PyArrayObject *a = (PyArrayObject *)array;
    type->shape = (ipu_shape){.rank = PyArray_NDIM(a)};
    for (int i = 0; i < PyArray_NDIM(a) && i < IPU_MAX_RANK; i++) {
        type->shape.dims[i] = PyArray_DIM(a, i);
    }
}

void *
ipu_py_array_data(PyObject *array)
{
    return PyArray_DATA((PyArrayObject *)array);
}

bool
ipu_py_is_array(PyObject *object)
{
    return PyArray_Check(object) || PyArray_IsScalar(object, Generic);
}

int
ipu_py_dtype_beside(PyObject *object, ipu_dtype dtype)
{
    PyArray_Descr *descr = PyArray_DescrFromObject(object, NULL);
    if (descr == NULL) {
        PyErr_Clear();
        return -1;
    }
    char kind = descr->kind;
    char target = ipu_dtype_kind(dtype);
    Py_DECREF(descr);
    bool whole = kind == 'i' || kind == 'u';
    bool fits = whole ? target != 'b' : kind == target;
    return fits ? (int)dtype : -1;
}

PyObject *
ipu_py_as_array(PyObject *object, const ipu_type *type)
{
    PyObject *own = ipu_py_any_array(object, -1);
    if (own == NULL || ipu_py_check_fits(own, type->dtype) < 0) {
        Py_XDECREF(own);
        return NULL;
    }
    PyObject *array = ipu_py_any_array(own, (int)type->dtype);
    Py_DECREF(own);
    if (array == NULL) {
        return NULL;
    }
    ipu_type actual = {.dtype = type->dtype};
    ipu_py_array_type(array, &actual);
    if (!ipu_type_equal(&actual, type)) {
        char a[128];
        char b[128];
        PyErr_Format(PyExc_ValueError, "expected shape %s, but got %s",
                     ipu_shape_print(&type->shape, a, sizeof(a)),
                     ipu_shape_print(&actual.shape, b, sizeof(b)));
        Py_DECREF(array);
        return NULL;
    }
    return array;
}
