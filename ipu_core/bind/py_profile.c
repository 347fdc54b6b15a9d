/* SPDX-License-Identifier: MIT
 *
 * What was recorded, for Python: a profile's events as bytes, which the package reads
 * as arrays, together with the programs that they are about; and of a program that
 * records when the actions of its pipelines ran. */
#define NO_IMPORT_ARRAY
#include "base/event.h"
#include "bind/py_program.h"
#include "pipeline/schedule.h"

/* --- a profile -------------------------------------------------------------------- */

static PyObject *
profile_start(PyObject *module, PyObject *args)
{
    ipu_py_state *state = ipu_py_state_of_module(module);
    Py_ssize_t events;
    unsigned long long first_step;
    unsigned long long behind_step;
    if (!PyArg_ParseTuple(args, "nKK:profile_start", &events, &first_step,
                          &behind_step)) {
        return NULL;
    }
    PyObject *programs = PyDict_New();
    if (programs == NULL) {
        return NULL;
    }
    ipu_ctx ctx = ipu_py_ctx();
    if (ipu_recorder_start(&ctx, events < 0 ? 0 : (size_t)events, first_step,
                           behind_step) != IPU_OK) {
        Py_DECREF(programs);
        return ipu_py_raise(state, &ctx);
    }
    Py_XSETREF(state->profiled, programs);
    Py_RETURN_NONE;
}

#define X(name, text) [IPU_ROLE_##name] = #text,
static const char *const roles[] = {IPU_ROLE_LIST(X)};
#undef X

static PyObject *
tracks_of(const ipu_recording *recording)
{
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list != NULL && i < recording->count; i++) {
        const ipu_track *track = &recording->tracks[i];
        /* a thread may have been about to write its first event */
        const char *events = track->count > 0 ? (const char *)track->events : "";
        PyObject *one =
            Py_BuildValue("(siKKy#)", roles[track->role], (int)track->number,
                          (unsigned long long)track->thread,
                          (unsigned long long)track->lost, events,
                          (Py_ssize_t)(track->count * sizeof(ipu_event)));
        if (one == NULL || PyList_Append(list, one) < 0) {
            Py_CLEAR(list);
        }
        Py_XDECREF(one);
    }
    return list;
}

static PyObject *
profile_stop(PyObject *module, PyObject *Py_UNUSED(ignored))
{
    ipu_py_state *state = ipu_py_state_of_module(module);
    ipu_ctx ctx = ipu_py_ctx();
    ipu_recording recording;
    if (state->profiled == NULL) {
        PyErr_SetString(PyExc_RuntimeError, "no profile is being recorded");
        return NULL;
    }
    PyObject *programs = state->profiled;
    state->profiled = NULL;
    ipu_status status;
    Py_BEGIN_ALLOW_THREADS
    ipu_recorder_stop();
    status = ipu_recording_take(&ctx, &recording);
    Py_END_ALLOW_THREADS
    if (status != IPU_OK) {
        Py_DECREF(programs);
        return ipu_py_raise(state, &ctx);
    }
    PyObject *tracks = tracks_of(&recording);
    PyObject *result = tracks == NULL
                           ? NULL
                           : Py_BuildValue("(OOK)", tracks, programs,
                                           (unsigned long long)recording.clock_ns);
    ipu_recording_free(&ctx, &recording);
    Py_XDECREF(tracks);
    Py_DECREF(programs);
    return result;
}

static PyObject *
profile_kinds(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored))
{
#define X(name, text, what, a, b) #text,
    static const char *const kinds[] = {IPU_EVENT_LIST(X)};
#undef X
    PyObject *list = PyList_New(IPU_EVENT_KIND_COUNT);
    for (int i = 0; list != NULL && i < IPU_EVENT_KIND_COUNT; i++) {
        PyObject *name = PyUnicode_FromString(kinds[i]);
        if (name == NULL) {
            Py_CLEAR(list);
        } else {
            PyList_SET_ITEM(list, i, name);
        }
    }
    return list;
}

enum { PEAK_NS = 30 * 1000 * 1000 };

static PyObject *
peak_gflops(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored))
{
    double peak;
    Py_BEGIN_ALLOW_THREADS
    peak = ipu_peak_gflops(ipu_cpu_class_detect(), PEAK_NS);
    Py_END_ALLOW_THREADS
    return PyFloat_FromDouble(peak);
}

PyMethodDef ipu_py_profile_methods[] = {
    {"peak_gflops", peak_gflops, METH_NOARGS,
     "peak_gflops()\n--\n\nThe most multiply-adds that a core is seen to do, twice "
     "their number, in 10^9 a second. Takes a tenth of a second."},
    {"profile_start", profile_start, METH_VARARGS,
     "profile_start(events, first_step, behind_step)\n--\n\nRecords what threads do, "
     "the "
     "newest `events` spans of each, in steps from first_step on, before behind_step."},
    {"profile_stop", profile_stop, METH_NOARGS,
     "profile_stop()\n--\n\nEnds it. Returns (tracks, programs, clock_ns): for each "
     "thread (role, number, thread, lost, events), 32 bytes an event; the programs "
     "that "
     "ran by id; what reading the clock takes."},
    {"profile_kinds", profile_kinds, METH_NOARGS,
     "profile_kinds()\n--\n\nThe names of the kinds of events, by number."},
    {NULL, NULL, 0, NULL},
};

/* --- actions ---------------------------------------------------------------------- */

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

