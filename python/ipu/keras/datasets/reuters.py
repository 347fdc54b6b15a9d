# SPDX-License-Identifier: MIT
"""11,228 newswires of 46 topics."""

from __future__ import annotations

import numpy as np

from ipu._text.exports import export
from ipu.keras.datasets import _official
from ipu.keras.datasets._sequences import prepare, word_index

_FILE = _official.Official(
    "Reuters",
    "reuters.npz",
    "d6586e694ee56d7a4e65172e12b3e987c03096cb01eab99753921ef915959916",
)
_WORDS = _official.Official(
    "Reuters's list of words",
    "reuters_word_index.json",
    "4d44cc38712099c9e383dc6e5f11a921",
)
# in the order of the labels
_TOPICS = """
cocoa grain veg-oil earn acq wheat copper housing money-supply coffee sugar trade
reserves ship cotton carcass crude nat-gas cpi money-fx interest gnp meal-feed alum
oilseed gold tin strategic-metal livestock retail ipi iron-steel rubber heat jobs lei
bop zinc orange pet-chem dlr gas silver wpi hog lead
"""


def load_data(
    path: str = "reuters.npz",
    num_words: int | None = None,
    skip_top: int = 0,
    maxlen: int | None = None,
    test_split: float = 0.2,
    seed: int = 113,
    start_char: int | None = 1,
    oov_char: int | None = 2,
    index_from: int = 3,
) -> _official.Splits:
    """Load the newswires as lists of word numbers.

    Args:
        test_split: The part that is for testing.

    The other arguments, the result and the errors are those of ``imdb.load_data``.

    Source: https://storage.googleapis.com/tensorflow/tf-keras-datasets/reuters.npz
    """
    xs, labels = _official.arrays_of(_FILE, path, ["x", "y"])
    order = np.arange(len(xs))
    np.random.RandomState(seed).shuffle(order)
    limits = (start_char, oov_char, index_from, num_words, skip_top, maxlen)
    return prepare(xs[order], labels[order], 1.0 - test_split, *limits)


def get_word_index(path: str = "reuters_word_index.json") -> dict[str, int]:
    """Return the number of each word, without ``index_from``."""
    return word_index(_WORDS, path)


def get_label_names() -> tuple[str, ...]:
    """Return the names of the 46 topics, in the order of the labels.

    Example:
        >>> get_label_names()[3:5]
        ('earn', 'acq')
    """
    return tuple(_TOPICS.split())


export(__name__)
