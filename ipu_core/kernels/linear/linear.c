/* SPDX-License-Identifier: MIT
 *
 * Linear algebra over the last two axes, by LAPACK and factors.c: decompositions,
 * triangular and general systems, determinants. One matrix after another is copied into
 * the workspace as doubles, also of float32, whose results are then rounded once. Their
 * matrices go by columns: a matrix as it lies here is the transposed one there, which
 * most routines take as well; `turned` copies are for the rest. Vectors that are known up
 * to their sign have a positive largest element. The workspace's slack serves BLIS, on
 * which LAPACK stands. These kernels are the only ones. Matrices are shared out to
 * threads; one has its bits whoever makes it. */
#include <limits.h>
#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "kernels/core/kernel_impl.h"
#include "kernels/core/blis_impl.h"
#include "kernels/linear/factors.h"
#include "kernels/linear/lapack.h"

/* Matrix 0 of the call is [rows, columns], of a system matrix 1 is [rows, right]. In
 * the workspace: the matrix, `numbers` more doubles, `work` of LAPACK's own,
 * `integers`. */
typedef struct linear_plan {
    ipu_dtype dtype;
    int64_t batches;
    int rows;
    int columns;
    int least; /* of the two */
    int right;
    int work;
    size_t numbers;
    size_t integers;
} linear_plan;

enum {
    TURNED_ROWS = 8 /* at a time: as many lines of a page's size apart stay in a cache */
};

/* As the size of a room: LAPACK says how much it wants. */
static const int ask = -1;

/* Rooms beyond what an int counts are refused when a job begins. */
static int
larger(int a, double b)
{
    return b > (double)a ? (int)fmin(b, INT_MAX) : a;
}

static linear_plan
plan_of(const ipu_kernel_spec *spec)
{
    const ipu_shape *shape = &spec->inputs[0].shape;
    linear_plan p = {.dtype = spec->inputs[0].dtype,
                     .batches = ipu_shape_span(shape, 0, shape->rank - 2),
                     .rows = (int)shape->dims[shape->rank - 2],
                     .columns = (int)shape->dims[shape->rank - 1]};
    p.least = p.rows < p.columns ? p.rows : p.columns;
    double work = 0.0;
    double unused = 0.0;
    int size = 0;
    int info;
    int lead = larger(1, p.rows);
    int across = larger(1, p.columns);
    int k = larger(1, p.least);
    switch (spec->op) {
    case IPU_OP_ID_TRIANGULAR_SOLVE:
    case IPU_OP_ID_SOLVE:
        p.right = (int)spec->inputs[1].shape.dims[shape->rank - 1];
        p.numbers = (size_t)p.rows * (size_t)p.right;
        p.integers = (size_t)p.rows;
        break;
    case IPU_OP_ID_DET:
    case IPU_OP_ID_SLOGDET:
    case IPU_OP_ID_LU:
        p.integers = (size_t)p.rows;
        break;
    case IPU_OP_ID_QR:
        p.numbers = (size_t)p.least;
        dgeqrf_(&p.rows, &p.columns, &unused, &lead, &unused, &work, &ask, &info);
        p.work = larger(p.work, work);
        dorgqr_(&p.rows, &p.least, &p.least, &unused, &lead, &unused, &work, &ask,
                &info);
        p.work = larger(p.work, work);
        break;
    case IPU_OP_ID_EIGH:
        p.numbers = (size_t)p.rows;
        dsyevd_("V", "U", &p.rows, &unused, &lead, &unused, &work, &ask, &size, &ask,
                &info, 1, 1);
        p.work = larger(p.work, work);
        p.integers = (size_t)size;
        break;
    case IPU_OP_ID_SVD:
        p.numbers = (size_t)p.least * (1 + (size_t)p.rows + (size_t)p.columns);
        dgesdd_("S", &p.columns, &p.rows, &unused, &across, &unused, &unused, &across,
                &unused, &k, &work, &ask, &size, &info, 1);
        p.work = larger(p.work, work);
        p.integers = 8 * (size_t)p.least;
        break;
    default:
        break;
    }
    return p;
}

