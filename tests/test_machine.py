"""The machine model: chips as data, and plans of products against measurements,
bounds, and a search that tries everything."""

from __future__ import annotations

import gc
import itertools
import json
import math
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from benchmarks import machine as accuracy
from op_cases import calls

import ipu
from ipu import _core, keras, tf
from ipu.machine import Machine, ProductPlan, estimate, last_account

MACHINES = sorted(_core.machine_chips())
PRECISIONS = [("float16", "float16"), ("float16", "float32"), ("float32", "float32")]


def test_plans_are_near_measurements() -> None:
    errors = accuracy.errors()
    assert set(accuracy.LIMITS) <= set(errors)
    for group, (median, high) in accuracy.LIMITS.items():
        assert len(errors[group]) >= (5 if group == "sum" else 40)
        assert np.median(errors[group]) <= median, group
        assert np.quantile(errors[group], 0.9) <= high, group


def test_peaks_of_large_products() -> None:
    """The best that was measured on a GC2 (arXiv:1912.03413)."""
    gc2 = Machine("gc2")
    for dtype, measured in (("float16", 58.9e12), ("float32", 18.9e12)):
        plan = gc2.plan_matmul(2688, 2688, 2688, dtype=dtype)
        assert 0.7 < plan.flops / plan.seconds / measured < 1.3


# --- the search against everything ---------------------------------------------------


def splits(extents: tuple[int, ...], tiles: int) -> Any:
    for parts in itertools.product(*(range(1, n + 1) for n in extents)):
        if math.prod(parts) <= tiles:
            yield parts


