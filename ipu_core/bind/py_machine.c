/* SPDX-License-Identifier: MIT
 *
 * The machine model for Python: chips as tuples of their fields' values, and plans of
 * products. */
#define NO_IMPORT_ARRAY
#include "bind/bind.h"

#include "machine/account.h"
#include "machine/exchange.h"
#include "passes/passes.h"

static PyObject *
machine_fields(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored))
{
    PyObject *list = PyList_New(IPU_CHIP_FIELD_COUNT);
    for (uint32_t i = 0; list != NULL && i < IPU_CHIP_FIELD_COUNT; i++) {
        const ipu_chip_field *field = ipu_chip_field_of(i);
        ipu_py_put(&list, i,
                   Py_BuildValue("(sss)", field->name, field->unit, field->source));
    }
    return list;
}

static PyObject *
values_of(const ipu_chip *chip)
{
    PyObject *values = PyTuple_New(IPU_CHIP_FIELD_COUNT);
    for (uint32_t i = 0; values != NULL && i < IPU_CHIP_FIELD_COUNT; i++) {
        ipu_py_put(&values, i, PyFloat_FromDouble((&chip->tiles)[i]));
    }
    return values;
}

static PyObject *
machine_chips(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored))
{
    PyObject *chips = PyDict_New();
    for (uint32_t i = 0; chips != NULL && ipu_chip_name(i) != NULL; i++) {
        PyObject *values = values_of(ipu_chip_of(i));
        if (values == NULL ||
            PyDict_SetItemString(chips, ipu_chip_name(i), values) < 0) {
            Py_CLEAR(chips);
        }
        Py_XDECREF(values);
    }
    return chips;
}

/* --- arguments -------------------------------------------------------------------- */

/* Errors in arguments are ValueErrors. */
static bool
is_valid(const ipu_ctx *ctx, ipu_status status)
{
    if (status != IPU_OK) {
        PyErr_SetString(PyExc_ValueError, ctx->message);
    }
    return status == IPU_OK;
}

/* ipu_chip: of a tuple of all values. */
static int
chip_converter(PyObject *object, void *out)
{
    double *values = out;
    if (!PyTuple_Check(object) || PyTuple_GET_SIZE(object) != IPU_CHIP_FIELD_COUNT) {
        PyErr_SetString(PyExc_TypeError, "a chip is a tuple of all its fields");
        return 0;
    }
    for (uint32_t i = 0; i < IPU_CHIP_FIELD_COUNT; i++) {
        values[i] = PyFloat_AsDouble(PyTuple_GET_ITEM(object, i));
        if (values[i] == -1.0 && PyErr_Occurred()) {
            return 0;
        }
    }
    ipu_ctx ctx = ipu_py_ctx();
    return is_valid(&ctx, ipu_chip_check(&ctx, out));
}

/* ipu_product: of the precision and the sizes, in the order of the struct. */
static int
product_converter(PyObject *object, void *out)
{
    ipu_product *p = out;
    int precision;
    ipu_ctx ctx = ipu_py_ctx();
    if (!PyArg_ParseTuple(object, "iLLLL(LL)(LL)(LL)(LL)", &precision, &p->batch,
                          &p->groups, &p->in, &p->out, &p->field[0], &p->field[1],
                          &p->input[0], &p->input[1], &p->kernel[0], &p->kernel[1],
                          &p->stride[0], &p->stride[1])) {
        return 0;
    }
    if (precision < 0 || precision >= IPU_PRECISION_COUNT) {
        PyErr_Format(PyExc_ValueError, "there is no precision %d", precision);
        return 0;
    }
    p->precision = (ipu_precision)precision;
    return is_valid(&ctx, ipu_product_check(&ctx, p));
}

static PyObject *
object_of_cost(const ipu_product_cost *cost)
{
    return Py_BuildValue("{sdsdsdsdsdsdsdsdsd}", "inputs", cost->inputs, "weights",
                         cost->weights, "arithmetic", cost->arithmetic, "partials",
                         cost->partials, "reduction", cost->reduction, "copies",
                         cost->copies, "overheads", cost->overheads, "cycles",
                         cost->cycles, "bytes", cost->bytes);
}

