/* SPDX-License-Identifier: MIT
 *
 * The operator slots of ipu._core.Tensor. */
#ifndef IPU_BIND_OPERATORS_H
#define IPU_BIND_OPERATORS_H

#include "bind/bind.h"

/* NotImplemented where the other side is nothing that can stand beside a tensor. */
PyObject *ipu_py_operator_add(PyObject *left, PyObject *right);
PyObject *ipu_py_operator_sub(PyObject *left, PyObject *right);
PyObject *ipu_py_operator_mul(PyObject *left, PyObject *right);
PyObject *ipu_py_operator_div(PyObject *left, PyObject *right);
PyObject *ipu_py_operator_floor_div(PyObject *left, PyObject *right);
PyObject *ipu_py_operator_mod(PyObject *left, PyObject *right);
PyObject *ipu_py_operator_matmul(PyObject *left, PyObject *right);
PyObject *ipu_py_operator_and(PyObject *left, PyObject *right);
PyObject *ipu_py_operator_or(PyObject *left, PyObject *right);
PyObject *ipu_py_operator_xor(PyObject *left, PyObject *right);
/* `modulus` is None, or the result NotImplemented. */
PyObject *ipu_py_operator_pow(PyObject *left, PyObject *right, PyObject *modulus);
/* `relation` is one of Py_LT to Py_GE; with None on the right, == is False and != is
 * True. */
PyObject *ipu_py_operator_compare(PyObject *left, PyObject *right, int relation);

PyObject *ipu_py_operator_neg(PyObject *self);
PyObject *ipu_py_operator_abs(PyObject *self);
PyObject *ipu_py_operator_invert(PyObject *self);

#endif
