/* SPDX-License-Identifier: MIT
 *
 * Fast kernels of the ops that move elements, for every dtype by its size. Transpose,
 * broadcast, concat, slice and its gradient are one strided copy: loops joined as far
 * as possible, the two innermost of them a plane of rows, square tiles where the input
 * runs along another axis than the output. Work is cut by shape alone. Allocates
 * nothing. */
#include <string.h>

#include "kernels/core/kernel_impl.h"

#if defined(__x86_64__)
#include "kernels/core/turn.h"
#endif

enum {
    TASK_ELEMENTS = 16384,
    TILE = 16,
    LARGE_TILE = 32,         /* where a tensor is larger than the caches */
    LARGE_BYTES = 8 << 20,
    CORNER = 8,              /* elements each way that registers hold */
    VECTOR_BYTES = 32,
    CLEARED_BYTES = 1 << 16, /* by a thread, at least */
    SHORT_RUN_BYTES = 1024,  /* longer ones by the C library */
    REPEATED_BYTES = 4096    /* at least, and less than twice as many, at a time */
};

typedef void turn_fn(void *to, int64_t to_row, const void *from, int64_t from_column);

/* One strided copy, prepared. Operand 0 is read, operand 1 is written. */
typedef struct copy_plan {
    ipu__loop loop;
    int64_t from;     /* byte offsets of the first element */
    int64_t to;
    int64_t bytes;    /* of one element */
    int32_t swapped;  /* axis along which the input is contiguous; -1: the last */
    int64_t per_task; /* iterations of the outermost loops */
    int64_t outer;    /* iterations of all loops but those a step handles */
    int64_t tile;     /* of the swapped axis */
    turn_fn *turn;    /* `tile` each way; NULL: element by element */
    bool avx2;
} copy_plan;

typedef struct copy_job {
    const copy_plan *plan;
    const char *from;
    char *to;
} copy_job;

/* Rows of elements. Distances in bytes from row to row, steps in elements. */
typedef struct plane {
    char *to;
    const char *from;
    int64_t rows;
    int64_t to_row;
    int64_t from_row;
    int64_t n;
    int64_t to_step;
    int64_t from_step;
} plane;

/* `p`: a plane on the stack, which no store of an element can change. */
#define EACH_ROW(type, to_name, from_name, body) \
    for (int64_t r = 0; r < p.rows; r++) { \
        type *to_name = (type *)(void *)(p.to + r * p.to_row); \
        const type *from_name = (const type *)(const void *)(p.from + r * p.from_row); \
        body \
    }
#define EACH(n, assignment) \
    for (int64_t i = 0; i < (n); i++) { \
        assignment; \
    }
/* A column at a time where rows are shorter than what a loop costs. */
#define FEW(type, count) \
    case count: \
        EACH_ROW(type, to, from, EACH(count, to[i] = from[i * from_step])) \
        return;

/* Few columns that become rows: PLANE has a loop for each number of them. */
enum { MOST_APART = 3 };
#define APART(type, count) \
    case count: { \
        type *to = (type *)(void *)p.to; \
        const type *from = (const type *)(const void *)p.from; \
        IPU_INDEPENDENT \
        for (int64_t r = 0; r < p.rows; r++) { \
            EACH(count, to[i * to_step + r] = from[r * (count) + i]) \
        } \
        return; \
    }
/* Some elements by turn: one takes less than the loop's branch. */
enum { SOME = 4 };
#define STRIDED_ROW(to_step) \
    int64_t left = n; \
    for (; left >= SOME; left -= SOME, from += SOME * from_step) { \
        EACH(SOME, to[i * (to_step)] = from[i * from_step]) \
        to += SOME * (to_step); \
    } \
    EACH(left, to[i * (to_step)] = from[i * from_step])

/* The result's rows are contiguous, except the last form; steps that are constants
 * become shuffles. */
