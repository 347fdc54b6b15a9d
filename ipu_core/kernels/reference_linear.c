/* SPDX-License-Identifier: MIT
 *
 * Linear algebra over the last two axes: Cholesky's decomposition, triangular systems,
 * general ones by elimination with row exchanges, determinants. Textbook loops in
 * double on copies in the workspace, one matrix after another, also for float32: the
 * sizes that programs bring to a device are small, and results are as good as the
 * input's dtype can hold. These kernels are the only ones. Calling thread only. */
#include <math.h>
#include <string.h>

#include "kernels/kernel_impl.h"

/* One matrix [n, n] and, for systems, one right side [n, k], row-major. */
typedef struct system {
    const ipu_kernel_call *call;
    ipu_dtype dtype;
    int64_t n;
    int64_t k;
    int64_t batches;
    double *a;
    double *b;
} system;

static void
system_plan(system *s, const ipu_kernel_spec *spec)
{
    const ipu_shape *shape = &spec->inputs[0].shape;
    *s = (system){.dtype = spec->inputs[0].dtype,
                  .n = shape->dims[shape->rank - 1],
                  .batches = 1};
    for (int32_t i = 0; i + 2 < shape->rank; i++) {
        s->batches *= shape->dims[i];
    }
    if (spec->input_count > 1) {
        s->k = spec->inputs[1].shape.dims[shape->rank - 1];
    }
}

size_t
ipu__reference_workspace(const ipu_kernel_spec *spec)
{
    system s;
    switch (spec->op) {
    case IPU_OP_ID_CHOLESKY:
    case IPU_OP_ID_TRIANGULAR_SOLVE:
    case IPU_OP_ID_SOLVE:
    case IPU_OP_ID_DET:
    case IPU_OP_ID_SLOGDET:
        system_plan(&s, spec);
        return (size_t)(s.n * (s.n + s.k)) * sizeof(double);
    case IPU_OP_ID_QR:
    case IPU_OP_ID_EIGH:
    case IPU_OP_ID_SVD:
    case IPU_OP_ID_LU:
        return ipu__spectral_reference_bytes(spec);
    case IPU_OP_ID_LSTM_GRAD:
    case IPU_OP_ID_GRU_GRAD:
        return ipu__sequence_reference_bytes(spec);
    case IPU_OP_ID_ATTENTION:
    case IPU_OP_ID_ATTENTION_GRAD:
        return ipu__attention_reference_bytes(spec);
    default:
        return 0;
    }
}

static void
system_begin(system *s, const ipu_kernel_call *call)
{
    system_plan(s, call->spec);
    s->call = call;
    s->a = call->workspace;
    s->b = s->a + s->n * s->n;
}

/* Copies matrix `batch` and its right side into the workspace. */
static void
system_load(system *s, int64_t batch, bool transpose)
{
    for (int64_t i = 0; i < s->n * s->n; i++) {
        int64_t from = transpose ? i % s->n * s->n + i / s->n : i;
        s->a[i] =
            ipu__scalar_load(s->dtype, s->call->inputs[0], batch * s->n * s->n + from)
                .f;
    }
    for (int64_t i = 0; i < s->n * s->k; i++) {
        s->b[i] =
            ipu__scalar_load(s->dtype, s->call->inputs[1], batch * s->n * s->k + i).f;
    }
}

static void
store_all(const system *s, int32_t output, const double *from, int64_t count,
          int64_t batch)
{
    for (int64_t i = 0; i < count; i++) {
        ipu__scalar_store(s->dtype, s->call->outputs[output], batch * count + i,
                          (ipu__scalar){.f = from[i]});
    }
}

ipu_status
ipu_reference_cholesky(const ipu_kernel_call *call)
{
    system s;
    system_begin(&s, call);
    for (int64_t batch = 0; batch < s.batches; batch++) {
        system_load(&s, batch, false);
        for (int64_t i = 0; i < s.n; i++) {
            double *row = s.a + i * s.n;
            for (int64_t j = 0; j <= i; j++) {
                const double *other = s.a + j * s.n;
                double sum = row[j];
                for (int64_t k = 0; k < j; k++) {
                    sum -= row[k] * other[k];
                }
                IPU_FAIL_IF(
                    call->ctx, i == j && !(sum > 0.0), INVALID_ARGUMENT,
                    "Cholesky decomposition was not successful. The input might "
                    "not be valid: matrix %lld is not positive definite",
                    (long long)batch);
                row[j] = i == j ? sqrt(sum) : sum / other[j];
            }
            for (int64_t j = i + 1; j < s.n; j++) {
                row[j] = 0.0;
            }
        }
        store_all(&s, 0, s.a, s.n * s.n, batch);
    }
    return IPU_OK;
}

/* b[to] -= factor * b[from], for rows of the right side. */
static void
subtract_row(system *s, int64_t to, int64_t from, double factor)
{
    for (int64_t j = 0; j < s->k && factor != 0.0; j++) {
        s->b[to * s->k + j] -= factor * s->b[from * s->k + j];
    }
}

