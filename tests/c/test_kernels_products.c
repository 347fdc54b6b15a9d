/* SPDX-License-Identifier: MIT
 *
 * Kernels: matrix products, fused forms against the ops one by one (equal to the bit),
 * losses, random numbers, optimizer updates, and data errors. */
#include "kernel_trials.h"

#include "kernels/core/blis_impl.h"
#include "kernels/gemm/gemm_share_impl.h"

static void
matmul_trial(ipu_dtype dtype, ipu_type a, ipu_type b, ipu_type c, bool transpose_a,
             bool transpose_b)
{
    kernel_trial trial = {.op = IPU_OP_ID_MATMUL, .low = -1.0, .high = 1.0, .below = 6};
    trial.input_count = 2;
    trial.output_count = 1;
    trial.inputs[0] = a;
    trial.inputs[1] = b;
    trial.outputs[0] = c;
    trial.inputs[0].dtype = dtype;
    trial.inputs[1].dtype = dtype;
    trial.outputs[0].dtype = dtype;
    trial.attrs[0] = attr_int(IPU_ATTR_TRANSPOSE_A, transpose_a);
    trial.attrs[1] = attr_int(IPU_ATTR_TRANSPOSE_B, transpose_b);
    trial.attr_count = 2;
    trial.tolerance = dtype == IPU_DTYPE_FLOAT16 ? 4e-3
                      : dtype == IPU_DTYPE_FLOAT64 ? 1e-12
                                                   : 2e-5;
    check_trial(&trial);
}

static void
test_matmul(void)
{
    static const int64_t sizes[][3] = {
        {1, 1, 1},    {1, 7, 3},     {5, 1, 9},      {6, 16, 1},    {7, 17, 5},
        {32, 10, 32}, {33, 31, 65},  {32, 256, 784}, {784, 128, 32}, {0, 3, 4},
        {3, 0, 4},    {3, 4, 0},     {130, 260, 300}, {32, 64, 128}, {64, 1, 100},
        {40, 200, 700}, {3, 2100, 30}, {1, 1, 70001}, {17, 1, 65536}, {3, 2, 40000}};
    static const ipu_dtype dtypes[] = {IPU_DTYPE_FLOAT32, IPU_DTYPE_FLOAT16,
                                       IPU_DTYPE_FLOAT64, IPU_DTYPE_INT8,
                                       IPU_DTYPE_UINT16,  IPU_DTYPE_INT32,
                                       IPU_DTYPE_INT64};
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        int64_t m = sizes[s][0];
        int64_t n = sizes[s][1];
        int64_t k = sizes[s][2];
        for (uint32_t flags = 0; flags < 4; flags++) {
            bool ta = (flags & 1) != 0;
            bool tb = (flags & 2) != 0;
            for (size_t t = 0; t < sizeof dtypes / sizeof dtypes[0]; t++) {
                bool is_float = ipu_dtype_is_float(dtypes[t]);
                if (t > 0 && m * n * k > (is_float ? 200000 : 6000000)) {
                    continue;
                }
                matmul_trial(dtypes[t],
                             type_of(dtypes[t], DIMS(ta ? k : m, ta ? m : k)),
                             type_of(dtypes[t], DIMS(tb ? n : k, tb ? k : n)),
                             type_of(dtypes[t], DIMS(m, n)), ta, tb);
            }
        }
    }
    matmul_trial(IPU_DTYPE_FLOAT32, type_of(IPU_DTYPE_FLOAT32, DIMS(3, 1, 5, 7)),
                 type_of(IPU_DTYPE_FLOAT32, DIMS(4, 7, 6)),
                 type_of(IPU_DTYPE_FLOAT32, DIMS(3, 4, 5, 6)), false, false);
    matmul_trial(IPU_DTYPE_FLOAT32, type_of(IPU_DTYPE_FLOAT32, DIMS(7, 5)),
                 type_of(IPU_DTYPE_FLOAT32, DIMS(2, 6, 7)),
                 type_of(IPU_DTYPE_FLOAT32, DIMS(2, 5, 6)), true, true);
    matmul_trial(IPU_DTYPE_FLOAT32, type_of(IPU_DTYPE_FLOAT32, DIMS(2, 1, 40000)),
                 type_of(IPU_DTYPE_FLOAT32, DIMS(40000, 3)),
                 type_of(IPU_DTYPE_FLOAT32, DIMS(2, 1, 3)), false, false);
}

/* Many small matrices, of which one factor may be one for all. */
static void
test_small_matmuls(void)
{
    enum { COUNT = 9 };
    static const int64_t sizes[][3] = {{8, 8, 8},  {13, 5, 7},   {1, 3, 2},
                                       {3, 1, 4},  {20, 32, 64}, {6, 33, 5},
                                       {2, 2, 0},  {25, 16, 65}, {12, 24, 3},
                                       {1, 32, 12}};
    static const ipu_dtype dtypes[] = {IPU_DTYPE_FLOAT32, IPU_DTYPE_FLOAT16,
                                       IPU_DTYPE_FLOAT64, IPU_DTYPE_INT32};
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        const int64_t m = sizes[s][0];
        const int64_t n = sizes[s][1];
        const int64_t k = sizes[s][2];
        for (uint32_t form = 0; form < 16; form++) {
            bool ta = (form & 1) != 0;
            bool tb = (form & 2) != 0;
            int64_t left = (form & 4) != 0 ? 1 : COUNT;
            int64_t right = (form & 8) != 0 ? 1 : COUNT;
            int64_t all = left > right ? left : right;
            for (size_t t = 0; t < sizeof dtypes / sizeof dtypes[0]; t++) {
                matmul_trial(dtypes[t],
                             type_of(dtypes[t], DIMS(left, ta ? k : m, ta ? m : k)),
                             type_of(dtypes[t], DIMS(right, tb ? n : k, tb ? k : n)),
                             type_of(dtypes[t], DIMS(all, m, n)), ta, tb);
            }
        }
    }
}

