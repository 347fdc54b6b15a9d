/* SPDX-License-Identifier: MIT
 *
 * argmax and argmin over any axis, for all dtypes. Along the last axis the extreme of
 * each block of a row is found at vector width; the first block that has the row's is
 * then searched for its place. Along another axis rows are compared with a strip of
 * extremes, which keep their places beside them. Of equal ones the first counts; NaN is
 * passed over, and where all are NaN the place is 0. Threads take results, or, where
 * those are few, parts of a row. */
#include <math.h>

#include "kernels/reduce/reduce_fold_impl.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

enum {
    BLOCK = 1024,      /* of a row */
    STRIP = 256,       /* results that are found side by side */
    CHUNK_ROWS = 64,   /* whose numbers fit into eight bits */
    PART = 65536,      /* of a long row */
    TASK_ELEMENTS = 16384,
    FEW_ROWS = 8,
    FEW_LANES = 32,    /* of a short row */
    FEW_COLUMNS = 12, /* of which several rows are one, but ... */
    LEAST_ROWS = 64   /* of those stay */
};

/* Functions of a dtype, for max or min. float16 is int16: its keys are. */
typedef struct place_functions {
    /* the place of the extreme of n elements, at least one */
    int64_t (*row)(const void *x, int64_t n);
    /* whether element i is to be taken in place of element `best` that stands before */
    bool (*better)(const void *x, int64_t i, int64_t best);
    /* rows [r, end) of the chunk, of which r is at x and the next `apart` elements on:
     * where one is better, it becomes best[j], and its number at[j] */
    void (*step)(void *best, void *at, const void *x, int64_t n, int64_t r, int64_t end,
                 int64_t apart);
    /* the chunk's extremes and their rows, counted from `first`, joined with those of
     * the rows before; at first = 0 they are taken */
    void (*join)(void *best, int64_t *places, const void *chunk, const void *at,
                 int64_t n, int64_t first);
} place_functions;

/* Widths are constants, so that lanes stay in registers. */
#define HALVE(element, width, BEYOND) \
    for (int32_t j = 0; (width) < lanes && j < (width); j++) { \
        lane[j] = BEYOND(lane[j + (width)], lane[j]) ? lane[j + (width)] : lane[j]; \
    }
#define HALVE_ALL(element, BEYOND) \
    HALVE(element, 64, BEYOND) \
    HALVE(element, 32, BEYOND) \
    HALVE(element, 16, BEYOND) \
    HALVE(element, 8, BEYOND) \
    HALVE(element, 4, BEYOND) \
    HALVE(element, 2, BEYOND) \
    HALVE(element, 1, BEYOND)

/* The first of n elements that is `value`; n: none is. */
#define FIND_generic(name, element, number) \
    static int64_t find_##name(const element *x, int64_t n, element value) \
    { \
        int64_t i = 0; \
        for (; i + IPU_FOLD_LANES(element) <= n; i += IPU_FOLD_LANES(element)) { \
            number any = 0; \
            for (int32_t j = 0; j < IPU_FOLD_LANES(element); j++) { \
                any |= (number)(x[i + j] == value); \
            } \
            if (any != 0) { \
                break; \
            } \
        } \
        while (i < n && x[i] != value) { \
            i++; \
        } \
        return i; \
    }
