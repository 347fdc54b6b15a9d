# SPDX-License-Identifier: MIT
"""Accounts of random programs, networks and pipelines on random machines.

What holds of each account is checked anew from its rows: sums, bounds by arithmetic
and bytes, what is live together. In ``tests``, ``python -m test_machine_fuzz SEED``
checks one seed of each kind.
"""

from __future__ import annotations

import json
import linecache
import math
import random
import re
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import test_random_pipelines as pipelines
from fuzz.check import _Check, load
from fuzz.generate import generate

from ipu import _core, keras, tf
from ipu.machine import Account, Machine, estimate
from ipu.tf._functions.tracing import trace_alone

MACHINES = sorted(_core.machine_chips())
# multiplications and additions of a tile in a cycle, at the most
FLOPS = {"float16": 4 * 32, "float32": 32}
PART = 1e-9  # of rounding, when sums are compared


def machine_of(rng: random.Random) -> Machine:
    fields: dict[str, float] = {}
    if rng.random() < 0.5:
        fields["tiles"] = rng.choice([1, 2, 7, 100, 1472, 5000])
    if rng.random() < 0.3:
        fields["tile_bytes"] = rng.choice([1000, 50_000, 10**6])
    for field in ("exchange_bytes", "link_bytes", "host_bytes", "clock"):
        if rng.random() < 0.1:
            known = getattr(Machine("bow"), field)
            fields[field] = known * rng.choice([0.5, 3.0])
    return Machine(rng.choice(MACHINES), **fields)


def options_of(rng: random.Random) -> dict[str, Any]:
    return {
        "machine": machine_of(rng),
        "partials": rng.choice([None, "float16", "float32"]),
        "available_memory": rng.choice([None, 0.01, 0.2, 0.9, 1.0]),
        "replicas": rng.choice([1, 1, 2, 16]),
    }


def request_of(options: dict[str, Any]) -> Any:
    share = options["available_memory"] or 0.6
    has_half = options["partials"] == "float16"
    chip = options["machine"]._chip
    plans = True, False
    count = float(options["replicas"])
    return chip, (share, share, 0.6), (has_half,) * 2, plans, count, 1.0, True


# --- what holds of every account ------------------------------------------------------


def numbers(data: Any) -> Iterator[float]:
    if isinstance(data, dict):
        data = list(data.values())
    if isinstance(data, list):
        for one in data:
            yield from numbers(one)
    elif isinstance(data, (int, float)):
        yield data


def bytes_of(kind: str) -> int:
    """Of a tensor "float32[3,4]"."""
    dtype, sizes = re.fullmatch(r"(\w+)\[([\d,]*)\]", kind).groups()  # type: ignore
    count = math.prod(int(size) for size in sizes.split(",") if size)
    return count * tf.as_dtype(dtype).size


def check_places(memory: Any) -> None:
    """No two things lie at one address at the same time, nor where code is."""
    begins = sorted(memory.places, key=lambda one: one.first)
    there: list[Any] = []
    for one in begins:
        there = [other for other in there if other.last >= one.first]
        for other in there:
            apart = one.address + one.bytes <= other.address
            assert apart or other.address + other.bytes <= one.address, (one, other)
        there.append(one)
    low = min((one.address for one in memory.places), default=memory.tile_bytes)
    assert memory.with_gaps == memory.code + memory.tile_bytes - low
    assert all(p.address + p.bytes <= memory.tile_bytes for p in memory.places)
    at_peak = [p for p in memory.places if p.first <= memory.peak <= p.last]
    on_tile = sum(p.bytes for p in at_peak if p.kind != "temporary") + memory.code
    assert on_tile == memory.per_tile[memory.fullest_tile]


