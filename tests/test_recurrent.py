# SPDX-License-Identifier: MIT
"""LSTM, GRU and what is around them: numbers, masks, states, errors, training.

A layer goes through all steps as one op, as a loop, or unrolled, and gives the same
bits each way. The expected numbers are Keras's; ``recurrent_numbers.json`` says how
they were made.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from op_cases import harness
from op_cases.model import Array, Graph
from recurrent_values import MASK, C, H, L, X, wave

import ipu
from ipu import _core, keras, tf
from ipu.tf._tensor.convert import apply

NUMBERS = json.loads(Path(__file__).with_name("recurrent_numbers.json").read_text())


# name -> layer, first states, mask
LAYERS: dict[str, tuple[Callable[[], Any], Sequence[Array], Array | None]] = {
    "lstm": (lambda: L.LSTM(2, return_sequences=True), (), None),
    "lstm_last": (lambda: L.LSTM(2, return_state=True), (H, C), MASK),
    "lstm_back": (
        lambda: L.LSTM(2, return_sequences=True, go_backwards=True),
        (),
        MASK,
    ),
    "lstm_state_mask": (lambda: L.LSTM(2, return_sequences=True), (H, C), MASK),
    "lstm_relu": (lambda: L.LSTM(2, activation="relu", use_bias=False), (), None),
    "gru": (lambda: L.GRU(2, return_sequences=True), (), None),
    "gru_before": (
        lambda: L.GRU(2, return_sequences=True, reset_after=False),
        (H,),
        MASK,
    ),
    "gru_no_bias": (lambda: L.GRU(2, use_bias=False, return_state=True), (), MASK),
    "simple": (
        lambda: L.SimpleRNN(2, return_sequences=True, return_state=True),
        (H,),
        MASK,
    ),
    "stacked": (
        lambda: L.RNN([L.LSTMCell(2), L.GRUCell(2)], return_sequences=True),
        (),
        MASK,
    ),
    "both": (lambda: L.Bidirectional(L.LSTM(2, return_sequences=True)), (), MASK),
    "both_sum": (lambda: L.Bidirectional(L.GRU(2), merge_mode="sum"), (), None),
}


def set_waves(layer: Any) -> None:
    shapes = [weight.shape for weight in layer.weights]
    layer.set_weights([wave(*s, phase=i) for i, s in enumerate(shapes)])


def results_of(
    layer: Any, states: Sequence[Array] = (), mask: Array | None = None
) -> tuple[list[Array], list[Array]]:
    """What a layer gives, and the gradients of the input and the weights."""
    x = tf.constant(X)
    more: dict[str, Any] = {}
    if mask is not None:
        more["mask"] = tf.constant(mask)
    if len(states):
        more["initial_state"] = [tf.constant(state) for state in states]
    with tf.GradientTape() as tape:
        tape.watch(x)
        made = layer(x, **more)
        parts = made if isinstance(made, list) else [made]
        loss = sum(tf.reduce_sum(tf.square(p)) * (i + 1.0) for i, p in enumerate(parts))
    gradients = tape.gradient(loss, [x, *layer.trainable_weights])
    return [p.numpy() for p in parts], [g.numpy() for g in gradients]


@pytest.mark.parametrize("name", LAYERS)
def test_numbers_of_keras(name: str) -> None:
    make, states, mask = LAYERS[name]
    layer = make()
    layer.build(X.shape)
    layer.built = True
    set_waves(layer)
    parts, gradients = results_of(layer, states, mask)
    for got, wanted in zip(parts, NUMBERS[name]["results"], strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=2e-6)
    found = [float((g.astype(float) ** 2).sum()) for g in gradients]
    np.testing.assert_allclose(found, NUMBERS[name]["squares"], rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "GRU before", "SimpleRNN"])
@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("started", [False, True])
@pytest.mark.parametrize("zeroed", [False, True])
def test_one_op_a_loop_and_copies_give_the_same_bits(
    kind: str, backwards: bool, masked: bool, started: bool, zeroed: bool
) -> None:
    flags: dict[str, Any] = {
        "return_sequences": True,
        "return_state": True,
        "go_backwards": backwards,
        "zero_output_for_mask": zeroed,
    }
    of_kind = {"reset_after": False} if kind == "GRU before" else {}
    make = getattr(L, kind.split()[0])
    whole = make(5, **of_kind, **flags)
    copies = make(5, **of_kind, unroll=True, **flags)
    cell = type(whole.cell).from_config(whole.cell.get_config())
    loop = L.RNN(cell, **flags)
    states = [wave(2, 5, phase=s) for s in range(len(whole.states))] if started else []
    found = []
    for layer in (whole, copies, loop):
        layer(X)
        set_waves(layer)
        found.append(results_of(layer, states, MASK if masked else None))
    for parts, gradients in found[1:]:
        harness.same_bits(parts, found[0][0], kind)
        for got, wanted in zip(gradients, found[0][1], strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)


def test_time_major_is_the_same_with_axes_exchanged() -> None:
    for make in (L.LSTM, L.GRU):
        one = make(3, return_sequences=True)
        other = make(3, return_sequences=True, time_major=True)
        turned = np.ascontiguousarray(X.swapaxes(0, 1))
        one(X), other(turned)
        other.set_weights(one.get_weights())
        for mask in (None, MASK):
            got = other(turned, mask=None if mask is None else tf.constant(mask.T))
            wanted = one(X, mask=None if mask is None else tf.constant(mask))
            harness.same_bits([got.numpy().swapaxes(0, 1)], [wanted.numpy()], "major")


# --- states ---------------------------------------------------------------------------


def test_a_stateful_layer_goes_on_where_it_ended() -> None:
    whole = L.LSTM(3, return_sequences=True)
    parts = L.LSTM(3, return_sequences=True, stateful=True)
    expected = whole(X).numpy()
    parts.build((2, None, 3))
    parts.set_weights(whole.get_weights())
    assert len(parts.weights) == 3  # the states are none
    got = [parts(X[:, :2]).numpy(), parts(X[:, 2:]).numpy()]
    harness.same_bits([np.concatenate(got, 1)], [expected], "stateful")
    parts.reset_states()
    harness.same_bits([parts(X).numpy()], [expected], "after a reset")
    parts.reset_states([H[:, :1].repeat(3, 1), C[:, :1].repeat(3, 1)])
    assert np.abs(parts(X).numpy() - expected).max() > 1e-3


def test_stateful_layers_in_fit_and_predict() -> None:
    model = keras.Sequential(
        [L.GRU(3, stateful=True, batch_input_shape=(2, 4, 3)), L.Dense(1)]
    )
    first, second = (model.predict(X, batch_size=2) for _ in range(2))
    assert np.abs(first - second).max() > 1e-4
    model.reset_states()
    harness.same_bits([model.predict(X, batch_size=2)], [first], "after a reset")
    model.compile("sgd", "mse")
    model.fit(X, np.ones((2, 1), "f"), batch_size=2, epochs=2, verbose=0)


def test_states_come_out_and_go_in() -> None:
    x = keras.Input((4, 3))
    _, h, c = L.LSTM(5, return_state=True)(x)
    out = L.LSTM(5)(x, initial_state=[h, c])
    other = L.LSTM(5)([x, h, c])
    model = keras.Model(x, [out, other])
    assert [o.shape for o in model(X)] == [(2, 5), (2, 5)]
    twin = type(model).from_config(model.get_config())
    twin.set_weights(model.get_weights())
    for got, wanted in zip(twin(X), model(X), strict=True):
        harness.same_bits([got.numpy()], [wanted.numpy()], "config")


def test_a_cell_of_the_users() -> None:
    class Sums(keras.layers.Layer):
        state_size = 3

        def call(
            self, inputs: Any, states: Any, constants: Any = None
        ) -> tuple[Any, Any]:
            total = states[0] + inputs
            if constants is not None:
                total = total + constants[0]
            return total * 2.0, [total]

        def get_initial_state(
            self, inputs: Any = None, batch_size: Any = None, dtype: Any = None
        ) -> Any:
            return [tf.ones((batch_size, 3), dtype)]

    got = L.RNN(Sums(), return_sequences=True)(X)
    np.testing.assert_allclose(got, 2 + 2 * X.cumsum(1), rtol=1e-5, atol=1e-6)
    got = L.RNN(Sums())(X, constants=[tf.ones((2, 3))])
    np.testing.assert_allclose(got, 2 + 2 * (X + 1).sum(1), rtol=1e-5, atol=1e-6)


# --- dropout --------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "SimpleRNN"])
def test_dropout_drops_in_training_and_alike_in_all_steps(kind: str) -> None:
    ones = np.ones((2, 6, 4), np.float32)
    for rates in ({"dropout": 0.5}, {"recurrent_dropout": 0.5}):
        for implementation in (1, 2):
            layer = getattr(L, kind)(16, implementation=implementation, **rates)
            plain = layer(ones).numpy()
            harness.same_bits([layer(ones, training=False).numpy()], [plain], kind)
            assert np.abs(layer(ones, training=True).numpy() - plain).max() > 1e-3
    # an input of ones that drops alike in all steps gives what smaller ones give
    layer = getattr(L, kind)(3, dropout=0.9, return_sequences=True)
    layer(ones)
    dropped = layer(ones, training=True).numpy()
    found = [
        np.abs(layer(np.tile(x, (2, 6, 1))).numpy() - dropped)[0].max() < 1e-5
        for bits in range(16)
        for x in [np.array([bits >> k & 1 for k in range(4)], "f") * np.float32(10)]
    ]
    assert any(found)


# --- shapes and bits of the ops -------------------------------------------------------

SIZES = [(1, 1, 1), (2, 7, 3), (3, 17, 16), (4, 31, 33), (2, 97, 20), (3, 5, 130)]
CLASSES = ("generic", "avx2", "avx512")


def sequence(op: str, size: Sequence[int], dtype: str, axis: int, masked: bool) -> Any:
    """The op and its gradient, with inputs: (text, inputs) of one graph."""
    steps, batch, units = size
    rng = np.random.default_rng(sum(size))
    lead = (batch, steps) if axis else (steps, batch)
    gates = 4 if op == "lstm" else 3
    states = 2 if op == "lstm" else 1
    graph = Graph()
    inputs = [
        (rng.standard_normal(s) * 0.5).astype(dtype)
        for s in (
            (*lead, gates * units),
            (units, gates * units),
            *[(batch, units)] * states,
            *([(gates * units,)] if op == "gru" and masked else []),
            (*lead, units),
            *[(batch, units)] * states,
        )
    ]
    mask = rng.random(lead) < 0.7
    names = [graph.param((x.dtype.name, x.shape)) for x in inputs]
    count = 2 + states + (op == "gru" and masked)
    more = [graph.param(("bool", lead))] if masked else []
    attrs = f"axis={axis}, reverse={str(masked).lower()}"
    if op == "gru":
        attrs += f", reset_after={str(masked).lower()}"
    whole, state = (dtype, (*lead, units)), (dtype, (batch, units))
    x = (dtype, (*lead, gates * units))
    kinds = [x, whole, state, whole]
    if op == "lstm":
        kinds = [x, whole, state, state, whole]
    made = graph.node(op, [*names[:count], *more], attrs, kinds)
    given = (14 if op == "lstm" else 6) + masked
    back = graph.node(
        f"{op}_grad",
        [
            *(made[0], names[1], made[-1], made[1]),
            *(*names[2 : 2 + states], *more, *names[count:]),
        ],
        f"{attrs}, given={given}",
        [x, whole, state, state] if op == "lstm" else [x, x, whole, state],
    )
    return graph.finish([*made, *back]), [*inputs, *([mask] if masked else [])]


@pytest.mark.parametrize("op", ["lstm", "gru"])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("masked", [False, True])
def test_fast_kernels_have_the_bits_of_the_reference(
    monkeypatch: pytest.MonkeyPatch, op: str, dtype: str, axis: int, masked: bool
) -> None:
    before = _core.num_threads()
    for size in SIZES:
        text, inputs = sequence(op, size, dtype, axis, masked)
        wanted = harness.run(text, inputs, reference=True)
        for name in CLASSES:
            monkeypatch.setenv("IPU_CPU_CLASS", name)
            if _core.cpu_class() != name:
                continue
            for threads in (1, 2, 3):
                ipu.set_num_threads(threads)
                got = harness.run(text, inputs)
                harness.same_bits(got, wanted, f"{op} {size} {name} {threads}")
    ipu.set_num_threads(before)


def test_float16_is_close_to_float32() -> None:
    for make in (L.LSTM, L.GRU):
        wide = make(8, return_sequences=True)
        narrow = make(8, return_sequences=True, dtype="float16")
        wide(X), narrow(X)
        narrow.set_weights(wide.get_weights())
        got = narrow(X)
        assert got.dtype == tf.float16
        np.testing.assert_allclose(got.numpy(), wide(X).numpy(), atol=4e-3)


def second_derivative(run: Callable[..., Any], given: list[Any]) -> list[Any]:
    """Of the squares of the first one, by all that is given."""
    with tf.GradientTape() as outer:
        outer.watch(given)
        with tf.GradientTape() as inner:
            inner.watch(given)
            y = run(*given)
        first = inner.gradient(y, given)
        total = tf.add_n([tf.reduce_sum(tf.square(g)) for g in first])
    return [total, *outer.gradient(total, given)]


@pytest.mark.parametrize("op", ["lstm", "gru", "gru_after"])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("masked", [False, True])
def test_second_derivatives_agree_with_differences(
    op: str, axis: int, masked: bool
) -> None:
    """In float64, of a function of all results that a program can see."""
    steps, batch, n = 3, 2, 2
    gates, after = (4 if op == "lstm" else 3), op == "gru_after"
    lead = (batch, steps) if axis else (steps, batch)
    shapes = [(*lead, gates * n), (n, gates * n), *[(batch, n)] * (gates - 2)]
    shapes += [(gates * n,)] if after else []
    rng = np.random.default_rng(len(op))
    given = [tf.constant(rng.standard_normal(s)) for s in shapes]
    mask = [tf.constant(rng.random(lead) < 0.6)] if masked else []
    attributes = {"axis": axis, "reverse": masked}
    attributes |= {"reset_after": after} if gates == 3 else {}

    def run(*inputs: Any) -> Any:
        made = apply(op.removesuffix("_after"), (*inputs, *mask), attributes)
        seen = made[1:gates]  # h of all steps, the last h, of lstm the last c
        return tf.add_n([tf.reduce_sum(tf.sin(one)) for one in seen])

    _, *found = second_derivative(run, given)
    step = 1e-6
    for i, (x, got) in enumerate(zip(given, found, strict=True)):
        x = x.numpy()
        for at in [(0,) * x.ndim, (1,) * x.ndim, (-1,) * x.ndim]:
            ends = []
            for sign in (1.0, -1.0):
                moved = x.copy()
                moved[at] += sign * step
                inputs = [*given[:i], tf.constant(moved), *given[i + 1 :]]
                ends.append(float(second_derivative(run, inputs)[0]))
            wanted = (ends[0] - ends[1]) / (2 * step)
            np.testing.assert_allclose(got.numpy()[at], wanted, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_a_penalty_on_the_gradient_is_part_of_a_loss(kind: str) -> None:
    """A second derivative in a program, against layers that are unrolled."""
    layers = [getattr(L, kind)(3, unroll=unroll) for unroll in (False, True)]
    for layer in layers:
        layer(X)
    layers[1].set_weights(layers[0].get_weights())

    def penalty(layer: Any) -> list[Any]:
        @tf.function
        def run(x: Any) -> list[Any]:
            with tf.GradientTape() as outer:
                with tf.GradientTape() as inner:
                    inner.watch(x)
                    y = tf.reduce_sum(tf.square(layer(x)))
                slope = inner.gradient(y, x)
                loss = y + tf.reduce_sum(tf.square(slope))
            return outer.gradient(loss, layer.trainable_weights)

        return [g.numpy() for g in run(tf.constant(X))]

    for one, other in zip(*map(penalty, layers), strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-4, atol=1e-5)


# --- training -------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "SimpleRNN", "Bidirectional"])
def test_a_model_learns_which_sequence_has_the_token(kind: str) -> None:
    rng = np.random.default_rng(3)
    ids = rng.integers(1, 20, (128, 8)).astype(np.int32)
    ids[:, 6:] = 0  # masked
    labels = (ids == 7).any(1).astype(np.float32)[:, None]
    make = L.LSTM if kind == "Bidirectional" else getattr(L, kind)
    layer = make(16)
    model = keras.Sequential(
        [
            L.Embedding(20, 8, mask_zero=True),
            L.Bidirectional(layer) if kind == "Bidirectional" else layer,
            L.Dense(1, "sigmoid"),
        ]
    )
    optimizer = keras.optimizers.Adam(0.02)
    model.compile(optimizer, "binary_crossentropy", steps_per_execution=4)
    losses = model.fit(ids, labels, batch_size=16, epochs=25, verbose=0).history["loss"]
    assert losses[-1] < 0.3 * losses[0]


def test_regularizers_and_constraints_reach_the_weights() -> None:
    layer = L.LSTM(
        3,
        kernel_regularizer="l2",
        recurrent_constraint=keras.constraints.NonNeg(),
        activity_regularizer="l1",
    )
    layer(X)
    assert len(layer.losses) == 2
    model = keras.Sequential([layer])
    model.compile("sgd", "mse")
    model.fit(X, np.ones((2, 3), "f"), batch_size=2, verbose=0)
    assert layer.get_weights()[1].min() >= 0


# --- configurations -------------------------------------------------------------------


@pytest.mark.parametrize(
    "layer",
    [
        lambda: L.LSTM(3, "relu", go_backwards=True, dropout=0.25, implementation=1),
        lambda: L.GRU(3, reset_after=False, return_state=True, unroll=True),
        lambda: L.SimpleRNN(3, kernel_regularizer="l2", stateful=False),
        lambda: L.RNN([L.LSTMCell(3), L.SimpleRNNCell(2)], return_sequences=True),
        lambda: L.Bidirectional(L.GRU(3, return_sequences=True), merge_mode="ave"),
        lambda: L.Bidirectional(L.LSTM(3), backward_layer=L.LSTM(4, go_backwards=True)),
    ],
)
def test_configurations_make_equal_layers(layer: Callable[[], Any]) -> None:
    one = layer()
    other = L.deserialize(L.serialize(one))
    assert other.get_config() == one.get_config()
    made, again = one(X), other(X)
    other.set_weights(one.get_weights())
    again = other(X)
    for a, b in zip(tf.nest.flatten(made), tf.nest.flatten(again), strict=True):
        harness.same_bits([b.numpy()], [a.numpy()], "config")


def test_names_of_weights_are_those_of_keras() -> None:
    layer = L.Bidirectional(L.LSTM(2, name="own"), name="both")
    layer(X)
    names = [weight.name for weight in layer.weights]
    assert names[0].startswith("both/forward_own/lstm_cell")
    assert [name.split("/")[-1] for name in names] == [
        *("kernel:0", "recurrent_kernel:0", "bias:0") * 2
    ]
    assert L.GRU(2).cell._bias_shape == (2, 6)
    lstm = L.LSTM(2)
    lstm(X)
    assert lstm.get_weights()[2].tolist() == [0, 0, 1, 1, 0, 0, 0, 0]


# --- errors ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "fragment"),
    [
        (lambda: L.LSTM(0), "`units`"),
        (lambda: L.LSTM(2)(np.zeros((2, 3), "f")), "must have|expected|incompatible"),
        (lambda: L.LSTM(2)(X, mask=tf.ones((2, 3), "bool")), r"mask .*\(2, 4\)"),
        (lambda: L.LSTM(2)(X, initial_state=[tf.zeros((2, 2))]), "expects 2 state"),
        (
            lambda: L.GRU(2)(X, initial_state=[tf.zeros((3, 2))]),
            r"`initial_state`.*\(2, 2\)",
        ),
        (lambda: L.LSTM(2, stateful=True).build((None, 4, 3)), "batch size"),
        (lambda: L.RNN(object()), "`call`"),
        (lambda: L.RNN(L.Dense(2)), "`state_size`"),
        (lambda: L.StackedRNNCells([object()]), "`call`"),
        (lambda: L.Bidirectional(L.Dense(2)), "time steps"),
        (lambda: L.Bidirectional(L.LSTM(2), merge_mode="no"), "merge mode"),
        (
            lambda: L.Bidirectional(L.LSTM(2), backward_layer=L.LSTM(2)),
            "go_backwards",
        ),
        (lambda: L.LSTM(2, implementation=3), "implementation"),
    ],
)
def test_bad_arguments_are_named(call: Callable[[], Any], fragment: str) -> None:
    with pytest.raises(ValueError, match=fragment):
        call()


def test_reset_states_says_what_is_wrong() -> None:
    with pytest.raises(AttributeError, match="stateful"):
        L.LSTM(2).reset_states()
    layer = L.LSTM(2, stateful=True)
    with pytest.raises(ValueError, match="batch size"):
        layer.reset_states()
    layer(X)
    with pytest.raises(ValueError, match="expects 2 states"):
        layer.reset_states([H])
    with pytest.raises(ValueError, match="State 0"):
        layer.reset_states([H[:1], C])


@pytest.mark.parametrize(
    ("shapes", "fragment"),
    [
        (((2, 3, 9), (2, 8), (3, 2), (3, 2)), "4 \\* units"),
        (((2, 3, 8), (3, 8), (3, 2), (3, 2)), "recurrent kernel"),
        (((2, 3, 8), (2, 8), (2, 2), (3, 2)), "initial h"),
        (((2, 3, 8), (2, 8), (3, 2), (2, 2)), "initial c"),
    ],
)
def test_shapes_that_do_not_fit_the_op(shapes: Any, fragment: str) -> None:
    operands = tuple(tf.zeros(shape) for shape in shapes)
    with pytest.raises(Exception, match=fragment):
        _core.apply("lstm", operands, {"axis": 0})


def test_mixed_precision() -> None:
    policy = keras.mixed_precision.Policy("mixed_float16")
    for make in (L.LSTM, L.GRU, L.SimpleRNN):
        mixed = make(4, dtype=policy)
        narrow = make(4, dtype="float16")
        got = mixed(X)
        narrow(X)
        assert got.dtype == tf.float16
        assert {w.dtype for w in mixed.weights} == {tf.float32}
        narrow.set_weights(mixed.get_weights())
        harness.same_bits([got.numpy()], [narrow(X).numpy()], "mixed")


class Sums(L.Layer):  # type: ignore[misc,name-defined]
    """A cell of a user's, which no file knows."""

    def __init__(self, units: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.units = self.state_size = units

    def build(self, input_shape: Any) -> None:
        self.kernel = self.add_weight("kernel", (input_shape[-1], self.units))
        self.built = True

    def call(self, inputs: Any, states: Any) -> Any:
        after = tf.matmul(inputs, self.kernel) + states[0]
        return after, [after]

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "units": self.units}


@pytest.mark.parametrize("stacked", [False, True])
def test_cells_of_a_users_are_copied(stacked: bool) -> None:
    cell: Any = [Sums(3), L.GRUCell(2), Sums(4)] if stacked else Sums(4)
    layer = L.Bidirectional(L.RNN(cell))
    assert layer(X).shape == (2, 8)
    model = keras.Sequential([keras.Input((4, 3)), layer])
    other = keras.models.clone_model(model)
    assert other.predict(X).shape == (2, 8)
    cells = [one.layers[-1].backward_layer.cell for one in (model, other)]
    assert type(cells[0]) is type(cells[1])
