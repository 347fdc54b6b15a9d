/* SPDX-License-Identifier: MIT
 *
 * Linear algebra over the last two axes, by LAPACK and factors.c: decompositions,
 * triangular and general systems, determinants, in the type that they are given
 * (linear_body.h). One matrix after another is copied into the workspace. Their
 * matrices go by columns: a matrix as it lies here is the transposed one there, which
 * most routines take as well; `turned` copies are for the rest. The workspace's slack
 * serves BLIS, on which LAPACK stands. These kernels are the only ones. Matrices are
 * shared out to threads; of a few large ones the work is. One has its bits whoever
 * makes it. */
#include <limits.h>
#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "kernels/core/kernel_impl.h"
#include "kernels/core/blis_impl.h"
#include "kernels/linear/factors.h"
#include "kernels/linear/lapack.h"
#include "kernels/linear/lapack_parts.h"

/* Matrix 0 of the call is [rows, columns], of a system matrix 1 is [rows, right]. In
 * the workspace: the matrix, `numbers` more of its type, `work` of LAPACK's own,
 * `integers`. */
typedef struct linear_plan {
    ipu_op op;
    size_t bytes; /* of a number */
    int64_t batches;
    int rows;
    int columns;
    int least; /* of the two */
    int right;
    /* from row to row, or column to column, of matrices with ... */
    int lead;        /* the matrix's columns ... */
    int turned_lead; /* or rows; */
    int least_lead;  /* with `least`, */
    int right_lead;  /* with `right` */
    size_t matrix;
    size_t numbers;
    int work;
    size_t integers;
} linear_plan;

enum {
    LINE_BYTES = 64,
    FLOPS_OF_COPY = 32, /* that take as long as to copy a number */
    /* rows that are as many apart share a few places in a cache */
    PERIOD_BYTES = 512,
    LEAST_CUT = 128 /* rows and columns of a matrix that several threads make */
};

/* As the size of a room: LAPACK says how much it wants. */
static const int ask = -1;

/* Rooms beyond what an int counts are refused when a job begins. */
static int
larger(int a, double b)
{
    return b > (double)a ? (int)fmin(b, INT_MAX) : a;
}

static int
lead_of(int count, size_t bytes)
{
    const bool is_period = (size_t)count * bytes % PERIOD_BYTES == 0;
    return larger(1, is_period ? count + LINE_BYTES / (int)bytes : count);
}

/* A matrix in the hands of a thread. */
typedef struct linear_job {
    const ipu_kernel_call *call;
    ipu_ctx *ctx;
    linear_plan plan;
    ipu__makers by;
    void *a;
    void *b; /* the `numbers` */
    void *work;
    int *integers;
} linear_job;

typedef ipu_status make_fn(const linear_job *job, int64_t batch);

/* The first `rows` rows of a matrix to where they are `to_lead` apart; of one with
 * columns of `lead` where they are `turned`: then by tiles of whole lines, so that no
 * line is gone from a cache before all of it was used. */
#define COPY(real, type) \
    static void turn_##type(const real *from, int64_t lead, real *to, int64_t to_lead) \
    { \
        enum { SIDE = LINE_BYTES / sizeof(real) }; \
        real tile[SIDE][SIDE]; \
        for (int64_t j = 0; j < SIDE; j++) { \
            for (int64_t i = 0; i < SIDE; i++) { \
                tile[i][j] = from[j * lead + i]; \
            } \
        } \
        for (int64_t i = 0; i < SIDE; i++) { \
            memcpy(to + i * to_lead, tile[i], sizeof tile[i]); \
        } \
    } \
    static void copy_##type(const real *from, int64_t lead, real *to, int64_t to_lead, \
                            int64_t rows, int64_t columns, bool turned) \
    { \
        const int64_t side = LINE_BYTES / sizeof(real); \
        if (!turned && lead == columns && to_lead == columns) { \
            columns *= rows; \
            rows = rows > 0 ? 1 : 0; \
        } \
        for (int64_t i = 0; !turned && i < rows; i++) { \
            for (int64_t j = 0; j < columns; j++) { \
                to[i * to_lead + j] = from[i * lead + j]; \
            } \
        } \
        for (int64_t i = 0; turned && i < rows; i += side) { \
            int64_t j = 0; \
            for (; i + side <= rows && j + side <= columns; j += side) { \
                turn_##type(from + j * lead + i, lead, to + i * to_lead + j, to_lead); \
            } \
            for (; j < columns; j++) { \
                for (int64_t k = i; k < ipu__min(i + side, rows); k++) { \
                    to[k * to_lead + j] = from[j * lead + k]; \
                } \
            } \
        } \
    }
COPY(float, f32)
COPY(double, f64)
#undef COPY

#define real float
#define FORM(name) name##_f32
#define LAPACK(name) s##name##_
#define SIZE fabsf
#define EQUAL 1e-4f /* less than that is rounding */
#include "kernels/linear/linear_body.h"

#define real double
#define FORM(name) name##_f64
#define LAPACK(name) d##name##_
#define SIZE fabs
#define EQUAL 1e-7
#include "kernels/linear/linear_body.h"

