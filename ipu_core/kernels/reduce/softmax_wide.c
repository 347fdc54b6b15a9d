/* SPDX-License-Identifier: MIT
 *
 * Rows of float64 for softmax_fast.c. exp and log are those of the element-wise ops, sums
 * and maxima those of the reductions. A row is shifted by its maximum; the result may
 * overwrite the logits. Short rows of softmax and log_softmax go through each step
 * together. */
#include <math.h>

#include "kernels/math/wide_math.h"
#include "kernels/reduce/softmax_impl.h"

enum { PART = 512 }; /* elements that lie on the stack */

struct ipu__wide_rows {
    /* x - max */
    void (*shift)(double *out, const double *x, const double *max, int64_t rows,
                  int64_t n);
    /* x - max - log_sum */
    void (*log_shift)(double *out, const double *x, const double *max,
                      const double *log_sum, int64_t rows, int64_t n);
    void (*divide)(double *x, const double *sum, int64_t rows, int64_t n);
    /* labels * (log_sum - (x - max)) */
    void (*terms)(double *out, const double *labels, const double *x, double max,
                  double log_sum, int64_t n);
    /* x / sum * weight - labels */
    void (*weigh)(double *x, const double *labels, double sum, double weight,
                  int64_t n);
};

/* 0 * infinity has to be 0. */
#define EACH_ROW(target, name, parameters, first, ...) \
    target static void name parameters \
    { \
        for (int64_t r = 0; r < rows; r++) { \
            first IPU_INDEPENDENT for (int64_t j = r * n; j < r * n + n; j++) \
            { \
                __VA_ARGS__ \
            } \
        } \
    }
#define ROWS(suffix, target) \
    EACH_ROW(target, shift_##suffix, \
             (double *out, const double *x, const double *max, int64_t rows, \
              int64_t n), \
             const double most = max[r];, out[j] = x[j] - most;) \
    EACH_ROW(target, log_shift_##suffix, \
             (double *out, const double *x, const double *max, const double *log_sum, \
              int64_t rows, int64_t n), \
             const double most = max[r]; const double more = log_sum[r]; \
             , out[j] = x[j] - most - more;) \
    EACH_ROW(target, divide_##suffix, \
             (double *x, const double *sum, int64_t rows, int64_t n), \
             const double total = sum[r];, x[j] /= total;) \
    IPU_LOOP(target, terms_##suffix, \
             (double *out, const double *labels, const double *x, double max, \
              double log_sum, int64_t n), \
             double term = labels[j] * (log_sum - (x[j] - max)); \
             out[j] = labels[j] != 0.0 ? term : 0.0;) \
    IPU_LOOP(target, weigh_##suffix, \
             (double *x, const double *labels, double sum, double weight, int64_t n), \
             x[j] = x[j] / sum * weight - labels[j];) \
    static const ipu__wide_rows rows_##suffix = {shift_##suffix, log_shift_##suffix, \
                                                 divide_##suffix, terms_##suffix, \
                                                 weigh_##suffix};
ROWS(generic, )
#if defined(__x86_64__)
ROWS(avx2, IPU_TARGET_AVX2)
ROWS(avx512, IPU_TARGET_AVX512)
#endif

void
ipu__wide_softmax_prepare(ipu__wide_softmax *plan, ipu_cpu_class cpu)
{
    plan->loops = IPU_FOR_CLASS(cpu, rows, rows_generic);
    plan->max = ipu__fold_of(IPU_OP_ID_MAX, IPU_DTYPE_FLOAT64, cpu);
    plan->sum = ipu__fold_of(IPU_OP_ID_SUM, IPU_DTYPE_FLOAT64, cpu);
    ipu__block_prepare(&plan->exp, IPU_OP_ID_EXP, IPU_DTYPE_FLOAT64, IPU_DTYPE_FLOAT64,
                       cpu);
    ipu__block_prepare(&plan->log, IPU_OP_ID_LOG, IPU_DTYPE_FLOAT64, IPU_DTYPE_FLOAT64,
                       cpu);
}

static double
fold(const ipu__fold *by, const double *x, int64_t n)
{
    double all;
    by->row(&all, x, ipu__min(n, IPU_FOLD_CHUNK), n);
    for (int64_t j = IPU_FOLD_CHUNK; j < n; j += IPU_FOLD_CHUNK) {
        double more;
        by->row(&more, x + j, ipu__min(n - j, IPU_FOLD_CHUNK), n - j);
        by->join(&all, &more, 1);
    }
    return all;
}

