/* SPDX-License-Identifier: MIT
 *
 * Gradient rules of pooling. The average is linear; so is what max_pool_grad and
 * max_pool_pick make of their last operand, while the places of the largest elements
 * are constant between ties. So these ops are each other's gradients. One thread per
 * graph. */
#include "autodiff/rule_terms.h"

UNARY_RULE(max_pool, ALIKE(MAX_POOL_GRAD, IPU_NO_VALUE, x, y, g))
UNARY_RULE(average_pool, ALIKE(AVERAGE_POOL_GRAD, x, g))
UNARY_RULE(average_pool_grad, ALIKE(AVERAGE_POOL, IPU_NO_VALUE, g))

/* With x and its maxima, what comes back is taken to or from their places. */
static ipu_status
at_maxima(ipu_rule *r, ipu_op op)
{
    const ipu_value inputs[3] = {r->inputs[0], r->inputs[1], r->grads[0]};
    if (r->wanted[2]) {
        ipu__rule_give(r, 2, ipu__rule_alike(r, op, IPU_NO_VALUE, inputs, 3));
    }
    return r->status;
}

SAME_RULE(max_pool_grad, at_maxima(r, IPU_OP_ID_MAX_POOL_PICK))
SAME_RULE(max_pool_pick, at_maxima(r, IPU_OP_ID_MAX_POOL_GRAD))
