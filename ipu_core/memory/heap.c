/* SPDX-License-Identifier: MIT
 *
 * Two-level segregated fit (Masmano, Ripoll, Crespo and Real, "TLSF: a new dynamic
 * memory allocator for real-time systems", 2004): free pieces are listed by size class,
 * a power of two cut into 16 parts, and bit sets say which lists are not empty. Taking
 * and giving back cost the same however many pieces there are; neighbours that are free
 * become one. Where nothing fits, the range grows at its end. */
#include "memory/heap.h"

#include "kernels/core/kernel.h"

enum { SECOND_BITS = 4 };

typedef struct size_class {
    int first;
    int second;
} size_class;

static int
highest_bit(uint64_t word)
{
    return 63 - __builtin_clzll(word);
}

static int
lowest_bit(uint64_t word)
{
    return __builtin_ctzll(word);
}

/* The class that pieces of this size are listed in. */
static size_class
class_of(size_t bytes)
{
    uint64_t units = bytes / IPU_BUFFER_ALIGNMENT;
    if (units < IPU_HEAP_SECOND) {
        return (size_class){0, (int)units};
    }
    int high = highest_bit(units);
    return (size_class){high - SECOND_BITS + 1,
                        (int)(units >> (high - SECOND_BITS)) - IPU_HEAP_SECOND};
}

/* The first class all of whose pieces are large enough. */
static size_class
class_for(size_t bytes)
{
    uint64_t units = bytes / IPU_BUFFER_ALIGNMENT;
    if (units >= IPU_HEAP_SECOND) {
        units += (UINT64_C(1) << (highest_bit(units) - SECOND_BITS)) - 1;
    }
    return class_of(units * IPU_BUFFER_ALIGNMENT);
}

static ipu_heap_piece *
piece_of(const ipu_heap *heap, uint32_t number)
{
    return &heap->pieces.items[number - 1];
}

static bool
is_free(const ipu_heap *heap, uint32_t number)
{
    return number != 0 && piece_of(heap, number)->is_free;
}

static void
list(ipu_heap *heap, uint32_t number)
{
    ipu_heap_piece *piece = piece_of(heap, number);
    size_class c = class_of(piece->bytes);
    uint32_t *first = &heap->first[c.first][c.second];
    piece->is_free = true;
    piece->previous = 0;
    piece->next = *first;
    if (*first != 0) {
        piece_of(heap, *first)->previous = number;
    }
    *first = number;
    heap->parts[c.first] |= (uint16_t)(1U << c.second);
    heap->classes |= UINT64_C(1) << c.first;
}

static void
unlist(ipu_heap *heap, uint32_t number)
{
    ipu_heap_piece *piece = piece_of(heap, number);
    size_class c = class_of(piece->bytes);
    piece->is_free = false;
    if (piece->next != 0) {
        piece_of(heap, piece->next)->previous = piece->previous;
    }
    if (piece->previous != 0) {
        piece_of(heap, piece->previous)->next = piece->next;
        return;
    }
    heap->first[c.first][c.second] = piece->next;
    if (piece->next == 0) {
        heap->parts[c.first] &= (uint16_t) ~(1U << c.second);
        if (heap->parts[c.first] == 0) {
            heap->classes &= ~(UINT64_C(1) << c.first);
        }
    }
}

/* A free piece that is large enough; 0: there is none. */
static uint32_t
find(const ipu_heap *heap, size_t bytes)
{
    size_class c = class_for(bytes);
    if (c.first >= IPU_HEAP_FIRST) {
        return 0;
    }
    uint32_t parts = heap->parts[c.first] & (~0U << c.second);
    if (parts == 0) {
        uint64_t classes = heap->classes & (~UINT64_C(0) << (c.first + 1));
        if (classes == 0) {
            return 0;
        }
        c.first = lowest_bit(classes);
        parts = heap->parts[c.first];
    }
    return heap->first[c.first][lowest_bit(parts)];
}

