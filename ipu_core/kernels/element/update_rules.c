/* SPDX-License-Identifier: MIT
 *
 * The formulas of Keras's optimizers in float32, each written once. A formula is a list
 *
 *   V(w, new)          a variable, and what it is given
 *   D(g)               an operand of the variables' shape
 *   S(rate)            an operand of one element
 *   X(new, OP, a, b)   new = a OP b; OP a, where b is a again
 *
 * that is expanded twice: to a loop over vectors, and to a pattern. A part of
 * fused_update that has the pattern, with the operands of + and * in either order, runs
 * in the loop, which rounds each step as the ops one by one do. Any other
 * formula runs as fused_update.c says. No state, any thread. */
#include "kernels/element/update_rules_impl.h"

#include <math.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define SGD(V, D, S, X) \
    V(w, w_new) D(g) S(rate) \
    X(move, MUL, rate, g) \
    X(w_new, SUB, w, move)

#define MOMENTUM(V, D, S, X) \
    V(w, w_new) V(v, v_new) D(g) S(rate) S(momentum) \
    X(move, MUL, rate, g) \
    X(kept, MUL, momentum, v) \
    X(v_new, SUB, kept, move) \
    X(w_new, ADD, w, v_new)

#define NESTEROV(V, D, S, X) \
    V(w, w_new) V(v, v_new) D(g) S(rate) S(momentum) \
    X(move, MUL, rate, g) \
    X(kept, MUL, momentum, v) \
    X(v_new, SUB, kept, move) \
    X(next, MUL, momentum, v_new) \
    X(ahead, SUB, next, move) \
    X(w_new, ADD, w, ahead)

/* the moments of Adam: m_new, v_new */
#define MOMENTS(X) \
    X(m_gap, SUB, g, m) \
    X(m_move, MUL, m_gap, rest_1) \
    X(m_new, ADD, m, m_move) \
    X(square, SQUARE, g, g) \
    X(v_gap, SUB, square, v) \
    X(v_move, MUL, v_gap, rest_2) \
    X(v_new, ADD, v, v_move)

#define ADAM(V, D, S, X) \
    V(w, w_new) V(m, m_new) V(v, v_new) D(g) \
    S(rate) S(rest_1) S(rest_2) S(epsilon) \
    MOMENTS(X) \
    X(root, SQRT, v_new, v_new) \
    X(below, ADD, root, epsilon) \
    X(above, MUL, rate, m_new) \
    X(move, DIV, above, below) \
    X(w_new, SUB, w, move)

#define AMSGRAD(V, D, S, X) \
    V(w, w_new) V(m, m_new) V(v, v_new) V(most, most_new) D(g) \
    S(rate) S(rest_1) S(rest_2) S(epsilon) \
    MOMENTS(X) \
    X(most_new, MAXIMUM, most, v_new) \
    X(root, SQRT, most_new, most_new) \
    X(below, ADD, root, epsilon) \
    X(change, DIV, m_new, below) \
    X(move, MUL, rate, change) \
    X(w_new, SUB, w, move)

