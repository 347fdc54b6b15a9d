/* SPDX-License-Identifier: MIT
 *
 * Decompositions into orthogonal factors, over the last two axes: QR by Householder's
 * reflections, symmetric eigenvalues by tridiagonal form and implicit QR steps,
 * singular values by one-sided Jacobi rotations; and LU with row exchanges. Source:
 * Golub and Van Loan, "Matrix computations", 5.2, 8.3, 8.6.3. As in reference_linear.c
 * one matrix after another is copied into the workspace and computed in double there;
 * these kernels are the only ones. They call nothing but sqrt, so that results are the
 * same on every machine. Calling thread only. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "kernels/kernel_impl.h"

enum {
    MOST_STEPS = 40, /* for an eigenvalue; 2 or 3 is usual */
    MOST_SWEEPS = 60 /* over all pairs of columns; 6 to 10 is usual */
};

/* Matrices [rows, columns], row-major. */
typedef struct batch_plan {
    ipu_dtype dtype;
    int64_t rows;
    int64_t columns;
    int64_t batches;
} batch_plan;

static batch_plan
plan_of(const ipu_kernel_spec *spec)
{
    const ipu_shape *shape = &spec->inputs[0].shape;
    batch_plan plan = {.dtype = spec->inputs[0].dtype,
                       .rows = shape->dims[shape->rank - 2],
                       .columns = shape->dims[shape->rank - 1],
                       .batches = 1};
    for (int32_t i = 0; i + 2 < shape->rank; i++) {
        plan.batches *= shape->dims[i];
    }
    return plan;
}

size_t
ipu__spectral_reference_bytes(const ipu_kernel_spec *spec)
{
    batch_plan plan = plan_of(spec);
    int64_t m = plan.rows;
    int64_t n = plan.columns;
    int64_t k = ipu__min(m, n);
    int64_t long_side = m + n - k;
    int64_t numbers;
    switch (spec->op) {
    case IPU_OP_ID_QR: /* the matrix, Q, the reflections' scales */
        numbers = m * n + m * k + k;
        break;
    case IPU_OP_ID_EIGH: /* the matrix, vectors, two diagonals, two vectors */
        numbers = 2 * n * n + 4 * n;
        break;
    case IPU_OP_ID_SVD: /* columns, right vectors, norms, a row */
        numbers = k * long_side + k * k + k + long_side;
        break;
    default: /* LU */
        numbers = m * n;
        break;
    }
    return (size_t)numbers * sizeof(double);
}

/* Matrix `batch`, turned where asked for. */
static void
load(const ipu_kernel_call *call, const batch_plan *plan, int64_t batch, bool turned,
     double *to)
{
    int64_t first = batch * plan->rows * plan->columns;
    for (int64_t i = 0; i < plan->rows; i++) {
        for (int64_t j = 0; j < plan->columns; j++) {
            int64_t at = turned ? j * plan->rows + i : i * plan->columns + j;
            to[at] = ipu__scalar_load(plan->dtype, call->inputs[0],
                                      first + i * plan->columns + j)
                         .f;
        }
    }
}

static void
store(const ipu_kernel_call *call, int32_t output, int64_t at, double value)
{
    ipu__scalar_store(call->spec->outputs[output].dtype, call->outputs[output], at,
                      (ipu__scalar){.f = value});
}

static double
dot(const double *a, const double *b, int64_t n)
{
    double sum = 0.0;
    for (int64_t i = 0; i < n; i++) {
        sum += a[i] * b[i];
    }
    return sum;
}

/* a, b = c a + s b, c b - s a */
static void
rotate(double *a, double *b, int64_t n, double c, double s)
{
    for (int64_t i = 0; i < n; i++) {
        double x = a[i];
        double y = b[i];
        a[i] = c * x + s * y;
        b[i] = c * y - s * x;
    }
}

/* --- QR --------------------------------------------------------------------------- */

/* Makes x, whose elements lie `stride` apart, (beta, 0, 0, ...) by the reflection
 * I - tau v v^T with v = (1, x[1..]), which it leaves in x[1..]; gives tau. As in LAPACK
 * beta has the other sign than x[0], and what is already so is left as it is. */
