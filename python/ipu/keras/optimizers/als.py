# SPDX-License-Identifier: MIT
"""Automatic loss scaling: a factor that follows the distribution of gradients."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from ipu import tf
from ipu._text.exports import export
from ipu.keras._types import Tensor
from ipu.keras.optimizers._wrapping import ScalingOptimizer
from ipu.keras.optimizers.adam import Adam
from ipu.keras.optimizers.optimizer import Optimizer
from ipu.keras.optimizers.rmsprop import RMSprop
from ipu.keras.optimizers.sgd import SGD

_READ_ONLY = (
    "decrease_factor",
    "histogram",
    "loss_scaling_factor",
    "normalized_histogram",
    "previous_loss_scaling_factor",
    "update_counter",
)
_SETTINGS = (
    "initial_loss_scaling_factor",
    "update_frequency",
    "increase_factor",
    "max_loss_scaling_factor",
    "accumulate_statistics_over_update_period",
    "ratio_threshold",
    "captured_grads_only",
    "lpf_alpha",
    "histogram_bin_edge",
)
# what counts otherwise from then on: a new value begins anew
_RESETTING = ("captured_grads_only", "lpf_alpha")
MEMBERS = (*_READ_ONLY, *_SETTINGS)


def _is_power_of_two(value: float) -> bool:
    return value > 0 and math.frexp(value)[0] == 0.5


class ALSOptimizer(ScalingOptimizer):
    """An optimizer whose loss is scaled by a factor that adjusts itself.

    Two bins count the elements of float16 gradients, of the scaled loss: below the bin
    edge, and from it on. Every ``update_frequency`` steps the factor is divided by
    ``increase_factor`` where too many lie above, and multiplied by it otherwise, as
    long as it stays below the largest and at least 1. Gradients of other dtypes count
    nothing.

    Args:
        opt: The optimizer that updates the weights.
        initial_loss_scaling_factor: The first factor, a power of two.
        update_frequency: Steps from one adjustment to the next.
        increase_factor: A power of two.
        max_loss_scaling_factor: The factor stays below it; a power of two.
        accumulate_statistics_over_update_period: Count in every step, and not only in
            that of an adjustment.
        ratio_threshold: The share of large elements that is too many, in (0, 1).
        captured_grads_only: Count only what ``apply_gradients`` gets as
            ``captured_grads``. Setting another value of it, or of the next one, later
            is a :meth:`reset`.
        lpf_alpha: The share of the old counts in new ones, in [0, 1].
        histogram_bin_edge: Where large elements begin.

    Raises:
        TypeError: ``opt`` is not an optimizer.
        ValueError: A number that is not as said above, or an attribute that is only
            read is set.

    Example:
        >>> opt = ALSOptimizer(keras.optimizers.SGD(0.1), initial_loss_scaling_factor=4)
        >>> float(opt.get_scaled_loss(2.0))
        8.0
    """

    supports_captured_grads = True

    def __init__(
        self,
        opt: Optimizer,
        initial_loss_scaling_factor: float = 1,
        update_frequency: int = 8,
        increase_factor: float = 2,
        max_loss_scaling_factor: float = 32768,
        accumulate_statistics_over_update_period: bool = True,
        ratio_threshold: float = 10e-6,
        captured_grads_only: bool = False,
        lpf_alpha: float = 0.0,
        histogram_bin_edge: float = 2**13,
        name: str = "ALSOptimizer",
    ) -> None:
        if not isinstance(opt, Optimizer):
            raise TypeError(
                f"ALSOptimizer wraps one of keras.optimizers. Received: {opt!r}."
            )
        given = locals()
        self._settings: dict[str, Any] = {key: given[key] for key in _SETTINGS}
        self._captured: list[Tensor] = []
        _check_settings(self._settings)
        super().__init__(opt, name)

    def __getattr__(self, name: str) -> Any:
        settings = self.__dict__.get("_settings", {})
        if name in settings:
            return settings[name]
        raise AttributeError(f"{type(self).__name__!r} has no attribute {name!r}")

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _READ_ONLY:
            raise ValueError(f"{name} is a read only property.")
        if name not in _SETTINGS:
            object.__setattr__(self, name, value)
            return
        changed = {**self._settings, name: value}
        _check_settings(changed)
        if name in _RESETTING and changed != self._settings:
            self.reset()
        self._settings = changed
        self._own_version += 1  # it is part of programs

    # --- what it knows ------------------------------------------------------------

    def _counts(self) -> Any:
        return self._state_variable("gradient_histogram", np.zeros(2, np.float32))

    def _counter(self) -> Any:
        return self._state_variable("lsf_update_counter", np.int32(0))

    def _scale(self) -> Any:
        first = np.float32(self._settings["initial_loss_scaling_factor"])
        return self._state_variable("loss_scaling_factor", first)

    def _previous(self) -> Any:
        first = np.float32(self._settings["initial_loss_scaling_factor"])
        return self._state_variable("prev_loss_scaling_factor", first)

    def _make_state(self) -> None:
        _ = self._counts(), self._counter(), self._scale(), self._previous()

    def _factor(self) -> Tensor:
        value: Tensor = self._scale().value()
        return value

    @property
    def histogram(self) -> Tensor:
        """How many elements were small, and large, since the last adjustment."""
        value: Tensor = self._counts().value()
        return value

    @property
    def normalized_histogram(self) -> Tensor:
        """The shares of small and large elements."""
        from ipu.ops import statistics_ops

        return statistics_ops.histogram_normalize(self.histogram)

    @property
    def loss_scaling_factor(self) -> Tensor:
        """The factor, a float32 scalar."""
        return self._factor()

    @property
    def previous_loss_scaling_factor(self) -> Tensor:
        """The factor before it last changed."""
        value: Tensor = self._previous().value()
        return value

    @property
    def update_counter(self) -> Tensor:
        """How many steps there were since the last adjustment, and with that one."""
        value: Tensor = self._counter().value()
        return value

    @property
    def decrease_factor(self) -> float:
        """The multiplier of the factor where too many elements are large."""
        return 1.0 / float(self._settings["increase_factor"])

    def reset(self) -> None:
        """Start anew: the first factor, and nothing counted."""
        first = np.float32(self._settings["initial_loss_scaling_factor"])
        self._counts().assign(np.zeros(2, np.float32))
        self._counter().assign(np.int32(0))
        self._scale().assign(first)

    # --- gradients ------------------------------------------------------------------

    def apply_gradients(  # type: ignore[override]
        self,
        grads_and_vars: Iterable[tuple[Any, Any]],
        captured_grads: Mapping[str, Any] | None = None,
        global_step: Any = None,
        name: str | None = None,
        experimental_aggregate_gradients: bool = True,
    ) -> Any:
        """Change variables by the gradients of the scaled loss, and adjust the factor.

        Args:
            grads_and_vars: Pairs of a gradient and a variable.
            captured_grads: More gradients to count: tensors, or lists of them.
            global_step: A variable to count up by one, or None.
            name: Accepted and not used.
            experimental_aggregate_gradients: As of any optimizer.

        Returns:
            The step number after the update.

        Raises:
            ValueError: There is no gradient at all; or gradients are captured outside
                of a traced function.
        """
        self._captured = tf.nest.flatten(dict(captured_grads or {}))
        if self._captured and not tf.Tensor(self._captured[0]).is_symbolic:
            raise ValueError(
                "captured_grads can be counted in a traced function only. Call "
                "apply_gradients inside a @tf.function."
            )
        try:
            result = super().apply_gradients(
                grads_and_vars, name, experimental_aggregate_gradients
            )
        finally:
            self._captured = []
        if global_step is not None:
            global_step.assign_add(1)
        return result

    def _trace_apply(self, gradients: list[Any], variables: list[Any]) -> Any:
        factor = self._factor()
        unscaled = self._changed(lambda g: g / tf.cast(factor, g.dtype), gradients)
        counted = list(self._captured)
        if not self._settings["captured_grads_only"]:
            counted += gradients
        self._adjust(self._counted(counted), factor)
        self._inner._rows = self._rows
        return self._inner._trace_apply(unscaled, variables)

    def _counted(self, gradients: list[Any]) -> Tensor:
        """Return how many elements of float16 gradients are small, and how many
        large."""
        edge = tf.constant(self._settings["histogram_bin_edge"], dtype="float32")
        large: Any = tf.constant(0.0)
        total = 0
        for gradient in gradients:
            if gradient.dtype == tf.float16:
                is_large = tf.abs(tf.cast(gradient, "float32")) >= edge
                large = large + tf.reduce_sum(tf.cast(is_large, "float32"))
                total += math.prod(gradient.shape)
        return tf.stack([float(total) - large, large])

    def _adjust(self, counted: Tensor, factor: Tensor) -> None:
        frequency = int(self._settings["update_frequency"])
        steps = self._counter().value()
        is_due = tf.constant(True) if frequency == 1 else steps >= frequency
        before = self._counts().value()
        alpha = float(self._settings["lpf_alpha"])
        with_new = alpha * before + (1.0 - alpha) * (before + counted)
        if self._settings["accumulate_statistics_over_update_period"]:
            counts = with_new
        else:
            counts = tf.where(is_due, with_new, before)
        share = counts[1] / tf.maximum(tf.reduce_sum(counts), 1.0)
        by = float(self._settings["increase_factor"])
        is_too_many = share > float(self._settings["ratio_threshold"])
        wanted = tf.where(is_too_many, factor / by, factor * by)
        most = float(self._settings["max_loss_scaling_factor"])
        is_legal = tf.logical_and(wanted < most, wanted >= 1.0)
        is_new = tf.logical_and(is_due, is_legal)
        self._previous().assign(tf.where(is_new, factor, self._previous().value()))
        self._scale().assign(tf.where(is_new, wanted, factor))
        self._counts().assign(tf.where(is_due, tf.zeros_like(counts), counts))
        self._counter().assign(tf.where(is_due, 1, steps + 1))

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), **self._settings}


def _check_settings(settings: dict[str, Any]) -> None:
    rules: dict[str, tuple[Callable[[Any], bool], str]] = {
        "update_frequency": (lambda v: v > 0, "positive"),
        "increase_factor": (_is_power_of_two, "a power of two"),
        "initial_loss_scaling_factor": (_is_power_of_two, "a power of two"),
        "max_loss_scaling_factor": (_is_power_of_two, "a power of two"),
        "ratio_threshold": (lambda v: 0 < v < 1, "between 0 and 1"),
        "lpf_alpha": (lambda v: 0 <= v <= 1, "from 0 to 1"),
        "histogram_bin_edge": (lambda v: v > 0, "positive"),
    }
    for name, (is_legal, text) in rules.items():
        if not is_legal(settings[name]):
            raise ValueError(f"{name} must be {text}. Received: {settings[name]}.")
    first, most = (
        settings[f"{name}_loss_scaling_factor"] for name in ("initial", "max")
    )
    if first >= most:
        raise ValueError(
            "initial_loss_scaling_factor must be less than max_loss_scaling_factor. "
            f"Received: {first} and {most}."
        )
    if first * settings["increase_factor"] >= most:
        raise ValueError(
            "initial_loss_scaling_factor x increase_factor must be less than "
            f"max_loss_scaling_factor. Received: {first} x "
            f"{settings['increase_factor']} and {most}."
        )


def _of(public: str, inner: type[Optimizer], positional: tuple[str, ...]) -> Any:
    """Return a function that makes an ``ALSOptimizer`` of a new optimizer of this
    class."""

    def make(*args: Any, **kwargs: Any) -> ALSOptimizer:
        settings = {key: kwargs.pop(key) for key in _SETTINGS if key in kwargs}
        named = dict(zip(positional, args, strict=False))
        name = kwargs.pop("name", f"ALSOptimizer{inner.__name__}")
        return ALSOptimizer(inner(**named, **kwargs), **settings, name=name)

    make.__name__ = make.__qualname__ = public
    make.__doc__ = f"""Make an ``ALSOptimizer`` of a new ``{inner.__name__}``.

    Args:
        *args: {", ".join(f"``{name}``" for name in positional)}, in this order.
        **kwargs: What ``{inner.__name__}`` takes, and what ``ALSOptimizer`` takes.

    Source: ``keras.ipu.optimizers.{public}``.

    Example:
        >>> optimizer = keras.optimizers.{public}(0.1, increase_factor=4)
        >>> float(optimizer.learning_rate)
        0.1
    """
    return make


ALSOptimizerSGD = _of("ALSOptimizerSGD", SGD, ("learning_rate", "momentum", "nesterov"))
ALSOptimizerAdam = _of(
    "ALSOptimizerAdam",
    Adam,
    ("learning_rate", "beta_1", "beta_2", "epsilon", "amsgrad"),
)
ALSOptimizerRMSProp = _of(
    "ALSOptimizerRMSProp",
    RMSprop,
    ("learning_rate", "rho", "momentum", "epsilon", "centered"),
)


export(__name__)
