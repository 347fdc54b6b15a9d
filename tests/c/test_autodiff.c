/* SPDX-License-Identifier: MIT
 *
 * Gradients against central differences in float64 (host graphs), for every op with a
 * rule, twice where the rule can be differentiated again; which gradients are absent;
 * the order in which partial gradients add; errors; failed allocations. */
#include "autodiff/autodiff.h"

#include <math.h>
#include <stdint.h>

#include "check.h"
#include "evaluate.h"

static void
print_context(const char *name, const char *text)
{
    fprintf(stderr, "in case %s:\n%s\n", name, text);
}

/* Inputs that stay away from kinks and ties. */
static double
sample(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return 0.35 + (double)(*state >> 8) / 16777216.0;
}

static void
fill(const ipu_graph *graph, ipu_value param, void *buffer, uint32_t *state, double low)
{
    const ipu_type *type = &ipu_value_of(graph, param)->type;
    int64_t count = ipu_shape_elements(&type->shape);
    for (int64_t i = 0; i < count; i++) {
        double x = sample(state);
        if (type->dtype == IPU_DTYPE_FLOAT64) {
            ((double *)buffer)[i] = x + low;
        } else if (type->dtype == IPU_DTYPE_INT32) {
            ((int32_t *)buffer)[i] = (int32_t)(i % 3);
        } else {
            ((uint8_t *)buffer)[i] = x > 0.85;
        }
    }
}

/* Sum of all results, each element with a weight of its own. */
static double
objective(evaluation *e, const ipu_value *ys, const ipu_value *weights, uint32_t count)
{
    double sum = 0.0;
    CHECK_OK(e->ctx, evaluate_block(e, (ipu_block){0}));
    for (uint32_t i = 0; i < count; i++) {
        const ipu_type *type = &ipu_value_of(e->graph, ys[i])->type;
        const double *y = evaluate_buffer(e, ys[i]);
        const double *w = evaluate_buffer(e, weights[i]);
        for (int64_t k = 0; k < ipu_shape_elements(&type->shape); k++) {
            sum += y[k] * w[k];
        }
    }
    return sum;
}

/* Differentiates sum(ys * weights) by the float64 parameters and compares. Returns the
 * number of gradient elements that were wrong; `orders` more derivatives of what came
 * out are checked the same way. */
static int
wrong_gradients(ipu_ctx *ctx, ipu_graph *graph, const ipu_value *ys, uint32_t y_count,
                double low, int orders)
{
    ipu_block main_block = {0};
    ipu_value xs[8];
    ipu_value weights[8];
    ipu_value grads[8];
    ipu_value found[8];
    uint32_t x_count = 0;
    uint32_t found_count = 0;
    int wrong = 0;
    for (uint32_t i = 0; i < y_count; i++) {
        const ipu_type type = ipu_value_of(graph, ys[i])->type;
        CHECK_OK(ctx, ipu_graph_add_param(ctx, graph, main_block, &type, &weights[i]));
    }
    const ipu_block_data *block = ipu_block_of(graph, main_block);
    for (size_t i = 0; i + y_count < block->params.count; i++) {
        ipu_value param = block->params.items[i];
        if (ipu_value_of(graph, param)->type.dtype == IPU_DTYPE_FLOAT64) {
            xs[x_count++] = param;
        }
    }
    ipu_status status =
        ipu_gradients(ctx, graph, main_block, ys, weights, y_count, xs, x_count, grads);
    CHECK_OK(ctx, status);
    if (status != IPU_OK) {
        return 1;
    }
    CHECK_OK(ctx, ipu_graph_verify(ctx, graph));
    evaluation e = evaluate_begin(ctx, graph, IPU_KERNEL_REFERENCE);
    uint32_t state = 7;
    block = ipu_block_of(graph, main_block);
    for (size_t i = 0; i < block->params.count; i++) {
        ipu_value param = block->params.items[i];
        fill(graph, param, evaluate_buffer(&e, param), &state, low);
    }
    objective(&e, ys, weights, y_count);
    for (uint32_t i = 0; i < x_count; i++) {
        const ipu_type *type = &ipu_value_of(graph, xs[i])->type;
        int64_t count = ipu_shape_elements(&type->shape);
        double *x = evaluate_buffer(&e, xs[i]);
        double *expected = malloc(((size_t)count + 1) * sizeof(double));
        double *g = malloc(((size_t)count + 1) * sizeof(double));
        memset(g, 0, ((size_t)count + 1) * sizeof(double));
        objective(&e, ys, weights, y_count);
        if (grads[i].index != IPU_NO_INDEX) {
            memcpy(g, evaluate_buffer(&e, grads[i]), (size_t)count * sizeof(double));
            CHECK(ipu_type_equal(&ipu_value_of(graph, grads[i])->type, type));
            found[found_count++] = grads[i];
        }
        for (int64_t k = 0; k < count; k++) {
            const double step = 1e-5;
            double at = x[k];
            x[k] = at + step;
            double above = objective(&e, ys, weights, y_count);
            x[k] = at - step;
            double below = objective(&e, ys, weights, y_count);
            x[k] = at;
            expected[k] = (above - below) / (2.0 * step);
            double scale = fabs(expected[k]) > 1.0 ? fabs(expected[k]) : 1.0;
            wrong += !(fabs(g[k] - expected[k]) <= 1e-6 * scale);
        }
        free(g);
        free(expected);
    }
    evaluate_end(&e);
    if (orders > 1 && found_count > 0) {
        wrong += wrong_gradients(ctx, graph, found, found_count, low, orders - 1);
    }
    return wrong;
}

