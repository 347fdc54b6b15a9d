/* SPDX-License-Identifier: MIT
 *
 * lstm, gru and their gradients, each written out in single ops, step by step, and
 * differentiated as these are. So gradients of any order are there; the first one,
 * which all training needs, is an op (rules_recurrent.c). In: a node of one of the four
 * ops, with gradients of any of its outputs. Out: those of its inputs.
 *
 * A step reads its cell of a sequence as a value of its own. These cells are the xs of
 * the differentiation, and the cells of results its ys, so that no gradient is as long
 * as the sequence before all are joined at the end. Only the nodes of the steps are
 * differentiated (ipu_gradient_scope). One thread per graph. */
#include "autodiff/autodiff.h"
#include "autodiff/rule_terms.h"

enum { MOST_OPERANDS = 10 };

#define TANH(x) ipu__rule_unary(r, IPU_OP_ID_TANH, (x))
#define SIGMOID(x) ipu__rule_unary(r, IPU_OP_ID_SIGMOID, (x))

/* The variable of a derivative: an operand, or its cell of a step. */
typedef struct cell_read {
    uint32_t operand;
    int64_t step; /* in memory; -1: all of the operand */
} cell_read;

typedef struct step_walk {
    ipu_rule *r;
    int32_t time; /* which axis */
    bool reverse;
    bool reset_after;
    int64_t steps;
    int64_t batch;
    int64_t units;
    ipu_value mask; /* or IPU_NO_VALUE */
    IPU_ARRAY(cell_read) reads;
    IPU_ARRAY(ipu_value) xs; /* as many */
    IPU_ARRAY(ipu_value) ys;
    IPU_ARRAY(ipu_value) grads; /* as many */
} step_walk;

/* The k-th step that is made, as it lies in memory. */
static int64_t
step_at(const step_walk *w, int64_t k)
{
    return w->reverse ? w->steps - 1 - k : k;
}

/* --- reading operands, giving results --------------------------------------------- */

/* Columns [begin, begin + n) of a matrix. */
static ipu_value
columns(ipu_rule *r, ipu_value x, int64_t begin, int64_t n)
{
    ipu_shape size = ipu__rule_type(r, x).shape;
    if (size.dims[1] == n) {
        return x;
    }
    size.dims[1] = n;
    return ipu__rule_slice(r, x, (int64_t[]){0, begin}, &size);
}

/* Columns of a sequence at a step in memory: [batch, n]. */
static ipu_value
sequence_cell(const step_walk *w, ipu_value x, int64_t step, int64_t begin, int64_t n)
{
    int64_t begins[3] = {0, 0, begin};
    ipu_shape size = ipu_shape_make(3, (int64_t[]){w->batch, w->batch, n});
    ipu_shape flat = ipu_shape_make(2, (int64_t[]){w->batch, n});
    begins[w->time] = step;
    size.dims[w->time] = 1;
    return ipu__rule_reshape(w->r, ipu__rule_slice(w->r, x, begins, &size), &flat);
}

static ipu_value
note_read(step_walk *w, ipu_value x, cell_read read)
{
    ipu_rule *r = w->r;
    if (r->status == IPU_OK && r->wanted[read.operand]) {
        r->status = IPU_ARRAY_PUSH(r->ctx, &w->xs, x);
    }
    if (r->status == IPU_OK && r->wanted[read.operand]) {
        r->status = IPU_ARRAY_PUSH(r->ctx, &w->reads, read);
    }
    return x;
}

/* All of an operand, as a value of its own: two operands may be one value. */
static ipu_value
whole(step_walk *w, uint32_t operand)
{
    ipu_value x = ipu__rule_unary(w->r, IPU_OP_ID_IDENTITY, w->r->inputs[operand]);
    return note_read(w, x, (cell_read){operand, -1});
}

/* An operand's cell of the k-th step. */
static ipu_value
cell(step_walk *w, uint32_t operand, int64_t k)
{
    int64_t step = step_at(w, k);
    ipu_value x = w->r->inputs[operand];
    int64_t n = ipu__rule_type(w->r, x).shape.dims[2];
    return note_read(w, sequence_cell(w, x, step, 0, n), (cell_read){operand, step});
}

