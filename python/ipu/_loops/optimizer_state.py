# SPDX-License-Identifier: MIT
"""Where the state of an optimizer lies between updates, in a program that is traced."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from ipu import _core
from ipu._device.placement import current_device


class StatePlaces(NamedTuple):
    """What lies in remote memory, and what replicas share out.

    Attributes:
        offload_state: The optimizer's state lies in remote memory.
        share_state: Each replica has a part of it, and updates that.
        offload_weights: The weights lie in remote memory.
        share_weights: Each replica has a part of them.
    """

    offload_state: bool = False
    share_state: bool = False
    offload_weights: bool = False
    share_weights: bool = False

    @classmethod
    def of(
        cls, offload: Any = None, share: Any = False, weights: Any = None
    ) -> StatePlaces:
        """Return what the arguments of optimizers and pipelines say.

        Args:
            offload: ``offload_weight_update_variables``.
            share: ``replicated_optimizer_state_sharding``; None: as ``offload``.
            weights: ``offload_weights`` and ``replicated_weight_sharding``; the first
                one may be None: as the second one.
        """
        offloaded, shared = weights or (False, False)
        return cls(
            bool(offload),
            bool(offload if share is None else share),
            bool(shared if offloaded is None else offloaded),
            bool(shared),
        )

    def settle(self, optimizer: Any, weights: Sequence[Any]) -> None:
        """Put variables of the open trace where they belong; after the update.

        Args:
            weights: What it updates; the optimizer's other variables are its state.
        """
        trace = _core.open_trace()
        if trace is None or not any(self):
            return
        trained = {id(variable) for variable in weights}
        state = optimizer.variables
        state = state() if callable(state) else state
        state = [one for one in state if id(one) not in trained]
        _offload(trace, state if self.offload_state else ())
        _offload(trace, weights if self.offload_weights else ())
        _share_out(trace, state if self.share_state else ())
        _share_out(trace, weights if self.share_weights else ())


def _offload(trace: _core.Trace, variables: Iterable[Any]) -> None:
    """Move variables to remote memory, but for small ones."""
    options = current_device().options or {}
    least = int(options.get("optimizations.minimum_remote_tensor_size", 128))
    for variable in variables:
        if variable.dtype.size * math.prod(variable.shape) >= least:
            trace.move_to_remote(variable._id)


def _share_out(trace: _core.Trace, variables: Iterable[Any]) -> None:
    """Let replicas share out variables, but for single numbers."""
    for variable in variables:
        if len(variable.shape) > 0:
            trace.share_out(variable._id)
