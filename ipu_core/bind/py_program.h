/* SPDX-License-Identifier: MIT
 *
 * ipu._core.Program, and compiling a graph into one. py_program.c compiles and runs it,
 * py_profile.c tells what was recorded of it. */
#ifndef IPU_BIND_PY_PROGRAM_H
#define IPU_BIND_PY_PROGRAM_H

#include "base/lock.h"
#include "bind/bind.h"

/* When an action ran, from when it had what it waited for; all 0: not known. */
typedef struct ipu_py_span {
    uint64_t begin_ns;
    uint64_t end_ns;
} ipu_py_span;

typedef struct ipu_py_program {
    PyObject_HEAD
    ipu_program *program;
    ipu_executor *executor; /* made at the first run, and again after a rest */
    PyObject *device;       /* Device or None */
    PyObject *held;         /* keeps the tensors that the program reads; may be NULL */
    PyObject *name;         /* str or None: of what it was made of */
    ipu_lock lock;          /* protects: is_running */
    pthread_cond_t ended;
    bool is_running;     /* by a thread, which executor, stats and spans belong to */
    bool records;        /* when actions run */
    ipu_run_stats stats; /* of the last run */
    bool holds_recorder; /* while it runs */
    ipu_py_span *spans;  /* per action of the pipelines; NULL: nothing was recorded */
} ipu_py_program;

/* Runs the passes on `graph` (which they change) and lowers it. `held` keeps alive what
 * its held nodes read (may be NULL), `device` is a Device or None. GIL released
 * meanwhile. */
PyObject *ipu_py_program_compile(ipu_py_state *state, ipu_graph *graph, PyObject *held,
                                 PyObject *device, bool fuse, bool reference,
                                 bool verify);

/* How programs are compiled from now on: doors for tests and measurements. */
void ipu_py_program_set_regions(ipu_region_choice regions);
void ipu_py_program_set_panels(ipu_panel_choice panels);
/* FAST, PORTABLE or BLIS. */
void ipu_py_program_set_products(ipu_kernel_variant variant);

/* --- py_profile.c ----------------------------------------------------------------- */

/* A run of the program begins; returns -1 with an exception. */
int ipu_py_profile_begin(ipu_py_state *state, ipu_py_program *program);
/* It has ended. */
int ipu_py_profile_end(ipu_py_state *state, ipu_py_program *program);
/* Getters of ipu._core.Program. */
PyObject *ipu_py_program_recorded(PyObject *program, void *closure);
PyObject *ipu_py_program_instructions(PyObject *program, void *closure);

#endif
