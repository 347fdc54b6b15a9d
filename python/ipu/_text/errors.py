# SPDX-License-Identifier: MIT
"""The exceptions that device programs, queues and data sets raise.

The names and the two ways to construct them are TensorFlow's, so that ``except
tf.errors.OutOfRangeError`` in an existing program keeps working. The C core raises
them by name with the message alone; users find them as ``ipu.tf.errors``.
"""

from __future__ import annotations

from typing import Any, overload


class OpError(Exception):
    """Base class of the errors that running an operation can give.

    Args:
        message: What went wrong. TensorFlow's form ``(node_def, op, message)`` is
            understood as well, with ``node_def`` and ``op`` kept as they are.

    Example:
        >>> OpError("the loop ended").message
        'the loop ended'
        >>> OpError(None, None, "the loop ended").message
        'the loop ended'
    """

    _code = 2

    @overload
    def __init__(self, message: str = "", /) -> None: ...

    @overload
    def __init__(
        self, node_def: Any, op: Any, message: str, error_code: int | None = None
    ) -> None: ...

    def __init__(
        self,
        node_def: Any = "",
        op: Any = None,
        message: str | None = None,
        error_code: int | None = None,
    ) -> None:
        if message is None:
            node_def, op, message = None, None, str(node_def)
        super().__init__(message)
        self._node_def = node_def
        self._op = op
        self._error_code = self._code if error_code is None else error_code

    @property
    def message(self) -> str:
        """The text of the error, a string."""
        return str(self.args[0])

    @property
    def op(self) -> Any:
        """The operation that failed where it is known, else None."""
        return self._op

    @property
    def node_def(self) -> Any:
        """The description of the failed node as it was given, else None."""
        return self._node_def

    @property
    def error_code(self) -> int:
        """The number of the error class, the same as TensorFlow's."""
        return self._error_code

    def __str__(self) -> str:
        return self.message

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._node_def, self._op, self.message, self._error_code)


class CancelledError(OpError):
    """The operation was stopped before it ended, for example by Ctrl-C."""

    _code = 1


class UnknownError(OpError):
    """An error of which no more is known than its message."""

    _code = 2


class InvalidArgumentError(OpError):
    """An operation received values that do not fit: a shape, a dtype, a range.

    Example:
        >>> try:
        ...     tf.matmul(tf.ones((2, 3)), tf.ones((4, 5)))
        ... except InvalidArgumentError as error:
        ...     print(error.message.split("[")[0].strip())
        ...
        matmul: matrix shapes (2, 3) and (4, 5) do not fit: 3 columns meet 4 rows
    """

    _code = 3


class DeadlineExceededError(OpError):
    """A time limit passed before the operation ended."""

    _code = 4


class NotFoundError(OpError):
    """Something that was asked for, such as a file or an infeed, does not exist.

    Example:
        >>> try:
        ...     tf.io.read_file("no_such_file")
        ... except NotFoundError as error:
        ...     print(type(error).__name__)
        ...
        NotFoundError
    """

    _code = 5


class AlreadyExistsError(OpError):
    """Something that was to be created exists already."""

    _code = 6


class PermissionDeniedError(OpError):
    """The caller may not do that."""

    _code = 7


class ResourceExhaustedError(OpError):
    """A resource ran out, most often memory."""

    _code = 8


class FailedPreconditionError(OpError):
    """The system is not in the state that the operation needs."""

    _code = 9


class AbortedError(OpError):
    """The operation was given up because of something that ran beside it."""

    _code = 10


class OutOfRangeError(OpError):
    """An iteration went past the valid range: a data set has ended.

    Example:
        >>> elements = iter(tf.data.Dataset.range(1))
        >>> int(elements.get_next())
        0
        >>> try:
        ...     elements.get_next()
        ... except OutOfRangeError:
        ...     print("that was all")
        ...
        that was all
    """

    _code = 11


class UnimplementedError(OpError):
    """The operation is not there, or not for these arguments."""

    _code = 12


class InternalError(OpError):
    """An invariant of the package does not hold; please report it."""

    _code = 13


class UnavailableError(OpError):
    """The resource cannot be had right now."""

    _code = 14


class DataLossError(OpError):
    """Data is lost or damaged."""

    _code = 15


class UnauthenticatedError(OpError):
    """The caller could not be identified."""

    _code = 16
