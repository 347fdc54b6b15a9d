# SPDX-License-Identifier: MIT
"""``tf.strings.unicode_*``: characters of encoded strings, on the host."""

from __future__ import annotations

from typing import Any

import numpy as np

from ipu import _core
from ipu._errors import InvalidArgumentError
from ipu.tf._each_string import cut, each, objects
from ipu.tf._host_only import on_host
from ipu.tf._strings import StringTensor
from ipu.tf.ragged import RaggedTensor

__all__ = ["unicode_decode", "unicode_encode", "unicode_split", "unicode_transcode"]

_REPLACEMENT = 0xFFFD
_CODECS = {"UTF-8": "utf-8", "UTF-16-BE": "utf-16-be", "UTF-32-BE": "utf-32-be"}
_CONTROL = (*range(0x20), *range(0x7F, 0xA0))


def _codec(encoding: str) -> str:
    import codecs

    try:
        return _CODECS.get(encoding) or codecs.lookup(encoding).name
    except LookupError:
        raise ValueError(
            f"There is no encoding {encoding!r}. Use one of {', '.join(_CODECS)}, or "
            "a name that Python's codecs know."
        ) from None


def _decoded(text: bytes, codec: str, errors: str, replacement: int) -> str:
    if errors not in ("replace", "strict", "ignore"):
        raise ValueError(
            "`errors` must be 'replace', 'strict' or 'ignore'. "
            f"Received: errors={errors!r}."
        )
    try:
        made = text.decode(codec, errors)
    except UnicodeDecodeError as error:
        raise InvalidArgumentError(
            f"Invalid formatting on input string: {error}. Received: {text!r}."
        ) from None
    if errors == "replace" and replacement != _REPLACEMENT:
        made = made.replace(chr(_REPLACEMENT), chr(replacement))
    return made


def unicode_split(
    input: Any,
    input_encoding: str,
    errors: str = "replace",
    replacement_char: int = _REPLACEMENT,
    name: Any = None,
) -> Any:
    """The characters of each string, as strings of the same encoding.

    Args:
        input: Strings.
        input_encoding: "UTF-8", "UTF-16-BE" or "UTF-32-BE".
        errors: What becomes of bytes that are no character: "replace", "ignore", or
            "strict" for an error.
        replacement_char: The code point that stands for them.
        name: Ignored.

    Returns:
        A vector of a single string's characters; of several strings a ragged tensor.

    Raises:
        InvalidArgumentError: ``errors`` is "strict", and there are such bytes.

    Source: ``tf.strings.unicode_split``.

    Example:
        >>> [bytes(x).decode() for x in unicode_split("añ", "UTF-8")]
        ['a', 'ñ']
    """
    on_host("tf.strings.unicode_split", input)
    codec = _codec(input_encoding)

    def characters(text: bytes) -> np.ndarray[Any, Any]:
        whole = _decoded(text, codec, errors, replacement_char)
        return objects([character.encode(codec) for character in whole])

    return cut(characters, input)


def unicode_decode(
    input: Any,
    input_encoding: str,
    errors: str = "replace",
    replacement_char: int = _REPLACEMENT,
    replace_control_characters: bool = False,
    name: Any = None,
) -> Any:
    """The code points of each string, int32.

    Args:
        input: Strings.
        input_encoding: As for :func:`unicode_split`.
        errors: As for :func:`unicode_split`.
        replacement_char: As for :func:`unicode_split`.
        replace_control_characters: Whether control characters are replaced too.
        name: Ignored.

    Returns:
        A vector for one string, a ragged tensor for several.

    Source: ``tf.strings.unicode_decode``.

    Example:
        >>> unicode_decode("añ", "UTF-8").numpy().tolist()
        [97, 241]
    """
    on_host("tf.strings.unicode_decode", input)
    codec = _codec(input_encoding)

    def points(text: bytes) -> np.ndarray[Any, Any]:
        whole = _decoded(text, codec, errors, replacement_char)
        if replace_control_characters:
            whole = whole.translate(dict.fromkeys(_CONTROL, replacement_char))
        return np.array([ord(character) for character in whole], np.int32)

    return cut(points, input)


def unicode_encode(
    input: Any,
    output_encoding: str,
    errors: str = "replace",
    replacement_char: int = _REPLACEMENT,
    name: Any = None,
) -> Any:
    """The strings of code points, the other way round than :func:`unicode_decode`.

    Args:
        input: Code points along the last axis: a tensor, or a ragged one.
        output_encoding: As for :func:`unicode_split`.
        errors: What becomes of a number that is no code point.
        replacement_char: The code point that stands for it.
        name: Ignored.

    Returns:
        Strings, with one axis less.

    Source: ``tf.strings.unicode_encode``.

    Example:
        >>> unicode_encode([72, 105], "UTF-8").numpy()
        b'Hi'
    """
    on_host("tf.strings.unicode_encode", input)
    codec = _codec(output_encoding)

    def one(points: Any) -> bytes:
        made = []
        for point in np.asarray(points).tolist():
            is_point = 0 <= point <= 0x10FFFF and not 0xD800 <= point < 0xE000
            if is_point:
                made.append(chr(point))
            elif errors == "strict":
                raise InvalidArgumentError(f"{point} is no code point of Unicode.")
            elif errors == "replace":
                made.append(chr(replacement_char))
        return "".join(made).encode(codec)

    if isinstance(input, RaggedTensor):
        if input.ragged_rank > 1:
            inner = unicode_encode(
                input.values, output_encoding, errors, replacement_char
            )
            return RaggedTensor(inner, input.row_splits)
        return StringTensor(objects([one(row) for row in input]))
    array = np.asarray(_core.Tensor(input))
    rows = array.reshape(-1, array.shape[-1])
    return StringTensor(objects([one(row) for row in rows]).reshape(array.shape[:-1]))


def unicode_transcode(
    input: Any,
    input_encoding: str,
    output_encoding: str,
    errors: str = "replace",
    replacement_char: int = _REPLACEMENT,
    replace_control_characters: bool = False,
    name: Any = None,
) -> Any:
    """Each string in another encoding.

    Args:
        input: Strings.
        input_encoding: As for :func:`unicode_split`.
        output_encoding: As for :func:`unicode_split`.
        errors: As for :func:`unicode_split`.
        replacement_char: As for :func:`unicode_split`.
        replace_control_characters: Whether control characters are replaced too.
        name: Ignored.

    Returns:
        Strings, of the same shape.

    Source: ``tf.strings.unicode_transcode``.

    Example:
        >>> unicode_transcode("Hi", "UTF-8", "UTF-16-BE").numpy()
        b'\\x00H\\x00i'
    """
    on_host("tf.strings.unicode_transcode", input)
    source, target = _codec(input_encoding), _codec(output_encoding)
    replaced = replacement_char if replace_control_characters else None
    table = dict.fromkeys(_CONTROL, replaced) if replace_control_characters else {}

    def one(text: bytes) -> bytes:
        whole = _decoded(text, source, errors, replacement_char)
        return whole.translate(table).encode(target)

    return each(one, input)
