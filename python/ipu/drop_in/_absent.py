# SPDX-License-Identifier: MIT
"""Stand-ins for names that a program imports at its head and may never use.

``from tensorflow.keras.layers import Dense, LSTM`` shall not stop a program that needs
``Dense`` alone. So an import statement that asks a module of the table for a name which
is not there gets an :class:`AbsentName`, with one warning. Code that asks in order to
find out is told the truth: ``hasattr``, ``importlib``, ``import a.b``, and statements
in a ``try`` that expects an ImportError. So is a program that mistypes a name.
"""

from __future__ import annotations

import dis
import types
from collections.abc import Iterable
from typing import Any, NoReturn

from ipu._text.missing import MissingNameError, NotThereYetError, describe
from ipu._text.user_warnings import warn_user
from ipu.drop_in._guards import expects_import_error

_IMPORT_OPCODES = (dis.opmap["IMPORT_NAME"], dis.opmap["IMPORT_FROM"])
# what a program does with an object, apart from looking at it
_USES = (
    "__call__ __mro_entries__ __enter__ __exit__ __iter__ __next__ __len__ "
    "__contains__ __getitem__ __setitem__ __delitem__ __index__ __int__ __float__ "
    "__complex__ __bytes__ __lt__ __le__ __gt__ __ge__ __neg__ __pos__ __invert__ "
    "__abs__ __or__ __ror__ __and__ __rand__ __xor__ __rxor__ __add__ __radd__ "
    "__sub__ __rsub__ __mul__ __rmul__ __matmul__ __rmatmul__ __truediv__ "
    "__rtruediv__ __floordiv__ __rfloordiv__ __mod__ __rmod__ __pow__ __rpow__ "
    "__lshift__ __rlshift__ __rshift__ __rrshift__"
).split()


class AbsentName:
    """A stand-in that an import statement binds to a name that is not there.

    It can be bound, passed on, compared and asked for with ``isinstance``; whatever
    uses it raises the error that says why it is not there.

    Args:
        name: The full name, such as "tensorflow.keras.layers.LSTM".
    """

    def __init__(self, name: str) -> None:
        self.__dict__["_absent_name"] = name

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        raise MissingNameError(f"{self._absent_name}.{name}")

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise NotThereYetError(self._absent_name)

    def __bool__(self) -> bool:
        return True

    def __instancecheck__(self, instance: object) -> bool:
        return False

    def __subclasscheck__(self, subclass: type) -> bool:
        return False

    def __repr__(self) -> str:
        return f"<{self._absent_name}, which is not in ipu>"

    def _use(self, *args: Any, **kwargs: Any) -> NoReturn:
        del args, kwargs
        raise NotThereYetError(self._absent_name)


for _method in _USES:
    setattr(AbsentName, _method, AbsentName._use)


def is_slip(name: str, known: Iterable[str]) -> bool:
    """Return whether a name is one that is there, but for one letter or for upper case.

    Digits and underscores tell names apart: ``relu6`` is not a slip for ``relu``.

    Args:
        name: The name.
        known: The names that are there.

    Example:
        >>> is_slip("Desne", ["Dense", "Dot"]), is_slip("relu6", ["relu"])
        (True, False)
    """
    return len(name) > 3 and any(_one_slip(name, other) for other in known)


def _one_slip(a: str, b: str) -> bool:
    if a.lower() == b.lower():
        return True
    short, long = sorted((a, b), key=len)
    if len(long) - len(short) > 1:
        return False
    same = 0
    while same < len(short) and short[same] == long[same]:
        same += 1
    left, right = short[same:], long[same:]
    if len(left) < len(right):
        return left == right[1:] and right[0].isalpha()
    swapped = left[:2] == right[1::-1] and left[2:] == right[2:]
    letters = left[:1].isalpha() and right[:1].isalpha()
    return letters and (swapped or left[1:] == right[1:])


def _importer(frame: types.FrameType | None) -> types.FrameType | None:
    """Return the frame whose import statement asks a module for a name, or None.

    Args:
        frame: The one that asks: that of the statement, or of the import system.
    """
    while frame is not None and frame.f_code.co_filename.startswith("<frozen imp"):
        frame = frame.f_back
    if frame is None or frame.f_lasti < 0:
        return None
    opcode = frame.f_code.co_code[frame.f_lasti]
    return frame if opcode in _IMPORT_OPCODES else None


def stand_in(
    name: str,
    known: Iterable[str],
    asking: types.FrameType | None,
    made: AbsentName | None = None,
) -> AbsentName | None:
    """Return the stand-in for a name, where code that asks for it is to have one.

    Returns:
        The stand-in, with a warning at the first import; None where the lookup fails.
    """
    importer = _importer(asking)
    if importer is None or expects_import_error(importer):
        return None
    if made is not None:
        return made
    if is_slip(name.rpartition(".")[2], known):
        return None
    warn_user(f"{describe(name)} A stand-in is imported, which fails where it is used.")
    return AbsentName(name)
