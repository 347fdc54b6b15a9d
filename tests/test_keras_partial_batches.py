# SPDX-License-Identifier: MIT
"""Any number of samples outside of a strategy: losses, metrics and steps as in Keras.

The numbers in EXPECTED are what the same functions of this file gave with
tensorflow-cpu 2.21.0 and tf_keras 2.21.0 in the place of ``ipu.tf`` and ``ipu.keras``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from partial_batches import (
    BATCH,
    FEATURES,
    N,
    X,
    Y,
    arrays,
    built,
    fitted,
    generated,
    layers,
    number_weights,
    numbered,
    pairs,
)

from ipu import keras

W = (1.0 + np.arange(N) % 5).astype(np.float32)


def weighted_arrays() -> Any:
    model = built(weighted_metrics=["accuracy"])
    return fitted(model, X, Y, sample_weight=W)


def validation_split() -> Any:
    return fitted(built(), X, Y, validation_split=0.3, sample_weight=W)


def validation_data() -> Any:
    data = (X[:19], Y[:19], W[:19])
    return fitted(built(), X, Y, validation_data=data, validation_batch_size=7)


def validation_steps() -> Any:
    more = {"validation_data": (X[:19], Y[:19]), "validation_steps": 2}
    return fitted(built(), X, Y, validation_batch_size=7, **more)


def class_weights() -> Any:
    return fitted(built(), X, Y, class_weight={0: 1.0, 1: 2.0, 2: 0.5})


def regularized() -> Any:
    inputs = keras.Input((FEATURES,))
    hidden = layers.Dense(
        4, activation="tanh", kernel_regularizer="l2", activity_regularizer="l1"
    )(inputs)
    model = number_weights(keras.Model(inputs, layers.Dense(1)(hidden)))
    model.compile("sgd", "mse", metrics=["mae"])
    return fitted(model, X, X[:, :1])


def two_outputs() -> Any:
    inputs = keras.Input((FEATURES,))
    one = layers.Dense(1, name="one")(inputs)
    two = layers.Dense(2, name="two")(inputs)
    model = keras.Model(inputs, [one, two])
    model.compile(
        "sgd",
        ["mse", "mae"],
        metrics=["mae"],
        weighted_metrics=["mae", "mse"],
        loss_weights=[1.0, 3.0],
    )
    model.set_weights([numbered(w.shape, i) for i, w in enumerate(model.get_weights())])
    return fitted(model, X, [X[:, :1], X[:, 1:3]], sample_weight=[W, W[::-1].copy()])


def masked() -> Any:
    inputs = keras.Input((4, 2))
    steps = layers.Masking(0.0)(inputs)
    model = number_weights(keras.Model(inputs, layers.Dense(1)(steps)))
    # not the mean: newer versions of Keras divide it by the steps that count
    loss = keras.losses.MeanSquaredError(reduction="sum")
    rate = keras.optimizers.SGD(0.001)
    model.compile(rate, loss, metrics=["mae"], weighted_metrics=["mse"])
    x = X[:42, 2:].reshape(-1, 4, 2)[:21].copy()
    x[::3, 2:] = 0.0
    return fitted(model, x, x[..., :1] * 2.0)


def reduction_none() -> Any:
    loss = keras.losses.MeanSquaredError(reduction="none")
    model = built(loss=loss, metrics="mae")
    model.optimizer.learning_rate = 0.01
    return fitted(model, X, X[:, :3])


def reduction_sum() -> Any:
    loss = keras.losses.MeanSquaredError(reduction="sum")
    model = built(loss=loss, metrics="mae")
    model.optimizer.learning_rate = 0.01
    return fitted(model, X, X[:, :3])


def fewer_steps() -> Any:
    return fitted(built(), X, Y, steps_per_epoch=4, epochs=3)


def steps_over_the_end() -> Any:
    return fitted(built(), X, Y, steps_per_epoch=7, epochs=3)


def steps_alone() -> Any:
    return fitted(built(), X, Y, steps_per_epoch=4, batch_size=None)


def executions() -> Any:
    return fitted(built(4), X, Y)


def a_data_set() -> Any:
    return fitted(built(), pairs().batch(BATCH), batch_size=None)


def a_mapped_data_set() -> Any:
    data = pairs().batch(BATCH).map(lambda x, y: (x * 2.0, y))
    return fitted(built(), data, batch_size=None)


def a_repeated_data_set() -> Any:
    data = pairs().batch(BATCH).repeat()
    return fitted(built(), data, batch_size=None, steps_per_epoch=5, epochs=3)


def a_repeated_mapped_data_set() -> Any:
    data = pairs().batch(BATCH).map(lambda x, y: (x * 2.0, y)).repeat()
    return fitted(built(), data, batch_size=None, steps_per_epoch=5, epochs=3)


def a_generator() -> Any:
    return fitted(built(), generated(), batch_size=None, validation_data=generated())


def evaluation() -> Any:
    metrics = ["accuracy", "sparse_categorical_crossentropy"]
    model = built(metrics=metrics)
    full = model.evaluate(X, Y, verbose=0)
    weighed = model.evaluate(X, Y, sample_weight=W, verbose=0)
    few = model.evaluate(X, Y, batch_size=7, steps=3, verbose=0)
    data = model.evaluate(generated(), verbose=0)
    return {"full": full, "weighed": weighed, "few": few, "data": data}


def stateful_metrics() -> Any:
    keras.backend.clear_session()
    model = keras.Sequential([layers.Dense(1, "sigmoid", input_shape=(FEATURES,))])
    model.compile(
        "sgd",
        "binary_crossentropy",
        metrics=["AUC", keras.metrics.Precision(name="p"), "binary_accuracy"],
        weighted_metrics=[keras.metrics.Recall(name="r")],
    )
    number_weights(model)
    return fitted(model, X, (Y > 0).astype("f"), sample_weight=W)


def prediction() -> Any:
    rows = built().predict(X, verbose=0)
    data = built(3).predict(pairs().batch(BATCH), verbose=0)
    return {
        "rows": [*rows.shape, *rows[0], *rows[-1]],
        "data": [*data.shape, *data[0], *data[-1]],
    }


EXPECTED: dict[str, dict[str, list[float]]] = {
    "arrays": {
        "loss": [1.200557, 1.125253],
        "accuracy": [0.2888889, 0.3555556],
        "weights": [15.04635],
    },
    "weighted_arrays": {
        "loss": [3.742535, 3.415131],
        "accuracy": [0.2888889, 0.2888889],
        "weighted_accuracy": [0.2962963, 0.3111111],
        "weights": [13.44045],
    },
    "validation_split": {
        "loss": [3.650398, 3.410689],
        "accuracy": [0.3548387, 0.3870968],
        "val_loss": [3.844431, 4.677731],
        "val_accuracy": [0.1428571, 0.07142857],
        "weights": [14.70567],
    },
    "validation_data": {
        "loss": [1.200557, 1.125253],
        "accuracy": [0.2888889, 0.3555556],
        "val_loss": [3.155618, 3.3192],
        "val_accuracy": [0.368421, 0.3157895],
        "weights": [15.04635],
    },
    "validation_steps": {
        "loss": [1.200557, 1.125253],
        "accuracy": [0.2888889, 0.3555556],
        "val_loss": [1.08767, 1.131723],
        "val_accuracy": [0.5, 0.3571429],
        "weights": [15.04635],
    },
    "class_weights": {
        "loss": [1.485411, 1.202949],
        "accuracy": [0.3333333, 0.3333333],
        "weights": [17.39583],
    },
    "regularized": {
        "loss": [0.3540259, 0.2968485],
        "mae": [0.4945497, 0.4460274],
        "weights": [10.90145],
    },
    "two_outputs": {
        "loss": [14.3685, 10.68084],
        "one_loss": [1.523118, 0.5959576],
        "two_loss": [4.281794, 3.361627],
        "one_mae": [0.6149341, 0.382338],
        "one_weighted_mae": [0.6027129, 0.3752219],
        "one_mse": [0.5077059, 0.1986525],
        "two_mae": [1.421716, 1.115763],
        "two_weighted_mae": [1.427265, 1.120542],
        "two_mse": [2.60424, 1.63351],
        "weights": [4.329292],
    },
    "masked": {
        "loss": [28.23373, 24.39131],
        "mae": [0.9502578, 0.8870585],
        "mse": [1.155298, 0.9981432],
        "weights": [1.247368],
    },
    "reduction_none": {
        "loss": [0.3722765, 0.06782629],
        "mae": [0.4886746, 0.2215986],
        "weights": [17.93216],
    },
    "reduction_sum": {
        "loss": [2.85412, 0.5200015],
        "mae": [0.4886746, 0.2215986],
        "weights": [17.93216],
    },
    "fewer_steps": {
        "loss": [1.231356, 1.112715, 1.137563],
        "accuracy": [0.34375, 0.3103448, 0.3103448],
        "weights": [15.04635],
    },
    "steps_over_the_end": {
        "loss": [1.190283, 1.135983, 1.115839],
        "accuracy": [0.3207547, 0.3207547, 0.3448276],
        "weights": [14.8795],
    },
    "steps_alone": {
        "loss": [1.197493, 1.1289],
        "accuracy": [0.3111111, 0.3333333],
        "weights": [15.60113],
    },
    "executions": {
        "loss": [1.200557, 1.125253],
        "accuracy": [0.2888889, 0.3555556],
        "weights": [15.04635],
    },
    "a_data_set": {
        "loss": [1.200557, 1.125253],
        "accuracy": [0.2888889, 0.3555556],
        "weights": [15.04635],
    },
    "a_mapped_data_set": {
        "loss": [1.24557, 1.139868],
        "accuracy": [0.2666667, 0.3111111],
        "weights": [14.90809],
    },
    "a_repeated_data_set": {
        "loss": [1.193874, 1.134994, 1.136579],
        "accuracy": [0.325, 0.3243243, 0.3243243],
        "weights": [14.93106],
    },
    "a_repeated_mapped_data_set": {
        "loss": [1.222063, 1.174608, 1.1458],
        "accuracy": [0.3, 0.2972973, 0.2972973],
        "weights": [14.63046],
    },
    "a_generator": {
        "loss": [1.235769, 1.1139],
        "accuracy": [0.375, 0.34375],
        "val_loss": [1.118542, 1.072015],
        "val_accuracy": [0.375, 0.40625],
        "weights": [14.9089],
    },
    "evaluation": {
        "full": [1.199468, 0.3333333, 6.098225],
        "weighed": [3.599972, 0.3333333, 6.098225],
        "few": [1.194876, 0.3333333, 5.88614],
        "data": [1.250434, 0.375, 6.431026],
    },
    "stateful_metrics": {
        "loss": [2.398002, 2.355144],
        "auc": [0.4922222, 0.4911111],
        "p": [0.6470588, 0.6470588],
        "binary_accuracy": [0.4444444, 0.4444444],
        "r": [0.3555556, 0.3555556],
        "weights": [2.222855],
    },
    "prediction": {
        "rows": [
            45.0,
            3.0,
            0.2832237,
            -0.2102351,
            -0.003074571,
            0.6299927,
            -0.8713301,
            0.5310999,
        ],
        "data": [
            45.0,
            3.0,
            0.2832237,
            -0.2102351,
            -0.003074571,
            0.6299927,
            -0.8713301,
            0.5310999,
        ],
    },
}


CASES: list[Callable[[], Any]] = [
    arrays,
    weighted_arrays,
    validation_split,
    validation_data,
    validation_steps,
    class_weights,
    regularized,
    two_outputs,
    masked,
    reduction_none,
    reduction_sum,
    fewer_steps,
    steps_over_the_end,
    steps_alone,
    executions,
    a_data_set,
    a_mapped_data_set,
    a_repeated_data_set,
    a_repeated_mapped_data_set,
    a_generator,
    evaluation,
    stateful_metrics,
    prediction,
]


@pytest.mark.filterwarnings("ignore:The data ended")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_numbers_are_keras_s(case: Callable[[], Any]) -> None:
    found, expected = case(), EXPECTED[case.__name__]
    assert list(found) == list(expected)
    for name, values in expected.items():
        np.testing.assert_allclose(found[name], values, rtol=2e-5, err_msg=name)
