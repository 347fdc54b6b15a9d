/* SPDX-License-Identifier: MIT
 *
 * The text form of graphs, as graph.h shows it. Values are numbered in the order in
 * which they are printed, so that equal graphs print equally whatever was pruned from
 * them. Blocks that a node holds are printed before it:
 *
 *     block b1 (%3: float32[]) {
 *       ...
 *     } -> (%5)
 *     %6 = repeat(%0, %2) {body=b1} : float32[]
 *
 * A node that was placed, or that belongs to a recomputation, says so after its
 * attributes: @(shard=1, stage=0, recomputation=2).
 */
#include "graph/graph.h"

#include <inttypes.h>
#include <string.h>

#include "base/text.h"

typedef struct printer {
    const ipu_graph *graph;
    ipu_text text;
    uint32_t *numbers; /* of values */
    uint32_t *blocks;
    uint32_t next_value;
    uint32_t next_block;
} printer;

static void print_block(printer *p, ipu_block id, int indent);

static void
print_value(printer *p, ipu_value value)
{
    ipu_text_print(&p->text, "%%%" PRIu32, p->numbers[value.index]);
}

static void
define(printer *p, ipu_value value)
{
    p->numbers[value.index] = p->next_value++;
    print_value(p, value);
}

static void
print_type(printer *p, const ipu_type *type)
{
    ipu_text_print(&p->text, "%s", IPU_TYPE_TEXT(type));
}

static void
print_attr(printer *p, const ipu_attr *attr)
{
    ipu_text_print(&p->text, "%s=", ipu_attr_name(attr->key));
    switch (ipu_attr_kind_of(attr->key)) {
    case IPU_ATTR_KIND_INT:
        ipu_text_print(&p->text, "%" PRId64, attr->as.i);
        break;
    case IPU_ATTR_KIND_BOOL:
        ipu_text_print(&p->text, "%s", attr->as.i ? "true" : "false");
        break;
    case IPU_ATTR_KIND_FLOAT:
        ipu_text_print(&p->text, "%.17g", attr->as.f);
        break;
    case IPU_ATTR_KIND_DTYPE:
        ipu_text_print(&p->text, "%s", ipu_dtype_name((ipu_dtype)attr->as.i));
        break;
    case IPU_ATTR_KIND_INTS:
        ipu_text_print(&p->text, "[");
        for (uint32_t i = 0; i < attr->count; i++) {
            ipu_text_print(&p->text, "%s%" PRId64, i == 0 ? "" : ",", attr->as.ints[i]);
        }
        ipu_text_print(&p->text, "]");
        break;
    case IPU_ATTR_KIND_BYTES:
        ipu_text_print(&p->text, "0x");
        for (uint32_t i = 0; i < attr->count; i++) {
            ipu_text_print(&p->text, "%02x",
                           ((const unsigned char *)attr->as.bytes)[i]);
        }
        break;
    case IPU_ATTR_KIND_BLOCK:
        ipu_text_print(&p->text, "b%" PRIu32, p->blocks[attr->as.i]);
        break;
    case IPU_ATTR_KIND_BLOCKS:
        ipu_text_print(&p->text, "[");
        for (uint32_t i = 0; i < attr->count; i++) {
            ipu_text_print(&p->text, "%sb%" PRIu32, i == 0 ? "" : ",",
                           p->blocks[attr->as.ints[i]]);
        }
        ipu_text_print(&p->text, "]");
        break;
    case IPU_ATTR_KIND_TEXT:
        ipu_text_quote(&p->text, attr->as.text, attr->count);
        break;
    }
}

/* The parts of a placement that differ from those of a node that nobody placed. */
static void
print_annotations(printer *p, const ipu_node_data *node)
{
    const ipu_placement usual = ipu_graph_placement(p->graph);
    const struct {
        const char *name;
        int64_t value;
        int64_t usual;
    } rows[] = {{"device", node->placement.device, usual.device},
                {"shard", node->placement.shard, usual.shard},
                {"stage", node->placement.stage, usual.stage},
                {"phase", node->placement.phase, usual.phase},
                {"rounding", node->placement.rounding, usual.rounding},
                {"recomputation", node->recomputation, 0}};
    bool any = false;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (rows[i].value != rows[i].usual) {
            ipu_text_print(&p->text, "%s%s=%" PRId64, any ? ", " : " @(", rows[i].name,
                           rows[i].value);
            any = true;
        }
    }
    ipu_text_print(&p->text, "%s", any ? ")" : "");
}

