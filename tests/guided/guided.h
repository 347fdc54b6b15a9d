/* SPDX-License-Identifier: MIT
 *
 * What the targets of libFuzzer share: a target gets bytes, and may give them back as
 * text that ends. */
#ifndef IPU_TESTS_GUIDED_H
#define IPU_TESTS_GUIDED_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ctx.h"

enum { MOST_TEXT = 1 << 14 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static inline ipu_ctx
fresh(void)
{
    ipu_ctx ctx;
    ipu_ctx_init(&ctx, ipu_allocator_default());
    return ctx;
}

/* Free it; NULL: it is too long. */
static inline char *
text_of(const uint8_t *data, size_t size)
{
    char *text = size > MOST_TEXT ? NULL : malloc(size + 1);
    if (text != NULL) {
        memcpy(text, data, size);
        text[size] = '\0';
    }
    return text;
}

#define HOLDS(condition) \
    do { \
        if (!(condition)) { \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
            abort(); \
        } \
    } while (0)

#endif
