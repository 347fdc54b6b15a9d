/* SPDX-License-Identifier: MIT
 *
 * What the files of data/ share: the counted data set, the iterator, and storage for
 * one element. A kind of data set is a row of functions: what its iterators do when
 * they are opened, asked for an element and closed.
 *
 * Elements travel as views: types and pointers that stay valid until the next call
 * on the same iterator. Where a data set is `stable` they stay valid as long as the
 * data set lives (held memory, and whatever only reorders it), and its types are
 * static; then shuffle and prefetch keep pointers and nothing is copied before
 * batch.
 *
 * The end of the data is a flag, not a status, so that the context's error record
 * keeps real errors only.
 *
 * A reader that wants an element in its own buffers says so in the element it asks for.
 * An iterator may write there, or hand the element to its input as it is; where it does
 * neither, ipu__iterator_next copies. So there is one function for both.
 *
 * Where ctx->cancel is set, ipu__iterator_next fails with CANCELLED, before it calls an
 * iterator's own function and after it. So no iterator writes to a buffer once a
 * callback below it has been told to give up. */
#ifndef IPU_DATA_DATASET_IMPL_H
#define IPU_DATA_DATASET_IMPL_H

#include <stdatomic.h>
#include <string.h>

#include "data/dataset.h"

/* Iterators call each other, one frame or more for each transformation. */
enum { IPU__MAX_DEPTH = 1000 };

/* An endless repeat takes this many passes of a shuffle below it. */
#define IPU__ENDLESS_PASSES (UINT64_C(1) << 32)

/* Passes of one shuffle data set that the root iterator took: base, base + 1, ... */
typedef struct ipu__pass_base {
    const ipu_dataset *dataset;
    uint64_t base;
} ipu__pass_base;

/* All that a root iterator took. Whoever may outlive the root holds a reference. */
typedef struct ipu__passes {
    atomic_int refs;
    ipu_allocator allocator;
    uint32_t count;
    ipu__pass_base bases[];
} ipu__passes;

ipu__passes *ipu__passes_ref(ipu__passes *passes);
void ipu__passes_unref(ipu__passes *passes);

/* Which pass over its input an iterator makes, counted within the root iterator. */
typedef struct ipu__pass {
    ipu__passes *taken;
    uint64_t index;
} ipu__pass;

/* How long an element takes to make. */
typedef enum ipu__pace {
    IPU__PACE_ANY, /* nothing is known: foreign code, waiting, any number of inputs */
    IPU__PACE_INPUTS, /* a moment more than its inputs' elements */
    IPU__PACE_STABLE  /* a moment, if the input is stable: it takes many of them */
} ipu__pace;

typedef struct ipu__element {
    const ipu_type *types;
    const void *const *parts;
    bool end;
    const ipu_type *wanted; /* of `buffers`, exactly */
    void *const *buffers;   /* where the reader wants the parts; NULL: anywhere */
} ipu__element;

typedef struct ipu__kind {
    const char *name;
    ipu__pace pace;
    bool is_flat;     /* a chain of them is read by one iterator */
    bool opens_input; /* an iterator's `input` is opened with it, for the same pass */
    size_t bytes;     /* of the data set's struct, which starts with ipu_dataset */
    size_t iterator_bytes; /* of the iterator's, which starts with ipu_iterator */
    /* What `next` needs; where it fails `close` follows. May be NULL. */
    ipu_status (*open)(ipu_ctx *ctx, ipu_iterator *iterator, const ipu__pass *pass);
    ipu_status (*next)(ipu_ctx *ctx, ipu_iterator *iterator, ipu__element *out);
    /* Frees what the iterator's struct holds beyond ipu_iterator; may be NULL. */
    void (*close)(ipu_ctx *ctx, ipu_iterator *iterator);
    /* As ipu_iterator_visit, for what is not below `input`; may be NULL. */
    void (*visit)(const ipu_iterator *iterator, ipu_visit_fn *visit, void *argument);
    /* Frees what the data set's struct holds beyond ipu_dataset; may be NULL. */
    void (*destroy)(ipu_ctx *ctx, ipu_dataset *dataset);
} ipu__kind;

/* A kind by its name and structs; more fields follow. */
#define IPU__KIND(kind, text, dataset, iterator, ...) \
    static const ipu__kind kind = {.name = (text), \
                                   .bytes = sizeof(dataset), \
                                   .iterator_bytes = sizeof(iterator), \
                                   __VA_ARGS__}