/* matmul, add, activation one by one against fused_matmul: equal to the bit. */
static void
test_fused_matmul(void)
{
    static const ipu_op ops[] = {IPU_OP_ID_COUNT, IPU_OP_ID_RELU, IPU_OP_ID_TANH,
                                 IPU_OP_ID_SIGMOID};
    static const int64_t sizes[][3] = {{32, 256, 784}, {5, 3, 2},  {32, 10, 32},
                                       {3, 2000, 4},   {4, 5, 0}, {3, 2, 33000}};
    static const ipu_dtype dtypes[] = {IPU_DTYPE_FLOAT32, IPU_DTYPE_FLOAT16,
                                       IPU_DTYPE_FLOAT64, IPU_DTYPE_INT8,
                                       IPU_DTYPE_INT32};
    for (size_t t = 0; t < sizeof dtypes / sizeof dtypes[0]; t++) {
        int64_t activations = ipu_dtype_is_float(dtypes[t]) ? 4 : 2;
        for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
            for (int64_t activation = 0; activation < activations; activation++) {
                for (int32_t variant = 0; variant < 2; variant++) {
                    ipu_type a = type_of(dtypes[t], DIMS(sizes[s][0], sizes[s][2]));
                    ipu_type b = type_of(dtypes[t], DIMS(sizes[s][2], sizes[s][1]));
                    ipu_type c = type_of(dtypes[t], DIMS(sizes[s][0], sizes[s][1]));
                    ipu_type bias = type_of(dtypes[t], DIMS(sizes[s][1]));
                    kernel_trial product = {.op = IPU_OP_ID_MATMUL,
                                     .input_count = 2,
                                     .output_count = 1,
                                     .low = -0.2,
                                     .high = 0.2,
                                     .inputs = {a, b},
                                     .outputs = {c}};
                    kernel_trial add = {.op = IPU_OP_ID_ADD,
                                 .input_count = 2,
                                 .output_count = 1,
                                 .inputs = {c, bias},
                                 .outputs = {c}};
                    kernel_trial last = {.op = ops[activation],
                                  .input_count = 1,
                                  .output_count = 1,
                                  .inputs = {c},
                                  .outputs = {c}};
                    kernel_trial fused = product;
                    fused.op = IPU_OP_ID_FUSED_MATMUL;
                    fused.input_count = 3;
                    fused.inputs[2] = bias;
                    fused.attrs[0] = attr_int(IPU_ATTR_ACTIVATION, activation);
                    fused.attr_count = 1;
                    void *in[3] = {buffer_new(&a), buffer_new(&b), buffer_new(&bias)};
                    void *one[2] = {buffer_new(&c), in[2]};
                    void *two[1] = {buffer_new(&c)};
                    const char *name;
                    fill(&product, &a, in[0]);
                    fill(&product, &b, in[1]);
                    fill(&product, &bias, in[2]);
                    ipu_kernel_variant kind = (ipu_kernel_variant)variant;
                    ipu_cpu_class cpu = ipu_cpu_class_detect();
                    CHECK_OK(&ctx, run(&product, in, one, kind, cpu, pools[2], &name));
                    CHECK_OK(&ctx, run(&add, one, one, kind, cpu, pools[2], &name));
                    if (activation > 0) {
                        CHECK_OK(&ctx,
                                 run(&last, one, one, kind, cpu, pools[2], &name));
                    }
                    CHECK_OK(&ctx, run(&fused, in, two, kind, cpu, pools[3], &name));
                    CHECK(memcmp(one[0], two[0], ipu_type_bytes(&c)) == 0);
                    free(in[0]);
                    free(in[1]);
                    free(in[2]);
                    free(one[0]);
                    free(two[0]);
                }
            }
        }
    }
}

/* matmul, then sgd_update, against matmul_sgd_update: equal to the bit. */
static void
fused_update_trial(int64_t m, int64_t n, int64_t k, bool transpose_b, double momentum,
                   int64_t nesterov, ipu_cpu_class cpu)
{
    const ipu_kernel_variant kind = IPU_KERNEL_FAST;
    ipu_type a = type_of(IPU_DTYPE_FLOAT32, DIMS(k, m));
    ipu_type b = type_of(IPU_DTYPE_FLOAT32,
                         DIMS(transpose_b ? n : k, transpose_b ? k : n));
    ipu_type c = type_of(IPU_DTYPE_FLOAT32, DIMS(m, n));
    ipu_type rate = type_of(IPU_DTYPE_FLOAT32, SCALAR);
    uint32_t buffers = momentum > 0.0 ? 2 : 1;
    kernel_trial product = {.op = IPU_OP_ID_MATMUL,
                            .input_count = 2,
                            .output_count = 1,
                            .low = -0.5,
                            .high = 0.5,
                            .inputs = {a, b},
                            .outputs = {c}};
    product.attrs[0] = attr_int(IPU_ATTR_TRANSPOSE_A, 1);
    product.attrs[1] = attr_int(IPU_ATTR_TRANSPOSE_B, transpose_b);
    product.attr_count = 2;
    kernel_trial fused = product;
    fused.op = IPU_OP_ID_MATMUL_SGD_UPDATE;
    fused.input_count = 3;
    fused.inputs[2] = rate;
    fused.output_count = buffers;
    fused.outputs[1] = c;
    fused.attrs[2] = (ipu_attr){.key = IPU_ATTR_MOMENTUM, .as.f = momentum};
    fused.attrs[3] = attr_int(IPU_ATTR_NESTEROV, nesterov);
    fused.attr_count = 4;
    kernel_trial update = fused;
    update.op = IPU_OP_ID_SGD_UPDATE;
    update.input_count = 2;
    update.inputs[0] = c;
    update.inputs[1] = rate;
    void *in[3] = {buffer_new(&a), buffer_new(&b), buffer_new(&rate)};
    void *gradient[2] = {buffer_new(&c), in[2]};
    void *one[2] = {buffer_new(&c), buffer_new(&c)};
    void *two[2] = {buffer_new(&c), buffer_new(&c)};
    const char *name;
    fill(&product, &a, in[0]);
    fill(&product, &b, in[1]);
    fill(&product, &rate, in[2]);
    for (uint32_t i = 0; i < 2; i++) {
        fill(&product, &c, one[i]);
        memcpy(two[i], one[i], ipu_type_bytes(&c));
    }
    for (size_t trip = 0; trip < 2; trip++) {
        CHECK_OK(&ctx, run(&product, in, gradient, kind, cpu, pools[1], &name));
        CHECK_OK(&ctx, run(&update, gradient, one, kind, cpu, pools[2], &name));
        CHECK_OK(&ctx, run(&fused, in, two, kind, cpu, pools[3 - trip], &name));
    }
    CHECK(memcmp(one[0], two[0], ipu_type_bytes(&c)) == 0);
    CHECK(memcmp(one[1], two[1], ipu_type_bytes(&c)) == 0);
    for (uint32_t i = 0; i < 2; i++) {
        free(one[i]);
        free(two[i]);
        free(in[i]);
    }
    free(in[2]);
    free(gradient[0]);
}

