/* SPDX-License-Identifier: MIT
 *
 * The parts of the program's checker: program_verify.c follows each stream alone,
 * verify_places.c asks of operands that they exist and were written, verify_regions.c
 * that regions need no barrier, verify_streams.c checks what streams have in common. */
#ifndef IPU_PROGRAM_VERIFY_IMPL_H
#define IPU_PROGRAM_VERIFY_IMPL_H

#include "program/program.h"

/* Bytes of slabs and outputs, which lie one after the other on one line. */
typedef struct ipu__range {
    size_t begin;
    size_t end;
} ipu__range;

typedef struct ipu__checker {
    ipu_ctx *ctx;
    ipu_arena arena; /* of the tables */
    const ipu_program *program;
    const ipu_stream *stream;
    size_t number; /* of the stream */
    uint32_t infeed_components;
    size_t *slabs;      /* per stream: where its slab begins on the line */
    size_t *remotes;    /* per stream: its remote memory */
    size_t *outputs;    /* where the program's outputs begin, after the slabs */
    size_t infeeds;     /* where the components of the infeeds do: a byte each */
    size_t *first_slot; /* per ring: its first one among the slots of all rings */
    size_t slot_count;
    uint32_t *slots;      /* the micro-batch that was written there; UINT32_MAX: none */
    uint32_t micro_batch; /* of the action that is followed */
    uint32_t around;      /* the stream whose pipeline is followed, if one is */
    size_t at;            /* instruction, for messages */
    size_t inside;        /* the WHILE of the loop that is followed; SIZE_MAX: none */
    uint32_t depth;       /* of loops */
    IPU_ARRAY(const ipu_instruction *) posted; /* and not waited for, of the stream */
    IPU_ARRAY(ipu__range) written;
    IPU_ARRAY(ipu__range)
    saved; /* what was, in front of the blocks that are followed */
} ipu__checker;

#define REQUIRE(c, condition, ...) \
    do { \
        if (!(condition)) { \
            return ipu__verify_wrong((c), __VA_ARGS__); \
        } \
    } while (0)

/* An INTERNAL error that says where it is. */
ipu_status ipu__verify_wrong(ipu__checker *c, const char *what);

/* --- verify_places.c -------------------------------------------------------------- */

const ipu_resource *ipu__verify_resource_at(const ipu__checker *c, uint32_t index,
                                            ipu_resource_kind kind);
ipu_status ipu__verify_check_place(ipu__checker *c, ipu_place place, size_t bytes,
                                   bool is_output);
/* That the bytes at a checked place have been written as a whole. */
ipu_status ipu__verify_note_written(ipu__checker *c, ipu_place place, size_t bytes);
bool ipu__verify_is_written(const ipu__checker *c, ipu__range r);
/* Checks the place, and that it was written. */
ipu_status ipu__verify_check_read(ipu__checker *c, ipu_place place, size_t bytes);
bool ipu__verify_same_place(ipu_place a, ipu_place b);
/* Whether two operands share bytes, wherever they are. */
bool ipu__verify_share(const ipu__checker *c, ipu_place a, size_t a_bytes, ipu_place b,
                       size_t b_bytes);

/* --- verify_regions.c ------------------------------------------------------------- */

/* Stream `number`, whose instructions are valid one by one. */
ipu_status ipu__verify_regions(ipu__checker *c, size_t number);

/* --- verify_streams.c ------------------------------------------------------------- */

/* No stream writes what several streams use. */
ipu_status ipu__verify_streams(ipu_ctx *ctx, const ipu_program *program);

#endif
