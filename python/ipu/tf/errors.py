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

from typing import TYPE_CHECKING

from ipu._text.errors import (
    AbortedError,
    AlreadyExistsError,
    CancelledError,
    DataLossError,
    DeadlineExceededError,
    FailedPreconditionError,
    InternalError,
    InvalidArgumentError,
    NotFoundError,
    OpError,
    OutOfRangeError,
    PermissionDeniedError,
    ResourceExhaustedError,
    UnauthenticatedError,
    UnavailableError,
    UnimplementedError,
    UnknownError,
)
from ipu._text.faces import face

__all__ = [
    "AbortedError",
    "AlreadyExistsError",
    "CancelledError",
    "DataLossError",
    "DeadlineExceededError",
    "FailedPreconditionError",
    "InternalError",
    "InvalidArgumentError",
    "NotFoundError",
    "OpError",
    "OutOfRangeError",
    "PermissionDeniedError",
    "ResourceExhaustedError",
    "UnauthenticatedError",
    "UnavailableError",
    "UnimplementedError",
    "UnknownError",
]


if not TYPE_CHECKING:
    __getattr__, __dir__ = face(__name__, __all__)
