# SPDX-License-Identifier: MIT
"""Accounts of well-known networks, and of one that does not fit, with its fixes."""

from __future__ import annotations

from typing import Any

import pytest
from benchmarks import machine_networks
from test_doctor import applied

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
    for i, fix in enumerate(fixes[:3]):
        alone = after(machine_networks.made("resnet50"), [fix.change])
        assert all(memory.fits for memory in alone.memories)
        assert alone.memory.max_tile == fix.max_tile
        # and one after the other, on one model
        if fix.together is not None:
            all_of_them = [f.change for f in fixes[: i + 1]]
            both = after(together, all_of_them)
            assert all(memory.fits for memory in both.memories), fix.change
            assert both.memory.max_tile == fix.together
