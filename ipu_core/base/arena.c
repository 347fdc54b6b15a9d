/* SPDX-License-Identifier: MIT
 *
 * Arenas: chunks of 16 KiB, larger where one allocation needs it. Under
 * AddressSanitizer what is not handed out is poisoned, with a gap after each
 * allocation. */
#include "base/arena.h"

#include <string.h>

#include "base/sanitizer.h"

#ifdef IPU_ADDRESS_SANITIZER
#include <sanitizer/asan_interface.h>
enum { GAP_BYTES = 16 };
#else
#define ASAN_POISON_MEMORY_REGION(address, size) ((void)(address), (void)(size))
#define ASAN_UNPOISON_MEMORY_REGION(address, size) ((void)(address), (void)(size))
enum { GAP_BYTES = 0 };
#endif

enum { ARENA_ALIGNMENT = 16, CHUNK_BYTES = 16 * 1024 };

struct ipu_arena_chunk {
    ipu_arena_chunk *next;
    size_t bytes; /* of the whole allocation */
    size_t used;  /* from the chunk's start */
};

enum { HEADER_BYTES = (sizeof(ipu_arena_chunk) + 15) / 16 * 16 };

ipu_status
ipu_arena_alloc(ipu_ctx *ctx, ipu_arena *arena, size_t bytes, void *out_pointer)
{
    void *memory = NULL;
    memcpy(out_pointer, &memory, sizeof(memory));
    IPU_FAIL_IF(ctx, bytes > SIZE_MAX / 2, OUT_OF_MEMORY,
                "out of memory: %zu bytes of an arena", bytes);
    size_t rounded =
        (bytes + GAP_BYTES + ARENA_ALIGNMENT - 1) / ARENA_ALIGNMENT * ARENA_ALIGNMENT;
    ipu_arena_chunk *chunk = arena->chunks;
    if (chunk == NULL || chunk->bytes - chunk->used < rounded) {
        size_t chunk_bytes = HEADER_BYTES + rounded;
        if (chunk_bytes < CHUNK_BYTES) {
            chunk_bytes = CHUNK_BYTES;
        }
        IPU_TRY(ipu_alloc(ctx, chunk_bytes, &chunk));
        chunk->next = arena->chunks;
        chunk->bytes = chunk_bytes;
        chunk->used = HEADER_BYTES;
        ASAN_POISON_MEMORY_REGION((char *)chunk + HEADER_BYTES,
                                  chunk_bytes - HEADER_BYTES);
        arena->chunks = chunk;
        arena->total_bytes += chunk_bytes;
    }
    memory = (char *)chunk + chunk->used;
    chunk->used += rounded;
    ASAN_UNPOISON_MEMORY_REGION(memory, bytes);
    memcpy(out_pointer, &memory, sizeof(memory));
    return IPU_OK;
}

ipu_status
ipu_arena_array(ipu_ctx *ctx, ipu_arena *arena, size_t count, size_t item_bytes,
                void *out_pointer)
{
    size_t bytes;
    IPU_TRY(ipu_mul_size(ctx, count, item_bytes, &bytes));
    return ipu_arena_alloc(ctx, arena, bytes, out_pointer);
}

ipu_status
ipu_arena_copy(ipu_ctx *ctx, ipu_arena *arena, const void *from, size_t bytes,
               void *out_pointer)
{
    void *copy;
    IPU_TRY(ipu_arena_alloc(ctx, arena, bytes, out_pointer));
    memcpy(&copy, out_pointer, sizeof(copy));
    ipu_copy_bytes(copy, from, bytes);
    return IPU_OK;
}

ipu_status
ipu_arena_text(ipu_ctx *ctx, ipu_arena *arena, const char *text, size_t length,
               const char **out)
{
    char *copy;
    IPU_TRY(ipu_arena_alloc(ctx, arena, length + 1, &copy));
    memcpy(copy, text, length);
    copy[length] = '\0';
    *out = copy;
    return IPU_OK;
}

void
ipu_arena_free(ipu_ctx *ctx, ipu_arena *arena)
{
    ipu_arena_chunk *chunk = arena->chunks;
    while (chunk != NULL) {
        ipu_arena_chunk *next = chunk->next;
        ASAN_UNPOISON_MEMORY_REGION(chunk, chunk->bytes);
        ipu_free(ctx, chunk, chunk->bytes);
        chunk = next;
    }
    *arena = (ipu_arena){0};
}
