# SPDX-License-Identifier: MIT
"""The kinds of a program's expressions, as far as they are sure without running it.

An expression has kinds: all that it may be. The kinds of a name are those of all its
bindings, of a call those that the program's function returns, or what the annotations
of this package say. One binding that cannot be followed makes the whole unknown.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import importlib
import inspect
import re
import types
import typing
from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple

from ipu import _core
from ipu._config.options import Category
from ipu._text.missing import PACKAGE
from ipu.drop_in._check_scopes import Binding, Scope

_DEEPEST = 60  # names that lead to names
_ROUNDS = 20
_MOST = 8  # kinds of one expression; with more of them it is taken as unknown
_ROOTS = (
    "ipu",
    "keras",
    "tensorflow",
    "tensorflow_core",
    "ipu_tensorflow_addons",
    "popdist",
)


class Known(NamedTuple):
    """A thing itself: a module, a class, a function, a member of an enumeration, or
    options, which are made as the program would make them.
    """

    value: Any


class Instance(NamedTuple):
    """An object of a class of this package.

    Attributes:
        cls: The class.
        exact: Whether it is not a subclass of it.
    """

    cls: type
    exact: bool


class Method(NamedTuple):
    """A function of a class, bound to an object.

    Attributes:
        function: The function.
        owner: What the object is.
    """

    function: Any
    owner: Instance | Own


class Own(NamedTuple):
    """Something that the program defines.

    Attributes:
        scope: The class or the function.
        is_object: Whether it is an object of the class, not the class.
    """

    scope: Scope
    is_object: bool


Kind = Known | Instance | Method | Own
Kinds = tuple[Kind, ...] | None


def is_ours(function: Any) -> bool:
    """Return whether a class or a function is of this package."""
    module = getattr(function, "__module__", None) or ""
    return module.partition(".")[0] == "ipu"


class Solver:
    """Finds kinds, and keeps those of names.

    A name may be bound to what is made of itself (``ds = ds.map(f)``). So names start
    with no kinds, and all that a question asks for are computed again until nothing is
    added.
    """

    def __init__(self) -> None:
        self._settled: dict[int, Kinds] = {}
        self._found: dict[int, Kinds] = {}
        self._asked: set[int] = set()
        self._options: dict[int, Category] = {}
        self._depth = 0

    def kinds_of(self, node: ast.expr, scope: Scope) -> Kinds:
        """Return all that an expression may be; None where it may be something
        unknown."""
        self._found = {}
        for _ in range(_ROUNDS):
            before = dict(self._found)
            self._asked, self._depth = set(), 0
            try:
                kinds = _kinds(node, scope, self)
            except RecursionError:
                return None
            if self._found == before:
                self._settled.update(before)
                return kinds
        return None

    def options(self, node: ast.Call, cls: type[Category]) -> Category:
        """Return the options that a call makes: the same whenever it is asked for."""
        return self._options.setdefault(id(node), cls())

    def of(self, owner: object, compute: Callable[[], Kinds]) -> Kinds:
        """Return the kinds of a name, or of what a function returns."""
        key = id(owner)
        if key in self._settled:
            return self._settled[key]
        if key not in self._asked:
            self._asked.add(key)
            self._depth += 1
            self._found.setdefault(key, ())
            self._found[key] = compute() if self._depth < _DEEPEST else None
            self._depth -= 1
        return self._found[key]


def _kinds(node: ast.expr, scope: Scope, by: Solver) -> Kinds:
    if isinstance(node, ast.Name):
        bindings = scope.bindings(node.id)
        if not bindings:
            return None
        return by.of(bindings, lambda: _joined(_of_binding(b, by) for b in bindings))
    if isinstance(node, ast.Attribute):
        return _each(
            _kinds(node.value, scope, by), lambda kind: _attribute(kind, node.attr, by)
        )
    if isinstance(node, ast.Call):
        return _each(_kinds(node.func, scope, by), lambda kind: _called(kind, node, by))
    if isinstance(node, ast.IfExp):
        return _joined(_kinds(one, scope, by) for one in (node.body, node.orelse))
    if isinstance(node, ast.BoolOp):
        return _joined(_kinds(one, scope, by) for one in node.values)
    if isinstance(node, ast.NamedExpr):
        return _kinds(node.value, scope, by)
    if isinstance(node, ast.Constant) and node.value is None:
        return ()  # what a name is before it gets its value
    return None


def _joined(each: Iterable[Kinds]) -> Kinds:
    joined: list[Kind] = []
    for kinds in each:
        if kinds is None:
            return None
        joined += (kind for kind in kinds if kind not in joined)
    return None if len(joined) > _MOST else tuple(joined)


def _each(kinds: Kinds, of: Callable[[Kind], Kinds]) -> Kinds:
    return None if kinds is None else _joined(map(of, kinds))


def _of_binding(binding: Binding, by: Solver) -> Kinds:
    kind, what, scope = binding
    if kind == "value":
        return _kinds(what, scope, by)
    if kind == "with":
        return _each(_kinds(what, scope, by), _entered)
    if kind == "scope":
        return (Own(what, False),)
    if kind == "self":
        return (Own(what, True),)
    if kind == "import":
        return _imported(what, by)
    return None


def _imported(name: str, by: Solver) -> Kinds:
    """Return the thing of a full name; None for what is not this package's."""
    first, *parts = name.split(".")
    if first not in _ROOTS:
        return None
    with contextlib.suppress(ImportError):
        found: Kinds = (Known(importlib.import_module(first)),)
        for part in parts:
            found = _each(found, lambda kind, name=part: _attribute(kind, name, by))  # type: ignore[misc]
        return found
    return None