static void
test_fused_update(void)
{
    static const int64_t sizes[][3] = {{784, 256, 32}, {32, 10, 32},   {7, 1, 5},
                                       {1, 17, 3},     {200, 140, 700}, {31, 33, 1100},
                                       {50, 140, 2050}, {5, 6, 0},    {0, 4, 2},
                                       {4, 3, 34000}};
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        for (uint32_t form = 0; form < 6; form++) {
            for (int cpu = 0; cpu <= (int)ipu_cpu_class_detect(); cpu++) {
                fused_update_trial(sizes[s][0], sizes[s][1], sizes[s][2], form % 2 == 1,
                                   form / 2 == 0 ? 0.0 : 0.9, form / 2 == 2,
                                   (ipu_cpu_class)cpu);
            }
        }
    }
}

/* matmul, then add to an accumulator from either side, against matmul_accumulate in place
 * and out of it: equal to the bit. */
static void
accumulate_trial(int64_t m, int64_t n, int64_t k, uint32_t flags, ipu_cpu_class cpu)
{
    bool ta = (flags & 1) != 0;
    bool tb = (flags & 2) != 0;
    ipu_type a = type_of(IPU_DTYPE_FLOAT32, DIMS(ta ? k : m, ta ? m : k));
    ipu_type b = type_of(IPU_DTYPE_FLOAT32, DIMS(tb ? n : k, tb ? k : n));
    ipu_type c = type_of(IPU_DTYPE_FLOAT32, DIMS(m, n));
    kernel_trial product = {.op = IPU_OP_ID_MATMUL,
                            .input_count = 2,
                            .output_count = 1,
                            .low = -0.5,
                            .high = 0.5,
                            .inputs = {a, b},
                            .outputs = {c}};
    product.attrs[0] = attr_int(IPU_ATTR_TRANSPOSE_A, ta);
    product.attrs[1] = attr_int(IPU_ATTR_TRANSPOSE_B, tb);
    product.attr_count = 2;
    kernel_trial add = {.op = IPU_OP_ID_ADD,
                        .input_count = 2,
                        .output_count = 1,
                        .inputs = {c, c},
                        .outputs = {c}};
    kernel_trial fused = product;
    fused.op = IPU_OP_ID_MATMUL_ACCUMULATE;
    fused.input_count = 3;
    fused.inputs[0] = c;
    fused.inputs[1] = a;
    fused.inputs[2] = b;
    void *in[2] = {buffer_new(&a), buffer_new(&b)};
    void *sum[1] = {buffer_new(&c)};
    void *terms[2] = {buffer_new(&c), sum[0]};
    void *operands[3] = {buffer_new(&c), in[0], in[1]};
    void *apart[1] = {buffer_new(&c)};
    const char *name;
    fill(&product, &a, in[0]);
    fill(&product, &b, in[1]);
    fill(&product, &c, terms[0]);
    memcpy(operands[0], terms[0], ipu_type_bytes(&c));
    ipu_kernel_variant kind = IPU_KERNEL_FAST;
    for (size_t trip = 0; trip < 2; trip++) {
        CHECK_OK(&ctx, run(&product, in, sum, kind, cpu, pools[1], &name));
        void *turned[2] = {terms[1 - trip], terms[trip]};
        CHECK_OK(&ctx, run(&add, turned, terms, kind, cpu, pools[2], &name));
        CHECK_OK(&ctx, run(&fused, operands, apart, kind, cpu, pools[3 - trip], &name));
        CHECK_OK(&ctx, run(&fused, operands, operands, kind, cpu, pools[1 + trip],
                           &name));
        CHECK(memcmp(terms[0], apart[0], ipu_type_bytes(&c)) == 0);
        CHECK(memcmp(terms[0], operands[0], ipu_type_bytes(&c)) == 0);
    }
    free(in[0]);
    free(in[1]);
    free(sum[0]);
    free(terms[0]);
    free(operands[0]);
    free(apart[0]);
}

static void
test_accumulate(void)
{
    static const int64_t sizes[][3] = {{784, 256, 32}, {32, 10, 32},   {7, 1, 5},
                                       {1, 17, 3},     {200, 140, 700}, {31, 33, 1100},
                                       {50, 140, 2050}, {5, 6, 0},    {0, 4, 2},
                                       {4, 3, 34000}};
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        for (uint32_t flags = 0; flags < 4; flags++) {
            for (int cpu = 0; cpu <= (int)ipu_cpu_class_detect(); cpu++) {
                accumulate_trial(sizes[s][0], sizes[s][1], sizes[s][2], flags,
                                 (ipu_cpu_class)cpu);
            }
        }
    }
}

/* What terms of sums are, for kernels that round by halves (gemm_doubles_body.h). */
typedef enum kind {
    USUAL,
    WILD,     /* one of everything a float can be */
    HALFWAY,  /* few bits, far apart: sums are halfway between floats, or a little off */
    INTEGERS, /* small ones, and -0 */
    TINY,     /* sums are subnormal, and below */
    LARGE,    /* sums may be infinite, or come close */
    LEFT,     /* so are these, by factors of the left one, ... */
    RIGHT,    /* ... or of the right one */
    SELDOM,   /* usual, seldom what is infinite, NaN, large, or subnormal */
    KINDS
} kind;

