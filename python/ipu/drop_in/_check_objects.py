# SPDX-License-Identifier: MIT
"""Uses of objects in a program that cannot work: attributes and methods that they
do not have, arguments that their methods refuse, options that a configuration lacks.

Whatever an object may be must lack it: what is not sure is left alone.
"""

from __future__ import annotations

import ast
import difflib
import inspect
import types
from collections.abc import Iterator
from typing import Any, NamedTuple

from ipu._config.options import AttributeMetadata, Category
from ipu._text import refusals
from ipu.drop_in import _check_calls
from ipu.drop_in._check_kinds import (
    Instance,
    Known,
    Method,
    Own,
    Solver,
    bases_of,
    has_attribute,
    is_ours,
)
from ipu.drop_in._check_scopes import Reader, Scope, Touch


class Objection(NamedTuple):
    """Something that cannot work.

    Attributes:
        name: The class and the attribute, or ``method(argument=)``.
        why: What the run would say.
        refused: Whether it is an argument or a value, not a name.
        touch: Where.
    """

    name: str
    why: str
    refused: bool
    touch: Touch


def objections(reader: Reader) -> Iterator[Objection]:
    """Find what cannot work in a program."""
    by = Solver()
    for touch in reader.touches:
        if isinstance(touch.node, ast.Call):
            found = _of_call(touch, touch.node, by)
        else:
            found = _of_attribute(reader, touch, touch.node, by)
        yield from found


# --- attributes


def _of_attribute(
    reader: Reader, touch: Touch, node: ast.Attribute, by: Solver
) -> Iterator[Objection]:
    if node.attr in reader.probed or node.attr.startswith("__"):
        return
    kinds = by.kinds_of(node.value, touch.scope)
    if not kinds:
        return
    is_stored = isinstance(node.ctx, ast.Store)
    faults = []
    for kind in kinds:
        fault = None
        if isinstance(kind, Known) and isinstance(kind.value, Category):
            fault = _of_options(kind.value, node.attr, touch, by)
        elif not is_stored and node.attr not in reader.stored | reader.words:
            fault = _missing(kind, node.attr, reader, by)
        if fault is None:
            return
        faults.append(fault)
    name, why, refused = faults[0]
    yield Objection(name, why, refused, touch)


Fault = tuple[str, str, bool]


def _of_options(options: Category, name: str, touch: Touch, by: Solver) -> Fault | None:
    """Return what is wrong with an option of a configuration, and with its new
    value."""
    cls = type(options)
    full = f"{cls.__name__ if options._prefix == '' else options._prefix[:-1]}.{name}"
    if not hasattr(cls, name) and name not in cls._names():
        return full, str(options._unknown(name)), False
    option = cls._options.get(name)
    if option is not None and touch.value is not None:
        for value in _value_of(touch.value, touch.scope, by):
            try:
                AttributeMetadata(options._prefix + name, option).check_type(value)
            except TypeError as error:
                return full, str(error), True
            for row in refusals.rows_of("ipu.config.IPUConfig"):
                if row.argument == options._prefix + name and row.refuses(value):
                    return full, row.text(repr(value)), True
    return None


def _value_of(node: ast.expr, scope: Scope, by: Solver) -> Iterator[Any]:
    """Yield the value of an expression, where it is sure."""
    try:
        yield ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError):
        kinds = by.kinds_of(node, scope)
        if kinds and len(kinds) == 1 and isinstance(kinds[0], Known):
            yield kinds[0].value


def _missing(kind: Any, name: str, reader: Reader, by: Solver) -> Fault | None:
    """Return what is wrong with an attribute that an object does not have."""
    if isinstance(kind, Instance):
        if has_attribute(kind, name):
            return None
        return _absent(kind.cls.__name__, name, dir(kind.cls))
    if isinstance(kind, Own) and kind.is_object and name not in reader.defined:
        classes = _ours_below(kind.scope, by)
        if classes and not any(
            has_attribute(Instance(one, False), name) for one in classes
        ):
            own = getattr(kind.scope.node, "name", "")
            return _absent(own, name, [*dir(classes[0]), *reader.defined])
    return None


def _absent(cls: str, name: str, known: list[str]) -> Fault:
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.75)
    hint = f". Did you mean: {near[0]!r}?" if near else ""
    return f"{cls}.{name}", f"{cls!r} object has no attribute {name!r}{hint}", False


def _ours_below(scope: Scope, by: Solver) -> list[type]:
    """Return the classes of this package that a class of the program is made of; empty
    where others are among its bases, or where it answers for attributes itself.
    """
    if "__getattr__" in scope.names or "__getattribute__" in scope.names:
        return []
    found: list[type] = []
    for base in bases_of(scope, by) or ():
        below = [base] if isinstance(base, type) else _ours_below(base, by)
        if not below or not all(map(is_ours, below)):
            return []
        found += below
    return found


# --- calls


def _of_call(touch: Touch, node: ast.Call, by: Solver) -> Iterator[Objection]:
    kinds = by.kinds_of(node.func, touch.scope)
    method = node.func.attr if isinstance(node.func, ast.Attribute) else ""
    if not kinds:
        # of an object nobody knows the method's name is all there is
        of = node.func.value if isinstance(node.func, ast.Attribute) else None
        if of is not None and by.kinds_of(of, touch.scope) is None:
            yield from _refused(f"...{method}", None, method, touch, node)
        return
    each = []
    for kind in kinds:
        if isinstance(kind, Instance):
            kind = _called_object(kind)
        if isinstance(kind, Method) and is_ours(kind.function):
            owner = kind.owner
            cls = owner.cls if isinstance(owner, Instance) else owner.scope.node
            name = f"{getattr(cls, '__name__', getattr(cls, 'name', ''))}.{method}"
            found = _refused(name, kind.function, method, touch, node, True)
        elif isinstance(kind, Known) and is_ours(kind.value):
            name = ast.unparse(node.func)
            found = _refused(name, kind.value, method, touch, node)
        else:
            return
        each.append(list(found))
    # of several functions all must refuse
    if all(each):
        yield from each[0]


def _called_object(made: Instance) -> Instance | Method:
    call = inspect.getattr_static(made.cls, "__call__", None)
    return Method(call, made) if isinstance(call, types.FunctionType) else made


def _refused(
    name: str,
    function: Any,
    method: str,
    touch: Touch,
    node: ast.Call,
    has_self: bool = False,
) -> Iterator[Objection]:
    for argument, why in _check_calls.faults(function, method, node, has_self):
        inside = f"{argument}=" if argument else ""
        yield Objection(f"{name}({inside})", why, True, touch)
