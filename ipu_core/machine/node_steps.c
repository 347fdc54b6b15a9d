/* SPDX-License-Identifier: MIT
 *
 * How popops, popnn and poplin run each class of ops: sequences of compute sets and
 * exchanges. Instructions are of poplibs' estimators (docs/machine.md); what no formula
 * is known for is an estimate by arithmetic and bytes, and says so. */
#include "machine/node_steps.h"

#include <math.h>
#include <string.h>

#include "machine/links.h"
#include "machine/vertex.h"

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
    double least = ceil(IPU_LEAST_TILE_BYTES / (double)ipu_dtype_bytes(type->dtype));
    double each = fmax(ceil(count / call->asker.chip->tiles), least);
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
        call->status = IPU_ARRAY_PUSH(call->asker.ctx, &call->account->steps, step);
    }
}

/* A compute set: vertices and their start. */
static void
compute(ipu_steps_call *call, const char *part, double cycles, double tiles)
{
    add(call, IPU_STEP_COMPUTE, part, cycles + call->asker.chip->launch_cycles, tiles,
        false);
}

/* All tiles wait for each other, and those that take part exchange. */
static void
exchange_in(ipu_steps_call *call, const char *part, double synced, double moved,
            double tiles, bool is_estimated)
{
    add(call, IPU_STEP_SYNC, part, synced, call->asker.chip->tiles, is_estimated);
    if (moved > 0) {
        add(call, IPU_STEP_EXCHANGE, part, moved, tiles, is_estimated);
    }
}

/* A tile sends or takes so many bytes. */
static void
exchange(ipu_steps_call *call, const char *part, double bytes, double tiles)
{
    const ipu_chip *chip = call->asker.chip;
    exchange_in(call, part, chip->exchange_cycles, bytes / chip->exchange_bytes, tiles,
                false);
}

/* What a vertex of an element-wise op takes before its loop. */
typedef struct prologue {
    double supervisor; /* cycles */
    double worker;     /* instructions */
} prologue;

static const prologue of_binary = {11, 26};
static const prologue of_unary = {20, 17};
static const prologue of_activation = {9, 23};
static const prologue of_cast = {12, 37};
static const prologue of_random = {4, 138};

/* An element-wise compute set over values like `type`. */
static void
element_wise_by(ipu_steps_call *call, const char *part, const ipu_type *type,
                double count, const prologue *start, double instructions)
{
    if (count == 0) {
        return;
    }
    double workers = call->asker.chip->workers;
    double vectors = ceil(on_tile(call, type, count) / vector_of(type) / workers);
    compute(call, part,
            start->supervisor + workers * (start->worker + instructions * vectors),
            tiles_for(call, type, count));
}

static void
element_wise(ipu_steps_call *call, const char *part, const ipu_type *type, double count,
             double instructions)
{
    element_wise_by(call, part, type, count, &of_binary, instructions);
}

/* `count` partial results of each of `results` become one: by popops' rule in one stage,
 * in two from 16 on and in three from 125 on, of about as many each. */
static void
gather_partials(ipu_steps_call *call, const char *part, double results, double count,
                double tiles)
{
    enum { SUM_BYTES = 4 };
    double stages = count < 16 ? 1 : count < 125 ? 2 : 3;
    double each = ceil(pow(count, 1 / stages));
    while (count > 1) {
        double taken = fmin(each, count);
        count = ceil(count / taken);
        double sums = results * count;
        double kept = ceil(sums / tiles);
        exchange(call, part, kept * taken * SUM_BYTES, fmin(tiles, sums * taken));
        compute(call, part, ipu_vertex_sum(call->asker.chip, kept, taken, 4),
                fmin(tiles, sums));
    }
}

/* Sums, maxima and the like of `count` elements to `results`, `vector` elements at a
 * time: each tile reduces what it has, and the partial results of a result meet on one
 * tile. Where a tile has fewer results than workers, some of these have nothing to do,
 * or several share a result and a further compute set adds what they have. */
