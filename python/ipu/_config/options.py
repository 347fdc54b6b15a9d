# SPDX-License-Identifier: MIT
"""Trees of typed options: what ``IPUConfig`` is made of.

A category is a class whose attributes are options and further categories::

    class Model(Category):
        version = Option("ipu2", "Generation of the modelled IPU.")

    class Config(Category):
        model = Group(Model)

Values are checked by exact type when they are assigned, each instance has default
containers of its own, and a wrong name is answered with the nearest one of the tree.
"""

from __future__ import annotations

import copy
import types
from collections.abc import Iterator
from enum import Enum
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Generic,
    TypeVar,
    cast,
    get_args,
    get_origin,
    overload,
)

from ipu._text.arguments import as_ints
from ipu._text.log import logger

T = TypeVar("T")
C = TypeVar("C", bound="Category")


class OptionNameError(AttributeError, ValueError):
    """There is no option of that name.

    A ``ValueError``, as programs expect; an ``AttributeError`` too, so that
    ``hasattr``, ``copy`` and notebooks find out what they ask without a failure.
    """


def _matches(value: Any, kind: Any) -> bool:
    """Return whether the exact type of ``value``, and of its elements, is ``kind``."""
    origin = get_origin(kind)
    if origin is types.UnionType:
        return any(_matches(value, one) for one in get_args(kind))
    if origin in (list, tuple):
        element = get_args(kind)[0]
        return type(value) is origin and all(_matches(one, element) for one in value)
    return type(value) is (origin or kind)


def _type_name(kind: Any) -> str:
    return kind.__name__ if isinstance(kind, type) and not get_args(kind) else str(kind)


class AttributeMetadata:
    """A description of one option; see ``IPUConfig.get_attribute_metadata``.

    Attributes:
        name: Full dotted name, a string.
        type: The type, or union of types, that a value must have exactly.
        default: The value of a new configuration.
        deprecated: Whether the option should no longer be used.
        deprecated_msg: What to use instead, or None.
        __doc__: The description of the option.

    Example:
        >>> from ipu.config import IPUConfig
        >>> about = IPUConfig().get_attribute_metadata("auto_select_ipus")
        >>> about.name, about.deprecated
        ('auto_select_ipus', False)
    """

    def __init__(self, name: str, option: Option[Any]) -> None:
        self.name = name
        self.type = option.kind
        self.default = copy.deepcopy(option.default)
        self.deprecated = option.deprecated is not None
        self.deprecated_msg = option.deprecated
        self.__doc__ = option.__doc__

    def check_type(self, value: Any) -> None:
        """Raise TypeError unless ``value`` has exactly one of the types."""
        if not _matches(value, self.type):
            raise TypeError(
                f"Trying to set {self.name} to {value!r}, but it must be of type "
                f"{_type_name(self.type)}. Received a value of type "
                f"{type(value).__name__}."
            )

    def __repr__(self) -> str:
        return (
            f"AttributeMetadata(name={self.name!r}, type={_type_name(self.type)}, "
            f"default={self.default!r}, deprecated={self.deprecated})"
        )


