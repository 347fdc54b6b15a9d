/* SPDX-License-Identifier: MIT
 *
 * Formulas of optimizers that are known: what runs a part of fused_update with all of
 * its values in registers. */
#ifndef IPU_KERNELS_UPDATE_RULES_IMPL_H
#define IPU_KERNELS_UPDATE_RULES_IMPL_H

#include "base/update_code.h"
#include "kernels/core/kernel_impl.h"

enum { IPU_RULE_VARIABLES = 4, IPU_RULE_DENSE = 1, IPU_RULE_SINGLES = 9 };

/* n elements. `singles`: of one element, such as a learning rate. */
typedef void ipu__rule_fn(float *const *variables, const float *const *dense,
                          const float *singles, int64_t n);

/* A formula, and which operand of a part stands for each of its own. */
typedef struct ipu__update_rule {
    ipu__rule_fn *run; /* of a multiple of `lanes` elements */
    int64_t lanes;
    uint32_t variables;
    uint32_t dense;
    uint32_t singles;
    uint8_t variable[IPU_RULE_VARIABLES];
    uint8_t dense_operand[IPU_RULE_DENSE];
    uint8_t single[IPU_RULE_SINGLES];
    bool covers[IPU_UPDATE_MAX_INSTRUCTIONS]; /* the others come before it */
} ipu__update_rule;

/* The formula that computes all that the part's variables are given, from its inputs or
 * from what other instructions make of them; false: none does. */
bool ipu__update_rule_find(const ipu_kernel_spec *spec, const ipu_update_part *part,
                           ipu_cpu_class cpu, ipu__update_rule *out);
/* Any number of elements. */
void ipu__update_rule_run(const ipu__update_rule *rule, float *const *variables,
                          const float *const *dense, const float *singles, int64_t n);

#endif