#define PLANE(name, target, type) \
    target static void plane_##name(const plane p) \
    { \
        int64_t from_step = p.from_step; \
        int64_t to_step = p.to_step; \
        int64_t n = p.n; \
        if (p.from_row == n * (int64_t)sizeof(type) && from_step == 1 \
            && p.to_row == (int64_t)sizeof(type)) { \
            switch (n) { \
                APART(type, 2) \
                APART(type, 3) \
            default: \
                break; \
            } \
        } \
        if (to_step != 1) { \
            EACH_ROW(type, to, from, STRIDED_ROW(to_step)) \
            return; \
        } \
        switch (n) { \
            FEW(type, 1) \
            FEW(type, 2) \
            FEW(type, 3) \
            FEW(type, 4) \
        default: \
            break; \
        } \
        if (from_step == 0) { \
            EACH_ROW(type, to, from, type x = from[0]; EACH(n, to[i] = x)) \
        } else if (from_step == -1) { \
            EACH_ROW(type, to, from, EACH(n, to[i] = from[-i])) \
        } else if (from_step == 2) { \
            /* the last one apart: a vector would read the element after it */ \
            EACH_ROW(type, to, from, EACH(n - 1, to[i] = from[2 * i]) \
                     to[n - 1] = from[2 * (n - 1)];) \
        } else { \
            EACH_ROW(type, to, from, STRIDED_ROW(1)) \
        } \
    }