class Option(Generic[T]):
    """One option of a category: a checked attribute.

    Args:
        default: The value of a new configuration, copied for each.
        doc: The description of the option.
        kind: The type, or union of types, that a value must have exactly; None for that
            of the default.
        deprecated: None, or what to use instead.
        alias: None, or the option that keeps the value, relative to the category.
    """

    def __init__(
        self,
        default: T,
        doc: str,
        kind: Any = None,
        *,
        deprecated: str | None = None,
        alias: str | None = None,
    ) -> None:
        self.kind: Any = type(default) if kind is None else kind
        self.default = default
        self.deprecated = deprecated
        self.alias = alias
        self.__doc__ = doc
        self.name = ""

    def __set_name__(self, owner: type[Any], name: str) -> None:
        self.name = name

    @overload
    def __get__(self, instance: None, owner: type[Any]) -> Option[T]: ...

    @overload
    def __get__(self, instance: Category, owner: type[Any]) -> T: ...

    def __get__(self, instance: Category | None, owner: type[Any]) -> Option[T] | T:
        if instance is None:
            return self
        if self.alias is not None:
            return cast(T, instance._get(self.alias))
        return cast(T, instance._values[self.name])

    def __set__(self, instance: Category, value: T) -> None:
        metadata = AttributeMetadata(instance._prefix + self.name, self)
        value = as_ints(value)
        metadata.check_type(value)
        if self.deprecated is not None:
            logger.warning("%s has been deprecated: %s", metadata.name, self.deprecated)
        if self.alias is not None:
            instance._set(self.alias, value)
        else:
            instance._values[self.name] = value
            instance._assigned.add(self.name)

    def decoded(self, value: Any) -> Any:
        """Return ``value`` as ``to_dict`` wrote it, with a number turned into the
        enum."""
        is_enum = isinstance(self.kind, type) and issubclass(self.kind, Enum)
        if not is_enum or type(value) is not int:
            return value
        try:
            return self.kind(value)
        except ValueError:
            names = ", ".join(f"{one.value} ({one.name})" for one in self.kind)
            raise ValueError(
                f"{value} is not a {self.kind.__name__}. Use one of {names}."
            ) from None


class Group(Generic[C]):
    """A category inside a category: readable, never assigned to."""

    def __init__(self, kind: type[C]) -> None:
        self.kind = kind
        self.__doc__ = kind.__doc__
        self.name = ""

    def __set_name__(self, owner: type[Any], name: str) -> None:
        self.name = name

    @overload
    def __get__(self, instance: None, owner: type[Any]) -> Group[C]: ...

    @overload
    def __get__(self, instance: Category, owner: type[Any]) -> C: ...

    def __get__(self, instance: Category | None, owner: type[Any]) -> Group[C] | C:
        if instance is None:
            return self
        return cast(C, instance._children[self.name])

    def __set__(self, instance: Category, value: C) -> None:
        raise Exception(
            f"{instance._prefix}{self.name} is a category and cannot be assigned to. "
            f"Received: {value!r}. Assign to one of its options: "
            f"{', '.join(self.kind._names())}."
        )


