/* SPDX-License-Identifier: MIT
 *
 * ipu._core.Program: a compiled program bound to a device. */
#define NO_IMPORT_ARRAY
#include "bind/py_program.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/service.h"
#include "passes/passes.h"
#include "pipeline/schedule.h"

const ipu_program *
ipu_py_program_of(PyObject *program)
{
    return ((ipu_py_program *)program)->program;
}

static void
forget_threads(void *owner)
{
    ipu_py_program *self = owner;
    ipu_cond_init(&self->ended);
    if (self->is_running) { /* the thread may have been anywhere in it */
        self->executor = NULL;
        self->holds_recorder = false;
    }
    self->is_running = false;
}

static ipu_status
check_device(ipu_ctx *ctx, const ipu_py_program *self, ipu_device_wait *wait)
{
    return self->device == Py_None
               ? IPU_OK
               : ipu_device_check_wait(ctx, ipu_py_device_of(self->device), wait);
}

/* Waits until no other thread runs the program. */
static ipu_status
wait_for_others(ipu_ctx *ctx, ipu_py_program *self)
{
    ipu_device_wait wait = {0};
    ipu_status status = IPU_OK;
    ipu_lock_take(&self->lock);
    while (self->is_running && status == IPU_OK) {
        if (!ipu_ctx_wait(ctx, &self->lock, &self->ended)) {
            status = ipu_ctx_fail(ctx, IPU_STATUS_CANCELLED,
                                  "interrupted while another thread ran the program");
        } else if (self->is_running) {
            ipu_lock_drop(&self->lock);
            status = check_device(ctx, self, &wait);
            ipu_lock_take(&self->lock);
        }
    }
    self->is_running = self->is_running || status == IPU_OK;
    ipu_lock_drop(&self->lock);
    return status;
}

static void
end_run(ipu_py_program *self)
{
    ipu_lock_take(&self->lock);
    self->is_running = false;
    pthread_cond_signal(&self->ended);
    ipu_lock_drop(&self->lock);
}

/* From here to the end of the run the executor is the thread's; -1 with an exception.
 */
static int
begin_run(ipu_py_state *state, ipu_py_program *self)
{
    ipu_ctx ctx = ipu_py_ctx();
    ipu_py_patience patience;
    ipu_status status;
    ipu_py_patience_begin(&patience, &ctx);
    Py_BEGIN_ALLOW_THREADS
    status = wait_for_others(&ctx, self);
    Py_END_ALLOW_THREADS
    bool is_interrupted = ipu_py_patience_end(&patience) < 0;
    if (is_interrupted && status == IPU_OK) {
        end_run(self);
    }
    if (!is_interrupted && status != IPU_OK) {
        ipu_py_raise(state, &ctx);
    }
    return is_interrupted || status != IPU_OK ? -1 : 0;
}

static atomic_int regions = IPU_REGIONS_WHERE_FASTER;
static atomic_int products = IPU_KERNEL_FAST;
static atomic_int panels = IPU_PANELS_WHERE_FASTER;

void
ipu_py_program_set_regions(ipu_region_choice choice)
{
    atomic_store(&regions, (int)choice);
}

void
ipu_py_program_set_panels(ipu_panel_choice choice)
{
    atomic_store(&panels, (int)choice);
}

void
ipu_py_program_set_products(ipu_kernel_variant variant)
{
    atomic_store(&products, (int)variant);
}

/* The kernels of a program for `device`, which may be None. */
static ipu_kernel_variant
variant_for(PyObject *device, bool reference)
{
    bool portable = device != Py_None && ipu_py_device_is_portable(device);
    return reference  ? IPU_KERNEL_REFERENCE
           : portable ? IPU_KERNEL_PORTABLE
                      : (ipu_kernel_variant)atomic_load(&products);
}

