/* SPDX-License-Identifier: MIT
 *
 * The arithmetic of gradient rules, so that a rule reads as its formula. Each term adds
 * a node; `r` is the rule that it is written in. Nothing outside autodiff/ includes
 * it. */
#ifndef IPU_AUTODIFF_RULE_TERMS_H
#define IPU_AUTODIFF_RULE_TERMS_H

#include "autodiff/rules.h"
#include "graph/constant.h"

#define NEG(x) ipu__rule_unary(r, IPU_OP_ID_NEG, (x))
#define ADD(a, b) ipu__rule_binary(r, IPU_OP_ID_ADD, (a), (b))
#define SUB(a, b) ipu__rule_binary(r, IPU_OP_ID_SUB, (a), (b))
#define MUL(a, b) ipu__rule_binary(r, IPU_OP_ID_MUL, (a), (b))
#define DIV(a, b) ipu__rule_binary(r, IPU_OP_ID_DIV, (a), (b))
/* A scalar of the gradient's dtype, or of that of `like`. */
#define NUMBER(number) ipu__rule_number(r, r->grads[0], (number))
#define NUMBER_LIKE(like, number) ipu__rule_number(r, (like), (number))

/* An op of these inputs that is like the forward one (ipu__rule_alike). */
#define ALIKE(NAME, like, ...) \
    ipu__rule_alike(r, IPU_OP_ID_##NAME, (like), (const ipu_value[]){__VA_ARGS__}, \
                    sizeof((const ipu_value[]){__VA_ARGS__}) / sizeof(ipu_value))

/* A rule that is that of several ops. */
#define SAME_RULE(text, rule) \
    ipu_status ipu_gradient_##text(ipu_rule *r) \
    { \
        return rule; \
    }

/* The rule of an op of one input: `g` is the gradient, `x` the input, `y` the value. */
#define UNARY_RULE(text, expression) \
    ipu_status ipu_gradient_##text(ipu_rule *r) \
    { \
        const ipu_value g = r->grads[0]; \
        const ipu_value x = r->inputs[0]; \
        const ipu_value y = r->outputs[0]; \
        (void)x; \
        (void)y; \
        ipu__rule_give(r, 0, (expression)); \
        return r->status; \
    }

/* The rule of an op of two inputs, `a` and `b`; an expression is made only where its
 * input wants it. */
#define BINARY_RULE(text, for_a, for_b) \
    ipu_status ipu_gradient_##text(ipu_rule *r) \
    { \
        const ipu_value g = r->grads[0]; \
        const ipu_value a = r->inputs[0]; \
        const ipu_value b = r->inputs[1]; \
        (void)g; \
        (void)a; \
        (void)b; \
        if (r->wanted[0]) { \
            ipu__rule_give(r, 0, (for_a)); \
        } \
        if (r->wanted[1]) { \
            ipu__rule_give(r, 1, (for_b)); \
        } \
        return r->status; \
    }

#endif
