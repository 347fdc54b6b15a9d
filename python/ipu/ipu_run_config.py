# SPDX-License-Identifier: MIT
"""``ipu.ipu_run_config``: how ``ipu.ipu_estimator`` runs a model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ipu._device.devices import device_sizes
from ipu._text.exports import export
from ipu._text.refusals import refuse_given
from ipu.tf import estimator

__all__ = ["IPURunConfig", "RunConfig"]


@dataclass(frozen=True)
class IPURunConfig:
    """The options of a run that concern the device.

    Attributes:
        iterations_per_loop: Batches that the device takes before the host goes on.
        ipu_options: An ``IPUConfig``, or the configuration of the first generation;
            None: the device as it is configured.
        num_replicas: How often the model is replicated. Default: 1.
        num_shards: On how many IPUs a replica is. Default: 1.
        ordinal: The device. Default: 0.
        prefetch_depth: Batches that are prepared ahead; None: the queue's default.

    Raises:
        ValueError: A number is below 1 (the ordinal: below 0); several IPUs without
            ``ipu_options``; options without a device of that number, or whose device
            has not as many IPUs as replicas and shards make.

    Source: ``tensorflow.python.ipu.ipu_run_config.IPURunConfig``.

    Example:
        >>> IPURunConfig(iterations_per_loop=10).num_replicas
        1
    """

    iterations_per_loop: int = 1
    ipu_options: Any = None
    num_replicas: int = 1
    num_shards: int = 1
    ordinal: int = 0
    prefetch_depth: int | None = None
    autosharding: bool = False
    compile_summary: bool = False

    def __post_init__(self) -> None:
        for name in ("iterations_per_loop", "num_replicas", "num_shards"):
            if getattr(self, name) < 1:
                raise ValueError(
                    f"IPURunConfig: {name} must be positive. Received: "
                    f"{name}={getattr(self, name)}."
                )
        if self.ordinal < 0:
            raise ValueError(
                "IPURunConfig: ordinal must not be negative. Received: "
                f"ordinal={self.ordinal}."
            )
        self._check_devices()

    def _check_devices(self) -> None:
        wanted = self.num_replicas * self.num_shards
        asked = (
            f"IPURunConfig: num_replicas={self.num_replicas} and "
            f"num_shards={self.num_shards} make {wanted} IPUs"
        )
        if self.ipu_options is None:
            if wanted > 1:
                raise ValueError(
                    f"{asked}, but ipu_options is not given. Give an IPUConfig with "
                    f"auto_select_ipus = {wanted}."
                )
            return
        counts = device_sizes(getattr(self.ipu_options, "config", self.ipu_options))
        if self.ordinal >= len(counts):
            raise ValueError(
                f"IPURunConfig: ordinal={self.ordinal} names no device of ipu_options, "
                f"which has {len(counts)}. Give auto_select_ipus one entry for each "
                "device."
            )
        if counts[self.ordinal] != wanted:
            raise ValueError(
                f"{asked}, but device {self.ordinal} of ipu_options has "
                f"{counts[self.ordinal]}. Give as many replicas and shards as fill it."
            )


class RunConfig(estimator.RunConfig):
    """``tf.estimator.RunConfig`` with what concerns the device.

    Args:
        ipu_run_config: An :class:`IPURunConfig`; None: its defaults.
        master: Must be empty.
        **options: The attributes of ``tf.estimator.RunConfig``.

    Source: ``tensorflow.python.ipu.ipu_run_config.RunConfig``.

    Example:
        >>> RunConfig(model_dir="here").ipu_run_config.iterations_per_loop
        1
    """

    def __init__(
        self,
        ipu_run_config: IPURunConfig | None = None,
        master: str | None = None,
        **options: Any,
    ) -> None:
        refuse_given(f"{__name__}.RunConfig", master=master)
        super().__init__(**options)
        self.ipu_run_config = ipu_run_config or IPURunConfig()


export(__name__)