/* A state before the k-th step: in a sequence of states, or the first one. */
static ipu_value
state_before(step_walk *w, uint32_t states, uint32_t first, int64_t k)
{
    return k == 0 ? whole(w, first) : cell(w, states, k - 1);
}

static void
give(step_walk *w, ipu_value y, ipu_value grad)
{
    ipu_rule *r = w->r;
    if (r->status == IPU_OK) {
        r->status = IPU_ARRAY_PUSH(r->ctx, &w->ys, y);
    }
    if (r->status == IPU_OK) {
        r->status = IPU_ARRAY_PUSH(r->ctx, &w->grads, grad);
    }
}

/* y is what the node's output holds in the k-th step, from column `begin` on. */
static void
give_cell(step_walk *w, uint32_t output, int64_t k, int64_t begin, ipu_value y)
{
    ipu_value grad = w->r->grads[output];
    if (grad.index != IPU_NO_INDEX) {
        int64_t n = ipu__rule_type(w->r, y).shape.dims[1];
        give(w, y, sequence_cell(w, grad, step_at(w, k), begin, n));
    }
}

static void
give_whole(step_walk *w, uint32_t output, ipu_value y)
{
    if (w->r->grads[output].index != IPU_NO_INDEX) {
        give(w, y, w->r->grads[output]);
    }
}

static ipu_value
zeros(const step_walk *w, int64_t n)
{
    ipu_shape shape = ipu_shape_make(2, (int64_t[]){w->batch, n});
    ipu_value zero = ipu__rule_number(w->r, w->r->inputs[0], 0.0);
    return ipu__rule_broadcast(w->r, zero, &shape);
}

/* `live` where the mask of the k-th step is true, else `other`. */
static ipu_value
where_live(const step_walk *w, int64_t k, ipu_value live, ipu_value other)
{
    ipu_rule *r = w->r;
    if (w->mask.index == IPU_NO_INDEX) {
        return live;
    }
    int64_t begin[2] = {0, 0};
    ipu_shape size = ipu_shape_make(2, (int64_t[]){w->batch, w->batch});
    ipu_shape column = ipu_shape_make(2, (int64_t[]){w->batch, 1});
    ipu_shape shape = ipu__rule_type(r, live).shape;
    begin[w->time] = step_at(w, k);
    size.dims[w->time] = 1;
    ipu_value mask = ipu__rule_slice(r, w->mask, begin, &size);
    mask = ipu__rule_broadcast(r, ipu__rule_reshape(r, mask, &column), &shape);
    return ipu__rule_select(r, mask, live, other);
}

static ipu_value
live_or_zero(const step_walk *w, int64_t k, ipu_value x)
{
    bool masked = w->mask.index != IPU_NO_INDEX;
    int64_t n = ipu__rule_type(w->r, x).shape.dims[1];
    return masked ? where_live(w, k, x, zeros(w, n)) : x;
}

static ipu_value
product(ipu_rule *r, ipu_value a, ipu_value b)
{
    return ipu__rule_product(r, a, b, false, false);
}

/* By the transpose of b. */
static ipu_value
product_back(ipu_rule *r, ipu_value a, ipu_value b)
{
    return ipu__rule_product(r, a, b, false, true);
}

/* d x = d y (1 - y) of y = sigmoid(x) */
static ipu_value
through_sigmoid(ipu_rule *r, ipu_value d, ipu_value y)
{
    return MUL(d, MUL(y, SUB(ipu__rule_number(r, y, 1.0), y)));
}

/* d x = d (1 - y^2) of y = tanh(x) */
static ipu_value
through_tanh(ipu_rule *r, ipu_value d, ipu_value y)
{
    return MUL(d, SUB(ipu__rule_number(r, y, 1.0), MUL(y, y)));
}

/* --- the four ops, as ops.def says them ------------------------------------------- */

