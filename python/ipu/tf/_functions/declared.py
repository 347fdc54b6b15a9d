# SPDX-License-Identifier: MIT
"""``input_signature``: what the arguments of a function are declared to be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ipu.tf import nest
from ipu.tf._functions.signature import is_tensor_argument
from ipu.tf._tensor.convert import convert_to_tensor
from ipu.tf.tensor_spec import TensorSpec


def spec_of(leaf: Any) -> Any:
    """A ``TensorSpec`` for a tensor or array; anything else as it is."""
    if is_tensor_argument(leaf):
        return TensorSpec(leaf.shape, leaf.dtype.name)
    return leaf


def checked_signature(signature: Any) -> tuple[Any, ...] | None:
    """The declared signature as a tuple."""
    if signature is None:
        return None
    if not isinstance(signature, (list, tuple)):
        raise TypeError(
            "input_signature must be a list or tuple with a TensorSpec for each "
            f"argument. Received: {signature!r}."
        )
    for leaf in nest.flatten(signature):
        if not isinstance(leaf, TensorSpec):
            raise TypeError(
                "input_signature must be a possibly nested sequence of TensorSpec. "
                f"Received: {leaf!r} in it."
            )
    return tuple(signature)


def fit_argument(name: str, index: int, spec: Any, argument: Any) -> Any:
    """An argument as tensors of its declared types."""

    def fit(one: TensorSpec, value: Any) -> Any:
        if isinstance(value, TensorSpec):
            return value
        try:
            tensor = convert_to_tensor(value, one.dtype)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"Python inputs incompatible with input_signature of {name}: argument "
                f"{index} must be {one}. Received: {value!r}."
            ) from error
        if not one.is_compatible_with(tensor):
            raise ValueError(
                f"Python inputs incompatible with input_signature of {name}: argument "
                f"{index} must have shape {one.shape}. Received: {tensor.shape}."
            )
        return tensor

    def walk(one: Any, value: Any) -> Any:
        if isinstance(one, TensorSpec):
            return fit(one, value)
        if type(one) is not type(value) or len(one) != len(value):
            raise ValueError(
                f"Python inputs incompatible with input_signature of {name}: argument "
                f"{index} must have the structure {one}. Received: {value!r}."
            )
        if isinstance(one, Mapping):
            return type(value)((key, walk(one[key], value[key])) for key in value)
        fitted = [walk(a, b) for a, b in zip(one, value, strict=True)]
        return nest.pack_sequence_as(value, nest.flatten(fitted))

    return walk(spec, argument)
