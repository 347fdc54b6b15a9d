# SPDX-License-Identifier: MIT
"""What a module shows: the names it lists, to ``dir()`` and to completion.

A public module ends with ``export(__name__)``. It sets ``__getattr__`` and ``__dir__``,
which type checkers do not see, so that they find names that are not there.

A module without a list ``__all__`` offers the functions and classes that it defines,
but for those with an underscore. One that only gathers names ends with
``export(__name__, offered(__name__))``; it imports each as itself (``from place import
name as name``), which is how type checkers know what is offered.
"""

from __future__ import annotations

import dis
import importlib
import inspect
import sys
from collections.abc import Callable, Iterable, Mapping
from types import FrameType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

from ipu._text import suggestions, unimplemented
from ipu._text.missing import MissingModuleError, MissingNameError
from ipu._text.tracebacks import boundaries, boundary

__all__ = ["OtherModules", "defined", "export", "like", "offered"]

if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec

F = TypeVar("F", bound=Callable[..., Any])

_HELPERS = {"Any", "TYPE_CHECKING", "annotations", "export", "like", "offered"}


def defined(module: str, more: Iterable[str] = ()) -> list[str]:
    """Return the names of the functions and classes that a module defines for others.

    Args:
        module: The name of the module.
        more: What it offers besides them.
    """
    values = vars(sys.modules[module]).items()
    own = {name for name, one in values if getattr(one, "__module__", "") == module}
    return sorted({name for name in own if name[0] != "_"}.union(more))


def offered(module: str, more: Iterable[str] = ()) -> list[str]:
    """Return the public names of a module that only gathers names.

    Args:
        module: The name of the module.
        more: Names that it offers besides its values: modules, and names that are found
            when they are used.
    """
    values = vars(sys.modules[module]).items()
    own = {name for name, value in values if not isinstance(value, ModuleType)}
    return sorted({name for name in own - _HELPERS if name[0] != "_"}.union(more))


def like(other: Callable[..., Any]) -> Callable[[F], F]:
    """Make the decorator of a function that is another one with other arguments.

    Args:
        other: The other function: what it does, and its example, are said of both.
    """
    text = inspect.cleandoc(other.__doc__ or "")  # as Python 3.13 keeps it
    head, example, call = text.rpartition("\n\nExample:")
    does = head.partition("\n\n")[0]

    def describe(function: F) -> F:
        is_as = f"As ``{other.__name__}`` of the example, with arguments of its own."
        function.__doc__ = f"{does}\n\n{is_as}{example}{call}"
        return function

    return describe


class OtherModules:
    """Finds the modules that other generations of the API have below ``ipu``."""

    @staticmethod
    @boundary
    def find_spec(
        fullname: str, path: object = None, target: object = None
    ) -> ModuleSpec | None:
        """Return what the table of TensorFlow's names says of a module.

        Raises:
            MissingModuleError: It says nothing, and a name that is there is near.
        """
        if not fullname.startswith("ipu."):
            return None
        facade = importlib.import_module("ipu.drop_in._facade")
        found: ModuleSpec | None = facade.other_module(fullname)
        parent, _, name = fullname.rpartition(".")
        own = vars(sys.modules[parent])
        known = own.get("__all__", ())
        # modules first: `import ipu.keras.layer` does not mean keras.Layer
        known = [one for one in known if one == one.lower()] or known
        if (
            found is None
            and facade.is_importing()
            and not name.startswith("_")
            and name not in own.get("__all__", ())
            and suggestions.nearest_name(name, known, 0.75)
        ):
            raise MissingModuleError(fullname, known)
        return found


def _is_imported(frame: FrameType) -> bool:
    """Return whether ``from module import name`` is what a frame is at."""
    code = frame.f_code.co_code
    return frame.f_lasti >= 0 and code[frame.f_lasti] == dis.opmap["IMPORT_FROM"]


def _explain_arguments(cls: type) -> None:
    """Let the constructors of a class say which argument was meant."""
    for base in cls.__mro__:
        made = vars(base).get("__init__")
        ours = base.__module__.startswith("ipu.") and isinstance(made, FunctionType)
        if ours and not hasattr(made, "__wrapped__"):
            boundaries("__init__")(base)


def export(
    module: str,
    names: Iterable[str] | None = None,
    lazy: Mapping[str, str | Callable[[], Any]] | None = None,
) -> None:
    """Give a module ``__getattr__``, ``__dir__``, and ``__all__`` where it has none.

    The first raises AttributeError, with the nearest name, for one that is not there;
    ImportError where ``from module import name`` asks for it. The classes that the
    module offers explain arguments that they do not take.

    Args:
        module: The name of the module.
        names: Its public names; None: those of ``__all__``, or else what it defines.
        lazy: Of names that are found when they are used, where: a module,
            ``module:attribute``, or a function that gives it.
    """
    own = vars(sys.modules[module])
    if names is None:
        names = own.get("__all__") or defined(module)
    known = sorted(set(names))
    found = dict(lazy or {})
    title = module.removeprefix("ipu.") if module.startswith("ipu.tf") else module

    @boundary
    def of_module(name: str) -> Any:
        if name in found:
            place = found[name]
            if not isinstance(place, str):
                return place()
            home, _, attribute = place.partition(":")
            loaded = importlib.import_module(home)
            value = getattr(loaded, attribute) if attribute else loaded
            if name in known:
                own[name] = value  # found at once from now on
            return value
        if name.startswith("_"):
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        # what another generation of the API has here: the table of TensorFlow's names
        value = importlib.import_module("ipu.drop_in._facade").other_name(module, name)
        if value is not None:
            own[name] = value
            return value
        if (
            module.startswith("ipu.keras")
            and not unimplemented.lookup(f"{module}.{name}", known).topic
        ):
            hint = suggestions.hint(name, known, 0.75) or f" See {module}.__all__."
            text = f"module {module!r} has no attribute {name!r}.{hint}"
            # with its name Python does not look for a near one again
            missing = AttributeError(text, name=name)
        else:
            missing = MissingNameError(f"{title}.{name}", known)
        if _is_imported(sys._getframe(2)):
            raise ImportError(str(missing), name=module)
        raise missing

    for name in known:
        cls = own.get(name)
        if isinstance(cls, type):
            _explain_arguments(cls)
    own.setdefault("__all__", known)
    own["__getattr__"], own["__dir__"] = of_module, lambda: list(known)
