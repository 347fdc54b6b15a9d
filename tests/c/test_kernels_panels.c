/* SPDX-License-Identifier: MIT
 *
 * Products whose right factor or result lies in panels have the bits of those by rows:
 * as a whole with one, two and three threads, and row by row. */
#include "kernel_trials.h"

enum { WHOLE = 0, FORMS = 3 /* a run by rows, in parts of so many */ };

/* What lies in panels. */
typedef struct layout {
    int64_t columns;
    bool right;
    bool result;
} layout;

static void
move(const ipu_type *type, int64_t columns, bool pack, void *buffer)
{
    size_t bytes = ipu_type_bytes(type);
    void *rows = buffer_new(type);
    memcpy(rows, buffer, bytes);
    (pack ? ipu_panels_pack : ipu_panels_unpack)(buffer, rows, type->shape.dims[0],
                                                 type->shape.dims[1], columns);
    free(rows);
}

static bool
is_in_panels(const kernel_trial *trial, const layout *panels, bool is_output,
             uint32_t index)
{
    bool accumulates = trial->op == IPU_OP_ID_MATMUL_ACCUMULATE;
    return is_output || (accumulates && index == 0)
               ? panels->result
               : panels->right && index == (accumulates ? 2 : 1);
}

/* Runs it on copies of what is given, which are by rows; `outputs` are, too. */
static void
run_laid_out(const kernel_trial *trial, const layout *panels, ipu_cpu_class cpu,
             ipu_pool *pool, int64_t part, void *const *given, void *const *outputs)
{
    ipu_arena arena = {0};
    void *inputs[MOST];
    ipu_kernel_spec spec = {
        .op = trial->op,
        .attrs = {trial->attrs, trial->attr_count},
        .input_count = trial->input_count,
        .output_count = trial->output_count,
        .inputs = trial->inputs,
        .outputs = trial->outputs,
        .panels = {panels->columns, panels->right, panels->result},
    };
    CHECK_OK(&ctx, ipu_kernel_prepare(&ctx, &arena, &spec, IPU_KERNEL_PORTABLE, cpu));
    CHECK(strcmp(spec.kernel_name, "reference") != 0);
    for (uint32_t k = 0; k < trial->input_count; k++) {
        inputs[k] = buffer_new(&trial->inputs[k]);
        memcpy(inputs[k], given[k], ipu_type_bytes(&trial->inputs[k]));
        if (is_in_panels(trial, panels, false, k)) {
            move(&trial->inputs[k], panels->columns, true, inputs[k]);
        }
    }
    for (uint32_t k = 0; k < trial->output_count && panels->result; k++) {
        move(&trial->outputs[k], panels->columns, true, outputs[k]);
    }
    size_t bytes = spec.workspace_bytes > spec.rows.workspace_bytes
                       ? spec.workspace_bytes
                       : spec.rows.workspace_bytes;
    ipu_type workspace = {IPU_DTYPE_UINT8, {1, {(int64_t)bytes}}};
    ipu_kernel_call call = {.spec = &spec,
                            .inputs = (const void *const *)inputs,
                            .outputs = outputs,
                            .workspace = buffer_new(&workspace),
                            .pool = pool,
                            .ctx = &ctx};
    if (part == WHOLE || spec.rows.run == NULL) {
        CHECK_OK(&ctx, spec.run(&call));
    } else {
        for (int64_t i = 0; i < spec.rows.count; i += part) {
            int64_t end = i + part < spec.rows.count ? i + part : spec.rows.count;
            CHECK_OK(&ctx, spec.rows.run(&call, i, end));
        }
    }
    for (uint32_t k = 0; k < trial->output_count && panels->result; k++) {
        move(&trial->outputs[k], panels->columns, false, outputs[k]);
    }
    for (uint32_t k = 0; k < trial->input_count; k++) {
        free(inputs[k]);
    }
    free(call.workspace);
    ipu_arena_free(&ctx, &arena);
}

