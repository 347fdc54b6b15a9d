/* SPDX-License-Identifier: MIT
 *
 * Cycles of a tile's vertices, after poplibs' estimators. A tile's workers share the
 * work of a vertex and take turns, an instruction each: a formula in instructions of
 * the busiest worker is multiplied by their number. */
#ifndef IPU_MACHINE_VERTEX_H
#define IPU_MACHINE_VERTEX_H

#include <stdbool.h>

#include "machine/chip.h"

/* A product on the matrix unit, in vertex groups of channels. */
typedef struct ipu_amp_work {
    int64_t conv_groups;
    int64_t in_groups;
    int64_t out_groups;
    int64_t field;   /* output positions: rows times columns */
    int64_t rows;    /* over the batch */
    int64_t columns; /* next to each other in memory */
    int64_t window;  /* kernel positions */
    double load;     /* cycles for one group's coefficients */
    double each;     /* instructions for a position, whose inputs are loaded in them */
    bool is_float;
} ipu_amp_work;

/* One kernel position: workers share the positions of the field. */
double ipu_vertex_amp(const ipu_chip *chip, const ipu_amp_work *work);
/* Several: workers share its rows, or parts of them. */
double ipu_vertex_amp_window(const ipu_chip *chip, const ipu_amp_work *work);

/* A bound: for each kernel position and group of input and of output channels neither
 * takes fewer cycles. */
double ipu_vertex_amp_pass(const ipu_chip *chip, const ipu_amp_work *work,
                           bool has_window);

/* `outputs` dot products of `steps` vectors each. */
double ipu_vertex_hmac(const ipu_chip *chip, double outputs, double steps);
/* `vectors` of outputs that `steps` products are added to. */
double ipu_vertex_vmac(const ipu_chip *chip, double vectors, double steps);
/* A binary op; `steps` instructions for each vector. */
double ipu_vertex_binary(const ipu_chip *chip, double outputs, double vector,
                         double steps);
/* Each of `outputs` is the sum of `copies`. */
double ipu_vertex_sum(const ipu_chip *chip, double outputs, double copies,
                      double vector);
/* Sums, or the like, of what a tile has. */
double ipu_vertex_reduce(const ipu_chip *chip, double elements, double sums,
                         double vector);
double ipu_vertex_cast(const ipu_chip *chip, double outputs);
/* By all workers. */
double ipu_vertex_copy(const ipu_chip *chip, double bytes);

#endif
