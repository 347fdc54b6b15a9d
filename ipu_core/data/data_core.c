/* SPDX-License-Identifier: MIT
 *
 * The common part of all data sets and iterators: counting, opening, the end of the
 * data, type checks, element storage.
 *
 * A data set is immutable except its reference count and its count of passes, both
 * atomic; so any thread may read it. An iterator owns a reference to its data set,
 * and with it to all memory the data set holds.
 *
 * Passes: before a root iterator opens anything it takes, from each shuffle below
 * it, as many pass numbers as it can need. The numbers depend on the order in which
 * root iterators are made and on nothing that runs ahead in other threads. */
#include "data/dataset_impl.h"

#include <inttypes.h>

#include "base/id_map.h"

uint32_t
ipu_dataset_types(const ipu_dataset *dataset, const ipu_type **out)
{
    *out = dataset->types;
    return dataset->type_count;
}

int64_t
ipu_dataset_cardinality(const ipu_dataset *dataset)
{
    return dataset->cardinality;
}

ipu_dataset *
ipu_dataset_ref(ipu_dataset *dataset)
{
    atomic_fetch_add_explicit(&dataset->refs, 1, memory_order_relaxed);
    return dataset;
}

/* Drops a reference; the last one puts the data set on a list of those to free. */
static void
drop_reference(ipu_dataset *dataset, ipu_dataset **unreferenced)
{
    if (dataset != NULL &&
        atomic_fetch_sub_explicit(&dataset->refs, 1, memory_order_acq_rel) == 1) {
        dataset->next_unreferenced = *unreferenced;
        *unreferenced = dataset;
    }
}

void
ipu_dataset_unref(ipu_dataset *dataset)
{
    ipu_dataset *unreferenced = NULL;
    drop_reference(dataset, &unreferenced);
    while (unreferenced != NULL) {
        ipu_ctx ctx;
        dataset = unreferenced;
        unreferenced = dataset->next_unreferenced;
        ipu_ctx_init(&ctx, dataset->allocator);
        if (dataset->kind->destroy != NULL) {
            dataset->kind->destroy(&ctx, dataset);
        }
        for (uint32_t i = 0; i < dataset->input_count; i++) {
            drop_reference(dataset->inputs[i], &unreferenced);
        }
        ipu_free(&ctx, dataset->inputs, dataset->input_count * sizeof(ipu_dataset *));
        ipu_free(&ctx, dataset->types, dataset->type_count * sizeof(ipu_type));
        ipu_free(&ctx, dataset, dataset->kind->bytes);
    }
}

static uint32_t
depth_over(const ipu__kind *kind, ipu_dataset *const *inputs, uint32_t count)
{
    uint32_t depth = 1;
    for (uint32_t i = 0; i < count; i++) {
        bool shares = kind->is_flat && inputs[i]->kind == kind;
        uint32_t over = inputs[i]->depth + (shares ? 0 : 1);
        depth = over > depth ? over : depth;
    }
    return depth;
}

static bool
is_quick(const ipu_dataset *dataset)
{
    ipu__pace pace = dataset->kind->pace;
    bool is_quick = dataset->is_static && pace != IPU__PACE_ANY &&
                    (pace != IPU__PACE_STABLE || dataset->inputs[0]->stable);
    for (uint32_t i = 0; i < dataset->input_count; i++) {
        is_quick = is_quick && dataset->inputs[i]->is_quick;
    }
    return is_quick;
}

/* Whether all sizes are known. */
static bool
is_static(const ipu_type *type)
{
    for (int32_t i = 0; i < type->shape.rank; i++) {
        if (type->shape.dims[i] < 0) {
            return false;
        }
    }
    return type->shape.rank >= 0;
}

void
ipu__dataset_typed(ipu_dataset *dataset)
{
    dataset->is_static = true;
    for (uint32_t i = 0; i < dataset->type_count; i++) {
        dataset->is_static = dataset->is_static && is_static(&dataset->types[i]);
    }
    dataset->is_quick = is_quick(dataset);
    for (uint32_t i = 0; i < dataset->input_count; i++) {
        int64_t shards = dataset->inputs[i]->shards;
        dataset->shards = shards > dataset->shards ? shards : dataset->shards;
    }
}

