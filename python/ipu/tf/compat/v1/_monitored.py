# SPDX-License-Identifier: MIT
"""``MonitoredTrainingSession``, its hooks, and the coordinator of threads."""

from __future__ import annotations

import inspect
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from ipu._device.locks import Event
from ipu._text.errors import OutOfRangeError
from ipu._text.suggestions import refuse_unknown
from ipu.tf._graph import mode
from ipu.tf._graph.session import Session
from ipu.tf.compat.v1._saver import Saver, latest_checkpoint
from ipu.tf.compat.v1._steps import get_global_step
from ipu.tf.compat.v1._variables import (
    global_variables_initializer,
    local_variables_initializer,
)
from ipu.tf.compat.v1.summary import FileWriter, merge_all
from ipu.tf.io._checkpoint_files import numbered
from ipu.tf.summary import _messages

logger = logging.getLogger("tensorflow")


class SessionRunArgs(NamedTuple):
    """Fetches and feeds that a hook adds to a run.

    Attributes:
        fetches: Tensors to compute besides.
        feed_dict: Values to feed besides.
        options: Not used.

    Example:
        >>> SessionRunArgs("loss:0").feed_dict is None
        True
    """

    fetches: Any
    feed_dict: Any = None
    options: Any = None


class SessionRunValues(NamedTuple):
    """The results of a run for a hook.

    Attributes:
        results: The values of what it asked for.
        options: Not used.
        run_metadata: Not used.

    Example:
        >>> SessionRunValues(3.0).results
        3.0
    """

    results: Any
    options: Any = None
    run_metadata: Any = None


class SessionRunContext:
    """The run that a hook is called for.

    Args:
        original_args: The fetches and feeds of the program.
        session: The session.

    Example:
        >>> context = SessionRunContext(SessionRunArgs(None), None)
        >>> context.request_stop()
        >>> context.stop_requested
        True
    """

    def __init__(self, original_args: Any, session: Any) -> None:
        self.original_args = original_args
        self.session = session
        self._stops = False

    @property
    def stop_requested(self) -> bool:
        """Whether a hook wants no further run."""
        return self._stops

    def request_stop(self) -> None:
        """Ask for no further run."""
        self._stops = True


class SessionRunHook:
    """Methods that a monitored session calls; a hook of your own overrides some.

    Example:
        >>> class Told(v1.train.SessionRunHook):
        ...     def end(self, session):
        ...         print("done")
        >>> with v1.Graph().as_default():
        ...     one = v1.constant(1.0)
        ...     with v1.train.MonitoredTrainingSession(hooks=[Told()]) as session:
        ...         _ = session.run(one)
        done
    """

    def begin(self) -> None:
        """Run before the session is made: operations may be added."""

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Run once the session is there, and variables have values."""

    def before_run(self, run_context: Any) -> Any:
        """Return before a run a ``SessionRunArgs`` of what is asked for besides, or
        None."""
        return None

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Run after a run."""

    def end(self, session: Any) -> None:
        """Run when the session ends without an error."""


class Timer:
    """Return whether it is time again, by steps or by seconds."""

    def __init__(self, steps: int | None, seconds: float | None) -> None:
        self._steps, self._seconds = steps, seconds
        self._last: tuple[int, float] | None = None

    def is_due(self, step: int) -> bool:
        if self._last is None:
            return True
        if self._steps is not None:
            return step >= self._last[0] + self._steps
        now = time.monotonic()
        return self._seconds is not None and now >= self._last[1] + self._seconds

    def note(self, step: int) -> tuple[int, float] | None:
        """Note that it happened; return the steps and seconds since the last time."""
        before, self._last = self._last, (step, time.monotonic())
        if before is None:
            return None
        return self._last[0] - before[0], self._last[1] - before[1]


def step_now(session: Any) -> int:
    step = get_global_step(session.graph)
    if step is None:
        raise RuntimeError(
            "Global step should be created: call "
            "tf.train.get_or_create_global_step(), and give it to minimize()."
        )
    return int(session.run(step))