static double
reflection(double *x, int64_t n, int64_t stride, double *beta)
{
    double rest = 0.0;
    for (int64_t i = 1; i < n; i++) {
        rest += x[i * stride] * x[i * stride];
    }
    *beta = x[0];
    if (rest == 0.0) {
        return 0.0;
    }
    *beta = sqrt(x[0] * x[0] + rest);
    *beta = x[0] >= 0.0 ? -*beta : *beta;
    double head = x[0] - *beta;
    for (int64_t i = 1; i < n; i++) {
        x[i * stride] /= head;
    }
    return (*beta - x[0]) / *beta;
}

/* Columns [first, columns) of rows [row, rows) of `to` by the reflection whose v lies in
 * column `at` of `from`. */
static void
reflect(double *to, int64_t width, int64_t first, const double *from, int64_t pitch,
        int64_t at, int64_t row, int64_t rows, double tau)
{
    for (int64_t j = first; j < width && tau != 0.0; j++) {
        double sum = to[row * width + j];
        for (int64_t i = row + 1; i < rows; i++) {
            sum += from[i * pitch + at] * to[i * width + j];
        }
        sum *= tau;
        to[row * width + j] -= sum;
        for (int64_t i = row + 1; i < rows; i++) {
            to[i * width + j] -= sum * from[i * pitch + at];
        }
    }
}

ipu_status
ipu_reference_qr(const ipu_kernel_call *call)
{
    batch_plan plan = plan_of(call->spec);
    int64_t m = plan.rows;
    int64_t n = plan.columns;
    int64_t k = ipu__min(m, n);
    double *a = call->workspace;
    double *q = a + m * n;
    double *taus = q + m * k;
    for (int64_t batch = 0; batch < plan.batches; batch++) {
        load(call, &plan, batch, false, a);
        for (int64_t j = 0; j < k; j++) {
            double beta;
            taus[j] = reflection(a + j * n + j, m - j, n, &beta);
            a[j * n + j] = beta;
            reflect(a, n, j + 1, a, n, j, j, m, taus[j]);
        }
        for (int64_t i = 0; i < m * k; i++) {
            q[i] = i / k == i % k ? 1.0 : 0.0;
        }
        for (int64_t j = k - 1; j >= 0; j--) {
            reflect(q, k, j, a, n, j, j, m, taus[j]);
        }
        for (int64_t i = 0; i < m * k; i++) {
            store(call, 0, batch * m * k + i, q[i]);
        }
        for (int64_t i = 0; i < k * n; i++) {
            store(call, 1, batch * k * n + i, i % n < i / n ? 0.0 : a[i]);
        }
    }
    return IPU_OK;
}

/* --- symmetric eigenvalues -------------------------------------------------------- */

/* A = Q T Q^T. Of `a` [n, n] the lower triangle is read. T's diagonal and the one below
 * it go to d and e, Q^T to q. */
static void
tridiagonal(double *a, double *q, double *d, double *e, double *v, double *p, int64_t n)
{
    for (int64_t i = 0; i < n * n; i++) {
        q[i] = i / n == i % n ? 1.0 : 0.0;
    }
    for (int64_t k = 0; k + 1 < n; k++) {
        int64_t size = n - k - 1;
        for (int64_t i = 0; i < size; i++) {
            v[i] = a[(k + 1 + i) * n + k];
        }
        double tau = reflection(v, size, 1, &e[k]);
        v[0] = 1.0;
        if (tau == 0.0) {
            continue;
        }
        for (int64_t i = 0; i < size; i++) { /* p = tau A v, of the lower triangle */
            p[i] = 0.0;
        }
        for (int64_t i = 0; i < size; i++) {
            const double *row = a + (k + 1 + i) * n + k + 1;
            for (int64_t j = 0; j < i; j++) {
                p[i] += row[j] * v[j];
                p[j] += row[j] * v[i];
            }
            p[i] += row[i] * v[i];
        }
        double half = 0.5 * tau * tau * dot(p, v, size);
        for (int64_t i = 0; i < size; i++) {
            p[i] = tau * p[i] - half * v[i];
        }
        for (int64_t i = 0; i < size; i++) {
            double *row = a + (k + 1 + i) * n + k + 1;
            for (int64_t j = 0; j <= i; j++) {
                row[j] -= v[i] * p[j] + p[i] * v[j];
            }
        }
        for (int64_t j = 0; j < n; j++) { /* p = Q's columns times v, over the old one */
            p[j] = 0.0;
        }
        for (int64_t i = 0; i < size; i++) {
            const double *row = q + (k + 1 + i) * n;
            for (int64_t j = 0; j < n; j++) {
                p[j] += v[i] * row[j];
            }
        }
        for (int64_t i = 0; i < size; i++) {
            double *row = q + (k + 1 + i) * n;
            for (int64_t j = 0; j < n; j++) {
                row[j] -= tau * v[i] * p[j];
            }
        }
    }
    for (int64_t i = 0; i < n; i++) {
        d[i] = a[i * n + i];
    }
}