ipu_status
ipu__dataset_new(ipu_ctx *ctx, const ipu__kind *kind, ipu_dataset *const *inputs,
                 uint32_t input_count, const ipu_type *types, uint32_t type_count,
                 void *out)
{
    ipu_dataset *dataset;
    ipu_status status;
    uint32_t depth = depth_over(kind, inputs, input_count);
    IPU_FAIL_IF(ctx, depth > IPU__MAX_DEPTH, INVALID_ARGUMENT,
                "%s: this is transformation number %" PRIu32
                " on top of one another, and %d "
                "is the limit. Do several steps in the function of one map; only "
                "concatenate can be chained without a limit",
                kind->name, depth, (int)IPU__MAX_DEPTH);
    IPU_TRY(ipu_alloc(ctx, kind->bytes, &dataset));
    dataset->kind = kind;
    dataset->depth = depth;
    dataset->allocator = ctx->allocator;
    dataset->repeats = 1;
    dataset->cardinality = IPU_CARDINALITY_UNKNOWN;
    atomic_init(&dataset->refs, 1);
    atomic_init(&dataset->passes, 0);
    status = ipu_alloc(ctx, input_count * sizeof(ipu_dataset *), &dataset->inputs);
    if (status == IPU_OK) {
        status = ipu_alloc(ctx, type_count * sizeof(ipu_type), &dataset->types);
    }
    if (status != IPU_OK) {
        ipu_free(ctx, dataset->inputs, input_count * sizeof(ipu_dataset *));
        ipu_free(ctx, dataset, kind->bytes);
        return status;
    }
    dataset->input_count = input_count;
    for (uint32_t i = 0; i < input_count; i++) {
        dataset->inputs[i] = ipu_dataset_ref(inputs[i]);
        dataset->holds_counters = dataset->holds_counters ||
                                  inputs[i]->holds_counters || inputs[i]->counts_passes;
    }
    dataset->type_count = type_count;
    ipu_copy_bytes(dataset->types, types,
                   types == NULL ? 0 : type_count * sizeof(*types));
    ipu__dataset_typed(dataset);
    memcpy(out, &dataset, sizeof(dataset));
    return IPU_OK;
}

int64_t
ipu_dataset_shards(const ipu_dataset *dataset)
{
    return dataset->shards;
}

ipu_status
ipu__dataset_over(ipu_ctx *ctx, const ipu__kind *kind, ipu_dataset *input, void *out)
{
    ipu_dataset *dataset = NULL;
    IPU_TRY(ipu__dataset_new(ctx, kind, &input, 1, input->types, input->type_count,
                             &dataset));
    dataset->stable = input->stable;
    dataset->cardinality = input->cardinality;
    memcpy(out, &dataset, sizeof(dataset));
    return IPU_OK;
}

/* --- types ----------------------------------------------------------------------- */

bool
ipu__type_accepts(const ipu_type *declared, const ipu_type *made)
{
    if (declared->dtype != made->dtype) {
        return false;
    }
    if (declared->shape.rank < 0) {
        return true;
    }
    if (declared->shape.rank != made->shape.rank) {
        return false;
    }
    for (int32_t i = 0; i < made->shape.rank; i++) {
        if (declared->shape.dims[i] >= 0 &&
            declared->shape.dims[i] != made->shape.dims[i]) {
            return false;
        }
    }
    return true;
}

ipu_status
ipu__types_check(ipu_ctx *ctx, const ipu_type *made, const ipu_type *wanted,
                 uint32_t count)
{
    char made_text[96];
    char wanted_text[96];
    for (uint32_t i = 0; made != wanted && i < count; i++) {
        if (ipu_type_equal(&made[i], &wanted[i])) {
            continue;
        }
        bool batched = made[i].dtype == wanted[i].dtype && made[i].shape.rank > 0 &&
                       made[i].shape.rank == wanted[i].shape.rank &&
                       made[i].shape.dims[0] < wanted[i].shape.dims[0];
        IPU_FAIL(ctx, INVALID_ARGUMENT,
                 "component %" PRIu32 " of the data set's element is %s, but %s is "
                 "needed%s",
                 i, ipu_type_print(&made[i], made_text, sizeof(made_text)),
                 ipu_type_print(&wanted[i], wanted_text, sizeof(wanted_text)),
                 batched ? "; if it is a last, partial batch, use "
                           "batch(..., drop_remainder=True)"
                         : "");
    }
    return IPU_OK;
}