struct ipu_dataset {
    const ipu__kind *kind;
    atomic_int refs;
    ipu_allocator allocator;
    ipu_dataset **inputs;
    uint32_t input_count;
    uint32_t depth; /* iterators that an iterator of it holds below each other */
    ipu_dataset *next_unreferenced; /* while a chain of data sets is freed */
    uint32_t type_count;
    ipu_type *types;
    int64_t cardinality;
    int64_t repeats; /* passes over the input in one pass: 1, repeat's count, -1 */
    bool stable;
    bool is_static; /* no unknown dimension */
    int64_t shards; /* that it, or what it is made of, was cut into last; 0: none */
    bool is_quick;  /* elements but the first are made in a moment, of memory at hand */
    bool counts_passes;
    bool holds_counters; /* one below it counts passes */
    bool numbers_passes; /* and it says which they are: none is taken */
    atomic_uint_fast64_t passes;
};

struct ipu_iterator {
    ipu_dataset *dataset;
    ipu_iterator *input; /* may be NULL */
    ipu_type *types;     /* of an element's components, for `next` to use */
    const void **parts;  /* the same */
    ipu_allocator allocator;
    bool done;
    ipu__passes *passes; /* of a root iterator */
};

/* Makes a data set over `inputs` with copies of `types`; the caller fills in the rest.
 * Where types is NULL the caller fills in those, too, and calls ipu__dataset_typed.
 * Free with ipu_dataset_unref. */
void ipu__dataset_typed(ipu_dataset *dataset);
ipu_status ipu__dataset_new(ipu_ctx *ctx, const ipu__kind *kind,
                            ipu_dataset *const *inputs, uint32_t input_count,
                            const ipu_type *types, uint32_t type_count, void *out);
/* The same over one input: with its types, as many elements, and as stable. */
ipu_status ipu__dataset_over(ipu_ctx *ctx, const ipu__kind *kind, ipu_dataset *input,
                             void *out);

/* The number of this pass over a data set that counts them, over its life; 0 for one
 * that does not. */
uint64_t ipu__pass_number(const ipu_dataset *dataset, const ipu__pass *pass);

ipu_status ipu__iterator_open(ipu_ctx *ctx, ipu_dataset *dataset, const ipu__pass *pass,
                              ipu_iterator **out);
ipu_status ipu__iterator_next(ipu_ctx *ctx, ipu_iterator *iterator, ipu__element *out);
/* The same, into buffers of exactly these types. */
ipu_status ipu__iterator_fill(ipu_ctx *ctx, ipu_iterator *iterator,
                              const ipu_type *types, void *const *buffers, bool *end);

/* Copies components, whose types must be exactly those of the buffers. */
ipu_status ipu__element_copy(ipu_ctx *ctx, const ipu_type *types,
                             const void *const *parts, const ipu_type *wanted,
                             void *const *buffers, uint32_t count);
/* Fails unless the types of an element that was made are exactly the wanted ones. */
ipu_status ipu__types_check(ipu_ctx *ctx, const ipu_type *made, const ipu_type *wanted,
                            uint32_t count);
/* Whether a tensor of type `made` is of the declared type, unknowns matching all. */
bool ipu__type_accepts(const ipu_type *declared, const ipu_type *made);

/* The data set to read where a prefetch at its end is skipped. */
ipu_dataset *ipu__dataset_before_prefetch(ipu_dataset *dataset);

/* Storage for one element; buffers grow as needed and are reused. Starts as {0}. */
typedef struct ipu__store {
    uint32_t count;
    ipu_type *types;
    void **parts;
    size_t *capacities;
} ipu__store;

/* Makes room for an element of these (static) types and sets store->types. */
ipu_status ipu__store_fit(ipu_ctx *ctx, ipu__store *store, const ipu_type *types,
                          uint32_t count);
/* The same, and keeps the bytes that are there. */
ipu_status ipu__store_grow(ipu_ctx *ctx, ipu__store *store, const ipu_type *types,
                           uint32_t count);
/* Copies an element into the store. */
ipu_status ipu__store_copy(ipu_ctx *ctx, ipu__store *store, const ipu__element *element,
                           uint32_t count);
void ipu__store_free(ipu_ctx *ctx, ipu__store *store);

#endif
