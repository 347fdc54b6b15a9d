/* SPDX-License-Identifier: MIT */
#include "machine/exchange.h"

#include <math.h>

static const struct {
    double start;
    double least;
} patterns[] = {
#define X(NAME, text, start, least) {start, least},
    IPU_EXCHANGE_PATTERNS(X)
#undef X
};

/* Messages of other IPUs come over the links of one, each of a packet of its own. */
static double
gathered_from_others(const ipu_chip *chip, double messages, double bytes, double ipus)
{
    double links = ipus <= 2 ? 1 : ipus <= 4 ? 2 : 3;
    double words = bytes / chip->exchange_bytes;
    return messages * fmax(chip->clock / chip->link_messages / links, words);
}

double
ipu_exchange_cycles(const ipu_chip *chip, ipu_exchange_pattern pattern, double tiles,
                    double bytes, double ipus)
{
    double messages = pattern == IPU_EXCHANGE_SCATTER  ? tiles * ipus
                      : pattern == IPU_EXCHANGE_COPY      ? 1
                      : pattern == IPU_EXCHANGE_BROADCAST ? 1
                                                          : tiles;
    double moved = messages * bytes / chip->exchange_bytes;
    if (pattern == IPU_EXCHANGE_BROADCAST && tiles * ipus >= 2) {
        moved /= 2; /* neighbouring tiles take both halves of the stream */
    }
    double cycles = fmax(patterns[pattern].start + moved, patterns[pattern].least);
    if (ipus == 1) {
        return cycles;
    }
    if (pattern == IPU_EXCHANGE_GATHER) {
        return cycles + gathered_from_others(chip, tiles * (ipus - 1), bytes, ipus);
    }
    double hops = fmax(0, ceil(ipus / 2) - 1); /* to the pair at the end */
    return moved + chip->clock * (chip->link_seconds + hops * chip->hop_seconds);
}
