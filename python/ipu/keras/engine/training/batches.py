# SPDX-License-Identifier: MIT
"""Batches for the device: arrays cut up, data sets as they come.

A program takes batches of one size. Where the IPU's rules do not hold, the last batch
of a pass may be smaller: it is filled up to the size of the others, and a program of
its own takes the rows that count. Data sets whose shapes vary otherwise are read on the
host, batch by batch.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ipu import tf
from ipu.keras._random_state import Order
from ipu.keras._types import Nest
from ipu.keras.engine.training.host_sources import DatasetSource, HostSource
from ipu.keras.engine.training.misfits import Data, Numbers, misfit, other_ways
from ipu.keras.engine.training.step_plan import INFINITE, UNKNOWN, positive
from ipu.tf.dtypes import DEVICE_DTYPES


class Batches(NamedTuple):
    """Batches of data.

    Attributes:
        dataset: A data set with device dtypes; with known shapes unless ``is_open``;
            None where the data are not a data set.
        cardinality: How many batches, or INFINITE or UNKNOWN.
        of_pass: Batches of one pass over the data, where its last one is partial.
        tail: Rows of that last batch which count; 0: all batches are full.
        is_endless: Whether the data start again at their end: arrays.
        is_open: Whether shapes, or the number of batches, show when they are read.
        read_by_host: The data that the host reads where there is no data set.
    """

    dataset: Any
    cardinality: int
    of_pass: int = 0
    tail: int = 0
    is_endless: bool = False
    is_open: bool = False
    read_by_host: HostSource | None = None

    def as_read(self, first: int | None = None) -> HostSource:
        """Return the batches for the host to read.

        Args:
            first: The number of the first pass over a data set; None: it goes on with
                those that it has had.
        """
        if self.read_by_host is not None:
            return self.read_by_host
        return DatasetSource(self.dataset, self.of_pass, self.tail, first)


# --- arrays -------------------------------------------------------------------------


def from_arrays(
    arrays: tuple[Nest, ...],
    batch_size: int | None,
    shuffle: bool | str,
    steps: int | None,
    call: str | None,
    order: Order,
) -> Batches:
    """Cut arrays of one length into batches.

    Args:
        arrays: Inputs, targets and weights, as far as they are there.
        batch_size: Samples in a batch; None for ``steps`` batches, else for 32 samples.
        shuffle: Whether they are shuffled anew in every pass; ``"batch"``: whole
            batches.
        steps: The steps of a pass, or None.
        call: The user's call where the IPU's rules hold, else None.
        order: Has the seed of the shuffle.
    """
    samples = common_length(arrays)
    is_default = batch_size is None
    if batch_size is None:
        batch_size = math.ceil(samples / steps) if steps else min(32, samples)
    size = positive(batch_size, "batch_size")
    if call is not None and samples % size != 0:
        cut = f"batch_size={size}"
        if is_default:
            cut = f"no batch_size, so batches of {size}"
        which = " of validation_data" if call == "validation_data" else ""
        error = ValueError(
            "The provided set of data has a partial batch, which could result in data "
            f"being dropped. Received: {samples} samples{which} and {cut}, which "
            f"leaves {samples % size}."
        )
        data = Data(samples, size, samples // size)
        raise misfit(error, rest=other_ways(Numbers(data, call=call)))
    size = min(size, samples)
    tail = samples % size
    rows = tf.data.Dataset._slices_held(element_of(arrays))
    filling = rows.take(size - tail)
    if shuffle == "batch":
        full = rows.batch(size, drop_remainder=True)
        dataset = full.shuffle(samples // size, seed=order.seed)
        if tail:
            last = rows.skip(samples - tail).concatenate(filling)
            dataset = dataset.concatenate(last.batch(size, drop_remainder=True))
    else:
        if shuffle:
            rows = rows.shuffle(samples, seed=order.seed)
        if tail:
            rows = rows.concatenate(filling)
        dataset = rows.batch(size, drop_remainder=True)
    count = math.ceil(samples / size)
    return Batches(dataset, count, count, tail, is_endless=True)


def element_of(arrays: tuple[Nest, ...]) -> Nest:
    """Return inputs alone, unless they are a nest that looks like (x, y); else all
    parts."""
    alone = len(arrays) == 1 and not isinstance(arrays[0], (list, tuple))
    return arrays[0] if alone else arrays


def common_length(arrays: tuple[Nest, ...]) -> int:
    """Find how many samples arrays have."""
    leaves = tf.nest.flatten(arrays)
    for leaf in leaves:
        if leaf.ndim == 0:
            raise ValueError(
                "Arrays of data need a first axis of samples. Received: a scalar."
            )
    sizes = sorted({leaf.shape[0] for leaf in leaves})
    if len(sizes) != 1:
        lines = "\n".join(
            f"  {name} sizes: {', '.join(str(v.shape[0]) for v in tf.nest.flatten(a))}"
            for name, a in zip(("x", "y", "sample_weight"), arrays, strict=False)
        )
        raise ValueError(
            f"Data cardinality is ambiguous:\n{lines}\nMake sure all arrays contain "
            "the same number of samples."
        )
    if sizes[0] == 0:
        raise TypeError(
            "dataset length is unknown: the arrays are empty. Received: 0 samples."
        )
    return int(sizes[0])


# --- data sets ----------------------------------------------------------------------


def from_dataset(dataset: Any, steps: int | None, call: str | None) -> Batches:
    """Take a data set of batches.

    Args:
        call: The user's call where the IPU's rules hold, else None.
    """
    leaves = tf.nest.flatten(dataset.element_spec)
    is_strict = call is not None
    is_open = False
    for leaf in leaves:
        if leaf.shape is not None and leaf.shape.rank == 0:
            drops = is_strict and call != "predict"
            rest = ", drop_remainder=True" if drops else ""
            raise ValueError(
                "The elements of the data set must be batches, but there is a scalar "
                f"among them. Use Dataset.batch(batch_size{rest})."
            )
        is_open = is_open or not _is_known(leaf)
        if is_open and is_strict:
            raise ValueError(
                f"The data set has a shape that is not fully defined: {leaf.shape}. "
                f"{_way_to_one_size(call)}: programs are compiled for one batch size."
            )
    count = int(dataset.cardinality())
    even = _evened_out(dataset) if is_open else None
    is_open = is_open and even is None
    dataset, of_pass, tail = even or (dataset, 0, 0)
    return Batches(
        cast_elements(dataset),
        count,
        of_pass,
        tail,
        is_open=is_open or (count == UNKNOWN and steps is None and not is_strict),
    )


def _way_to_one_size(call: str | None) -> str:
    if call == "predict":  # nobody wants to lose results
        return (
            "Let the number of samples be a multiple of the batch size, for example "
            "with more samples at the end whose results you drop, and use "
            "Dataset.batch with `drop_remainder=True`"
        )
    return "If you use Dataset.batch, make sure to set `drop_remainder=True`"


def _is_known(spec: Any) -> bool:
    return spec.shape is not None and bool(spec.shape.is_fully_defined())


def _evened_out(dataset: Any) -> tuple[Any, int, int] | None:
    """Return the same batches with the last one of each pass filled up with zeros.

    Returns:
        The data set, the batches of a pass, and the rows of the last one that count;
        None where it is not known that only the last batch is smaller.
    """
    if dataset._batches is None:
        return None
    rows, size, passes = dataset._batches
    specs = tf.nest.flatten(rows.element_spec)
    samples = int(rows.cardinality())
    if samples in (0, UNKNOWN) or not all(map(_is_known, specs)):
        return None
    is_endless = samples == INFINITE
    size = size if is_endless else min(size, samples)
    tail = 0 if is_endless else samples % size
    if tail:
        zeros = [np.zeros(spec.shape, spec.dtype.as_numpy_dtype) for spec in specs]
        filling = tf.data.Dataset.from_tensors(
            tf.nest.pack_sequence_as(rows.element_spec, zeros)
        )
        rows = rows.concatenate(filling.repeat(size - tail))
    even = rows.batch(size, drop_remainder=True)
    if passes != 1:
        even = even.repeat(passes)
    return even, math.ceil(samples / size), tail


def cast_elements(dataset: Any) -> Any:
    """Return the data set with dtypes of devices: float32 and int32 for others."""
    leaves = tf.nest.flatten(dataset.element_spec)
    if all(leaf.dtype.name in DEVICE_DTYPES for leaf in leaves):
        return dataset

    def cast(leaf: Any) -> Any:
        dtype = tf.as_dtype(leaf.dtype)
        if dtype.name in DEVICE_DTYPES:
            return leaf
        if not (dtype.is_floating or dtype.is_integer):
            raise TypeError(
                "The data set has a dtype that no device has. Received: "
                f"{dtype.name}. Map it to numbers."
            )
        return tf.cast(leaf, "float32" if dtype.is_floating else "int32")

    is_tuple = isinstance(dataset.element_spec, tuple)

    def function(*element: Any) -> Any:
        whole = element if is_tuple else element[0]
        return tf.nest.map_structure(cast, whole)

    return dataset.map(function)


class Passes:
    """The passes of a run over its data.

    An epoch is a whole pass, or the epochs go on in a stream of passes.

    Args:
        order: The order of the model's training data.
        batches: The data.
        of_epoch: Batches of an epoch; None: all that there are.
        resumed: Epochs that were run before the run was stopped.

    Attributes:
        first: The number of the first pass.
        behind: Batches of the stream that were used before the run was stopped.
    """

    def __init__(
        self, order: Order, batches: Batches, of_epoch: int | None, resumed: int
    ) -> None:
        self._order = order
        in_stream = None if of_epoch == batches.cardinality else of_epoch
        self._has_whole = in_stream is None
        self._of_pass = batches.cardinality if batches.is_endless else 0
        self.first = order.passes
        self.behind = 0 if in_stream is None else resumed * in_stream
        self._taken = self.behind

    def read(self, dataset: Any, count: int) -> Any:
        """Return the data from where the run begins.

        Args:
            dataset: The data set of one pass.
            count: How many passes; -1: for ever.
        """
        dataset = dataset._repeat_from(count, self.first)
        return dataset.skip(self.behind) if self.behind else dataset

    def took(self, batches: int) -> None:
        """Count batches that were trained on."""
        self._taken += batches

    def end_epoch(self) -> None:
        """Count the pass of an epoch that has ended."""
        if self._has_whole:
            self._order.passes += 1

    def end(self) -> None:
        """Count the passes of a stream: the run has ended, the next one begins a new
        pass."""
        if not self._has_whole and self._taken:
            # a data set that repeats by itself is one pass
            passes = -(-self._taken // self._of_pass) if self._of_pass > 0 else 1
            self._order.passes = self.first + passes