typedef struct gradient_case {
    const char *name;
    const char *text; /* the body of the main block after "host graph block b0" */
    double low;       /* added to samples in [0.35, 1.35) */
    int orders;
} gradient_case;

#define D "float64"
/* One op with one or two inputs, result %9. */
#define ONE(op, attrs) \
    "(%0: " D "[2,3]) { %9 = " op "(%0)" attrs " : " D "[2,3] } -> (%9)"
#define TWO(op) \
    "(%0: " D "[2,3], %1: " D "[2,3]) { %9 = " op "(%0, %1) : " D "[2,3] } -> (%9)"
#define TWO_LEFT(op) \
    "(%0: " D "[3], %1: " D "[2,3]) { %9 = " op "(%0, %1) : " D "[2,3] } -> (%9)"
#define TWO_RIGHT(op) \
    "(%0: " D "[2,1,3], %1: " D "[4,1]) { %9 = " op "(%0, %1) : " D "[2,4,3] } -> " \
                                                                    "(%9)"
#define MATMUL(a, b, flags, y) \
    "(%0: " D a ", %1: " D b ") { %9 = matmul(%0, %1) {" flags "} : " D y " } -> (%9)"
#define REDUCE(op, attrs, y) \
    "(%0: " D "[2,3,4]) { %9 = " op "(%0) {" attrs "} : " D y " } -> (%9)"

