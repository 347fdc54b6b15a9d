/* SPDX-License-Identifier: MIT
 *
 * Batch: stacks `size` consecutive elements along a new first axis.
 *
 * Three ways to make the rows, by what the input can do:
 * - stable input: gather the rows' pointers, then copy them, asking the cache for
 *   rows a few ahead (after a shuffle they lie anywhere in memory);
 * - types known: the input fills each row in place (a map's program writes there
 *   itself);
 * - otherwise the first element of a batch decides the row's type and the others
 *   must have the same.
 *
 * A fill writes the rows straight into the caller's buffers (an infeed slot). Memory of
 * our own grows with the rows there are: a size beyond the data costs nothing. */
#include "data/dataset_impl.h"

#include <inttypes.h>

enum {
    ROWS_AHEAD = 4,
    CACHE_LINE = 64,
    BYTES_AHEAD = 1024, /* of a row; the hardware follows from there */
    TASK_BYTES = 16 * 1024,
    FIRST_ROOM_BYTES = 64 * 1024
};

typedef struct batch_dataset {
    ipu_dataset base;
    int64_t size;
    bool drop_remainder;
} batch_dataset;

typedef struct batch_iterator {
    ipu_iterator base;
    uint64_t made;      /* elements read */
    int64_t kept;       /* rows of a call that was cancelled while it waited for more */
    ipu__store store;   /* of next; of those rows, but for views */
    int64_t room;       /* rows that fit into the store */
    const void **views; /* stable input: component c of row r at c * size + r */
    size_t view_count;
    void **row; /* where the input fills a row */
} batch_iterator;

static ipu_type
batched(const ipu_type *row, int64_t size)
{
    ipu_type type = *row;
    if (row->shape.rank < 0) {
        return type;
    }
    type.shape.rank = row->shape.rank + 1;
    type.shape.dims[0] = size;
    for (int32_t i = 0; i < row->shape.rank; i++) {
        type.shape.dims[i + 1] = row->shape.dims[i];
    }
    return type;
}

typedef struct rows_copy {
    char *to;
    const void *const *rows;
    int64_t count;
    size_t bytes; /* of a row */
    int64_t rows_a_task;
} rows_copy;

static void
copy_some_rows(void *state, int32_t task, int32_t worker)
{
    const rows_copy *copy = state;
    size_t bytes = copy->bytes;
    size_t ahead = bytes < BYTES_AHEAD ? bytes : BYTES_AHEAD;
    int64_t first = task * copy->rows_a_task;
    int64_t end = first + copy->rows_a_task;
    end = end < copy->count ? end : copy->count;
    (void)worker;
    for (int64_t r = first; r < end; r++) {
        if (r + ROWS_AHEAD < end) {
            const char *next = copy->rows[r + ROWS_AHEAD];
            for (size_t b = 0; b < ahead; b += CACHE_LINE) {
                __builtin_prefetch(next + b);
            }
        }
        memcpy(copy->to + (size_t)r * bytes, copy->rows[r], bytes);
    }
}

static void
copy_rows(ipu_pool *pool, char *to, const void *const *rows, int64_t count,
          size_t bytes)
{
    if (bytes == 0 || count == 0) {
        return;
    }
    int64_t rows_a_task = bytes < TASK_BYTES ? (int64_t)(TASK_BYTES / bytes) : 1;
    int64_t tasks = (count + rows_a_task - 1) / rows_a_task;
    if (tasks > INT32_MAX) {
        rows_a_task = count;
        tasks = 1;
    }
    rows_copy copy = {to, rows, count, bytes, rows_a_task};
    ipu_pool_run(pool, (int32_t)tasks, copy_some_rows, &copy);
}

