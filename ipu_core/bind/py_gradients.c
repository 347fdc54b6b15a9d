/* SPDX-License-Identifier: MIT
 *
 * Trace.gradients: derivatives in the graph of a function that is being traced.
 *
 * A tensor is one value of the graph; a variable, given by its id, is all reads of it
 * that can be seen from the open block: its gradient is the sum of theirs, last one
 * first. Gradient functions of the user's are called on the way, with the trace open at
 * the block that their nodes belong to. One thread traces one function. */
#define NO_IMPORT_ARRAY
#include "bind/gradient_request.h"

typedef struct variable_read {
    ipu_value value;
    uint32_t next; /* of the same variable, plus 1; 0: none */
} variable_read;

typedef struct request {
    ipu_py_state *state;
    PyObject *object; /* the trace, borrowed */
    PyObject *custom; /* function(index, gradients, wanted), or None; borrowed */
    ipu_trace *trace;
    ipu_py_gradient_request asked; /* its places: after the last of `xs` of an x */
    bool has_scope;
    bool knows_reads;
    IPU_ARRAY(variable_read) reads;
    ipu_id_map first_reads; /* by the id of the variable: in reads, plus 1 */
    ipu_id_map last_reads;
} request;

static int
push(request *r, ipu_py_values *array, ipu_value value)
{
    ipu_ctx *ctx = &r->asked.ctx;
    return ipu_py_is_ok(ctx, IPU_ARRAY_PUSH(ctx, array, value)) ? 0 : -1;
}

/* Notes the reads of variables among nodes [begin, end), which can be seen. */
static ipu_status
note_reads(request *r, uint32_t begin, uint32_t end)
{
    const ipu_graph *graph = r->trace->graph;
    ipu_ctx *ctx = &r->asked.ctx;
    for (uint32_t n = begin; n < end && n < graph->nodes.count; n++) {
        const ipu_node_data *node = &graph->nodes.items[n];
        if (node->op != IPU_OP_ID_VARIABLE_READ ||
            !ipu_trace_reaches(r->trace, ipu_node_output(node, 0))) {
            continue;
        }
        int64_t resource = ipu_attrs_int(node->attrs, IPU_ATTR_RESOURCE, -1);
        uint64_t id = (uint64_t)graph->resources.items[resource].id;
        variable_read read = {ipu_node_output(node, 0), 0};
        IPU_TRY(IPU_ARRAY_PUSH(ctx, &r->reads, read));
        uint32_t place = (uint32_t)r->reads.count;
        uint32_t before = ipu_id_map_get(&r->last_reads, id, 0);
        if (before > 0) {
            r->reads.items[before - 1].next = place;
        } else {
            IPU_TRY(ipu_id_map_put(ctx, &r->first_reads, id, place));
        }
        IPU_TRY(ipu_id_map_put(ctx, &r->last_reads, id, place));
    }
    return IPU_OK;
}

/* Of all variables at once, when one is asked for: in the spans, if there are any. */
static ipu_status
find_reads(request *r)
{
    const uint32_t *spans = r->asked.spans.items;
    if (r->knows_reads) {
        return IPU_OK;
    }
    r->knows_reads = true;
    for (size_t i = 0; i + 1 < r->asked.spans.count; i += 2) {
        IPU_TRY(note_reads(r, spans[i], spans[i + 1]));
    }
    return r->has_scope ? IPU_OK : note_reads(r, 0, UINT32_MAX);
}

/* The reads of a variable that count. */
static int
push_reads(request *r, PyObject *number, ipu_py_values *array)
{
    long long id;
    if (!PyArg_Parse(number, "L", &id) || !ipu_py_is_ok(&r->asked.ctx, find_reads(r))) {
        return -1;
    }
    uint32_t at = ipu_id_map_get(&r->first_reads, (uint64_t)id, 0);
    for (; at > 0; at = r->reads.items[at - 1].next) {
        if (push(r, array, r->reads.items[at - 1].value) < 0) {
            return -1;
        }
    }
    return 0;
}

