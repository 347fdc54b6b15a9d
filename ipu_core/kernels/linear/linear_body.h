/* SPDX-License-Identifier: MIT
 *
 * Linear algebra of one matrix of `real`, for linear.c, which says what FORM(name),
 * LAPACK(name), SIZE and EQUAL are. Vectors that are known up to their sign have a
 * positive largest element. */

#define matrix FORM(ipu__matrix)

/* `numbers`, `work` and `integers` of a plan. */
static void
FORM(set_room)(linear_plan *p)
{
    real work = 0;
    real unused = 0;
    int size = 0;
    int info;
    switch (p->op) {
    case IPU_OP_ID_TRIANGULAR_SOLVE:
        p->numbers = (size_t)p->rows * (size_t)p->right_lead;
        break;
    case IPU_OP_ID_SOLVE:
        p->numbers = (size_t)p->lead * (size_t)p->right;
        p->integers = (size_t)p->rows;
        break;
    case IPU_OP_ID_DET:
    case IPU_OP_ID_SLOGDET:
    case IPU_OP_ID_LU:
        p->integers = (size_t)p->rows;
        break;
    case IPU_OP_ID_QR:
        p->numbers = (size_t)p->least;
        LAPACK(geqrf)(&p->rows, &p->columns, &unused, &p->turned_lead, &unused, &work,
                      &ask, &info);
        p->work = larger(p->work, (double)work);
        LAPACK(orgqr)(&p->rows, &p->least, &p->least, &unused, &p->turned_lead, &unused,
                      &work, &ask, &info);
        p->work = larger(p->work, (double)work);
        break;
    case IPU_OP_ID_EIGH:
        p->numbers = (size_t)p->rows;
        LAPACK(syevd)("V", "U", &p->rows, &unused, &p->lead, &unused, &work, &ask,
                      &size, &ask, &info, 1, 1);
        p->work = larger(p->work, (double)work);
        p->integers = (size_t)size;
        break;
    case IPU_OP_ID_SVD:
        p->numbers = (size_t)p->least * (1 + (size_t)p->lead) +
                     (size_t)p->rows * (size_t)p->least_lead;
        LAPACK(gesdd)("S", &p->columns, &p->rows, &unused, &p->lead, &unused, &unused,
                      &p->lead, &unused, &p->least_lead, &work, &ask, &size, &info, 1);
        p->work = larger(p->work, (double)work);
        p->integers = 8 * (size_t)p->least;
        break;
    default:
        break;
    }
}

typedef struct FORM(copies) {
    const real *from;
    int64_t lead;
    real *to;
    int64_t to_lead;
    int64_t rows;
    int64_t columns;
    bool turned;
    int32_t parts;
} FORM(copies);

static void
FORM(copy_part)(void *state, int32_t task, int32_t worker)
{
    const FORM(copies) *c = state;
    const int64_t begin = ipu__part_begin((int)c->rows, c->parts, task);
    const int64_t end = ipu__part_begin((int)c->rows, c->parts, task + 1);
    (void)worker;
    FORM(copy)(c->from + begin * (c->turned ? 1 : c->lead), c->lead,
               c->to + begin * c->to_lead, c->to_lead, end - begin, c->columns,
               c->turned);
}

static void
FORM(copy_matrix)(const linear_job *job, const real *from, int lead, real *to,
                  int to_lead, int rows, int columns, bool turned)
{
    FORM(copies) c = {from, lead, to, to_lead, rows, columns, turned, 1};
    c.parts = ipu__parts_of(rows, (int64_t)FLOPS_OF_COPY * columns);
    if (c.parts == 1) {
        FORM(copy)(from, lead, to, to_lead, rows, columns, turned);
    } else {
        ipu_pool_run(job->by.pool, c.parts, FORM(copy_part), &c);
    }
}

/* Matrix `batch` of an input, [rows, columns], as rows, or turned as columns. */
static void
FORM(load)(const linear_job *job, int32_t input, int64_t batch, int rows, int columns,
           bool turned, real *to, int lead)
{
    const real *from =
        (const real *)job->call->inputs[input] + batch * rows * columns;
    FORM(copy_matrix)(job, from, columns, to, lead, turned ? columns : rows,
                      turned ? rows : columns, turned);
}

/* Matrix `batch` of an output, [rows, columns], from rows, or turned from columns. */
static void
FORM(store)(const linear_job *job, int32_t output, int64_t batch, int rows, int columns,
            bool turned, const real *from, int lead)
{
    real *to = (real *)job->call->outputs[output] + batch * rows * columns;
    FORM(copy_matrix)(job, from, lead, to, columns, rows, columns, turned);
}

static void
FORM(store_number)(const linear_job *job, int32_t output, int64_t batch, double number)
{
    ((real *)job->call->outputs[output])[batch] = (real)number;
}

static bool
FORM(is_finite)(const real *x, int64_t rows, int64_t columns, int64_t lead)
{
    real sum = 0;
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t j = 0; j < columns; j++) {
            sum += 0 * x[i * lead + j];
        }
    }
    return sum == 0;
}

