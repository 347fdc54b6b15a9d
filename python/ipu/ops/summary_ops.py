# SPDX-License-Identifier: MIT
"""Events of compiling, loading and running: ``ipu.summary_ops``.

There are events where ``utils.create_ipu_config`` asked for them, with
``profiling=True`` or ``enable_ipu_events=True``. ``ipu.utils`` has functions that read
them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ipu import _core
from ipu._reports import event_trace
from ipu._text.exports import export
from ipu.tf._functions.scopes import control_dependencies
from ipu.tf._graph import mode
from ipu.tf._string_ops.tensors import StringTensor
from ipu.tf.summary import _messages
from ipu.tf.tensor_spec import TensorSpec


def _array(events: list[bytes]) -> np.ndarray[Any, Any]:
    made = np.empty(len(events), object)
    made[:] = events
    return made


def get_ipu_reports() -> np.ndarray[Any, Any]:
    """Take the events since the last call.

    Returns:
        An array of serialized events, the oldest first.

    Raises:
        ValueError: Called in a graph or in a function that is being traced.

    Example:
        >>> len(get_ipu_reports())
        0
    """
    if mode.building() is not None or _core.open_trace() is not None:
        raise ValueError(
            "get_ipu_reports() takes events at once: call it outside of graphs and "
            "functions. In a graph use gen_ipu_ops.ipu_event_trace()."
        )
    return _array(event_trace.take())


def ipu_event_trace() -> Any:
    """Take the events since the last call; in a graph, in each run.

    Returns:
        An array of serialized events, the oldest first; in a graph a string tensor of
        one axis.

    Example:
        >>> from ipu.ops import summary_ops
        >>> len(summary_ops.ipu_event_trace())
        0
    """
    graph = mode.building()
    if graph is None:
        return _array(event_trace.take())
    return graph.python(
        "IpuEventTrace",
        lambda: StringTensor(_array(event_trace.take())),
        TensorSpec((None,), "string"),
    )


def ipu_compile_summary(name: str, op_list: Any, collections: Any = None) -> Any:
    """Return a summary of the events up to some operations, for TensorBoard.

    Args:
        name: Its tag.
        op_list: Operations or tensors that run before it, or one of them.
        collections: The lists of the graph that get it; None: ``summaries``.

    Returns:
        A string tensor: a message of ``summary.proto``.

    Raises:
        ValueError: Ops run at once here: there is no graph.

    Example:
        >>> from ipu.tf.compat import v1
        >>> with v1.Graph().as_default(), v1.Session() as session:
        ...     made = ipu_compile_summary("events", [v1.constant(1.0)])
        ...     b"events" in session.run(made)
        True
    """
    graph = mode.building()
    if graph is None:
        raise ValueError(
            "ipu_compile_summary() belongs to a graph: call it under "
            "tf.compat.v1.Graph().as_default(), or read get_ipu_reports()."
        )
    tag = graph.unique_name(name, mark_as_used=False)

    def summary() -> StringTensor:
        tensor = _messages.tensor_of(event_trace.take())
        content = _messages.text_of(tensor, "ipu")
        return StringTensor(_messages.summary_of(tag, content))

    before = list(op_list) if isinstance(op_list, (list, tuple)) else [op_list]
    with control_dependencies(before):
        made = graph.python(
            "TensorSummaryV2", summary, TensorSpec((), "string"), (), name
        )
    graph.add_to_collections(
        ["summaries"] if collections is None else collections, made
    )
    return made


export(__name__, ["get_ipu_reports", "ipu_compile_summary", "ipu_event_trace"])