/* For one matrix. */
static size_t
room_of(const linear_plan *p)
{
    size_t numbers =
        (size_t)p->rows * (size_t)p->columns + p->numbers + (size_t)p->work;
    return numbers * sizeof(double) + p->integers * sizeof(int);
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

/* A matrix in the hands of a thread. */
typedef struct linear_job {
    const ipu_kernel_call *call;
    ipu_ctx *ctx;
    linear_plan plan;
    ipu_cpu_class cpu;
    double *a;
    double *b; /* the `numbers` */
    double *work;
    int *integers;
    int lead;   /* of the matrix as it lies: its columns, at least 1 */
    int turned; /* of the turned one: its rows, at least 1 */
} linear_job;

typedef ipu_status make_fn(const linear_job *job, int64_t batch);

static linear_job
job_in(const linear_job *of, ipu_ctx *ctx, void *room)
{
    linear_job job = *of;
    job.ctx = ctx;
    job.a = room;
    job.b = job.a + (size_t)job.plan.rows * (size_t)job.plan.columns;
    job.work = job.b + job.plan.numbers;
    job.integers = (int *)(job.work + job.plan.work);
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
    const int64_t stop = ipu__share_of(job.plan.batches, run->parts, end);
    while (batch < stop && run->make(&job, batch) == IPU_OK) {
        batch++;
    }
    int64_t failed = atomic_load(&run->failed);
    while (batch < stop && batch < failed &&
           !atomic_compare_exchange_weak(&run->failed, &failed, batch)) {
    }
    ipu_ctx_clear(&ctx);
}

/* All matrices. One that fails is made again, for its error. */
static ipu_status
run_all(const ipu_kernel_call *call, make_fn *make)
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
                              .cpu = ipu_cpu_class_detect()},
                      .make = make};
    const linear_plan *plan = &run.job.plan;
    IPU_TRY(ipu__blis_check(call->ctx, run.job.cpu));
    IPU_FAIL_IF(call->ctx, plan->work == INT_MAX, UNIMPLEMENTED,
                "%s of a matrix of %d by %d: it would need 16 GiB of room to work",
                ipu_op_info_of(call->spec->op)->name, plan->rows, plan->columns);
    run.job.lead = larger(1, plan->columns);
    run.job.turned = larger(1, plan->rows);
    run.parts = parts_of(plan);
    run.failed = plan->batches;
    ipu__share_out(call->pool, run.parts, make_parts, &run, call->workspace,
                   room_of(plan));
    if (run.failed < plan->batches) {
        const linear_job job = job_in(&run.job, call->ctx, call->workspace);
        return make(&job, run.failed);
    }
    return IPU_OK;
}

/* A matrix [rows, columns] from one that lies alike, or turned, with columns of `lead`.
 */
#define COPY(name, from_type, to_type) \
    static void name(const from_type *from, to_type *to, int64_t rows, \
                     int64_t columns, bool turned, int64_t lead) \
    { \
        for (int64_t i = 0; !turned && i < rows * columns; i++) { \
            to[i] = (to_type)from[i]; \
        } \
        for (int64_t i = 0; turned && i < rows; i += TURNED_ROWS) { \
            const int64_t end = ipu__min(i + TURNED_ROWS, rows); \
            for (int64_t j = 0; j < columns; j++) { \
                for (int64_t k = i; k < end; k++) { \
                    to[k * columns + j] = (to_type)from[j * lead + k]; \
                } \
            } \
        } \
    }
COPY(copy, double, double)
COPY(widen, float, double)
COPY(narrow, double, float)
#undef COPY

