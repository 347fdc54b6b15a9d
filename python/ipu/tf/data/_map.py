# SPDX-License-Identifier: MIT
"""``Dataset.map``: the user's function traced into host programs.

The function is traced once for each concrete tuple of input types. Where all sizes are
known that is once, when ``map`` is called; otherwise it is traced for two likely sizes
to see which sizes of its results vary, and again for further sizes as they come.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ipu import tf
from ipu.tf import nest
from ipu.tf._functions import function as _function
from ipu.tf._string_ops.host_only import HostOnlyError
from ipu.tf._string_ops.tensors import is_text
from ipu.tf.data import _structure

_Core = tuple[str, tuple[int, ...]]


class Mapped:
    """A map function over elements of one structure, with its programs.

    Args:
        structure: Nest of TensorSpec of the input elements.
        example: Concrete core specs of a likely element, or None.
        peek: Gives the concrete core specs of the first element, or None if there is
            none; called only if there is no other way.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        structure: Any,
        example: tuple[_Core, ...] | None,
        peek: Callable[[], tuple[_Core, ...] | None],
    ) -> None:
        self._function = converted(function)
        self._input = structure
        self._programs: dict[tuple[_Core, ...], Any] = {}
        self._output: Any = None
        self.example: tuple[_Core, ...] | None = None
        self.structure = self._probe(example, peek)

    def compile(self, specs: tuple[_Core, ...]) -> Any:
        """Give the ``_core.Program`` for these concrete input types."""
        if specs not in self._programs:
            self._trace(specs)
        return self._programs[specs].program

    def _call(self, *tensors: Any) -> tuple[Any, ...]:
        element = nest.pack_sequence_as(self._input, tensors)
        # As TensorFlow: a plain tuple is unpacked, a dict or named tuple is not.
        if type(element) is tuple:
            result = self._function(*element)
        else:
            result = self._function(element)
        if isinstance(result, list):
            result = tuple(result)
        result = _structure.map_leaves(self._tensor, result)
        leaves = nest.flatten(result)
        if not leaves:
            raise TypeError(
                "map_func must return at least one tensor. "
                f"Received: {result!r}. Return the tensors of the new element."
            )
        self._output = nest.map_structure(lambda _: None, result)
        return tuple(leaves)

    @staticmethod
    def _tensor(value: Any) -> Any:
        if value is None:
            raise TypeError(
                "map_func must return tensors, or tuples or dicts of them. "
                "Received: None. Is there a `return` statement?"
            )
        if hasattr(value, "row_splits") or hasattr(value, "dense_shape"):
            raise HostOnlyError("map_func gives a ragged or sparse tensor.")
        if is_text(value):
            raise HostOnlyError("map_func gives strings, which are on the host alone.")
        return tf.convert_to_tensor(value)

    def _trace(self, specs: tuple[_Core, ...]) -> tuple[_Core, ...]:
        """Trace for concrete types; give those of the results."""
        known = self._output
        arguments = [_structure.spec_of(spec) for spec in specs]
        traced = _function.trace_program(self._call, arguments, host=True)
        if known is not None:
            nest.assert_same_structure(known, self._output)
        self._programs[specs] = traced
        return tuple(
            _structure.core_spec(spec)  # type: ignore[misc]
            for spec in nest.flatten(traced.output_specs)
        )

    def _probe(
        self,
        example: tuple[_Core, ...] | None,
        peek: Callable[[], tuple[_Core, ...] | None],
    ) -> Any:
        declared = [_structure.core_spec(spec) for spec in nest.flatten(self._input)]
        if all(_is_static(spec) for spec in declared):
            static = tuple(declared)
            self.example = self._trace(static)  # type: ignore[arg-type]
            return self._specs(self.example)
        if example is None and any(shape is None for _, shape in declared):
            example = peek()
            if example is None:
                raise ValueError(
                    "map cannot tell the shapes of a generator without declared shapes "
                    "that yields nothing. Pass output_shapes or output_signature."
                )
        first = example or _with_size(declared, 2)
        try:
            made = self._trace(first)
        except Exception:
            # Sizes of our own choosing may be ones that the function never meets.
            actual = None if example is not None else peek()
            if actual is None:
                raise
            first = actual
            made = self._trace(first)
        self.example = made
        return self._specs(made, self._second(declared, first, made))

    def _second(
        self, declared: list[Any], first: tuple[_Core, ...], made: tuple[_Core, ...]
    ) -> tuple[Any, ...]:
        """Trace for another size; give the results' types, None in unknown places."""
        sizes: set[int] = set()
        other = []
        for (dtype, want), (_, shape) in zip(declared, first, strict=True):
            unknown = [want is None or want[axis] is None for axis in range(len(shape))]
            pairs = list(zip(shape, unknown, strict=True))
            sizes.update(size for size, varies in pairs if varies)
            other.append((dtype, tuple(size + varies for size, varies in pairs)))
        try:
            return self._trace(tuple(other))
        except Exception:
            # It does not take another size: what has one of the varying sizes may vary.
            return tuple(
                (dtype, tuple(None if size in sizes else size for size in shape))
                for dtype, shape in made
            )

    def _specs(
        self, made: tuple[Any, ...], other: tuple[Any, ...] | None = None
    ) -> Any:
        """Nest of TensorSpec of the results, None where the two differ."""
        leaves = []
        for (dtype, shape), (_, second) in zip(made, other or made, strict=True):
            if len(shape) != len(second):
                leaves.append(_structure.spec_of((dtype, None)))
                continue
            sizes = tuple(
                a if a == b else None for a, b in zip(shape, second, strict=True)
            )
            leaves.append(_structure.spec_of((dtype, sizes)))
        return nest.pack_sequence_as(self._output, leaves)


def converted(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with Python control flow that works on tensors."""
    from ipu.tf import autograph

    converted: Callable[..., Any] = autograph.tf_convert(function)
    return converted


def _is_static(spec: tuple[str, tuple[int | None, ...] | None]) -> bool:
    return spec[1] is not None and None not in spec[1]


def _with_size(declared: list[Any], size: int) -> tuple[_Core, ...]:
    return tuple(
        (dtype, tuple(size if one is None else one for one in shape))
        for dtype, shape in declared
    )
