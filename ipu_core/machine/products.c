/* SPDX-License-Identifier: MIT */
#include "machine/products.h"

#include <math.h>

#include "base/convolution.h"
#include "base/hash.h"

static double
elements(const ipu_type *type)
{
    return (double)ipu_shape_elements(&type->shape);
}

ipu_product
ipu_product_of_matrices(double batch, double rows, double inner, double columns)
{
    return (ipu_product){.batch = 1,
                         .groups = (int64_t)batch,
                         .in = (int64_t)inner,
                         .out = (int64_t)columns,
                         .field = {(int64_t)rows, 1},
                         .input = {(int64_t)rows, 1},
                         .kernel = {1, 1},
                         .stride = {1, 1}};
}

/* Of which operand `left` is the left one. */
static ipu_product
of_matmul(const ipu_cost_call *types, uint32_t left)
{
    const ipu_shape *a = &types->inputs[left].shape;
    const ipu_shape *b = &types->inputs[left + 1].shape;
    bool transposed = ipu_attrs_int(types->attrs, IPU_ATTR_TRANSPOSE_A, 0) != 0;
    bool b_transposed = ipu_attrs_int(types->attrs, IPU_ATTR_TRANSPOSE_B, 0) != 0;
    double rows = (double)a->dims[a->rank - (transposed ? 1 : 2)];
    double inner = (double)a->dims[a->rank - (transposed ? 2 : 1)];
    double columns = (double)b->dims[b->rank - (b_transposed ? 2 : 1)];
    if (rows * columns * inner == 0) {
        return (ipu_product){0};
    }
    double of_a = elements(&types->inputs[left]) / (rows * inner);
    double of_b = elements(&types->inputs[left + 1]) / (inner * columns);
    if (of_b == 1) { /* one right operand serves all: its rows are more */
        rows *= of_a;
        of_a = 1;
    }
    return ipu_product_of_matrices(fmax(of_a, of_b), rows, inner, columns);
}

static int64_t
ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

/* A third spatial axis counts as rows of the field and of the kernel. */
static ipu_product
of_convolution(const ipu_cost_call *types, const ipu_shape *x, bool is_grad)
{
    ipu_convolution c;
    ipu_convolution_of(types->attrs, x, &types->inputs[1].shape, &c);
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
    return p;
}

/* The product of x's windows with dy: [kernel positions * depth, batch * out] by
 * [batch * out, filters]. */
static ipu_product
of_filter_gradient(const ipu_cost_call *types)
{
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
    return ipu_product_of_matrices(groups, window * (double)c.depth, field,
                                   groups == 0 ? 0 : (double)c.filters / groups);
}

int32_t
ipu_product_first(ipu_op op)
{
    switch (op) {
    case IPU_OP_ID_MATMUL:
    case IPU_OP_ID_FUSED_MATMUL:
    case IPU_OP_ID_CONV:
    case IPU_OP_ID_FUSED_CONV:
    case IPU_OP_ID_CONV_GRAD_INPUT:
    case IPU_OP_ID_CONV_GRAD_FILTER:
        return 0;
    case IPU_OP_ID_MATMUL_ACCUMULATE:
        return 1;
    default:
        return -1;
    }
}

ipu_product
ipu_product_of_node(ipu_op op, const ipu_cost_call *types)
{
    switch (op) {
    case IPU_OP_ID_CONV:
    case IPU_OP_ID_FUSED_CONV:
        return of_convolution(types, &types->inputs[0].shape, false);
    case IPU_OP_ID_CONV_GRAD_INPUT:
        return of_convolution(types, &types->outputs[0].shape, true);
    case IPU_OP_ID_CONV_GRAD_FILTER:
        return of_filter_gradient(types);
    default:
        return of_matmul(types, (uint32_t)ipu_product_first(op));
    }
}

static ipu_product_class
class_of(ipu_op op)
{
    bool is_conv = op == IPU_OP_ID_CONV || op == IPU_OP_ID_CONV_GRAD_INPUT ||
                   op == IPU_OP_ID_CONV_GRAD_FILTER;
    return is_conv ? IPU_CONVOLUTIONS : IPU_MATMULS;
}

bool
ipu_product_complete(const ipu_product_asker *asker, ipu_op op, const ipu_type *type,
                     ipu_product *product)
{
    bool is_half = ipu_dtype_bytes(type->dtype) == 2;
    product->precision =
        is_half ? asker->options->products[class_of(op)].half : IPU_PRECISION_FLOAT;
    if (ipu_product_check(asker->ctx, product) != IPU_OK) {
        ipu_ctx_clear(asker->ctx);
        return false;
    }
    return true;
}

/* All that a plan may take, in any number of steps. Its cycles count for the code alone,
 * which equal products share. */
static ipu_product_plan
most_of(const ipu_chip *chip, const ipu_product *product, double share)
{
    enum { MARKS = 4096, KEPT = 8 /* bytes for one that is exchanged; nominal */ };
    uint64_t hash = ipu_hash_bytes(IPU_HASH_START, product, sizeof(*product));
    double mark = (double)(hash % MARKS);
    double bytes = ipu_product_most_bytes(chip, product, share);
    return (ipu_product_plan){
        .split = {.serial_in = 1, .serial_out = 1},
        .cost = {.inputs = bytes / KEPT / chip->exchange_bytes + mark,
                 .arithmetic = mark,
                 .partials = mark,
                 .reduction = mark,
                 .copies = mark,
                 .bytes = bytes},
    };
}

ipu_product_plan
ipu_product_ask(const ipu_product_asker *asker, ipu_op op, const ipu_product *product)
{
    double share = asker->options->products[class_of(op)].memory_share;
    return asker->options->is_bound
               ? most_of(asker->chip, product, share)
               : ipu_plans_ask(asker->plans, asker->chip, product, share);
}

/* The three products of a layer without a window exchange its rows and channels, and so
 * share operands. Their results are others. */
static uint32_t
layer_of(const ipu_product *p, ipu_product_role role)
{
    int64_t sides[] = {p->batch * p->field[0] * p->field[1], p->in, p->out};
    int64_t sum = sides[0] + sides[1] + sides[2];
    int64_t pairs = sides[0] * sides[1] + (sides[0] + sides[1]) * sides[2];
    int64_t has_window = p->kernel[0] * p->kernel[1] > 1;
    int64_t is_result = role == IPU_PRODUCT_RESULT;
    int64_t key[] = {p->groups, p->precision, sum, pairs, has_window, is_result};
    uint64_t hash = ipu_hash_bytes(IPU_HASH_START, key, sizeof(key));
    if (has_window) {
        hash = ipu_hash_bytes(hash, p, sizeof(*p));
    }
    return (uint32_t)(hash >> 32) | 1;
}

ipu_mapping
ipu_product_mapping(const ipu_chip *chip, const ipu_product *product,
                    ipu_product_role role, bool flipped, const ipu_type *type)
{
    int64_t key[] = {role, flipped};
    uint64_t hash = ipu_hash_bytes(IPU_HASH_START, product, sizeof(*product));
    uint32_t start = (uint32_t)(hash >> 32) % (uint32_t)chip->tiles;
    hash = ipu_hash_bytes(hash, key, sizeof(key));
    return (ipu_mapping){.layer = layer_of(product, role),
                         .plan = (uint32_t)(hash >> 32),
                         .start = start,
                         .tiles = (uint32_t)ipu_mapping_tiles(type, chip->tiles)};
}
