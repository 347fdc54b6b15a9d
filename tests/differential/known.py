# SPDX-License-Identifier: MIT
"""Cases that differ: on purpose, by the rows of docs/differences.md, or not yet."""

from __future__ import annotations

# row of the table: its cases
ON_PURPOSE: dict[str, list[str]] = {
    "absent": [
        "binary: tf.math.betainc(p, p, 0.5)",
        "binary: tf.math.nextafter(d, 3.0)",
        "functions: scatter_updates",
        "data: D.range(5).scan(tf.constant(0, tf.int64), lambda s, x: (s + x, s + x))",
        "data: D.range(5).unique()",
        "data: D.range(4).random(seed=1).take(0)",
        "data: D.range(4).rejection_resample",
        "layer: L.UnitNormalization()",
        "layer: L.Conv1D(2, 2)",
        'layer: L.Conv2D(2, (2, 2), padding="same")',
        "layer: L.MaxPooling1D(2)",
        "layer: L.AveragePooling2D()",
        "layer: L.SimpleRNN(3)",
        "layer: L.LSTM(3)",
        "layer: L.GRU(3)",
        'layer: L.EinsumDense("ab,bc->ac", output_shape=4, bias_axes="c")',
    ],
    "unknown-names": [
        'errors: tf.keras.metrics.get("nonsense")',
        'errors: tf.keras.regularizers.get("nonsense")',
        "errors: tf.keras.layers.Dense(0)",
    ],
    "autograph": [
        "autograph: for_return",
        "autograph: for_else",
        "autograph: while_break",
        "autograph: assertions",
        "autograph: enumerated",
    ],
    "static-shapes": [
        "autograph: array_of_any_size",
        "autograph: slices_to_the_end",
    ],
    "empty-reductions": [
        "reductions: tf.reduce_max(tf.zeros([0]))",
    ],
    "ranges": [
        "errors: tf.range(5, 0)",
    ],
    "variable-dtypes": [
        "errors: tf.Variable(2**40)",
    ],
    "conditions": [
        "errors: tf.where(a, a, a)",
    ],
}
# What is to be mended; a case that agrees goes from here.
OPEN: list[str] = [
    "binary: tf.divide(i, j)",
    "binary: tf.constant(i) / tf.constant(j)",
    "binary: tf.constant(l) / 2",
    "binary: tf.constant(16777217) / 1",
    "binary: tf.broadcast_static_shape(tf.TensorShape([2, 1]), tf.TensorShape([3]))",
    "reductions: tf.math.count_nonzero(a)",
    "reductions: tf.math.count_nonzero(a, axis=0)",
    "reductions: tf.argmax(a)",
    "reductions: tf.argmax(a, axis=1)",
    "reductions: tf.argmin(i)",
    "reductions: tf.argmax([1.0, 1.0])",
    "reductions: tf.argmax(n)",
    "reductions: tf.math.argmin(n)",
    "movement: tf.linspace(0, 10, 5)",
    'movement: tf.convert_to_tensor(np.array([1, 2], ">i4"))',
    'movement: tf.constant(np.array([1.5, 2.0], ">f4"))',
    "movement: tf.image.transpose(tf.reshape(tf.range(12.0), [2, 3, 2]))",
    "movement: tf.constant(a).shape == [2, 3]",
    "nn: tf.keras.backend.constant([1, 2])",
    'errors: tf.constant("a", tf.int32)',
    "errors: tf.constant(2**63)",
    "errors: tf.Variable(1.0, dtype=tf.int32)",
    "errors: tf.cond(tf.constant([True, False]), lambda: 1, lambda: 2)",
    "functions: returns_structures",
    "functions: variable_equality",
    "functions: variable_face",
    "tape: output_gradients",
    "tape: tf.reduce_sum(tf.where(x > 0, tf.sqrt(x), 0.0))",
    "tape: tf.reduce_sum(tf.where(x > 9.0, tf.math.reciprocal(x - x), 0.0))",
    "tape: tf.sign(x)",
]