/* One implicit QR step with Wilkinson's shift on rows [low, high] of the tridiagonal
 * matrix (d, e); the rows of q turn along. */
static void
qr_step(double *d, double *e, double *q, int64_t n, int64_t low, int64_t high)
{
    double gap = 0.5 * (d[high - 1] - d[high]);
    double last = e[high - 1];
    double root = sqrt(gap * gap + last * last);
    double shift = d[high] - last * last / (gap >= 0.0 ? gap + root : gap - root);
    double x = d[low] - shift;
    double z = e[low];
    for (int64_t k = low; k < high; k++) {
        double r = sqrt(x * x + z * z);
        double c = r == 0.0 ? 1.0 : x / r;
        double s = r == 0.0 ? 0.0 : z / r;
        double d1 = d[k];
        double d2 = d[k + 1];
        double between = e[k];
        if (k > low) {
            e[k - 1] = r;
        }
        d[k] = c * c * d1 + 2.0 * c * s * between + s * s * d2;
        d[k + 1] = s * s * d1 - 2.0 * c * s * between + c * c * d2;
        e[k] = c * s * (d2 - d1) + (c * c - s * s) * between;
        if (k + 1 < high) {
            x = e[k];
            z = s * e[k + 1];
            e[k + 1] *= c;
        }
        rotate(q + k * n, q + (k + 1) * n, n, c, s);
    }
}

static bool
is_small(const double *d, double e, int64_t at)
{
    return fabs(e) <= DBL_EPSILON * (fabs(d[at]) + fabs(d[at + 1]));
}

/* Whether all of e became 0. */
static bool
diagonalise(double *d, double *e, double *q, int64_t n)
{
    int64_t high = n - 1;
    for (int64_t steps = MOST_STEPS * n; high > 0; steps--) {
        if (is_small(d, e[high - 1], high - 1)) {
            high--;
            continue;
        }
        if (steps <= 0) {
            return false;
        }
        int64_t low = high - 1;
        while (low > 0 && !is_small(d, e[low - 1], low - 1)) {
            low--;
        }
        qr_step(d, e, q, n, low, high);
    }
    return true;
}

/* A power of 2 by which no square leaves the range of a double. */
static double
scale_of(const double *a, int64_t count)
{
    double largest = 0.0;
    int exponent;
    for (int64_t i = 0; i < count; i++) {
        largest = fabs(a[i]) > largest ? fabs(a[i]) : largest;
    }
    if (largest == 0.0 || !(largest <= DBL_MAX)) {
        return 1.0;
    }
    (void)frexp(largest, &exponent);
    return ldexp(1.0, exponent > 1000 ? 1000 : (exponent < -1000 ? -1000 : exponent));
}

/* The place of the least of values[from..n), or of the largest one. */
static int64_t
extreme_place(const double *values, int64_t from, int64_t n, bool largest)
{
    int64_t place = from;
    for (int64_t i = from + 1; i < n; i++) {
        bool before = largest ? values[i] > values[place] : values[i] < values[place];
        place = before ? i : place;
    }
    return place;
}

static void
exchange(double *a, double *b, int64_t n)
{
    for (int64_t i = 0; i < n && a != b; i++) {
        double other = a[i];
        a[i] = b[i];
        b[i] = other;
    }
}

