/* SPDX-License-Identifier: MIT
 *
 * Map, filter and take_while: run a compiled host program on each element; the last two
 * hand the element on, or not, as its one bool result says.
 *
 * The function is compiled once for each tuple of concrete input types, by a
 * callback that may need Python; its programs are shared by all iterators of the
 * data set. Each iterator has its own executors (slabs), which allocate nothing from
 * the second element on. A fill lets map's program write the caller's buffers.
 *
 * Random numbers are a function of (seed, pass, element): new ones for every element of
 * every pass, the same in every run.
 *
 * The lock is never held during the callback, which waits for Python's lock: two
 * threads may then compile the same function, and the first one's program is kept. */
#include "data/dataset_impl.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/lock.h"

typedef struct map_program {
    ipu_type *inputs;
    const ipu_program *program; /* the function's state owns it */
} map_program;

enum { STEPS_PER_ELEMENT = 1 << 24 };            /* of a program with loops */
#define PASS_STRIDE UINT64_C(0x9E3779B97F4A7C15) /* keeps the seeds of passes apart */

typedef struct map_dataset {
    ipu_dataset base;
    bool ends; /* take_while: ends with the first element that is not handed on */
    ipu_map_function function;
    bool owns_function;
    ipu_lock lock; /* protects programs */
    IPU_ARRAY(map_program) programs;
} map_dataset;

typedef struct map_executor {
    const ipu_type *inputs; /* of the data set's cache */
    const ipu_program *program;
    ipu_executor *executor;
} map_executor;

typedef struct map_iterator {
    ipu_iterator base;
    uint64_t made;
    uint64_t seed; /* of this pass */
    IPU_ARRAY(map_executor) executors;
    size_t last; /* used last */
    ipu__store store;
} map_iterator;

static bool
types_equal(const ipu_type *a, const ipu_type *b, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (!ipu_type_equal(&a[i], &b[i])) {
            return false;
        }
    }
    return true;
}

/* The entry for these types, or {0}. Entries are never removed, and their `inputs` stay
 * where they are while the array grows. */
static map_program
find_locked(const map_dataset *map, const ipu_type *types)
{
    uint32_t count = map->base.inputs[0]->type_count;
    for (size_t i = 0; i < map->programs.count; i++) {
        if (types_equal(map->programs.items[i].inputs, types, count)) {
            return map->programs.items[i];
        }
    }
    return (map_program){0};
}

static const ipu__kind map_kind;

static ipu_status
check_verdict(ipu_ctx *ctx, const map_dataset *map, const ipu_program *program)
{
    IPU_FAIL_IF(
        ctx,
        program->output_count != 1 || program->outputs[0].dtype != IPU_DTYPE_BOOL ||
            program->outputs[0].shape.rank != 0,
        TYPE, "%s: the predicate must give one bool scalar", map->base.kind->name);
    return IPU_OK;
}

static ipu_status
check_outputs(ipu_ctx *ctx, const map_dataset *map, const ipu_program *program)
{
    if (map->base.kind != &map_kind) {
        return check_verdict(ctx, map, program);
    }
    IPU_FAIL_IF(ctx, program->output_count != map->base.type_count, INVALID_ARGUMENT,
                "map: the function gives %" PRIu32 " tensors, but %" PRIu32
                " were declared",
                program->output_count, map->base.type_count);
    for (uint32_t i = 0; i < program->output_count; i++) {
        char made[96];
        char declared[96];
        IPU_FAIL_IF(ctx, !ipu__type_accepts(&map->base.types[i], &program->outputs[i]),
                    INVALID_ARGUMENT,
                    "map: component %" PRIu32
                    " of the function's result is %s, but %s was "
                    "declared",
                    i, ipu_type_print(&program->outputs[i], made, sizeof(made)),
                    ipu_type_print(&map->base.types[i], declared, sizeof(declared)));
    }
    return IPU_OK;
}