/* The number of an action among all of the program's streams; SIZE_MAX: none. */
static size_t
action_of(const ipu_program *program, uint64_t subject)
{
    size_t first = 0;
    for (uint32_t i = 0; i < program->streams.count; i++) {
        const ipu_stream *stream = &program->streams.items[i];
        if (stream->is_child) {
            size_t count = stream->instructions.count - stream->entry;
            uint64_t base = ipu_program_subject(program, i, stream->entry);
            if (subject >= base && subject - base < count) {
                return first + (size_t)(subject - base);
            }
            first += count;
        }
    }
    return SIZE_MAX;
}

/* The last time of each action, in the first replica. */
static void
find_spans(ipu_py_program *self, const ipu_recording *recording)
{
    for (size_t t = 0; t < recording->count; t++) {
        const ipu_track *track = &recording->tracks[t];
        for (size_t i = 0; i < track->count; i++) {
            const ipu_event *event = &track->events[i];
            size_t action =
                (event->length_and_kind & 0xff) == IPU_EVENT_ACTION && event->a == 0
                    ? action_of(self->program, event->subject)
                    : SIZE_MAX;
            if (action != SIZE_MAX && event->begin_ns > self->spans[action].begin_ns) {
                self->spans[action] = (ipu_py_span){
                    event->begin_ns, event->begin_ns + (event->length_and_kind >> 8)};
            }
        }
    }
}

int
ipu_py_profile_begin(ipu_py_state *state, ipu_py_program *self)
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
    size_t actions = action_count(self->program);
    if (!self->records || actions == 0) {
        return 0;
    }
    if (self->spans == NULL) {
        self->spans = PyMem_Calloc(actions, sizeof(ipu_py_span));
        if (self->spans == NULL) {
            PyErr_NoMemory();
            return -1;
        }
    }
    ipu_recorder_hold_actions(actions * ipu_executor_replicas(self->executor));
    self->holds_recorder = true;
    return 0;
}

int
ipu_py_profile_end(ipu_py_state *state, ipu_py_program *self)
{
    if (!self->holds_recorder) {
        return 0;
    }
    self->holds_recorder = false;
    ipu_ctx ctx = ipu_py_ctx();
    ipu_recording recording;
    ipu_status status = ipu_recording_take(&ctx, &recording);
    ipu_recorder_release_actions();
    if (status != IPU_OK) {
        ipu_py_raise(state, &ctx);
        return -1;
    }
    find_spans(self, &recording);
    ipu_recording_free(&ctx, &recording);
    return 0;
}

#define X(name, letter) [IPU_ACTION_##name] = letter,
static const int letters[IPU_ACTION_KIND_COUNT] = {IPU_ACTION_LIST(X)};
#undef X

PyObject *
ipu_py_program_recorded(PyObject *object, void *Py_UNUSED(closure))
{
    const ipu_py_program *self = (const ipu_py_program *)object;
    PyObject *list = PyList_New(0);
    size_t next = 0; /* the action's number */
    for (size_t s = 0;
         list != NULL && self->spans != NULL && s < self->program->streams.count; s++) {
        const ipu_stream *stream = &self->program->streams.items[s];
        for (size_t i = stream->entry;
             list != NULL && stream->is_child && i < stream->instructions.count; i++) {
            const ipu_instruction *action = &stream->instructions.items[i];
            const ipu_py_span *span = &self->spans[next++];
            if (action->kind != IPU_INSTRUCTION_ACTION || span->begin_ns == 0) {
                continue;
            }
            PyObject *one = Py_BuildValue(
                "(ICiIKK)", (unsigned)stream->ipu, letters[action->action],
                (int)action->placement.stage, (unsigned)action->micro_batch,
                (unsigned long long)span->begin_ns, (unsigned long long)span->end_ns);
            if (one == NULL || PyList_Append(list, one) < 0) {
                Py_CLEAR(list);
            }
            Py_XDECREF(one);
        }
    }
    return list;
}

/* --- instructions ----------------------------------------------------------------- */

static PyObject *
describe(const ipu_program *program, uint32_t number, size_t at)
{
    const ipu_stream *stream = &program->streams.items[number];
    const ipu_instruction *instruction = &stream->instructions.items[at];
    bool is_kernel = instruction->kind == IPU_INSTRUCTION_KERNEL ||
                     instruction->kind == IPU_INSTRUCTION_COLLECTIVE;
    bool is_action = instruction->kind == IPU_INSTRUCTION_ACTION;
    const char *kind = ipu_instruction_rows[instruction->kind].name;
    const ipu_kernel_spec *spec =
        is_kernel ? &program->specs.items[instruction->spec] : NULL;
    return Py_BuildValue("(InszzziddiCii)", (unsigned)number, (Py_ssize_t)at, kind,
                         is_kernel ? ipu_op_info_of(spec->op)->name : kind,
                         is_kernel ? spec->kernel_name : NULL, instruction->source.file,
                         (int)instruction->source.line, instruction->cost.flops,
                         instruction->cost.bytes,
                         stream->is_child ? (int)stream->ipu : -1,
                         is_action ? letters[instruction->action] : '-',
                         (int)instruction->placement.stage,
                         is_action ? (int)instruction->micro_batch : -1);
}

PyObject *
ipu_py_program_instructions(PyObject *object, void *Py_UNUSED(closure))
{
    const ipu_program *program = ((ipu_py_program *)object)->program;
    PyObject *list = PyList_New(0);
    for (uint32_t s = 0; list != NULL && s < program->streams.count; s++) {
        size_t count = program->streams.items[s].instructions.count;
        for (size_t i = 0; list != NULL && i < count; i++) {
            PyObject *one = describe(program, s, i);
            if (one == NULL || PyList_Append(list, one) < 0) {
                Py_CLEAR(list);
            }
            Py_XDECREF(one);
        }
    }
    return list;
}
