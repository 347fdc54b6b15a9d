/* SPDX-License-Identifier: MIT
 *
 * Normalisation of float32, and of float16, which is widened on the way
 * (normalize_body.h). */
#define NORMALIZE_REAL float
#define NORMALIZE_HALVES(x) \
    (((x[0] + x[4]) + (x[2] + x[6])) + ((x[1] + x[5]) + (x[3] + x[7])))
#include "kernels/reduce/normalize_body.h"

ipu_status
ipu_choose_normalize(const ipu__preparation *p)
{
    const bool is_wide = p->spec->inputs[0].dtype == IPU_DTYPE_FLOAT64;
    return (is_wide ? ipu__choose_wide_normalize : choose)(p);
}