static const gradient_case cases[] = {
    {"neg", ONE("neg", ""), 0.0, 2},
    {"abs", ONE("abs", ""), -0.8, 1},
    {"exp", ONE("exp", ""), 0.0, 2},
    {"log", ONE("log", ""), 0.0, 2},
    {"sqrt", ONE("sqrt", ""), 0.0, 2},
    {"rsqrt", ONE("rsqrt", ""), 0.0, 2},
    {"square", ONE("square", ""), 0.0, 2},
    {"tanh", ONE("tanh", ""), -0.8, 3},
    {"sigmoid", ONE("sigmoid", ""), -0.8, 3},
    {"relu", ONE("relu", ""), -0.8, 2},
    {"reciprocal", ONE("reciprocal", ""), 0.0, 2},
    {"log1p", ONE("log1p", ""), 0.0, 2},
    {"expm1", ONE("expm1", ""), 0.0, 2},
    {"sin", ONE("sin", ""), 0.0, 2},
    {"cos", ONE("cos", ""), 0.0, 2},
    {"tan", ONE("tan", ""), -0.6, 2},
    {"asin", ONE("asin", ""), -0.6, 2},
    {"acos", ONE("acos", ""), -0.6, 2},
    {"atan", ONE("atan", ""), 0.0, 2},
    {"sinh", ONE("sinh", ""), 0.0, 2},
    {"cosh", ONE("cosh", ""), 0.0, 2},
    {"asinh", ONE("asinh", ""), 0.0, 2},
    {"acosh", ONE("acosh", ""), 1.0, 2},
    {"atanh", ONE("atanh", ""), -0.6, 2},
    {"erf", ONE("erf", ""), 0.0, 2},
    {"erfc", ONE("erfc", ""), 0.0, 2},
    {"erfinv", ONE("erfinv", ""), -0.6, 2},
    {"softplus", ONE("softplus", ""), -0.8, 2},
    {"lgamma", ONE("lgamma", ""), 1.0, 1},
    {"atan2", TWO("atan2"), 0.0, 2},
    {"atan2 right", TWO_RIGHT("atan2"), 0.0, 2},
    {"identity", ONE("identity", ""), 0.0, 2},
    {"stop_gradient", ONE("stop_gradient", "") " ", 0.0, 0},
    {"add", TWO("add"), 0.0, 2},
    {"add left", TWO_LEFT("add"), 0.0, 2},
    {"add right", TWO_RIGHT("add"), 0.0, 2},
    {"sub", TWO("sub"), 0.0, 2},
    {"sub left", TWO_LEFT("sub"), 0.0, 2},
    {"sub right", TWO_RIGHT("sub"), 0.0, 2},
    {"mul", TWO("mul"), 0.0, 2},
    {"mul left", TWO_LEFT("mul"), 0.0, 2},
    {"mul right", TWO_RIGHT("mul"), 0.0, 2},
    {"div", TWO("div"), 0.0, 2},
    {"div left", TWO_LEFT("div"), 0.0, 2},
    {"div right", TWO_RIGHT("div"), 0.0, 2},
    {"floor_mod", TWO("floor_mod"), 0.0, 1},
    {"pow", TWO("pow"), 0.0, 2},
    {"pow left", TWO_LEFT("pow"), 0.0, 2},
    {"maximum", TWO("maximum"), 0.0, 1},
    {"maximum right", TWO_RIGHT("maximum"), 0.0, 1},
    {"minimum", TWO("minimum"), 0.0, 1},
    {"minimum left", TWO_LEFT("minimum"), 0.0, 1},
    {"relu_grad", TWO("relu_grad"), -0.8, 2},
    {"tanh_grad", TWO("tanh_grad"), 0.0, 2},
    {"sigmoid_grad", TWO("sigmoid_grad"), 0.0, 2},
    {"select",
     "(%0: bool[2,3], %1: " D "[3], %2: " D "[2,1]) {"
     " %9 = select(%0, %1, %2) : " D "[2,3] } -> (%9)",
     0.0, 2},
    {"cast", ONE("cast", " {dtype=float64}"), 0.0, 1},
    {"matmul", MATMUL("[2,3]", "[3,4]", "", "[2,4]"), 0.0, 2},
    {"matmul ta", MATMUL("[3,2]", "[3,4]", "transpose_a=true", "[2,4]"), 0.0, 2},
    {"matmul tb", MATMUL("[2,3]", "[4,3]", "transpose_b=true", "[2,4]"), 0.0, 2},
    {"matmul ta tb",
     MATMUL("[3,2]", "[4,3]", "transpose_a=true, transpose_b=true", "[2,4]"), 0.0, 2},
    {"matmul batch", MATMUL("[2,2,3]", "[2,3,2]", "", "[2,2,2]"), 0.0, 2},
    {"matmul tall", MATMUL("[2,2,3]", "[3,2]", "", "[2,2,2]"), 0.0, 2},
    {"matmul tall tb", MATMUL("[2,2,3]", "[2,3]", "transpose_b=true", "[2,2,2]"), 0.0,
     2},
    {"matmul tall ta", MATMUL("[2,3,2]", "[3,2]", "transpose_a=true", "[2,2,2]"), 0.0,
     2},
    {"matmul broad", MATMUL("[2,3]", "[2,1,3,2]", "", "[2,1,2,2]"), 0.0, 2},
    {"matmul both broad",
     MATMUL("[2,1,3,2]", "[3,2,3]", "transpose_a=true,transpose_b=true", "[2,3,2,2]"),
     0.0, 1},
    {"sum", REDUCE("sum", "axes=[0,2]", "[3]"), 0.0, 2},
    {"sum keep", REDUCE("sum", "axes=[1], keep_dims=true", "[2,1,4]"), 0.0, 2},
    {"sum none", REDUCE("sum", "axes=[]", "[2,3,4]"), 0.0, 2},
    {"mean", REDUCE("mean", "axes=[0,1,2]", "[]"), 0.0, 2},
    {"max", REDUCE("max", "axes=[1]", "[2,4]"), 0.0, 1},
    {"max all", REDUCE("max", "axes=[0,1,2], keep_dims=true", "[1,1,1]"), 0.0, 1},
    {"min", REDUCE("min", "axes=[0,2]", "[3]"), 0.0, 1},
    {"reshape", REDUCE("reshape", "shape=[4,6]", "[4,6]"), 0.0, 2},
    {"transpose", REDUCE("transpose", "perm=[2,0,1]", "[4,2,3]"), 0.0, 2},
    {"broadcast",
     "(%0: " D "[3,1]) { %9 = broadcast(%0) {shape=[2,3,4]} : " D "[2,3,4] } -> (%9)",
     0.0, 2},
    {"concat",
     "(%0: " D "[2,1], %1: " D "[2,3], %2: " D "[2,2]) {"
     " %9 = concat(%0, %1, %2, %1) {axis=-1} : " D "[2,9] } -> (%9)",
     0.0, 2},
    {"slice",
     REDUCE("slice", "begin=[1,2,0], size=[1,2,2], strides=[1,-1,2]", "[1,2,2]"), 0.0,
     2},
    {"slice_grad",
     "(%0: " D "[2]) { %9 = slice_grad(%0) {shape=[5], begin=[4], size=[2],"
     " strides=[-3]} : " D "[5] } -> (%9)",
     0.0, 2},
    {"gather",
     "(%0: " D "[2,4], %1: int32[2,2]) {"
     " %9 = gather(%0, %1) {axis=1} : " D "[2,2,2] } -> (%9)",
     0.0, 2},
    {"gather last",
     "(%0: " D "[2,4], %1: int32[3]) {"
     " %9 = gather(%0, %1) {axis=-1} : " D "[2,3] } -> (%9)",
     0.0, 2},
    {"prod", REDUCE("prod", "axes=[0,2]", "[3]"), 0.0, 2},
    {"cumsum", ONE("cumsum", " {axis=1, exclusive=true}"), 0.0, 2},
    {"cumsum back", ONE("cumsum", " {axis=0, reverse=true}"), 0.0, 2},
    {"cumprod", ONE("cumprod", " {axis=1}"), 0.0, 2},
    {"cumprod back", ONE("cumprod", " {axis=1, exclusive=true, reverse=true}"), 0.0, 2},
    {"top_k",
     "(%0: " D "[2,3]) { %8, %9 = top_k(%0) {depth=2} : " D "[2,2], int32[2,2] }"
     " -> (%8)",
     0.0, 2},
    {"gather batch",
     "(%0: " D "[2,4], %1: int32[2,2]) {"
     " %9 = gather(%0, %1) {axis=1, batch_dims=1} : " D "[2,2] } -> (%9)",
     0.0, 2},
    {"gather_nd",
     "(%0: " D "[3,3,2], %1: int32[4,2]) {"
     " %9 = gather_nd(%0, %1) : " D "[4,2] } -> (%9)",
     0.0, 2},
    {"scatter_nd",
     "(%0: int32[4,1], %1: " D "[4,2]) {"
     " %9 = scatter_nd(%0, %1) {shape=[3,2]} : " D "[3,2] } -> (%9)",
     0.0, 2},
    {"scatter update",
     "(%0: " D "[4,2], %1: int32[2,1], %2: " D "[2,2]) {"
     " %9 = tensor_scatter(%0, %1, %2) {reduction=0} : " D "[4,2] } -> (%9)",
     0.0, 2},
    {"scatter add",
     "(%0: " D "[4,2], %1: int32[4,1], %2: " D "[4,2]) {"
     " %9 = tensor_scatter(%0, %1, %2) {reduction=1} : " D "[4,2] } -> (%9)",
     0.0, 2},
    {"scatter max",
     "(%0: " D "[4,2], %1: int32[4,1], %2: " D "[4,2]) {"
     " %9 = tensor_scatter(%0, %1, %2) {reduction=4} : " D "[4,2] } -> (%9)",
     0.0, 1},
    {"cholesky",
     "(%0: " D "[2,3]) { %1 = matmul(%0, %0) {transpose_b=true} : " D
     "[2,2] %9 = cholesky(%1) : " D "[2,2] } -> (%9)",
     0.0, 1},
    {"triangular_solve",
     "(%0: " D "[3,3], %1: " D "[3,2]) {"
     " %9 = triangular_solve(%0, %1) {lower=true} : " D "[3,2] } -> (%9)",
     0.0, 2},
    {"triangular_solve t",
     "(%0: " D "[3,3], %1: " D "[3,2]) {"
     " %9 = triangular_solve(%0, %1) {transpose_a=true} : " D "[3,2] } -> (%9)",
     0.0, 2},
    {"solve",
     "(%0: " D "[2,3,5], %1: " D "[2,3,2]) {"
     " %2 = matmul(%0, %0) {transpose_b=true} : " D
     "[2,3,3] %9 = solve(%2, %1) : " D "[2,3,2] } -> (%9)",
     0.0, 1},
    {"solve t",
     "(%0: " D "[3,3], %1: " D "[3,2]) {"
     " %9 = solve(%0, %1) {transpose_a=true} : " D "[3,2] } -> (%9)",
     0.0, 1},
    {"det", "(%0: " D "[2,3,3]) { %9 = det(%0) : " D "[2] } -> (%9)", 0.0, 1},
    {"slogdet",
     "(%0: " D "[3,3]) { %8, %9 = slogdet(%0) : " D "[], " D "[] } -> (%9)", 0.0, 1},
    {"softmax", ONE("softmax", ""), 0.0, 2},
    {"log_softmax", ONE("log_softmax", ""), 0.0, 2},
    {"sparse_cross_entropy",
     "(%0: " D "[2,3], %1: int32[2]) { %8, %9 = sparse_cross_entropy(%0, %1) : " D
     "[2], " D "[2,3] } -> (%8, %9)",
     0.0, 2},
    {"sparse_cross_entropy loss",
     "(%0: " D "[2,3], %1: int32[2]) { %8, %9 = sparse_cross_entropy(%0, %1) : " D
     "[2], " D "[2,3] } -> (%8)",
     0.0, 2},
    {"cross_entropy",
     "(%0: " D "[2,3], %1: " D "[2,3]) { %2 = softmax(%1) : " D
     "[2,3] %8, %9 = cross_entropy(%0, %2) : " D "[2], " D "[2,3] } -> (%8)",
     0.0, 1},
    {"dropout",
     "(%0: " D "[4,5]) { %8, %9 = dropout(%0) {rate=0.3, seed=1, ordinal=2} : " D
     "[4,5], bool[4,5] } -> (%8)",
     0.0, 2},
    {"a value used often",
     "(%0: " D "[2,3]) { %1 = tanh(%0) : " D "[2,3] %2 = mul(%1, %1) : " D
     "[2,3] %3 = mul(%2, %0) : " D "[2,3] %4 = add(%3, %1) : " D
     "[2,3] %5 = exp(%4) : " D "[2,3] } -> (%5, %2, %5)",
     0.0, 2},
    {"a layer",
     "(%0: " D "[4,3], %1: " D "[3,5], %2: " D "[5], %3: int32[4]) {"
     " %4 = matmul(%0, %1) : " D "[4,5] %5 = add(%4, %2) : " D
     "[4,5] %6 = sigmoid(%5) : " D "[4,5] %7, %8 = sparse_cross_entropy(%6, %3) : " D
     "[4], " D "[4,5] %9 = mean(%7) {axes=[0]} : " D "[] } -> (%9)",
     0.0, 2},
};

