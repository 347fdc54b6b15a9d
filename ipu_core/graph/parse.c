/* SPDX-License-Identifier: MIT
 *
 * Reads the text form of graphs that graph_print.c writes, by recursive descent. The
 * header line may be left out (then it is a device graph); attributes not given take
 * the op's defaults. Types after the colon are checked against the rules. Errors name
 * the line. */
#include "graph/graph.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_ATTRS = 32, MAX_DEPTH = 300 };

typedef struct parser {
    ipu_ctx *ctx;
    ipu_graph *graph;
    const char *at;
    int line;
    IPU_ARRAY(ipu_value) values; /* by printed number */
    IPU_ARRAY(ipu_block) blocks; /* by printed number */
    IPU_ARRAY(bool) is_read;     /* the same: to its end */
    uint32_t held;               /* blocks among the attributes of the node */
    ipu_arena scratch;           /* attribute data until the node has its copy */
    IPU_ARRAY(int64_t) ints;     /* of the list that is being read */
    IPU_ARRAY(int64_t) numbers;  /* of the outputs of the node that is being read */
    IPU_ARRAY(ipu_value) inputs; /* of the same node */
    IPU_ARRAY(ipu_type) types;   /* of the resource that is being read */
    int depth;
} parser;

static ipu_status
fail(parser *p, const char *wanted)
{
    char found[24];
    size_t length = strcspn(p->at, "\n");
    length = length < sizeof(found) - 1 ? length : sizeof(found) - 1;
    while (length > 0 && ((unsigned char)p->at[length] & 0xc0) == 0x80) {
        length--; /* no part of a UTF-8 character */
    }
    memcpy(found, p->at, length);
    found[length] = '\0';
    return ipu_ctx_fail(p->ctx, IPU_STATUS_INVALID_ARGUMENT,
                        "line %d of the graph: expected %s at \"%s\"", p->line, wanted,
                        found);
}

static void
skip_space(parser *p)
{
    for (;;) {
        if (*p->at == '#') {
            p->at += strcspn(p->at, "\n");
        } else if (*p->at == '\n') {
            p->line++;
            p->at++;
        } else if (*p->at == ' ' || *p->at == '\t' || *p->at == '\r') {
            p->at++;
        } else {
            return;
        }
    }
}

static bool
accept(parser *p, const char *token)
{
    skip_space(p);
    size_t length = strlen(token);
    if (strncmp(p->at, token, length) != 0) {
        return false;
    }
    /* a word of one letter is a prefix: b0, r1 */
    if (length > 1 && isalpha((unsigned char)token[0]) &&
        (isalnum((unsigned char)p->at[length]) || p->at[length] == '_')) {
        return false;
    }
    p->at += length;
    return true;
}

static ipu_status
expect(parser *p, const char *token)
{
    return accept(p, token) ? IPU_OK : fail(p, token);
}

static size_t
word_length(const char *at)
{
    size_t length = 0;
    while (isalnum((unsigned char)at[length]) || at[length] == '_') {
        length++;
    }
    return length;
}

static ipu_status
parse_int(parser *p, int64_t *out)
{
    char *end;
    skip_space(p);
    *out = strtoll(p->at, &end, 10);
    if (end == p->at) {
        return fail(p, "an integer");
    }
    p->at = end;
    return IPU_OK;
}

static ipu_status
parse_dtype(parser *p, ipu_dtype *out)
{
    skip_space(p);
    size_t length = word_length(p->at);
    if (!ipu_dtype_parse(p->at, length, out)) {
        return fail(p, "a dtype");
    }
    p->at += length;
    return IPU_OK;
}

static ipu_status
parse_type(parser *p, ipu_type *out)
{
    *out = (ipu_type){0};
    IPU_TRY(parse_dtype(p, &out->dtype));
    IPU_TRY(expect(p, "["));
    while (!accept(p, "]")) {
        if (out->shape.rank == IPU_MAX_RANK) {
            return fail(p, "at most 8 dimensions");
        }
        IPU_TRY(parse_int(p, &out->shape.dims[out->shape.rank++]));
        accept(p, ",");
    }
    return IPU_OK;
}

