# SPDX-License-Identifier: MIT
"""Matrix products, and what is written as one: einsum, tensordot."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from ipu._text.arguments import checked_text
from ipu._text.suggestions import refuse_unknown
from ipu.tf._tensor.convert import Tensor, apply, axis_of, cast, known_value, pair
from ipu.tf._tensor.dispatch import op


@op
def matmul(
    a: Any,
    b: Any,
    transpose_a: bool = False,
    transpose_b: bool = False,
    adjoint_a: bool = False,
    adjoint_b: bool = False,
    a_is_sparse: bool = False,
    b_is_sparse: bool = False,
    output_type: Any = None,
    name: str | None = None,
) -> Tensor:
    """Return the matrix product over the last two axes; leading axes broadcast.

    Args:
        a: [..., m, k], or [..., k, m] with ``transpose_a``.
        b: [..., k, n], or [..., n, k] with ``transpose_b``; of the dtype of ``a``.
        transpose_a: Swap the last two axes of ``a`` first.
        transpose_b: Swap the last two axes of ``b`` first.
        adjoint_a: The same as ``transpose_a``: the tensors are real.
        adjoint_b: The same as ``transpose_b``.
        a_is_sparse, b_is_sparse: Accepted and not used.
        output_type: The dtype of the result, or None for that of the operands.

    Returns:
        [..., m, n].

    Example:
        >>> tf.matmul([[1.0, 2.0]], [[3.0], [4.0]]).numpy().tolist()
        [[11.0]]
    """
    flags = {
        "transpose_a": bool(transpose_a or adjoint_a),
        "transpose_b": bool(transpose_b or adjoint_b),
    }
    product = apply("matmul", pair(a, b), flags)
    return product if output_type is None else cast(product, output_type)


@op
def matvec(
    a: Any, b: Any, transpose_a: bool = False, adjoint_a: bool = False, name: str = ""
) -> Tensor:
    """Return a matrix [..., m, k] times a vector [..., k].

    Example:
        >>> tf.linalg.matvec([[1.0, 2.0], [3.0, 4.0]], [1.0, 1.0]).numpy().tolist()
        [3.0, 7.0]
    """
    matrix, vector = pair(a, b)
    column = apply("reshape", (vector,), {"shape": [*vector.shape, 1]})
    product = matmul(matrix, column, transpose_a or adjoint_a)
    return apply("reshape", (product,), {"shape": product.shape[:-1]})


def _size(shape: Any) -> int:
    return int(np.prod(shape, dtype=np.int64))


@op
def tensordot(a: Any, b: Any, axes: Any, name: str | None = None) -> Tensor:
    """Return the sum of products over some axes of both tensors.

    Args:
        a: Anything that converts to a tensor.
        b: The same, of its dtype.
        axes: A number n (the last n of ``a`` meet the first n of ``b``), or a pair of
            lists of axes that meet in their order.

    Returns:
        The remaining axes of ``a``, then those of ``b``.

    Example:
        >>> tf.tensordot([[1.0, 2.0]], [3.0, 4.0], 1).numpy().tolist()
        [11.0]
    """
    x, y = pair(a, b)
    given = axes if isinstance(axes, (list, tuple)) else known_value(axes, "axes")
    if isinstance(given, np.ndarray) and given.ndim == 0:
        count = int(given)
        if not 0 <= count <= min(x.ndim, y.ndim):
            raise ValueError(
                f"`axes` is the number of axes that meet. Received: axes={axes} for "
                f"shapes {x.shape} and {y.shape}."
            )
        own, other = list(range(x.ndim - count, x.ndim)), list(range(count))
    else:
        first, second = (np.atleast_1d(np.asarray(part)).tolist() for part in given)
        own = [axis_of(i, x.ndim) for i in first]
        other = [axis_of(i, y.ndim) for i in second]
    if len(own) != len(other) or any(
        x.shape[i] != y.shape[j] for i, j in zip(own, other, strict=False)
    ):
        raise ValueError(
            f"Axes {own} of shape {x.shape} do not meet axes {other} of {y.shape}."
        )
    kept = [i for i in range(x.ndim) if i not in own]
    rest = [j for j in range(y.ndim) if j not in other]
    left = [x.shape[i] for i in kept]
    right = [y.shape[j] for j in rest]
    inner = _size([x.shape[i] for i in own])
    x = apply("transpose", (x,), {"perm": [*kept, *own]})
    y = apply("transpose", (y,), {"perm": [*other, *rest]})
    x = apply("reshape", (x,), {"shape": [_size(left), inner]})
    y = apply("reshape", (y,), {"shape": [inner, _size(right)]})
    return apply("reshape", (matmul(x, y),), {"shape": [*left, *right]})


# --- einsum ---------------------------------------------------------------------------


def _diagonal(tensor: Tensor, letters: str) -> tuple[Tensor, str]:
    """Take the elements where axes with the same letter agree."""
    for letter in letters:
        while letters.count(letter) > 1:
            first = letters.index(letter)
            last = letters.index(letter, first + 1)
            others = [i for i in range(tensor.ndim) if i not in (first, last)]
            perm = [*others, first, last]
            tensor = apply("transpose", (tensor,), {"perm": perm})
            n = tensor.shape[-1]
            lead = list(tensor.shape[:-2])
            flat = apply("reshape", (tensor,), {"shape": [*lead, n * n]})
            tensor = flat[(..., slice(None, None, n + 1))]
            letters = "".join(letters[i] for i in others) + letter
    return tensor, letters


def _summed(tensor: Tensor, letters: str, kept: str) -> tuple[Tensor, str]:
    axes = [i for i, letter in enumerate(letters) if letter not in kept]
    if axes:
        tensor = apply("sum", (tensor,), {"axes": axes, "keep_dims": False})
    return tensor, "".join(c for c in letters if c in kept)


def _ordered(tensor: Tensor, letters: str, wanted: str) -> Tensor:
    perm = [letters.index(c) for c in wanted]
    if perm == list(range(len(perm))):
        return tensor
    return apply("transpose", (tensor,), {"perm": perm})


def _contract(
    x: Tensor, a: str, y: Tensor, b: str, kept: str
) -> tuple[Tensor, str]:  # fmt: skip
    """Return one product: letters of both that are kept are batch axes, the others of
    both are summed over."""
    x, a = _summed(x, a, b + kept)
    y, b = _summed(y, b, a + kept)
    batch = "".join(c for c in a if c in b and c in kept)
    inner = "".join(c for c in a if c in b and c not in kept)
    left = "".join(c for c in a if c not in b)
    right = "".join(c for c in b if c not in a)
    sizes = dict(zip(a, x.shape, strict=True))
    for letter, size in zip(b, y.shape, strict=True):
        one = sizes.setdefault(letter, size)
        if one != size:
            raise ValueError(
                f"Expected dimension {one} for the einsum label '{letter}', but got "
                f"{size}."
            )

    def shape(letters: str) -> list[int]:
        return [sizes[c] for c in letters]

    x = _ordered(x, a, batch + left + inner)
    y = _ordered(y, b, batch + inner + right)
    rows, depth, columns = (_size(shape(part)) for part in (left, inner, right))
    lead = _size(shape(batch))
    x = apply("reshape", (x,), {"shape": [lead, rows, depth]})
    y = apply("reshape", (y,), {"shape": [lead, depth, columns]})
    letters = batch + left + right
    return apply("reshape", (matmul(x, y),), {"shape": shape(letters)}), letters


def _terms(equation: str, tensors: list[Tensor]) -> tuple[list[str], str]:
    """Return a string of letters for each operand and for the result, dots replaced."""
    text = checked_text("equation", equation).replace(" ", "")
    match = re.fullmatch(r"([A-Za-z.,]*)(->[A-Za-z.]*)?", text)
    inputs = match.group(1).split(",") if match else []
    if match is None or len(inputs) != len(tensors):
        raise ValueError(
            f"einsum equation {equation!r} does not describe {len(tensors)} operands."
        )
    free = [c for c in "ZYXWVUTSRQPONMLKJIHGFEDCBA" if c not in text]
    dots = ""
    for i, tensor in enumerate(tensors):
        count = tensor.ndim - len(inputs[i].replace("...", ""))
        has_dots = "..." in inputs[i]
        if count < 0 or (count > 0 and not has_dots):
            raise ValueError(
                f"einsum operand {i} has {tensor.ndim} axes, but the equation "
                f"{equation!r} names {len(inputs[i].replace('...', ''))}."
            )
        own = "".join(free[:count][::-1])
        dots = own if len(own) > len(dots) else dots
        inputs[i] = inputs[i].replace("...", own)
    if match.group(2) is not None:
        return inputs, match.group(2)[2:].replace("...", dots)
    letters = "".join(inputs)
    once = sorted(c for c in set(letters) if letters.count(c) == 1 and c not in dots)
    return inputs, dots + "".join(once)


@op
def einsum(equation: str, *inputs: Any, **kwargs: Any) -> Tensor:
    """Multiply and sum as an equation of axis letters says.

    Operands are joined from the left to the right, each pair by one matrix product.

    Args:
        equation: Such as "bij,bjk->bik"; "..." stands for leading axes.
        inputs: The operands, of one dtype.
        kwargs: Accepted and not used.

    Example:
        >>> tf.einsum("ij,jk->ik", [[1.0, 2.0]], [[3.0], [4.0]]).numpy().tolist()
        [[11.0]]
        >>> tf.einsum("ij->j", [[1.0, 2.0], [3.0, 4.0]]).numpy().tolist()
        [4.0, 6.0]
    """
    refuse_unknown("einsum", kwargs, ("name", "optimize"))
    tensors = [Tensor(value) for value in inputs]
    letters, wanted = _terms(equation, tensors)
    parts = [_diagonal(t, a) for t, a in zip(tensors, letters, strict=True)]
    tensor, own = parts[0]
    for i, (other, names) in enumerate(parts[1:], 1):
        later = wanted + "".join(a for _, a in parts[i + 1 :])
        tensor, own = _contract(tensor, own, other, names, later)
    tensor, own = _summed(tensor, own, wanted)
    if set(own) != set(wanted) or len(own) != len(wanted):
        raise ValueError(f"einsum result letters of {equation!r} are in no operand.")
    return _ordered(tensor, own, wanted)