/* Views of rows from number *rows up to a batch's, or to the input's end. */
static ipu_status
rows_of_views(ipu_ctx *ctx, batch_iterator *it, int64_t *rows)
{
    const ipu_dataset *input = it->base.dataset->inputs[0];
    int64_t size = ((const batch_dataset *)it->base.dataset)->size;
    for (; *rows < size; ++*rows) {
        size_t r = (size_t)*rows;
        ipu__element element = {0};
        if (r == it->view_count) {
            /* not `size` at once, which may be far beyond the data */
            size_t grown = it->view_count < 128 ? 128 : it->view_count * 2;
            grown = grown > (size_t)size ? (size_t)size : grown;
            size_t count = input->type_count;
            const void **views;
            size_t bytes;
            IPU_TRY(ipu_mul_size(ctx, grown, count * sizeof(void *), &bytes));
            IPU_TRY(ipu_alloc(ctx, bytes, &views));
            for (size_t c = 0; c < count && r > 0; c++) {
                memcpy(views + c * grown, it->views + c * it->view_count,
                       r * sizeof(void *));
            }
            ipu_free(ctx, it->views, it->view_count * count * sizeof(void *));
            it->views = views;
            it->view_count = grown;
        }
        IPU_TRY(ipu__iterator_next(ctx, it->base.input, &element));
        if (element.end) {
            break;
        }
        for (uint32_t c = 0; c < input->type_count; c++) {
            it->views[c * it->view_count + r] = element.parts[c];
        }
    }
    return IPU_OK;
}

/* Fills rows from number *rows up to `room` of `buffers`, or to the input's end. */
static ipu_status
rows_filled(ipu_ctx *ctx, batch_iterator *it, void *const *buffers, int64_t room,
            int64_t *rows, bool *end)
{
    const ipu_dataset *input = it->base.dataset->inputs[0];
    for (; *rows < room; ++*rows) {
        for (uint32_t c = 0; c < input->type_count; c++) {
            it->row[c] =
                (char *)buffers[c] + (size_t)*rows * ipu_type_bytes(&input->types[c]);
        }
        IPU_TRY(ipu__iterator_fill(ctx, it->base.input, input->types, it->row, end));
        if (*end) {
            break;
        }
    }
    return IPU_OK;
}

/* Makes room for more rows of these types: twice as many, up to a whole batch. */
static ipu_status
make_room(ipu_ctx *ctx, batch_iterator *it, const ipu_type *row_types)
{
    int64_t size = ((const batch_dataset *)it->base.dataset)->size;
    uint32_t count = it->base.dataset->type_count;
    int64_t room = it->room > size / 2 ? size : 2 * it->room;
    if (it->room == 0) {
        size_t row_bytes = 1;
        for (uint32_t c = 0; c < count; c++) {
            size_t bytes = ipu_type_bytes(&row_types[c]);
            row_bytes = bytes > row_bytes ? bytes : row_bytes;
        }
        room = row_bytes < FIRST_ROOM_BYTES ? FIRST_ROOM_BYTES / (int64_t)row_bytes : 1;
        room = room < size ? room : size;
    }
    for (uint32_t c = 0; c < count; c++) {
        it->base.types[c] = batched(&row_types[c], room);
    }
    IPU_TRY(ipu__store_grow(ctx, &it->store, it->base.types, count));
    it->room = room;
    return IPU_OK;
}

/* Rows of known types, into the store. */
static ipu_status
rows_stored(ipu_ctx *ctx, batch_iterator *it, int64_t *rows)
{
    const ipu_dataset *input = it->base.dataset->inputs[0];
    int64_t size = ((const batch_dataset *)it->base.dataset)->size;
    bool end = false;
    while (*rows < size && !end) {
        if (*rows == it->room) {
            IPU_TRY(make_room(ctx, it, input->types));
        }
        IPU_TRY(rows_filled(ctx, it, it->store.parts, it->room, rows, &end));
    }
    return IPU_OK;
}

/* That there is room for one more axis. */
static ipu_status
check_ranks(ipu_ctx *ctx, const ipu_type *types, uint32_t count)
{
    for (uint32_t c = 0; c < count; c++) {
        IPU_FAIL_IF(ctx, types[c].shape.rank >= IPU_MAX_RANK, INVALID_ARGUMENT,
                    "batch: component %" PRIu32 " has rank %" PRId32
                    "; a batch of it would exceed the largest rank, %d",
                    c, types[c].shape.rank, (int)IPU_MAX_RANK);
    }
    return IPU_OK;
}

