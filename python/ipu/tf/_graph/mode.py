# SPDX-License-Identifier: MIT
"""Whether ops outside of functions run at once, or go to a graph of TensorFlow 1.

This is all that op functions, variables and queues know of graphs; ``ipu.tf._graph``
holds the rest. A thread has a stack of graphs; where that is empty, and programs have
asked for TensorFlow 1's behaviour, a default graph of its own.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, TypeVar, cast

from ipu import _core
from ipu._device.thread_state import entered as stacked, here
from ipu._text.tracebacks import boundary

if TYPE_CHECKING:
    from ipu.tf._graph.graph import Graph

F = TypeVar("F", bound=Callable[..., Any])


class _Mode:
    """`is_used` is the fast way out for programs that never have a graph."""

    is_used = False
    is_default = False


def building() -> Graph | None:
    """Return the graph that a call outside of functions goes to; None where it runs at
    once, or becomes part of the function that is being traced."""
    if not _Mode.is_used or here.suspensions or _core.open_trace() is not None:
        return None
    return None if here.eager_parts else current()


def call_or_keep(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    name: str,
) -> Any:
    """Call a function, or let the graph keep the call."""
    graph = building()
    if graph is None:
        return function(*args, **kwargs)
    return graph.record(function, args, kwargs, name)


def kept_for_sessions(function: F) -> F:
    """Let a function of the host become an operation where a graph is put together:
    a session calls it between programs."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        graph = building()
        if graph is None:
            return function(*args, **kwargs)
        words = [word.capitalize() for word in function.__name__.split("_")]
        return graph.python(
            "".join(words),
            lambda args, kwargs: function(*args, **kwargs),
            None,
            (args, kwargs),
        )

    return cast(F, call)


def texts_of_graphs(names: dict[str, Any], public: Iterable[str], pure: bool) -> None:
    """Let a module's functions of strings become operations where a graph is put
    together.

    Args:
        pure: Whether they give the same for the same arguments.
    """
    for name in public:
        if inspect.isfunction(names[name]):
            names[name] = _text_of_graphs(names[name], pure)


def _text_of_graphs(function: F, pure: bool) -> F:
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        graph = building()
        if graph is None:
            return function(*args, **kwargs)
        from ipu.tf._graph.texts import record_text

        words = [word.capitalize() for word in function.__name__.split("_")]
        return record_text(graph, function, args, kwargs, "".join(words), pure)

    return cast(F, boundary(call))


def current() -> Graph | None:
    """Return the innermost graph of this thread, also inside of a function; or None."""
    if here.graphs:
        return here.graphs[-1]
    return default() if _Mode.is_default else None


def has_graph() -> bool:
    """Return whether variables that are made belong to a graph."""
    return _Mode.is_used and not here.suspensions and current() is not None


def name_counts() -> dict[str, int]:
    """Return how often each stem of automatic names was asked for, in this thread or
    graph.

    Names begin again in every graph, so that the next one finds the variables of a
    file.
    """
    graph = current() if has_graph() else None
    return here.name_counts if graph is None else graph.name_counts


def trainable_variables() -> list[Any] | None:
    """Return what optimizers train by default; None where there is no graph to say so.

    Raises:
        ValueError: The graph has no such variables.
    """
    graph = current() if has_graph() else None
    if graph is None:
        return None
    found: list[Any] = graph.get_collection("trainable_variables")
    if not found:
        raise ValueError("No variables to optimize.")
    return found


def default() -> Graph:
    """Return this thread's graph outside of ``with graph.as_default():``."""
    if here.own_graph is None:
        renew()
    assert here.own_graph is not None
    return here.own_graph


def renew() -> None:
    """Begin another default graph in this thread.

    Raises:
        AssertionError: Inside of ``with graph.as_default():``.
    """
    from ipu.tf._graph.graph import Graph

    if here.graphs:
        raise AssertionError(
            "Do not use tf.reset_default_graph() to clear nested graphs. If you need a "
            "cleared graph, exit the nesting and create a new graph."
        )
    here.own_graph = Graph()


def default_to_graphs(is_default: bool) -> None:
    """Choose whether ops go to a default graph where no other one is in force."""
    _Mode.is_default = is_default
    _Mode.is_used |= is_default


def is_default() -> bool:
    """Return whether a program has asked for TensorFlow 1's behaviour."""
    return _Mode.is_default


@contextmanager
def entered(graph: Graph) -> Iterator[Graph]:
    """Let ops of this thread go to a graph."""
    _Mode.is_used = True
    with stacked(here.graphs, graph):
        yield graph


def suspended() -> AbstractContextManager[None]:
    """Let ops of this thread run at once."""
    return here.setting(suspensions=here.suspensions + 1)