static float
float_of(kind of, bool left)
{
    static const float bits[] = {1.0f,      -1.0f,     0x1p-12f,   -0x1p-12f,
                                 0x1p12f,   -0x1p12f,  0x1.8p-24f, 0x1.000002p0f,
                                 -0x1p-30f, 0x1p-27f,  -3.0f,      0x1.fffffep-13f};
    static const float odd[] = {INFINITY, -INFINITY, NAN, 0x1p58f, -0x1.fffffep57f,
                                3e38f, -0x1p127f, 1e-45f, -0x1p-130f, -0.0f};
    uint32_t random = next_random();
    uint32_t other = next_random();
    float usual = (float)random * 0x1p-32f - 0.5f;
    float x;
    switch (of) {
    case WILD:
        memcpy(&x, &random, sizeof x);
        return x;
    case HALFWAY:
        return bits[other % (sizeof bits / sizeof bits[0])];
    case INTEGERS:
        return other % 5 == 0 ? -0.0f : (float)((int32_t)(other % 17) - 8);
    case TINY:
        return usual * ldexpf(1.0f, -55 - (int)(other % 64));
    case LARGE:
        return usual * ldexpf(1.0f, 56 + (int)(other % 10));
    case LEFT:
    case RIGHT:
        return usual * ldexpf(1.0f, left == (of == LEFT) ? 67 + (int)(other % 6) : 57);
    case SELDOM:
        return other % 97 == 0 ? odd[other / 97 % (sizeof odd / sizeof odd[0])] : usual;
    default:
        return usual;
    }
}

/* The sum of a tree's leaves (sum_tree.h). */
static float
node_of(const float *leaf, int64_t leaves)
{
    int64_t child = 1;
    while (child * IPU_SUM_FAN < leaves) {
        child *= IPU_SUM_FAN;
    }
    float sum = leaves == 1 ? leaf[0] : node_of(leaf, child);
    for (int64_t i = child; i < leaves; i += child) {
        int64_t rest = leaves - i;
        sum += node_of(leaf + i, rest < child ? rest : child);
    }
    return sum;
}

/* The sum of x[i] * y[i]. */
static float
tree_of(const float *x, const float *y, int64_t k)
{
    int64_t blocks = k / IPU_SUM_BLOCK + 1;
    float *leaf = calloc((size_t)blocks, sizeof *leaf);
    for (int64_t i = 0; i < k; i++) {
        leaf[i / IPU_SUM_BLOCK] = fmaf(x[i], y[i], leaf[i / IPU_SUM_BLOCK]);
    }
    float sum = node_of(leaf, k == 0 ? 1 : (k - 1) / IPU_SUM_BLOCK + 1);
    free(leaf);
    return sum;
}

static bool
same_number(float a, float b)
{
    return memcmp(&a, &b, sizeof a) == 0 || (isnan(a) && isnan(b));
}

/* Every class against the tree of chains of multiply-adds, in the order of k; of large
 * products every 61st element, and all others against the first class. */
static void
chain_trial(int64_t m, int64_t n, int64_t k, uint32_t flags)
{
    bool ta = (flags & 1) != 0;
    bool tb = (flags & 2) != 0;
    kind of = (kind)(flags >> 2);
    float *terms[2] = {calloc((size_t)k, sizeof(float)),
                       calloc((size_t)k, sizeof(float))};
    kernel_trial product = {.op = IPU_OP_ID_MATMUL,
                            .input_count = 2,
                            .output_count = 1,
                            .attr_count = 2};
    product.inputs[0] = type_of(IPU_DTYPE_FLOAT32, DIMS(ta ? k : m, ta ? m : k));
    product.inputs[1] = type_of(IPU_DTYPE_FLOAT32, DIMS(tb ? n : k, tb ? k : n));
    product.outputs[0] = type_of(IPU_DTYPE_FLOAT32, DIMS(m, n));
    product.attrs[0] = attr_int(IPU_ATTR_TRANSPOSE_A, ta);
    product.attrs[1] = attr_int(IPU_ATTR_TRANSPOSE_B, tb);
    float *in[2] = {buffer_new(&product.inputs[0]), buffer_new(&product.inputs[1])};
    float *out[1] = {buffer_new(&product.outputs[0])};
    float *expected = buffer_new(&product.outputs[0]);
    for (int64_t i = 0; i < m * k; i++) {
        in[0][i] = float_of(of, true);
    }
    for (int64_t i = 0; i < k * n; i++) {
        in[1][i] = float_of(of, false);
    }
    int64_t every = m * n * k > 1000000 ? 61 : 1;
    for (int64_t i = 0; i < m * n; i += every) {
        for (int64_t l = 0; l < k; l++) {
            terms[0][l] = in[0][ta ? l * m + i / n : i / n * k + l];
            terms[1][l] = in[1][tb ? i % n * k + l : l * n + i % n];
        }
        expected[i] = tree_of(terms[0], terms[1], k);
    }
    for (int cpu = 0; cpu <= (int)ipu_cpu_class_detect(); cpu++) {
        const char *name;
        CHECK_OK(&ctx, run(&product, (void *const *)in, (void *const *)out,
                           IPU_KERNEL_FAST, (ipu_cpu_class)cpu, pools[1 + cpu], &name));
        int64_t wrong = 0;
        for (int64_t i = 0; i < m * n; i++) {
            if (cpu == 0 && i % every != 0) {
                expected[i] = out[0][i];
            }
            wrong += !same_number(out[0][i], expected[i]);
        }
        CHECK(wrong == 0);
        CHECK(((const uint8_t *)&out[0][m * n])[0] == 0x5a);
        if (wrong > 0) {
            fprintf(stderr, "%s, %lldx%lldx%lld, flags %u: %lld elements differ\n", name,
                    (long long)m, (long long)n, (long long)k, (unsigned)flags,
                    (long long)wrong);
        }
    }
    free(in[0]);
    free(in[1]);
    free(out[0]);
    free(expected);
    free(terms[0]);
    free(terms[1]);
}

