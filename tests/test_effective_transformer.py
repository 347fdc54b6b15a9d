# SPDX-License-Identifier: MIT
"""``EffectiveTransformer`` against NumPy, in models, and what it refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ipu import drop_in, keras, layers, tf
from ipu.ipu_strategy import IPUStrategy
from ipu.layers import EffectiveTransformer

HEADS, SIZE, UNITS = 2, 3, 4
RNG = np.random.default_rng(0)
QUERIES = RNG.normal(size=(5, 4)).astype(np.float32)
KEYS = RNG.normal(size=(5, 6)).astype(np.float32)
LENGTHS = np.int32([[4], [1], [0], [2], [3]])
OTHERS = np.int32([[6], [2], [5], [0], [1]])
MASK = np.array([[1, 1], [0, 1], [1, 0], [1, 1], [0, 0]], bool)


def layer(**kwargs: Any) -> EffectiveTransformer:
    return EffectiveTransformer(
        UNITS,
        max_batch_size=3,
        sequences_per_iter=2,
        num_attention_heads=HEADS,
        attention_head_size=SIZE,
        **kwargs,
    )


def randomized(made: EffectiveTransformer) -> dict[str, Any]:
    """Other weights than ones, by name."""
    made([QUERIES, LENGTHS, KEYS, OTHERS])
    values = [RNG.normal(size=tuple(w.shape)).astype("f4") for w in made.weights]
    made.set_weights(values)
    names = [w.name for w in made.weights]
    return dict(zip(names, (v.astype("f8") for v in values), strict=True))


def expected(weights: dict[str, Any], mask: Any, scale: float) -> tuple[Any, Any]:
    """As the port computes it, without packing; in float64."""

    def dense(name: str, x: Any) -> Any:
        kernel, bias = (
            next(v for k, v in weights.items() if f"{name}_layer/{part}" in k)
            for part in ("kernel", "bias")
        )
        return x @ kernel + bias

    def heads(name: str, x: Any, lengths: Any) -> Any:
        made = np.maximum(dense(name, x.astype("f8")[..., None]), 0.0)
        made = made * (np.arange(x.shape[1]) < lengths)[..., None]
        return made.reshape(*x.shape, HEADS, SIZE).transpose(0, 2, 1, 3)

    q = heads("query", QUERIES, LENGTHS)
    k, v = heads("key", KEYS, OTHERS), heads("value", KEYS, OTHERS)
    scores = np.exp(q @ k.swapaxes(-1, -2) * scale)
    context = scores / scores.sum(-1, keepdims=True) @ v * mask[:, :, None, None]
    context = context.transpose(0, 2, 1, 3)
    result = np.tanh(dense("output", context.reshape(len(context), -1)))
    return result, context


def test_old_programs_find_it() -> None:
    drop_in.install()
    try:
        from tensorflow.python.ipu.keras import layers as served

        assert served.EffectiveTransformer is layers.EffectiveTransformer
        from ipu_tensorflow_addons.keras.layers import EffectiveTransformer as added
        from tensorflow.python.ipu.keras.layers import effective_transformer

        assert added is layers.EffectiveTransformer
        assert effective_transformer.EffectiveTransformer is added
    finally:
        drop_in.uninstall()


@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize("scaled", [True, False])
def test_numbers(masked: bool, scaled: bool) -> None:
    made = layer(
        use_scale=scaled,
        qkv_activation="relu",
        output_activation="tanh",
        layer_norm_output=False,
    )
    weights = randomized(made)
    inputs: list[Any] = [QUERIES, LENGTHS, KEYS, OTHERS]
    if masked:
        inputs.append(MASK)
    program = tf.function(made, jit_compile=True)
    found = IPUStrategy().run(program, [[tf.constant(x) for x in inputs]])
    scale = next((float(v[0]) for k, v in weights.items() if "scale" in k), 1.0)
    wanted = expected(weights, MASK if masked else np.ones((5, HEADS)), scale)
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-4, atol=2e-5)


def test_the_result_is_normalised() -> None:
    made = layer(qkv_activation="relu", output_activation="tanh")
    weights = randomized(made)
    gamma, beta = (
        next(v for k, v in weights.items() if part in k) for part in ("gamma", "beta")
    )
    output, _ = made([QUERIES, LENGTHS, KEYS, OTHERS])
    plain, _ = expected(weights, np.ones((5, HEADS)), 1.0)
    centred = plain - plain.mean(-1, keepdims=True)
    wanted = centred / np.sqrt(plain.var(-1, keepdims=True) + 1e-3) * gamma + beta
    np.testing.assert_allclose(output, wanted, rtol=5e-4, atol=5e-4)


def test_dropout_in_training_alone() -> None:
    made = layer(attention_dropout_prob=0.5, layer_norm_output=False)
    inputs = [QUERIES, LENGTHS, KEYS, OTHERS]
    first, second = made(inputs)[1], made(inputs)[1]
    np.testing.assert_array_equal(first, second)
    dropped = made(inputs, training=True)[1].numpy()
    assert np.sum(dropped == 0) > np.sum(first.numpy() == 0)


def test_a_model_learns_with_it() -> None:
    with IPUStrategy().scope():
        shapes = [(4, "float32"), (1, "int32"), (6, "float32"), (1, "int32")]
        inputs = [keras.Input((n,), 5, dtype=dtype) for n, dtype in shapes]
        output, _ = layer(use_scale=True)(inputs)
        model = keras.Model(inputs, keras.layers.Dense(1)(output))
        model.compile(keras.optimizers.Adam(0.05), "mse", steps_per_execution=1)
        data = [QUERIES, LENGTHS, KEYS, OTHERS]
        wanted = RNG.normal(size=(5, 1)).astype("f4")
        fitted = model.fit(data, wanted, batch_size=5, epochs=30, verbose=0)
    losses = fitted.history["loss"]
    assert losses[-1] < 0.8 * losses[0]
    assert len(model.layers[4].trainable_weights) == 4 * 2 + 1 + 2


def test_arguments_come_back() -> None:
    made = layer(
        qkv_activation="relu", output_dropout_prob=0.25, layer_norm_output=False
    )
    again = EffectiveTransformer.from_config(made.get_config())
    assert again.get_config() == made.get_config()
    assert again.layer_norm_output is False and again.max_batch_size == 3


def test_refusals() -> None:
    with pytest.raises(ValueError, match="max_batch_size=1, sequences_per_iter=2"):
        EffectiveTransformer(1, 1, sequences_per_iter=2)
    good = [QUERIES, LENGTHS, KEYS, OTHERS]
    for bad, message in [
        (good[:3], "either four or five input"),
        ([QUERIES[0], *good[1:]], "must be equal rank"),
        ([QUERIES[:2], LENGTHS[:2], *good[2:]], "equal number of sequences"),
        ([QUERIES, LENGTHS[:2], *good[2:]], "have lengths equal"),
        ([np.float16(QUERIES), *good[1:]], "must be equal types"),
        ([*good, MASK[:, :1]], "q_mask must have shape"),
    ]:
        made = EffectiveTransformer(UNITS, 3, num_attention_heads=HEADS, autocast=False)
        with pytest.raises(ValueError, match=message):
            made(bad)


def test_mixed_precision() -> None:
    made = layer(dtype="mixed_float16")
    output, context = made([QUERIES, LENGTHS, KEYS, OTHERS])
    assert output.dtype == tf.float16 and context.dtype == tf.float16
    assert {w.dtype.name for w in made.weights} == {"float32"}
