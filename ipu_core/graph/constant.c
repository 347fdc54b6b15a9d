/* SPDX-License-Identifier: MIT
 *
 * Reading and making constants. One thread per graph. */
#include "graph/constant.h"

#include <math.h>
#include <string.h>

const ipu_attr *
ipu_constant_of(const ipu_graph *graph, ipu_value value)
{
    const ipu_node_data *node = ipu_producer_of(graph, value);
    return node != NULL && node->op == IPU_OP_ID_CONSTANT
               ? ipu_attrs_find(node->attrs, IPU_ATTR_VALUE)
               : NULL;
}

double
ipu_constant_at(const ipu_attr *bytes, ipu_dtype dtype, size_t i)
{
    size_t size = ipu_dtype_bytes(dtype);
    const unsigned char *at = (const unsigned char *)bytes->as.bytes + i * size;
    if (dtype == IPU_DTYPE_FLOAT16) {
        uint16_t half;
        memcpy(&half, at, sizeof half);
        return (double)ipu_float16_to_float(half);
    }
    switch (dtype) {
#define X(NAME, text, storage, bytes_each, kind, device) \
    case IPU_DTYPE_##NAME: { \
        storage number; \
        memcpy(&number, at, sizeof number); \
        return (double)number; \
    }
        IPU_DTYPE_LIST(X)
#undef X
    case IPU_DTYPE_COUNT:
        break;
    }
    return 0.0;
}

bool
ipu_constant_number(const ipu_graph *graph, ipu_value value, double *out)
{
    const ipu_node_data *node = ipu_producer_of(graph, value);
    ipu_dtype dtype = ipu_value_of(graph, value)->type.dtype;
    if (node != NULL && node->op == IPU_OP_ID_BROADCAST) {
        value = node->inputs[0];
    }
    const ipu_attr *bytes = ipu_constant_of(graph, value);
    if (bytes == NULL || bytes->count != ipu_dtype_bytes(dtype)) {
        return false;
    }
    *out = ipu_constant_at(bytes, dtype, 0);
    return true;
}

bool
ipu_constant_is(const ipu_graph *graph, ipu_value value, double number)
{
    double found;
    return ipu_constant_number(graph, value, &found) && found == number &&
           !signbit(found) == !signbit(number);
}

ipu_status
ipu_constant_emit(ipu_ctx *ctx, ipu_graph *graph, ipu_block block, ipu_node like,
                  const ipu_type *type, const void *bytes, ipu_value *out)
{
    const ipu_type copy = *type; /* the original may be in an array that moves */
    ipu_attr attrs[3] = {ipu_attr_int(IPU_ATTR_DTYPE, (int64_t)copy.dtype),
                         ipu_attr_shape(&copy.shape),
                         {.key = IPU_ATTR_VALUE,
                          .count = (uint32_t)ipu_type_bytes(&copy),
                          .as = {.bytes = bytes}}};
    return ipu_graph_emit(ctx, graph, block, like, IPU_OP_ID_CONSTANT, NULL, 0, attrs,
                          3, out);
}
