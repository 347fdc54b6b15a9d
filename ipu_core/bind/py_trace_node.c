/* SPDX-License-Identifier: MIT
 *
 * ipu._core.Trace.node: nodes that name resources, which ipu_py_apply does not make. */
#define NO_IMPORT_ARRAY
#include "bind/py_trace.h"

#include <string.h>

enum { MAX_ATTRS = 24 };

/* (kind, id, [types], name) -> index in the graph */
static int
parse_resource(ipu_py_trace *self, PyObject *object, int64_t *out)
{
    static const char *const kinds[] = {"variable", "infeed", "outfeed"};
    const char *kind;
    const char *name;
    long long id;
    PyObject *list;
    ipu_resource resource = {0};
    if (!PyArg_ParseTuple(object, "sLOz:resource", &kind, &id, &list, &name)) {
        return -1;
    }
    for (int i = 0; i < 3; i++) {
        if (strcmp(kind, kinds[i]) == 0) {
            resource.kind = (ipu_resource_kind)i;
        }
    }
    PyObject *items = PySequence_Tuple(list);
    if (items == NULL) {
        return -1;
    }
    resource.id = id;
    resource.name = name;
    resource.type_count = (uint32_t)PyTuple_GET_SIZE(items);
    ipu_type one;
    ipu_type *types =
        ipu_py_scratch(&one, sizeof(one), resource.type_count * sizeof(*types));
    int result = types == NULL ? -1 : 0;
    resource.types = types;
    for (uint32_t i = 0; result == 0 && i < resource.type_count; i++) {
        result = ipu_py_parse_type_tuple(PyTuple_GET_ITEM(items, i), false, &types[i]);
    }
    Py_DECREF(items);
    uint32_t index = 0;
    ipu_ctx ctx = ipu_py_ctx();
    if (result == 0 &&
        ipu_graph_add_resource(&ctx, self->trace->graph, &resource, &index) != IPU_OK) {
        ipu_py_trace_fail(self, &ctx);
        result = -1;
    }
    ipu_py_scratch_free(types, &one);
    *out = index;
    return result;
}

/* Attributes RESOURCE and SLOTS from their descriptions. */
static int
resource_attrs(ipu_py_trace *self, PyObject *resources, ipu_ctx *ctx, ipu_arena *arena,
               ipu_attr *attrs, uint32_t *count)
{
    Py_ssize_t given = PyTuple_GET_SIZE(resources);
    int64_t index;
    int64_t *slots;
    if (ipu_arena_alloc(ctx, arena, (size_t)given * sizeof(*slots), &slots) != IPU_OK) {
        ipu_py_trace_fail(self, ctx);
        return -1;
    }
    for (Py_ssize_t i = 0; i < given; i++) {
        if (parse_resource(self, PyTuple_GET_ITEM(resources, i), &index) < 0) {
            return -1;
        }
        if (i == 0) {
            attrs[(*count)++] = (ipu_attr){.key = IPU_ATTR_RESOURCE, .as.i = index};
        } else {
            slots[i - 1] = index;
        }
    }
    if (given > 1) {
        attrs[(*count)++] = (ipu_attr){
            .key = IPU_ATTR_SLOTS, .count = (uint32_t)given - 1, .as.ints = slots};
    }
    return 0;
}

PyObject *
ipu_py_trace_node(PyObject *object, PyObject *args)
{
    ipu_py_trace *self = (ipu_py_trace *)object;
    ipu_py_state *state = ipu_py_state_of_type(Py_TYPE(self));
    PyObject *name;
    PyObject *sequence;
    PyObject *dict;
    PyObject *resources;
    ipu_op op;
    ipu_attr attrs[MAX_ATTRS];
    uint32_t attr_count = 0;
    uint32_t input_count = 0;
    ipu_value *values;
    ipu_node node;
    if (!PyArg_ParseTuple(args, "OOOO!:node", &name, &sequence, &dict, &PyTuple_Type,
                          &resources) ||
        ipu_py_parse_op(name, &op) < 0) {
        return NULL;
    }
    ipu_ctx ctx = ipu_py_ctx();
    ipu_arena arena = {0};
    PyObject *result = NULL;
    ipu_py_tensor **tensors = ipu_py_tensors(state, sequence, &input_count);
    if (tensors == NULL) {
        return NULL;
    }
    if (ipu_py_parse_attrs(dict, &ctx, &arena, attrs, MAX_ATTRS - 2, &attr_count) < 0 ||
        resource_attrs(self, resources, &ctx, &arena, attrs, &attr_count) < 0) {
        goto done;
    }
    if (ipu_arena_alloc(&ctx, &arena, input_count * sizeof(*values), &values) !=
        IPU_OK) {
        ipu_py_trace_fail(self, &ctx);
        goto done;
    }
    if (ipu_py_trace_values(state, tensors, input_count, values) < 0) {
        goto done;
    }
    if (ipu_trace_node(&ctx, self->trace, op, values, input_count, attrs, attr_count,
                       ipu_py_trace_source(state, object), NULL, &node) != IPU_OK) {
        ipu_py_trace_fail(self, &ctx);
        goto done;
    }
    result = ipu_py_node_result(state, object, node);
done:
    ipu_py_tensors_release(tensors, input_count);
    ipu_arena_free(&ctx, &arena);
    return result;
}
