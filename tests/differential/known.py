# SPDX-License-Identifier: MIT
"""Cases that differ: on purpose, by the rows of docs/differences.md, or not yet."""

from __future__ import annotations

import data_error_cases

# row of the table: its cases
ON_PURPOSE: dict[str, list[str]] = {
    "absent": [
        "binary: tf.math.betainc(p, p, 0.5)",
        "binary: tf.math.nextafter(d, 3.0)",
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
    "cached-files": ["data: cache(file)"],
    "data-errors": [f"data errors: {name}" for name in data_error_cases.OWN],
    "ranges": [
        "errors: tf.range(5, 0)",
    ],
    "variable-dtypes": [
        "errors: tf.Variable(2**40)",
    ],
    "conditions": [
        "errors: tf.where(a, a, a)",
    ],
    "integer-bounds": [
        "errors: tf.constant(300, tf.uint8)",
        "errors: tf.constant(-1, tf.uint8)",
        "errors: tf.constant(u) + 300",
        "errors: tf.Variable([1, 2], dtype=tf.int8).assign([300, 1])",
    ],
    "output-gradients": [
        "tape: output_gradients",
    ],
    "fed-integers": [
        "tf1 feeds: too large for int32, a list",
        "tf1 feeds: an array of int64 for int32",
        "tf1 feeds: a float for an integer",
    ],
    "predicates": [
        "tf1 conditions: bools of one element",
        "tf1 conditions: an array of one element",
        "tf1 conditions: fed, of one element",
    ],
}
# What is to be mended; a case that agrees goes from here.
OPEN: list[str] = []
