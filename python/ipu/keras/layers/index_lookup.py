# SPDX-License-Identifier: MIT
"""Layers that number words and integers.

Source: ``tf.keras.layers.StringLookup``, ``IntegerLookup`` of Keras 2.6.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from ipu import tf
from ipu._text.refusals import refuse_given
from ipu.keras._arguments import keep
from ipu.keras._types import Shape
from ipu.keras.layers._categories import checked_mode, encoded_shape
from ipu.keras.layers._vocabulary import Vocabulary
from ipu.keras.layers.host_layer import HostLayer, batches_of
from ipu.tf._string_ops.tensors import StringTensor
from ipu.tf.ragged import RaggedTensor

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ipu.keras._options import PlainLayerOptions

__all__ = ["IntegerLookup", "StringLookup"]

_MODES = ("int", "one_hot", "multi_hot", "count", "tf_idf")


class VocabularyLayer(HostLayer):
    """A layer that numbers words, which it has as ``_words``."""

    _left_out = ("vocabulary", "idf_weights")
    _words: Vocabulary

    def adapt(
        self, data: Any, batch_size: int | None = None, steps: int | None = None
    ) -> None:
        """Take the vocabulary from data, the most frequent first."""
        del batch_size
        self.reset_state()
        for batch in batches_of(data, steps):
            self.update_state(batch)
        self.finalize_state()

    def reset_state(self) -> None:
        """Forget what was counted."""
        self._words.forget()

    def update_state(self, data: Any) -> None:
        """Count the words of a batch."""
        self._words.count(self._rows(self._as_inputs(data)))

    def _rows(self, data: Any) -> Iterable[list[Any]]:
        """Return the words of each sample."""
        raise NotImplementedError

    def finalize_state(self) -> None:
        """Make the vocabulary of what was counted."""
        self._words.learn()

    def set_vocabulary(self, vocabulary: Any, idf_weights: Any = None) -> None:
        """Give the vocabulary, instead of ``adapt``.

        Args:
            vocabulary: Words in the order of their numbers, with the special ones in
                front or without them; or the path of a file with one in each line.
            idf_weights: A weight for each word, of ``output_mode="tf_idf"``.

        Raises:
            ValueError: A word is there twice, or a special one elsewhere; there are too
                many; weights are missing.
        """
        self._words.set(vocabulary, idf_weights)

    def get_vocabulary(self, include_special_tokens: bool = True) -> list[Any]:
        """Return the words in the order of their numbers."""
        return self._words.listed(include_special_tokens)

    def vocabulary_size(self) -> int:
        """Return how many numbers there are, those of special words included."""
        return len(self._words)

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make an equal layer, with its vocabulary."""
        return {**super().get_config(), **self._words.config()}


