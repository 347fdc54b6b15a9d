/* SPDX-License-Identifier: MIT
 *
 * Eager ops. The types of an op's results and its kernel, all that it needs beside
 * data, depend on op, attributes and types of the inputs alone, so it is kept: in a
 * table of a fixed number of entries, found by hash, where a newcomer takes the place
 * of an older one. Under the GIL, but for kernels of large tensors, which run without
 * it: an entry in use is freed by its last user. */
#define NO_IMPORT_ARRAY
#include "bind/bind.h"

#include <stdlib.h>
#include <string.h>

enum { FEW_INPUTS = 16, MAX_OUTPUTS = 8, LARGE_BYTES = 1 << 16 };

#define IPU_OP(name, text, min_in, max_in, outputs, dtypes, shape, cost, flags) \
    _Static_assert((outputs) <= MAX_OUTPUTS, "an op of more results");
#include "ops.def"
#undef IPU_OP

typedef struct ipu_py_kernel {
    uint64_t hash;
    uint32_t users;  /* the table is one of them */
    ipu_arena arena; /* of all below */
    ipu_kernel_spec spec;
    uint32_t flags;
    bool is_large;
} entry;

/* --- the table ------------------------------------------------------------------- */

static void
entry_release(entry *e)
{
    if (e != NULL && --e->users == 0) {
        ipu_ctx ctx = ipu_py_ctx();
        ipu_arena_free(&ctx, &e->arena);
        PyMem_Free(e);
    }
}

void
ipu_py_kernels_free(ipu_py_state *state)
{
    entry **entries =
        &state->kernels[0][0]; /* of a set the one used last comes first */
    for (uint32_t i = 0; i < IPU_PY_KERNEL_SETS * IPU_PY_KERNEL_WAYS; i++) {
        entry_release(entries[i]);
        entries[i] = NULL;
    }
}

static inline uint64_t
mix(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
    return hash ^ (hash >> 29);
}

static uint64_t
hash_of(ipu_op op, ipu_py_tensor *const *inputs, uint32_t input_count, ipu_attrs attrs)
{
    uint64_t hash = mix((uint64_t)op, input_count);
    for (uint32_t i = 0; i < input_count; i++) {
        const ipu_type *type = &inputs[i]->type;
        hash = mix(hash, (uint64_t)type->dtype * 16 + (uint64_t)type->shape.rank);
        for (int32_t k = 0; k < type->shape.rank; k++) {
            hash = mix(hash, (uint64_t)type->shape.dims[k]);
        }
    }
    for (uint32_t i = 0; i < attrs.count; i++) {
        const ipu_attr *attr = &attrs.items[i];
        hash = mix(hash, (uint64_t)attr->key);
        if (ipu_attr_kind_of(attr->key) != IPU_ATTR_KIND_INTS) {
            hash = mix(hash, (uint64_t)attr->as.i);
            continue;
        }
        for (uint32_t k = 0; k < attr->count; k++) {
            hash = mix(hash, (uint64_t)attr->as.ints[k]);
        }
    }
    return hash;
}

static bool
matches(const entry *e, uint64_t hash, ipu_op op, ipu_py_tensor *const *inputs,
        uint32_t input_count, ipu_attrs attrs)
{
    if (e == NULL || e->hash != hash || e->spec.op != op ||
        e->spec.input_count != input_count || e->spec.attrs.count != attrs.count) {
        return false;
    }
    for (uint32_t i = 0; i < input_count; i++) {
        if (!ipu_type_equal(&e->spec.inputs[i], &inputs[i]->type)) {
            return false;
        }
    }
    return attrs.count == 0 || ipu_attrs_equal(e->spec.attrs, attrs);
}

