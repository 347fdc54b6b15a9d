# SPDX-License-Identifier: MIT
"""Arguments that calls refuse, in one table: who is called asks it when it runs, and
``python -m ipu check`` before.

A row is about an argument of a function, a class or a method; methods are told by
their name alone, since ``check`` does not know what an object is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from ipu._errors import UnimplementedError

__all__ = ["UNKNOWN", "Refusal", "refuse_given", "rows_of"]

# the value of an argument in a program that is not run
UNKNOWN = object()


def _is_given(value: Any) -> bool:
    """Whatever the value: the argument itself is refused."""
    return True


def _is_set(value: Any) -> bool:
    return value is not UNKNOWN and value is not None and bool(value)


class Refusal(NamedTuple):
    """An argument that a call refuses.

    Attributes:
        call: The full name of a function or class where it is defined, or a method's
            name after a dot.
        argument: The argument.
        why: What is wrong and what to do, ``{value}`` being what was received.
        refuses: Whether it is a value that is refused.
        error: What is raised.
    """

    call: str
    argument: str
    why: str
    refuses: Callable[[Any], bool] = _is_set
    error: type[Exception] = NotImplementedError


def _keys(call: str, where: str, arguments: str, why: str) -> Iterator[Refusal]:
    """Keywords that a method of models does not pass on."""
    for argument in arguments.split():
        text = f"Found `{argument}` key in `{where}`. {why}"
        yield Refusal(call, argument, text, _is_given, ValueError)


_BY_KERAS = "It is set automatically by Keras."
_MEAN = "Use `gradient_accumulation_reduction_method='mean'`."
_ACCUMULATION = (
    ".set_gradient_accumulation_options",
    "gradient_accumulation_optimizer_kwargs",
)
_PIPELINING = (".set_pipelining_options", "pipelining_kwargs")

_ROWS = (
    *_keys(*_ACCUMULATION, "opt num_mini_batches", _BY_KERAS),
    *_keys(*_ACCUMULATION, "experimental_normalize_gradients", _MEAN),
    *_keys(
        *_PIPELINING,
        "gradient_accumulation_count",
        "Set the `gradient_accumulation_steps_per_replica` argument instead.",
    ),
    *_keys(
        *_PIPELINING,
        "computational_stages repeat_count inputs infeed_queue outfeed_queue "
        "optimizer_function",
        "It is automatically set by Keras.",
    ),
    *_keys(
        *_PIPELINING,
        "outfeed_loss outfeed_mask batch_serialization_iterations",
        "It is not compatible with Keras.",
    ),
    *_keys(*_PIPELINING, "experimental_normalize_gradients", _MEAN),
    *_keys(
        ".set_infeed_queue_options",
        "kwargs",
        "dataset infeed_spec element_spec",
        _BY_KERAS,
    ),
    *_keys(
        ".set_outfeed_queue_options", "kwargs", "outfeed_mode device_ordinal", _BY_KERAS
    ),
    Refusal(
        "ipu.ops.pipelining_ops.pipeline",
        "continuous_weight_updates",
        "continuous_weight_updates=True is not supported.",
    ),
    Refusal(
        "ipu.tf.gradient_tape.gradients",
        "stop_gradients",
        "tf.gradients(stop_gradients=...) is not there. Apply tf.stop_gradient to "
        "these tensors where they are used.",
        lambda value: value is not None and value is not UNKNOWN,
    ),
    Refusal(
        "ipu.keras.callbacks.tensorboard.TensorBoard",
        "embeddings_freq",
        "Embeddings are not written for TensorBoard. Leave out `embeddings_freq` and "
        "`embeddings_metadata`. Received: embeddings_freq={value}.",
    ),
    *(
        Refusal(
            "ipu.keras.layers.batch_normalization.BatchNormalization",
            name,
            f"BatchNormalization with `{name}` is not there. Leave it out.",
            error=UnimplementedError,
        )
        for name in ("virtual_batch_size", "adjustment")
    ),
)


def rows_of(call: str) -> list[Refusal]:
    """The rows about a call.

    Args:
        call: As :attr:`Refusal.call`.

    Example:
        >>> [row.argument for row in rows_of("ipu.tf.gradient_tape.gradients")]
        ['stop_gradients']
    """
    return [row for row in _ROWS if row.call == call]


def refuse_given(call: str, /, **arguments: Any) -> None:
    """Raise what the table says of the arguments of a call.

    Args:
        call: As :attr:`Refusal.call`.
        **arguments: Those that may be refused.

    Example:
        >>> refuse_given("ipu.tf.gradient_tape.gradients", stop_gradients=None)
    """
    for row in rows_of(call):
        if row.argument in arguments and row.refuses(arguments[row.argument]):
            raise row.error(row.why.format(value=repr(arguments[row.argument])))
