/* SPDX-License-Identifier: MIT
 *
 * The search is exhaustive, but for splits that another one beats whatever the chip:
 * of splits with the same largest part, those of fewest tiles serve, and of output
 * channels also those of an even number of parts (see exchanged_inputs).
 *
 * Cycles of vertices are those of poplibs' estimators, restated in docs/machine.md;
 * `workers * x` stands for x instructions of each worker, which take turns. */
#include "machine/planner.h"

#include <inttypes.h>
#include <math.h>

#include "machine/vertex.h"

enum {
    HALF_BYTES = 2,
    FLOAT_BYTES = 4,
    MOST_SERIAL = 64 /* parts; the planner that this follows stops there, too */
};

static const double double_share =
    2.0; /* of a tile's bytes: what more is dropped for */

double
ipu_product_tiles(const ipu_product_split *split)
{
    double tiles = 1;
    for (int dim = 0; dim < IPU_PRODUCT_DIMS; dim++) {
        tiles *= (double)split->parts[dim];
    }
    return tiles;
}

/* --- vertices --------------------------------------------------------------------- */

typedef struct precision_row {
    int64_t bytes;         /* of an input */
    int64_t partial_bytes; /* of a partial sum */
    int64_t in_grain;      /* input channels of a pass of the matrix unit */
    int64_t vector;        /* inputs of a vector */
} precision_row;

static const precision_row precisions[IPU_PRECISION_COUNT] = {
    [IPU_PRECISION_HALF] = {HALF_BYTES, HALF_BYTES, 16, 4},
    [IPU_PRECISION_MIXED] = {HALF_BYTES, FLOAT_BYTES, 16, 4},
    [IPU_PRECISION_FLOAT] = {FLOAT_BYTES, FLOAT_BYTES, 8, 2},
};

static const char *const vertex_names[IPU_VERTEX_COUNT] = {
    [IPU_VERTEX_AMP] = "amp",
    [IPU_VERTEX_VMAC] = "vmac",
    [IPU_VERTEX_HMAC] = "hmac",
    [IPU_VERTEX_OUTER] = "outer",
    [IPU_VERTEX_SLIC] = "slic",
};

const char *
ipu_product_vertex_name(ipu_product_vertex vertex)
{
    return vertex_names[vertex];
}

static int64_t
units_of(const ipu_chip *chip, int64_t precision)
{
    switch (precision) {
    case IPU_PRECISION_HALF:
        return (int64_t)chip->units_half;
    case IPU_PRECISION_MIXED:
        return (int64_t)chip->units_mixed;
    default:
        return (int64_t)chip->units_float;
    }
}

static int64_t
ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

static int64_t
least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static bool
has_window(const ipu_product *p)
{
    return p->kernel[0] * p->kernel[1] > 1;
}

static bool
fits(const ipu_chip *chip, ipu_product_vertex vertex, const ipu_product *p)
{
    switch (vertex) {
    case IPU_VERTEX_SLIC:
        return chip->slic_channels > 0 && p->precision != IPU_PRECISION_FLOAT &&
               p->in == p->out && p->groups > 1 && has_window(p) &&
               (int64_t)chip->slic_channels % p->in == 0;
    case IPU_VERTEX_VMAC:
        return p->in == 1 && p->out == 1;
    case IPU_VERTEX_OUTER:
        return p->in == 1 && !has_window(p);
    case IPU_VERTEX_HMAC: /* channels are too few for the matrix unit */
        return p->in < precisions[p->precision].in_grain;
    default:
        return true;
    }
}

/* --- the work of one tile ---------------------------------------------------------- */

/* Channels of a vertex's groups. */
typedef struct grains {
    int64_t in;
    int64_t out;
    int64_t groups;
} grains;

static grains
grains_of(const ipu_chip *chip, const ipu_product *p, ipu_product_vertex vertex)
{
    const precision_row *precision = &precisions[p->precision];
    switch (vertex) {
    case IPU_VERTEX_AMP:
        return (grains){precision->in_grain, units_of(chip, p->precision), 1};
    case IPU_VERTEX_VMAC:
        return (grains){1, 1, precision->vector};
    case IPU_VERTEX_SLIC:
        return (grains){p->in, p->out, (int64_t)chip->slic_channels / p->in};
    default:
        return (grains){1, 1, 1};
    }
}

