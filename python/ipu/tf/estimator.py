# SPDX-License-Identifier: MIT
"""``tf.estimator``: what the functions of ``ipu.ipu_estimator`` are given and give.

TensorFlow's own estimators are not there, since they run models on the host.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ipu._text.exports import export
from ipu._text.refusals import refuse_given

__all__ = ["EstimatorSpec", "ModeKeys", "RunConfig"]


class ModeKeys:
    """What a model function is called for.

    Example:
        >>> ModeKeys.TRAIN
        'train'
    """

    TRAIN = "train"
    EVAL = "eval"
    PREDICT = "infer"


@dataclass(frozen=True)
class EstimatorSpec:
    """What a model function returns.

    Attributes:
        mode: One of :class:`ModeKeys`.
        predictions: A tensor or a dict of tensors, to predict.
        loss: A scalar, to train and to evaluate.
        train_op: The operation that updates the variables, to train.
        eval_metric_ops: Pairs ``(value, update_op)`` by name, as ``tf.metrics`` gives
            them, to evaluate.

    Raises:
        ValueError: What the mode needs is missing.

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


@dataclass
class RunConfig:
    """How estimators run.

    Attributes:
        model_dir: The folder of checkpoints; None: a new temporary one.
        tf_random_seed: The seed of the graph; None: random.
        save_checkpoints_steps: Save after at least so many steps; None: at the end.
        keep_checkpoint_max: How many checkpoints stay. Default: 5.
        log_step_count_steps: Log the loss after at least so many steps.

    Example:
        >>> RunConfig(model_dir="here").model_dir
        'here'
    """

    model_dir: str | None = None
    tf_random_seed: int | None = None
    save_summary_steps: int = 100
    save_checkpoints_steps: int | None = None
    save_checkpoints_secs: int | None = None
    session_config: Any = None
    keep_checkpoint_max: int = 5
    keep_checkpoint_every_n_hours: float = 10000
    log_step_count_steps: int | None = 100
    train_distribute: Any = field(default=None)

    def __post_init__(self) -> None:
        distribute = self.train_distribute
        refuse_given(f"{__name__}.RunConfig", train_distribute=distribute)


export(__name__)
