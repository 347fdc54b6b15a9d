/* SPDX-License-Identifier: MIT
 *
 * The table of passes, and running them: all in their order, or one by its name. One
 * thread per graph. */
#include "passes/passes.h"

#include <stdio.h>
#include <string.h>

typedef struct pass_row {
    const char *name;
    ipu_pass_fn *run;
} pass_row;

static const pass_row passes[] = {
#define X(name, text) {#name, ipu_pass_##name},
    IPU_PASS_LIST(X)
#undef X
};

enum { PASS_COUNT = sizeof(passes) / sizeof(passes[0]) };

static ipu_status
verify_after(ipu_ctx *ctx, const ipu_graph *graph, const char *name)
{
    ipu_status status = ipu_graph_verify(ctx, graph);
    if (status != IPU_OK) {
        char message[sizeof(ctx->message)];
        memcpy(message, ctx->message, sizeof(message));
        snprintf(ctx->message, sizeof(ctx->message), "after the pass %s: %.900s", name,
                 message);
    }
    return status;
}

ipu_status
ipu_passes_run(ipu_ctx *ctx, ipu_graph *graph, const ipu_passes_options *options)
{
    for (size_t i = 0; i < PASS_COUNT; i++) {
        bool fuses = passes[i].run == ipu_pass_fuse || passes[i].run == ipu_pass_attend;
        if (passes[i].run == ipu_pass_fuse && options->read != NULL) {
            IPU_TRY(options->read(options->reader, ctx, graph));
        }
        if (fuses && !options->fuse) {
            continue;
        }
        IPU_TRY(passes[i].run(ctx, graph));
        if (options->verify) {
            IPU_TRY(verify_after(ctx, graph, passes[i].name));
        }
    }
    return IPU_OK;
}

ipu_status
ipu_pass_run_named(ipu_ctx *ctx, ipu_graph *graph, const char *name)
{
    for (size_t i = 0; i < PASS_COUNT; i++) {
        if (strcmp(passes[i].name, name) == 0) {
            return passes[i].run(ctx, graph);
        }
    }
    IPU_FAIL(ctx, NOT_FOUND, "there is no pass named \"%s\"", name);
}
