/* SPDX-License-Identifier: MIT
 *
 * Doors to each room for tests, text in and text out: graph_verify, graph_round_trip,
 * graph_pass, graph_gradients, graph_program, graph_run. */
#define NO_IMPORT_ARRAY
#include "bind/bind.h"

#include "autodiff/autodiff.h"
#include "bind/py_program.h"
#include "kernels/core/kernel.h"
#include "passes/passes.h"

enum { MAX_PARAMS = 64 };

static ipu_py_state *
state_of(PyObject *module)
{
    return ipu_py_state_of_module(module);
}

static ipu_graph *
parse(PyObject *module, const char *text)
{
    ipu_ctx ctx = ipu_py_ctx();
    ipu_graph *graph;
    if (ipu_graph_parse(&ctx, text, &graph) != IPU_OK) {
        ipu_py_raise(state_of(module), &ctx);
        return NULL;
    }
    return graph;
}

/* Prints and frees the graph, or raises what happened before. */
static PyObject *
finish(PyObject *module, ipu_ctx *ctx, ipu_graph *graph, ipu_status status)
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
    if (status != IPU_OK) {
        return ipu_py_raise(state_of(module), ctx);
    }
    PyObject *result = PyUnicode_DecodeUTF8(text, (Py_ssize_t)bytes - 1, "replace");
    ipu_free(ctx, text, bytes);
    return result;
}

static PyObject *
graph_round_trip(PyObject *module, PyObject *argument)
{
    const char *text = PyUnicode_AsUTF8(argument);
    ipu_graph *graph = text == NULL ? NULL : parse(module, text);
    ipu_ctx ctx = ipu_py_ctx();
    return graph == NULL ? NULL : finish(module, &ctx, graph, IPU_OK);
}

static PyObject *
graph_pass(PyObject *module, PyObject *args)
{
    const char *text;
    const char *name;
    if (!PyArg_ParseTuple(args, "ss:graph_pass", &text, &name)) {
        return NULL;
    }
    ipu_graph *graph = parse(module, text);
    if (graph == NULL) {
        return NULL;
    }
    ipu_ctx ctx = ipu_py_ctx();
    return finish(module, &ctx, graph, ipu_pass_run_named(&ctx, graph, name));
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
graph_gradients(PyObject *module, PyObject *argument)
{
    const char *text = PyUnicode_AsUTF8(argument);
    ipu_graph *graph = text == NULL ? NULL : parse(module, text);
    if (graph == NULL) {
        return NULL;
    }
    ipu_ctx ctx = ipu_py_ctx();
    return finish(module, &ctx, graph, add_gradients(&ctx, graph));
}

static PyObject *
graph_compile(PyObject *module, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"text", "device", "fuse", "reference", "verify", NULL};
    const char *text;
    PyObject *device = Py_None;
    int fuse = 1;
    int reference = 0;
    int verify = 1;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "s|Oppp:graph_compile", names, &text,
                                     &device, &fuse, &reference, &verify)) {
        return NULL;
    }
    ipu_graph *graph = parse(module, text);
    if (graph == NULL) {
        return NULL;
    }
    PyObject *program = ipu_py_program_compile(state_of(module), graph, NULL, device,
                                               fuse != 0, reference != 0, verify != 0);
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
        PyObject *item = Py_BuildValue("(sI)", info->name, (unsigned)info->flags);
        if (item == NULL) {
            Py_CLEAR(list);
            break;
        }
        PyList_SET_ITEM(list, i, item);
    }
    return list;
}

static PyObject *
cpu_class(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored))
{
    return PyUnicode_FromString(ipu_cpu_class_name(ipu_cpu_class_detect()));
}

/* Which of `count` texts the argument is; -1 with an exception: none. */
static int
find_choice(PyObject *argument, const char *const *texts, int count)
{
    for (int i = 0; i < count; i++) {
        if (PyUnicode_Check(argument) &&
            PyUnicode_CompareWithASCIIString(argument, texts[i]) == 0) {
            return i;
        }
    }
    PyErr_Format(PyExc_ValueError, "expected '%s', '%s' or '%s', but got %R", texts[0],
                 texts[1], texts[2], argument);
    return -1;
}

static PyObject *
set_regions(PyObject *Py_UNUSED(module), PyObject *argument)
{
    static const char *const texts[] = {"auto", "never", "always"};
    static const ipu_region_choice choices[] = {
        IPU_REGIONS_WHERE_FASTER, IPU_REGIONS_NOWHERE, IPU_REGIONS_EVERYWHERE};
    int which = find_choice(argument, texts, 3);
    if (which < 0) {
        return NULL;
    }
    ipu_py_program_set_regions(choices[which]);
    Py_RETURN_NONE;
}

static PyObject *
set_panels(PyObject *Py_UNUSED(module), PyObject *argument)
{
    static const char *const texts[] = {"auto", "never", "always"};
    static const ipu_panel_choice choices[] = {
        IPU_PANELS_WHERE_FASTER, IPU_PANELS_NOWHERE, IPU_PANELS_EVERYWHERE};
    int which = find_choice(argument, texts, 3);
    if (which < 0) {
        return NULL;
    }
    ipu_py_program_set_panels(choices[which]);
    Py_RETURN_NONE;
}

static PyObject *
set_products(PyObject *Py_UNUSED(module), PyObject *argument)
{
    static const char *const texts[] = {"auto", "tiles", "blis"};
    static const ipu_kernel_variant variants[] = {IPU_KERNEL_FAST, IPU_KERNEL_PORTABLE,
                                                  IPU_KERNEL_BLIS};
    int which = find_choice(argument, texts, 3);
    if (which < 0) {
        return NULL;
    }
    ipu_py_program_set_products(variants[which]);
    Py_RETURN_NONE;
}

PyMethodDef ipu_py_testing_methods[] = {
    {"graph_round_trip", graph_round_trip, METH_O,
     "graph_round_trip(text)\n--\n\nParses, verifies and prints a graph."},
    {"graph_pass", graph_pass, METH_VARARGS,
     "graph_pass(text, name)\n--\n\nThe graph after one pass."},
    {"graph_gradients", graph_gradients, METH_O,
     "graph_gradients(text)\n--\n\nThe graph with d sum(result 0) / d each float "
     "parameter "
     "as further results."},
    {"graph_compile", (PyCFunction)(void (*)(void))graph_compile,
     METH_VARARGS | METH_KEYWORDS,
     "graph_compile(text, device=None, fuse=True, reference=False, verify=True)\n--\n\n"
     "A Program of the graph, verified after each pass unless that is left out."},
    {"set_regions", set_regions, METH_O,
     "set_regions(where)\n--\n\nWhether programs that are compiled from now on have "
     "regions: 'auto', 'never' or 'always'."},
    {"set_panels", set_panels, METH_O,
     "set_panels(where)\n--\n\nWhether programs that are compiled from now on keep "
     "weights in panels: 'auto', 'never' or 'always'."},
    {"set_products", set_products, METH_O,
     "set_products(by)\n--\n\nWhat makes the products of programs that are compiled "
     "from now on: 'auto', our own 'tiles', or 'blis'."},
    {"op_table", op_names, METH_NOARGS, "op_table()\n--\n\n(name, flags) of each op."},
    {"cpu_class", cpu_class, METH_NOARGS,
     "cpu_class()\n--\n\nThe CPU class that kernels are chosen for."},
    {NULL, NULL, 0, NULL},
};
