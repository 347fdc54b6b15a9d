# SPDX-License-Identifier: MIT
"""``ipu.ipu_estimator`` and ``ipu_pipeline_estimator``; NumPy is the oracle."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ipu
from ipu.ipu_estimator import IPUEstimator, IPUEstimatorSpec
from ipu.ipu_pipeline_estimator import IPUPipelineEstimator, IPUPipelineEstimatorSpec
from ipu.ipu_run_config import IPURunConfig, RunConfig
from ipu.ipu_session_run_hooks import IPULoggingTensorHook
from ipu.tf import estimator as tf_estimator
from ipu.tf.compat import v1 as tf
from ipu.tf.estimator import EstimatorSpec, ModeKeys

X = np.array([[1.0, 2.0], [3.0, 1.0], [0.0, 1.0], [2.0, 2.0]], np.float32)
Y = np.array([0.5, -1.0, 2.0, 1.0], np.float32)
RATE = 0.05


@pytest.fixture(autouse=True)
def unconfigured() -> Iterator[None]:
    ipu.config.reset_ipu_configuration()
    yield
    ipu.config.reset_ipu_configuration()


def run_config(loop: int, count: int = 1, **options: Any) -> RunConfig:
    device = ipu.config.IPUConfig()
    device.auto_select_ipus = count
    return RunConfig(IPURunConfig(loop, device, **options))


def batches() -> Any:
    dataset = tf.data.Dataset.from_tensor_slices((X, Y))
    return dataset.repeat().batch(2, drop_remainder=True)


def predicted(features: Any) -> Any:
    w = tf.get_variable("w", [2], initializer=tf.constant_initializer(0.5))
    return tf.reduce_sum(features * w, axis=1)


def model(features: Any, labels: Any, mode: str, params: dict[str, float]) -> Any:
    found = predicted(features)
    if mode == ModeKeys.PREDICT:
        return EstimatorSpec(mode, predictions={"y": found})
    loss = tf.reduce_mean(tf.square(found - labels))
    if mode == ModeKeys.EVAL:
        pair = tf.metrics.mean_absolute_error(labels, found)
        return EstimatorSpec(mode, loss=loss, eval_metric_ops={"off": pair})
    optimizer = tf.train.GradientDescentOptimizer(params["rate"])
    return EstimatorSpec(mode, loss=loss, train_op=optimizer.minimize(loss))


def trained(steps: int, w: Any = (0.5, 0.5)) -> np.ndarray[Any, Any]:
    """What gradient descent over the batches gives."""
    w = np.array(w, np.float32)
    for i in range(steps):
        rows = slice(2 * (i % 2), 2 * (i % 2) + 2)
        w = w - RATE * (X[rows].T @ (X[rows] @ w - Y[rows]))
    return w


def test_train_evaluate_predict(tmp_path: Path) -> None:
    folder = str(tmp_path / "new" / "folder")
    made = IPUEstimator(model, folder, run_config(2), {"rate": RATE})
    assert made.train(batches, steps=4) is made
    np.testing.assert_allclose(made.get_variable_value("w"), trained(4), rtol=1e-5)
    assert made.get_variable_names() == ["global_step", "w"]
    # goes on from the checkpoint, also in another estimator; max_steps counts all
    made = IPUEstimator(model, folder, run_config(2), {"rate": RATE})
    made.train(batches, max_steps=6).train(batches, max_steps=6)
    w = trained(6)
    np.testing.assert_allclose(made.get_variable_value("w"), w, rtol=1e-5)
    off = X @ w - Y
    found = made.evaluate(batches, steps=2)
    assert found["global_step"] == 6
    np.testing.assert_allclose(found["loss"], np.mean(off**2), rtol=1e-5)
    np.testing.assert_allclose(found["off"], np.mean(np.abs(off)), rtol=1e-5)

    def once() -> Any:
        return tf.data.Dataset.from_tensor_slices(X).batch(2, drop_remainder=True)

    rows = list(made.predict(once))
    np.testing.assert_allclose([row["y"] for row in rows], X @ w, rtol=1e-5)
    given = list(made.predict(once, ["y"], yield_single_examples=False))
    assert [batch["y"].shape for batch in given] == [(2,), (2,)]


def test_metrics_of_the_host(tmp_path: Path) -> None:
    def host(features: Any, labels: Any, mode: str) -> Any:
        found = predicted(features)
        loss = tf.reduce_mean(tf.square(found - labels))
        if mode == ModeKeys.TRAIN:
            return IPUEstimatorSpec(mode, loss=loss, train_op=tf.identity(loss))
        metrics = (
            lambda a, b: {"off": tf.metrics.mean(tf.abs(a - b))},
            [found, labels],
        )
        return IPUEstimatorSpec(mode, loss=loss, eval_metrics=metrics)

    made = IPUEstimator(host, str(tmp_path), run_config(1))
    found = made.train(batches, steps=1).evaluate(batches, steps=2)
    off = np.mean(np.abs(X.sum(1) / 2 - Y))
    np.testing.assert_allclose(found["off"], off, rtol=1e-5)


def test_hooks_and_functions_that_take_more(tmp_path: Path) -> None:
    told: list[str] = []

    class Hook:
        def begin(self) -> None:
            told.append("begin")

        def after_create_session(self, session: Any, coord: Any) -> None:
            told.append("session")

        def before_run(self, run_context: Any) -> None:
            told.append("before")

        def after_run(self, run_context: Any, run_values: Any) -> None:
            told.append("after")
            run_context.request_stop()

        def end(self, session: Any) -> None:
            told.append("end")

    def given(mode: str, params: dict[str, Any], config: Any) -> Any:
        told.append(f"{mode} {params['batch_size']} {config.keep_checkpoint_max}")
        return batches()

    made = IPUEstimator(
        model, str(tmp_path), run_config(2), {"rate": RATE}, train_batch_size=2
    )
    made.train(given, [Hook()], steps=8)
    assert told == ["train 2 5", "begin", "session", "before", "after", "end"]
    assert made.get_variable_value("global_step") == 2


def test_replicas(tmp_path: Path) -> None:
    def replicated(features: Any, labels: Any, mode: str) -> Any:
        loss = tf.reduce_mean(tf.square(predicted(features) - labels))
        optimizer = ipu.optimizers.CrossReplicaOptimizer(
            tf.train.GradientDescentOptimizer(RATE)
        )
        return EstimatorSpec(mode, loss=loss, train_op=optimizer.minimize(loss))

    made = IPUEstimator(replicated, str(tmp_path), run_config(1, 2, num_replicas=2))
    made.train(batches, steps=1)
    w = 0.5 - RATE * X.T @ (X.sum(1) / 2 - Y) / 2
    np.testing.assert_allclose(made.get_variable_value("w"), w, rtol=1e-5)


def test_layers_have_the_same_names_in_every_graph(tmp_path: Path) -> None:
    def layered(features: Any, labels: Any, mode: str) -> Any:
        hidden = ipu.keras.layers.Dense(2, "relu")(features)
        found = ipu.keras.layers.Dense(1)(hidden)[:, 0]
        loss = tf.reduce_mean(tf.square(found - labels))
        train = tf.train.GradientDescentOptimizer(RATE).minimize(loss)
        return EstimatorSpec(mode, loss=loss, train_op=train)

    made = IPUEstimator(layered, str(tmp_path), run_config(2))
    found = made.train(batches, steps=2).evaluate(batches, steps=2)
    assert found["global_step"] == 2
    names = [f"dense{n}/{part}" for n in ("", "_1") for part in ("bias", "kernel")]
    assert made.get_variable_names() == [*names, "global_step"]


def test_pipelines(tmp_path: Path) -> None:
    def pipeline(mode: str, params: dict[str, float]) -> Any:
        def first(features: Any, labels: Any) -> Any:
            return predicted(features), labels

        def second(found: Any, labels: Any) -> Any:
            loss = tf.reduce_mean(tf.square(found - labels))
            return loss if mode == ModeKeys.TRAIN else (loss, found, labels)

        def optimizer(loss: Any) -> Any:
            made = tf.train.GradientDescentOptimizer(params["rate"])
            return ipu.pipelining_ops.OptimizerFunctionOutput(made, loss)

        def metrics(loss: Any, found: Any, labels: Any) -> dict[str, Any]:
            off = tf.metrics.mean_absolute_error(labels, found)
            return {"loss": loss, "off": off}

        return IPUPipelineEstimatorSpec(
            mode,
            [first, second],
            gradient_accumulation_count=4,
            optimizer_function=optimizer,
            eval_metrics_fn=metrics,
            pipeline_schedule=ipu.pipelining_ops.PipelineSchedule.Interleaved,
        )

    config = run_config(2, 2, num_shards=2)
    made = IPUPipelineEstimator(pipeline, str(tmp_path), config, {"rate": RATE})
    made.train(batches, steps=2)
    assert made.get_variable_value("global_step") == 2  # updates
    w = np.full(2, 0.5, np.float32)
    for _ in range(2):
        # four batches, each example twice, gradients of means of two added up
        w = w - RATE * 2 * X.T @ (X @ w - Y)
    np.testing.assert_allclose(made.get_variable_value("w"), w, rtol=1e-5)
    found = made.evaluate(batches, steps=2)
    np.testing.assert_allclose(found["loss"], np.mean((X @ w - Y) ** 2), rtol=1e-5)
    np.testing.assert_allclose(found["off"], np.mean(np.abs(X @ w - Y)), rtol=1e-5)


def test_pipelines_predict(tmp_path: Path) -> None:
    def pipeline(mode: str, params: dict[str, Any]) -> Any:
        def second(found: Any) -> Any:
            return {"y": found, "twice": found * 2.0} if params["dict"] else found

        return IPUPipelineEstimatorSpec(
            mode, [predicted, second], gradient_accumulation_count=2
        )

    config = run_config(3, 2, num_shards=2)
    trained_w = np.float32([0.25, -1.0])
    with tf.Graph().as_default():
        tf.get_variable("w", initializer=trained_w)
        tf.train.get_or_create_global_step()
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            tf.train.Saver().save(session, str(tmp_path / "model.ckpt"), 0)

    def features() -> Any:
        return tf.data.Dataset.from_tensor_slices(np.tile(X, (2, 1))).batch(2, True)

    made = IPUPipelineEstimator(pipeline, str(tmp_path), config, {"dict": True})
    rows = list(made.predict(features))
    expected = np.tile(X @ trained_w, 2)
    np.testing.assert_allclose([row["y"] for row in rows], expected, rtol=1e-6)
    np.testing.assert_allclose([row["twice"] for row in rows], 2 * expected, rtol=1e-6)
    made = IPUPipelineEstimator(pipeline, str(tmp_path), config, {"dict": False})
    groups = list(made.predict(features, yield_single_examples=False))
    np.testing.assert_allclose(groups, expected.reshape(2, 4), rtol=1e-6)


def told_numbers(folder: Path) -> dict[str, list[tuple[int, float]]]:
    """The numbers in a folder's event files, as TensorBoard reads them."""
    events = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator"
    )
    found = events.EventAccumulator(str(folder)).Reload()
    return {
        tag: [(one.step, one.value) for one in found.Scalars(tag)]
        for tag in found.Tags()["scalars"]
    }


