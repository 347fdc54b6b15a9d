# SPDX-License-Identifier: MIT
"""Gradients by eager tapes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Case = Callable[[Any], Any]
VECTOR = np.array([0.5, -1.25, 2.0, 3.0], np.float32)

# The gradient of each by x, or an error; x is VECTOR unless the line says otherwise.
GRADIENTS = """
tf.reduce_sum(x * x)
x * x
tf.reduce_sum(tf.sqrt(tf.abs(x)))
tf.reduce_sum(tf.where(x > 0, tf.sqrt(x), 0.0))
tf.reduce_sum(tf.where(x > 0, tf.math.log(x), 0.0))
tf.sqrt(x - x)
tf.math.rsqrt(x - x + 1.0)
tf.reduce_sum(tf.where(x > 9.0, tf.math.reciprocal(x - x), 0.0))
tf.norm(x)
tf.norm(x - x)
tf.math.reduce_std(x)
tf.math.reduce_std(x - x)
tf.math.reduce_variance(x)
tf.math.reduce_euclidean_norm(x)
tf.reduce_prod(x)
tf.reduce_prod(x * [1.0, 0.0, 1.0, 1.0])
tf.math.cumprod(x)
tf.cumsum(x, reverse=True)
tf.reduce_max(x)
tf.reduce_max(tf.stack([x[0], x[0], x[1]]))
tf.reduce_min(x)
tf.maximum(x, 0.5)
tf.maximum(x, x)
tf.minimum(x, [0.5, 0.0, 5.0, 5.0])
tf.abs(x - 0.5)
tf.sign(x)
tf.floor(x)
tf.round(x)
tf.math.ceil(x)
tf.nn.relu(x - 0.5)
tf.nn.relu6(x * 3.0)
tf.nn.selu(x - 0.5)
tf.nn.elu(x)
tf.nn.gelu(x)
tf.nn.leaky_relu(x - 0.5)
tf.nn.softmax(x)
tf.nn.log_softmax(x)[1]
tf.nn.l2_normalize(x)
tf.pow(x, 3.0)
tf.pow(tf.abs(x), x)
tf.pow(x - x, 2.0)
tf.pow(x, 0.0)
x ** 2
2.0 ** x
tf.math.floormod(x, 0.7)
tf.atan2(x, 2.0)
tf.clip_by_value(x, -1.0, 1.0)
tf.clip_by_norm(x, 1.0)
tf.gather(x, [0, 0, 2])
tf.gather(x, tf.constant([1]))
x[1:3]
x[::-1]
x[tf.newaxis] * tf.ones([3, 1])
tf.concat([x, x * 2.0], 0)
tf.stack([x, x])
tf.unstack(x)[1]
tf.split(x, 2)[1]
tf.tile(x, [3])
tf.pad(x, [[1, 2]], "SYMMETRIC")
tf.reverse(x, [0])
tf.roll(x, 1, 0)
tf.sort(x)
tf.math.top_k(x, 2)[0]
tf.boolean_mask(x, x > 0)
tf.scatter_nd([[0], [0], [1], [2]], x, [3])
tf.tensor_scatter_nd_update(x, [[1]], [5.0])
tf.tensor_scatter_nd_add(x, [[1]], x[:1])
tf.math.unsorted_segment_sum(x, [0, 1, 0, 1], 2)
tf.math.unsorted_segment_max(x, [0, 1, 0, 1], 2)
tf.linalg.diag(x)
tf.tensordot(x, x, 1)
tf.einsum("i,j->ij", x, x)
tf.reshape(x, [2, 2]) @ tf.reshape(x, [2, 2])
tf.linalg.inv(tf.reshape(x, [2, 2]))
tf.linalg.det(tf.reshape(x, [2, 2]))
tf.linalg.logdet(tf.linalg.diag(tf.abs(x)))
tf.broadcast_to(x, [3, 4])
tf.cast(x, tf.float64)
tf.cast(tf.cast(x, tf.int32), tf.float32)
tf.stop_gradient(x) * x
tf.identity(x)
tf.reduce_logsumexp(x)
tf.reduce_mean(x)
tf.argmax(x)
tf.constant(3.0)
tf.nn.sigmoid_cross_entropy_with_logits(tf.ones([4]), x)
tf.nn.softmax_cross_entropy_with_logits([0.0, 0.0, 1.0, 0.0], x)
tf.nn.sparse_softmax_cross_entropy_with_logits(2, x)
tf.math.divide_no_nan(x, x - x)
tf.math.xlogy(x - x, x * x)
tf.math.erf(x)
tf.math.lgamma(tf.abs(x))
tf.math.softplus(x)
tf.math.squared_difference(x, 1.0)
tf.while_loop(lambda k, y: k < 3, lambda k, y: (k + 1, y * x), [0, x])[1]
tf.scan(lambda a, b: a * b, x)
tf.map_fn(lambda v: v * v, x)
tf.cond(x[0] > 0, lambda: x * 2.0, lambda: x)
tf.recompute_grad(lambda v: tf.sin(v) * v)(x)
tf.keras.losses.MeanSquaredError()(x, x * x)
tf.keras.losses.Huber()(x, x - x)
tf.keras.losses.CosineSimilarity()(x, x * x)
tf.keras.losses.MeanAbsoluteError()(x, tf.zeros([4]))
"""


def tapes() -> dict[str, Case]:
    found: dict[str, Case] = dict(_taped)
    for line in GRADIENTS.strip().splitlines():

        def gradient(tf: Any, line: str = line) -> Any:
            x = tf.constant(VECTOR)
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = eval(line, {"tf": tf, "x": x, "np": np})
            return tape.gradient(y, x)

        found[f"tape: {line}"] = gradient
    return found


_taped: dict[str, Case] = {}


def taped(function: Case) -> Case:
    _taped[f"tape: {function.__name__}"] = function
    return function


@taped
def variables_are_watched(tf):
    v, w = tf.Variable(2.0), tf.Variable(3.0, trainable=False)
    with tf.GradientTape() as tape:
        y = v * v * w
    return tape.gradient(y, [v, w]), len(tape.watched_variables())


@taped
def twice_without_persistent(tf):
    v = tf.Variable(2.0)
    with tf.GradientTape() as tape:
        y = v * v
    tape.gradient(y, v)
    return tape.gradient(y, v)


@taped
def persistent(tf):
    v = tf.Variable(2.0)
    with tf.GradientTape(persistent=True) as tape:
        y = v * v
        z = y * y
    return tape.gradient(y, v), tape.gradient(z, v), tape.gradient(z, y)


@taped
def second_order(tf):
    x = tf.constant([1.0, 2.0])
    with tf.GradientTape() as outer:
        outer.watch(x)
        with tf.GradientTape() as inner:
            inner.watch(x)
            y = tf.reduce_sum(x**3)
        g = inner.gradient(y, x)
    return g, outer.gradient(g, x)


@taped
def output_gradients(tf):
    x = tf.constant([1.0, 2.0])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = x * x
    return tape.gradient(y, x, output_gradients=[3.0, -1.0])


@taped
def several_targets(tf):
    x = tf.constant(2.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        ys = [x * x, x * 3.0]
    return tape.gradient(ys, x)


@taped
def structure_of_sources(tf):
    x, y = tf.constant(2.0), tf.constant(3.0)
    with tf.GradientTape() as tape:
        tape.watch([x, y])
        z = x * y
    return tape.gradient(z, {"a": x, "b": [y]})


@taped
def unconnected(tf):
    x, y = tf.constant(2.0), tf.constant([3.0, 1.0])
    with tf.GradientTape(persistent=True) as tape:
        tape.watch([x, y])
        z = x * 2.0
    zero = tf.UnconnectedGradients.ZERO
    return tape.gradient(z, y), tape.gradient(z, y, unconnected_gradients=zero)


@taped
def stop_recording(tf):
    x = tf.constant(2.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = x * x
        with tape.stop_recording():
            z = y * x
        w = z * x
    return tape.gradient(w, x)


@taped
def reset(tf):
    x = tf.constant(2.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = x * x
        tape.reset()
        tape.watch(x)
        z = x * 3.0
    return tape.gradient(z, x), y


@taped
def jacobian(tf):
    x = tf.constant([1.0, 2.0, 3.0])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.stack([x[0] * x[1], x[2] ** 2])
    return tape.jacobian(y, x)


@taped
def batch_jacobian(tf):
    x = tf.constant([[1.0, 2.0], [3.0, 4.0]])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = x * x
    return tape.batch_jacobian(y, x)


@taped
def through_a_function(tf):
    v = tf.Variable([1.0, 2.0])
    f = tf.function(lambda x: tf.reduce_sum(v * x * x))
    x = tf.constant([3.0, 4.0])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = f(x)
    return y, tape.gradient(y, [x, v])


@taped
def custom_gradient(tf):
    @tf.custom_gradient
    def clipped(x):
        return x * x, lambda dy: tf.clip_by_value(dy * 2.0 * x, -1.0, 1.0)

    x = tf.constant([0.1, 5.0])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = clipped(x)
    return tape.gradient(y, x)


@taped
def assignment_in_a_tape(tf):
    v = tf.Variable(2.0)
    with tf.GradientTape() as tape:
        a = v * v
        v.assign(5.0)
        b = v * 3.0
        y = a + b
    return tape.gradient(y, v)


@taped
def not_watched(tf):
    x = tf.constant(2.0)
    with tf.GradientTape() as tape:
        y = x * x
    return tape.gradient(y, x)


@taped
def integer_source(tf):
    x = tf.constant(2)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = x * x
    return tape.gradient(y, x)


@taped
def tf_gradients_outside(tf):
    x = tf.constant(2.0)
    return tf.gradients(x * x, [x])


@taped
def tf_gradients_inside(tf):
    @tf.function
    def f(x):
        return tf.gradients(x * x * x, [x])

    return f(tf.constant(2.0))


@taped
def embedding_gradient(tf):
    table = tf.Variable(np.arange(8, dtype=np.float32).reshape(4, 2))
    with tf.GradientTape() as tape:
        y = tf.reduce_sum(tf.nn.embedding_lookup(table, [1, 3, 1]) ** 2)
    return tf.convert_to_tensor(tape.gradient(y, table))
