/* SPDX-License-Identifier: MIT
 *
 * Rows of float64 for softmax_fast.c. exp and log are those of the element-wise ops, sums
 * and maxima those of the reductions. A row is shifted by its maximum; the result may
 * overwrite the logits. */
#include <math.h>

#include "kernels/math/wide_math.h"
#include "kernels/reduce/softmax_impl.h"

enum { PART = 512 }; /* elements that lie on the stack */

struct ipu__wide_rows {
    /* x - max - more */
    void (*shift)(double *out, const double *x, double max, double more, int64_t n);
    void (*divide)(double *x, double sum, int64_t n);
    /* labels * (log_sum - (x - max)) */
    void (*terms)(double *out, const double *labels, const double *x, double max,
                  double log_sum, int64_t n);
    /* x / sum * weight - labels */
    void (*weigh)(double *x, const double *labels, double sum, double weight,
                  int64_t n);
};

/* 0 * infinity has to be 0. */
#define ROWS(suffix, target) \
    IPU_LOOP(target, shift_##suffix, \
             (double *out, const double *x, double max, double more, int64_t n), \
             out[j] = x[j] - max - more;) \
    IPU_LOOP(target, divide_##suffix, (double *x, double sum, int64_t n), \
             x[j] /= sum;) \
    IPU_LOOP(target, terms_##suffix, \
             (double *out, const double *labels, const double *x, double max, \
              double log_sum, int64_t n), \
             double term = labels[j] * (log_sum - (x[j] - max)); \
             out[j] = labels[j] != 0.0 ? term : 0.0;) \
    IPU_LOOP(target, weigh_##suffix, \
             (double *x, const double *labels, double sum, double weight, int64_t n), \
             x[j] = x[j] / sum * weight - labels[j];) \
    static const ipu__wide_rows rows_##suffix = {shift_##suffix, divide_##suffix, \
                                                 terms_##suffix, weigh_##suffix};
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
    plan->loops->shift(out, x, max, 0.0, n);
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

void
ipu__wide_softmax_row(const ipu__wide_softmax *plan, const ipu_kernel_call *call,
                      int64_t row, int64_t n)
{
    const ipu_kernel_spec *spec = call->spec;
    const bool is_loss = spec->op == IPU_OP_ID_CROSS_ENTROPY ||
                         spec->op == IPU_OP_ID_SPARSE_CROSS_ENTROPY;
    const double *x = (const double *)call->inputs[0] + row * n;
    double *y = (double *)call->outputs[is_loss] + row * n;
    double *loss = (double *)call->outputs[0] + row;
    const double max = fold(plan->max, x, n);
    if (spec->op == IPU_OP_ID_LOG_SOFTMAX) {
        double log_sum = log(sum_below(plan, x, max, n));
        plan->loops->shift(y, x, max, log_sum, n);
        return;
    }
    exp_below(plan, y, x, max, n);
    const double sum = fold(plan->sum, y, n);
    if (spec->op == IPU_OP_ID_CROSS_ENTROPY) {
        const double *labels = (const double *)call->inputs[1] + row * n;
        *loss = dense_loss(plan, labels, x, max, log(sum), n);
        plan->loops->weigh(y, labels, sum, fold(plan->sum, labels, n), n);
        return;
    }
    plan->loops->divide(y, sum, n);
    if (spec->op == IPU_OP_ID_SPARSE_CROSS_ENTROPY) {
        int64_t label = ipu__integer_load(spec->inputs[1].dtype, call->inputs[1], row);
        bool is_class = label >= 0 && label < n; /* if not, OUTSIDE_IS_NAN */
        *loss = is_class ? log(sum) - (x[label] - max) : NAN;
        for (int64_t j = 0; j < n && !is_class; j++) {
            y[j] = NAN;
        }
        y[is_class ? label : 0] -= 1.0;
    }
}
