/* SPDX-License-Identifier: MIT
 *
 * How popops, popnn and poplin run each class of ops: sequences of compute sets and
 * exchanges. Instructions are of poplibs' estimators (docs/machine.md); what no formula
 * is known for is an estimate by arithmetic and bytes, and says so. */
#include "machine/node_steps.h"

#include <math.h>
#include <string.h>

#include "base/convolution.h"
#include "machine/vertex.h"

enum { LEAST_TILE_BYTES = 128 /* of a value that is spread over tiles */ };

static double
elements(const ipu_type *type)
{
    return (double)ipu_shape_elements(&type->shape);
}

static bool
is_half(const ipu_type *type)
{
    return ipu_dtype_bytes(type->dtype) == 2;
}

/* Elements that a worker's instruction takes together. */
static double
vector_of(const ipu_type *type)
{
    size_t size = ipu_dtype_bytes(type->dtype);
    return size >= 8 ? 1 : 8 / (double)size;
}

/* Of `count` elements the busiest tile's. */
static double
on_tile(const ipu_steps_call *call, const ipu_type *type, double count)
{
    double least = ceil(LEAST_TILE_BYTES / (double)ipu_dtype_bytes(type->dtype));
    double each = fmax(ceil(count / call->chip->tiles), least);
    return fmin(count, each);
}

static double
tiles_for(const ipu_steps_call *call, const ipu_type *type, double count)
{
    return count == 0 ? 0 : ceil(count / on_tile(call, type, count));
}

/* --- steps ----------------------------------------------------------------------- */

static void
add(ipu_steps_call *call, ipu_step_kind kind, const char *part, double cycles,
    double tiles, bool is_estimated)
{
    ipu_account_step step = call->like;
    step.kind = kind;
    step.part = part;
    step.cycles = ceil(cycles);
    step.tiles = tiles;
    step.is_estimated = is_estimated;
    if (call->status == IPU_OK) {
        call->status = IPU_ARRAY_PUSH(call->ctx, &call->account->steps, step);
    }
}

/* A compute set: vertices and their start. */
static void
compute(ipu_steps_call *call, const char *part, double cycles, double tiles)
{
    add(call, IPU_STEP_COMPUTE, part, cycles + call->chip->launch_cycles, tiles, false);
}

/* All tiles wait for each other, and those that take part exchange. */
static void
exchange_in(ipu_steps_call *call, const char *part, double synced, double moved,
            double tiles, bool is_estimated)
{
    add(call, IPU_STEP_SYNC, part, synced, call->chip->tiles, is_estimated);
    if (moved > 0) {
        add(call, IPU_STEP_EXCHANGE, part, moved, tiles, is_estimated);
    }
}

/* A tile sends or takes so many bytes. */
static void
exchange(ipu_steps_call *call, const char *part, double bytes, double tiles)
{
    const ipu_chip *chip = call->chip;
    exchange_in(call, part, chip->exchange_cycles, bytes / chip->exchange_bytes, tiles,
                false);
}

/* An element-wise compute set over values like `type`. */
static void
element_wise(ipu_steps_call *call, const char *part, const ipu_type *type, double count,
             double instructions)
{
    if (count == 0) {
        return;
    }
    double each = on_tile(call, type, count);
    compute(call, part,
            ipu_vertex_binary(call->chip, each, vector_of(type), instructions),
            tiles_for(call, type, count));
}

/* Sums, maxima and the like of `count` elements to `results`: each tile reduces what it
 * has, and the partial results of a result meet on one tile. Where a tile has fewer
 * results than workers, some of these have nothing to do, or several share a result and
 * a further compute set adds what they have. */
