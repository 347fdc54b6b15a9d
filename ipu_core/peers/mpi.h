/* SPDX-License-Identifier: MIT
 *
 * The few functions of MPI that carry messages. The program is not linked with MPI: their
 * addresses, and handles, come from whoever has loaded it. Handles are integers in the
 * ABI of MPICH (and Intel's MPI), pointers in that of Open MPI and the standard's own. */
#ifndef IPU_PEERS_MPI_H
#define IPU_PEERS_MPI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef void ipu_mpi_fn(void);

typedef struct ipu_mpi {
    ipu_mpi_fn *isend; /* MPI_Isend, */
    ipu_mpi_fn *irecv; /* and so on */
    ipu_mpi_fn *test;
    ipu_mpi_fn *error_string;
    bool has_pointers; /* else handles are integers */
    intptr_t communicator;
    intptr_t byte; /* the datatype */
} ipu_mpi;

typedef union ipu_mpi_request {
    int number;
    void *pointer;
} ipu_mpi_request;

/* The most bytes of a message: its count is an int. */
#define IPU_MPI_MOST_BYTES ((size_t)1 << 30)

/* Both return an error of MPI's, or 0. */
int ipu_mpi_begin(const ipu_mpi *mpi, bool is_send, void *data, size_t bytes,
                  uint32_t process, uint32_t tag, ipu_mpi_request *out);
int ipu_mpi_test(const ipu_mpi *mpi, ipu_mpi_request *request, bool *is_over);
/* Returns text. */
const char *ipu_mpi_describe(const ipu_mpi *mpi, int error, char *text, size_t bytes);

#endif
