# SPDX-License-Identifier: MIT
"""``keras.backend``: NumPy is the oracle; what layers compute is tested with them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ipu
from ipu import keras, tf

K = keras.backend
RNG = np.random.default_rng(0)
X = RNG.normal(size=(2, 5, 4)).astype("float32")
IMAGE = RNG.normal(size=(2, 6, 6, 3)).astype("float32")
PAIR = RNG.normal(size=(2, 3, 4)).astype("float32")


def check(found: Any, expected: Any) -> None:
    expected = np.asarray(expected)
    assert tuple(found.shape) == expected.shape
    np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("axis", [None, 1, (0, 2)])
@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("name", ["sum", "mean", "max", "min", "prod", "std", "var"])
def test_reductions(name: str, axis: Any, keepdims: bool) -> None:
    expected = getattr(np, name)(X, axis=axis, keepdims=keepdims)
    given = list(axis) if isinstance(axis, tuple) else axis
    check(getattr(K, name)(tf.constant(X), given, keepdims), expected)


@pytest.mark.parametrize("name", ["any", "all"])
def test_reductions_of_truth(name: str) -> None:
    x = np.array([[0.0, 2.0], [1.0, -1.0], [0.0, 0.0]], "float32")
    check(getattr(K, name)(tf.constant(x), axis=1), getattr(np, name)(x != 0, axis=1))


@pytest.mark.parametrize("name", ["cumsum", "cumprod"])
def test_scans_go_along_the_first_axis(name: str) -> None:
    check(getattr(K, name)(tf.constant(X)), getattr(np, name)(X, axis=0))


BATCH_DOTS: list[tuple[tuple[int, ...], tuple[int, ...], Any, str]] = [
    ((2, 5, 4), (2, 4, 3), None, "bij,bjk->bik"),
    ((2, 5, 4), (2, 3, 5), (1, 2), "bji,bkj->bik"),
    ((3, 5, 4), (3, 4), None, "bij,bj->bi"),
    ((3, 4), (3, 2, 4, 5), None, "bj,bijk->bik"),
    ((2, 4, 4), (2, 4, 4), 1, "bji,bjk->bik"),
]


@pytest.mark.parametrize(("x", "y", "axes", "formula"), BATCH_DOTS)
def test_batch_dot(x: Any, y: Any, axes: Any, formula: str) -> None:
    left, right = (RNG.normal(size=s).astype("float32") for s in (x, y))
    found = K.batch_dot(tf.constant(left), tf.constant(right), axes)
    check(found, np.einsum(formula, left, right))


def test_batch_dot_of_rows_keeps_an_axis() -> None:
    rows, columns = PAIR
    found = K.batch_dot(tf.constant(rows), tf.constant(columns))
    check(found, (rows * columns).sum(axis=1, keepdims=True))


def test_batch_dot_says_what_does_not_fit() -> None:
    x = tf.constant(X)
    with pytest.raises(ValueError, match="their sizes must be equal"):
        K.batch_dot(x, x)
    with pytest.raises(ValueError, match="cannot sum over the batch"):
        K.batch_dot(x, x, axes=0)
    with pytest.raises(ValueError, match="at least one other axis"):
        K.batch_dot(x, tf.ones(3))


def test_element_wise() -> None:
    x = tf.constant(X)
    check(K.clip(x, -0.3, None), np.maximum(X, -0.3))
    check(K.clip(x, 1.0, 0.5), np.full_like(X, 1.0))  # the lower limit wins
    check(K.sqrt(x), np.sqrt(np.maximum(X, 0)))
    cut = np.minimum(np.where(X >= 0.2, X, 0.1 * (X - 0.2)), 0.5)
    check(K.relu(x, 0.1, 0.5, 0.2), cut)
    check(K.l2_normalize(x, -1), X / np.linalg.norm(X, axis=-1, keepdims=True))
    check(K.pow(x, 2), X**2)
    assert K.in_top_k(PAIR[0], tf.constant([0, 1, 2]), 4).numpy().all()


def test_shapes() -> None:
    x = tf.constant(X)
    check(K.repeat(X[0], 3), np.repeat(X[0][:, None], 3, axis=1))
    check(K.repeat_elements(x, 2, 1), np.repeat(X, 2, axis=1))
    check(K.tile(x, (1, 2, 3)), np.tile(X, (1, 2, 3)))
    check(K.reverse(x, [0, 2]), X[::-1, :, ::-1])
    check(K.permute_dimensions(x, (2, 0, 1)), X.transpose(2, 0, 1))
    check(K.batch_flatten(x), X.reshape(2, -1))
    check(K.temporal_padding(x, (1, 2)), np.pad(X, ((0, 0), (1, 2), (0, 0))))
    first = np.pad(IMAGE, ((0, 0), (0, 0), (1, 2), (0, 1)))
    check(K.spatial_2d_padding(IMAGE, ((1, 2), (0, 1)), "channels_first"), first)
    larger = IMAGE.repeat(2, axis=1).repeat(3, axis=2)
    check(K.resize_images(tf.constant(IMAGE), 2, 3, "channels_last"), larger)
    with pytest.raises(ValueError, match="Unknown data_format: first"):
        K.resize_images(tf.constant(IMAGE), 2, 3, "first")


def test_switch() -> None:
    x = tf.constant(X)
    check(K.switch(tf.constant([True, False]), x, -x), X * [[[1]], [[-1]]])
    check(K.switch(tf.constant(False), lambda: x, lambda: -x), -X)


def test_convolutions_by_channel_order() -> None:
    kernel = RNG.normal(size=(3, 3, 3, 4)).astype("float32")
    last = K.conv2d(IMAGE, kernel, (2, 2), "same", "channels_last")
    first = K.conv2d(
        IMAGE.transpose(0, 3, 1, 2), kernel, (2, 2), "same", "channels_first"
    )
    check(first, last.numpy().transpose(0, 3, 1, 2))
    pooled = K.pool2d(IMAGE, (2, 2), (2, 2), pool_mode="avg")
    check(pooled, IMAGE.reshape(2, 3, 2, 3, 2, 3).mean(axis=(2, 4)))


def test_a_causal_convolution_looks_back() -> None:
    x = np.zeros((1, 6, 1), "float32")
    x[0, 2] = 1
    found = K.conv1d(x, np.ones((2, 1, 1), "float32"), 1, "causal", None, 2)
    check(found[0, :, 0], [0, 0, 1, 0, 1, 0])


def test_bias_of_channels_and_of_samples() -> None:
    bias = np.arange(3, dtype="float32")
    check(K.bias_add(tf.constant(IMAGE), tf.constant(bias)), IMAGE + bias)
    whole = RNG.normal(size=(6, 6, 3)).astype("float32")
    check(K.bias_add(tf.constant(IMAGE), tf.constant(whole)), IMAGE + whole)
    with pytest.raises(ValueError, match="a bias of 1 or 3 axes"):
        K.bias_add(tf.constant(IMAGE), tf.ones((3, 3)))


def test_normalization_in_training() -> None:
    scale, offset = np.float32([1, 2, 3]), np.float32([0, 1, 2])
    made, mean, var = K.normalize_batch_in_training(
        tf.constant(IMAGE), tf.constant(scale), tf.constant(offset), [0, 1, 2]
    )
    check(mean, IMAGE.mean(axis=(0, 1, 2)))
    check(var, IMAGE.var(axis=(0, 1, 2)))
    check(made, (IMAGE - mean) / np.sqrt(var.numpy() + 1e-3) * scale + offset)


def test_losses_of_elements() -> None:
    logits = tf.constant(PAIR[0])
    target = (PAIR[1] > 0).astype("float32")
    output = 1 / (1 + np.exp(-PAIR[0]))
    expected = -(target * np.log(output) + (1 - target) * np.log(1 - output))
    check(K.binary_crossentropy(target, logits, True), expected)
    check(K.binary_crossentropy(target, tf.nn.sigmoid(logits)), expected)


def test_variables() -> None:
    v = K.variable([1.0, 2.0])
    K.moving_average_update(v, tf.constant([3.0, 4.0]), 0.9)
    check(v, [1.2, 2.2])
    K.update_add(v, tf.constant([1.0, 1.0]))
    K.batch_set_value([(v, [5.0, 6.0])])
    assert K.batch_get_value([v])[0].tolist() == [5.0, 6.0]
    assert isinstance(K.zeros((2, 3)), tf.Variable) and K.count_params(K.eye(3)) == 9
    assert K.dtype(v) == "float32" and K.is_sparse(v) is False


def test_in_a_function_zeros_are_a_tensor(one_ipu: Any) -> None:
    @tf.function(jit_compile=True)
    def run() -> Any:
        return K.zeros((2,)) + K.random_normal((2,), seed=1)

    with ipu.ipu_strategy.IPUStrategy().scope() as strategy:
        assert strategy.run(run).shape == (2,)


def test_random_numbers() -> None:
    assert set(np.unique(K.random_bernoulli((100,), 0.5, seed=1))) == {0.0, 1.0}
    uniform = K.random_uniform((1000,), 2.0, 3.0, seed=1).numpy()
    assert uniform.min() >= 2 and uniform.max() < 3
    normal = K.random_normal_variable((2000,), 1.0, 0.5, seed=1).numpy()
    assert abs(normal.mean() - 1) < 0.05 and abs(normal.std() - 0.5) < 0.05


def test_a_functional_model_of_backend_functions() -> None:
    x = keras.Input((4,))
    model = keras.Model(x, K.sum(K.relu(x), axis=1) * K.std(x, axis=1))
    values = PAIR[0]
    expected = np.maximum(values, 0).sum(axis=1) * values.std(axis=1)
    check(model(values), expected)
    check(K.function([x], [model.output])([values])[0], expected)


def test_names_are_numbered() -> None:
    K.reset_uids()
    assert [K.get_uid("stem"), K.get_uid("stem")] == [1, 2]
    assert keras.layers.Dense(1).name == "dense"


def test_phases() -> None:
    assert K.in_test_phase(1, 2) == 1 and K.in_train_phase(1, 2) == 2
    with K.learning_phase_scope(0):
        pass
    with (
        pytest.raises(ValueError, match="no global learning phase"),
        K.learning_phase_scope(1),
    ):
        pass


def test_a_placeholder_is_an_input() -> None:
    x = K.placeholder((None, 4))
    assert K.is_keras_tensor(x) and K.int_shape(x) == (None, 4)
    assert K.int_shape(K.placeholder(ndim=2)) == (None, None)
    with pytest.raises(ValueError, match="Received neither"):
        K.placeholder()


def test_labels_of_series_and_their_cost() -> None:
    chances = np.exp(X) / np.exp(X).sum(-1, keepdims=True)
    labels, lengths = [[1, 2], [0, 0]], [[2], [1]]
    costs = K.ctc_batch_cost(labels, chances, [[5], [4]], lengths)
    data = np.log(chances + 1e-7).transpose(1, 0, 2)
    expected = tf.nn.ctc_loss(labels, data, [2, 1], [5, 4], blank_index=3)
    check(costs, np.asarray(expected)[:, None])
    for options in ({}, {"greedy": False, "beam_width": 20, "top_paths": 2}):
        found, scores = K.ctc_decode(chances, [5, 4], **options)
        assert len(found) == options.get("top_paths", 1) == scores.shape[1]
        for one in found:
            assert one.shape == (2, 5) and int(tf.reduce_min(one)) == -1
    inputs = keras.Input((5, 4), batch_size=2)
    made = K.ctc_batch_cost([[1, 2]] * 2, inputs, [[5]] * 2, [[2]] * 2)
    assert made.shape[1] == 1


@pytest.mark.parametrize("has_mask", [False, True])
@pytest.mark.parametrize("time_major", [False, True])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"unroll": True},
        {"go_backwards": True},
        {"zero_output_for_mask": True},
        {"return_all_outputs": False},
    ],
    ids=lambda options: "-".join(options),
)
def test_a_function_on_all_steps(
    options: dict[str, bool], time_major: bool, has_mask: bool
) -> None:
    scale = np.float32(0.5)
    first = RNG.normal(size=(2, 4)).astype("float32")
    mask = np.array([[1, 1, 0, 1, 0], [0, 1, 1, 0, 1]], bool)

    def step(inputs: Any, states: Any) -> tuple[Any, Any]:
        state, count, factor = states
        new = inputs["x"] * factor - state
        return (new, count), [new * 2, count + 1]

    order = range(5)[::-1] if options.get("go_backwards") else range(5)
    state, count = first.copy(), np.zeros((2, 1), np.float32)
    output = [np.zeros((2, 4), np.float32), count]
    rows = []
    for k in order:
        live = mask[:, k, None] if has_mask else np.ones((2, 1), bool)
        old = output if not options.get("zero_output_for_mask") else [0.0, 0.0]
        new = X[:, k] * scale - state
        output = [np.where(live, new, old[0]), np.where(live, count, old[1])]
        state, count = np.where(live, new * 2, state), np.where(live, count + 1, count)
        rows.append(output)
    if not options.get("return_all_outputs", True):
        rows = rows[-1:]

    def laid(x: Any) -> Any:
        return np.moveaxis(x, 0, 1) if time_major else x

    def run() -> Any:
        return K.rnn(
            step,
            {"x": tf.constant(laid(X))},
            [tf.constant(first), tf.zeros((2, 1))],
            mask=tf.constant(laid(mask)) if has_mask else None,
            constants=[tf.constant(scale)],
            time_major=time_major,
            **options,
        )

    for found in (run(), tf.function(run)()):
        last, outputs, states = found
        for k in range(2):
            check(last[k], output[k])
            check(outputs[k], laid(np.stack([row[k] for row in rows], 1)))
            check(states[k], (state, count)[k])


def test_gradients_of_all_steps() -> None:
    def run(x: Any, unroll: bool) -> Any:
        def add(row: Any, states: Any) -> tuple[Any, Any]:
            return row * states[0], [states[0] + tf.sin(row)]

        with tf.GradientTape() as tape:
            tape.watch(x)
            _, outputs, _ = K.rnn(add, x, [tf.ones((2, 4))], unroll=unroll)
            loss = K.sum(outputs * outputs)
        return tape.gradient(loss, x)

    x = tf.constant(X)
    check(run(x, False), run(x, True))


@pytest.mark.parametrize(
    ("shapes", "mask", "message"),
    [
        ([(3,)], None, r"inputs of shape \(batch, steps, ...\)"),
        ([(3, 0, 2)], None, "one or more steps"),
        ([(3, 2), (3, 4)], None, r"Received shapes: \[\(3, 2\), \(3, 4\)\]"),
        ([(3, 2)], (3, 3), r"two first axes.*\(3, 2\). Received: .*\(3, 3\)"),
    ],
)
def test_steps_that_there_are_not(shapes: Any, mask: Any, message: str) -> None:
    inputs = [tf.zeros(shape) for shape in shapes]
    with pytest.raises(ValueError, match=message):
        K.rnn(
            lambda x, states: (x, states),
            inputs,
            [],
            mask=None if mask is None else tf.ones(mask),
        )


@pytest.mark.parametrize("data_format", ["channels_last", "channels_first"])
def test_windows_with_filters_of_their_own(data_format: str) -> None:
    for rank, function in ((1, K.local_conv1d), (2, K.local_conv2d)):
        x = X if rank == 1 else IMAGE
        size, steps = (3, 2)[:rank], (2, 1)[:rank]
        pairs = zip(x.shape[1:-1], size, steps, strict=True)
        places = [(n - k) // s + 1 for n, k, s in pairs]
        kernel = RNG.normal(size=(np.prod(places), np.prod(size) * x.shape[-1], 5))
        kernel = kernel.astype("float32")
        expected = np.zeros((2, *places, 5), np.float32)
        for number, place in enumerate(np.ndindex(*places)):
            window = tuple(
                slice(p * s, p * s + k)
                for p, k, s in zip(place, size, steps, strict=True)
            )
            part = x[(slice(None), *window)]
            if data_format == "channels_first":
                part = np.moveaxis(part, -1, 1)
            expected[(slice(None), *place)] = part.reshape(2, -1) @ kernel[number]
        if data_format == "channels_first":
            x, expected = np.moveaxis(x, -1, 1), np.moveaxis(expected, -1, 1)
        more = [] if rank == 1 else [tuple(places)]
        found = function(tf.constant(x), kernel, size, steps, *more, data_format)
        check(found, expected)
        with pytest.raises(ValueError, match="windows of"):
            function(tf.constant(x), kernel[1:], size, steps, *more, data_format)