/* How many parts each dimension can be cut into. */
static void
extents_of(const ipu_product *p, const grains *grain, int64_t out[IPU_PRODUCT_DIMS])
{
    out[IPU_PRODUCT_BATCH] = p->batch;
    out[IPU_PRODUCT_ROWS] = p->field[0];
    out[IPU_PRODUCT_COLUMNS] = p->field[1];
    out[IPU_PRODUCT_GROUPS] = ceil_div(p->groups, grain->groups);
    out[IPU_PRODUCT_KERNEL] = p->kernel[0];
    out[IPU_PRODUCT_IN] = ceil_div(p->in, grain->in);
    out[IPU_PRODUCT_OUT] = ceil_div(p->out, grain->out);
}

/* The largest part: sizes of each dimension, of channels in vertex groups. */
typedef struct part {
    int64_t size[IPU_PRODUCT_DIMS];
    int64_t rows;  /* of its outputs, over batch and field rows */
    int64_t field; /* output positions */
    double inputs; /* elements */
    double weights;
    double outputs;
} part;

static double
input_extent(const ipu_product *p, int axis, int64_t outputs, int64_t window)
{
    int64_t reach = (outputs - 1) * p->stride[axis] + window;
    return (double)least(reach, p->input[axis]);
}

static part
part_of(const ipu_product *p, const grains *grain, const ipu_product_split *split)
{
    part result;
    int64_t extents[IPU_PRODUCT_DIMS];
    extents_of(p, grain, extents);
    extents[IPU_PRODUCT_IN] = ceil_div(extents[IPU_PRODUCT_IN], split->serial_in);
    extents[IPU_PRODUCT_OUT] = ceil_div(extents[IPU_PRODUCT_OUT], split->serial_out);
    for (int dim = 0; dim < IPU_PRODUCT_DIMS; dim++) {
        result.size[dim] = ceil_div(extents[dim], split->parts[dim]);
    }
    const int64_t *size = result.size;
    double groups = (double)(size[IPU_PRODUCT_GROUPS] * grain->groups);
    double in = groups * (double)(size[IPU_PRODUCT_IN] * grain->in);
    double out = (double)(size[IPU_PRODUCT_OUT] * grain->out);
    result.rows = size[IPU_PRODUCT_BATCH] * size[IPU_PRODUCT_ROWS];
    result.field = result.rows * size[IPU_PRODUCT_COLUMNS];
    result.inputs =
        in * (double)size[IPU_PRODUCT_BATCH] *
        input_extent(p, 0, size[IPU_PRODUCT_ROWS], size[IPU_PRODUCT_KERNEL]) *
        input_extent(p, 1, size[IPU_PRODUCT_COLUMNS], p->kernel[1]);
    result.weights = in * out * (double)(size[IPU_PRODUCT_KERNEL] * p->kernel[1]);
    result.outputs = groups * out * (double)result.field;
    return result;
}

/* `rows` are those of the batch, too. */
static ipu_amp_work
amp_work_of(const ipu_chip *chip, const ipu_product *p, const grains *grain,
            int64_t rows, const int64_t *size)
{
    bool is_float = p->precision == IPU_PRECISION_FLOAT;
    return (ipu_amp_work){
        .conv_groups = size[IPU_PRODUCT_GROUPS],
        .in_groups = size[IPU_PRODUCT_IN],
        .out_groups = size[IPU_PRODUCT_OUT],
        .field = rows * size[IPU_PRODUCT_COLUMNS],
        .rows = rows,
        .columns = size[IPU_PRODUCT_COLUMNS],
        .window = size[IPU_PRODUCT_KERNEL] * p->kernel[1],
        .load = (double)(grain->in * grain->out * precisions[p->precision].bytes) /
                chip->coefficient_bytes,
        .each = is_float ? 8 : 4,
        .is_float = is_float,
    };
}

