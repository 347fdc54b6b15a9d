/* SPDX-License-Identifier: MIT
 *
 * sum, mean, max, min, prod, any and all over any axes, for all dtypes. Axes are joined
 * until kept and reduced ones alternate. Where the innermost axis is reduced, each
 * result folds rows with a fixed tree (reduce_fold.c), long rows in chunks; where it is
 * kept, whole rows are joined to a strip of results, in row order, chunk by chunk. Chunks
 * of a row, rows, and chunks of rows are joined by the tree of sum_tree.h. All depends on
 * the shape alone; threads take results, and where there are few of those, chunks, whose
 * accumulators go to the call's workspace and are joined when all are there. */
#include <stdatomic.h>
#include <string.h>

#include "kernels/reduce/reduce_fold_impl.h"
#include "kernels/core/sum_tree.h"

enum {
    STRIP_BYTES = 8192, /* of accumulators that are joined to side by side */
    CHUNK_ROWS = 64,    /* rows per partial strip */
    TASK_ELEMENTS = 16384,
    FEW_TASKS = 8,
    GROUP = IPU_FOLD_SIDE, /* results that are finished together */
    LONG_ROW = 256
};

/* Prepared. */
typedef struct reduce_plan {
    const ipu__fold *fold;
    ipu__loop kept;       /* without the innermost axis if that is kept */
    ipu__loop reduced;    /* without the innermost axis if that is reduced */
    int64_t inner;        /* elements of the innermost axis */
    bool inner_reduced;
    bool in_chunks;       /* tasks are chunks */
    bool one_row;         /* for each result, of one chunk; they follow each other */
    bool until_decided;   /* any and all: what comes later may not matter */
    int64_t results;      /* of `kept` */
    int64_t rounds;       /* of `reduced` */
    int64_t per_task;     /* results (rows), strips or chunks that a task makes */
    int64_t strip;        /* results that are made side by side */
    int64_t strips;       /* per row of results */
    int64_t chunks;       /* of a row; where the innermost axis is kept, of all rounds */
    int64_t count;        /* elements of which a result is made */
    int64_t elements;     /* of x */
    int64_t bytes;        /* of an element */
    int64_t result_bytes;
} reduce_plan;

typedef struct reduce_job {
    const reduce_plan *plan;
    const void *x;
    void *out;
    char *partials;
    atomic_bool decided; /* what the one result is, whatever other chunks hold */
} reduce_job;

static void
push(ipu__loop *loop, int64_t size, int64_t stride)
{
    loop->dims[loop->rank] = size;
    loop->strides[0][loop->rank++] = stride;
    loop->elements *= size;
}

static void
plan_loops(reduce_plan *plan, const ipu_kernel_spec *spec)
{
    const ipu_shape *shape = &spec->inputs[0].shape;
    bool reduces[IPU_MAX_RANK] = {false};
    int64_t strides[IPU_MAX_RANK];
    uint32_t count;
    const int64_t *axes = ipu_attrs_ints(spec->attrs, IPU_ATTR_AXES, &count);
    int32_t last = shape->rank - 1;
    plan->inner = 1;
    plan->count = 1;
    plan->kept.elements = 1;
    plan->reduced.elements = 1;
    plan->kept.operands = 1;
    plan->reduced.operands = 1;
    ipu_shape_strides(shape, false, strides);
    for (uint32_t i = 0; i < count; i++) {
        reduces[axes[i]] = true;
        plan->count *= shape->dims[axes[i]];
    }
    while (last >= 0 && shape->dims[last] == 1) {
        last--;
    }
    plan->inner_reduced = last >= 0 && reduces[last];
    while (last >= 0
           && (reduces[last] == plan->inner_reduced || shape->dims[last] == 1)) {
        plan->inner *= shape->dims[last--];
    }
    for (int32_t axis = 0; axis <= last; axis++) {
        push(reduces[axis] ? &plan->reduced : &plan->kept, shape->dims[axis],
             strides[axis]);
    }
    plan->results = plan->kept.elements;
    plan->rounds = plan->reduced.elements;
    ipu__loop_collapse(&plan->kept);
    ipu__loop_collapse(&plan->reduced);
}

static const void *
element(const reduce_job *job, int64_t offset)
{
    return ipu__at(job->x, offset * job->plan->bytes);
}

