# SPDX-License-Identifier: MIT
"""Names of TensorFlow 1 that few programs use; NumPy has the formulas."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ipu.tf.compat import v1 as tf

pytestmark = pytest.mark.usefixtures("graph")

RNG = np.random.RandomState(5)


# --- metrics


def area(
    labels: Any, found: Any, weights: Any, count: int, curve: str, how: str
) -> Any:
    """The area under a curve by its definition, in float64."""
    inner = np.arange(1, count - 1) / (count - 1)
    edges = [-1e-7, *inner, 1 + 1e-7]
    points = []
    for edge in edges:
        above = found > edge
        tp, fp = (np.sum(weights * above * (labels == k)) for k in (1, 0))
        fn, tn = (np.sum(weights * ~above * (labels == k)) for k in (1, 0))
        recall = (tp + 1e-6) / (tp + fn + 1e-6)
        if curve == "ROC":
            points.append((fp / (fp + tn + 1e-6), recall))
        else:
            points.append((recall, (tp + 1e-6) / (tp + fp + 1e-6)))
    total = 0.0
    for (x0, y0), (x1, y1) in itertools.pairwise(points):
        ends = {"trapezoidal": (y0 + y1) / 2, "minoring": min(y0, y1)}
        total += (x0 - x1) * ends.get(how, max(y0, y1))
    return total


@pytest.mark.parametrize("curve", ["ROC", "PR"])
@pytest.mark.parametrize("how", ["trapezoidal", "minoring", "majoring"])
def test_areas(curve: str, how: str) -> None:
    labels = RNG.randint(0, 2, (3, 40))
    found = RNG.rand(3, 40).astype("f4") * 0.6 + 0.3 * labels
    weights = RNG.rand(3, 40).astype("f4")
    feeds = [tf.placeholder(tf.float32, [None]) for _ in range(3)]
    plain = tf.metrics.auc(*feeds[:2], curve=curve, summation_method=how)
    few = tf.metrics.auc(
        *feeds, num_thresholds=11, curve=curve, summation_method=how, name="few"
    )
    assert {v.name for v in tf.local_variables()} >= {"few/true_positives:0"}
    with tf.Session() as session:
        session.run(tf.local_variables_initializer())
        for batch in zip(labels, found, weights, strict=True):
            updated = session.run(
                [plain[1], few[1]], dict(zip(feeds, batch, strict=True))
            )
        values = session.run([plain[0], few[0]])
    assert values == updated
    ones = np.ones(120)
    rows = [x.ravel() for x in (labels, found)]
    expected = [
        area(*rows, ones, 200, curve, how),
        area(*rows, weights.ravel(), 11, curve, how),
    ]
    np.testing.assert_allclose(values, expected, rtol=1e-4)
    with pytest.raises(ValueError, match="curve must be one of"):
        tf.metrics.auc([1], [1.0], curve="roc")
    with pytest.raises(ValueError, match="at least 2"):
        tf.metrics.auc([1], [1.0], num_thresholds=1)


# --- optimizers

FIRST = np.array([1.0, -2.0, 0.05, 0.3])
SCALE = np.array([0.5, 1.0, -0.2, 0.1])


def nearer_zero(value: Any, by: Any) -> Any:
    return np.sign(value) * np.maximum(np.abs(value) - by, 0)


def proximal(w: Any, g: Any, rate: Any, l1: float, l2: float) -> Any:
    value = w - rate * g
    return nearer_zero(value, rate * l1) / (1 + rate * l2)


@pytest.mark.parametrize("l1, l2", [(0.0, 0.0), (0.3, 0.0), (0.0, 0.4), (0.3, 0.4)])
@pytest.mark.parametrize("kind", ["descent", "adagrad", "dual"])
def test_penalised_optimizers(kind: str, l1: float, l2: float) -> None:
    """Of the gradients ``scale * w * w`` three steps."""
    w = tf.get_variable("w", initializer=tf.constant(FIRST, tf.float32))
    step = tf.train.get_or_create_global_step()
    more = {"l1_regularization_strength": l1, "l2_regularization_strength": l2}
    made = {
        "descent": lambda: tf.train.ProximalGradientDescentOptimizer(0.1, **more),
        "adagrad": lambda: tf.train.ProximalAdagradOptimizer(0.1, 0.2, **more),
        "dual": lambda: tf.train.AdagradDAOptimizer(0.1, step, 0.2, **more),
    }[kind]()
    loss = tf.reduce_sum(SCALE.astype("f4") * w**3 / 3.0)
    train = made.minimize(loss, global_step=step)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for _ in range(3):
            session.run(train)
        found = session.run(w)
    expected, total, squares = FIRST, np.zeros(4), np.full(4, 0.2)
    for t in (1, 2, 3):
        g = SCALE * expected**2
        total, squares = total + g, squares + g * g
        if kind == "descent":
            expected = proximal(expected, g, 0.1, l1, l2)
        elif kind == "adagrad":
            expected = proximal(expected, g, 0.1 / np.sqrt(squares), l1, l2)
        else:
            above = -0.1 * nearer_zero(total, l1 * t)
            expected = above / (l2 * t * 0.1 + np.sqrt(squares))
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-7)
    with pytest.raises(ValueError, match="must be positive"):
        tf.train.ProximalAdagradOptimizer(0.1, 0.0)


# --- layers, images, variables


@pytest.mark.parametrize("layout", ["channels_last", "channels_first"])
def test_separable_convolution(layout: str) -> None:
    x = RNG.normal(size=(2, 6, 5, 3)).astype("f4")
    is_first = layout == "channels_first"
    given = x.transpose(0, 3, 1, 2) if is_first else x
    regularized = lambda kernel: tf.reduce_sum(kernel * kernel)  # noqa: E731
    y = tf.layers.separable_conv2d(
        tf.constant(given),
        4,
        (3, 2),
        data_format=layout,
        depth_multiplier=2,
        pointwise_regularizer=regularized,
        bias_initializer=tf.constant_initializer(0.5),
        activation=tf.nn.relu,
        name="part",
    )
    names = ["part/depthwise_kernel:0", "part/pointwise_kernel:0", "part/bias:0"]
    variables = tf.trainable_variables()
    assert [v.name for v in variables] == names
    (penalty,) = tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        found, depth, point, bias, loss = session.run([y, *variables, penalty])
    middle = np.zeros((2, 4, 4, 6))
    for row in range(4):
        for column in range(4):
            window = x[:, row : row + 3, column : column + 2]
            each = np.einsum("bhwc,hwcm->bcm", window, depth)
            middle[:, row, column] = each.reshape(2, 6)
    expected = np.maximum(middle @ point[0, 0] + bias, 0)
    found = found.transpose(0, 2, 3, 1) if is_first else found
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    assert loss == pytest.approx(np.sum(point**2), rel=1e-5)


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("layout", ["channels_last", "channels_first"])
def test_convolutions_and_pools(rank: int, layout: str) -> None:
    x = RNG.normal(size=(2, *[6] * rank, 3)).astype("f4")
    is_first = layout == "channels_first"
    given = tf.constant(np.moveaxis(x, -1, 1) if is_first else x)
    convolve = getattr(tf.layers, f"conv{rank}d")
    y = convolve(given, 4, 2, strides=[2] * rank, data_format=layout, name="part")
    most = getattr(tf.layers, f"max_pooling{rank}d")(given, 2, 2, data_format=layout)
    mean = getattr(tf.layers, f"average_pooling{rank}d")(
        given, [2] * rank, [2] * rank, data_format=layout
    )
    kernel, bias = tf.trainable_variables()
    assert [kernel.name, bias.name] == ["part/kernel:0", "part/bias:0"]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(bias.assign([1.0, 2.0, 3.0, 4.0]))
        found = session.run([y, most, mean])
        weights = session.run(kernel)
    # windows that do not overlap: [batch, windows..., elements of a window, channels]
    cut = x.reshape(2, *[3, 2] * rank, 3)
    order = [0, *range(1, 2 * rank, 2), *range(2, 2 * rank + 1, 2), 2 * rank + 1]
    windows = cut.transpose(order).reshape(2, *[3] * rank, 2**rank, 3)
    summed = np.einsum("...kc,kcf->...f", windows, weights.reshape(2**rank, 3, 4))
    expected = [summed + np.arange(1, 5), windows.max(-2), windows.mean(-2)]
    for one, other in zip(found, expected, strict=True):
        one = np.moveaxis(one, 1, -1) if is_first else one
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


def test_patches_by_their_older_names() -> None:
    x = np.arange(16.0, dtype="f4").reshape(1, 4, 4, 1)
    ones = [1, 1, 1, 1]
    found = [
        tf.extract_image_patches(x, [1, 2, 2, 1], [1, 2, 2, 1], ones, "VALID"),
        tf.image.extract_image_patches(
            x, ksizes=[1, 2, 2, 1], strides=[1, 2, 2, 1], rates=ones, padding="VALID"
        ),
    ]
    with tf.Session() as session:
        for one in session.run(found):
            np.testing.assert_array_equal(one[0, 1, 0], [8, 9, 12, 13])


def test_partitioners_leave_variables_whole() -> None:
    for partitioner in (
        tf.fixed_size_partitioner(4),
        tf.min_max_variable_partitioner(4),
        tf.variable_axis_size_partitioner(16),
    ):
        assert partitioner([8, 3], tf.float32) == [1, 1]
    with tf.variable_scope("s", partitioner=tf.fixed_size_partitioner(2)):
        v = tf.get_variable("v", [8, 3], partitioner=tf.fixed_size_partitioner(4))
    assert v.name == "s/v:0" and v.shape == (8, 3)


def test_the_seed_of_a_graph_by_its_module() -> None:
    drawn = []
    for _ in range(2):
        with tf.Graph().as_default():
            tf.random.set_random_seed(7)
            x = tf.random.normal([3])
            with tf.Session() as session:
                drawn.append(session.run(x))
    np.testing.assert_array_equal(*drawn)


def test_a_graph_as_text(tmp_path: Path) -> None:
    x = tf.placeholder(tf.float32, [2], name="x")
    tf.identity(x, name="y")
    graph = tf.get_default_graph()
    path = tf.train.write_graph(graph, tmp_path / "deep", "g.pbtxt")
    text = Path(path).read_text()
    assert 'node {\n  name: "x"\n  op: "Placeholder"\n}\n' in text
    assert 'name: "y"' in text and 'input: "x' in text
    again = tf.train.write_graph(graph.as_graph_def(), str(tmp_path), "h.pbtxt")
    assert Path(again).read_text() == text
    with pytest.raises(NotImplementedError, match="as_text=False"):
        tf.train.write_graph(graph, tmp_path, "g.pb", as_text=False)


# --- gradients through operations that run one by one


def test_gradients_end_where_they_are_told_to() -> None:
    x = tf.placeholder(tf.float32, [None])
    n = tf.placeholder(tf.int32, [])
    first = x[:n]  # a size that only the value of n tells
    middle = first * first
    y = tf.reduce_sum(middle * first)
    (held,) = tf.gradients(y, first, stop_gradients=[middle])
    both = tf.gradients(y, [first, middle], stop_gradients=[first, middle])
    with tf.Session() as session:
        feed = {x: [1.0, 2.0, 3.0, 9.0], n: 3}
        squares = np.array([1.0, 4.0, 9.0])
        np.testing.assert_allclose(session.run(held, feed), squares)
        slopes = session.run(both, feed)
        np.testing.assert_allclose(slopes[0], squares)
        np.testing.assert_allclose(slopes[1], [1.0, 2.0, 3.0])
        (whole,) = tf.gradients(y, first)
        np.testing.assert_allclose(session.run(whole, feed), 3 * squares)
        with pytest.raises(NotImplementedError, match="another one goes through it"):
            session.run([held, whole], feed)


def test_a_variable_keeps_its_shape() -> None:
    v = tf.get_variable("v", [2], initializer=tf.zeros_initializer())
    assert tf.assign(v, [1.0, 2.0], validate_shape=False).shape == (2,)
    with pytest.raises(ValueError, match="shape"):
        tf.assign(v, [1.0, 2.0, 3.0], validate_shape=False)
