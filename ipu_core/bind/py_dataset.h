/* SPDX-License-Identifier: MIT
 *
 * The core's data set behind a `ipu._core.Dataset`. */
#ifndef IPU_BIND_PY_DATASET_H
#define IPU_BIND_PY_DATASET_H

#include "bind/bind.h"

/* Borrowed; lives as long as the object. */
ipu_dataset *ipu_py_dataset_of(PyObject *object);
/* For tp_traverse: the Python iterators that `iterator`, which is not at work, holds. */
int ipu_py_dataset_visit(ipu_iterator *iterator, visitproc visit, void *arg);

#endif