#if defined(__x86_64__)
#define FIND_avx2(name, element, number) \
    typedef element vector_##name __attribute__((vector_size(32))); \
    IPU_TARGET_AVX2 IPU_INLINE __m256i equal_##name(const element *x, \
                                                    vector_##name values) \
    { \
        vector_##name some; \
        memcpy(&some, x, sizeof some); \
        return (__m256i)(some == values); \
    } \
    IPU_TARGET_AVX2 static int64_t find_##name(const element *x, int64_t n, \
                                               element value) \
    { \
        enum { EACH = 32 / sizeof(element) }; \
        const vector_##name values = (vector_##name){0} + value; \
        int64_t i = 0; \
        for (; i + 4 * EACH <= n; i += 4 * EACH) { \
            const __m256i low = \
                equal_##name(x + i, values) | equal_##name(x + i + EACH, values); \
            const __m256i high = equal_##name(x + i + 2 * EACH, values) | \
                                 equal_##name(x + i + 3 * EACH, values); \
            if (_mm256_movemask_epi8(low | high) != 0) { \
                break; \
            } \
        } \
        for (; i + EACH <= n; i += EACH) { \
            const int bytes = _mm256_movemask_epi8(equal_##name(x + i, values)); \
            if (bytes != 0) { \
                return i + __builtin_ctz((uint32_t)bytes) / (int64_t)sizeof(element); \
            } \
        } \
        while (i < n && x[i] != value) { \
            i++; \
        } \
        return i; \
    }
#else
#define FIND_avx2 FIND_generic
#endif

/* The extreme of n elements, at least `lanes`, which are compared as KEY makes them. */
#define AMONG(name, target, stored, element, worst, KEY, BEYOND) \
    target IPU_INLINE element among_##name(const stored *x, int64_t n, int32_t lanes) \
    { \
        element lane[IPU_FOLD_LANES(element)]; \
        int64_t i = 0; \
        for (int32_t j = 0; j < lanes; j++) { \
            lane[j] = (worst); \
        } \
        for (; i + lanes <= n; i += lanes) { \
            for (int32_t j = 0; j < lanes; j++) { \
                const element key = KEY(x[i + j], worst); \
                lane[j] = BEYOND(key, lane[j]) ? key : lane[j]; \
            } \
        } \
        if (i < n) { /* the last ones, some of which are looked at twice */ \
            const stored *rest = x + n - lanes; \
            for (int32_t j = 0; j < lanes; j++) { \
                const element key = KEY(rest[j], worst); \
                lane[j] = BEYOND(key, lane[j]) ? key : lane[j]; \
            } \
        } \
        HALVE_ALL(element, BEYOND) \
        return lane[0]; \
    }
#define AS_IT_IS(x, worst) (x)

/* `number` is an integer as wide as the element; BETTER(x, y): x is to be taken in
 * place of y, which stands before it; BEYOND compares numbers alone. */
#define IN_ROWS(name, set, target, element, number, worst, BETTER, BEYOND) \
    AMONG(name, target, element, element, worst, AS_IT_IS, BEYOND) \
    /* of at least FEW_LANES elements */ \
    target static element extreme_##name(const element *x, int64_t n) \
    { \
        return n < IPU_FOLD_LANES(element) \
                   ? among_##name(x, n, FEW_LANES) \
                   : among_##name(x, n, IPU_FOLD_LANES(element)); \
    } \
    FIND_##set(name, element, number) \
    static int64_t row_##name(const void *elements, int64_t n) \
    { \
        const element *x = elements; \
        if (n < FEW_LANES) { \
            element most = x[0]; \
            int64_t best = 0; \
            for (int64_t i = 1; i < n; i++) { \
                const bool better = BETTER(x[i], most); \
                most = better ? x[i] : most; \
                best = better ? i : best; \
            } \
            return best; \
        } \
        element most = extreme_##name(x, ipu__min(n, BLOCK)); \
        int64_t block = 0; \
        for (int64_t i = BLOCK; i < n; i += BLOCK) { \
            int64_t at = ipu__min(i, n - IPU_FOLD_LANES(element)); \
            element other = extreme_##name(x + at, ipu__min(n - at, BLOCK)); \
            if (BEYOND(other, most)) { \
                most = other; \
                block = at; \
            } \
        } \
        int64_t place = block + find_##name(x + block, n - block, most); \
        return place < n ? place : 0; /* nothing but NaN */ \
    }
#define IN_COLUMNS(name, target, element, number, BETTER) \
    static bool better_##name(const void *elements, int64_t i, int64_t best) \
    { \
        const element *x = elements; \
        return BETTER(x[i], x[best]); \
    } \
    target static void step_##name(void *extremes, void *rows, const void *elements, \
                                   int64_t n, int64_t r, int64_t end, int64_t apart) \
    { \
        element *best = extremes; \
        number *at = rows; \
        const element *x = elements; \
        for (; r < end; r++, x += apart) { \
            IPU_INDEPENDENT \
            for (int64_t j = 0; j < n; j++) { \
                bool better = BETTER(x[j], best[j]); \
                best[j] = better ? x[j] : best[j]; \
                at[j] = better ? (number)r : at[j]; \
            } \
        } \
    } \
    static void join_##name(void *extremes, int64_t *places, const void *chunk, \
                            const void *rows, int64_t n, int64_t first) \
    { \
        element *best = extremes; \
        const element *x = chunk; \
        const number *at = rows; \
        for (int64_t j = 0; j < n; j++) { \
            bool better = first == 0 || BETTER(x[j], best[j]); \
            best[j] = better ? x[j] : best[j]; \
            places[j] = better ? first + at[j] : places[j]; \
        } \
    }

