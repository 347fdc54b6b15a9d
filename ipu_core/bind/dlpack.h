/* SPDX-License-Identifier: MIT
 *
 * DLPack export of tensors (dmlc.github.io/dlpack, version 1.0). */
#ifndef IPU_BIND_DLPACK_H
#define IPU_BIND_DLPACK_H

#include "bind/bind.h"

PyObject *ipu_py_tensor_dlpack(PyObject *self, PyObject *args, PyObject *kwargs);
PyObject *ipu_py_tensor_dlpack_device(PyObject *self, PyObject *ignored);

#endif