static ipu_status
parse_text(parser *p, const char **out, uint32_t *out_length)
{
    char buffer[512];
    uint32_t length = 0;
    IPU_TRY(expect(p, "\""));
    while (*p->at != '"') {
        char c = *p->at;
        if (c == '\0' || c == '\n' || length == sizeof(buffer)) {
            return fail(p, "the end of a quoted text");
        }
        if (c == '\\' && p->at[1] == 'x' && isxdigit((unsigned char)p->at[2]) &&
            isxdigit((unsigned char)p->at[3])) {
            char digits[3] = {p->at[2], p->at[3], '\0'};
            c = (char)strtol(digits, NULL, 16);
            p->at += 3;
        } else if (c == '\\' && p->at[1] != '\0') {
            c = *++p->at;
        }
        buffer[length++] = c;
        p->at++;
    }
    p->at++;
    *out_length = length;
    return ipu_arena_text(p->ctx, &p->scratch, buffer, length, out);
}

static ipu_status
parse_value(parser *p, ipu_value *out)
{
    int64_t number;
    IPU_TRY(expect(p, "%"));
    IPU_TRY(parse_int(p, &number));
    IPU_FAIL_IF(p->ctx,
                number < 0 || (uint64_t)number >= p->values.count ||
                    p->values.items[number].index == IPU_NO_INDEX,
                INVALID_ARGUMENT, "line %d of the graph: %%%" PRId64 " is not defined",
                p->line, number);
    *out = p->values.items[number];
    return IPU_OK;
}

static ipu_status
name_value(parser *p, int64_t number, ipu_value value)
{
    IPU_FAIL_IF(p->ctx, number < 0 || number > 1000000, INVALID_ARGUMENT,
                "line %d of the graph: value number %" PRId64, p->line, number);
    IPU_TRY(IPU_ARRAY_EXTEND(p->ctx, &p->values, (size_t)number + 1, &IPU_NO_VALUE));
    p->values.items[number] = value;
    return IPU_OK;
}

static ipu_status
parse_bytes(parser *p, ipu_attr *attr)
{
    IPU_TRY(expect(p, "0x"));
    size_t digits = 0;
    while (isxdigit((unsigned char)p->at[digits])) {
        digits++;
    }
    unsigned char *bytes;
    IPU_TRY(ipu_arena_alloc(p->ctx, &p->scratch, digits / 2, &bytes));
    for (size_t i = 0; i + 1 < digits; i += 2) {
        char pair[3] = {p->at[i], p->at[i + 1], '\0'};
        bytes[i / 2] = (unsigned char)strtol(pair, NULL, 16);
    }
    p->at += digits;
    attr->as.bytes = bytes;
    attr->count = (uint32_t)(digits / 2);
    return IPU_OK;
}

static ipu_status
parse_held_block(parser *p, int64_t *out)
{
    IPU_TRY(expect(p, "b"));
    IPU_TRY(parse_int(p, out));
    if (*out < 0 || (uint64_t)*out >= p->blocks.count || !p->is_read.items[*out]) {
        return fail(p, "a block that stands above");
    }
    *out = p->blocks.items[*out].index;
    p->held++;
    return IPU_OK;
}

/* A list in brackets, of what `parse_one` reads. */
static ipu_status
parse_list(parser *p, ipu_status (*parse_one)(parser *, int64_t *), ipu_attr *attr)
{
    p->ints.count = 0;
    IPU_TRY(expect(p, "["));
    while (!accept(p, "]")) {
        int64_t number;
        IPU_TRY(parse_one(p, &number));
        IPU_TRY(IPU_ARRAY_PUSH(p->ctx, &p->ints, number));
        accept(p, ",");
    }
    attr->count = (uint32_t)p->ints.count;
    return ipu_arena_copy(p->ctx, &p->scratch, p->ints.items,
                          p->ints.count * sizeof(int64_t), &attr->as.ints);
}

