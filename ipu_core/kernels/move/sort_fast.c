/* SPDX-License-Identifier: MIT
 *
 * top_k. Values become unsigned keys of their width whose order is the one asked for, the
 * best one the smallest. A row, or what of it can be among the first `depth`, is sorted
 * by its keys: short ones by insertion, others digit by digit (least significant first),
 * which leaves equal keys as they stood. Where few of a row are wanted, its keys are
 * compared, a block at a time, with the worst of the best so far; what is better is
 * collected, and the collection sorted and cut when it is full. Threads take runs of
 * rows, each with a part of the workspace. */
#include "kernels/core/kernel_impl.h"

enum {
    BLOCK = 256,      /* keys that are made, and compared, at once */
    SHORT = 48,       /* by insertion */
    FEWEST = 24,      /* entries of a collection */
    SMALL_DIGIT = 8,  /* bits */
    DIGIT = 11,
    LONG = 2048,      /* keys from which on digits are long */
    TASK_ELEMENTS = 4096
};

typedef void keys_fn(void *keys, const void *x, int64_t n, bool ascending);

/* Prepared. */
typedef struct sort_plan sort_plan;
struct sort_plan {
    keys_fn *keys;
    /* whether one of n keys is below the limit */
    bool (*any_below)(const void *keys, int64_t n, uint64_t limit);
    void (*row)(const sort_plan *plan, void *workspace, const void *x, void *values,
                int32_t *places);
    int64_t n;
    int64_t depth;
    int64_t rows;
    int64_t room;  /* entries of a collection; n where the whole row is sorted */
    int64_t bytes; /* of an element */
    size_t room_bytes;
    int64_t per_part;
    bool ascending;
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
 *   sort      x by keys, with as much room in `other`; gives the one of the two that
 *             holds the result
 *   row       top_k of one row */
#define SORT(bits, key_type) \
    static void insert_##bits(entry_##bits *x, int64_t n) \
    { \
        for (int64_t i = 1; i < n; i++) { \
            entry_##bits one = x[i]; \
            int64_t at = i; \
            for (; at > 0 && x[at - 1].key > one.key; at--) { \
                x[at] = x[at - 1]; \
            } \
            x[at] = one; \
        } \
    } \
\
    static entry_##bits *sort_##bits(entry_##bits *x, entry_##bits *other, int64_t n, \
                                     int32_t key_bits) \
    { \
        uint32_t tally[1 << DIGIT]; \
        if (n <= SHORT) { \
            insert_##bits(x, n); \
            return x; \
        } \
        int32_t width = n >= LONG && key_bits > 16 ? DIGIT : SMALL_DIGIT; \
        uint32_t mask = (UINT32_C(1) << width) - 1; \
        for (int32_t shift = 0; shift < key_bits; shift += width) { \
            memset(tally, 0, (mask + 1) * sizeof *tally); \
            for (int64_t i = 0; i < n; i++) { \
                tally[(uint32_t)(x[i].key >> shift) & mask]++; \
            } \
            if (tally[(uint32_t)(x[0].key >> shift) & mask] == (uint32_t)n) { \
                continue; /* all have this digit */ \
            } \
            begins_of(tally, mask + 1); \
            for (int64_t i = 0; i < n; i++) { \
                other[tally[(uint32_t)(x[i].key >> shift) & mask]++] = x[i]; \
            } \
            entry_##bits *sorted = other; \
            other = x; \
            x = sorted; \
        } \
        return x; \
    } \
\
    static void row_##bits(const sort_plan *plan, void *workspace, const void *x, \
                           void *values, int32_t *places) \
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
        pick_values(plan, values, x, places); \
    }

static void
pick_values(const sort_plan *plan, void *values, const void *x, const int32_t *places)
{
#define PICK(type) \
    for (int64_t i = 0; i < plan->depth; i++) { \
        ((type *)values)[i] = ((const type *)x)[places[i]]; \
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
ipu__sort_numbered(ipu__numbered *x, ipu__numbered *other, int64_t n, int32_t key_bits)
{
    return sort_32(x, other, n, key_bits);
}

/* --- run and choose --------------------------------------------------------------- */

static void
sort_rows(void *state, int64_t begin, int64_t end, void *room)
{
    const ipu_kernel_call *call = state;
    const sort_plan *plan = call->spec->prepared;
    const int64_t last = ipu__min(end * plan->per_part, plan->rows);
    for (int64_t row = begin * plan->per_part; row < last; row++) {
        int64_t at = row * plan->depth;
        plan->row(plan, room, ipu__at(call->inputs[0], row * plan->n * plan->bytes),
                  ipu__at_mutable(call->outputs[0], at * plan->bytes),
                  (int32_t *)call->outputs[1] + at);
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
    plan->room = plan->depth * 2 < FEWEST ? FEWEST : plan->depth * 2;
    plan->room = ipu__min(plan->room, plan->n);
    plan->keys = key_functions[dtype][avx2];
    bool wide = plan->bytes == 8;
    plan->row = wide ? row_64 : row_32;
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
