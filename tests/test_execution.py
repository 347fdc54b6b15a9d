# SPDX-License-Identifier: MIT
"""What the options of a model settle, before there is a program."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ipu import keras
from ipu._device import processes, strategy_state
from ipu.keras.engine.pipelines.ipu_options import ReplicatedMetricReductionMethod
from ipu.keras.engine.training import device_steps, execution
from ipu.keras.engine.training.device_steps import (
    AccumulatedSteps,
    PipelinedSteps,
    PlainSteps,
    Steps,
    wants_captured,
)
from ipu.keras.engine.training.execution import (
    Execution,
    make_steps,
    over_replicas,
    settle,
)


def model_of(**given: Any) -> Any:
    """A model as its options are seen."""
    is_pipelined = given.pop("is_pipelined", False)
    overrides = given.pop("overrides", ())
    made = SimpleNamespace(
        _is_pipelined=lambda: is_pipelined,
        _stage_count=lambda: 3,
        _overrides=lambda name: name in overrides,
        _device_step=lambda mode, weights: (mode, weights),
        _pipelining_device_mapping=None,
        _pipelining_steps=None,
        _accumulation_steps=None,
        _steps_per_execution=1,
        _is_paced=False,
        _serialized=1,
        _pipelining_accumulate_outfeed=None,
        _pipelining_kwargs={},
        _accumulation_kwargs={},
        _accumulation_reduction="sum",
        optimizer=keras.optimizers.SGD(),
        trainable_variables=["w"],
    )
    vars(made).update(given)
    return made


@pytest.mark.parametrize(
    ("mode", "options", "wanted"),
    [
        ("train", {}, (False, 1, 7)),
        ("train", {"_accumulation_steps": 4}, (False, 4, 7)),
        ("test", {"_accumulation_steps": 4}, (False, 1, 7)),
        ("train", {"is_pipelined": True, "_pipelining_steps": 8}, (True, 8, 7)),
        ("test", {"is_pipelined": True, "_pipelining_steps": 8}, (True, 1, 7)),
        ("predict", {"is_pipelined": True}, (True, 1, 7)),
        ("train", {"overrides": ["train_step", "make_train_function"]}, (False, 1, 7)),
        (
            "test",
            {"_accumulation_steps": 4, "overrides": ["train_step"]},
            (False, 1, 7),
        ),
        (
            "train",
            {"_accumulation_steps": 4, "overrides": ["test_step"]},
            (False, 4, 7),
        ),
        (
            "predict",
            {"is_pipelined": True, "overrides": ["compute_loss"]},
            (True, 1, 7),
        ),
    ],
)
def test_settings_of_an_execution(mode: str, options: Any, wanted: Any) -> None:
    assert settle(model_of(**options), mode, replicas=7) == wanted


def test_updates_of_a_pipeline_that_was_told_none() -> None:
    model = model_of(is_pipelined=True)
    with pytest.raises(ValueError, match="has not been set through `set_pipelining_op"):
        settle(model, "train", replicas=1)
    assert settle(model, "train", True, 1).per_update == 6
    model._steps_per_execution = 9
    assert settle(model, "train", True, 1).per_update == 9


@pytest.mark.parametrize(
    ("mode", "options", "words"),
    [
        (mode, {"is_pipelined": True, "_pipelining_steps": 8, "overrides": [name]}, "")
        for mode, name in (
            *(("train", "train_step"), ("train", "predict_step")),
            *(("predict", "test_step"), ("predict", "make_predict_function")),
            *(("train", "compute_loss"), ("test", "compute_metrics")),
        )
    ]
    + [
        (
            "train",
            {"_accumulation_steps": 2, "overrides": [name]},
            "trained with gradient accumulation",
        )
        for name in ("train_step", "make_train_function")
    ],
)
def test_own_functions_are_refused(mode: str, options: Any, words: str) -> None:
    (name,) = options["overrides"]
    what = f"`{name}` of .* overridden, but a model that is {words or 'pipelined'}"
    with pytest.raises(RuntimeError, match=what):
        settle(model_of(**options), mode, replicas=1)


def test_own_ways_to_minimise_are_refused() -> None:
    class Own(keras.optimizers.SGD):
        def minimize(self, *args: Any, **kwargs: Any) -> Any:
            return None

    for options in (
        {"_accumulation_steps": 2},
        {"is_pipelined": True, "_pipelining_steps": 1},
    ):
        model = model_of(optimizer=Own(), **options)
        with pytest.raises(
            ValueError, match=r"minimize\. Received: Own\. Override app"
        ):
            settle(model, "train", replicas=1)
        settle(model, "test", replicas=1)
    settle(model_of(optimizer=Own()), "train", replicas=1)


def test_replicas_of_the_ipus(monkeypatch: pytest.MonkeyPatch) -> None:
    device = SimpleNamespace(num_ipus=8, process_count=3)
    taken: list[int] = []
    monkeypatch.setattr(execution, "current_device", lambda: device)
    strategy = SimpleNamespace(_takes=taken.append)
    for known in (None, strategy):
        monkeypatch.setattr(strategy_state, "get_strategy", lambda known=known: known)
        for mapping, wanted in ((None, 6), ([0, 1, 1], 12), ([0, 0, 0], 24)):
            options = {"is_pipelined": True, "_pipelining_device_mapping": mapping}
            assert settle(model_of(**options), "test").replicas == wanted
        assert settle(model_of(), "test").replicas == 24
    assert taken == [4, 2, 1, 1]
    device.num_ipus = 3
    with pytest.raises(ValueError, match=r"has 3 IPUs attached.* a multiple of 4 IPUs"):
        settle(model_of(is_pipelined=True), "test")
    device.num_ipus = 4
    assert settle(model_of(is_pipelined=True), "test").replicas == 3


def test_results_of_replicas(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.array([[1.0, 2.0, 6.0], [3.0, 4.0, 8.0]], np.float32)
    kinds = ReplicatedMetricReductionMethod

    def reduced(mode: str, kind: Any, replicas: int = 3, given: Any = values) -> Any:
        model: Any = SimpleNamespace(_replicated_reduction=kind)
        function = over_replicas(model, mode, replicas)
        assert function is not None
        found = function(given)
        assert found.dtype == np.float32
        return found.tolist()

    assert over_replicas(SimpleNamespace(), "train", 1) is None  # type: ignore[arg-type]
    assert reduced("train", kinds.NONE) == [6.0, 8.0]
    assert reduced("train", kinds.LIST) == values.tolist()
    assert reduced("test", kinds.SUM) == [9.0, 15.0]
    assert reduced("test", kinds.MEAN) == [3.0, 5.0]
    assert reduced("predict", kinds.SUM) == [1.0, 2.0, 6.0, 3.0, 4.0, 8.0]
    rows = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    assert np.shape(reduced("predict", kinds.NONE, 3, rows)) == (6, 4)
    # of several processes, of which each has one or several
    shared = SimpleNamespace(count=3, allgather=lambda own: [own, own + 1, own + 2])
    monkeypatch.setattr(processes, "shared", lambda: shared)
    assert reduced("train", kinds.LIST, 3, values[:, 0]) == [[1, 2, 3], [3, 4, 5]]
    wanted = [[1, 2, 2, 3, 3, 4], [3, 4, 4, 5, 5, 6]]
    assert reduced("train", kinds.LIST, 6, values[:, :2]) == wanted


def test_executions_are_whole_updates() -> None:
    check = execution._check_divides
    check(Execution(False, 3, 1), 6, None)
    for is_pipelined, what in ((False, "The model"), (True, "The pipelined model")):
        settings = Execution(is_pipelined, 4, 1)
        for per_execution, given, words in (
            (6, None, "Give it steps_per_execution=4."),
            (
                6,
                6,
                "(set to 6) is not divisible by "
                "`gradient_accumulation_steps_per_replica` (set to 4). Give `compile` "
                "a steps_per_execution that is.",
            ),
            (
                6,
                8,
                "(set to 4). You gave 8, but an epoch has 6 steps of a replica. Give "
                "`compile` a steps_per_execution that is.",
            ),
        ):
            with pytest.raises(RuntimeError) as caught:
                check(settings, per_execution, given)
            text = str(caught.value)
            assert text.startswith(f"{what} has been configured") and words in text
            assert ("You gave" in words) == ("You gave" in text)


def test_steps_of_a_model() -> None:
    single = Execution(False, 1, 1)
    for mode, model in (
        *(("test", model_of()), ("predict", model_of())),
        ("train", model_of(trainable_variables=[], _accumulation_steps=2)),
    ):
        made = make_steps(model, mode, single, 5, "weights")
        assert type(made) is PlainSteps and made._step == (mode, "weights")
        made._settle()
    settled: list[Any] = []
    places = SimpleNamespace(settle=lambda *given: settled.append(given))
    model = model_of(_accumulation_kwargs={"offload_weight_update_variables": True})
    with pytest.MonkeyPatch.context() as patch:
        asked: list[Any] = []
        of = lambda *given: (asked.append(given), places)[1]  # noqa: E731
        patch.setattr(execution.StatePlaces, "of", of)
        plain = make_steps(model, "train", single, 5)
        plain._settle()  # type: ignore[attr-defined]
        make_steps(model, "test", single, 5)  # no update, no state
        model.trainable_variables = []
        make_steps(model, "train", single, 5)
        model.trainable_variables = ["w"]
        model._accumulation_kwargs |= {
            **{"dtype": "float16", "reduction_method": "mean"},
            "replicated_optimizer_state_sharding": True,
        }
        made = make_steps(model, "train", Execution(False, 5, 1), 5)
        made._settle()  # type: ignore[attr-defined]
    assert type(plain) is PlainSteps and type(made) is AccumulatedSteps
    assert asked == [(True, False), (True, True)]
    assert settled == [(model.optimizer, ["w"])] * 2
    assert (made._per_update, made._method, made._dtype) == (5, "mean", "float16")
    model._accumulation_kwargs = {}
    made = make_steps(model, "train", Execution(False, 5, 1), 5)
    assert (made._method, made._dtype) == ("sum", None)  # type: ignore[attr-defined]
    model._accumulation_kwargs = {"dtyp": 1}
    with pytest.raises(TypeError, match="unexpected keyword argument 'dtyp'"):
        make_steps(model, "train", Execution(False, 5, 1), 5)
    make_steps(model, "train", single, 5)  # nothing is accumulated
    with pytest.raises(RuntimeError, match="steps_per_execution=4"):
        make_steps(model_of(_is_paced=True), "train", Execution(False, 4, 1), 5)
    with pytest.raises(RuntimeError, match="You gave 1, but an epoch has 5"):
        make_steps(model_of(), "train", Execution(False, 4, 1), 5)


@pytest.mark.parametrize("count", [1, 2])
def test_states_are_settled_once_steps_are_traced(
    count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    settled: list[Any] = []
    places = SimpleNamespace(settle=lambda *given: settled.append(given))
    monkeypatch.setattr(execution.StatePlaces, "of", lambda *given: places)
    model = keras.Sequential([keras.layers.Dense(1, input_shape=(2,))])
    model.set_gradient_accumulation_options(count)
    model.compile("sgd", "mse", steps_per_execution=2)
    model.fit(np.ones((4, 2)), np.ones((4, 1)), 2, verbose=0)
    assert settled == [(model.optimizer, model.trainable_variables)]


def test_steps_of_a_pipeline() -> None:
    staged = Execution(True, 4, 1)
    for mode, sums, steps, has_sums in (
        *(("train", None, 4, False), ("train", True, 4, True)),
        *(("test", True, 8, True), ("predict", True, 8, False)),
    ):
        model = model_of(_pipelining_accumulate_outfeed=sums)
        made: Any = make_steps(model, mode, staged, 8, "weights")
        assert type(made) is PipelinedSteps and made._class_weight == "weights"
        assert (made._mode, made._steps, made._has_sums) == (mode, steps, has_sums)
        assert made.steps_of(3) == (3 * steps if has_sums else 3)
    model = model_of(_serialized=3)
    with pytest.raises(ValueError, match=r"execution of 4 steps cannot be cut .*ons=3"):
        make_steps(model, "train", staged, 12)
    with pytest.raises(ValueError, match="execution of 8 steps cannot be cut"):
        make_steps(model, "test", staged, 8)
    make_steps(model, "test", staged, 12)
    model = model_of(_pipelining_kwargs={"offload_activation": True})
    with pytest.raises(TypeError, match="offload_activations"):
        make_steps(model, "test", staged, 8)


def test_steps_that_say_nothing() -> None:
    steps = Steps()
    assert steps.steps_of(3) == 3 and steps.arrangement()([1]) == [1]
    with pytest.raises(NotImplementedError):
        steps.build(1, None, None, 0)  # type: ignore[arg-type]
    assert wants_captured(keras.optimizers.SGD()) is False
    assert wants_captured(SimpleNamespace(supports_captured_grads=1)) is True


def test_the_pipeline_of_a_model(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Any] = []
    staged = SimpleNamespace(functions=["f"], arrangement=lambda: "arranged")
    monkeypatch.setattr(
        device_steps, "StagedStep", lambda *_, **how: (told.append(how), staged)[1]
    )
    pipeline = SimpleNamespace(pipeline=lambda *given, **how: told.append((given, how)))
    monkeypatch.setattr(device_steps, "pipelining_ops", pipeline)
    model = model_of(
        _serialized=2, name="m", metrics=["a"], _pipelining_device_mapping=[0, 1]
    )
    plain = {
        **{"gradient_accumulation_count": 4, "repeat_count": 3, "infeed_queue": "in"},
        **{"outfeed_queue": "out", "device_mapping": [0, 1], "name": "m"},
        **{"accumulate_outfeed": True, "batch_serialization_iterations": 2},
    }
    made = PipelinedSteps(model, "test", 8, True, {"offload_activations": True})
    infeed: Any = "in"
    outfeed: Any = "out"
    made.build(24, infeed, outfeed, 0)
    assert told == [
        {"parts": 8},
        ((["f"],), {**plain, "offload_activations": True}),
    ]
    assert made.arrangement() == "arranged"
    told.clear()
    options = {"reduction_method": "mean"}
    for given, reduction in (({}, "sum"), (options, "mean")):
        made = PipelinedSteps(model, "train", 8, False, given)
        made.build(24, infeed, outfeed, 0)
        _, how = told.pop()
        assert how == {
            **plain,
            **{"accumulate_outfeed": False, "reduction_method": reduction},
            **{"optimizer_function": made._optimizer_function},
            **{"gradient_accumulation_for_captured_grads": False},
            "outfeed_mask": [True, False, False],
        }
    assert told[0] == {"parts": 1}