def check_memory(memory: Any) -> None:
    live: dict[int, float] = {}
    for one in memory.tensors:
        assert one.copies >= 1 and one.bytes == one.copies * bytes_of(one.type), one
        assert 0 <= one.first <= one.last
        # where the most are live together, one begins
        live.setdefault(one.first, 0.0)
    for at in live:
        live[at] = sum(o.bytes for o in memory.tensors if o.first <= at <= o.last)
    assert memory.live == max(live.values(), default=0.0)
    assert sum(one.bytes for one in memory.by_tensor) == memory.live
    assert memory.liveness.max(initial=0.0) == memory.live
    assert memory.code > 0
    assert memory.always_live == memory.variables + memory.code * memory.tiles
    assert memory.total == memory.always_live + memory.live
    tiles = memory.per_tile
    assert len(tiles) == memory.tiles and tiles.sum() == memory.total
    anew = np.full(memory.tiles, memory.code)
    for one in (*memory.held, *memory.by_tensor):
        count, size = sum(one.elements), bytes_of(one.type)
        assert len(one.elements) == one.tiles <= memory.tiles, one
        assert 0 <= one.first_tile < memory.tiles
        each = size // count if count else 0
        assert count * each == size, one
        for i, n in enumerate(one.elements):
            anew[(one.first_tile + i) % memory.tiles] += n * each * one.copies
    assert (anew == tiles).all()
    assert sum(one.bytes for one in memory.held) == memory.variables
    assert memory.max_tile == memory.with_gaps
    assert max(tiles.max(), memory.code + memory.temporary) <= memory.max_tile
    assert tiles[memory.fullest_tile] == tiles.max()
    assert sum(memory.code_by.values()) == memory.code
    check_places(memory)
    assert memory.fits == (memory.max_tile <= memory.tile_bytes)


def check_account(account: Account) -> None:
    data = json.loads(account.to_json())
    for one in (place for memory in data["memories"] for place in memory["places"]):
        assert math.isfinite(one.pop("address"))  # below 0 where it does not fit
    assert all(math.isfinite(n) and n >= 0 for n in numbers(data))
    end = account.cycles * (1 + PART)
    busy = [0.0] * account.ipus
    for step in account.steps:
        assert 0 <= step.ipu < account.ipus
        assert 1 <= step.tiles <= account.machine.tiles, step
        assert step.cycles == math.ceil(step.cycles) and step.number >= 1
        if step.times:
            assert step.start + step.cycles <= end, step
        busy[step.ipu] += step.all_cycles
    # nobody works longer than all of it takes, and somebody works all the time
    assert max(busy) <= end
    assert account.cycles <= sum(busy) * (1 + PART)
    assert account.cycles == pytest.approx(sum(busy)) or account.ipus > 1
    assert sum(account.by_kind().values()) == pytest.approx(sum(busy))
    assert 0 <= account.estimated_share <= 1 + PART
    assert 0 <= account.utilisation <= 1 + PART
    for memory in account.memories:
        check_memory(memory)
    for one in account.pipelines:
        assert 0 <= one.bubble <= 1 and list(one.ends) == sorted(one.ends)
        assert one.ends[-1] == one.cycles <= end
        assert one._found["start"] + one.cycles <= end
        passes = sum(one.forward) + sum(one.backward) + sum(one.exchange)
        assert one.cycles <= one.micro_batches * passes * (1 + PART)


def same(a: Account, b: Account) -> bool:
    return a.to_json() == b.to_json()


# --- programs: ops, loops, branches, arrays, gradients of gradients -------------------


def check_program(seed: int) -> None:
    """Also: the account changes nothing of the program that is compiled."""
    rng = random.Random(seed)
    program = generate(seed)
    namespace = load(program.source(), f"account {seed}")
    values = [np.array(v, np.float64) for v in program.inputs.values()]
    options = options_of(rng)
    request = request_of(options)
    with tf.device("/CPU:0"):
        forms = _Check(namespace["loss"], values, namespace)
        forms.trace()  # which makes variables
        alone = forms.compile(forms.trace())
        asked = forms.compile(forms.trace(), ipu=request)
        assert alone.account is None and asked.account is not None
        assert asked.text == alone.text
        check_account(Account(options["machine"], asked.account))
        if seed % 8 == 0:
            one, other = (forms.run_program(p, values) for p in (alone, asked))
            for name in one:
                for a, b in zip(one[name], other[name], strict=True):
                    assert a.tobytes() == b.tobytes(), name
        assert repr(forms.trace().account(request)) == repr(asked.account)
        # what is not accounted for, since it is small, would have fitted
        unasked = forms.compile(forms.trace(), ipu=(*request[:-1], False))
        fits = all(m.fits for m in Account(options["machine"], asked.account).memories)
        assert fits or unasked.account is not None
    linecache.cache.pop(f"<fuzz account {seed}>", None)


