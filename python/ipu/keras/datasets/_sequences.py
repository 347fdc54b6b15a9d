# SPDX-License-Identifier: MIT
"""What IMDB and Reuters do to their lists of word numbers."""

from __future__ import annotations

import json

import numpy as np

from ipu.keras.datasets._official import Array, Official, Splits, content_of


def prepare(
    xs: Array,
    labels: Array,
    cut: float | int,
    start_char: int | None,
    oov_char: int | None,
    index_from: int,
    num_words: int | None,
    skip_top: int,
    maxlen: int | None,
) -> Splits:
    """Mark, cut and split lists of word numbers.

    Args:
        xs: The lists, an array of objects.
        labels: Their labels.
        cut: How many are for training, or which part of what is left where it is a
            float.
        start_char: The number that each list begins with, or None.
        oov_char: The number that replaces words, or None to leave them out.
        index_from: An offset of the numbers.
        num_words: Words from this number on are replaced; None for none.
        skip_top: Words below this number are replaced.
        maxlen: Lists of this length or longer are left out; None for none.

    Returns:
        ``((x_train, y_train), (x_test, y_test))``.
    """
    lists = [[w + (index_from or 0) for w in x] for x in xs]
    if start_char is not None:
        lists = [[start_char, *x] for x in lists]
    if maxlen:
        kept = [i for i, x in enumerate(lists) if len(x) < maxlen]
        if not kept:
            raise ValueError(
                f"After filtering for sequences shorter than maxlen={maxlen}, no "
                "sequence was kept. Increase maxlen."
            )
        if isinstance(cut, int):
            cut = sum(1 for i in kept if i < cut)
        lists, labels = [lists[i] for i in kept], labels[kept]
    limit = num_words or max(max(x, default=0) for x in lists) + 1

    def is_known(word: int) -> bool:
        return skip_top <= word < limit

    if oov_char is None:
        lists = [[w for w in x if is_known(w)] for x in lists]
    else:
        lists = [[w if is_known(w) else oov_char for w in x] for x in lists]
    if isinstance(cut, float):
        cut = int(len(lists) * cut)
    whole = np.empty(len(lists), dtype=object)
    whole[:] = lists
    return (whole[:cut], labels[:cut]), (whole[cut:], labels[cut:])


def word_index(official: Official, path: str) -> dict[str, int]:
    """Return the numbers of the words that a file lists."""
    words: dict[str, int] = json.loads(content_of(official, path)[0])
    return words
