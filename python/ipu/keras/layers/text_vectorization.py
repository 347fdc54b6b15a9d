# SPDX-License-Identifier: MIT
"""``TextVectorization``: texts as numbers of words, or as counts of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ipu import tf
from ipu.keras import _serialization
from ipu.keras._types import Shape
from ipu.keras.layers._categories import checked_mode
from ipu.keras.layers._vocabulary import Vocabulary
from ipu.keras.layers.index_lookup import VocabularyLayer, refuse_sparse
from ipu.tf.ragged import RaggedTensor

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ipu.keras._options import PlainLayerOptions

__all__ = ["TextVectorization"]

_PUNCTUATION = r"""[!"#$%&()*+,\-./:;<=>?@\[\\\]^_`{|}~']"""
_STANDARDIZE = ("lower_and_strip_punctuation", "lower", "strip_punctuation")
_SPLIT = ("whitespace", "character")


class TextVectorization(VocabularyLayer):
    """Texts as numbers of words, or as counts of them.

    A text is standardized, split into words, joined to n-grams and looked up. It works
    on the host: on eager tensors, in ``Dataset.map``, and as the first layer of a
    model.

    Args:
        max_tokens: How many numbers there are at most, those of padding (0) and of
            unknown words (1) included.
        standardize: "lower_and_strip_punctuation", "lower", "strip_punctuation", None,
            or a function of a tensor of strings.
        split: "whitespace", "character", None for texts that are words, or a function
            from a vector of strings to ragged ones.
        ngrams: How many neighbours make an n-gram at most, or a tuple of such numbers;
            None: words alone.
        output_mode: "int" for numbers in order; "multi_hot", "count" or "tf_idf" for a
            vector of each text.
        output_sequence_length: How many numbers a text has, of ``"int"``; None: as many
            as the longest.
        pad_to_max_tokens: Whether vectors are ``max_tokens`` long.
        vocabulary: Words, or the path of a file with one in each line; None: from
            ``adapt``.
        idf_weights: A weight for each word, of ``output_mode="tf_idf"``.
        sparse: Must be False.
        ragged: Whether numbers stay a ragged tensor.
        encoding: Ignored: UTF-8.

    Raises:
        ValueError: Arguments that do not go together, or a word that is there twice.

    Example:
        >>> layer = TextVectorization(output_sequence_length=4)
        >>> layer.adapt(["The cat sat.", "The dog!"])
        >>> layer(["the dog sat", "a cat"]).numpy().tolist()
        [[2, 4, 3, 0], [1, 5, 0, 0]]
    """

    def __init__(
        self,
        max_tokens: int | None = None,
        standardize: Any = "lower_and_strip_punctuation",
        split: Any = "whitespace",
        ngrams: int | Sequence[int] | None = None,
        output_mode: str = "int",
        output_sequence_length: int | None = None,
        pad_to_max_tokens: bool = False,
        vocabulary: Any = None,
        idf_weights: Any = None,
        sparse: bool = False,
        ragged: bool = False,
        encoding: str = "utf-8",
        **kwargs: Unpack[PlainLayerOptions],
    ) -> None:
        super().__init__(**kwargs)
        mode = checked_mode(
            output_mode, ("int", "multi_hot", "count", "tf_idf"), "TextVectorization"
        )
        refuse_sparse(type(self), sparse)
        self.standardize = _named("standardize", standardize, _STANDARDIZE)
        self.split = _named("split", split, _SPLIT)
        self.ngrams = _checked_ngrams(ngrams)
        if output_sequence_length is not None and (
            mode != "int" or ragged or output_sequence_length < 1
        ):
            raise ValueError(
                "`output_sequence_length` must be None or a positive integer, and None "
                "where `output_mode` is not 'int' or `ragged` is True. Received: "
                f"output_sequence_length={output_sequence_length!r}."
            )
        if ragged and mode != "int":
            raise ValueError(
                "`ragged` must be False where `output_mode` is not 'int'. "
                f"Received: output_mode={output_mode!r}."
            )
        self.output_sequence_length = output_sequence_length
        self.pad_to_max_tokens = pad_to_max_tokens
        self.ragged = ragged
        self.encoding = encoding
        self.max_tokens, self.output_mode = max_tokens, mode
        self._words = Vocabulary(
            f"Layer {self.name!r} (TextVectorization)",
            True,
            max_tokens,
            1,
            "",
            "[UNK]",
            mode,
            pad_to_max_tokens and mode != "int",
        )
        if vocabulary is not None:
            self.set_vocabulary(vocabulary, idf_weights)

    def _rows(self, data: Any) -> Iterable[list[Any]]:
        rows = self._words_of(data)
        if rows.shape.rank == 1:
            rows = tf.expand_dims(rows, 0)
        return (np.asarray(row).ravel().tolist() for row in rows)

    def _words_of(self, texts: Any) -> Any:
        """Return the words of texts: a row for each; of one text a vector."""
        if self.standardize in ("lower", "lower_and_strip_punctuation"):
            texts = tf.strings.lower(texts)
        if self.standardize in ("strip_punctuation", "lower_and_strip_punctuation"):
            texts = tf.strings.regex_replace(texts, _PUNCTUATION, "")
        if callable(self.standardize):
            texts = self.standardize(texts)
        if self.split is not None:
            rank = len(texts.shape)
            if rank > 1:
                if texts.shape[-1] != 1:
                    raise ValueError(
                        "When using `TextVectorization` to tokenize strings, the input "
                        "rank must be 1 or the last shape dimension must be 1. "
                        f"Received: inputs.shape={tuple(texts.shape)} with "
                        f"rank={rank}."
                    )
                texts = tf.squeeze(texts, -1)
            if self.split == "whitespace":
                texts = tf.strings.split(texts)
            elif self.split == "character":
                texts = tf.strings.unicode_split(texts, "UTF-8")
            else:
                texts = self.split(texts)
        if self.ngrams is not None:
            texts = tf.strings.ngrams(texts, self.ngrams, separator=" ")
        return texts

    def call(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        words = self._words_of(inputs)
        mode = self._words.output_mode
        if mode != "int":
            rows = words if len(words.shape) > 1 else [words]
            texts = [np.asarray(row).ravel() for row in rows]
            made = [self._words.encoded(self._words.ids_of(row)) for row in texts]
            whole = np.stack(made) if made else np.zeros((0, self._words.width), "f")
            return tf.constant(whole if len(words.shape) > 1 else whole[0])
        if not isinstance(words, RaggedTensor):
            return self._cut(self._words.ids_of(np.asarray(words)))
        ids = self._words.ids_of(np.asarray(words.flat_values))
        numbers = RaggedTensor(tf.constant(ids), words.row_splits)
        if self.ragged:
            return numbers
        return numbers.to_tensor(shape=(None, self.output_sequence_length))

    def _cut(self, ids: np.ndarray[Any, Any]) -> Any:
        """Return dense numbers with the length that was asked for."""
        size = self.output_sequence_length
        if size is None:
            return tf.constant(ids)
        kept = ids[..., :size]
        more = [(0, 0)] * (ids.ndim - 1) + [(0, size - kept.shape[-1])]
        return tf.constant(np.pad(kept, more))

    def output_of(self, inputs: Any) -> tuple[Shape, Any]:
        batch = tuple(inputs.shape)[:1]
        if self._words.output_mode == "int":
            return (*batch, self.output_sequence_length), tf.int32
        return (*batch, self._words.width), tf.float32

    def get_config(self) -> dict[str, Any]:
        own = {"standardize": _plain(self.standardize), "split": _plain(self.split)}
        return {**super().get_config(), **own}


def _named(what: str, given: Any, known: tuple[str, ...]) -> Any:
    """Return one of the known ways, None, or a function (also by its registered
    name)."""
    if given is None or callable(given) or given in known:
        return given
    own = (
        _serialization.get_registered_object(given) if isinstance(given, str) else None
    )
    if own is None:
        raise ValueError(
            f"`{what}` of TextVectorization must be one of "
            f"{', '.join(map(repr, known))}, None or a function. "
            f"Received: {what}={given!r}."
        )
    return own


def _plain(given: Any) -> Any:
    is_function: Callable[[Any], bool] = callable
    return _serialization.serialize_keras_object(given) if is_function(given) else given


def _checked_ngrams(given: Any) -> tuple[int, ...] | None:
    if given is None:
        return None
    made = tuple(range(1, given + 1)) if isinstance(given, int) else tuple(given)
    if not made or any(not isinstance(n, int) or n < 1 for n in made):
        raise ValueError(
            "`ngrams` must be None, a positive integer or a tuple of them. "
            f"Received: ngrams={given!r}."
        )
    return made
