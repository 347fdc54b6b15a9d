# SPDX-License-Identifier: MIT
"""The hook that saves variables, and what listens to it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from ipu.tf.compat.v1._hooks import SessionRunHook, Timer, logger, step_now
from ipu.tf.compat.v1._saver import Saver


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
