/* SPDX-License-Identifier: MIT
 *
 * zip, repeat, take, skip and shard: how many elements there are, which, after errors
 * and after calls that were given up, and what is neither copied nor kept. */
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "counter.h"
#include "data/dataset.h"

#define INFINITE IPU_CARDINALITY_INFINITE
#define UNKNOWN IPU_CARDINALITY_UNKNOWN
#define LENGTH(array) (sizeof(array) / sizeof(*(array)))

static ipu_ctx ctx;
static const ipu_type scalar = {IPU_DTYPE_INT64, {0, {0}}};

/* --- a generator of 0, 1, ... that may fail ---------------------------------------- */

typedef struct moody {
    int64_t limit;
    uint64_t fails;    /* bit n: in place of element n there is an error */
    uint64_t gives_up; /* bit n: the call for element n is cancelled, */
    int times;         /* once, or so many times */
    uint64_t empty_passes;
    ipu_cause *cause; /* of the errors */
    uint32_t width;   /* 0: a scalar; else element n is a vector of n % width + 1 */
    ipu_cancel *seen; /* what the last call was given */
    int64_t at;       /* of the open pass */
    uint64_t passes;
    int64_t values[8];
    ipu_type type;
    const void *part;
} moody;

static ipu_status
moody_open(ipu_ctx *c, void *state, void **out)
{
    moody *self = state;
    (void)c;
    self->at = self->empty_passes >> self->passes++ & 1 ? self->limit : 0;
    *out = state;
    return IPU_OK;
}

static ipu_status
moody_next(ipu_ctx *c, void *state, const ipu_type **types, const void *const **parts,
           bool *end)
{
    moody *self = state;
    self->seen = c->cancel;
    *end = self->at == self->limit;
    if (*end) {
        return IPU_OK;
    }
    uint64_t bit = UINT64_C(1) << (self->at & 63);
    if (self->gives_up & bit) {
        self->gives_up ^= --self->times <= 0 ? bit : 0;
        IPU_FAIL(c, CANCELLED, "given up");
    }
    int64_t number = self->at++;
    if (self->fails & bit) {
        c->cause = self->cause;
        IPU_FAIL(c, PYTHON, "no element %d", (int)number);
    }
    self->type = scalar;
    if (self->width > 0) {
        self->type.shape = ipu_shape_make(1, (int64_t[]){number % self->width + 1});
    }
    for (int i = 0; i < 8; i++) {
        self->values[i] = number;
    }
    self->part = self->values;
    *types = &self->type;
    *parts = &self->part;
    return IPU_OK;
}

static void
moody_close(void *state)
{
    (void)state;
}

static ipu_dataset *
generated(moody *self)
{
    ipu_dataset *made = NULL;
    ipu_type type = scalar;
    if (self->width > 0) {
        type.shape = ipu_shape_make(1, (int64_t[]){-1});
    }
    const ipu_generator generator = {moody_open, moody_next, moody_close, NULL, self};
    CHECK_OK(&ctx, ipu_dataset_generator(&ctx, &type, 1, &generator, UNKNOWN, &made));
    return made;
}

/* --- data sets --------------------------------------------------------------------- */

static ipu_dataset *
range_of(int64_t stop)
{
    ipu_dataset *made = NULL;
    CHECK_OK(&ctx, ipu_dataset_range(&ctx, 0, stop, 1, &made));
    return made;
}

