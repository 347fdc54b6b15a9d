# SPDX-License-Identifier: MIT
"""`tf.nn.ctc_loss`; what is expected was printed by TensorFlow 2.21."""

import numpy as np
import pytest

import ipu.tf as tf

LOGITS = np.random.default_rng(0).normal(size=(6, 2, 5)).astype(np.float32)
LABELS = np.array([[1, 2, 2], [3, 0, 0]], np.int32)
SPARSE = ([[0, 0], [0, 1], [0, 2], [1, 0]], [1, 2, 2, 3], [2, 3])
FIRST, LAST = [8.4538794, 4.8495712], [7.5187583, 4.3378210]
GRADIENT = 12.32696  # the sum of absolute values


def test_dense_labels():
    logits = tf.constant(LOGITS)
    with tf.GradientTape() as tape:
        tape.watch(logits)
        loss = tf.nn.ctc_loss(LABELS, logits, [3, 1], [6, 4])
    assert loss.numpy() == pytest.approx(FIRST, rel=1e-5)
    gradient = tape.gradient(loss, logits).numpy()
    assert np.abs(gradient).sum() == pytest.approx(GRADIENT, rel=1e-4)
    batches = LOGITS.transpose(1, 0, 2)
    last = tf.nn.ctc_loss(LABELS, batches, [3, 1], [6, 4], False, blank_index=-1)
    assert last.numpy() == pytest.approx(LAST, rel=1e-5)


def test_sparse_labels():
    labels = tf.sparse.SparseTensor(*SPARSE)
    for blank, wanted in ((0, FIRST), (-1, LAST)):
        loss = tf.nn.ctc_loss(labels, LOGITS, None, [6, 4], blank_index=blank)
        assert loss.numpy() == pytest.approx(wanted, rel=1e-5)


def test_labels_that_do_not_fit():
    loss = tf.nn.ctc_loss([[1, 1, 1]], np.zeros((2, 1, 3), np.float32), [3], [2])
    assert loss.numpy().tolist() == [np.inf]


@pytest.mark.parametrize(
    "change, words",
    [
        ({"labels": tf.sparse.SparseTensor(*SPARSE)}, "blank_index` must be provided"),
        ({"label_length": None}, "label_length` must be given"),
        ({"logits": LOGITS[0]}, r"must be \[time, batch, classes\]"),
        ({"blank_index": 5}, "one of 5 classes. Received: 5"),
    ],
)
def test_errors(change, words):
    given = {"labels": LABELS, "logits": LOGITS, "label_length": [3, 1]}
    with pytest.raises(ValueError, match=words):
        tf.nn.ctc_loss(**{**given, "logit_length": [6, 4], **change})