@pytest.mark.parametrize("block", range(2))
def test_random_programs(block: int) -> None:
    for seed in range(20 * block, 20 * block + 20):
        check_program(seed)


# --- networks -------------------------------------------------------------------------


class Network:
    """Layers of a seed for any batch, in one dtype, and their least arithmetic."""

    def __init__(self, rng: random.Random) -> None:
        self.dtype = rng.choice(["float16", "float32"])
        self.rng = np.random.default_rng(rng.randrange(1000))
        self.variables: list[Any] = []
        self.is_trained = rng.random() < 0.6
        edge, channels = rng.randint(4, 20), rng.choice([1, 3, 16])
        self.shape = (edge, edge, channels)
        self.layers: list[tuple[str, Any]] = []
        for _ in range(rng.randint(0, 3)):
            wide = rng.choice([1, 4, 24, 64])
            kernel = rng.randint(1, 3)
            self.layers.append(("conv", self._weight(kernel, kernel, channels, wide)))
            channels = wide
            self.layers.append((rng.choice(["relu", "tanh", "norm", "none"]), None))
        self.layers.append(("flat", None))
        inner = edge * edge * channels
        for _ in range(rng.randint(1, 3)):
            wide = rng.choice([1, 10, 100, 257])
            self.layers.append(("dense", self._weight(inner, wide)))
            inner = wide
            kinds = ["relu", "softmax", "loop", "branch", "transpose", "none"]
            self.layers.append((rng.choice(kinds), None))

    def _weight(self, *shape: int) -> Any:
        value = self.rng.normal(size=shape, scale=0.1).astype(self.dtype)
        self.variables.append(tf.Variable(value))
        return self.variables[-1]

    def forward(self, x: Any) -> Any:
        for kind, weight in self.layers:
            if kind == "conv":
                x = tf.nn.conv2d(x, weight, 1, "SAME")
            elif kind == "dense":
                x = tf.matmul(x, weight)
            elif kind == "flat":
                x = tf.reshape(x, [x.shape[0], -1])
            elif kind == "norm":
                mean = tf.reduce_mean(x, [0, 1, 2])
                x = (x - mean) * tf.math.rsqrt(tf.reduce_mean((x - mean) ** 2) + 0.1)
            elif kind == "loop":
                x = tf.while_loop(
                    lambda i, _: i < 3, lambda i, h: (i + 1, tf.sin(h)), [0, x]
                )[1]
            elif kind == "branch":
                x = tf.cond(
                    tf.reduce_sum(x) > 0, lambda x=x: tf.sin(x), lambda x=x: x * 2
                )
            elif kind == "transpose":
                x = tf.transpose(tf.concat([tf.transpose(x)[:1]] * x.shape[1], 0))
            elif kind != "none":
                x = getattr(tf.nn, kind)(x)
        return x

    def step(self, x: Any) -> Any:
        if not self.is_trained:
            return self.forward(x)
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(self.forward(x) ** 2)
        gradients = tape.gradient(loss, self.variables)
        for variable, gradient in zip(self.variables, gradients, strict=True):
            if gradient is not None:
                variable.assign_sub(gradient * 0.1)
        return loss

    def spec(self, batch: int) -> Any:
        return tf.TensorSpec((batch, *self.shape), self.dtype)

    def flops(self, batch: int) -> float:
        """Of the forward products; those of windows at the edges count for what lies
        inside."""
        positions = self.shape[0] * self.shape[1]
        done = 0.0
        for kind, weight in self.layers:
            if kind == "dense":
                done += 2.0 * batch * math.prod(weight.shape)
            elif kind == "conv" and weight.shape[0] == 1:
                done += 2.0 * batch * positions * math.prod(weight.shape)
        return done


