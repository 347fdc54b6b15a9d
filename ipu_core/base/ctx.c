/* SPDX-License-Identifier: MIT
 *
 * Context, error record and heap access. The default allocator keeps 64-byte alignment
 * by remembering nothing: sizes come back with each call. */
#include "base/ctx.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/pages.h"

enum { HEAP_ALIGNMENT = 64 };

const char *
ipu_status_name(ipu_status status)
{
    static const char *const names[] = {
#define X(name, text, exception) text,
        IPU_STATUS_LIST(X)
#undef X
    };
    return (unsigned)status < IPU_STATUS_COUNT ? names[status] : "unknown status";
}

/* allocations since `fail_at` was set; both 0 while none is to fail */
static int64_t fail_at, counted;

int64_t
ipu_allocation_fail(int64_t nth)
{
    __atomic_store_n(&fail_at, nth, __ATOMIC_RELAXED);
    return __atomic_exchange_n(&counted, 0, __ATOMIC_RELAXED);
}

bool
ipu_allocation_fails(void)
{
    int64_t nth = __atomic_load_n(&fail_at, __ATOMIC_RELAXED);
    return nth != 0 && __atomic_add_fetch(&counted, 1, __ATOMIC_RELAXED) == nth;
}

static void
heap_free(void *pointer, size_t bytes)
{
    if (ipu_pages_are_for(bytes)) {
        ipu_pages_resize(pointer, bytes, 0);
    } else {
        free(pointer);
    }
}

static void *
heap_resize(void *state, void *pointer, size_t old_bytes, size_t new_bytes)
{
    const bool in_pages = ipu_pages_are_for(new_bytes);
    (void)state;
    if (new_bytes == 0) {
        heap_free(pointer, old_bytes);
        return NULL;
    }
    if (ipu_allocation_fails()) {
        return NULL;
    }
    if (in_pages && (pointer == NULL || ipu_pages_are_for(old_bytes))) {
        return ipu_pages_resize(pointer, old_bytes, new_bytes);
    }
    size_t rounded = (new_bytes + HEAP_ALIGNMENT - 1) & ~(size_t)(HEAP_ALIGNMENT - 1);
    if (rounded < new_bytes) {
        return NULL;
    }
    char *moved = in_pages ? ipu_pages_resize(NULL, 0, new_bytes)
                           : aligned_alloc(HEAP_ALIGNMENT, rounded);
    if (moved == NULL) {
        return NULL;
    }
    size_t kept = old_bytes < new_bytes ? old_bytes : new_bytes;
    if (!in_pages) {
        memset(moved + kept, 0, new_bytes - kept);
    }
    if (pointer != NULL) {
        memcpy(moved, pointer, kept);
        heap_free(pointer, old_bytes);
    }
    return moved;
}

ipu_allocator
ipu_allocator_default(void)
{
    return (ipu_allocator){heap_resize, NULL};
}

void
ipu_ctx_init(ipu_ctx *ctx, ipu_allocator allocator)
{
    memset(ctx, 0, offsetof(ipu_ctx, message)); /* eager ops come here each time */
    ctx->message[0] = '\0';
    ctx->allocator = allocator;
}

static ipu_cause *
hold(ipu_cause *cause)
{
    if (cause != NULL) {
        __atomic_fetch_add(&cause->holders, 1, __ATOMIC_RELAXED);
    }
    return cause;
}

void
ipu_cause_drop(ipu_cause *cause)
{
    if (cause != NULL &&
        __atomic_sub_fetch(&cause->holders, 1, __ATOMIC_ACQ_REL) == 0) {
        cause->free(cause);
    }
}

void
ipu_ctx_clear(ipu_ctx *ctx)
{
    ipu_cause *cause = ctx->cause;
    ctx->cause = NULL;
    ipu_cause_drop(cause);
    ctx->status = IPU_OK;
    ctx->source = (ipu_source){0};
    ctx->message[0] = '\0';
}

/* Takes back the part of a UTF-8 character that a cut text ends with. */
static void
end_with_a_character(char *text, size_t length)
{
    size_t lead = length; /* after the last character's first byte */
    while (lead > 0 && ((unsigned char)text[lead - 1] & 0xc0) == 0x80) {
        lead--;
    }
    if (lead == 0) {
        return;
    }
    unsigned char first = (unsigned char)text[lead - 1];
    size_t needed = first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    if (length - (lead - 1) < needed) {
        text[lead - 1] = '\0';
    }
}

ipu_status
ipu_ctx_fail(ipu_ctx *ctx, ipu_status status, const char *format, ...)
{
    if (ctx->status == IPU_OK) {
        ctx->status = status;
        va_list arguments;
        va_start(arguments, format);
        int length = vsnprintf(ctx->message, sizeof(ctx->message), format, arguments);
        va_end(arguments);
        if (length >= (int)sizeof(ctx->message)) {
            end_with_a_character(ctx->message, sizeof(ctx->message) - 1);
        }
    }
    return status;
}

ipu_status
ipu_ctx_forward(ipu_ctx *ctx, const ipu_ctx *from)
{
    if (ctx->status == IPU_OK) {
        ctx->status = from->status;
        ctx->source = from->source;
        ctx->cause = hold(from->cause);
        memcpy(ctx->message, from->message, sizeof(ctx->message));
    }
    return from->status;
}

ipu_status
ipu_alloc(ipu_ctx *ctx, size_t bytes, void *out_pointer)
{
    void *memory = NULL;
    ipu_status status = ipu_resize(ctx, &memory, 0, bytes);
    memcpy(out_pointer, &memory, sizeof(memory));
    return status;
}

ipu_status
ipu_resize(ipu_ctx *ctx, void *inout_pointer, size_t old_bytes, size_t new_bytes)
{
    void *old;
    memcpy(&old, inout_pointer, sizeof(old));
    if (old == NULL && new_bytes == 0) {
        return IPU_OK;
    }
    void *memory =
        ctx->allocator.resize(ctx->allocator.state, old, old_bytes, new_bytes);
    IPU_FAIL_IF(ctx, memory == NULL && new_bytes != 0, OUT_OF_MEMORY,
                "out of memory: %zu bytes could not be allocated", new_bytes);
    memcpy(inout_pointer, &memory, sizeof(memory));
    return IPU_OK;
}

void
ipu_free(ipu_ctx *ctx, void *pointer, size_t bytes)
{
    if (pointer != NULL) {
        ctx->allocator.resize(ctx->allocator.state, pointer, bytes, 0);
    }
}

ipu_status
ipu_mul_size(ipu_ctx *ctx, size_t a, size_t b, size_t *out)
{
    IPU_FAIL_IF(ctx, b != 0 && a > SIZE_MAX / b, OUT_OF_MEMORY,
                "out of memory: %zu items of %zu bytes do not fit", a, b);
    *out = a * b;
    return IPU_OK;
}