# --- attributes


def _attribute(kind: Kind, name: str, by: Solver) -> Kinds:
    if isinstance(kind, Known):
        return _of_known(kind.value, name)
    if isinstance(kind, Instance):
        return _of_object(kind, name)
    if isinstance(kind, Own):
        return _of_own(kind, name, by)
    return None


def _of_known(value: Any, name: str) -> Kinds:
    if not isinstance(value, (types.ModuleType, type, Category)):
        return None
    try:
        found = getattr(value, name)
    except AttributeError:
        if not isinstance(value, types.ModuleType):
            return None
        try:
            found = importlib.import_module(f"{value.__name__}.{name}")
        except ImportError:
            return None
    plain = (types.ModuleType, types.FunctionType, types.MethodType, type)
    is_plain = isinstance(found, (*plain, types.BuiltinFunctionType, Enum, Category))
    return (Known(found),) if is_plain else None


def _of_object(made: Instance, name: str) -> Kinds:
    found = inspect.getattr_static(made.cls, name, None)
    if isinstance(found, property):
        return () if found.fget is None else _annotated(found.fget, made)
    if isinstance(found, (staticmethod, classmethod)):
        return (Known(getattr(made.cls, name)),)
    if isinstance(found, types.FunctionType):
        return (Method(found, made),)
    return None


def _of_own(own: Own, name: str, by: Solver) -> Kinds:
    """Return an attribute of a class of the program, or of an object of it."""
    if not own.scope.is_class:
        return None
    bindings = [*own.scope.names.get(name, ())]
    bindings += own.scope.attributes.get(name, ()) if own.is_object else ()
    if not bindings:
        bases = bases_of(own.scope, by)
        if bases is None or not own.is_object:
            return None
        for base in bases:
            of = Instance(base, False) if isinstance(base, type) else Own(base, True)
            if isinstance(of, Own) or has_attribute(of, name):
                return _attribute(of, name, by)
        return None
    found = _joined(_of_binding(one, by) for one in bindings)
    return _each(found, lambda kind: _bound(kind, own)) if own.is_object else found


def _bound(kind: Kind, owner: Own) -> Kinds:
    """Return what an object's attribute is where its class has a function or a
    property."""
    if isinstance(kind, Own) and not kind.is_object and not kind.scope.is_class:
        return (Method(kind.scope, owner),) if not _decorators(kind.scope) else None
    return (kind,)


def _decorators(scope: Scope) -> list[ast.expr]:
    return getattr(scope.node, "decorator_list", [])