def test_code_of_the_host_for_each_batch(tmp_path: Path) -> None:
    """It accumulates the loss and the sums of labels in variables of the host."""

    def host(loss: Any, labels: Any) -> Any:
        seen = tf.get_variable("seen", [], initializer=tf.zeros_initializer())
        total = tf.get_variable("total", [], initializer=tf.zeros_initializer())
        return [seen.assign_add(loss), total.assign_add(tf.reduce_sum(labels))]

    def with_call(features: Any, labels: Any, mode: str) -> Any:
        loss = tf.reduce_mean(tf.square(predicted(features) - labels))
        train = tf.train.GradientDescentOptimizer(0.0).minimize(loss)
        return IPUEstimatorSpec(
            mode, loss=loss, train_op=train, host_call=(host, [loss, labels])
        )

    made = IPUEstimator(with_call, str(tmp_path), run_config(1))
    made.train(batches, steps=4)
    losses = np.mean((X.sum(1) / 2 - Y).reshape(2, 2) ** 2, axis=1)
    seen = made.get_variable_value("seen")
    np.testing.assert_allclose(seen, 2 * losses.sum(), rtol=1e-5)
    total = made.get_variable_value("total")
    np.testing.assert_allclose(total, 2 * Y.sum(), rtol=1e-5)

    with pytest.raises(ValueError, match=r"iterations_per_loop=1\. Received: 2"):
        IPUEstimator(with_call, str(tmp_path / "a"), run_config(2)).train(batches)
    with pytest.raises(ValueError, match=r"must be \(function, tensors\)"):
        IPUEstimator(
            lambda features, labels, mode: IPUEstimatorSpec(
                mode, loss=1.0, train_op=tf.no_op(), host_call=3
            ),
            str(tmp_path / "b"),
            run_config(1),
        ).train(batches)