static ipu_graph *
parse_case(ipu_ctx *ctx, const char *body)
{
    char text[2048];
    ipu_graph *graph = NULL;
    snprintf(text, sizeof(text), "host graph\nblock b0%s", body);
    CHECK_OK(ctx, ipu_graph_parse(ctx, text, &graph));
    return graph;
}

static void
test_rules(void)
{
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        ipu_ctx ctx;
        ipu_ctx_init(&ctx, ipu_allocator_default());
        ipu_graph *graph = parse_case(&ctx, cases[i].text);
        if (graph == NULL) {
            print_context(cases[i].name, cases[i].text);
            continue;
        }
        ipu_value ys[8];
        uint32_t y_count = 0;
        const ipu_block_data *block = ipu_block_of(graph, (ipu_block){0});
        for (size_t k = 0; k < block->results.count; k++) {
            ys[y_count++] = block->results.items[k];
        }
        int before = check_failures;
        if (cases[i].orders > 0) {
            CHECK(wrong_gradients(&ctx, graph, ys, y_count, cases[i].low,
                                  cases[i].orders) == 0);
        }
        if (check_failures != before) {
            print_context(cases[i].name, cases[i].text);
        }
        ipu_graph_free(&ctx, graph);
    }
}

/* The teeth: a gradient that is off by a little in one element must be noticed. */
static void
test_wrong_gradient_is_caught(void)
{
    ipu_ctx ctx;
    ipu_ctx_init(&ctx, ipu_allocator_default());
    /* tanh_grad with the wrong y: the derivative of a graph that is not the forward one
     */
    ipu_graph *graph =
        parse_case(&ctx, "(%0: " D "[2,3]) { %1 = tanh(%0) : " D "[2,3] } -> (%1)");
    ipu_value y = ipu_block_of(graph, (ipu_block){0})->results.items[0];
    ipu_value x = ipu_block_of(graph, (ipu_block){0})->params.items[0];
    ipu_value stopped;
    CHECK_OK(&ctx, ipu_graph_emit(&ctx, graph, (ipu_block){0}, IPU_NO_NODE,
                                  IPU_OP_ID_STOP_GRADIENT, &y, 1, NULL, 0, &stopped));
    ipu_value factors[2] = {stopped, x};
    ipu_value product;
    CHECK_OK(&ctx, ipu_graph_emit(&ctx, graph, (ipu_block){0}, IPU_NO_NODE,
                                  IPU_OP_ID_MUL, factors, 2, NULL, 0, &product));
    /* d (stop(tanh x) * x) misses a term on purpose */
    CHECK(wrong_gradients(&ctx, graph, &product, 1, 0.0, 1) == 6);
    ipu_graph_free(&ctx, graph);
}