def run_with_hooks(
    session: Any, hooks: Sequence[Any], fetches: Any, feed_dict: Any = None, *more: Any
) -> tuple[Any, bool]:
    """Run a session once, with what hooks ask for besides.

    Args:
        session: A ``Session``.
        hooks: What is called before and after.
        fetches: The fetches of the program.
        feed_dict: The feeds of the program.
        *more: Further arguments of ``Session.run``.

    Returns:
        What was asked for, and whether a hook wants no further run.
    """
    context = SessionRunContext(SessionRunArgs(fetches, feed_dict), session)
    wanted: dict[str, Any] = {"own": fetches}
    feeds = dict(feed_dict or {})
    for index, hook in enumerate(hooks):
        request = hook.before_run(context)
        if request is not None and request.fetches is not None:
            wanted[str(index)] = request.fetches
        if request is not None and request.feed_dict:
            feeds.update(request.feed_dict)
    got = session.run(wanted, feeds, *more)
    for index, hook in enumerate(hooks):
        hook.after_run(context, SessionRunValues(got.get(str(index))))
    return got["own"], context.stop_requested


class StopAtStepHook(SessionRunHook):
    """Stop after a number of steps.

    Args:
        num_steps: How many more; or
        last_step: the step itself.

    Raises:
        ValueError: Neither is given, or both.

    Example:
        >>> StopAtStepHook(last_step=10)._last
        10
    """

    def __init__(
        self, num_steps: int | None = None, last_step: int | None = None
    ) -> None:
        if (num_steps is None) == (last_step is None):
            raise ValueError("One of num_steps or last_step must be specified.")
        self._more, self._last = num_steps, last_step

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Find the last step."""
        if self._last is None:
            assert self._more is not None
            self._last = step_now(session) + self._more

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Stop."""
        if step_now(run_context.session) >= (self._last or 0):
            run_context.request_stop()


class LoggingTensorHook(SessionRunHook):
    """Log tensors now and then.

    Args:
        tensors: Tensors or their names, in a list or in a dict by what they are called.
        every_n_iter: After how many runs; or
        every_n_secs: after how many seconds.
        at_end: Whether they are logged at the end.
        formatter: Makes the text of the dict of values.

    Example:
        >>> hook = LoggingTensorHook({"loss": "loss:0"}, every_n_iter=100)
    """

    def __init__(
        self,
        tensors: Any,
        every_n_iter: int | None = None,
        every_n_secs: float | None = None,
        at_end: bool = False,
        formatter: Callable[[Mapping[str, Any]], str] | None = None,
    ) -> None:
        if not isinstance(tensors, Mapping):
            tensors = {getattr(one, "name", one): one for one in tensors}
        self._tensors = dict(tensors)
        self._timer = Timer(every_n_iter, every_n_secs)
        self._formatter = formatter
        self._at_end = at_end
        self._runs = 0
        self._values: Any = None

    def before_run(self, run_context: Any) -> SessionRunArgs:
        """Ask for the tensors."""
        return SessionRunArgs(self._tensors)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Log them."""
        self._values = run_values.results
        if self._timer.is_due(self._runs):
            self._timer.note(self._runs)
            self._log()
        self._runs += 1

    def end(self, session: Any) -> None:
        """Log them."""
        if self._at_end and self._values is not None:
            self._log()

    def _log(self) -> None:
        if self._formatter is not None:
            logger.info(self._formatter(self._values))
            return
        logger.info(", ".join(f"{name} = {v}" for name, v in self._values.items()))


class NanLossDuringTrainingError(RuntimeError):
    """A loss is not a number.

    Example:
        >>> raise NanLossDuringTrainingError("NaN loss.")
        Traceback (most recent call last):
        ...
        ipu.tf.compat.v1._monitored.NanLossDuringTrainingError: NaN loss.
    """


class NanTensorHook(SessionRunHook):
    """Stop where a loss is not a number.

    Args:
        loss_tensor: The loss.
        fail_on_nan_loss: Whether that is an error.

    Example:
        >>> hook = NanTensorHook("loss:0", fail_on_nan_loss=False)
    """

    def __init__(self, loss_tensor: Any, fail_on_nan_loss: bool = True) -> None:
        self._loss, self._fails = loss_tensor, fail_on_nan_loss

    def before_run(self, run_context: Any) -> SessionRunArgs:
        """Ask for the loss."""
        return SessionRunArgs(self._loss)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Look at it."""
        if not np.isnan(run_values.results).any():
            return
        if self._fails:
            raise NanLossDuringTrainingError("NaN loss during training.")
        logger.warning("Model diverged with loss = NaN.")
        run_context.request_stop()


