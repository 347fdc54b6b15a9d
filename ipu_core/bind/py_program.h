/* SPDX-License-Identifier: MIT
 *
 * Compiling a graph into an ipu._core.Program. */
#ifndef IPU_BIND_PY_PROGRAM_H
#define IPU_BIND_PY_PROGRAM_H

#include "bind/bind.h"

/* Runs the passes on `graph` (which they change) and lowers it. `held` keeps alive what
 * its held nodes read (may be NULL), `device` is a Device or None. GIL released
 * meanwhile. */
PyObject *ipu_py_program_compile(ipu_py_state *state, ipu_graph *graph, PyObject *held,
                                 PyObject *device, bool fuse, bool reference,
                                 bool verify);

#endif