static void
reduce(ipu_steps_call *call, const char *part, const ipu_type *type, double count,
       double results)
{
    if (count == 0 || results == 0) {
        return;
    }
    double each = on_tile(call, type, count);
    double tiles = tiles_for(call, type, count);
    double workers = call->chip->workers;
    double vector = vector_of(type);
    double row = fmin(each, ceil(count / results));
    double held = fmax(1, floor(each / row)); /* results of a tile */
    double shared = ipu_vertex_reduce(call->chip, each, vector);
    double added = ipu_vertex_sum(call->chip, held, workers, 4);
    double alone = ipu_vertex_reduce(call->chip, row * workers, vector);
    if (held >= workers || alone <= shared + call->chip->launch_cycles + added) {
        compute(call, part, fmax(shared, alone), tiles);
    } else {
        compute(call, part, shared, tiles);
        compute(call, part, added, tiles);
    }
    double copies = fmin(tiles, ceil(count / results / each));
    if (copies > 1) {
        double kept = ceil(results / tiles);
        exchange(call, part, kept * copies * 4, tiles);
        compute(call, part, ipu_vertex_sum(call->chip, kept, copies, 4),
                fmin(tiles, results));
    }
}

/* By arithmetic on scalars and bytes, spread over all tiles. */
static void
estimate(ipu_steps_call *call, double rounds)
{
    const ipu_chip *chip = call->chip;
    ipu_cost cost = ipu_cost_of(call->op, call->types);
    double busy = fmax(cost.flops, cost.bytes / chip->copy_bytes) / chip->tiles;
    double moved = cost.bytes / chip->tiles / chip->exchange_bytes;
    add(call, IPU_STEP_COMPUTE, "estimate",
        busy + moved + rounds * (chip->exchange_cycles + chip->launch_cycles),
        chip->tiles, true);
}

void
ipu_steps_nothing(ipu_steps_call *call)
{
    (void)call; /* views, constants, and nodes whose blocks are counted */
}

/* --- element-wise ---------------------------------------------------------------- */

/* Instructions of a worker for a vector of float, and of half; X(OP, float, half). */
#define INSTRUCTIONS(X) \
    X(RELU, 3, 2) \
    X(SQUARE, 2, 2) \
    X(NEG, 2, 2) \
    X(ABS, 2, 2) \
    X(EXP, 6, 4) \
    X(LOG, 12, 4) \
    X(TANH, 12, 4) \
    X(SIGMOID, 12, 6) \
    X(SQRT, 10, 23) \
    X(RSQRT, 8, 19) \
    X(RECIPROCAL, 6, 15) \
    X(GELU, 44, 64) \
    X(GELU_GRAD, 44, 64) \
    X(ADD, 3, 3) \
    X(SUB, 3, 3) \
    X(MUL, 3, 3) \
    X(MAXIMUM, 3, 4) \
    X(MINIMUM, 3, 4) \
    X(DIV, 10, 21) \
    X(RELU_GRAD, 3, 3) \
    X(TANH_GRAD, 3, 3) \
    X(SIGMOID_GRAD, 3, 3) \
    X(SELECT, 4, 4)

static const struct {
    double of_float;
    double of_half;
} instructions[IPU_OP_ID_COUNT] = {
#define X(NAME, float, half) [IPU_OP_ID_##NAME] = {float, half},
    INSTRUCTIONS(X)
#undef X
};

/* All replicas in a ring: each sends its share of the bytes to the next one, twice round
 * except its own. */
static void
all_reduce(ipu_steps_call *call)
{
    const ipu_chip *chip = call->chip;
    double replicas = call->options->replicas;
    double group = (double)ipu_attrs_int(call->types->attrs, IPU_ATTR_GROUP_SIZE, 0);
    double count = group > 0 ? fmin(group, replicas) : replicas;
    double bytes = (double)ipu_type_bytes(&call->types->outputs[0]);
    if (count > 1) {
        double seconds =
            2 * (count - 1) * (bytes / count / chip->link_bytes + chip->link_seconds);
        add(call, IPU_STEP_COLLECTIVE, "", chip->clock * seconds, chip->tiles, true);
    }
}

/* Element-wise ops, all by one rule. Smaller operands are sent to where the elements of
 * the result are. */