static double
arithmetic_of(const ipu_chip *chip, const ipu_product *p,
              const ipu_product_split *split, const grains *grain, const part *part)
{
    const precision_row *precision = &precisions[p->precision];
    const int64_t *size = part->size;
    double window = (double)(size[IPU_PRODUCT_KERNEL] * p->kernel[1]);
    double outputs = part->outputs;
    bool is_slic = split->vertex == IPU_VERTEX_SLIC;
    if (split->vertex != IPU_VERTEX_AMP && !is_slic) {
        double in = (double)size[IPU_PRODUCT_IN];
        double vector = (double)precision->vector;
        switch (split->vertex) {
        case IPU_VERTEX_VMAC:
            return ipu_vertex_vmac(chip, outputs / vector, window);
        case IPU_VERTEX_OUTER:
            return ipu_vertex_binary(chip, outputs, vector, 1);
        default:
            return ipu_vertex_hmac(chip, outputs, window * ceil(in / vector));
        }
    }
    ipu_amp_work work = amp_work_of(chip, p, grain, part->rows, size);
    if (is_slic) { /* a pass takes a square of channels at so many kernel columns */
        int64_t channels = (int64_t)chip->slic_channels;
        work.window = size[IPU_PRODUCT_KERNEL] * ceil_div(p->kernel[1], channels);
        work.load =
            (double)(channels * channels * precision->bytes) / chip->coefficient_bytes;
        work.each = (double)(precision->partial_bytes / HALF_BYTES);
    }
    return has_window(p) ? ipu_vertex_amp_window(chip, &work)
                         : ipu_vertex_amp(chip, &work);
}

/* Two neighbouring tiles that take the same inputs share the doubled stream. */
static double
exchanged_inputs(const ipu_chip *chip, double bytes, int64_t out_parts)
{
    double shared = out_parts % 2 == 0 ? 2.0 : 1.0;
    return bytes * (1.0 - 1.0 / (double)out_parts) / (shared * chip->exchange_bytes);
}

/* What is copied: slices of serial parts, from all tiles, and results into theirs;
 * inputs whose kernel positions become channels, on all tiles, an element at a time.
 * With the starts of these. */
static double
copies_of(const ipu_chip *chip, const ipu_product *p, const ipu_product_split *split,
          double result_bytes)
{
    double bytes = (double)precisions[p->precision].bytes;
    double turns = (double)(split->serial_in * split->serial_out);
    double channels = (double)p->groups * (double)p->in;
    double inputs = ceil((double)p->batch * channels * (double)p->input[0] *
                         (double)p->input[1] / chip->tiles);
    double copies = 0;
    if (split->expanded != 0) {
        copies += chip->exchange_cycles + inputs * bytes / chip->exchange_bytes +
                  chip->launch_cycles + inputs;
    }
    if (turns > 1) {
        double weights = ceil(channels * (double)p->out * (double)p->kernel[0] *
                              (double)p->kernel[1] / chip->tiles);
        copies += turns * chip->launch_cycles + weights * bytes / chip->copy_bytes;
    }
    if (split->serial_in > 1) {
        copies += (double)split->serial_out * inputs * bytes / chip->copy_bytes;
    }
    if (split->serial_out > 1) {
        copies += (double)split->serial_out *
                  (chip->launch_cycles + result_bytes / chip->copy_bytes);
    }
    return copies;
}