static void
lstm_steps(step_walk *w)
{
    ipu_rule *r = w->r;
    int64_t n = w->units;
    ipu_value kernel = whole(w, 1);
    ipu_value h = whole(w, 2);
    ipu_value c = whole(w, 3);
    for (int64_t k = 0; k < w->steps; k++) {
        ipu_value x = ADD(cell(w, 0, k), product(r, h, kernel));
        ipu_value gates[4];
        for (int64_t g = 0; g < 4; g++) {
            ipu_value own = columns(r, x, g * n, n);
            gates[g] = g == 2 ? TANH(own) : SIGMOID(own);
            give_cell(w, 0, k, g * n, live_or_zero(w, k, gates[g]));
        }
        ipu_value next = ADD(MUL(gates[1], c), MUL(gates[0], gates[2]));
        h = where_live(w, k, MUL(gates[3], TANH(next)), h);
        c = where_live(w, k, next, c);
        give_cell(w, 1, k, 0, h);
        give_cell(w, 4, k, 0, c);
    }
    give_whole(w, 2, h);
    give_whole(w, 3, c);
}

/* The gradient of the last state, operand `operand`, or 0. */
static ipu_value
given_or_zero(step_walk *w, int32_t operand)
{
    return operand < 0 ? zeros(w, w->units) : whole(w, (uint32_t)operand);
}

/* Which operands follow the first `next` ones; -1 for what is missing. */
typedef struct given_operands {
    int32_t steps;
    int32_t h;
    int32_t c;
} given_operands;

static given_operands
read_given(step_walk *w, int32_t next)
{
    int64_t given = ipu_attrs_int(w->r->attrs, IPU_ATTR_GIVEN, 0);
    given_operands out;
    w->mask = (given & IPU_GIVEN_MASK) != 0 ? w->r->inputs[next++] : IPU_NO_VALUE;
    out.steps = (given & IPU_GIVEN_STEPS) != 0 ? next++ : -1;
    out.h = (given & IPU_GIVEN_LAST_H) != 0 ? next++ : -1;
    out.c = (given & IPU_GIVEN_LAST_C) != 0 ? next++ : -1;
    return out;
}

static void
lstm_steps_back(step_walk *w)
{
    ipu_rule *r = w->r;
    int64_t n = w->units;
    given_operands given = read_given(w, 6);
    ipu_value kernel = whole(w, 1);
    ipu_value dh = given_or_zero(w, given.h);
    ipu_value dc = given_or_zero(w, given.c);
    ipu_value c = state_before(w, 2, 5, w->steps);
    for (int64_t k = w->steps - 1; k >= 0; k--) {
        ipu_value gates = cell(w, 0, k);
        ipu_value i = columns(r, gates, 0, n);
        ipu_value f = columns(r, gates, n, n);
        ipu_value g = columns(r, gates, 2 * n, n);
        ipu_value o = columns(r, gates, 3 * n, n);
        ipu_value before = state_before(w, 2, 5, k);
        ipu_value t = TANH(c);
        if (given.steps >= 0) {
            dh = ADD(dh, cell(w, (uint32_t)given.steps, k));
        }
        ipu_value total = ADD(dc, through_tanh(r, MUL(dh, o), t));
        const ipu_value parts[4] = {through_sigmoid(r, MUL(total, g), i),
                                    through_sigmoid(r, MUL(total, before), f),
                                    through_tanh(r, MUL(total, i), g),
                                    through_sigmoid(r, MUL(dh, t), o)};
        ipu_value dx = live_or_zero(w, k, ipu__rule_concat(r, parts, 4, 1));
        give_cell(w, 0, k, 0, dx);
        give_cell(w, 1, k, 0, state_before(w, 3, 4, k));
        dc = where_live(w, k, MUL(total, f), dc);
        dh = where_live(w, k, product_back(r, dx, kernel), dh);
        c = before;
    }
    give_whole(w, 2, dh);
    give_whole(w, 3, dc);
}

