/* SPDX-License-Identifier: MIT
 *
 * ipu._core.Program: a compiled program bound to a device. */
#define NO_IMPORT_ARRAY
#include "bind/bind.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/lock.h"
#include "base/service.h"
#include "passes/passes.h"
#include "pipeline/schedule.h"

typedef struct py_program {
    PyObject_HEAD
    ipu_program *program;
    ipu_executor *executor; /* made at the first run, and again after a rest */
    PyObject *device;       /* Device or None */
    PyObject *held;         /* keeps the tensors that the program reads; may be NULL */
    PyObject *name;         /* str or None: of what it was made of */
    PyObject *account;      /* a dict, or None */
    ipu_lock lock;          /* protects: is_running */
    pthread_cond_t ended;
    bool is_running;        /* by a thread, which executor, stats and spans belong to */
    bool records;           /* when actions run */
    ipu_run_stats stats;    /* of the last run */
    ipu_action_span *spans; /* per action; NULL: nothing was recorded */
} py_program;

const ipu_program *
ipu_py_program_of(PyObject *program)
{
    return ((py_program *)program)->program;
}

static void
forget_threads(void *owner)
{
    py_program *self = owner;
    ipu_cond_init(&self->ended);
    if (self->is_running) { /* the thread may have been anywhere in it */
        self->executor = NULL;
    }
    self->is_running = false;
}

static ipu_status
check_device(ipu_ctx *ctx, const py_program *self, ipu_device_wait *wait)
{
    return self->device == Py_None
               ? IPU_OK
               : ipu_device_check_wait(ctx, ipu_py_device_of(self->device), wait);
}

/* Waits until no other thread runs the program. */
static ipu_status
wait_for_others(ipu_ctx *ctx, py_program *self)
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
end_run(py_program *self)
{
    ipu_lock_take(&self->lock);
    self->is_running = false;
    pthread_cond_signal(&self->ended);
    ipu_lock_drop(&self->lock);
}

/* From here to the end of the run the executor is the thread's; -1 with an exception.
 */
static int
begin_run(py_program *self)
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
    return ipu_py_is_ok(&ctx, status) && !is_interrupted ? 0 : -1;
}

/* How programs are compiled from now on. */
static atomic_int choices[] = {
    [IPU_PY_REGIONS] = IPU_REGIONS_WHERE_FASTER,
    [IPU_PY_PANELS] = IPU_PANELS_WHERE_FASTER,
    [IPU_PY_PRODUCTS] = IPU_KERNEL_FAST,
};

void
ipu_py_program_choose(ipu_py_compile_choice what, int value)
{
    atomic_store(&choices[what], value);
}

/* The kernels of a program for `device`, which may be None. */
static ipu_kernel_variant
variant_for(PyObject *device, bool reference)
{
    bool portable = device != Py_None && ipu_py_device_is_portable(device);
    return reference  ? IPU_KERNEL_REFERENCE
           : portable ? IPU_KERNEL_PORTABLE
                      : (ipu_kernel_variant)atomic_load(&choices[IPU_PY_PRODUCTS]);
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
                       PyObject *device, bool fuse, bool reference, bool verify,
                       ipu_py_account_request *request)
{
    if (device != Py_None && !PyObject_TypeCheck(device, state->device_type)) {
        PyErr_Format(PyExc_TypeError, "expected a Device or None, but got %R", device);
        return NULL;
    }
    py_program *self =
        (py_program *)state->program_type->tp_alloc(state->program_type, 0);
    if (self == NULL) {
        return NULL;
    }
    ipu_lock_init(&self->lock, forget_threads, self);
    ipu_cond_init(&self->ended);
    self->device = Py_NewRef(device);
    self->held = Py_XNewRef(held);
    self->name = Py_NewRef(Py_None);
    if (request != NULL) {
        request->plans = state->plans;
    }
    ipu_ctx ctx = ipu_py_ctx();
    ipu_float_behaviour behaviour = {0};
    if (device != Py_None && !graph->host) {
        behaviour = *ipu_py_device_behaviour(device);
        graph->bucket_bytes = ipu_py_device_bucket_bytes(device);
    }
    graph->rounding = behaviour.rounding;
    graph->ipus = device == Py_None || graph->host ? 0 : ipu_py_device_all_ipus(device);
    ipu_passes_options passes = {.verify = verify,
                                 .fuse = fuse && !is_looked_at(graph, &behaviour),
                                 .read = request == NULL ? NULL : ipu_py_account_read,
                                 .reader = request};
    ipu_compile_options options = {
        .variant = variant_for(device, reference),
        .cpu = ipu_cpu_class_detect(),
        .verify = verify,
        .behaviour = behaviour,
        .regions = (ipu_region_choice)atomic_load(&choices[IPU_PY_REGIONS]),
        .panels = (ipu_panel_choice)atomic_load(&choices[IPU_PY_PANELS])};
    ipu_status status;
    Py_BEGIN_ALLOW_THREADS
    status = ipu_passes_run(&ctx, graph, &passes);
    if (status == IPU_OK) {
        status = ipu_program_create(&ctx, graph, &options, &self->program);
    }
    Py_END_ALLOW_THREADS
    PyObject *account = request == NULL ? NULL : request->found;
    self->account = account == NULL ? Py_NewRef(Py_None) : account;
    if (!ipu_py_is_ok(&ctx, status)) {
        Py_CLEAR(self);
    }
    return (PyObject *)self;
}

