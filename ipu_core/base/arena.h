/* SPDX-License-Identifier: MIT
 *
 * Bump allocation for objects that die together: a graph, a program. Nothing is freed
 * singly. Under AddressSanitizer the gaps between allocations are poisoned. */
#ifndef IPU_BASE_ARENA_H
#define IPU_BASE_ARENA_H

#include "base/ctx.h"

typedef struct ipu_arena_chunk ipu_arena_chunk;

typedef struct ipu_arena {
    ipu_arena_chunk *chunks; /* newest first */
    size_t total_bytes;
} ipu_arena;

/* An arena starts as {0}. Memory is zeroed and 16-byte aligned; zero bytes give a
 * valid pointer. */
ipu_status ipu_arena_alloc(ipu_ctx *ctx, ipu_arena *arena, size_t bytes,
                           void *out_pointer);
/* The same for `count` items. */
ipu_status ipu_arena_array(ipu_ctx *ctx, ipu_arena *arena, size_t count,
                           size_t item_bytes, void *out_pointer);
/* A copy of what is there. */
ipu_status ipu_arena_copy(ipu_ctx *ctx, ipu_arena *arena, const void *from,
                          size_t bytes, void *out_pointer);
/* A terminated copy of text[0..length). */
ipu_status ipu_arena_text(ipu_ctx *ctx, ipu_arena *arena, const char *text,
                          size_t length, const char **out);
void ipu_arena_free(ipu_ctx *ctx, ipu_arena *arena);

#endif
