/* SPDX-License-Identifier: MIT
 *
 * What the files of the extension module share: module state, conversions between
 * Python objects and the core's types, and the one road from a status to an exception.
 */
#ifndef IPU_BIND_BIND_H
#define IPU_BIND_BIND_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <structmember.h>

#include "base/thread.h"
#include "data/dataset.h"
#include "machine/account.h"
#include "passes/passes.h"
#include "trace/trace.h"

/* X(field): every heap type of the module, in creation order; the file py_<...>.c that
 * owns a type defines `PyType_Spec ipu_py_<field>_spec`. */
#define IPU_PY_TYPE_LIST(X) \
    X(tensor) \
    X(trace) \
    X(recorder) \
    X(program) \
    X(peers) \
    X(device) \
    X(infeed) \
    X(outfeed) \
    X(host_function) \
    X(dataset) \
    X(dataset_iterator) \
    X(feeder) \
    X(schedule)

enum { IPU_PY_MAX_THREADS = 256 };

/* Where a thread is in its random numbers. One that has called set_seed has a stream of
 * its own; the others share the seed that was set last, and are told apart by number:
 * 0 is the main thread, then in the order of their first draws. */
typedef struct ipu_py_stream {
    bool is_own;
    uint32_t number;
    uint64_t seeding; /* the call of set_seed that it follows, by number */
    uint64_t seed;
    uint64_t drawn;
} ipu_py_stream;

/* The state of eager execution, one a thread (thread_state.c). */
typedef struct ipu_py_thread {
    struct ipu_py_state *state; /* NULL once the module is gone */
    struct ipu_py_thread *next;
    struct ipu_py_thread **link; /* what points to it */
    uint64_t id;                 /* of the PyThreadState */
    PyObject *traces;            /* list: the innermost open one is its last item */
    PyObject *tapes;             /* list: likewise, of those that record */
    PyObject *recorder;          /* what the eager ones among them share, or NULL */
    int32_t device;              /* of the innermost scope, + 1; 0: the host */
    ipu_py_stream stream;
} ipu_py_thread;

/* Of prepared kernels of eager ops (py_eager.c). */
enum { IPU_PY_KERNEL_WAYS = 2, IPU_PY_KERNEL_SETS = 256 };

/* Small tensors' memory is kept for the next ones; a chunk is one page and slack. */
enum { IPU_PY_SPARE_BYTES = 1024, IPU_PY_SPARE_COUNT = 64 };

typedef struct ipu_py_state {
#define X(name) PyTypeObject *name##_type;
    IPU_PY_TYPE_LIST(X)
#undef X
    PyObject *package_dir; /* str: frames below it are not the user's */
    PyObject *profiled;    /* dict: programs by id that ran in this profile, or NULL */
    ipu_pool *pools[IPU_PY_MAX_THREADS + 1]; /* by thread count, made at first use */
    ipu_pool *rehearsals[IPU_PY_MAX_THREADS + 1]; /* the same */
    int32_t rehearsed_threads;                    /* 0: programs run as usual */
    int32_t first_core; /* of a pool's threads; -1: they are not pinned */
    int32_t threads;
    ipu_py_thread *first_thread;
    ipu_py_thread *last_thread; /* that was asked for last, or NULL */
    uint32_t placed;            /* threads that are in the scope of a device */
    unsigned long main_thread;
    uint64_t seed;    /* the one that was set last, */
    uint64_t seeding; /* as which one */
    uint32_t streams; /* threads but the main one that have drawn since */
    ipu_ctx ctx;      /* for what outlives a call: pool, devices */
    ipu_plans *plans; /* of products on IPUs */
    struct ipu_py_kernel *kernels[IPU_PY_KERNEL_SETS][IPU_PY_KERNEL_WAYS];
    struct ipu_py_storage *spare[IPU_PY_SPARE_COUNT]; /* of up to IPU_PY_SPARE_BYTES */
    uint32_t spare_count;
} ipu_py_state;