/* (vertex, parts of each dimension, serial parts of in and out, expanded axes, cost) */
static PyObject *
machine_plan_product(PyObject *module, PyObject *args)
{
    ipu_chip chip;
    ipu_product product;
    double memory_share;
    if (!PyArg_ParseTuple(args, "O&O&d:machine_plan_product", chip_converter, &chip,
                          product_converter, &product, &memory_share)) {
        return NULL;
    }
    if (!(memory_share > 0)) {
        PyErr_SetString(PyExc_ValueError, "the share of memory must be more than 0");
        return NULL;
    }
    ipu_plans *plans = ipu_py_state_of_module(module)->plans;
    ipu_product_plan plan;
    Py_BEGIN_ALLOW_THREADS
    plan = ipu_plans_ask(plans, &chip, &product, memory_share);
    Py_END_ALLOW_THREADS
    const int64_t *parts = plan.split.parts;
    return Py_BuildValue("(s(LLLLLLL)(LL)LN)",
                         ipu_product_vertex_name(plan.split.vertex),
                         (long long)parts[0], (long long)parts[1], (long long)parts[2],
                         (long long)parts[3], (long long)parts[4], (long long)parts[5],
                         (long long)parts[6], (long long)plan.split.serial_in,
                         (long long)plan.split.serial_out,
                         (long long)plan.split.expanded, object_of_cost(&plan.cost));
}

/* Cycles of an exchange. */
static PyObject *
machine_exchange(PyObject *Py_UNUSED(module), PyObject *args)
{
    static const char *const names[] = {
#define X(NAME, text, start, least) #text,
        IPU_EXCHANGE_PATTERNS(X)
#undef X
    };
    ipu_chip chip;
    const char *name;
    double tiles;
    double bytes;
    double ipus;
    if (!PyArg_ParseTuple(args, "O&sddd:machine_exchange", chip_converter, &chip, &name,
                          &tiles, &bytes, &ipus)) {
        return NULL;
    }
    int pattern = ipu_py_choice("pattern", name, names, IPU_EXCHANGE_PATTERN_COUNT);
    return pattern < 0 ? NULL
                       : PyFloat_FromDouble(ipu_exchange_cycles(
                             &chip, (ipu_exchange_pattern)pattern, tiles, bytes, ipus));
}

/* The cost of one split, for tests. */
static PyObject *
machine_product_cost(PyObject *Py_UNUSED(module), PyObject *args)
{
    ipu_chip chip;
    ipu_product product;
    int vertex;
    long long parts[IPU_PRODUCT_DIMS];
    long long serial[2];
    long long expanded;
    if (!PyArg_ParseTuple(args, "O&O&i(LLLLLLL)(LL)L:machine_product_cost",
                          chip_converter, &chip, product_converter, &product, &vertex,
                          &parts[0], &parts[1], &parts[2], &parts[3], &parts[4],
                          &parts[5], &parts[6], &serial[0], &serial[1], &expanded)) {
        return NULL;
    }
    bool is_ok =
        vertex >= 0 && vertex < IPU_VERTEX_COUNT && serial[0] >= 1 && serial[1] >= 1 &&
        expanded >= 0 && expanded <= 3;
    ipu_product_split split = {.vertex = (ipu_product_vertex)vertex,
                               .serial_in = serial[0],
                               .serial_out = serial[1],
                               .expanded = expanded};
    for (int dim = 0; dim < IPU_PRODUCT_DIMS; dim++) {
        is_ok = is_ok && parts[dim] >= 1;
        split.parts[dim] = parts[dim];
    }
    if (!is_ok) {
        PyErr_SetString(PyExc_ValueError, "a split has parts of at least 1");
        return NULL;
    }
    ipu_product_cost cost = ipu_product_cost_of(&chip, &product, &split);
    return object_of_cost(&cost);
}

/* --- accounts --------------------------------------------------------------------- */

#define X(NAME, text) #text,
static const char *const step_kinds[] = {IPU_STEP_KINDS(X)};
#undef X

/* (op, name or None, file or None, line); None: no node */
static PyObject *
object_of_node(const ipu_graph *graph, ipu_node id)
{
    if (!ipu_is_node(id)) {
        Py_RETURN_NONE;
    }
    const ipu_node_data *node = ipu_node_of(graph, id);
    return Py_BuildValue("(szzi)", ipu_op_info_of(node->op)->name, node->name,
                         node->source.file, (int)node->source.line);
}

