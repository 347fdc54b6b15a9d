# SPDX-License-Identifier: MIT
"""``tensorflow.python.eager.context``: everything runs eagerly outside of functions."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from ipu import _core
from ipu._text.exports import defined
from ipu._text.refusals import refuse_call


def executing_eagerly() -> bool:
    """Return whether ops run at once: everywhere but in a function that is being
    traced."""
    return _core.open_trace() is None


@contextlib.contextmanager
def eager_mode() -> Iterator[None]:
    """Run ops at once; they do."""
    yield


def graph_mode() -> Any:
    """Raise: there are no graphs of TensorFlow 1 here."""
    refuse_call(f"{__name__}.graph_mode")


def num_gpus() -> int:
    """Return the number of GPUs in use: none."""
    return 0


def async_wait() -> None:
    """Wait for ops that still run; none does."""


def ensure_initialized() -> None:
    """Set the context up; there is nothing to set up."""


def set_global_seed(seed: int | None) -> None:
    """Seed the random numbers, as ``tf.random.set_seed``."""
    from ipu import tf

    if seed is not None:
        tf.random.set_seed(seed)


def device(name: str) -> Any:
    """Return a place for ops, as ``tf.device``."""
    from ipu._device.placement import device as tf_device

    return tf_device(name)


class Context:
    """The one context."""

    def executing_eagerly(self) -> bool:
        """Work like the function of that name."""
        return executing_eagerly()

    def num_gpus(self) -> int:
        """Work like the function of that name."""
        return num_gpus()

    def ensure_initialized(self) -> None:
        """Work like the function of that name."""

    def devices(self) -> list[str]:
        """Return the names of the devices."""
        from ipu._device import devices as _devices

        layout = _devices.current_layout()
        count = 1 if layout is None else len(layout.ids or layout.counts)
        ipus = [f"/device:IPU:{n}" for n in range(count)]
        return ["/device:CPU:0", *ipus]


_context = Context()


def context() -> Context:
    """Return the one context."""
    return _context


__all__ = defined(__name__)
