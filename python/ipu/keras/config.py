# SPDX-License-Identifier: MIT
"""``ipu.keras.config``: what holds for all that is made from now on.

Those of ``ipu.keras.backend`` are here under the same names.
"""

from __future__ import annotations

from ipu._text.exports import export, offered
from ipu.keras._backend_state import state as _state
from ipu.keras.backend import (
    epsilon as epsilon,
    floatx as floatx,
    image_data_format as image_data_format,
    set_epsilon as set_epsilon,
    set_floatx as set_floatx,
    set_image_data_format as set_image_data_format,
)
from ipu.keras.engine.layer import policy as _policy
from ipu.tf.debugging import (
    disable_traceback_filtering as disable_traceback_filtering,
    enable_traceback_filtering as enable_traceback_filtering,
    is_traceback_filtering_enabled as is_traceback_filtering_enabled,
)

dtype_policy = _policy.global_policy
set_dtype_policy = _policy.set_global_policy


def backend() -> str:
    """Return ``"ipu"``, the name of what computes.

    ``keras.backend.backend()`` says "tensorflow", as programs of Keras 2 expect.

    Example:
        >>> keras.config.backend()
        'ipu'
    """
    return "ipu"


def enable_interactive_logging() -> None:
    """Show the progress of runs on the standard output, as at the beginning.

    Example:
        >>> keras.config.enable_interactive_logging()
        >>> keras.config.is_interactive_logging_enabled()
        True
    """
    _state.is_interactive = True


def disable_interactive_logging() -> None:
    """Give the progress of runs to the logger ``"ipu"``, a line for each epoch.

    Example:
        >>> keras.config.disable_interactive_logging()
        >>> keras.config.is_interactive_logging_enabled()
        False
        >>> keras.config.enable_interactive_logging()
    """
    _state.is_interactive = False


def is_interactive_logging_enabled() -> bool:
    """Return whether the progress of runs is shown on the standard output.

    Example:
        >>> keras.config.is_interactive_logging_enabled()
        True
    """
    return _state.is_interactive


def enable_unsafe_deserialization() -> None:
    """Let every file that is read from now on bring code: the lambdas in it.

    ``load_model(..., safe_mode=False)`` says so of one file. Code can do anything, so
    trust the files first.

    Example:
        >>> keras.config.enable_unsafe_deserialization()  # doctest: +SKIP
    """
    _state.trusts_files = True


export(__name__, offered(__name__))
