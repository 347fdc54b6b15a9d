# SPDX-License-Identifier: MIT
"""``tf.strings``: what data sets do with file names and labels, on the host."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ipu import _core
from ipu.tf._strings import StringTensor
from ipu.tf.data import _probing
from ipu.tf.dtypes import as_dtype, float32

__all__ = [
    "as_string",
    "join",
    "length",
    "lower",
    "regex_full_match",
    "regex_replace",
    "split",
    "strip",
    "substr",
    "to_number",
    "upper",
]


def _each(function: Callable[[bytes], Any], value: Any, dtype: Any = object) -> Any:
    array = np.asarray(StringTensor(value))
    made = np.empty(array.shape, object)
    for place, item in np.ndenumerate(array):
        made[place] = function(item)
    return StringTensor(made) if dtype is object else _core.Tensor(made.astype(dtype))


def split(input: Any, sep: Any = None, maxsplit: int = -1, name: Any = None) -> Any:
    """Cut a string at a separator.

    Args:
        input: One string.
        sep: The separator; None or "": white space.
        maxsplit: Cuts at most; -1: all.
        name: Accepted and not used.

    Returns:
        A vector of strings.

    Raises:
        ValueError: ``input`` is not a scalar: parts of several strings are a ragged
            tensor, which is not there.

    Example:
        >>> split("a/b/c.png", "/")[-2].numpy()
        b'b'
    """
    text = StringTensor(input)
    if text.ndim:
        raise ValueError(
            "tf.strings.split takes one string. "
            f"Received: a tensor of shape {text.shape}. Split before batch()."
        )
    separator = StringTensor(sep).numpy() if sep is not None else b""
    parts = bytes(text).split(separator or None, maxsplit)
    return StringTensor(_probing.varying(np.array(parts, object), 0))


def length(input: Any, unit: str = "BYTE", name: Any = None) -> Any:
    """Bytes (or with ``unit="UTF8_CHAR"`` characters) of each string, int32.

    Example:
        >>> length(["ab", "c"]).numpy().tolist()
        [2, 1]
    """
    utf8 = unit == "UTF8_CHAR"
    return _each(lambda s: len(s.decode() if utf8 else s), input, np.int32)


def lower(input: Any, encoding: str = "", name: Any = None) -> Any:
    """Each string in lower case; of bytes beyond ASCII only with ``encoding="utf-8"``.

    Example:
        >>> lower("Ab").numpy()
        b'ab'
    """
    return _each(
        lambda s: s.decode().lower().encode() if encoding else s.lower(), input
    )


def upper(input: Any, encoding: str = "", name: Any = None) -> Any:
    """Each string in upper case; see :func:`lower`.

    Example:
        >>> upper("Ab").numpy()
        b'AB'
    """
    return _each(
        lambda s: s.decode().upper().encode() if encoding else s.upper(), input
    )


def strip(input: Any, name: Any = None) -> Any:
    """Each string without white space around it.

    Example:
        >>> strip(" a ").numpy()
        b'a'
    """
    return _each(bytes.strip, input)


def substr(input: Any, pos: int, len: int, unit: str = "BYTE", name: Any = None) -> Any:
    """``len`` bytes of each string from ``pos`` on; counted from behind if negative.

    Example:
        >>> substr("image_07.png", 6, 2).numpy()
        b'07'
    """
    first, count = int(pos), int(len)

    def cut(text: bytes) -> bytes:
        begin = first + text.__len__() if first < 0 else first
        return text[begin : begin + count]

    return _each(cut, input)


def join(inputs: Sequence[Any], separator: str = "", name: Any = None) -> Any:
    """The strings of several tensors put together, element by element.

    Example:
        >>> join([["a", "b"], "x"], "-").numpy().tolist()
        [b'a-x', b'b-x']
    """
    arrays: Any = np.broadcast_arrays(*[np.asarray(StringTensor(x)) for x in inputs])
    made = np.empty(arrays[0].shape, object)
    for place in np.ndindex(made.shape):
        made[place] = separator.encode().join(array[place] for array in arrays)
    return StringTensor(made)


def regex_full_match(input: Any, pattern: str, name: Any = None) -> Any:
    """Whether each string matches as a whole; patterns are those of Python's ``re``.

    Example:
        >>> bool(regex_full_match("a.png", ".*png"))
        True
    """
    compiled = re.compile(pattern.encode())
    return _each(lambda s: compiled.fullmatch(s) is not None, input, np.bool_)


def regex_replace(
    input: Any,
    pattern: str,
    rewrite: str,
    replace_global: bool = True,
    name: Any = None,
) -> Any:
    r"""Each string with what matches replaced; ``\1`` in ``rewrite`` is a group.

    Example:
        >>> regex_replace("a  b", " +", "_").numpy()
        b'a_b'
    """
    compiled = re.compile(pattern.encode())
    count = 0 if replace_global else 1
    return _each(lambda s: compiled.sub(rewrite.encode(), s, count=count), input)


def to_number(input: Any, out_type: Any = float32, name: Any = None) -> Any:
    """The number that each string writes.

    Args:
        input: Strings.
        out_type: float32, float64, int32 or int64.
        name: Accepted and not used.

    Raises:
        InvalidArgumentError: A string is no number.

    Example:
        >>> to_number(["1.5", "-2"]).numpy().tolist()
        [1.5, -2.0]
    """
    from ipu._errors import InvalidArgumentError

    kind = as_dtype(out_type)
    convert: Any = float if kind.is_floating else int

    def number(text: bytes) -> Any:
        try:
            return convert(text)
        except ValueError:
            raise InvalidArgumentError(
                f"StringToNumberOp could not correctly convert string: {text!r}."
            ) from None

    return _each(number, input, kind.name)


def as_string(input: Any, name: Any = None) -> Any:
    """Integers and bools as text; floats with six digits behind the point.

    Example:
        >>> as_string([1, 20]).numpy().tolist()
        [b'1', b'20']
    """
    array = np.asarray(_core.Tensor(input))
    made = np.empty(array.shape, object)
    for place, item in np.ndenumerate(array):
        if array.dtype.kind == "f":
            made[place] = f"{item:f}"
        else:
            made[place] = str(item).lower() if array.dtype.kind == "b" else str(item)
    return StringTensor(made)
