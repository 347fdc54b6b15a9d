# SPDX-License-Identifier: MIT
"""``tf.Module``: an object whose variables and modules are found by its attributes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ipu._text.arguments import checked_text
from ipu.tf._functions import restores
from ipu.tf._functions.scopes import name_scope
from ipu.tf.variable import Variable

__all__ = ["Module"]


def _snake_case(name: str) -> str:
    name = re.sub(r"(.)([A-Z][a-z]+)", r"\1_\2", name)
    return re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", name).lower()


class Module:
    """Base class of objects that hold variables.

    Args:
        name: Its name, a Python identifier; None is the class's, in snake case.

    Raises:
        ValueError: ``name`` is not an identifier.

    Example:
        >>> class Scale(tf.Module):
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.factor = tf.Variable(2.0)
        >>> len(Scale().trainable_variables)
        1
    """

    def __init__(self, name: str | None = None) -> None:
        if name is None:
            name = _snake_case(type(self).__name__)
        elif not checked_text("name", name).isidentifier():
            raise ValueError(
                f"{name!r} is not a valid module name. Module names must be valid "
                "Python identifiers (e.g. a valid class name)."
            )
        self._name = name

    def __setattr__(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)
        restores.go_on()

    @property
    def name(self) -> str:
        """The name."""
        return self._name

    @property
    def name_scope(self) -> Any:
        """A ``tf.name_scope`` of the name."""
        return name_scope(self._name)

    @property
    def variables(self) -> tuple[Variable, ...]:
        """The variables of this module and those it holds, by attribute name."""
        return tuple(_found(self, Variable, {id(self)}))

    @property
    def trainable_variables(self) -> tuple[Variable, ...]:
        """Those of :attr:`variables` that are trainable."""
        return tuple(v for v in self.variables if v.trainable)

    @property
    def non_trainable_variables(self) -> tuple[Variable, ...]:
        """Those of :attr:`variables` that are not trainable."""
        return tuple(v for v in self.variables if not v.trainable)

    @property
    def submodules(self) -> tuple[Module, ...]:
        """The modules that this one holds, and theirs."""
        return tuple(_found(self, Module, {id(self)}))

    @classmethod
    def with_name_scope(cls, method: Callable[..., Any]) -> Callable[..., Any]:
        """Run a method in the module's name scope, which changes no value."""
        return method


def _found(holder: Any, kind: type, seen: set[int]) -> Iterator[Any]:
    """Yield the instances of ``kind`` that an object's attributes hold, each once."""
    attributes = vars(holder)
    inner: list[Any] = []
    for name in sorted(attributes):
        for leaf in _leaves(attributes[name]):
            if id(leaf) in seen:
                continue
            is_kind = isinstance(leaf, kind)
            nested = isinstance(leaf, Module) or _holds_variables(leaf)
            if is_kind or nested:
                seen.add(id(leaf))
            if is_kind:
                yield leaf
            if nested:
                inner.append(leaf)
    for leaf in inner:
        if isinstance(leaf, Module):
            yield from _found(leaf, kind, seen)
        elif kind is Variable:
            for variable in leaf.variables:
                if id(variable) not in seen:
                    seen.add(id(variable))
                    yield variable


def _holds_variables(leaf: Any) -> bool:
    """Return a Keras layer, model, metric or optimizer."""
    return not isinstance(leaf, (Module, Variable, type)) and hasattr(
        type(leaf), "variables"
    )


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, (list, tuple)):
        for item in value:
            yield from _leaves(item)
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _leaves(item)
    else:
        yield value
