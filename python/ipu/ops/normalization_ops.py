# SPDX-License-Identifier: MIT
"""Normalisations as functions, with variables by name: ``ipu.normalization_ops``.

Factor and shift come from ``tf.compat.v1.get_variable``, so that they belong to a graph
of TensorFlow 1. ``keras.layers`` has the same as layers.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

from ipu import tf
from ipu._core import Tensor
from ipu._text.exports import export
from ipu._text.user_warnings import warn_user
from ipu.tf._ops.normalizations import normalize_groups

__all__ = ["group_norm", "instance_norm", "layer_norm"]

_Function = TypeVar("_Function", bound=Callable[..., Any])

_SMALLEST_EPSILON = 1.53e-5  # of float16; the default of SDK 2 and later


def _axis_and_channels(x: Any, channels_axis: int) -> tuple[int, int]:
    """Return the axis of the channels, from 0 on, and how many there are."""
    if x.shape.rank is None:
        raise ValueError(f"Inputs {getattr(x, 'name', '')} has undefined rank.")
    rank = len(x.shape)
    if not -rank <= channels_axis < rank:
        raise ValueError(
            f"Axis is out of bounds. Received: channels_axis={channels_axis}, "
            f"{rank} axes."
        )
    axis = channels_axis % rank
    if axis == 0 or axis not in (1, rank - 1):
        raise ValueError(
            "Unsupported data format, group norm only supports NCHW (channel axis 1) "
            f"and NHWC (channel axis -1). Received: channels_axis={channels_axis}, "
            f"{rank} axes."
        )
    channels = x.shape[axis]
    if channels is None:
        raise ValueError(
            f"Inputs {getattr(x, 'name', '')} has undefined channel dimension: {axis}."
        )
    return axis, int(channels)


def _normalized(
    inputs: Any,
    groups_of: Callable[[int], int],
    channels_axis: int,
    center: bool,
    scale: bool,
    epsilon: float,
    param_initializers: Any,
    reuse: Any,
    variables_collections: Any,
    trainable: bool,
    scope: Any,
    default_scope: str,
    strided: bool = True,
) -> Tensor:
    x = tf.convert_to_tensor(inputs)
    axis, channels = _axis_and_channels(x, channels_axis)
    groups = groups_of(channels)
    if not 1 <= groups <= channels:
        raise ValueError(f"Invalid groups {groups} for {channels} channels.")
    if channels % groups:
        raise ValueError(
            f"{channels} channels is not commensurate with {groups} groups."
        )
    if x.dtype == tf.float16 and epsilon < _SMALLEST_EPSILON:
        warn_user(
            f"epsilon={epsilon} is small for float16: the hardware asks for at least "
            f"{_SMALLEST_EPSILON}."
        )
    gamma = beta = None
    if center or scale:
        from ipu.tf._graph.scopes import get_variable, variable_scope

        def variable(name: str, default: str) -> Any:
            lists = variables_collections
            return get_variable(
                name,
                [channels],
                x.dtype,
                (param_initializers or {}).get(name, default),
                trainable=trainable,
                collections=lists.get(name) if isinstance(lists, dict) else lists,
            )

        with variable_scope(scope, default_scope, reuse=reuse):
            beta = variable("beta", "zeros") if center else None
            gamma = variable("gamma", "ones") if scale else None
    return normalize_groups(x, axis, groups, strided, gamma, beta, float(epsilon))


def _in_either_order(position: int) -> Callable[[_Function], _Function]:
    """Let a function take ``reduction_axes`` in front of ``center``, as SDK 1 had it.

    The two are told apart by what is given: axes are not a bool.

    Args:
        position: The place of ``center``.
    """

    def decorate(function: _Function) -> _Function:
        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            if len(args) > position and not isinstance(args[position], bool):
                kwargs["reduction_axes"] = args[position]
                args = (*args[:position], *args[position + 1 :])
            return function(*args, **kwargs)

        return cast(_Function, call)

    return decorate


@_in_either_order(3)
def group_norm(
    inputs: Any,
    groups: int = 2,
    channels_axis: int = -1,
    center: bool = True,
    scale: bool = True,
    epsilon: float = 1.53e-5,
    param_initializers: Any = None,
    reuse: Any = None,
    variables_collections: Any = None,
    training: bool = True,
    trainable: bool = True,
    scope: Any = None,
    strided_channel_grouping: bool = True,
    reduction_axes: Any = None,
) -> Tensor:
    """Bring each group of channels of a sample to mean 0 and variance 1.

    Args:
        inputs: Samples along the first axis.
        groups: How many groups; their number divides that of the channels.
        channels_axis: The axis of the channels: 1 or the last.
        center: Whether there is a shift for each channel, the variable ``beta``.
        scale: Whether there is a factor for each channel, the variable ``gamma``.
        epsilon: Added to the variance, which is the biased one. SDK 1 had 1e-6.
        param_initializers: A dict of initializers, by ``"beta"`` and ``"gamma"``.
        reuse: Whether the variables have to be there already.
        variables_collections: The lists of the graph that the variables are put in, or
            a dict of them by name.
        training: Accepted and not used: statistics are the sample's own.
        trainable: Whether optimizers take the variables by default.
        scope: The variable scope; None: ``GroupNorm``, made unique.
        strided_channel_grouping: Whether channel ``c`` is in group ``c % groups``; else
            groups are neighbouring channels.
        reduction_axes: Accepted and not used, as in SDK 1, which had it in front of
            ``center``: a call that gives axes there is understood.

    Returns:
        A tensor of the shape and dtype of ``inputs``.

    Raises:
        ValueError: The axis is neither, or the groups do not divide the channels.

    Source: ``ipu.normalization_ops.group_norm`` of SDK 1.4 to 3.4.

    Example:
        >>> x = [[1.0, 5.0, 3.0, 9.0]]
        >>> group_norm(x, center=False, scale=False, epsilon=0.0).numpy().tolist()
        [[-1.0, -1.0, 1.0, 1.0]]
    """
    return _normalized(
        inputs,
        lambda channels: groups,
        channels_axis,
        center,
        scale,
        epsilon,
        param_initializers,
        reuse,
        variables_collections,
        trainable,
        scope,
        "GroupNorm",
        strided_channel_grouping,
    )


def _whole_norm(
    name: str, scope: str, groups_of: Callable[[int], int], text: str, example: str
) -> Callable[..., Tensor]:
    """Make a normalisation whose groups follow from the number of channels."""
    default_scope = scope

    def function(
        inputs: Any,
        channels_axis: int = -1,
        center: bool = True,
        scale: bool = True,
        epsilon: float = 1.53e-5,
        param_initializers: Any = None,
        reuse: Any = None,
        variables_collections: Any = None,
        training: bool = True,
        trainable: bool = True,
        scope: Any = None,
        reduction_axes: Any = None,
    ) -> Tensor:
        return _normalized(
            inputs,
            groups_of,
            channels_axis,
            center,
            scale,
            epsilon,
            param_initializers,
            reuse,
            variables_collections,
            trainable,
            scope,
            default_scope,
        )

    function.__name__ = function.__qualname__ = name
    value, result = example.split(" -> ")
    function.__doc__ = f"""{text}.

    The arguments are those of :func:`group_norm`; the variable scope is ``{scope}``.

    Source: ``ipu.normalization_ops.{name}`` of SDK 1.4 to 3.4.

    Example:
        >>> x = {value}
        >>> {name}(x, center=False, scale=False, epsilon=0.0).numpy().tolist()
        {result}
    """
    return _in_either_order(2)(function)


layer_norm = _whole_norm(
    "layer_norm",
    "LayerNorm",
    lambda channels: 1,
    "Bring each sample to mean 0 and variance 1 over all its axes",
    "[[1.0, 3.0]] -> [[-1.0, 1.0]]",
)
instance_norm = _whole_norm(
    "instance_norm",
    "InstanceNorm",
    lambda channels: channels,
    "Bring each channel of a sample to mean 0 and variance 1",
    "[[[1.0, 5.0], [3.0, 9.0]]] -> [[[-1.0, -1.0], [1.0, 1.0]]]",
)


export(__name__)
