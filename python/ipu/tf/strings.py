# SPDX-License-Identifier: MIT
"""``tf.strings``: what data sets do with file names, labels and texts, on the host.

The core has no strings: these functions take eager tensors, before a program
is called or in the function of a ``Dataset.map``.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ipu import _core
from ipu._text.arguments import checked_text
from ipu._text.errors import InvalidArgumentError
from ipu._text.exports import defined, export
from ipu.tf._graph import mode
from ipu.tf._string_ops import hashes
from ipu.tf._string_ops.each_string import each
from ipu.tf._string_ops.host_only import on_host
from ipu.tf._string_ops.parts import (
    bytes_split as bytes_split,
    join as join,
    length as length,
    ngrams as ngrams,
    reduce_join as reduce_join,
    split as split,
    substr as substr,
)
from ipu.tf._string_ops.tensors import StringTensor, is_text
from ipu.tf._string_ops.unicode import (
    unicode_decode as unicode_decode,
    unicode_decode_with_offsets as unicode_decode_with_offsets,
    unicode_encode as unicode_encode,
    unicode_split as unicode_split,
    unicode_split_with_offsets as unicode_split_with_offsets,
    unicode_transcode as unicode_transcode,
)
from ipu.tf.dtypes import as_dtype, float32
from ipu.tf.logging_ops import text_of
from ipu.tf.ragged import RaggedTensor

# what regular expressions of RE2 have and Python's do not
_CLASSES = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "blank": r"\t ",
    "cntrl": r"\x00-\x1f\x7f",
    "digit": "0-9",
    "lower": "a-z",
    "print": r"\x20-\x7e",
    "punct": r"!-/:-@\[-`{-~",
    "space": r"\t\n\v\f\r ",
    "upper": "A-Z",
    "word": "0-9A-Za-z_",
    "xdigit": "0-9A-Fa-f",
}


# --- other letters --------------------------------------------------------------------


def lower(input: Any, encoding: str = "", name: Any = None) -> Any:
    """Return each string in lower case; of bytes beyond ASCII only with
    ``encoding="utf-8"``.

    Example:
        >>> lower("Ab").numpy()
        b'ab'
    """
    on_host("tf.strings.lower", input)
    return each(lambda s: s.decode().lower().encode() if encoding else s.lower(), input)


def upper(input: Any, encoding: str = "", name: Any = None) -> Any:
    """Return each string in upper case; see :func:`lower`.

    Example:
        >>> upper("Ab").numpy()
        b'AB'
    """
    on_host("tf.strings.upper", input)
    return each(lambda s: s.decode().upper().encode() if encoding else s.upper(), input)


def strip(input: Any, name: Any = None) -> Any:
    """Return each string without white space around it.

    Example:
        >>> strip(" a ").numpy()
        b'a'
    """
    on_host("tf.strings.strip", input)
    return each(bytes.strip, input)


def format(
    template: str,
    inputs: Any,
    placeholder: str = "{}",
    summarize: int = 3,
    name: Any = None,
) -> Any:
    """Return a text with tensors in it, as ``tf.print`` writes them.

    Args:
        template: The text, with a placeholder for each tensor.
        inputs: A tensor, or a list of them.
        placeholder: The text that is replaced.
        summarize: Elements of each end of each axis that are written; -1: all.

    Returns:
        A string.

    Raises:
        ValueError: There are more or fewer placeholders than tensors.

    Example:
        >>> format("shape {}, mean {}", ([2, 3], 0.5)).numpy()
        b'shape [2 3], mean 0.5'
    """
    values = [*inputs] if isinstance(inputs, tuple) else [inputs]
    if isinstance(inputs, list) and any(
        isinstance(one, (_core.Tensor, StringTensor)) for one in inputs
    ):
        values = inputs
    on_host("tf.strings.format", *values)
    parts = checked_text("template", template).split(placeholder)
    if len(parts) != len(values) + 1:
        raise ValueError(
            f"{len(parts) - 1} placeholder(s) in template does not match "
            f"{len(values)} tensor(s) provided as input."
        )
    texts = [text_of(_as_array(value), summarize) for value in values]
    pairs = itertools.zip_longest(parts, texts, fillvalue="")
    return StringTensor("".join(itertools.chain.from_iterable(pairs)))


def _as_array(value: Any) -> Any:
    return np.asarray(StringTensor(value) if is_text(value) else _core.Tensor(value))


# --- regular expressions --------------------------------------------------------------


def _pattern(pattern: str) -> re.Pattern[str]:
    """Return an expression in the language of RE2, which knows ASCII classes alone."""
    text = pattern.decode() if isinstance(pattern, bytes) else str(pattern)
    text = re.sub(r"\[:(\w+):\]", lambda m: _CLASSES.get(m[1], m[0]), text)
    try:
        return re.compile(text.replace(r"\z", r"\Z"), re.ASCII)
    except re.error as error:
        raise InvalidArgumentError(
            f"Invalid pattern: {text}, error: {error}."
        ) from None


def _characters(text: bytes) -> str:
    """Return a string as expressions see it; bytes that are not UTF-8 stay as they
    are."""
    return text.decode(errors="surrogateescape")


def regex_full_match(input: Any, pattern: str, name: Any = None) -> Any:
    """Return whether each string matches as a whole.

    Args:
        input: Strings.
        pattern: A regular expression.

    Raises:
        InvalidArgumentError: It is not a regular expression.

    Example:
        >>> bool(regex_full_match("a.png", ".*png"))
        True
    """
    on_host("tf.strings.regex_full_match", input)
    compiled = _pattern(pattern)
    return each(
        lambda s: compiled.fullmatch(_characters(s)) is not None, input, np.bool_
    )


def regex_replace(
    input: Any,
    pattern: str,
    rewrite: str,
    replace_global: bool = True,
    name: Any = None,
) -> Any:
    r"""Return each string with what matches replaced.

    Args:
        input: Strings.
        pattern: A regular expression.
        rewrite: The text in its place; ``\1`` is the first group, ``\0`` all.
        replace_global: Whether all matches are replaced, and not the first alone.

    Raises:
        InvalidArgumentError: ``pattern`` is not a regular expression.

    Example:
        >>> regex_replace("a  b", " +", "_").numpy()
        b'a_b'
    """
    on_host("tf.strings.regex_replace", input)
    compiled = _pattern(pattern)
    new = rewrite.decode() if isinstance(rewrite, bytes) else str(rewrite)
    new = re.sub(r"\\(\d)", r"\\g<\1>", new)
    count = 0 if replace_global else 1

    def replaced(text: bytes) -> bytes:
        made = compiled.sub(new, _characters(text), count=count)
        return made.encode(errors="surrogateescape")

    return each(replaced, input)


# --- numbers --------------------------------------------------------------------------


def to_number(input: Any, out_type: Any = float32, name: Any = None) -> Any:
    """Return the number that each string writes.

    Args:
        input: Strings.
        out_type: float32, float64, int32 or int64.

    Raises:
        InvalidArgumentError: A string is not a number.

    Example:
        >>> to_number(["1.5", "-2"]).numpy().tolist()
        [1.5, -2.0]
    """
    on_host("tf.strings.to_number", input)
    kind = as_dtype(out_type)
    convert: Any = float if kind.is_floating else int

    def number(text: bytes) -> Any:
        try:
            return convert(text)
        except ValueError:
            raise InvalidArgumentError(
                f"StringToNumberOp could not correctly convert string: {text!r}."
            ) from None

    return each(number, input, kind.name)


def as_string(
    input: Any,
    precision: int = -1,
    scientific: bool = False,
    shortest: bool = False,
    width: int = -1,
    fill: str = "",
    name: Any = None,
) -> Any:
    """Return numbers as text.

    Args:
        input: Numbers, bools or strings.
        precision: Digits after the point of floats; -1: six.
        scientific: Whether floats are written with an exponent.
        shortest: Whether floats are written with an exponent where that is shorter.
        width: The least length of a text; -1: none.
        fill: The text that fills it up: " ", "0", "+", "-" (on the right) or "".

    Raises:
        ValueError: Arguments that do not go together.

    Example:
        >>> as_string([1, 20]).numpy().tolist()
        [b'1', b'20']
        >>> as_string(2.5, precision=2).numpy()
        b'2.50'
    """
    on_host("tf.strings.as_string", input)
    if is_text(input):
        return StringTensor(input)
    if isinstance(input, RaggedTensor):
        inner = as_string(input.values, precision, scientific, shortest, width, fill)
        return RaggedTensor(inner, input.row_splits)
    if scientific and shortest:
        raise ValueError("Cannot select both scientific and shortest notation.")
    if fill not in ("", " ", "0", "+", "-"):
        raise ValueError(f"Fill argument not supported: {fill!r}.")
    array = np.asarray(_core.Tensor(input))
    kind = array.dtype.kind
    if precision >= 0 and kind != "f":
        raise ValueError(
            "precision is for floats. Received: "
            f"precision={precision}, dtype {array.dtype}."
        )
    form = "%" + ("" if fill == " " else fill) + (str(width) if width >= 0 else "")
    if kind == "f":
        form += f".{precision}" if precision >= 0 else ""
        form += "e" if scientific else "g" if shortest else "f"
    else:
        form += "d" if kind in "iu" else "s"
    made = np.empty(array.shape, object)
    for place, item in np.ndenumerate(array):
        made[place] = form % (str(item).lower() if kind == "b" else item)
    return StringTensor(made)


# --- buckets --------------------------------------------------------------------------


def _buckets(num_buckets: Any) -> int:
    count = int(num_buckets)
    if count < 1:
        raise InvalidArgumentError(
            f"`num_buckets` must be at least 1. Received: num_buckets={num_buckets!r}."
        )
    return count


def to_hash_bucket_fast(input: Any, num_buckets: int, name: Any = None) -> Any:
    """Return a bucket for each string, by FarmHash; the same as TensorFlow's.

    Args:
        input: Strings.
        num_buckets: How many buckets there are.

    Returns:
        int64, from 0 to ``num_buckets - 1``.

    Example:
        >>> to_hash_bucket_fast(["Hello", "TensorFlow"], 3).numpy().tolist()
        [0, 2]
    """
    on_host("tf.strings.to_hash_bucket_fast", input)
    count = _buckets(num_buckets)
    return each(lambda text: hashes.fingerprint64(text) % count, input, np.int64)


def to_hash_bucket_strong(
    input: Any, num_buckets: int, key: Sequence[int], name: Any = None
) -> Any:
    """Return a bucket for each string that nobody can foresee without the key; by
    SipHash.

    Args:
        input: Strings.
        num_buckets: How many buckets there are.
        key: Two integers.

    Returns:
        int64, from 0 to ``num_buckets - 1``.

    Raises:
        ValueError: ``key`` is not a pair.

    Example:
        >>> to_hash_bucket_strong(["Hello", "TF"], 3, [1, 2]).numpy().tolist()
        [2, 0]
    """
    on_host("tf.strings.to_hash_bucket_strong", input)
    count, numbers = _buckets(num_buckets), [int(one) for one in key]
    if len(numbers) != 2:
        raise ValueError(f"Key must have 2 elements. Received: key={key!r}.")
    low, high = (number % 2**64 for number in numbers)
    return each(
        lambda text: hashes.siphash24(text, (low, high)) % count, input, np.int64
    )


def to_hash_bucket(input: Any, num_buckets: int, name: Any = None) -> Any:
    """Return a bucket for each string, by an older hash; see
    :func:`to_hash_bucket_fast`.

    Example:
        >>> to_hash_bucket(["Hello", "TensorFlow", "2.x"], 3).numpy().tolist()
        [2, 0, 1]
    """
    on_host("tf.strings.to_hash_bucket", input)
    count = _buckets(num_buckets)
    return each(lambda text: hashes.murmur64(text) % count, input, np.int64)


if not TYPE_CHECKING:
    _PARTS = """bytes_split join length ngrams reduce_join split substr unicode_decode
    unicode_decode_with_offsets unicode_encode unicode_split unicode_split_with_offsets
    unicode_transcode"""
    __all__ = defined(__name__, _PARTS.split())
    mode.texts_of_graphs(globals(), __all__, pure=True)
    export(__name__)