static PyObject *
steps_of(const ipu_graph *graph, const ipu_account *account)
{
    PyObject *list = PyList_New((Py_ssize_t)account->steps.count);
    for (size_t i = 0; list != NULL && i < account->steps.count; i++) {
        const ipu_account_step *step = &account->steps.items[i];
        ipu_py_put(&list, (Py_ssize_t)i,
                   Py_BuildValue("(ssddddIiiON)", step_kinds[step->kind], step->part,
                                 step->start, step->cycles, step->times, step->tiles,
                                 (unsigned)step->number, (int)step->ipu,
                                 (int)step->routine,
                                 step->is_estimated ? Py_True : Py_False,
                                 object_of_node(graph, step->node)));
    }
    return list;
}

/* (first tile, tiles, whether elements lie in their order) */
static PyObject *
object_of_mapping(const ipu_mapping *one)
{
    return Py_BuildValue("(IIO)", (unsigned)one->start, (unsigned)one->tiles,
                         one->layer == 0 ? Py_True : Py_False);
}

static PyObject *
residents_of(const ipu_graph *graph, const ipu_account *account)
{
    PyObject *list = PyList_New((Py_ssize_t)account->residents.count);
    for (size_t i = 0; list != NULL && i < account->residents.count; i++) {
        const ipu_account_resident *one = &account->residents.items[i];
        const ipu_type *held = ipu_account_resident_type(graph, one);
        const char *variable = one->resource == IPU_NO_INDEX
                                   ? NULL
                                   : graph->resources.items[one->resource].name;
        char type[96];
        ipu_py_put(&list, (Py_ssize_t)i,
                   Py_BuildValue("(diszNN)", one->bytes, (int)one->ipu,
                                 ipu_type_print(held, type, sizeof(type)),
                                 variable,
                                 object_of_node(graph, one->node),
                                 object_of_mapping(&one->mapping)));
    }
    return list;
}

static PyObject *
tenants_of(const ipu_graph *graph, const ipu_account *account)
{
    PyObject *list = PyList_New((Py_ssize_t)account->tenants.count);
    for (size_t i = 0; list != NULL && i < account->tenants.count; i++) {
        const ipu_account_tenant *one = &account->tenants.items[i];
        const ipu_value_data *value = ipu_value_of(graph, one->value);
        /* what a loop carries is the loop's */
        ipu_node maker = ipu_is_node(value->producer)
                             ? value->producer
                             : ipu_block_of(graph, value->block)->owner;
        char type[96];
        ipu_py_put(&list, (Py_ssize_t)i,
                   Py_BuildValue("(diIIIsNN)", one->bytes, (int)one->ipu,
                                 (unsigned)one->copies, (unsigned)one->first,
                                 (unsigned)one->last,
                                 ipu_type_print(&value->type, type, sizeof(type)),
                                 object_of_node(graph, maker),
                                 object_of_mapping(&one->mapping)));
    }
    return list;
}

/* (kind, number among its kind or node, IPU, address, bytes, first, last) */
static PyObject *
places_of(const ipu_graph *graph, const ipu_account *account)
{
    static const char *const kinds[] = {
        [IPU_PLACE_RESIDENT] = "variable",
        [IPU_PLACE_TENANT] = "tensor",
        [IPU_PLACE_TEMPORARY] = "temporary",
    };
    PyObject *list = PyList_New((Py_ssize_t)account->places.count);
    for (size_t i = 0; list != NULL && i < account->places.count; i++) {
        const ipu_account_place *one = &account->places.items[i];
        PyObject *what = one->kind == IPU_PLACE_TEMPORARY
                             ? object_of_node(graph, (ipu_node){one->index})
                             : PyLong_FromUnsignedLong(one->index);
        ipu_py_put(&list, (Py_ssize_t)i,
                   Py_BuildValue("(sNiddII)", kinds[one->kind], what, (int)one->ipu,
                                 one->address, one->bytes, (unsigned)one->first,
                                 (unsigned)one->last));
    }
    return list;
}