class _Lookup(VocabularyLayer):
    """The base class of both."""

    _is_text: bool

    max_tokens: int | None
    num_oov_indices: int
    mask_token: Any
    oov_token: Any
    invert: bool
    pad_to_max_tokens: bool

    def __init__(self, arguments: dict[str, Any], /) -> None:
        super().__init__(**arguments.pop("kwargs"))
        vocabulary, weights = arguments.pop("vocabulary"), arguments.pop("idf_weights")
        refuse_sparse(type(self), arguments.pop("sparse"))
        keep(self, arguments)
        owner = type(self).__name__
        self.output_mode = checked_mode(arguments["output_mode"], _MODES, owner)
        if self.invert and self.output_mode != "int":
            raise ValueError(
                "`output_mode` must be `'int'` when `invert` is true. "
                f"Received: output_mode={self.output_mode!r}."
            )
        self._words = Vocabulary(
            f"Layer {self.name!r} ({owner})",
            self._is_text,
            self.max_tokens,
            self.num_oov_indices,
            self.mask_token,
            self.oov_token,
            self.output_mode,
            self.pad_to_max_tokens,
        )
        if vocabulary is not None:
            self.set_vocabulary(vocabulary, weights)
        elif weights is not None:
            raise ValueError("`idf_weights` need a `vocabulary`.")

    def _rows(self, data: Any) -> Iterable[list[Any]]:
        if isinstance(data, RaggedTensor):
            return (np.asarray(row).ravel().tolist() for row in data)
        array = np.asarray(data)
        return array.reshape(len(array) if array.ndim else 1, -1).tolist()

    def call(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(inputs, RaggedTensor):
            return RaggedTensor(self.call(inputs.values), inputs.row_splits)
        array = np.asarray(inputs)
        if self.invert:
            self._check_numbers(array)
            made = self._words.words_of(array)
            return StringTensor(made) if self._is_text else tf.constant(made)
        if self._is_text != (array.dtype == object):
            raise TypeError(
                f"Layer {self.name!r} ({type(self).__name__}) takes "
                f"{'strings' if self._is_text else 'integers'}. Received: "
                f"{'strings' if array.dtype == object else array.dtype.name}."
            )
        if not self._is_text:
            self._check_numbers(array)
        return tf.constant(self._words.encoded(self._words.ids_of(array)))

    def _check_numbers(self, array: np.ndarray[Any, Any]) -> None:
        if array.dtype.kind not in "iu":
            raise TypeError(
                f"Layer {self.name!r} ({type(self).__name__}) takes integers. "
                f"Received: {'strings' if array.dtype == object else array.dtype.name}."
            )

    def output_of(self, inputs: Any) -> tuple[Shape, Any]:
        if self.invert and self._is_text:
            return tuple(inputs.shape), tf.string
        mode = self._words.output_mode
        made = encoded_shape(tuple(inputs.shape), mode, self._words.width)
        return made, tf.int32 if mode == "int" else tf.float32


def refuse_sparse(cls: type, sparse: bool) -> None:
    """Raise NotImplementedError for results as sparse tensors."""
    for base in cls.__mro__:
        refuse_given(f"{base.__module__}.{base.__qualname__}", sparse=sparse)


class StringLookup(_Lookup):
    """Numbers of words.

    It works on the host: on eager tensors, in ``Dataset.map``, and as one of the first
    layers of a model.

    Args:
        max_tokens: How many numbers there are at most, with those of special words.
        num_oov_indices: How many numbers unknown words share; 0: they are an error.
        mask_token: A word with the number 0, that is dropped from counts; None: none.
        oov_token: The word for unknown ones, where ``invert`` is True.
        vocabulary: Words, or the path of a file with one in each line; None: from
            ``adapt``.
        idf_weights: A weight for each word, of ``output_mode="tf_idf"``.
        encoding: Ignored: UTF-8.
        invert: Whether numbers are turned into words.
        output_mode: "int" for numbers; "one_hot" for a vector of each; "multi_hot",
            "count" or "tf_idf" for one of all along the last axis.
        sparse: Must be False.
        pad_to_max_tokens: Whether vectors are ``max_tokens`` long.

    Raises:
        ValueError: Arguments that do not go together, or a word that is there twice.

    Example:
        >>> layer = StringLookup(vocabulary=["cat", "dog"])
        >>> layer(["dog", "cow"]).numpy().tolist()
        [2, 0]
        >>> layer.get_vocabulary()
        ['[UNK]', 'cat', 'dog']
    """

    _is_text = True

    def __init__(
        self,
        max_tokens: int | None = None,
        num_oov_indices: int = 1,
        mask_token: str | None = None,
        oov_token: str = "[UNK]",
        vocabulary: Any = None,
        idf_weights: Any = None,
        encoding: str | None = "utf-8",
        invert: bool = False,
        output_mode: str = "int",
        sparse: bool = False,
        pad_to_max_tokens: bool = False,
        **kwargs: Unpack[PlainLayerOptions],
    ) -> None:
        super().__init__(locals())


class IntegerLookup(_Lookup):
    """Numbers of integers: categories that are not 0, 1, 2, ...

    It works on the host, as :class:`StringLookup` does.

    Args:
        mask_token: An integer with the number 0, that is dropped from counts.
        oov_token: The integer for unknown ones, where ``invert`` is True.
        vocabulary: Integers, or the path of a file with one in each line; None: from
            ``adapt``.
        vocabulary_dtype: "int64" or "int32".
        invert: Whether numbers are turned back.

    The other arguments are those of :class:`StringLookup`.

    Raises:
        ValueError: Arguments that do not go together, or an integer that is there
            twice.

    Example:
        >>> IntegerLookup(vocabulary=[12, 36])([36, 7, 12]).numpy().tolist()
        [2, 0, 1]
    """

    _is_text = False

    def __init__(
        self,
        max_tokens: int | None = None,
        num_oov_indices: int = 1,
        mask_token: int | None = None,
        oov_token: int = -1,
        vocabulary: Any = None,
        vocabulary_dtype: str = "int64",
        idf_weights: Any = None,
        invert: bool = False,
        output_mode: str = "int",
        sparse: bool = False,
        pad_to_max_tokens: bool = False,
        **kwargs: Unpack[PlainLayerOptions],
    ) -> None:
        super().__init__(locals())

    @property
    def _input_dtype(self) -> Any:
        return tf.int32
