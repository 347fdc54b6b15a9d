/* SPDX-License-Identifier: MIT
 *
 * Data sets: an immutable, counted description that any number of iterators read. An
 * element is a flat list of components; nesting is the caller's business (Python
 * keeps it). Everything here runs without Python, but for generator sources, whose
 * callback lives in bind/ and takes the GIL itself. */
#ifndef IPU_DATA_DATASET_H
#define IPU_DATA_DATASET_H

#include "run/executor.h"

typedef struct ipu_dataset ipu_dataset;
typedef struct ipu_iterator ipu_iterator;

enum { IPU_CARDINALITY_INFINITE = -1, IPU_CARDINALITY_UNKNOWN = -2 };

/* dims[i] == -1 in a component's type: not known before an element is made (a batch
 * without drop_remainder); shape.rank == -1: not even the rank is known (a
 * generator). */
uint32_t ipu_dataset_types(const ipu_dataset *dataset, const ipu_type **out);
int64_t ipu_dataset_cardinality(const ipu_dataset *dataset);
ipu_dataset *ipu_dataset_ref(ipu_dataset *dataset);
void ipu_dataset_unref(ipu_dataset *dataset);

/* Foreign memory that a data set holds, unchanged and never copied; `release` (may
 * be NULL) is called once, from any thread, when the data set and its iterators are
 * gone. A constructor that fails does not call it: the caller keeps the memory. The
 * same holds for the `release` of generators and map functions. */
typedef struct ipu_foreign_buffer {
    const void *data; /* row-major, dense */
    void (*release)(void *owner);
    void *owner;
} ipu_foreign_buffer;

/* Sources. Every constructor takes its own reference to its inputs. */
ipu_status ipu_dataset_slices(ipu_ctx *ctx, const ipu_type *types,
                              const ipu_foreign_buffer *buffers, uint32_t count,
                              ipu_dataset **out); /* along the first axis */
ipu_status ipu_dataset_tensors(ipu_ctx *ctx, const ipu_type *types,
                               const ipu_foreign_buffer *buffers, uint32_t count,
                               ipu_dataset **out); /* one element */
ipu_status ipu_dataset_range(ipu_ctx *ctx, int64_t start, int64_t stop, int64_t step,
                             ipu_dataset **out); /* int64 scalars */

/* A generator: `open` starts one pass; `next` gives an element in memory of its own
 * that stays valid until the next call on this pass (the types must fit the declared
 * ones, which is checked), or sets *end; `close` ends the pass. A pass that fails to
 * open has no elements. `cardinality` is believed. */
typedef struct ipu_generator {
    ipu_status (*open)(ipu_ctx *ctx, void *state, void **out_pass);
    ipu_status (*next)(ipu_ctx *ctx, void *pass, const ipu_type **types,
                       const void *const **components, bool *end);
    void (*close)(void *pass);
    void (*release)(void *state);
    void *state;
} ipu_generator;
ipu_status ipu_dataset_generator(ipu_ctx *ctx, const ipu_type *types, uint32_t count,
                                 const ipu_generator *generator, int64_t cardinality,
                                 ipu_dataset **out);

/* Transformations. */
ipu_status ipu_dataset_zip(ipu_ctx *ctx, ipu_dataset *const *inputs, uint32_t count,
                           ipu_dataset **out);
/* Uniform over a window of buffer_size elements; the order is a function of (seed,
 * pass) where reshuffle is set, else of seed alone. Passes are counted over the data
 * set's life: an iterator takes as many as its repeats need (2^32 of an endless one)
 * when it is made, so the order never depends on how far earlier iterators, or
 * threads, have read. */
ipu_status ipu_dataset_shuffle(ipu_ctx *ctx, ipu_dataset *input, int64_t buffer_size,
                               uint64_t seed, bool reshuffle, ipu_dataset **out);
ipu_status ipu_dataset_batch(ipu_ctx *ctx, ipu_dataset *input, int64_t size,
                             bool drop_remainder, ipu_dataset **out);
/* Runs `compile(types)`'s program on each element. The callback compiles the traced
 * function for concrete input types; the program is cached per types and must live
 * until `release`. It may be called from any thread, also from several at once, and
 * may need Python. */
typedef struct ipu_map_function {
    ipu_status (*compile)(ipu_ctx *ctx, void *state, const ipu_type *inputs,
                          uint32_t count, const ipu_program **out_program);
    void (*release)(void *state);
    void *state;
    uint64_t seed; /* of the random ops */
} ipu_map_function;
ipu_status ipu_dataset_map(ipu_ctx *ctx, ipu_dataset *input,
                           const ipu_map_function *function, const ipu_type *outputs,
                           uint32_t output_count, ipu_dataset **out);
/* The elements for which the predicate's program gives true (one bool scalar); with
 * `ends` those before the first one for which it gives false. */
ipu_status ipu_dataset_filter(ipu_ctx *ctx, ipu_dataset *input,
                              const ipu_map_function *predicate, bool ends,
                              ipu_dataset **out);