static void
print_node(printer *p, ipu_node id, int indent)
{
    const ipu_node_data *node = ipu_node_of(p->graph, id);
    for (uint32_t i = 0; i < ipu_node_block_count(node); i++) {
        print_block(p, ipu_node_block(node, i), indent);
    }
    ipu_text_print(&p->text, "%*s", indent, "");
    for (uint32_t i = 0; i < node->output_count; i++) {
        ipu_text_print(&p->text, "%s", i == 0 ? "" : ", ");
        define(p, ipu_node_output(node, i));
    }
    ipu_text_print(&p->text, "%s%s(", node->output_count == 0 ? "" : " = ",
                   ipu_op_info_of(node->op)->name);
    for (uint32_t i = 0; i < node->input_count; i++) {
        ipu_text_print(&p->text, "%s", i == 0 ? "" : ", ");
        print_value(p, node->inputs[i]);
    }
    ipu_text_print(&p->text, ")");
    for (uint32_t i = 0; i < node->attrs.count; i++) {
        ipu_text_print(&p->text, "%s", i == 0 ? " {" : ", ");
        print_attr(p, &node->attrs.items[i]);
    }
    ipu_text_print(&p->text, "%s", node->attrs.count == 0 ? "" : "}");
    print_annotations(p, node);
    for (uint32_t i = 0; i < node->output_count; i++) {
        ipu_text_print(&p->text, "%s", i == 0 ? " : " : ", ");
        print_type(p, &ipu_value_of(p->graph, ipu_node_output(node, i))->type);
    }
    if (node->source.file != NULL) {
        ipu_text_print(&p->text, "  # %s:%" PRId32, node->source.file,
                       node->source.line);
    }
    ipu_text_print(&p->text, "\n");
}

static void
print_block(printer *p, ipu_block id, int indent)
{
    const ipu_block_data *block = ipu_block_of(p->graph, id);
    p->blocks[id.index] = p->next_block++;
    ipu_text_print(&p->text, "%*sblock b%" PRIu32 "(", indent, "", p->blocks[id.index]);
    for (size_t i = 0; i < block->params.count; i++) {
        ipu_text_print(&p->text, "%s", i == 0 ? "" : ", ");
        define(p, block->params.items[i]);
        ipu_text_print(&p->text, ": ");
        print_type(p, &ipu_value_of(p->graph, block->params.items[i])->type);
    }
    ipu_text_print(&p->text, ") {\n");
    for (ipu_node n = block->first; ipu_is_node(n); n = ipu_node_next(p->graph, n)) {
        print_node(p, n, indent + 2);
    }
    ipu_text_print(&p->text, "%*s} -> (", indent, "");
    for (size_t i = 0; i < block->results.count; i++) {
        ipu_text_print(&p->text, "%s", i == 0 ? "" : ", ");
        print_value(p, block->results.items[i]);
    }
    ipu_text_print(&p->text, ")\n");
}

static void
print_resources(printer *p)
{
    static const char *const kinds[] = {"variable", "infeed", "outfeed", "host"};
    for (size_t i = 0; i < p->graph->resources.count; i++) {
        const ipu_resource *resource = &p->graph->resources.items[i];
        ipu_text_print(&p->text, "resource r%zu %s id=%" PRId64 " %s%s", i,
                       kinds[resource->kind], resource->id,
                       resource->is_remote ? "remote " : "",
                       resource->is_shared ? "shared " : "");
        if (resource->parts > 0) {
            ipu_text_print(&p->text, "in %" PRIu32 " parts of ", resource->parts);
            print_type(p, resource->whole);
            ipu_text_print(&p->text, " ");
        }
        const char *name = resource->name == NULL ? "" : resource->name;
        ipu_text_quote(&p->text, name, strlen(name));
        for (uint32_t k = 0; k < resource->type_count; k++) {
            ipu_text_print(&p->text, "%s", k == 0 ? " " : ", ");
            print_type(p, &resource->types[k]);
        }
        ipu_text_print(&p->text, "\n");
    }
}

ipu_status
ipu_graph_print(ipu_ctx *ctx, const ipu_graph *graph, char **out_text,
                size_t *out_bytes)
{
    printer p = {.graph = graph};
    size_t value_bytes = graph->values.count * sizeof(uint32_t);
    size_t block_bytes = graph->blocks.count * sizeof(uint32_t);
    *out_text = NULL;
    *out_bytes = 0;
    IPU_TRY(ipu_alloc(ctx, value_bytes, &p.numbers));
    ipu_status status = ipu_alloc(ctx, block_bytes, &p.blocks);
    if (status == IPU_OK) {
        ipu_text_init(&p.text, ctx);
        ipu_text_print(&p.text, "%s graph\n", graph->host ? "host" : "device");
        print_resources(&p);
        print_block(&p, (ipu_block){0}, 0);
        status = ipu_text_finish(&p.text, out_text, out_bytes);
    }
    ipu_free(ctx, p.numbers, value_bytes);
    ipu_free(ctx, p.blocks, block_bytes);
    return status;
}