static ipu_status
find_program(ipu_ctx *ctx, map_dataset *map, const ipu_type *types, map_program *out)
{
    uint32_t count = map->base.inputs[0]->type_count;
    size_t bytes = count * sizeof(ipu_type);
    ipu_lock_take(&map->lock);
    *out = find_locked(map, types);
    ipu_lock_drop(&map->lock);
    if (out->program != NULL) {
        return IPU_OK;
    }
    map_program made = {0};
    IPU_TRY(
        map->function.compile(ctx, map->function.state, types, count, &made.program));
    IPU_TRY(check_outputs(ctx, map, made.program));
    IPU_TRY(ipu_alloc(ctx, bytes > 0 ? bytes : 1, &made.inputs));
    ipu_copy_bytes(made.inputs, types, bytes);
    ipu_lock_take(&map->lock);
    *out = find_locked(map, types);
    ipu_status status = IPU_OK;
    if (out->program == NULL) {
        status = IPU_ARRAY_PUSH(ctx, &map->programs, made);
        *out = made;
    }
    ipu_lock_drop(&map->lock);
    if (status != IPU_OK || out->inputs != made.inputs) {
        ipu_free(ctx, made.inputs, bytes > 0 ? bytes : 1);
    }
    return status;
}

static ipu_status
find_executor(ipu_ctx *ctx, map_iterator *it, const ipu_type *types)
{
    map_dataset *map = (map_dataset *)it->base.dataset;
    const ipu_dataset *input = it->base.dataset->inputs[0];
    if (it->executors.count > 0 && input->is_static) {
        return IPU_OK;
    }
    for (size_t i = 0; i < it->executors.count; i++) {
        if (types_equal(it->executors.items[i].inputs, types, input->type_count)) {
            it->last = i;
            return IPU_OK;
        }
    }
    map_program found;
    IPU_TRY(find_program(ctx, map, types, &found));
    map_executor made = {found.inputs, found.program, NULL};
    IPU_TRY(IPU_ARRAY_RESERVE(ctx, &it->executors, 1));
    IPU_TRY(ipu_executor_create(ctx, found.program, NULL, NULL, &made.executor));
    it->last = it->executors.count;
    return IPU_ARRAY_PUSH(ctx, &it->executors, made);
}

/* Runs the program of find_executor on an element. */
static ipu_status
run_program(ipu_ctx *ctx, map_iterator *it, const void *const *parts,
            void *const *results)
{
    ipu_executor *executor = it->executors.items[it->last].executor;
    ipu_executor_set_random(executor, it->seed, it->made * STEPS_PER_ELEMENT);
    const int32_t *cancel = ctx->cancel == NULL ? NULL : &ctx->cancel->flag;
    IPU_TRY(ipu_executor_set_pool(ctx, executor, ctx->pool));
    return ipu_executor_run(ctx, executor, parts, results, cancel, NULL);
}

/* Of map: into the buffers that are wanted, or its own. */
static ipu_status
make_element(ipu_ctx *ctx, map_iterator *it, const void *const *parts,
             ipu__element *out)
{
    const ipu_program *program = it->executors.items[it->last].program;
    uint32_t count = program->output_count;
    void *const *buffers = out->buffers;
    if (buffers == NULL) {
        IPU_TRY(ipu__store_fit(ctx, &it->store, program->outputs, count));
        buffers = it->store.parts;
    } else {
        IPU_TRY(ipu__types_check(ctx, program->outputs, out->wanted, count));
    }
    out->types = program->outputs;
    out->parts = (const void *const *)buffers;
    return run_program(ctx, it, parts, buffers);
}

/* Says in which element it went wrong; an exception of Python's, and being told to give
 * up, speak for themselves. */
static ipu_status
name_element(ipu_ctx *ctx, const map_iterator *it, ipu_status status)
{
    if (status == IPU_OK || status == IPU_STATUS_PYTHON ||
        status == IPU_STATUS_CANCELLED || ctx->status != status) {
        return status;
    }
    char message[sizeof(ctx->message)];
    ipu_source source = ctx->source;
    memcpy(message, ctx->message, sizeof(message));
    ipu_ctx_clear(ctx);
    /* to the consumer OUT_OF_RANGE is the end of the data */
    status = status == IPU_STATUS_OUT_OF_RANGE ? IPU_STATUS_INVALID_ARGUMENT : status;
    status = ipu_ctx_fail(ctx, status, "%s: element %" PRIu64 ": %s",
                          it->base.dataset->kind->name, it->made, message);
    ctx->source = source;
    return status;
}

static ipu_status
map_next(ipu_ctx *ctx, ipu_iterator *iterator, ipu__element *out)
{
    map_iterator *it = (map_iterator *)iterator;
    ipu__element element = {0};
    IPU_TRY(ipu__iterator_next(ctx, iterator->input, &element));
    out->end = element.end;
    if (element.end) {
        return IPU_OK;
    }
    ipu_status status = find_executor(ctx, it, element.types);
    if (status == IPU_OK) {
        status = make_element(ctx, it, element.parts, out);
    }
    status = name_element(ctx, it, status);
    it->made++;
    return status;
}