static void
test_chains(void)
{
    static const int64_t sizes[][3] = {
        {1, 1, 1},     {1, 40, 9},   {40, 1, 9},    {6, 16, 5},    {12, 32, 5},
        {7, 17, 33},   {13, 33, 7},  {25, 31, 64},  {32, 10, 32},  {64, 48, 3},
        {65, 49, 3},   {11, 15, 70}, {100, 2, 50},  {33, 100, 1},  {5, 7, 2100},
        {70, 20, 1030}, {30, 70, 1024}, {9, 1024, 6}, {1024, 9, 6}, {400, 70, 12},
        /* around the ends of blocks, and of nodes */
        {3, 5, 1023}, {3, 5, 1025}, {14, 34, 2049}, {13, 70, 4099}, {50, 300, 2053},
        {1, 3, 3071}, {70, 2, 2048}, {2, 70, 2500}, {3, 1, 32767}, {1, 1, 32768},
        {2, 3, 32769}, {15, 37, 33793}, {7, 5, 70001}, {1, 2, 65536}, {13, 300, 32800}};
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        const bool is_large = sizes[s][0] * sizes[s][1] * sizes[s][2] > 1500000;
        for (uint32_t flags = 0; flags < (is_large ? HALFWAY : KINDS) * 4; flags++) {
            chain_trial(sizes[s][0], sizes[s][1], sizes[s][2], flags);
        }
    }
    chain_trial(1, 1, 1024 * 1024 + 2049, 0); /* three levels */
    chain_trial(5, 1, 1024 * 1024, 3);
}

/* The steps by which kernels make a sum against what the tree is. */
static void
test_tree(void)
{
    enum { MOST_LEAVES = 34000 };
    float *leaf = malloc(MOST_LEAVES * sizeof *leaf);
    for (int64_t i = 0; i < MOST_LEAVES; i++) {
        leaf[i] = float_of(USUAL, true);
    }
    for (int64_t leaves = 1; leaves < MOST_LEAVES; leaves += leaves < 1100 ? 1 : 997) {
        float totals[IPU_SUM_LEVELS];
        float sum = 0.0f;
        int32_t levels = 0;
        for (int64_t i = 0; i < leaves; i++) {
            ipu__sum_step step = ipu__sum_step_of(i, i == leaves - 1);
            sum = leaf[i];
            for (int32_t l = 0; l < IPU_SUM_LEVELS; l++) {
                sum = (step.adds >> l & 1) != 0 ? totals[l] + sum : sum;
            }
            totals[step.level] = sum;
            levels = i < leaves - 1 && step.level >= levels ? step.level + 1 : levels;
        }
        CHECK(same_number(sum, node_of(leaf, leaves)));
        CHECK(levels == ipu__sum_levels(leaves));
    }
    free(leaf);
}

/* sigmoid(x * y + 1-element z) > x ? tanh(x) : y, against the ops one by one. */
static void
test_fused_elementwise(void)
{
    static const ipu_dtype dtypes[] = {IPU_DTYPE_FLOAT32, IPU_DTYPE_FLOAT16,
                                       IPU_DTYPE_FLOAT64};
    for (size_t t = 0; t < 3; t++) {
        ipu_dtype dtype = dtypes[t];
        int64_t code[] = {IPU_OP_ID_MUL,     dtype,          0, 1, -1,
                          IPU_OP_ID_ADD,     dtype,          3, 2, -1,
                          IPU_OP_ID_SIGMOID, dtype,          4, -1, -1,
                          IPU_OP_ID_GREATER, IPU_DTYPE_BOOL, 5, 0, -1,
                          IPU_OP_ID_TANH,    dtype,          0, -1, -1,
                          IPU_OP_ID_SELECT,  dtype,          6, 7, 1};
        ipu_type full = type_of(dtype, DIMS(70, 301));
        ipu_type row = type_of(dtype, DIMS(301));
        ipu_type one = type_of(dtype, DIMS(1));
        ipu_type truth = type_of(IPU_DTYPE_BOOL, DIMS(70, 301));
        kernel_trial fused = {.op = IPU_OP_ID_FUSED_ELEMENTWISE,
                       .input_count = 3,
                       .output_count = 1,
                       .low = -2.0,
                       .high = 2.0,
                       .tolerance = dtype == IPU_DTYPE_FLOAT16 ? 1.0 : 1e-5,
                       .inputs = {full, row, one},
                       .outputs = {full},
                       .attr_count = 1};
        fused.attrs[0] = attr_ints(IPU_ATTR_CODE, 30, code);
        check_trial(&fused);
        void *x = buffer_new(&full);
        void *y = buffer_new(&row);
        void *z = buffer_new(&one);
        void *got = buffer_new(&full);
        void *u = buffer_new(&full);
        void *v = buffer_new(&full);
        void *w = buffer_new(&truth);
        fill(&fused, &full, x);
        fill(&fused, &row, y);
        fill(&fused, &one, z);
        for (int32_t variant = 0; variant < 2; variant++) {
            ipu_kernel_variant kind = (ipu_kernel_variant)variant;
            ipu_cpu_class cpu = ipu_cpu_class_detect();
            const char *name;
#define STEP(id, count, out_type, out, ...) \
    do { \
        kernel_trial step = { \
            .op = IPU_OP_ID_##id, .input_count = count, .output_count = 1}; \
        void *in[] = {__VA_ARGS__}; \
        void *to[] = {out}; \
        for (uint32_t k = 0; k < step.input_count; k++) { \
            step.inputs[k] = in[k] == y ? row : in[k] == z ? one : \
                             in[k] == w ? truth : full; \
        } \
        step.outputs[0] = out_type; \
        CHECK_OK(&ctx, run(&step, in, to, kind, cpu, pools[2], &name)); \
    } while (0)
            STEP(MUL, 2, full, u, x, y);
            STEP(ADD, 2, full, u, u, z);
            STEP(SIGMOID, 1, full, u, u);
            STEP(GREATER, 2, truth, w, u, x);
            STEP(TANH, 1, full, v, x);
            STEP(SELECT, 3, full, u, w, v, y);
#undef STEP
            void *in[3] = {x, y, z};
            void *to[1] = {got};
            CHECK_OK(&ctx, run(&fused, in, to, kind, cpu, pools[3], &name));
            CHECK(memcmp(got, u, ipu_type_bytes(&full)) == 0);
        }
        free(x);
        free(y);
        free(z);
        free(got);
        free(u);
        free(v);
        free(w);
    }
}

static void
test_losses(void)
{
    static const int64_t sizes[][2] = {{32, 10}, {1, 1}, {0, 10}, {700, 33}, {3, 5000}};
    static const ipu_dtype dtypes[] = {IPU_DTYPE_FLOAT32, IPU_DTYPE_FLOAT16,
                                       IPU_DTYPE_FLOAT64};
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        for (size_t t = 0; t < 3; t++) {
            ipu_type logits = type_of(dtypes[t], 2, sizes[s]);
            ipu_type loss = type_of(dtypes[t], 1, sizes[s]);
            kernel_trial trial = {.op = IPU_OP_ID_SOFTMAX,
                           .input_count = 1,
                           .output_count = 1,
                           .low = -8.0,
                           .high = 8.0,
                           /* float16 is rounded from float32: a last place */
                           .tolerance = dtypes[t] == IPU_DTYPE_FLOAT16 ? 0x1p-10 : 2e-5,
                           .inputs = {logits},
                           .outputs = {logits}};
            check_trial(&trial);
            trial.op = IPU_OP_ID_LOG_SOFTMAX;
            check_trial(&trial);
            trial.op = IPU_OP_ID_CROSS_ENTROPY;
            trial.input_count = 2;
            trial.output_count = 2;
            trial.inputs[1] = logits;
            trial.outputs[0] = loss;
            trial.outputs[1] = logits;
            trial.low = 0.0;
            trial.high = 1.0;
            check_trial(&trial);
            trial.op = IPU_OP_ID_SPARSE_CROSS_ENTROPY;
            trial.low = -8.0;
            trial.below = sizes[s][1] < 100 ? sizes[s][1] : 100;
            trial.inputs[1] = type_of(IPU_DTYPE_UINT8, 1, sizes[s]);
            check_trial(&trial);
            trial.inputs[1].dtype = IPU_DTYPE_INT32;
            check_trial(&trial);
            trial.inputs[1].dtype = IPU_DTYPE_INT64;
            check_trial(&trial);
        }
    }
}

