/* SPDX-License-Identifier: MIT
 *
 * A graph's text is refused, or prints alike when it is read again, as it is and after
 * each pass; then it compiles, or is refused. */
#include "guided.h"
#include "passes/passes.h"
#include "program/program.h"

/* What needs more memory says something of the machine alone. */
#define MOST_BYTES ((size_t)64 << 20)
enum { MOST_NODES = 200 };

static bool
is_small(const ipu_graph *graph)
{
    size_t bytes = 0;
    for (size_t i = 0; i < graph->values.count && bytes <= MOST_BYTES; i++) {
        bytes += ipu_type_bytes(&graph->values.items[i].type);
    }
    return bytes <= MOST_BYTES && graph->nodes.count <= MOST_NODES;
}

/* Frees the graph; gives the text and a new graph of it. */
static ipu_graph *
read_again(ipu_ctx *ctx, ipu_graph *graph)
{
    char *text;
    char *second;
    size_t bytes;
    size_t second_bytes;
    ipu_graph *again;
    HOLDS(ipu_graph_print(ctx, graph, &text, &bytes) == IPU_OK);
    ipu_graph_free(ctx, graph);
    HOLDS(ipu_graph_parse(ctx, text, &again) == IPU_OK);
    HOLDS(ipu_graph_print(ctx, again, &second, &second_bytes) == IPU_OK);
    HOLDS(strcmp(text, second) == 0);
    ipu_free(ctx, text, bytes);
    ipu_free(ctx, second, second_bytes);
    return again;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const passes[] = {
#define X(name, what) #name,
        IPU_PASS_LIST(X)
#undef X
    };
    static const ipu_compile_options options = {
        .variant = IPU_KERNEL_FAST, .cpu = IPU_CPU_GENERIC, .verify = true};
    ipu_ctx ctx = fresh();
    ipu_graph *graph = NULL;
    ipu_program *program = NULL;
    char *text = text_of(data, size);
    if (text == NULL) {
        return -1;
    }
    ipu_status status = ipu_graph_parse(&ctx, text, &graph);
    free(text);
    HOLDS(status != IPU_OK || ctx.status == IPU_OK);
    HOLDS(status == IPU_OK || (graph == NULL && ctx.message[0] != '\0'));
    if (status == IPU_OK && is_small(graph)) {
        for (size_t i = 0; i < sizeof(passes) / sizeof(passes[0]); i++) {
            graph = read_again(&ctx, graph);
            status = ipu_pass_run_named(&ctx, graph, passes[i]);
            if (status != IPU_OK) {
                break;
            }
            HOLDS(ipu_graph_verify(&ctx, graph) == IPU_OK);
        }
        if (status == IPU_OK) {
            (void)ipu_program_create(&ctx, graph, &options, &program);
        }
    }
    ipu_program_free(&ctx, program);
    ipu_graph_free(&ctx, graph);
    ipu_ctx_clear(&ctx);
    return 0;
}