#define ABOVE(x, y) ((x) > (y))
#define BELOW(x, y) ((x) < (y))
/* a NaN that stands before is left, and none is taken */
#define ABOVE_OR_NAN(x, y) (!((x) <= (y)) & ((x) == (x)))
#define BELOW_OR_NAN(x, y) (!((x) >= (y)) & ((x) == (x)))

/* Columns are no faster with AVX-512. */
#define FORM(rows, columns) \
    {row_##rows, better_##columns, step_##columns, join_##columns}
#define ALL_SETS(name, element, number, worst, BETTER, BEYOND) \
    IN_ROWS(name##_generic, generic, , element, number, worst, BETTER, BEYOND) \
    IN_ROWS(name##_avx2, avx2, IPU_TARGET_AVX2, element, number, worst, BETTER, \
            BEYOND) \
    IN_ROWS(name##_avx512, avx2, IPU_TARGET_AVX512, element, number, worst, BETTER, \
            BEYOND) \
    IN_COLUMNS(name##_generic, , element, number, BETTER) \
    IN_COLUMNS(name##_avx2, IPU_TARGET_AVX2, element, number, BETTER) \
    static const place_functions name[] = { \
        [IPU_CPU_GENERIC] = FORM(name##_generic, name##_generic), \
        [IPU_CPU_AVX2] = FORM(name##_avx2, name##_avx2), \
        [IPU_CPU_AVX512] = FORM(name##_avx512, name##_avx2)};

ALL_SETS(max_f32, float, int32_t, -INFINITY, ABOVE_OR_NAN, ABOVE)
ALL_SETS(max_f64, double, int64_t, -(double)INFINITY, ABOVE_OR_NAN, ABOVE)
ALL_SETS(min_f32, float, int32_t, INFINITY, BELOW_OR_NAN, BELOW)
ALL_SETS(min_f64, double, int64_t, (double)INFINITY, BELOW_OR_NAN, BELOW)
#define INTEGERS(NAME, suffix, type, bits, least, greatest) \
    ALL_SETS(max_##suffix, type, int##bits##_t, least, ABOVE, ABOVE) \
    ALL_SETS(min_##suffix, type, int##bits##_t, greatest, BELOW, BELOW)
IPU_INTEGER_LIST(INTEGERS)

#define OF(dtype, name) [IPU_DTYPE_##dtype] = {max_##name, min_##name}
static const place_functions *const table[IPU_DTYPE_COUNT][2] = {
    OF(FLOAT32, f32), OF(FLOAT16, i16), OF(FLOAT64, f64), OF(INT8, i8),
    OF(INT16, i16),   OF(INT32, i32),   OF(INT64, i64),   OF(UINT8, u8),
    OF(UINT16, u16),  OF(UINT32, u32),  OF(UINT64, u64)};

/* Halves as integers in the same order: zeros are equal, NaN is `worst`. */
IPU_INLINE int16_t
half_key(uint16_t x, int16_t worst)
{
    const int16_t size = (int16_t)(x & 0x7fff);
    const int16_t key = (int16_t)(x > 0x7fff ? -size : size);
    return size > 0x7c00 ? worst : key;
}

typedef void keys_fn(int16_t *keys, const uint16_t *x, int64_t n, int16_t worst);
#define HALF_KEYS(name, target) \
    IPU_LOOP(target, name, \
             (int16_t *keys, const uint16_t *x, int64_t n, int16_t worst), \
             keys[j] = half_key(x[j], worst);)
HALF_KEYS(half_keys_generic, )
HALF_KEYS(half_keys_avx2, IPU_TARGET_AVX2)

/* The extreme key of a block of halves. */
typedef int16_t extreme_half_fn(const uint16_t *x);
#define EXTREME_HALF(name, target, worst, BEYOND) \
    AMONG(name, target, uint16_t, int16_t, worst, half_key, BEYOND) \
    target static int16_t name(const uint16_t *x) \
    { \
        return among_##name(x, BLOCK, IPU_FOLD_LANES(int16_t)); \
    }
#define EXTREMES_OF_HALVES(name, target) \
    EXTREME_HALF(half_max_##name, target, INT16_MIN, ABOVE) \
    EXTREME_HALF(half_min_##name, target, INT16_MAX, BELOW)
EXTREMES_OF_HALVES(generic, )
EXTREMES_OF_HALVES(avx2, IPU_TARGET_AVX2)
EXTREMES_OF_HALVES(avx512, IPU_TARGET_AVX512)
static extreme_half_fn *const extremes_of_halves[][2] = {
    [IPU_CPU_GENERIC] = {half_max_generic, half_min_generic},
    [IPU_CPU_AVX2] = {half_max_avx2, half_min_avx2},
    [IPU_CPU_AVX512] = {half_max_avx512, half_min_avx512}};

/* Prepared. */
typedef struct place_plan {
    const place_functions *of;
    keys_fn *keys;    /* of halves */
    extreme_half_fn *extreme;
    int16_t worst;    /* the key of NaN */
    bool half;
    bool wide;        /* places are int64 */
    bool in_parts;    /* tasks are parts of rows */
    int64_t size;     /* of the axis */
    int64_t inner;    /* elements after it */
    int64_t outer;    /* before it */
    int64_t bytes;    /* of an element */
    int64_t strips;   /* of `inner` */
    int64_t together; /* rows that are one row of a strip */
    int64_t parts;    /* of a row */
    int64_t per_task; /* rows, parts or strips */
} place_plan;

typedef struct place_job {
    const place_plan *plan;
    const void *x;
    void *out;
    int64_t *parts; /* places */
} place_job;

static void
store(const place_job *job, int64_t i, int64_t place)
{
    if (job->plan->wide) {
        ((int64_t *)job->out)[i] = place;
    } else {
        ((int32_t *)job->out)[i] = (int32_t)place;
    }
}

/* --- along the last axis ---------------------------------------------------------- */

/* The place in the n halves at x: that of the extreme key of the first block that has
 * it. The last block is whole as the others are, and begins before they end. */
static int64_t
place_of_half(const place_plan *plan, const uint16_t *x, int64_t n)
{
    int16_t keys[BLOCK];
    int64_t block = 0;
    int64_t count = ipu__min(n, BLOCK);
    if (n > BLOCK) {
        int16_t pair[2] = {plan->extreme(x)}; /* the best one so far and the next */
        for (int64_t i = BLOCK; i < n; i += BLOCK) {
            const int64_t at = ipu__min(i, n - BLOCK);
            pair[1] = plan->extreme(x + at);
            if (plan->of->better(pair, 1, 0)) {
                pair[0] = pair[1];
                block = at;
            }
        }
    }
    plan->keys(keys, x + block, count, plan->worst);
    return block + plan->of->row(keys, count);
}

static int64_t
place_in_row(const place_plan *plan, const void *x, int64_t n)
{
    return plan->half ? place_of_half(plan, x, n) : plan->of->row(x, n);
}

static void
place_rows(void *state, int64_t begin, int64_t end)
{
    const place_job *job = state;
    const place_plan *plan = job->plan;
    const int64_t most = plan->half ? ipu__max(1, BLOCK / plan->size) : 1;
    int16_t keys[BLOCK];
    for (int64_t some, i = begin; i < end; i += some) {
        const void *x = ipu__at(job->x, i * plan->size * plan->bytes);
        some = ipu__min(end - i, most);
        if (some == 1) {
            store(job, i, place_in_row(plan, x, plan->size));
            continue;
        }
        plan->keys(keys, x, some * plan->size, plan->worst);
        for (int64_t j = 0; j < some; j++) {
            store(job, i + j, plan->of->row(keys + j * plan->size, plan->size));
        }
    }
}

static void
place_parts(void *state, int64_t begin, int64_t end)
{
    const place_job *job = state;
    const place_plan *plan = job->plan;
    for (int64_t i = begin; i < end; i++) {
        int64_t first = i % plan->parts * PART;
        const void *x =
            ipu__at(job->x, (i / plan->parts * plan->size + first) * plan->bytes);
        job->parts[i] = first + place_in_row(plan, x, ipu__min(plan->size - first, PART));
    }
}

static void
join_parts(const place_job *job)
{
    const place_plan *plan = job->plan;
    for (int64_t i = 0; i < plan->outer; i++) {
        const void *x = ipu__at(job->x, i * plan->size * plan->bytes);
        const int64_t *parts = job->parts + i * plan->parts;
        int64_t best = parts[0];
        for (int64_t k = 1; k < plan->parts; k++) {
            bool better;
            if (plan->half) {
                const uint16_t *halves = x;
                int16_t pair[2] = {half_key(halves[best], plan->worst),
                                   half_key(halves[parts[k]], plan->worst)};
                better = plan->of->better(pair, 1, 0);
            } else {
                better = plan->of->better(x, parts[k], best);
            }
            best = better ? parts[k] : best;
        }
        store(job, i, best);
    }
}

/* --- along another axis ----------------------------------------------------------- */

/* n elements as the functions take them. */
static const void *
keyed(const place_plan *plan, int16_t keys[STRIP], const void *x, int64_t n)
{
    if (!plan->half) {
        return x;
    }
    plan->keys(keys, x, n, plan->worst);
    return keys;
}

/* The extremes of n columns and their rows; rows begin `apart` elements after each
 * other. */
static void
place_columns(const place_plan *plan, void *best, int64_t *places, const void *elements,
              int64_t n, int64_t rows, int64_t apart)
{
    _Alignas(IPU_BUFFER_ALIGNMENT) unsigned char chunk[STRIP * 8];
    _Alignas(IPU_BUFFER_ALIGNMENT) unsigned char at[STRIP * 8];
    int16_t keys[STRIP];
    const int64_t bytes = plan->bytes;
    /* keys of rows are made together where they lie side by side */
    const int64_t most = !plan->half ? CHUNK_ROWS : n == apart ? STRIP / n : 1;
    for (int64_t first = 0; first < rows; first += CHUNK_ROWS) {
        const int64_t end = ipu__min(rows - first, CHUNK_ROWS);
        for (int64_t some, r = 0; r < end; r += some) {
            some = ipu__min(end - r, most);
            const void *x = ipu__at(elements, (first + r) * apart * plan->bytes);
            x = keyed(plan, keys, x, some * n);
            if (r == 0) {
                memcpy(chunk, x, (size_t)(n * bytes));
                memset(at, 0, (size_t)(n * bytes));
            }
            plan->of->step(chunk, at, x, n, r, r + some, plan->half ? n : apart);
        }
        plan->of->join(best, places, chunk, at, n, first);
    }
}

/* Of few columns several rows are one, so that they fill vectors; then the rest of the
 * rows comes, and of the places found for a column the best counts. */
static void
place_strip(const place_plan *plan, int64_t *places, const void *x, int64_t n)
{
    _Alignas(IPU_BUFFER_ALIGNMENT) unsigned char best[2 * STRIP * 8];
    const place_functions *of = plan->of;
    const int64_t bytes = plan->bytes;
    const int64_t rows = plan->size / plan->together;
    const int64_t columns = n * plan->together;
    const int64_t rest = plan->size - rows * plan->together;
    int64_t found[2 * STRIP];
    int64_t of_column[STRIP];
    if (plan->together == 1) {
        place_columns(plan, best, places, x, n, rows, plan->inner);
        return;
    }
    place_columns(plan, best, found, x, columns, rows, columns);
    for (int64_t k = 0; k < columns; k++) {
        found[k] = found[k] * plan->together + k / n;
    }
    if (rest > 0) {
        const int64_t first = plan->size - rest;
        place_columns(plan, best + columns * bytes, found + columns,
                      ipu__at(x, first * n * plan->bytes), n, rest, n);
        for (int64_t j = 0; j < n; j++) {
            found[columns + j] += first;
        }
    }
    for (int64_t k = 0; k < columns + (rest > 0 ? n : 0); k++) {
        int64_t *to = &of_column[k % n];
        if (k < n || of->better(best, k, *to) ||
            (found[k] < found[*to] && !of->better(best, *to, k))) {
            *to = k;
        }
    }
    for (int64_t j = 0; j < n; j++) {
        places[j] = found[of_column[j]];
    }
}

static void
place_strips(void *state, int64_t begin, int64_t end)
{
    const place_job *job = state;
    const place_plan *plan = job->plan;
    int64_t places[STRIP];
    for (int64_t s = begin; s < end; s++) {
        int64_t column = s % plan->strips * STRIP;
        int64_t n = ipu__min(plan->inner - column, STRIP);
        int64_t base = s / plan->strips * plan->size * plan->inner + column;
        place_strip(plan, places, ipu__at(job->x, base * plan->bytes), n);
        for (int64_t j = 0; j < n; j++) {
            store(job, s / plan->strips * plan->inner + column + j, places[j]);
        }
    }
}

/* --- run and choose --------------------------------------------------------------- */

static ipu_status
run(const ipu_kernel_call *call)
{
    const place_plan *plan = call->spec->prepared;
    place_job job = {plan, call->inputs[0], call->outputs[0], call->workspace};
    int64_t results = plan->outer * plan->inner;
    IPU_FAIL_IF(call->ctx, plan->size == 0 && results > 0, INVALID_ARGUMENT,
                "%s over an axis which has no elements",
                ipu_op_info_of(call->spec->op)->name);
    if (plan->in_parts) {
        ipu__run_items(call->pool, plan->outer * plan->parts, 1, place_parts, &job);
        join_parts(&job);
    } else if (plan->inner == 1) {
        ipu__run_items(call->pool, plan->outer, plan->per_task, place_rows, &job);
    } else {
        int64_t strips = plan->outer * plan->strips;
        ipu__run_items(call->pool, strips, plan->per_task, place_strips, &job);
    }
    return IPU_OK;
}

ipu_status
ipu_choose_argmax(const ipu__preparation *p)
{
    ipu_kernel_spec *spec = p->spec;
    const ipu_shape *shape = &spec->inputs[0].shape;
    ipu_dtype dtype = spec->inputs[0].dtype;
    static const char *const names[][2] = {
        [IPU_CPU_GENERIC] = {"place_strips_generic", "place_rows_generic"},
        [IPU_CPU_AVX2] = {"place_strips_avx2", "place_rows_avx2"},
        [IPU_CPU_AVX512] = {"place_strips_avx2", "place_rows_avx512"}};
    place_plan *plan;
    if (table[dtype][0] == NULL) {
        return IPU_OK; /* bool */
    }
    IPU_TRY(ipu__prepared(p, sizeof *plan, &plan));
    plan->of = &table[dtype][spec->op == IPU_OP_ID_ARGMIN][p->cpu];
    plan->keys = p->cpu >= IPU_CPU_AVX2 ? half_keys_avx2 : half_keys_generic;
    plan->extreme = extremes_of_halves[p->cpu][spec->op == IPU_OP_ID_ARGMIN];
    plan->worst = spec->op == IPU_OP_ID_ARGMIN ? INT16_MAX : INT16_MIN;
    plan->half = dtype == IPU_DTYPE_FLOAT16;
    plan->wide = spec->outputs[0].dtype == IPU_DTYPE_INT64;
    plan->bytes = (int64_t)ipu_dtype_bytes(dtype);
    int32_t axis = ipu__axis(ipu_attrs_int(spec->attrs, IPU_ATTR_AXIS, 0), shape->rank);
    plan->outer = ipu_shape_span(shape, 0, axis);
    plan->size = shape->dims[axis];
    plan->inner = ipu_shape_span(shape, axis + 1, shape->rank);
    plan->strips = ipu__ceil_div(plan->inner, STRIP);
    plan->together = 1;
    while (plan->inner <= FEW_COLUMNS && 2 * plan->together * plan->inner <= STRIP &&
           plan->together * LEAST_ROWS <= plan->size) {
        plan->together *= 2;
    }
    plan->parts = ipu__ceil_div(plan->size, PART);
    plan->in_parts = plan->inner == 1 && plan->outer < FEW_ROWS && plan->parts > 1;
    plan->per_task = 1 + TASK_ELEMENTS / (1 + plan->size * ipu__min(plan->inner, STRIP));
    if (plan->in_parts) {
        spec->workspace_bytes = (size_t)(plan->outer * plan->parts) * sizeof(int64_t);
    }
    spec->run = run;
    spec->kernel_name = names[p->cpu][plan->inner == 1];
    return IPU_OK;
}
