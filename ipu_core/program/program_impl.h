/* SPDX-License-Identifier: MIT
 *
 * What the files of program/ and run/ share about programs. */
#ifndef IPU_PROGRAM_PROGRAM_IMPL_H
#define IPU_PROGRAM_PROGRAM_IMPL_H

#include "program/program.h"

/* To the next multiple of IPU_BUFFER_ALIGNMENT. */
static inline size_t
ipu__round_up(size_t bytes)
{
    size_t mask = IPU_BUFFER_ALIGNMENT - 1;
    return (bytes + mask) & ~mask;
}

/* Components of all infeeds are numbered one after the other, in the order of the
 * program's resources; this is the number of the first one of infeed `resource`. */
static inline uint32_t
ipu__program_infeed_base(const ipu_program *program, uint32_t resource)
{
    uint32_t base = 0;
    for (uint32_t i = 0; i < resource; i++) {
        if (program->resources.items[i].kind == IPU_RESOURCE_INFEED) {
            base += program->resources.items[i].type_count;
        }
    }
    return base;
}

#endif