/* The factor, 1 or -1, that makes the largest element positive; of those that are as
 * large but for their last digits the first one, so that rounding does not choose. */
static real
FORM(sign_of)(const real *x, int64_t count, int64_t stride)
{
    real largest = 0;
    for (int64_t i = 0; i < count; i++) {
        const real size = SIZE(x[i * stride]);
        largest = size > largest ? size : largest;
    }
    for (int64_t i = 0; i < count; i++) {
        if (SIZE(x[i * stride]) >= largest * (1 - EQUAL)) {
            return x[i * stride] < 0 ? -1 : 1;
        }
    }
    return 1;
}

static void
FORM(scale)(real *x, int64_t count, int64_t stride, real factor)
{
    for (int64_t i = 0; i < count; i++) {
        x[i * stride] *= factor;
    }
}

static ipu_status
FORM(make_cholesky)(const linear_job *job, int64_t batch)
{
    const int n = job->plan.rows;
    const int lead = job->plan.lead;
    real *a = job->a;
    FORM(load)(job, 0, batch, n, n, false, a, lead);
    IPU_FAIL_IF(job->ctx, !FORM(ipu__cholesky)(job->by, n, a, lead), INVALID_ARGUMENT,
                "Cholesky decomposition was not successful. The input might not be "
                "valid: matrix %lld is not positive definite",
                (long long)batch);
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = i + 1; j < n; j++) {
            a[i * lead + j] = 0;
        }
    }
    FORM(store)(job, 0, batch, n, n, false, a, lead);
    return IPU_OK;
}

static ipu_status
FORM(make_triangular_solve)(const linear_job *job, int64_t batch)
{
    const bool lower = ipu_attrs_int(job->call->spec->attrs, IPU_ATTR_LOWER, 0) != 0;
    const bool transpose =
        ipu_attrs_int(job->call->spec->attrs, IPU_ATTR_TRANSPOSE_A, 0) != 0;
    const int n = job->plan.rows;
    const int right = job->plan.right;
    const int lead = job->plan.right_lead;
    real *a = (real *)(uintptr_t)job->call->inputs[0] + batch * n * n; /* not changed */
    FORM(load)(job, 1, batch, n, right, false, job->b, lead);
    for (int64_t i = 0; i < n; i++) {
        IPU_FAIL_IF(
            job->ctx, a[i * n + i] == 0, INVALID_ARGUMENT,
            "Input matrix is not invertible: element %lld of the diagonal of "
            "matrix %lld is 0",
            (long long)i, (long long)batch);
    }
    FORM(ipu__solve_triangle)(job->by, n, right,
                              (matrix){a, transpose ? 1 : n, transpose ? n : 1},
                              lower != transpose, false, (matrix){job->b, lead, 1});
    FORM(store)(job, 0, batch, n, right, false, job->b, lead);
    return IPU_OK;
}

static ipu_status
FORM(make_solve)(const linear_job *job, int64_t batch)
{
    const bool transpose =
        ipu_attrs_int(job->call->spec->attrs, IPU_ATTR_TRANSPOSE_A, 0) != 0;
    const int n = job->plan.rows;
    const int right = job->plan.right;
    const int lead = job->plan.lead;
    const matrix factors = {job->a, 1, lead};
    const matrix sides = {job->b, 1, lead};
    FORM(load)(job, 0, batch, n, n, !transpose, job->a, lead);
    FORM(load)(job, 1, batch, n, right, true, job->b, lead);
    const int missing = FORM(ipu__lu)(job->by, n, n, job->a, lead, job->integers);
    IPU_FAIL_IF(
        job->ctx, missing >= 0, INVALID_ARGUMENT,
        "Input matrix is not invertible: element %d of the diagonal of matrix "
        "%lld is 0 after elimination",
        missing, (long long)batch);
    FORM(ipu__exchange_rows)(right, job->b, lead, job->integers, 0, n);
    FORM(ipu__solve_triangle)(job->by, n, right, factors, true, true, sides);
    FORM(ipu__solve_triangle)(job->by, n, right, factors, false, false, sides);
    FORM(store)(job, 0, batch, n, right, true, job->b, lead);
    return IPU_OK;
}

/* The determinant's sign and the logarithm of its size, or the determinant as a
 * product. */
static ipu_status
FORM(make_det)(const linear_job *job, int64_t batch)
{
    const bool in_parts = job->plan.op == IPU_OP_ID_SLOGDET;
    const int n = job->plan.rows;
    const int lead = job->plan.lead;
    const real *a = job->a;
    double sign = 1.0;
    double product = 1.0;
    double size = 0.0;
    FORM(load)(job, 0, batch, n, n, false, job->a, lead);
    FORM(ipu__lu)(job->by, n, n, job->a, lead, job->integers);
    for (int i = 0; i < n; i++) {
        const double pivot = (double)a[(int64_t)i * lead + i];
        sign = job->integers[i] == i ? sign : -sign;
        product *= pivot;
        size += log(fabs(pivot));
    }
    product *= sign;
    for (int64_t i = 0; i < n; i++) {
        const real pivot = a[i * lead + i];
        sign = pivot < 0 ? -sign : (pivot == 0 ? 0.0 : sign);
    }
    FORM(store_number)(job, 0, batch, in_parts ? sign : product);
    if (in_parts) {
        FORM(store_number)(job, 1, batch, size);
    }
    return IPU_OK;
}