static ipu_status
fill_entry(ipu_ctx *ctx, entry *e, ipu_op op, ipu_py_tensor *const *inputs,
           uint32_t input_count, ipu_attrs attrs)
{
    const ipu_op_info *info = ipu_op_info_of(op);
    ipu_type *input_types;
    ipu_type *output_types;
    ipu_attrs own;
    size_t bytes = 0;
    uint32_t output_count;
    IPU_TRY(
        ipu_arena_alloc(ctx, &e->arena, input_count * sizeof(ipu_type), &input_types));
    IPU_TRY(
        ipu_arena_alloc(ctx, &e->arena, MAX_OUTPUTS * sizeof(ipu_type), &output_types));
    IPU_TRY(ipu_attrs_copy(ctx, &e->arena, attrs, &own));
    for (uint32_t i = 0; i < input_count; i++) {
        input_types[i] = inputs[i]->type;
        bytes += ipu_type_bytes(&input_types[i]);
    }
    if (ipu_infer(ctx, NULL, op, own, input_types, input_count, output_types,
                  MAX_OUTPUTS, &output_count) != IPU_OK) {
        char message[sizeof(ctx->message)];
        memcpy(message, ctx->message, sizeof(message));
        snprintf(ctx->message, sizeof(ctx->message), "%s: %.900s", info->name, message);
        return ctx->status;
    }
    for (uint32_t i = 0; i < output_count; i++) {
        bytes += ipu_type_bytes(&output_types[i]);
    }
    e->flags = info->flags;
    e->is_large = bytes > LARGE_BYTES;
    e->spec = (ipu_kernel_spec){.op = op,
                                .attrs = own,
                                .input_count = input_count,
                                .output_count = output_count,
                                .inputs = input_types,
                                .outputs = output_types};
    if ((info->flags & IPU_OP_VIEW) != 0) {
        return IPU_OK;
    }
    IPU_FAIL_IF(ctx, (info->flags & IPU_OP_KERNEL) == 0, TYPE,
                "%s exists in traced functions alone", info->name);
    return ipu_kernel_prepare(ctx, &e->arena, &e->spec, IPU_KERNEL_FAST,
                              ipu_cpu_class_detect());
}

/* A new entry with one user, the caller; NULL with an exception. */
static entry *
entry_new(uint64_t hash, ipu_op op, ipu_py_tensor *const *inputs, uint32_t input_count,
          ipu_attrs attrs)
{
    entry *e = PyMem_Calloc(1, sizeof(*e));
    if (e == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    ipu_ctx ctx = ipu_py_ctx();
    e->hash = hash;
    e->users = 1;
    if (!ipu_py_is_ok(&ctx, fill_entry(&ctx, e, op, inputs, input_count, attrs))) {
        entry_release(e);
        return NULL;
    }
    return e;
}

/* The entry of an op, with the caller as one of its users. */
static entry *
find(ipu_py_state *state, ipu_op op, ipu_py_tensor *const *inputs, uint32_t input_count,
     ipu_attrs attrs)
{
    uint64_t hash = hash_of(op, inputs, input_count, attrs);
    entry **set = state->kernels[hash % IPU_PY_KERNEL_SETS];
    for (uint32_t i = 0; i < IPU_PY_KERNEL_WAYS; i++) {
        entry *e = set[i];
        if (matches(e, hash, op, inputs, input_count, attrs)) {
            memmove(&set[1], &set[0], i * sizeof(*set));
            set[0] = e;
            e->users++;
            return e;
        }
    }
    entry *e = entry_new(hash, op, inputs, input_count, attrs);
    if (e != NULL) {
        entry_release(set[IPU_PY_KERNEL_WAYS - 1]);
        memmove(&set[1], &set[0], (IPU_PY_KERNEL_WAYS - 1) * sizeof(*set));
        set[0] = e;
        e->users++;
    }
    return e;
}

/* --- running --------------------------------------------------------------------- */

PyObject *
ipu_py_pack_results(ipu_py_tensor **tensors, uint32_t count)
{
    if (count == 0) {
        Py_RETURN_NONE;
    }
    if (count == 1) {
        return (PyObject *)tensors[0];
    }
    PyObject *tuple = PyTuple_New(count);
    for (uint32_t i = 0; i < count; i++) {
        if (tuple == NULL) {
            Py_DECREF(tensors[i]);
        } else {
            PyTuple_SET_ITEM(tuple, i, (PyObject *)tensors[i]);
        }
    }
    return tuple;
}

static ipu_status
run_kernel(ipu_py_state *state, ipu_py_thread *thread, ipu_ctx *ctx, const entry *e,
           const void *const *inputs, void *const *outputs)
{
    ipu_kernel_call call = {
        .spec = &e->spec, .inputs = inputs, .outputs = outputs, .ctx = ctx};
    if ((e->flags & IPU_OP_RANDOM) != 0) {
        call.random = ipu_py_random_key(state, thread);
    }
    if (e->is_large && ipu_py_pool(state, &call.pool) < 0) {
        return IPU_STATUS_PYTHON;
    }
    if (e->spec.workspace_bytes > 0) {
        size_t bytes = ipu_buffer_round_up(e->spec.workspace_bytes + IPU_SLACK_BYTES);
        call.workspace = aligned_alloc(IPU_BUFFER_ALIGNMENT, bytes);
        IPU_FAIL_IF(ctx, call.workspace == NULL, OUT_OF_MEMORY,
                    "out of memory: %zu bytes of workspace", bytes);
    }
    ipu_status status;
    if (e->is_large) {
        PyThreadState *saved = PyEval_SaveThread();
        status = e->spec.run(&call);
        PyEval_RestoreThread(saved);
    } else {
        status = e->spec.run(&call);
    }
    free(call.workspace);
    return status;
}

static void
release_outputs(ipu_py_tensor **outputs, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        Py_XDECREF(outputs[i]);
    }
}