static ipu_status
filter_next(ipu_ctx *ctx, ipu_iterator *iterator, ipu__element *out)
{
    map_iterator *it = (map_iterator *)iterator;
    bool ends = ((const map_dataset *)iterator->dataset)->ends;
    uint8_t is_kept = 0;
    void *result = &is_kept;
    do {
        ipu__element element = {0};
        IPU_TRY(ipu__iterator_next(ctx, iterator->input, &element));
        out->types = element.types;
        out->parts = element.parts;
        out->end = element.end;
        if (out->end) {
            return IPU_OK;
        }
        ipu_status status = find_executor(ctx, it, element.types);
        if (status == IPU_OK) {
            status = run_program(ctx, it, element.parts, &result);
        }
        status = name_element(ctx, it, status);
        it->made++;
        IPU_TRY(status);
    } while (!is_kept && !ends);
    out->end = !is_kept;
    return IPU_OK;
}

static void
map_close(ipu_ctx *ctx, ipu_iterator *iterator)
{
    map_iterator *it = (map_iterator *)iterator;
    for (size_t i = 0; i < it->executors.count; i++) {
        ipu_executor_free(ctx, it->executors.items[i].executor);
    }
    IPU_ARRAY_FREE(ctx, &it->executors);
    ipu__store_free(ctx, &it->store);
}

static ipu_status
map_open(ipu_ctx *ctx, ipu_iterator *iterator, const ipu__pass *pass)
{
    (void)ctx;
    ((map_iterator *)iterator)->seed =
        ((const map_dataset *)iterator->dataset)->function.seed +
        ipu__pass_number(iterator->dataset, pass) * PASS_STRIDE;
    return IPU_OK;
}

static void
map_destroy(ipu_ctx *ctx, ipu_dataset *dataset)
{
    map_dataset *map = (map_dataset *)dataset;
    size_t bytes = dataset->inputs[0]->type_count * sizeof(ipu_type);
    for (size_t i = 0; i < map->programs.count; i++) {
        ipu_free(ctx, map->programs.items[i].inputs, bytes > 0 ? bytes : 1);
    }
    IPU_ARRAY_FREE(ctx, &map->programs);
    if (map->owns_function) {
        ipu_lock_destroy(&map->lock);
        if (map->function.release != NULL) {
            map->function.release(map->function.state);
        }
    }
}

#define KIND(text, speed, make) \
    { \
        .name = text, .pace = speed, .opens_input = true, \
        .bytes = sizeof(map_dataset), .iterator_bytes = sizeof(map_iterator), \
        .open = map_open, .next = make, .close = map_close, .destroy = map_destroy \
    }
static const ipu__kind map_kind = KIND("map", IPU__PACE_INPUTS, map_next);
static const ipu__kind filter_kind = KIND("filter", IPU__PACE_ANY, filter_next);
static const ipu__kind take_while_kind = KIND("take_while", IPU__PACE_ANY, filter_next);

static ipu_status
create(ipu_ctx *ctx, const ipu__kind *kind, ipu_dataset *input,
       const ipu_map_function *function, const ipu_type *types, uint32_t type_count,
       map_dataset **out)
{
    IPU_TRY(ipu__dataset_new(ctx, kind, &input, 1, types, type_count, out));
    ipu_lock_init(&(*out)->lock, NULL, NULL);
    (*out)->function = *function;
    (*out)->owns_function = true;
    (*out)->base.counts_passes = true;
    return IPU_OK;
}

ipu_status
ipu_dataset_map(ipu_ctx *ctx, ipu_dataset *input, const ipu_map_function *function,
                const ipu_type *outputs, uint32_t output_count, ipu_dataset **out)
{
    map_dataset *map;
    IPU_TRY(create(ctx, &map_kind, input, function, outputs, output_count, &map));
    map->base.cardinality = input->cardinality;
    *out = &map->base;
    return IPU_OK;
}

ipu_status
ipu_dataset_filter(ipu_ctx *ctx, ipu_dataset *input, const ipu_map_function *predicate,
                   bool ends, ipu_dataset **out)
{
    map_dataset *filter;
    IPU_TRY(create(ctx, ends ? &take_while_kind : &filter_kind, input, predicate,
                   input->types, input->type_count, &filter));
    filter->ends = ends;
    filter->base.stable = input->stable;
    *out = &filter->base;
    return IPU_OK;
}