static ipu_status
check_row(ipu_ctx *ctx, const batch_iterator *it, const ipu__element *element,
          int64_t row)
{
    uint32_t count = it->base.dataset->type_count;
    for (uint32_t c = 0; c < count; c++) {
        ipu_type type = batched(&element->types[c], it->base.types[c].shape.dims[0]);
        char made[96];
        char first[96];
        ipu_type other = it->base.types[c];
        if (ipu_type_equal(&type, &other)) {
            continue;
        }
        other.shape =
            ipu_shape_make(other.shape.rank - 1, it->base.types[c].shape.dims + 1);
        IPU_FAIL(ctx, INVALID_ARGUMENT,
                 "batch: element %" PRIu64 " has component %" PRIu32
                 " of %s, but element %" PRIu64 ", the first of its batch, has %s; all "
                 "elements of a batch must have the same shape",
                 it->made + (uint64_t)row, c,
                 ipu_type_print(&element->types[c], made, sizeof(made)), it->made,
                 ipu_type_print(&other, first, sizeof(first)));
    }
    return IPU_OK;
}

/* Copies rows into the store. The first row of a batch gives the type of all. */
static ipu_status
rows_found(ipu_ctx *ctx, batch_iterator *it, int64_t *rows)
{
    const batch_dataset *batch = (const batch_dataset *)it->base.dataset;
    uint32_t count = it->base.dataset->type_count;
    for (; *rows < batch->size; ++*rows) {
        ipu__element element = {0};
        IPU_TRY(ipu__iterator_next(ctx, it->base.input, &element));
        if (element.end) {
            break;
        }
        if (*rows == 0) {
            IPU_TRY(check_ranks(ctx, element.types, count));
            it->room = 0;
        } else {
            IPU_TRY(check_row(ctx, it, &element, *rows));
        }
        if (*rows == it->room) {
            IPU_TRY(make_room(ctx, it, element.types));
        }
        for (uint32_t c = 0; c < count; c++) {
            size_t bytes = ipu_type_bytes(&element.types[c]);
            ipu_copy_bytes((char *)it->store.parts[c] + (size_t)*rows * bytes,
                           element.parts[c], bytes);
        }
    }
    return IPU_OK;
}

/* Whether the reader's buffers are for whole batches of rows that are known. */
static bool
can_fill(const batch_iterator *it, const ipu__element *out)
{
    const batch_dataset *batch = (const batch_dataset *)it->base.dataset;
    const ipu_dataset *input = batch->base.inputs[0];
    bool can = out->buffers != NULL && input->is_static;
    for (uint32_t c = 0; c < input->type_count && can; c++) {
        ipu_type whole = batched(&input->types[c], batch->size);
        can = ipu_type_equal(&whole, &out->wanted[c]);
    }
    return can;
}

/* Between the store and a reader's buffers: the rows that are kept. */
static void
move_kept(const batch_iterator *it, void *const *buffers, bool to_store)
{
    const ipu_dataset *input = it->base.dataset->inputs[0];
    for (uint32_t c = 0; c < input->type_count && it->kept > 0; c++) {
        void *stored = it->store.parts[c];
        ipu_copy_bytes(to_store ? stored : buffers[c], to_store ? buffers[c] : stored,
                       (size_t)it->kept * ipu_type_bytes(&input->types[c]));
    }
}

/* Rows of known types, into a reader's buffers, which it may not have again. */
static ipu_status
rows_given(ipu_ctx *ctx, batch_iterator *it, void *const *buffers, int64_t *rows)
{
    const batch_dataset *batch = (const batch_dataset *)it->base.dataset;
    bool end = false;
    move_kept(it, buffers, false);
    ipu_status status = rows_filled(ctx, it, buffers, batch->size, rows, &end);
    if (status == IPU_STATUS_CANCELLED) {
        while (it->room < *rows) {
            IPU_TRY(make_room(ctx, it, batch->base.inputs[0]->types));
        }
        it->kept = *rows;
        move_kept(it, buffers, true);
    }
    return status;
}