def bases_of(scope: Scope, by: Solver) -> list[type | Scope] | None:
    """Return the bases of a class of the program; None where one of them is unknown."""
    node = scope.node
    if not isinstance(node, ast.ClassDef) or node.keywords or node.decorator_list:
        return None
    found: list[type | Scope] = []
    for base in node.bases:
        for kind in _kinds(base, scope.parent or scope, by) or (None,):
            if isinstance(kind, Known) and isinstance(kind.value, type):
                found.append(kind.value)
            elif isinstance(kind, Own) and kind.scope.is_class and not kind.is_object:
                if kind.scope is scope:
                    return None
                found.append(kind.scope)
            else:
                return None
    return found


# --- calls


def _called(kind: Kind, node: ast.Call, by: Solver) -> Kinds:
    """Return what a call gives."""
    if isinstance(kind, Known):
        return _made(kind.value, node, by)
    if isinstance(kind, Method):
        if isinstance(kind.function, Scope):
            return _returned(kind.function, by)
        return _annotated(kind.function, kind.owner)
    if isinstance(kind, Own) and not kind.is_object:
        if not kind.scope.is_class:
            return None if _decorators(kind.scope) else _returned(kind.scope, by)
        known = (
            bases_of(kind.scope, by) is not None and "__new__" not in kind.scope.names
        )
        return (Own(kind.scope, True),) if known else None
    return None


def _made(value: Any, node: ast.Call, by: Solver) -> Kinds:
    if not isinstance(value, type):
        return _annotated(value, None) if is_ours(value) else None
    if issubclass(value, Category):
        has_arguments = bool(node.args or node.keywords)
        return None if has_arguments else (Known(by.options(node, value)),)
    if not is_ours(value) or issubclass(value, (Enum, BaseException)):
        return None
    new = inspect.getattr_static(value, "__new__", None)
    is_plain = new is inspect.getattr_static(object, "__new__")
    return (Instance(value, is_plain),)


def _returned(scope: Scope, by: Solver) -> Kinds:
    if scope.is_generator or isinstance(scope.node, ast.AsyncFunctionDef):
        return None
    body = scope.node.body if isinstance(scope.node, ast.Lambda) else None
    values = scope.returns if body is None else [body]
    return by.of(scope, lambda: _joined(_kinds(one, scope, by) for one in values))


def _annotated(function: Any, owner: Instance | Own | None) -> Kinds:
    """Return what a function of ours gives, by its annotation."""
    if not is_ours(function):
        return None
    hint = _hint(function)
    if isinstance(hint, typing.TypeVar) and owner is not None:
        first = next(iter(_plain(function).__annotations__.values()))
        return (owner,) if first in (hint, hint.__name__) else None
    return _of_hint(hint, owner)


def _plain(function: Any) -> Any:
    """Return a function without what wraps it."""
    return inspect.unwrap(getattr(function, "__func__", function))


@functools.lru_cache(maxsize=4096)
def _hint(function: Any) -> Any:
    """Return the annotation of what a function gives, or None."""
    function = _plain(function)
    text = getattr(function, "__annotations__", {}).get("return")
    if not isinstance(text, str):
        return text
    names = _names_for_checkers(function.__module__)
    with contextlib.suppress(Exception):
        return eval(text, {**vars(typing), **names, **function.__globals__})
    return None


@functools.lru_cache(maxsize=512)
def _names_for_checkers(module: str) -> dict[str, Any]:
    """Return what a module imports under ``if TYPE_CHECKING``."""
    names: dict[str, Any] = {}
    with contextlib.suppress(OSError, ImportError):
        tree = ast.parse(inspect.getsource(importlib.import_module(module)))
        for block in tree.body:
            if isinstance(block, ast.If) and "TYPE_CHECKING" in ast.unparse(block.test):
                for one in block.body:
                    if isinstance(one, (ast.Import, ast.ImportFrom)):
                        code = compile(ast.Module([one], []), module, "exec")
                        with contextlib.suppress(ImportError):
                            exec(code, names)
    return names


