/* SPDX-License-Identifier: MIT
 *
 * Attribute names, look-up and comparison. */
#include "base/attrs.h"

#include <string.h>

static const struct {
    const char *name;
    ipu_attr_kind kind;
} keys[] = {
#define X(name, text, kind) {#text, IPU_ATTR_KIND_##kind},
    IPU_ATTR_LIST(X)
#undef X
};

const char *
ipu_attr_name(ipu_attr_key key)
{
    return keys[key].name;
}

ipu_attr_kind
ipu_attr_kind_of(ipu_attr_key key)
{
    return keys[key].kind;
}

bool
ipu_attr_parse_key(const char *text, size_t length, ipu_attr_key *out)
{
    for (int i = 0; i < IPU_ATTR_COUNT; i++) {
        if (strlen(keys[i].name) == length && memcmp(keys[i].name, text, length) == 0) {
            *out = (ipu_attr_key)i;
            return true;
        }
    }
    return false;
}

const ipu_attr *
ipu_attrs_find(ipu_attrs attrs, ipu_attr_key key)
{
    for (uint32_t i = 0; i < attrs.count; i++) {
        if (attrs.items[i].key == key) {
            return &attrs.items[i];
        }
    }
    return NULL;
}

int64_t
ipu_attrs_int(ipu_attrs attrs, ipu_attr_key key, int64_t otherwise)
{
    const ipu_attr *attr = ipu_attrs_find(attrs, key);
    return attr == NULL ? otherwise : attr->as.i;
}

double
ipu_attrs_float(ipu_attrs attrs, ipu_attr_key key, double otherwise)
{
    const ipu_attr *attr = ipu_attrs_find(attrs, key);
    return attr == NULL ? otherwise : attr->as.f;
}

const int64_t *
ipu_attrs_ints(ipu_attrs attrs, ipu_attr_key key, uint32_t *count)
{
    const ipu_attr *attr = ipu_attrs_find(attrs, key);
    *count = attr == NULL ? 0 : attr->count;
    return attr == NULL ? NULL : attr->as.ints;
}

size_t
ipu_attr_bytes(const ipu_attr *attr)
{
    switch (ipu_attr_kind_of(attr->key)) {
    case IPU_ATTR_KIND_INTS:
    case IPU_ATTR_KIND_BLOCKS:
        return attr->count * sizeof(int64_t);
    case IPU_ATTR_KIND_BYTES:
    case IPU_ATTR_KIND_TEXT:
        return attr->count;
    case IPU_ATTR_KIND_INT:
    case IPU_ATTR_KIND_BOOL:
    case IPU_ATTR_KIND_FLOAT:
    case IPU_ATTR_KIND_DTYPE:
    case IPU_ATTR_KIND_BLOCK:
        break;
    }
    return 0;
}

static bool
attr_equal(const ipu_attr *a, const ipu_attr *b)
{
    if (a->key != b->key || a->count != b->count) {
        return false;
    }
    switch (ipu_attr_kind_of(a->key)) {
    case IPU_ATTR_KIND_FLOAT: /* by bits: -0.0 and NaN are values like any other */
        return memcmp(&a->as.f, &b->as.f, sizeof(a->as.f)) == 0;
    case IPU_ATTR_KIND_INTS:
    case IPU_ATTR_KIND_BLOCKS:
        return a->count == 0 ||
               memcmp(a->as.ints, b->as.ints, a->count * sizeof(int64_t)) == 0;
    case IPU_ATTR_KIND_BYTES:
    case IPU_ATTR_KIND_TEXT:
        return a->count == 0 || memcmp(a->as.bytes, b->as.bytes, a->count) == 0;
    case IPU_ATTR_KIND_INT:
    case IPU_ATTR_KIND_BOOL:
    case IPU_ATTR_KIND_DTYPE:
    case IPU_ATTR_KIND_BLOCK:
        break;
    }
    return a->as.i == b->as.i;
}

bool
ipu_attrs_equal(ipu_attrs a, ipu_attrs b)
{
    if (a.count != b.count) {
        return false;
    }
    for (uint32_t i = 0; i < a.count; i++) {
        if (!attr_equal(&a.items[i], &b.items[i])) {
            return false;
        }
    }
    return true;
}

ipu_status
ipu_attrs_copy(ipu_ctx *ctx, ipu_arena *arena, ipu_attrs attrs, ipu_attrs *out)
{
    ipu_attr *items;
    IPU_TRY(ipu_arena_alloc(ctx, arena, attrs.count * sizeof(ipu_attr), &items));
    for (uint32_t i = 0; i < attrs.count; i++) {
        ipu_attr item = attrs.items[i];
        size_t bytes = ipu_attr_bytes(&item);
        if (bytes > 0) {
            IPU_TRY(ipu_arena_copy(ctx, arena, item.as.bytes, bytes, &item.as.bytes));
        }
        ipu_attrs_insert(items, i, item);
    }
    *out = (ipu_attrs){items, attrs.count};
    return IPU_OK;
}
