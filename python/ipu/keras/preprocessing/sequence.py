# SPDX-License-Identifier: MIT
"""``ipu.keras.preprocessing.sequence``: samples made of sequences."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from ipu._device.generators import numpy_stream, python_stream
from ipu._text.exports import export
from ipu.keras._arguments import parameters_of
from ipu.keras._sequence import Sequence as Batches

_EULER = 0.577  # Euler's constant, with the digits that Keras takes


def pad_sequences(
    sequences: Sequence[Any],
    maxlen: int | None = None,
    dtype: Any = "int32",
    padding: str = "pre",
    truncating: str = "pre",
    value: Any = 0.0,
) -> np.ndarray[Any, Any]:
    """Cut or fill sequences to one length.

    Args:
        sequences: Lists of numbers, or of arrays of one shape.
        maxlen: The length; None for that of the longest.
        dtype: Dtype of the result.
        padding: ``"pre"`` fills before, ``"post"`` after.
        truncating: ``"pre"`` cuts at the beginning, ``"post"`` at the end.
        value: The value that is filled in.

    Returns:
        An array of shape ``(len(sequences), maxlen, ...)``.

    Raises:
        ValueError: An element has no length, or shapes differ.

    Example:
        >>> pad_sequences([[1], [2, 3, 4]], maxlen=2).tolist()
        [[0, 1], [3, 4]]
    """
    for name, side in (("padding", padding), ("truncating", truncating)):
        if side not in ("pre", "post"):
            raise ValueError(
                f"`{name}` must be 'pre' or 'post'. Received: {name}={side!r}."
            )
    for item in sequences:
        if not hasattr(item, "__len__"):
            raise ValueError(
                "`sequences` must be a list of iterables. Found non-iterable: "
                f"{item!r}."
            )
    lengths = [len(item) for item in sequences]
    size = maxlen if maxlen is not None else max(lengths, default=0)
    shapes = [np.asarray(item).shape[1:] for item in sequences if len(item)]
    shape = shapes[0] if shapes else ()
    if isinstance(value, str) and np.dtype(dtype).kind not in "OSU":
        raise ValueError(
            f"`dtype` {dtype} is not compatible with `value`'s type: {type(value)}. "
            "You should set `dtype=object` for variable length strings."
        )
    result = np.full((len(lengths), size, *shape), value, dtype=dtype)
    for row, item in enumerate(sequences):
        if not len(item) or not size:
            continue
        kept = np.asarray(item[-size:] if truncating == "pre" else item[:size], dtype)
        if kept.shape[1:] != shape:
            raise ValueError(
                f"Shape of sample {kept.shape[1:]} of sequence at position {row} is "
                f"different from expected shape {shape}."
            )
        place = slice(-len(kept), None) if padding == "pre" else slice(len(kept))
        result[row, place] = kept
    return result


class TimeseriesGenerator(Batches):
    """Batches of pieces of a series, each with the target that follows.

    Args:
        data: A list or array of steps.
        targets: A target for each step.
        length: How many steps a piece is long.
        sampling_rate: Steps from one of a piece to its next one.
        stride: Steps from one piece to the next.
        start_index: The first step that is used.
        end_index: The last step that is a target; None: the last.
        shuffle: Whether pieces are drawn at random.
        reverse: Whether pieces are turned round.
        batch_size: Pieces in a batch.

    Raises:
        ValueError: ``data`` and ``targets`` differ in length, or nothing is left.

    Example:
        >>> batches = TimeseriesGenerator([1, 2, 3, 4], [10, 20, 30, 40], 2)
        >>> x, y = batches[0]
        >>> x.tolist(), y.tolist()
        ([[1, 2], [2, 3]], [30, 40])
    """

    def __init__(
        self,
        data: Any,
        targets: Any,
        length: int,
        sampling_rate: int = 1,
        stride: int = 1,
        start_index: int = 0,
        end_index: int | None = None,
        shuffle: bool = False,
        reverse: bool = False,
        batch_size: int = 128,
    ) -> None:
        super().__init__()
        if len(data) != len(targets):
            raise ValueError(
                "Data and targets have to be of same length. Data length is "
                f"{len(data)} while target length is {len(targets)}."
            )
        self.data, self.targets = data, targets
        self.length = length
        self.sampling_rate, self.stride = sampling_rate, stride
        self.start_index = start_index + length
        self.end_index = len(data) - 1 if end_index is None else end_index
        self.shuffle, self.reverse = shuffle, reverse
        self.batch_size = batch_size
        if self.start_index > self.end_index:
            raise ValueError(
                f"`start_index+length={self.start_index} > end_index={self.end_index}` "
                "is disallowed, as no part of the sequence would be left to be used as "
                "current step."
            )

    def __len__(self) -> int:
        step = self.batch_size * self.stride
        return (self.end_index - self.start_index + step) // step

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        if self.shuffle:
            ends = numpy_stream().randint(
                self.start_index, self.end_index + 1, size=self.batch_size
            )
        else:
            first = self.start_index + self.batch_size * self.stride * index
            last = min(first + self.batch_size * self.stride, self.end_index + 1)
            ends = np.arange(first, last, self.stride)
        samples = np.array(
            [self.data[end - self.length : end : self.sampling_rate] for end in ends]
        )
        targets = np.array([self.targets[end] for end in ends])
        return (samples[:, ::-1, ...] if self.reverse else samples), targets

    def get_config(self) -> dict[str, Any]:
        """Return the arguments as plain data.

        Raises:
            TypeError: The data cannot be written as plain data.
        """
        data, targets = (
            one.tolist() if isinstance(one, np.ndarray) else one
            for one in (self.data, self.targets)
        )
        try:
            described = {"data": json.dumps(data), "targets": json.dumps(targets)}
        except TypeError as error:
            raise TypeError(f"Data not JSON serializable: {data!r}.") from error
        names = parameters_of(TimeseriesGenerator.__init__)
        return {name: getattr(self, name) for name in names} | described

    def to_json(self, **kwargs: Any) -> str:
        """Describe the generator as JSON.

        Args:
            **kwargs: The keywords of ``json.dumps``.
        """
        described = {"class_name": type(self).__name__, "config": self.get_config()}
        return json.dumps(described, **kwargs)


def make_sampling_table(
    size: int, sampling_factor: float = 1e-05
) -> np.ndarray[Any, Any]:
    """Return how probably a word is kept, by its rank: frequent words are left out more
    often.

    Args:
        size: How many words there are.
        sampling_factor: The smaller, the more are left out.

    Returns:
        A float64 array; ``table[i]`` is for the i-th most frequent word.

    Source: ``tf.keras.preprocessing.sequence.make_sampling_table`` of Keras 2.6; word
    frequencies after Zipf's law.

    Example:
        >>> make_sampling_table(3).round(5).tolist()
        [0.00315, 0.00315, 0.00548]
    """
    ranks = np.maximum(np.arange(size), 1)
    frequencies = ranks * (np.log(ranks) + _EULER) + 0.5 - 1.0 / (12.0 * ranks)
    shares = sampling_factor * frequencies
    return np.minimum(1.0, shares / np.sqrt(shares))


def skipgrams(
    sequence: Sequence[int],
    vocabulary_size: int,
    window_size: int = 4,
    negative_samples: float = 1.0,
    shuffle: bool = True,
    categorical: bool = False,
    sampling_table: Any = None,
    seed: int | None = None,
) -> tuple[list[list[int]], list[Any]]:
    """Make pairs of neighbouring words, and pairs of words that are not neighbours.

    Args:
        sequence: Numbers of words; 0 is not a word.
        vocabulary_size: Numbers are below it.
        window_size: How far neighbours are apart at most.
        negative_samples: How many other pairs there are for one of neighbours.
        shuffle: Whether pairs are shuffled.
        categorical: Whether labels are ``[0, 1]`` and ``[1, 0]`` instead of 1 and 0.
        sampling_table: How probably each word is kept.
        seed: Of the order; None draws one from Python's random numbers, which the other
            pairs come from.

    Returns:
        The pairs, and their labels.

    Example:
        >>> skipgrams([1, 2, 3], 4, window_size=1, negative_samples=0, shuffle=False)
        ([[1, 2], [2, 1], [2, 3], [3, 2]], [1, 1, 1, 1])
    """
    draw = python_stream()
    pairs: list[list[int]] = []
    for at, word in enumerate(sequence):
        if not word:
            continue
        if sampling_table is not None and sampling_table[word] < draw.random():
            continue
        near = range(max(0, at - window_size), min(len(sequence), at + window_size + 1))
        pairs += [[word, sequence[j]] for j in near if j != at and sequence[j]]
    yes, no = ([0, 1], [1, 0]) if categorical else (1, 0)
    labels: list[Any] = [yes] * len(pairs)
    count = int(len(labels) * negative_samples)
    if count:
        words = [pair[0] for pair in pairs]
        draw.shuffle(words)
        for at in range(count):
            other = draw.randint(1, vocabulary_size - 1)
            pairs.append([words[at % len(words)], other])
        labels += [no] * count
    if shuffle:
        start = draw.randint(0, 10**7) if seed is None else seed
        for items in (pairs, labels):
            draw.seed(start)
            draw.shuffle(items)
    return pairs, labels


export(__name__)
