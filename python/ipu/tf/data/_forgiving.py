# SPDX-License-Identifier: MIT
"""Methods of ``Dataset`` that leave errors out, or join the elements of a key."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from ipu import _core, tf
from ipu._text.log import logger
from ipu._text.tracebacks import boundaries
from ipu.tf import nest
from ipu.tf.data import _live, _packed, _structure
from ipu.tf.data._host_map import HostFunction
from ipu.tf.data._made_by import note

if TYPE_CHECKING:
    from ipu.tf.data._dataset import Dataset

_Arrays = tuple["np.ndarray[Any, Any]", ...]
_MOST_FAILURES = 1000  # one after the other, where nobody knows how many there are


class Reducer:
    """How the elements of one key become one element.

    Args:
        init_func: Gets a key, an int64 scalar; gives the state of no element.
        reduce_func: Gets a state and an element; gives the next state.
        finalize_func: Gets the last state; gives the element.

    Example:
        >>> total = Reducer(lambda key: np.int64(0), lambda s, x: s + x, lambda s: s)
        >>> sums = tf.data.Dataset.range(6).group_by_reducer(lambda x: x % 2, total)
        >>> [int(x) for x in sums]
        [6, 9]
    """

    def __init__(
        self,
        init_func: Callable[[Any], Any],
        reduce_func: Callable[[Any, Any], Any],
        finalize_func: Callable[..., Any],
    ) -> None:
        for name, function in (
            ("init_func", init_func),
            ("reduce_func", reduce_func),
            ("finalize_func", finalize_func),
        ):
            if not callable(function):
                raise TypeError(f"`{name}` must be callable. Received: {function!r}.")
        self.init_func = init_func
        self.reduce_func = reduce_func
        self.finalize_func = finalize_func


@boundaries(after=note)
class Forgiving:
    """Mixed into :class:`Dataset`."""

    if TYPE_CHECKING:
        _impl: Any
        _structure: Any

        def _then(self, impl: Any) -> Dataset: ...

    def ignore_errors(
        self, log_warning: bool = False, name: str | None = None
    ) -> Dataset:
        """Leave out the elements that fail when they are read.

        An error belongs to its element: reading goes on after it, whatever made it.
        A Python generator that raises has no further elements; an iterator may.

        Args:
            log_warning: Whether each error is written to the log.

        Returns:
            A data set of unknown cardinality.

        Raises:
            OpError: When an element is read: 1000 in a row fail.

        Example:
            >>> numbers = tf.data.Dataset.from_tensor_slices(["1", "one", "3"])
            >>> [float(x) for x in numbers.map(tf.strings.to_number).ignore_errors()]
            [1.0, 3.0]
        """
        del name
        impl = self._impl
        types = tuple(
            _structure.core_spec(spec) for spec in nest.flatten(self._structure)
        )
        return self._then(
            _core.Dataset.generator(types, lambda: _Readable(impl, log_warning))
        )

    def group_by_reducer(
        self,
        key_func: Callable[..., Any],
        reducer: Reducer,
        name: str | None = None,
    ) -> Dataset:
        """Make one element of all elements of a key.

        Args:
            key_func: Gets an element, gives its key, an integer.
            reducer: A ``tf.data.experimental.Reducer``.

        Returns:
            A data set of unknown cardinality, in the order of the keys.

        Raises:
            TypeError: ``key_func`` or ``reducer`` is none.
            ValueError: There is no element to learn the structure from; or, when an
                element is read, a key is not an integer.

        Example: :class:`Reducer`.
        """
        from ipu.tf.data._dataset import Dataset

        del name
        if not callable(key_func):
            raise TypeError(f"`key_func` must be callable. Received: {key_func!r}.")
        if not isinstance(reducer, Reducer):
            raise TypeError(
                "`reducer` must be a tf.data.experimental.Reducer. "
                f"Received: {reducer!r}."
            )
        impl, structure = self._impl, self._structure
        key_of = HostFunction("group_by_reducer", key_func, 0)
        step = HostFunction("group_by_reducer", reducer.reduce_func, 0)
        last = HostFunction("group_by_reducer", reducer.finalize_func, 0)

        def started(key: int) -> Any:
            first = reducer.init_func(_core.Tensor(np.int64(key)))
            return _structure.map_leaves(tf.convert_to_tensor, first)

        def key(number: int, element: Any) -> int:
            found = np.asarray(key_of(number, element))
            if found.shape != () or found.dtype.kind not in "iu":
                raise ValueError(
                    "`key_func` must return a scalar integer tensor. "
                    f"Received: {found!r}."
                )
            return int(found)

        def results(elements: Iterator[Any]) -> Iterator[Any]:
            states: dict[int, Any] = {}
            numbered = enumerate(elements)

            def next_key() -> int | None:
                for number, element in numbered:
                    place = key(number, element)
                    old = states[place] if place in states else started(place)
                    states[place] = step.nest_of(number, (old, element))
                return min(states, default=None)

            keys = iter(next_key, None)
            return map(lambda place: last.nest_of(0, states.pop(place)), keys)

        unpacked = _packed.unpacker(structure)
        samples = _live.first_results(
            impl, lambda tensors: next(results(iter([unpacked(tensors)])))
        )
        if not samples:
            raise ValueError(
                "group_by_reducer cannot tell what its functions give, as there is no "
                "element to call them with."
            )
        made = nest.map_structure(_packed.spec_of_value, samples[0])
        specs = nest.flatten(made)

        def packed(element: Any) -> _Arrays:
            return tuple(map(_packed.pack, specs, nest.flatten(element)))

        def start() -> Iterator[_Arrays]:
            return map(packed, results(_packed.elements(impl, structure)))

        types = tuple(_structure.core_spec(spec) for spec in specs)
        return Dataset(_core.Dataset.generator(types, start), made)


class _Readable(Iterator[_Arrays]):
    """The rows of a data set that can be read."""

    def __init__(self, impl: Any, log_warning: bool) -> None:
        self._rows, self._log_warning = _packed.packed_rows(impl), log_warning

    def __next__(self) -> _Arrays:
        for _ in range(_MOST_FAILURES - 1):
            try:
                return next(self._rows)
            except StopIteration:
                raise
            except Exception as error:
                if self._log_warning:
                    logger.warning("ignore_errors leaves out an element: %s", error)
        return next(self._rows)
