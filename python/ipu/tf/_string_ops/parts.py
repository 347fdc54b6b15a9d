# SPDX-License-Identifier: MIT
"""Functions of ``tf.strings`` that cut strings up, and that put them together."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from ipu._text.errors import InvalidArgumentError
from ipu.tf._string_ops.each_string import cut, each, objects
from ipu.tf._string_ops.host_only import on_host
from ipu.tf._string_ops.tensors import StringTensor
from ipu.tf.ragged import RaggedTensor

_UTF8 = "UTF8_CHAR"


def split(input: Any, sep: Any = None, maxsplit: int = -1, name: Any = None) -> Any:
    """Cut strings at a separator.

    Args:
        input: Strings.
        sep: The separator; None or "": white space.
        maxsplit: Cuts at most; -1: all.

    Returns:
        The parts of one string as a vector, those of several as a
        :class:`~ipu.tf.ragged.RaggedTensor`.

    Example:
        >>> split("a/b/c.png", "/")[-2].numpy()
        b'b'
        >>> split(["a b", "c"]).to_list()
        [[b'a', b'b'], [b'c']]
    """
    on_host("tf.strings.split", input)
    separator = bytes(StringTensor(sep)) if sep is not None else b""
    return cut(lambda text: objects(text.split(separator or None, maxsplit)), input)


def bytes_split(input: Any, name: Any = None) -> Any:
    """Return the bytes of each string, as strings.

    Example:
        >>> bytes_split("abc").numpy().tolist()
        [b'a', b'b', b'c']
    """
    on_host("tf.strings.bytes_split", input)
    return cut(
        lambda text: objects([text[at : at + 1] for at in range(len(text))]), input
    )


def length(input: Any, unit: str = "BYTE", name: Any = None) -> Any:
    """Return bytes (or with ``unit="UTF8_CHAR"`` characters) of each string, int32.

    Example:
        >>> length(["ab", "c"]).numpy().tolist()
        [2, 1]
    """
    on_host("tf.strings.length", input)
    is_utf8 = _is_utf8(unit)
    return each(
        lambda s: len(s.decode(errors="replace") if is_utf8 else s), input, np.int32
    )


def substr(input: Any, pos: Any, len: Any, unit: str = "BYTE", name: Any = None) -> Any:
    """Return ``len`` bytes of each string from ``pos`` on; counted from the end if
    negative.

    Args:
        input: Strings.
        pos: Where the part begins; a number, or one for each string.
        len: How many bytes it has at most; a number, or one for each string.
        unit: "BYTE", or "UTF8_CHAR" to count characters.

    Raises:
        InvalidArgumentError: A string is shorter than ``pos`` says.

    Example:
        >>> substr("image_07.png", 6, 2).numpy()
        b'07'
    """
    on_host("tf.strings.substr", input, pos, len)
    is_utf8 = _is_utf8(unit)
    given = (np.asarray(StringTensor(input)), np.asarray(pos), np.asarray(len))
    texts, begins, counts = np.broadcast_arrays(*given)
    made = np.empty(texts.shape, object)
    for place, item in np.ndenumerate(texts):
        text = item.decode(errors="replace") if is_utf8 else item
        begin, size = int(begins[place]), text.__len__()
        if not -size <= begin <= size:
            raise InvalidArgumentError(f"pos {begin} out of range for string {item!r}.")
        begin %= size + 1 if begin == size else size or 1
        part = text[begin : begin + int(counts[place])]
        made[place] = part.encode() if is_utf8 else part
    return StringTensor(made)


def _is_utf8(unit: str) -> bool:
    if unit not in ("BYTE", _UTF8):
        raise ValueError(
            f"`unit` must be 'BYTE' or {_UTF8!r}. Received: unit={unit!r}."
        )
    return unit == _UTF8


def join(inputs: Sequence[Any], separator: str = "", name: Any = None) -> Any:
    """Return the strings of several tensors put together, element by element.

    Example:
        >>> join([["a", "b"], "x"], "-").numpy().tolist()
        [b'a-x', b'b-x']
    """
    on_host("tf.strings.join", *inputs)
    if any(isinstance(one, RaggedTensor) for one in inputs):
        first = next(one for one in inputs if isinstance(one, RaggedTensor))
        flat = [one.values if isinstance(one, RaggedTensor) else one for one in inputs]
        return RaggedTensor(join(flat, separator), first.row_splits)
    arrays: Any = np.broadcast_arrays(*[np.asarray(StringTensor(x)) for x in inputs])
    made = np.empty(arrays[0].shape, object)
    for place in np.ndindex(made.shape):
        made[place] = separator.encode().join(array[place] for array in arrays)
    return StringTensor(made)


def reduce_join(
    inputs: Any,
    axis: Any = None,
    keepdims: bool = False,
    separator: str = "",
    name: Any = None,
) -> Any:
    """Return the strings along some axes put together.

    Args:
        inputs: Strings.
        axis: The axis, or axes in the order in which they are joined; None: all.
        keepdims: Whether the axes stay, with size 1.
        separator: The text between them.

    Returns:
        Strings.

    Example:
        >>> reduce_join([["a", "b"], ["c", "d"]], 1, separator="-").numpy().tolist()
        [b'a-b', b'c-d']
    """
    on_host("tf.strings.reduce_join", inputs)
    between = separator.encode()
    if isinstance(inputs, RaggedTensor):
        if axis not in (-1, 1) or inputs.ragged_rank > 1:
            raise ValueError(
                "The strings of a ragged tensor are joined along its rows. "
                f"Received: axis={axis!r}. Pass axis=-1, or use to_tensor() before."
            )
        rows = [between.join(np.asarray(row).ravel()) for row in inputs]
        made = objects(rows)
        return StringTensor(made[:, None] if keepdims else made)
    array = np.asarray(StringTensor(inputs))
    if axis is None:
        axes = list(range(array.ndim))[::-1]
    else:
        axes = [one % array.ndim for one in np.atleast_1d(np.asarray(axis)).tolist()]
    others = [one for one in range(array.ndim) if one not in axes]
    order = array.transpose(*others, *axes[::-1])
    sizes = [array.shape[one] for one in others]
    flat = order.reshape(*sizes, -1) if array.ndim else array.reshape(1)
    joined = np.empty(sizes, object)
    for place in np.ndindex(*sizes):
        joined[place] = between.join(flat[place])
    return StringTensor(
        np.expand_dims(joined, tuple(sorted(axes))) if keepdims else joined
    )


def ngrams(
    data: Any,
    ngram_width: Any,
    separator: str = " ",
    pad_values: Any = None,
    padding_width: int | None = None,
    preserve_short_sequences: bool = False,
    name: Any = None,
) -> Any:
    """Return strings of several neighbours along the last axis.

    Args:
        data: Strings, dense or ragged.
        ngram_width: How many neighbours, or a list of such numbers.
        separator: The separator of them.
        pad_values: A string, or a pair, that stands before and after each row; None:
            none.
        padding_width: How many of them at most; None: one less than neighbours.
        preserve_short_sequences: Whether a row that is too short is given as one
            string.

    Returns:
        Strings: for each row those of the first width, then those of the next.

    Raises:
        ValueError: A width below 1.

    Example:
        >>> ngrams(["a", "b", "c"], 2).numpy().tolist()
        [b'a b', b'b c']
    """
    on_host("tf.strings.ngrams", data)
    widths = [ngram_width] if isinstance(ngram_width, int) else [*ngram_width]
    if not widths or min(widths) < 1:
        raise ValueError(
            f"All ngram widths must be greater than 0. Received: {ngram_width!r}."
        )
    pair = [pad_values] * 2 if isinstance(pad_values, (str, bytes)) else pad_values
    ends = [] if pair is None else [bytes(StringTensor(one)) for one in pair]
    between = separator.encode()

    def grams(row: list[bytes]) -> list[bytes]:
        made: list[bytes] = []
        for width in widths:
            count = (
                width - 1 if padding_width is None else min(padding_width, width - 1)
            )
            whole = [ends[0]] * count + row + [ends[1]] * count if ends else row
            starts = range(len(whole) - width + 1)
            made += [between.join(whole[at : at + width]) for at in starts]
        if not made and preserve_short_sequences and row:
            made = [between.join(row)]
        return made

    if isinstance(data, RaggedTensor):
        if data.ragged_rank > 1:
            inner = ngrams(
                data.values,
                widths,
                separator,
                pad_values,
                padding_width,
                preserve_short_sequences,
            )
            return RaggedTensor(inner, data.row_splits)
        rows = [grams(list(np.asarray(row))) for row in data]
        flat = objects(list(itertools.chain.from_iterable(rows)))
        return RaggedTensor.from_row_lengths(StringTensor(flat), [*map(len, rows)])
    array = np.asarray(StringTensor(data))
    if not array.ndim:
        raise InvalidArgumentError("ngrams takes rows of strings. Received: a scalar.")
    lines = [grams(list(row)) for row in array.reshape(-1, array.shape[-1])]
    width = max(map(len, lines), default=0)
    return StringTensor(
        np.array([*map(objects, lines)], object).reshape(*array.shape[:-1], width)
    )