static void
test_absent(void)
{
    ipu_ctx ctx;
    ipu_ctx_init(&ctx, ipu_allocator_default());
    ipu_graph *graph = parse_case(
        &ctx, "(%0: " D "[3], %1: " D "[3], %2: int32[3], %3: " D "[3], %4: " D "[3]) {"
              " %5 = exp(%0) : " D "[3] %6 = stop_gradient(%1) : " D
              "[3] %7 = mul(%5, %6) : " D "[3] %8 = floor(%3) : " D
              "[3] %9 = add(%7, %8) : " D "[3] } -> (%9)");
    const ipu_block_data *block = ipu_block_of(graph, (ipu_block){0});
    ipu_value y = block->results.items[0];
    ipu_value xs[6];
    ipu_value grads[6];
    for (size_t i = 0; i < 5; i++) {
        xs[i] = block->params.items[i];
    }
    xs[5] = y;
    size_t nodes = graph->nodes.count;
    CHECK_OK(&ctx,
             ipu_gradients(&ctx, graph, (ipu_block){0}, &y, NULL, 1, xs, 6, grads));
    CHECK(grads[0].index != IPU_NO_INDEX);
    CHECK(grads[1].index == IPU_NO_INDEX); /* stopped */
    CHECK(grads[2].index == IPU_NO_INDEX); /* an integer */
    CHECK(grads[3].index == IPU_NO_INDEX); /* floor has no slope */
    CHECK(grads[4].index == IPU_NO_INDEX); /* not used */
    CHECK(grads[5].index != IPU_NO_INDEX); /* y itself: the ones */
    /* ones (2 nodes), g * stopped, g * exp: nothing for what nobody asked */
    CHECK(graph->nodes.count == nodes + 4);
    ipu_graph_free(&ctx, graph);
}