static void
gru_steps(step_walk *w)
{
    ipu_rule *r = w->r;
    int64_t n = w->units;
    ipu_value kernel = whole(w, 1);
    ipu_value h = whole(w, 2);
    ipu_value bias = w->reset_after ? whole(w, 3) : IPU_NO_VALUE;
    ipu_value outer = columns(r, kernel, 0, w->reset_after ? 3 * n : 2 * n);
    ipu_value inmost = columns(r, kernel, 2 * n, n);
    for (int64_t k = 0; k < w->steps; k++) {
        ipu_value x = cell(w, 0, k);
        ipu_value p = product(r, h, outer);
        p = w->reset_after ? ADD(p, bias) : p;
        ipu_value z = SIGMOID(ADD(columns(r, x, 0, n), columns(r, p, 0, n)));
        ipu_value reset = SIGMOID(ADD(columns(r, x, n, n), columns(r, p, n, n)));
        ipu_value inner = w->reset_after ? columns(r, p, 2 * n, n) : MUL(reset, h);
        ipu_value part = w->reset_after ? MUL(reset, inner) : product(r, inner, inmost);
        ipu_value candidate = TANH(ADD(columns(r, x, 2 * n, n), part));
        ipu_value one = ipu__rule_number(r, z, 1.0);
        ipu_value next = ADD(MUL(z, h), MUL(SUB(one, z), candidate));
        h = where_live(w, k, next, h);
        give_cell(w, 0, k, 0, live_or_zero(w, k, z));
        give_cell(w, 0, k, n, live_or_zero(w, k, reset));
        give_cell(w, 0, k, 2 * n, live_or_zero(w, k, candidate));
        give_cell(w, 1, k, 0, h);
        give_cell(w, 3, k, 0, live_or_zero(w, k, inner));
    }
    give_whole(w, 2, h);
}

static void
gru_steps_back(step_walk *w)
{
    ipu_rule *r = w->r;
    int64_t n = w->units;
    given_operands given = read_given(w, 5);
    ipu_value kernel = whole(w, 1);
    ipu_value dh = given_or_zero(w, given.h);
    ipu_value outer = columns(r, kernel, 0, w->reset_after ? 3 * n : 2 * n);
    ipu_value inmost = columns(r, kernel, 2 * n, n);
    for (int64_t k = w->steps - 1; k >= 0; k--) {
        ipu_value gates = cell(w, 0, k);
        ipu_value z = columns(r, gates, 0, n);
        ipu_value reset = columns(r, gates, n, n);
        ipu_value candidate = columns(r, gates, 2 * n, n);
        ipu_value h = state_before(w, 3, 4, k);
        if (given.steps >= 0) {
            dh = ADD(dh, cell(w, (uint32_t)given.steps, k));
        }
        ipu_value one = ipu__rule_number(r, z, 1.0);
        ipu_value dz = through_sigmoid(r, MUL(dh, SUB(h, candidate)), z);
        ipu_value d = through_tanh(r, MUL(dh, SUB(one, z)), candidate);
        ipu_value met = w->reset_after ? d : product_back(r, d, inmost);
        ipu_value factor = w->reset_after ? cell(w, 2, k) : h;
        ipu_value dr = through_sigmoid(r, MUL(met, factor), reset);
        ipu_value last = w->reset_after ? MUL(d, reset) : d;
        ipu_value parts[3] = {dz, dr, d};
        give_cell(w, 0, k, 0, live_or_zero(w, k, ipu__rule_concat(r, parts, 3, 1)));
        parts[2] = last;
        ipu_value dp = ipu__rule_concat(r, parts, 3, 1);
        give_cell(w, 1, k, 0, live_or_zero(w, k, dp));
        give_cell(w, 2, k, 0, h);
        ipu_value fresh =
            product_back(r, columns(r, dp, 0, w->reset_after ? 3 * n : 2 * n), outer);
        ipu_value next = MUL(dh, z);
        next = w->reset_after ? next : ADD(next, MUL(met, reset));
        dh = where_live(w, k, ADD(next, fresh), dh);
    }
    give_whole(w, 3, dh);
}

/* --- the rule --------------------------------------------------------------------- */

static step_walk
begin(ipu_rule *r)
{
    bool is_lstm = r->op == IPU_OP_ID_LSTM || r->op == IPU_OP_ID_LSTM_GRAD;
    ipu_shape shape = ipu__rule_type(r, r->inputs[0]).shape;
    step_walk w = {
        .r = r,
        .time = ipu_attrs_int(r->attrs, IPU_ATTR_AXIS, 0) == 1 ? 1 : 0,
        .reverse = ipu_attrs_int(r->attrs, IPU_ATTR_REVERSE, 0) != 0,
        .reset_after = ipu_attrs_int(r->attrs, IPU_ATTR_RESET_AFTER, 0) != 0,
        .units = shape.dims[2] / (is_lstm ? 4 : 3),
        .mask = IPU_NO_VALUE,
    };
    w.steps = shape.dims[w.time];
    w.batch = shape.dims[1 - w.time];
    uint32_t mask = is_lstm ? 4 : w.reset_after ? 4 : 3; /* of a forward op */
    if (r->op == IPU_OP_ID_LSTM || r->op == IPU_OP_ID_GRU) {
        w.mask = r->input_count > mask ? r->inputs[mask] : IPU_NO_VALUE;
    }
    return w;
}

