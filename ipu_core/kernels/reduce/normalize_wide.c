/* SPDX-License-Identifier: MIT
 *
 * Normalisation of float64 (normalize_body.h). */
#define NORMALIZE_REAL double
#define NORMALIZE_HALVES(x) ((x[0] + x[2]) + (x[1] + x[3]))
#include "kernels/reduce/normalize_body.h"

ipu_status
ipu__choose_wide_normalize(const ipu__preparation *p)
{
    return choose(p);
}
