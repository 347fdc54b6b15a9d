# SPDX-License-Identifier: MIT
"""``tf.estimator``: what goes with the estimators of ``ipu.ipu_estimator``.

TensorFlow's own estimators are not there, since they run models on the host.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ipu._text.exports import export
from ipu._text.refusals import refuse_given

__all__ = [
    "EstimatorSpec",
    "EvalSpec",
    "ModeKeys",
    "RunConfig",
    "TrainSpec",
    "train_and_evaluate",
]


class ModeKeys:
    """The modes in which a model function is called.

    Example:
        >>> ModeKeys.TRAIN
        'train'
    """

    TRAIN = "train"
    EVAL = "eval"
    PREDICT = "infer"


@dataclass(frozen=True)
class EstimatorSpec:
    """The return value of a model function.

    Attributes:
        mode: One of :class:`ModeKeys`.
        predictions: A tensor or a dict of tensors, to predict.
        loss: A scalar, to train and to evaluate.
        train_op: The operation that updates the variables, to train.
        eval_metric_ops: Pairs ``(value, update_op)`` by name, as ``tf.metrics`` gives
            them, to evaluate.

    Raises:
        ValueError: Something that the mode needs is missing.

    Example:
        >>> EstimatorSpec(ModeKeys.PREDICT, predictions={"y": 1.0}).predictions
        {'y': 1.0}
    """

    mode: str
    predictions: Any = None
    loss: Any = None
    train_op: Any = None
    eval_metric_ops: Any = None
    export_outputs: Any = None
    training_chief_hooks: Any = None
    training_hooks: Any = None
    scaffold: Any = None
    evaluation_hooks: Any = None
    prediction_hooks: Any = None

    def __post_init__(self) -> None:
        needed = {
            ModeKeys.TRAIN: ("loss", "train_op"),
            ModeKeys.EVAL: ("loss",),
            ModeKeys.PREDICT: ("predictions",),
        }
        if self.mode not in needed:
            raise ValueError(
                f"`mode` must be one of tf.estimator.ModeKeys. Received: {self.mode!r}."
            )
        for name in needed[self.mode]:
            if getattr(self, name) is None:
                raise ValueError(f"Missing {name} for mode {self.mode!r}.")


# the least value of each number of a RunConfig; None is allowed where it is the default
_LEAST = {
    "save_summary_steps": 0,
    "save_checkpoints_steps": 0,
    "save_checkpoints_secs": 0,
    "keep_checkpoint_max": 0,
    "log_step_count_steps": 1,
}
_DEFAULT_SECONDS = 600


@dataclass
class RunConfig:
    """Options for the runs of estimators.

    Attributes:
        model_dir: The folder of checkpoints; None: a new temporary one.
        tf_random_seed: The seed of the graph; None: random.
        save_summary_steps: Write the loss as a summary after at least so many steps; 0
            or None: never.
        save_checkpoints_steps: Save after at least so many steps; or
        save_checkpoints_secs: after so many seconds. None of both: after 600 seconds.
        keep_checkpoint_max: How many checkpoints stay; 0 or None: all. Default: 5.
        log_step_count_steps: Log the loss after at least so many steps; None: never.
        train_distribute: A strategy for several processes, such as
            ``ipu.ipu_multi_worker_strategy.IPUMultiWorkerStrategyV1``: all of them
            call the estimator's methods, and process 0 reads and writes its folder.
            None: this process is alone.

    Raises:
        ValueError: Both of ``save_checkpoints_steps`` and ``save_checkpoints_secs`` are
            given, a number is too small, or ``model_dir`` is empty.
        TypeError: ``tf_random_seed`` is not an integer, or ``train_distribute`` is not
            such a strategy.

    Example:
        >>> RunConfig(model_dir="here").model_dir
        'here'
    """

    model_dir: str | None = None
    tf_random_seed: int | None = None
    save_summary_steps: int | None = 100
    save_checkpoints_steps: int | None = None
    save_checkpoints_secs: int | None = None
    session_config: Any = None
    keep_checkpoint_max: int | None = 5
    keep_checkpoint_every_n_hours: float = 10000
    log_step_count_steps: int | None = 100
    train_distribute: Any = field(default=None)

    def __post_init__(self) -> None:
        strategy = self.train_distribute
        if strategy is not None and not getattr(strategy, "_has_workers", False):
            raise TypeError(
                "RunConfig: train_distribute must be a strategy for several processes, "
                f"such as IPUMultiWorkerStrategyV1(cluster). Received: {strategy!r}."
            )
        if self.model_dir == "":
            raise ValueError("RunConfig: model_dir should be non-empty.")
        seed = self.tf_random_seed
        if seed is not None and (isinstance(seed, bool) or not isinstance(seed, int)):
            raise TypeError(
                f"RunConfig: tf_random_seed must be an integer. Received: {seed!r}."
            )
        for name, least in _LEAST.items():
            value = getattr(self, name)
            if value is not None and value < least:
                raise ValueError(
                    f"RunConfig: {name} should be at least {least}. Received: {value}."
                )
        if self.keep_checkpoint_every_n_hours <= 0:
            raise ValueError(
                "RunConfig: keep_checkpoint_every_n_hours should be more than 0. "
                f"Received: {self.keep_checkpoint_every_n_hours}."
            )
        if (
            self.save_checkpoints_steps is not None
            and self.save_checkpoints_secs is not None
        ):
            raise ValueError(
                "RunConfig: save_checkpoints_steps and save_checkpoints_secs cannot "
                "both be set. Give one."
            )

    @property
    def save_times(self) -> tuple[float | None, int | None]:
        """After how many seconds, or steps, checkpoints are written."""
        if self.save_checkpoints_steps is None and self.save_checkpoints_secs is None:
            return _DEFAULT_SECONDS, None
        return self.save_checkpoints_secs, self.save_checkpoints_steps

    def replace(self, **changes: Any) -> Any:
        """Copy it with other values of some attributes.

        Raises:
            ValueError: There is no such attribute, or what the class raises.

        Example:
            >>> RunConfig(model_dir="here").replace(tf_random_seed=3).tf_random_seed
            3
        """
        made = copy.copy(self)
        for name, value in changes.items():
            if not hasattr(made, name):
                raise ValueError(f"RunConfig has no attribute {name}.")
            setattr(made, name, value)
        made.__post_init__()
        return made


def _check_spec(spec: Any, least: dict[str, int]) -> None:
    kind = type(spec).__name__
    if not callable(spec.input_fn):
        raise TypeError(
            f"{kind}: input_fn must be a function. Received: {spec.input_fn!r}."
        )
    for name, bound in least.items():
        value = getattr(spec, name)
        if value is not None and value < bound:
            raise ValueError(
                f"{kind}: {name} must be at least {bound}. Received: {value}."
            )


@dataclass(frozen=True)
class TrainSpec:
    """Options for the training of :func:`train_and_evaluate`.

    Attributes:
        input_fn: Gives the data set.
        max_steps: The step that it ends at; None: with the data set.
        hooks: ``SessionRunHook`` objects.
        saving_listeners: ``CheckpointSaverListener`` objects.

    Raises:
        TypeError: ``input_fn`` is not a function.
        ValueError: ``max_steps`` is below 1.

    Example:
        >>> TrainSpec(print, max_steps=100).max_steps
        100
    """

    input_fn: Callable[..., Any]
    max_steps: int | None = None
    hooks: Sequence[Any] | None = None
    saving_listeners: Sequence[Any] | None = None

    def __post_init__(self) -> None:
        _check_spec(self, {"max_steps": 1})


@dataclass(frozen=True)
class EvalSpec:
    """Options for the evaluation of :func:`train_and_evaluate`.

    Attributes:
        input_fn: Gives the data set.
        steps: How many batches.
        name: Of several evaluations: the folder of its summaries is ``eval_name``.
        hooks: ``SessionRunHook`` objects.
        exporters: Must be None.
        start_delay_secs: Accepted and not used: it is about other processes.
        throttle_secs: At least so many seconds lie between two evaluations, but for the
            last one.

    Raises:
        TypeError: ``input_fn`` is not a function.
        ValueError: A number is too small.

    Example:
        >>> EvalSpec(print).steps
        100
    """

    input_fn: Callable[..., Any]
    steps: int | None = 100
    name: str | None = None
    hooks: Sequence[Any] | None = None
    exporters: Any = None
    start_delay_secs: int = 120
    throttle_secs: int = 600

    def __post_init__(self) -> None:
        refuse_given(f"{__name__}.EvalSpec", exporters=self.exporters)
        least = {"steps": 1, "start_delay_secs": 0, "throttle_secs": 0}
        _check_spec(self, least)


class _EvaluatesWhenSaved:
    """A listener to saves that evaluates what was saved, now and then."""

    def __init__(self, estimator: Any, spec: EvalSpec) -> None:
        self._estimator, self._spec = estimator, spec
        self._since = time.monotonic()
        self._evaluated = -1
        self._first: int | None = None
        self.result: Any = None

    def begin(self) -> None:
        """Do nothing: the session is not there yet."""

    def before_save(self, session: Any, global_step_value: int) -> None:
        """Do nothing: nothing is saved yet."""
        del session
        if self._first is None:
            self._first = global_step_value

    def after_save(self, session: Any, global_step_value: int) -> None:
        """Evaluate, where it is time."""
        del session
        passed = time.monotonic() - self._since
        is_first = global_step_value == self._first
        if not is_first and passed >= self._spec.throttle_secs:
            self.evaluate(global_step_value)

    def end(self, session: Any, global_step_value: int) -> None:
        """Evaluate what was saved last."""
        del session
        if global_step_value != self._evaluated:
            self.evaluate(global_step_value)

    def evaluate(self, step: int) -> None:
        spec = self._spec
        self.result = self._estimator.evaluate(
            spec.input_fn, spec.steps, spec.hooks, name=spec.name
        )
        self._evaluated, self._since = step, time.monotonic()


def train_and_evaluate(
    estimator: Any, train_spec: TrainSpec, eval_spec: EvalSpec
) -> tuple[Any, list[Any]]:
    """Train, and evaluate checkpoints on the way and at the end.

    Args:
        estimator: An ``IPUEstimator`` or an ``IPUPipelineEstimator``. How often it
            saves is in its ``RunConfig``.
        train_spec: How it trains.
        eval_spec: How it evaluates.

    Returns:
        The results of the last evaluation, and an empty list.

    Raises:
        TypeError: An argument is not a specification.

    Example:
        >>> train_and_evaluate(None, None, None)
        Traceback (most recent call last):
        ...
        TypeError: `train_spec` must have type `tf.estimator.TrainSpec`. Received: None.
    """
    given = {"train_spec": (train_spec, TrainSpec), "eval_spec": (eval_spec, EvalSpec)}
    for name, (value, kind) in given.items():
        if not isinstance(value, kind):
            raise TypeError(
                f"`{name}` must have type `tf.estimator.{kind.__name__}`. Received: "
                f"{value!r}."
            )
    listener = _EvaluatesWhenSaved(estimator, eval_spec)
    estimator.train(
        train_spec.input_fn,
        train_spec.hooks,
        max_steps=train_spec.max_steps,
        saving_listeners=[*(train_spec.saving_listeners or ()), listener],
    )
    return listener.result, []


export(__name__)