static void
exp_below(const ipu__wide_softmax *plan, double *out, const double *x, double max,
          int64_t n)
{
    plan->loops->shift(out, x, &max, 1, n);
    plan->exp.run(&plan->exp, out, out, NULL, NULL, n);
}

/* The sum of exp(x - max). */
static double
sum_below(const ipu__wide_softmax *plan, const double *x, double max, int64_t n)
{
    double part[PART];
    double sum = 0.0;
    for (int64_t j = 0; j < n; j += PART) {
        int64_t count = ipu__min(n - j, PART);
        exp_below(plan, part, x + j, max, count);
        sum += fold(plan->sum, part, count);
    }
    return sum;
}

static double
dense_loss(const ipu__wide_softmax *plan, const double *labels, const double *x,
           double max, double log_sum, int64_t n)
{
    double part[PART];
    double loss = 0.0;
    for (int64_t j = 0; j < n; j += PART) {
        int64_t count = ipu__min(n - j, PART);
        plan->loops->terms(part, labels + j, x + j, max, log_sum, count);
        loss += fold(plan->sum, part, count);
    }
    return loss;
}

static void
short_rows(const ipu__wide_softmax *plan, double *y, const double *x, bool is_log,
           int64_t rows, int64_t n)
{
    double part[IPU_BATCH_ELEMENTS];
    double max[IPU_BATCH_ROWS];
    double sum[IPU_BATCH_ROWS];
    double *powers = is_log ? part : y; /* y may lie where the logits are */
    ipu__fold_rows(plan->max, max, x, rows, n, rows * n, sizeof *x);
    plan->loops->shift(powers, x, max, rows, n);
    plan->exp.run(&plan->exp, powers, powers, NULL, NULL, rows * n);
    ipu__fold_rows(plan->sum, sum, powers, rows, n, rows * n, sizeof *x);
    if (is_log) {
        plan->log.run(&plan->log, sum, sum, NULL, NULL, rows);
        plan->loops->log_shift(y, x, max, sum, rows, n);
    } else {
        plan->loops->divide(y, sum, rows, n);
    }
}

static void
one_row(const ipu__wide_softmax *plan, const ipu_kernel_call *call, int64_t row,
        int64_t n)
{
    const ipu_kernel_spec *spec = call->spec;
    const bool is_loss = spec->op == IPU_OP_ID_CROSS_ENTROPY ||
                         spec->op == IPU_OP_ID_SPARSE_CROSS_ENTROPY;
    const double *x = (const double *)call->inputs[0] + row * n;
    double *y = (double *)call->outputs[is_loss] + row * n;
    double *loss = (double *)call->outputs[0] + row;
    const double max = fold(plan->max, x, n);
    if (spec->op == IPU_OP_ID_LOG_SOFTMAX) {
        double log_sum = ipu__log_f64(sum_below(plan, x, max, n));
        plan->loops->log_shift(y, x, &max, &log_sum, 1, n);
        return;
    }
    exp_below(plan, y, x, max, n);
    const double sum = fold(plan->sum, y, n);
    if (spec->op == IPU_OP_ID_CROSS_ENTROPY) {
        const double *labels = (const double *)call->inputs[1] + row * n;
        *loss = dense_loss(plan, labels, x, max, ipu__log_f64(sum), n);
        plan->loops->weigh(y, labels, sum, fold(plan->sum, labels, n), n);
        return;
    }
    plan->loops->divide(y, &sum, 1, n);
    if (spec->op == IPU_OP_ID_SPARSE_CROSS_ENTROPY) {
        int64_t label = ipu__integer_load(spec->inputs[1].dtype, call->inputs[1], row);
        bool is_class = label >= 0 && label < n; /* if not, OUTSIDE_IS_NAN */
        *loss = is_class ? ipu__log_f64(sum) - (x[label] - max) : NAN;
        for (int64_t j = 0; j < n && !is_class; j++) {
            y[j] = NAN;
        }
        y[is_class ? label : 0] -= 1.0;
    }
}

void
ipu__wide_softmax_rows(const ipu__wide_softmax *plan, const ipu_kernel_call *call,
                       int64_t first, int64_t rows, int64_t n)
{
    const ipu_op op = call->spec->op;
    const bool is_log = op == IPU_OP_ID_LOG_SOFTMAX;
    if (rows > 1 && n <= PART && (is_log || op == IPU_OP_ID_SOFTMAX)) {
        const double *x = (const double *)call->inputs[0] + first * n;
        double *y = (double *)call->outputs[0] + first * n;
        short_rows(plan, y, x, is_log, rows, n);
        return;
    }
    for (int64_t r = first; r < first + rows; r++) {
        one_row(plan, call, r, n);
    }
}
