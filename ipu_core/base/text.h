/* SPDX-License-Identifier: MIT
 *
 * A growing text, for printers. The first failure sticks in `status`, so that printers
 * need no check on every line; ipu_text_finish reports it. */
#ifndef IPU_BASE_TEXT_H
#define IPU_BASE_TEXT_H

#include "base/array.h"

typedef struct ipu_text {
    ipu_ctx *ctx;
    IPU_ARRAY(char) chars;
    ipu_status status;
} ipu_text;

void ipu_text_init(ipu_text *text, ipu_ctx *ctx);
void ipu_text_print(ipu_text *text, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* With quotes; `"`, `\` and control characters are escaped as in C. */
void ipu_text_quote(ipu_text *text, const char *content, size_t length);
/* Hands over the terminated text; free with ipu_free(ctx, *out, *out_bytes). On failure
 * everything is freed and *out is NULL. */
ipu_status ipu_text_finish(ipu_text *text, char **out, size_t *out_bytes);

#endif