/* The factor, 1 or -1, that makes the largest of the elements positive: of a vector that
 * is only known up to its sign. */
static double
sign_of(const double *x, int64_t n)
{
    int64_t place = 0;
    for (int64_t i = 1; i < n; i++) {
        place = fabs(x[i]) > fabs(x[place]) ? i : place;
    }
    return x[place] < 0.0 ? -1.0 : 1.0;
}

ipu_status
ipu_reference_eigh(const ipu_kernel_call *call)
{
    batch_plan plan = plan_of(call->spec);
    int64_t n = plan.rows;
    double *a = call->workspace;
    double *q = a + n * n;
    double *d = q + n * n;
    double *e = d + n;
    for (int64_t batch = 0; batch < plan.batches; batch++) {
        load(call, &plan, batch, false, a);
        double scale = scale_of(a, n * n);
        for (int64_t i = 0; i < n * n; i++) {
            a[i] /= scale;
        }
        tridiagonal(a, q, d, e, e + n, e + 2 * n, n);
        IPU_FAIL_IF(call->ctx, !diagonalise(d, e, q, n), INVALID_ARGUMENT,
                    "Self-adjoint eigen decomposition was not successful. The input "
                    "might not be valid: matrix %lld has elements that are not finite",
                    (long long)batch);
        for (int64_t i = 0; i < n; i++) {
            int64_t least = extreme_place(d, i, n, false);
            exchange(d + i, d + least, 1);
            exchange(q + i * n, q + least * n, n);
            store(call, 0, batch * n + i, d[i] * scale);
            double sign = sign_of(q + i * n, n);
            for (int64_t j = 0; j < n; j++) {
                store(call, 1, (batch * n + j) * n + i, sign * q[i * n + j]);
            }
        }
    }
    return IPU_OK;
}

/* --- singular values -------------------------------------------------------------- */

/* Turns rows p and q of g and v until those of g are orthogonal; false where they are. */
static bool
make_orthogonal(double *g, double *v, int64_t length, int64_t k, int64_t p, int64_t q)
{
    double *x = g + p * length;
    double *y = g + q * length;
    double alpha = dot(x, x, length);
    double beta = dot(y, y, length);
    double gamma = dot(x, y, length);
    if (!(fabs(gamma) > DBL_EPSILON * sqrt(alpha) * sqrt(beta))) {
        return false;
    }
    double zeta = (beta - alpha) / (2.0 * gamma);
    double size = 1.0 / (fabs(zeta) + sqrt(1.0 + zeta * zeta));
    double t = zeta >= 0.0 ? -size : size;
    double c = 1.0 / sqrt(1.0 + t * t);
    rotate(x, y, length, c, c * t);
    rotate(v + p * k, v + q * k, k, c, c * t);
    return true;
}

/* Row `at` of g: a unit vector that is orthogonal to the rows before it. The best of the
 * unit vectors of the axes is at least this far from their plane. */
static void
complete(double *g, double *row, int64_t length, int64_t at)
{
    double *out = g + at * length;
    double best = -1.0;
    for (int64_t axis = 0; axis < length; axis++) {
        for (int64_t i = 0; i < length; i++) {
            row[i] = i == axis ? 1.0 : 0.0;
        }
        for (int32_t again = 0; again < 2; again++) {
            for (int64_t j = 0; j < at; j++) {
                double share = dot(row, g + j * length, length);
                for (int64_t i = 0; i < length; i++) {
                    row[i] -= share * g[j * length + i];
                }
            }
        }
        double size = sqrt(dot(row, row, length));
        if (size > best) {
            best = size;
            for (int64_t i = 0; i < length; i++) {
                out[i] = row[i] / size;
            }
        }
        if (2.0 * size * size * (double)length > (double)(length - at)) {
            return;
        }
    }
}

