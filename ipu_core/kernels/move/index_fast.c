/* SPDX-License-Identifier: MIT
 *
 * gather_grad, scatter_nd and tensor_scatter: slices of updates join the slices of a
 * tensor that indices name, at every element in the order of the indices. The tensor
 * is zeros, or input 0. Tasks are ranges of its slices, or, where slices are long,
 * columns of all: so no two threads meet at an element. Additions are loops over the
 * dtype's bits; what else joins is a block function (blocks.c), as in element-wise ops.
 *
 * Sums of floats go by sum_tree.h: the updates of a slice are counted, and those of which
 * there are more than a block have totals beside the result, which holds their chains.
 * Those slices are few, so their totals are small against the updates.
 *
 * Sums and products of float16 are held in float32: the numbers of slices are sorted,
 * so that the updates of one stand together, in their order, and each slice is read and
 * rounded once. Tasks are such groups. Short or few slices are widened all at once. */
#include <stdatomic.h>
#include <string.h>

#include "kernels/core/slices_impl.h"
#include "kernels/core/sum_tree.h"

enum {
    STRIP = 512,          /* columns that are joined at once */
    LONG_SLICE = 4 * STRIP,
    RANGES = 4,           /* of slices */
    LARGE_BYTES = 262144, /* a tensor worth more than one task */
    LEAST_BYTES = 64,     /* a slice that is worth a look at all indices by each task */
    SHORT_SLICE = 16,     /* halves of one, that are held in float32 for all slices, or */
    FEW_ELEMENTS = 16384, /* ... of all slices, of which each has no more than ... */
    WIDE_ELEMENTS = 4096, /* halves of updates that are widened at once */
    WIDE_STRIP = 256,     /* halves */
    BINS = 4096,          /* a power of 2 */
    TASK_ELEMENTS = 16384
};

/* out[numbers[i]] joined with slice i: columns [0, columns) of slices of `inner`. */
typedef void join_slices_fn(void *out, const void *x, const int64_t *numbers, int64_t n,
                            int64_t inner, int64_t columns);

/* Prepared. */
typedef struct scatter_plan {
    ipu__blocks of;
    uint32_t indices; /* inputs */
    uint32_t updates;
    bool copies;              /* an update replaces what stands there */
    join_slices_fn *join;     /* additions; otherwise `block`, of halves products */
    ipu__block block;
    ipu_cpu_class cpu;
    int64_t bytes;            /* of an element */
    int64_t strip;            /* columns of a part */
    int64_t strips;
    int64_t range;            /* slices of a part; of halves updates of a task */
    int64_t ranges;
    int64_t parts;
    int64_t per_task;         /* parts */
    /* where slices may have more than a block of updates: */
    bool counts;
    int32_t levels;           /* of a sum */
    int64_t many;             /* places for slices of a part that have; a power of 2 */
    size_t many_at;           /* in the room of a part, which begins with counts */
    size_t totals_at;
    size_t room;
    size_t rooms_at;          /* in the workspace */
} scatter_plan;

typedef struct scatter_job {
    const ipu_kernel_call *call;
    const scatter_plan *plan;
    atomic_bool outside;
    /* of halves: the updates of a block by their slices */
    const ipu__numbered *sorted;
    int64_t block;
} scatter_job;

/* A slice that has more than a block of updates. */
typedef struct long_slice {
    int64_t number; /* of the slice; negative: none */
    int64_t leaf;   /* that is being made */
    float *totals;
} long_slice;

/* Of a part. Slices are counted in few bins, which stay in the first-level cache; and
 * each alone only if a bin gets more than a block of updates. */
typedef struct slice_counts {
    uint32_t bins[BINS];
    char *room;
    int64_t low;
    int64_t first;
    uint32_t *updates; /* of each slice, so far; NULL: no bin is full */
    long_slice *many;  /* by a hash of their numbers */
    float *totals;     /* that no slice has yet */
} slice_counts;