static ipu_status
FORM(make_qr)(const linear_job *job, int64_t batch)
{
    const linear_plan *plan = &job->plan;
    const int m = plan->rows;
    const int n = plan->columns;
    const int k = plan->least;
    real *r = (real *)job->call->outputs[1] + batch * k * n;
    int info;
    FORM(load)(job, 0, batch, m, n, true, job->a, plan->turned_lead);
    LAPACK(geqrf)(&m, &n, job->a, &plan->turned_lead, job->b, job->work, &plan->work,
                  &info);
    /* k rows of what was rewritten column by column */
    FORM(store)(job, 1, batch, k, n, true, job->a, plan->turned_lead);
    LAPACK(orgqr)(&m, &k, &k, job->a, &plan->turned_lead, job->b, job->work,
                  &plan->work, &info);
    FORM(store)(job, 0, batch, m, k, true, job->a, plan->turned_lead);
    /* below R's diagonal LAPACK keeps the reflections */
    for (int64_t i = 0; i < k; i++) {
        memset(r + i * n, 0, (size_t)i * sizeof *r);
    }
    return IPU_OK;
}

static ipu_status
FORM(make_eigh)(const linear_job *job, int64_t batch)
{
    const int n = job->plan.rows;
    const int lead = job->plan.lead;
    const int integers = (int)job->plan.integers;
    real *a = job->a;
    int info = 0;
    FORM(load)(job, 0, batch, n, n, false, a, lead);
    const bool finite = FORM(is_finite)(a, n, n, lead);
    if (finite) {
        LAPACK(syevd)("V", "U", &n, a, &lead, job->b, job->work, &job->plan.work,
                      job->integers, &integers, &info, 1, 1);
    }
    IPU_FAIL_IF(job->ctx, !finite || info != 0, INVALID_ARGUMENT,
                "Self-adjoint eigen decomposition was not successful. The input "
                "might not be valid: matrix %lld has elements that are not finite",
                (long long)batch);
    for (int64_t i = 0; i < n; i++) {
        FORM(scale)(a + i * lead, n, 1, FORM(sign_of)(a + i * lead, n, 1));
    }
    FORM(store)(job, 0, batch, 1, n, false, job->b, n);
    FORM(store)(job, 1, batch, n, n, true, a, lead);
    return IPU_OK;
}

/* Of the transposed matrix, which is the one that lies here by columns: A^T = V S U^T.
 */
static ipu_status
FORM(make_svd)(const linear_job *job, int64_t batch)
{
    const linear_plan *plan = &job->plan;
    const int m = plan->rows;
    const int n = plan->columns;
    const int k = plan->least;
    real *s = job->b;
    real *v = s + k;                         /* k columns of n */
    real *u = v + (int64_t)k * plan->lead; /* m rows of k */
    int info = 0;
    FORM(load)(job, 0, batch, m, n, false, job->a, plan->lead);
    if (FORM(is_finite)(job->a, m, n, plan->lead)) {
        LAPACK(gesdd)("S", &n, &m, job->a, &plan->lead, s, v, &plan->lead, u,
                      &plan->least_lead, job->work, &plan->work, job->integers, &info,
                      1);
    } else {
        for (size_t i = 0; i < plan->numbers; i++) {
            s[i] = (real)NAN;
        }
    }
    IPU_FAIL_IF(job->ctx, info != 0, INTERNAL,
                "the singular value decomposition of matrix %lld did not converge",
                (long long)batch);
    for (int64_t i = 0; i < k; i++) {
        const real sign = FORM(sign_of)(u + i, m, plan->least_lead);
        FORM(scale)(u + i, m, plan->least_lead, sign);
        FORM(scale)(v + i * plan->lead, n, 1, sign);
    }
    FORM(store)(job, 0, batch, 1, k, false, s, k);
    FORM(store)(job, 1, batch, m, k, false, u, plan->least_lead);
    FORM(store)(job, 2, batch, n, k, true, v, plan->lead);
    return IPU_OK;
}

/* P A = L U: both triangles in one matrix, the ones on L's diagonal left out; and for
 * each row of it the row of A. */
static ipu_status
FORM(make_lu)(const linear_job *job, int64_t batch)
{
    const int n = job->plan.rows;
    const int lead = job->plan.turned_lead;
    int32_t *rows = (int32_t *)job->call->outputs[1] + batch * n;
    FORM(load)(job, 0, batch, n, n, true, job->a, lead);
    const int missing = FORM(ipu__lu)(job->by, n, n, job->a, lead, job->integers);
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
    FORM(store)(job, 0, batch, n, n, true, job->a, lead);
    return IPU_OK;
}

#undef real
#undef FORM
#undef LAPACK
#undef SIZE
#undef EQUAL
#undef matrix
