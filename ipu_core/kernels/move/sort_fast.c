/* SPDX-License-Identifier: MIT
 *
 * top_k. Values become unsigned keys of their width whose order is the one asked for, the
 * best one the smallest. A row, or what of it can be among the first `depth`, is sorted
 * by its keys: short ones by insertion, others digit by digit (least significant first),
 * which leaves equal keys as they stood. Of long keys the three highest digits that
 * differ bring most entries to where they belong, and insertion does the rest. Where few
 * of a row are wanted, its keys are compared, a block at a time, with the worst of the
 * best so far; what is better is collected, and the collection sorted and cut when it is
 * full. Threads take runs of rows, each with a part of the workspace. */
#include "kernels/core/kernel_impl.h"

enum {
    BLOCK = 256,      /* keys that are made, and compared, at once */
    SHORT = 48,       /* by insertion */
    FEWEST = 16,      /* keys of a row, some of which are chosen first */
    SMALL_DIGIT = 8,  /* bits */
    DIGIT = 11,
    LONG = 2048,      /* keys from which on digits are long */
    DIGITS = 3,       /* that most sorts need */
    TASK_ELEMENTS = 4096
};

typedef void keys_fn(void *keys, const void *x, int64_t n, bool ascending);

/* Prepared. */
typedef struct sort_plan sort_plan;
struct sort_plan {
    keys_fn *keys;
    /* whether one of n keys is below the limit */
    bool (*any_below)(const void *keys, int64_t n, uint64_t limit);
    void (*row)(const sort_plan *plan, void *workspace, const void *x, int32_t *places);
    void (*short_rows)(const sort_plan *plan, const void *x, int64_t rows,
                       int32_t *places);
    int64_t n;
    int64_t depth;
    int64_t rows;
    int64_t room;  /* entries of a collection; n where the whole row is sorted */
    int64_t bytes; /* of an element */
    size_t room_bytes;
    int64_t per_part;
    bool ascending;
    bool by_insertion; /* rows, some at a time */
};

/* --- keys ------------------------------------------------------------------------- */

/* Of elements [0, n), at most BLOCK. The smallest key is the best one: descending, the
 * largest value has it. All NaN are one, the largest, and the two zeros are one. Keys of
 * small dtypes lie in 32 bits. */
#define FLOAT_KEYS(suffix, target, key, wide, sign, least_nan) \
    target static void keys_##suffix(void *keys, const void *x, int64_t n, \
                                     bool ascending) \
    { \
        const key *bits = x; \
        wide *out = keys; \
        key turn = ascending ? (key)0 : (key)~(key)0; \
        IPU_INDEPENDENT \
        for (int64_t i = 0; i < n; i++) { \
            key size = (key)(bits[i] & (key)~(sign)); \
            key value = size == 0 ? (key)0 : bits[i]; \
            key negative = (key)(0 - (value >> (8 * sizeof(key) - 1))); \
            key ordered = (key)(value ^ (negative | (sign))); \
            ordered = size >= (least_nan) ? (key)~(key)0 : ordered; \
            out[i] = (key)(ordered ^ turn); \
        } \
    }
#define INTEGER_KEYS(suffix, target, key, wide, sign) \
    target static void keys_##suffix(void *keys, const void *x, int64_t n, \
                                     bool ascending) \
    { \
        const key *bits = x; \
        wide *out = keys; \
        key turn = ascending ? (key)(sign) : (key)~(key)(sign); \
        IPU_INDEPENDENT \
        for (int64_t i = 0; i < n; i++) { \
            out[i] = (key)(bits[i] ^ turn); \
        } \
    }