static ipu_product_cost
cost_of(const ipu_chip *chip, const ipu_product *p, const ipu_product_split *split)
{
    const precision_row *precision = &precisions[p->precision];
    grains grain = grains_of(chip, p, split->vertex);
    part part = part_of(p, &grain, split);
    const int64_t *parts = split->parts;
    double serial = (double)(split->serial_in * split->serial_out);
    int64_t copies = parts[IPU_PRODUCT_IN] * parts[IPU_PRODUCT_KERNEL];
    double takers = (double)(parts[IPU_PRODUCT_BATCH] * parts[IPU_PRODUCT_ROWS] *
                             parts[IPU_PRODUCT_COLUMNS]);
    double input_bytes = part.inputs * (double)precision->bytes;
    double weight_bytes = part.weights * (double)precision->bytes;
    ipu_product_cost cost = {0};
    cost.inputs = serial * exchanged_inputs(chip, input_bytes, parts[IPU_PRODUCT_OUT]);
    cost.weights = serial * weight_bytes * (1.0 - 1.0 / takers) / chip->exchange_bytes;
    cost.arithmetic = serial * arithmetic_of(chip, p, split, &grain, &part);
    cost.overheads = chip->exchange_cycles + chip->launch_cycles;
    double reduced = part.outputs;
    double summed_bytes = 0;
    if (copies > 1) {
        /* each of the tiles that share an output sums a part of it */
        reduced = ceil(part.outputs / (double)copies);
        double bytes = reduced * (double)precision->partial_bytes;
        cost.partials = serial * bytes * (double)(copies - 1) / chip->exchange_bytes;
        cost.reduction =
            serial * ipu_vertex_sum(chip, reduced, (double)copies,
                                    precision->partial_bytes == FLOAT_BYTES ? 4 : 8);
        cost.overheads += chip->exchange_cycles + chip->launch_cycles;
        summed_bytes = bytes * (double)copies;
    } else if (precision->partial_bytes != precision->bytes) {
        cost.reduction = serial * ipu_vertex_cast(chip, reduced);
        cost.overheads += chip->launch_cycles;
    }
    if (split->serial_in > 1) {
        double additions = (double)((split->serial_in - 1) * split->serial_out);
        double vector = precision->partial_bytes == FLOAT_BYTES ? 2 : 4;
        cost.reduction += additions * ipu_vertex_binary(chip, reduced, vector, 3);
        cost.overheads += chip->launch_cycles;
    }
    cost.overheads *= serial;
    cost.copies = copies_of(chip, p, split, reduced * (double)precision->bytes);
    cost.cycles = chip->slowdown *
                  (cost.inputs + cost.weights + cost.arithmetic + cost.partials +
                   cost.reduction + cost.copies + cost.overheads);
    cost.bytes = input_bytes + weight_bytes +
                 part.outputs * (double)precision->partial_bytes + summed_bytes;
    if (has_window(p)) { /* inputs are kept twice: as they come, and with zeros */
        int64_t padded = part.size[IPU_PRODUCT_IN] * grain.in;
        cost.bytes += input_bytes * (double)least(padded, p->in) / (double)padded;
    }
    return cost;
}

/* A bound: no vertex takes fewer cycles for one output position, kernel position, and
 * vertex group of input and of output channels. */
static double
least_cycles(const ipu_chip *chip, ipu_product_vertex vertex, int64_t precision)
{
    switch (vertex) {
    case IPU_VERTEX_AMP:
        return precision == IPU_PRECISION_FLOAT ? 8 : 4;
    case IPU_VERTEX_VMAC:
        return 1;
    case IPU_VERTEX_SLIC: { /* a pass has several kernel columns */
        double each = precision == IPU_PRECISION_MIXED ? 2 : 1;
        return each / chip->slic_channels;
    }
    default:
        return 1 / (double)precisions[precision].vector;
    }
}

/* --- the search --------------------------------------------------------------------- */

typedef struct search {
    const ipu_chip *chip;
    const ipu_product *product;
    int64_t extents[IPU_PRODUCT_DIMS];
    double rest[IPU_PRODUCT_DIMS + 1]; /* products of the extents from here on */
    grains grain;
    double turns; /* least cycles of all turns as they start, ... */
    double each;  /* ... and of an output, for each vertex group of channels */
    double bytes; /* that a tile may take */
    bool
        is_coarse; /* powers of two alone: a first best one, which cuts the rest short */
    bool has_found;
    ipu_product_split split;
    ipu_product_plan best;
} search;

static void
try_split(search *s)
{
    ipu_product_cost cost = cost_of(s->chip, s->product, &s->split);
    const ipu_product_cost *best = &s->best.cost;
    bool is_better = !s->has_found || cost.cycles < best->cycles ||
                     (cost.cycles == best->cycles && cost.bytes < best->bytes);
    if (is_better && cost.bytes <= s->bytes) {
        s->has_found = true;
        s->best = (ipu_product_plan){.split = s->split, .cost = cost};
    }
}

