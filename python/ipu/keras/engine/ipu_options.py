# SPDX-License-Identifier: MIT
"""The IPU extensions of models: options of pipelines, accumulation, replicas, queues.

A ``set_...`` method keeps the named values that it is not given, and replaces the other
keywords and the reduction method at every call, as the original does.
"""

from __future__ import annotations

from enum import Enum
from typing import Any

from ipu import tf
from ipu.keras.engine.stages import Stages

__all__ = ["IPUOptions", "ReplicatedMetricReductionMethod"]


class ReplicatedMetricReductionMethod(Enum):
    """How the results of several replicas become the logs."""

    NONE = 1
    LIST = 2
    SUM = 3
    MEAN = 4

    @classmethod
    def parse(cls, value: Any) -> ReplicatedMetricReductionMethod:
        """Give the member that a member or a name means.

        Raises:
            ValueError: There is none.
        """
        if isinstance(value, cls):
            return value
        if isinstance(value, str) and value.upper() in cls.__members__:
            return cls[value.upper()]
        raise ValueError(
            f"Cannot parse {value!r} as one of ReplicatedMetricReductionMethod. Use "
            f"one of {list(cls.__members__)}."
        )


_SET_BY_KERAS = (
    "computational_stages",
    "repeat_count",
    "inputs",
    "infeed_queue",
    "outfeed_queue",
    "optimizer_function",
)
_NOT_WITH_KERAS = ("outfeed_loss", "outfeed_mask", "batch_serialization_iterations")


def _reduction(value: Any) -> str:
    name = value if isinstance(value, str) else getattr(value, "name", None)
    if isinstance(name, str) and name.lower() in ("sum", "mean", "running_mean"):
        return name.lower()
    raise ValueError(
        f"Cannot parse {value!r} as one of GradientAccumulationReductionMethod. Use "
        "'sum', 'mean' or 'running_mean'."
    )


