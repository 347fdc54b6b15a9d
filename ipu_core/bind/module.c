/* SPDX-License-Identifier: MIT
 *
 * The extension module ipu._core: multi-phase initialisation, module state, threads. */
#include "bind/bind.h"

#include <numpy/arrayobject.h>
#include <stddef.h>
#include <strings.h>

#include "base/cores.h"
#include "run/executor.h"

static int module_exec(PyObject *module);
static struct PyModuleDef module_def;

ipu_py_state *
ipu_py_state_of_module(PyObject *module)
{
    return PyModule_GetState(module);
}

ipu_py_state *
ipu_py_state_of_type(PyTypeObject *type)
{
    /* PyType_GetModuleByDef, which Python 3.10 does not have */
    for (; PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE); type = type->tp_base) {
        PyObject *module = ((PyHeapTypeObject *)type)->ht_module;
        if (module != NULL && PyModule_GetDef(module) == &module_def) {
            return PyModule_GetState(module);
        }
    }
    return NULL;
}

/* Pools are kept, one for each number of threads ever asked for: a program on another
 * thread may still be using the last one. */
int
ipu_py_pool(ipu_py_state *state, ipu_pool **out)
{
    bool is_rehearsed = state->rehearsed_threads > 1;
    int32_t threads = is_rehearsed ? state->rehearsed_threads : state->threads;
    ipu_pool **pool = &(is_rehearsed ? state->rehearsals : state->pools)[threads];
    *out = NULL;
    if (threads > 1 && *pool == NULL) {
        ipu_ctx_clear(&state->ctx);
        if (!ipu_py_is_ok(&state->ctx, ipu_pool_create(&state->ctx, threads, pool))) {
            return -1;
        }
        if (is_rehearsed) {
            ipu_pool_rehearse(*pool);
        }
    }
    if (*pool != NULL) {
        ipu_pool_pin(*pool, state->first_core);
    }
    *out = *pool;
    return 0;
}

/* --- weak references, and the end of objects ------------------------------------- */

PyMemberDef ipu_py_weak_members[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(ipu_py_weak, references), READONLY,
     NULL},
    {NULL, 0, 0, 0, NULL},
};

PyMemberDef ipu_py_tape_record_members[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(ipu_py_weak, references), READONLY,
     NULL},
    {"custom_calls", T_OBJECT, offsetof(ipu_py_tape_record, custom_calls), 0, NULL},
    {NULL, 0, 0, 0, NULL},
};

void
ipu_py_free(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    type->tp_free(object);
    Py_DECREF(type);
}

/* --- functions ------------------------------------------------------------------- */

static PyObject *
set_num_threads(PyObject *module, PyObject *argument)
{
    long threads = PyLong_AsLong(argument);
    if (threads == -1 && PyErr_Occurred()) {
        return NULL;
    }
    if (threads < 1 || threads > IPU_PY_MAX_THREADS) {
        return PyErr_Format(PyExc_ValueError,
                            "the number of threads must be from 1 to %d, but got %ld",
                            IPU_PY_MAX_THREADS, threads);
    }
    ipu_py_state_of_module(module)->threads = (int32_t)threads;
    Py_RETURN_NONE;
}

static PyObject *
num_threads(PyObject *module, PyObject *Py_UNUSED(ignored))
{
    return PyLong_FromLong(ipu_py_state_of_module(module)->threads);
}

static PyObject *
first_core(PyObject *module, PyObject *Py_UNUSED(ignored))
{
    return PyLong_FromLong(ipu_py_state_of_module(module)->first_core);
}

static PyObject *
pin_threads(PyObject *module, PyObject *argument)
{
    long first = PyLong_AsLong(argument);
    if (first == -1 && PyErr_Occurred()) {
        return NULL;
    }
    const long most = INT32_MAX - IPU_PY_MAX_THREADS;
    ipu_py_state_of_module(module)->first_core =
        (int32_t)(first < 0 ? -1 : first > most ? most : first);
    Py_RETURN_NONE;
}

static PyObject *
rehearse_threads(PyObject *module, PyObject *argument)
{
    ipu_py_state *state = ipu_py_state_of_module(module);
    long threads = PyLong_AsLong(argument);
    if (threads == -1 && PyErr_Occurred()) {
        return NULL;
    }
    if (threads != 0 && (threads < 2 || threads > IPU_PY_MAX_THREADS)) {
        return PyErr_Format(PyExc_ValueError,
                            "a rehearsal is for 2 to %d threads, or 0: none, but got %ld",
                            IPU_PY_MAX_THREADS, threads);
    }
    state->rehearsed_threads = (int32_t)threads;
    Py_RETURN_NONE;
}

static PyObject *
set_eager_device(PyObject *module, PyObject *argument)
{
    ipu_py_state *state = PyModule_GetState(module);
    ipu_py_thread *thread = ipu_py_thread_here(state);
    long device = PyLong_AsLong(argument);
    if (thread == NULL || PyErr_Occurred()) {
        return NULL;
    }
    state->placed -= thread->device != 0;
    thread->device = device < 0 ? 0 : (int32_t)device + 1;
    state->placed += thread->device != 0;
    Py_RETURN_NONE;
}