def _of_hint(hint: Any, owner: Instance | Own | None) -> Kinds:
    if hint is type(None):
        return ()
    if hint is getattr(typing, "Self", ...) or getattr(hint, "__name__", "") == "Self":
        return None if owner is None else (owner,)
    origin = typing.get_origin(hint)
    if origin in (typing.Union, types.UnionType):
        return _joined(_of_hint(one, owner) for one in typing.get_args(hint))
    cls = origin or hint
    if isinstance(cls, type) and is_ours(cls) and not issubclass(cls, Enum):
        # options of a type have values, which an annotation does not tell
        return None if issubclass(cls, Category) else (Instance(cls, False),)
    return None


def _entered(kind: Kind) -> Kinds:
    """Return what ``with`` gives for a context."""
    if isinstance(kind, Instance):
        enter = inspect.getattr_static(kind.cls, "__enter__", None)
        if isinstance(enter, types.FunctionType):
            return _annotated(enter, kind)
    return None


# --- what objects have


def has_attribute(made: Instance, name: str) -> bool:
    """Return whether an object may have an attribute; True where that is not sure."""
    family = _family(made)
    return any(_has(cls, name) for cls in family) or _is_stored(name)


def _family(made: Instance) -> list[type]:
    """Return the classes that an object may be of."""
    if made.cls in _tensors():
        return _tensors()
    if made.exact:
        return [made.cls]
    _import_all()
    return list(_with_subclasses(made.cls))


def _with_subclasses(cls: Any) -> Iterator[type]:
    yield cls
    for one in type.__subclasses__(cls):
        yield from _with_subclasses(one)


@functools.lru_cache(maxsize=1)
def _tensors() -> list[type]:
    """Return what functions take and give as tensors, in all kinds of programs."""
    from ipu.keras.engine.symbols.keras_tensor import KerasTensor
    from ipu.tf._graph.operation import GraphTensor
    from ipu.tf._graph.variables import GraphVariable
    from ipu.tf._string_ops.tensors import StringTensor
    from ipu.tf.ragged import RaggedTensor
    from ipu.tf.sparse import SparseTensor
    from ipu.tf.variable import Variable

    several = (StringTensor, RaggedTensor, SparseTensor, GraphVariable)
    variables = list(_with_subclasses(Variable))
    return [_core.Tensor, KerasTensor, GraphTensor, *several, *variables]


def _has(cls: type, name: str) -> bool:
    if hasattr(cls, name) or hasattr(cls, "__getattr__"):
        return True
    return any(name in _words(base) for base in cls.__mro__)


@functools.lru_cache(maxsize=4096)
def _words(cls: type) -> frozenset[str]:
    """Return the attributes that the source of a class stores, and words in it."""
    if not is_ours(cls):
        return frozenset()
    try:
        source = inspect.getsource(cls)
    except (OSError, TypeError):
        return frozenset()
    stored = re.findall(r"\.(\w+)\s*(?:,|:[^=\n]+=|[-+*/]?=[^=])", source)
    declared = re.findall(r"^\s+(\w+)\s*:", source, re.MULTILINE)
    return frozenset((*stored, *declared, *re.findall(r"[\"'](\w+)[\"']", source)))


@functools.lru_cache(maxsize=1)
def _sources() -> str:
    return "\n".join(
        path.read_text(encoding="utf-8") for path in Path(PACKAGE).rglob("*.py")
    )


@functools.lru_cache(maxsize=1024)
def _is_stored(name: str) -> bool:
    """Return whether code of the package stores an attribute on another object."""
    pattern = rf"(?<!\bself)\.{re.escape(name)}\s*(:[^=\n]+)?=[^=]"
    return re.search(pattern, _sources()) is not None


@functools.lru_cache(maxsize=1)
def _import_all() -> None:
    """Define the subclasses that are defined when they are first used."""
    for path in sorted(Path(PACKAGE).rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        if "__main__" in parts:
            continue
        with contextlib.suppress(Exception):
            importlib.import_module(".".join(("ipu", *parts)).removesuffix(".__init__"))