static void
test_random(void)
{
    static const ipu_op ops[] = {IPU_OP_ID_RANDOM_UNIFORM, IPU_OP_ID_RANDOM_NORMAL,
                                 IPU_OP_ID_TRUNCATED_NORMAL};
    static const double variance[] = {1.0 / 12.0, 1.0, 0.7737};
    for (size_t o = 0; o < 3; o++) {
        kernel_trial trial = {.op = ops[o], .output_count = 1};
        const char *name;
        double sum = 0.0;
        double squares = 0.0;
        int64_t n = 100003;
        trial.outputs[0] = type_of(IPU_DTYPE_FLOAT32, DIMS(100003));
        trial.attrs[0] = attr_int(IPU_ATTR_SEED, 5);
        trial.attrs[1] = attr_int(IPU_ATTR_ORDINAL, 2);
        trial.attr_count = 2;
        check_trial(&trial);
        float *out = buffer_new(&trial.outputs[0]);
        void *to[1] = {out};
        CHECK_OK(&ctx, run(&trial, NULL, to, IPU_KERNEL_FAST, ipu_cpu_class_detect(),
                           pools[2], &name));
        for (int64_t i = 0; i < n; i++) {
            sum += (double)out[i];
            squares += (double)out[i] * (double)out[i];
            CHECK(o != 0 || (out[i] >= 0.0f && out[i] < 1.0f));
            CHECK(o != 2 || fabsf(out[i]) <= 2.0f);
        }
        double mean = sum / (double)n;
        CHECK(fabs(mean - (o == 0 ? 0.5 : 0.0)) < 0.01);
        CHECK(fabs(squares / (double)n - mean * mean - variance[o]) < 0.015);
        free(out);
        trial.outputs[0].dtype = IPU_DTYPE_FLOAT16;
        check_trial(&trial);
        trial.outputs[0].dtype = IPU_DTYPE_FLOAT64;
        check_trial(&trial);
    }
    for (size_t r = 0; r < 4; r++) {
        static const double rates[] = {0.0, 0.3, 0.999, 1.0};
        kernel_trial trial = {.op = IPU_OP_ID_DROPOUT, .low = -1.0, .high = 1.0};
        trial.input_count = 1;
        trial.output_count = 2;
        trial.inputs[0] = type_of(IPU_DTYPE_FLOAT32, DIMS(33, 1001));
        trial.outputs[0] = trial.inputs[0];
        trial.outputs[1] = type_of(IPU_DTYPE_BOOL, DIMS(33, 1001));
        trial.attrs[0] = attr_float(IPU_ATTR_RATE, rates[r]);
        trial.attr_count = 1;
        check_trial(&trial);
        trial.inputs[0].dtype = IPU_DTYPE_FLOAT16;
        trial.outputs[0].dtype = IPU_DTYPE_FLOAT16;
        check_trial(&trial);
        trial.inputs[0].dtype = IPU_DTYPE_FLOAT64;
        trial.outputs[0].dtype = IPU_DTYPE_FLOAT64;
        check_trial(&trial);
    }
}

