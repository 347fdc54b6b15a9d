# SPDX-License-Identifier: MIT
"""Writers of event files, and which of them summaries go to."""

from __future__ import annotations

import itertools
import os
import socket
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from ipu._device.locks import Lock
from ipu._device.thread_state import here
from ipu.tf._string_ops.tensors import path_of
from ipu.tf._tensor.extras import extra
from ipu.tf.io._records import TFRecordWriter
from ipu.tf.summary import _messages

_numbers = itertools.count()


class SummaryWriter:
    """Writes a file of events; :func:`create_file_writer` makes one.

    Events are handed to the system as they are written: nothing waits for a flush.

    Args:
        path: The file, or None: nothing is written.

    Example:
        >>> writer = tf.summary.create_noop_writer()
        >>> writer.close()
        >>> with writer.as_default():
        ...     pass
        Traceback (most recent call last):
        ...
        RuntimeError: <SummaryWriter of nothing> is already closed. Make another one.
    """

    def __init__(self, path: str | None) -> None:
        self._path = path
        self._is_closed = False
        self._lock = Lock()
        self._file: TFRecordWriter | None = None
        if path is not None:
            self._file = TFRecordWriter(path)
            self._write(_messages.event_of_version(time.time()))

    def _write(self, event: bytes) -> None:
        with self._lock:
            if self._file is not None and not self._is_closed:
                self._file.write(event)
                self._file.flush()

    def _add(self, value: bytes, step: int) -> None:
        """Write one Summary.Value."""
        self._write(_messages.event_of_summary(time.time(), step, value))

    def _add_graph(self, graph: bytes) -> None:
        self._write(_messages.event_of_graph(time.time(), graph))

    def _need_open(self) -> None:
        if self._is_closed:
            raise RuntimeError(f"{self!r} is already closed. Make another one.")

    def set_as_default(self, step: Any = None) -> None:
        """Send the summaries of this thread here from now on.

        Args:
            step: The step of summaries that are given none; None: as before.
        """
        self._need_open()
        here.writer = self
        if step is not None:
            here.summary_step = step

    @contextmanager
    def as_default(self, step: Any = None) -> Iterator[SummaryWriter]:
        """Send the summaries of this thread here, inside of ``with``.

        Args:
            step: The step of summaries that are given none; None: as before.

        Raises:
            RuntimeError: The writer is closed.
        """
        before = here.writer, here.summary_step
        try:
            self.set_as_default(step)
            yield self
        finally:
            here.writer = before[0]
            if step is not None:
                here.summary_step = before[1]

    def init(self) -> None:
        """Do nothing: the file is there."""

    def flush(self) -> None:
        """Do nothing: what was written is in the file.

        Raises:
            RuntimeError: The writer is closed.
        """
        self._need_open()

    def close(self) -> None:
        """End the file; a second call does nothing. Later values are not written."""
        with self._lock:
            self._is_closed = True
            if self._file is not None:
                self._file.close()

    def __repr__(self) -> str:
        return f"<SummaryWriter of {self._path or 'nothing'}>"


def create_file_writer(
    logdir: Any,
    max_queue: int | None = None,
    flush_millis: int | None = None,
    filename_suffix: str | None = None,
    name: str | None = None,
    experimental_trackable: bool = False,
) -> SummaryWriter:
    """Make a writer of a new event file, which TensorBoard shows.

    Args:
        logdir: The folder; it is made.
        max_queue, flush_millis: Accepted: no event waits.
        filename_suffix: The end of the file's name. Default ``.v2``.
        experimental_trackable: Accepted and not used.

    Returns:
        The writer.

    Raises:
        ImportError: The extra ``tensorboard`` is not installed.
        OSError: The folder or the file cannot be made.

    Example:
        >>> import os, tempfile
        >>> folder = tempfile.mkdtemp()
        >>> writer = tf.summary.create_file_writer(folder)
        >>> with writer.as_default():
        ...     tf.summary.scalar("loss", 0.5, step=1)
        True
        >>> os.listdir(folder)[0].startswith("events.out.tfevents.")
        True
    """
    extra("google_crc32c", "tf.summary", "tensorboard", "google-crc32c")
    folder = path_of(logdir)
    os.makedirs(folder, exist_ok=True)
    suffix = ".v2" if filename_suffix is None else filename_suffix
    who = f"{socket.gethostname()}.{os.getpid()}.{next(_numbers)}"
    file = f"events.out.tfevents.{int(time.time()):010d}.{who}{suffix}"
    return SummaryWriter(os.path.join(folder, file))


def create_noop_writer() -> SummaryWriter:
    """Make a writer that writes nothing.

    Example:
        >>> with tf.summary.create_noop_writer().as_default():
        ...     tf.summary.scalar("loss", 0.5, step=1)
        True
    """
    return SummaryWriter(None)


def flush(writer: SummaryWriter | None = None, name: str | None = None) -> None:
    """Do nothing for an open writer: what was written is in the file.

    Args:
        writer: The writer; None: the one that summaries go to.

    Raises:
        RuntimeError: The writer is closed.

    Example:
        >>> tf.summary.flush()
    """
    writer = here.writer if writer is None else writer
    if writer is not None:
        writer.flush()


def record_if(condition: Any) -> AbstractContextManager[None]:
    """Write summaries under a condition only, inside of ``with``.

    Args:
        condition: A bool, a scalar tensor, or a function that gives one; in a function
            that is traced it is asked once, and its tensor in each run.

    Example:
        >>> with tf.summary.create_noop_writer().as_default():
        ...     with tf.summary.record_if(False):
        ...         tf.summary.scalar("loss", 0.5, step=1)
        False
    """
    return here.setting(summary_condition=condition)


def should_record_summaries() -> Any:
    """Return whether a summary would be written: a bool, or a tensor of the traced
    function.

    Example:
        >>> tf.summary.should_record_summaries()
        False
    """
    if here.writer is None:
        return False
    condition = here.summary_condition
    return condition() if callable(condition) else condition
