/* SPDX-License-Identifier: MIT
 *
 * Matching, from the value of a pattern up to its operands. One thread per graph. */
#include "passes/match.h"

ipu__match
ipu__match_in(const ipu_graph *graph)
{
    ipu__match match = {.graph = graph};
    for (uint32_t i = 0; i < IPU__MOST_SLOTS; i++) {
        match.values[i] = IPU_NO_VALUE;
    }
    return match;
}

bool
ipu__match_has(const ipu__match *match, ipu_node node)
{
    for (uint32_t i = 0; i < match->node_count; i++) {
        if (match->nodes[i].index == node.index) {
            return true;
        }
    }
    return false;
}

bool
ipu__match_add(ipu__match *match, ipu_node node)
{
    bool is_known = ipu__match_has(match, node);
    if (!is_known && match->node_count < IPU__MOST_MATCHED) {
        match->nodes[match->node_count++] = node;
        return true;
    }
    return is_known;
}

static bool
match_operands(ipu__match *match, const ipu__pattern *pattern,
               const ipu_node_data *node, bool exchanged)
{
    for (uint32_t i = 0; i < node->input_count; i++) {
        const ipu__pattern *operand = i < 3 ? pattern->operands[i] : NULL;
        uint32_t from = exchanged && i < 2 ? 1 - i : i;
        if (operand == NULL || !ipu__matches(match, operand, node->inputs[from])) {
            return false;
        }
    }
    return true;
}

static bool
match_value(ipu__match *match, const ipu__pattern *pattern, ipu_value value)
{
    if (pattern->is_number) {
        return ipu_constant_is(match->graph, value, pattern->number);
    }
    if (pattern->slot > 0) {
        ipu_value *noted = &match->values[pattern->slot];
        if (noted->index != IPU_NO_INDEX && noted->index != value.index) {
            return false;
        }
        *noted = value;
    }
    if (pattern->op == IPU_OP_ID_COUNT) {
        return true;
    }
    const ipu_node_data *node = ipu_producer_of(match->graph, value);
    if (node == NULL || node->op != pattern->op ||
        !ipu__match_add(match, ipu_value_of(match->graph, value)->producer)) {
        return false;
    }
    ipu__match before = *match;
    if (match_operands(match, pattern, node, false)) {
        return true;
    }
    *match = before;
    return (ipu_node_flags(node) & IPU_OP_COMMUTES) != 0 &&
           match_operands(match, pattern, node, true);
}

bool
ipu__matches(ipu__match *match, const ipu__pattern *pattern, ipu_value value)
{
    ipu__match before = *match;
    bool fits = match_value(match, pattern, value);
    if (!fits) {
        *match = before;
    }
    return fits;
}