#define ADD_SLICES(name, target, type) \
    target static void add_##name(void *outs, const void *xs, const int64_t *numbers, \
                                  int64_t n, int64_t inner, int64_t columns) \
    { \
        type *out = outs; \
        const type *x = xs; \
        if (inner == 1) { \
            for (int64_t i = 0; i < n; i++) { \
                out[numbers[i]] = (type)(out[numbers[i]] + x[i]); \
            } \
            return; \
        } \
        for (int64_t i = 0; i < n; i++) { \
            type *to = out + numbers[i] * inner; \
            const type *more = x + i * inner; \
            IPU_INDEPENDENT \
            for (int64_t j = 0; j < columns; j++) { \
                to[j] = (type)(to[j] + more[j]); \
            } \
        } \
    }
#define BOTH_SETS(name, type) \
    ADD_SLICES(name##_generic, , type) \
    ADD_SLICES(name##_avx2, IPU_TARGET_AVX2, type)
BOTH_SETS(f32, float)
BOTH_SETS(f64, double)
BOTH_SETS(8, uint8_t)
BOTH_SETS(16, uint16_t)
BOTH_SETS(32, uint32_t)
BOTH_SETS(64, uint64_t)

static join_slices_fn *
addition_of(ipu_dtype dtype, ipu_cpu_class cpu)
{
    static join_slices_fn *const floats[2][2] = {{add_f32_generic, add_f32_avx2},
                                                 {add_f64_generic, add_f64_avx2}};
    static join_slices_fn *const integers[4][2] = {{add_8_generic, add_8_avx2},
                                                   {add_16_generic, add_16_avx2},
                                                   {add_32_generic, add_32_avx2},
                                                   {add_64_generic, add_64_avx2}};
    size_t bytes = ipu_dtype_bytes(dtype);
    int32_t avx2 = cpu >= IPU_CPU_AVX2;
    return ipu_dtype_is_float(dtype)
               ? floats[bytes == 8][avx2]
               : integers[bytes == 8 ? 3 : bytes / 2][avx2];
}

#define REPLACE(bytes) \
    case bytes: \
        for (int64_t i = 0; i < n; i++) { \
            memcpy(out + numbers[i] * (bytes), x + i * (bytes), bytes); \
        } \
        return;

/* Whole slices of `row` bytes, short ones by a few moves. */
static void
replace_slices(char *out, const char *x, const int64_t *numbers, int64_t n, int64_t row)
{
    switch (row) {
        REPLACE(1)
        REPLACE(2)
        REPLACE(3)
        REPLACE(4)
        REPLACE(6)
        REPLACE(8)
        REPLACE(12)
        REPLACE(16)
        REPLACE(24)
        REPLACE(32)
    default:
        for (int64_t i = 0; i < n; i++) {
            memcpy(out + numbers[i] * row, x + i * row, (size_t)row);
        }
    }
}
#undef REPLACE

static void
join_slices(const scatter_plan *plan, char *out, const char *x, const int64_t *numbers,
            int64_t n, int64_t columns)
{
    int64_t inner = plan->of.points.inner;
    if (plan->join != NULL) {
        plan->join(out, x, numbers, n, inner, columns);
        return;
    }
    if (plan->copies && columns == inner) {
        replace_slices(out, x, numbers, n, inner * plan->bytes);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        char *to = out + numbers[i] * inner * plan->bytes;
        const char *more = x + i * inner * plan->bytes;
        if (plan->copies) {
            memcpy(to, more, (size_t)(columns * plan->bytes));
            continue;
        }
        for (int64_t j = 0; j < columns; j += STRIP) {
            (void)plan->block.run(&plan->block, to + j * plan->bytes,
                                  to + j * plan->bytes, more + j * plan->bytes, NULL,
                                  ipu__min(columns - j, STRIP));
        }
    }
}

/* Slices [begin, end) of x, or those that `kept` names. */
static void
join_some(const scatter_plan *plan, void *out, const char *x, const int64_t *numbers,
          const int64_t *kept, int64_t begin, int64_t end, int64_t columns)
{
    const int64_t row = plan->of.points.inner * plan->bytes;
    if (kept == NULL) {
        join_slices(plan, out, x + begin * row, numbers + begin, end - begin, columns);
        return;
    }
    for (int64_t i = begin; i < end; i++) {
        join_slices(plan, out, x + kept[i] * row, &numbers[i], 1, columns);
    }
}

/* Of part `part`, whose slices begin with `low`, and its points with `first`. */
static void
begin_counts(const scatter_job *job, slice_counts *counts, int64_t part, int64_t low,
             int64_t first)
{
    const scatter_plan *plan = job->plan;
    counts->updates = NULL;
    if (plan->counts) {
        counts->low = low;
        counts->first = first;
        counts->room = (char *)job->call->workspace + plan->rooms_at
                       + (size_t)part * plan->room;
        memset(counts->bins, 0, sizeof counts->bins);
    }
}

/* Counts the updates of points before `end`, none of which fills a bin. */
static void
count_slices(const scatter_job *job, slice_counts *counts, int64_t end)
{
    const scatter_plan *plan = job->plan;
    const void *indices = job->call->inputs[plan->indices];
    int64_t numbers[IPU_SLICE_BLOCK];
    counts->updates = (void *)counts->room;
    counts->many = (void *)(counts->room + plan->many_at);
    counts->totals = (void *)(counts->room + plan->totals_at);
    memset(counts->updates, 0, (size_t)plan->range * sizeof *counts->updates);
    memset(counts->many, -1, (size_t)plan->many * sizeof *counts->many);
    for (int64_t i = 0; i < end; i += IPU_SLICE_BLOCK) {
        int64_t n = ipu__min(end - i, IPU_SLICE_BLOCK);
        (void)ipu__slice_numbers(&plan->of.points, indices, counts->first + i, n,
                                 numbers);
        for (int64_t j = 0; j < n; j++) {
            int64_t number = numbers[j] - counts->low;
            if (number >= 0 && number < plan->range) {
                counts->updates[number]++;
            }
        }
    }
}

static bool
fills_a_bin(slice_counts *counts, const int64_t *numbers, int64_t n)
{
    bool full = false;
    for (int64_t i = 0; i < n; i++) {
        full |= ++counts->bins[numbers[i] & (BINS - 1)] > IPU_SUM_BLOCK;
    }
    return full;
}

static long_slice *
long_slice_of(const scatter_plan *plan, slice_counts *counts, int64_t number)
{
    const int64_t floats = plan->levels * plan->strip;
    int64_t i = (int64_t)((uint64_t)number * UINT64_C(0x9e3779b97f4a7c15) >> 32)
                & (plan->many - 1);
    while (counts->many[i].number >= 0 && counts->many[i].number != number) {
        i = (i + 1) & (plan->many - 1);
    }
    if (counts->many[i].number < 0) {
        counts->many[i] = (long_slice){number, 0, counts->totals};
        memset(counts->totals, 0, (size_t)floats * sizeof(float));
        counts->totals += floats;
    }
    return &counts->many[i];
}

/* As join_some of all n of points [at, ...), where slices may have more than a block of
 * updates. */
static void
join_counted(const scatter_job *job, slice_counts *counts, int64_t at, float *out,
             const char *x, const int64_t *numbers, const int64_t *kept, int64_t n,
             int64_t columns)
{
    const scatter_plan *plan = job->plan;
    int64_t done = 0;
    if (counts->updates == NULL && !fills_a_bin(counts, numbers, n)) {
        join_some(plan, out, x, numbers, kept, 0, n, columns);
        return;
    }
    if (counts->updates == NULL) {
        count_slices(job, counts, at);
    }
    for (int64_t i = 0; i < n; i++) {
        const uint32_t updates = counts->updates[numbers[i]]++;
        if ((updates % IPU_SUM_BLOCK == 0) & (updates > 0)) {
            long_slice *slice = long_slice_of(plan, counts, numbers[i]);
            join_some(plan, out, x, numbers, kept, done, i, columns);
            ipu__sum_carry(out + numbers[i] * plan->of.points.inner, slice->totals,
                           plan->strip,
                           ipu__sum_carries(slice->leaf, slice->leaf + 1), columns);
            slice->leaf++;
            done = i;
        }
    }
    join_some(plan, out, x, numbers, kept, done, n, columns);
}

static void
end_long_slices(const scatter_plan *plan, const slice_counts *counts, float *out,
                int64_t columns)
{
    for (int64_t i = 0; counts->updates != NULL && i < plan->many; i++) {
        const long_slice *slice = &counts->many[i];
        if (slice->number >= 0) {
            ipu__sum_end(out + slice->number * plan->of.points.inner, slice->totals,
                         plan->strip, plan->levels, columns);
        }
    }
}

/* What stands in columns [0, columns) of a range of slices before any update. */
static void
begin_slices(const scatter_job *job, int64_t offset, int64_t slices, int64_t columns)
{
    const scatter_plan *plan = job->plan;
    int64_t inner = plan->of.points.inner;
    int64_t run = columns == inner ? slices * inner : columns;
    for (int64_t i = 0; i < slices * inner; i += columns == inner ? run : inner) {
        char *to = ipu__at_mutable(job->call->outputs[0], (offset + i) * plan->bytes);
        if (job->call->spec->op == IPU_OP_ID_TENSOR_SCATTER) {
            const char *from = ipu__at(job->call->inputs[0], (offset + i) * plan->bytes);
            memmove(to, from, (size_t)(run * plan->bytes));
        } else {
            memset(to, 0, (size_t)(run * plan->bytes));
        }
    }
}

/* The numbers in [low, low + range), counted from `low`, in front, with their slices'
 * places in `kept`. */
static int64_t
keep_range(int64_t *numbers, int64_t n, int64_t low, int64_t range, int64_t *kept)
{
    int64_t count = 0;
    for (int64_t i = 0; i < n; i++) {
        int64_t number = numbers[i] - low;
        numbers[count] = number;
        kept[count] = i;
        count += number >= 0 && number < range;
    }
    return count;
}

/* Part `(block, range of slices, strip of columns)`. */
static void
scatter_part(scatter_job *job, int64_t part)
{
    const scatter_plan *plan = job->plan;
    const ipu__points *points = &plan->of.points;
    int64_t numbers[IPU_SLICE_BLOCK];
    int64_t kept[IPU_SLICE_BLOCK];
    int64_t column = part % plan->strips * plan->strip;
    int64_t low = part / plan->strips % plan->ranges * plan->range;
    int64_t block = part / plan->strips / plan->ranges;
    int64_t columns = ipu__min(points->inner - column, plan->strip);
    int64_t slices = ipu__min(plan->of.slices - low, plan->range);
    int64_t first = block / plan->of.per_list * points->count;
    int64_t to = (block * plan->of.slices + low) * points->inner + column;
    char *out = ipu__at_mutable(job->call->outputs[0], to * plan->bytes);
    const char *x = ipu__at(job->call->inputs[plan->updates],
                            (block * points->count * points->inner + column)
                                * plan->bytes);
    slice_counts counts;
    begin_counts(job, &counts, part, low, first);
    begin_slices(job, to, slices, columns);
    for (int64_t i = 0; i < points->count; i += IPU_SLICE_BLOCK) {
        int64_t n = ipu__min(points->count - i, IPU_SLICE_BLOCK);
        const char *more = x + i * points->inner * plan->bytes;
        if (!ipu__slice_numbers(points, job->call->inputs[plan->indices], first + i, n,
                                numbers)) {
            atomic_store_explicit(&job->outside, true, memory_order_relaxed);
            return;
        }
        const bool all = plan->ranges == 1;
        n = all ? n : keep_range(numbers, n, low, slices, kept);
        if (plan->counts) {
            join_counted(job, &counts, i, (float *)(void *)out, more, numbers,
                         all ? NULL : kept, n, columns);
        } else {
            join_some(plan, out, more, numbers, all ? NULL : kept, 0, n, columns);
        }
    }
    end_long_slices(plan, &counts, (float *)(void *)out, columns);
}

static void
scatter_parts(void *state, int64_t begin, int64_t end)
{
    scatter_job *job = state;
    for (int64_t part = begin; part < end; part++) {
        scatter_part(job, part);
    }
}

static ipu_status
run_scatter(const ipu_kernel_call *call)
{
    const scatter_plan *plan = call->spec->prepared;
    scatter_job job = {.call = call, .plan = plan};
    if (plan->parts == 0) {
        return ipu__blocks_check(call, &plan->of, call->inputs[plan->indices]);
    }
    ipu__run_items(call->pool, plan->parts, plan->per_task, scatter_parts, &job);
    return atomic_load_explicit(&job.outside, memory_order_relaxed)
               ? ipu__blocks_check(call, &plan->of, call->inputs[plan->indices])
               : IPU_OK;
}

/* --- halves that are held in float32 ---------------------------------------------- */

/* Updates [begin, end) of `sorted`, which are those of one slice. */
static void
join_halves(const scatter_job *job, int64_t begin, int64_t end)
{
    const scatter_plan *plan = job->plan;
    int64_t inner = plan->of.points.inner;
    int64_t slice = job->block * plan->of.slices + job->sorted[begin].key;
    uint16_t *out = (uint16_t *)job->call->outputs[0] + slice * inner;
    const uint16_t *x = (const uint16_t *)job->call->inputs[plan->updates]
                        + job->block * plan->of.points.count * inner;
    bool is_long = plan->join != NULL && end - begin > IPU_SUM_BLOCK;
    float totals[IPU_SUM_LEVELS * WIDE_STRIP];
    float total[WIDE_STRIP];
    float wide[WIDE_STRIP];
    const int64_t first = 0;
    for (int64_t column = 0; column < inner; column += WIDE_STRIP) {
        int64_t n = ipu__min(inner - column, WIDE_STRIP);
        if (job->call->spec->op == IPU_OP_ID_TENSOR_SCATTER) {
            ipu__halves_to_floats(total, out + column, n, plan->cpu);
        } else {
            memset(total, 0, (size_t)n * sizeof *total);
        }
        memset(totals, 0, is_long ? sizeof totals : 0);
        for (int64_t i = begin; i < end; i++) {
            const uint16_t *more = x + job->sorted[i].place * inner + column;
            ipu__halves_to_floats(wide, more, n, plan->cpu);
            if (is_long) {
                ipu__sum_before(i - begin, total, totals, WIDE_STRIP, n);
            }
            if (plan->join != NULL) {
                plan->join(total, wide, &first, 1, n, n);
                continue;
            }
            for (int64_t j = 0; j < n; j++) {
                total[j] *= wide[j];
            }
        }
        if (is_long) {
            ipu__sum_end(total, totals, WIDE_STRIP, IPU_SUM_LEVELS, n);
        }
        ipu__floats_to_halves(out + column, total, n, plan->cpu);
    }
}

static void
begin_some(void *state, int64_t begin, int64_t end)
{
    const scatter_job *job = state;
    const int64_t inner = job->plan->of.points.inner;
    begin_slices(job, begin * inner, end - begin, inner);
}

/* A stretch of `sorted`: the groups that begin in it. */
static void
join_groups(void *state, int64_t begin, int64_t end)
{
    const scatter_job *job = state;
    const scatter_plan *plan = job->plan;
    const ipu__numbered *sorted = job->sorted;
    int64_t count = plan->of.points.count;
    while (begin > 0 && begin < end && sorted[begin].key == sorted[begin - 1].key) {
        begin++; /* of the task before */
    }
    while (begin < end) {
        int64_t next = begin + 1;
        while (next < count && sorted[next].key == sorted[begin].key) {
            next++;
        }
        join_halves(job, begin, next);
        begin = next;
    }
}

static ipu_status
run_halves(const ipu_kernel_call *call)
{
    const scatter_plan *plan = call->spec->prepared;
    const ipu__points *points = &plan->of.points;
    const void *indices = call->inputs[plan->indices];
    scatter_job job = {.call = call, .plan = plan};
    ipu__numbered *numbered = call->workspace;
    int64_t numbers[IPU_SLICE_BLOCK];
    IPU_TRY(ipu__blocks_check(call, &plan->of, indices));
    ipu__run_items(call->pool, plan->of.blocks * plan->of.slices, plan->range,
                   begin_some, &job);
    for (job.block = 0; job.block < plan->of.blocks; job.block++) {
        int64_t list = job.block / plan->of.per_list;
        if (job.block % plan->of.per_list == 0) {
            for (int64_t i = 0; i < points->count; i += IPU_SLICE_BLOCK) {
                int64_t n = ipu__min(points->count - i, IPU_SLICE_BLOCK);
                (void)ipu__slice_numbers(points, indices, list * points->count + i, n,
                                         numbers);
                for (int64_t j = 0; j < n; j++) {
                    numbered[i + j] =
                        (ipu__numbered){(uint32_t)numbers[j], (uint32_t)(i + j)};
                }
            }
            job.sorted = ipu__sort_numbered(numbered, numbered + points->count,
                                            points->count);
        }
        ipu__run_items(call->pool, points->count, plan->range, join_groups, &job);
    }
    return IPU_OK;
}

/* The same where slices are short or few, and about as many as the updates: all of them
 * are widened, joined, and narrowed again. */
static ipu_status
run_few_halves(const ipu_kernel_call *call)
{
    const scatter_plan *plan = call->spec->prepared;
    const ipu__points *points = &plan->of.points;
    const void *indices = call->inputs[plan->indices];
    const uint16_t *updates = call->inputs[plan->updates];
    int64_t all = plan->of.slices * points->inner;
    int64_t numbers[IPU_SLICE_BLOCK];
    const int64_t most =
        ipu__min(IPU_SLICE_BLOCK, WIDE_ELEMENTS / ipu__max(points->inner, 1));
    float wide[WIDE_ELEMENTS];
    float *total = call->workspace;
    scatter_job job = {.call = call, .plan = plan};
    slice_counts counts;
    begin_counts(&job, &counts, 0, 0, 0);
    if (call->spec->op == IPU_OP_ID_TENSOR_SCATTER) {
        ipu__halves_to_floats(total, call->inputs[0], all, plan->cpu);
    } else {
        memset(total, 0, (size_t)all * sizeof *total);
    }
    for (int64_t n, i = 0; i < points->count; i += n) {
        n = ipu__min(points->count - i, most);
        if (!ipu__slice_numbers(points, indices, i, n, numbers)) {
            return ipu__blocks_check(call, &plan->of, indices);
        }
        ipu__halves_to_floats(wide, updates + i * points->inner, n * points->inner,
                              plan->cpu);
        if (plan->counts) {
            join_counted(&job, &counts, i, total, (const char *)wide, numbers, NULL, n,
                         points->inner);
            continue;
        }
        if (plan->join != NULL) {
            plan->join(total, wide, numbers, n, points->inner, points->inner);
            continue;
        }
        for (int64_t k = 0; k < n; k++) {
            float *to = total + numbers[k] * points->inner;
            for (int64_t j = 0; j < points->inner; j++) {
                to[j] *= wide[k * points->inner + j];
            }
        }
    }
    end_long_slices(plan, &counts, total, points->inner);
    ipu__floats_to_halves(call->outputs[0], total, all, plan->cpu);
    return IPU_OK;
}

/* --- choose ----------------------------------------------------------------------- */

static void
cut(scatter_plan *plan)
{
    const ipu__points *points = &plan->of.points;
    int64_t bytes = plan->of.slices * points->inner * plan->bytes;
    bool is_long = points->inner >= LONG_SLICE;
    plan->strip = is_long ? STRIP : points->inner;
    plan->strips = points->inner == 0 ? 0 : ipu__ceil_div(points->inner, plan->strip);
    bool is_short = points->inner * plan->bytes < LEAST_BYTES;
    bool one = is_long || is_short || bytes < LARGE_BYTES || plan->of.blocks > 1;
    plan->ranges = one ? 1 : RANGES;
    plan->ranges = plan->ranges < plan->of.slices ? plan->ranges : plan->of.slices;
    plan->range =
        plan->ranges == 0 ? 0 : ipu__ceil_div(plan->of.slices, plan->ranges);
    plan->ranges = plan->range == 0 ? 0 : ipu__ceil_div(plan->of.slices, plan->range);
    plan->parts = plan->of.blocks * plan->ranges * plan->strips;
    plan->per_task =
        1 + TASK_ELEMENTS / (1 + (plan->range + points->count) * plan->strip);
}

/* Room to count updates, for each part; `parts`, `range` and `strip` are known. */
static void
plan_counts(scatter_plan *plan, ipu_kernel_spec *spec)
{
    const int64_t count = plan->of.points.count;
    if (count <= IPU_SUM_BLOCK || plan->parts == 0) {
        return;
    }
    plan->counts = true;
    plan->levels = ipu__sum_levels(ipu__sum_blocks(count));
    const int64_t most = ipu__min(plan->range, (count - 1) / IPU_SUM_BLOCK);
    plan->many = 2;
    while (plan->many < 2 * most) {
        plan->many *= 2;
    }
    plan->many_at = ipu_buffer_round_up((size_t)plan->range * sizeof(uint32_t));
    plan->totals_at =
        plan->many_at + ipu_buffer_round_up((size_t)plan->many * sizeof(long_slice));
    plan->room =
        plan->totals_at
        + ipu_buffer_round_up((size_t)(most * plan->levels * plan->strip)
                              * sizeof(float));
    plan->rooms_at = ipu_buffer_round_up(spec->workspace_bytes);
    spec->workspace_bytes = plan->rooms_at + (size_t)plan->parts * plan->room;
}

/* The op that joins an update with the old value; IDENTITY: the update replaces it. */
static ipu_op
step_of(const ipu_kernel_spec *spec)
{
    static const ipu_op steps[IPU_SCATTER_COUNT] = {IPU_OP_ID_IDENTITY, IPU_OP_ID_ADD,
                                                    IPU_OP_ID_MUL, IPU_OP_ID_MINIMUM,
                                                    IPU_OP_ID_MAXIMUM};
    return steps[ipu_attrs_int(spec->attrs, IPU_ATTR_REDUCTION, 0)];
}

ipu_status
ipu_choose_scatter_nd(const ipu__preparation *p)
{
    ipu_kernel_spec *spec = p->spec;
    const bool changes = spec->op == IPU_OP_ID_TENSOR_SCATTER;
    const ipu_type *indices = &spec->inputs[changes ? 1 : 0];
    const ipu_op step = changes ? step_of(spec) : IPU_OP_ID_ADD;
    ipu_dtype dtype = spec->outputs[0].dtype;
    ipu__blocks of;
    if (spec->op == IPU_OP_ID_GATHER_GRAD) {
        ipu__blocks_of_gather(&of, spec->attrs, &spec->outputs[0].shape, indices);
    } else {
        ipu__blocks_of_points(&of, &spec->outputs[0].shape, indices);
    }
    bool holds_wide = dtype == IPU_DTYPE_FLOAT16
                      && (step == IPU_OP_ID_ADD || step == IPU_OP_ID_MUL);
    scatter_plan *plan;
    if (holds_wide
        && (of.slices > UINT32_MAX || of.points.count >= UINT32_MAX)) {
        return IPU_OK; /* too many to be numbered: not served */
    }
    IPU_TRY(ipu__prepared(p, sizeof *plan, &plan));
    plan->of = of;
    plan->indices = changes ? 1 : 0;
    plan->updates = plan->indices + 1;
    plan->bytes = (int64_t)ipu_dtype_bytes(dtype);
    plan->cpu = p->cpu;
    plan->copies = step == IPU_OP_ID_IDENTITY;
    join_slices_fn *addition =
        step == IPU_OP_ID_ADD ? addition_of(IPU_DTYPE_FLOAT32, p->cpu) : NULL;
    const bool is_few = of.slices * of.points.inner <= FEW_ELEMENTS
                        && of.points.inner <= WIDE_ELEMENTS;
    if (holds_wide && of.blocks == 1 && (of.points.inner <= SHORT_SLICE || is_few)
        && of.slices <= 4 * of.points.count) {
        plan->join = addition;
        spec->workspace_bytes =
            (size_t)(of.slices * of.points.inner) * sizeof(float);
        if (step == IPU_OP_ID_ADD) {
            plan->bytes = (int64_t)sizeof(float);
            plan->range = of.slices;
            plan->strip = of.points.inner;
            plan->parts = 1;
            plan_counts(plan, spec);
        }
        spec->run = run_few_halves;
        spec->kernel_name = "join_widened";
        return IPU_OK;
    }
    if (holds_wide) {
        plan->join = addition;
        plan->range = 1 + TASK_ELEMENTS / (of.points.inner + 1);
        spec->workspace_bytes = (size_t)of.points.count * 2 * sizeof(ipu__numbered);
        spec->run = run_halves;
        spec->kernel_name = "join_sorted";
        return IPU_OK;
    }
    cut(plan);
    if (step == IPU_OP_ID_ADD && dtype != IPU_DTYPE_BOOL) {
        plan->join = addition_of(dtype, p->cpu);
        if (dtype == IPU_DTYPE_FLOAT32) {
            plan_counts(plan, spec);
        }
    } else if (!plan->copies) {
        ipu__block_prepare(&plan->block, step, dtype, dtype, p->cpu);
    }
    spec->run = run_scatter;
    spec->kernel_name = plan->copies ? "copy_slices" : "join_slices";
    return IPU_OK;
}
