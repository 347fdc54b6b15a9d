"""The functions of ``tf.*`` beyond their values: random numbers, errors, symbolic
Keras values, data sets, and fusing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ipu import keras, tf
from ipu.tf._functions import function as _function


def trace(body: Any, *values: Any, host: bool = False) -> Any:
    tensors = [tf.constant(v) for v in values]
    specs = [tf.TensorSpec(t.shape, t.dtype) for t in tensors]
    traced = _function.trace_program(body, specs, host=host)
    return traced, traced.pack(traced.program.run(tensors))


# --- random numbers -------------------------------------------------------------------


def test_integers_are_even_over_their_range() -> None:
    tf.random.set_seed(3)
    drawn = tf.random.uniform((60000,), -3, 3, dtype=tf.int32).numpy()
    counts = np.bincount(drawn + 3, minlength=6)
    assert counts.size == 6 and abs(counts - 10000).max() < 500
    wide = tf.random.uniform((1000,), 0, 2**31 - 1, dtype=tf.int32).numpy()
    assert np.unique(wide).size > 990  # more than 24 bits
    big = tf.random.uniform((1000,), 0, 2**60, dtype=tf.int64).numpy()
    assert big.min() >= 0 and np.unique(big).size == 1000
    with pytest.raises(ValueError, match="Must specify maxval"):
        tf.random.uniform((2,), dtype=tf.int32)
    with pytest.raises(tf.errors.InvalidArgumentError, match="minval < maxval"):
        tf.random.uniform((2,), 5, 5, dtype=tf.int32)


def test_distributions_have_their_moments() -> None:
    tf.random.set_seed(1)
    normal = tf.random.normal((40000,), mean=2.0, stddev=3.0).numpy()
    assert abs(normal.mean() - 2.0) < 0.06 and abs(normal.std() - 3.0) < 0.05
    cut = tf.random.truncated_normal((40000,), mean=1.0, stddev=0.5).numpy()
    assert cut.min() >= 0.0 and cut.max() <= 2.0 and abs(cut.mean() - 1.0) < 0.02
    even = tf.random.uniform((40000,), tf.constant(1.0), tf.constant(3.0)).numpy()
    assert even.min() >= 1.0 and even.max() < 3.0 and abs(even.mean() - 2.0) < 0.02


def test_categorical_follows_the_probabilities() -> None:
    tf.random.set_seed(2)
    logits = np.log(np.array([[0.1, 0.2, 0.7], [0.5, 0.5, 1e-9]], np.float32))
    drawn = tf.random.categorical(logits, 20000).numpy()
    for row, shares in zip(drawn, ([0.1, 0.2, 0.7], [0.5, 0.5, 0.0]), strict=True):
        counts = np.bincount(row, minlength=3) / 20000
        np.testing.assert_allclose(counts, shares, atol=0.015)


def test_shuffle_permutes_rows_evenly() -> None:
    tf.random.set_seed(4)
    rows = np.arange(12).reshape(6, 2)
    found = tf.random.shuffle(rows).numpy()
    assert sorted(map(tuple, found.tolist())) == [tuple(r) for r in rows.tolist()]
    firsts = [int(tf.random.shuffle([0, 1, 2])[0]) for _ in range(600)]
    assert np.bincount(firsts).min() > 150


def test_stateless_numbers_depend_on_their_seed_alone() -> None:
    first = tf.random.stateless_normal((5,), seed=(1, 2)).numpy()
    tf.random.normal((3,))
    tf.random.set_seed(99)
    np.testing.assert_array_equal(tf.random.stateless_normal((5,), [1, 2]), first)
    assert not np.array_equal(tf.random.stateless_normal((5,), (1, 3)), first)
    _, traced = trace(lambda s: tf.random.stateless_normal((5,), s), np.int32([1, 2]))
    np.testing.assert_array_equal(traced, first)
    with pytest.raises(ValueError, match=r"seed must have shape \[2\]"):
        tf.random.stateless_uniform((2,), seed=[1, 2, 3])


def test_a_generator_counts_its_calls() -> None:
    generator = tf.random.Generator.from_seed(7)
    first, second = (generator.normal((3,)).numpy() for _ in range(2))
    assert not np.array_equal(first, second)
    generator.reset_from_seed(7)
    np.testing.assert_array_equal(generator.normal((3,)), first)
    tf.random.normal((2,))  # another stream
    np.testing.assert_array_equal(generator.normal((3,)), second)
    assert set(generator.uniform((50,), 0, 3, dtype=tf.int32).numpy()) == {0, 1, 2}
    a, b = generator.split(2)
    assert not np.array_equal(a.normal((3,)), b.normal((3,)))


def test_a_generator_works_in_a_function() -> None:
    generator = tf.random.Generator.from_seed(7)
    expected = [generator.uniform((2,)).numpy() for _ in range(4)]
    generator.reset_from_seed(7)

    @tf.function
    def draw() -> Any:
        return generator.uniform((2,)), generator.uniform((2,))

    found = [t.numpy() for _ in range(2) for t in draw()]
    np.testing.assert_array_equal(found, expected)


def test_dropout_with_a_noise_shape_drops_together() -> None:
    tf.random.set_seed(5)
    kept = tf.nn.dropout(tf.ones((50, 4)), 0.5, noise_shape=(50, 1)).numpy()
    assert set(map(tuple, kept.tolist())) == {(0.0,) * 4, (2.0,) * 4}
    with pytest.raises(ValueError, match="noise_shape"):
        tf.nn.dropout(tf.ones((4, 4)), 0.5, noise_shape=(2, 4))


# --- what depends on values -----------------------------------------------------------


@pytest.mark.parametrize(
    "call",
    [
        lambda x: tf.where(x > 0),
        lambda x: tf.boolean_mask(x, x > 0),
        lambda x: tf.unique(tf.cast(x, tf.int32)),
        lambda x: tf.math.segment_sum(x, tf.cast(x, tf.int32)),
        lambda x: tf.math.bincount(tf.cast(x, tf.int32)),
        lambda x: tf.sequence_mask(tf.cast(x, tf.int32)),
        lambda x: tf.repeat(x, tf.cast(x, tf.int32)),
        lambda x: tf.zeros(tf.cast(x, tf.int32)),
        lambda x: tf.range(tf.cast(x, tf.int32)[0]),
    ],
)
def test_open_shapes_are_clear_errors_in_a_function(call: Any) -> None:
    with pytest.raises(TypeError, match=r"static|known"):
        trace(call, np.float32([1, 2, 3]))


def test_sizes_of_known_tensors_are_sizes() -> None:
    def body(x: Any) -> Any:
        shape = tf.shape(x)
        return (
            tf.reshape(x, [shape[0], -1]),
            tf.zeros([shape[0], 2]),
            tf.zeros(shape),
            tf.reshape(x, [shape[0] * shape[1], -1]),
            tf.range(tf.size(x) // 4),
        )

    _, found = trace(body, np.zeros((3, 2, 2), np.float32))
    assert [t.shape for t in found] == [(3, 4), (3, 2), (3, 2, 2), (6, 2), (3,)]


ERRORS: tuple[tuple[Any, type[BaseException], str], ...] = (
    (lambda: tf.split(tf.range(5), 2), ValueError, "evenly divisible"),
    (lambda: tf.squeeze(tf.zeros((2, 1)), 0), ValueError, "Can not squeeze"),
    (lambda: tf.pad([1, 2], [[2, 0]], "REFLECT"), ValueError, "no greater"),
    (lambda: tf.pad([1], [[1, 1]], "WRAP"), ValueError, "mode"),
    (lambda: tf.gather([1, 2], [2]), tf.errors.InvalidArgumentError, "not in"),
    (
        lambda: tf.gather_nd([[1, 2]], [[0, 2]]),
        tf.errors.InvalidArgumentError,
        r"= 2 for axis 1 is not in \[0, 2\)",
    ),
    (
        lambda: tf.scatter_nd([[5]], [1], [3]),
        tf.errors.InvalidArgumentError,
        r"= 5 for axis 0 is not in \[0, 3\)",
    ),
    (
        lambda: tf.math.unsorted_segment_sum([1.0, 2.0], [0, 3], 3),
        tf.errors.InvalidArgumentError,
        "not in",
    ),
    (lambda: tf.math.top_k([1, 2], 3), tf.errors.InvalidArgumentError, "at least k"),
    (
        lambda: tf.linalg.inv([[1.0, 1.0], [1.0, 1.0]]),
        tf.errors.InvalidArgumentError,
        "not invertible",
    ),
    (
        lambda: tf.linalg.cholesky([[-1.0]]),
        tf.errors.InvalidArgumentError,
        "Cholesky decomposition was not successful",
    ),
    (lambda: tf.linalg.det(tf.zeros((2, 3))), tf.errors.InvalidArgumentError, "square"),
    (lambda: tf.einsum("ij,jk", [[1.0]]), ValueError, "does not describe"),
    (lambda: tf.einsum("ij->ji", [1.0]), ValueError, "names 2"),
    (lambda: tf.tensordot([1.0], [1.0, 2.0], 1), ValueError, "do not meet"),
    (lambda: tf.reduce_sum([1], axis=1), ValueError, "out of bounds"),
    (lambda: tf.sin([1]), TypeError, "floating-point"),
    (lambda: tf.bitwise.invert([1.0]), TypeError, "integer"),
    (lambda: tf.where([True], [1.0]), ValueError, "both be non-None"),
    (lambda: tf.ensure_shape([1, 2], (3,)), ValueError, "not compatible"),
    (lambda: tf.random.normal((2,), dtype=tf.int32), TypeError, "floating-point"),
    (lambda: tf.image.resize(tf.ones((2, 2)), (1, 1)), ValueError, "3 or 4"),
    (lambda: tf.add_n([]), ValueError, "at least one"),
    (lambda: tf.convert_to_tensor(tf.zeros(1), tf.int32), TypeError, "tf.cast"),
)  # fmt: skip


@pytest.mark.parametrize(("call", "kind", "text"), ERRORS, ids=lambda v: str(v)[:20])
def test_errors_name_the_rule(call: Any, kind: type[BaseException], text: str) -> None:
    with pytest.raises(kind, match=text):
        call()


# --- symbolic Keras values ------------------------------------------------------------


def test_functions_on_layer_outputs_become_layers() -> None:
    inputs = keras.Input((4, 3))
    mean = tf.reduce_mean(inputs, axis=1)
    both = tf.concat([mean, tf.math.square(mean)], axis=-1)
    parts = tf.split(both, 2, axis=1)
    picked = tf.where(parts[0] > 0.0, parts[1], tf.zeros_like(parts[1]))
    output = keras.layers.Dense(2)(tf.nn.gelu(picked, approximate=True))
    assert mean.shape == (None, 3) and both.shape == (None, 6)
    model = keras.Model(inputs, output)
    assert any("reduce_mean" in layer.name for layer in model.layers)
    x = np.random.default_rng(0).normal(size=(5, 4, 3)).astype(np.float32)
    m = x.mean(axis=1)
    inner = np.where(m > 0, m * m, 0)
    inner = (
        0.5 * inner * (1 + np.tanh(np.sqrt(2 / np.pi) * (inner + 0.044715 * inner**3)))
    )
    kernel, bias = (np.asarray(w) for w in model.get_weights())
    np.testing.assert_allclose(model.predict(x), inner @ kernel + bias, atol=1e-5)


def test_keyword_arguments_and_einsum_are_taken_over() -> None:
    a, b = keras.Input((3, 4)), keras.Input((4, 2))
    product = tf.einsum("bij,bjk->bik", a, b)
    flat = tf.reshape(tensor=product, shape=(tf.shape(product)[0], -1))
    assert product.shape == (None, 3, 2) and flat.shape == (None, 6)
    model = keras.Model([a, b], tf.clip_by_value(flat, -1.0, 1.0))
    x, y = np.ones((2, 3, 4), np.float32), np.full((2, 4, 2), 0.125, np.float32)
    np.testing.assert_allclose(model.predict([x, y]), np.full((2, 6), 0.5))


def test_models_with_such_layers_train() -> None:
    inputs = keras.Input((6,))
    hidden = keras.layers.Dense(8)(inputs)
    hidden = hidden * tf.sigmoid(hidden) + tf.math.log1p(tf.abs(hidden))
    model = keras.Model(inputs, keras.layers.Dense(1)(hidden))
    model.compile("sgd", "mse", steps_per_execution=2)
    rng = np.random.default_rng(1)
    x = rng.normal(size=(64, 6)).astype(np.float32)
    history = model.fit(x, x.sum(axis=1, keepdims=True), batch_size=8, epochs=4)
    losses = history.history["loss"]
    assert losses[-1] < losses[0]


# --- data sets, fusing, gradients -----------------------------------------------------


def test_map_functions_use_wide_types() -> None:
    data = tf.data.Dataset.from_tensor_slices(np.arange(12).reshape(6, 2))

    def body(x: Any) -> Any:
        wide = tf.cast(x, tf.float64)
        return (
            tf.math.cumsum(x),
            tf.sin(wide),
            tf.argmax(x, output_type=tf.int64),
            tf.sort(x, direction="DESCENDING"),
            tf.where(x > 4, x, -x),
        )

    rows = list(data.map(body))
    assert [t.dtype.name for t in rows[0]] == [
        "int64", "float64", "int64", "int64", "int64"
    ]  # fmt: skip
    np.testing.assert_allclose(rows[3][1], np.sin([6.0, 7.0]))
    assert rows[1][4].numpy().tolist() == [-2, -3]


def test_images_are_augmented_in_a_data_set() -> None:
    images = np.random.default_rng(0).integers(0, 256, (4, 6, 6, 3)).astype(np.uint8)

    def body(image: Any) -> Any:
        x = tf.image.convert_image_dtype(image, tf.float32)
        x = tf.image.random_flip_left_right(x)
        x = tf.image.random_crop(x, (4, 4, 3))
        return tf.image.per_image_standardization(tf.image.resize(x, (5, 5)))

    rows = [t.numpy() for t in tf.data.Dataset.from_tensor_slices(images).map(body)]
    assert all(r.shape == (5, 5, 3) and abs(r.mean()) < 1e-5 for r in rows)


@pytest.mark.parametrize(
    "call",
    [
        tf.nn.gelu,
        lambda x: tf.nn.gelu(x, approximate=True),
        tf.nn.elu,
        tf.nn.selu,
        tf.nn.leaky_relu,
        tf.nn.swish,
        tf.nn.softsign,
        tf.nn.relu6,
        lambda x: tf.math.squared_difference(x, 1.0),
        lambda x: tf.clip_by_value(x, -1.0, 1.0),
    ],
)
def test_activations_are_one_kernel(call: Any) -> None:
    x = np.linspace(-3, 3, 4000, dtype=np.float32)
    traced, found = trace(call, x)
    kernels = [k for k in traced.program.text.splitlines() if " kernel " in k]
    assert len(kernels) == 1
    assert "fused_elementwise" in kernels[0] or "gelu.elementwise" in kernels[0]
    np.testing.assert_array_equal(found, call(tf.constant(x)))


def test_gradients_stay_finite_where_functions_overflow() -> None:
    x = np.float32([-1000.0, -50.0, 0.0, 50.0, 1000.0])

    def body(t: Any) -> Any:
        parts = [tf.nn.elu(t), tf.nn.selu(t), tf.math.softplus(t), tf.nn.gelu(t)]
        parts += [tf.math.log_sigmoid(t), tf.nn.silu(t), tf.nn.softsign(t)]
        parts += [tf.nn.sigmoid_cross_entropy_with_logits(labels=t * 0.0, logits=t)]
        parts += [tf.reduce_logsumexp(t)]
        return [tf.gradients(p, [t])[0] for p in parts]

    _, found = trace(body, x)
    for slope in found:
        assert np.isfinite(slope).all()


def test_a_norm_of_zeros_has_a_gradient() -> None:
    _, found = trace(
        lambda t: tf.gradients(tf.clip_by_norm(t, 1.0), [t])[0], np.zeros(3, np.float32)
    )
    np.testing.assert_array_equal(found, np.ones(3))


def test_a_spec_without_a_rank_describes_any_tensor() -> None:
    spec = tf.TensorSpec(shape=None, dtype=tf.float32)
    assert spec.shape is None and "shape=None" in repr(spec)
    assert spec.is_compatible_with(tf.zeros((2, 3)))
    assert not spec.is_compatible_with(tf.zeros((2,), tf.int32))
    assert spec == tf.TensorSpec(None) and spec != tf.TensorSpec(())

    @tf.function(input_signature=[spec])
    def total(x: Any) -> Any:
        return tf.reduce_sum(x)

    assert float(total(tf.ones((2, 3)))) == 6.0 and float(total(tf.ones(4))) == 4.0


def test_arrays_take_the_dtype_of_the_tensor_beside_them() -> None:
    a, i, t = tf.constant([1.0]), tf.constant([1]), tf.constant([True])
    doubles, longs = np.array([2.0]), np.array([2])
    floats = (
        a + doubles,
        doubles + a,
        a * np.int64(3),
        np.float64(3) * a,
        doubles[0] - a,
        longs / a,
        tf.add(a, doubles),
        tf.maximum(doubles, a),
        tf.matmul(tf.ones((1, 1)), np.ones((1, 1))),
        tf.concat([a, doubles], 0),
        tf.where(t, a, doubles),
        a - doubles.mean(),
    )
    assert [r.dtype.name for r in floats] == ["float32"] * len(floats)
    assert (i + longs).dtype == (longs - i).dtype == (i * np.int64(2)).dtype == tf.int32
    assert (tf.constant(doubles) + a.numpy()).dtype == tf.float64
    for call in (lambda: i + doubles, lambda: doubles + i, lambda: i + a):
        with pytest.raises(TypeError, match=r"tf\.cast"):
            call()
    # NumPy's own functions still take tensors
    assert isinstance(np.sin(a), np.ndarray) and np.add(doubles, a).dtype == np.float64


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int32", "int64"])
def test_a_mean_of_integers_does_not_overflow(dtype: str) -> None:
    most = int(np.iinfo(dtype).max) // (4 if dtype == "int64" else 1)
    values = np.array([[most, most - 4], [5, 6]], dtype)
    result = tf.reduce_mean(values, axis=1)
    assert result.dtype.name == dtype
    assert result.numpy().tolist() == [most - 2, 5]


def test_uniform_float64_has_all_its_bits() -> None:
    key = [3, 4]
    draws: list[Callable[..., Any]] = [
        lambda: tf.random.uniform([4096], dtype=tf.float64, seed=1),
        lambda: tf.random.stateless_uniform([4096], key, dtype=tf.float64),
    ]
    for draw in draws:
        numbers = np.asarray(draw().numpy())
        places = numbers * 2.0**53
        assert numbers.min() >= 0.0
        assert numbers.max() < 1.0
        assert np.array_equal(places, np.floor(places))
        for bit in range(53):  # each is set in about half of the numbers
            share = np.mean(places.astype(np.int64) >> bit & 1)
            assert 0.45 < share < 0.55, f"bit {bit}"
