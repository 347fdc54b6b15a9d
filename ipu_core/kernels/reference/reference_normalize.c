/* SPDX-License-Identifier: MIT
 *
 * Reference kernels of normalisation: everything in double, two passes for the
 * variance. Runs on the calling thread; allocates nothing. */
#include "kernels/reduce/normalize_impl.h"

#include <math.h>

/* Element `i` of a group: row by row, its channels. */
static int64_t
element_of(const ipu__normalize *n, int64_t outer, int64_t group, int64_t i)
{
    int64_t row = outer * n->rows + i / n->each;
    return row * n->channels + ipu__normalize_channel(n, group, i % n->each);
}

static double
load(const ipu_kernel_call *call, uint32_t input, int64_t i)
{
    return ipu__scalar_load(call->spec->inputs[input].dtype, call->inputs[input], i).f;
}

static void
store(const ipu_kernel_call *call, uint32_t output, int64_t i, double value)
{
    ipu__scalar_store(call->spec->outputs[output].dtype, call->outputs[output], i,
                      (ipu__scalar){.f = value});
}

ipu_status
ipu_reference_normalize(const ipu_kernel_call *call)
{
    ipu__normalize n;
    ipu__normalize_plan(call->spec, &n);
    int64_t count = n.rows * n.each;
    for (int64_t outer = 0; outer < n.outer; outer++) {
        for (int64_t group = 0; group < n.groups; group++) {
            double sum = 0.0;
            double squares = 0.0;
            for (int64_t i = 0; i < count; i++) {
                sum += load(call, 0, element_of(&n, outer, group, i));
            }
            double mean = sum / (double)count;
            for (int64_t i = 0; i < count; i++) {
                double x = load(call, 0, element_of(&n, outer, group, i)) - mean;
                squares += x * x;
            }
            double variance = squares / (double)count;
            for (int64_t i = 0; i < count; i++) {
                int64_t at = element_of(&n, outer, group, i);
                int64_t channel = at % n.channels;
                double x = (load(call, 0, at) - mean) / sqrt(variance + n.epsilon);
                store(call, 0, at, x * load(call, 1, channel) + load(call, 2, channel));
            }
            store(call, 1, outer * n.groups + group, mean);
            store(call, 2, outer * n.groups + group, variance);
        }
    }
    return IPU_OK;
}

/* With z = (x - mean) / deviation and g = dy * factor:
 * dx = (g - mean of g - z * mean of g * z) / deviation. */
static void
group_gradient(const ipu_kernel_call *call, const ipu__normalize *n, int64_t outer,
               int64_t group)
{
    int64_t count = n->rows * n->each;
    double mean = load(call, 3, outer * n->groups + group);
    double deviation = sqrt(load(call, 4, outer * n->groups + group) + n->epsilon);
    double plain = 0.0;
    double tilted = 0.0;
    for (int64_t i = 0; i < count; i++) {
        int64_t at = element_of(n, outer, group, i);
        double g = load(call, 1, at) * load(call, 2, at % n->channels);
        plain += g;
        tilted += g * (load(call, 0, at) - mean) / deviation;
    }
    for (int64_t i = 0; i < count; i++) {
        int64_t at = element_of(n, outer, group, i);
        double g = load(call, 1, at) * load(call, 2, at % n->channels);
        double z = (load(call, 0, at) - mean) / deviation;
        store(call, 0, at,
              (g - plain / (double)count - z * tilted / (double)count) / deviation);
    }
}

ipu_status
ipu_reference_normalize_grad(const ipu_kernel_call *call)
{
    ipu__normalize n;
    ipu__normalize_plan(call->spec, &n);
    for (int64_t outer = 0; outer < n.outer; outer++) {
        for (int64_t group = 0; group < n.groups; group++) {
            group_gradient(call, &n, outer, group);
        }
    }
    for (int64_t channel = 0; channel < n.channels; channel++) {
        int64_t group = ipu__normalize_group(&n, channel);
        double factor = 0.0;
        double shift = 0.0;
        for (int64_t row = 0; row < n.outer * n.rows; row++) {
            int64_t of = row / n.rows * n.groups + group;
            double deviation = sqrt(load(call, 4, of) + n.epsilon);
            double dy = load(call, 1, row * n.channels + channel);
            double x = load(call, 0, row * n.channels + channel);
            shift += dy;
            factor += dy * (x - load(call, 3, of)) / deviation;
        }
        store(call, 1, channel, factor);
        store(call, 2, channel, shift);
    }
    return IPU_OK;
}
