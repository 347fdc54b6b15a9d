# SPDX-License-Identifier: MIT
"""Programs that do not fit into an IPU: told when they are compiled, with changes that
make them fit, each tried here as it says."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import ipu
from ipu import keras, tf
from ipu._config.target import target_of
from ipu.gradient_accumulation import GradientAccumulationReductionMethod as Method
from ipu.keras.engine.training import accounting
from ipu.machine import Machine, estimate
from ipu.pipelining_ops import PipelineSchedule, RecomputationMode

SCHEDULES = ("Interleaved", "1F1B", "Sequential")
SMALL = Machine("gc200", tiles=64, tile_bytes=170_000)


@pytest.fixture(autouse=True)
def _reset(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv("IPU_MEMORY", raising=False)
    monkeypatch.delenv("IPU_MACHINE", raising=False)
    yield
    ipu.config.reset_ipu_configuration()


def convolutional(norm: bool = False) -> Any:
    layers = keras.layers
    model = keras.Sequential(
        [
            keras.Input((16, 16, 3)),
            layers.Conv2D(16, 3, padding="same", activation="relu"),
            *([layers.BatchNormalization()] if norm else []),
            layers.Conv2D(16, 3, padding="same", activation="relu"),
            layers.MaxPooling2D(),
            layers.Conv2D(32, 3, padding="same", activation="relu"),
            layers.GlobalAveragePooling2D(),
            layers.Dense(4),
        ]
    )
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model


def configure(**options: Any) -> None:
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = 1
    config.ipu_model.tiles_per_ipu = 8
    for name, value in options.items():
        setattr(config.ipu_model, name, value)
    config.configure_ipu_system()


X = np.zeros((256, 16, 16, 3), np.float32)
Y = np.zeros(256, np.int32)


def fit(model: Any, batch: int = 128) -> None:
    model.fit(X, Y, batch_size=batch, verbose=0)


def applied(model: Any, change: str, batch: int) -> int:
    """Do what a fix of a model says; the size of a batch with it."""
    for part in change.split("; "):
        if part.startswith("batches of "):
            batch = int(part.removeprefix("batches of "))
        else:
            exec(part, {"model": model, "ipu": ipu})
    return batch


def test_fixes_do_what_they_say() -> None:
    """Each change of a model, made on a model of its own."""
    account = convolutional().account(batch_size=128, machine=SMALL)
    assert not account.memory.fits
    fixes = [fix for fix in account.fixes() if "model" in fix.change]
    assert len(fixes) >= 3
    kinds = " ".join(fix.change for fix in fixes)
    assert "accumulation_options" in kinds and "auto_stages" in kinds
    for fix in fixes:
        model = convolutional()
        batch = applied(model, fix.change, 128)
        after = model.account(batch_size=batch, machine=SMALL)
        assert all(memory.fits for memory in after.memories)
        assert after.memory.max_tile == fix.max_tile
        assert account.memory.max_tile - fix.saves == fix.max_tile
        per_sample = (after.seconds / after.samples) / (account.seconds / 128)
        assert per_sample == pytest.approx(fix.price)
    smaller = next(fix for fix in fixes if "accumulation_options" in fix.change)
    model = convolutional()
    batch = applied(model, smaller.change, 128)
    assert smaller.note == "" and model._accumulation_steps * batch == 128
    # the next larger micro-batch does not fit
    model.set_gradient_accumulation_options(64 // batch)
    assert not model.account(batch_size=2 * batch, machine=SMALL).memory.fits


def test_what_changes_results_says_so_and_comes_last() -> None:
    account = convolutional(norm=True).account(batch_size=128, machine=SMALL)
    notes = [bool(fix.note) for fix in account.fixes()]
    assert any(notes) and notes == sorted(notes)
    assert "batch normalisation" in " ".join(fix.note for fix in account.fixes())
    fitting = convolutional().account(batch_size=1, machine="bow")
    assert fitting.memory.fits and fitting.fixes() == []


def test_smaller_batches_help_where_accumulated_gradients_leave_no_room() -> None:
    model = keras.Sequential([keras.Input((256,))])
    for units in (512, 512, 10):
        model.add(keras.layers.Dense(units))
    model.compile("sgd", "mse")
    machine = Machine("gc200", tiles=8)
    [fix] = model.account(batch_size=1024, machine=machine).fixes()
    text = "batches of "
    assert fix.change.startswith(text) and "updated after each of these" in fix.note
    batch = int(fix.change.removeprefix(text))
    after = model.account(batch_size=batch, machine=machine)
    assert after.memory.fits and after.memory.max_tile == fix.max_tile
    assert not model.account(batch_size=2 * batch, machine=machine).memory.fits


def test_pipelines_recompute_and_offload() -> None:
    layers = keras.layers
    model = keras.SequentialPipelineModel(
        [
            [layers.Dense(256, "relu", input_shape=(64,)), layers.Dense(256, "tanh")],
            [layers.Dense(256, "relu"), layers.Dense(4)],
        ],
        16,
    )
    model.compile("sgd", "mse")
    batch = tf.TensorSpec([64, 64]), tf.TensorSpec([64, 4])
    whole = model.account(*batch, machine=Machine("gc200", tiles=16))
    size = 0.9 * whole.memory.max_tile
    machine = Machine("gc200", tiles=16, tile_bytes=size)
    account = model.account(*batch, machine=machine)
    fixes = {fix.change: fix for fix in account.fixes()}
    offload = fixes["model.set_pipelining_options(offload_activations=True)"]
    assert offload.price > 1
    kept = dict(model._pipelining_kwargs)
    model.set_pipelining_options(16, offload_activations=True)
    after = model.account(*batch, machine=machine)
    assert after.memory.fits and after.memory.max_tile == offload.max_tile
    model._pipelining_kwargs = kept
    recompute = next(f for f in fixes if "recomputation_mode" in f and "," not in f)
    model.set_pipelining_options(16, recomputation_mode=RecomputationMode.Auto)
    after = model.account(*batch, machine=machine)
    assert after.memory.max_tile == fixes[recompute].max_tile
    assert all(memory.fits for memory in after.memories)


MEAN = ', gradient_accumulation_reduction_method="mean"'
RECOMPUTE = "recomputation_mode=ipu.pipelining_ops.RecomputationMode.Auto"
OFTEN = "weights are updated after each of these batches"


def model_with(**attributes: Any) -> Any:
    """What changes are found for, without a network."""
    layers = [keras.layers.Dense(1)]
    if attributes.pop("normalises", False):
        layers.append(keras.layers.BatchNormalization())
    stages = attributes.pop("stages", 0)
    given: dict[str, Any] = {
        **{"_is_pipelined": lambda: stages > 0, "_stage_count": lambda: stages},
        **{"_flatten_layers": lambda: layers, "_pipelining_kwargs": {}},
        **{"_accumulation_steps": None, "_pipelining_steps": None},
        "_accumulation_reduction": Method.SUM,
    }
    return SimpleNamespace(**{**given, **attributes})


def changes(model: Any, mode: str, batch: int) -> list[list[Any]]:
    element = (tf.TensorSpec([batch, 3]), tf.TensorSpec([7 * batch]))
    return list(accounting._changes(model, mode, element))


def over_ipus(
    n: int, batch: int, options: str, note: str = "", parts: int = 1
) -> tuple[str, str]:
    cut = f"batches of {batch // parts}; " if parts > 1 else ""
    stages = f"ipu.auto_stages(model, {n}, {batch // parts}, by='memory')"
    return f"{cut}{stages}; model.set_pipelining_options({options})", note


def test_changes_of_a_model_that_are_tried() -> None:
    setter = "model.set_gradient_accumulation_options"
    found = changes(model_with(), "train", 512)
    assert [(one.text, one.note) for one in found[0]] == [
        (f"batches of {512 // n}; {setter}({n}{MEAN})", "")
        for n in (2, 4, 8, 16, 32, 64, 128, 256)
    ]
    assert [one.attributes for one in found[0][:2]] == [
        {"_accumulation_steps": n, "_accumulation_reduction": Method.MEAN}
        for n in (2, 4)
    ]
    assert [one.parts for one in found[0]] == [2 << i for i in range(8)]
    assert [(one.text, one.note, one.attributes) for one in found[1][:2]] == [
        (f"batches of {n}", OFTEN, {}) for n in (256, 128)
    ]
    assert [one.stages for one in (*found[0], *found[1])] == [0] * 16
    found = changes(model_with(), "train", 24)
    assert [one.parts for one in found[0]] == [one.parts for one in found[1]]
    assert [one.parts for one in found[0]] == [2, 4, 8]
    wanted = []
    for end in (MEAN, f", {RECOMPUTE}{MEAN}"):
        wanted.append(
            [
                over_ipus(
                    *(n, 24, f"{2 * n}{end}"), f"an update belongs to {2 * n} batches"
                )
                for n in (2, 4, 8, 16)
            ]
        )
        wanted.append(
            [over_ipus(n, 24, f"{2 * n}{end}", "", 2 * n) for n in (2, 4)],
        )
    assert [[(one.text, one.note) for one in kind] for kind in found[2:]] == wanted
    assert [one.stages for one in (*found[2], *found[3])] == [2, 4, 8, 16, 2, 4]
    assert [one.parts for one in (*found[2], *found[3])] == [1, 1, 1, 1, 4, 8]
    attributes = {
        **{"_pipelining_steps": 4, "_accumulation_steps": None},
        "_accumulation_reduction": Method.MEAN,
    }
    assert found[2][0].attributes == found[3][0].attributes == attributes
    attributes["_pipelining_kwargs"] = {"recomputation_mode": RecomputationMode.Auto}
    assert found[4][0].attributes == attributes


def test_changes_where_something_is_accumulated() -> None:
    model = model_with(_accumulation_steps=12, normalises=True)
    found = changes(model, "train", 8)
    assert len(found) == 5
    notes = "gradients are sums over more batches, batch normalisation sees the smaller"
    setter = "model.set_gradient_accumulation_options"
    assert [(one.text, one.note) for one in found[0]] == [
        (f"batches of {8 // n}; {setter}({12 * n})", f"{notes} batches")
        for n in (2, 4, 8)
    ]
    assert [(one.text, one.note) for one in found[1]] == [
        over_ipus(2, 8, "12"),
        over_ipus(4, 8, "16", "an update belongs to 16 batches"),
        over_ipus(8, 8, "16", "an update belongs to 16 batches"),
        over_ipus(16, 8, "32", "an update belongs to 32 batches"),
    ]
    assert [(one.text, one.note) for one in found[2]] == [
        over_ipus(2, 8, "48", f"{notes} batches", 4),
        over_ipus(4, 8, "96", f"{notes} batches", 8),
    ]
    model._accumulation_reduction = Method.MEAN
    found = changes(model, "train", 8)
    assert found[0][0].note == "batch normalisation sees the smaller batches"
    assert found[0][0].text == f"batches of 4; {setter}(24)"
    assert found[1][0].text == over_ipus(2, 8, f"12{MEAN}")[0]
    found = changes(model_with(normalises=True), "predict", 4)
    assert [[(one.text, one.parts) for one in kind] for kind in found[:1]] == [
        [("batches of 2", 2), ("batches of 1", 4)]
    ]
    assert len(found) == 3 and all(not one.attributes for one in found[0])
    assert [one.stages for one in (*found[1], *found[2])] == [2, 4, 8, 16, 2]
    assert not any("recomputation" in one.text for kind in found for one in kind)


def test_changes_of_a_pipeline() -> None:
    def texts(kinds: list[list[Any]]) -> list[str]:
        return [
            one.text.removeprefix("model.set_pipelining_options")
            for kind in kinds
            for one in kind
        ]

    model = model_with(stages=4, _pipelining_steps=16)
    found = changes(model, "train", 2)
    offload = "offload_activations=True"
    buffers = "offload_gradient_accumulation_buffers"
    variables = "offload_weight_update_variables"
    schedules = [f'(pipeline_schedule="{name}")' for name in SCHEDULES]
    assert texts(found[:8]) == [
        *(f"({RECOMPUTE})", f"({offload})", f"({RECOMPUTE}, {offload})"),
        *(f"({buffers}=True)", f"({variables}=True)", *schedules),
    ]
    mode = {"recomputation_mode": RecomputationMode.Auto}
    parsed = [PipelineSchedule.parse(name) for name in SCHEDULES]
    assert [kind[0].attributes["_pipelining_kwargs"] for kind in found[:8]] == [
        *(mode, {"offload_activations": True}, {**mode, "offload_activations": True}),
        *({buffers: True}, {variables: True}),
        *({"pipeline_schedule": one} for one in parsed),
    ]
    (smaller,) = found[8]
    assert texts([[smaller]]) == ["batches of 1; model.set_pipelining_options(32)"]
    assert smaller.attributes["_pipelining_steps"] == 32
    # more stages than there are, each alone: micro-batches cannot be cut
    assert [[one.stages for one in kind] for kind in found[9:]] == [[8, 16], []] * 2
    kwargs = {**mode, "offload_activations": True, buffers: True}
    model._pipelining_kwargs = kwargs
    found = changes(model, "train", 1)
    assert texts(found[:4]) == [f"({variables}=True)", *schedules]
    assert found[0][0].attributes["_pipelining_kwargs"] == {
        **model._pipelining_kwargs,
        variables: True,
    }
    assert found[4] == []  # a batch of one sample
    assert changes(model, "predict", 1)[0] == []


def test_changes_are_made_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []

    def account(model: Any, mode: str, element: Any, machine: Any, options: Any) -> Any:
        seen.append(
            ([one.shape.as_list() for one in element], options, {**vars(model)})
        )
        if options.get("partials") == "none":
            raise ValueError("none")
        return "an account"

    monkeypatch.setattr(accounting, "_account", account)
    monkeypatch.setattr(accounting, "tree_of", lambda model, stages: list(stages))
    model = model_with(
        _assigned_stages="old", _stages_reset=True, _pipelining_device_mapping=[0, 0]
    )
    before = {**vars(model)}
    element = (tf.TensorSpec([8, 3]), tf.TensorSpec([24]))

    def changed(*changes: Any) -> Any:
        def splits(batch: int) -> Any:
            return SimpleNamespace(
                into=lambda n: SimpleNamespace(stages=[batch, n]),
            )

        found = accounting._changed(
            *(model, "train", element, None, {"a": 1}, list(changes), splits)
        )
        assert vars(model) == before
        return found

    change = accounting._Change
    halves = change("", "", {"_accumulation_steps": 2}, 2)
    staged = change("", "", {"_pipelining_steps": 4}, 1, stages=2)
    assert changed(halves, {"partials": "float16"}, staged) == "an account"
    shapes, options, attributes = seen.pop()
    assert shapes == [[4, 3], [4]] and options == {"a": 1, "partials": "float16"}
    assert attributes == {
        **before,
        **{"_accumulation_steps": 2, "_pipelining_steps": 4},
        **{"_assigned_stages": [8, 2], "_stages_reset": False},
        "_pipelining_device_mapping": None,
    }
    assert changed(staged._replace(parts=4)) == "an account"
    assert seen[-1][0][0] == [2, 3] and seen[-1][2]["_assigned_stages"] == [2, 2]
    assert changed(halves, {"partials": "none"}) is None


def test_fixes_are_of_the_ipu_that_is_configured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    configure()
    asked: list[Any] = []

    def fixes_of_options(before: Any, request: Any, account: Any) -> list[Any]:
        asked.append((request, account(partials="float16")))
        return ["of options"]

    def together(fixes: list[Any], account: Any) -> list[Any]:
        return fixes

    monkeypatch.setattr(accounting, "fixes_of_options", fixes_of_options)
    monkeypatch.setattr(accounting, "tried_together", together)
    monkeypatch.setattr(accounting, "_changes", lambda *given: iter(()))
    monkeypatch.setattr(accounting, "_account", lambda *given: given[-1])
    given = (model_with(), "train", None, None)
    for tiles in (8, 1472):
        options = {"partials": "float32", "b": 2}
        found = accounting.fixes_of_model(*given, machine="bow", options=options)
        ((request, options),) = asked
        assert found == ["of options"] and options == {"partials": "float16", "b": 2}
        assert request[0] == Machine("gc200", tiles=tiles)._chip
        asked.clear()
        ipu.config.reset_ipu_configuration()


def test_a_warning_when_it_is_compiled() -> None:
    configure()
    with ipu.ipu_strategy.IPUStrategy().scope():
        model = convolutional()
        with pytest.warns(UserWarning, match="does not fit into an IPU") as seen:
            fit(model)
        text = str(seen[0].message)
        for part in (
            "Machine('gc200', tiles=8",
            "always live",
            "float32[128,16,16,16]",
            "conv2d",
            __file__,
            "set_gradient_accumulation_options",
            "IPU_MEMORY=enforce",
        ):
            assert part in text, part
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            fit(model)  # said once: the program is kept
            fit(model, 4)


def test_diagnosing_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    weights = []
    for memory in ("off", "warn"):
        monkeypatch.setenv("IPU_MEMORY", memory)
        configure()
        tf.random.set_seed(3)
        with ipu.ipu_strategy.IPUStrategy().scope():
            model = convolutional(norm=True)
            before = {
                name: getattr(model, name)
                for name in ("_pipelining_steps", "_assigned_stages", "_stages_reset")
            }
            x = np.random.default_rng(0).normal(size=X.shape).astype(np.float32)
            with warnings.catch_warnings(record=True) as seen:
                warnings.simplefilter("always")
                model.fit(x, Y, batch_size=128, verbose=0)
            assert any("does not fit" in str(one.message) for one in seen) == (
                memory == "warn"
            )
            for name, value in before.items():
                assert getattr(model, name) == value
            weights.append(model.get_weights())
        ipu.config.reset_ipu_configuration()
    for a, b in zip(*weights, strict=True):
        assert a.tobytes() == b.tobytes()


def test_memory_is_enforced(monkeypatch: pytest.MonkeyPatch) -> None:
    configure(enforce_memory=True)
    with ipu.ipu_strategy.IPUStrategy().scope():
        model = convolutional()
        with pytest.raises(
            tf.errors.ResourceExhaustedError, match="does not fit into an IPU"
        ) as raised:
            fit(model)
        assert "enforce_memory = False" in str(raised.value)
        fit(model, 4)  # and goes on
        monkeypatch.setenv("IPU_MEMORY", "off")  # it holds for what is compiled next
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            fit(convolutional())


def test_functions_are_told_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    @tf.function(jit_compile=True)
    def large(x: Any) -> Any:
        return tf.matmul(tf.nn.relu(tf.matmul(x, x)), x)

    configure(enforce_memory=True)
    strategy = ipu.ipu_strategy.IPUStrategy()
    with strategy.scope(), pytest.raises(tf.errors.ResourceExhaustedError) as raised:
        strategy.run(large, [tf.ones((1024, 1024))])
    assert "ipu.machine.estimate" in str(raised.value)
    # where nobody speaks of an IPU, nobody is told
    ipu.config.reset_ipu_configuration()
    monkeypatch.setenv("IPU_MACHINE", "gc200,tiles=8")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        large(tf.ones((1024, 1024)))
    monkeypatch.setenv("IPU_MEMORY", "enforce")
    ipu.config.reset_ipu_configuration()
    with strategy.scope(), pytest.raises(tf.errors.ResourceExhaustedError):
        strategy.run(large, [tf.ones((1040, 1040))])


def test_options_of_products_change_accounts_and_nothing_else() -> None:
    spec = tf.TensorSpec([4096, 4096], tf.float16)
    plain = estimate(tf.matmul, spec, spec)
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = 1
    config.matmuls.poplar_options = {"availableMemoryProportion": "0.1"}
    config.configure_ipu_system()
    tight = estimate(tf.matmul, spec, spec)
    assert tight.memory.temporary < plain.memory.temporary
    assert tight.cycles > plain.cycles
    config.matmuls.poplar_options = {"partialsType": "half"}
    config.configure_ipu_system()
    assert estimate(tf.matmul, spec, spec).cycles < plain.cycles
    # an argument comes before the configuration
    same = estimate(tf.matmul, spec, spec, partials="float32")
    assert same.cycles == plain.cycles
    config.ipu_model.version = "ipu21"
    config.io_tiles.num_io_tiles = 32
    config.configure_ipu_system()
    account = estimate(tf.nn.relu, spec)
    assert repr(account.machine) == "Machine('bow', tiles=1440)"


def test_which_ipu_is_meant() -> None:
    assert target_of(None, {}).name == "gc200"
    assert target_of(None, {}).memory == "off"
    options = {"ipu_model.version": "ipu1", "ipu_model.tiles_per_ipu": 100}
    assert target_of(options, {}).request()[0] == Machine("gc2", tiles=100)._chip
    given = target_of(options, {"IPU_MACHINE": "c600"})
    assert given.request()[0] == Machine("c600")._chip and given.memory == "warn"
    with pytest.raises(ValueError, match="IPU_MACHINE=bow,tiles is not a machine"):
        target_of(None, {"IPU_MACHINE": "bow,tiles"})
    with pytest.raises(ValueError, match="There is no machine 'baw'"):
        target_of(None, {"IPU_MACHINE": "baw"}).request()
    with pytest.raises(ValueError, match="IPU_MEMORY=never must be one of"):
        target_of(None, {"IPU_MEMORY": "never"})


@pytest.mark.parametrize("by", ["cycles", "memory"])
def test_stages_by_what_an_ipu_takes(by: str) -> None:
    model = convolutional()
    split = ipu.auto_stages(model, 3, batch_size=16, by=by)
    assert sorted(set(split.stages)) == [0, 1, 2]
    costs = [call.on_ipu for call in split.calls]
    assert all(cost >= 0 for cost in costs) and sum(costs) > 0

    def heaviest(stages: list[int]) -> float:
        return max(
            sum(c for c, at in zip(costs, stages, strict=True) if at == stage)
            for stage in range(3)
        )

    count = len(costs)
    every = [
        [0] * a + [1] * (b - a) + [2] * (count - b)
        for a in range(1, count)
        for b in range(a + 1, count)
    ]
    assert heaviest(split.stages) == min(map(heaviest, every))
    with pytest.raises(ValueError, match="`by` must be one of"):
        ipu.auto_stages(model, 2, by="bytes")
