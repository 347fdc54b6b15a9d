# SPDX-License-Identifier: MIT
"""``ipu.ipu_pipeline_estimator``: estimators whose model is a pipeline."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from ipu._estimator_parts import HostMetrics, Program, called
from ipu._faces import face
from ipu._refusals import refuse_call
from ipu.ipu_estimator import IPUEstimator
from ipu.ops import pipelining_ops
from ipu.tf.estimator import ModeKeys

__all__ = ["IPUPipelineEstimator", "IPUPipelineEstimatorSpec"]


@dataclass(frozen=True)
class IPUPipelineEstimatorSpec:
    """What a model function returns.

    Attributes:
        mode: One of ``tf.estimator.ModeKeys``.
        computational_stages: The stages, as for ``pipelining_ops.pipeline``.
        gradient_accumulation_count: Batches of an execution of the pipeline.
        eval_metrics_fn: To evaluate: makes of what the last stage gives, on the host,
            pairs ``(value, update_op)`` or tensors by name, of which one is ``"loss"``.
        optimizer_function: To train: as for ``pipelining_ops.pipeline``.
        device_mapping: As for ``pipelining_ops.pipeline``.
        pipeline_schedule: As for ``pipelining_ops.pipeline``.
        offload_weight_update_variables: As for ``pipelining_ops.pipeline``.
        inputs: What the first stage gets before the element of the data set.
        pipeline_depth: The first generation's name of gradient_accumulation_count.

    Raises:
        ValueError: The count, or what the mode needs, is missing.

    Source: ``tensorflow.python.ipu.ipu_pipeline_estimator.IPUPipelineEstimatorSpec``.

    Example:
        >>> spec = IPUPipelineEstimatorSpec(
        ...     ModeKeys.PREDICT, [abs, abs], gradient_accumulation_count=4
        ... )
        >>> spec.gradient_accumulation_count
        4
    """

    mode: str
    computational_stages: Sequence[Any]
    gradient_accumulation_count: int | None = None
    eval_metrics_fn: Callable[..., Any] | None = None
    optimizer_function: Callable[..., Any] | None = None
    device_mapping: Sequence[int] | None = None
    loss_accumulator_dtype: Any = None
    training_hooks: Any = None
    evaluation_hooks: Any = None
    prediction_hooks: Any = None
    reduction_method: Any = None
    pipeline_schedule: Any = None
    offload_weight_update_variables: bool | None = None
    inputs: Any = None
    pipeline_depth: int | None = None

    def __post_init__(self) -> None:
        count = self.gradient_accumulation_count or self.pipeline_depth
        if count is None:
            raise ValueError(
                "IPUPipelineEstimatorSpec needs `gradient_accumulation_count`."
            )
        object.__setattr__(self, "gradient_accumulation_count", count)
        if self.mode == ModeKeys.TRAIN and self.optimizer_function is None:
            raise ValueError("`optimizer_function` must be provided in TRAIN mode.")
        if self.mode == ModeKeys.EVAL and self.eval_metrics_fn is None:
            raise ValueError("`eval_metrics_fn` must be provided in EVAL mode.")


class IPUPipelineEstimator(IPUEstimator):
    """Runs the pipeline that a function describes.

    Args:
        model_fn: Called with ``mode`` and, where it takes them, ``params`` and
            ``config``; returns an :class:`IPUPipelineEstimatorSpec`. The first stage
            gets the elements of the data set.
        model_dir: As for ``IPUEstimator``, as are the others.

    ``iterations_per_loop`` counts batches: it is a multiple of the count of the spec.

    Source: ``tensorflow.python.ipu.ipu_pipeline_estimator.IPUPipelineEstimator``.

    Example:
        >>> IPUPipelineEstimator(lambda mode: None, "folder").model_dir
        'folder'
    """

    def _training(self, input_fn: Callable[..., Any]) -> Program:
        spec = self._pipeline_spec(ModeKeys.TRAIN)
        program = self._piped(
            input_fn,
            spec,
            ModeKeys.TRAIN,
            optimizer_function=spec.optimizer_function,
            outfeed_loss=True,
        )
        return program._replace(taken={"loss": program.taken})

    def _evaluation(self, input_fn: Callable[..., Any]) -> tuple[Program, Any]:
        spec = self._pipeline_spec(ModeKeys.EVAL)
        program = self._piped(input_fn, spec, ModeKeys.EVAL)
        taken = _by_number(program.taken)
        metrics = HostMetrics(spec.eval_metrics_fn, taken)
        if "loss" not in metrics.names:
            raise ValueError(
                "`eval_metrics_fn` must give a dict that has 'loss'. Received: "
                f"{sorted(metrics.names)}."
            )
        # the loss is that of the function, and stands for this one
        program = program._replace(taken={**taken, "loss": taken["result_000"]})
        return program, metrics

    def predict(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Pipelines of estimators do not predict.

        Raises:
            NotImplementedError: Always.
        """
        refuse_call(f"{__name__}.IPUPipelineEstimator.predict")

    def _pipeline_spec(self, mode: str) -> Any:
        offered = {"mode": mode, "params": self._params, "config": self._config}
        spec = called(self._model_fn, offered)
        if not isinstance(spec, IPUPipelineEstimatorSpec):
            raise ValueError(
                "model_fn should return an IPUPipelineEstimatorSpec. Received: "
                f"{type(spec).__name__}."
            )
        return spec

    def _piped(
        self, input_fn: Callable[..., Any], spec: Any, mode: str, **options: Any
    ) -> Program:
        infeed, outfeed = self._queues(input_fn, mode)
        size, count = self._device.iterations_per_loop, spec.gradient_accumulation_count
        if size % count:
            raise ValueError(
                f"The iterations_per_loop {size} of the IPURunConfig must be a "
                f"multiple of gradient_accumulation_count, {count}."
            )
        if spec.reduction_method is not None:
            options["reduction_method"] = spec.reduction_method

        def program() -> Any:
            return pipelining_ops.pipeline(
                spec.computational_stages,
                gradient_accumulation_count=count,
                repeat_count=size // count,
                inputs=spec.inputs,
                infeed_queue=infeed,
                outfeed_queue=outfeed,
                device_mapping=spec.device_mapping,
                pipeline_schedule=spec.pipeline_schedule,
                offload_weight_update_variables=spec.offload_weight_update_variables,
                **options,
            )

        return self._compiled(program, infeed, outfeed)


def _by_number(taken: Any) -> dict[str, Any]:
    parts = taken if isinstance(taken, (list, tuple)) else [taken]
    return {f"result_{i:03}": part for i, part in enumerate(parts)}


if not TYPE_CHECKING:
    __getattr__, __dir__ = face(__name__, __all__)