/* Matrix `batch` of an input, [rows, columns]. */
static void
load(const linear_job *job, int32_t input, int64_t batch, int rows, int columns,
     bool turned, double *to)
{
    const void *from = job->call->inputs[input];
    const int64_t at = batch * rows * columns;
    const int64_t to_rows = turned ? columns : rows;
    const int64_t to_columns = turned ? rows : columns;
    if (job->plan.dtype == IPU_DTYPE_FLOAT64) {
        copy((const double *)from + at, to, to_rows, to_columns, turned, columns);
    } else {
        widen((const float *)from + at, to, to_rows, to_columns, turned, columns);
    }
}

/* The same as it lies here, to be read only: float64 need not be copied to `room`. */
static const double *
view(const linear_job *job, int32_t input, int64_t batch, int rows, int columns,
     double *room)
{
    if (job->plan.dtype == IPU_DTYPE_FLOAT64) {
        return (const double *)job->call->inputs[input] + batch * rows * columns;
    }
    load(job, input, batch, rows, columns, false, room);
    return room;
}

/* Matrix `batch` of an output, [rows, columns], whose turned one has columns of `lead`.
 */
static void
store(const linear_job *job, int32_t output, int64_t batch, int rows, int columns,
      bool turned, int lead, const double *from)
{
    void *to = job->call->outputs[output];
    const int64_t at = batch * rows * columns;
    if (job->plan.dtype == IPU_DTYPE_FLOAT64) {
        copy(from, (double *)to + at, rows, columns, turned, lead);
    } else {
        narrow(from, (float *)to + at, rows, columns, turned, lead);
    }
}

static bool
is_finite(const double *x, int64_t count)
{
    double sum = 0.0;
    for (int64_t i = 0; i < count; i++) {
        sum += 0.0 * x[i];
    }
    return sum == 0.0;
}

/* The factor, 1 or -1, that makes the largest element positive; of those that are as
 * large to 7 digits the first one, so that rounding does not choose. */
static double
sign_of(const double *x, int64_t count, int64_t stride)
{
    double largest = 0.0;
    for (int64_t i = 0; i < count; i++) {
        largest = fmax(largest, fabs(x[i * stride]));
    }
    for (int64_t i = 0; i < count; i++) {
        if (fabs(x[i * stride]) >= largest * (1.0 - 1e-7)) {
            return x[i * stride] < 0.0 ? -1.0 : 1.0;
        }
    }
    return 1.0;
}

static void
scale(double *x, int64_t count, int64_t stride, double factor)
{
    for (int64_t i = 0; i < count; i++) {
        x[i * stride] *= factor;
    }
}

static ipu_status
make_cholesky(const linear_job *job, int64_t batch)
{
    int n = job->plan.rows;
    load(job, 0, batch, n, n, false, job->a);
    IPU_FAIL_IF(job->ctx, !ipu__cholesky(job->cpu, n, job->a, job->lead),
                INVALID_ARGUMENT,
                "Cholesky decomposition was not successful. The input might not be "
                "valid: matrix %lld is not positive definite",
                (long long)batch);
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = i + 1; j < n; j++) {
            job->a[i * n + j] = 0.0;
        }
    }
    store(job, 0, batch, n, n, false, 0, job->a);
    return IPU_OK;
}

static ipu_status
make_triangular_solve(const linear_job *job, int64_t batch)
{
    bool lower = ipu_attrs_int(job->call->spec->attrs, IPU_ATTR_LOWER, 0) != 0;
    bool transpose =
        ipu_attrs_int(job->call->spec->attrs, IPU_ATTR_TRANSPOSE_A, 0) != 0;
    int n = job->plan.rows;
    int right = job->plan.right;
    const double *a = view(job, 0, batch, n, n, job->a);
    load(job, 1, batch, n, right, false, job->b);
    for (int64_t i = 0; i < n; i++) {
        IPU_FAIL_IF(
            job->ctx, a[i * n + i] == 0.0, INVALID_ARGUMENT,
            "Input matrix is not invertible: element %lld of the diagonal of "
            "matrix %lld is 0",
            (long long)i, (long long)batch);
    }
    ipu__matrix triangle = {(double *)(uintptr_t)a, transpose ? 1 : n,
                            transpose ? n : 1};
    ipu__solve_triangle(job->cpu, n, right, triangle, lower != transpose, false,
                        (ipu__matrix){job->b, right, 1});
    store(job, 0, batch, n, right, false, 0, job->b);
    return IPU_OK;
}