def test_summaries_and_what_stands_in_them(tmp_path: Path) -> None:
    config = run_config(2).replace(save_summary_steps=4, log_step_count_steps=4)
    made = IPUEstimator(model, str(tmp_path), config, {"rate": RATE})
    made.train(batches, steps=8)
    found = told_numbers(tmp_path)
    assert [step for step, _ in found["loss"]] == [2, 6]
    assert [step for step, _ in found["global_step/sec"]] == [4, 8]
    losses = []
    for n in (0, 4):
        w = trained(n)
        pair = []
        for part in (slice(0, 2), slice(2, 4)):
            off = X[part] @ w - Y[part]
            pair.append(np.mean(off**2))
            w = w - RATE * X[part].T @ off
        losses.append(np.mean(pair))
    np.testing.assert_allclose([v for _, v in found["loss"]], losses, rtol=1e-5)
    measured = made.evaluate(batches, steps=2, name="again")
    shown = told_numbers(tmp_path / "eval_again")
    assert {tag for tag in shown} == {"loss", "off"}
    assert shown["loss"] == [(8, pytest.approx(measured["loss"]))]


def test_training_and_evaluating_in_turn(tmp_path: Path) -> None:
    config = run_config(2).replace(save_checkpoints_steps=4)
    made = IPUEstimator(model, str(tmp_path), config, {"rate": RATE})
    evaluated: list[int] = []

    def evaluation() -> Any:
        evaluated.append(int(made.get_variable_value("global_step")))
        return batches()

    result, exports = tf_estimator.train_and_evaluate(
        made,
        tf_estimator.TrainSpec(batches, max_steps=10),
        tf_estimator.EvalSpec(evaluation, steps=2, throttle_secs=0),
    )
    # what was saved after the first round of four steps and at the end
    assert evaluated == [4, 8, 10] and exports == []
    w = trained(10)
    np.testing.assert_allclose(result["loss"], np.mean((X @ w - Y) ** 2), rtol=1e-5)
    assert result["global_step"] == 10
    again, _ = tf_estimator.train_and_evaluate(
        made,
        tf_estimator.TrainSpec(batches, max_steps=10),
        tf_estimator.EvalSpec(batches, steps=2),
    )
    assert again == result
    with pytest.raises(TypeError, match="eval_spec"):
        tf_estimator.train_and_evaluate(made, tf_estimator.TrainSpec(batches), None)
    with pytest.raises(TypeError, match="input_fn must be a function"):
        tf_estimator.TrainSpec(batches())
    with pytest.raises(ValueError, match="steps must be at least 1"):
        tf_estimator.EvalSpec(batches, steps=0)


