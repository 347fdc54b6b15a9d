/* SPDX-License-Identifier: MIT
 *
 * How other libraries see a tensor's memory: by DLPack (dmlc.github.io/dlpack, version
 * 1.0) and by Python's buffer protocol. */
#ifndef IPU_BIND_DLPACK_H
#define IPU_BIND_DLPACK_H

#include "bind/bind.h"

PyObject *ipu_py_tensor_dlpack(PyObject *self, PyObject *args, PyObject *kwargs);
PyObject *ipu_py_tensor_dlpack_device(PyObject *self, PyObject *ignored);
int ipu_py_tensor_getbuffer(PyObject *self, Py_buffer *view, int flags);
void ipu_py_tensor_releasebuffer(PyObject *self, Py_buffer *view);

#endif