void
ipu_steps_per_result(ipu_steps_call *call)
{
    enum { OTHER = 4, OTHER_HEAVY = 30 };
    const ipu_cost_call *types = call->types;
    if (call->op == IPU_OP_ID_ALL_REDUCE) {
        all_reduce(call);
        return;
    }
    const ipu_type *result = &types->outputs[0];
    double count = elements(result);
    double sent = 0;
    for (uint32_t i = 0; i < types->input_count; i++) {
        if (elements(&types->inputs[i]) < count) {
            sent += fmin((double)ipu_type_bytes(&types->inputs[i]),
                         on_tile(call, result, count) *
                             (double)ipu_dtype_bytes(types->inputs[i].dtype));
        }
    }
    double tiles = tiles_for(call, result, count);
    if (sent > 0 && tiles > 1) {
        exchange(call, "operands", sent, tiles);
    }
    bool half = is_half(result);
    double steps =
        half ? instructions[call->op].of_half : instructions[call->op].of_float;
    if (steps == 0) {
        bool heavy = (ipu_op_info_of(call->op)->flags & IPU_OP_HEAVY) != 0;
        steps = heavy ? OTHER_HEAVY : OTHER;
    }
    element_wise(call, "", result, count, steps);
}

void
ipu_steps_fused_elementwise(ipu_steps_call *call)
{
    estimate(call, 1); /* an optimisation for the host: no graph has it yet */
}

/* --- sums, softmax, norms -------------------------------------------------------- */

void
ipu_steps_reduction(ipu_steps_call *call)
{
    const ipu_cost_call *types = call->types;
    if (types->output_count == 0) {
        return;
    }
    const ipu_type *in = &types->inputs[0];
    reduce(call, "", in, elements(in), elements(&types->outputs[0]));
    if (call->op == IPU_OP_ID_MEAN) {
        const ipu_type *result = &types->outputs[0];
        element_wise(call, "scale", result, elements(result), 3);
    }
}

/* Maximum, difference, exponential, sum, inverse, product; of losses the rows' own. */
void
ipu_steps_softmax(ipu_steps_call *call)
{
    const ipu_type *in = &call->types->inputs[0];
    double count = elements(in);
    double width = in->shape.rank == 0 ? 1 : (double)in->shape.dims[in->shape.rank - 1];
    double rows = width == 0 ? 0 : count / width;
    bool half = is_half(in);
    reduce(call, "maximum", in, count, rows);
    element_wise(call, "difference", in, count, 3);
    element_wise(call, "exponential", in, count, half ? 4 : 6);
    reduce(call, "sum", in, count, rows);
    element_wise(call, "inverse", in, rows, half ? 15 : 6);
    element_wise(call, "product", in, count, 3);
    if (call->types->input_count > 1) {
        element_wise(call, "loss", in, rows, half ? 4 : 12);
    }
}

/* Two sums over the statistics' axes and three element-wise passes; back one more. */
static void
normalize(ipu_steps_call *call, int passes)
{
    const ipu_type *in = &call->types->inputs[0];
    double count = elements(in);
    double results = elements(&call->types->outputs[call->types->output_count - 1]);
    reduce(call, "first moment", in, count, results);
    reduce(call, "second moment", in, count, results);
    for (int i = 0; i < passes; i++) {
        element_wise(call, "normalise", in, count, 3);
    }
}

void
ipu_steps_normalize(ipu_steps_call *call)
{
    normalize(call, 3);
}

void
ipu_steps_normalize_grad(ipu_steps_call *call)
{
    normalize(call, 4);
}

/* --- products -------------------------------------------------------------------- */