ipu_status
ipu__element_copy(ipu_ctx *ctx, const ipu_type *types, const void *const *parts,
                  const ipu_type *wanted, void *const *buffers, uint32_t count)
{
    IPU_TRY(ipu__types_check(ctx, types, wanted, count));
    for (uint32_t i = 0; i < count; i++) {
        size_t bytes = ipu_type_bytes(&wanted[i]);
        if (bytes > 0 && buffers[i] != parts[i]) {
            memcpy(buffers[i], parts[i], bytes);
        }
    }
    return IPU_OK;
}

/* --- storage of an element ------------------------------------------------------- */

static ipu_status
fit(ipu_ctx *ctx, ipu__store *store, const ipu_type *types, uint32_t count,
    bool keeps_bytes)
{
    if (store->count == 0 && count > 0) {
        IPU_TRY(ipu_alloc(ctx, count * sizeof(ipu_type), &store->types));
        ipu_status status = ipu_alloc(ctx, count * sizeof(void *), &store->parts);
        if (status == IPU_OK) {
            status = ipu_alloc(ctx, count * sizeof(size_t), &store->capacities);
        }
        if (status != IPU_OK) {
            ipu_free(ctx, store->parts, count * sizeof(void *));
            ipu_free(ctx, store->types, count * sizeof(ipu_type));
            *store = (ipu__store){0};
            return status;
        }
        store->count = count;
    }
    for (uint32_t i = 0; i < count; i++) {
        IPU_TRY(ipu_type_check(ctx, &types[i]));
        size_t bytes = ipu_type_bytes(&types[i]);
        if (bytes > store->capacities[i] || store->parts[i] == NULL) {
            size_t capacity = bytes > 0 ? bytes : 1;
            if (!keeps_bytes) {
                ipu_free(ctx, store->parts[i], store->capacities[i]);
                store->parts[i] = NULL;
                store->capacities[i] = 0;
            }
            IPU_TRY(ipu_resize(ctx, &store->parts[i], store->capacities[i], capacity));
            store->capacities[i] = capacity;
        }
        store->types[i] = types[i];
    }
    return IPU_OK;
}

ipu_status
ipu__store_fit(ipu_ctx *ctx, ipu__store *store, const ipu_type *types, uint32_t count)
{
    return fit(ctx, store, types, count, false);
}

ipu_status
ipu__store_grow(ipu_ctx *ctx, ipu__store *store, const ipu_type *types, uint32_t count)
{
    return fit(ctx, store, types, count, true);
}

ipu_status
ipu__store_copy(ipu_ctx *ctx, ipu__store *store, const ipu__element *element,
                uint32_t count)
{
    IPU_TRY(ipu__store_fit(ctx, store, element->types, count));
    for (uint32_t i = 0; i < count; i++) {
        ipu_copy_bytes(store->parts[i], element->parts[i],
                       ipu_type_bytes(&element->types[i]));
    }
    return IPU_OK;
}

void
ipu__store_free(ipu_ctx *ctx, ipu__store *store)
{
    for (uint32_t i = 0; i < store->count; i++) {
        ipu_free(ctx, store->parts[i], store->capacities[i]);
    }
    ipu_free(ctx, store->types, store->count * sizeof(ipu_type));
    ipu_free(ctx, store->parts, store->count * sizeof(void *));
    ipu_free(ctx, store->capacities, store->count * sizeof(size_t));
    *store = (ipu__store){0};
}

/* --- iterators ------------------------------------------------------------------- */

static ipu_status
open_parts(ipu_ctx *ctx, ipu_iterator *iterator, const ipu__pass *pass)
{
    const ipu_dataset *dataset = iterator->dataset;
    const ipu__kind *kind = dataset->kind;
    IPU_TRY(ipu_alloc(ctx, dataset->type_count * sizeof(ipu_type), &iterator->types));
    IPU_TRY(ipu_alloc(ctx, dataset->type_count * sizeof(void *), &iterator->parts));
    if (kind->opens_input) {
        IPU_TRY(ipu__iterator_open(ctx, dataset->inputs[0], pass, &iterator->input));
    }
    return kind->open == NULL ? IPU_OK : kind->open(ctx, iterator, pass);
}

