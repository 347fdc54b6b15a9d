# SPDX-License-Identifier: MIT
"""The IPU programming model for TensorFlow 2, without an IPU and without TensorFlow.

``ipu.tf`` is the TensorFlow-2-style front end, ``ipu.keras`` the Keras-like face, and the
modules beside them are the IPU API under its known names. The package is independent of
Graphcore and of TensorFlow; their names say what it is compatible with.

Example:
    >>> from ipu import tf
    >>> float(tf.reduce_sum(tf.constant([1.0, 2.0, 3.0])))
    6.0
"""

import os as _os

from ipu import _core
from ipu._version import __version__

_core.set_package_dir(_os.path.dirname(__file__) + _os.sep)

from ipu import (  # noqa: E402 - the core knows the package's folder from here on
    config,
    ipu_infeed_queue,
    ipu_outfeed_queue,
    ipu_strategy,
    keras,
    loops,
    tf,
    utils,
)
from ipu._threads import num_threads, set_num_threads  # noqa: E402

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