/* Whether what a guard looks at would be hidden inside of fused chains. */
static bool
is_looked_at(const ipu_graph *graph, const ipu_float_behaviour *behaviour)
{
    bool traps = behaviour->traps_invalid || behaviour->traps_division ||
                 behaviour->traps_overflow;
    bool has_halves = false;
    for (size_t i = 0; i < graph->values.count && !has_halves; i++) {
        has_halves = graph->values.items[i].type.dtype == IPU_DTYPE_FLOAT16;
    }
    return traps || (has_halves && ipu_float_behaviour_guards(behaviour));
}

PyObject *
ipu_py_program_compile(ipu_py_state *state, ipu_graph *graph, PyObject *held,
                       PyObject *device, bool fuse, bool reference, bool verify)
{
    if (device != Py_None && !PyObject_TypeCheck(device, state->device_type)) {
        PyErr_Format(PyExc_TypeError, "expected a Device or None, but got %R", device);
        return NULL;
    }
    ipu_py_program *self =
        (ipu_py_program *)state->program_type->tp_alloc(state->program_type, 0);
    if (self == NULL) {
        return NULL;
    }
    ipu_lock_init(&self->lock, forget_threads, self);
    ipu_cond_init(&self->ended);
    self->device = Py_NewRef(device);
    self->held = Py_XNewRef(held);
    self->name = Py_NewRef(Py_None);
    ipu_ctx ctx = ipu_py_ctx();
    ipu_float_behaviour behaviour = {0};
    if (device != Py_None && !graph->host) {
        behaviour = *ipu_py_device_behaviour(device);
    }
    graph->rounding = behaviour.rounding;
    ipu_passes_options passes = {.verify = verify,
                                 .fuse = fuse && !is_looked_at(graph, &behaviour)};
    ipu_compile_options options = {.variant = variant_for(device, reference),
                                   .cpu = ipu_cpu_class_detect(),
                                   .verify = verify,
                                   .behaviour = behaviour,
                                   .regions = (ipu_region_choice)atomic_load(&regions),
                                   .panels = (ipu_panel_choice)atomic_load(&panels)};
    ipu_status status;
    Py_BEGIN_ALLOW_THREADS
    status = ipu_passes_run(&ctx, graph, &passes);
    if (status == IPU_OK) {
        status = ipu_program_create(&ctx, graph, &options, &self->program);
    }
    Py_END_ALLOW_THREADS
    if (status != IPU_OK) {
        Py_DECREF(self);
        return ipu_py_raise(state, &ctx);
    }
    return (PyObject *)self;
}

/* What it holds outlives a run: the executor reads it. Those who hold the program are
 * cleared, not the program. */
static int
program_traverse(PyObject *object, visitproc visit, void *arg)
{
    ipu_py_program *self = (ipu_py_program *)object;
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(self->device);
    Py_VISIT(self->held);
    Py_VISIT(self->name);
    return 0;
}

static void
program_dealloc(PyObject *object)
{
    ipu_py_program *self = (ipu_py_program *)object;
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(object);
    ipu_ctx ctx = ipu_py_ctx();
    ipu_executor_free(&ctx, self->executor);
    ipu_program_free(&ctx, self->program);
    Py_XDECREF(self->device);
    Py_XDECREF(self->held);
    Py_XDECREF(self->name);
    PyMem_Free(self->spans);
    ipu_lock_destroy(&self->lock);
    pthread_cond_destroy(&self->ended);
    type->tp_free(self);
    Py_DECREF(type);
}

/* --- running --------------------------------------------------------------------- */

typedef struct run_buffers {
    PyObject **inputs; /* arrays or tensors that hold the bytes */
    const void **input_data;
    bool *is_tensor; /* of inputs: it cannot change, and has slack */
    ipu_py_tensor **outputs;
    void **output_data;
} run_buffers;

static void
release_buffers(run_buffers *b, const ipu_program *program)
{
    for (uint32_t i = 0; b->inputs != NULL && i < program->input_count; i++) {
        Py_XDECREF(b->inputs[i]);
    }
    for (uint32_t i = 0; b->outputs != NULL && i < program->output_count; i++) {
        Py_XDECREF(b->outputs[i]);
    }
    PyMem_Free(b->inputs);
    PyMem_Free(b->input_data);
    PyMem_Free(b->is_tensor);
    PyMem_Free(b->outputs);
    PyMem_Free(b->output_data);
}

