# SPDX-License-Identifier: MIT
"""Summaries of TensorFlow 1, read by TensorBoard's own reader.

The bytes are those of TensorFlow 2.21's ``tf.compat.v1.summary``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from session_runs import run

from ipu.tf import errors
from ipu.tf.compat import v1 as tf

events = pytest.importorskip(
    "tensorboard.backend.event_processing.event_accumulator",
    reason="needs pip install '.[test]'",
)
pytestmark = pytest.mark.usefixtures("graph")

# of [1, 2, 5]: least, most, number, sum, sum of squares; then limits, then counts
HISTOGRAM = bytes.fromhex(
    "0aa9010a03612f682aa10109000000000000f03f11000000000000144019000000000000084021"
    "000000000000204029000000000000"
)


def test_scalars_are_tensorflows_bytes() -> None:
    x = tf.placeholder(tf.float32)
    with tf.name_scope("part"):
        named = tf.summary.scalar("my loss", tf.reduce_sum(x))
    family = tf.summary.scalar("loss", 1, family="fam")
    assert [named.name, family.name] == ["part/my_loss:0", "fam/loss:0"]
    assert tf.get_collection(tf.GraphKeys.SUMMARIES) == [named, family]
    both = tf.summary.merge_all()
    assert both.name == "Merge/MergeSummary:0" and both.dtype == tf.string
    assert run(both, {x: [1.5, 0.5]}) == (
        b"\n\x13\n\x0cpart/my_loss\x15\x00\x00\x00@"
        b"\n\x13\n\x0cfam/fam/loss\x15\x00\x00\x80?"
    )
    with pytest.raises(errors.InvalidArgumentError, match="not the same shape"):
        run(tf.summary.scalar("rows", x), {x: [1.0]})


def test_histograms_are_tensorflows() -> None:
    x = tf.placeholder(tf.float32)
    with tf.name_scope("a"):
        made = tf.summary.histogram("h", x)
    content = run(made, {x: [1.0, 2.0, 5.0]})
    assert content.startswith(HISTOGRAM)
    (found,) = tf.Summary.FromString(content).value
    assert list(found.histo.bucket) == [0, 1, 0, 1, 0, 1, 0]
    wanted = [0.917246389039776, 1.0089710279437536, 1.9661990955585713]
    wanted += [2.1628190051144287, 4.6361946174186253, 5.0998140791604882]
    assert list(found.histo.bucket_limit) == [*wanted, np.finfo(np.float64).max]
    empty = tf.Summary.FromString(run(made, {x: []})).value[0].histo
    assert empty.num == 0 and list(empty.bucket) == [0.0]
    with pytest.raises(errors.InvalidArgumentError, match="Nan in summary histogram"):
        run(made, {x: [np.nan]})


def test_pictures_and_texts() -> None:
    pictures = tf.placeholder(tf.float32, [None, None, None, 1])
    made = tf.summary.image("im", pictures, max_outputs=2)
    content = run(made, {pictures: np.ones([3, 4, 5, 1]) * 0.5})
    found = tf.Summary.FromString(content).value
    assert [one.tag for one in found] == ["im/image/0", "im/image/1"]
    image = found[0].image
    assert (image.height, image.width, image.colorspace) == (4, 5, 1)
    assert image.encoded_image_string.startswith(b"\x89PNG")
    assert run(tf.summary.text("t", tf.constant("hi"))) == (
        b"\n\x17\n\x01tB\x08\x08\x07\x12\x00B\x02hiJ\x08\n\x06\n\x04text"
    )


def test_a_writer_writes_what_sessions_computed(tmp_path: Path, graph: Any) -> None:
    x = tf.placeholder(tf.float32, name="x")
    tf.summary.scalar("loss", x * 2.0)
    merged = tf.summary.merge_all()
    writer = tf.summary.FileWriter(str(tmp_path), graph)
    with tf.Session() as session:
        for step in range(3):
            writer.add_summary(session.run(merged, {x: step}), global_step=step)
    value = tf.Summary.Value(tag="by_hand", simple_value=0.5)
    writer.add_summary(tf.Summary(value=[value]), 7)
    writer.close()
    found = events.EventAccumulator(str(tmp_path)).Reload()
    read = [(event.step, event.value) for event in found.Scalars("loss")]
    assert read == [(0, 0.0), (1, 2.0), (2, 4.0)]
    assert [(e.step, e.value) for e in found.Scalars("by_hand")] == [(7, 0.5)]
    assert {"x", "loss"} <= {node.name for node in found.Graph().node}
    writer.reopen()
    writer.close()
    with pytest.raises(TypeError, match=r"`graph` must be a tf\.Graph"):
        writer.add_graph(3)
