/* SPDX-License-Identifier: MIT
 *
 * Doors to each room for tests, text in and text out: graph_round_trip, graph_pass,
 * graph_gradients, graph_compile; and fail_allocation, after which one fails. */
#define NO_IMPORT_ARRAY
#include "bind/bind.h"

#include "autodiff/autodiff.h"
#include "kernels/core/kernel.h"
#include "passes/passes.h"

enum { MAX_PARAMS = 64 };

/* ipu_graph *: from its text. */
static int
graph_converter(PyObject *object, void *out)
{
    const char *text = PyUnicode_AsUTF8(object);
    ipu_ctx ctx = ipu_py_ctx();
    return text != NULL && ipu_py_is_ok(&ctx, ipu_graph_parse(&ctx, text, out));
}

/* Prints and frees the graph, or raises what happened before. */
static PyObject *
finish(ipu_ctx *ctx, ipu_graph *graph, ipu_status status)
{
    char *text = NULL;
    size_t bytes = 0;
    if (status == IPU_OK) {
        status = ipu_graph_verify(ctx, graph);
    }
    if (status == IPU_OK) {
        status = ipu_graph_print(ctx, graph, &text, &bytes);
    }
    ipu_graph_free(ctx, graph);
    return ipu_py_text(ctx, status, text, bytes);
}

static PyObject *
graph_round_trip(PyObject *Py_UNUSED(module), PyObject *argument)
{
    ipu_graph *graph;
    ipu_ctx ctx = ipu_py_ctx();
    return graph_converter(argument, &graph) ? finish(&ctx, graph, IPU_OK) : NULL;
}

static PyObject *
graph_pass(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *text;
    const char *name;
    ipu_graph *graph;
    if (!PyArg_ParseTuple(args, "Us:graph_pass", &text, &name) ||
        !graph_converter(text, &graph)) {
        return NULL;
    }
    ipu_ctx ctx = ipu_py_ctx();
    return finish(&ctx, graph, ipu_pass_run_named(&ctx, graph, name));
}

static ipu_status
add_gradients(ipu_ctx *ctx, ipu_graph *graph)
{
    ipu_value xs[MAX_PARAMS];
    ipu_value out[MAX_PARAMS];
    uint32_t count = 0;
    ipu_block main_block = {0};
    const ipu_block_data *block = ipu_block_of(graph, main_block);
    IPU_FAIL_IF(ctx, block->results.count == 0, INVALID_ARGUMENT, "no result");
    for (size_t i = 0; i < block->params.count && count < MAX_PARAMS; i++) {
        if (ipu_dtype_is_float(
                ipu_value_of(graph, block->params.items[i])->type.dtype)) {
            xs[count++] = block->params.items[i];
        }
    }
    ipu_value y = block->results.items[0];
    IPU_TRY(ipu_gradients(ctx, graph, main_block, &y, NULL, 1, xs, count, out));
    for (uint32_t i = 0; i < count; i++) {
        if (out[i].index == IPU_NO_INDEX) {
            IPU_TRY(ipu_graph_emit_fill(ctx, graph, main_block, IPU_NO_NODE,
                                        &ipu_value_of(graph, xs[i])->type, 0.0,
                                        &out[i]));
        }
        IPU_TRY(ipu_graph_add_result(ctx, graph, main_block, out[i]));
    }
    return IPU_OK;
}

static PyObject *
graph_gradients(PyObject *Py_UNUSED(module), PyObject *argument)
{
    ipu_graph *graph;
    ipu_ctx ctx = ipu_py_ctx();
    return graph_converter(argument, &graph)
               ? finish(&ctx, graph, add_gradients(&ctx, graph))
               : NULL;
}

static PyObject *
graph_compile(PyObject *module, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"text", "device", "fuse", "reference", "verify", NULL};
    PyObject *text;
    ipu_graph *graph;
    PyObject *device = Py_None;
    int fuse = 1;
    int reference = 0;
    int verify = 1;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "U|Oppp:graph_compile", names, &text,
                                     &device, &fuse, &reference, &verify) ||
        !graph_converter(text, &graph)) {
        return NULL;
    }
    PyObject *program =
        ipu_py_program_compile(ipu_py_state_of_module(module), graph, NULL, device,
                               fuse != 0, reference != 0, verify != 0, NULL);
    ipu_ctx ctx = ipu_py_ctx();
    ipu_graph_free(&ctx, graph);
    return program;
}

static PyObject *
op_names(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored))
{
    PyObject *list = PyList_New(IPU_OP_ID_COUNT);
    for (int i = 0; list != NULL && i < IPU_OP_ID_COUNT; i++) {
        const ipu_op_info *info = ipu_op_info_of((ipu_op)i);
        ipu_py_put(&list, i,
                   Py_BuildValue("(sIs)", info->name, (unsigned)info->flags,
                                 info->dtypes));
    }
    return list;
}

static PyObject *
cpu_class(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored))
{
    return PyUnicode_FromString(ipu_cpu_class_name(ipu_cpu_class_detect()));
}

