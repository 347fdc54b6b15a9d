/* SPDX-License-Identifier: MIT
 *
 * The context: allocator hooks and the error record. One per compilation or execution;
 * never shared between threads that may fail at the same time (a worker that fails
 * reports through its pool job, see thread.h). */
#ifndef IPU_BASE_CTX_H
#define IPU_BASE_CTX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/status.h"

/* Allocation hooks. `resize` has realloc's contract and is sized: old_bytes is what the
 * caller got before; new_bytes == 0 frees and returns NULL. New bytes are zero.
 * Alignment is 64 bytes. */
typedef struct ipu_allocator {
    void *(*resize)(void *state, void *pointer, size_t old_bytes, size_t new_bytes);
    void *state;
} ipu_allocator;

/* The C library's heap, and for large blocks pages of the system (base/pages.h). */
ipu_allocator ipu_allocator_default(void);

/* For tests, any thread: the `nth` allocation of the process from here on fails, once;
 * 0: none does. Returns how many there were since the last call that had one fail. */
int64_t ipu_allocation_fail(int64_t nth);
/* Counts an allocation of somebody else; whether it is to fail. */
bool ipu_allocation_fails(void);

typedef struct ipu_source {
    const char *file; /* NULL: unknown. Interned by the trace, outlives the graph. */
    int32_t line;
} ipu_source;

/* Code that waits, or works for long, gives up when it is set. */
typedef struct ipu_cancel {
    int32_t flag; /* set by any thread, atomically, and never unset */
    /* Asked now and then on the thread that waits; may set the flag. NULL: not asked.
     */
    void (*poll)(struct ipu_cancel *cancel);
    bool has_waited; /* for long enough to look; set by that thread before it asks */
} ipu_cancel;

static inline bool
ipu_cancel_is_set(ipu_cancel *cancel)
{
    if (cancel->poll != NULL) {
        cancel->poll(cancel);
    }
    return __atomic_load_n(&cancel->flag, __ATOMIC_RELAXED) != 0;
}

/* What foreign code failed with, an exception of Python's: it travels with the error.
 * Contexts share it; the struct of who makes it begins with this one. */
typedef struct ipu_cause {
    int32_t holders;                       /* changes atomically */
    void (*free)(struct ipu_cause *cause); /* from any thread, which holds no lock */
} ipu_cause;

/* NULL is fine. */
void ipu_cause_drop(ipu_cause *cause);

typedef struct ipu_ctx {
    ipu_allocator allocator;
    ipu_cancel *cancel;    /* NULL: nobody can */
    struct ipu_pool *pool; /* whose threads may help (base/thread.h); NULL: nobody's */
    ipu_status status;     /* of the first error since ipu_ctx_clear */
    ipu_source source;     /* the user's line of that error, if one is known */
    ipu_cause *cause;      /* of that error; NULL: the message says it */
    char message[1024];    /* always terminated; the last field */
} ipu_ctx;

void ipu_ctx_init(ipu_ctx *ctx, ipu_allocator allocator);
void ipu_ctx_clear(ipu_ctx *ctx);

static inline bool
ipu_ctx_is_cancelled(const ipu_ctx *ctx)
{
    return ctx->cancel != NULL && ipu_cancel_is_set(ctx->cancel);
}

/* Records an error (the first one wins) and returns `status`. */
ipu_status ipu_ctx_fail(ipu_ctx *ctx, ipu_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The error of another context, as ipu_ctx_fail records one. */
ipu_status ipu_ctx_forward(ipu_ctx *ctx, const ipu_ctx *from);

/* Allocates zeroed memory; *out is NULL on failure. Frees with ipu_free of equal size.
 * Zero bytes give a NULL pointer and no error. */
ipu_status ipu_alloc(ipu_ctx *ctx, size_t bytes, void *out_pointer);
ipu_status ipu_resize(ipu_ctx *ctx, void *inout_pointer, size_t old_bytes,
                      size_t new_bytes);
void ipu_free(ipu_ctx *ctx, void *pointer, size_t bytes);

/* memcpy, which asks for pointers even where there is nothing to copy. */
static inline void
ipu_copy_bytes(void *to, const void *from, size_t bytes)
{
    if (bytes > 0) {
        memcpy(to, from, bytes);
    }
}

/* a * b, or OUT_OF_MEMORY where that does not fit in size_t. */
ipu_status ipu_mul_size(ipu_ctx *ctx, size_t a, size_t b, size_t *out);

#define IPU_FAIL(ctx, code, ...) \
    return ipu_ctx_fail((ctx), IPU_STATUS_##code, __VA_ARGS__)

#define IPU_FAIL_IF(ctx, condition, code, ...) \
    do { \
        if (condition) { \
            return ipu_ctx_fail((ctx), IPU_STATUS_##code, __VA_ARGS__); \
        } \
    } while (0)

#define IPU_TRY(expression) \
    do { \
        ipu_status ipu_try_status_ = (expression); \
        if (ipu_try_status_ != IPU_OK) { \
            return ipu_try_status_; \
        } \
    } while (0)

#endif
