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
 * Computed in double and rounded once. These kernels are the only ones. */
#include <math.h>

#include "kernels/core/kernel_impl.h"
#include "kernels/math/wide_math.h"

enum {
    ATTEMPTS = 64,      /* for an element; each fails less often than one time in 3 */
    MOST_COUNTS = 1000, /* of an inverse; its mean is below 10 */
    TASK_ELEMENTS = 256
};

static const double inverse_below = 10.0;

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

/* In (0, 1), from one word and from two. */
static double
uniform(uint32_t word)
{
    return ((double)word + 0.5) * 0x1p-32;
}

static double
fine_uniform(const uint32_t *words)
{
    uint64_t bits = (uint64_t)words[1] << 32 | words[0];
    return ((double)(bits >> 12) + 0.5) * 0x1p-52;
}

/* alpha, and nothing else. */
static double
gamma_number(draws *d, double alpha, double none)
{
    const double two_pi = 6.283185307179586476925;
    (void)none;
    if (!(alpha > 0.0) || isinf(alpha)) {
        return alpha == 0.0 ? 0.0 : (double)NAN;
    }
    double scale = 1.0;
    if (alpha < 1.0) { /* of alpha + 1, times a power of a uniform number */
        attempt(d, 0);
        scale = ipu__exp_f64(ipu__log_f64(uniform(d->words[3])) / alpha);
        alpha += 1.0;
    }
    double shape = alpha - 1.0 / 3.0;
    double width = 1.0 / sqrt(9.0 * shape);
    for (int64_t i = 0; i < ATTEMPTS; i++) {
        attempt(d, i);
        double radius = sqrt(-2.0 * ipu__log_f64(uniform(d->words[0])));
        double x = radius * ipu__cos_f64(two_pi * uniform(d->words[1]));
        double root = 1.0 + width * x;
        double v = root * root * root;
        double u = uniform(d->words[2]);
        double square = x * x;
        bool sure = u < 1.0 - 0.0331 * square * square; /* mostly, without logarithms */
        if (v > 0.0 &&
            (sure || ipu__log_f64(u) <
                         0.5 * square + shape * (1.0 - v + ipu__log_f64(v)))) {
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
    if (rate < inverse_below) {
        attempt(d, 0);
        double rest = fine_uniform(d->words);
        double share = ipu__exp_f64(-rate);
        int64_t k = 0;
        while (rest >= share && k < MOST_COUNTS) {
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
    for (int64_t i = 0; i < ATTEMPTS; i++) {
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
    while (rest >= share && k < n && k < (double)MOST_COUNTS) {
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
    for (int64_t i = 0; i < ATTEMPTS; i++) {
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
    double hits = n * q < inverse_below ? few_hits(d, n, q) : many_hits(d, n, q);
    return p > 0.5 ? n - hits : hits;
}

typedef struct job {
    const ipu_kernel_call *call;
    ipu_random_key key;
    int32_t operands;
    double (*number)(draws *, double, double);
} job;

/* Each element from those at its place of the inputs. */
static void
draw(void *state, int64_t begin, int64_t end)
{
    const job *j = state;
    const ipu_dtype dtype = j->call->spec->outputs[0].dtype;
    draws d = {.key = j->key};
    for (int64_t i = begin; i < end; i++) {
        double values[2] = {0.0, 0.0};
        for (int32_t k = 0; k < j->operands; k++) {
            values[k] = ipu__scalar_load(dtype, j->call->inputs[k], i).f;
        }
        d.first = (uint64_t)i * ATTEMPTS;
        ipu__scalar_store(dtype, j->call->outputs[0], i,
                          (ipu__scalar){.f = j->number(&d, values[0], values[1])});
    }
}

static ipu_status
fill(const ipu_kernel_call *call, int32_t operands,
     double (*number)(draws *, double, double))
{
    ipu__random_source source = ipu__random_source_of(call->spec);
    job j = {call, ipu__random_key(call, &source), operands, number};
    ipu__run_items(call->pool, ipu_shape_elements(&call->spec->outputs[0].shape),
                   TASK_ELEMENTS, draw, &j);
    return IPU_OK;
}

ipu_status
ipu_reference_random_gamma(const ipu_kernel_call *call)
{
    return fill(call, 1, gamma_number);
}

ipu_status
ipu_reference_random_poisson(const ipu_kernel_call *call)
{
    return fill(call, 1, poisson_number);
}

ipu_status
ipu_reference_random_binomial(const ipu_kernel_call *call)
{
    return fill(call, 2, binomial_number);
}
