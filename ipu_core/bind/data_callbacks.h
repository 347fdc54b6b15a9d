/* SPDX-License-Identifier: MIT
 *
 * What the core calls back when it reads a data set: functions with the signatures of
 * data/dataset.h, whose state is an ipu_py_callback. */
#ifndef IPU_BIND_DATA_CALLBACKS_H
#define IPU_BIND_DATA_CALLBACKS_H

#include "bind/py_dataset.h"

typedef struct ipu_py_callback {
    PyObject *callable;         /* the Dataset object's; NULL: it is gone */
    PyTypeObject *program_type; /* of what a map's function gives (borrowed), or NULL */
    PyObject *programs;         /* list: of a map's function; NULL for a generator */
    Py_ssize_t count;           /* components of a generator's element */
} ipu_py_callback;

/* A callback that does not hold its callable yet; NULL with an exception. */
ipu_py_callback *ipu_py_callback_new(PyTypeObject *program_type, Py_ssize_t count);
/* The core's data set has gone; its object has taken the callable with it before. */
void ipu_py_callback_release(void *state);

/* A pass of a generator: the callable starts it. */
ipu_status ipu_py_generator_open(ipu_ctx *ctx, void *state, void **out_pass);
ipu_status ipu_py_generator_next(ipu_ctx *ctx, void *pass, const ipu_type **types,
                                 const void *const **components, bool *end);
void ipu_py_generator_close(void *pass);

/* The callable compiles a map function; the callback keeps the program. */
ipu_status ipu_py_map_compile(ipu_ctx *ctx, void *state, const ipu_type *inputs,
                              uint32_t count, const ipu_program **out_program);

/* Type and memory of an array; the view holds it until ipu_py_release_buffer frees
 * both. */
int ipu_py_view_array(PyObject *array, Py_buffer *view, ipu_type *type);
void ipu_py_release_buffer(void *view);

/* Specs (dtype, shape or None) of types, as a tuple. */
PyObject *ipu_py_spec_tuples(const ipu_type *types, uint32_t count);

#endif
