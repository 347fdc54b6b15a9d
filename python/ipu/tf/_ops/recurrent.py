# SPDX-License-Identifier: MIT
"""LSTM and GRU over a whole sequence, as one op each."""

from __future__ import annotations

from typing import Any, NamedTuple

from ipu._core import Tensor
from ipu.tf._tensor.convert import apply


class LSTMResult(NamedTuple):
    """The results of an LSTM.

    Attributes:
        steps: h of all steps, as ``x`` lies.
        h: The last h, [batch, units].
        c: The last c, [batch, units].
    """

    steps: Tensor
    h: Tensor
    c: Tensor


class GRUResult(NamedTuple):
    """The results of a GRU.

    Attributes:
        steps: h of all steps, as ``x`` lies.
        h: The last h, [batch, units].
    """

    steps: Tensor
    h: Tensor


def lstm(
    x: Any,
    kernel: Any,
    h: Any,
    c: Any,
    mask: Any = None,
    time_major: bool = False,
    reverse: bool = False,
) -> LSTMResult:
    """Return an LSTM over all steps.

    Args:
        x: The input's part of the gates i, f, c, o: [batch, steps, 4 * units], or
            [steps, batch, 4 * units] where ``time_major``.
        kernel: The recurrent kernel, [units, 4 * units].
        h: The first h, [batch, units].
        c: The first c, [batch, units].
        mask: Bool, [batch, steps] (or the other way round): where it is false the
            state stays. None: everywhere true.
        reverse: From the last step to the first; results lie as ``x`` does.

    Returns:
        h of all steps, and the last states.

    Raises:
        InvalidArgumentError: Shapes do not fit.

    Example:
        >>> x, kernel = np.zeros((1, 3, 8), "f"), np.zeros((2, 8), "f")
        >>> state = np.zeros((1, 2), "f")
        >>> lstm(x, kernel, state, state).steps.shape
        (1, 3, 2)
    """
    operands = [Tensor(x), Tensor(kernel), Tensor(h), Tensor(c)]
    if mask is not None:
        operands.append(Tensor(mask))
    attributes = {"axis": 0 if time_major else 1, "reverse": reverse}
    return LSTMResult(*apply("lstm", tuple(operands), attributes)[1:4])


def gru(
    x: Any,
    kernel: Any,
    h: Any,
    bias: Any = None,
    mask: Any = None,
    time_major: bool = False,
    reverse: bool = False,
) -> GRUResult:
    """Return a GRU over all steps.

    Args:
        x: The input's part of the gates z, r, h: [batch, steps, 3 * units], or
            [steps, batch, 3 * units] where ``time_major``.
        kernel: The recurrent kernel, [units, 3 * units].
        h: The first h, [batch, units].
        bias: A bias of the recurrent product, [3 * units]: then the reset gate is
            applied to the product (``reset_after``); None: to h before it.
        mask: As that of :func:`lstm`.
        reverse: From the last step to the first; results lie as ``x`` does.

    Returns:
        h of all steps, and the last one.

    Raises:
        InvalidArgumentError: Shapes do not fit.

    Example:
        >>> x, kernel = np.zeros((1, 3, 6), "f"), np.zeros((2, 6), "f")
        >>> gru(x, kernel, np.zeros((1, 2), "f")).h.shape
        (1, 2)
    """
    operands = [Tensor(x), Tensor(kernel), Tensor(h)]
    if bias is not None:
        operands.append(Tensor(bias))
    if mask is not None:
        operands.append(Tensor(mask))
    attributes = {
        "axis": 0 if time_major else 1,
        "reverse": reverse,
        "reset_after": bias is not None,
    }
    return GRUResult(*apply("gru", tuple(operands), attributes)[1:3])
