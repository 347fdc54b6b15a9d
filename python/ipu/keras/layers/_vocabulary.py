# SPDX-License-Identifier: MIT
"""Words and their numbers: what the layers of categories and of texts have inside.

Numbers are, in this order: one for the mask token (of ``"int"`` alone), those of
unknown words, those of the vocabulary.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ipu._text.errors import InvalidArgumentError
from ipu.keras.layers import _categories
from ipu.tf._string_ops.hashes import fingerprint64

DROPPED = -1  # the number of what is counted nowhere

_Ids = np.ndarray[Any, np.dtype[np.int64]]


class Vocabulary:
    """Words or integers, and their numbers.

    Args:
        owner: The layer, for messages.
        is_text: Whether they are words, and not integers.
        max_tokens: How many numbers there are at most; None: as many as needed.
        num_oov_indices: How many numbers are for what is not in the vocabulary.
        mask_token: The word that has the number 0 with ``"int"`` and is dropped
            otherwise; None: nothing.
        oov_token: The word for the unknown where numbers are turned back.
        output_mode: "int", "one_hot", "multi_hot", "count" or "tf_idf".
        pad_to_max_tokens: Whether vectors are ``max_tokens`` long.

    Raises:
        ValueError: Arguments that do not go together.
    """

    def __init__(
        self,
        owner: str,
        is_text: bool,
        max_tokens: int | None,
        num_oov_indices: int,
        mask_token: Any,
        oov_token: Any,
        output_mode: str,
        pad_to_max_tokens: bool,
    ) -> None:
        if max_tokens is not None and max_tokens <= 1:
            raise ValueError(
                "If set, `max_tokens` must be greater than 1. "
                f"Received: max_tokens={max_tokens}."
            )
        if pad_to_max_tokens and max_tokens is None:
            raise ValueError(
                "If pad_to_max_tokens is True, must set `max_tokens`. "
                f"Received: max_tokens={max_tokens}."
            )
        if num_oov_indices < 0:
            raise ValueError(
                "`num_oov_indices` must be greater than or equal to 0. "
                f"Received: num_oov_indices={num_oov_indices}."
            )
        self._owner, self._is_text = owner, is_text
        self.max_tokens, self.num_oov_indices = max_tokens, num_oov_indices
        self.mask_token, self.oov_token = mask_token, oov_token
        self.output_mode = output_mode
        self._width = max_tokens if pad_to_max_tokens else None
        self.tokens: list[Any] | None = None
        self.weights: np.ndarray[Any, Any] | None = None  # of all numbers, of tf_idf
        self._ids: dict[Any, int] = {}
        self.forget()

    # --- numbers that are fixed -------------------------------------------------------

    @property
    def _first_oov(self) -> int:
        has_mask = self.mask_token is not None and self.output_mode == "int"
        return 1 if has_mask else 0

    @property
    def _first(self) -> int:
        return self._first_oov + self.num_oov_indices

    def __len__(self) -> int:
        return self._first + len(self.tokens or ())

    @property
    def width(self) -> int:
        """The length of vectors."""
        return self._width or len(self)

    def config(self) -> dict[str, Any]:
        """Return what a layer's configuration says of the vocabulary."""
        return {
            "vocabulary": None if self.tokens is None else self.listed(),
            "idf_weights": None if self.weights is None else self.weights.tolist(),
        }

    # --- the vocabulary ---------------------------------------------------------------

    def listed(self, include_special: bool = True) -> list[Any]:
        """Return the words in the order of their numbers."""
        special = []
        if include_special:
            special = [self.mask_token] * self._first_oov
            special += [self.oov_token] * self.num_oov_indices
        return [*special, *(self.tokens or ())]

    def set(self, given: Any, idf_weights: Any = None) -> None:
        """Take a vocabulary.

        Args:
            given: Words in the order of their numbers, with or without the special
                ones before them; or the path of a file with a word in each line.
            idf_weights: A weight for each word, of ``"tf_idf"``.
        """
        words = self._words(given)
        special = self.listed()[: self._first]
        has_special = bool(special) and words[: len(special)] == special
        self._check_places(words, special, has_special)
        tokens = words[len(special) :] if has_special else words
        repeated = [word for word, count in Counter(tokens).items() if count > 1]
        if repeated:
            raise ValueError(
                "The passed vocabulary has at least one repeated term. Please uniquify "
                f"your dataset. The repeated terms are: {repeated[:10]}."
            )
        if self.max_tokens is not None and self._first + len(tokens) > self.max_tokens:
            raise ValueError(
                "Attempted to set a vocabulary larger than the maximum vocab size. "
                f"Passed vocab size is {self._first + len(tokens)}, max vocab size is "
                f"{self.max_tokens}."
            )
        self.weights = self._checked_weights(idf_weights, len(words), has_special)
        self._take(tokens)

    def _take(self, tokens: list[Any]) -> None:
        self.tokens = tokens
        self._ids = {word: number for number, word in enumerate(tokens, self._first)}

    def _words(self, given: Any) -> list[Any]:
        if isinstance(given, (str, os.PathLike)):
            if not os.path.exists(given):
                raise ValueError(f"Vocabulary file {os.fspath(given)} does not exist.")
            with open(given, encoding="utf-8") as file:
                given = [line.rstrip("\r\n") for line in file]
        words = np.asarray(given).ravel().tolist() if len(given) else []
        if self._is_text:
            return [w.decode() if isinstance(w, bytes) else str(w) for w in words]
        return [int(word) for word in words]

    def _check_places(
        self, words: list[Any], special: list[Any], has_special: bool
    ) -> None:
        rest = words[len(special) :] if has_special else words
        if self.mask_token is not None and self.mask_token in rest:
            raise ValueError(
                "Found reserved mask token at unexpected location in `vocabulary`. "
                "Note that passed `vocabulary` does not need to include the OOV and "
                f"mask tokens. Either remove all mask and OOV tokens, or include them "
                f"only at the start of the vocabulary in precisely this order: "
                f"{special}. Received: mask_token={self.mask_token!r} at vocabulary "
                f"index {words.index(self.mask_token)}."
            )
        if self.num_oov_indices and self.oov_token in rest:
            raise ValueError(
                "Found reserved OOV token at unexpected location in `vocabulary`. "
                "Note that passed `vocabulary` does not need to include the OOV and "
                f"mask tokens. Either remove all mask and OOV tokens, or include them "
                f"only at the start of the vocabulary in precisely this order: "
                f"{special}. Received: oov_token={self.oov_token!r} at vocabulary "
                f"index {words.index(self.oov_token)}."
            )

    def _checked_weights(
        self, given: Any, count: int, has_special: bool
    ) -> np.ndarray[Any, Any] | None:
        if self.output_mode != "tf_idf":
            if given is not None:
                raise ValueError(
                    "`idf_weights` should only be set if output_mode is 'tf_idf'. "
                    f"Received: output_mode={self.output_mode!r}."
                )
            return None
        if given is None:
            raise ValueError(
                "`idf_weights` must be set if output_mode is 'tf_idf'. Give a weight "
                "for each word of the vocabulary."
            )
        weights = np.asarray(given, np.float32)
        if weights.shape != (count,):
            raise ValueError(
                "`idf_weights` must be the same length as vocabulary. Received: "
                f"{weights.shape} weights, {count} words."
            )
        return weights if has_special else self._with_oov(weights)

    def _with_oov(self, weights: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Return the weights with their mean for the unknown before them."""
        mean = weights.mean() if weights.size else 1.0
        front = np.full(self._first, mean, np.float32)
        return np.concatenate([front, weights.astype(np.float32)])

    # --- learning ---------------------------------------------------------------------

    def forget(self) -> None:
        """Start to count anew."""
        self._counts: Counter[Any] = Counter()
        self._documents: Counter[Any] = Counter()
        self._rows = 0

    def count(self, rows: Iterable[Sequence[Any]]) -> None:
        """Count the words of some documents."""
        for row in rows:
            self._counts.update(row)
            self._documents.update(set(row))
            self._rows += 1

    def learn(self) -> None:
        """Take the most frequent of the words that were counted.

        Of equally frequent ones the greater comes first, as in Keras.
        """
        special = {self._key(t) for t in (self.mask_token, self.oov_token)}
        known = [word for word in self._counts if word not in special]
        known.sort(key=lambda word: (self._counts[word], word), reverse=True)
        if self.max_tokens is not None:
            known = known[: self.max_tokens - self._first]
        if self.output_mode == "tf_idf":
            documents = np.array([self._documents[word] for word in known], np.float32)
            self.weights = self._with_oov(np.log1p(self._rows / (1 + documents)))
        self._take([w.decode() if isinstance(w, bytes) else int(w) for w in known])

    def _key(self, token: Any) -> Any:
        return token.encode() if isinstance(token, str) else token

    # --- numbers of words and back ----------------------------------------------------

    def ids_of(self, words: Any) -> _Ids:
        """Return the number of each word; DROPPED for what a mask takes out of counts.

        Args:
            words: An array of byte strings or of integers.
        """
        if self.tokens is None:
            raise ValueError(
                f"{self._owner} has no vocabulary yet. Call adapt(data), or pass "
                "`vocabulary`."
            )
        items = words.ravel().tolist()
        keys = [w.decode() for w in items] if self._is_text else items
        made = np.array([self._ids.get(key, DROPPED) for key in keys], np.int64)
        is_mask = np.array([key == self.mask_token for key in keys], bool)
        if self.mask_token is None:
            is_mask[:] = False
        unknown = np.flatnonzero((made == DROPPED) & ~is_mask)
        if unknown.size and not self.num_oov_indices:
            raise InvalidArgumentError(
                "When `num_oov_indices=0` all inputs should be in vocabulary, found "
                f"OOV values {[keys[at] for at in unknown[:10]]}, consider setting "
                "`num_oov_indices=1`."
            )
        for at in unknown:
            made[at] = self._first_oov + self._bucket(items[at])
        made[is_mask] = 0 if self.output_mode == "int" else DROPPED
        shaped: np.ndarray[Any, Any] = made.reshape(words.shape)
        return shaped

    def _bucket(self, item: Any) -> int:
        if self.num_oov_indices == 1:
            return 0
        return (fingerprint64(item) if self._is_text else item) % self.num_oov_indices

    def words_of(self, ids: Any) -> np.ndarray[Any, Any]:
        """Return the word of each number; the one for the unknown where there is
        none."""
        listed = [self._key(word) for word in self.listed()]
        other = self._key(self.oov_token)
        made = np.empty(ids.size, object if self._is_text else np.int64)
        made[:] = [
            listed[number] if 0 <= number < len(listed) else other
            for number in ids.ravel().tolist()
        ]
        shaped: np.ndarray[Any, Any] = made.reshape(ids.shape)
        return shaped

    def encoded(self, ids: _Ids) -> np.ndarray[Any, Any]:
        """Return numbers as the output mode says."""
        if self.output_mode == "int":
            return ids
        return _categories.encoded(ids, self.output_mode, self.width, self.weights)
