# SPDX-License-Identifier: MIT
"""Losses and metrics of several outputs: which of them belongs to which."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

from ipu import keras, tf
from ipu.keras.engine.training import compile_utils
from ipu.keras.engine.training.compile_utils import LossesContainer, MetricsContainer

ONE, TWO = tf.constant([[1.0], [1.0]]), tf.constant([[3.0], [5.0]])
ZERO = tf.constant([[0.0], [0.0]])


def losses(loss: Any, weights: Any = None, names: str = "ab") -> LossesContainer:
    return LossesContainer(loss, weights, lambda outputs: [*names])


def metrics(given: Any, weighted: Any = None, names: str = "ab") -> Any:
    made = MetricsContainer(given, weighted, lambda _: [*names], losses(None))
    made.build([*names])
    return made


def test_what_belongs_to_an_output() -> None:
    by_output = compile_utils._by_output
    assert by_output("loss", {"b": 1}, ["b", "a"]) == [1, None]
    assert by_output("loss", (1, 2), ["b", "a"]) == [1, 2]
    assert by_output("loss", 1, ["b", "a"]) == [1, 1]
    with pytest.raises(ValueError, match="unexpected key 'c' in `loss`"):
        by_output("loss", {"c": 1}, ["b", "a"])
    with pytest.raises(ValueError, match=r"for each of the 2 outputs .* 1 entries"):
        by_output("loss", [1], ["b", "a"])


def test_targets_of_outputs() -> None:
    targets, both = compile_utils._targets, [True, True]
    assert targets({"a": 1, "b": 2}, ["b", "a"], both) == [2, 1]
    assert targets({"a": 1}, ["b", "a"], both) == [None, 1]
    assert targets({"x": 1, "y": 2}, ["b", "a"], both) == [1, 2]
    assert targets((1, 2), ["b", "a"], both) == [1, 2]
    assert targets(1, ["b", "a"], [False, True]) == [None, 1]
    assert targets((1, 2), ["b", "a"], [False, True]) == [1, 2]
    assert targets(None, ["b", "a"], [False, True]) == [None, None]
    assert targets(1, ["a"], []) == [1]
    with pytest.raises(ValueError, match="There are targets for 'c', but the outputs"):
        targets({"a": 1, "c": 2}, ["b", "a"], both)
    for given, has_loss in ((1, both), ((1, 2, 3), both), ((), both)):
        with pytest.raises(ValueError, match=f"there are {np.size(given)} targets"):
            targets(given, ["b", "a"], has_loss)


def test_weights_of_outputs() -> None:
    weights = compile_utils._weights
    assert weights({"a": 1}, ["b", "a"]) == [None, 1]
    assert weights(None, ["b", "a"]) == [None, None]
    assert weights(3, ["b", "a"]) == [3, 3]
    assert weights((3, None), ["b", "a"]) == [3, None]
    with pytest.raises(ValueError, match=r"2 outputs .* 3 sample weights"):
        weights((1, 2, 3), ["b", "a"])


def test_losses_of_several_outputs() -> None:
    made = losses(["mse", None], 2.0)
    assert made.metrics == [] == made.has_loss  # it is not known yet of what
    total = made(ONE, (TWO, ZERO), None, [tf.constant(0.5)])
    assert float(total) == 2 * 10 + 0.5
    assert made.has_loss == [True, False] and not made.is_missing
    assert [(one.name, float(one.result())) for one in made.metrics] == [
        *(("loss", 20.5), ("a_loss", 10.0))
    ]
    made.build(["other"])  # once
    assert [one.name for one in made.metrics] == ["loss", "a_loss"]
    made = losses({"b": "mae", "a": "mse"}, [1.0, 3.0])
    assert float(made((ONE, ZERO), (TWO, ONE))) == 10.0 + 3.0
    total = made(None, (TWO, ONE), None, [tf.constant(2.0), tf.constant(0.5)])
    assert float(total) == 2.5
    with pytest.raises(ValueError, match="loss of output 'a' needs targets"):
        made(None, (TWO, ONE))
    made = losses(None)
    assert float(made(None, (TWO, ONE))) == 0.0 and made.is_missing
    with pytest.raises(ValueError, match="msee"):
        losses(["msee", None])


def test_one_loss_counts_rows() -> None:
    made = losses("mse", names="a")
    made(ONE, TWO)
    made(ZERO[:1], ONE[:1])
    assert [one.name for one in made.metrics] == ["loss"]
    assert float(made.metrics[0].result()) == pytest.approx((2 * 10 + 1) / 3)
    # of a loss that a subclass computes, the rows are those of the last call, or of
    # the outputs
    made = losses("mse", names="a")
    with made.held():
        made(ONE, TWO)
    made.take(tf.constant(3.0), TWO[:1])
    with made.held():
        pass
    made.take(tf.constant(9.0), TWO[:1])
    assert float(made.metrics[0].result()) == pytest.approx((2 * 3 + 9) / 3)
    made.take(tf.constant(6.0), tf.constant(1.0))
    assert float(made.metrics[0].result()) == pytest.approx((2 * 3 + 9 + 6) / 4)
    made(ONE, TWO)  # it is held no more
    assert float(made.metrics[0].result()) == pytest.approx((21 + 20) / 6)
    fresh = losses("mse", names="a")
    fresh.take(tf.constant(3.0), TWO)
    assert not fresh.is_missing
    fresh.take(tf.constant(9.0), TWO[:1])
    assert float(fresh.metrics[0].result()) == pytest.approx((2 * 3 + 9) / 3)


def test_replicas_share_a_mean_and_not_a_sum(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compile_utils, "replicas_in_sync", lambda: 2)
    total = keras.losses.MeanSquaredError(reduction="sum")
    outputs = (TWO, ONE)
    assert float(losses("mse")((ONE, ZERO), outputs)) == (10 + 1) / 2
    assert float(losses(["mse", total])((ONE, ZERO), outputs)) == 10 / 2 + 2
    assert float(losses(total)((ONE, ZERO), outputs)) == 20 + 2
    made = losses("mse", names="a")
    made.take(tf.constant(3.0), TWO)
    assert float(made.metrics[0].result()) == 6.0


def test_masks_of_outputs_weigh() -> None:
    steps = keras.layers.Masking(0.0)(tf.constant([[[1.0], [0.0]], [[2.0], [3.0]]]))
    zeros = tf.zeros((2, 2, 1))
    made = losses("mse", names="a")
    assert float(made(zeros, steps)) == pytest.approx((1 + 4 + 9) / 4)
    weights = tf.constant([[2.0, 5.0], [0.0, 1.0]])
    assert float(made(zeros, steps, weights)) == pytest.approx((2 * 1 + 9) / 4)


def test_halves_are_summed_as_floats() -> None:
    half = tf.cast(TWO, "float16")
    total = losses(["mse", "mse"])((ONE, ZERO), (half, ZERO))
    assert total.dtype == tf.float32 and float(total) == 10.0


def test_losses_that_cannot_be_added_up() -> None:
    none = keras.losses.MeanSquaredError(reduction="none")
    with pytest.raises(ValueError, match=r"shapes \(\) and \(2,\)\. Leave `reduction`"):
        losses(["mse", none])((ONE, ONE), (TWO, TWO))


def test_metrics_of_several_outputs() -> None:
    made = metrics(["mse", None, "mae"], ["mse"])
    names = "a_mse a_mae a_weighted_mse b_mse b_mae b_weighted_mse".split()
    assert [one.name for one in made.metrics] == names
    made.update_state((ONE, ZERO), (TWO, TWO), (tf.constant([1.0, 0.0]), None))
    found = [float(one.result()) for one in made.metrics]
    assert found == [10.0, 3.0, 4.0, 17.0, 4.0, 17.0]
    made.build(["other"])
    assert len(made.metrics) == 6
    for given in ({"b": ["mse"]}, [[], ["mse"]], [[], "mse"], [None, ["mse"]]):
        made = metrics(given)
        assert [one.name for one in made.metrics] == ["b_mse"]
        made.update_state((ZERO, ONE), (ZERO, TWO))
        assert float(made.metrics[0].result()) == 10.0
    assert metrics(None).metrics == []
    for given in ("mse", keras.metrics.MeanSquaredError("own"), keras.losses.mse):
        assert len(metrics(given).metrics) == 2
    mean = keras.metrics.MeanSquaredError("mse")
    first, second = metrics([mean]).metrics
    assert first is not second and mean.name == "mse"
    (only,) = metrics([mean], names="a").metrics
    assert only is mean and only.name == "mse"
    assert metrics([mean], ["mse"], names="a").metrics[1].name == "weighted_mse"
    named = keras.metrics.MeanSquaredError("b_mse")
    assert metrics([[], [named]]).metrics == [named] and named.name == "b_mse"
    with pytest.raises(ValueError, match="two metrics with the same name: mse"):
        metrics(["mse", keras.metrics.MeanSquaredError("mse")], names="a")
    with pytest.raises(ValueError, match="needs targets of output 'b'"):
        metrics([[], ["mse"]]).update_state({"a": ZERO}, (ZERO, ZERO))
    for wrong in ("msee", ["mse", "msee"]):
        for both in ((wrong, None), (None, wrong)):
            with pytest.raises(ValueError, match="msee"):
                MetricsContainer(*both, lambda outputs: ["a"], losses(None))
    with pytest.raises(TypeError, match="A metric must be a name"):
        MetricsContainer(3, None, lambda outputs: ["a"], losses(None))

    class Largest(keras.metrics.Metric):
        made = 0

        def __init__(self) -> None:
            super().__init__("largest")
            type(self).made += 1

        def update_state(self, y: Any, p: Any, sample_weight: Any = None) -> None:
            self.seen = float(tf.reduce_max(p))

    made = MetricsContainer([Largest], None, lambda outputs: ["a"], losses(None))
    assert Largest.made == 0  # nothing is made before it is known of what
    made.update_state(None, TWO)  # it does without targets
    assert made.metrics[0].seen == 5.0 and Largest.made == 1
    made = MetricsContainer("mse", None, lambda outputs: ["a"], losses(None))
    made.update_state(ONE, TWO)
    assert float(made.metrics[0].result()) == 10.0


def test_names_of_metrics_that_are_none() -> None:
    class Difference:
        __hash__ = None  # type: ignore[assignment]

        def __call__(self, y: Any, p: Any) -> Any:
            return p - y

    class Named(Difference):
        name = "far"

    def off(y: Any, p: Any) -> Any:
        return tf.abs(p - y)

    given = [Difference(), Named(), off, keras.losses.MeanAbsoluteError(), "accuracy"]
    found = [one.name for one in metrics(given, names="a").metrics]
    assert found == ["difference", "far", "off", "mean_absolute_error", "accuracy"]
    assert metrics([[], ["acc"]]).metrics[0].name == "b_acc"
    made = metrics(["accuracy"], names="a")
    with pytest.raises(RuntimeError, match="no shape"):
        made.metrics[0]._fn(ONE, TWO)
    made.update_state(tf.constant([1, 0]), tf.constant([[0.1, 0.9], [0.2, 0.8]]))
    assert float(made.metrics[0].result()) == 0.5


def test_a_warning_of_class_numbers() -> None:
    numbers, outputs = tf.constant([[1.0], [0.0]]), tf.constant([[0.1, 0.9]] * 2)
    with pytest.warns(UserWarning) as seen:
        losses("mse", names="a")(numbers, outputs)
    (text,) = [str(one.message) for one in seen]
    assert "'mean_squared_error' compares each target with all 2 outputs" in text
    assert "targets of shape (None, 1) beside outputs of shape (None, 2)" in text


def test_no_warning_of_class_numbers() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_of_nothing()


def warn_of_nothing() -> None:
    numbers, outputs = tf.constant([[1.0], [0.0]]), tf.constant([[0.1, 0.9]] * 2)

    def own(y: Any, p: Any) -> Any:
        return tf.reduce_mean(tf.square(y - p), -1)

    for loss, target, output in (
        (own, numbers, outputs),
        ("sparse_categorical_crossentropy", numbers, outputs),
        ("mse", numbers, numbers),
        ("mse", outputs, outputs),
        ("mse", tf.zeros((2, 1, 1)), tf.zeros((2, 1, 1))),
    ):
        losses(loss, names="a")(target, output)
    mse = keras.losses.MeanSquaredError()
    for target, output in (((2, 1), (2, 3, 4)), ((2, 3, 1), (2, 4)), ((2, 1), (2,))):
        compile_utils._warn_of_classes(mse, np.zeros(target), np.zeros(output))


def test_errors_name_the_loss() -> None:
    text = 'calling loss "mean_squared_error": y_true of shape (2, 3), y_pred of shape'
    with pytest.raises(Exception, match="y_true of shape") as caught:
        losses("mse", names="a")(tf.zeros((2, 3)), tf.zeros((2, 2)))
    assert text in str(caught.value)

    def fails(y: Any, p: Any) -> Any:
        raise ValueError("one", "two")

    with pytest.raises(ValueError, match="two") as caught:
        losses(fails, names="a")(ONE, TWO)
    assert caught.value.args == ("one", "two")
    error = ValueError("one")
    compile_utils._name_loss(error, keras.losses.MeanSquaredError(), None, ONE)
    assert error.args == ("one",)
