/* SPDX-License-Identifier: MIT
 *
 * Numbers into a dtype: one that it cannot hold is an error that names its range, never
 * wrapped around or made infinite. A single Python number needs no NumPy. */
#define NO_IMPORT_ARRAY
#include "bind/bind.h"

#include <float.h>
#include <math.h>
#include <numpy/arrayobject.h>
#include <string.h>

/* --- what a dtype holds ---------------------------------------------------------- */

typedef struct range {
    int64_t least;
    uint64_t most;
} range;

static range
range_of(ipu_dtype dtype)
{
    unsigned bits = 8 * (unsigned)ipu_dtype_bytes(dtype);
    if (ipu_dtype_kind(dtype) == 'u') {
        return (range){0, UINT64_MAX >> (64 - bits)};
    }
    int64_t most = INT64_MAX >> (64 - bits);
    return (range){-most - 1, (uint64_t)most};
}

/* The least size that rounds to infinity: half a step above the largest number. */
static double
overflow_of(ipu_dtype dtype)
{
    switch (dtype) {
    case IPU_DTYPE_FLOAT16:
        return 65520.0;
    case IPU_DTYPE_FLOAT32:
        return 0x1.ffffffp127;
    default:
        return (double)INFINITY;
    }
}

static bool
holds_int(ipu_dtype dtype, int64_t value)
{
    if (ipu_dtype_is_float(dtype)) {
        return fabs((double)value) < overflow_of(dtype);
    }
    range r = range_of(dtype);
    return value >= r.least && (value < 0 || (uint64_t)value <= r.most);
}

static bool
holds_uint(ipu_dtype dtype, uint64_t value)
{
    return ipu_dtype_is_float(dtype) ? (double)value < overflow_of(dtype)
                                     : value <= range_of(dtype).most;
}

static bool
holds_float(ipu_dtype dtype, double value)
{
    if (ipu_dtype_is_float(dtype)) {
        return !isfinite(value) || fabs(value) < overflow_of(dtype);
    }
    range r = range_of(dtype);
    double whole = trunc(value); /* NaN fails both; the end, a power of 2, is exact */
    return whole >= (double)r.least && whole < ldexp(1.0, ilogb((double)r.most + 1.0));
}

static int
raise_outside(PyObject *value, ipu_dtype dtype)
{
    if (value == NULL) {
        return -1;
    }
    range r = range_of(dtype);
    if (ipu_dtype_is_float(dtype)) {
        PyErr_Format(PyExc_ValueError,
                     "%R does not fit into %s, whose largest number is %s", value,
                     ipu_dtype_name(dtype),
                     dtype == IPU_DTYPE_FLOAT16 ? "65504" : "3.4028235e+38");
    } else {
        PyErr_Format(PyExc_ValueError,
                     "%R does not fit into %s, which holds %lld to %llu",
                     value, ipu_dtype_name(dtype), (long long)r.least,
                     (unsigned long long)r.most);
    }
    Py_DECREF(value);
    return -1;
}

/* --- arrays ---------------------------------------------------------------------- */

/* Finds the first element of `array`, of the C type, that `dtype` cannot hold. */
#define CHECK_ALL(type, holds, to_python) \
    do { \
        const type *items = PyArray_DATA((PyArrayObject *)array); \
        npy_intp count = PyArray_SIZE((PyArrayObject *)array); \
        for (npy_intp i = 0; i < count; i++) { \
            if (!holds(dtype, items[i])) { \
                return raise_outside(to_python(items[i]), dtype); \
            } \
        } \
    } while (0)

static int
check_wide(PyObject *array, ipu_dtype dtype, ipu_dtype wide)
{
    switch (wide) {
    case IPU_DTYPE_INT64:
        CHECK_ALL(int64_t, holds_int, PyLong_FromLongLong);
        break;
    case IPU_DTYPE_UINT64:
        CHECK_ALL(uint64_t, holds_uint, PyLong_FromUnsignedLongLong);
        break;
    default:
        CHECK_ALL(double, holds_float, PyFloat_FromDouble);
        break;
    }
    return 0;
}
#undef CHECK_ALL

int
ipu_py_check_fits(PyObject *array, ipu_dtype dtype)
{
    ipu_dtype own;
    if (ipu_py_dtype_of_array(array, &own) < 0) {
        PyErr_Clear(); /* NumPy knows what becomes of other types */
        return 0;
    }
    char kind = ipu_dtype_kind(own);
    bool is_wide_float = ipu_dtype_is_float(dtype) && ipu_dtype_bytes(dtype) >= 4;
    if (own == dtype || dtype == IPU_DTYPE_BOOL || own == IPU_DTYPE_BOOL ||
        (is_wide_float && (kind != 'f' || ipu_dtype_bytes(own) <= 4)) ||
        (kind == ipu_dtype_kind(dtype) &&
         ipu_dtype_bytes(own) <= ipu_dtype_bytes(dtype))) {
        return 0;
    }
    ipu_dtype wide = kind == 'f'   ? IPU_DTYPE_FLOAT64
                     : kind == 'u' ? IPU_DTYPE_UINT64
                                   : IPU_DTYPE_INT64;
    PyObject *widened =
        own == wide ? Py_NewRef(array) : ipu_py_any_array(array, (int)wide);
    int result = widened == NULL ? -1 : check_wide(widened, dtype, wide);
    Py_XDECREF(widened);
    return result;
}

/* --- single numbers -------------------------------------------------------------- */