/* The field's parts are known. A bound: what an output of the largest takes, for each
 * kernel position and vertex group of channels, with what these have of weights. */
static double
least_cycles_in_field(const search *s)
{
    const ipu_chip *chip = s->chip;
    const ipu_product *p = s->product;
    const int64_t *parts = s->split.parts;
    int64_t size[IPU_PRODUCT_DIMS] = {0};
    int64_t takers = 1;
    for (int dim = 0; dim < IPU_PRODUCT_GROUPS; dim++) {
        size[dim] = ceil_div(s->extents[dim], parts[dim]);
        takers *= parts[dim];
    }
    int64_t rows = size[IPU_PRODUCT_BATCH] * size[IPU_PRODUCT_ROWS];
    double field = (double)(rows * size[IPU_PRODUCT_COLUMNS]);
    double weights = (double)(s->grain.groups * s->grain.in * s->grain.out);
    double loaded = weights * (double)precisions[p->precision].bytes *
                    (1.0 - 1.0 / (double)takers) / chip->exchange_bytes;
    double pass = s->each * field;
    if (s->split.vertex == IPU_VERTEX_AMP) {
        ipu_amp_work work = amp_work_of(chip, p, &s->grain, rows, size);
        pass = ipu_vertex_amp_pass(chip, &work, has_window(p));
    }
    return (pass + loaded) / field;
}

/* Whether so many cycles are more than the best split takes. A bound holds but for its
 * rounding. */
static bool
is_beaten(const search *s, double least_cycles)
{
    const double rounding = 1e-12;
    return s->has_found && least_cycles * (1 - rounding) > s->best.cost.cycles;
}

/* All parts of the output channels but one have fewer cycles than this. The more there
 * are the less each takes of all but inputs, and of those at least half moves, as two
 * tiles can share it. */
static double
least_cycles_of_outputs(const search *s, const ipu_product_cost *most)
{
    int64_t parts = s->split.parts[IPU_PRODUCT_OUT];
    double moved = 1.0 - 1.0 / (double)parts;
    double whole = parts == 1 ? 0 : most->inputs / moved * (parts % 2 == 0 ? 2 : 1);
    return most->cycles - s->chip->slowdown * (most->inputs - whole / 4);
}

/* All splits of the dimensions from `dim` on into at most `tiles` parts; `work` is what
 * the largest part has of those before, `each` what a unit of it takes. Where the rest
 * were spread evenly over all tiles and this still took longer than the best one, so
 * does each of them. */
static void
search_from(search *s, int dim, int64_t tiles, double work, double each)
{
    if (dim == IPU_PRODUCT_GROUPS) {
        each = least_cycles_in_field(s);
    }
    double least_cycles = s->turns + s->chip->slowdown * each * work * s->rest[dim] /
                                         (double)tiles;
    if (is_beaten(s, least_cycles)) {
        return;
    }
    if (dim == IPU_PRODUCT_DIMS) {
        try_split(s);
        return;
    }
    int64_t extent = s->extents[dim];
    int64_t most = least(extent, tiles);
    if (dim == IPU_PRODUCT_OUT) { /* more parts take less memory */
        s->split.parts[dim] = most;
        ipu_product_cost cost = cost_of(s->chip, s->product, &s->split);
        if (cost.bytes > s->bytes) {
            return;
        }
        least_cycles = least_cycles_of_outputs(s, &cost);
    }
    for (int64_t parts = 1; parts <= most;) {
        if (parts > 1 && is_beaten(s, least_cycles)) {
            return;
        }
        int64_t size = ceil_div(extent, parts);
        s->split.parts[dim] = parts;
        search_from(s, dim + 1, tiles / parts, work * (double)size, each);
        if (dim == IPU_PRODUCT_OUT && parts % 2 == 1 && parts > 1 && parts < most) {
            s->split.parts[dim] = parts + 1;
            search_from(s, dim + 1, tiles / (parts + 1), work * (double)size, each);
        }
        /* the fewest parts whose largest is smaller */
        int64_t next = size == 1 ? most + 1 : ceil_div(extent, size - 1);
        parts = s->is_coarse && next < 2 * parts ? 2 * parts : next;
    }
}

