# SPDX-License-Identifier: MIT
"""Names that are not there: one error for all, with the program's line and a way out.

Reading such a name raises :class:`MissingNameError`, importing it
:class:`MissingModuleError`, calling something that may be imported but not yet used
:class:`NotThereYetError`. All three say the same sentence.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from types import FrameType
from typing import NoReturn

from ipu._text import unimplemented as _later
from ipu._text.suggestions import hint

PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_STANDARD = os.path.dirname(os.__file__) + os.sep
_INSTALLED = (os.sep + "site-packages" + os.sep, os.sep + "dist-packages" + os.sep)
# installed libraries that the package calls
_CALLED = tuple(
    folder + name + os.sep
    for folder in _INSTALLED
    for name in ("h5py", "numpy", "safetensors", "tqdm")
)


class MissingNameError(AttributeError):
    """A module has no such name; ``hasattr`` and ``getattr`` with a default see it.

    Its text is made when it is read, which these two never do.

    Attributes:
        name: The full name, such as "tensorflow.nn.conv2d".
    """

    name: str

    def __init__(self, name: str, known: Iterable[str] = ()) -> None:
        super().__init__(name, name=name)
        self._known = list(known)
        self._line = user_line()

    def __str__(self) -> str:
        return _sentence(self.name, self._known, self._line)

    @property
    def instead(self) -> str:
        """What to use instead, or ""."""
        return _later.lookup(self.name, self._known).instead


class MissingModuleError(ModuleNotFoundError):
    """An ``import`` names a module, or a name in one, that is not there.

    ``ImportError.name`` stays None: with the module's own name in it, the import
    system would swap this message for "cannot import name".

    Attributes:
        full_name: The full name, such as "tensorflow.estimator".
        instead: What to use instead, or "".
    """

    def __init__(self, name: str, known: Iterable[str] = ()) -> None:
        names = list(known)
        super().__init__(describe(name, names))
        self.full_name = name
        self.instead = _later.lookup(name, names).instead


class NotThereYetError(NotImplementedError):
    """Something that programs may import, but not use yet.

    Attributes:
        full_name: The full name, such as "ipu.pipelining_ops.pipeline".
        instead: What to use instead, or "".
    """

    def __init__(self, name: str) -> None:
        super().__init__(describe(name))
        self.full_name = name
        self.instead = _later.lookup(name).instead


def is_library(file: str) -> bool:
    """Return whether code is of Python itself, or of a library that this package calls.

    Args:
        file: The name of its file.
    """
    if file.startswith("<frozen ") or any(part in file for part in _CALLED):
        return True
    return file.startswith(_STANDARD) and not any(p in file for p in _INSTALLED)


def user_line(frame: FrameType | None = None) -> tuple[str, int] | None:
    """Return file and line of the program that is being run: the innermost frame
    neither ours nor a library's.

    Args:
        frame: Where to begin; None: with the caller.

    Returns:
        (file, line), or None where there is no such frame.
    """
    frame = frame or sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        if not file.startswith(PACKAGE) and not is_library(file):
            return file, frame.f_lineno
        if frame.f_back is None:
            return None
        frame = frame.f_back
    return None


def describe(name: str, known: Iterable[str] = ()) -> str:
    """Return the sentence about a name that is not there.

    Args:
        name: The full name.
        known: Names that are there, to offer the nearest one.

    Returns:
        The name, the program's line, and what to use instead where that is known.
    """
    return _sentence(name, list(known), user_line())


def _sentence(name: str, known: list[str], line: tuple[str, int] | None) -> str:
    later = _later.lookup(name, known)
    where = f" (line {line[1]} of {line[0]})" if line else ""
    yet = " yet" if "later version" in later.topic else ""
    words = [f"{name} is not in ipu{yet}{where}."]
    words += [text for text in (later.topic, later.instead) if text]
    text = " ".join(words)
    if not later.topic:
        text += hint(name.rpartition(".")[2], known, _later.NEAR)
    return text


def refuse(name: str) -> NoReturn:
    """Raise :class:`NotThereYetError` for a name that a program tries to use."""
    raise NotThereYetError(name)