static int
take_input(ipu_py_state *state, PyObject *item, const ipu_type *type, PyObject **out,
           const void **data, bool *is_tensor)
{
    if (ipu_py_is_tensor(state, item) && ((ipu_py_tensor *)item)->storage != NULL &&
        ipu_type_equal(&((ipu_py_tensor *)item)->type, type)) {
        *out = Py_NewRef(item);
        *data = ipu_py_tensor_data((ipu_py_tensor *)item);
        *is_tensor = true;
        return 0;
    }
    *is_tensor = false;
    *out = ipu_py_as_array(item, type);
    if (*out == NULL) {
        return -1;
    }
    *data = ipu_py_array_data(*out);
    return 0;
}

static int
make_buffers(ipu_py_state *state, run_buffers *b, const ipu_program *program,
             PyObject *inputs)
{
    PyObject *items = PySequence_Tuple(inputs);
    if (items == NULL) {
        return -1;
    }
    int result = -1;
    b->inputs = PyMem_Calloc(program->input_count + 1, sizeof(PyObject *));
    b->input_data = PyMem_Calloc(program->input_count + 1, sizeof(void *));
    b->is_tensor = PyMem_Calloc(program->input_count + 1, sizeof(bool));
    b->outputs = PyMem_Calloc(program->output_count + 1, sizeof(ipu_py_tensor *));
    b->output_data = PyMem_Calloc(program->output_count + 1, sizeof(void *));
    if (b->inputs == NULL || b->input_data == NULL || b->is_tensor == NULL ||
        b->outputs == NULL || b->output_data == NULL) {
        PyErr_NoMemory();
        goto done;
    }
    if (PyTuple_GET_SIZE(items) != (Py_ssize_t)program->input_count) {
        PyErr_Format(PyExc_ValueError, "the program takes %u inputs, but got %zd",
                     program->input_count, PyTuple_GET_SIZE(items));
        goto done;
    }
    for (uint32_t i = 0; i < program->input_count; i++) {
        if (take_input(state, PyTuple_GET_ITEM(items, i), &program->inputs[i],
                       &b->inputs[i], &b->input_data[i], &b->is_tensor[i]) < 0) {
            goto done;
        }
    }
    for (uint32_t i = 0; i < program->output_count; i++) {
        b->outputs[i] = ipu_py_tensor_new(state, &program->outputs[i]);
        if (b->outputs[i] == NULL) {
            goto done;
        }
        b->output_data[i] = ipu_py_tensor_data(b->outputs[i]);
    }
    result = 0;
done:
    Py_DECREF(items);
    return result;
}

static int
make_executor(ipu_py_state *state, ipu_py_program *self)
{
    if (self->executor != NULL) {
        return 0;
    }
    ipu_ctx ctx = ipu_py_ctx();
    ipu_device *device =
        self->device == Py_None ? NULL : ipu_py_device_of(self->device);
    if (ipu_executor_create(&ctx, self->program, device, NULL, &self->executor) !=
        IPU_OK) {
        ipu_py_raise(state, &ctx);
        return -1;
    }
    return 0;
}

static PyObject *
run_failed(ipu_py_state *state, ipu_ctx *ctx)
{
    if (ctx->status == IPU_STATUS_INTERRUPTED && PyErr_CheckSignals() == 0) {
        /* the program's own SIGINT handler chose not to raise: the run has still ended
         */
        PyErr_SetNone(PyExc_KeyboardInterrupt);
    }
    return ipu_py_raise(state, ctx);
}

