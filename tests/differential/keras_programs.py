# SPDX-License-Identifier: MIT
"""Cases of Keras: layers, metrics, optimizers.

Weights are set to numbers made from their shapes, so that both sides start alike; that
also compares the order of the weights.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Case = Callable[[Any], Any]


def numbers(shape: Sequence[int], start: int = 0) -> Any:
    """Numbers between -1 and 1, the same for the same shape."""
    size = int(np.prod(shape))
    return np.sin(np.arange(start, start + size) * 1.7).reshape(shape).astype("f4")


def fixed(model: Any) -> Any:
    """The model or layer, its weights set by their order."""
    shapes = [w.shape for w in model.get_weights()]
    model.set_weights([numbers(s, 3 * k) * 0.5 for k, s in enumerate(shapes)])
    return model


def cases() -> dict[str, Case]:
    return {**layers(), **metrics(), **optimizers()}


# --- layers ---------------------------------------------------------------------------

# layer | shape of its input
LAYERS = """
L.Dense(4) | 2, 3
L.Dense(4, activation="relu") | 2, 3
L.Dense(4, use_bias=False, activation="tanh") | 2, 3
L.Dense(2, activation="softmax") | 2, 5, 3
L.Dense(3, activation="gelu") | 2, 3
L.Dense(3, activation="selu") | 2, 3
L.Activation("relu") | 2, 3
L.Activation("sigmoid") | 2, 3
L.ReLU() | 2, 3
L.ReLU(max_value=0.5, negative_slope=0.1, threshold=0.1) | 2, 3
L.LeakyReLU() | 2, 3
L.ELU(alpha=0.5) | 2, 3
L.PReLU() | 2, 3
L.PReLU(shared_axes=[1]) | 2, 4, 3
L.Softmax() | 2, 3
L.Softmax(axis=1) | 2, 3, 2
L.ThresholdedReLU(0.3) | 2, 3
L.Flatten() | 2, 3, 4
L.Reshape((6,)) | 2, 3, 2
L.Reshape((-1, 2)) | 2, 3, 2
L.Permute((2, 1)) | 2, 3, 4
L.RepeatVector(3) | 2, 4
L.Lambda(lambda x: x * 2.0) | 2, 3
L.Dropout(0.5) | 2, 3
L.GaussianNoise(0.1) | 2, 3
L.SpatialDropout1D(0.3) | 2, 3, 4
L.LayerNormalization() | 2, 3
L.LayerNormalization(axis=1, epsilon=1e-2) | 2, 3, 4
L.LayerNormalization(center=False) | 2, 3
L.BatchNormalization() | 4, 3
L.BatchNormalization(scale=False, momentum=0.5) | 4, 3
L.UnitNormalization() | 2, 3
L.ActivityRegularization(l2=0.1) | 2, 3
L.Masking(0.0) | 2, 3, 2
L.Conv1D(2, 2) | 2, 5, 3
L.Conv2D(2, (2, 2), padding="same") | 1, 4, 4, 3
L.MaxPooling1D(2) | 2, 4, 3
L.AveragePooling2D() | 1, 4, 4, 2
L.GlobalAveragePooling1D() | 2, 4, 3
L.GlobalMaxPooling1D() | 2, 4, 3
L.UpSampling1D(2) | 2, 3, 2
L.ZeroPadding1D(1) | 2, 3, 2
L.Cropping1D(1) | 2, 4, 2
L.SimpleRNN(3) | 2, 4, 2
L.LSTM(3) | 2, 4, 2
L.GRU(3) | 2, 4, 2
L.TimeDistributed(L.Dense(2)) | 2, 3, 4
L.EinsumDense("ab,bc->ac", output_shape=4, bias_axes="c") | 2, 3
L.Rescaling(2.0, offset=1.0) | 2, 3
"""
# call on two inputs of shape (2, 3)
MERGES = """
L.Add()([x, y])
L.Subtract()([x, y])
L.Multiply()([x, y])
L.Average()([x, y])
L.Maximum()([x, y])
L.Minimum()([x, y])
L.Concatenate()([x, y])
L.Concatenate(axis=0)([x, y])
L.Dot(axes=1)([x, y])
L.Dot(axes=1, normalize=True)([x, y])
L.add([x, y])
L.concatenate([x, y], axis=-1)
L.Embedding(4, 2, weights=[numbers((4, 2))])(np.array([[0, 3], [1, 1]]))
L.Embedding(4, 2, mask_zero=True).compute_mask(np.array([[0, 3], [1, 1]]))
L.Dense(3).compute_output_shape((None, 4))
L.Flatten().compute_output_shape((None, 4, 2))
L.Dense(3, kernel_initializer="ones", name="mine").get_config()["units"]
L.Dense(3, name="mine").name
sorted(L.Dropout(0.5).get_config())
L.Dense.from_config(L.Dense(3, activation="relu").get_config()).units
L.Dense(2, dtype="float16").compute_dtype
L.Dense(2, trainable=False).trainable
L.BatchNormalization().trainable_weights
L.Input((3,)).shape.as_list()
L.InputLayer((3,)).name
L.serialize(L.Dense(3))["class_name"]
"""


def layers() -> dict[str, Case]:
    found: dict[str, Case] = {}
    for line in LAYERS.strip().splitlines():
        text, shape = (part.strip() for part in line.split("|"))

        def layer_of(tf: Any, text: str = text, shape: str = shape) -> Any:
            layer = eval(text, {"L": tf.keras.layers, "tf": tf, "np": np})
            x = tf.constant(numbers(tuple(int(s) for s in shape.split(","))))
            layer(x)
            fixed(layer)
            with tf.GradientTape() as tape:
                y = layer(x)
                loss = tf.reduce_sum(y * y)
            gradients = tape.gradient(loss, layer.trainable_weights)
            names = [w.name.split("/")[-1] for w in layer.weights]
            shapes = [list(w.shape) for w in layer.weights]
            return {
                "y": y,
                "weights": names,
                "shapes": shapes,
                "trainable": len(layer.trainable_weights),
                "gradients": gradients,
                "losses": layer.losses,
            }

        found[f"layer: {text}"] = layer_of
    for line in MERGES.strip().splitlines():

        def merge(tf: Any, line: str = line) -> Any:
            x, y = tf.constant(numbers((2, 3))), tf.constant(numbers((2, 3), 5))
            names = {"L": tf.keras.layers, "np": np, "numbers": numbers}
            return eval(line, {**names, "x": x, "y": y})

        found[f"layer: {line}"] = merge
    return found


# --- metrics --------------------------------------------------------------------------

# metric | labels | predictions; two updates, the second with weights
METRICS = """
M.Mean() | v
M.Sum() | v
M.MeanTensor() | v
M.Accuracy() | k | k2
M.BinaryAccuracy() | t | p
M.BinaryAccuracy(threshold=0.7) | t | p
M.CategoricalAccuracy() | h | s
M.SparseCategoricalAccuracy() | k | s
M.TopKCategoricalAccuracy(k=2) | h | s
M.SparseTopKCategoricalAccuracy(k=2) | k | s
M.BinaryCrossentropy() | t | p
M.CategoricalCrossentropy() | h | s
M.SparseCategoricalCrossentropy() | k | s
M.MeanSquaredError() | t | p
M.RootMeanSquaredError() | t | p
M.MeanAbsoluteError() | t | p
M.MeanAbsolutePercentageError() | t | p
M.MeanSquaredLogarithmicError() | t | p
M.LogCoshError() | t | p
M.CosineSimilarity() | h | s
M.KLDivergence() | h | s
M.Poisson() | t | p
M.Hinge() | t | p
M.SquaredHinge() | t | p
M.CategoricalHinge() | h | s
M.TruePositives() | t | p
M.FalsePositives() | t | p
M.TrueNegatives() | t | p
M.FalseNegatives() | t | p
M.Precision() | t | p
M.Precision(thresholds=[0.3, 0.7]) | t | p
M.Recall() | t | p
M.AUC() | t | p
M.AUC(curve="PR", num_thresholds=20) | t | p
M.SensitivityAtSpecificity(0.5) | t | p
M.MeanIoU(num_classes=3) | k | k2
M.MeanRelativeError([1.0, 2.0, 3.0, 4.0]) | t4 | p4
M.MeanMetricWrapper(lambda a, b: abs(a - b)) | t | p
M.get("mse") | t | p
"""
VALUES = {
    "v": numbers((4,)),
    "k": np.array([0, 2, 1, 2], np.int32),
    "k2": np.array([0, 1, 1, 2], np.int32),
    "t": np.array([[1.0], [0.0], [1.0], [0.0]], np.float32),
    "p": np.array([[0.8], [0.3], [0.4], [0.6]], np.float32),
    "h": np.eye(3, dtype=np.float32)[[0, 2, 1, 2]],
    "s": np.array(
        [[0.6, 0.3, 0.1], [0.2, 0.5, 0.3], [0.1, 0.7, 0.2], [0.25, 0.25, 0.5]],
        np.float32,
    ),
    "t4": np.array([1.0, 2.0, 2.5, 4.0], np.float32),
    "p4": np.array([1.5, 2.0, 3.0, 3.0], np.float32),
}
WEIGHTS = np.array([1.0, 0.5, 2.0, 0.0], np.float32)


def metrics() -> dict[str, Case]:
    found: dict[str, Case] = {}
    for line in METRICS.strip().splitlines():
        text, *places = (part.strip() for part in line.split("|"))

        def metric_of(tf: Any, text: str = text, places: Any = places) -> Any:
            metric = eval(text, {"M": tf.keras.metrics, "tf": tf})
            values = [VALUES[place] for place in places]
            if not hasattr(metric, "update_state"):
                return metric(*values)
            metric.update_state(*values)
            first = np.asarray(metric.result())
            metric.update_state(*values, sample_weight=WEIGHTS)
            second = np.asarray(metric.result())
            name = metric.name
            states = [list(w.shape) for w in metric.weights]
            metric.reset_state()
            return first, second, name, states, np.asarray(metric(*values))

        found[f"metric: {text}"] = metric_of
    return found


# --- optimizers -----------------------------------------------------------------------

OPTIMIZERS = """
SGD
SGD learning_rate=0.1
SGD learning_rate=0.1 momentum=0.9
SGD learning_rate=0.1 momentum=0.9 nesterov=True
SGD learning_rate=0.1 decay=0.1
SGD learning_rate=0.1 clipvalue=0.3
SGD learning_rate=0.1 clipnorm=0.5
SGD learning_rate=0.1 global_clipnorm=0.5
Adam
Adam learning_rate=0.1
Adam learning_rate=0.1 beta_1=0.5 beta_2=0.9 epsilon=1e-3
Adam learning_rate=0.1 amsgrad=True
RMSprop
RMSprop learning_rate=0.1 rho=0.5
RMSprop learning_rate=0.1 momentum=0.9
RMSprop learning_rate=0.1 centered=True
Adagrad
Adagrad learning_rate=0.1 initial_accumulator_value=0.5
Adadelta
Adadelta learning_rate=1.0 rho=0.5
Adamax
Adamax learning_rate=0.1
Nadam
Nadam learning_rate=0.1 beta_1=0.5
Ftrl
Ftrl learning_rate=0.1 l1_regularization_strength=0.01
Ftrl learning_rate=0.1 l2_regularization_strength=0.1 beta=0.1
"""


def optimizer(tf: Any, name: str, **options: Any) -> Any:
    """Of the generation that programs for the IPU use."""
    known = tf.keras.optimizers
    return getattr(getattr(known, "legacy", known), name)(**options)


def optimizers() -> dict[str, Case]:
    found: dict[str, Case] = {}
    for line in OPTIMIZERS.strip().splitlines():
        name, *options = line.split()

        def steps(tf: Any, name: str = name, options: Any = options) -> Any:
            given = {k: eval(v) for k, v in (o.split("=") for o in options)}
            made = optimizer(tf, name, **given)
            v, w = tf.Variable(numbers((3,))), tf.Variable(numbers((2, 2), 4))
            seen = []
            for k in range(4):
                gradients = [tf.constant(numbers(x.shape, 7 * k)) for x in (v, w)]
                made.apply_gradients(zip(gradients, [v, w], strict=True))
                seen.append((v.numpy(), w.numpy()))
            state = [np.asarray(x) for x in made.get_weights()[1:]]  # 0: iterations
            again = type(made).from_config(made.get_config())
            return seen, int(made.iterations), state, type(again).__name__

        found[f"optimizer: {line}"] = steps

        def sparse(tf: Any, name: str = name, options: Any = options) -> Any:
            given = {k: eval(v) for k, v in (o.split("=") for o in options)}
            made = optimizer(tf, name, **given)
            table = tf.Variable(numbers((4, 2)))
            for k in range(3):
                with tf.GradientTape() as tape:
                    rows = tf.gather(table, [k % 4, 1])
                    loss = tf.reduce_sum(rows * rows)
                made.apply_gradients([(tape.gradient(loss, table), table)])
            return table

        if "clip" not in line:
            found[f"optimizer of looked-up rows: {line}"] = sparse
    return found
