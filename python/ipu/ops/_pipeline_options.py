# SPDX-License-Identifier: MIT
"""Options of pipelines, and what an optimizer function returns."""

from __future__ import annotations

from enum import Enum
from typing import Any

from ipu._config.poplar_options import check_poplar_options
from ipu.tf.gradient_tape import GradientTape


class RecomputationMode(Enum):
    """Ways to keep a stage's forward pass for its backward one.

    ``Auto`` and ``RecomputeThenBackpropagate`` keep what enters the stage, and compute
    all that the backward pass needs before it. ``RecomputeAndBackpropagateInterleaved``
    keeps the stage's checkpoints as well (:func:`recomputation_checkpoint`), and
    computes from one to the next when the backward pass comes there.

    Example:
        >>> [mode.name for mode in RecomputationMode]
        ['Auto', 'RecomputeThenBackpropagate', 'RecomputeAndBackpropagateInterleaved']
    """

    Auto = 0
    RecomputeThenBackpropagate = 1
    RecomputeAndBackpropagateInterleaved = 2


class PipelineStageOptions:
    """Options of the hardware's libraries for one stage; they change no number.

    Args:
        convolution_options: A dict, or None for none.
        matmul_options: A dict, or None for none.
        slice_options: A dict, or None for none.

    Raises:
        TypeError: One is not a dict.
        ValueError: ``partialsType`` is neither "half" nor "float", or
            ``availableMemoryProportion`` not a number from 0 to 1.

    Example:
        >>> PipelineStageOptions(matmul_options={"partialsType": "half"}).matmul_options
        {'partialsType': 'half'}
    """

    def __init__(
        self,
        convolution_options: dict[str, Any] | None = None,
        matmul_options: dict[str, Any] | None = None,
        slice_options: dict[str, Any] | None = None,
    ) -> None:
        self.convolution_options = _dict("convolution_options", convolution_options)
        self.matmul_options = _dict("matmul_options", matmul_options)
        self.slice_options = _dict("slice_options", slice_options)


def _dict(name: str, value: Any) -> dict[str, Any]:
    if value is not None and not isinstance(value, dict):
        raise TypeError(f"PipelineStageOptions: {name} must be a dict. Got {value!r}.")
    check_poplar_options(name, value or {})
    return dict(value or {})


def is_optimizer_v2(optimizer: Any) -> bool:
    """Return whether an optimizer is one of Keras's, which does not look for
    variables."""
    if getattr(optimizer, "_is_tf1_optimizer", False):
        return False
    return bool(getattr(type(optimizer), "_is_optimizer_v2", False))


_V2_ONLY = ("tape", "variables")
_V1_ONLY = ("compute_gradients_args", "compute_gradients_kwargs")


class OptimizerFunctionOutput:
    """The return value of a pipeline's optimizer function: what to minimise, and how.

    Args:
        opt: An optimizer: one of Keras's, with ``variables`` or a ``tape``; or one of
            TensorFlow 1, which trains what the stages use unless its arguments say
            otherwise.
        loss: A scalar tensor, of one micro-batch.
        compute_gradients_args: Positional arguments for ``opt.compute_gradients``
            after the loss; for an optimizer of TensorFlow 1 alone.
        compute_gradients_kwargs: Keyword arguments for it.
        apply_gradients_args: Positional arguments for ``opt.apply_gradients`` after
            the pairs of gradients and variables.
        apply_gradients_kwargs: Keyword arguments for it.
        variables: The variables to train.
        tape: A ``GradientTape``: its watched variables are trained.
        gradient_capture_context: A ``GradientCaptureContext`` that captured gradients
            on their way back.
        captured_gradient_outfeed: A queue for what it captured.

    Raises:
        TypeError: An argument of another type.
        ValueError: An argument that does not go with ``opt``, or ``tape`` and
            ``variables`` together.

    Example:
        >>> from ipu import keras, tf
        >>> v = tf.Variable(1.0)
        >>> out = OptimizerFunctionOutput(keras.optimizers.SGD(0.1), 0.5, variables=[v])
        >>> len(out.variables)
        1
    """

    opt: Any
    compute_gradients_args: Any
    compute_gradients_kwargs: Any
    apply_gradients_args: Any
    apply_gradients_kwargs: Any

    def __init__(
        self,
        opt: Any,
        loss: Any,
        compute_gradients_args: tuple[Any, ...] | None = None,
        compute_gradients_kwargs: dict[str, Any] | None = None,
        apply_gradients_args: tuple[Any, ...] | None = None,
        apply_gradients_kwargs: dict[str, Any] | None = None,
        variables: Any = None,
        tape: Any = None,
        gradient_capture_context: Any = None,
        captured_gradient_outfeed: Any = None,
    ) -> None:
        object.__setattr__(self, "opt", opt)
        object.__setattr__(self, "tape", None)
        object.__setattr__(self, "variables", None)
        self.loss = loss
        self.compute_gradients_args = compute_gradients_args
        self.compute_gradients_kwargs = compute_gradients_kwargs
        self.apply_gradients_args = apply_gradients_args
        self.apply_gradients_kwargs = apply_gradients_kwargs
        self.variables = variables
        self.tape = tape
        self.gradient_capture_context = gradient_capture_context
        self.captured_gradient_outfeed = captured_gradient_outfeed

    def __setattr__(self, name: str, value: Any) -> None:
        if value is not None:
            self._check(name, value)
        if name.endswith("_args"):
            value = value or ()
        elif name.endswith("_kwargs"):
            value = value or {}
        object.__setattr__(self, name, value)

    def _check(self, name: str, value: Any) -> None:
        is_v2 = is_optimizer_v2(self.opt)
        if name.endswith("_args") and not isinstance(value, tuple):
            raise TypeError(f"`{name}` must be a tuple. Received: {value!r}.")
        if name.endswith("_kwargs") and not isinstance(value, dict):
            raise TypeError(f"`{name}` must be a dictionary. Received: {value!r}.")
        if name == "tape" and not isinstance(value, GradientTape):
            raise TypeError(f"`tape` must be a GradientTape. Received: {value!r}.")
        if name in _V2_ONLY and not is_v2:
            raise ValueError(
                f"`{name}` may only be used with OptimizerV2. Received: "
                f"{type(self.opt).__name__}; say var_list in compute_gradients_kwargs."
            )
        if name in _V1_ONLY and value and is_v2:
            raise ValueError(f"`{name}` may not be used with OptimizerV2 instances.")
        other = {"tape": "variables", "variables": "tape"}.get(name)
        if other is not None and getattr(self, other) is not None:
            raise ValueError("Only one of `tape` and `variables` may be given.")
