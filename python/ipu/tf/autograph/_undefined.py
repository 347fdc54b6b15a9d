# SPDX-License-Identifier: MIT
"""The placeholder of a variable without a value; every use of it is an error."""

from __future__ import annotations

from typing import Any, NoReturn


class Undefined:
    """A variable without a value.

    Args:
        why: How that came to be, for the error of its use.
    """

    __slots__ = ("_name", "_why")

    def __init__(self, name: str, why: str = "") -> None:
        self._name = name
        self._why = why

    def _fail(self, *_: Any) -> NoReturn:
        raise UnboundLocalError(
            f"'{self._name}' has no value here. "
            + (self._why or "It is used before it is assigned.")
        )

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name != "__ipu_tensor__":
            raise AttributeError(name)
        return self._fail()

    def __repr__(self) -> str:
        return f"<undefined '{self._name}'>"

    __hash__ = object.__hash__


for _operator in (
    "add radd sub rsub mul rmul truediv rtruediv floordiv rfloordiv mod rmod pow rpow "
    "matmul rmatmul and rand or ror invert neg abs lt le gt ge eq ne bool int float "
    "index len iter call getitem setitem contains array"
).split():
    setattr(Undefined, f"__{_operator}__", Undefined._fail)

# what a function's result is before a `return`
no_value = Undefined("return value")