def test_hooks_of_the_model_function_and_listeners(tmp_path: Path, caplog: Any) -> None:
    class Told(tf.train.CheckpointSaverListener):
        steps: list[int]

        def after_save(self, session: Any, global_step_value: int) -> Any:
            self.steps.append(global_step_value)
            return global_step_value >= 4

    told: list[float] = []
    hook = IPULoggingTensorHook(
        every_n_iter=1, formatter=lambda values: str(told.append(float(values["y"])))
    )

    def logged(features: Any, labels: Any, mode: str) -> Any:
        loss = tf.reduce_mean(tf.square(predicted(features) - labels))
        train = tf.train.GradientDescentOptimizer(RATE).minimize(loss)
        with tf.control_dependencies([train]):
            train = tf.group(train, hook.log({"y": labels[0]}))
        return EstimatorSpec(mode, loss=loss, train_op=train, training_hooks=[hook])

    listener = Told()
    listener.steps = []
    config = run_config(1).replace(save_checkpoints_steps=2)
    made = IPUEstimator(logged, str(tmp_path), config)
    made.train(batches, steps=8, saving_listeners=[listener])
    assert listener.steps == [0, 2, 4]
    assert told == [Y[0], Y[2], Y[0], Y[2]]


@pytest.mark.parametrize(
    "options, words",
    [
        ({"save_checkpoints_steps": 1, "save_checkpoints_secs": 1}, "both be set"),
        ({"save_checkpoints_steps": -1}, "save_checkpoints_steps should be at least 0"),
        ({"log_step_count_steps": 0}, "log_step_count_steps should be at least 1"),
        ({"keep_checkpoint_max": -1}, "keep_checkpoint_max should be at least 0"),
        ({"keep_checkpoint_every_n_hours": 0}, "more than 0"),
        ({"model_dir": ""}, "non-empty"),
        ({"tf_random_seed": 1.5}, "must be an integer"),
    ],
)
def test_bad_configurations(options: dict[str, Any], words: str) -> None:
    with pytest.raises((ValueError, TypeError), match=words):
        RunConfig(**options)
    with pytest.raises((ValueError, TypeError), match=words):
        RunConfig().replace(**options)
    with pytest.raises(ValueError, match="has no attribute"):
        RunConfig().replace(no_such=1)