static void
test_updates(void)
{
    static const ipu_dtype dtypes[] = {IPU_DTYPE_FLOAT32, IPU_DTYPE_FLOAT16,
                                       IPU_DTYPE_FLOAT64};
    for (size_t t = 0; t < 3; t++) {
        for (int64_t n = 0; n < 40000; n = n * 7 + 1) {
            ipu_type variable = type_of(dtypes[t], DIMS(n));
            ipu_type scalar = type_of(dtypes[t], SCALAR);
            kernel_trial trial = {.op = IPU_OP_ID_SGD_UPDATE,
                           .input_count = 2,
                           .output_count = 1,
                           .low = 0.01,
                           .high = 0.9,
                           .below = 9,
                           .inputs = {variable, scalar},
                           .outputs = {variable, variable, variable},
                           .attr_count = 2};
            trial.attrs[0] = attr_float(IPU_ATTR_MOMENTUM, 0.9);
            check_trial(&trial);
            trial.output_count = 2;
            for (int64_t nesterov = 0; nesterov < 2; nesterov++) {
                trial.attrs[1] = attr_int(IPU_ATTR_NESTEROV, nesterov);
                check_trial(&trial);
            }
            trial.op = IPU_OP_ID_ADAM_UPDATE;
            trial.attr_count = 0;
            trial.input_count = 3;
            trial.output_count = 3;
            trial.inputs[2] = type_of(IPU_DTYPE_INT32, SCALAR);
            trial.below = 0; /* step 0 would divide by zero */
            check_trial(&trial);
            trial.op = IPU_OP_ID_VARIABLE_ADD;
            trial.input_count = 1;
            trial.output_count = 1;
            check_trial(&trial);
            trial.op = IPU_OP_ID_VARIABLE_ASSIGN;
            check_trial(&trial);
        }
    }
}

static void
test_errors(void)
{
    _Alignas(64) float logits[6] = {0};
    _Alignas(64) int32_t labels[2] = {1, 3};
    _Alignas(64) float out[12] = {0};
    _Alignas(64) float loss[2];
    _Alignas(64) int32_t divided[2];
    _Alignas(64) int32_t zeros[2] = {4, 0};
    const char *name;
    for (int32_t variant = 0; variant < 2; variant++) {
        ipu_kernel_variant kind = (ipu_kernel_variant)variant;
        ipu_cpu_class cpu = ipu_cpu_class_detect();
        kernel_trial trial = {.op = IPU_OP_ID_SPARSE_CROSS_ENTROPY,
                       .input_count = 2,
                       .output_count = 2};
        trial.inputs[0] = type_of(IPU_DTYPE_FLOAT32, DIMS(2, 3));
        trial.inputs[1] = type_of(IPU_DTYPE_INT32, DIMS(2));
        trial.outputs[0] = type_of(IPU_DTYPE_FLOAT32, DIMS(2));
        trial.outputs[1] = trial.inputs[0];
        CHECK(run(&trial, (void *[]){logits, labels}, (void *[]){loss, out}, kind, cpu,
                  NULL, &name)
              == IPU_STATUS_INVALID_ARGUMENT);
        CHECK(strstr(ctx.message, "label 3 of row 1") != NULL);
        CHECK(strstr(ctx.message, "3 classes") != NULL);
        trial.op = IPU_OP_ID_GATHER;
        trial.output_count = 1;
        trial.attrs[0] = attr_int(IPU_ATTR_AXIS, 0);
        trial.attr_count = 1;
        trial.outputs[0] = type_of(IPU_DTYPE_FLOAT32, DIMS(2, 3));
        CHECK(run(&trial, (void *[]){logits, labels}, (void *[]){out}, kind, cpu, NULL,
                  &name)
              == IPU_STATUS_INVALID_ARGUMENT);
        CHECK(strstr(ctx.message, "indices[1] = 3") != NULL);
        trial.op = IPU_OP_ID_FLOOR_DIV;
        trial.inputs[0] = trial.inputs[1];
        trial.outputs[0] = trial.inputs[1];
        CHECK(run(&trial, (void *[]){labels, zeros}, (void *[]){divided}, kind, cpu,
                  pools[2], &name)
              == IPU_STATUS_INVALID_ARGUMENT);
        CHECK(strstr(ctx.message, "division by zero") != NULL);
        trial.op = IPU_OP_ID_EXP;
        trial.input_count = 1;
        CHECK(run(&trial, (void *[]){labels}, (void *[]){divided}, kind, cpu, NULL,
                  &name)
              == IPU_STATUS_UNIMPLEMENTED);
    }
}

#if defined(__x86_64__)
/* How products are made, as text, with weights in panels where `role` says p: tiles, A's form, k and row tiles at a time, and the cut
 * for one thread, two and sixteen. What changes here was measured (benchmarks.classes). */
static void
describe(ipu_cpu_class cpu, const int64_t size[3], const char *role, char out[80])
{
    static const char *const forms[] = {
        [IPU_A_ROWS] = "rows",
        [IPU_A_COLUMNS] = "columns",
        [IPU_A_STRIPS] = "strips",
        [IPU_A_COPIED] = "copied",
        [IPU_A_LANES] = "lanes",
        [IPU_A_DOTS] = "dots",
    };
    bool ta = role[1] == 'W';
    bool tb = role[1] == 'X';
    ipu__matmul matmul = {.m = size[0],
                          .n = size[1],
                          .k = size[2],
                          .batches = 1,
                          .a_row = ta ? 1 : size[2],
                          .a_col = ta ? size[0] : 1,
                          .b_row = tb ? 1 : size[1],
                          .b_col = tb ? size[2] : 1};
    bool has_panels = strchr(role, 'p') != NULL;
    ipu_kernel_panels panels = {.columns = has_panels ? ipu__tiles_of(cpu)->columns : 0,
                                .right = has_panels && !ta,
                                .result = has_panels && ta};
    ipu__own_plan plan;
    ipu__own_plan_of(&matmul, &panels, cpu, false, ta, &plan);
    int at = snprintf(out, 80, "%s%s %s %d %d", plan.tiles->name + strlen("gemm_"),
                      plan.exchanged ? "^T" : "", forms[plan.product.a_form],
                      (int)plan.product.chunk, (int)plan.product.block);
    for (int threads = 1; threads <= 16; threads += threads == 1 ? 1 : 14) {
        ipu__own_cut cut = ipu__own_cut_for(&plan, threads);
        at += snprintf(out + at, 80 - (size_t)at, " %dx%d", (int)cut.rows,
                       (int)cut.columns);
    }
}