def check_verdict(
    network: Network, batch: int, options: dict[str, Any], tile_bytes: float
) -> None:
    """Who compiles hears of what does not fit, however early that is known."""
    machine = options["machine"]
    fields = {name: getattr(machine, name) for name in Machine.fields()}
    fields["tile_bytes"] = tile_bytes
    given = {**options, "machine": Machine("bow", **fields)}
    told, asked = (
        trace_alone(network.step, [network.spec(batch)])
        .compile(ipu=(*request_of(given)[:-1], is_for_all))
        .account
        for is_for_all in (False, True)
    )
    (memory,) = Account(given["machine"], asked).memories
    assert (told is None) == memory.fits, (tile_bytes, memory)


PRODUCTS = re.compile(r"(matmul|conv\w*): (amp|slic|vmac|hmac|outer)$")


def check_network(seed: int) -> None:
    rng = random.Random(seed)
    options = options_of(rng)
    network = Network(rng)
    batch = rng.choice([1, 2, 5, 16])
    account = estimate(network.step, network.spec(batch), **options)
    check_account(account)
    assert account.samples == batch * options["replicas"]
    machine = options["machine"]
    products = [s for s in account.steps if PRODUCTS.search(s.name)]
    rate = FLOPS[network.dtype] * machine.tiles
    done = sum(step.all_cycles for step in products) * rate
    assert done >= network.flops(batch) * (1 + network.is_trained * 0.5)
    size = sum(
        bytes_of(f"{network.dtype}{v.shape.as_list()}".replace(" ", ""))
        for v in network.variables
    )
    assert size <= account.memory.variables <= size + 64
    for share in (0.6, 1.0, 1.1, 1.6, 3.0):
        check_verdict(network, batch, options, share * account.memory.max_tile)
    # the same again, with room for everything more samples never take less
    assert same(account, estimate(network.step, network.spec(batch), **options))
    roomy = {**options, "machine": Machine(rng.choice(MACHINES), tile_bytes=10**9)}
    few, many = (
        estimate(network.step, network.spec(n), **roomy) for n in (batch, 2 * batch)
    )
    assert few.cycles <= many.cycles
    assert few.memory.live <= many.memory.live
    # what is live does not depend on the machine; more tiles have less of it each
    wider = Machine("bow", tiles=machine.tiles * 2)
    wide = estimate(network.step, network.spec(batch), machine=wider)
    memory = account.memory
    for one in (few.memory, wide.memory):
        assert (one.variables, one.live) == (memory.variables, memory.live)
    tiles = [(one.variables + one.live) / one.tiles for one in (wide.memory, memory)]
    assert tiles[0] <= tiles[1]


@pytest.mark.parametrize("block", range(2))
def test_random_networks(block: int) -> None:
    for seed in range(25 * block, 25 * block + 25):
        check_network(seed)


@pytest.mark.parametrize("seed", [314, 360, 418, 1725, 8332])
def test_networks_that_once_failed(seed: int) -> None:
    """Verdicts where no plan fits into its share; a slab that was too small."""
    check_network(seed)


def test_threads_share_plans() -> None:
    """Two threads that account the same programs at once find what one does."""
    cases = []
    for seed in range(100, 112):
        rng = random.Random(seed)
        request = request_of(options_of(rng))
        network = Network(rng)
        step, spec = network.step, network.spec(7)
        traces = [trace_alone(step, [spec]) for _ in range(3)]
        cases.append((request, traces))
    with ThreadPoolExecutor(2) as pool:
        found = list(
            pool.map(
                lambda which: [repr(t[which].account(r)) for r, t in cases], range(2)
            )
        )
    assert found[0] == found[1] == [repr(t[2].account(r)) for r, t in cases]


# --- single ops, by their bytes and arithmetic ----------------------------------------


@pytest.mark.parametrize("seed", range(40))
def test_steps_are_bounded(seed: int) -> None:
    rng = random.Random(seed)
    machine = machine_of(rng)
    dtype = rng.choice(["float16", "float32"])
    rows, columns = (rng.choice([1, 3, 64, 1000]) for _ in range(2))
    spec = tf.TensorSpec([rows, columns], dtype)
    count, size = rows * columns, tf.as_dtype(dtype).size
    each = count * size / machine.tiles

    account = estimate(lambda x: tf.nn.relu(x * x), spec, machine=machine)
    check_account(account)
    for step in account.steps:
        assert step.cycles >= count / machine.tiles / (8 / size)

    moved = estimate(lambda x: tf.concat([x, x], 0), spec, machine=machine)
    check_account(moved)
    rates = {"exchange": machine.exchange_bytes, "copy": machine.copy_bytes}
    for step in moved.steps:
        if step.kind == "sync":
            assert step.cycles == machine.exchange_cycles
        else:
            assert step.cycles >= 2 * each / rates[step.kind]

    total = estimate(tf.reduce_sum, spec, machine=machine)
    check_account(total)
    sums = [step.cycles for step in total.steps if step.kind == "compute"]
    assert not sums or sum(sums) >= count / machine.tiles / (8 / size)