/* Elements [at, at + n) of the innermost axis, from element `offset` of x on. */
static void
fold_chunk(const reduce_job *job, void *total, int64_t offset, int64_t at)
{
    const reduce_plan *plan = job->plan;
    plan->fold->row(total, element(job, offset + at),
                    ipu__min(plan->inner - at, IPU_FOLD_CHUNK),
                    plan->elements - offset - at);
}

/* Results [at, at + n). */
static void
finish(const reduce_job *job, int64_t at, const void *totals, int64_t n)
{
    const reduce_plan *plan = job->plan;
    char *results = ipu__at_mutable(job->out, at * plan->result_bytes);
    if (plan->fold->finish != NULL) {
        plan->fold->finish(results, totals, n, plan->count);
    } else if (results != totals) {
        memcpy(results, totals, (size_t)(n * plan->result_bytes));
    }
}

/* --- trees ------------------------------------------------------------------------ */

/* Accumulators side by side, leaf after leaf. */
typedef struct fold_tree {
    const ipu__fold *fold;
    char *totals; /* of each level, `bytes` apart */
    int64_t bytes;
    int64_t n;
    int64_t leaves;
    int64_t taken;
} fold_tree;

/* Gives the node that ends with this leaf, which is what all sum up to after the last
 * one. */
static const void *
take_leaf(fold_tree *tree, const void *leaf)
{
    int64_t i = tree->taken++;
    ipu__sum_step step = ipu__sum_step_of(i, tree->taken == tree->leaves);
    char *to = tree->totals + step.level * tree->bytes;
    for (int32_t level = 0; step.adds >> level != 0; level++) {
        if ((step.adds >> level & 1) != 0) {
            char *total = tree->totals + level * tree->bytes;
            tree->fold->join(total, leaf, tree->n);
            leaf = total;
        }
    }
    if (tree->taken < tree->leaves && leaf != to) {
        memcpy(to, leaf, (size_t)(tree->n * tree->fold->accumulator_bytes));
    }
    return leaf;
}

/* The same of leaves that are all there, `step` bytes apart, into the first one. */
static void
join_leaves(const ipu__fold *fold, char *first, int64_t step, int64_t leaves, int64_t n)
{
    for (int64_t child = 1; child < leaves; child *= IPU_SUM_FAN) {
        for (int64_t node = 0; node < leaves; node += child * IPU_SUM_FAN) {
            int64_t end = ipu__min(node + child * IPU_SUM_FAN, leaves);
            for (int64_t i = node + child; i < end; i += child) {
                fold->join(first + node * step, first + i * step, n);
            }
        }
    }
}

/* --- the innermost axis is reduced ------------------------------------------------ */

typedef union accumulator {
    _Alignas(IPU_FOLD_ACCUMULATOR_BYTES) char bytes[IPU_FOLD_ACCUMULATOR_BYTES];
} accumulator;

/* An accumulator that no further element changes. */
static bool
is_decided(const reduce_plan *plan, const void *accumulator)
{
    uint8_t start;
    if (!plan->until_decided) {
        return false;
    }
    plan->fold->start(&start, 1);
    return (*(const uint8_t *)accumulator != 0) != (start != 0);
}

/* One row of any length, chunk by chunk. */
static void
fold_row(const reduce_job *job, void *total, int64_t offset)
{
    const reduce_plan *plan = job->plan;
    fold_chunk(job, total, offset, 0);
    if (plan->chunks <= 1) {
        return;
    }
    accumulator totals[IPU_SUM_LEVELS];
    fold_tree tree = {plan->fold, totals->bytes, sizeof *totals, 1, plan->chunks, 0};
    const void *sum = take_leaf(&tree, total);
    for (int64_t i = IPU_FOLD_CHUNK; i < plan->inner && !is_decided(plan, total);
         i += IPU_FOLD_CHUNK) {
        fold_chunk(job, total, offset, i);
        sum = take_leaf(&tree, total);
    }
    if (!is_decided(plan, total)) {
        memcpy(total, sum, (size_t)plan->fold->accumulator_bytes);
    }
}

