/* SPDX-License-Identifier: MIT
 *
 * The buffer protocol of eager tensors: their memory as it lies, in C order, read-only.
 * NumPy's views come through it. */
#include "bind/dlpack.h"

int
ipu_py_tensor_getbuffer(PyObject *self, Py_buffer *view, int flags)
{
    ipu_py_tensor *tensor = (ipu_py_tensor *)self;
    static char *const formats[] = {
        [IPU_DTYPE_FLOAT32] = "f", [IPU_DTYPE_FLOAT16] = "e", [IPU_DTYPE_INT32] = "i",
        [IPU_DTYPE_INT8] = "b",    [IPU_DTYPE_UINT8] = "B",   [IPU_DTYPE_BOOL] = "?",
        [IPU_DTYPE_FLOAT64] = "d", [IPU_DTYPE_INT64] = "q",   [IPU_DTYPE_INT16] = "h",
        [IPU_DTYPE_UINT16] = "H",  [IPU_DTYPE_UINT32] = "I",  [IPU_DTYPE_UINT64] = "Q",
    };
    if (ipu_py_require_eager(tensor, "a buffer") < 0) {
        return -1;
    }
    if (flags & PyBUF_WRITABLE) {
        PyErr_SetString(PyExc_BufferError, "tensors are read-only");
        return -1;
    }
    int32_t rank = tensor->type.shape.rank;
    int32_t long_axes = 0; /* with one of them, or none, both orders are one */
    for (int32_t i = 0; i < rank; i++) {
        long_axes += tensor->type.shape.dims[i] != 1;
    }
    if ((flags & PyBUF_F_CONTIGUOUS) == PyBUF_F_CONTIGUOUS && long_axes > 1 &&
        ipu_shape_elements(&tensor->type.shape) > 0) {
        PyErr_SetString(PyExc_BufferError, "tensors are in C order");
        return -1;
    }
    Py_ssize_t item = (Py_ssize_t)ipu_dtype_bytes(tensor->type.dtype);
    Py_ssize_t *geometry = PyMem_Malloc(2 * IPU_MAX_RANK * sizeof(Py_ssize_t));
    if (geometry == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    Py_ssize_t stride = item;
    for (int32_t i = rank - 1; i >= 0; i--) {
        geometry[i] = (Py_ssize_t)tensor->type.shape.dims[i];
        geometry[IPU_MAX_RANK + i] = stride;
        stride *= geometry[i];
    }
    *view = (Py_buffer){
        .buf = tensor->storage->data,
        .obj = Py_NewRef(self),
        .len = (Py_ssize_t)ipu_type_bytes(&tensor->type),
        .readonly = 1,
        .itemsize = item,
        .format = (flags & PyBUF_FORMAT) ? formats[tensor->type.dtype] : NULL,
        .ndim = rank,
        .shape = (flags & PyBUF_ND) ? geometry : NULL,
        .strides =
            (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? geometry + IPU_MAX_RANK : NULL,
        .internal = geometry,
    };
    return 0;
}

void
ipu_py_tensor_releasebuffer(PyObject *Py_UNUSED(self), Py_buffer *view)
{
    PyMem_Free(view->internal);
}