/* x -> a, b, c in program order, all used by x's gradient: terms add c, b, a. */
static void
test_order(void)
{
    ipu_ctx ctx;
    ipu_ctx_init(&ctx, ipu_allocator_default());
    ipu_graph *graph =
        parse_case(&ctx, "(%0: " D "[]) { %1 = exp(%0) : " D "[] %2 = log(%0) : " D
                         "[] %3 = tanh(%0) : " D "[] } -> (%1, %2, %3)");
    const ipu_block_data *block = ipu_block_of(graph, (ipu_block){0});
    ipu_value ys[3] = {block->results.items[0], block->results.items[1],
                       block->results.items[2]};
    ipu_value x = block->params.items[0];
    ipu_value grad;
    CHECK_OK(&ctx,
             ipu_gradients(&ctx, graph, (ipu_block){0}, ys, NULL, 3, &x, 1, &grad));
    const ipu_node_data *last = ipu_node_of(graph, ipu_value_of(graph, grad)->producer);
    const ipu_node_data *inner =
        ipu_node_of(graph, ipu_value_of(graph, last->inputs[0])->producer);
    const ipu_node_data *of_tanh =
        ipu_node_of(graph, ipu_value_of(graph, inner->inputs[0])->producer);
    const ipu_node_data *of_log =
        ipu_node_of(graph, ipu_value_of(graph, inner->inputs[1])->producer);
    const ipu_node_data *of_exp =
        ipu_node_of(graph, ipu_value_of(graph, last->inputs[1])->producer);
    CHECK(last->op == IPU_OP_ID_ADD && inner->op == IPU_OP_ID_ADD);
    CHECK(of_tanh->op == IPU_OP_ID_TANH_GRAD);
    CHECK(of_log->op == IPU_OP_ID_DIV);
    CHECK(of_exp->op == IPU_OP_ID_MUL);
    ipu_graph_free(&ctx, graph);
}

