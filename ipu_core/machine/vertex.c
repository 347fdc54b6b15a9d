/* SPDX-License-Identifier: MIT */
#include "machine/vertex.h"

#include <math.h>

static double
larger(double a, double b)
{
    return a > b ? a : b;
}

/* Instructions of a worker for `positions` of a field, whose accumulators are kept in
 * registers: the first three fill the unit's pipeline, each more takes the cycles in
 * which one position's inputs are loaded. */
static double
amp_positions(const ipu_amp_work *work, double positions, bool is_first)
{
    double again = is_first ? 0 : 1;
    if (positions >= 3) {
        double start = work->is_float ? 48 + 2 * again : 37 + again;
        return start + work->each * (positions - 3);
    }
    return again + (positions == 0 ? 21 : positions == 1 ? 32 : 41);
}

/* Of one kernel position, and a vertex group of input and of output channels. */
static double
amp_pass(const ipu_chip *chip, const ipu_amp_work *work, bool is_first)
{
    enum { RETAINED = 7 }; /* instructions that a worker's kept state saves */
    double positions = ceil((double)work->field / chip->workers);
    return 25 + work->load +
           chip->workers * (amp_positions(work, positions, is_first) - RETAINED);
}

static double
amp_window_pass(const ipu_chip *chip, const ipu_amp_work *work)
{
    double rows = (double)work->rows;
    /* fewer rows than workers are cut */
    double cuts = larger(1, floor(chip->workers / rows));
    double pieces = larger(1, ceil(rows / chip->workers));
    double beyond_pipeline = larger(ceil((double)work->columns / cuts) - 3, -2);
    double piece = (work->is_float ? 39 : 28) + work->each * beyond_pipeline;
    return 44 + work->load + chip->workers * (17 + pieces * piece);
}

double
ipu_vertex_amp_pass(const ipu_chip *chip, const ipu_amp_work *work, bool has_window)
{
    return has_window ? amp_window_pass(chip, work) : amp_pass(chip, work, true);
}

double
ipu_vertex_amp(const ipu_chip *chip, const ipu_amp_work *work)
{
    double in = (double)work->in_groups;
    double out = (double)work->out_groups;
    double groups = (double)work->conv_groups;
    double start = 50 + chip->workers * (7 + 3 * (in * groups - 1));
    double each = 24 + (in - 1) * (15 + out * amp_pass(chip, work, false)) +
                  out * amp_pass(chip, work, true);
    return start + groups * each;
}

double
ipu_vertex_amp_window(const ipu_chip *chip, const ipu_amp_work *work)
{
    double window = (double)work->window;
    double out = (double)work->out_groups * (14 + window * amp_window_pass(chip, work));
    return 109 +
           (double)work->conv_groups * (16 + (double)work->in_groups * (14 + out));
}

double
ipu_vertex_hmac(const ipu_chip *chip, double outputs, double steps)
{
    return chip->workers * (58 + ceil(outputs / chip->workers) * (13 + steps));
}

double
ipu_vertex_vmac(const ipu_chip *chip, double vectors, double steps)
{
    return chip->workers * (58 + ceil(vectors / chip->workers) * (3 + steps));
}

double
ipu_vertex_binary(const ipu_chip *chip, double outputs, double vector, double steps)
{
    return 11 + chip->workers * (26 + steps * ceil(outputs / chip->workers / vector));
}

double
ipu_vertex_sum(const ipu_chip *chip, double outputs, double copies, double vector)
{
    return chip->workers * (32 + (copies + 7) * ceil(outputs / vector / chip->workers));
}

double
ipu_vertex_reduce(const ipu_chip *chip, double elements, double sums, double vector)
{
    enum {
        EACH = 2,    /* a load and an addition: Citadel, 1.00 cycles for a float */
        EACH_SUM = 12 /* where there are several */
    };
    double starts = sums > 1 ? EACH_SUM * ceil(sums / chip->workers) : 0;
    return chip->workers *
           (17 + starts + EACH * ceil(elements / vector / chip->workers));
}

double
ipu_vertex_cast(const ipu_chip *chip, double outputs)
{
    return chip->workers * (20 + 3 * ceil(outputs / 4 / chip->workers));
}

double
ipu_vertex_copy(const ipu_chip *chip, double bytes)
{
    /* instructions; with a start 288 cycles, and 1,308 for 8 KiB: measured on a C600 */
    enum { PROLOGUE = 14 };
    return chip->workers * PROLOGUE + bytes / chip->copy_bytes;
}
