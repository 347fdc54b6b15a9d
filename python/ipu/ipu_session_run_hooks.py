# SPDX-License-Identifier: MIT
"""Hooks of sessions that log what compiled programs compute."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ipu._core import Tensor
from ipu._text.errors import FailedPreconditionError
from ipu._text.exports import export
from ipu._text.log import logger
from ipu._text.suggestions import refuse_unknown
from ipu.ipu_outfeed_queue import IPUOutfeedMode, IPUOutfeedQueue
from ipu.tf._functions.tracing import open_build
from ipu.tf.compat.v1._monitored import SessionRunHook, Timer

__all__ = ["IPULoggingTensorHook"]


class IPULoggingTensorHook(SessionRunHook):
    """Log tensors of a compiled function, now and then.

    The function calls :meth:`log`, which gives them to an outfeed; the hook takes them
    from there after runs of the session.

    Args:
        every_n_iter: After how many runs; or
        every_n_secs: after how many seconds.
        at_end: Whether they are logged at the end.
        formatter: Makes the text of the dict of values.
        logging_mode: ``LoggingMode.LAST`` for the last values alone, ``ALL`` for those
            of each time that the program passed, along a first axis.
        **kwargs: ``feed_name`` and ``replication_factor`` of earlier versions, without
            effect.

    Raises:
        ValueError: Both of ``every_n_iter`` and ``every_n_secs`` are given, or neither
            of them nor ``at_end``.

    Source: ``ipu.ipu_session_run_hooks.IPULoggingTensorHook`` of SDK 1.1 to 3.4.

    Example:
        >>> from ipu import ipu_compiler, scopes
        >>> from ipu.ipu_session_run_hooks import IPULoggingTensorHook
        >>> told = []
        >>> hook = IPULoggingTensorHook(
        ...     every_n_iter=1, formatter=lambda values: told.append(float(values["x"]))
        ... )
        >>> def net(x):
        ...     logged = hook.log({"x": x})
        ...     return x * 2.0, logged
        >>> with v1.Graph().as_default():
        ...     x = v1.placeholder(tf.float32, [])
        ...     with scopes.ipu_scope("/device:IPU:0"):
        ...         [y] = ipu_compiler.compile(net, [x])
        ...     with v1.train.MonitoredTrainingSession(hooks=[hook]) as session:
        ...         print(session.run(y, {x: 3.0}))
        6.0
        >>> told
        [3.0]
    """

    LoggingMode = IPUOutfeedMode

    def __init__(
        self,
        every_n_iter: int | None = None,
        every_n_secs: float | None = None,
        at_end: bool = False,
        formatter: Callable[[Mapping[str, Any]], str] | None = None,
        logging_mode: IPUOutfeedMode = IPUOutfeedMode.LAST,
        **kwargs: Any,
    ) -> None:
        refuse_unknown(
            "IPULoggingTensorHook", kwargs, ("feed_name", "replication_factor")
        )
        if every_n_iter is not None and every_n_secs is not None:
            raise ValueError("Cannot provide both every_n_iter and every_n_secs")
        if every_n_iter is None and every_n_secs is None and not at_end:
            raise ValueError(
                "Either every_n_iter, every_n_secs or at_end should be provided"
            )
        self._timer = Timer(every_n_iter, every_n_secs)
        self._is_timed = every_n_iter is not None or every_n_secs is not None
        self._at_end, self._formatter = at_end, formatter
        self._mode = logging_mode
        self._outfeed: IPUOutfeedQueue | None = None
        # a function may be traced several times
        self._build: Callable[[], Any] = lambda: None
        self._dequeue: Any = None
        self._deleter: Any = None
        self._runs = 0

    def log(self, tensors: Any) -> Any:
        """Have tensors logged; in the compiled function.

        Args:
            tensors: A tensor, a list of them, or a dict by what they are called.

        Returns:
            The operation that hands them over: return it from the function.

        Raises:
            TypeError: Something is not a tensor.
            RuntimeError: It was called before.
        """
        build = open_build()
        if self._outfeed is not None and self._build() is build:
            raise RuntimeError("Cannot use this hook object's log function twice")
        if isinstance(tensors, Mapping):
            named = dict(tensors)
        else:
            items = tensors if isinstance(tensors, (list, tuple)) else [tensors]
            named = {str(number): one for number, one in enumerate(items)}
        for one in named.values():
            if not isinstance(one, Tensor) and not hasattr(one, "__ipu_tensor__"):
                raise TypeError(f"Expected `tf.Tensor`, but got {type(one)}")
        if self._outfeed is None:
            self._outfeed = IPUOutfeedQueue(outfeed_mode=self._mode)
        self._build = (lambda: None) if build is None else weakref.ref(build)
        return self._outfeed.enqueue(named)

    def begin(self) -> None:
        """Find what was logged."""
        if self._outfeed is None:
            raise RuntimeError(
                "This logging hook has nothing to log. Did you forget to call the log "
                "function in the compiled function?"
            )
        self._dequeue = self._outfeed.dequeue()
        self._deleter = self._outfeed.deleter

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Log what has come, where it is time."""
        is_due = self._is_timed and self._timer.is_due(self._runs)
        if is_due and self._log(run_context.session):
            self._timer.note(self._runs)
        self._runs += 1

    def end(self, session: Any) -> None:
        """Log what has come last."""
        if self._at_end:
            self._log(session)
        session.run(self._deleter)

    def _log(self, session: Any) -> bool:
        """Log what has come; whether there was something."""
        try:
            values: Mapping[str, Any] = session.run(self._dequeue)
        except FailedPreconditionError:  # of the last value, where there is none
            return False
        if not all(np.size(value) for value in values.values()):
            return False
        if self._formatter is not None:
            logger.info("%s", self._formatter(values))
        else:
            logger.info("%s", ", ".join(f"{name} = {v}" for name, v in values.items()))
        return True


export(__name__)