/* The gradients of an operand's cells as that of the operand. `cells` has room for one
 * of each step. */
static void
join_cells(const step_walk *w, uint32_t operand, const ipu_value *gradients,
           ipu_value *cells)
{
    ipu_rule *r = w->r;
    ipu_shape shape = ipu__rule_type(r, r->inputs[operand]).shape;
    ipu_value nothing = zeros(w, shape.dims[2]);
    for (int64_t k = 0; k < w->steps; k++) {
        cells[k] = nothing;
    }
    for (size_t i = 0; i < w->reads.count; i++) {
        const cell_read *read = &w->reads.items[i];
        if (read->operand == operand && gradients[i].index != IPU_NO_INDEX) {
            cells[read->step] = gradients[i];
        }
    }
    shape.dims[w->time] = 1;
    for (int64_t k = 0; k < w->steps; k++) {
        cells[k] = ipu__rule_reshape(r, cells[k], &shape);
    }
    ipu__rule_give(r, operand, ipu__rule_concat(r, cells, (uint32_t)w->steps, w->time));
}

/* An operand is read whole, or by its cells. */
static void
give_gradients(const step_walk *w, const ipu_value *gradients, ipu_value *cells)
{
    bool is_joined[MOST_OPERANDS] = {false};
    for (size_t i = 0; i < w->reads.count; i++) {
        const cell_read *read = &w->reads.items[i];
        if (read->step < 0) {
            ipu__rule_give(w->r, read->operand, gradients[i]);
        } else if (!is_joined[read->operand]) {
            is_joined[read->operand] = true;
            join_cells(w, read->operand, gradients, cells);
        }
    }
}

static ipu_status
differentiate(step_walk *w, uint32_t first_node)
{
    ipu_rule *r = w->r;
    const uint32_t span[2] = {first_node, (uint32_t)r->graph->nodes.count};
    const ipu_gradient_scope scope = {.spans = span,
                                      .span_count = 1,
                                      .watched = w->xs.items,
                                      .watched_count = (uint32_t)w->xs.count};
    size_t count = w->xs.count + (size_t)w->steps;
    size_t bytes;
    ipu_value *gradients;
    IPU_TRY(ipu_mul_size(r->ctx, count, sizeof *gradients, &bytes));
    IPU_TRY(ipu_alloc(r->ctx, bytes, &gradients));
    r->status = ipu_gradients_within(r->ctx, r->graph, r->block, w->ys.items,
                                     w->grads.items, (uint32_t)w->ys.count, w->xs.items,
                                     (uint32_t)w->xs.count, &scope, gradients);
    if (r->status == IPU_OK) {
        give_gradients(w, gradients, gradients + w->xs.count);
    }
    ipu_free(r->ctx, gradients, bytes);
    return r->status;
}

ipu_status
ipu__gradient_by_steps(ipu_rule *r)
{
    step_walk w = begin(r);
    uint32_t first_node = (uint32_t)r->graph->nodes.count;
    switch (r->op) {
    case IPU_OP_ID_LSTM:
        lstm_steps(&w);
        break;
    case IPU_OP_ID_LSTM_GRAD:
        lstm_steps_back(&w);
        break;
    case IPU_OP_ID_GRU:
        gru_steps(&w);
        break;
    default:
        gru_steps_back(&w);
        break;
    }
    if (r->status == IPU_OK && w.xs.count > 0 && w.ys.count > 0) {
        r->status = differentiate(&w, first_node);
    }
    IPU_ARRAY_FREE(r->ctx, &w.reads);
    IPU_ARRAY_FREE(r->ctx, &w.xs);
    IPU_ARRAY_FREE(r->ctx, &w.ys);
    IPU_ARRAY_FREE(r->ctx, &w.grads);
    return r->status;
}
