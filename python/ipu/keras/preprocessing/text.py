# SPDX-License-Identifier: MIT
"""``ipu.keras.preprocessing.text``: texts as numbers of words."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from ipu._text.exports import export
from ipu.keras import _names
from ipu.keras._arguments import parameters_of

_COUNTED = ("word_counts", "word_docs", "index_docs", "index_word", "word_index")
_MODES = ("binary", "count", "freq", "tfidf")
_FILTERS = '!"#$%&()*+,-./:;<=>?@[\\]^_`{|}~\t\n'


def text_to_word_sequence(
    input_text: str, filters: str = _FILTERS, lower: bool = True, split: str = " "
) -> list[str]:
    """Cut a text into words.

    Args:
        input_text: The text.
        filters: Characters that separate words, beside ``split``.
        lower: Whether words are made lower case.
        split: The separator of words.

    Returns:
        The words, in order.

    Example:
        >>> text_to_word_sequence("Mind the gap, please!")
        ['mind', 'the', 'gap', 'please']
    """
    text = input_text.lower() if lower else input_text
    text = text.translate({ord(char): split for char in filters})
    return [word for word in text.split(split) if word]


def hashing_trick(
    text: str,
    n: int,
    hash_function: Callable[[str], int] | str | None = None,
    filters: str = _FILTERS,
    lower: bool = True,
    split: str = " ",
) -> list[int]:
    """Return numbers of words without a vocabulary; different words may share one.

    Args:
        text: The text.
        n: Numbers are from 1 to ``n - 1``.
        hash_function: "md5", the same in every run; None for Python's ``hash``, which
            is another one in every process; or a function of a word.
        filters: As for :func:`text_to_word_sequence`.
        lower, split: As there.

    Returns:
        A number for each word.

    Raises:
        ValueError: ``n`` leaves no number.

    Example:
        >>> hashing_trick("the cat and the dog", 10, "md5")
        [6, 3, 6, 6, 6]
    """
    if n < 2:
        raise ValueError(f"`n` must be at least 2. Received: n={n!r}.")
    if hash_function is None:
        hash_function = hash
    elif hash_function == "md5":
        hash_function = _md5
    assert callable(hash_function)
    words = text_to_word_sequence(text, filters, lower, split)
    return [hash_function(word) % (n - 1) + 1 for word in words]


def _md5(word: str) -> int:
    return int(hashlib.md5(word.encode(), usedforsecurity=False).hexdigest(), 16)


def one_hot(
    input_text: str,
    n: int,
    filters: str = _FILTERS,
    lower: bool = True,
    split: str = " ",
) -> list[int]:
    """Return numbers of words by Python's ``hash``; see :func:`hashing_trick`.

    Arguments and result are those of :func:`hashing_trick`.

    Example:
        >>> numbers = one_hot("the cat and the dog", 10)
        >>> numbers[0] == numbers[3]
        True
    """
    return hashing_trick(input_text, n, hash, filters, lower, split)


def tokenizer_from_json(json_string: str) -> Tokenizer:
    """Make a tokenizer from what ``Tokenizer.to_json`` gave, here or in Keras.

    Args:
        json_string: The text.

    Returns:
        A tokenizer with the words that were counted.

    Raises:
        ValueError: It is not a description of a tokenizer.

    Example:
        >>> tokenizer = Tokenizer()
        >>> tokenizer.fit_on_texts(["the cat"])
        >>> tokenizer_from_json(tokenizer.to_json()).word_index
        {'the': 1, 'cat': 2}
    """
    described = json.loads(json_string)
    if not isinstance(described, dict) or "config" not in described:
        raise ValueError(
            "This is not a description of a Tokenizer. "
            f"Received: {json_string[:80]!r}. Give what `Tokenizer.to_json` gave."
        )
    config = dict(described["config"])
    counted = {name: json.loads(config.pop(name, "{}")) for name in _COUNTED}
    made = Tokenizer(**config)
    made.word_counts.update(counted["word_counts"])
    made.word_docs.update(counted["word_docs"])
    made.index_docs.update({int(k): v for k, v in counted["index_docs"].items()})
    made.word_index = counted["word_index"]
    made.index_word = {int(k): v for k, v in counted["index_word"].items()}
    return made


class Tokenizer:
    """Numbers words by how often they occur: 1 is the most frequent.

    Args:
        num_words: Only words with smaller numbers are kept; None for all.
        filters: Characters that separate words, beside ``split``.
        lower: Whether words are made lower case.
        split: The separator of words.
        char_level: Whether every character is a word.
        oov_token: A word that stands for all others, with the number 1; None leaves
            them out.
        document_count: How many texts were counted before.
        **kwargs: None.

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
        self.index_docs: Counter[int] = Counter()
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
        for word, count in self.word_docs.items():
            self.index_docs[self.word_index[word]] = count

    def fit_on_sequences(self, sequences: Iterable[Iterable[int]]) -> None:
        """Count in how many sequences each number is, for ``mode="tfidf"``.

        Args:
            sequences: Lists of numbers of words.
        """
        for sequence in sequences:
            self.document_count += 1
            self.index_docs.update(set(sequence))

    def texts_to_sequences(self, texts: Iterable[Any]) -> list[list[int]]:
        """Return the numbers of the words of each text."""
        return list(self.texts_to_sequences_generator(texts))

    def texts_to_sequences_generator(self, texts: Iterable[Any]) -> Iterator[list[int]]:
        """Yield the numbers of the words, text by text."""
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
        """Return the words of numbers, one text for each sequence."""
        return list(self.sequences_to_texts_generator(sequences))

    def sequences_to_texts_generator(
        self, sequences: Iterable[Iterable[int]]
    ) -> Iterator[str]:
        """Yield the words of numbers, sequence by sequence."""
        most = self.num_words or len(self.index_word) + 1
        for sequence in sequences:
            words = (self.index_word.get(n) if n < most else None for n in sequence)
            texts = (self.oov_token if word is None else word for word in words)
            yield " ".join(word for word in texts if word is not None)

    def texts_to_matrix(
        self, texts: Iterable[Any], mode: str = "binary"
    ) -> np.ndarray[Any, Any]:
        """Return a row for each text with a column for each word."""
        return self.sequences_to_matrix(self.texts_to_sequences(texts), mode)

    def sequences_to_matrix(
        self, sequences: Iterable[Sequence[int]], mode: str = "binary"
    ) -> np.ndarray[Any, Any]:
        """Return a row for each sequence with a column for each word.

        Args:
            sequences: Numbers of words.
            mode: ``"binary"`` whether it occurs, ``"count"`` how often, ``"freq"`` that
                as a part of the sequence, ``"tfidf"`` that against how many texts have
                it.

        Returns:
            A float64 array.

        Raises:
            ValueError: Another mode, or there are no words yet.
        """
        if mode not in _MODES:
            raise ValueError(
                f"Unknown vectorization mode: {mode!r}.{_names.nearest(mode, _MODES)}"
            )
        size = self.num_words or len(self.word_index) + 1
        if size <= 1:
            raise ValueError("Fit the tokenizer on some texts first.")
        if mode == "tfidf" and not self.document_count:
            raise ValueError(
                "Fit the tokenizer on some texts before using mode='tfidf'."
            )
        documents = np.array([self.index_docs[number] for number in range(size)])
        inverse = np.log1p(self.document_count / (1 + documents))
        rows = []
        for sequence in sequences:
            row = np.zeros(size)
            numbers = [number for number in sequence if number < size]
            np.add.at(row, numbers, 1.0)
            if mode == "binary":
                row = np.minimum(row, 1.0)
            elif mode == "freq" and sequence:
                row /= len(sequence)
            elif mode == "tfidf":
                found = row > 0
                row[found] = (1 + np.log(row[found])) * inverse[found]
            rows.append(row)
        return np.asarray(rows).reshape(len(rows), size)

    def get_config(self) -> dict[str, Any]:
        """Return the arguments, and as JSON the words that were counted."""
        counted = {name: json.dumps(getattr(self, name)) for name in _COUNTED}
        given = {
            name: getattr(self, name) for name in parameters_of(Tokenizer.__init__)
        }
        return {**given, **counted}

    def to_json(self, **kwargs: Any) -> str:
        """Describe the tokenizer for :func:`tokenizer_from_json`, here or in Keras.

        Args:
            **kwargs: The keywords of ``json.dumps``.
        """
        described = {"class_name": "Tokenizer", "config": self.get_config()}
        return json.dumps(described, **kwargs)


export(__name__)