static PyObject *
program_run(PyObject *object, PyObject *inputs)
{
    ipu_py_program *self = (ipu_py_program *)object;
    ipu_py_state *state = ipu_py_state_of_type(Py_TYPE(self));
    run_buffers buffers = {0};
    PyObject *result = NULL;
    ipu_pool *pool;
    if (make_buffers(state, &buffers, self->program, inputs) < 0 ||
        ipu_py_pool(state, &pool) < 0 || begin_run(state, self) < 0) {
        release_buffers(&buffers, self->program);
        return NULL;
    }
    ipu_ctx ctx = ipu_py_ctx();
    ipu_status status = IPU_STATUS_PYTHON;
    if (make_executor(state, self) == 0 && ipu_py_profile_begin(state, self) == 0) {
        ipu_py_interrupt interrupt;
        const int32_t *cancel = ipu_py_interrupt_begin(&interrupt);
        if (PyErr_CheckSignals() == 0) { /* those of the moment before */
            Py_BEGIN_ALLOW_THREADS
            status = ipu_executor_set_pool(&ctx, self->executor, pool);
            ipu_executor_set_slack(self->executor, buffers.is_tensor, true);
            if (status == IPU_OK) {
                status = ipu_executor_run(&ctx, self->executor, buffers.input_data,
                                          buffers.output_data, cancel, &self->stats);
            }
            Py_END_ALLOW_THREADS
        }
        ipu_py_interrupt_end(&interrupt);
        if (ipu_py_profile_end(state, self) < 0 && status == IPU_OK) {
            status = IPU_STATUS_PYTHON;
        }
    }
    end_run(self);
    if (status != IPU_OK) {
        result = run_failed(state, &ctx);
    } else {
        result = PyList_New(self->program->output_count);
        for (uint32_t i = 0; result != NULL && i < self->program->output_count; i++) {
            PyList_SET_ITEM(result, i, Py_NewRef(buffers.outputs[i]));
        }
    }
    release_buffers(&buffers, self->program);
    return result;
}

/* More memory than this of one that rests is worth the time to make it anew. */
#define MOST_AT_REST ((size_t)1 << 20)

static size_t
slab_bytes(const ipu_program *program)
{
    size_t bytes = 0;
    for (size_t i = 0; i < program->streams.count; i++) {
        bytes += program->streams.items[i].memory.slab_bytes;
    }
    return bytes;
}

static PyObject *
program_rest(PyObject *object, PyObject *Py_UNUSED(ignored))
{
    ipu_py_program *self = (ipu_py_program *)object;
    if (slab_bytes(self->program) > MOST_AT_REST) {
        if (begin_run(ipu_py_state_of_type(Py_TYPE(self)), self) < 0) {
            return NULL;
        }
        Py_BEGIN_ALLOW_THREADS
        ipu_ctx ctx = ipu_py_ctx();
        ipu_executor_free(&ctx, self->executor);
        self->executor = NULL;
        end_run(self);
        Py_END_ALLOW_THREADS
    }
    Py_RETURN_NONE;
}

/* --- looking at it --------------------------------------------------------------- */

static PyObject *
program_get_text(PyObject *object, void *Py_UNUSED(closure))
{
    ipu_py_program *self = (ipu_py_program *)object;
    ipu_ctx ctx = ipu_py_ctx();
    char *text;
    size_t bytes;
    if (ipu_program_print(&ctx, self->program, &text, &bytes) != IPU_OK) {
        return ipu_py_raise(ipu_py_state_of_type(Py_TYPE(self)), &ctx);
    }
    PyObject *result = PyUnicode_DecodeUTF8(text, (Py_ssize_t)bytes - 1, "replace");
    ipu_free(&ctx, text, bytes);
    return result;
}

static PyObject *
program_get_memory(PyObject *object, void *Py_UNUSED(closure))
{
    const ipu_program *program = ((ipu_py_program *)object)->program;
    ipu_memory_report whole = {.peak_at = program->streams.items[0].memory.peak_at};
    for (size_t i = 0; i < program->streams.count; i++) {
        whole.slab_bytes += program->streams.items[i].memory.slab_bytes;
        whole.peak_live_bytes += program->streams.items[i].memory.peak_live_bytes;
    }
    return Py_BuildValue(
        "{s:n,s:n,s:i,s:n,s:n}", "slab_bytes", (Py_ssize_t)whole.slab_bytes,
        "peak_live_bytes", (Py_ssize_t)whole.peak_live_bytes, "peak_at",
        (int)whole.peak_at, "constant_bytes", (Py_ssize_t)program->constant_bytes,
        "workspace_bytes", (Py_ssize_t)program->workspace_bytes);
}