static void
compare(const kernel_trial *trial, const layout *panels, ipu_cpu_class cpu,
        void *const *inputs, void *const *start)
{
    static const layout none = {0};
    static const int64_t parts[FORMS] = {WHOLE, 1, 24};
    void *expected[MOST];
    void *got[MOST];
    int failures = check_failures;
    for (uint32_t k = 0; k < trial->output_count; k++) {
        expected[k] = buffer_new(&trial->outputs[k]);
        got[k] = buffer_new(&trial->outputs[k]);
        memcpy(expected[k], start[k], ipu_type_bytes(&trial->outputs[k]));
    }
    run_laid_out(trial, &none, cpu, NULL, WHOLE, inputs, expected);
    for (int32_t threads = 1; threads <= 3; threads++) {
        for (int32_t form = 0; form < (threads == 1 ? FORMS : 1); form++) {
            for (uint32_t k = 0; k < trial->output_count; k++) {
                memcpy(got[k], start[k], ipu_type_bytes(&trial->outputs[k]));
            }
            run_laid_out(trial, panels, cpu, pools[threads], parts[form], inputs, got);
            for (uint32_t k = 0; k < trial->output_count; k++) {
                size_t bytes = ipu_type_bytes(&trial->outputs[k]);
                CHECK(memcmp(expected[k], got[k], bytes) == 0);
                for (size_t i = bytes; i < bytes + 64; i++) {
                    CHECK(((const uint8_t *)got[k])[i] == 0x5a);
                }
            }
        }
    }
    for (uint32_t k = 0; k < trial->output_count; k++) {
        free(expected[k]);
        free(got[k]);
    }
    if (check_failures != failures) {
        char text[128];
        fprintf(stderr, "in %s, class %s, panels of %d,%s%s:", ipu_op_info_of(trial->op)->name,
                ipu_cpu_class_name(cpu), (int)panels->columns,
                panels->right ? " right" : "", panels->result ? " result" : "");
        for (uint32_t k = 0; k < trial->input_count; k++) {
            fprintf(stderr, " %s",
                    ipu_type_print(&trial->inputs[k], text, sizeof text));
        }
        fprintf(stderr, "\n");
    }
}

static bool
fills_panels(const ipu_type *type, int64_t columns)
{
    return type->shape.dims[1] > columns && type->shape.dims[1] % columns == 0;
}

/* The trial on each class, with the right factor, the result and both in panels. */
static void
check_layouts(const kernel_trial *trial)
{
    uint32_t right = trial->op == IPU_OP_ID_MATMUL_ACCUMULATE ? 2 : 1;
    void *inputs[MOST];
    void *start[MOST];
    for (uint32_t k = 0; k < trial->input_count; k++) {
        inputs[k] = buffer_new(&trial->inputs[k]);
        fill(trial, &trial->inputs[k], inputs[k]);
    }
    for (uint32_t k = 0; k < trial->output_count; k++) {
        start[k] = buffer_new(&trial->outputs[k]);
        fill(trial, &trial->outputs[k], start[k]);
    }
    for (int32_t c = IPU_CPU_GENERIC; c <= (int32_t)ipu_cpu_class_detect(); c++) {
        ipu_cpu_class cpu = (ipu_cpu_class)c;
        ipu_kernel_spec spec = {.op = trial->op,
                                .attrs = {trial->attrs, trial->attr_count},
                                .inputs = trial->inputs,
                                .outputs = trial->outputs};
        int64_t columns = ipu_kernel_panel_columns(&spec, IPU_KERNEL_PORTABLE, cpu);
        CHECK(columns > 0 || trial->op == IPU_OP_ID_MATMUL_ACCUMULATE);
        CHECK(ipu_kernel_panel_columns(&spec, IPU_KERNEL_REFERENCE, cpu) == 0);
        for (int32_t which = 1; which <= 3 && columns > 0; which++) {
            layout panels = {columns, (which & 1) != 0, (which & 2) != 0};
            bool fits =
                (!panels.right || fills_panels(&trial->inputs[right], columns)) &&
                (!panels.result || (fills_panels(&trial->outputs[0], columns) &&
                                    trial->op != IPU_OP_ID_FUSED_MATMUL));
            if (fits) {
                compare(trial, &panels, cpu, inputs, start);
            }
        }
    }
    for (uint32_t k = 0; k < trial->input_count; k++) {
        free(inputs[k]);
    }
    for (uint32_t k = 0; k < trial->output_count; k++) {
        free(start[k]);
    }
}

/* Sizes about those of tiles, panels and chunks; {m, n, k} of a layer's rows, outputs
 * and inputs. */