/* One triangle of a, the lower from the first row on, the upper from the last. */
static ipu_status
substitute(system *s, bool lower, int64_t batch)
{
    for (int64_t step = 0; step < s->n; step++) {
        int64_t i = lower ? step : s->n - 1 - step;
        double pivot = s->a[i * s->n + i];
        IPU_FAIL_IF(s->call->ctx, pivot == 0.0, INVALID_ARGUMENT,
                    "Input matrix is not invertible: element %lld of the diagonal of "
                    "matrix %lld is 0",
                    (long long)i, (long long)batch);
        for (int64_t j = lower ? 0 : i + 1; j < (lower ? i : s->n); j++) {
            subtract_row(s, i, j, s->a[i * s->n + j]);
        }
        for (int64_t j = 0; j < s->k; j++) {
            s->b[i * s->k + j] /= pivot;
        }
    }
    return IPU_OK;
}

ipu_status
ipu_reference_triangular_solve(const ipu_kernel_call *call)
{
    bool lower = ipu_attrs_int(call->spec->attrs, IPU_ATTR_LOWER, 0) != 0;
    bool transpose = ipu_attrs_int(call->spec->attrs, IPU_ATTR_TRANSPOSE_A, 0) != 0;
    system s;
    system_begin(&s, call);
    for (int64_t batch = 0; batch < s.batches; batch++) {
        system_load(&s, batch, transpose);
        IPU_TRY(substitute(&s, lower != transpose, batch));
        store_all(&s, 0, s.b, s.n * s.k, batch);
    }
    return IPU_OK;
}

static void
exchange_rows(double *x, int64_t width, int64_t i, int64_t j)
{
    for (int64_t k = 0; k < width && i != j; k++) {
        double other = x[i * width + k];
        x[i * width + k] = x[j * width + k];
        x[j * width + k] = other;
    }
}

/* Leaves an upper triangle in a, and does to b what it does to a. Gives the sign that
 * the exchanges have on the determinant; a column without a pivot is passed over. */
static double
eliminate(system *s)
{
    double sign = 1.0;
    for (int64_t i = 0; i < s->n; i++) {
        int64_t best = i;
        for (int64_t j = i + 1; j < s->n; j++) {
            best = fabs(s->a[j * s->n + i]) > fabs(s->a[best * s->n + i]) ? j : best;
        }
        sign = best == i ? sign : -sign;
        exchange_rows(s->a, s->n, i, best);
        exchange_rows(s->b, s->k, i, best);
        double pivot = s->a[i * s->n + i];
        for (int64_t j = i + 1; j < s->n && pivot != 0.0; j++) {
            double factor = s->a[j * s->n + i] / pivot;
            for (int64_t c = i; c < s->n; c++) {
                s->a[j * s->n + c] -= factor * s->a[i * s->n + c];
            }
            subtract_row(s, j, i, factor);
        }
    }
    return sign;
}

ipu_status
ipu_reference_solve(const ipu_kernel_call *call)
{
    bool transpose = ipu_attrs_int(call->spec->attrs, IPU_ATTR_TRANSPOSE_A, 0) != 0;
    system s;
    system_begin(&s, call);
    for (int64_t batch = 0; batch < s.batches; batch++) {
        system_load(&s, batch, transpose);
        (void)eliminate(&s);
        IPU_TRY(substitute(&s, false, batch));
        store_all(&s, 0, s.b, s.n * s.k, batch);
    }
    return IPU_OK;
}

ipu_status
ipu_reference_det(const ipu_kernel_call *call)
{
    system s;
    system_begin(&s, call);
    for (int64_t batch = 0; batch < s.batches; batch++) {
        system_load(&s, batch, false);
        double product = eliminate(&s);
        for (int64_t i = 0; i < s.n; i++) {
            product *= s.a[i * s.n + i];
        }
        store_all(&s, 0, &product, 1, batch);
    }
    return IPU_OK;
}

ipu_status
ipu_reference_slogdet(const ipu_kernel_call *call)
{
    system s;
    system_begin(&s, call);
    for (int64_t batch = 0; batch < s.batches; batch++) {
        system_load(&s, batch, false);
        double sign = eliminate(&s);
        double size = 0.0;
        for (int64_t i = 0; i < s.n; i++) {
            double pivot = s.a[i * s.n + i];
            sign = pivot < 0.0 ? -sign : (pivot == 0.0 ? 0.0 : sign);
            size += log(fabs(pivot));
        }
        store_all(&s, 0, &sign, 1, batch);
        store_all(&s, 1, &size, 1, batch);
    }
    return IPU_OK;
}

IPU_REFERENCE_ALONE(cholesky)
IPU_REFERENCE_ALONE(triangular_solve)
IPU_REFERENCE_ALONE(solve)
IPU_REFERENCE_ALONE(det)
IPU_REFERENCE_ALONE(slogdet)