static void
fold_rows(const reduce_job *job, void *total, int64_t result)
{
    const reduce_plan *plan = job->plan;
    accumulator part;
    accumulator totals[IPU_SUM_LEVELS];
    int64_t nodes = ipu__ceil_div(plan->rounds, IPU_SUM_FAN);
    fold_tree tree = {plan->fold, totals->bytes, sizeof *totals, 1, nodes, 0};
    int64_t base = ipu__loop_offset(&plan->kept, 0, result);
    const void *sum = total;
    if (plan->rounds == 0) {
        plan->fold->start(total, 1);
        return;
    }
    if (plan->rounds == 1) {
        fold_row(job, total, base);
        return;
    }
    for (int64_t node = 0; node < nodes; node++) {
        int64_t r = node * IPU_SUM_FAN;
        int64_t end = ipu__min(r + IPU_SUM_FAN, plan->rounds);
        fold_row(job, total, base + ipu__loop_offset(&plan->reduced, 0, r));
        while (++r < end && !is_decided(plan, total)) {
            int64_t offset = base + ipu__loop_offset(&plan->reduced, 0, r);
            fold_row(job, &part, offset);
            plan->fold->join(total, &part, 1);
        }
        if (nodes == 1 || is_decided(plan, total)) {
            return;
        }
        sum = take_leaf(&tree, total);
    }
    memcpy(total, sum, (size_t)plan->fold->accumulator_bytes);
}

static void
reduce_rows(void *state, int64_t begin, int64_t end)
{
    const reduce_job *job = state;
    const reduce_plan *plan = job->plan;
    _Alignas(IPU_BUFFER_ALIGNMENT) char totals[GROUP * IPU_FOLD_ACCUMULATOR_BYTES];
    for (int64_t i = begin; i < end; i += GROUP) {
        int64_t n = ipu__min(end - i, GROUP);
        if (plan->one_row) {
            const int64_t at = i * plan->inner;
            ipu__fold_rows(plan->fold, totals, element(job, at), n, plan->inner,
                           plan->elements - at, plan->bytes);
        }
        for (int64_t j = 0; j < n && !plan->one_row; j++) {
            fold_rows(job, totals + j * plan->fold->accumulator_bytes, i + j);
        }
        finish(job, i, totals, n);
    }
}

/* Partial `(result, round, chunk of the row)`, flat. */
static void
reduce_row_chunks(void *state, int64_t begin, int64_t end)
{
    reduce_job *job = state;
    const reduce_plan *plan = job->plan;
    for (int64_t i = begin; i < end; i++) {
        int64_t row = i / plan->chunks;
        int64_t at = i % plan->chunks * IPU_FOLD_CHUNK;
        int64_t offset = ipu__loop_offset(&plan->kept, 0, row / plan->rounds)
                         + ipu__loop_offset(&plan->reduced, 0, row % plan->rounds);
        char *partial = job->partials + i * plan->fold->accumulator_bytes;
        if (atomic_load_explicit(&job->decided, memory_order_relaxed)) {
            plan->fold->start(partial, 1);
            continue;
        }
        fold_chunk(job, partial, offset, at);
        if (plan->results == 1 && is_decided(plan, partial)) {
            atomic_store_explicit(&job->decided, true, memory_order_relaxed);
        }
    }
}

static void
join_row_chunks(const reduce_job *job)
{
    const reduce_plan *plan = job->plan;
    const ipu__fold *fold = plan->fold;
    int64_t size = fold->accumulator_bytes;
    for (int64_t i = 0; i < plan->results; i++) {
        char *total = job->partials + i * plan->rounds * plan->chunks * size;
        for (int64_t r = 0; r < plan->rounds; r++) {
            join_leaves(fold, total + r * plan->chunks * size, size, plan->chunks, 1);
        }
        join_leaves(fold, total, plan->chunks * size, plan->rounds, 1);
        finish(job, i, total, 1);
    }
}

/* --- the innermost axis is kept --------------------------------------------------- */

/* How many chunks from row `first` on are made together, where they are whole: of up to
 * `most`, and up to row `end`. */
static int64_t
chunks_together(const reduce_plan *plan, int64_t first, int64_t end, int64_t most)
{
    const int64_t whole = (ipu__min(end, plan->rounds) - first) / CHUNK_ROWS;
    return plan->reduced.rank == 1 ? ipu__max(1, ipu__min(whole, most)) : 1;
}