/* X(function, choice, name, value, name, value, name, value) */
#define CHOICES(X) \
    X(set_regions, REGIONS, "auto", IPU_REGIONS_WHERE_FASTER, "never", \
      IPU_REGIONS_NOWHERE, "always", IPU_REGIONS_EVERYWHERE) \
    X(set_panels, PANELS, "auto", IPU_PANELS_WHERE_FASTER, "never", \
      IPU_PANELS_NOWHERE, "always", IPU_PANELS_EVERYWHERE) \
    X(set_products, PRODUCTS, "auto", IPU_KERNEL_FAST, "tiles", IPU_KERNEL_PORTABLE, \
      "blis", IPU_KERNEL_BLIS)
#define X(function, choice, a, of_a, b, of_b, c, of_c) \
    static PyObject *function(PyObject *Py_UNUSED(module), PyObject *argument) \
    { \
        static const char *const names[] = {a, b, c}; \
        static const int values[] = {of_a, of_b, of_c}; \
        return choose(argument, IPU_PY_##choice, names, values); \
    }

static PyObject *
choose(PyObject *argument, ipu_py_compile_choice what, const char *const *names,
       const int *values)
{
    for (int i = 0; i < 3; i++) {
        if (PyUnicode_Check(argument) &&
            PyUnicode_CompareWithASCIIString(argument, names[i]) == 0) {
            ipu_py_program_choose(what, values[i]);
            Py_RETURN_NONE;
        }
    }
    return PyErr_Format(PyExc_ValueError, "expected '%s', '%s' or '%s', but got %R",
                        names[0], names[1], names[2], argument);
}
CHOICES(X)
#undef X

/* --- allocations that fail ------------------------------------------------------- */

enum { DOMAINS = 2 };
static const PyMemAllocatorDomain domains[DOMAINS] = {PYMEM_DOMAIN_MEM,
                                                      PYMEM_DOMAIN_OBJ};
static PyMemAllocatorEx real[DOMAINS]; /* Python's own */

static void *
py_malloc(void *own, size_t bytes)
{
    PyMemAllocatorEx *heap = own;
    return ipu_allocation_fails() ? NULL : heap->malloc(heap->ctx, bytes);
}

static void *
py_calloc(void *own, size_t count, size_t bytes)
{
    PyMemAllocatorEx *heap = own;
    return ipu_allocation_fails() ? NULL : heap->calloc(heap->ctx, count, bytes);
}

static void *
py_realloc(void *own, void *pointer, size_t bytes)
{
    PyMemAllocatorEx *heap = own;
    return ipu_allocation_fails() ? NULL : heap->realloc(heap->ctx, pointer, bytes);
}

static void
py_free(void *own, void *pointer)
{
    PyMemAllocatorEx *heap = own;
    heap->free(heap->ctx, pointer);
}

static PyObject *
fail_allocation(PyObject *Py_UNUSED(module), PyObject *args)
{
    long long nth;
    int with_python;
    if (!PyArg_ParseTuple(args, "Lp:fail_allocation", &nth, &with_python)) {
        return NULL;
    }
    int64_t counted = ipu_allocation_fail(0);
    for (int i = 0; i < DOMAINS; i++) {
        if (real[i].malloc == NULL) {
            PyMem_GetAllocator(domains[i], &real[i]);
        }
        PyMemAllocatorEx failing = {&real[i], py_malloc, py_calloc, py_realloc,
                                    py_free};
        PyMem_SetAllocator(domains[i], nth != 0 && with_python ? &failing : &real[i]);
    }
    PyObject *result = PyLong_FromLongLong(counted);
    (void)ipu_allocation_fail(nth);
    return result;
}

PyMethodDef ipu_py_testing_methods[] = {
    {"fail_allocation", fail_allocation, METH_VARARGS,
     "Let the nth allocation from here on fail, once: the core's, and with a true second "
     "argument Python's; 0: none. Returns how many there were since the last call."},
    {"graph_round_trip", graph_round_trip, METH_O,
     "Parses, verifies and prints a graph."},
    {"graph_pass", graph_pass, METH_VARARGS, "The graph after one pass."},
    {"graph_gradients", graph_gradients, METH_O,
     "The graph with d sum(result 0) / d each float parameter as further results."},
    {"graph_compile", IPU_PY_FUNCTION(graph_compile), METH_VARARGS | METH_KEYWORDS,
     "A Program of the graph, verified after each pass unless that is left out."},
    {"set_regions", set_regions, METH_O,
     "Whether programs that are compiled from now on have regions: 'auto', 'never' or "
     "'always'."},
    {"set_panels", set_panels, METH_O,
     "Whether programs that are compiled from now on keep weights in panels: 'auto', "
     "'never' or 'always'."},
    {"set_products", set_products, METH_O,
     "Choose the kernels of products in programs that are compiled from now on: "
     "'auto', our own 'tiles', or 'blis'."},
    {"op_table", op_names, METH_NOARGS, "(name, flags, dtype rule) of each op."},
    {"cpu_class", cpu_class, METH_NOARGS, "The CPU class that kernels are chosen for."},
    {NULL, NULL, 0, NULL},
};
