# SPDX-License-Identifier: MIT
"""25,000 film reviews to train on and 25,000 to test with, liked (1) or not (0)."""

from __future__ import annotations

import numpy as np

from ipu._text.exports import export
from ipu.keras.datasets import _official
from ipu.keras.datasets._sequences import prepare, word_index

_FILE = _official.Official(
    "IMDB",
    "imdb.npz",
    "69664113be75683a8fe16e3ed0ab59fda8886cb3cd7ada244f7d9544e4676b9f",
)
_WORDS = _official.Official(
    "IMDB's list of words",
    "imdb_word_index.json",
    "bfafd718b763782e994055a2d397834f",
)


def load_data(
    path: str = "imdb.npz",
    num_words: int | None = None,
    skip_top: int = 0,
    maxlen: int | None = None,
    seed: int = 113,
    start_char: int | None = 1,
    oov_char: int | None = 2,
    index_from: int = 3,
) -> _official.Splits:
    """Load the reviews as lists of word numbers; 4 is the most frequent word.

    Args:
        path: Name of the file in the Keras cache, or an absolute path.
        num_words: Words from this number on are replaced by ``oov_char``.
        skip_top: So are words below this one.
        maxlen: Longer reviews are left out.
        seed: For the order of the reviews.
        start_char: The number that each review begins with; None for nothing.
        oov_char: The number that replaces words; None leaves them out.
        index_from: An offset of the numbers of words.

    Returns:
        ``((x_train, y_train), (x_test, y_test))``: arrays of lists, and int64 labels.

    Raises:
        ValueError: The file is damaged, or no review is as short as ``maxlen``.

    Source: https://storage.googleapis.com/tensorflow/tf-keras-datasets/imdb.npz
    """
    arrays = _official.arrays_of(
        _FILE, path, ["x_train", "y_train", "x_test", "y_test"]
    )
    x_train, labels_train, x_test, labels_test = arrays
    rng = np.random.RandomState(seed)
    train, test = np.arange(len(x_train)), np.arange(len(x_test))
    rng.shuffle(train)
    rng.shuffle(test)
    limits = (start_char, oov_char, index_from, num_words, skip_top, maxlen)
    return prepare(
        np.concatenate([x_train[train], x_test[test]]),
        np.concatenate([labels_train[train], labels_test[test]]),
        len(x_train),
        *limits,
    )


def get_word_index(path: str = "imdb_word_index.json") -> dict[str, int]:
    """Return the number of each word, without ``index_from``."""
    return word_index(_WORDS, path)


export(__name__)
