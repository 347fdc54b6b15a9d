/* SPDX-License-Identifier: MIT
 *
 * Attention that is written in single ops, as the pass `attend` finds it
 * (find_attention.c) and replaces it (attend.c). Nothing outside of these two includes
 * it. */
#ifndef IPU_PASSES_ATTENTION_FOUND_H
#define IPU_PASSES_ATTENTION_FOUND_H

#include "graph/users.h"

/* Nodes of the form
 *
 *     score = q k^T    x = score scale + (1 - mask) -1e9    w = softmax(x)    mix = w v
 *
 * and of its gradients
 *
 *     dw = dy v^T    ds = w (dw - sum(dw w)) scale
 *     dv = w^T dy    dq = ds k                      dk = ds^T q
 *
 * where products may have any of their factors stored transposed. */
typedef struct ipu__attention_found {
    ipu_node score;
    ipu_node mix;
    ipu_node dw; /* IPU_NO_NODE: no gradient is asked for, and the next are missing */
    ipu_node dv; /* each may be missing */
    ipu_node dq;
    ipu_node dk;
    ipu_value hidden; /* float32, 0 but where -1e9 is added; or IPU_NO_VALUE */
    ipu_shape hidden_at; /* of the scores that it is added to */
    double scale;
    ipu_shape scores; /* [batch, heads, queries, keys] */
} ipu__attention_found;

/* Whether the softmax is that of such nodes, of which nothing else uses anything but
 * what the op gives, so that all of them can go. */
bool ipu__attention_find(const ipu_graph *graph, const ipu_uses *uses,
                         ipu_node softmax, ipu__attention_found *out);

bool ipu__attention_flag(const ipu_graph *graph, ipu_node product, ipu_attr_key key);

#endif