static int
value_of(request *r, PyObject *item, ipu_value *out)
{
    ipu_py_tensor *tensor = ipu_py_as_tensor(r->state, item, -1);
    int result = tensor == NULL ? -1 : ipu_py_trace_value(r->state, tensor, out);
    Py_XDECREF(tensor);
    return result;
}

/* A list of the call: gradients may be None, sources may be the ids of variables. */
typedef enum list_kind { TARGETS, GRADIENTS, SOURCES } list_kind;

/* Appends what an entry stands for. */
static int
push_item(request *r, PyObject *item, list_kind kind, ipu_py_values *array)
{
    if (item == Py_None) {
        return kind == GRADIENTS ? push(r, array, IPU_NO_VALUE) : 0;
    }
    if (PyLong_Check(item) && kind == SOURCES) {
        return push_reads(r, item, array);
    }
    if (PyLong_Check(item)) {
        PyErr_Format(PyExc_TypeError, "expected a tensor, but got %R", item);
        return -1;
    }
    ipu_value value;
    return value_of(r, item, &value) < 0 ? -1 : push(r, array, value);
}

static int
push_all(request *r, PyObject *list, list_kind kind, ipu_py_values *array,
         ipu_py_indices *ends)
{
    ipu_ctx *ctx = &r->asked.ctx;
    PyObject *items = PySequence_Tuple(list);
    int result = items == NULL ? -1 : 0;
    for (Py_ssize_t i = 0; result == 0 && i < PyTuple_GET_SIZE(items); i++) {
        result = push_item(r, PyTuple_GET_ITEM(items, i), kind, array);
        if (result == 0 && ends != NULL) {
            uint32_t end = (uint32_t)array->count;
            result = ipu_py_is_ok(ctx, IPU_ARRAY_PUSH(ctx, ends, end)) ? 0 : -1;
        }
    }
    Py_XDECREF(items);
    return result;
}

/* The sum of the gradients that exist among `values`, last one first. */
static ipu_status
sum_gradients(request *r, const ipu_value *values, uint32_t count, ipu_value *out)
{
    *out = IPU_NO_VALUE;
    for (uint32_t i = count; i > 0; i--) {
        if (values[i - 1].index == IPU_NO_INDEX) {
            continue;
        }
        if (out->index == IPU_NO_INDEX) {
            *out = values[i - 1];
            continue;
        }
        ipu_value terms[2] = {*out, values[i - 1]};
        IPU_TRY(ipu_graph_emit(&r->asked.ctx, r->trace->graph,
                               ipu_trace_block(r->trace), IPU_NO_NODE, IPU_OP_ID_ADD,
                               terms, 2, NULL, 0, out));
    }
    return IPU_OK;
}

static PyObject *
symbolic(const request *r, ipu_value value)
{
    return (PyObject *)ipu_py_tensor_symbolic(r->state, r->object, value);
}

/* What the user's function gives, as values. */
static int
take_results(request *r, PyObject *given, const ipu_custom_gradient *call)
{
    PyObject *items = given == NULL ? NULL : PySequence_Tuple(given);
    int result = items == NULL ? -1 : 0;
    if (result == 0 && PyTuple_GET_SIZE(items) != (Py_ssize_t)call->result_count) {
        PyErr_Format(PyExc_ValueError, "a gradient function gave %zd values for %u",
                     PyTuple_GET_SIZE(items), call->result_count);
        result = -1;
    }
    for (uint32_t i = 0; result == 0 && i < call->result_count; i++) {
        PyObject *item = PyTuple_GET_ITEM(items, i);
        result = item == Py_None ? 0 : value_of(r, item, &call->results[i]);
    }
    Py_XDECREF(items);
    return result;
}