@pytest.mark.parametrize("seed", range(30))
def test_no_split_of_all_is_better(seed: int) -> None:
    """Tries every split into parts, with every number of serial ones, on few tiles."""
    rng = np.random.default_rng(seed)
    precision = int(rng.integers(3))
    units = int(rng.choice([2, 4, 8]))
    machine = Machine(
        str(rng.choice(MACHINES)),
        tiles=int(rng.integers(1, 14)),
        tile_bytes=int(rng.choice([3000, 20_000, 600_000])),
        units_half=units,
        units_mixed=units,
        units_float=units,
    )
    window = bool(rng.integers(2))
    kernel = (int(rng.integers(2, 4)), int(rng.integers(1, 4))) if window else (1, 1)
    batch, rows, columns = (int(n) for n in rng.integers(1, 6, 3))
    if not window:  # where the planner flattens the field
        batch, rows, columns = 1, batch * rows * columns, 1
    groups = int(rng.choice([1, 1, 2, 5]))
    k, n = int(rng.integers(2, 60)), int(rng.integers(1, 30))
    field = (rows, columns)
    product = (precision, batch, groups, k, n, field, field, kernel, (1, 1))
    chip = machine._chip
    share = 0.6
    vertex, parts, serial, axes, cost = _core.machine_plan_product(chip, product, share)
    grain = (16, 16, 8)[precision]
    vertices = {"amp": 0, "vmac": 1, "hmac": 2, "outer": 3, "slic": 4}
    again = _core.machine_product_cost(
        chip, product, vertices[vertex], parts, serial, axes
    )
    assert again == cost
    limit = math.inf
    for power in range(40):
        if cost["bytes"] <= (limit := share * 2**power * machine.tile_bytes):
            break
    best = math.inf
    # the others are for one input channel
    kinds = [(kind, axes) for kind in (0, 2) for axes in range(4)]
    for kind, axes in kinds:
        expanded = [i for i in range(2) if axes >> i & 1]
        if kind == 2 and (axes or k >= grain):
            continue
        if expanded and (k % grain == 0 or min(kernel[i] for i in expanded) == 1):
            continue
        if any(field[i] == 1 for i in expanded):
            continue
        inner = k * math.prod(kernel[i] for i in expanded)
        left = [1 if i in expanded else kernel[i] for i in range(2)]
        outer: tuple[int, ...] = (batch, rows, columns)
        if math.prod(left) == 1:
            outer = (1, batch * rows * columns, 1)
        wide = -(-n // units) if kind == 0 else n
        deep = -(-inner // grain) if kind == 0 else inner
        divisors = [[t for t in range(1, n + 1) if n % t == 0] for n in (deep, wide)]
        for turns in itertools.product(*divisors):
            extents = (*outer, groups, left[0])
            extents += (deep // turns[0], wide // turns[1])
            if math.prod(min(e, int(machine.tiles)) for e in extents) > 60_000:
                continue
            for split in splits(
                tuple(min(e, int(machine.tiles)) for e in extents), int(machine.tiles)
            ):
                one = _core.machine_product_cost(
                    chip, product, kind, split, turns, axes
                )
                if one["bytes"] <= limit:
                    best = min(best, one["cycles"])
    assert cost["cycles"] <= 1.01 * best


# --- what holds of every plan ---------------------------------------------------------


def random_plan(rng: np.random.Generator, **fields: float) -> ProductPlan:
    dtype, partials = PRECISIONS[rng.integers(3)]
    machine = Machine(str(rng.choice(MACHINES)), **fields)
    sizes = [int(2 ** rng.uniform(0, 11)) for _ in range(3)]
    if rng.integers(2):
        return machine.plan_matmul(
            *sizes, batch=int(rng.integers(1, 9)), dtype=dtype, partials=partials
        )
    groups = int(rng.choice([1, 1, 4]))
    channels, filters = (groups * int(2 ** rng.uniform(0, 8)) for _ in range(2))
    edge = int(rng.integers(3, 60))
    return machine.plan_convolution(
        [int(rng.integers(1, 9)), edge, edge + 3, channels],
        [int(rng.integers(1, 4)), int(rng.integers(1, 4)), channels // groups, filters],
        strides=int(rng.integers(1, 3)),
        padding=str(rng.choice(["same", "valid"])),
        groups=groups,
        dtype=dtype,
        partials=partials,
    )


@pytest.mark.parametrize("seed", range(60))
def test_bounds_of_plans(seed: int) -> None:
    plan = random_plan(np.random.default_rng(seed))
    machine = plan.machine
    assert 1 <= plan.tiles <= machine.tiles
    assert all(n >= 1 for n in plan.parts.values()) and min(plan.serial.values()) >= 1
    assert plan.cycles == pytest.approx(
        machine.slowdown * sum(plan.cycles_by.values()), rel=1e-12
    )
    # nobody is faster than all matrix units at work in each cycle
    fastest = {"gc2": 64, "gc200": 128, "bow": 128, "c600": 128}
    [name] = [n for n in MACHINES if Machine(n) == machine]
    assert plan.cycles >= plan.flops / (fastest[name] * machine.tiles)
    assert plan.bytes > 0 and plan.cycles_by["overheads"] > 0


@pytest.mark.parametrize("seed", range(12))
def test_more_of_the_machine_never_takes_longer(seed: int) -> None:
    least = random_plan(np.random.default_rng(seed), tiles=40).cycles
    for tiles in (41, 80, 1000):
        more = random_plan(np.random.default_rng(seed), tiles=tiles).cycles
        assert more <= least
        least = more


@pytest.mark.parametrize("seed", range(12))
def test_a_larger_batch_never_takes_fewer_cycles(seed: int) -> None:
    rng = np.random.default_rng(seed)
    machine = Machine(str(rng.choice(MACHINES)))
    rows, k, n = (int(2 ** rng.uniform(0, 10)) for _ in range(3))
    cycles = [machine.plan_matmul(rows * b, k, n).cycles for b in (1, 2, 4, 8)]
    assert cycles == sorted(cycles)


def test_less_memory_is_asked_for_first() -> None:
    gc2 = Machine("gc2")
    shapes = [64, 56, 56, 64], [3, 3, 64, 64]
    plans = [
        gc2.plan_convolution(*shapes, dtype="float16", available_memory=share)
        for share in (0.1, 0.3, 0.6)
    ]
    for plan, share in zip(plans, (0.1, 0.3, 0.6), strict=True):
        assert plan.bytes <= share * gc2.tile_bytes
    assert plans[0].cycles > plans[1].cycles >= plans[2].cycles
    # nothing fits: the bound gives way
    tiny = Machine("gc2", tile_bytes=100).plan_convolution(*shapes, dtype="float16")
    assert tiny.bytes > 200


def test_vertices() -> None:
    bow = Machine("bow")
    assert bow.plan_matmul(512, 512, 512).vertex == "amp"
    depthwise = bow.plan_convolution(
        [4, 56, 56, 64], [3, 3, 1, 64], groups=64, dtype="float16"
    )
    assert depthwise.vertex == "slic"
    first = Machine("gc2").plan_convolution(
        [4, 56, 56, 64], [3, 3, 1, 64], groups=64, dtype="float16"
    )
    assert first.vertex == "vmac"  # the first generation has no other one for them
    assert bow.plan_matmul(512, 1, 512, dtype="float16").vertex == "outer"


def test_few_channels_take_the_kernel_along() -> None:
    """Three channels leave the matrix unit idle, three times its columns less so."""
    for name in ("gc2", "bow"):
        shapes = [4, 224, 224, 3], [7, 7, 3, 64]
        plan = Machine(name).plan_convolution(*shapes, strides=2, dtype="float16")
        assert plan.vertex == "amp" and plan.expanded
        assert plan.cycles_by["copies"] > 0 and "as channels" in str(plan)
    full = Machine("bow").plan_convolution([4, 56, 56, 64], [3, 3, 64, 64])
    assert full.expanded == () and full.cycles_by["copies"] == 0


def test_serial_parts_are_sliced_and_put_together() -> None:
    shapes = [64, 56, 56, 64], [1, 1, 64, 256]
    plan = Machine("gc2").plan_convolution(*shapes, dtype="float16")
    assert plan.serial["out"] > 1
    result = 64 * 56 * 56 * 256 * 2
    assert plan.cycles_by["copies"] > result / 8 / plan.machine.tiles


def test_machines_are_values() -> None:
    assert Machine() == Machine("gc200") != Machine("bow")
    assert len({Machine("bow"), Machine("bow", tiles=1472), Machine("gc2")}) == 2
    assert Machine("bow", tiles=2944).tiles == 2944
    assert set(Machine.fields()) <= set(dir(Machine()))
    assert str(Machine("bow").plan_matmul(64, 64, 64)).startswith("amp on ")


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda m: Machine("Bow"), ValueError, "Did you mean 'bow'"),
        (lambda m: Machine("bow", tile=3), TypeError, "Did you mean 'tiles'"),
        (lambda m: Machine("bow", tiles="3"), TypeError, "must be a number"),
        (lambda m: Machine("bow", tiles=0), ValueError, "from 1 to 1048576 tiles"),
        (lambda m: Machine("bow", clock=math.nan), ValueError, "but got nan"),
        (lambda m: Machine("bow", slowdown=-1), ValueError, "from 0.1 to 100"),
        (lambda m: Machine("bow", tiles=1.5), ValueError, "a whole number of tiles"),
        (lambda m: Machine("bow", workers=2.5), ValueError, "whole number of contexts"),
        (lambda m: m.tile, AttributeError, "no attribute 'tile'"),
        (lambda m: m.plan_matmul(0, 1, 1), ValueError, "`rows` must be at least 1"),
        (lambda m: m.plan_matmul(1, 2.5, 1), TypeError, "`inner` must be an integer"),
        (lambda m: m.plan_matmul(2**50, 1, 1), ValueError, "2\\^40"),
        (
            lambda m: m.plan_convolution([2**39, 2**39, 2**39, 8], [3, 3, 8, 8]),
            ValueError,
            "at most 2\\^60 positions",
        ),
        (lambda m: m.plan_matmul(1, 1, 1, dtype="int8"), ValueError, "one of float16"),
        (
            lambda m: m.plan_matmul(1, 1, 1, available_memory=0),
            ValueError,
            "more than 0",
        ),
        (
            lambda m: m.plan_matmul(1, 1, 1, available_memory="x"),
            TypeError,
            "must be a number",
        ),
        (
            lambda m: m.plan_convolution([1, 8, 8], [3, 3, 1, 1]),
            ValueError,
            r"must be \[batch, rows, columns, channels\]",
        ),
        (
            lambda m: m.plan_convolution([1, 8, 8, 3], [3, 3, 4, 1]),
            ValueError,
            "3 channels in 1 groups",
        ),
        (
            lambda m: m.plan_convolution([1, 2, 2, 3], [3, 3, 3, 1], padding="valid"),
            ValueError,
            "does not fit",
        ),
        (
            lambda m: m.plan_convolution([1, 2, 2, 3], [3, 3, 3, 1], padding="full"),
            ValueError,
            "'same' or 'valid'",
        ),
    ],
)
def test_wrong_arguments(call: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        call(Machine("bow"))


PATTERNS = ["copy", "gather", "scatter", "all_to_all", "broadcast"]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_exchanges_are_bounded_by_their_bytes(pattern: str) -> None:
    for name in MACHINES:
        machine = Machine(name)
        last = 0.0
        for tiles in (2, 16, 1216):
            for size in (4, 160, 100_000):
                cycles = machine.exchange(pattern, tiles, size)
                words = size / 4 * (1 if pattern in ("copy", "broadcast") else tiles)
                words /= 2 if pattern == "broadcast" else 1
                assert words < cycles <= words + 300
                if pattern != "all_to_all":
                    far = [
                        machine.exchange(pattern, tiles, size, ipus=n) for n in (2, 4)
                    ]
                    assert cycles < far[0] < far[1]
            assert machine.exchange(pattern, tiles, 4) >= last
            last = machine.exchange(pattern, tiles, 4)


@pytest.mark.parametrize(
    "arguments, error, text",
    [
        (("gathr", 2, 4), ValueError, 'no pattern "gathr"'),
        (("gather", 0, 4), ValueError, "`tiles` must be at least 1"),
        (("gather", 2.5, 4), TypeError, "`tiles` must be an integer"),
        (("gather", 2, 0), ValueError, "`message_bytes` must be at least 1"),
        (("gather", 2, math.nan), ValueError, "`message_bytes` must be at least 1"),
        (("gather", 2, 4, 0), ValueError, "`ipus` must be at least 1"),
        (("all_to_all", 2, 4, 2), ValueError, "of one IPU alone"),
    ],
)
def test_wrong_exchanges(arguments: Any, error: Any, text: str) -> None:
    with pytest.raises(error, match=text):
        pattern, tiles, size, *ipus = arguments
        Machine("bow").exchange(pattern, tiles, size, ipus=ipus[0] if ipus else 1)


# --- accounts -------------------------------------------------------------------------


def convolutional() -> Any:
    return keras.Sequential(
        [
            keras.Input((28, 28, 1)),
            keras.layers.Conv2D(8, 3, activation="relu"),
            keras.layers.MaxPooling2D(),
            keras.layers.Flatten(),
            keras.layers.Dense(32, activation="relu"),
            keras.layers.Dense(10),
        ]
    )


def training(model: Any) -> Any:
    optimizer = keras.optimizers.Adam()
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    @tf.function
    def step(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            value = loss(y, model(x, training=True))
        gradients = tape.gradient(value, model.trainable_variables)
        optimizer.apply_gradients(
            zip(gradients, model.trainable_variables, strict=True)
        )
        return value

    return step


def images(batch: int) -> tuple[Any, Any]:
    return tf.TensorSpec([batch, 28, 28, 1]), tf.TensorSpec([batch], tf.int32)


def test_account_of_a_training_step() -> None:
    model = convolutional()
    before = [w.numpy().copy() for w in model.weights]
    step = training(model)
    account = estimate(step, *images(32), machine="bow")
    for old, new in zip(before, model.weights, strict=True):
        assert np.array_equal(old, new.numpy())  # nothing was run
    assert account.samples == 32
    assert account.samples_per_second == 32 / account.seconds
    assert {"conv", "conv_grad_filter", "matmul", "adam_update"} <= set(account.by_op())
    names = {layer.rpartition("/")[2] for layer in account.by_layer()}
    assert {model.layers[i].name for i in (0, 1, 3, 4)} <= names
    for sums in (account.by_layer(), account.by_kind(), account.by_line()):
        assert sum(sums.values()) == pytest.approx(account.cycles)
        assert list(sums.values()) == sorted(sums.values(), reverse=True)
    assert all(__file__ in line for line in account.by_line() if line)
    memory = account.memory
    # Adam keeps two more of each; its step is an integer
    weights = 4 * sum(int(np.prod(w.shape)) for w in model.weights)
    assert 3 * weights <= memory.variables <= 3 * weights + 64
    assert memory.fits and memory.live >= 32 * 26 * 26 * 8 * 4
    assert memory.by_tensor[0].bytes >= memory.by_tensor[-1].bytes
    again = estimate(training(model), *images(32), machine="bow")
    assert [s.cycles for s in again.steps] == [s.cycles for s in account.steps]


def test_account_of_a_forward_pass_has_less() -> None:
    model = convolutional()
    forward = estimate(model, images(32)[0])
    step = estimate(training(model), *images(32))
    assert forward.cycles < step.cycles
    assert forward.memory.variables < step.memory.variables
    assert estimate(model, images(64)[0]).cycles > forward.cycles


def test_accounts_of_models() -> None:
    model = convolutional()
    with pytest.raises(RuntimeError, match="compile"):
        model.account()
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    account = model.account(batch_size=16, machine="bow")
    assert account.samples == 16 and {"conv", "argmax"} <= set(account.by_op())
    given = model.account(*images(16), machine="bow")
    assert given.cycles == account.cycles
    predict = model.account(batch_size=16, training=False, machine="bow")
    forward = estimate(model, images(16)[0], machine="bow")
    host = predict.by_kind()["stream"]  # from the infeed, to the outfeed
    assert predict.cycles == forward.cycles + host < account.cycles
    model.set_gradient_accumulation_options(4)
    four = model.account(batch_size=16, machine="bow")
    assert four.samples == 64 and account.cycles < four.cycles < 4 * account.cycles
    model.set_gradient_accumulation_options(1)
    model.fit(np.zeros((16, 28, 28, 1)), np.zeros(16), batch_size=16, verbose=0)
    assert model.account(batch_size=16, machine="bow").cycles == account.cycles
    unbuilt = keras.Sequential([keras.layers.Dense(2)])
    unbuilt.compile("sgd", "mse")
    with pytest.raises(ValueError, match="Give `x`"):
        unbuilt.account()
    spec = tf.TensorSpec([8, 4])
    assert unbuilt.account(spec, tf.TensorSpec([8, 2])).samples == 8


PROGRAM = """
import numpy as np
import tensorflow as tf
model = tf.keras.Sequential([tf.keras.layers.Dense(4, input_shape=(8,))])
model.compile("adam", "mse")
x, y = np.zeros((100, 8)), np.zeros((100, 4))
if {of_data_set}:
    model.fit(tf.data.Dataset.from_tensor_slices((x, y)).batch(20))
else:
    model.fit(x, y, batch_size=20)
print("trained")
"""


def test_accounts_of_what_fit_takes() -> None:
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)])
    model.compile("sgd", "mse")
    cycles = model.account(batch_size=np.int64(8)).cycles
    x, y = np.ones((8, 4)), np.ones((8, 2))
    data = tf.data.Dataset.from_tensor_slices((x, y)).batch(8, drop_remainder=True)
    spec = tf.TensorSpec([8, 4])
    for given in ((x, y), (data,), (spec,), (spec, tf.TensorSpec([8, 2]))):
        assert model.account(*given).cycles == cycles
    assert model.account(data, training=False).samples == 8
    for batch in (0, -1, "8", True, 2.5):
        with pytest.raises(ValueError, match="`batch_size` must be a positive"):
            model.account(batch_size=batch)
    with pytest.raises(ValueError, match="as two arguments"):
        model.account((x, y))
    with pytest.raises(ValueError, match="Leave out `y`"):
        model.account(data, y)
    with pytest.raises(TypeError, match="must be arrays, tensors"):
        model.account(np.float32(1.0))
    with pytest.raises(TypeError, match="must be arrays, tensors"):
        model.account([[1.0, 2.0, 3.0, 4.0]], y)
    with pytest.raises(TypeError, match="must be arrays, tensors"):
        model.account(SimpleNamespace(shape=(8, 4)), y)
    for inputs in ((x,), [x]):
        assert model.account(inputs, y).cycles == cycles
    assert model.account((x,), training=False).samples == 8
    parts = [keras.Input((2,), name="a"), keras.Input((2,), name="b")]
    two = keras.Model(parts, keras.layers.Dense(2)(keras.layers.Add()(parts)))
    two.compile("sgd", "mse")
    cycles = two.account(batch_size=8).cycles
    for given in (((y, y),), ([y, y],), ([y, y], y), ({"a": y, "b": y}, y)):
        assert two.account(*given).cycles == cycles
    assert two.account([y, y], training=False).samples == 8
    outputs = [keras.layers.Dense(2)(parts[0]), keras.layers.Dense(1)(parts[0])]
    two = keras.Model(parts[0], outputs)
    two.compile("sgd", "mse")
    cycles = two.account(batch_size=8).cycles
    assert two.account(y, [y, y[:, :1]]).cycles == cycles
    unbuilt = keras.Sequential([keras.layers.Dense(2)])
    unbuilt.compile("sgd", "mse")
    with pytest.raises(ValueError, match="as two arguments"):
        unbuilt.account((x, y))
    with pytest.raises(ValueError, match="targets of the outputs are not known"):
        unbuilt.account(x)
    with pytest.raises(ValueError, match="An account needs all sizes"):
        unbuilt.account(tf.TensorSpec([None, 4]), y)
    sparse = keras.losses.sparse_categorical_crossentropy
    model.compile("sgd", sparse)
    cycles = model.account(batch_size=8).cycles
    model.compile("sgd", "sparse_categorical_crossentropy")
    assert model.account(batch_size=8).cycles == cycles


