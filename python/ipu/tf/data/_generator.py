# SPDX-License-Identifier: MIT
"""Python generators as sources: declared specs, and the check of each element."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from ipu.tf import nest
from ipu.tf._string_ops.tensors import StringTensor
from ipu.tf._tensor.composite_specs import CompositeSpec
from ipu.tf.data import _packed, _structure
from ipu.tf.dtypes import as_dtype
from ipu.tf.tensor_spec import TensorSpec


def declared(types: Any, shapes: Any, signature: Any) -> Any:
    """Make the element structure of ``from_generator`` from its arguments."""
    if signature is not None:
        if types is not None or shapes is not None:
            raise TypeError(
                "from_generator takes output_signature, or output_types with "
                "output_shapes, not both. Drop output_types and output_shapes."
            )
        return _structure.map_leaves(_checked_spec, signature)
    if types is None:
        raise TypeError(
            "from_generator needs output_signature or output_types. "
            "Pass output_signature=tf.TensorSpec(shape, dtype)."
        )
    return _with_shapes(types, shapes)


def _checked_spec(spec: Any) -> Any:
    if not isinstance(spec, TensorSpec):
        raise TypeError(
            "output_signature must be a tf.TensorSpec, or tuples or dicts of them. "
            f"Received: {spec!r}."
        )
    return spec


def _with_shapes(types: Any, shapes: Any) -> Any:
    if not _structure.is_container(types):
        return _structure.spec_of((as_dtype(types).name, _shape(shapes)))
    if shapes is None:
        return _structure.map_leaves(lambda one: _with_shapes(one, None), types)
    if isinstance(types, Mapping):
        if not isinstance(shapes, Mapping) or set(shapes) != set(types):
            raise _shapes_error(types, shapes)
        return {key: _with_shapes(types[key], shapes[key]) for key in types}
    if not isinstance(shapes, (tuple, list)) or len(shapes) != len(types):
        raise _shapes_error(types, shapes)
    items = [_with_shapes(a, b) for a, b in zip(types, shapes, strict=True)]
    return type(types)(*items) if hasattr(types, "_fields") else tuple(items)


def _shapes_error(types: Any, shapes: Any) -> TypeError:
    return TypeError(
        "output_shapes must have the structure of output_types. "
        f"Received: output_types={types!r}, output_shapes={shapes!r}."
    )


def _shape(shape: Any) -> tuple[int | None, ...] | None:
    if shape is None or getattr(shape, "rank", 0) is None:
        return None
    if hasattr(shape, "as_list"):
        shape = shape.as_list()
    if not isinstance(shape, (tuple, list)):
        raise TypeError(
            "output_shapes must hold tuples of integers and None. "
            f"Received: {shape!r}. Write ({shape!r},) for a vector."
        )
    return tuple(None if size is None else int(size) for size in shape)


def starter(
    generator: Callable[..., Any], args: tuple[Any, ...], structure: Any
) -> Callable[[], Iterator[tuple[np.ndarray[Any, Any], ...]]]:
    """Return the function that starts a pass: flat tuples of checked arrays."""
    declared = nest.flatten(structure)
    specs = [
        (spec.dtype.as_numpy_dtype, spec.dtype.name, spec.shape) for spec in declared
    ]

    def element_of(value: Any) -> tuple[np.ndarray[Any, Any], ...]:
        leaves = _structure.match(structure, value)
        return tuple(
            _packed_leaf(leaf, one) if _packed.is_packed(one) else _convert(leaf, *spec)
            for leaf, spec, one in zip(leaves, specs, declared, strict=True)
        )

    return lambda: map(element_of, generator(*args))


def _packed_leaf(value: Any, spec: Any) -> np.ndarray[Any, Any]:
    if not isinstance(spec, CompositeSpec) or not hasattr(value, "dtype"):
        return _text(value, spec)
    made = _packed.spec_of_value(value)
    is_same = type(made) is type(spec) and spec.is_compatible_with(made)
    if not is_same or getattr(made, "ragged_rank", 0) != getattr(
        spec, "ragged_rank", 0
    ):
        raise TypeError(
            f"`generator` yielded an element of {made!r} where one of {spec!r} was "
            "expected."
        )
    return _packed.pack(spec, value)


def _text(value: Any, spec: Any) -> np.ndarray[Any, Any]:
    try:
        text = StringTensor(value)
    except TypeError as error:
        raise TypeError(
            "`generator` yielded an element that could not be converted to the "
            "expected type. The expected type was string, but the yielded element "
            f"was {_structure.short(value)} ({error})."
        ) from None
    if not spec.is_compatible_with(text):
        raise TypeError(
            f"`generator` yielded an element of shape {text.shape} where an element "
            f"of shape {spec.shape} was expected."
        )
    return _packed.pack(spec, text)


def _fits(source: np.dtype[Any], target: np.dtype[Any]) -> bool:
    """Return whether numbers of one kind may stand for those of another.

    Any number may become a float, an integer another integer, and a bool an integer;
    nothing loses its fraction or turns into a bool in silence.
    """
    if target.kind == "f":
        return source.kind in "biuf"
    if target.kind in "iu":
        return source.kind in "biu"
    return source.kind == target.kind


def _convert(
    value: Any, dtype: Any, name: str, shape: tuple[int | None, ...] | None
) -> np.ndarray[Any, Any]:
    if hasattr(value, "numpy"):
        value = value.numpy()
    target = np.dtype(dtype)
    try:
        plain = np.asarray(value)
        if plain.size == 0 and not isinstance(value, (np.ndarray, np.generic)):
            plain = plain.astype(target)  # an empty list has no type of its own
        if not _fits(plain.dtype, target):
            raise TypeError(f"its dtype is {plain.dtype}")
        python_number = not isinstance(value, (np.ndarray, np.generic))
        array = np.asarray(value if python_number else plain, dtype=target, order="C")
    except (TypeError, ValueError, OverflowError) as error:
        raise TypeError(
            "`generator` yielded an element that could not be converted to the "
            f"expected type. The expected type was {name}, but the yielded element "
            f"was {_structure.short(value)} ({error})."
        ) from None
    fits = shape is None or (
        len(shape) == array.ndim
        and all(
            want is None or want == have
            for want, have in zip(shape, array.shape, strict=True)
        )
    )
    if not fits:
        raise TypeError(
            f"`generator` yielded an element of shape {array.shape} where an element "
            f"of shape {shape} was expected."
        )
    return array