static ipu_status
make_solve(const linear_job *job, int64_t batch)
{
    bool transpose =
        ipu_attrs_int(job->call->spec->attrs, IPU_ATTR_TRANSPOSE_A, 0) != 0;
    int n = job->plan.rows;
    int right = job->plan.right;
    load(job, 0, batch, n, n, !transpose, job->a);
    load(job, 1, batch, n, right, true, job->b);
    int missing = ipu__lu(job->cpu, n, n, job->a, job->lead, job->integers);
    IPU_FAIL_IF(
        job->ctx, missing >= 0, INVALID_ARGUMENT,
        "Input matrix is not invertible: element %d of the diagonal of matrix "
        "%lld is 0 after elimination",
        missing, (long long)batch);
    ipu__exchange_rows(right, job->b, job->lead, job->integers, 0, n);
    const ipu__matrix factors = {job->a, 1, n};
    const ipu__matrix sides = {job->b, 1, n};
    ipu__solve_triangle(job->cpu, n, right, factors, true, true, sides);
    ipu__solve_triangle(job->cpu, n, right, factors, false, false, sides);
    store(job, 0, batch, n, right, true, n, job->b);
    return IPU_OK;
}

/* The determinant's sign and the logarithm of its size, or the determinant as a
 * product. */
static ipu_status
make_det(const linear_job *job, int64_t batch)
{
    const bool in_parts = job->call->spec->op == IPU_OP_ID_SLOGDET;
    int n = job->plan.rows;
    double sign = 1.0;
    double product = 1.0;
    double size = 0.0;
    load(job, 0, batch, n, n, false, job->a);
    ipu__lu(job->cpu, n, n, job->a, job->lead, job->integers);
    for (int i = 0; i < n; i++) {
        double pivot = job->a[(int64_t)i * n + i];
        sign = job->integers[i] == i ? sign : -sign;
        product *= pivot;
        size += log(fabs(pivot));
    }
    product *= sign;
    for (int64_t i = 0; i < n; i++) {
        double pivot = job->a[i * n + i];
        sign = pivot < 0.0 ? -sign : (pivot == 0.0 ? 0.0 : sign);
    }
    store(job, 0, batch, 1, 1, false, 0, in_parts ? &sign : &product);
    if (in_parts) {
        store(job, 1, batch, 1, 1, false, 0, &size);
    }
    return IPU_OK;
}

static ipu_status
make_qr(const linear_job *job, int64_t batch)
{
    int m = job->plan.rows;
    int n = job->plan.columns;
    int k = job->plan.least;
    double *r = job->a; /* rewritten column by column, then k rows of it are stored */
    int info;
    load(job, 0, batch, m, n, true, job->a);
    dgeqrf_(&m, &n, job->a, &job->turned, job->b, job->work, &job->plan.work, &info);
    store(job, 1, batch, k, n, true, job->turned, r);
    dorgqr_(&m, &k, &k, job->a, &job->turned, job->b, job->work, &job->plan.work,
            &info);
    store(job, 0, batch, m, k, true, job->turned, job->a);
    /* below R's diagonal LAPACK keeps the reflections */
    size_t bytes = ipu_dtype_bytes(job->plan.dtype);
    for (int64_t i = 0; i < k; i++) {
        memset((char *)job->call->outputs[1] + (size_t)((batch * k + i) * n) * bytes, 0,
               (size_t)i * bytes);
    }
    return IPU_OK;
}

