/* SPDX-License-Identifier: MIT
 *
 * Conversions between Python objects and the core's types: dtypes, shapes, arrays; and
 * results that are built of several parts. */
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
ipu_py_dtype_converter(PyObject *object, void *out)
{
    PyObject *name = NULL;
    if (PyUnicode_Check(object)) {
        name = Py_NewRef(object);
    } else {
        name = PyObject_GetAttrString(object, "name");
        /* np.float32 and its like; np.dtype's name is Python's, where Ctrl-C comes */
        if (name == NULL && PyErr_ExceptionMatches(PyExc_AttributeError)) {
            PyErr_Clear();
            PyArray_Descr *descr = NULL;
            if (PyArray_DescrConverter(object, &descr) == NPY_FAIL) {
                return 0;
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
    return found;
}

/* -1 as a dimension stands for None, where that is allowed. */
static int
parse_shape(PyObject *object, bool allow_unknown, ipu_shape *out)
{
    PyObject *items = PySequence_Tuple(object);
    if (items == NULL) {
        return 0;
    }
    Py_ssize_t rank = PyTuple_GET_SIZE(items);
    *out = (ipu_shape){0};
    if (rank > IPU_MAX_RANK) {
        PyErr_Format(PyExc_ValueError,
                     "a shape of %zd dimensions; at most %d are supported", rank,
                     IPU_MAX_RANK);
    }
    for (Py_ssize_t i = 0; !PyErr_Occurred() && i < rank; i++) {
        PyObject *item = PyTuple_GET_ITEM(items, i);
        bool is_unknown = item == Py_None && allow_unknown;
        long long dim = is_unknown ? -1 : PyLong_AsLongLong(item);
        if (dim < 0 && !is_unknown && !PyErr_Occurred()) {
            PyErr_Format(PyExc_ValueError, "dimension %lld of a shape is negative",
                         dim);
        }
        out->dims[out->rank++] = dim;
    }
    Py_DECREF(items);
    return PyErr_Occurred() == NULL;
}

int
ipu_py_shape_converter(PyObject *object, void *out)
{
    return parse_shape(object, false, out);
}

static int
parse_type(PyObject *object, bool allow_unknown, ipu_type *out)
{
    if (!PyTuple_Check(object) || PyTuple_GET_SIZE(object) != 2) {
        PyErr_Format(PyExc_TypeError, "expected (dtype, shape), but got %R", object);
        return 0;
    }
    PyObject *shape = PyTuple_GET_ITEM(object, 1);
    if (!ipu_py_dtype_converter(PyTuple_GET_ITEM(object, 0), &out->dtype)) {
        return 0;
    }
    if (shape == Py_None && allow_unknown) {
        out->shape = (ipu_shape){.rank = -1};
        return 1;
    }
    return parse_shape(shape, allow_unknown, &out->shape);
}

int
ipu_py_type_converter(PyObject *object, void *out)
{
    return parse_type(object, false, out);
}

int
ipu_py_spec_converter(PyObject *object, void *out)
{
    return parse_type(object, true, out);
}

ipu_type *
ipu_py_types(PyObject *sequence, int (*converter)(PyObject *, void *), uint32_t *count)
{
    PyObject *items = PySequence_Tuple(sequence);
    if (items == NULL) {
        return NULL;
    }
    *count = (uint32_t)PyTuple_GET_SIZE(items);
    ipu_type *types = PyMem_Calloc((size_t)*count + 1, sizeof(*types));
    if (types == NULL) {
        PyErr_NoMemory();
    }
    for (uint32_t i = 0; types != NULL && i < *count; i++) {
        if (!converter(PyTuple_GET_ITEM(items, i), &types[i])) {
            PyMem_Free(types);
            types = NULL;
        }
    }
    Py_DECREF(items);
    return types;
}

int
ipu_py_uint32_converter(PyObject *object, void *out)
{
    PyObject *index = PyNumber_Index(object);
    if (index == NULL) {
        return 0;
    }
    int overflow;
    long long number = PyLong_AsLongLongAndOverflow(index, &overflow);
    Py_DECREF(index);
    if (overflow != 0 || number < 0 || number > UINT32_MAX) {
        PyErr_Format(PyExc_ValueError, "a number must be from 0 to %u, but got %R",
                     UINT32_MAX, object);
        return 0;
    }
    *(uint32_t *)out = (uint32_t)number;
    return 1;
}

int
ipu_py_choice(const char *what, const char *text, const char *const *names, int count)
{
    for (int i = 0; i < count; i++) {
        if (strcmp(text, names[i]) == 0) {
            return i;
        }
    }
    PyErr_Format(PyExc_ValueError, "there is no %s \"%s\"", what, text);
    return -1;
}

PyObject *
ipu_py_shape_tuple(const ipu_shape *shape)
{
    PyObject *tuple = PyTuple_New(shape->rank);
    for (int32_t i = 0; tuple != NULL && i < shape->rank; i++) {
        ipu_py_put(&tuple, i,
                   shape->dims[i] < 0 ? Py_NewRef(Py_None)
                                      : PyLong_FromLongLong(shape->dims[i]));
    }
    return tuple;
}

static PyObject *
type_tuple(const ipu_type *type)
{
    PyObject *shape =
        type->shape.rank < 0 ? Py_NewRef(Py_None) : ipu_py_shape_tuple(&type->shape);
    return shape == NULL ? NULL
                         : Py_BuildValue("(sN)", ipu_dtype_name(type->dtype), shape);
}

PyObject *
ipu_py_type_list(const ipu_type *types, uint32_t count)
{
    PyObject *list = PyList_New(count);
    for (uint32_t i = 0; list != NULL && i < count; i++) {
        ipu_py_put(&list, i, type_tuple(&types[i]));
    }
    return list;
}

/* --- results --------------------------------------------------------------------- */

void
ipu_py_put(PyObject **sequence, Py_ssize_t i, PyObject *item)
{
    if (item == NULL) {
        Py_CLEAR(*sequence);
    } else if (PyTuple_CheckExact(*sequence)) {
        PyTuple_SET_ITEM(*sequence, i, item);
    } else {
        PyList_SET_ITEM(*sequence, i, item);
    }
}

void
ipu_py_append(PyObject **list, PyObject *item)
{
    if (item == NULL || PyList_Append(*list, item) < 0) {
        Py_CLEAR(*list);
    }
    Py_XDECREF(item);
}

PyObject *
ipu_py_text(ipu_ctx *ctx, ipu_status status, char *text, size_t bytes)
{
    if (!ipu_py_is_ok(ctx, status)) {
        return NULL;
    }
    PyObject *result = PyUnicode_DecodeUTF8(text, (Py_ssize_t)bytes - 1, "replace");
    ipu_free(ctx, text, bytes);
    return result;
}

PyObject *
ipu_py_call(const char *module_name, const char *name, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    PyObject *args = Py_VaBuildValue(format, values);
    va_end(values);
    PyObject *module = args == NULL ? NULL : PyImport_ImportModule(module_name);
    PyObject *function = module == NULL ? NULL : PyObject_GetAttrString(module, name);
    PyObject *result = function == NULL ? NULL : PyObject_CallObject(function, args);
    Py_XDECREF(args);
    Py_XDECREF(function);
    Py_XDECREF(module);
    return result;
}

/* --- arrays ---------------------------------------------------------------------- */

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
