/* SPDX-License-Identifier: MIT
 *
 * Shapes and types: comparison, sizes, broadcasting, printing. */
#include "base/shape.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

ipu_shape
ipu_shape_make(int32_t rank, const int64_t *dims)
{
    ipu_shape shape = {.rank = rank};
    for (int32_t i = 0; i < rank; i++) {
        shape.dims[i] = dims[i];
    }
    return shape;
}

ipu_shape
ipu_shape_scalar(void)
{
    return (ipu_shape){0};
}

bool
ipu_shape_equal(const ipu_shape *a, const ipu_shape *b)
{
    return a->rank == b->rank &&
           memcmp(a->dims, b->dims, (size_t)a->rank * sizeof(a->dims[0])) == 0;
}

bool
ipu_shape_is_last_axis(const ipu_shape *part, const ipu_shape *whole)
{
    return part->rank > 0 && part->rank <= whole->rank &&
           part->dims[part->rank - 1] == whole->dims[whole->rank - 1] &&
           ipu_shape_elements(part) == part->dims[part->rank - 1];
}

bool
ipu_type_equal(const ipu_type *a, const ipu_type *b)
{
    return a->dtype == b->dtype && ipu_shape_equal(&a->shape, &b->shape);
}

int64_t
ipu_shape_elements(const ipu_shape *shape)
{
    return ipu_shape_span(shape, 0, shape->rank);
}

int64_t
ipu_shape_span(const ipu_shape *shape, int32_t begin, int32_t end)
{
    int64_t elements = 1;
    for (int32_t i = begin; i < end; i++) {
        elements *= shape->dims[i];
    }
    return elements;
}

size_t
ipu_type_bytes(const ipu_type *type)
{
    return (size_t)ipu_shape_elements(&type->shape) * ipu_dtype_bytes(type->dtype);
}

ipu_status
ipu_type_check(ipu_ctx *ctx, const ipu_type *type)
{
    char text[128];
    int64_t elements = 1;
    bool overflow = false;
    for (int32_t i = 0; i < type->shape.rank; i++) {
        int64_t dim = type->shape.dims[i];
        IPU_FAIL_IF(ctx, dim < 0, VALUE, "dimension %" PRId32 " of %s is negative", i,
                    ipu_shape_print(&type->shape, text, sizeof(text)));
        overflow =
            overflow || __builtin_mul_overflow(elements, dim > 0 ? dim : 1, &elements);
    }
    /* a quarter of the address space, so that offsets can be added without a check */
    overflow = overflow || elements > INT64_MAX / 4 / 8;
    IPU_FAIL_IF(ctx, overflow, OUT_OF_MEMORY, "out of memory: a tensor of shape %s",
                ipu_shape_print(&type->shape, text, sizeof(text)));
    return IPU_OK;
}

void
ipu_shape_strides(const ipu_shape *shape, bool broadcast, int64_t strides[IPU_MAX_RANK])
{
    int64_t stride = 1;
    for (int32_t i = shape->rank - 1; i >= 0; i--) {
        strides[i] = broadcast && shape->dims[i] == 1 ? 0 : stride;
        stride *= shape->dims[i];
    }
}

bool
ipu_shape_broadcast(const ipu_shape *a, const ipu_shape *b, ipu_shape *out)
{
    ipu_shape result = {.rank = a->rank > b->rank ? a->rank : b->rank};
    for (int32_t i = 0; i < result.rank; i++) {
        int32_t ia = i - (result.rank - a->rank);
        int32_t ib = i - (result.rank - b->rank);
        int64_t da = ia < 0 ? 1 : a->dims[ia];
        int64_t db = ib < 0 ? 1 : b->dims[ib];
        if (da != db && da != 1 && db != 1) {
            return false;
        }
        result.dims[i] = da == 1 ? db : da;
    }
    *out = result;
    return true;
}

/* Appends what fits of `more`; returns the new length. */
static size_t
append(char *text, size_t size, size_t used, const char *more)
{
    size_t length = strlen(more);
    size_t room = size > used + 1 ? size - used - 1 : 0;
    size_t fits = length < room ? length : room;
    memcpy(text + used, more, fits);
    text[used + fits] = '\0';
    return used + fits;
}

/* `unknown` stands for a dimension below 0; NULL: its number does. */
static size_t
append_dims(const ipu_shape *shape, const char *separator, const char *unknown,
            char *text, size_t size, size_t used)
{
    for (int32_t i = 0; i < shape->rank; i++) {
        char number[24];
        snprintf(number, sizeof(number), "%" PRId64, shape->dims[i]);
        used = append(text, size, used, i == 0 ? "" : separator);
        bool is_known = unknown == NULL || shape->dims[i] >= 0;
        used = append(text, size, used, is_known ? number : unknown);
    }
    return used;
}

const char *
ipu_shape_print(const ipu_shape *shape, char *text, size_t size)
{
    size_t used = append(text, size, 0, "(");
    used = append_dims(shape, ", ", NULL, text, size, used);
    append(text, size, used, shape->rank == 1 ? ",)" : ")");
    return text;
}

const char *
ipu_type_print(const ipu_type *type, char *text, size_t size)
{
    size_t used = append(text, size, 0, ipu_dtype_name(type->dtype));
    used = append(text, size, used, type->shape.rank < 0 ? "[..." : "[");
    used = append_dims(&type->shape, ",", "?", text, size, used);
    append(text, size, used, "]");
    return text;
}
