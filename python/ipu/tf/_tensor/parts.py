# SPDX-License-Identifier: MIT
"""Variables that several processes share out: each has parts, so that all of them have
to read such a variable together."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ipu import _core
from ipu._core import Tensor
from ipu._device import processes

if TYPE_CHECKING:
    from ipu.tf.variable import Variable


def are_apart(variables: Iterable[Variable]) -> list[Variable]:
    """Return those of which other processes have parts."""
    return [one for one in variables if one._device.variable_is_apart(one._id)]


def read_together(variables: list[Variable]) -> list[Tensor]:
    """Return the values of variables of one device that are apart; in all processes."""
    if not variables:
        return []
    names = ", ".join(one.name for one in variables)
    shared = processes.shared()
    if shared is not None:
        shared.meet(f"reading of {names}")
    with _core.Trace(name=f"read {names}") as trace:
        for one in variables:
            resource = ("variable", one._id, [one._type], one.name)
            trace.result(trace.node("variable_read", (), None, (resource,)))
            trace.share_out(one._id)
    device = variables[0]._device
    random = device.random
    values = trace.compile(device).run([])
    device.set_random(*random)  # to read is no step
    return values


def gather(variables: Iterable[Variable]) -> None:
    """Let each process have all of the variables, until a program shares them out
    again; in all processes."""
    apart = are_apart(variables)
    for device in {one._device for one in apart}:
        found = [one for one in apart if one._device is device]
        for one, value in zip(found, read_together(found), strict=True):
            one._put(value)
