# SPDX-License-Identifier: MIT
"""Old programs as they are: TensorFlow's and Keras's module names, served by ``ipu``.

After :func:`install` the imports of programs for the IPU port of TensorFlow
(``import tensorflow as tf``, ``from tensorflow.python import ipu``, ``import keras``,
``from tensorflow.python.framework import ops``, ...) resolve to ``ipu``'s own objects,
whether or not TensorFlow is installed. ``python -m ipu run program.py`` and ``%load_ext
ipu`` call it; ``python -m ipu check program.py`` says beforehand which names of a
program are there.

What only such programs need lives in this package.

Example:
    >>> from ipu import drop_in
    >>> drop_in.install()
    >>> import tensorflow as tf
    >>> float(tf.constant(1.0) + 1.0)
    2.0
    >>> drop_in.uninstall()
"""

from __future__ import annotations

import sys
from types import ModuleType

from ipu._device.locks import Lock
from ipu._text.exports import export
from ipu.drop_in import _facade, _table

__all__ = ["install", "installed", "uninstall"]

# the roots of TensorFlow's tree
_ROOTS = ("tensorflow", "tensorflow_core", "keras", "ipu_tensorflow_addons", "popdist")
# hardware tools: a package of that name which is installed comes first
_TOOLS = ("pva",)


class _Hook:
    """What :func:`install` put where. `lock` protects the rest."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.finders: list[_facade.Finder] = []
        self.set_aside: dict[str, ModuleType] = {}


_hook = _Hook()


def install(first_tensorflow: bool = False) -> None:
    """Serve TensorFlow's and Keras's module names from now on.

    Modules of the real packages that have been imported already are set aside; who
    holds one keeps it. A second call changes nothing.

    Args:
        first_tensorflow: Let ``tensorflow`` itself have the names of TensorFlow 1
            (``tensorflow.Session``), as it had for programs before TensorFlow 2.
            Default: False.

    Example:
        >>> install()
        >>> from tensorflow.python import ipu as served
        >>> import ipu
        >>> served.config.IPUConfig is ipu.config.IPUConfig
        True
        >>> uninstall()
    """
    with _hook.lock:
        if _hook.finders:
            return
        _table.serve_first(first_tensorflow)
        roots = _facade.Finder(_ROOTS)
        tools = _facade.Finder(_TOOLS)
        for name in _facade.loaded(roots.roots):
            _hook.set_aside[name] = sys.modules.pop(name)
        sys.meta_path.insert(0, roots)
        sys.meta_path.append(tools)
        _hook.finders = [roots, tools]


def uninstall() -> None:
    """Stop serving them, and put what :func:`install` set aside back.

    Example:
        >>> install()
        >>> uninstall()
        >>> installed()
        False
    """
    with _hook.lock:
        for finder in _hook.finders:
            sys.meta_path.remove(finder)
            for name in _facade.loaded(finder.roots):
                if isinstance(sys.modules[name], _facade.Facade):
                    del sys.modules[name]
        sys.modules.update(_hook.set_aside)
        _hook.finders = []
        _hook.set_aside = {}
        _table.serve_first(False)


def installed() -> bool:
    """Return whether the names are served.

    Example:
        >>> installed()
        False
    """
    return bool(_hook.finders)


export(__name__)
