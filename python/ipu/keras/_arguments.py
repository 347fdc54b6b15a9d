# SPDX-License-Identifier: MIT
"""The arguments of constructors: kept as attributes, given back as configurations.

Keras's rule: the configuration of an object is what its constructor takes. Each
argument is an attribute of that name, or of that name after an underscore, and so both
ways follow from the signature.
"""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from types import FunctionType
from typing import Any, TypeVar

import numpy as np

from ipu.keras._serialization import serialize_keras_object

T = TypeVar("T")

# modules whose classes have their arguments as configurations
_OURS = ("ipu.keras.", "ipu.layers", "ipu._layers.")
_NAMED = frozenset({"activation", "constraint", "initializer", "regularizer"})


@functools.cache
def _named(argument: str) -> Any:
    """Return the module whose objects an argument may name, or None."""
    kind = argument.rpartition("_")[2]
    return importlib.import_module(f"ipu.keras.{kind}s") if kind in _NAMED else None


@functools.cache
def parameters_of(function: Callable[..., Any]) -> tuple[str, ...]:
    """Return the keywords that a constructor names.

    Arguments that have a place alone are between our own classes.
    """
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    found = inspect.signature(function).parameters.values()
    names = (one.name for one in found if one.kind in named)
    return tuple(name for name in names if name != "self")


@functools.cache
def arguments_of(kind: type, base: type = object) -> tuple[str, ...]:
    """Return the arguments of a class's constructors, without those of ``base``."""
    names: dict[str, None] = {}
    for one in kind.__mro__[: kind.__mro__.index(base)]:
        if "__init__" not in vars(one) or not one.__module__.startswith(_OURS):
            continue
        function = vars(one)["__init__"]
        names |= dict.fromkeys(parameters_of(function))
        found = inspect.signature(function).parameters.values()
        if not any(p.kind in (p.VAR_KEYWORD, p.POSITIONAL_ONLY) for p in found):
            break  # it takes no others
    return tuple(name for name in names if name not in parameters_of(base))


@functools.cache
def _configured(kind: Any, base: type) -> tuple[tuple[str, str, Any], ...]:
    """Return name, hidden attribute and module of each argument of a configuration."""
    names = (one for one in arguments_of(kind, base) if one not in kind._left_out)
    return tuple((name, f"_{name}", _named(name)) for name in names)


def config_of(instance: Configured, base: type) -> dict[str, Any]:
    """Return the arguments that make an equal object, as plain data.

    Args:
        instance: The object; a user's subclass has the arguments of ours.
        base: The class whose own arguments are left out.
    """
    config = {}
    kind: Any = type(instance)
    own = vars(instance)
    for name, hidden, module in _configured(kind, base):
        value = own[hidden] if hidden in own else getattr(instance, name)
        if module is not None:
            value = module.serialize(value)
        elif isinstance(value, base):
            value = serialize_keras_object(value)
        config[name] = value
    return config


def given(
    kind: Any, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[dict[str, Any], list[str]]:
    """Return what a class that a user wrote is made with.

    Returns:
        The arguments that are plain data, by their names, and the names of the others.
    """
    try:
        bound = inspect.signature(kind.__init__).bind(None, *args, **kwargs)
    except (TypeError, ValueError):  # the constructor says what is wrong
        return {}, []
    found: dict[str, Any] = {}
    others = []
    for name, value in list(bound.arguments.items())[1:]:
        kind_of = bound.signature.parameters[name].kind
        if kind_of is inspect.Parameter.VAR_POSITIONAL:
            others.append(f"*{name}")  # they have no names
        elif kind_of is inspect.Parameter.VAR_KEYWORD:
            found |= value
        else:
            found[name] = value
    plain = {}
    for name, value in found.items():
        try:
            plain[name] = _plain(value)
        except TypeError:
            others.append(name)
    return plain, others


def _plain(value: Any) -> Any:
    """Return a copy of numbers, strings and nests of them."""
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if type(value) in (list, tuple):
        return type(value)(_plain(item) for item in value)
    if type(value) is dict:
        return {key: _plain(item) for key, item in value.items()}
    raise TypeError


@functools.cache
def _kept(kind: type, argument: str) -> tuple[str, Any] | None:
    """Return the attribute of an argument, and the module that knows what it names."""
    if argument in ("self", "args", "kwargs", "__class__"):
        return None
    is_property = isinstance(getattr(kind, argument, None), property)
    return f"_{argument}" if is_property else argument, _named(argument)


def keep(
    instance: Any, arguments: Mapping[str, Any], but: Collection[str] = ()
) -> None:
    """Make attributes of the arguments of a constructor.

    Args:
        instance: What is made.
        arguments: The constructor's ``locals()``, before it makes any more. Of an
            initializer, a regularizer, a constraint or an activation the object that it
            names is kept.
        but: Those that the constructor sees to.
    """
    kind: type = type(instance)
    for name, value in arguments.items():
        kept = _kept(kind, name)
        if kept is not None and name not in but:
            attribute, module = kept
            found = value if module is None else module.get(value)
            setattr(instance, attribute, found)


class KernelAttributes:
    """The attributes that :func:`keep` makes for a layer with a kernel and a bias."""

    activation: Callable[..., Any]
    use_bias: bool
    kernel_initializer: Any
    kernel_regularizer: Any
    kernel_constraint: Any
    bias_initializer: Any
    bias_regularizer: Any
    bias_constraint: Any


def weight_of(
    layer: Any, name: str, shape: Any, kind: str | None = None, **options: Any
) -> Any:
    """Add a weight to a layer that keeps arguments about it.

    Args:
        layer: The layer.
        name: The weight's name.
        shape: Its sizes.
        kind: What the arguments begin with: ``kernel`` for ``kernel_initializer``,
            ``kernel_regularizer`` and ``kernel_constraint``; None for ``name``.
        **options: The arguments of ``add_weight``.
    """
    kinds = ("initializer", "regularizer", "constraint")
    kept = {one: getattr(layer, f"{kind or name}_{one}") for one in kinds}
    return layer.add_weight(name, tuple(shape), **kept, **options)


class Configured:
    """An object that is described by the arguments of its constructor.

    The words of a subclass's head are defaults: ``class Conv2D(_Conv, strides=(1, 1))``
    has the constructor of ``_Conv`` but for that.
    """

    # arguments that a configuration does not have
    _left_out: tuple[str, ...] = ()

    def __init_subclass__(cls, **defaults: Any) -> None:
        if defaults:
            cls.__init__ = _with_defaults(cls, defaults)  # type: ignore[method-assign]
        super().__init_subclass__()

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make an equal object."""
        return config_of(self, Configured)

    @classmethod
    def from_config(cls: Callable[..., T], config: dict[str, Any]) -> T:
        """Return what ``get_config`` described, made anew."""
        return cls(**config)


def _with_defaults(owner: type, defaults: Mapping[str, Any]) -> Callable[..., None]:
    """Return the constructor that a class inherits, with other defaults."""
    function = inspect.unwrap(owner.__init__)  # type: ignore[misc]
    assert isinstance(function, FunctionType)
    known = inspect.signature(function).parameters.values()
    given = [one for one in known if one.default is not one.empty]
    made = FunctionType(
        function.__code__,
        function.__globals__,
        function.__name__,
        tuple(defaults.get(one.name, one.default) for one in given),
        function.__closure__,
    )
    made.__annotations__ = function.__annotations__
    made.__module__ = function.__module__
    made.__qualname__ = f"{owner.__qualname__}.{function.__name__}"
    return made