static void
test_cut(void)
{
    static const struct {
        const char *role;
        int64_t size[3];
        const char *generic;
        const char *avx2;
        const char *avx512;
    } products[] = {
        {"Y", {32, 256, 784},
         "8x8 rows 784 4 1x1 1x8 1x32",
         "6x16 rows 784 6 1x1 1x8 2x16",
         "12x32 rows 784 3 1x1 1x8 3x8"},
        {"dW", {784, 256, 32},
         "8x8 columns 32 36 1x1 4x2 6x8",
         "6x16 strips 32 48 1x1 8x1 24x2",
         "12x32 columns 32 24 1x1 4x2 6x8"},
        {"dX", {32, 256, 128},
         "8x8^T rows 128 32 1x1 3x2 2x4",
         "6x16^T rows 128 43 1x1 3x2 4x2",
         "12x32^T rows 128 22 1x1 4x1 8x1"},
        {"Y", {32, 10, 32},
         "8x8 rows 32 4 1x1 1x1 1x1",
         "6x16 rows 32 6 1x1 1x1 1x1",
         "12x32 rows 32 3 1x1 1x1 1x1"},
        {"Y", {512, 256, 784},
         "8x8 rows 784 36 1x1 2x4 8x8",
         "6x16 rows 784 48 1x1 2x4 8x8",
         "12x32 rows 784 24 1x1 2x4 8x8"},
        {"dW", {784, 256, 512},
         "8x8 columns 512 36 1x1 4x2 8x8",
         "6x16 strips 256 21 1x1 8x1 24x2",
         "12x32 columns 512 24 1x1 4x2 8x8"},
        {"dW", {128, 64, 512},
         "8x8 columns 512 16 1x1 2x4 4x8",
         "6x16 columns 512 22 1x1 2x4 8x4",
         "12x32 columns 512 11 1x1 4x2 11x2"},
        {"dX", {512, 256, 128},
         "8x8 rows 128 36 1x1 1x8 4x16",
         "6x16 rows 128 48 1x1 1x8 4x16",
         "12x32 rows 128 24 1x1 1x8 6x8"},
        {"Y", {128, 1024, 1024},
         "8x8 copied 1024 16 1x1 1x8 2x8",
         "6x16 copied 1024 22 1x1 1x8 2x8",
         "12x32 copied 1024 11 1x1 1x8 1x16"},
        {"dW", {1024, 1024, 128},
         "8x8 strips 128 36 1x1 8x1 16x4",
         "6x16 strips 128 48 1x1 8x1 16x4",
         "12x32 strips 128 24 1x1 8x1 16x4"},
        {"dX", {128, 1024, 1024},
         "8x8 copied 1024 16 1x1 1x8 1x16",
         "6x16 copied 1024 22 1x1 1x8 1x16",
         "12x32 copied 1024 11 1x1 1x8 1x16"},
        {"Y", {1024, 1, 128},
         "8x8 dots 0 0 1x1 1x1 1x1",
         "6x16 dots 0 0 1x1 1x1 1x1",
         "12x32 dots 0 0 1x1 1x1 1x1"},
        {"Yp", {32, 256, 784},
         "8x8 rows 784 4 1x1 1x8 4x12",
         "6x16 rows 784 6 1x1 1x8 3x16",
         "12x32 rows 784 3 1x1 1x8 3x8"},
        {"Yp", {128, 1024, 1024},
         "8x8 copied 1024 16 1x1 2x4 2x8",
         "6x16 copied 1024 22 1x1 2x4 2x8",
         "12x32 copied 1024 11 1x1 2x4 1x16"},
        {"dWp", {784, 256, 32},
         "8x8 columns 32 36 1x1 4x2 6x8",
         "6x16 strips 32 48 1x1 8x1 24x2",
         "12x32 columns 32 24 1x1 4x2 6x8"},
        {"dXp", {32, 256, 128},
         "8x8^T rows 128 32 1x1 3x2 2x4",
         "6x16^T rows 128 43 1x1 3x2 4x2",
         "12x32^T rows 128 22 1x1 4x1 8x1"},
        {"dXp", {128, 1024, 1024},
         "8x8 copied 1024 16 1x1 1x8 1x16",
         "6x16 copied 1024 22 1x1 1x8 1x16",
         "12x32 copied 1024 11 1x1 1x8 1x16"},
        {"Y", {2048, 2048, 2048},
         "8x8 copied 1024 32 1x1 4x2 8x8",
         "6x16 copied 1024 42 1x1 4x2 8x8",
         "12x32 copied 1024 21 1x1 4x2 8x8"},
    };
    for (size_t i = 0; i < sizeof products / sizeof products[0]; i++) {
        const char *expected[] = {products[i].generic, products[i].avx2,
                                  products[i].avx512};
        for (int cpu = IPU_CPU_GENERIC; cpu <= IPU_CPU_AVX512; cpu++) {
            char found[80];
            describe((ipu_cpu_class)cpu, products[i].size, products[i].role, found);
            CHECK(strcmp(found, expected[cpu]) == 0);
            if (strcmp(found, expected[cpu]) != 0) {
                fprintf(stderr, "product %d, found: %s\n", (int)i, found);
            }
        }
    }
}
#endif

#if defined(__x86_64__)
/* LAPACK names no context; BLIS goes by the processor's name, which it may not know. */
int bli_arch_query_id(void);
char *bli_arch_string(int id);

static void
test_architecture_of_lapack(void)
{
    const ipu_cpu_class cpu = ipu_cpu_class_detect();
    ipu__blis_context large = ipu__blis_context_for(512, 512, 512, cpu);
    const char *name = ipu__blis_name(large) + strlen("blis_");
    CHECK(ipu__blis_check(NULL, cpu) == IPU_OK);
    CHECK(strcmp(name, bli_arch_string(bli_arch_query_id())) == 0);
}
#endif

int
main(void)
{
    trials_begin();
#if defined(__x86_64__)
    test_architecture_of_lapack();
    test_cut();
#endif
    test_matmul();
    test_tree();
    test_chains();
    test_small_matmuls();
    test_fused_matmul();
    test_fused_update();
    test_accumulate();
    test_fused_elementwise();
    test_losses();
    test_random();
    test_updates();
    test_errors();
    trials_end();
    return CHECK_DONE();
}