static linear_plan
plan_of(const ipu_kernel_spec *spec)
{
    const ipu_shape *shape = &spec->inputs[0].shape;
    linear_plan p = {.op = spec->op,
                     .bytes = ipu_dtype_bytes(spec->inputs[0].dtype),
                     .batches = ipu_shape_span(shape, 0, shape->rank - 2),
                     .rows = (int)shape->dims[shape->rank - 2],
                     .columns = (int)shape->dims[shape->rank - 1]};
    if (spec->input_count > 1) {
        p.right = (int)spec->inputs[1].shape.dims[shape->rank - 1];
    }
    p.least = p.rows < p.columns ? p.rows : p.columns;
    p.lead = lead_of(p.columns, p.bytes);
    p.turned_lead = lead_of(p.rows, p.bytes);
    p.least_lead = lead_of(p.least, p.bytes);
    p.right_lead = lead_of(p.right, p.bytes);
    p.matrix = (size_t)ipu__max((int64_t)p.rows * p.lead,
                                (int64_t)p.columns * p.turned_lead);
    if (spec->inputs[0].dtype == IPU_DTYPE_FLOAT64) {
        set_room_f64(&p);
    } else {
        set_room_f32(&p);
    }
    return p;
}

/* For one matrix. */
static size_t
room_of(const linear_plan *p)
{
    return (p->matrix + p->numbers + (size_t)p->work) * p->bytes +
           p->integers * sizeof(int);
}

static int64_t
parts_of(const linear_plan *p)
{
    return ipu__min(p->batches, ipu__share_most(room_of(p)));
}

size_t
ipu__linear_workspace(const ipu_kernel_spec *spec)
{
    linear_plan p = plan_of(spec);
    return ipu__share_bytes(parts_of(&p), room_of(&p));
}

static linear_job
job_in(const linear_job *of, ipu_ctx *ctx, void *room)
{
    linear_job job = *of;
    const linear_plan *plan = &job.plan;
    job.ctx = ctx;
    job.a = room;
    job.b = (char *)job.a + plan->matrix * plan->bytes;
    job.work = (char *)job.b + plan->numbers * plan->bytes;
    job.integers = (int *)((char *)job.work + (size_t)plan->work * plan->bytes);
    return job;
}

typedef struct linear_run {
    linear_job job;
    make_fn *make;
    int64_t parts;
    _Atomic int64_t failed; /* the first matrix that did, or how many there are */
} linear_run;

static void
make_parts(void *state, int64_t begin, int64_t end, void *room)
{
    linear_run *run = state;
    ipu_ctx ctx;
    ipu_ctx_init(&ctx, run->job.call->ctx->allocator);
    const linear_job job = job_in(&run->job, &ctx, room);
    int64_t batch = ipu__share_of(job.plan.batches, run->parts, begin);
    ipu__lapack_made_by(&job.by);
    const int64_t stop = ipu__share_of(job.plan.batches, run->parts, end);
    while (batch < stop && run->make(&job, batch) == IPU_OK) {
        batch++;
    }
    int64_t failed = atomic_load(&run->failed);
    while (batch < stop && batch < failed &&
           !atomic_compare_exchange_weak(&run->failed, &failed, batch)) {
    }
    ipu__lapack_made_by(NULL);
    ipu_ctx_clear(&ctx);
}

/* All matrices. One that fails is made again, for its error. */
static ipu_status
run_all(const ipu_kernel_call *call, make_fn *make_f32, make_fn *make_f64)
{
    const ipu_shape *shape = &call->spec->inputs[0].shape;
    int64_t last = call->spec->input_count > 1
                       ? call->spec->inputs[1].shape.dims[shape->rank - 1]
                       : 0;
    IPU_FAIL_IF(call->ctx,
                shape->dims[shape->rank - 2] > INT_MAX / 16
                        || shape->dims[shape->rank - 1] > INT_MAX / 16
                        || last > INT_MAX / 16,
                UNIMPLEMENTED, "%s of matrices with more than %d rows or columns",
                ipu_op_info_of(call->spec->op)->name, INT_MAX / 16);
    linear_run run = {.job = {.call = call,
                              .plan = plan_of(call->spec),
                              .by = {ipu_cpu_class_detect(), NULL}}};
    const linear_plan *plan = &run.job.plan;
    IPU_TRY(ipu__blis_check(call->ctx, run.job.by.cpu));
    IPU_FAIL_IF(call->ctx, plan->work == INT_MAX, UNIMPLEMENTED,
                "%s of a matrix of %d by %d: it would need 16 GiB of room to work",
                ipu_op_info_of(call->spec->op)->name, plan->rows, plan->columns);
    run.make = plan->bytes == sizeof(double) ? make_f64 : make_f32;
    run.parts = parts_of(plan);
    run.failed = plan->batches;
    if (plan->least >= LEAST_CUT && plan->batches < ipu_pool_hands(call->pool)) {
        run.job.by.pool = call->pool;
        make_parts(&run, 0, run.parts, call->workspace);
    } else {
        ipu__share_out(call->pool, run.parts, make_parts, &run, call->workspace,
                       room_of(plan));
    }
    if (run.failed < plan->batches) {
        const linear_job job = job_in(&run.job, call->ctx, call->workspace);
        return run.make(&job, run.failed);
    }
    return IPU_OK;
}

#define OF_ALL(name) \
    ipu_status ipu_reference_##name(const ipu_kernel_call *call) \
    { \
        return run_all(call, make_##name##_f32, make_##name##_f64); \
    }
OF_ALL(cholesky)
OF_ALL(triangular_solve)
OF_ALL(solve)
OF_ALL(det)
OF_ALL(qr)
OF_ALL(eigh)
OF_ALL(svd)
OF_ALL(lu)