#define X(name) extern PyType_Spec ipu_py_##name##_spec;
IPU_PY_TYPE_LIST(X)
#undef X

ipu_py_state *ipu_py_state_of_module(PyObject *module);
/* Of the module that defined `type` (or a base of it). */
ipu_py_state *ipu_py_state_of_type(PyTypeObject *type);

static inline ipu_py_state *
ipu_py_state_of(void *object)
{
    return ipu_py_state_of_type(Py_TYPE(object));
}

/* --- types ----------------------------------------------------------------------- */

/* Defines `ipu_py_<field>_spec` of a type `ipu._core.<NAME>` whose objects are structs
 * `object`; the other arguments are its slots. */
#define IPU_PY_TYPE(field, NAME, object, more_flags, ...) \
    __extension__ static PyType_Slot field##_type_slots[] = {__VA_ARGS__, {0, NULL}}; \
    PyType_Spec ipu_py_##field##_spec = { \
        .name = "ipu._core." NAME, \
        .basicsize = sizeof(object), \
        .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE | (more_flags), \
        .slots = field##_type_slots, \
    }

/* Defines `<object>_getset` from a list with a row X(T, name, value, setter, doc) for
 * each attribute, where the value is an expression of `self`, and the setter may be
 * NULL. */
#define IPU_PY_ATTRIBUTES(object, LIST) \
    LIST(IPU_PY_GETTER, object) \
    static PyGetSetDef object##_getset[] = {LIST(IPU_PY_GETSET, object){0}}
#define IPU_PY_GETTER(object, name, value, setter, doc) \
    static PyObject *object##_get_##name(PyObject *self_object, \
                                         void *Py_UNUSED(closure)) \
    { \
        object *self = (object *)self_object; \
        (void)self; \
        return value; \
    }
