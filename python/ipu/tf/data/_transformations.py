# SPDX-License-Identifier: MIT
"""The transformations of ``Dataset``, one method each."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, TypeVar

from ipu import tf
from ipu._text.tracebacks import boundaries
from ipu.tf import nest
from ipu.tf._string_ops.host_only import HostOnlyError, NoShapeError
from ipu.tf.data import _host_map, _live, _packed, _rows, _seeds, _structure
from ipu.tf.data._host_map import HostFunction
from ipu.tf.data._made_by import note
from ipu.tf.data._map import Mapped
from ipu.tf.data._parallel import calls_of

_PEEKS = 8  # elements that say which sizes vary, where values say them
_Self = TypeVar("_Self", bound="Transformations")


def integer(value: Any, name: str) -> int:
    """Give ``value``, an integer or integer scalar tensor, as an int."""
    if hasattr(value, "numpy"):
        value = value.numpy()
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(
            f"{name} must be an integer. Received: {name}={value!r}."
        ) from None


@boundaries(after=note)
class Transformations:
    """What a data set can be turned into; mixed into :class:`Dataset`."""

    _impl: Any
    _structure: Any
    _example: tuple[Any, ...] | None
    # what was cut into batches, into how large ones, and how often that is passed over:
    # known where this is `batch`, perhaps repeated, and nothing else
    _batches: tuple[Any, int, int] | None = None

    def __init__(self, impl: Any, structure: Any, example: Any = None) -> None:
        """Wrap a ``_core.Dataset``; users call the ``from_...`` methods.

        Args:
            impl: The core's data set.
            structure: Nest of TensorSpec.
            example: Concrete core specs of a likely element, where not all are known.
        """
        self._impl = impl
        self._structure = structure
        self._example = example

    def _then(self: _Self, impl: Any) -> _Self:
        """Wrap a transformation that leaves elements as they are."""
        return type(self)(impl, self._structure, self._example)

    def _concrete(self) -> tuple[Any, ...] | None:
        """Core specs of a likely element, if they are known without reading one."""
        specs = tuple(_structure.core_spec(s) for s in nest.flatten(self._structure))
        known = all(shape is not None and None not in shape for _, shape in specs)
        return specs if known else self._example

    def _peek(self) -> tuple[Any, ...] | None:
        def specs_of(element: Any) -> tuple[Any, ...]:
            return tuple((tf.as_dtype(t.dtype).name, tuple(t.shape)) for t in element)

        found = _live.first_results(self._impl, specs_of)
        return found[0] if found else None

    def shuffle(
        self: _Self,
        buffer_size: int,
        seed: int | None = None,
        reshuffle_each_iteration: bool | None = True,
        name: str | None = None,
    ) -> _Self:
        """Shuffle over a window that slides over the data set.

        The window is filled with the first ``buffer_size`` elements; each step gives
        one of them, chosen uniformly, and takes the next element in its place. For a
        full shuffle make it as large as the data set: over arrays it holds references,
        not copies.

        Args:
            buffer_size: Elements in the window, at least 1.
            seed: An integer, for the same order in every run. None (default) draws one
                that follows ``tf.random.set_seed``.
            reshuffle_each_iteration: Whether each pass has an order of its own, a
                function of the seed and the number of the pass. Default True.

        Returns:
            A data set of the same elements.

        Raises:
            InvalidArgumentError: ``buffer_size`` is less than 1.
            TypeError: ``buffer_size`` or ``seed`` is not an integer.

        Example:
            >>> dataset = tf.data.Dataset.range(4).shuffle(4, seed=1)
            >>> sorted(int(x) for x in dataset)
            [0, 1, 2, 3]
        """
        del name
        size = integer(buffer_size, "buffer_size")
        number = _seeds.for_shuffle() if seed is None else integer(seed, "seed")
        reshuffle = reshuffle_each_iteration is None or bool(reshuffle_each_iteration)
        number &= 0xFFFFFFFFFFFFFFFF
        return self._then(self._impl.shuffle(size, number, reshuffle))

    def batch(
        self: _Self,
        batch_size: int,
        drop_remainder: bool = False,
        num_parallel_calls: int | None = None,
        deterministic: bool | None = None,
        name: str | None = None,
    ) -> _Self:
        """Stack consecutive elements along a new first axis.

        Args:
            batch_size: Elements in a batch, at least 1.
            drop_remainder: Whether a last batch of fewer elements is dropped. Devices
                need batches of one size. Default False.
            num_parallel_calls: Accepted for compatibility.
            deterministic: Accepted for compatibility.

        Returns:
            A data set of batches. In its ``element_spec`` the first size is
            ``batch_size`` with ``drop_remainder``, else None.

        Raises:
            InvalidArgumentError: ``batch_size`` is less than 1; or, when an element is
                read, the elements of a batch differ in shape.
            TypeError: ``batch_size`` is not an integer.

        Example:
            >>> [x.numpy().tolist() for x in tf.data.Dataset.range(5).batch(2)]
            [[0, 1], [2, 3], [4]]
        """
        del num_parallel_calls, deterministic, name
        size = integer(batch_size, "batch_size")
        packed = _packed.has_packed(self._structure)
        if packed or _packed.has_composite(self._structure):
            batched = _rows.batched(self._impl, self._structure, size, drop_remainder)
            return type(self)(*batched)
        impl = self._impl.batch(size, bool(drop_remainder))
        concrete = self._concrete()
        structure = nest.pack_sequence_as(
            self._structure, [_structure.spec_of(spec) for spec in impl.types]
        )
        example = concrete and tuple((d, (size, *shape)) for d, shape in concrete)
        made = type(self)(impl, structure, example)
        made._batches = (self, size, 1)
        return made

    def map(
        self: _Self,
        map_func: Callable[..., Any],
        num_parallel_calls: int | None = None,
        deterministic: bool | None = None,
        name: str | None = None,
    ) -> _Self:
        """Apply a function to each element.

        The function is traced: it is called with symbolic tensors and its ops are
        compiled into a program that C runs for each element. Where elements hold
        strings or data sets, or the function makes strings or calls Python
        (``tf.py_function``, ``tf.print``), Python calls it for each element with eager
        tensors, and for the first one right away, to learn what it gives. A tuple is
        passed as several arguments, a dict or named tuple as one. Random ops give new
        numbers for each element of each pass, the same in every run under
        ``tf.random.set_seed``.

        Args:
            map_func: Gets an element, returns a tensor, or a tuple or dict of tensors;
                a list counts as a tuple, and Python numbers become tensors.
            num_parallel_calls: How many calls by Python run at once, in threads of
                theirs; AUTOTUNE for one by processor where calls are long. It gains
                where the function reads and decodes files. Traced functions take no
                notice.
            deterministic: Accepted for compatibility; the order is always kept.

        Returns:
            A data set of what ``map_func`` returns.

        Raises:
            TypeError: ``map_func`` cannot be called or returns no tensors.
            ValueError: ``num_parallel_calls`` is not a positive number.
            Exception: Whatever ``map_func`` raises while it is traced.

        Example:
            >>> dataset = tf.data.Dataset.range(3).map(lambda x: x * x)
            >>> [int(x) for x in dataset]
            [0, 1, 4]
        """
        del deterministic, name
        calls = calls_of(num_parallel_calls)
        if not callable(map_func):
            raise TypeError(f"map_func must be callable. Received: {map_func!r}.")
        if _packed.has_packed(self._structure):
            peeks = _PEEKS if _packed.has_composite(self._structure) else 0
            return self._map_by_python(map_func, calls, peeks)
        try:
            mapped = Mapped(map_func, self._structure, self._example, self._peek)
        except NoShapeError:
            return self._map_by_python(map_func, calls, _PEEKS)
        except HostOnlyError:
            return self._map_by_python(map_func, calls)
        specs = tuple(_structure.core_spec(s) for s in nest.flatten(mapped.structure))
        impl = self._impl.map(specs, mapped.compile, _seeds.for_map())
        return type(self)(impl, mapped.structure, mapped.example)

    def _map_by_python(
        self: _Self, function: Callable[..., Any], calls: int, peeks: int = 0
    ) -> _Self:
        called = HostFunction("map", function, _seeds.for_map(), peeks)
        made = _host_map.mapped(self._impl, self._structure, called, calls)
        return type(self)(*made)

    def repeat(self: _Self, count: int | None = None, name: str | None = None) -> _Self:
        """Go over the data set several times.

        Args:
            count: Passes. None (default) or -1: for ever.

        Returns:
            A data set of ``count`` times as many elements.

        Example:
            >>> [int(x) for x in tf.data.Dataset.range(2).repeat(2)]
            [0, 1, 0, 1]
        """
        del name
        number = -1 if count is None else integer(count, "count")
        made = self._then(self._impl.repeat(number))
        if self._batches is not None and self._batches[2] == 1:
            made._batches = (*self._batches[:2], number)
        return made

    def _repeat_from(self: _Self, count: int, first: int) -> _Self:
        """As ``repeat(count)``, with passes of given numbers, whatever was read before.

        Args:
            count: Passes; -1: for ever.
            first: The number of the first one.
        """
        return self._then(self._impl.repeat_from(count, first))

    def take(self: _Self, count: int, name: str | None = None) -> _Self:
        """Keep the first elements.

        Args:
            count: At most as many; -1: all.

        Returns:
            A data set of at most ``count`` elements.

        Example:
            >>> [int(x) for x in tf.data.Dataset.range(9).take(2)]
            [0, 1]
        """
        del name
        return self._then(self._impl.take(integer(count, "count")))

    def skip(self: _Self, count: int, name: str | None = None) -> _Self:
        """Leave out the first elements.

        Args:
            count: How many; -1: all.

        Returns:
            A data set of the rest.

        Example:
            >>> [int(x) for x in tf.data.Dataset.range(5).skip(3)]
            [3, 4]
        """
        del name
        return self._then(self._impl.skip(integer(count, "count")))

    def prefetch(self: _Self, buffer_size: int, name: str | None = None) -> _Self:
        """Make elements ahead of their use, in a thread.

        Args:
            buffer_size: Elements made ahead; ``tf.data.AUTOTUNE``: a few; 0: none.

        Returns:
            A data set of the same elements.

        Example:
            >>> [int(x) for x in tf.data.Dataset.range(3).prefetch(1)]
            [0, 1, 2]
        """
        del name
        made = self._then(self._impl.prefetch(integer(buffer_size, "buffer_size")))
        made._batches = self._batches
        return made
