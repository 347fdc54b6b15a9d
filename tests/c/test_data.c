/* SPDX-License-Identifier: MIT
 *
 * Data sets: every source and transformation against results written down by hand,
 * the cardinality algebra, the order of shuffles, bad input, threads, and a failing
 * allocator swept through a whole pipeline. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "check.h"
#include "data/dataset.h"
#include "passes/passes.h"
#include "run/queue.h"

static ipu_ctx ctx;

static ipu_type
type_of(ipu_dtype dtype, int32_t rank, int64_t a, int64_t b)
{
    const int64_t dims[2] = {a, b};
    return (ipu_type){dtype, ipu_shape_make(rank, dims)};
}

static ipu_dataset *
range_of(int64_t stop)
{
    ipu_dataset *dataset = NULL;
    CHECK_OK(&ctx, ipu_dataset_range(&ctx, 0, stop, 1, &dataset));
    return dataset;
}

/* Reads up to `most` int64 of component 0, then expects the end. */
static int64_t
read_all(ipu_dataset *dataset, int64_t *out, int64_t most)
{
    ipu_iterator *iterator = NULL;
    int64_t count = 0;
    ipu_ctx own;
    ipu_ctx_init(&own, ipu_allocator_default());
    CHECK_OK(&own, ipu_iterator_create(&own, dataset, &iterator));
    while (iterator != NULL) {
        const ipu_type *types;
        const void *const *parts;
        ipu_status status = ipu_iterator_next(&own, iterator, &types, &parts);
        if (status != IPU_OK) {
            CHECK(status == IPU_STATUS_OUT_OF_RANGE);
            ipu_ctx_clear(&own);
            /* the end stays the end */
            CHECK(ipu_iterator_next(&own, iterator, &types, &parts) ==
                  IPU_STATUS_OUT_OF_RANGE);
            break;
        }
        int64_t elements = ipu_shape_elements(&types[0].shape);
        for (int64_t i = 0; i < elements && count < most; i++) {
            out[count++] = ((const int64_t *)parts[0])[i];
        }
        if (count >= most) {
            break;
        }
    }
    ipu_iterator_free(iterator);
    return count;
}

static void
expect(ipu_dataset *dataset, const char *name, const int64_t *values, int64_t count)
{
    int64_t got[256];
    int64_t made = read_all(dataset, got, 256);
    CHECK(made == count);
    bool same = made == count;
    for (int64_t i = 0; same && i < count; i++) {
        same = got[i] == values[i];
    }
    CHECK(same);
    if (!same) {
        fprintf(stderr, "%s: %lld elements, first %lld\n", name, (long long)made,
                (long long)got[0]);
    }
}