/* The low bytes of a number come first: x86-64 and aarch64. */
static ipu_py_tensor *
scalar(ipu_py_state *state, ipu_dtype dtype, const void *bytes)
{
    ipu_type type = {.dtype = dtype};
    ipu_py_tensor *tensor = ipu_py_tensor_new(state, &type);
    if (tensor != NULL) {
        memcpy(ipu_py_tensor_data(tensor), bytes, ipu_dtype_bytes(dtype));
    }
    return tensor;
}

static ipu_py_tensor *
tensor_of_float(ipu_py_state *state, double value, ipu_dtype dtype)
{
    if (!holds_float(dtype, value)) {
        raise_outside(PyFloat_FromDouble(value), dtype);
        return NULL;
    }
    float narrow = (float)value;
    return scalar(state, dtype,
                  dtype == IPU_DTYPE_FLOAT64 ? (void *)&value : (void *)&narrow);
}

static ipu_py_tensor *
tensor_of_int(ipu_py_state *state, int64_t value, ipu_dtype dtype)
{
    if (!holds_int(dtype, value)) {
        raise_outside(PyLong_FromLongLong(value), dtype);
        return NULL;
    }
    /* once to the result: a double may have rounded it already */
    float narrow = (float)value;
    double wide = (double)value;
    return scalar(state, dtype,
                  dtype == IPU_DTYPE_FLOAT64  ? (void *)&wide
                  : ipu_dtype_is_float(dtype) ? (void *)&narrow
                                              : (void *)&value);
}

bool
ipu_py_tensor_of_number(ipu_py_state *state, PyObject *object, int wanted,
                        ipu_py_tensor **out)
{
    if (wanted == (int)IPU_DTYPE_FLOAT16 || wanted == (int)IPU_DTYPE_BOOL) {
        return false;
    }
    if (PyFloat_CheckExact(object)) {
        ipu_dtype dtype = wanted < 0 ? IPU_DTYPE_FLOAT32 : (ipu_dtype)wanted;
        if (!ipu_dtype_is_float(dtype)) {
            return false;
        }
        *out = tensor_of_float(state, PyFloat_AS_DOUBLE(object), dtype);
        return true;
    }
    if (!PyLong_CheckExact(object)) {
        return false;
    }
    int overflow;
    int64_t value = PyLong_AsLongLongAndOverflow(object, &overflow);
    if (overflow != 0) {
        return false;
    }
    ipu_dtype dtype = wanted >= 0                         ? (ipu_dtype)wanted
                      : holds_int(IPU_DTYPE_INT32, value) ? IPU_DTYPE_INT32
                                                          : IPU_DTYPE_INT64;
    *out = tensor_of_int(state, value, dtype);
    return true;
}

/* Of arrays of objects. */
static bool
holds_numbers(PyObject *array, bool floats_too)
{
    PyObject *const *items = PyArray_DATA((PyArrayObject *)array);
    npy_intp count = PyArray_SIZE((PyArrayObject *)array);
    for (npy_intp i = 0; i < count; i++) {
        if (items[i] == NULL ||
            !(PyLong_Check(items[i]) || (floats_too && PyFloat_Check(items[i])))) {
            return false;
        }
    }
    return true;
}

/* Raises for the first whole number that `dtype` cannot hold; there is one. */
static void
raise_first_outside(PyObject *array, ipu_dtype dtype)
{
    PyObject *const *items = PyArray_DATA((PyArrayObject *)array);
    npy_intp count = PyArray_SIZE((PyArrayObject *)array);
    for (npy_intp i = 0; i < count; i++) {
        int overflow = 0;
        int64_t value = 0;
        if (PyLong_Check(items[i])) {
            value = PyLong_AsLongLongAndOverflow(items[i], &overflow);
        }
        if (overflow != 0 || !holds_int(dtype, value)) {
            raise_outside(Py_NewRef(items[i]), dtype);
            return;
        }
    }
}

PyObject *
ipu_py_array_of_large(PyObject *array, int wanted)
{
    if (!holds_numbers(array, true)) {
        return NULL;
    }
    if (wanted >= 0 && ipu_dtype_is_float((ipu_dtype)wanted)) {
        PyObject *wide = ipu_py_any_array(array, (int)IPU_DTYPE_FLOAT64);
        if (wide == NULL && PyErr_ExceptionMatches(PyExc_OverflowError)) {
            PyErr_Format(PyExc_ValueError, "a number does not fit into %s",
                         ipu_dtype_name((ipu_dtype)wanted));
        }
        return wide;
    }
    raise_first_outside(array, wanted < 0 ? IPU_DTYPE_INT64 : (ipu_dtype)wanted);
    return NULL;
}

int
ipu_py_check_whole(PyObject *object, PyObject *array)
{
    const double *items = PyArray_DATA((PyArrayObject *)array);
    npy_intp count = PyArray_SIZE((PyArrayObject *)array);
    bool is_large = false;
    for (npy_intp i = 0; i < count && !is_large; i++) {
        is_large = items[i] >= 0x1p63;
    }
    if (!is_large) {
        return 0;
    }
    PyObject *objects = PyArray_FROM_OTF(object, NPY_OBJECT, NPY_ARRAY_C_CONTIGUOUS);
    if (objects != NULL && holds_numbers(objects, false)) {
        raise_first_outside(objects, IPU_DTYPE_INT64);
    }
    Py_XDECREF(objects);
    return PyErr_Occurred() ? -1 : 0;
}
