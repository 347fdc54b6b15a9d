# SPDX-License-Identifier: MIT
"""Which loops are parts of a step.

An iteration of an outermost loop is a step: it draws random numbers of its own, and a
run may be stopped after it. The loop of a recurrent layer is a part of a step instead,
whether or not there is a loop of steps around it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ipu._device.thread_state import here


@contextmanager
def part_of_step() -> Iterator[None]:
    """A block in which loops that are traced are parts of a step."""
    here.parts_of_step += 1
    try:
        yield
    finally:
        here.parts_of_step -= 1


def loop_attrs(**attrs: Any) -> dict[str, Any]:
    """Give the attributes of a loop that is being traced: these, and what it is."""
    return {**attrs, "is_part": True} if here.parts_of_step else attrs