static PyObject *
program_get_streams(PyObject *object, void *Py_UNUSED(closure))
{
    const ipu_program *program = ((ipu_py_program *)object)->program;
    PyObject *list = PyList_New(0);
    for (uint32_t i = 0; list != NULL && i < program->streams.count; i++) {
        const ipu_stream *stream = &program->streams.items[i];
        ipu_stream_bytes bytes = ipu_program_stream_bytes(program, i);
        PyObject *one = Py_BuildValue(
            "{s:i,s:n,s:n,s:n,s:n,s:n}", "ipu",
            stream->is_child ? (int)stream->ipu : -1, "slab_bytes",
            (Py_ssize_t)bytes.slab, "peak_live_bytes", (Py_ssize_t)bytes.peak,
            "ring_bytes", (Py_ssize_t)bytes.rings, "message_bytes",
            (Py_ssize_t)bytes.messages, "remote_bytes", (Py_ssize_t)bytes.remote);
        if (one == NULL || PyList_Append(list, one) < 0) {
            Py_CLEAR(list);
        }
        Py_XDECREF(one);
    }
    return list;
}

static PyObject *
program_get_records(PyObject *object, void *Py_UNUSED(closure))
{
    return PyBool_FromLong(((ipu_py_program *)object)->records);
}

static int
program_set_records(PyObject *object, PyObject *value, void *Py_UNUSED(closure))
{
    int on = value == NULL ? 0 : PyObject_IsTrue(value);
    ((ipu_py_program *)object)->records = on > 0;
    return on < 0 ? -1 : 0;
}

static PyObject *
program_get_id(PyObject *object, void *Py_UNUSED(closure))
{
    return PyLong_FromUnsignedLong(((ipu_py_program *)object)->program->id & 0xffffff);
}

static PyObject *
program_get_name(PyObject *object, void *Py_UNUSED(closure))
{
    return Py_NewRef(((ipu_py_program *)object)->name);
}

static int
program_set_name(PyObject *object, PyObject *value, void *Py_UNUSED(closure))
{
    if (value == NULL || !PyUnicode_Check(value)) {
        PyErr_SetString(PyExc_TypeError, "a program's name is a str");
        return -1;
    }
    Py_XSETREF(((ipu_py_program *)object)->name, Py_NewRef(value));
    return 0;
}

static PyObject *
program_get_stats(PyObject *object, void *Py_UNUSED(closure))
{
    const ipu_run_stats *s = &((ipu_py_program *)object)->stats;
    return Py_BuildValue("{s:K,s:K,s:K,s:K,s:K}", "steps", s->steps, "allocations",
                         s->allocations, "run_ns", s->run_ns, "infeed_wait_ns",
                         s->infeed_wait_ns, "outfeed_wait_ns", s->outfeed_wait_ns);
}

static PyObject *
program_get_flops(PyObject *object, void *Py_UNUSED(closure))
{
    return PyFloat_FromDouble(
        ipu_program_cost(((ipu_py_program *)object)->program).flops);
}

static PyObject *
program_get_bytes(PyObject *object, void *Py_UNUSED(closure))
{
    return PyFloat_FromDouble(
        ipu_program_cost(((ipu_py_program *)object)->program).bytes);
}

static PyObject *
program_get_inputs(PyObject *object, void *Py_UNUSED(closure))
{
    const ipu_program *program = ((ipu_py_program *)object)->program;
    PyObject *list = PyList_New(program->input_count);
    for (uint32_t i = 0; list != NULL && i < program->input_count; i++) {
        PyObject *item = ipu_py_type_tuple(&program->inputs[i]);
        if (item == NULL) {
            Py_CLEAR(list);
            break;
        }
        PyList_SET_ITEM(list, i, item);
    }
    return list;
}