/* All splits for a vertex with these serial parts. */
static void
search_serial(search *s, int64_t serial_in, int64_t serial_out)
{
    const ipu_product *p = s->product;
    extents_of(p, &s->grain, s->extents);
    s->extents[IPU_PRODUCT_IN] /= serial_in;
    s->extents[IPU_PRODUCT_OUT] /= serial_out;
    s->split.serial_in = serial_in;
    s->split.serial_out = serial_out;
    s->turns = s->chip->slowdown *
               ((double)(serial_in * serial_out) *
                    (s->chip->exchange_cycles + s->chip->launch_cycles) +
                copies_of(s->chip, p, &s->split, 0));
    s->rest[IPU_PRODUCT_DIMS] = (double)(serial_in * serial_out * p->kernel[1]);
    for (int dim = IPU_PRODUCT_DIMS - 1; dim >= 0; dim--) {
        s->rest[dim] = s->rest[dim + 1] * (double)s->extents[dim];
    }
    search_from(s, 0, (int64_t)s->chip->tiles, 1, s->each);
}

/* All splits for a vertex. Serial parts are equal. */
static void
search_vertex(search *s, ipu_product_vertex vertex)
{
    const ipu_product *p = s->product;
    s->grain = grains_of(s->chip, p, vertex);
    int64_t in = ceil_div(p->in, s->grain.in);
    int64_t out = ceil_div(p->out, s->grain.out);
    s->split.vertex = vertex;
    s->each = least_cycles(s->chip, vertex, p->precision);
    for (int64_t i = 1; i <= least(in, MOST_SERIAL); i++) {
        for (int64_t j = 1; in % i == 0 && j <= least(out, MOST_SERIAL); j++) {
            if (out % j == 0) {
                search_serial(s, i, j);
            }
        }
    }
}

enum { AXES_EXPANDED = 4 /* sets of a kernel's axes */ };

/* Kernel positions as input channels, where these leave a part of a vertex's groups
 * empty. */
static bool
expands(const ipu_product *p, int64_t axes)
{
    bool is_filled = p->in % precisions[p->precision].in_grain == 0;
    for (int axis = 0; axis < 2; axis++) {
        bool is_wanted = (axes >> axis & 1) != 0;
        if (is_wanted && (is_filled || p->kernel[axis] == 1 || p->field[axis] == 1)) {
            return false;
        }
    }
    return true;
}

/* With the axes expanded; and positions of a field without a window are alike: batch and
 * columns join the rows. */
static ipu_product
as_planned(const ipu_product *product, int64_t axes)
{
    ipu_product flat = *product;
    for (int axis = 0; axis < 2; axis++) {
        if ((axes >> axis & 1) != 0) {
            flat.in *= flat.kernel[axis];
            flat.kernel[axis] = flat.stride[axis] = 1;
            flat.input[axis] = flat.field[axis];
        }
    }
    if (!has_window(&flat)) {
        flat.field[0] *= flat.batch * flat.field[1];
        flat.input[0] = flat.field[0];
        flat.batch = flat.field[1] = flat.input[1] = 1;
        flat.stride[0] = flat.stride[1] = 1;
    }
    return flat;
}

ipu_product_cost
ipu_product_cost_of(const ipu_chip *chip, const ipu_product *product,
                    const ipu_product_split *split)
{
    ipu_product flat = as_planned(product, split->expanded);
    return cost_of(chip, &flat, split);
}

