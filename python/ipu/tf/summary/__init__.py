# SPDX-License-Identifier: MIT
"""``tf.summary``: numbers, distributions, images and texts for TensorBoard.

Event files are written without TensorFlow and in its format, so that TensorBoard shows
them. In a function, summaries are written when a run of it has ended, in program order.
Needs the extra ``tensorboard``.

Example:
    >>> import tempfile
    >>> from ipu import tf
    >>> with tf.summary.create_file_writer(tempfile.mkdtemp()).as_default():
    ...     for step in range(3):
    ...         _ = tf.summary.scalar("loss", 1.0 / (1 + step), step)
"""

from __future__ import annotations

from ipu._text.exports import export, offered
from ipu.tf.summary import experimental as experimental
from ipu.tf.summary._kinds import (
    histogram as histogram,
    image as image,
    scalar as scalar,
    text as text,
    write as write,
)
from ipu.tf.summary._writer import (
    SummaryWriter as SummaryWriter,
    create_file_writer as create_file_writer,
    create_noop_writer as create_noop_writer,
    flush as flush,
    record_if as record_if,
    should_record_summaries as should_record_summaries,
)

export(__name__, offered(__name__, ["experimental"]))