ipu_status
ipu__iterator_open(ipu_ctx *ctx, ipu_dataset *dataset, const ipu__pass *pass,
                   ipu_iterator **out)
{
    ipu_iterator *iterator;
    IPU_TRY(ipu_alloc(ctx, dataset->kind->iterator_bytes, &iterator));
    iterator->dataset = ipu_dataset_ref(dataset);
    iterator->allocator = ctx->allocator;
    ipu_status status = open_parts(ctx, iterator, pass);
    if (status != IPU_OK) {
        ipu_iterator_free(iterator);
        return status;
    }
    *out = iterator;
    return IPU_OK;
}

typedef struct reading {
    ipu_dataset *dataset;
    uint64_t times;  /* that one pass of the root reads it */
    bool is_numbered; /* by one above it */
} reading;

typedef struct pass_list {
    IPU_ARRAY(ipu__pass_base) bases;
    IPU_ARRAY(reading) open;  /* still to be looked at; the last one is next */
    ipu_id_map seen;          /* by address */
} pass_list;

/* Takes passes of every data set that counts them in `root` and below it. A data
 * set that is reached on several ways is looked at once. */
static ipu_status
take_passes(ipu_ctx *ctx, ipu_dataset *root, pass_list *list)
{
    const reading first = {root, 1, false};
    IPU_TRY(IPU_ARRAY_PUSH(ctx, &list->open, first));
    while (list->open.count > 0) {
        reading now = list->open.items[--list->open.count];
        ipu_dataset *dataset = now.dataset;
        bool is_new = false;
        if (dataset->holds_counters || dataset->counts_passes) {
            is_new = !ipu_id_map_has(&list->seen, (uintptr_t)dataset);
            IPU_TRY(ipu_id_map_put(ctx, &list->seen, (uintptr_t)dataset, 0));
        }
        if (is_new && dataset->counts_passes) {
            ipu__pass_base base = {dataset, 0};
            if (!now.is_numbered) {
                base.base = atomic_fetch_add(&dataset->passes, now.times);
            }
            IPU_TRY(IPU_ARRAY_PUSH(ctx, &list->bases, base));
        }
        now.times *=
            dataset->repeats < 0 ? IPU__ENDLESS_PASSES : (uint64_t)dataset->repeats;
        now.is_numbered = now.is_numbered || dataset->numbers_passes;
        for (uint32_t i = dataset->input_count; is_new && i-- > 0;) {
            now.dataset = dataset->inputs[i];
            IPU_TRY(IPU_ARRAY_PUSH(ctx, &list->open, now));
        }
    }
    return IPU_OK;
}

uint64_t
ipu__pass_number(const ipu_dataset *dataset, const ipu__pass *pass)
{
    for (uint32_t i = 0; i < pass->taken->count; i++) {
        if (pass->taken->bases[i].dataset == dataset) {
            return pass->taken->bases[i].base + pass->index;
        }
    }
    return 0;
}

ipu__passes *
ipu__passes_ref(ipu__passes *passes)
{
    atomic_fetch_add_explicit(&passes->refs, 1, memory_order_relaxed);
    return passes;
}

void
ipu__passes_unref(ipu__passes *passes)
{
    if (passes == NULL ||
        atomic_fetch_sub_explicit(&passes->refs, 1, memory_order_acq_rel) > 1) {
        return;
    }
    ipu_ctx ctx;
    ipu_ctx_init(&ctx, passes->allocator);
    ipu_free(&ctx, passes, sizeof(*passes) + passes->count * sizeof(ipu__pass_base));
}

static ipu_status
passes_create(ipu_ctx *ctx, ipu_dataset *dataset, ipu__passes **out)
{
    pass_list list = {0};
    ipu__passes *passes = NULL;
    ipu_status status = take_passes(ctx, dataset, &list);
    size_t bytes = list.bases.count * sizeof(ipu__pass_base);
    if (status == IPU_OK) {
        status = ipu_alloc(ctx, sizeof(*passes) + bytes, &passes);
    }
    if (status == IPU_OK) {
        atomic_init(&passes->refs, 1);
        passes->allocator = ctx->allocator;
        passes->count = (uint32_t)list.bases.count;
        ipu_copy_bytes(passes->bases, list.bases.items, bytes);
    }
    IPU_ARRAY_FREE(ctx, &list.bases);
    IPU_ARRAY_FREE(ctx, &list.open);
    ipu_id_map_free(ctx, &list.seen);
    *out = passes;
    return status;
}

