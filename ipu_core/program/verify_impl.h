/* SPDX-License-Identifier: MIT
 *
 * The two parts of the program's checker: program_verify.c follows each stream alone,
 * verify_streams.c checks what they have in common. */
#ifndef IPU_PROGRAM_VERIFY_IMPL_H
#define IPU_PROGRAM_VERIFY_IMPL_H

#include "program/program.h"

/* Operands, indices and channels are in range. */
ipu_status ipu__verify_streams(ipu_ctx *ctx, const ipu_program *program);

#endif