static ipu_status
parse_attr(parser *p, ipu_attr *attr)
{
    ipu_dtype dtype;
    char *end;
    skip_space(p);
    size_t length = word_length(p->at);
    *attr = (ipu_attr){0};
    if (!ipu_attr_parse_key(p->at, length, &attr->key)) {
        return fail(p, "an attribute");
    }
    p->at += length;
    IPU_TRY(expect(p, "="));
    switch (ipu_attr_kind_of(attr->key)) {
    case IPU_ATTR_KIND_INT:
        return parse_int(p, &attr->as.i);
    case IPU_ATTR_KIND_BOOL:
        attr->as.i = accept(p, "true");
        return attr->as.i ? IPU_OK : expect(p, "false");
    case IPU_ATTR_KIND_FLOAT:
        skip_space(p);
        attr->as.f = strtod(p->at, &end);
        if (end == p->at) {
            return fail(p, "a number");
        }
        p->at = end;
        return IPU_OK;
    case IPU_ATTR_KIND_DTYPE:
        IPU_TRY(parse_dtype(p, &dtype));
        attr->as.i = (int64_t)dtype;
        return IPU_OK;
    case IPU_ATTR_KIND_INTS:
        return parse_list(p, parse_int, attr);
    case IPU_ATTR_KIND_BYTES:
        return parse_bytes(p, attr);
    case IPU_ATTR_KIND_BLOCK:
        return parse_held_block(p, &attr->as.i);
    case IPU_ATTR_KIND_BLOCKS:
        return parse_list(p, parse_held_block, attr);
    case IPU_ATTR_KIND_TEXT:
        return parse_text(p, &attr->as.text, &attr->count);
    }
    return IPU_OK;
}

static ipu_status
check_types(parser *p, const ipu_node_data *node)
{
    for (uint32_t i = 0; i < node->output_count; i++) {
        ipu_type type;
        IPU_TRY(expect(p, i == 0 ? ":" : ","));
        IPU_TRY(parse_type(p, &type));
        const ipu_type *actual =
            &ipu_value_of(p->graph, ipu_node_output(node, i))->type;
        IPU_FAIL_IF(p->ctx, !ipu_type_equal(&type, actual), INVALID_ARGUMENT,
                    "line %d of the graph: %s gives %s, not %s", p->line,
                    ipu_op_info_of(node->op)->name, IPU_TYPE_TEXT(actual),
                    IPU_TYPE_TEXT(&type));
    }
    return IPU_OK;
}

static ipu_status
parse_ordinal(parser *p, int16_t *out)
{
    int64_t number;
    IPU_TRY(parse_int(p, &number));
    if (number < -1 || number > INT16_MAX) {
        return fail(p, "a number from -1 to 32767");
    }
    *out = (int16_t)number;
    return IPU_OK;
}

/* Where the node runs, and which recomputation it belongs to, where that is said. */
static ipu_status
parse_annotations(parser *p, ipu_node_request *request)
{
    request->placement = ipu_graph_placement(p->graph);
    if (!accept(p, "@")) {
        return IPU_OK;
    }
    IPU_TRY(expect(p, "("));
    while (!accept(p, ")")) {
        if (accept(p, "device")) {
            IPU_TRY(expect(p, "="));
            IPU_TRY(parse_ordinal(p, &request->placement.device));
        } else if (accept(p, "shard")) {
            IPU_TRY(expect(p, "="));
            IPU_TRY(parse_ordinal(p, &request->placement.shard));
        } else if (accept(p, "stage")) {
            IPU_TRY(expect(p, "="));
            IPU_TRY(parse_ordinal(p, &request->placement.stage));
        } else if (accept(p, "phase")) {
            IPU_TRY(expect(p, "="));
            IPU_TRY(parse_ordinal(p, &request->placement.phase));
            if (request->placement.phase != IPU_PHASE_FORWARD &&
                request->placement.phase != IPU_PHASE_BACKWARD) {
                return fail(p, "0 or 1, the phase,");
            }
        } else if (accept(p, "rounding")) {
            IPU_TRY(expect(p, "="));
            IPU_TRY(parse_ordinal(p, &request->placement.rounding));
            if (request->placement.rounding < IPU_ROUNDING_AS_CONFIGURED ||
                request->placement.rounding > IPU_ROUNDING_SCOPE_STOCHASTIC) {
                return fail(p, "0, 1 or 2, the rounding,");
            }
        } else {
            int64_t number;
            IPU_TRY(expect(p, "recomputation"));
            IPU_TRY(expect(p, "="));
            IPU_TRY(parse_int(p, &number));
            if (number < 0 || number > UINT32_MAX) {
                return fail(p, "the number of a recomputation");
            }
            request->recomputation = (uint32_t)number;
        }
        accept(p, ",");
    }
    return IPU_OK;
}

