/* SPDX-License-Identifier: MIT
 *
 * Equal nodes without effects become one (common subexpressions). In: any graph, best
 * in canonical form. Out: the same graph, in which the first of equal nodes serves all
 * that follow it in its block and in the blocks inside.
 *
 * Nodes are equal if op, attributes, inputs, placement and recomputation are. A read of
 * a variable has a version too, which every write of that variable moves on; a block
 * that writes it moves it on before its first node and after its last one, as it may
 * run many times or never. Random nodes and empty buffers are left alone. A chained
 * hash table, whose entries of a block go when the block ends. One thread per graph. */
#include "base/hash.h"
#include "graph/effects.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

typedef struct entry {
    ipu_node node;
    uint64_t version; /* of the variable that is read; 0 for others */
    uint64_t hash;
    uint32_t next; /* entry of the same bucket, plus 1 */
} entry;

typedef struct merger {
    IPU_ARRAY(entry) entries;
    uint32_t *buckets;   /* entry plus 1; 0: none */
    size_t bucket_count; /* a power of two */
    ipu_effects effects;
    IPU_ARRAY(size_t) scopes;     /* entries.count when each open block began */
    IPU_ARRAY(uint64_t) versions; /* by resource */
    uint64_t clock;
} merger;

/* --- hashing --------------------------------------------------------------------- */

static uint64_t
mix(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ (hash >> 29);
}

static uint64_t
mix_bytes(uint64_t hash, const void *bytes, size_t count)
{
    return mix(ipu_hash_bytes(hash, bytes, count), count);
}

static uint64_t
hash_node(const ipu_node_data *node, uint64_t version)
{
    uint64_t hash = mix((uint64_t)node->op, version);
    for (uint32_t i = 0; i < node->input_count; i++) {
        hash = mix(hash, node->inputs[i].index);
    }
    for (uint32_t i = 0; i < node->attrs.count; i++) {
        const ipu_attr *attr = &node->attrs.items[i];
        hash = mix(hash, (uint64_t)attr->key);
        switch (ipu_attr_kind_of(attr->key)) {
        case IPU_ATTR_KIND_INTS:
        case IPU_ATTR_KIND_BLOCKS:
            hash = mix_bytes(hash, attr->as.ints, attr->count * sizeof(int64_t));
            break;
        case IPU_ATTR_KIND_BYTES:
        case IPU_ATTR_KIND_TEXT:
            hash = mix_bytes(hash, attr->as.bytes, attr->count);
            break;
        case IPU_ATTR_KIND_INT:
        case IPU_ATTR_KIND_BOOL:
        case IPU_ATTR_KIND_DTYPE:
        case IPU_ATTR_KIND_BLOCK:
            hash = mix(hash, (uint64_t)attr->as.i);
            break;
        case IPU_ATTR_KIND_FLOAT:
            hash = mix_bytes(hash, &attr->as.f, sizeof(double));
            break;
        }
    }
    return hash;
}

static bool
same_node(const ipu_node_data *a, const ipu_node_data *b)
{
    if (a->op != b->op || a->input_count != b->input_count ||
        a->output_count != b->output_count || a->recomputation != b->recomputation ||
        !ipu_placement_equal(a->placement, b->placement) ||
        !ipu_attrs_equal(a->attrs, b->attrs)) {
        return false;
    }
    for (uint32_t i = 0; i < a->input_count; i++) {
        if (a->inputs[i].index != b->inputs[i].index) {
            return false;
        }
    }
    return true;
}

/* --- versions of resources ------------------------------------------------------- */

/* What one node writes, the blocks that it holds included. */
static void
bump_writes(merger *m, const ipu_node_data *node)
{
    for (uint32_t i = 0; ipu_node_writes(node) && i < ipu_node_resource_count(node);
         i++) {
        m->versions.items[ipu_node_resource(node, i)] = ++m->clock;
    }
    for (uint32_t b = 0; b < ipu_node_block_count(node); b++) {
        uint32_t count;
        const uint32_t *written =
            ipu_effects_of(&m->effects, ipu_node_block(node, b), &count);
        for (uint32_t i = 0; i < count; i++) {
            m->versions.items[written[i]] = ++m->clock;
        }
    }
}

