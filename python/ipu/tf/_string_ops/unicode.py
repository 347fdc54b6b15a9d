# SPDX-License-Identifier: MIT
"""``tf.strings.unicode_*``: characters of encoded strings, on the host."""

from __future__ import annotations

from typing import Any

import numpy as np

from ipu import _core
from ipu._text.errors import InvalidArgumentError
from ipu.tf._string_ops.each_string import cut, each, objects
from ipu.tf._string_ops.host_only import on_host
from ipu.tf._string_ops.tensors import StringTensor
from ipu.tf.ragged import RaggedTensor

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
    """Return the characters of each string, as strings of the same encoding.

    Args:
        input: Strings.
        input_encoding: "UTF-8", "UTF-16-BE" or "UTF-32-BE".
        errors: The treatment of bytes that are not a character: "replace", "ignore", or
            "strict" for an error.
        replacement_char: The code point that stands for them.

    Returns:
        A vector of a single string's characters; of several strings a ragged tensor.

    Raises:
        InvalidArgumentError: ``errors`` is "strict", and there are such bytes.

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


def _offsets(input: Any, codec: str, errors: str) -> Any:
    """Return where each character of each string begins, in bytes."""

    def starts(text: bytes) -> np.ndarray[Any, Any]:
        import codecs

        # one byte at a time says which of them a character is made of
        decoder = codecs.getincrementaldecoder(codec)(errors)
        found: list[int] = []
        begin = 0
        for end in range(1, len(text) + 1):
            made = decoder.decode(text[end - 1 : end])
            waiting = len(decoder.getstate()[0])
            # a byte that ends a wrong character may be one of its own
            found += [begin, end - 1][: len(made)]
            if made or not waiting:
                begin = end - waiting
        found += [begin] * len(decoder.decode(b"", True))
        return np.array(found, np.int64)

    return cut(starts, input)


def unicode_split_with_offsets(
    input: Any,
    input_encoding: str,
    errors: str = "replace",
    replacement_char: int = _REPLACEMENT,
    name: Any = None,
) -> Any:
    """Return the characters of each string, and the bytes at which they begin.

    Args:
        input: Strings.
        input_encoding, errors, replacement_char: As for :func:`unicode_split`.

    Returns:
        The result of :func:`unicode_split`, and int64 offsets of the same shape.

    Example:
        >>> characters, offsets = unicode_split_with_offsets("ñb", "UTF-8")
        >>> offsets.numpy().tolist()
        [0, 2]
    """
    parts = unicode_split(input, input_encoding, errors, replacement_char)
    return parts, _offsets(input, _codec(input_encoding), errors)


def unicode_decode_with_offsets(
    input: Any,
    input_encoding: str,
    errors: str = "replace",
    replacement_char: int = _REPLACEMENT,
    replace_control_characters: bool = False,
    name: Any = None,
) -> Any:
    """Return the code points of each string, and the bytes at which they begin.

    Args:
        input: Strings.
        input_encoding, errors, replacement_char: As for :func:`unicode_split`.
        replace_control_characters: As for :func:`unicode_decode`.

    Returns:
        The result of :func:`unicode_decode`, and int64 offsets of the same shape.

    Example:
        >>> points, offsets = unicode_decode_with_offsets(["añb", "c"], "UTF-8")
        >>> points.to_list(), offsets.to_list()
        ([[97, 241, 98], [99]], [[0, 1, 3], [0]])
    """
    points = unicode_decode(
        input, input_encoding, errors, replacement_char, replace_control_characters
    )
    return points, _offsets(input, _codec(input_encoding), errors)


def unicode_decode(
    input: Any,
    input_encoding: str,
    errors: str = "replace",
    replacement_char: int = _REPLACEMENT,
    replace_control_characters: bool = False,
    name: Any = None,
) -> Any:
    """Return the code points of each string, int32.

    Args:
        input: Strings.
        input_encoding, errors, replacement_char: As for :func:`unicode_split`.
        replace_control_characters: Whether control characters are replaced too.

    Returns:
        A vector for one string, a ragged tensor for several.

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
    """Return the strings of code points, the other way round than
    :func:`unicode_decode`.

    Args:
        input: Code points along the last axis: a tensor, or a ragged one.
        output_encoding: As for :func:`unicode_split`.
        errors: The treatment of a number that is not a code point.
        replacement_char: The code point that stands for it.

    Returns:
        Strings, with one axis less.

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
                raise InvalidArgumentError(f"{point} is not a code point of Unicode.")
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
    """Return each string in another encoding.

    Args:
        input: Strings.
        input_encoding, output_encoding, errors, replacement_char: As for
            :func:`unicode_split`.
        replace_control_characters: Whether control characters are replaced too.

    Returns:
        Strings, of the same shape.

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
