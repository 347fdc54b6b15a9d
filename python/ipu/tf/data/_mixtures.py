# SPDX-License-Identifier: MIT
"""Methods of ``Dataset`` that take elements of several data sets, or of a random
source."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ipu import _core
from ipu._text.errors import InvalidArgumentError
from ipu._text.tracebacks import boundaries
from ipu.tf import nest
from ipu.tf.data import _live, _packed, _seeds, _structure
from ipu.tf.data._made_by import note
from ipu.tf.data._transformations import integer
from ipu.tf.tensor_spec import TensorSpec

if TYPE_CHECKING:
    from ipu.tf.data._dataset import Dataset

_Arrays = tuple["np.ndarray[Any, Any]", ...]
_DRAWN = 256  # random numbers that are made at once
_NEXT_PASS = 0x9E3779B97F4A7C15  # what sets the seeds of passes apart


@boundaries(after=note)
class Mixtures:
    """Mixed into :class:`Dataset`."""

    if TYPE_CHECKING:
        _impl: Any
        _structure: Any

    @staticmethod
    def counter(
        start: int = 0, step: int = 1, dtype: Any = None, name: str | None = None
    ) -> Dataset:
        """Count for ever.

        Args:
            start: The first number.
            step: What is added each time.
            dtype: dtype of the elements. Default int64.

        Returns:
            An endless data set of scalars.

        Example:
            >>> [int(x) for x in tf.data.Dataset.counter(3, 2).take(3)]
            [3, 5, 7]
        """
        from ipu.tf.data._dataset import INFINITE_CARDINALITY, Dataset

        del name
        first, more = integer(start, "start"), integer(step, "step")
        if more == 0:
            numbers = Dataset.from_tensors(np.int64(first)).repeat()
        else:
            limits = np.iinfo(np.int64)
            last = int(limits.max if more > 0 else limits.min)
            numbers = Dataset.range(first, last, more)
            numbers = numbers._assert_cardinality(INFINITE_CARDINALITY)
        if dtype is None:
            return numbers
        return numbers.map(lambda number: _cast(number, dtype))

    @staticmethod
    def random(
        seed: int | None = None,
        rerandomize_each_iteration: bool | None = None,
        name: str | None = None,
    ) -> Dataset:
        """Make random numbers for ever.

        Args:
            seed: An integer, for the same numbers in every run. None (default) draws
                one that follows ``tf.random.set_seed``.
            rerandomize_each_iteration: Whether each pass has numbers of its own; None:
                no.

        Returns:
            An endless data set of int64 scalars from 0 to 2^32 - 1; other numbers than
            TensorFlow's.

        Example:
            >>> numbers = tf.data.Dataset.random(seed=4).take(3)
            >>> [int(x) for x in numbers] == [int(x) for x in numbers]
            True
        """
        from ipu.tf.data._dataset import INFINITE_CARDINALITY, Dataset

        del name
        draws = random_numbers(seed, bool(rerandomize_each_iteration))

        def start() -> Iterator[_Arrays]:
            generator = draws()
            while True:
                for number in generator.integers(0, 1 << 32, _DRAWN):
                    yield (np.asarray(number),)

        impl = _core.Dataset.generator((("int64", ()),), start, INFINITE_CARDINALITY)
        return Dataset(impl, TensorSpec((), "int64"))

    @staticmethod
    def sample_from_datasets(
        datasets: Sequence[Any],
        weights: Any = None,
        seed: int | None = None,
        stop_on_empty_dataset: bool = False,
        rerandomize_each_iteration: bool | None = None,
    ) -> Dataset:
        """Take each element from one of several data sets, at random.

        Args:
            datasets: Data sets of one structure.
            weights: How probably each is taken, or a data set of such lists; None: all
                equally.
            seed: As for :meth:`random`.
            stop_on_empty_dataset: Whether the end of one data set is the end; else it
                goes on with the others.
            rerandomize_each_iteration: Whether each pass has an order of its own; None:
                yes.

        Returns:
            A data set of unknown cardinality.

        Raises:
            TypeError: Something that is not a data set, or elements of other kinds.
            ValueError: No data set, or another number of weights.

        Example:
            >>> ones, twos = (tf.data.Dataset.from_tensors(n).repeat() for n in (1, 2))
            >>> mixed = tf.data.Dataset.sample_from_datasets(
            ...     [ones, twos], weights=[0.0, 1.0])
            >>> [int(x) for x in mixed.take(3)]
            [2, 2, 2]
        """
        from ipu.tf.data._dataset import Dataset

        listed = _checked(datasets, "sample_from_datasets")
        again = rerandomize_each_iteration is None or bool(rerandomize_each_iteration)
        draws = random_numbers(seed, again)
        if isinstance(weights, Dataset):
            varying = weights
            used = [True] * len(listed)

            def choices() -> Iterator[int]:
                generator = draws()
                return map(
                    lambda row: _chosen(
                        np.cumsum(_shares(row, len(listed))), generator.random()
                    ),
                    varying.as_numpy_iterator(),
                )

        else:
            shares = _shares(weights, len(listed))
            used = [bool(share > 0) for share in shares]

            def choices() -> Iterator[int]:
                generator, edges = draws(), np.cumsum(shares)
                while True:
                    for number in generator.random(_DRAWN):
                        yield _chosen(edges, number)

        return _directed(listed, choices, bool(stop_on_empty_dataset), used)

    @staticmethod
    def choose_from_datasets(
        datasets: Sequence[Any], choice_dataset: Any, stop_on_empty_dataset: bool = True
    ) -> Dataset:
        """Take each element from one of several data sets, as another one says.

        Args:
            datasets: Data sets of one structure.
            choice_dataset: A data set of int64 scalars: the numbers of the data sets.
            stop_on_empty_dataset: Whether the end of one data set is the end; else it
                is passed over.

        Returns:
            A data set of unknown cardinality.

        Raises:
            TypeError: Something that is not a data set, or elements of other kinds;
                numbers that are not int64 scalars.
            ValueError: No data set.
            InvalidArgumentError: When an element is read: a number is that of none.

        Example:
            >>> named = [tf.data.Dataset.from_tensors(n).repeat() for n in (10, 20, 30)]
            >>> choice = tf.data.Dataset.range(3).repeat(2)
            >>> chosen = tf.data.Dataset.choose_from_datasets(named, choice)
            >>> [int(x) for x in chosen]
            [10, 20, 30, 10, 20, 30]
        """
        from ipu.tf.data._dataset import Dataset

        listed = _checked(datasets, "choose_from_datasets")
        if (
            not isinstance(choice_dataset, Dataset)
            or nest.is_nested(choice_dataset.element_spec)
            or choice_dataset.element_spec != TensorSpec((), "int64")
        ):
            raise TypeError(
                "`choice_dataset` should be a data set of scalar int64 tensors. "
                f"Received: {choice_dataset!r}."
            )

        def chosen(number: Any) -> int:
            if not 0 <= number < len(listed):
                raise InvalidArgumentError(
                    f"Selector index out of range: {number} >= {len(listed)}."
                )
            return int(number)

        def choices() -> Iterator[int]:
            return map(chosen, choice_dataset.as_numpy_iterator())

        used = [True] * len(listed)
        return _directed(listed, choices, bool(stop_on_empty_dataset), used)


def _cast(number: Any, dtype: Any) -> Any:
    from ipu import tf

    return tf.cast(number, dtype)


def random_numbers(seed: int | None, again: bool) -> Callable[[], np.random.Generator]:
    """The function that gives each pass its random numbers."""
    number = _seeds.for_shuffle() if seed is None else integer(seed, "seed")
    passes = 0

    def generator() -> np.random.Generator:
        nonlocal passes
        key = (number + passes * _NEXT_PASS) & 0xFFFFFFFFFFFFFFFF
        passes += again
        return np.random.Generator(np.random.Philox(key=key))

    return generator


def _checked(datasets: Any, what: str) -> list[Any]:
    from ipu.tf.data._dataset import Dataset

    listed = list(datasets)
    if not listed:
        raise ValueError(f"{what}: `datasets` must not be empty. Received: [].")
    for one in listed:
        if not isinstance(one, Dataset):
            raise TypeError(f"{what} takes data sets. Received: {one!r}.")
        try:
            nest.assert_same_structure(listed[0]._structure, one._structure)
            fits = _kinds(one) == _kinds(listed[0])
        except (TypeError, ValueError):
            fits = False
        if not fits:
            raise TypeError(
                f"{what}: all data sets must have compatible element specs. Received: "
                f"{listed[0]._structure!r} and {one._structure!r}."
            )
    return listed


def _kinds(dataset: Any) -> list[str]:
    return [spec.dtype.name for spec in nest.flatten(dataset._structure)]


def _shares(weights: Any, count: int) -> np.ndarray[Any, Any]:
    made = np.ones(count) if weights is None else np.array(weights, np.float64)
    if made.shape != (count,) or (made < 0).any() or not made.sum() > 0:
        raise ValueError(
            "`weights` must be a probability for each data set, of which there are "
            f"{count}. Received: weights={weights!r}."
        )
    return made


def _chosen(edges: np.ndarray[Any, Any], number: float) -> int:
    """The number of the share in which a number from 0 to 1 lies."""
    at = np.searchsorted(edges, number * edges[-1], side="right")
    return int(min(at, len(edges) - 1))


def _directed(
    datasets: list[Any],
    choices: Callable[[], Iterator[int]],
    stop: bool,
    used: list[bool],
) -> Dataset:
    """The elements of several data sets in the order of the numbers."""
    from ipu.tf.data._dataset import Dataset

    structure = nest.map_structure(_common, *(one._structure for one in datasets))
    types = tuple(_structure.core_spec(spec) for spec in nest.flatten(structure))

    def start() -> Iterator[_Arrays]:
        sources = [_live.start_iterator(one._impl) for one in datasets]
        left = {at for at, is_used in enumerate(used) if is_used}
        return map(_packed.row_of, _Directed(sources, choices(), left, stop))

    return Dataset(_core.Dataset.generator(types, start), structure)


class _Directed(Iterator[Any]):
    """Elements of several iterators in the order of the numbers.

    Args:
        sources: The iterators.
        choices: The numbers.
        left: The numbers of those that have elements, perhaps.
        stop: Whether the end of one is the end.
    """

    def __init__(
        self, sources: list[Any], choices: Iterator[int], left: set[int], stop: bool
    ) -> None:
        self._sources, self._choices = sources, choices
        self._left, self._stop = left, stop

    def __next__(self) -> Any:
        for at in self._choices:
            element = next(self._sources[at], None) if at in self._left else None
            if element is not None:
                return element
            self._left.discard(at)
            if self._stop or not self._left:
                break
        raise StopIteration


def _common(*specs: Any) -> Any:
    """The spec of what one of several data sets gives."""
    first = specs[0]
    if isinstance(first, _packed.DatasetSpec) or all(one == first for one in specs):
        return first
    ranks = {None if one.shape is None else len(one.shape) for one in specs}
    if len(ranks) > 1 or None in ranks:
        return _structure.UnknownShapeSpec(first.dtype)
    sizes = zip(*(one.shape for one in specs), strict=True)
    shape = [each[0] if len(set(each)) == 1 else None for each in sizes]
    return TensorSpec(shape, first.dtype)