/* So many chunks of the n results at `base`, from row `first` on. */
static void
fold_strip(const reduce_job *job, void *parts, int64_t base, int64_t n, int64_t first,
           int64_t chunks)
{
    const reduce_plan *plan = job->plan;
    int64_t rows = ipu__min(plan->rounds - first, CHUNK_ROWS);
    plan->fold->start(parts, n * chunks);
    if (plan->reduced.rank == 1) {
        int64_t stride = plan->reduced.strides[0][0];
        plan->fold->strip(parts, element(job, base + first * stride), n, rows, stride,
                          chunks);
        return;
    }
    for (int64_t i = 0; i < rows; i++) {
        int64_t offset = base + ipu__loop_offset(&plan->reduced, 0, first + i);
        plan->fold->strip(parts, element(job, offset), n, 1, 0, 1);
    }
}

static void
reduce_strips(void *state, int64_t begin, int64_t end)
{
    const reduce_job *job = state;
    const reduce_plan *plan = job->plan;
    _Alignas(IPU_BUFFER_ALIGNMENT) char totals[IPU_SUM_LEVELS][STRIP_BYTES];
    _Alignas(IPU_BUFFER_ALIGNMENT) char node_total[STRIP_BYTES];
    _Alignas(IPU_BUFFER_ALIGNMENT) char parts[STRIP_BYTES];
    const int64_t node_rows = CHUNK_ROWS * IPU_SUM_FAN;
    const int64_t bytes = plan->fold->accumulator_bytes;
    const bool direct = plan->rounds <= CHUNK_ROWS && bytes == plan->result_bytes;
    for (int64_t s = begin; s < end; s++) {
        int64_t result = s / plan->strips;
        int64_t column = s % plan->strips * plan->strip;
        int64_t n = ipu__min(plan->inner - column, plan->strip);
        int64_t base = ipu__loop_offset(&plan->kept, 0, result) + column;
        int64_t at = result * plan->inner + column;
        char *total = direct ? ipu__at_mutable(job->out, at * bytes) : node_total;
        fold_tree tree = {.fold = plan->fold,
                          .totals = totals[0],
                          .bytes = STRIP_BYTES,
                          .n = n,
                          .leaves = ipu__ceil_div(plan->rounds, node_rows)};
        const void *sum = total;
        if (plan->rounds == 0) {
            plan->fold->start(total, n);
        }
        for (int64_t node = 0; node < plan->rounds; node += node_rows) {
            const int64_t end = ipu__min(node + node_rows, plan->rounds);
            for (int64_t some, r = node; r < end; r += some * CHUNK_ROWS) {
                char *to = r == node ? total : parts;
                some = chunks_together(plan, r, end, plan->strip / n);
                fold_strip(job, to, base, n, r, some);
                for (int64_t c = r == node ? 1 : 0; c < some; c++) {
                    plan->fold->join(total, to + c * n * bytes, n);
                }
            }
            sum = take_leaf(&tree, total);
        }
        finish(job, at, sum, n);
    }
}

/* Partial `(chunk of the rounds, result)`, a row of accumulators each. */
static void
reduce_strip_chunks(void *state, int64_t begin, int64_t end)
{
    const reduce_job *job = state;
    const reduce_plan *plan = job->plan;
    for (int64_t some, i = begin; i < end; i += some) {
        int64_t base = ipu__loop_offset(&plan->kept, 0, i % plan->results);
        char *parts = job->partials + i * plan->inner * plan->fold->accumulator_bytes;
        int64_t first = i / plan->results * CHUNK_ROWS;
        some = plan->results > 1
                   ? 1
                   : chunks_together(plan, first, end * CHUNK_ROWS, plan->chunks);
        fold_strip(job, parts, base, plan->inner, first, some);
    }
}

static void
join_strip_chunks(const reduce_job *job)
{
    const reduce_plan *plan = job->plan;
    int64_t all = plan->results * plan->inner;
    int64_t size = plan->fold->accumulator_bytes;
    for (int64_t i = 0; i < all; i += plan->strip) {
        int64_t n = ipu__min(all - i, plan->strip);
        char *first = job->partials + i * size;
        join_leaves(plan->fold, first, all * size, plan->chunks, n);
        finish(job, i, first, n);
    }
}

/* --- run and choose --------------------------------------------------------------- */

static void
run_items(const ipu_kernel_call *call, int64_t count, ipu__items_fn *task,
          reduce_job *job)
{
    ipu__run_items(call->pool, count, job->plan->per_task, task, job);
}

