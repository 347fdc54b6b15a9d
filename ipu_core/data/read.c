/* SPDX-License-Identifier: MIT
 *
 * Reading elements for the sake of the reading: what a benchmark of a data set times.
 *
 * With `copy` each element is written where an infeed would have it written, into
 * buffers of the caller's side; otherwise it is made and not looked at again. */
#include "data/dataset_impl.h"

static ipu_status
count_bytes(ipu_ctx *ctx, const ipu_type *types, uint32_t count, uint64_t *bytes)
{
    for (uint32_t i = 0; i < count; i++) {
        size_t more = ipu_type_bytes(&types[i]);
        char text[96];
        IPU_FAIL_IF(ctx, more == 0, INVALID_ARGUMENT,
                    "Detected a tensor in the dataset with a dimension of size 0: %s",
                    ipu_type_print(&types[i], text, sizeof(text)));
        *bytes += more;
    }
    return IPU_OK;
}

static ipu_status
read_one(ipu_ctx *ctx, ipu_iterator *iterator, ipu__store *store, bool copy,
         uint64_t *bytes)
{
    const ipu_dataset *dataset = iterator->dataset;
    uint32_t count = dataset->type_count;
    if (copy && dataset->is_static) {
        IPU_TRY(count_bytes(ctx, dataset->types, count, bytes));
        return ipu_iterator_next_into(ctx, iterator, dataset->types, store->parts);
    }
    ipu__element element = {0};
    IPU_TRY(ipu_iterator_next(ctx, iterator, &element.types, &element.parts));
    IPU_TRY(count_bytes(ctx, element.types, count, bytes));
    return copy ? ipu__store_copy(ctx, store, &element, count) : IPU_OK;
}

ipu_status
ipu_iterator_read(ipu_ctx *ctx, ipu_iterator *iterator, int64_t count, bool copy,
                  uint64_t *bytes)
{
    const ipu_dataset *dataset = iterator->dataset;
    ipu__store store = {0};
    ipu_status status = IPU_OK;
    *bytes = 0;
    if (copy && dataset->is_static) {
        status = ipu__store_fit(ctx, &store, dataset->types, dataset->type_count);
    }
    for (int64_t i = 0; i < count && status == IPU_OK; i++) {
        status = read_one(ctx, iterator, &store, copy, bytes);
    }
    ipu__store_free(ctx, &store);
    return status;
}