class FeedFnHook(SessionRunHook):
    """Feed what a function gives.

    Args:
        feed_fn: Gives a ``feed_dict``.

    Example:
        >>> FeedFnHook(lambda: {"x:0": 1.0}).before_run(None).feed_dict
        {'x:0': 1.0}
    """

    def __init__(self, feed_fn: Callable[[], Any]) -> None:
        self.feed_fn = feed_fn

    def before_run(self, run_context: Any) -> SessionRunArgs:
        """Feed."""
        return SessionRunArgs(None, self.feed_fn())


class StepCounterHook(SessionRunHook):
    """Log how many steps there are in a second.

    Args:
        every_n_steps: After how many steps; or
        every_n_secs: after how many seconds.
        output_dir: Where a summary of it is written, or None.
        summary_writer: The writer, or None.

    Example:
        >>> hook = StepCounterHook(every_n_steps=10)
    """

    def __init__(
        self,
        every_n_steps: int | None = 100,
        every_n_secs: float | None = None,
        output_dir: Any = None,
        summary_writer: Any = None,
    ) -> None:
        self._timer = Timer(every_n_steps, every_n_secs)
        self._folder, self._writer = output_dir, summary_writer

    def begin(self) -> None:
        """Open what is written to."""
        if self._writer is None and self._folder is not None:
            self._writer = FileWriter(self._folder)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Log it."""
        step = step_now(run_context.session)
        if self._timer.is_due(step):
            passed = self._timer.note(step)
            if passed is not None and passed[1] > 0:
                rate = passed[0] / passed[1]
                logger.info("global_step/sec: %g", rate)
                if self._writer is not None:
                    number = _messages.number_of(rate)
                    told = _messages.summary_of("global_step/sec", number)
                    self._writer.add_summary(told, step)

    def end(self, session: Any) -> None:
        """End the file, where it is the hook's own."""
        if self._writer is not None and self._folder is not None:
            self._writer.close()


