# SPDX-License-Identifier: MIT
"""Data sets of TensorFlow 1: with iterators as methods, and made from what is fed.

A data set that takes a tensor of a graph (arrays that are fed, a batch size) is kept as
the calls that make it. They are made when its iterator's initializer is run.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from ipu.tf import data as _data, nest
from ipu.tf._graph import mode
from ipu.tf._graph.frame import constant_value, is_symbol, symbols_in
from ipu.tf.tensor_spec import TensorSpec

# sizes and numbers that are tried for what is not fed yet
_TRIALS = (2, 3)


def _spec_of(dataset: Any) -> Any:
    return dataset.element_spec


class _Iterators:
    """What data sets of TensorFlow 1 have besides."""

    def make_one_shot_iterator(self) -> Any:
        """Return an iterator that begins by itself."""
        from ipu.tf.compat.v1.data import make_one_shot_iterator

        return make_one_shot_iterator(self)

    def make_initializable_iterator(self, shared_name: str | None = None) -> Any:
        """Return an iterator that begins a pass when its initializer is run."""
        from ipu.tf.compat.v1.data import make_initializable_iterator

        return make_initializable_iterator(self, shared_name)

    @property
    def output_types(self) -> Any:
        """The nest of dtypes of an element."""
        return nest.map_structure(lambda spec: spec.dtype, _spec_of(self))

    @property
    def output_shapes(self) -> Any:
        """The nest of shapes of an element."""
        return nest.map_structure(lambda spec: spec.shape, _spec_of(self))


class PendingDataset(_Iterators):
    """The call that will make a data set, once what it takes is fed.

    Args:
        args: Its arguments: among them tensors of a graph, and other such data sets.

    Example:
        >>> with v1.Graph().as_default():
        ...     rows = v1.placeholder(v1.float32, [None, 3])
        ...     dataset = v1.data.Dataset.from_tensor_slices(rows).batch(2)
        ...     print(type(dataset).__name__, dataset.output_shapes)
        PendingDataset (None, 3)
    """

    is_pending = True  # queues ask

    def __init__(
        self, function: Callable[..., Any], args: Any, kwargs: dict[str, Any]
    ) -> None:
        self._call = function, args, kwargs

    @property
    def inputs(self) -> list[Any]:
        """The tensors of the graph that it takes."""
        _, args, kwargs = self._call
        own = symbols_in((args, kwargs))
        before = [
            tensor
            for leaf in nest.flatten((args, kwargs))
            if isinstance(leaf, PendingDataset)
            for tensor in leaf.inputs
        ]
        return list(dict.fromkeys([*before, *own]))

    def made(self, values: dict[int, Any]) -> Any:
        """Return the data set."""
        function, args, kwargs = self._call

        def value_of(leaf: Any) -> Any:
            if isinstance(leaf, PendingDataset):
                return leaf.made(values)
            return values[id(leaf)] if is_symbol(leaf) else leaf

        with mode.suspended():
            return function(
                *nest.map_structure(value_of, tuple(args)),
                **{key: nest.map_structure(value_of, kwargs[key]) for key in kwargs},
            )

    def fed(self, *values: Any) -> Any:
        """Return the data set of what a run feeds.

        Args:
            *values: A tensor for each of :attr:`inputs`.
        """
        arrays = [np.asarray(value)[()] for value in values]
        ids = [id(tensor) for tensor in self.inputs]
        return self.made(dict(zip(ids, arrays, strict=True)))

    @property
    def element_spec(self) -> Any:
        """The nest of ``TensorSpec`` of an element, as far as it is known.

        Raises:
            ValueError: A tensor that it takes has no number of axes.
        """
        one, other = (
            self.made({id(t): _tried(t, size) for t in self.inputs}).element_spec
            for size in _TRIALS
        )
        return nest.map_structure(_common, one, other)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        function = getattr(_data.Dataset, name)
        return lambda *args, **kwargs: PendingDataset(function, (self, *args), kwargs)


def _tried(tensor: Any, size: int) -> Any:
    if tensor.shape.rank is None:
        raise ValueError(
            f"A data set is made of {tensor!r}, whose shape is not known. Give the "
            "placeholder one, with None for sizes that vary."
        )
    shape = [size if one is None else one for one in tensor.shape.as_list()]
    if tensor.dtype.name == "string":
        return np.full(shape, b"", object)[()]
    return np.full(shape, size, tensor.dtype.as_numpy_dtype)[()]


def _common(one: TensorSpec, other: TensorSpec) -> TensorSpec:
    if one.shape is None or other.shape is None or len(one.shape) != len(other.shape):
        return TensorSpec(None, one.dtype)
    pairs = zip(one.shape, other.shape, strict=True)
    return TensorSpec([a if a == b else None for a, b in pairs], one.dtype)


class Dataset(_Iterators, _data.Dataset):
    """A data set, with iterators as methods; it may be made of what is fed.

    Example:
        >>> with v1.Graph().as_default(), v1.Session() as session:
        ...     rows = v1.placeholder(v1.float32, [None])
        ...     dataset = v1.data.Dataset.from_tensor_slices(rows)
        ...     doubled = dataset.map(lambda x: x * 2.0)
        ...     iterator = doubled.make_initializable_iterator()
        ...     following = iterator.get_next()
        ...     session.run(iterator.initializer, {rows: [1.0, 3.0]})
        ...     print(session.run(following), session.run(following))
        2.0 6.0
    """


def kept(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that makes a data set of TensorFlow 1, or keeps the call."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        leaves = nest.flatten((args, kwargs))
        if any(is_symbol(leaf) or isinstance(leaf, PendingDataset) for leaf in leaves):
            with mode.suspended():
                return _fixed_or_pending(function, args, kwargs)
        return _as_old(function(*args, **kwargs))

    return call


def _fixed_or_pending(
    function: Callable[..., Any], args: Any, kwargs: dict[str, Any]
) -> Any:
    """Return the data set where all tensors are constants, else the call."""
    leaves = nest.flatten((args, kwargs))
    symbols = [leaf for leaf in leaves if is_symbol(leaf)]
    values = {id(leaf): constant_value(leaf) for leaf in symbols}
    pending = PendingDataset(function, args, kwargs)
    is_open = any(value is None for value in values.values())
    if is_open or any(isinstance(x, PendingDataset) for x in leaves):
        return pending
    return _as_old(pending.made(values))


def _as_old(dataset: Any) -> Any:
    if not isinstance(dataset, _data.Dataset) or isinstance(dataset, Dataset):
        return dataset
    made = object.__new__(Dataset)
    made.__dict__.update(dataset.__dict__)
    return made


def _add_methods() -> None:
    for name in dir(_data.Dataset):
        member = inspect.getattr_static(_data.Dataset, name)
        if name.startswith("_") or isinstance(member, property):
            continue
        function = getattr(_data.Dataset, name)
        is_static = isinstance(member, staticmethod)
        if callable(function):
            call = kept(function)
            setattr(Dataset, name, staticmethod(call) if is_static else call)


_add_methods()