static ipu_status
make_eigh(const linear_job *job, int64_t batch)
{
    int n = job->plan.rows;
    int integers = (int)job->plan.integers;
    int info = 0;
    load(job, 0, batch, n, n, false, job->a);
    bool finite = is_finite(job->a, (int64_t)n * n);
    if (finite) {
        dsyevd_("V", "U", &n, job->a, &job->lead, job->b, job->work, &job->plan.work,
                job->integers, &integers, &info, 1, 1);
    }
    IPU_FAIL_IF(job->ctx, !finite || info != 0, INVALID_ARGUMENT,
                "Self-adjoint eigen decomposition was not successful. The input "
                "might not be valid: matrix %lld has elements that are not finite",
                (long long)batch);
    for (int64_t i = 0; i < n; i++) {
        scale(job->a + i * n, n, 1, sign_of(job->a + i * n, n, 1));
    }
    store(job, 0, batch, 1, n, false, 0, job->b);
    store(job, 1, batch, n, n, true, n, job->a);
    return IPU_OK;
}

/* Of the transposed matrix, which is the one that lies here by columns: A^T = V S U^T.
 */
static ipu_status
make_svd(const linear_job *job, int64_t batch)
{
    int m = job->plan.rows;
    int n = job->plan.columns;
    int k = job->plan.least;
    int least = larger(1, k);
    int64_t vectors = (int64_t)k * (m + n);
    double *v = job->b + k;         /* k columns of n */
    double *u = v + (int64_t)k * n; /* m rows of k */
    int info = 0;
    load(job, 0, batch, m, n, false, job->a);
    if (is_finite(job->a, (int64_t)m * n)) {
        dgesdd_("S", &n, &m, job->a, &job->lead, job->b, v, &job->lead, u, &least,
                job->work, &job->plan.work, job->integers, &info, 1);
    } else {
        for (int64_t i = 0; i < k + vectors; i++) {
            job->b[i] = (double)NAN;
        }
    }
    IPU_FAIL_IF(job->ctx, info != 0, INTERNAL,
                "the singular value decomposition of matrix %lld did not converge",
                (long long)batch);
    for (int64_t i = 0; i < k; i++) {
        double sign = sign_of(u + i, m, k);
        scale(u + i, m, k, sign);
        scale(v + i * n, n, 1, sign);
    }
    store(job, 0, batch, 1, k, false, 0, job->b);
    store(job, 1, batch, m, k, false, 0, u);
    store(job, 2, batch, n, k, true, n, v);
    return IPU_OK;
}

/* P A = L U: both triangles in one matrix, the ones on L's diagonal left out; and for
 * each row of it the row of A. */
static ipu_status
make_lu(const linear_job *job, int64_t batch)
{
    int n = job->plan.rows;
    int32_t *rows = (int32_t *)job->call->outputs[1] + batch * n;
    load(job, 0, batch, n, n, true, job->a);
    int missing = ipu__lu(job->cpu, n, n, job->a, job->turned, job->integers);
    IPU_FAIL_IF(job->ctx, missing >= 0, INVALID_ARGUMENT,
                "Input is not invertible: matrix %lld has no pivot in column %d",
                (long long)batch, missing);
    for (int i = 0; i < n; i++) {
        rows[i] = i;
    }
    for (int i = 0; i < n; i++) {
        int32_t other = rows[job->integers[i]];
        rows[job->integers[i]] = rows[i];
        rows[i] = other;
    }
    store(job, 0, batch, n, n, true, n, job->a);
    return IPU_OK;
}

#define OF_ALL(name) \
    ipu_status ipu_reference_##name(const ipu_kernel_call *call) \
    { \
        return run_all(call, make_##name); \
    }
OF_ALL(cholesky)
OF_ALL(triangular_solve)
OF_ALL(solve)
OF_ALL(det)
OF_ALL(qr)
OF_ALL(eigh)
OF_ALL(svd)
OF_ALL(lu)
