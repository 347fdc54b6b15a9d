# SPDX-License-Identifier: MIT
"""``ipu.ipu_pipeline_estimator``: estimators whose model is a pipeline."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ipu._loops.estimator_parts import HostMetrics, Program, called
from ipu._text.exports import export
from ipu._text.suggestions import refuse_unknown
from ipu.ipu_estimator import ONLY, IPUEstimator
from ipu.ops import pipelining_ops
from ipu.tf import nest
from ipu.tf.estimator import ModeKeys

__all__ = ["IPUPipelineEstimator", "IPUPipelineEstimatorSpec"]


class IPUPipelineEstimatorSpec:
    """The return value of a model function.

    Attributes:
        mode: One of ``tf.estimator.ModeKeys``.
        computational_stages: The stages, as for ``pipelining_ops.pipeline``.
        gradient_accumulation_count: Batches of an execution of the pipeline.
        eval_metrics_fn: To evaluate: makes of what the last stage gives, on the host,
            pairs ``(value, update_op)`` or tensors by name, of which one is ``"loss"``.
        optimizer_function: To train: as for ``pipelining_ops.pipeline``.
        device_mapping: As for ``pipelining_ops.pipeline``.
        loss_accumulator_dtype: Accepted and not used.
        training_hooks: ``SessionRunHook`` objects, to train.
        evaluation_hooks: Accepted and not used.
        prediction_hooks: The same.
        reduction_method: As for ``pipelining_ops.pipeline``.
        **pipeline_op_kwargs: Other arguments of it, such as ``pipeline_schedule``,
            ``recomputation_mode`` or ``inputs``; ``pipeline_depth`` is the first
            generation's name of gradient_accumulation_count.

    Raises:
        ValueError: The count, or what the mode needs, is missing; an argument that the
            estimator gives the pipeline itself.
        TypeError: The pipeline has no such argument.

    Source: ``tensorflow.python.ipu.ipu_pipeline_estimator.IPUPipelineEstimatorSpec``.

    Example:
        >>> spec = IPUPipelineEstimatorSpec(
        ...     ModeKeys.PREDICT, [abs, abs], gradient_accumulation_count=4
        ... )
        >>> spec.gradient_accumulation_count
        4
    """

    def __init__(
        self,
        mode: str,
        computational_stages: Sequence[Any],
        gradient_accumulation_count: int | None = None,
        eval_metrics_fn: Callable[..., Any] | None = None,
        optimizer_function: Callable[..., Any] | None = None,
        device_mapping: Sequence[int] | None = None,
        loss_accumulator_dtype: Any = None,
        training_hooks: Any = None,
        evaluation_hooks: Any = None,
        prediction_hooks: Any = None,
        reduction_method: Any = None,
        **pipeline_op_kwargs: Any,
    ) -> None:
        depth = pipeline_op_kwargs.pop("pipeline_depth", None)
        if gradient_accumulation_count is None:
            gradient_accumulation_count = depth
        if gradient_accumulation_count is None:
            raise ValueError(
                "IPUPipelineEstimatorSpec needs `gradient_accumulation_count`."
            )
        if mode == ModeKeys.TRAIN and optimizer_function is None:
            raise ValueError("`optimizer_function` must be provided in TRAIN mode.")
        if mode == ModeKeys.EVAL and eval_metrics_fn is None:
            raise ValueError("`eval_metrics_fn` must be provided in EVAL mode.")
        _check_names(pipeline_op_kwargs)
        self.mode = mode
        self.computational_stages = computational_stages
        self.gradient_accumulation_count = gradient_accumulation_count
        self.eval_metrics_fn = eval_metrics_fn
        self.optimizer_function = optimizer_function
        self.device_mapping = device_mapping
        self.loss_accumulator_dtype = loss_accumulator_dtype
        self.training_hooks = training_hooks
        self.evaluation_hooks = evaluation_hooks
        self.prediction_hooks = prediction_hooks
        self.reduction_method = reduction_method
        self.pipeline_op_kwargs = pipeline_op_kwargs


# of the pipeline: what the estimator gives itself
_OWN = frozenset(
    {
        "accumulate_outfeed",
        "infeed_queue",
        "name",
        "outfeed_loss",
        "outfeed_queue",
        "repeat_count",
    }
)


def _check_names(given: Mapping[str, Any]) -> None:
    names = inspect.signature(pipelining_ops.pipeline).parameters
    for name in given:
        if name in _OWN:
            raise ValueError(
                f"IPUPipelineEstimatorSpec: the estimator itself chooses `{name}` of "
                "the pipeline. Leave it out."
            )
    refuse_unknown("IPUPipelineEstimatorSpec", given, set(names) - _OWN)


class IPUPipelineEstimator(IPUEstimator):
    """Runs the pipeline that a function describes.

    Args:
        model_fn: Called with ``mode`` and, where it takes them, ``params`` and
            ``config``; returns an :class:`IPUPipelineEstimatorSpec`. The first stage
            gets the elements of the data set.
        model_dir: As for ``IPUEstimator``, as are the others.

    ``iterations_per_loop`` counts executions of the pipeline, so that a step is an
    update of the weights; each takes as many batches as the count of the spec says.
    To predict, the last stage returns a tensor or a dict of tensors; batches at the end
    of the data set that do not fill an execution are left out.

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
        self._check_collectives()
        hooks = tuple(spec.training_hooks or ())
        return program._replace(taken={"loss": program.taken}, hooks=hooks)

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

    def _prediction(self, input_fn: Callable[..., Any]) -> Program:
        spec = self._pipeline_spec(ModeKeys.PREDICT)
        program = self._piped(input_fn, spec, ModeKeys.PREDICT)
        if isinstance(program.taken, Mapping):
            return program
        parts = nest.flatten(program.taken)
        if len(parts) != 1:
            raise ValueError(
                "To predict, the last stage must return a tensor or a dict of tensors. "
                f"Received: {len(parts)} tensors."
            )
        return program._replace(taken={ONLY: parts[0]})

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
        if spec.reduction_method is not None:
            options["reduction_method"] = spec.reduction_method

        def program() -> Any:
            return pipelining_ops.pipeline(
                spec.computational_stages,
                gradient_accumulation_count=spec.gradient_accumulation_count,
                repeat_count=(
                    1 if mode == ModeKeys.PREDICT else self._device.iterations_per_loop
                ),
                infeed_queue=infeed,
                outfeed_queue=outfeed,
                device_mapping=spec.device_mapping,
                **spec.pipeline_op_kwargs,
                **options,
            )

        return self._compiled(program, infeed, outfeed)


def _by_number(taken: Any) -> dict[str, Any]:
    parts = taken if isinstance(taken, (list, tuple)) else [taken]
    return {f"result_{i:03}": part for i, part in enumerate(parts)}


export(__name__)
