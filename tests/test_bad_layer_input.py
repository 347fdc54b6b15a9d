# SPDX-License-Identifier: MIT
"""Inputs that do not fit a layer: each has an error that names what does not fit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ipu
from ipu import keras, tf

L = keras.layers
IMAGES = np.ones((2, 8, 8, 3), np.float32)
STEPS = np.ones((2, 5, 3), np.float32)
RECURRENT = {"LSTM": (L.LSTM, 2), "GRU": (L.GRU, 1), "SimpleRNN": (L.SimpleRNN, 1)}


def built(layer: Any, *shape: int) -> Any:
    layer(np.ones(shape, np.float32))
    return layer


CASES: dict[str, tuple[Callable[[], Any], str]] = {
    "channels": (
        lambda: built(L.Conv2D(4, 3), 2, 8, 8, 5)(IMAGES),
        r"axis -1 of input shape to have value 5 but received .*\(2, 8, 8, 3\)",
    ),
    "axes": (
        lambda: built(L.Conv2D(4, 3), 2, 8, 8, 3)(STEPS),
        "expected min_ndim=4, found ndim=3",
    ),
    "filters of ops": (
        lambda: tf.nn.conv2d(IMAGES, np.ones((3, 3, 4, 8), np.float32), 1, "SAME"),
        "an input of 3 channels and filters of shape",
    ),
    "negative size": (
        lambda: L.Conv2D(4, 9)(IMAGES),
        r"reaches over 9 elements, but the input of shape \(2, 8, 8, 3\) has 8",
    ),
    "negative size of a model": (
        lambda: L.Conv2D(4, 9)(keras.Input((8, 8, 3))),
        r"the input of shape \(None, 8, 8, 3\) has 8 .*Use padding 'SAME'",
    ),
    "negative size of depths": (
        lambda: L.DepthwiseConv2D(9)(IMAGES),
        "the output size would be negative",
    ),
    "negative size of pools": (
        lambda: L.MaxPool2D(9)(IMAGES),
        "a window of 9 does not fit into the 8 elements of axis 1",
    ),
    "negative size of averages": (
        lambda: L.AveragePooling1D(9)(STEPS),
        "a window of 9 does not fit into the 5 elements",
    ),
    "cropped to nothing": (
        lambda: L.Cropping2D(5)(IMAGES),
        "leaves nothing of the input",
    ),
    "grown to nothing": (lambda: L.UpSampling2D((1, 0)), "UpSampling2D must have no e"),
    "resized to nothing": (lambda: L.Resizing(0, 3), "`height` and `width` of Resizi"),
    "crops of nothing": (lambda: L.CenterCrop(2, -3), "Received: height=2, width=-3"),
    "random crops of nothing": (lambda: L.RandomCrop(0, 3), "RandomCrop must be pos"),
    "groups of filters": (
        lambda: L.Conv2D(4, 3, groups=3),
        "groups=3, filters=4 of Conv2D",
    ),
    "groups of channels": (
        lambda: L.Conv2D(4, 3, groups=2)(IMAGES),
        "groups=2 of Conv2D, but the input has 3 channels",
    ),
    "groups of norms": (
        lambda: ipu.layers.GroupNorm(groups=2)(IMAGES),
        "3 channels is not commensurate with 2 groups",
    ),
    "words": (
        lambda: L.Embedding(4, 2)(np.array([[1, 4]])),
        r"indices\[1\] = 4 is not in \[0",
    ),
    "words below": (
        lambda: L.Embedding(4, 2)(np.array([[-1]])),
        r"-1 is not in \[0, 4\)",
    ),
    "mask of averages": (
        lambda: L.GlobalAveragePooling1D()(STEPS, mask=np.ones((2, 4), bool)),
        r"\(batch, steps\)=\(2, 5\).*Received: mask with shape \(2, 4\)",
    ),
    "mask of attention": (
        lambda: L.Attention()([STEPS, STEPS], mask=[None, np.ones((2, 4), bool)]),
        "the mask must have the shape of the scores",
    ),
    "mask of heads": (
        lambda: L.MultiHeadAttention(2, 2)(
            STEPS, STEPS, attention_mask=np.ones((2, 4, 5), bool)
        ),
        "the mask must have the shape of the scores",
    ),
    "states of two directions": (
        lambda: L.Bidirectional(L.LSTM(4))(
            STEPS, initial_state=[np.zeros((2, 4), np.float32)] * 3
        ),
        "Received: 3 states",
    ),
    "states of the port": (
        lambda: ipu.rnn_ops.PopnnLSTM(4)(
            np.ones((5, 2, 3), np.float32),
            initial_state=ipu.rnn_ops.LSTMStateTuple(
                np.zeros((3, 4), np.float32), np.zeros((3, 4), np.float32)
            ),
        ),
        r"State c of PopnnLSTM must have shape .*\(2, 4\). Received: \(3, 4\)",
    ),
    "too few weights": (
        lambda: built(L.Dense(3), 2, 4).set_weights([np.ones(3)]),
        "weight list of length 1, but the layer was expecting 2 weights",
    ),
    "weights of another shape": (
        lambda: built(L.Dense(3), 2, 4).set_weights([np.ones((4, 5)), np.ones(5)]),
        r"\(4, 3\) not compatible with provided weight shape \(4, 5\) .*kernel",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_what_does_not_fit(name: str) -> None:
    call, text = CASES[name]
    with pytest.raises((ValueError, tf.errors.InvalidArgumentError), match=text):
        call()


@pytest.mark.parametrize("name", RECURRENT)
def test_recurrent_layers(name: str) -> None:
    kind, count = RECURRENT[name]
    for shape in ((2, 4), (5,), (3, 5)):
        with pytest.raises(
            ValueError, match=rf"Received: mask with shape \({shape[0]}"
        ):
            kind(4)(STEPS, mask=np.ones(shape, bool))
    for state in ((3, 4), (2, 5)):
        given = [np.zeros(state, np.float32)] * count
        with pytest.raises(ValueError, match=r"needs shape \(batch, units\)=\(2, 4\)"):
            kind(4)(STEPS, initial_state=given)
    with pytest.raises(ValueError, match=f"expects {count} state"):
        kind(4)(STEPS, initial_state=[np.zeros((2, 4), np.float32)] * (count + 1))


@pytest.mark.parametrize("name", RECURRENT)
def test_states_that_are_kept(name: str) -> None:
    layer = built(RECURRENT[name][0](4, stateful=True), *STEPS.shape)
    before = [state.numpy() for state in layer.states]
    with pytest.raises(ValueError, match=r"states of 2 samples\. .* of 3 samples"):
        layer(np.ones((3, 5, 3), np.float32))
    for state, value in zip(layer.states, before, strict=True):
        np.testing.assert_array_equal(state, value)
    layer(STEPS)


@pytest.mark.parametrize("call", ["fit", "predict"])
def test_a_word_outside_leaves_the_table_alone(call: str) -> None:
    model = keras.Sequential(
        [L.Embedding(4, 2, input_length=2), L.Flatten(), L.Dense(1)]
    )
    model.compile("sgd", "mse")
    before = [weight.copy() for weight in model.get_weights()]
    words, targets = np.array([[1, 2], [3, 9]]), np.ones((2, 1), np.float32)
    arguments = (words, targets) if call == "fit" else (words,)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"= 9 is not in \[0, 4\)"):
        getattr(model, call)(*arguments, batch_size=2, verbose=0)
    for weight, value in zip(model.get_weights(), before, strict=True):
        np.testing.assert_array_equal(weight, value)


def network(units: int = 3, more: bool = False) -> Any:
    layers = [L.Dense(units, name="first"), L.Dense(2, name="second")]
    model = keras.Sequential(layers + [L.Dense(2, name="third")] * more, name="net")
    model.build((None, 4))
    return model


def test_files_of_other_models(tmp_path: Path) -> None:
    path = str(tmp_path / "weights.safetensors")
    network().save_weights(path)
    wide, long = network(5), network(more=True)
    before = wide.get_weights()
    with pytest.raises(ValueError, match=r"first/kernel.*\(4, 5\).*\(4, 3\)"):
        wide.load_weights(path)
    for weight, value in zip(wide.get_weights(), before, strict=True):
        np.testing.assert_array_equal(weight, value)
    with pytest.raises(ValueError, match=r"third/kernel.*not in the file"):
        long.load_weights(path)
    long.save_weights(path)
    with pytest.raises(ValueError, match=r"third/kernel: not in the model"):
        network().load_weights(path)
    data = Path(path).read_bytes()
    Path(path).write_bytes(data[: len(data) // 2])
    with pytest.raises(ValueError, match=r"weights\.safetensors.* is damaged"):
        long.load_weights(path)


def test_records_that_end_too_early(tmp_path: Path) -> None:
    pytest.importorskip("google_crc32c", reason="the extra 'records' is not installed")
    path = tmp_path / "some.tfrecord"
    with tf.io.TFRecordWriter(str(path)) as writer:
        for number in range(5):
            writer.write(f"record {number}".encode() * 3)
    data = path.read_bytes()
    path.write_bytes(data[:-7])
    seen = []
    wrong = tf.errors.DataLossError
    with pytest.raises(wrong, match=r"record 4 of .*some\.tfrecord: truncated"):
        for record in tf.data.TFRecordDataset(str(path)):
            seen.append(record)
    assert len(seen) == 4
    path.write_bytes(data[:60] + b"X" + data[61:])
    with pytest.raises(wrong, match=r"some\.tfrecord: corrupted: the checksum"):
        list(tf.data.TFRecordDataset(str(path)))
