/* SPDX-License-Identifier: MIT
 *
 * cumsum, cumprod and recurrence, for all dtypes. Each line along the axis is walked in
 * order: floats are held in double, but sums of float16 in float32, and each result is
 * rounded once, that of float16 once more; integers wrap in their own width. A step waits
 * for the one before it; so lines are walked side by side: those that are neighbours in
 * memory, and along the last axis a few rows. Threads take lines. */
#include "kernels/core/kernel_impl.h"

enum {
    TASK_ELEMENTS = 16384,
    LANES = 128, /* neighbouring lines */
    ROWS = 4,    /* along the last axis */
    SHORT_ROW = 16,
    BLOCK = 512  /* halves of a row that are widened at once */
};

/* Functions of an op and a dtype. `a`: the factors of a recurrence. Totals are the
 * lines' running values, in accumulators of at most eight bytes. */
typedef struct scan_functions {
    /* first steps of lines that are `apart` elements apart */
    void (*open)(void *out, const void *x, int64_t lines, int64_t apart, void *totals,
                 bool exclusive);
    /* n further steps of ROWS lines at most; `step` leads from one to the next */
    void (*walk)(void *out, const void *x, const void *a, int64_t n, int64_t step,
                 int64_t lines, int64_t apart, void *totals, bool exclusive);
    /* rows of n elements, which follow each other */
    void (*rows)(void *out, const void *x, const void *a, int64_t rows, int64_t n,
                 int64_t step, bool exclusive);
    /* a further step of neighbours */
    void (*across)(void *out, const void *x, const void *a, int64_t lines, void *totals,
                   bool exclusive);
} scan_functions;

/* Totals of so many lines stay in registers. */
#define WALK(name, lines) \
    case lines: \
        if (exclusive) { \
            walk_lines_##name(out, x, a, n, step, lines, apart, totals, true); \
        } else { \
            walk_lines_##name(out, x, a, n, step, lines, apart, totals, false); \
        } \
        break;

/* JOINED: of the total t, the element e and the factor f. `most`: how many rows of whole
 * pages go side by side, which get in each other's way in the caches: one where a step
 * takes one cycle. */
#define SCAN(name, target, type, acc, start, FACTOR, JOINED, most) \
    static void open_##name(void *outs, const void *xs, int64_t lines, int64_t apart, \
                            void *totals, bool exclusive) \
    { \
        const type *x = xs; \
        for (int64_t j = 0; j < lines; j++) { \
            ((acc *)totals)[j] = (acc)x[j * apart]; \
            ((type *)outs)[j * apart] = exclusive ? (type)(start) : x[j * apart]; \
        } \
    } \
    IPU_INLINE void walk_lines_##name(type *out, const type *x, const type *a, \
                                      int64_t n, int64_t step, int64_t lines, \
                                      int64_t apart, acc *totals, bool exclusive) \
    { \
        acc total[ROWS]; \
        (void)a; \
        for (int64_t j = 0; j < lines; j++) { \
            total[j] = totals[j]; \
        } \
        for (int64_t i = 0; i < n; i++) { \
            for (int64_t j = 0; j < lines; j++) { \
                int64_t at = i * step + j * apart; \
                acc before = total[j]; \
                total[j] = (acc)JOINED(before, (acc)x[at], (acc)FACTOR(a, at)); \
                out[at] = (type)(exclusive ? before : total[j]); \
            } \
        } \
        for (int64_t j = 0; j < lines; j++) { \
            totals[j] = total[j]; \
        } \
    } \
    static void walk_##name(void *out, const void *x, const void *a, int64_t n, \
                            int64_t step, int64_t lines, int64_t apart, void *totals, \
                            bool exclusive) \
    { \
        switch (lines) { \
            WALK(name, 1) \
            WALK(name, 2) \
            WALK(name, 3) \
            WALK(name, ROWS) \
        default: \
            break; \
        } \
    } \
    /* short ones do not wait for each other */ \
    IPU_INLINE void short_##name(type *out, const type *x, const type *a, \
                                 int64_t rows, int64_t n, int64_t step, \
                                 bool exclusive) \
    { \
        (void)a; \
        for (int64_t i = 0; i < rows; i++) { \
            acc total = (acc)x[i * n]; \
            out[i * n] = exclusive ? (type)(start) : x[i * n]; \
            for (int64_t j = 1; j < n; j++) { \
                int64_t at = i * n + j * step; \
                acc before = total; \
                total = (acc)JOINED(before, (acc)x[at], (acc)FACTOR(a, at)); \
                out[at] = (type)(exclusive ? before : total); \
            } \
        } \
    } \
    static void rows_##name(void *outs, const void *xs, const void *as, int64_t rows, \
                            int64_t n, int64_t step, bool exclusive) \
    { \
        const type *x = xs; \
        const type *a = as; \
        type *out = outs; \
        if (n <= SHORT_ROW && exclusive) { \
            short_##name(out, x, a, rows, n, step, true); \
        } else if (n <= SHORT_ROW) { \
            short_##name(out, x, a, rows, n, step, false); \
        } \
        const bool in_pages = n * (int64_t)sizeof(type) % IPU_PAGE_BYTES == 0; \
        for (int64_t lines, i = 0; n > SHORT_ROW && i < rows; i += lines) { \
            const int64_t next = i * n + step; \
            acc totals[ROWS]; \
            lines = ipu__min(rows - i, in_pages ? (most) : ROWS); \
            open_##name(out + i * n, x + i * n, lines, n, totals, exclusive); \
            walk_##name(out + next, x + next, a == NULL ? NULL : a + next, n - 1, step, \
                        lines, n, totals, exclusive); \
        } \
    } \
    target static void across_##name(void *outs, const void *xs, const void *as, \
                                     int64_t lines, void *totals, bool exclusive) \
    { \
        const type *x = xs; \
        const type *a = as; \
        type *out = outs; \
        acc *total = totals; \
        (void)a; \
        if (exclusive) { \
            IPU_INDEPENDENT \
            for (int64_t j = 0; j < lines; j++) { \
                acc before = total[j]; \
                total[j] = (acc)JOINED(before, (acc)x[j], (acc)FACTOR(a, j)); \
                out[j] = (type)before; \
            } \
            return; \
        } \
        IPU_INDEPENDENT \
        for (int64_t j = 0; j < lines; j++) { \
            total[j] = (acc)JOINED(total[j], (acc)x[j], (acc)FACTOR(a, j)); \
            out[j] = (type)total[j]; \
        } \
    }