static ipu_status
parse_outputs(parser *p)
{
    p->numbers.count = 0;
    skip_space(p);
    if (*p->at != '%') {
        return IPU_OK;
    }
    do {
        int64_t number;
        IPU_TRY(expect(p, "%"));
        IPU_TRY(parse_int(p, &number));
        IPU_TRY(IPU_ARRAY_PUSH(p->ctx, &p->numbers, number));
    } while (accept(p, ","));
    return expect(p, "=");
}

static ipu_status
parse_inputs(parser *p)
{
    p->inputs.count = 0;
    IPU_TRY(expect(p, "("));
    while (!accept(p, ")")) {
        ipu_value value = IPU_NO_VALUE;
        IPU_TRY(parse_value(p, &value));
        IPU_TRY(IPU_ARRAY_PUSH(p->ctx, &p->inputs, value));
        accept(p, ",");
    }
    return IPU_OK;
}

static ipu_status
parse_node(parser *p, ipu_block block)
{
    ipu_attr attrs[MAX_ATTRS];
    ipu_node_request request = {.attrs = attrs};
    IPU_TRY(parse_outputs(p));
    skip_space(p);
    size_t length = word_length(p->at);
    if (!ipu_op_parse(p->at, length, &request.op)) {
        return fail(p, "an op");
    }
    p->at += length;
    p->held = 0;
    IPU_TRY(parse_inputs(p));
    if (accept(p, "{")) {
        while (!accept(p, "}")) {
            if (request.attr_count == MAX_ATTRS) {
                return fail(p, "fewer attributes");
            }
            IPU_TRY(parse_attr(p, &attrs[request.attr_count++]));
            accept(p, ",");
        }
    }
    IPU_TRY(parse_annotations(p, &request));
    ipu_node id;
    IPU_TRY(ipu_graph_add_node(p->ctx, p->graph, block, &request, p->inputs.items,
                               (uint32_t)p->inputs.count, &id));
    const ipu_node_data *node = ipu_node_of(p->graph, id);
    if (p->held != ipu_node_block_count(node)) {
        return fail(p, "the blocks that the op holds, and no others");
    }
    if (node->output_count != p->numbers.count) {
        return fail(p, "as many names as the op has outputs");
    }
    for (uint32_t i = 0; i < node->output_count; i++) {
        IPU_TRY(name_value(p, p->numbers.items[i], ipu_node_output(node, i)));
    }
    return check_types(p, node);
}

static ipu_status
parse_block(parser *p, ipu_block parent)
{
    int64_t number;
    ipu_block block = {0};
    IPU_TRY(expect(p, "b"));
    IPU_TRY(parse_int(p, &number));
    if (parent.index != IPU_NO_INDEX) {
        IPU_TRY(ipu_graph_add_block(p->ctx, p->graph, parent, &block));
    }
    if (number != (int64_t)p->blocks.count) {
        return fail(p, "blocks numbered in order");
    }
    IPU_TRY(IPU_ARRAY_PUSH(p->ctx, &p->blocks, block));
    IPU_TRY(IPU_ARRAY_PUSH(p->ctx, &p->is_read, false));
    size_t place = p->blocks.count - 1;
    IPU_TRY(expect(p, "("));
    while (!accept(p, ")")) {
        ipu_type type;
        ipu_value value;
        IPU_TRY(expect(p, "%"));
        IPU_TRY(parse_int(p, &number));
        IPU_TRY(expect(p, ":"));
        IPU_TRY(parse_type(p, &type));
        IPU_TRY(ipu_graph_add_param(p->ctx, p->graph, block, &type, &value));
        IPU_TRY(name_value(p, number, value));
        accept(p, ",");
    }
    IPU_TRY(expect(p, "{"));
    if (++p->depth > MAX_DEPTH) {
        return fail(p, "blocks that are nested less deep");
    }
    while (!accept(p, "}")) {
        if (accept(p, "block")) {
            IPU_TRY(parse_block(p, block));
        } else {
            IPU_TRY(parse_node(p, block));
        }
    }
    p->depth--;
    IPU_TRY(expect(p, "->"));
    IPU_TRY(expect(p, "("));
    while (!accept(p, ")")) {
        ipu_value value;
        IPU_TRY(parse_value(p, &value));
        IPU_TRY(ipu_graph_add_result(p->ctx, p->graph, block, value));
        accept(p, ",");
    }
    p->is_read.items[place] = true;
    return IPU_OK;
}