static ipu_status
new_piece(ipu_ctx *ctx, ipu_heap *heap, uint32_t *out)
{
    *out = heap->unused;
    if (*out != 0) {
        heap->unused = piece_of(heap, *out)->next;
        return IPU_OK;
    }
    IPU_TRY(IPU_ARRAY_PUSH(ctx, &heap->pieces, (ipu_heap_piece){0}));
    *out = (uint32_t)heap->pieces.count;
    return IPU_OK;
}

/* After all others: what is free there is part of it, which has fewer bytes. */
static ipu_status
grow(ipu_ctx *ctx, ipu_heap *heap, size_t bytes, uint32_t *out)
{
    uint32_t top = heap->top;
    if (is_free(heap, top)) {
        unlist(heap, top);
        piece_of(heap, top)->bytes = bytes;
        heap->end = piece_of(heap, top)->offset + bytes;
        *out = top;
        return IPU_OK;
    }
    IPU_TRY(new_piece(ctx, heap, out));
    *piece_of(heap, *out) =
        (ipu_heap_piece){.offset = heap->end, .bytes = bytes, .below = top};
    if (top != 0) {
        piece_of(heap, top)->above = *out;
    }
    heap->top = *out;
    heap->end += bytes;
    return IPU_OK;
}

/* Makes what `number` has beyond `bytes` a free piece above it. */
static ipu_status
cut(ipu_ctx *ctx, ipu_heap *heap, uint32_t number, size_t bytes)
{
    uint32_t rest;
    if (piece_of(heap, number)->bytes == bytes) {
        return IPU_OK;
    }
    IPU_TRY(new_piece(ctx, heap, &rest));
    ipu_heap_piece *piece = piece_of(heap, number);
    *piece_of(heap, rest) = (ipu_heap_piece){.offset = piece->offset + bytes,
                                             .bytes = piece->bytes - bytes,
                                             .below = number,
                                             .above = piece->above};
    *(piece->above != 0 ? &piece_of(heap, piece->above)->below : &heap->top) = rest;
    piece->above = rest;
    piece->bytes = bytes;
    list(heap, rest);
    return IPU_OK;
}

/* Adds the free piece `upper` to `lower`, which is below it. */
static void
join(ipu_heap *heap, uint32_t lower, uint32_t upper)
{
    ipu_heap_piece *low = piece_of(heap, lower);
    ipu_heap_piece *high = piece_of(heap, upper);
    low->bytes += high->bytes;
    low->above = high->above;
    *(high->above != 0 ? &piece_of(heap, high->above)->below : &heap->top) = lower;
    high->next = heap->unused;
    heap->unused = upper;
}

ipu_status
ipu_heap_take(ipu_ctx *ctx, ipu_heap *heap, size_t bytes, uint32_t *out)
{
    uint32_t top = heap->top;
    *out = find(heap, bytes);
    /* a class of which some pieces are too small was not looked at */
    if (*out == 0 && is_free(heap, top) && piece_of(heap, top)->bytes >= bytes) {
        *out = top;
    }
    if (*out == 0) {
        return grow(ctx, heap, bytes, out);
    }
    unlist(heap, *out);
    return cut(ctx, heap, *out, bytes);
}

size_t
ipu_heap_offset(const ipu_heap *heap, uint32_t piece)
{
    return piece_of(heap, piece)->offset;
}

void
ipu_heap_give_back(ipu_heap *heap, uint32_t number)
{
    uint32_t above = piece_of(heap, number)->above;
    uint32_t below = piece_of(heap, number)->below;
    if (is_free(heap, above)) {
        unlist(heap, above);
        join(heap, number, above);
    }
    if (is_free(heap, below)) {
        unlist(heap, below);
        join(heap, below, number);
        number = below;
    }
    list(heap, number);
}

void
ipu_heap_free(ipu_ctx *ctx, ipu_heap *heap)
{
    IPU_ARRAY_FREE(ctx, &heap->pieces);
}