static void
reduce_vectors(ipu_steps_call *call, const char *part, const ipu_type *type,
               double count, double results, double vector)
{
    if (count == 0 || results == 0) {
        return;
    }
    const ipu_chip *chip = call->asker.chip;
    double each = on_tile(call, type, count);
    double tiles = tiles_for(call, type, count);
    double row = fmin(each, ceil(count / results));
    double held = fmax(1, floor(each / row)); /* results of a tile */
    double shared = ipu_vertex_reduce(chip, each, held, vector);
    double added = ipu_vertex_sum(chip, held, chip->workers, 4);
    double alone = ipu_vertex_reduce(chip, row * chip->workers, held, vector);
    if (held >= chip->workers || alone <= shared + chip->launch_cycles + added) {
        compute(call, part, fmax(shared, alone), tiles);
    } else {
        compute(call, part, shared, tiles);
        compute(call, part, added, tiles);
    }
    gather_partials(call, part, results, fmin(tiles, ceil(count / results / each)),
                    tiles);
}

static void
reduce(ipu_steps_call *call, const char *part, const ipu_type *type, double count,
       double results)
{
    reduce_vectors(call, part, type, count, results, vector_of(type));
}

/* By arithmetic on scalars and bytes, spread over all tiles. */
static void
estimate(ipu_steps_call *call, double rounds)
{
    const ipu_chip *chip = call->asker.chip;
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

/* Instructions of a worker for a vector of float, and of half; X(OP, prologue, float,
 * half). Activations and their gradients are popnn's, the others popops'. */
#define INSTRUCTIONS(X) \
    X(RELU, activation, 1, 1) \
    X(TANH, activation, 10, 2) \
    X(SIGMOID, activation, 10, 4) \
    X(RELU_GRAD, activation, 3, 3) \
    X(TANH_GRAD, activation, 3, 3) \
    X(SIGMOID_GRAD, activation, 3, 3) \
    X(SQUARE, unary, 2, 2) \
    X(NEG, unary, 2, 2) \
    X(ABS, unary, 2, 2) \
    X(EXP, unary, 6, 4) \
    X(LOG, unary, 12, 4) \
    X(SQRT, unary, 10, 23) \
    X(RSQRT, unary, 8, 19) \
    X(RECIPROCAL, unary, 6, 15) \
    X(GELU, unary, 44, 64) \
    X(GELU_GRAD, binary, 44, 64) \
    X(ADD, binary, 3, 3) \
    X(SUB, binary, 3, 3) \
    X(MUL, binary, 3, 3) \
    X(MAXIMUM, binary, 3, 4) \
    X(MINIMUM, binary, 3, 4) \
    X(DIV, binary, 10, 21) \
    X(SELECT, binary, 4, 4) \
    X(CAST, cast, 2, 2)

static const struct {
    const prologue *start;
    double of_float;
    double of_half;
} instructions[IPU_OP_ID_COUNT] = {
#define X(NAME, start, float, half) [IPU_OP_ID_##NAME] = {&of_##start, float, half},
    INSTRUCTIONS(X)
#undef X
};

static void
collective(ipu_steps_call *call)
{
    const ipu_chip *chip = call->asker.chip;
    const ipu_account_options *options = call->asker.options;
    double group = (double)ipu_attrs_int(call->types->attrs, IPU_ATTR_GROUP_SIZE, 0);
    double count = group > 0 ? fmin(group, options->replicas) : options->replicas;
    double bytes = fmax((double)ipu_type_bytes(&call->types->inputs[0]),
                        (double)ipu_type_bytes(&call->types->outputs[0]));
    double rounds = call->op == IPU_OP_ID_ALL_REDUCE ? 2 : 1;
    double seconds =
        rounds * ipu_link_round(chip, count, options->replica_ipus, bytes);
    if (seconds > 0) {
        add(call, IPU_STEP_COLLECTIVE, "", chip->clock * seconds, chip->tiles, true);
    }
}

/* Operands that lie elsewhere are sent to the elements of the result, or of the
 * variable that is updated: smaller operands, and those of another layout. */
static void
send_operands(ipu_steps_call *call, const ipu_type *result)
{
    const ipu_cost_call *types = call->types;
    double count = elements(result);
    double sent = 0;
    for (uint32_t i = 0; i < types->input_count; i++) {
        const ipu_type *type = &types->inputs[i];
        const ipu_mapping *from = &call->inputs[i];
        if (from->tiles > 0 &&
            (elements(type) != count || !ipu_mapping_is(from, &call->at))) {
            sent += fmin((double)ipu_type_bytes(type),
                         on_tile(call, result, count) *
                             (double)ipu_dtype_bytes(type->dtype));
        }
    }
    double tiles = tiles_for(call, result, count);
    if (sent > 0 && tiles > 1) {
        exchange(call, "operands", sent, tiles);
    }
}

/* Element-wise ops, all by one rule. */
void
ipu_steps_per_result(ipu_steps_call *call)
{
    enum { OTHER = 4, OTHER_HEAVY = 30 };
    const ipu_cost_call *types = call->types;
    if ((ipu_op_info_of(call->op)->flags & IPU_OP_COLLECTIVE) != 0) {
        collective(call);
        return;
    }
    const ipu_type *result = &types->outputs[0];
    double count = elements(result);
    send_operands(call, result);
    bool half = is_half(result);
    double steps =
        half ? instructions[call->op].of_half : instructions[call->op].of_float;
    const prologue *start = instructions[call->op].start;
    if (start == NULL) {
        bool heavy = (ipu_op_info_of(call->op)->flags & IPU_OP_HEAVY) != 0;
        start = types->input_count > 1 ? &of_binary : &of_unary;
        steps = heavy ? OTHER_HEAVY : OTHER;
    }
    for (uint32_t i = 0; i < types->input_count; i++) {
        bool is_scalar = elements(&types->inputs[i]) == 1 && count > 1;
        steps += is_scalar && types->input_count == 2; /* it is spread over a vector */
    }
    bool is_widened = call->op == IPU_OP_ID_CAST &&
                       ipu_dtype_bytes(types->inputs[0].dtype) <
                           ipu_dtype_bytes(result->dtype);
    element_wise_by(call, "", is_widened ? &types->inputs[0] : result, count, start,
                    steps);
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
    if (call->op == IPU_OP_ID_VARIABLE_ADD) {
        send_operands(call, in);
        element_wise(call, "", in, elements(in), 3);
        return;
    }
    if (call->op == IPU_OP_ID_ARGMAX || call->op == IPU_OP_ID_ARGMIN) {
        const double vector = 2.0 / 3; /* 3 instructions for an element */
        reduce_vectors(call, "", in, elements(in), elements(&types->outputs[0]),
                       vector);
        return;
    }
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
    if (call->op == IPU_OP_ID_CROSS_ENTROPY) { /* 9 instructions for a float */
        element_wise(call, "loss", in, count, half ? 2 : 18);
        reduce(call, "loss", in, count, rows);
    } else if (call->op == IPU_OP_ID_SPARSE_CROSS_ENTROPY) {
        element_wise(call, "loss", in, rows, half ? 4 : 12);
    }
}

/* Two sums over the statistics' axes and three element-wise passes; back one more, and
 * another one where the mean is subtracted before squares are summed. */
static void
normalize(ipu_steps_call *call, int passes)
{
    passes += call->asker.options->has_stable_norms;
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

/* A copy by all workers. */
static void
copy(ipu_steps_call *call, const char *part, double bytes, double tiles)
{
    const ipu_chip *chip = call->asker.chip;
    add(call, IPU_STEP_COPY, part, chip->launch_cycles + ipu_vertex_copy(chip, bytes),
        tiles, false);
}

void
ipu_steps_lay_out(ipu_steps_call *call, const char *part, const ipu_type *type,
                  const ipu_mapping *from, const ipu_mapping *to, bool is_there)
{
    double bytes = (double)ipu_type_bytes(type);
    if (ipu_mapping_is(from, to) || from->tiles == 0 || to->tiles == 0 || bytes == 0) {
        return;
    }
    bytes = ceil(bytes / fmin(from->tiles, to->tiles));
    if (!is_there) {
        exchange(call, part, bytes, fmax(from->tiles, to->tiles));
    }
    copy(call, part, bytes, to->tiles);
}

/* An operand, or a result, of one of a node's products. */
typedef struct placed {
    ipu_type type;
    ipu_mapping at;
} placed;

/* An operand laid out for the same fully connected layer is there, in another order. */
static void
lay_out(ipu_steps_call *call, const ipu_product *product, const placed *operand,
        ipu_product_role role, bool flipped)
{
    const char *part = role == IPU_PRODUCT_INPUTS ? "layout of inputs"
                                                  : "layout of weights";
    ipu_mapping to = ipu_product_mapping(call->asker.chip, product, role, flipped,
                                         &operand->type);
    bool is_joint =
        call->asker.options->has_joint_plans && call->op == IPU_OP_ID_MATMUL;
    ipu_steps_lay_out(call, part, &operand->type, &operand->at, &to,
                      is_joint && operand->at.layer == to.layer);
}

static placed
operand_of(const ipu_steps_call *call, uint32_t i)
{
    return (placed){call->types->inputs[i], call->inputs[i]};
}

/* The steps of a plan, its operands laid out for it. */
static void
run_plan(ipu_steps_call *call, const ipu_product *product)
{
    const ipu_chip *chip = call->asker.chip;
    ipu_product_plan plan = ipu_product_ask(&call->asker, call->op, product);
    const ipu_product_split *split = &plan.split;
    const ipu_product_cost *cost = &plan.cost;
    double tiles = ipu_product_tiles(split);
    double turns = (double)(split->serial_in * split->serial_out);
    double started = turns * chip->launch_cycles;
    double synced = turns * chip->exchange_cycles;
    bool estimated = split->vertex != IPU_VERTEX_AMP;
    exchange_in(call, "operands", chip->slowdown * synced,
                chip->slowdown * (cost->inputs + cost->weights), tiles, estimated);
    add(call, IPU_STEP_COMPUTE, ipu_product_vertex_name(split->vertex),
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

void
ipu_steps_product(ipu_steps_call *call)
{
    const ipu_cost_call *types = call->types;
    uint32_t first = (uint32_t)ipu_product_first(call->op);
    ipu_product asked = ipu_product_of_node(call->op, types);
    if (ipu_product_complete(&call->asker, call->op, &types->inputs[first], &asked)) {
        const ipu_attrs attrs = types->attrs;
        placed left = operand_of(call, first);
        placed right = operand_of(call, first + 1);
        lay_out(call, &asked, &left, IPU_PRODUCT_INPUTS,
                ipu_attrs_int(attrs, IPU_ATTR_TRANSPOSE_A, 0) != 0);
        lay_out(call, &asked, &right, IPU_PRODUCT_WEIGHTS,
                ipu_attrs_int(attrs, IPU_ATTR_TRANSPOSE_B, 0) != 0);
        run_plan(call, &asked);
    } else if (elements(&types->inputs[first]) > 0) { /* too many to plan */
        estimate(call, 4);
    }
}

void
ipu_steps_product_and_sum(ipu_steps_call *call)
{
    ipu_steps_product(call);
}

void
ipu_steps_conv(ipu_steps_call *call)
{
    ipu_steps_product(call);
}

void
ipu_steps_conv_grad_input(ipu_steps_call *call)
{
    ipu_steps_product(call);
}

void
ipu_steps_conv_grad_filter(ipu_steps_call *call)
{
    ipu_steps_product(call);
}

void
ipu_steps_fused_conv_grad_input(ipu_steps_call *call)
{
    estimate(call, 4); /* an optimisation for the host: no graph has it yet */
}

/* One of several of a node: of the last two axes of its operands, whose others are a
 * batch. A flipped operand has these two exchanged. */
static placed
matmul(ipu_steps_call *call, const placed *left, bool left_flipped, const placed *right,
       bool right_flipped)
{
    placed result = *left;
    int32_t rank = left->type.shape.rank;
    const int64_t *a = &left->type.shape.dims[rank - 2];
    const int64_t *b = &right->type.shape.dims[right->type.shape.rank - 2];
    int64_t rows = a[left_flipped];
    int64_t columns = b[!right_flipped];
    result.type.shape.dims[rank - 2] = rows;
    result.type.shape.dims[rank - 1] = columns;
    ipu_product asked = ipu_product_of_matrices(
        (double)ipu_shape_span(&left->type.shape, 0, rank - 2), (double)rows,
        (double)a[!left_flipped], (double)columns);
    if (ipu_product_complete(&call->asker, call->op, &left->type, &asked)) {
        lay_out(call, &asked, left, IPU_PRODUCT_INPUTS, left_flipped);
        lay_out(call, &asked, right, IPU_PRODUCT_WEIGHTS, right_flipped);
        run_plan(call, &asked);
        result.at = ipu_product_mapping(call->asker.chip, &asked, IPU_PRODUCT_RESULT,
                                        false, &result.type);
    } else if (elements(&left->type) > 0) {
        estimate(call, 4);
    }
    return result;
}

/* What a product of the node leaves goes to where the node's result is. */
static void
give(ipu_steps_call *call, const placed *made, uint32_t output)
{
    ipu_steps_lay_out(call, "layout of results", &made->type, &made->at,
                      &call->inputs[call->types->input_count + output], false);
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
    double vectors = ceil(each / vector_of(small) / call->asker.chip->workers);
    double start = is_back ? 7 : call->op == IPU_OP_ID_AVERAGE_POOL ? 5 : 4;
    exchange(call, "windows", each * window * (double)ipu_dtype_bytes(small->dtype),
             tiles);
    compute(call, "",
            call->asker.chip->workers *
                (33 + vectors * (3 + start + (is_back ? 5 : 3) * window)),
            tiles);
}

/* Elements that move are sent, and copied into their order. */
void
ipu_steps_movement(ipu_steps_call *call)
{
    const ipu_cost_call *types = call->types;
    const ipu_chip *chip = call->asker.chip;
    double bytes = 0;
    for (uint32_t i = 0; i < types->output_count; i++) {
        bytes += (double)ipu_type_bytes(&types->outputs[i]);
    }
    if (call->op == IPU_OP_ID_INFEED_DEQUEUE || call->op == IPU_OP_ID_OUTFEED_ENQUEUE ||
        call->op == IPU_OP_ID_HOST_CALL) {
        for (uint32_t i = 0; i < types->input_count; i++) {
            bytes += (double)ipu_type_bytes(&types->inputs[i]);
        }
        const ipu_account_options *options = call->asker.options;
        double rate =
            ipu_link_host_rate(chip, options->replicas, options->replica_ipus);
        add(call, IPU_STEP_STREAM, "",
            chip->clock * (chip->host_seconds + bytes / rate), chip->tiles, false);
        return;
    }
    if (bytes == 0) {
        return;
    }
    double each = ceil(fmax(bytes / chip->tiles, fmin(bytes, IPU_LEAST_TILE_BYTES)));
    double tiles = ceil(bytes / each);
    bool is_there = call->op == IPU_OP_ID_VARIABLE_ASSIGN &&
                    ipu_mapping_is(&call->inputs[0], &call->at);
    if (!is_there) {
        exchange(call, "", each, tiles);
    }
    copy(call, "", each, tiles);
}

/* A few rows of many: where they lie sends them, and multiSlice copies each. Those that
 * do not fit into the share of a tile that slices may take come after each other. */
void
ipu_steps_pick(ipu_steps_call *call)
{
    const ipu_chip *chip = call->asker.chip;
    const ipu_type *result = &call->types->outputs[0];
    double count = elements(result);
    if ((call->op != IPU_OP_ID_GATHER && call->op != IPU_OP_ID_GATHER_ND) ||
        count == 0) {
        ipu_steps_movement(call);
        return;
    }
    double size = (double)ipu_dtype_bytes(result->dtype);
    double each = ceil(count / ipu_mapping_tiles(result, chip->tiles));
    double rows = fmax(1, elements(&call->types->inputs[1])); /* indices */
    double share = call->asker.options->slice_share * chip->tile_bytes;
    double turns = ceil(each * size / share);
    each = ceil(each / turns);
    double wide = fmin(each, ceil(count / rows)); /* of a row that is on a tile */
    ipu_steps_call part = *call;
    part.like.times *= turns;
    double tiles = ceil(count / turns / each);
    exchange(&part, "rows", each * size, tiles);
    compute(&part, "",
            chip->workers *
                (38 + ceil(each / wide / chip->workers) *
                          (19 + 2 * ceil(wide / vector_of(result)))),
            tiles);
    call->status = part.status;
    call->temporary_bytes = fmax(call->temporary_bytes, each * size);
}

/* multiUpdateAdd: rows are added to where the indices say that they belong. */
static void
add_rows(ipu_steps_call *call, const ipu_type *indices, const ipu_type *rows)
{
    double count = elements(rows);
    if (count == 0) {
        return;
    }
    double workers = call->asker.chip->workers;
    double tiles = tiles_for(call, rows, count);
    double each = on_tile(call, rows, count);
    double wide = fmin(each, ceil(count / fmax(1, elements(indices))));
    exchange(call, "rows", each * (double)ipu_dtype_bytes(rows->dtype), tiles);
    compute(call, "",
            workers * (38 + ceil(each / wide / workers) *
                                (12 + 3 * (ceil(wide / vector_of(rows)) - 1))),
            tiles);
}

void
ipu_steps_sum_up(ipu_steps_call *call)
{
    const ipu_cost_call *types = call->types;
    /* one window, whose start follows */
    bool is_window = call->op == IPU_OP_ID_DYNAMIC_ADD_SLICE;
    add_rows(call, &types->inputs[is_window ? 2 : 0], &types->inputs[1]);
}

void
ipu_steps_scatter(ipu_steps_call *call)
{
    add_rows(call, &call->types->inputs[1], &call->types->inputs[2]);
}

/* --- random numbers -------------------------------------------------------------- */

static void
draw(ipu_steps_call *call, double instructions_each)
{
    const ipu_type *result = &call->types->outputs[0];
    element_wise_by(call, "", result, elements(result), &of_random, instructions_each);
}

void
ipu_steps_uniform(ipu_steps_call *call)
{
    draw(call, 4);
}

void
ipu_steps_normal(ipu_steps_call *call)
{
    draw(call, 4);
}

void
ipu_steps_dropout(ipu_steps_call *call)
{
    draw(call, 2);
}

/* --- sequences, attention -------------------------------------------------------- */

/* popnn's loop of steps: a product with the kernel, and the gates, one after another.
 * The kernel is laid out once, the state, which the last step left as a result, in each
 * step; what the inputs give to the gates goes to where the product's result is. */
void
ipu_steps_recurrent(ipu_steps_call *call)
{
    placed kernel = operand_of(call, 1);
    /* of the first two axes one is that of the steps, the other the batch */
    int64_t axis = ipu_attrs_int(call->types->attrs, IPU_ATTR_AXIS, 0);
    const ipu_type *gates = &call->types->inputs[0];
    double steps = (double)gates->shape.dims[axis];
    int64_t rows = gates->shape.dims[1 - axis];
    int64_t units = kernel.type.shape.dims[0];
    int64_t wide = kernel.type.shape.dims[1];
    placed state = {{gates->dtype, ipu_shape_make(2, (int64_t[]){rows, units})}, {0}};
    placed result = {{gates->dtype, ipu_shape_make(2, (int64_t[]){rows, wide})}, {0}};
    ipu_product asked =
        ipu_product_of_matrices(1, (double)rows, (double)units, (double)wide);
    ipu_steps_call each = *call;
    each.like.times *= steps;
    if (ipu_product_complete(&call->asker, call->op, gates, &asked)) {
        const ipu_chip *chip = call->asker.chip;
        placed input = {result.type, call->inputs[0]};
        state.at = ipu_product_mapping(chip, &asked, IPU_PRODUCT_RESULT, false,
                                       &state.type);
        result.at = ipu_product_mapping(chip, &asked, IPU_PRODUCT_RESULT, false,
                                        &result.type);
        lay_out(call, &asked, &kernel, IPU_PRODUCT_WEIGHTS, false);
        lay_out(&each, &asked, &state, IPU_PRODUCT_INPUTS, false);
        run_plan(&each, &asked);
        ipu_steps_lay_out(&each, "layout of inputs", &input.type, &input.at, &result.at,
                          false);
    } else if (elements(gates) > 0) {
        estimate(&each, 4);
    }
    double count = elements(&result.type);
    element_wise(&each, "gates", gates, count, is_half(gates) ? 6 : 12);
    element_wise(&each, "states", gates, elements(&state.type), 12);
    call->status = call->status == IPU_OK ? each.status : call->status;
    call->temporary_bytes = each.temporary_bytes;
}

void
ipu_steps_recurrence(ipu_steps_call *call)
{
    const ipu_type *result = &call->types->outputs[0];
    ipu_steps_call each = *call;
    int64_t axis = ipu_attrs_int(call->types->attrs, IPU_ATTR_AXIS, 0);
    double steps = result->shape.rank == 0 ? 1 : (double)result->shape.dims[axis];
    each.like.times *= steps;
    element_wise(&each, "", result, steps == 0 ? 0 : elements(result) / steps, 4);
    call->status = each.status;
}

/* As single ops: scores, softmax, their product with v. */
static void
attend(ipu_steps_call *call, bool is_grad)
{
    placed q = operand_of(call, 0);
    placed k = operand_of(call, 1);
    placed v = operand_of(call, 2);
    placed weights = matmul(call, &q, false, &k, true);
    const ipu_type *type = &weights.type;
    double scores = elements(type);
    double rows = scores / fmax(1, (double)type->shape.dims[type->shape.rank - 1]);
    reduce(call, "maximum", type, scores, rows);
    element_wise(call, "exponential", type, scores, is_half(type) ? 4 : 6);
    reduce(call, "sum", type, scores, rows);
    element_wise(call, "product", type, scores, 3);
    if (!is_grad) {
        placed result = matmul(call, &weights, false, &v, false);
        give(call, &result, 0);
        return;
    }
    placed dy = operand_of(call, 3);
    placed dweights = matmul(call, &dy, false, &v, true);
    placed dv = matmul(call, &weights, true, &dy, false);
    element_wise(call, "gradient", type, scores, 9);
    placed dq = matmul(call, &dweights, false, &k, false);
    placed dk = matmul(call, &dweights, true, &q, false);
    give(call, &dq, 0);
    give(call, &dk, 1);
    give(call, &dv, 2);
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
    send_operands(call, &types->outputs[0]);
    for (uint32_t i = 0; i < types->output_count; i++) {
        const ipu_type *type = &types->outputs[i];
        element_wise(call, i == 0 ? "" : "slot", type, elements(type), 3);
    }
}

void
ipu_steps_adam_update(ipu_steps_call *call)
{
    const ipu_type *type = &call->types->outputs[0];
    send_operands(call, type);
    element_wise(call, "", type, elements(type), 40);
}

void
ipu_steps_gather_sgd_update(ipu_steps_call *call)
{
    add_rows(call, &call->types->inputs[0], &call->types->inputs[1]);
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