#define ALL_KEYS(suffix, target) \
    FLOAT_KEYS(f16_##suffix, target, uint16_t, uint32_t, 0x8000u, 0x7c01u) \
    FLOAT_KEYS(f32_##suffix, target, uint32_t, uint32_t, 0x80000000u, 0x7f800001u) \
    FLOAT_KEYS(f64_##suffix, target, uint64_t, uint64_t, UINT64_C(1) << 63, \
               UINT64_C(0x7ff0000000000001)) \
    INTEGER_KEYS(i8_##suffix, target, uint8_t, uint32_t, 0x80u) \
    INTEGER_KEYS(i16_##suffix, target, uint16_t, uint32_t, 0x8000u) \
    INTEGER_KEYS(i32_##suffix, target, uint32_t, uint32_t, 0x80000000u) \
    INTEGER_KEYS(i64_##suffix, target, uint64_t, uint64_t, UINT64_C(1) << 63) \
    INTEGER_KEYS(u8_##suffix, target, uint8_t, uint32_t, 0u) \
    INTEGER_KEYS(u16_##suffix, target, uint16_t, uint32_t, 0u) \
    INTEGER_KEYS(u32_##suffix, target, uint32_t, uint32_t, 0u) \
    INTEGER_KEYS(u64_##suffix, target, uint64_t, uint64_t, 0u)
ALL_KEYS(generic, )
ALL_KEYS(avx2, IPU_TARGET_AVX2)

#define OF(dtype, name) [IPU_DTYPE_##dtype] = {keys_##name##_generic, keys_##name##_avx2}
static keys_fn *const key_functions[IPU_DTYPE_COUNT][2] = {
    OF(FLOAT32, f32), OF(FLOAT16, f16), OF(FLOAT64, f64), OF(INT8, i8),
    OF(INT16, i16),   OF(INT32, i32),   OF(INT64, i64),   OF(UINT8, u8),
    OF(UINT16, u16),  OF(UINT32, u32),  OF(UINT64, u64)};

#define ANY_BELOW(name, target, key) \
    target static bool any_below_##name(const void *keys, int64_t n, uint64_t limit) \
    { \
        const key *x = keys; \
        key most = (key)limit; \
        key any = 0; \
        for (int64_t i = 0; i < n; i++) { \
            any |= (key)(x[i] < most); \
        } \
        return any != 0; \
    }
ANY_BELOW(32_generic, , uint32_t)
ANY_BELOW(64_generic, , uint64_t)
ANY_BELOW(32_avx2, IPU_TARGET_AVX2, uint32_t)
ANY_BELOW(64_avx2, IPU_TARGET_AVX2, uint64_t)

/* --- sorting ---------------------------------------------------------------------- */

/* A digit's tallies become the places where its entries begin. */
static void
begins_of(uint32_t *tally, uint32_t digits)
{
    uint32_t begin = 0;
    for (uint32_t d = 0; d < digits; d++) {
        uint32_t count = tally[d];
        tally[d] = begin;
        begin += count;
    }
}

/* Entries of a key and a place, for keys of up to 32 bits and of 64.
 *   place     entry i among those before it, which are sorted; gives where it is then
 *   count     how often some digits from bit `low` on have each value, in one walk: as
 *             keys of a row often begin alike, tallies of one digit wait for each other
 *   digits    x by bits [low, high) of what keys are above the least one, with as much
 *             room in `other`; gives the one of the two that holds the result
 *   long      the same by whole keys. The highest bits alone leave few entries to move
 *   sort      the same of any number
 *   row       top_k of a row
 *   short     of rows that are sorted whole, by insertion */
#define SORT(bits, key_type) \
    IPU_INLINE int64_t place_##bits(entry_##bits *x, int64_t i) \
    { \
        const entry_##bits one = x[i]; \
        for (; i > 0 && x[i - 1].key > one.key; i--) { \
            x[i] = x[i - 1]; \
        } \
        x[i] = one; \
        return i; \
    } \
\
    IPU_INLINE void count_##bits(uint32_t tally[][1 << DIGIT], const entry_##bits *x, \
                                 int64_t n, key_type least, int32_t low, \
                                 int32_t width, int32_t digits) \
    { \
        uint32_t mask = (UINT32_C(1) << width) - 1; \
        for (int32_t d = 0; d < digits; d++) { \
            memset(tally[d], 0, (mask + 1) * sizeof *tally[d]); \
        } \
        for (int64_t i = 0; i < n; i++) { \
            key_type rest = (x[i].key - least) >> low; \
            for (int32_t d = 0; d < digits; d++, rest >>= width) { \
                tally[d][(uint32_t)rest & mask]++; \
            } \
        } \
    } \
\
    IPU_INLINE entry_##bits *digits_##bits(entry_##bits *x, entry_##bits *other, \
                                           int64_t n, key_type least, int32_t low, \
                                           int32_t high, int32_t width) \
    { \
        uint32_t tallies[DIGITS][1 << DIGIT]; \
        uint32_t mask = (UINT32_C(1) << width) - 1; \
        int32_t d = 0; \
        for (int32_t shift = low; shift < high; shift += width, d++) { \
            if (d % DIGITS == 0) { \
                switch (ipu__min((high - shift + width - 1) / width, DIGITS)) { \
                case 1: \
                    count_##bits(tallies, x, n, least, shift, width, 1); \
                    break; \
                case 2: \
                    count_##bits(tallies, x, n, least, shift, width, 2); \
                    break; \
                default: \
                    count_##bits(tallies, x, n, least, shift, width, DIGITS); \
                    break; \
                } \
            } \
            uint32_t *tally = tallies[d % DIGITS]; \
            if (tally[(uint32_t)((x[0].key - least) >> shift) & mask] == \
                (uint32_t)n) { \
                continue; /* all have this digit */ \
            } \
            begins_of(tally, mask + 1); \
            for (int64_t i = 0; i < n; i++) { \
                other[tally[(uint32_t)((x[i].key - least) >> shift) & mask]++] = x[i]; \
            } \
            entry_##bits *sorted = other; \
            other = x; \
            x = sorted; \
        } \
        return x; \
    } \
\
    __attribute__((noinline)) static entry_##bits *long_##bits( \
        entry_##bits *x, entry_##bits *other, int64_t n, int32_t key_bits) \
    { \
        int32_t width = n >= LONG && key_bits > 16 ? DIGIT : SMALL_DIGIT; \
        if (key_bits <= DIGITS * width) { \
            return digits_##bits(x, other, n, 0, 0, key_bits, width); \
        } \
        key_type least = x[0].key; \
        key_type most = x[0].key; \
        for (int64_t i = 1; i < n; i++) { \
            least = x[i].key < least ? x[i].key : least; \
            most = x[i].key > most ? x[i].key : most; \
        } \
        int32_t high = most == least ? 0 : 64 - __builtin_clzll(most - least); \
        int32_t low = (int32_t)ipu__max(high - DIGITS * width, 0); \
        entry_##bits *sorted = digits_##bits(x, other, n, least, low, high, width); \
        int64_t moves = 0; \
        for (int64_t i = 1; low > 0 && i < n && moves <= 2 * n; i++) { \
            moves += i - place_##bits(sorted, i); \
        } \
        if (moves > 2 * n) { \
            other = sorted == x ? other : x; \
            sorted = digits_##bits(sorted, other, n, least, 0, high, width); \
        } \
        return sorted; \
    } \
\
    static entry_##bits *sort_##bits(entry_##bits *x, entry_##bits *other, int64_t n, \
                                     int32_t key_bits) \
    { \
        if (n > SHORT) { \
            return long_##bits(x, other, n, key_bits); \
        } \
        for (int64_t i = 1; i < n; i++) { \
            (void)place_##bits(x, i); \
        } \
        return x; \
    } \
\
    static void row_##bits(const sort_plan *plan, void *workspace, const void *x, \
                           int32_t *places) \
    { \
        entry_##bits *best = workspace; \
        entry_##bits *other = best + plan->room; \
        key_type keys[BLOCK]; \
        key_type worst = 0; /* of the best ones, once there are enough */ \
        int64_t count = 0; \
        bool full = false; \
        int32_t key_bits = (int32_t)plan->bytes * 8; \
        for (int64_t first = 0; first < plan->n; first += BLOCK) { \
            int64_t n = ipu__min(plan->n - first, BLOCK); \
            plan->keys(keys, ipu__at(x, first * plan->bytes), n, plan->ascending); \
            if (full && !plan->any_below(keys, n, (uint64_t)worst)) { \
                continue; \
            } \
            for (int64_t i = 0; i < n; i++) { \
                if (full && keys[i] >= worst) { \
                    continue; \
                } \
                best[count++] = (entry_##bits){keys[i], (uint32_t)(first + i)}; \
                if (count == plan->room && plan->room < plan->n) { \
                    entry_##bits *sorted = sort_##bits(best, other, count, key_bits); \
                    other = sorted == best ? other : best; \
                    best = sorted; \
                    count = plan->depth; \
                    worst = best[count - 1].key; \
                    full = true; \
                } \
            } \
        } \
        best = sort_##bits(best, other, count, key_bits); \
        for (int64_t i = 0; i < plan->depth; i++) { \
            places[i] = (int32_t)best[i].place; \
        } \
    } \
\
    static void short_##bits(const sort_plan *plan, const void *x, int64_t rows, \
                             int32_t *places) \
    { \
        key_type keys[BLOCK]; \
        entry_##bits row[SHORT]; \
        plan->keys(keys, x, rows * plan->n, plan->ascending); \
        for (int64_t r = 0; r < rows; r++, places += plan->depth) { \
            for (int64_t i = 0; i < plan->n; i++) { \
                row[i] = (entry_##bits){keys[r * plan->n + i], (uint32_t)i}; \
                (void)place_##bits(row, i); \
            } \
            for (int64_t i = 0; i < plan->depth; i++) { \
                places[i] = (int32_t)row[i].place; \
            } \
        } \
    }

static void
pick_values(const sort_plan *plan, void *values, const void *x, int64_t rows,
            const int32_t *places)
{
#define PICK(type) \
    for (int64_t r = 0; r < rows; r++) { \
        const type *row = (const type *)x + r * plan->n; \
        for (int64_t i = r * plan->depth; i < (r + 1) * plan->depth; i++) { \
            ((type *)values)[i] = row[places[i]]; \
        } \
    }
    IPU_BY_WIDTH(plan->bytes, PICK)
#undef PICK
}

typedef ipu__numbered entry_32;
typedef struct entry_64 {
    uint64_t key;
    uint32_t place;
} entry_64;
SORT(32, uint32_t)
SORT(64, uint64_t)

ipu__numbered *
ipu__sort_numbered(ipu__numbered *x, ipu__numbered *other, int64_t n)
{
    return sort_32(x, other, n, 32);
}

/* --- run and choose --------------------------------------------------------------- */

static void
sort_rows(void *state, int64_t begin, int64_t end, void *room)
{
    const ipu_kernel_call *call = state;
    const sort_plan *plan = call->spec->prepared;
    const int64_t last = ipu__min(end * plan->per_part, plan->rows);
    for (int64_t rows, row = begin * plan->per_part; row < last; row += rows) {
        const void *x = ipu__at(call->inputs[0], row * plan->n * plan->bytes);
        const int64_t at = row * plan->depth;
        int32_t *places = (int32_t *)call->outputs[1] + at;
        rows = plan->by_insertion ? ipu__min(last - row, BLOCK / plan->n) : 1;
        if (plan->by_insertion) {
            plan->short_rows(plan, x, rows, places);
        } else {
            plan->row(plan, room, x, places);
        }
        pick_values(plan, ipu__at_mutable(call->outputs[0], at * plan->bytes), x, rows,
                    places);
    }
}

static int64_t
parts_of(const sort_plan *plan)
{
    return ipu__ceil_div(plan->rows, plan->per_part);
}

static ipu_status
run_top_k(const ipu_kernel_call *call)
{
    const sort_plan *plan = call->spec->prepared;
    ipu_kernel_call copy = *call;
    if (plan->depth > 0) {
        ipu__share_out(call->pool, parts_of(plan), sort_rows, &copy, call->workspace,
                       plan->room_bytes);
    }
    return IPU_OK;
}

ipu_status
ipu_choose_top_k(const ipu__preparation *p)
{
    ipu_kernel_spec *spec = p->spec;
    const ipu_shape *shape = &spec->inputs[0].shape;
    ipu_dtype dtype = spec->inputs[0].dtype;
    bool avx2 = p->cpu >= IPU_CPU_AVX2;
    sort_plan *plan;
    IPU_TRY(ipu__prepared(p, sizeof *plan, &plan));
    plan->n = shape->dims[shape->rank - 1];
    plan->depth = spec->outputs[0].shape.dims[shape->rank - 1];
    plan->rows = ipu_shape_span(shape, 0, shape->rank - 1);
    plan->bytes = (int64_t)ipu_dtype_bytes(dtype);
    plan->ascending = ipu_attrs_int(spec->attrs, IPU_ATTR_ASCENDING, 0) != 0;
    plan->room = plan->n < FEWEST ? plan->n : ipu__min(plan->depth * 2, plan->n);
    plan->keys = key_functions[dtype][avx2];
    bool wide = plan->bytes == 8;
    plan->row = wide ? row_64 : row_32;
    plan->short_rows = wide ? short_64 : short_32;
    plan->by_insertion = plan->n == plan->room && plan->n <= SHORT;
    plan->any_below = wide ? (avx2 ? any_below_64_avx2 : any_below_64_generic)
                           : (avx2 ? any_below_32_avx2 : any_below_32_generic);
    size_t entry = wide ? sizeof(entry_64) : sizeof(entry_32);
    plan->room_bytes = (size_t)plan->room * 2 * entry;
    plan->per_part = 1 + TASK_ELEMENTS / (plan->n + 1);
    spec->workspace_bytes = ipu__share_bytes(parts_of(plan), plan->room_bytes);
    spec->run = run_top_k;
    spec->kernel_name = avx2 ? "radix_avx2" : "radix_generic";
    return IPU_OK;
}
