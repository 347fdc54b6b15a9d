/* SPDX-License-Identifier: MIT
 *
 * A chip is data: a number for each field, all doubles, so that the table of fields
 * serves tests, Python's Machine and what-if machines alike. */
#ifndef IPU_MACHINE_CHIP_H
#define IPU_MACHINE_CHIP_H

#include "base/ctx.h"

/* X(field, unit, least, most, source, GC2, GC200, Bow, C600). Sources:
 *   [data sheet]  of the C2 card, the M2000, the Bow-2000 and the C600
 *   [ISA]         Tile Vertex Instruction Set Architecture for the IPU2, 1.2.3
 *   [Citadel]     Jia et al., arXiv:1912.03413, measured on a GC2
 *   [triad]       STREAM on a GC200: 205 cycles a compute set beside its arithmetic
 *   [schedule]    exchanges on a C600: 236 to 238 cycles beside their schedule
 *   [nominal]     of links and streaming memory of the second generation only nominal
 *                 rates are published: 512 Gb/s between neighbours, 20 GB/s of memory for
 *                 the four IPUs of a box
 *   [fitted]      the median of 94 measured convolutions; the only fitted constant. No
 *                 chip of the second generation has such measurements
 * Units of the matrix unit are output channels that one pass makes. */
#define IPU_CHIP_FIELDS(X) \
    X(tiles, "tiles", 1, 1048576, "data sheet", 1216, 1472, 1472, 1472) \
    X(tile_bytes, "bytes", 1, 1e12, "data sheet", 262144, 638976, 638976, 638976) \
    X(code_bytes, "bytes", 1, 1e12, \
      "ISA: region 0, which code runs from; GC2: not published, all", 262144, 212992, \
      212992, 212992) \
    X(clock, "Hz", 1, 1e12, "data sheet; GC200: as Poplar reports it", 1.6e9, 1.33e9, \
      1.85e9, 1.5e9) \
    X(workers, "contexts", 1, 64, "ISA", 6, 6, 6, 6) \
    X(units_half, "units", 1, 4096, "ISA; half inputs and partials", 8, 16, 16, 16) \
    X(units_mixed, "units", 1, 4096, "ISA; half inputs, float partials", 8, 8, 8, 8) \
    X(units_float, "units", 1, 4096, "ISA; float inputs and partials", 8, 16, 16, 16) \
    X(coefficient_bytes, "bytes a cycle", 1, 4096, "ISA; 64-bit loads", 8, 8, 8, 8) \
    X(slic_channels, "channels", 0, 64, "poplibs", 0, 4, 4, 4) \
    X(copy_bytes, "bytes a cycle", 1, 4096, "ISA", 8, 8, 8, 8) \
    X(exchange_bytes, "bytes a cycle", 0.001, 4096, "Citadel", 4, 4, 4, 4) \
    X(host_bytes, "bytes a second", 1, 1e15, "Citadel; data sheet, nominal", 5.86e9, \
      12.5e9, 12.5e9, 31.5e9) \
    X(box_ipus, "IPUs", 1, 1048576, "data sheet; GC2: those of 16 lanes", 4, 4, 4, 1) \
    X(box_bytes, "bytes a second", 1, 1e15, \
      "of the host to a box: Citadel; data sheet, nominal", 13.78e9, 12.5e9, 12.5e9, \
      31.5e9) \
    X(link_bytes, "bytes a second", 1, 1e15, \
      "in a pair: Citadel; data sheet, nominal", 55.0e9, 64e9, 64e9, 62.5e9) \
    X(rung_bytes, "bytes a second", 1, 1e15, \
      "between pairs: Citadel; half as many links, poplibs", 27.7e9, 32e9, 32e9, \
      31.25e9) \
    X(pod_ipus, "IPUs", 1, 1048576, "of one ladder: data sheet; C600: assumed", 16, 64, \
      64, 8) \
    X(gateway_bytes, "bytes a second", 1, 1e15, \
      "of an IPU to other pods: 2 x 100 Gb/s for four; without one the host's", 3.4e9, \
      6.25e9, 6.25e9, 31.5e9) \
    X(remote_bytes, "bytes a second", 1, 1e15, "the host's; 20 GB/s for four", 5.86e9, \
      5e9, 5e9, 31.5e9) \
    X(host_seconds, "s", 0, 1, "Citadel; Mk2: as the first generation", 8.81e-6, \
      8.81e-6, 8.81e-6, 8.81e-6) \
    X(link_seconds, "s", 0, 1, "Citadel; Mk2: as the first generation", 0.65e-6, \
      0.65e-6, 0.65e-6, 0.65e-6) \
    X(hop_seconds, "s", 0, 1, "Citadel; Mk2: as the first generation", 0.16e-6, \
      0.16e-6, 0.16e-6, 0.16e-6) \
    X(link_messages, "messages a second", 1, 1e15, \
      "Citadel; Mk2: as the first generation", 247e6, 247e6, 247e6, 247e6) \
    X(exchange_cycles, "cycles", 0, 1e9, "Citadel; schedule", 264, 240, 240, 240) \
    X(launch_cycles, "cycles", 0, 1e9, "Citadel; triad", 264, 205, 205, 205) \
    X(slowdown, "", 0.1, 100, "fitted", 1.2, 1, 1, 1)

typedef struct ipu_chip {
#define IPU_CHIP_MEMBER(field, ...) double field;
    IPU_CHIP_FIELDS(IPU_CHIP_MEMBER)
#undef IPU_CHIP_MEMBER
} ipu_chip;

enum { IPU_CHIP_FIELD_COUNT = sizeof(ipu_chip) / sizeof(double) };

typedef struct ipu_chip_field {
    const char *name;
    const char *unit;
    const char *source;
    double least;
    double most;
} ipu_chip_field;

/* Of the field at `index`, below IPU_CHIP_FIELD_COUNT. */
const ipu_chip_field *ipu_chip_field_of(uint32_t index);

/* Chips by number, from 0; NULL past the last one. */
const char *ipu_chip_name(uint32_t number);
const ipu_chip *ipu_chip_of(uint32_t number);

/* Fails with INVALID_ARGUMENT where a field is not finite, too small or absurd, or a
 * count is not a whole number. */
ipu_status ipu_chip_check(ipu_ctx *ctx, const ipu_chip *chip);

#endif