/* mean = part * old + rest * new, for `name` */
#define MEAN(X, name, old, part, new, rest) \
    X(name##_kept, MUL, part, old) \
    X(name##_more, MUL, rest, new) \
    X(name##_new, ADD, name##_kept, name##_more)

#define RMS(X) \
    X(square, SQUARE, g, g) \
    MEAN(X, r, r, rho, square, rest)

/* rate * g / (sqrt(spread) + epsilon) */
#define SCALED(X, spread) \
    X(above, MUL, rate, g) \
    X(root, SQRT, spread, spread) \
    X(below, ADD, root, epsilon) \
    X(move, DIV, above, below) \
    X(w_new, SUB, w, move)

/* v = momentum * v + rate * g / sqrt(spread + epsilon); w -= v */
#define SCALED_MOMENTUM(X, spread) \
    X(above, MUL, rate, g) \
    X(sum, ADD, spread, epsilon) \
    X(root, SQRT, sum, sum) \
    X(more, DIV, above, root) \
    X(kept, MUL, momentum, v) \
    X(v_new, ADD, kept, more) \
    X(w_new, SUB, w, v_new)

#define CENTER(X) \
    MEAN(X, c, c, rho, g, rest) \
    X(center, SQUARE, c_new, c_new) \
    X(spread, SUB, r_new, center)

#define RMSPROP(V, D, S, X) \
    V(w, w_new) V(r, r_new) D(g) S(rate) S(rho) S(rest) S(epsilon) \
    RMS(X) \
    SCALED(X, r_new)

#define RMSPROP_MOMENTUM(V, D, S, X) \
    V(w, w_new) V(r, r_new) V(v, v_new) D(g) \
    S(rate) S(rho) S(rest) S(epsilon) S(momentum) \
    RMS(X) \
    SCALED_MOMENTUM(X, r_new)

#define RMSPROP_CENTERED(V, D, S, X) \
    V(w, w_new) V(r, r_new) V(c, c_new) D(g) S(rate) S(rho) S(rest) S(epsilon) \
    RMS(X) \
    CENTER(X) \
    SCALED(X, spread)

#define RMSPROP_BOTH(V, D, S, X) \
    V(w, w_new) V(r, r_new) V(c, c_new) V(v, v_new) D(g) \
    S(rate) S(rho) S(rest) S(epsilon) S(momentum) \
    RMS(X) \
    CENTER(X) \
    SCALED_MOMENTUM(X, spread)

#define ADAGRAD(V, D, S, X) \
    V(w, w_new) V(r, r_new) D(g) S(rate) S(epsilon) \
    X(square, SQUARE, g, g) \
    X(r_new, ADD, r, square) \
    SCALED(X, r_new)

#define ADADELTA(V, D, S, X) \
    V(w, w_new) V(r, r_new) V(d, d_new) D(g) S(rate) S(rho) S(rest) S(epsilon) \
    RMS(X) \
    X(d_sum, ADD, d, epsilon) \
    X(d_root, SQRT, d_sum, d_sum) \
    X(r_sum, ADD, r_new, epsilon) \
    X(r_root, SQRT, r_sum, r_sum) \
    X(ratio, DIV, d_root, r_root) \
    X(change, MUL, ratio, g) \
    X(change_square, SQUARE, change, change) \
    MEAN(X, d, d, rho, change_square, rest) \
    X(move, MUL, rate, change) \
    X(w_new, SUB, w, move)

#define ADAMAX(V, D, S, X) \
    V(w, w_new) V(m, m_new) V(v, v_new) D(g) \
    S(rate) S(beta_1) S(rest_1) S(beta_2) S(epsilon) \
    MEAN(X, m, m, beta_1, g, rest_1) \
    X(v_kept, MUL, beta_2, v) \
    X(size, ABS, g, g) \
    X(v_new, MAXIMUM, v_kept, size) \
    X(above, MUL, rate, m_new) \
    X(below, ADD, v_new, epsilon) \
    X(move, DIV, above, below) \
    X(w_new, SUB, w, move)

#define NADAM(V, D, S, X) \
    V(w, w_new) V(m, m_new) V(v, v_new) D(g) \
    S(rate) S(beta_1) S(rest_1) S(beta_2) S(rest_2) S(epsilon) S(for_g) S(for_m) \
    S(correction) \
    MEAN(X, m, m, beta_1, g, rest_1) \
    X(square, SQUARE, g, g) \
    MEAN(X, v, v, beta_2, square, rest_2) \
    X(of_g, MUL, for_g, g) \
    X(of_m, MUL, for_m, m_new) \
    X(mean, ADD, of_g, of_m) \
    X(corrected, DIV, v_new, correction) \
    X(root, SQRT, corrected, corrected) \
    X(below, ADD, root, epsilon) \
    X(above, MUL, rate, mean) \
    X(move, DIV, above, below) \
    X(w_new, SUB, w, move)

#define FORMULAS(F) \
    F(sgd, SGD) \
    F(momentum, MOMENTUM) \
    F(nesterov, NESTEROV) \
    F(adam, ADAM) \
    F(amsgrad, AMSGRAD) \
    F(rmsprop, RMSPROP) \
    F(rmsprop_momentum, RMSPROP_MOMENTUM) \
    F(rmsprop_centered, RMSPROP_CENTERED) \
    F(rmsprop_both, RMSPROP_BOTH) \
    F(adagrad, ADAGRAD) \
    F(adadelta, ADADELTA) \
    F(adamax, ADAMAX) \
    F(nadam, NADAM)

#define NONE_1(a)
#define NONE_2(a, b)
#define NONE_4(a, b, c, d)

/* --- loops ----------------------------------------------------------------------- */

typedef float floats_generic __attribute__((vector_size(16), aligned(4), may_alias));
typedef int32_t bits_generic __attribute__((vector_size(16)));
typedef float floats_avx2 __attribute__((vector_size(32), aligned(4), may_alias));
typedef int32_t bits_avx2 __attribute__((vector_size(32)));

#if defined(__x86_64__)
#define SQRT_generic(x) _mm_sqrt_ps((__m128)(x))
#define SQRT_avx2(x) _mm256_sqrt_ps((__m256)(x))
#else
#define SQRT_generic(x) ((floats){sqrtf(x[0]), sqrtf(x[1]), sqrtf(x[2]), sqrtf(x[3])})
#endif

/* `floats` and `bits` are the vectors of the loop. */
#define STEP_ADD(suffix, a, b) ((a) + (b))
#define STEP_SUB(suffix, a, b) ((a) - (b))
#define STEP_MUL(suffix, a, b) ((a) * (b))
#define STEP_DIV(suffix, a, b) ((a) / (b))
#define STEP_SQUARE(suffix, a, b) ((a) * (b))
#define STEP_SQRT(suffix, a, b) SQRT_##suffix(a)
#define STEP_ABS(suffix, a, b) ((floats)((bits)(a) & 0x7fffffff))
/* a where it is larger or no number, else b */
#define STEP_MAXIMUM(suffix, a, b) \
    ((floats)(((bits)(a) & (bits)(((a) > (b)) | ((a) != (a)))) \
              | ((bits)(b) & ~(bits)(((a) > (b)) | ((a) != (a))))))

#define AT_1(name) at_##name,
#define AT_2(name, new) at_##name,
/* outside of the loop, whose stores could reach the arrays of pointers */
#define POINTER_1(name) const float *in_##name = dense[at_##name];
#define POINTER_2(name, new) float *var_##name = variables[at_##name];

#define ONE(name) floats name = (floats){0} + singles[at_##name];
#define DENSE(name) floats name = *(const floats *)(in_##name + i);
#define LOAD(name, new) floats name = *(const floats *)(var_##name + i);
#define STEP_generic(new, op, a, b) floats new = STEP_##op(generic, a, b);
#define STEP_avx2(new, op, a, b) floats new = STEP_##op(avx2, a, b);
#define STORE(name, new) *(floats *)(var_##name + i) = new;

#define LOOP(name, FORMULA, suffix, target) \
    target static void name##_##suffix(float *const *variables, \
                                       const float *const *dense, \
                                       const float *singles, int64_t n) \
    { \
        typedef floats_##suffix floats; \
        typedef bits_##suffix bits __attribute__((unused)); \
        enum { LANES = sizeof(floats) / sizeof(float) }; \
        enum { FORMULA(AT_2, NONE_1, NONE_1, NONE_4) }; \
        enum { FORMULA(NONE_2, AT_1, NONE_1, NONE_4) }; \
        enum { FORMULA(NONE_2, NONE_1, AT_1, NONE_4) }; \
        FORMULA(POINTER_2, POINTER_1, ONE, NONE_4) \
        for (int64_t i = 0; i < n; i += LANES) { \
            FORMULA(LOAD, DENSE, NONE_1, NONE_4) \
            FORMULA(NONE_2, NONE_1, NONE_1, STEP_##suffix) \
            FORMULA(STORE, NONE_1, NONE_1, NONE_4) \
        } \
    }

#define NARROW_LOOP(name, FORMULA) LOOP(name, FORMULA, generic, )
FORMULAS(NARROW_LOOP)

#if defined(__x86_64__)
#define WIDE_LOOP(name, FORMULA) LOOP(name, FORMULA, avx2, IPU_TARGET_AVX2)
FORMULAS(WIDE_LOOP)
#define WIDE(name) name##_avx2
#else
#define WIDE(name) name##_generic
#endif

void
ipu__update_rule_run(const ipu__update_rule *rule, float *const *variables,
                     const float *const *dense, const float *singles, int64_t n)
{
    enum { MOST_LANES = 8 };
    float rest[IPU_RULE_VARIABLES + IPU_RULE_DENSE][MOST_LANES];
    float *rest_variables[IPU_RULE_VARIABLES];
    const float *rest_dense[IPU_RULE_DENSE];
    int64_t whole = n - n % rule->lanes;
    size_t bytes = (size_t)(n - whole) * sizeof(float);
    rule->run(variables, dense, singles, whole);
    if (bytes == 0) {
        return;
    }
    memset(rest, 0, sizeof rest);
    for (uint32_t k = 0; k < rule->variables; k++) {
        rest_variables[k] = rest[k];
        memcpy(rest[k], variables[k] + whole, bytes);
    }
    for (uint32_t k = 0; k < rule->dense; k++) {
        float *copy = rest[IPU_RULE_VARIABLES + k];
        rest_dense[k] = memcpy(copy, dense[k] + whole, bytes);
    }
    rule->run(rest_variables, rest_dense, singles, rule->lanes);
    for (uint32_t k = 0; k < rule->variables; k++) {
        memcpy(variables[k] + whole, rest[k], bytes);
    }
}

/* --- patterns -------------------------------------------------------------------- */

enum { MOST_NODES = 48, NO_OPERAND = 255 };

typedef struct pattern_step {
    ipu_op op;
    uint8_t a;
    uint8_t b;
} pattern_step;

/* Nodes are numbered: variables, dense operands, singles, steps. */
typedef struct pattern {
    uint32_t variables;
    uint32_t dense;
    uint32_t singles;
    uint32_t steps;
    const uint8_t *given; /* to each variable: a node */
    const pattern_step *step;
} pattern;

/* The operand of the part that stands for each node of the pattern. */
typedef struct binding {
    uint8_t operand[MOST_NODES];
} binding;

typedef struct matcher {
    const ipu_kernel_spec *spec;
    const ipu_update_part *part;
    const pattern *pattern;
    binding bound;
} matcher;

static bool
is_old(const matcher *m, int64_t operand)
{
    return operand >= m->part->inputs
           && operand < m->part->inputs + m->part->variables;
}

static bool
is_single(const matcher *m, int64_t operand)
{
    const ipu_update_part *part = m->part;
    return operand < part->inputs && !ipu_update_is_rows(part, (uint32_t)operand) &&
           ipu_shape_elements(&m->spec->inputs[part->input[operand]].shape) == 1;
}

static bool match(matcher *m, uint32_t node, int64_t operand);

static bool
match_both(matcher *m, const pattern_step *step, int64_t a, int64_t b)
{
    binding before = m->bound;
    if (match(m, step->a, a) && match(m, step->b, b)) {
        return true;
    }
    m->bound = before;
    return false;
}

static bool
match_step(matcher *m, const pattern_step *step, int64_t operand)
{
    int64_t number = operand - m->part->inputs - m->part->variables;
    const int64_t *word = m->part->code + number * IPU_FUSED_WORDS;
    if (number < 0 || word[0] != (int64_t)step->op) {
        return false;
    }
    const ipu_op_info *info = ipu_op_info_of(step->op);
    if (info->min_inputs == 1) {
        return match(m, step->a, word[2]);
    }
    bool either = step->op == IPU_OP_ID_ADD || step->op == IPU_OP_ID_MUL;
    return match_both(m, step, word[2], word[3])
           || (either && match_both(m, step, word[3], word[2]));
}

/* Whether the operand can stand for the node; if so, it does from here on. */
static bool
match(matcher *m, uint32_t node, int64_t operand)
{
    const pattern *p = m->pattern;
    uint32_t first_dense = p->variables;
    uint32_t first_single = first_dense + p->dense;
    uint32_t first_step = first_single + p->singles;
    bool fits;
    if (m->bound.operand[node] != NO_OPERAND) {
        return m->bound.operand[node] == operand;
    }
    if (node >= first_step) {
        fits = match_step(m, &p->step[node - first_step], operand);
    } else if (node >= first_single) {
        fits = is_single(m, operand);
    } else if (node >= first_dense) {
        fits = !is_old(m, operand) && !is_single(m, operand);
    } else {
        fits = is_old(m, operand);
    }
    if (fits) {
        m->bound.operand[node] = (uint8_t)operand;
    }
    return fits;
}

/* Variables `first` and those after it, each as any one of the part's. */
static bool
match_variables(matcher *m, uint32_t first)
{
    if (first == m->pattern->variables) {
        return true;
    }
    for (uint32_t k = 0; k < m->part->variables; k++) {
        binding before = m->bound;
        uint8_t old = (uint8_t)(m->part->inputs + k);
        bool is_taken = false;
        for (uint32_t i = 0; i < first; i++) {
            is_taken |= m->bound.operand[i] == old;
        }
        if (!is_taken && match(m, first, old)
            && match(m, m->pattern->given[first], m->part->stored[k])
            && match_variables(m, first + 1)) {
            return true;
        }
        m->bound = before;
    }
    return false;
}

static void
find_covered(const matcher *m, ipu__update_rule *out)
{
    uint32_t results = m->part->inputs + m->part->variables;
    uint32_t first_step =
        m->pattern->variables + m->pattern->dense + m->pattern->singles;
    memset(out->covers, 0, sizeof out->covers);
    for (uint32_t k = 0; k < m->pattern->steps; k++) {
        out->covers[m->bound.operand[first_step + k] - results] = true;
    }
}

/* Whether all that is not covered can come before what is. */
static bool
is_in_order(const matcher *m, const ipu__update_rule *rule)
{
    uint32_t results = m->part->inputs + m->part->variables;
    for (uint32_t k = 0; k < rule->dense; k++) {
        if (rule->dense_operand[k] >= results
            && rule->covers[rule->dense_operand[k] - results]) {
            return false;
        }
    }
    for (uint32_t s = 0; s < m->part->instructions; s++) {
        const int64_t *word = m->part->code + (size_t)s * IPU_FUSED_WORDS;
        for (uint32_t k = 2; !rule->covers[s] && k < IPU_FUSED_WORDS; k++) {
            if (word[k] >= (int64_t)results && rule->covers[word[k] - results]) {
                return false;
            }
        }
    }
    return true;
}

static bool
matches(const ipu_kernel_spec *spec, const ipu_update_part *part, const pattern *p,
        ipu__update_rule *out)
{
    matcher m = {.spec = spec, .part = part, .pattern = p};
    if (p->variables != part->variables || p->steps > part->instructions) {
        return false;
    }
    memset(&m.bound, NO_OPERAND, sizeof m.bound);
    if (!match_variables(&m, 0)) {
        return false;
    }
    out->variables = p->variables;
    out->dense = p->dense;
    out->singles = p->singles;
    memcpy(out->variable, m.bound.operand, p->variables);
    memcpy(out->dense_operand, m.bound.operand + p->variables, p->dense);
    memcpy(out->single, m.bound.operand + p->variables + p->dense, p->singles);
    find_covered(&m, out);
    return is_in_order(&m, out);
}

static bool
is_float32(const ipu_kernel_spec *spec, const ipu_update_part *part)
{
    bool all = true;
    for (uint32_t k = 0; k < part->variables; k++) {
        all &= spec->outputs[part->first_variable + k].dtype == IPU_DTYPE_FLOAT32;
    }
    for (uint32_t s = 0; s < part->instructions; s++) {
        all &= part->code[(size_t)s * IPU_FUSED_WORDS + 1] == IPU_DTYPE_FLOAT32;
    }
    for (uint32_t k = 0; k < part->inputs; k++) {
        all &= spec->inputs[ipu_update_elements(part, k)].dtype == IPU_DTYPE_FLOAT32;
    }
    return all;
}

#define NODE_1(name) name,
#define NODE_2(name, new) name,
#define NODE_4(new, op, a, b) new,
#define COUNT_1(name) +1
#define COUNT_2(name, new) +1
#define COUNT_4(new, op, a, b) +1
#define GIVEN(name, new) new,
#define ROW(new, op, a, b) {IPU_OP_ID_##op, a, b},

#define TRY(name, FORMULA) \
    static bool try_##name(const ipu_kernel_spec *spec, const ipu_update_part *part, \
                           ipu_cpu_class cpu, ipu__update_rule *out) \
    { \
        enum { FORMULA(NODE_2, NODE_1, NODE_1, NODE_4) NODES }; \
        static const uint8_t given[] = {FORMULA(GIVEN, NONE_1, NONE_1, NONE_4)}; \
        static const pattern_step steps[] = {FORMULA(NONE_2, NONE_1, NONE_1, ROW)}; \
        const pattern p = {.variables = 0 FORMULA(COUNT_2, NONE_1, NONE_1, NONE_4), \
                           .dense = 0 FORMULA(NONE_2, COUNT_1, NONE_1, NONE_4), \
                           .singles = 0 FORMULA(NONE_2, NONE_1, COUNT_1, NONE_4), \
                           .steps = 0 FORMULA(NONE_2, NONE_1, NONE_1, COUNT_4), \
                           .given = given, \
                           .step = steps}; \
        _Static_assert((int)NODES <= (int)MOST_NODES, "a longer formula"); \
        out->run = cpu >= IPU_CPU_AVX2 ? WIDE(name) : name##_generic; \
        return matches(spec, part, &p, out); \
    }
FORMULAS(TRY)

bool
ipu__update_rule_find(const ipu_kernel_spec *spec, const ipu_update_part *part,
                      ipu_cpu_class cpu, ipu__update_rule *out)
{
#define TRIES(name, FORMULA) try_##name,
    static bool (*const tries[])(const ipu_kernel_spec *, const ipu_update_part *,
                                 ipu_cpu_class, ipu__update_rule *) = {
        FORMULAS(TRIES)};
#undef TRIES
    if (!is_float32(spec, part)) {
        return false;
    }
    out->lanes = cpu >= IPU_CPU_AVX2 ? 8 : 4;
    for (size_t i = 0; i < sizeof tries / sizeof tries[0]; i++) {
        if (tries[i](spec, part, cpu, out)) {
            return true;
        }
    }
    return false;
}