/* The elements of one, then of the other. Dtypes must agree; a size that differs is not
 * known. */
ipu_status ipu_dataset_concatenate(ipu_ctx *ctx, ipu_dataset *first,
                                   ipu_dataset *second, ipu_dataset **out);
/* Into how many shards it was cut; 0: none. */
int64_t ipu_dataset_shards(const ipu_dataset *dataset);
/* Of the blocks of so many elements numbers index, index + count, ... */
ipu_status ipu_dataset_shard(ipu_ctx *ctx, ipu_dataset *input, int64_t count,
                             int64_t index, int64_t block, ipu_dataset **out);
/* The slices of each element along the first axis. */
ipu_status ipu_dataset_unbatch(ipu_ctx *ctx, ipu_dataset *input, ipu_dataset **out);
/* Says how many elements there are (or -1: endless); reading to the end fails with
 * FAILED_PRECONDITION where that is wrong. */
ipu_status ipu_dataset_assert_cardinality(ipu_ctx *ctx, ipu_dataset *input,
                                          int64_t cardinality, ipu_dataset **out);
/* Reads the input once, over all iterators, and keeps its elements in memory. */
ipu_status ipu_dataset_cache(ipu_ctx *ctx, ipu_dataset *input, ipu_dataset **out);
ipu_status ipu_dataset_repeat(ipu_ctx *ctx, ipu_dataset *input, int64_t count,
                              ipu_dataset **out); /* -1: for ever */
/* As repeat, but its passes are number first, first + 1, ... whatever was read before:
 * shuffles and random functions below go on as in a repeat that is so far. For who
 * reads ahead: a prefetch at the end of the input is skipped. */
ipu_status ipu_dataset_repeat_from(ipu_ctx *ctx, ipu_dataset *input, int64_t count,
                                   uint64_t first, ipu_dataset **out);
ipu_status ipu_dataset_take(ipu_ctx *ctx, ipu_dataset *input, int64_t count,
                            ipu_dataset **out); /* -1: all */
ipu_status ipu_dataset_skip(ipu_ctx *ctx, ipu_dataset *input, int64_t count,
                            ipu_dataset **out);
ipu_status ipu_dataset_prefetch(ipu_ctx *ctx, ipu_dataset *input, int64_t depth,
                                ipu_dataset **out); /* -1: chosen */

/* An error belongs to its element: the next call goes on after it, on every input.
 *
 * Iterators belong to one thread at a time, and to contexts with the allocator of
 * the one that made them. An iterator holds its data set. */
ipu_status ipu_iterator_create(ipu_ctx *ctx, ipu_dataset *dataset, ipu_iterator **out);
void ipu_iterator_free(ipu_iterator *iterator);
/* Types of the next element (known once it is made) and its components' bytes, which
 * stay valid until the next call. OUT_OF_RANGE at the end. */
ipu_status ipu_iterator_next(ipu_ctx *ctx, ipu_iterator *iterator,
                             const ipu_type **types, const void *const **components);
/* As next, but straight into the caller's buffers, which must fit the element's types
 * exactly (an infeed slot). */
ipu_status ipu_iterator_next_into(ipu_ctx *ctx, ipu_iterator *iterator,
                                  const ipu_type *types, void *const *buffers);

/* Calls `visit` for each open pass of a generator that this iterator alone uses, so not
 * for those of its threads and of caches. The iterator must not be at work. */
typedef void ipu_visit_fn(void *pass, void *argument);
void ipu_iterator_visit(const ipu_iterator *iterator, ipu_visit_fn *visit,
                        void *argument);

/* Makes `count` elements and, with `copy`, writes each into memory as an infeed would
 * have it; *bytes is their size in all. INVALID_ARGUMENT for a tensor without elements,
 * OUT_OF_RANGE at the end. */
ipu_status ipu_iterator_read(ipu_ctx *ctx, ipu_iterator *iterator, int64_t count,
                             bool copy, uint64_t *bytes);

/* A thread that opens an infeed (ipu_infeed_reopen) and fills it from a fresh iterator
 * until that ends or the queue closes. A prefetch at the end of the data set is
 * skipped: the infeed is one itself. `shares_cores` says that a program has as many
 * threads as there are cores: then the feeder lends its work to the device
 * (run/queue.h) where the data set is made in moments. */
typedef struct ipu_feeder ipu_feeder;
ipu_status ipu_feeder_start(ipu_ctx *ctx, ipu_dataset *dataset, ipu_infeed *queue,
                            bool shares_cores, ipu_feeder **out);
/* Closes the queue and waits for the thread to leave. A thread that is in a generator
 * is left behind: after a moment, or with `cancel` when that is set. */
void ipu_feeder_stop(ipu_feeder *feeder, ipu_cancel *cancel);
/* Goes on with a new queue: ipu_infeed_pass_on. The old one is not used any more. */
ipu_status ipu_feeder_move(ipu_ctx *ctx, ipu_feeder *feeder, ipu_infeed *to);

#endif
