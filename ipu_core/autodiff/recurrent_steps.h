/* SPDX-License-Identifier: MIT
 *
 * Gradients of lstm, gru and their gradients by way of single ops (recurrent_steps.c). */
#ifndef IPU_AUTODIFF_RECURRENT_STEPS_H
#define IPU_AUTODIFF_RECURRENT_STEPS_H

#include "autodiff/rules.h"

/* Of any of the four ops, for whatever outputs have a gradient. */
ipu_status ipu__gradient_by_steps(ipu_rule *rule);

#endif
