/* SPDX-License-Identifier: MIT
 *
 * A device's options for floating-point results that are not a number of their dtype:
 * how float16 is rounded, what overflow gives, and what ends a run. The zeros are IEEE
 * 754's. */
#ifndef IPU_BASE_FLOAT_BEHAVIOUR_H
#define IPU_BASE_FLOAT_BEHAVIOUR_H

#include <stdbool.h>

/* Of float16 results. */
typedef enum ipu_rounding {
    IPU_ROUNDING_NEAREST,
    IPU_ROUNDING_STOCHASTIC,
    IPU_ROUNDING_REPLICA_IDENTICAL /* stochastic where all replicas compute the same */
} ipu_rounding;

/* What a float16 result beyond the largest number becomes. */
typedef enum ipu_overflow {
    IPU_OVERFLOW_INFINITY,
    IPU_OVERFLOW_NAN,
    IPU_OVERFLOW_CLIP /* the largest number */
} ipu_overflow;

typedef struct ipu_float_behaviour {
    ipu_rounding rounding;
    ipu_overflow overflow;
    /* Which results of finite operands end a run, of float16 and float32: */
    bool traps_invalid;  /* NaN, such as 0 / 0 or the root of -1 */
    bool traps_division; /* infinity at a pole, such as 1 / 0 or log 0 */
    bool traps_overflow; /* infinity elsewhere */
} ipu_float_behaviour;

/* Whether results have to be looked at (kernels/core/guard.c). */
static inline bool
ipu_float_behaviour_guards(const ipu_float_behaviour *behaviour)
{
    return behaviour->overflow != IPU_OVERFLOW_INFINITY || behaviour->traps_invalid ||
           behaviour->traps_division || behaviour->traps_overflow;
}

#endif