static int
compute(ipu_py_state *state, ipu_py_thread *thread, const entry *e,
        ipu_py_tensor *const *inputs, ipu_py_tensor **outputs)
{
    const void *few[FEW_INPUTS];
    void *output_data[MAX_OUTPUTS];
    if ((e->flags & IPU_OP_VIEW) != 0) {
        outputs[0] = ipu_py_tensor_view(state, inputs[0], &e->spec.outputs[0]);
        return outputs[0] == NULL ? -1 : 0;
    }
    for (uint32_t i = 0; i < e->spec.output_count; i++) {
        outputs[i] = ipu_py_tensor_new(state, &e->spec.outputs[i]);
        if (outputs[i] == NULL) {
            release_outputs(outputs, i);
            return -1;
        }
        output_data[i] = ipu_py_tensor_data(outputs[i]);
    }
    const void **input_data =
        ipu_py_scratch(few, sizeof(few), e->spec.input_count * sizeof(*input_data));
    if (input_data == NULL) {
        release_outputs(outputs, e->spec.output_count);
        return -1;
    }
    for (uint32_t i = 0; i < e->spec.input_count; i++) {
        input_data[i] = ipu_py_tensor_data(inputs[i]);
    }
    ipu_ctx ctx;
    ipu_ctx_init(&ctx, state->ctx.allocator);
    ipu_status status = run_kernel(state, thread, &ctx, e, input_data, output_data);
    ipu_py_scratch_free(input_data, few);
    if (status != IPU_OK) {
        release_outputs(outputs, e->spec.output_count);
        ipu_py_raise(&ctx);
        return -1;
    }
    return 0;
}

PyObject *
ipu_py_apply_eager(ipu_py_state *state, ipu_op op, ipu_py_tensor *const *inputs,
                   uint32_t input_count, ipu_attrs attrs)
{
    ipu_py_tensor *outputs[MAX_OUTPUTS];
    for (uint32_t i = 0; i < input_count; i++) {
        if (inputs[i]->storage == NULL) {
            ipu_py_raise_leaked(inputs[i]);
            return NULL;
        }
    }
    ipu_py_thread *thread = ipu_py_thread_here(state);
    entry *e = thread == NULL ? NULL : find(state, op, inputs, input_count, attrs);
    if (e == NULL) {
        return NULL;
    }
    uint32_t count = e->spec.output_count;
    int result = compute(state, thread, e, inputs, outputs);
    entry_release(e);
    if (result < 0) {
        return NULL;
    }
    if (thread->recorder != NULL &&
        ipu_py_record(state, thread->recorder, op, inputs, input_count, attrs, outputs,
                      count) < 0) {
        release_outputs(outputs, count);
        return NULL;
    }
    return ipu_py_pack_results(outputs, count);
}