/* Elements that tie share the gradient, also for whole rows of equals. */
static void
test_ties(void)
{
    ipu_ctx ctx;
    ipu_ctx_init(&ctx, ipu_allocator_default());
    ipu_graph *graph = parse_case(&ctx, "(%0: " D "[4]) { %1 = max(%0) {axes=[0]} : " D
                                        "[] } -> (%1)");
    const ipu_block_data *block = ipu_block_of(graph, (ipu_block){0});
    ipu_value y = block->results.items[0];
    ipu_value x = block->params.items[0];
    ipu_value grad;
    CHECK_OK(&ctx,
             ipu_gradients(&ctx, graph, (ipu_block){0}, &y, NULL, 1, &x, 1, &grad));
    evaluation e = evaluate_begin(&ctx, graph, IPU_KERNEL_REFERENCE);
    const double values[4] = {3.0, 1.0, 3.0, 2.0};
    const double expected[4] = {0.5, 0.0, 0.5, 0.0};
    memcpy(evaluate_buffer(&e, x), values, sizeof(values));
    CHECK_OK(&ctx, evaluate_block(&e, (ipu_block){0}));
    CHECK(memcmp(evaluate_buffer(&e, grad), expected, sizeof(expected)) == 0);
    evaluate_end(&e);
    ipu_graph_free(&ctx, graph);
}

/* A gradient in a loop's body may go back through values of the block around it. */
static void
test_inner_block(void)
{
    ipu_ctx ctx;
    ipu_ctx_init(&ctx, ipu_allocator_default());
    ipu_graph *graph = NULL;
    CHECK_OK(&ctx, ipu_graph_create(&ctx, true, &graph));
    ipu_type type = {IPU_DTYPE_FLOAT64, ipu_shape_scalar()};
    ipu_block body;
    ipu_value x;
    ipu_value outer;
    ipu_value carried;
    ipu_value y;
    ipu_value grad;
    CHECK_OK(&ctx, ipu_graph_add_param(&ctx, graph, (ipu_block){0}, &type, &x));
    CHECK_OK(&ctx, ipu_graph_emit(&ctx, graph, (ipu_block){0}, IPU_NO_NODE,
                                  IPU_OP_ID_EXP, &x, 1, NULL, 0, &outer));
    CHECK_OK(&ctx, ipu_graph_add_block(&ctx, graph, (ipu_block){0}, &body));
    CHECK_OK(&ctx, ipu_graph_add_param(&ctx, graph, body, &type, &carried));
    ipu_value inputs[2] = {outer, carried};
    CHECK_OK(&ctx, ipu_graph_emit(&ctx, graph, body, IPU_NO_NODE, IPU_OP_ID_MUL, inputs,
                                  2, NULL, 0, &y));
    CHECK_OK(&ctx, ipu_gradients(&ctx, graph, body, &y, NULL, 1, &x, 1, &grad));
    CHECK(grad.index != IPU_NO_INDEX);
    CHECK(ipu_value_of(graph, grad)->block.index == body.index);
    ipu_graph_free(&ctx, graph);
}

static void
test_errors(void)
{
    ipu_ctx ctx;
    ipu_ctx_init(&ctx, ipu_allocator_default());
    ipu_graph *graph =
        parse_case(&ctx, "(%0: int32[], %1: " D "[], %2: " D "[]) {"
                         " block b1(%3: " D "[]) { %4 = mul(%3, %2) : " D "[] } -> (%4)"
                         " %5 = repeat(%0, %1) {body=b1} : " D "[] } -> (%5)");
    const ipu_block_data *block = ipu_block_of(graph, (ipu_block){0});
    ipu_value y = block->results.items[0];
    ipu_value carried = block->params.items[1];
    ipu_value captured = block->params.items[2];
    ipu_value grad;
    ipu_node_of(graph, ipu_value_of(graph, y)->producer)->source =
        (ipu_source){"train.py", 12};
    /* nothing says how often it runs, and each turn's value is needed */
    CHECK(ipu_gradients(&ctx, graph, (ipu_block){0}, &y, NULL, 1, &captured, 1,
                        &grad) == IPU_STATUS_INVALID_ARGUMENT);
    CHECK(strstr(ctx.message, "maximum_iterations") != NULL);
    CHECK(ctx.source.line == 12);
    ipu_ctx_clear(&ctx);
    /* a gradient to start from must have the type of its y */
    ipu_value trips = block->params.items[0];
    CHECK(ipu_gradients(&ctx, graph, (ipu_block){0}, &carried, &trips, 1, &carried, 1,
                        &grad) == IPU_STATUS_INVALID_ARGUMENT);
    ipu_graph_free(&ctx, graph);
}