/* --- the walk -------------------------------------------------------------------- */

static uint32_t *
bucket_of(const merger *m, uint64_t hash)
{
    return &m->buckets[hash & (m->bucket_count - 1)];
}

static ipu_status
visit(ipu__rewriter *r, ipu_node id, bool *keep)
{
    merger *m = r->state;
    const ipu_node_data *node = ipu_node_of(r->graph, id);
    uint32_t flags = ipu_node_flags(node);
    if ((flags & (IPU_OP_WRITES | IPU_OP_BLOCK)) != 0) {
        bump_writes(m, node);
        return IPU_OK;
    }
    if ((flags & IPU_OP_RANDOM) != 0 || node->op == IPU_OP_ID_EMPTY) {
        return IPU_OK;
    }
    uint64_t version =
        ipu_node_reads(node) ? m->versions.items[ipu_node_resource(node, 0)] : 0;
    uint64_t hash = hash_node(node, version);
    uint32_t *bucket = bucket_of(m, hash);
    for (uint32_t at = *bucket; at != 0; at = m->entries.items[at - 1].next) {
        const entry *other = &m->entries.items[at - 1];
        const ipu_node_data *first = ipu_node_of(r->graph, other->node);
        if (other->hash == hash && other->version == version &&
            same_node(first, node)) {
            *keep = false;
            for (uint32_t i = 0; i < node->output_count; i++) {
                IPU_TRY(ipu__replace(r, ipu_node_output(node, i),
                                     ipu_node_output(first, i)));
            }
            return IPU_OK;
        }
    }
    entry fresh = {id, version, hash, *bucket};
    IPU_TRY(IPU_ARRAY_PUSH(r->ctx, &m->entries, fresh));
    *bucket = (uint32_t)m->entries.count;
    return IPU_OK;
}

static ipu_status
enter(ipu__rewriter *r, ipu_block block)
{
    merger *m = r->state;
    (void)block; /* visit saw the owner, and so the versions have moved on */
    return IPU_ARRAY_PUSH(r->ctx, &m->scopes, m->entries.count);
}

static ipu_status
leave(ipu__rewriter *r, ipu_block block)
{
    merger *m = r->state;
    size_t before = m->scopes.items[--m->scopes.count];
    while (m->entries.count > before) {
        const entry *last = &m->entries.items[--m->entries.count];
        *bucket_of(m, last->hash) = last->next;
    }
    bump_writes(m, ipu_node_of(r->graph, ipu_block_of(r->graph, block)->owner));
    return IPU_OK;
}

static ipu_status
start(ipu_ctx *ctx, const ipu_graph *graph, merger *m)
{
    size_t bytes;
    m->bucket_count = 64;
    while (m->bucket_count < graph->nodes.count) {
        m->bucket_count *= 2;
    }
    IPU_TRY(ipu_mul_size(ctx, m->bucket_count, sizeof(*m->buckets), &bytes));
    IPU_TRY(ipu_alloc(ctx, bytes, &m->buckets));
    IPU_TRY(IPU_ARRAY_EXTEND(ctx, &m->versions, graph->resources.count, NULL));
    return ipu_effects_find(ctx, graph, &m->effects);
}

ipu_status
ipu_pass_merge(ipu_ctx *ctx, ipu_graph *graph)
{
    merger m = {0};
    ipu_status status = start(ctx, graph, &m);
    if (status == IPU_OK) {
        ipu__rewriter rewriter = {.ctx = ctx,
                                  .graph = graph,
                                  .visit = visit,
                                  .enter = enter,
                                  .leave = leave,
                                  .state = &m};
        status = ipu__rewrite(&rewriter);
    }
    ipu_free(ctx, m.buckets, m.bucket_count * sizeof(*m.buckets));
    IPU_ARRAY_FREE(ctx, &m.entries);
    IPU_ARRAY_FREE(ctx, &m.scopes);
    IPU_ARRAY_FREE(ctx, &m.versions);
    ipu_effects_free(ctx, &m.effects);
    return status;
}