class SummarySaverHook(SessionRunHook):
    """Write summaries now and then.

    Args:
        save_steps: After how many steps; or
        save_secs: after how many seconds.
        output_dir: The folder.
        summary_writer: The writer; None: a ``FileWriter`` of ``output_dir``.
        scaffold: Has the summary where ``summary_op`` is None.
        summary_op: The summary; None: all of the graph.

    Example:
        >>> hook = SummarySaverHook(save_steps=10, output_dir="run")
    """

    def __init__(
        self,
        save_steps: int | None = None,
        save_secs: float | None = None,
        output_dir: Any = None,
        summary_writer: Any = None,
        scaffold: Any = None,
        summary_op: Any = None,
    ) -> None:
        self._timer = Timer(save_steps, save_secs)
        self._folder, self._writer = output_dir, summary_writer
        self._summary = summary_op
        if summary_op is None:
            self._summary = getattr(scaffold, "summary_op", None)

    def begin(self) -> None:
        """Find the summary."""
        if self._summary is None:
            self._summary = merge_all()
        if self._writer is None and self._summary is not None:
            self._writer = FileWriter(self._folder)

    def before_run(self, run_context: Any) -> Any:
        """Ask for the summary, where it is time."""
        self._asked = self._summary is not None and self._timer.is_due(
            step_now(run_context.session) + 1
        )
        return SessionRunArgs(self._summary) if self._asked else None

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Write it."""
        if self._asked:
            step = step_now(run_context.session)
            self._timer.note(step)
            self._writer.add_summary(run_values.results, step)

    def end(self, session: Any) -> None:
        """End the file."""
        if self._writer is not None:
            self._writer.close()


class CheckpointSaverListener:
    """Be called around each save of a :class:`CheckpointSaverHook`.

    Example:
        >>> class Told(CheckpointSaverListener):
        ...     def after_save(self, session, global_step_value):
        ...         print("saved at", global_step_value)
        ...
        >>> hook = CheckpointSaverHook("run", save_steps=100, listeners=[Told()])
    """

    def begin(self) -> None:
        """Called before the session is made."""

    def before_save(self, session: Any, global_step_value: int) -> None:
        """Called before variables are saved."""

    def after_save(self, session: Any, global_step_value: int) -> Any:
        """Called after variables were saved; true ends training."""

    def end(self, session: Any, global_step_value: int) -> None:
        """Called at the end of the session, after the last save."""


class CheckpointSaverHook(SessionRunHook):
    """Save variables now and then, and at the end.

    Args:
        checkpoint_dir: The folder.
        save_secs: After how many seconds; or
        save_steps: after how many steps.
        saver: The saver; None: a ``Saver`` of all variables.
        checkpoint_basename: The name of the files.
        scaffold: Has the saver where ``saver`` is None.
        listeners: :class:`CheckpointSaverListener`, called around each save.

    Example:
        >>> hook = CheckpointSaverHook("run", save_steps=100)
    """

    def __init__(
        self,
        checkpoint_dir: Any,
        save_secs: float | None = None,
        save_steps: int | None = None,
        saver: Any = None,
        checkpoint_basename: str = "model.ckpt",
        scaffold: Any = None,
        listeners: Sequence[Any] | None = None,
    ) -> None:
        self._listeners = list(listeners or ())
        self._path = os.path.join(os.fspath(checkpoint_dir), checkpoint_basename)
        self._timer = Timer(save_steps, save_secs)
        self._saver: Any = saver or getattr(scaffold, "saver", None)
        self._saved = -1

    def begin(self) -> None:
        """Make the saver."""
        self._saver = self._saver or Saver()
        for listener in self._listeners:
            listener.begin()

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Save what there is at the start; what an earlier run left goes in its
        turn."""
        if not self._saver.last_checkpoints:
            self._saver.recover_last_checkpoints(numbered(*os.path.split(self._path)))
        self._save(session, step_now(session))

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Save."""
        step = step_now(run_context.session)
        if self._timer.is_due(step) and self._save(run_context.session, step):
            run_context.request_stop()

    def end(self, session: Any) -> None:
        """Save."""
        step = step_now(session)
        if step != self._saved:
            self._save(session, step)
        for listener in self._listeners:
            listener.end(session, step)

    def _save(self, session: Any, step: int) -> bool:
        """Save; whether a listener wants training to stop."""
        os.makedirs(os.path.dirname(self._path) or ".", exist_ok=True)
        self._timer.note(step)
        self._saved = step
        for listener in self._listeners:
            listener.before_save(session, step)
        path = self._saver.save(session, self._path, global_step=step)
        logger.info("Saving checkpoints for %d into %s.", step, path)
        return any([one.after_save(session, step) for one in self._listeners])


class Scaffold:
    """What a monitored session starts with; None: what the graph has.

    Args:
        init_op: Gives variables their first values.
        init_feed_dict: What is fed to it.
        init_fn: Called with the scaffold and the session after it, or with the session.
        local_init_op: Gives local variables their first values.
        summary_op: The summary that is written.
        saver: The saver.
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
        self.init_fn = init_fn and _of_session(self, init_fn)
        self.local_init_op = local_init_op
        self.summary_op = summary_op
        self.saver = saver


def _of_session(scaffold: Scaffold, init_fn: Any) -> Any:
    """Return ``init_fn`` as a function of the session; it may take the scaffold
    first."""
    if len(inspect.signature(init_fn).parameters) < 2:
        return init_fn
    return lambda session: init_fn(scaffold, session)