#define BOTH_SETS(type) \
    PLANE(type##_generic, , type) \
    PLANE(type##_avx2, IPU_TARGET_AVX2, type)
BOTH_SETS(uint8_t)
BOTH_SETS(uint16_t)
BOTH_SETS(uint32_t)
BOTH_SETS(uint64_t)

#define RUN(bytes) \
    case bytes: \
        for (int64_t r = 0; r < p.rows; r++) { \
            memcpy(p.to + r * p.to_row, p.from + r * p.from_row, bytes); \
        } \
        return;

/* Rows that are contiguous on both sides, short ones by a few moves. */
#define RUNS(name, target) \
    target static void runs_##name(const plane p, int64_t bytes) \
    { \
        switch (bytes) { \
            RUN(1) \
            RUN(2) \
            RUN(3) \
            RUN(4) \
            RUN(6) \
            RUN(8) \
            RUN(12) \
            RUN(16) \
            RUN(24) \
            RUN(32) \
        default: \
            break; \
        } \
        if (bytes < VECTOR_BYTES || bytes > SHORT_RUN_BYTES) { \
            for (int64_t r = 0; r < p.rows; r++) { \
                memcpy(p.to + r * p.to_row, p.from + r * p.from_row, (size_t)bytes); \
            } \
            return; \
        } \
        for (int64_t r = 0; r < p.rows; r++) { \
            char *to = p.to + r * p.to_row; \
            const char *from = p.from + r * p.from_row; \
            const int64_t last = bytes - VECTOR_BYTES; /* it may copy bytes again */ \
            for (int64_t i = 0; i < last; i += VECTOR_BYTES) { \
                memcpy(to + i, from + i, VECTOR_BYTES); \
            } \
            memcpy(to + last, from + last, VECTOR_BYTES); \
        } \
    }
RUNS(generic, )
RUNS(avx2, IPU_TARGET_AVX2)
#undef RUN

/* `bytes` bytes again and again, to `all` of them: what is there is copied, in long
 * pieces, which the C library makes without reading what it overwrites. */
static void
repeat(char *to, const char *from, int64_t bytes, int64_t all)
{
    memcpy(to, from, (size_t)bytes);
    for (int64_t some, at = bytes; at < all; at += some) {
        bytes = at <= REPEATED_BYTES ? at : bytes;
        some = ipu__min(bytes, all - at);
        memcpy(to + at, to, (size_t)some);
    }
}

#define COPY(type) (avx2 ? plane_##type##_avx2 : plane_##type##_generic)(*p);

static void
copy_plane(const plane *p, int64_t bytes, bool avx2)
{
    if (p->to_step == 1 && p->from_step == 1) {
        if (p->from_row == 0 && p->to_row == p->n * bytes && p->rows > 1) {
            repeat(p->to, p->from, p->to_row, p->rows * p->to_row);
            return;
        }
        (avx2 ? runs_avx2 : runs_generic)(*p, p->n * bytes);
        return;
    }
    IPU_BY_WIDTH(bytes, COPY)
}

#define COPY_TILE(type) \
    for (int64_t i = 0; i < rows; i++) { \
        for (int64_t j = 0; j < columns; j++) { \
            ((type *)(void *)to)[i * to_row + j] = \
                ((const type *)(const void *)from)[i + j * from_column]; \
        } \
    }

/* rows x columns elements of which the input has columns in memory order. */
static void
copy_tile(char *to, int64_t to_row, const char *from, int64_t from_column, int64_t rows,
          int64_t columns, int64_t bytes)
{
    IPU_BY_WIDTH(bytes, COPY_TILE)
}
#undef COPY_TILE

#if defined(__x86_64__)
/* TILE x TILE elements. */
#define TURN_TILE(name, target, type, turn) \
    target static void name(void *to, int64_t to_row, const void *from, \
                            int64_t from_column) \
    { \
        for (int64_t i = 0; i < TILE; i += CORNER) { \
            for (int64_t j = 0; j < TILE; j += CORNER) { \
                turn((const type *)from + i + j * from_column, from_column, \
                     (type *)to + i * to_row + j, to_row); \
            } \
        } \
    }
TURN_TILE(turn_bytes, , char, ipu__turn_8x8_bytes)
TURN_TILE(turn_halves, , uint16_t, ipu__turn_8x8_halves)
TURN_TILE(turn_floats, IPU_TARGET_AVX2, float, ipu__turn_8x8)

/* LARGE_TILE x LARGE_TILE elements. Rows of a large tensor may share places in the cache:
 * a few rows of the input are read at a time, and rows of the result are written one by
 * one. */
#define TURN_LARGE_TILE(name, type, corner, turn) \
    IPU_TARGET_AVX2 static void name(void *to, int64_t to_row, const void *from, \
                                     int64_t from_column) \
    { \
        _Alignas(64) type turned[LARGE_TILE * LARGE_TILE]; \
        for (int64_t j = 0; j < LARGE_TILE; j += (corner)) { \
            for (int64_t i = 0; i < LARGE_TILE; i += (corner)) { \
                turn((const type *)from + i + j * from_column, from_column, \
                     turned + i * LARGE_TILE + j, LARGE_TILE); \
            } \
        } \
        for (int64_t i = 0; i < LARGE_TILE; i++) { \
            memcpy((type *)to + i * to_row, turned + i * LARGE_TILE, \
                   LARGE_TILE * sizeof(type)); \
        } \
    }
TURN_LARGE_TILE(turn_large_floats, float, 8, ipu__turn_8x8)
TURN_LARGE_TILE(turn_large_doubles, double, 4, ipu__turn_4x4_wide)

/* The function of a tile, whose edge it sets; NULL: element by element. */
static turn_fn *
turn_of(int64_t bytes, bool avx2, bool is_large, int64_t *tile)
{
    is_large = is_large && avx2 && bytes >= 4;
    *tile = is_large ? LARGE_TILE : TILE;
    return bytes == 1   ? turn_bytes
           : bytes == 2 ? turn_halves
           : is_large   ? (bytes == 4 ? turn_large_floats : turn_large_doubles)
           : bytes == 4 && avx2 ? turn_floats
                                : NULL;
}
#else
static turn_fn *
turn_of(int64_t bytes, bool avx2, bool is_large, int64_t *tile)
{
    (void)bytes;
    (void)avx2;
    (void)is_large;
    *tile = TILE;
    return NULL;
}
#endif

/* Strip [first, first + rows) of the swapped axis. */
static void
copy_transposed(const copy_plan *plan, char *to, const char *from, int64_t first,
                int64_t rows)
{
    const ipu__loop *loop = &plan->loop;
    int32_t last = loop->rank - 1;
    int64_t columns = loop->dims[last];
    int64_t to_row = loop->strides[1][plan->swapped];
    int64_t from_column = loop->strides[0][last];
    for (int64_t j = 0; j < columns; j += plan->tile) {
        int64_t count = ipu__min(columns - j, plan->tile);
        char *target = to + (first * to_row + j) * plan->bytes;
        const char *source = from + (first + j * from_column) * plan->bytes;
        if (plan->turn != NULL && rows == plan->tile && count == plan->tile) {
            plan->turn(target, to_row, source, from_column);
        } else {
            copy_tile(target, to_row, source, from_column, rows, count, plan->bytes);
        }
    }
}

/* Where iteration `position` of the loops in front of axis `end` begins, leaving out the
 * swapped one; gives what is left of `position`. */
static int64_t
locate(const copy_plan *plan, int32_t end, int64_t position, int64_t *from, int64_t *to)
{
    const ipu__loop *loop = &plan->loop;
    *from = 0;
    *to = 0;
    for (int32_t d = end - 1; d >= 0; d--) {
        if (d != plan->swapped) {
            bool outermost = d == 0 && plan->swapped < 0;
            int64_t at = outermost ? position : position % loop->dims[d];
            *from += at * loop->strides[0][d] * plan->bytes;
            *to += at * loop->strides[1][d] * plan->bytes;
            position = outermost ? 0 : position / loop->dims[d];
        }
    }
    return position;
}

static void
copy_strips(void *state, int64_t begin, int64_t end)
{
    const copy_job *job = state;
    const copy_plan *plan = job->plan;
    const ipu__loop *loop = &plan->loop;
    for (int64_t i = begin; i < end; i++) {
        int64_t from;
        int64_t to;
        /* the rest of the position counts strips of the swapped axis */
        int64_t first = plan->tile * locate(plan, loop->rank - 1, i, &from, &to);
        copy_transposed(plan, job->to + to, job->from + from, first,
                        ipu__min(loop->dims[plan->swapped] - first, plan->tile));
    }
}

/* Iterations are rows; those of one plane are copied together. */
static void
copy_rows(void *state, int64_t begin, int64_t end)
{
    const copy_job *job = state;
    const copy_plan *plan = job->plan;
    const ipu__loop *loop = &plan->loop;
    int32_t last = loop->rank - 1;
    int64_t rows = last > 0 ? loop->dims[last - 1] : 1;
    plane p = {.to_row = last > 0 ? loop->strides[1][last - 1] * plan->bytes : 0,
               .from_row = last > 0 ? loop->strides[0][last - 1] * plan->bytes : 0,
               .n = loop->dims[last],
               .to_step = loop->strides[1][last],
               .from_step = loop->strides[0][last]};
    while (begin < end) {
        int64_t from;
        int64_t to;
        int64_t row = begin % rows;
        (void)locate(plan, last - 1, begin / rows, &from, &to);
        p.to = job->to + to + row * p.to_row;
        p.from = job->from + from + row * p.from_row;
        p.rows = ipu__min(rows - row, end - begin);
        copy_plane(&p, plan->bytes, plan->avx2);
        begin += p.rows;
    }
}

/* Cuts one long contiguous run, so that threads can share it. */
static void
split_rows(ipu__loop *loop)
{
    int64_t n = loop->dims[loop->rank - 1];
    int64_t pieces = n / TASK_ELEMENTS;
    if (loop->rank >= IPU_MAX_RANK || pieces < 2) {
        return;
    }
    while (n % pieces != 0) {
        pieces--;
    }
    if (pieces < 2) {
        return;
    }
    loop->dims[loop->rank] = n / pieces;
    loop->dims[loop->rank - 1] = pieces;
    for (int32_t k = 0; k < 2; k++) {
        int64_t stride = loop->strides[k][loop->rank - 1];
        loop->strides[k][loop->rank] = stride;
        loop->strides[k][loop->rank - 1] = stride * (n / pieces);
    }
    loop->rank++;
}

/* Where the input's rows are few elements that the output has apart, the loop over them
 * becomes the innermost one. */
static void
turn_few(ipu__loop *loop)
{
    const int32_t last = loop->rank - 1;
    for (int32_t d = 0; d < last; d++) {
        const int64_t few = loop->dims[d];
        if (loop->strides[0][d] != 1 || few > MOST_APART || loop->strides[0][last] != few
            || loop->strides[1][last] != 1) {
            continue;
        }
        const int64_t apart = loop->strides[1][d];
        for (int32_t k = d; k < last; k++) {
            loop->dims[k] = loop->dims[k + 1];
            loop->strides[0][k] = loop->strides[0][k + 1];
            loop->strides[1][k] = loop->strides[1][k + 1];
        }
        loop->dims[last] = few;
        loop->strides[0][last] = 1;
        loop->strides[1][last] = apart;
        return;
    }
}

/* Everything but the loop's strides and the offsets is filled here. */
static void
plan_copy(copy_plan *plan, int64_t bytes, ipu_cpu_class cpu)
{
    ipu__loop *loop = &plan->loop;
    loop->operands = 2;
    plan->bytes = bytes;
    plan->avx2 = cpu >= IPU_CPU_AVX2;
    plan->turn = turn_of(bytes, plan->avx2, loop->elements * bytes >= LARGE_BYTES,
                         &plan->tile);
    plan->swapped = -1;
    if (loop->elements == 0) {
        return; /* nothing to do: `outer` is 0 */
    }
    ipu__loop_collapse(loop);
    turn_few(loop);
    split_rows(loop);
    int32_t last = loop->rank - 1;
    int64_t per_step = loop->dims[last];
    plan->outer = loop->elements / loop->dims[last];
    if (loop->strides[1][last] == 1 && loop->strides[0][last] > 1) {
        for (int32_t d = 0; d < last; d++) {
            if (loop->strides[0][d] == 1 && loop->dims[d] >= 4
                && loop->dims[last] >= 4) {
                plan->swapped = d;
                plan->outer = plan->outer / loop->dims[d]
                              * ipu__ceil_div(loop->dims[d], plan->tile);
                per_step *= ipu__min(loop->dims[d], plan->tile);
            }
        }
    }
    plan->per_task = ipu__ceil_div(TASK_ELEMENTS, per_step);
}

static void
run_copy_plan(const copy_plan *plan, ipu_pool *pool, const void *from, void *to)
{
    copy_job job = {plan, ipu__at(from, plan->from), ipu__at_mutable(to, plan->to)};
    ipu__run_items(pool, plan->outer, plan->per_task,
                   plan->swapped >= 0 ? copy_strips : copy_rows, &job);
}

/* One copy of input 0. */
static ipu_status
run_copy(const ipu_kernel_call *call)
{
    run_copy_plan(call->spec->prepared, call->pool, call->inputs[0], call->outputs[0]);
    return IPU_OK;
}

static void
clear(void *state, int64_t begin, int64_t end)
{
    memset(ipu__at_mutable(state, begin), 0, (size_t)(end - begin));
}

/* Input 0 into zeros, which each thread writes in one piece: processors store long ones
 * past their caches. */
static ipu_status
run_slice_grad(const ipu_kernel_call *call)
{
    const int64_t all = (int64_t)ipu_type_bytes(&call->spec->outputs[0]);
    const int64_t each = ipu__ceil_div(all, ipu_pool_hands(call->pool));
    ipu__run_items(call->pool, all, ipu__max(each, CLEARED_BYTES), clear,
                   call->outputs[0]);
    return run_copy(call);
}

/* A copy of each input. */
static ipu_status
run_concat(const ipu_kernel_call *call)
{
    const copy_plan *plans = call->spec->prepared;
    for (uint32_t k = 0; k < call->spec->input_count; k++) {
        run_copy_plan(&plans[k], call->pool, call->inputs[k], call->outputs[0]);
    }
    return IPU_OK;
}

static int64_t
output_element_bytes(const ipu_kernel_spec *spec)
{
    return (int64_t)ipu_dtype_bytes(spec->outputs[0].dtype);
}

/* Loops over `shape`, dense on side `dense`. */
static void
loop_over(ipu__loop *loop, const ipu_shape *shape, int32_t dense)
{
    loop->rank = shape->rank;
    loop->elements = ipu_shape_elements(shape);
    for (int32_t d = 0; d < shape->rank; d++) {
        loop->dims[d] = shape->dims[d];
    }
    ipu_shape_strides(shape, false, loop->strides[dense]);
}

/* `count` plans in the spec, which is served by `run`. */
static ipu_status
prepare_copies(const ipu__preparation *p, uint32_t count, ipu_kernel_fn *run,
               copy_plan **out)
{
    p->spec->run = run;
    p->spec->kernel_name = "strided_copy";
    return ipu__prepared(p, count * sizeof **out, out);
}

ipu_status
ipu_choose_transpose(const ipu__preparation *p)
{
    const ipu_kernel_spec *spec = p->spec;
    int64_t strides[IPU_MAX_RANK];
    uint32_t count;
    const int64_t *perm = ipu_attrs_ints(spec->attrs, IPU_ATTR_PERM, &count);
    copy_plan *plan;
    IPU_TRY(prepare_copies(p, 1, run_copy, &plan));
    loop_over(&plan->loop, &spec->outputs[0].shape, 1);
    ipu_shape_strides(&spec->inputs[0].shape, false, strides);
    for (int32_t d = 0; d < plan->loop.rank; d++) {
        plan->loop.strides[0][d] = strides[perm[d]];
    }
    plan_copy(plan, output_element_bytes(spec), p->cpu);
    return IPU_OK;
}

ipu_status
ipu_choose_broadcast(const ipu__preparation *p)
{
    const ipu_kernel_spec *spec = p->spec;
    const ipu_shape *in = &spec->inputs[0].shape;
    int64_t strides[IPU_MAX_RANK];
    copy_plan *plan;
    IPU_TRY(prepare_copies(p, 1, run_copy, &plan));
    loop_over(&plan->loop, &spec->outputs[0].shape, 1);
    ipu_shape_strides(in, true, strides);
    for (int32_t d = 0; d < plan->loop.rank; d++) {
        int32_t from = d - (plan->loop.rank - in->rank);
        plan->loop.strides[0][d] = from < 0 ? 0 : strides[from];
    }
    plan_copy(plan, output_element_bytes(spec), p->cpu);
    return IPU_OK;
}

ipu_status
ipu_choose_concat(const ipu__preparation *p)
{
    const ipu_kernel_spec *spec = p->spec;
    const ipu_shape *result = &spec->outputs[0].shape;
    int64_t bytes = output_element_bytes(spec);
    int32_t axis =
        ipu__axis(ipu_attrs_int(spec->attrs, IPU_ATTR_AXIS, 0), result->rank);
    int64_t strides[IPU_MAX_RANK];
    int64_t begin = 0;
    copy_plan *plans;
    IPU_TRY(prepare_copies(p, spec->input_count, run_concat, &plans));
    ipu_shape_strides(result, false, strides);
    for (uint32_t k = 0; k < spec->input_count; k++) {
        loop_over(&plans[k].loop, &spec->inputs[k].shape, 0);
        memcpy(plans[k].loop.strides[1], strides, sizeof strides);
        plans[k].to = begin * strides[axis] * bytes;
        plan_copy(&plans[k], bytes, p->cpu);
        begin += spec->inputs[k].shape.dims[axis];
    }
    return IPU_OK;
}

/* Strides of the sliced part within the whole; gives the offset of its first element
 * (0 for an empty part, whose begin may lie anywhere). */
static int64_t
slice_strides(const ipu_kernel_spec *spec, const ipu_shape *whole, bool empty,
              int64_t out[IPU_MAX_RANK])
{
    uint32_t count;
    const int64_t *begin = ipu_attrs_ints(spec->attrs, IPU_ATTR_BEGIN, &count);
    const int64_t *steps = ipu_attrs_ints(spec->attrs, IPU_ATTR_STRIDES, &count);
    int64_t offset = 0;
    ipu_shape_strides(whole, false, out);
    for (int32_t d = 0; d < whole->rank; d++) {
        offset += begin[d] * out[d];
        out[d] *= steps == NULL ? 1 : steps[d];
    }
    return empty ? 0 : offset;
}

ipu_status
ipu_choose_slice(const ipu__preparation *p)
{
    const ipu_kernel_spec *spec = p->spec;
    const bool back = spec->op == IPU_OP_ID_SLICE_GRAD;
    const ipu_type *part = back ? &spec->inputs[0] : &spec->outputs[0];
    const ipu_type *whole = back ? &spec->outputs[0] : &spec->inputs[0];
    int64_t bytes = output_element_bytes(spec);
    copy_plan *plan;
    IPU_TRY(prepare_copies(p, 1, back ? run_slice_grad : run_copy, &plan));
    loop_over(&plan->loop, &part->shape, back ? 0 : 1);
    *(back ? &plan->to : &plan->from) =
        bytes
        * slice_strides(spec, &whole->shape, plan->loop.elements == 0,
                        plan->loop.strides[back ? 1 : 0]);
    plan_copy(plan, bytes, p->cpu);
    return IPU_OK;
}
