/* SPDX-License-Identifier: MIT
 *
 * Element types. */
#include "base/dtype.h"

#include <string.h>

static const struct {
    const char *name;
    size_t bytes;
    char kind;
    bool on_device;
} dtypes[] = {
#define X(name, text, storage, bytes, kind, device) {#text, bytes, kind, device},
    IPU_DTYPE_LIST(X)
#undef X
};

const char *
ipu_dtype_name(ipu_dtype dtype)
{
    return dtypes[dtype].name;
}

size_t
ipu_dtype_bytes(ipu_dtype dtype)
{
    return dtypes[dtype].bytes;
}

char
ipu_dtype_kind(ipu_dtype dtype)
{
    return dtypes[dtype].kind;
}

bool
ipu_dtype_on_device(ipu_dtype dtype)
{
    return dtypes[dtype].on_device;
}

bool
ipu_dtype_parse(const char *text, size_t length, ipu_dtype *out)
{
    for (int i = 0; i < IPU_DTYPE_COUNT; i++) {
        if (strlen(dtypes[i].name) == length &&
            memcmp(dtypes[i].name, text, length) == 0) {
            *out = (ipu_dtype)i;
            return true;
        }
    }
    return false;
}
