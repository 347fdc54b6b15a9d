/* SPDX-License-Identifier: MIT */
#include "peers/mpi.h"

#include <stdio.h>

/* More than MPI_Status and MPI_MAX_ERROR_STRING are anywhere. */
enum { STATUS_BYTES = 256, TEXT_BYTES = 4096 };

typedef int of_numbers(void *, int, int, int, int, int, int *);
typedef int of_pointers(void *, int, void *, int, int, void *, void **);
typedef int test_number(int *, int *, void *);
typedef int test_pointer(void **, int *, void *);
typedef int error_string(int, char *, int *);

int
ipu_mpi_begin(const ipu_mpi *mpi, bool is_send, void *data, size_t bytes,
              uint32_t process, uint32_t tag, ipu_mpi_request *out)
{
    ipu_mpi_fn *fn = is_send ? mpi->isend : mpi->irecv;
    if (mpi->has_pointers) {
        return ((of_pointers *)fn)(data, (int)bytes, (void *)mpi->byte, (int)process,
                                   (int)tag, (void *)mpi->communicator, &out->pointer);
    }
    return ((of_numbers *)fn)(data, (int)bytes, (int)mpi->byte, (int)process, (int)tag,
                              (int)mpi->communicator, &out->number);
}

int
ipu_mpi_test(const ipu_mpi *mpi, ipu_mpi_request *request, bool *is_over)
{
    _Alignas(16) char status[STATUS_BYTES];
    int flag = 0;
    int error = mpi->has_pointers
                    ? ((test_pointer *)mpi->test)(&request->pointer, &flag, status)
                    : ((test_number *)mpi->test)(&request->number, &flag, status);
    *is_over = flag != 0;
    return error;
}

const char *
ipu_mpi_describe(const ipu_mpi *mpi, int error, char *text, size_t bytes)
{
    char whole[TEXT_BYTES] = "";
    int length = 0;
    if (((error_string *)mpi->error_string)(error, whole, &length) != 0) {
        snprintf(whole, sizeof(whole), "error %d", error);
    }
    snprintf(text, bytes, "%s", whole);
    return text;
}
