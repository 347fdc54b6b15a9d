# SPDX-License-Identifier: MIT
"""``ipu.keras.preprocessing.text``: texts as numbers of words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from ipu.keras import _names

__all__ = ["Tokenizer", "text_to_word_sequence"]

_FILTERS = '!"#$%&()*+,-./:;<=>?@[\\]^_`{|}~\t\n'


def text_to_word_sequence(
    input_text: str, filters: str = _FILTERS, lower: bool = True, split: str = " "
) -> list[str]:
    """Cut a text into words.

    Args:
        input_text: The text.
        filters: Characters that separate words, beside ``split``.
        lower: Whether words are made lower case.
        split: What separates words.

    Returns:
        The words, in order.

    Example:
        >>> text_to_word_sequence("Mind the gap, please!")
        ['mind', 'the', 'gap', 'please']
    """
    text = input_text.lower() if lower else input_text
    text = text.translate({ord(char): split for char in filters})
    return [word for word in text.split(split) if word]


class Tokenizer:
    """Numbers words by how often they occur: 1 is the most frequent.

    Args:
        num_words: Only words with smaller numbers are kept; None for all.
        filters: Characters that separate words, beside ``split``.
        lower: Whether words are made lower case.
        split: What separates words.
        char_level: Whether every character is a word.
        oov_token: A word that stands for all others, with the number 1; None leaves
            them out.
        document_count: Ignored.
        **kwargs: None.

    Source: ``tf.keras.preprocessing.text.Tokenizer`` of Keras 2.6.

    Example:
        >>> tokenizer = Tokenizer()
        >>> tokenizer.fit_on_texts(["the cat", "the dog"])
        >>> tokenizer.texts_to_sequences(["the dog and the cat"])
        [[1, 3, 1, 2]]
    """

    def __init__(
        self,
        num_words: int | None = None,
        filters: str = _FILTERS,
        lower: bool = True,
        split: str = " ",
        char_level: bool = False,
        oov_token: str | None = None,
        document_count: int = 0,
        **kwargs: Any,
    ) -> None:
        if kwargs:
            raise TypeError(f"Unrecognized keyword arguments: {sorted(kwargs)}.")
        self.num_words = num_words
        self.filters = filters
        self.lower = lower
        self.split = split
        self.char_level = char_level
        self.oov_token = oov_token
        self.document_count = document_count
        self.word_counts: Counter[str] = Counter()
        self.word_docs: Counter[str] = Counter()
        self.word_index: dict[str, int] = {}
        self.index_word: dict[int, str] = {}

    def _words(self, text: Any) -> list[str]:
        if self.char_level or not isinstance(text, str):
            items = [str(item) for item in text]
            return [item.lower() for item in items] if self.lower else items
        return text_to_word_sequence(text, self.filters, self.lower, self.split)

    def fit_on_texts(self, texts: Iterable[Any]) -> None:
        """Count the words of texts, and number them anew.

        Args:
            texts: Strings, or lists of words.
        """
        for text in texts:
            words = self._words(text)
            self.document_count += 1
            self.word_counts.update(words)
            self.word_docs.update(set(words))
        # equally frequent words keep the order in which they came
        ordered = sorted(self.word_counts, key=lambda w: -self.word_counts[w])
        if self.oov_token is not None:
            ordered.insert(0, self.oov_token)
        self.word_index = {word: i for i, word in enumerate(ordered, 1)}
        self.index_word = {i: word for word, i in self.word_index.items()}

    def texts_to_sequences(self, texts: Iterable[Any]) -> list[list[int]]:
        """Give the numbers of the words of each text."""
        return list(self.texts_to_sequences_generator(texts))

    def texts_to_sequences_generator(self, texts: Iterable[Any]) -> Iterator[list[int]]:
        """Give the numbers of the words, text by text."""
        other = None if self.oov_token is None else self.word_index.get(self.oov_token)
        for text in texts:
            numbers = []
            for word in self._words(text):
                number = self.word_index.get(word)
                if number is None or (self.num_words and number >= self.num_words):
                    number = other
                if number is not None:
                    numbers.append(number)
            yield numbers

    def sequences_to_texts(self, sequences: Iterable[Iterable[int]]) -> list[str]:
        """Give the words of numbers, one text for each sequence."""
        return [
            " ".join(self.index_word[n] for n in sequence if n in self.index_word)
            for sequence in sequences
        ]

    def texts_to_matrix(
        self, texts: Iterable[Any], mode: str = "binary"
    ) -> np.ndarray[Any, Any]:
        """Give a row for each text with a column for each word."""
        return self.sequences_to_matrix(self.texts_to_sequences(texts), mode)

    def sequences_to_matrix(
        self, sequences: Iterable[Iterable[int]], mode: str = "binary"
    ) -> np.ndarray[Any, Any]:
        """Give a row for each sequence with a column for each word.

        Args:
            sequences: Numbers of words.
            mode: ``"binary"`` whether it occurs, ``"count"`` how often, ``"freq"`` that
                as a part of the sequence.

        Returns:
            A float64 array.

        Raises:
            ValueError: Another mode, or there are no words yet.
        """
        if mode not in ("binary", "count", "freq"):
            raise ValueError(
                f"Unknown vectorization mode: {mode!r}."
                f"{_names.nearest(mode, ('binary', 'count', 'freq'))}"
            )
        size = self.num_words or len(self.word_index) + 1
        if size <= 1:
            raise ValueError("Fit the tokenizer on some texts first.")
        rows = []
        for sequence in sequences:
            row = np.zeros(size)
            numbers = [number for number in sequence if number < size]
            np.add.at(row, numbers, 1.0)
            if mode == "binary":
                row = np.minimum(row, 1.0)
            elif mode == "freq" and numbers:
                row /= len(numbers)
            rows.append(row)
        return np.asarray(rows).reshape(len(rows), size)


__getattr__ = _names.missing(__name__, __all__)