static ipu_status
run(const ipu_kernel_call *call)
{
    const reduce_plan *plan = call->spec->prepared;
    reduce_job job = {plan, call->inputs[0], call->outputs[0], call->workspace, false};
    if (plan->inner_reduced && plan->in_chunks) {
        run_items(call, plan->results * plan->rounds * plan->chunks, reduce_row_chunks,
                  &job);
        join_row_chunks(&job);
    } else if (plan->inner_reduced) {
        run_items(call, plan->results, reduce_rows, &job);
    } else if (plan->in_chunks) {
        run_items(call, plan->chunks * plan->results, reduce_strip_chunks, &job);
        join_strip_chunks(&job);
    } else {
        run_items(call, plan->results * plan->strips, reduce_strips, &job);
    }
    return IPU_OK;
}

/* Without axes: the value itself. */
static ipu_status
run_copy(const ipu_kernel_call *call)
{
    size_t bytes = ipu_type_bytes(&call->spec->outputs[0]);
    if (bytes > 0) {
        memmove(call->outputs[0], call->inputs[0], bytes);
    }
    return IPU_OK;
}

/* Few results of much: chunks are the tasks. Gives how many accumulators they need. */
static int64_t
plan_chunks(reduce_plan *plan)
{
    int64_t tasks = plan->results * (plan->inner_reduced ? 1 : plan->strips);
    int64_t elements = plan->results * plan->rounds * plan->inner;
    bool many = plan->inner_reduced ? plan->inner >= LONG_ROW
                                    : plan->rounds > CHUNK_ROWS;
    plan->chunks = plan->inner_reduced ? ipu__ceil_div(plan->inner, IPU_FOLD_CHUNK)
                                       : ipu__ceil_div(plan->rounds, CHUNK_ROWS);
    plan->in_chunks =
        tasks > 0 && tasks < FEW_TASKS && elements > 2 * IPU_FOLD_CHUNK && many;
    if (!plan->in_chunks) {
        return 0;
    }
    int64_t cost = plan->inner_reduced ? ipu__min(plan->inner, IPU_FOLD_CHUNK)
                                       : plan->inner * CHUNK_ROWS;
    plan->per_task = ipu__ceil_div(TASK_ELEMENTS, cost);
    return plan->results * plan->chunks
           * (plan->inner_reduced ? plan->rounds : plan->inner);
}

ipu_status
ipu_choose_sum(const ipu__preparation *p)
{
    ipu_kernel_spec *spec = p->spec;
    bool avx2 = p->cpu >= IPU_CPU_AVX2;
    uint32_t axis_count;
    reduce_plan *plan;
    ipu_attrs_ints(spec->attrs, IPU_ATTR_AXES, &axis_count);
    if (axis_count == 0) {
        spec->run = run_copy;
        spec->kernel_name = "copy";
        return IPU_OK;
    }
    IPU_TRY(ipu__prepared(p, sizeof *plan, &plan));
    plan_loops(plan, spec);
    plan->elements = ipu_shape_elements(&spec->inputs[0].shape);
    plan->fold = ipu__fold_of(spec->op, spec->inputs[0].dtype, p->cpu);
    plan->one_row =
        plan->inner_reduced && plan->rounds == 1 && plan->inner <= IPU_FOLD_CHUNK;
    plan->until_decided = spec->op == IPU_OP_ID_ANY || spec->op == IPU_OP_ID_ALL;
    plan->bytes = (int64_t)ipu_dtype_bytes(spec->inputs[0].dtype);
    plan->result_bytes = (int64_t)ipu_dtype_bytes(spec->outputs[0].dtype);
    plan->strip = STRIP_BYTES / plan->fold->accumulator_bytes;
    plan->strips = ipu__ceil_div(plan->inner, plan->strip);
    int64_t cost = plan->rounds
                   * (plan->inner_reduced ? plan->inner
                                          : ipu__min(plan->inner, plan->strip));
    plan->per_task = cost >= TASK_ELEMENTS ? 1 : TASK_ELEMENTS / (cost + 1) + 1;
    spec->workspace_bytes =
        (size_t)(plan_chunks(plan) * plan->fold->accumulator_bytes);
    spec->run = run;
    spec->kernel_name = plan->inner_reduced ? (avx2 ? "rows_avx2" : "rows_generic")
                                            : (avx2 ? "strips_avx2" : "strips_generic");
    return IPU_OK;
}