static ipu_status
call_custom(ipu_ctx *ctx, void *state, const ipu_custom_gradient *call)
{
    request *r = state;
    IPU_TRY(ipu_trace_enter(ctx, r->trace, call->block, call->home));
    PyObject *grads = PyList_New(call->grad_count);
    for (uint32_t i = 0; grads != NULL && i < call->grad_count; i++) {
        bool is_reached = call->grads[i].index != IPU_NO_INDEX;
        ipu_py_put(&grads, i,
                   is_reached ? symbolic(r, call->grads[i]) : Py_NewRef(Py_None));
    }
    PyObject *wanted = PyList_New(call->result_count);
    for (uint32_t i = 0; wanted != NULL && i < call->result_count; i++) {
        ipu_py_put(&wanted, i, PyBool_FromLong(call->is_wanted[i]));
    }
    PyObject *given =
        grads == NULL || wanted == NULL
            ? NULL
            : PyObject_CallFunction(r->custom, "LOO", (long long)call->index, grads,
                                    wanted);
    int result = take_results(r, given, call);
    Py_XDECREF(given);
    Py_XDECREF(wanted);
    Py_XDECREF(grads);
    ipu_trace_leave(r->trace);
    return result < 0 ? IPU_STATUS_PYTHON : IPU_OK;
}

static int
differentiate(request *r)
{
    ipu_gradient_scope scope = {.custom = r->custom == Py_None ? NULL : call_custom,
                                .custom_state = r};
    return ipu_py_gradient_request_run(&r->asked, r->trace->graph,
                                       ipu_trace_block(r->trace),
                                       r->has_scope ? &scope : NULL);
}

static PyObject *
results(request *r)
{
    const ipu_py_indices *ends = &r->asked.places;
    PyObject *list = PyList_New((Py_ssize_t)ends->count);
    uint32_t begin = 0;
    for (size_t i = 0; list != NULL && i < ends->count; i++) {
        const ipu_value *of_reads = r->asked.out.items + begin;
        uint32_t count = ends->items[i] - begin;
        ipu_value sum;
        bool is_ok =
            ipu_py_is_ok(&r->asked.ctx, sum_gradients(r, of_reads, count, &sum));
        ipu_py_put(&list, (Py_ssize_t)i,
                   !is_ok                      ? NULL
                   : sum.index == IPU_NO_INDEX ? Py_NewRef(Py_None)
                                               : symbolic(r, sum));
        begin = ends->items[i];
    }
    return list;
}

PyObject *
ipu_py_trace_gradients(PyObject *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"ys",      "grad_ys", "xs",    "spans",
                            "watched", "custom",  "stops", NULL};
    PyObject *ys;
    PyObject *grads;
    PyObject *xs;
    PyObject *spans = Py_None;
    PyObject *watched = Py_None;
    PyObject *custom = Py_None;
    PyObject *stops = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OOO|OOOO:gradients", names, &ys,
                                     &grads, &xs, &spans, &watched, &custom, &stops)) {
        return NULL;
    }
    request r = {.state = ipu_py_state_of(self),
                 .object = self,
                 .custom = custom,
                 .trace = ipu_py_trace_of(self),
                 .asked = {.ctx = ipu_py_ctx()},
                 .has_scope = spans != Py_None};
    ipu_py_gradient_request *asked = &r.asked;
    PyObject *result = NULL;
    if ((!r.has_scope || ipu_py_gradient_request_spans(asked, spans) == 0) &&
        push_all(&r, ys, TARGETS, &asked->ys, NULL) == 0 &&
        push_all(&r, grads, GRADIENTS, &asked->grads, NULL) == 0 &&
        push_all(&r, xs, SOURCES, &asked->xs, &asked->places) == 0 &&
        (watched == Py_None ||
         push_all(&r, watched, SOURCES, &asked->watched, NULL) == 0) &&
        (stops == Py_None || push_all(&r, stops, SOURCES, &asked->stops, NULL) == 0) &&
        differentiate(&r) == 0) {
        result = results(&r);
    }
    IPU_ARRAY_FREE(&asked->ctx, &r.reads);
    ipu_id_map_free(&asked->ctx, &r.first_reads);
    ipu_id_map_free(&asked->ctx, &r.last_reads);
    ipu_py_gradient_request_free(asked);
    return result;
}
