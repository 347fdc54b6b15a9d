/* SPDX-License-Identifier: MIT
 *
 * Exchanges between tiles, by pattern. A tile sends and takes 4 bytes a cycle at the
 * most; an exchange starts all its messages in one program step, whose cost depends on
 * who controls it. IPUs lie in a ladder: each has a link to the other one of its pair,
 * and to those of the pairs above and below. */
#ifndef IPU_MACHINE_EXCHANGE_H
#define IPU_MACHINE_EXCHANGE_H

#include "machine/chip.h"

/* X(NAME, text, cycles beside the words, least cycles of all): fits of measurements on
 * a GC2 (Citadel, section 4), of a message to and from each of 2 to 1216 tiles. */
#define IPU_EXCHANGE_PATTERNS(X) \
    X(COPY, copy, 212, 0)       /* from one tile to another; any number of pairs */ \
    X(GATHER, gather, 118, 150) /* from all to one */ \
    X(SCATTER, scatter, 289, 0) /* from one to all, to each another message */ \
    X(ALL_TO_ALL, all_to_all, 257, 205) \
    X(BROADCAST, broadcast, 264, 0) /* from one to all, the same message: a copy while \
                                       all tiles are at work */

typedef enum ipu_exchange_pattern {
#define X(NAME, text, start, least) IPU_EXCHANGE_##NAME,
    IPU_EXCHANGE_PATTERNS(X)
#undef X
        IPU_EXCHANGE_PATTERN_COUNT
} ipu_exchange_pattern;

/* Cycles of one exchange of messages of `bytes`, with its synchronisation, between
 * `tiles` tiles of each of `ipus` IPUs; of all to all only of one. */
double ipu_exchange_cycles(const ipu_chip *chip, ipu_exchange_pattern pattern,
                           double tiles, double bytes, double ipus);

#endif
