/* SPDX-License-Identifier: MIT
 *
 * ipu._core.Recorder: py_recorder.c records, py_recorder_gradients.c differentiates. */
#ifndef IPU_BIND_PY_RECORDER_H
#define IPU_BIND_PY_RECORDER_H

#include "bind/bind.h"

enum { IPU_PY_FEW_INPUTS = 16 }; /* that need no memory of the heap */

typedef struct ipu_py_recorder_slot {
    const void *tensor; /* NULL: free */
    uint32_t value;
} ipu_py_recorder_slot;

typedef struct ipu_py_recorder {
    PyObject_HEAD
    PyObject *weak_references;
    ipu_graph *graph;
    IPU_ARRAY(ipu_py_tensor *) tensors; /* by value; owned */
    IPU_ARRAY(bool) watched;            /* by value */
    ipu_py_recorder_slot *slots;        /* open addressing; capacity a power of two */
    uint32_t slot_count;
    uint32_t slots_used;
} ipu_py_recorder;

/* IPU_NO_VALUE where no recorded op uses or makes the tensor. */
ipu_value ipu_py_recorder_value_of(const ipu_py_recorder *self,
                                   const ipu_py_tensor *tensor);
/* The value of a tensor; one that no recorded op made becomes a parameter. */
ipu_status ipu_py_recorder_take(ipu_ctx *ctx, ipu_py_recorder *self,
                                ipu_py_tensor *tensor, ipu_value *out);
/* The tensor of a value that the graph has just got. */
ipu_status ipu_py_recorder_set_value(ipu_ctx *ctx, ipu_py_recorder *self,
                                     ipu_value value, ipu_py_tensor *tensor,
                                     bool watched);
/* Whether a gradient may flow to it. */
bool ipu_py_recorder_is_watched(const ipu_py_recorder *self, ipu_value value);
PyObject *ipu_py_recorder_gradients(PyObject *object, PyObject *args);

#endif