static ipu_status
parse_resource(parser *p)
{
    ipu_resource resource = {0};
    int64_t number;
    uint32_t length;
    uint32_t index;
    int64_t parts;
    ipu_type whole;
    IPU_TRY(expect(p, "r"));
    IPU_TRY(parse_int(p, &number));
    if (accept(p, "variable")) {
        resource.kind = IPU_RESOURCE_VARIABLE;
    } else if (accept(p, "infeed")) {
        resource.kind = IPU_RESOURCE_INFEED;
    } else if (accept(p, "host")) {
        resource.kind = IPU_RESOURCE_HOST;
    } else {
        IPU_TRY(expect(p, "outfeed"));
        resource.kind = IPU_RESOURCE_OUTFEED;
    }
    IPU_TRY(expect(p, "id"));
    IPU_TRY(expect(p, "="));
    IPU_TRY(parse_int(p, &resource.id));
    resource.is_remote = accept(p, "remote");
    resource.is_shared = accept(p, "shared");
    if (accept(p, "in")) {
        IPU_TRY(parse_int(p, &parts));
        if (parts < 2 || parts > INT32_MAX) {
            return fail(p, "2 parts or more in front");
        }
        IPU_TRY(expect(p, "parts"));
        IPU_TRY(expect(p, "of"));
        IPU_TRY(parse_type(p, &whole));
        resource.parts = (uint32_t)parts;
        resource.whole = &whole;
    }
    IPU_TRY(parse_text(p, &resource.name, &length));
    p->types.count = 0;
    do {
        ipu_type type;
        IPU_TRY(parse_type(p, &type));
        IPU_TRY(IPU_ARRAY_PUSH(p->ctx, &p->types, type));
    } while (accept(p, ","));
    resource.types = p->types.items;
    resource.type_count = (uint32_t)p->types.count;
    IPU_TRY(ipu_graph_add_resource(p->ctx, p->graph, &resource, &index));
    return (int64_t)index == number ? IPU_OK : fail(p, "resources numbered in order");
}

static ipu_status
parse_graph(parser *p)
{
    while (accept(p, "resource")) {
        IPU_TRY(parse_resource(p));
    }
    IPU_TRY(expect(p, "block"));
    IPU_TRY(parse_block(p, IPU_NO_BLOCK));
    skip_space(p);
    return *p->at == '\0' ? IPU_OK : fail(p, "the end of the text");
}

/* In front of an error of the builder, which knows nothing of lines. */
static void
name_line(parser *p)
{
    char before[sizeof(p->ctx->message)];
    if (strstr(p->ctx->message, " of the graph") == NULL) {
        memcpy(before, p->ctx->message, sizeof(before));
        snprintf(p->ctx->message, sizeof(before), "line %d of the graph: %.960s",
                 p->line, before);
    }
}

ipu_status
ipu_graph_parse(ipu_ctx *ctx, const char *text, ipu_graph **out)
{
    parser p = {.ctx = ctx, .at = text, .line = 1};
    *out = NULL;
    bool host = accept(&p, "host");
    if (host || accept(&p, "device")) {
        IPU_TRY(expect(&p, "graph"));
    }
    IPU_TRY(ipu_graph_create(ctx, host, &p.graph));
    ipu_status status = parse_graph(&p);
    if (status != IPU_OK) {
        name_line(&p);
        ipu_graph_free(ctx, p.graph);
        p.graph = NULL;
    }
    IPU_ARRAY_FREE(ctx, &p.values);
    IPU_ARRAY_FREE(ctx, &p.blocks);
    IPU_ARRAY_FREE(ctx, &p.is_read);
    IPU_ARRAY_FREE(ctx, &p.ints);
    IPU_ARRAY_FREE(ctx, &p.numbers);
    IPU_ARRAY_FREE(ctx, &p.inputs);
    IPU_ARRAY_FREE(ctx, &p.types);
    ipu_arena_free(ctx, &p.scratch);
    *out = p.graph;
    return status;
}
