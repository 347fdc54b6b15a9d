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

double
ipu_exchange_cycles(const ipu_chip *chip, ipu_exchange_pattern pattern, double tiles,
                    double bytes)
{
    double messages = pattern == IPU_EXCHANGE_COPY ? 1 : tiles;
    double moved = messages * bytes / chip->exchange_bytes;
    return fmax(patterns[pattern].start + moved, patterns[pattern].least);
}
