# SPDX-License-Identifier: MIT
"""``MonitoredTrainingSession``, and the coordinator of threads."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ipu._device.locks import Event
from ipu._text.errors import OutOfRangeError
from ipu._text.near import refuse_unknown
from ipu.tf._graph import mode
from ipu.tf._graph.session import Session
from ipu.tf.compat.v1 import _hooks
from ipu.tf.compat.v1._saver import Saver, latest_checkpoint
from ipu.tf.compat.v1._steps import get_global_step
from ipu.tf.compat.v1._variables import (
    global_variables_initializer,
    local_variables_initializer,
)


class Scaffold:
    """What a monitored session starts with; None: what the graph has.

    Args:
        init_op: Gives variables their first values.
        init_feed_dict: What is fed to it.
        init_fn: Called with the session after it.
        local_init_op: Gives local variables their first values.
        summary_op: The summary that is written.
        saver: What saves and restores.
        **more: ``ready_op`` and others of TensorFlow, without effect.

    Raises:
        TypeError: An unknown argument.

    Example:
        >>> Scaffold().saver is None
        True
    """

    def __init__(
        self,
        init_op: Any = None,
        init_feed_dict: Any = None,
        init_fn: Any = None,
        local_init_op: Any = None,
        summary_op: Any = None,
        saver: Any = None,
        **more: Any,
    ) -> None:
        others = (
            "copy_from_scaffold",
            "init_op",
            "local_init_feed_dict",
            "ready_for_local_init_op",
            "ready_op",
        )
        refuse_unknown("Scaffold", more, others)
        self.init_op, self.init_feed_dict = init_op, init_feed_dict
        self.init_fn = init_fn
        self.local_init_op = local_init_op
        self.summary_op = summary_op
        self.saver = saver


class MonitoredTrainingSession:
    """A session that initialises or restores variables, and calls hooks.

    In ``with`` the end of a data set ends it without an error.

    Args:
        master: Must be empty.
        is_chief: Whether hooks of the chief are there.
        checkpoint_dir: Where variables are restored from and saved to; None: nowhere.
        scaffold: What it starts with.
        hooks: Hooks.
        chief_only_hooks: Further hooks of the chief.
        save_checkpoint_secs: After how many seconds variables are saved.
        save_summaries_steps: After how many steps summaries are written.
        save_summaries_secs: In place of it, after how many seconds.
        config: A ``ConfigProto``, without effect.
        stop_grace_period_secs: Accepted and not used.
        log_step_count_steps: After how many steps their pace is logged; None: never.
        max_wait_secs: Accepted and not used.
        save_checkpoint_steps: In place of ``save_checkpoint_secs``.
        summary_dir: Where summaries are written; None: ``checkpoint_dir``.

    Example:
        >>> with v1.Graph().as_default():
        ...     step = v1.train.get_or_create_global_step()
        ...     count = step.assign_add(1)
        ...     stop = v1.train.StopAtStepHook(last_step=3)
        ...     with v1.train.MonitoredTrainingSession(hooks=[stop]) as session:
        ...         while not session.should_stop():
        ...             print(session.run(count))
        1
        2
        3
    """

    def __init__(
        self,
        master: str = "",
        is_chief: bool = True,
        checkpoint_dir: Any = None,
        scaffold: Scaffold | None = None,
        hooks: Sequence[Any] | None = None,
        chief_only_hooks: Sequence[Any] | None = None,
        save_checkpoint_secs: float | None = 600,
        save_summaries_steps: int | None = 100,
        save_summaries_secs: float | None = None,
        config: Any = None,
        stop_grace_period_secs: int = 120,
        log_step_count_steps: int | None = 100,
        max_wait_secs: int = 7200,
        save_checkpoint_steps: int | None = None,
        summary_dir: Any = None,
    ) -> None:
        start = scaffold or Scaffold()
        graph = mode.current() or mode.default()
        self._hooks = list(hooks or ())
        if is_chief:
            self._hooks += chief_only_hooks or ()
        folder = summary_dir or checkpoint_dir
        has_step = get_global_step(graph) is not None
        if is_chief and folder and log_step_count_steps and has_step:
            self._hooks.append(_hooks.StepCounterHook(log_step_count_steps))
        is_saved = save_summaries_steps or save_summaries_secs
        if is_chief and folder and is_saved and has_step:
            steps = None if save_summaries_secs else save_summaries_steps
            self._hooks.append(
                _hooks.SummarySaverHook(
                    steps, save_summaries_secs, folder, scaffold=start
                )
            )
        is_kept = save_checkpoint_secs or save_checkpoint_steps
        if is_chief and checkpoint_dir and is_kept:
            seconds = None if save_checkpoint_steps else save_checkpoint_secs
            self._hooks.append(
                _hooks.CheckpointSaverHook(
                    checkpoint_dir, seconds, save_checkpoint_steps, scaffold=start
                )
            )
        for hook in self._hooks:
            hook.begin()
        self._stops = False
        self._session = Session(master, graph, config)
        self._start(start, checkpoint_dir)
        self._coordinator = Coordinator()
        for hook in self._hooks:
            hook.after_create_session(self._session, self._coordinator)

    def _start(self, start: Scaffold, folder: Any) -> None:
        session, graph = self._session, self._session.graph
        with graph.as_default():
            init = start.init_op or global_variables_initializer()
            local = start.local_init_op or local_variables_initializer()
            path = None if folder is None else latest_checkpoint(os.fspath(folder))
            if graph.get_operations():
                session.run(init, start.init_feed_dict)
            if start.init_fn is not None:
                start.init_fn(session)
            if path is not None:
                (start.saver or Saver()).restore(session, path)
            session.run(local)

    @property
    def graph(self) -> Any:
        """The graph."""
        return self._session.graph

    def should_stop(self) -> bool:
        """Tell whether a hook, or the end of a data set, wants no further run."""
        return self._stops or self._coordinator.should_stop()

    def run(
        self,
        fetches: Any,
        feed_dict: Any = None,
        options: Any = None,
        run_metadata: Any = None,
    ) -> Any:
        """Run, with the hooks around; see :meth:`Session.run`.

        Raises:
            RuntimeError: :meth:`should_stop` said that there is no further run.
        """
        if self.should_stop():
            raise RuntimeError("Run called even after should_stop requested.")
        asked = _hooks.SessionRunArgs(fetches, feed_dict)
        context = _hooks.SessionRunContext(asked, self._session)
        wanted: dict[str, Any] = {"own": fetches}
        feeds = dict(feed_dict or {})
        for index, hook in enumerate(self._hooks):
            request = hook.before_run(context)
            if request is not None and request.fetches is not None:
                wanted[str(index)] = request.fetches
            if request is not None and request.feed_dict:
                feeds.update(request.feed_dict)
        got = self._session.run(wanted, feeds, options, run_metadata)
        for index, hook in enumerate(self._hooks):
            values = _hooks.SessionRunValues(got.get(str(index)))
            hook.after_run(context, values)
        self._stops |= context.stop_requested
        return got["own"]

    def close(self) -> None:
        """End it: hooks may run it once more."""
        for hook in self._hooks:
            hook.end(self._session)
        self._session.close()

    def __enter__(self) -> MonitoredTrainingSession:
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> bool:
        is_end = kind is not None and issubclass(kind, (OutOfRangeError, StopIteration))
        if kind is None or is_end:
            self.close()
        else:
            self._session.close()
        return is_end


class Coordinator:
    """Ends threads together.

    Args:
        clean_stop_exception_types: Exceptions that end them without an error; None:
            the end of a data set.

    Example:
        >>> import threading
        >>> coordinator = Coordinator()
        >>> thread = threading.Thread(target=coordinator.wait_for_stop)
        >>> thread.start()
        >>> coordinator.request_stop()
        >>> coordinator.join([thread])
    """

    def __init__(self, clean_stop_exception_types: Any = None) -> None:
        self._clean = tuple(clean_stop_exception_types or (OutOfRangeError,))
        self._event = Event()
        self._error: BaseException | None = None
        self._threads: list[threading.Thread] = []

    def should_stop(self) -> bool:
        """Tell whether threads shall end."""
        return self._event.is_set()

    def request_stop(self, ex: BaseException | None = None) -> None:
        """Let threads end.

        Args:
            ex: What :meth:`join` raises, or None.
        """
        if ex is not None and not isinstance(ex, self._clean) and self._error is None:
            self._error = ex
        self._event.set()

    def clear_stop(self) -> None:
        """Begin anew."""
        self._event.clear()
        self._error = None

    def wait_for_stop(self, timeout: float | None = None) -> bool:
        """Wait until threads shall end."""
        return self._event.wait(timeout)

    def register_thread(self, thread: threading.Thread) -> None:
        """Let :meth:`join` wait for a thread."""
        self._threads.append(thread)

    @contextmanager
    def stop_on_exception(self) -> Iterator[None]:
        """A context whose exceptions end all threads."""
        try:
            yield
        except Exception as error:
            self.request_stop(error)

    def join(
        self,
        threads: Sequence[threading.Thread] | None = None,
        stop_grace_period_secs: float = 120,
        ignore_live_threads: bool = False,
    ) -> None:
        """Wait for threads to end, and raise what one of them asked to stop with.

        Args:
            threads: The threads, beside those that were registered.
            stop_grace_period_secs: How long they may take after a stop.
            ignore_live_threads: Whether some may be left.

        Raises:
            RuntimeError: Some did not end.
        """
        for thread in (*self._threads, *(threads or ())):
            while thread.is_alive() and not self.should_stop():
                thread.join(0.05)
            thread.join(stop_grace_period_secs)
            if thread.is_alive() and not ignore_live_threads:
                raise RuntimeError(
                    f"Coordinator stopped with threads still running: {thread.name}"
                )
        if self._error is not None:
            raise self._error


def start_queue_runners(
    sess: Any = None,
    coord: Any = None,
    daemon: bool = True,
    start: bool = True,
    collection: Any = None,
) -> list[threading.Thread]:
    """Nothing: graphs here have no queues; data sets have threads of their own.

    Args:
        sess: Accepted and not used, as are all others.
        coord, daemon, start, collection: The same.

    Returns:
        No threads.

    Example:
        >>> start_queue_runners()
        []
    """
    return []