static ipu_status
batch_next(ipu_ctx *ctx, ipu_iterator *iterator, ipu__element *out)
{
    batch_iterator *it = (batch_iterator *)iterator;
    const batch_dataset *batch = (const batch_dataset *)iterator->dataset;
    const ipu_dataset *input = iterator->dataset->inputs[0];
    uint32_t count = iterator->dataset->type_count;
    int64_t rows = it->kept;
    bool fills = can_fill(it, out);
    ipu_status status = input->stable      ? rows_of_views(ctx, it, &rows)
                        : fills            ? rows_given(ctx, it, out->buffers, &rows)
                        : input->is_static ? rows_stored(ctx, it, &rows)
                                           : rows_found(ctx, it, &rows);
    it->kept = status == IPU_STATUS_CANCELLED ? rows : 0;
    IPU_TRY(status);
    for (uint32_t c = 0; c < count && (fills || input->is_static); c++) {
        it->base.types[c] = fills ? out->wanted[c] : batched(&input->types[c], rows);
    }
    if (input->stable && !fills) { /* how many rows there are is known before */
        IPU_TRY(ipu__store_fit(ctx, &it->store, it->base.types, count));
    }
    void *const *parts = fills ? out->buffers : it->store.parts;
    for (uint32_t c = 0; c < count && input->stable; c++) {
        copy_rows(ctx->pool, parts[c], it->views + c * it->view_count, rows,
                  ipu_type_bytes(&input->types[c]));
    }
    it->made += (uint64_t)rows;
    out->end = rows == 0 || (rows < batch->size && batch->drop_remainder);
    for (uint32_t c = 0; c < count; c++) {
        it->base.types[c].shape.dims[0] = rows;
    }
    out->types = it->base.types;
    out->parts = (const void *const *)parts;
    return IPU_OK;
}

static void
batch_close(ipu_ctx *ctx, ipu_iterator *iterator)
{
    batch_iterator *it = (batch_iterator *)iterator;
    size_t count = iterator->dataset->type_count;
    ipu__store_free(ctx, &it->store);
    ipu_free(ctx, it->row, count * sizeof(void *));
    ipu_free(ctx, it->views, it->view_count * count * sizeof(void *));
}

static ipu_status
batch_open(ipu_ctx *ctx, ipu_iterator *iterator, const ipu__pass *pass)
{
    (void)pass;
    return ipu_alloc(ctx, iterator->dataset->type_count * sizeof(void *),
                     &((batch_iterator *)iterator)->row);
}

IPU__KIND(batch_kind, "batch", batch_dataset, batch_iterator, .pace = IPU__PACE_STABLE,
          .opens_input = true, .open = batch_open, .next = batch_next,
          .close = batch_close);

ipu_status
ipu_dataset_batch(ipu_ctx *ctx, ipu_dataset *input, int64_t size, bool drop_remainder,
                  ipu_dataset **out)
{
    batch_dataset *batch = NULL;
    int64_t n = input->cardinality;
    IPU_FAIL_IF(ctx, size <= 0, INVALID_ARGUMENT,
                "batch: batch_size must be greater than zero, not %" PRId64, size);
    IPU_TRY(check_ranks(ctx, input->types, input->type_count));
    IPU_TRY(
        ipu__dataset_new(ctx, &batch_kind, &input, 1, NULL, input->type_count, &batch));
    for (uint32_t i = 0; i < input->type_count; i++) {
        batch->base.types[i] = batched(&input->types[i], drop_remainder ? size : -1);
    }
    ipu__dataset_typed(&batch->base);
    batch->size = size;
    batch->drop_remainder = drop_remainder;
    batch->base.cardinality =
        n < 0 ? n : n / size + (!drop_remainder && n % size != 0 ? 1 : 0);
    *out = &batch->base;
    return IPU_OK;
}