static void
product(ipu_steps_call *call, ipu_product p, const ipu_type *type)
{
    const ipu_chip *chip = call->chip;
    ipu_op op = call->op;
    bool is_conv = op == IPU_OP_ID_CONV || op == IPU_OP_ID_CONV_GRAD_INPUT ||
                   op == IPU_OP_ID_CONV_GRAD_FILTER;
    ipu_product_class class = is_conv ? IPU_CONVOLUTIONS : IPU_MATMULS;
    p.precision =
        is_half(type) ? call->options->products[class].half : IPU_PRECISION_FLOAT;
    if (ipu_product_check(call->ctx, &p) != IPU_OK) {
        ipu_ctx_clear(call->ctx);
        if (elements(type) > 0) { /* too many to plan */
            estimate(call, 4);
        }
        return;
    }
    ipu_product_plan plan = ipu_plans_ask(call->plans, chip, &p,
                                          call->options->products[class].memory_share);
    double tiles = 1;
    for (int dim = 0; dim < IPU_PRODUCT_DIMS; dim++) {
        tiles *= (double)plan.split.parts[dim];
    }
    const ipu_product_cost *cost = &plan.cost;
    double turns = (double)(plan.split.serial_in * plan.split.serial_out);
    double started = turns * chip->launch_cycles;
    double synced = turns * chip->exchange_cycles;
    bool estimated = plan.split.vertex != IPU_VERTEX_AMP;
    exchange_in(call, "operands", chip->slowdown * synced,
                chip->slowdown * (cost->inputs + cost->weights), tiles, estimated);
    add(call, IPU_STEP_COMPUTE, ipu_product_vertex_name(plan.split.vertex),
        chip->slowdown * (cost->arithmetic + started), tiles, estimated);
    if (cost->partials > 0) {
        exchange_in(call, "partials", chip->slowdown * synced,
                    chip->slowdown * cost->partials, tiles, estimated);
    }
    double rest =
        cost->overheads - started - synced - (cost->partials > 0 ? synced : 0);
    if (cost->reduction > 0) {
        add(call, IPU_STEP_COMPUTE, "reduction",
            chip->slowdown * (cost->reduction + rest), tiles, estimated);
    }
    if (cost->copies > 0) {
        add(call, IPU_STEP_COPY, "copies", chip->slowdown * cost->copies, chip->tiles,
            estimated);
    }
    call->temporary_bytes = fmax(call->temporary_bytes, cost->bytes);
}

/* batch products of [rows, inner] and [inner, columns] */
static void
matmul(ipu_steps_call *call, const ipu_type *type, double batch, double rows,
       double inner, double columns)
{
    product(call,
            (ipu_product){.batch = 1,
                          .groups = (int64_t)batch,
                          .in = (int64_t)inner,
                          .out = (int64_t)columns,
                          .field = {(int64_t)rows, 1},
                          .input = {(int64_t)rows, 1},
                          .kernel = {1, 1},
                          .stride = {1, 1}},
            type);
}

/* Of which operand `left` is the left one. */
static void
product_of(ipu_steps_call *call, uint32_t left)
{
    const ipu_cost_call *types = call->types;
    const ipu_shape *a = &types->inputs[left].shape;
    const ipu_shape *b = &types->inputs[left + 1].shape;
    bool transposed = ipu_attrs_int(types->attrs, IPU_ATTR_TRANSPOSE_A, 0) != 0;
    bool b_transposed = ipu_attrs_int(types->attrs, IPU_ATTR_TRANSPOSE_B, 0) != 0;
    double rows = (double)a->dims[a->rank - (transposed ? 1 : 2)];
    double inner = (double)a->dims[a->rank - (transposed ? 2 : 1)];
    double columns = (double)b->dims[b->rank - (b_transposed ? 2 : 1)];
    double count = rows * columns * inner;
    if (count == 0) {
        return;
    }
    double of_a = elements(&types->inputs[left]) / (rows * inner);
    double of_b = elements(&types->inputs[left + 1]) / (inner * columns);
    if (of_b == 1) { /* one right operand serves all: its rows are more */
        rows *= of_a;
        of_a = 1;
    }
    matmul(call, &types->inputs[left], fmax(of_a, of_b), rows, inner, columns);
}

void
ipu_steps_product(ipu_steps_call *call)
{
    product_of(call, 0);
}

void
ipu_steps_product_and_sum(ipu_steps_call *call)
{
    product_of(call, 1);
}