#define EXPECT(dataset, ...) \
    do { \
        const int64_t values_[] = {__VA_ARGS__}; \
        expect((dataset), #dataset, values_, (int64_t)(sizeof(values_) / 8)); \
    } while (0)

/* Replaces *dataset by a transformation of it. */
#define THEN(dataset, call) \
    do { \
        ipu_dataset *made_ = NULL; \
        CHECK_OK(&ctx, call); \
        ipu_dataset_unref(dataset); \
        (dataset) = made_; \
    } while (0)

static void
test_range(void)
{
    ipu_dataset *dataset = range_of(4);
    EXPECT(dataset, 0, 1, 2, 3);
    CHECK(ipu_dataset_cardinality(dataset) == 4);
    ipu_dataset_unref(dataset);
    CHECK_OK(&ctx, ipu_dataset_range(&ctx, 5, -4, -3, &dataset));
    EXPECT(dataset, 5, 2, -1);
    ipu_dataset_unref(dataset);
    CHECK_OK(&ctx, ipu_dataset_range(&ctx, INT64_MAX - 1, INT64_MAX, 7, &dataset));
    EXPECT(dataset, INT64_MAX - 1);
    ipu_dataset_unref(dataset);
    CHECK_OK(&ctx, ipu_dataset_range(&ctx, 3, 3, 1, &dataset));
    CHECK(ipu_dataset_cardinality(dataset) == 0);
    ipu_dataset_unref(dataset);
    CHECK(ipu_dataset_range(&ctx, 0, 1, 0, &dataset) == IPU_STATUS_INVALID_ARGUMENT);
    ipu_ctx_clear(&ctx);
    CHECK(ipu_dataset_range(&ctx, INT64_MIN, INT64_MAX, 1, &dataset) ==
          IPU_STATUS_INVALID_ARGUMENT);
    ipu_ctx_clear(&ctx);
}

static void
count_release(void *owner)
{
    ++*(int *)owner;
}

static void
test_slices(void)
{
    int32_t rows[3][2] = {{1, 2}, {3, 4}, {5, 6}};
    int64_t labels[3] = {7, 8, 9};
    int released = 0;
    const ipu_type types[] = {type_of(IPU_DTYPE_INT32, 2, 3, 2),
                              type_of(IPU_DTYPE_INT64, 1, 3, 0)};
    const ipu_foreign_buffer buffers[] = {{rows, count_release, &released},
                                          {labels, count_release, &released}};
    ipu_dataset *dataset;
    ipu_iterator *iterator;
    CHECK_OK(&ctx, ipu_dataset_slices(&ctx, types, buffers, 2, &dataset));
    CHECK(ipu_dataset_cardinality(dataset) == 3);
    CHECK_OK(&ctx, ipu_iterator_create(&ctx, dataset, &iterator));
    ipu_dataset_unref(dataset);
    for (int i = 0; i < 3; i++) {
        const ipu_type *made;
        const void *const *parts;
        CHECK_OK(&ctx, ipu_iterator_next(&ctx, iterator, &made, &parts));
        CHECK(made[0].shape.rank == 1 && made[0].shape.dims[0] == 2);
        CHECK(parts[0] == rows[i]); /* held, not copied */
        CHECK(*(const int64_t *)parts[1] == 7 + i);
    }
    CHECK(released == 0);
    ipu_iterator_free(iterator);
    CHECK(released == 2);

    CHECK_OK(&ctx, ipu_dataset_tensors(&ctx, types, buffers, 2, &dataset));
    CHECK(ipu_dataset_cardinality(dataset) == 1);
    ipu_dataset_unref(dataset);
    CHECK(released == 4);

    const ipu_type uneven[] = {types[0], type_of(IPU_DTYPE_INT64, 1, 2, 0)};
    CHECK(ipu_dataset_slices(&ctx, uneven, buffers, 2, &dataset) == IPU_STATUS_VALUE);
    ipu_ctx_clear(&ctx);
    const ipu_type scalar = type_of(IPU_DTYPE_INT64, 0, 0, 0);
    CHECK(ipu_dataset_slices(&ctx, &scalar, buffers, 1, &dataset) == IPU_STATUS_VALUE);
    ipu_ctx_clear(&ctx);
    CHECK(released == 4); /* a constructor that fails leaves the memory alone */
}

static void
test_order(void)
{
    ipu_dataset *dataset = range_of(5);
    THEN(dataset, ipu_dataset_batch(&ctx, dataset, 2, false, &made_));
    CHECK(ipu_dataset_cardinality(dataset) == 3);
    EXPECT(dataset, 0, 1, 2, 3, 4);
    THEN(dataset, ipu_dataset_skip(&ctx, dataset, 1, &made_));
    EXPECT(dataset, 2, 3, 4);
    ipu_dataset_unref(dataset);

    dataset = range_of(5);
    THEN(dataset, ipu_dataset_batch(&ctx, dataset, 2, true, &made_));
    CHECK(ipu_dataset_cardinality(dataset) == 2);
    EXPECT(dataset, 0, 1, 2, 3);
    THEN(dataset, ipu_dataset_repeat(&ctx, dataset, 2, &made_));
    CHECK(ipu_dataset_cardinality(dataset) == 4);
    EXPECT(dataset, 0, 1, 2, 3, 0, 1, 2, 3);
    THEN(dataset, ipu_dataset_take(&ctx, dataset, 3, &made_));
    EXPECT(dataset, 0, 1, 2, 3, 0, 1);
    THEN(dataset, ipu_dataset_prefetch(&ctx, dataset, 1, &made_));
    EXPECT(dataset, 0, 1, 2, 3, 0, 1);
    ipu_dataset_unref(dataset);

    dataset = range_of(3);
    THEN(dataset, ipu_dataset_repeat(&ctx, dataset, -1, &made_));
    CHECK(ipu_dataset_cardinality(dataset) == IPU_CARDINALITY_INFINITE);
    THEN(dataset, ipu_dataset_take(&ctx, dataset, 7, &made_));
    CHECK(ipu_dataset_cardinality(dataset) == 7);
    EXPECT(dataset, 0, 1, 2, 0, 1, 2, 0);
    ipu_dataset_unref(dataset);

    /* an endless repeat of nothing ends */
    dataset = range_of(0);
    THEN(dataset, ipu_dataset_repeat(&ctx, dataset, -1, &made_));
    CHECK(ipu_dataset_cardinality(dataset) == 0);
    expect(dataset, "nothing", NULL, 0);
    ipu_dataset_unref(dataset);

    /* rows filled by the input, not gathered: batch of a batch */
    dataset = range_of(8);
    THEN(dataset, ipu_dataset_batch(&ctx, dataset, 2, true, &made_));
    THEN(dataset, ipu_dataset_batch(&ctx, dataset, 3, false, &made_));
    EXPECT(dataset, 0, 1, 2, 3, 4, 5, 6, 7);
    ipu_dataset_unref(dataset);
}

static void
test_zip(void)
{
    ipu_dataset *both[2] = {range_of(3), range_of(5)};
    ipu_dataset *dataset;
    CHECK_OK(&ctx, ipu_dataset_zip(&ctx, both, 2, &dataset));
    CHECK(ipu_dataset_cardinality(dataset) == 3);
    EXPECT(dataset, 0, 1, 2);
    ipu_dataset_unref(both[0]);
    ipu_dataset_unref(both[1]);
    ipu_dataset_unref(dataset);
    CHECK(ipu_dataset_zip(&ctx, both, 0, &dataset) == IPU_STATUS_VALUE);
    ipu_ctx_clear(&ctx);
}

static void
test_shuffle(void)
{
    int64_t a[64];
    int64_t b[64];
    bool seen[64] = {false};
    ipu_dataset *dataset = range_of(64);
    THEN(dataset, ipu_dataset_shuffle(&ctx, dataset, 64, 7, true, &made_));
    CHECK(read_all(dataset, a, 64) == 64);
    CHECK(read_all(dataset, b, 64) == 64);
    CHECK(memcmp(a, b, sizeof(a)) != 0);
    for (int i = 0; i < 64; i++) {
        seen[a[i]] = true;
    }
    for (int i = 0; i < 64; i++) {
        CHECK(seen[i]);
    }
    ipu_dataset_unref(dataset);

    /* the same seed and passes, as two iterators or as one repeat */
    int64_t c[128];
    dataset = range_of(64);
    THEN(dataset, ipu_dataset_shuffle(&ctx, dataset, 64, 7, true, &made_));
    THEN(dataset, ipu_dataset_repeat(&ctx, dataset, 2, &made_));
    CHECK(read_all(dataset, c, 128) == 128);
    CHECK(memcmp(a, c, sizeof(a)) == 0 && memcmp(b, c + 64, sizeof(b)) == 0);
    ipu_dataset_unref(dataset);

    /* without reshuffling every pass is the same */
    dataset = range_of(64);
    THEN(dataset, ipu_dataset_shuffle(&ctx, dataset, 64, 7, false, &made_));
    CHECK(read_all(dataset, c, 64) == 64 && read_all(dataset, c + 64, 64) == 64);
    CHECK(memcmp(c, c + 64, sizeof(a)) == 0);
    ipu_dataset_unref(dataset);

    /* a window of 4: the i-th element given is at most the (i + 3)-th of the input */
    dataset = range_of(64);
    THEN(dataset, ipu_dataset_batch(&ctx, dataset, 1, true, &made_)); /* copies */
    THEN(dataset, ipu_dataset_shuffle(&ctx, dataset, 4, 1, true, &made_));
    CHECK(read_all(dataset, a, 64) == 64);
    memset(seen, 0, sizeof(seen));
    for (int i = 0; i < 64; i++) {
        CHECK(a[i] <= i + 3 && !seen[a[i]]);
        seen[a[i]] = true;
    }
    ipu_dataset_unref(dataset);

    dataset = range_of(4);
    ipu_dataset *none;
    CHECK(ipu_dataset_shuffle(&ctx, dataset, 0, 1, true, &none) ==
          IPU_STATUS_INVALID_ARGUMENT);
    ipu_ctx_clear(&ctx);
    ipu_dataset_unref(dataset);
}

/* Each element of a window of 8 should come first equally often: chi-square over 4,000
 * seeds, 7 degrees of freedom, 99.9 % at 24.3. */
static void
test_shuffle_uniform(void)
{
    ipu_dataset *input = range_of(8);
    int counts[8] = {0};
    for (uint64_t seed = 0; seed < 4000; seed++) {
        ipu_dataset *dataset;
        int64_t first;
        CHECK_OK(&ctx, ipu_dataset_shuffle(&ctx, input, 100, seed, true, &dataset));
        CHECK(read_all(dataset, &first, 1) == 1);
        counts[first]++;
        ipu_dataset_unref(dataset);
    }
    double chi = 0;
    for (int i = 0; i < 8; i++) {
        chi += (counts[i] - 500.0) * (counts[i] - 500.0) / 500.0;
    }
    CHECK(chi < 24.3);
    ipu_dataset_unref(input);
}

/* --- generators ------------------------------------------------------------------- */

typedef struct counter {
    int64_t limit;
    int64_t fail_at; /* -1: never */
    bool ragged;
    int opened;
    int closed;
    int released;
} counter;

typedef struct counter_pass {
    counter *owner;
    int64_t at;
    int64_t values[16];
    ipu_type type;
    const void *part;
} counter_pass;

static ipu_status
counter_open(ipu_ctx *c, void *state, void **out)
{
    counter_pass *pass;
    IPU_TRY(ipu_alloc(c, sizeof(*pass), &pass));
    pass->owner = state;
    pass->owner->opened++;
    *out = pass;
    return IPU_OK;
}

static ipu_status
counter_next(ipu_ctx *c, void *state, const ipu_type **types, const void *const **parts,
             bool *end)
{
    counter_pass *pass = state;
    *end = pass->at == pass->owner->limit;
    if (*end) {
        return IPU_OK;
    }
    IPU_FAIL_IF(c, pass->at == pass->owner->fail_at, PYTHON, "ValueError: no more");
    int64_t length = pass->owner->ragged ? 1 + pass->at % 3 : 1;
    for (int64_t i = 0; i < length; i++) {
        pass->values[i] = pass->at;
    }
    pass->at++;
    pass->type = type_of(IPU_DTYPE_INT64, 1, length, 0);
    pass->part = pass->values;
    *types = &pass->type;
    *parts = &pass->part;
    return IPU_OK;
}

static void
counter_close(void *state)
{
    counter_pass *pass = state;
    ipu_ctx c;
    ipu_ctx_init(&c, ctx.allocator);
    pass->owner->closed++;
    ipu_free(&c, pass, sizeof(*pass));
}

static void
counter_release(void *state)
{
    ((counter *)state)->released++;
}

static ipu_dataset *
counter_dataset(counter *state, int64_t declared)
{
    ipu_dataset *dataset = NULL;
    const ipu_type type = type_of(IPU_DTYPE_INT64, 1, declared, 0);
    const ipu_generator generator = {counter_open, counter_next, counter_close,
                                     counter_release, state};
    CHECK_OK(&ctx, ipu_dataset_generator(&ctx, &type, 1, &generator,
                                          IPU_CARDINALITY_UNKNOWN, &dataset));
    return dataset;
}

static void
test_generator(void)
{
    counter state = {.limit = 5, .fail_at = -1};
    ipu_dataset *dataset = counter_dataset(&state, 1);
    CHECK(ipu_dataset_cardinality(dataset) == IPU_CARDINALITY_UNKNOWN);
    THEN(dataset, ipu_dataset_shuffle(&ctx, dataset, 1, 0, true, &made_));
    THEN(dataset, ipu_dataset_prefetch(&ctx, dataset, 2, &made_));
    EXPECT(dataset, 0, 1, 2, 3, 4);
    CHECK(state.opened == 1 && state.closed == 1);
    int64_t some[2];
    CHECK(read_all(dataset, some, 2) == 2); /* left in the middle: no hang */
    CHECK(state.opened == 2 && state.closed == 2);
    ipu_dataset_unref(dataset);
    CHECK(state.released == 1);
}

/* Reads until an error and checks it. */
static void
expect_error(ipu_dataset *dataset, int64_t before, ipu_status wanted, const char *text)
{
    ipu_iterator *iterator = NULL;
    const ipu_type *types;
    const void *const *parts;
    ipu_status status = IPU_OK;
    int64_t made = -1;
    CHECK_OK(&ctx, ipu_iterator_create(&ctx, dataset, &iterator));
    while (iterator != NULL && status == IPU_OK) {
        made++;
        status = ipu_iterator_next(&ctx, iterator, &types, &parts);
    }
    CHECK(made == before);
    CHECK(status == wanted);
    CHECK(strstr(ctx.message, text) != NULL);
    if (strstr(ctx.message, text) == NULL) {
        fprintf(stderr, "message: %s\n", ctx.message);
    }
    ipu_ctx_clear(&ctx);
    ipu_iterator_free(iterator);
}

static void
test_errors(void)
{
    counter failing = {.limit = 5, .fail_at = 3};
    ipu_dataset *dataset = counter_dataset(&failing, 1);
    THEN(dataset, ipu_dataset_prefetch(&ctx, dataset, -1, &made_));
    expect_error(dataset, 3, IPU_STATUS_PYTHON, "ValueError: no more");
    ipu_dataset_unref(dataset);

    counter ragged = {.limit = 5, .fail_at = -1, .ragged = true};
    dataset = counter_dataset(&ragged, 1);
    expect_error(dataset, 1, IPU_STATUS_INVALID_ARGUMENT,
                 "int64[2], but int64[1] was declared");
    ipu_dataset_unref(dataset);
    dataset = counter_dataset(&ragged, -1);
    EXPECT(dataset, 0, 1, 1, 2, 2, 2, 3, 4, 4);
    THEN(dataset, ipu_dataset_batch(&ctx, dataset, 2, false, &made_));
    expect_error(dataset, 0, IPU_STATUS_INVALID_ARGUMENT,
                 "element 1 has component 0 of int64[2], but element 0");
    ipu_dataset_unref(dataset);
}

static void
test_next_into(void)
{
    ipu_dataset *dataset = range_of(5);
    const ipu_type two = type_of(IPU_DTYPE_INT64, 1, 2, 0);
    int64_t got[2];
    void *const buffers[] = {got};
    ipu_iterator *iterator;
    THEN(dataset, ipu_dataset_batch(&ctx, dataset, 2, false, &made_));
    CHECK_OK(&ctx, ipu_iterator_create(&ctx, dataset, &iterator));
    CHECK_OK(&ctx, ipu_iterator_next_into(&ctx, iterator, &two, buffers));
    CHECK(got[0] == 0 && got[1] == 1);
    CHECK_OK(&ctx, ipu_iterator_next_into(&ctx, iterator, &two, buffers));
    CHECK(got[0] == 2 && got[1] == 3);
    CHECK(ipu_iterator_next_into(&ctx, iterator, &two, buffers) ==
          IPU_STATUS_INVALID_ARGUMENT);
    CHECK(strstr(ctx.message, "drop_remainder=True") != NULL);
    ipu_ctx_clear(&ctx);
    ipu_iterator_free(iterator);
    ipu_dataset_unref(dataset);
}

/* --- map -------------------------------------------------------------------------- */

typedef struct caster {
    ipu_program *programs[4];
    int count;
    int released;
} caster;

/* x -> cast(x, float32) * cast(x, float32) */
static ipu_status
caster_compile(ipu_ctx *c, void *state, const ipu_type *inputs, uint32_t count,
               const ipu_program **out)
{
    caster *self = state;
    ipu_graph *graph = NULL;
    ipu_value x;
    ipu_value wide;
    ipu_value square;
    ipu_program *program = NULL;
    const ipu_attr dtype = {.key = IPU_ATTR_DTYPE, .as.i = IPU_DTYPE_FLOAT32};
    const ipu_block top = {0};
    IPU_FAIL_IF(c, count != 1 || self->count == 4, VALUE, "one input");
    ipu_status status = ipu_graph_create(c, true, &graph);
    if (status == IPU_OK) {
        status = ipu_graph_add_param(c, graph, top, inputs, &x);
    }
    if (status == IPU_OK) {
        status = ipu_graph_emit(c, graph, top, IPU_NO_NODE, IPU_OP_ID_CAST, &x, 1,
                                &dtype, 1, &wide);
    }
    if (status == IPU_OK) {
        const ipu_value both[] = {wide, wide};
        status = ipu_graph_emit(c, graph, top, IPU_NO_NODE, IPU_OP_ID_MUL, both, 2,
                                NULL, 0, &square);
    }
    if (status == IPU_OK) {
        status = ipu_graph_add_result(c, graph, top, square);
    }
    if (status == IPU_OK) {
        const ipu_passes_options options = {.verify = true, .fuse = true};
        status = ipu_passes_run(c, graph, &options);
    }
    if (status == IPU_OK) {
        const ipu_compile_options options = {.verify = true};
        status = ipu_program_create(c, graph, &options, &program);
    }
    ipu_graph_free(c, graph);
    if (status == IPU_OK) {
        self->programs[self->count++] = program;
        *out = program;
    }
    return status;
}

static void
caster_release(void *state)
{
    caster *self = state;
    ipu_ctx c;
    ipu_ctx_init(&c, ctx.allocator);
    for (int i = 0; i < self->count; i++) {
        ipu_program_free(&c, self->programs[i]);
    }
    self->released++;
}

static void
test_map(void)
{
    uint8_t pixels[5][2] = {{1, 2}, {3, 4}, {5, 6}, {7, 8}, {9, 255}};
    const ipu_type type = type_of(IPU_DTYPE_UINT8, 2, 5, 2);
    const ipu_foreign_buffer buffer = {pixels, NULL, NULL};
    caster state = {0};
    const ipu_map_function function = {caster_compile, caster_release, &state, 0};
    const ipu_type declared = type_of(IPU_DTYPE_FLOAT32, 2, -1, 2);
    ipu_dataset *dataset;
    ipu_iterator *iterator;
    CHECK_OK(&ctx, ipu_dataset_slices(&ctx, &type, &buffer, 1, &dataset));
    THEN(dataset, ipu_dataset_batch(&ctx, dataset, 2, false, &made_));
    THEN(dataset, ipu_dataset_map(&ctx, dataset, &function, &declared, 1, &made_));
    CHECK(ipu_dataset_cardinality(dataset) == 3);
    CHECK_OK(&ctx, ipu_iterator_create(&ctx, dataset, &iterator));
    for (int i = 0; i < 3; i++) {
        const ipu_type *types;
        const void *const *parts;
        CHECK_OK(&ctx, ipu_iterator_next(&ctx, iterator, &types, &parts));
        CHECK(types[0].dtype == IPU_DTYPE_FLOAT32);
        CHECK(types[0].shape.dims[0] == (i < 2 ? 2 : 1));
        for (int64_t j = 0; j < ipu_shape_elements(&types[0].shape); j++) {
            float x = (float)pixels[2 * i + j / 2][j % 2];
            CHECK(((const float *)parts[0])[j] == x * x);
        }
    }
    CHECK(state.count == 2); /* one program for each batch size */
    ipu_iterator_free(iterator);
    ipu_dataset_unref(dataset);
    CHECK(state.released == 1);
}

/* --- the feeder ------------------------------------------------------------------- */

/* Waits for the next element. */
static ipu_status
take_next(ipu_infeed *queue, const void *const **element)
{
    CHECK_OK(&ctx, ipu_infeed_begin(&ctx, queue, 1));
    while (!ipu_infeed_wait(queue, 1000000)) {}
    return ipu_infeed_take(&ctx, queue, 0, element);
}

static void
test_feeder(void)
{
    const ipu_type two = type_of(IPU_DTYPE_INT64, 1, 2, 0);
    ipu_dataset *dataset = range_of(5);
    ipu_infeed *queue;
    ipu_feeder *feeder;
    const void *const *element;
    THEN(dataset, ipu_dataset_batch(&ctx, dataset, 2, true, &made_));
    THEN(dataset, ipu_dataset_prefetch(&ctx, dataset, 2, &made_));
    CHECK_OK(&ctx, ipu_infeed_create(&ctx, &two, 1, 1, 1, &queue));
    CHECK_OK(&ctx, ipu_feeder_start(&ctx, dataset, queue, false, &feeder));
    for (int64_t i = 0; i < 2; i++) {
        CHECK_OK(&ctx, take_next(queue, &element));
        CHECK(((const int64_t *)element[0])[0] == 2 * i);
        CHECK(((const int64_t *)element[0])[1] == 2 * i + 1);
    }
    CHECK(take_next(queue, &element) == IPU_STATUS_OUT_OF_RANGE);
    ipu_ctx_clear(&ctx);
    ipu_feeder_stop(feeder, NULL);
    ipu_infeed_free(&ctx, queue);

    /* an endless data set and a queue nobody reads: stop does not hang */
    THEN(dataset, ipu_dataset_repeat(&ctx, dataset, -1, &made_));
    CHECK_OK(&ctx, ipu_infeed_create(&ctx, &two, 1, 2, 1, &queue));
    CHECK_OK(&ctx, ipu_feeder_start(&ctx, dataset, queue, false, &feeder));
    ipu_feeder_stop(feeder, NULL);
    ipu_infeed_free(&ctx, queue);

    /* a partial batch fails the run, and says how to repair it */
    ipu_dataset_unref(dataset);
    dataset = range_of(3);
    THEN(dataset, ipu_dataset_batch(&ctx, dataset, 2, false, &made_));
    CHECK_OK(&ctx, ipu_infeed_create(&ctx, &two, 1, 2, 1, &queue));
    CHECK_OK(&ctx, ipu_feeder_start(&ctx, dataset, queue, false, &feeder));
    CHECK_OK(&ctx, take_next(queue, &element));
    CHECK(take_next(queue, &element) == IPU_STATUS_INVALID_ARGUMENT);
    CHECK(strstr(ctx.message, "drop_remainder=True") != NULL);
    ipu_ctx_clear(&ctx);
    ipu_feeder_stop(feeder, NULL);
    ipu_infeed_free(&ctx, queue);

    const ipu_type wrong = type_of(IPU_DTYPE_INT32, 1, 2, 0);
    CHECK_OK(&ctx, ipu_infeed_create(&ctx, &wrong, 1, 2, 1, &queue));
    CHECK(ipu_feeder_start(&ctx, dataset, queue, false, &feeder) ==
          IPU_STATUS_INVALID_ARGUMENT);
    ipu_ctx_clear(&ctx);
    ipu_infeed_free(&ctx, queue);
    ipu_dataset_unref(dataset);
}

/* --- allocation sweep ------------------------------------------------------------- */

typedef struct failing_heap {
    ipu_allocator heap;
    _Atomic int64_t left; /* allocations that succeed */
    _Atomic int64_t bytes;
} failing_heap;

static void *
failing_resize(void *state, void *pointer, size_t old_bytes, size_t new_bytes)
{
    failing_heap *self = state;
    if (new_bytes > 0 && self->left-- <= 0) {
        return NULL;
    }
    void *made = self->heap.resize(self->heap.state, pointer, old_bytes, new_bytes);
    self->bytes += (int64_t)new_bytes - (int64_t)(pointer != NULL ? old_bytes : 0);
    return made;
}

static ipu_status
whole_pipeline(ipu_ctx *c)
{
    int64_t values[6][2] = {{0, 1}, {2, 3}, {4, 5}, {6, 7}, {8, 9}, {10, 11}};
    const ipu_type type = type_of(IPU_DTYPE_INT64, 2, 6, 2);
    const ipu_foreign_buffer buffer = {values, NULL, NULL};
    counter state = {.limit = 9, .fail_at = -1};
    caster cast = {0};
    const ipu_map_function function = {caster_compile, caster_release, &cast, 0};
    const ipu_generator generator = {counter_open, counter_next, counter_close, NULL,
                                     &state};
    const ipu_type declared = type_of(IPU_DTYPE_INT64, 1, -1, 0);
    const ipu_type mapped = type_of(IPU_DTYPE_FLOAT32, 2, -1, 2);
    enum { SETS = 16 };
    ipu_dataset *sets[SETS] = {NULL};
    ipu_iterator *iterator = NULL;
    ipu_iterator *other = NULL;
    ipu_status status = ipu_dataset_slices(c, &type, &buffer, 1, &sets[0]);
    status = status ? status : ipu_dataset_shuffle(c, sets[0], 4, 3, true, &sets[1]);
    status = status ? status : ipu_dataset_repeat(c, sets[1], 2, &sets[2]);
    status = status ? status : ipu_dataset_batch(c, sets[2], 5, false, &sets[3]);
    status =
        status ? status : ipu_dataset_map(c, sets[3], &function, &mapped, 1, &sets[4]);
    status =
        status ? status : ipu_dataset_generator(c, &declared, 1, &generator,
                                               IPU_CARDINALITY_UNKNOWN, &sets[5]);
    status = status ? status : ipu_dataset_shuffle(c, sets[5], 3, 3, true, &sets[6]);
    status = status ? status : ipu_dataset_batch(c, sets[6], 2, false, &sets[7]);
    ipu_dataset *both[] = {sets[4], sets[7]};
    status = status ? status : ipu_dataset_zip(c, both, 2, &sets[8]);
    status = status ? status : ipu_dataset_skip(c, sets[8], 1, &sets[9]);
    status = status ? status : ipu_iterator_create(c, sets[9], &iterator);
    for (int i = 0; i < 2 && status == IPU_OK; i++) {
        const ipu_type *types;
        const void *const *parts;
        status = ipu_iterator_next(c, iterator, &types, &parts);
    }
    status = status ? status : ipu_dataset_unbatch(c, sets[3], &sets[10]);
    status = status ? status : ipu_dataset_concatenate(c, sets[10], sets[0], &sets[11]);
    status = status ? status : ipu_dataset_cache(c, sets[11], &sets[12]);
    status = status ? status : ipu_dataset_shard(c, sets[12], 2, 1, 1, &sets[13]);
    status =
        status ? status : ipu_dataset_assert_cardinality(c, sets[13], 9, &sets[14]);
    status = status ? status : ipu_dataset_prefetch(c, sets[14], 20, &sets[15]);
    status = status ? status : ipu_iterator_create(c, sets[15], &other);
    for (int i = 0; i < 9 && status == IPU_OK; i++) { /* 12 of sets[10], 6 of sets[0] */
        const ipu_type *types;
        const void *const *parts;
        status = ipu_iterator_next(c, other, &types, &parts);
        CHECK(status != IPU_OK || i < 6 ||
              ((const int64_t *)parts[0])[0] == values[2 * (i - 6) + 1][0]);
    }
    ipu_iterator_free(other);
    ipu_iterator_free(iterator);
    bool owned = sets[4] != NULL;
    for (int i = 0; i < SETS; i++) {
        ipu_dataset_unref(sets[i]);
    }
    CHECK(cast.released == owned);
    CHECK(state.opened == state.closed);
    return status;
}

static void
test_allocation_sweep(void)
{
    ipu_allocator heap = ipu_allocator_default();
    ipu_status status = IPU_STATUS_OUT_OF_MEMORY;
    int64_t n = 0;
    for (; status == IPU_STATUS_OUT_OF_MEMORY && n < 5000; n++) {
        failing_heap failing = {heap, n, 0};
        ipu_ctx c;
        ipu_ctx_init(&c, (ipu_allocator){failing_resize, &failing});
        ctx.allocator = c.allocator; /* for the callbacks that free */
        status = whole_pipeline(&c);
        CHECK(failing.bytes == 0);
        CHECK(status == c.status);
        if (status != IPU_OK && status != IPU_STATUS_OUT_OF_MEMORY) {
            fprintf(stderr, "after %lld allocations: %s\n", (long long)n, c.message);
        }
    }
    ctx.allocator = heap;
    CHECK(status == IPU_OK && n > 40);
}

/* --- speed (only with an argument) ------------------------------------------------ */

static double
seconds(void)
{
    struct timespec now;
    timespec_get(&now, TIME_UTC);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void
measure(void)
{
    enum { ROWS = 60000, WIDTH = 784, BATCH = 32 };
    float *rows = malloc(sizeof(float) * ROWS * WIDTH);
    int32_t *labels = malloc(sizeof(int32_t) * ROWS);
    if (rows == NULL || labels == NULL) {
        return;
    }
    memset(rows, 1, sizeof(float) * ROWS * WIDTH);
    memset(labels, 1, sizeof(int32_t) * ROWS);
    const ipu_type types[] = {type_of(IPU_DTYPE_FLOAT32, 2, ROWS, WIDTH),
                              type_of(IPU_DTYPE_INT32, 1, ROWS, 0)};
    const ipu_type batch[] = {type_of(IPU_DTYPE_FLOAT32, 2, BATCH, WIDTH),
                              type_of(IPU_DTYPE_INT32, 1, BATCH, 0)};
    const ipu_foreign_buffer buffers[] = {{rows, NULL, NULL}, {labels, NULL, NULL}};
    static float out[BATCH * WIDTH];
    static int32_t out_labels[BATCH];
    void *const slot[] = {out, out_labels};
    ipu_dataset *dataset;
    ipu_iterator *iterator;
    CHECK_OK(&ctx, ipu_dataset_slices(&ctx, types, buffers, 2, &dataset));
    THEN(dataset, ipu_dataset_shuffle(&ctx, dataset, ROWS, 7, true, &made_));
    THEN(dataset, ipu_dataset_batch(&ctx, dataset, BATCH, true, &made_));
    THEN(dataset, ipu_dataset_repeat(&ctx, dataset, -1, &made_));
    CHECK_OK(&ctx, ipu_iterator_create(&ctx, dataset, &iterator));
    for (int epoch = 0; epoch < 4; epoch++) {
        double start = seconds();
        for (int i = 0; i < ROWS / BATCH; i++) {
            CHECK_OK(&ctx, ipu_iterator_next_into(&ctx, iterator, batch, slot));
        }
        printf("epoch %d: %.0f samples/s\n", epoch, ROWS / (seconds() - start));
    }
    ipu_iterator_free(iterator);
    ipu_dataset_unref(dataset);
    free(rows);
    free(labels);
}

int
main(int argc, char **argv)
{
    (void)argv;
    ipu_ctx_init(&ctx, ipu_allocator_default());
    test_range();
    test_slices();
    test_order();
    test_zip();
    test_shuffle();
    test_shuffle_uniform();
    test_generator();
    test_errors();
    test_next_into();
    test_map();
    test_feeder();
    test_allocation_sweep();
    if (argc > 1) {
        measure();
    }
    CHECK(ctx.status == IPU_OK);
    return CHECK_DONE();
}