#define FORM(name) {open_##name, walk_##name, rows_##name, across_##name}
#define BOTH_SETS(name, type, acc, start, FACTOR, JOINED, most) \
    SCAN(name##_generic, , type, acc, start, FACTOR, JOINED, most) \
    SCAN(name##_avx2, IPU_TARGET_AVX2, type, acc, start, FACTOR, JOINED, most) \
    static const scan_functions name[2] = {FORM(name##_generic), FORM(name##_avx2)};

#define NO_FACTOR(a, i) 0
#define FACTOR_OF(a, i) (a)[i]
#define ADDED(t, e, f) ((t) + (e))
#define MULTIPLIED(t, e, f) ((t) * (e))
/* small unsigned integers would be multiplied as int, which may overflow */
#define MULTIPLIED_UNSIGNED(t, e, f) (1u * (t) * (e))
#define RECURRED(t, e, f) ((f) * (t) + (e))

BOTH_SETS(sum_f32, float, double, 0, NO_FACTOR, ADDED, ROWS)
BOTH_SETS(sum_f64, double, double, 0, NO_FACTOR, ADDED, ROWS)
BOTH_SETS(sum_f16, float, float, 0, NO_FACTOR, ADDED, ROWS)
BOTH_SETS(prod_f32, float, double, 1, NO_FACTOR, MULTIPLIED, ROWS)
BOTH_SETS(prod_f64, double, double, 1, NO_FACTOR, MULTIPLIED, ROWS)
BOTH_SETS(recur_f32, float, double, 0, FACTOR_OF, RECURRED, ROWS)
BOTH_SETS(recur_f64, double, double, 0, FACTOR_OF, RECURRED, ROWS)
#define INTEGERS(NAME, suffix, type, bits, ...) \
    BOTH_SETS(sum_##bits, type, type, 0, NO_FACTOR, ADDED, 1) \
    BOTH_SETS(prod_##bits, type, type, 1, NO_FACTOR, MULTIPLIED_UNSIGNED, ROWS)
IPU_UNSIGNED_LIST(INTEGERS)

static const scan_functions *
functions_of(ipu_op op, ipu_dtype dtype, ipu_cpu_class cpu)
{
    static const scan_functions *const integers[4][2] = {
        {sum_8, prod_8}, {sum_16, prod_16}, {sum_32, prod_32}, {sum_64, prod_64}};
    static const scan_functions *const floats[3][3] = {
        {sum_f16, prod_f32, recur_f32},
        {sum_f32, prod_f32, recur_f32},
        {sum_f64, prod_f64, recur_f64}};
    size_t bytes = ipu_dtype_bytes(dtype);
    int32_t width = bytes == 8 ? 3 : (int32_t)bytes / 2; /* 0 to 3 */
    int32_t kind = op == IPU_OP_ID_CUMSUM ? 0 : (op == IPU_OP_ID_CUMPROD ? 1 : 2);
    const scan_functions *both =
        ipu_dtype_is_float(dtype) ? floats[width - 1][kind] : integers[width][kind];
    return &both[cpu >= IPU_CPU_AVX2];
}

/* Prepared. */
typedef struct scan_plan {
    const scan_functions *of;
    ipu_cpu_class cpu;
    int64_t size;   /* of the axis */
    int64_t inner;  /* elements after it */
    int64_t strips; /* LANES of those */
    int64_t count;  /* strips of all lines; along the last axis rows */
    int64_t per_task;
    int64_t bytes; /* of an element */
    bool half;
    bool exclusive;
    bool reverse;
} scan_plan;

typedef struct scan_job {
    const scan_plan *plan;
    const void *a;
    const void *x;
    void *out;
} scan_job;

static const void *
factors(const scan_job *job, int64_t offset)
{
    return job->a == NULL ? NULL : ipu__at(job->a, offset * job->plan->bytes);
}

/* --- along the last axis ---------------------------------------------------------- */

/* `rows` rows from `base` on. */
static void
scan_rows(const scan_job *job, int64_t base, int64_t rows)
{
    const scan_plan *plan = job->plan;
    const int64_t first = base + (plan->reverse ? plan->size - 1 : 0);
    plan->of->rows(ipu__at_mutable(job->out, first * plan->bytes),
                   ipu__at(job->x, first * plan->bytes), factors(job, first), rows,
                   plan->size, plan->reverse ? -1 : 1, plan->exclusive);
}

/* Rows of at most ROWS * BLOCK halves, which are widened together. */
static void
scan_short_rows(const scan_job *job, int64_t base, int64_t rows)
{
    float wide[ROWS * BLOCK];
    float wide_a[ROWS * BLOCK];
    const uint16_t *a = factors(job, base);
    scan_plan plan = *job->plan;
    scan_job floats = {&plan, a == NULL ? NULL : wide_a, wide, wide};
    plan.bytes = sizeof(float);
    ipu__halves_to_floats(wide, (const uint16_t *)job->x + base, rows * plan.size,
                          plan.cpu);
    if (a != NULL) {
        ipu__halves_to_floats(wide_a, a, rows * plan.size, plan.cpu);
    }
    scan_rows(&floats, 0, rows);
    ipu__floats_to_halves((uint16_t *)job->out + base, wide, rows * plan.size,
                          plan.cpu);
}

/* Long rows of halves, which are widened block by block. */
static void
scan_long_rows(const scan_job *job, int64_t base, int64_t lines)
{
    const scan_plan *plan = job->plan;
    const uint16_t *x = (const uint16_t *)job->x + base;
    const uint16_t *a = factors(job, base);
    uint16_t *out = (uint16_t *)job->out + base;
    float wide[ROWS * BLOCK];
    float wide_a[ROWS * BLOCK];
    double totals[ROWS];
    int64_t step = plan->reverse ? -1 : 1;
    for (int64_t done = 0; done < plan->size; done += BLOCK) {
        int64_t n = ipu__min(plan->size - done, BLOCK);
        int64_t at = plan->reverse ? plan->size - done - n : done;
        int64_t first = plan->reverse ? n - 1 : 0;
        float *start = wide + first;
        for (int64_t j = 0; j < lines; j++) {
            ipu__halves_to_floats(wide + j * BLOCK, x + j * plan->size + at, n,
                                  plan->cpu);
        }
        for (int64_t j = 0; a != NULL && j < lines; j++) {
            ipu__halves_to_floats(wide_a + j * BLOCK, a + j * plan->size + at, n,
                                  plan->cpu);
        }
        if (done == 0) {
            plan->of->open(start, start, lines, BLOCK, totals, plan->exclusive);
            plan->of->walk(start + step, start + step, wide_a + first + step, n - 1,
                           step, lines, BLOCK, totals, plan->exclusive);
        } else {
            plan->of->walk(start, start, wide_a + first, n, step, lines, BLOCK, totals,
                           plan->exclusive);
        }
        for (int64_t j = 0; j < lines; j++) {
            ipu__floats_to_halves(out + j * plan->size + at, wide + j * BLOCK, n,
                                  plan->cpu);
        }
    }
}

static void
scan_all_rows(void *state, int64_t begin, int64_t end)
{
    const scan_job *job = state;
    const scan_plan *plan = job->plan;
    const bool is_short = plan->size <= BLOCK;
    if (!plan->half) {
        scan_rows(job, begin * plan->size, end - begin);
        return;
    }
    for (int64_t lines; begin < end; begin += lines) {
        lines = ipu__min(end - begin, is_short ? ROWS * BLOCK / plan->size : ROWS);
        (is_short ? scan_short_rows : scan_long_rows)(job, begin * plan->size, lines);
    }
}

/* --- along another axis ----------------------------------------------------------- */

/* Up to LANES neighbouring lines, the first of which starts at `base`. Halves are
 * widened some steps at a time where these lie side by side. */
static void
scan_strip(const scan_job *job, int64_t base, int64_t lines)
{
    const scan_plan *plan = job->plan;
    const int64_t most = !plan->half            ? plan->size
                         : lines == plan->inner ? BLOCK / lines
                                                : 1;
    const int64_t step =
        plan->half ? lines * (int64_t)sizeof(float) : plan->inner * plan->bytes;
    const int64_t next = (plan->half ? lines : plan->inner) * (plan->reverse ? -1 : 1);
    double totals[LANES];
    float wide[BLOCK];
    float wide_a[BLOCK];
    for (int64_t n, done = 0; done < plan->size; done += n) {
        n = ipu__min(plan->size - done, most);
        int64_t first = plan->reverse ? plan->size - done - n : done;
        int64_t at = base + first * plan->inner;
        const void *x = ipu__at(job->x, at * plan->bytes);
        const void *a = factors(job, at);
        void *to = ipu__at_mutable(job->out, at * plan->bytes);
        void *out = plan->half ? wide : to;
        if (plan->half) {
            ipu__halves_to_floats(wide, x, n * lines, plan->cpu);
            x = wide;
        }
        if (plan->half && a != NULL) {
            ipu__halves_to_floats(wide_a, a, n * lines, plan->cpu);
            a = wide_a;
        }
        for (int64_t some, i = 0; i < n; i += some) {
            int64_t row = (plan->reverse ? n - 1 - i : i) * step;
            void *made = ipu__at_mutable(out, row);
            const void *element = ipu__at(x, row);
            const void *factor = a == NULL ? NULL : ipu__at(a, row);
            some = 1;
            if (done + i == 0) {
                plan->of->open(made, element, lines, 1, totals, plan->exclusive);
            } else if (lines <= ROWS) {
                some = n - i;
                plan->of->walk(made, element, factor, some, next, lines, 1, totals,
                               plan->exclusive);
            } else {
                plan->of->across(made, element, factor, lines, totals, plan->exclusive);
            }
        }
        if (plan->half) {
            ipu__floats_to_halves(to, wide, n * lines, plan->cpu);
        }
    }
}

static void
scan_strips(void *state, int64_t begin, int64_t end)
{
    const scan_job *job = state;
    const scan_plan *plan = job->plan;
    for (int64_t i = begin; i < end; i++) {
        int64_t column = i % plan->strips * LANES;
        int64_t base = i / plan->strips * plan->size * plan->inner + column;
        scan_strip(job, base, ipu__min(LANES, plan->inner - column));
    }
}

/* --- run and choose --------------------------------------------------------------- */

static ipu_status
run_scan(const ipu_kernel_call *call)
{
    const scan_plan *plan = call->spec->prepared;
    bool recurs = call->spec->input_count == 2;
    scan_job job = {plan, recurs ? call->inputs[0] : NULL,
                    call->inputs[recurs ? 1 : 0], call->outputs[0]};
    ipu__run_items(call->pool, plan->count, plan->per_task,
                   plan->inner == 1 ? scan_all_rows : scan_strips, &job);
    return IPU_OK;
}

ipu_status
ipu_choose_cumsum(const ipu__preparation *p)
{
    ipu_kernel_spec *spec = p->spec;
    const ipu_shape *shape = &spec->inputs[0].shape;
    int32_t axis = ipu__axis(ipu_attrs_int(spec->attrs, IPU_ATTR_AXIS, 0), shape->rank);
    int64_t elements = ipu_shape_elements(shape);
    scan_plan *plan;
    IPU_TRY(ipu__prepared(p, sizeof *plan, &plan));
    plan->of = functions_of(spec->op, spec->inputs[0].dtype, p->cpu);
    plan->cpu = p->cpu;
    plan->size = shape->dims[axis];
    plan->inner = 1;
    plan->bytes = (int64_t)ipu_dtype_bytes(spec->inputs[0].dtype);
    plan->half = spec->inputs[0].dtype == IPU_DTYPE_FLOAT16;
    plan->exclusive = ipu_attrs_int(spec->attrs, IPU_ATTR_EXCLUSIVE, 0) != 0;
    plan->reverse = ipu_attrs_int(spec->attrs, IPU_ATTR_REVERSE, 0) != 0;
    if (elements > 0) {
        plan->inner = ipu_shape_span(shape, axis + 1, shape->rank);
        plan->strips = ipu__ceil_div(plan->inner, LANES);
        plan->count = elements / plan->size / plan->inner * plan->strips;
        plan->per_task =
            1 + TASK_ELEMENTS / (plan->size * ipu__min(plan->inner, LANES));
        if (plan->inner == 1) {
            plan->per_task = ipu__ceil_div(plan->per_task, ROWS) * ROWS;
        }
    }
    spec->run = run_scan;
    spec->kernel_name = p->cpu >= IPU_CPU_AVX2 ? "scan_avx2" : "scan_generic";
    return IPU_OK;
}