#define IPU_PY_GETSET(object, name, value, setter, doc) \
    {#name, object##_get_##name, setter, doc, NULL},

/* A function of another signature, as a row of methods has it. */
#define IPU_PY_FUNCTION(function) (PyCFunction)(void (*)(void))(function)

/* Objects that can be referred to weakly begin with this; the members of their type
 * are ipu_py_weak_members. Who frees them drops the references first. */
typedef struct ipu_py_weak {
    PyObject_HEAD
    PyObject *references;
} ipu_py_weak;
extern PyMemberDef ipu_py_weak_members[];

/* Records of ops begin with this. Python keeps the custom calls of one in it: a
 * gradient function that holds its tape is part of a cycle that can be seen. */
typedef struct ipu_py_tape_record {
    ipu_py_weak base;
    PyObject *custom_calls; /* a list, or NULL */
} ipu_py_tape_record;
extern PyMemberDef ipu_py_tape_record_members[];

/* The last of tp_dealloc: the memory, and the reference to the type. */
void ipu_py_free(PyObject *object);

/* --- results --------------------------------------------------------------------- */

/* Sets the exception that the error came from (and takes it from ctx), or else that of
 * ctx->status with its message and source line; returns NULL. One that is already set
 * stays. */
PyObject *ipu_py_raise(ipu_ctx *ctx);
/* Whether it is OK; if not, its exception is raised. */
bool ipu_py_is_ok(ipu_ctx *ctx, ipu_status status);
/* None, or the exception of the status. */
PyObject *ipu_py_none(ipu_ctx *ctx, ipu_status status);
/* What one of the core's printers gave, which is freed, or the exception. */
PyObject *ipu_py_text(ipu_ctx *ctx, ipu_status status, char *text, size_t bytes);
/* An item, whose reference is taken, into a new list or tuple, or to the end of a list;
 * NULL ends it: *sequence becomes NULL, with the exception that is set. */
void ipu_py_put(PyObject **sequence, Py_ssize_t i, PyObject *item);
void ipu_py_append(PyObject **list, PyObject *item);
/* Calls a function of a module of the package; `format` is that of a tuple. */
PyObject *ipu_py_call(const char *module, const char *function, const char *format,
                      ...);

/* A callback, on whatever thread: the exception that is set (GIL held) becomes the
 * cause of ctx's error. */
ipu_status ipu_py_fail(ipu_ctx *ctx);
/* The objects of a cause that ipu_py_fail made, for the garbage collector. */
int ipu_py_cause_visit(ipu_cause *cause, visitproc visit, void *arg);

/* A fresh context on the default allocator. */
static inline ipu_ctx
ipu_py_ctx(void)
{
    ipu_ctx ctx;
    ipu_ctx_init(&ctx, ipu_allocator_default());
    return ctx;
}

/* The pool for programs, or NULL for one thread. Returns -1 with an exception on
 * failure. */
int ipu_py_pool(ipu_py_state *state, ipu_pool **out);

/* --- threads --------------------------------------------------------------------- */

/* The calling thread's (borrowed); NULL with an exception where there is no memory. */
ipu_py_thread *ipu_py_thread_here(ipu_py_state *state);
/* The module goes; threads may outlive it. */
void ipu_py_threads_detach(ipu_py_state *state);
/* The thread's stream, which begins where it had none. */
ipu_py_stream *ipu_py_stream_of(ipu_py_state *state, ipu_py_thread *thread);
/* Of the thread's next random op. */
ipu_random_key ipu_py_random_key(ipu_py_state *state, ipu_py_thread *thread);
int ipu_py_set_seed(ipu_py_state *state, uint64_t seed);

/* --- conversions ----------------------------------------------------------------- */

/* Converters of PyArg_Parse ("O&"): 1, or 0 with an exception. */

/* ipu_dtype: from a name, a NumPy dtype or anything with a `name`. */
int ipu_py_dtype_converter(PyObject *object, void *out);
/* ipu_shape: from a sequence of ints. */
int ipu_py_shape_converter(PyObject *object, void *out);
/* ipu_type: from (dtype, shape). */
int ipu_py_type_converter(PyObject *object, void *out);
/* ipu_type: likewise; None stands for an unknown dimension, and for an unknown shape.
 */
int ipu_py_spec_converter(PyObject *object, void *out);
/* ipu_op: from its name. */
int ipu_py_op_converter(PyObject *object, void *out);
/* uint32_t: from a number that fits. */
int ipu_py_uint32_converter(PyObject *object, void *out);

/* The ipu_type of each item of a sequence, freed by PyMem_Free; NULL on an error. */
ipu_type *ipu_py_types(PyObject *sequence, int (*converter)(PyObject *, void *),
                       uint32_t *count);
/* Which of `count` names it is, or -1 with ValueError. */
int ipu_py_choice(const char *what, const char *text, const char *const *names,
                  int count);
PyObject *ipu_py_shape_tuple(const ipu_shape *shape);
/* A list of (dtype name, shape tuple), as ipu_py_spec_converter reads them. */
PyObject *ipu_py_type_list(const ipu_type *types, uint32_t count);

/* --- scratch --------------------------------------------------------------------- */

/* Room for `bytes`: `few` where that is large enough, else the heap's; NULL with an
 * exception. So ops of a few operands allocate nothing, and no number is a limit. */
static inline void *
ipu_py_scratch(void *few, size_t few_bytes, size_t bytes)
{
    void *room = bytes <= few_bytes ? few : PyMem_Malloc(bytes);
    return room == NULL ? (void *)PyErr_NoMemory() : room;
}

static inline void
ipu_py_scratch_free(void *room, const void *few)
{
    if (room != few) {
        PyMem_Free(room);
    }
}

/* --- tensors --------------------------------------------------------------------- */

/* Owned, aligned bytes with slack after them; counted. */
typedef struct ipu_py_storage {
    Py_ssize_t references; /* changed with the GIL held */
    size_t bytes;
    void *data;
} ipu_py_storage;

/* With one reference; NULL without an exception. */
ipu_py_storage *ipu_py_storage_new(ipu_py_state *state, size_t bytes);
void ipu_py_storage_release(ipu_py_state *state, ipu_py_storage *storage);
void ipu_py_storage_free_spare(ipu_py_state *state);

typedef struct ipu_py_tensor {
    PyObject_HEAD
    ipu_type type;
    ipu_py_storage *storage; /* NULL: symbolic */
    PyObject *trace;         /* of a symbolic tensor; strong */
    ipu_value value;
    int32_t device;  /* that its thread was in the scope of, + 1; 0: the host */
    PyObject *notes; /* a dict of what Python notes of the tensor; NULL: nothing */
} ipu_py_tensor;

bool ipu_py_is_tensor(ipu_py_state *state, PyObject *object);
/* -1 with TypeError for a symbolic tensor, whose value `what` would need. */
int ipu_py_require_eager(ipu_py_tensor *tensor, const char *what);
/* A new eager tensor of uninitialised memory. */
ipu_py_tensor *ipu_py_tensor_new(ipu_py_state *state, const ipu_type *type);
/* The same bytes under another type of equal size. */
ipu_py_tensor *ipu_py_tensor_view(ipu_py_state *state, ipu_py_tensor *base,
                                  const ipu_type *type);
ipu_py_tensor *ipu_py_tensor_symbolic(ipu_py_state *state, PyObject *trace,
                                      ipu_value value);
static inline void *
ipu_py_tensor_data(const ipu_py_tensor *tensor)
{
    return tensor->storage->data;
}
/* New reference: `object` (Tensor, Variable, array, number, nested list) as a tensor.
 * `dtype` < 0 leaves the choice: Python ints int32 (int64 where they do not fit),
 * floats float32, arrays their own. */
ipu_py_tensor *ipu_py_as_tensor(ipu_py_state *state, PyObject *object, int dtype);
/* Of one Python number, in *out (NULL with an exception); false: it is something else,
 * or NumPy's to convert. */
bool ipu_py_tensor_of_number(ipu_py_state *state, PyObject *object, int wanted,
                             ipu_py_tensor **out);
/* An array of Python's numbers, one of them beyond 64 bits, as floats where those are
 * wanted; NULL with an exception, and without one if it holds something else. */
PyObject *ipu_py_array_of_large(PyObject *array, int wanted);
/* -1 with ValueError if `array` is what NumPy made of whole numbers alone, some of them
 * too large for int64 and some for uint64. */
int ipu_py_check_whole(PyObject *object, PyObject *array);
/* -1 with ValueError if `dtype` cannot hold an element of an array of numbers, which
 * ipu_py_any_array gave. */
int ipu_py_check_fits(PyObject *array, ipu_dtype dtype);
/* An array of another library, which gives its memory through DLPack. */
bool ipu_py_is_foreign(PyObject *object);
/* New reference to a C-contiguous ndarray of `type`'s dtype; raises if shapes differ.
 */
PyObject *ipu_py_as_array(PyObject *object, const ipu_type *type);
/* New reference to a C-contiguous ndarray of any shape; dtype < 0: its own. */
PyObject *ipu_py_any_array(PyObject *object, int dtype);
/* An ndarray or a NumPy scalar. */
bool ipu_py_is_array(PyObject *object);
/* The dtype that a NumPy array or scalar takes beside a tensor of `dtype`: that one
 * where its own kind of number fits into it, else -1, its own. */
int ipu_py_dtype_beside(PyObject *object, ipu_dtype dtype);
int ipu_py_dtype_of_array(PyObject *array, ipu_dtype *out);
void ipu_py_array_type(PyObject *array, ipu_type *type); /* fills the shape alone */
void *ipu_py_array_data(PyObject *array);

/* How other libraries see a tensor's memory (dlpack.c). */
PyObject *ipu_py_tensor_dlpack(PyObject *self, PyObject *args, PyObject *kwargs);
PyObject *ipu_py_tensor_dlpack_device(PyObject *self, PyObject *ignored);
int ipu_py_tensor_getbuffer(PyObject *self, Py_buffer *view, int flags);
void ipu_py_tensor_releasebuffer(PyObject *self, Py_buffer *view);

/* --- ops and traces -------------------------------------------------------------- */

/* The innermost open trace of this thread, or NULL (borrowed). */
PyObject *ipu_py_open_trace(ipu_py_state *state);
ipu_trace *ipu_py_trace_of(PyObject *trace);
PyObject *ipu_py_trace_gradients(PyObject *trace, PyObject *args, PyObject *kwargs);
/* An account that is asked for: of a tuple of the chip's values, the shares of a tile for
 * matmuls, convolutions and slices, whether the first two sum float16 in float16, whether
 * the products of a layer share a plan and norms are stable, replicas and IPUs
 * (ipu_account_options), and whether it is wanted of programs that fit, too. */
typedef struct ipu_py_account_request {
    ipu_chip chip;
    ipu_account_options options;
    int is_for_all;
    ipu_plans *plans;
    PyObject *found; /* a dict; NULL: none was made */
} ipu_py_account_request;

/* int (*)(PyObject *, ipu_py_account_request *) */
int ipu_py_account_converter(PyObject *object, void *out);
/* What the graph would cost on IPUs; passes change it. */
PyObject *ipu_py_account(ipu_py_state *state, ipu_graph *graph, PyObject *request);
/* An ipu_reader_fn whose state is a request. */
ipu_reader_fn ipu_py_account_read;
/* An eager tensor as a value of a trace: a constant, or where it lies if it is large.
 */
int ipu_py_trace_capture(PyObject *trace, ipu_py_tensor *tensor, ipu_value *out);
/* `tensor` as a value of the open trace: its own value, or a constant. */
int ipu_py_trace_value(ipu_py_state *state, ipu_py_tensor *tensor, ipu_value *out);
/* The values of a sequence of tensor-likes, freed by PyMem_Free; NULL on an error. */
ipu_value *ipu_py_trace_inputs(ipu_py_state *state, PyObject *sequence,
                               uint32_t *count);
/* Sets TypeError: a symbolic tensor outside of its function or loop. */
void ipu_py_raise_leaked(const ipu_py_tensor *tensor);
/* One op at once, whether or not a function is traced. */
PyObject *ipu_py_apply_eager(ipu_py_state *state, ipu_op op,
                             ipu_py_tensor *const *inputs, uint32_t input_count,
                             ipu_attrs attrs);
void ipu_py_kernels_free(ipu_py_state *state);
/* Takes the references: None, a tensor, or a tuple. */
PyObject *ipu_py_pack_results(ipu_py_tensor **tensors, uint32_t count);
/* Tells a thread's recorder, which is not NULL, of an eager op (py_recorder.c). */
int ipu_py_record(ipu_py_state *state, PyObject *recorder, ipu_op op,
                  ipu_py_tensor *const *inputs, uint32_t input_count, ipu_attrs attrs,
                  ipu_py_tensor *const *outputs, uint32_t output_count);
/* One op, eager or traced. inputs are borrowed tensors; the result is a new reference:
 * a tensor, a tuple, or None for ops without outputs. */
PyObject *ipu_py_apply(ipu_py_state *state, ipu_op op, ipu_py_tensor *const *inputs,
                       uint32_t input_count, const ipu_attr *attrs,
                       uint32_t attr_count);

/* The user's own line: the innermost frame outside the package. `file` is a new
 * reference or NULL. */
int32_t ipu_py_user_line(ipu_py_state *state, PyObject **file);
ipu_source ipu_py_trace_source(ipu_py_state *state, PyObject *trace);
/* The attributes of a dict, over arena memory. */
int ipu_py_parse_attrs(PyObject *dict, ipu_ctx *ctx, ipu_arena *arena, ipu_attr *out,
                       uint32_t capacity, uint32_t *count);
/* Outputs of a node as ipu_py_apply returns them. */
PyObject *ipu_py_node_result(ipu_py_state *state, PyObject *trace, ipu_node node);

/* While a program runs on the main thread, SIGINT sets *flag beside what Python's own
 * handler does. */
typedef struct ipu_py_interrupt {
    bool installed;
} ipu_py_interrupt;
const int32_t *ipu_py_interrupt_begin(ipu_py_interrupt *interrupt);
void ipu_py_interrupt_end(ipu_py_interrupt *interrupt);

/* While C works for a Python thread with the GIL released, Ctrl-C and other signals are
 * handled as Python does it: on the main thread, at moments when ctx is asked whether
 * to give up. Their exception is kept until the end. On a thread of a service (see
 * base/service.h), which no signal reaches, ctx gives up with the service. */
typedef struct ipu_py_patience {
    ipu_cancel cancel; /* first: the poll is handed its address */
    uint32_t calls;    /* since the clock was read */
    uint32_t calls_a_look;
    uint64_t looked_ns;
    PyObject *type;
    PyObject *value;
    PyObject *traceback;
} ipu_py_patience;
void ipu_py_patience_begin(ipu_py_patience *patience, ipu_ctx *ctx);
/* Raises the exception, if there was a signal that has one: -1. */
int ipu_py_patience_end(ipu_py_patience *patience);
/* Ends it. Whether `status` is OK and there was none; else an exception is raised. */
bool ipu_py_patience_is_ok(ipu_py_patience *patience, ipu_ctx *ctx, ipu_status status);
/* Whether the exception that is being handled ends the program (KeyboardInterrupt). */
bool ipu_py_is_unwinding(void);

/* A callback from a thread of C: the GIL is taken and given back, and a thread of a
 * service is away meanwhile. */
typedef struct ipu_py_entry {
    PyThreadState *made; /* NULL where the thread had a state */
    PyGILState_STATE gil;
} ipu_py_entry;
ipu_py_entry ipu_py_enter(void);
/* CANCELLED where the thread was left behind meanwhile. */
ipu_status ipu_py_leave(ipu_ctx *ctx, ipu_py_entry entry, ipu_status status);

ipu_peers *ipu_py_peers_of(PyObject *peers);
ipu_device *ipu_py_device_of(PyObject *device);
/* Whether its programs have the same bits on every class of CPU. */
bool ipu_py_device_is_portable(PyObject *device);
const ipu_float_behaviour *ipu_py_device_behaviour(PyObject *device);
size_t ipu_py_device_bucket_bytes(PyObject *device);
uint32_t ipu_py_device_all_ipus(PyObject *device);
ipu_infeed *ipu_py_infeed_of(PyObject *infeed);
const ipu_program *ipu_py_program_of(PyObject *program);
ipu_dataset *ipu_py_dataset_of(PyObject *dataset);
/* For tp_traverse: the Python iterators that `iterator`, which is not at work, holds.
 */
int ipu_py_dataset_visit(ipu_iterator *iterator, visitproc visit, void *arg);

/* --- programs -------------------------------------------------------------------- */

/* Runs the passes on `graph` (which they change) and lowers it. `held` keeps alive what
 * its held nodes read (may be NULL), `device` is a Device or None. The program has the
 * account that `request` (may be NULL) wants. GIL released meanwhile. */
PyObject *ipu_py_program_compile(ipu_py_state *state, ipu_graph *graph, PyObject *held,
                                 PyObject *device, bool fuse, bool reference,
                                 bool verify, ipu_py_account_request *request);

/* Doors for tests and measurements: how programs are compiled from now on. A value is
 * an ipu_region_choice, an ipu_panel_choice, or FAST, PORTABLE or BLIS of
 * ipu_kernel_variant. */
typedef enum ipu_py_compile_choice {
    IPU_PY_REGIONS,
    IPU_PY_PANELS,
    IPU_PY_PRODUCTS
} ipu_py_compile_choice;
void ipu_py_program_choose(ipu_py_compile_choice what, int value);

/* --- module functions by file ---------------------------------------------------- */

extern PyMethodDef ipu_py_apply_methods[];
extern PyMethodDef ipu_py_testing_methods[];
extern PyMethodDef ipu_py_profile_methods[];
extern PyMethodDef ipu_py_machine_methods[];

#endif
