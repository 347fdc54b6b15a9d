/* SPDX-License-Identifier: MIT
 *
 * The arithmetic of SGD and Adam, as ops.def says it and step by step as the reference
 * kernels do it, for whoever writes it out: as code (update_parts.c) or as nodes
 * (update_nodes.c). Nothing outside passes/ includes it. */
#ifndef IPU_PASSES_UPDATE_STEPS_H
#define IPU_PASSES_UPDATE_STEPS_H

#include "graph/effects.h"

/* How the writer makes a step; what steps give are handles of its own. */
typedef struct ipu__steps {
    void *state;
    int64_t (*op)(void *state, ipu_op op, int64_t a, int64_t b);
    int64_t (*number)(void *state, double number);
    void (*store)(void *state, uint32_t variable, int64_t x);
} ipu__steps;

/* `old`: what the variable and its slots held. */
static inline void
ipu__sgd_steps(const ipu__steps *s, const ipu_node_data *update, const int64_t *old,
               int64_t gradient, int64_t rate)
{
    int64_t move = s->op(s->state, IPU_OP_ID_MUL, rate, gradient);
    if (ipu_node_resource_count(update) == 1) {
        s->store(s->state, 0, s->op(s->state, IPU_OP_ID_SUB, old[0], move));
        return;
    }
    double factor = ipu_attrs_float(update->attrs, IPU_ATTR_MOMENTUM, 0.0);
    int64_t momentum = s->number(s->state, factor);
    int64_t velocity = s->op(s->state, IPU_OP_ID_MUL, momentum, old[1]);
    velocity = s->op(s->state, IPU_OP_ID_SUB, velocity, move);
    int64_t ahead = velocity;
    if (ipu_attrs_int(update->attrs, IPU_ATTR_NESTEROV, 0) != 0) {
        ahead = s->op(s->state, IPU_OP_ID_MUL, momentum, velocity);
        ahead = s->op(s->state, IPU_OP_ID_SUB, ahead, move);
    }
    s->store(s->state, 1, velocity);
    s->store(s->state, 0, s->op(s->state, IPU_OP_ID_ADD, old[0], ahead));
}

/* old + (x - old) * rest */
static inline int64_t
ipu__moment_steps(const ipu__steps *s, int64_t old, int64_t x, int64_t rest)
{
    int64_t gap = s->op(s->state, IPU_OP_ID_SUB, x, old);
    gap = s->op(s->state, IPU_OP_ID_MUL, gap, rest);
    return s->op(s->state, IPU_OP_ID_ADD, old, gap);
}

/* `alpha`: what ADAM_RATE gives. */
static inline void
ipu__adam_steps(const ipu__steps *s, const ipu_node_data *update, const int64_t *old,
                int64_t gradient, int64_t alpha)
{
    double beta_1 = ipu_attrs_float(update->attrs, IPU_ATTR_BETA_1, 0.9);
    double beta_2 = ipu_attrs_float(update->attrs, IPU_ATTR_BETA_2, 0.999);
    double epsilon = ipu_attrs_float(update->attrs, IPU_ATTR_EPSILON, 1e-7);
    int64_t rest_1 = s->number(s->state, 1.0 - beta_1);
    int64_t rest_2 = s->number(s->state, 1.0 - beta_2);
    int64_t least = s->number(s->state, epsilon);
    int64_t square = s->op(s->state, IPU_OP_ID_SQUARE, gradient, -1);
    int64_t m = ipu__moment_steps(s, old[1], gradient, rest_1);
    int64_t v = ipu__moment_steps(s, old[2], square, rest_2);
    int64_t root = s->op(s->state, IPU_OP_ID_SQRT, v, -1);
    root = s->op(s->state, IPU_OP_ID_ADD, root, least);
    int64_t move = s->op(s->state, IPU_OP_ID_MUL, alpha, m);
    move = s->op(s->state, IPU_OP_ID_DIV, move, root);
    s->store(s->state, 1, m);
    s->store(s->state, 2, v);
    s->store(s->state, 0, s->op(s->state, IPU_OP_ID_SUB, old[0], move));
}

#endif
