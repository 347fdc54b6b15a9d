/* SPDX-License-Identifier: MIT
 *
 * Status codes of the core. Every fallible function returns one; the text that goes
 * with it, and the user's source line, travel in the error record of `ipu_ctx`.
 * bind/exception.c turns a status into the Python exception named in the last column. */
#ifndef IPU_BASE_STATUS_H
#define IPU_BASE_STATUS_H

/* X(NAME, "text", Python exception) */
#define IPU_STATUS_LIST(X) \
    X(OK, "ok", SystemError) \
    X(OUT_OF_MEMORY, "out of memory", MemoryError) \
    X(VALUE, "invalid value", ValueError) \
    X(TYPE, "invalid type", TypeError) \
    X(INVALID_ARGUMENT, "invalid argument", InvalidArgumentError) \
    X(OUT_OF_RANGE, "out of range", OutOfRangeError) \
    X(FAILED_PRECONDITION, "failed precondition", FailedPreconditionError) \
    X(NOT_FOUND, "not found", NotFoundError) \
    X(UNIMPLEMENTED, "not implemented", UnimplementedError) \
    X(RESOURCE_EXHAUSTED, "resource exhausted", ResourceExhaustedError) \
    X(CANCELLED, "cancelled", CancelledError) \
    X(ABORTED, "aborted", AbortedError) \
    X(INTERRUPTED, "interrupted", KeyboardInterrupt) \
    X(INTERNAL, "internal error", InternalError) \
    /* a Python callback raised: the exception is the cause of the error, or is set */ \
    X(PYTHON, "Python exception", SystemError)

typedef enum ipu_status {
#define X(name, text, exception) IPU_STATUS_##name,
    IPU_STATUS_LIST(X)
#undef X
    IPU_STATUS_COUNT
} ipu_status;

#define IPU_OK IPU_STATUS_OK

const char *ipu_status_name(ipu_status status);

#endif
