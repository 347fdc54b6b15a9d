/* SPDX-License-Identifier: MIT
 *
 * Growing texts for printers. */
#include "base/text.h"

#include <stdarg.h>
#include <stdio.h>

void
ipu_text_init(ipu_text *text, ipu_ctx *ctx)
{
    *text = (ipu_text){.ctx = ctx, .status = IPU_OK};
}

void
ipu_text_print(ipu_text *text, const char *format, ...)
{
    va_list arguments;
    if (text->status != IPU_OK) {
        return;
    }
    va_start(arguments, format);
    int length = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    size_t needed = (size_t)(length > 0 ? length : 0);
    text->status = IPU_ARRAY_RESERVE(text->ctx, &text->chars, needed + 1);
    if (text->status != IPU_OK) {
        return;
    }
    va_start(arguments, format);
    vsnprintf(text->chars.items + text->chars.count, needed + 1, format, arguments);
    va_end(arguments);
    text->chars.count += needed;
}

void
ipu_text_quote(ipu_text *text, const char *content, size_t length)
{
    ipu_text_print(text, "\"");
    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)content[i];
        if (c == '"' || c == '\\') {
            ipu_text_print(text, "\\%c", c);
        } else if (c < 32 || c == 127) {
            ipu_text_print(text, "\\x%02x", c);
        } else {
            ipu_text_print(text, "%c", c);
        }
    }
    ipu_text_print(text, "\"");
}

ipu_status
ipu_text_finish(ipu_text *text, char **out, size_t *out_bytes)
{
    *out = NULL;
    *out_bytes = 0;
    ipu_text_print(text, "%s", "");
    size_t length = text->chars.count;
    if (text->status == IPU_OK) {
        /* exactly as long as the text, since memory is freed by its size */
        text->status = ipu_alloc(text->ctx, length + 1, out);
    }
    if (text->status == IPU_OK) {
        ipu_copy_bytes(*out, text->chars.items, length);
        *out_bytes = length + 1;
    }
    IPU_ARRAY_FREE(text->ctx, &text->chars);
    return text->status;
}