static PyObject *
object_of_code(const ipu_account_memory *memory)
{
    static const char *const names[] = {
#define X(NAME, text) #text,
        IPU_CODE_KINDS(X)
#undef X
    };
    PyObject *found = PyDict_New();
    for (int kind = 0; found != NULL && kind < IPU_CODE_KIND_COUNT; kind++) {
        PyObject *bytes = PyFloat_FromDouble(memory->code[kind]);
        if (bytes == NULL || PyDict_SetItemString(found, names[kind], bytes) < 0) {
            Py_CLEAR(found);
        }
        Py_XDECREF(bytes);
    }
    return found;
}

static PyObject *
memories_of(const ipu_graph *graph, const ipu_account *account)
{
    PyObject *list = PyList_New((Py_ssize_t)account->memories.count);
    for (size_t i = 0; list != NULL && i < account->memories.count; i++) {
        const ipu_account_memory *one = &account->memories.items[i];
        ipu_py_put(&list, (Py_ssize_t)i,
                   Py_BuildValue("{sdsdsdsdsdsdsNsIsIsNsNsy#}", "variables",
                                 one->variable_bytes, "code", one->code_bytes, "live",
                                 one->peak_bytes, "temporary", one->temporary_bytes,
                                 "remote", one->remote_bytes, "end", one->end_bytes,
                                 "code_by", object_of_code(one), "fullest_tile",
                                 (unsigned)one->fullest_tile, "peak",
                                 (unsigned)one->peak, "at",
                                 object_of_node(graph, one->peak_node), "fullest",
                                 object_of_node(graph, one->temporary_node), "tiles",
                                 (const char *)one->tiles.items,
                                 (Py_ssize_t)(one->tiles.count *
                                              sizeof(*one->tiles.items))));
    }
    return list;
}

static PyObject *
list_of_cycles(const ipu_cycles_list *cycles)
{
    PyObject *list = PyList_New((Py_ssize_t)cycles->count);
    for (size_t i = 0; list != NULL && i < cycles->count; i++) {
        ipu_py_put(&list, (Py_ssize_t)i, PyFloat_FromDouble(cycles->items[i]));
    }
    return list;
}

static PyObject *
ints_of(const ipu_node_data *node, ipu_attr_key key)
{
    uint32_t count = 0;
    const int64_t *items = ipu_attrs_ints(node->attrs, key, &count);
    PyObject *list = PyList_New(items == NULL ? 0 : (Py_ssize_t)count);
    for (uint32_t i = 0; list != NULL && items != NULL && i < count; i++) {
        ipu_py_put(&list, i, PyLong_FromLongLong(items[i]));
    }
    return list;
}

static PyObject *
pipelines_of(const ipu_graph *graph, const ipu_account *account)
{
    PyObject *list = PyList_New((Py_ssize_t)account->pipelines.count);
    for (size_t i = 0; list != NULL && i < account->pipelines.count; i++) {
        const ipu_account_pipeline *one = &account->pipelines.items[i];
        const ipu_node_data *node = ipu_node_of(graph, one->node);
        const ipu_attr *name = ipu_attrs_find(node->attrs, IPU_ATTR_SCHEDULE);
        bool is_training = ipu_attrs_int(node->attrs, IPU_ATTR_TRAINING, 0) != 0;
        ipu_py_put(&list, (Py_ssize_t)i,
                   Py_BuildValue(
                       "{ss#sNsNsOsIsIsOsdsdsdsNsNsN}", "schedule", name->as.text,
                       (Py_ssize_t)name->count, "ipus", ints_of(node, IPU_ATTR_DEVICES),
                       "positions", ints_of(node, IPU_ATTR_POSITIONS), "training",
                       is_training ? Py_True : Py_False, "micro_batches",
                       (unsigned)one->micro_batches, "ipu_count", (unsigned)one->ipus,
                       "is_split", one->is_split ? Py_True : Py_False, "start",
                       one->start, "cycles", one->cycles, "busy", one->busy, "routines",
                       list_of_cycles(&one->routines), "sends",
                       list_of_cycles(&one->sends), "time_steps",
                       list_of_cycles(&one->steps)));
    }
    return list;
}

static PyObject *
object_of_account(const ipu_graph *graph, const ipu_account *account)
{
    return Py_BuildValue(
        "{sdsNsNsNsNsNsNsO}", "cycles", account->cycles, "steps",
        steps_of(graph, account), "tenants", tenants_of(graph, account), "residents",
        residents_of(graph, account), "places", places_of(graph, account),
        "memories", memories_of(graph, account), "pipelines",
        pipelines_of(graph, account), "has_unknown_turns",
        account->has_unknown_turns ? Py_True : Py_False);
}