static PyObject *
set_eager_seed(PyObject *module, PyObject *argument)
{
    unsigned long long seed;
    if (!PyArg_Parse(argument, "K", &seed) ||
        ipu_py_set_seed(ipu_py_state_of_module(module), seed) < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyObject *
eager_random(PyObject *module, PyObject *Py_UNUSED(ignored))
{
    ipu_py_state *state = ipu_py_state_of_module(module);
    ipu_py_thread *thread = ipu_py_thread_here(state);
    if (thread == NULL) {
        return NULL;
    }
    const ipu_py_stream *stream = ipu_py_stream_of(state, thread);
    return Py_BuildValue("KKI", stream->seed, stream->drawn, stream->number);
}

static PyObject *
set_eager_random(PyObject *module, PyObject *args)
{
    ipu_py_thread *thread = ipu_py_thread_here(ipu_py_state_of_module(module));
    unsigned long long seed;
    unsigned long long drawn;
    unsigned int number;
    if (thread == NULL ||
        !PyArg_ParseTuple(args, "KKI:set_eager_random", &seed, &drawn, &number)) {
        return NULL;
    }
    thread->stream =
        (ipu_py_stream){.is_own = true, .seed = seed, .drawn = drawn, .number = number};
    Py_RETURN_NONE;
}

static PyObject *
with_random_stream(PyObject *module, PyObject *args)
{
    unsigned long long seed;
    PyObject *function;
    PyObject *operands;
    ipu_py_thread *thread = ipu_py_thread_here(ipu_py_state_of_module(module));
    if (thread == NULL || !PyArg_ParseTuple(args, "KOO!:with_random_stream", &seed,
                                            &function, &PyTuple_Type, &operands)) {
        return NULL;
    }
    ipu_py_stream before = thread->stream;
    thread->stream = (ipu_py_stream){.is_own = true, .seed = seed};
    PyObject *result = PyObject_CallObject(function, operands);
    thread->stream = before;
    return result;
}

static PyObject *
tapes(PyObject *module, PyObject *Py_UNUSED(ignored))
{
    ipu_py_thread *thread = ipu_py_thread_here(ipu_py_state_of_module(module));
    return thread == NULL ? NULL : Py_NewRef(thread->tapes);
}

static PyObject *
set_package_dir(PyObject *module, PyObject *argument)
{
    PyObject *path;
    if (!PyArg_Parse(argument, "U:set_package_dir", &path)) {
        return NULL;
    }
    Py_XSETREF(ipu_py_state_of_module(module)->package_dir, Py_NewRef(path));
    Py_RETURN_NONE;
}

static PyObject *
replication_factor(PyObject *Py_UNUSED(module), PyObject *args)
{
    int ipus;
    unsigned int shards;
    uint32_t factor;
    ipu_ctx ctx = ipu_py_ctx();
    return PyArg_ParseTuple(args, "iI:replication_factor", &ipus, &shards) &&
                   ipu_py_is_ok(&ctx,
                                ipu_replication_factor(&ctx, ipus, shards, &factor))
               ? PyLong_FromUnsignedLong(factor)
               : NULL;
}

static PyMethodDef module_methods[] = {
    {"replication_factor", replication_factor, METH_VARARGS,
     "How many replicas of a program for so many shards fill a device of so many "
     "IPUs."},
    {"set_package_dir", set_package_dir, METH_O,
     "Frames of files below it are not the user's."},
    {"set_num_threads", set_num_threads, METH_O,
     "How many threads programs use, the caller included."},
    {"first_core", first_core, METH_NOARGS, "What pin_threads set."},
    {"pin_threads", pin_threads, METH_O,
     "The core of the first thread, whose workers stay on those after it; -1: none."},
    {"num_threads", num_threads, METH_NOARGS, "How many threads programs use."},
    {"rehearse_threads", rehearse_threads, METH_O,
     "Programs run on one thread, cut as for so many; 0: as usual."},
    {"set_eager_device", set_eager_device, METH_O,
     "The IPU device of this thread's new tensors; -1: none."},
    {"set_eager_seed", set_eager_seed, METH_O,
     "Restarts the random streams of eager ops."},
    {"eager_random", eager_random, METH_NOARGS,
     "The random stream of this thread's eager ops: its seed, how many were drawn, its "
     "number."},
    {"set_eager_random", set_eager_random, METH_VARARGS,
     "Lets this thread's eager ops go on with a stream that eager_random() told of."},
    {"with_random_stream", with_random_stream, METH_VARARGS,
     "Calls a function whose eager random ops draw from a stream of its own."},
    {"tapes", tapes, METH_NOARGS,
     "The recording tapes of this thread, the innermost last."},
    {NULL, NULL, 0, NULL},
};

static int32_t
default_threads(void)
{
    const char *text = getenv("IPU_NUM_THREADS");
    long threads = text == NULL ? ipu_cores_available("") : strtol(text, NULL, 10);
    return threads < 1                    ? 1
           : threads > IPU_PY_MAX_THREADS ? IPU_PY_MAX_THREADS
                                          : (int32_t)threads;
}

static bool
are_pinned_by_default(void)
{
    const char *text = getenv("IPU_PIN_THREADS");
    return text != NULL && (strcasecmp(text, "1") == 0 || strcasecmp(text, "on") == 0 ||
                            strcasecmp(text, "true") == 0);
}

static int
find_main_thread(ipu_py_state *state)
{
    PyObject *thread = ipu_py_call("threading", "main_thread", "()");
    PyObject *ident = thread == NULL ? NULL : PyObject_GetAttrString(thread, "ident");
    state->main_thread = ident == NULL ? 0 : PyLong_AsUnsignedLong(ident);
    Py_XDECREF(ident);
    Py_XDECREF(thread);
    return PyErr_Occurred() ? -1 : 0;
}

static int
add_type(PyObject *module, PyType_Spec *spec, PyTypeObject **out)
{
    *out = (PyTypeObject *)PyType_FromModuleAndSpec(module, spec, NULL);
    return *out == NULL ? -1 : PyModule_AddType(module, *out);
}

static int
module_exec(PyObject *module)
{
    ipu_py_state *state = ipu_py_state_of_module(module);
    /* NumPy's C API and PyGILState_Ensure know the main interpreter alone; Python 3.12
     * asks about the slot below where interpreters share no GIL */
    if (PyInterpreterState_Get() != PyInterpreterState_Main()) {
        PyErr_SetString(
            PyExc_ImportError,
            "ipu works in the main interpreter alone, but was imported in a "
            "subinterpreter; use a process of its own for it (multiprocessing, "
            "subprocess)");
        return -1;
    }
    import_array1(-1);
    ipu_ctx_init(&state->ctx, ipu_allocator_default());
    state->threads = default_threads();
    state->first_core = are_pinned_by_default() ? 0 : -1;
    state->seeding = 1; /* no stream follows it yet */
    state->package_dir = PyUnicode_FromString("");
    if (state->package_dir == NULL || find_main_thread(state) < 0 ||
        !ipu_py_is_ok(&state->ctx, ipu_plans_create(&state->ctx, &state->plans))) {
        return -1;
    }
#define X(name) \
    if (add_type(module, &ipu_py_##name##_spec, &state->name##_type) < 0) { \
        return -1; \
    }
    IPU_PY_TYPE_LIST(X)
#undef X
    return PyModule_AddFunctions(module, ipu_py_apply_methods) < 0 ||
                   PyModule_AddFunctions(module, ipu_py_testing_methods) < 0 ||
                   PyModule_AddFunctions(module, ipu_py_profile_methods) < 0 ||
                   PyModule_AddFunctions(module, ipu_py_machine_methods) < 0
               ? -1
               : 0;
}

static int
module_traverse(PyObject *module, visitproc visit, void *arg)
{
    ipu_py_state *state = ipu_py_state_of_module(module);
#define X(name) Py_VISIT(state->name##_type);
    IPU_PY_TYPE_LIST(X)
#undef X
    Py_VISIT(state->package_dir);
    Py_VISIT(state->profiled);
    return 0;
}

static int
module_clear(PyObject *module)
{
    ipu_py_state *state = ipu_py_state_of_module(module);
#define X(name) Py_CLEAR(state->name##_type);
    IPU_PY_TYPE_LIST(X)
#undef X
    Py_CLEAR(state->package_dir);
    Py_CLEAR(state->profiled);
    return 0;
}

static void
module_free(void *module)
{
    ipu_py_state *state = ipu_py_state_of_module(module);
    for (int32_t i = 0; i <= IPU_PY_MAX_THREADS; i++) {
        ipu_pool_free(&state->ctx, state->pools[i]);
        ipu_pool_free(&state->ctx, state->rehearsals[i]);
        state->pools[i] = state->rehearsals[i] = NULL;
    }
    ipu_plans_free(&state->ctx, state->plans);
    state->plans = NULL;
    ipu_py_threads_detach(state);
    ipu_py_kernels_free(state);
    module_clear(module);
    ipu_py_storage_free_spare(state);
}

__extension__ static PyModuleDef_Slot module_slots[] = {
    {Py_mod_exec, module_exec},
#if PY_VERSION_HEX >= 0x030C0000
    {Py_mod_multiple_interpreters, Py_MOD_MULTIPLE_INTERPRETERS_NOT_SUPPORTED},
#endif
    {0, NULL},
};

static struct PyModuleDef module_def = {
    PyModuleDef_HEAD_INIT,
    .m_name = "ipu._core",
    .m_doc =
        "The C core of ipu: tensors, traces, programs, devices, queues, data sets.",
    .m_size = sizeof(ipu_py_state),
    .m_methods = module_methods,
    .m_slots = module_slots,
    .m_traverse = module_traverse,
    .m_clear = module_clear,
    .m_free = module_free,
};

PyMODINIT_FUNC
PyInit__core(void)
{
    return PyModuleDef_Init(&module_def);
}