def _steps(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(
            "Expected `gradient_accumulation_steps_per_replica` to be a positive "
            f"integer, but got {value!r} instead."
        )
    return value


def _refuse_keys(options: dict[str, Any], keys: Any, where: str, why: str) -> None:
    for key in keys:
        if key in options:
            raise ValueError(f"Found `{key}` key in `{where}`. {why}")


class IPUOptions(Stages):
    """The methods that the IPU extensions give to a model."""

    def _init_ipu_options(self) -> None:
        self._accumulation_steps: int | None = None
        self._accumulation_kwargs: dict[str, Any] = {}
        self._accumulation_reduction = "sum"
        self._pipelining_steps: int | None = None
        self._pipelining_device_mapping: list[int] | None = None
        self._pipelining_accumulate_outfeed: bool | None = None
        self._pipelining_kwargs: dict[str, Any] = {}
        self._replicated_reduction = ReplicatedMetricReductionMethod.NONE
        self._infeed_options: dict[str, Any] = {}
        self._outfeed_options: dict[str, Any] = {}
        self._init_stages()

    # --- options ----------------------------------------------------------------------

    def set_asynchronous_callbacks(self, asynchronous: bool = False) -> None:
        """Choose whether callbacks run for each step while the device is busy.

        Raises:
            UnimplementedError: ``asynchronous`` is True.
        """
        if asynchronous:
            raise tf.errors.UnimplementedError(
                "Asynchronous callbacks are not there yet. Received: "
                "asynchronous=True. `History.steps` has the values of every step after "
                "`fit`."
            )

    def set_replication_options(
        self, replicated_metric_reduction_method: Any = "NONE"
    ) -> None:
        """Choose how the results of several replicas become the logs.

        Args:
            replicated_metric_reduction_method: A ``ReplicatedMetricReductionMethod`` or
                its name.

        Raises:
            ValueError: It is none.
        """
        self._replicated_reduction = ReplicatedMetricReductionMethod.parse(
            replicated_metric_reduction_method
        )

    def set_gradient_accumulation_options(
        self,
        gradient_accumulation_steps_per_replica: int | None = None,
        gradient_accumulation_reduction_method: Any = "sum",
        use_v2_gradient_accumulation_optimizer: bool = False,
        **gradient_accumulation_optimizer_kwargs: Any,
    ) -> None:
        """Set gradient accumulation for a model that is not pipelined.

        Args:
            gradient_accumulation_steps_per_replica: Mini-batches of a weight update;
                None keeps the value.
            gradient_accumulation_reduction_method: ``"sum"``, ``"mean"`` or
                ``"running_mean"``.
            use_v2_gradient_accumulation_optimizer: Accepted.
            **gradient_accumulation_optimizer_kwargs: For the accumulating optimizer.

        Raises:
            ValueError: An argument is not legal.
        """
        del use_v2_gradient_accumulation_optimizer
        options = gradient_accumulation_optimizer_kwargs
        steps = gradient_accumulation_steps_per_replica
        steps = self._accumulation_steps if steps is None else _steps(steps)
        _refuse_keys(
            options,
            ("opt", "num_mini_batches"),
            "gradient_accumulation_optimizer_kwargs",
            "It is set automatically by Keras.",
        )
        _refuse_keys(
            options,
            ("experimental_normalize_gradients",),
            "gradient_accumulation_optimizer_kwargs",
            "Use `gradient_accumulation_reduction_method='mean'`.",
        )
        self._accumulation_reduction = _reduction(
            gradient_accumulation_reduction_method
        )
        self._accumulation_steps = steps
        self._accumulation_kwargs = dict(options)

    def set_pipelining_options(
        self,
        gradient_accumulation_steps_per_replica: int | None = None,
        device_mapping: list[int] | None = None,
        accumulate_outfeed: bool | None = None,
        gradient_accumulation_reduction_method: Any = "sum",
        **pipelining_kwargs: Any,
    ) -> None:
        """Set how a pipelined model runs; no effect on a model without stages.

        Args:
            gradient_accumulation_steps_per_replica: Mini-batches of a weight update;
                None keeps the value.
            device_mapping: The IPU of each stage; None keeps the value.
            accumulate_outfeed: Whether results of a weight update are added up; None
                keeps the value.
            gradient_accumulation_reduction_method: ``"sum"``, ``"mean"`` or
                ``"running_mean"``.
            **pipelining_kwargs: For the pipeline, such as ``pipeline_schedule`` (also
                ``schedule``); they replace those of the call before.

        Raises:
            ValueError: An argument is not legal.
        """
        options = dict(pipelining_kwargs)
        steps = gradient_accumulation_steps_per_replica
        steps = self._pipelining_steps if steps is None else _steps(steps)
        if device_mapping is not None and (
            not isinstance(device_mapping, list)
            or any(
                isinstance(n, bool) or not isinstance(n, int) for n in device_mapping
            )
        ):
            raise ValueError(
                "Expected `device_mapping` to be a list of integers. "
                f"Received: {device_mapping!r}."
            )
        _refuse_keys(
            options,
            ("gradient_accumulation_count",),
            "pipelining_kwargs",
            "Set the `gradient_accumulation_steps_per_replica` argument instead.",
        )
        _refuse_keys(
            options,
            _SET_BY_KERAS,
            "pipelining_kwargs",
            "It is automatically set by Keras.",
        )
        _refuse_keys(
            options,
            _NOT_WITH_KERAS,
            "pipelining_kwargs",
            "It is not compatible with Keras.",
        )
        _refuse_keys(
            options,
            ("experimental_normalize_gradients",),
            "pipelining_kwargs",
            "Use `gradient_accumulation_reduction_method='mean'`.",
        )
        self._accumulation_reduction = _reduction(
            gradient_accumulation_reduction_method
        )
        self._pipelining_steps = steps
        if device_mapping is not None:
            self._pipelining_device_mapping = list(device_mapping)
        if accumulate_outfeed is not None:
            self._pipelining_accumulate_outfeed = bool(accumulate_outfeed)
        if "schedule" in options:
            options.setdefault("pipeline_schedule", options.pop("schedule"))
        self._pipelining_kwargs = options

    def set_infeed_queue_options(self, **kwargs: Any) -> None:
        """Set options of the infeeds, such as ``prefetch_depth``.

        Raises:
            ValueError: An option that Keras sets itself.
        """
        _refuse_keys(
            kwargs,
            ("dataset", "infeed_spec", "element_spec"),
            "kwargs",
            "It is set automatically by Keras.",
        )
        self._infeed_options = dict(kwargs)

    def set_outfeed_queue_options(self, **kwargs: Any) -> None:
        """Set options of the outfeeds, such as ``buffer_depth``.

        Raises:
            ValueError: An option that Keras sets itself.
        """
        _refuse_keys(
            kwargs,
            ("outfeed_mode", "device_ordinal"),
            "kwargs",
            "It is set automatically by Keras.",
        )
        self._outfeed_options = dict(kwargs)

    # --- what is not there yet --------------------------------------------------------

    def _refuse_pipeline(self, what: str, per_execution: int = 1) -> None:
        """Refuse to run what needs pipelines or accumulation.

        Raises:
            RuntimeError: ``steps_per_execution`` is not divisible by the accumulation.
            UnimplementedError: The model is pipelined, or accumulates gradients.
            ValueError: A pipelined model without accumulation steps.
        """
        if self._is_pipelined():
            if what == "fit" and self._pipelining_steps is None:
                raise ValueError(
                    "The model which you are attempting to train is pipelined, however "
                    "`gradient_accumulation_steps_per_replica` has not been set "
                    "through `set_pipelining_options()`."
                )
            if what == "fit":
                self._check_divides(
                    "pipelined model", per_execution, self._pipelining_steps or 1
                )
            stages = self._stage_count()
            raise tf.errors.UnimplementedError(
                f"`{what}` of a pipelined model is not there yet. Received: a model on "
                f"{stages} stages. `reset_pipeline_stage_assignment()` makes it run on "
                "one IPU."
            )
        steps = self._accumulation_steps or 1
        if what == "fit" and steps > 1:
            self._check_divides("model", per_execution, steps)
            raise tf.errors.UnimplementedError(
                "Gradient accumulation is not there yet. Received: "
                f"gradient_accumulation_steps_per_replica={steps}. Set it to 1."
            )

    @staticmethod
    def _check_divides(what: str, per_execution: int, steps: int) -> None:
        if per_execution % steps != 0:
            raise RuntimeError(
                f"The {what} has been configured to use gradient accumulation for "
                "training, however the current `steps_per_execution` value (set to "
                f"{per_execution}) is not divisible by "
                f"`gradient_accumulation_steps_per_replica` (set to {steps})."
            )
