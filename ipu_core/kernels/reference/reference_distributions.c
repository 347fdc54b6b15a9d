/* SPDX-License-Identifier: MIT
 *
 * Random numbers by rejection: gamma, Poisson and binomial. As in reference_random.c a
 * number is a function of (seed, step, replica, op, element) alone: each element has
 * blocks of its own, one for each attempt, so what one element needs moves no other.
 *   gamma     Marsaglia and Tsang, "A simple method for generating gamma variables",
 *             2000
 *   Poisson   the inverse of the distribution below 10; PTRS of Hörmann, "The
 *             transformed rejection method for generating Poisson random variables",
 *             1993
 *   binomial  the inverse where the mean is below 10; BTRS of Hörmann, "The generation
 *             of binomial random variates", 1993
 * Computed in double and rounded once. Gamma and Poisson numbers that the first attempt
 * gives are drawn side by side (random_loops.h). These kernels are the only ones. */
#include <math.h>

#include "kernels/core/kernel_impl.h"
#include "kernels/random/distributions_impl.h"
#include "kernels/random/random_impl.h"

enum { TASK_ELEMENTS = 256 };

/* Where an element's numbers come from. */
typedef struct draws {
    ipu_random_key key;
    uint64_t first; /* its first block */
    uint32_t words[4];
} draws;

static void
attempt(draws *d, int64_t number)
{
    ipu_random_block(&d->key, d->first + (uint64_t)number, d->words);
}

static double
fine_uniform(const uint32_t *words)
{
    return ipu__fine_uniform(words[0], words[1]);
}

/* alpha, and nothing else. */
static double
gamma_number(draws *d, double alpha, double none)
{
    (void)none;
    if (!(alpha > 0.0) || isinf(alpha)) {
        return alpha == 0.0 ? 0.0 : (double)NAN;
    }
    double scale = 1.0;
    if (alpha < 1.0) { /* of alpha + 1, times a power of a uniform number */
        attempt(d, 0);
        scale = ipu__gamma_scale(alpha, d->words[3]);
        alpha += 1.0;
    }
    double shape = alpha - 1.0 / 3.0;
    for (int64_t i = 0; i < IPU_ATTEMPTS; i++) {
        attempt(d, i);
        ipu__gamma_attempt made =
            ipu__attempt_gamma(shape, d->words[0], d->words[1], d->words[2]);
        double v = made.v;
        if (made.is_sure ||
            (v > 0.0 &&
             ipu__log_f64(made.u) < 0.5 * made.square +
                                        shape * (1.0 - v + ipu__log_f64(v)))) {
            return scale * shape * v;
        }
    }
    return scale * shape;
}

static double
poisson_number(draws *d, double rate, double none)
{
    (void)none;
    if (!(rate > 0.0) || isinf(rate)) {
        return rate == 0.0 ? 0.0 : (double)NAN;
    }
    if (rate < IPU_INVERSE_BELOW) {
        attempt(d, 0);
        double rest = fine_uniform(d->words);
        double share = ipu__exp_f64(-rate);
        int64_t k = 0;
        while (rest >= share && k < IPU_MOST_COUNTS) {
            rest -= share;
            k++;
            share *= rate / (double)k;
        }
        return (double)k;
    }
    double b = 0.931 + 2.53 * sqrt(rate);
    double a = -0.059 + 0.02483 * b;
    double hat = 1.1239 + 1.1328 / (b - 3.4);
    double sure = 0.9277 - 3.6224 / (b - 2.0);
    for (int64_t i = 0; i < IPU_ATTEMPTS; i++) {
        attempt(d, i);
        double u = fine_uniform(d->words) - 0.5;
        double v = fine_uniform(d->words + 2);
        double edge = 0.5 - fabs(u);
        double k = floor((2.0 * a / edge + b) * u + rate + 0.43);
        if (edge >= 0.07 && v <= sure) {
            return k;
        }
        if (k < 0.0 || (edge < 0.013 && v > edge)) {
            continue;
        }
        if (ipu__log_f64(v * hat / (a / (edge * edge) + b)) <=
            k * ipu__log_f64(rate) - rate - ipu__lgamma(k + 1.0)) {
            return k;
        }
    }
    return floor(rate);
}

/* Of p <= 1/2. */
static double
few_hits(draws *d, double n, double p)
{
    attempt(d, 0);
    double rest = fine_uniform(d->words);
    double share = ipu__exp_f64(n * ipu__log1p_f64(-p));
    double odds = p / (1.0 - p);
    double k = 0.0;
    while (rest >= share && k < n && k < (double)IPU_MOST_COUNTS) {
        rest -= share;
        share *= odds * (n - k) / (k + 1.0);
        k += 1.0;
    }
    return k;
}

