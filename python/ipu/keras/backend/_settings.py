# SPDX-License-Identifier: MIT
"""Defaults of layers, and the phase they are called in."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from ipu import tf
from ipu._text.exports import defined
from ipu.keras import _names
from ipu.keras._backend_state import state
from ipu.keras.engine.layer.call_context import current_training


def backend() -> str:
    """Return ``"tensorflow"``, the API that programs find here.

    Example:
        >>> backend()
        'tensorflow'
    """
    return "tensorflow"


def clear_session() -> None:
    """Start the automatic names of layers again.

    Example:
        >>> clear_session()
        >>> keras.layers.Dense(1).name
        'dense'
    """
    _names.reset_uids()


def epsilon() -> float:
    """Return the least divisor of losses, 1e-7 unless it was set.

    Example:
        >>> epsilon()
        1e-07
    """
    return state.epsilon


def set_epsilon(value: float) -> None:
    """Set what ``epsilon`` gives, for losses that are made or traced from now on.

    Example:
        >>> set_epsilon(1e-5)
        >>> epsilon()
        1e-05
        >>> set_epsilon(1e-7)
    """
    state.epsilon = float(value)


def floatx() -> str:
    """Return the dtype of layers that are not told any, ``"float32"`` unless set.

    Example:
        >>> floatx()
        'float32'
    """
    return state.floatx


def set_floatx(value: str) -> None:
    """Set the dtype of layers that are made from now on.

    Args:
        value: ``"float32"`` or ``"float16"``.

    Raises:
        ValueError: Another dtype; the device has these two.

    Example:
        >>> set_floatx("float16")
        >>> floatx()
        'float16'
        >>> set_floatx("float32")
    """
    if value not in ("float16", "float32"):
        raise ValueError(
            "The floating point dtype of layers must be 'float16' or 'float32', which "
            f"the device has. Received: {value!r}."
        )
    state.floatx = value


def cast_to_floatx(x: Any) -> Any:
    """Return an array or tensor in the dtype of ``floatx()``.

    Example:
        >>> cast_to_floatx(np.array([1.0, 2.0])).dtype.name
        'float32'
    """
    if isinstance(x, (tf.Tensor, tf.Variable)):
        return tf.cast(x, state.floatx)
    return np.asarray(x, dtype=state.floatx)


def image_data_format() -> str:
    """Return where the channels of images are, ``"channels_last"`` unless set.

    Example:
        >>> image_data_format()
        'channels_last'
    """
    return state.image_data_format


def set_image_data_format(data_format: str) -> None:
    """Set where the channels of images are for layers that are not told.

    Raises:
        ValueError: It is neither ``"channels_last"`` nor ``"channels_first"``.

    Example:
        >>> set_image_data_format("channels_first")
        >>> image_data_format()
        'channels_first'
        >>> set_image_data_format("channels_last")
    """
    if data_format not in ("channels_last", "channels_first"):
        known = ("channels_last", "channels_first")
        raise ValueError(
            f"Unknown data_format: {data_format!r}.{_names.nearest(data_format, known)}"
        )
    state.image_data_format = data_format


def learning_phase() -> int:
    """Return 1 inside of a layer that is called in training, else 0.

    Example:
        >>> learning_phase()
        0
    """
    return int(bool(current_training()))


def set_learning_phase(value: int) -> None:
    """Refuse: a call says whether it is training.

    Raises:
        ValueError: ``value`` is not 0.

    Example:
        >>> set_learning_phase(0)
    """
    if value not in (0, False):
        raise ValueError(
            "There is no global learning phase. Pass training=True to the model's call."
        )


def in_train_phase(x: Any, alt: Any, training: Any = None) -> Any:
    """Return ``x`` in training, else ``alt``; callables are called.

    Example:
        >>> in_train_phase("in training", "otherwise", training=True)
        'in training'
    """
    chosen = x if (current_training() if training is None else training) else alt
    return chosen() if callable(chosen) else chosen


def in_test_phase(x: Any, alt: Any, training: Any = None) -> Any:
    """Return ``x`` outside of training, else ``alt``; callables are called.

    Example:
        >>> in_test_phase("otherwise", "in training", training=False)
        'otherwise'
    """
    return in_train_phase(alt, x, training)


@contextlib.contextmanager
def learning_phase_scope(value: int) -> Iterator[None]:
    """Check a phase and do nothing else.

    Raises:
        ValueError: ``value`` is not 0: a call says whether it is training.

    Example:
        >>> with learning_phase_scope(0):
        ...     learning_phase()
        ...
        0
    """
    set_learning_phase(value)
    yield


def manual_variable_initialization(value: bool) -> None:
    """Do nothing: a variable has its first value when it is made.

    Example:
        >>> manual_variable_initialization(True)
    """
    del value


def get_uid(prefix: str = "") -> int:
    """Return the next number of an automatic name, from 1.

    Example:
        >>> get_uid("an_example"), get_uid("an_example")
        (1, 2)
    """
    return _names.next_uid(prefix)


def reset_uids() -> None:
    """Start the automatic names again.

    Example:
        >>> reset_uids()
        >>> keras.layers.Dense(1).name, keras.layers.Dense(1).name
        ('dense', 'dense_1')
    """
    _names.reset_uids()


if not TYPE_CHECKING:
    __all__ = defined(__name__)