class MonitoredTrainingSession:
    """A session that initialises or restores variables, and calls hooks.

    In ``with`` the end of a data set ends it without an error.

    Args:
        master: Must be empty.
        is_chief: Whether hooks of the chief are there.
        checkpoint_dir: Where variables are restored from and saved to; None: nowhere.
        scaffold: The scaffold that it starts with.
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
            self._hooks.append(StepCounterHook(log_step_count_steps))
        is_saved = save_summaries_steps or save_summaries_secs
        if is_chief and folder and is_saved and has_step:
            steps = None if save_summaries_secs else save_summaries_steps
            self._hooks.append(
                SummarySaverHook(steps, save_summaries_secs, folder, scaffold=start)
            )
        is_kept = save_checkpoint_secs or save_checkpoint_steps
        if is_chief and checkpoint_dir and is_kept:
            seconds = None if save_checkpoint_steps else save_checkpoint_secs
            self._hooks.append(
                CheckpointSaverHook(
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
        """Return whether a hook, or the end of a data set, wants no further run."""
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
        got, stops = run_with_hooks(
            self._session, self._hooks, fetches, feed_dict, options, run_metadata
        )
        self._stops |= stops
        return got

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


class ChiefSessionCreator(NamedTuple):
    """What a :class:`MonitoredSession` is made of.

    Attributes:
        scaffold: The scaffold that it starts with, or None.
        master: Must be empty.
        config: A ``ConfigProto``, without effect.
        checkpoint_dir: Where variables are restored from, or None.
        checkpoint_filename_with_path: In place of it what ``Saver.save`` gave.

    Example:
        >>> ChiefSessionCreator(checkpoint_dir="/some/folder").checkpoint_dir
        '/some/folder'
    """

    scaffold: Any = None
    master: str = ""
    config: Any = None
    checkpoint_dir: Any = None
    checkpoint_filename_with_path: Any = None


class MonitoredSession(MonitoredTrainingSession):
    """A session that initialises or restores variables, and calls the given hooks.

    Args:
        session_creator: A :class:`ChiefSessionCreator`; None: one of no arguments.
        hooks: Hooks.
        stop_grace_period_secs: Accepted and not used.

    Example:
        >>> with v1.Graph().as_default():
        ...     v = v1.get_variable("v", [], initializer=v1.ones_initializer())
        ...     with v1.train.MonitoredSession() as session:
        ...         print(session.run(v))
        1.0
    """

    def __init__(
        self,
        session_creator: ChiefSessionCreator | None = None,
        hooks: Sequence[Any] | None = None,
        stop_grace_period_secs: int = 120,
    ) -> None:
        made = session_creator or ChiefSessionCreator()
        self._path = made.checkpoint_filename_with_path
        super().__init__(
            made.master,
            checkpoint_dir=made.checkpoint_dir,
            scaffold=made.scaffold,
            hooks=hooks,
            save_checkpoint_secs=None,
            save_summaries_steps=None,
            log_step_count_steps=None,
            config=made.config,
        )

    def _start(self, start: Scaffold, folder: Any) -> None:
        super()._start(start, folder)
        if self._path is not None:
            with self.graph.as_default():
                (start.saver or Saver()).restore(self._session, self._path)


class SingularMonitoredSession(MonitoredSession):
    """A :class:`MonitoredSession` that is described by its own arguments.

    Args:
        hooks: Hooks.
        scaffold: The scaffold that it starts with, or None.
        master: Must be empty.
        config: A ``ConfigProto``, without effect.
        checkpoint_dir: Where variables are restored from, or None.
        stop_grace_period_secs: Accepted and not used.
        checkpoint_filename_with_path: In place of the folder what ``Saver.save`` gave.

    Example:
        >>> with v1.Graph().as_default():
        ...     one = v1.constant(1.0)
        ...     with v1.train.SingularMonitoredSession() as session:
        ...         print(session.raw_session().run(one))
        1.0
    """

    def __init__(
        self,
        hooks: Sequence[Any] | None = None,
        scaffold: Scaffold | None = None,
        master: str = "",
        config: Any = None,
        checkpoint_dir: Any = None,
        stop_grace_period_secs: int = 120,
        checkpoint_filename_with_path: Any = None,
    ) -> None:
        creator = ChiefSessionCreator(
            scaffold, master, config, checkpoint_dir, checkpoint_filename_with_path
        )
        super().__init__(creator, hooks)

    def raw_session(self) -> Any:
        """Return the session inside, which calls no hooks."""
        return self._session


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
        """Return whether threads shall end."""
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
        """Open a context whose exceptions end all threads."""
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
    """Do nothing: whoever dequeues runs what fills a queue; data sets have their own
    threads.

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