ipu_product_plan
ipu_product_plan_of(const ipu_chip *chip, const ipu_product *product,
                    double memory_share)
{
    search s = {.chip = chip};
    for (double share = memory_share; !s.has_found; share *= 2) {
        s.bytes = share <= double_share ? share * chip->tile_bytes : INFINITY;
        for (int turn = 0; turn < 2 * IPU_VERTEX_COUNT; turn++) {
            ipu_product_vertex vertex = (ipu_product_vertex)(turn % IPU_VERTEX_COUNT);
            s.is_coarse = turn < IPU_VERTEX_COUNT;
            for (int64_t axes = 0; axes < AXES_EXPANDED; axes++) {
                ipu_product flat = as_planned(product, axes);
                bool is_matrix = vertex == IPU_VERTEX_AMP || axes == 0;
                if (is_matrix && expands(product, axes) && fits(chip, vertex, &flat)) {
                    s.product = &flat;
                    s.split.expanded = axes;
                    search_vertex(&s, vertex);
                }
            }
        }
    }
    return s.best;
}

/* What one of the splits that the search tries takes: halves along the dimension that
 * leaves the fewest bytes, until these are few enough or all tiles have a part. */
static double
spread_bytes(const ipu_chip *chip, const ipu_product *p, double enough)
{
    const ipu_product_vertex vertex = IPU_VERTEX_AMP; /* which any product can have */
    grains grain = grains_of(chip, p, vertex);
    ipu_product_split split = {.vertex = vertex,
                               .parts = {1, 1, 1, 1, 1, 1, 1},
                               .serial_in = 1,
                               .serial_out = 1};
    int64_t extents[IPU_PRODUCT_DIMS];
    extents_of(p, &grain, extents);
    double bytes = cost_of(chip, p, &split).bytes;
    for (bool is_less = true; is_less && bytes > enough;) {
        ipu_product_split fewest = split;
        is_less = false;
        for (int dim = 0; dim < IPU_PRODUCT_DIMS; dim++) {
            ipu_product_split halves = split;
            int64_t size = ceil_div(extents[dim], split.parts[dim]);
            halves.parts[dim] = ceil_div(extents[dim], ceil_div(size, 2));
            double left = cost_of(chip, p, &halves).bytes;
            if (left < bytes && ipu_product_tiles(&halves) <= chip->tiles) {
                fewest = halves;
                bytes = left;
                is_less = true;
            }
        }
        split = fewest;
    }
    return bytes;
}

double
ipu_product_most_bytes(const ipu_chip *chip, const ipu_product *product,
                       double memory_share)
{
    ipu_product flat = as_planned(product, 0);
    double bytes = memory_share * chip->tile_bytes;
    double found = spread_bytes(chip, &flat, bytes);
    while (bytes < found) {
        bytes *= 2;
    }
    return bytes;
}

ipu_status
ipu_product_check(ipu_ctx *ctx, const ipu_product *product)
{
    const struct {
        const char *name;
        int64_t size;
    } sizes[] = {
        {"batch", product->batch},
        {"groups", product->groups},
        {"in", product->in},
        {"out", product->out},
        {"rows", product->field[0]},
        {"columns", product->field[1]},
        {"input rows", product->input[0]},
        {"input columns", product->input[1]},
        {"kernel rows", product->kernel[0]},
        {"kernel columns", product->kernel[1]},
        {"row stride", product->stride[0]},
        {"column stride", product->stride[1]},
    };
    const int64_t most = INT64_C(1) << 40;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        IPU_FAIL_IF(ctx, sizes[i].size < 1 || sizes[i].size > most, INVALID_ARGUMENT,
                    "%s must be from 1 to 2^40, but got %" PRId64, sizes[i].name,
                    sizes[i].size);
    }
    const double most_positions = 0x1p60;
    double positions = (double)product->batch;
    double window = 1;
    bool is_countable = true;
    for (int axis = 0; axis < 2; axis++) {
        double field = (double)product->field[axis];
        positions *= field;
        window *= (double)product->kernel[axis];
        is_countable =
            is_countable && field * (double)product->stride[axis] <= most_positions;
    }
    IPU_FAIL_IF(
        ctx, !is_countable || positions > most_positions || window > most_positions,
        INVALID_ARGUMENT,
        "a product must have at most 2^60 positions of its field, with strides, "
        "and of its window");
    return IPU_OK;
}