ipu_status
ipu_iterator_create(ipu_ctx *ctx, ipu_dataset *dataset, ipu_iterator **out)
{
    ipu__pass pass = {NULL, 0};
    *out = NULL;
    IPU_TRY(passes_create(ctx, dataset, &pass.taken));
    ipu_status status = ipu__iterator_open(ctx, dataset, &pass, out);
    if (status != IPU_OK) {
        ipu__passes_unref(pass.taken);
        return status;
    }
    (*out)->passes = pass.taken;
    return IPU_OK;
}

void
ipu_iterator_free(ipu_iterator *iterator)
{
    if (iterator == NULL) {
        return;
    }
    ipu_ctx ctx;
    ipu_ctx_init(&ctx, iterator->allocator);
    const ipu__kind *kind = iterator->dataset->kind;
    size_t count = iterator->dataset->type_count;
    if (kind->close != NULL) {
        kind->close(&ctx, iterator);
    }
    ipu_iterator_free(iterator->input);
    ipu_free(&ctx, iterator->types, count * sizeof(ipu_type));
    ipu_free(&ctx, iterator->parts, count * sizeof(void *));
    ipu_dataset_unref(iterator->dataset);
    ipu__passes_unref(iterator->passes);
    ipu_free(&ctx, iterator, kind->iterator_bytes);
}

void
ipu_iterator_visit(const ipu_iterator *iterator, ipu_visit_fn *visit, void *argument)
{
    for (; iterator != NULL; iterator = iterator->input) {
        if (iterator->dataset->kind->visit != NULL) {
            iterator->dataset->kind->visit(iterator, visit, argument);
        }
    }
}

static ipu_status
check_flag(ipu_ctx *ctx)
{
    IPU_FAIL_IF(ctx,
                ctx->cancel != NULL &&
                    __atomic_load_n(&ctx->cancel->flag, __ATOMIC_RELAXED) != 0,
                CANCELLED, "interrupted while an element of a data set was made");
    return IPU_OK;
}

/* Asks for signals, before an element is made: asking after it would lose it. */
static ipu_status
check_cancel(ipu_ctx *ctx)
{
    (void)ipu_ctx_is_cancelled(ctx);
    return check_flag(ctx);
}

ipu_status
ipu__iterator_next(ipu_ctx *ctx, ipu_iterator *iterator, ipu__element *out)
{
    out->end = iterator->done;
    if (iterator->done) {
        return IPU_OK;
    }
    IPU_TRY(check_cancel(ctx));
    IPU_TRY(iterator->dataset->kind->next(ctx, iterator, out));
    IPU_TRY(check_flag(ctx));
    iterator->done = out->end;
    if (out->end || out->buffers == NULL) {
        return IPU_OK;
    }
    uint32_t count = iterator->dataset->type_count;
    IPU_TRY(ipu__element_copy(ctx, out->types, out->parts, out->wanted, out->buffers,
                              count));
    out->types = out->wanted;
    out->parts = (const void *const *)out->buffers;
    return IPU_OK;
}

ipu_status
ipu__iterator_fill(ipu_ctx *ctx, ipu_iterator *iterator, const ipu_type *types,
                   void *const *buffers, bool *end)
{
    ipu__element element = {.wanted = types, .buffers = buffers};
    IPU_TRY(ipu__iterator_next(ctx, iterator, &element));
    *end = element.end;
    return IPU_OK;
}

ipu_status
ipu_iterator_next(ipu_ctx *ctx, ipu_iterator *iterator, const ipu_type **types,
                  const void *const **components)
{
    ipu__element element = {0};
    IPU_TRY(ipu__iterator_next(ctx, iterator, &element));
    IPU_FAIL_IF(ctx, element.end, OUT_OF_RANGE, "end of the data set");
    *types = element.types;
    *components = element.parts;
    return IPU_OK;
}

ipu_status
ipu_iterator_next_into(ipu_ctx *ctx, ipu_iterator *iterator, const ipu_type *types,
                       void *const *buffers)
{
    bool end;
    IPU_TRY(ipu__iterator_fill(ctx, iterator, types, buffers, &end));
    IPU_FAIL_IF(ctx, end, OUT_OF_RANGE, "end of the data set");
    return IPU_OK;
}
