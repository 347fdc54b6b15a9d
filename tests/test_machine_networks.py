# SPDX-License-Identifier: MIT
"""Accounts of well-known networks, and of one that does not fit, with its fixes; and
six small programs whose accounts are pinned, step by step.

IPU_UPDATE_GOLDEN=1 writes the golden files anew: who changes a formula reads what it
changed.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks import machine_networks
from test_doctor import applied

import ipu
from ipu import keras, tf
from ipu.machine import Account, estimate

GOLDEN = Path(__file__).parent / "golden" / "accounts"

# multiplications and additions of a sample, as published: He and others; Devlin and
# others' encoder, 2 x 85 M weights x 384 places and attention; Dosovitskiy and others
GFLOPS = {"resnet50": 2 * 4.1, "bert_base": 70.5, "vit_base": 2 * 17.5}
# M weights: the networks' own, but for poolers, segments and the class token
WEIGHTS = {"resnet50": 25.6, "bert_base": 108.8, "vit_base": 86.4}


@pytest.fixture(scope="module")
def networks() -> dict[str, Any]:
    return {name: machine_networks.made(name) for name in machine_networks.NETWORKS}


@pytest.mark.parametrize("name", list(GFLOPS))
def test_inference_of_networks(networks: dict[str, Any], name: str) -> None:
    model = networks[name]
    weights = sum(w.shape.num_elements() for w in model.trainable_weights) / 1e6
    assert weights == pytest.approx(WEIGHTS[name], rel=0.02)
    one, four = (
        model.account(batch_size=n, training=False, machine="bow") for n in (1, 4)
    )
    assert one.cycles < four.cycles < 4 * one.cycles
    assert one.memory.fits and one.estimated_share < 0.05
    assert one.memory.variables == pytest.approx(2e6 * weights, rel=0.05)
    rate = GFLOPS[name] * 1e9 * four.samples_per_second
    assert 0.05 < rate / 174e12 < 1  # the peak of half inputs with sums in float
    assert sum(step.all_cycles for step in four.steps) == pytest.approx(four.cycles)


@pytest.mark.slow  # smaller models are in test_machine.py and test_doctor.py
def test_a_network_that_does_not_fit_gets_fixes_that_do_what_they_say(
    networks: dict[str, Any],
) -> None:
    model = networks["resnet50"]
    account = model.account(batch_size=16, machine="bow")
    assert not account.memory.fits
    fixes = account.fixes()
    assert len(fixes) >= 3

    def after(model: Any, changes: list[str], batch: int = 16) -> Any:
        options = {}
        for change in changes:
            if "poplar_options" not in change:
                batch = applied(model, change, batch)
            else:  # options of products
                options["available_memory"] = float(
                    change.rpartition(': "')[2].rstrip('"}')
                )
        return model.account(batch_size=batch, machine="bow", **options)

    together = machine_networks.made("resnet50")
    for i, fix in enumerate(fixes[:2]):
        alone = after(machine_networks.made("resnet50"), [fix.change])
        assert all(memory.fits for memory in alone.memories)
        assert alone.memory.max_tile == fix.max_tile
        # and one after the other, on one model
        if fix.together is not None:
            all_of_them = [f.change for f in fixes[: i + 1]]
            both = after(together, all_of_them) if i else alone
            assert all(memory.fits for memory in both.memories), fix.change
            assert both.memory.max_tile == fix.together


# --- pinned accounts ------------------------------------------------------------------


def dense_training() -> Account:
    model = keras.Sequential([keras.Input((784,))], name="net")
    for units, activation in ((128, "relu"), (10, None)):
        model.add(keras.layers.Dense(units, activation, name=f"dense_{units}"))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(0.1, momentum=0.9), loss)
    return model.account(batch_size=32, machine="bow")


def convolutional_training() -> Account:
    layers = keras.layers
    model = keras.Sequential(
        [
            keras.Input((28, 28, 3)),
            layers.Conv2D(16, 3, padding="same", name="first"),
            layers.BatchNormalization(name="norm"),
            layers.ReLU(name="relu"),
            layers.MaxPooling2D(name="pool"),
            layers.Conv2D(32, 3, 2, padding="same", name="second"),
            layers.GlobalAveragePooling2D(name="mean"),
            layers.Dense(10, name="head"),
        ],
        name="net",
    )
    model.compile("adam", "mse")
    return model.account(batch_size=16, machine="gc200")


def pipeline_training() -> Account:
    stages = [
        [keras.layers.Dense(256, "relu", input_shape=(64,), name="wide")],
        [keras.layers.Dense(10, name="head")],
    ]
    model = keras.SequentialPipelineModel(stages, 4, name="net")
    model.compile("sgd", "mse")
    specs = tf.TensorSpec([32, 64]), tf.TensorSpec([32, 10])
    return model.account(*specs, machine="gc2")


def attention_inference() -> Account:
    def attend(q: Any, k: Any, v: Any) -> Any:
        scores = tf.nn.softmax(tf.matmul(q, k, transpose_b=True) * 0.125)
        return tf.matmul(scores, v)

    spec = tf.TensorSpec([4, 12, 128, 64], tf.float16)
    return estimate(attend, spec, spec, spec, machine="c600", samples=4)


def recurrent_training() -> Account:
    model = keras.Sequential(
        [
            keras.Input((20,), dtype="int32"),
            keras.layers.Embedding(1000, 64, name="words"),
            keras.layers.LSTM(64, name="lstm"),
            keras.layers.Dense(2, name="head"),
        ],
        name="net",
    )
    model.compile("sgd", "mse")
    return model.account(batch_size=8, machine="bow")


def replicated_loop() -> Account:
    weight = tf.Variable(np.zeros((256, 256), np.float32))

    @tf.function
    def run(x: Any) -> Any:
        for _ in tf.range(10):
            x = tf.tanh(x @ weight)
        return ipu.cross_replica_ops.cross_replica_sum(tf.reduce_mean(x, 0))

    return estimate(run, tf.TensorSpec([64, 256]), machine="bow", replicas=4)


def as_pinned(account: Account) -> str:
    """The account without lines of the test's own, step by step."""
    rows = [f"{account.machine!r}: {account.cycles:.0f} cycles"]
    for memory in account.memories:
        rows.append(
            f"IPU {memory.ipu}: variables {memory.variables:.0f}, "
            f"code {memory.code:.0f}, live {memory.live:.0f}, "
            f"temporary {memory.temporary:.0f}, "
            f"fullest tile {memory.fullest_tile}: {memory.max_tile:.0f} bytes"
        )
        rows += [
            f"    {one.name} {one.type} on {one.tiles} tiles from {one.first_tile} on"
            for one in memory.held
        ]
    for step in account.steps:
        rows.append(
            f"{step.ipu} {step.kind:<10} {step.cycles:>7.0f} x {step.times:<3g} on "
            f"{step.tiles:>4}  {step.name}{' (estimate)' if step.is_estimated else ''}"
        )
    return "\n".join(rows) + "\n"


@pytest.mark.parametrize(
    "program",
    [
        dense_training,
        convolutional_training,
        pipeline_training,
        attention_inference,
        recurrent_training,
        replicated_loop,
    ],
)
def test_accounts_are_pinned(program: Callable[[], Account]) -> None:
    keras.backend.reset_uids()  # layers inside of others have numbers
    text = as_pinned(program())
    path = GOLDEN / f"{program.__name__}.txt"
    if os.environ.get("IPU_UPDATE_GOLDEN") == "1":
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == text