# --- sizes of nothing, loops that do not turn -----------------------------------------


@pytest.mark.parametrize(
    "function",
    [
        tf.nn.softmax,
        tf.nn.relu,
        tf.transpose,
        tf.reduce_mean,
        lambda x: tf.matmul(x, tf.transpose(x)),
        lambda x: tf.matmul(x, x, transpose_a=True),
        lambda x: tf.nn.max_pool2d(tf.reshape(x, [-1, 2, 2, 1]), 2, 2, "VALID"),
        lambda x: tf.concat([x, x], 0),
        lambda x: tf.math.unsorted_segment_sum(x, tf.zeros([0], tf.int32), 3),
    ],
)
def test_nothing_takes_no_tiles(function: Any) -> None:
    check_account(estimate(function, tf.TensorSpec([0, 4])))


@pytest.mark.parametrize("turns", [0, 1, 3])
def test_steps_of_loops_have_starts(turns: int) -> None:
    weight = tf.Variable(np.ones((8, 8), np.float32))

    def loop(x: Any) -> Any:
        for _ in tf.range(turns):
            x = tf.tanh(x @ weight)
        return tf.sin(x)

    account = estimate(tf.function(loop), tf.TensorSpec([4, 8]))
    check_account(account)
    assert {step.times for step in account.steps if "matmul" in step.name} == {turns}


def test_products_too_large_to_plan_are_estimated() -> None:
    specs = tf.TensorSpec([2**41, 4]), tf.TensorSpec([4, 4])
    account = estimate(tf.matmul, *specs)
    check_account(account)
    assert account.estimated_share == 1
    rate = FLOPS["float32"] * account.machine.tiles
    assert account.cycles * rate >= 2.0**41 * 32


# --- pipelines ------------------------------------------------------------------------


def check_pipeline(seed: int) -> None:
    case = pipelines.case_of(seed)
    rng = random.Random(seed)
    options = options_of(rng)
    pipelines.attach(case)
    model = pipelines.Model(case)
    optimizer = keras.optimizers.SGD(0.05, momentum=0.9)

    def run() -> None:
        outfeed = pipelines.ipu.ipu_outfeed_queue.IPUOutfeedQueue()
        pipelines.in_a_pipeline(model, pipelines.feed(case), outfeed, optimizer)

    try:
        account = estimate(run, **options)
    except ValueError as error:  # the stages have dropped what depends on variables
        assert "No gradients provided" in str(error)
        return
    check_account(account)
    [one] = account.pipelines
    assert one.micro_batches == case.count
    assert one.device_mapping == tuple(case.mapping)
    passes = [a + b for a, b in zip(one.forward, one.backward, strict=True)]
    for ipu in set(case.mapping):
        work = sum(p for p, at in zip(passes, case.mapping, strict=True) if at == ipu)
        assert work * case.count <= one.cycles * (1 + PART)
    if not any(case.offload):
        assert all(memory.remote == 0 for memory in account.memories)
        assert all(step.kind != "remote" for step in account.steps)
    again = estimate(run, **options)
    assert same(account, again)


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    yield
    pipelines.attach(None)


@pytest.mark.parametrize("block", range(2))
def test_random_pipelines(block: int) -> None:
    for seed in range(20 * block, 20 * block + 20):
        check_pipeline(seed)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(40))
def test_many(block: int) -> None:
    for seed in range(1000 + 20 * block, 1000 + 20 * block + 20):
        check_program(seed)
        check_network(seed)
        check_pipeline(seed)


if __name__ == "__main__":
    for check in (check_program, check_network, check_pipeline):
        check(int(sys.argv[1]))
