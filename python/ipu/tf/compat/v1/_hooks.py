# SPDX-License-Identifier: MIT
"""Hooks of ``MonitoredTrainingSession``: what happens around its runs."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ipu.tf.compat.v1._saver import Saver
from ipu.tf.compat.v1._steps import get_global_step
from ipu.tf.compat.v1.summary import FileWriter, merge_all
from ipu.tf.summary import _messages

logger = logging.getLogger("tensorflow")


class SessionRunArgs(NamedTuple):
    """What a hook adds to a run.

    Attributes:
        fetches: What is computed besides.
        feed_dict: What is fed besides.
        options: Not used.

    Example:
        >>> SessionRunArgs("loss:0").feed_dict is None
        True
    """

    fetches: Any
    feed_dict: Any = None
    options: Any = None


class SessionRunValues(NamedTuple):
    """What a run gave a hook.

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
        original_args: What the program asked for.
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
    """Methods that a monitored session calls; a hook of one's own overrides some.

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
        """Before the session is made: operations may be added."""

    def after_create_session(self, session: Any, coord: Any) -> None:
        """The session is there, and variables have values."""

    def before_run(self, run_context: Any) -> Any:
        """Before a run: a ``SessionRunArgs`` of what is asked for besides, or None."""
        return None

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """After a run."""

    def end(self, session: Any) -> None:
        """The session ends without an error."""


class Timer:
    """Whether it is time again, by steps or by seconds."""

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
        """It happened; gives the steps and seconds since the last time."""
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
        >>> raise NanLossDuringTrainingError("NaN loss during training.")
        Traceback (most recent call last):
        ...
        ipu.tf.compat.v1._hooks.NanLossDuringTrainingError: NaN loss during training.
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
        summary_writer: What writes it, or None.

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
        summary_writer: What writes them; None: a ``FileWriter`` of ``output_dir``.
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
    """What is called around each save of a :class:`CheckpointSaverHook`.

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
        saver: What saves; None: a ``Saver`` of all variables.
        checkpoint_basename: What the files are called.
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
        """Save what there is at the start."""
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