/* A transformation of a data set that nobody else needs. */
#define OVER(name, input, ...) \
    do { \
        ipu_dataset *input_ = (input); \
        CHECK_OK(&ctx, ipu_dataset_##name(&ctx, input_, __VA_ARGS__, &made)); \
        ipu_dataset_unref(input_); \
    } while (0)

#define TRANSFORMATION(name) \
    static ipu_dataset *name##_of(ipu_dataset *input, int64_t count) \
    { \
        ipu_dataset *made = NULL; \
        OVER(name, input, count); \
        return made; \
    }
TRANSFORMATION(repeat)
TRANSFORMATION(take)
TRANSFORMATION(skip)

static ipu_dataset *
shard_of(ipu_dataset *input, int64_t count, int64_t index, int64_t block)
{
    ipu_dataset *made = NULL;
    OVER(shard, input, count, index, block);
    return made;
}

static ipu_dataset *
shuffled(ipu_dataset *input)
{
    ipu_dataset *made = NULL;
    OVER(shuffle, input, 16, 7, true);
    return made;
}

static ipu_dataset *
zip_of(ipu_dataset *a, ipu_dataset *b)
{
    ipu_dataset *inputs[2] = {a, b};
    ipu_dataset *made = NULL;
    CHECK_OK(&ctx, ipu_dataset_zip(&ctx, inputs, 2, &made));
    ipu_dataset_unref(a);
    ipu_dataset_unref(b);
    return made;
}

/* So many elements, or INFINITE, or UNKNOWN where nobody says how many. */
static ipu_dataset *
sized(int64_t size)
{
    static moody unknown = {.limit = 5};
    return size == UNKNOWN    ? generated(&unknown)
           : size == INFINITE ? repeat_of(range_of(1), -1)
                              : range_of(size);
}

static int64_t
cardinality_of(ipu_dataset *dataset)
{
    int64_t found = ipu_dataset_cardinality(dataset);
    ipu_dataset_unref(dataset);
    return found;
}

static ipu_iterator *
begin(ipu_dataset *dataset)
{
    ipu_iterator *iterator = NULL;
    CHECK_OK(&ctx, ipu_iterator_create(&ctx, dataset, &iterator));
    ipu_dataset_unref(dataset);
    return iterator;
}

/* The next numbers, up to the end: those of component 0, of which all others have the
 * same. In the place of an error there is -1, of a call that was given up -2. */
static int64_t
numbers_of(ipu_iterator *iterator, uint32_t components, int64_t *out, int64_t most)
{
    int64_t count = 0;
    while (count < most) {
        const ipu_type *types;
        const void *const *parts;
        ipu_status status = ipu_iterator_next(&ctx, iterator, &types, &parts);
        if (status == IPU_STATUS_OUT_OF_RANGE) {
            ipu_ctx_clear(&ctx);
            break;
        }
        out[count] = status == IPU_STATUS_CANCELLED ? -2 : -1;
        for (uint32_t i = 0; status == IPU_OK && i < components; i++) {
            int64_t number = *(const int64_t *)parts[i];
            CHECK(i == 0 || number == out[count]);
            out[count] = number;
        }
        ipu_ctx_clear(&ctx);
        count++;
    }
    return count;
}

static void
expect(ipu_dataset *dataset, uint32_t components, const int64_t *numbers, int64_t count,
       int line)
{
    int64_t found[64];
    ipu_iterator *iterator = begin(dataset);
    int64_t made = numbers_of(iterator, components, found, 64);
    bool fits = made == count;
    for (int64_t i = 0; i < count && fits; i++) {
        fits = found[i] == numbers[i];
    }
    CHECK(fits);
    if (!fits) {
        fprintf(stderr, "  line %d: %lld elements, first %lld\n", line, (long long)made,
                (long long)found[0]);
    }
    ipu_iterator_free(iterator);
}

#define EXPECT(dataset, components, ...) \
    do { \
        const int64_t numbers_[] = {__VA_ARGS__}; \
        expect((dataset), (components), numbers_, (int64_t)LENGTH(numbers_), \
               __LINE__); \
    } while (0)

/* --- how many ---------------------------------------------------------------------- */

static void
test_cardinalities(void)
{
    static const int64_t most = INT64_MAX;
    static const int64_t repeats[][3] = {{3, 0, 0},
                                         {3, 1, 3},
                                         {1, 3, 3},
                                         {0, -1, 0},
                                         {3, -1, INFINITE},
                                         {UNKNOWN, 0, 0},
                                         {UNKNOWN, 2, UNKNOWN},
                                         {INFINITE, 2, INFINITE},
                                         {INFINITE, 0, 0},
                                         {most / 2, 2, most / 2 * 2},
                                         {most / 2 + 1, 2, INFINITE}};
    static const int64_t takes[][3] = {{5, 3, 3},
                                       {5, 5, 5},
                                       {5, 7, 5},
                                       {5, 0, 0},
                                       {5, -1, 5},
                                       {INFINITE, 3, 3},
                                       {INFINITE, 0, 0},
                                       {INFINITE, -1, INFINITE},
                                       {INFINITE, -5, INFINITE},
                                       {0, 3, 0},
                                       {UNKNOWN, 3, UNKNOWN},
                                       {UNKNOWN, -1, UNKNOWN}};
    static const int64_t skips[][3] = {{5, 2, 3},
                                       {5, 0, 5},
                                       {5, 5, 0},
                                       {5, 7, 0},
                                       {5, -1, 0},
                                       {0, 2, 0},
                                       {INFINITE, 2, INFINITE},
                                       {UNKNOWN, 2, UNKNOWN}};
    static const int64_t zips[][3] = {{3, 5, 3},
                                      {5, 3, 3},
                                      {INFINITE, 3, 3},
                                      {3, INFINITE, 3},
                                      {INFINITE, INFINITE, INFINITE},
                                      {UNKNOWN, 3, UNKNOWN},
                                      {3, UNKNOWN, UNKNOWN}};
    for (size_t i = 0; i < LENGTH(repeats); i++) {
        CHECK(cardinality_of(repeat_of(sized(repeats[i][0]), repeats[i][1])) ==
              repeats[i][2]);
    }
    for (size_t i = 0; i < LENGTH(takes); i++) {
        CHECK(cardinality_of(take_of(sized(takes[i][0]), takes[i][1])) == takes[i][2]);
    }
    for (size_t i = 0; i < LENGTH(skips); i++) {
        CHECK(cardinality_of(skip_of(sized(skips[i][0]), skips[i][1])) == skips[i][2]);
    }
    for (size_t i = 0; i < LENGTH(zips); i++) {
        CHECK(cardinality_of(zip_of(sized(zips[i][0]), sized(zips[i][1]))) ==
              zips[i][2]);
    }
    CHECK(cardinality_of(shard_of(sized(INFINITE), 2, 1, 1)) == INFINITE);
    CHECK(cardinality_of(shard_of(sized(UNKNOWN), 2, 1, 1)) == UNKNOWN);
    for (int64_t n = 0; n < 14; n++) {
        for (int64_t block = 1; block < 4; block++) {
            for (int64_t index = 0; index < 3; index++) {
                int64_t found[16];
                ipu_dataset *dataset = shard_of(range_of(n), 3, index, block);
                int64_t count = ipu_dataset_cardinality(dataset);
                ipu_iterator *iterator = begin(dataset);
                CHECK(numbers_of(iterator, 1, found, 16) == count);
                for (int64_t i = 0; i < count; i++) {
                    int64_t place = index * block + i % block;
                    CHECK(found[i] == i / block * 3 * block + place);
                }
                ipu_iterator_free(iterator);
            }
        }
    }
}

static void
test_shards(void)
{
    static const struct {
        int64_t shards;
        int64_t index;
        int64_t block;
        const char *said;
    } wrong[] = {{0, 0, 1, "num_shards must be at least 1, not 0"},
                 {2, 2, 1, "index must be from 0 to 1, not 2"},
                 {2, -1, 1, "index must be from 0 to 1, not -1"},
                 {2, 0, 0, "elements, not 0"},
                 {2, 0, INT64_MAX / 2 + 1, "elements, not 4611686018427387904"}};
    ipu_dataset *input = range_of(4);
    for (size_t i = 0; i < LENGTH(wrong); i++) {
        ipu_dataset *none;
        CHECK(ipu_dataset_shard(&ctx, input, wrong[i].shards, wrong[i].index,
                                wrong[i].block, &none) == IPU_STATUS_INVALID_ARGUMENT);
        CHECK(strstr(ctx.message, wrong[i].said) != NULL);
        ipu_ctx_clear(&ctx);
    }
    EXPECT(shard_of(ipu_dataset_ref(input), 2, 0, INT64_MAX / 2), 1, 0, 1, 2, 3);
    ipu_dataset *both = zip_of(input, shard_of(range_of(9), 3, 0, 1));
    CHECK(ipu_dataset_shards(both) == 3);
    ipu_dataset_unref(both);
}

/* --- which ------------------------------------------------------------------------- */

static void
test_elements(void)
{
    EXPECT(take_of(range_of(5), -1), 1, 0, 1, 2, 3, 4);
    EXPECT(take_of(skip_of(range_of(5), 1), 2), 1, 1, 2);
    EXPECT(repeat_of(range_of(1), 2), 1, 0, 0);
    expect(take_of(range_of(5), 0), 1, NULL, 0, __LINE__);
    expect(skip_of(range_of(5), -1), 1, NULL, 0, __LINE__);
    expect(skip_of(range_of(5), INT64_MAX), 1, NULL, 0, __LINE__); /* at once */
    expect(repeat_of(range_of(5), 0), 1, NULL, 0, __LINE__);
    /* a pass without elements is one of those that were asked for */
    moody late = {.limit = 2, .empty_passes = 1};
    EXPECT(repeat_of(generated(&late), 2), 1, 0, 1);
}

/* An error has the place of an element in a shard, and none before what is skipped or
 * among what is taken. What was given up comes in the next call. */
static void
test_after_errors(void)
{
    moody failing = {.limit = 6, .fails = 1};
    moody patient = {.limit = 6, .gives_up = 1 + 4};
    EXPECT(take_of(generated(&failing), 2), 1, -1, 1, 2);
    EXPECT(skip_of(generated(&failing), 1), 1, -1, 2, 3, 4, 5);
    EXPECT(shard_of(generated(&failing), 2, 1, 1), 1, -1, 1, 3, 5);
    EXPECT(shard_of(generated(&failing), 2, 0, 1), 1, -1, 2, 4);
    EXPECT(shard_of(generated(&patient), 2, 1, 1), 1, -2, 1, -2, 3, 5);
    patient.gives_up = 2;
    EXPECT(take_of(generated(&patient), 2), 1, 0, -2, 1);
}

/* The order of a shuffle is that of its pass, however repeats are written. */
static void
test_passes(void)
{
    int64_t plain[4][16];
    int64_t found[4 * 16];
    ipu_dataset *input = shuffled(range_of(16));
    for (int i = 0; i < 4; i++) {
        ipu_iterator *iterator = begin(ipu_dataset_ref(input));
        CHECK(numbers_of(iterator, 1, plain[i], 17) == 16);
        ipu_iterator_free(iterator);
    }
    /* a repeat may number its passes, whatever was read before */
    ipu_dataset *made;
    OVER(repeat_from, input, 2, 1);
    ipu_iterator *numbered = begin(made);
    CHECK(numbers_of(numbered, 1, found, 64) == 32);
    CHECK(memcmp(found, plain[1], 2 * sizeof(plain[0])) == 0);
    ipu_iterator_free(numbered);
    ipu_iterator *nested = begin(repeat_of(repeat_of(shuffled(range_of(16)), 2), 2));
    CHECK(numbers_of(nested, 1, found, 64) == 64);
    CHECK(memcmp(found, plain, sizeof(plain)) == 0);
    ipu_iterator_free(nested);
    /* an iterator takes all passes that it may need, and one that reads nothing none */
    input = shuffled(range_of(16));
    ipu_dataset *none = repeat_of(ipu_dataset_ref(input), 0);
    ipu_dataset *twice = repeat_of(ipu_dataset_ref(input), 2);
    ipu_dataset *always = repeat_of(ipu_dataset_ref(input), -1);
    ipu_dataset *const order[] = {none, twice, input, always, always};
    const int64_t *const wanted[] = {NULL, plain[0], plain[2], plain[3], NULL};
    for (size_t i = 0; i < LENGTH(order); i++) {
        ipu_iterator *iterator = begin(ipu_dataset_ref(order[i]));
        CHECK(numbers_of(iterator, 1, found, 16) == (i == 0 ? 0 : 16));
        CHECK(wanted[i] == NULL || memcmp(found, wanted[i], sizeof(plain[0])) == 0);
        ipu_iterator_free(iterator);
    }
    CHECK(memcmp(found, plain[3], sizeof(plain[3])) != 0);
    ipu_dataset_unref(none);
    ipu_dataset_unref(twice);
    ipu_dataset_unref(always);
    ipu_dataset_unref(input);
}

/* Who numbers passes reads ahead himself: an input does not. */
static void
test_reading_ahead(void)
{
    moody input = {.limit = 5};
    const ipu_type *types;
    const void *const *parts;
    ipu_dataset *made;
    OVER(prefetch, generated(&input), 4);
    OVER(repeat_from, made, 2, 0);
    ipu_iterator *iterator = begin(made);
    CHECK_OK(&ctx, ipu_iterator_next(&ctx, iterator, &types, &parts));
    CHECK(input.at == 1);
    ipu_iterator_free(iterator);
}

/* --- zip --------------------------------------------------------------------------- */

static void
note_free(ipu_cause *cause)
{
    cause->holders = -1;
}

/* Elements stay together: what failed is left out on all inputs, and its error is the
 * one that is told; what was read before a call was given up is kept for the next one. */
static void
test_zip_after_errors(void)
{
    ipu_cause cause = {1, note_free};
    moody first = {.limit = 5, .fails = 2};
    moody second = {.limit = 5, .fails = 4};
    EXPECT(zip_of(generated(&first), generated(&second)), 2, 0, -1, -1, 3, 4);
    for (second.times = 1; second.times < 3; second.times++) {
        moody patient = second;
        patient.gives_up = 2; /* where its element is left out */
        ipu_dataset *both = zip_of(generated(&first), generated(&patient));
        if (second.times == 1) {
            EXPECT(both, 2, 0, -1, -1, 3, 4);
        } else {
            EXPECT(both, 2, 0, -1, -2, -1, 3, 4);
        }
    }
    second.fails = 2;
    second.cause = &cause;
    ipu_iterator *both = begin(zip_of(generated(&first), generated(&second)));
    const ipu_type *types;
    const void *const *parts;
    ipu_cancel cancel = {0};
    int64_t found[8];
    CHECK(numbers_of(both, 2, found, 1) == 1 && found[0] == 0);
    ctx.cancel = &cancel;
    CHECK(ipu_iterator_next(&ctx, both, &types, &parts) == IPU_STATUS_PYTHON);
    CHECK(ctx.cause == NULL && cause.holders == -1 && second.seen == &cancel);
    ctx.cancel = NULL;
    ipu_ctx_clear(&ctx);
    CHECK(numbers_of(both, 2, found, 8) == 3 && found[0] == 2);
    ipu_iterator_free(both);

    moody a = {.limit = 4, .gives_up = 2};
    moody b = {.limit = 4, .gives_up = 4};
    moody c = {.limit = 4, .gives_up = 2 + 8};
    EXPECT(zip_of(zip_of(generated(&a), generated(&b)), generated(&c)), 3, 0, -2, -2, 1,
           -2, 2, -2, 3);
}

/* Into buffers: which may be others after a call that was given up. */
static void
test_zip_into_buffers(void)
{
    const ipu_type wanted[3] = {scalar, scalar, scalar};
    int64_t numbers[2][3];
    void *const buffers[2][3] = {{&numbers[0][0], &numbers[0][1], &numbers[0][2]},
                                 {&numbers[1][0], &numbers[1][1], &numbers[1][2]}};
    moody last = {.limit = 9, .gives_up = 2 + 4 + 8};
    counter f;
    ctx.allocator = counting(&f);
    ipu_iterator *all =
        begin(zip_of(zip_of(range_of(9), range_of(9)), generated(&last)));
    CHECK_OK(&ctx, ipu_iterator_next_into(&ctx, all, wanted, buffers[0]));
    CHECK(numbers[0][0] == 0 && numbers[0][1] == 0 && numbers[0][2] == 0);
    for (int64_t i = 1; i < 3; i++) {
        memset(numbers, 0xff, sizeof(numbers));
        CHECK(ipu_iterator_next_into(&ctx, all, wanted, buffers[0]) ==
              IPU_STATUS_CANCELLED);
        ipu_ctx_clear(&ctx);
        memset(numbers, 0xff, sizeof(numbers));
        CHECK_OK(&ctx, ipu_iterator_next_into(&ctx, all, wanted, buffers[1]));
        CHECK(numbers[1][0] == i && numbers[1][1] == i && numbers[1][2] == i);
    }
    /* what there is no memory to keep is lost on all inputs */
    f.fail_at = atomic_load(&f.allocations) + 1;
    CHECK(ipu_iterator_next_into(&ctx, all, wanted, buffers[0]) ==
          IPU_STATUS_OUT_OF_MEMORY);
    ipu_ctx_clear(&ctx);
    long before = atomic_load(&f.allocations);
    for (int64_t i = 4; i < 9; i++) {
        CHECK_OK(&ctx, ipu_iterator_next_into(&ctx, all, wanted, buffers[0]));
        CHECK(numbers[0][0] == i && numbers[0][1] == i && numbers[0][2] == i);
    }
    CHECK(atomic_load(&f.allocations) == before);
    CHECK(ipu_iterator_next_into(&ctx, all, wanted, buffers[0]) ==
          IPU_STATUS_OUT_OF_RANGE);
    ipu_ctx_clear(&ctx);
    ipu_iterator_free(all);
    CHECK(atomic_load(&f.live_bytes) == 0);
    ctx.allocator = f.heap;
}

static void
note_visit(void *pass, void *argument)
{
    ((moody *)pass)->passes = 100;
    ++*(int *)argument;
}

static void
test_zip_is_visited(void)
{
    moody inputs[2] = {{.limit = 3}, {.limit = 3}};
    int visits = 0;
    ipu_iterator *both = begin(zip_of(generated(&inputs[0]), generated(&inputs[1])));
    int64_t found;
    CHECK(numbers_of(both, 2, &found, 1) == 1);
    ipu_iterator_visit(both, note_visit, &visits);
    CHECK(visits == 2 && inputs[0].passes == 100 && inputs[1].passes == 100);
    ipu_iterator_free(both);
}

static void
test_zip_types(void)
{
    moody vectors = {.limit = 5, .width = 3};
    ipu_dataset *both = zip_of(range_of(5), generated(&vectors));
    const ipu_type *types;
    const void *const *parts;
    CHECK(ipu_dataset_types(both, &types) == 2);
    CHECK(ipu_type_equal(&types[0], &scalar) && types[1].shape.dims[0] == -1);
    ipu_iterator *iterator = begin(both);
    for (int64_t i = 0; i < 5; i++) {
        CHECK_OK(&ctx, ipu_iterator_next(&ctx, iterator, &types, &parts));
        CHECK(ipu_type_equal(&types[0], &scalar));
        CHECK(types[1].shape.rank == 1 && types[1].shape.dims[0] == i % 3 + 1);
    }
    ipu_iterator_free(iterator);
}

/* Views of memory are shuffled as they are; what the next call writes over is copied. */
static void
test_zip_of_memory(void)
{
    static const int64_t rows[8] = {0, 1, 2, 3, 4, 5, 6, 7};
    const ipu_type type = {IPU_DTYPE_INT64, ipu_shape_make(1, (int64_t[]){8})};
    const ipu_foreign_buffer buffer = {rows, NULL, NULL};
    for (int which = 0; which < 4; which++) {
        ipu_dataset *inputs[2];
        moody made[2] = {{.limit = 8}, {.limit = 8}};
        for (int i = 0; i < 2; i++) {
            if (which >> i & 1) {
                inputs[i] = generated(&made[i]);
            } else {
                CHECK_OK(&ctx, ipu_dataset_slices(&ctx, &type, &buffer, 1, &inputs[i]));
            }
        }
        ipu_iterator *iterator = begin(shuffled(zip_of(inputs[0], inputs[1])));
        const ipu_type *types;
        const void *const *parts;
        uint32_t seen = 0;
        for (int i = 0; i < 8; i++) {
            CHECK_OK(&ctx, ipu_iterator_next(&ctx, iterator, &types, &parts));
            int64_t number = *(const int64_t *)parts[0];
            CHECK(*(const int64_t *)parts[1] == number);
            CHECK(which > 0 || (parts[0] == &rows[number] && parts[1] == parts[0]));
            seen |= UINT32_C(1) << number;
        }
        CHECK(seen == 255);
        ipu_iterator_free(iterator);
    }
}

int
main(void)
{
    ipu_ctx_init(&ctx, ipu_allocator_default());
    test_cardinalities();
    test_shards();
    test_elements();
    test_after_errors();
    test_passes();
    test_reading_ahead();
    test_zip_after_errors();
    test_zip_into_buffers();
    test_zip_is_visited();
    test_zip_types();
    test_zip_of_memory();
    return CHECK_DONE();
}
