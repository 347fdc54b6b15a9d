# SPDX-License-Identifier: MIT
"""The IPU programming model for TensorFlow 2, without an IPU and without TensorFlow.

``ipu.tf`` is the TensorFlow-2-style front end, ``ipu.keras`` the Keras-like face, and
the modules beside them are the IPU API under its known names. The package is
independent of Graphcore and of TensorFlow; their names say what it is compatible with.
Modules are loaded when they are first used.

Example:
    >>> from ipu import tf
    >>> float(tf.reduce_sum(tf.constant([1.0, 2.0, 3.0])))
    6.0
"""

import importlib as _importlib
import os as _os
from typing import TYPE_CHECKING

from ipu import _core
from ipu._threads import num_threads, set_num_threads
from ipu._version import __version__

if TYPE_CHECKING:
    from ipu import (
        config,
        ipu_infeed_queue,
        ipu_outfeed_queue,
        ipu_strategy,
        keras,
        loops,
        tf,
        utils,
    )

__all__ = [
    "__version__",
    "config",
    "ipu_infeed_queue",
    "ipu_outfeed_queue",
    "ipu_strategy",
    "keras",
    "loops",
    "num_threads",
    "set_num_threads",
    "tf",
    "utils",
]

# frames of files below this folder are not the user's
_core.set_package_dir(_os.path.dirname(__file__) + _os.sep)


def __getattr__(name: str) -> object:
    if name in __all__:
        return _importlib.import_module(f"ipu.{name}")
    raise AttributeError(f"module 'ipu' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted(__all__)