int
ipu_py_account_converter(PyObject *object, void *out)
{
    ipu_py_account_request *request = out;
    ipu_account_options *options = &request->options;
    int has_half[IPU_PRODUCT_CLASS_COUNT];
    int has_joint_plans;
    int has_stable_norms;
    *request = (ipu_py_account_request){0};
    if (!PyTuple_Check(object)) {
        PyErr_SetString(PyExc_TypeError, "a request for an account is a tuple");
        return 0;
    }
    if (!PyArg_ParseTuple(object, "O&(ddd)(pp)(pp)ddp:account", chip_converter,
                          &request->chip, &options->products[IPU_MATMULS].memory_share,
                          &options->products[IPU_CONVOLUTIONS].memory_share,
                          &options->slice_share, &has_half[IPU_MATMULS],
                          &has_half[IPU_CONVOLUTIONS], &has_joint_plans,
                          &has_stable_norms,
                          &options->replicas, &options->ipus, &request->is_for_all)) {
        return 0;
    }
    options->has_places = true;
    options->has_joint_plans = has_joint_plans != 0;
    options->has_stable_norms = has_stable_norms != 0;
    for (int i = 0; i < IPU_PRODUCT_CLASS_COUNT; i++) {
        options->products[i].half =
            has_half[i] ? IPU_PRECISION_HALF : IPU_PRECISION_MIXED;
        if (!(options->products[i].memory_share > 0) || !(options->slice_share > 0)) {
            PyErr_SetString(PyExc_ValueError, "a share of memory must be more than 0");
            return 0;
        }
    }
    return 1;
}

PyObject *
ipu_py_account(ipu_py_state *state, ipu_graph *graph, PyObject *object)
{
    ipu_py_account_request request;
    if (!ipu_py_account_converter(object, &request)) {
        return NULL;
    }
    ipu_passes_options passes = {.fuse = false};
    ipu_ctx ctx = ipu_py_ctx();
    ipu_account account = {0};
    ipu_status status;
    graph->ipus = (uint32_t)request.options.ipus;
    graph->replicas = (uint32_t)request.options.replicas;
    Py_BEGIN_ALLOW_THREADS
    status = ipu_passes_run(&ctx, graph, &passes);
    if (status == IPU_OK) {
        status = ipu_account_of(&ctx, graph, &request.chip, &request.options,
                                state->plans, &account);
    }
    Py_END_ALLOW_THREADS
    PyObject *result =
        ipu_py_is_ok(&ctx, status) ? object_of_account(graph, &account) : NULL;
    ipu_account_free(&ctx, &account);
    return result;
}

ipu_status
ipu_py_account_read(void *state, ipu_ctx *ctx, const ipu_graph *graph)
{
    ipu_py_account_request *request = state;
    bool fits = false;
    if (!request->is_for_all) {
        IPU_TRY(ipu_account_fits(ctx, graph, &request->chip, &request->options,
                                 request->plans, &fits));
    }
    if (fits) {
        return IPU_OK;
    }
    ipu_account account = {0};
    ipu_status status = ipu_account_of(ctx, graph, &request->chip, &request->options,
                                       request->plans, &account);
    if (status == IPU_OK) {
        PyGILState_STATE gil = PyGILState_Ensure();
        request->found = object_of_account(graph, &account);
        status = request->found == NULL ? ipu_py_fail(ctx) : IPU_OK;
        PyGILState_Release(gil);
    }
    ipu_account_free(ctx, &account);
    return status;
}

PyMethodDef ipu_py_machine_methods[] = {
    {"machine_fields", machine_fields, METH_NOARGS,
     "Name, unit and source of each field of a chip."},
    {"machine_chips", machine_chips, METH_NOARGS,
     "The values of all fields of each chip that is known."},
    {"machine_plan_product", machine_plan_product, METH_VARARGS,
     "The best split of a product over a chip's tiles, and its cost."},
    {"machine_exchange", machine_exchange, METH_VARARGS,
     "Cycles of an exchange of a pattern: (chip, pattern, tiles, bytes of a message)."},
    {"machine_product_cost", machine_product_cost, METH_VARARGS,
     "The cost of one split, for tests."},
    {NULL, NULL, 0, NULL},
};
