/* SPDX-License-Identifier: MIT
 *
 * What LAPACK's routines spend their time in, by kernels of our own, see
 * lapack_parts.c. */
#ifndef IPU_KERNELS_LAPACK_PARTS_H
#define IPU_KERNELS_LAPACK_PARTS_H

#include "kernels/linear/factors.h"

/* From here on LAPACK's routines that the calling thread calls are made by them; NULL:
 * by that thread alone. */
void ipu__lapack_made_by(const ipu__makers *makers);

#endif