/* --- convolutions ---------------------------------------------------------------- */

static int64_t
ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

/* A third spatial axis counts as rows of the field and of the kernel. */
static void
convolution(ipu_steps_call *call, const ipu_shape *x, const ipu_shape *w, bool is_grad)
{
    ipu_convolution c;
    ipu_convolution_of(call->types->attrs, x, w, &c);
    ipu_product p = {.batch = c.batch,
                     .groups = c.groups,
                     .in = c.depth,
                     .out = c.groups == 0 ? 0 : c.filters / c.groups,
                     .field = {1, 1},
                     .input = {1, 1},
                     .kernel = {1, 1},
                     .stride = {1, 1}};
    for (int32_t i = 0; i < c.spatial; i++) {
        const ipu_conv_axis *axis = &c.axes[i];
        int at = i == c.spatial - 1 && i > 0 ? 1 : 0;
        if (is_grad) {
            /* of a stride's zeros only those positions count that are none */
            p.field[at] *= axis->size;
            p.input[at] *= axis->size;
            p.kernel[at] *= ceil_div(axis->window, axis->stride);
        } else {
            p.field[at] *= axis->out;
            p.input[at] *= axis->size;
            p.kernel[at] *= axis->window;
            p.stride[at] *= axis->stride;
        }
    }
    if (is_grad) {
        int64_t out = p.out;
        p.out = p.in;
        p.in = out;
    }
    product(call, p, &call->types->inputs[0]);
}

void
ipu_steps_conv(ipu_steps_call *call)
{
    const ipu_cost_call *types = call->types;
    convolution(call, &types->inputs[0].shape, &types->inputs[1].shape, false);
}

void
ipu_steps_conv_grad_input(ipu_steps_call *call)
{
    const ipu_cost_call *types = call->types;
    convolution(call, &types->outputs[0].shape, &types->inputs[1].shape, true);
}

void
ipu_steps_fused_conv_grad_input(ipu_steps_call *call)
{
    estimate(call, 4); /* an optimisation for the host: no graph has it yet */
}

/* The product of x's windows with dy: [kernel positions * depth, batch * out] by
 * [batch * out, filters]. */
void
ipu_steps_conv_grad_filter(ipu_steps_call *call)
{
    const ipu_cost_call *types = call->types;
    ipu_convolution c;
    ipu_convolution_of(types->attrs, &types->inputs[0].shape, &types->outputs[0].shape,
                       &c);
    double window = 1;
    double field = (double)c.batch;
    for (int32_t i = 0; i < c.spatial; i++) {
        window *= (double)c.axes[i].window;
        field *= (double)c.axes[i].out;
    }
    double groups = (double)c.groups;
    matmul(call, &types->inputs[0], groups, window * (double)c.depth, field,
           groups == 0 ? 0 : (double)c.filters / groups);
}

/* --- pools, movement, lookups ---------------------------------------------------- */

/* Rows 13, items 20, and for each vector of channels 3 and the window's positions. */
void
ipu_steps_pooling(ipu_steps_call *call)
{
    const ipu_cost_call *types = call->types;
    const ipu_type *small = &types->outputs[0];
    const ipu_type *last = &types->inputs[types->input_count - 1];
    if (elements(last) < elements(small)) {
        small = last; /* the side of the windows */
    }
    uint32_t axes;
    const int64_t *sizes = ipu_attrs_ints(types->attrs, IPU_ATTR_WINDOW, &axes);
    double window = 1;
    for (uint32_t i = 0; i < axes; i++) {
        window *= (double)sizes[i];
    }
    double count = elements(small);
    if (count == 0) {
        return;
    }
    double each = on_tile(call, small, count);
    double tiles = tiles_for(call, small, count);
    bool is_back = types->input_count > 1 || call->op == IPU_OP_ID_AVERAGE_POOL_GRAD;
    double vectors = ceil(each / vector_of(small) / call->chip->workers);
    exchange(call, "windows", each * window * (double)ipu_dtype_bytes(small->dtype),
             tiles);
    compute(call, "",
            call->chip->workers *
                (33 + vectors * (3 + (is_back ? 7 : 4) + (is_back ? 5 : 3) * window)),
            tiles);
}

