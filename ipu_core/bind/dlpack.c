/* SPDX-License-Identifier: MIT
 *
 * The memory of eager tensors for other libraries.
 *
 * DLPack: versioned (read-only flag set) where the consumer asks for 1.0 or newer, else
 * the unversioned struct, of a copy, since that form cannot say that memory is
 * read-only. The structs are the standard's ABI.
 *
 * The buffer protocol: the memory as it lies, in C order, read-only. NumPy's views come
 * through it. */
#define NO_IMPORT_ARRAY
#include "bind/bind.h"

#include <string.h>

typedef struct dl_device {
    int32_t type;
    int32_t id;
} dl_device;
typedef struct dl_dtype {
    uint8_t code;
    uint8_t bits;
    uint16_t lanes;
} dl_dtype;
typedef struct dl_tensor {
    void *data;
    dl_device device;
    int32_t ndim;
    dl_dtype dtype;
    int64_t *shape;
    int64_t *strides;
    uint64_t byte_offset;
} dl_tensor;
typedef struct dl_managed {
    dl_tensor tensor;
    void *context;
    void (*deleter)(struct dl_managed *self);
} dl_managed;
typedef struct dl_versioned {
    uint32_t major;
    uint32_t minor;
    void *context;
    void (*deleter)(struct dl_versioned *self);
    uint64_t flags;
    dl_tensor tensor;
} dl_versioned;

enum { DL_CPU = 1, DL_READ_ONLY = 1, DL_COPIED = 2 };

/* One allocation: the struct, then shape and strides. */
typedef struct export_record {
    union {
        dl_managed plain;
        dl_versioned versioned;
    } as;
    int64_t geometry[2 * IPU_MAX_RANK];
    PyObject *owner;
} export_record;

static void
record_free(export_record *record)
{
    /* a consumer may outlive the interpreter */
    if (Py_IsInitialized()) {
        ipu_py_entry entry = ipu_py_enter();
        Py_DECREF(record->owner);
        (void)ipu_py_leave(NULL, entry, IPU_OK);
    }
    PyMem_RawFree(record);
}

static void
delete_plain(dl_managed *self)
{
    record_free(self->context);
}

static void
delete_versioned(dl_versioned *self)
{
    record_free(self->context);
}

static void
capsule_destructor(PyObject *capsule)
{
    /* the consumer renames a capsule that it takes */
    if (PyCapsule_IsValid(capsule, "dltensor_versioned")) {
        dl_versioned *managed = PyCapsule_GetPointer(capsule, "dltensor_versioned");
        managed->deleter(managed);
    } else if (PyCapsule_IsValid(capsule, "dltensor")) {
        dl_managed *managed = PyCapsule_GetPointer(capsule, "dltensor");
        managed->deleter(managed);
    }
}

static dl_dtype
dtype_code(ipu_dtype dtype)
{
    char kind = ipu_dtype_kind(dtype);
    uint8_t code = kind == 'f' ? 2 : kind == 'u' ? 1 : kind == 'b' ? 6 : 0;
    return (dl_dtype){code, (uint8_t)(8 * ipu_dtype_bytes(dtype)), 1};
}

PyObject *
ipu_py_tensor_dlpack_device(PyObject *Py_UNUSED(self), PyObject *Py_UNUSED(ignored))
{
    return Py_BuildValue("(ii)", DL_CPU, 0);
}

/* Two whole numbers, of which libraries give the first as an enumeration's member. */
static int
parse_pair(PyObject *object, const char *name, int *first, int *second)
{
    PyObject *items = PySequence_Tuple(object);
    bool is_pair = items != NULL && PyArg_ParseTuple(items, "ii", first, second);
    Py_XDECREF(items);
    if (!is_pair) {
        PyErr_Clear();
        PyErr_Format(PyExc_TypeError, "__dlpack__(%s=...) must be two integers, not %R",
                     name, object);
    }
    return is_pair ? 0 : -1;
}

PyObject *
ipu_py_tensor_dlpack(PyObject *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"stream", "max_version", "dl_device", "copy", NULL};
    PyObject *stream = Py_None;
    PyObject *max_version = Py_None;
    PyObject *device = Py_None;
    PyObject *copy = Py_None;
    ipu_py_tensor *tensor = (ipu_py_tensor *)self;
    int type = DL_CPU;
    int id;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|$OOOO:__dlpack__", names, &stream,
                                     &max_version, &device, &copy) ||
        (device != Py_None && parse_pair(device, "dl_device", &type, &id) < 0)) {
        return NULL;
    }
    if (type != DL_CPU) {
        PyErr_SetString(PyExc_BufferError, "tensors can be exported to the CPU alone");
        return NULL;
    }
    if (tensor->storage == NULL) {
        PyErr_SetString(PyExc_BufferError, "a symbolic tensor has no memory to export");
        return NULL;
    }
    int major = 0;
    int minor = 0;
    if (max_version != Py_None &&
        parse_pair(max_version, "max_version", &major, &minor) < 0) {
        return NULL;
    }
    bool versioned = major >= 1;
    bool copied = copy == Py_True || !versioned;
    if (copied && copy == Py_False) {
        PyErr_SetString(PyExc_BufferError,
                        "read-only memory can be exported without a copy by DLPack 1.0 "
                        "and newer alone; this consumer asks for an older one");
        return NULL;
    }
    export_record *record = PyMem_RawCalloc(1, sizeof(*record));
    if (record == NULL) {
        return PyErr_NoMemory();
    }
    if (copied) {
        ipu_py_tensor *clone = ipu_py_tensor_new(ipu_py_state_of(self), &tensor->type);
        if (clone == NULL) {
            PyMem_RawFree(record);
            return NULL;
        }
        memcpy(clone->storage->data, tensor->storage->data, tensor->storage->bytes);
        tensor = clone;
    } else {
        Py_INCREF(tensor);
    }
    record->owner = (PyObject *)tensor;
    for (int32_t i = 0; i < tensor->type.shape.rank; i++) {
        record->geometry[i] = tensor->type.shape.dims[i];
    }
    ipu_shape_strides(&tensor->type.shape, false, record->geometry + IPU_MAX_RANK);
    dl_tensor description = {.data = tensor->storage->data,
                             .device = {DL_CPU, 0},
                             .ndim = tensor->type.shape.rank,
                             .dtype = dtype_code(tensor->type.dtype),
                             .shape = record->geometry,
                             .strides = record->geometry + IPU_MAX_RANK};
    const char *name;
    if (versioned) {
        name = "dltensor_versioned";
        record->as.versioned =
            (dl_versioned){.major = 1,
                           .minor = 0,
                           .context = record,
                           .deleter = delete_versioned,
                           .flags = copied ? DL_COPIED : DL_READ_ONLY,
                           .tensor = description};
    } else {
        name = "dltensor";
        record->as.plain = (dl_managed){
            .tensor = description, .context = record, .deleter = delete_plain};
    }
    PyObject *capsule = PyCapsule_New(&record->as, name, capsule_destructor);
    if (capsule == NULL) {
        record_free(record);
    }
    return capsule;
}

/* --- the buffer protocol --------------------------------------------------------- */

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
