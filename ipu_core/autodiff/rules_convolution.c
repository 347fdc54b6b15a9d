/* SPDX-License-Identifier: MIT
 *
 * Gradient rules of convolutions. With y = x * w, the three ops are closed under them:
 *
 *   conv (x, w) -> y                dx = grad_input(g, w)     dw = grad_filter(x, g)
 *   conv_grad_input (y, w) -> x     dy = conv(g, w)           dw = grad_filter(g, y)
 *   conv_grad_filter (x, y) -> w    dx = grad_input(y, g)     dy = conv(x, g)
 *
 * since each is linear in both operands. One thread per graph. */
#include "autodiff/rule_terms.h"

BINARY_RULE(conv, ALIKE(CONV_GRAD_INPUT, a, g, b), ALIKE(CONV_GRAD_FILTER, b, a, g))
BINARY_RULE(conv_grad_input, ALIKE(CONV, IPU_NO_VALUE, g, b),
            ALIKE(CONV_GRAD_FILTER, b, g, a))
BINARY_RULE(conv_grad_filter, ALIKE(CONV_GRAD_INPUT, a, b, g),
            ALIKE(CONV, IPU_NO_VALUE, a, g))