ipu_status
ipu_reference_svd(const ipu_kernel_call *call)
{
    batch_plan plan = plan_of(call->spec);
    bool tall = plan.rows >= plan.columns;
    int64_t k = ipu__min(plan.rows, plan.columns);
    int64_t length = plan.rows + plan.columns - k;
    double *g = call->workspace; /* a column of the tall matrix in each row */
    double *v = g + k * length;
    double *sizes = v + k * k;
    double *row = sizes + k;
    for (int64_t batch = 0; batch < plan.batches; batch++) {
        load(call, &plan, batch, tall, g);
        double scale = scale_of(g, k * length);
        for (int64_t i = 0; i < k * length; i++) {
            g[i] /= scale;
        }
        for (int64_t i = 0; i < k * k; i++) {
            v[i] = i / k == i % k ? 1.0 : 0.0;
        }
        bool turned = true;
        for (int32_t sweep = 0; turned && sweep < MOST_SWEEPS; sweep++) {
            turned = false;
            for (int64_t p = 0; p < k; p++) {
                for (int64_t q = p + 1; q < k; q++) {
                    turned |= make_orthogonal(g, v, length, k, p, q);
                }
            }
        }
        for (int64_t i = 0; i < k; i++) {
            sizes[i] = sqrt(dot(g + i * length, g + i * length, length));
        }
        int32_t of_g = tall ? 1 : 2; /* the output whose vectors lie in g */
        for (int64_t i = 0; i < k; i++) {
            int64_t largest = extreme_place(sizes, i, k, true);
            exchange(sizes + i, sizes + largest, 1);
            exchange(g + i * length, g + largest * length, length);
            exchange(v + i * k, v + largest * k, k);
            if (sizes[i] == 0.0) {
                complete(g, row, length, i);
            } else {
                for (int64_t j = 0; j < length; j++) {
                    g[i * length + j] /= sizes[i];
                }
            }
            store(call, 0, batch * k + i, sizes[i] * scale);
            double sign = tall ? sign_of(g + i * length, length) : sign_of(v + i * k, k);
            for (int64_t j = 0; j < length; j++) {
                store(call, of_g, (batch * length + j) * k + i, sign * g[i * length + j]);
            }
            for (int64_t j = 0; j < k; j++) {
                store(call, 3 - of_g, (batch * k + j) * k + i, sign * v[i * k + j]);
            }
        }
    }
    return IPU_OK;
}

/* --- LU --------------------------------------------------------------------------- */

/* P A = L U: both triangles in one matrix, the ones on L's diagonal left out; and for
 * each row of it the row of A. */
ipu_status
ipu_reference_lu(const ipu_kernel_call *call)
{
    batch_plan plan = plan_of(call->spec);
    int64_t n = plan.rows;
    double *a = call->workspace;
    int32_t *rows = call->outputs[1];
    for (int64_t batch = 0; batch < plan.batches; batch++, rows += n) {
        load(call, &plan, batch, false, a);
        for (int64_t i = 0; i < n; i++) {
            rows[i] = (int32_t)i;
        }
        for (int64_t i = 0; i < n; i++) {
            int64_t best = i;
            for (int64_t j = i + 1; j < n; j++) {
                best = fabs(a[j * n + i]) > fabs(a[best * n + i]) ? j : best;
            }
            int32_t other = rows[i];
            rows[i] = rows[best];
            rows[best] = other;
            exchange(a + i * n, a + best * n, n);
            double pivot = a[i * n + i];
            IPU_FAIL_IF(call->ctx, pivot == 0.0, INVALID_ARGUMENT,
                        "Input is not invertible: matrix %lld has no pivot in column "
                        "%lld",
                        (long long)batch, (long long)i);
            for (int64_t j = i + 1; j < n; j++) {
                double factor = a[j * n + i] / pivot;
                a[j * n + i] = factor;
                for (int64_t c = i + 1; c < n; c++) {
                    a[j * n + c] -= factor * a[i * n + c];
                }
            }
        }
        for (int64_t i = 0; i < n * n; i++) {
            store(call, 0, batch * n * n + i, a[i]);
        }
    }
    return IPU_OK;
}

IPU_REFERENCE_ALONE(qr)
IPU_REFERENCE_ALONE(eigh)
IPU_REFERENCE_ALONE(svd)
IPU_REFERENCE_ALONE(lu)
