# SPDX-License-Identifier: MIT
"""``ipu.tf.errors``: the exceptions of operations, under TensorFlow's names.

Example:
    >>> from ipu.tf import errors
    >>> try:
    ...     raise errors.OutOfRangeError("end of sequence")
    ... except errors.OpError as error:
    ...     print(error.message)
    end of sequence
"""

from __future__ import annotations

from ipu._text.errors import (
    AbortedError as AbortedError,
    AlreadyExistsError as AlreadyExistsError,
    CancelledError as CancelledError,
    DataLossError as DataLossError,
    DeadlineExceededError as DeadlineExceededError,
    FailedPreconditionError as FailedPreconditionError,
    InternalError as InternalError,
    InvalidArgumentError as InvalidArgumentError,
    NotFoundError as NotFoundError,
    OpError as OpError,
    OutOfRangeError as OutOfRangeError,
    PermissionDeniedError as PermissionDeniedError,
    ResourceExhaustedError as ResourceExhaustedError,
    UnauthenticatedError as UnauthenticatedError,
    UnavailableError as UnavailableError,
    UnimplementedError as UnimplementedError,
    UnknownError as UnknownError,
)
from ipu._text.exports import export, offered

export(__name__, offered(__name__))
