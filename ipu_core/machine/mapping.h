/* SPDX-License-Identifier: MIT
 *
 * On which tiles of its IPU a value lies: in equal parts, one after another from a first
 * tile on, around the end. Which elements a part has depends on the layout. */
#ifndef IPU_MACHINE_MAPPING_H
#define IPU_MACHINE_MAPPING_H

#include <stdbool.h>

#include "graph/graph.h"
#include "machine/chip.h"

enum { IPU_LEAST_TILE_BYTES = 128 /* of a value that is spread over tiles */ };

typedef struct ipu_mapping {
    uint32_t layer; /* 0: elements lie in their order; else those of a product: what the
                       products of one layer, forward and backward, have in common */
    uint32_t plan;  /* which product of it, and what the value is there */
    uint32_t start; /* the first tile */
    uint32_t tiles; /* 0: it is not known yet */
} ipu_mapping;

static inline bool
ipu_mapping_is(const ipu_mapping *a, const ipu_mapping *b)
{
    return a->layer == b->layer && a->plan == b->plan && a->start == b->start &&
           a->tiles == b->tiles;
}

/* Over how many of at most so many tiles a value is spread. */
double ipu_mapping_tiles(const ipu_type *type, double tiles);
/* Adds what the value has on each of `tiles`: its elements in equal parts, of which the
 * first ones have one more. */
void ipu_mapping_add(const ipu_mapping *mapping, const ipu_type *type, double copies,
                     double *changes, uint32_t tiles);
/* The bytes that one of `tiles` has of it. */
double ipu_mapping_bytes(const ipu_mapping *mapping, const ipu_type *type,
                         uint32_t tile, uint32_t tiles);

#endif
