# SPDX-License-Identifier: MIT
"""``ipu.scopes``: contexts that say where and how ops run.

Example:
    >>> from ipu import scopes, tf
    >>> with scopes.ipu_scope("/device:IPU:0"):
    ...     float(tf.constant(1.0) + 2.0)
    3.0
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any

from ipu import _core
from ipu._device import devices, placement
from ipu._device.thread_state import here
from ipu._text.exports import export
from ipu.tf.dtypes import as_dtype


def ipu_scope(device: str) -> contextlib.AbstractContextManager[None]:
    """Put ops and variables on an IPU device.

    Args:
        device: Its name, such as "/device:IPU:0".

    Returns:
        A context manager.

    Raises:
        ValueError: ``device`` names neither an IPU nor a CPU.

    Source: ``ipu.scopes.ipu_scope``.

    Example:
        >>> from ipu import scopes, tf
        >>> with scopes.ipu_scope("/device:IPU:0"):
        ...     y = tf.constant([1.0, 2.0]) * 3.0
        ...
        >>> y.numpy().tolist()
        [3.0, 6.0]
    """
    devices.parse_device_name(device)
    return placement.ipu_scope(device)


@contextlib.contextmanager
def ipu_jit_scope(ipu_scope: int) -> Iterator[None]:
    """Compile the ops inside together; functions always are.

    Args:
        ipu_scope: A number for the group of ops; accepted without effect.

    Example:
        >>> from ipu import scopes, tf
        >>> with scopes.ipu_jit_scope(0):
        ...     y = tf.constant(2.0) * 3.0
        ...
        >>> float(y)
        6.0
    """
    del ipu_scope
    yield


@contextlib.contextmanager
def _noted(name: str, value: int) -> Iterator[None]:
    """Note something of the ops in a trace, or of those that graphs keep."""
    trace = _core.open_trace()
    where = here if trace is None else trace
    before = getattr(where, name)
    try:
        setattr(where, name, value)
        yield
    finally:
        setattr(where, name, before)


@contextlib.contextmanager
def ipu_shard(index: int | Iterable[int]) -> Iterator[None]:
    """Put ops on one IPU of a device of several.

    A program takes as many IPUs as its largest shard says, and is replicated where the
    device has more. All of its IPUs compute one after the other here; pipelines use
    them side by side.

    Args:
        index: The shard, or several for ops of several results, of which the last
            counts. Inside of another ``ipu_shard`` the inner one holds. It has no
            effect on what runs at once.

    Raises:
        ValueError: It is not an integer of 0 or more, nor several.

    Example:
        >>> config = ipu.config.IPUConfig()
        >>> config.auto_select_ipus = 2
        >>> config.configure_ipu_system()
        >>> @tf.function(jit_compile=True)
        ... def twice_and_one(x):
        ...     with ipu_shard(0):
        ...         y = x * 2.0
        ...     with ipu_shard(1):
        ...         return y + 1.0
        >>> float(twice_and_one(tf.constant(3.0)))
        7.0
    """
    try:
        shards = list(index) if isinstance(index, Iterable) else [index]
        wrong = any(isinstance(s, bool) or int(s) != s or s < 0 for s in shards)
    except (TypeError, ValueError):
        wrong = True
    if wrong:
        raise ValueError(
            "`index` of ipu_shard must be an integer of 0 or more, or several. "
            f"Received: {index!r}."
        )
    with _noted("shard", shards[-1] if shards else -1):
        yield


@contextlib.contextmanager
def outside_compilation_scope(name: str = "outside") -> Iterator[None]:
    """Run what is inside on the host, in the middle of a device program.

    There ``tf.py_function``, ``tf.numpy_function`` and ``tf.py_func`` call Python each
    time that the program passes, in loops and pipelines as well: tensors go to the
    host, the program waits, and the results come back. Other ops give the same numbers
    on either side, and stay in the program. The function may not use variables of the
    device, which is at work meanwhile.

    Args:
        name: A name for the part.

    Raises:
        ValueError: No function is being compiled, or there is another one around.

    Source: ``ipu.scopes.outside_compilation_scope`` of SDK 1.2 to 3.4.

    Example:
        >>> @tf.function(jit_compile=True)
        ... def net(x):
        ...     y = x * x
        ...     with outside_compilation_scope():
        ...         z = tf.numpy_function(np.sort, [y], tf.float32)
        ...     return z + 1.0
        >>> with ipu.ipu_strategy.IPUStrategy().scope():
        ...     net(tf.constant([3.0, -1.0, 2.0])).numpy().tolist()
        [2.0, 5.0, 10.0]
    """
    del name
    if _core.open_trace() is None:
        raise ValueError(
            "outside_compilation_scope is only for code inside a function that is "
            "compiled for the device. Outside of one, code runs on the host anyway."
        )
    if here.outside:
        raise ValueError("Illegal nesting of outside_compilation_scope")
    with here.setting(outside=True):
        yield


@contextlib.contextmanager
def frontend_attribute(
    attribute_name: str, attribute_value: str, restore_to: str | None = None
) -> Iterator[None]:
    """Attach a hint to ops. Hints are for the hardware: it is checked, and not used.

    Args:
        attribute_name: Which hint.
        attribute_value: Its value.
        restore_to: Its value afterwards; None for none.

    Raises:
        TypeError: One of them is not a string.

    Example:
        >>> with frontend_attribute("matmul_pass_type", "NONE"):
        ...     pass
    """
    for name, value in (
        ("attribute_name", attribute_name),
        ("attribute_value", attribute_value),
        ("restore_to", restore_to or ""),
    ):
        if not isinstance(value, str):
            raise TypeError(f"`{name}` must be a string. Received: {value!r}.")
    yield


@contextlib.contextmanager
def stochastic_rounding(override: bool) -> Iterator[None]:
    """Switch stochastic rounding of float16 on or off for ops.

    Args:
        override: Whether to round stochastically, whatever
            ``floating_point_behaviour.esr`` says. Of ops in functions that are compiled
            for the device, and of their gradients; what runs at once is rounded to the
            nearest number.

    Raises:
        TypeError: It is not a bool.

    Example:
        >>> @tf.function(jit_compile=True)
        ... def third(x):
        ...     with stochastic_rounding(True):
        ...         return x / 3.0
        >>> with tf.device("/device:IPU:0"):
        ...     many = third(tf.ones([3000], tf.float16)).numpy()
        >>> far = abs(many.astype(float).mean() - 1 / 3)
        >>> sorted(set(many.tolist())), bool(far < 1e-5)
        ([0.333251953125, 0.33349609375], True)
    """
    if not isinstance(override, bool):
        raise TypeError(f"`override` must be a bool. Received: {override!r}.")
    with _noted("rounding", 2 if override else 1):
        yield


@contextlib.contextmanager
def partials_type(override_type: Any) -> Iterator[None]:
    """Choose the type in which the hardware adds up products of float16.

    Here sums are float32 always: float16 partial sums save time and memory on the
    hardware, at the price of precision, and results are those of float32 ones.

    Args:
        override_type: float16 or float32.

    Raises:
        ValueError: Another type.

    Example:
        >>> with partials_type("float16"):
        ...     pass
    """
    try:
        name = as_dtype(override_type).name
    except TypeError:
        name = ""
    if name not in ("float16", "float32"):
        raise ValueError(
            "Only support float16, float32, provided: "
            f"{getattr(override_type, 'name', override_type)!r}."
        )
    yield


export(__name__)