/* --- failed allocations ------------------------------------------------------------
 */

typedef struct failing {
    ipu_allocator real;
    long left;  /* allocations until one fails; negative: never */
    long count; /* live bytes */
    long given; /* bytes, also of what is free again */
} failing;

static void *
failing_resize(void *state, void *pointer, size_t old_bytes, size_t new_bytes)
{
    failing *f = state;
    if (new_bytes > old_bytes && f->left >= 0 && f->left-- == 0) {
        return NULL;
    }
    void *out = f->real.resize(f->real.state, pointer, old_bytes, new_bytes);
    if (out != NULL || new_bytes == 0) {
        f->count += (long)new_bytes - (long)old_bytes;
        f->given += (long)new_bytes;
    }
    return out;
}

static void
test_failed_allocations(void)
{
    const char *text = cases[sizeof(cases) / sizeof(cases[0]) - 1].text;
    bool done = false;
    for (long n = 0; !done && n < 10000; n++) {
        failing f = {.real = ipu_allocator_default(), .left = -1};
        ipu_ctx ctx;
        ipu_ctx_init(&ctx, (ipu_allocator){failing_resize, &f});
        ipu_graph *graph = parse_case(&ctx, text);
        const ipu_block_data *block = ipu_block_of(graph, (ipu_block){0});
        ipu_value y = block->results.items[0];
        ipu_value xs[3] = {block->params.items[0], block->params.items[1],
                           block->params.items[2]};
        ipu_value grads[3];
        f.left = n;
        ipu_status status =
            ipu_gradients(&ctx, graph, (ipu_block){0}, &y, NULL, 1, xs, 3, grads);
        done = status == IPU_OK && f.left >= 0;
        CHECK(status == IPU_OK || status == IPU_STATUS_OUT_OF_MEMORY);
        f.left = -1;
        ipu_graph_free(&ctx, graph);
        CHECK(f.count == 0);
    }
    CHECK(done);
}

/* The memory of a gradient of the last nodes of a chain, by a tape that saw these. */
static long
bytes_of_tail(uint32_t nodes)
{
    failing f = {.real = ipu_allocator_default(), .left = -1};
    ipu_type type = {.dtype = IPU_DTYPE_FLOAT32, .shape = ipu_shape_scalar()};
    ipu_ctx ctx;
    ipu_graph *graph;
    ipu_value x;
    ipu_value y;
    ipu_value grad;
    ipu_ctx_init(&ctx, (ipu_allocator){failing_resize, &f});
    CHECK_OK(&ctx, ipu_graph_create(&ctx, false, &graph));
    CHECK_OK(&ctx, ipu_graph_add_param(&ctx, graph, (ipu_block){0}, &type, &y));
    for (uint32_t i = 0; i < nodes; i++) {
        x = i + 3 == nodes ? y : x;
        CHECK_OK(&ctx, ipu_graph_emit(&ctx, graph, (ipu_block){0}, IPU_NO_NODE,
                                      IPU_OP_ID_TANH, &y, 1, NULL, 0, &y));
    }
    CHECK_OK(&ctx, IPU_ARRAY_RESERVE(&ctx, &graph->nodes, 64));
    CHECK_OK(&ctx, IPU_ARRAY_RESERVE(&ctx, &graph->values, 64));
    uint32_t span[2] = {nodes - 3, nodes};
    ipu_gradient_scope scope = {
        .spans = span, .span_count = 1, .watched = &x, .watched_count = 1};
    f.given = 0;
    CHECK_OK(&ctx, ipu_gradients_within(&ctx, graph, (ipu_block){0}, &y, NULL, 1, &x, 1,
                                        &scope, &grad));
    CHECK(grad.index != IPU_NO_INDEX);
    ipu_graph_free(&ctx, graph);
    return f.given;
}

static void
test_only_what_is_reached(void)
{
    CHECK(bytes_of_tail(100000) < 4 * bytes_of_tail(100) + 65536);
}

int
main(void)
{
    test_rules();
    test_wrong_gradient_is_caught();
    test_absent();
    test_order();
    test_ties();
    test_inner_block();
    test_errors();
    test_failed_allocations();
    test_only_what_is_reached();
    return CHECK_DONE();
}