static const int64_t sizes[][3] = {
    {1, 64, 7},   {3, 128, 1},  {12, 32, 5},   {16, 96, 33},  {31, 64, 48},
    {32, 192, 96}, {33, 64, 64}, {64, 128, 100}, {97, 96, 130}, {20, 64, 1030},
    {300, 96, 64}, {1100, 64, 40}, {2060, 64, 20}, {20, 2112, 17}, {9, 96, 2051},
};

static ipu_type
matrix(int64_t rows, int64_t columns)
{
    return type_of(IPU_DTYPE_FLOAT32, DIMS(rows, columns));
}

/* x w, with and without bias and activation. */
static void
test_forward(int64_t m, int64_t n, int64_t k)
{
    kernel_trial trial = {.op = IPU_OP_ID_MATMUL,
                          .input_count = 2,
                          .output_count = 1,
                          .low = -1.0,
                          .high = 1.0,
                          .inputs = {matrix(m, k), matrix(k, n)},
                          .outputs = {matrix(m, n)}};
    check_layouts(&trial);
    trial.op = IPU_OP_ID_FUSED_MATMUL;
    trial.input_count = 3;
    trial.inputs[2] = type_of(IPU_DTYPE_FLOAT32, DIMS(n));
    trial.attrs[0] = attr_int(IPU_ATTR_ACTIVATION, IPU_ACTIVATION_RELU);
    trial.attr_count = 1;
    check_layouts(&trial);
}

/* dy w^T */
static void
test_back(int64_t m, int64_t n, int64_t k)
{
    kernel_trial trial = {.op = IPU_OP_ID_MATMUL,
                          .input_count = 2,
                          .output_count = 1,
                          .low = -1.0,
                          .high = 1.0,
                          .inputs = {matrix(m, n), matrix(k, n)},
                          .outputs = {matrix(m, k)},
                          .attrs = {attr_int(IPU_ATTR_TRANSPOSE_B, 1)},
                          .attr_count = 1};
    check_layouts(&trial);
}

/* x^T dy, stored, added to something, or as the gradient of an update. */
static void
test_gradient(int64_t m, int64_t n, int64_t k)
{
    kernel_trial trial = {.op = IPU_OP_ID_MATMUL,
                          .input_count = 2,
                          .output_count = 1,
                          .low = -1.0,
                          .high = 1.0,
                          .inputs = {matrix(m, k), matrix(m, n)},
                          .outputs = {matrix(k, n), matrix(k, n)},
                          .attrs = {attr_int(IPU_ATTR_TRANSPOSE_A, 1)},
                          .attr_count = 1};
    check_layouts(&trial);
    trial.op = IPU_OP_ID_MATMUL_SGD_UPDATE;
    trial.input_count = 3;
    trial.inputs[2] = type_of(IPU_DTYPE_FLOAT32, SCALAR);
    check_layouts(&trial);
    trial.output_count = 2;
    trial.attrs[1] = attr_float(IPU_ATTR_MOMENTUM, 0.9);
    trial.attr_count = 2;
    check_layouts(&trial);
    trial.attrs[2] = attr_int(IPU_ATTR_NESTEROV, 1);
    trial.attr_count = 3;
    check_layouts(&trial);
    trial.op = IPU_OP_ID_MATMUL_ACCUMULATE;
    trial.output_count = 1;
    trial.attr_count = 1;
    trial.inputs[0] = matrix(k, n);
    trial.inputs[1] = matrix(m, k);
    trial.inputs[2] = matrix(m, n);
    check_layouts(&trial);
}

static void
test_copies(void)
{
    float rows[12];
    float panels[12];
    float back[12];
    static const float expected[] = {0, 1, 6, 7, 2, 3, 8, 9, 4, 5, 10, 11};
    for (int32_t i = 0; i < 12; i++) {
        rows[i] = (float)i;
    }
    ipu_panels_pack(panels, rows, 2, 6, 2);
    CHECK(memcmp(panels, expected, sizeof panels) == 0);
    ipu_panels_unpack(back, panels, 2, 6, 2);
    CHECK(memcmp(back, rows, sizeof rows) == 0);
}

int
main(void)
{
    trials_begin();
    test_copies();
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        test_forward(sizes[i][0], sizes[i][1], sizes[i][2]);
        test_back(sizes[i][0], sizes[i][1], sizes[i][2]);
        test_gradient(sizes[i][0], sizes[i][1], sizes[i][2]);
    }
    trials_end();
    return CHECK_DONE();
}