/* What it holds outlives a run: the executor reads it. Those who hold the program are
 * cleared, not the program. */
static int
program_traverse(PyObject *object, visitproc visit, void *arg)
{
    py_program *self = (py_program *)object;
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(self->device);
    Py_VISIT(self->held);
    Py_VISIT(self->name);
    Py_VISIT(self->account);
    return 0;
}

static void
program_dealloc(PyObject *object)
{
    py_program *self = (py_program *)object;
    PyObject_GC_UnTrack(object);
    ipu_ctx ctx = ipu_py_ctx();
    ipu_executor_free(&ctx, self->executor);
    ipu_program_free(&ctx, self->program);
    Py_XDECREF(self->device);
    Py_XDECREF(self->held);
    Py_XDECREF(self->name);
    Py_XDECREF(self->account);
    PyMem_Free(self->spans);
    ipu_lock_destroy(&self->lock);
    pthread_cond_destroy(&self->ended);
    ipu_py_free(object);
}

/* --- when actions ran ------------------------------------------------------------ */

static size_t
action_count(const ipu_program *program)
{
    size_t count = 0;
    for (size_t i = 0; i < program->streams.count; i++) {
        const ipu_stream *stream = &program->streams.items[i];
        count += stream->is_child ? stream->instructions.count - stream->entry : 0;
    }
    return count;
}

/* A run of the program begins; returns -1 with an exception. */
static int
begin_recording(ipu_py_state *state, py_program *self)
{
    if (state->profiled != NULL) {
        PyObject *id = PyLong_FromUnsignedLong(self->program->id & 0xffffff);
        int added =
            id == NULL ? -1 : PyDict_SetItem(state->profiled, id, (PyObject *)self);
        Py_XDECREF(id);
        if (added < 0) {
            return -1;
        }
    }
    if (self->records && self->spans == NULL) {
        self->spans =
            PyMem_Calloc(action_count(self->program) + 1, sizeof(*self->spans));
        if (self->spans == NULL) {
            PyErr_NoMemory();
            return -1;
        }
    }
    ipu_executor_set_spans(self->executor, self->records ? self->spans : NULL);
    return 0;
}

/* --- running --------------------------------------------------------------------- */

typedef struct run_buffers {
    PyObject *inputs;  /* tuple: arrays or tensors that hold the bytes */
    PyObject *outputs; /* list of tensors */
    const void **input_data;
    bool *is_tensor; /* of inputs: it cannot change, and has slack */
    void **output_data;
} run_buffers;

static void
release_buffers(run_buffers *b)
{
    Py_XDECREF(b->inputs);
    Py_XDECREF(b->outputs);
    PyMem_Free(b->input_data);
    PyMem_Free(b->is_tensor);
    PyMem_Free(b->output_data);
}

/* What holds the bytes of an input: the tensor itself, or an array (new reference). */
static PyObject *
take_input(ipu_py_state *state, PyObject *item, const ipu_type *type, const void **data,
           bool *is_tensor)
{
    *is_tensor = ipu_py_is_tensor(state, item) &&
                 ((ipu_py_tensor *)item)->storage != NULL &&
                 ipu_type_equal(&((ipu_py_tensor *)item)->type, type);
    if (*is_tensor) {
        *data = ipu_py_tensor_data((ipu_py_tensor *)item);
        return Py_NewRef(item);
    }
    PyObject *array = ipu_py_as_array(item, type);
    *data = array == NULL ? NULL : ipu_py_array_data(array);
    return array;
}

