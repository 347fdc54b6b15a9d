/* SPDX-License-Identifier: MIT
 *
 * An allocator of offsets: pieces of one range from 0 on, taken and given back in any
 * order. */
#ifndef IPU_MEMORY_HEAP_H
#define IPU_MEMORY_HEAP_H

#include <stdbool.h>

#include "base/array.h"

/* Free pieces by size: FIRST classes, powers of two of the unit, each cut into SECOND.
 */
enum { IPU_HEAP_FIRST = 56, IPU_HEAP_SECOND = 16 };

typedef struct ipu_heap_piece {
    size_t offset;
    size_t bytes;
    uint32_t below; /* neighbours in the range, plus 1; 0: none */
    uint32_t above;
    uint32_t previous; /* of free ones: others of the same size class, plus 1 */
    uint32_t next;
    bool is_free;
} ipu_heap_piece;

/* Zeros to begin with. */
typedef struct ipu_heap {
    IPU_ARRAY(ipu_heap_piece) pieces;
    uint32_t unused; /* records to use again, plus 1, linked by `next` */
    uint32_t top;    /* the highest piece, plus 1 */
    size_t end;      /* of the range that was ever taken */
    uint64_t classes;
    uint16_t parts[IPU_HEAP_FIRST];
    uint32_t first[IPU_HEAP_FIRST][IPU_HEAP_SECOND]; /* plus 1 */
} ipu_heap;

/* A piece of so many bytes, a multiple of IPU_BUFFER_ALIGNMENT and not 0. */
ipu_status ipu_heap_take(ipu_ctx *ctx, ipu_heap *heap, size_t bytes, uint32_t *out);
size_t ipu_heap_offset(const ipu_heap *heap, uint32_t piece);
void ipu_heap_give_back(ipu_heap *heap, uint32_t piece);
void ipu_heap_free(ipu_ctx *ctx, ipu_heap *heap);

#endif