/* What moves is sent, and copied into its order. */
void
ipu_steps_movement(ipu_steps_call *call)
{
    const ipu_cost_call *types = call->types;
    const ipu_chip *chip = call->chip;
    double bytes = 0;
    for (uint32_t i = 0; i < types->output_count; i++) {
        bytes += (double)ipu_type_bytes(&types->outputs[i]);
    }
    if (call->op == IPU_OP_ID_INFEED_DEQUEUE || call->op == IPU_OP_ID_OUTFEED_ENQUEUE ||
        call->op == IPU_OP_ID_HOST_CALL) {
        for (uint32_t i = 0; i < types->input_count; i++) {
            bytes += (double)ipu_type_bytes(&types->inputs[i]);
        }
        add(call, IPU_STEP_STREAM, "",
            chip->clock * (chip->host_seconds + bytes / chip->host_bytes), chip->tiles,
            false);
        return;
    }
    if (bytes == 0) {
        return;
    }
    double each = ceil(fmax(bytes / chip->tiles, fmin(bytes, LEAST_TILE_BYTES)));
    double tiles = ceil(bytes / each);
    exchange(call, "", each, tiles);
    add(call, IPU_STEP_COPY, "", chip->launch_cycles + each / chip->copy_bytes, tiles,
        false);
}

/* A few rows of many: where they lie sends them. */
void
ipu_steps_pick(ipu_steps_call *call)
{
    ipu_steps_movement(call);
}

/* multiUpdateAdd: rows of the second operand are added to where they belong. */
static void
add_rows(ipu_steps_call *call, const ipu_type *rows)
{
    double count = elements(rows);
    if (count == 0) {
        return;
    }
    double tiles = tiles_for(call, rows, count);
    exchange(call, "rows", on_tile(call, rows, count) * 4, tiles);
    element_wise(call, "", rows, count, 5);
}

void
ipu_steps_sum_up(ipu_steps_call *call)
{
    add_rows(call, &call->types->inputs[1]);
}

void
ipu_steps_scatter(ipu_steps_call *call)
{
    add_rows(call, &call->types->inputs[2]);
}

/* --- random numbers -------------------------------------------------------------- */

static void
draw(ipu_steps_call *call, double instructions_each)
{
    const ipu_type *result = &call->types->outputs[0];
    element_wise(call, "", result, elements(result), instructions_each);
}

void
ipu_steps_uniform(ipu_steps_call *call)
{
    draw(call, 4);
}

void
ipu_steps_normal(ipu_steps_call *call)
{
    draw(call, 8);
}

void
ipu_steps_dropout(ipu_steps_call *call)
{
    draw(call, 4);
}

/* --- sequences, attention -------------------------------------------------------- */

/* popnn's loop of steps: a product with the kernel, and the gates, one after another. */
void
ipu_steps_recurrent(ipu_steps_call *call)
{
    const ipu_type *gates = &call->types->inputs[0];
    const ipu_shape *kernel = &call->types->inputs[1].shape;
    double steps = (double)gates->shape.dims[0];
    double rows = (double)gates->shape.dims[1];
    double wide = (double)kernel->dims[1];
    ipu_steps_call each = *call;
    each.like.times *= steps;
    matmul(&each, gates, 1, rows, (double)kernel->dims[0], wide);
    element_wise(&each, "gates", gates, rows * wide, is_half(gates) ? 6 : 12);
    element_wise(&each, "states", gates, rows * (double)kernel->dims[0], 12);
    call->status = each.status;
    call->temporary_bytes = each.temporary_bytes;
}

void
ipu_steps_recurrence(ipu_steps_call *call)
{
    const ipu_type *result = &call->types->outputs[0];
    ipu_steps_call each = *call;
    double steps = result->shape.rank == 0 ? 1 : (double)result->shape.dims[0];
    each.like.times *= steps;
    element_wise(&each, "", result, steps == 0 ? 0 : elements(result) / steps, 4);
    call->status = each.status;
}