static int
make_buffers(ipu_py_state *state, run_buffers *b, const ipu_program *program,
             PyObject *inputs)
{
    uint32_t input_count = program->input_count;
    uint32_t output_count = program->output_count;
    PyObject *items = PySequence_Tuple(inputs);
    if (items == NULL) {
        return -1;
    }
    if (PyTuple_GET_SIZE(items) != (Py_ssize_t)input_count) {
        PyErr_Format(PyExc_ValueError, "the program takes %u inputs, but got %zd",
                     input_count, PyTuple_GET_SIZE(items));
        Py_DECREF(items);
        return -1;
    }
    b->inputs = PyTuple_New(input_count);
    b->outputs = PyList_New(output_count);
    b->input_data = PyMem_Calloc(input_count + 1, sizeof(void *));
    b->is_tensor = PyMem_Calloc(input_count + 1, sizeof(bool));
    b->output_data = PyMem_Calloc(output_count + 1, sizeof(void *));
    if (b->input_data == NULL || b->is_tensor == NULL || b->output_data == NULL) {
        PyErr_NoMemory();
        Py_CLEAR(b->inputs);
    }
    for (uint32_t i = 0; b->inputs != NULL && i < input_count; i++) {
        ipu_py_put(&b->inputs, i,
                   take_input(state, PyTuple_GET_ITEM(items, i), &program->inputs[i],
                              &b->input_data[i], &b->is_tensor[i]));
    }
    for (uint32_t i = 0; b->inputs != NULL && b->outputs != NULL && i < output_count;
         i++) {
        ipu_py_tensor *tensor = ipu_py_tensor_new(state, &program->outputs[i]);
        b->output_data[i] = tensor == NULL ? NULL : ipu_py_tensor_data(tensor);
        ipu_py_put(&b->outputs, i, (PyObject *)tensor);
    }
    Py_DECREF(items);
    return b->inputs == NULL || b->outputs == NULL ? -1 : 0;
}

static int
make_executor(py_program *self)
{
    if (self->executor != NULL) {
        return 0;
    }
    ipu_ctx ctx = ipu_py_ctx();
    ipu_device *device =
        self->device == Py_None ? NULL : ipu_py_device_of(self->device);
    return ipu_py_is_ok(&ctx, ipu_executor_create(&ctx, self->program, device, NULL,
                                                  &self->executor))
               ? 0
               : -1;
}

static PyObject *
run_failed(ipu_ctx *ctx)
{
    if (ctx->status == IPU_STATUS_INTERRUPTED && PyErr_CheckSignals() == 0) {
        /* the program's own SIGINT handler chose not to raise: the run has still ended
         */
        PyErr_SetNone(PyExc_KeyboardInterrupt);
    }
    return ipu_py_raise(ctx);
}

