# SPDX-License-Identifier: MIT
"""Cases of masks: what each layer makes of a mask, and which one it hands on.

Each runs at once, in a functional model and inside of a `tf.function`; a probe after the
layer, which takes a mask, says which one arrived.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from keras_programs import fixed, numbers

Case = Callable[[Any], Any]

# the input: steps of numbers, some of which are zeros and do not count; the same with
# a size for each; or numbers of words, of which 0 is none
STEPS = numbers((2, 4, 3)) * np.array([[1, 1, 0, 1], [0, 1, 1, 0]])[:, :, None]
INPUTS: dict[str, Any] = {
    "steps": STEPS.astype("f4"),
    "nested": (numbers((2, 3, 4, 3)) * (numbers((2, 3, 4, 1), 9) > -0.3)).astype("f4"),
    "pictures": (
        numbers((2, 3, 4, 4, 2))
        * np.array([[1, 0, 1], [0, 1, 1]])[..., None, None, None]
    ).astype("f4"),
    "words": np.array([[1, 2, 0], [3, 0, 0]], "i4"),
    "texts": np.array([[[1, 2], [3, 0]], [[0, 0], [2, 1]]], "i4"),
}

# layer | its input
LAYERS = """
L.Activation("relu") | steps
L.ActivityRegularization(0.1) | steps
L.AlphaDropout(0.5) | steps
L.AveragePooling1D(2) | steps
L.BatchNormalization() | steps
L.Bidirectional(L.LSTM(2)) | steps
L.Bidirectional(L.GRU(2, return_sequences=True)) | steps
L.Bidirectional(L.LSTM(2, return_sequences=True), merge_mode="sum") | steps
L.Bidirectional(L.LSTM(2, return_sequences=True, return_state=True)) | steps
L.Bidirectional(L.SimpleRNN(2, return_sequences=True), merge_mode=None) | steps
L.Conv1D(2, 2) | steps
L.Conv1DTranspose(2, 2) | steps
L.ConvLSTM2D(2, 2) | pictures
L.ConvLSTM2D(2, 2, return_sequences=True) | pictures
L.Cropping1D(1) | steps
L.Dense(2) | steps
L.DepthwiseConv1D(2) | steps
L.Dropout(0.5) | steps
L.ELU() | steps
L.EinsumDense("abc,cd->abd", output_shape=(None, 2)) | steps
L.Flatten() | steps
L.GRU(2) | steps
L.GRU(2, return_sequences=True) | steps
L.GRU(2, return_sequences=True, go_backwards=True) | steps
L.GRU(2, return_state=True) | steps
L.GaussianDropout(0.5) | steps
L.GaussianNoise(0.5) | steps
L.GlobalAveragePooling1D() | steps
L.GlobalAveragePooling1D(keepdims=True) | steps
L.GlobalMaxPooling1D() | steps
L.LSTM(2) | steps
L.LSTM(2, return_sequences=True) | steps
L.LSTM(2, return_sequences=True, return_state=True) | steps
L.Lambda(lambda x: x * 2.0) | steps
L.Lambda(lambda x, mask=None: x * tf.cast(mask, x.dtype)[:, :, None]) | steps
L.Lambda(lambda x, mask: x * tf.cast(mask, x.dtype)[:, :, None]) | steps
L.Lambda(lambda x: x, mask=lambda x, mask: tf.logical_not(mask)) | steps
L.Lambda(lambda x, mask=None: x, mask=lambda x, mask: mask) | steps
L.LayerNormalization() | steps
L.LeakyReLU() | steps
L.LocallyConnected1D(2, 2) | steps
L.Masking(0.0) | steps
L.MaxPooling1D(2) | steps
L.PReLU() | steps
L.Permute((2, 1)) | steps
L.RNN(L.LSTMCell(2)) | steps
L.RNN(L.GRUCell(2), return_sequences=True) | steps
L.RNN([L.LSTMCell(2), L.GRUCell(3)], return_sequences=True) | steps
L.RNN(L.GRUCell(2), return_sequences=True, unroll=True) | steps
L.ReLU() | steps
L.Rescaling(2.0) | steps
L.Reshape((4, 3)) | steps
L.SeparableConv1D(2, 2) | steps
L.SimpleRNN(2) | steps
L.SimpleRNN(2, return_sequences=True) | steps
L.Softmax(-1) | steps
L.SpatialDropout1D(0.5) | steps
L.ThresholdedReLU(0.1) | steps
L.TimeDistributed(L.Dense(2)) | steps
L.TimeDistributed(L.BatchNormalization()) | steps
L.TimeDistributed(L.Dropout(0.5)) | steps
L.TimeDistributed(L.Dense(2)) | nested
L.TimeDistributed(L.GlobalAveragePooling1D()) | nested
L.TimeDistributed(L.LSTM(2)) | nested
L.TimeDistributed(L.LSTM(2, return_sequences=True)) | nested
L.TimeDistributed(L.Bidirectional(L.GRU(2))) | nested
L.TimeDistributed(L.Bidirectional(L.GRU(2, return_sequences=True))) | nested
L.TimeDistributed(L.Masking(0.0)) | nested
L.TimeDistributed(L.TimeDistributed(L.Dense(2))) | nested
L.TimeDistributed(L.Lambda(lambda x: x * 2.0)) | nested
L.TimeDistributed(L.Embedding(4, 2, mask_zero=True)) | texts
L.TimeDistributed(tf.keras.Sequential([L.Embedding(4, 2, mask_zero=True), L.LSTM(2)])) | texts
L.TimeDistributed(tf.keras.Sequential([L.Masking(0.0), L.GRU(2)])) | nested
tf.keras.Sequential([L.Dense(2), L.LSTM(2, return_sequences=True)]) | steps
tf.keras.Sequential([L.Dense(2), L.Flatten()]) | steps
L.UnitNormalization() | steps
L.UpSampling1D(2) | steps
L.ZeroPadding1D(1) | steps
L.Embedding(4, 2, mask_zero=True) | words
L.Embedding(4, 2) | words
""".strip().splitlines()

# of two values, `a` with a mask and `b` with another one or with none
MERGES = """
L.Add()([a, b])
L.Subtract()([a, b])
L.Multiply()([a, b])
L.Average()([a, b])
L.Maximum()([a, b])
L.Minimum()([a, b])
L.Concatenate()([a, b])
L.Concatenate(axis=1)([a, a])
L.Dot((2, 2))([a, b])
L.Attention()([a, b])
L.Attention()([a, b, a])
L.Attention(use_scale=True, causal=True)([a, a])
L.AdditiveAttention()([a, b])
L.MultiHeadAttention(2, 2)(a, b)
L.MultiHeadAttention(2, 2)(a, b, a)
L.MultiHeadAttention(2, 2)(a, a)
L.MultiHeadAttention(2, 2)(a, b, attention_mask=tf.linalg.band_part(tf.ones((4, 4)), 1, 1)[None])
L.MultiHeadAttention(2, 2)(a, b, use_causal_mask=True)
L.Attention()([a, b], use_causal_mask=True)
L.AdditiveAttention()([b, a], use_causal_mask=True)
a + b
a * 2.0
tf.nn.relu(a)
a[:, 1:]
tf.concat([a, b], 1)
""".strip().splitlines()


def cases() -> dict[str, Case]:
    """All, by name."""
    found: dict[str, Case] = {}
    for line in LAYERS:
        text, _, kind = line.partition(" | ")
        found[f"masks: {line}"] = _of_layer(text, INPUTS[kind])
    for text in MERGES:
        for other in ("masked", "plain"):
            found[f"masks: {text} {other}"] = _of_merge(text, other == "masked")
    return {**found, **{f"masks: {one.__name__}": one for one in PROGRAMS}}


def _parts(tf: Any) -> tuple[Any, Any]:
    """A layer that makes a mask, and one that says which one it got."""

    class Steps(tf.keras.layers.Layer):  # type: ignore[misc]
        def call(self, inputs: Any) -> Any:
            return inputs * 1.0 if inputs.dtype.is_floating else inputs

        def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
            axes = list(range(3 if len(inputs.shape) == 4 else 2, len(inputs.shape)))
            return tf.reduce_any(tf.not_equal(inputs, 0), axes)

    class Probe(tf.keras.layers.Layer):  # type: ignore[misc]
        def call(self, inputs: Any, mask: Any = None) -> Any:
            if mask is None:
                return tf.constant([-1.0])
            return tf.cast(mask, "float32")

    return Steps, Probe


def _seen(tf: Any, probe: Any, result: Any) -> list[Any]:
    """Each result, and its mask."""
    flat = tf.nest.flatten(result)
    return [*flat, *(probe(one) for one in flat)]


def _of_layer(text: str, x: Any) -> Case:
    def case(tf: Any) -> Any:
        steps, probe = _parts(tf)
        layer = eval(text, {"L": tf.keras.layers, "tf": tf})
        _seen(tf, probe(), layer(steps()(tf.constant(x))))
        fixed(layer)
        at_once = _seen(tf, probe(), layer(steps()(tf.constant(x))))
        inputs = tf.keras.Input(x.shape[1:], dtype=x.dtype.name)
        model = tf.keras.Model(inputs, _seen(tf, probe(), layer(steps()(inputs))))
        traced = tf.function(lambda x: _seen(tf, probe(), layer(steps()(x))))
        return [at_once, model(tf.constant(x)), traced(tf.constant(x))]

    return case


def _of_merge(text: str, masked: bool) -> Case:
    def case(tf: Any) -> Any:
        steps, probe = _parts(tf)
        a, b = INPUTS["steps"], INPUTS["steps"][:, ::-1] * 0.5

        def apply(a: Any, b: Any) -> Any:
            a, b = steps()(a), steps()(b) if masked else b
            names = {"L": tf.keras.layers, "tf": tf, "a": a, "b": b}
            return _seen(tf, probe(), eval(text, names))

        if "Attention" not in text and "LSTM" not in text:
            at_once = apply(tf.constant(a), tf.constant(b))
        else:
            at_once = None  # of first weights
        inputs = [tf.keras.Input((4, 3)) for _ in range(2)]
        model = fixed(tf.keras.Model(inputs, apply(*inputs)))
        return [at_once, model([tf.constant(a), tf.constant(b)])]

    return case


# --- programs -------------------------------------------------------------------------


def a_mask_is_there_while_a_model_is_built(tf: Any) -> Any:
    """A layer whose `compute_mask` needs one."""

    class Next(tf.keras.layers.Layer):  # type: ignore[misc]
        def call(self, inputs: Any) -> Any:
            return inputs[:, 1:]

        def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
            return mask[:, 1:]

    inputs = tf.keras.Input((3,), dtype="int32")
    x = tf.keras.layers.Embedding(4, 2, mask_zero=True)(inputs)
    outputs = tf.keras.layers.GlobalAveragePooling1D()(Next()(x))
    model = fixed(tf.keras.Model(inputs, outputs))
    return model(tf.constant(INPUTS["words"]))


def layers_around_layers_hand_masks_on(tf: Any) -> Any:
    """One after another."""
    L = tf.keras.layers
    _, probe = _parts(tf)
    inputs = tf.keras.Input((3,), dtype="int32")
    x = L.Embedding(4, 2, mask_zero=True)(inputs)
    x = L.TimeDistributed(L.Dense(2))(x)
    x = L.Bidirectional(L.SimpleRNN(2, return_sequences=True))(x)
    x = L.TimeDistributed(L.Dense(1))(x)
    model = fixed(tf.keras.Model(inputs, [x, probe()(x)]))
    return model(tf.constant(INPUTS["words"]))


def steps_of_steps(tf: Any) -> Any:
    """Words of sentences of texts."""
    L = tf.keras.layers
    inputs = tf.keras.Input((2, 2), dtype="int32")
    x = L.Embedding(4, 2, mask_zero=True)(inputs)
    outputs = L.GRU(2)(L.TimeDistributed(L.LSTM(2))(x))
    model = fixed(tf.keras.Model(inputs, outputs))
    mean = L.TimeDistributed(L.GlobalAveragePooling1D())
    return [model(tf.constant(INPUTS["texts"])), mean(x_of(tf))]


def x_of(tf: Any) -> Any:
    """Numbers of words, [[1, 2], [3, 0]], by a table that counts up."""
    table = tf.keras.layers.Embedding(4, 2, mask_zero=True)
    words = tf.constant([[[1, 2], [3, 0]]])
    table(words)
    table.set_weights([np.arange(8, dtype="f4").reshape(4, 2)])
    return table(words)


def models_in_models_hand_masks_on(tf: Any) -> Any:
    """Nested, functional and subclassed."""
    L = tf.keras.layers

    class Inner(tf.keras.Model):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.table = L.Embedding(4, 2, mask_zero=True)
            self.rest = L.LSTM(2, return_sequences=True)

        def call(self, inputs: Any) -> Any:
            return self.rest(self.table(inputs))

    inputs = tf.keras.Input((3,), dtype="int32")
    table = L.Embedding(4, 2, mask_zero=True)
    first = tf.keras.Model(inputs, L.Dense(2)(table(inputs)))
    steps = tf.keras.Input((3, 2))
    second = tf.keras.Model(steps, L.LSTM(2, return_sequences=True)(steps))
    outer = tf.keras.Input((3,), dtype="int32")
    y = second(first(outer))
    model = fixed(tf.keras.Model(outer, L.GlobalAveragePooling1D()(y)))
    words = tf.constant(INPUTS["words"])
    inner = Inner()
    inner(words)
    fixed(inner)
    _, probe = _parts(tf)
    return [model(words), probe()(inner(words)), probe()(first(words))]


def a_mask_is_given_to_a_model(tf: Any) -> Any:
    """Called with one, as layers are."""
    L = tf.keras.layers
    inputs = tf.keras.Input((4, 3))
    model = fixed(tf.keras.Model(inputs, L.LSTM(2)(L.Dense(2)(inputs))))
    mask = tf.constant([[True, False, True, True], [True, True, False, False]])
    x = tf.constant(INPUTS["steps"])
    lstm = L.LSTM(2, return_sequences=True)
    both = L.Bidirectional(L.LSTM(2))
    lstm(x), both(x)
    given = [fixed(one)(x, mask=mask) for one in (lstm, both)]
    return [model(x, mask=mask), model(tf.constant(INPUTS["steps"])), *given]


PROGRAMS: list[Case] = [
    a_mask_is_there_while_a_model_is_built,
    layers_around_layers_hand_masks_on,
    steps_of_steps,
    models_in_models_hand_masks_on,
    a_mask_is_given_to_a_model,
]
