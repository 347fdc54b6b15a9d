# SPDX-License-Identifier: MIT
"""CTC decoders, against all paths one by one and against TensorFlow's numbers."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import ipu
from ipu import tf
from ipu.ops import nn_ops

TIME, BATCH, CLASSES = 6, 4, 5
LENGTHS = np.int32([6, 5, 1, 4])
# of TensorFlow 2.21 for `logits()` and LENGTHS
GREEDY = [[1, 3, 2, 0, 2, 1], [3, 2, 2, 1], [2], [1, 3, 1, 0]]
GREEDY_FIRST_BLANK = [[1, 3, 2, 2, 1], [3, 2, 4, 2, 1], [2], [1, 3, 1]]
GREEDY_SCORES = [-11.06793, -9.02189, -1.999586, -7.279059]
SECOND = [[1, 3, 2, 2, 1], [3, 2, 3, 1], [3], [3, 1, 0]]
SCORES = [
    *([-3.508586, -3.66805, -3.678233], [-3.09626, -3.19987, -3.217609]),
    *([-0.222049, -2.438908, -2.51963], [-2.506504, -2.665387, -2.895775]),
]


def logits() -> np.ndarray[Any, Any]:
    values = np.sin(np.arange(TIME * BATCH * CLASSES) * 1.7).astype(np.float32) * 2
    return values.reshape(TIME, BATCH, CLASSES)


def log_softmax(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    x = x.astype(np.float64)
    return np.asarray(x - np.log(np.exp(x).sum(-1, keepdims=True)))


def all_labels(logs: np.ndarray[Any, Any], blank: int) -> list[tuple[Any, float]]:
    """Each label with the probability of all its paths, the best first."""
    found: dict[tuple[int, ...], float] = {}
    for path in itertools.product(range(logs.shape[1]), repeat=len(logs)):
        score = sum(logs[t, c] for t, c in enumerate(path))
        label = tuple(c for c, _ in itertools.groupby(path) if c != blank)
        found[label] = float(np.logaddexp(found.get(label, -np.inf), score))
    return sorted(found.items(), key=lambda item: -item[1])


@pytest.mark.parametrize("on_device", [False, True])
@pytest.mark.parametrize("blank", [0, 1, -1])
def test_wide_beams_find_the_best_labels(blank: int, on_device: bool) -> None:
    x = (np.sin(np.arange(5 * 3 * 3) * 2.3) * 2).astype(np.float32).reshape(5, 3, 3)
    lengths = np.int32([5, 3, 1])
    search = nn_ops.ctc_beam_search_decoder
    if on_device:
        made = tf.function(lambda a, n: search(a, n, 60, 3, blank))(x, lengths)
    else:
        made = search(x, lengths, 60, 3, blank)
    scores, sizes, labels = (t.numpy() for t in made)
    assert labels.shape == (3, 3, 5)
    for sample, length in enumerate(lengths):
        want = all_labels(log_softmax(x[:length, sample]), blank % 3)
        for path, (label, score) in enumerate(want[:3]):
            end = sizes[sample, path]
            assert tuple(labels[sample, path, :end].tolist()) == label
            assert (labels[sample, path, end:] == blank % 3).all()
            assert scores[sample, path] == pytest.approx(-score, abs=1e-4)


def test_few_beams_and_labels_that_are_not_there() -> None:
    x = logits()
    scores, sizes, _ = nn_ops.ctc_beam_search_decoder(x, LENGTHS, 1, 1, 0)
    assert (sizes.numpy() <= LENGTHS[:, None]).all() and (scores.numpy() > 0).all()
    # of one time and two classes there are two labels
    scores, _, _ = nn_ops.ctc_beam_search_decoder(x[:1, :1, :2], [1], 5, 4, 0)
    assert (scores.numpy()[0, :2] < 10).all() and (scores.numpy()[0, 2:] > 1e29).all()


def test_of_log_probabilities() -> None:
    data = log_softmax(logits()).astype(np.float32)
    both = (
        nn_ops.ctc_beam_search_decoder_with_logits(logits(), LENGTHS, 20, 2),
        nn_ops.ctc_beam_search_decoder_with_log_probs(data, LENGTHS, 20, 2),
    )
    for a, b in zip(*both, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-5)


def dense(sparse: Any) -> list[list[int]]:
    rows = tf.sparse.to_dense(sparse, -1).numpy().tolist()
    return [[label for label in row if label >= 0] for row in rows]


def test_tensorflow_names() -> None:
    (labels,), scores = tf.nn.ctc_greedy_decoder(logits(), LENGTHS)
    assert dense(labels) == GREEDY and labels.values.dtype == tf.int64
    np.testing.assert_allclose(scores.numpy()[:, 0], GREEDY_SCORES, rtol=1e-5)
    (labels,), _ = tf.nn.ctc_greedy_decoder(logits(), LENGTHS, blank_index=0)
    assert dense(labels) == GREEDY_FIRST_BLANK
    twice = np.repeat(logits(), 2, axis=0)
    (labels,), _ = tf.nn.ctc_greedy_decoder(twice, 2 * LENGTHS)
    assert dense(labels) == GREEDY
    (labels,), _ = tf.nn.ctc_greedy_decoder(twice, 2 * LENGTHS, merge_repeated=False)
    assert [len(row) for row in dense(labels)] == [2 * len(row) for row in GREEDY]
    best, scores = tf.nn.ctc_beam_search_decoder(logits(), LENGTHS, 200, 3)
    assert dense(best[0]) == GREEDY and dense(best[1]) == SECOND
    np.testing.assert_allclose(scores.numpy(), SCORES, rtol=1e-5)


def test_layers() -> None:
    data = log_softmax(logits()).astype(np.float32)
    made = ipu.layers.CTCInferenceLayer(4, 30, 2)(data, LENGTHS)
    want = nn_ops.ctc_beam_search_decoder(logits(), LENGTHS, 30, 2, 4)
    for a, b in zip(made, want, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-5)
    for from_logits, x in ((True, logits()), (False, data)):
        layer = ipu.layers.CTCPredictionsLayer(4, 30, 2, from_logits=from_logits)
        again = type(layer).from_config(layer.get_config())
        np.testing.assert_array_equal(again(x, LENGTHS), want[2][:, 0])
    every = ipu.layers.CTCPredictionsLayer(4, 30, 2, select_most_likely_path=False)
    np.testing.assert_array_equal(every(data, LENGTHS), want[2])


def test_what_does_not_fit() -> None:
    search = nn_ops.ctc_beam_search_decoder
    with pytest.raises(ValueError, match="a length for each sample"):
        search(logits(), LENGTHS[:2])
    with pytest.raises(ValueError, match="top_paths must be from 1 to beam_width"):
        search(logits(), LENGTHS, 2, 3)
    with pytest.raises(ValueError, match="from 0 to the 6 times"):
        tf.nn.ctc_greedy_decoder(logits(), LENGTHS + 1)