static double
many_hits(draws *d, double n, double p)
{
    double spread = sqrt(n * p * (1.0 - p));
    double b = 1.15 + 2.53 * spread;
    double a = -0.0873 + 0.0248 * b + 0.01 * p;
    double middle = n * p + 0.5;
    double hat = (2.83 + 5.1 / b) * spread;
    double sure = 0.92 - 4.2 / b;
    double odds = ipu__log_f64(p / (1.0 - p));
    double mode = floor((n + 1.0) * p);
    double height = ipu__lgamma(mode + 1.0) + ipu__lgamma(n - mode + 1.0);
    for (int64_t i = 0; i < IPU_ATTEMPTS; i++) {
        attempt(d, i);
        double u = fine_uniform(d->words) - 0.5;
        double v = fine_uniform(d->words + 2);
        double edge = 0.5 - fabs(u);
        double k = floor((2.0 * a / edge + b) * u + middle);
        if (k < 0.0 || k > n) {
            continue;
        }
        if (edge >= 0.07 && v <= sure) {
            return k;
        }
        double level = height - ipu__lgamma(k + 1.0) - ipu__lgamma(n - k + 1.0);
        if (ipu__log_f64(v * hat / (a / (edge * edge) + b)) <=
            level + (k - mode) * odds) {
            return k;
        }
    }
    return mode;
}

static double
binomial_number(draws *d, double count, double p)
{
    double n = floor(count);
    if (!(n >= 0.0 && p >= 0.0 && p <= 1.0) || isinf(n)) {
        return (double)NAN;
    }
    double q = p > 0.5 ? 1.0 - p : p;
    double hits = n * q < IPU_INVERSE_BELOW ? few_hits(d, n, q) : many_hits(d, n, q);
    return p > 0.5 ? n - hits : hits;
}

typedef struct job {
    const ipu_kernel_call *call;
    ipu_random_key key;
    const ipu__random_form *form;
    int32_t operands;
    double (*number)(draws *, double, double);
    ipu__first_numbers_fn *first; /* or NULL */
} job;

/* Each element from those at its place of the inputs. */
static void
draw_some(const job *j, int64_t begin, int64_t n)
{
    const ipu_dtype dtype = j->call->spec->outputs[0].dtype;
    draws d = {.key = j->key};
    uint32_t words[4 * IPU_FIRST_NUMBERS];
    double values[2][IPU_FIRST_NUMBERS] = {{0.0}};
    double numbers[IPU_FIRST_NUMBERS];
    for (int32_t k = 0; k < j->operands; k++) {
        for (int64_t i = 0; i < n; i++) {
            values[k][i] = ipu__scalar_load(dtype, j->call->inputs[k], begin + i).f;
        }
    }
    for (int64_t i = 0; i < n; i++) {
        numbers[i] = -1.0;
    }
    if (j->first != NULL) {
        j->form->words_apart(words, &j->key, (uint64_t)begin * IPU_ATTEMPTS,
                             IPU_ATTEMPTS, n);
        j->first(numbers, values[0], words, n);
    }
    for (int64_t i = 0; i < n; i++) {
        ipu__scalar number = {.f = numbers[i]};
        if (numbers[i] < 0.0) {
            d.first = (uint64_t)(begin + i) * IPU_ATTEMPTS;
            number.f = j->number(&d, values[0][i], values[1][i]);
        }
        ipu__scalar_store(dtype, j->call->outputs[0], begin + i, number);
    }
}

static void
draw(void *state, int64_t begin, int64_t end)
{
    for (int64_t i = begin; i < end; i += IPU_FIRST_NUMBERS) {
        draw_some(state, i, ipu__min(end - i, IPU_FIRST_NUMBERS));
    }
}

static ipu_status
fill(const ipu_kernel_call *call, int32_t operands,
     double (*number)(draws *, double, double), const ipu__random_form *form,
     ipu__first_numbers_fn *first)
{
    ipu__random_source source = ipu__random_source_of(call->spec);
    job j = {call, ipu__random_key(call, &source), form, operands, number, first};
    ipu__run_items(call->pool, ipu_shape_elements(&call->spec->outputs[0].shape),
                   TASK_ELEMENTS, draw, &j);
    return IPU_OK;
}

ipu_status
ipu_reference_random_gamma(const ipu_kernel_call *call)
{
    const ipu__random_form *form = ipu__random_form_of(ipu_cpu_class_detect());
    return fill(call, 1, gamma_number, form, form->gammas);
}

ipu_status
ipu_reference_random_poisson(const ipu_kernel_call *call)
{
    const ipu__random_form *form = ipu__random_form_of(ipu_cpu_class_detect());
    return fill(call, 1, poisson_number, form, form->poissons);
}

ipu_status
ipu_reference_random_binomial(const ipu_kernel_call *call)
{
    return fill(call, 2, binomial_number, NULL, NULL);
}