class Category:
    """A node of the tree: options and further categories, by attribute."""

    _options: ClassVar[dict[str, Option[Any]]] = {}
    _groups: ClassVar[dict[str, Group[Any]]] = {}

    _prefix: str
    _root: type[Category]
    _values: dict[str, Any]
    _assigned: set[str]
    _children: dict[str, Category]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        members = vars(cls)
        options = {k: v for k, v in members.items() if isinstance(v, Option)}
        groups = {k: v for k, v in members.items() if isinstance(v, Group)}
        cls._options = {**cls._options, **options}
        cls._groups = {**cls._groups, **groups}

    def __init__(self, prefix: str = "", root: type[Category] | None = None) -> None:
        root = root or type(self)
        options = self._options.items()
        groups = self._groups.items()
        self.__dict__["_prefix"] = prefix
        self.__dict__["_root"] = root
        self.__dict__["_values"] = {
            name: copy.deepcopy(option.default)
            for name, option in options
            if option.alias is None
        }
        self.__dict__["_assigned"] = set()
        self.__dict__["_children"] = {
            name: group.kind(f"{prefix}{name}.", root) for name, group in groups
        }

    @classmethod
    def _names(cls) -> list[str]:
        return [*cls._options, *cls._groups]

    @classmethod
    def _walk(cls, prefix: str = "") -> Iterator[tuple[str, Option[Any]]]:
        """Yield all options below, as (dotted name, option), in the order of the
        tree."""
        for name, option in cls._options.items():
            yield prefix + name, option
        for name, group in cls._groups.items():
            yield from group.kind._walk(f"{prefix}{name}.")

    @classmethod
    def _all_names(cls) -> Iterator[str]:
        """Yield the dotted names of all options and categories below."""
        for name in cls._options:
            yield name
        for name, group in cls._groups.items():
            yield name
            for below in group.kind._all_names():
                yield f"{name}.{below}"

    def _is_assigned(self, name: str) -> bool:
        """Return whether the option was given a value, be it the default."""
        return name in self._assigned

    def _suggestion(self, name: str) -> str:
        """Return ' Did you mean ...?' with the nearest name of the whole tree, or
        ''."""
        from difflib import get_close_matches

        by_last: dict[str, list[str]] = {}
        for full in self._root._all_names():
            by_last.setdefault(full.rpartition(".")[2], []).append(full)
        last = name.rpartition(".")[2]
        near = get_close_matches(last, by_last, n=1)
        if not near:
            return ""
        candidates = by_last[near[0]]
        wanted = self._prefix + name
        here = get_close_matches(wanted, candidates, n=1, cutoff=0.0) or candidates
        return f" Did you mean '{here[0]}'?"

    def _unknown(self, name: str) -> OptionNameError:
        return OptionNameError(
            f"'{name}' is not a valid attribute of this config.{self._suggestion(name)}"
        )

    if not TYPE_CHECKING:  # checkers shall find names that are not there

        def __getattr__(self, name: str) -> Any:
            # Called only when ordinary lookup failed. Private and dunder names are
            # asked for by copy, pickle and notebooks: those get no search.
            if name.startswith("_"):
                raise AttributeError(name)
            raise self._unknown(name)

        def __setattr__(self, name: str, value: Any) -> None:
            if name not in self._options and name not in self._groups:
                raise self._unknown(name)
            object.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        raise TypeError(f"The attribute {name!r} of a config cannot be deleted.")

    def _owner(self, dotted: str) -> tuple[Category, str]:
        """Return the category below that holds the last part of a dotted name."""
        owner: Category = self
        *path, last = dotted.split(".")
        for part in path:
            if part not in owner._children:
                raise self._unknown(dotted)
            owner = owner._children[part]
        if last not in owner._options:
            raise self._unknown(dotted)
        return owner, last

    def _get(self, dotted: str) -> Any:
        owner, last = self._owner(dotted)
        return getattr(owner, last)

    def _set(self, dotted: str, value: Any) -> None:
        owner, last = self._owner(dotted)
        setattr(owner, last, value)

    def get_attribute_metadata(self, name: str) -> AttributeMetadata:
        """Describe one option.

        Args:
            name: Dotted name of an option, relative to this part of the tree.

        Returns:
            An object with the fields ``name`` (full dotted name), ``type``,
            ``default``, ``deprecated``, ``deprecated_msg``, ``__doc__`` and the
            method ``check_type(value)``.

        Raises:
            ValueError: There is no option of that name.

        Example:
            >>> from ipu.config import IPUConfig
            >>> IPUConfig().io_tiles.get_attribute_metadata("num_io_tiles").default
            0
        """
        for dotted, option in self._walk():
            if dotted == name:
                return AttributeMetadata(self._prefix + dotted, option)
        if name in self._all_names():
            raise ValueError(
                f"Could not get attribute metadata for '{name}': it is a category. "
                "Ask for one of its options."
            )
        relative = name.removeprefix(self._prefix)
        if relative != name:
            hint = f" Names are relative to this category: use '{relative}'."
        else:
            hint = self._suggestion(name)
        raise ValueError(
            f"Could not get attribute metadata for '{name}': "
            f"'{self._unknown_part(name)}' is not an option of it.{hint}"
        )

    def _unknown_part(self, name: str) -> str:
        """Return the first of a dotted name's parts that is not there."""
        known = set(self._all_names())
        parts = name.split(".")
        paths = (".".join(parts[: n + 1]) for n in range(len(parts)))
        return next((p.rpartition(".")[2] for p in paths if p not in known), name)

    def _items(self) -> Iterator[tuple[str, Option[Any], Any]]:
        for dotted, option in self._walk():
            yield dotted, option, self._get(dotted)

    def __str__(self) -> str:
        return "\n".join(
            f"{self._prefix}{dotted} = {value}" for dotted, _, value in self._items()
        )

    def __repr__(self) -> str:
        changed = [
            f"{dotted}={value}" if isinstance(value, Enum) else f"{dotted}={value!r}"
            for dotted, option, value in self._items()
            if option.alias is None and value != option.default
        ]
        return f"{type(self).__name__.lstrip('_')}({', '.join(changed)})"