def test_bad_arguments(tmp_path: Path) -> None:
    made = IPUEstimator(model, str(tmp_path), run_config(2), {"rate": RATE})
    with pytest.raises(ValueError, match="both steps and max_steps"):
        made.train(batches, steps=2, max_steps=2)
    with pytest.raises(ValueError, match="multiple of the iterations_per_loop 2"):
        made.train(batches, steps=3)
    with pytest.raises(ValueError, match="Could not find trained model"):
        made.evaluate(batches, steps=2)
    with pytest.raises(ValueError, match="needs `steps`"):
        made.evaluate(batches)
    with pytest.raises(ValueError, match="should return an EstimatorSpec"):
        IPUEstimator(lambda features: None, config=run_config(1)).train(
            batches, steps=1
        )
    with pytest.raises(ValueError, match="must be provided with type"):
        IPUEstimator(model, config={})
    with pytest.raises(ValueError, match="iterations_per_loop must be positive"):
        IPURunConfig(0)
    with pytest.raises(TypeError, match="train_distribute must be a strategy for"):
        RunConfig(train_distribute=object())
    with pytest.raises(ValueError, match="Missing train_op"):
        EstimatorSpec(ModeKeys.TRAIN, loss=1.0)
    with pytest.raises(ValueError, match="needs `gradient_accumulation_count`"):
        IPUPipelineEstimatorSpec(ModeKeys.PREDICT, [abs])
    pipeline = IPUPipelineEstimatorSpec
    with pytest.raises(ValueError, match="chooses `accumulate_outfeed`"):
        pipeline(ModeKeys.PREDICT, [abs], 4, accumulate_outfeed=True)
    with pytest.raises(TypeError, match="Did you mean 'pipeline_schedule'"):
        pipeline(ModeKeys.PREDICT, [abs], 4, pipeline_shedule=None)
    with pytest.raises(ValueError, match="input_fn must return a"):
        made.train(lambda: [1.0], steps=2)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"num_replicas": 2}, "make 2 IPUs, but ipu_options is not given"),
        ({"num_shards": 2}, "make 2 IPUs, but ipu_options is not given"),
        ({"ipu_options": 2}, "make 1 IPUs, but device 0 of ipu_options has 2"),
        (
            {"ipu_options": [1, 4], "num_replicas": 2, "num_shards": 2},
            "make 4 IPUs, but device 0 of ipu_options has 1",
        ),
        ({"ipu_options": [1, 1], "ordinal": 2}, "ordinal=2 names no device"),
    ],
)
def test_devices_that_do_not_go_with_the_run(options: Any, words: str) -> None:
    if "ipu_options" in options:
        device = ipu.config.IPUConfig()
        device.auto_select_ipus = options["ipu_options"]
        options = {**options, "ipu_options": device}
    with pytest.raises(ValueError, match=words):
        IPURunConfig(1, **options)


def test_devices_of_the_first_generation() -> None:
    options = ipu.utils.auto_select_ipus(ipu.utils.create_ipu_config(), [2, 4])
    made = IPURunConfig(1, options, num_replicas=2, num_shards=2, ordinal=1)
    assert made.num_shards == 2
    with pytest.raises(ValueError, match="device 0 of ipu_options has 2"):
        IPURunConfig(1, options)


def test_replicas_that_are_trained_each_on_its_own(tmp_path: Path) -> None:
    config = run_config(1, 2, num_replicas=2)
    made = IPUEstimator(model, str(tmp_path), config, {"rate": RATE})
    with pytest.raises(ValueError, match="CrossReplicaOptimizer"):
        made.train(batches, steps=1)


def test_the_global_step_belongs_to_the_estimator(tmp_path: Path) -> None:
    def counting(features: Any, labels: Any, mode: str) -> Any:
        loss = tf.reduce_mean(tf.square(predicted(features) - labels))
        optimizer = tf.train.GradientDescentOptimizer(RATE)
        train = optimizer.minimize(loss, global_step=tf.train.get_global_step())
        return EstimatorSpec(mode, loss=loss, train_op=train)

    made = IPUEstimator(counting, str(tmp_path), run_config(2))
    with pytest.raises(ValueError, match="must not change the global step"):
        made.train(batches, steps=2)