@pytest.mark.parametrize("of_data_set", [False, True])
def test_the_command_accounts_the_first_fit(tmp_path: Path, of_data_set: bool) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM.format(of_data_set=of_data_set))
    command = [sys.executable, "-m", "ipu", "account", "--machine", "bow"]
    size = ["--batch-size", "20"]  # a last batch may be smaller
    done = subprocess.run(
        [*command, "--what-if", "tiles=100", "--json", *size, str(program)],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    data = json.loads(done.stdout)  # and nothing is trained
    assert data["machine"]["tiles"] == 100 and data["samples"] == 20
    if of_data_set:
        return
    wrong = subprocess.run(
        [*command, "--what-if", "tile=3", str(program)], capture_output=True, text=True
    )
    assert wrong.returncode == 2 and "Did you mean 'tiles'" in wrong.stderr
    program.write_text("print(1)")
    none = subprocess.run([*command, str(program)], capture_output=True, text=True)
    assert none.returncode == 1 and "no model's fit" in none.stderr


DATA = {
    "sequence": "type('D', (keras.utils.PyDataset,), {'__len__': lambda self: 3, "
    "'__getitem__': lambda self, i: (x, y)})()",
    "generator": "iter([(x, y)])",
    "frame": "pandas.DataFrame(x), pandas.DataFrame(y), 20",
}


@pytest.mark.parametrize("data", DATA)
def test_the_command_knows_all_data_of_fit(
    main: Any, tmp_path: Path, capsys: Any, data: str
) -> None:
    if data == "frame":
        pytest.importorskip("pandas")
    program = tmp_path / "program.py"
    program.write_text(
        "import numpy as np\n"
        f"{'import pandas' if data == 'frame' else ''}\n"
        "from ipu import keras\n"
        "model = keras.Sequential([keras.layers.Dense(3)])\n"
        "model.compile('sgd', 'mse')\n"
        "x, y = np.zeros((20, 8)), np.zeros((20, 3))\n"
        f"model.fit({DATA[data]})\n"
    )
    with pytest.raises(SystemExit):
        main(["account", "--json", str(program)])
    found = json.loads(capsys.readouterr().out)
    assert found["samples"] == 20 and "matmul" in str(found["steps"])


def test_equal_steps_share_their_code() -> None:
    def layers(weights: Any, x: Any) -> Any:
        for w in weights:
            x = tf.nn.relu(x @ w)
        return x

    spec = tf.TensorSpec([64, 64])
    one, many = (estimate(layers, [spec] * n, spec).memory for n in (2, 50))
    other = estimate(layers, [spec, tf.TensorSpec([64, 640])], spec).memory
    assert 0 < many.code - one.code < 48 * 200 + 2048  # calls alone
    assert other.code > one.code + 100
    assert one.max_tile >= one.code + one.temporary


def test_loops_count_their_turns() -> None:
    weights = tf.Variable(np.ones((64, 64), np.float32))

    def once(x: Any) -> Any:
        return tf.tanh(tf.matmul(x, weights))

    @tf.function
    def often(x: Any) -> Any:
        for _ in tf.range(10):
            x = once(x)
        return x

    spec = tf.TensorSpec([16, 64])
    one, ten = estimate(once, spec), estimate(often, spec)
    assert ten.by_op()["matmul"] == 10 * one.by_op()["matmul"]
    assert {step.times for step in ten.steps if "matmul" in step.name} == {10}
    assert not ten.has_unknown_turns
    assert ten.memory.live <= one.memory.live + 3 * 16 * 64 * 4  # not ten times

    @tf.function
    def unknown(x: Any) -> Any:
        while tf.reduce_sum(x) < 100.0:
            x = once(x)
        return x

    assert estimate(unknown, spec).has_unknown_turns
    assert "unknown turns" in str(estimate(unknown, spec))


def test_memory_that_does_not_fit() -> None:
    small = Machine("gc2", tile_bytes=2000)
    account = estimate(training(convolutional()), *images(32), machine=small)
    assert not account.memory.fits and "does not fit" in str(account)
    assert account.memory.max_tile > 2000


def test_accounts_as_text() -> None:
    account = estimate(convolutional(), images(4)[0])
    data = json.loads(account.to_json())
    assert data["cycles"] == account.cycles
    assert len(data["steps"]) == len(account.steps)
    text = str(account)
    for word in ("samples a second", "fullest tile", "matmul", "compute"):
        assert word in text
    assert account._repr_html_().count("<table") == 5
    assert "steps" in repr(account)
    other = estimate(convolutional(), images(8)[0])
    assert account.diff(other).splitlines()[-2].startswith("all")
    with pytest.raises(TypeError, match="must be an Account"):
        account.diff(3)  # type: ignore[arg-type]


def test_a_program_is_accounted_once() -> None:
    traced = []

    @tf.function
    def square(x: Any) -> Any:
        traced.append(x.shape)
        return x @ x

    spec = tf.TensorSpec([64, 64])
    first = square.account(spec, machine="bow")
    first.steps.clear()  # its own list
    again = square.account(spec, machine="bow")
    assert again.steps and again.cycles == first.cycles and len(traced) == 1
    assert square.account(spec).seconds != again.seconds and len(traced) == 2
    small = Machine("bow", tiles=4, tile_bytes=10_000)
    tight = [square.account(spec, machine=small) for _ in range(2)][1]
    assert not tight.memory.fits and isinstance(tight.fixes(), list)

    model = convolutional()
    model.compile("sgd", "mse")
    plain = model.account(batch_size=16)
    assert model.account(batch_size=16).memories[0] is plain.memories[0]
    assert model.account(batch_size=8).cycles != plain.cycles
    model.set_gradient_accumulation_options(4)
    assert model.account(batch_size=16).samples == 64
    model.layers[0].trainable = False
    frozen = model.account(batch_size=16)
    assert frozen.by_op().get("conv_grad_filter", 0) == 0
    model.compile("adam", "mse")
    assert "adam_update" in model.account(batch_size=16).by_op()


def test_the_last_program_that_ran() -> None:
    square = tf.function(lambda x, y=None: x @ x if y is None else x @ y)
    x = tf.ones((64, 64))
    square(x)
    assert last_account("bow").cycles == square.account(x, machine="bow").cycles
    square(x, y=tf.ones((64, 8)))
    assert last_account("bow").memory.live != square.account(x).memory.live
    model = convolutional()
    model.compile("adam", "sparse_categorical_crossentropy")
    images_given = np.zeros((32, 28, 28, 1), np.float32)
    model.fit(images_given, np.zeros(32, np.int32), batch_size=16, verbose=0)
    account = last_account("bow")
    assert "adam_update" in account.by_op() and account.samples == 16
    model.predict(images_given, batch_size=8, verbose=0)
    assert "adam_update" not in last_account().by_op()
    assert last_account(machine="gc2").machine == Machine("gc2")
    # lines of functional models are those where their layers were called
    lines = account.by_line()
    assert all(line.startswith(__file__) for line in lines if line)
    with pytest.raises(ValueError, match="There is no machine"):
        last_account("gc3")
    del model, account
    gc.collect()
    with pytest.raises(RuntimeError, match="no longer there"):
        last_account()


def test_functional_models_know_the_lines_of_their_layers() -> None:
    begin = sys._getframe().f_lineno
    image = keras.Input((32,))
    hidden = keras.layers.Dense(64, "relu", name="one")(image)
    result = keras.layers.Dense(8, name="two")(hidden)
    model = keras.Model(image, result)
    model.compile("sgd", "mse")
    account = model.account(batch_size=16)
    for name, line in (("one", begin + 2), ("two", begin + 3)):
        products = [s for s in account.steps if f"{name}/matmul" in s.name]
        assert {step.source for step in products} == {f"{__file__}:{line}"}
    lines = account.by_line()
    assert {f"{__file__}:{begin + 2}", f"{__file__}:{begin + 3}"} <= set(lines)


def parts_of(account: Any, op: str) -> list[str]:
    """The parts of an op's steps, in order: "layout of inputs" and so on."""
    names = [step.name.partition(": ") for step in account.steps]
    return [part for name, _, part in names if name.rpartition("/")[2] == op]


def test_operands_are_laid_out_for_their_product() -> None:
    spec = tf.TensorSpec([64, 256])
    weight = tf.Variable(np.ones((256, 256), np.float32))
    once = estimate(lambda x: x @ weight, spec, machine="bow")
    assert not any("layout" in step.name for step in once.steps)
    assert [one.is_in_order for one in once.memory.held] == [False]
    # a result lies as its plan leaves it, and the next product wants it otherwise
    twice = estimate(lambda x: tf.nn.relu(x @ weight) @ weight, spec, machine="bow")
    layouts = [s for s in twice.steps if "layout of inputs" in s.name]
    assert [s.kind for s in layouts] == ["sync", "exchange", "copy"]
    each = 64 * 256 * 4 / 512
    sync, sent, copied = (step.cycles for step in layouts)
    assert (sync, sent) == (240, each / 4)
    assert copied == 205 + 6 * 14 + each / 8
    assert not any("layout of weights" in step.name for step in twice.steps)
    # element-wise ops work where their operand lies
    made, relu = [t for t in twice.memory.tensors if t.name != "argument"][:2]
    assert (made.first_tile, made.tiles) == (relu.first_tile, relu.tiles)


@pytest.mark.parametrize(("tiles", "stages"), [(1, 0), (15, 1), (124, 2), (1000, 3)])
def test_partial_sums_of_many_tiles_meet_in_stages(tiles: int, stages: int) -> None:
    spec = tf.TensorSpec([1000 * tiles])
    account = estimate(tf.reduce_sum, spec, machine=Machine("bow", tiles=tiles))
    exchanges = [s for s in account.steps if s.kind == "exchange"]
    assert len(exchanges) == stages
    # each takes about as many words to a tile
    for step in exchanges:
        assert step.cycles <= math.ceil(tiles ** (1 / stages))


@pytest.mark.parametrize(
    ("function", "count", "dtype", "cycles"),
    [
        # restated formulas, for what one of six workers has
        (lambda x: x + x, 600, "float32", 11 + 6 * (26 + 3 * 50)),
        (lambda x: x * 2.5, 600, "float32", 11 + 6 * (26 + 4 * 50)),
        (lambda x: x / (x + x), 600, "float16", 11 + 6 * (26 + 21 * 25)),
        (tf.exp, 600, "float16", 20 + 6 * (17 + 4 * 25)),
        (tf.nn.relu, 600, "float32", 9 + 6 * (23 + 50)),
        (tf.tanh, 600, "float16", 9 + 6 * (23 + 2 * 25)),
        (lambda x: tf.cast(x, "float32"), 600, "float16", 12 + 6 * (37 + 2 * 25)),
        (lambda x: tf.cast(x, "float16"), 600, "float32", 12 + 6 * (37 + 2 * 25)),
        (lambda x: tf.argmax(x), 600, "float32", 6 * (17 + 3 * 100)),
    ],
)
def test_element_wise_ops_take_their_instructions(
    function: Any, count: int, dtype: str, cycles: float
) -> None:
    tile = Machine("bow", tiles=1)
    account = estimate(function, tf.TensorSpec([count], dtype), machine=tile)
    assert cycles + tile.launch_cycles in [step.cycles for step in account.steps]


@pytest.mark.parametrize("layer", [keras.layers.LSTM, keras.layers.GRU])
def test_recurrent_layers_loop_over_steps(layer: Any) -> None:
    model = keras.Sequential([keras.Input((20, 16)), layer(32)])
    model.compile("sgd", "mse")
    account = model.account(batch_size=8)
    loops = {step.times for step in account.steps if step.name.endswith("gates")}
    assert loops == {20}


def test_sums_that_lie_alike_are_not_sent() -> None:
    spec = tf.TensorSpec([512, 64])
    account = estimate(lambda x, y: x + y, spec, spec, machine="bow")
    assert [step.kind for step in account.steps] == ["compute"]
    other = estimate(lambda x, y: (x @ y) + (x * 2), spec, tf.TensorSpec([64, 64]))
    assert "operands" in parts_of(other, "add")


def test_loops_carry_what_they_make_to_where_it_was() -> None:
    weight = tf.Variable(np.ones((64, 64), np.float32))

    @tf.function
    def often(x: Any) -> Any:
        for _ in tf.range(10):
            x = x @ weight
        return x

    account = estimate(often, tf.TensorSpec([16, 64]))
    carried = [s for s in account.steps if s.name.endswith("carried")]
    assert {s.kind for s in carried} == {"sync", "exchange", "copy"}
    assert {s.times for s in carried} == {10}


def configured_account(model: Any, path: str = "", value: Any = None) -> Any:
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = 1
    *groups, name = path.split(".")
    at = config
    for group in groups:
        at = getattr(at, group)
    if name:
        setattr(at, name, value)
    config.configure_ipu_system()
    try:
        return model.account(batch_size=64)
    finally:
        ipu.config.reset_ipu_configuration()


@pytest.mark.parametrize(
    ("path", "value", "op"),
    [
        ("matmuls.poplar_options", {"availableMemoryProportion": "0.01"}, "matmul"),
        ("matmuls.poplar_options", {"partialsType": "half"}, "matmul"),
        ("matmuls.clear_pass_type", True, "matmul"),
        ("convolutions.poplar_options", {"availableMemoryProportion": "0.01"}, "conv"),
        ("convolutions.poplar_options", {"partialsType": "half"}, "conv"),
        ("slices.poplar_options", {"availableMemoryProportion": "0.001"}, "gather"),
        ("norms.use_stable_statistics", True, "normalize"),
        ("io_tiles.num_io_tiles", 192, "conv"),
    ],
)
def test_options_of_the_planner_change_the_account(
    path: str, value: Any, op: str
) -> None:
    layers = keras.layers
    keras.mixed_precision.set_global_policy("float16")
    try:
        if op == "gather":
            model = keras.Sequential(
                [keras.Input((256,), dtype="int32"), layers.Embedding(1000, 64)]
            )
        elif op == "matmul":
            model = keras.Sequential(
                [keras.Input((1024,)), layers.Dense(1024), layers.Dense(512)]
            )
        else:
            model = keras.Sequential(
                [
                    keras.Input((28, 28, 32)),
                    layers.Conv2D(128, 3, padding="same"),
                    layers.BatchNormalization(),
                ]
            )
    finally:
        keras.mixed_precision.set_global_policy(None)
    model.compile("sgd", "mse")
    plain, changed = configured_account(model), configured_account(model, path, value)
    assert plain.by_op()[op] != changed.by_op()[op]


@pytest.mark.parametrize("share", [0, -0.1, 1.01, 2.0, math.nan])
def test_a_share_of_a_tile_is_one(share: float) -> None:
    match = "`available_memory` must be more than 0 and at most 1"
    with pytest.raises(ValueError, match=match):
        Machine("bow").plan_matmul(4, 4, 4, available_memory=share)
    with pytest.raises(ValueError, match=match):
        estimate(tf.nn.relu, tf.TensorSpec([4]), available_memory=share)
    if math.isnan(share) or share == 0:  # poplar's 0 stands for its default
        return
    config = ipu.config.IPUConfig()
    options = {"availableMemoryProportion": str(share)}
    with pytest.raises(ValueError, match="availableMemoryProportion"):
        config.matmuls.poplar_options = options
        config.configure_ipu_system()


def test_what_has_no_account() -> None:
    with pytest.raises(ValueError, match="needs all sizes"):
        estimate(tf.nn.relu, tf.TensorSpec([None, 4]))
    with pytest.raises(TypeError, match="must be callable"):
        estimate(3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="There is no machine 'gc3'"):
        estimate(tf.nn.relu, tf.TensorSpec([4]), machine="gc3")
    with pytest.raises(ValueError, match="`partials` must be"):
        estimate(tf.nn.relu, tf.TensorSpec([4]), partials="int8")


def test_every_op_has_an_account() -> None:
    """Of each call in the table of ops alone, with its gradient where it has one."""
    inputs = calls.inputs(tf)
    seen = set()
    for line in calls.lines(calls.SMOOTH):
        names = calls.names_in(line)

        def slope(*values: Any, line: str = line, names: Any = names) -> Any:
            with tf.GradientTape() as tape:
                floats = [v for v in values if v.dtype.is_floating]
                tape.watch(floats)
                result = calls.evaluate(
                    tf, line, {**inputs, **dict(zip(names, values, strict=True))}
                )
            return result, tape.gradient(result, floats)

        account = estimate(slope, *(inputs[name] for name in names))
        assert math.isfinite(account.cycles) and account.cycles >= 0, line
        assert math.isfinite(account.memory.max_tile), line
        seen |= set(account.by_op())
    assert len(seen) > 80