/* As single ops: scores, softmax, their product with v. */
static void
attend(ipu_steps_call *call, bool is_grad)
{
    const ipu_type *type = &call->types->inputs[0];
    const int64_t *q = type->shape.dims;
    const int64_t *v = call->types->inputs[2].shape.dims;
    double heads = (double)(q[0] * q[1]);
    double queries = (double)q[2];
    double keys = (double)v[2];
    double size = (double)q[3];
    double wide = (double)v[3];
    double scores = heads * queries * keys;
    matmul(call, type, heads, queries, size, keys);
    reduce(call, "maximum", type, scores, heads * queries);
    element_wise(call, "exponential", type, scores, is_half(type) ? 4 : 6);
    reduce(call, "sum", type, scores, heads * queries);
    element_wise(call, "product", type, scores, 3);
    if (!is_grad) {
        matmul(call, type, heads, queries, keys, wide);
        return;
    }
    matmul(call, type, heads, queries, wide, keys); /* of the weights */
    matmul(call, type, heads, keys, queries, wide); /* of v */
    element_wise(call, "gradient", type, scores, 9);
    matmul(call, type, heads, queries, keys, size); /* of q */
    matmul(call, type, heads, keys, queries, size); /* of k */
}

void
ipu_steps_attention(ipu_steps_call *call)
{
    attend(call, false);
}

void
ipu_steps_attention_grad(ipu_steps_call *call)
{
    attend(call, true);
}

/* --- updates --------------------------------------------------------------------- */

/* A scaled addition, and one more for each slot beside the variable. */
void
ipu_steps_sgd_update(ipu_steps_call *call)
{
    const ipu_cost_call *types = call->types;
    for (uint32_t i = 0; i < types->output_count; i++) {
        const ipu_type *type = &types->outputs[i];
        element_wise(call, i == 0 ? "" : "slot", type, elements(type), 3);
    }
}

void
ipu_steps_adam_update(ipu_steps_call *call)
{
    const ipu_type *type = &call->types->outputs[0];
    element_wise(call, "", type, elements(type), 40);
}

void
ipu_steps_gather_sgd_update(ipu_steps_call *call)
{
    add_rows(call, &call->types->inputs[1]);
}

void
ipu_steps_matmul_sgd_update(ipu_steps_call *call)
{
    estimate(call, 4); /* an optimisation for the host: no graph has it yet */
}

void
ipu_steps_fused_update(ipu_steps_call *call)
{
    estimate(call, 4); /* likewise */
}

/* --- what has no formula --------------------------------------------------------- */

/* Bitonic: log2(n) (log2(n) + 1) / 2 rounds of comparing neighbours. */
void
ipu_steps_sorting(ipu_steps_call *call)
{
    const ipu_shape *shape = &call->types->inputs[0].shape;
    double row = shape->rank == 0 ? 1 : (double)shape->dims[shape->rank - 1];
    double depth = ceil(log2(row + 1));
    estimate(call, depth * (depth + 1) / 2);
}

#define ESTIMATED(name) \
    void ipu_steps_##name(ipu_steps_call *call) \
    { \
        estimate(call, 8); \
    }
ESTIMATED(cholesky)
ESTIMATED(triangular_solve)
ESTIMATED(elimination)
ESTIMATED(solve)
ESTIMATED(rotations)
#undef ESTIMATED

/* --- the column ------------------------------------------------------------------ */

#define IPU_OP(NAME, text, min_in, max_in, outputs, dtypes, shape, cost, flags) \
    ipu_steps_##cost,
static ipu_steps_fn *const rules[IPU_OP_ID_COUNT] = {
#include "ops.def"
};
#undef IPU_OP

ipu_status
ipu_steps_add(ipu_steps_call *call)
{
    rules[call->op](call);
    return call->status;
}