static PyMethodDef program_methods[] = {
    {"rest", program_rest, METH_NOARGS,
     "Free the memory that a run makes anew, where it is much."},
    {"run", program_run, METH_O,
     "run(inputs)\n--\n\nRuns the program once; returns its outputs as a list of "
     "tensors."},
    {NULL, NULL, 0, NULL},
};

static PyObject *
program_get_queues(PyObject *self, void *Py_UNUSED(closure))
{
    const ipu_program *program = ((ipu_py_program *)self)->program;
    bool found = false;
    for (size_t i = 0; i < program->resources.count; i++) {
        found |= program->resources.items[i].kind != IPU_RESOURCE_VARIABLE;
    }
    return PyBool_FromLong(found);
}

static PyObject *
program_get_replicas(PyObject *object, void *Py_UNUSED(closure))
{
    const ipu_py_program *self = (const ipu_py_program *)object;
    const ipu_device *device =
        self->device == Py_None ? NULL : ipu_py_device_of(self->device);
    ipu_ctx ctx = ipu_py_ctx();
    uint32_t replicas;
    if (ipu_program_replicas(&ctx, self->program, device, &replicas) != IPU_OK) {
        return ipu_py_raise(ipu_py_state_of_type(Py_TYPE(object)), &ctx);
    }
    return PyLong_FromUnsignedLong(replicas);
}

static PyGetSetDef program_getset[] = {
    {"replicas", program_get_replicas, NULL,
     "How many replicas of it fill its device; an error unless that is a whole number.",
     NULL},
    {"text", program_get_text, NULL, "The disassembly.", NULL},
    {"memory_report", program_get_memory, NULL,
     "A dict: slab_bytes, peak_live_bytes, peak_at (instruction of the first stream), "
     "constant_bytes, workspace_bytes (of each worker).",
     NULL},
    {"records", program_get_records, program_set_records,
     "Whether the next runs record when a pipeline's actions ran.", NULL},
    {"id", program_get_id, NULL, "What its events are known by.", NULL},
    {"name", program_get_name, program_set_name,
     "The name of what it was made of, or None.", NULL},
    {"instructions", ipu_py_program_instructions, NULL,
     "What its events are about: (stream, number, kind, op, kernel, file, line, flops, "
     "bytes, ipu, action, stage, micro-batch) of each instruction; of an instruction "
     "that is none ipu and micro-batch are -1.",
     NULL},
    {"recorded", ipu_py_program_recorded, NULL,
     "What the last execution of a pipeline recorded: (ipu, kind, stage, micro-batch, "
     "begin, end) of each action, times in ns; empty where nothing was.",
     NULL},
    {"streams", program_get_streams, NULL,
     "A dict for each stream: ipu (of a pipeline's stream; else -1), slab_bytes, "
     "peak_live_bytes, ring_bytes (of it: what routines keep for others), "
     "message_bytes, remote_bytes.",
     NULL},
    {"stats", program_get_stats, NULL,
     "A dict about the last run: steps, allocations, run_ns, infeed_wait_ns, "
     "outfeed_wait_ns.",
     NULL},
    {"flops", program_get_flops, NULL,
     "Operations of one run: bodies as often as their loops turn at most, once where "
     "that is not known.",
     NULL},
    {"bytes", program_get_bytes, NULL,
     "Bytes that the operations of one run read and write, counted as for flops.",
     NULL},
    {"input_types", program_get_inputs, NULL, "(dtype, shape) of each input.", NULL},
    {"has_queues", program_get_queues, NULL, "Whether it uses an infeed or outfeed.",
     NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

__extension__ static PyType_Slot program_slots[] = {
    {Py_tp_doc, "A compiled program, made by Trace.compile."},
    {Py_tp_dealloc, program_dealloc},
    {Py_tp_traverse, program_traverse},
    {Py_tp_methods, program_methods},
    {Py_tp_getset, program_getset},
    {0, NULL},
};

PyType_Spec ipu_py_program_spec = {
    .name = "ipu._core.Program",
    .basicsize = sizeof(ipu_py_program),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE |
             Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_HAVE_GC,
    .slots = program_slots,
};
