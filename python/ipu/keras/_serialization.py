# SPDX-License-Identifier: MIT
"""Objects as plain data and back: ``{"class_name": ..., "config": ...}``, or a name.

A user's own classes and functions are found where the user told of them: in the
``custom_objects`` of a call, in a :class:`CustomObjectScope`, or registered with
:func:`register_keras_serializable`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from ipu.keras import _names

T = TypeVar("T")

_custom: dict[str, Any] = {}
_registered: dict[str, Any] = {}
_names_of: dict[Any, str] = {}


def get_custom_objects() -> dict[str, Any]:
    """Return the table of a user's own objects; change it to add some.

    Returns:
        Classes and functions by the name that configurations call them.

    Example:
        >>> get_custom_objects()["twice"] = lambda x: 2 * x
        >>> get_custom_objects().clear()
    """
    return _custom


class CustomObjectScope:
    """A ``with`` block in which configurations may name a user's own objects.

    Args:
        *args: Dicts of classes and functions by name.

    Example:
        >>> def twice(x):
        ...     return 2 * x
        >>> with CustomObjectScope({"twice": twice}):
        ...     layer = keras.layers.Activation("twice")
    """

    def __init__(self, *args: Mapping[str, Any]) -> None:
        self.custom_objects = args
        self._kept: dict[str, Any] = {}

    def __enter__(self) -> CustomObjectScope:
        self._kept = dict(_custom)
        for objects in self.custom_objects:
            _custom.update(objects or {})
        return self

    def __exit__(self, *_: object) -> None:
        _custom.clear()
        _custom.update(self._kept)


custom_object_scope = CustomObjectScope


def register_keras_serializable(
    package: str = "Custom", name: str | None = None
) -> Callable[[T], T]:
    """Decorate a class or function so that configurations may name it.

    Args:
        package: The prefix of its name.
        name: Its name; its own by default.

    Returns:
        The decorator, which gives the class or function back.

    Raises:
        ValueError: A class without ``get_config``, or a name that is taken.

    Example:
        >>> @register_keras_serializable(package="Docs")
        ... def thrice(x):
        ...     return 3 * x
        >>> get_registered_name(thrice)
        'Docs>thrice'
    """

    def decorate(item: T) -> T:
        own: Any = item
        key = f"{package}>{name or own.__name__}"
        if isinstance(own, type) and not hasattr(own, "get_config"):
            raise ValueError(
                "Cannot register a class that does not have a get_config() method. "
                f"Received: {own.__name__}."
            )
        if key in _registered and not _is_redefinition(_registered[key], own):
            raise ValueError(
                f"{key} has already been registered to {_registered[key]}. Give "
                "another `package` or `name`."
            )
        _registered[key] = item
        _names_of[item] = key
        return item

    return decorate


def _is_redefinition(old: Any, new: Any) -> bool:
    """Return the same definition, run again (a notebook's cell)."""

    def place(item: Any) -> tuple[Any, Any]:
        return item.__module__, item.__qualname__

    return place(old) == place(new)


def written(kind: Any) -> Any:
    """Return the class that a user wrote, of one that is made of it."""
    return getattr(kind, "__dict__", {}).get("_written", kind)


def get_registered_name(obj: Any) -> str:
    """Return the name of a class or function in configurations.

    Example:
        >>> @keras.utils.register_keras_serializable("mine")
        ... class Box(keras.layers.Layer):
        ...     pass
        ...
        >>> get_registered_name(Box)
        'mine>Box'
    """
    obj = written(obj)
    try:
        return _names_of[obj]
    except (KeyError, TypeError):
        return str(getattr(obj, "__name__", obj))


def get_registered_object(
    name: str,
    custom_objects: Mapping[str, Any] | None = None,
    module_objects: Mapping[str, Any] | None = None,
) -> Any:
    """Return the class or function of a name, None where nobody told of it.

    Args:
        name: The name in a configuration.
        custom_objects: A table that is looked at before the global one.
        module_objects: A table that is looked at last.

    Example:
        >>> @keras.utils.register_keras_serializable("mine")
        ... class Lid(keras.layers.Layer):
        ...     pass
        ...
        >>> get_registered_object("mine>Lid") is Lid
        True
    """
    for table in (custom_objects, _custom, _registered, module_objects):
        if table and name in table:
            return table[name]
    return None


def find(kind: str, name: str, table: Mapping[str, Any]) -> Any:
    """Find what a name stands for: a user's own object, or one of a module.

    Args:
        kind: The kind that is looked for ("layer"), for the message.
        name: The name.
        table: The module's objects by name.

    Raises:
        ValueError: There is no such name; the nearest one is offered.
    """
    own = get_registered_object(name)
    return _names.lookup(kind, name, table) if own is None else own


def is_config(identifier: Any) -> bool:
    """Return whether something is the configuration of an object."""
    return isinstance(identifier, Mapping) and "class_name" in identifier


def make(
    kind: str,
    config: Mapping[str, Any],
    table: Mapping[str, Any],
    custom_objects: Mapping[str, Any] | None = None,
) -> Any:
    """Make an object from its configuration.

    Args:
        kind: Its kind ("layer"), for the message.
        config: ``{"class_name": ..., "config": ...}``.
        table: The module's classes by name.
        custom_objects: A user's own classes by name.

    Raises:
        ValueError: There is no class of that name, or this is not a configuration.
    """
    if not is_config(config):
        raise ValueError(
            f"The configuration of a {kind} needs `class_name` and `config`. "
            f"Received: {config!r}."
        )
    with CustomObjectScope(custom_objects or {}):
        found = find(kind, str(config["class_name"]), table)
        arguments = config.get("config") or {}
        if hasattr(found, "from_config"):
            return found.from_config(dict(arguments))
        return found(**arguments)


def resolve(
    identifier: Any,
    kind: str,
    table: Mapping[str, Any],
    wanted: str,
    base: type | tuple[()] = (),
) -> Any:
    """Find what an argument names.

    Args:
        identifier: None, a name, a configuration, or any callable, which is taken as it
            is; a name or a subclass of ``base`` gives an object with its defaults.
        kind: The kind that is looked for ("loss function"), for messages.
        table: The module's classes and functions by name.
        wanted: The arguments that are legal, for the message.
        base: The base class.

    Raises:
        ValueError: There is nothing of that name; the nearest is offered.
        TypeError: It is anything else.
    """
    if isinstance(identifier, str):
        identifier = find(kind, identifier, table)
        return identifier() if isinstance(identifier, type) else identifier
    if is_config(identifier):
        return make(kind.removesuffix(" function"), identifier, table)
    if isinstance(identifier, type) and issubclass(identifier, base):
        return identifier()
    if identifier is None or callable(identifier):
        return identifier
    raise TypeError(f"{wanted} Received: {identifier!r} ({type(identifier).__name__}).")


def serialize_keras_object(instance: Any) -> Any:
    """Describe an object as plain data.

    Args:
        instance: None, an object with ``get_config``, a class or a function.

    Returns:
        None, ``{"class_name": ..., "config": ...}``, or a name.

    Raises:
        ValueError: It is anything else.

    Example:
        >>> keras.utils.serialize_keras_object(keras.regularizers.L1(0.5))
        {'class_name': 'L1', 'config': {'l1': 0.5}}
    """
    if instance is None:
        return None
    if hasattr(instance, "get_config") and not isinstance(instance, type):
        name = get_registered_name(instance.__class__)
        return {"class_name": name, "config": instance.get_config()}
    if hasattr(instance, "__name__"):
        return get_registered_name(instance)
    raise ValueError(
        "Cannot serialize: it needs get_config() or a name. "
        f"Received: {instance!r} ({type(instance).__name__})."
    )


def deserialize_keras_object(
    identifier: Any,
    module_objects: Mapping[str, Any] | None = None,
    custom_objects: Mapping[str, Any] | None = None,
    printable_module_name: str = "object",
) -> Any:
    """Make an object from what ``serialize_keras_object`` gave.

    Args:
        identifier: None, a configuration, a name, or the object itself.
        module_objects: Classes and functions by name.
        custom_objects: A user's own ones.
        printable_module_name: The kind that is looked for, for the message.

    Returns:
        An object; for the name of a class a new one, for that of a function the
        function.

    Raises:
        ValueError: There is nothing of that name; the nearest is offered.

    Example:
        >>> config = {"class_name": "Dense", "config": {"units": 3}}
        >>> table = {"Dense": keras.layers.Dense}
        >>> keras.utils.deserialize_keras_object(config, table).units
        3
    """
    if identifier is None:
        return None
    table = module_objects or {}
    if is_config(identifier):
        return make(printable_module_name, identifier, table, custom_objects)
    if not isinstance(identifier, str):
        return identifier
    with CustomObjectScope(custom_objects or {}):
        found = find(printable_module_name, identifier, table)
    return found() if isinstance(found, type) else found