static PyObject *
program_run(PyObject *object, PyObject *inputs)
{
    py_program *self = (py_program *)object;
    ipu_py_state *state = ipu_py_state_of(self);
    run_buffers buffers = {0};
    ipu_pool *pool;
    if (make_buffers(state, &buffers, self->program, inputs) < 0 ||
        ipu_py_pool(state, &pool) < 0 || begin_run(self) < 0) {
        release_buffers(&buffers);
        return NULL;
    }
    ipu_ctx ctx = ipu_py_ctx();
    ipu_status status = IPU_STATUS_PYTHON;
    if (make_executor(self) == 0 && begin_recording(state, self) == 0) {
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
    }
    end_run(self);
    PyObject *result = status == IPU_OK ? Py_NewRef(buffers.outputs) : run_failed(&ctx);
    release_buffers(&buffers);
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
    py_program *self = (py_program *)object;
    if (slab_bytes(self->program) > MOST_AT_REST) {
        if (begin_run(self) < 0) {
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
text_of(const py_program *self)
{
    ipu_ctx ctx = ipu_py_ctx();
    char *text;
    size_t bytes;
    ipu_status status = ipu_program_print(&ctx, self->program, &text, &bytes);
    return ipu_py_text(&ctx, status, text, bytes);
}

static PyObject *
memory_report(const ipu_program *program)
{
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
streams_of(const ipu_program *program)
{
    PyObject *list = PyList_New(0);
    for (uint32_t i = 0; list != NULL && i < program->streams.count; i++) {
        const ipu_stream *stream = &program->streams.items[i];
        ipu_stream_bytes bytes = ipu_program_stream_bytes(program, i);
        ipu_py_append(&list, Py_BuildValue("{s:i,s:n,s:n,s:n,s:n,s:n}", "ipu",
                                           stream->is_child ? (int)stream->ipu : -1,
                                           "slab_bytes", (Py_ssize_t)bytes.slab,
                                           "peak_live_bytes", (Py_ssize_t)bytes.peak,
                                           "ring_bytes", (Py_ssize_t)bytes.rings,
                                           "message_bytes", (Py_ssize_t)bytes.messages,
                                           "remote_bytes", (Py_ssize_t)bytes.remote));
    }
    return list;
}

static PyObject *
stats_of(const ipu_run_stats *s)
{
    return Py_BuildValue("{s:K,s:K,s:K,s:K,s:K,s:K}", "steps", s->steps, "allocations",
                         s->allocations, "run_ns", s->run_ns, "infeed_wait_ns",
                         s->infeed_wait_ns, "outfeed_wait_ns", s->outfeed_wait_ns,
                         "peer_wait_ns", s->peer_wait_ns);
}

static bool
has_queues(const ipu_program *program)
{
    bool found = false;
    for (size_t i = 0; i < program->resources.count; i++) {
        found |= program->resources.items[i].kind != IPU_RESOURCE_VARIABLE;
    }
    return found;
}

static PyObject *
replicas_of(const py_program *self)
{
    const ipu_device *device =
        self->device == Py_None ? NULL : ipu_py_device_of(self->device);
    ipu_ctx ctx = ipu_py_ctx();
    uint32_t replicas;
    return ipu_py_is_ok(&ctx,
                        ipu_program_replicas(&ctx, self->program, device, &replicas))
               ? PyLong_FromUnsignedLong(replicas)
               : NULL;
}

#define X(name, letter) [IPU_ACTION_##name] = letter,
static const int letters[IPU_ACTION_KIND_COUNT] = {IPU_ACTION_LIST(X)};
#undef X

static PyObject *
recorded(const py_program *self)
{
    PyObject *list = PyList_New(0);
    size_t next = 0; /* the action's number */
    for (size_t s = 0;
         list != NULL && self->spans != NULL && s < self->program->streams.count; s++) {
        const ipu_stream *stream = &self->program->streams.items[s];
        for (size_t i = stream->entry;
             list != NULL && stream->is_child && i < stream->instructions.count; i++) {
            const ipu_instruction *action = &stream->instructions.items[i];
            const ipu_action_span *ran = &self->spans[next++];
            if (action->kind == IPU_INSTRUCTION_ACTION && ran->begin_ns != 0) {
                ipu_py_append(&list, Py_BuildValue("(ICiIKK)", (unsigned)stream->ipu,
                                                   letters[action->action],
                                                   (int)action->placement.stage,
                                                   (unsigned)action->micro_batch,
                                                   (unsigned long long)ran->begin_ns,
                                                   (unsigned long long)ran->end_ns));
            }
        }
    }
    return list;
}

static PyObject *
describe(const ipu_program *program, uint32_t number, size_t at)
{
    const ipu_stream *stream = &program->streams.items[number];
    const ipu_instruction *instruction = &stream->instructions.items[at];
    ipu_operands inputs = ipu_instruction_rows[instruction->kind].inputs;
    bool is_kernel = inputs == IPU_OPERANDS_SPEC || inputs == IPU_OPERANDS_SPECS;
    bool is_action = instruction->kind == IPU_INSTRUCTION_ACTION;
    const char *kind = ipu_instruction_rows[instruction->kind].name;
    const ipu_kernel_spec *spec =
        is_kernel ? &program->specs.items[instruction->spec] : NULL;
    bool has_channel = instruction->kind == IPU_INSTRUCTION_SEND ||
                       instruction->kind == IPU_INSTRUCTION_RECEIVE;
    bool has_meeting = inputs == IPU_OPERANDS_SPECS;
    const ipu_channel *channel =
        has_channel ? &program->channels.items[instruction->channel] : NULL;
    return Py_BuildValue("(InszzziddiCiiiii)", (unsigned)number, (Py_ssize_t)at, kind,
                         is_kernel ? ipu_op_info_of(spec->op)->name : kind,
                         is_kernel ? spec->kernel_name : NULL, instruction->source.file,
                         (int)instruction->source.line, instruction->cost.flops,
                         instruction->cost.bytes,
                         stream->is_child ? (int)stream->ipu : -1,
                         is_action ? letters[instruction->action] : '-',
                         (int)instruction->placement.stage,
                         is_action ? (int)instruction->micro_batch : -1,
                         has_channel ? (int)instruction->channel : -1,
                         has_channel ? (int)channel->depth : 0,
                         has_meeting ? (int)instruction->meeting : -1);
}

static PyObject *
instructions_of(const ipu_program *program)
{
    PyObject *list = PyList_New(0);
    for (uint32_t s = 0; list != NULL && s < program->streams.count; s++) {
        size_t count = program->streams.items[s].instructions.count;
        for (size_t i = 0; list != NULL && i < count; i++) {
            ipu_py_append(&list, describe(program, s, i));
        }
    }
    return list;
}

static int
set_records(PyObject *object, PyObject *value, void *Py_UNUSED(closure))
{
    int on = value == NULL ? 0 : PyObject_IsTrue(value);
    ((py_program *)object)->records = on > 0;
    return on < 0 ? -1 : 0;
}

static int
set_name(PyObject *object, PyObject *value, void *Py_UNUSED(closure))
{
    if (value == NULL || !PyUnicode_Check(value)) {
        PyErr_SetString(PyExc_TypeError, "a program's name is a str");
        return -1;
    }
    Py_XSETREF(((py_program *)object)->name, Py_NewRef(value));
    return 0;
}

#define ATTRIBUTES(X, T) \
    X(T, replicas, replicas_of(self), NULL, \
      "How many replicas of it fill its device; an error unless that is a whole " \
      "number.") \
    X(T, text, text_of(self), NULL, "The disassembly.") \
    X(T, memory_report, memory_report(self->program), NULL, \
      "A dict: slab_bytes, peak_live_bytes, peak_at (instruction of the first " \
      "stream), " \
      "constant_bytes, workspace_bytes (of each worker).") \
    X(T, records, PyBool_FromLong(self->records), set_records, \
      "Whether the next runs record when a pipeline's actions ran.") \
    X(T, id, PyLong_FromUnsignedLong(self->program->id & 0xffffff), NULL, \
      "What its events are known by.") \
    X(T, name, Py_NewRef(self->name), set_name, \
      "The name of what it was made of, or None.") \
    X(T, instructions, instructions_of(self->program), NULL, \
      "What its events are about: (stream, number, kind, op, kernel, file, line, " \
      "flops, bytes, ipu, action, stage, micro-batch) of each instruction; of one " \
      "that " \
      "is none ipu and micro-batch are -1.") \
    X(T, recorded, recorded(self), NULL, \
      "What the last execution of a pipeline recorded: (ipu, kind, stage, " \
      "micro-batch, begin, end) of each action, times in ns; empty where nothing " \
      "was.") \
    X(T, streams, streams_of(self->program), NULL, \
      "A dict for each stream: ipu (of a pipeline's stream; else -1), slab_bytes, " \
      "peak_live_bytes, ring_bytes (of it: what routines keep for others), " \
      "message_bytes, remote_bytes.") \
    X(T, stats, stats_of(&self->stats), NULL, \
      "A dict about the last run: steps, allocations, run_ns, infeed_wait_ns, " \
      "outfeed_wait_ns, peer_wait_ns.") \
    X(T, account, Py_NewRef(self->account), NULL, \
      "What it would cost on the IPU that it was compiled for, if it does not fit " \
      "there or somebody asked; else None.") \
    X(T, flops, PyFloat_FromDouble(ipu_program_cost(self->program).flops), NULL, \
      "Operations of one run, without pipelines: bodies as often as their loops " \
      "turn at most, once where that is not known.") \
    X(T, bytes, PyFloat_FromDouble(ipu_program_cost(self->program).bytes), NULL, \
      "Bytes that the operations of one run read and write, counted as for flops.") \
    X(T, input_types, \
      ipu_py_type_list(self->program->inputs, self->program->input_count), NULL, \
      "(dtype, shape) of each input.") \
    X(T, has_queues, PyBool_FromLong(has_queues(self->program)), NULL, \
      "Whether it uses an infeed, an outfeed or a function of the host's.")
IPU_PY_ATTRIBUTES(py_program, ATTRIBUTES);

static PyMethodDef program_methods[] = {
    {"rest", program_rest, METH_NOARGS,
     "Frees the memory that a run makes anew, where it is much."},
    {"run", program_run, METH_O,
     "Runs the program once; returns its outputs as a list of tensors."},
    {NULL, NULL, 0, NULL},
};

IPU_PY_TYPE(program, "Program", py_program,
            Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_HAVE_GC,
            {Py_tp_doc, "A compiled program, made by Trace.compile."},
            {Py_tp_dealloc, program_dealloc}, {Py_tp_traverse, program_traverse},
            {Py_tp_methods, program_methods}, {Py_tp_getset, py_program_getset});
